//! Who gets a server connection: an idle one of this worker, with the client's own settings if there is one; an idle one of another worker;
//! a new one if the limits allow; else the client waits, first come first served.

use super::client::{Noticed, Phase};
use super::local_pool::{LocalPool, Waiter, Wished};
use super::server::{Duty, Server};
use super::{Owner, Worker};
use crate::shared::{Slot, ToControl, ToWorker};
use pooling::Parameters;
use pooling::conversation::Own;
use pooling::ledger::{PoolId, Wish};
use settings::CheckQuery;
use slab::Slab;
use std::sync::Arc;
use std::time::Duration;

/// Idle server connections that are looked at for one with the client's own settings.
const LOOK_AT: usize = 8;
/// The least time after which a worker looks again at what others have idle.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(1);

impl Worker {
    /// Gives the client a server connection, or lets it wait for one.
    pub(super) fn check_out(&mut self, client: usize) {
        let Worker {
            clients,
            servers,
            pools,
            ..
        } = self;
        let parameters = &clients[client].parameters;
        let number = clients[client].permit.pool().id.0 as usize;
        let Some(pool) = pools[number].as_deref_mut() else {
            return;
        };
        let free = !pool.shared.is_paused() && pool.waiting.is_empty();
        let taken = if free {
            let client = clients[client].id;
            take_idle(pool, servers, parameters, client)
        } else {
            None
        };
        let Some(server) = taken else {
            return self.wait(client);
        };
        pool.publish_idle(self.index);
        if self.needs_check(server) {
            self.check(server);
            self.wait(client);
        } else {
            self.link(server, client);
        }
    }

    fn needs_check(&self, server: usize) -> bool {
        let Duty::Idle { since } = self.servers[server].duty else {
            return false;
        };
        let Some(pool) = &self.pools[self.servers[server].pool_id().0 as usize] else {
            return false;
        };
        pool.settings.server_check_query != CheckQuery::Off
            && self.now.since(since) > pool.settings.server_check_delay
    }

    fn check(&mut self, index: usize) {
        let Some(pool) = &self.pools[self.servers[index].pool_id().0 as usize] else {
            return;
        };
        let sql = match &pool.settings.server_check_query {
            CheckQuery::Query(sql) => sql.clone().into_bytes(),
            CheckQuery::Empty | CheckQuery::Off => Vec::new(),
        };
        self.servers[index].duty = Duty::Tested { since: self.now };
        if let Some(pool) = self.pool(self.servers[index].pool_id()) {
            pool.coming += 1;
        }
        self.say_own_query(index, Own::Check, &sql);
    }

    pub(super) fn say_own_query(&mut self, index: usize, own: Own, sql: &[u8]) {
        let server = &mut self.servers[index];
        server
            .conversation
            .own_query(own, sql, &mut self.aside.to_server);
        self.outbox.say(
            &mut server.connection.ticket,
            Owner::Server(index).token(),
            &self.aside.to_server,
        );
        self.aside.to_server.clear();
    }

    /// The lease begins. What is set on the server connection becomes what the client expects, in the same write as its
    /// first message.
    pub(super) fn link(&mut self, index: usize, client_index: usize) {
        let (client, server) = (&mut self.clients[client_index], &mut self.servers[index]);
        let waited = match client.phase {
            Phase::Waiting { since, .. } => self.now.since(since),
            _ => std::time::Duration::ZERO,
        };
        client.phase = Phase::Leased(index);
        client.active_at = self.now;
        server.duty = Duty::Leased {
            client: client_index,
        };
        server.transaction_at = self.now;
        server.request_at = self.now;
        server.conversation.begin_lease(client.id);
        server.notice_changed_statements();
        server.unwanted = None;
        if !Arc::ptr_eq(&client.parameters, &server.parameters) {
            self.replay(index, client_index);
        }
        let Some(pool) = self.pools[self.servers[index].pool_id().0 as usize].as_deref_mut() else {
            return;
        };
        let reads_sequences = pool.reads_sequences();
        pool.active_clients += 1;
        pool.totals.server_assignments += 1;
        pool.totals.wait_time += waited.as_micros() as u64;
        if reads_sequences {
            self.own_sequences(index);
        }
    }

    /// In a pool whose clients ask for sequence values nobody gets a server connection with those of others.
    fn own_sequences(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.conversation.own_sequences(&mut self.aside.to_server);
        self.outbox.say(
            &mut server.connection.ticket,
            Owner::Server(index).token(),
            &self.aside.to_server,
        );
        self.aside.to_server.clear();
    }

    pub(super) fn replay(&mut self, index: usize, client: usize) {
        let wanted = Arc::clone(&self.clients[client].parameters);
        let mut sql = Vec::new();
        let server = &mut self.servers[index];
        let differs = server.parameters.replay(&wanted, &mut sql);
        let before = std::mem::replace(&mut server.parameters, wanted);
        if differs {
            server.before_replay = Some(before);
            self.say_own_query(index, Own::Replay, &sql);
        }
    }

    fn wait(&mut self, client: usize) {
        let since = self.now;
        self.clients[client].phase = Phase::Waiting {
            since,
            noticed: Noticed::No,
        };
        self.clients[client].active_at = since;
        let id = self.clients[client].pool();
        let worker = self.index;
        let Some(pool) = self.pool(id) else { return };
        pool.waiting.push_back(Waiter { client, since });
        pool.publish_waiting(worker);
        self.ask_for_server(id);
    }

    /// As many server connections as there are clients waiting are asked for: from other workers, else new ones. An idle one of another
    /// worker is left to its clients for `handover_after` as long as one may become free here.
    pub(super) fn ask_for_server(&mut self, id: PoolId) {
        let (worker, now) = (self.index, self.now);
        let handover_after = self.limits.handover_after;
        let shared = Arc::clone(&self.shared);
        while let Some(pool) = self.pool(id) {
            let Some(oldest) = pool.waiting.front() else {
                return;
            };
            if pool.shared.is_paused() || pool.waiting.len() <= pool.coming {
                return;
            }
            if pool.awaits_catalogue() {
                return; // whatever is dialled would wait as well; `PoolChanged` asks again
            }
            if let Some(other) = pool.idle_elsewhere(worker) {
                if pool.expects_one_back() && now.since(oldest.since) < handover_after {
                    return self.look_again_soon();
                }
                pool.coming += 1;
                shared.tell(
                    other,
                    ToWorker::Steal {
                        pool: id,
                        to: worker,
                    },
                );
                continue;
            }
            if pool.wish == Wished::Noted {
                return self.look_again_soon();
            }
            match shared.request_slot(Wish {
                pool: id,
                worker,
                since: oldest.since,
            }) {
                Ok(slot) => self.dial(slot),
                Err(limit) => {
                    pool.wish = Wished::Noted;
                    self.look_again_soon();
                    return shared.ask_rivals(id, limit);
                }
            }
        }
    }

    fn look_again_soon(&mut self) {
        if self.shared.workers().len() > 1 {
            let pause = self.limits.handover_after.max(LOOK_AGAIN_MIN);
            self.looks_again_at.get_or_insert(self.now.after(pause));
        }
    }

    /// What was left to other workers' clients may still be idle there, and what they had in use may have become idle.
    pub(super) fn look_again(&mut self) {
        self.looks_again_at = None;
        let pools = self.pools.iter().flatten();
        let short: Vec<PoolId> = pools
            .filter(|pool| !pool.waiting.is_empty())
            .map(|pool| pool.shared.id)
            .collect();
        short.into_iter().for_each(|pool| self.ask_for_server(pool));
    }

    pub(super) fn dial(&mut self, slot: Slot) {
        let worker = self.index;
        let Some(pool) = self.pool(slot.pool()) else {
            return;
        };
        pool.coming += 1;
        let pool = Arc::clone(&pool.shared);
        self.shared
            .tell_control(ToControl::Dial { pool, worker, slot });
    }
}

/// Prefers a server connection that has the client's settings already; otherwise the one that was used last, or first with
/// server_round_robin.
fn take_idle(
    pool: &mut LocalPool,
    servers: &Slab<Server>,
    parameters: &Arc<Parameters>,
    client: u64,
) -> Option<usize> {
    let own_sequences = |server: &usize| servers[*server].conversation.has_sequences_of(client);
    if pool.reads_sequences()
        && let Some(place) = pool.idle.iter().position(own_sequences)
    {
        return pool.idle.remove(place);
    }
    let fits = |server: &usize| Arc::ptr_eq(&servers[*server].parameters, parameters);
    if pool.settings.server_round_robin {
        let place = pool.idle.iter().take(LOOK_AT).position(fits).unwrap_or(0);
        return pool.idle.remove(place);
    }
    let from_back = pool
        .idle
        .iter()
        .rev()
        .take(LOOK_AT)
        .position(fits)
        .unwrap_or(0);
    pool.idle
        .remove(pool.idle.len().checked_sub(1 + from_back)?)
}
