//! The shared listeners: for each pool whose clients listen, one server connection that listens for all of them.
//!
//! Owns these connections, and which worker wants which channel; who wants it there is the worker's affair (`worker/channels`). Requests of one pool
//! are dealt with in order, by a task of its own: a worker hears `Listened` when LISTEN has committed, and all that comes later.
//! The connection has a place in the ledger like any other. If there is none, a server connection of a client that asks becomes the listener: it listens
//! already. If that cannot be either, or PostgreSQL cannot be reached, the answer is no; clients then keep their
//! own server connections. One that is lost is opened again while anybody wants something of it, and its workers are told of the gap.

mod connection;

use super::credentials::Credentials;
use crate::shared::{Brought, Cell, Lent, Pool, Shared, Slot, ToWorker};
use crate::worker::ServerKey;
use connection::{Connection, ListenError};
use pooling::backoff::{Backoff, Bounds};
use pooling::channels::{Name, Notification, write_listen, write_unlisten};
use pooling::ledger::PoolId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout, timeout_at};

/// How long a connection that nobody needs any more is kept.
const LINGER: Duration = Duration::from_secs(5);
/// How often it is looked whether the connection may stay.
const TICK: Duration = Duration::from_millis(200);
/// How long a place in the ledger is waited for.
const PLACE_WITHIN: Duration = Duration::from_secs(1);
/// A connection that has said nothing for so long is asked whether it is still there: networks forget silent ones.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Shows in pg_stat_activity what the connection is, and ends time limits that a role or a client may have.
const SETTINGS: &[u8] = b"SET application_name = 'weir listener'; \
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
    WHERE name IN ('idle_session_timeout', 'statement_timeout')";
/// The first wait after a failure; the longest is `server_login_retry`.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Bytes of notifications that may be on their way to the workers.
const UNDER_WAY_MAX: u32 = 4 * 1024 * 1024;

/// What workers ask for.
pub enum Request {
    Listen {
        worker: usize,
        server: ServerKey,
        ticket: u64,
        channels: Vec<Name>,
    },
    Unlisten {
        worker: usize,
        channels: Vec<Name>,
    },
}

pub struct SharedListeners {
    shared: Arc<Shared>,
    credentials: Arc<Credentials>,
    lines: Mutex<HashMap<PoolId, mpsc::UnboundedSender<Request>>>,
}

impl SharedListeners {
    pub fn new(shared: Arc<Shared>, credentials: Arc<Credentials>) -> SharedListeners {
        SharedListeners {
            shared,
            credentials,
            lines: Mutex::default(),
        }
    }

    /// Returns at once; to be called within the control thread's runtime.
    pub fn listen(&self, pool: Arc<Pool>, request: Request) {
        let mut lines = self.lines();
        let line = lines
            .entry(pool.id)
            .or_insert_with(|| self.open_line(&pool));
        // A line ends only when it is forgotten.
        let _ = line.send(request);
    }

    pub fn unlisten(&self, pool: PoolId, request: Request) {
        if let Some(line) = self.lines().get(&pool) {
            let _ = line.send(request);
        }
    }

    /// The pool is unused.
    pub fn forget(&self, pool: PoolId) {
        self.lines().remove(&pool);
    }

    fn open_line(&self, pool: &Arc<Pool>) -> mpsc::UnboundedSender<Request> {
        let (sender, requests) = mpsc::unbounded_channel();
        let line = Line {
            shared: Arc::clone(&self.shared),
            credentials: Arc::clone(&self.credentials),
            pool: Arc::clone(pool),
            marker: format!("weir_{:016x}", rand::random::<u64>()).into(),
            wanted: BTreeMap::new(),
            asked: Vec::new(),
            backoff: Backoff::default(),
            history: History::Whole,
            room: Arc::new(Semaphore::new(UNDER_WAY_MAX as usize)),
        };
        tokio::spawn(line.run(requests));
        sender
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<PoolId, mpsc::UnboundedSender<Request>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the connection is to come from.
enum Place {
    Free(Slot),
    Lent(Box<Lent>),
}

/// Who waits for an answer.
#[derive(Clone, Copy)]
struct Asked {
    worker: usize,
    server: ServerKey,
    ticket: u64,
}

/// Whether the workers know of all that was notified since they were last told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum History {
    Whole,
    HasAGap,
}

/// Why a connection was given up that worked.
enum Ended {
    Unwanted,
    /// The line has been forgotten.
    Forgotten,
}

struct Line {
    shared: Arc<Shared>,
    credentials: Arc<Credentials>,
    pool: Arc<Pool>,
    /// Only the pooler knows it.
    marker: Arc<str>,
    /// Channels, and the workers that want them.
    wanted: BTreeMap<Name, BTreeSet<usize>>,
    asked: Vec<Asked>,
    backoff: Backoff,
    history: History,
    room: Arc<Semaphore>,
}

impl Line {
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        loop {
            while self.wanted.is_empty() {
                match requests.recv().await {
                    Some(request) => drop(self.note(request)),
                    None => return,
                }
                self.history = History::Whole;
            }
            match self.session(&mut requests).await {
                Ok(Ended::Unwanted) => {}
                Ok(Ended::Forgotten) => return,
                Err(error) => {
                    let wait = self.failed(&error);
                    if !self.pause(wait, &mut requests).await {
                        return;
                    }
                }
            }
        }
    }

    /// One connection, from its beginning to its end.
    async fn session(
        &mut self,
        requests: &mut mpsc::UnboundedReceiver<Request>,
    ) -> Result<Ended, ListenError> {
        let mut connection = self.open().await?;
        let ended = match self.listen(&mut connection).await {
            Ok(()) => self.serve(&mut connection, requests).await,
            Err(error) => Err(error),
        };
        if ended.is_err() {
            self.history = History::HasAGap;
            self.tell_workers(ToWorker::ListenerLost);
        }
        ended
    }

    /// Gives the channels that were not listened to before, or that are not to be any more, as SQL.
    fn note(&mut self, request: Request) -> Vec<u8> {
        let mut sql = Vec::new();
        match request {
            Request::Listen {
                worker,
                server,
                ticket,
                channels,
            } => {
                for name in channels {
                    let workers = self.wanted.entry(name.clone()).or_default();
                    if workers.is_empty() {
                        write_listen(&mut sql, &name);
                    }
                    workers.insert(worker);
                }
                self.asked.push(Asked {
                    worker,
                    server,
                    ticket,
                });
            }
            Request::Unlisten { worker, channels } => {
                for name in channels {
                    if let Some(workers) = self.wanted.get_mut(&name) {
                        workers.remove(&worker);
                        if workers.is_empty() {
                            self.wanted.remove(&name);
                            write_unlisten(&mut sql, &name);
                        }
                    }
                }
            }
        }
        sql
    }

    async fn open(&mut self) -> Result<Connection, ListenError> {
        if self.pool.is_paused() {
            return Err(ListenError::Paused);
        }
        match self.place().await? {
            Place::Free(slot) => self.dial(slot).await,
            // What it would have brought to the client that it has left is lost with it.
            Place::Lent(lent) => {
                Connection::lent(*lent).inspect_err(|_| self.history = History::HasAGap)
            }
        }
    }

    /// To all that is wanted.
    async fn listen(&mut self, connection: &mut Connection) -> Result<(), ListenError> {
        let mut sql = Vec::new();
        write_listen(&mut sql, self.marker.as_bytes());
        self.wanted
            .keys()
            .for_each(|name| write_listen(&mut sql, name));
        sql.extend_from_slice(SETTINGS);
        self.execute(connection, &sql).await?;
        self.backoff.succeeded();
        if std::mem::replace(&mut self.history, History::Whole) == History::HasAGap {
            tracing::info!(pool = %self.name(), "the shared listener listens again");
            self.tell_workers(ToWorker::ListenerRestored);
        }
        self.answer(true);
        Ok(())
    }

    async fn dial(&self, slot: Slot) -> Result<Connection, ListenError> {
        let generation = self.pool.generation.load(Ordering::Relaxed);
        let logged_in = super::dial::connect(&self.shared, &self.credentials, &self.pool).await?;
        Ok(Connection::new(logged_in, slot, generation))
    }

    /// A place in the ledger. An idle server connection of the pool's makes room; else that of a client that asks becomes the listener, unless it is
    /// the pool's only one.
    async fn place(&mut self) -> Result<Place, ListenError> {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now() + PLACE_WITHIN;
        loop {
            let departed = shared.departures.notified();
            match self.shared.try_slot(self.pool.id) {
                Ok(slot) => return Ok(Place::Free(slot)),
                Err(_) if Instant::now() >= deadline => return Err(ListenError::NoPlace),
                Err(_) if self.evict() => {}
                Err(_) if shared.ledger().open_in_pool(self.pool.id) < 2 => {
                    return Err(ListenError::NoPlace);
                }
                Err(_) => {
                    if let Some(lent) = self.borrow().await {
                        return Ok(Place::Lent(lent));
                    }
                }
            }
            // Nothing tells of one that becomes idle.
            let _ = timeout(TICK, departed).await;
        }
    }

    /// False if no server connection is idle.
    fn evict(&self) -> bool {
        let idle = |cell: &Cell| cell.idle.load(Ordering::SeqCst) > 0;
        let Some(worker) = self.pool.cells.iter().position(idle) else {
            return false;
        };
        let (pool, reason) = (self.pool.id, "the shared listener");
        self.shared.tell(worker, ToWorker::Evict { pool, reason });
        true
    }

    async fn borrow(&mut self) -> Option<Box<Lent>> {
        for place in 0..self.asked.len() {
            let (answer, lent) = oneshot::channel();
            let Asked {
                worker,
                server,
                ticket,
            } = self.asked[place];
            self.shared.tell(
                worker,
                ToWorker::LendServer {
                    server,
                    ticket,
                    answer,
                },
            );
            if let Ok(lent) = lent.await {
                self.asked.remove(place);
                return Some(lent);
            }
        }
        None
    }

    /// Until the connection is lost, or has to go.
    async fn serve(
        &mut self,
        connection: &mut Connection,
        requests: &mut mpsc::UnboundedReceiver<Request>,
    ) -> Result<Ended, ListenError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wanted_at = Instant::now();
        loop {
            tokio::select! {
                request = requests.recv() => {
                    let Some(request) = request else { return Ok(Ended::Forgotten) };
                    let sql = self.note(request);
                    if !sql.is_empty() {
                        self.execute(connection, &sql).await?;
                    }
                    self.answer(true);
                }
                message = connection.receive() => self.forward(message?).await,
                _ = ticks.tick() => self.examine(connection).await?,
            }
            if !self.wanted.is_empty() {
                wanted_at = Instant::now();
            } else if wanted_at.elapsed() >= LINGER {
                return Ok(Ended::Unwanted);
            }
        }
    }

    /// Whether the connection may stay.
    async fn examine(&self, connection: &mut Connection) -> Result<(), ListenError> {
        if self.pool.is_paused() {
            return Err(ListenError::Paused);
        }
        if connection.generation() != self.pool.generation.load(Ordering::Relaxed) {
            return Err(ListenError::Outdated);
        }
        if connection.heard_at().elapsed() >= SILENT_MAX {
            self.execute(connection, b"").await?;
        }
        Ok(())
    }

    /// Runs SQL, and forwards what comes meanwhile.
    async fn execute(&self, connection: &mut Connection, sql: &[u8]) -> Result<(), ListenError> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        let late = |_| ListenError::Silent;
        timeout_at(deadline, connection.send(sql))
            .await
            .map_err(late)??;
        while let Some(notification) = timeout_at(deadline, connection.reply())
            .await
            .map_err(late)??
        {
            self.forward(notification).await;
        }
        Ok(())
    }

    async fn forward(&self, notification: Option<Notification>) {
        let Some(notification) = notification else {
            return;
        };
        let size = (notification.size() as u32).min(UNDER_WAY_MAX);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(size).await else {
            return;
        };
        let workers = if *notification.channel == *self.marker.as_bytes() {
            self.workers()
        } else {
            self.wanted
                .get(&notification.channel)
                .cloned()
                .unwrap_or_default()
        };
        let brought = Arc::new(Brought {
            notification: Arc::new(notification),
            _room: room,
        });
        for worker in workers {
            let (pool, brought) = (self.pool.id, Arc::clone(&brought));
            self.shared
                .tell(worker, ToWorker::Brought { pool, brought });
        }
    }

    fn tell_workers(&self, message: impl Fn(PoolId) -> ToWorker) {
        for worker in self.workers() {
            self.shared.tell(worker, message(self.pool.id));
        }
    }

    fn workers(&self) -> BTreeSet<usize> {
        self.wanted.values().flatten().copied().collect()
    }

    fn answer(&mut self, listens: bool) {
        for Asked {
            worker,
            server,
            ticket,
        } in self.asked.drain(..)
        {
            let marker = listens.then(|| Arc::clone(&self.marker));
            self.shared.tell(
                worker,
                ToWorker::Listened {
                    server,
                    ticket,
                    marker,
                },
            );
        }
    }

    /// Says how long to wait.
    fn failed(&mut self, error: &ListenError) -> Duration {
        self.answer(false);
        if matches!(error, ListenError::Paused | ListenError::Outdated) {
            return TICK;
        }
        tracing::warn!(pool = %self.name(), %error, "no shared listener");
        let now = self.shared.clock.now();
        let bounds = Bounds {
            first: FIRST_WAIT,
            longest: self.pool.settings.load().server_login_retry.max(FIRST_WAIT),
        };
        self.backoff.failed(now, bounds, rand::random());
        let at = self.backoff.retry_at();
        at.map_or(FIRST_WAIT, |at| at.since(now))
    }

    /// Waits for the next attempt; who asks meanwhile is refused. False if the line has been forgotten.
    async fn pause(
        &mut self,
        wait: Duration,
        requests: &mut mpsc::UnboundedReceiver<Request>,
    ) -> bool {
        let until = Instant::now() + wait;
        loop {
            tokio::select! {
                () = sleep_until(until) => return true,
                request = requests.recv() => match request {
                    Some(request) => {
                        self.note(request);
                        self.answer(false);
                    }
                    None => return false,
                }
            }
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.pool.database_name, self.pool.user)
    }
}
