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
    inbox: Vec<u8>,
    /// Bytes that have to be in the inbox before it is worth looking at again: a large message is looked at when it is whole, not
    /// each time that a piece of it arrives.
    inbox_wants: usize,
    backlog: Vec<u8>,
    /// Bytes of the message in transit that are still to come.
    pub transit: Transit,
}

/// Small inboxes that are empty again: where clients wait, each would otherwise be allocated for one message.
#[derive(Default)]
pub struct SpareInboxes(Vec<Vec<u8>>);

impl SpareInboxes {
    const MOST: usize = 64;
    /// Bytes.
    const SIZE_MAX: usize = 1024;

    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub fn put(&mut self, mut inbox: Vec<u8>) {
        if self.0.len() < Self::MOST && inbox.capacity() <= Self::SIZE_MAX {
            inbox.clear();
            self.0.push(inbox);
        }
    }
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
            inbox: Vec::new(),
            inbox_wants: 0,
            backlog: Vec::new(),
            transit: Transit::NONE,
        }
    }

    /// Keeps bytes until there are at least `wants` of them.
    pub fn keep(&mut self, bytes: &[u8], wants: usize, spares: &mut SpareInboxes) {
        if self.inbox.capacity() == 0 && !bytes.is_empty() {
            self.inbox = spares.take();
        }
        self.inbox.extend_from_slice(bytes);
        self.inbox_wants = wants;
    }

    /// Adds to what is kept; true if that is enough now.
    pub fn keep_more(&mut self, bytes: &[u8]) -> bool {
        self.inbox.extend_from_slice(bytes);
        self.inbox.len() >= self.inbox_wants
    }

    /// What was kept; empty if nothing.
    pub fn take_inbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    pub fn has_inbox(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// The peer is slower than what it is sent: whoever feeds it must not be read.
    pub fn is_congested(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Sets what is left of the backlog; an empty one holds no memory.
    pub fn set_backlog(&mut self, bytes: Vec<u8>) {
        self.backlog = if bytes.is_empty() { Vec::new() } else { bytes };
    }

    pub fn take_backlog(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.backlog)
    }

    /// Bytes of memory in its queues.
    pub fn buffered(&self) -> usize {
        self.inbox.capacity() + self.backlog.capacity()
    }
}
