//! Clients that do nothing: what each holds in memory, and whether they cost those that work.

use anyhow::{Context, Result};

use crate::figures::Samples;
use crate::guest;
use crate::lab::{self, Lab, Scale, Values};
use crate::party::{Auth, POOL, POOLERS, Party};
use crate::pgbench::{Length, Load, Protocol};
use crate::probe::{self, Expected};
use crate::swarm::Then;

const IN_FLIGHT: usize = 100;
const ALONE: &str = "alone";
const BESIDE: &str = "beside idle clients";
const IDLE: u64 = 100_000;
/// Open files that a process needs for the whole crowd.
pub const FILES: u64 = IDLE + FILES_FOR_OTHERS;
/// Descriptors that the pooler and the generator need for other things than idle clients.
const FILES_FOR_OTHERS: u64 = 1000;
const LOAD: Load = Load {
    own: None,
    protocol: Protocol::Simple,
    clients: 32,
    length: Length::Seconds(1),
};

/// A fresh process each round: memory that an earlier round left behind would hide the next one's.
pub fn memory(lab: &Lab, samples: &mut Samples) -> Result<()> {
    let variant = "ran a query";
    for round in 1..=lab.scale.rounds() {
        for kind in POOLERS.into_iter().filter(|kind| lab.programs.has(*kind)) {
            samples.take(variant, round, &kind, || {
                memory_of(lab, &lab.start(kind, Auth::Trust)?)
            });
        }
    }
    Ok(())
}

fn memory_of(lab: &Lab, party: &Party) -> Result<Values> {
    let pid = party.pid().context("a direct connection has no pooler")?;
    let count = lab.scale.pick(10_000, 1000);
    // The pool and the process's own tables are there before the first clients are counted.
    lab.warm_up(party, LOAD, POOL.into())?;
    let mut swarm = lab.swarm(party)?;
    swarm.open(IN_FLIGHT, IN_FLIGHT, Then::AskAndHold)?;
    let before = probe::memory(pid)?;
    lab.watched(party, Expected::Exactly(POOL.into()), || {
        swarm.open(count, IN_FLIGHT, Then::AskAndHold)
    })?;
    let grown = probe::memory(pid)?.saturating_sub(before);
    swarm.close()?;
    Ok(vec![("bytes", grown as f64 / count as f64)])
}

/// Each party is measured without the idle clients, then with them, then without again.
pub fn crowd(lab: &Lab, samples: &mut Samples) -> Result<()> {
    for kind in POOLERS.into_iter().filter(|kind| lab.programs.has(*kind)) {
        if let Err(error) = lab
            .start(kind, Auth::Trust)
            .and_then(|party| beside_idle(lab, &party, samples))
        {
            samples.fail(ALONE, &kind, &error);
            samples.fail(BESIDE, &kind, &error);
        }
    }
    Ok(())
}

/// How often and how long the active clients run.
struct Plan {
    before: usize,
    beside: usize,
    after: usize,
    seconds: u32,
}

impl Plan {
    fn of(scale: Scale) -> Self {
        match scale {
            // Where nothing disturbs a run, and each second takes a minute, one says it all.
            _ if guest::clock_is_instructions() => Self {
                before: 1,
                beside: 1,
                after: 0,
                seconds: 1,
            },
            Scale::Quick => Self {
                before: 1,
                beside: 1,
                after: 0,
                seconds: 1,
            },
            Scale::Full => Self {
                before: 3,
                beside: 5,
                after: 2,
                seconds: 4,
            },
        }
    }
}

fn beside_idle(lab: &Lab, party: &Party, samples: &mut Samples) -> Result<()> {
    let plan = Plan::of(lab.scale);
    let load = Load {
        own: None,
        length: Length::Seconds(plan.seconds),
        ..LOAD
    };
    let rounds = |samples: &mut Samples, variant, count| {
        for round in 1..=count {
            samples.take(variant, round, &party.kind, || {
                lab.load(party, load, POOL.into())
            });
        }
    };
    lab.warm_up(party, LOAD, POOL.into())?;
    rounds(samples, ALONE, plan.before);
    let most = lab::open_files().saturating_sub(FILES_FOR_OTHERS);
    let count = lab.scale.pick(IDLE, 2000).min(most) as usize;
    let mut swarm = lab.swarm(party)?;
    let wall = swarm.open(count, IN_FLIGHT, Then::AskAndHold)?;
    samples.add(BESIDE, &party.kind, "open_s", wall.as_secs_f64());
    samples.add(BESIDE, &party.kind, "idle_clients", count as f64);
    rounds(samples, BESIDE, plan.beside);
    swarm.close()?;
    lab.settle(party)?;
    rounds(samples, ALONE, plan.after);
    Ok(())
}
