//! From the command line to a running pooler, and from its end to an exit status.
//!
//! The order matters: the configuration whole or nothing; then what needs root (limits, the user); then the background, while there is
//! one thread; then log, sockets, pidfile, workers, and the control thread's loop on this very thread.

use crate::control::credentials::Credentials;
use crate::control::{self, Control, Inboxes, Signals, listener};
use crate::daemon::{self, Side, Starting};
use crate::logging::{Logging, Stderr};
use crate::pidfile::{self, PidFile};
use crate::privileges::{become_user, descriptors_needed, raise_descriptor_limit};
use crate::shared::{Shared, ToWorker};
use crate::worker;
use anyhow::{Context, bail};
use auth::UserList;
use pooling::CancelKeys;
use settings::{Config, Errors, General, Loaded};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// What the command line says.
#[derive(Debug, Clone)]
pub struct Options {
    pub config: PathBuf,
    pub mode: Mode,
    pub user: Option<String>,
    /// How often `-v` was given.
    pub verbose: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Foreground { quiet: bool },
    Background,
}

impl Options {
    /// Puts the command line's word above the file's. `user` counts at start only.
    pub fn override_settings(&self, config: &mut Config) {
        let general = Arc::make_mut(&mut config.general);
        general.verbose = general.verbose.max(self.verbose);
        if self.user.is_some() {
            general.user = self.user.clone();
        }
    }

    fn stderr(&self) -> Stderr {
        match self.mode {
            Mode::Foreground { quiet: false } => Stderr::Used,
            _ => Stderr::Unused,
        }
    }
}

/// Everything that is read from files.
pub struct Setup {
    pub loaded: Loaded,
    pub users: UserList,
}

/// All that is wrong with the files, one problem per line.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Config(#[from] Errors),
    #[error("{0}")]
    Users(String),
}

impl Setup {
    pub fn load(path: &Path) -> Result<Setup, SetupError> {
        Setup::with(Config::load(path)?)
    }

    /// For a running program, whose settings that only change at start stay.
    pub fn reload(running: &Config, path: &Path) -> Result<Setup, SetupError> {
        Setup::with(running.reload(path)?)
    }

    fn with(loaded: Loaded) -> Result<Setup, SetupError> {
        let users = users(&loaded.config.general)?;
        Ok(Setup { loaded, users })
    }
}

/// Reads `auth_file`.
pub fn users(general: &General) -> Result<UserList, SetupError> {
    let Some(path) = &general.auth_file else {
        return Ok(UserList::default());
    };
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| SetupError::Users(format!("auth_file {name}: {error}")))?;
    UserList::load(&text).map_err(|errors| {
        let lines: Vec<String> = errors
            .iter()
            .map(|error| format!("auth_file {name}: {error}"))
            .collect();
        SetupError::Users(lines.join("\n"))
    })
}

/// Runs the pooler until it is told to stop.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut setup = match Setup::load(&options.config) {
        Ok(setup) => setup,
        Err(errors) => {
            eprintln!("{errors:#}");
            return Ok(ExitCode::FAILURE);
        }
    };
    options.override_settings(&mut setup.loaded.config);
    let general = Arc::clone(&setup.loaded.config.general);
    let needed = descriptors_needed(&setup.loaded.config, setup.users.len());
    let limit = raise_descriptor_limit(needed)?;
    become_user(general.user.as_deref())?;
    if let Some(path) = &general.pidfile {
        pidfile::refuse_if_taken(path)?;
    }
    let starting = match background(options, &general)? {
        None => None,
        Some(Side::Starter(code)) => return Ok(code),
        Some(Side::Background(starting)) => Some(starting),
    };
    let logging = Logging::start(&general, options.stderr())?;
    limit.report(needed, general.max_client_conn);
    Ok(match serve(options, setup, logging, starting) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            if options.stderr() == Stderr::Unused {
                eprintln!("weir: {error:#}");
            }
            ExitCode::FAILURE
        }
    })
}

fn background(options: &Options, general: &General) -> anyhow::Result<Option<Side>> {
    if options.mode != Mode::Background {
        return Ok(None);
    }
    if general.pidfile.is_none() {
        bail!("-d needs a pidfile: set \"pidfile\"");
    }
    if general.logfile.is_none() && !general.syslog {
        bail!("-d needs a log: set \"logfile\" or \"syslog\"");
    }
    daemon::detach().map(Some)
}

fn serve(
    options: &Options,
    setup: Setup,
    logging: Logging,
    starting: Option<Starting>,
) -> anyhow::Result<()> {
    let Setup { loaded, users } = setup;
    report(&loaded);
    let general = Arc::clone(&loaded.config.general);
    let (shared, inbox) = Shared::new(
        loaded.config,
        CancelKeys::new(rand::random()),
        rand::random(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no event loop")?;
    let listeners = listener::bind(&general)?;
    let _pidfile = general
        .pidfile
        .as_deref()
        .map(PidFile::create)
        .transpose()?;
    let workers = worker::spawn(Arc::clone(&shared), worker_threads(&general))
        .context("the workers cannot be started")?;
    let (control, console_clients) = Control::new(
        Arc::clone(&shared),
        Credentials::new(users),
        options.clone(),
        Some(logging),
    );
    let outcome = tokio::task::LocalSet::new().block_on(&runtime, async {
        let signals = Signals::register().context("signals cannot be received")?;
        starting.map(Starting::running).transpose()?;
        tracing::info!(
            "process up: Weir {}, {} workers",
            env!("CARGO_PKG_VERSION"),
            shared.workers().len()
        );
        let inboxes = Inboxes {
            workers: inbox,
            console_clients,
            signals,
        };
        control::run(Arc::clone(&control), listeners, inboxes)
            .await
            .context("cannot accept connections")
    });
    shared.tell_all(|| ToWorker::Stop);
    workers.join();
    tracing::info!("process down");
    outcome
}

fn report(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    if !loaded.not_yet_in_effect.is_empty() {
        tracing::warn!("not yet in effect: {}", loaded.not_yet_in_effect.join(", "));
    }
}

fn worker_threads(general: &General) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = match general.worker_threads {
        0 => cores(),
        count => count as usize,
    };
    if wanted > pooling::cancel::WORKERS_MAX && general.worker_threads != 0 {
        tracing::warn!(
            "worker_threads = {wanted}: {} are used, the most there can be",
            pooling::cancel::WORKERS_MAX
        );
    }
    wanted.min(pooling::cancel::WORKERS_MAX)
}
