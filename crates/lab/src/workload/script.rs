//! The part of pgbench's script language that the lab's scripts use: SQL that ends with a semicolon at the end of a line,
//! `\set name random(low, high)`, `\gset`, and `:name` in SQL.

use std::collections::HashMap;

/// A script that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {text}")]
pub struct ScriptError {
    pub line: usize,
    pub text: String,
}

/// One script.
#[derive(Debug, Clone)]
pub struct Script {
    pub name: &'static str,
    /// How often it is chosen, beside others.
    pub weight: u32,
    /// As pgbench reads it.
    pub text: String,
    pub steps: Vec<Step>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Random {
        name: String,
        low: i64,
        high: i64,
    },
    Query(Vec<Piece>),
    /// The columns of the result become variables.
    QueryInto(Vec<Piece>),
}

/// A part of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Variable(String),
}

/// Values of a client's variables.
pub type Variables = HashMap<String, String>;

impl Script {
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(name: &'static str, weight: u32, text: &str) -> Result<Self, ScriptError> {
        let mut steps = Vec::new();
        let mut sql = String::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = || ScriptError {
                line: number + 1,
                text: line.into(),
            };
            let line = line.trim();
            if line.is_empty() || line.starts_with("--") {
                continue;
            }
            if let Some(set) = line.strip_prefix("\\set ") {
                steps.push(random(set).ok_or_else(wrong)?);
                continue;
            }
            sql.push_str(line);
            if let Some(whole) = sql.strip_suffix("\\gset") {
                steps.push(Step::QueryInto(pieces(whole.trim_end())));
                sql.clear();
            } else if sql.ends_with(';') {
                steps.push(Step::Query(pieces(&sql)));
                sql.clear();
            } else {
                sql.push(' ');
            }
        }
        if !sql.is_empty() {
            return Err(ScriptError {
                line: text.lines().count(),
                text: sql,
            });
        }
        Ok(Self {
            name,
            weight,
            text: text.into(),
            steps,
        })
    }
}

/// "aid random(1, 100)"
fn random(set: &str) -> Option<Step> {
    let (name, call) = set.split_once(' ')?;
    let bounds = call.trim().strip_prefix("random(")?.strip_suffix(')')?;
    let (low, high) = bounds.split_once(',')?;
    Some(Step::Random {
        name: name.into(),
        low: low.trim().parse().ok()?,
        high: high.trim().parse().ok()?,
    })
}

/// Splits at `:name`; `::` is a cast.
fn pieces(sql: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = sql;
    while let Some(at) = rest.find(':') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        text.push_str(before);
        let end = after
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(after.len());
        if end == 0 {
            let cast = usize::from(after.starts_with(':'));
            text.push_str(&rest[at..=at + cast]);
            rest = &after[cast..];
            continue;
        }
        pieces.push(Piece::Text(std::mem::take(&mut text)));
        pieces.push(Piece::Variable(after[..end].into()));
        rest = &after[end..];
    }
    text.push_str(rest);
    pieces.push(Piece::Text(text));
    pieces
}

/// A statement with its variables filled in.
pub fn fill(pieces: &[Piece], variables: &Variables) -> String {
    let value = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Variable(name) => variables
            .get(name)
            .cloned()
            .unwrap_or_else(|| format!(":{name}")),
    };
    pieces.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_line_by_line() {
        let text = "-- a comment\n\\set a random(1, 9)\nSELECT x::int AS b\n  FROM t WHERE a = :a \\gset\nUPDATE t SET b = :b;\n";
        let script = Script::parse("test", 1, text).expect("valid");
        let [
            Step::Random {
                name,
                low: 1,
                high: 9,
            },
            Step::QueryInto(select),
            Step::Query(update),
        ] = &script.steps[..]
        else {
            panic!("{:?}", script.steps)
        };
        assert_eq!(name, "a");
        let variables = Variables::from([("a".into(), "5".into()), ("b".into(), "7".into())]);
        assert_eq!(
            fill(select, &variables),
            "SELECT x::int AS b FROM t WHERE a = 5"
        );
        assert_eq!(fill(update, &variables), "UPDATE t SET b = 7;");
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let wrong = |text| Script::parse("test", 1, text).expect_err("wrong").line;
        assert_eq!(wrong("SELECT 1;\n\\set a 1 + 1"), 2);
        assert_eq!(wrong("SELECT 1"), 1);
    }
}
