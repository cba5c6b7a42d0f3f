//! Statements within code: the bodies of functions and DO, the actions of rules, texts that such code executes.
//!
//! A statement of SQL or PL/pgSQL begins behind a `;` or one of a few words; a literal may hold a body or a text that is executed, so it is read like one.

use super::opening::{self, Opening};
use crate::Suspicion;
use crate::lexer::{Backslashes, Kind, Lexer, Token};

/// Literals within literals that are looked into. PostgreSQL has no limit; what lies deeper is opaque.
const DEPTH_MAX: usize = 6;

/// What the statements in a piece of SQL or PL/pgSQL may do, apart from the words and names in it.
pub(super) fn suspicion(code: &[u8]) -> Suspicion {
    let found = at_depth(code, Backslashes::Plain, 0);
    if memchr::memchr(b'\\', code).is_none() {
        return found;
    }
    // Which one holds is decided when the code runs.
    found | at_depth(code, Backslashes::Escape, 0)
}

fn at_depth(code: &[u8], backslashes: Backslashes, depth: usize) -> Suspicion {
    if depth > DEPTH_MAX {
        return Suspicion::OPAQUE;
    }
    let mut found = Suspicion::empty();
    let mut begins = true;
    let mut tokens = Lexer::new(code, backslashes);
    while let Some(token) = tokens.next() {
        if begins && token.kind == Kind::Word {
            found |= statement(code.get(token.start..).unwrap_or_default(), &token);
        }
        if token.is_word("execute") && !executes_nothing(tokens.clone()) {
            found |= executed(tokens.clone());
        }
        if matches!(token.kind, Kind::Literal(_) | Kind::Unterminated) {
            found |= at_depth(token.body(), backslashes, depth + 1);
        }
        begins = begins_statement(&token);
    }
    found
}

/// May a statement stand behind this token? `also`, `instead` and the parenthesis are of CREATE RULE.
fn begins_statement(token: &Token<'_>) -> bool {
    const WORDS: [&str; 8] = [
        "begin", "atomic", "then", "else", "loop", "do", "also", "instead",
    ];
    match token.kind {
        Kind::Punctuation(b';' | b'(') => true,
        Kind::Operator => token.text == b">>",
        Kind::Word => WORDS.iter().any(|word| token.is_word(word)),
        _ => false,
    }
}

/// One statement in code. `rest` begins with its first word.
fn statement(rest: &[u8], first: &Token<'_>) -> Suspicion {
    match Opening::of(first.text) {
        Opening::Set => opening::set(rest),
        Opening::Reset => opening::reset(rest),
        Opening::Prepare => opening::prepare(rest),
        Opening::Code => Suspicion::OPAQUE,
        Opening::Create => opening::create(rest),
        Opening::Change => opening::change(rest),
        Opening::Plain(Suspicion::TRANSACTION) => transaction(first),
        // CALL is found by the procedure's name, EXECUTE looked at by its own rule, and CLOSE is PL/pgSQL's own.
        Opening::Plain(Suspicion::OPAQUE | Suspicion::HOLD_CURSOR) => Suspicion::empty(),
        Opening::Plain(Suspicion::PREPARED) if first.is_word("execute") => Suspicion::empty(),
        Opening::Plain(suspicion) => suspicion,
        _ => Suspicion::empty(),
    }
}

/// BEGIN and END are blocks here.
fn transaction(first: &Token<'_>) -> Suspicion {
    if first.is_word("commit") || first.is_word("rollback") {
        Suspicion::TRANSACTION
    } else {
        Suspicion::empty()
    }
}

/// CREATE TRIGGER ... EXECUTE FUNCTION, GRANT EXECUTE ON.
fn executes_nothing(mut after: Lexer<'_>) -> bool {
    const WORDS: [&str; 3] = ["function", "procedure", "on"];
    after
        .next()
        .is_some_and(|token| WORDS.iter().any(|word| token.is_word(word)))
}

/// PL/pgSQL's EXECUTE of a plain literal is known by the literal; of anything else it is not. SQL's EXECUTE names a statement.
fn executed(mut after: Lexer<'_>) -> Suspicion {
    let Some(text) = after.next() else {
        return Suspicion::PREPARED;
    };
    let ends = |token: Token<'_>| {
        token.is_punctuation(b';')
            || ["into", "using", "loop"]
                .iter()
                .any(|word| token.is_word(word))
    };
    let is_whole = after.next().is_none_or(ends);
    match text.kind {
        Kind::Literal(_) if is_whole => Suspicion::empty(),
        _ => Suspicion::OPAQUE | Suspicion::PREPARED,
    }
}

/// The same for code in a language that is not SQL: a statement may begin anywhere.
pub(super) fn foreign_suspicion(code: &[u8]) -> Suspicion {
    let mut found = Suspicion::empty();
    for word in code.split(|&byte| !crate::lexer::is_word_byte(byte)) {
        found |= foreign_word(word);
    }
    found
}

fn foreign_word(word: &[u8]) -> Suspicion {
    // Dictionaries that outlive the call: PL/Python's, PL/Perl's, and Tcl's and JavaScript's globals.
    if matches!(word, b"GD" | b"SD" | b"_SHARED" | b"global" | b"globalThis") {
        return Suspicion::UNSEEN;
    }
    match Opening::of(word) {
        Opening::Set | Opening::Reset => Suspicion::SETTINGS | Suspicion::ROLE,
        Opening::Prepare => Suspicion::empty(),
        Opening::Plain(Suspicion::TRANSACTION | Suspicion::HOLD_CURSOR) => Suspicion::empty(),
        Opening::Plain(Suspicion::PREPARED) => Suspicion::OPAQUE,
        Opening::Plain(suspicion) => suspicion,
        Opening::Create | Opening::Change => Suspicion::CATALOG_CHANGE,
        _ => Suspicion::empty(),
    }
}
