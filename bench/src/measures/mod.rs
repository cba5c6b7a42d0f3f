//! The measures, in the order of the report. Each is one file: what it does to the parties and what it notes down.

mod bulk;
mod connect;
mod crowd;
mod idle;
mod instructions;
mod storm;
mod transactions;

use anyhow::Result;

use crate::figures::Samples;
use crate::guest;
use crate::lab::{self, Lab};

pub struct Measure {
    pub name: &'static str,
    pub title: &'static str,
    pub run: fn(&Lab, &mut Samples) -> Result<()>,
}

pub const ALL: [Measure; 14] = [
    Measure {
        name: "simple",
        title: "pgbench -S, 32 clients, simple protocol",
        run: transactions::simple,
    },
    Measure {
        name: "prepared",
        title: "pgbench -S -M prepared, 32 clients",
        run: transactions::prepared,
    },
    Measure {
        name: "extended",
        title: "pgbench -S -M extended, 32 clients",
        run: transactions::extended,
    },
    Measure {
        name: "own-state",
        title: "Clients that have each set something of their own, 32 clients, simple protocol",
        run: transactions::own_state,
    },
    Measure {
        name: "instructions",
        title: "Instructions per transaction, user and kernel, 32 clients",
        run: instructions::all,
    },
    Measure {
        name: "user-instructions",
        title: "Instructions per transaction, the user part",
        run: instructions::user,
    },
    Measure {
        name: "single",
        title: "One client",
        run: transactions::single,
    },
    Measure {
        name: "workers",
        title: "One, two and four workers, pgbench -S, 32 clients",
        run: transactions::workers,
    },
    Measure {
        name: "crowd",
        title: "256 clients on a pool of 20",
        run: crowd::run,
    },
    Measure {
        name: "connect",
        title: "Connect, authenticate, one query, close",
        run: connect::run,
    },
    Measure {
        name: "storm",
        title: "Up to 10,000 clients opened and authenticated",
        run: storm::run,
    },
    Measure {
        name: "idle-memory",
        title: "Memory of 10,000 idle clients that each ran a query",
        run: idle::memory,
    },
    Measure {
        name: "idle-crowd",
        title: "32 active clients beside 100,000 idle ones",
        run: idle::crowd,
    },
    Measure {
        name: "bulk",
        title: "Large results and COPY",
        run: bulk::run,
    },
];

impl Measure {
    /// Whether the machine at hand does not give what this measure takes, and the guest does.
    pub fn wants_guest(&self) -> bool {
        match self.name {
            "instructions" => !guest::clock_is_instructions(),
            "idle-crowd" => lab::open_files() < idle::FILES,
            _ => false,
        }
    }
}
