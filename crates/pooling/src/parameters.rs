//! What is set on a session: an immutable, interned value. Each client has the one it expects, each server connection the one
//! that is on it. Two that are equal are the same pointer, so the common case costs one comparison; where they differ, `replay`
//! writes the SQL that turns one into the other.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a parameter's value is known from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// The server reports it (GUC_REPORT), so every change of it is seen.
    Reported,
    /// The client's startup packet asked for it and the server does not report it. A RESET goes back to this value.
    Startup,
    /// The session has set it and the server does not report it: a census has found it.
    Session,
}

/// One parameter of a session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parameter {
    pub name: Box<str>,
    pub value: Box<str>,
    pub origin: Origin,
}

/// A statement prepared by SQL's PREPARE: its name and that command.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Prepared {
    pub name: Box<str>,
    pub text: Box<str>,
}

/// What is set on a session: parameters, sorted by name without regard to case, the role among them; and what SQL has prepared, sorted.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Parameters {
    entries: Box<[Parameter]>,
    prepared: Box<[Prepared]>,
}

/// Reported, but facts about the server rather than settings: nobody can put them back.
const FACTS: [&str; 5] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "server_encoding",
    "server_version",
];

/// Who the session acts as. What it may set depends on it, so these are put back first and set last.
const SESSION_AUTHORIZATION: &str = "session_authorization";
const ROLE: &str = "role";

/// The value of a parameter that nobody knows: no real value equals it, since they hold no NUL.
const UNKNOWN: &str = "\0";

impl Parameters {
    /// The parameters a server reported at log-in.
    pub fn reported<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Parameters {
        pairs
            .into_iter()
            .fold(Parameters::default(), |all, (name, value)| {
                all.with(name, value, Origin::Reported)
            })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.entries.iter()
    }

    pub fn value(&self, name: &str) -> Option<&str> {
        self.position(name).ok().map(|at| &*self.entries[at].value)
    }

    /// The same with one value changed or added. A parameter that the server reports stays one, whoever sets it.
    pub fn with(&self, name: &str, value: &str, origin: Origin) -> Parameters {
        let mut entries = self.entries.to_vec();
        match self.position(name) {
            Ok(at) => {
                entries[at].value = value.into();
                if origin == Origin::Reported {
                    entries[at].origin = origin;
                }
            }
            Err(at) => entries.insert(
                at,
                Parameter {
                    name: name.into(),
                    value: value.into(),
                    origin,
                },
            ),
        }
        Parameters {
            entries: entries.into(),
            prepared: self.prepared.clone(),
        }
    }

    /// The same with a value that a census has found on the session.
    pub fn learnt(&self, name: &str, value: &str) -> Parameters {
        match self.position(name) {
            Ok(at) if self.entries[at].origin == Origin::Reported => self.clone(),
            _ => self.with(name, value, Origin::Session),
        }
    }

    pub fn without(&self, name: &str) -> Parameters {
        self.filtered(|entry| !entry.name.eq_ignore_ascii_case(name))
    }

    /// What is left when all that a session can set is undone (DISCARD ALL), as far as the server does not report it.
    pub fn reported_only(&self) -> Parameters {
        self.filtered(|entry| entry.origin == Origin::Reported)
    }

    /// What is left after DISCARD ALL.
    pub fn bare(&self) -> Parameters {
        self.reported_only().with_prepared(Vec::new())
    }

    pub fn with_prepared(&self, prepared: Vec<Prepared>) -> Parameters {
        Parameters {
            entries: self.entries.clone(),
            prepared: prepared.into(),
        }
    }

    pub fn prepared(&self) -> &[Prepared] {
        &self.prepared
    }

    fn filtered(&self, keep: impl Fn(&Parameter) -> bool) -> Parameters {
        Parameters {
            entries: self
                .entries
                .iter()
                .filter(|entry| keep(entry))
                .cloned()
                .collect(),
            prepared: self.prepared.clone(),
        }
    }

    /// What a client expects whose server connection has `self`, as a census found it. What it asked for at log-in and is not set now has been
    /// reset, and goes back to that value; of what servers report it has been told, which is `told`.
    pub fn expected_by(&self, at_login: &Parameters, told: &Parameters) -> Parameters {
        let is_unchanged = |entry: &&Parameter| {
            let now = self.value(&entry.name);
            entry.origin == Origin::Startup && now.is_none_or(|value| *value == *entry.value)
        };
        let reported = |entry: &&Parameter| entry.origin == Origin::Reported;
        let back = at_login.entries.iter().filter(is_unchanged);
        let told = told.entries.iter().filter(reported);
        back.chain(told).fold(self.clone(), |all, entry| {
            all.without(&entry.name)
                .with(&entry.name, &entry.value, entry.origin)
        })
    }

    /// What a client that asked for `startup` may expect of a server that greets with `self`.
    pub fn for_client<'a>(
        &self,
        startup: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Parameters {
        startup
            .into_iter()
            .filter(|(name, _)| !is_fact(name))
            .fold(self.clone(), |all, (name, value)| {
                all.with(name, value, Origin::Startup)
            })
    }

    /// What is left after a RESET on a server connection: what the server reports, and nothing is known of the rest, since
    /// RESET ALL and the RESET of one parameter have the same command tag.
    pub fn unsure(&self) -> Parameters {
        let mut unsure = self.clone();
        let settings = unsure
            .entries
            .iter_mut()
            .filter(|entry| entry.origin != Origin::Reported && !is_identity(&entry.name));
        for entry in settings {
            entry.value = UNKNOWN.into();
        }
        unsure
    }

    /// Appends the SQL that turns a session with `self` into one with `target`; false if there is nothing to do. What may be set depends on
    /// the role: so it is put back first, and set last.
    pub fn replay(&self, target: &Parameters, sql: &mut Vec<u8>) -> bool {
        let before = sql.len();
        let mut settings = Vec::new();
        self.replay_settings(target, &mut settings);
        self.replay_prepared(target, &mut settings);
        let differs = |name| self.value(name) != target.value(name);
        let authorization =
            differs(SESSION_AUTHORIZATION) && target.value(SESSION_AUTHORIZATION).is_some();
        let role = authorization || differs(ROLE) || !settings.is_empty();
        if role && self.value(ROLE).is_some() {
            sql.extend_from_slice(b"RESET ROLE;");
        }
        if authorization {
            sql.extend_from_slice(b"RESET SESSION AUTHORIZATION;");
        }
        sql.extend_from_slice(&settings);
        for name in [
            authorization.then_some(SESSION_AUTHORIZATION),
            role.then_some(ROLE),
        ]
        .into_iter()
        .flatten()
        {
            if let Some(value) = target.value(name) {
                set(sql, name, value);
            }
        }
        sql.len() > before
    }

    fn replay_prepared(&self, target: &Parameters, sql: &mut Vec<u8>) {
        for stale in self
            .prepared
            .iter()
            .filter(|one| !target.prepared.contains(one))
        {
            sql.extend_from_slice(b"DEALLOCATE ");
            wire::quote_identifier(sql, stale.name.as_bytes());
            sql.push(b';');
        }
        for wanted in target
            .prepared
            .iter()
            .filter(|one| !self.prepared.contains(one))
        {
            sql.extend_from_slice(wanted.text.as_bytes());
            sql.extend_from_slice(b"\n;"); // it may end in a comment
        }
    }

    fn replay_settings(&self, target: &Parameters, sql: &mut Vec<u8>) {
        let unset = |entry: &&Parameter| {
            entry.origin != Origin::Reported
                && !is_identity(&entry.name)
                && target.value(&entry.name).is_none()
        };
        for stale in self.entries.iter().filter(unset) {
            sql.extend_from_slice(b"RESET ");
            wire::quote_identifier(sql, stale.name.as_bytes());
            sql.push(b';');
        }
        let differs = |p: &&Parameter| {
            !is_fact(&p.name) && !is_identity(&p.name) && self.value(&p.name) != Some(&p.value)
        };
        // What follows the change of client_encoding would be spelled in the new one.
        let (encoding, others): (Vec<_>, Vec<_>) = target
            .entries
            .iter()
            .filter(differs)
            .partition(|p| p.name.eq_ignore_ascii_case("client_encoding"));
        for wanted in others.into_iter().chain(encoding) {
            wanted.set_statement(sql);
        }
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|p| compare_ignoring_case(&p.name, name))
    }
}

impl Parameter {
    /// A setting that the server reports, rather than a fact about it.
    pub fn is_reported_setting(&self) -> bool {
        self.origin == Origin::Reported && !is_fact(&self.name)
    }

    /// A reported parameter takes a plain SET; lists of quoted names (search_path) and unknown ones go through set_config,
    /// which takes the text as the startup packet would.
    fn set_statement(&self, sql: &mut Vec<u8>) {
        let plain =
            self.origin == Origin::Reported && !self.name.eq_ignore_ascii_case("search_path");
        if plain {
            set(sql, &self.name, &self.value);
        } else {
            sql.extend_from_slice(b"SELECT pg_catalog.set_config(");
            quote(sql, &self.name);
            sql.push(b',');
            quote(sql, &self.value);
            sql.extend_from_slice(b",false);");
        }
    }
}

fn set(sql: &mut Vec<u8>, name: &str, value: &str) {
    sql.extend_from_slice(b"SET ");
    wire::quote_identifier(sql, name.as_bytes());
    sql.extend_from_slice(b" TO ");
    quote(sql, value);
    sql.push(b';');
}

/// A literal of ASCII only: whatever client_encoding the session has at the moment, it means the same. In some encodings (SJIS, BIG5, GBK)
/// a backslash after a byte beyond ASCII would be a part of a character.
pub(crate) fn quote(sql: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        return wire::quote_literal(sql, text.as_bytes());
    }
    sql.extend_from_slice(b"E'");
    for c in text.chars().take_while(|c| *c != '\0') {
        match c {
            '\'' | '\\' => sql.extend_from_slice(&[c as u8; 2]),
            c if c.is_ascii() => sql.push(c as u8),
            c => sql.extend_from_slice(format!("\\U{:08X}", c as u32).as_bytes()),
        }
    }
    sql.push(b'\'');
}

fn is_identity(name: &str) -> bool {
    [ROLE, SESSION_AUTHORIZATION]
        .iter()
        .any(|identity| identity.eq_ignore_ascii_case(name))
}

fn is_fact(name: &str) -> bool {
    FACTS.iter().any(|fact| fact.eq_ignore_ascii_case(name))
}

fn compare_ignoring_case(a: &str, b: &str) -> std::cmp::Ordering {
    let lower = |text: &str| {
        text.bytes()
            .map(|byte| byte.to_ascii_lowercase())
            .collect::<Vec<_>>()
    };
    lower(a).cmp(&lower(b))
}

/// Makes equal parameters one value. Shared by all threads; asked only when something changes.
#[derive(Default)]
pub struct Interner {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    values: HashSet<Arc<Parameters>>,
    /// When the set has grown to this size, values that nobody holds any more are dropped.
    sweep_at: usize,
}

impl Interner {
    pub fn intern(&self, parameters: Parameters) -> Arc<Parameters> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.values.get(&parameters) {
            return Arc::clone(found);
        }
        if known.values.len() >= known.sweep_at {
            known.values.retain(|value| Arc::strong_count(value) > 1);
            known.sweep_at = (known.values.len() * 2).max(64);
        }
        let value = Arc::new(parameters);
        known.values.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Parameters {
        Parameters::reported([
            ("server_version", "17.1"),
            ("TimeZone", "UTC"),
            ("client_encoding", "UTF8"),
        ])
    }

    fn replay(from: &Parameters, to: &Parameters) -> String {
        let mut sql = Vec::new();
        from.replay(to, &mut sql);
        String::from_utf8(sql).expect("the pooler writes UTF-8")
    }

    #[test]
    fn a_client_that_asks_for_nothing_needs_no_replay() {
        let server = welcome();
        assert_eq!(replay(&server, &server.for_client([])), "");
    }

    #[test]
    fn reported_parameters_are_set_and_set_back() {
        let server = welcome();
        let client = server.for_client([("timezone", "Europe/Berlin")]);
        assert_eq!(client.value("TimeZone"), Some("Europe/Berlin"));
        assert_eq!(
            replay(&server, &client),
            "SET \"TimeZone\" TO 'Europe/Berlin';"
        );
        assert_eq!(replay(&client, &server), "SET \"TimeZone\" TO 'UTC';");
    }

    #[test]
    fn unreported_startup_parameters_are_set_and_reset() {
        let server = welcome();
        let client = server.for_client([("statement_timeout", "5s"), ("server_version", "1")]);
        assert_eq!(
            replay(&server, &client),
            "SELECT pg_catalog.set_config('statement_timeout','5s',false);"
        );
        assert_eq!(replay(&client, &server), "RESET \"statement_timeout\";");
    }

    #[test]
    fn after_a_reset_nothing_is_assumed_of_unreported_parameters() {
        let server = welcome();
        let client = server.for_client([("statement_timeout", "5s"), ("timezone", "UTC")]);
        let reset = client.unsure();
        assert_eq!(replay(&reset, &server), "RESET \"statement_timeout\";");
        assert_eq!(
            replay(&reset, &client),
            "SELECT pg_catalog.set_config('statement_timeout','5s',false);"
        );
        assert_eq!(
            replay(&reset, &reset.with("TIMEZONE", "UTC", Origin::Reported)),
            ""
        );
    }

    #[test]
    fn client_encoding_is_set_last() {
        let server = welcome()
            .with("application_name", "", Origin::Reported)
            .with("DateStyle", "ISO", Origin::Reported);
        let client = server.for_client([
            ("Client_Encoding", "SJIS"),
            ("datestyle", "German"),
            ("TIMEZONE", "Asia/Tokyo"),
        ]);
        let expected = "SET \"DateStyle\" TO 'German';SET \"TimeZone\" TO 'Asia/Tokyo';SET \"client_encoding\" TO 'SJIS';";
        assert_eq!(replay(&server, &client), expected);
        let expected = "SET \"DateStyle\" TO 'ISO';SET \"TimeZone\" TO 'UTC';SET \"client_encoding\" TO 'UTF8';";
        assert_eq!(replay(&client, &server), expected);
    }

    #[test]
    fn literals_mean_the_same_in_every_client_encoding() {
        let server = welcome();
        let client = server.for_client([("app.name", "\u{8868}\\'; drop table t; --")]);
        let sql = "SELECT pg_catalog.set_config('app.name',E'\\U00008868\\\\''; drop table t; --',false);";
        assert_eq!(replay(&server, &client), sql);
    }

    #[test]
    fn names_differ_by_more_than_case() {
        let server = Parameters::reported([("B", "1"), ("a", "2"), ("C", "3")]);
        assert_eq!(
            server.iter().map(|p| &*p.name).collect::<Vec<_>>(),
            ["a", "B", "C"]
        );
        for (name, value) in [
            ("A", Some("2")),
            ("b", Some("1")),
            ("c", Some("3")),
            ("d", None),
        ] {
            assert_eq!(server.value(name), value);
        }
        let changed = server.with("a", "9", Origin::Startup);
        assert_eq!((changed.iter().count(), changed.value("A")), (3, Some("9")));
        assert_eq!(replay(&changed, &server), "SET \"a\" TO '2';");
        assert_eq!(
            replay(
                &server,
                &server.for_client([("IS_SUPERUSER", "on"), ("Server_Version", "1")])
            ),
            ""
        );
    }

    #[test]
    fn equal_values_are_one_pointer_and_unused_ones_are_dropped() {
        let interner = Interner::default();
        let a = interner.intern(welcome());
        assert!(Arc::ptr_eq(&a, &interner.intern(welcome())));
        for n in 0..1000 {
            interner.intern(welcome().for_client([("application_name", n.to_string().as_str())]));
        }
        assert!(interner.known.lock().expect("not poisoned").values.len() <= 129);
    }
}
