//! Keeps pools warm: once a second every pool that is below its `min_pool_size` asks for the connections it lacks. Idle connections
//! beyond it are closed by the workers.

use crate::shared::{Pool, Shared, ToControl};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

const PERIOD: Duration = Duration::from_secs(1);

/// Runs until the handle is aborted or the runtime ends.
pub fn spawn(shared: Arc<Shared>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn = 0;
        loop {
            ticks.tick().await;
            open_forced(&shared);
            turn = warm_all(&shared, turn);
        }
    })
}

/// A database with a forced user is kept warm from the start, before its first client.
fn open_forced(shared: &Shared) {
    let config = shared.config.load();
    for database in config.databases.values() {
        let Some(user) = &database.forced_user else {
            continue;
        };
        let wanted = config.pool_settings(database, user).min_pool_size > 0;
        let pools = shared
            .pools
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if wanted && pools.get(&database.name, user).is_none() {
            drop(pools);
            let mut pools = shared
                .pools
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            pools.open(shared, database, user);
        }
    }
}

/// New connections go to the workers in turn; returns whose turn is next.
fn warm_all(shared: &Arc<Shared>, mut turn: usize) -> usize {
    let pools: Vec<Arc<Pool>> = {
        let pools = shared
            .pools
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        pools
            .iter()
            .filter(|pool| is_kept_warm(pool))
            .cloned()
            .collect()
    };
    for pool in pools {
        for _ in 0..lacking(shared, &pool) {
            let Ok(slot) = shared.try_slot(pool.id) else {
                break;
            };
            let worker = turn % shared.workers().len().max(1);
            turn = worker + 1;
            shared.tell_control(ToControl::Dial {
                pool: Arc::clone(&pool),
                worker,
                slot,
            });
        }
    }
    turn
}

/// PgBouncer's rule: with a forced user always, else while the pool has a client.
fn is_kept_warm(pool: &Pool) -> bool {
    let open = !pool.is_paused() && !pool.state.disabled.load(Ordering::Relaxed);
    open && (pool.database.load().forced_user.is_some() || pool.clients.count() > 0)
}

/// How many connections to ask for now: of a server that fails only one, which is the prober.
fn lacking(shared: &Shared, pool: &Pool) -> u32 {
    let lacking = pool
        .settings
        .load()
        .min_pool_size
        .saturating_sub(shared.ledger().open_in_pool(pool.id));
    match pool.last_error.load().is_some() {
        true => lacking.min(1),
        false => lacking,
    }
}
