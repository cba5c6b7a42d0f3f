//! What is due: time-outs of clients and server connections, and requests that were put off. Ten times a second while there is work, since
//! no limit is finer than that.

use super::client::{Noticed, Phase};
use super::local_pool::{LocalPool, Wished};
use super::server::{Duty, Server};
use super::{Owner, Worker};
use pooling::Time;
use pooling::ledger::PoolId;
use std::time::Duration;
use wire::backend::TransactionStatus;
use wire::{Report, Severity, SqlState};

/// Clients are counted in tens of thousands: their idle time-out is looked at less often.
const CLIENT_SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How long a server may take to tell what is in its catalogue. Each of its statements has a limit of its own.
const ERRAND_MAX: Duration = Duration::from_secs(300);

/// What is due for a server connection.
enum Due {
    Close(&'static str),
    /// Its client is told, and what it does is ended.
    EndClient(SqlState, &'static str),
    /// The query of a client that is gone still runs: a request that comes before PostgreSQL has begun it is ignored there.
    CancelAgain,
    /// The same of a query that its client has asked to cancel.
    CancelUnwanted,
}

impl Worker {
    pub(super) fn sweep(&mut self) {
        let pools: Vec<PoolId> = self
            .pools
            .iter()
            .flatten()
            .map(|pool| pool.shared.id)
            .collect();
        for id in pools {
            self.sweep_waiting(id);
            self.renew_requests(id);
        }
        self.sweep_servers();
        self.sweep_pins();
        self.sweep_sequences();
        self.sweep_listening();
        if self.now.since(self.clients_swept_at) >= CLIENT_SWEEP_EVERY {
            self.clients_swept_at = self.now;
            self.sweep_clients();
        }
    }

    fn sweep_waiting(&mut self, id: PoolId) {
        let now = self.now;
        let Some(pool) = self.pool(id) else { return };
        let waited = |since: Time, limit: Option<Duration>| {
            limit.is_some_and(|limit| now.since(since) >= limit)
        };
        let (timeout, notify) = (
            pool.settings.query_wait_timeout,
            pool.settings.query_wait_notify,
        );
        let due = |pool: &LocalPool, limit| {
            pool.waiting
                .iter()
                .take_while(|waiter| waited(waiter.since, limit))
                .map(|waiter| waiter.client)
                .collect::<Vec<_>>()
        };
        let (expired, to_notify) = (due(pool, timeout), due(pool, notify));
        let cause = pool.shared.last_error.load_full();
        for client in expired {
            let detail = cause.as_ref().map(|error| {
                format!(
                    "The latest attempt to connect to the server failed: {}",
                    error.message
                )
            });
            let report = Report {
                detail: detail.as_deref(),
                hint: Some("SHOW POOLS on the console says who holds the server connections."),
                ..Report::new(
                    Severity::Fatal,
                    SqlState::CANNOT_CONNECT_NOW,
                    "query_wait_timeout: no server connection became free in time",
                )
            };
            self.dismiss_with(client, &report);
        }
        for client in to_notify {
            self.notify_waiting(client);
        }
    }

    fn notify_waiting(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Phase::Waiting {
            since,
            noticed: Noticed::No,
        } = client.phase
        else {
            return;
        };
        client.phase = Phase::Waiting {
            since,
            noticed: Noticed::Yes,
        };
        let mut notice = Vec::new();
        let text = "No server connection available, client being queued";
        wire::write::notice_response(
            &mut notice,
            &Report::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, text),
        );
        self.outbox.say(
            &mut client.connection.ticket,
            Owner::Client(index).token(),
            &notice,
        );
    }

    /// Clients that still wait ask again: a reserve may have opened, PostgreSQL may be back. A wish that nobody needs any more is taken back.
    fn renew_requests(&mut self, id: PoolId) {
        let worker = self.index;
        let Some(pool) = self.pool(id) else { return };
        let wish = std::mem::replace(&mut pool.wish, Wished::No);
        if !pool.waiting.is_empty() {
            self.ask_for_server(id);
        } else if wish == Wished::Noted {
            self.shared.withdraw_wish(id, worker);
        }
    }

    fn sweep_servers(&mut self) {
        let now = self.now;
        let open = |server: &Server| self.shared.ledger().open_in_pool(server.pool_id());
        let due: Vec<(usize, Due)> = self
            .servers
            .iter()
            .filter_map(|(index, server)| {
                let pool = self.pools[server.pool_id().0 as usize].as_deref()?;
                Some((index, due(server, pool, open, now)?))
            })
            .collect();
        for (index, due) in due {
            match due {
                Due::Close(reason) => self.close_server(index, reason),
                Due::EndClient(sqlstate, text) => {
                    if let Some(client) = self.servers[index].client() {
                        self.dismiss(client, sqlstate, text);
                    }
                }
                Due::CancelAgain => self.cancel_abandoned(index),
                Due::CancelUnwanted => self.cancel_unwanted(index),
            }
        }
    }

    fn sweep_clients(&mut self) {
        let now = self.now;
        let wanted = self
            .pools
            .iter()
            .flatten()
            .any(|pool| pool.settings.client_idle_timeout.is_some());
        if !wanted {
            return;
        }
        let expired: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, client)| client.phase == Phase::Idle)
            .filter(|(_, client)| {
                let pool = self.pools[client.pool().0 as usize].as_deref();
                pool.and_then(|pool| pool.settings.client_idle_timeout)
                    .is_some_and(|limit| now.since(client.active_at) >= limit)
            })
            .map(|(index, _)| index)
            .collect();
        for client in expired {
            self.dismiss(
                client,
                SqlState::IDLE_SESSION_TIMEOUT,
                "client_idle_timeout",
            );
        }
    }
}

fn due(server: &Server, pool: &LocalPool, open: impl Fn(&Server) -> u32, now: Time) -> Option<Due> {
    let settings = &pool.settings;
    let over =
        |since: Time, limit: Option<Duration>| limit.is_some_and(|limit| now.since(since) >= limit);
    match server.duty {
        Duty::Idle { since } => idle_due(server, pool, since, open, now),
        Duty::Tested { since } | Duty::Reset { since } => {
            over(since, settings.server_connect_timeout).then_some(Due::Close(
                "server_check_query or server_reset_query was not answered",
            ))
        }
        Duty::Errand { since } => over(since, Some(ERRAND_MAX))
            .then_some(Due::Close("the question to its catalogue was not answered")),
        Duty::Abandoned { deadline } if now >= deadline => {
            Some(Due::Close("abandoned_query_timeout"))
        }
        Duty::Abandoned { .. } => (server.cancels == 0).then_some(Due::CancelAgain),
        Duty::Leased { .. } => {
            let busy = server.conversation.is_busy();
            let in_transaction = busy || server.conversation.status() != TransactionStatus::Idle;
            if busy && over(server.request_at, settings.query_timeout) {
                Some(Due::EndClient(SqlState::QUERY_CANCELED, "query_timeout"))
            } else if in_transaction && over(server.transaction_at, settings.transaction_timeout) {
                Some(Due::EndClient(
                    SqlState::TRANSACTION_TIMEOUT,
                    "transaction_timeout",
                ))
            } else if in_transaction
                && !busy
                && over(server.ready_at, settings.idle_transaction_timeout)
            {
                Some(Due::EndClient(
                    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                    "idle_transaction_timeout",
                ))
            } else {
                server.cancel_is_due(now).then_some(Due::CancelUnwanted)
            }
        }
        Duty::Held | Duty::Leaving => None,
    }
}

fn idle_due(
    server: &Server,
    pool: &LocalPool,
    since: Time,
    open: impl Fn(&Server) -> u32,
    now: Time,
) -> Option<Due> {
    let settings = &pool.settings;
    let spread = 1.0 - settings.server_lifetime_jitter * server.jitter;
    let idle_for = |limit: Duration| now.since(since) >= limit.mul_f64(spread);
    let may_go = || open(server) > settings.min_pool_size;
    if now >= server.retires_at {
        Some(Due::Close("server_lifetime"))
    } else if settings.server_idle_timeout.is_some_and(idle_for) && may_go() {
        Some(Due::Close("server_idle_timeout"))
    } else {
        None
    }
}
