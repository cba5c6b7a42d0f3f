//! Prepared statements that many clients share on few server connections.
//!
//! A statement's identity is a keyed 128-bit hash of its text, its parameter types, its dialect and its edition, and its name on a server is made of
//! that hash: so it means the same on every worker and server connection, and no shared table has to be asked.

mod client;
mod server;

pub use client::{ClientStatements, Forgotten, place_of_server_name, restore_names};
pub use server::{ServerStatements, Standing, write_close, write_marker};

use crate::dialect::Dialect;
use crate::editions::{Edition, Editions};
use crate::parameters::Parameters;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a statement is known by on all workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatementId(u128);

impl Hash for StatementId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 as u64); // already a hash
    }
}

const NAME_PREFIX: &[u8; 5] = b"weir_";
const NAME_LEN: usize = NAME_PREFIX.len() + 32;

/// A statement as a Parse message defines it.
#[derive(Debug)]
pub struct Statement {
    pub id: StatementId,
    name: [u8; NAME_LEN],
    text: Box<[u8]>,
    param_types: Box<[u8]>,
    scope: Scope,
    dialect: Dialect,
    /// The identity of its first edition.
    first: StatementId,
    edition: Edition,
    /// What was seen when its text was last looked at: the bits, above them the version of the words that were looked for, plus one.
    seen: AtomicU64,
}

/// Tells a client's statements apart: short of the whole identity, to be noted with each message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(u64);

impl Mark {
    pub const NONE: Mark = Mark(0);
}

/// What running a statement does to prepared statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Nothing, as far as its text tells.
    Plain,
    /// DEALLOCATE ALL or DISCARD ALL: all that have a name are gone.
    DeallocatesAll,
}

impl Scope {
    /// Bytes of a text that have to be there to tell.
    pub const LOOK_AT: usize = 64;

    /// Of a text, or as much of its front as [`Scope::LOOK_AT`]. What a comment or another command precedes is not recognised: the
    /// server's CommandComplete tells of it later.
    pub fn of(text: &[u8]) -> Scope {
        let front = text
            .get(..Scope::LOOK_AT)
            .unwrap_or(text)
            .trim_ascii_start();
        if !matches!(front.first(), Some(b'd' | b'D')) {
            return Scope::Plain;
        }
        let mut words = front
            .split(|byte| byte.is_ascii_whitespace() || matches!(byte, b';' | 0))
            .filter(|word| !word.is_empty())
            .map(<[u8]>::to_ascii_lowercase);
        match (
            words.next().as_deref(),
            words.next().as_deref(),
            words.next().as_deref(),
        ) {
            (Some(b"deallocate" | b"discard"), Some(b"all"), _)
            | (Some(b"deallocate"), Some(b"prepare"), Some(b"all")) => Scope::DeallocatesAll,
            _ => Scope::Plain,
        }
    }
}

impl Statement {
    /// Its name on every server connection.
    pub fn server_name(&self) -> &[u8] {
        &self.name
    }

    /// Appends the Parse message that makes it, under its server name or unnamed.
    pub fn write_parse(&self, name: &[u8], out: &mut Vec<u8>) {
        wire::write::parse(out, name, &self.text, &self.param_types);
    }

    pub fn scope(&self) -> Scope {
        self.scope
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What was noted with `see` for the same version.
    #[inline]
    pub fn seen(&self, version: u32) -> Option<u32> {
        let seen = self.seen.load(Ordering::Relaxed);
        (seen >> 32 == u64::from(version) + 1).then_some(seen as u32)
    }

    pub fn see(&self, version: u32, bits: u32) {
        self.seen.store(
            (u64::from(version) + 1) << 32 | u64::from(bits),
            Ordering::Relaxed,
        );
    }

    /// Bytes of memory that it takes.
    pub fn size(&self) -> usize {
        size_of::<Statement>() + self.text.len() + self.param_types.len()
    }
}

impl StatementId {
    /// Of a statement that nobody means: what is there may not be relied upon.
    pub const UNKNOWN: StatementId = StatementId(0);

    pub fn mark(self) -> Mark {
        Mark(self.0 as u64)
    }

    fn server_name(self) -> [u8; NAME_LEN] {
        let mut name = [0; NAME_LEN];
        name[..NAME_PREFIX.len()].copy_from_slice(NAME_PREFIX);
        for (at, digit) in name[NAME_PREFIX.len()..].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(self.0 >> (124 - 4 * at)) as usize & 15];
        }
        name
    }
}

/// The statements of one pool on one worker, each text once. Bounded in bytes: what no client holds any more is dropped
/// when the bound is reached.
pub struct StatementCache {
    key: [u8; 16],
    statements: HashMap<StatementId, Arc<Statement>, BuildHasherDefault<rustc_hash::FxHasher>>,
    bytes: usize,
    bytes_max: usize,
    sweep_at: usize,
    /// The parameters that were last asked for, and their dialect: most clients of a pool have the same.
    latest: Option<(Arc<Parameters>, Dialect)>,
    editions: Arc<Editions>,
}

impl StatementCache {
    /// `key` is the process's own random key, the same for all caches of the process; `editions` are the same for all of a pool's.
    pub fn new(key: [u8; 16], bytes_max: usize, editions: Arc<Editions>) -> StatementCache {
        StatementCache {
            key,
            statements: HashMap::default(),
            bytes: 0,
            bytes_max,
            sweep_at: bytes_max,
            latest: None,
            editions,
        }
    }

    /// The statement that a Parse makes of a text where `parameters` are set.
    pub fn intern(
        &mut self,
        text: &[u8],
        param_types: &[u8],
        parameters: &Arc<Parameters>,
    ) -> Arc<Statement> {
        let dialect = self.dialect(parameters);
        self.intern_in(dialect, text, param_types)
    }

    /// The statement that a Parse of the same text makes now.
    pub fn renew(
        &mut self,
        statement: &Arc<Statement>,
        parameters: &Arc<Parameters>,
    ) -> Arc<Statement> {
        let dialect = self.dialect(parameters);
        if statement.dialect == dialect && !self.is_outdated(statement) {
            return Arc::clone(statement);
        }
        self.intern_in(dialect, &statement.text, &statement.param_types)
    }

    /// Whether any statement of the pool has been found to be outdated.
    #[inline]
    pub fn knows_outdated(&self) -> bool {
        self.editions.are_any()
    }

    /// Whether a server connection has refused this edition, or one that was prepared later.
    #[inline]
    pub fn is_outdated(&self, statement: &Statement) -> bool {
        self.editions.current(statement.first) != statement.edition
    }

    /// A server connection has refused the client's statement: what it names has changed. False if the mark does not tell which.
    pub fn note_outdated(&self, client: &ClientStatements, mark: Mark) -> bool {
        let outdated = client.marked(mark);
        if let Some(statement) = outdated {
            self.editions
                .is_outdated(statement.first, statement.edition);
        }
        outdated.is_some()
    }

    fn dialect(&mut self, parameters: &Arc<Parameters>) -> Dialect {
        match &self.latest {
            Some((latest, dialect)) if Arc::ptr_eq(latest, parameters) => *dialect,
            _ => {
                let dialect = Dialect::of(parameters, &self.key);
                self.latest = Some((Arc::clone(parameters), dialect));
                dialect
            }
        }
    }

    fn intern_in(&mut self, dialect: Dialect, text: &[u8], param_types: &[u8]) -> Arc<Statement> {
        let first = self.identify(dialect, text, param_types);
        let edition = self.editions.current(first);
        let id = self.identify_edition(first, edition);
        if let Some(known) = self.statements.get(&id) {
            return Arc::clone(known);
        }
        let statement = Arc::new(Statement {
            id,
            name: id.server_name(),
            text: text.into(),
            param_types: param_types.into(),
            scope: Scope::of(text),
            dialect,
            first,
            edition,
            seen: AtomicU64::new(0),
        });
        self.bytes += statement.size();
        self.statements.insert(id, Arc::clone(&statement));
        if self.bytes > self.sweep_at {
            self.sweep();
        }
        statement
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.statements.len()
    }

    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    fn identify(&self, dialect: Dialect, text: &[u8], param_types: &[u8]) -> StatementId {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u64(dialect.0);
        hasher.write_usize(text.len());
        hasher.write(text);
        hasher.write(param_types);
        StatementId(hasher.finish128().as_u128())
    }

    fn identify_edition(&self, first: StatementId, edition: Edition) -> StatementId {
        if edition == 0 {
            return first;
        }
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(&first.0.to_le_bytes());
        hasher.write_u32(edition);
        StatementId(hasher.finish128().as_u128())
    }

    /// Drops what only the cache holds. What clients hold is theirs; the next sweep waits until as much again has come.
    fn sweep(&mut self) {
        self.statements
            .retain(|_, statement| Arc::strong_count(statement) > 1);
        self.bytes = self
            .statements
            .values()
            .map(|statement| statement.size())
            .sum();
        self.sweep_at = self.bytes_max.max(self.bytes.saturating_mul(2));
    }
}

/// What lies between two messages that the server answers with ReadyForQuery, counted from the log-in: an error makes the server skip
/// the rest of its segment, and what was sent in a later one does not know of it.
pub type Segment = u64;

/// How far a conversation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The segment that messages are being sent in.
    pub sent: Segment,
    /// The segment that is being answered.
    pub answered: Segment,
}

impl Progress {
    /// Whether a message that is sent now may rely on one that was sent in `segment`: either that one has been answered, or an error
    /// before it skips both.
    #[inline]
    pub fn covers(self, segment: Segment) -> bool {
        segment == self.sent || segment < self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Arc<Parameters> {
        Arc::default()
    }

    fn cache(bytes_max: usize) -> StatementCache {
        StatementCache::new([7; 16], bytes_max, Arc::default())
    }

    #[test]
    fn text_and_types_make_the_identity() {
        let mut cache = cache(1 << 20);
        let a = cache.intern(b"select 1", &[0, 0], &usual());
        assert!(Arc::ptr_eq(
            &a,
            &cache.intern(b"select 1", &[0, 0], &usual())
        ));
        assert_ne!(a.id, cache.intern(b"select 2", &[0, 0], &usual()).id);
        assert_ne!(
            a.id,
            cache.intern(b"select 1", &[0, 1, 0, 0, 0, 23], &usual()).id
        );
        assert_eq!(
            a.id,
            super::StatementCache::new([7; 16], 1, Arc::default())
                .intern(b"select 1", &[0, 0], &usual())
                .id
        );
    }

    #[test]
    fn the_dialect_is_a_part_of_the_identity() {
        let mut cache = cache(1 << 20);
        let german = Arc::new(Parameters::reported([("DateStyle", "German")]));
        let a = cache.intern(b"select '1.2.2024'::date", &[], &usual());
        let b = cache.renew(&a, &german);
        assert_ne!(a.id, b.id);
        assert!(Arc::ptr_eq(&a, &cache.renew(&b, &usual())));
        assert!(Arc::ptr_eq(
            &b,
            &cache.intern(b"select '1.2.2024'::date", &[], &german)
        ));
    }

    #[test]
    fn what_is_prepared_after_a_refusal_is_another_edition() {
        let mut cache = cache(1 << 20);
        let old = cache.intern(b"select * from t", &[], &usual());
        let other = cache.intern(b"select 1", &[], &usual());
        let mut client = ClientStatements::default();
        client.insert(b"s", Arc::clone(&old), 0);
        assert!(!cache.note_outdated(&client, other.id.mark()));
        assert!(cache.note_outdated(&client, old.id.mark()));
        assert!(cache.is_outdated(&old) && !cache.is_outdated(&other));
        let new = cache.intern(b"select * from t", &[], &usual());
        assert!(!cache.is_outdated(&new));
        assert_ne!(old.server_name(), new.server_name());
        assert!(Arc::ptr_eq(&new, &cache.renew(&old, &usual())));
    }

    #[test]
    fn the_cache_keeps_what_clients_hold_and_stays_near_its_bound() {
        let mut cache = cache(10_000);
        let held = cache.intern(b"held", &[0, 0], &usual());
        for n in 0..10_000 {
            cache.intern(format!("select {n}").as_bytes(), &[0, 0], &usual());
            assert!(cache.bytes() <= 10_000 + 200);
        }
        assert!(Arc::ptr_eq(
            &held,
            &cache.intern(b"held", &[0, 0], &usual())
        ));
    }

    #[test]
    fn the_least_recently_used_statement_goes_first() {
        let mut cache = cache(1 << 20);
        let ids: Vec<_> = (0..4)
            .map(|n| cache.intern(format!("{n}").as_bytes(), &[], &usual()).id)
            .collect();
        let mut server = ServerStatements::new(3);
        let now = Progress {
            sent: 1,
            answered: 0,
        };
        for id in &ids[..3] {
            assert_eq!(server.evict(), None);
            server.insert(*id, 1);
        }
        assert_eq!(server.touch(ids[0], now), Standing::Prepared);
        assert_eq!(server.evict(), Some(ids[1]));
        server.insert(ids[3], 1);
        assert_eq!(server.touch(ids[1], now), Standing::Absent);
        server.doubt(ids[1]);
        assert_eq!(
            (server.evict(), server.evict(), server.evict()),
            (Some(ids[2]), Some(ids[0]), None)
        );
    }

    #[test]
    fn a_statement_counts_in_its_segment_and_once_that_is_answered() {
        let id = cache(1 << 20).intern(b"a", &[], &usual()).id;
        let mut server = ServerStatements::new(1);
        server.insert(id, 1);
        for (sent, answered, standing) in [
            (1, 0, Standing::Prepared),
            (2, 1, Standing::Doubted),
            (2, 2, Standing::Prepared),
            (9, 2, Standing::Prepared),
        ] {
            assert_eq!(server.touch(id, Progress { sent, answered }), standing);
        }
        server.doubt_all();
        assert_eq!(
            server.touch(
                id,
                Progress {
                    sent: 9,
                    answered: 9
                }
            ),
            Standing::Doubted
        );
    }

    #[test]
    fn texts_that_deallocate_all_statements_are_recognised() {
        for text in [
            "DEALLOCATE ALL",
            " deallocate\tprepare ALL;",
            "Discard All;select 1",
            "DISCARD\nALL\0",
        ] {
            assert_eq!(Scope::of(text.as_bytes()), Scope::DeallocatesAll, "{text}");
        }
        for text in [
            "",
            "d",
            "DEALLOCATE a",
            "DISCARD TEMP",
            "DEALLOCATE ALLES",
            "select 'DISCARD ALL'",
            "DISCARDALL",
        ] {
            assert_eq!(Scope::of(text.as_bytes()), Scope::Plain, "{text}");
        }
    }

    #[test]
    fn a_clients_names_are_its_own() {
        let mut cache = cache(1 << 20);
        let mut client = ClientStatements::default();
        client.insert(b"a", cache.intern(b"select 1", &[], &usual()), 0);
        assert!(client.named(b"a").is_some() && client.named(b"b").is_none());
        assert!(client.remove(b"a").is_some() && client.is_empty());
    }
}
