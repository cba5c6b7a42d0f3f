//! What is not needed to pool: an embedded PostgreSQL and the demonstration that `weir demo` runs.
//!
//! - [`demo`] is the demonstration.
//! - [`postgres`] finds, fetches and runs PostgreSQL servers in temporary folders.
//! - [`account`] is whom servers run as when this process is root.
//! - [`launcher`] starts processes that die with this one, whatever ends it.
//! - [`port`] picks TCP ports that nobody else will take by accident.
//! - [`runtime`] lets blocking callers use async drivers.

pub mod account;
pub mod demo;
pub mod launcher;
pub mod port;
pub mod postgres;
pub mod runtime;
