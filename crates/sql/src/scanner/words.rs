//! Words that give a text away wherever they stand.

use crate::{LearntNames, Name, Suspicion, lexer};
use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Match, MatchKind};

/// A word, what it may mean, and what has to be true around it.
pub(super) type Word = (&'static str, Suspicion, Context);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
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
pub(super) const WORDS: &[Word] = &[
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
    // An identifier that does not show its letters.
    ("u&\"", Suspicion::OPAQUE, Context::Prefix),
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

/// With more text in its names than this an automaton that is smaller and slower is built, in bytes.
const FAST_BYTES_MAX: usize = 64 << 10;

/// All words, looked for at once.
#[derive(Debug, Clone)]
pub(super) struct Words {
    automaton: AhoCorasick,
    meanings: Vec<(Suspicion, Context)>,
}

impl Words {
    pub(super) fn new(learnt: &LearntNames) -> Result<Self, BuildError> {
        let mut patterns: Vec<&[u8]> = Vec::new();
        let mut meanings = Vec::new();
        for &(word, suspicion, context) in WORDS {
            patterns.push(word.as_bytes());
            meanings.push((suspicion, context));
        }
        for (name, suspicion) in learnt.iter() {
            let (pattern, context) = learnt_pattern(name);
            patterns.push(pattern);
            meanings.push((suspicion, context));
        }
        let bytes: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind((bytes <= FAST_BYTES_MAX).then_some(AhoCorasickKind::DFA))
            .build(patterns)?;
        Ok(Self {
            automaton,
            meanings,
        })
    }

    /// What the words of a text may mean.
    #[inline]
    pub(super) fn suspicion(&self, text: &[u8]) -> Suspicion {
        let mut found = Suspicion::empty();
        let mut seeds = Suspicion::empty();
        for hit in self.automaton.find_overlapping_iter(text) {
            let Some(&(suspicion, context)) = self.meanings.get(hit.pattern().as_usize()) else {
                continue;
            };
            if found.contains(suspicion) || !holds(context, text, &hit) {
                continue;
            }
            match context {
                Context::Seed => seeds |= suspicion,
                _ => found |= suspicion,
            }
        }
        if found.contains(Suspicion::SETTINGS) {
            found |= seeds;
        }
        found
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

fn holds(context: Context, text: &[u8], hit: &Match) -> bool {
    let goes_on = |byte: Option<&u8>| byte.is_some_and(|&byte| lexer::is_word_byte(byte));
    let left = || !goes_on(hit.start().checked_sub(1).and_then(|at| text.get(at)));
    let right = || !goes_on(text.get(hit.end()));
    match context {
        Context::Anywhere => true,
        Context::Prefix => left(),
        Context::Whole | Context::Seed => left() && right(),
        Context::Temporary => left() && right() && behind(text, hit.start(), TEMPORARY_FOLLOWS),
        Context::Hold => left() && right() && behind(text, hit.start(), &["with"]),
        Context::Updated => left() && right() && has_word(text, "update"),
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
    let line = seen
        .iter()
        .rposition(|byte| matches!(byte, b'\n' | b'\r'))
        .map_or(0, |newline| newline + 1);
    let line = seen.get(line..).unwrap_or_default();
    let ends_line = blank.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    if seen.ends_with(b"*/") || (ends_line && memchr::memmem::find(line, b"--").is_some()) {
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

/// Does the word stand somewhere in the text? Only asked when another word has made it worth a search.
pub(super) fn has_word(text: &[u8], word: &str) -> bool {
    text.split(|&byte| !lexer::is_word_byte(byte))
        .any(|it| it.eq_ignore_ascii_case(word.as_bytes()))
}
