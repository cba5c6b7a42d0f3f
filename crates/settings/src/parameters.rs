//! The right-hand sides of `[databases]`, `[users]` and `[peers]`: `key=value key='quoted ''value'''`.
//!
//! Owns that syntax and the way from such a text into a structure by a table of [`Parameter`]s.

use crate::errors::{Problem, nearest};
use crate::value::BadValue;

/// One key that may stand there: its manual and what it does.
#[derive(Debug)]
pub(crate) struct Parameter<T> {
    pub name: &'static str,
    pub doc: &'static str,
    pub(crate) set: fn(&mut T, &str) -> Result<(), BadValue>,
}

/// A problem and the name that was perhaps meant.
pub(crate) type Finding = (Problem, Option<&'static str>);

/// Puts every parameter of `text` into `into`; finds all that is wrong. `entry` names the database or user in the findings.
pub(crate) fn fill<T>(
    parameters: &'static [Parameter<T>],
    text: &str,
    entry: &str,
    into: &mut T,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for pair in Pairs(text) {
        let (name, value) = match pair {
            Ok(pair) => pair,
            Err(what) => {
                findings.push((
                    Problem::BadEntry {
                        entry: entry.to_owned(),
                        what,
                    },
                    None,
                ));
                break;
            }
        };
        if seen.contains(&name) {
            findings.push((
                Problem::DuplicateParameter {
                    entry: entry.to_owned(),
                    name: name.to_owned(),
                },
                None,
            ));
        }
        seen.push(name);
        findings.extend(set(parameters, name, &value, entry, into).err());
    }
    findings
}

fn set<T>(
    parameters: &'static [Parameter<T>],
    name: &str,
    value: &str,
    entry: &str,
    into: &mut T,
) -> Result<(), Finding> {
    let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
        let problem = Problem::UnknownParameter {
            entry: entry.to_owned(),
            name: name.to_owned(),
        };
        return Err((
            problem,
            nearest(name, parameters.iter().map(|parameter| parameter.name)),
        ));
    };
    (parameter.set)(into, value).map_err(|bad| {
        (
            Problem::BadValue {
                name: format!("{entry}: {name}"),
                bad,
            },
            None,
        )
    })
}

/// The pairs of a text. Ends after the first error, since what follows it cannot be told apart.
struct Pairs<'a>(&'a str);

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a str, String), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0.trim_start_matches(blank);
        if text.is_empty() {
            return None;
        }
        Some(pair(text).map(|(name, value, rest)| {
            self.0 = rest;
            (name, value)
        }))
    }
}

fn blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn pair(text: &str) -> Result<(&str, String, &str), &'static str> {
    let (name, rest) = text.split_at(text.find(|c| c == '=' || blank(c)).unwrap_or(text.len()));
    let rest = rest
        .trim_start_matches(blank)
        .strip_prefix('=')
        .ok_or("expected key=value pairs, separated by blanks")?;
    if name.is_empty() {
        return Err("a name is missing before =");
    }
    let rest = rest.trim_start_matches(blank);
    let (value, rest) = match rest.strip_prefix('\'') {
        Some(quoted) => quoted_value(quoted)?,
        None => bare_value(rest),
    };
    match value.is_empty() {
        true => Err("a value is empty: leave the parameter out instead"),
        false => Ok((name, value, rest)),
    }
}

fn bare_value(text: &str) -> (String, &str) {
    let (value, rest) = text.split_at(text.find(blank).unwrap_or(text.len()));
    (value.to_owned(), rest)
}

/// A value after its opening quote; a quote within it is doubled.
fn quoted_value(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest
            .split_once('\'')
            .ok_or("a quoted value has no closing quote")?;
        value.push_str(part);
        rest = match after.strip_prefix('\'') {
            Some(more) => more,
            None if after.is_empty() || after.starts_with(blank) => return Ok((value, after)),
            None => return Err("a blank is missing after a quoted value"),
        };
        value.push('\'');
    }
}
