//! A client's session on its worker.

use super::census::Pin;
use super::connection::Connection;
use crate::report::{ClientReport, ClientState};
use crate::shared::{Address, ClientPermit, NewClient};
use pooling::cancel::ClientPid;
use pooling::channels::Channels;
use pooling::ledger::PoolId;
use pooling::statements::ClientStatements;
use pooling::{CancelSecret, Parameters, Time};
use std::sync::Arc;

/// What a client is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It has nothing to say.
    Idle,
    /// It has said something and waits for a server connection.
    Waiting { since: Time, noticed: Noticed },
    /// It holds the server connection with this index.
    Leased(usize),
    /// It has got its last words; the socket is closed after the batch.
    Leaving,
}

/// Whether a waiting client has been told that it is in a queue (query_wait_notify).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noticed {
    No,
    Yes,
}

/// Whether a client asks for sequence values: one that has done so gets to keep its server connection for a moment after an INSERT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsksForSequences {
    NotYet,
    Yes,
}

pub struct Client {
    pub connection: Connection,
    pub phase: Phase,
    pub permit: ClientPermit,
    pub id: u64,
    pub pid: ClientPid,
    pub secret: CancelSecret,
    pub statements: ClientStatements,
    pub parameters: Arc<Parameters>,
    /// What it was greeted with, and goes back to at a RESET.
    pub at_login: Arc<Parameters>,
    /// Whether it asks for sequence values (currval, lastval).
    pub sequences: AsksForSequences,
    /// Set while it keeps its server connection between transactions.
    pub pin: Option<Box<Pin>>,
    /// What it listens to through the shared listener.
    pub channels: Option<Box<Channels>>,
    /// When it last got or gave up a lease, or began to wait.
    pub active_at: Time,
    peer: Address,
    local: Address,
    connected_at: Time,
}

impl Client {
    /// The client, and what it sent beyond its log-in.
    pub fn new(new: NewClient) -> (Client, Vec<u8>) {
        let client = Client {
            connection: Connection::new(new.socket),
            phase: Phase::Idle,
            permit: new.permit,
            id: new.id,
            pid: new.pid,
            secret: new.secret,
            statements: ClientStatements::default(),
            at_login: Arc::clone(&new.parameters),
            parameters: new.parameters,
            sequences: AsksForSequences::NotYet,
            pin: None,
            channels: None,
            active_at: new.connected_at,
            peer: new.peer,
            local: new.local,
            connected_at: new.connected_at,
        };
        (client, new.leftover)
    }

    pub fn pool(&self) -> PoolId {
        self.permit.pool().id
    }

    pub fn peer(&self) -> &Address {
        &self.peer
    }

    pub fn age(&self, now: Time) -> std::time::Duration {
        now.since(self.connected_at)
    }

    pub fn report(&self, server: Option<u64>) -> ClientReport {
        ClientReport {
            id: self.id,
            user: self.permit.user().into(),
            pool: self.pool(),
            state: match self.phase {
                Phase::Leased(_) => ClientState::Active,
                Phase::Waiting { .. } => ClientState::Waiting,
                Phase::Idle | Phase::Leaving => ClientState::Idle,
            },
            peer: self.peer.clone(),
            local: self.local.clone(),
            connected_at: self.connected_at,
            request_at: self.active_at,
            waiting_since: match self.phase {
                Phase::Waiting { since, .. } => Some(since),
                _ => None,
            },
            application_name: self
                .parameters
                .value("application_name")
                .unwrap_or_default()
                .into(),
            server,
            prepared_statements: self.statements.len(),
            buffered: self.connection.buffered(),
            listens: self.listens(),
            pin: self.pin.as_ref().map(|pin| pin.report()),
        }
    }
}
