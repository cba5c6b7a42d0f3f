//! Watches a server: from a connection string to [`Observations`]. Everything here asks and counts, nothing concludes.

mod activity;
mod console;
mod counters;
mod facts;
mod memory;
pub(crate) mod reader;
mod tls;

use super::observations::{Ended, Hardware, Observations, Watch};
use super::source::Source;
use crate::interrupt::Interrupt;
use activity::{Activity, Session};
use console::Found;
use counters::Counters;
use facts::Facts;
use rand::Rng;
use reader::{Reader, number};
use std::time::{Duration, Instant};

/// Between two looks, unless the watch is very long or a look is costly.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// More looks tell nothing more.
const LOOKS_MAX: u32 = 20_000;
/// Each distance is a random part of that.
const UNEVEN: std::ops::Range<f64> = 0.5..1.5;
/// Looking may take so much of the time: one part in that many.
const COST: u32 = 10;
/// How long the server may take to publish what its sessions have counted (they do so once a second at most).
const COUNTERS_LAG: Duration = Duration::from_millis(1_200);

/// Why there is nothing to conclude from.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("cannot connect to {address}: {reason}")]
    Connect { address: String, reason: String },
    /// The connection is good for other questions.
    #[error("the server refuses a question: {0}")]
    Refused(String),
    #[error("the connection to the server was lost: {0}")]
    Lost(String),
}

/// Whoever shows how the watch goes.
pub trait Onlooker: Send {
    /// The watch begins, of what, and for how long.
    fn begins(&mut self, what: &str, length: Duration);
    /// One more look: how many sessions there are, and how many of them are active.
    fn looked(&mut self, watched: Duration, sessions: u32, active: u32);
    fn ends(&mut self);
}

/// Watches for `length`, or until Ctrl-C.
///
/// # Errors
/// [`WatchError`] if it could not look even once.
pub async fn observe(
    source: &Source,
    length: Duration,
    interrupt: &Interrupt,
    onlooker: &mut dyn Onlooker,
) -> Result<Observations, WatchError> {
    let reader = Reader::server(source).await?;
    let facts = facts::ask(&reader, source).await?;
    let hardware = facts::hardware(&reader, facts.view).await?;
    onlooker.begins(&described(&facts, hardware, source), length);
    let mut watching = Watching {
        activity: Activity::default(),
        before: counters::read(&reader).await?,
        pooler: console::find(source).await,
        facts,
        hardware,
        reader,
    };
    watching.pooler.begin().await?;
    let began = Instant::now();
    let ended = watching.watch(length, interrupt, onlooker).await;
    onlooker.ends();
    watching.conclude(ended?, began.elapsed()).await
}

fn described(facts: &Facts, hardware: Hardware, source: &Source) -> String {
    let server = &facts.server;
    let machine = match (hardware.cores, hardware.memory_bytes) {
        (Some(cores), Some(memory)) => {
            format!(", {cores} cores, {}", crate::report::bytes(memory))
        }
        _ => String::new(),
    };
    format!(
        "PostgreSQL {} at {}, database {}, as {}{machine}",
        server.version, server.address, source.database, server.role
    )
}

struct Watching {
    reader: Reader,
    facts: Facts,
    hardware: Hardware,
    before: Counters,
    activity: Activity,
    pooler: Found,
}

impl Watching {
    async fn watch(
        &mut self,
        length: Duration,
        interrupt: &Interrupt,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Ended, WatchError> {
        let began = Instant::now();
        let mut pace = Pace::at_least(LOOK_EVERY.max(length / LOOKS_MAX));
        loop {
            let waited = tokio::select! {
                () = tokio::time::sleep_until(pace.next) => Ok(()),
                interrupted = interrupt.requested() => Err(interrupted),
            };
            if waited.is_err() && self.activity.looks > 0 {
                return Ok(Ended::Interrupted);
            }
            let asked = Instant::now();
            match self.look().await {
                Err(WatchError::Lost(reason)) if self.activity.looks > 0 => {
                    return Ok(Ended::Lost(reason));
                }
                Err(WatchError::Refused(_)) if self.activity.looks > 0 => {}
                looked => looked?,
            }
            pace.took(asked.elapsed());
            let watched = began.elapsed();
            let sessions = self.activity.latest.len() as u32;
            onlooker.looked(watched, sessions, self.activity.active_now());
            if watched >= length {
                return Ok(Ended::InTime);
            }
        }
    }

    async fn look(&mut self) -> Result<(), WatchError> {
        // The console first: afterwards a pooler may still be busy with our own question.
        self.pooler.look().await?;
        let rows = self.reader.ask(activity::QUESTION).await?;
        let now = match rows.first() {
            Some(row) => number(row, "now"),
            None => self.before.now(),
        };
        self.activity
            .take(rows.iter().map(Session::read).collect(), now);
        Ok(())
    }

    async fn conclude(mut self, ended: Ended, took: Duration) -> Result<Observations, WatchError> {
        let mut observations = Observations {
            server: self.facts.server,
            hardware: self.hardware,
            watch: Watch {
                seconds: took.as_secs_f64(),
                ..Watch::default()
            },
            ..Observations::default()
        };
        if !matches!(ended, Ended::Lost(_)) {
            observations.memory =
                memory::measure(&self.reader, self.facts.view, &self.activity.latest).await?;
            tokio::time::sleep(COUNTERS_LAG).await;
            let after = counters::read(&self.reader).await?;
            let change = self.before.until(&after, self.activity.looks as f64);
            observations.watch.seconds = change.seconds;
            observations.databases = change.databases;
            observations.transaction_ids = change.transaction_ids;
            observations.statements = change.statements;
        }
        observations.watch = Watch {
            looks: self.activity.looks,
            growth: self.activity.growth(),
            ended,
            ..observations.watch
        };
        observations.pooler = self.pooler.conclude().await;
        observations.groups = self.activity.settle();
        observations.load = self.activity.load;
        observations.pools = self.activity.pools;
        Ok(observations)
    }
}

/// When to look: at uneven distances, so that a load with a beat of its own is not always met in the same state, and at longer ones if looking
/// is costly.
struct Pace {
    least: Duration,
    /// Of the latest looks.
    cost: Option<Duration>,
    next: tokio::time::Instant,
}

impl Pace {
    /// The first look is at once.
    fn at_least(least: Duration) -> Self {
        Self {
            least,
            cost: None,
            next: tokio::time::Instant::now(),
        }
    }

    fn took(&mut self, cost: Duration) {
        // The first look fills caches.
        let cost = match self.cost {
            None => cost.min(self.least / COST),
            Some(before) => (before * 7 + cost) / 8,
        };
        self.cost = Some(cost);
        let mean = self.least.max(cost * COST);
        let distance = mean.mul_f64(rand::rng().random_range(UNEVEN));
        self.next = (self.next + distance).max(tokio::time::Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::observations::MemorySource;
    use crate::postgres::{Installation, Options};
    use crate::runtime::apart;
    use facts::View;
    use std::path::Path;

    #[test]
    fn what_this_machine_does_not_show_a_superuser_sees_through_the_server() {
        let installation = Installation::obtain(17).expect("a PostgreSQL");
        let server = installation.start(&Options::default()).expect("it starts");
        server
            .execute("CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
            .expect("a role");
        let source =
            |role| Source::parse(&server.connection_string(role, "postgres")).expect("valid");
        let seen = |role: &'static str, view| {
            let source = source(role);
            apart(async move {
                let reader = Reader::server(&source).await?;
                let other = Reader::server(&source).await?;
                let rows = other.ask(activity::QUESTION).await?;
                let sessions: Vec<Session> = rows.iter().map(Session::read).collect();
                let hardware = facts::hardware(&reader, view).await?;
                let memory = memory::measure(&reader, view, &sessions).await?;
                Ok::<_, WatchError>((hardware, memory))
            })
            .expect("it answers")
        };
        let (hardware, memory) = seen("postgres", View::ThroughServer);
        if Path::new("/proc/self/smaps_rollup").exists() {
            assert!(hardware.cores >= Some(1) && hardware.memory_bytes >= Some(1 << 20));
            let memory = memory.expect("the other session's");
            assert_eq!((memory.source, memory.measured), (MemorySource::Kernel, 1));
        }
        // Whoever may not read the machine's files gets PostgreSQL's account of the session itself.
        let (hardware, memory) = seen("monitor", View::Nowhere);
        assert_eq!(hardware, Hardware::default());
        let memory = memory.expect("pg_monitor may ask");
        assert_eq!(memory.source, MemorySource::MemoryContexts);
        assert!(memory.mean_bytes > 1e5, "{memory:?}");
    }
}
