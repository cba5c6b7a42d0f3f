//! Where a lease ends, what the session holds: asked of the server after a transaction whose statements may have touched it (`pooling::census`).
//! What can be put on another server connection becomes the client's parameters; for the rest the client keeps this one.

use super::Worker;
use super::client::AsksForSequences;
use super::server::{Duty, Residue, Server};
use crate::report::PinReport;
use crate::shared::PinPlace;
use pooling::Time;
use pooling::census::{Census, Findings, Pins};
use pooling::conversation::{Own, SequenceUse};
use settings::PinPolicy;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::{Report, Severity, SqlState};

/// How long a server connection is kept for who may ask for the numbers of the rows that it has inserted.
const SEQUENCES_KEPT: Duration = Duration::from_secs(1);

/// Why and since when a client keeps its server connection between transactions.
pub struct Pin {
    pub reasons: Pins,
    pub since: Time,
    /// The front of the statement that brought it about.
    pub statement: Box<str>,
    _place: PinPlace,
}

impl Pin {
    pub fn report(&self) -> PinReport {
        PinReport {
            reasons: words(self.reasons),
            statement: self.statement.clone(),
            since: self.since,
        }
    }
}

impl Worker {
    /// The transaction is over and its client has the answer: asks the server what the session holds if there is reason to. True if it is
    /// being asked.
    pub(super) fn take_census(&mut self, index: usize) -> bool {
        let server = &mut self.servers[index];
        let Some(mut evidence) = server.conversation.take_evidence() else {
            return false;
        };
        let pool = server.pool_id();
        if let Some(watch) = self.pool(pool).and_then(|pool| pool.watch.as_deref()) {
            evidence.mention_learnt(watch);
        }
        if evidence.changes_catalog() {
            self.catalog_changed(index, &evidence);
        }
        let server = &mut self.servers[index];
        let pins = match server.duty {
            Duty::Leased { client } => self.clients[client].pins(),
            _ => Pins::NONE,
        };
        let server = &mut self.servers[index];
        // The client may go on without a new lease, which is where this is done otherwise.
        server.notice_changed_statements();
        let (census, sql) = Census::about(*evidence, pins, &server.parameters);
        server.census = Some(Box::new(census));
        let pool = server.pool_id();
        if let Some(pool) = self.pool(pool) {
            pool.totals.censuses += 1;
        }
        self.say_own_query(index, Own::Census, &sql);
        true
    }

    /// What its client is pinned for may have ended.
    pub(super) fn ask_about_pin(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let pinned = server
            .client()
            .is_some_and(|client| self.clients[client].pin.is_some());
        if pinned {
            server.conversation.look_again();
        }
    }

    /// Whether the client's next message has to wait, although it holds this server connection.
    #[inline]
    pub(super) fn is_held(&self, client: usize, server: usize) -> bool {
        let held_by = &self.servers[server];
        // Else a client that never pauses would never be told what waits for it.
        let settles_channels = held_by.census.is_some() && held_by.conversation.has_recalled();
        held_by.conversation.is_awaited()
            || held_by.holds_client()
            || settles_channels
            || held_by.handover.is_under_way()
            || self.awaits_census(client, server)
    }

    /// For the census: a RESET may have gone further back than the client means.
    fn awaits_census(&self, client: usize, server: usize) -> bool {
        let (server, client) = (&self.servers[server], &self.clients[client]);
        let resets = server
            .census
            .as_ref()
            .is_some_and(|census| census.is_about_reset());
        resets && !Arc::ptr_eq(&client.at_login, &server.at_login)
    }

    pub(super) fn census_row(&mut self, index: usize, body: &[u8]) {
        let server = &mut self.servers[index];
        let broken = server
            .census
            .as_mut()
            .is_some_and(|census| census.row(body).is_err());
        if broken {
            server.blemish = Some("it did not say what its session holds");
        }
    }

    pub(super) fn census_done(&mut self, index: usize, failed: bool) {
        let server = &mut self.servers[index];
        let Some(census) = server.census.take() else {
            return;
        };
        let Findings {
            parameters,
            channels,
            pins,
            statement,
        } = census.conclude(&server.parameters, failed);
        let interner = &self.shared.interner;
        let Some(client) = server.client() else {
            server.parameters = interner.intern(parameters);
            server.leave_residue(pins);
            return;
        };
        let known = &self.clients[client];
        let expected = interner.intern(parameters.expected_by(&known.at_login, &known.parameters));
        server.parameters = interner.intern(parameters);
        self.clients[client].parameters = expected;
        self.resumed.push(client);
        let pins = match channels {
            Some(found) => self.channels_found(index, client, found, (pins, &statement)),
            None => pins,
        };
        self.pin(index, client, pins, statement);
    }

    pub(super) fn pin(&mut self, index: usize, client: usize, reasons: Pins, statement: Box<str>) {
        let now = self.now;
        let pin = &mut self.clients[client].pin;
        match pin {
            _ if reasons.is_empty() => {
                if pin.take().is_some() {
                    tracing::debug!(client = self.clients[client].id, "unpinned");
                }
            }
            Some(pin) => pin.reasons = reasons,
            None => match self.place_for_pin(index) {
                Ok(place) => {
                    let client = &mut self.clients[client];
                    tracing::info!(
                        client = client.id,
                        "pinned to its server connection ({}) by: {statement}",
                        words(reasons)
                    );
                    client.pin = Some(Box::new(Pin {
                        reasons,
                        since: now,
                        statement,
                        _place: place,
                    }));
                }
                Err(refusal) => self.refuse_pin(index, client, reasons, &statement, refusal),
            },
        }
    }

    fn place_for_pin(&mut self, index: usize) -> Result<PinPlace, Refusal> {
        let id = self.servers[index].pool_id();
        let Some(pool) = self.pool(id) else {
            return Err(Refusal::Limit);
        };
        pool.totals.pins += 1;
        if pool.settings.pin == PinPolicy::Deny {
            return Err(Refusal::Denied);
        }
        PinPlace::take(&pool.shared, pool.settings.max_pinned).ok_or(Refusal::Limit)
    }

    fn refuse_pin(
        &mut self,
        index: usize,
        client: usize,
        reasons: Pins,
        statement: &str,
        refusal: Refusal,
    ) {
        self.servers[index].leave_residue(reasons);
        let (sqlstate, why) = match refusal {
            Refusal::Denied => (
                SqlState::FEATURE_NOT_SUPPORTED,
                "is not allowed here (pin = deny)",
            ),
            Refusal::Limit => (
                SqlState::TOO_MANY_CONNECTIONS,
                "is not possible: as many clients as max_pinned allows do so already",
            ),
        };
        let message = format!(
            "keeping a server connection for this session's state ({}) {why}",
            words(reasons)
        );
        let hint = format!(
            "The state came with this statement, or the transaction around it: {statement}"
        );
        let report = Report {
            hint: Some(&hint),
            ..Report::new(Severity::Fatal, sqlstate, &message)
        };
        self.dismiss_with(client, &report);
    }

    /// A client that reads sequence values has inserted rows: it may ask for their numbers next, which only this server connection knows.
    /// True if it is kept from now on.
    pub(super) fn keeps_sequences(&mut self, index: usize, client: usize) -> bool {
        let conversation = &mut self.servers[index].conversation;
        let used = conversation.take_sequence_use();
        let id = self.servers[index].pool_id();
        if used == SequenceUse::Read {
            self.clients[client].sequences = AsksForSequences::Yes;
            if let Some(pool) = self.pool(id) {
                pool.shared.reads_sequences.store(true, Ordering::Relaxed);
            }
        }
        let known = &mut self.clients[client];
        match (used, known.pins()) {
            (SequenceUse::Inserted, Pins::NONE) if known.sequences == AsksForSequences::Yes => {
                let Ok(place) = self.place_for_pin(index) else {
                    return false;
                };
                self.clients[client].pin = Some(Box::new(Pin {
                    reasons: Pins::SEQUENCE,
                    since: self.now,
                    statement: "INSERT".into(),
                    _place: place,
                }));
                true
            }
            (SequenceUse::None | SequenceUse::Read, Pins::SEQUENCE) => {
                known.pin = None;
                false
            }
            _ => false,
        }
    }

    /// Of a client that keeps its server connection: its parameters are put on it where a RESET has gone further back than it means.
    pub(super) fn keep_lease(&mut self, index: usize, client: usize) {
        if !Arc::ptr_eq(
            &self.clients[client].parameters,
            &self.servers[index].parameters,
        ) {
            self.replay(index, client);
        }
    }

    /// Clients that have not asked for their sequence values in time.
    pub(super) fn sweep_sequences(&mut self) {
        let now = self.now;
        let over: Vec<(usize, usize)> = self
            .servers
            .iter()
            .filter_map(|(index, server)| {
                let client = server.client()?;
                let kept = self.clients[client].pins() == Pins::SEQUENCE;
                let unused = server.conversation.is_settled()
                    && now.since(server.ready_at) >= SEQUENCES_KEPT;
                (kept && unused).then_some((index, client))
            })
            .collect();
        for (index, client) in over {
            self.clients[client].pin = None;
            self.end_lease(client);
            self.give_back(index);
        }
    }

    /// Clients that have kept a server connection for too long (pin_timeout) without using it.
    pub(super) fn sweep_pins(&mut self) {
        let now = self.now;
        let expired: Vec<usize> = self
            .servers
            .iter()
            .filter_map(|(_, server)| {
                let client = server.client()?;
                let pool = self.pools[server.pool_id().0 as usize].as_deref()?;
                let limit = pool.settings.pin_timeout?;
                let unused = self.clients[client].pin.is_some() && server.conversation.is_settled();
                (unused && now.since(server.ready_at) >= limit).then_some(client)
            })
            .collect();
        for client in expired {
            let reasons = words(self.clients[client].pins());
            let message = format!(
                "pin_timeout: the session kept a server connection for its state ({reasons}) without using it"
            );
            self.dismiss(client, SqlState::IDLE_SESSION_TIMEOUT, &message);
        }
    }
}

enum Refusal {
    Denied,
    Limit,
}

pub(super) fn words(pins: Pins) -> String {
    pins.reasons().collect::<Vec<_>>().join(", ")
}

impl super::client::Client {
    pub fn pins(&self) -> Pins {
        self.pin.as_ref().map_or(Pins::NONE, |pin| pin.reasons)
    }
}

impl Server {
    /// Its client goes, and this stays.
    pub fn leave_residue(&mut self, pins: Pins) {
        if pins.is_lasting() {
            self.residue = Residue::Lasting;
        } else if !pins.is_empty() && self.residue == Residue::None {
            self.residue = Residue::Session;
        }
    }
}
