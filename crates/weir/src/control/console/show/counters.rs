//! What is counted: SHOW STATS and its kin, LISTS and MEM.

use super::super::super::stats::{self, ByDatabase, Figures};
use super::super::table::Kind::{Int, Numeric, Text};
use super::super::table::{Columns, Row, row};
use super::Snapshot;
use crate::shared::Pool;
use std::collections::BTreeSet;
use std::mem::size_of;

pub const STATS: Columns = &[
    ("database", Text),
    ("total_server_assignment_count", Numeric),
    ("total_xact_count", Numeric),
    ("total_query_count", Numeric),
    ("total_received", Numeric),
    ("total_sent", Numeric),
    ("total_xact_time", Numeric),
    ("total_query_time", Numeric),
    ("total_wait_time", Numeric),
    ("total_client_parse_count", Numeric),
    ("total_server_parse_count", Numeric),
    ("total_bind_count", Numeric),
    ("total_client_login_count", Numeric),
    ("avg_server_assignment_count", Numeric),
    ("avg_xact_count", Numeric),
    ("avg_query_count", Numeric),
    ("avg_recv", Numeric),
    ("avg_sent", Numeric),
    ("avg_xact_time", Numeric),
    ("avg_query_time", Numeric),
    ("avg_wait_time", Numeric),
    ("avg_client_parse_count", Numeric),
    ("avg_server_parse_count", Numeric),
    ("avg_bind_count", Numeric),
    ("avg_client_login_count", Numeric),
];

pub const STATS_TOTALS: Columns = &[
    ("database", Text),
    ("server_assignment_count", Numeric),
    ("xact_count", Numeric),
    ("query_count", Numeric),
    ("bytes_received", Numeric),
    ("bytes_sent", Numeric),
    ("xact_time", Numeric),
    ("query_time", Numeric),
    ("wait_time", Numeric),
    ("client_parse_count", Numeric),
    ("server_parse_count", Numeric),
    ("bind_count", Numeric),
    ("client_login_count", Numeric),
];

pub const STATS_AVERAGES: Columns = &[
    ("database", Text),
    ("server_assignment_count", Numeric),
    ("xact_count", Numeric),
    ("query_count", Numeric),
    ("bytes_received", Numeric),
    ("bytes_sent", Numeric),
    ("xact_time", Numeric),
    ("query_time", Numeric),
    ("wait_time", Numeric),
    ("avg_client_parse_count", Numeric),
    ("avg_server_parse_count", Numeric),
    ("avg_bind_count", Numeric),
    ("avg_client_login_count", Numeric),
];

/// A database's figures in the order of the columns.
fn in_order(figures: &Figures) -> [u64; 12] {
    let totals = &figures.totals;
    [
        totals.server_assignments,
        totals.transactions,
        totals.queries,
        totals.bytes_received,
        totals.bytes_sent,
        totals.transaction_time,
        totals.query_time,
        totals.wait_time,
        totals.client_parses,
        totals.server_parses,
        totals.binds,
        figures.logins,
    ]
}

fn line(name: &str, figures: impl IntoIterator<Item = Figures>) -> Row {
    let mut row = row![name];
    figures
        .into_iter()
        .for_each(|figures| row.extend(in_order(&figures).map(Into::into)));
    row
}

fn average_of(averages: &ByDatabase, name: &str) -> Figures {
    averages.get(name).copied().unwrap_or_default()
}

pub fn stats(snapshot: &Snapshot, averages: &ByDatabase) -> Vec<Row> {
    let counters = stats::counters(snapshot);
    counters
        .iter()
        .map(|(name, total)| line(name, [*total, average_of(averages, name)]))
        .collect()
}

pub fn stats_totals(snapshot: &Snapshot) -> Vec<Row> {
    stats::counters(snapshot)
        .iter()
        .map(|(name, total)| line(name, [*total]))
        .collect()
}

pub fn stats_averages(snapshot: &Snapshot, averages: &ByDatabase) -> Vec<Row> {
    stats::counters(snapshot)
        .keys()
        .map(|name| line(name, [average_of(averages, name)]))
        .collect()
}

pub const TOTALS: Columns = &[("name", Text), ("value", Numeric)];

/// The names that SHOW TOTALS has for what STATS shows, after `total_` and `avg_`.
const TOTALS_NAMES: [&str; 12] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
    "client_login_count",
];

pub fn totals(snapshot: &Snapshot, averages: &ByDatabase) -> Vec<Row> {
    let rows = |prefix: &'static str, figures: Figures| {
        let named = TOTALS_NAMES.into_iter().zip(in_order(&figures));
        named.map(move |(name, value)| row![format!("{prefix}_{name}"), value])
    };
    let total = stats::sum(&stats::counters(snapshot));
    // Times are averages for each transaction or query: over all databases they are not a sum, and PgBouncer sums them all the same.
    rows("total", total)
        .chain(rows("avg", stats::sum(averages)))
        .collect()
}

pub const LISTS: Columns = &[("list", Text), ("items", Int)];

/// Weir keeps no free lists and does not wait for a resolver of its own: those rows are 0.
pub fn lists(snapshot: &Snapshot) -> Vec<Row> {
    let servers: u32 = snapshot.ledger.pools.values().sum();
    let clients = snapshot.clients_total as usize + snapshot.consoles.len();
    vec![
        row!["databases", super::definitions::databases(snapshot).len()],
        row!["users", super::definitions::users(snapshot).len()],
        row!["peers", snapshot.config.peers.len()],
        row!["pools", snapshot.pools.len() + 1],
        row!["peer_pools", snapshot.config.peers.len()],
        row!["free_clients", 0u32],
        row!["used_clients", clients],
        row!["login_clients", snapshot.logging_in],
        row!["free_servers", 0u32],
        row!["used_servers", servers],
        row!["dns_names", 0u32],
        row!["dns_zones", 0u32],
        row!["dns_queries", 0u32],
        row!["dns_pending", 0u32],
    ]
}

pub const MEM: Columns = &[
    ("name", Text),
    ("size", Int),
    ("used", Int),
    ("free", Int),
    ("memtotal", Int),
];

/// Each kind of thing: the bytes of one, how many there are, and the bytes of all. Weir leaves free memory to the allocator.
pub fn memory(snapshot: &Snapshot) -> Vec<Row> {
    let row =
        |name: &'static str, size: usize, used: usize| row![name, size, used, 0u32, size * used];
    let buffers: usize = snapshot
        .reports
        .iter()
        .map(|report| report.buffer_bytes)
        .sum();
    let parts = || snapshot.reports.iter().flat_map(|report| &report.pools);
    let statements: usize = parts().map(|part| part.statements).sum();
    let statement_bytes: usize = parts().map(|part| part.statement_bytes).sum();
    let databases: BTreeSet<&str> = snapshot
        .pools
        .iter()
        .map(|pool| &*pool.database_name)
        .collect();
    vec![
        row(
            "user_cache",
            size_of::<settings::User>(),
            snapshot.users.len(),
        ),
        row(
            "db_cache",
            size_of::<settings::Database>(),
            databases.len().max(snapshot.config.databases.len()),
        ),
        row("pool_cache", size_of::<Pool>(), snapshot.pools.len()),
        row("iobuf_cache", buffers, usize::from(buffers > 0)),
        row![
            "prepared_statement_cache",
            statement_bytes.checked_div(statements).unwrap_or(0),
            statements,
            0u32,
            statement_bytes
        ],
    ]
}
