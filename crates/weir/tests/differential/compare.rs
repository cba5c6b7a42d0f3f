//! Runs a conversation on both sides, step by step, and tells the first difference.
//!
//! Nothing can wait for another client: one client acts at a time, rows and locks belong to one client, and a step is left out while its client
//! could have no server connection: when others hold as many as the pool has, in transactions or pinned, as the direct sessions tell.

use crate::arena::{Ground, Sides};
use crate::client::{After, Client, Place, Reply};
use crate::fingerprint::Fingerprint;
use crate::script::{Act, Leave, Observe, Script, Unit, simple};
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// PostgreSQL's error for currval and lastval without a value in this session.
const NOT_YET_DEFINED: &str = "E(C=55000 ";
/// Within a failed transaction a pooler cannot parse what another server connection has; PostgreSQL may find another fault before this one.
const ABORTED: &str = "E(C=25P02 ";
/// PostgreSQL's error for a prepared statement that would give other columns now; a pooler has to parse it anew, for it may not be the client's
/// doing.
const OUTDATED: &str = "M=cached plan must not change result type";
/// For notifications, which nobody waits for.
const DELIVERY: Duration = Duration::from_secs(2);

/// What has been compared.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub conversations: usize,
    pub steps: usize,
    /// Steps for which there was no server connection.
    pub left_out: usize,
    pub fingerprints: usize,
    pub notifications: usize,
    /// Conversations that ended at a difference that is allowed.
    pub tolerated: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.conversations += other.conversations;
        self.steps += other.steps;
        self.left_out += other.left_out;
        self.fingerprints += other.fingerprints;
        self.notifications += other.notifications;
        self.tolerated += other.tolerated;
    }
}

/// The first difference of a conversation.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The step, or what came after all steps.
    pub place: String,
    pub what: String,
    pub direct: Vec<String>,
    pub pooled: Vec<String>,
}

/// Lines of each side from the first difference on.
const SHOWN_MAX: usize = 6;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{} differs:", self.place, self.what)?;
        let same = self
            .direct
            .iter()
            .zip(&self.pooled)
            .take_while(|(direct, pooled)| direct == pooled);
        let same = same.count();
        if same > 0 {
            writeln!(f, "    ({same} lines are the same)")?;
        }
        for line in self.direct[same..].iter().take(SHOWN_MAX) {
            writeln!(f, "    direct: {line}")?;
        }
        for line in self.pooled[same..].iter().take(SHOWN_MAX) {
            writeln!(f, "    pooled: {line}")?;
        }
        Ok(())
    }
}

/// Why a conversation ends before its last step.
enum Stop {
    Different(Box<Difference>),
    Tolerated,
}

/// # Errors
/// The first difference.
pub fn run(ground: &mut Ground, script: &Script, tally: &mut Tally) -> Result<(), Box<Difference>> {
    let sides = ground.prepare(script);
    run_between(&sides, ground.patience, script, tally)
}

/// As [`run`], with PostgreSQL itself in the pooler's place.
///
/// # Errors
/// The first difference: then the conversation has no answer of its own.
pub fn run_without_a_pooler(ground: &mut Ground, script: &Script) -> Result<(), Box<Difference>> {
    let sides = ground.prepare_without_a_pooler(script);
    run_between(&sides, ground.patience, script, &mut Tally::default())
}

fn run_between(
    sides: &Sides,
    patience: Duration,
    script: &Script,
    tally: &mut Tally,
) -> Result<(), Box<Difference>> {
    let mut conversation = Conversation {
        sides,
        script,
        patience,
        pairs: BTreeMap::new(),
        place: String::new(),
        tally,
    };
    conversation.tally.conversations += 1;
    match conversation.run() {
        Ok(()) => Ok(()),
        Err(Stop::Tolerated) => {
            conversation.tally.tolerated += 1;
            Ok(())
        }
        Err(Stop::Different(difference)) => Err(difference),
    }
}

struct Conversation<'a> {
    sides: &'a Sides,
    script: &'a Script,
    patience: Duration,
    pairs: BTreeMap<usize, Pair>,
    place: String,
    tally: &'a mut Tally,
}

/// One client on both sides.
struct Pair {
    direct: Client,
    pooled: Client,
    after: After,
    /// Of the direct session, when it was last idle.
    fingerprint: Fingerprint,
    randomness: Randomness,
    /// Whether it may have set a parameter whose name no text has, which pins for good.
    sets_unnamed: bool,
}

/// What is known of a session's random numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Randomness {
    Untouched,
    /// Perhaps seeded, which is enough for a pin, but not for a comparison.
    Touched,
    Seeded,
}

impl Randomness {
    fn after(self, units: &[Unit], reply: &Reply) -> Self {
        let alone = matches!(units, [Unit::Simple(statements)] if statements.len() == 1);
        match self {
            _ if !is_about(units, "seed") => self,
            _ if alone && !reply.has_any_error() => Randomness::Seeded,
            Randomness::Seeded => Randomness::Seeded,
            _ => Randomness::Touched,
        }
    }
}

impl Pair {
    /// Whether it may have a server connection between its transactions.
    fn holds(&self) -> bool {
        self.after != After::Idle
            || self.fingerprint.pins()
            || self.randomness != Randomness::Untouched
            || self.sets_unnamed
    }
}

impl Conversation<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        for (index, step) in self.script.steps.iter().enumerate() {
            let taken = match &step.act {
                Act::Connect(_) => !self.pairs.contains_key(&step.client),
                Act::Leave(_) => self.pairs.contains_key(&step.client),
                Act::Say(_) => self.may_act(step.client),
            };
            if !taken {
                self.tally.left_out += 1;
                continue;
            }
            self.tally.steps += 1;
            self.place = format!("step {index}: {step}");
            match &step.act {
                Act::Connect(parameters) => self.connect(step.client, parameters)?,
                Act::Leave(how) => self.leave(step.client, *how),
                Act::Say(units) => self.say(step.client, units)?,
            }
            self.observe(step.client)?;
        }
        self.place = "after the last step".into();
        self.observe_all()?;
        self.compare_notifications()?;
        self.nothing_is_left_behind()
    }

    fn may_act(&self, client: usize) -> bool {
        let holders = self.pairs.values().filter(|pair| pair.holds()).count();
        let pair = self.pairs.get(&client);
        pair.is_some_and(|pair| pair.holds() || holders < self.script.pool)
    }

    fn connect(&mut self, number: usize, parameters: &[(String, String)]) -> Result<(), Stop> {
        let (direct, expected) = Client::connect(&self.sides.direct, parameters, self.patience);
        let (pooled, reply) = Client::connect(&self.sides.pooled, parameters, self.patience);
        self.same("the greeting", &expected.lines, &reply.lines)?;
        let (Some(mut direct), Some(pooled)) = (direct, pooled) else {
            return Ok(());
        };
        let fingerprint = Fingerprint::take(&mut direct).expect("a new session answers");
        let pair = Pair {
            direct,
            pooled,
            after: After::Idle,
            fingerprint,
            randomness: Randomness::Untouched,
            sets_unnamed: false,
        };
        self.pairs.insert(number, pair);
        Ok(())
    }

    fn leave(&mut self, number: usize, how: Leave) {
        if let Some(Pair { direct, pooled, .. }) = self.pairs.remove(&number) {
            direct.leave(how);
            pooled.leave(how);
        }
    }

    fn say(&mut self, number: usize, units: &[Unit]) -> Result<(), Stop> {
        let Some(pair) = self.pairs.get_mut(&number) else {
            return Ok(());
        };
        let expected = pair.direct.say(units);
        let reply = pair.pooled.say(units);
        let (expected, reply) = (
            pair.without_random_numbers(expected),
            pair.without_random_numbers(reply),
        );
        pair.after = expected.after;
        if expected != reply {
            tolerate(units, &expected, &reply)?;
            let last = |reply: &Reply| vec![format!("{:?}", reply.after)];
            self.same("the reply", &expected.lines, &reply.lines)?;
            self.same("the connection", &last(&expected), &last(&reply))?;
            // The same lines in another order.
            return self.different(
                "the reply's order",
                vec![expected.to_string()],
                vec![reply.to_string()],
            );
        }
        pair.randomness = pair.randomness.after(units, &expected);
        pair.sets_unnamed |= is_about(units, "set_config(") && is_about(units, " || '");
        if !expected.after.is_open() {
            self.pairs.remove(&number);
        }
        Ok(())
    }

    /// After a step of `actor`.
    fn observe(&mut self, actor: usize) -> Result<(), Stop> {
        let observe = self.script.observe;
        let Some(pair) = self.pairs.get_mut(&actor) else {
            return self.observe_others(actor);
        };
        match pair.after {
            After::Idle => pair.renew_fingerprint(),
            // A question within a transaction has effects there: on both sides, or on none.
            After::InTransaction if observe != Observe::AtTheEnd => pair.renew_fingerprint(),
            _ => return self.observe_others(actor),
        }
        // Whoever has just connected may find all server connections taken.
        if observe != Observe::AtTheEnd && self.may_act(actor) {
            self.compare_fingerprint(actor)?;
        }
        self.observe_others(actor)
    }

    fn observe_others(&mut self, actor: usize) -> Result<(), Stop> {
        if self.script.observe != Observe::Everybody {
            return Ok(());
        }
        let others: Vec<usize> = self
            .pairs
            .keys()
            .copied()
            .filter(|number| *number != actor)
            .collect();
        others
            .into_iter()
            .try_for_each(|number| self.compare_if_idle(number))
    }

    fn observe_all(&mut self) -> Result<(), Stop> {
        let all: Vec<usize> = self.pairs.keys().copied().collect();
        all.into_iter()
            .try_for_each(|number| self.compare_if_idle(number))
    }

    /// Of a client that is idle the direct session's fingerprint is known, and does not change.
    fn compare_if_idle(&mut self, number: usize) -> Result<(), Stop> {
        if self.may_act(number) && self.pairs[&number].after == After::Idle {
            self.compare_fingerprint(number)?;
        }
        Ok(())
    }

    fn compare_fingerprint(&mut self, number: usize) -> Result<(), Stop> {
        let Some(pair) = self.pairs.get_mut(&number) else {
            return Ok(());
        };
        self.tally.fingerprints += 1;
        let expected = pair.fingerprint.clone();
        let found = Fingerprint::take(&mut pair.pooled);
        let found = found.map_or_else(|| vec!["no answer".into()], |found| found.lines().to_vec());
        self.same_set(
            &format!("the fingerprint of client {number}"),
            expected.lines(),
            &found,
        )
    }

    /// Those of clients that are still there and idle.
    fn compare_notifications(&mut self) -> Result<(), Stop> {
        let all: Vec<usize> = self.pairs.keys().copied().collect();
        for number in all {
            if !self.may_act(number) || self.pairs[&number].after != After::Idle {
                continue;
            }
            let Some(pair) = self.pairs.get_mut(&number) else {
                continue;
            };
            pair.await_notifications();
            let (direct, pooled) = (
                pair.direct.notifications.clone(),
                pair.pooled.notifications.clone(),
            );
            self.tally.notifications += direct.len();
            self.place = format!("client {number} after the last step");
            if direct != pooled {
                return self.different(
                    "what was notified",
                    vec![direct.join(", ")],
                    vec![pooled.join(", ")],
                );
            }
        }
        Ok(())
    }

    /// When all have left, new clients on every server connection of the pool find nothing.
    fn nothing_is_left_behind(&mut self) -> Result<(), Stop> {
        let numbers: Vec<usize> = self.pairs.keys().copied().collect();
        numbers
            .into_iter()
            .for_each(|number| self.leave(number, Leave::Silently));
        self.place = "new clients after all others have left".into();
        let begin = simple(&["BEGIN"]);
        let (_direct, expected) = self.successor(&self.sides.direct, &begin);
        let mut successors = Vec::new();
        for _ in 0..self.script.pool {
            let (client, found) = self.successor(&self.sides.pooled, &begin);
            self.same_set("the fingerprint", &expected, &found)?;
            successors.push(client);
        }
        Ok(())
    }

    /// A new client that keeps its server connection, and its fingerprint.
    fn successor(&self, place: &Place, begin: &Unit) -> (Option<Client>, Vec<String>) {
        let (client, reply) = Client::connect(place, &[], self.patience);
        let Some(mut client) = client else {
            return (None, vec![reply.to_string()]);
        };
        let reply = client.say(std::slice::from_ref(begin));
        match Fingerprint::take(&mut client) {
            Some(fingerprint) => (Some(client), fingerprint.lines().to_vec()),
            None => (None, vec![reply.to_string()]),
        }
    }

    fn same(&self, what: &str, direct: &[String], pooled: &[String]) -> Result<(), Stop> {
        if direct == pooled {
            return Ok(());
        }
        self.different(what, direct.to_vec(), pooled.to_vec())
    }

    /// Of sorted lines only those are told that one side lacks.
    fn same_set(&self, what: &str, direct: &[String], pooled: &[String]) -> Result<(), Stop> {
        let only = |these: &[String], those: &[String]| {
            these
                .iter()
                .filter(|line| !those.contains(line))
                .cloned()
                .collect::<Vec<_>>()
        };
        self.same(what, &only(direct, pooled), &only(pooled, direct))
    }

    fn different(&self, what: &str, direct: Vec<String>, pooled: Vec<String>) -> Result<(), Stop> {
        Err(Stop::Different(Box::new(Difference {
            place: self.place.clone(),
            what: what.into(),
            direct,
            pooled,
        })))
    }
}

impl Pair {
    fn renew_fingerprint(&mut self) {
        if let Some(fingerprint) = Fingerprint::take(&mut self.direct) {
            self.fingerprint = fingerprint;
        }
    }

    /// A session that was not seeded has random numbers of its own.
    fn without_random_numbers(&self, mut reply: Reply) -> Reply {
        if self.randomness != Randomness::Seeded {
            let random = reply
                .lines
                .iter_mut()
                .filter(|line| line.starts_with("D(random "));
            random.for_each(|line| line.truncate("D(random".len()));
        }
        reply
    }

    /// A round on both sides: PostgreSQL delivers before it is ready again; through a pool a notification may take its time.
    fn await_notifications(&mut self) {
        let round = [simple(&[""])];
        self.direct.say(&round);
        self.pooled.say(&round);
        let deadline = Instant::now() + DELIVERY;
        while self.pooled.notifications.len() < self.direct.notifications.len()
            && Instant::now() < deadline
        {
            self.pooled.say(&round);
        }
    }
}

/// The differences that are allowed; nothing that follows them can be compared.
fn tolerate(units: &[Unit], expected: &Reply, reply: &Reply) -> Result<(), Stop> {
    let first = expected
        .lines
        .iter()
        .zip(&reply.lines)
        .find(|(direct, pooled)| direct != pooled);
    let refused = first.is_some_and(|(_, pooled)| pooled.starts_with(NOT_YET_DEFINED));
    let of_sequence = is_about(units, "currval(") || is_about(units, "lastval(");
    let healed = expected.lines.iter().any(|line| line.contains(OUTDATED))
        && !reply.lines.iter().any(|line| line.contains(OUTDATED));
    let aborted = first
        .is_some_and(|(direct, pooled)| direct.starts_with("E(") && pooled.starts_with(ABORTED));
    if (refused && of_sequence) || healed || aborted {
        return Err(Stop::Tolerated);
    }
    Ok(())
}

fn is_about(units: &[Unit], word: &str) -> bool {
    units.iter().any(|unit| unit.to_string().contains(word))
}
