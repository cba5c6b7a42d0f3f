//! Clients that do nothing: what each holds in memory, and whether they cost those that work.

use anyhow::{Context, Result};

use crate::figures::Samples;
use crate::lab::Lab;
use crate::party::{Auth, POOL, POOLERS, Party};
use crate::pgbench::{Load, Protocol};
use crate::probe::{self, Expected};
use crate::swarm::Then;

const IN_FLIGHT: usize = 100;
/// Descriptors that the pooler and the generator need for other things than idle clients.
const FILES_FOR_OTHERS: u64 = 1000;
const LOAD: Load = Load {
    protocol: Protocol::Simple,
    clients: 32,
    seconds: 1,
};

/// A fresh process each round: memory that an earlier round left behind would hide the next one's.
pub fn memory(lab: &Lab, samples: &mut Samples) -> Result<()> {
    let variant = "ran a query";
    for round in 1..=lab.scale.rounds() {
        for kind in POOLERS.into_iter().filter(|kind| lab.programs.has(*kind)) {
            if samples.failed(variant, &kind) {
                continue;
            }
            match lab
                .start(kind, Auth::Trust)
                .and_then(|party| memory_of(lab, &party))
            {
                Ok(bytes) => {
                    eprintln!("  {variant}, round {round}, {kind}: {bytes:.0} bytes");
                    samples.add(variant, &kind, "bytes", bytes);
                }
                Err(error) => samples.fail(variant, &kind, &error),
            }
        }
    }
    Ok(())
}

fn memory_of(lab: &Lab, party: &Party) -> Result<f64> {
    let pid = party.pid().context("a direct connection has no pooler")?;
    let count = lab.scale.pick(10_000, 1000);
    // The pool and the process's own tables are there before the first clients are counted.
    lab.load(party, LOAD, POOL.into())?;
    let mut swarm = lab.swarm(party)?;
    swarm.open(IN_FLIGHT, IN_FLIGHT, Then::AskAndHold)?;
    let before = probe::memory(pid)?;
    lab.watched(party, Expected::Exactly(POOL.into()), || {
        swarm.open(count, IN_FLIGHT, Then::AskAndHold)
    })?;
    let grown = probe::memory(pid)?.saturating_sub(before);
    swarm.close()?;
    Ok(grown as f64 / count as f64)
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
    rounds(lab, party, samples, "alone", before)?;
    let count = lab
        .scale
        .pick(100_000, 2000)
        .min(lab.open_files.saturating_sub(FILES_FOR_OTHERS)) as usize;
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
    )?;
    swarm.close()?;
    lab.settle(party)?;
    rounds(lab, party, samples, "alone", after)
}

fn rounds(
    lab: &Lab,
    party: &Party,
    samples: &mut Samples,
    variant: &str,
    count: usize,
) -> Result<()> {
    let load = Load {
        protocol: Protocol::Simple,
        clients: 32,
        seconds: lab.scale.pick(4, 1),
    };
    for round in 1..=count {
        for (metric, value) in lab.load(party, load, POOL.into())? {
            eprintln!(
                "  {variant}, round {round}, {}: {metric} {value:.2}",
                party.kind
            );
            samples.add(variant, &party.kind, metric, value);
        }
    }
    Ok(())
}
