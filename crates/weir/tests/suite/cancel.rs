//! Cancel requests: they reach the query of the client that they name, and nobody else's.

use crate::stage::Party;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use testkit::script::{Client, Listener, Server};
use testkit::{Ini, Postgres};
use wire::backend::TransactionStatus;
use wire::{Report, Severity, SqlState, write};

scenarios! { reactors:
    a_running_query, a_waiting_query, a_wrong_key_and_an_idle_client, a_storm_is_bounded, a_late_request_hits_nobody_else,
    a_request_that_comes_too_early_is_repeated,
}
scenarios! { oracle: a_running_query, a_wrong_key_and_an_idle_client }
mod majors {
    scenarios! { majors: a_running_query, a_waiting_query }
}

fn a_running_query(party: Party) {
    let stage = party.start();
    let (mut client, server) = stage.sleeper();
    Client::cancel(stage.port(), client.key());
    client.expect("T E(57014) Z(I)");
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    assert_eq!(crate::stage::backend(&mut client), server);
}

fn a_waiting_query(party: Party) {
    let stage = party.start();
    let (mut sleeper, _) = stage.sleeper();
    let mut waiting = stage.client();
    waiting.send(|out| write::query(out, b"SELECT 2"));
    stage.until_pool(Postgres::DATABASE, "cl_waiting", 1);
    Client::cancel(stage.port(), waiting.key());
    waiting.expect("E(57014) Z(I)");
    stage.until_pool(Postgres::DATABASE, "cl_waiting", 0);
    Client::cancel(stage.port(), sleeper.key());
    sleeper.expect("T E(57014) Z(I)");
    assert_eq!(waiting.query("SELECT 3"), "T D(3) C(SELECT 1) Z(I)");
}

fn a_wrong_key_and_an_idle_client(party: Party) {
    let stage = party.start();
    let idle = stage.client();
    let mut client = stage.client();
    client.query("BEGIN");
    let (pid, secret) = client.key();
    let mut wrong = secret.to_vec();
    wrong[0] ^= 1;
    Client::cancel(stage.port(), (pid, &wrong));
    Client::cancel(stage.port(), (0, secret));
    Client::cancel(stage.port(), (-1, secret));
    Client::cancel(stage.port(), idle.key());
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(T)");
    assert_eq!(client.query("COMMIT"), "C(COMMIT) Z(I)");
}

/// Hundreds of requests at once: PostgreSQL sees few connections, and everybody else is served all the time.
fn a_storm_is_bounded(party: Party) {
    const REQUESTS: usize = 200;
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 2)
            .set("cancel_connections_max", 2)
    });
    let (mut sleeper, _) = stage.sleeper();
    let mut other = stage.client();
    let (pid, secret) = sleeper.key();
    let (port, secret) = (stage.port(), secret.to_vec());
    thread::scope(|scope| {
        let storms: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..REQUESTS / 4 {
                        Client::cancel(port, (pid, &secret));
                    }
                })
            })
            .collect();
        while storms.iter().any(|storm| !storm.is_finished()) {
            assert_eq!(other.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
        }
    });
    sleeper.expect("T E(57014) Z(I)");
    assert_eq!(sleeper.query("SELECT 2"), "T D(2) C(SELECT 1) Z(I)");
}

/// Two clients take turns on one server connection while requests for one of them fly.
fn a_late_request_hits_nobody_else(party: Party) {
    const ROUNDS: usize = 60;
    let stage = party.start();
    let (mut target, mut bystander) = (stage.client(), stage.client());
    let (port, pid, secret) = (stage.port(), target.key().0, target.key().1.to_vec());
    let over = AtomicBool::new(false);
    let cancelled = thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                Client::cancel(port, (pid, &secret));
            }
        });
        let bystanding = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(
                    bystander.query("SELECT pg_sleep(0.001)"),
                    "T D() C(SELECT 1) Z(I)"
                );
            }
        });
        let mut cancelled = 0;
        for _ in 0..ROUNDS {
            match &target.query("SELECT pg_sleep(0.003)")[..] {
                "T D() C(SELECT 1) Z(I)" => {}
                "T D() E(57014) Z(I)" | "T E(57014) Z(I)" | "E(57014) Z(I)" => cancelled += 1,
                other => panic!("{other}"),
            }
        }
        over.store(true, Ordering::Relaxed);
        bystanding.join().expect("nobody cancelled it");
        cancelled
    });
    assert!(cancelled > 0, "no request ever hit");
}

/// Ends the other threads also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// PostgreSQL ignores a request that comes before it has begun the query. Within a transaction what the client says next waits for a request
/// that is on its way, and once the query is over there is none.
fn a_request_that_comes_too_early_is_repeated(party: Party) {
    let listener = Listener::bind();
    let ini = Ini::new()
        .database("*", &format!("host=127.0.0.1 port={}", listener.port()))
        .set("default_pool_size", 1)
        .set("census", "off"); // a scripted server has no catalogue to read
    let stage = party.run(&ini);
    let connecting = thread::spawn({
        let port = stage.port();
        move || Client::login(port, crate::stage::USER, "any")
    });
    let mut server = listener.accept_and_greet();
    let mut client = connecting.join().expect("it logs in");
    client.send(|out| write::query(out, b"BEGIN"));
    server.expect("Q(BEGIN)");
    server.send(|out| end(out, b"BEGIN", TransactionStatus::InTransaction));
    client.expect("C(BEGIN) Z(T)");
    client.send(|out| write::query(out, b"long"));
    server.expect("Q(long)");
    let (port, pid, secret) = (stage.port(), client.key().0, client.key().1.to_vec());
    let asking = thread::spawn(move || Client::cancel(port, (pid, &secret)));
    drop(cancel_request(&listener));
    drop(cancel_request(&listener));
    asking.join().expect("it is heard");
    let under_way = cancel_request(&listener);
    server.send(|out| {
        let text = "canceling statement due to user request";
        let report = Report::new(Severity::Error, SqlState::QUERY_CANCELED, text);
        write::error_response(out, &report);
        write::ready_for_query(out, TransactionStatus::Failed);
    });
    client.expect("E(57014) Z(E)");
    client.send(|out| write::query(out, b"ROLLBACK"));
    server.expect_silence(Duration::from_millis(300));
    drop(under_way);
    server.expect("Q(ROLLBACK)");
    server.send(|out| end(out, b"ROLLBACK", TransactionStatus::Idle));
    client.expect("C(ROLLBACK) Z(I)");
    assert!(listener.is_left_alone(Duration::from_millis(1000)));
}

fn end(out: &mut Vec<u8>, command: &[u8], status: TransactionStatus) {
    write::command_complete(out, command);
    write::ready_for_query(out, status);
}

/// The next connection, which has brought a cancel request and is open.
#[track_caller]
fn cancel_request(listener: &Listener) -> Server {
    let mut connection = listener.accept();
    let packet = connection.receive_packet();
    assert_eq!(packet[4..8], 80_877_102_u32.to_be_bytes());
    connection
}
