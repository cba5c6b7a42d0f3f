//! What a client's and a server's socket have in common: bytes that cannot be understood yet, bytes that the peer has not taken yet,
//! and whether the socket may have more to read. An idle connection holds no buffer.

use super::outbox::Ticket;
use std::os::fd::OwnedFd;

/// Whether a receive can bring something. (Edge-triggered: the kernel says so once.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readable {
    No,
    Yes,
    /// And after what is there, the end.
    ToTheEnd,
}

pub struct Connection {
    pub fd: OwnedFd,
    pub ticket: Ticket,
    pub readable: Readable,
    inbox: Option<Box<Vec<u8>>>,
    backlog: Option<Box<Vec<u8>>>,
    /// Bytes of the message in transit that are still to come.
    pub transit: Transit,
}

/// A message that is passed on, or left out, as its bytes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transit {
    Pass(usize),
    Drop(usize),
}

impl Transit {
    pub const NONE: Transit = Transit::Pass(0);

    pub fn is_over(self) -> bool {
        matches!(self, Transit::Pass(0) | Transit::Drop(0))
    }
}

impl Connection {
    pub fn new(fd: OwnedFd) -> Connection {
        Connection {
            fd,
            ticket: Ticket::default(),
            readable: Readable::Yes,
            inbox: None,
            backlog: None,
            transit: Transit::NONE,
        }
    }

    /// Keeps bytes for later.
    pub fn keep(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.inbox.get_or_insert_default().extend_from_slice(bytes);
        }
    }

    /// What was kept.
    pub fn take_inbox(&mut self) -> Option<Box<Vec<u8>>> {
        self.inbox.take()
    }

    pub fn has_inbox(&self) -> bool {
        self.inbox.is_some()
    }

    /// The peer is slower than what it is sent: whoever feeds it must not be read.
    pub fn is_congested(&self) -> bool {
        self.backlog.is_some()
    }

    pub fn backlog(&mut self) -> &mut Vec<u8> {
        self.backlog.get_or_insert_default()
    }

    /// Sets what is left of the backlog; an empty one holds no memory.
    pub fn set_backlog(&mut self, bytes: Option<Box<Vec<u8>>>) {
        self.backlog = bytes.filter(|bytes| !bytes.is_empty());
    }

    pub fn take_backlog(&mut self) -> Option<Box<Vec<u8>>> {
        self.backlog.take()
    }

    /// Bytes of memory in its queues.
    pub fn buffered(&self) -> usize {
        let size =
            |queue: &Option<Box<Vec<u8>>>| queue.as_ref().map_or(0, |bytes| bytes.capacity());
        size(&self.inbox) + size(&self.backlog)
    }
}
