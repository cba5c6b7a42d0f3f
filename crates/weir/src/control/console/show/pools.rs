//! SHOW POOLS and PEER_POOLS.

use super::super::table::Kind::{Int, Text};
use super::super::table::{Columns, Row, row};
use super::Snapshot;
use super::definitions::load_balance_hosts;
use crate::shared::Pool;

pub const POOLS: Columns = &[
    ("database", Text),
    ("user", Text),
    ("cl_active", Int),
    ("cl_waiting", Int),
    ("cl_active_cancel_req", Int),
    ("cl_waiting_cancel_req", Int),
    ("sv_active", Int),
    ("sv_active_cancel", Int),
    ("sv_being_canceled", Int),
    ("sv_idle", Int),
    ("sv_used", Int),
    ("sv_tested", Int),
    ("sv_login", Int),
    ("maxwait", Int),
    ("maxwait_us", Int),
    ("pool_mode", Text),
    ("load_balance_hosts", Text),
];

pub fn pools(snapshot: &Snapshot) -> Vec<Row> {
    let mut pools: Vec<&Pool> = snapshot.pools.iter().map(|pool| &**pool).collect();
    pools.sort_by_key(|pool| (&pool.database_name, &pool.user));
    let mut rows: Vec<Row> = pools
        .into_iter()
        .map(|pool| one_pool(snapshot, pool))
        .collect();
    rows.push(console(snapshot));
    rows
}

/// PgBouncer counts idle clients as active, in every pool mode.
fn one_pool(snapshot: &Snapshot, pool: &Pool) -> Row {
    let sum = |figure: fn(&crate::report::PoolReport) -> u32| snapshot.sum(pool.id, figure);
    let oldest = snapshot
        .parts(pool.id)
        .filter_map(|part| part.oldest_waiter)
        .min();
    let waited = oldest
        .map(|since| snapshot.now.since(since))
        .unwrap_or_default();
    row![
        &*pool.database_name,
        &*pool.user,
        sum(|part| part.clients_active + part.clients_idle),
        sum(|part| part.clients_waiting),
        // A cancel request is not a client here: it is passed on at once or dropped, and waits in no pool.
        0u32,
        0u32,
        sum(|part| part.servers_active),
        0u32,
        sum(|part| part.servers_being_canceled),
        sum(|part| part.servers_idle),
        sum(|part| part.servers_used),
        sum(|part| part.servers_tested),
        logging_in(snapshot, pool),
        waited.as_secs(),
        waited.subsec_micros(),
        pool.settings.load().mode.word(),
        load_balance_hosts(&pool.database.load()),
    ]
}

/// Places taken by server connections that no worker has yet.
fn logging_in(snapshot: &Snapshot, pool: &Pool) -> u32 {
    let taken = snapshot.ledger.pools.get(&pool.id).copied().unwrap_or(0);
    let held = snapshot.sum(pool.id, |part| {
        part.servers_active
            + part.servers_idle
            + part.servers_used
            + part.servers_tested
            + part.servers_being_canceled
    });
    taken.saturating_sub(held)
}

fn console(snapshot: &Snapshot) -> Row {
    let clients = snapshot.consoles.len();
    let mut row = row!["pgbouncer", "pgbouncer", clients];
    row.extend(std::iter::repeat_n(0u32.into(), 12));
    row.extend(row!["statement", None::<&str>]);
    row
}

pub const PEER_POOLS: Columns = &[
    ("peer_id", Int),
    ("cl_active_cancel_req", Int),
    ("cl_waiting_cancel_req", Int),
    ("sv_active_cancel", Int),
    ("sv_login", Int),
];

pub fn peer_pools(snapshot: &Snapshot) -> Vec<Row> {
    snapshot
        .config
        .peers
        .keys()
        .map(|id| row![u32::from(*id), 0u32, 0u32, 0u32, 0u32])
        .collect()
}
