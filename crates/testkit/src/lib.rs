//! What the tests of all crates share: real servers, the real program and scripted ends. Never part of the program.
//!
//! - [`Postgres`]: a PostgreSQL of any supported version, with roles for each way of logging in.
//! - [`Ini`], [`Weir`], [`PgBouncer`]: a configuration, and the programs that run with it.
//! - [`Console`]: what the console answers.
//! - [`script`]: a client or a server that sends and expects exactly what a test says.
//! - [`wait`]: wait for a condition instead of sleeping.
//!
//! What does not work as a test expects panics with what was seen: this is test code.

#![allow(clippy::unwrap_used)]

mod console;
mod ini;
mod pooler;
mod postgres;
pub mod script;
pub mod wait;

pub use console::{Console, Table};
pub use ini::Ini;
pub use pooler::{PgBouncer, Pooler, Weir};
pub use postgres::{Postgres, Role};
