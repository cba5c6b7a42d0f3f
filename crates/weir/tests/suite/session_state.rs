//! In transaction mode a client sees the state of its own session in every transaction, on whichever server connection, and nobody else's.

use crate::stage::{NO_VALUES, Party, Stage, USER, backend, error, execute, parse, value};
use testkit::Postgres;
use testkit::script::{Client, Message};
use testkit::wait;
use wire::write;

scenarios! { reactors: unreported_parameters, custom_parameters, set_by_functions, names_that_are_bound, rolled_back, reset_goes_back_to_the_startup_value,
roles, sql_prepared_statements, advisory_locks_pin, temporary_tables_pin, holdable_cursors_pin, listening_pins,
transaction_level_locks_do_not_pin, discard_all_unpins, what_a_client_leaves_is_undone, pins_are_limited, pins_are_denied, unused_pins_end, census_can_be_off,
plain_clients_cause_no_census, one_namespace_of_prepared_statements, reported_startup_values_come_back, sequence_values, empty_values_of_custom_parameters, large_statements_are_not_waited_for }
mod majors {
    scenarios! { majors: unreported_parameters, custom_parameters, roles, sql_prepared_statements, advisory_locks_pin, temporary_tables_pin, holdable_cursors_pin, listening_pins }
}

/// Runs simple queries of which nothing is expected but that they succeed.
#[track_caller]
fn run(client: &mut Client, statements: &[&str]) {
    for sql in statements {
        let messages = answer(client, sql);
        let failed = messages.iter().find(|message| message.tag == b'E');
        assert!(failed.is_none(), "{sql}: {failed:?}");
    }
}

#[track_caller]
fn answer(client: &mut Client, sql: &str) -> Vec<Message> {
    client.send(|out| write::query(out, sql.as_bytes()));
    client.receive_until("Z")
}

/// Whether somebody holds a server connection.
#[track_caller]
fn is_held(stage: &Stage) -> bool {
    let pools = stage.console().ask("SHOW POOLS");
    let pool = pools
        .having("database", Postgres::DATABASE)
        .having("user", USER);
    pool.number("sv_active") > 0
}

#[track_caller]
fn until_pinned(stage: &Stage, wanted: bool) {
    wait::until(&format!("pinned: {wanted}"), || is_held(stage) == wanted);
}

fn two(party: Party) -> (Stage, Client, Client) {
    let stage = party.start();
    let (one, two) = (stage.client(), stage.client());
    (stage, one, two)
}

fn unreported_parameters(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &[
            "SET work_mem = '5MB'",
            "SET search_path TO pg_catalog, public",
        ],
    );
    run(&mut two, &["SET work_mem = 7168", "SELECT 1"]);
    for _ in 0..2 {
        assert_eq!(value(&mut one, "SHOW work_mem"), "5MB");
        assert_eq!(value(&mut one, "SHOW search_path"), "pg_catalog, public");
        assert_eq!(value(&mut two, "SHOW work_mem"), "7MB");
        assert_eq!(value(&mut two, "SHOW search_path"), "\"$user\", public");
    }
    run(&mut one, &["SET work_mem TO DEFAULT"]);
    assert_eq!(value(&mut two, "SHOW work_mem"), "7MB");
    assert_eq!(value(&mut one, "SHOW work_mem"), "4MB");
}

fn custom_parameters(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    let tenant = "SELECT current_setting('app.tenant', true)";
    run(
        &mut one,
        &[
            "SET app.tenant = 'it''s \u{e4}'",
            "SELECT set_config('app.other', 'x', false)",
        ],
    );
    assert_eq!(value(&mut two, tenant), "");
    run(&mut two, &["BEGIN", "SET app.tenant = 2", "COMMIT"]);
    for _ in 0..2 {
        assert_eq!(value(&mut one, tenant), "it's \u{e4}");
        assert_eq!(value(&mut one, "SELECT current_setting('app.other')"), "x");
        assert_eq!(value(&mut two, tenant), "2");
        assert_eq!(
            value(&mut two, "SELECT current_setting('app.other', true)"),
            ""
        );
    }
    run(&mut one, &["RESET app.tenant"]);
    assert_eq!(value(&mut two, tenant), "2");
    assert_eq!(value(&mut one, tenant), "");
}

fn set_by_functions(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &["DO $$ BEGIN PERFORM set_config('app.hidden', 'h', false); SET work_mem = '6MB'; END $$"],
    );
    assert_eq!(
        value(&mut two, "SELECT current_setting('app.hidden', true)"),
        ""
    );
    assert_eq!(value(&mut two, "SHOW work_mem"), "4MB");
    assert_eq!(
        value(&mut one, "SELECT current_setting('app.hidden', true)"),
        "h"
    );
    assert_eq!(value(&mut one, "SHOW work_mem"), "6MB");
}

fn names_that_are_bound(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    let values = |name: &str, value: &str| {
        let mut rest = vec![0, 0, 0, 2];
        for text in [name, value] {
            rest.extend_from_slice(&(text.len() as u32).to_be_bytes());
            rest.extend_from_slice(text.as_bytes());
        }
        rest.extend_from_slice(&[0, 0]);
        rest
    };
    one.send(|out| {
        parse(out, "set", "SELECT set_config($1, $2, false)");
        write::bind(
            out,
            b"",
            b"set",
            &values("app.a_name_of_thirty_six_characters_x", "1"),
        );
        write::execute(out, b"", 0);
        write::sync(out);
    });
    one.expect("1 2 D C Z");
    let ask = "SELECT current_setting('app.a_name_of_thirty_six_characters_x', true)";
    assert_eq!(value(&mut two, ask), "");
    assert_eq!(value(&mut one, ask), "1");
}

fn rolled_back(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &[
            "BEGIN",
            "SET work_mem = '9MB'",
            "ROLLBACK",
            "BEGIN",
            "SET work_mem = '8MB'",
            "SAVEPOINT s",
            "SET work_mem = '9MB'",
            "ROLLBACK TO s",
            "COMMIT",
        ],
    );
    run(&mut two, &["SELECT 1"]);
    assert_eq!(value(&mut one, "SHOW work_mem"), "8MB");
    assert_eq!(value(&mut two, "SHOW work_mem"), "4MB");
}

fn reset_goes_back_to_the_startup_value(party: Party) {
    let stage = party.start();
    let own = [
        ("user", USER),
        ("database", Postgres::DATABASE),
        ("work_mem", "3MB"),
    ];
    let mut one = Client::login_with(stage.port(), wire::startup::PROTOCOL_3_0, &own);
    let mut two = stage.client();
    run(&mut one, &["SET work_mem = '9MB'"]);
    assert_eq!(value(&mut two, "SHOW work_mem"), "4MB");
    assert_eq!(value(&mut one, "SHOW work_mem"), "9MB");
    for reset in [
        "RESET work_mem",
        "RESET ALL",
        "DISCARD ALL",
        "SET work_mem TO DEFAULT",
    ] {
        run(&mut one, &["SET work_mem = '9MB'", reset]);
        assert_eq!(value(&mut one, "SHOW work_mem"), "3MB", "{reset}");
        assert_eq!(value(&mut two, "SHOW work_mem"), "4MB", "{reset}");
    }
}

fn roles(party: Party) {
    let role = party.own_name("actor");
    party
        .postgres()
        .execute(&format!(
            "DROP ROLE IF EXISTS {role}; CREATE ROLE {role}; GRANT {role} TO {USER}"
        ))
        .unwrap();
    let (_stage, mut one, mut two) = two(party);
    run(&mut one, &[&format!("SET ROLE {role}")]);
    for _ in 0..2 {
        assert_eq!(value(&mut two, "SELECT current_user"), USER);
        assert_eq!(value(&mut one, "SELECT current_user"), role);
    }
    run(&mut one, &["SET work_mem = '5MB'", "RESET ALL"]);
    assert_eq!(value(&mut two, "SELECT current_user"), USER);
    assert_eq!(
        value(&mut one, "SELECT current_user"),
        role,
        "RESET ALL leaves the role"
    );
    run(&mut one, &["RESET ROLE"]);
    assert_eq!(value(&mut two, "SELECT current_user"), USER);
    assert_eq!(value(&mut one, "SELECT current_user"), USER);
}

fn sql_prepared_statements(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &[
            "PREPARE p AS SELECT 'one'",
            "SELECT 1; PREPARE q(int) AS SELECT $1 + 1 -- a comment",
        ],
    );
    run(&mut two, &["PREPARE p AS SELECT 'two'"]);
    for _ in 0..2 {
        assert_eq!(value(&mut one, "EXECUTE p"), "one");
        assert_eq!(value(&mut one, "EXECUTE q(1)"), "2");
        assert_eq!(value(&mut two, "EXECUTE p"), "two");
        assert_eq!(
            error(&answer(&mut two, "EXECUTE q(1)"))
                .field(b'C')
                .as_deref(),
            Some("26000")
        );
    }
    run(&mut one, &["DEALLOCATE p"]);
    assert_eq!(value(&mut two, "EXECUTE p"), "two");
    assert_eq!(
        error(&answer(&mut one, "EXECUTE p")).field(b'C').as_deref(),
        Some("26000")
    );
}

fn advisory_locks_pin(party: Party) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 2));
    let (mut one, mut two) = (stage.client(), stage.client());
    let key = std::process::id();
    run(&mut one, &[&format!("SELECT pg_advisory_lock({key})")]);
    let server = backend(&mut one);
    for _ in 0..3 {
        assert_ne!(backend(&mut two), server);
        assert_eq!(
            value(&mut two, &format!("SELECT pg_try_advisory_lock({key})")),
            "f"
        );
        assert_eq!(backend(&mut one), server);
    }
    run(&mut one, &[&format!("SELECT pg_advisory_unlock({key})")]);
    until_pool_is_quiet(&stage);
    assert_eq!(
        value(&mut two, &format!("SELECT pg_try_advisory_lock({key})")),
        "t"
    );
}

/// Nobody keeps a server connection.
fn until_pool_is_quiet(stage: &Stage) {
    stage.until_pool(Postgres::DATABASE, "sv_active", 0);
}

fn temporary_tables_pin(party: Party) {
    let (stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &["CREATE TEMP TABLE t (a int)", "INSERT INTO t VALUES (1)"],
    );
    until_pinned(&stage, true);
    assert_eq!(value(&mut one, "SELECT a FROM t"), "1");
    run(&mut one, &["DROP TABLE t"]);
    until_pinned(&stage, false);
    assert_eq!(value(&mut two, "SELECT to_regclass('t') IS NULL"), "t");
    run(
        &mut one,
        &[
            "BEGIN",
            "CREATE TEMP TABLE t (a int) ON COMMIT DROP",
            "COMMIT",
        ],
    );
    until_pinned(&stage, false);
    run(&mut two, &["SELECT 1"]);
}

fn holdable_cursors_pin(party: Party) {
    let (stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &[
            "BEGIN",
            "DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 3)",
            "COMMIT",
        ],
    );
    until_pinned(&stage, true);
    assert_eq!(value(&mut one, "FETCH c"), "1");
    assert_eq!(value(&mut one, "FETCH c"), "2");
    run(&mut one, &["CLOSE c"]);
    until_pinned(&stage, false);
    assert_eq!(
        error(&answer(&mut two, "FETCH c")).field(b'C').as_deref(),
        Some("34000")
    );
}

fn listening_pins(party: Party) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 2));
    let (mut one, mut two) = (stage.client(), stage.client());
    let channel = party.own_name("channel");
    run(&mut one, &[&format!("LISTEN {channel}")]);
    run(&mut two, &[&format!("NOTIFY {channel}, 'hello'")]);
    one.expect("A");
    run(&mut one, &["UNLISTEN *"]);
    until_pool_is_quiet(&stage);
}

fn transaction_level_locks_do_not_pin(party: Party) {
    let (stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &[
            "SELECT pg_advisory_xact_lock(1)",
            "BEGIN",
            "SELECT pg_try_advisory_xact_lock(2)",
            "COMMIT",
            "SELECT pg_advisory_unlock_all()",
        ],
    );
    until_pinned(&stage, false);
    run(&mut two, &["SELECT 1"]);
}

fn discard_all_unpins(party: Party) {
    let (stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &[
            "CREATE TEMP TABLE t (a int)",
            "SET work_mem = '5MB'",
            "SELECT pg_advisory_lock(7777)",
            "PREPARE p AS SELECT 1",
        ],
    );
    until_pinned(&stage, true);
    run(&mut one, &["DISCARD ALL"]);
    until_pinned(&stage, false);
    assert_eq!(value(&mut two, "SHOW work_mem"), "4MB");
    assert_eq!(value(&mut one, "SHOW work_mem"), "4MB");
}

fn what_a_client_leaves_is_undone(party: Party) {
    let stage = party.start();
    let mut two = stage.client();
    let leavings = [
        "SET work_mem = '5MB'; SET app.left = 'x'; SELECT pg_advisory_lock(4711); CREATE TEMP TABLE left_behind (a int); PREPARE p AS SELECT 1; LISTEN c",
        "BEGIN; SET work_mem = '5MB'; SET app.left = 'x'; SELECT pg_advisory_lock(4711)",
        "SET work_mem = '5MB'; SELECT pg_advisory_lock(4711); SELECT pg_sleep(600)",
    ];
    let state = "SELECT concat_ws('/', current_setting('work_mem'), current_setting('app.left', true), to_regclass('left_behind')::text, \
        (SELECT count(*) FROM pg_prepared_statements WHERE from_sql), (SELECT count(*) FROM pg_listening_channels()), \
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()))";
    let clean = value(&mut two, state);
    for left in leavings {
        let mut one = stage.client();
        one.send(|out| write::query(out, left.as_bytes()));
        if left.contains("pg_sleep") {
            wait::until("the query runs", || {
                stage.server_says("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%4711%'") != "0"
            });
        } else {
            one.receive_until("Z");
        }
        drop(one);
        assert_eq!(
            value(&mut two, state).replace("4MB//", "4MB/"),
            clean.replace("4MB//", "4MB/"),
            "{left}"
        );
    }
    assert_eq!(
        value(
            &mut two,
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%4711%'"
        ),
        "0"
    );
}

fn pins_are_limited(party: Party) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 3).set("max_pinned", "0.67"));
    let mut pinned: Vec<Client> = (0..2).map(|_| stage.client()).collect();
    for client in &mut pinned {
        run(client, &["CREATE TEMP TABLE t (a int)"]);
    }
    // The answer comes before the census: the third could be quicker.
    wait::until("both are pinned", || {
        stage.console().ask("SHOW PINS").rows.len() == 2
    });
    let mut third = stage.client();
    third.send(|out| write::query(out, b"CREATE TEMP TABLE of_the_third (a int)"));
    let messages = third.receive_until("E");
    let refusal = error(&messages);
    assert_eq!(refusal.field(b'C').as_deref(), Some("53300"));
    assert!(
        refusal
            .field(b'H')
            .unwrap_or_default()
            .contains("of_the_third")
    );
    third.expect_closed();
    let mut fourth = stage.client();
    assert_eq!(
        value(&mut fourth, "SELECT to_regclass('of_the_third') IS NULL"),
        "t"
    );
    run(&mut pinned[0], &["DROP TABLE t"]);
    wait::until("a place is free", || {
        let mut fifth = stage.client();
        fifth.send(|out| write::query(out, b"CREATE TEMP TABLE t (a int)"));
        fifth.receive_until("Z");
        fifth.send(|out| write::query(out, b"SELECT 1"));
        fifth.receive().tag != b'E'
    });
}

fn pins_are_denied(party: Party) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 1).set("pin", "deny"));
    let mut one = stage.client();
    run(&mut one, &["SET work_mem = '5MB'"]);
    one.send(|out| write::query(out, b"SELECT pg_advisory_lock(8)"));
    let messages = one.receive_until("E");
    assert_eq!(error(&messages).field(b'C').as_deref(), Some("0A000"));
    one.expect_closed();
    let mut two = stage.client();
    assert_eq!(
        value(
            &mut two,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ),
        "0"
    );
}

fn unused_pins_end(party: Party) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 1).set("pin_timeout", 1));
    let mut one = stage.client();
    run(&mut one, &["CREATE TEMP TABLE t (a int)"]);
    let messages = one.receive_until("E");
    assert_eq!(error(&messages).field(b'C').as_deref(), Some("57P05"));
    one.expect_closed();
    run(&mut stage.client(), &["CREATE TEMP TABLE t (a int)"]);
}

fn census_can_be_off(party: Party) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 1).set("census", "off"));
    let (mut one, mut two) = (stage.client(), stage.client());
    run(&mut one, &["SET work_mem = '5MB'"]);
    assert_eq!(
        value(&mut two, "SHOW work_mem"),
        "5MB",
        "as PgBouncer has it"
    );
}

fn plain_clients_cause_no_census(party: Party) {
    let (stage, mut one, mut two) = two(party);
    run(
        &mut one,
        &["CREATE TABLE IF NOT EXISTS rows_of_plain_clients (a int)"],
    );
    wait::until("the catalogue has been read anew", || {
        let figures = stage.console().ask("SHOW CENSUS");
        figures
            .having("database", Postgres::DATABASE)
            .only("catalogue")
            == "read"
    });
    let before = censuses(&stage);
    for client in [&mut one, &mut two] {
        run(
            client,
            &[
                "BEGIN",
                "INSERT INTO rows_of_plain_clients VALUES (1)",
                "COMMIT",
                "UPDATE rows_of_plain_clients SET a = 2",
                "SELECT 'set x = 1'",
            ],
        );
        client.send(|out| {
            parse(out, "plain", "SELECT 1");
            execute(out, "plain");
            write::sync(out);
        });
        client.expect("1 2 D C Z");
    }
    assert_eq!(censuses(&stage), before);
    run(&mut one, &["SET work_mem = '5MB'"]);
    until_pinned(&stage, false);
    assert_eq!(censuses(&stage), before + 1);
}

fn censuses(stage: &Stage) -> i64 {
    let counters = stage
        .console()
        .ask("SHOW CENSUS")
        .having("database", Postgres::DATABASE);
    counters.number("censuses")
}

fn large_statements_are_not_waited_for(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    let padding = "x".repeat(300_000);
    run(
        &mut one,
        &[&format!(
            "SELECT set_config('app.large', '{padding}', false); SET work_mem = '5MB'"
        )],
    );
    assert_eq!(value(&mut two, "SHOW work_mem"), "4MB");
    assert_eq!(value(&mut one, "SHOW work_mem"), "5MB");
    two.send(|out| {
        parse(out, "", &format!("SELECT length('{padding}')"));
        write::bind(out, b"", b"", NO_VALUES);
        write::execute(out, b"", 0);
        write::sync(out);
    });
    two.expect("1 2 D C Z");
}

fn one_namespace_of_prepared_statements(party: Party) {
    let (_stage, mut one, mut two) = two(party);
    one.send(|out| {
        parse(out, "mine", "SELECT $1::int + 1");
        write::sync(out);
    });
    one.expect("1 Z(I)");
    run(&mut two, &["DISCARD ALL"]);
    assert_eq!(value(&mut one, "EXECUTE mine (41)"), "42");
    let taken = answer(&mut one, "PREPARE mine AS SELECT 2");
    assert_eq!(error(&taken).field(b'C').as_deref(), Some("42P05"));
    assert!(
        error(&taken)
            .field(b'M')
            .unwrap_or_default()
            .contains("\"mine\"")
    );
    run(&mut one, &["BEGIN", "DEALLOCATE mine", "COMMIT"]);
    let gone = answer(&mut one, "EXECUTE mine (1)");
    assert_eq!(error(&gone).field(b'C').as_deref(), Some("26000"));
    run(&mut one, &["BEGIN", "PREPARE mine AS SELECT 'by SQL'"]);
    one.send(|out| {
        parse(out, "mine", "SELECT 2");
        write::sync(out);
    });
    one.expect("E(42P05) Z(E)");
    run(&mut one, &["ROLLBACK"]);
    run(&mut two, &["SELECT 1"]);
    one.send(|out| {
        parse(out, "mine", "SELECT 3");
        write::sync(out);
    });
    one.expect("E(42P05) Z(I)");
    one.send(|out| {
        execute(out, "mine");
        write::sync(out);
    });
    one.expect("2 D(by SQL) C Z(I)");
}

fn reported_startup_values_come_back(party: Party) {
    let stage = party.start();
    let own = [
        ("user", USER),
        ("database", Postgres::DATABASE),
        ("DateStyle", "SQL, DMY"),
        ("application_name", "started"),
    ];
    let mut one = Client::login_with(stage.port(), wire::startup::PROTOCOL_3_0, &own);
    let mut two = stage.client();
    run(&mut one, &["RESET ALL"]);
    assert_eq!(value(&mut one, "SHOW DateStyle"), "SQL, DMY");
    // Also if the server's own value is what is set at the moment, of which it says nothing then.
    run(&mut one, &["SET application_name = ''"]);
    let told = answer(&mut one, "DISCARD ALL");
    let told: Vec<_> = told.iter().filter_map(Message::detail).collect();
    assert!(
        told.contains(&"application_name=started".to_owned()),
        "{told:?}"
    );
    for reset in [
        "RESET ALL",
        "DISCARD ALL",
        "SET DateStyle TO DEFAULT",
        "RESET DateStyle",
    ] {
        run(&mut one, &["SET DateStyle = 'German'"]);
        let messages = answer(&mut one, reset);
        let told = messages.iter().rev().find(|message| {
            message.tag == b'S'
                && message
                    .detail()
                    .is_some_and(|detail| detail.starts_with("DateStyle"))
        });
        let told = told.and_then(Message::detail);
        assert_eq!(told.as_deref(), Some("DateStyle=SQL, DMY"), "{reset}");
        run(&mut two, &["SELECT 1"]);
        assert_eq!(value(&mut one, "SHOW DateStyle"), "SQL, DMY", "{reset}");
        assert_eq!(
            value(&mut one, "SHOW application_name"),
            "started",
            "{reset}"
        );
        assert_eq!(value(&mut two, "SHOW DateStyle"), "ISO, MDY", "{reset}");
    }
}

/// The first question of a pool may be answered with an error where the own value is there; another client's value never comes.
fn sequence_values(party: Party) {
    let (stage, mut one, mut two) = two(party);
    let table = stage.table("id serial, a int");
    let insert = format!("INSERT INTO {table} (a) VALUES (1)");
    let is_undefined = |messages: &[Message]| {
        assert_eq!(error(messages).field(b'C').as_deref(), Some("55000"));
    };
    run(&mut one, &[&insert, &insert]);
    is_undefined(&answer(&mut two, "SELECT lastval()"));
    is_undefined(&answer(
        &mut two,
        &format!("SELECT currval('{table}_id_seq')"),
    ));
    for _ in 0..3 {
        run(&mut one, &[&insert]);
        let own = value(&mut one, "SELECT lastval()");
        let last = value(&mut one, &format!("SELECT max(id) FROM {table}"));
        assert_eq!(own, last);
        is_undefined(&answer(&mut two, "SELECT lastval()"));
    }
    run(&mut one, &["BEGIN", &insert]);
    assert_eq!(
        value(
            &mut one,
            &format!("SELECT lastval() = max(id) FROM {table}")
        ),
        "t"
    );
    run(&mut one, &["COMMIT"]);
    is_undefined(&answer(&mut two, "SELECT lastval()"));
    // Kept for a moment only.
    run(&mut one, &[&insert]);
    run(&mut two, &["SELECT 1"]);
}

fn empty_values_of_custom_parameters(party: Party) {
    let stage = party.start();
    let own = [
        ("user", USER),
        ("database", Postgres::DATABASE),
        ("options", "-c app.customer=option"),
    ];
    let mut one = Client::login_with(stage.port(), wire::startup::PROTOCOL_3_0, &own);
    let mut two = stage.client();
    let user = "SELECT current_setting('app.customer', true)";
    run(&mut one, &["SELECT set_config('app.customer', '', false)"]);
    run(&mut two, &["SELECT 1"]);
    assert_eq!(value(&mut one, user), "");
    run(&mut one, &["RESET app.customer"]);
    assert_eq!(value(&mut two, user), "");
    assert_eq!(value(&mut one, user), "option");
}
