use super::*;

type S = Suspicion;

fn scan(text: &str) -> S {
    scan_with(&LearntNames::default(), text)
}

fn scan_with(learnt: &LearntNames, text: &str) -> S {
    Scanner::new(learnt)
        .expect("a scanner")
        .suspicion(text.as_bytes())
}

#[test]
fn plain_texts_are_not_suspicious() {
    for text in [
        "",
        " ; -- nothing",
        "SELECT abalance FROM pgbench_accounts WHERE aid = 1;",
        "UPDATE t SET a = 1, role = 2, seed = 3 WHERE b = 'set'",
        "/* set */ select 1; -- reset",
        "((select 1))",
        "select temp, temporary, hold, t.temp from weather where load = 1 and discard",
        "insert into t values ('a; set b = 1; do it; call me')",
        "insert into t values ('x'), ('a; set b = 1'); select 1",
        "select my_set_config(1), set_config_x(2), xcurrval, lastval_of, pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(1)",
        "select * from pg_settings",
        "select seed, random() from t",
        "merge into t using s on true when matched then update set a = 1",
        "insert into t values (1) on conflict (a) do update set a = 2",
        "declare c cursor without hold for select 1",
        "declare c cursor for select 1",
        "copy t from stdin",
        "show search_path",
        "fetch 10 from c",
        "explain analyze select 1",
        "select * from t for update",
        "truncate t",
        "vacuum",
        "grant select on t to u",
    ] {
        assert_eq!(scan(text), S::empty(), "{text}");
    }
}

#[test]
fn suspicious_texts() {
    let role = S::SETTINGS | S::ROLE;
    for (text, expected) in [
        ("set a = 1", S::SETTINGS),
        ("\n/* x */ -- y\n SeT a = 1", S::SETTINGS),
        ("set local app.role = 'x'", S::SETTINGS),
        ("set role x", role),
        ("set local role to x", role),
        ("set \"role\" = x", role),
        ("set session authorization x", role),
        ("set session session authorization x", role),
        ("set local session authorization x", role),
        ("set session_authorization = x", role),
        (
            "set session characteristics as transaction read only",
            S::SETTINGS,
        ),
        ("set session seed = 0.5", S::SETTINGS | S::SEED),
        ("reset all", S::SETTINGS),
        ("reset role", role),
        ("reset session authorization", role),
        ("select set_config('a.b', 'c', false)", role),
        ("select pg_catalog.SET_CONFIG ('a.b', 'c', false)", role),
        ("select \"set_config\"('a.b', 'c', false)", role),
        ("select set_config('seed', '0.5', false)", role | S::SEED),
        ("select u&\"set\\005fconfig\"('a.b', 'c', false)", S::OPAQUE),
        ("update pg_settings set setting = 1", role),
        (
            "with x as (select set_config('a.b', 'c', true)) select 1",
            role,
        ),
        ("prepare p as select 1", S::PREPARED),
        ("prepare transaction 'x'", S::TRANSACTION),
        ("prepare transaction as select 1", S::PREPARED),
        ("execute p(1)", S::PREPARED),
        ("deallocate all", S::PREPARED),
        ("explain (analyze) execute p", S::PREPARED),
        (
            "create table t as execute p",
            S::CATALOG_CHANGE | S::PREPARED | S::OPAQUE,
        ),
        ("select pg_advisory_lock(1)", S::ADVISORY_LOCK),
        ("select pg_try_advisory_lock_shared(1)", S::ADVISORY_LOCK),
        ("select pg_advisory_unlock_all()", S::ADVISORY_LOCK),
        ("create temp table t (a int)", S::TEMPORARY),
        (
            "create or replace temporary view v as select 1",
            S::TEMPORARY,
        ),
        ("create local temp sequence s", S::TEMPORARY),
        ("create /* x */ temp table t (a int)", S::TEMPORARY),
        ("create -- x\n temp table t (a int)", S::TEMPORARY),
        ("select 1 into temp t", S::TEMPORARY),
        (
            "create table pg_temp.t ()",
            S::TEMPORARY | S::CATALOG_CHANGE,
        ),
        ("select * from pg_temp_3.t", S::TEMPORARY),
        ("discard temp", S::DISCARD | S::TEMPORARY),
        ("discard all", S::DISCARD),
        ("declare c cursor with hold for select 1", S::HOLD_CURSOR),
        ("close c", S::HOLD_CURSOR),
        ("listen a", S::LISTEN),
        ("unlisten *", S::LISTEN),
        ("notify a, 'b'", S::NOTIFY),
        ("select pg_notify('a', 'b')", S::NOTIFY),
        ("select currval('s')", S::SEQUENCE_READ),
        ("insert into t values (lastval())", S::SEQUENCE_READ),
        ("select setseed(0.1)", S::SEED),
        ("load 'auto_explain'", S::LIBRARY),
        ("begin", S::TRANSACTION),
        ("start transaction", S::TRANSACTION),
        ("rollback to savepoint a", S::TRANSACTION),
        ("release a", S::TRANSACTION),
        ("commit prepared 'a'", S::TRANSACTION),
        ("do $$ begin end $$", S::OPAQUE),
        ("do $$ begin set x = 1; end $$", S::OPAQUE | S::SETTINGS),
        (
            "do $$ begin if true then execute 'set role a'; end if; end $$",
            S::OPAQUE | role,
        ),
        (
            "do $$ begin execute 'listen ' || a; end $$",
            S::OPAQUE | S::LISTEN | S::PREPARED,
        ),
        ("call p()", S::OPAQUE),
        ("create extension e", S::OPAQUE | S::CATALOG_CHANGE),
        (
            "create function f() returns int language sql as 'update t set a = 1'",
            S::CATALOG_CHANGE,
        ),
        (
            "create function f() returns int language plpgsql as $$ begin -- x\n set a = 1; end $$",
            S::CATALOG_CHANGE | S::SETTINGS,
        ),
        (
            "create function f() returns int language sql set a = 1 as $$ select 1 $$",
            S::CATALOG_CHANGE,
        ),
        (
            "create rule r as on insert to t do also notify x",
            S::CATALOG_CHANGE | S::NOTIFY,
        ),
        (
            "create trigger t after insert on t execute function f()",
            S::CATALOG_CHANGE,
        ),
        ("alter table t add a int", S::CATALOG_CHANGE),
        ("drop view v", S::CATALOG_CHANGE),
        (
            "select * from pg_prepared_statements, pg_cursors, pg_locks",
            S::SESSION_CATALOG,
        ),
        ("select query_to_xml($1, true, true, '')", S::OPAQUE),
        ("select dblink_connect_u('x')", S::UNSEEN),
        ("frobnicate all", S::OPAQUE),
        ("select 1; set a = 1", S::SETTINGS),
        (
            "begin; set local a = 1; select lastval(); commit",
            S::TRANSACTION | S::SETTINGS | S::SEQUENCE_READ,
        ),
        ("select '\\'; set a = 1; select ''", S::SETTINGS),
        ("select 'a\\''; set a = 1; select '", S::SETTINGS),
    ] {
        assert_eq!(scan(text), expected, "{text}");
    }
}

#[test]
fn learnt_names_are_found_in_any_spelling() {
    let mut learnt = LearntNames::default();
    learnt.insert(b"tenant_of", S::SETTINGS);
    learnt.insert(b"My Table", S::ROLE);
    learnt.insert(b"say\"so", S::LISTEN);
    learnt.insert(b"==>", S::SEED);
    learnt.insert("gr\u{f6}\u{df}e".as_bytes(), S::NOTIFY);
    let long = "n".repeat(63);
    learnt.insert(long.as_bytes(), S::LIBRARY);
    for (text, expected) in [
        ("select Tenant_Of(1)", S::SETTINGS),
        ("select app.\"tenant_of\"(1)", S::SETTINGS),
        ("select 'tenant_of'::regproc", S::SETTINGS),
        ("select x_tenant_of(1), tenant_off", S::empty()),
        ("insert into \"My Table\" values (1)", S::ROLE),
        ("insert into \"say\"\"so\" values (1)", S::LISTEN),
        ("select a==>b", S::SEED),
        ("select gr\u{f6}\u{df}e from t", S::NOTIFY),
        (&format!("select {long}nn()"), S::LIBRARY),
    ] {
        assert_eq!(scan_with(&learnt, text), expected, "{text}");
    }
}

#[test]
fn casts_and_event_triggers_need_no_name() {
    let mut learnt = LearntNames::default();
    learnt.everywhere = S::SEED;
    learnt.on_definition = S::LISTEN;
    assert_eq!(scan_with(&learnt, "select 1"), S::SEED);
    assert_eq!(scan_with(&learnt, "set a = 1"), S::SEED | S::SETTINGS);
    assert_eq!(scan_with(&learnt, "insert into t values (1)"), S::SEED);
    assert_eq!(scan_with(&learnt, "grant a to b"), S::SEED | S::LISTEN);
    assert_eq!(scan_with(&learnt, "select 1 into t"), S::SEED | S::LISTEN);
    assert_eq!(
        scan_with(&learnt, "drop table t"),
        S::SEED | S::LISTEN | S::CATALOG_CHANGE
    );
}

#[test]
fn effects_of_statements_that_do_more_are_not_understood() {
    let scanner = Scanner::new(&LearntNames::default()).expect("a scanner");
    let effect = |text: &str| scanner.effect(text.as_bytes(), Strings::default());
    assert_eq!(effect("select 1"), Some(Effect::Nothing));
    assert_eq!(effect("select set_config('a.b', '', true)"), None);
    assert!(effect("set app.x = 'set_config'").is_some());
    assert!(effect("prepare p as select lastval()").is_some());
    assert!(effect("execute p(1)").is_some());
    assert_eq!(effect("execute p(lastval())"), None);
    assert!(effect("declare c cursor with hold for select 1").is_some());
    assert_eq!(
        effect("declare c cursor with hold for select lastval()"),
        None
    );
}

#[test]
fn very_many_names_are_found_as_well() {
    let mut learnt = LearntNames::default();
    for number in 0..4000 {
        learnt.insert(
            format!("a_name_of_thirty_bytes_{number}").as_bytes(),
            S::SEED,
        );
    }
    assert_eq!(
        scan_with(&learnt, "select A_Name_of_thirty_bytes_3999()"),
        S::SEED
    );
    assert_eq!(
        scan_with(&learnt, "select a_name_of_thirty_bytes_4000()"),
        S::empty()
    );
    assert_eq!(scan_with(&learnt, "select lastval()"), S::SEQUENCE_READ);
}

/// The built-in words, some learnt ones, and what stands between them, at random: with vector instructions and without the same is found.
#[test]
fn the_quick_way_finds_what_the_slow_way_finds() {
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};
    const BETWEEN: &[&str] = &[
        " ", "", "_", "$", "\"", "\u{e9}", "\n", "--\n", "*/", ".", "(", "x", "create ", "with ",
        "UPDATE ", "@", "\u{7f}",
    ];
    let mut learnt = LearntNames::default();
    for name in [
        "tenant_of",
        "My Table",
        "==",
        "==>",
        "pg_temporal",
        "gr\u{f6}\u{df}e",
    ] {
        learnt.insert(name.as_bytes(), S::UNSEEN);
    }
    let quick = Words::new(&learnt).expect("words");
    let slow = Words::without_roots(&learnt).expect("words");
    let words: Vec<String> = words::texts(&learnt);
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..20_000 {
        let mut text = "-".repeat(*[0, 3, 90, 1000].choose(&mut rng).expect("one"));
        text.push_str(&"y ".repeat(rng.random_range(0..20)));
        for _ in 0..rng.random_range(0..4) {
            let mut word = words.choose(&mut rng).expect("one").clone();
            if rng.random_bool(0.3) {
                word.make_ascii_uppercase();
            }
            text.push_str(&word);
            text.push_str(BETWEEN.choose(&mut rng).expect("one"));
        }
        let (found, _) = quick.suspicion(text.as_bytes());
        assert_eq!(found, slow.suspicion(text.as_bytes()).0, "{text}");
    }
}

#[test]
fn marks_are_seen_wherever_they_stand() {
    let words = Words::new(&LearntNames::default()).expect("words");
    for len in [
        1, 3, 31, 32, 33, 57, 64, 127, 128, 129, 1023, 1024, 1025, 2100,
    ] {
        assert_eq!(words.suspicion(&vec![b'a'; len]).1, Marks::None);
        for at in 0..len {
            let mut text = vec![b'a'; len];
            text[at] = if at % 2 == 0 { b';' } else { b'&' };
            assert_eq!(words.suspicion(&text).1, Marks::Some, "{at} of {len}");
        }
    }
}

#[test]
fn common_first_words_are_told_like_others() {
    for text in [
        "begin",
        "End",
        "END;",
        "COMMIT;",
        "commit;",
        "Rollback",
        "rollback to a",
        "rollbacks",
        "select",
        "select(1)",
        "selects 1",
        "SELECT$",
        "with\u{e9}",
        "values(1)",
        "copy",
        "copyx",
        "e",
        "",
        "en",
        "end_",
        "fetch",
        "\u{13}elect",
        "DELETE",
        "insert into",
        "update\n",
    ] {
        let word: Vec<u8> = text
            .bytes()
            .take_while(|&byte| crate::lexer::is_word_byte(byte))
            .collect();
        let first = FirstWord::of(text.as_bytes());
        assert_eq!(first.opening, Opening::of(&word), "{text}");
    }
}

#[test]
fn several_statements() {
    for (text, expected) in [
        ("select 1; select ';'; select 2", S::empty()),
        ("select ';set a = 1'; select 2", S::empty()),
        ("select 1;/* ; */ listen a;", S::LISTEN),
        ("select 1; ;;commit", S::TRANSACTION),
        ("select 1;;", S::empty()),
        (&"select 1;".repeat(40), S::empty()),
        (&format!("{}listen a", "select 1;".repeat(40)), S::LISTEN),
        ("select 1; select u&\"a\"", S::OPAQUE),
        ("select 1 & 2, xu&\"a\", u & \"a\"", S::empty()),
        ("U&\"a\"", S::OPAQUE),
    ] {
        assert_eq!(scan(text), expected, "{text}");
    }
}
