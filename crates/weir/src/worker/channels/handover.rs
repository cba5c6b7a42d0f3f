//! How what a server connection listens to gets to the pool's shared listener, step by step. Why nothing is lost by that and nothing comes twice is said in
//! `pooling::channels`.
//!
//! 1. A census finds channels on a client's server connection ([`Worker::channels_found`]): the control thread is asked to listen to them. The
//!    client keeps the connection meanwhile, and what it says next waits.
//! 2. It does ([`Worker::listened_to`]): the server connection gets the marker. If it cannot, the client is pinned to its connection.
//! 3. The marker has come back ([`Worker::marked`]): `UNLISTEN *`. When that is answered, the lease ends as any other.

use crate::shared::{Lent, ToControl};
use crate::worker::server::{Duty, Server, ServerKey};
use crate::worker::{Owner, Worker};
use pooling::census::Pins;
use pooling::channels::{Marker, Name, Notification, is_same_encoding, write_listen};
use pooling::conversation::Own;
use pooling::ledger::PoolId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often a client that is pinned since nobody could listen for it is looked at again.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// How far a server connection's channels are on their way to the shared listener.
#[derive(Default)]
pub enum Handover {
    /// There are none.
    #[default]
    None,
    /// The control thread has been asked to listen.
    Asked(Box<Request>),
    /// It does, and the server connection has been given the marker.
    Marking(Box<Request>),
    /// The server connection has brought the marker.
    Marked(Box<Request>, Marker),
    /// All that it listens to comes from the shared listener, too.
    Due,
    /// It has been told to listen to nothing.
    Unlistening,
}

/// What happens if nobody can listen for the client: it is pinned, for these reasons.
pub struct Request {
    ticket: u64,
    pins: Pins,
    statement: Box<str>,
}

impl Handover {
    fn request(&self) -> Option<&Request> {
        match self {
            Handover::Asked(request)
            | Handover::Marking(request)
            | Handover::Marked(request, _) => Some(request),
            Handover::None | Handover::Due | Handover::Unlistening => None,
        }
    }

    /// The client has to wait.
    pub fn is_under_way(&self) -> bool {
        !matches!(self, Handover::None)
    }
}

impl Worker {
    /// A census has found that the client's server connection listens to these. Gives what pins the client nevertheless.
    pub(in crate::worker) fn channels_found(
        &mut self,
        index: usize,
        client: usize,
        found: BTreeSet<Name>,
        (pins, statement): (Pins, &str),
    ) -> Pins {
        let server = &mut self.servers[index];
        let recalled = server.conversation.has_recalled();
        if found.is_empty() && self.clients[client].channels.is_none() {
            return pins;
        }
        if !server.conversation.is_settled() {
            // The client has gone on: it is asked again when that is over.
            server.conversation.look_again_at_channels(statement);
            return pins.without(Pins::LISTEN);
        }
        let listens = !found.is_empty();
        let channels = self.clients[client].channels.get_or_insert_default();
        let change = channels.settle(found, recalled);
        self.unsubscribe(client, change.gone);
        if change.new.is_empty() {
            if listens {
                self.servers[index].handover = Handover::Due;
            }
        } else if self.speaks_as_the_listener(client) {
            self.ask_to_listen(index, client, change.new, (pins, statement));
        } else {
            self.listen_alone(index, client);
            return pins;
        }
        pins.without(Pins::LISTEN)
    }

    /// PostgreSQL converts names and payloads to the encoding of who listens.
    fn speaks_as_the_listener(&self, client: usize) -> bool {
        const ENCODING: &str = "client_encoding";
        let client = &self.clients[client];
        let welcome = client.permit.pool().welcome.load();
        let listeners = welcome.as_ref().and_then(|it| it.value(ENCODING));
        match (listeners, client.parameters.value(ENCODING)) {
            (Some(listeners), Some(own)) => is_same_encoding(listeners, own),
            (listeners, own) => listeners == own,
        }
    }

    fn ask_to_listen(
        &mut self,
        index: usize,
        client: usize,
        names: Vec<Name>,
        (pins, statement): (Pins, &str),
    ) {
        let ticket = self.next_ticket();
        let of = &mut self.clients[client];
        let channels = of.channels.get_or_insert_default();
        channels.join(ticket, names.iter().cloned());
        let id = of.pool();
        if let Some(pool) = self.pool(id) {
            let subscriptions = &mut pool.subscriptions;
            names
                .iter()
                .for_each(|name| subscriptions.add(name, client));
        }
        let request = Request {
            ticket,
            pins,
            statement: statement.into(),
        };
        self.ask(index, client, Box::new(request), names);
    }

    fn ask(&mut self, index: usize, client: usize, request: Box<Request>, channels: Vec<Name>) {
        let server = &mut self.servers[index];
        let ticket = request.ticket;
        server.handover = Handover::Asked(request);
        self.shared.tell_control(ToControl::Listen {
            pool: Arc::clone(self.clients[client].permit.pool()),
            worker: self.index,
            server: server.key(index),
            ticket,
            channels,
        });
    }

    fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// The control thread's answer: the channel of the markers, if it listens.
    pub(in crate::worker) fn listened_to(
        &mut self,
        key: ServerKey,
        ticket: u64,
        marker: Option<Arc<str>>,
    ) {
        let index = key.index as usize;
        let asked = |server: &&mut Server| {
            server.serial == key.serial
                && server.handover.request().map(|it| it.ticket) == Some(ticket)
        };
        let Some(server) = self.servers.get_mut(index).filter(asked) else {
            return;
        };
        let Handover::Asked(request) = std::mem::take(&mut server.handover) else {
            return;
        };
        let Some(client) = server.client() else {
            return;
        };
        match marker {
            Some(channel) => self.mark(index, client, request, channel),
            None => {
                self.pin_listening(index, client, *request);
                self.settled(index);
            }
        }
    }

    fn mark(&mut self, index: usize, client: usize, request: Box<Request>, channel: Arc<str>) {
        let mut sql = Vec::new();
        write_listen(&mut sql, channel.as_bytes());
        sql.extend_from_slice(b"NOTIFY ");
        wire::quote_identifier(&mut sql, channel.as_bytes());
        let payload = marker_payload(self.index, request.ticket, client);
        sql.extend_from_slice(format!(",'{payload}'").as_bytes());
        let server = &mut self.servers[index];
        server.handover = Handover::Marking(request);
        let id = server.pool_id();
        if let Some(pool) = self.pool(id) {
            pool.subscriptions.set_marker(channel);
        }
        self.say_own_query(index, Own::Mark, &sql);
    }

    /// There is no place for a shared listener: the client's server connection, which listens already, becomes it, if that has nothing else to keep it for.
    pub(in crate::worker) fn lend_server(
        &mut self,
        key: ServerKey,
        ticket: u64,
        answer: oneshot::Sender<Box<Lent>>,
    ) {
        let index = key.index as usize;
        let Some(server) = self.servers.get(index) else {
            return;
        };
        let asked = matches!(&server.handover, Handover::Asked(it) if it.ticket == ticket && it.pins == Pins::LISTEN);
        let fit =
            server.serial == key.serial && server.cancels == 0 && !server.connection.is_congested();
        let Some(client) = server.client().filter(|_| asked && fit) else {
            return;
        };
        self.servers[index].duty = Duty::Held;
        if let Some(channels) = &mut self.clients[client].channels {
            channels.lent(ticket);
        }
        self.clients[client].pin = None;
        self.end_lease(client);
        self.resumed.push(client);
        self.reactor.deregister(&self.servers[index].connection.fd);
        let server = self.servers.remove(index);
        if let Err(unwanted) = answer.send(Box::new(server.lend())) {
            drop(unwanted);
        }
    }

    /// The marker's query is answered: by then the marker has come, ahead of ReadyForQuery.
    pub(in crate::worker) fn marked(&mut self, index: usize, failed: bool) {
        let server = &mut self.servers[index];
        let Some(client) = server.client() else {
            return;
        };
        match std::mem::take(&mut server.handover) {
            Handover::Marked(_, Marker::Divides) if !failed => server.handover = Handover::Due,
            Handover::Marked(request, Marker::Void) if !failed => {
                self.mark_again(index, client, request);
            }
            Handover::Marked(request, _) | Handover::Marking(request) => {
                self.pin_listening(index, client, *request);
            }
            _ => {}
        }
    }

    fn mark_again(&mut self, index: usize, client: usize, mut request: Box<Request>) {
        let ticket = self.next_ticket();
        let channels = self.clients[client].channels.get_or_insert_default();
        let names = channels.join_again(request.ticket, ticket);
        request.ticket = ticket;
        self.ask(index, client, request, names);
    }

    /// True if it is a marker, this client's or another's.
    pub(super) fn takes_marker(
        &mut self,
        index: usize,
        client: usize,
        notification: &Notification,
    ) -> bool {
        let server = &mut self.servers[index];
        let pool = self.pools[server.pool_id().0 as usize].as_deref();
        if !pool.is_some_and(|pool| pool.subscriptions.is_marker(&notification.channel)) {
            return false;
        }
        match std::mem::take(&mut server.handover) {
            Handover::Marking(request)
                if marker_payload(self.index, request.ticket, client).as_bytes()
                    == &*notification.payload =>
            {
                let channels = self.clients[client].channels.get_or_insert_default();
                let marker = channels.leased_marker(request.ticket);
                server.handover = Handover::Marked(request, marker);
            }
            other => server.handover = other,
        }
        true
    }

    /// The shared listener has brought a marker.
    pub(super) fn shared_marker(&mut self, id: PoolId, payload: &[u8]) {
        let Some((ticket, client)) = parse_marker(payload, self.index) else {
            return;
        };
        let of = self.clients.get_mut(client);
        if let Some(of) = of.filter(|of| of.pool() == id)
            && let Some(channels) = &mut of.channels
        {
            channels.shared_marker(ticket);
            self.give_waiting(client);
        }
    }

    /// Where a lease may end: takes the next step towards a server connection that listens to nothing. True if there is one.
    pub(in crate::worker) fn hand_over_channels(&mut self, index: usize) -> bool {
        let server = &mut self.servers[index];
        match server.handover {
            Handover::None if !server.conversation.has_recalled() => return false,
            Handover::None | Handover::Due => {}
            _ => return true,
        }
        server.handover = Handover::Unlistening;
        self.say_own_query(index, Own::Unlisten, b"UNLISTEN *");
        true
    }

    pub(in crate::worker) fn unlistened(&mut self, index: usize, failed: bool) {
        let server = &mut self.servers[index];
        server.handover = Handover::None;
        server.conversation.end_recall();
        if failed {
            server.blemish = Some("it listens to what nobody wants any more");
        }
        if let Some(client) = server.client() {
            self.resumed.push(client);
        }
    }

    /// Nobody else can listen for the client.
    fn pin_listening(&mut self, index: usize, client: usize, request: Request) {
        self.listen_alone(index, client);
        self.resumed.push(client);
        let mut pins = request.pins;
        pins |= Pins::LISTEN;
        self.pin(index, client, pins, request.statement);
    }

    /// All of the client's channels are left to its server connection. Nothing divides what that brings of those that the shared listener has brought
    /// from what that would have.
    fn listen_alone(&mut self, index: usize, client: usize) {
        let Some(mut channels) = self.clients[client].channels.take() else {
            return;
        };
        let mut waiting = Vec::new();
        channels.lost();
        channels.restored();
        channels.take(&mut waiting);
        let ticket = &mut self.clients[client].connection.ticket;
        let token = Owner::Client(client).token();
        self.outbox.say(ticket, token, &waiting);
        let names = channels.names().cloned().collect();
        self.unsubscribe(client, names);
        let server = &mut self.servers[index];
        let recalled = server.conversation.has_recalled();
        server.conversation.end_recall();
        if let Some(sql) = channels.recall().filter(|_| !recalled) {
            self.say_own_query(index, Own::Recall, sql);
        }
    }

    /// Clients that are pinned since nobody could listen for them: somebody may be able to now.
    pub(in crate::worker) fn sweep_listening(&mut self) {
        if self.now.since(self.listening_swept_at) < TRY_AGAIN {
            return;
        }
        self.listening_swept_at = self.now;
        let pinned = |server: &Server| match server.duty {
            Duty::Leased { client } => {
                let pins = self.clients[client].pins();
                pins.contains(Pins::LISTEN) && server.conversation.is_settled()
            }
            _ => false,
        };
        let servers: Vec<usize> = self
            .servers
            .iter()
            .filter(|(_, server)| pinned(server))
            .map(|(index, _)| index)
            .collect();
        for index in servers {
            self.servers[index].conversation.look_again();
            self.settled(index);
        }
    }
}

/// Names the request, and whose it is, among all workers.
fn marker_payload(worker: usize, ticket: u64, client: usize) -> String {
    format!("{worker}.{ticket}.{client}")
}

/// The ticket and the client in a marker of this worker's.
fn parse_marker(payload: &[u8], worker: usize) -> Option<(u64, usize)> {
    let mut parts = std::str::from_utf8(payload).ok()?.split('.');
    let of: usize = parts.next()?.parse().ok()?;
    let ticket = parts.next()?.parse().ok()?;
    let client = parts.next()?.parse().ok()?;
    (of == worker).then_some((ticket, client))
}
