//! What the pooler in front has counted.

use super::{number, percent, span};
use crate::advise::advice::{Advice, Topic, Weight};
use crate::advise::observations::{
    Name, Observations, PoolSeen, PooledDatabase, Pooler, PoolerSeen,
};

/// Clients wait too often if they were seen to in that share of the looks.
const WAITING_TOO_OFTEN: f64 = 0.05;

pub fn add(seen: &Observations, advice: &mut Advice) {
    let Pooler::Open(pooler) = &seen.pooler else {
        return;
    };
    for (name, pool) in &pooler.pools {
        if let Some(text) = one_pool(name, pool, pooler) {
            let weight = match waits_too_often(pool) {
                true => Weight::Act,
                false => Weight::Plain,
            };
            advice.find(Topic::Pooler, weight, text);
        }
    }
    for (name, database) in &pooler.databases {
        if let Some(text) = littles_law(name, database, seen.watch.seconds) {
            advice.find(Topic::Pooler, Weight::Plain, text);
        }
    }
}

fn waits_too_often(pool: &PoolSeen) -> bool {
    pool.waiting.share_from(1) > WAITING_TOO_OFTEN
}

fn one_pool(name: &Name, pool: &PoolSeen, pooler: &PoolerSeen) -> Option<String> {
    if pool.clients.max() == 0 {
        return None;
    }
    let size = pooler
        .databases
        .get(&name.database)
        .map_or_else(|| "?".to_owned(), |database| database.pool_size.to_string());
    let waits = match pool.waiting.max() {
        0 => "no client was seen waiting".to_owned(),
        most => format!(
            "clients waited in {} of the looks, {most} at most, for up to {}",
            percent(pool.waiting.share_from(1)),
            span(pool.longest_wait_s)
        ),
    };
    Some(format!(
        "{name} ({} mode, pool_size {size}): {} clients and {} server connections on average, of which {} were in use, {} in 95 % of the looks, {} at most; {waits}.",
        pool.mode,
        number(pool.clients.mean()),
        number(pool.servers.mean()),
        number(pool.active.mean()),
        pool.active.percentile(0.95),
        pool.active.max(),
    ))
}

fn littles_law(name: &str, database: &PooledDatabase, seconds: f64) -> Option<String> {
    let count = database.transactions;
    (count >= 1.0 && seconds > 0.0).then(|| {
        format!(
            "{name}: the pooler passed on {} transactions per second, each of which held a server connection for {} and waited {} for it: {} server connections by Little's law.",
            number(count / seconds),
            span(database.transaction_s / count),
            span(database.wait_s / count),
            number(database.transaction_s / seconds),
        )
    })
}
