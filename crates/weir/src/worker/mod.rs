//! A worker: one thread, one readiness loop, the client sessions and server connections that it owns.

mod mailbox;

pub use mailbox::Mailbox;

/// A server connection's place on its worker; never reused while the connection lives, and never equal to a later one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerKey {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

pub struct Server {}
