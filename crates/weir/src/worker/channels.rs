//! LISTEN and NOTIFY where server connections are shared: a client's channels change from its own server connection to the pool's shared
//! listener, which is a connection of the control thread's (`control/shared_listener`), and what that brings goes to the clients that want it: whenever they
//! are outside of a transaction and nothing of their own is under way. How channels change is said in `handover`.

mod handover;
mod subscriptions;

pub use handover::Handover;
pub use subscriptions::Subscriptions;

use super::client::{Client, Phase};
use super::{Owner, Worker};
use crate::shared::{Brought, ToControl};
use pooling::channels::{Given, Name, Notification};
use pooling::conversation::Aside;
use pooling::ledger::PoolId;
use subscriptions::Wanted;
use wire::SqlState;

/// Bytes said to clients before they are sent.
const SAID_MAX: usize = 256 * 1024;

impl Worker {
    /// The client wants these no more; the shared listener hears what nobody here wants.
    fn unsubscribe(&mut self, client: usize, names: Vec<Name>) {
        let (id, worker) = (self.clients[client].pool(), self.index);
        let Some(pool) = self.pool(id) else { return };
        let subscriptions = &mut pool.subscriptions;
        let channels: Vec<Name> = names
            .into_iter()
            .filter(|name| subscriptions.remove(name, client) == Wanted::NoMore)
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
        let given = match &mut client.channels {
            Some(channels) => channels.leased(notification, server.pid()),
            None => Given::Now,
        };
        let has_evidence = server.conversation.has_evidence();
        let settles = has_evidence || server.census.is_some() || server.handover.is_under_way();
        match (given, &mut client.channels) {
            (Given::Not, _) => return,
            (Given::New(notification), Some(channels)) if settles => {
                return channels.hold(notification);
            }
            // What waits may be of channels that the transaction has left: then a census is going to tell.
            (Given::Behind(count), Some(channels)) if !has_evidence => {
                channels.take_front(count, &mut aside.to_client);
            }
            _ => {}
        }
        aside.to_client.append(&mut message);
    }

    /// The shared listener brings a notification.
    pub(super) fn brought(&mut self, id: PoolId, brought: &Brought) {
        let notification = &brought.notification;
        let Some(pool) = self.pool(id) else { return };
        if pool.subscriptions.is_marker(&notification.channel) {
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

    pub(super) fn listener_lost(&mut self, id: PoolId) {
        let Some(pool) = self.pool(id) else { return };
        for client in pool.subscriptions.everybody() {
            if let Some(channels) = &mut self.clients[client].channels {
                channels.lost();
            }
        }
    }

    /// The shared listener listens again.
    pub(super) fn listener_restored(&mut self, id: PoolId) {
        let Some(pool) = self.pool(id) else { return };
        for client in pool.subscriptions.everybody() {
            if let Some(channels) = &mut self.clients[client].channels {
                channels.restored();
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
        let waits = of.channels.as_ref().is_some_and(|it| it.has_waiting());
        if !waits || of.connection.is_congested() {
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
}

impl Client {
    /// The channels that it listens to through the shared listener, as SHOW LISTENERS has them, and the bytes that wait for it.
    pub fn listens(&self) -> Option<(String, usize)> {
        let channels = self.channels.as_ref()?;
        let names: Vec<_> = channels
            .names()
            .map(|name| String::from_utf8_lossy(name))
            .collect();
        Some((names.join(", "), channels.waiting()))
    }
}
