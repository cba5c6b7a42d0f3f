//! PostgreSQL dies, hangs, talks nonsense or refuses: clients hear of it, and all is well as soon as it is.

use crate::stage::{Party, Stage, USER, backend, error, log_in};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use testkit::script::{Client, Listener, Server};
use testkit::{Ini, Postgres, wait};
use wire::backend::TransactionStatus;
use wire::startup::PROTOCOL_3_0;
use wire::{Report, Severity, SqlState, write};

scenarios! { reactors:
    a_killed_server_comes_back_under_load, a_frozen_server, a_stopped_server_is_waited_for, a_lost_idle_connection_is_not_noticed,
    nonsense_from_the_server, an_end_in_mid_row, last_words_are_passed_on, refusals_that_pass_are_waited_for, refusals_that_last_are_told_at_once,
}

/// In front of a server of its own, or of a scripted one.
fn in_front_of(party: Party, port: u16, change: impl FnOnce(Ini) -> Ini) -> Stage {
    let ini = Ini::new()
        .database("*", &format!("host=127.0.0.1 port={port}"))
        .set("default_pool_size", 1)
        .set("server_login_retry", "0.2");
    party.run(&change(ini))
}

/// A scripted server has no catalogue to read.
fn scripted(ini: Ini) -> Ini {
    ini.set("census", "off")
}

fn a_killed_server_comes_back_under_load(party: Party) {
    const CLIENTS: usize = 20;
    const POOL: usize = 5;
    let mut postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let stage = in_front_of(party, postgres.port(), |ini| {
        ini.set("default_pool_size", POOL).set("worker_threads", 2)
    });
    let connection = stage.connection_string(USER, "", Postgres::DATABASE);
    let (over, served) = (
        AtomicBool::new(false),
        [const { AtomicUsize::new(0) }; CLIENTS],
    );
    thread::scope(|scope| {
        let _ends = Ends(&over);
        for served in &served {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // Reconnects after each error, as an application would.
                    lab::runtime::apart(query_for_ever(&connection, served, &over));
                }
            });
        }
        for _ in 0..2 {
            all_are_served(&served);
            postgres.kill();
            postgres.start_again().expect("it starts");
            all_are_served(&served);
        }
        assert!(postgres.connections(Postgres::DATABASE) <= POOL);
    });
    stage.until_pool(Postgres::DATABASE, "cl_active", 0);
    wait::until("nothing is leaked", || {
        let pools = stage.show("POOLS").having("database", Postgres::DATABASE);
        let counted: i64 = ["sv_active", "sv_idle", "sv_used", "sv_tested"]
            .map(|column| pools.number(column))
            .iter()
            .sum();
        counted as usize == postgres.connections(Postgres::DATABASE)
    });
}

fn all_are_served(served: &[AtomicUsize]) {
    served
        .iter()
        .for_each(|count| count.store(0, Ordering::Relaxed));
    wait::until("every client is served", || {
        served.iter().all(|count| count.load(Ordering::Relaxed) > 0)
    });
}

async fn query_for_ever(connection: &str, served: &AtomicUsize, over: &AtomicBool) {
    let Ok((client, connection)) = tokio_postgres::connect(connection, tokio_postgres::NoTls).await
    else {
        return;
    };
    let asked = async move {
        while !over.load(Ordering::Relaxed) && client.query_one("SELECT 1", &[]).await.is_ok() {
            served.fetch_add(1, Ordering::Relaxed);
        }
    };
    let _ = tokio::join!(asked, connection);
}

/// Ends the other threads also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn a_frozen_server(party: Party) {
    let postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let stage = in_front_of(party, postgres.port(), |ini| {
        ini.set("query_timeout", "0.5")
            .set("abandoned_query_timeout", "0.5")
    });
    let mut client = stage.client();
    let server = backend(&mut client);
    postgres.freeze().expect("it runs");
    client.send(|out| write::query(out, b"SELECT 1"));
    client.expect("E(57014)");
    client.expect_closed();
    wait::until("the connection is given up", || {
        stage.show("SERVERS").rows.is_empty()
    });
    postgres.thaw().expect("it runs");
    let mut next = stage.client();
    assert_ne!(backend(&mut next), server);
    wait::until("the old connection is gone", || {
        postgres.connections(Postgres::DATABASE) == 1
    });
}

fn a_stopped_server_is_waited_for(party: Party) {
    let mut postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let stage = in_front_of(party, postgres.port(), |ini| ini);
    let mut client = stage.client();
    let server = backend(&mut client);
    postgres.stop(lab::postgres::Shutdown::Fast);
    client.send(|out| write::query(out, b"SELECT 1"));
    wait::until("the client waits", || {
        stage
            .show("POOLS")
            .having("database", Postgres::DATABASE)
            .number("cl_waiting")
            == 1
    });
    let connection = stage.connection_string(USER, "", Postgres::DATABASE);
    let newcomer = thread::spawn(move || log_in(&connection));
    postgres.start_again().expect("it starts");
    client.expect("T D(1) C Z(I)");
    assert_ne!(backend(&mut client), server);
    assert_eq!(newcomer.join().expect("no panic").as_deref(), Ok(USER));
}

fn a_lost_idle_connection_is_not_noticed(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    let server = backend(&mut client);
    stage.server_says(&format!("SELECT pg_terminate_backend({server})"));
    stage.until_pool(Postgres::DATABASE, "sv_idle", 0);
    assert_ne!(backend(&mut client), server);
    // In a transaction the client cannot but hear of it.
    let server = backend(&mut client);
    client.query("BEGIN");
    stage.server_says(&format!("SELECT pg_terminate_backend({server})"));
    client.expect("E(57P01)");
    client.expect_closed();
}

/// A client whose query has reached the scripted server.
fn asking(stage: &Stage, listener: &Listener) -> (Client, Server) {
    let port = stage.port();
    let client = thread::spawn(move || {
        let mut client = Client::login(port, USER, Postgres::DATABASE);
        client.send(|out| write::query(out, b"SELECT 1"));
        client
    });
    let mut server = listener.accept_and_greet();
    server.expect("Q(SELECT 1)");
    (client.join().expect("it gets in"), server)
}

fn answer(out: &mut Vec<u8>) {
    write::command_complete(out, b"DONE");
    write::ready_for_query(out, TransactionStatus::Idle);
}

fn nonsense_from_the_server(party: Party) {
    let nonsense: &[&[u8]] = &[
        b"<html>",
        b"\x01\0\0\0\x04",
        b"Z\0\0\0\x02",
        b"D\xff\xff\xff\xff",
        b"1\0\0\0\x04",
        b"Z\0\0\0\x05I",
        b"C\0\0\0\x05x",
        b"S\0\0\0\x05x",
    ];
    for bytes in nonsense {
        let listener = Listener::bind();
        let stage = in_front_of(party, listener.port(), scripted);
        let (mut client, mut server) = asking(&stage, &listener);
        server.send_bytes(bytes);
        if *bytes == b"Z\0\0\0\x05I" {
            // An early ReadyForQuery is one all the same.
            client.expect("Z(I)");
            client.send(|out| write::query(out, b"SELECT 1"));
            server.expect("Q(SELECT 1)").clear();
            server.send(answer);
            client.expect("C(DONE) Z(I)");
            continue;
        }
        server.finish();
        client.receive_until("E");
        client.expect_closed();
        // The place is free again.
        let (mut client, mut server) = asking(&stage, &listener);
        server.send(answer);
        client.expect("C(DONE) Z(I)");
    }
}

fn an_end_in_mid_row(party: Party) {
    let listener = Listener::bind();
    let stage = in_front_of(party, listener.port(), scripted);
    let (mut client, mut server) = asking(&stage, &listener);
    server.send_bytes(b"D\0\0\x10\0\0\x01\0\0\0\x10abc");
    server.finish();
    drop(server);
    // Nothing can be said behind half a row.
    client.expect_closed();
    let (mut client, mut server) = asking(&stage, &listener);
    server.send(|out| write::command_complete(out, b"HALF"));
    drop(server);
    client.expect("C(HALF) E(08006)");
    client.expect_closed();
    let (mut client, mut server) = asking(&stage, &listener);
    server.send(answer);
    client.expect("C(DONE) Z(I)");
}

fn last_words_are_passed_on(party: Party) {
    let listener = Listener::bind();
    let stage = in_front_of(party, listener.port(), scripted);
    let (mut client, mut server) = asking(&stage, &listener);
    server.send(|out| refuse(out, SqlState::ADMIN_SHUTDOWN, "the last words"));
    drop(server);
    let told = client.expect("E(57P01)");
    assert_eq!(error(&told).field(b'M').as_deref(), Some("the last words"));
    client.expect_closed();
}

fn refuse(out: &mut Vec<u8>, sqlstate: SqlState, text: &str) {
    write::error_response(out, &Report::new(Severity::Fatal, sqlstate, text));
}

/// The next one who dials is refused.
fn turn_away(listener: &Listener, sqlstate: SqlState, text: &str) {
    let mut server = listener.accept();
    server.receive_startup();
    server.send(|out| refuse(out, sqlstate, text));
}

/// Sends a log-in and a query, and waits for no answer.
fn knock(stage: &Stage) -> Client {
    let mut client = Client::connect(stage.port());
    let parameters = [("user", USER), ("database", Postgres::DATABASE)]
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    client.send(|out| {
        write::startup(out, PROTOCOL_3_0, parameters);
        write::query(out, b"SELECT 1");
    });
    client
}

fn refusals_that_pass_are_waited_for(party: Party) {
    for (sqlstate, text) in [
        (
            SqlState::CANNOT_CONNECT_NOW,
            "the database system is starting up",
        ),
        (
            SqlState::TOO_MANY_CONNECTIONS,
            "sorry, too many clients already",
        ),
    ] {
        let listener = Listener::bind();
        let stage = in_front_of(party, listener.port(), scripted);
        let mut client = knock(&stage);
        turn_away(&listener, sqlstate, text);
        turn_away(&listener, sqlstate, text);
        let mut server = listener.accept_and_greet();
        server.expect("Q(SELECT 1)");
        server.send(answer);
        client.receive_until("Z(I)");
        client.expect("C(DONE) Z(I)");
        // When it lasts too long, the client hears the server's own words.
        let listener = Listener::bind();
        let stage = in_front_of(party, listener.port(), |ini| {
            let ini = scripted(ini);
            ini.set("query_wait_timeout", "1")
                .set("server_login_retry", "60")
        });
        let mut client = knock(&stage);
        turn_away(&listener, sqlstate, text);
        let told = client.receive_until("E");
        assert!(
            error(&told)
                .field(b'D')
                .is_some_and(|detail| detail.contains(text)),
            "{}",
            client.transcript()
        );
        client.expect_closed();
    }
}

fn refusals_that_last_are_told_at_once(party: Party) {
    let listener = Listener::bind();
    let stage = in_front_of(party, listener.port(), scripted);
    let mut client = knock(&stage);
    turn_away(
        &listener,
        SqlState::INVALID_PASSWORD,
        "password authentication failed",
    );
    client.receive_until("E(28P01)");
    client.expect_closed();
    assert!(listener.is_left_alone(Duration::ZERO));
}
