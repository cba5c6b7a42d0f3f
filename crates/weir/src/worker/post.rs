//! Messages from the control thread and from other workers.

use super::client::{Client, Phase};
use super::giveback::Move;
use super::local_pool::Wished;
use super::outbox::Source;
use super::reactor::Slots;
use super::server::{Duty, Server, ServerKey};
use super::{Limits, Owner, Running, Worker};
use crate::shared::{CancelTarget, Delivery, DialError, NewClient, NewServer, Slot, ToWorker};
use pooling::ledger::PoolId;
use std::sync::Arc;
use wire::backend::TransactionStatus;
use wire::frontend::tag;
use wire::{Header, Report, Severity, SqlState};

impl Worker {
    pub(super) fn read_mail(&mut self) {
        for message in self.mailbox.take() {
            self.read_message(message);
        }
        self.finish_batch();
    }

    fn read_message(&mut self, message: ToWorker) {
        match message {
            ToWorker::Client(new) => self.client_arrives(*new),
            ToWorker::Server(new) => self.server_arrives(*new),
            ToWorker::DialFailed { pool, error } => self.dial_failed(pool, &error),
            ToWorker::Granted(slot) => self.granted(slot),
            ToWorker::Steal { pool, to } => self.give_idle(pool, to),
            ToWorker::NothingToSteal { pool } => {
                self.arrived(pool);
                self.ask_for_server(pool);
            }
            ToWorker::Moved { server, asked } => self.server_moves_in(*server, asked),
            ToWorker::Evict { pool, reason } => self.evict(pool, reason),
            ToWorker::Cancel {
                pid,
                secret,
                answer,
            } => {
                let target = self.cancel(pid.0, &secret);
                let _ = answer.send(target);
            }
            ToWorker::CancelDone { server, delivery } => self.cancel_done(server, delivery),
            ToWorker::Listened {
                server,
                ticket,
                marker,
            } => self.listened_to(server, ticket, marker),
            ToWorker::LendServer {
                server,
                ticket,
                answer,
            } => self.lend_server(server, ticket, answer),
            ToWorker::Brought { pool, brought } => self.brought(pool, &brought),
            ToWorker::ListenerLost(pool) => self.listener_lost(pool),
            ToWorker::ListenerRestored(pool) => self.listener_restored(pool),
            ToWorker::PoolChanged(pool) => self.pool_changed(pool),
            ToWorker::RunErrand(pool) => self.send_idle(pool),
            ToWorker::Forget(pool) => self.forget_pool(pool),
            ToWorker::ConfigChanged => self.limits = Limits::of(&self.shared.config.load()),
            ToWorker::Kill(pools) => pools.iter().for_each(|pool| self.kill(*pool)),
            ToWorker::KillClient { id, answer } => {
                let _ = answer.send(self.kill_client(id));
            }
            ToWorker::Report { detail, answer } => {
                let _ = answer.send(self.report(detail));
            }
            ToWorker::CloseIdleClients => self.close_idle_clients(),
            ToWorker::Stop => self.running = Running::Stopped,
        }
    }

    fn client_arrives(&mut self, new: NewClient) {
        let (client, leftover) = Client::new(new);
        let shared = Arc::clone(client.permit.pool());
        let pid = client.pid;
        let index = self.clients.insert(client);
        self.open_pool(&shared);
        if let Some(pool) = self.pool(shared.id) {
            pool.clients += 1;
        }
        self.by_pid.insert(pid.0, index as u32);
        let fd = &self.clients[index].connection.fd;
        if let Err(error) = self.reactor.adopt(fd, Owner::Client(index).token()) {
            return self.peer_closed(Owner::Client(index), Some(error));
        }
        if self.running == Running::ClosingIdleClients {
            self.dismiss(index, SqlState::ADMIN_SHUTDOWN, "pooler is shutting down");
        } else {
            self.first_input(Owner::Client(index), &leftover);
        }
    }

    fn server_arrives(&mut self, new: NewServer) {
        let shared = Arc::clone(&new.pool);
        self.open_pool(&shared);
        let (id, jitter) = (self.next_server_id(), self.draw());
        let (server, leftover) = Server::new(new, id, jitter);
        self.arrived(shared.id);
        if let Some(index) = self.take_in(server) {
            self.first_input(Owner::Server(index), &leftover);
            self.free(index);
        }
    }

    fn server_moves_in(&mut self, server: Server, asked: bool) {
        let shared = Arc::clone(&server.pool);
        self.open_pool(&shared);
        if asked {
            self.arrived(shared.id);
        }
        if let Some(index) = self.take_in(server) {
            self.free(index);
        }
    }

    /// A server connection that was asked for has come, or will not.
    pub(super) fn arrived(&mut self, pool: PoolId) {
        if let Some(pool) = self.pool(pool) {
            pool.coming = pool.coming.saturating_sub(1);
        }
    }

    fn take_in(&mut self, server: Server) -> Option<usize> {
        let index = self.servers.insert(server);
        let serial = self.shared_serial();
        let server = &mut self.servers[index];
        server.serial = serial;
        server.duty = Duty::Held;
        match self
            .reactor
            .register(&server.connection.fd, Owner::Server(index).token())
        {
            Ok(()) => Some(index),
            Err(error) => {
                self.peer_closed(Owner::Server(index), Some(error));
                None
            }
        }
    }

    /// Tells apart the server connections that have had the same index here.
    fn shared_serial(&mut self) -> u32 {
        self.servers_taken_in = self.servers_taken_in.wrapping_add(1);
        self.servers_taken_in
    }

    fn first_input(&mut self, owner: Owner, leftover: &[u8]) {
        if !leftover.is_empty() {
            let slots = std::mem::replace(&mut self.slots, Slots::new(0));
            self.input(owner, Source::Copy(leftover), leftover.len(), &slots);
            self.slots = slots;
        }
    }

    fn dial_failed(&mut self, id: PoolId, error: &Arc<DialError>) {
        self.arrived(id);
        let Some(pool) = self.pool(id) else { return };
        if !error.lasting {
            return; // asked again by the sweep, or when the control thread has got through
        }
        let waiting: Vec<usize> = pool.waiting.iter().map(|waiter| waiter.client).collect();
        for client in waiting {
            self.dismiss(client, error.sqlstate, &error.message);
        }
    }

    fn granted(&mut self, slot: Slot) {
        let Some(pool) = self.pool(slot.pool()) else {
            return;
        };
        pool.wish = Wished::No;
        if pool.waiting.len() > pool.coming && !pool.shared.is_paused() {
            let id = slot.pool();
            self.dial(slot);
            self.ask_for_server(id);
        }
    }

    fn give_idle(&mut self, id: PoolId, to: usize) {
        let worker = self.index;
        let taken = self.pool(id).and_then(|pool| {
            let taken = pool.idle.pop_front();
            pool.publish_idle(worker);
            taken
        });
        match taken {
            Some(server) => self.move_to(server, to, Move::Asked),
            None => self.shared.tell(to, ToWorker::NothingToSteal { pool: id }),
        }
    }

    fn evict(&mut self, id: PoolId, reason: &str) {
        if let Some(server) = self.pool(id).and_then(|pool| pool.idle.front().copied()) {
            self.close_server(server, &format!("evicted for {reason}"));
        }
    }

    /// A cancel request, if it has the client's secret. One that waits is answered here; one whose query runs gets it cancelled
    /// on its server connection. (Protocol: "Canceling Requests in Progress")
    fn cancel(&mut self, pid: i32, secret: &[u8]) -> Option<CancelTarget> {
        let index = *self.by_pid.get(&pid)? as usize;
        let client = self.clients.get(index)?;
        if !client.secret.matches(secret) {
            return None;
        }
        match client.phase {
            Phase::Waiting { .. } => {
                self.cancel_waiting(index);
                None
            }
            Phase::Leased(server) if self.servers[server].conversation.is_busy() => {
                let (shared, worker) = (Arc::clone(&self.shared), self.index);
                let longest = shared.config.load().general.cancel_wait_timeout;
                let until = longest.map(|longest| self.now.after(longest));
                self.servers[server].note_unwanted(until, self.now);
                Some(self.servers[server].cancel_target(&shared, worker, server))
            }
            _ => None,
        }
    }

    /// What the client said is answered as if the server had been cancelled at once. If it is not whole yet, nobody can say where it will end.
    fn cancel_waiting(&mut self, index: usize) {
        const TEXT: &str = "canceling statement due to user request";
        let kept = self.clients[index].connection.take_inbox();
        let Some(end) = end_of_request(&kept) else {
            return self.dismiss(index, SqlState::QUERY_CANCELED, TEXT);
        };
        let (id, worker) = (self.clients[index].pool(), self.index);
        if let Some(pool) = self.pool(id) {
            pool.forget_waiter(index);
            pool.publish_waiting(worker);
        }
        let mut answer = Vec::new();
        wire::write::error_response(
            &mut answer,
            &Report::new(Severity::Error, SqlState::QUERY_CANCELED, TEXT),
        );
        wire::write::ready_for_query(&mut answer, TransactionStatus::Idle);
        let client = &mut self.clients[index];
        client.phase = Phase::Idle;
        let spares = &mut self.spare_inboxes;
        client.connection.keep(&kept[end..], 0, spares);
        self.outbox.say(
            &mut client.connection.ticket,
            Owner::Client(index).token(),
            &answer,
        );
        self.resumed.push(index);
    }

    /// A request that may still reach PostgreSQL could hit whoever holds the connection then: nobody will.
    fn cancel_done(&mut self, key: ServerKey, delivery: Delivery) {
        let index = key.index as usize;
        let server = self
            .servers
            .get_mut(index)
            .filter(|server| server.serial == key.serial);
        let Some(server) = server else { return };
        server.cancels -= 1;
        if delivery == Delivery::Unknown {
            server.blemish = Some("a cancel request to it may still be on its way");
        }
        if server.cancels > 0 {
            return;
        }
        server.cancels_are_done(self.now);
        match server.duty {
            Duty::Held => self.free(index),
            Duty::Leased { client } => self.resumed.push(client),
            _ => {}
        }
    }

    fn pool_changed(&mut self, id: PoolId) {
        self.renew_pool(id);
        let Some(pool) = self.pool(id) else { return };
        let settings = std::sync::Arc::clone(&pool.settings);
        let servers = self.servers.iter_mut().map(|(_, server)| server);
        for server in servers.filter(|server| server.pool_id() == id) {
            server.set_lifetime(&settings);
        }
        let Some(pool) = self.pool(id) else { return };
        let idle: Vec<usize> = pool.idle.iter().copied().collect();
        for server in idle {
            self.unlist(server);
            self.servers[server].duty = Duty::Held;
        }
        self.free_held(id);
        self.ask_for_server(id);
    }

    fn forget_pool(&mut self, id: PoolId) {
        let has_servers = self
            .servers
            .iter()
            .any(|(_, server)| server.pool_id() == id);
        let unused = self.pool(id).is_some_and(|pool| pool.is_unused());
        if unused && !has_servers {
            self.pools[id.0 as usize] = None;
        }
    }

    fn kill(&mut self, id: PoolId) {
        let clients: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, client)| client.pool() == id)
            .map(|(index, _)| index)
            .collect();
        for index in clients {
            if let Phase::Leased(server) = self.clients[index].phase {
                self.server_lost(
                    server,
                    SqlState::ADMIN_SHUTDOWN,
                    "database was killed by the administrator",
                );
            } else {
                self.dismiss(
                    index,
                    SqlState::ADMIN_SHUTDOWN,
                    "database was killed by the administrator",
                );
            }
        }
        let servers: Vec<usize> = self
            .servers
            .iter()
            .filter(|(_, server)| server.pool_id() == id)
            .map(|(index, _)| index)
            .collect();
        for index in servers {
            self.close_server(index, "KILL");
        }
    }

    fn kill_client(&mut self, id: u64) -> bool {
        let found = self
            .clients
            .iter()
            .find(|(_, client)| client.id == id)
            .map(|(index, _)| index);
        if let Some(index) = found {
            self.dismiss(
                index,
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            );
        }
        found.is_some()
    }

    fn close_idle_clients(&mut self) {
        self.running = Running::ClosingIdleClients;
        let idle: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, client)| matches!(client.phase, Phase::Idle | Phase::Waiting { .. }))
            .map(|(index, _)| index)
            .collect();
        for index in idle {
            self.dismiss(index, SqlState::ADMIN_SHUTDOWN, "pooler is shutting down");
        }
    }
}

/// Where the first request in `bytes` ends: a Query or FunctionCall, or everything up to a Sync.
fn end_of_request(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let header = Header::peek(&bytes[at..]).ok()??;
        at += header.total();
        if at > bytes.len() {
            return None;
        }
        if matches!(header.tag, tag::QUERY | tag::FUNCTION_CALL | tag::SYNC) {
            return Some(at);
        }
    }
}
