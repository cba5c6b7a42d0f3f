//! One look after another at pg_stat_activity: how many sessions are in which state, and who they are.

use super::reader::{maybe, maybe_number, number, text};
use crate::advise::observations::{Group, Load, Name, Who};
use std::collections::{BTreeMap, HashMap, HashSet};
use tokio_postgres::SimpleQueryRow;

/// Other roles' sessions have no state, start and address for a role that may not see them, and no backend_type either
/// (manual, "pg_stat_activity").
pub const QUESTION: &str = "SELECT a.pid, a.datname, a.usename, a.application_name, coalesce(host(a.client_addr), '') AS client, a.state, \
     a.wait_event_type, a.backend_xid IS NOT NULL AS writes, extract(epoch FROM a.backend_start) AS began, \
     extract(epoch FROM clock_timestamp() - a.xact_start) AS transaction_s, extract(epoch FROM clock_timestamp() - a.state_change) AS state_s, \
     extract(epoch FROM clock_timestamp()) AS now \
     FROM pg_stat_activity a WHERE a.datname IS NOT NULL AND a.pid <> pg_backend_pid() \
     AND (a.backend_type = 'client backend' OR a.backend_type IS NULL)";
/// Groups beyond that many are one: clients may come from any number of addresses.
const GROUPS_MAX: usize = 1_000;

/// A row of a look.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub pid: u32,
    pub who: Who,
    pub state: State,
    pub writes: bool,
    /// Seconds since 1970; `None` where it is not shown.
    pub began: Option<f64>,
    pub transaction_s: f64,
    pub state_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Executing; waiting for nothing but perhaps a processor.
    Running,
    /// Executing; waiting for a lock, for input or output, for its client.
    Waiting,
    Idle,
    InTransaction,
    Unseen,
}

impl Session {
    pub fn read(row: &SimpleQueryRow) -> Self {
        let who = Who {
            application: text(row, "application_name").into(),
            user: text(row, "usename").into(),
            database: text(row, "datname").into(),
            client: text(row, "client").into(),
        };
        let state = match maybe(row, "state") {
            Some("active" | "fastpath function call")
                if maybe(row, "wait_event_type").is_none() =>
            {
                State::Running
            }
            Some("active" | "fastpath function call") => State::Waiting,
            Some("idle in transaction" | "idle in transaction (aborted)") => State::InTransaction,
            Some("idle") => State::Idle,
            _ => State::Unseen,
        };
        Session {
            pid: number(row, "pid") as u32,
            who,
            state,
            writes: text(row, "writes") == "t",
            began: maybe_number(row, "began"),
            transaction_s: number(row, "transaction_s"),
            state_s: number(row, "state_s"),
        }
    }

    fn is_active(&self) -> bool {
        matches!(self.state, State::Running | State::Waiting)
    }

    fn is_busy(&self) -> bool {
        let waits_for_client = self.state == State::InTransaction;
        self.is_active() || (waits_for_client && self.state_s < Load::ABANDONED_S)
    }
}

/// The looks so far.
#[derive(Debug, Default)]
pub struct Activity {
    pub looks: u64,
    pub load: Load,
    pub pools: BTreeMap<Name, Load>,
    groups: HashMap<Who, Sums>,
    /// By process and start: ids are used again.
    known: HashMap<(u32, u64), Who>,
    /// When the first look was taken, in the server's time, and what it saw.
    began: f64,
    at_first: usize,
    /// What was seen last.
    pub latest: Vec<Session>,
}

/// A group in the making.
#[derive(Debug, Default)]
struct Sums {
    group: Group,
    idle: u64,
    idle_in_transaction: u64,
}

impl Activity {
    /// Takes one look's sessions; `now` is the server's time in seconds since 1970.
    pub fn take(&mut self, sessions: Vec<Session>, now: f64) {
        if self.looks == 0 {
            self.began = now;
            self.at_first = sessions.len();
        }
        self.looks += 1;
        count(&mut self.load, sessions.iter());
        let mut pools: BTreeMap<Name, Vec<&Session>> = BTreeMap::new();
        for session in &sessions {
            let name = Name {
                database: session.who.database.clone(),
                user: session.who.user.clone(),
            };
            pools.entry(name).or_default().push(session);
        }
        for (name, here) in pools {
            count(self.pools.entry(name).or_default(), here.into_iter());
        }
        self.follow(&sessions);
        self.measure(&sessions);
        self.latest = sessions;
    }

    /// Who has come and who has gone since the look before.
    fn follow(&mut self, sessions: &[Session]) {
        let here: HashSet<(u32, u64)> = sessions.iter().filter_map(identity).collect();
        for session in sessions {
            let Some(key) = identity(session) else {
                continue;
            };
            if self.known.contains_key(&key) {
                continue;
            }
            let who = self.group_of(&session.who);
            if session.began.is_some_and(|began| began > self.began) {
                self.sums(&who).group.came += 1;
            }
            self.known.insert(key, who);
        }
        let gone: Vec<(u32, u64)> = self
            .known
            .keys()
            .filter(|key| !here.contains(key))
            .copied()
            .collect();
        for key in gone {
            let began = f64::from_bits(key.1);
            if let Some(who) = self.known.remove(&key)
                && began > self.began
            {
                self.sums(&who).group.left += 1;
            }
        }
    }

    fn measure(&mut self, sessions: &[Session]) {
        let mut present: HashMap<Who, u32> = HashMap::new();
        for session in sessions {
            let who = self.group_of(&session.who);
            *present.entry(who.clone()).or_default() += 1;
            self.sums(&who).add(session);
        }
        for (who, sessions) in present {
            let group = &mut self.sums(&who).group;
            group.sessions = group.sessions.max(sessions);
        }
    }

    fn group_of(&self, who: &Who) -> Who {
        match self.groups.len() < GROUPS_MAX || self.groups.contains_key(who) {
            true => who.clone(),
            false => Who {
                application: "(others)".into(),
                ..Who::default()
            },
        }
    }

    fn sums(&mut self, who: &Who) -> &mut Sums {
        self.groups.entry(who.clone()).or_insert_with(|| Sums {
            group: Group {
                who: who.clone(),
                ..Group::default()
            },
            ..Sums::default()
        })
    }

    /// Active ones in the latest look.
    pub fn active_now(&self) -> u32 {
        let active = self.latest.iter().filter(|session| session.is_active());
        active.count() as u32
    }

    /// Sessions in the latest look more than in the first.
    pub fn growth(&self) -> f64 {
        self.latest.len() as f64 - self.at_first as f64
    }

    /// Ends the count. The groups with the most sessions come first.
    pub fn settle(&mut self) -> Vec<Group> {
        self.load.settle(self.looks);
        self.pools
            .values_mut()
            .for_each(|load| load.settle(self.looks));
        let looks = self.looks.max(1) as f64;
        let groups = std::mem::take(&mut self.groups).into_values();
        let mut groups: Vec<Group> = groups
            .map(|sums| Group {
                idle: sums.idle as f64 / looks,
                idle_in_transaction: sums.idle_in_transaction as f64 / looks,
                ..sums.group
            })
            .collect();
        groups.sort_by(|a, b| (b.sessions, &a.who).cmp(&(a.sessions, &b.who)));
        groups
    }
}

impl Sums {
    fn add(&mut self, session: &Session) {
        let group = &mut self.group;
        let longest = |place: &mut f64, seconds: f64| *place = place.max(seconds);
        match session.state {
            State::Idle => {
                self.idle += 1;
                longest(&mut group.idle_longest_s, session.state_s);
                return;
            }
            State::InTransaction => {
                self.idle_in_transaction += 1;
                longest(&mut group.idle_in_transaction_longest_s, session.state_s);
            }
            State::Running | State::Waiting => {
                longest(&mut group.statement_longest_s, session.state_s);
            }
            State::Unseen => return,
        }
        longest(&mut group.transaction_longest_s, session.transaction_s);
    }
}

/// The bits of the start tell processes of the same id apart.
fn identity(session: &Session) -> Option<(u32, u64)> {
    Some((session.pid, session.began?.to_bits()))
}

fn count<'a>(load: &mut Load, sessions: impl Iterator<Item = &'a Session>) {
    let mut seen = [0; 8];
    for session in sessions {
        let is = |state| session.state == state;
        let kinds = [
            true,
            session.is_active(),
            is(State::Running),
            session.is_busy(),
            session.is_busy() && session.writes,
            is(State::Idle),
            is(State::InTransaction),
            is(State::Unseen),
        ];
        for (number, kind) in seen.iter_mut().zip(kinds) {
            *number += u32::from(kind);
        }
    }
    let places = [
        &mut load.sessions,
        &mut load.active,
        &mut load.running,
        &mut load.busy,
        &mut load.writing,
        &mut load.idle,
        &mut load.idle_in_transaction,
        &mut load.unseen,
    ];
    for (counts, number) in places.into_iter().zip(seen) {
        counts.see(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(pid: u32, began: f64, state: State) -> Session {
        Session {
            pid,
            who: Who {
                application: "app".into(),
                user: "u".into(),
                database: "d".into(),
                client: String::new(),
            },
            state,
            writes: pid == 1,
            began: Some(began),
            transaction_s: 2.0,
            state_s: 1.0,
        }
    }

    #[test]
    fn states_are_counted_and_sessions_followed() {
        let mut activity = Activity::default();
        activity.take(
            vec![
                session(1, 5.0, State::Running),
                session(2, 6.0, State::Idle),
            ],
            10.0,
        );
        // Process 2 has another session now, and 3 came: both began after the first look.
        activity.take(
            vec![
                session(1, 5.0, State::InTransaction),
                session(2, 10.5, State::Waiting),
                session(3, 10.6, State::Running),
            ],
            11.0,
        );
        activity.take(vec![session(1, 5.0, State::Idle)], 12.0);
        assert_eq!(activity.growth(), -1.0);
        let groups = activity.settle();
        let load = &activity.load;
        let means = [
            &load.sessions,
            &load.active,
            &load.running,
            &load.busy,
            &load.writing,
        ];
        assert_eq!(
            means.map(|counts| (counts.mean() * 3.0).round() as u32),
            [6, 3, 2, 4, 2]
        );
        assert_eq!(groups.len(), 1);
        let group = &groups[0];
        assert_eq!((group.sessions, group.came, group.left), (3, 2, 2));
        assert_eq!(
            (
                (group.idle * 3.0) as u32,
                (group.idle_in_transaction * 3.0) as u32
            ),
            (2, 1)
        );
        assert_eq!(group.transaction_longest_s, 2.0);
    }

    #[test]
    fn a_transaction_that_is_idle_for_long_is_not_work() {
        let mut abandoned = session(1, 0.0, State::InTransaction);
        assert!(abandoned.is_busy());
        abandoned.state_s = Load::ABANDONED_S;
        assert!(!abandoned.is_busy());
    }

    #[test]
    fn the_number_of_groups_is_bounded() {
        let mut activity = Activity::default();
        let one = |number: u32| Session {
            who: Who {
                client: number.to_string(),
                ..Who::default()
            },
            ..session(number, 0.0, State::Idle)
        };
        activity.take((0..2 * GROUPS_MAX as u32).map(one).collect(), 1.0);
        let groups = activity.settle();
        assert_eq!(groups.len(), GROUPS_MAX + 1);
        assert_eq!(groups[0].sessions, GROUPS_MAX as u32);
    }
}
