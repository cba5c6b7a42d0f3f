//! The fast question: what may this text do? Asked of every simple query and once of every distinct text of Parse.
//!
//! One pass over the bytes looks for words that give a text away wherever they stand; the first word of each statement tells the
//! rest. Nothing is lexed unless there is more than one statement, or code in one. The answer is a superset of the truth with every
//! client encoding and with `standard_conforming_strings` on or off.

mod code;
mod opening;
mod words;

use crate::lexer::{Backslashes, blank_len, is_word_byte};
use crate::statements::statements;
use crate::{Effect, LearntNames, Strings, Suspicion, understand};
use aho_corasick::BuildError;
use memchr::{memchr, memchr_iter};
use opening::Opening;
use words::Words;

/// The built-in words and those of one database.
#[derive(Debug, Clone)]
pub struct Scanner {
    words: Words,
    everywhere: Suspicion,
    on_definition: Suspicion,
}

impl Scanner {
    /// # Errors
    /// If the learnt names are too many for an automaton (billions of bytes).
    pub fn new(learnt: &LearntNames) -> Result<Self, BuildError> {
        Ok(Self {
            words: Words::new(learnt)?,
            everywhere: learnt.everywhere,
            on_definition: learnt.on_definition,
        })
    }

    /// What `text`, one statement or several, may do. About two nanoseconds per byte; a plain query costs no allocation.
    pub fn suspicion(&self, text: &[u8]) -> Suspicion {
        let words = self.words.suspicion(text) | self.everywhere;
        words | self.statement(text, Place::First) | self.further(text)
    }

    /// What `statement`, a single one, does, if its text says so. `Nothing` if it is not suspicious.
    pub fn effect(&self, statement: &[u8], strings: Strings) -> Option<Effect> {
        let suspicion = self.suspicion(statement);
        if suspicion.is_empty() {
            return Some(Effect::Nothing);
        }
        understand(statement, strings)
            .filter(|effect| !effect.evaluates() || effect.suspicion().contains(suspicion))
    }

    /// What a function's body may do. `language` as in `pg_language`.
    pub fn body(&self, body: &[u8], language: &str) -> Suspicion {
        let statements = match language {
            "sql" | "plpgsql" => code::suspicion(body),
            // The body is a symbol's name.
            "c" | "internal" => Suspicion::empty(),
            _ => code::foreign_suspicion(body),
        };
        statements | self.names(body)
    }

    /// What the words and names in a text say, wherever they stand.
    pub fn names(&self, text: &[u8]) -> Suspicion {
        self.words.suspicion(text)
    }

    /// The statements behind the first.
    fn further(&self, text: &[u8]) -> Suspicion {
        let Some(end) = memchr(b';', text) else {
            return Suspicion::empty();
        };
        let rest = text.get(end + 1..).unwrap_or_default();
        if blank_len(rest).is_some_and(|blank| blank == rest.len()) {
            return Suspicion::empty();
        }
        let each = |found: Suspicion, statement| found | self.statement(statement, Place::Further);
        // Without a backslash a literal ends at the same place whatever the session's settings; in no client encoding is a
        // quote part of a character. With one, every semicolon may be between statements.
        if memchr(b'\\', text).is_none() {
            return statements(text, Backslashes::Plain)
                .skip(1)
                .fold(Suspicion::empty(), each);
        }
        memchr_iter(b';', text)
            .filter_map(|at| text.get(at + 1..))
            .fold(Suspicion::empty(), each)
    }

    /// What the beginning of a statement says. `statement` may have more behind it.
    fn statement(&self, statement: &[u8], place: Place) -> Suspicion {
        let start = opening_at(statement);
        let statement = statement.get(start..).unwrap_or_default();
        let len = statement
            .iter()
            .position(|&byte| !is_word_byte(byte))
            .unwrap_or(statement.len());
        let opening = Opening::of(statement.get(..len).unwrap_or_default());
        self.event_triggers(opening, statement)
            | match opening {
                Opening::Query | Opening::Definition => Suspicion::empty(),
                Opening::Plain(suspicion) => suspicion,
                Opening::Set => opening::set(statement),
                Opening::Reset => opening::reset(statement),
                Opening::Prepare => opening::prepare(statement),
                Opening::Explain => opening::explain(statement),
                Opening::Code => Suspicion::OPAQUE | code::suspicion(statement),
                Opening::Create => opening::create(statement) | code::suspicion(statement),
                Opening::Change => opening::change(statement),
                Opening::Unknown => place.unknown(statement),
            }
    }

    fn event_triggers(&self, opening: Opening, statement: &[u8]) -> Suspicion {
        let fires = match opening {
            _ if self.on_definition.is_empty() => false,
            Opening::Query => opening::selects_into(statement),
            Opening::Plain(suspicion) => suspicion == Suspicion::PREPARED,
            Opening::Set | Opening::Reset => false,
            _ => true,
        };
        if fires {
            self.on_definition
        } else {
            Suspicion::empty()
        }
    }
}

/// Where a statement's first word stands: behind white space, comments, parentheses and empty statements.
fn opening_at(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(blank) = blank_len(rest) else {
            return text.len();
        };
        at += blank;
        match text.get(at) {
            Some(b'(' | b';') => at += 1,
            _ => return at,
        }
    }
}

/// Where in a text a statement stands, or seems to stand.
#[derive(Clone, Copy)]
enum Place {
    First,
    Further,
}

impl Place {
    /// A statement of a kind that is not known. Behind a semicolon in a literal there are many words that begin none.
    fn unknown(self, statement: &[u8]) -> Suspicion {
        match self {
            Self::First if !statement.is_empty() => Suspicion::OPAQUE,
            _ => Suspicion::empty(),
        }
    }
}

#[cfg(test)]
mod tests;
