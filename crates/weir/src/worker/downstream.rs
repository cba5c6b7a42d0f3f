//! The way back: what a server says, and what that means for its client and for itself.

use super::connection::Transit;
use super::outbox::Source;
use super::reactor::Slots;
use super::relay::Stop;
use super::server::{Duty, Server};
use super::{Owner, Worker};
use pooling::Parameters;
use pooling::conversation::{Aside, ClientSide, Event, Own, Passage, Reply};
use pooling::statements::{ClientStatements, Mark};
use settings::PoolMode;
use std::sync::atomic::Ordering;
use wire::backend::TransactionStatus;
use wire::{Header, SqlState};

impl Worker {
    pub(super) fn relay_server(
        &mut self,
        index: usize,
        bytes: &[u8],
        source: Source<'_>,
        slots: &Slots,
    ) {
        match self.server_messages(index, bytes, source, slots) {
            Stop::Incomplete { from, wants } => {
                let connection = &mut self.servers[index].connection;
                connection.keep(&bytes[from..], wants, &mut self.spare_inboxes);
            }
            Stop::Broken(violation) => {
                tracing::error!(server = self.servers[index].id, %violation, "server broke the protocol");
                return self.server_lost(
                    index,
                    SqlState::PROTOCOL_VIOLATION,
                    "server broke the protocol",
                );
            }
            _ => {}
        }
        let server = &mut self.servers[index];
        if server.conversation.take_arrival() {
            self.resumed.extend(server.client());
        }
        let abandoned = matches!(server.duty, Duty::Abandoned { .. });
        if server.conversation.is_settled() || server.conversation.is_doubtful() || abandoned {
            self.settled(index);
        }
    }

    fn server_messages(
        &mut self,
        index: usize,
        bytes: &[u8],
        source: Source<'_>,
        slots: &Slots,
    ) -> Stop {
        let (mut from, mut at) = (0, 0);
        let mut aside = std::mem::take(&mut self.aside);
        let stop = loop {
            let server = &mut self.servers[index];
            let downstream = Downstream {
                bytes,
                at: &mut at,
                from: &mut from,
                client: server
                    .client()
                    .map(|client| &mut self.clients[client].statements),
                server,
                aside: &mut aside,
            };
            let Remarkable {
                header,
                event,
                skip,
            } = match downstream.next_remarkable() {
                Ok(message) => message,
                Err(stop) => break stop,
            };
            self.pass_to_client(index, source, from..at, slots);
            from = at;
            if event != Event::Nothing {
                let body = &bytes[at + Header::SIZE..];
                let body = body.get(..header.body()).unwrap_or(body);
                self.on_event(index, event, body, &mut aside);
            }
            if !aside.to_client.is_empty() {
                self.say_to_client(index, &mut aside);
            }
            self.servers[index].leave_in_transit(header, skip);
        };
        let end = at.max(from);
        self.pass_to_client(index, source, from..end, slots);
        aside.to_client.clear();
        self.aside = aside;
        stop
    }

    fn pass_to_client(
        &mut self,
        index: usize,
        source: Source<'_>,
        range: std::ops::Range<usize>,
        slots: &Slots,
    ) {
        let Some(client) = self.servers[index].client() else {
            return;
        };
        let pool = self.servers[index].pool_id();
        if let Some(pool) = self.pool(pool) {
            pool.totals.bytes_sent += range.len() as u64;
        }
        let ticket = &mut self.clients[client].connection.ticket;
        self.outbox.pass(
            ticket,
            Owner::Client(client).token(),
            source,
            range.start,
            range.len(),
            slots,
        );
    }

    fn say_to_client(&mut self, index: usize, aside: &mut Aside) {
        if let Some(client) = self.servers[index].client() {
            let ticket = &mut self.clients[client].connection.ticket;
            self.outbox
                .say(ticket, Owner::Client(client).token(), &aside.to_client);
        }
        aside.to_client.clear();
    }

    fn on_event(&mut self, index: usize, event: Event, body: &[u8], aside: &mut Aside) {
        match event {
            Event::Nothing => {}
            Event::Ready => {
                self.on_ready(index);
                self.end_reset(index, aside);
            }
            Event::ParameterStatus { own } => self.on_parameter(index, body, own, aside),
            Event::Outdated(mark) => self.statement_outdated(index, mark),
            Event::Repeat(mark) => {
                self.statement_outdated(index, mark);
                self.say_again(index, aside);
            }
            Event::SettingsReset => self.was_reset(index, Parameters::unsure),
            Event::SessionReset => self.session_reset(index),
            Event::Notification => self.on_notification(index, body, aside),
            Event::Dropped => self.ask_about_pin(index),
            Event::OwnRow(Own::Catalog) => self.catalog_row(index, body),
            Event::OwnRow(_) => self.census_row(index, body),
            Event::OwnFailed(own) => self.own_failed(index, own, body),
            Event::OwnDone { own, failed } => self.own_done(index, own, failed),
        }
    }

    /// Tells the pool's other server connections: of the client's statement that the mark is of, or, each at its next lease, of all.
    fn statement_outdated(&mut self, index: usize, mark: Mark) {
        let server = &mut self.servers[index];
        if let Some(pool) = self.pools[server.pool_id().0 as usize].as_deref()
            && let Some(client) = server.client()
            && pool
                .statements
                .note_outdated(&self.clients[client].statements, mark)
        {
            return;
        }
        let before = server
            .pool
            .statements_changed
            .fetch_add(1, Ordering::Relaxed);
        if server.statements_known == before {
            server.statements_known = before.wrapping_add(1);
        }
    }

    /// What met an outdated statement is said again, with the statement prepared anew; the client does not hear of it.
    fn say_again(&mut self, index: usize, aside: &mut Aside) {
        let server = &mut self.servers[index];
        let Some(client) = server.client() else {
            return;
        };
        let Some(pool) = self.pools[server.pool_id().0 as usize].as_deref_mut() else {
            return;
        };
        let client = &mut self.clients[client];
        let side = ClientSide {
            statements: &mut client.statements,
            cache: &mut pool.statements,
            parameters: &client.parameters,
            watch: pool.watch.as_deref(),
            recall: None,
        };
        server.conversation.repeat(side, aside);
        let ticket = &mut server.connection.ticket;
        self.outbox
            .say(ticket, Owner::Server(index).token(), &aside.to_server);
        aside.to_server.clear();
    }

    fn on_ready(&mut self, index: usize) {
        let now = self.now;
        let server = &mut self.servers[index];
        server.ready_at = now;
        let idle = server.conversation.status() == TransactionStatus::Idle;
        let (query, transaction) = (
            now.since(server.request_at),
            now.since(server.transaction_at),
        );
        let pool = server.pool_id();
        let Some(pool) = self.pool(pool) else { return };
        pool.totals.queries += 1;
        pool.totals.query_time += query.as_micros() as u64;
        if idle {
            pool.totals.transactions += 1;
            pool.totals.transaction_time += transaction.as_micros() as u64;
        } else if pool.settings.mode == PoolMode::Statement {
            self.forbid_transaction(index);
        }
    }

    fn forbid_transaction(&mut self, index: usize) {
        if let Duty::Leased { client } = self.servers[index].duty {
            self.dismiss(
                client,
                SqlState::FEATURE_NOT_SUPPORTED,
                "transaction blocks are not allowed in statement pooling mode",
            );
        }
    }
}

/// One pass over a server's bytes, up to the next message that asks for more than being passed on.
struct Downstream<'a> {
    bytes: &'a [u8],
    at: &'a mut usize,
    /// What lies between here and `at` goes to the client.
    from: &'a mut usize,
    client: Option<&'a mut ClientStatements>,
    server: &'a mut Server,
    aside: &'a mut Aside,
}

/// A message with a consequence: an event, something to leave out, or something to say before it.
struct Remarkable {
    header: Header,
    event: Event,
    skip: usize,
}

impl Downstream<'_> {
    #[inline]
    fn next_remarkable(mut self) -> Result<Remarkable, Stop> {
        loop {
            let transit = &mut self.server.connection.transit;
            *self.at += in_transit(transit, self.from, *self.at, self.bytes.len());
            if !transit.is_over() {
                return Err(Stop::Done);
            }
            let header = self.header()?;
            let Reply { passage, event } = self.reply(header)?;
            let Passage::Pass { skip } = passage else {
                return Err(Stop::Incomplete {
                    from: *self.at,
                    wants: header.total(),
                });
            };
            if event != Event::Nothing || skip > 0 || !self.aside.to_client.is_empty() {
                return Ok(Remarkable {
                    header,
                    event,
                    skip,
                });
            }
            if self.client.is_some() && self.bytes.len() - *self.at >= header.total() {
                *self.at += header.total(); // all of it is here: no need to remember what is left
            } else {
                self.server.leave_in_transit(header, 0);
            }
        }
    }

    #[inline]
    fn header(&self) -> Result<Header, Stop> {
        match Header::peek(&self.bytes[*self.at..]) {
            Ok(Some(header)) => Ok(header),
            Ok(None) if *self.at == self.bytes.len() => Err(Stop::Done),
            Ok(None) => Err(Stop::Incomplete {
                from: *self.at,
                wants: Header::SIZE,
            }),
            Err(error) => Err(Stop::Broken(error.into())),
        }
    }

    #[inline]
    fn reply(&mut self, header: Header) -> Result<Reply, Stop> {
        let body = &self.bytes[*self.at + Header::SIZE..];
        let client = self.client.as_deref_mut();
        self.server
            .conversation
            .server_message(client, header, body, self.aside)
            .map_err(Stop::Broken)
    }
}

impl Server {
    /// The message that begins here, of which nothing has been passed on. What comes while there is no client is for nobody, also if its
    /// end comes when there is one.
    #[inline]
    fn leave_in_transit(&mut self, header: Header, skip: usize) {
        self.connection.transit = if skip > 0 || self.client().is_none() {
            Transit::Drop(header.total())
        } else {
            Transit::Pass(header.total())
        };
    }
}

/// Moves over the rest of a message in transit; gives how many bytes.
fn in_transit(transit: &mut Transit, from: &mut usize, at: usize, len: usize) -> usize {
    match *transit {
        Transit::Pass(left) => {
            let passed = left.min(len - at);
            *transit = Transit::Pass(left - passed);
            passed
        }
        Transit::Drop(left) => {
            let dropped = left.min(len - at);
            *transit = if left == dropped {
                Transit::NONE
            } else {
                Transit::Drop(left - dropped)
            };
            *from = at + dropped;
            dropped
        }
    }
}
