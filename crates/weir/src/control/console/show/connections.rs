//! SHOW CLIENTS, SERVERS, SOCKETS and ACTIVE_SOCKETS.

use super::super::ConsoleReport;
use super::super::table::Kind::{BigInt, Int, Text};
use super::super::table::{Columns, Row, Value, row};
use super::Snapshot;
use crate::report::{ClientReport, ClientState, ServerReport, ServerState};
use crate::shared::Address;
use pooling::Time;

/// `id` is an int4 in PgBouncer; a process that lives long enough counts beyond that.
pub const CONNECTIONS: Columns = &[
    ("type", Text),
    ("user", Text),
    ("database", Text),
    ("replication", Text),
    ("state", Text),
    ("addr", Text),
    ("port", Int),
    ("local_addr", Text),
    ("local_port", Int),
    ("connect_time", Text),
    ("request_time", Text),
    ("wait", Int),
    ("wait_us", Int),
    ("close_needed", Int),
    ("ptr", Text),
    ("link", Text),
    ("remote_pid", Int),
    ("tls", Text),
    ("application_name", Text),
    ("prepared_statements", Int),
    ("id", BigInt),
];

pub const SOCKETS: Columns = &[
    ("type", Text),
    ("user", Text),
    ("database", Text),
    ("replication", Text),
    ("state", Text),
    ("addr", Text),
    ("port", Int),
    ("local_addr", Text),
    ("local_port", Int),
    ("connect_time", Text),
    ("request_time", Text),
    ("wait", Int),
    ("wait_us", Int),
    ("close_needed", Int),
    ("ptr", Text),
    ("link", Text),
    ("remote_pid", Int),
    ("tls", Text),
    ("application_name", Text),
    ("prepared_statements", Int),
    ("id", BigInt),
    ("recv_pos", Int),
    ("pkt_pos", Int),
    ("pkt_remain", Int),
    ("send_pos", Int),
    ("send_remain", Int),
    ("pkt_avail", Int),
    ("send_avail", Int),
];

pub fn clients(snapshot: &Snapshot) -> Vec<Row> {
    let clients = snapshot
        .clients()
        .map(|client| of_client(client, snapshot).row(snapshot));
    let consoles = snapshot
        .consoles
        .iter()
        .map(|console| of_console(console).row(snapshot));
    clients.chain(consoles).collect()
}

pub fn servers(snapshot: &Snapshot) -> Vec<Row> {
    snapshot
        .servers()
        .map(|server| of_server(server, snapshot).row(snapshot))
        .collect()
}

pub fn sockets(snapshot: &Snapshot) -> Vec<Row> {
    let clients = snapshot
        .clients()
        .map(|client| (of_client(client, snapshot), client.buffered));
    let consoles = snapshot
        .consoles
        .iter()
        .map(|console| (of_console(console), 0));
    let servers = snapshot
        .servers()
        .map(|server| (of_server(server, snapshot), server.buffered));
    clients
        .chain(consoles)
        .chain(servers)
        .map(|(connection, buffered)| connection.socket_row(snapshot, buffered))
        .collect()
}

/// Those at work: neither an idle client nor an idle server connection.
pub fn active_sockets(snapshot: &Snapshot) -> Vec<Row> {
    let at_work = |client: &&ClientReport| client.state != ClientState::Idle;
    let clients = snapshot
        .clients()
        .filter(at_work)
        .map(|client| (of_client(client, snapshot), client.buffered));
    let consoles = snapshot
        .consoles
        .iter()
        .map(|console| (of_console(console), 0));
    let at_work = |server: &&ServerReport| {
        server.state != ServerState::Idle && server.state != ServerState::Used
    };
    let servers = snapshot
        .servers()
        .filter(at_work)
        .map(|server| (of_server(server, snapshot), server.buffered));
    clients
        .chain(consoles)
        .chain(servers)
        .map(|(connection, buffered)| connection.socket_row(snapshot, buffered))
        .collect()
}

/// What clients and servers have in common.
struct Connection<'a> {
    kind: &'static str,
    user: &'a str,
    database: &'a str,
    state: &'static str,
    peer: &'a Address,
    local: &'a Address,
    connected_at: Time,
    request_at: Time,
    waiting_since: Option<Time>,
    close_needed: bool,
    id: u64,
    link: Option<u64>,
    remote_pid: i32,
    application_name: &'a str,
    prepared_statements: usize,
}

fn of_client<'a>(client: &'a ClientReport, snapshot: &'a Snapshot) -> Connection<'a> {
    let pool = snapshot.pool(client.pool);
    Connection {
        kind: "C",
        user: &client.user,
        database: pool.map_or("", |pool| &pool.database_name),
        state: client_state(client.state),
        peer: &client.peer,
        local: &client.local,
        connected_at: client.connected_at,
        request_at: client.request_at,
        waiting_since: client.waiting_since,
        close_needed: false,
        id: client.id,
        link: client.server,
        remote_pid: 0,
        application_name: &client.application_name,
        prepared_statements: client.prepared_statements,
    }
}

fn of_server<'a>(server: &'a ServerReport, snapshot: &'a Snapshot) -> Connection<'a> {
    let pool = snapshot.pool(server.pool);
    Connection {
        kind: "S",
        user: pool.map_or("", |pool| &pool.server_user),
        database: pool.map_or("", |pool| &pool.database_name),
        state: server_state(server.state),
        peer: &server.address,
        local: &server.local,
        connected_at: server.connected_at,
        request_at: server.request_at,
        waiting_since: None,
        close_needed: server.close_needed,
        id: server.id,
        link: server.client,
        remote_pid: server.pid,
        application_name: &server.application_name,
        prepared_statements: server.prepared_statements,
    }
}

fn of_console(console: &ConsoleReport) -> Connection<'_> {
    Connection {
        kind: "C",
        user: &console.user,
        database: "pgbouncer",
        state: "active",
        peer: &console.peer,
        local: &console.local,
        connected_at: console.connected_at,
        request_at: console.request_at,
        waiting_since: None,
        close_needed: false,
        id: console.id,
        link: None,
        remote_pid: 0,
        application_name: &console.application_name,
        prepared_statements: 0,
    }
}

fn client_state(state: ClientState) -> &'static str {
    match state {
        ClientState::Active => "active",
        ClientState::Idle => "idle",
        ClientState::Waiting => "waiting",
    }
}

fn server_state(state: ServerState) -> &'static str {
    match state {
        ServerState::Active => "active",
        ServerState::Idle => "idle",
        ServerState::Used => "used",
        ServerState::Tested => "tested",
        ServerState::BeingCanceled => "being_canceled",
    }
}

impl Connection<'_> {
    fn row(&self, snapshot: &Snapshot) -> Row {
        let (peer, peer_port) = endpoint(self.peer);
        let (local, local_port) = endpoint(self.local);
        let waited = self
            .waiting_since
            .map(|since| snapshot.now.since(since))
            .unwrap_or_default();
        row![
            self.kind,
            self.user,
            self.database,
            "none",
            self.state,
            peer,
            peer_port,
            local,
            local_port,
            snapshot.wall_clock(self.connected_at),
            snapshot.wall_clock(self.request_at),
            waited.as_secs(),
            waited.subsec_micros(),
            self.close_needed,
            pointer(self.id),
            self.link.map_or(String::new(), pointer),
            u32::try_from(self.remote_pid).unwrap_or(0),
            "",
            self.application_name,
            self.prepared_statements,
            self.id,
        ]
    }

    /// Weir has no buffer per connection whose positions could be shown: what is held back for a slow reader stands in `send_avail`.
    fn socket_row(&self, snapshot: &Snapshot, buffered: usize) -> Row {
        let mut row = self.row(snapshot);
        row.extend(std::iter::repeat_n(Value::Number(0), 6));
        row.push(buffered.into());
        row
    }
}

/// PgBouncer shows an address in memory; here it is the id, in hex.
fn pointer(id: u64) -> String {
    format!("{id:#x}")
}

/// PgBouncer's word for a Unix socket is `unix`.
fn endpoint(address: &Address) -> (String, u32) {
    match address {
        Address::Tcp(address) => (address.ip().to_string(), address.port().into()),
        Address::Unix(_) => ("unix".to_owned(), 0),
    }
}
