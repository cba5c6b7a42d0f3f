//! What dialling remembers between attempts: resolved names, whose turn it is, which servers failed lately and which
//! do not speak protocol 3.2.

use super::Failure;
use super::resolve::{Lifetimes, Resolver};
use crate::shared::Address;
use settings::{Database, General, Host, LoadBalanceHosts};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wire::startup::{PROTOCOL_3_2, ProtocolVersion};

#[derive(Default)]
pub struct Network {
    pub resolver: Resolver,
    memory: Mutex<Memory>,
    pub(super) cancels: CancelLimit,
}

#[derive(Default)]
struct Memory {
    /// By database, the host that the next dial starts with.
    turns: HashMap<Box<str>, usize>,
    servers: HashMap<Address, ServerMemory>,
}

#[derive(Clone, Copy)]
enum ServerMemory {
    /// It could not be reached: others are tried before it for a while.
    Failed(Instant),
    Speaks(ProtocolVersion),
}

/// Servers remembered; more than any configuration has at one time. Beyond, all are forgotten.
const SERVERS_MAX: usize = 10_000;

/// One address to try, and the place of its host in the database's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub address: Address,
    pub host: usize,
}

impl Network {
    /// Where to dial for this database, best first: the hosts from the one whose turn it is, each with all its addresses; those that
    /// failed within `server_login_retry` come last. Fails if no name can be resolved.
    pub async fn candidates(
        &self,
        database: &Database,
        general: &General,
    ) -> Result<Vec<Candidate>, Failure> {
        let count = database.hosts.len().max(1);
        let (first, round) = self.take_turn(database);
        let mut found = Vec::new();
        let mut unresolved = None;
        for host in (0..database.hosts.len()).map(|step| (first + step) % count) {
            match self
                .addresses(&database.hosts[host], round / count, general)
                .await
            {
                Ok(addresses) => found.extend(
                    addresses
                        .into_iter()
                        .map(|address| Candidate { address, host }),
                ),
                Err(failure) => unresolved = Some(failure),
            }
        }
        match unresolved {
            Some(failure) if found.is_empty() => return Err(failure),
            Some(failure) => tracing::warn!(database = database.name, "{failure}"),
            None => {}
        }
        let memory = self.memory();
        found.sort_by_key(|candidate| memory.failed_lately(&candidate.address, general));
        Ok(found)
    }

    /// The version to ask this server for.
    pub fn version(&self, address: &Address) -> ProtocolVersion {
        match self.memory().servers.get(address) {
            Some(ServerMemory::Speaks(version)) => *version,
            _ => PROTOCOL_3_2,
        }
    }

    pub fn succeeded(&self, database: &Database, candidate: &Candidate, version: ProtocolVersion) {
        let mut memory = self.memory();
        memory.note(&candidate.address, ServerMemory::Speaks(version));
        if database.load_balance_hosts == LoadBalanceHosts::Disable {
            memory
                .turns
                .insert(database.name.as_str().into(), candidate.host);
        }
    }

    /// Forgets the version too: whoever comes back may be a newer server.
    pub fn failed(&self, candidate: &Candidate) {
        self.memory()
            .note(&candidate.address, ServerMemory::Failed(Instant::now()));
    }

    /// The host to start with, and how many turns there have been.
    fn take_turn(&self, database: &Database) -> (usize, usize) {
        let mut memory = self.memory();
        let turn = memory
            .turns
            .entry(database.name.as_str().into())
            .or_default();
        let now = *turn;
        if database.load_balance_hosts == LoadBalanceHosts::RoundRobin {
            *turn = now.wrapping_add(1);
        }
        (now % database.hosts.len().max(1), now)
    }

    /// The addresses of one host; a name's are rotated by one for each round through the hosts.
    async fn addresses(
        &self,
        host: &settings::Address,
        round: usize,
        general: &General,
    ) -> Result<Vec<Address>, Failure> {
        let socket = format!(".s.PGSQL.{}", host.port);
        let name = match &host.host {
            Host::Unix { dir } => return Ok(vec![Address::Unix(dir.join(socket))]),
            Host::Abstract { name } => {
                return Ok(vec![Address::Unix(PathBuf::from(format!(
                    "@{name}/{socket}"
                )))]);
            }
            Host::Tcp { name } => name,
        };
        let lifetimes = Lifetimes {
            found: general.dns_max_ttl,
            failed: general.dns_nxdomain_ttl,
        };
        let resolved = self.resolver.resolve(name, lifetimes).await;
        let resolved = resolved.map_err(|reason| Failure::Name {
            name: name.clone(),
            reason,
        })?;
        let mut addresses: Vec<Address> = resolved
            .iter()
            .map(|ip| Address::Tcp((*ip, host.port).into()))
            .collect();
        let by = round % addresses.len().max(1);
        addresses.rotate_left(by);
        Ok(addresses)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn failed_lately(&self, address: &Address, general: &General) -> bool {
        match self.servers.get(address) {
            Some(ServerMemory::Failed(at)) => at.elapsed() < general.server_login_retry,
            _ => false,
        }
    }

    fn note(&mut self, address: &Address, what: ServerMemory) {
        if self.servers.len() >= SERVERS_MAX {
            self.servers.clear();
        }
        self.servers.insert(address.clone(), what);
    }
}

/// `cancel_connections_max` as permits; follows the setting.
pub(super) struct CancelLimit {
    pub(super) permits: Semaphore,
    size: Mutex<usize>,
}

impl Default for CancelLimit {
    fn default() -> Self {
        CancelLimit {
            permits: Semaphore::new(0),
            size: Mutex::new(0),
        }
    }
}

impl CancelLimit {
    /// Permits in use are not taken away; the next call forgets the rest.
    pub(super) fn resize(&self, wanted: usize) {
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted > *size {
            self.permits.add_permits(wanted - *size);
            *size = wanted;
        } else {
            *size -= self.permits.forget_permits(*size - wanted);
        }
    }
}
