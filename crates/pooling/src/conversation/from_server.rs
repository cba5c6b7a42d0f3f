//! The server's side of a conversation.

use super::expected::{Expected, Own, Parsed, ParsedFor};
use super::{Aside, Conversation, CopyIn, Event, Passage, Prepared, Series, Trust, Violation};
use crate::statements::{ClientStatements, Forgotten, Statement};
use std::collections::HashSet;
use std::sync::Arc;
use wire::Header;
use wire::backend::{CommandComplete, ReadyForQuery, TransactionStatus, tag};

/// What a message of the server comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    pub passage: Passage,
    pub event: Event,
}

impl Reply {
    const PASS: Reply = Reply {
        passage: Passage::WHOLE,
        event: Event::Nothing,
    };
    const INCOMPLETE: Reply = Reply {
        passage: Passage::Incomplete,
        event: Event::Nothing,
    };

    pub(super) fn keep(header: Header) -> Reply {
        Reply {
            passage: Passage::Pass {
                skip: header.total(),
            },
            event: Event::Nothing,
        }
    }

    pub(super) fn pass_if(pass: bool, header: Header) -> Reply {
        if pass {
            Reply::PASS
        } else {
            Reply::keep(header)
        }
    }

    pub(super) fn with(self, event: Event) -> Reply {
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
        let body = body.get(..header.body()).unwrap_or(body);
        if body.len() < header.body() && self.has_to_be_whole(header.tag) {
            return Ok(Reply::INCOMPLETE);
        }
        match self.expected.front() {
            Some(Expected::Own { .. }) => return self.own_reply(client, header, body),
            Some(front) if front.is_synthetic() && !is_asynchronous(header.tag) => {
                self.answer_synthetic(&mut aside.to_client);
            }
            _ => {}
        }
        match header.tag {
            tag::DATA_ROW
            | tag::COPY_DATA
            | tag::COPY_DONE
            | tag::COPY_OUT_RESPONSE
            | tag::COPY_BOTH_RESPONSE => self.during(header, Expected::is_execution),
            tag::READY_FOR_QUERY => self.ready(client, header, body),
            tag::COMMAND_COMPLETE => self.command_complete(client, header, body),
            tag::PARSE_COMPLETE => self.parse_complete(client, header),
            tag::BIND_COMPLETE => match self.expected.pop_front() {
                Some(Expected::Bind(_)) => Ok(Reply::PASS),
                Some(Expected::HiddenBind) => Ok(Reply::keep(header)),
                _ => Err(Violation::UnexpectedMessage(header.tag)),
            },
            tag::CLOSE_COMPLETE => self.close_complete(client, header),
            tag::ROW_DESCRIPTION | tag::NO_DATA => self.description(header, aside),
            tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED => {
                self.execution_ended(client, header)
            }
            tag::ERROR_RESPONSE => Ok(self.error(client, header, body, aside)),
            tag::COPY_IN_RESPONSE => self.copy_in_begins(header),
            tag::PARAMETER_DESCRIPTION => self.parameter_description(header, body),
            tag::FUNCTION_CALL_RESPONSE => {
                self.during(header, |front| matches!(front, Expected::FunctionCall))
            }
            tag::PARAMETER_STATUS => {
                self.doubt_hasty();
                Ok(parameter_status(header, false))
            }
            tag::NOTICE_RESPONSE => Ok(Reply::PASS),
            tag::NOTIFICATION_RESPONSE => Ok(Reply::keep(header).with(Event::Notification)),
            other => Err(Violation::UnexpectedMessage(other)),
        }
    }

    /// Messages whose body decides, or is handed on with an event; and those after which nothing may be owed: while the rest of one of
    /// them is on its way to the client, an answer to a Flush would come into its middle.
    #[inline]
    fn has_to_be_whole(&self, message: u8) -> bool {
        match message {
            tag::DATA_ROW => matches!(
                self.expected.front(),
                Some(Expected::Own {
                    own: Own::Census | Own::Catalog,
                    ..
                })
            ),
            tag::READY_FOR_QUERY | tag::COMMAND_COMPLETE | tag::ERROR_RESPONSE => true,
            tag::PARAMETER_DESCRIPTION => true,
            tag::ROW_DESCRIPTION => !matches!(self.expected.front(), Some(Expected::Query(_))),
            other => is_asynchronous(other),
        }
    }

    /// Rows and the like: part of a result that is owed.
    #[inline]
    fn during(
        &mut self,
        header: Header,
        fits: impl Fn(&Expected) -> bool,
    ) -> Result<Reply, Violation> {
        match self.expected.front() {
            Some(front) if fits(front) => Ok(Reply::PASS),
            _ => Err(Violation::UnexpectedMessage(header.tag)),
        }
    }

    fn own_reply(
        &mut self,
        client: Option<&mut ClientStatements>,
        header: Header,
        body: &[u8],
    ) -> Result<Reply, Violation> {
        let Some(Expected::Own { own, failed }) = self.expected.front_mut() else {
            return Ok(Reply::PASS);
        };
        let own = *own;
        match header.tag {
            tag::ERROR_RESPONSE => {
                *failed = true;
                if own == Own::Prepare {
                    self.doubt_statements();
                }
                Ok(Reply::keep(header).with(Event::OwnFailed(own)))
            }
            tag::PARAMETER_STATUS => Ok(parameter_status(header, true)),
            tag::NOTIFICATION_RESPONSE => Ok(Reply::keep(header).with(Event::Notification)),
            tag::COMMAND_COMPLETE => {
                let command_tag = CommandComplete::parse(body)?.tag;
                // What a replay resets is known to whoever wrote it.
                let event = if own == Own::Replay {
                    Event::Nothing
                } else {
                    self.tag_event(client, command_tag)
                };
                Ok(Reply::keep(header).with(event))
            }
            tag::READY_FOR_QUERY => {
                let event = Event::OwnDone {
                    own,
                    failed: *failed,
                };
                self.status = ReadyForQuery::parse(body)?.status;
                self.expected.pop_front();
                self.segment_answered();
                Ok(Reply::keep(header).with(event))
            }
            tag::DATA_ROW if matches!(own, Own::Census | Own::Catalog) => {
                Ok(Reply::keep(header).with(Event::OwnRow(own)))
            }
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE if own == Own::Prepare => {
                Ok(Reply::keep(header))
            }
            tag::NOTICE_RESPONSE
            | tag::ROW_DESCRIPTION
            | tag::DATA_ROW
            | tag::EMPTY_QUERY_RESPONSE => Ok(Reply::keep(header)),
            other => Err(Violation::UnexpectedMessage(other)),
        }
    }

    #[inline]
    fn ready(
        &mut self,
        client: Option<&mut ClientStatements>,
        header: Header,
        body: &[u8],
    ) -> Result<Reply, Violation> {
        let status = ReadyForQuery::parse(body)?.status;
        self.drop_copy_ends();
        let mut reply = Reply::PASS.with(Event::Ready);
        match self.expected.pop_front() {
            Some(Expected::Query(forgotten)) => self.query_done(client, forgotten),
            Some(Expected::Sync | Expected::FunctionCall) => {}
            Some(Expected::HiddenSync) => reply = Reply::keep(header),
            None if self.trust == Trust::Doubtful => {} // of a Sync that was not a part of COPY data
            _ => return Err(Violation::UnexpectedMessage(header.tag)),
        }
        self.drop_copy_ends();
        self.status = status;
        self.copy_in = CopyIn::No;
        self.kept.lose();
        self.segment_answered();
        Ok(reply)
    }

    #[inline]
    fn query_done(
        &mut self,
        client: Option<&mut ClientStatements>,
        forgotten: Option<Box<Forgotten>>,
    ) {
        self.unnamed = None; // (Protocol: a simple Query destroys the unnamed statement)
        let Some(client) = client else { return };
        client.unnamed = None;
        if let Some(forgotten) = forgotten {
            client.remember(*forgotten);
        }
    }

    #[inline]
    fn segment_answered(&mut self) {
        self.progress.answered += 1;
        if self.expected.is_empty() {
            self.progress.answered = self.progress.sent;
            self.parsed_in_haste.clear();
            self.series = Series::Closed;
            if self.status == TransactionStatus::Idle {
                self.deallocating_portal = None; // portals end with their transaction
                self.kept.renew();
            }
        }
    }

    #[inline]
    fn command_complete(
        &mut self,
        client: Option<&mut ClientStatements>,
        header: Header,
        body: &[u8],
    ) -> Result<Reply, Violation> {
        if !self.expected.front().is_some_and(Expected::is_execution) {
            return Err(Violation::UnexpectedMessage(header.tag));
        }
        match body.first() {
            Some(b'I') => {
                self.sequences.inserted();
                self.execution_ended(client, header)
            }
            Some(b'D' | b'R' | b'C' | b'S') if self.tag_matters(body) => {
                let mut client = client;
                let event =
                    self.tag_event(client.as_deref_mut(), CommandComplete::parse(body)?.tag);
                Ok(self.execution_ended(client, header)?.with(event))
            }
            _ => self.execution_ended(client, header),
        }
    }

    /// Whether a tag with one of these first letters says more than that a command is done. SELECT, COMMIT and COPY are the frequent ones.
    #[inline]
    fn tag_matters(&self, tag: &[u8]) -> bool {
        match tag.first() {
            Some(b'S') => {
                tag == b"SET\0" && self.evidence.as_ref().is_some_and(|found| found.resets)
            }
            Some(b'C') => tag.starts_with(b"CLOSE"),
            _ => true,
        }
    }

    /// The command tag says what really happened.
    fn tag_event(&mut self, client: Option<&mut ClientStatements>, command_tag: &[u8]) -> Event {
        match command_tag {
            b"DEALLOCATE ALL" => {
                self.all_deallocated(client);
                Event::Nothing
            }
            b"DISCARD SEQUENCES" => {
                self.sequences.dropped();
                Event::Nothing
            }
            b"DISCARD ALL" => {
                self.sequences.dropped();
                self.all_deallocated(client);
                Event::SessionReset
            }
            b"RESET" | b"SET" => Event::SettingsReset,
            b"DEALLOCATE" => {
                self.forget_for_good();
                Event::Nothing
            }
            _ if command_tag.starts_with(b"DROP ") || command_tag.starts_with(b"CLOSE") => {
                Event::Dropped
            }
            _ => Event::Nothing,
        }
    }

    /// All named statements are gone, but for those that were made by messages sent behind.
    fn all_deallocated(&mut self, client: Option<&mut ClientStatements>) {
        if let Prepared::Shared(statements) = &mut self.prepared {
            let touches = |expected: &Expected| {
                matches!(expected, Expected::Parse(_) | Expected::CloseShared(_))
            };
            if self.expected.iter().any(touches) {
                statements.doubt_all()
            } else {
                statements.clear()
            }
        }
        self.forget_for_good();
        if let Some(client) = client {
            let given_since: HashSet<&[u8]> = self
                .expected
                .iter()
                .filter_map(Expected::given_name)
                .collect();
            client.retain_named(|name| given_since.contains(name));
        }
    }

    /// The names that the running message drops are gone.
    fn forget_for_good(&mut self) {
        if let Some(Expected::Query(forgotten) | Expected::Execute(forgotten)) =
            self.expected.front_mut()
        {
            *forgotten = None;
        }
    }

    #[inline]
    fn execution_ended(
        &mut self,
        client: Option<&mut ClientStatements>,
        header: Header,
    ) -> Result<Reply, Violation> {
        match self.expected.front_mut() {
            Some(Expected::Execute(forgotten)) => {
                if let (Some(forgotten), Some(client)) = (forgotten.take(), client) {
                    client.remember(*forgotten);
                }
                self.expected.pop_front();
            }
            Some(Expected::Query(_)) if header.tag != tag::PORTAL_SUSPENDED => {}
            _ => return Err(Violation::UnexpectedMessage(header.tag)),
        }
        if self.copy_in != CopyIn::No {
            self.copy_in = CopyIn::No;
            self.drop_ignored_syncs();
        }
        self.drop_copy_ends();
        Ok(Reply::PASS)
    }

    /// True if there were any.
    pub(super) fn drop_ignored_syncs(&mut self) -> bool {
        let before = self.expected.len();
        self.expected
            .retain(|expected| !matches!(expected, Expected::IgnoredSync));
        let dropped = before - self.expected.len();
        self.progress.answered += dropped as u64;
        dropped > 0
    }

    fn parse_complete(
        &mut self,
        client: Option<&mut ClientStatements>,
        header: Header,
    ) -> Result<Reply, Violation> {
        match self.expected.pop_front() {
            Some(Expected::RawParse) => Ok(Reply::PASS),
            Some(Expected::Parse(parsed)) => {
                let Parsed {
                    statement,
                    parsed_for,
                    ..
                } = *parsed;
                match parsed_for {
                    ParsedFor::ClientNamed(_) => Ok(Reply::PASS),
                    ParsedFor::PoolerNamed => Ok(Reply::keep(header)),
                    ParsedFor::Duplicate(_) => Err(Violation::UnexpectedMessage(header.tag)),
                    ParsedFor::PoolerUnnamed => {
                        self.unnamed_is_now(client, statement);
                        Ok(Reply::keep(header))
                    }
                    ParsedFor::ClientUnnamed => {
                        self.unnamed_is_now(client, statement);
                        Ok(Reply::PASS)
                    }
                }
            }
            _ => Err(Violation::UnexpectedMessage(header.tag)),
        }
    }

    fn unnamed_is_now(&mut self, client: Option<&mut ClientStatements>, statement: Arc<Statement>) {
        self.unnamed = Some(statement.id);
        if let Some(client) = client {
            client.unnamed = Some(statement);
        }
    }

    fn close_complete(
        &mut self,
        client: Option<&mut ClientStatements>,
        header: Header,
    ) -> Result<Reply, Violation> {
        match self.expected.pop_front() {
            Some(Expected::Close) => Ok(Reply::PASS),
            Some(Expected::CloseUnnamed) => {
                self.unnamed = None;
                if let Some(client) = client {
                    client.unnamed = None;
                }
                Ok(Reply::PASS)
            }
            Some(Expected::CloseShared(_) | Expected::Marker) => Ok(Reply::keep(header)),
            Some(Expected::DropUnnamed) => {
                self.unnamed = None;
                Ok(Reply::keep(header))
            }
            _ => Err(Violation::UnexpectedMessage(header.tag)),
        }
    }

    /// It comes before PostgreSQL looks whether the statement is out of date: the client gets it together with what follows.
    fn parameter_description(&mut self, header: Header, body: &[u8]) -> Result<Reply, Violation> {
        if !matches!(self.expected.front(), Some(Expected::Describe(_))) {
            return Err(Violation::UnexpectedMessage(header.tag));
        }
        if let Prepared::Raw = self.prepared {
            return Ok(Reply::PASS);
        }
        self.described.clear();
        self.described.push(header.tag);
        self.described.extend_from_slice(&header.len.to_be_bytes());
        self.described.extend_from_slice(body);
        Ok(Reply::keep(header))
    }

    /// RowDescription and NoData answer a Describe; within a Query the former is part of its result.
    #[inline]
    fn description(&mut self, header: Header, aside: &mut Aside) -> Result<Reply, Violation> {
        match self.expected.front() {
            Some(Expected::Describe(_)) => {
                self.expected.pop_front();
                aside.to_client.append(&mut self.described);
                Ok(Reply::PASS)
            }
            Some(Expected::Query(_)) if header.tag == tag::ROW_DESCRIPTION => Ok(Reply::PASS),
            _ => Err(Violation::UnexpectedMessage(header.tag)),
        }
    }

    /// The Syncs that came before the server asked for data are read, and ignored, as part of the data. (Protocol: "COPY Operations")
    fn copy_in_begins(&mut self, header: Header) -> Result<Reply, Violation> {
        if !self.expected.front().is_some_and(Expected::is_execution) {
            return Err(Violation::UnexpectedMessage(header.tag));
        }
        self.copy_in = CopyIn::Running;
        let end = self
            .expected
            .iter()
            .position(|expected| matches!(expected, Expected::CopyEnd));
        let within = end.unwrap_or(self.expected.len());
        for expected in self
            .expected
            .iter_mut()
            .take(within)
            .filter(|expected| matches!(expected, Expected::Sync))
        {
            *expected = Expected::IgnoredSync;
        }
        if let Some(end) = end {
            self.copy_in = CopyIn::Ended;
            self.expected.remove(end);
        }
        let by_execute = matches!(self.expected.front(), Some(Expected::Execute(_)));
        if by_execute
            && !self
                .expected
                .iter()
                .any(|expected| matches!(expected, Expected::Sync))
        {
            self.series = Series::Open;
        }
        Ok(Reply::PASS)
    }

    #[inline]
    fn drop_copy_ends(&mut self) {
        while let Some(Expected::CopyEnd) = self.expected.front() {
            self.expected.pop_front();
        }
    }
}

#[inline]
fn is_asynchronous(message: u8) -> bool {
    matches!(
        message,
        tag::PARAMETER_STATUS | tag::NOTICE_RESPONSE | tag::NOTIFICATION_RESPONSE
    )
}

fn parameter_status(header: Header, own: bool) -> Reply {
    Reply::pass_if(!own, header).with(Event::ParameterStatus { own })
}
