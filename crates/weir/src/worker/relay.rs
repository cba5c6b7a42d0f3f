//! The relay: received bytes become messages, the conversation says what becomes of each, and they go to the other side.
//! Bytes are passed on out of the buffer they were received in; only a message that is not whole and has to be is kept.

use super::client::Phase;
use super::connection::Transit;
use super::outbox::Source;
use super::reactor::Slots;
use super::server::Duty;
use super::{Owner, SimpleQuery, Worker};
use pooling::conversation::{Aside, ClientSide, Event, Own, Passage, Violation};
use pooling::parameters::Origin;
use settings::PoolMode;
use std::sync::Arc;
use wire::backend::{ErrorFields, ParameterStatus, TransactionStatus};
use wire::frontend::tag;
use wire::{Header, SqlState, WireError};

/// How far a relay got, and why it stopped.
enum Stop {
    /// All bytes have gone their way.
    Done,
    /// The bytes from here on are part of a message that has to be whole.
    Incomplete {
        from: usize,
        /// So many bytes from there on are needed to go on.
        wants: usize,
    },
    /// The client needs a server connection for the message that begins here.
    NeedsServer(usize),
    /// The client says good-bye.
    Terminate,
    /// A Query where disable_pqexec forbids it.
    SimpleQuery,
    Broken(Violation),
}

impl Worker {
    pub(super) fn relay(&mut self, owner: Owner, bytes: &[u8], source: Source<'_>, slots: &Slots) {
        match owner {
            Owner::Client(index) => self.relay_client(index, bytes, source, slots),
            Owner::Server(index) => self.relay_server(index, bytes, source, slots),
        }
    }

    fn relay_client(&mut self, index: usize, bytes: &[u8], source: Source<'_>, slots: &Slots) {
        let mut at = 0;
        loop {
            let stop = match self.clients[index].phase {
                Phase::Idle => self.idle_client(index, bytes, at),
                Phase::Leased(server) => {
                    self.leased_client(index, server, bytes, at, source, slots)
                }
                Phase::Waiting { .. } => Stop::Incomplete { from: at, wants: 0 },
                Phase::Leaving => Stop::Done,
            };
            match stop {
                Stop::Done => return self.client_settled(index),
                Stop::Incomplete { from, wants } => {
                    return self.clients[index].connection.keep(&bytes[from..], wants);
                }
                Stop::NeedsServer(from) => {
                    at = from;
                    self.check_out(index);
                }
                Stop::Terminate => return self.client_gone(index, "client close request"),
                Stop::SimpleQuery => {
                    let text = "the simple query protocol is disabled (disable_pqexec)";
                    return self.dismiss(index, SqlState::FEATURE_NOT_SUPPORTED, text);
                }
                Stop::Broken(violation) => return self.client_violation(index, &violation),
            }
        }
    }

    /// What the client said may have been nothing that the server answers (a lone Flush): then its lease ends here.
    fn client_settled(&mut self, index: usize) {
        if let Phase::Leased(server) = self.clients[index].phase
            && self.servers[server].conversation.is_settled()
        {
            self.settled(server);
        }
    }

    /// What an idle client says without needing a server connection: nothing, good-bye, or the rest of a COPY that has failed, which the
    /// server would ignore as well. (Protocol: "COPY Operations")
    fn idle_client(&mut self, index: usize, bytes: &[u8], mut at: usize) -> Stop {
        let connection = &mut self.clients[index].connection;
        loop {
            let (Transit::Drop(left) | Transit::Pass(left)) = connection.transit;
            let dropped = left.min(bytes.len() - at);
            connection.transit = Transit::Drop(left - dropped);
            at += dropped;
            match Header::peek(&bytes[at..]) {
                Ok(None) if at == bytes.len() => return Stop::Done,
                Ok(None) => {
                    return Stop::Incomplete {
                        from: at,
                        wants: Header::SIZE,
                    };
                }
                Ok(Some(header)) => match header.tag {
                    tag::TERMINATE => return Stop::Terminate,
                    tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {
                        connection.transit = Transit::Drop(header.total())
                    }
                    _ => return Stop::NeedsServer(at),
                },
                Err(error) => return Stop::Broken(error.into()),
            }
        }
    }

    fn leased_client(
        &mut self,
        index: usize,
        server: usize,
        bytes: &[u8],
        mut at: usize,
        source: Source<'_>,
        slots: &Slots,
    ) -> Stop {
        let Worker {
            clients,
            servers,
            pools,
            outbox,
            aside,
            limits,
            ..
        } = self;
        let (client, server_index) = (&mut clients[index], server);
        let server = &mut servers[server];
        let Some(pool) = pools[client.permit.pool().id.0 as usize].as_deref_mut() else {
            return Stop::Done;
        };
        pool.totals.bytes_received += (bytes.len() - at) as u64;
        let token = Owner::Server(server_index).token();
        let client_token = Owner::Client(index).token();
        let mut from = at; // where the bytes begin that are passed on next
        let stop = loop {
            if let Transit::Pass(left) = client.connection.transit
                && left > 0
            {
                let passed = left.min(bytes.len() - at);
                client.connection.transit = Transit::Pass(left - passed);
                at += passed;
                if left > passed {
                    break Stop::Done;
                }
            }
            let header = match Header::peek(&bytes[at..]) {
                Ok(Some(header)) => header,
                Ok(None) if at == bytes.len() => break Stop::Done,
                Ok(None) => {
                    break Stop::Incomplete {
                        from: at,
                        wants: Header::SIZE,
                    };
                }
                Err(error) => break Stop::Broken(error.into()),
            };
            if header.tag == tag::TERMINATE {
                break Stop::Terminate;
            }
            if header.tag == tag::QUERY && limits.simple_query == SimpleQuery::Refused {
                break Stop::SimpleQuery;
            }
            if header.len as usize > limits.packet_max {
                break Stop::Broken(WireError::Length(header.len).into());
            }
            let was_settled = server.conversation.is_settled();
            let side = ClientSide {
                statements: &mut client.statements,
                cache: &mut pool.statements,
            };
            let passage = server.conversation.client_message(
                side,
                header,
                &bytes[at + Header::SIZE..],
                aside,
            );
            let skip = match passage {
                Ok(Passage::Pass { skip }) => skip,
                Ok(Passage::Incomplete) => {
                    let wants = wanted(header, bytes.len() - at);
                    break Stop::Incomplete { from: at, wants };
                }
                Err(violation) => break Stop::Broken(violation),
            };
            if was_settled {
                server.transaction_at = self.now;
            }
            count(&mut pool.totals, header.tag);
            server.request_at = self.now;
            if skip > 0 || !aside.to_server.is_empty() {
                outbox.pass(
                    &mut server.connection.ticket,
                    token,
                    source,
                    from,
                    at - from,
                    slots,
                );
                outbox.say(&mut server.connection.ticket, token, &aside.to_server);
                aside.to_server.clear();
                from = at + skip;
            }
            if !aside.to_client.is_empty() {
                outbox.say(
                    &mut client.connection.ticket,
                    client_token,
                    &aside.to_client,
                );
                aside.to_client.clear();
            }
            at += skip;
            client.connection.transit = Transit::Pass(header.total() - skip);
        };
        let end = at.max(from);
        outbox.pass(
            &mut server.connection.ticket,
            token,
            source,
            from,
            end - from,
            slots,
        );
        stop
    }

    fn relay_server(&mut self, index: usize, bytes: &[u8], source: Source<'_>, slots: &Slots) {
        match self.server_messages(index, bytes, source, slots) {
            Stop::Incomplete { from, wants } => {
                self.servers[index].connection.keep(&bytes[from..], wants);
            }
            Stop::Broken(violation) => {
                tracing::error!(server = self.servers[index].id, %violation, "server broke the protocol");
                return self.server_lost(
                    index,
                    SqlState::PROTOCOL_VIOLATION,
                    "server broke the protocol",
                );
            }
            _ => {}
        }
        let server = &self.servers[index];
        let abandoned = matches!(server.duty, Duty::Abandoned { .. });
        if server.conversation.is_settled() || server.conversation.is_doubtful() || abandoned {
            self.settled(index);
        }
    }

    fn server_messages(
        &mut self,
        index: usize,
        bytes: &[u8],
        source: Source<'_>,
        slots: &Slots,
    ) -> Stop {
        let mut from = 0;
        let mut at = 0;
        let mut aside = std::mem::take(&mut self.aside);
        let stop = loop {
            let server = &mut self.servers[index];
            at += in_transit(&mut server.connection.transit, &mut from, at, bytes.len());
            if !server.connection.transit.is_over() {
                break Stop::Done;
            }
            let header = match Header::peek(&bytes[at..]) {
                Ok(Some(header)) => header,
                Ok(None) if at == bytes.len() => break Stop::Done,
                Ok(None) => {
                    break Stop::Incomplete {
                        from: at,
                        wants: Header::SIZE,
                    };
                }
                Err(error) => break Stop::Broken(error.into()),
            };
            let body = &bytes[at + Header::SIZE..];
            let client = server
                .client()
                .map(|client| &mut self.clients[client].statements);
            let reply = match server
                .conversation
                .server_message(client, header, body, &mut aside)
            {
                Ok(reply) => reply,
                Err(violation) => break Stop::Broken(violation),
            };
            let Passage::Pass { skip } = reply.passage else {
                break Stop::Incomplete {
                    from: at,
                    wants: header.total(),
                };
            };
            if reply.event != Event::Nothing {
                self.on_event(
                    index,
                    reply.event,
                    body.get(..header.body()).unwrap_or(body),
                    &mut aside,
                );
            }
            if skip > 0 || !aside.to_client.is_empty() {
                self.pass_to_client(index, source, from..at, slots);
                self.say_to_client(index, &mut aside);
                from = at;
            }
            // What comes while there is no client is for nobody, also if its end comes when there is one.
            let server = &mut self.servers[index];
            server.connection.transit = if skip > 0 || server.client().is_none() {
                Transit::Drop(header.total())
            } else {
                Transit::Pass(header.total())
            };
        };
        let end = at.max(from);
        self.pass_to_client(index, source, from..end, slots);
        aside.to_client.clear();
        self.aside = aside;
        stop
    }

    fn pass_to_client(
        &mut self,
        index: usize,
        source: Source<'_>,
        range: std::ops::Range<usize>,
        slots: &Slots,
    ) {
        let Some(client) = self.servers[index].client() else {
            return;
        };
        let pool = self.servers[index].pool_id();
        if let Some(pool) = self.pool(pool) {
            pool.totals.bytes_sent += range.len() as u64;
        }
        let ticket = &mut self.clients[client].connection.ticket;
        self.outbox.pass(
            ticket,
            Owner::Client(client).token(),
            source,
            range.start,
            range.len(),
            slots,
        );
    }

    fn say_to_client(&mut self, index: usize, aside: &mut Aside) {
        if let Some(client) = self.servers[index].client() {
            let ticket = &mut self.clients[client].connection.ticket;
            self.outbox
                .say(ticket, Owner::Client(client).token(), &aside.to_client);
        }
        aside.to_client.clear();
    }

    fn on_event(&mut self, index: usize, event: Event, body: &[u8], aside: &mut Aside) {
        match event {
            Event::Nothing => {}
            Event::Ready => {
                self.on_ready(index);
                self.end_reset(index, aside);
            }
            Event::ParameterStatus { own } => self.on_parameter(index, body, own, aside),
            Event::SessionReset => {
                let server = &mut self.servers[index];
                let kept = server.parameters.without_startup();
                server.parameters = self.shared.interner.intern(kept);
                server.went_back = server.client().map(|_| Vec::new());
            }
            Event::OwnFailed(own) => self.own_failed(index, own, body),
            Event::OwnDone { own, failed } => self.own_done(index, own, failed),
        }
    }

    fn on_ready(&mut self, index: usize) {
        let now = self.now;
        let server = &mut self.servers[index];
        server.ready_at = now;
        let idle = server.conversation.status() == TransactionStatus::Idle;
        let (query, transaction) = (
            now.since(server.request_at),
            now.since(server.transaction_at),
        );
        let pool = server.pool_id();
        let Some(pool) = self.pool(pool) else { return };
        pool.totals.queries += 1;
        pool.totals.query_time += query.as_micros() as u64;
        if idle {
            pool.totals.transactions += 1;
            pool.totals.transaction_time += transaction.as_micros() as u64;
        } else if pool.settings.mode == PoolMode::Statement {
            self.forbid_transaction(index);
        }
    }

    /// RESET and DISCARD ALL put parameters back to what the server connection logged in with. The client means what it asked for itself
    /// when it logged in: it hears so after the server's word, and the next lease puts it on the server. In session mode there is none.
    fn end_reset(&mut self, index: usize, aside: &mut Aside) {
        let server = &mut self.servers[index];
        let (Some(went_back), Some(client)) = (server.went_back.take(), server.client()) else {
            return;
        };
        let parameters = &self.clients[client].parameters;
        for name in &went_back {
            let value = parameters.value(name).unwrap_or_default();
            wire::write::parameter_status(&mut aside.to_client, name.as_bytes(), value.as_bytes());
        }
        let keeps_lease = server.pool.settings.load().mode == PoolMode::Session;
        if keeps_lease
            && server.conversation.is_settled()
            && !Arc::ptr_eq(parameters, &server.parameters)
        {
            self.replay(index, client);
        }
    }

    fn forbid_transaction(&mut self, index: usize) {
        if let Duty::Leased { client } = self.servers[index].duty {
            self.dismiss(
                client,
                SqlState::FEATURE_NOT_SUPPORTED,
                "transaction blocks are not allowed in statement pooling mode",
            );
        }
    }

    /// A parameter of the client's cannot be put on a server connection: on a connection of its own it would not have got in.
    fn own_failed(&mut self, index: usize, own: Own, body: &[u8]) {
        let fields = ErrorFields::parse(body).ok();
        let sqlstate = fields
            .as_ref()
            .and_then(ErrorFields::sqlstate)
            .unwrap_or(SqlState::PROTOCOL_VIOLATION);
        let text = fields
            .as_ref()
            .and_then(|fields| fields.get(b'M'))
            .unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        tracing::warn!(
            server = self.servers[index].id,
            ?own,
            "the server refused the pooler's own query: {text}"
        );
        if own == Own::Replay {
            self.replay_failed(index, sqlstate, &text);
        }
    }

    /// The replay, one Query, has been undone as a whole. The client goes; its first message is cleaned up like any abandoned work.
    fn replay_failed(&mut self, index: usize, sqlstate: SqlState, text: &str) {
        let server = &mut self.servers[index];
        let client = server.client();
        if let Some(before) = server.before_replay.take() {
            server.parameters = before;
        }
        if let Some(client) = client {
            self.dismiss(client, sqlstate, text);
        }
    }

    /// A reported parameter has changed: on the server connection, and for the client that holds it.
    fn on_parameter(&mut self, index: usize, body: &[u8], own: bool, aside: &mut Aside) {
        let Ok(ParameterStatus { name, value }) = ParameterStatus::parse(body) else {
            return;
        };
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return;
        };
        let server = &mut self.servers[index];
        if server.parameters.value(name) != Some(value) {
            server.parameters =
                self.shared
                    .interner
                    .intern(server.parameters.with(name, value, Origin::Reported));
        }
        if name == "session_authorization" {
            let changed = value != &*server.pool.server_user;
            server.blemish = changed.then_some("a client has changed its session authorization");
        }
        let Some(client) = server.client() else {
            return;
        };
        let client = &mut self.clients[client];
        let mut value = value;
        if let Some(went_back) = &mut server.went_back
            && server.at_login.value(name) == Some(value)
            && let Some(own_value) = client.at_login.value(name)
            && own_value != value
        {
            went_back.push(name.into());
            value = own_value;
        }
        if client.parameters.value(name) != Some(value) {
            client.parameters =
                self.shared
                    .interner
                    .intern(client.parameters.with(name, value, Origin::Reported));
            if own {
                wire::write::parameter_status(
                    &mut aside.to_client,
                    name.as_bytes(),
                    value.as_bytes(),
                );
            }
        }
        if *client.parameters == *server.parameters {
            client.parameters = Arc::clone(&server.parameters);
        }
    }
}

/// Of a Bind only the names have to be there, and only it knows where they end; other messages have to be whole.
fn wanted(header: Header, arrived: usize) -> usize {
    if header.tag == tag::BIND {
        arrived + 1
    } else {
        header.total()
    }
}

/// Moves over the rest of a message in transit; gives how many bytes.
fn in_transit(transit: &mut Transit, from: &mut usize, at: usize, len: usize) -> usize {
    match *transit {
        Transit::Pass(left) => {
            let passed = left.min(len - at);
            *transit = Transit::Pass(left - passed);
            passed
        }
        Transit::Drop(left) => {
            let dropped = left.min(len - at);
            *transit = if left == dropped {
                Transit::NONE
            } else {
                Transit::Drop(left - dropped)
            };
            *from = at + dropped;
            dropped
        }
    }
}

fn count(totals: &mut crate::report::Totals, message: u8) {
    match message {
        tag::PARSE => totals.client_parses += 1,
        tag::BIND => totals.binds += 1,
        _ => {}
    }
}
