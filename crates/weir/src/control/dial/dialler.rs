//! When to dial: the workers' requests, a line for each pool. A healthy pool dials several at a time; a pool whose server fails
//! sends one prober when the back-off says so, and everybody else hears of its success.

use super::{LoggedIn, connect};
use crate::control::credentials::Credentials;
use crate::shared::{DialError, NewServer, Pool, Shared, Slot, ToWorker};
use auth::{Secret, UserList};
use pooling::backoff::{Backoff, Bounds};
use pooling::ledger::PoolId;
use settings::Database;
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::SqlState;

/// The first wait after a failure; the longest is `server_login_retry`.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Takes the workers' `ToControl::Dial`. Each is answered once: with `ToWorker::Server` or `ToWorker::DialFailed`.
pub struct Dialler {
    shared: Arc<Shared>,
    credentials: Arc<Credentials>,
    lines: Mutex<HashMap<PoolId, mpsc::UnboundedSender<Request>>>,
}

impl Dialler {
    pub fn new(shared: Arc<Shared>, credentials: Arc<Credentials>) -> Dialler {
        Dialler {
            shared,
            credentials,
            lines: Mutex::default(),
        }
    }

    /// Returns at once; to be called within the control thread's runtime. The number of requests that wait is bounded by the slots.
    pub fn handle(&self, pool: Arc<Pool>, worker: usize, slot: Slot) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines
            .entry(pool.id)
            .or_insert_with(|| self.open_line(&pool));
        let request = Request {
            shared: Arc::clone(&self.shared),
            pool,
            worker,
            slot: Some(slot),
        };
        // A line ends only with the dialler, or by a panic, which the request's end reports.
        let _ = line.send(request);
    }

    /// The pool is unused: its line ends, and what it knows of the server's health is gone.
    pub fn forget(&self, pool: PoolId) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.remove(&pool);
    }

    fn open_line(&self, pool: &Arc<Pool>) -> mpsc::UnboundedSender<Request> {
        let (sender, requests) = mpsc::unbounded_channel();
        let line = Line {
            shared: Arc::clone(&self.shared),
            credentials: Arc::clone(&self.credentials),
            pool: Arc::clone(pool),
            health: Health::default(),
            waiting: VecDeque::new(),
            flights: JoinSet::new(),
        };
        tokio::spawn(line.run(requests));
        sender
    }
}

/// A worker's request with the place in the ledger. One that ends unanswered is refused.
struct Request {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    worker: usize,
    slot: Option<Slot>,
}

impl Request {
    fn refuse(mut self, error: &Arc<DialError>) {
        self.answer_no(error);
    }

    /// The slot goes back first: the worker may ask again at once.
    fn answer_no(&mut self, error: &Arc<DialError>) {
        drop(self.slot.take());
        self.shared.tell(
            self.worker,
            ToWorker::DialFailed {
                pool: self.pool.id,
                error: Arc::clone(error),
            },
        );
    }

    fn serve(mut self, logged_in: LoggedIn, generation: u32) -> Result<(), DialError> {
        let LoggedIn {
            stream,
            leftover,
            pid,
            key,
            parameters,
            address,
            local,
        } = logged_in;
        let socket = stream.into_socket().map_err(|error| lost(&error))?;
        let Some(slot) = self.slot.take() else {
            return Ok(());
        };
        let server = NewServer {
            socket,
            leftover,
            pool: Arc::clone(&self.pool),
            slot,
            pid,
            key,
            parameters,
            address,
            local,
            generation,
            connected_at: self.shared.clock.now(),
        };
        self.shared
            .tell(self.worker, ToWorker::Server(Box::new(server)));
        Ok(())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.slot.is_some() {
            let error = self
                .pool
                .last_error
                .load_full()
                .unwrap_or_else(|| not_now("the connection attempt was given up"));
            self.answer_no(&error);
        }
    }
}

struct Landing {
    request: Request,
    generation: u32,
    outcome: Result<LoggedIn, DialError>,
}

/// How the latest dials of a pool ended.
#[derive(Default)]
struct Health {
    backoff: Backoff,
    /// The latest failure if it will last, and what was tried.
    refused: Option<Refusal>,
}

/// A refusal that holds until the back-off ends, or what was tried changes.
struct Refusal {
    error: Arc<DialError>,
    tried: Basis,
}

/// What a log-in depends on and an operator or a client can change.
struct Basis {
    database: Arc<Database>,
    users: Arc<UserList>,
    pass_through: Option<Arc<Secret>>,
}

impl PartialEq for Basis {
    fn eq(&self, other: &Basis) -> bool {
        Arc::ptr_eq(&self.database, &other.database)
            && Arc::ptr_eq(&self.users, &other.users)
            && self.pass_through == other.pass_through
    }
}

/// One pool's requests.
struct Line {
    shared: Arc<Shared>,
    credentials: Arc<Credentials>,
    pool: Arc<Pool>,
    health: Health,
    waiting: VecDeque<Request>,
    flights: JoinSet<Landing>,
}

impl Line {
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        loop {
            let due = self.due_in();
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => self.take(request),
                    None => return,
                },
                Some(landing) = self.flights.join_next() => match landing {
                    Ok(landing) => self.land(landing),
                    Err(panic) => tracing::error!(%panic, "a dial has ended without an outcome"),
                },
                () = wait(due) => {}
            }
            self.launch();
        }
    }

    /// How long until the prober that waits may start, if one does.
    fn due_in(&self) -> Option<Duration> {
        let probing = !self.waiting.is_empty() && self.flights.is_empty();
        let retry_at = self.health.backoff.retry_at().filter(|_| probing)?;
        Some(retry_at.since(self.shared.clock.now()))
    }

    fn is_due(&self) -> bool {
        self.health
            .backoff
            .retry_at()
            .is_none_or(|retry_at| retry_at <= self.shared.clock.now())
    }

    fn take(&mut self, request: Request) {
        self.forget_outdated_refusal();
        let busy = !self.waiting.is_empty() || !self.flights.is_empty();
        match &self.health.refused {
            // The answer of the attempt under way is the answer to this one too.
            Some(_) if busy || self.is_due() => self.waiting.push_back(request),
            Some(refusal) => {
                let error = Arc::clone(&refusal.error);
                self.repeat(request, &error);
            }
            // One prober is enough; its success calls the others.
            None if self.health.backoff.is_failing() && busy => drop(request),
            None => self.waiting.push_back(request),
        }
    }

    /// An answer from memory is an outcome too: whoever waits for one in `Pool::last_error` knows it by its new pointer.
    fn repeat(&self, request: Request, error: &DialError) {
        let error = Arc::new(error.clone());
        self.pool.last_error.store(Some(Arc::clone(&error)));
        request.refuse(&error);
        self.pool.dialled.notify_waiters();
    }

    fn forget_outdated_refusal(&mut self) {
        let now = self.basis();
        if self
            .health
            .refused
            .as_ref()
            .is_some_and(|refusal| refusal.tried != now)
        {
            self.health = Health::default();
        }
    }

    fn launch(&mut self) {
        if !self.waiting.is_empty()
            && let Some(error) = self.closed()
        {
            self.waiting
                .drain(..)
                .for_each(|request| request.refuse(&error));
            self.pool.dialled.notify_waiters();
        }
        let most = match self.health.backoff.is_failing() {
            true => usize::from(self.is_due()),
            false => self.pool.settings.load().server_connect_concurrency.max(1) as usize,
        };
        while self.flights.len() < most
            && let Some(request) = self.waiting.pop_front()
        {
            let dial = dial(
                Arc::clone(&self.shared),
                Arc::clone(&self.credentials),
                request,
            );
            self.flights.spawn(dial);
        }
    }

    /// PAUSE and DISABLE: nothing new is opened.
    fn closed(&self) -> Option<Arc<DialError>> {
        let state = &self.pool.state;
        match () {
            () if state.disabled.load(Ordering::Relaxed) => {
                Some(not_now("the database is disabled"))
            }
            () if self.pool.is_paused() => Some(not_now("the database is paused")),
            () => None,
        }
    }

    fn land(&mut self, landing: Landing) {
        let Landing {
            request,
            generation,
            outcome,
        } = landing;
        match outcome {
            Ok(logged_in) => self.succeeded(request, logged_in, generation),
            Err(error) => self.failed(request, error),
        }
        self.pool.dialled.notify_waiters();
    }

    fn succeeded(&mut self, request: Request, logged_in: LoggedIn, generation: u32) {
        self.pool
            .welcome
            .store(Some(Arc::clone(&logged_in.parameters)));
        self.pool.last_error.store(None);
        let recovered = self.health.backoff.is_failing();
        self.health = Health::default();
        let (database, user) = (&self.pool.database_name, &self.pool.server_user);
        if self.shared.config.load().general.log_connections {
            tracing::info!(%database, %user, address = ?logged_in.address, pid = logged_in.pid, "new connection to server");
        }
        if let Err(error) = request.serve(logged_in, generation) {
            tracing::error!(
                error = error.message,
                "a new server connection was lost on its way to its worker"
            );
        }
        if recovered {
            tracing::info!(%database, %user, "the server lets us in again");
            self.shared.tell_all(|| ToWorker::PoolChanged(self.pool.id));
        }
    }

    fn failed(&mut self, request: Request, error: DialError) {
        let (database, user) = (&self.pool.database_name, &self.pool.server_user);
        tracing::warn!(%database, %user, sqlstate = %error.sqlstate, error = error.message, "cannot open a server connection");
        let error = Arc::new(error);
        let longest = self.pool.settings.load().server_login_retry.max(FIRST_WAIT);
        self.health.backoff.failed(
            self.shared.clock.now(),
            Bounds {
                first: FIRST_WAIT,
                longest,
            },
            rand::random(),
        );
        self.pool.last_error.store(Some(Arc::clone(&error)));
        self.waiting.push_front(request);
        match error.lasting {
            true => self.refuse_all(error),
            false => self.refuse_all_but_one(&error),
        }
    }

    /// The first in line becomes the prober, as long as there are clients that wait for its success.
    fn refuse_all_but_one(&mut self, error: &Arc<DialError>) {
        self.health.refused = None;
        let probers = usize::from(self.pool.clients.count() > 0);
        self.waiting
            .drain(probers..)
            .for_each(|request| request.refuse(error));
    }

    /// Every worker hears it, for the clients that wait there without a request of their own.
    fn refuse_all(&mut self, error: Arc<DialError>) {
        let asked: Vec<usize> = self.waiting.iter().map(|request| request.worker).collect();
        self.waiting
            .drain(..)
            .for_each(|request| request.refuse(&error));
        for worker in (0..self.shared.workers().len()).filter(|worker| !asked.contains(worker)) {
            self.shared.tell(
                worker,
                ToWorker::DialFailed {
                    pool: self.pool.id,
                    error: Arc::clone(&error),
                },
            );
        }
        self.health.refused = Some(Refusal {
            error,
            tried: self.basis(),
        });
    }

    fn basis(&self) -> Basis {
        Basis {
            database: self.pool.database.load_full(),
            users: self.credentials.users.load_full(),
            pass_through: self.pool.pass_through.load_full(),
        }
    }
}

/// The generation is read first: a RECONNECT during the dial makes the connection an old one.
async fn dial(shared: Arc<Shared>, credentials: Arc<Credentials>, request: Request) -> Landing {
    let generation = request.pool.generation.load(Ordering::Acquire);
    let outcome = connect(&shared, &credentials, &request.pool).await;
    Landing {
        request,
        generation,
        outcome,
    }
}

async fn wait(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => pending().await,
    }
}

fn not_now(message: &str) -> Arc<DialError> {
    Arc::new(DialError {
        sqlstate: SqlState::CANNOT_CONNECT_NOW,
        message: message.into(),
        lasting: false,
    })
}

fn lost(error: &std::io::Error) -> DialError {
    DialError {
        sqlstate: SqlState::CONNECTION_FAILURE,
        message: error.to_string(),
        lasting: false,
    }
}
