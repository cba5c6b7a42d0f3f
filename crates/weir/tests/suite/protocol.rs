//! Every kind of message, whole and in pieces, through one server connection.

use crate::stage::{NO_VALUES, Party, USER, execute, parse};
use std::time::Duration;
use testkit::Postgres;
use testkit::script::Client;
use wire::frontend::Target;
use wire::startup::{PROTOCOL_3_2, ProtocolVersion};
use wire::write;

scenarios! { reactors:
    simple_queries, extended_queries, pipelines_with_an_error, flush_without_sync, copies, failed_copies, copies_of_the_extended_protocol,
    portals_in_portions, function_calls_and_notices, messages_byte_by_byte, long_messages_in_little_memory, messages_above_the_limit,
    versions_of_the_protocol, peers_that_talk_nonsense,
}
scenarios! { oracle:
    simple_queries, extended_queries, pipelines_with_an_error, flush_without_sync, copies, copies_of_the_extended_protocol,
    portals_in_portions, messages_byte_by_byte,
}
mod majors {
    scenarios! { majors:
        simple_queries, extended_queries, pipelines_with_an_error, flush_without_sync, copies, failed_copies,
        copies_of_the_extended_protocol, portals_in_portions, function_calls_and_notices, versions_of_the_protocol,
    }
}

fn simple_queries(party: Party) {
    let stage = party.start();
    let (mut one, mut two) = (stage.client(), stage.client());
    for client in [&mut one, &mut two] {
        assert_eq!(
            client.query("SELECT 1, NULL"),
            "T D(1,NULL) C(SELECT 1) Z(I)"
        );
        assert_eq!(client.query(""), "I Z(I)");
        assert_eq!(
            client.query("SELECT 1; SELECT 2"),
            "T D(1) C(SELECT 1) T D(2) C(SELECT 1) Z(I)"
        );
        assert_eq!(
            client.query("SELECT 1; SELECT 1/0; SELECT 2"),
            "T D(1) C(SELECT 1) E(22012) Z(I)"
        );
    }
    assert_eq!(one.query("BEGIN"), "C(BEGIN) Z(T)");
    assert_eq!(one.query("nonsense"), "E(42601) Z(E)");
    assert_eq!(one.query("SELECT 1"), "E(25P02) Z(E)");
    assert_eq!(one.query("COMMIT"), "C(ROLLBACK) Z(I)");
    assert_eq!(
        two.query("BEGIN; SELECT 1; COMMIT"),
        "C(BEGIN) T D(1) C(SELECT 1) C(COMMIT) Z(I)"
    );
    two.send(write::terminate).expect_closed();
}

fn extended_queries(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    client.send(|out| {
        parse(out, "", "SELECT 1");
        write::bind(out, b"", b"", NO_VALUES);
        write::describe(out, Target::Portal, b"");
        write::execute(out, b"", 0);
        write::sync(out);
    });
    client.expect("1 2 T D(1) C(SELECT 1) Z(I)");
    client.send(|out| {
        parse(out, "", "");
        execute(out, "");
        write::close(out, Target::Portal, b"");
        write::sync(out);
    });
    client.expect("1 2 I 3 Z(I)");
    client.send(write::sync).expect("Z(I)");
}

fn pipelines_with_an_error(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    let statement = |out: &mut Vec<u8>, sql: &str| {
        parse(out, "", sql);
        execute(out, "");
    };
    client.send(|out| {
        for sql in ["SELECT 1", "nonsense", "SELECT 3"] {
            statement(out, sql);
            write::sync(out);
        }
    });
    client.expect("1 2 D(1) C(SELECT 1) Z(I) E(42601) Z(I) 1 2 D(3) C(SELECT 1) Z(I)");
    client.send(|out| {
        for sql in ["SELECT 1", "nonsense", "SELECT 3"] {
            statement(out, sql);
        }
        write::sync(out);
        write::query(out, b"SELECT 4");
    });
    client.expect("1 2 D(1) C(SELECT 1) E(42601) Z(I) T D(4) C(SELECT 1) Z(I)");
}

fn flush_without_sync(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    client.send(|out| {
        parse(out, "", "SELECT 1");
        write::describe(out, Target::Statement, b"");
        write::flush(out);
    });
    client.expect("1 t T");
    client.send(|out| {
        execute(out, "");
        write::flush(out);
    });
    client.expect("2 D(1) C(SELECT 1)");
    client.send(write::sync).expect("Z(I)");
    assert_eq!(stage.client().query("SELECT 2"), "T D(2) C(SELECT 1) Z(I)");
}

fn copies(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    assert_eq!(
        client.query("CREATE TEMP TABLE t (i int)"),
        "C(CREATE TABLE) Z(I)"
    );
    for (before, status) in [(None, "I"), (Some("BEGIN"), "T")] {
        if let Some(before) = before {
            client.query(before);
        }
        assert_eq!(
            client.query("COPY (VALUES (1), (2)) TO STDOUT"),
            format!("H d d c C(COPY 2) Z({status})")
        );
        client
            .send(|out| write::query(out, b"COPY t FROM STDIN"))
            .expect("G");
        client.send(|out| write::copy_data(out, b"1\n2"));
        client.send(|out| {
            write::copy_data(out, b"3\n");
            write::copy_done(out);
        });
        client.expect(&format!("C(COPY 2) Z({status})"));
    }
    assert_eq!(client.query("COMMIT"), "C(COMMIT) Z(I)");
    assert_eq!(
        client.query("SELECT sum(i) FROM t"),
        "T D(48) C(SELECT 1) Z(I)"
    );
}

fn failed_copies(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    let table = stage.table("i int");
    let copy = format!("COPY {table} FROM STDIN");
    client
        .send(|out| write::query(out, copy.as_bytes()))
        .expect("G");
    client
        .send(|out| write::copy_fail(out, b"no more"))
        .expect("E(57014) Z(I)");
    client
        .send(|out| write::query(out, copy.as_bytes()))
        .expect("G");
    client
        .send(|out| write::copy_data(out, b"no number\n"))
        .expect("E(22P02) Z(I)");
    // The server has given up; the client goes on for a while, and in the meantime the connection serves somebody else.
    client.send(|out| write::copy_data(out, b"1\n"));
    assert_eq!(
        stage
            .client()
            .query(&format!("SELECT count(*) FROM {table}")),
        "T D(0) C(SELECT 1) Z(I)"
    );
    client.send(|out| {
        write::copy_data(out, b"2\n");
        write::copy_done(out);
    });
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
}

fn copies_of_the_extended_protocol(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    client.query("CREATE TEMP TABLE t (i int)");
    // As libpq does it: the Sync is ignored, another one follows the data.
    client.send(|out| {
        parse(out, "", "COPY t FROM STDIN");
        execute(out, "");
        write::sync(out);
    });
    client.expect("1 2 G");
    client.send(|out| {
        write::copy_data(out, b"1\n");
        write::copy_done(out);
        write::sync(out);
    });
    client.expect("C(COPY 1) Z(I)");
    client.send(|out| {
        parse(out, "", "COPY t TO STDOUT");
        execute(out, "");
        write::sync(out);
    });
    client.expect("1 2 H d c C(COPY 1) Z(I)");
}

fn portals_in_portions(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    let portion = |out: &mut Vec<u8>, rows| {
        write::execute(out, b"p", rows);
        write::sync(out);
    };
    client.query("BEGIN");
    client.send(|out| {
        parse(out, "", "SELECT generate_series(1, 5)");
        write::bind(out, b"p", b"", NO_VALUES);
        portion(out, 2);
    });
    client.expect("1 2 D(1) D(2) s Z(T)");
    client
        .send(|out| portion(out, 2))
        .expect("D(3) D(4) s Z(T)");
    client.send(|out| portion(out, 0)).expect("D(5) C Z(T)");
    assert_eq!(client.query("COMMIT"), "C(COMMIT) Z(I)");
    client.send(|out| portion(out, 0)).expect("E(34000) Z(I)");
}

fn function_calls_and_notices(party: Party) {
    const ABS_OF_INT4: i32 = 1397;
    let stage = party.start();
    let mut client = stage.client();
    let mut body = ABS_OF_INT4.to_be_bytes().to_vec();
    body.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, b'-', b'5', 0, 0]);
    let mut call = vec![b'F'];
    call.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    call.extend_from_slice(&body);
    let answer = client.send_bytes(&call).expect("V Z(I)");
    assert_eq!(answer[0].body, [0, 0, 0, 1, b'5']);
    assert_eq!(
        client.query("DO $$ BEGIN RAISE NOTICE 'x'; END $$"),
        "N(00000) C(DO) Z(I)"
    );
    assert_eq!(
        client.query("LISTEN here; NOTIFY here, 'me'; UNLISTEN *"),
        "C(LISTEN) C(NOTIFY) C(UNLISTEN) Z(I)"
    );
}

fn messages_byte_by_byte(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    let mut bytes = Vec::new();
    parse(
        &mut bytes,
        "",
        "SELECT 'some text that is longer than a header'",
    );
    execute(&mut bytes, "");
    write::sync(&mut bytes);
    write::query(&mut bytes, b"SELECT 2");
    for size in [1, 3, 7] {
        client.send_in_pieces(&bytes, size);
        client.expect("1 2 D C(SELECT 1) Z(I) T D(2) C(SELECT 1) Z(I)");
    }
}

fn long_messages_in_little_memory(party: Party) {
    const LENGTH: usize = 30_000_000;
    const GROWTH_MAX: usize = 8_000_000;
    let stage = party.start();
    let mut client = stage.client();
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    let before = resident_bytes_max(stage.pid());
    let mut values = vec![0, 0, 0, 1];
    values.extend_from_slice(&(LENGTH as i32).to_be_bytes());
    values.resize(values.len() + LENGTH, b'x');
    values.extend_from_slice(&[0, 0]);
    client.send(|out| {
        parse(out, "", "SELECT length($1::text)");
        write::bind(out, b"", b"", &values);
        write::execute(out, b"", 0);
        write::sync(out);
    });
    client.expect(&format!("1 2 D({LENGTH}) C(SELECT 1) Z(I)"));
    client.send(|out| write::query(out, format!("SELECT repeat('x', {LENGTH})").as_bytes()));
    // Nobody reads for a while: what the server says must wait there and not here.
    testkit::wait::until("the server waits for the pooler", || {
        stage.server_says("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND query LIKE 'SELECT repeat%'") != "0"
    });
    let messages = client.receive_until("Z(I)");
    assert_eq!(
        messages[1].values()[0].as_ref().map(String::len),
        Some(LENGTH)
    );
    let grown = resident_bytes_max(stage.pid()).saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
}

/// The most memory that the process has had so far.
fn resident_bytes_max(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("Linux tells");
    let kilobytes: usize = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number");
    kilobytes * 1024
}

fn messages_above_the_limit(party: Party) {
    let stage =
        party.start_with(|ini| ini.set("default_pool_size", 1).set("max_packet_size", 2000));
    let mut client = stage.client();
    let fits = format!("SELECT {:1900}", 1);
    assert_eq!(client.query(&fits), "T D(1) C(SELECT 1) Z(I)");
    let mut other = stage.client();
    let server = crate::stage::backend(&mut other);
    client.send(|out| write::query(out, &[b' '; 3000]));
    client.expect("E(08P01)");
    client.expect_closed();
    assert_eq!(
        crate::stage::backend(&mut other),
        server,
        "the server connection is kept"
    );
}

fn versions_of_the_protocol(party: Party) {
    let stage = party.start();
    let parameters = [("user", USER), ("database", Postgres::DATABASE)];
    let old = stage.client();
    assert_eq!(old.key().1.len(), 4);
    let mut new = Client::login_with(stage.port(), PROTOCOL_3_2, &parameters);
    assert!(new.key().1.len() > 4);
    assert_eq!(new.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    let server = crate::stage::backend(&mut new);
    new.send(|out| write::query(out, b"SELECT pg_sleep(600)"));
    stage.until_asleep(&server);
    Client::cancel(stage.port(), new.key());
    new.expect("T E(57014) Z(I)");
    // A version from the future is talked down, a parameter from the future is refused.
    let mut future = Client::connect(stage.port());
    let version = ProtocolVersion { major: 3, minor: 9 };
    let parameters = [
        ("user", USER),
        ("database", Postgres::DATABASE),
        ("_pq_.colour", "green"),
    ];
    let bytes = parameters.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    future.send(|out| write::startup(out, version, bytes));
    let first = future.receive();
    assert_eq!(first.tag, b'v', "{first}");
    future.receive_until("Z(I)");
    let mut ancient = Client::connect(stage.port());
    let version = ProtocolVersion { major: 2, minor: 0 };
    ancient.send(|out| write::startup(out, version, [(&b"user"[..], USER.as_bytes())]));
    ancient.expect("E(0A000)");
    ancient.expect_closed();
}

fn peers_that_talk_nonsense(party: Party) {
    let stage = party.start();
    let mut served = stage.client();
    let server = crate::stage::backend(&mut served);
    let nonsense: &[&[u8]] = &[
        b"Q\0\0\0\x01",
        b"Q\xff\xff\xff\xff",
        b"\0\0\0\0\x04",
        b"B\0\0\0\x06x\0",
        b"X\0\0\0\x02",
        b"p\0\0\0\x05\0",
        b"~\0\0\0\x04",
    ];
    for bytes in nonsense {
        let mut client = stage.client();
        client.send_bytes(bytes);
        client.finish();
        while let Ok(Some(_)) = client.try_receive(Duration::from_secs(20)) {}
        client.expect_closed();
        assert_eq!(served.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    }
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\0\0\x04",
        b"\x7f\xff\xff\xff\0\x03\0\0",
        b"\0\0\0\x09\0\x03\0\0x",
    ] {
        let mut stranger = Client::connect(stage.port());
        stranger.send_bytes(bytes);
        stranger.finish();
        while let Ok(Some(_)) = stranger.try_receive(Duration::from_secs(20)) {}
        assert_eq!(crate::stage::backend(&mut served), server);
    }
}
