//! How a statement begins: the words by which its kind is told.

use super::words::has_word;
use crate::Suspicion;
use crate::lexer::{Backslashes, Kind, Lexer, Token, is_word_byte};

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
