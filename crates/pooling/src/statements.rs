//! Prepared statements that many clients share on few server connections.
//!
//! A statement's identity is a keyed 128-bit hash of its text and parameter types, and its name on a server is made of that
//! hash: so it means the same on every worker and server connection, and no shared table has to be asked.

use rustc_hash::FxBuildHasher;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

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

    /// Bytes of memory that it takes.
    pub fn size(&self) -> usize {
        size_of::<Statement>() + self.text.len() + self.param_types.len()
    }
}

impl StatementId {
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
}

impl StatementCache {
    /// `key` is the process's own random key, the same for all caches of the process.
    pub fn new(key: [u8; 16], bytes_max: usize) -> StatementCache {
        StatementCache { key, statements: HashMap::default(), bytes: 0, bytes_max, sweep_at: bytes_max }
    }

    pub fn intern(&mut self, text: &[u8], param_types: &[u8]) -> Arc<Statement> {
        let id = self.identify(text, param_types);
        if let Some(known) = self.statements.get(&id) {
            return Arc::clone(known);
        }
        let statement =
            Arc::new(Statement { id, name: id.server_name(), text: text.into(), param_types: param_types.into() });
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

    fn identify(&self, text: &[u8], param_types: &[u8]) -> StatementId {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_usize(text.len());
        hasher.write(text);
        hasher.write(param_types);
        StatementId(hasher.finish128().as_u128())
    }

    /// Drops what only the cache holds. What clients hold is theirs; the next sweep waits until as much again has come.
    fn sweep(&mut self) {
        self.statements.retain(|_, statement| Arc::strong_count(statement) > 1);
        self.bytes = self.statements.values().map(|statement| statement.size()).sum();
        self.sweep_at = self.bytes_max.max(self.bytes.saturating_mul(2));
    }
}

/// The names that one client has given to statements. Empty until the first Parse.
#[derive(Default, Debug)]
pub struct ClientStatements {
    named: Option<Box<HashMap<Box<[u8]>, Arc<Statement>, FxBuildHasher>>>,
    /// What the client's unnamed statement is.
    pub unnamed: Option<Arc<Statement>>,
}

impl ClientStatements {
    #[inline]
    pub fn named(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.named.as_ref()?.get(name)
    }

    pub fn insert(&mut self, name: &[u8], statement: Arc<Statement>) {
        self.named.get_or_insert_default().insert(name.into(), statement);
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Statement>> {
        let named = self.named.as_mut()?;
        let removed = named.remove(name);
        if named.is_empty() {
            self.named = None;
        }
        removed
    }

    /// After DEALLOCATE ALL or DISCARD ALL.
    pub fn clear(&mut self) {
        *self = ClientStatements::default();
    }

    pub fn len(&self) -> usize {
        self.named.as_ref().map_or(0, |named| named.len())
    }

    pub fn is_empty(&self) -> bool {
        self.named.is_none()
    }
}

/// If an ErrorResponse or notice names a statement as the server knows it, appends the message with the client's own name for it.
pub fn restore_names(body: &[u8], client: Option<&ClientStatements>, to_client: &mut Vec<u8>) -> bool {
    let Some(at) = body.windows(NAME_PREFIX.len()).position(|window| window == NAME_PREFIX) else { return false };
    let Some(found) = body.get(at..at + NAME_LEN) else { return false };
    let named = client.and_then(|client| client.named.as_ref());
    let Some(name) = named.and_then(|named| named.iter().find(|(_, statement)| statement.name == found).map(|(name, _)| name)) else {
        return false;
    };
    to_client.push(wire::backend::tag::ERROR_RESPONSE);
    let len = 4 + body.len() - NAME_LEN + name.len();
    to_client.extend_from_slice(&(len as u32).to_be_bytes());
    to_client.extend_from_slice(&body[..at]);
    to_client.extend_from_slice(name);
    to_client.extend_from_slice(&body[at + NAME_LEN..]);
    true
}

/// Which shared statements are prepared on one server connection, least recently used first out.
pub struct ServerStatements {
    places: HashMap<StatementId, usize, BuildHasherDefault<rustc_hash::FxHasher>>,
    nodes: Vec<Node>,
    free: Vec<usize>,
    capacity: usize,
}

struct Node {
    id: StatementId,
    newer: usize,
    older: usize,
}

/// The list's ring starts and ends at node 0, which holds no statement.
const ROOT: usize = 0;

impl ServerStatements {
    pub fn new(capacity: usize) -> ServerStatements {
        let root = Node { id: StatementId(0), newer: ROOT, older: ROOT };
        ServerStatements { places: HashMap::default(), nodes: vec![root], free: Vec::new(), capacity: capacity.max(1) }
    }

    /// True, and now the most recently used, if the statement is prepared.
    #[inline]
    pub fn touch(&mut self, id: StatementId) -> bool {
        let Some(&place) = self.places.get(&id) else { return false };
        if self.nodes[ROOT].older != place {
            self.unlink(place);
            self.link_newest(place);
        }
        true
    }

    /// Notes a statement as prepared; gives the one that has to be closed for it, if the limit is reached.
    pub fn insert(&mut self, id: StatementId) -> Option<StatementId> {
        if self.touch(id) {
            return None;
        }
        let evicted = (self.places.len() >= self.capacity).then(|| self.nodes[self.nodes[ROOT].newer].id);
        if let Some(oldest) = evicted {
            self.remove(oldest);
        }
        let node = Node { id, newer: ROOT, older: ROOT };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        self.places.insert(id, place);
        self.link_newest(place);
        evicted
    }

    /// Notes a statement as prepared even beyond the limit: the server did not do what was asked of it.
    pub fn restore(&mut self, id: StatementId) {
        let capacity = std::mem::replace(&mut self.capacity, usize::MAX);
        self.insert(id);
        self.capacity = capacity;
    }

    pub fn remove(&mut self, id: StatementId) -> bool {
        let Some(place) = self.places.remove(&id) else { return false };
        self.unlink(place);
        self.free.push(place);
        true
    }

    pub fn clear(&mut self) {
        *self = ServerStatements::new(self.capacity);
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn contains(&self, id: StatementId) -> bool {
        self.places.contains_key(&id)
    }

    fn unlink(&mut self, place: usize) {
        let Node { newer, older, .. } = self.nodes[place];
        self.nodes[newer].older = older;
        self.nodes[older].newer = newer;
    }

    /// ROOT.older is the newest, ROOT.newer the oldest: the ring closes there.
    fn link_newest(&mut self, place: usize) {
        let newest = self.nodes[ROOT].older;
        self.nodes[place].older = newest;
        self.nodes[place].newer = ROOT;
        self.nodes[newest].newer = place;
        self.nodes[ROOT].older = place;
    }
}

/// Appends the Close message for a shared statement.
pub fn write_close(id: StatementId, out: &mut Vec<u8>) {
    wire::write::close(out, wire::frontend::Target::Statement, &id.server_name());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(bytes_max: usize) -> StatementCache {
        StatementCache::new([7; 16], bytes_max)
    }

    #[test]
    fn text_and_types_make_the_identity() {
        let mut cache = cache(1 << 20);
        let a = cache.intern(b"select 1", &[0, 0]);
        assert!(Arc::ptr_eq(&a, &cache.intern(b"select 1", &[0, 0])));
        assert_ne!(a.id, cache.intern(b"select 2", &[0, 0]).id);
        assert_ne!(a.id, cache.intern(b"select 1", &[0, 1, 0, 0, 0, 23]).id);
        assert_eq!(a.id, super::StatementCache::new([7; 16], 1).intern(b"select 1", &[0, 0]).id);
    }

    #[test]
    fn the_cache_keeps_what_clients_hold_and_stays_near_its_bound() {
        let mut cache = cache(10_000);
        let held = cache.intern(b"held", &[0, 0]);
        for n in 0..10_000 {
            cache.intern(format!("select {n}").as_bytes(), &[0, 0]);
            assert!(cache.bytes() <= 10_000 + 200);
        }
        assert!(Arc::ptr_eq(&held, &cache.intern(b"held", &[0, 0])));
    }

    #[test]
    fn the_least_recently_used_statement_goes_first() {
        let mut cache = cache(1 << 20);
        let ids: Vec<_> = (0..4).map(|n| cache.intern(format!("{n}").as_bytes(), &[]).id).collect();
        let mut server = ServerStatements::new(3);
        for id in &ids[..3] {
            assert_eq!(server.insert(*id), None);
        }
        assert!(server.touch(ids[0]));
        assert_eq!(server.insert(ids[3]), Some(ids[1]));
        assert!(!server.touch(ids[1]));
        assert!(server.remove(ids[2]) && !server.remove(ids[2]));
        assert_eq!(server.insert(ids[1]), None);
        assert_eq!(server.insert(ids[2]), Some(ids[0]));
    }

    #[test]
    fn a_clients_names_are_its_own() {
        let mut cache = cache(1 << 20);
        let mut client = ClientStatements::default();
        client.insert(b"a", cache.intern(b"select 1", &[]));
        assert!(client.named(b"a").is_some() && client.named(b"b").is_none());
        assert!(client.remove(b"a").is_some() && client.is_empty());
    }
}
