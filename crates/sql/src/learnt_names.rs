//! Names that the catalogue says to touch session state.

use crate::Suspicion;
use std::collections::{BTreeMap, BTreeSet};

const SETS: Suspicion = Suspicion::SETTINGS.union(Suspicion::OPAQUE);

/// What is looked for in every text besides the built-in words. Made by [`crate::learn`], and from names that the operator gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LearntNames {
    names: BTreeMap<Vec<u8>, Suspicion>,
    /// What any statement may do, whatever it names: a cast between built-in types calls a function that touches state.
    pub everywhere: Suspicion,
    /// What any statement but a query may do: event triggers.
    pub on_definition: Suspicion,
    /// Custom parameters that the learnt functions mention.
    pub settings: BTreeSet<String>,
    more_settings: bool,
}

impl LearntNames {
    /// A function, relation, type or operator without its schema, as the catalogue spells it.
    pub fn insert(&mut self, name: &[u8], suspicion: Suspicion) {
        if !name.is_empty() && !suspicion.is_empty() {
            *self.names.entry(name.to_vec()).or_default() |= suspicion;
        }
    }

    pub fn get(&self, name: &[u8]) -> Suspicion {
        self.names.get(name).copied().unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Suspicion)> {
        self.names
            .iter()
            .map(|(name, suspicion)| (name.as_slice(), *suspicion))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same with [`Suspicion::LEARNT`] wherever parameters may be set.
    pub fn marked(&self) -> Self {
        let mark = |suspicion: Suspicion| match suspicion.intersects(SETS) {
            true => suspicion | Suspicion::LEARNT,
            false => suspicion,
        };
        let mut marked = self.clone();
        for suspicion in marked.names.values_mut() {
            *suspicion = mark(*suspicion);
        }
        marked.everywhere = mark(marked.everywhere);
        marked.on_definition = mark(marked.on_definition);
        marked
    }

    /// Are these all? Not if there are more than a database should have, or a body hides some.
    pub fn settings_are_complete(&self) -> bool {
        !self.more_settings
    }

    pub(crate) fn note_settings(&mut self, complete: bool) {
        self.more_settings |= !complete;
    }

    /// Are there names that a client with another encoding than the learner's spells in other bytes?
    pub fn go_beyond_ascii(&self) -> bool {
        self.names.keys().any(|name| !name.is_ascii())
    }
}
