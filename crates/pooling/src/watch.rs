//! Looks at the statements of clients for what they may do to their session. A text is scanned, not parsed: once for each distinct Parse,
//! and for each simple Query.

use crate::parameters::Prepared;
use crate::statements::Statement;
use sql::{Effect, LearntNames, Scanner, Strings, Suspicion};

/// Texts longer than this are not waited for: what cannot be looked at whole may do anything. In bytes.
pub const LOOKED_AT_MAX: usize = 64 * 1024;

/// What concerns a server connection: what a census can be asked about, and reading sequence values.
const CONCERNS: Suspicion = Suspicion::SETTINGS
    .union(Suspicion::ROLE)
    .union(Suspicion::PREPARED)
    .union(Suspicion::ADVISORY_LOCK)
    .union(Suspicion::TEMPORARY)
    .union(Suspicion::HOLD_CURSOR)
    .union(Suspicion::LISTEN)
    .union(Suspicion::SEED)
    .union(Suspicion::LIBRARY)
    .union(Suspicion::DISCARD)
    .union(Suspicion::UNSEEN)
    .union(Suspicion::SEQUENCE_READ)
    .union(Suspicion::OPAQUE);

/// The words to look for in one database: PostgreSQL's own, and the functions and relations that reach them.
pub struct Watch {
    /// `None`: they are too many to look for. Then every statement is suspicious.
    scanner: Option<Scanner>,
    /// Tells whether what is kept of a text is of these words.
    version: u32,
}

impl Watch {
    /// `version` differs from that of the words before.
    pub fn new(learnt: &LearntNames, version: u32) -> Watch {
        Watch {
            scanner: Scanner::new(learnt).ok(),
            version,
        }
    }

    /// Of a simple Query's text.
    #[inline]
    pub fn text(&self, text: &[u8]) -> Suspicion {
        if text.len() > LOOKED_AT_MAX {
            return Suspicion::OPAQUE;
        }
        let scanner = self.scanner.as_ref();
        scanner.map_or(Suspicion::OPAQUE, |scanner| {
            scanner.suspicion(text) & CONCERNS
        })
    }

    /// Of a text that may EXECUTE what the session has prepared in SQL: that counts instead, if it is known.
    pub fn text_of(&self, text: &[u8], prepared: &[Prepared]) -> Suspicion {
        let suspicion = self.text(text);
        if !suspicion.contains(Suspicion::PREPARED) {
            return suspicion;
        }
        match self.effect(text) {
            Some(Effect::Execute { name, .. }) => prepared
                .iter()
                .find(|known| *known.name.as_bytes() == *name)
                .map_or(suspicion | Suspicion::OPAQUE, |known| {
                    self.text(known.text.as_bytes()) - Suspicion::PREPARED
                }),
            Some(_) => suspicion,
            None => suspicion | Suspicion::OPAQUE,
        }
    }

    /// What a single statement does, if its text says so.
    pub fn effect(&self, statement: &[u8]) -> Option<Effect> {
        self.scanner.as_ref()?.effect(statement, Strings::default())
    }

    /// Of a statement that was parsed; looked at once.
    #[inline]
    pub fn statement(&self, statement: &Statement) -> Suspicion {
        if let Some(bits) = statement.seen(self.version) {
            return Suspicion::from_bits_truncate(bits);
        }
        let suspicion = self.text(statement.text());
        statement.see(self.version, suspicion.bits());
        suspicion
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new(&LearntNames::default(), 0)
    }
}
