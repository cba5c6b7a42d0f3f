//! A pooler's own counters, from its console: Weir's and PgBouncer's have the same columns.

use super::WatchError;
use super::reader::{APPLICATION, Reader, maybe_number, number, text};
use crate::advise::observations::{
    Arrival, Name, PoolSeen, PooledDatabase, Pooler, PoolerSeen, Who,
};
use crate::advise::source::Source;
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::SimpleQueryRow;

/// The console's own entries.
const CONSOLE: [&str; 2] = ["pgbouncer", "weir"];
/// Of more clients no list is asked for: the console answers on the thread that accepts them.
const CLIENTS_MAX: f64 = 2_000.0;
/// More connections than any pooler has: sums of what a console says stay numbers.
const CONNECTIONS_MAX: f64 = 1e6;
/// Of more kinds of clients, those that come first are known.
const KINDS_MAX: usize = 1_000;
/// In the order of SHOW POOLS: server connections that are open, whatever they do.
const SERVERS: [&str; 7] = [
    "sv_active",
    "sv_active_cancel",
    "sv_being_canceled",
    "sv_idle",
    "sv_used",
    "sv_tested",
    "sv_login",
];

/// A console that answers, and what it has told so far.
pub struct Console {
    reader: Reader,
    /// The adviser's own pool.
    own: Name,
    seen: PoolerSeen,
    looks: u64,
    /// Clients in the first look, and in the latest.
    clients: (f64, f64),
    before: HashMap<String, PooledDatabase>,
    /// Clients of the latest look, and whether they came during the watch.
    known: HashMap<String, (Who, bool)>,
    arrivals: BTreeMap<Who, Arrival>,
}

/// What there is in front of the server.
pub enum Found {
    Nothing,
    /// With its refusal.
    Closed(String),
    Open(Box<Console>),
}

/// Looks for a console behind the same address.
pub async fn find(source: &Source) -> Found {
    let reader = match Reader::console(source).await {
        Ok(reader) => reader,
        // Weir's and PgBouncer's words to those who are neither in admin_users nor in stats_users.
        Err(refusal) if refusal.contains("not allowed") => return Found::Closed(refusal),
        Err(_) => return Found::Nothing,
    };
    // A PostgreSQL may have a database of that name; it knows no parameter "version".
    let Ok(version) = reader.ask("SHOW VERSION").await else {
        return Found::Nothing;
    };
    let version = version.first().map_or("", |row| text(row, "version"));
    Found::Open(Box::new(Console {
        seen: PoolerSeen {
            version: version.into(),
            ..PoolerSeen::default()
        },
        reader,
        own: Name {
            database: source.database.clone(),
            user: source.user.clone(),
        },
        clients: (0.0, 0.0),
        looks: 0,
        before: HashMap::new(),
        known: HashMap::new(),
        arrivals: BTreeMap::new(),
    }))
}

impl Found {
    pub async fn begin(&mut self) -> Result<(), WatchError> {
        match self {
            Found::Open(console) => console.begin().await,
            _ => Ok(()),
        }
    }

    pub async fn look(&mut self) -> Result<(), WatchError> {
        match self {
            Found::Open(console) => console.look().await,
            _ => Ok(()),
        }
    }

    /// What was seen, also if the console does not answer any more.
    pub async fn conclude(self) -> Pooler {
        match self {
            Found::Nothing => Pooler::None,
            Found::Closed(refusal) => Pooler::Closed(refusal),
            Found::Open(console) => Pooler::Open(Box::new(console.conclude().await)),
        }
    }
}

impl Console {
    async fn begin(&mut self) -> Result<(), WatchError> {
        for row in self.reader.ask("SHOW CONFIG").await? {
            let setting = (text(&row, "key").to_owned(), text(&row, "value").to_owned());
            self.seen.settings.extend([setting]);
        }
        self.before = self.databases().await?.into_iter().collect();
        Ok(())
    }

    async fn look(&mut self) -> Result<(), WatchError> {
        let pools = self.reader.ask("SHOW POOLS").await?;
        let pools: Vec<&SimpleQueryRow> = pools.iter().filter(|row| !is_console(row)).collect();
        for row in &pools {
            let name = Name {
                database: text(row, "database").into(),
                user: text(row, "user").into(),
            };
            let own = u32::from(name == self.own);
            take_pool(self.seen.pools.entry(name).or_default(), row, own);
        }
        let clients: f64 = pools
            .iter()
            .map(|row| number(row, "cl_active") + number(row, "cl_waiting"))
            .sum();
        if self.looks == 0 {
            self.clients.0 = clients;
        }
        self.clients.1 = clients;
        if clients <= CLIENTS_MAX {
            self.follow_clients().await?;
        }
        self.looks += 1;
        Ok(())
    }

    /// Who has come and who has left since the look before.
    async fn follow_clients(&mut self) -> Result<(), WatchError> {
        let clients = self.reader.ask("SHOW CLIENTS").await?;
        let mut before = std::mem::take(&mut self.known);
        for row in clients.iter().filter(|row| !is_console(row)) {
            if text(row, "application_name") == APPLICATION {
                continue;
            }
            // A place in memory is used again, but not with the same port and time.
            let identity = ["ptr", "port", "connect_time"].map(|column| text(row, column));
            let identity = identity.join(" ");
            let known = before.remove(&identity);
            let is_new = known.is_none() && self.looks > 0;
            let (who, came) = known.unwrap_or_else(|| (client(row), is_new));
            if is_new {
                self.arrival(&who, |arrival| arrival.came += 1);
            }
            self.known.insert(identity, (who, came));
        }
        for (who, _) in before.into_values().filter(|(_, came)| *came) {
            self.arrival(&who, |arrival| arrival.left += 1);
        }
        Ok(())
    }

    fn arrival(&mut self, who: &Who, count: impl FnOnce(&mut Arrival)) {
        if self.arrivals.len() < KINDS_MAX || self.arrivals.contains_key(who) {
            count(self.arrivals.entry(who.clone()).or_insert_with(|| Arrival {
                who: who.clone(),
                ..Arrival::default()
            }));
        }
    }

    /// The lines of `[databases]` that are in use, with their counters so far.
    async fn databases(&self) -> Result<BTreeMap<String, PooledDatabase>, WatchError> {
        let rows = self.reader.ask("SHOW DATABASES").await?;
        let rows = rows
            .iter()
            .filter(|row| !CONSOLE.contains(&text(row, "name")));
        let mut databases: BTreeMap<String, PooledDatabase> = rows
            .map(|row| {
                let database = PooledDatabase {
                    database: text(row, "database").into(),
                    pool_size: number(row, "pool_size") as u32,
                    ..PooledDatabase::default()
                };
                (text(row, "name").to_owned(), database)
            })
            .collect();
        for row in self.reader.ask("SHOW STATS").await? {
            if let Some(database) = databases.get_mut(text(&row, "database")) {
                let seconds = |column| number(&row, column) / 1e6;
                database.transactions = number(&row, "total_xact_count");
                database.transaction_s = seconds("total_xact_time");
                database.wait_s = seconds("total_wait_time");
                database.log_ins = maybe_number(&row, "total_client_login_count");
            }
        }
        Ok(databases)
    }

    async fn conclude(mut self) -> PoolerSeen {
        if let Ok(after) = self.databases().await {
            let before = |name: &str| self.before.get(name).cloned().unwrap_or_default();
            let change = |(name, after): (&String, &PooledDatabase)| {
                (name.clone(), between(&before(name), after))
            };
            self.seen.databases = after.iter().map(change).collect();
        }
        for pool in self.seen.pools.values_mut() {
            let all = [
                &mut pool.clients,
                &mut pool.waiting,
                &mut pool.active,
                &mut pool.wanted,
                &mut pool.servers,
            ];
            all.into_iter().for_each(|counts| counts.settle(self.looks));
        }
        self.seen.growth = self.clients.1 - self.clients.0;
        self.seen.arrivals = self.arrivals.into_values().collect();
        self.seen
    }
}

fn client(row: &SimpleQueryRow) -> Who {
    Who {
        application: text(row, "application_name").into(),
        user: text(row, "user").into(),
        database: text(row, "database").into(),
        client: text(row, "addr").into(),
    }
}

/// `own` clients are the adviser's; between two questions they only look on.
fn take_pool(pool: &mut PoolSeen, row: &SimpleQueryRow, own: u32) {
    let count = |column| number(row, column).clamp(0.0, CONNECTIONS_MAX) as u32;
    let (active, waiting) = (count("sv_active"), count("cl_waiting"));
    let clients = count("cl_active") + waiting;
    pool.clients.see(clients.saturating_sub(own));
    pool.waiting.see(waiting);
    pool.active.see(active);
    pool.wanted.see(active + waiting);
    pool.servers.see(SERVERS.into_iter().map(count).sum());
    let waited = number(row, "maxwait") + number(row, "maxwait_us") / 1e6;
    pool.longest_wait_s = pool.longest_wait_s.max(waited);
    pool.mode = text(row, "pool_mode").into();
}

fn between(before: &PooledDatabase, after: &PooledDatabase) -> PooledDatabase {
    let grown = |of: fn(&PooledDatabase) -> f64| (of(after) - of(before)).max(0.0);
    PooledDatabase {
        transactions: grown(|database| database.transactions),
        transaction_s: grown(|database| database.transaction_s),
        wait_s: grown(|database| database.wait_s),
        log_ins: after
            .log_ins
            .map(|count| (count - before.log_ins.unwrap_or_default()).max(0.0)),
        ..after.clone()
    }
}

fn is_console(row: &SimpleQueryRow) -> bool {
    CONSOLE.contains(&text(row, "database"))
}
