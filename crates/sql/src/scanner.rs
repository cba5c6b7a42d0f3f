//! The fast question: what may this text do? Asked of every simple query and once of every distinct text of Parse.
//!
//! One pass over the bytes looks for words that give a text away wherever they stand; the first word of each statement tells the
//! rest. Nothing is lexed unless there is more than one statement and one of them may matter, or code in one. The answer is a superset of
//! the truth with every client encoding and with `standard_conforming_strings` on or off.

mod automaton;
mod code;
mod opening;
mod roots;
mod words;

use crate::lexer::Backslashes;
use crate::statements::statements;
use crate::{Effect, LearntNames, Strings, Suspicion, understand};
use aho_corasick::BuildError;
use memchr::{memchr, memchr_iter};
use opening::{FirstWord, Opening};
use roots::Marks;
use words::{Words, hidden_word};

/// Semicolons that are looked behind before a text is lexed: what is a comment to each of them is read again and again.
const LOOKS_MAX: usize = 16;

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

    /// What `text`, one statement or several, may do. Some 200 instructions and about two per byte; a plain query costs no
    /// allocation.
    pub fn suspicion(&self, text: &[u8]) -> Suspicion {
        let text = text.strip_suffix(b";").unwrap_or(text);
        let first = FirstWord::of(text);
        let begun = self.statement(&first, Place::First) | self.everywhere;
        if first.is_all() {
            return begun;
        }
        match self.words.suspicion(text) {
            (found, Marks::None) => begun | found,
            (found, Marks::Some) => begun | found | self.marked(text),
        }
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
        self.words.suspicion(text).0 | hidden_word(text)
    }

    /// What may be where `;` and `&` stand.
    #[inline(never)]
    fn marked(&self, text: &[u8]) -> Suspicion {
        hidden_word(text) | self.further(text)
    }

    /// The statements behind the first.
    fn further(&self, text: &[u8]) -> Suspicion {
        // Every semicolon may be between statements.
        let begins = || memchr_iter(b';', text).filter_map(|at| text.get(at + 1..));
        let matters = |rest| !self.says_nothing(FirstWord::of(rest).opening);
        if begins().take(LOOKS_MAX).any(matters) || begins().nth(LOOKS_MAX).is_some() {
            return self.further_suspicion(text);
        }
        Suspicion::empty()
    }

    fn further_suspicion(&self, text: &[u8]) -> Suspicion {
        let each =
            |found, statement| found | self.statement(&FirstWord::of(statement), Place::Further);
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

    /// Is a further statement harmless that begins so?
    fn says_nothing(&self, opening: Opening) -> bool {
        let is_harmless = matches!(
            opening,
            Opening::Query | Opening::Definition | Opening::Unknown
        );
        is_harmless && self.on_definition.is_empty()
    }

    /// What the beginning of a statement says. It may have more behind it.
    #[inline(always)]
    fn statement(&self, first: &FirstWord<'_>, place: Place) -> Suspicion {
        match first.opening {
            Opening::Query if self.on_definition.is_empty() => Suspicion::empty(),
            Opening::Plain(suspicion) if self.on_definition.is_empty() => suspicion,
            opening => self.uncommon(opening, first.statement, place),
        }
    }

    #[inline(never)]
    fn uncommon(&self, opening: Opening, statement: &[u8], place: Place) -> Suspicion {
        self.event_triggers(opening, statement) | place.begun(opening, statement)
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

/// Where in a text a statement stands, or seems to stand.
#[derive(Clone, Copy)]
enum Place {
    First,
    Further,
}

impl Place {
    fn begun(self, opening: Opening, statement: &[u8]) -> Suspicion {
        match opening {
            Opening::Query | Opening::Definition => Suspicion::empty(),
            Opening::Plain(suspicion) => suspicion,
            Opening::Set => opening::set(statement),
            Opening::Reset => opening::reset(statement),
            Opening::Prepare => opening::prepare(statement),
            Opening::Explain => opening::explain(statement),
            Opening::Code => Suspicion::OPAQUE | code::suspicion(statement),
            Opening::Create => opening::create(statement) | code::suspicion(statement),
            Opening::Change => opening::change(statement),
            Opening::Unknown => self.unknown(statement),
        }
    }

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
