//! From what was seen to what follows from it. Pure: no server, no file, no clock.
//!
//! Each part looks at one side of the observations and adds its findings; [`pools`] decides sizes, on which [`connections`] builds.

mod connections;
mod memory;
mod pooler;
mod pools;
mod sessions;
mod sight;
mod timeouts;
mod work;
mod writes;

use super::advice::{Advice, Finding, Topic, Weight};
use super::observations::{Observations, Pooler};
use crate::report::{self, plain};
use std::time::Duration;

/// Fewer transactions than that are no load to conclude pool sizes from.
const TRANSACTIONS_MIN: f64 = 20.0;

/// All findings and recommendations.
pub fn conclude(seen: &Observations) -> Advice {
    let mut advice = Advice::default();
    sight::add(seen, &mut advice);
    work::add(seen, &mut advice);
    pooler::add(seen, &mut advice);
    writes::add(seen, &mut advice);
    sessions::add(seen, &mut advice);
    memory::add(seen, &mut advice);
    pools::add(seen, &mut advice);
    connections::add(seen, &mut advice);
    timeouts::add(seen, &mut advice);
    advice.findings.sort_by_key(|finding| finding.topic);
    advice
}

/// Whether there was any load.
fn has_load(seen: &Observations) -> bool {
    let counted = seen.transactions_per_second() * seen.watch.seconds;
    let (passed_on, not_clients) = match &seen.pooler {
        Pooler::None => (0.0, 0.0),
        // Weir follows a look with a question of its own.
        Pooler::Closed(_) => (0.0, seen.watch.looks as f64 * 2.0),
        Pooler::Open(pooler) => (
            pooler
                .databases
                .values()
                .map(|line| line.transactions)
                .sum(),
            seen.watch.looks as f64 * 2.0,
        ),
    };
    let transactions = counted.max(passed_on);
    transactions >= TRANSACTIONS_MIN + not_clients || seen.load.busy.mean() >= 0.5
}

impl Advice {
    fn find(&mut self, topic: Topic, weight: Weight, text: impl Into<String>) {
        self.findings.push(Finding::new(topic, weight, text));
    }
}

fn sum(numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.fold(0, u32::saturating_add)
}

/// "3.2 ms", "12.5 s", "2 h 5 min"
fn span(seconds: f64) -> String {
    match seconds {
        short if short < 1.0 => format!("{} ms", plain(short * 1_000.0)),
        some if some < 120.0 => format!("{} s", number(some)),
        long => report::duration(Duration::from_secs_f64(long.min(1e12))),
    }
}

/// "0.06", "3.9", "49", "1,234"
fn number(number: f64) -> String {
    let text = match number {
        small if small < 1.0 => format!("{small:.2}"),
        some if some < 10.0 => format!("{some:.1}"),
        many => return report::count(many.round() as u64),
    };
    match text.trim_end_matches('0').trim_end_matches('.') {
        "" => "0".into(),
        trimmed => trimmed.to_owned(),
    }
}

/// "1 session", "3 sessions"
fn counted(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        many => format!("{} {thing}s", report::count(many)),
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        few if few > 0.0 && few < 1.0 => "under 1 %".into(),
        some => format!("{some:.0} %"),
    }
}

fn bytes(number: f64) -> String {
    report::bytes(number.max(0.0) as u64)
}

#[cfg(test)]
mod tests;
