//! 256 clients on a pool of 20, each asking again at once: throughput, and how fair the waiting is.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::figures::Samples;
use crate::lab::{Lab, Values};
use crate::party::{Auth, Kind, POOL, POOLERS, Party};
use crate::pgbench::{Length, Load, Protocol};
use crate::probe::Expected;
use crate::swarm::Then;

const CLIENTS: usize = 256;
const FILL: Load = Load {
    own: None,
    protocol: Protocol::Simple,
    clients: 32,
    length: Length::Seconds(1),
};
const VARIANT: &str = "simple";

pub fn run(lab: &Lab, samples: &mut Samples) -> Result<()> {
    let kinds = [&[Kind::Direct][..], &POOLERS].concat();
    let parties = lab.start_all(&kinds, Auth::Trust, VARIANT, samples);
    lab.interleave(VARIANT, &parties, samples, |party| once(lab, party));
    Ok(())
}

fn once(lab: &Lab, party: &Party) -> Result<Values> {
    // Directly, only as many clients as the poolers have server connections.
    let clients = if party.kind == Kind::Direct {
        POOL as usize
    } else {
        CLIENTS
    };
    let length = Duration::from_secs(lab.scale.pick(4, 1));
    if party.kind != Kind::Direct {
        lab.warm_up(party, FILL, POOL.into())?;
    }
    let mut swarm = lab.swarm(party)?;
    swarm.open(clients, 64, Then::AskAndHold)?;
    let (mut latencies, cost) = lab.watched(party, Expected::Exactly(POOL.into()), || {
        lab.cost(party, || swarm.run(length))
    })?;
    swarm.close()?;
    lab.settle(party)?;
    latencies.sort_unstable();
    let answers = latencies.len() as f64;
    let (middle, tail) = (
        percentile(&latencies, 50).context("no answers")?,
        percentile(&latencies, 99).context("no answers")?,
    );
    let mut values = vec![
        ("tps", answers / length.as_secs_f64()),
        ("p50_us", middle),
        ("p99_us", tail),
        ("p99_by_p50", tail / middle),
    ];
    values.extend(cost.map(|cost| ("cpu_us", cost.cpu_seconds * 1e6 / answers)));
    Ok(values)
}

fn percentile(sorted: &[u32], percent: usize) -> Option<f64> {
    sorted
        .get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)))
        .map(|value| f64::from(*value))
}
