//! How many connections this machine and these servers can carry. Sizes beyond that are lowered, and the reason goes into the tables.

use super::{Error, SPARE_CONNECTIONS, Site, Target, machine::Machine};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files of this process and of a pooler beyond their sockets.
const SPARE_FILES: u64 = 200;
/// What a server process takes, page tables included, before it has done much.
const BYTES_PER_CONNECTION: u64 = 2 << 20;
/// What an experiment's own connections may take of the memory that is free.
const SHARE_OF_MEMORY: f64 = 0.7;
/// Ephemeral ports towards one listening port (Linux's default has 28,232).
const PORTS: u64 = 28_000;
/// Connections that stay free on a server that is not the lab's own: for its superuser and those who come meanwhile.
const RESERVE: u64 = 10;

/// What can be carried.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    /// Connections to PostgreSQL.
    pub connections: Limit,
    /// Clients of a pooler.
    pub clients: Limit,
}

/// A number and what stands in the way of more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limit {
    pub most: u64,
    pub because: String,
}

/// A size of an experiment, as wanted or as it was lowered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    pub value: u64,
    pub lowered: Option<String>,
}

impl Limit {
    fn new(most: u64, because: impl Into<String>) -> Self {
        Self {
            most,
            because: because.into(),
        }
    }

    fn least(limits: impl IntoIterator<Item = Limit>) -> Limit {
        let least = limits.into_iter().min_by_key(|limit| limit.most);
        least.unwrap_or_default()
    }

    /// `wanted` as far as it goes; those beyond become one size that says what it stands for.
    pub fn fit(&self, wanted: &[u64]) -> Vec<Size> {
        let (fitting, beyond): (Vec<u64>, Vec<u64>) =
            wanted.iter().partition(|size| **size <= self.most);
        let mut sizes: Vec<Size> = fitting
            .into_iter()
            .map(|value| Size {
                value,
                lowered: None,
            })
            .collect();
        let asked: Vec<String> = beyond
            .iter()
            .map(|size| crate::report::count(*size))
            .collect();
        if !beyond.is_empty() && sizes.iter().all(|size| size.value < self.most) {
            sizes.push(Size {
                value: self.most,
                lowered: Some(format!(
                    "lowered from {}: {}",
                    asked.join(" and "),
                    self.because
                )),
            });
        } else if let (Some(last), false) = (sizes.last_mut(), beyond.is_empty()) {
            last.lowered = Some(format!(
                "stands for {}: {}",
                asked.join(" and "),
                self.because
            ));
        }
        sizes
    }
}

/// Raises this process's limit of open files; children inherit it.
pub fn allow_files() -> Limit {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1_024, 1_024));
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    let files = if raised.is_ok() { hard } else { soft };
    Limit::new(
        files.saturating_sub(SPARE_FILES),
        format!(
            "a process may open {} files here",
            crate::report::count(files)
        ),
    )
}

/// Server connections, of `wanted` ones, that the memory and the limits of a server of the lab's own allow.
pub fn affordable(wanted: u64, files: Limit, machine: &Machine) -> Limit {
    let memory = (machine.available_bytes as f64 * SHARE_OF_MEMORY) as u64;
    let by_memory = Limit::new(
        memory / BYTES_PER_CONNECTION,
        format!(
            "{} of memory are free",
            crate::report::bytes(machine.available_bytes)
        ),
    );
    let by_processes = Limit::new(
        (machine.processes_max / 2).max(1),
        format!(
            "{} processes are allowed",
            crate::report::count(machine.processes_max)
        ),
    );
    let wanted = Limit::new(wanted, "nothing needs more");
    Limit::least([wanted, files, by_memory, by_processes])
}

/// What the site's servers really allow: the first target is PostgreSQL itself.
pub fn measure(site: &Site, files: Limit) -> Result<Capacity, Error> {
    let mut connections = affordable(u64::MAX, files.clone(), &site.machine);
    if let Some(first) = site.targets.first() {
        connections = Limit::least([connections, allowed(site, first)?]);
    }
    let ports = Limit::new(PORTS, "there are no more ephemeral ports");
    Ok(Capacity {
        connections,
        clients: Limit::least([files, ports]),
    })
}

/// What `max_connections` leaves.
fn allowed(site: &Site, target: &Target) -> Result<Limit, Error> {
    let watch = site.watch(&target.name)?;
    let number = |sql| site.run(watch.number(sql)).map(|number| number as u64);
    let most = number("SELECT setting FROM pg_settings WHERE name = 'max_connections'")?;
    let spare = match target.is_own() {
        true => SPARE_CONNECTIONS,
        false => {
            RESERVE
                + number(
                    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'",
                )?
        }
    };
    let because = format!("max_connections is {}", crate::report::count(most));
    Ok(Limit::new(most.saturating_sub(spare), because))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_the_limit_are_lowered_and_say_so() {
        let limit = Limit::new(800, "memory");
        let sizes = limit.fit(&[100, 500, 1_000, 5_000]);
        assert_eq!(
            sizes.iter().map(|size| size.value).collect::<Vec<_>>(),
            [100, 500, 800]
        );
        assert_eq!(
            sizes[2].lowered.as_deref(),
            Some("lowered from 1,000 and 5,000: memory")
        );
        assert!(sizes[1].lowered.is_none());
        assert_eq!(limit.fit(&[100]).len(), 1);
        let full = limit.fit(&[800, 1_000]);
        assert_eq!(full.len(), 1);
        assert!(full[0].lowered.is_some());
    }
}
