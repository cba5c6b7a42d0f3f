//! The control thread: everything that is sequential or may wait. One tokio runtime on one thread.
//!
//! This file holds what its parts share ([`Control`]), and its loop: what workers ask for, what the operator asks for, and the end.

mod act;
mod auth_query;
mod cancel_request;
mod console;
pub mod console_client;
pub mod credentials;
pub mod dial;
mod learn;
pub mod listener;
pub mod login;
pub mod maintenance;
mod notify;
mod reload;
mod retirement;
mod shared_listener;
mod signals;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;

pub use signals::Signals;

use crate::logging::Logging;
use crate::shared::{Shared, Slot, ToControl};
use crate::start::Options;
use console::Consoles;
use console_client::ConsoleClient;
use credentials::Credentials;
use dial::Dialler;
use listener::Listeners;
use login::Reception;
use shared_listener::{Request, SharedListeners};
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};

/// Where the process is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Serving,
    /// No new clients; ends when the last one has left.
    WaitingForClients,
    /// No new clients, no new leases; ends when the last server connection has been given back.
    WaitingForServers,
    Ended,
}

impl Phase {
    pub fn announcement(self) -> &'static str {
        match self {
            Phase::Serving => "serving",
            Phase::WaitingForClients => "shutting down when all clients have left",
            Phase::WaitingForServers => {
                "shutting down when all server connections have been released"
            }
            Phase::Ended => "shutting down now",
        }
    }
}

/// What console, signals and reload act on.
pub struct Control {
    pub shared: Arc<Shared>,
    pub credentials: Arc<Credentials>,
    pub options: Options,
    /// Missing in tests.
    pub logging: Option<Logging>,
    pub statistics: stats::Statistics,
    pub consoles: Consoles,
    pub reception: Arc<Reception>,
    phase: watch::Sender<Phase>,
    paused: Mutex<HashSet<Box<str>>>,
}

impl Control {
    /// Also gives the end at which the log-in leaves clients of the console.
    pub fn new(
        shared: Arc<Shared>,
        credentials: Arc<Credentials>,
        options: Options,
        logging: Option<Logging>,
    ) -> (Arc<Control>, mpsc::UnboundedReceiver<ConsoleClient>) {
        let (console, console_clients) = mpsc::unbounded_channel();
        let to_console = move |client| {
            // Fails only when the process ends.
            let _ = console.send(client);
        };
        let control = Control {
            statistics: stats::Statistics::start(&shared),
            reception: Reception::new(Arc::clone(&shared), Arc::clone(&credentials), to_console),
            shared,
            credentials,
            options,
            logging,
            consoles: Consoles::default(),
            phase: watch::Sender::new(Phase::Serving),
            paused: Mutex::default(),
        };
        (Arc::new(control), console_clients)
    }

    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// The databases that PAUSE or KILL named; PAUSE for all is `Pools::paused`.
    fn paused(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the control thread hears from others.
pub struct Inboxes {
    pub workers: mpsc::UnboundedReceiver<ToControl>,
    pub console_clients: mpsc::UnboundedReceiver<ConsoleClient>,
    pub signals: Signals,
}

/// Runs until the process is to end.
pub async fn run(control: Arc<Control>, listeners: Listeners, inboxes: Inboxes) -> io::Result<()> {
    let Inboxes {
        mut workers,
        mut console_clients,
        signals,
    } = inboxes;
    let dialler = Dialler::new(
        Arc::clone(&control.shared),
        Arc::clone(&control.credentials),
    );
    let shared_listeners = SharedListeners::new(
        Arc::clone(&control.shared),
        Arc::clone(&control.credentials),
    );
    let parts = Parts {
        dialler: &dialler,
        shared_listeners: &shared_listeners,
    };
    let mut serving = listeners.serve(&control.reception)?;
    let mut phases = control.phases();
    tokio::spawn(signals.obey(Arc::clone(&control)));
    tokio::spawn(stats::keep(Arc::clone(&control)));
    tokio::spawn(learn::keep(Arc::clone(&control.shared)));
    maintenance::spawn(Arc::clone(&control.shared));
    let mut looks = tokio::time::interval(retirement::PERIOD);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    notify::send("READY=1");
    while control.phase() != Phase::Ended {
        tokio::select! {
            Some(message) = workers.recv() => obey(&control, &parts, message),
            Some(client) = console_clients.recv() => drop(tokio::spawn(console::serve(Arc::clone(&control), client))),
            _ = looks.tick() => retirement::retire_pools(&control, &parts),
            _ = phases.changed() => {
                // Over the Unix socket the console can still be reached while clients are waited for.
                control.reception.refuse_clients();
                serving.close_tcp();
                notify::send("STOPPING=1");
            }
        }
    }
    Ok(())
}

/// What holds server connections for others.
struct Parts<'a> {
    dialler: &'a Dialler,
    shared_listeners: &'a SharedListeners,
}

fn obey(control: &Control, parts: &Parts<'_>, message: ToControl) {
    let Parts {
        dialler,
        shared_listeners,
    } = parts;
    match message {
        ToControl::Dial { pool, worker, slot } => dialler.handle(pool, worker, slot),
        ToControl::Granted(slot) => granted(control, dialler, slot),
        ToControl::CatalogChanged(pool) => learn::changed(&control.shared, pool),
        ToControl::Leave { pool, name } => retirement::leave(&control.shared, &pool, &name),
        ToControl::CatalogRead(answer) => learn::answered(&control.shared, *answer),
        ToControl::Listen {
            pool,
            worker,
            server,
            ticket,
            channels,
        } => {
            let request = Request::Listen {
                worker,
                server,
                ticket,
                channels,
            };
            shared_listeners.listen(pool, request);
        }
        ToControl::Unlisten {
            pool,
            worker,
            channels,
        } => shared_listeners.unlisten(pool, Request::Unlisten { worker, channels }),
        ToControl::Cancel(target) => {
            let shared = Arc::clone(&control.shared);
            tokio::spawn(async move { dial::cancel(&shared, target).await });
        }
    }
}

/// A place for the first server connection of a pool, if it still has none. Workers that need it take it from the one that gets it.
fn granted(control: &Control, dialler: &Dialler, slot: Slot) {
    let pools = control
        .shared
        .pools
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    let pool = pools.by_id(slot.pool()).cloned();
    drop(pools);
    if let Some(pool) = pool.filter(|pool| pool.welcome.load().is_none()) {
        let worker = pool.id.0 as usize % pool.cells.len();
        dialler.handle(pool, worker, slot);
    }
}
