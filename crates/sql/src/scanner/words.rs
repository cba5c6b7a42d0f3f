//! Words that give a text away wherever they stand.

use super::automaton::Automaton;
use super::roots::{Marks, Roots, WORD_BYTES_MIN};
use crate::{LearntNames, Name, Suspicion, lexer};
use aho_corasick::BuildError;

/// A word, what it may mean, and what has to be true around it.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) text: Box<[u8]>,
    suspicion: Suspicion,
    context: Context,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    /// No identifier goes on to its left or right.
    Whole,
    /// It may go on to its right.
    Prefix,
    /// It may go on to both sides.
    Anywhere,
    /// Behind CREATE, REPLACE, LOCAL, GLOBAL, INTO or DISCARD: elsewhere it is a column's name.
    Temporary,
    /// Behind WITH.
    Hold,
    /// Only beside an UPDATE.
    Updated,
    /// Only in a text that sets something.
    Seed,
}

const SETTINGS_AND_ROLE: Suspicion = Suspicion::SETTINGS.union(Suspicion::ROLE);

/// Functions and views of PostgreSQL itself, and of extensions that come with it. Advisory locks that end with the transaction are
/// not session state. `pg_advisory_unlock_all` and the like are there since they end a reason to keep a server connection.
const WORDS: &[(&str, Suspicion, Context)] = &[
    ("set_config", SETTINGS_AND_ROLE, Context::Whole),
    ("set_config_by_name", SETTINGS_AND_ROLE, Context::Whole),
    ("pg_settings", SETTINGS_AND_ROLE, Context::Updated),
    ("set_limit", Suspicion::SETTINGS, Context::Whole),
    ("seed", Suspicion::SEED, Context::Seed),
    ("setseed", Suspicion::SEED, Context::Whole),
    (
        "pg_advisory_lock",
        Suspicion::ADVISORY_LOCK,
        Context::Prefix,
    ),
    (
        "pg_advisory_unlock",
        Suspicion::ADVISORY_LOCK,
        Context::Prefix,
    ),
    (
        "pg_try_advisory_lock",
        Suspicion::ADVISORY_LOCK,
        Context::Prefix,
    ),
    ("temp", Suspicion::TEMPORARY, Context::Temporary),
    ("temporary", Suspicion::TEMPORARY, Context::Temporary),
    ("pg_temp", Suspicion::TEMPORARY, Context::Prefix),
    ("hold", Suspicion::HOLD_CURSOR, Context::Hold),
    ("pg_notify", Suspicion::NOTIFY, Context::Whole),
    ("currval", Suspicion::SEQUENCE_READ, Context::Whole),
    ("currval_oid", Suspicion::SEQUENCE_READ, Context::Whole),
    ("lastval", Suspicion::SEQUENCE_READ, Context::Whole),
    (
        "pg_prepared_statement",
        Suspicion::SESSION_CATALOG,
        Context::Prefix,
    ),
    ("pg_cursor", Suspicion::SESSION_CATALOG, Context::Prefix),
    (
        "pg_listening_channels",
        Suspicion::SESSION_CATALOG,
        Context::Whole,
    ),
    ("pg_locks", Suspicion::SESSION_CATALOG, Context::Whole),
    ("pg_lock_status", Suspicion::SESSION_CATALOG, Context::Whole),
    (
        "pg_my_temp_schema",
        Suspicion::SESSION_CATALOG,
        Context::Whole,
    ),
    (
        "pg_is_other_temp_schema",
        Suspicion::SESSION_CATALOG,
        Context::Whole,
    ),
    // They execute text that may come from a parameter.
    ("query_to_xml", Suspicion::OPAQUE, Context::Prefix),
    ("ts_stat", Suspicion::OPAQUE, Context::Whole),
    ("ts_rewrite", Suspicion::OPAQUE, Context::Whole),
    ("crosstab", Suspicion::OPAQUE, Context::Prefix),
    ("connectby", Suspicion::OPAQUE, Context::Whole),
    ("xpath_table", Suspicion::OPAQUE, Context::Whole),
    (
        "pg_replication_origin_session_setup",
        Suspicion::UNSEEN,
        Context::Whole,
    ),
    (
        "pg_replication_origin_session_reset",
        Suspicion::UNSEEN,
        Context::Whole,
    ),
    ("dblink_connect", Suspicion::UNSEEN, Context::Prefix),
    ("dblink_disconnect", Suspicion::UNSEEN, Context::Whole),
    ("dblink_open", Suspicion::UNSEEN, Context::Whole),
    ("dblink_close", Suspicion::UNSEEN, Context::Whole),
];

/// All words, looked for at once.
#[derive(Debug, Clone)]
pub(super) struct Words {
    roots: Option<Roots>,
    /// For the words that are too many or too short for the quick way, if there are any.
    automaton: Option<Automaton>,
}

impl Words {
    pub(super) fn new(learnt: &LearntNames) -> Result<Self, BuildError> {
        let learnt: Vec<Word> = learnt.iter().map(learnt_word).collect();
        let (short, long): (Vec<_>, Vec<_>) = learnt
            .iter()
            .cloned()
            .partition(|word| word.text.len() < WORD_BYTES_MIN);
        if let Some(roots) = Roots::new([built_in(), long].concat()) {
            return Self::of(Some(roots), short);
        }
        match Roots::new(built_in()) {
            Some(roots) => Self::of(Some(roots), learnt),
            None => Self::of(None, [built_in(), learnt].concat()),
        }
    }

    /// As where the processor has no such instructions.
    #[cfg(test)]
    pub(super) fn without_roots(learnt: &LearntNames) -> Result<Self, BuildError> {
        let learnt = learnt.iter().map(learnt_word).collect();
        Self::of(None, [built_in(), learnt].concat())
    }

    fn of(roots: Option<Roots>, others: Vec<Word>) -> Result<Self, BuildError> {
        let automaton = match others.is_empty() {
            true => None,
            false => Some(Automaton::new(others)?),
        };
        Ok(Self { roots, automaton })
    }

    /// What the words of a text may mean, apart from [hidden ones](hidden_word); and is there reason to look for those?
    #[inline]
    pub(super) fn suspicion(&self, text: &[u8]) -> (Suspicion, Marks) {
        let mut found = Found::default();
        let marks = match &self.roots {
            Some(roots) => roots.for_each(text, |word, at| found.look(word, text, at)),
            None => Marks::of(text),
        };
        if let Some(automaton) = &self.automaton {
            automaton.for_each(text, |word, at| found.look(word, text, at));
        }
        (found.suspicion(text), marks)
    }
}

/// An identifier that does not show its letters: `U&"..."`.
pub(super) fn hidden_word(text: &[u8]) -> Suspicion {
    let is_hidden = |at: usize| {
        text.get(at + 1) == Some(&b'"')
            && matches!(text.get(..at), Some([before @ .., b'u' | b'U'])
                if !before.last().is_some_and(|&byte| lexer::is_word_byte(byte)))
    };
    if memchr::memchr_iter(b'&', text).any(is_hidden) {
        Suspicion::OPAQUE
    } else {
        Suspicion::empty()
    }
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    certain: Suspicion,
    /// If the text sets something.
    seeds: Suspicion,
    /// If the text updates something.
    updates: Suspicion,
}

impl Found {
    /// Is this word at `at`?
    fn look(&mut self, word: &Word, text: &[u8], at: usize) {
        let end = at + word.text.len();
        let stands = text
            .get(at..end)
            .is_some_and(|it| it.eq_ignore_ascii_case(&word.text));
        if !stands || self.certain.contains(word.suspicion) || !holds(word.context, text, at, end) {
            return;
        }
        match word.context {
            Context::Seed => self.seeds |= word.suspicion,
            Context::Updated => self.updates |= word.suspicion,
            _ => self.certain |= word.suspicion,
        }
    }

    #[inline]
    fn suspicion(mut self, text: &[u8]) -> Suspicion {
        if !self.updates.is_empty() && has_word(text, "update") {
            self.certain |= self.updates;
        }
        if self.certain.contains(Suspicion::SETTINGS) {
            self.certain |= self.seeds;
        }
        self.certain
    }
}

fn built_in() -> Vec<Word> {
    let word = |&(text, suspicion, context): &(&str, _, _)| Word {
        text: text.as_bytes().into(),
        suspicion,
        context,
    };
    WORDS.iter().map(word).collect()
}

/// What is looked for.
#[cfg(test)]
pub(super) fn texts(learnt: &LearntNames) -> Vec<String> {
    let words = built_in().into_iter().chain(learnt.iter().map(learnt_word));
    words
        .map(|word| String::from_utf8_lossy(&word.text).into_owned())
        .collect()
}

fn learnt_word((name, suspicion): (&[u8], Suspicion)) -> Word {
    let (text, context) = learnt_pattern(name);
    Word {
        text: text.into(),
        suspicion,
        context,
    }
}

/// How a name of the catalogue is found: a quote in it may be doubled or not, a long one may go on in the text, and an operator has no borders.
fn learnt_pattern(name: &[u8]) -> (&[u8], Context) {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'' | b'\\');
    let longest = name
        .split(is_quote)
        .max_by_key(|part| part.len())
        .unwrap_or(name);
    if longest.len() < name.len() {
        return (longest, Context::Anywhere);
    }
    let cut = name.len() > Name::BYTES_MAX - 4;
    let is_word = |byte: Option<&u8>| byte.is_some_and(|&byte| lexer::is_word_byte(byte));
    match (is_word(name.first()), is_word(name.last()) && !cut) {
        (true, true) => (name, Context::Whole),
        (true, false) => (name, Context::Prefix),
        _ => (name, Context::Anywhere),
    }
}

fn holds(context: Context, text: &[u8], start: usize, end: usize) -> bool {
    let goes_on = |byte: Option<&u8>| byte.is_some_and(|&byte| lexer::is_word_byte(byte));
    let left = || !goes_on(start.checked_sub(1).and_then(|at| text.get(at)));
    let right = || !goes_on(text.get(end));
    match context {
        Context::Anywhere => true,
        Context::Prefix => left(),
        Context::Whole | Context::Seed | Context::Updated => left() && right(),
        Context::Temporary => left() && right() && behind(text, start, TEMPORARY_FOLLOWS),
        Context::Hold => left() && right() && behind(text, start, &["with"]),
    }
}

const TEMPORARY_FOLLOWS: &[&str] = &["create", "replace", "local", "global", "into", "discard"];

/// Is the word before `at` one of these? Yes, if it cannot be seen for comments.
fn behind(text: &[u8], at: usize, words: &[&str]) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let end = before
        .iter()
        .rposition(|&byte| !lexer::is_space(byte))
        .map_or(0, |last| last + 1);
    let (seen, blank) = before.split_at_checked(end).unwrap_or((before, &[]));
    if seen.ends_with(b"*/") || is_after_comment(seen, blank) {
        return true;
    }
    let start = seen
        .iter()
        .rposition(|&byte| !lexer::is_word_byte(byte))
        .map_or(0, |other| other + 1);
    let word = seen.get(start..).unwrap_or_default();
    words
        .iter()
        .any(|it| word.eq_ignore_ascii_case(it.as_bytes()))
}

/// May the last line of `seen` end with a comment? Not if it goes on behind `blank`.
fn is_after_comment(seen: &[u8], blank: &[u8]) -> bool {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !blank.iter().any(is_end) {
        return false;
    }
    let line = seen.iter().rposition(is_end).map_or(0, |at| at + 1);
    let line = seen.get(line..).unwrap_or_default();
    memchr::memmem::find(line, b"--").is_some()
}

/// Does the word stand somewhere in the text? Only asked when another word has made it worth a search.
pub(super) fn has_word(text: &[u8], word: &str) -> bool {
    text.split(|&byte| !lexer::is_word_byte(byte))
        .any(|it| it.eq_ignore_ascii_case(word.as_bytes()))
}
