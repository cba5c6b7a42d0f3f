//! Whose the values are that `currval` and `lastval` give on a server connection. Where they may be another client's, they are dropped before
//! anybody can ask for them: PostgreSQL then says itself that there are none (55000).

use super::expected::Own;
use super::{Conversation, Series};

/// Who has used the server connection since its sequence values were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Used {
    ByNobody,
    /// By the client with this number.
    By(u64),
    BySeveral,
}

/// What is known of sequences on a server connection, and in the lease that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequences {
    used: Used,
    client: u64,
    lease: SequenceUse,
}

/// What has happened with sequence values in a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequenceUse {
    None,
    /// Rows were inserted since the values were last asked for.
    Inserted,
    /// They were asked for.
    Read,
}

impl Sequences {
    pub const NEW: Sequences = Sequences {
        used: Used::ByNobody,
        client: 0,
        lease: SequenceUse::None,
    };

    pub fn begin_lease(&mut self, client: u64) {
        self.used = match self.used {
            Used::ByNobody => Used::By(client),
            Used::By(before) if before == client => self.used,
            _ => Used::BySeveral,
        };
        self.client = client;
        self.lease = SequenceUse::None;
    }

    #[inline]
    pub fn inserted(&mut self) {
        self.lease = SequenceUse::Inserted;
    }

    pub fn dropped(&mut self) {
        self.used = Used::By(self.client);
    }
}

impl Conversation {
    /// The sequence values on this server connection, if there are any, are this client's.
    pub fn has_sequences_of(&self, client: u64) -> bool {
        self.sequences.used == Used::By(client)
    }

    /// Since it was last asked.
    pub fn take_sequence_use(&mut self) -> SequenceUse {
        std::mem::replace(&mut self.sequences.lease, SequenceUse::None)
    }

    /// The client that holds the lease may ask for sequence values. Within a series of the extended protocol nothing can be said between; then
    /// what it has done before in the series counts as its own.
    pub(super) fn note_sequence_read(&mut self, to_server: &mut Vec<u8>) {
        self.sequences.lease = SequenceUse::Read;
        if self.series == Series::Closed {
            self.own_sequences(to_server);
        }
    }

    /// Drops the sequence values of others.
    pub fn own_sequences(&mut self, to_server: &mut Vec<u8>) {
        if self.sequences.used == Used::BySeveral {
            self.sequences.dropped();
            self.own_query(Own::DropSequences, b"DISCARD SEQUENCES", to_server);
        }
    }
}
