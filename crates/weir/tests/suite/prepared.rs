//! Prepared statements in transaction mode: a client moves between two server connections and finds its statements on both.

use crate::stage::{NO_VALUES, Party, Stage, backend, error, execute, parse, value};
use testkit::script::Client;
use wire::frontend::Target;
use wire::write;

scenarios! { reactors:
    named_statements_follow_the_client, unnamed_statements_follow_the_client, closed_statements_are_gone, names_belong_to_the_client,
    deallocate_all_and_discard_all, eviction_is_not_seen, errors_use_the_clients_name, changed_result_types_heal,
    outdated_statements_stay_refused_until_prepared_anew, a_failed_transaction_refuses_a_known_statement,
    constants_are_read_as_the_client_has_set_it,
}
mod majors {
    scenarios! { majors:
        named_statements_follow_the_client, unnamed_statements_follow_the_client, closed_statements_are_gone, names_belong_to_the_client,
        deallocate_all_and_discard_all, eviction_is_not_seen, errors_use_the_clients_name, changed_result_types_heal,
    }
}

fn two_servers(party: Party) -> Stage {
    party.start_with(|ini| ini.set("default_pool_size", 2))
}

/// Holds the server connection that the next client would get, so that it gets another one.
fn occupy(stage: &Stage) -> (Client, String) {
    let mut client = stage.client();
    client.query("BEGIN");
    let server = backend(&mut client);
    (client, server)
}

fn prepare(client: &mut Client, name: &str, sql: &str) {
    client.send(|out| {
        parse(out, name, sql);
        write::sync(out);
    });
    client.expect("1 Z(I)");
}

/// The value that a statement gives.
#[track_caller]
fn run(client: &mut Client, name: &str) -> String {
    client.send(|out| {
        execute(out, name);
        write::sync(out);
    });
    let messages = client.expect("2 D C Z");
    messages[1].values()[0].clone().unwrap_or_default()
}

#[track_caller]
fn is_missing(client: &mut Client, name: &str) {
    client.send(|out| {
        execute(out, name);
        write::sync(out);
    });
    client.expect("E(26000) Z(I)");
}

fn named_statements_follow_the_client(party: Party) {
    let stage = two_servers(party);
    let mut client = stage.client();
    prepare(&mut client, "s", "SELECT pg_backend_pid()");
    let first = run(&mut client, "s");
    let (mut other, held) = occupy(&stage);
    assert_eq!(held, first);
    let second = run(&mut client, "s");
    assert_ne!(second, first);
    client.send(|out| {
        write::describe(out, Target::Statement, b"s");
        write::sync(out);
    });
    client.expect("t T Z(I)");
    other.query("COMMIT");
    // It is parsed once on each connection, whatever happens.
    for _ in 0..5 {
        run(&mut client, "s");
    }
    assert_eq!(
        value(&mut client, "SELECT count(*) FROM pg_prepared_statements"),
        "1"
    );
}

fn unnamed_statements_follow_the_client(party: Party) {
    let stage = two_servers(party);
    let mut client = stage.client();
    prepare(&mut client, "", "SELECT pg_backend_pid()");
    let first = run(&mut client, "");
    let (mut other, held) = occupy(&stage);
    assert_eq!(held, first);
    assert_ne!(run(&mut client, ""), first);
    other.query("COMMIT");
    prepare(&mut other, "", "SELECT 'of the other'");
    // Each has its own.
    for _ in 0..3 {
        assert_eq!(run(&mut other, ""), "of the other");
        run(&mut client, "").parse::<u32>().expect("a process id");
    }
    client.query("SELECT 1");
    is_missing(&mut client, "");
}

fn closed_statements_are_gone(party: Party) {
    let stage = two_servers(party);
    let mut client = stage.client();
    prepare(&mut client, "s", "SELECT 1");
    client.send(|out| {
        write::close(out, Target::Statement, b"s");
        write::close(out, Target::Statement, b"never made");
        write::sync(out);
    });
    client.expect("3 3 Z(I)");
    is_missing(&mut client, "s");
    prepare(&mut client, "s", "SELECT 2");
    assert_eq!(run(&mut client, "s"), "2");
}

fn names_belong_to_the_client(party: Party) {
    let stage = two_servers(party);
    let (mut one, mut two) = (stage.client(), stage.client());
    prepare(&mut one, "s", "SELECT 'one'");
    prepare(&mut two, "s", "SELECT 'two'");
    for _ in 0..3 {
        assert_eq!(run(&mut one, "s"), "one");
        assert_eq!(run(&mut two, "s"), "two");
    }
    is_missing(&mut stage.client(), "s");
    one.send(|out| {
        write::close(out, Target::Statement, b"s");
        write::sync(out);
    });
    one.expect("3 Z(I)");
    assert_eq!(run(&mut two, "s"), "two");
}

fn deallocate_all_and_discard_all(party: Party) {
    let stage = two_servers(party);
    let (mut one, mut two) = (stage.client(), stage.client());
    for command in ["DEALLOCATE ALL", "DISCARD ALL"] {
        prepare(&mut one, "s", "SELECT 'one'");
        prepare(&mut two, "s", "SELECT 'two'");
        assert_eq!(one.query(command), format!("C({command}) Z(I)"));
        is_missing(&mut one, "s");
        assert_eq!(run(&mut two, "s"), "two", "{command}");
        two.query(command);
    }
    prepare(&mut one, "s", "SELECT 'one'");
    one.send(|out| {
        parse(out, "", "DEALLOCATE ALL");
        execute(out, "");
        write::sync(out);
    });
    one.expect("1 2 C(DEALLOCATE ALL) Z(I)");
    is_missing(&mut one, "s");
}

fn eviction_is_not_seen(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 1)
            .set("max_prepared_statements", 1)
    });
    let mut client = stage.client();
    for name in ["a", "b", "c"] {
        prepare(&mut client, name, &format!("SELECT '{name}'"));
    }
    for name in ["a", "b", "c", "c", "a", "b"] {
        assert_eq!(run(&mut client, name), name);
    }
    client.send(|out| {
        for name in ["a", "b", "c"] {
            execute(out, name);
        }
        write::sync(out);
    });
    client.expect("2 D(a) C 2 D(b) C 2 D(c) C Z(I)");
    assert_eq!(
        value(&mut client, "SELECT count(*) FROM pg_prepared_statements"),
        "1"
    );
}

fn errors_use_the_clients_name(party: Party) {
    let stage = two_servers(party);
    let mut client = stage.client();
    prepare(&mut client, "mine", "SELECT 1");
    client.send(|out| {
        parse(out, "mine", "SELECT 2");
        write::sync(out);
    });
    let text = error(&client.expect("E(42P05) Z(I)"))
        .field(b'M')
        .unwrap_or_default();
    assert_eq!(text, "prepared statement \"mine\" already exists");
    client.send(|out| {
        write::bind(out, b"", b"mine", &[0, 0, 0, 1, 0, 0, 0, 1, b'x', 0, 0]);
        write::sync(out);
    });
    let text = error(&client.expect("E(08P01) Z(I)"))
        .field(b'M')
        .unwrap_or_default();
    assert_eq!(
        text,
        "bind message supplies 1 parameters, but prepared statement \"mine\" requires 0"
    );
    client.send(|out| {
        execute(out, "nobody's");
        write::sync(out);
    });
    let text = error(&client.expect("E(26000) Z(I)"))
        .field(b'M')
        .unwrap_or_default();
    assert_eq!(text, "prepared statement \"nobody's\" does not exist");
    assert_eq!(run(&mut client, "mine"), "1");
}

/// A table gets a column: PostgreSQL refuses the plan. Outside of a transaction block the client does not hear of it.
fn changed_result_types_heal(party: Party) {
    let stage = party.start();
    let (mut one, mut two) = (stage.client(), stage.client());
    let table = stage.table("i int DEFAULT 1");
    let read = format!("SELECT * FROM {table}");
    one.query(&format!("INSERT INTO {table} DEFAULT VALUES"));
    prepare(&mut one, "s", &read);
    assert_eq!(run(&mut one, "s"), "1");
    two.query(&format!("ALTER TABLE {table} ADD COLUMN j int DEFAULT 2"));
    one.send(|out| {
        write::describe(out, Target::Statement, b"s");
        execute(out, "s");
        write::sync(out);
    });
    one.expect("t T 2 D(1,2) C Z(I)");
    two.query(&format!("ALTER TABLE {table} ADD COLUMN k int DEFAULT 3"));
    // Prepared by another client after the change, which is to Weir a statement that the server has: in one segment, and in two.
    two.send(|out| {
        parse(out, "mine", &read);
        write::describe(out, Target::Statement, b"mine");
        execute(out, "mine");
        write::sync(out);
    });
    two.expect("1 t T 2 D(1,2,3) C Z(I)");
    two.query(&format!("ALTER TABLE {table} DROP COLUMN j"));
    prepare(&mut two, "again", &read);
    two.send(|out| {
        write::bind(out, b"", b"again", NO_VALUES);
        write::describe(out, Target::Portal, b"");
        write::execute(out, b"", 0);
        write::sync(out);
    });
    two.expect("2 T D(1,3) C Z(I)");
    two.query(&format!("ALTER TABLE {table} DROP COLUMN k"));
    two.send(|out| {
        parse(out, "flushed", &read);
        write::describe(out, Target::Statement, b"flushed");
        write::flush(out);
    });
    two.expect("1 t T");
    two.send(|out| {
        execute(out, "flushed");
        write::sync(out);
    });
    two.expect("2 D(1) C Z(I)");
}

/// Who has prepared a statement before its table changed would read new rows by an old description: PostgreSQL refuses it until it is
/// prepared anew, whichever server connection it meets.
fn outdated_statements_stay_refused_until_prepared_anew(party: Party) {
    let stage = two_servers(party);
    let table = party.own_name("changing");
    let (mut one, mut two) = (stage.client(), stage.client());
    one.query(&format!("CREATE TABLE {table} AS SELECT 1 AS i"));
    let statement = format!("SELECT * FROM {table}");
    for client in [&mut one, &mut two] {
        prepare(client, "s", &statement);
        client.query("BEGIN");
    }
    // Both server connections get to know it.
    for client in [&mut one, &mut two] {
        run_open(client, "2 D(1) C Z(T)");
    }
    for client in [&mut one, &mut two] {
        client.query("COMMIT");
    }
    one.query(&format!("ALTER TABLE {table} ADD COLUMN j int DEFAULT 2"));
    for _ in 0..2 {
        for client in [&mut one, &mut two] {
            run_open(client, "E(0A000) Z(I)");
        }
    }
    for client in [&mut one, &mut two] {
        client.query("BEGIN");
        run_open(client, "E(0A000) Z(E)");
        client.query("ROLLBACK");
        client.send(|out| {
            write::close(out, Target::Statement, b"s");
            parse(out, "s", &statement);
            write::sync(out);
        });
        client.expect("3 1 Z(I)");
    }
    for client in [&mut one, &mut two] {
        client.query("BEGIN");
    }
    for client in [&mut one, &mut two] {
        run_open(client, "2 D(1,2) C Z(T)");
    }
    for client in [&mut one, &mut two] {
        client.query("COMMIT");
    }
    one.query(&format!("DROP TABLE {table}"));
}

/// Runs the statement `s`, and expects what comes up to ReadyForQuery.
#[track_caller]
fn run_open(client: &mut Client, expected: &str) {
    client.send(|out| {
        execute(out, "s");
        write::sync(out);
    });
    client.expect(expected);
}

/// A Parse that Weir could answer itself, behind a failure in a transaction.
fn a_failed_transaction_refuses_a_known_statement(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    prepare(&mut client, "a", "SELECT 1");
    client.send(|out| {
        write::query(out, b"BEGIN");
        write::query(out, b"SELECT 1/0");
        parse(out, "b", "SELECT 1");
        write::sync(out);
        write::query(out, b"ROLLBACK");
    });
    client.expect("C(BEGIN) Z(T) E(22012) Z(E) E(25P02) Z(E) C(ROLLBACK) Z(I)");
    is_missing(&mut client, "b");
    assert_eq!(run(&mut client, "a"), "1");
}

/// PostgreSQL reads a date in a statement at its Parse, by the DateStyle that is set then.
fn constants_are_read_as_the_client_has_set_it(party: Party) {
    const TEXT: &str = "SELECT extract(day FROM '1.2.2024'::date)";
    let stage = party.start();
    let (mut one, mut two) = (stage.client(), stage.client());
    two.query("SET DateStyle TO German");
    for _ in 0..2 {
        prepare(&mut one, "", "SELECT 0");
        prepare(&mut one, "s", TEXT);
        prepare(&mut two, "s", TEXT);
        assert_eq!(
            (run(&mut one, "s"), run(&mut two, "s")),
            ("2".into(), "1".into())
        );
        for client in [&mut one, &mut two] {
            client.query("DEALLOCATE ALL");
        }
    }
    // Behind the change in a pipeline.
    one.send(|out| {
        write::query(out, b"SET DateStyle TO German");
        parse(out, "t", TEXT);
        write::sync(out);
        write::query(out, b"SET DateStyle TO ISO, MDY");
    });
    for _ in 0..3 {
        one.receive_until("Z(I)");
    }
    let mut three = stage.client();
    prepare(&mut three, "s", TEXT);
    assert_eq!(run(&mut three, "s"), "2");
}
