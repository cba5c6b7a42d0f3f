//! The exact question: what does this statement do, as far as its text says it plainly?
//!
//! Only statements that PostgreSQL accepts have to be read rightly: one that it refuses has no effect, and says so.

mod alone;
mod phrase;
mod set;

use crate::lexer::{Kind, Lexer, Strings};
use crate::{All, Effect, Name};
pub use alone::alone_in;
use phrase::Phrase;

/// The effect of one statement (see [`crate::statements`]); a `;` behind it does no harm. None if the text does not say it plainly: queries,
/// code, definitions, an escape or an encoding that hides a name.
///
/// What expressions in it may do besides is not looked at: see [`crate::Scanner::effect`].
pub fn understand(statement: &[u8], strings: Strings) -> Option<Effect> {
    let Some(first) = Lexer::new(statement, strings.backslashes).next() else {
        return Some(Effect::Nothing);
    };
    let read = reader(first.text)?;
    let mut phrase = Phrase::new(statement, strings)?;
    phrase.next();
    read(&mut phrase)
}

/// The name in EXECUTE, EXPLAIN EXECUTE and CREATE TABLE AS EXECUTE.
pub fn executed_name(statement: &[u8], strings: Strings) -> Option<Name> {
    let mut phrase = Phrase::new(statement, strings)?;
    let first = *phrase.peek()?;
    if !["execute", "explain", "create"]
        .iter()
        .any(|word| first.is_word(word))
    {
        return None;
    }
    while !phrase.eat("execute") {
        phrase.next()?;
    }
    phrase.name()
}

type Reader = fn(&mut Phrase<'_>) -> Option<Effect>;

/// Who reads what stands behind a first word.
fn reader(word: &[u8]) -> Option<Reader> {
    Some(match word.to_ascii_lowercase().as_slice() {
        b"set" => set::set,
        b"reset" => set::reset,
        b"prepare" => prepare,
        b"execute" => execute,
        b"explain" => explain,
        b"deallocate" => deallocate,
        b"listen" => |phrase| named(phrase, Effect::Listen),
        b"unlisten" => unlisten,
        b"notify" => notify,
        b"discard" => discard,
        b"begin" | b"start" => begin,
        b"commit" => |phrase| finish(phrase, |chain| Effect::Commit { chain }),
        b"end" => |phrase| unprepared(phrase, |chain| Effect::Commit { chain }),
        b"rollback" => rollback,
        b"abort" => |phrase| unprepared(phrase, |chain| Effect::Rollback { chain }),
        b"savepoint" => |phrase| named(phrase, Effect::Savepoint),
        b"release" => release,
        b"load" => load,
        b"declare" => declare,
        b"close" => close,
        b"show" => show,
        _ => return None,
    })
}

fn named(phrase: &mut Phrase<'_>, effect: impl Fn(Name) -> Effect) -> Option<Effect> {
    let name = phrase.name()?;
    phrase.end(effect(name))
}

fn prepare(phrase: &mut Phrase<'_>) -> Option<Effect> {
    let is_literal = |kind| matches!(kind, Kind::Literal(_));
    if phrase
        .peek_second()
        .is_some_and(|token| is_literal(token.kind))
    {
        let of_transaction = phrase.eat("transaction");
        phrase.next();
        return phrase
            .end(Effect::PrepareTransaction)
            .filter(|_| of_transaction);
    }
    let name = phrase.name()?;
    let types = if phrase.peek()?.is_punctuation(b'(') {
        Some(phrase.parenthesised()?.to_vec())
    } else {
        None
    };
    if !phrase.eat("as") || phrase.is_at_end() {
        return None;
    }
    let text = phrase.rest().to_vec();
    Some(Effect::Prepare { name, types, text })
}

fn execute(phrase: &mut Phrase<'_>) -> Option<Effect> {
    let name = phrase.name()?;
    let arguments = phrase.remaining().to_vec();
    if !phrase.is_at_end() {
        phrase.parenthesised()?;
    }
    phrase.end(Effect::Execute { name, arguments })
}

/// EXPLAIN EXECUTE. Of other statements EXPLAIN says nothing about the session.
fn explain(phrase: &mut Phrase<'_>) -> Option<Effect> {
    if phrase.peek()?.is_punctuation(b'(') {
        phrase.parenthesised()?;
    }
    phrase.eat_any(&["analyze", "analyse"]);
    phrase.eat("verbose");
    if phrase.eat("execute") {
        return execute(phrase);
    }
    None
}

fn deallocate(phrase: &mut Phrase<'_>) -> Option<Effect> {
    if phrase.peek_second().is_some() {
        phrase.eat("prepare");
    }
    one_or_all(phrase, Effect::Deallocate)
}

fn one_or_all(phrase: &mut Phrase<'_>, effect: impl Fn(All<Name>) -> Effect) -> Option<Effect> {
    if phrase.eat("all") {
        return phrase.end(effect(All::All));
    }
    let name = phrase.name()?;
    phrase.end(effect(All::One(name)))
}

fn unlisten(phrase: &mut Phrase<'_>) -> Option<Effect> {
    if phrase.eat_operator("*") {
        return phrase.end(Effect::Unlisten(All::All));
    }
    named(phrase, |name| Effect::Unlisten(All::One(name)))
}

fn notify(phrase: &mut Phrase<'_>) -> Option<Effect> {
    let channel = phrase.name()?;
    if phrase.eat_punctuation(b',') {
        phrase
            .next()
            .filter(|token| matches!(token.kind, Kind::Literal(_)))?;
    }
    phrase.end(Effect::Notify(channel))
}

fn discard(phrase: &mut Phrase<'_>) -> Option<Effect> {
    let what = phrase.next()?;
    let effect = match what.text.to_ascii_lowercase().as_slice() {
        b"all" => Effect::DiscardAll,
        b"plans" => Effect::DiscardPlans,
        b"sequences" => Effect::DiscardSequences,
        b"temp" | b"temporary" => Effect::DiscardTemporary,
        _ => return None,
    };
    phrase.end(effect)
}

/// The transaction's modes end with it, and what is no mode is refused.
fn begin(phrase: &mut Phrase<'_>) -> Option<Effect> {
    phrase.rest();
    Some(Effect::Begin)
}

fn finish(phrase: &mut Phrase<'_>, effect: impl Fn(bool) -> Effect) -> Option<Effect> {
    if phrase.eat("prepared") {
        phrase.next();
        return phrase.end(Effect::FinishPrepared);
    }
    unprepared(phrase, effect)
}

/// [WORK | TRANSACTION] [AND [NO] CHAIN]
fn unprepared(phrase: &mut Phrase<'_>, effect: impl Fn(bool) -> Effect) -> Option<Effect> {
    phrase.eat_any(&["work", "transaction"]);
    let chain = phrase.eat_all(&["and", "chain"]);
    if !chain {
        phrase.eat_all(&["and", "no", "chain"]);
    }
    phrase.end(effect(chain))
}

fn rollback(phrase: &mut Phrase<'_>) -> Option<Effect> {
    if phrase.eat("prepared") {
        phrase.next();
        return phrase.end(Effect::FinishPrepared);
    }
    phrase.eat_any(&["work", "transaction"]);
    if phrase.eat("to") {
        eat_savepoint(phrase);
        return named(phrase, Effect::RollbackTo);
    }
    unprepared(phrase, |chain| Effect::Rollback { chain })
}

fn release(phrase: &mut Phrase<'_>) -> Option<Effect> {
    eat_savepoint(phrase);
    named(phrase, Effect::Release)
}

/// SAVEPOINT is optional, and may be a savepoint's name.
fn eat_savepoint(phrase: &mut Phrase<'_>) {
    if phrase.peek_second().is_some() {
        phrase.eat("savepoint");
    }
}

fn load(phrase: &mut Phrase<'_>) -> Option<Effect> {
    let file = phrase.literal()?;
    phrase.end(Effect::Load(file))
}

fn declare(phrase: &mut Phrase<'_>) -> Option<Effect> {
    const OPTIONS: [&str; 5] = ["binary", "insensitive", "asensitive", "no", "scroll"];
    let name = phrase.name()?;
    while phrase.eat_any(&OPTIONS) {}
    if !phrase.eat("cursor") {
        return None;
    }
    let hold = phrase.eat_all(&["with", "hold"]);
    if !hold {
        phrase.eat_all(&["without", "hold"]);
    }
    phrase
        .eat("for")
        .then_some(Effect::DeclareCursor { name, hold })
}

fn close(phrase: &mut Phrase<'_>) -> Option<Effect> {
    one_or_all(phrase, Effect::CloseCursor)
}

fn show(phrase: &mut Phrase<'_>) -> Option<Effect> {
    const PHRASES: [(&[&str], &str); 3] = [
        (&["time", "zone"], "timezone"),
        (
            &["transaction", "isolation", "level"],
            "transaction_isolation",
        ),
        (&["session", "authorization"], "session_authorization"),
    ];
    if let Some((_, name)) = PHRASES.iter().find(|(words, _)| phrase.eat_all(words)) {
        return phrase.end(Effect::Show(All::One(Name::from(*name))));
    }
    if phrase.eat("all") {
        return phrase.end(Effect::Show(All::All));
    }
    let name = phrase.dotted_name()?;
    phrase.end(Effect::Show(All::One(name)))
}

#[cfg(test)]
mod tests;
