//! What an error means: what the server skips, what was noted and is not so, and which prepared statements may be out of date.

use super::expected::{Expected, ParsedFor};
use super::from_server::Reply;
use super::{Aside, Conversation, CopyIn, Event, Flow, Prepared, Trust, UnnamedIs};
use crate::statements::{ClientStatements, Mark, place_of_server_name, restore_names};
use wire::Header;
use wire::backend::{ErrorFields, tag};

impl Conversation {
    /// An error in an extended conversation makes the server skip everything up to the next Sync.
    pub(super) fn error(
        &mut self,
        mut client: Option<&mut ClientStatements>,
        header: Header,
        body: &[u8],
        aside: &mut Aside,
    ) -> Reply {
        let mark = self.mark_meant();
        let doubt = self.learn_from(body);
        let given = match doubt {
            _ if client.is_none() => None,
            Doubt::Gone => self.given_before_error(),
            Doubt::Outdated if !self.relies_on_earlier() => self.given_before_error(),
            _ => None,
        };
        if let Some(given) = given {
            let mark = match doubt {
                Doubt::Outdated => mark,
                _ => Mark::NONE,
            };
            self.given = given;
            self.described.clear();
            self.skip_to_sync(client);
            return Reply::keep(header).with(Event::Repeat(mark));
        }
        self.kept.lose();
        aside.to_client.append(&mut self.described);
        let replaced = self.put_in_clients_words(body, client.as_deref(), &mut aside.to_client);
        if self.copy_in != CopyIn::No {
            self.copy_failed();
        }
        if self
            .expected
            .front()
            .is_some_and(|front| !front.ends_with_ready())
        {
            self.forget_failed_unnamed(client.as_deref_mut());
            self.skip_to_sync(client);
        }
        let event = match doubt {
            Doubt::Outdated => Event::Outdated(mark),
            _ => Event::Nothing,
        };
        Reply::pass_if(!replaced, header).with(event)
    }

    /// Appends the error as the client has to see it, if that is not as the server has put it.
    fn put_in_clients_words(
        &self,
        body: &[u8],
        client: Option<&ClientStatements>,
        to_client: &mut Vec<u8>,
    ) -> bool {
        if is_about_outdated(body) {
            to_client.push(tag::ERROR_RESPONSE);
            to_client.extend_from_slice(&(4 + OUTDATED.len() as u32).to_be_bytes());
            to_client.extend_from_slice(OUTDATED);
            return true;
        }
        restore_names(body, self.name_meant(), client, to_client)
    }

    /// The client's statement that the message which is being answered uses.
    fn mark_meant(&self) -> Mark {
        match self.expected.front() {
            Some(Expected::Bind(mark) | Expected::Describe(mark)) => *mark,
            _ => Mark::NONE,
        }
    }

    /// The client's name for a statement whose Parse is being answered.
    fn name_meant(&self) -> Option<&[u8]> {
        match self.expected.front() {
            Some(Expected::Parse(parsed)) => parsed.parsed_for.meant(),
            _ => None,
        }
    }

    fn learn_from(&mut self, body: &[u8]) -> Doubt {
        let Ok(fields) = ErrorFields::parse(body) else {
            return Doubt::None;
        };
        if is_fatal(&fields) {
            self.trust = Trust::Farewell;
            return Doubt::None;
        }
        let doubt = self.doubt_from(&fields);
        if doubt != Doubt::None {
            self.doubt_statements();
        }
        if doubt == Doubt::Outdated {
            self.doubt_unnamed();
        }
        doubt
    }

    fn doubt_from(&self, fields: &ErrorFields<'_>) -> Doubt {
        let code = fields.get(b'C').unwrap_or_default();
        let about_shared = self.name_meant().is_none()
            && fields.get(b'M').and_then(place_of_server_name).is_some();
        let names_outdated = fields.get(b'M').is_some_and(names_outdated);
        if names_outdated || fields.get(b'R') == Some(b"RevalidateCachedQuery") {
            Doubt::Outdated
        } else if self.is_outdated(code) {
            if code.starts_with(b"XX") {
                Doubt::Outdated
            } else {
                Doubt::Perhaps
            }
        } else if about_shared {
            if code == b"26000" {
                Doubt::Gone
            } else {
                Doubt::Perhaps
            }
        } else {
            Doubt::None
        }
    }

    /// Whether an object that a statement names may have been made anew since its Parse ("cache lookup failed for type 16385"): an
    /// internal error, or a name that a Parse has found and a Bind does not.
    fn is_outdated(&self, code: &[u8]) -> bool {
        let class = code.get(..2);
        match self.expected.front() {
            Some(Expected::Bind(_) | Expected::HiddenBind | Expected::Describe(_)) => {
                matches!(class, Some(b"42" | b"XX"))
            }
            Some(Expected::Execute(_)) => class == Some(b"XX"),
            _ => false,
        }
    }

    /// Whether the server had read the Syncs that were sent into the COPY, or will answer them, cannot be known.
    fn copy_failed(&mut self) {
        self.copy_in = CopyIn::No;
        if self.drop_ignored_syncs() && self.trust == Trust::Full {
            self.trust = Trust::Doubtful;
        }
    }

    /// A Parse of the unnamed statement drops the old one before anything can go wrong.
    fn forget_failed_unnamed(&mut self, client: Option<&mut ClientStatements>) {
        let Some(Expected::Parse(parsed)) = self.expected.front() else {
            return;
        };
        match parsed.parsed_for {
            ParsedFor::ClientUnnamed => {
                self.unnamed = None;
                if let Some(client) = client {
                    client.unnamed = None;
                }
            }
            ParsedFor::PoolerUnnamed => self.unnamed = None,
            _ => {}
        }
    }

    fn skip_to_sync(&mut self, mut client: Option<&mut ClientStatements>) {
        let sync = self.expected.iter().position(Expected::is_sync);
        if sync.is_none() {
            self.flow = Flow::Skipping;
        }
        let mut segments = 0;
        for expected in self
            .expected
            .drain(..sync.unwrap_or(self.expected.len()))
            .rev()
        {
            segments += u64::from(expected.ends_segment());
            let server = match &mut self.prepared {
                Prepared::Shared(statements) => Some(statements),
                Prepared::Raw => None,
            };
            expected.undo(client.as_deref_mut(), server);
        }
        self.progress.answered += segments;
        if matches!(self.unnamed_is, UnnamedIs::TheClients { since, .. } if since <= self.progress.answered)
        {
            self.unnamed_is = UnnamedIs::SomebodyElses;
        }
    }
}

/// A name that no server connection knows: a Bind or Describe of it makes the server fail as it would with the client's outdated statement.
pub(super) const OUTDATED_NAME: &[u8] = b"outdated_at_weir";

/// What PostgreSQL says where it still has that statement. Drivers go by the routine's name. (src/backend/utils/cache/plancache.c)
const OUTDATED: &[u8] =
    b"SERROR\0VERROR\0C0A000\0Mcached plan must not change result type\0RRevalidateCachedQuery\0\0";

fn is_about_outdated(error: &[u8]) -> bool {
    let fields = ErrorFields::parse(error).ok();
    fields.is_some_and(|fields| fields.get(b'M').is_some_and(names_outdated))
}

fn names_outdated(message: &[u8]) -> bool {
    let mut windows = message.windows(OUTDATED_NAME.len());
    windows.any(|window| window == OUTDATED_NAME)
}

/// What an error says of the statements that are prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doubt {
    None,
    /// What they name may have changed.
    Perhaps,
    /// Something that Weir does not see (a function, a DO block) has dropped them.
    Gone,
    /// A table or a type has changed under one.
    Outdated,
}

/// The server closes the connection after it.
fn is_fatal(fields: &ErrorFields<'_>) -> bool {
    matches!(
        fields.get(b'V').or(fields.get(b'S')),
        Some(b"FATAL" | b"PANIC")
    )
}
