//! What the server counts by itself: two readings, and what lies between them.

use super::WatchError;
use super::reader::{Reader, maybe_number, number, text};
use crate::advise::observations::{Database, Name, StatementShare, Statements};
use std::collections::BTreeMap;

/// `to_jsonb` gives NULL for the columns that came with PostgreSQL 14.
const DATABASES: &str = "SELECT d.datname, d.xact_commit, d.xact_rollback, d.temp_files, d.temp_bytes, d.deadlocks, \
     d.tup_inserted + d.tup_updated + d.tup_deleted AS rows_written, to_jsonb(d) ->> 'sessions' AS sessions, \
     to_jsonb(d) ->> 'active_time' AS active_ms, to_jsonb(d) ->> 'idle_in_transaction_time' AS idle_ms, \
     extract(epoch FROM clock_timestamp()) AS now, txid_snapshot_xmax(txid_current_snapshot()) AS next_id, \
     current_database() AS here FROM pg_stat_database d WHERE d.datname IS NOT NULL";
const EXTENSION: &str = "SELECT quote_ident(n.nspname) AS schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
     WHERE e.extname = 'pg_stat_statements'";

/// One reading.
pub struct Counters {
    /// The server's time, in seconds since 1970.
    now: f64,
    next_id: f64,
    /// The database that the adviser is connected to.
    here: String,
    databases: BTreeMap<String, Database>,
    statements: Option<BTreeMap<Name, StatementShare>>,
}

/// What lies between two readings.
pub struct Change {
    pub seconds: f64,
    pub databases: Vec<Database>,
    pub transaction_ids: f64,
    pub statements: Option<Statements>,
}

/// # Errors
/// [`WatchError`].
pub async fn read(reader: &Reader) -> Result<Counters, WatchError> {
    let rows = reader.ask(DATABASES).await?;
    let first = rows.first();
    let database = |row| {
        let name = text(row, "datname").to_owned();
        let seconds = |column| maybe_number(row, column).map(|ms| ms / 1_000.0);
        let database = Database {
            name: name.clone(),
            transactions: number(row, "xact_commit") + number(row, "xact_rollback"),
            rolled_back: number(row, "xact_rollback"),
            temporary_files: number(row, "temp_files"),
            temporary_bytes: number(row, "temp_bytes"),
            deadlocks: number(row, "deadlocks"),
            rows_written: number(row, "rows_written"),
            sessions: maybe_number(row, "sessions"),
            active_s: seconds("active_ms"),
            idle_in_transaction_s: seconds("idle_ms"),
        };
        (name, database)
    };
    Ok(Counters {
        now: first.map_or(0.0, |row| number(row, "now")),
        next_id: first.map_or(0.0, |row| number(row, "next_id")),
        here: first.map_or("", |row| text(row, "here")).into(),
        databases: rows.iter().map(database).collect(),
        statements: statements(reader).await?,
    })
}

/// `None` where the extension is not loaded, not in this database, or closed to this role.
async fn statements(reader: &Reader) -> Result<Option<BTreeMap<Name, StatementShare>>, WatchError> {
    let found = reader.ask(EXTENSION).await?;
    let Some(schema) = found.first().map(|row| text(row, "schema")) else {
        return Ok(None);
    };
    let question = format!(
        "SELECT d.datname, pg_get_userbyid(s.userid) AS usename, sum(s.calls) FILTER (WHERE s.kind IN ('select', 'table', 'values', 'fetch')) AS reads, \
         sum(s.calls) FILTER (WHERE s.kind IN ('insert', 'update', 'delete', 'merge', 'copy', 'truncate')) AS writes, sum(s.total_exec_time) AS ms \
         FROM (SELECT dbid, userid, calls, total_exec_time, lower(substring(query FROM '^\\s*(?:/\\*.*?\\*/\\s*)*([[:alpha:]]+)')) AS kind \
         FROM {schema}.pg_stat_statements) s JOIN pg_database d ON d.oid = s.dbid GROUP BY 1, 2"
    );
    match reader.ask(&question).await {
        Ok(rows) => Ok(Some(
            rows.iter()
                .map(|row| {
                    let name = Name {
                        database: text(row, "datname").into(),
                        user: text(row, "usename").into(),
                    };
                    let share = StatementShare {
                        reads: number(row, "reads"),
                        writes: number(row, "writes"),
                        execution_s: number(row, "ms") / 1_000.0,
                    };
                    (name, share)
                })
                .collect(),
        )),
        Err(WatchError::Refused(_)) => Ok(None),
        Err(lost) => Err(lost),
    }
}

impl Counters {
    pub fn now(&self) -> f64 {
        self.now
    }

    /// From this reading to a later one. `own` transactions were the adviser's, in the database it is connected to.
    pub fn until(&self, later: &Counters, own: f64) -> Change {
        let database = |(name, after): (&String, &Database)| {
            let before = self.databases.get(name).cloned().unwrap_or_default();
            let own = if *name == later.here { own } else { 0.0 };
            between(&before, after, own)
        };
        let statements = self.statements.as_ref().zip(later.statements.as_ref());
        Change {
            seconds: later.now - self.now,
            databases: later.databases.iter().map(database).collect(),
            transaction_ids: (later.next_id - self.next_id).max(0.0),
            statements: statements.map(|(before, after)| shares(before, after)),
        }
    }
}

/// Never negative: counters may have been reset meanwhile.
fn between(before: &Database, after: &Database, own: f64) -> Database {
    let grown = |of: fn(&Database) -> f64| (of(after) - of(before)).max(0.0);
    let maybe = |of: fn(&Database) -> Option<f64>| {
        of(after).map(|after| (after - of(before).unwrap_or_default()).max(0.0))
    };
    let sessions = maybe(|database| database.sessions);
    // A session that begins looks itself up, in a transaction of its own.
    let not_clients = own + sessions.unwrap_or_default();
    Database {
        name: after.name.clone(),
        transactions: (grown(|database| database.transactions) - not_clients).max(0.0),
        rolled_back: grown(|database| database.rolled_back),
        temporary_files: grown(|database| database.temporary_files),
        temporary_bytes: grown(|database| database.temporary_bytes),
        deadlocks: grown(|database| database.deadlocks),
        rows_written: grown(|database| database.rows_written),
        sessions,
        active_s: maybe(|database| database.active_s),
        idle_in_transaction_s: maybe(|database| database.idle_in_transaction_s),
    }
}

fn shares(
    before: &BTreeMap<Name, StatementShare>,
    after: &BTreeMap<Name, StatementShare>,
) -> Statements {
    let share = |(name, after): (&Name, &StatementShare)| {
        let before = before.get(name).copied().unwrap_or_default();
        let share = StatementShare {
            reads: (after.reads - before.reads).max(0.0),
            writes: (after.writes - before.writes).max(0.0),
            execution_s: (after.execution_s - before.execution_s).max(0.0),
        };
        (name.clone(), share)
    };
    Statements {
        by_pool: after.iter().map(share).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(transactions: f64, sessions: Option<f64>) -> Counters {
        let database = |name: &str| Database {
            name: name.into(),
            transactions,
            sessions,
            ..Database::default()
        };
        Counters {
            now: transactions,
            next_id: 3.0 * transactions,
            here: "own".into(),
            databases: ["own", "other"]
                .map(|name| (name.to_owned(), database(name)))
                .into(),
            statements: None,
        }
    }

    #[test]
    fn a_change_is_without_the_advisers_own_and_never_negative() {
        let change = reading(10.0, Some(1.0)).until(&reading(30.0, Some(4.0)), 5.0);
        assert_eq!((change.seconds, change.transaction_ids), (20.0, 60.0));
        let transactions: Vec<f64> = change.databases.iter().map(|d| d.transactions).collect();
        // Three sessions began in each, and five transactions were the adviser's.
        assert_eq!(transactions, [17.0, 12.0]);
        assert_eq!(change.databases[0].sessions, Some(3.0));
        let reset = reading(30.0, None).until(&reading(10.0, None), 0.0);
        assert_eq!(reset.databases[0].transactions, 0.0);
        assert_eq!(reset.databases[0].sessions, None);
    }
}
