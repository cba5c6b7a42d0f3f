//! What the control thread and the workers share: the snapshot of the configuration, the pools, the ledger, and the messages
//! between them. Everything here is either immutable, a guard, or asked only on slow paths; what a worker touches for
//! every transaction is its own (see `Cell` for the one exception).

mod catalogue;
mod messages;

pub use catalogue::{Catalogue, Errand};
pub use messages::*;

use crate::control::dial::Network;
use crate::worker::Mailbox;
use arc_swap::{ArcSwap, ArcSwapOption};
use pooling::editions::Editions;
use pooling::ledger::{Limit, PoolId, Wish};
use pooling::parameters::Interner;
use pooling::{CancelKeys, Ledger, Parameters, Time};
use settings::{Config, Database, PoolSettings};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// The one value that every thread holds.
pub struct Shared {
    pub clock: Clock,
    pub config: ArcSwap<Config>,
    pub pools: RwLock<Pools>,
    ledger: Mutex<Ledger>,
    pub interner: Interner,
    pub cancel_keys: CancelKeys,
    /// Names statements on servers; random for each process.
    pub statement_key: [u8; 16],
    pub clients: Arc<ClientCounter>,
    pub control: mpsc::UnboundedSender<ToControl>,
    /// What dialling remembers of names and servers.
    pub network: Network,
    /// Set once, when the workers have been started.
    pub workers: OnceLock<Vec<Mailbox>>,
    /// Woken whenever a server connection or a client is gone: PAUSE, WAIT_CLOSE and SHUTDOWN wait for it.
    pub departures: Notify,
    /// Wishes noted in the ledger right now that another pool could meet: lets a worker see without a lock that somebody elsewhere is short.
    pub wishes: AtomicU32,
}

/// The process's clock. `now` is cheap, but not free: workers ask once for each batch.
#[derive(Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
        }
    }

    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_micros() as u64)
    }
}

impl Shared {
    pub fn new(
        config: Config,
        keys: CancelKeys,
        statement_key: [u8; 16],
    ) -> (Arc<Shared>, mpsc::UnboundedReceiver<ToControl>) {
        let (control, inbox) = mpsc::unbounded_channel();
        let shared = Shared {
            clock: Clock::start(),
            config: ArcSwap::from_pointee(config),
            pools: RwLock::default(),
            ledger: Mutex::default(),
            interner: Interner::default(),
            cancel_keys: keys,
            statement_key,
            clients: Arc::default(),
            control,
            network: Network::default(),
            workers: OnceLock::new(),
            departures: Notify::new(),
            wishes: AtomicU32::new(0),
        };
        (Arc::new(shared), inbox)
    }

    pub fn workers(&self) -> &[Mailbox] {
        self.workers.get().map_or(&[], |workers| workers)
    }

    /// Sends to one worker; messages to a worker that has ended are dropped.
    pub fn tell(&self, worker: usize, message: ToWorker) {
        if let Some(mailbox) = self.workers().get(worker) {
            mailbox.send(message);
        }
    }

    /// Gives a client to its worker.
    ///
    /// # Errors
    /// Its socket cannot be watched; the client is dropped.
    pub fn hand_over(&self, worker: usize, client: NewClient) -> std::io::Result<()> {
        match self.workers().get(worker) {
            Some(mailbox) => mailbox.send_client(Box::new(client)),
            None => Ok(()),
        }
    }

    pub fn tell_all(&self, mut message: impl FnMut() -> ToWorker) {
        for mailbox in self.workers() {
            mailbox.send(message());
        }
    }

    /// Fails only when the control thread is gone, that is when the process ends.
    pub fn tell_control(&self, message: ToControl) {
        let _ = self.control.send(message);
    }

    /// The ledger, locked. Only for reading counts and changing limits: places are taken and given back through `Slot`.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more server connection, or the limit that stands in the way (the wish is then noted and the worker
    /// hears `Granted` when it can be met).
    pub fn request_slot(self: &Arc<Self>, wish: Wish) -> Result<Slot, Limit> {
        let mut ledger = self.ledger();
        let answer = ledger.request(wish, self.clock.now());
        self.tell_wishes(&ledger);
        answer.map(|()| Slot {
            shared: Arc::clone(self),
            pool: wish.pool,
        })
    }

    /// A place for a connection that nobody waits for (min_pool_size, auth_query, the first greeting).
    pub fn try_slot(self: &Arc<Self>, pool: PoolId) -> Result<Slot, Limit> {
        self.ledger().try_open(pool).map(|()| Slot {
            shared: Arc::clone(self),
            pool,
        })
    }

    pub fn withdraw_wish(&self, pool: PoolId, worker: usize) {
        let mut ledger = self.ledger();
        ledger.withdraw(pool, worker);
        self.tell_wishes(&ledger);
    }

    fn tell_wishes(&self, ledger: &Ledger) {
        self.wishes.store(ledger.shared_wishes(), Ordering::Relaxed);
    }

    /// Meets wishes that new limits have made possible.
    pub fn grant_wishes(self: &Arc<Self>) {
        while let Some(wish) = {
            let now = self.clock.now();
            let mut ledger = self.ledger();
            let granted = ledger.grant(now);
            self.tell_wishes(&ledger);
            granted
        } {
            self.hand_out(wish);
        }
    }

    fn hand_out(self: &Arc<Self>, wish: Wish) {
        let slot = Slot {
            shared: Arc::clone(self),
            pool: wish.pool,
        };
        match wish.worker {
            CONTROL => self.tell_control(ToControl::Granted(slot)),
            worker => self.tell(worker, ToWorker::Granted(slot)),
        }
    }

    /// A limit that pools share is reached: one of the others gives up an idle server connection, if one has any.
    pub fn ask_rivals(&self, id: PoolId, limit: Limit) {
        let rivals: Vec<PoolId> = self.ledger().rivals(id, limit).collect();
        let pools = self.pools.read().unwrap_or_else(PoisonError::into_inner);
        let idle = |cell: &Cell| cell.idle.load(Ordering::SeqCst) > 0;
        let found = rivals.into_iter().find_map(|rival| {
            let pool = pools.by_id(rival)?;
            Some((rival, pool.cells.iter().position(idle)?))
        });
        if let Some((pool, worker)) = found {
            let reason = limit.setting();
            self.tell(worker, ToWorker::Evict { pool, reason });
        }
    }
}

/// Stands for the control thread where the ledger names a worker: a log-in waits for its pool's first server connection.
pub const CONTROL: usize = usize::MAX;

/// A server connection's place in the ledger, taken before it is dialled. Dropping it gives the place back, and to
/// the oldest wish that it helps.
pub struct Slot {
    shared: Arc<Shared>,
    pool: PoolId,
}

impl Slot {
    pub fn pool(&self) -> PoolId {
        self.pool
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let granted = {
            let mut ledger = self.shared.ledger();
            let granted = ledger.release(self.pool, self.shared.clock.now());
            self.shared.tell_wishes(&ledger);
            granted
        };
        if let Some(wish) = granted {
            self.shared.hand_out(wish);
            // A place may help two: one that its database held up, and one that its user did.
            self.shared.grant_wishes();
        }
        self.shared.departures.notify_waiters();
    }
}

/// All pools of the process, by database and user as the client named them.
#[derive(Default)]
pub struct Pools {
    /// By database, then user.
    by_name: HashMap<Box<str>, HashMap<Box<str>, Arc<Pool>>>,
    by_id: Vec<Option<Arc<Pool>>>,
    databases: HashMap<Box<str>, Arc<DatabaseState>>,
    user_clients: HashMap<Box<str>, Arc<ClientCounter>>,
    /// PAUSE without a database: holds for those too that come into use later.
    pub paused: bool,
}

impl Pools {
    pub fn get(&self, database: &str, user: &str) -> Option<&Arc<Pool>> {
        self.by_name.get(database)?.get(user)
    }

    pub fn by_id(&self, id: PoolId) -> Option<&Arc<Pool>> {
        self.by_id.get(id.0 as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.by_id.iter().flatten()
    }

    pub fn databases(&self) -> impl Iterator<Item = (&str, &Arc<DatabaseState>)> {
        self.databases.iter().map(|(name, state)| (&**name, state))
    }

    /// Every user that has had a client, and how many there are.
    pub fn users(&self) -> impl Iterator<Item = (&str, &Arc<ClientCounter>)> {
        self.user_clients
            .iter()
            .map(|(name, clients)| (&**name, clients))
    }

    /// The state of a database that clients may name, made at its first use.
    pub fn database_state(&mut self, name: &str) -> Arc<DatabaseState> {
        let paused = self.paused;
        let made = || {
            Arc::new(DatabaseState {
                paused: AtomicBool::new(paused),
                ..DatabaseState::default()
            })
        };
        Arc::clone(self.databases.entry(name.into()).or_insert_with(made))
    }

    pub fn user_clients(&mut self, name: &str) -> Arc<ClientCounter> {
        Arc::clone(self.user_clients.entry(name.into()).or_default())
    }

    /// The pool of a database and a user, made at its first use.
    pub fn open(&mut self, shared: &Shared, database: &Arc<Database>, user: &str) -> Arc<Pool> {
        if let Some(pool) = self.get(&database.name, user) {
            return Arc::clone(pool);
        }
        let config = shared.config.load();
        let settings = config.pool_settings(database, user);
        let server_user = database.forced_user.as_deref().unwrap_or(user);
        let id = shared
            .ledger()
            .add_pool(&database.name, server_user, limits(&settings));
        let workers = shared.workers().len().max(1);
        let pool = Arc::new(Pool {
            id,
            database_name: database.name.as_str().into(),
            user: user.into(),
            server_user: server_user.into(),
            database: ArcSwap::new(Arc::clone(database)),
            settings: ArcSwap::from_pointee(settings),
            state: self.database_state(&database.name),
            clients: ClientCounter::default(),
            pinned: ClientCounter::default(),
            reads_sequences: AtomicBool::new(false),
            user_clients: self.user_clients(user),
            all_clients: Arc::clone(&shared.clients),
            cells: (0..workers).map(|_| Cell::default()).collect(),
            generation: AtomicU32::new(0),
            statements_changed: AtomicU32::new(0),
            editions: Arc::default(),
            welcome: ArcSwapOption::empty(),
            last_error: ArcSwapOption::empty(),
            unused_since: AtomicU64::new(IN_USE),
            pass_through: ArcSwapOption::empty(),
            dialled: Notify::new(),
        });
        let of_database = self
            .by_name
            .entry(database.name.as_str().into())
            .or_default();
        of_database.insert(user.into(), Arc::clone(&pool));
        let number = id.0 as usize;
        if self.by_id.len() <= number {
            self.by_id.resize_with(number + 1, || None);
        }
        self.by_id[number] = Some(Arc::clone(&pool));
        pool
    }

    /// Forgets a pool that nobody else has; false if somebody does. Whoever finds it does so under the lock that the caller holds.
    pub fn remove(&mut self, shared: &Shared, pool: Arc<Pool>, now: Time) -> bool {
        const HERE: usize = 3; // by name, by number, and the caller
        if Arc::strong_count(&pool) > HERE || !shared.ledger().remove_pool(pool.id, now) {
            return false;
        }
        self.by_id[pool.id.0 as usize] = None;
        if let Some(of_database) = self.by_name.get_mut(&pool.database_name) {
            of_database.remove(&pool.user);
        }
        self.by_name.retain(|_, pools| !pools.is_empty());
        drop(Arc::try_unwrap(pool));
        self.databases
            .retain(|_, state| Arc::strong_count(state) > 1 || state.has_been_changed());
        self.user_clients
            .retain(|_, clients| Arc::strong_count(clients) > 1);
        true
    }
}

/// The ledger's view of a pool's settings.
pub fn limits(settings: &PoolSettings) -> pooling::ledger::Limits {
    pooling::ledger::Limits {
        pool: settings.pool_size,
        reserve: settings.reserve_pool_size,
        reserve_after: settings.reserve_pool_timeout.unwrap_or_default(),
        database: settings.max_db_connections,
        user: settings.max_user_connections,
    }
}

/// What all threads know of one pool: server connections to one database as one user.
pub struct Pool {
    pub id: PoolId,
    /// The database as clients name it.
    pub database_name: Box<str>,
    /// The user as clients log in.
    pub user: Box<str>,
    /// The user that server connections log in as.
    pub server_user: Box<str>,
    pub database: ArcSwap<Database>,
    pub settings: ArcSwap<PoolSettings>,
    pub state: Arc<DatabaseState>,
    pub clients: ClientCounter,
    /// Clients that keep their server connections between transactions.
    pub pinned: ClientCounter,
    /// A client has asked for sequence values (currval, lastval).
    pub reads_sequences: AtomicBool,
    pub user_clients: Arc<ClientCounter>,
    pub all_clients: Arc<ClientCounter>,
    /// One for each worker.
    pub cells: Box<[Cell]>,
    /// Counted up by RECONNECT: server connections of an older generation are closed when they come back.
    pub generation: AtomicU32,
    /// Counted up when PostgreSQL says that something has changed under a prepared statement, and not under which.
    pub statements_changed: AtomicU32,
    /// Which statements have changed so.
    pub editions: Arc<Editions>,
    /// What the latest server connection reported at log-in; clients are greeted with it.
    pub welcome: ArcSwapOption<Parameters>,
    /// Why the latest dial failed; empty again after a success.
    pub last_error: ArcSwapOption<DialError>,
    /// Since when it has had neither a client nor a server connection, in microseconds of `Time`, or `IN_USE`.
    unused_since: AtomicU64,
    /// SCRAM keys learnt from a client's proof, for logging in to PostgreSQL as the same user.
    pub pass_through: ArcSwapOption<auth::Secret>,
    /// Notified after every attempt to open a server connection, when `welcome` or `last_error` have been set.
    pub dialled: Notify,
}

/// What one worker tells the others of its part of a pool. Each cell has a cache line of its own and one writer; others
/// read it only when they are short of a server connection or give one back.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    pub idle: AtomicU32,
    /// Since when the worker's oldest client waits, in microseconds of `Time`, plus one; 0 when nobody waits.
    pub oldest_waiter: AtomicU64,
    /// That client's worker held no connection of the pool when it began to wait: none will become free there.
    pub stranded: AtomicBool,
}

const IN_USE: u64 = u64::MAX;

impl Pool {
    /// How long it has had neither a client nor a server connection, as far as has been looked.
    pub fn unused_for(&self, shared: &Shared, now: Time) -> Option<Duration> {
        if self.clients.count() > 0 || shared.ledger().open_in_pool(self.id) > 0 {
            self.unused_since.store(IN_USE, Ordering::Relaxed);
            return None;
        }
        let since = self.unused_since.load(Ordering::Relaxed).min(now.0);
        self.unused_since.store(since, Ordering::Relaxed);
        Some(now.since(Time(since)))
    }

    pub fn is_paused(&self) -> bool {
        self.state.paused.load(Ordering::Relaxed)
    }
}

/// What an operator has said about a database, and how many clients it has.
#[derive(Default)]
pub struct DatabaseState {
    pub paused: AtomicBool,
    pub disabled: AtomicBool,
    pub clients: ClientCounter,
    /// Clients that have logged in since the start.
    pub logins: AtomicU64,
    /// The words by which statements that may change a session are known.
    pub catalogue: Catalogue,
}

impl DatabaseState {
    /// An operator has said something about it.
    fn has_been_changed(&self) -> bool {
        self.paused.load(Ordering::Relaxed) || self.disabled.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub struct ClientCounter(AtomicU32);

impl ClientCounter {
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more unless that would exceed the limit (0: none).
    pub fn try_add(&self, limit: u32) -> bool {
        let room = |count: u32| (limit == 0 || count < limit).then_some(count + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
            .is_ok()
    }

    pub fn subtract(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client's place under max_client_conn and the limits of its database and user; also its way to its pool.
pub struct ClientPermit {
    pool: Arc<Pool>,
    /// The counter of the user that the client logged in as; with a forced user that is not the pool's.
    user: Arc<ClientCounter>,
    /// That user, if it is not the pool's.
    user_name: Option<Box<str>>,
    shared: Arc<Shared>,
}

/// The most clients that there may be; 0: no limit.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    pub total: u32,
    pub database: u32,
    pub user: u32,
}

/// The limit that keeps a client out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientLimit {
    Total,
    Database,
    User,
}

impl ClientPermit {
    pub fn take(
        shared: &Arc<Shared>,
        pool: &Arc<Pool>,
        (user_name, user): (&str, Arc<ClientCounter>),
        limits: ClientLimits,
    ) -> Result<ClientPermit, ClientLimit> {
        if !pool.all_clients.try_add(limits.total) {
            return Err(ClientLimit::Total);
        }
        if !pool.state.clients.try_add(limits.database) {
            pool.all_clients.subtract();
            return Err(ClientLimit::Database);
        }
        if !user.try_add(limits.user) {
            pool.all_clients.subtract();
            pool.state.clients.subtract();
            return Err(ClientLimit::User);
        }
        pool.clients.try_add(0);
        Ok(ClientPermit {
            pool: Arc::clone(pool),
            user,
            user_name: (*pool.user != *user_name).then(|| user_name.into()),
            shared: Arc::clone(shared),
        })
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The user that the client logged in as.
    pub fn user(&self) -> &str {
        self.user_name.as_deref().unwrap_or(&self.pool.user)
    }
}

/// A place among the clients of a pool that keep their server connections between transactions.
pub struct PinPlace {
    pool: Arc<Pool>,
}

impl PinPlace {
    /// `max`: how many there may be; 0: no limit.
    pub fn take(pool: &Arc<Pool>, max: u32) -> Option<PinPlace> {
        pool.pinned.try_add(max).then(|| PinPlace {
            pool: Arc::clone(pool),
        })
    }
}

impl Drop for PinPlace {
    fn drop(&mut self) {
        self.pool.pinned.subtract();
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        self.pool.all_clients.subtract();
        self.pool.state.clients.subtract();
        self.user.subtract();
        self.pool.clients.subtract();
        self.shared.departures.notify_waiters();
    }
}
