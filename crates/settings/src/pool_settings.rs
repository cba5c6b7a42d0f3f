//! Which value counts where the same thing can be set for a user, for a database and for all: the one place that knows.

use std::time::Duration;

use crate::config::Config;
use crate::database::Database;
use crate::user::User;
use crate::value::{CensusPolicy, CheckQuery, PinPolicy, PoolMode};

/// Everything that one database and one user have to know, looked up once.
///
/// A limit of 0 is none, as in the file. As in PgBouncer, most fields count for the user that logs in to PostgreSQL (the forced one if there is
/// one); `max_user_client_connections`, `query_wait_timeout` and `client_idle_timeout` count for the user that the client is.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSettings {
    pub mode: PoolMode,
    /// 0: no limit.
    pub pool_size: u32,
    /// Never more than `pool_size`.
    pub min_pool_size: u32,
    /// 0 as well when `reserve_pool_timeout` is off.
    pub reserve_pool_size: u32,
    /// How long a client waits before the reserve is used.
    pub reserve_pool_timeout: Option<Duration>,
    /// 0: no limit.
    pub max_db_connections: u32,
    /// 0: no limit.
    pub max_db_client_connections: u32,
    /// 0: no limit. Of the user that logs in to PostgreSQL.
    pub max_user_connections: u32,
    /// 0: no limit. Of the client's user.
    pub max_user_client_connections: u32,
    pub server_connect_concurrency: u32,
    pub server_round_robin: bool,
    /// Zero: a connection serves once.
    pub server_lifetime: Duration,
    pub server_idle_timeout: Option<Duration>,
    /// A share of the two above, from 0 to 0.9.
    pub server_lifetime_jitter: f64,
    pub server_connect_timeout: Option<Duration>,
    pub server_login_retry: Duration,
    pub server_check_query: CheckQuery,
    pub server_check_delay: Duration,
    /// To be sent when a server connection is given back in this mode, if anything.
    pub server_reset_query: Option<String>,
    pub server_fast_close: bool,
    pub connect_query: Option<String>,
    pub max_prepared_statements: u32,
    pub prepared_statement_cache_bytes: u64,
    pub query_wait_timeout: Option<Duration>,
    pub query_wait_notify: Option<Duration>,
    pub query_timeout: Option<Duration>,
    pub idle_transaction_timeout: Option<Duration>,
    pub transaction_timeout: Option<Duration>,
    pub client_idle_timeout: Option<Duration>,
    pub abandoned_query_timeout: Duration,
    pub census: CensusPolicy,
    pub pin: PinPolicy,
    /// Clients that may keep a server connection between transactions. 0: no limit.
    pub max_pinned: u32,
    pub pin_timeout: Option<Duration>,
}

impl Config {
    /// The settings for a client that logged in as `user_name` to `database`. With a forced user, all clients of the database
    /// share one pool; then only the three fields that count for the client's user depend on `user_name`.
    pub fn pool_settings(&self, database: &Database, user_name: &str) -> PoolSettings {
        let none = User::default();
        let user_of = |name: &str| self.users.get(name).map_or(&none, |user| user.as_ref());
        let client = user_of(user_name);
        let server = user_of(database.forced_user.as_deref().unwrap_or(user_name));
        let general = &*self.general;
        let mode = server
            .pool_mode
            .or(database.pool_mode)
            .unwrap_or(general.pool_mode);
        let pool_size = server
            .pool_size
            .or(database.pool_size)
            .unwrap_or(general.default_pool_size);
        let reserve_pool_size = server
            .reserve_pool_size
            .or(database.reserve_pool_size)
            .unwrap_or(general.reserve_pool_size);
        let reset = mode == PoolMode::Session || general.server_reset_query_always;
        PoolSettings {
            mode,
            pool_size,
            min_pool_size: capped(
                server
                    .min_pool_size
                    .or(database.min_pool_size)
                    .unwrap_or(general.min_pool_size),
                pool_size,
            ),
            reserve_pool_size: general
                .reserve_pool_timeout
                .map_or(0, |_| reserve_pool_size),
            reserve_pool_timeout: general.reserve_pool_timeout,
            max_db_connections: database
                .max_db_connections
                .unwrap_or(general.max_db_connections),
            max_db_client_connections: database
                .max_db_client_connections
                .unwrap_or(general.max_db_client_connections),
            max_user_connections: server
                .max_user_connections
                .unwrap_or(general.max_user_connections),
            max_user_client_connections: client
                .max_user_client_connections
                .unwrap_or(general.max_user_client_connections),
            server_connect_concurrency: general.server_connect_concurrency,
            server_round_robin: general.server_round_robin,
            server_lifetime: database.server_lifetime.unwrap_or(general.server_lifetime),
            server_idle_timeout: general.server_idle_timeout,
            server_lifetime_jitter: general.server_lifetime_jitter,
            server_connect_timeout: general.server_connect_timeout,
            server_login_retry: general.server_login_retry,
            server_check_query: general.server_check_query.clone(),
            server_check_delay: general.server_check_delay,
            server_reset_query: general.server_reset_query.clone().filter(|_| reset),
            server_fast_close: general.server_fast_close,
            connect_query: database.connect_query.clone(),
            max_prepared_statements: general.max_prepared_statements,
            prepared_statement_cache_bytes: general.prepared_statement_cache_size.0,
            query_wait_timeout: overriding(
                client.query_wait_timeout.or(database.query_wait_timeout),
                general.query_wait_timeout,
            ),
            query_wait_notify: general.query_wait_notify,
            query_timeout: server.query_timeout.or(general.query_timeout),
            idle_transaction_timeout: server
                .idle_transaction_timeout
                .or(general.idle_transaction_timeout),
            transaction_timeout: server.transaction_timeout.or(general.transaction_timeout),
            client_idle_timeout: client.client_idle_timeout.or(general.client_idle_timeout),
            abandoned_query_timeout: general.abandoned_query_timeout,
            census: general.census,
            pin: client.pin.or(database.pin).unwrap_or(general.pin),
            max_pinned: share_of(pool_size, general.max_pinned),
            pin_timeout: general.pin_timeout,
        }
    }
}

/// A floor below a ceiling where 0 is no ceiling.
fn capped(floor: u32, ceiling: u32) -> u32 {
    match ceiling {
        0 => floor,
        ceiling => floor.min(ceiling),
    }
}

/// At least one of what has a limit; 0 is none.
fn share_of(size: u32, share: f64) -> u32 {
    match size {
        0 => 0,
        size => ((f64::from(size) * share) as u32).max(1),
    }
}

/// An own time-out before the general one; an own one of zero switches it off.
fn overriding(own: Option<Duration>, general: Option<Duration>) -> Option<Duration> {
    own.map_or(general, |time| (!time.is_zero()).then_some(time))
}
