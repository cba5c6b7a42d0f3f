//! `weir check --against`: what the statements of a live database, or of a log, would cost in a transaction pool.
//!
//! [`live`] and [`log`] find statements and who says them, [`verdict`] says what each costs and what to change, by the same scan that Weir serves clients by;
//! [`words`] writes it down. Nothing is changed on the server.

pub mod live;
pub mod log;
pub mod verdict;
pub mod words;

use crate::advise::Length;
use crate::advise::sample::WatchError;
use crate::advise::source::Source;
use crate::driver::DsnError;
use crate::interrupt::Interrupt;
use crate::runtime::apart_from;
use live::Looked;
use log::LogError;
use sql::LearntNames;
use std::collections::BTreeMap;
use std::path::PathBuf;
use verdict::{Auditor, TooManyNames, Verdict};

/// Where statements are looked for.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// A database that applications use: its sessions, its pg_stat_statements and its catalogue.
    pub dsn: Option<String>,
    pub watch: Length,
    /// Logs of PostgreSQL, or files of SQL.
    pub logs: Vec<PathBuf>,
}

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("the connection string cannot be used: {0}")]
    Dsn(#[from] DsnError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Names(#[from] TooManyNames),
    #[error("cannot wait for Ctrl-C: {0}")]
    Signals(std::io::Error),
}

/// A statement that somebody has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Empty if it is not known.
    pub application: String,
    pub text: String,
    pub times: u64,
}

/// What one application says.
#[derive(Debug, Default)]
pub struct Application {
    /// Statements, each as often as it was seen.
    pub statements: u64,
    /// Those that cost something, by their texts without constants.
    pub costly: BTreeMap<String, Costly>,
}

#[derive(Debug)]
pub struct Costly {
    pub times: u64,
    pub verdict: Verdict,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Audit {
    /// Where it was looked, in words.
    pub looked: Vec<String>,
    pub applications: BTreeMap<String, Application>,
}

impl Audit {
    fn add(&mut self, auditor: &Auditor, said: &Said) {
        let application = self
            .applications
            .entry(said.application.clone())
            .or_default();
        application.statements += said.times;
        let verdict = auditor.judge(&said.text);
        if verdict.is_free() {
            return;
        }
        let costly = application
            .costly
            .entry(verdict::without_constants(&said.text));
        costly
            .and_modify(|known| known.times += said.times)
            .or_insert(Costly {
                times: said.times,
                verdict,
            });
    }
}

/// Looks, and prints what was found.
///
/// # Errors
/// [`AuditError`].
pub fn run(options: &AuditOptions) -> Result<(), AuditError> {
    let interrupt = Interrupt::on_signals().map_err(AuditError::Signals)?;
    print!("{}", words::text(&audit(options, &interrupt)?));
    Ok(())
}

/// Looks; Ctrl-C ends the watch early.
///
/// # Errors
/// [`AuditError`].
pub fn audit(options: &AuditOptions, interrupt: &Interrupt) -> Result<Audit, AuditError> {
    let mut audit = Audit::default();
    let mut said = Vec::new();
    for path in &options.logs {
        let statements = log::read(path)?;
        audit.looked.push(format!(
            "{}: {} statements",
            path.display(),
            statements.len()
        ));
        said.extend(statements);
    }
    let mut learnt = LearntNames::default();
    if let Some(dsn) = &options.dsn {
        let source = Source::parse(dsn)?;
        let found = apart_from(async || live::look(&source, options.watch.0, interrupt).await)?;
        let Looked {
            told,
            statements,
            names,
        } = found;
        audit.looked.extend(told);
        said.extend(statements);
        learnt = names;
    }
    let auditor = Auditor::new(learnt)?;
    said.iter().for_each(|one| audit.add(&auditor, one));
    Ok(audit)
}
