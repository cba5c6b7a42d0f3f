//! A server connection that listens and does nothing else.

use crate::control::dial::{LoggedIn, Stream};
use crate::shared::{DialError, Lent, Slot};
use pooling::channels::Notification;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use wire::backend::{ErrorFields, field, tag};
use wire::{Header, WireError, write};

/// Bytes of one message. A notification's payload has 8,000 at most, and an error's text is short.
const MESSAGE_MAX: usize = 128 * 1024;
const CHUNK: usize = 64 * 1024;

/// Why there is no shared listener. For the log.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{}", .0.message)]
    Dial(DialError),
    #[error("the limits of the pool leave no place for it")]
    NoPlace,
    #[error("the database is paused")]
    Paused,
    #[error("the connection is out of date")]
    Outdated,
    #[error("no answer for too long")]
    Silent,
    #[error("the connection was closed")]
    Closed,
    #[error("the connection was lost: {0}")]
    Lost(#[from] io::Error),
    #[error("the server sent a malformed message: {0}")]
    Wire(#[from] WireError),
    #[error("the server sent a message of {0} bytes")]
    TooLong(usize),
    #[error("{0}")]
    Refused(String),
}

impl From<DialError> for ListenError {
    fn from(error: DialError) -> ListenError {
        ListenError::Dial(error)
    }
}

pub struct Connection {
    stream: Stream,
    input: Vec<u8>,
    heard_at: Instant,
    generation: u32,
    /// Its place in the ledger.
    _slot: Slot,
}

impl Connection {
    /// `generation`: of its pool, when it was dialled.
    pub fn new(logged_in: LoggedIn, slot: Slot, generation: u32) -> Connection {
        Connection {
            stream: logged_in.stream,
            input: logged_in.leftover,
            heard_at: Instant::now(),
            generation,
            _slot: slot,
        }
    }

    /// From a worker.
    pub fn lent(lent: Lent) -> Result<Connection, ListenError> {
        Ok(Connection {
            stream: Stream::from_socket(lent.socket, &lent.address)?,
            input: lent.leftover,
            heard_at: Instant::now(),
            generation: lent.generation,
            _slot: lent.slot,
        })
    }

    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// When bytes last came.
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    pub async fn send(&mut self, sql: &[u8]) -> Result<(), ListenError> {
        let mut out = Vec::new();
        write::query(&mut out, sql);
        Ok(self.stream.write_all(&out).await?)
    }

    /// The next message that is part of the reply to a query: `None` when that is over. What it is but a notification is of no interest.
    pub async fn reply(&mut self) -> Result<Option<Option<Notification>>, ListenError> {
        let header = self.message().await?;
        let over = header.tag == tag::READY_FOR_QUERY;
        let notification = self.take(header)?;
        Ok((!over).then_some(notification))
    }

    /// The next message, of whatever kind. May be dropped and called again: nothing is lost.
    pub async fn receive(&mut self) -> Result<Option<Notification>, ListenError> {
        let header = self.message().await?;
        self.take(header)
    }

    fn take(&mut self, header: Header) -> Result<Option<Notification>, ListenError> {
        let body = self
            .input
            .get(Header::SIZE..header.total())
            .unwrap_or_default();
        let taken = match header.tag {
            tag::NOTIFICATION_RESPONSE => Some(Notification::parse(body)?),
            tag::ERROR_RESPONSE => return Err(ListenError::Refused(error_text(body))),
            _ => None,
        };
        self.input.drain(..header.total());
        Ok(taken)
    }

    /// Waits for a whole message at the front of the input.
    async fn message(&mut self) -> Result<Header, ListenError> {
        loop {
            if let Some(header) = Header::peek(&self.input)? {
                if header.total() > MESSAGE_MAX {
                    return Err(ListenError::TooLong(header.total()));
                }
                if self.input.len() >= header.total() {
                    return Ok(header);
                }
            }
            self.input.reserve(CHUNK);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(ListenError::Closed);
            }
            self.heard_at = Instant::now();
        }
    }
}

fn error_text(body: &[u8]) -> String {
    let text = ErrorFields::parse(body).ok().and_then(|fields| {
        fields
            .get(field::MESSAGE)
            .map(|text| String::from_utf8_lossy(text).into_owned())
    });
    text.unwrap_or_else(|| "the server reported an error without a text".to_owned())
}
