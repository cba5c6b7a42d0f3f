//! Time-outs, on both sides.

use super::sessions::longest_idle_in_transaction;
use super::span;
use crate::advise::advice::{Advice, Change, Keeps, SettingAdvice, Topic, Weight};
use crate::advise::observations::{Load, Observations, Pooler};

/// Longer than any client takes between two statements of a transaction, unless it has forgotten it. In seconds.
const IDLE_TRANSACTION_S: f64 = 60.0;
/// The server's, as a second net below the pooler's, which can tell the client why.
const SERVER_MARGIN: f64 = 1.5;
const WAIT_MIN_S: f64 = 15.0;
const WAIT_MAX_S: f64 = 120.0;
/// A pooler closes its idle connections before the server does.
const EARLIER: f64 = 0.8;

pub fn add(seen: &Observations, advice: &mut Advice) {
    idle_transactions(seen, advice);
    waits(seen, advice);
    idle_sessions(seen, advice);
    statements(seen, advice);
}

fn idle_transactions(seen: &Observations, advice: &mut Advice) {
    let longest = longest_idle_in_transaction(seen);
    let ordinary = if longest < IDLE_TRANSACTION_S {
        longest
    } else {
        0.0
    };
    let limit = in_tens(ordinary * 2.0).max(IDLE_TRANSACTION_S);
    let seen_so = match longest {
        none if none <= 0.0 => "no transaction was seen waiting for its client".to_owned(),
        some => format!(
            "a transaction waited for its client for {} at most",
            span(some)
        ),
    };
    advice.ini.settings.push(SettingAdvice {
        name: "idle_transaction_timeout",
        value: limit.to_string(),
        why: format!("{seen_so}; one that is forgotten keeps its server connection and its locks"),
        keeps: Keeps::AnyLimit,
    });
    let current = seen
        .server
        .number("idle_in_transaction_session_timeout")
        .unwrap_or_default();
    let (weight, text) = match current {
        none if none <= 0.0 => (
            Weight::Act,
            format!(
                "idle_in_transaction_session_timeout is 0, so that a forgotten transaction stays for ever; {seen_so}."
            ),
        ),
        some => (
            Weight::Good,
            format!(
                "idle_in_transaction_session_timeout is {}; {seen_so}.",
                span(some / 1_000.0)
            ),
        ),
    };
    if weight == Weight::Act {
        advice.changes.push(Change {
            what: format!(
                "ALTER SYSTEM SET idle_in_transaction_session_timeout = '{}s'; SELECT pg_reload_conf();",
                (limit * SERVER_MARGIN).ceil()
            ),
            why: "for whoever comes past the pooler; the pooler's own limit is shorter, and tells the client why".into(),
        });
    }
    advice.find(Topic::TimeOuts, weight, text);
}

fn waits(seen: &Observations, advice: &mut Advice) {
    let groups = seen.groups.iter();
    // A transaction that is as long as its client's silence tells nothing of work.
    let ordinary = groups
        .filter(|group| group.idle_in_transaction_longest_s < Load::ABANDONED_S)
        .map(|group| group.transaction_longest_s)
        .filter(|seconds| *seconds < IDLE_TRANSACTION_S)
        .fold(0.0, f64::max);
    let waited = match &seen.pooler {
        Pooler::Open(pooler) => pooler
            .pools
            .values()
            .fold(0.0, |longest, pool| pool.longest_wait_s.max(longest)),
        _ => 0.0,
    };
    let limit = in_tens((ordinary * 2.0).max(waited * 4.0)).clamp(WAIT_MIN_S, WAIT_MAX_S);
    let also = match waited {
        none if none <= 0.0 => String::new(),
        some => format!(", clients waited for up to {}", span(some)),
    };
    advice.ini.settings.push(SettingAdvice {
        name: "query_wait_timeout",
        value: limit.to_string(),
        why: format!(
            "ordinary transactions took up to {}{also}: whoever waits for longer had better be told",
            span(ordinary)
        ),
        keeps: Keeps::AnyLimit,
    });
}

/// What the server closes behind a pooler's back, a client finds closed.
fn idle_sessions(seen: &Observations, advice: &mut Advice) {
    let limit = seen
        .server
        .number("idle_session_timeout")
        .unwrap_or_default()
        / 1_000.0;
    if limit <= 0.0 {
        return;
    }
    advice.ini.settings.push(SettingAdvice {
        name: "server_idle_timeout",
        value: (limit * EARLIER).floor().max(1.0).to_string(),
        why: format!(
            "the server closes idle sessions after {} (idle_session_timeout): the pooler should be first",
            span(limit)
        ),
        keeps: Keeps::Smaller,
    });
}

fn statements(seen: &Observations, advice: &mut Advice) {
    let longest = seen
        .groups
        .iter()
        .max_by(|a, b| a.statement_longest_s.total_cmp(&b.statement_longest_s))
        .filter(|group| group.statement_longest_s > 0.0);
    let limit = seen.server.number("statement_timeout").unwrap_or_default();
    let Some(group) = longest else {
        return;
    };
    let set = match limit {
        none if none <= 0.0 => "statement_timeout is 0 for this role: a runaway statement runs for ever. Set it for each role that serves users, ALTER ROLE ... SET statement_timeout, well above its longest statement".to_owned(),
        some => format!("statement_timeout is {} for this role", span(some / 1_000.0)),
    };
    advice.find(
        Topic::TimeOuts,
        Weight::Plain,
        format!(
            "The longest statement was seen running for {} ({}). {set}.",
            span(group.statement_longest_s),
            group.who
        ),
    );
}

fn in_tens(seconds: f64) -> f64 {
    (seconds / 10.0).ceil() * 10.0
}
