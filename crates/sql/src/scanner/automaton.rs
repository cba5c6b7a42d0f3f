//! Finds any number of words, at some eight instructions per byte: one step of an automaton for each.

use super::words::Word;
use aho_corasick::{Anchored, BuildError, automaton, dfa, nfa};

/// With more text in its words than this an automaton that is smaller and slower is built, in bytes.
const FAST_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(super) struct Automaton {
    states: States,
    words: Vec<Word>,
}

#[derive(Debug, Clone)]
enum States {
    Fast(dfa::DFA),
    Small(nfa::contiguous::NFA),
}

impl Automaton {
    pub(super) fn new(words: Vec<Word>) -> Result<Self, BuildError> {
        let patterns = || words.iter().map(|word| &word.text);
        let bytes: usize = patterns().map(|text| text.len()).sum();
        let states = if bytes <= FAST_BYTES_MAX {
            let mut builder = dfa::Builder::new();
            builder.ascii_case_insensitive(true).prefilter(false);
            States::Fast(builder.build(patterns())?)
        } else {
            let mut builder = nfa::contiguous::Builder::new();
            builder.ascii_case_insensitive(true).prefilter(false);
            States::Small(builder.build(patterns())?)
        };
        Ok(Self { states, words })
    }

    /// Calls `each` with every word in the text, and where it begins.
    pub(super) fn for_each(&self, text: &[u8], each: impl FnMut(&Word, usize)) {
        match &self.states {
            States::Fast(states) => self.walk(states, text, each),
            States::Small(states) => self.walk(states, text, each),
        }
    }

    fn walk(
        &self,
        states: &impl automaton::Automaton,
        text: &[u8],
        mut each: impl FnMut(&Word, usize),
    ) {
        // Unanchored searches are what such automata are built for by default.
        let Ok(mut state) = states.start_state(Anchored::No) else {
            return;
        };
        for (at, &byte) in text.iter().enumerate() {
            state = states.next_state(Anchored::No, state, byte);
            if !states.is_match(state) {
                continue;
            }
            for index in 0..states.match_len(state) {
                let word = self
                    .words
                    .get(states.match_pattern(state, index).as_usize());
                if let Some(word) = word {
                    each(word, (at + 1).saturating_sub(word.text.len()));
                }
            }
        }
    }
}
