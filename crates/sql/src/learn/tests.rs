use super::*;

type S = Suspicion;

const RELATION: u32 = 1259;
const TRIGGER: u32 = 2620;

fn function(oid: u32, name: &str, language: &str, body: &str) -> Function {
    Function {
        oid,
        schema: b"public".to_vec(),
        name: name.into(),
        language: language.to_owned(),
        kind: b'f',
        settings: Vec::new(),
        body: body.into(),
    }
}

fn object(class: u32, oid: u32, reach: Reach, name: &str, text: &str) -> Object {
    Object {
        node: Node { class, oid },
        reach,
        name: name.into(),
        text: text.into(),
    }
}

fn uses(user: (u32, u32), used: (u32, u32)) -> Dependency {
    let node = |(class, oid)| Node { class, oid };
    Dependency {
        user: node(user),
        used: node(used),
    }
}

fn learnt(catalog: &Catalog) -> Vec<(String, S)> {
    let learnt = learn(catalog).expect("few names");
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    learnt
        .iter()
        .map(|(it, suspicion)| (name(it), suspicion))
        .collect()
}

#[test]
fn bodies_by_language() {
    for (language, body, expected) in [
        ("sql", "select 1", S::empty()),
        ("sql", "update t set a = 1", S::empty()),
        (
            "sql",
            "select set_config('a.b', $1, false)",
            S::SETTINGS | S::ROLE,
        ),
        (
            "sql",
            "BEGIN ATOMIC\n SELECT lastval();\nEND",
            S::SEQUENCE_READ,
        ),
        (
            "plpgsql",
            "begin perform pg_advisory_lock(1); end",
            S::ADVISORY_LOCK,
        ),
        (
            "plpgsql",
            "begin if a then set x = 1; end if; end",
            S::SETTINGS,
        ),
        (
            "plpgsql",
            "begin update t set a = 1; x := 2; end",
            S::empty(),
        ),
        (
            "plpgsql",
            "begin insert into t values (1) on conflict (a) do update set b = 2; end",
            S::empty(),
        ),
        (
            "plpgsql",
            "begin execute 'create temp table t ()'; end",
            S::TEMPORARY,
        ),
        (
            "plpgsql",
            "begin execute 'select 1' into x using 1; end",
            S::empty(),
        ),
        (
            "plpgsql",
            "begin execute format('select %s', x); end",
            S::OPAQUE | S::PREPARED,
        ),
        (
            "plpgsql",
            "begin return query execute q; end",
            S::OPAQUE | S::PREPARED,
        ),
        (
            "plpgsql",
            "begin for r in execute 'select 1' loop null; end loop; end",
            S::empty(),
        ),
        (
            "plpgsql",
            "begin grant execute on function f to r; close c; commit; end",
            S::TRANSACTION,
        ),
        (
            "plpythonu",
            "plpy.execute('set a = 1')",
            S::SETTINGS | S::ROLE | S::OPAQUE,
        ),
        ("plpython3u", "GD['x'] = 1", S::UNSEEN),
        ("plpython3u", "return 1", S::empty()),
        ("internal", "set_config_by_name", S::SETTINGS | S::ROLE),
        ("internal", "pg_try_advisory_lock_int8", S::ADVISORY_LOCK),
        ("c", "set", S::empty()),
    ] {
        let catalog = Catalog {
            functions: vec![function(20000, "f", language, body)],
            ..Catalog::default()
        };
        let expected = if expected.is_empty() {
            vec![]
        } else {
            vec![("f".to_owned(), expected)]
        };
        assert_eq!(learnt(&catalog), expected, "{language}: {body}");
    }
}

#[test]
fn through_one_another() {
    let catalog = Catalog {
        functions: vec![
            function(
                1,
                "sets",
                "plpgsql",
                "begin perform set_config(name, v, false); end",
            ),
            function(
                2,
                "names it",
                "plpgsql",
                "begin perform public.Sets('app.x', 'y'); end",
            ),
            function(3, "calls", "sql", "select \"names it\"()"),
            function(4, "on_insert", "plpgsql", "begin return calls(); end"),
            function(5, "reads_t", "sql", "select * from t"),
            function(6, "settles", "sql", "select 1"),
            function(7, "recursive", "sql", "select recursive(), recursive2()"),
        ],
        objects: vec![
            object(RELATION, 10, Reach::Name, "t", ""),
            object(RELATION, 11, Reach::Name, "v", ""),
            object(RELATION, 12, Reach::Name, "other", ""),
            object(TRIGGER, 20, Reach::Owner, "", ""),
            object(3466, 30, Reach::Definition, "", ""),
            object(2605, 31, Reach::Everywhere, "", "setseed"),
        ],
        dependencies: vec![
            uses((RELATION, 10), (TRIGGER, 20)),
            uses((TRIGGER, 20), (1255, 4)),
            uses((RELATION, 11), (RELATION, 10)),
            uses((3466, 30), (1255, 1)),
            uses((RELATION, 12), (1255, 6)),
        ],
    };
    let both = S::SETTINGS | S::ROLE;
    let expected = [
        "calls",
        "names it",
        "on_insert",
        "reads_t",
        "sets",
        "t",
        "v",
    ];
    assert_eq!(
        learnt(&catalog),
        expected.map(|name| (name.to_owned(), both))
    );
    let learnt = learn(&catalog).expect("few names");
    assert_eq!(learnt.on_definition, both);
    assert_eq!(learnt.everywhere, S::SEED);
    assert!(learnt.settings.contains("app.x") && learnt.settings_are_complete());
    let scanner = Scanner::new(&learnt).expect("few names");
    assert_eq!(
        scanner.suspicion(b"insert into v values (1)"),
        both | S::SEED
    );
}

#[test]
fn rows_are_checked() {
    let mut catalog = Catalog::default();
    for (part, row) in [
        (Part::Functions, &["1", "s", "n", "sql", "f", ""][..]),
        (Part::Functions, &["x", "s", "n", "sql", "f", "", "b"]),
        (Part::Functions, &["1", "s", "n", "sql", "", "", "b"]),
        (Part::Objects, &["1", "2", "somehow", "", ""]),
        (Part::Dependencies, &["1", "2", "3", "-4"]),
    ] {
        let row: Vec<&[u8]> = row.iter().map(|column| column.as_bytes()).collect();
        assert_eq!(catalog.add(part, &row), Err(BadRow(part)));
    }
    assert!(catalog.functions.is_empty());
}

#[test]
fn the_settings_are_those_of_the_transaction() {
    assert!(super::BEGIN.ends_with(super::SETTINGS));
}
