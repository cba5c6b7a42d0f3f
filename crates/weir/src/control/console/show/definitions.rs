//! What is configured: SHOW CONFIG, DATABASES, USERS, PEERS, VERSION and STATE.

use super::super::table::Kind::{BigInt, Int, Text};
use super::super::table::{Columns, Row, row};
use super::Snapshot;
use settings::{Changeable, Database};
use std::collections::{BTreeMap, BTreeSet};

pub const CONFIG: Columns = &[
    ("key", Text),
    ("value", Text),
    ("default", Text),
    ("changeable", Text),
];

pub fn config(snapshot: &Snapshot) -> Vec<Row> {
    let changeable = |when| match when {
        Changeable::Reload => "yes",
        Changeable::Boot => "no",
    };
    let rows = snapshot.config.show().into_iter();
    rows.map(|setting| {
        row![
            setting.key,
            setting.value,
            setting.default,
            changeable(setting.changeable)
        ]
    })
    .collect()
}

pub const DATABASES: Columns = &[
    ("name", Text),
    ("host", Text),
    ("port", Int),
    ("database", Text),
    ("force_user", Text),
    ("pool_size", Int),
    ("min_pool_size", Int),
    ("reserve_pool_size", Int),
    ("server_lifetime", Int),
    ("pool_mode", Text),
    ("load_balance_hosts", Text),
    ("max_connections", Int),
    ("current_connections", Int),
    ("max_client_connections", Int),
    ("current_client_connections", Int),
    ("paused", Int),
    ("disabled", Int),
];

/// Those that are configured, those that came into use through `*`, and the console's own.
pub fn databases(snapshot: &Snapshot) -> Vec<Row> {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for pool in &snapshot.pools {
        rows.insert(
            &pool.database_name,
            database(snapshot, &pool.database.load()),
        );
    }
    for (name, definition) in &snapshot.config.databases {
        rows.insert(name, database(snapshot, definition));
    }
    rows.insert("pgbouncer", console(snapshot));
    rows.into_values().collect()
}

fn database(snapshot: &Snapshot, database: &Database) -> Row {
    let general = &snapshot.config.general;
    let name = database.name.as_str();
    let state = snapshot
        .pools
        .iter()
        .find(|pool| &*pool.database_name == name)
        .map(|pool| &pool.state);
    row![
        name,
        database.host_text(),
        u32::from(database.port()),
        database.dbname.as_str(),
        database.forced_user.as_deref(),
        database.pool_size.unwrap_or(general.default_pool_size),
        database.min_pool_size.unwrap_or(general.min_pool_size),
        database
            .reserve_pool_size
            .unwrap_or(general.reserve_pool_size),
        database
            .server_lifetime
            .unwrap_or(general.server_lifetime)
            .as_secs(),
        database.pool_mode.map(settings::PoolMode::word),
        load_balance_hosts(database),
        database
            .max_db_connections
            .unwrap_or(general.max_db_connections),
        snapshot.ledger.databases.get(name).copied().unwrap_or(0),
        database
            .max_db_client_connections
            .unwrap_or(general.max_db_client_connections),
        state.map_or(0, |state| state.clients.count()),
        snapshot.paused.databases.contains(name),
        snapshot.disabled.contains(name),
    ]
}

/// PgBouncer shows it only where there is a choice.
pub fn load_balance_hosts(database: &Database) -> Option<&'static str> {
    (database.hosts.len() > 1).then(|| database.load_balance_hosts.word())
}

fn console(snapshot: &Snapshot) -> Row {
    let port = u32::from(snapshot.config.general.listen_port);
    let clients = snapshot.consoles.len();
    row![
        "pgbouncer",
        None::<&str>,
        port,
        "pgbouncer",
        "pgbouncer",
        2u32,
        0u32,
        0u32,
        0u32,
        "statement",
        None::<&str>,
        0u32,
        0u32,
        0u32,
        clients,
        0u32,
        0u32
    ]
}

pub const USERS: Columns = &[
    ("name", Text),
    ("pool_size", Text),
    ("reserve_pool_size", Text),
    ("pool_mode", Text),
    ("max_user_connections", Int),
    ("current_connections", Int),
    ("max_user_client_connections", Int),
    ("current_client_connections", Int),
];

/// The users of `auth_file` and `[users]`, and those who have come by other ways.
pub fn users(snapshot: &Snapshot) -> Vec<Row> {
    let mut names: BTreeSet<&str> = snapshot.users.iter().map(String::as_str).collect();
    names.extend(snapshot.config.users.keys().map(String::as_str));
    names.extend(snapshot.pools.iter().map(|pool| &*pool.user));
    names.extend(snapshot.client_counts.keys().map(|name| &**name));
    names.into_iter().map(|name| user(snapshot, name)).collect()
}

fn user(snapshot: &Snapshot, name: &str) -> Row {
    let general = &snapshot.config.general;
    let own = snapshot.config.users.get(name);
    let size = |size: Option<u32>| size.map_or(String::new(), |size| size.to_string());
    row![
        name,
        size(own.and_then(|own| own.pool_size)),
        size(own.and_then(|own| own.reserve_pool_size)),
        own.and_then(|own| own.pool_mode)
            .map(settings::PoolMode::word),
        own.and_then(|own| own.max_user_connections)
            .unwrap_or(general.max_user_connections),
        snapshot.ledger.users.get(name).copied().unwrap_or(0),
        own.and_then(|own| own.max_user_client_connections)
            .unwrap_or(general.max_user_client_connections),
        snapshot.client_counts.get(name).copied().unwrap_or(0),
    ]
}

pub const VERSION: Columns = &[("version", Text)];

/// The name and version whose console this is come first: programs look for them.
pub fn version() -> Vec<Row> {
    vec![row![concat!(
        "PgBouncer 1.26.0 (Weir ",
        env!("CARGO_PKG_VERSION"),
        ")"
    )]]
}

pub const PEERS: Columns = &[
    ("peer_id", Int),
    ("host", Text),
    ("port", Int),
    ("pool_size", Int),
];

pub fn peers(snapshot: &Snapshot) -> Vec<Row> {
    let default = snapshot.config.general.default_pool_size;
    let peers = snapshot.config.peers.iter();
    peers
        .map(|(id, peer)| {
            row![
                u32::from(*id),
                peer.host.as_str(),
                u32::from(peer.port),
                peer.pool_size.unwrap_or(default)
            ]
        })
        .collect()
}

pub const STATE: Columns = &[("key", Text), ("value", Text)];

pub fn state(snapshot: &Snapshot) -> Vec<Row> {
    let yes = |is| if is { "yes" } else { "no" };
    let paused = snapshot.paused.all;
    vec![row!["active", yes(!paused)], row!["paused", yes(paused)]]
}

pub const DNS_HOSTS: Columns = &[("hostname", Text), ("ttl", BigInt), ("addrs", Text)];

/// The time left is not told: an answer is used for `dns_max_ttl`.
pub fn dns_hosts(snapshot: &Snapshot) -> Vec<Row> {
    let ttl = snapshot.config.general.dns_max_ttl.as_secs();
    let addresses = |found: &[std::net::IpAddr]| {
        found
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    snapshot
        .hosts
        .iter()
        .map(|(name, found)| row![name.as_str(), ttl, addresses(found)])
        .collect()
}

pub const DNS_ZONES: Columns = &[("zonename", Text), ("serial", BigInt), ("count", Int)];
