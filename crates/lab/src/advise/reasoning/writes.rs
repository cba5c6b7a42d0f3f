//! Who writes and who only reads: read pools against write pools.

use super::{has_load, number, percent};
use crate::advise::advice::{Advice, Topic, Weight};
use crate::advise::observations::{Load, Name, Observations, StatementShare};

/// A pool that was busy in fewer looks than that may just not have been seen writing.
const BUSY_LOOKS_MIN: f64 = 30.0;
/// Below and above, a load is one kind only.
const MIXED: std::ops::Range<f64> = 0.05..0.95;

pub fn add(seen: &Observations, advice: &mut Advice) {
    if !has_load(seen) {
        return;
    }
    if let Some(share) = share(seen) {
        advice.find(Topic::Writes, Weight::Plain, overall(seen, share));
    }
    for (name, load) in &seen.pools {
        if let Some(text) = reads_only(name, load, seen) {
            advice.find(Topic::Writes, Weight::Plain, text);
        }
    }
}

/// Of transactions that write, at most.
fn share(seen: &Observations) -> Option<f64> {
    let transactions = seen.transactions_per_second() * seen.watch.seconds;
    (transactions >= 1.0).then(|| (seen.transaction_ids / transactions).min(1.0))
}

fn overall(seen: &Observations, share: f64) -> String {
    let writing = &seen.load.writing;
    let text = format!(
        "At most {} of the transactions wrote (the server gave out {} transaction ids per second for {} transactions); {} sessions were in one that had written on average, {} at most.",
        percent(share),
        number(seen.transaction_ids / seen.watch.seconds),
        number(seen.transactions_per_second()),
        number(writing.mean()),
        writing.max(),
    );
    match MIXED.contains(&share) {
        true => format!(
            "{text} If long reads delay writes, give each a pool: two lines of [databases] that lead to the same database, for writers with pool_size = {} or so, for readers with the rest.",
            (f64::from(writing.percentile(0.95)) * 1.25).ceil().max(2.0)
        ),
        false => text,
    }
}

fn reads_only(name: &Name, load: &Load, seen: &Observations) -> Option<String> {
    let busy_looks = load.busy.share_from(1) * seen.watch.looks as f64;
    if load.writing.max() > 0 || busy_looks < BUSY_LOOKS_MIN {
        return None;
    }
    let statements = seen.statements.as_ref();
    let counted = match statements.and_then(|statements| statements.by_pool.get(name)) {
        Some(StatementShare { writes, .. }) if *writes > 0.0 => return None,
        Some(StatementShare { reads, .. }) if *reads > 0.0 => {
            format!(
                ", and of its statements {} read and none wrote",
                number(*reads)
            )
        }
        _ => String::new(),
    };
    Some(format!(
        "{name} was never seen writing in {} looks that found it busy{counted}: it can have a read pool of its own (up to {} server connections at the same time), or be sent to a standby.",
        number(busy_looks),
        load.busy.max()
    ))
}
