//! The way to the server: what a client says while it holds a server connection.

use super::Limits;
use super::SimpleQuery;
use super::client::Client;
use super::connection::Transit;
use super::local_pool::LocalPool;
use super::outbox::{Outbox, Source};
use super::reactor::Slots;
use super::relay::Stop;
use super::server::Server;
use pooling::Time;
use pooling::conversation::{Aside, ClientSide, Passage};
use wire::frontend::tag;
use wire::{Header, WireError};

/// One pass over a client's bytes. Those between `from` and `at` are decided and go out together, as they are.
pub(super) struct Upstream<'a> {
    pub bytes: &'a [u8],
    pub source: Source<'a>,
    pub slots: &'a Slots,
    pub at: usize,
    pub from: usize,
    pub now: Time,
    pub limits: &'a Limits,
    pub client: &'a mut Client,
    pub client_token: usize,
    pub server: &'a mut Server,
    pub server_token: usize,
    pub pool: &'a mut LocalPool,
    pub outbox: &'a mut Outbox,
    pub aside: &'a mut Aside,
}

impl Upstream<'_> {
    pub fn run(mut self) -> Stop {
        self.pool.totals.bytes_received += (self.bytes.len() - self.at) as u64;
        let first = self.at;
        let stop = loop {
            if let Err(stop) = self.next_message() {
                break stop;
            }
        };
        self.pass_on();
        self.server.conversation.keep(&self.bytes[first..self.at]);
        stop
    }

    #[inline]
    fn next_message(&mut self) -> Result<(), Stop> {
        self.finish_transit()?;
        let header = self.header()?;
        self.check(header)?;
        let was_settled = self.server.conversation.is_settled();
        let skip = self.decide(header)?;
        if was_settled {
            self.server.transaction_at = self.now;
        }
        self.server.request_at = self.now;
        count(&mut self.pool.totals, header.tag);
        if skip > 0 || !self.aside.to_server.is_empty() {
            self.pass_on();
            self.from = self.at + skip;
        }
        self.speak();
        self.at += skip;
        self.client.connection.transit = Transit::Pass(header.total() - skip);
        Ok(())
    }

    /// The rest of a message that has been decided.
    #[inline]
    fn finish_transit(&mut self) -> Result<(), Stop> {
        let Transit::Pass(left) = self.client.connection.transit else {
            return Ok(());
        };
        let passed = left.min(self.bytes.len() - self.at);
        self.client.connection.transit = Transit::Pass(left - passed);
        self.at += passed;
        if left > passed {
            Err(Stop::Done)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn header(&self) -> Result<Header, Stop> {
        match Header::peek(&self.bytes[self.at..]) {
            Ok(Some(header)) => Ok(header),
            Ok(None) if self.at == self.bytes.len() => Err(Stop::Done),
            Ok(None) => Err(Stop::Incomplete {
                from: self.at,
                wants: Header::SIZE,
            }),
            Err(error) => Err(Stop::Broken(error.into())),
        }
    }

    #[inline]
    fn check(&self, header: Header) -> Result<(), Stop> {
        match header.tag {
            tag::TERMINATE => Err(Stop::Terminate),
            tag::QUERY if self.limits.simple_query == SimpleQuery::Refused => {
                Err(Stop::SimpleQuery)
            }
            _ if header.len as usize > self.limits.packet_max => {
                Err(Stop::Broken(WireError::Length(header.len).into()))
            }
            _ => Ok(()),
        }
    }

    /// How many bytes of the message the server does not get; what it gets instead is in `aside`.
    #[inline]
    fn decide(&mut self, header: Header) -> Result<usize, Stop> {
        let side = ClientSide {
            statements: &mut self.client.statements,
            cache: &mut self.pool.statements,
            parameters: &self.client.parameters,
            watch: self.pool.watch.as_deref(),
            recall: self.client.channels.as_ref().and_then(|it| it.recall()),
        };
        let body = &self.bytes[self.at + Header::SIZE..];
        let conversation = &mut self.server.conversation;
        match conversation.client_message(side, header, body, self.aside) {
            Ok(Passage::Pass { skip }) => Ok(skip),
            Ok(Passage::Incomplete) => Err(Stop::Incomplete {
                from: self.at,
                wants: wanted(header, self.bytes.len() - self.at),
            }),
            Ok(Passage::Wait) => Err(Stop::Incomplete {
                from: self.at,
                wants: 0,
            }),
            Err(violation) => Err(Stop::Broken(violation)),
        }
    }

    fn pass_on(&mut self) {
        let len = self.at - self.from;
        let ticket = &mut self.server.connection.ticket;
        let (source, from) = (self.source, self.from);
        self.outbox
            .pass(ticket, self.server_token, source, from, len, self.slots);
        self.from += len;
    }

    /// What the pooler itself has to say goes out before the rest of the message.
    #[inline]
    fn speak(&mut self) {
        if !self.aside.to_server.is_empty() {
            let ticket = &mut self.server.connection.ticket;
            self.outbox
                .say(ticket, self.server_token, &self.aside.to_server);
            self.aside.to_server.clear();
        }
        if !self.aside.to_client.is_empty() {
            let ticket = &mut self.client.connection.ticket;
            self.outbox
                .say(ticket, self.client_token, &self.aside.to_client);
            self.aside.to_client.clear();
        }
    }
}

/// Of a Bind only the names have to be there, and only it knows where they end; other messages have to be whole.
fn wanted(header: Header, arrived: usize) -> usize {
    if header.tag == tag::BIND {
        arrived + 1
    } else {
        header.total()
    }
}

fn count(totals: &mut crate::report::Totals, message: u8) {
    match message {
        tag::PARSE => totals.client_parses += 1,
        tag::BIND => totals.binds += 1,
        _ => {}
    }
}
