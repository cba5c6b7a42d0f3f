//! The log-in of clients: from an accepted socket to a client of a worker or of the console, or to a cancel request delivered.
//!
//! Each connection is one task that reads from top to bottom: startup, authentication, limits, greeting, hand-over. Nothing that a peer
//! sends before it has proved who it is reaches a server or a worker.

mod authentication;
mod console;
mod greeting;
mod line;
mod refusal;
mod startup;
mod strangers;
mod verifiers;

#[cfg(test)]
mod tests;

use crate::control::auth_query::AuthQueries;
use crate::control::cancel_request::CancelRequests;
use crate::control::console_client::{ConsoleClient, ConsoleSocket, Privilege};
use crate::control::credentials::Credentials;
use crate::shared::{
    Address, ClientCounter, ClientLimit, ClientLimits, ClientPermit, NewClient, Pool, Shared,
};
use greeting::Greetings;
use line::Line;
use pooling::cancel::ClientPid;
use pooling::ledger::PoolId;
use pooling::{CancelSecret, Parameters, Time};
use refusal::{Failure, Refusal};
use settings::{Config, Database, General, is_console};
use socket2::Socket;
use startup::{Purpose, Request};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use strangers::Strangers;
use verifiers::Verifiers;
use wire::SqlState;
use wire::startup::PROTOCOL_3_0;

/// What all log-ins share.
pub struct Reception {
    shared: Arc<Shared>,
    credentials: Arc<Credentials>,
    /// Takes clients of the console.
    console: Box<dyn Fn(ConsoleClient) + Send + Sync>,
    lookups: AuthQueries,
    verifiers: Verifiers,
    strangers: Strangers,
    greetings: Greetings,
    cancels: CancelRequests,
    /// Connections that are not clients yet.
    arrivals: Arc<ClientCounter>,
    ids: AtomicU64,
    /// The process is ending: only the console is open.
    closing: AtomicBool,
}

/// An accepted connection.
pub struct Visitor {
    /// Non-blocking.
    pub socket: Socket,
    pub peer: Address,
    pub local: Address,
    pub arrival: Arrival,
}

/// A place among the connections that have not logged in yet.
pub struct Arrival(Arc<ClientCounter>);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.subtract();
    }
}

impl Reception {
    pub fn new(
        shared: Arc<Shared>,
        credentials: Arc<Credentials>,
        console: impl Fn(ConsoleClient) + Send + Sync + 'static,
    ) -> Arc<Reception> {
        Arc::new(Reception {
            lookups: AuthQueries::new(Arc::clone(&credentials)),
            shared,
            credentials,
            console: Box::new(console),
            verifiers: Verifiers::new(),
            strangers: Strangers::new(),
            greetings: Greetings::default(),
            cancels: CancelRequests::default(),
            arrivals: Arc::default(),
            ids: AtomicU64::new(1),
            closing: AtomicBool::new(false),
        })
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A place for one more connection that has not logged in. As many may be on their way as there may be clients and cancel requests,
    /// so that peers that say nothing cannot take all file descriptors.
    pub fn arrive(&self) -> Option<Arrival> {
        let general = &self.shared.config.load().general;
        let most = general
            .max_client_conn
            .saturating_add(general.cancel_connections_max);
        self.arrivals
            .try_add(most)
            .then(|| Arrival(Arc::clone(&self.arrivals)))
    }

    /// Connections that have not logged in yet.
    pub fn arrivals(&self) -> u32 {
        self.arrivals.count()
    }

    /// From now on only the console is open.
    pub fn refuse_clients(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Answers of `auth_query` are asked for anew; for RELOAD.
    pub fn forget_lookups(&self) {
        self.lookups.forget_all();
    }

    /// The pool is unused.
    pub fn forget_pool(&self, pool: PoolId) {
        self.lookups.forget_pool(pool);
        self.greetings.forget(pool);
    }
}

/// Takes a connection through its log-in to where it belongs.
pub async fn serve(reception: Arc<Reception>, visitor: Visitor) {
    let Visitor {
        socket,
        peer,
        local,
        arrival,
    } = visitor;
    let id = reception.ids.fetch_add(1, Ordering::Relaxed);
    let connected_at = reception.shared.clock.now();
    let line = Line::new(socket);
    let mut login = Login {
        reception,
        id,
        peer,
        local,
        connected_at,
        line,
        request: None,
    };
    match login.run(arrival).await {
        Ok(Outcome::Client(guest)) => login.hand_over(guest),
        Ok(Outcome::Console(privilege)) => login.open_console(privilege),
        Ok(Outcome::Delivered) => {}
        Err(failure) => login.end(failure),
    }
}

/// One connection on its way.
struct Login {
    reception: Arc<Reception>,
    id: u64,
    peer: Address,
    local: Address,
    connected_at: Time,
    line: Line,
    /// Known after the startup packet.
    request: Option<Request>,
}

/// Where a connection belongs that has said what it wants and proved who it is.
enum Admitted {
    Client(ClientPermit),
    Console(Privilege),
    Cancel { pid: i32, key: Vec<u8> },
}

/// A log-in at its good end: the greeting has been sent, or the cancel request delivered.
enum Outcome {
    Client(Guest),
    Console(Privilege),
    Delivered,
}

/// A client for a worker.
struct Guest {
    permit: ClientPermit,
    parameters: Arc<Parameters>,
    pid: ClientPid,
    secret: CancelSecret,
}

impl Login {
    async fn run(&mut self, arrival: Arrival) -> Result<Outcome, Failure> {
        let admitted = self.admit().await;
        drop(arrival);
        match admitted? {
            Admitted::Client(permit) => self.greet(permit).await.map(Outcome::Client),
            Admitted::Console(privilege) => {
                self.greet_at_console().await?;
                Ok(Outcome::Console(privilege))
            }
            Admitted::Cancel { pid, key } => {
                let Reception {
                    cancels, shared, ..
                } = &*self.reception;
                Box::pin(cancels.deliver(shared, pid, key)).await;
                Ok(Outcome::Delivered)
            }
        }
    }

    /// Startup, authentication and limits, within `client_login_timeout`.
    async fn admit(&mut self) -> Result<Admitted, Failure> {
        let config = self.reception.shared.config.load_full();
        match config.general.client_login_timeout {
            None => self.admit_untimed(&config).await,
            Some(longest) => self.admit_within(longest, &config).await,
        }
    }

    async fn admit_within(
        &mut self,
        longest: Duration,
        config: &Arc<Config>,
    ) -> Result<Admitted, Failure> {
        match tokio::time::timeout(longest, self.admit_untimed(config)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Refusal::protocol("client_login_timeout").into()),
        }
    }

    async fn admit_untimed(&mut self, config: &Arc<Config>) -> Result<Admitted, Failure> {
        let peer = PeerName(&self.peer);
        let request = match startup::read(&mut self.line, &config.general, &peer).await? {
            Purpose::Cancel { pid, key } => return Ok(Admitted::Cancel { pid, key }),
            Purpose::Session(request) => self.request.insert(request),
        };
        if config.general.log_connections {
            tracing::info!(client = self.id, %peer, "login attempt: db={} user={} tls=no", request.database, request.user);
        }
        if let Some(negotiation) = &request.negotiation {
            let unknown: Vec<&[u8]> = negotiation
                .unknown_options
                .iter()
                .map(String::as_bytes)
                .collect();
            wire::write::negotiate_protocol_version(
                &mut self.line.output,
                negotiation.version,
                &unknown,
            );
        }
        if is_console(&request.database) {
            return self.admit_to_console(config).await.map(Admitted::Console);
        }
        self.admit_to_pool(config).await.map(Admitted::Client)
    }

    async fn admit_to_console(&mut self, config: &Arc<Config>) -> Result<Privilege, Failure> {
        let Some(request) = &self.request else {
            return Err(Failure::Left);
        };
        let at_home = matches!(self.peer, Address::Unix(_))
            && console::is_own_process(self.line.socket()?, &request.user);
        if at_home {
            return Ok(Privilege::Admin);
        }
        authentication::authenticate(&self.reception, &mut self.line, request, None).await?;
        Ok(console::privilege(&config.general, &request.user)?)
    }

    async fn admit_to_pool(&mut self, config: &Arc<Config>) -> Result<ClientPermit, Failure> {
        let Some(request) = &self.request else {
            return Err(Failure::Left);
        };
        self.reception.check_open(&config.general)?;
        let database = config.database(&request.database);
        let learnt = authentication::authenticate(
            &self.reception,
            &mut self.line,
            request,
            database.as_ref(),
        )
        .await?;
        let database = database.ok_or_else(|| no_such_database(&request.database))?;
        let pool = self.reception.pool(&database, config, &request.user)?;
        // With a forced user the pool logs in as somebody else.
        if let Some(secret) = learnt
            && *pool.user == *request.user
            && pool.pass_through.load().as_deref() != Some(&secret)
        {
            pool.pass_through.store(Some(Arc::new(secret)));
        }
        Ok(self
            .reception
            .permit(&pool, &database, config, &request.user)
            .map_err(Refusal::from)?)
    }

    /// Greets a client as its pool's server would.
    async fn greet(&mut self, permit: ClientPermit) -> Result<Guest, Failure> {
        let reception = Arc::clone(&self.reception);
        let shared = &reception.shared;
        let worker = usize::try_from(self.id).unwrap_or_default() % shared.workers().len().max(1);
        let pool = permit.pool();
        let welcome = match pool.welcome.load_full() {
            Some(welcome) => welcome,
            None => Box::pin(self.first_welcome(pool, worker)).await?,
        };
        let settings = self
            .request
            .as_ref()
            .map_or(&[][..], |request| &request.settings);
        let greeting = reception.greetings.of(shared, pool.id, &welcome, settings);
        let (pid, secret) = (ClientPid::new(worker, self.id), self.cancel_secret());
        let config = shared.config.load();
        let notice = config.general.login_notify_message.as_deref();
        greeting::write(
            &mut self.line.output,
            &greeting.statuses,
            pid,
            secret,
            notice,
        );
        drop(config);
        self.line.flush().await?;
        Ok(Guest {
            permit,
            parameters: greeting.parameters,
            pid,
            secret,
        })
    }

    /// Waits for the pool's first server, as long as the client does.
    async fn first_welcome(
        &mut self,
        pool: &Arc<Pool>,
        worker: usize,
    ) -> Result<Arc<Parameters>, Failure> {
        let Reception {
            greetings, shared, ..
        } = &*self.reception;
        tokio::select! {
            welcome = greeting::welcome(greetings, shared, pool, worker) => Ok(welcome?),
            () = self.line.departure() => Err(Failure::Left),
        }
    }

    async fn greet_at_console(&mut self) -> Result<(), Failure> {
        let (pid, secret) = (ClientPid::new(0, self.id), self.cancel_secret());
        greeting::write(
            &mut self.line.output,
            &console::statuses(),
            pid,
            secret,
            None,
        );
        self.line.flush().await
    }

    fn cancel_secret(&self) -> CancelSecret {
        let version = self
            .request
            .as_ref()
            .map_or(PROTOCOL_3_0, |request| request.version);
        self.reception.shared.cancel_keys.secret(self.id, version)
    }

    /// Gives a client to its worker.
    fn hand_over(self, guest: Guest) {
        let Login {
            reception,
            id,
            peer,
            local,
            connected_at,
            line,
            ..
        } = self;
        let Guest {
            permit,
            parameters,
            pid,
            secret,
        } = guest;
        let (socket, leftover) = match line.into_parts() {
            Ok(parts) => parts,
            Err(error) => {
                return tracing::warn!(client = id, %error, "a client was lost at its hand-over");
            }
        };
        permit.pool().state.logins.fetch_add(1, Ordering::Relaxed);
        let client = NewClient {
            socket,
            leftover,
            id,
            pid,
            secret,
            permit,
            parameters,
            peer,
            local,
            connected_at,
        };
        if let Err(error) = reception.shared.hand_over(pid.worker(), client) {
            tracing::warn!(client = id, %error, "a client was lost at its hand-over");
        }
    }

    fn open_console(self, privilege: Privilege) {
        let Login {
            reception,
            id,
            peer,
            local,
            connected_at,
            line,
            request,
        } = self;
        let Some(request) = request else { return };
        let opened = line
            .into_parts()
            .and_then(|(socket, leftover)| Ok((console_socket(socket, &peer)?, leftover)));
        match opened {
            Ok((socket, leftover)) => (reception.console)(ConsoleClient {
                socket,
                leftover,
                id,
                application_name: request
                    .setting("application_name")
                    .unwrap_or_default()
                    .to_owned(),
                user: request.user,
                privilege,
                peer,
                local,
                connected_at,
            }),
            Err(error) => {
                tracing::warn!(client = id, %error, "a client of the console was lost at its hand-over")
            }
        }
    }

    /// Tells the peer and the log why there will be no session.
    fn end(mut self, failure: Failure) {
        let general = Arc::clone(&self.reception.shared.config.load().general);
        let (database, user) = match &self.request {
            Some(request) => (request.database.as_str(), request.user.as_str()),
            None => ("(nodb)", "(nouser)"),
        };
        let (id, peer) = (self.id, PeerName(&self.peer));
        let age = self
            .reception
            .shared
            .clock
            .now()
            .since(self.connected_at)
            .as_secs();
        if matches!(failure, Failure::Refused(_)) && general.log_pooler_errors {
            tracing::warn!(client = id, %peer, "{database}/{user}: pooler error: {failure}");
        }
        if general.log_disconnections {
            tracing::info!(client = id, %peer, "{database}/{user}: closing because: {failure} (age={age}s)");
        }
        if let Failure::Refused(refusal) = failure {
            refusal.write(&mut self.line.output);
            self.line.hang_up();
        }
    }
}

impl Reception {
    /// Spares the work of authentication where the answer is known.
    fn check_open(&self, general: &General) -> Result<(), Refusal> {
        if self.closing.load(Ordering::Relaxed) {
            return Err(Refusal::new(
                SqlState::ADMIN_SHUTDOWN,
                "pooler is shutting down",
            ));
        }
        match self.shared.clients.count() < general.max_client_conn {
            true => Ok(()),
            false => Err(ClientLimit::Total.into()),
        }
    }

    /// The pool that serves `user` in `database`: with a forced user, the one of all users.
    fn pool(
        &self,
        database: &Arc<Database>,
        config: &Config,
        user: &str,
    ) -> Result<Arc<Pool>, Refusal> {
        if config.general.auth_type == settings::AuthType::Any && database.forced_user.is_none() {
            let message = "auth_type = any needs a database with a forced user";
            return Err(Refusal::new(SqlState::INVALID_AUTHORIZATION, message));
        }
        let user = database.forced_user.as_deref().unwrap_or(user);
        let pool = open_pool(&self.shared, database, user);
        match pool.state.disabled.load(Ordering::Relaxed) {
            false => Ok(pool),
            true => {
                let message = format!("database does not allow connections: {}", database.name);
                Err(Refusal::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    message,
                ))
            }
        }
    }

    fn permit(
        &self,
        pool: &Arc<Pool>,
        database: &Database,
        config: &Config,
        user: &str,
    ) -> Result<ClientPermit, ClientLimit> {
        let counter = match *pool.user == *user {
            true => Arc::clone(&pool.user_clients),
            false => self
                .shared
                .pools
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .user_clients(user),
        };
        ClientPermit::take(
            &self.shared,
            pool,
            (user, counter),
            client_limits(config, database, user),
        )
    }
}

/// The pool of `database` and `user`, made at its first use.
pub(super) fn open_pool(shared: &Shared, database: &Arc<Database>, user: &str) -> Arc<Pool> {
    let known = shared
        .pools
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&database.name, user)
        .cloned();
    known.unwrap_or_else(|| {
        let mut pools = shared.pools.write().unwrap_or_else(PoisonError::into_inner);
        pools.open(shared, database, user)
    })
}

fn client_limits(config: &Config, database: &Database, user: &str) -> ClientLimits {
    let general = &config.general;
    let own = config
        .users
        .get(user)
        .and_then(|user| user.max_user_client_connections);
    ClientLimits {
        total: general.max_client_conn,
        database: database
            .max_db_client_connections
            .unwrap_or(general.max_db_client_connections),
        user: own.unwrap_or(general.max_user_client_connections),
    }
}

fn no_such_database(name: &str) -> Refusal {
    Refusal::new(
        SqlState::INVALID_CATALOG_NAME,
        format!("no such database: {name}"),
    )
}

fn console_socket(socket: OwnedFd, peer: &Address) -> io::Result<Box<dyn ConsoleSocket>> {
    Ok(match peer {
        Address::Tcp(_) => Box::new(tokio::net::TcpStream::from_std(socket.into())?),
        Address::Unix(_) => Box::new(tokio::net::UnixStream::from_std(socket.into())?),
    })
}

/// How a peer is called in logs and in application_name.
struct PeerName<'a>(&'a Address);

impl fmt::Display for PeerName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(_) => f.write_str("unix"),
        }
    }
}
