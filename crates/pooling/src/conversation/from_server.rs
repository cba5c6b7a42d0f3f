//! The server's side of a conversation.

use super::expected::{Expected, Parsed, ParsedFor};
use super::{Aside, Conversation, CopyIn, Event, Flow, Passage, Prepared, Trust, Unnamed, Violation};
use crate::statements::{ClientStatements, StatementId, restore_names};
use wire::Header;
use wire::backend::{CommandComplete, ErrorFields, ReadyForQuery, tag};

/// What a message of the server comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    pub passage: Passage,
    pub event: Event,
}

impl Reply {
    const PASS: Reply = Reply { passage: Passage::WHOLE, event: Event::Nothing };
    const INCOMPLETE: Reply = Reply { passage: Passage::Incomplete, event: Event::Nothing };

    fn keep(header: Header) -> Reply {
        Reply { passage: Passage::Pass { skip: header.total() }, event: Event::Nothing }
    }

    fn pass_if(pass: bool, header: Header) -> Reply {
        if pass { Reply::PASS } else { Reply::keep(header) }
    }

    fn with(self, event: Event) -> Reply {
        Reply { event, ..self }
    }
}

impl Conversation {
    /// A message of the server. `client` is `None` once the client is gone. `body` is what has arrived of the body.
    ///
    /// # Errors
    /// A message that no one asked for: the connection cannot be trusted any more.
    #[inline]
    pub fn server_message(
        &mut self,
        client: Option<&mut ClientStatements>,
        header: Header,
        body: &[u8],
        aside: &mut Aside,
    ) -> Result<Reply, Violation> {
        match self.expected.front() {
            Some(Expected::Own { .. }) => return self.own_reply(client, header, body),
            Some(Expected::SyntheticParse(_) | Expected::SyntheticClose(_)) => {
                if !is_asynchronous(header.tag) {
                    self.answer_synthetic(&mut aside.to_client);
                }
            }
            _ => {}
        }
        match header.tag {
            tag::DATA_ROW | tag::COPY_DATA => self.during_result(header),
            tag::READY_FOR_QUERY => self.ready(client, header, body),
            tag::COMMAND_COMPLETE => self.command_complete(client, header, body),
            tag::PARSE_COMPLETE => self.parse_complete(client, header),
            tag::BIND_COMPLETE => self.pop_if(header, |front| matches!(front, Expected::Bind)),
            tag::CLOSE_COMPLETE => self.close_complete(header),
            tag::ROW_DESCRIPTION | tag::NO_DATA => Ok(self.description()),
            tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED => self.execution_ended(header),
            tag::ERROR_RESPONSE => self.error(client, header, body, aside),
            tag::COPY_IN_RESPONSE => self.copy_in_begins(header),
            tag::PARAMETER_DESCRIPTION
            | tag::COPY_OUT_RESPONSE
            | tag::COPY_BOTH_RESPONSE
            | tag::COPY_DONE
            | tag::FUNCTION_CALL_RESPONSE => self.during_result(header),
            tag::PARAMETER_STATUS => Ok(parameter_status(header, body, false)),
            tag::NOTICE_RESPONSE | tag::NOTIFICATION_RESPONSE => Ok(Reply::PASS),
            other => Err(Violation::UnexpectedMessage(other)),
        }
    }

    /// Rows and the like: part of a result, if one is owed.
    #[inline]
    fn during_result(&mut self, header: Header) -> Result<Reply, Violation> {
        if self.expected.is_empty() { Err(Violation::UnexpectedMessage(header.tag)) } else { Ok(Reply::PASS) }
    }

    fn own_reply(&mut self, client: Option<&mut ClientStatements>, header: Header, body: &[u8]) -> Result<Reply, Violation> {
        let Some(Expected::Own { own, failed }) = self.expected.front_mut() else { return Ok(Reply::PASS) };
        match header.tag {
            tag::ERROR_RESPONSE => {
                *failed = true;
                let event = Event::OwnFailed(*own);
                return Ok(if body.len() < header.body() { Reply::INCOMPLETE } else { Reply::keep(header).with(event) });
            }
            tag::PARAMETER_STATUS => return Ok(parameter_status(header, body, true)),
            tag::NOTIFICATION_RESPONSE => return Ok(Reply::PASS),
            tag::COMMAND_COMPLETE => {
                let Some(body) = body.get(..header.body()) else { return Ok(Reply::INCOMPLETE) };
                let event = self.tag_event(client, CommandComplete::parse(body)?.tag);
                return Ok(Reply::keep(header).with(event));
            }
            tag::COPY_IN_RESPONSE | tag::COPY_OUT_RESPONSE => return Err(Violation::UnexpectedMessage(header.tag)),
            tag::READY_FOR_QUERY => {
                let Some(body) = body.get(..header.body()) else { return Ok(Reply::INCOMPLETE) };
                let event = Event::OwnDone { own: *own, failed: *failed };
                self.status = ReadyForQuery::parse(body)?.status;
                self.unnamed = Unnamed::Nothing;
                self.expected.pop_front();
                return Ok(Reply::keep(header).with(event));
            }
            _ => {}
        }
        Ok(Reply::keep(header))
    }

    #[inline]
    fn ready(&mut self, client: Option<&mut ClientStatements>, header: Header, body: &[u8]) -> Result<Reply, Violation> {
        let Some(body) = body.get(..header.body()) else { return Ok(Reply::INCOMPLETE) };
        self.drop_copy_ends();
        match self.expected.pop_front() {
            Some(Expected::Query) => {
                self.unnamed = Unnamed::Nothing; // (Protocol: a simple Query destroys the unnamed statement)
                if let Some(client) = client {
                    client.unnamed = None;
                }
            }
            Some(Expected::Sync | Expected::FunctionCall) => {}
            _ => return Err(Violation::UnexpectedMessage(header.tag)),
        }
        self.status = ReadyForQuery::parse(body)?.status;
        self.copy_in = CopyIn::No;
        Ok(Reply::PASS.with(Event::Ready))
    }

    #[inline]
    fn command_complete(&mut self, client: Option<&mut ClientStatements>, header: Header, body: &[u8]) -> Result<Reply, Violation> {
        let Some(body) = body.get(..header.body()) else { return Ok(Reply::INCOMPLETE) };
        let reply = self.execution_ended(header)?;
        let event = match body.first() {
            Some(b'D' | b'R') => self.tag_event(client, CommandComplete::parse(body)?.tag),
            _ => Event::Nothing,
        };
        Ok(reply.with(event))
    }

    /// The command tag says what really happened.
    fn tag_event(&mut self, client: Option<&mut ClientStatements>, command_tag: &[u8]) -> Event {
        match command_tag {
            b"DEALLOCATE ALL" => {
                self.forget_all_statements(client);
                Event::Nothing
            }
            b"DISCARD ALL" => {
                self.forget_all_statements(client);
                Event::SessionReset
            }
            b"RESET" => Event::SessionReset,
            _ => Event::Nothing,
        }
    }

    fn execution_ended(&mut self, header: Header) -> Result<Reply, Violation> {
        match self.expected.front() {
            Some(Expected::Execute) => {
                self.expected.pop_front();
            }
            Some(Expected::Query) => {}
            _ => return Err(Violation::UnexpectedMessage(header.tag)),
        }
        if self.copy_in != CopyIn::No {
            self.copy_in = CopyIn::No;
            self.expected.retain(|expected| !matches!(expected, Expected::IgnoredSync));
        }
        self.drop_copy_ends();
        Ok(Reply::PASS)
    }

    fn parse_complete(&mut self, client: Option<&mut ClientStatements>, header: Header) -> Result<Reply, Violation> {
        match self.expected.pop_front() {
            Some(Expected::RawParse) => Ok(Reply::PASS),
            Some(Expected::Parse(parsed)) => {
                let Parsed { statement, parsed_for } = *parsed;
                match parsed_for {
                    ParsedFor::ClientNamed(_) => Ok(Reply::PASS),
                    ParsedFor::PoolerNamed => Ok(Reply::keep(header)),
                    ParsedFor::Duplicate => Err(Violation::UnexpectedMessage(header.tag)),
                    ParsedFor::PoolerUnnamed => {
                        self.unnamed = Unnamed::Is(statement.id);
                        Ok(Reply::keep(header))
                    }
                    ParsedFor::ClientUnnamed => {
                        self.unnamed = Unnamed::Is(statement.id);
                        if let Some(client) = client {
                            client.unnamed = Some(statement);
                        }
                        Ok(Reply::PASS)
                    }
                }
            }
            _ => Err(Violation::UnexpectedMessage(header.tag)),
        }
    }

    fn close_complete(&mut self, header: Header) -> Result<Reply, Violation> {
        match self.expected.pop_front() {
            Some(Expected::Close) => Ok(Reply::PASS),
            Some(Expected::CloseEvicted(_)) => Ok(Reply::keep(header)),
            Some(Expected::CloseUnnamed) => {
                self.unnamed = Unnamed::Nothing;
                Ok(Reply::keep(header))
            }
            _ => Err(Violation::UnexpectedMessage(header.tag)),
        }
    }

    fn pop_if(&mut self, header: Header, fits: impl Fn(&Expected) -> bool) -> Result<Reply, Violation> {
        match self.expected.pop_front() {
            Some(front) if fits(&front) => Ok(Reply::PASS),
            _ => Err(Violation::UnexpectedMessage(header.tag)),
        }
    }

    /// RowDescription and NoData answer a Describe; within a Query they are part of its result.
    fn description(&mut self) -> Reply {
        if let Some(Expected::Describe) = self.expected.front() {
            self.expected.pop_front();
        }
        Reply::PASS
    }

    /// The Syncs that came before the server asked for data are read, and ignored, as part of the data.
    fn copy_in_begins(&mut self, header: Header) -> Result<Reply, Violation> {
        if !matches!(self.expected.front(), Some(Expected::Query | Expected::Execute)) {
            return Err(Violation::UnexpectedMessage(header.tag));
        }
        self.copy_in = CopyIn::Running;
        for expected in self.expected.iter_mut().skip(1) {
            match expected {
                Expected::Sync => *expected = Expected::IgnoredSync,
                Expected::CopyEnd => {
                    self.copy_in = CopyIn::Ended;
                    break;
                }
                _ => {}
            }
        }
        Ok(Reply::PASS)
    }

    /// An error in an extended conversation makes the server skip everything up to the next Sync.
    fn error(
        &mut self,
        mut client: Option<&mut ClientStatements>,
        header: Header,
        body: &[u8],
        aside: &mut Aside,
    ) -> Result<Reply, Violation> {
        let Some(body) = body.get(..header.body()) else { return Ok(Reply::INCOMPLETE) };
        let renamed = restore_names(body, client.as_deref(), &mut aside.to_client);
        if is_fatal(body) {
            self.trust = Trust::Farewell;
        }
        if self.copy_in != CopyIn::No {
            self.copy_failed();
        }
        if self.expected.front().is_some_and(|front| !front.ends_with_ready()) {
            self.forget_failed_unnamed(client.as_deref_mut());
            self.skip_to_sync(client);
        }
        Ok(Reply::pass_if(!renamed, header))
    }

    /// Whether the server had read the Syncs that were sent into the COPY, or will answer them, cannot be known.
    fn copy_failed(&mut self) {
        self.copy_in = CopyIn::No;
        let before = self.expected.len();
        self.expected.retain(|expected| !matches!(expected, Expected::IgnoredSync));
        if self.expected.len() != before {
            self.trust = Trust::Doubtful;
        }
    }

    /// A Parse of the unnamed statement drops the old one before anything can go wrong.
    fn forget_failed_unnamed(&mut self, client: Option<&mut ClientStatements>) {
        let Some(Expected::Parse(parsed)) = self.expected.front() else { return };
        match parsed.parsed_for {
            ParsedFor::ClientUnnamed => {
                self.unnamed = Unnamed::Nothing;
                if let Some(client) = client {
                    client.unnamed = None;
                }
            }
            ParsedFor::PoolerUnnamed => self.unnamed = Unnamed::Nothing,
            _ => {}
        }
    }

    fn skip_to_sync(&mut self, mut client: Option<&mut ClientStatements>) {
        let sync = self.expected.iter().position(|expected| matches!(expected, Expected::Sync));
        if sync.is_none() {
            self.flow = Flow::Skipping;
        }
        let skipped = self.expected.drain(..sync.unwrap_or(self.expected.len()));
        for expected in skipped.rev() {
            let server = match &mut self.prepared {
                Prepared::Shared(statements) => Some(statements),
                Prepared::Raw => None,
            };
            expected.undo(client.as_deref_mut(), server);
        }
    }

    fn drop_copy_ends(&mut self) {
        while let Some(Expected::CopyEnd) = self.expected.front() {
            self.expected.pop_front();
        }
    }

    /// The statement's plan no longer fits: it has to be parsed anew here.
    pub fn forget_statement(&mut self, id: StatementId) -> bool {
        match &mut self.prepared {
            Prepared::Shared(statements) => statements.remove(id),
            Prepared::Raw => false,
        }
    }
}

/// The server closes the connection after it.
fn is_fatal(body: &[u8]) -> bool {
    let severity = |fields: ErrorFields<'_>| matches!(fields.get(b'V').or(fields.get(b'S')), Some(b"FATAL" | b"PANIC"));
    ErrorFields::parse(body).is_ok_and(severity)
}

fn is_asynchronous(message: u8) -> bool {
    matches!(message, tag::PARAMETER_STATUS | tag::NOTICE_RESPONSE | tag::NOTIFICATION_RESPONSE)
}

fn parameter_status(header: Header, body: &[u8], own: bool) -> Reply {
    if body.len() < header.body() {
        return Reply::INCOMPLETE;
    }
    Reply::pass_if(!own, header).with(Event::ParameterStatus { own })
}
