//! SHOW PINS and CENSUS: which clients keep a server connection between their transactions and why, and how often servers are asked.
//! Neither is in PgBouncer.

use super::super::super::stats;
use super::super::table::Kind::{BigInt, Int, Numeric, Text};
use super::super::table::{Columns, Row, row};
use super::Snapshot;
use crate::report::ClientReport;
use settings::{CensusPolicy, PoolMode};

pub const PINS: Columns = &[
    ("database", Text),
    ("user", Text),
    ("application_name", Text),
    ("reasons", Text),
    ("statement", Text),
    ("age", Int),
    ("client_id", BigInt),
    ("server_id", BigInt),
];

pub const CENSUS: Columns = &[
    ("database", Text),
    ("censuses", Numeric),
    ("pins", Numeric),
    ("pinned", Int),
    ("catalogue", Text),
];

/// `age` is in seconds.
pub fn pins(snapshot: &Snapshot) -> Vec<Row> {
    snapshot
        .clients()
        .filter_map(|client| pinned(client, snapshot))
        .collect()
}

fn pinned(client: &ClientReport, snapshot: &Snapshot) -> Option<Row> {
    let pin = client.pin.as_ref()?;
    let pool = snapshot.pool(client.pool);
    let age = snapshot.now.since(pin.since).as_secs();
    Some(row![
        pool.map_or("", |pool| &pool.database_name),
        pool.map_or("", |pool| &pool.user),
        &*client.application_name,
        &*pin.reasons,
        &*pin.statement,
        age,
        client.id,
        client.server.unwrap_or_default(),
    ])
}

/// `censuses` and `pins` since the start, `pinned` now. `catalogue` is "read", or "unknown" while every statement may do anything; empty where nobody
/// wants to know.
pub fn census(snapshot: &Snapshot) -> Vec<Row> {
    let pinned = |database: &str| {
        let pools = snapshot.pools.iter();
        pools
            .filter(|pool| &*pool.database_name == database)
            .map(|pool| pool.pinned.count())
            .sum::<u32>()
    };
    let catalogue = |database: &str| {
        let mut pools = snapshot.pools.iter();
        let found = pools.find(|pool| {
            let settings = pool.settings.load();
            let shares = settings.mode != PoolMode::Session;
            &*pool.database_name == database && shares && settings.census != CensusPolicy::Off
        });
        let known = found.map(|pool| pool.state.catalogue.watch().is_known());
        known.map_or("", |known| if known { "read" } else { "unknown" })
    };
    stats::counters(snapshot)
        .iter()
        .filter(|(name, _)| &***name != "pgbouncer")
        .map(|(name, figures)| {
            row![
                &**name,
                figures.totals.censuses,
                figures.totals.pins,
                pinned(name),
                catalogue(name)
            ]
        })
        .collect()
}
