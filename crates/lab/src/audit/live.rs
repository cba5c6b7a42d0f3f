//! Statements of a live database: what its sessions run, what pg_stat_statements has counted; and what its catalogue tells of its functions.

use super::Said;
use crate::advise::sample::WatchError;
use crate::advise::sample::reader::{Reader, number, text};
use crate::advise::source::Source;
use crate::interrupt::Interrupt;
use sql::LearntNames;
use sql::learn::{Catalog, QUERIES, SETTINGS, learn};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::SimpleQueryRow;

/// Between two looks at the sessions.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Distinct statements that are kept.
const STATEMENTS_MAX: usize = 20_000;

/// The latest statement of each session. One that is as long as the server keeps has perhaps lost its end
/// (manual: "track_activity_query_size").
const SESSIONS: &str = "SELECT a.pid, a.query_start, a.application_name, a.query, \
     octet_length(a.query) >= pg_size_bytes(current_setting('track_activity_query_size')) - 1 AS is_cut \
     FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() \
     AND a.query IS NOT NULL AND a.query NOT IN ('', '<insufficient privilege>')";

/// Where the extension's functions are, if it is installed.
const EXTENSION: &str = "SELECT quote_ident(n.nspname) AS schema FROM pg_extension e \
     JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'";

/// What was found.
pub struct Looked {
    /// In words, where it was looked.
    pub told: Vec<String>,
    pub statements: Vec<Said>,
    pub names: LearntNames,
}

/// Looks for `length`, or until Ctrl-C.
///
/// # Errors
/// [`WatchError`]: the server cannot be reached, or does not show its sessions.
pub async fn look(
    source: &Source,
    length: Duration,
    interrupt: &Interrupt,
) -> Result<Looked, WatchError> {
    let reader = Reader::server(source).await?;
    let mut told = Vec::new();
    let names = catalogue(&reader, &mut told).await?;
    let mut statements = counted(&reader, &mut told).await?;
    let sessions = Sessions::watch(&reader, length, interrupt).await?;
    told.push(format!(
        "pg_stat_activity of {}: {} statements in {} looks (short ones are mostly missed), {} of them cut off by track_activity_query_size",
        source.database,
        sessions.seen.len(),
        sessions.looks,
        sessions.cut
    ));
    statements.extend(sessions.statements());
    Ok(Looked {
        told,
        statements,
        names,
    })
}

/// What functions, triggers and views do. A catalogue that cannot be read is said to be so; Weir would have to ask after every transaction.
async fn catalogue(reader: &Reader, told: &mut Vec<String>) -> Result<LearntNames, WatchError> {
    let mut catalog = Catalog::default();
    for query in QUERIES {
        let question = format!("{SETTINGS}; {}", query.sql);
        for row in reader.ask(&question).await? {
            let columns: Vec<&[u8]> = (0..row.len())
                .map(|column| row.get(column).unwrap_or_default().as_bytes())
                .collect();
            catalog
                .add(query.part, &columns)
                .map_err(|bad| WatchError::Refused(bad.to_string()))?;
        }
    }
    let learnt = learn(&catalog).map_err(|error| WatchError::Refused(error.to_string()))?;
    told.push(format!(
        "the catalogue: {} functions of its own, {} names reach session state",
        catalog.functions.len(),
        learnt.iter().count()
    ));
    Ok(learnt)
}

async fn counted(reader: &Reader, told: &mut Vec<String>) -> Result<Vec<Said>, WatchError> {
    let Some(schema) = reader.ask_if_allowed(EXTENSION).await?.first().map(schema) else {
        told.push("pg_stat_statements: not installed in this database".into());
        return Ok(Vec::new());
    };
    let question = format!(
        "SELECT s.query, s.calls FROM {schema}.pg_stat_statements s \
         WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND s.query <> '<insufficient privilege>' ORDER BY s.calls DESC LIMIT {STATEMENTS_MAX}"
    );
    let rows = reader.ask_if_allowed(&question).await?;
    told.push(format!("pg_stat_statements: {} statements", rows.len()));
    Ok(rows.iter().map(statement).collect())
}

fn schema(row: &SimpleQueryRow) -> String {
    text(row, "schema").into()
}

fn statement(row: &SimpleQueryRow) -> Said {
    Said {
        application: "(pg_stat_statements)".into(),
        text: text(row, "query").into(),
        times: number(row, "calls") as u64,
    }
}

/// The sessions' statements, each once however often it is looked at.
#[derive(Default)]
struct Sessions {
    looks: u64,
    /// How many are known by their front only.
    cut: u64,
    /// By process and start.
    seen: HashMap<(String, String), Said>,
}

impl Sessions {
    async fn watch(
        reader: &Reader,
        length: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self, WatchError> {
        let ends = Instant::now() + length;
        let mut sessions = Sessions::default();
        loop {
            let rows = reader.ask(SESSIONS).await?;
            sessions.looks += 1;
            rows.iter().for_each(|row| sessions.take(row));
            let next = Instant::now() + LOOK_EVERY;
            tokio::select! {
                () = tokio::time::sleep_until(next.min(ends)) => {}
                _ = interrupt.requested() => return Ok(sessions),
            }
            if Instant::now() >= ends {
                return Ok(sessions);
            }
        }
    }

    fn take(&mut self, row: &SimpleQueryRow) {
        if self.seen.len() >= STATEMENTS_MAX {
            return;
        }
        let key = (text(row, "pid").into(), text(row, "query_start").into());
        if text(row, "is_cut") == "t" && !self.seen.contains_key(&key) {
            self.cut += 1;
        }
        self.seen.entry(key).or_insert_with(|| Said {
            application: text(row, "application_name").into(),
            text: text(row, "query").into(),
            times: 1,
        });
    }

    fn statements(self) -> impl Iterator<Item = Said> {
        self.seen.into_values()
    }
}
