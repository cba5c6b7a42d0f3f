//! What the clients of an experiment do: scripts in pgbench's language, run by pgbench where it is installed, since its numbers are what
//! people trust, and else by the lab's own driver, which reads the part of that language that the scripts use.

mod builtin;
mod pgbench;
mod script;
mod sysbench;

pub use builtin::{Work, Worker};
pub use pgbench::Pgbench;
pub use script::{Script, ScriptError, Step, Variables};
pub use sysbench::Sysbench;

use crate::driver::{Clock, Endpoint, Failure};
use std::time::Duration;

/// Rows of `weir_lab.accounts`, which the scripts know.
pub const ACCOUNTS: u32 = 100_000;

/// Scripts that a client chooses among, by their weights.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: &'static str,
    pub scripts: Vec<Script>,
}

impl Workload {
    /// A transaction in which nothing happens: two round trips.
    pub fn empty() -> Self {
        Self::of("empty transaction", include_str!("workload/empty.sql"))
    }

    /// One row by its key: one round trip.
    pub fn read_only() -> Self {
        Self::of("read-only", include_str!("workload/read-only.sql"))
    }

    /// As TPC-B has it: seven round trips.
    pub fn read_write() -> Self {
        Self::of("read-write", include_str!("workload/read-write.sql"))
    }

    /// The five transactions of TPC-C in their proportions, simplified (specification, clause 2 and 5.2.3).
    pub fn order_entry() -> Self {
        let script = |name, weight, text| {
            Script::parse(name, weight, text).expect("a script of the lab's own")
        };
        Self {
            name: "order entry",
            scripts: vec![
                script("new-order", 45, include_str!("workload/new-order.sql")),
                script("payment", 43, include_str!("workload/payment.sql")),
                script("order-status", 4, include_str!("workload/order-status.sql")),
                script("delivery", 4, include_str!("workload/delivery.sql")),
                script("stock-level", 4, include_str!("workload/stock-level.sql")),
            ],
        }
    }

    fn of(name: &'static str, text: &str) -> Self {
        let script = Script::parse(name, 1, text).expect("a script of the lab's own");
        Self {
            name,
            scripts: vec![script],
        }
    }
}

/// A load to be run.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub endpoint: &'a Endpoint,
    pub workload: &'a Workload,
    pub clients: u64,
    pub length: Duration,
    pub detail: Detail,
}

/// What has to be known of each transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Throughput,
    /// pgbench writes a line per transaction then.
    Percentiles,
}

/// What a load did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Transactions per second, without the time it took to connect.
    pub tps: f64,
    pub transactions: u64,
    pub failed: u64,
    pub mean_ms: f64,
    /// NaN without [`Detail::Percentiles`].
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Until all clients were connected.
    pub connecting_ms: f64,
}

/// Why a load did not run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("pgbench: {0}")]
    Pgbench(String),
    #[error("sysbench: {0}")]
    Sysbench(String),
    #[error("{0}")]
    Client(#[from] Failure),
    #[error("cannot run the load: {0}")]
    Io(#[from] std::io::Error),
}

/// Who runs loads.
#[derive(Debug, Clone)]
pub enum Load {
    Pgbench(Pgbench),
    Builtin(Clock),
}

impl Load {
    /// pgbench if it is installed.
    pub fn choose(clock: Clock) -> Self {
        Pgbench::find().map_or(Load::Builtin(clock), Load::Pgbench)
    }

    pub fn name(&self) -> String {
        match self {
            Load::Pgbench(pgbench) => pgbench.version.clone(),
            Load::Builtin(_) => "the lab's own driver (pgbench is not installed)".into(),
        }
    }

    /// # Errors
    /// [`LoadError`] when clients cannot connect, or pgbench gives up.
    pub async fn run(&self, job: Job<'_>) -> Result<Outcome, LoadError> {
        match self {
            Load::Pgbench(pgbench) => pgbench.run(job).await,
            Load::Builtin(clock) => builtin::run(job, clock).await,
        }
    }
}
