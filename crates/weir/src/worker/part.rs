//! How connections end: a client that leaves, vanishes or is told to go; a server connection that is closed or lost; and what becomes of
//! the other side.

use super::channels::Handover;
use super::client::Phase;
use super::server::Duty;
use super::{Owner, Running, Worker};
use pooling::census::Pins;
use pooling::conversation::Violation;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use wire::{Report, Severity, SqlState};

impl Worker {
    /// The peer has closed its end, or the socket has failed.
    pub(super) fn peer_closed(&mut self, owner: Owner, error: Option<io::Error>) {
        match owner {
            Owner::Client(index) => match error {
                Some(error) => {
                    self.client_gone(index, &format!("client connection failed: {error}"))
                }
                None => self.client_gone(index, "client unexpected eof"),
            },
            Owner::Server(index) if self.servers[index].client().is_some() => {
                self.server_lost(
                    index,
                    SqlState::CONNECTION_FAILURE,
                    "server closed the connection unexpectedly",
                );
            }
            Owner::Server(index) => {
                let reason = error.map_or("server closed the connection".to_owned(), |error| {
                    format!("server connection failed: {error}")
                });
                self.close_server(index, &reason);
            }
        }
    }

    /// The client is no more, whatever it was doing.
    pub(super) fn client_gone(&mut self, index: usize, reason: &str) {
        let phase = std::mem::replace(&mut self.clients[index].phase, Phase::Leaving);
        if phase == Phase::Leaving {
            return;
        }
        if self.limits.log_disconnections {
            let client = &self.clients[index];
            let age = client.age(self.now).as_secs();
            tracing::info!(client = client.id, peer = ?client.peer(), age_s = age, "closing because: {reason}");
        }
        let (id, worker) = (self.clients[index].pool(), self.index);
        if let Some(pool) = self.pool(id) {
            if let Phase::Waiting { .. } = phase {
                pool.forget_waiter(index);
                pool.publish_waiting(worker);
            }
            if let Phase::Leased(_) = phase {
                pool.active_clients -= 1;
            }
        }
        self.forget_channels(index);
        self.leaving.push(Owner::Client(index));
        if let Phase::Leased(server) = phase {
            self.abandon(server, index);
        }
    }

    /// Tells the client why, and lets it go.
    pub(super) fn dismiss(&mut self, index: usize, sqlstate: SqlState, message: &str) {
        self.dismiss_with(index, &Report::new(Severity::Fatal, sqlstate, message));
    }

    pub(super) fn dismiss_with(&mut self, index: usize, report: &Report<'_>) {
        let client = &mut self.clients[index];
        if client.phase == Phase::Leaving {
            return;
        }
        if self.limits.log_pooler_errors {
            tracing::warn!(
                client = client.id,
                sqlstate = report.sqlstate.as_str(),
                "pooler error: {}",
                report.message
            );
        }
        if !self.is_in_mid_message(index) {
            let mut message = Vec::new();
            wire::write::error_response(&mut message, report);
            let ticket = &mut self.clients[index].connection.ticket;
            self.outbox
                .say(ticket, Owner::Client(index).token(), &message);
        }
        self.client_gone(index, report.message);
    }

    /// Part of a server's message has gone to the client: nothing may be said in its middle.
    fn is_in_mid_message(&self, index: usize) -> bool {
        match self.clients[index].phase {
            Phase::Leased(server) => !self.servers[server].connection.transit.is_over(),
            _ => false,
        }
    }

    pub(super) fn client_violation(&mut self, index: usize, violation: &Violation) {
        self.dismiss(index, SqlState::PROTOCOL_VIOLATION, &violation.to_string());
    }

    /// Its client is gone: the query is cancelled, the transaction ended, the connection kept; within a bound.
    fn abandon(&mut self, index: usize, client: usize) {
        let cut_off = !self.clients[client].connection.transit.is_over();
        let server = &mut self.servers[index];
        if server.duty == Duty::Leaving {
            return;
        }
        let bound = self.pools[server.pool_id().0 as usize]
            .as_deref()
            .map(|pool| pool.settings.abandoned_query_timeout);
        server.leave_residue(self.clients[client].pins());
        if server.handover.is_under_way() || server.conversation.has_recalled() {
            server.leave_residue(Pins::LISTEN);
            server.handover = Handover::None;
        }
        server.duty = Duty::Abandoned {
            deadline: self.now.after(bound.unwrap_or_default()),
        };
        self.cancel_abandoned(index);
        if cut_off {
            return self.close_server(index, "client left in the middle of a message");
        }
        let server = &mut self.servers[index];
        server.conversation.wind_up(&mut self.aside.to_server);
        self.outbox.say(
            &mut server.connection.ticket,
            Owner::Server(index).token(),
            &self.aside.to_server,
        );
        self.aside.to_server.clear();
        if server.connection.transit.is_over() {
            self.advance_abandoned(index);
        }
        self.receive_if_allowed(Owner::Server(index));
    }

    /// Cancels what a client that is gone has left running.
    pub(super) fn cancel_abandoned(&mut self, index: usize) {
        let (shared, worker) = (std::sync::Arc::clone(&self.shared), self.index);
        let server = &mut self.servers[index];
        if server.conversation.is_busy() && !server.conversation.is_doubtful() {
            let target = server.cancel_target(&shared, worker, index);
            shared.tell_control(crate::shared::ToControl::Cancel(target));
        }
    }

    /// A cancel request came before PostgreSQL had begun the query, it seems: once more.
    pub(super) fn cancel_unwanted(&mut self, index: usize) {
        let (shared, worker) = (std::sync::Arc::clone(&self.shared), self.index);
        let server = &mut self.servers[index];
        server.cancel_goes_again();
        let target = server.cancel_target(&shared, worker, index);
        shared.tell_control(crate::shared::ToControl::Cancel(target));
    }

    /// The server connection is no more, and its client goes with it: what it had begun cannot be continued elsewhere.
    pub(super) fn server_lost(&mut self, index: usize, sqlstate: SqlState, message: &str) {
        let server = &mut self.servers[index];
        let silent = server.conversation.has_said_goodbye() || !server.connection.transit.is_over();
        if let Some(client) = server.client() {
            server.duty = Duty::Held;
            self.end_lease(client);
            if silent {
                self.client_gone(client, message);
            } else {
                self.dismiss(client, sqlstate, message);
            }
        }
        self.close_server(index, message);
    }

    pub(super) fn close_server(&mut self, index: usize, reason: &str) {
        let server = &mut self.servers[index];
        if server.duty == Duty::Leaving {
            return;
        }
        let duty = std::mem::replace(&mut server.duty, Duty::Leaving);
        let pool = server.pool_id();
        if self.limits.log_disconnections {
            let age = self.now.since(server.connected_at).as_secs();
            tracing::info!(server = server.id, pool = %format_args!("{}/{}", server.pool.database_name, server.pool.user), age_s = age, "closing because: {reason}");
        }
        match duty {
            Duty::Idle { .. } => self.unlist(index),
            Duty::Tested { .. } | Duty::Errand { .. } => self.arrived(pool),
            _ => {}
        }
        self.leaving.push(Owner::Server(index));
    }

    /// Takes a connection out of the worker. Its place in the ledger goes with it.
    pub(super) fn close(&mut self, owner: Owner) {
        match owner {
            Owner::Client(index) => {
                let Some(client) = self.clients.try_remove(index) else {
                    return;
                };
                self.by_pid.remove(&client.pid.0);
                if let Some(pool) = self.pool(client.pool()) {
                    pool.clients -= 1;
                }
            }
            Owner::Server(index) => {
                let Some(server) = self.servers.try_remove(index) else {
                    return;
                };
                if !server.connection.is_congested() && server.connection.transit.is_over() {
                    say_goodbye(server.connection.fd.as_raw_fd());
                }
                let pool = server.pool_id();
                drop(server);
                self.ask_for_server(pool);
            }
        }
    }

    /// The process ends.
    pub(super) fn part_with_everybody(&mut self) {
        let clients: Vec<usize> = self.clients.iter().map(|(index, _)| index).collect();
        for index in clients {
            self.dismiss(index, SqlState::ADMIN_SHUTDOWN, "pooler is shutting down");
        }
        let servers: Vec<usize> = self.servers.iter().map(|(index, _)| index).collect();
        for index in servers {
            self.close_server(index, "pooler is shutting down");
        }
        self.running = Running::Stopped;
        self.finish_batch();
        self.shared.wishes.store(0, Ordering::Relaxed);
    }
}

/// Terminate, so that PostgreSQL does not log a lost connection. Best effort: the socket is closed next.
fn say_goodbye(fd: std::os::fd::RawFd) {
    let mut message = Vec::with_capacity(5);
    wire::write::terminate(&mut message);
    // SAFETY: the buffer is valid for its length and the call does not keep it.
    unsafe {
        libc::send(
            fd,
            message.as_ptr().cast(),
            message.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
}
