//! A connection that only reads, and never for long.
//!
//! Each question is one simple query, and so one transaction, in any pool mode: read-only, with a time-out, and nothing is left of it.

use super::WatchError;
use super::tls;
use crate::advise::source::Source;
use crate::postgres::describe;
use std::time::Duration;
use tokio_postgres::{Client, Config, SimpleQueryMessage, SimpleQueryRow};

/// In a list of sessions.
pub const APPLICATION: &str = "weir advise";
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Beyond the server's own time-out: through a pooler a question may have to wait for a server connection.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);
/// The statements are one implicit transaction (manual, "Multiple Statements in a Simple Query"), so that the settings end with it.
const GUARD: &str = "SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '1s'; SET TRANSACTION READ ONLY; ";

/// Asks a server, or a pooler's console.
pub struct Reader {
    client: Client,
    guard: &'static str,
}

impl Reader {
    /// # Errors
    /// [`WatchError::Connect`].
    pub async fn server(source: &Source) -> Result<Self, WatchError> {
        Self::connect(source.config().clone(), GUARD)
            .await
            .map_err(|reason| WatchError::Connect {
                address: source.address(),
                reason,
            })
    }

    /// The console of a pooler at the same place.
    ///
    /// # Errors
    /// Why it does not let us in, or that there is none.
    pub async fn console(source: &Source) -> Result<Self, String> {
        let mut config = source.config().clone();
        config.dbname("pgbouncer");
        Self::connect(config, "").await
    }

    async fn connect(mut config: Config, guard: &'static str) -> Result<Self, String> {
        config
            .application_name(APPLICATION)
            .connect_timeout(CONNECT_PATIENCE);
        let tls = tls::connector().map_err(|error| error.to_string())?;
        let connected = tokio::time::timeout(2 * CONNECT_PATIENCE, config.connect(tls)).await;
        let (client, connection) = connected
            .map_err(|_| format!("no answer within {} s", 2 * CONNECT_PATIENCE.as_secs()))?
            .map_err(|error| told(&error))?;
        tokio::spawn(connection);
        Ok(Self { client, guard })
    }

    /// # Errors
    /// [`WatchError::Refused`] for this question, [`WatchError::Lost`] for all that would follow.
    pub async fn ask(&self, question: &str) -> Result<Vec<SimpleQueryRow>, WatchError> {
        let text = format!("{}{question}", self.guard);
        let answer = tokio::time::timeout(ANSWER_PATIENCE, self.client.simple_query(&text)).await;
        let answer = answer.map_err(|_| {
            WatchError::Lost(format!("no answer within {} s", ANSWER_PATIENCE.as_secs()))
        })?;
        let messages = answer.map_err(|error| match error.as_db_error() {
            Some(_) if !self.client.is_closed() => WatchError::Refused(told(&error)),
            _ => WatchError::Lost(told(&error)),
        })?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// As [`Reader::ask`], where a refusal means that there is nothing to see.
    ///
    /// # Errors
    /// [`WatchError::Lost`].
    pub async fn ask_if_allowed(&self, question: &str) -> Result<Vec<SimpleQueryRow>, WatchError> {
        match self.ask(question).await {
            Err(WatchError::Refused(_)) => Ok(Vec::new()),
            answer => answer,
        }
    }
}

/// The server's own words, and beneath tokio-postgres' "error connecting to server" the system's.
fn told(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (None, Some(cause)) => format!("{error}: {cause}"),
        _ => describe(error),
    }
}

/// A column's text; empty for NULL and for a column that is not there.
pub fn text<'a>(row: &'a SimpleQueryRow, column: &str) -> &'a str {
    maybe(row, column).unwrap_or_default()
}

pub fn maybe<'a>(row: &'a SimpleQueryRow, column: &str) -> Option<&'a str> {
    row.try_get(column).ok().flatten()
}

/// A column's number; 0 where there is none.
pub fn number(row: &SimpleQueryRow, column: &str) -> f64 {
    maybe_number(row, column).unwrap_or_default()
}

pub fn maybe_number(row: &SimpleQueryRow, column: &str) -> Option<f64> {
    maybe(row, column)?.parse().ok()
}
