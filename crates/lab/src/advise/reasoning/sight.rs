//! What this role, this version and this watch could not see.

use super::{has_load, number};
use crate::advise::advice::{Advice, Topic, Weight};
use crate::advise::observations::{Ended, Observations, Pooler, Sight};
use crate::report::{count, duration};

/// What comes every few minutes may not come in a shorter watch, in seconds.
const SHORT_S: f64 = 300.0;

pub fn add(seen: &Observations, advice: &mut Advice) {
    let mut tell = |weight, text: String| advice.find(Topic::Sight, weight, text);
    let role = &seen.server.role;
    let unseen = seen.load.unseen.mean();
    if seen.server.sight == Sight::OwnSessions && unseen > 0.0 {
        tell(
            Weight::Act,
            format!(
                "{} of {} sessions belong to others than {role}, and PostgreSQL does not show their states to it: their numbers below are from pg_stat_database, and who they are remains open. \
                 To see them: GRANT pg_read_all_stats TO {role};",
                number(unseen),
                number(seen.load.sessions.mean()),
            ),
        );
    }
    if let Ended::Lost(reason) = &seen.watch.ended {
        tell(
            Weight::Act,
            format!(
                "The watch ended early, after {}: {reason}. What the server counts (transactions, sessions, time) could not be read at its end.",
                duration(seen.watch.time())
            ),
        );
    }
    if !has_load(seen) {
        tell(
            Weight::Act,
            "There was next to no load, so nothing follows for pool sizes: watch while there is some, best in the busiest hour (--watch 10m).".into(),
        );
    } else if seen.watch.seconds < SHORT_S {
        tell(
            Weight::Plain,
            format!(
                "{} are a short watch, and {} looks: sizes are for what was seen in them. Before settings change, watch in the busiest hour (--watch 10m).",
                duration(seen.watch.time()),
                count(seen.watch.looks),
            ),
        );
    }
    if let Pooler::Closed(refusal) = &seen.pooler {
        tell(
            Weight::Plain,
            format!(
                "There is a pooler at this address, and its console does not let {role} in ({refusal}): with {role} in stats_users its counters are used, too."
            ),
        );
    }
    if seen.hardware.cores.is_none() {
        tell(
            Weight::Plain,
            "PostgreSQL does not tell how many cores and how much memory its machine has: say it with --cores and --memory, or run this on that machine, or as a superuser.".into(),
        );
    }
    if seen.statements.is_none() {
        tell(
            Weight::Plain,
            "pg_stat_statements is not there, or not in this database; nothing here needs it, some checks are left out.".into(),
        );
    }
}
