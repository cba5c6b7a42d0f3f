//! Statements from files: PostgreSQL's csvlog and jsonlog, its plain log (log_statement, log_min_duration_statement), or SQL as it is.

use super::Said;
use serde::Deserialize;
use sql::lexer::Backslashes;
use std::path::{Path, PathBuf};

/// Why a log says nothing.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot read {}: {error}", path.display())]
    Read {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{} is no csvlog of PostgreSQL: {error}", path.display())]
    Csv { path: PathBuf, error: csv::Error },
    #[error("{} has no statements: log_statement or log_min_duration_statement makes PostgreSQL log them", path.display())]
    Nothing { path: PathBuf },
}

/// Columns of csvlog (manual: "Using CSV-Format Log Output").
const MESSAGE: usize = 13;
const APPLICATION: usize = 22;

/// The statements of a file; its name's end tells csvlog and jsonlog.
///
/// # Errors
/// [`LogError`].
pub fn read(path: &Path) -> Result<Vec<Said>, LogError> {
    let text = std::fs::read(path).map_err(|error| LogError::Read {
        path: path.into(),
        error,
    })?;
    let text = String::from_utf8_lossy(&text);
    let said = match path.extension().and_then(|end| end.to_str()) {
        Some("csv") => csv(&text).map_err(|error| LogError::Csv {
            path: path.into(),
            error,
        })?,
        Some("json") => json(&text),
        Some("sql") => statements(&text),
        _ => plain(&text),
    };
    if said.is_empty() {
        return Err(LogError::Nothing { path: path.into() });
    }
    Ok(said)
}

fn csv(text: &str) -> Result<Vec<Said>, csv::Error> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut said = Vec::new();
    for record in reader.records() {
        let record = record?;
        let column = |at| record.get(at).unwrap_or_default();
        said.extend(message(column(MESSAGE), column(APPLICATION)));
    }
    Ok(said)
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    message: String,
    #[serde(default)]
    application_name: String,
}

/// A line that is none is left out: the file may be still written to.
fn json(text: &str) -> Vec<Said> {
    text.lines()
        .filter_map(|line| serde_json::from_str::<Entry>(line).ok())
        .filter_map(|entry| message(&entry.message, &entry.application_name))
        .collect()
}

/// What follows the severity in the lines of a plain log; further lines of an entry begin with a tab. (manual: "log_line_prefix")
fn plain(text: &str) -> Vec<Said> {
    const SEVERITY: &str = "LOG:  ";
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (line.split_once(SEVERITY), line.strip_prefix('\t')) {
            (Some((prefix, rest)), _) => {
                entries.push((application(prefix), rest.into()));
                inside = true;
            }
            (None, Some(more)) if inside => {
                if let Some((_, entry)) = entries.last_mut() {
                    entry.push('\n');
                    entry.push_str(more);
                }
            }
            _ => inside = false,
        }
    }
    if entries.is_empty() {
        return statements(text);
    }
    entries
        .iter()
        .filter_map(|(application, entry)| message(entry, application))
        .collect()
}

/// `%a`, where the prefix says what it is.
fn application(prefix: &str) -> String {
    let after = prefix
        .split_once("app=")
        .or_else(|| prefix.split_once("application_name="));
    let name = after.map_or("", |(_, rest)| {
        rest.split([',', ' ', ']']).next().unwrap_or_default()
    });
    name.into()
}

/// "statement: ...", "execute NAME: ...", each perhaps behind "duration: ... ms  ".
fn message(message: &str, application: &str) -> Option<Said> {
    let message = match message.strip_prefix("duration: ") {
        Some(timed) => timed.split_once(" ms  ")?.1,
        None => message,
    };
    let text = match message.strip_prefix("statement: ") {
        Some(text) => text,
        None => {
            message.strip_prefix("execute ")?;
            message.split_once(": ")?.1
        }
    };
    Some(Said {
        application: application.into(),
        text: text.into(),
        times: 1,
    })
}

fn statements(text: &str) -> Vec<Said> {
    sql::statements(text.as_bytes(), Backslashes::Plain)
        .map(|statement| String::from_utf8_lossy(statement).trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .map(|text| Said {
            application: String::new(),
            text,
            times: 1,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(said: &[Said]) -> Vec<(&str, &str)> {
        said.iter()
            .map(|one| (one.application.as_str(), one.text.as_str()))
            .collect()
    }

    #[test]
    fn a_plain_log() {
        let text = "2026-01-01 00:00:00 UTC [1] app=shop,db=d LOG:  statement: SELECT 1,\n\
            \t  2\n\
            2026-01-01 00:00:00 UTC [1] app=shop,db=d LOG:  duration: 0.1 ms  execute S_1: SET x = 1\n\
            2026-01-01 00:00:00 UTC [1] app=shop,db=d DETAIL:  parameters: $1 = '1'\n\
            2026-01-01 00:00:00 UTC [2] LOG:  checkpoint starting: time\n\
            2026-01-01 00:00:00 UTC [2] LOG:  duration: 12.3 ms\n";
        assert_eq!(
            told(&plain(text)),
            [("shop", "SELECT 1,\n  2"), ("shop", "SET x = 1")]
        );
    }

    #[test]
    fn logs_for_machines() {
        let row = format!(
            "t,u,d,1,,,,,,,,LOG,00000,\"statement: SELECT \"\"a\"\"\",{}shop,x\n",
            ",".repeat(8)
        );
        assert_eq!(told(&csv(&row).expect("valid")), [("shop", "SELECT \"a\"")]);
        let lines = "{\"message\":\"execute <unnamed>: LISTEN a\",\"application_name\":\"jobs\"}\nnone\n{\"message\":\"x\"}\n";
        assert_eq!(told(&json(lines)), [("jobs", "LISTEN a")]);
    }

    #[test]
    fn sql_as_it_is() {
        assert_eq!(told(&plain("SELECT ';'; -- one\nSET a = 1;\n")).len(), 2);
    }
}
