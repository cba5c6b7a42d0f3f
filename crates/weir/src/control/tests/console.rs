//! The console's protocol.

use super::{Plane, rows, tags, text};
use crate::control::console::show::Show;
use crate::control::console_client::Privilege;
use wire::frontend::Target;
use wire::write;

const INI: &str = "listen_port = 6543\n[databases]\none = host=127.0.0.1 port=5433 password=hush-hush-three\n\
                   two = host=/tmp user=bob pool_size=3\n[users]\nalice = pool_size=7 pool_mode=session\n";

#[tokio::test]
async fn simple_queries() {
    let plane = Plane::start(INI);
    let mut console = plane.connect(1, Privilege::Admin);
    let table = [
        ("SHOW VERSION", "TDCZ", "PgBouncer 1.26.0 (Weir"),
        ("show databases;", "TDDDCZ", "5433"),
        ("SHOW datestyle", "TDCZ", "ISO"),
        ("SET client_encoding = 'utf8'", "NCZ", "SET ignored"),
        ("SHOW HELP", "NCZ", "SHOW STATS"),
        ("", "IZ", ""),
        (";", "IZ", ""),
        ("SHOW POOL", "EZ", "42601"),
        ("SHOW POOL", "EZ", "Did you mean SHOW POOLS?"),
        ("PAUSE nowhere", "EZ", "3D000"),
        ("RESUME one", "EZ", "55000"),
        ("KILL_CLIENT 99", "EZ", "08003"),
        ("DISABLE pgbouncer", "EZ", "0A000"),
        ("SET verbose = lots", "EZ", "22023"),
        ("SET verbos = 1", "EZ", "did you mean \"verbose\""),
        ("SET verbose = 1", "CZ", "SET verbose=1"),
        ("RELOAD", "CZ", "RELOAD"),
    ];
    for (query, expected, part) in table {
        let answer = console.query(query).await;
        assert_eq!(tags(&answer), expected, "{query}: {}", text(&answer));
        assert!(text(&answer).contains(part), "{query}: {}", text(&answer));
    }
}

#[tokio::test]
async fn every_show_answers_and_none_shows_a_secret() {
    let plane = Plane::start(INI);
    plane.pool("one", "alice");
    plane.pool("two", "bob");
    let mut console = plane.connect(1, Privilege::Stats);
    for (name, show) in Show::ALL {
        let answer = console.query(&format!("SHOW {name}")).await;
        let tags = tags(&answer);
        assert!(
            tags.starts_with(if show.columns().is_some() { 'T' } else { 'N' })
                && tags.ends_with("CZ"),
            "{name}: {tags}"
        );
        assert!(!text(&answer).contains("hush"), "{name} shows a secret");
        for row in rows(&answer) {
            assert_eq!(Some(row.len()), show.columns().map(<[_]>::len), "{name}");
        }
    }
}

#[tokio::test]
async fn rows_say_what_is() {
    let plane = Plane::start(INI);
    let pool = plane.pool("two", "bob");
    let slot = plane
        .control
        .shared
        .try_slot(pool.id)
        .unwrap_or_else(|limit| panic!("{limit:?}"));
    let mut console = plane.connect(77, Privilege::Admin);
    let pools = rows(&console.query("SHOW POOLS").await);
    assert_eq!(pools[0][..2], ["two", "bob"]);
    assert_eq!(
        (pools[0][12].as_str(), pools[0][15].as_str()),
        ("1", "session")
    );
    assert_eq!(pools[1][..3], ["pgbouncer", "pgbouncer", "1"]);
    drop(slot);
    let databases = rows(&console.query("SHOW DATABASES").await);
    assert_eq!(
        databases[0][..6],
        ["one", "127.0.0.1", "5433", "one", "", "20"]
    );
    assert_eq!(
        databases[2][..6],
        ["two", "/tmp", "5432", "two", "bob", "3"]
    );
    let clients = rows(&console.query("SHOW CLIENTS").await);
    assert_eq!(
        (
            clients[0][1].as_str(),
            clients[0][14].as_str(),
            clients[0][20].as_str()
        ),
        ("boss", "0x4d", "77")
    );
    let users = rows(&console.query("SHOW USERS").await);
    assert_eq!(users[0][..4], ["alice", "7", "", "session"]);
    let config = rows(&console.query("SHOW CONFIG").await);
    assert!(
        config.contains(
            &["listen_port", "6543", "6432", "no"]
                .map(str::to_owned)
                .to_vec()
        )
    );
}

#[tokio::test]
async fn stats_users_are_refused_in_both_protocols() {
    let plane = Plane::start(INI);
    let mut console = plane.connect(1, Privilege::Stats);
    let before = plane.control.shared.config.load_full();
    assert!(text(&console.query("SET verbose = 1").await).contains("42501"));
    let mut out = Vec::new();
    extended(&mut out, "SET verbose = 1", 0);
    write::sync(&mut out);
    console.send(&out).await;
    let answer = console.answer().await;
    assert_eq!(tags(&answer), "1tn2EZ");
    assert!(text(&answer).contains("42501"));
    assert_eq!(*plane.control.shared.config.load_full(), *before);
}

/// Parse, Describe (statement), Bind, Execute.
fn extended(out: &mut Vec<u8>, text: &str, max_rows: i32) {
    write::parse(out, b"", text.as_bytes(), &[0, 0]);
    write::describe(out, Target::Statement, b"");
    write::bind(out, b"", b"", &[0, 0, 0, 0, 0, 0]);
    write::execute(out, b"", max_rows);
}

#[tokio::test]
async fn the_extended_protocol() {
    let plane = Plane::start(INI);
    let mut console = plane.connect(1, Privilege::Admin);
    let mut out = Vec::new();
    extended(&mut out, "SHOW DATABASES", 0);
    write::close(&mut out, Target::Statement, b"");
    write::sync(&mut out);
    console.send(&out).await;
    assert_eq!(tags(&console.answer().await), "1tT2DDDC3Z");

    out.clear();
    extended(&mut out, "SHOW DATABASES", 2);
    write::execute(&mut out, b"", 2);
    write::sync(&mut out);
    console.send(&out).await;
    assert_eq!(tags(&console.answer().await), "1tT2DDsDCZ");

    out.clear();
    extended(&mut out, "SHOW NONSENSE", 0);
    extended(&mut out, "SHOW VERSION", 0);
    write::sync(&mut out);
    extended(&mut out, "", 0);
    write::sync(&mut out);
    console.send(&out).await;
    assert_eq!(tags(&console.answer().await), "EZ");
    assert_eq!(tags(&console.answer().await), "1tn2IZ");
}

#[tokio::test]
async fn results_in_binary() {
    let plane = Plane::start(INI);
    let mut console = plane.connect(1, Privilege::Admin);
    let mut out = Vec::new();
    write::parse(&mut out, b"lists", b"SHOW LISTS", &[0, 0]);
    write::bind(&mut out, b"", b"lists", &[0, 0, 0, 0, 0, 1, 0, 1]);
    write::describe(&mut out, Target::Portal, b"");
    write::execute(&mut out, b"", 1);
    write::sync(&mut out);
    console.send(&out).await;
    let answer = console.answer().await;
    assert_eq!(tags(&answer), "12TDsZ");
    assert_eq!(
        answer[3].body,
        b"\0\x02\0\0\0\x09databases\0\0\0\x04\0\0\0\x03"
    );
}

#[tokio::test]
async fn mistakes_in_the_extended_protocol() {
    let plane = Plane::start(INI);
    let mut console = plane.connect(1, Privilege::Admin);
    type Send = fn(&mut Vec<u8>);
    let cases: [(&str, Send); 5] = [
        ("26000", |out| write::bind(out, b"", b"missing", &[0; 6])),
        ("34000", |out| write::execute(out, b"missing", 0)),
        ("08P01", |out| {
            write::parse(out, b"", b"SHOW VERSION", &[0, 0]);
            write::bind(out, b"", b"", &[0, 0, 0, 1, 0, 0, 0, 1, b'x', 0, 0]);
        }),
        ("42P05", |out| {
            write::parse(out, b"twice", b"SHOW VERSION", &[0, 0]);
            write::parse(out, b"twice", b"SHOW VERSION", &[0, 0]);
        }),
        ("54000", |out| {
            (0..100).for_each(|n| {
                write::parse(out, format!("s{n}").as_bytes(), b"SHOW VERSION", &[0, 0])
            })
        }),
    ];
    for (sqlstate, send) in cases {
        let mut out = Vec::new();
        send(&mut out);
        write::sync(&mut out);
        console.send(&out).await;
        let answer = console.answer().await;
        assert!(
            tags(&answer).ends_with("EZ") && text(&answer).contains(sqlstate),
            "{sqlstate}: {}",
            text(&answer)
        );
    }
}

#[tokio::test]
async fn what_no_client_sends_ends_the_connection() {
    let plane = Plane::start(INI);
    let cases: [&[u8]; 4] = [
        b"Q\x7f\xff\xff\xff",
        b"Q\0\0\0\x02",
        b"?\0\0\0\x04",
        b"Q\0\0\0\x05x",
    ];
    for (id, bytes) in (1..).zip(cases) {
        let mut console = plane.connect(id, Privilege::Admin);
        console.send(bytes).await;
        let answer = console.answer().await;
        assert!(
            tags(&answer) == "E" && text(&answer).contains("FATAL"),
            "{bytes:?}: {}",
            text(&answer)
        );
    }
}
