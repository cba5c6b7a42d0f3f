//! Ctrl-C and SIGTERM: what is measured is kept, what runs is ended.

use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The user has asked for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Whether the user has asked for the end.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: Arc<watch::Sender<bool>>,
}

impl Interrupt {
    /// One that only [`Interrupt::request`] asks for.
    pub fn silent() -> Self {
        Self {
            asked: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Waits for SIGINT and SIGTERM, on a thread of its own, until this process ends.
    ///
    /// # Errors
    /// That the signals cannot be waited for.
    pub fn on_signals() -> std::io::Result<Self> {
        let interrupt = Self::silent();
        let listening = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut signals = {
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            )
        };
        std::thread::Builder::new()
            .name("interrupt".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = signals.0.recv() => {}
                        _ = signals.1.recv() => {}
                    }
                });
                listening.request();
            })?;
        Ok(interrupt)
    }

    /// As if Ctrl-C were pressed.
    pub fn request(&self) {
        self.asked.send_replace(true);
    }

    pub fn is_requested(&self) -> bool {
        *self.asked.borrow()
    }

    /// Returns when the end is asked for.
    pub async fn requested(&self) -> Interrupted {
        // The sender is in `self`: the wait can only end with the value.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
        Interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::apart;
    use nix::sys::signal::{Signal, raise};

    #[test]
    fn the_signal_is_heard_by_whoever_waits_and_by_whoever_asks_later() {
        let interrupt = Interrupt::on_signals().expect("a thread");
        assert!(!interrupt.is_requested());
        raise(Signal::SIGINT).expect("this process may");
        assert_eq!(apart(interrupt.requested()), Interrupted);
        assert!(interrupt.is_requested());
    }
}
