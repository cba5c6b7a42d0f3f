//! A way in to a target, for the length of one measurement.

use super::machine::{self, Usage};
use super::pooler::{Authentication, Pooler, Program, Reuse};
use super::{DATABASE, Error, ROLE, SCRAM_PASSWORD, SCRAM_ROLE};
use crate::driver::Endpoint;
use crate::postgres::Server;

/// How a pooler of the lab's own is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub pool_size: u64,
    pub clients: u64,
    /// Server connections are replaced at this age, in seconds.
    pub lifetime_s: u64,
    pub reuse: Reuse,
    pub authentication: Authentication,
}

impl Setup {
    pub fn pool_of(pool_size: u64) -> Self {
        Self {
            pool_size,
            clients: 20_000,
            lifetime_s: 3_600,
            reuse: Reuse::LastUsedFirst,
            authentication: Authentication::Trust,
        }
    }
}

/// Dropped, the pooler behind it is gone.
#[derive(Debug)]
pub struct Door {
    pub endpoint: Endpoint,
    process: Process,
}

#[derive(Debug)]
enum Process {
    /// On another machine, or not ours to look at.
    Unknown,
    /// Each client has its own: PostgreSQL itself.
    Direct,
    Pooler(Pooler),
}

impl Door {
    pub(super) fn of_others(endpoint: &Endpoint) -> Self {
        Self {
            endpoint: endpoint.clone(),
            process: Process::Unknown,
        }
    }

    pub(super) fn to_server(server: &Server, setup: &Setup) -> Result<Self, Error> {
        Ok(Self {
            endpoint: endpoint(server.port(), setup.authentication),
            process: Process::Direct,
        })
    }

    pub(super) fn to_pooler(
        program: &Program,
        server: &Server,
        setup: &Setup,
    ) -> Result<Self, Error> {
        let pooler = Pooler::start(program, server, setup)?;
        Ok(Self {
            endpoint: endpoint(pooler.port(), setup.authentication),
            process: Process::Pooler(pooler),
        })
    }

    /// Whether there is a pooler of the lab's own behind it.
    pub fn pooler(&self) -> Option<&Pooler> {
        match &self.process {
            Process::Pooler(pooler) => Some(pooler),
            Process::Unknown | Process::Direct => None,
        }
    }

    /// Whether every client has a server connection of its own.
    pub fn is_direct(&self) -> bool {
        matches!(self.process, Process::Direct)
    }

    /// Whether the lab set it up.
    pub fn is_own(&self) -> bool {
        !matches!(self.process, Process::Unknown)
    }

    /// What the pooler's process has used so far.
    pub fn usage(&self) -> Option<Usage> {
        self.pooler()
            .and_then(|pooler| machine::usage(pooler.pid()))
    }
}

fn endpoint(port: u16, authentication: Authentication) -> Endpoint {
    let endpoint = Endpoint::local(port, ROLE, DATABASE);
    match authentication {
        Authentication::Trust => endpoint,
        Authentication::Scram => endpoint.log_in_as(SCRAM_ROLE, SCRAM_PASSWORD),
    }
}
