//! A server connection that runs `auth_query` and nothing else.

use crate::control::dial::{LoggedIn, Stream};
use crate::shared::{DialError, Slot};
use auth::Secret;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::backend::{DataRow, ErrorFields, field, tag};
use wire::{Header, WireError, write};

/// The functions and tables that a query means without a schema: the server's own first, and nothing that a role's or a database's setting
/// could put before them.
const SEARCH_PATH: &str = "SET search_path TO pg_catalog, public";
/// Bytes of one message. A secret has a hundred or so.
const MESSAGE_MAX: usize = 128 * 1024;
const CHUNK: usize = 4096;

/// Why a query gave no answer. For the log: clients are not told.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("{}", .0.message)]
    Dial(DialError),
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
    #[error("the answer has {0} columns, expected the user's name and the secret")]
    Columns(usize),
}

impl From<DialError> for QueryError {
    fn from(error: DialError) -> QueryError {
        QueryError::Dial(error)
    }
}

impl QueryError {
    /// The server closed an idle connection; that says nothing about the query.
    pub fn means_dead(&self) -> bool {
        matches!(self, QueryError::Closed | QueryError::Lost(_))
    }
}

pub struct Connection {
    stream: Stream,
    input: Vec<u8>,
    /// Its place in the ledger.
    _slot: Slot,
}

/// What one round of messages said.
#[derive(Default)]
struct Reply {
    row: Option<Vec<Option<Vec<u8>>>>,
    error: Option<String>,
}

impl Connection {
    pub async fn open(logged_in: LoggedIn, slot: Slot) -> Result<Connection, QueryError> {
        let mut connection = Connection {
            stream: logged_in.stream,
            input: logged_in.leftover,
            _slot: slot,
        };
        let mut out = Vec::new();
        write::query(&mut out, SEARCH_PATH.as_bytes());
        connection.round(&out).await?;
        Ok(connection)
    }

    /// The secret of `user`; `None` if there is no such user, or it may not log in.
    pub async fn ask(&mut self, query: &str, user: &str) -> Result<Option<Secret>, QueryError> {
        let mut out = Vec::new();
        write::parse(&mut out, b"", query.as_bytes(), &[0, 0]);
        write::bind(&mut out, b"", b"", &bind_values(user));
        write::execute(&mut out, b"", 1);
        write::sync(&mut out);
        match self.round(&out).await? {
            None => Ok(None),
            Some(row) => secret(&row),
        }
    }

    /// Sends, and reads up to ReadyForQuery; the first row if there is one.
    async fn round(&mut self, request: &[u8]) -> Result<Option<Vec<Option<Vec<u8>>>>, QueryError> {
        self.stream.write_all(request).await?;
        let mut reply = Reply::default();
        loop {
            let header = self.message().await?;
            let body = self
                .input
                .get(Header::SIZE..header.total())
                .unwrap_or_default();
            match header.tag {
                tag::DATA_ROW if reply.row.is_none() => reply.row = Some(row(body)?),
                tag::ERROR_RESPONSE => reply.error = Some(error_text(body)),
                _ => {}
            }
            self.input.drain(..header.total());
            if header.tag == tag::READY_FOR_QUERY {
                break;
            }
        }
        match reply.error {
            Some(error) => Err(QueryError::Refused(error)),
            None => Ok(reply.row),
        }
    }

    /// Waits for a whole message at the front of the input.
    async fn message(&mut self) -> Result<Header, QueryError> {
        loop {
            if let Some(header) = Header::peek(&self.input)? {
                if header.total() > MESSAGE_MAX {
                    return Err(QueryError::TooLong(header.total()));
                }
                if self.input.len() >= header.total() {
                    return Ok(header);
                }
            }
            self.input.reserve(CHUNK);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(QueryError::Closed);
            }
        }
    }
}

/// Bind's formats, values and result formats: one text parameter, everything in text.
fn bind_values(user: &str) -> Vec<u8> {
    let mut values = vec![0, 0, 0, 1];
    values.extend_from_slice(&u32::try_from(user.len()).unwrap_or_default().to_be_bytes());
    values.extend_from_slice(user.as_bytes());
    values.extend_from_slice(&[0, 0]);
    values
}

fn row(body: &[u8]) -> Result<Vec<Option<Vec<u8>>>, WireError> {
    Ok(DataRow::parse(body)?
        .values()
        .map(|value| value.map(<[u8]>::to_vec))
        .collect())
}

fn secret(row: &[Option<Vec<u8>>]) -> Result<Option<Secret>, QueryError> {
    let [name, secret, ..] = row else {
        return Err(QueryError::Columns(row.len()));
    };
    let text = name
        .as_ref()
        .and(secret.as_ref())
        .map(|secret| String::from_utf8_lossy(secret));
    Ok(text.map(|text| Secret::parse(&text)))
}

fn error_text(body: &[u8]) -> String {
    let text = ErrorFields::parse(body).ok().and_then(|fields| {
        fields
            .get(field::MESSAGE)
            .map(|text| String::from_utf8_lossy(text).into_owned())
    });
    text.unwrap_or_else(|| "the server reported an error without a text".to_owned())
}
