//! A text's statements. The server splits at each `;` of the grammar's top level; so does this.

use crate::lexer::{Backslashes, Lexer, Token};

/// The statements of `text`, each from its first token to its last; empty ones are left out.
pub fn statements(text: &[u8], backslashes: Backslashes) -> Statements<'_> {
    Statements {
        text,
        tokens: Lexer::new(text, backslashes),
    }
}

#[derive(Debug, Clone)]
pub struct Statements<'a> {
    text: &'a [u8],
    tokens: Lexer<'a>,
}

impl<'a> Iterator for Statements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let first = self.tokens.find(|token| !token.is_punctuation(b';'))?;
        let mut nesting = Nesting::default();
        nesting.enter(&first);
        let mut end = first.end();
        for token in self.tokens.by_ref() {
            if token.is_punctuation(b';') && nesting.is_top() {
                break;
            }
            nesting.enter(&token);
            end = token.end();
        }
        self.text.get(first.start..end)
    }
}

/// Where a `;` does not end the statement: in parentheses (the actions of CREATE RULE), and between BEGIN ATOMIC and its END.
#[derive(Default)]
struct Nesting {
    parentheses: usize,
    /// Open BEGIN ATOMIC and CASE, once the first of them is a BEGIN ATOMIC.
    bodies: usize,
    previous: Previous,
}

#[derive(Default, PartialEq)]
enum Previous {
    #[default]
    Other,
    Begin,
    /// What follows is a name, whatever it looks like.
    Label,
}

impl Nesting {
    fn is_top(&self) -> bool {
        self.parentheses == 0 && self.bodies == 0
    }

    fn enter(&mut self, token: &Token<'_>) {
        if token.is_punctuation(b'(') {
            self.parentheses += 1;
        } else if token.is_punctuation(b')') {
            self.parentheses = self.parentheses.saturating_sub(1);
        }
        let within = self.bodies > 0 && self.previous != Previous::Label;
        let opens_body = self.previous == Previous::Begin && token.is_word("atomic");
        if opens_body || (within && token.is_word("case")) {
            self.bodies += 1;
        } else if within && token.is_word("end") {
            self.bodies -= 1;
        }
        self.previous = Previous::after(token);
    }
}

impl Previous {
    fn after(token: &Token<'_>) -> Self {
        if token.is_word("begin") {
            Self::Begin
        } else if token.is_word("as") || token.is_punctuation(b'.') {
            Self::Label
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting() {
        for (text, expected) in [
            ("", &[][..]),
            (" ; ;; -- nothing\n;", &[]),
            ("select 1", &["select 1"]),
            ("select 1; -- end", &["select 1"]),
            ("a;b ; c", &["a", "b", "c"]),
            (
                "a ';' \";\" $$;$$ $t$;$$;$t$ /* ; /* ; */ ; */ x; b",
                &["a ';' \";\" $$;$$ $t$;$$;$t$ /* ; /* ; */ ; */ x", "b"],
            ),
            (
                "create rule r as on insert to t do (notify a; notify b); select 1",
                &[
                    "create rule r as on insert to t do (notify a; notify b)",
                    "select 1",
                ],
            ),
            (
                "create function f() returns int begin atomic select case when true then 1 end as end; select t.end from t; end; set x = 1",
                &[
                    "create function f() returns int begin atomic select case when true then 1 end as end; select t.end from t; end",
                    "set x = 1",
                ],
            ),
            ("begin; select 1; end", &["begin", "select 1", "end"]),
            ("select 'unended; b", &["select 'unended; b"]),
            (r"select 'a\'; b';", &[r"select 'a\'", "b';"]),
            (r"select e'a\'; b'; c", &[r"select e'a\'; b'", "c"]),
        ] {
            let found: Vec<_> = statements(text.as_bytes(), Backslashes::Plain)
                .map(String::from_utf8_lossy)
                .collect();
            assert_eq!(found, expected, "{text}");
        }
        let off = statements(br"select 'a\'; b'; c", Backslashes::Escape);
        assert_eq!(off.count(), 2);
    }
}
