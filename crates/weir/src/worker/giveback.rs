//! What happens to a server connection when its conversation is settled: it serves the client that has waited longest, here or elsewhere, or
//! becomes idle; unless something speaks against it, in which case it is cleaned up or closed.

use super::Worker;
use super::client::Phase;
use super::local_pool::{Elsewhere, LocalPool};
use super::server::{Duty, Residue};
use crate::shared::ToWorker;
use pooling::Time;
use pooling::conversation::Own;
use settings::PoolMode;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::SqlState;
use wire::backend::TransactionStatus;

/// A client in another pool that has waited this much longer under a limit that both pools share gets the place of a busy server connection.
const OWED_AFTER: Duration = Duration::from_millis(500);

/// Where a free server connection goes.
enum Next {
    Client(usize),
    Worker(usize),
    Idle,
}

impl Worker {
    /// The server has said that it is idle and owes nothing, or nothing can be proved about it any more.
    pub(super) fn settled(&mut self, index: usize) {
        let server = &self.servers[index];
        if !server.connection.transit.is_over() {
            return;
        }
        match server.duty {
            Duty::Leased { client } => self.lease_settled(index, client),
            Duty::Abandoned { .. } => self.advance_abandoned(index),
            Duty::Tested { .. } if !server.conversation.is_busy() => {
                self.arrived(self.servers[index].pool_id());
                self.free(index);
            }
            Duty::Errand { .. } if !server.conversation.is_busy() => self.errand_settled(index),
            Duty::Reset { .. } if !server.conversation.is_busy() => self.free(index),
            _ => {}
        }
    }

    fn lease_settled(&mut self, index: usize, client: usize) {
        let server = &self.servers[index];
        let ended = !server.conversation.is_busy()
            && server.conversation.status() == TransactionStatus::Idle;
        let in_transit = !self.clients[client].connection.transit.is_over();
        if !ended || in_transit {
            return;
        }
        if self.mode(index) == PoolMode::Session {
            return self.fast_close(index);
        }
        if self.take_census(index)
            || self.hand_over_channels(index)
            || self.keeps_sequences(index, client)
        {
            return;
        }
        if self.clients[client].pin.is_some() {
            self.keep_lease(index, client);
            self.give_waiting(client);
            return;
        }
        self.end_lease(client);
        self.give_back(index);
    }

    /// server_fast_close: what RECONNECT has made out of date ends with its transaction, and the session with it.
    fn fast_close(&mut self, index: usize) {
        let server = &self.servers[index];
        let pool = self.pools[server.pool_id().0 as usize].as_deref();
        if server.is_outdated() && pool.is_some_and(|pool| pool.settings.server_fast_close) {
            self.server_lost(
                index,
                SqlState::ADMIN_SHUTDOWN,
                "server connection closed (server_fast_close)",
            );
        }
    }

    fn mode(&self, index: usize) -> PoolMode {
        let pool = self.pools[self.servers[index].pool_id().0 as usize].as_deref();
        pool.map_or(PoolMode::Session, |pool| pool.settings.mode)
    }

    /// The client no longer holds a server connection.
    pub(super) fn end_lease(&mut self, client: usize) {
        self.clients[client].phase = Phase::Idle;
        self.clients[client].active_at = self.now;
        let id = self.clients[client].pool();
        if let Some(pool) = self.pool(id) {
            pool.active_clients -= 1;
        }
        self.give_waiting(client);
        if self.running == super::Running::ClosingIdleClients {
            self.dismiss(client, SqlState::ADMIN_SHUTDOWN, "pooler is shutting down");
        }
    }

    /// After a client: server_reset_query, if the mode asks for it, then it is free.
    pub(super) fn give_back(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let pool = self.pools[server.pool_id().0 as usize].as_deref();
        let reset = pool.and_then(|pool| pool.settings.server_reset_query.clone());
        let reset = match server.residue {
            Residue::None => reset,
            Residue::Session => Some("DISCARD ALL".to_owned()),
            Residue::Lasting => {
                return self.close_server(index, "a client has left what cannot be undone");
            }
        };
        match reset {
            Some(sql) if !server.conversation.is_doubtful() => {
                server.duty = Duty::Reset { since: self.now };
                self.say_own_query(index, Own::Reset, sql.as_bytes());
            }
            _ => self.free(index),
        }
    }

    /// It is clean.
    pub(super) fn free(&mut self, index: usize) {
        let now = self.now;
        let server = &mut self.servers[index];
        let Some(pool) = self.pools[server.pool_id().0 as usize].as_deref() else {
            return;
        };
        let reason = if server.blemish.is_some() {
            server.blemish
        } else if server.conversation.is_doubtful() {
            Some("its state is not known")
        } else if server.is_outdated() {
            Some("it is out of date")
        } else if pool.shared.is_paused() {
            Some("database is paused")
        } else if now >= server.retires_at {
            Some("server_lifetime")
        } else {
            None
        };
        if let Some(reason) = reason {
            self.close_server(index, reason);
        } else if server.cancels > 0 {
            server.duty = Duty::Held;
        } else if !self.is_detained(index) {
            self.offer(index);
        }
    }

    pub(super) fn offer(&mut self, index: usize) {
        let worker = self.index;
        let id = self.servers[index].pool_id();
        let Some(pool) = self.pools[id.0 as usize].as_deref_mut() else {
            return;
        };
        match next(pool, worker, self.now, self.limits.handover_after) {
            Next::Client(client) => {
                pool.waiting.pop_front();
                pool.publish_waiting(worker);
                if self.shared.wishes.load(Ordering::Relaxed) > 0 && self.is_owed_elsewhere(index) {
                    self.client_waits_on(index, client);
                } else {
                    self.link(index, client);
                    self.resumed.push(client);
                }
            }
            Next::Worker(other) => self.move_to(index, other, Move::Offered),
            Next::Idle => self.become_idle(index),
        }
    }

    /// The place of this server connection goes to a pool whose client has waited much longer; this pool's client stays the first in its queue.
    fn client_waits_on(&mut self, index: usize, client: usize) {
        let worker = self.index;
        let id = self.servers[index].pool_id();
        let Phase::Waiting { since, .. } = self.clients[client].phase else {
            return;
        };
        if let Some(pool) = self.pool(id) {
            pool.waiting
                .push_front(super::local_pool::Waiter { client, since });
            pool.publish_waiting(worker);
        }
        self.close_server(
            index,
            "a client of another pool has waited longer under a shared limit",
        );
    }

    fn is_owed_elsewhere(&self, index: usize) -> bool {
        let older_than = Time(self.now.0.saturating_sub(OWED_AFTER.as_micros() as u64));
        self.shared
            .ledger()
            .owed_elsewhere(self.servers[index].pool_id(), older_than)
    }

    fn become_idle(&mut self, index: usize) {
        let worker = self.index;
        let server = &mut self.servers[index];
        server.duty = Duty::Idle { since: self.now };
        let Some(pool) = self.pools[server.pool_id().0 as usize].as_deref_mut() else {
            return;
        };
        pool.idle.push_back(index);
        pool.publish_idle(worker);
        // A client of another worker may have begun to wait since we looked: one of us sees the other.
        let (now, handover_after) = (self.now, self.limits.handover_after);
        let needs_it = |other: &Elsewhere| needs_idle(other, now, handover_after);
        if let Some(other) = pool.oldest_elsewhere(worker, needs_it) {
            self.unlist(index);
            return self.move_to(index, other, Move::Offered);
        }
        if self.shared.wishes.load(Ordering::Relaxed) > 0
            && self
                .shared
                .ledger()
                .owed_elsewhere(self.servers[index].pool_id(), self.now)
        {
            self.unlist(index);
            self.close_server(index, "a client of another pool waits under a shared limit");
        }
    }

    /// Takes it off the list of idle ones.
    pub(super) fn unlist(&mut self, index: usize) {
        let worker = self.index;
        let Some(pool) = self.pools[self.servers[index].pool_id().0 as usize].as_deref_mut() else {
            return;
        };
        pool.idle.retain(|idle| *idle != index);
        pool.publish_idle(worker);
    }

    /// It leaves this worker for another: deregistered here, registered there.
    pub(super) fn move_to(&mut self, index: usize, worker: usize, why: Move) {
        self.reactor.deregister(&self.servers[index].connection.fd);
        let mut server = self.servers.remove(index);
        server.connection.ticket = super::outbox::Ticket::default();
        self.shared.tell(
            worker,
            ToWorker::Moved {
                server: Box::new(server),
                asked: why == Move::Asked,
            },
        );
    }

    /// One step nearer to a clean connection after its client has gone.
    pub(super) fn advance_abandoned(&mut self, index: usize) {
        let conversation = &self.servers[index].conversation;
        if conversation.is_doubtful() {
            return self.close_server(index, "its state is not known");
        }
        if conversation.is_busy() {
            return;
        }
        match conversation.status() {
            TransactionStatus::Idle if self.take_census(index) => {}
            TransactionStatus::Idle => self.give_back(index),
            _ => self.say_own_query(index, Own::Rollback, b"ROLLBACK"),
        }
    }

    /// A query of the pooler's own is answered. What follows happens when the conversation is settled.
    pub(super) fn own_done(&mut self, index: usize, own: Own, failed: bool) {
        match own {
            Own::Census => self.census_done(index, failed),
            Own::Catalog => self.catalog_told(index, failed),
            Own::Check | Own::Reset if failed => {
                self.close_server(index, "server_check_query or server_reset_query failed");
            }
            Own::Reset => self.servers[index].residue = Residue::None,
            Own::Mark => self.marked(index, failed),
            Own::Unlisten => self.unlistened(index, failed),
            Own::Recall if failed => self.servers[index].conversation.end_recall(),
            Own::Check
            | Own::Replay
            | Own::Rollback
            | Own::Recall
            | Own::Prepare
            | Own::DropSequences => {}
        }
    }
}

/// Why a server connection moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    /// The other worker has asked for one.
    Asked,
    Offered,
}

/// The own client that waits longest, unless one elsewhere has waited longer by more than the bound. With nobody waiting here: whoever has
/// waited that long, or has nothing to expect where it is; else it becomes idle, since its own clients are likely to ask soon.
fn next(pool: &LocalPool, worker: usize, now: Time, handover_after: Duration) -> Next {
    let here = pool.waiting.front();
    let entitled = |other: &Elsewhere| match here {
        Some(here) => other.since.after(handover_after) < here.since,
        None => needs_idle(other, now, handover_after),
    };
    match (pool.oldest_elsewhere(worker, entitled), here) {
        (Some(other), _) => Next::Worker(other),
        (None, Some(here)) => Next::Client(here.client),
        (None, None) => Next::Idle,
    }
}

fn needs_idle(other: &Elsewhere, now: Time, handover_after: Duration) -> bool {
    other.stranded || other.since.after(handover_after) <= now
}
