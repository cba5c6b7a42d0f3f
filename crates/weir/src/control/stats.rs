//! Averages over `stats_period`, and PgBouncer's line of statistics in the log.

use super::Control;
use super::snapshot::Snapshot;
use crate::report::Totals;
use crate::shared::{Detail, Shared};
use pooling::Time;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A database's counters since the start, or what became of them in one period.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    pub totals: Totals,
    pub logins: u64,
}

/// By database.
pub type ByDatabase = BTreeMap<Box<str>, Figures>;

/// The counters at the end of the last period, and that period's averages.
pub struct Statistics {
    last: Mutex<Period>,
}

struct Period {
    ended: Time,
    counters: ByDatabase,
    averages: ByDatabase,
}

impl Statistics {
    pub fn start(shared: &Shared) -> Statistics {
        let period = Period {
            ended: shared.clock.now(),
            counters: ByDatabase::new(),
            averages: ByDatabase::new(),
        };
        Statistics {
            last: Mutex::new(period),
        }
    }

    /// The averages of the last whole period; empty during the first.
    pub fn averages(&self) -> ByDatabase {
        self.last().averages.clone()
    }

    /// Ends a period; gives the averages over all databases.
    fn renew(&self, now: Time, counters: ByDatabase) -> Figures {
        let mut last = self.last();
        let elapsed = now.since(last.ended);
        let before = |name: &str| last.counters.get(name).copied().unwrap_or_default();
        let averages = counters
            .iter()
            .map(|(name, figures)| (name.clone(), average(figures, &before(name), elapsed)));
        let averages = averages.collect();
        let all = average(&sum(&counters), &sum(&last.counters), elapsed);
        *last = Period {
            ended: now,
            counters,
            averages,
        };
        all
    }

    fn last(&self) -> MutexGuard<'_, Period> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, part: Totals) {
        self.server_assignments += part.server_assignments;
        self.transactions += part.transactions;
        self.queries += part.queries;
        self.bytes_received += part.bytes_received;
        self.bytes_sent += part.bytes_sent;
        self.transaction_time += part.transaction_time;
        self.query_time += part.query_time;
        self.wait_time += part.wait_time;
        self.client_parses += part.client_parses;
        self.server_parses += part.server_parses;
        self.binds += part.binds;
        self.censuses += part.censuses;
        self.pins += part.pins;
    }
}

/// Every database's counters, the console's included.
pub fn counters(snapshot: &Snapshot) -> ByDatabase {
    let mut all: ByDatabase = ByDatabase::new();
    for (name, totals) in snapshot.totals() {
        all.insert(name, Figures { totals, logins: 0 });
    }
    for pool in &snapshot.pools {
        let logins = pool.state.logins.load(std::sync::atomic::Ordering::Relaxed);
        all.entry(pool.database_name.clone()).or_default().logins = logins;
    }
    let commands = snapshot.console_commands;
    let console = Totals {
        transactions: commands,
        queries: commands,
        ..Totals::default()
    };
    all.insert(
        "pgbouncer".into(),
        Figures {
            totals: console,
            logins: 0,
        },
    );
    all
}

/// Counts become counts per second; the times of transactions and queries become times for each of them, that of waiting
/// microseconds per second.
fn average(now: &Figures, before: &Figures, elapsed: Duration) -> Figures {
    let micros = elapsed.as_micros().max(1);
    let per_second = |now: u64, before: u64| {
        (u128::from(now.saturating_sub(before)) * 1_000_000 / micros) as u64
    };
    let each = |time: u64, before: u64, count: u64| {
        time.saturating_sub(before).checked_div(count).unwrap_or(0)
    };
    let (n, b) = (&now.totals, &before.totals);
    Figures {
        logins: per_second(now.logins, before.logins),
        totals: Totals {
            server_assignments: per_second(n.server_assignments, b.server_assignments),
            transactions: per_second(n.transactions, b.transactions),
            queries: per_second(n.queries, b.queries),
            bytes_received: per_second(n.bytes_received, b.bytes_received),
            bytes_sent: per_second(n.bytes_sent, b.bytes_sent),
            transaction_time: each(
                n.transaction_time,
                b.transaction_time,
                n.transactions.saturating_sub(b.transactions),
            ),
            query_time: each(
                n.query_time,
                b.query_time,
                n.queries.saturating_sub(b.queries),
            ),
            wait_time: per_second(n.wait_time, b.wait_time),
            client_parses: per_second(n.client_parses, b.client_parses),
            server_parses: per_second(n.server_parses, b.server_parses),
            binds: per_second(n.binds, b.binds),
            censuses: per_second(n.censuses, b.censuses),
            pins: per_second(n.pins, b.pins),
        },
    }
}

/// Over all databases.
pub fn sum(all: &ByDatabase) -> Figures {
    all.values().fold(Figures::default(), |mut sum, figures| {
        sum.logins += figures.logins;
        sum.totals += figures.totals;
        sum
    })
}

/// Ends a period every `stats_period`, for ever.
pub async fn keep(control: Arc<Control>) {
    loop {
        let period = control.shared.config.load().general.stats_period;
        tokio::time::sleep(period).await;
        let snapshot = Snapshot::take(&control, Detail::Totals).await;
        let all = control.statistics.renew(snapshot.now, counters(&snapshot));
        if control.shared.config.load().general.log_stats {
            log(&all);
        }
    }
}

fn log(Figures { totals, .. }: &Figures) {
    tracing::info!(
        "stats: {} xacts/s, {} queries/s, {} client parses/s, {} server parses/s, {} binds/s, in {} B/s, out {} B/s, \
         xact {} us, query {} us, wait {} us",
        totals.transactions,
        totals.queries,
        totals.client_parses,
        totals.server_parses,
        totals.binds,
        totals.bytes_received,
        totals.bytes_sent,
        totals.transaction_time,
        totals.query_time,
        totals.wait_time,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(transactions: u64, transaction_time: u64, wait_time: u64, logins: u64) -> Figures {
        Figures {
            totals: Totals {
                transactions,
                transaction_time,
                wait_time,
                ..Totals::default()
            },
            logins,
        }
    }

    #[test]
    fn averages_are_per_second_or_for_each() {
        let before = figures(100, 1_000, 0, 10);
        let now = figures(700, 61_000, 3_000_000, 70);
        let average = average(&now, &before, Duration::from_secs(60));
        assert_eq!((average.totals.transactions, average.logins), (10, 1));
        assert_eq!(
            (average.totals.transaction_time, average.totals.wait_time),
            (100, 50_000)
        );
        assert_eq!(average.totals.query_time, 0);
    }

    #[test]
    fn a_period_is_compared_to_the_one_before() {
        let statistics = Statistics {
            last: Mutex::new(Period {
                ended: Time(0),
                counters: ByDatabase::new(),
                averages: ByDatabase::new(),
            }),
        };
        let at = |transactions| {
            ByDatabase::from([
                ("a".into(), figures(transactions, 0, 0, 0)),
                ("b".into(), figures(60, 0, 0, 0)),
            ])
        };
        statistics.renew(Time(60_000_000), at(600));
        assert_eq!(statistics.averages()["a"].totals.transactions, 10);
        let all = statistics.renew(Time(120_000_000), at(1_800));
        assert_eq!(statistics.averages()["a"].totals.transactions, 20);
        assert_eq!(statistics.averages()["b"].totals.transactions, 0);
        assert_eq!(all.totals.transactions, 20);
    }
}
