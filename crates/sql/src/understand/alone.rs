//! Statements that PostgreSQL executes only while nobody else is connected to a database. (Manual: DROP DATABASE, ALTER DATABASE, CREATE DATABASE)

use super::phrase::Phrase;
use crate::Name;
use crate::lexer::{Lexer, Strings};

/// Copied by CREATE DATABASE without TEMPLATE.
const USUAL_TEMPLATE: &str = "template1";

/// The database that everybody else has to leave for the statement: it is dropped, renamed, moved or copied.
pub fn alone_in(statement: &[u8], strings: Strings) -> Option<Name> {
    let second = Lexer::new(statement, strings.backslashes).nth(1)?;
    if !second.is_word("database") {
        return None;
    }
    let mut phrase = Phrase::new(statement, strings)?;
    let first = phrase.next()?;
    phrase.next();
    match first.text.to_ascii_lowercase().as_slice() {
        b"drop" => {
            phrase.eat_all(&["if", "exists"]);
            phrase.name()
        }
        b"alter" => {
            let name = phrase.name()?;
            let moves = phrase.eat("rename") || phrase.eat_all(&["set", "tablespace"]);
            moves.then_some(name)
        }
        b"create" => template(&mut phrase),
        _ => None,
    }
}

fn template(phrase: &mut Phrase<'_>) -> Option<Name> {
    phrase.name()?;
    while !phrase.eat("template") {
        if phrase.next().is_none() {
            return Some(USUAL_TEMPLATE.into());
        }
    }
    phrase.eat_operator("=");
    phrase.name()
}
