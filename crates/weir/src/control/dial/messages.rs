//! The server's messages during a log-in, one after the other, with bounds on what a server can make us hold.

use super::Failure;
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::backend::{ErrorFields, field, tag};
use wire::{Header, SqlState};

/// Bytes of one message. PostgreSQL's longest during a log-in have a few hundred.
const MESSAGE_MAX: usize = 64 * 1024;
/// Bytes of a whole log-in.
const LOGIN_MAX: usize = 1024 * 1024;
const READ: usize = 4096;
/// Bytes kept of an error without a length, which only a server in trouble sends.
const BARE_ERROR_MAX: usize = 1000;

/// A stream of messages. Bytes that were read beyond the last one stay here.
pub struct Messages<S> {
    pub stream: S,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that have been handed out.
    taken: usize,
    /// Bytes received, but for those of skipped messages.
    received: usize,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No message has been understood yet.
    First,
    Later,
}

#[derive(Debug)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Messages<S> {
    pub fn new(stream: S) -> Messages<S> {
        Messages {
            stream,
            buffer: Vec::new(),
            taken: 0,
            received: 0,
            stage: Stage::First,
        }
    }

    /// The next message but notices, which are logged, and errors, which end the log-in.
    pub async fn next(&mut self) -> Result<Message, Failure> {
        loop {
            let message = self.any().await?;
            match message.tag {
                tag::ERROR_RESPONSE => return Err(refusal(&message.body)),
                tag::NOTICE_RESPONSE => {
                    tracing::info!(notice = text(&message.body), "notice from the server")
                }
                _ => return Ok(message),
            }
        }
    }

    /// Whether anything has come from the server yet.
    pub fn heard(&self) -> bool {
        self.received > 0
    }

    /// The next message, whatever it is.
    pub async fn any(&mut self) -> Result<Message, Failure> {
        self.fill(Header::SIZE).await?;
        let header = match Header::peek(self.rest()) {
            Ok(Some(header)) if header.total() <= MESSAGE_MAX => header,
            _ if self.stage == Stage::First
                && self.rest().first() == Some(&tag::ERROR_RESPONSE) =>
            {
                return Err(self.bare_error().await);
            }
            Err(error) => return Err(Failure::Wire(error)),
            Ok(_) => return Err(Failure::TooLong),
        };
        self.fill(header.total()).await?;
        let body = self.rest()[Header::SIZE..header.total()].to_vec();
        self.taken += header.total();
        self.stage = Stage::Later;
        Ok(Message {
            tag: header.tag,
            body,
        })
    }

    /// A message without its body, which may be of any length: the rows of a query whose answer nobody wants.
    pub async fn skip_or_next(&mut self, wanted: &[u8]) -> Result<Message, Failure> {
        self.fill(Header::SIZE).await?;
        let header = Header::peek(self.rest())
            .map_err(Failure::Wire)?
            .ok_or(Failure::Closed)?;
        if wanted.contains(&header.tag) {
            return self.any().await;
        }
        let mut left = header.total();
        while left > 0 {
            self.fill(1).await?;
            let part = left.min(self.rest().len());
            self.taken += part;
            left -= part;
            self.received = self.received.saturating_sub(part);
        }
        Ok(Message {
            tag: header.tag,
            body: Vec::new(),
        })
    }

    /// The stream, and what was read beyond the last message.
    pub fn into_parts(mut self) -> (S, Vec<u8>) {
        self.buffer.drain(..self.taken);
        (self.stream, self.buffer)
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Reads until `wanted` bytes are there.
    async fn fill(&mut self, wanted: usize) -> Result<(), Failure> {
        while self.rest().len() < wanted {
            if self.received > LOGIN_MAX {
                return Err(Failure::TooLong);
            }
            if !self.read().await? {
                return Err(Failure::Closed);
            }
        }
        Ok(())
    }

    /// False at the end of the stream.
    async fn read(&mut self) -> Result<bool, Failure> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.reserve(READ);
        let count = (&mut self.stream)
            .take(READ as u64)
            .read_buf(&mut self.buffer)
            .await
            .map_err(Failure::Lost)?;
        self.received += count;
        Ok(count > 0)
    }

    /// A postmaster that cannot start a process writes `E`, a text and a NUL, as protocol 2 did (libpq reads it so too).
    async fn bare_error(&mut self) -> Failure {
        while self.buffer.len() < BARE_ERROR_MAX && !self.buffer.contains(&0) {
            if !matches!(self.read().await, Ok(true)) {
                break;
            }
        }
        let text = self
            .rest()
            .get(1..)
            .unwrap_or_default()
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default();
        let text = &text[..text.len().min(BARE_ERROR_MAX)];
        let printable = text
            .iter()
            .all(|byte| !byte.is_ascii_control() || byte.is_ascii_whitespace());
        if text.is_empty() || !printable {
            return Failure::TooLong;
        }
        let message = String::from_utf8_lossy(text).trim().to_owned();
        Failure::Refused {
            sqlstate: SqlState::CONNECTION_REJECTED,
            message,
        }
    }
}

/// What an ErrorResponse says; servers may leave out any of its fields.
pub fn refusal(body: &[u8]) -> Failure {
    let sqlstate = ErrorFields::parse(body)
        .ok()
        .and_then(|fields| fields.sqlstate());
    Failure::Refused {
        sqlstate: sqlstate.unwrap_or(SqlState::CONNECTION_REJECTED),
        message: text(body),
    }
}

/// The text of an ErrorResponse or NoticeResponse.
pub fn text(body: &[u8]) -> String {
    let fields = ErrorFields::parse(body).ok();
    let message = fields
        .as_ref()
        .and_then(|fields| fields.get(field::MESSAGE));
    message.map_or_else(
        || "the server gave no reason".to_owned(),
        |message| String::from_utf8_lossy(message).into_owned(),
    )
}
