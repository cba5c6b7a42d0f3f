//! Connections to PostgreSQL: connect, start up, authenticate; and cancel requests. `connect` opens one; the `Dialler` decides
//! when, for the workers that ask; `maintenance` asks for those that nobody waits for.

mod cancel;
mod dialler;
mod messages;
mod network;
mod resolve;
mod server_login;
mod stream;

#[cfg(test)]
mod tests;

pub use cancel::cancel;
pub use dialler::Dialler;
pub use network::Network;
pub use stream::Stream;

use super::credentials::Credentials;
use crate::shared::{Address, DialError, Pool, Shared};
use auth::Secret;
use auth::scram::ScramError;
use messages::Messages;
use network::Candidate;
use pooling::Parameters;
use server_login::{Greeting, Identity, Login, may_be_too_new};
use settings::{Database, General};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use wire::startup::{PROTOCOL_3_0, ProtocolVersion};
use wire::{SqlState, WireError};

/// A connection that PostgreSQL has let in and that is idle.
pub struct LoggedIn {
    pub stream: Stream,
    /// What was read beyond ReadyForQuery: asynchronous messages, if anything.
    pub leftover: Vec<u8>,
    pub pid: i32,
    /// Empty if the server gave none.
    pub key: Box<[u8]>,
    pub parameters: Arc<Parameters>,
    pub address: Arc<Address>,
    pub local: Address,
}

/// Opens a connection for `pool`, at the first of the database's servers that lets it in.
///
/// # Errors
/// What the best answer was, after `server_connect_timeout` at the latest.
pub async fn connect(
    shared: &Arc<Shared>,
    credentials: &Credentials,
    pool: &Arc<Pool>,
) -> Result<LoggedIn, DialError> {
    let limit = pool.settings.load().server_connect_timeout;
    let general = Arc::clone(&shared.config.load().general);
    let attempt = Attempt {
        shared,
        credentials,
        pool,
        database: pool.database.load_full(),
        general,
    };
    Ok(attempt.run(limit).await?)
}

/// What one call of `connect` works with: the configuration as it was when the call began.
struct Attempt<'a> {
    shared: &'a Arc<Shared>,
    credentials: &'a Credentials,
    pool: &'a Pool,
    database: Arc<Database>,
    general: Arc<General>,
}

impl Attempt<'_> {
    /// Tries one server after the other. Each gets its share of the time that is left, so that one that swallows packets leaves some
    /// for the others. Refusals that every server would repeat end it.
    async fn run(&self, limit: Option<Duration>) -> Result<LoggedIn, Failure> {
        let start = Instant::now();
        let network = &self.shared.network;
        let candidates = within(limit, network.candidates(&self.database, &self.general)).await?;
        let mut worst = Failure::NoServer;
        for (tried, candidate) in candidates.iter().enumerate() {
            let left = limit.map(|limit| {
                limit.saturating_sub(start.elapsed()) / (candidates.len() - tried) as u32
            });
            match within(left, self.server(candidate)).await {
                Ok(logged_in) => return Ok(logged_in),
                Err(failure) if failure.is_lasting() => return Err(failure),
                Err(failure) => {
                    network.failed(candidate);
                    worst = failure.or_better(worst);
                }
            }
        }
        Err(worst)
    }

    /// One server: with the newest protocol version first, unless it is known to refuse that.
    async fn server(&self, candidate: &Candidate) -> Result<LoggedIn, Failure> {
        let version = self.shared.network.version(&candidate.address);
        let mut heard = false;
        match self.log_in(candidate, version, &mut heard).await {
            Err(failure) if may_be_too_new(&failure, version, heard) => {
                tracing::debug!(address = ?candidate.address, %failure, "trying protocol 3.0");
                self.log_in(candidate, PROTOCOL_3_0, &mut heard).await
            }
            outcome => outcome,
        }
    }

    /// The three steps: connect, start up and authenticate, and what is ours to do before anybody else uses the connection.
    async fn log_in(
        &self,
        candidate: &Candidate,
        version: ProtocolVersion,
        heard: &mut bool,
    ) -> Result<LoggedIn, Failure> {
        let address = &candidate.address;
        let connecting = Stream::connect(address, &self.general).await;
        let stream = connecting.map_err(|source| Failure::Connect {
            address: address.clone(),
            source,
        })?;
        let local = stream.local(address);
        // Here `server_tls_sslmode` comes in: SSLRequest and the handshake, before the first byte of the startup packet.
        let mut messages = Messages::new(stream);
        let identity = self.identity();
        let greeting = Login::run(&mut messages, &identity, version).await;
        *heard = messages.heard();
        let Greeting {
            mut parameters,
            pid,
            key,
            version,
            derived,
        } = greeting?;
        if let Some((password, keys)) = derived {
            self.credentials.remember(self.pool.id, password, keys);
        }
        self.shared
            .network
            .succeeded(&self.database, candidate, version);
        if let Some(sql) = &self.database.connect_query {
            parameters = server_login::connect_query(&mut messages, sql, parameters).await?;
        }
        let (stream, leftover) = messages.into_parts();
        let parameters = self.shared.interner.intern(parameters);
        Ok(LoggedIn {
            stream,
            leftover,
            pid,
            key,
            parameters,
            address: Arc::new(address.clone()),
            local,
        })
    }

    fn identity(&self) -> Identity {
        let secrets = self.secrets();
        let password = secrets.iter().find_map(|secret| secret.password());
        let derived = password.and_then(|password| {
            Some((
                password.clone(),
                self.credentials.derived(self.pool.id, password)?,
            ))
        });
        Identity {
            user: self.pool.server_user.to_string(),
            dbname: self.database.dbname.clone(),
            startup_parameters: self
                .database
                .startup_parameters
                .iter()
                .map(|(name, value)| (*name, value.clone()))
                .collect(),
            secrets,
            derived,
        }
    }

    /// The forced user's password, else the server user's secret in `auth_file`, else what a client's log-in revealed. A client's
    /// secret is never used for a forced user.
    fn secrets(&self) -> Vec<Arc<Secret>> {
        let is_forced = self.database.forced_user.as_deref() == Some(&*self.pool.server_user);
        let password = self.database.password.as_ref().filter(|_| is_forced);
        let forced = password.map(|password| Arc::new(Secret::parse(password.expose())));
        let listed = self.credentials.users.load().lookup(&self.pool.server_user);
        let learnt = self
            .pool
            .pass_through
            .load_full()
            .filter(|_| self.pool.user == self.pool.server_user);
        [forced, listed, learnt].into_iter().flatten().collect()
    }
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("cannot resolve host name \"{name}\": {reason}")]
    Name { name: String, reason: String },
    #[error("cannot connect to {}: {source}", describe(.address))]
    Connect { address: Address, source: io::Error },
    #[error("the server did not let us in within server_connect_timeout")]
    Timeout,
    #[error("the server closed the connection during the log-in")]
    Closed,
    #[error("the connection to the server was lost during the log-in: {0}")]
    Lost(io::Error),
    /// The server's own words.
    #[error("{message}")]
    Refused { sqlstate: SqlState, message: String },
    #[error("the server sent a malformed message: {0}")]
    Wire(WireError),
    #[error("the server sent more than a log-in can need")]
    TooLong,
    #[error("the server sent an unexpected message of type {:?} during the log-in", char::from(*.0))]
    Unexpected(u8),
    #[error("the server wants to speak protocol {}.{}", .0.major, .0.minor)]
    Version(ProtocolVersion),
    #[error("the server wants an authentication method that is not supported (code {0})")]
    UnsupportedMethod(i32),
    #[error("the server offers none of the SASL mechanisms that are supported (SCRAM-SHA-256)")]
    UnsupportedMechanism,
    #[error(
        "no secret of user \"{user}\" is known that serves what the server asks for ({method})"
    )]
    NoSecret { user: String, method: &'static str },
    #[error("{0}")]
    Scram(#[from] ScramError),
    #[error("connect_query left a transaction open")]
    InTransaction,
    #[error("the log-in was interrupted")]
    Interrupted,
    #[error("the database has no server")]
    NoServer,
}

impl Failure {
    /// Trying again soon, or at another server of the same database, cannot help.
    fn is_lasting(&self) -> bool {
        match self {
            Failure::Refused { sqlstate, .. } => matches!(&sqlstate.class(), b"28" | b"3D"),
            Failure::NoSecret { .. }
            | Failure::Scram(_)
            | Failure::UnsupportedMethod(_)
            | Failure::UnsupportedMechanism => true,
            _ => false,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Failure::Refused { sqlstate, .. } => *sqlstate,
            Failure::Name { .. }
            | Failure::Connect { .. }
            | Failure::Timeout
            | Failure::NoServer => SqlState::SQLCLIENT_UNABLE,
            Failure::Closed | Failure::Lost(_) | Failure::Interrupted => {
                SqlState::CONNECTION_FAILURE
            }
            Failure::Wire(_) | Failure::TooLong | Failure::Unexpected(_) | Failure::Version(_) => {
                SqlState::PROTOCOL_VIOLATION
            }
            Failure::NoSecret { .. } | Failure::Scram(_) => SqlState::INVALID_AUTHORIZATION,
            Failure::UnsupportedMethod(_) | Failure::UnsupportedMechanism => {
                SqlState::FEATURE_NOT_SUPPORTED
            }
            Failure::InTransaction => SqlState::ACTIVE_SQL_TRANSACTION,
        }
    }

    /// A server's own words tell more than that another one could not be reached.
    fn or_better(self, earlier: Failure) -> Failure {
        match earlier {
            Failure::Refused { .. } if !matches!(self, Failure::Refused { .. }) => earlier,
            _ => self,
        }
    }
}

impl From<Failure> for DialError {
    fn from(failure: Failure) -> DialError {
        DialError {
            sqlstate: failure.sqlstate(),
            message: failure.to_string(),
            lasting: failure.is_lasting(),
        }
    }
}

fn describe(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    }
}

/// `None`: as long as it takes.
async fn within<T>(
    limit: Option<Duration>,
    attempt: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match limit {
        Some(limit) => timeout(limit, attempt)
            .await
            .unwrap_or(Err(Failure::Timeout)),
        None => attempt.await,
    }
}
