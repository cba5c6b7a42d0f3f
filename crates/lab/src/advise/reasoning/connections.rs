//! How many connections the server has to take, and the pooler.

use super::sum;
use crate::advise::advice::{Advice, Change, Keeps, SettingAdvice, Topic, Weight};
use crate::advise::observations::{Observations, Pooler};
use crate::report::count;

/// For people, monitoring and backups, which come past the pooler.
const SPARE: u32 = 5;
/// The rule of thumb for connections that all may be at work.
const PER_CORE: usize = 4;
/// So many more than needed do no harm yet.
const MORE_THAN_NEEDED: u32 = 100;
const CLIENTS_MIN: u32 = 200;
/// Beyond these, somebody's counters are wrong; PostgreSQL takes no larger max_connections.
const CLIENTS_MAX: u32 = 10_000_000;
const CONNECTIONS_MAX: u32 = 262_140;

pub fn add(seen: &Observations, advice: &mut Advice) {
    let clients = clients(seen);
    if clients > 0 {
        advice.ini.settings.push(SettingAdvice {
            name: "max_client_conn",
            value: clients
                .min(CLIENTS_MAX)
                .saturating_mul(2)
                .next_multiple_of(100)
                .max(CLIENTS_MIN)
                .to_string(),
            why: format!(
                "up to {clients} clients were connected at the same time: twice that, in hundreds"
            ),
            keeps: Keeps::Larger,
        });
    }
    let Some(current) = seen.server.number("max_connections") else {
        return;
    };
    if advice.pools.is_empty() {
        return;
    }
    let (weight, text) = server(seen, advice, current as u32);
    advice.find(Topic::Connections, weight, text);
}

/// Those of the pooler where there is one, else the sessions, whose place they will take.
fn clients(seen: &Observations) -> u32 {
    match &seen.pooler {
        Pooler::Open(pooler) => sum(pooler.pools.values().map(|pool| pool.clients.max())),
        _ => seen.load.sessions.max(),
    }
}

fn server(seen: &Observations, advice: &mut Advice, current: u32) -> (Weight, String) {
    let pooled = advice.pools.iter();
    let pooled = sum(pooled.map(|pool| pool.size.saturating_add(pool.reserve)));
    let reserved = ["superuser_reserved_connections", "reserved_connections"]
        .into_iter()
        .filter_map(|setting| seen.server.number(setting))
        .sum::<f64>() as u32;
    let others = past_the_pooler(seen);
    let needed = sum([pooled, reserved, others, SPARE].into_iter());
    let needed = needed.min(CONNECTIONS_MAX).next_multiple_of(10);
    let rule = seen.hardware.cores.map_or_else(String::new, |cores| {
        format!(
            " The rule of thumb, {PER_CORE} per core, says {}.",
            cores * PER_CORE
        )
    });
    let sum = format!(
        "max_connections is {current}, and up to {} sessions were open. The pools below take {pooled}; with {others} that do not come through the pooler, {reserved} reserved and {SPARE} to spare that is {needed} when rounded.{rule}",
        count(seen.load.sessions.max().into()),
    );
    let fits =
        current >= needed && current <= needed.saturating_mul(2).max(needed + MORE_THAN_NEEDED);
    if fits {
        return (Weight::Good, sum);
    }
    let why = match current > needed {
        true => {
            "once all clients come through the pooler: a limit that the machine can carry, instead of a number that only fits while most sessions are idle"
        }
        false => "the pools need more than the server takes",
    };
    advice.changes.push(Change {
        what: format!("ALTER SYSTEM SET max_connections = {needed};  -- then a restart"),
        why: why.into(),
    });
    (Weight::Act, sum)
}

/// Sessions of the server beyond those that the pooler has.
fn past_the_pooler(seen: &Observations) -> u32 {
    match &seen.pooler {
        Pooler::Open(pooler) => {
            let pooled = sum(pooler.pools.values().map(|pool| pool.servers.max()));
            seen.load.sessions.max().saturating_sub(pooled)
        }
        _ => 0,
    }
}
