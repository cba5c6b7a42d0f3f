//! Bytes <-> messages of the PostgreSQL frontend/backend protocol, versions 3.0 and 3.2.
//!
//! Owns the spelling of every message, in both directions: borrowed views over received bytes
//! ([`frontend`], [`backend`], [`startup`]) and writers that append to a buffer ([`mod@write`]).
//! Deliberately without I/O, clock, configuration and opinion: which message is allowed when is
//! decided by the callers. Names follow the manual's chapter "Frontend/Backend Protocol",
//! section "Message Formats".
//!
//! No function here panics on any input that a peer can send.

#![forbid(unsafe_code)]

pub mod backend;
mod cursor;
mod error;
pub mod frontend;
#[doc(hidden)]
pub mod fuzz;
pub mod header;
pub mod options;
pub mod quote;
pub mod report;
pub mod sql_state;
pub mod startup;
pub mod write;

pub use error::WireError;
pub use header::Header;
pub use options::{OptionsError, parse_options};
pub use quote::{quote_identifier, quote_literal};
pub use report::{Report, Severity};
pub use sql_state::SqlState;
