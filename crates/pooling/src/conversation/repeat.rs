//! Saying a segment again. A prepared statement that a server connection has had for long may have become outdated (a table has got a column, a
//! type has been made anew), which PostgreSQL says when it is used. The client may have prepared it after that change, and would not hear of it on
//! a connection of its own. If nothing has come of the segment yet, Weir prepares the statement anew and says the segment again, unseen by the client;
//! but only if the client asks in that segment what the result looks like. Who relies on what it was told before would read the new rows by the old
//! description: it gets the error, which drivers answer by preparing anew.
//!
//! Owns a copy of the little that the client has said since the connection was settled.

use super::expected::Expected;
use super::{Aside, ClientSide, Conversation, Flow, Passage, Prepared};
use crate::Parameters;
use crate::statements::{ClientStatements, StatementCache};
use std::sync::Arc;
use wire::Header;
use wire::backend::TransactionStatus;
use wire::frontend::{Bind, Describe, Parse, tag};

/// Longer segments are not said again.
const KEPT_MAX: usize = 16 * 1024;

/// What the client has said since the connection was settled, as it said it.
pub(super) struct Kept {
    bytes: Vec<u8>,
    extent: Extent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    /// It was too much, it was several segments, or it has been said again already.
    Lost,
}

impl Kept {
    pub fn nothing() -> Kept {
        Kept {
            bytes: Vec::new(),
            extent: Extent::All,
        }
    }

    /// The connection is settled: what comes is new.
    #[inline]
    pub fn renew(&mut self) {
        self.bytes.clear();
        self.extent = Extent::All;
    }

    #[inline]
    pub fn lose(&mut self) {
        self.extent = Extent::Lost;
    }

    #[inline]
    fn add(&mut self, said: &[u8]) {
        let no_segment = self.bytes.is_empty() && said.first() == Some(&tag::QUERY);
        if self.extent == Extent::Lost || no_segment || self.bytes.len() + said.len() > KEPT_MAX {
            return self.lose();
        }
        self.bytes.extend_from_slice(said);
    }

    /// The types of the messages that the server answers, in order; `None` unless they are whole and all of one segment of the extended protocol.
    fn one_segment(&self) -> Option<Vec<u8>> {
        let mut tags = Vec::new();
        let mut rest = &*self.bytes;
        while let Ok(Some(header)) = Header::peek(rest) {
            rest = rest.get(header.total()..)?;
            match header.tag {
                tag::FLUSH => {}
                tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE => {
                    tags.push(header.tag)
                }
                tag::SYNC if rest.is_empty() => tags.push(header.tag),
                _ => return None,
            }
        }
        (rest.is_empty() && self.extent == Extent::All).then_some(tags)
    }
}

impl Conversation {
    /// Bytes of the client's, beginning where the last ones ended: messages that have been shown, or parts of them.
    #[inline]
    pub fn keep(&mut self, said: &[u8]) {
        if !said.is_empty() && matches!(self.prepared, Prepared::Shared(_)) {
            self.kept.add(said);
        }
    }

    /// Whether the client would not see that the segment is said again after this error: it is outside of a transaction block, all of it is
    /// at hand, and nothing has come of it but ParseComplete, BindComplete and CloseComplete. Gives how many of these.
    pub(super) fn given_before_error(&self) -> Option<usize> {
        let refused = matches!(
            self.expected.front(),
            Some(Expected::Bind(_) | Expected::Describe(_))
        );
        if !refused || self.status != TransactionStatus::Idle {
            return None;
        }
        let said = self.kept.one_segment()?;
        let owed = self.expected.iter().filter(|it| it.is_visible()).count();
        let given = said.len().checked_sub(owed)?;
        let harmless = |it: &u8| matches!(*it, tag::PARSE | tag::BIND | tag::CLOSE);
        said[..given].iter().all(harmless).then_some(given)
    }

    /// Whether the client, in this segment, executes by a description that it was given before.
    pub(super) fn relies_on_earlier(&self) -> bool {
        self.kept
            .one_segment()
            .is_some_and(|said| relies_on_earlier(&said))
    }

    /// Says the segment again, after [`super::Event::Repeat`].
    pub fn repeat(&mut self, client: ClientSide<'_>, aside: &mut Aside) {
        match self.expected.front_mut() {
            Some(sync @ Expected::Sync) => *sync = Expected::HiddenSync,
            _ => {
                wire::write::sync(&mut aside.to_server);
                self.sync();
                self.hide_sync();
            }
        }
        self.flow = Flow::Normal;
        let kept = std::mem::replace(&mut self.kept, Kept::nothing());
        self.kept.lose();
        let ClientSide {
            statements,
            cache,
            parameters,
            watch,
            ..
        } = client;
        let given = std::mem::take(&mut self.given);
        take_back_names(&kept.bytes, given, statements);
        renew_statements(&kept.bytes, statements, cache, parameters);
        let mut rest = &*kept.bytes;
        while let Ok(Some(header)) = Header::peek(rest) {
            let Some((message, after)) = rest.split_at_checked(header.total()) else {
                return;
            };
            let side = ClientSide {
                statements: &mut *statements,
                cache: &mut *cache,
                parameters,
                watch,
                recall: None,
            };
            let body = &message[Header::SIZE..];
            if let Ok(Passage::Pass { skip }) = self.client_message(side, header, body, aside) {
                aside.to_server.extend_from_slice(&message[skip..]);
            }
            rest = after;
        }
        self.hide(given);
    }

    fn hide_sync(&mut self) {
        if let Some(sync) = self.expected.back_mut() {
            *sync = Expected::HiddenSync;
        }
    }

    /// The client has got these replies already.
    fn hide(&mut self, mut given: usize) {
        let hide = |expected: Expected| match given {
            1.. if expected.is_visible() => {
                given -= 1;
                expected.hidden()
            }
            _ => Some(expected),
        };
        self.expected = std::mem::take(&mut self.expected)
            .into_iter()
            .filter_map(hide)
            .collect();
    }
}

/// Whether something is executed of which the same segment neither gives the text nor asks for a description.
fn relies_on_earlier(said: &[u8]) -> bool {
    let mut is_told = false;
    said.iter().any(|tag| match *tag {
        tag::PARSE | tag::DESCRIBE => {
            is_told = true;
            false
        }
        tag::EXECUTE => !std::mem::take(&mut is_told),
        _ => false,
    })
}

/// The client's names stand for what its statements are now.
fn renew_statements(
    said: &[u8],
    statements: &mut ClientStatements,
    cache: &mut StatementCache,
    parameters: &Arc<Parameters>,
) {
    for (tag, body) in messages(said) {
        let name = match tag {
            tag::BIND => Bind::parse(body).map(|bind| bind.statement),
            tag::DESCRIBE => Describe::parse(body).map(|describe| describe.name),
            _ => continue,
        };
        let known = name
            .ok()
            .and_then(|name| Some((name, statements.named(name)?)));
        if let Some((name, known)) = known {
            let renewed = cache.renew(known, parameters);
            statements.replace(name, renewed);
        }
    }
}

/// The whole messages, as types and bodies.
fn messages(said: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = said;
    std::iter::from_fn(move || {
        let header = Header::peek(rest).ok()??;
        let (message, after) = rest.split_at_checked(header.total())?;
        rest = after;
        Some((header.tag, &message[Header::SIZE..]))
    })
}

/// Names that the segment has given already will be given once more.
fn take_back_names(said: &[u8], given: usize, statements: &mut ClientStatements) {
    let answered = messages(said).filter(|(tag, _)| *tag != tag::FLUSH);
    for (tag, body) in answered.take(given) {
        if tag == tag::PARSE
            && let Ok(parse) = Parse::parse(body)
        {
            statements.remove(parse.name);
        }
    }
}
