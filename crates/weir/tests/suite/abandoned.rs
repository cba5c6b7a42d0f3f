//! Clients that vanish: what they had begun is ended in a bounded time, and the server connection stays where that can be proved safe.

use crate::stage::{NO_VALUES, Party, Stage, backend, parse};
use std::time::{Duration, Instant};
use testkit::script::Client;
use testkit::{Postgres, wait};
use wire::write;

scenarios! { reactors:
    in_a_query, in_a_transaction, in_a_failed_transaction, in_copy_in, in_copy_out, in_an_unfinished_message, with_unsynced_messages,
    while_waiting, with_results_that_nobody_reads, a_query_that_cannot_be_cancelled,
}
mod majors {
    scenarios! { majors: in_a_query, in_a_transaction, in_copy_in, with_unsynced_messages }
}

/// abandoned_query_timeout, and a busy machine.
const BOUND: Duration = Duration::from_secs(15);

/// A client, and the server connection that it will use.
fn begin(stage: &Stage) -> (Client, String) {
    let mut client = stage.client();
    let server = backend(&mut client);
    (client, server)
}

/// The next client gets the same server connection, clean, within the bound.
#[track_caller]
fn serves_again(stage: &Stage, server: &str) {
    let began = Instant::now();
    let mut next = stage.client();
    assert_eq!(backend(&mut next), server);
    assert!(began.elapsed() < BOUND);
    assert_eq!(next.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
}

fn in_a_query(party: Party) {
    let stage = party.start();
    for reset in [false, true] {
        let (client, server) = stage.sleeper();
        if reset {
            client.into_end().reset();
        } else {
            drop(client);
        }
        serves_again(&stage, &server);
    }
}

fn in_a_transaction(party: Party) {
    let stage = party.start();
    let (mut client, server) = begin(&stage);
    let table = stage.table("i int");
    client.query("BEGIN");
    client.query(&format!("INSERT INTO {table} VALUES (1)"));
    client.query("SELECT pg_advisory_xact_lock(4711)");
    drop(client);
    serves_again(&stage, &server);
    assert_eq!(
        stage
            .client()
            .query(&format!("SELECT count(*) FROM {table}")),
        "T D(0) C(SELECT 1) Z(I)"
    );
    // Weir's own questions to the catalogue hold locks for a moment.
    let locks = format!("SELECT count(*) FROM pg_locks WHERE pid = {server}");
    wait::until("no lock is left", || stage.server_says(&locks) == "0");
}

fn in_a_failed_transaction(party: Party) {
    let stage = party.start();
    let (mut client, server) = begin(&stage);
    client.query("BEGIN");
    client.query("nonsense");
    client.send(write::terminate);
    client.expect_closed();
    serves_again(&stage, &server);
}

fn in_copy_in(party: Party) {
    let stage = party.start();
    let table = stage.table("i int");
    let copy = format!("COPY {table} FROM STDIN");
    for within_transaction in [false, true] {
        let (mut client, server) = begin(&stage);
        if within_transaction {
            client.query("BEGIN");
        }
        client
            .send(|out| write::query(out, copy.as_bytes()))
            .expect("G");
        client.send(|out| write::copy_data(out, b"1\n"));
        drop(client);
        serves_again(&stage, &server);
        assert_eq!(
            stage
                .client()
                .query(&format!("SELECT count(*) FROM {table}")),
            "T D(0) C(SELECT 1) Z(I)"
        );
    }
}

fn in_copy_out(party: Party) {
    let stage = party.start();
    let (mut client, server) = begin(&stage);
    client.send(|out| {
        write::query(
            out,
            b"COPY (SELECT generate_series(1, 100000000)) TO STDOUT",
        )
    });
    client.expect("H d d d");
    drop(client);
    serves_again(&stage, &server);
}

/// A message of which nothing has been passed on harms nobody. Behind half a message nothing else can be said: that connection is closed, and
/// its place is free again.
fn in_an_unfinished_message(party: Party) {
    let stage = party.start();
    let (mut client, server) = begin(&stage);
    client.send_bytes(b"Q\0\0\x10\0SELECT 1, ");
    stage.until_pool(Postgres::DATABASE, "sv_active", 1);
    drop(client);
    serves_again(&stage, &server);
    let (mut client, server) = begin(&stage);
    let copy = format!("COPY {} FROM STDIN", stage.table("i int"));
    client
        .send(|out| write::query(out, copy.as_bytes()))
        .expect("G");
    client.send_bytes(b"d\0\0\x10\x001\n");
    drop(client);
    let mut next = stage.client();
    assert_ne!(backend(&mut next), server);
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {server}");
    wait::until("the connection is closed", || {
        stage.server_says(&gone) == "0"
    });
    stage.until_pool(Postgres::DATABASE, "sv_idle", 1);
}

fn with_unsynced_messages(party: Party) {
    let stage = party.start();
    let executions = ["SELECT 1", "SELECT pg_sleep(600)", "nonsense"];
    for sql in executions {
        let (mut client, server) = begin(&stage);
        client.send(|out| {
            parse(out, "", sql);
            write::bind(out, b"", b"", NO_VALUES);
            write::execute(out, b"", 0);
            write::flush(out);
        });
        if sql.contains("sleep") {
            stage.until_asleep(&server);
        } else {
            client.receive_until(if sql == "nonsense" { "E" } else { "C" });
        }
        drop(client);
        serves_again(&stage, &server);
    }
}

fn while_waiting(party: Party) {
    let stage = party.start();
    let (mut holder, server) = begin(&stage);
    holder.query("BEGIN");
    let mut waiting = stage.client();
    waiting.send(|out| write::query(out, b"SELECT 1"));
    stage.until_pool(Postgres::DATABASE, "cl_waiting", 1);
    drop(waiting);
    stage.until_pool(Postgres::DATABASE, "cl_waiting", 0);
    assert_eq!(holder.query("COMMIT"), "C(COMMIT) Z(I)");
    serves_again(&stage, &server);
}

fn with_results_that_nobody_reads(party: Party) {
    let stage = party.start();
    let (mut client, server) = begin(&stage);
    client.send(|out| {
        write::query(
            out,
            b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)",
        )
    });
    let stuck = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {server} AND wait_event = 'ClientWrite'"
    );
    wait::until("the server waits for the pooler", || {
        stage.server_says(&stuck) == "1"
    });
    drop(client);
    serves_again(&stage, &server);
}

/// A query that catches its cancellation: the connection is given up after abandoned_query_timeout.
fn a_query_that_cannot_be_cancelled(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 1)
            .set("abandoned_query_timeout", "0.5")
    });
    let (mut client, server) = begin(&stage);
    let stubborn = "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(5); EXIT; EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$";
    client.send(|out| write::query(out, stubborn.as_bytes()));
    stage.until_asleep(&server);
    drop(client);
    let began = Instant::now();
    let mut next = stage.client();
    assert_ne!(backend(&mut next), server);
    assert!(began.elapsed() < BOUND);
}
