//! Instructions per transaction where no processor counts them: on a machine whose clock is the instruction.
//!
//! In a guest emulated with one nanosecond for each instruction (see [`crate::guest`]) CPU time is a count of instructions,
//! exact and repeatable whatever else the host does. Their user part is counted by valgrind, on any machine. The longer of two runs minus the shorter leaves the transactions alone,
//! without what opening the clients costs.

use anyhow::{Context, Result, bail};

use crate::figures::Samples;
use crate::guest;
use crate::lab::{Lab, Values};
use crate::party::{Auth, Kind, POOL, Party, Reactor, WEIR_EPOLL, WEIR_IO_URING};
use crate::pgbench::{Length, Load, Protocol};
use crate::probe::{self, Expected};

const PARTIES: [Kind; 8] = [
    Kind::PgBouncer,
    WEIR_IO_URING,
    WEIR_EPOLL,
    Kind::Haproxy,
    Kind::Weir(Reactor::IoUring, 2),
    Kind::Weir(Reactor::Epoll, 2),
    Kind::Weir(Reactor::IoUring, 4),
    Kind::Weir(Reactor::Epoll, 4),
];
const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Prepared, Protocol::Extended];
const CLIENTS: u32 = 32;
/// Counts hardly vary: these runs need not be many, nor long.
const ROUNDS: usize = 2;
const FEW: u32 = 20;
const MANY: u32 = 100;
/// Under valgrind the batches that a pooler meets vary more than in the guest, and a run is cheaper.
const MANY_COUNTED: u32 = 400;

pub fn all(lab: &Lab, samples: &mut Samples) -> Result<()> {
    if !guest::clock_is_instructions() {
        bail!(
            "instructions are measured in the emulated machine only: BENCH_KERNEL names its kernel"
        );
    }
    for kind in PARTIES.into_iter().filter(|kind| lab.programs.has(*kind)) {
        let protocols: &[Protocol] = match kind {
            Kind::Weir(_, 2..) => &[Protocol::Simple],
            _ => &PROTOCOLS,
        };
        let party = match lab.start(kind, Auth::Trust) {
            Ok(party) => party,
            Err(error) => {
                samples.fail("simple", &kind, &error);
                continue;
            }
        };
        for protocol in protocols {
            for round in 1..=ROUNDS {
                samples.take(protocol.name(), round, &kind, || {
                    once(lab, &party, *protocol)
                });
            }
        }
    }
    Ok(())
}

/// Transactions of a run and what it cost.
struct Spent {
    transactions: f64,
    instructions: f64,
}

fn once(lab: &Lab, party: &Party, protocol: Protocol) -> Result<Values> {
    let load = |each| Load {
        own: None,
        protocol,
        clients: CLIENTS,
        length: Length::TransactionsEach(each),
    };
    lab.warm_up(party, load(FEW), server_connections(party))?;
    let few = spend(lab, party, load(FEW))?;
    let many = spend(lab, party, load(MANY))?;
    let each = (many.instructions - few.instructions) / (many.transactions - few.transactions);
    Ok(vec![("all_instructions", each)])
}

fn server_connections(party: &Party) -> u64 {
    let count = if party.kind == Kind::Haproxy {
        CLIENTS
    } else {
        POOL
    };
    count.into()
}

fn spend(lab: &Lab, party: &Party, load: Load) -> Result<Spent> {
    let work = || {
        lab.cost(party, || {
            load.run(&lab.pgbench(), party.address, &party.user)
        })
    };
    let (outcome, cost) = lab.watched(party, Expected::Exactly(server_connections(party)), work)?;
    let cost = cost.context("a direct connection has no pooler")?;
    // One nanosecond is one instruction.
    Ok(Spent {
        transactions: outcome.transactions,
        instructions: cost.cpu_seconds * 1e9,
    })
}

/// User instructions alone, counted by valgrind: once with few transactions and once with many.
pub fn user(lab: &Lab, samples: &mut Samples) -> Result<()> {
    if !probe::valgrind_is_there() {
        eprintln!("  no valgrind here: left out");
        return Ok(());
    }
    let kinds = [Kind::Haproxy, Kind::PgBouncer, WEIR_IO_URING, WEIR_EPOLL];
    for kind in kinds.into_iter().filter(|kind| lab.programs.has(*kind)) {
        for protocol in PROTOCOLS {
            for round in 1..=ROUNDS {
                samples.take(protocol.name(), round, &kind, || {
                    user_instructions(lab, kind, protocol)
                });
            }
        }
    }
    Ok(())
}

fn user_instructions(lab: &Lab, kind: Kind, protocol: Protocol) -> Result<Values> {
    let few = under_valgrind(lab, kind, protocol, FEW)?;
    let many = under_valgrind(lab, kind, protocol, MANY_COUNTED)?;
    let each = (many.instructions - few.instructions) / (many.transactions - few.transactions);
    Ok(vec![("user_instructions", each)])
}

fn under_valgrind(lab: &Lab, kind: Kind, protocol: Protocol, each: u32) -> Result<Spent> {
    let party = lab.start_counted(kind)?;
    let load = Load {
        own: None,
        protocol,
        clients: CLIENTS,
        length: Length::TransactionsEach(each),
    };
    let outcome = load.run(&lab.pgbench(), party.address, &party.user)?;
    let instructions = party.stop_and_count()?;
    Ok(Spent {
        transactions: outcome.transactions,
        instructions,
    })
}
