//! Which functions, triggers, views, casts and operators of a database reach session state: decides when its catalogue is asked, and makes the words
//! that workers look for in statements of the answers. What is asked is in `sql::learn`; who asks, in `worker/errand.rs`.
//!
//! The catalogue is read before the first client is served; again when a client's statement has changed it, half a second later; and when its fingerprint, looked
//! at every `catalog_check_interval` while the database is used, is another. From a change on until it has been read anew, every statement may do
//! anything, and every transaction is followed by a census. So it stays where the catalogue cannot be read.

use crate::shared::{
    CatalogAnswer, CatalogTold, Errand, Pool, Pools, Shared, ToWorker, Unanswered,
};
use pooling::Watch;
use settings::{CensusPolicy, PoolMode};
use sql::learn::Catalog;
use sql::{LearntNames, Suspicion};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// How long it is waited for more changes. Who makes one makes many.
const SETTLES_IN: Duration = Duration::from_millis(500);
/// How often is looked whether it is time to look.
const PERIOD: Duration = Duration::from_secs(1);
/// How many times in a row a server connection may be lost over the question.
const LOST_MAX: u32 = 3;

/// Looks for changes made past Weir, until the runtime ends.
pub async fn keep(shared: Arc<Shared>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked = Instant::now();
    loop {
        ticks.tick().await;
        let longest = shared.config.load().general.catalog_check_interval;
        if longest.is_some_and(|longest| looked.elapsed() >= longest) {
            looked = Instant::now();
            look(&shared);
        }
    }
}

fn look(shared: &Shared) {
    for pool in in_use(shared).into_values() {
        let catalogue = &pool.state.catalogue;
        let known = catalogue.watch().is_known();
        let errand = match known {
            true => Errand::Fingerprint,
            false => Errand::Names,
        };
        if catalogue.is_open() {
            ask(shared, &pool, errand);
        }
    }
}

/// One pool of every database whose server connections go from client to client.
fn in_use(shared: &Shared) -> HashMap<Box<str>, Arc<Pool>> {
    read(shared)
        .iter()
        .filter(|pool| pool.clients.count() > 0 && shares(pool))
        .map(|pool| (pool.database_name.clone(), Arc::clone(pool)))
        .collect()
}

fn shares(pool: &Pool) -> bool {
    let settings = pool.settings.load();
    settings.mode != PoolMode::Session && settings.census != CensusPolicy::Off
}

/// A client's statement may have changed the catalogue; the client's own worker knows already.
pub fn changed(shared: &Arc<Shared>, pool: Arc<Pool>) {
    tell(shared, &pool);
    ask_later(shared, pool);
}

fn ask_later(shared: &Arc<Shared>, pool: Arc<Pool>) {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        sleep(SETTLES_IN).await;
        ask(&shared, &pool, Errand::Fingerprint);
    });
}

/// The next server connection of the database that becomes free puts the question; if one is idle, that.
fn ask(shared: &Shared, pool: &Pool, errand: Errand) {
    pool.state.catalogue.want(errand);
    let pools = read(shared);
    let found = of_database(&pools, pool)
        .filter(|pool| shares(pool))
        .find_map(|pool| {
            let idle = |cell: &crate::shared::Cell| cell.idle.load(Ordering::SeqCst) > 0;
            Some((pool.id, pool.cells.iter().position(idle)?))
        });
    if let Some((pool, worker)) = found {
        shared.tell(worker, ToWorker::RunErrand(pool));
    }
}

/// What a server connection has told.
pub fn answered(shared: &Arc<Shared>, answer: CatalogAnswer) {
    let CatalogAnswer {
        pool,
        changes,
        told,
    } = answer;
    match told {
        Ok(CatalogTold::Fingerprint(fingerprint)) => compare(shared, pool, changes, &fingerprint),
        Ok(CatalogTold::Names {
            catalog,
            fingerprint,
        }) => {
            let shared = Arc::clone(shared);
            tokio::spawn(
                async move { conclude(&shared, pool, changes, catalog, fingerprint).await },
            );
        }
        Err(Unanswered::Lost(errand)) => lost(shared, &pool, errand),
        Err(Unanswered::Refused(why)) => give_up(shared, &pool, &why),
    }
}

/// Is it as it was when it was read?
fn compare(shared: &Arc<Shared>, pool: Arc<Pool>, changes: u32, fingerprint: &str) {
    let catalogue = &pool.state.catalogue;
    let words = catalogue.learnt().words.clone();
    let same = words.filter(|(known, _)| **known == *fingerprint);
    match same {
        Some(_) if catalogue.watch().is_known() => {}
        Some((_, words)) if catalogue.learn(changes, &words) => tell(shared, &pool),
        Some(_) => ask_later(shared, pool),
        None => {
            catalogue.changed(&Default::default());
            tell(shared, &pool);
            ask(shared, &pool, Errand::Names);
        }
    }
}

/// Draws the conclusions, on a thread of its own: a large catalogue takes a while.
async fn conclude(
    shared: &Arc<Shared>,
    pool: Arc<Pool>,
    changes: u32,
    catalog: Catalog,
    fingerprint: Box<str>,
) {
    let given = shared.config.load().general.census_names.clone();
    let learning = tokio::task::spawn_blocking(move || {
        let learnt = with_given(sql::learn::learn(&catalog).ok()?, &given);
        Some((learnt.iter().count(), Watch::new(&learnt, 0)))
    });
    let Ok(Some((names, watch))) = learning.await else {
        return give_up(shared, &pool, "there are too many names");
    };
    let catalogue = &pool.state.catalogue;
    let words = Arc::new(watch);
    {
        let mut learnt = catalogue.learnt();
        learnt.words = Some((fingerprint, Arc::clone(&words)));
        learnt.complained = false;
        learnt.lost = 0;
    }
    if !catalogue.learn(changes, &words) {
        return ask_later(shared, pool);
    }
    catalogue.open();
    tracing::debug!(database = %pool.database_name, names, "the catalogue has been read");
    tell(shared, &pool);
}

/// `census_names`: of what these do nothing is known.
fn with_given(mut learnt: LearntNames, given: &[String]) -> LearntNames {
    for name in given {
        learnt.insert(name.as_bytes(), Suspicion::OPAQUE);
    }
    learnt
}

/// The server connection ended before it had told. The next one is asked, unless it looks as if the question itself were the reason.
fn lost(shared: &Arc<Shared>, pool: &Arc<Pool>, errand: Errand) {
    let catalogue = &pool.state.catalogue;
    let again = {
        let mut learnt = catalogue.learnt();
        learnt.lost += 1;
        learnt.lost < LOST_MAX
    };
    if again {
        catalogue.want(errand);
        tell(shared, pool);
    } else {
        give_up(shared, pool, "the server closes the connection");
    }
}

/// Clients are served without, until it is time to look again.
fn give_up(shared: &Arc<Shared>, pool: &Arc<Pool>, why: &str) {
    let catalogue = &pool.state.catalogue;
    let said = {
        let mut learnt = catalogue.learnt();
        learnt.words = None;
        learnt.lost = 0;
        std::mem::replace(&mut learnt.complained, true)
    };
    if !said {
        tracing::warn!(
            database = %pool.database_name,
            user = %pool.server_user,
            "the catalogue cannot be read, so every transaction is followed by a census: {why}"
        );
    }
    catalogue.changed(&Default::default());
    catalogue.open();
    tell(shared, pool);
}

/// Tells the workers that something is known of the pool's database, or no longer.
fn tell(shared: &Shared, pool: &Pool) {
    for pool in of_database(&read(shared), pool) {
        shared.tell_all(|| ToWorker::PoolChanged(pool.id));
    }
}

fn of_database<'a>(pools: &'a Pools, one: &'a Pool) -> impl Iterator<Item = &'a Arc<Pool>> {
    pools
        .iter()
        .filter(|pool| Arc::ptr_eq(&pool.state, &one.state))
}

fn read(shared: &Shared) -> RwLockReadGuard<'_, Pools> {
    shared.pools.read().unwrap_or_else(PoisonError::into_inner)
}
