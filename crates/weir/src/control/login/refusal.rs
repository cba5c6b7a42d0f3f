//! Why a log-in ends without a client: what the peer is told, if it is still there to hear it.

use crate::shared::{ClientLimit, DialError};
use std::io;
use wire::{Report, Severity, SqlState, WireError};

/// How a log-in ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Our decision, told to the peer.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The peer closed the connection.
    #[error("client unexpected eof")]
    Left,
    #[error("client connection failed: {0}")]
    Broken(#[from] io::Error),
}

/// What a client is told that is not let in. Always fatal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub sqlstate: SqlState,
    pub message: String,
    pub detail: Option<String>,
}

impl Refusal {
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> Refusal {
        Refusal {
            sqlstate,
            message: message.into(),
            detail: None,
        }
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Refusal {
        self.detail = Some(detail.into());
        self
    }

    pub fn protocol(message: impl Into<String>) -> Refusal {
        Refusal::new(SqlState::PROTOCOL_VIOLATION, message)
    }

    /// The same text and code whether the password was wrong or the user does not exist.
    pub fn wrong_password(user: &str) -> Refusal {
        Refusal::new(
            SqlState::INVALID_PASSWORD,
            format!("password authentication failed for user \"{user}\""),
        )
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        // A NUL would end a field early.
        let plain = |text: &str| text.replace('\0', " ");
        let (message, detail) = (plain(&self.message), self.detail.as_deref().map(plain));
        let mut report = Report::new(Severity::Fatal, self.sqlstate, &message);
        report.detail = detail.as_deref();
        wire::write::error_response(out, &report);
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Refusal {
        match error {
            WireError::Version(_) => Refusal::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{error}: only 3.0 to 3.2 are supported"),
            ),
            _ => Refusal::protocol(error.to_string()),
        }
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Failure {
        Refusal::from(error).into()
    }
}

/// PgBouncer's texts; the code is PostgreSQL's, which drivers know how to take.
impl From<ClientLimit> for Refusal {
    fn from(limit: ClientLimit) -> Refusal {
        let message = match limit {
            ClientLimit::Total => "no more connections allowed (max_client_conn)",
            ClientLimit::Database => "client connections exceeded (max_db_client_connections)",
            ClientLimit::User => "client connections exceeded (max_user_client_connections)",
        };
        Refusal::new(SqlState::TOO_MANY_CONNECTIONS, message)
    }
}

/// The server's own words.
impl From<&DialError> for Refusal {
    fn from(error: &DialError) -> Refusal {
        Refusal::new(error.sqlstate, error.message.clone())
    }
}
