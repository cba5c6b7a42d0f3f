//! Which shared statements a server connection has.

use super::{NAME_LEN, Progress, Segment, StatementId};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// What is known of a statement on a server connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    Prepared,
    /// It may be there or not: a Close and a Parse make sure.
    Doubted,
    Absent,
}

/// The segment of what cannot be relied upon.
const DOUBTED: Segment = Segment::MAX;

/// Which shared statements are prepared on one server connection, least recently used first out.
pub struct ServerStatements {
    places: HashMap<StatementId, usize, BuildHasherDefault<rustc_hash::FxHasher>>,
    nodes: Vec<Node>,
    free: Vec<usize>,
    capacity: usize,
}

struct Node {
    id: StatementId,
    /// When its Parse was sent, or `DOUBTED`.
    since: Segment,
    newer: usize,
    older: usize,
}

/// The list's ring starts and ends at node 0, which holds no statement.
const ROOT: usize = 0;

impl ServerStatements {
    pub fn new(capacity: usize) -> ServerStatements {
        let root = Node {
            id: StatementId(0),
            since: DOUBTED,
            newer: ROOT,
            older: ROOT,
        };
        ServerStatements {
            places: HashMap::default(),
            nodes: vec![root],
            free: Vec::new(),
            capacity: capacity.max(1),
        }
    }

    /// What is known of a statement, which is now the most recently used one.
    #[inline]
    pub fn touch(&mut self, id: StatementId, now: Progress) -> Standing {
        let Some(&place) = self.places.get(&id) else {
            return Standing::Absent;
        };
        if self.nodes[ROOT].older != place {
            self.unlink(place);
            self.link_newest(place);
        }
        self.standing(place, now)
    }

    fn standing(&self, place: usize, now: Progress) -> Standing {
        if now.covers(self.nodes[place].since) {
            Standing::Prepared
        } else {
            Standing::Doubted
        }
    }

    /// Takes out the least recently used statement if there is no room for one more: it has to be closed.
    pub fn evict(&mut self) -> Option<StatementId> {
        let oldest =
            (self.places.len() >= self.capacity).then(|| self.nodes[self.nodes[ROOT].newer].id)?;
        self.remove(oldest);
        Some(oldest)
    }

    /// Notes that a statement's Parse is sent.
    pub fn insert(&mut self, id: StatementId, since: Segment) {
        match self.places.get(&id) {
            Some(&place) => self.nodes[place].since = since,
            None => self.add(id, since),
        }
    }

    /// The Parse that was sent then was refused or skipped. If it has been sent again since, that counts.
    pub fn take_back(&mut self, id: StatementId, since: Segment) {
        if self
            .places
            .get(&id)
            .is_some_and(|&place| self.nodes[place].since == since)
        {
            self.remove(id);
        }
    }

    fn add(&mut self, id: StatementId, since: Segment) {
        let node = Node {
            id,
            since,
            newer: ROOT,
            older: ROOT,
        };
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
    }

    /// The server may or may not have it, even beyond the limit: it did not do what was asked of it.
    pub fn doubt(&mut self, id: StatementId) {
        match self.places.get(&id) {
            Some(&place) => self.nodes[place].since = DOUBTED,
            None => self.add(id, DOUBTED),
        }
    }

    /// Something may have happened to all of them.
    pub fn doubt_all(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.since = DOUBTED);
    }

    fn remove(&mut self, id: StatementId) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        self.unlink(place);
        self.free.push(place);
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

    /// The names of all statements, and what is known of them.
    pub fn iter(&self, now: Progress) -> impl Iterator<Item = ([u8; NAME_LEN], Standing)> {
        self.places
            .iter()
            .map(move |(id, place)| (id.server_name(), self.standing(*place, now)))
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

/// Appends a Close message that closes nothing: its answer marks a place among the server's answers.
pub fn write_marker(out: &mut Vec<u8>) {
    wire::write::close(out, wire::frontend::Target::Statement, b"weir_marker");
}
