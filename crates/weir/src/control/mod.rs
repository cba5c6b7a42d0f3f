//! The control thread: everything that is sequential or may wait. One tokio runtime on one thread.
//!
//! This file holds what its parts share ([`Control`]), and its loop: what workers ask for, what the operator asks for, and the end.

mod act;
mod console;
pub mod console_client;
pub mod credentials;
pub mod listener;
mod notify;
mod reload;
mod signals;
mod snapshot;
mod stats;

pub use signals::Signals;

use crate::logging::Logging;
use crate::shared::{Shared, ToControl};
use crate::start::Options;
use console::Consoles;
use credentials::Credentials;
use std::collections::HashSet;
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
            Phase::WaitingForServers => "shutting down when all server connections have been released",
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
    phase: watch::Sender<Phase>,
    paused: Mutex<HashSet<Box<str>>>,
}

impl Control {
    pub fn new(shared: Arc<Shared>, credentials: Arc<Credentials>, options: Options, logging: Option<Logging>) -> Control {
        Control {
            statistics: stats::Statistics::start(&shared),
            shared,
            credentials,
            options,
            logging,
            consoles: Consoles::default(),
            phase: watch::Sender::new(Phase::Serving),
            paused: Mutex::default(),
        }
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

/// Runs until the process is to end.
pub async fn run(
    control: Arc<Control>,
    mut inbox: mpsc::UnboundedReceiver<ToControl>,
    listeners: listener::Listeners,
    signals: Signals,
) {
    let mut phases = control.phases();
    tokio::spawn(signals.obey(Arc::clone(&control)));
    tokio::spawn(stats::keep(Arc::clone(&control)));
    spawn_listeners(&control, listeners);
    notify::send("READY=1");
    loop {
        tokio::select! {
            message = inbox.recv() => match message {
                Some(message) => receive(&control, message),
                None => break,
            },
            _ = phases.wait_for(|phase| *phase == Phase::Ended) => break,
        }
    }
    notify::send("STOPPING=1");
}

fn receive(_control: &Arc<Control>, message: ToControl) {
    match message {
        ToControl::Dial { .. } => {}
        ToControl::Cancel(_) => {}
    }
}

fn spawn_listeners(_control: &Arc<Control>, _listeners: listener::Listeners) {}
