//! A logged-in server connection on its worker.

use super::channels::Handover;
use super::connection::Connection;
use super::errand::Reading;
use crate::report::{ServerReport, ServerState};
use crate::shared::{
    Address, CancelHold, CancelTarget, Delivery, Lent, NewServer, Pool, Shared, Slot,
};
use pooling::census::Census;
use pooling::ledger::PoolId;
use pooling::{Conversation, Parameters, Time};
use settings::{PoolMode, PoolSettings};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A server connection's place on its worker; never reused while the connection lives, and never equal to a later one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerKey {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// A request that its client has asked to cancel. PostgreSQL ignores a cancel request that comes before it has begun the query: so it is
/// sent again while that same query runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwanted {
    request: u64,
    until: Option<Time>,
    pause: Duration,
    next: Next,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    At(Time),
    /// A repeated request is on its way. The client waits: what it says next is not what it wanted cancelled.
    UnderWay,
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);

impl Unwanted {
    fn new(request: u64, until: Option<Time>, now: Time) -> Unwanted {
        Unwanted {
            request,
            until,
            pause: FIRST_PAUSE,
            next: Next::At(now.after(FIRST_PAUSE)),
        }
    }

    fn is_due(&self, now: Time) -> bool {
        matches!(self.next, Next::At(due) if now >= due)
            && self.until.is_none_or(|until| now < until)
    }

    fn delivered(&mut self, now: Time) {
        self.pause *= 2;
        self.next = Next::At(now.after(self.pause));
    }
}

/// What a server connection is there for at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// Free since then.
    Idle { since: Time },
    /// It serves the client with this index.
    Leased { client: usize },
    /// It is asked whether it is still there (server_check_query), and free when it answers.
    Tested { since: Time },
    /// The client is gone: its query is cancelled and its transaction ended, until then at the latest.
    Abandoned { deadline: Time },
    /// server_reset_query is running.
    Reset { since: Time },
    /// It asks the database's catalogue.
    Errand { since: Time },
    /// Clean, but a cancel request is on its way to it, or it is not known yet what clients' statements may do.
    Held,
    /// To be closed after the batch.
    Leaving,
}

/// What a client that is gone has left on a server connection, beyond parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Residue {
    None,
    /// DISCARD ALL undoes it.
    Session,
    /// Nothing does.
    Lasting,
}

pub struct Server {
    pub connection: Connection,
    pub duty: Duty,
    pub conversation: Conversation,
    pub pool: Arc<Pool>,
    /// What is set on it.
    pub parameters: Arc<Parameters>,
    /// What PostgreSQL reported at log-in, and goes back to at a RESET.
    pub at_login: Arc<Parameters>,
    /// Since its client's RESET, up to the next ReadyForQuery: the parameters that went back, of which the client expects its own values.
    pub went_back: Option<Vec<Box<str>>>,
    /// Cancel requests that are on their way to it.
    pub cancels: u32,
    /// What its client wants to see cancelled.
    pub unwanted: Option<Unwanted>,
    pub id: u64,
    pub serial: u32,
    /// When the running transaction, and its latest request, began.
    pub transaction_at: Time,
    pub request_at: Time,
    /// When the server last said ReadyForQuery.
    pub ready_at: Time,
    pub generation: u32,
    /// `Pool::statements_changed` when what is prepared here was last known to be of use.
    pub statements_known: u32,
    pub connected_at: Time,
    /// Between 0 and 1: spreads what many connections would otherwise do at the same moment.
    pub jitter: f64,
    /// When it has served long enough.
    pub retires_at: Time,
    /// Why no other client may get it, although it is idle.
    pub blemish: Option<&'static str>,
    /// What a client that is gone has left on it.
    pub residue: Residue,
    /// What it tells of the database's catalogue.
    pub reading: Option<Box<Reading>>,
    /// The census that is being taken.
    pub census: Option<Box<Census>>,
    /// How far what it listens to is on its way to the shared listener.
    pub handover: Handover,
    /// What was set on it before the replay that is under way.
    pub before_replay: Option<Arc<Parameters>>,
    slot: Slot,
    pid: i32,
    key: Box<[u8]>,
    address: Arc<Address>,
    local: Address,
}

impl Server {
    pub fn new(new: NewServer, id: u64, jitter: f64) -> (Server, Vec<u8>) {
        let settings = new.pool.settings.load_full();
        let shares = settings.mode != PoolMode::Session && settings.max_prepared_statements > 0;
        let statements_max = shares.then_some(settings.max_prepared_statements as usize);
        let mut server = Server {
            connection: Connection::new(new.socket),
            duty: Duty::Idle {
                since: new.connected_at,
            },
            conversation: Conversation::new(statements_max),
            statements_known: new.pool.statements_changed.load(Ordering::Relaxed),
            pool: new.pool,
            at_login: Arc::clone(&new.parameters),
            parameters: new.parameters,
            went_back: None,
            cancels: 0,
            unwanted: None,
            id,
            serial: 0,
            transaction_at: new.connected_at,
            request_at: new.connected_at,
            ready_at: new.connected_at,
            generation: new.generation,
            connected_at: new.connected_at,
            jitter,
            retires_at: new.connected_at,
            blemish: None,
            residue: Residue::None,
            reading: None,
            census: None,
            handover: Handover::None,
            before_replay: None,
            slot: new.slot,
            pid: new.pid,
            key: new.key,
            address: new.address,
            local: new.local,
        };
        server.set_lifetime(&settings);
        (server, new.leftover)
    }

    pub fn pool_id(&self) -> PoolId {
        self.slot.pool()
    }

    /// Leaves its worker to listen for everybody.
    pub fn lend(mut self) -> Lent {
        Lent {
            leftover: self.connection.take_inbox(),
            socket: self.connection.fd,
            address: self.address,
            generation: self.generation,
            slot: self.slot,
        }
    }

    pub fn key(&self, index: usize) -> ServerKey {
        ServerKey {
            index: index as u32,
            serial: self.serial,
        }
    }

    /// PostgreSQL's process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The client that it serves.
    pub fn client(&self) -> Option<usize> {
        match self.duty {
            Duty::Leased { client } => Some(client),
            _ => None,
        }
    }

    /// RECONNECT or a changed configuration has made it out of date.
    pub fn is_outdated(&self) -> bool {
        self.generation != self.pool.generation.load(Ordering::Relaxed)
    }

    /// What is prepared here is looked at again if something has changed under statements of the pool.
    pub fn notice_changed_statements(&mut self) {
        let now = self.pool.statements_changed.load(Ordering::Relaxed);
        if now != self.statements_known {
            self.statements_known = now;
            self.conversation.doubt_prepared();
        }
    }

    /// server_lifetime, shortened by this connection's share of the jitter, counts from its log-in.
    pub fn set_lifetime(&mut self, settings: &PoolSettings) {
        let share = 1.0 - settings.server_lifetime_jitter * self.jitter;
        self.retires_at = self
            .connected_at
            .after(settings.server_lifetime.mul_f64(share));
    }

    /// The client has asked to cancel what runs; until then at the latest it is asked again.
    pub fn note_unwanted(&mut self, until: Option<Time>, now: Time) {
        let request = self.conversation.sole_request();
        self.unwanted = request.map(|request| Unwanted::new(request, until, now));
    }

    /// What was to be cancelled runs still: it is time to ask again.
    pub fn cancel_is_due(&self, now: Time) -> bool {
        let unwanted = self
            .unwanted
            .as_ref()
            .filter(|unwanted| unwanted.is_due(now));
        self.cancels == 0
            && unwanted.is_some_and(|it| self.conversation.sole_request() == Some(it.request))
    }

    pub fn cancel_goes_again(&mut self) {
        if let Some(unwanted) = &mut self.unwanted {
            unwanted.next = Next::UnderWay;
        }
    }

    /// No cancel request is on its way any more.
    pub fn cancels_are_done(&mut self, now: Time) {
        if let Some(unwanted) = &mut self.unwanted {
            unwanted.delivered(now);
        }
    }

    /// Its client may not say anything at the moment: a repeated cancel request could hit that.
    #[inline]
    pub fn holds_client(&self) -> bool {
        matches!(
            self.unwanted,
            Some(Unwanted {
                next: Next::UnderWay,
                ..
            })
        )
    }

    /// What a cancel request for its running query needs. Until that is dropped, no other client gets the connection.
    pub fn cancel_target(
        &mut self,
        shared: &Arc<Shared>,
        worker: usize,
        index: usize,
    ) -> CancelTarget {
        self.cancels += 1;
        let server = self.key(index);
        CancelTarget {
            address: Arc::clone(&self.address),
            pid: self.pid,
            key: self.key.clone(),
            hold: CancelHold {
                shared: Arc::clone(shared),
                worker,
                server,
                delivery: Delivery::Unknown,
            },
        }
    }

    pub fn report(&self, client: Option<u64>, check_delay: Duration, now: Time) -> ServerReport {
        ServerReport {
            id: self.id,
            pool: self.pool_id(),
            state: self.state(check_delay, now),
            address: Arc::clone(&self.address),
            local: self.local.clone(),
            connected_at: self.connected_at,
            request_at: self.request_at,
            client,
            application_name: self
                .parameters
                .value("application_name")
                .unwrap_or_default()
                .into(),
            pid: self.pid,
            prepared_statements: self.conversation.prepared_statements(),
            close_needed: self.is_outdated(),
            buffered: self.connection.buffered(),
        }
    }

    /// Its state in PgBouncer's words.
    pub fn state(&self, check_delay: Duration, now: Time) -> ServerState {
        match self.duty {
            Duty::Idle { since } if now.since(since) > check_delay => ServerState::Used,
            Duty::Idle { .. } | Duty::Leaving => ServerState::Idle,
            Duty::Leased { .. } => ServerState::Active,
            Duty::Tested { .. } | Duty::Reset { .. } | Duty::Errand { .. } => ServerState::Tested,
            Duty::Abandoned { .. } | Duty::Held => ServerState::BeingCanceled,
        }
    }
}
