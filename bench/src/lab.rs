//! What every measure works with: the server, the programs, the size of the run, and the way to measure a party's cost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tempfile::TempDir;

use crate::account::Account;
use crate::figures::Samples;
use crate::party::{Auth, Kind, Party, Programs};
use crate::pgbench::{Load, Outcome};
use crate::postgres::Postgres;
use crate::probe::{self, ConnectionWatch, Expected, InstructionCount, Instructions};
use crate::swarm::{Sources, Swarm};

const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Descriptors that a pooler without clients may hold: listeners, logs, the reactor's own, the pool.
const FILES_AT_REST: usize = 100;

/// How big a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// The figures that may be quoted.
    Full,
    /// A smoke test of the bench itself.
    Quick,
}

impl Scale {
    pub fn rounds(self) -> usize {
        self.pick(5, 1)
    }

    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// What some work cost a party's process.
pub struct Cost {
    pub cpu_seconds: f64,
    pub instructions: Option<Instructions>,
}

pub struct Lab {
    pub scale: Scale,
    pub server: Postgres,
    pub programs: Programs,
    pub account: Account,
    pub sources: Sources,
    /// How many files each process may have open.
    pub open_files: u64,
    counts_instructions: bool,
    // Declared last: removed after the servers that live in it have stopped.
    folder: TempDir,
}

impl Lab {
    pub fn set_up(scale: Scale) -> Result<Self> {
        let account = Account::choose()?;
        let open_files = raise_file_limit()?;
        let folder = TempDir::with_prefix("weir-bench-")?;
        account.own(folder.path())?;
        let server = Postgres::start(folder.path(), &account, scale.pick(10, 1))?;
        Ok(Self {
            scale,
            server,
            account,
            folder,
            programs: Programs::find(),
            sources: Sources::default(),
            open_files,
            counts_instructions: probe::counts_instructions(),
        })
    }

    pub fn pgbench(&self) -> PathBuf {
        self.server.program("pgbench")
    }

    pub fn start(&self, kind: Kind, auth: Auth) -> Result<Party> {
        Party::start(
            kind,
            auth,
            &self.programs,
            &self.server,
            &self.account,
            self.folder.path(),
        )
    }

    /// Starts those of `kinds` whose program is on this machine; one that does not start is noted as failed.
    pub fn start_all(
        &self,
        kinds: &[Kind],
        auth: Auth,
        variant: &str,
        samples: &mut Samples,
    ) -> Vec<Party> {
        let mut parties = Vec::new();
        for kind in kinds.iter().filter(|kind| self.programs.has(**kind)) {
            match self.start(*kind, auth) {
                Ok(party) => parties.push(party),
                Err(error) => samples.fail(variant, kind, &error),
            }
        }
        parties
    }

    /// Rounds of all parties in turn, so that a busy minute of the machine hits all alike.
    /// A party that fails once takes no part any more.
    pub fn interleave(
        &self,
        variant: &str,
        parties: &[Party],
        samples: &mut Samples,
        mut once: impl FnMut(&Party) -> Result<Vec<(&'static str, f64)>>,
    ) {
        for round in 1..=self.scale.rounds() {
            for party in parties {
                if samples.failed(variant, &party.kind) {
                    continue;
                }
                match once(party) {
                    Ok(values) => {
                        let shown: Vec<String> = values
                            .iter()
                            .map(|(metric, value)| format!("{metric} {value:.2}"))
                            .collect();
                        eprintln!(
                            "  {variant}, round {round}, {}: {}",
                            party.kind,
                            shown.join(", ")
                        );
                        values.into_iter().for_each(|(metric, value)| {
                            samples.add(variant, &party.kind, metric, value)
                        });
                    }
                    Err(error) => samples.fail(variant, &party.kind, &error),
                }
            }
        }
    }

    /// Runs `work` and fails unless it used as many server connections as expected.
    pub fn watched<T>(
        &self,
        party: &Party,
        expected: Expected,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let watch = ConnectionWatch::begin(&self.server, &party.user)?;
        let result = work();
        let used = watch.end()?;
        let result = result?;
        expected.check(used)?;
        Ok(result)
    }

    /// Runs `work` and measures what it cost the party's process; nothing for a direct connection.
    pub fn cost<T>(
        &self,
        party: &Party,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Option<Cost>)> {
        let Some(pid) = party.pid() else {
            return Ok((work()?, None));
        };
        let count = if self.counts_instructions {
            Some(InstructionCount::begin(pid)?)
        } else {
            None
        };
        let before = probe::cpu_seconds(pid)?;
        let result = work();
        let cpu_seconds = probe::cpu_seconds(pid)? - before;
        let instructions = count.map(InstructionCount::end).transpose()?;
        Ok((
            result?,
            Some(Cost {
                cpu_seconds,
                instructions,
            }),
        ))
    }

    /// One pgbench run through `party`, with its cost for each transaction.
    pub fn load(
        &self,
        party: &Party,
        load: Load,
        connections: u64,
    ) -> Result<Vec<(&'static str, f64)>> {
        let (outcome, cost) = self.watched(party, Expected::Exactly(connections), || {
            self.cost(party, || {
                load.run(&self.pgbench(), party.address, &party.user)
            })
        })?;
        let Outcome {
            transactions,
            per_second,
            latency_us,
        } = outcome;
        let mut values = vec![("tps", per_second), ("latency_us", latency_us)];
        if let Some(cost) = cost {
            values.push(("cpu_us", cost.cpu_seconds * 1e6 / transactions));
            if let Some(instructions) = cost.instructions {
                values.push(("user_instructions", instructions.user / transactions));
                values.push(("kernel_instructions", instructions.kernel / transactions));
            }
        }
        Ok(values)
    }

    pub fn swarm(&self, party: &Party) -> Result<Swarm<'_>> {
        Swarm::new(party.address, &party.user, &self.sources)
    }

    /// Waits until the party has let go of the clients of the round before.
    pub fn settle(&self, party: &Party) -> Result<()> {
        let Some(pid) = party.pid() else {
            return Ok(());
        };
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        while std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() > FILES_AT_REST {
            if Instant::now() > deadline {
                bail!(
                    "{} still holds closed clients after {SETTLE_TIMEOUT:?}",
                    party.kind
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Lets this process and its children open as many files as the kernel allows them.
fn raise_file_limit() -> Result<u64> {
    let ceiling: u64 = std::fs::read_to_string("/proc/sys/fs/nr_open")?
        .trim()
        .parse()?;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writing one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let wanted = libc::rlimit {
        rlim_cur: ceiling,
        rlim_max: ceiling,
    };
    // SAFETY: `wanted` is valid for reading one rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) } == 0 {
        return Ok(ceiling);
    }
    // Not privileged: the hard limit is all there is.
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    Ok(limit.rlim_cur)
}
