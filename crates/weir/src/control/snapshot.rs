//! What the process holds at one moment, gathered from all workers for SHOW, WAIT_CLOSE and the statistics.

use super::Control;
use super::console::ConsoleReport;
use crate::report::{ClientReport, PoolReport, ServerReport, Totals, WorkerReport};
use crate::shared::{Detail, Pool, Shared, ToWorker};
use pooling::Time;
use pooling::ledger::PoolId;
use settings::Config;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The state of the process, as close to one moment as independent workers allow.
pub struct Snapshot {
    pub now: Time,
    pub wall: jiff::Zoned,
    pub config: Arc<Config>,
    pub pools: Vec<Arc<Pool>>,
    pub reports: Vec<WorkerReport>,
    pub consoles: Vec<ConsoleReport>,
    /// Commands that consoles have run since the start.
    pub console_commands: u64,
    pub ledger: LedgerCounts,
    pub paused: Paused,
    /// The databases that DISABLE named.
    pub disabled: BTreeSet<Box<str>>,
    /// The users of `auth_file`.
    pub users: BTreeSet<String>,
    /// Clients by the user that they logged in as.
    pub client_counts: BTreeMap<Box<str>, u32>,
    pub clients_total: u32,
    /// Peers that have connected and not yet logged in.
    pub logging_in: u32,
    /// Names of servers and what they were resolved to.
    pub hosts: Vec<(String, Arc<[IpAddr]>)>,
}

/// Places taken for server connections, those that are being dialled included.
#[derive(Default)]
pub struct LedgerCounts {
    pub pools: HashMap<PoolId, u32>,
    pub databases: HashMap<Box<str>, u32>,
    pub users: HashMap<Box<str>, u32>,
}

/// What PAUSE and KILL have said.
#[derive(Default)]
pub struct Paused {
    pub all: bool,
    pub databases: BTreeSet<Box<str>>,
}

impl Snapshot {
    pub async fn take(control: &Control, detail: Detail) -> Snapshot {
        let shared = &control.shared;
        let reports = ask_workers(shared, |answer| ToWorker::Report { detail, answer }).await;
        let known = shared.pools.read().unwrap_or_else(PoisonError::into_inner);
        let pools: Vec<Arc<Pool>> = known.iter().map(Arc::clone).collect();
        let disabled = known
            .databases()
            .filter(|(_, state)| state.disabled.load(Ordering::Relaxed));
        Snapshot {
            now: shared.clock.now(),
            wall: jiff::Zoned::now(),
            config: shared.config.load_full(),
            ledger: LedgerCounts::read(shared, &pools),
            disabled: disabled.map(|(name, _)| name.into()).collect(),
            client_counts: known
                .users()
                .map(|(name, clients)| (name.into(), clients.count()))
                .collect(),
            clients_total: shared.clients.count(),
            logging_in: control.reception.arrivals(),
            hosts: shared.network.resolver.known(),
            pools,
            reports,
            consoles: control.consoles.reports(),
            console_commands: control.consoles.commands(),
            paused: Paused {
                all: known.paused,
                databases: control.paused().iter().cloned().collect(),
            },
            users: control
                .credentials
                .users
                .load()
                .names()
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Every worker's part of a pool.
    pub fn parts(&self, pool: PoolId) -> impl Iterator<Item = &PoolReport> {
        self.reports
            .iter()
            .flat_map(|report| &report.pools)
            .filter(move |part| part.pool == pool)
    }

    /// A pool's figure, summed over the workers.
    pub fn sum(&self, pool: PoolId, figure: impl Fn(&PoolReport) -> u32) -> u32 {
        self.parts(pool).map(figure).sum()
    }

    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools
            .iter()
            .find(|pool| pool.id == id)
            .map(|pool| &**pool)
    }

    pub fn clients(&self) -> impl Iterator<Item = &ClientReport> {
        self.reports.iter().flat_map(|report| &report.clients)
    }

    pub fn servers(&self) -> impl Iterator<Item = &ServerReport> {
        self.reports.iter().flat_map(|report| &report.servers)
    }

    /// Each database's counters; only of databases that have a pool.
    pub fn totals(&self) -> BTreeMap<Box<str>, Totals> {
        let mut totals: BTreeMap<Box<str>, Totals> = BTreeMap::new();
        for pool in &self.pools {
            let total = totals.entry(pool.database_name.clone()).or_default();
            self.parts(pool.id).for_each(|part| *total += part.totals);
        }
        totals
    }

    /// The clock on the wall when the process's clock said `time`.
    pub fn wall_clock(&self, time: Time) -> String {
        let ago = jiff::SignedDuration::try_from(self.now.since(time)).unwrap_or_default();
        self.wall
            .saturating_sub(ago)
            .strftime("%Y-%m-%d %H:%M:%S %Z")
            .to_string()
    }
}

impl LedgerCounts {
    fn read(shared: &Shared, pools: &[Arc<Pool>]) -> LedgerCounts {
        let ledger = shared.ledger();
        let mut counts = LedgerCounts::default();
        for pool in pools {
            counts.pools.insert(pool.id, ledger.open_in_pool(pool.id));
            counts.databases.insert(
                pool.database_name.clone(),
                ledger.open_for_database(&pool.database_name),
            );
            counts.users.insert(
                pool.server_user.clone(),
                ledger.open_for_user(&pool.server_user),
            );
        }
        counts
    }
}

/// A worker answers between two batches, in well under a millisecond; one that has ended, or hangs, must not hang the console too.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Asks all workers at once and collects their answers. A worker that does not answer is left out.
pub async fn ask_workers<T>(
    shared: &Shared,
    question: impl Fn(oneshot::Sender<T>) -> ToWorker,
) -> Vec<T> {
    let mut receivers = Vec::new();
    shared.tell_all(|| {
        let (answer, receiver) = oneshot::channel();
        receivers.push(receiver);
        question(answer)
    });
    let deadline = tokio::time::Instant::now() + ANSWER_TIME_MAX;
    let mut answers = Vec::with_capacity(receivers.len());
    for receiver in receivers {
        match tokio::time::timeout_at(deadline, receiver).await {
            Ok(answer) => answers.extend(answer.ok()),
            Err(_) => tracing::error!("a worker does not answer"),
        }
    }
    answers
}
