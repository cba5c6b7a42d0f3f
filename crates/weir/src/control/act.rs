//! What the console's commands do; signals and reload use the same functions.

use super::reload::{self, Failure};
use super::snapshot::{Snapshot, ask_workers};
use super::{Control, Phase};
use crate::shared::{Detail, Pool, Pools, Shared, ToWorker};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use wire::SqlState;

/// Whom a command is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    All,
    Database(String),
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("no such database: {0}")]
    NoSuchDatabase(String),
    #[error("the console's own database cannot be paused, killed or disabled")]
    Console,
    #[error("already paused")]
    AlreadyPaused,
    #[error("Weir is not paused")]
    NotPaused,
    #[error("database {0} is not paused")]
    DatabaseNotPaused(String),
    #[error("no such client: {0}")]
    NoSuchClient(u64),
    #[error("Weir is shutting down")]
    ShuttingDown,
    #[error(transparent)]
    Reload(#[from] Failure),
}

impl Refusal {
    pub fn sqlstate(&self) -> SqlState {
        match self {
            Refusal::NoSuchDatabase(_) => SqlState::INVALID_CATALOG_NAME,
            Refusal::Console => SqlState::FEATURE_NOT_SUPPORTED,
            Refusal::AlreadyPaused
            | Refusal::NotPaused
            | Refusal::DatabaseNotPaused(_)
            | Refusal::ShuttingDown => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            Refusal::NoSuchClient(_) => SqlState::CONNECTION_DOES_NOT_EXIST,
            Refusal::Reload(Failure::Setting(settings::SettingError::Unknown { .. })) => {
                SqlState::UNDEFINED_PARAMETER
            }
            Refusal::Reload(Failure::Setting(_)) => SqlState::INVALID_PARAMETER_VALUE,
            Refusal::Reload(_) => SqlState::CONFIG_FILE_ERROR,
        }
    }
}

/// PAUSE: no new leases, and done when the last server connection is gone. Dropping the future before that resumes.
pub async fn pause(control: &Control, target: &Target) -> Result<(), Refusal> {
    let undo = match target {
        Target::All => {
            begin_pause(control)?;
            Undo {
                control,
                target: Some(Target::All),
            }
        }
        Target::Database(name) => {
            let is_new = begin_pause_database(control, name)?;
            Undo {
                control,
                target: is_new.then(|| target.clone()),
            }
        }
    };
    until(&control.shared, || servers(&control.shared, target) == 0).await;
    undo.not_needed();
    Ok(())
}

/// The first half of PAUSE for all, which does not wait.
pub fn begin_pause(control: &Control) -> Result<(), Refusal> {
    {
        let mut pools = write(&control.shared);
        if pools.paused {
            return Err(Refusal::AlreadyPaused);
        }
        pools.paused = true;
    }
    refresh_gates(control);
    Ok(())
}

/// False if the database was paused before.
fn begin_pause_database(control: &Control, name: &str) -> Result<bool, Refusal> {
    known(control, name)?;
    if read(&control.shared).paused {
        return Err(Refusal::AlreadyPaused);
    }
    let is_new = control.paused().insert(name.into());
    refresh_gates(control);
    Ok(is_new)
}

/// Ends a pause that nobody waits for any more.
struct Undo<'a> {
    control: &'a Control,
    target: Option<Target>,
}

impl Undo<'_> {
    fn not_needed(mut self) {
        self.target = None;
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            tracing::info!("PAUSE was given up before it was complete: resuming");
            // It can only have been resumed already.
            let _ = resume(self.control, &target);
        }
    }
}

pub fn resume(control: &Control, target: &Target) -> Result<(), Refusal> {
    match target {
        Target::All => resume_all(control),
        Target::Database(name) => {
            known(control, name)?;
            if !control.paused().remove(name.as_str()) {
                return Err(Refusal::DatabaseNotPaused(name.clone()));
            }
            refresh_gates(control);
            Ok(())
        }
    }
}

pub fn resume_all(control: &Control) -> Result<(), Refusal> {
    if control.phase() != Phase::Serving {
        return Err(Refusal::ShuttingDown);
    }
    if !std::mem::replace(&mut write(&control.shared).paused, false) {
        return Err(Refusal::NotPaused);
    }
    refresh_gates(control);
    Ok(())
}

/// Brings every database's gate in line with what has been said, and tells the workers where it moved.
fn refresh_gates(control: &Control) {
    let shared = &control.shared;
    let named = control.paused().clone();
    let pools = read(shared);
    let moved: BTreeSet<&str> = pools
        .databases()
        .filter(|(name, state)| {
            let paused = pools.paused || named.contains(*name);
            state.paused.swap(paused, Ordering::Relaxed) != paused
        })
        .map(|(name, _)| name)
        .collect();
    let changed = pools
        .iter()
        .filter(|pool| moved.contains(&*pool.database_name));
    changed.for_each(|pool| shared.tell_all(|| ToWorker::PoolChanged(pool.id)));
}

/// ENABLE and DISABLE: whether new clients may come.
pub fn set_disabled(control: &Control, name: &str, disabled: bool) -> Result<(), Refusal> {
    known(control, name)?;
    let state = write(&control.shared).database_state(name);
    state.disabled.store(disabled, Ordering::Relaxed);
    Ok(())
}

/// RECONNECT: server connections are replaced as each becomes idle.
pub fn reconnect(control: &Control, target: &Target) -> Result<(), Refusal> {
    let pools = targeted(control, target)?;
    pools
        .iter()
        .for_each(|pool| reload::reconnect(&control.shared, pool));
    Ok(())
}

/// KILL: drops all clients and server connections at once and leaves the database paused.
pub fn kill(control: &Control, target: &Target) -> Result<(), Refusal> {
    let pools = targeted(control, target)?;
    match target {
        // Paused already is fine here.
        Target::All => drop(begin_pause(control)),
        Target::Database(name) => {
            control.paused().insert(name.as_str().into());
            refresh_gates(control);
        }
    }
    let ids = Arc::new(pools.iter().map(|pool| pool.id).collect::<Vec<_>>());
    control.shared.tell_all(|| ToWorker::Kill(Arc::clone(&ids)));
    Ok(())
}

/// KILL_CLIENT, by the id that SHOW CLIENTS gives.
pub async fn kill_client(control: &Control, id: u64) -> Result<(), Refusal> {
    if control.consoles.end(id) {
        return Ok(());
    }
    let answers = ask_workers(&control.shared, |answer| ToWorker::KillClient {
        id,
        answer,
    })
    .await;
    if answers.contains(&true) {
        return Ok(());
    }
    Err(Refusal::NoSuchClient(id))
}

/// WAIT_CLOSE: done when no server connection is left that RECONNECT, RELOAD or KILL has marked.
pub async fn wait_close(control: &Control, target: &Target) -> Result<(), Refusal> {
    targeted(control, target)?;
    loop {
        let departed = control.shared.departures.notified();
        tokio::pin!(departed);
        departed.as_mut().enable();
        let snapshot = Snapshot::take(control, Detail::Connections).await;
        let concerned = |pool: &Pool| target.includes(&pool.database_name);
        let marked = snapshot.servers().filter(|server| server.close_needed);
        if !marked
            .filter_map(|server| snapshot.pool(server.pool))
            .any(concerned)
        {
            return Ok(());
        }
        departed.await;
    }
}

/// SHUTDOWN in one of its ways. Only forward: an end at once is never taken back.
pub fn shut_down(control: &Arc<Control>, phase: Phase) {
    if control.phase() == Phase::Ended || control.phase() == phase {
        return;
    }
    control.phase.send_replace(phase);
    match phase {
        Phase::Serving | Phase::Ended => {}
        Phase::WaitingForClients => end_when(control, |shared| shared.clients.count() == 0),
        Phase::WaitingForServers => {
            // It may be paused already.
            let _ = begin_pause(control);
            control.shared.tell_all(|| ToWorker::CloseIdleClients);
            end_when(control, |shared| servers(shared, &Target::All) == 0);
        }
    }
}

fn end_when(control: &Arc<Control>, condition: fn(&Shared) -> bool) {
    let control = Arc::clone(control);
    tokio::spawn(async move {
        until(&control.shared, || condition(&control.shared)).await;
        control.phase.send_replace(Phase::Ended);
    });
}

/// Waits for departures until the condition holds.
async fn until(shared: &Shared, condition: impl Fn() -> bool) {
    loop {
        let departed = shared.departures.notified();
        tokio::pin!(departed);
        // Registered before the look, so that no departure falls between.
        departed.as_mut().enable();
        if condition() {
            return;
        }
        departed.await;
    }
}

/// The server connections there are, those that are being dialled included.
fn servers(shared: &Shared, target: &Target) -> u32 {
    let pools = read(shared);
    let ledger = shared.ledger();
    let concerned = pools
        .iter()
        .filter(|pool| target.includes(&pool.database_name));
    concerned.map(|pool| ledger.open_in_pool(pool.id)).sum()
}

impl Target {
    fn includes(&self, database: &str) -> bool {
        match self {
            Target::All => true,
            Target::Database(name) => name == database,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::All => f.write_str("all databases"),
            Target::Database(name) => write!(f, "database {name}"),
        }
    }
}

/// The pools that a command is for; an error for a database that nobody knows.
fn targeted(control: &Control, target: &Target) -> Result<Vec<Arc<Pool>>, Refusal> {
    if let Target::Database(name) = target {
        known(control, name)?;
    }
    let pools = read(&control.shared);
    Ok(pools
        .iter()
        .filter(|pool| target.includes(&pool.database_name))
        .map(Arc::clone)
        .collect())
}

/// A database that is configured, or that was and still has a pool. Its gate exists afterwards.
fn known(control: &Control, name: &str) -> Result<(), Refusal> {
    if settings::is_console(name) {
        return Err(Refusal::Console);
    }
    let mut pools = write(&control.shared);
    let is_used = pools.databases().any(|(known, _)| known == name);
    if !is_used && control.shared.config.load().database(name).is_none() {
        return Err(Refusal::NoSuchDatabase(name.to_owned()));
    }
    pools.database_state(name);
    Ok(())
}

fn read(shared: &Shared) -> RwLockReadGuard<'_, Pools> {
    shared.pools.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shared: &Shared) -> RwLockWriteGuard<'_, Pools> {
    shared.pools.write().unwrap_or_else(PoisonError::into_inner)
}
