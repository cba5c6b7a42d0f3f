//! Sessions that do nothing, and sessions that never stay: what they cost, and who they are.

use super::{bytes, counted, number, percent, span};
use crate::advise::advice::{Advice, Topic, Weight};
use crate::advise::observations::{
    Arrival, Group, Load, MemorySource, Observations, PooledDatabase, Pooler,
};
use crate::report::count;

/// How many are named; the rest are counted.
const NAMED_MAX: usize = 5;
/// Idle sessions that nobody has to care for.
const FEW: f64 = 20.0;
/// A session for fewer transactions than that is a connection that should have been kept.
const TRANSACTIONS_PER_SESSION: f64 = 20.0;
/// Nor is a connection that lasts so long, in seconds, one for a query.
const STAY_MIN_S: f64 = 60.0;
/// New sessions per second that nobody has to care for.
const FEW_PER_SECOND: f64 = 0.5;

pub fn add(seen: &Observations, advice: &mut Advice) {
    idle(seen, advice);
    idle_in_transaction(seen, advice);
    reconnecting(seen, advice);
}

fn idle(seen: &Observations, advice: &mut Advice) {
    let idle = seen.load.idle.mean();
    if idle < 0.05 {
        return;
    }
    let cost = match &seen.memory {
        Some(memory) if memory.source == MemorySource::Kernel => format!(
            " Each takes {} that are its own ({} measured, the largest {}; {} of it page tables): {} for all idle ones.",
            bytes(memory.mean_bytes),
            count(memory.measured as u64),
            bytes(memory.largest_bytes),
            bytes(memory.page_tables_mean_bytes),
            bytes(memory.mean_bytes * idle),
        ),
        Some(memory) => format!(
            " A fresh one takes {} by PostgreSQL's own account, and its process some more: {} at the very least for all idle ones.",
            bytes(memory.mean_bytes),
            bytes(memory.mean_bytes * idle),
        ),
        None => " What they take of the memory could not be measured (it can on the server's machine as root, or as a superuser of PostgreSQL).".into(),
    };
    let pooled = matches!(seen.pooler, Pooler::Open(_));
    let many = idle > FEW && idle > 4.0 * seen.load.active.mean() && !pooled;
    let head = format!(
        "{} of {} sessions were idle on average.{cost}",
        number(idle),
        number(seen.load.sessions.mean())
    );
    let who = match pooled {
        true => String::new(),
        false => named(
            seen,
            |group| group.idle,
            |group| {
                format!(
                    "{}: up to {}, {} idle on average, one for {}",
                    group.who,
                    counted(group.sessions.into(), "session"),
                    number(group.idle),
                    span(group.idle_longest_s)
                )
            },
        ),
    };
    let advised = match many {
        true => {
            " Behind a transaction pool they would be clients, and the server would keep what works."
        }
        false => "",
    };
    let weight = if many { Weight::Act } else { Weight::Plain };
    advice.find(Topic::Idle, weight, format!("{head}{advised}{who}"));
}

fn idle_in_transaction(seen: &Observations, advice: &mut Advice) {
    let mean = seen.load.idle_in_transaction.mean();
    let longest = longest_idle_in_transaction(seen);
    if seen.load.idle_in_transaction.max() == 0 {
        if seen.load.active.max() > 0 {
            let text = "No session was seen idle in a transaction.";
            advice.find(Topic::IdleInTransaction, Weight::Good, text);
        }
        return;
    }
    let share = mean / (mean + seen.load.active.mean());
    let head = format!(
        "On average {} were idle in a transaction ({} of the time that transactions take), one for {}. Meanwhile they hold a server connection and their locks, and VACUUM cannot remove what is newer than their snapshots.",
        number(mean),
        percent(share),
        span(longest),
    );
    let who = named(
        seen,
        |group| group.idle_in_transaction,
        |group| {
            format!(
                "{}: {} on average, for up to {}, in a transaction of {}",
                group.who,
                number(group.idle_in_transaction),
                span(group.idle_in_transaction_longest_s),
                span(group.transaction_longest_s)
            )
        },
    );
    let weight = match longest >= Load::ABANDONED_S {
        true => Weight::Act,
        false => Weight::Plain,
    };
    advice.find(Topic::IdleInTransaction, weight, format!("{head}{who}"));
}

pub fn longest_idle_in_transaction(seen: &Observations) -> f64 {
    let groups = seen.groups.iter();
    groups.fold(0.0, |longest, group| {
        longest.max(group.idle_in_transaction_longest_s)
    })
}

/// How often clients come, for how many transactions, and whether they stay.
struct Arrivals {
    came: f64,
    left: f64,
    /// How long they stay on average, in seconds: by Little's law, those that are there by those that come.
    stay_s: f64,
    transactions_each: f64,
    counted_by: &'static str,
    /// Those who were seen coming and going again.
    short_lived: Vec<Arrival>,
}

fn reconnecting(seen: &Observations, advice: &mut Advice) {
    let seconds = seen.watch.seconds;
    let Some(arrivals) = arrivals(seen).filter(|_| seconds > 0.0) else {
        return;
    };
    let head = format!(
        "{} new sessions per second ({}), one for every {} transactions",
        number(arrivals.came / seconds),
        arrivals.counted_by,
        number(arrivals.transactions_each),
    );
    let for_little = arrivals.transactions_each < TRANSACTIONS_PER_SESSION;
    let not_for_long = arrivals.stay_s < STAY_MIN_S;
    if arrivals.left / seconds < FEW_PER_SECOND || !(for_little || not_for_long) {
        let text = format!("{head}: clients keep their connections.");
        advice.find(Topic::Reconnecting, Weight::Good, text);
        return;
    }
    let who = arrivals.short_lived.iter().take(NAMED_MAX);
    let who: String = who
        .map(|arrival| {
            format!(
                "\n- {}: {} seen coming, {} of them gone again",
                arrival.who,
                count(arrival.came),
                count(arrival.left)
            )
        })
        .collect();
    let caught = match who.is_empty() {
        true => {
            " None was caught between two looks, so short are they; log_connections tells who they are."
        }
        false => " Caught between two looks (most are too short for that):",
    };
    let text = format!(
        "{head}, and about {} of {} left again: a connection lasts {} on average. Each costs a log-in and, without a pooler, a new process with empty caches. Keep connections in the application, or at least point these clients at a transaction pool.{caught}{who}",
        count(arrivals.left as u64),
        count(arrivals.came as u64),
        span(arrivals.stay_s),
    );
    advice.find(Topic::Reconnecting, Weight::Act, text);
}

/// By the pooler where there is one: the server sees only the pooler's sessions.
fn arrivals(seen: &Observations) -> Option<Arrivals> {
    let seconds = seen.watch.seconds;
    if let Pooler::Open(pooler) = &seen.pooler {
        let sum = |of: fn(&PooledDatabase) -> f64| pooler.databases.values().map(of).sum::<f64>();
        let looked: u64 = pooler.arrivals.iter().map(|arrival| arrival.came).sum();
        let counts_them = pooler
            .databases
            .values()
            .any(|database| database.log_ins.is_some());
        let (came, counted_by) = match counts_them {
            true => (
                sum(|database| database.log_ins.unwrap_or_default()),
                "log-ins to the pooler",
            ),
            false => (
                looked as f64,
                "as seen; this pooler does not count log-ins, and most of those who leave at once are not seen",
            ),
        };
        let clients: f64 = pooler.pools.values().map(|pool| pool.clients.mean()).sum();
        return Some(Arrivals {
            came,
            left: came - pooler.growth,
            stay_s: clients * seconds / came.max(1.0),
            transactions_each: sum(|database| database.transactions) / came.max(1.0),
            counted_by,
            short_lived: short_lived(pooler.arrivals.iter().cloned()),
        });
    }
    let looked: u64 = seen.groups.iter().map(|group| group.came).sum();
    let (came, counted_by) = match seen.per_second(|database| database.sessions) {
        Some(counted) => (counted * seconds, "sessions of pg_stat_database"),
        None => (looked as f64, "as seen; PostgreSQL 14 counts them"),
    };
    let groups = seen.groups.iter().map(|group| Arrival {
        who: group.who.clone(),
        came: group.came,
        left: group.left,
    });
    Some(Arrivals {
        came,
        left: came - seen.watch.growth,
        stay_s: seen.load.sessions.mean() * seconds / came.max(1.0),
        transactions_each: seen.transactions_per_second() * seconds / came.max(1.0),
        counted_by,
        short_lived: short_lived(groups),
    })
}

fn short_lived(arrivals: impl Iterator<Item = Arrival>) -> Vec<Arrival> {
    let mut short: Vec<Arrival> = arrivals
        .filter(|arrival| arrival.left * 2 > arrival.came)
        .collect();
    short.sort_by_key(|arrival| std::cmp::Reverse(arrival.came));
    short
}

/// The groups that have most of it, a line each.
fn named(
    seen: &Observations,
    of: impl Fn(&Group) -> f64,
    line: impl Fn(&Group) -> String,
) -> String {
    let mut groups: Vec<&Group> = seen.groups.iter().filter(|group| of(group) > 0.0).collect();
    groups.sort_by(|a, b| of(b).total_cmp(&of(a)));
    let rest = groups.len().saturating_sub(NAMED_MAX);
    let lines: String = groups
        .iter()
        .take(NAMED_MAX)
        .map(|group| format!("\n- {}", line(group)))
        .collect();
    match rest {
        0 => lines,
        more => format!("{lines}\n- and {more} more"),
    }
}
