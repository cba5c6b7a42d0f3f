//! A worker's mailbox: other threads put messages in, the worker takes them all at once between two batches.

use crate::shared::{NewClient, ToWorker};
use mio::unix::SourceFd;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Messages that may lie unread until the worker wakes for another reason.
const UNREAD_MAX: usize = 32;

/// The sending end; cheap to clone.
#[derive(Clone)]
pub struct Mailbox {
    inner: Arc<Inner>,
}

struct Inner {
    post: Mutex<Post>,
    waker: mio::Waker,
    /// The worker's poll.
    registry: mio::Registry,
    token: mio::Token,
}

#[derive(Default)]
struct Post {
    messages: Vec<ToWorker>,
    /// The worker knows of what is here.
    rung: bool,
}

impl Mailbox {
    /// Of the worker that waits on `registry`'s poll; `token` tells it to look into its mailbox.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn new(registry: &mio::Registry, token: mio::Token) -> io::Result<Mailbox> {
        let inner = Inner {
            post: Mutex::default(),
            waker: mio::Waker::new(registry, token)?,
            registry: registry.try_clone()?,
            token,
        };
        Ok(Mailbox {
            inner: Arc::new(inner),
        })
    }

    /// The worker is woken by the first message only: it takes all that have come by then.
    pub fn send(&self, message: ToWorker) {
        let mut post = self.post();
        post.messages.push(message);
        self.ring(post);
    }

    /// A new client does not wake the worker: its first message will. It is registered with the worker's poll here, under the mailbox's
    /// token. A client that has said something already is not waited for, nor are many.
    ///
    /// # Errors
    /// What the system says if the socket cannot be watched; the client is dropped.
    pub fn send_client(&self, client: Box<NewClient>) -> io::Result<()> {
        let says_nothing = client.leftover.is_empty();
        // Locked first: once the socket is registered, the worker may come and look for the client.
        let mut post = self.post();
        let fd = client.socket.as_raw_fd();
        let interest = mio::Interest::READABLE;
        let Inner {
            registry, token, ..
        } = &*self.inner;
        registry.register(&mut SourceFd(&fd), *token, interest)?;
        post.messages.push(ToWorker::Client(client));
        if !says_nothing || post.messages.len() >= UNREAD_MAX {
            self.ring(post);
        }
        Ok(())
    }

    fn ring(&self, mut post: MutexGuard<'_, Post>) {
        let rung = std::mem::replace(&mut post.rung, true);
        drop(post);
        if !rung && let Err(error) = self.inner.waker.wake() {
            tracing::error!(%error, "a worker could not be woken");
        }
    }

    pub fn take(&self) -> Vec<ToWorker> {
        let mut post = self.post();
        post.rung = false;
        std::mem::take(&mut post.messages)
    }

    fn post(&self) -> MutexGuard<'_, Post> {
        self.inner
            .post
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
