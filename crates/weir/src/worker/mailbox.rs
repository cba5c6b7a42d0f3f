//! A worker's mailbox: other threads put messages in, the worker takes them all at once between two batches.

use crate::shared::ToWorker;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The sending end; cheap to clone.
#[derive(Clone)]
pub struct Mailbox {
    inner: Arc<Inner>,
}

struct Inner {
    messages: Mutex<Vec<ToWorker>>,
    waker: mio::Waker,
}

impl Mailbox {
    /// `waker` interrupts the worker's wait.
    pub fn new(waker: mio::Waker) -> Mailbox {
        Mailbox {
            inner: Arc::new(Inner {
                messages: Mutex::default(),
                waker,
            }),
        }
    }

    /// The worker is woken by the first message only: it takes all that have come by then.
    pub fn send(&self, message: ToWorker) {
        let was_empty = {
            let mut messages = self
                .inner
                .messages
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            messages.push(message);
            messages.len() == 1
        };
        if was_empty && let Err(error) = self.inner.waker.wake() {
            tracing::error!(%error, "a worker could not be woken");
        }
    }

    pub(crate) fn take(&self) -> Vec<ToWorker> {
        std::mem::take(
            &mut *self
                .inner
                .messages
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// Makes the waker for `Mailbox::new` on the worker's poll.
pub(super) fn waker(poll: &mio::Poll, token: mio::Token) -> io::Result<mio::Waker> {
    mio::Waker::new(poll.registry(), token)
}
