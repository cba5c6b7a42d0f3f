//! SET and RESET (manual: "SET", "SET TRANSACTION", "SET ROLE", "SET SESSION AUTHORIZATION", "RESET").

use super::phrase::Phrase;
use crate::lexer::Kind;
use crate::{Effect, Item, Mode, Name, Scope, SetValue};

/// Behind SET.
pub(super) fn set(phrase: &mut Phrase<'_>) -> Option<Effect> {
    let scope = scope(phrase);
    if names_parameter(phrase) {
        return parameter(phrase, scope);
    }
    if phrase.eat_any(&["transaction", "constraints"]) {
        phrase.rest();
        return Some(Effect::SetTransaction);
    }
    if phrase.eat_all(&["session", "characteristics", "as", "transaction"]) {
        let modes = modes(phrase)?;
        return phrase.end(Effect::SetCharacteristics { modes, scope });
    }
    if phrase.eat_all(&["session", "authorization"]) {
        let value = values(phrase)?;
        return phrase.end(Effect::SetSessionAuthorization { value, scope });
    }
    if phrase.eat("role") {
        let value = values(phrase)?;
        return phrase.end(Effect::SetRole { value, scope });
    }
    let (name, value) = abbreviation(phrase)?;
    phrase.end(Effect::Set {
        name: Name::from(name),
        value,
        scope,
    })
}

/// SET SESSION and SET LOCAL, unless these words are a parameter's name or part of another phrase.
fn scope(phrase: &mut Phrase<'_>) -> Scope {
    let continues = phrase
        .peek_second()
        .is_some_and(|token| token.is_word("characteristics") || token.is_word("authorization"));
    if names_parameter(phrase) || continues {
        return Scope::Session;
    }
    if phrase.eat("local") {
        return Scope::Local;
    }
    phrase.eat("session");
    Scope::Session
}

/// Is the next token a parameter's name, whatever it looks like?
fn names_parameter(phrase: &Phrase<'_>) -> bool {
    phrase.peek_second().is_some_and(|token| {
        token.is_punctuation(b'.') || token.is_operator("=") || token.is_word("to")
    })
}

fn parameter(phrase: &mut Phrase<'_>, scope: Scope) -> Option<Effect> {
    let name = phrase.dotted_name()?;
    if !phrase.eat_operator("=") && !phrase.eat("to") {
        return None;
    }
    let value = values(phrase)?;
    let named = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    phrase.end(if named("role") {
        Effect::SetRole { value, scope }
    } else if named("session_authorization") {
        Effect::SetSessionAuthorization { value, scope }
    } else if named("seed") {
        Effect::SetSeed
    } else {
        Effect::Set { name, value, scope }
    })
}

/// DEFAULT, or items between commas up to the end.
fn values(phrase: &mut Phrase<'_>) -> Option<SetValue> {
    if phrase.eat("default") {
        return Some(SetValue::Default);
    }
    let raw = phrase.remaining().to_vec();
    let mut items = vec![item(phrase)?];
    while phrase.eat_punctuation(b',') {
        items.push(item(phrase)?);
    }
    Some(SetValue::Items { raw, items })
}

fn item(phrase: &mut Phrase<'_>) -> Option<Item> {
    let mut number = Vec::new();
    if phrase.eat_operator("-") {
        number.push(b'-');
    } else if phrase.eat_operator("+") {
        // The server leaves a plus out.
    } else {
        return match phrase.peek()?.kind {
            Kind::Literal(_) => phrase.literal().map(Item::Text),
            Kind::Number => Some(Item::Number(phrase.next()?.text.to_vec())),
            _ => phrase.name().map(|name| Item::Text(name.into_bytes())),
        };
    }
    let digits = phrase.next().filter(|token| token.kind == Kind::Number)?;
    number.extend_from_slice(digits.text);
    Some(Item::Number(number))
}

/// The forms of SET that have words instead of a parameter's name.
fn abbreviation(phrase: &mut Phrase<'_>) -> Option<(&'static str, SetValue)> {
    if phrase.eat_all(&["time", "zone"]) {
        return Some(("timezone", time_zone(phrase)?));
    }
    if phrase.eat_all(&["xml", "option"]) {
        return Some(("xmloption", values(phrase)?));
    }
    if phrase.eat("names") {
        let value = if phrase.is_at_end() {
            SetValue::Default
        } else {
            values(phrase)?
        };
        return Some(("client_encoding", value));
    }
    if phrase.eat("schema") {
        return Some(("search_path", values(phrase)?));
    }
    None
}

fn time_zone(phrase: &mut Phrase<'_>) -> Option<SetValue> {
    if phrase.eat_any(&["local", "default"]) {
        return Some(SetValue::Default);
    }
    if phrase.peek()?.is_word("interval") {
        let raw = phrase.rest().to_vec();
        return Some(SetValue::Interval { raw });
    }
    values(phrase)
}

fn modes(phrase: &mut Phrase<'_>) -> Option<Vec<Mode>> {
    let mut modes = vec![mode(phrase)?];
    while !phrase.is_at_end() {
        phrase.eat_punctuation(b',');
        modes.push(mode(phrase)?);
    }
    Some(modes)
}

/// Each characteristic's words, its parameter and that parameter's value.
const MODES: [(&[&str], &str, &str); 8] = [
    (
        &["isolation", "level", "read", "uncommitted"],
        ISOLATION,
        "read uncommitted",
    ),
    (
        &["isolation", "level", "read", "committed"],
        ISOLATION,
        "read committed",
    ),
    (
        &["isolation", "level", "repeatable", "read"],
        ISOLATION,
        "repeatable read",
    ),
    (
        &["isolation", "level", "serializable"],
        ISOLATION,
        "serializable",
    ),
    (&["read", "only"], "default_transaction_read_only", "on"),
    (&["read", "write"], "default_transaction_read_only", "off"),
    (&["deferrable"], "default_transaction_deferrable", "on"),
    (
        &["not", "deferrable"],
        "default_transaction_deferrable",
        "off",
    ),
];
const ISOLATION: &str = "default_transaction_isolation";

fn mode(phrase: &mut Phrase<'_>) -> Option<Mode> {
    let found = MODES.iter().find(|(words, ..)| phrase.eat_all(words));
    found.map(|&(_, parameter, value)| Mode { parameter, value })
}

/// Behind RESET.
pub(super) fn reset(phrase: &mut Phrase<'_>) -> Option<Effect> {
    if phrase.eat_all(&["time", "zone"]) {
        return phrase.end(Effect::Reset(Name::from("timezone")));
    }
    if phrase.eat_all(&["transaction", "isolation", "level"]) {
        return phrase.end(Effect::Reset(Name::from("transaction_isolation")));
    }
    if phrase.eat_all(&["session", "authorization"]) {
        return phrase.end(Effect::ResetSessionAuthorization);
    }
    if phrase.eat("all") {
        return phrase.end(Effect::ResetAll);
    }
    let name = phrase.dotted_name()?;
    let named = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    phrase.end(if named("role") {
        Effect::ResetRole
    } else if named("session_authorization") {
        Effect::ResetSessionAuthorization
    } else {
        Effect::Reset(name)
    })
}
