//! A client that says a step's units and returns what came back, in words that are the same on every connection.

use crate::script::{Leave, Part, Unit};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use testkit::script::{Client as Scripted, End, Message};
use wire::backend::{self, tag};
use wire::frontend::Target;
use wire::startup::PROTOCOL_3_0;
use wire::write;

/// Where and as whom to connect.
#[derive(Debug, Clone)]
pub struct Place {
    pub port: u16,
    pub user: &'static str,
    pub database: String,
}

pub struct Client {
    end: End,
    /// Of a message, before it counts as missing.
    patience: Duration,
    /// Channel and payload of all that came, whenever it came.
    pub notifications: Vec<String>,
    /// What the client has been told of its parameters.
    parameters: BTreeMap<String, String>,
}

/// What answered a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub lines: Vec<String>,
    pub after: After,
}

/// How a connection stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Idle,
    InTransaction,
    InFailedTransaction,
    Closed,
    /// Nothing came in time.
    Silent,
}

impl After {
    pub fn is_open(self) -> bool {
        matches!(
            self,
            After::Idle | After::InTransaction | After::InFailedTransaction
        )
    }
}

impl Reply {
    fn new(lines: Vec<String>, after: After) -> Self {
        Reply { lines, after }
    }

    pub fn has_any_error(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with("E("))
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.lines.join(" "), self.after)
    }
}

impl Client {
    /// Logs in as somebody who needs no password. Without a client the reply tells why.
    pub fn connect(
        place: &Place,
        parameters: &[(String, String)],
        patience: Duration,
    ) -> (Option<Self>, Reply) {
        let mut client = Client {
            end: Scripted::connect(place.port).into_end(),
            patience,
            notifications: Vec::new(),
            parameters: BTreeMap::new(),
        };
        let own = parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let all = [("user", place.user), ("database", &*place.database)]
            .into_iter()
            .chain(own);
        let all = all.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut startup = Vec::new();
        write::startup(&mut startup, PROTOCOL_3_0, all);
        let (messages, after) = client.exchange(&startup, 1);
        let lines = client.all_words(&messages);
        (after.is_open().then_some(client), Reply::new(lines, after))
    }

    pub fn say(&mut self, units: &[Unit]) -> Reply {
        let mut bytes = Vec::new();
        units.iter().for_each(|unit| unit.write(&mut bytes));
        let (messages, after) = self.exchange(&bytes, units.len());
        Reply::new(without_plans(self.all_words(&messages)), after)
    }

    /// The rows of a query, without a trace of it in the session; `None` when it fails.
    pub fn rows(&mut self, sql: &str) -> Option<Vec<String>> {
        let unit = Unit::Extended(crate::fingerprint::question(sql));
        let mut bytes = Vec::new();
        unit.write(&mut bytes);
        let (messages, after) = self.exchange(&bytes, 1);
        self.hear(&messages);
        let failed = messages
            .iter()
            .any(|message| message.tag == tag::ERROR_RESPONSE);
        let rows = messages
            .iter()
            .filter(|message| message.tag == tag::DATA_ROW)
            .map(row);
        (after.is_open() && !failed).then(|| rows.collect())
    }

    pub fn leave(mut self, how: Leave) {
        match how {
            Leave::Politely => {
                let mut bytes = Vec::new();
                write::terminate(&mut bytes);
                // Whoever has been closed already need not say it.
                let _ = self.end.try_send(&bytes);
            }
            Leave::Silently => {}
            Leave::Abruptly => self.end.reset(),
        }
    }

    /// Sends, and receives up to so many ReadyForQuery.
    fn exchange(&mut self, bytes: &[u8], count: usize) -> (Vec<Message>, After) {
        let (mut messages, mut ready) = (Vec::new(), 0);
        if self.end.try_send(bytes).is_err() {
            return (messages, After::Closed);
        }
        loop {
            let message = match self.end.try_receive(self.patience) {
                Ok(Some(message)) => message,
                Ok(None) => return (messages, After::Closed),
                Err(_) => return (messages, After::Silent),
            };
            let status =
                (message.tag == tag::READY_FOR_QUERY).then(|| message.body.first().copied());
            messages.push(message);
            ready += usize::from(status.is_some());
            match status {
                Some(status) if ready == count => return (messages, after(status)),
                _ => {}
            }
        }
    }

    /// ParameterStatus may come at any place and several times: what counts is what the client knows when the server is ready, and did not
    /// know before.
    fn all_words(&mut self, messages: &[Message]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut known = self.parameters.clone();
        for message in messages {
            if message.tag == tag::READY_FOR_QUERY {
                let news = self
                    .parameters
                    .iter()
                    .filter(|(name, value)| known.get(*name) != Some(value));
                lines.extend(news.map(|(name, value)| format!("S({name}={value})")));
                known = self.parameters.clone();
            }
            lines.extend(self.words(message));
        }
        lines
    }

    fn hear(&mut self, messages: &[Message]) {
        messages
            .iter()
            .filter(|message| message.tag == tag::NOTIFICATION_RESPONSE)
            .for_each(|message| {
                self.words(message);
            });
    }

    /// What is the same whichever server connection answers; `None` for what is not part of a reply.
    fn words(&mut self, message: &Message) -> Option<String> {
        let body = &message.body[..];
        let detail = match message.tag {
            tag::NOTIFICATION_RESPONSE => {
                let heard =
                    backend::NotificationResponse::parse(body).expect("a NotificationResponse");
                self.notifications.push(format!(
                    "{}: {}",
                    text(heard.channel),
                    text(heard.payload)
                ));
                return None;
            }
            tag::PARAMETER_STATUS => {
                let status = backend::ParameterStatus::parse(body).expect("a ParameterStatus");
                self.parameters
                    .insert(text(status.name), text(status.value));
                return None;
            }
            tag::BACKEND_KEY_DATA | tag::AUTHENTICATION => return None,
            tag::ROW_DESCRIPTION => columns(body),
            tag::PARAMETER_DESCRIPTION => format!("{:?}", &body[2..]),
            tag::DATA_ROW => row(message),
            tag::ERROR_RESPONSE | tag::NOTICE_RESPONSE => report(body),
            _ => message.detail().unwrap_or_default(),
        };
        let tag = char::from(message.tag);
        Some(if detail.is_empty() {
            tag.to_string()
        } else {
            format!("{tag}({detail})")
        })
    }
}

fn after(status: Option<u8>) -> After {
    match status {
        Some(b'I') => After::Idle,
        Some(b'T') => After::InTransaction,
        _ => After::InFailedTransaction,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn row(message: &Message) -> String {
    let values = message.values().into_iter();
    let shown: Vec<_> = values
        .map(|value| value.unwrap_or_else(|| "NULL".into()))
        .collect();
    shown.join("|")
}

/// A plan may be another one with every vacuum.
fn without_plans(mut lines: Vec<String>) -> Vec<String> {
    if lines.iter().any(|line| line.starts_with("T(QUERY PLAN:")) {
        lines.retain(|line| !line.starts_with("D("));
    }
    lines
}

/// Without the ids of tables: temporary ones have their own in every session.
fn columns(body: &[u8]) -> String {
    let description = backend::RowDescription::parse(body).expect("a RowDescription");
    let shown: Vec<_> = description
        .columns()
        .map(|column| {
            format!(
                "{}:{}:{}:{:?}",
                text(column.name),
                column.type_oid,
                column.type_modifier,
                column.format
            )
        })
        .collect();
    shown.join("|")
}

/// All fields but the place in the server's source.
fn report(body: &[u8]) -> String {
    let fields = backend::ErrorFields::parse(body).expect("an ErrorResponse or NoticeResponse");
    let shown: Vec<_> = b"CSMDHPpqWstcdn"
        .iter()
        .filter_map(|code| {
            fields
                .get(*code)
                .map(|value| format!("{}={}", char::from(*code), without_name(&text(value))))
        })
        .collect();
    shown.join(" ")
}

/// Where values and parameters differ in number, PostgreSQL names the statement, and knows it by the pooler's name.
fn without_name(message: &str) -> String {
    match message.split_once(", but prepared statement \"") {
        Some((before, after)) => format!(
            "{before}, but it{}",
            after.trim_start_matches(|it| it != '"')
        ),
        None => message.to_owned(),
    }
}

impl Unit {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Unit::Simple(statements) => write::query(out, statements.join("; ").as_bytes()),
            Unit::Extended(parts) => {
                parts.iter().for_each(|part| part.write(out));
                write::sync(out);
            }
        }
    }
}

impl Part {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Part::Parse { name, sql } => {
                write::parse(out, name.as_bytes(), sql.as_bytes(), &[0, 0])
            }
            Part::Bind {
                portal,
                statement,
                values,
            } => write::bind(
                out,
                portal.as_bytes(),
                statement.as_bytes(),
                &in_text(values),
            ),
            Part::DescribeStatement(name) => {
                write::describe(out, Target::Statement, name.as_bytes())
            }
            Part::DescribePortal(name) => write::describe(out, Target::Portal, name.as_bytes()),
            Part::Execute { portal, rows } => write::execute(out, portal.as_bytes(), *rows),
            Part::CloseStatement(name) => write::close(out, Target::Statement, name.as_bytes()),
            Part::ClosePortal(name) => write::close(out, Target::Portal, name.as_bytes()),
        }
    }
}

/// A Bind's formats, values and result formats: everything is text. (Protocol: "Message Formats")
fn in_text(values: &[String]) -> Vec<u8> {
    let mut rest = vec![0, 0];
    rest.extend((values.len() as u16).to_be_bytes());
    for value in values {
        rest.extend((value.len() as u32).to_be_bytes());
        rest.extend(value.as_bytes());
    }
    rest.extend([0, 0]);
    rest
}
