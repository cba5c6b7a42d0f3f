//! The whole life of a short connection: connect, authenticate, one query, close. CPU time of the pooler for each.

use anyhow::Result;

use crate::figures::Samples;
use crate::lab::{Lab, Values};
use crate::party::{Auth, Kind, POOL, POOLERS, Party};
use crate::probe::{self, Expected};
use crate::swarm::Then;

const AT_ONCE: [(&str, usize); 2] = [("one at a time", 1), ("16 at a time", 16)];

pub fn run(lab: &Lab, samples: &mut Samples) -> Result<()> {
    for auth in [Auth::Trust, Auth::Scram] {
        let parties = lab.start_all(&POOLERS, auth, &variant(auth, AT_ONCE[0].0), samples);
        for (name, in_flight) in AT_ONCE {
            lab.interleave(&variant(auth, name), &parties, samples, |party| {
                once(lab, party, in_flight)
            });
        }
    }
    let direct = lab.start_all(
        &[Kind::Direct],
        Auth::Trust,
        &variant(Auth::Trust, AT_ONCE[0].0),
        samples,
    );
    lab.interleave(
        &variant(Auth::Trust, AT_ONCE[0].0),
        &direct,
        samples,
        |party| directly(lab, party),
    );
    Ok(())
}

fn variant(auth: Auth, name: &str) -> String {
    format!("{auth}, {name}")
}

fn once(lab: &Lab, party: &Party, in_flight: usize) -> Result<Values> {
    let count = lab.scale.pick(3000, 200);
    let mut swarm = lab.swarm(party)?;
    // Server connections are opened before anything is counted.
    swarm.open(200, in_flight, Then::AskAndClose)?;
    let work = || lab.cost(party, || swarm.open(count, in_flight, Then::AskAndClose));
    let (wall, cost) = lab.watched(party, Expected::AtMost(POOL.into()), work)?;
    lab.settle(party)?;
    let mut values = vec![("wall_us", wall.as_secs_f64() * 1e6 / count as f64)];
    values.extend(cost.map(|cost| ("cpu_us", cost.cpu_seconds * 1e6 / count as f64)));
    Ok(values)
}

/// What PostgreSQL itself spends when nothing is in between.
fn directly(lab: &Lab, party: &Party) -> Result<Values> {
    let count = lab.scale.pick(500, 50);
    let before = probe::cpu_seconds_of_the_dead(lab.server.pid())?;
    let wall = lab.swarm(party)?.open(count, 1, Then::AskAndClose)?;
    let cpu = probe::cpu_seconds_of_the_dead(lab.server.pid())? - before;
    Ok(vec![
        ("wall_us", wall.as_secs_f64() * 1e6 / count as f64),
        ("cpu_us", cpu * 1e6 / count as f64),
    ])
}
