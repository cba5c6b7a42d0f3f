//! What an authenticated client is told before its first query (manual: "Start-up"): AuthenticationOk, what the server reports,
//! the cancel key, ReadyForQuery; all of it in one write.
//!
//! The pooler's own parameters of PgBouncer 1.26 (`pgbouncer.version` and its kin) are not sent.

use super::refusal::Refusal;
use crate::shared::{CONTROL, Pool, Shared, ToControl};
use pooling::cancel::ClientPid;
use pooling::ledger::{PoolId, Wish};
use pooling::parameters::{Origin, Parameters};
use pooling::{CancelSecret, Time};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::backend::TransactionStatus;
use wire::{Report, Severity, SqlState};

/// Different wishes of one pool's clients that are remembered.
const KNOWN_MAX: usize = 256;
/// How often a pool that could not dial is looked at again when nothing tells of a change.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The least time between two attempts of one pool; the dialler's own pauses are longer.
const PAUSE: Duration = Duration::from_millis(50);

/// What clients with the same wishes get.
#[derive(Clone)]
pub struct Greeting {
    /// What it was made of.
    welcome: Arc<Parameters>,
    /// What such a client's session has set.
    pub parameters: Arc<Parameters>,
    /// ParameterStatus for all that the server reports.
    pub statuses: Arc<[u8]>,
}

/// The greetings of one pool, by the settings that clients asked for.
type ByWishes = HashMap<Vec<(String, String)>, Greeting>;

/// The greetings that were made lately: most clients of a pool want the same.
#[derive(Default)]
pub struct Greetings {
    known: Mutex<HashMap<PoolId, ByWishes>>,
    /// Pools for which a client's log-in has asked for a server connection.
    dialling: Mutex<HashSet<PoolId>>,
}

impl Greetings {
    /// The greeting for a client that asked for `settings` of a server that greets with `welcome`.
    pub fn of(
        &self,
        shared: &Shared,
        pool: PoolId,
        welcome: &Arc<Parameters>,
        settings: &[(String, String)],
    ) -> Greeting {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(pool).or_default();
        if let Some(greeting) = known
            .get(settings)
            .filter(|greeting| Arc::ptr_eq(&greeting.welcome, welcome))
        {
            return greeting.clone();
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        let greeting = Greeting::new(shared, welcome, settings);
        known.insert(settings.to_vec(), greeting.clone());
        greeting
    }

    /// The pool is unused.
    pub fn forget(&self, pool: PoolId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&pool);
    }

    /// Claims the right to ask for the pool's first server connection, if nobody has it.
    fn claim(&self, pool: PoolId) -> Option<Dialling<'_>> {
        let mut dialling = self.dialling.lock().unwrap_or_else(PoisonError::into_inner);
        dialling.insert(pool).then(|| Dialling {
            greetings: self,
            pool,
        })
    }
}

struct Dialling<'a> {
    greetings: &'a Greetings,
    pool: PoolId,
}

impl Drop for Dialling<'_> {
    fn drop(&mut self) {
        let mut dialling = self
            .greetings
            .dialling
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        dialling.remove(&self.pool);
    }
}

impl Greeting {
    fn new(shared: &Shared, welcome: &Arc<Parameters>, settings: &[(String, String)]) -> Greeting {
        let wishes = settings
            .iter()
            .map(|(name, value)| (name.as_str(), spelled_as_reported(welcome, name, value)));
        let parameters = shared.interner.intern(welcome.for_client(wishes));
        let mut statuses = Vec::new();
        for parameter in parameters
            .iter()
            .filter(|parameter| parameter.origin == Origin::Reported)
        {
            wire::write::parameter_status(
                &mut statuses,
                parameter.name.as_bytes(),
                parameter.value.as_bytes(),
            );
        }
        Greeting {
            welcome: Arc::clone(welcome),
            parameters,
            statuses: statuses.into(),
        }
    }
}

/// Everything from AuthenticationOk to ReadyForQuery. `statuses` are whole ParameterStatus messages.
pub fn write(
    out: &mut Vec<u8>,
    statuses: &[u8],
    pid: ClientPid,
    secret: CancelSecret,
    notice: Option<&str>,
) {
    wire::write::authentication_ok(out);
    out.extend_from_slice(statuses);
    wire::write::backend_key_data(out, pid.0, secret.as_bytes());
    if let Some(notice) = notice {
        wire::write::notice_response(
            out,
            &Report::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, notice),
        );
    }
    wire::write::ready_for_query(out, TransactionStatus::Idle);
}

/// Drivers write some values differently than PostgreSQL reports them (`utf8`, `iso`). Taking the server's spelling where the meaning
/// is the same spares a SET for each lease.
fn spelled_as_reported<'a>(welcome: &'a Parameters, name: &str, value: &'a str) -> &'a str {
    let Some(reported) = welcome.value(name) else {
        return value;
    };
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let same = match () {
        () if is("client_encoding") || is("IntervalStyle") => reported.eq_ignore_ascii_case(value),
        // "ISO" keeps the order of day and month that is set.
        () if is("DateStyle") => {
            let style = reported.split(',').next().unwrap_or_default();
            reported.eq_ignore_ascii_case(value) || style.eq_ignore_ascii_case(value)
        }
        () => false,
    };
    if same { reported } else { value }
}

/// What the pool's servers report at log-in. If no server has been reached yet, one is dialled first; its worker will be `worker`.
///
/// # Errors
/// The server's own, if trying again cannot help; otherwise after the pool's `query_wait_timeout`.
pub async fn welcome(
    greetings: &Greetings,
    shared: &Arc<Shared>,
    pool: &Arc<Pool>,
    worker: usize,
) -> Result<Arc<Parameters>, Refusal> {
    let wait = first_welcome(greetings, shared, pool, worker);
    match pool.settings.load().query_wait_timeout {
        None => wait.await,
        Some(longest) => tokio::time::timeout(longest, wait)
            .await
            .unwrap_or_else(|_| Err(waited_too_long(pool))),
    }
}

fn waited_too_long(pool: &Pool) -> Refusal {
    let refusal = Refusal::new(SqlState::CANNOT_CONNECT_NOW, "query_wait_timeout");
    match pool.last_error.load_full() {
        Some(error) => refusal.with_detail(format!(
            "The latest attempt to connect to the server failed: {}",
            error.message
        )),
        None => refusal,
    }
}

async fn first_welcome(
    greetings: &Greetings,
    shared: &Arc<Shared>,
    pool: &Arc<Pool>,
    worker: usize,
) -> Result<Arc<Parameters>, Refusal> {
    let old_error = pool.last_error.load_full();
    let since = shared.clock.now();
    loop {
        let news = pool.dialled.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        if let Some(welcome) = pool.welcome.load_full() {
            return Ok(welcome);
        }
        let error = pool.last_error.load_full();
        let is_new = error.as_ref().map(Arc::as_ptr) != old_error.as_ref().map(Arc::as_ptr);
        if let Some(error) = error.filter(|error| error.lasting && is_new) {
            return Err(Refusal::from(&*error));
        }
        match greetings.claim(pool.id) {
            Some(_claim) => match dial(shared, pool, worker, since) {
                Asked::Dialling => {
                    news.await;
                    tokio::time::sleep(PAUSE).await;
                }
                Asked::Noted(_wish) => _ = tokio::time::timeout(LOOK_AGAIN, news).await,
                Asked::Paused => _ = tokio::time::timeout(LOOK_AGAIN, news).await,
            },
            None => _ = tokio::time::timeout(LOOK_AGAIN, news).await,
        }
    }
}

/// What became of asking for a pool's first server connection.
enum Asked {
    Dialling,
    /// A limit stands in the way: the ledger knows of us until this is dropped.
    Noted(#[allow(dead_code, reason = "held for its Drop")] Noted),
    Paused,
}

struct Noted {
    shared: Arc<Shared>,
    pool: PoolId,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.shared.withdraw_wish(self.pool, CONTROL);
    }
}

/// Asks for a server connection. Where a shared limit is reached the log-in waits in line with the clients of other pools.
fn dial(shared: &Arc<Shared>, pool: &Arc<Pool>, worker: usize, since: Time) -> Asked {
    if pool.is_paused() {
        return Asked::Paused;
    }
    let wish = Wish {
        pool: pool.id,
        worker: CONTROL,
        since,
    };
    match shared.request_slot(wish) {
        Ok(slot) => {
            shared.tell_control(ToControl::Dial {
                pool: Arc::clone(pool),
                worker,
                slot,
            });
            Asked::Dialling
        }
        Err(limit) => {
            shared.ask_rivals(pool.id, limit);
            Asked::Noted(Noted {
                shared: Arc::clone(shared),
                pool: pool.id,
            })
        }
    }
}
