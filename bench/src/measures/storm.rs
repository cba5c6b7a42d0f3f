//! Many clients at once: 1,000 to 10,000 connections opened and authenticated, then held. Is the time linear?

use anyhow::Result;

use crate::figures::Samples;
use crate::lab::{Lab, Values};
use crate::party::{Auth, POOL, POOLERS, Party};
use crate::probe::Expected;
use crate::swarm::Then;

const IN_FLIGHT: usize = 100;

pub fn run(lab: &Lab, samples: &mut Samples) -> Result<()> {
    for auth in [Auth::Trust, Auth::Scram] {
        let parties = lab.start_all(&POOLERS, auth, &auth.to_string(), samples);
        for count in lab
            .scale
            .pick([1000, 2000, 5000, 10_000], [100, 200, 500, 1000])
        {
            lab.interleave(&format!("{auth}, {count}"), &parties, samples, |party| {
                once(lab, party, count)
            });
        }
    }
    Ok(())
}

fn once(lab: &Lab, party: &Party, count: usize) -> Result<Values> {
    let mut swarm = lab.swarm(party)?;
    let work = || lab.cost(party, || swarm.open(count, IN_FLIGHT, Then::Hold));
    let (wall, cost) = lab.watched(party, Expected::AtMost(POOL.into()), work)?;
    swarm.close()?;
    lab.settle(party)?;
    let mut values = vec![("wall_s", wall.as_secs_f64())];
    values.extend(cost.map(|cost| ("cpu_us", cost.cpu_seconds * 1e6 / count as f64)));
    Ok(values)
}
