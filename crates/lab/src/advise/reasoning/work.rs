//! How many sessions really work at the same time, three times over: seen, by the server's own clock, and by Little's law.

use super::{has_load, number, percent, span};
use crate::advise::advice::{Advice, Topic, Weight};
use crate::advise::observations::Observations;
use crate::report::count;

/// Two measures of the same differ, if by more than this share.
const DISAGREEMENT: f64 = 0.3;

pub fn add(seen: &Observations, advice: &mut Advice) {
    if seen.load.sessions.max() > seen.load.unseen.max() {
        advice.find(Topic::Work, Weight::Plain, at_work(seen));
    }
    if !has_load(seen) {
        return;
    }
    advice
        .findings
        .extend(littles_law(seen).map(|text| finding(Weight::Plain, text)));
    advice
        .findings
        .extend(by_the_servers_clock(seen).map(|text| finding(Weight::Plain, text)));
    advice.findings.extend(processors(seen));
}

fn finding(weight: Weight, text: String) -> crate::advise::advice::Finding {
    crate::advise::advice::Finding::new(Topic::Work, weight, text)
}

fn at_work(seen: &Observations) -> String {
    let load = &seen.load;
    format!(
        "{} of {} sessions were executing something at the same time on average; in 95 % of {} looks at most {}, never more than {}. With the moments in which a transaction waits for its client \
         (up to {} s), a pool would have needed {} server connections on average, {} in 95 % of the looks, {} at most.",
        number(load.active.mean()),
        number(load.sessions.mean()),
        count(seen.watch.looks),
        load.active.percentile(0.95),
        load.active.max(),
        crate::advise::observations::Load::ABANDONED_S,
        number(load.busy.mean()),
        load.busy.percentile(0.95),
        load.busy.max(),
    )
}

/// Throughput times the time that each holds a session is the number of sessions held.
fn littles_law(seen: &Observations) -> Option<String> {
    let throughput = seen.transactions_per_second();
    let busy = in_transactions(seen)?;
    (throughput > 0.0 && busy > 0.0).then(|| {
        format!(
            "{} transactions per second, each holding a session for {}: by Little's law {} sessions at the same time.",
            number(throughput),
            span(busy / throughput),
            number(busy),
        )
    })
}

/// Sessions in a transaction on average, by pg_stat_database where it tells, else as seen.
pub fn in_transactions(seen: &Observations) -> Option<f64> {
    let told = seen.per_second(|database| {
        Some(database.active_s? + database.idle_in_transaction_s.unwrap_or_default())
    });
    match told {
        Some(told) if told > 0.0 => Some(told),
        _ => Some(seen.load.busy.mean()).filter(|mean| *mean > 0.0),
    }
}

fn by_the_servers_clock(seen: &Observations) -> Option<String> {
    let told = seen.per_second(|database| database.active_s)?;
    let statements = seen.statements.as_ref().map(|statements| {
        let all: f64 = statements
            .by_pool
            .values()
            .map(|share| share.execution_s)
            .sum();
        all / seen.watch.seconds
    });
    let also = statements.map_or_else(String::new, |executing| {
        format!(
            ", and pg_stat_statements {} executing on average",
            number(executing)
        )
    });
    let looked = seen.load.active.mean();
    let hidden = seen.load.unseen.max() > 0;
    let verdict = match (told - looked).abs() <= DISAGREEMENT * looked.max(told).max(1.0) {
        _ if hidden => "",
        true => ": the looks are representative",
        false => {
            ": that is not what the looks saw. Statements that began before the watch or had not ended with it are counted where they end, bursts can fall between looks, and where processors are scarce looks miss very short statements; watch for longer"
        }
    };
    Some(format!(
        "The server's own clock (active_time of pg_stat_database) counted {} sessions executing on average{also}{verdict}.",
        number(told)
    ))
}

fn processors(seen: &Observations) -> Option<crate::advise::advice::Finding> {
    let cores = seen.hardware.cores?;
    let running = seen.load.running.mean();
    if seen.load.active.mean() <= 0.0 {
        return None;
    }
    let used = format!(
        "{} of the executing sessions wanted a processor ({} of their time; the rest they waited for locks, input and output, or their clients), and there are {cores} cores",
        number(running),
        percent(running / seen.load.active.mean()),
    );
    Some(match useful(seen) {
        Some(useful) => finding(
            Weight::Act,
            format!(
                "{used}: more sessions than cores, so that they take turns. About {useful} sessions at work keep this machine busy; more of them finish no more transactions, and a pool of that size lets the rest wait in front of the server \
                 instead of in it."
            ),
        ),
        None => finding(
            Weight::Good,
            format!("{used}: processors are not what limits this load."),
        ),
    })
}

/// So many sessions at work keep all cores busy: one per core, and as many more as wait meanwhile. `None` if they are not all busy.
pub fn useful(seen: &Observations) -> Option<u32> {
    let cores = seen.hardware.cores? as f64;
    let (running, busy) = (seen.load.running.mean(), seen.load.busy.mean());
    (running > cores).then(|| (cores * (busy / running).max(1.0)).ceil() as u32)
}
