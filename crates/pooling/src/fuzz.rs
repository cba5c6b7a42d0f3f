//! What the fuzz target (`fuzz/`) and its short run (`tests/fuzz_short.rs`) call: a conversation between two peers that say anything. It panics
//! where a property does not hold; nothing else calls it.

use crate::Watch;
use crate::conversation::{Aside, ClientSide, Conversation, Event, Own, Passage, Violation};
use crate::parameters::Parameters;
use crate::statements::{ClientStatements, StatementCache};
use std::sync::Arc;
use wire::Header;

/// Replies that a peer can make Weir note with a few bytes, at most: a marker goes with what is kept from the server.
const OWED_PER_MESSAGE: usize = 8;

/// `data` is a list of chunks: a byte that says which side speaks, a byte with the chunk's length, the chunk.
/// Sides: 0 the client, 1 the server, 2 the client is replaced, 3 the client vanishes, 4 a query of the pooler's own.
pub fn conversation(data: &[u8]) {
    let mut both = Both::new(data.first().copied().unwrap_or_default());
    let mut rest = data.get(1..).unwrap_or_default();
    while let [side, len, after @ ..] = rest {
        let (chunk, next) = after.split_at(after.len().min(usize::from(*len)));
        if both.say(*side, chunk).is_err() {
            return;
        }
        rest = next;
    }
}

struct Both {
    conversation: Conversation,
    statements: Option<ClientStatements>,
    cache: StatementCache,
    parameters: Arc<Parameters>,
    watch: Watch,
    from_client: Vec<u8>,
    from_server: Vec<u8>,
    messages: usize,
}

impl Both {
    fn new(kind: u8) -> Both {
        let statements_max = Some(usize::from(kind % 4)).filter(|max| *max > 0);
        Both {
            conversation: Conversation::new(statements_max),
            statements: Some(ClientStatements::default()),
            cache: StatementCache::new([1; 16], 10_000, Arc::default()),
            parameters: Arc::default(),
            watch: Watch::default(),
            from_client: Vec::new(),
            from_server: Vec::new(),
            messages: 1,
        }
    }

    fn say(&mut self, side: u8, chunk: &[u8]) -> Result<(), Violation> {
        match side % 5 {
            0 if self.statements.is_some() => {
                self.from_client.extend_from_slice(chunk);
                while self.client_message()? {}
            }
            1 => {
                self.from_server.extend_from_slice(chunk);
                while self.server_message()? {}
            }
            2 if self.conversation.is_settled() => {
                self.from_client.clear();
                self.statements = Some(ClientStatements::default());
                self.conversation.begin_lease(1);
            }
            3 if self.statements.take().is_some() => self.conversation.wind_up(&mut Vec::new()),
            4 if self.conversation.is_settled() => {
                self.conversation
                    .own_query(Own::Reset, b"RESET ALL", &mut Vec::new())
            }
            _ => {}
        }
        self.check();
        Ok(())
    }

    fn check(&self) {
        let conversation = &self.conversation;
        assert!(
            !conversation.is_settled() || (conversation.owed() == 0 && !conversation.is_busy())
        );
        assert!(conversation.owed() <= OWED_PER_MESSAGE * self.messages);
        assert!(conversation.statements().count() <= OWED_PER_MESSAGE * self.messages);
    }

    fn client_message(&mut self) -> Result<bool, Violation> {
        let (Some(header), Some(statements)) =
            (Header::peek(&self.from_client)?, &mut self.statements)
        else {
            return Ok(false);
        };
        let mut aside = Aside::default();
        let side = ClientSide {
            statements,
            cache: &mut self.cache,
            parameters: &self.parameters,
            watch: Some(&self.watch),
            recall: None,
        };
        let message = self.from_client.clone();
        let body = message.get(Header::SIZE..).unwrap_or_default();
        let passage = self
            .conversation
            .client_message(side, header, body, &mut aside)?;
        self.messages += 1;
        let whole = self.from_client.len() >= header.total();
        assert!(
            aside.to_server.len()
                <= 400
                    + 80 * self.conversation.owed()
                    + 4 * self.from_client.len()
                    + self.cache.bytes()
        );
        let shown = self.from_client.len();
        let goes_on = take(&mut self.from_client, passage, header, whole);
        if let Passage::Pass { .. } = passage {
            self.conversation
                .keep(&message[..header.total().min(shown)]);
        }
        Ok(goes_on)
    }

    fn server_message(&mut self) -> Result<bool, Violation> {
        let Some(header) = Header::peek(&self.from_server)? else {
            return Ok(false);
        };
        let mut aside = Aside::default();
        let body = self.from_server.get(Header::SIZE..).unwrap_or_default();
        let reply =
            self.conversation
                .server_message(self.statements.as_mut(), header, body, &mut aside)?;
        let whole = self.from_server.len() >= header.total();
        assert!(aside.to_server.is_empty());
        assert!(
            reply.passage != Passage::Incomplete
                || (aside.to_client.is_empty() && reply.event == Event::Nothing)
        );
        if let (Event::Outdated(mark) | Event::Repeat(mark), Some(statements)) =
            (reply.event, &self.statements)
        {
            self.cache.note_outdated(statements, mark);
        }
        if let (Event::Repeat(_), Some(statements)) = (reply.event, &mut self.statements) {
            let side = ClientSide {
                statements,
                cache: &mut self.cache,
                parameters: &self.parameters,
                watch: None,
                recall: None,
            };
            self.conversation.repeat(side, &mut Aside::default());
        }
        Ok(take(&mut self.from_server, reply.passage, header, whole))
    }
}

/// Takes a message away once it is whole; one that is passed on before that is not looked at again, so the rest of the input is dropped with it.
fn take(bytes: &mut Vec<u8>, passage: Passage, header: Header, whole: bool) -> bool {
    match passage {
        Passage::Pass { skip } => {
            assert!(
                skip <= header.total() && (whole || skip <= bytes.len() || skip == header.total())
            );
            bytes.drain(..header.total().min(bytes.len()));
            whole
        }
        Passage::Incomplete => {
            assert!(!whole, "a whole message decides");
            false
        }
        Passage::Wait => false,
    }
}
