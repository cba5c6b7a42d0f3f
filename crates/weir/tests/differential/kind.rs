//! The kinds of statements, and one random statement of each.

use crate::draw::Draw;

/// What a statement is about. A conversation has some of these kinds only: few kinds meet more often, and a failure is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// SET and its family, for PostgreSQL's own parameters.
    Setting,
    /// The same for parameters with a dot.
    Custom,
    /// What functions, triggers, views and DO blocks do to the session.
    Hidden,
    /// Custom parameters whose names no text has.
    Disguised,
    Role,
    /// SET SESSION AUTHORIZATION, in conversations of superusers.
    Authorization,
    /// Transactions' defaults.
    Characteristics,
    /// SQL-level prepared statements.
    Prepared,
    /// One name as an SQL-level and as a protocol-level prepared statement.
    Crossing,
    /// One text whose meaning and type depend on search_path.
    Shape,
    Lock,
    Temporary,
    Holdable,
    Listen,
    Sequence,
    Discard,
    Seed,
    /// Functions and triggers made in the conversation itself.
    Definition,
    Failure,
    /// Not statements: in a pipeline, what names a statement whose Parse, in the same write before an earlier Sync, may fail.
    Reliance,
    /// Not statements: a role among the startup parameters.
    StartupRole,
    /// Not statements: what goes back to startup parameters, elsewhere than alone.
    InnerReset,
}

impl Kind {
    /// How often, when a conversation has it.
    pub const ALL: [(usize, Kind); 23] = [
        (10, Kind::Plain),
        (14, Kind::Setting),
        (8, Kind::Custom),
        (8, Kind::Hidden),
        (2, Kind::Disguised),
        (5, Kind::Role),
        (5, Kind::Authorization),
        (4, Kind::Characteristics),
        (9, Kind::Prepared),
        (7, Kind::Crossing),
        (6, Kind::Shape),
        (7, Kind::Lock),
        (9, Kind::Temporary),
        (6, Kind::Holdable),
        (8, Kind::Listen),
        (8, Kind::Sequence),
        (4, Kind::Discard),
        (4, Kind::Seed),
        (4, Kind::Definition),
        (4, Kind::Failure),
        (0, Kind::Reliance),
        (0, Kind::StartupRole),
        (0, Kind::InnerReset),
    ];

    pub fn named(name: &str) -> Option<Kind> {
        let kinds = Kind::ALL.map(|(_, kind)| kind);
        kinds
            .into_iter()
            .find(|kind| format!("{kind:?}").eq_ignore_ascii_case(name))
    }

    /// Whether a client may keep its server connection after it: a guess for the generator; what counts is what the direct session says.
    pub fn may_pin(self) -> bool {
        matches!(
            self,
            Kind::Lock
                | Kind::Hidden
                | Kind::Temporary
                | Kind::Holdable
                | Kind::Listen
                | Kind::Seed
        )
    }
}

/// A statement's text, and the values of its parameters: with some it can only be said in the extended protocol.
#[derive(Debug, Clone)]
pub struct Statement {
    pub sql: String,
    pub values: Vec<String>,
}

impl Statement {
    /// Whether it goes back to what a session has begun with.
    pub fn resets(&self) -> bool {
        let sql = self.sql.to_ascii_uppercase();
        ["RESET", "DEFAULT", "DISCARD ALL"]
            .iter()
            .any(|word| sql.contains(word))
    }
}

impl From<String> for Statement {
    fn from(sql: String) -> Self {
        Statement {
            sql,
            values: Vec::new(),
        }
    }
}

impl From<&str> for Statement {
    fn from(sql: &str) -> Self {
        sql.to_owned().into()
    }
}

/// Prepared statements' names, the same for SQL and protocol.
pub const NAMES: [&str; 3] = ["s1", "s2", "s3"];

const REPORTED: &[(&str, &[&str])] = &[
    ("application_name", &["a", "b", "it''s", ""]),
    ("DateStyle", &["German", "ISO, DMY", "SQL, MDY"]),
    ("TimeZone", &["Europe/Berlin", "Asia/Tokyo", "UTC"]),
    ("IntervalStyle", &["iso_8601", "postgres_verbose"]),
    ("client_encoding", &["UTF8", "LATIN1", "SQL_ASCII"]),
    ("standard_conforming_strings", &["on", "off"]),
    ("default_transaction_read_only", &["on", "off"]),
];

const UNREPORTED: &[(&str, &[&str])] = &[
    ("work_mem", &["2MB", "1234kB"]),
    ("statement_timeout", &["50s", "1min"]),
    ("lock_timeout", &["55s"]),
    ("enable_seqscan", &["on", "off"]),
    ("enable_hashjoin", &["on", "off"]),
    ("extra_float_digits", &["0", "3", "-5"]),
    ("bytea_output", &["escape", "hex"]),
    ("random_page_cost", &["1.5", "2"]),
    (
        "default_transaction_isolation",
        &["repeatable read", "read committed"],
    ),
    ("check_function_bodies", &["on", "off"]),
    ("row_security", &["on", "off"]),
    ("client_min_messages", &["warning", "notice"]),
];

const PATHS: &[&str] = &[
    "diff_a, public",
    "diff_b",
    "\"$user\", public",
    "diff_b, diff_a",
    "public",
];
const CUSTOM: &[&str] = &["app.tenant", "app.user", "app.note", "my.own"];
const TEXTS: &[&str] = &["x", "y", "z z", "it''s", ""];
pub const ROLES: &[&str] = &["diff_reader", "diff_writer"];

/// A random statement of a kind; `who` is the client's number, which keeps it from meeting others' rows and locks.
pub fn statement(kind: Kind, who: usize, draw: &mut Draw) -> Statement {
    match kind {
        Kind::Plain => plain(who, draw),
        Kind::Setting => setting(draw),
        Kind::Custom => custom(draw),
        Kind::Hidden => hidden(who, draw),
        Kind::Disguised => disguised(draw),
        Kind::Role => role(draw),
        Kind::Authorization => authorization(draw),
        Kind::Characteristics => characteristics(draw),
        Kind::Prepared => prepared(&["q1", "q2", "q3"], draw),
        Kind::Crossing => prepared(&NAMES, draw),
        Kind::Shape => shape(draw),
        Kind::Lock => lock(who, draw),
        Kind::Temporary => temporary(draw),
        Kind::Holdable => holdable(draw),
        Kind::Listen => listen(draw),
        Kind::Sequence => sequence(who, draw),
        Kind::Discard => discard(draw),
        Kind::Seed => seed(draw),
        Kind::Definition => definition(who, draw),
        Kind::Failure | Kind::Reliance | Kind::StartupRole | Kind::InnerReset => failure(draw),
    }
}

fn plain(who: usize, draw: &mut Draw) -> Statement {
    let (k, v) = (draw.below(3), draw.of(TEXTS));
    match draw.below(11) {
        0 => "SELECT 1".into(),
        1 => "SELECT v FROM spot".into(),
        2 => format!("INSERT INTO diff.notes VALUES ({who}, {k}, '{v}') ON CONFLICT (owner, k) DO UPDATE SET v = excluded.v RETURNING v").into(),
        3 => format!("UPDATE diff.notes SET v = v || '+' WHERE owner = {who} AND k = {k}").into(),
        4 => format!("DELETE FROM diff.notes WHERE owner = {who} AND k = {k}").into(),
        5 => "SELECT owner, k, v FROM diff.notes ORDER BY owner, k".into(),
        6 => "SELECT '2026-02-03 04:05:06+00'::timestamptz, '1 day 2 hours'::interval".into(),
        7 => "SELECT 0.1::float8 + 0.2, '\\x41ff'::bytea".into(),
        8 => format!("SHOW {}", draw.of(&["work_mem", "TimeZone", "search_path", "role", "application_name"])).into(),
        9 => "SELECT current_user, session_user, current_setting('app.tenant', true) IS NOT DISTINCT FROM 'x'".into(),
        _ => Statement {
            sql: "SELECT $1::text || v FROM spot".into(),
            values: vec![v.into()],
        },
    }
}

/// A parameter, and one of its values as a literal's inside.
fn parameter(draw: &mut Draw) -> (&'static str, &'static str) {
    let (name, values) = if draw.percent(50) {
        draw.of(REPORTED)
    } else {
        draw.of(UNREPORTED)
    };
    (name, draw.of(values))
}

fn setting(draw: &mut Draw) -> Statement {
    let (name, value) = parameter(draw);
    let scope = draw.of(&["", "", "", "SESSION ", "LOCAL "]);
    let local = draw.of(&["false", "false", "true"]);
    match draw.below(20) {
        0..=5 if name != "DateStyle" => format!("SET {scope}{name} = '{value}'").into(),
        0..=5 => format!("SET {scope}{name} TO {value}").into(),
        6 => format!("set {scope}{} to default", name.to_uppercase()).into(),
        7 | 8 => format!("RESET {name}").into(),
        9 => format!("SELECT set_config('{name}', '{value}', {local})").into(),
        10 => Statement {
            sql: "SELECT set_config($1, $2, $3)".into(),
            values: vec![name.into(), value.replace("''", "'"), local.into()],
        },
        11 | 12 => format!("SET {scope}search_path = {}", draw.of(PATHS)).into(),
        13 => format!(
            "SET {scope}TIME ZONE '{}'",
            draw.of(&["Asia/Tokyo", "UTC", "America/Lima"])
        )
        .into(),
        14 => format!("SET {scope}NAMES '{}'", draw.of(&["LATIN1", "UTF8"])).into(),
        15 => format!("SET {scope}SCHEMA '{}'", draw.of(&["diff_a", "diff_b"])).into(),
        16 => format!("UPDATE pg_settings SET setting = '{value}' WHERE name = '{name}'").into(),
        17 => format!("/* SET */ SeT /* {scope}*/ {scope}{name} -- really\n = '{value}'").into(),
        18 => format!("SET {scope}{name} = DEFAULT").into(),
        _ => draw
            .of(&[
                "SET work_mem = 'nonsense'",
                "SET TimeZone = 'Nowhere/Land'",
                "SET nonsense = 1",
                "RESET ALL",
                "SET search_path TO 'diff_a', 'public'",
                "SET LOCAL search_path = diff_b",
            ])
            .into(),
    }
}

fn custom(draw: &mut Draw) -> Statement {
    let (name, value) = (draw.of(CUSTOM), draw.of(TEXTS));
    let local = draw.of(&["false", "false", "true"]);
    match draw.below(10) {
        0..=3 => format!(
            "SET {}{name} = '{value}'",
            draw.of(&["", "", "LOCAL ", "SESSION "])
        )
        .into(),
        4 => format!("RESET {name}").into(),
        5 => format!("SET {name} TO DEFAULT").into(),
        6 => format!("SELECT set_config('{name}', '{value}', {local})").into(),
        7 | 8 => Statement {
            sql: "SELECT set_config($1, $2, $3::boolean)".into(),
            values: vec![name.into(), value.replace("''", "'"), local.into()],
        },
        _ => format!("SELECT coalesce(current_setting('{name}', true), '')").into(),
    }
}

fn hidden(who: usize, draw: &mut Draw) -> Statement {
    let v = draw.of(&["x", "y", "z"]);
    let function = draw.of(&[
        "tag",
        "tag_in_sql",
        "tag_for_now",
        "outer_tag",
        "outermost_tag",
        "tag_dynamically",
        "tag_and_fail",
        "tag_and_recover",
    ]);
    match draw.below(25) {
        0..=4 => format!("SELECT diff.{function}('{v}')").into(),
        5 => Statement {
            sql: format!("SELECT diff.{function}($1)"),
            values: vec![v.into()],
        },
        6 => format!("DO $$ BEGIN PERFORM set_config('app.tenant', '{v}', false); END $$").into(),
        7 => "DO $do$ BEGIN SET work_mem = '3MB'; SET LOCAL enable_seqscan = off; END $do$".into(),
        8 => format!("DO $$ BEGIN EXECUTE 'SET app.user' || ' = ''{v}'''; END $$").into(),
        9 => format!("INSERT INTO diff.audited VALUES ({who}, '{v}')").into(),
        10 => format!("INSERT INTO diff.audited_late VALUES ({who}, '{v}')").into(),
        11 => format!("INSERT INTO diff.audited_view VALUES ({who}, '{v}')").into(),
        12 => "SELECT v FROM diff.tagging".into(),
        13 => format!("INSERT INTO diff.defaulting (owner) VALUES ({who})").into(),
        14 => format!("SELECT 'a'::text OPERATOR(diff.<+>) '{v}'::text").into(),
        15 => format!("SELECT '{v}'::diff.tagged").into(),
        16 => format!("SELECT '{v}'::text::diff.label").into(),
        17 => format!("CALL diff.tag_in_parts('{v}')").into(),
        18 => format!(
            "SELECT diff.memory('{}')",
            draw.of(&["5MB", "6MB", "nonsense"])
        )
        .into(),
        19 => "SELECT diff.memory_within()".into(),
        20 => format!("SELECT diff.become('{}')", draw.of(ROLES)).into(),
        21 => format!("SELECT diff.make_statement('{}')", draw.of(&["q1", "q2"])).into(),
        22 => format!("SELECT diff.make_temporary('{}')", draw.of(&["t1", "t2"])).into(),
        23 => format!("SELECT diff.lock({})", 1000 * (who + 1)).into(),
        _ => format!("SELECT diff.path('{}')", draw.of(&["diff_a", "diff_b"])).into(),
    }
}

fn disguised(draw: &mut Draw) -> Statement {
    let (name, value) = (draw.of(CUSTOM), draw.of(TEXTS));
    match draw.below(3) {
        0 => format!(
            "SELECT set_config('{}', '{value}', false)",
            name.replace('.', ".' || '")
        )
        .into(),
        1 => format!(
            "SELECT set_config(chr(97) || '{}', '{value}', false)",
            &CUSTOM[0][1..]
        )
        .into(),
        _ => format!("SELECT coalesce(current_setting('{name}', true), '')").into(),
    }
}

fn role(draw: &mut Draw) -> Statement {
    let role = draw.of(ROLES);
    match draw.below(10) {
        0..=2 => format!("SET ROLE {role}").into(),
        3 => format!("SET LOCAL ROLE {role}").into(),
        4 => "SET ROLE NONE".into(),
        5 => "RESET ROLE".into(),
        6 => format!("SELECT set_config('role', '{role}', false)").into(),
        7 | 8 => format!("SET SESSION ROLE '{role}'").into(),
        _ => "SET ROLE diff_nobody".into(),
    }
}

fn authorization(draw: &mut Draw) -> Statement {
    let role = draw.of(ROLES);
    match draw.below(6) {
        0 | 1 => format!("SET SESSION AUTHORIZATION {role}").into(),
        2 => format!("SET LOCAL SESSION AUTHORIZATION {role}").into(),
        3 => "RESET SESSION AUTHORIZATION".into(),
        4 => "SET SESSION AUTHORIZATION DEFAULT".into(),
        _ => format!("SET session_authorization = '{role}'").into(),
    }
}

fn characteristics(draw: &mut Draw) -> Statement {
    draw.of(&[
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE, ISOLATION LEVEL READ COMMITTED",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET TRANSACTION READ ONLY",
        "SET default_transaction_deferrable = on",
        "RESET default_transaction_read_only",
        "SHOW transaction_isolation",
    ])
    .into()
}

fn prepared(names: &[&str], draw: &mut Draw) -> Statement {
    let (name, number) = (draw.of(names), draw.below(100));
    match draw.below(15) {
        0..=3 => format!("PREPARE {name} AS SELECT {number} AS p").into(),
        4 => format!("PREPARE {name} (int) AS SELECT $1 + {number}").into(),
        5 => {
            format!("prepare {name} as insert into diff.ledger (owner, v) values (-1, 'p{number}')")
                .into()
        }
        6..=8 => format!("EXECUTE {name}").into(),
        9 => format!("EXECUTE {name} ({number})").into(),
        10 => format!("EXPLAIN (COSTS OFF) EXECUTE {name}").into(),
        11 => format!("DEALLOCATE {name}").into(),
        12 => format!("DEALLOCATE PREPARE {name}").into(),
        13 => format!("SELECT name FROM pg_prepared_statements WHERE name = '{name}'").into(),
        _ if names == NAMES => draw
            .of(&["DEALLOCATE ALL", "DEALLOCATE PREPARE ALL"])
            .into(),
        _ => "SELECT name FROM pg_prepared_statements WHERE from_sql ORDER BY name".into(),
    }
}

fn shape(draw: &mut Draw) -> Statement {
    match draw.below(8) {
        0 => "SET search_path = diff_a, public".into(),
        1 => "SET search_path = diff_b, public".into(),
        2 => "RESET search_path".into(),
        3 => "SET LOCAL search_path = diff_b".into(),
        _ => draw
            .of(&[
                "SELECT v FROM place",
                "SELECT * FROM place",
                "SELECT v FROM spot",
            ])
            .into(),
    }
}

fn lock(who: usize, draw: &mut Draw) -> Statement {
    let key = 1000 * (who + 1) + draw.below(2);
    let shared = draw.of(&["", "", "_shared"]);
    match draw.below(12) {
        0 | 1 => format!("SELECT pg_advisory_lock{shared}({key})").into(),
        2 => format!("SELECT pg_try_advisory_lock{shared}({key})").into(),
        3 => format!("SELECT pg_try_advisory_lock{shared}({who}, {key})").into(),
        4 => format!("SELECT pg_advisory_xact_lock{shared}({key})").into(),
        5..=8 => format!("SELECT pg_advisory_unlock{shared}({key})").into(),
        9 => format!("SELECT pg_advisory_unlock{shared}({who}, {key})").into(),
        10 => Statement {
            sql: "SELECT pg_advisory_lock($1)".into(),
            values: vec![key.to_string()],
        },
        _ => "SELECT pg_advisory_unlock_all()".into(),
    }
}

fn temporary(draw: &mut Draw) -> Statement {
    let name = draw.of(&["t1", "t2"]);
    match draw.below(24) {
        0 => format!("CREATE TEMP TABLE {name} (i int)").into(),
        1 => format!("CREATE TEMPORARY TABLE IF NOT EXISTS {name} (i int)").into(),
        2 => format!("CREATE TEMP TABLE {name} (i int) ON COMMIT DROP").into(),
        3 => format!("CREATE TEMP TABLE {name} (i int) ON COMMIT DELETE ROWS").into(),
        4 => format!("CREATE LOCAL TEMP TABLE {name} AS SELECT 1 AS i").into(),
        5 => format!("SELECT 2 AS i INTO TEMP {name}").into(),
        6 => format!("CREATE TABLE pg_temp.{name} (i int)").into(),
        7 | 8 => "CREATE TEMP VIEW v1 AS SELECT 1 AS i".into(),
        9 => "CREATE TEMP SEQUENCE q1".into(),
        10 => "CREATE FUNCTION pg_temp.f1() RETURNS int LANGUAGE sql AS 'SELECT 7'".into(),
        11..=13 => format!("INSERT INTO {name} VALUES ({})", draw.below(9)).into(),
        14 | 15 => format!("SELECT * FROM {name} ORDER BY 1").into(),
        16..=18 => format!("DROP TABLE {}{name}", draw.of(&["", "IF EXISTS "])).into(),
        19 => "DROP VIEW v1".into(),
        20 => "DROP SEQUENCE q1".into(),
        // By its name it would be refused: with one error where this session has no temporary schema yet, with another where it has.
        21 | 22 => "SELECT count(*) FROM pg_proc WHERE proname = 'f1' AND pronamespace = pg_my_temp_schema()".into(),
        _ => "DISCARD TEMP".into(),
    }
}

fn holdable(draw: &mut Draw) -> Statement {
    let name = draw.of(&["c1", "c2"]);
    match draw.below(11) {
        0..=2 => {
            format!("DECLARE {name} CURSOR WITH HOLD FOR SELECT generate_series(1, 5) AS i").into()
        }
        3 => format!("DECLARE {name} SCROLL CURSOR WITH HOLD FOR SELECT v FROM spot").into(),
        4 => format!("DECLARE {name} CURSOR FOR SELECT generate_series(1, 5) AS i").into(),
        5 | 6 => format!("FETCH 2 FROM {name}").into(),
        7 => format!("MOVE 1 IN {name}").into(),
        8 | 9 => format!("CLOSE {name}").into(),
        _ => "CLOSE ALL".into(),
    }
}

fn listen(draw: &mut Draw) -> Statement {
    let channel = draw.of(&["news", "jobs"]);
    match draw.below(9) {
        0..=2 => format!("LISTEN {channel}").into(),
        3 => format!("UNLISTEN {channel}").into(),
        4 => "UNLISTEN *".into(),
        5 | 6 => format!("NOTIFY {channel}, 'n{}'", draw.below(1000)).into(),
        7 => format!("SELECT pg_notify('{channel}', 'p{}')", draw.below(1000)).into(),
        _ => format!("NOTIFY {channel}").into(),
    }
}

fn sequence(who: usize, draw: &mut Draw) -> Statement {
    match draw.below(10) {
        0 => "SELECT nextval('diff.counter')".into(),
        1 | 2 => format!("INSERT INTO diff.ledger (owner, v) VALUES ({who}, 'l')").into(),
        3 => format!("INSERT INTO diff.ledger (owner, v) VALUES ({who}, 'l') RETURNING id").into(),
        4 => format!("SELECT setval('diff.counter', {})", 100 + draw.below(100)).into(),
        5 => "SELECT currval('diff.counter')".into(),
        6 | 7 => "SELECT lastval()".into(),
        8 => "SELECT currval('diff.ledger_id_seq'::regclass)".into(),
        _ => "DISCARD SEQUENCES".into(),
    }
}

fn discard(draw: &mut Draw) -> Statement {
    draw.of(&[
        "DISCARD ALL",
        "DISCARD ALL",
        "DISCARD PLANS",
        "DISCARD SEQUENCES",
        "DISCARD TEMP",
        "RESET ALL",
        "UNLISTEN *",
        "CLOSE ALL",
        "DEALLOCATE ALL",
    ])
    .into()
}

fn seed(draw: &mut Draw) -> Statement {
    match draw.below(3) {
        0 => format!("SELECT setseed(0.{})", draw.below(10)).into(),
        1 => format!("SET seed = 0.{}", draw.below(10)).into(),
        _ => "SELECT 'random ' || random()".into(),
    }
}

fn definition(who: usize, draw: &mut Draw) -> Statement {
    let owner = format!("diff_a.made_{who}");
    match draw.below(8) {
        0 | 1 => format!("CREATE OR REPLACE FUNCTION {owner}() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN set_config('app.note', 'made', false); END $$").into(),
        2 => format!("CREATE OR REPLACE FUNCTION {owner}() RETURNS text LANGUAGE sql AS $$ SELECT 'nothing' $$").into(),
        3 => format!("DROP FUNCTION {owner}()").into(),
        _ => format!("SELECT {owner}()").into(),
    }
}

fn failure(draw: &mut Draw) -> Statement {
    draw.of(&[
        "SELECT 1/0",
        "SELEC 1",
        "SELECT * FROM nowhere",
        "SELECT 'x'::int",
        "DO $$ BEGIN RAISE NOTICE 'heard'; END $$",
        "PREPARE TRANSACTION 'nothing'",
    ])
    .into()
}
