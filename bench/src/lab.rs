//! What every measure works with: the server, the programs, the size of the run, and the way to measure a party's cost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::account::Account;
use crate::figures::Samples;
use crate::party::{Auth, Kind, Launch, Party, Programs, Site};
use crate::pgbench::{Load, Outcome};
use crate::postgres::Postgres;
use crate::probe::{self, ConnectionWatch, Expected, InstructionCount, Instructions};
use crate::swarm::{Sources, Swarm};

const WARM_UPS: u32 = 15;
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

/// Metrics of one round with their values.
pub type Values = Vec<(&'static str, f64)>;

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
    counts_instructions: bool,
    // Declared last: removed after the servers that live in it have stopped.
    folder: TempDir,
}

impl Lab {
    pub fn set_up(scale: Scale) -> Result<Self> {
        let account = Account::choose()?;
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
            counts_instructions: probe::counts_instructions(),
        })
    }

    pub fn pgbench(&self) -> PathBuf {
        self.server.program("pgbench")
    }

    pub fn start(&self, kind: Kind, auth: Auth) -> Result<Party> {
        Party::start(kind, auth, Launch::Plain, &self.site())
    }

    /// Starts a party under valgrind, which counts its user instructions.
    pub fn start_counted(&self, kind: Kind) -> Result<Party> {
        Party::start(kind, Auth::Trust, Launch::Counted, &self.site())
    }

    fn site(&self) -> Site<'_> {
        Site {
            programs: &self.programs,
            server: &self.server,
            account: &self.account,
            folder: self.folder.path(),
        }
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
        mut once: impl FnMut(&Party) -> Result<Values>,
    ) {
        for round in 1..=self.scale.rounds() {
            for party in parties {
                samples.take(variant, round, &party.kind, || once(party));
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
        let result = result.with_context(|| party.last_words())?;
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

    /// Loads the party until it uses as many server connections as it will while it is measured: poolers dial one after the other.
    pub fn warm_up(&self, party: &Party, load: Load, connections: u64) -> Result<()> {
        for _ in 0..WARM_UPS {
            let watch = ConnectionWatch::begin(&self.server, &party.user)?;
            load.run(&self.pgbench(), party.address, &party.user)
                .with_context(|| party.last_words())?;
            if watch.end()? >= connections {
                return Ok(());
            }
        }
        bail!(
            "{} did not open {connections} server connections in {WARM_UPS} runs",
            party.kind
        )
    }

    /// One pgbench run through `party`, with its cost for each transaction.
    pub fn load(&self, party: &Party, load: Load, connections: u64) -> Result<Values> {
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
                values.push((
                    "all_instructions",
                    (instructions.user + instructions.kernel) / transactions,
                ));
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
pub fn raise_file_limit() {
    let ceiling = std::fs::read_to_string("/proc/sys/fs/nr_open")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let held = file_limit();
    // The most first; whoever is not privileged goes up to the hard limit.
    for most in ceiling.into_iter().chain([held.rlim_max]) {
        let wanted = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        // SAFETY: `wanted` is valid for reading one rlimit.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) } == 0 {
            return;
        }
    }
}

/// How many files each process may have open.
pub fn open_files() -> u64 {
    file_limit().rlim_cur
}

fn file_limit() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writing one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit
}
