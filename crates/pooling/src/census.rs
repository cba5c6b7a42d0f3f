//! The census: what a server connection holds for its client, asked of the server itself when the transaction is over and the client has
//! its answer. It is asked only about what the client's statements may have touched; what it finds becomes the client's [`Parameters`],
//! or, where nothing can be put on another connection, a pin.

use crate::channels::Name;
use crate::parameters::{Origin, Parameter, Prepared};
use crate::{Parameters, Watch};
use sql::{Backslashes, Effect, SetValue, Strings, Suspicion};
use std::collections::BTreeSet;
use wire::WireError;
use wire::backend::DataRow;
use wire::frontend::Bind;

/// What a client's statements since the last census may have done to its session, as far as their texts tell.
#[derive(Default, Debug)]
pub struct Evidence {
    pub suspicion: Suspicion,
    /// Custom parameters that the texts speak of: PostgreSQL lists them nowhere.
    pub names: BTreeSet<Box<str>>,
    /// The front of the first statement that raised the suspicion.
    pub statement: Box<str>,
    /// Whether a text has a RESET, or SET ... TO DEFAULT, which is one under another command tag.
    pub resets: bool,
    /// Names that a PREPARE in SQL has given, if it succeeded.
    pub prepared: Vec<Box<[u8]>>,
    /// The database that everybody else has to leave for the latest of them.
    pub alone_in: Option<sql::Name>,
}

/// Bytes of a statement's text that are kept to tell people about it.
const STATEMENT_SHOWN: usize = 120;
/// Custom parameters that one transaction may bring up.
const NAMES_MAX: usize = 256;

impl Evidence {
    /// Notes the names of custom parameters that a text has in it.
    fn mention(&mut self, text: &[u8]) {
        if self.suspicion.intersects(SETTINGS) {
            let room = NAMES_MAX.saturating_sub(self.names.len());
            let names = sql::setting_names(text, Strings::default());
            self.names
                .extend(names.take(room).map(String::into_boxed_str));
        }
    }

    pub fn add(&mut self, suspicion: Suspicion, text: &[u8]) {
        if self.suspicion.is_empty() {
            self.statement = shown(text);
        }
        self.suspicion |= suspicion;
        if suspicion.intersects(SETTINGS | Suspicion::PREPARED) {
            sql::statements(text, Backslashes::Plain)
                .filter_map(|statement| sql::understand(statement, Strings::default()))
                .for_each(|effect| self.note(effect));
        }
        if suspicion.contains(Suspicion::SETTINGS) && sql::sets_unnamed(text, Strings::default()) {
            self.suspicion |= Suspicion::UNNAMED;
        }
        if suspicion.contains(Suspicion::CATALOG_CHANGE) {
            self.alone_in = sql::alone_in(text, Strings::default());
        }
        self.mention(text);
    }

    fn note(&mut self, effect: Effect) {
        match effect {
            Effect::Reset(_) | Effect::ResetAll | Effect::DiscardAll => self.resets = true,
            Effect::Set {
                value: SetValue::Default,
                ..
            } => self.resets = true,
            Effect::Prepare { name, .. } => self.prepared.push(name.into_bytes().into()),
            _ => {}
        }
    }

    /// Notes the parameters that the catalogue's functions may set, if one of them may have run.
    pub fn mention_learnt(&mut self, watch: &Watch) {
        let may_have_run = Suspicion::LEARNT.union(Suspicion::OPAQUE);
        if self.suspicion.intersects(may_have_run) {
            self.names.extend(watch.settings().cloned());
        }
    }

    /// Whether the catalogue may have changed.
    pub fn changes_catalog(&self) -> bool {
        self.suspicion.contains(Suspicion::CATALOG_CHANGE)
    }

    /// Notes what may be the name of a custom parameter among the values of a Bind.
    pub fn mention_values(&mut self, bind: &[u8]) {
        if !self.suspicion.intersects(SETTINGS) {
            return;
        }
        let names = values(bind).filter(|value| sql::is_custom_name(value));
        let room = NAMES_MAX.saturating_sub(self.names.len());
        self.names.extend(
            names
                .filter_map(|name| std::str::from_utf8(name).ok().map(Box::from))
                .take(room),
        );
    }
}

/// The values in the body of a Bind. (Protocol: "Message Formats")
fn values(bind: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Bind::parse(bind).map_or(&[][..], |bind| bind.rest);
    let formats = usize::from(int16(&mut rest).unwrap_or(0));
    rest = rest.get(2 * formats..).unwrap_or_default();
    let count = int16(&mut rest).unwrap_or(0);
    (0..count).map_while(move |_| value(&mut rest)).flatten()
}

fn int16(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u16::from_be_bytes(*bytes))
}

/// `Some(None)`: null, whose length is -1.
fn value<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (bytes, after) = rest.split_first_chunk()?;
    let Ok(len) = usize::try_from(i32::from_be_bytes(*bytes)) else {
        *rest = after;
        return Some(None);
    };
    let (value, after) = after.split_at_checked(len)?;
    *rest = after;
    Some(Some(value))
}

fn shown(text: &[u8]) -> Box<str> {
    let front = text.get(..STATEMENT_SHOWN).unwrap_or(text);
    String::from_utf8_lossy(front).into()
}

const SETTINGS: Suspicion = Suspicion::SETTINGS
    .union(Suspicion::OPAQUE)
    .union(Suspicion::DISCARD);
const PREPARED: Suspicion = Suspicion::PREPARED
    .union(Suspicion::OPAQUE)
    .union(Suspicion::DISCARD);

/// One kind of state that PostgreSQL can be asked for, as rows of (kind, name, value).
struct Section {
    asked_for: Suspicion,
    sql: &'static str,
}

/// Nothing here depends on what a client can set: every name is qualified, operators included.
const SECTIONS: [Section; 7] = [
    // What is in force in this transaction only belongs to the transaction that asks.
    Section {
        asked_for: SETTINGS,
        sql: "SELECT 's', s.name, pg_catalog.current_setting(s.name) FROM pg_catalog.pg_settings s \
              WHERE s.source OPERATOR(pg_catalog.=) 'session' \
              AND s.name OPERATOR(pg_catalog.<>) ALL (ARRAY['transaction_isolation','transaction_read_only','transaction_deferrable'])",
    },
    Section {
        asked_for: SETTINGS.union(Suspicion::ROLE),
        sql: "SELECT 'r', 'role', pg_catalog.current_setting('role')",
    },
    Section {
        asked_for: PREPARED,
        sql: "SELECT CASE WHEN p.from_sql THEN 'p' ELSE 'q' END, p.name, p.statement FROM pg_catalog.pg_prepared_statements p \
              WHERE p.from_sql OR pg_catalog.left(p.name, 5) OPERATOR(pg_catalog.<>) 'weir_'",
    },
    Section {
        asked_for: LOCKS,
        sql: "SELECT 'l', '', '' WHERE EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' \
              AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())",
    },
    // pg_depend has an index by what is depended on; pg_class has none by schema.
    Section {
        asked_for: TEMPORARY,
        sql: "SELECT 't', '', '' WHERE EXISTS (SELECT FROM pg_catalog.pg_depend d \
              WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass \
              AND d.refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
              AND d.refobjid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid)",
    },
    Section {
        asked_for: CURSORS,
        sql: "SELECT 'h', '', '' WHERE EXISTS (SELECT FROM pg_catalog.pg_cursors c WHERE c.is_holdable)",
    },
    Section {
        asked_for: CHANNELS,
        sql: "SELECT 'n', c, '' FROM pg_catalog.pg_listening_channels() c",
    },
];

const LOCKS: Suspicion = Suspicion::ADVISORY_LOCK
    .union(Suspicion::OPAQUE)
    .union(Suspicion::DISCARD);
const TEMPORARY: Suspicion = Suspicion::TEMPORARY
    .union(Suspicion::OPAQUE)
    .union(Suspicion::DISCARD);
const CURSORS: Suspicion = Suspicion::HOLD_CURSOR
    .union(Suspicion::OPAQUE)
    .union(Suspicion::DISCARD);
const CHANNELS: Suspicion = Suspicion::LISTEN
    .union(Suspicion::OPAQUE)
    .union(Suspicion::DISCARD);

/// A census that is under way.
#[derive(Debug)]
pub struct Census {
    about: Suspicion,
    resets: bool,
    statement: Box<str>,
    /// Custom parameters that have a value, and were not reset: an empty one is a value too.
    may_be_empty: Vec<Box<str>>,
    settings: Vec<(Box<str>, Box<str>)>,
    prepared: Vec<Prepared>,
    channels: BTreeSet<Name>,
    found: Pins,
}

impl Census {
    /// Asks about what the evidence gives reason to, about what the client is pinned for, and about the custom parameters that are
    /// known of its session.
    pub fn about(evidence: Evidence, pinned: Pins, known: &Parameters) -> (Census, Vec<u8>) {
        let about = evidence.suspicion | pinned.suspicion();
        let resets = evidence.resets;
        let mut selects: Vec<String> = SECTIONS
            .iter()
            .filter(|section| about.intersects(section.asked_for))
            .map(|section| section.sql.to_owned())
            .collect();
        if about.intersects(SETTINGS) {
            selects.extend(custom_section(evidence.names, known));
        }
        let is_set =
            |entry: &&Parameter| entry.name.contains('.') && entry.origin != Origin::Reported;
        let set = known.iter().filter(is_set).filter(|_| !resets);
        let census = Census {
            about,
            resets: resets || about.intersects(Suspicion::OPAQUE),
            may_be_empty: set.map(|entry| entry.name.clone()).collect(),
            statement: evidence.statement,
            settings: Vec::new(),
            prepared: Vec::new(),
            channels: BTreeSet::new(),
            found: Pins::NONE,
        };
        (census, selects.join(" UNION ALL ").into_bytes())
    }

    /// Whether parameters may have been reset: PostgreSQL then has its own value where the client means what it asked for at log-in.
    pub fn is_about_reset(&self) -> bool {
        self.resets
    }

    /// One row of the answer.
    ///
    /// # Errors
    /// A DataRow that is none.
    pub fn row(&mut self, body: &[u8]) -> Result<(), WireError> {
        let row = DataRow::parse(body)?;
        let mut values = row
            .values()
            .map(|value| value.and_then(|value| std::str::from_utf8(value).ok()));
        let (Some(Some(kind)), Some(Some(name))) = (values.next(), values.next()) else {
            self.found |= Pins::UNKNOWN;
            return Ok(());
        };
        let value = values.next().flatten();
        match (kind, value) {
            ("r", Some("none")) | ("c", None) => {}
            ("c", Some("")) if self.may_be_empty.iter().all(|known| **known != *name) => {}
            ("s" | "r" | "c", Some(value)) => self.settings.push((name.into(), value.into())),
            ("p", Some(text)) => self.prepared_statement(name, text),
            ("q", _) => self.found |= Pins::PREPARED,
            ("l", _) => self.found |= Pins::ADVISORY_LOCK,
            ("t", _) => self.found |= Pins::TEMPORARY,
            ("h", _) => self.found |= Pins::HOLD_CURSOR,
            ("n", _) => {
                self.channels.insert(name.as_bytes().into());
                self.found |= Pins::LISTEN;
            }
            _ => self.found |= Pins::UNKNOWN,
        }
        Ok(())
    }

    /// The text that PostgreSQL keeps is that of the whole message: only its PREPARE may be repeated.
    fn prepared_statement(&mut self, name: &str, text: &str) {
        let is_its_prepare = |statement: &&[u8]| {
            matches!(sql::understand(statement, Strings::default()),
                Some(Effect::Prepare { name: made, .. }) if *made == *name.as_bytes())
        };
        let mut candidates =
            sql::statements(text.as_bytes(), Backslashes::Plain).filter(is_its_prepare);
        match (
            candidates.next().map(std::str::from_utf8),
            candidates.next(),
        ) {
            (Some(Ok(prepare)), None) => self.prepared.push(Prepared {
                name: name.into(),
                text: prepare.into(),
            }),
            _ => self.found |= Pins::PREPARED,
        }
    }

    /// What is set on the server connection now, given what was known of it before; and what pins its client to it.
    /// `failed`: the server refused to say.
    pub fn conclude(mut self, known: &Parameters, failed: bool) -> Findings {
        if failed {
            self.found |= Pins::UNKNOWN;
        }
        let mut parameters = known.clone();
        if self.about.intersects(SETTINGS) {
            parameters = parameters.reported_only();
        }
        for (name, value) in &self.settings {
            parameters = parameters.learnt(name, value);
        }
        if self.about.intersects(Suspicion::ROLE)
            && self.settings.iter().all(|(name, _)| &**name != "role")
        {
            parameters = parameters.without("role");
        }
        if self.about.intersects(PREPARED) {
            self.prepared.sort();
            parameters = parameters.with_prepared(self.prepared);
        }
        if self.about.intersects(Suspicion::SEED) {
            self.found |= Pins::SEED;
        }
        if self.about.intersects(Suspicion::LIBRARY) {
            self.found |= Pins::LIBRARY;
        }
        if self.about.intersects(Suspicion::UNSEEN) {
            self.found |= Pins::UNSEEN;
        }
        if self.about.intersects(Suspicion::UNNAMED) {
            self.found |= Pins::PARAMETER;
        }
        let channels = self.about.intersects(CHANNELS) && !failed;
        Findings {
            parameters,
            channels: channels.then_some(self.channels),
            pins: self.found,
            statement: self.statement,
        }
    }
}

/// What a census came to.
#[derive(Debug)]
pub struct Findings {
    pub parameters: Parameters,
    /// What the session listens to, if that was asked.
    pub channels: Option<BTreeSet<Name>>,
    pub pins: Pins,
    /// The statement that gave rise to it.
    pub statement: Box<str>,
}

/// The names that texts mention, and those that are set already. A parameter that exists nowhere has no value; one that has been reset an
/// empty one, and so has one that was never set on a server connection where another client has used it: PostgreSQL cannot forget a name.
fn custom_section(mut names: BTreeSet<Box<str>>, known: &Parameters) -> Option<String> {
    let custom = known
        .iter()
        .filter(|parameter| parameter.origin != Origin::Reported && parameter.name.contains('.'));
    names.extend(custom.map(|parameter| parameter.name.clone()));
    if names.is_empty() {
        return None;
    }
    let mut list = Vec::new();
    for name in &names {
        if !list.is_empty() {
            list.push(b',');
        }
        crate::parameters::quote(&mut list, name);
    }
    let list = String::from_utf8_lossy(&list);
    Some(format!(
        "SELECT 'c', c, pg_catalog.current_setting(c, true) FROM pg_catalog.unnest(ARRAY[{list}]::pg_catalog.text[]) c"
    ))
}

/// Why a client keeps its server connection between transactions: state that cannot be put on another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pins(u16);

impl Pins {
    pub const NONE: Pins = Pins(0);
    pub const ADVISORY_LOCK: Pins = Pins(1);
    pub const TEMPORARY: Pins = Pins(1 << 1);
    pub const HOLD_CURSOR: Pins = Pins(1 << 2);
    pub const LISTEN: Pins = Pins(1 << 3);
    pub const SEED: Pins = Pins(1 << 4);
    pub const LIBRARY: Pins = Pins(1 << 5);
    /// A prepared statement whose text cannot be repeated.
    pub const PREPARED: Pins = Pins(1 << 6);
    /// The server did not say what its session holds.
    pub const UNKNOWN: Pins = Pins(1 << 7);
    /// What no server tells of: connections that dblink has opened, globals of a function's language.
    pub const UNSEEN: Pins = Pins(1 << 8);
    /// A client that reads sequence values has inserted rows.
    pub const SEQUENCE: Pins = Pins(1 << 9);
    /// A parameter whose name is in no text.
    pub const PARAMETER: Pins = Pins(1 << 10);

    /// Each reason in words, and what a census has to ask about to find out whether it holds.
    const REASONS: [(Pins, &'static str, Suspicion); 11] = [
        (
            Pins::ADVISORY_LOCK,
            "advisory lock",
            Suspicion::ADVISORY_LOCK,
        ),
        (Pins::TEMPORARY, "temporary object", Suspicion::TEMPORARY),
        (Pins::HOLD_CURSOR, "holdable cursor", Suspicion::HOLD_CURSOR),
        (Pins::LISTEN, "listen", Suspicion::LISTEN),
        (Pins::SEED, "setseed", Suspicion::SEED),
        (Pins::LIBRARY, "loaded library", Suspicion::LIBRARY),
        (Pins::PREPARED, "prepared statement", Suspicion::PREPARED),
        (Pins::UNKNOWN, "unknown state", Suspicion::OPAQUE),
        (Pins::UNSEEN, "state that no query shows", Suspicion::UNSEEN),
        (Pins::SEQUENCE, "sequence value", Suspicion::empty()),
        (
            Pins::PARAMETER,
            "parameter without a name in any text",
            Suspicion::UNNAMED,
        ),
    ];

    pub fn is_empty(self) -> bool {
        self == Pins::NONE
    }

    #[must_use]
    pub fn without(self, reason: Pins) -> Pins {
        Pins(self.0 & !reason.0)
    }

    pub fn contains(self, reason: Pins) -> bool {
        self.0 & reason.0 == reason.0
    }

    /// State that no command undoes: a server connection that has it serves nobody else.
    pub fn is_lasting(self) -> bool {
        self.0 & (Pins::SEED.0 | Pins::LIBRARY.0 | Pins::UNSEEN.0) != 0
    }

    /// The reasons in words.
    pub fn reasons(self) -> impl Iterator<Item = &'static str> {
        self.each().map(|(words, _)| words)
    }

    /// What a census has to ask about to find out whether the reasons hold.
    fn suspicion(self) -> Suspicion {
        self.each()
            .fold(Suspicion::empty(), |all, (_, one)| all | one)
    }

    fn each(self) -> impl Iterator<Item = (&'static str, Suspicion)> {
        let holds = move |(pin, words, suspicion): (Pins, _, _)| {
            (self.0 & pin.0 != 0).then_some((words, suspicion))
        };
        Pins::REASONS.into_iter().filter_map(holds)
    }
}

impl std::ops::BitOrAssign for Pins {
    fn bitor_assign(&mut self, other: Pins) {
        self.0 |= other.0;
    }
}
