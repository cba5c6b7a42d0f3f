//! What crosses between the control thread and the workers: sockets that have logged in, requests, and their answers.

use super::{ClientPermit, Errand, Pool, Shared, Slot};
use crate::worker::{Server, ServerKey};
use pooling::cancel::ClientPid;
use pooling::channels::{Name, Notification};
use pooling::ledger::PoolId;
use pooling::{CancelSecret, Parameters, Time};
use sql::learn::Catalog;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where a peer is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// An authenticated client whose greeting (up to ReadyForQuery) has been sent.
pub struct NewClient {
    /// Non-blocking.
    pub socket: OwnedFd,
    /// What it sent beyond the log-in.
    pub leftover: Vec<u8>,
    pub id: u64,
    pub pid: ClientPid,
    pub secret: CancelSecret,
    pub permit: ClientPermit,
    pub parameters: Arc<Parameters>,
    pub peer: Address,
    pub local: Address,
    pub connected_at: Time,
}

/// A server connection that has logged in and is idle.
pub struct NewServer {
    /// Non-blocking.
    pub socket: OwnedFd,
    pub leftover: Vec<u8>,
    pub pool: Arc<Pool>,
    pub slot: Slot,
    /// PostgreSQL's cancel key for it.
    pub pid: i32,
    pub key: Box<[u8]>,
    pub parameters: Arc<Parameters>,
    pub address: Arc<Address>,
    pub local: Address,
    pub generation: u32,
    pub connected_at: Time,
}

/// Why PostgreSQL could not be reached or did not let us in.
#[derive(Debug, Clone)]
pub struct DialError {
    /// The server's own, or ours when it did not answer.
    pub sqlstate: wire::SqlState,
    pub message: String,
    /// Trying again soon cannot help (a wrong password, no such database): waiting clients are told at once.
    pub lasting: bool,
}

/// A server connection that has left its worker to become a shared listener.
pub struct Lent {
    /// Non-blocking.
    pub socket: OwnedFd,
    pub leftover: Vec<u8>,
    pub address: Arc<Address>,
    pub generation: u32,
    pub slot: Slot,
}

/// What a shared listener brings.
pub struct Brought {
    pub notification: Arc<Notification>,
    /// Given back when the workers have seen to it: what is under way to them is bounded.
    pub _room: tokio::sync::OwnedSemaphorePermit,
}

pub enum ToWorker {
    Client(Box<NewClient>),
    /// Answers one `ToControl::Dial`.
    Server(Box<NewServer>),
    /// Answers one `ToControl::Dial`; the slot has been given back.
    DialFailed {
        pool: PoolId,
        error: Arc<DialError>,
    },
    /// A wish has been met: dial with it, or drop it.
    Granted(Slot),
    /// Worker `to` has a client waiting: give it an idle server connection of this pool.
    Steal {
        pool: PoolId,
        to: usize,
    },
    /// Answers `Steal` when there was none after all.
    NothingToSteal {
        pool: PoolId,
    },
    /// A server connection changes its worker; `asked`: it answers a `Steal`.
    Moved {
        server: Box<Server>,
        asked: bool,
    },
    /// Close an idle server connection of this pool: another pool is short under a shared limit.
    Evict {
        pool: PoolId,
        reason: &'static str,
    },
    /// A cancel request named a client of this worker. Answered with the query to cancel on a server, or with `None` when it was
    /// settled here (no such client, wrong secret, nothing running, or cancelled in the queue).
    Cancel {
        pid: ClientPid,
        secret: Box<[u8]>,
        answer: oneshot::Sender<Option<CancelTarget>>,
    },
    /// A cancel request to this server connection has been delivered or given up.
    CancelDone {
        server: ServerKey,
        delivery: Delivery,
    },
    /// Answers `ToControl::Listen`: the channel of the markers, if the shared listener listens.
    Listened {
        server: ServerKey,
        ticket: u64,
        marker: Option<Arc<str>>,
    },
    /// There is no place for the shared listener that this request needs: the server connection that it is about is to become it. Answered with that,
    /// or not at all.
    LendServer {
        server: ServerKey,
        ticket: u64,
        answer: oneshot::Sender<Box<Lent>>,
    },
    /// A channel that this worker asked for was notified; or a marker.
    Brought {
        pool: PoolId,
        brought: Arc<Brought>,
    },
    /// The pool's shared listener was lost.
    ListenerLost(PoolId),
    /// It listens again.
    ListenerRestored(PoolId),
    /// The pool's settings, gate or generation changed (reload, PAUSE, RESUME, RECONNECT, DISABLE): look at it again.
    PoolChanged(PoolId),
    /// The pool is unused: drop the worker's part of it, if that is so here.
    Forget(PoolId),
    /// An errand waits for a server connection of this pool: send an idle one.
    RunErrand(PoolId),
    /// Settings that the worker itself uses changed.
    ConfigChanged,
    /// KILL: close all clients and server connections of these pools at once.
    Kill(Arc<Vec<PoolId>>),
    /// KILL_CLIENT: true if the client was here.
    KillClient {
        id: u64,
        answer: oneshot::Sender<bool>,
    },
    /// SHOW: what this worker holds.
    Report {
        detail: Detail,
        answer: oneshot::Sender<crate::report::WorkerReport>,
    },
    /// Close idle clients as they become idle, to end the process (SHUTDOWN WAIT_FOR_SERVERS).
    CloseIdleClients,
    /// End the thread.
    Stop,
}

/// How much a report has to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    Totals,
    Connections,
}

pub enum ToControl {
    /// A worker wants one more connection for this pool.
    Dial {
        pool: Arc<Pool>,
        worker: usize,
        slot: Slot,
    },
    /// The wish of a log-in (`CONTROL`) has been met.
    Granted(Slot),
    /// The client that holds this server connection listens to these channels: the pool's shared listener is to do so for it.
    Listen {
        pool: Arc<Pool>,
        worker: usize,
        server: ServerKey,
        ticket: u64,
        channels: Vec<Name>,
    },
    /// No client of the worker wants these any more.
    Unlisten {
        pool: PoolId,
        worker: usize,
        channels: Vec<Name>,
    },
    /// A query of a client that is gone (or of one that took too long) has to be cancelled.
    Cancel(CancelTarget),
    /// A client's statement may have changed the catalogue of the pool's database.
    CatalogChanged(Arc<Pool>),
    /// A client of the pool says what is executed only while nobody else is connected to this database of the server.
    Leave { pool: Arc<Pool>, name: sql::Name },
    /// What a server connection of the pool has told of its database's catalogue.
    CatalogRead(Box<CatalogAnswer>),
}

/// The answer to an [`Errand`].
pub struct CatalogAnswer {
    pub pool: Arc<Pool>,
    /// `Catalogue::changes` when the question was put.
    pub changes: u32,
    pub told: Result<CatalogTold, Unanswered>,
}

/// Why an [`Errand`] has come to nothing.
pub enum Unanswered {
    /// The server connection has ended.
    Lost(Errand),
    /// The server's words, or what is wrong with its answer.
    Refused(Box<str>),
}

/// What the catalogue was asked for.
pub enum CatalogTold {
    Fingerprint(Box<str>),
    Names {
        catalog: Catalog,
        fingerprint: Box<str>,
    },
}

/// The query that a cancel request is for. While it exists, its server connection is not given to another client.
pub struct CancelTarget {
    pub address: Arc<Address>,
    pub pid: i32,
    pub key: Box<[u8]>,
    pub hold: CancelHold,
}

/// Tells the worker, when dropped, that the cancel request has been dealt with.
pub struct CancelHold {
    pub shared: Arc<Shared>,
    pub worker: usize,
    pub server: ServerKey,
    pub delivery: Delivery,
}

/// Whether PostgreSQL is known to have acted on a cancel request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// It has closed the request's connection: the signal has been sent.
    Done,
    Unknown,
}

impl Drop for CancelHold {
    fn drop(&mut self) {
        let (server, delivery) = (self.server, self.delivery);
        self.shared
            .tell(self.worker, ToWorker::CancelDone { server, delivery });
    }
}
