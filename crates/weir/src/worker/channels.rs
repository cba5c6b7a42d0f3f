//! LISTEN and NOTIFY where server connections are shared: a client's channels change from its own server connection to the pool's shared
//! listener, which is a connection of the control thread's (`control/shared_listener`), and what that brings goes to the clients that want it.
//! Why nothing is lost by that and nothing comes twice is said in `pooling::channels`; here are its steps, in order.
//!
//! 1. A census finds channels on a client's server connection ([`Worker::channels_found`]): the control thread is asked to listen to them. The
//!    client keeps the connection meanwhile, and what it says next waits.
//! 2. It does ([`Worker::listened_to`]): the server connection gets the marker. If it cannot, the client is pinned to its connection.
//! 3. The marker has come back: `UNLISTEN *`. When that is answered, the lease ends as any other.
//!
//! A client gets what waits for it whenever it is outside of a transaction and nothing of its own is under way.

use super::client::Phase;
use super::server::{Duty, Server, ServerKey};
use super::{Owner, Worker};
use crate::shared::{Brought, Lent, ToControl};
use pooling::census::Pins;
use pooling::channels::{Channels, Given, Name, Notification, write_listen};
use pooling::conversation::{Aside, Own};
use pooling::ledger::PoolId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use wire::SqlState;

/// Bytes said to clients before they are sent.
const SAID_MAX: usize = 256 * 1024;
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
    Marked(Box<Request>),
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
            Handover::Asked(request) | Handover::Marking(request) | Handover::Marked(request) => {
                Some(request)
            }
            Handover::None | Handover::Due | Handover::Unlistening => None,
        }
    }

    /// The client has to wait.
    pub fn is_under_way(&self) -> bool {
        !matches!(self, Handover::None)
    }
}

/// One worker's part in a pool's shared listener.
#[derive(Default)]
pub struct Subscriptions {
    by_channel: FxHashMap<Name, Vec<usize>>,
    /// The channel of the markers, once the shared listener has told it.
    marker: Option<Arc<str>>,
}

impl Subscriptions {
    fn add(&mut self, name: &Name, client: usize) {
        let clients = self.by_channel.entry(name.clone()).or_default();
        if !clients.contains(&client) {
            clients.push(client);
        }
    }

    /// True if nobody here wants the channel any more.
    fn remove(&mut self, name: &Name, client: usize) -> bool {
        let Some(clients) = self.by_channel.get_mut(name) else {
            return false;
        };
        clients.retain(|other| *other != client);
        let unwanted = clients.is_empty();
        if unwanted {
            self.by_channel.remove(name);
        }
        unwanted
    }

    fn of(&self, channel: &[u8]) -> Vec<usize> {
        self.by_channel.get(channel).cloned().unwrap_or_default()
    }

    fn everybody(&self) -> BTreeSet<usize> {
        self.by_channel.values().flatten().copied().collect()
    }
}

impl Worker {
    /// A census has found that the client's server connection listens to these. Gives what pins the client nevertheless.
    pub(super) fn channels_found(
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
        listeners == client.parameters.value(ENCODING)
    }

    fn ask_to_listen(
        &mut self,
        index: usize,
        client: usize,
        names: Vec<Name>,
        (pins, statement): (Pins, &str),
    ) {
        self.tickets += 1;
        let ticket = self.tickets;
        let of = &mut self.clients[client];
        let pool = Arc::clone(of.permit.pool());
        of.channels
            .get_or_insert_default()
            .join(ticket, names.iter().cloned());
        if let Some(local) = self.pool(pool.id) {
            names
                .iter()
                .for_each(|name| local.subscriptions.add(name, client));
        }
        let server = &mut self.servers[index];
        server.handover = Handover::Asked(Box::new(Request {
            ticket,
            pins,
            statement: statement.into(),
        }));
        let key = server.key(index);
        self.shared.tell_control(ToControl::Listen {
            pool,
            worker: self.index,
            server: key,
            ticket,
            channels: names,
        });
    }

    /// The control thread's answer: the channel of the markers, if it listens.
    pub(super) fn listened_to(&mut self, key: ServerKey, ticket: u64, marker: Option<Arc<str>>) {
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
            None => {
                self.pin_listening(index, client, &request);
                self.settled(index);
            }
            Some(marker) => {
                let mut sql = Vec::new();
                write_listen(&mut sql, marker.as_bytes());
                sql.extend_from_slice(b"NOTIFY ");
                wire::quote_identifier(&mut sql, marker.as_bytes());
                let payload = self.marker_payload(ticket, client);
                sql.extend_from_slice(format!(",'{payload}'").as_bytes());
                self.servers[index].handover = Handover::Marking(request);
                let id = self.servers[index].pool_id();
                if let Some(pool) = self.pool(id) {
                    pool.subscriptions.marker = Some(marker);
                }
                self.say_own_query(index, Own::Mark, &sql);
            }
        }
    }

    /// There is no place for a shared listener: the client's server connection, which listens already, becomes it, if that has nothing else to keep it for.
    pub(super) fn lend_server(
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
            channels.leased_marker(ticket);
            channels.shared_marker(ticket);
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

    /// Names the request, and whose it is, among all workers.
    fn marker_payload(&self, ticket: u64, client: usize) -> String {
        format!("{}.{ticket}.{client}", self.index)
    }

    /// The marker's query is answered: by then the marker has come, ahead of ReadyForQuery.
    pub(super) fn marked(&mut self, index: usize, failed: bool) {
        let server = &mut self.servers[index];
        let Some(client) = server.client() else {
            return;
        };
        match std::mem::take(&mut server.handover) {
            Handover::Marked(_) if !failed => server.handover = Handover::Due,
            Handover::Marked(request) | Handover::Marking(request) => {
                self.pin_listening(index, client, &request);
            }
            _ => {}
        }
    }

    /// Where a lease may end: takes the next step towards a server connection that listens to nothing. True if there is one.
    pub(super) fn hand_over_channels(&mut self, index: usize) -> bool {
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

    pub(super) fn unlistened(&mut self, index: usize, failed: bool) {
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
    fn pin_listening(&mut self, index: usize, client: usize, request: &Request) {
        self.listen_alone(index, client);
        self.resumed.push(client);
        let mut pins = request.pins;
        pins |= Pins::LISTEN;
        self.pin(index, client, pins, request.statement.clone());
    }

    /// All of the client's channels are left to its server connection.
    fn listen_alone(&mut self, index: usize, client: usize) {
        let Some(mut channels) = self.clients[client].channels.take() else {
            return;
        };
        let mut waiting = Vec::new();
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

    /// The client wants these no more; the shared listener hears what nobody here wants.
    fn unsubscribe(&mut self, client: usize, names: Vec<Name>) {
        let (id, worker) = (self.clients[client].pool(), self.index);
        let Some(pool) = self.pool(id) else { return };
        let subscriptions = &mut pool.subscriptions;
        let channels: Vec<Name> = names
            .into_iter()
            .filter(|name| subscriptions.remove(name, client))
            .collect();
        if !channels.is_empty() {
            self.shared.tell_control(ToControl::Unlisten {
                pool: id,
                worker,
                channels,
            });
        }
        let of = &mut self.clients[client];
        of.channels
            .take_if(|channels| channels.is_empty() && !channels.has_waiting());
    }

    /// The client is gone.
    pub(super) fn forget_channels(&mut self, client: usize) {
        if let Some(channels) = self.clients[client].channels.take() {
            let names = channels.names().cloned().collect();
            self.unsubscribe(client, names);
        }
    }

    /// A client's server connection brings a notification, which has not been passed on.
    pub(super) fn on_notification(&mut self, index: usize, body: &[u8], aside: &mut Aside) {
        let Some(client) = self.servers[index].client() else {
            return;
        };
        let Ok(notification) = Notification::parse(body) else {
            return;
        };
        if self.takes_marker(index, client, &notification) {
            return;
        }
        let (server, client) = (&self.servers[index], &mut self.clients[client]);
        let pid = match notification.pid {
            own if own == server.pid() => client.pid.0,
            other => other,
        };
        let mut message = Vec::new();
        notification.write(pid, &mut message);
        let channels = client.channels.as_mut();
        match channels.map_or(Given::Now, |channels| {
            channels.leased(notification, server.pid())
        }) {
            Given::Not => return,
            Given::Now => {}
            Given::BehindTheQueue if server.conversation.has_evidence() => {}
            Given::BehindTheQueue => {
                if let Some(channels) = &mut client.channels {
                    channels.take(&mut aside.to_client);
                }
            }
        }
        aside.to_client.append(&mut message);
    }

    /// True if it is a marker, this client's or another's.
    fn takes_marker(&mut self, index: usize, client: usize, notification: &Notification) -> bool {
        let server = &mut self.servers[index];
        let pool = self.pools[server.pool_id().0 as usize].as_deref();
        let marker = pool.and_then(|pool| pool.subscriptions.marker.as_ref());
        if marker.is_none_or(|marker| *marker.as_bytes() != *notification.channel) {
            return false;
        }
        match std::mem::take(&mut server.handover) {
            Handover::Marking(request) => {
                let payload = format!("{}.{}.{client}", self.index, request.ticket);
                if *notification.payload != *payload.as_bytes() {
                    server.handover = Handover::Marking(request);
                    return true;
                }
                let ticket = request.ticket;
                server.handover = Handover::Marked(request);
                if let Some(channels) = &mut self.clients[client].channels {
                    channels.leased_marker(ticket);
                }
            }
            other => server.handover = other,
        }
        true
    }

    /// The shared listener brings a notification.
    pub(super) fn brought(&mut self, id: PoolId, brought: &Brought) {
        let notification = &brought.notification;
        let Some(pool) = self.pool(id) else { return };
        let marker = pool.subscriptions.marker.as_ref();
        if marker.is_some_and(|marker| *marker.as_bytes() == *notification.channel) {
            return self.shared_marker(id, &notification.payload);
        }
        let mut said = 0;
        for client in pool.subscriptions.of(&notification.channel) {
            let channels = &mut self.clients[client].channels;
            if channels.as_mut().is_some_and(|it| it.shared(notification)) {
                said += self.give_waiting(client);
                self.bound_waiting(client);
            }
        }
        self.said += said;
        if self.said >= SAID_MAX {
            self.said = 0;
            self.finish_batch();
        }
    }

    fn shared_marker(&mut self, id: PoolId, payload: &[u8]) {
        let Some((ticket, client)) = parse_marker(payload, self.index) else {
            return;
        };
        let of = self.clients.get_mut(client);
        if let Some(of) = of.filter(|of| of.pool() == id)
            && let Some(channels) = &mut of.channels
        {
            channels.shared_marker(ticket);
        }
    }

    /// The shared listener was lost, and listens again.
    pub(super) fn listener_restored(&mut self, id: PoolId) {
        let Some(pool) = self.pool(id) else { return };
        for client in pool.subscriptions.everybody() {
            if let Some(channels) = &mut self.clients[client].channels {
                channels.gap();
            }
            self.give_waiting(client);
        }
    }

    /// A client that is not able to take what comes for it is let go.
    fn bound_waiting(&mut self, client: usize) {
        let channels = self.clients[client].channels.as_ref();
        let waiting = channels.map_or(0, |channels| channels.waiting());
        if waiting > self.limits.listen_queue_max {
            let message = format!(
                "listen_queue_size: {waiting} bytes of notifications wait for a client that does not take them"
            );
            self.dismiss(client, SqlState::CONFIGURATION_LIMIT_EXCEEDED, &message);
        }
    }

    /// Gives the client what waits for it, if this is a moment for that; how many bytes.
    pub(super) fn give_waiting(&mut self, client: usize) -> usize {
        if !self.may_be_notified(client) {
            return 0;
        }
        let of = &mut self.clients[client];
        let Some(channels) = &mut of.channels else {
            return 0;
        };
        let mut messages = Vec::new();
        channels.take(&mut messages);
        of.channels.take_if(|channels| channels.is_empty());
        let token = Owner::Client(client).token();
        self.outbox.say(&mut of.connection.ticket, token, &messages);
        messages.len()
    }

    /// Outside of a transaction, with nothing under way, and able to take it. (Manual: NOTIFY, on when notifications are delivered)
    fn may_be_notified(&self, client: usize) -> bool {
        let of = &self.clients[client];
        if of.connection.is_congested() || !of.channels.as_ref().is_some_and(|it| it.has_waiting())
        {
            return false;
        }
        match of.phase {
            Phase::Idle | Phase::Waiting { .. } => true,
            Phase::Leaving => false,
            Phase::Leased(server) => {
                let server = &self.servers[server];
                server.conversation.is_settled()
                    && server.connection.transit.is_over()
                    && of.connection.transit.is_over()
                    && server.census.is_none()
                    && !server.handover.is_under_way()
                    && !server.conversation.has_recalled()
                    && !server.conversation.has_evidence()
            }
        }
    }

    /// Clients that are pinned since nobody could listen for them: somebody may be able to now.
    pub(super) fn sweep_listening(&mut self) {
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

/// The ticket and the client in a marker of this worker's.
fn parse_marker(payload: &[u8], worker: usize) -> Option<(u64, usize)> {
    let mut parts = std::str::from_utf8(payload).ok()?.split('.');
    let of: usize = parts.next()?.parse().ok()?;
    let ticket = parts.next()?.parse().ok()?;
    let client = parts.next()?.parse().ok()?;
    (of == worker).then_some((ticket, client))
}

impl super::client::Client {
    /// The channels that it listens to through the shared listener, as SHOW LISTENERS has them, and the bytes that wait for it.
    pub fn listens(&self) -> Option<(String, usize)> {
        let channels: &Channels = self.channels.as_ref()?;
        let names: Vec<_> = channels
            .names()
            .map(|name| String::from_utf8_lossy(name))
            .collect();
        Some((names.join(", "), channels.waiting()))
    }
}
