//! The names that a client has given to statements, and how they stand in errors.

use super::{Mark, NAME_LEN, NAME_PREFIX, Segment, Statement};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::sync::Arc;

/// The names that one client has given to statements. Empty until the first Parse.
#[derive(Default, Debug)]
pub struct ClientStatements {
    named: Option<Box<Names>>,
    /// What the client's unnamed statement is, as the server has confirmed it.
    pub unnamed: Option<Arc<Statement>>,
}

/// What names stand for, and in which segment of the conversation each was given.
type Names = HashMap<Box<[u8]>, (Arc<Statement>, Segment), FxBuildHasher>;

/// All names that a client had before a DEALLOCATE ALL which may yet fail.
#[derive(Debug)]
pub struct Forgotten(Option<Box<Names>>);

impl ClientStatements {
    #[inline]
    pub fn named(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.named
            .as_ref()?
            .get(name)
            .map(|(statement, _)| statement)
    }

    pub fn insert(&mut self, name: &[u8], statement: Arc<Statement>, since: Segment) {
        self.named
            .get_or_insert_default()
            .insert(name.into(), (statement, since));
    }

    /// The name stands for the same text in another dialect from now on.
    pub fn replace(&mut self, name: &[u8], statement: Arc<Statement>) {
        let known = self.named.as_mut().and_then(|named| named.get_mut(name));
        if let Some((known, _)) = known {
            *known = statement;
        }
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Statement>> {
        let named = self.named.as_mut()?;
        let removed = named.remove(name);
        if named.is_empty() {
            self.named = None;
        }
        removed.map(|(statement, _)| statement)
    }

    /// A name was not given after all; if it has been given anew since, that stays.
    pub fn take_back(&mut self, name: &[u8], since: Segment) {
        let given = self
            .named
            .as_ref()
            .and_then(|named| named.get(name))
            .is_some_and(|(_, given)| *given <= since);
        if given {
            self.remove(name);
        }
    }

    /// A name was not closed after all; if it has been given anew since, that stays.
    pub fn put_back(&mut self, name: &[u8], statement: Arc<Statement>, since: Segment) {
        self.named
            .get_or_insert_default()
            .entry(name.into())
            .or_insert((statement, since));
    }

    /// DEALLOCATE ALL is on its way.
    pub fn forget_named(&mut self) -> Forgotten {
        Forgotten(self.named.take())
    }

    /// DEALLOCATE of one name is on its way.
    pub fn forget(&mut self, name: &[u8]) -> Forgotten {
        let one = self
            .named
            .as_mut()
            .and_then(|named| named.remove_entry(name));
        Forgotten(one.map(|one| Box::new(Names::from_iter([one]))))
    }

    /// It has failed.
    pub fn remember(&mut self, forgotten: Forgotten) {
        let Some(before) = forgotten.0 else { return };
        for (name, (statement, since)) in *before {
            self.put_back(&name, statement, since);
        }
    }

    /// DEALLOCATE ALL has been done without having been foreseen: only the names stay that `keep` has.
    pub fn retain_named(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let Some(named) = &mut self.named else { return };
        named.retain(|name, _| keep(name));
        if named.is_empty() {
            self.named = None;
        }
    }

    pub fn len(&self) -> usize {
        self.named.as_ref().map_or(0, |named| named.len())
    }

    pub fn is_empty(&self) -> bool {
        self.named.is_none()
    }

    /// One of the client's named statements.
    pub fn marked(&self, mark: Mark) -> Option<&Arc<Statement>> {
        let mut names = self.named.as_ref()?.values();
        names
            .find(|(statement, _)| statement.id.mark() == mark)
            .map(|(statement, _)| statement)
    }

    fn name_of(&self, server_name: &[u8]) -> Option<&[u8]> {
        let mut names = self.named.as_ref()?.iter();
        names
            .find(|(_, (statement, _))| statement.name == server_name)
            .map(|(name, _)| &**name)
    }
}

/// If an ErrorResponse names a statement as the server knows it, appends the message with the client's own name for it: `meant`, if
/// it is known which name that is, as one statement may have many.
pub fn restore_names(
    body: &[u8],
    meant: Option<&[u8]>,
    client: Option<&ClientStatements>,
    to_client: &mut Vec<u8>,
) -> bool {
    let Some(at) = place_of_server_name(body) else {
        return false;
    };
    let (before, found) = body.split_at(at);
    let (found, after) = found.split_at(NAME_LEN);
    let Some(name) = meant.or_else(|| client.and_then(|client| client.name_of(found))) else {
        return false;
    };
    to_client.push(wire::backend::tag::ERROR_RESPONSE);
    let len = 4 + before.len() + name.len() + after.len();
    to_client.extend_from_slice(&(len as u32).to_be_bytes());
    to_client.extend_from_slice(before);
    to_client.extend_from_slice(name);
    to_client.extend_from_slice(after);
    true
}

/// Where a text names a shared statement.
pub fn place_of_server_name(text: &[u8]) -> Option<usize> {
    text.windows(NAME_LEN)
        .position(|window| window.starts_with(NAME_PREFIX))
}
