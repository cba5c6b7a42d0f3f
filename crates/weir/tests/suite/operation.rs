//! Pool modes, and what an operator says to the running program: console, reload, signals.

use crate::stage::{Party, USER, backend, log_in, value};
use nix::sys::signal::Signal;
use std::thread;
use std::time::Duration;
use testkit::{Ini, Postgres, wait};
use wire::write;

scenarios! { reactors:
    session_mode_keeps_the_session, session_mode_has_raw_statements, statement_mode_refuses_transactions, pause_and_resume, reconnect_and_wait_close,
    kill_a_database, kill_a_client, disable_and_enable, reload, console_privileges, shutdown_waits_for_servers, shutdown_waits_for_clients, shutdown_at_once,
    signals, a_second_signal_ends_at_once, clients_of_a_forced_user_have_their_own_name,
}
scenarios! { oracle: session_mode_keeps_the_session, statement_mode_refuses_transactions, pause_and_resume, disable_and_enable }
mod majors {
    scenarios! { majors: session_mode_keeps_the_session, pause_and_resume }
}

fn session_mode_keeps_the_session(party: Party) {
    let stage = party.start_with(|ini| ini.set("pool_mode", "session").set("default_pool_size", 1));
    let mut client = stage.client();
    let server = backend(&mut client);
    client.query("CREATE TEMP TABLE t (i int); SET statement_timeout = '7s'");
    client.send(|out| {
        crate::stage::parse(out, "mine", "SELECT 1");
        write::sync(out);
    });
    client.expect("1 Z(I)");
    assert_eq!(backend(&mut client), server);
    assert_eq!(value(&mut client, "SHOW statement_timeout"), "7s");
    let mut waiting = stage.client();
    waiting.send(|out| write::query(out, b"SELECT 1"));
    stage.until_pool(Postgres::DATABASE, "cl_waiting", 1);
    client.send(write::terminate).expect_closed();
    waiting.expect("T D(1) C Z(I)");
    assert_eq!(backend(&mut waiting), server);
    assert_eq!(value(&mut waiting, "SHOW statement_timeout"), "0");
    assert_eq!(
        value(&mut waiting, "SELECT count(*) FROM pg_prepared_statements"),
        "0"
    );
    assert_eq!(waiting.query("SELECT * FROM t"), "E(42P01) Z(I)");
}

fn session_mode_has_raw_statements(party: Party) {
    let stage = party.start_with(|ini| ini.set("pool_mode", "session").set("default_pool_size", 1));
    let mut client = stage.client();
    assert_eq!(client.query("PREPARE s AS SELECT 1"), "C(PREPARE) Z(I)");
    client.send(|out| {
        crate::stage::execute(out, "s");
        write::sync(out);
    });
    client.expect("2 D(1) C(SELECT 1) Z(I)");
    assert_eq!(client.query("LISTEN here"), "C(LISTEN) Z(I)");
    stage.server_says("SELECT 1");
    assert_eq!(client.query("NOTIFY here, 'me'"), "C(NOTIFY) A Z(I)");
}

fn statement_mode_refuses_transactions(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("pool_mode", "statement")
            .set("default_pool_size", 1)
    });
    let mut client = stage.client();
    let server = backend(&mut client);
    client.send(|out| write::query(out, b"BEGIN"));
    client.receive_until("E");
    client.expect_closed();
    let mut next = stage.client();
    assert_eq!(next.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    let left = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid = {server}"
    );
    wait::until("nothing is left open", || stage.server_says(&left) == "0");
}

fn pause_and_resume(party: Party) {
    let stage = party.start();
    let (mut busy, mut waiting) = (stage.client(), stage.client());
    busy.query("BEGIN");
    let console = stage.console();
    let paused = thread::spawn(move || console.ask(&format!("PAUSE {}", Postgres::DATABASE)));
    wait::until("PAUSE has begun", || {
        let databases = stage.show("DATABASES").having("name", Postgres::DATABASE);
        databases.column("paused") == ["1"]
    });
    waiting.send(|out| write::query(out, b"SELECT 1"));
    waiting.expect_silence(Duration::from_millis(50));
    assert!(!paused.is_finished(), "a transaction is open");
    assert_eq!(busy.query("COMMIT"), "C(COMMIT) Z(I)");
    paused.join().expect("PAUSE succeeds");
    waiting.expect_silence(Duration::from_millis(50));
    let console = stage.console();
    console.ask(&format!("RESUME {}", Postgres::DATABASE));
    waiting.expect("T D(1) C Z(I)");
    console.ask("PAUSE");
    busy.send(|out| write::query(out, b"SELECT 2"));
    busy.expect_silence(Duration::from_millis(50));
    console.ask("RESUME");
    busy.expect("T D(2) C Z(I)");
}

fn reconnect_and_wait_close(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    let server = backend(&mut client);
    client.query("BEGIN");
    let console = stage.console();
    console.ask("RECONNECT");
    assert_eq!(
        backend(&mut client),
        server,
        "a transaction is not interrupted"
    );
    let closed = thread::spawn(move || console.ask(&format!("WAIT_CLOSE {}", Postgres::DATABASE)));
    assert_eq!(client.query("COMMIT"), "C(COMMIT) Z(I)");
    closed.join().expect("WAIT_CLOSE succeeds");
    assert_ne!(backend(&mut client), server);
}

fn kill_a_database(party: Party) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 2));
    let (mut busy, mut idle) = (stage.client(), stage.client());
    let server = backend(&mut busy);
    busy.query("BEGIN");
    let console = stage.console();
    console.ask(&format!("KILL {}", Postgres::DATABASE));
    for client in [&mut busy, &mut idle] {
        client.expect("E(57P01)");
        client.expect_closed();
    }
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {server}");
    wait::until("the server connection is closed", || {
        stage.server_says(&gone) == "0"
    });
    console.ask(&format!("RESUME {}", Postgres::DATABASE));
    assert_eq!(stage.client().query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
}

fn kill_a_client(party: Party) {
    let stage = party.start();
    let (mut client, mut other) = (stage.client(), stage.client());
    let server = backend(&mut client);
    client.query("SET application_name = 'the one'");
    client.query("BEGIN");
    let console = stage.console();
    let clients = console
        .ask("SHOW CLIENTS")
        .having("application_name", "the one");
    console.ask(&format!("KILL_CLIENT {}", clients.only("id")));
    client.expect("E(57P01)");
    client.expect_closed();
    assert_eq!(backend(&mut other), server);
    assert!(console.try_ask("KILL_CLIENT 999999").is_err());
}

fn disable_and_enable(party: Party) {
    let port = party.postgres().port();
    let ini = Ini::new().database(Postgres::DATABASE, &format!("host=127.0.0.1 port={port}"));
    let stage = party.run(&ini);
    let mut old = stage.client();
    assert_eq!(old.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    let console = stage.console();
    console.ask(&format!("DISABLE {}", Postgres::DATABASE));
    let new = stage.connection_string(USER, "", Postgres::DATABASE);
    let told = log_in(&new).expect_err("it is disabled");
    assert!(
        told.contains("disabled") || told.contains("does not allow connections"),
        "{told}"
    );
    assert_eq!(old.query("SELECT 2"), "T D(2) C(SELECT 1) Z(I)");
    console.ask(&format!("ENABLE {}", Postgres::DATABASE));
    assert_eq!(log_in(&new).as_deref(), Ok(USER));
}

fn reload(party: Party) {
    let ini = party.complete(&Ini::in_front_of(party.postgres()).set("default_pool_size", 1));
    let stage = party.run(&ini);
    let (mut one, mut two) = (stage.client(), stage.client());
    one.query("BEGIN");
    two.send(|out| write::query(out, b"SELECT 1"));
    stage.until_pool(Postgres::DATABASE, "cl_waiting", 1);
    let console = stage.console();
    stage.reconfigure(
        &ini.clone()
            .set("default_pool_size", "many")
            .set("no_such_setting", 1),
    );
    let told = console.try_ask("RELOAD").expect_err("it is wrong");
    assert!(told.contains("default_pool_size"), "{told}");
    let pool_size = || {
        console
            .ask("SHOW CONFIG")
            .having("key", "default_pool_size")
            .number("value")
    };
    assert_eq!(pool_size(), 1);
    stage.reconfigure(&ini.clone().set("default_pool_size", 2));
    console.ask("RELOAD");
    assert_eq!(pool_size(), 2);
    // Who waited under the old limit is served under the new one.
    two.expect("T D(1) C Z(I)");
    // A database that moves gets new server connections.
    let port = party.postgres().port();
    stage.reconfigure(&ini.set("default_pool_size", 2).database(
        Postgres::DATABASE,
        &format!(
            "host=127.0.0.1 port={port} dbname={}",
            Postgres::OTHER_DATABASE
        ),
    ));
    stage.signal(Signal::SIGHUP);
    wait::until("the other database", || {
        value(&mut two, "SELECT current_database()") == Postgres::OTHER_DATABASE
    });
    assert_eq!(
        value(&mut one, "SELECT current_database()"),
        Postgres::DATABASE,
        "a transaction stays where it is"
    );
}

fn console_privileges(party: Party) {
    let stage = party.start();
    let watcher = stage.console_as(Ini::STATS, "stats secret");
    assert!(!watcher.ask("SHOW POOLS").columns.is_empty());
    for command in [
        "PAUSE",
        "RELOAD",
        "SHUTDOWN",
        "KILL",
        "SET default_pool_size = 5",
        "DISABLE weir_test",
    ] {
        let told = watcher.try_ask(command).expect_err("it may only look");
        assert!(told.starts_with("42501"), "{told}");
    }
    let told = stage
        .console_as(USER, "")
        .try_ask("SHOW POOLS")
        .expect_err("it may not even look");
    assert!(
        told.starts_with("28") || told.starts_with("42501") || told.starts_with("08P01"),
        "{told}"
    );
    let told = stage
        .console()
        .try_ask("SHOW POOL")
        .expect_err("no such command");
    assert!(told.contains("SHOW POOL"), "{told}");
    stage.console().ask("SET default_pool_size = 7");
    assert_eq!(
        stage
            .show("CONFIG")
            .having("key", "default_pool_size")
            .number("value"),
        7
    );
}

fn shutdown_waits_for_servers(party: Party) {
    let mut stage = party.start_with(|ini| ini.set("default_pool_size", 2));
    let (mut busy, mut idle) = (stage.client(), stage.client());
    busy.query("BEGIN");
    idle.query("SELECT 1");
    stage.console().ask("SHUTDOWN WAIT_FOR_SERVERS");
    idle.receive_until("E(57P01)");
    idle.expect_closed();
    assert_eq!(busy.query("SELECT 1"), "T D(1) C(SELECT 1) Z(T)");
    assert!(!stage.has_ended());
    assert_eq!(busy.query("COMMIT"), "C(COMMIT) Z(I)");
    busy.receive_until("E(57P01)");
    busy.expect_closed();
    assert!(stage.wait().success());
}

fn shutdown_waits_for_clients(party: Party) {
    let mut stage = party.start();
    let mut client = stage.client();
    stage.console().ask("SHUTDOWN WAIT_FOR_CLIENTS");
    let port = stage.port();
    wait::until("nobody else is let in", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
    });
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    assert!(!stage.has_ended());
    client.send(write::terminate).expect_closed();
    assert!(stage.wait().success());
}

fn shutdown_at_once(party: Party) {
    let mut stage = party.start();
    let mut client = stage.client();
    client.query("BEGIN");
    // The console goes with it.
    let _ = stage.console().try_ask("SHUTDOWN");
    client.expect("E(57P01)");
    client.expect_closed();
    assert!(stage.wait().success());
}

fn signals(party: Party) {
    for (signal, waits) in [
        (Signal::SIGTERM, true),
        (Signal::SIGINT, true),
        (Signal::SIGQUIT, false),
    ] {
        let mut stage = party.start();
        let mut client = stage.client();
        client.query("BEGIN");
        stage.signal(signal);
        if waits {
            wait::until("the signal is heard", || {
                stage.log().contains(signal.as_str())
            });
            assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(T)");
            assert_eq!(client.query("COMMIT"), "C(COMMIT) Z(I)");
            drop(client);
        }
        assert!(stage.wait().success(), "{signal}");
    }
    let stage = party.start();
    let mut client = stage.client();
    stage.signal(Signal::SIGUSR1);
    wait::until("all is paused", || stage.log().contains("PAUSE"));
    client.send(|out| write::query(out, b"SELECT 1"));
    client.expect_silence(Duration::from_millis(50));
    stage.signal(Signal::SIGUSR2);
    client.expect("T D(1) C Z(I)");
}

/// The first SIGTERM waits for the clients, the second does not.
fn a_second_signal_ends_at_once(party: Party) {
    let mut stage = party.start();
    let mut client = stage.client();
    client.query("BEGIN");
    stage.signal(Signal::SIGTERM);
    wait::until("the first is heard", || stage.log().contains("SIGTERM"));
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(T)");
    stage.signal(Signal::SIGTERM);
    client.expect("E(57P01)");
    client.expect_closed();
    assert!(stage.wait().success());
}

fn clients_of_a_forced_user_have_their_own_name(party: Party) {
    let postgres = party.postgres();
    let keys = format!(
        "host=127.0.0.1 port={} dbname={} user=postgres",
        postgres.port(),
        Postgres::DATABASE
    );
    let stage = party.start_with(|ini| ini.database("forced", &keys));
    let mut client = stage.client_of("forced");
    assert_eq!(value(&mut client, "SELECT current_user"), "postgres");
    let shown = |what: &str| {
        let table = stage.show(what).having("database", "forced");
        table.only("user").to_owned()
    };
    assert_eq!(shown("CLIENTS"), USER);
    assert_eq!(shown("SERVERS"), "postgres");
}
