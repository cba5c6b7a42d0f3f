//! The console: the database `pgbouncer` (or `weir`), to which operators and monitoring talk in SQL's protocol.
//!
//! [`command`] understands a text, [`show`] and the control thread's `act` carry it out, [`session`] speaks the protocol. A console
//! client stays on the control thread; it is not counted as a client and cannot be shut out by clients.

pub mod command;
mod session;
pub mod show;
pub mod table;

pub use session::serve;

use super::console_client::ConsoleClient;
use crate::shared::{Address, Shared};
use pooling::Time;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The console's clients.
#[derive(Default)]
pub struct Consoles {
    present: Mutex<BTreeMap<u64, Entry>>,
    commands: AtomicU64,
}

struct Entry {
    report: ConsoleReport,
    end: Arc<Notify>,
}

/// What SHOW CLIENTS says of a console client.
#[derive(Clone)]
pub struct ConsoleReport {
    pub id: u64,
    pub user: String,
    pub peer: Address,
    pub local: Address,
    pub connected_at: Time,
    pub request_at: Time,
    pub application_name: String,
}

impl Consoles {
    pub fn reports(&self) -> Vec<ConsoleReport> {
        self.present()
            .values()
            .map(|entry| entry.report.clone())
            .collect()
    }

    /// How many commands have been run since the start.
    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Ends a client's connection; false if there is none with this id.
    pub fn end(&self, id: u64) -> bool {
        self.present()
            .get(&id)
            .map(|entry| entry.end.notify_one())
            .is_some()
    }

    fn enter(self: &Consoles, client: &ConsoleClient) -> Present<'_> {
        let end = Arc::new(Notify::new());
        let report = ConsoleReport {
            id: client.id,
            user: client.user.clone(),
            peer: client.peer.clone(),
            local: client.local.clone(),
            connected_at: client.connected_at,
            request_at: client.connected_at,
            application_name: client.application_name.clone(),
        };
        self.present().insert(
            client.id,
            Entry {
                report,
                end: Arc::clone(&end),
            },
        );
        Present {
            consoles: self,
            id: client.id,
            end,
        }
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's entry while it is connected.
struct Present<'a> {
    consoles: &'a Consoles,
    id: u64,
    /// Notified when KILL_CLIENT names it.
    end: Arc<Notify>,
}

impl Present<'_> {
    fn begin_command(&self, shared: &Shared) {
        self.consoles.commands.fetch_add(1, Ordering::Relaxed);
        if let Some(entry) = self.consoles.present().get_mut(&self.id) {
            entry.report.request_at = shared.clock.now();
        }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.consoles.present().remove(&self.id);
    }
}
