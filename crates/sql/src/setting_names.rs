//! Custom parameters that a text may set. The server does not list them; it has to be asked for each by its name.
//!
//! A custom parameter's name has a dot. It stands behind SET or in a literal, which may be in a function's body or in a text that is
//! executed: each literal is looked at as a name and as SQL.

use crate::lexer::{Kind, Lexer, Strings, Token, is_word_byte, is_word_start};
use crate::{Encoding, Name};

/// Names that are given for one text.
const NAMES_MAX: usize = 64;
/// Literals within literals that are looked into.
const DEPTH_MAX: usize = 6;

/// The names of custom parameters that `text` may set, each once: a superset, apart from names that are put together at run time or come as
/// parameters (see [`is_custom_name`]).
pub fn setting_names(text: &[u8], strings: Strings) -> SettingNames {
    let mut found = Found {
        names: Vec::new(),
        complete: strings.encoding != Encoding::Unsafe || text.is_ascii(),
    };
    found.look(text, strings, 0);
    SettingNames {
        names: found.names.into_iter(),
        complete: found.complete,
    }
}

/// Has `text` the form of a custom parameter's name, as the server wants it ("Customized Options")?
pub fn is_custom_name(text: &[u8]) -> bool {
    let is_part = |part: &[u8]| {
        part.first().is_some_and(|&byte| is_word_start(byte))
            && part.iter().all(|&byte| is_word_byte(byte))
            && part.len() <= Name::BYTES_MAX
    };
    text.contains(&b'.') && text.split(|&byte| byte == b'.').all(is_part)
}

#[derive(Debug, Clone)]
pub struct SettingNames {
    names: std::vec::IntoIter<String>,
    complete: bool,
}

impl SettingNames {
    /// Are these all? Not if there are more than a text should have, or the encoding hides some.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Iterator for SettingNames {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.names.next()
    }
}

struct Found {
    names: Vec<String>,
    complete: bool,
}

impl Found {
    fn look(&mut self, text: &[u8], strings: Strings, depth: usize) {
        let mut tokens = Lexer::new(text, strings.backslashes);
        while let Some(token) = tokens.next() {
            if token.is_word("set") {
                self.look_behind_set(tokens.clone(), strings);
            }
            match token.kind {
                Kind::Literal(_) => self.look_into(&token, strings, depth),
                Kind::Unterminated => self.complete = false,
                _ => {}
            }
        }
    }

    fn look_behind_set(&mut self, mut tokens: Lexer<'_>, strings: Strings) {
        let mut name = tokens.next();
        let mut after = tokens.next();
        let is_scope = |it: Token<'_>| it.is_word("session") || it.is_word("local");
        if name.is_some_and(is_scope) && !after.is_some_and(|it| it.is_punctuation(b'.')) {
            name = after;
            after = tokens.next();
        }
        let mut whole = Vec::new();
        while let Some(token) = name {
            let Some(part) = token.identifier(strings) else {
                self.complete = false;
                return;
            };
            whole.extend_from_slice(&part);
            if !after.is_some_and(|it| it.is_punctuation(b'.')) {
                break;
            }
            whole.push(b'.');
            name = tokens.next();
            after = tokens.next();
        }
        self.add(&whole);
    }

    fn look_into(&mut self, token: &Token<'_>, strings: Strings, depth: usize) {
        let decoded = token.literal(strings);
        let text = decoded.as_deref().unwrap_or(token.body());
        if is_custom_name(text) {
            self.add(text);
        } else if depth < DEPTH_MAX && may_hold_sql(text) {
            self.look(text, strings, depth + 1);
        }
    }

    fn add(&mut self, name: &[u8]) {
        let Some(name) = std::str::from_utf8(name)
            .ok()
            .filter(|it| is_custom_name(it.as_bytes()))
        else {
            return;
        };
        if self
            .names
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
        {
            return;
        }
        if self.names.len() == NAMES_MAX {
            self.complete = false;
            return;
        }
        self.names.push(name.to_owned());
    }
}

/// A name in it would have a dot.
fn may_hold_sql(text: &[u8]) -> bool {
    memchr::memchr(b'.', text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        setting_names(text.as_bytes(), Strings::default()).collect()
    }

    #[test]
    fn names_in_texts() {
        for (text, expected) in [
            ("select 1", &[][..]),
            ("SET App.Tenant = 5", &["app.tenant"]),
            (
                "set local app.tenant to 'x'; set session \"My\".b = 1",
                &["app.tenant", "My.b"],
            ),
            (
                "set session.x = 1; set local.x = 2",
                &["session.x", "local.x"],
            ),
            ("set a.b.c = 'd.e'", &["a.b.c", "d.e"]),
            ("set work_mem = '1MB'", &[]),
            ("update t set x = 1", &[]),
            (
                "select set_config('app.tenant', $1, false)",
                &["app.tenant"],
            ),
            (
                "select set_config(E'app.ten\\141nt', $1, false), set_config(U&'\\0061pp.b', '', true)",
                &["app.tenant", "app.b"],
            ),
            (
                "select set_config('app.'\n'tenant', '1', true), 'APP.Tenant'",
                &["app.tenant"],
            ),
            (
                "do $$ begin perform set_config('app.a', 'no name. here', true); execute 'set app.b = ''c.d'''; end $$",
                &["app.a", "app.b", "c.d"],
            ),
            (
                "select '1.5', 'a..b', '.a', 'a.', 'a b.c', 'http://a.b', 'a.b@c.d'",
                &[],
            ),
            ("select 'näme.größe'", &["näme.größe"]),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_bounded() {
        let list = |count: usize| {
            (0..count)
                .map(|i| format!("'app.x{i}'"))
                .collect::<Vec<_>>()
        };
        let found = |count| setting_names(list(count).join(",").as_bytes(), Strings::default());
        assert!(found(NAMES_MAX).is_complete());
        let more = found(NAMES_MAX + 1);
        assert!(!more.is_complete());
        assert_eq!(more.count(), NAMES_MAX);
        assert_eq!(names(&format!("select 'a.{}'", "b".repeat(64))), [""; 0]);
        assert_eq!(names(&format!("select 'a.{}'", "b".repeat(63))).len(), 1);
    }
}
