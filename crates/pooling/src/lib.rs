//! Every decision that a pooler takes, without I/O: no socket, no clock, no environment, no unseeded randomness.
//! The program hands in bytes and the time, and carries out what comes back; a simulation can do the same.

pub mod time;

pub mod census;
pub mod channels;
pub mod conversation;
pub mod dialect;
pub mod editions;
pub mod parameters;
pub mod statements;
pub mod watch;

pub mod backoff;
pub mod ledger;

pub mod cancel;

#[doc(hidden)]
pub mod fuzz;

pub use cancel::{CancelKeys, CancelSecret};
pub use conversation::Conversation;
pub use ledger::Ledger;
pub use parameters::Parameters;
pub use time::Time;
pub use watch::Watch;
