//! What sessions take of the memory: the kernel's account of their processes, or else PostgreSQL's own.

use super::WatchError;
use super::activity::{Session, State};
use super::facts::View;
use super::reader::{Reader, number, text};
use crate::advise::observations::{MemorySource, SessionMemory};
use crate::postgres::{Anatomy, anatomy_of};

/// Reading a process's account walks its page tables.
const MEASURED_MAX: usize = 50;
/// Of this very session. Only superusers and members of pg_read_all_stats may ask (manual, "pg_backend_memory_contexts").
const CONTEXTS: &str = "SELECT sum(total_bytes) AS bytes FROM pg_backend_memory_contexts";

/// # Errors
/// [`WatchError::Lost`].
pub async fn measure(
    reader: &Reader,
    view: View,
    sessions: &[Session],
) -> Result<Option<SessionMemory>, WatchError> {
    let pids = chosen(sessions);
    let accounts = match view {
        View::Here => pids.iter().map(|pid| anatomy_of(*pid)).collect(),
        View::ThroughServer => through_server(reader, &pids).await?,
        View::Nowhere => Vec::new(),
    };
    match summary(&accounts) {
        Some(memory) => Ok(Some(memory)),
        None => of_contexts(reader).await,
    }
}

/// Idle sessions first: what they take is what a pooler would give back.
fn chosen(sessions: &[Session]) -> Vec<u32> {
    let idle = |session: &&Session| matches!(session.state, State::Idle | State::InTransaction);
    let rest = sessions.iter().filter(|session| !idle(session));
    let all = sessions.iter().filter(idle).chain(rest);
    all.map(|session| session.pid).take(MEASURED_MAX).collect()
}

/// A server's process may read the accounts of its siblings.
async fn through_server(reader: &Reader, pids: &[u32]) -> Result<Vec<Anatomy>, WatchError> {
    let list = pids
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let question = format!(
        "SELECT pg_read_file('/proc/' || pid || '/smaps_rollup', 0, 10000, true) AS rollup, \
         pg_read_file('/proc/' || pid || '/status', 0, 10000, true) AS status FROM unnest(ARRAY[{list}]::int[]) pid"
    );
    let rows = reader.ask_if_allowed(&question).await?;
    let accounts = rows
        .iter()
        .map(|row| Anatomy::read(text(row, "rollup"), text(row, "status")));
    Ok(accounts.collect())
}

/// `None` if nothing could be read: the accounts of other users' processes are closed.
fn summary(accounts: &[Anatomy]) -> Option<SessionMemory> {
    let known: Vec<&Anatomy> = accounts
        .iter()
        .filter(|account| account.private > 0)
        .collect();
    let own = |account: &&Anatomy| (account.private + account.page_tables) as f64;
    let count = known.len().max(1) as f64;
    (!known.is_empty()).then(|| SessionMemory {
        source: MemorySource::Kernel,
        measured: known.len(),
        mean_bytes: known.iter().map(own).sum::<f64>() / count,
        largest_bytes: known.iter().map(own).fold(0.0, f64::max),
        page_tables_mean_bytes: known
            .iter()
            .map(|account| account.page_tables as f64)
            .sum::<f64>()
            / count,
    })
}

async fn of_contexts(reader: &Reader) -> Result<Option<SessionMemory>, WatchError> {
    let rows = reader.ask_if_allowed(CONTEXTS).await?;
    let bytes = rows.first().map_or(0.0, |row| number(row, "bytes"));
    Ok((bytes > 0.0).then_some(SessionMemory {
        source: MemorySource::MemoryContexts,
        measured: 1,
        mean_bytes: bytes,
        largest_bytes: bytes,
        page_tables_mean_bytes: 0.0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_accounts_do_not_count() {
        let account = |private, page_tables| Anatomy {
            private,
            page_tables,
            ..Anatomy::default()
        };
        let memory = summary(&[account(100, 20), account(0, 9), account(200, 40)]).expect("two");
        assert_eq!(
            (memory.measured, memory.mean_bytes, memory.largest_bytes),
            (2, 180.0, 240.0)
        );
        assert_eq!(summary(&[account(0, 9)]), None);
    }
}
