//! Calls of `set_config` that put the parameter's name together. PostgreSQL lists custom parameters nowhere: one whose name stands in no text
//! cannot be asked for.

use crate::Strings;
use crate::lexer::{Kind, Lexer, Token};

/// What a word stands for where the name of a parameter is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// A column: anything.
    Columns,
    /// A variable of a function, which gets the name from some other text.
    Variables,
}

/// Texts within texts that are looked into.
const DEPTH_MAX: usize = 4;

/// Does a statement set a parameter for longer than its transaction whose name it does not show?
pub fn sets_unnamed(text: &[u8], strings: Strings) -> bool {
    look(text, strings, Words::Columns, 0)
}

/// The same of a function's body, which may get the name as a value.
pub(crate) fn body_sets_unnamed(body: &[u8]) -> bool {
    look(body, Strings::default(), Words::Variables, 0)
}

fn look(text: &[u8], strings: Strings, words: Words, depth: usize) -> bool {
    if memchr::memmem::find(&text.to_ascii_lowercase(), b"set_config").is_none() {
        return false;
    }
    let mut tokens = Lexer::new(text, strings.backslashes);
    while let Some(token) = tokens.next() {
        let found = match token.kind {
            Kind::Word | Kind::QuotedWord if is_set_config(&token) => {
                is_unnamed(tokens.clone(), words)
            }
            Kind::Literal(_) if depth < DEPTH_MAX => {
                let decoded = token.literal(strings);
                let inner = decoded.as_deref().unwrap_or(token.body());
                look(inner, strings, Words::Variables, depth + 1)
            }
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

fn is_set_config(token: &Token<'_>) -> bool {
    token.is_word("set_config") || token.text == b"\"set_config\""
}

/// Of what follows the function's name.
fn is_unnamed(mut tokens: Lexer<'_>, words: Words) -> bool {
    let begins = tokens.next().is_some_and(|it| it.is_punctuation(b'('));
    begins && !is_name(tokens.clone(), words) && !is_listed(tokens.clone()) && !is_local(tokens)
}

/// Whether the first argument is the column of `pg_settings`, which has no custom parameters: pg_dump sets one so if there is one.
fn is_listed(mut tokens: Lexer<'_>) -> bool {
    let is_column = tokens.next().is_some_and(|it| it.is_word("name"))
        && tokens.next().is_some_and(|it| it.is_punctuation(b','));
    is_column && is_from_settings(tokens)
}

/// Whether the query, from within the call's parentheses on, reads `pg_settings` and nothing else.
fn is_from_settings(mut tokens: Lexer<'_>) -> bool {
    let mut depth = 1usize;
    let from = tokens.by_ref().find(|token| match token.kind {
        Kind::Punctuation(b'(') => {
            depth += 1;
            false
        }
        Kind::Punctuation(b')') => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0 && token.is_word("from"),
    });
    let mut source = tokens.next();
    if source.is_some_and(|it| it.is_word("pg_catalog")) {
        source = tokens.nth(1); // behind the dot
    }
    from.is_some()
        && source.is_some_and(|it| it.is_word("pg_settings"))
        && tokens
            .next()
            .is_none_or(|it| it.is_word("where") || it.is_punctuation(b';'))
}

/// Whether the first argument is a literal, or a value that another text or message has.
fn is_name(mut tokens: Lexer<'_>, words: Words) -> bool {
    let Some(first) = tokens.next() else {
        return true; // a syntax error
    };
    let stands_alone = match first.kind {
        Kind::Literal(_) | Kind::Parameter => true,
        Kind::Word | Kind::QuotedWord => words == Words::Variables,
        _ => false,
    };
    let mut after = tokens.next();
    if after.is_some_and(|it| it.is_punctuation(b':')) {
        after = tokens.nth(2); // behind "::" and the type
    }
    stands_alone && after.is_some_and(|it| it.is_punctuation(b','))
}

/// Whether the third argument says that the value ends with the transaction.
fn is_local(tokens: Lexer<'_>) -> bool {
    let (mut depth, mut commas) = (0usize, 0);
    let mut third = Vec::new();
    for token in tokens {
        match token.kind {
            Kind::Punctuation(b'(' | b'[') => depth += 1,
            Kind::Punctuation(b')' | b']') if depth == 0 => break,
            Kind::Punctuation(b')' | b']') => depth -= 1,
            Kind::Punctuation(b',') if depth == 0 => commas += 1,
            _ if commas == 2 => third.push(token),
            _ => {}
        }
    }
    matches!(&third[..], [only] if only.is_word("true") || only.text == b"'t'" || only.text == b"'true'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_text_shows() {
        for text in [
            "select set_config('app.' || 'x', '1', false)",
            "select SET_CONFIG(concat('app.', $1), $2, $3)",
            "select pg_catalog.\"set_config\"(name, value, false) from settings",
            "select set_config(chr(97) || '.x', f(1, true), is_local)",
            "do $$ begin perform set_config('app.' || key, 'x', false); end $$",
            "select set_config(name, '', false), (select 1 from pg_settings) from mine",
            "select set_config(name, '', false) from pg_settings, mine m(name)",
            "select set_config(name || 'x', '', false) from pg_settings",
            "select set_config(name, '', false)",
            "select set_config('app.x', '1', false), set_config(('app.y'), '1', false)",
        ] {
            assert!(sets_unnamed(text.as_bytes(), Strings::default()), "{text}");
        }
    }

    #[test]
    fn names_that_some_text_shows_and_values_that_end_with_the_transaction() {
        for text in [
            "select 1",
            "select set_config('app.x', 'a' || 'b', false)",
            "select set_config('app.x'::text, $1, false)",
            "select set_config($1, $2, false), set_config( /* the name */ E'app.x' , '1', false)",
            "select set_config('app.' || 'x', f(1, false), true)",
            "select set_config(name, value, 't') from settings",
            "select set_config(name, 'view, foreign-table', false) from pg_settings where name = 'x'",
            "select set_config(name, lower(''), false), (1) from pg_catalog.pg_settings;",
            "do $$ begin perform set_config(name, 'x', false); end $$",
            "select set_config(",
            "select set_config_of('app.' || 'x', 1, false), 'set_config'",
        ] {
            assert!(!sets_unnamed(text.as_bytes(), Strings::default()), "{text}");
        }
        assert!(!body_sets_unnamed(b"select set_config(name, value, false)"));
        assert!(body_sets_unnamed(
            b"select set_config(name || 'x', value, false)"
        ));
    }
}
