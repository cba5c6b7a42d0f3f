//! What a statement would cost in a transaction pool, and what to do about it.

use sql::lexer::{Backslashes, Kind, Lexer};
use sql::{LearntNames, Scanner, Strings, Suspicion};

/// What a client pays for a statement, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// After the transaction the server is asked what its session holds: one short query.
    Census,
    /// The client keeps its server connection for as long as the state is there.
    PinWhileItLasts,
    /// The client keeps its server connection until it leaves.
    PinForGood,
}

/// Why a statement costs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    pub cost: Cost,
    pub what: &'static str,
    pub change: &'static str,
}

const fn reason(cost: Cost, what: &'static str, change: &'static str) -> Reason {
    Reason { cost, what, change }
}

/// Of those that cost a census, the one that says most comes first.
const REASONS: &[(Suspicion, Reason)] = &[
    (
        Suspicion::UNSEEN,
        reason(
            Cost::PinForGood,
            "state that no query shows (dblink_connect, a replication origin, globals of PL/Python)",
            "give these clients a pool in session mode",
        ),
    ),
    (
        Suspicion::UNNAMED,
        reason(
            Cost::PinForGood,
            "set_config with a name that is put together",
            "write the name as a literal or a parameter, or let the value end with the transaction (third argument true)",
        ),
    ),
    (
        Suspicion::SEED,
        reason(
            Cost::PinForGood,
            "setseed: no query shows the state of random()",
            "draw random numbers in the application, or use a pool in session mode",
        ),
    ),
    (
        Suspicion::LIBRARY,
        reason(
            Cost::PinForGood,
            "LOAD cannot be undone",
            "name the library in session_preload_libraries",
        ),
    ),
    (
        Suspicion::ADVISORY_LOCK,
        reason(
            Cost::PinWhileItLasts,
            "an advisory lock of the session",
            "pg_advisory_xact_lock: it ends with the transaction and costs nothing",
        ),
    ),
    (
        Suspicion::TEMPORARY,
        reason(
            Cost::PinWhileItLasts,
            "temporary objects",
            "ON COMMIT DROP within one transaction leaves a census only",
        ),
    ),
    (
        Suspicion::HOLD_CURSOR,
        reason(
            Cost::PinWhileItLasts,
            "a cursor WITH HOLD",
            "read it to its end in the transaction that declares it",
        ),
    ),
    (
        Suspicion::SEQUENCE_READ,
        reason(
            Cost::PinWhileItLasts,
            "currval or lastval: the client stays where its rows were inserted until it has asked",
            "INSERT ... RETURNING",
        ),
    ),
    (
        Suspicion::LEARNT,
        reason(
            Cost::Census,
            "a function, trigger or view that sets parameters",
            "a function's own SET clause ends with the call",
        ),
    ),
    (
        Suspicion::SETTINGS,
        reason(
            Cost::Census,
            "parameters; what stays set travels with the client",
            "what a client always wants belongs into its connection string (options) or ALTER ROLE ... SET, and costs nothing there",
        ),
    ),
    (
        Suspicion::ROLE,
        reason(
            Cost::Census,
            "the role or the session's authorization; it travels with the client",
            "log in as the role, if it is always the same",
        ),
    ),
    (
        Suspicion::PREPARED,
        reason(
            Cost::Census,
            "PREPARE, EXECUTE or DEALLOCATE in SQL",
            "let the driver prepare (by the protocol): it costs nothing",
        ),
    ),
    (
        Suspicion::DISCARD,
        reason(
            Cost::Census,
            "DISCARD",
            "an application's own pool need not reset sessions: leave it out",
        ),
    ),
    (
        Suspicion::LISTEN,
        reason(
            Cost::Census,
            "LISTEN or UNLISTEN: one server connection of the pool listens for all its clients",
            "nothing",
        ),
    ),
    (
        Suspicion::CATALOG_CHANGE,
        reason(
            Cost::Census,
            "the catalogue changes; until it has been read again every transaction costs a census",
            "nothing, unless it is done all the time",
        ),
    ),
    (
        Suspicion::OPAQUE,
        reason(
            Cost::Census,
            "code that the text does not show (DO, CALL, text that is executed)",
            "nothing; what is done often is better a function, which is looked at once",
        ),
    ),
];

/// What one statement costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Those of the highest cost.
    pub reasons: Vec<Reason>,
    /// The database's own objects through which it does what it does.
    pub through: Vec<String>,
}

impl Verdict {
    pub fn is_free(&self) -> bool {
        self.reasons.is_empty()
    }

    /// The highest cost.
    pub fn cost(&self) -> Option<Cost> {
        self.reasons.first().map(|reason| reason.cost)
    }
}

/// Judges statements as Weir would.
pub struct Auditor {
    scanner: Scanner,
    learnt: LearntNames,
}

/// There are too many names to look for.
#[derive(Debug, thiserror::Error)]
#[error("the database has too many names to look for: {0}")]
pub struct TooManyNames(String);

/// Objects of the database that a verdict names.
const THROUGH_MAX: usize = 3;

impl Auditor {
    /// # Errors
    /// [`TooManyNames`]: Weir itself would have to ask after every transaction.
    pub fn new(learnt: LearntNames) -> Result<Self, TooManyNames> {
        let scanner =
            Scanner::new(&learnt.marked()).map_err(|error| TooManyNames(error.to_string()))?;
        Ok(Self { scanner, learnt })
    }

    pub fn judge(&self, text: &str) -> Verdict {
        let mut found = self.scanner.suspicion(text.as_bytes());
        if found.contains(Suspicion::SETTINGS)
            && sql::sets_unnamed(text.as_bytes(), Strings::default())
        {
            found |= Suspicion::UNNAMED;
        }
        let mut reasons: Vec<Reason> = REASONS
            .iter()
            .filter(|(suspicion, _)| found.intersects(*suspicion))
            .map(|(_, reason)| *reason)
            .collect();
        // What pins costs a census, too, and one census is for everything.
        match reasons.iter().map(|reason| reason.cost).max() {
            Some(Cost::Census) => reasons.truncate(1),
            highest => reasons.retain(|reason| Some(reason.cost) == highest),
        }
        let through = if reasons.is_empty() {
            Vec::new()
        } else {
            self.through(text)
        };
        Verdict { reasons, through }
    }

    /// The learnt names that the text has.
    fn through(&self, text: &str) -> Vec<String> {
        let tokens = Lexer::new(text.as_bytes(), Backslashes::Plain);
        let words: std::collections::BTreeSet<Vec<u8>> = tokens
            .filter(|token| matches!(token.kind, Kind::Word | Kind::QuotedWord))
            .map(|token| match token.kind {
                Kind::Word => token.text.to_ascii_lowercase(),
                _ => token.text[1..token.text.len().saturating_sub(1)].to_vec(),
            })
            .collect();
        let named = words
            .iter()
            .filter(|word| !self.learnt.get(word).is_empty())
            .map(|word| String::from_utf8_lossy(word).into_owned());
        named.take(THROUGH_MAX).collect()
    }
}

/// The text on one line, with `?` for constants: so those that differ in nothing else are the same.
pub fn without_constants(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut end = 0;
    for token in Lexer::new(text.as_bytes(), Backslashes::Plain) {
        if token.start > end && !plain.is_empty() {
            plain.push(' ');
        }
        end = token.end();
        match token.kind {
            Kind::Literal(_) | Kind::Number => plain.push('?'),
            _ => plain.push_str(&String::from_utf8_lossy(token.text)),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auditor() -> Auditor {
        let mut learnt = LearntNames::default();
        learnt.insert(b"set_tenant", Suspicion::SETTINGS);
        Auditor::new(learnt).expect("few names")
    }

    fn cost(text: &str) -> Option<Cost> {
        auditor().judge(text).cost()
    }

    #[test]
    fn costs_are_those_of_the_pool() {
        for (text, expected) in [
            ("SELECT * FROM t WHERE a = $1", None),
            ("BEGIN", None),
            ("INSERT INTO t VALUES (1) RETURNING id", None),
            ("SELECT pg_advisory_xact_lock(1)", None),
            ("SET search_path TO a", Some(Cost::Census)),
            ("SELECT set_tenant(1)", Some(Cost::Census)),
            ("CREATE TABLE t (a int)", Some(Cost::Census)),
            ("CREATE TEMP TABLE t (a int)", Some(Cost::PinWhileItLasts)),
            (
                "SELECT pg_try_advisory_lock(1)",
                Some(Cost::PinWhileItLasts),
            ),
            ("SELECT setseed(0.5)", Some(Cost::PinForGood)),
            (
                "SELECT set_config('a.' || $1, $2, false)",
                Some(Cost::PinForGood),
            ),
        ] {
            assert_eq!(cost(text), expected, "{text}");
        }
    }

    #[test]
    fn a_verdict_names_the_objects_that_it_comes_from() {
        let verdict = auditor().judge("SELECT app.Set_Tenant(5)");
        assert_eq!(verdict.through, ["set_tenant"]);
        assert!(
            verdict
                .reasons
                .iter()
                .any(|it| it.what.contains("function"))
        );
        assert!(auditor().judge("SELECT 1").through.is_empty());
    }

    #[test]
    fn constants_do_not_tell_statements_apart() {
        assert_eq!(
            without_constants("SET app.x =  'it''s' -- for this one\n; SELECT f(1, $1)"),
            "SET app.x = ? ; SELECT f(?, $1)"
        );
    }
}
