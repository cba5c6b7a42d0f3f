//! Where experiments happen: the targets, the server behind them, and what the machine can carry.

mod capacity;
mod door;
mod machine;
mod pooler;
mod schema;
mod target;
mod watch;

pub use capacity::{Capacity, Limit, Size};
pub use door::{Door, Setup};
pub use machine::{Machine, Usage, context_switches, field, memory_field, usage};
pub use pooler::{Authentication, Pooler, Program, Reuse};
pub use schema::{SCHEMA, relation};
pub use target::{Target, TargetKind};
pub use watch::Watch;

use watch::Whose;

use crate::driver::{Clock, Endpoint, Failure};
use crate::experiment::Depth;
use crate::interrupt::{Interrupt, Interrupted};
use crate::postgres::{self, Installation, Options, Server};
use crate::workload::{Load, LoadError};
use std::future::Future;
use std::path::PathBuf;
use tokio::runtime::{Handle, Runtime};

/// The role of the lab's clients; it comes in without a password.
pub const ROLE: &str = "lab";
/// The same with a password, by SCRAM.
pub const SCRAM_ROLE: &str = "lab_scram";
pub const SCRAM_PASSWORD: &str = "lab";
pub const DATABASE: &str = "lab";
/// What is fetched where no PostgreSQL is installed.
const FETCHED_MAJOR: u32 = 17;
/// Beyond the experiments' connections: those that watch, PostgreSQL's reserve for superusers.
const SPARE_CONNECTIONS: u64 = 40;

/// Why something could not be set up or measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Client(#[from] Failure),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{}", postgres::describe(.0))]
    Watch(#[from] tokio_postgres::Error),
    #[error("{program} did not start:\n{log}")]
    Pooler { program: String, log: String },
    /// The set-up is not what the experiment is about.
    #[error("{0}")]
    Unfit(String),
    #[error("{what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Error {
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}

/// Everything that an experiment works with.
pub struct Site {
    pub depth: Depth,
    pub targets: Vec<Target>,
    pub capacity: Capacity,
    pub machine: Machine,
    pub load: Load,
    pub clock: Clock,
    own: Option<Server>,
    runtime: Runtime,
    interrupt: Interrupt,
}

/// What a site is made of.
#[derive(Debug, Clone)]
pub struct SiteOptions {
    pub depth: Depth,
    /// Named by the user; empty: the lab brings its own.
    pub given: Vec<Target>,
    pub weir_program: PathBuf,
    /// Server connections that the experiments would like to have.
    pub connections: u64,
}

impl Site {
    /// Starts what belongs to the site and fills its tables.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(options: &SiteOptions, interrupt: Interrupt) -> Result<Self, Error> {
        let machine = Machine::read();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(machine.cores.div_ceil(2))
            .enable_all()
            .build()
            .map_err(Error::io("cannot start the driver's threads"))?;
        let clock = Clock::start().map_err(Error::io("cannot start a thread"))?;
        let files = capacity::allow_files();
        let (own, targets) = match options.given.is_empty() {
            false => (None, options.given.clone()),
            true => {
                let wanted = capacity::affordable(options.connections, files.clone(), &machine);
                (
                    Some(start(wanted.most)?),
                    target::own(&options.weir_program),
                )
            }
        };
        let mut site = Self {
            depth: options.depth,
            targets,
            capacity: Capacity::default(),
            machine,
            load: Load::choose(clock.clone()),
            clock,
            own,
            runtime,
            interrupt,
        };
        site.furnish()?;
        site.capacity = capacity::measure(&site, files)?;
        Ok(site)
    }

    /// Runs `future` until it ends or Ctrl-C is pressed.
    ///
    /// # Errors
    /// The future's, or [`Error::Interrupted`].
    pub fn run<T, E>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, Error>
    where
        Error: From<E>,
    {
        self.runtime.block_on(async {
            tokio::select! {
                done = future => Ok(done?),
                interrupted = self.interrupt.requested() => Err(interrupted.into()),
            }
        })
    }

    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The server that the lab brought along.
    pub fn own(&self) -> Option<&Server> {
        self.own.as_ref()
    }

    pub fn own_mut(&mut self) -> Option<&mut Server> {
        self.own.as_mut()
    }

    pub fn target(&self, name: &str) -> Result<&Target, Error> {
        let found = self.targets.iter().find(|target| target.name == name);
        found.ok_or_else(|| Error::Unfit(format!("there is no target {name}")))
    }

    /// A target, set up as asked if it is the lab's own.
    ///
    /// # Errors
    /// That it does not start.
    pub fn enter(&self, target: &str, setup: &Setup) -> Result<Door, Error> {
        let target = self.target(target)?;
        match (&target.kind, &self.own) {
            (TargetKind::Given(endpoint), _) => Ok(Door::of_others(endpoint)),
            (TargetKind::OwnPostgres, Some(server)) => Door::to_server(server, setup),
            (TargetKind::OwnPooler(program), Some(server)) => {
                Door::to_pooler(program, server, setup)
            }
            _ => Err(Error::Unfit("the lab's own server does not run".into())),
        }
    }

    /// A connection that sees what PostgreSQL does behind `target`.
    ///
    /// # Errors
    /// That it cannot connect.
    pub fn watch(&self, target: &str) -> Result<Watch, Error> {
        let target = self.target(target)?;
        let (config, role, whose) = match (&target.kind, &self.own) {
            (TargetKind::Given(endpoint), _) => {
                (endpoint.config(), endpoint.user.clone(), Whose::Others)
            }
            (_, Some(server)) => (server.superuser(DATABASE), ROLE.to_owned(), Whose::Own),
            _ => return Err(Error::Unfit("the lab's own server does not run".into())),
        };
        self.run_to_the_end(Watch::connect(config, role, whose))
    }

    /// Ends a measurement: what it opened is closed, and its server processes have gone before the next one begins.
    ///
    /// # Errors
    /// That they do not go.
    pub fn settle(&self, door: Door, watch: &Watch) -> Result<(), Error> {
        let own = door.is_own();
        drop(door);
        match own {
            true => self.run(watch.until_nobody_is_left()),
            // Somebody else's pooler keeps its server connections.
            false => self.run(watch.until_no_more_leave()),
        }
    }

    /// Where tasks can be spawned that go on while the caller does something else.
    pub fn tasks(&self) -> &Handle {
        self.runtime.handle()
    }

    /// As [`Site::run`], also after Ctrl-C: for the last few questions.
    ///
    /// # Errors
    /// The future's.
    pub fn run_to_the_end<T, E>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.runtime.block_on(future)
    }

    /// Removes what was put on servers that are not the lab's own.
    pub fn leave(&self) {
        for target in &self.targets {
            if let TargetKind::Given(endpoint) = &target.kind {
                // Also after Ctrl-C. A server that does not answer keeps a schema that the next run removes.
                let _ = self.run_to_the_end(schema::remove(endpoint));
            }
        }
    }

    /// Empties the tables behind `target` that loads have filled.
    ///
    /// # Errors
    /// That it cannot be done.
    pub fn refresh(&self, target: &str) -> Result<(), Error> {
        let endpoint = match (&self.target(target)?.kind, &self.own) {
            (TargetKind::Given(endpoint), _) => endpoint.clone(),
            (_, Some(server)) => Endpoint::local(server.port(), ROLE, DATABASE),
            _ => return Err(Error::Unfit("the lab's own server does not run".into())),
        };
        self.run(schema::empty(&endpoint))
    }

    fn furnish(&self) -> Result<(), Error> {
        match &self.own {
            Some(server) => self.run(schema::fill(&Endpoint::local(
                server.port(),
                ROLE,
                DATABASE,
            ))),
            None => self
                .targets
                .iter()
                .try_for_each(|target| match &target.kind {
                    TargetKind::Given(endpoint) => self.run(schema::fill(endpoint)),
                    _ => Ok(()),
                }),
        }
    }
}

fn start(connections: u64) -> Result<Server, Error> {
    let options = Options::default()
        .setting(
            "max_connections",
            &(connections + SPARE_CONNECTIONS).to_string(),
        )
        .setting("shared_buffers", "256MB")
        .setting("max_wal_size", "4GB")
        .setting("password_encryption", "scram-sha-256")
        .hba([
            "host lab lab_scram 127.0.0.1/32 scram-sha-256",
            "host lab lab 127.0.0.1/32 trust",
        ]);
    let installation = match Installation::find() {
        Err(postgres::Error::NotInstalled) => Installation::fetch(FETCHED_MAJOR)?,
        found => found?,
    };
    let server = installation.start(&options)?;
    server.execute(&format!("CREATE ROLE {ROLE} LOGIN"))?;
    server.execute(&format!(
        "CREATE ROLE {SCRAM_ROLE} LOGIN PASSWORD '{SCRAM_PASSWORD}' IN ROLE {ROLE}"
    ))?;
    server.execute(&format!("CREATE DATABASE {DATABASE} OWNER {ROLE}"))?;
    server.query(
        DATABASE,
        &format!(
            "GRANT SELECT ON pg_backend_memory_contexts TO {ROLE};
                  GRANT EXECUTE ON FUNCTION pg_get_backend_memory_contexts() TO {ROLE}"
        ),
    )?;
    Ok(server)
}
