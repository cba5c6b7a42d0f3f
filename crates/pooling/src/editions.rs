//! Which prepared statements have become outdated in a database: a table got a column, a type was made anew. PostgreSQL refuses to run them
//! (0A000, "cached plan must not change result type") on every connection that has prepared them before, until they are prepared again.
//!
//! What clients prepare after that has been seen is another *edition* of the statement, with another name on servers. Who has prepared it
//! before keeps the old edition, which is refused everywhere: new rows would be read by an old description.

use crate::statements::StatementId;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// How often a statement has been found to be outdated.
pub type Edition = u32;

/// Statements that editions are kept of; beyond that all are taken to be outdated at once.
const KEPT_MAX: usize = 10_000;

/// The editions of one pool's statements, shared by all workers.
#[derive(Debug, Default)]
pub struct Editions {
    /// Whether there is anything but first editions.
    any: AtomicBool,
    later: RwLock<Later>,
}

#[derive(Debug, Default)]
struct Later {
    of: FxHashMap<StatementId, Edition>,
    /// Of all others.
    least: Edition,
}

impl Editions {
    /// Whether there is anything but first editions.
    #[inline]
    pub fn are_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// What is prepared now of the statement whose first edition is `first`.
    #[inline]
    pub fn current(&self, first: StatementId) -> Edition {
        if !self.are_any() {
            return 0;
        }
        let later = self.later.read().unwrap_or_else(PoisonError::into_inner);
        later.of.get(&first).copied().unwrap_or(later.least)
    }

    /// A server has refused this edition; what is prepared from now on is a newer one.
    pub fn is_outdated(&self, first: StatementId, edition: Edition) {
        let mut later = self.later.write().unwrap_or_else(PoisonError::into_inner);
        if later.of.len() >= KEPT_MAX && !later.of.contains_key(&first) {
            later.least = 1 + later.of.values().copied().max().unwrap_or(0);
            later.of.clear();
        }
        let least = later.least;
        let current = later.of.entry(first).or_insert(least);
        *current = (*current).max(edition.saturating_add(1));
        self.any.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> StatementId {
        let mut cache =
            crate::statements::StatementCache::new([7; 16], 1 << 20, Default::default());
        cache
            .intern(n.to_string().as_bytes(), &[], &Default::default())
            .id
    }

    #[test]
    fn a_refusal_makes_the_next_edition_current_once() {
        let editions = Editions::default();
        assert_eq!(editions.current(id(1)), 0);
        editions.is_outdated(id(1), 0);
        editions.is_outdated(id(1), 0); // another server connection
        assert_eq!((editions.current(id(1)), editions.current(id(2))), (1, 0));
        editions.is_outdated(id(1), 1);
        assert_eq!(editions.current(id(1)), 2);
    }

    #[test]
    fn with_too_many_to_keep_no_old_edition_becomes_current_again() {
        let editions = Editions::default();
        editions.is_outdated(id(0), 0);
        editions.is_outdated(id(0), 1);
        for n in 1..=KEPT_MAX {
            editions.is_outdated(id(n), 0);
        }
        assert!(editions.current(id(0)) > 2);
        assert!(editions.current(id(KEPT_MAX)) > 0);
        assert!(editions.later.read().expect("no panic").of.len() <= KEPT_MAX);
    }
}
