//! How a statement begins: the words by which its kind is told.

use super::words::has_word;
use crate::Suspicion;
use crate::lexer::{Backslashes, Kind, Lexer, Token, blank_len, is_word_byte};

/// What the first word of a statement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// SELECT, INSERT, COPY ...: only what it names matters.
    Query,
    /// SET
    Set,
    /// RESET
    Reset,
    /// PREPARE a statement, or a transaction
    Prepare,
    /// DO
    Code,
    /// EXPLAIN
    Explain,
    /// CREATE
    Create,
    /// ALTER, DROP ...: changes the catalogue
    Change,
    /// GRANT, COMMENT ...: fires event triggers
    Definition,
    /// The word says all.
    Plain(Suspicion),
    /// No statement that is known here begins like this.
    Unknown,
}

/// The longest first word, "deallocate", in bytes.
const WORD_BYTES_MAX: usize = 10;

impl Opening {
    pub(super) fn of(word: &[u8]) -> Self {
        let mut lower = [0; WORD_BYTES_MAX];
        let Some(lower) = lower.get_mut(..word.len()) else {
            return Self::Unknown;
        };
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        match &*lower {
            b"select" | b"insert" | b"update" | b"delete" | b"with" | b"values" | b"table"
            | b"merge" | b"copy" | b"fetch" | b"move" | b"declare" | b"show" | b"lock" => {
                Self::Query
            }
            b"set" => Self::Set,
            b"reset" => Self::Reset,
            b"prepare" => Self::Prepare,
            b"execute" | b"deallocate" => Self::Plain(Suspicion::PREPARED),
            b"begin" | b"start" | b"commit" | b"end" | b"rollback" | b"abort" | b"savepoint"
            | b"release" => Self::Plain(Suspicion::TRANSACTION),
            b"listen" | b"unlisten" => Self::Plain(Suspicion::LISTEN),
            b"notify" => Self::Plain(Suspicion::NOTIFY),
            b"close" => Self::Plain(Suspicion::HOLD_CURSOR),
            b"load" => Self::Plain(Suspicion::LIBRARY),
            b"discard" => Self::Plain(Suspicion::DISCARD),
            b"call" => Self::Plain(Suspicion::OPAQUE),
            b"do" => Self::Code,
            b"explain" => Self::Explain,
            b"create" => Self::Create,
            b"alter" | b"drop" | b"import" => Self::Change,
            b"grant" | b"revoke" | b"comment" | b"security" | b"refresh" | b"reindex"
            | b"cluster" | b"vacuum" | b"analyze" | b"analyse" | b"truncate" | b"checkpoint"
            | b"reassign" => Self::Definition,
            _ => Self::Unknown,
        }
    }
}

/// A statement from its first word on.
pub(super) struct FirstWord<'a> {
    pub(super) opening: Opening,
    pub(super) statement: &'a [u8],
    /// The word's length in bytes.
    len: usize,
}

impl<'a> FirstWord<'a> {
    #[inline(always)]
    pub(super) fn of(text: &'a [u8]) -> Self {
        match common(text) {
            Some(word) => Self {
                opening: word.opening,
                statement: text,
                len: word.len,
            },
            None => Self::uncommon(text),
        }
    }

    #[inline(never)]
    fn uncommon(text: &'a [u8]) -> Self {
        let statement = text.get(opening_at(text)..).unwrap_or_default();
        let len = statement
            .iter()
            .position(|&byte| !is_word_byte(byte))
            .unwrap_or(statement.len());
        Self {
            opening: Opening::of(statement.get(..len).unwrap_or_default()),
            statement,
            len,
        }
    }

    /// Is there nothing else, so that no name can be in the text?
    #[inline]
    pub(super) fn is_all(&self) -> bool {
        self.opening != Opening::Unknown && self.len == self.statement.len()
    }
}

/// The words that most statements begin with, in about the order in which they are met.
static COMMON: [Common; 12] = [
    Common::new("begin", Opening::Plain(Suspicion::TRANSACTION)),
    Common::new("select", Opening::Query),
    Common::new("commit", Opening::Plain(Suspicion::TRANSACTION)),
    Common::new("end", Opening::Plain(Suspicion::TRANSACTION)),
    Common::new("update", Opening::Query),
    Common::new("insert", Opening::Query),
    Common::new("delete", Opening::Query),
    Common::new("with", Opening::Query),
    Common::new("rollback", Opening::Plain(Suspicion::TRANSACTION)),
    Common::new("copy", Opening::Query),
    Common::new("fetch", Opening::Query),
    Common::new("values", Opening::Query),
];

/// A word of up to eight letters as a number.
struct Common {
    letters: u64,
    mask: u64,
    len: usize,
    opening: Opening,
}

/// The bit that tells upper from lower case, in eight letters.
const CASE_BITS: u64 = 0x2020_2020_2020_2020;

impl Common {
    const fn new(word: &str, opening: Opening) -> Self {
        let (mut letters, mut mask, mut at) = (0, 0, 0);
        let word = word.as_bytes();
        while at < word.len() {
            letters |= (word[at] as u64) << (8 * at);
            mask |= 0xff << (8 * at);
            at += 1;
        }
        Self {
            letters,
            mask,
            len: word.len(),
            opening,
        }
    }
}

/// One of the [`COMMON`] words, if the text begins with it.
#[inline]
fn common(text: &[u8]) -> Option<&'static Common> {
    let first = first_bytes(text) | CASE_BITS;
    let word = COMMON.iter().find(|it| first & it.mask == it.letters)?;
    let goes_on = text.get(word.len).is_some_and(|&byte| is_word_byte(byte));
    (!goes_on).then_some(word)
}

/// The first eight bytes as a number, the first lowest.
#[inline]
fn first_bytes(text: &[u8]) -> u64 {
    if let Some(eight) = text.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    // Four from each end, which overlap.
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (text.len() - 4));
        return u64::from(u32::from_le_bytes(*first)) | last;
    }
    let bytes = text.iter().rev();
    bytes.fold(0, |first, &byte| first << 8 | u64::from(byte))
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

/// What SET sets. `statement` begins with it.
pub(super) fn set(statement: &[u8]) -> Suspicion {
    let mut tokens = first_tokens(statement);
    let mut name = tokens.next();
    let after = tokens.next();
    let names_scope = |token: &Token<'_>| token.is_word("session") || token.is_word("local");
    let joins = |token: &Token<'_>| {
        token.is_punctuation(b'.') || token.is_operator("=") || token.is_word("to")
    };
    if name.is_some_and(|token| names_scope(&token)) && !after.is_some_and(|token| joins(&token)) {
        // SET SESSION SESSION AUTHORIZATION is one word longer than it need be.
        name = match after {
            Some(token) if token.is_word("session") => tokens.next(),
            token => token,
        };
    }
    Suspicion::SETTINGS | name.map_or(Suspicion::all(), |token| named(&token))
}

/// What RESET resets.
pub(super) fn reset(statement: &[u8]) -> Suspicion {
    let named = first_tokens(statement).take(2).map(|token| named(&token));
    named.fold(Suspicion::SETTINGS, Suspicion::union)
}

fn first_tokens(statement: &[u8]) -> impl Iterator<Item = Token<'_>> {
    Lexer::new(statement, Backslashes::Plain).skip(1)
}

/// Parameters that are more than a parameter.
fn named(token: &Token<'_>) -> Suspicion {
    let name = match token.kind {
        Kind::QuotedWord => token.body(),
        Kind::UnicodeWord => return Suspicion::ROLE | Suspicion::SEED,
        _ => token.text,
    };
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    if is("role") || is("authorization") || is("session_authorization") {
        Suspicion::ROLE
    } else if is("seed") {
        Suspicion::SEED
    } else {
        Suspicion::empty()
    }
}

pub(super) fn prepare(statement: &[u8]) -> Suspicion {
    let mut tokens = first_tokens(statement);
    let of_transaction = tokens.next().is_some_and(|it| it.is_word("transaction"))
        && tokens
            .next()
            .is_some_and(|it| matches!(it.kind, Kind::Literal(_) | Kind::Unterminated));
    if of_transaction {
        Suspicion::TRANSACTION
    } else {
        Suspicion::PREPARED
    }
}

/// SELECT INTO makes a table; INSERT INTO and MERGE INTO do not. Only asked where event triggers matter.
pub(super) fn selects_into(statement: &[u8]) -> bool {
    let is = |word: &[u8], it: &str| word.eq_ignore_ascii_case(it.as_bytes());
    let mut previous: &[u8] = b"";
    for word in statement.split(|&byte| !is_word_byte(byte)) {
        if is(word, "into") && !is(previous, "insert") && !is(previous, "merge") {
            return true;
        }
        if !word.is_empty() {
            previous = word;
        }
    }
    false
}

/// EXPLAIN EXECUTE, and EXPLAIN of a statement that makes a table.
pub(super) fn explain(statement: &[u8]) -> Suspicion {
    let mut found = Suspicion::empty();
    if has_word(statement, "execute") {
        found |= Suspicion::PREPARED;
    }
    if has_word(statement, "create") {
        found |= Suspicion::CATALOG_CHANGE;
    }
    found
}

/// CREATE, apart from the code in it. A temporary relation ends with the session that can name it: nothing is to be learnt from it.
pub(super) fn create(statement: &[u8]) -> Suspicion {
    let words = first_tokens(statement)
        .take(4)
        .filter(|token| token.kind == Kind::Word);
    let mut temporary = false;
    let mut replaceable = false;
    for word in words {
        if word.is_word("extension") {
            return Suspicion::CATALOG_CHANGE | Suspicion::OPAQUE;
        }
        temporary |= word.is_word("temp") || word.is_word("temporary");
        replaceable |= word.is_word("function") || word.is_word("procedure");
    }
    if temporary && !replaceable {
        Suspicion::TEMPORARY
    } else {
        Suspicion::CATALOG_CHANGE
    }
}

/// ALTER, DROP and the like.
pub(super) fn change(statement: &[u8]) -> Suspicion {
    let of_extension = first_tokens(statement)
        .next()
        .is_some_and(|token| token.is_word("extension"));
    if of_extension {
        Suspicion::CATALOG_CHANGE | Suspicion::OPAQUE
    } else {
        Suspicion::CATALOG_CHANGE
    }
}
