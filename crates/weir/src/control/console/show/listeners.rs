//! SHOW LISTENERS: which clients listen to which channels through their pool's shared listener. Not in PgBouncer.

use super::super::table::Kind::{BigInt, Text};
use super::super::table::{Columns, Row, row};
use super::Snapshot;

pub const LISTENERS: Columns = &[
    ("database", Text),
    ("user", Text),
    ("application_name", Text),
    ("client_id", BigInt),
    ("channels", Text),
    ("waiting_bytes", BigInt),
];

pub fn listeners(snapshot: &Snapshot) -> Vec<Row> {
    snapshot
        .clients()
        .filter_map(|client| {
            let (channels, waiting) = client.listens.as_ref()?;
            let pool = snapshot.pool(client.pool);
            Some(row![
                pool.map_or("", |pool| &pool.database_name),
                pool.map_or("", |pool| &pool.user),
                &*client.application_name,
                client.id,
                &**channels,
                *waiting as u64,
            ])
        })
        .collect()
}
