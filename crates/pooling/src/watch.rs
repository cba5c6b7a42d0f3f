//! Looks at the statements of clients for what they may do to their session. A text is scanned, not parsed: once for each distinct Parse,
//! and for each simple Query.

use crate::parameters::Prepared;
use crate::statements::Statement;
use sql::{Effect, LearntNames, Scanner, Strings, Suspicion};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Texts longer than this are not waited for: what cannot be looked at whole may do anything. In bytes.
pub const LOOKED_AT_MAX: usize = 64 * 1024;
/// Of those, the bytes that are looked at: they tell whether a text begins with a change of the catalogue.
const FRONT: usize = 1024;

/// What a census can be asked about, and what its words follow from.
pub(crate) const CENSUS: Suspicion = Suspicion::SETTINGS
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
    .union(Suspicion::UNNAMED)
    .union(Suspicion::OPAQUE)
    .union(Suspicion::LEARNT)
    .union(Suspicion::CATALOG_CHANGE);

/// What a client that listens through the shared listener has its channels recalled for: whatever may change them, show them, or notify; and
/// what may begin a transaction block that does so later, when it is too late.
pub(crate) const RECALL: Suspicion = Suspicion::LISTEN
    .union(Suspicion::NOTIFY)
    .union(Suspicion::DISCARD)
    .union(Suspicion::OPAQUE)
    .union(Suspicion::SESSION_CATALOG)
    .union(Suspicion::TRANSACTION);

/// The rest of what a text gives away concerns others.
const LOOKED_FOR: Suspicion = CENSUS.union(RECALL).union(Suspicion::SEQUENCE_READ);

/// The words to look for in one database: PostgreSQL's own, and the functions and relations that reach them.
#[derive(Clone)]
pub struct Watch {
    /// `None`: not even PostgreSQL's own words can be looked for.
    scanner: Option<Arc<Scanner>>,
    words: Words,
    /// Tells whether what is kept of a text is of these words.
    version: u32,
    /// Custom parameters that functions of the database may set.
    settings: BTreeSet<Box<str>>,
}

/// What is known of the database's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Words {
    /// All of them.
    Known,
    /// The same, and some are spelled in other bytes by a client with another encoding.
    KnownBeyondAscii,
    /// Every statement may do anything.
    Unknown,
}

impl Watch {
    /// `version` differs from that of the words before. With more names than can be looked for nothing is known.
    pub fn new(learnt: &LearntNames, version: u32) -> Watch {
        let settings = learnt.settings.iter().map(|name| name.as_str().into());
        let (scanner, words) = match Scanner::new(&learnt.marked()) {
            Ok(scanner) if learnt.go_beyond_ascii() => (Some(scanner), Words::KnownBeyondAscii),
            Ok(scanner) => (Some(scanner), Words::Known),
            Err(_) => (Scanner::new(&LearntNames::default()).ok(), Words::Unknown),
        };
        Watch {
            scanner: scanner.map(Arc::new),
            words,
            version,
            settings: settings.collect(),
        }
    }

    /// Of a database whose catalogue has not been read.
    pub fn unknown() -> Watch {
        Watch {
            words: Words::Unknown,
            ..Watch::default()
        }
    }

    /// What remains when the catalogue has changed: there may be more names now, and functions that set the parameters `mentioned`.
    pub fn outdated<'a>(&self, mentioned: impl IntoIterator<Item = &'a Box<str>>) -> Watch {
        let mut watch = self.after(self);
        watch.words = Words::Unknown;
        watch.settings.extend(mentioned.into_iter().cloned());
        watch
    }

    /// The same words, where those of `other` were.
    pub fn after(&self, other: &Watch) -> Watch {
        Watch {
            version: other.version.wrapping_add(1),
            ..self.clone()
        }
    }

    pub fn is_known(&self) -> bool {
        self.words != Words::Unknown
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    /// Custom parameters that functions of the database may set.
    pub fn settings(&self) -> impl Iterator<Item = &Box<str>> {
        self.settings.iter()
    }

    /// Of a simple Query's text.
    #[inline]
    pub fn text(&self, text: &[u8]) -> Suspicion {
        let Some(scanner) = &self.scanner else {
            return Suspicion::OPAQUE;
        };
        let is_whole = text.len() <= LOOKED_AT_MAX;
        let seen = if is_whole {
            text
        } else {
            text.get(..FRONT).unwrap_or(text)
        };
        let found = scanner.suspicion(seen) & LOOKED_FOR;
        // What uses an object in the transaction that makes it cannot be known by its name.
        if is_whole && self.tells(text) && !found.contains(Suspicion::CATALOG_CHANGE) {
            found
        } else {
            found | Suspicion::OPAQUE
        }
    }

    #[inline]
    fn tells(&self, text: &[u8]) -> bool {
        match self.words {
            Words::Known => true,
            Words::KnownBeyondAscii => std::str::from_utf8(text).is_ok(),
            Words::Unknown => false,
        }
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
    /// Of a database without any functions of its own.
    fn default() -> Watch {
        Watch::new(&LearntNames::default(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt() -> LearntNames {
        let mut learnt = LearntNames::default();
        learnt.insert(b"sets", Suspicion::SETTINGS);
        learnt.insert(b"locks", Suspicion::ADVISORY_LOCK);
        learnt.settings.insert("app.x".into());
        learnt
    }

    #[test]
    fn what_is_not_known_may_do_anything() {
        assert!(
            Watch::unknown()
                .text(b"SELECT 1")
                .contains(Suspicion::OPAQUE)
        );
        let known = Watch::new(&learnt(), 1);
        assert!(known.text(b"SELECT 1").is_empty());
        let outdated = known.outdated(&["app.y".into()]);
        assert!(outdated.text(b"SELECT 1").contains(Suspicion::OPAQUE));
        assert!(
            outdated
                .text(b"CREATE VIEW v AS SELECT 1")
                .contains(Suspicion::CATALOG_CHANGE)
        );
        let settings: Vec<&str> = outdated.settings().map(|name| &**name).collect();
        assert_eq!(settings, ["app.x", "app.y"]);
        let again = known.after(&outdated);
        assert!(again.is_known() && again.version() > outdated.version());
    }

    #[test]
    fn only_what_may_set_parameters_asks_for_the_learnt_ones() {
        let known = Watch::new(&learnt(), 1);
        assert!(known.text(b"SELECT sets()").contains(Suspicion::LEARNT));
        assert_eq!(known.text(b"SELECT locks()"), Suspicion::ADVISORY_LOCK);
        assert_eq!(known.text(b"SET a.b = 1"), Suspicion::SETTINGS);
    }

    #[test]
    fn a_transaction_that_makes_objects_may_use_them() {
        let known = Watch::new(&learnt(), 1);
        for makes in [
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "BEGIN; DROP VIEW v",
        ] {
            assert!(known.text(makes.as_bytes()).contains(Suspicion::OPAQUE));
        }
        assert_eq!(
            known.text(b"CREATE TEMP TABLE t (a int)"),
            Suspicion::TEMPORARY
        );
    }

    #[test]
    fn names_in_another_encoding_are_not_overlooked() {
        let mut learnt = learnt();
        learnt.insert("größe".as_bytes(), Suspicion::ADVISORY_LOCK);
        let known = Watch::new(&learnt, 1);
        assert_eq!(
            known.text("SELECT größe()".as_bytes()),
            Suspicion::ADVISORY_LOCK
        );
        assert!(
            known
                .text(b"SELECT gr\xf6\xdfe()")
                .contains(Suspicion::OPAQUE)
        );
        assert!(known.text("SELECT 'ä'".as_bytes()).is_empty());
    }
}
