//! What a worker tells the console about itself: plain values, copied when a SHOW command asks.

use crate::shared::Address;
use pooling::Time;
use pooling::ledger::PoolId;
use std::sync::Arc;

#[derive(Default)]
pub struct WorkerReport {
    pub pools: Vec<PoolReport>,
    /// Only with `Detail::Connections`.
    pub clients: Vec<ClientReport>,
    pub servers: Vec<ServerReport>,
    /// Bytes that the worker holds in receive buffers and queues.
    pub buffer_bytes: usize,
}

/// One pool's part on one worker.
pub struct PoolReport {
    pub pool: PoolId,
    pub clients_active: u32,
    pub clients_waiting: u32,
    /// Clients that hold no lease and wait for none.
    pub clients_idle: u32,
    pub servers_active: u32,
    pub servers_idle: u32,
    /// Idle for longer than server_check_delay.
    pub servers_used: u32,
    pub servers_tested: u32,
    pub servers_being_canceled: u32,
    pub oldest_waiter: Option<Time>,
    pub statements: usize,
    pub statement_bytes: usize,
    pub totals: Totals,
}

/// Counters since the start; times in microseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    pub server_assignments: u64,
    pub transactions: u64,
    pub queries: u64,
    /// From clients.
    pub bytes_received: u64,
    /// To clients.
    pub bytes_sent: u64,
    pub transaction_time: u64,
    pub query_time: u64,
    pub wait_time: u64,
    pub client_parses: u64,
    pub server_parses: u64,
    pub binds: u64,
    /// How often a server connection was asked what its client's session holds.
    pub censuses: u64,
    /// How often a client began to keep its server connection between transactions, or was refused to.
    pub pins: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientState {
    Active,
    Idle,
    Waiting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerState {
    Active,
    Idle,
    Used,
    Tested,
    BeingCanceled,
}

pub struct ClientReport {
    pub id: u64,
    /// As whom it logged in.
    pub user: Box<str>,
    pub pool: PoolId,
    pub state: ClientState,
    pub peer: Address,
    pub local: Address,
    pub connected_at: Time,
    pub request_at: Time,
    /// Since when it waits, if it does.
    pub waiting_since: Option<Time>,
    pub application_name: Arc<str>,
    /// The id of the server connection it holds.
    pub server: Option<u64>,
    pub prepared_statements: usize,
    pub buffered: usize,
    /// The channels that it listens to through the shared listener, and the bytes that wait for it.
    pub listens: Option<(String, usize)>,
    /// Set while it keeps its server connection between transactions.
    pub pin: Option<PinReport>,
}

pub struct PinReport {
    pub reasons: String,
    /// The front of the statement that brought it about.
    pub statement: Box<str>,
    pub since: Time,
}

pub struct ServerReport {
    pub id: u64,
    pub pool: PoolId,
    pub state: ServerState,
    pub address: Arc<Address>,
    pub local: Address,
    pub connected_at: Time,
    pub request_at: Time,
    /// The id of the client that holds it.
    pub client: Option<u64>,
    pub application_name: Arc<str>,
    pub pid: i32,
    pub prepared_statements: usize,
    /// It is of an older generation and will be closed.
    pub close_needed: bool,
    pub buffered: usize,
}
