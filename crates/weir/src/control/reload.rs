//! RELOAD and SET: a new configuration replaces the running one whole, or nothing happens.
//!
//! Everything that can fail comes before the first change. What follows is only swapping: the snapshot, the user list, each pool's
//! settings and limits; then the workers are told.

use super::{Control, notify};
use crate::shared::{Pool, Shared, ToWorker, limits};
use crate::start::{self, Setup, SetupError};
use auth::UserList;
use settings::{Config, Database, SettingError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the configuration is left as it was:\n{0}")]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("the configuration is left as it was: {0}")]
    Log(#[from] std::io::Error),
}

/// Reads the files again. Says in the log how it went.
pub fn reload(control: &Control) -> Result<(), Failure> {
    notify::reloading();
    let outcome = try_reload(control);
    if let Err(failure) = &outcome {
        failure
            .to_string()
            .lines()
            .for_each(|line| tracing::error!("RELOAD: {line}"));
    }
    notify::send("READY=1");
    outcome
}

fn try_reload(control: &Control) -> Result<(), Failure> {
    let running = control.shared.config.load_full();
    let path = running
        .general
        .conffile
        .as_deref()
        .unwrap_or(&control.options.config);
    let Setup { mut loaded, users } = Setup::reload(&running, path)?;
    control.options.override_settings(&mut loaded.config);
    apply(control, loaded.config, users)?;
    tracing::info!("RELOAD: {} is in effect", path.display());
    loaded
        .warnings
        .iter()
        .for_each(|warning| tracing::warn!("{warning}"));
    if !loaded.not_yet_in_effect.is_empty() {
        tracing::warn!("not yet in effect: {}", loaded.not_yet_in_effect.join(", "));
    }
    let by_command_line = |name: &&str| *name == "user" && control.options.user.is_some();
    let needs_restart: Vec<&str> = loaded
        .needs_restart
        .iter()
        .copied()
        .filter(|name| !by_command_line(name))
        .collect();
    if !needs_restart.is_empty() {
        tracing::warn!(
            "changed in the file, but only a restart changes it: {}",
            needs_restart.join(", ")
        );
    }
    Ok(())
}

/// Changes one setting until the next RELOAD.
pub fn set(control: &Control, key: &str, value: &str) -> Result<(), Failure> {
    let config = control.shared.config.load().with(key, value)?;
    let users = start::users(&config.general)?;
    apply(control, config, users)?;
    tracing::info!("SET {key}: it holds until the next RELOAD");
    Ok(())
}

fn apply(control: &Control, config: Config, users: UserList) -> Result<(), Failure> {
    if let Some(logging) = &control.logging {
        logging.change(&config.general)?;
    }
    let shared = &control.shared;
    let config = Arc::new(config);
    let before = shared.config.swap(Arc::clone(&config));
    if before.general.census_names != config.general.census_names {
        relearn(shared);
    }
    control.credentials.users.store(Arc::new(users));
    control.reception.forget_lookups();
    let pools: Vec<Arc<Pool>> = {
        let pools = shared
            .pools
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        pools.iter().map(Arc::clone).collect()
    };
    pools.iter().for_each(|pool| refresh(shared, &config, pool));
    shared.grant_wishes();
    shared.tell_all(|| ToWorker::ConfigChanged);
    Ok(())
}

/// The words that workers look for are others now.
fn relearn(shared: &Shared) {
    let pools = shared
        .pools
        .read()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    for (_, state) in pools.databases() {
        state.catalogue.relearn();
    }
}

/// Gives a pool its new settings. One whose database is gone, or has another forced user now, serves the clients that it has.
fn refresh(shared: &Shared, config: &Config, pool: &Pool) {
    let Some(database) = config.database(&pool.database_name) else {
        return reconnect(shared, pool);
    };
    let server_user = database.forced_user.as_deref().unwrap_or(&pool.user);
    if server_user != &*pool.server_user {
        return reconnect(shared, pool);
    }
    let settings = config.pool_settings(&database, &pool.user);
    shared.ledger().set_limits(pool.id, limits(&settings));
    pool.settings.store(Arc::new(settings));
    let before = pool.database.swap(Arc::clone(&database));
    if connects_elsewhere(&before, &database) {
        tracing::info!(
            "database {} has changed: its server connections are replaced",
            pool.database_name
        );
        pool.generation.fetch_add(1, Ordering::Relaxed);
        pool.state.catalogue.forget();
    }
    shared.tell_all(|| ToWorker::PoolChanged(pool.id));
}

/// Lets go of the pool's server connections as each becomes idle.
pub fn reconnect(shared: &Shared, pool: &Pool) {
    pool.generation.fetch_add(1, Ordering::Relaxed);
    shared.tell_all(|| ToWorker::PoolChanged(pool.id));
}

/// Whether server connections made for one would be wrong for the other.
fn connects_elsewhere(one: &Database, other: &Database) -> bool {
    let target = |database: &Database| {
        (
            database.hosts.clone(),
            database.dbname.clone(),
            database.password.clone(),
            database.connect_query.clone(),
            database.startup_parameters.clone(),
        )
    };
    target(one) != target(other)
}
