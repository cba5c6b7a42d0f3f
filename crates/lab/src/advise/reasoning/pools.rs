//! Pool sizes for transaction mode: as many server connections as were wanted at the same time, and no more than the cores can use.

use super::work::useful;
use super::{has_load, number, percent, sum};
use crate::advise::advice::{Advice, DatabaseAdvice, IniAdvice, Keeps, PoolAdvice, SettingAdvice};
use crate::advise::observations::{
    Counts, Name, Observations, PoolSeen, Pooler, PoolerSeen, Sight,
};
use std::collections::BTreeMap;

/// Above what 95 % of the looks saw.
const HEADROOM: f64 = 1.25;
/// A few more than needed cost nothing, for they are opened only when they are; fewer let one transaction that hangs stop everybody.
const SIZE_MIN: u32 = 5;
const LIMITED_MIN: u32 = 2;
/// Clients wait too often if they were seen to in that share of the looks.
const WAITING_TOO_OFTEN: f64 = 0.05;

pub fn add(seen: &Observations, advice: &mut Advice) {
    if !has_load(seen) {
        return;
    }
    let mut pools = match &seen.pooler {
        Pooler::Open(pooler) => of_pooler(seen, pooler),
        _ => of_server(seen),
    };
    limit(&mut pools, useful(seen));
    if pools.is_empty() {
        return;
    }
    advice.ini = ini(&pools);
    advice.pools = pools;
}

fn of_server(seen: &Observations) -> Vec<PoolAdvice> {
    let mut pools = hidden(seen);
    let estimated: Vec<String> = pools
        .iter()
        .map(|pool| pool.name.database.clone())
        .collect();
    let known = seen
        .pools
        .iter()
        .filter(|(name, load)| load.busy.max() > 0 && !estimated.contains(&name.database));
    pools.extend(known.map(|(name, load)| pool(name.clone(), &load.busy, "busy sessions")));
    pools
}

fn of_pooler(seen: &Observations, pooler: &PoolerSeen) -> Vec<PoolAdvice> {
    let used = pooler
        .pools
        .iter()
        .filter(|(_, pool)| pool.clients.max() > 0);
    let one = |(name, counted): (&Name, &PoolSeen)| {
        if counted.mode == "session" {
            let server = Name {
                database: pooler
                    .databases
                    .get(&name.database)
                    .map_or_else(|| name.database.clone(), |line| line.database.clone()),
                user: name.user.clone(),
            };
            if let Some(load) = seen.pools.get(&server) {
                return pool(name.clone(), &load.busy, "busy sessions");
            }
        }
        match counted.waiting.share_from(1) > WAITING_TOO_OFTEN {
            true => short(name, counted),
            false => pool(name.clone(), &counted.active, "server connections in use"),
        }
    };
    used.map(one).collect()
}

/// A pool whose clients waited: how many it wants cannot be seen while it has too few. It may double, and then one looks again.
fn short(name: &Name, counted: &PoolSeen) -> PoolAdvice {
    let wanted = counted.wanted.percentile(0.95);
    let size = wanted
        .min(counted.active.max().saturating_mul(2))
        .max(SIZE_MIN);
    PoolAdvice {
        name: name.clone(),
        size,
        reserve: 0,
        mean: counted.active.mean(),
        p95: counted.active.percentile(0.95),
        max: counted.active.max(),
        why: format!(
            "clients waited in {} of the looks, {} and {} in use wanted a server connection in 95 % of them",
            percent(counted.waiting.share_from(1)),
            counted.waiting.percentile(0.95),
            counted.active.percentile(0.95),
        ),
    }
}

fn pool(name: Name, counts: &Counts, of_what: &str) -> PoolAdvice {
    let (p95, max) = (counts.percentile(0.95), counts.max());
    let size = with_headroom(f64::from(p95));
    PoolAdvice {
        name,
        size,
        reserve: max.saturating_sub(size).min(size),
        mean: counts.mean(),
        p95,
        max,
        why: format!(
            "{of_what}: {} on average, {p95} in 95 % of the looks, {max} at most",
            number(counts.mean())
        ),
    }
}

fn with_headroom(number: f64) -> u32 {
    ((number * HEADROOM).ceil() as u32).max(SIZE_MIN)
}

/// Databases whose sessions are not shown: what pg_stat_database counted is a mean, and around it the number of independent transactions
/// scatters as Poisson's distribution has it.
fn hidden(seen: &Observations) -> Vec<PoolAdvice> {
    if seen.server.sight == Sight::Everything {
        return Vec::new();
    }
    let unseen = |database: &str| {
        let mut pools = seen.pools.iter();
        pools.any(|(name, load)| name.database == database && load.unseen.max() > 0)
    };
    let one = |database: &crate::advise::observations::Database| {
        let seconds = database.active_s? + database.idle_in_transaction_s.unwrap_or_default();
        let mean = seconds / seen.watch.seconds.max(f64::MIN_POSITIVE);
        let p95 = mean + 1.645 * mean.sqrt();
        (unseen(&database.name) && mean > 0.0).then(|| PoolAdvice {
            name: Name {
                database: database.name.clone(),
                user: "(all users)".into(),
            },
            size: with_headroom(p95),
            reserve: 0,
            mean,
            p95: p95.ceil() as u32,
            max: p95.ceil() as u32,
            why: format!(
                "pg_stat_database counted {} sessions in transactions on average; the rest is estimated, for their states are hidden",
                number(mean)
            ),
        })
    };
    seen.databases.iter().filter_map(one).collect()
}

/// More than the cores can use would only wait in the server.
fn limit(pools: &mut [PoolAdvice], useful: Option<u32>) {
    let all = sum(pools.iter().map(|pool| pool.size));
    let Some(useful) = useful.filter(|useful| *useful < all) else {
        return;
    };
    for pool in pools {
        let share = f64::from(pool.size) * f64::from(useful) / f64::from(all);
        pool.size = (share.round() as u32).max(LIMITED_MIN);
        pool.reserve = 0;
        pool.why = format!(
            "{}; all pools together limited to the {useful} that keep the cores busy",
            pool.why
        );
    }
}

fn ini(pools: &[PoolAdvice]) -> IniAdvice {
    let mut by_database: BTreeMap<&str, Vec<&PoolAdvice>> = BTreeMap::new();
    for pool in pools {
        by_database
            .entry(&pool.name.database)
            .or_default()
            .push(pool);
    }
    let databases = by_database.into_iter().map(|(database, pools)| {
        let limit = sum(pools
            .iter()
            .map(|pool| pool.size.saturating_add(pool.reserve)));
        let whys: Vec<String> = pools
            .iter()
            .map(|pool| format!("{}: {}", pool.name.user, pool.why))
            .collect();
        DatabaseAdvice {
            database: database.into(),
            pool_size: pools.iter().map(|pool| pool.size).max().unwrap_or(SIZE_MIN),
            max_db_connections: (pools.len() > 1).then_some(limit),
            why: whys.join("; "),
        }
    });
    IniAdvice {
        databases: databases.collect(),
        settings: settings(pools),
    }
}

fn settings(pools: &[PoolAdvice]) -> Vec<SettingAdvice> {
    let largest = pools.iter().max_by_key(|pool| pool.size);
    let reserve = pools.iter().map(|pool| pool.reserve).max().unwrap_or(0);
    let mut settings = vec![SettingAdvice {
        name: "pool_mode",
        value: "transaction".into(),
        why: "the sizes below are for transactions: in session mode every connected client would need a server connection".into(),
        keeps: Keeps::Nothing,
    }];
    settings.extend(largest.map(|pool| SettingAdvice {
        name: "default_pool_size",
        value: pool.size.to_string(),
        why: format!("{}: {}", pool.name, pool.why),
        keeps: Keeps::Nothing,
    }));
    settings.extend((reserve > 0).then(|| SettingAdvice {
        name: "reserve_pool_size",
        value: reserve.to_string(),
        why: "for the peaks that were seen above the pools' sizes".into(),
        keeps: Keeps::Larger,
    }));
    settings
}
