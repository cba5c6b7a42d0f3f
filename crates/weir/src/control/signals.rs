//! What each signal means: the console's commands for those who have a process id only.

use super::{Control, Phase, act, reload};
use std::io;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals of this process. From its making on, none of them ends the process by itself.
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    /// To be called within the runtime.
    pub fn register() -> io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Obeys signals for ever.
    pub async fn obey(mut self, control: Arc<Control>) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => hangup(&control),
                _ = self.terminate.recv() => end(&control, "SIGTERM", Phase::WaitingForClients),
                _ = self.interrupt.recv() => end(&control, "SIGINT", Phase::WaitingForServers),
                _ = self.quit.recv() => end(&control, "SIGQUIT", Phase::Ended),
                _ = self.user1.recv() => log("SIGUSR1", "PAUSE", act::begin_pause(&control)),
                _ = self.user2.recv() => log("SIGUSR2", "RESUME", act::resume_all(&control)),
            }
        }
    }
}

fn hangup(control: &Arc<Control>) {
    tracing::info!("got SIGHUP: RELOAD");
    // What is wrong is logged there.
    let _ = reload::reload(control);
}

/// The second of these signals ends the process at once.
fn end(control: &Arc<Control>, name: &str, phase: Phase) {
    let phase = if control.phase() == Phase::Serving {
        phase
    } else {
        Phase::Ended
    };
    tracing::info!("got {name}: {}", phase.announcement());
    act::shut_down(control, phase);
}

fn log(name: &str, command: &str, outcome: Result<(), act::Refusal>) {
    match outcome {
        Ok(()) => tracing::info!("got {name}: {command}"),
        Err(refusal) => tracing::warn!("got {name}, but {command} failed: {refusal}"),
    }
}
