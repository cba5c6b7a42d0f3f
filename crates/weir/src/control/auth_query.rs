//! `auth_query`: asks PostgreSQL for the secret of a user that is not in the user list.
//!
//! Owns the answers it got lately (bounded in number and in time, "no such user" among them) and a few server connections of its own,
//! on which nothing that a client says is ever set. Log-ins of one user that come together share one query.

mod connection;

use super::credentials::Credentials;
use super::login::open_pool;
use crate::shared::{Pool, Shared};
use auth::Secret;
use connection::{Connection, QueryError};
use pooling::ledger::PoolId;
use settings::{Config, Database};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

/// Queries of one pool that run at the same time, each on a connection of its own.
const CONNECTIONS_MAX: usize = 4;
/// How often a pool whose limits leave no place is looked at again when nothing tells of a change.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// An answer this young is not asked for again after a failed log-in: guessing passwords must not become a load on the server.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

pub enum Lookup {
    /// Nobody is to be asked.
    NotConfigured,
    /// What the query said; `None`: there is no such user, or it may not log in.
    Answer(Option<Arc<Secret>>),
    /// Said in the log.
    Failed,
}

pub struct AuthQueries {
    credentials: Arc<Credentials>,
    answers: Mutex<HashMap<Key, Arc<OnceCell<Answer>>>>,
    channels: Mutex<HashMap<PoolId, Arc<Channel>>>,
    /// Whether the latest secret that was found was a SCRAM verifier.
    scram: AtomicBool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    pool: PoolId,
    query: String,
    user: String,
}

#[derive(Clone)]
struct Answer {
    at: Instant,
    /// Failures are shared by those who wait for the same answer, and not kept.
    secret: Result<Option<Arc<Secret>>, Arc<QueryError>>,
}

impl Answer {
    fn is_fresh(&self, lifetime: Duration) -> bool {
        self.secret.is_ok() && self.at.elapsed() < lifetime
    }
}

/// The connections of one pool that are for this alone.
struct Channel {
    idle: Mutex<Vec<Idle>>,
    places: Semaphore,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// Where and what to ask.
struct Question {
    pool: Arc<Pool>,
    query: String,
}

impl AuthQueries {
    pub fn new(credentials: Arc<Credentials>) -> AuthQueries {
        AuthQueries {
            credentials,
            answers: Mutex::default(),
            channels: Mutex::default(),
            scram: AtomicBool::new(true),
        }
    }

    /// The secret of `user`, who wants to log in to `database`.
    pub async fn secret(
        &self,
        shared: &Arc<Shared>,
        config: &Config,
        database: Option<&Arc<Database>>,
        user: &str,
    ) -> Lookup {
        let Some(question) = question(shared, config, database) else {
            return Lookup::NotConfigured;
        };
        let cell = self.cell(question.key(user), config);
        let answer = cell.get_or_init(|| async {
            Answer {
                secret: self.ask(shared, &question, user).await,
                at: Instant::now(),
            }
        });
        match &answer.await.secret {
            Ok(secret) => {
                self.note_kind(secret.as_deref());
                Lookup::Answer(secret.clone())
            }
            Err(_) => Lookup::Failed,
        }
    }

    /// After a failed log-in, the next one asks anew: the password may have been changed.
    pub fn doubt(
        &self,
        shared: &Shared,
        config: &Config,
        database: Option<&Arc<Database>>,
        user: &str,
    ) {
        let Some(question) = question(shared, config, database) else {
            return;
        };
        let key = question.key(user);
        let mut answers = self.answers();
        if answers
            .get(&key)
            .and_then(|cell| cell.get())
            .is_some_and(|answer| answer.at.elapsed() > TRUSTED_FOR)
        {
            answers.remove(&key);
        }
    }

    /// Drops every answer and every connection that is idle.
    pub fn forget_all(&self) {
        self.answers().clear();
        self.channels()
            .values()
            .for_each(|channel| channel.idle().clear());
    }

    /// The pool is unused.
    pub fn forget_pool(&self, pool: PoolId) {
        self.answers().retain(|key, _| key.pool != pool);
        self.channels().remove(&pool);
    }

    /// Whether the users that `auth_query` knows have SCRAM verifiers, as far as has been seen.
    pub fn tends_to_scram(&self) -> bool {
        self.scram.load(Ordering::Relaxed)
    }

    fn note_kind(&self, secret: Option<&Secret>) {
        if let Some(secret) = secret {
            self.scram
                .store(matches!(secret, Secret::Scram(_)), Ordering::Relaxed);
        }
    }

    /// The place of an answer that is still good, is on its way, or has yet to be asked for.
    fn cell(&self, key: Key, config: &Config) -> Arc<OnceCell<Answer>> {
        let lifetime = config.general.auth_query_cache_ttl;
        let usable =
            |cell: &OnceCell<Answer>| cell.get().is_none_or(|answer| answer.is_fresh(lifetime));
        let mut answers = self.answers();
        if let Some(cell) = answers.get(&key).filter(|cell| usable(cell)) {
            return Arc::clone(cell);
        }
        let most = config.general.auth_query_cache_size as usize;
        if answers.len() >= most {
            answers.retain(|_, cell| usable(cell));
        }
        if answers.len() >= most {
            answers.clear();
        }
        let cell = Arc::default();
        answers.insert(key, Arc::clone(&cell));
        cell
    }

    async fn ask(
        &self,
        shared: &Arc<Shared>,
        question: &Question,
        user: &str,
    ) -> Result<Option<Arc<Secret>>, Arc<QueryError>> {
        let outcome = self.run(shared, question, user).await;
        outcome.map(|secret| secret.map(Arc::new)).map_err(|error| {
            let (database, auth_user) = (&question.pool.database_name, &question.pool.server_user);
            tracing::error!(%database, user = %auth_user, %error, "auth_query failed");
            Arc::new(error)
        })
    }

    /// On an idle connection if there is one; if that turns out to be dead, on a new one.
    async fn run(
        &self,
        shared: &Arc<Shared>,
        question: &Question,
        user: &str,
    ) -> Result<Option<Secret>, QueryError> {
        let channel = self.channel(question.pool.id);
        let _place = channel
            .places
            .acquire()
            .await
            .map_err(|_| QueryError::Closed)?;
        let reused = channel.idle().pop();
        if let Some(mut idle) = reused {
            match idle.connection.ask(&question.query, user).await {
                Ok(secret) => {
                    keep(&channel, idle.connection, &question.pool);
                    return Ok(secret);
                }
                Err(error) if error.means_dead() => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = self.connect(shared, &question.pool).await?;
        let secret = connection.ask(&question.query, user).await?;
        keep(&channel, connection, &question.pool);
        Ok(secret)
    }

    async fn connect(
        &self,
        shared: &Arc<Shared>,
        pool: &Arc<Pool>,
    ) -> Result<Connection, QueryError> {
        let slot = loop {
            let departure = shared.departures.notified();
            match shared.try_slot(pool.id) {
                Ok(slot) => break slot,
                Err(_limit) => _ = tokio::time::timeout(LOOK_AGAIN, departure).await,
            }
        };
        let logged_in = super::dial::connect(shared, &self.credentials, pool).await?;
        Connection::open(logged_in, slot).await
    }

    fn channel(&self, pool: PoolId) -> Arc<Channel> {
        let fresh = || {
            Arc::new(Channel {
                idle: Mutex::default(),
                places: Semaphore::new(CONNECTIONS_MAX),
            })
        };
        Arc::clone(self.channels().entry(pool).or_insert_with(fresh))
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<Key, Arc<OnceCell<Answer>>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<PoolId, Arc<Channel>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes what has been idle for longer than `longest`; whether something is left.
    fn sweep(&self, longest: Duration) -> bool {
        let mut idle = self.idle();
        idle.retain(|idle| idle.since.elapsed() < longest);
        !idle.is_empty()
    }
}

/// Keeps a connection for the next query, for `server_idle_timeout` at most.
fn keep(channel: &Arc<Channel>, connection: Connection, pool: &Pool) {
    let mut idle = channel.idle();
    let alone = idle.is_empty();
    idle.push(Idle {
        connection,
        since: Instant::now(),
    });
    if let Some(longest) = pool.settings.load().server_idle_timeout.filter(|_| alone) {
        tokio::spawn(sweep(Arc::downgrade(channel), longest));
    }
}

/// Ends when nothing is idle any more.
async fn sweep(channel: std::sync::Weak<Channel>, longest: Duration) {
    loop {
        tokio::time::sleep(longest).await;
        if !channel
            .upgrade()
            .is_some_and(|channel| channel.sweep(longest))
        {
            return;
        }
    }
}

impl Question {
    fn key(&self, user: &str) -> Key {
        Key {
            pool: self.pool.id,
            query: self.query.clone(),
            user: user.to_owned(),
        }
    }
}

/// The database's own settings come before the general ones. In a database with a forced user, that user asks.
fn question(
    shared: &Shared,
    config: &Config,
    database: Option<&Arc<Database>>,
) -> Option<Question> {
    let general = &config.general;
    let own = |field: fn(&Database) -> &Option<String>| {
        database.and_then(|database| field(database).clone())
    };
    let auth_user = own(|database| &database.auth_user).or_else(|| general.auth_user.clone())?;
    let query = own(|database| &database.auth_query).unwrap_or_else(|| general.auth_query.clone());
    let target = match own(|database| &database.auth_dbname).or_else(|| general.auth_dbname.clone())
    {
        Some(name) => config.database(&name),
        None => database.cloned(),
    }?;
    Some(Question {
        pool: open_pool(shared, &target, &auth_user),
        query,
    })
}
