//! Tables of conversations. A row is one step: who speaks and what, and what goes to the other side, or back, in its place.
//!
//!     client: Parse(a,select 1) Sync   => what goes to the server
//!     server: 1 Z(I)                   => what goes to the client
//!     next / gone / own(replay)        => a new lease / the client vanishes / a query of the pooler's own: what goes to the server
//!     dates(German)                    => it is known that DateStyle has another value
//!
//! After `->` stands the state: settled, busy or doubtful. Statements' names on the server are written `#1`, `#2` in the order of their first use.
//! Words after a lone `|` go back to whoever speaks. Every table is run twice, the second time with messages cut at every byte.

#![allow(
    clippy::unwrap_used,
    reason = "what a test reads it has written itself"
)]

use pooling::conversation::{Aside, ClientSide, Event, Own, Passage, Reply, Violation};
use pooling::statements::{ClientStatements, StatementCache};
use pooling::{Conversation, Parameters};
use std::fmt::Write;
use std::sync::Arc;
use wire::backend::{CommandComplete, ErrorFields, ReadyForQuery};
use wire::frontend::{Bind, Close, Describe, Execute, Parse, Query, Target};
use wire::{Header, Report, Severity, SqlState, write};

struct Table {
    conversation: Conversation,
    client: Option<ClientStatements>,
    /// The statements of clients that wait for their next lease.
    others: Vec<ClientStatements>,
    cache: StatementCache,
    parameters: Arc<Parameters>,
    names: Vec<String>,
}

/// Whether a message is shown at once or byte by byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Whole,
    EveryByte,
}

fn table(statements_max: Option<usize>, rows: &str) {
    for cut in [Cut::Whole, Cut::EveryByte] {
        let mut table = Table {
            conversation: Conversation::new(statements_max),
            client: Some(ClientStatements::default()),
            others: Vec::new(),
            cache: StatementCache::new([3; 16], 1 << 20, Arc::default()),
            parameters: Arc::default(),
            names: Vec::new(),
        };
        for row in rows.lines().map(str::trim).filter(|row| !row.is_empty()) {
            table.row(row, cut);
        }
    }
}

impl Table {
    fn row(&mut self, row: &str, cut: Cut) {
        let (row_without_state, state) = row.split_once("->").unwrap_or((row, ""));
        let (said, expected) = row_without_state
            .split_once("=>")
            .unwrap_or((row_without_state, ""));
        let heard = match said.trim().split_once(':') {
            Some(("client", words)) => self.client_says(words, cut),
            Some(("server", words)) => self.server_says(words, cut),
            _ => self.event(said.trim()),
        };
        assert_eq!(heard.trim(), expected.trim(), "in row: {row}");
        if !state.is_empty() {
            assert_eq!(self.state(), state.trim(), "in row: {row}");
        }
    }

    fn state(&self) -> &'static str {
        match &self.conversation {
            it if it.is_doubtful() => "doubtful",
            it if it.is_settled() => "settled",
            it if it.is_busy() => "busy",
            _ => "in transaction",
        }
    }

    fn event(&mut self, event: &str) -> String {
        let mut to_server = Vec::new();
        match event {
            "next" => {
                assert!(self.conversation.is_settled());
                self.others.insert(
                    0,
                    self.client
                        .replace(ClientStatements::default())
                        .unwrap_or_default(),
                );
                self.conversation.begin_lease(1);
            }
            "back" => {
                assert!(self.conversation.is_settled());
                let back = self.others.pop().expect("somebody has left");
                self.others
                    .insert(0, self.client.replace(back).unwrap_or_default());
                self.conversation.begin_lease(1);
            }
            date if date.starts_with("dates") => {
                let style = [("DateStyle", &date[5..])];
                self.parameters = Arc::new(Parameters::reported(style));
            }
            "gone" => {
                self.client = None;
                self.conversation.wind_up(&mut to_server);
            }
            "own(replay)" => self
                .conversation
                .own_query(Own::Replay, b"SET x", &mut to_server),
            "own(reset)" => self
                .conversation
                .own_query(Own::Reset, b"DISCARD ALL", &mut to_server),
            "own(rollback)" => {
                self.conversation
                    .own_query(Own::Rollback, b"ROLLBACK", &mut to_server)
            }
            other => panic!("unknown event {other}"),
        }
        self.spell(&to_server, frontend_word)
    }

    fn client_says(&mut self, words: &str, cut: Cut) -> String {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        for message in messages(words, frontend) {
            let header = Header::peek(&message).unwrap().unwrap();
            let mut aside = Aside::default();
            let first = if cut == Cut::Whole {
                message.len()
            } else {
                Header::SIZE
            };
            let passage = (first..=message.len()).find_map(|len| {
                let side = ClientSide {
                    statements: self.client.as_mut().unwrap(),
                    cache: &mut self.cache,
                    parameters: &self.parameters,
                    watch: None,
                    recall: None,
                };
                match self.conversation.client_message(
                    side,
                    header,
                    &message[Header::SIZE..len],
                    &mut aside,
                ) {
                    Ok(Passage::Incomplete) => None,
                    passage => Some(passage),
                }
            });
            match passage.expect("a whole message decides") {
                Ok(Passage::Pass { skip }) => {
                    to_server.extend_from_slice(&aside.to_server);
                    to_server.extend_from_slice(&message[skip..]);
                    to_client.extend_from_slice(&aside.to_client);
                    self.conversation.keep(&message);
                }
                Ok(Passage::Incomplete) => unreachable!(),
                Ok(Passage::Wait) => {
                    assert!(aside.to_server.is_empty() && aside.to_client.is_empty());
                    return format!("{} waits", self.spell(&to_server, frontend_word));
                }
                Err(violation) => return format!("violation {violation}"),
            }
        }
        let mut heard = self.spell(&to_server, frontend_word);
        if !to_client.is_empty() {
            write!(heard, " | {}", self.spell(&to_client, backend_word)).unwrap();
        }
        heard
    }

    fn server_says(&mut self, words: &str, cut: Cut) -> String {
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let words = self
            .names
            .iter()
            .enumerate()
            .fold(words.to_owned(), |words, (n, name)| {
                words.replace(&format!("#{}", n + 1), name)
            });
        for message in messages(&words, backend) {
            let header = Header::peek(&message).unwrap().unwrap();
            let mut aside = Aside::default();
            let first = if cut == Cut::Whole {
                message.len()
            } else {
                Header::SIZE
            };
            let reply = (first..=message.len()).find_map(|len| {
                let body = &message[Header::SIZE..len];
                match self.conversation.server_message(
                    self.client.as_mut(),
                    header,
                    body,
                    &mut aside,
                ) {
                    Ok(reply) if reply.passage == Passage::Incomplete => None,
                    reply => Some(reply),
                }
            });
            match reply.expect("a whole message decides") {
                Ok(Reply {
                    passage: Passage::Pass { skip },
                    event,
                }) => {
                    to_client.extend_from_slice(&aside.to_client);
                    to_client.extend_from_slice(&message[skip..]);
                    if let (Event::Outdated(mark) | Event::Repeat(mark), Some(client)) =
                        (event, &self.client)
                    {
                        self.cache.note_outdated(client, mark);
                    }
                    if matches!(event, Event::Repeat(_)) {
                        self.repeat(&mut to_server);
                    }
                    if event == Event::Notification {
                        to_client.extend_from_slice(&message);
                    }
                }
                Ok(_) => unreachable!(),
                Err(Violation::UnexpectedMessage(tag)) => {
                    return format!("violation {}", tag as char);
                }
                Err(Violation::Malformed(_)) => return "malformed".to_owned(),
            }
        }
        let mut heard = self.spell(&to_client, backend_word);
        if !to_server.is_empty() {
            write!(heard, " | {}", self.spell(&to_server, frontend_word)).unwrap();
        }
        heard
    }

    fn repeat(&mut self, to_server: &mut Vec<u8>) {
        let mut aside = Aside::default();
        let side = ClientSide {
            statements: self.client.as_mut().unwrap(),
            cache: &mut self.cache,
            parameters: &self.parameters,
            watch: None,
            recall: None,
        };
        self.conversation.repeat(side, &mut aside);
        assert!(aside.to_client.is_empty());
        to_server.extend_from_slice(&aside.to_server);
    }

    fn spell(&mut self, bytes: &[u8], word: fn(u8, &[u8]) -> String) -> String {
        let mut words = Vec::new();
        let mut rest = bytes;
        while let Some(header) = Header::peek(rest).unwrap() {
            words.push(word(header.tag, &rest[Header::SIZE..header.total()]));
            rest = &rest[header.total()..];
        }
        assert!(rest.is_empty());
        let mut words = words.join(" ");
        words = words.replace("weir_marker", "marker");
        while let Some(at) = words.find("weir_") {
            let name = words[at..at + 37].to_owned();
            let known = self.names.iter().position(|known| *known == name);
            let number = known.unwrap_or_else(|| {
                self.names.push(name.clone());
                self.names.len() - 1
            });
            words = words.replace(&name, &format!("#{}", number + 1));
        }
        words
    }
}

/// Words are separated by spaces outside of brackets.
fn messages(words: &str, message: fn(&str, &[&str]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut rest = words.trim();
    while !rest.is_empty() {
        let end = rest.find([' ', '(']).unwrap_or(rest.len());
        let (name, mut after) = rest.split_at(end);
        let mut arguments = Vec::new();
        if let Some(inside) = after.strip_prefix('(') {
            let close = inside.find(')').expect("a bracket is closed");
            arguments = inside[..close].split(',').collect();
            after = &inside[close + 1..];
        }
        messages.push(message(name, &arguments));
        rest = after.trim_start();
    }
    messages
}

fn frontend(name: &str, arguments: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let a = |n: usize| arguments.get(n).copied().unwrap_or_default().as_bytes();
    match name {
        "Query" => write::query(&mut out, a(0)),
        "Parse" => write::parse(&mut out, a(0), a(1), &[0, 0]),
        "Bind" => write::bind(&mut out, a(1), a(0), &[0; 6]),
        "Describe" => write::describe(&mut out, Target::Statement, a(0)),
        "DescribePortal" => write::describe(&mut out, Target::Portal, a(0)),
        "Close" => write::close(&mut out, Target::Statement, a(0)),
        "ClosePortal" => write::close(&mut out, Target::Portal, a(0)),
        "Execute" => write::execute(&mut out, a(0), 0),
        "Sync" => write::sync(&mut out),
        "Flush" => write::flush(&mut out),
        "CopyData" => write::copy_data(&mut out, a(0)),
        "CopyDone" => write::copy_done(&mut out),
        "CopyFail" => write::copy_fail(&mut out, a(0)),
        "FunctionCall" => out.extend_from_slice(b"F\0\0\0\x0e\0\0\0\x01\0\0\0\0\0\0"),
        "Unknown" => out.extend_from_slice(b"!\0\0\0\x04"),
        "Malformed" => out.extend_from_slice(b"P\0\0\0\x06aa"),
        other => panic!("unknown message {other}"),
    }
    out
}

fn frontend_word(tag: u8, body: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let named = |name: &str, argument: &[u8]| {
        if argument.is_empty() {
            name.to_owned()
        } else {
            format!("{name}({})", text(argument))
        }
    };
    match tag {
        b'Q' => named("Query", Query::parse(body).unwrap().text),
        b'P' => Parse::parse(body)
            .map(|it| format!("Parse({},{})", text(it.name), text(it.text)))
            .unwrap_or("Malformed".into()),
        b'B' => Bind::parse(body)
            .map(|it| {
                named(
                    "Bind",
                    &[
                        it.statement,
                        if it.portal.is_empty() { b"" } else { b"," },
                        it.portal,
                    ]
                    .concat(),
                )
            })
            .unwrap(),
        b'D' => Describe::parse(body)
            .map(|it| {
                named(
                    if it.target == Target::Portal {
                        "DescribePortal"
                    } else {
                        "Describe"
                    },
                    it.name,
                )
            })
            .unwrap(),
        b'C' => Close::parse(body)
            .map(|it| {
                named(
                    if it.target == Target::Portal {
                        "ClosePortal"
                    } else {
                        "Close"
                    },
                    it.name,
                )
            })
            .unwrap(),
        b'E' => named("Execute", Execute::parse(body).unwrap().portal),
        b'S' => "Sync".into(),
        b'H' => "Flush".into(),
        b'd' => named("CopyData", body),
        b'c' => "CopyDone".into(),
        b'f' => "CopyFail".into(),
        b'F' => "FunctionCall".into(),
        other => (other as char).into(),
    }
}

fn backend(name: &str, arguments: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let a = |n: usize| arguments.get(n).copied().unwrap_or_default();
    match name {
        "Z" => out.extend_from_slice(&[b'Z', 0, 0, 0, 5, a(0).as_bytes()[0]]),
        "C" => write::command_complete(&mut out, a(0).as_bytes()),
        "E" => {
            let state = SqlState::from_bytes(a(0).as_bytes()).unwrap();
            write::error_response(&mut out, &Report::new(Severity::Error, state, a(1)));
        }
        // "cached plan must not change result type"
        "STALE" => {
            let fields = b"SERROR\0VERROR\0C0A000\0Mstale\0RRevalidateCachedQuery\0\0";
            out.push(b'E');
            out.extend_from_slice(&(fields.len() as u32 + 4).to_be_bytes());
            out.extend_from_slice(fields);
        }
        "REFUSED" => write::error_response(
            &mut out,
            &Report::new(
                Severity::Error,
                SqlState::from_bytes(b"26000").unwrap(),
                "prepared statement \"outdated_at_weir\" does not exist",
            ),
        ),
        "FATAL" => write::error_response(
            &mut out,
            &Report::new(Severity::Fatal, SqlState::QUERY_CANCELED, a(0)),
        ),
        "N" => write::notice_response(
            &mut out,
            &Report::new(Severity::Notice, SqlState::WARNING, a(0)),
        ),
        "A" => write::notification_response(&mut out, 1, b"c", b"p"),
        "S" => write::parameter_status(&mut out, a(0).as_bytes(), a(1).as_bytes()),
        plain => out.extend_from_slice(&[plain.as_bytes()[0], 0, 0, 0, 4]),
    }
    out
}

fn backend_word(tag: u8, body: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match tag {
        b'Z' => format!(
            "Z({})",
            ReadyForQuery::parse(body).unwrap().status.as_u8() as char
        ),
        b'C' => CommandComplete::parse(body)
            .map(|it| {
                if it.tag.is_empty() {
                    "C".into()
                } else {
                    format!("C({})", text(it.tag))
                }
            })
            .unwrap(),
        b'E' => {
            let fields = ErrorFields::parse(body).unwrap();
            format!(
                "E({},{})",
                text(fields.get(b'C').unwrap()),
                text(fields.get(b'M').unwrap())
            )
        }
        other => (other as char).into(),
    }
}

const SHARED: Option<usize> = Some(100);

#[test]
fn simple_queries() {
    table(SHARED, "
        client: Query(select 1) => Query(select 1) -> busy
        server: T D D C(SELECT 2) => T D D C(SELECT 2) -> busy
        server: Z(I) => Z(I) -> settled
        client: Query(begin) Query(bad) Query(x) => Query(begin) Query(bad) Query(x)
        server: C(BEGIN) Z(T) E(42601,bad) Z(E) E(25P02,aborted) Z(E) => C(BEGIN) Z(T) E(42601,bad) Z(E) E(25P02,aborted) Z(E) -> in transaction
        client: Query(rollback) => Query(rollback)
        server: C(ROLLBACK) Z(I) => C(ROLLBACK) Z(I) -> settled
        client: Query => Query
        server: I Z(I) => I Z(I) -> settled");
}

#[test]
fn function_calls() {
    table(
        SHARED,
        "
        client: FunctionCall FunctionCall => FunctionCall FunctionCall -> busy
        server: V Z(I) E(22023,no) Z(I) => V Z(I) E(22023,no) Z(I) -> settled",
    );
}

#[test]
fn pipelines_with_errors_in_the_middle() {
    table(
        SHARED,
        "
        client: Parse(a,x) Bind(a) Execute Sync => Parse(#1,x) Bind(#1) Execute Sync
        server: 1 2 E(22012,zero) => 1 2 E(22012,zero) -> busy
        client: Bind(a) Execute Sync => Close(#1) Parse(#1,x) Bind(#1) Execute Sync
        server: Z(I) 3 1 2 C Z(I) => Z(I) 2 C Z(I) -> settled
        client: Bind(a) Execute Bind(a) Execute => Bind(#1) Execute Bind(#1) Execute
        server: 2 E(22012,zero) => 2 E(22012,zero) -> busy
        client: Bind(a) Query(skipped) Sync => Bind(a) Query(skipped) Sync
        server: Z(I) => Z(I) -> settled",
    );
}

/// What was prepared in a segment that may fail is there for a later one, or it is not; so with what was closed.
#[test]
fn a_name_that_is_on_its_way_is_waited_for() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Parse(bad,y) Parse(b,x) Sync Bind(b) => Parse(#2,y) Sync waits
        client: Bind(b) => waits
        server: E(42601,bad) Z(I) => E(42601,bad) Z(I)
        client: Bind(b) Sync Bind(a) Sync => Bind(b) Sync Bind(#1) Sync
        server: E(26000,b) Z(I) 2 Z(I) => E(26000,b) Z(I) 2 Z(I) -> settled
        client: Bind(none) Close(a) Sync Query(begin) Describe(a) => Bind(none) Sync Query(begin) waits
        server: E(26000,none) Z(I) => E(26000,none) Z(I)
        client: Describe(a) => Describe(#1)
        server: C(BEGIN) Z(T) t n => C(BEGIN) Z(T) t n
        client: Sync Query(rollback) Parse(c,z) Sync Parse(d,z) Sync => Sync Query(rollback) Parse(#3,z) Sync Close(#3) Parse(#3,z) Sync
        server: Z(T) C(ROLLBACK) Z(I) 1 Z(I) 3 1 Z(I) => Z(T) C(ROLLBACK) Z(I) 1 Z(I) 1 Z(I) -> settled
        client: Parse(,bad) Sync Bind => Parse(,bad) Sync waits
        server: E(42601,bad) Z(I) => E(42601,bad) Z(I)
        client: Parse(bad,y) Sync Parse(e,w) Bind(bad) => Parse(#2,y) Sync Parse(#4,w) waits
        server: E(42601,bad) Z(I) => E(42601,bad) Z(I)
        client: Bind(bad) Sync => Bind(bad) Sync
        server: 1 E(26000,bad) Z(I) => 1 E(26000,bad) Z(I)
        client: Bind Sync => Bind Sync
        server: E(26000,none) Z(I) => E(26000,none) Z(I) -> settled",
    );
}

/// A server that waits for COPY data answers nothing before it comes.
#[test]
fn nothing_is_waited_for_while_copy_data_is_expected() {
    table(
        SHARED,
        "
        client: Parse(a,copy) Bind(a) Execute Sync => Parse(#1,copy) Bind(#1) Execute Sync
        client: Bind(a) => waits
        server: 1 2 G => 1 2 G
        client: Bind(a) => Close(#1) Parse(#1,copy) Bind(#1)
        server: E(08P01,unexpected) => E(08P01,unexpected)
        client: Sync => Sync
        server: Z(I) => Z(I)",
    );
}

#[test]
fn an_error_at_a_sync_is_an_answer_to_it() {
    table(
        SHARED,
        "
        client: Parse(,x) Bind Execute Sync => Parse(,x) Bind Execute Sync
        server: 1 2 C E(23503,deferred) Z(I) => 1 2 C E(23503,deferred) Z(I) -> settled",
    );
}

#[test]
fn between_flush_and_sync_the_lease_goes_on() {
    table(
        SHARED,
        "
        client: Parse(,x) Bind Execute Flush => Parse(,x) Bind Execute Flush
        server: 1 2 D C(SELECT 1) => 1 2 D C(SELECT 1) -> busy
        client: Flush => Flush -> busy
        client: Sync => Sync
        server: Z(I) => Z(I) -> settled
        client: Flush => Flush -> settled",
    );
}

#[test]
fn what_is_prepared_is_not_parsed_again_and_answered_in_its_turn() {
    table(
        SHARED,
        "
        client: Parse(a,x) Describe(a) Sync => Parse(#1,x) Describe(#1) Sync
        server: 1 t n Z(I) => 1 t n Z(I)
        next
        client: Parse(b,x) Bind(b) Execute Parse(c,x) Bind(c) Sync => Bind(#1) Execute Bind(#1) Sync
        server: 2 D C 2 Z(I) => 1 2 D C 1 2 Z(I) -> settled
        client: Parse(d,x) Sync => Sync
        server: N(psst) Z(I) => N 1 Z(I) -> settled",
    );
}

#[test]
fn flush_brings_answers_of_the_poolers_own() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Parse(b,x) Flush => Flush | 1
        client: Bind(a) Execute Parse(c,x) Close(b) Flush => Bind(#1) Execute Close(marker) Flush
        server: 2 D C => 2 D C -> busy
        server: 3 => 1 3 -> busy
        client: Sync => Sync
        server: Z(I) => Z(I) -> settled",
    );
}

#[test]
fn a_name_given_twice_is_refused_under_the_clients_own_name() {
    table(SHARED, "
        client: Parse(a,x) Parse(b,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 1 Z(I)
        client: Parse(b,y) Sync => Parse(#1,y) Sync
        server: E(42P05,prepared statement \"#1\" already exists) Z(I) => E(42P05,prepared statement \"b\" already exists) Z(I) -> settled
        client: Bind(a) Sync => Bind(#1) Sync
        server: 2 Z(I) => 2 Z(I) -> settled");
}

#[test]
fn unknown_names_are_left_to_the_server() {
    table(SHARED, "
        client: Bind(sql) Sync Describe(sql) Sync Close(sql) Sync => Bind(sql) Sync Describe(sql) Sync Close(sql) Sync
        server: E(26000,no \"sql\") Z(I) t n Z(I) 3 Z(I) => E(26000,no \"sql\") Z(I) t n Z(I) 3 Z(I) -> settled");
}

#[test]
fn close_and_parse_again() {
    table(
        SHARED,
        "
        client: Parse(a,x) Close(a) Parse(a,y) Bind(a) Sync => Parse(#1,x) Parse(#2,y) Bind(#2) Sync
        server: 1 1 2 Z(I) => 1 3 1 2 Z(I) -> settled
        client: Bind(none) Close(a) Parse(a,x) Sync => Bind(none) Sync
        server: E(26000,none) Z(I) => E(26000,none) Z(I) -> settled
        client: Bind(a) Sync => Bind(#2) Sync
        server: 2 Z(I) => 2 Z(I) -> settled",
    );
}

#[test]
fn the_least_recently_used_statement_is_closed_and_comes_back() {
    table(Some(2), "
        client: Parse(a,x) Parse(b,y) Bind(a) Parse(c,z) Sync => Parse(#1,x) Parse(#2,y) Bind(#1) Close(#2) Parse(#3,z) Sync
        server: 1 1 2 3 1 Z(I) => 1 1 2 1 Z(I) -> settled
        client: Bind(b) Sync => Close(#1) Parse(#2,y) Bind(#2) Sync
        server: 3 1 2 Z(I) => 2 Z(I) -> settled");
}

#[test]
fn a_skipped_eviction_or_parse_is_made_good() {
    table(
        Some(1),
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Bind(none) Parse(b,y) Sync => Bind(none) Close(#1) Parse(#2,y) Sync
        server: E(26000,none) Z(I) => E(26000,none) Z(I)
        client: Bind(a) Sync => Close(#1) Parse(#1,x) Bind(#1) Sync
        server: 3 1 2 Z(I) => 2 Z(I)
        client: Bind(b) Sync => Bind(b) Sync
        server: E(26000,b) Z(I) => E(26000,b) Z(I)
        client: Parse(b,y) Sync => Close(#1) Parse(#2,y) Sync
        server: 3 E(42601,y) Z(I) => E(42601,y) Z(I)
        client: Bind(a) Sync => Parse(#1,x) Bind(#1) Sync
        server: 1 2 Z(I) => 2 Z(I) -> settled",
    );
}

#[test]
fn the_unnamed_statement_is_the_clients_own() {
    table(
        SHARED,
        "
        client: Parse(,x) Bind Execute Sync => Parse(,x) Bind Execute Sync
        server: 1 2 C Z(I) => 1 2 C Z(I)
        next
        client: Bind Sync => Close Bind Sync
        server: 3 E(26000,unnamed) Z(I) => E(26000,unnamed) Z(I) -> settled
        back
        client: Bind Sync => Parse(,x) Bind Sync
        server: 1 2 Z(I) => 2 Z(I)
        back
        client: Query(q) => Query(q)
        server: C Z(I) => C Z(I)
        back
        client: Bind Sync => Parse(,x) Bind Sync
        server: 1 2 Z(I) => 2 Z(I)
        client: Query(q) => Query(q)
        server: C Z(I) => C Z(I)
        client: Bind Sync => Bind Sync
        server: E(26000,unnamed) Z(I) => E(26000,unnamed) Z(I) -> settled",
    );
}

#[test]
fn a_skipped_parse_does_not_lay_another_clients_unnamed_statement_open() {
    table(
        SHARED,
        "
        client: Parse(,secret) Sync => Parse(,secret) Sync
        server: 1 Z(I) => 1 Z(I)
        next
        client: Bind(none) Parse(,mine) Sync => Bind(none) Parse(,mine) Sync
        server: E(26000,none) Z(I) => E(26000,none) Z(I)
        client: Bind Sync => Close Bind Sync
        server: 3 E(26000,unnamed) Z(I) => E(26000,unnamed) Z(I) -> settled
        next
        client: Parse(,bad) Sync => Parse(,bad) Sync
        server: E(42601,bad) Z(I) => E(42601,bad) Z(I)
        client: Bind Sync => Bind Sync
        server: E(26000,unnamed) Z(I) => E(26000,unnamed) Z(I)",
    );
}

#[test]
fn failed_transactions() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Query(begin) Query(bad) => Query(begin) Query(bad)
        server: C(BEGIN) Z(T) E(42601,bad) Z(E) => C(BEGIN) Z(T) E(42601,bad) Z(E)
        client: Parse(b,x) Sync => Close(#1) Parse(#1,x) Sync
        server: 3 E(25P02,aborted) Z(E) => E(25P02,aborted) Z(E)
        client: Query(rollback) => Query(rollback)
        server: C(ROLLBACK) Z(I) => C(ROLLBACK) Z(I) -> settled
        client: Bind(a) Sync => Parse(#1,x) Bind(#1) Sync
        server: 1 2 Z(I) => 2 Z(I) -> settled",
    );
}

/// PostgreSQL reads constants at a Parse: what was read under another DateStyle is another statement.
#[test]
fn what_is_set_at_a_parse_belongs_to_the_statement() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        next
        dates(German)
        client: Parse(b,x) Sync => Parse(#2,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Bind(b) Sync => Bind(#2) Sync
        server: 2 Z(I) => 2 Z(I)
        client: Query(set) Parse(c,y) Sync => Query(set) Parse(#3,y) Sync
        server: S(DateStyle,SQL) C Z(I) 1 Z(I) => S C Z(I) 1 Z(I)
        dates(SQL)
        client: Bind(c) Sync => Parse(#4,y) Bind(#4) Sync
        server: 1 2 Z(I) => 2 Z(I)
        client: Parse(,z) Sync => Parse(,z) Sync
        server: 1 Z(I) => 1 Z(I)
        next
        client: Bind Sync => Close Bind Sync
        server: 3 E(26000,unnamed) Z(I) => E(26000,unnamed) Z(I) -> settled
        dates(German)
        client: Parse(d,y) Bind(d) Sync => Close(#3) Parse(#3,y) Bind(#3) Sync
        server: 3 1 2 Z(I) => 1 2 Z(I) -> settled",
    );
}

/// A Parse behind what may yet fail in a transaction: the server has to judge it.
#[test]
fn a_parse_that_may_find_the_transaction_failed_goes_to_the_server() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Query(begin) Query(bad) Parse(b,x) Sync => Query(begin) Query(bad) Close(#1) Parse(#1,x) Sync
        server: C(BEGIN) Z(T) E(42601,bad) Z(E) 3 E(25P02,aborted) Z(E) => C(BEGIN) Z(T) E(42601,bad) Z(E) E(25P02,aborted) Z(E)
        client: Query(rollback) => Query(rollback)
        server: C(ROLLBACK) Z(I) => C(ROLLBACK) Z(I) -> settled
        client: Bind(b) Sync Parse(b,x) Sync => Bind(b) Sync Parse(#1,x) Sync
        server: E(26000,b) Z(I) 1 Z(I) => E(26000,b) Z(I) 1 Z(I)
        client: Parse(c,x) Sync Parse(d,x) Sync => Sync Sync
        server: Z(I) Z(I) => 1 Z(I) 1 Z(I)
        client: Query(begin) => Query(begin)
        server: C(BEGIN) Z(T) => C(BEGIN) Z(T)
        client: Parse(e,x) Sync => Sync
        server: Z(T) => 1 Z(T)
        client: Bind(c) Sync Parse(f,x) Sync => Bind(#1) Sync Close(#1) Parse(#1,x) Sync
        server: E(22P02,input) Z(E) 3 E(25P02,aborted) Z(E) => E(22P02,input) Z(E) E(25P02,aborted) Z(E)",
    );
}

#[test]
fn copy_in_by_query() {
    table(SHARED, "
        client: Query(copy) => Query(copy)
        server: G => G
        client: CopyData(x) CopyDone => CopyData(x) CopyDone
        server: C(COPY 1) Z(I) => C(COPY 1) Z(I) -> settled
        client: Query(copy) CopyData(x) CopyDone Query(copy) CopyData(y) CopyFail Query(q) => Query(copy) CopyData(x) CopyDone Query(copy) CopyData(y) CopyFail Query(q)
        server: G C(COPY 1) Z(I) G E(57014,failed) Z(I) C Z(I) => G C(COPY 1) Z(I) G E(57014,failed) Z(I) C Z(I) -> settled
        client: Query(copy) => Query(copy)
        server: G E(22P04,bad) => G E(22P04,bad)
        client: CopyData(late) CopyDone => CopyData(late) CopyDone
        server: Z(I) => Z(I) -> settled");
}

#[test]
fn copy_in_by_execute() {
    table(SHARED, "
        client: Parse(,copy) Bind Execute Sync => Parse(,copy) Bind Execute Sync
        server: 1 2 G => 1 2 G -> busy
        client: CopyData(x) CopyDone => CopyData(x) CopyDone
        server: C(COPY 1) => C(COPY 1) -> busy
        client: Sync => Sync
        server: Z(I) => Z(I) -> settled
        client: Parse(,copy) Bind Execute CopyData(x) CopyDone Sync => Parse(,copy) Bind Execute CopyData(x) CopyDone Sync
        server: 1 2 G E(22P04,bad) Z(I) => 1 2 G E(22P04,bad) Z(I) -> settled
        client: Parse(,copy) Bind Execute Sync => Parse(,copy) Bind Execute Sync
        server: 1 2 G E(57014,cancelled) => 1 2 G E(57014,cancelled) -> doubtful");
}

#[test]
fn copy_out_and_portals_with_row_limits() {
    table(SHARED, "
        client: Query(copy out) => Query(copy out)
        server: H d d c C(COPY 2) Z(I) => H d d c C(COPY 2) Z(I) -> settled
        client: Parse(,x) Bind(,p) Execute(p) Execute(p) ClosePortal(p) Sync => Parse(,x) Bind(,p) Execute(p) Execute(p) ClosePortal(p) Sync
        server: 1 2 D s D C(SELECT 2) 3 Z(I) => 1 2 D s D C(SELECT 2) 3 Z(I) -> settled
        client: Parse(,) Bind Execute Sync => Parse(,) Bind Execute Sync
        server: 1 2 I Z(I) => 1 2 I Z(I) -> settled");
}

#[test]
fn asynchronous_messages_come_at_any_place() {
    table(SHARED, "
        server: S(TimeZone,UTC) A N(psst) => S A N -> settled
        client: Parse(a,x) Bind(a) Execute Sync => Parse(#1,x) Bind(#1) Execute Sync
        server: A 1 N(psst) 2 S(TimeZone,UTC) D A C N(psst) Z(I) => A 1 N 2 S D A C N Z(I) -> settled");
}

#[test]
fn queries_of_the_poolers_own() {
    table(
        SHARED,
        "
        client: Parse(,x) Parse(a,y) Sync => Parse(,x) Parse(#1,y) Sync
        server: 1 1 Z(I) => 1 1 Z(I)
        own(replay) => Query(SET x)
        client: Bind Execute Bind(a) Sync => Parse(,x) Bind Execute Bind(#1) Sync
        server: C(SET) S(x,1) A N(psst) Z(I) 1 2 C 2 Z(I) => A 2 C 2 Z(I) -> settled
        next
        own(replay) => Query(SET x)
        server: E(22023,bad) Z(I) => -> settled
        own(reset) => Query(DISCARD ALL)
        server: C(DISCARD ALL) Z(I) => -> settled
        back
        client: Bind(a) Bind Sync => Parse(#1,y) Bind(#1) Parse(,x) Bind Sync
        server: 1 2 1 2 Z(I) => 2 2 Z(I) -> settled",
    );
}

#[test]
fn a_replay_destroys_the_unnamed_statement() {
    table(
        SHARED,
        "
        client: Parse(,x) Sync => Parse(,x) Sync
        server: 1 Z(I) => 1 Z(I)
        next
        back
        own(replay) => Query(SET x)
        client: Bind Sync => Parse(,x) Bind Sync
        server: C(SET) Z(I) 1 2 Z(I) => 2 Z(I) -> settled",
    );
}

#[test]
fn deallocate_all_holds_for_what_is_pipelined_behind_it() {
    for text in ["DEALLOCATE ALL", "discard all;"] {
        let done = if text.starts_with("DEALL") {
            "DEALLOCATE ALL"
        } else {
            "DISCARD ALL"
        };
        table(
            SHARED,
            &format!(
                "
            client: Parse(a,x) Parse(b,y) Sync => Parse(#1,x) Parse(#2,y) Sync
            server: 1 1 Z(I) => 1 1 Z(I)
            client: Query({text}) Parse(a,x) => Query({text}) waits
            server: C({done}) Z(I) => C({done}) Z(I)
            client: Parse(a,x) Bind(a) Bind(b) Sync => Parse(#1,x) Bind(#1) Bind(b) Sync
            server: 1 2 E(26000,b) Z(I) => 1 2 E(26000,b) Z(I)
            client: Bind(a) Sync => Bind(#1) Sync
            server: 2 Z(I) => 2 Z(I) -> settled"
            ),
        );
    }
}

#[test]
fn deallocate_all_by_execute_and_one_that_fails() {
    table(SHARED, "
        client: Parse(a,x) Parse(d,deallocate all) Sync => Parse(#1,x) Parse(#2,deallocate all) Sync
        server: 1 1 Z(I) => 1 1 Z(I)
        client: Bind(none) Bind(d,p) Execute(p) Sync => Bind(none) Bind(#2,p) Execute(p) Sync
        server: E(26000,none) Z(I) => E(26000,none) Z(I)
        client: Bind(d,p) Execute(p) Parse(a,x) Sync => Close(#2) Parse(#2,deallocate all) Bind(#2,p) Execute(p) Close(#1) Parse(#1,x) Sync
        server: 3 1 2 C(DEALLOCATE ALL) 3 1 Z(I) => 2 C(DEALLOCATE ALL) 1 Z(I)
        client: Bind(d) Sync => Bind(d) Sync
        server: E(26000,d) Z(I) => E(26000,d) Z(I)
        client: Query(begin) Query(bad) Query(deallocate all) => Query(begin) Query(bad) Query(deallocate all)
        server: C Z(T) E(42601,bad) Z(E) E(25P02,aborted) Z(E) => C Z(T) E(42601,bad) Z(E) E(25P02,aborted) Z(E)
        client: Query(rollback) => Query(rollback)
        server: C(ROLLBACK) Z(I) => C(ROLLBACK) Z(I) -> settled
        client: Bind(a) Sync => Close(#1) Parse(#1,x) Bind(#1) Sync
        server: 3 1 2 Z(I) => 2 Z(I) -> settled");
}

#[test]
fn a_segment_that_meets_an_outdated_statement_is_said_again() {
    // Prepared by the client in a segment before, or in the same one: by Weir's word only, as the server has it already.
    // What is prepared anew is a later edition, by another name.
    table(SHARED, "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Bind(a) DescribePortal Execute Sync => Bind(#1) DescribePortal Execute Sync
        server: STALE =>  | Parse(#2,x) Bind(#2) DescribePortal Execute Sync
        server: Z(I) 1 2 T D C Z(I) => 2 T D C Z(I) -> settled
        next
        client: Parse(b,x) Bind(b) Describe(b) Execute Sync => Bind(#2) Describe(#2) Execute Sync
        server: 2 t STALE => 1 2 | Parse(#3,x) Bind(#3) Describe(#3) Execute Sync
        server: Z(I) 1 2 t T D C Z(I) => t T D C Z(I) -> settled
        client: Describe(b) Sync => Describe(#3) Sync
        server: E(26000,prepared statement \"#3\" does not exist) =>  | Close(#3) Parse(#3,x) Describe(#3) Sync
        server: Z(I) 3 1 t T Z(I) => t T Z(I) -> settled
        client: Parse(,x) Sync => Parse(,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Bind Execute Sync => Bind Execute Sync
        server: STALE => E(0A000,stale)
        server: Z(I) => Z(I) -> settled");
}

#[test]
fn a_segment_is_said_again_before_its_sync_and_goes_on() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        next
        client: Parse(b,x) Describe(b) Flush => Describe(#1) Flush | 1
        server: STALE =>  | Sync Parse(#2,x) Describe(#2) Flush
        client: Bind(b) Execute Sync => Bind(#2) Execute Sync
        server: Z(I) 1 t T 2 C Z(I) => t T 2 C Z(I) -> settled
        client: Bind(b) Sync => Bind(#2) Sync
        server: 2 Z(I) => 2 Z(I) -> settled",
    );
}

#[test]
fn a_segment_is_said_again_once() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Bind(a) Sync => Bind(#1) Sync
        server: STALE =>  | Parse(#2,x) Bind(#2) Sync
        server: Z(I) 1 STALE Z(I) => E(0A000,stale) Z(I) -> settled
        client: Bind(a) Sync => Bind(outdated_at_weir) Sync
        server: REFUSED =>  | Parse(#3,x) Bind(#3) Sync
        server: Z(I) E(42P01,gone) Z(I) => E(42P01,gone) Z(I) -> settled
        client: Bind(a) Sync => Parse(#3,x) Bind(#3) Sync
        server: 1 2 Z(I) => 2 Z(I) -> settled",
    );
}

/// Where the client would see that it was said again, it sees the error: whatever server connection it meets, until it prepares anew.
#[test]
fn an_error_that_cannot_be_hidden_is_passed_on_and_stays() {
    table(SHARED, "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Query(begin) => Query(begin)
        server: C(BEGIN) Z(T) => C(BEGIN) Z(T)
        client: Bind(a) Execute Sync => Bind(#1) Execute Sync
        server: STALE Z(E) => E(0A000,stale) Z(E)
        client: Query(rollback) => Query(rollback)
        server: C(ROLLBACK) Z(I) => C(ROLLBACK) Z(I) -> settled
        client: Parse(b,y) Bind(b) Execute Bind(a) Execute Sync => Parse(#2,y) Bind(#2) Execute Bind(outdated_at_weir) Execute Sync
        server: 1 2 C REFUSED Z(I) => 1 2 C E(0A000,cached plan must not change result type) Z(I) -> settled
        client: Bind(a) Execute Sync => Bind(outdated_at_weir) Execute Sync
        server: REFUSED Z(I) => E(0A000,cached plan must not change result type) Z(I) -> settled
        client: Close(a) Parse(a,x) Bind(a) Execute Sync => Parse(#3,x) Bind(#3) Execute Sync
        server: 1 2 E(22P02,input) Z(I) => 3 1 2 E(22P02,input) Z(I) -> settled
        client: Parse(,z) Sync => Parse(,z) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Parse(,z) Bind Execute Bind Sync => Parse(,z) Bind Execute Bind Sync
        server: 1 2 C STALE Z(I) => 1 2 C E(0A000,stale) Z(I) -> settled
        next
        client: Bind Sync => Close Bind Sync
        server: 3 E(26000,none) Z(I) => E(26000,none) Z(I) -> settled
        back
        client: Bind(a) Sync => Close(#3) Parse(#3,x) Bind(#3) Sync -> busy
        gone => -> busy
        server: 3 1 STALE Z(I) => E(0A000,stale) Z(I) -> settled
        next
        client: Query(begin) Describe(a) Sync => Query(begin) Describe(a) Sync
        server: C(BEGIN) Z(T) t => C(BEGIN) Z(T)
        server: E(26000,gone) Z(E) => t E(26000,gone) Z(E)");
}

#[test]
fn what_a_statement_names_may_have_been_made_anew() {
    table(
        SHARED,
        "
        client: Parse(a,x) Sync => Parse(#1,x) Sync
        server: 1 Z(I) => 1 Z(I)
        client: Bind(a) Execute Sync => Bind(#1) Execute Sync
        server: 2 E(22P02,input) Z(I) => 2 E(22P02,input) Z(I)
        client: Describe(a) Sync => Describe(#1) Sync
        server: E(42704,gone) Z(I) => E(42704,gone) Z(I)
        client: Bind(a) Sync => Close(#1) Parse(#1,x) Bind(#1) Sync
        server: 3 1 2 Z(I) => 2 Z(I) -> settled
        client: Describe(a) Sync => Describe(#1) Sync
        server: E(XX000,cache lookup failed) =>  | Parse(#2,x) Describe(#2) Sync
        server: Z(I) 1 t n Z(I) => t n Z(I) -> settled
        client: Bind(a) Execute Sync => Bind(#2) Execute Sync
        server: 2 E(XX000,cache lookup failed) Z(I) => 2 E(XX000,cache lookup failed) Z(I)
        client: Bind(a) Sync => Close(#2) Parse(#2,x) Bind(#2) Sync
        server: 3 1 2 Z(I) => 2 Z(I) -> settled",
    );
}

#[test]
fn clients_that_vanish() {
    table(
        SHARED,
        "
        client: Parse(,x) Bind Flush => Parse(,x) Bind Flush
        server: 1 2 => 1 2
        gone => Sync -> busy
        server: Z(I) => Z(I) -> settled",
    );
    table(
        SHARED,
        "
        client: Query(begin) => Query(begin)
        gone => CopyFail -> busy
        server: C(BEGIN) Z(T) => C(BEGIN) Z(T) -> in transaction
        own(rollback) => Query(ROLLBACK)
        server: C(ROLLBACK) Z(I) => -> settled",
    );
    table(
        SHARED,
        "
        client: Query(copy) => Query(copy)
        server: G => G
        gone => CopyFail
        server: E(57014,failed) Z(I) => E(57014,failed) Z(I) -> settled",
    );
    table(
        SHARED,
        "
        client: Parse(,copy) Bind Execute => Parse(,copy) Bind Execute
        gone => CopyFail Sync
        server: 1 2 G E(57014,failed) Z(I) => 1 2 G E(57014,failed) Z(I) -> settled",
    );
    table(
        SHARED,
        "
        client: Bind(none) Flush => Bind(none) Flush
        server: E(26000,none) => E(26000,none) -> busy
        gone => Sync
        server: Z(I) => Z(I) -> settled",
    );
    table(
        SHARED,
        "
        client: Bind(none) Query(q) => Bind(none) Query(q)
        gone => CopyFail Sync
        server: E(26000,none) Z(I) => E(26000,none) Z(I) -> settled",
    );
}

#[test]
fn raw_statements_are_passed_on() {
    table(None, "
        client: Parse(a,x) Parse(a,y) Bind(a) Sync => Parse(a,x) Parse(a,y) Bind(a) Sync
        server: 1 E(42P05,a) Z(I) => 1 E(42P05,a) Z(I) -> settled
        client: Parse(,x) Describe Bind Execute Close(a) Sync => Parse(,x) Describe Bind Execute Close(a) Sync
        server: 1 t T 2 C 3 Z(I) => 1 t T 2 C 3 Z(I) -> settled");
}

#[test]
fn garbage_is_a_violation() {
    for (said, heard) in [
        ("Z(I)", "violation Z"),
        ("D", "violation D"),
        ("1", "violation 1"),
        ("2", "violation 2"),
        ("3", "violation 3"),
        ("C", "violation C"),
        ("G", "violation G"),
        ("T", "violation T"),
        ("K", "violation K"),
        ("R", "violation R"),
        ("s", "violation s"),
    ] {
        table(SHARED, &format!("server: {said} => {heard}"));
        table(
            SHARED,
            &format!(
                "
            client: Close(unknown) => Close(unknown)
            server: {said} => {}",
                if said == "3" { "3" } else { heard }
            ),
        );
    }
    table(
        SHARED,
        "
        client: Query(q) => Query(q)
        server: Z(X) => malformed",
    );
    table(
        SHARED,
        "client: Unknown => violation unexpected message type 0x21",
    );
    table(
        SHARED,
        "client: Malformed => violation unterminated string in message",
    );
}

#[test]
fn a_fatal_error_is_a_farewell() {
    table(
        SHARED,
        "
        client: Query(q) => Query(q)
        server: FATAL(terminating connection) => E(57014,terminating connection) -> doubtful",
    );
}
