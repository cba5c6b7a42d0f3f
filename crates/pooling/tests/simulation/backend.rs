//! A model of one PostgreSQL session: the rules of the manual's chapter "Frontend/Backend Protocol" that a pooler can come into conflict with, over
//! a language of a few commands. It takes a client's bytes and gives the server's.

use std::collections::HashMap;
use wire::backend::{Column, TransactionStatus};
use wire::frontend::{Bind, Close, Describe, Execute, Parse, Query, Target, tag};
use wire::{Header, Report, Severity, SqlState, write};

/// Whether COPY FROM STDIN runs, and what its error does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Copy {
    No,
    OfQuery,
    OfExecute,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Normal,
    SkippingToSync,
}

struct Portal {
    text: Vec<u8>,
    rows_left: u32,
}

pub struct Backend {
    pub named: HashMap<Vec<u8>, Vec<u8>>,
    unnamed: Option<Vec<u8>>,
    portals: HashMap<Vec<u8>, Portal>,
    status: TransactionStatus,
    mode: Mode,
    copy: Copy,
    /// Extended messages have been executed since the last Sync.
    series: Series,
    input: Vec<u8>,
    /// What has been said; the first `flushed` bytes are on their way.
    output: Vec<u8>,
    flushed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Series {
    Closed,
    Open,
}

type Done = Result<(), (SqlState, String)>;

fn fail(state: SqlState, text: impl Into<String>) -> Done {
    Err((state, text.into()))
}

impl Backend {
    pub fn new() -> Backend {
        Backend {
            named: HashMap::new(),
            unnamed: None,
            portals: HashMap::new(),
            status: TransactionStatus::Idle,
            mode: Mode::Normal,
            copy: Copy::No,
            series: Series::Closed,
            input: Vec::new(),
            output: Vec::new(),
            flushed: 0,
        }
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Does what the next whole message asks for; false if there is none.
    pub fn step(&mut self) -> bool {
        let Ok(Some(header)) = Header::peek(&self.input) else {
            return false;
        };
        if self.input.len() < header.total() {
            return false;
        }
        let message: Vec<u8> = self.input.drain(..header.total()).collect();
        self.message(header.tag, &message[Header::SIZE..]);
        true
    }

    /// Bytes on their way to the other side.
    pub fn sent(&self) -> &[u8] {
        &self.output[..self.flushed]
    }

    pub fn take_sent(&mut self, len: usize) -> Vec<u8> {
        self.flushed -= len;
        self.output.drain(..len).collect()
    }

    /// Nothing is left of whoever used it, but for prepared statements; for what nobody asked for, on its way; and for messages to which
    /// there is no answer.
    pub fn is_at_rest(&self, arrived: &[u8]) -> bool {
        only(&[arrived, &self.output].concat(), b"NAS")
            && only(&self.input, b"dcfH")
            && self.status == TransactionStatus::Idle
            && (self.mode, self.copy, self.series) == (Mode::Normal, Copy::No, Series::Closed)
    }

    pub fn describe_rest(&self) -> String {
        let (input, output) = (self.input.escape_ascii(), self.output.escape_ascii());
        format!(
            "{:?} {:?} {:?} {:?} input {input} output {output}",
            self.status, self.mode, self.copy, self.series
        )
    }

    pub fn is_in_transaction(&self) -> bool {
        self.status != TransactionStatus::Idle
    }

    /// Says something that nobody asked for.
    pub fn speak_up(&mut self, what: u32) {
        match what % 3 {
            0 => write::notice_response(
                &mut self.output,
                &Report::new(Severity::Notice, SqlState::WARNING, "by the way"),
            ),
            1 => write::notification_response(&mut self.output, 1, b"channel", b"payload"),
            _ => write::parameter_status(&mut self.output, b"TimeZone", b"UTC"),
        }
        self.flush();
    }

    /// A cancel request: it interrupts what waits.
    pub fn cancel(&mut self) {
        if self.copy != Copy::No {
            self.error(
                SqlState::QUERY_CANCELED,
                "canceling statement due to user request",
                self.copy == Copy::OfExecute,
            );
        }
    }

    fn flush(&mut self) {
        self.flushed = self.output.len();
    }

    fn message(&mut self, message: u8, body: &[u8]) {
        if self.copy != Copy::No {
            return self.copy_message(message, body);
        }
        if self.mode == Mode::SkippingToSync && message != tag::SYNC {
            return;
        }
        match message {
            tag::SYNC => self.sync(),
            tag::FLUSH => self.flush(),
            tag::QUERY => self.query(Query::parse(body).unwrap().text),
            tag::FUNCTION_CALL => self.function_call(),
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {}
            _ => self.extended(message, body),
        }
    }

    fn copy_message(&mut self, message: u8, body: &[u8]) {
        let extended = self.copy == Copy::OfExecute;
        match message {
            tag::COPY_DATA if body == b"bad" => {
                self.error(SqlState::INVALID_PARAMETER_VALUE, "bad data", extended)
            }
            tag::COPY_FAIL => {
                self.error(SqlState::QUERY_CANCELED, "COPY from stdin failed", extended)
            }
            tag::COPY_DONE => {
                self.copy = Copy::No;
                write::command_complete(&mut self.output, b"COPY 1");
                if !extended {
                    self.ready();
                }
            }
            tag::COPY_DATA | tag::SYNC | tag::FLUSH => {}
            other => panic!(
                "the script or the pooler sends {} into a COPY",
                other as char
            ),
        }
    }

    fn extended(&mut self, message: u8, body: &[u8]) {
        self.series = Series::Open;
        let done = match message {
            tag::PARSE => self.parse(Parse::parse(body).unwrap()),
            tag::BIND => self.bind(Bind::parse(body).unwrap()),
            tag::DESCRIBE => self.describe(Describe::parse(body).unwrap()),
            tag::EXECUTE => self.execute(Execute::parse(body).unwrap()),
            tag::CLOSE => self.close(Close::parse(body).unwrap()),
            other => panic!("unexpected message {}", other as char),
        };
        if let Err((state, text)) = done {
            self.error(state, &text, true);
        }
    }

    fn error(&mut self, state: SqlState, text: &str, extended: bool) {
        write::error_response(&mut self.output, &Report::new(Severity::Error, state, text));
        self.flush();
        self.copy = Copy::No;
        if self.status == TransactionStatus::InTransaction {
            self.status = TransactionStatus::Failed;
        }
        if extended {
            self.mode = Mode::SkippingToSync;
        } else {
            self.ready();
        }
    }

    fn ready(&mut self) {
        self.series = Series::Closed;
        if self.status == TransactionStatus::Idle {
            self.portals.clear();
        }
        write::ready_for_query(&mut self.output, self.status);
        self.flush();
    }

    fn sync(&mut self) {
        self.mode = Mode::Normal;
        self.ready();
    }

    fn query(&mut self, text: &[u8]) {
        self.unnamed = None;
        self.portals.remove(&b""[..]);
        for command in text.split(|byte| *byte == b';') {
            if let Err((state, text)) = self
                .parse_checks(command)
                .and_then(|()| self.run(command, None, Copy::OfQuery))
            {
                return self.error(state, &text, false);
            }
        }
        if self.copy == Copy::No {
            self.ready();
        }
    }

    fn function_call(&mut self) {
        if self.status == TransactionStatus::Failed {
            return self.error(SqlState::IN_FAILED_SQL_TRANSACTION, "aborted", false);
        }
        self.output
            .extend_from_slice(b"V\0\0\0\x08\xff\xff\xff\xff");
        self.ready();
    }

    fn parse_checks(&self, text: &[u8]) -> Done {
        if text.starts_with(b"syntax") {
            return fail(SqlState::SYNTAX_ERROR, "syntax error");
        }
        self.failed_check(text)
    }

    fn failed_check(&self, text: &[u8]) -> Done {
        let ends = matches!(text, b"commit" | b"rollback" | b"ROLLBACK");
        if self.status == TransactionStatus::Failed && !ends {
            return fail(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted",
            );
        }
        Ok(())
    }

    fn parse(&mut self, parse: Parse<'_>) -> Done {
        if parse.name.is_empty() {
            self.unnamed = None;
        }
        self.parse_checks(parse.text)?;
        if parse.name.is_empty() {
            self.unnamed = Some(parse.text.to_vec());
        } else if self.named.contains_key(parse.name) {
            let name = String::from_utf8_lossy(parse.name);
            return fail(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            );
        } else {
            self.named.insert(parse.name.to_vec(), parse.text.to_vec());
        }
        write::parse_complete(&mut self.output);
        Ok(())
    }

    fn statement(&self, name: &[u8]) -> Result<Vec<u8>, (SqlState, String)> {
        let found = if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.named.get(name)
        };
        let missing = || {
            format!(
                "prepared statement \"{}\" does not exist",
                String::from_utf8_lossy(name)
            )
        };
        found
            .cloned()
            .ok_or_else(|| (SqlState::INVALID_SQL_STATEMENT_NAME, missing()))
    }

    fn bind(&mut self, bind: Bind<'_>) -> Done {
        let text = self.statement(bind.statement)?;
        self.failed_check(&text)?;
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            return fail(SqlState::INVALID_CURSOR_NAME, "portal exists");
        }
        self.portals.insert(
            bind.portal.to_vec(),
            Portal {
                rows_left: rows_of(&text),
                text,
            },
        );
        write::bind_complete(&mut self.output);
        Ok(())
    }

    fn describe(&mut self, describe: Describe<'_>) -> Done {
        let text = match describe.target {
            Target::Statement => {
                let text = self.statement(describe.name)?;
                self.failed_check(&text)?;
                write::parameter_description(&mut self.output, &[]);
                text
            }
            Target::Portal => match self.portals.get(describe.name) {
                Some(portal) => portal.text.clone(),
                None => return fail(SqlState::INVALID_CURSOR_NAME, "no such portal"),
            },
        };
        if text.starts_with(b"rows") {
            write::row_description(&mut self.output, &[Column::new(&text, 25, -1)]);
        } else {
            write::no_data(&mut self.output);
        }
        Ok(())
    }

    fn execute(&mut self, execute: Execute<'_>) -> Done {
        let Some(portal) = self.portals.get(execute.portal) else {
            return fail(SqlState::INVALID_CURSOR_NAME, "no such portal");
        };
        let (text, rows_left) = (portal.text.clone(), portal.rows_left);
        self.failed_check(&text)?;
        let limit = u32::try_from(execute.max_rows)
            .ok()
            .filter(|limit| *limit > 0);
        if let Some(limit) = limit.filter(|limit| text.starts_with(b"rows") && *limit < rows_left) {
            self.rows(&text, limit);
            self.portals.get_mut(execute.portal).unwrap().rows_left -= limit;
            write::portal_suspended(&mut self.output);
            return Ok(());
        }
        if matches!(&text[..], b"copy in" | b"deallocate all") && execute.portal != b"planned" {
            return fail(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the script would not know of it",
            );
        }
        self.portals.remove(execute.portal);
        self.run(&text, Some(rows_left), Copy::OfExecute)
    }

    fn close(&mut self, close: Close<'_>) -> Done {
        match close.target {
            Target::Portal => drop(self.portals.remove(close.name)),
            Target::Statement if close.name.is_empty() => self.unnamed = None,
            Target::Statement => drop(self.named.remove(close.name)),
        }
        write::close_complete(&mut self.output);
        Ok(())
    }

    fn rows(&mut self, text: &[u8], count: u32) {
        for _ in 0..count {
            write::data_row(&mut self.output, [Some(text)]);
        }
    }

    /// `rows_left` in the extended protocol, which sends no RowDescription here.
    fn run(&mut self, text: &[u8], rows_left: Option<u32>, copy: Copy) -> Done {
        let done: &[u8] = match text {
            b"" => {
                write::empty_query_response(&mut self.output);
                return Ok(());
            }
            b"begin" => {
                self.status = TransactionStatus::InTransaction;
                b"BEGIN"
            }
            b"commit" | b"rollback" | b"ROLLBACK" => self.end(text),
            b"deallocate all" => {
                self.named.clear();
                b"DEALLOCATE ALL"
            }
            b"discard all" if self.status != TransactionStatus::Idle => {
                return fail(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "DISCARD ALL cannot run inside a transaction block",
                );
            }
            b"discard all" => {
                self.named.clear();
                self.unnamed = None;
                b"DISCARD ALL"
            }
            b"fail" => return fail(SqlState::INVALID_PARAMETER_VALUE, "it failed"),
            b"copy in" => {
                self.copy = copy;
                self.output.extend_from_slice(b"G\0\0\0\x07\0\0\0");
                self.flush();
                return Ok(());
            }
            b"copy out" => {
                self.output.extend_from_slice(b"H\0\0\0\x07\0\0\0");
                write::copy_data(&mut self.output, b"out");
                write::copy_done(&mut self.output);
                b"COPY 1"
            }
            _ => {
                if rows_left.is_none() {
                    write::row_description(&mut self.output, &[Column::new(text, 25, -1)]);
                }
                self.rows(text, rows_left.unwrap_or_else(|| rows_of(text)));
                b"SELECT"
            }
        };
        write::command_complete(&mut self.output, done);
        Ok(())
    }

    fn end(&mut self, text: &[u8]) -> &'static [u8] {
        let failed = self.status == TransactionStatus::Failed;
        self.status = TransactionStatus::Idle;
        self.portals.clear();
        if failed || text != b"commit" {
            b"ROLLBACK"
        } else {
            b"COMMIT"
        }
    }
}

fn only(messages: &[u8], tags: &[u8]) -> bool {
    let mut rest = messages;
    while let Ok(Some(header)) = Header::peek(rest)
        && tags.contains(&header.tag)
        && rest.len() >= header.total()
    {
        rest = &rest[header.total()..];
    }
    rest.is_empty()
}

fn rows_of(text: &[u8]) -> u32 {
    u32::from(text.last().copied().unwrap_or(0) % 4)
}
