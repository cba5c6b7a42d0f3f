//! Pools that nobody uses any more are forgotten, with their statistics: those of databases that exist only through `*` after `autodb_idle_timeout`, all
//! after `pool_idle_timeout`, and those of `*` that no server has ever been reached for at once, so that nobody can fill the process's memory by asking for
//! databases that do not exist.
//!
//! Here too: server connections that are given up so that their database can be dropped.
//!
//! It takes two looks: at the first everybody is asked to let go of the pool, at the second it is removed if nobody has it any more.

use super::{Control, Parts, reload};
use crate::shared::{Pool, Shared, ToWorker};
use pooling::Time;
use settings::Config;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often pools are looked at.
pub const PERIOD: Duration = Duration::from_secs(1);

pub(super) fn retire_pools(control: &Control, parts: &Parts<'_>) {
    let shared = &control.shared;
    let now = shared.clock.now();
    shared.ledger().settle(now);
    for pool in due(shared, now) {
        forget(control, parts, &pool);
        shared.tell_all(|| ToWorker::Forget(pool.id));
        let mut pools = shared.pools.write().unwrap_or_else(PoisonError::into_inner);
        if pools.remove(shared, pool, now) {
            shared.departures.notify_waiters();
        }
    }
}

/// The server connections of clients that are gone leave the database: somebody there is about to drop, rename or copy it, and would be told
/// that others use it. While clients are there, that is so. PostgreSQL waits for five seconds before it says so.
pub(super) fn leave(shared: &Shared, asker: &Pool, name: &[u8]) {
    let hosts = asker.database.load().hosts.clone();
    let pools = shared.pools.read().unwrap_or_else(PoisonError::into_inner);
    let unused = pools.iter().filter(|pool| {
        let database = pool.database.load();
        pool.clients.count() == 0 && database.dbname.as_bytes() == name && database.hosts == hosts
    });
    for pool in unused {
        // A database of the same name may be another one.
        pool.state.catalogue.forget();
        reload::reconnect(shared, pool);
    }
}

/// What is kept for a pool beside the pool.
fn forget(control: &Control, parts: &Parts<'_>, pool: &Pool) {
    parts.dialler.forget(pool.id);
    parts.shared_listeners.forget(pool.id);
    control.credentials.forget(pool.id);
    control.reception.forget_pool(pool.id);
}

fn due(shared: &Shared, now: Time) -> Vec<Arc<Pool>> {
    let config = shared.config.load();
    let pools = shared.pools.read().unwrap_or_else(PoisonError::into_inner);
    pools
        .iter()
        .filter(|pool| {
            let unused_for = pool.unused_for(shared, now);
            unused_for
                .zip(longest(&config, pool))
                .is_some_and(|(unused, longest)| unused >= longest)
        })
        .cloned()
        .collect()
}

/// How long a pool may be unused; `None`: for ever.
fn longest(config: &Config, pool: &Pool) -> Option<Duration> {
    let configured = config.databases.contains_key(&*pool.database_name);
    if !configured && pool.welcome.load().is_none() {
        return Some(Duration::ZERO);
    }
    let of_database = config.general.autodb_idle_timeout.filter(|_| !configured);
    let of_pool = config.general.pool_idle_timeout;
    of_database.into_iter().chain(of_pool).min()
}
