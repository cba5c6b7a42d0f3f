//! The loop, and what a batch does: receive, relay, send, close.

use super::client::Phase;
use super::connection::{Connection, Readable};
use super::outbox::{Source, Ticket};
use super::reactor::{BATCH, Readiness, Receive, SLOT_SIZE, Slots};
use super::server::Duty;
use super::{MAILBOX, Owner, Running, Worker, connection_of};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How often time-outs are looked at.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// The same when nothing can become due soon.
const SWEEP_IDLE: Duration = Duration::from_secs(1);

impl Worker {
    pub(super) fn run(&mut self) {
        let mut ready = Vec::new();
        let mut batch = Vec::with_capacity(BATCH);
        while self.running != Running::Stopped {
            let timeout = if self.again.is_empty() {
                self.until_due()
            } else {
                Duration::ZERO
            };
            if let Err(error) = self.reactor.wait(timeout, &mut ready) {
                tracing::error!(%error, "waiting for sockets failed");
                return;
            }
            self.now = self.shared.clock.now();
            let has_mail = self.note_readiness(&mut ready);
            self.serve(&mut batch);
            self.finish_batch(); // what came up while readiness was noted
            let sweep_is_due = self.now.since(self.swept_at) >= SWEEP_EVERY;
            if has_mail || sweep_is_due {
                self.read_mail();
            }
            if sweep_is_due {
                self.swept_at = self.now;
                self.sweep();
                self.finish_batch();
            } else if self.looks_again_at.is_some_and(|at| self.now >= at) {
                self.look_again();
                self.finish_batch();
            }
        }
        self.part_with_everybody();
    }

    fn until_due(&self) -> Duration {
        let every = if self.is_quiet() {
            SWEEP_IDLE
        } else {
            SWEEP_EVERY
        };
        let sweep = every.saturating_sub(self.now.since(self.swept_at));
        match self.looks_again_at {
            Some(at) => sweep.min(at.since(self.now)),
            None => sweep,
        }
    }

    /// Nobody waits and no server connection is at work.
    fn is_quiet(&self) -> bool {
        let quiet = |pool: &super::LocalPool| pool.waiting.is_empty() && pool.active_clients == 0;
        self.pools.iter().flatten().all(|pool| quiet(pool))
    }

    /// Sorts what the kernel said; true if there is mail.
    fn note_readiness(&mut self, ready: &mut Vec<Readiness>) -> bool {
        let mut has_mail = false;
        for event in ready.drain(..) {
            if event.token == MAILBOX {
                has_mail = true;
                continue;
            }
            let owner = Owner::of(event.token);
            if event.writable
                && self
                    .connection(owner)
                    .is_some_and(|connection| connection.is_congested())
            {
                self.flush_backlog(owner);
            }
            if event.readable || event.closed {
                self.note_readable(owner, event.closed);
            }
        }
        has_mail
    }

    fn note_readable(&mut self, owner: Owner, closed: bool) {
        let Some(connection) = self.connection(owner) else {
            return;
        };
        connection.readable = if closed {
            Readable::ToTheEnd
        } else {
            Readable::Yes
        };
        match owner {
            Owner::Client(index)
                if closed && matches!(self.clients[index].phase, Phase::Waiting { .. }) =>
            {
                self.client_gone(index, "client closed the connection while it was waiting");
            }
            _ => self.receive_if_allowed(owner),
        }
    }

    /// Puts a readable connection on the list of the next batch, unless reading it has to wait.
    pub(super) fn receive_if_allowed(&mut self, owner: Owner) {
        let allowed =
            match owner {
                Owner::Client(index) => self.clients.get(index).is_some_and(|client| match client
                    .phase
                {
                    Phase::Idle => true,
                    Phase::Leased(server) => {
                        !self.servers[server].connection.is_congested()
                            && !self.is_held(index, server)
                    }
                    Phase::Waiting { .. } | Phase::Leaving => false,
                }),
                Owner::Server(index) => self.servers.get(index).is_some_and(|server| match server
                    .duty
                {
                    Duty::Leased { client } => !self.clients[client].connection.is_congested(),
                    Duty::Leaving => false,
                    _ => true,
                }),
            };
        let readable = self
            .connection(owner)
            .is_some_and(|connection| connection.readable != Readable::No);
        if allowed && readable {
            self.again.push(owner.token());
        }
    }

    /// Receives from everything on the list, in batches.
    fn serve(&mut self, batch: &mut Vec<Receive>) {
        let mut due = std::mem::take(&mut self.again);
        for tokens in due.chunks(BATCH) {
            batch.clear();
            for &token in tokens {
                if let Some(connection) = self.connection(Owner::of(token)) {
                    batch.push(Receive {
                        token,
                        fd: connection.fd.as_raw_fd(),
                        result: Ok(0),
                    });
                }
            }
            self.reactor.receive(batch, &mut self.slots);
            let slots = std::mem::replace(&mut self.slots, Slots::new(0));
            for (slot, receive) in batch.iter_mut().enumerate() {
                let result = std::mem::replace(&mut receive.result, Ok(0));
                self.received(Owner::of(receive.token), slot, result, &slots);
            }
            self.resume_clients(&slots);
            self.slots = slots;
            self.finish_batch();
        }
        due.clear();
        if self.again.is_empty() {
            self.again = due; // keeps its memory
        }
    }

    fn received(&mut self, owner: Owner, slot: usize, result: io::Result<usize>, slots: &Slots) {
        let Some(connection) = self.connection(owner) else {
            return;
        };
        match result {
            Ok(0) => {
                connection.readable = Readable::No;
                self.peer_closed(owner, None);
            }
            Ok(len) => {
                let more = len == SLOT_SIZE || connection.readable == Readable::ToTheEnd;
                if !more {
                    connection.readable = Readable::No;
                }
                let source = Source::Slot { slot, offset: 0 };
                if connection.has_inbox() {
                    self.input(owner, source, len, slots);
                } else {
                    self.relay(owner, slots.part(slot, 0, len), source, slots);
                }
                if more {
                    self.receive_if_allowed(owner);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.readable = Readable::No
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.again.push(owner.token())
            }
            Err(error) => self.peer_closed(owner, Some(error)),
        }
    }

    /// Hands received bytes to the relay, behind those that were kept.
    pub(super) fn input(&mut self, owner: Owner, source: Source<'_>, len: usize, slots: &Slots) {
        let bytes = match source {
            Source::Slot { slot, offset } => slots.part(slot, offset, len),
            Source::Copy(bytes) => bytes,
        };
        let Some(connection) = self.connection(owner) else {
            return;
        };
        if !connection.has_inbox() {
            self.relay(owner, bytes, source, slots);
        } else if connection.keep_more(bytes) {
            self.input_kept(owner, slots);
        }
    }

    /// The same for what was kept.
    pub(super) fn input_kept(&mut self, owner: Owner, slots: &Slots) {
        let kept = self.connection(owner).map(Connection::take_inbox);
        if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
            self.relay(owner, &kept, Source::Copy(&kept), slots);
            self.spare_inboxes.put(kept);
        }
    }

    /// Clients that have got a lease say what they had to hold back.
    fn resume_clients(&mut self, slots: &Slots) {
        while let Some(client) = self.resumed.pop() {
            if self.clients.contains(client) {
                self.input_kept(Owner::Client(client), slots);
                self.receive_if_allowed(Owner::Client(client));
            }
        }
    }

    /// Sends what the batch has produced and closes what has ended. Also for what came up outside of a batch.
    pub(super) fn finish_batch(&mut self) {
        if !self.resumed.is_empty() {
            let slots = std::mem::replace(&mut self.slots, Slots::new(0));
            self.resume_clients(&slots);
            self.slots = slots;
        }
        self.send_all();
        while let Some(owner) = self.leaving.pop() {
            self.close(owner);
        }
    }

    /// Whoever cannot be sent to is gone; what that makes others hear is sent in the next round.
    fn send_all(&mut self) {
        while !self.outbox.is_empty() {
            let failed = self.send_round();
            for (owner, error) in failed {
                self.peer_closed(owner, Some(error));
            }
        }
    }

    /// Nothing may be said until the outbox is cleared: a ticket given out before would be void and still be used.
    fn send_round(&mut self) -> Vec<(Owner, io::Error)> {
        let Worker {
            clients,
            servers,
            outbox,
            outgoing,
            slots,
            reactor,
            ..
        } = self;
        outgoing.clear();
        for number in 0..outbox.len() {
            let Some(connection) = connection_of(clients, servers, Owner::of(outbox.owner(number)))
            else {
                continue;
            };
            connection.ticket = Ticket::default();
            if connection.is_congested() {
                let mut backlog = connection.take_backlog();
                outbox.unsent(number, 0, slots, &mut backlog); // nothing overtakes a backlog
                connection.set_backlog(backlog);
            } else {
                outgoing.begin(connection.fd.as_raw_fd(), number);
                outbox.describe(number, slots, outgoing);
            }
        }
        reactor.send(outgoing);
        let mut failed = Vec::new();
        for send in 0..self.outgoing.len() {
            let (number, result) = self.outgoing.take_result(send);
            let owner = Owner::of(self.outbox.owner(number));
            if let Err(error) = self.sent(number, owner, result) {
                failed.push((owner, error));
            }
        }
        self.outbox.clear();
        failed
    }

    fn sent(&mut self, number: usize, owner: Owner, result: io::Result<usize>) -> io::Result<()> {
        let len = self.outbox.len_of(number);
        let sent = match result {
            Ok(sent) => sent,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                0
            }
            Err(error) => return Err(error),
        };
        if sent < len {
            let mut backlog = Vec::new();
            self.outbox.unsent(number, sent, &self.slots, &mut backlog);
            if let Some(connection) = self.connection(owner) {
                connection.set_backlog(backlog);
                let fd = connection.fd.as_raw_fd();
                self.reactor.watch_writable(fd, owner.token())?;
            }
        }
        Ok(())
    }

    /// The socket takes bytes again: first what it was owed; then whoever feeds it may be read again.
    fn flush_backlog(&mut self, owner: Owner) {
        let Some(connection) = self.connection(owner) else {
            return;
        };
        let mut backlog = connection.take_backlog();
        let fd = connection.fd.as_raw_fd();
        self.outgoing.clear();
        self.outgoing.begin(fd, 0);
        self.outgoing.push(&backlog);
        self.reactor.send(&mut self.outgoing);
        match self.outgoing.take_result(0).1 {
            Ok(sent) => drop(backlog.drain(..sent)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return self.peer_closed(owner, Some(error)),
        }
        let Some(connection) = self.connection(owner) else {
            return;
        };
        connection.set_backlog(backlog);
        if !connection.is_congested() {
            self.resume_feeder(owner);
        }
    }

    fn resume_feeder(&mut self, owner: Owner) {
        match owner {
            Owner::Client(index) => {
                self.give_waiting(index);
                if let Phase::Leased(server) = self.clients[index].phase {
                    self.receive_if_allowed(Owner::Server(server));
                }
            }
            Owner::Server(index) => {
                if let Some(client) = self.servers[index].client() {
                    self.receive_if_allowed(Owner::Client(client));
                }
            }
        }
    }
}
