//! pgbench's select-only transactions: cost and latency of the smallest useful thing.

use anyhow::Result;

use crate::figures::Samples;
use crate::lab::Lab;
use crate::party::{Auth, Kind, POOL, Party, Reactor, WEIR_EPOLL, WEIR_IO_URING};
use crate::pgbench::{Length, Load, Own, Protocol};

const CLIENTS: u32 = 32;
const PARTIES: [Kind; 5] = [
    Kind::Direct,
    Kind::Haproxy,
    Kind::PgBouncer,
    WEIR_IO_URING,
    WEIR_EPOLL,
];

pub fn simple(lab: &Lab, samples: &mut Samples) -> Result<()> {
    many(lab, samples, Protocol::Simple)
}

pub fn prepared(lab: &Lab, samples: &mut Samples) -> Result<()> {
    many(lab, samples, Protocol::Prepared)
}

pub fn extended(lab: &Lab, samples: &mut Samples) -> Result<()> {
    many(lab, samples, Protocol::Extended)
}

fn many(lab: &Lab, samples: &mut Samples, protocol: Protocol) -> Result<()> {
    compare(
        lab,
        samples,
        &PARTIES,
        Load {
            own: None,
            protocol,
            clients: CLIENTS,
            length: Length::Seconds(lab.scale.pick(4, 1)),
        },
    )
}

pub fn single(lab: &Lab, samples: &mut Samples) -> Result<()> {
    compare(
        lab,
        samples,
        &PARTIES,
        Load {
            own: None,
            protocol: Protocol::Simple,
            clients: 1,
            length: Length::Seconds(lab.scale.pick(3, 1)),
        },
    )
}

pub fn workers(lab: &Lab, samples: &mut Samples) -> Result<()> {
    let reactors = [Reactor::IoUring, Reactor::Epoll];
    let kinds: Vec<Kind> = reactors
        .iter()
        .flat_map(|reactor| [1, 2, 4].map(|workers| Kind::Weir(*reactor, workers)))
        .collect();
    compare(
        lab,
        samples,
        &kinds,
        Load {
            own: None,
            protocol: Protocol::Simple,
            clients: CLIENTS,
            length: Length::Seconds(lab.scale.pick(4, 1)),
        },
    )
}

/// Clients that each have set something of their own: what it costs to put it on each server connection that they get.
pub fn own_state(lab: &Lab, samples: &mut Samples) -> Result<()> {
    for own in [
        Own::Nothing,
        Own::Tenant,
        Own::SearchPath,
        Own::ApplicationName,
    ] {
        compare(
            lab,
            samples,
            &[WEIR_IO_URING, WEIR_EPOLL],
            Load {
                own: Some(own),
                protocol: Protocol::Simple,
                clients: CLIENTS,
                length: Length::Seconds(lab.scale.pick(4, 1)),
            },
        )?;
    }
    Ok(())
}

fn compare(lab: &Lab, samples: &mut Samples, kinds: &[Kind], load: Load) -> Result<()> {
    let variant = load.own.map_or(load.protocol.name(), Own::name);
    let mut parties = lab.start_all(kinds, Auth::Trust, variant, samples);
    parties.retain(|party| {
        let ready = lab.warm_up(
            party,
            Load {
                own: None,
                length: Length::Seconds(1),
                ..load
            },
            server_connections(party, load),
        );
        ready
            .map_err(|error| samples.fail(variant, &party.kind, &error))
            .is_ok()
    });
    lab.interleave(variant, &parties, samples, |party| {
        lab.load(party, load, server_connections(party, load))
    });
    Ok(())
}

fn server_connections(party: &Party, load: Load) -> u64 {
    let most = match party.kind {
        Kind::Direct | Kind::Haproxy => load.clients,
        _ => POOL,
    };
    load.clients.min(most).into()
}
