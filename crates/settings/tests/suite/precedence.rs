//! Which value counts: the user's, the database's or the general one.

use std::time::Duration;

use settings::{Config, PoolMode, PoolSettings};

use crate::parsed;

fn settings_of(config: &Config, database: &str, user: &str) -> PoolSettings {
    config.pool_settings(&config.database(database).unwrap(), user)
}

const FILE: &str = "\
[pgbouncer]
default_pool_size = 10
min_pool_size = 1
reserve_pool_size = 2
pool_mode = session
max_db_connections = 11
max_user_connections = 12
max_db_client_connections = 13
max_user_client_connections = 14
server_lifetime = 100
query_wait_timeout = 101
query_timeout = 102
idle_transaction_timeout = 103
transaction_timeout = 104
client_idle_timeout = 105

[databases]
plain = host=x
own = host=x pool_size=20 min_pool_size=3 reserve_pool_size=4 pool_mode=transaction max_db_connections=21 max_db_client_connections=23 server_lifetime=200 query_wait_timeout=0 connect_query='select 1'
forced = host=x user=boss pool_size=20

[users]
special = pool_size=30 min_pool_size=5 reserve_pool_size=6 pool_mode=statement max_user_connections=32 max_user_client_connections=34 query_wait_timeout=301 query_timeout=302 idle_transaction_timeout=303 transaction_timeout=304 client_idle_timeout=305
boss = pool_size=40 max_user_connections=42 max_user_client_connections=44 pool_mode=statement query_timeout=402
";

#[test]
fn the_general_value_counts_where_nothing_else_does() {
    let settings = settings_of(&parsed(FILE).config, "plain", "anybody");
    assert_eq!(settings.mode, PoolMode::Session);
    assert_eq!(
        (
            settings.pool_size,
            settings.min_pool_size,
            settings.reserve_pool_size
        ),
        (10, 1, 2)
    );
    assert_eq!(
        (settings.max_db_connections, settings.max_user_connections),
        (11, 12)
    );
    assert_eq!(
        (
            settings.max_db_client_connections,
            settings.max_user_client_connections
        ),
        (13, 14)
    );
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    assert_eq!(settings.server_lifetime.as_secs(), 100);
    assert_eq!(seconds(settings.query_wait_timeout), Some(101));
    assert_eq!(seconds(settings.query_timeout), Some(102));
    assert_eq!(seconds(settings.idle_transaction_timeout), Some(103));
    assert_eq!(seconds(settings.transaction_timeout), Some(104));
    assert_eq!(seconds(settings.client_idle_timeout), Some(105));
    assert_eq!(settings.server_reset_query.as_deref(), Some("DISCARD ALL"));
}

#[test]
fn the_database_s_value_wins_over_the_general_one() {
    let settings = settings_of(&parsed(FILE).config, "own", "anybody");
    assert_eq!(settings.mode, PoolMode::Transaction);
    assert_eq!(
        (
            settings.pool_size,
            settings.min_pool_size,
            settings.reserve_pool_size
        ),
        (20, 3, 4)
    );
    assert_eq!(
        (
            settings.max_db_connections,
            settings.max_db_client_connections
        ),
        (21, 23)
    );
    assert_eq!(settings.server_lifetime.as_secs(), 200);
    assert_eq!(settings.query_wait_timeout, None);
    assert_eq!(settings.connect_query.as_deref(), Some("select 1"));
    assert_eq!(
        settings.server_reset_query, None,
        "only session mode resets"
    );
}

#[test]
fn the_user_s_value_wins_over_the_database_s() {
    let settings = settings_of(&parsed(FILE).config, "own", "special");
    assert_eq!(settings.mode, PoolMode::Statement);
    assert_eq!(
        (
            settings.pool_size,
            settings.min_pool_size,
            settings.reserve_pool_size
        ),
        (30, 5, 6)
    );
    assert_eq!(
        (
            settings.max_user_connections,
            settings.max_user_client_connections
        ),
        (32, 34)
    );
    assert_eq!(settings.query_wait_timeout, Some(Duration::from_secs(301)));
    assert_eq!(settings.query_timeout, Some(Duration::from_secs(302)));
    assert_eq!(
        settings.idle_transaction_timeout,
        Some(Duration::from_secs(303))
    );
    assert_eq!(settings.transaction_timeout, Some(Duration::from_secs(304)));
    assert_eq!(settings.client_idle_timeout, Some(Duration::from_secs(305)));
}

#[test]
fn a_forced_user_counts_for_servers_and_the_client_s_user_for_clients() {
    let settings = settings_of(&parsed(FILE).config, "forced", "special");
    assert_eq!(settings.mode, PoolMode::Statement);
    assert_eq!(
        (settings.pool_size, settings.max_user_connections),
        (40, 42)
    );
    assert_eq!(settings.query_timeout, Some(Duration::from_secs(402)));
    assert_eq!(settings.transaction_timeout, Some(Duration::from_secs(104)));
    assert_eq!(settings.max_user_client_connections, 34);
    assert_eq!(settings.query_wait_timeout, Some(Duration::from_secs(301)));
    assert_eq!(settings.client_idle_timeout, Some(Duration::from_secs(305)));
}

/// PgBouncer reads 0 in an entry as "not given" for these, and as itself for the sizes of a pool and for query_wait_timeout.
#[test]
fn a_zero_in_an_entry_lifts_no_limit() {
    let config = parsed(
        "[pgbouncer]\nmax_db_connections = 1\nmax_db_client_connections = 2\nmax_user_connections = 3\n\
         max_user_client_connections = 4\nserver_lifetime = 5\nquery_timeout = 6\nidle_transaction_timeout = 7\n\
         transaction_timeout = 8\nclient_idle_timeout = 9\nquery_wait_timeout = 10\n\
         [databases]\na = host=x pool_size=0 max_db_connections=0 max_db_client_connections=0 server_lifetime=0\n\
         [users]\nu = max_user_connections=0 max_user_client_connections=0 query_timeout=0 query_wait_timeout=0 \
         idle_transaction_timeout=0 transaction_timeout=0 client_idle_timeout=0\n",
    )
    .config;
    let settings = settings_of(&config, "a", "u");
    let limits = [
        settings.max_db_connections,
        settings.max_db_client_connections,
        settings.max_user_connections,
        settings.max_user_client_connections,
    ];
    assert_eq!(limits, [1, 2, 3, 4]);
    assert_eq!(settings.server_lifetime.as_secs(), 5);
    let timeouts = [
        settings.query_timeout,
        settings.idle_transaction_timeout,
        settings.transaction_timeout,
        settings.client_idle_timeout,
    ];
    assert_eq!(
        timeouts,
        [6, 7, 8, 9].map(|time| Some(Duration::from_secs(time)))
    );
    assert_eq!((settings.pool_size, settings.query_wait_timeout), (0, None));
}

#[test]
fn the_floor_stays_below_the_ceiling() {
    let config = parsed(
        "[pgbouncer]\nmin_pool_size = 50\n[databases]\na = host=x\nb = host=x pool_size=0\n",
    )
    .config;
    assert_eq!(settings_of(&config, "a", "u").min_pool_size, 20);
    assert_eq!(
        settings_of(&config, "b", "u").min_pool_size,
        50,
        "0 is no ceiling"
    );
}

#[test]
fn a_reserve_without_its_time_out_is_none() {
    let config = parsed(
        "[pgbouncer]\nreserve_pool_size = 5\nreserve_pool_timeout = 0\n[databases]\na = host=x\n",
    )
    .config;
    assert_eq!(settings_of(&config, "a", "u").reserve_pool_size, 0);
}

#[test]
fn the_reset_query_can_run_in_every_mode() {
    let config = parsed(
        "[pgbouncer]\npool_mode = transaction\nserver_reset_query = RESET ALL\nserver_reset_query_always = 1\n[databases]\na = host=x\n",
    )
    .config;
    assert_eq!(
        settings_of(&config, "a", "u").server_reset_query.as_deref(),
        Some("RESET ALL")
    );
}
