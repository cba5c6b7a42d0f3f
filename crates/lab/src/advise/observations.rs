//! What was seen of a server: plain data, from which [`reasoning`](super::reasoning) concludes. Knows neither SQL nor advice.

use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Everything that one watch has brought.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Observations {
    pub server: Server,
    pub hardware: Hardware,
    pub watch: Watch,
    /// All sessions but the adviser's own.
    pub load: Load,
    /// The same by database and user, as the server knows them.
    pub pools: BTreeMap<Name, Load>,
    pub groups: Vec<Group>,
    pub databases: Vec<Database>,
    /// Transaction ids that the server gave out meanwhile: one for each transaction that writes, and for some of its savepoints.
    pub transaction_ids: f64,
    pub statements: Option<Statements>,
    pub memory: Option<SessionMemory>,
    pub pooler: Pooler,
}

/// The server, and how much of it this role may see.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Server {
    /// As in the connection string: "db.example:5432".
    pub address: String,
    /// Host and port as the parameters of an ini's database.
    pub host: String,
    pub port: u16,
    pub role: String,
    pub version: String,
    /// 170004 for 17.4.
    pub version_num: u32,
    pub sight: Sight,
    pub settings: BTreeMap<String, Setting>,
}

/// Whether the states of other roles' sessions are shown to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    Everything,
    #[default]
    OwnSessions,
}

/// A setting of the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Setting {
    pub text: String,
    /// In bytes or milliseconds where it has a unit of size or time.
    pub number: Option<f64>,
}

impl Server {
    pub fn number(&self, setting: &str) -> Option<f64> {
        self.settings.get(setting)?.number
    }

    pub fn text(&self, setting: &str) -> Option<&str> {
        Some(&self.settings.get(setting)?.text)
    }
}

/// The machine under the server; `None` where nobody told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Hardware {
    pub cores: Option<usize>,
    pub memory_bytes: Option<u64>,
}

/// How it was looked.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Watch {
    pub seconds: f64,
    pub looks: u64,
    /// Sessions at its end more than at its beginning.
    pub growth: f64,
    pub ended: Ended,
}

/// Why a watch was over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    #[default]
    InTime,
    /// Ctrl-C.
    Interrupted,
    /// The connection was lost, or the server did not answer any more.
    Lost(String),
}

/// Whose server connections: a database and a user, as in Weir's pools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name {
    pub database: String,
    pub user: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.database, self.user)
    }
}

/// As "database/user": a key in JSON is a text.
impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How many sessions were in which state at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Load {
    pub sessions: Counts,
    pub active: Counts,
    /// Active, and waiting for nothing but perhaps a processor.
    pub running: Counts,
    /// What a transaction pool would hold a server connection for: active, or idle in a transaction for less than [`Load::ABANDONED_S`].
    pub busy: Counts,
    /// Of the busy ones, those whose transaction has written.
    pub writing: Counts,
    pub idle: Counts,
    pub idle_in_transaction: Counts,
    /// Those whose state is not shown to this role.
    pub unseen: Counts,
}

impl Load {
    /// A transaction that waits for its client for longer is not work; a time-out should end it. In seconds.
    pub const ABANDONED_S: f64 = 5.0;

    /// Ends the count: a look that did not mention a number saw none.
    pub fn settle(&mut self, looks: u64) {
        let all = [
            &mut self.sessions,
            &mut self.active,
            &mut self.running,
            &mut self.busy,
            &mut self.writing,
            &mut self.idle,
            &mut self.idle_in_transaction,
            &mut self.unseen,
        ];
        all.into_iter().for_each(|counts| counts.settle(looks));
    }
}

/// How often each number was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Counts {
    looks: BTreeMap<u32, u64>,
}

impl Counts {
    pub fn see(&mut self, number: u32) {
        *self.looks.entry(number).or_default() += 1;
    }

    pub fn settle(&mut self, looks: u64) {
        let seen: u64 = self.looks.values().sum();
        if looks > seen {
            *self.looks.entry(0).or_default() += looks - seen;
        }
    }

    /// 0 if nothing was seen.
    pub fn mean(&self) -> f64 {
        let looks: u64 = self.looks.values().sum();
        let sum: f64 = self
            .looks
            .iter()
            .map(|(number, times)| f64::from(*number) * *times as f64)
            .sum();
        sum / looks.max(1) as f64
    }

    /// The smallest number that `share` of all looks did not exceed.
    pub fn percentile(&self, share: f64) -> u32 {
        let looks: u64 = self.looks.values().sum();
        let wanted = (looks as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (number, times) in &self.looks {
            seen += times;
            if seen >= wanted {
                return *number;
            }
        }
        0
    }

    pub fn max(&self) -> u32 {
        self.looks.keys().next_back().copied().unwrap_or(0)
    }

    /// The share of looks that saw at least `number`.
    pub fn share_from(&self, number: u32) -> f64 {
        let looks: u64 = self.looks.values().sum();
        let from: u64 = self.looks.range(number..).map(|(_, times)| times).sum();
        from as f64 / looks.max(1) as f64
    }
}

/// Who somebody is, as far as a session tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
pub struct Who {
    pub application: String,
    pub user: String,
    pub database: String,
    /// An address; empty for a Unix socket, or where it is not shown.
    pub client: String,
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let application = match self.application.as_str() {
            "" => "(no application_name)",
            named => named,
        };
        write!(f, "{application}, {}/{}", self.database, self.user)?;
        match self.client.as_str() {
            "" => Ok(()),
            client => write!(f, ", from {client}"),
        }
    }
}

/// Sessions of the same application, user, database and client address.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Group {
    pub who: Who,
    /// The most at the same time.
    pub sessions: u32,
    /// Idle on average.
    pub idle: f64,
    /// Seconds since the last statement of the one that has been idle for longest.
    pub idle_longest_s: f64,
    /// Idle in a transaction on average.
    pub idle_in_transaction: f64,
    pub idle_in_transaction_longest_s: f64,
    /// The oldest transaction, in seconds.
    pub transaction_longest_s: f64,
    /// The longest statement, in seconds.
    pub statement_longest_s: f64,
    /// How many were seen coming, and of those, how many were seen to be gone.
    pub came: u64,
    pub left: u64,
}

/// Sessions or clients that came during the watch and were seen.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Arrival {
    pub who: Who,
    pub came: u64,
    /// Of those, the ones that also left.
    pub left: u64,
}

/// What a database counted during the watch (manual, "pg_stat_database").
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Database {
    pub name: String,
    /// Without the adviser's own, and without those by which sessions begin.
    pub transactions: f64,
    pub rolled_back: f64,
    pub temporary_files: f64,
    pub temporary_bytes: f64,
    pub deadlocks: f64,
    /// Rows inserted, updated and deleted.
    pub rows_written: f64,
    /// Sessions that began; `None` before PostgreSQL 14.
    pub sessions: Option<f64>,
    /// Seconds that sessions were executing; `None` before PostgreSQL 14.
    pub active_s: Option<f64>,
    pub idle_in_transaction_s: Option<f64>,
}

/// What pg_stat_statements counted during the watch.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Statements {
    pub by_pool: BTreeMap<Name, StatementShare>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StatementShare {
    /// Of statements that read, by their first word.
    pub reads: f64,
    pub writes: f64,
    /// Seconds of execution, of all statements.
    pub execution_s: f64,
}

/// What sessions take of the memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionMemory {
    pub source: MemorySource,
    pub measured: usize,
    /// Bytes that one session alone takes, on average: private pages, and page tables.
    pub mean_bytes: f64,
    pub largest_bytes: f64,
    pub page_tables_mean_bytes: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemorySource {
    /// The kernel's account of each process.
    Kernel,
    /// PostgreSQL's own account of one fresh session: less than the process takes.
    MemoryContexts,
}

/// What stands between this process and the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooler {
    #[default]
    None,
    /// There is one, but its console is closed to this role; with its answer.
    Closed(String),
    Open(Box<PoolerSeen>),
}

/// What a pooler's console told.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PoolerSeen {
    /// "PgBouncer 1.26.0 (Weir 0.1.0)"
    pub version: String,
    pub pools: BTreeMap<Name, PoolSeen>,
    pub databases: BTreeMap<String, PooledDatabase>,
    pub settings: BTreeMap<String, String>,
    pub arrivals: Vec<Arrival>,
    /// Clients at the end of the watch more than at its beginning.
    pub growth: f64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PoolSeen {
    pub clients: Counts,
    pub waiting: Counts,
    /// Server connections in use.
    pub active: Counts,
    /// In use, and as many more as clients wait for.
    pub wanted: Counts,
    pub servers: Counts,
    /// The longest wait that was seen, in seconds.
    pub longest_wait_s: f64,
    pub mode: String,
}

/// A line of `[databases]`, and what its pools counted during the watch.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PooledDatabase {
    /// On the server.
    pub database: String,
    pub pool_size: u32,
    pub transactions: f64,
    /// Seconds, over all transactions.
    pub transaction_s: f64,
    pub wait_s: f64,
    /// Older versions of PgBouncer do not count them.
    pub log_ins: Option<f64>,
}

impl Watch {
    pub fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.max(0.0))
    }
}

impl Observations {
    /// Transactions per second over all databases.
    pub fn transactions_per_second(&self) -> f64 {
        let all: f64 = self
            .databases
            .iter()
            .map(|database| database.transactions)
            .sum();
        all / self.watch.seconds.max(f64::MIN_POSITIVE)
    }

    /// A counter's rate; `None` if no database has it.
    pub fn per_second(&self, counter: impl Fn(&Database) -> Option<f64>) -> Option<f64> {
        let told: Vec<f64> = self.databases.iter().filter_map(counter).collect();
        let sum: f64 = told.iter().sum();
        (!told.is_empty()).then(|| sum / self.watch.seconds.max(f64::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_does_not_mention_a_number_saw_none() {
        let mut counts = Counts::default();
        [2, 4, 2].into_iter().for_each(|number| counts.see(number));
        counts.settle(4);
        assert_eq!((counts.mean(), counts.max()), (2.0, 4));
        assert_eq!(
            [0.25, 0.5, 0.75, 0.95].map(|share| counts.percentile(share)),
            [0, 2, 2, 4]
        );
        assert_eq!(counts.share_from(2), 0.75);
        let nothing = Counts::default();
        assert_eq!((nothing.mean(), nothing.percentile(0.95)), (0.0, 0));
    }
}
