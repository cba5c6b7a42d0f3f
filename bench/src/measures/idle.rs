//! Clients that do nothing: what each holds in memory, and whether they cost those that work.

use anyhow::{Context, Result};

use crate::figures::Samples;
use crate::lab::{self, Lab, Values};
use crate::party::{Auth, POOL, POOLERS, Party};
use crate::pgbench::{Length, Load, Protocol};
use crate::probe::{self, Expected};
use crate::swarm::Then;

const IN_FLIGHT: usize = 100;
const IDLE: u64 = 100_000;
/// Open files that a process needs for the whole crowd.
pub const FILES: u64 = IDLE + FILES_FOR_OTHERS;
/// Descriptors that the pooler and the generator need for other things than idle clients.
const FILES_FOR_OTHERS: u64 = 1000;
const LOAD: Load = Load {
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
            samples.fail("alone", &kind, &error);
            samples.fail("beside idle clients", &kind, &error);
        }
    }
    Ok(())
}

fn beside_idle(lab: &Lab, party: &Party, samples: &mut Samples) -> Result<()> {
    let (before, after) = lab.scale.pick((3, 2), (1, 0));
    lab.warm_up(party, LOAD, POOL.into())?;
    rounds(lab, party, samples, "alone", before);
    let most = lab::open_files().saturating_sub(FILES_FOR_OTHERS);
    let count = lab.scale.pick(IDLE, 2000).min(most) as usize;
    let mut swarm = lab.swarm(party)?;
    let wall = swarm.open(count, IN_FLIGHT, Then::AskAndHold)?;
    samples.add(
        "beside idle clients",
        &party.kind,
        "open_s",
        wall.as_secs_f64(),
    );
    samples.add(
        "beside idle clients",
        &party.kind,
        "idle_clients",
        count as f64,
    );
    rounds(
        lab,
        party,
        samples,
        "beside idle clients",
        lab.scale.rounds(),
    );
    swarm.close()?;
    lab.settle(party)?;
    rounds(lab, party, samples, "alone", after);
    Ok(())
}

fn rounds(lab: &Lab, party: &Party, samples: &mut Samples, variant: &str, count: usize) {
    let load = Load {
        protocol: Protocol::Simple,
        clients: 32,
        length: Length::Seconds(lab.scale.pick(4, 1)),
    };
    for round in 1..=count {
        samples.take(variant, round, &party.kind, || {
            lab.load(party, load, POOL.into())
        });
    }
}
