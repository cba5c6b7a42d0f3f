//! PostgreSQL itself has the last word: what literals and names say, where statements end, and what the catalogue tells.

use sql::learn::{self, Catalog};
use sql::lexer::Lexer;
use sql::{Backslashes, LearntNames, Scanner, Strings, Suspicion, statements};
use testkit::Postgres;

const MAJORS: [u32; 2] = [14, 18];

fn rows(postgres: &Postgres, database: &str, text: &str) -> Option<Vec<Vec<Option<String>>>> {
    postgres.query(database, text).ok()
}

fn value(postgres: &Postgres, database: &str, text: &str) -> Option<String> {
    rows(postgres, database, text)?
        .into_iter()
        .next()?
        .into_iter()
        .next()?
}

fn run(postgres: &Postgres, database: &str, text: &str) {
    postgres
        .query(database, text)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Literals that both read alike; what PostgreSQL refuses is not in the list.
const LITERALS: &[&str] = &[
    "''",
    "'it''s'",
    "'a'\n'b'",
    "'a' -- x\n -- 'y'\n\t'b'",
    "'a'\r'b'",
    "'a'\u{c}\n'b'",
    "e'a'\n'\\'b'",
    r"E'\\\'\b\f\n\r\t\q\/'",
    r"E'\1\12\101\1012\x4\x41\x411\xg'",
    r"E'\u0041\U0001F600\uD83D\uDE00'",
    r"E'\xc3\xa9'",
    r"E'''\''''",
    "$$$a$b$$",
    "$$it's \\ $x$$",
    "$tag$ $$ $ta$ $tagg$ $tag$",
    "$é$x$é$",
    "$_1$x$_1$",
    r"'é''\\'",
    "'/* -- */'",
];

const PLAIN_LITERALS: &[&str] = &[
    r"'\'",
    r"'a\n'",
    r"U&'d\0061t\+000061\\'",
    r"u&'\D83D\DE00'",
    "U&'a'\n'\\0062'",
];

const ESCAPE_LITERALS: &[&str] = &[r"'\\'", r"'a\n\x41'", r"'a\'b'", "'a\\'\n'", "'a'\n'\\'b'"];

#[test]
fn literals_say_what_the_server_reads() {
    for postgres in MAJORS.map(Postgres::shared) {
        let plain = Strings::default();
        for literal in LITERALS.iter().chain(PLAIN_LITERALS) {
            same_literal(postgres, Postgres::DATABASE, literal, plain);
        }
        run(postgres, "postgres", "DROP DATABASE IF EXISTS escapes");
        run(postgres, "postgres", "CREATE DATABASE escapes");
        run(
            postgres,
            "postgres",
            "ALTER DATABASE escapes SET standard_conforming_strings = off",
        );
        let escapes = Strings {
            backslashes: Backslashes::Escape,
            ..plain
        };
        for literal in LITERALS.iter().chain(ESCAPE_LITERALS) {
            same_literal(postgres, "escapes", literal, escapes);
        }
    }
}

fn same_literal(postgres: &Postgres, database: &str, literal: &str, strings: Strings) {
    let read = value(postgres, database, &format!("SELECT {literal}"));
    let read = read.unwrap_or_else(|| panic!("{literal} is refused"));
    let tokens: Vec<_> = Lexer::new(literal.as_bytes(), strings.backslashes).collect();
    assert_eq!(tokens.len(), 1, "{literal}");
    let decoded = tokens.first().and_then(|token| token.literal(strings));
    assert_eq!(decoded, Some(read.into_bytes()), "{literal}");
}

#[test]
fn names_are_what_the_server_calls_things() {
    let long = format!("\"{}\"", "ä".repeat(40));
    let shifted = format!("a{}", "É".repeat(40));
    let names = [
        "Abc$1",
        "_a",
        "ÄB",
        "\"A\"\"b\"",
        "\"a.b\"",
        r#"U&"\0041b\\""#,
        &long,
        &shifted,
        &"X".repeat(70),
    ];
    for postgres in MAJORS.map(Postgres::shared) {
        for name in names {
            let text =
                format!("SELECT json_object_keys(row_to_json(x)) FROM (SELECT 1 AS {name}) x");
            let read = value(postgres, Postgres::DATABASE, &text).expect("a name");
            let token = Lexer::new(name.as_bytes(), Backslashes::Plain).next();
            let decoded = token.and_then(|token| token.identifier(Strings::default()));
            assert_eq!(decoded.map(|name| name.to_string()), Some(read), "{name}");
        }
    }
}

/// Each statement of the text answers with one row.
#[test]
fn statements_end_where_the_server_ends_them() {
    let texts = [
        "select 1; select ';' ;; /* ; /* ; */ */ select $$;$$, \";\" from (select 2 as \";\") x; -- ; end\n",
        "select E'\\'; select 1'; select (select 1) --;\n; select 'a'\n';b'",
        "select 1..2; select 1.5e3; select 3::int4;",
        "select case when true then 1 end; select 'x' as end; select a$$ from (select 1 as a$$) x",
    ];
    for postgres in MAJORS.map(Postgres::shared) {
        for text in texts {
            let Some(rows) = rows(postgres, Postgres::DATABASE, text) else {
                continue;
            };
            let found = statements(text.as_bytes(), Backslashes::Plain).count();
            assert_eq!(found, rows.len(), "{text}");
        }
        let body = "create or replace function atomic() returns int begin atomic select case when true then 1 end as end; select 2; end; select atomic()";
        assert_eq!(statements(body.as_bytes(), Backslashes::Plain).count(), 2);
        let answer = value(postgres, Postgres::DATABASE, body);
        assert_eq!(answer.as_deref(), Some("2"));
    }
}

const OBJECTS: &str = r#"
CREATE SCHEMA app;
CREATE SEQUENCE s;
CREATE FUNCTION app.sets(value text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('app.tenant', value, false); RETURN value; END $$;
CREATE FUNCTION "Calls It"() RETURNS text LANGUAGE sql AS 'SELECT app.sets(''a'')';
CREATE FUNCTION atomic_calls() RETURNS text BEGIN ATOMIC SELECT app.sets('b'); END;
CREATE FUNCTION harmless(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE pg_class SET relname = relname WHERE false; RETURN i; END $$;
CREATE FUNCTION locks(a int, b int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(a); RETURN a; END $$;
CREATE FUNCTION alias(text, text, bool) RETURNS text LANGUAGE internal AS 'set_config_by_name';
CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('c', ''); RETURN new; END $$;
CREATE TABLE plain (id int PRIMARY KEY);
CREATE TABLE notified (id int PRIMARY KEY);
CREATE TRIGGER fires AFTER INSERT ON notified FOR EACH ROW EXECUTE FUNCTION fires();
CREATE VIEW over_notified AS SELECT id FROM notified;
CREATE VIEW reads AS SELECT currval('s') FROM plain;
CREATE TABLE defaulted (id int DEFAULT lastval(), g int);
CREATE DOMAIN checked AS text CHECK (app.sets(value) <> '');
CREATE TABLE of_checked (c checked[]);
CREATE TABLE constrained (id int CHECK (locks(id, id) > 0));
CREATE TABLE secured (id int);
CREATE POLICY own ON secured USING (app.sets('x') IS NOT NULL);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE);
CREATE TRIGGER fires AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION fires();
CREATE TABLE referring (id int REFERENCES notified);
CREATE TABLE indexed (id int);
CREATE TABLE ranged (id int) PARTITION BY RANGE (id);
CREATE TABLE ranged_1 PARTITION OF ranged FOR VALUES FROM (0) TO (10);
CREATE TRIGGER fires AFTER INSERT ON ranged_1 FOR EACH ROW EXECUTE FUNCTION fires();
CREATE RULE ruled AS ON UPDATE TO indexed DO ALSO NOTIFY x;
CREATE OPERATOR ==># (LEFTARG = int, RIGHTARG = int, FUNCTION = locks);
CREATE AGGREGATE locked (int) (SFUNC = locks, STYPE = int, INITCOND = '0');
CREATE TYPE pair AS (a int, b int);
CREATE FUNCTION to_pair(text) RETURNS pair LANGUAGE sql AS 'SELECT set_config($1, $1, false), NULL::pair; SELECT NULL::pair';
CREATE CAST (text AS pair) WITH FUNCTION to_pair(text) AS ASSIGNMENT;
CREATE TABLE of_pair (p pair);
CREATE FUNCTION on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM setseed(0.5); END $$;
CREATE EVENT TRIGGER on_ddl ON ddl_command_end WHEN TAG IN ('CREATE SERVER') EXECUTE FUNCTION on_ddl();
"#;

fn fresh_database(postgres: &Postgres, name: &str) {
    run(
        postgres,
        "postgres",
        &format!("DROP DATABASE IF EXISTS {name}"),
    );
    run(postgres, "postgres", &format!("CREATE DATABASE {name}"));
}

fn learnt(postgres: &Postgres, database: &str) -> LearntNames {
    let mut catalog = Catalog::default();
    for query in learn::QUERIES {
        let text = format!("{}; {}; {}", learn::BEGIN, query.sql, learn::END);
        for row in postgres.query(database, &text).expect("rows") {
            let row: Vec<&[u8]> = row
                .iter()
                .map(|it| it.as_deref().expect("no NULL").as_bytes())
                .collect();
            assert_eq!(learn::Part::with_columns(row.len()), Some(query.part));
            catalog
                .add(query.part, &row)
                .expect("a row as it should be");
        }
    }
    learn::learn(&catalog).expect("few names")
}

#[test]
fn the_catalogue_tells_who_touches_session_state() {
    let sets = Suspicion::SETTINGS | Suspicion::ROLE;
    for postgres in MAJORS.map(Postgres::shared) {
        fresh_database(postgres, "learning");
        assert!(learnt(postgres, "learning").is_empty());
        run(postgres, "learning", OBJECTS);
        let learnt = learnt(postgres, "learning");
        for (name, expected) in [
            ("sets", sets),
            ("Calls It", sets),
            ("atomic_calls", sets),
            ("harmless", Suspicion::empty()),
            ("locks", Suspicion::ADVISORY_LOCK),
            ("alias", sets),
            ("fires", Suspicion::NOTIFY),
            ("plain", Suspicion::empty()),
            ("notified", Suspicion::NOTIFY),
            ("over_notified", Suspicion::NOTIFY),
            ("reads", Suspicion::SEQUENCE_READ),
            ("defaulted", Suspicion::SEQUENCE_READ),
            ("checked", sets),
            ("of_checked", sets),
            ("constrained", Suspicion::ADVISORY_LOCK),
            ("secured", sets),
            ("parent", Suspicion::NOTIFY),
            ("child", Suspicion::NOTIFY),
            ("referring", Suspicion::empty()),
            ("indexed", Suspicion::NOTIFY),
            ("ranged", Suspicion::NOTIFY),
            ("ranged_1", Suspicion::NOTIFY),
            ("==>#", Suspicion::ADVISORY_LOCK),
            ("locked", Suspicion::ADVISORY_LOCK),
            ("to_pair", sets),
            ("pair", sets),
            ("of_pair", sets),
        ] {
            assert_eq!(learnt.get(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(learnt.on_definition, Suspicion::SEED);
        assert_eq!(learnt.everywhere, Suspicion::empty());
        assert_eq!(learnt.settings.iter().collect::<Vec<_>>(), ["app.tenant"]);
        let scanner = Scanner::new(&learnt).expect("few names");
        assert_eq!(scanner.suspicion(b"SELECT \"Calls It\"()"), sets);
        assert_eq!(
            scanner.suspicion(b"INSERT INTO plain VALUES (1)"),
            Suspicion::empty()
        );
    }
}

#[test]
fn the_fingerprint_changes_with_the_catalogue() {
    for postgres in MAJORS.map(Postgres::shared) {
        fresh_database(postgres, "changing");
        run(
            postgres,
            "changing",
            "CREATE SCHEMA app; CREATE TABLE t (id int); CREATE DOMAIN d AS int",
        );
        let fingerprint =
            || value(postgres, "changing", learn::FINGERPRINT).expect("a fingerprint");
        for change in [
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 2'",
            "CREATE VIEW v AS SELECT 1 AS a",
            "CREATE OR REPLACE VIEW v AS SELECT 2 AS a",
            "ALTER TABLE t ADD b d",
            "ALTER TABLE t ALTER id SET DEFAULT 1",
            "ALTER DOMAIN d ADD CHECK (value > 0)",
            "ALTER TABLE t RENAME TO u",
            "CREATE POLICY p ON u USING (true)",
            "DROP FUNCTION f()",
        ] {
            let before = fingerprint();
            run(postgres, "changing", change);
            assert_ne!(fingerprint(), before, "{change}");
        }
        let before = fingerprint();
        run(
            postgres,
            "changing",
            "INSERT INTO u SELECT generate_series(1, 100); ANALYZE u; CREATE TEMP TABLE x (id serial PRIMARY KEY CHECK (id > 0))",
        );
        assert_eq!(fingerprint(), before);
    }
}
