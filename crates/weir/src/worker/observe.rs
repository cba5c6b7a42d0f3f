//! What a worker tells the console about itself.

use super::Worker;
use super::client::Phase;
use super::local_pool::LocalPool;
use crate::report::{PoolReport, ServerState, WorkerReport};
use crate::shared::Detail;

impl Worker {
    pub(super) fn report(&self, detail: Detail) -> WorkerReport {
        let pools = self
            .pools
            .iter()
            .flatten()
            .map(|pool| self.report_pool(pool))
            .collect();
        let buffer_bytes = self
            .clients
            .iter()
            .map(|(_, client)| client.connection.buffered())
            .sum::<usize>()
            + self
                .servers
                .iter()
                .map(|(_, server)| server.connection.buffered())
                .sum::<usize>();
        let mut report = WorkerReport {
            pools,
            buffer_bytes,
            ..WorkerReport::default()
        };
        if detail == Detail::Connections {
            report.clients = self
                .clients
                .iter()
                .map(|(_, client)| client.report(self.server_of(client.phase)))
                .collect();
            report.servers = self
                .servers
                .iter()
                .map(|(_, server)| {
                    let client = server.client().map(|client| self.clients[client].id);
                    server.report(client, self.check_delay(server), self.now)
                })
                .collect();
        }
        report
    }

    fn server_of(&self, phase: Phase) -> Option<u64> {
        match phase {
            Phase::Leased(server) => self.servers.get(server).map(|server| server.id),
            _ => None,
        }
    }

    fn check_delay(&self, server: &super::Server) -> std::time::Duration {
        let pool = self.pools[server.pool_id().0 as usize].as_deref();
        pool.map(|pool| pool.settings.server_check_delay)
            .unwrap_or_default()
    }

    fn report_pool(&self, pool: &LocalPool) -> PoolReport {
        let id = pool.shared.id;
        let states = self
            .servers
            .iter()
            .filter(|(_, server)| server.pool_id() == id);
        let states: Vec<ServerState> = states
            .map(|(_, server)| server.state(pool.settings.server_check_delay, self.now))
            .collect();
        let count = |state| states.iter().filter(|other| **other == state).count() as u32;
        let waiting = pool.waiting.len() as u32;
        PoolReport {
            pool: id,
            clients_active: pool.active_clients,
            clients_waiting: waiting,
            clients_idle: pool.clients.saturating_sub(pool.active_clients + waiting),
            servers_active: count(ServerState::Active),
            servers_idle: count(ServerState::Idle),
            servers_used: count(ServerState::Used),
            servers_tested: count(ServerState::Tested),
            servers_being_canceled: count(ServerState::BeingCanceled),
            oldest_waiter: pool.waiting.front().map(|waiter| waiter.since),
            statements: pool.statements.len(),
            statement_bytes: pool.statements.bytes(),
            totals: pool.totals,
        }
    }
}
