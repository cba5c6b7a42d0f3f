//! Whom the process runs as, and how many file descriptors it may have.

use anyhow::{Context, bail};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};
use settings::Config;
use std::ffi::CString;

/// Becomes `user` for good. As root a user has to be named; others may name only themselves.
///
/// This comes before pidfile, log file and sockets are made, as in PgBouncer: they then belong to the user who has to
/// rotate and remove them.
pub fn become_user(user: Option<&str>) -> anyhow::Result<()> {
    match (Uid::effective().is_root(), user) {
        (false, None) => Ok(()),
        (false, Some(name)) if lookup(name)?.uid == Uid::effective() => Ok(()),
        (false, Some(name)) => {
            bail!("cannot become user \"{name}\": only root can change the user")
        }
        (true, None) => {
            bail!("Weir does not run as root: name a user with -u or the setting \"user\"")
        }
        (true, Some(name)) => drop_to(&lookup(name)?),
    }
}

fn lookup(name: &str) -> anyhow::Result<User> {
    let found =
        User::from_name(name).with_context(|| format!("user \"{name}\" cannot be looked up"))?;
    found.with_context(|| format!("there is no user \"{name}\" on this machine"))
}

fn drop_to(user: &User) -> anyhow::Result<()> {
    if user.uid.is_root() {
        bail!("Weir does not run as root: \"{}\" is root", user.name);
    }
    let failed = || format!("cannot become user \"{}\"", user.name);
    // Groups first: afterwards there is no right to change them.
    initgroups(&CString::new(user.name.as_str())?, user.gid).with_context(failed)?;
    setgid(user.gid).with_context(failed)?;
    setuid(user.uid).with_context(failed)?;
    if setuid(Uid::from_raw(0)).is_ok() || setgid(Gid::from_raw(0)).is_ok() {
        bail!("{}: root's rights could be taken back", failed());
    }
    Ok(())
}

/// Descriptors that are neither a client's nor a server connection's: listeners, log, epoll, io_uring and so on.
const OWN_DESCRIPTORS: u64 = 100;

/// The file descriptors that a configuration can use when all of its limits are reached.
pub fn descriptors_needed(config: &Config, users: usize) -> u64 {
    let general = &config.general;
    let servers = |database: &settings::Database| {
        let pools = if database.forced_user.is_some() {
            1
        } else {
            users.max(1) as u64
        };
        let size = u64::from(database.pool_size.unwrap_or(general.default_pool_size));
        let reserve = u64::from(
            database
                .reserve_pool_size
                .unwrap_or(general.reserve_pool_size),
        );
        match u64::from(
            database
                .max_db_connections
                .unwrap_or(general.max_db_connections),
        ) {
            0 => pools * (size + reserve),
            limit => limit.min(pools * (size + reserve)),
        }
    };
    let databases = config.databases.values().chain(config.fallback.as_ref());
    let servers: u64 = databases.map(|database| servers(database)).sum();
    OWN_DESCRIPTORS
        + u64::from(general.max_client_conn)
        + u64::from(general.cancel_connections_max)
        + servers
}

/// The limit on file descriptors after it has been raised as far as the process may.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorLimit {
    pub soft: u64,
    pub hard: u64,
}

/// Raises the soft limit to the hard one, and as root the hard one to `needed`. To be called before root's rights are given up.
pub fn raise_descriptor_limit(needed: u64) -> anyhow::Result<DescriptorLimit> {
    let resource = Resource::RLIMIT_NOFILE;
    let (_, hard) = getrlimit(resource).context("the limit on open files cannot be read")?;
    let wanted = if Uid::effective().is_root() {
        hard.max(needed as rlim_t)
    } else {
        hard
    };
    // The kernel may refuse more than its own maximum: then the old hard limit is what can be had.
    if setrlimit(resource, wanted, wanted).is_err() {
        setrlimit(resource, hard, hard).context("the limit on open files cannot be raised")?;
    }
    let (soft, hard) = getrlimit(resource).context("the limit on open files cannot be read")?;
    Ok(DescriptorLimit { soft, hard })
}

impl DescriptorLimit {
    /// Tells the operator how the limit compares to what the configuration can use.
    pub fn report(self, needed: u64, max_client_conn: u32) {
        let DescriptorLimit { soft, hard } = self;
        tracing::info!(
            "kernel file descriptor limit: {soft} (hard: {hard}); max_client_conn: {max_client_conn}, max expected fd use: {needed}"
        );
        if soft < needed {
            tracing::warn!(
                "the configuration can use up to {needed} file descriptors, but this process may open {soft} (ulimit -n, LimitNOFILE=): \
                 raise that, or lower max_client_conn and the pool sizes"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_limit_of_the_configuration_counts() {
        let text = "[pgbouncer]\nmax_client_conn = 1000\ndefault_pool_size = 20\nreserve_pool_size = 5\n\
                    [databases]\none = host=a user=u\ntwo = host=b\nthree = host=c max_db_connections=30\n* = host=d pool_size=1\n";
        let config = Config::parse(text, Path::new("x.ini"))
            .expect("valid")
            .config;
        let servers = 25 + 3 * 25 + 30 + 3 * 6;
        assert_eq!(
            descriptors_needed(&config, 3),
            OWN_DESCRIPTORS + 1000 + 100 + servers
        );
    }

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let limit = raise_descriptor_limit(1).expect("own limits can be read and raised");
        assert_eq!(limit.soft, limit.hard);
    }
}
