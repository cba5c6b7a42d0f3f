//! The relay: received bytes become messages, the conversation says what becomes of each, and they go to the other side.
//! Bytes are passed on out of the buffer they were received in; only a message that is not whole and has to be is kept.
//! Here: what a client's phase makes of its bytes. `upstream` has the way to the server, `downstream` the way back.

use super::client::Phase;
use super::connection::Transit;
use super::outbox::Source;
use super::reactor::Slots;
use super::upstream::Upstream;
use super::{Owner, Worker};
use crate::shared::ToControl;
use pooling::conversation::Violation;
use std::sync::Arc;
use wire::frontend::tag;
use wire::{Header, SqlState};

/// How far a relay got, and why it stopped.
pub(super) enum Stop {
    /// All bytes have gone their way.
    Done,
    /// The bytes from here on are part of a message that has to be whole.
    Incomplete {
        from: usize,
        /// So many bytes from there on are needed to go on.
        wants: usize,
    },
    /// The client needs a server connection for the message that begins here.
    NeedsServer(usize),
    /// The client says good-bye.
    Terminate,
    /// A Query where disable_pqexec forbids it.
    SimpleQuery,
    Broken(Violation),
}

impl Worker {
    pub(super) fn relay(&mut self, owner: Owner, bytes: &[u8], source: Source<'_>, slots: &Slots) {
        match owner {
            Owner::Client(index) => self.relay_client(index, bytes, source, slots),
            Owner::Server(index) => self.relay_server(index, bytes, source, slots),
        }
    }

    fn relay_client(&mut self, index: usize, bytes: &[u8], source: Source<'_>, slots: &Slots) {
        let mut at = 0;
        loop {
            let stop = match self.clients[index].phase {
                Phase::Idle => self.idle_client(index, bytes, at),
                Phase::Leased(server) if self.is_held(index, server) => {
                    Stop::Incomplete { from: at, wants: 0 }
                }
                Phase::Leased(server) => {
                    self.leased_client(index, server, bytes, at, source, slots)
                }
                Phase::Waiting { .. } => Stop::Incomplete { from: at, wants: 0 },
                Phase::Leaving => Stop::Done,
            };
            match stop {
                Stop::Done => return self.client_settled(index),
                Stop::Incomplete { from, wants } => {
                    let connection = &mut self.clients[index].connection;
                    return connection.keep(&bytes[from..], wants, &mut self.spare_inboxes);
                }
                Stop::NeedsServer(from) => {
                    at = from;
                    self.check_out(index);
                }
                Stop::Terminate => return self.client_gone(index, "client close request"),
                Stop::SimpleQuery => {
                    let text = "the simple query protocol is disabled (disable_pqexec)";
                    return self.dismiss(index, SqlState::FEATURE_NOT_SUPPORTED, text);
                }
                Stop::Broken(violation) => return self.client_violation(index, &violation),
            }
        }
    }

    /// What the client said may have been nothing that the server answers (a lone Flush): then its lease ends here.
    fn client_settled(&mut self, index: usize) {
        if let Phase::Leased(server) = self.clients[index].phase
            && self.servers[server].conversation.is_settled()
        {
            self.settled(server);
        }
    }

    /// What an idle client says without needing a server connection: nothing, good-bye, or the rest of a COPY that has failed, which the
    /// server would ignore as well. (Protocol: "COPY Operations")
    fn idle_client(&mut self, index: usize, bytes: &[u8], mut at: usize) -> Stop {
        let packet_max = self.limits.packet_max;
        let connection = &mut self.clients[index].connection;
        loop {
            let (Transit::Drop(left) | Transit::Pass(left)) = connection.transit;
            let dropped = left.min(bytes.len() - at);
            connection.transit = Transit::Drop(left - dropped);
            at += dropped;
            match Header::peek(&bytes[at..]) {
                Ok(None) if at == bytes.len() => return Stop::Done,
                Ok(None) => {
                    return Stop::Incomplete {
                        from: at,
                        wants: Header::SIZE,
                    };
                }
                Ok(Some(header)) => match header.tag {
                    tag::TERMINATE => return Stop::Terminate,
                    tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {
                        connection.transit = Transit::Drop(header.total())
                    }
                    // It will have to be whole: its sender need not hold a server connection until it is.
                    tag::PARSE | tag::DESCRIBE | tag::CLOSE
                        if bytes.len() - at < header.total()
                            && header.len as usize <= packet_max =>
                    {
                        return Stop::Incomplete {
                            from: at,
                            wants: header.total(),
                        };
                    }
                    _ => return Stop::NeedsServer(at),
                },
                Err(error) => return Stop::Broken(error.into()),
            }
        }
    }

    fn leased_client(
        &mut self,
        index: usize,
        server: usize,
        bytes: &[u8],
        at: usize,
        source: Source<'_>,
        slots: &Slots,
    ) -> Stop {
        let Some(pool) = self.pools[self.clients[index].pool().0 as usize].as_deref_mut() else {
            return Stop::Done;
        };
        let upstream = Upstream {
            bytes,
            source,
            slots,
            at,
            from: at,
            now: self.now,
            limits: &self.limits,
            client: &mut self.clients[index],
            client_token: Owner::Client(index).token(),
            server: &mut self.servers[server],
            server_token: Owner::Server(server).token(),
            pool,
            outbox: &mut self.outbox,
            aside: &mut self.aside,
        };
        let stop = upstream.run();
        if let Some(name) = self.servers[server].conversation.take_alone_in() {
            let pool = Arc::clone(&self.servers[server].pool);
            self.shared.tell_control(ToControl::Leave { pool, name });
        }
        stop
    }
}
