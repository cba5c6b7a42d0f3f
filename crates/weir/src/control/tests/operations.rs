//! What the operator's commands do.

use super::{Console, Plane, rows, tags, text};
use crate::control::Phase;
use crate::control::console_client::Privilege;
use std::sync::atomic::Ordering;
use wire::write;

const INI: &str = "[databases]\none = host=127.0.0.1\ntwo = host=127.0.0.1\n* = host=127.0.0.1\n";

async fn ok(console: &mut Console, command: &str) {
    let answer = console.query(command).await;
    assert_eq!(tags(&answer), "CZ", "{command}: {}", text(&answer));
}

#[tokio::test]
async fn pause_waits_for_the_last_server_connection() {
    let plane = Plane::start(INI);
    let (one, two) = (plane.pool("one", "alice"), plane.pool("two", "alice"));
    let slot = plane
        .control
        .shared
        .try_slot(one.id)
        .unwrap_or_else(|limit| panic!("{limit:?}"));
    let mut console = plane.connect(1, Privilege::Admin);
    ok(&mut console, "PAUSE two").await;
    assert!(two.is_paused() && !one.is_paused());
    let mut out = Vec::new();
    write::query(&mut out, b"PAUSE one");
    console.send(&out).await;
    let mut other = plane.connect(2, Privilege::Admin);
    while !one.is_paused() {
        other.query("SHOW STATE").await;
    }
    drop(slot);
    assert_eq!(tags(&console.answer().await), "CZ");
    ok(&mut console, "RESUME one").await;
    assert!(two.is_paused() && !one.is_paused());
    assert!(text(&console.query("RESUME one").await).contains("is not paused"));
}

#[tokio::test]
async fn a_pause_whose_client_leaves_is_undone() {
    let plane = Plane::start(INI);
    let pool = plane.pool("one", "alice");
    let _slot = plane
        .control
        .shared
        .try_slot(pool.id)
        .unwrap_or_else(|limit| panic!("{limit:?}"));
    let mut console = plane.connect(1, Privilege::Admin);
    let mut out = Vec::new();
    write::query(&mut out, b"PAUSE");
    console.send(&out).await;
    let mut other = plane.connect(2, Privilege::Admin);
    while !pool.is_paused() {
        other.query("SHOW STATE").await;
    }
    drop(console);
    while pool.is_paused() {
        other.query("SHOW STATE").await;
    }
    assert_eq!(
        rows(&other.query("SHOW STATE").await),
        [["active", "yes"], ["paused", "no"]]
    );
}

#[tokio::test]
async fn a_pause_holds_for_pools_that_come_later() {
    let plane = Plane::start(INI);
    let mut console = plane.connect(1, Privilege::Admin);
    ok(&mut console, "PAUSE").await;
    assert!(text(&console.query("PAUSE").await).contains("already paused"));
    let later = plane.pool("one", "alice");
    assert!(later.is_paused());
    ok(&mut console, "RESUME").await;
    assert!(!later.is_paused());
    assert!(text(&console.query("RESUME").await).contains("not paused"));
}

#[tokio::test]
async fn kill_leaves_the_database_paused() {
    let plane = Plane::start(INI);
    let (one, two) = (plane.pool("one", "alice"), plane.pool("two", "alice"));
    let mut console = plane.connect(1, Privilege::Admin);
    ok(&mut console, "KILL one").await;
    assert!(one.is_paused() && !two.is_paused());
    let databases = rows(&console.query("SHOW DATABASES").await);
    assert_eq!(
        (databases[0][0].as_str(), databases[0][15].as_str()),
        ("one", "1")
    );
    ok(&mut console, "RESUME one").await;
    assert!(!one.is_paused());
}

#[tokio::test]
async fn disable_and_reconnect() {
    let plane = Plane::start(INI);
    let (one, two) = (plane.pool("one", "alice"), plane.pool("two", "alice"));
    let mut console = plane.connect(1, Privilege::Admin);
    ok(&mut console, "DISABLE one").await;
    assert!(one.state.disabled.load(Ordering::Relaxed));
    assert_eq!(rows(&console.query("SHOW DATABASES").await)[0][16], "1");
    ok(&mut console, "ENABLE one").await;
    assert!(!one.state.disabled.load(Ordering::Relaxed));
    ok(&mut console, "RECONNECT one").await;
    ok(&mut console, "WAIT_CLOSE one").await;
    let generations = [&one, &two].map(|pool| pool.generation.load(Ordering::Relaxed));
    assert_eq!(generations, [1, 0]);
}

#[tokio::test]
async fn kill_client_ends_a_console_too() {
    let plane = Plane::start(INI);
    let mut victim = plane.connect(7, Privilege::Stats);
    assert_eq!(tags(&victim.query("SHOW STATE").await), "TDDCZ");
    let mut console = plane.connect(8, Privilege::Admin);
    ok(&mut console, "KILL_CLIENT 7").await;
    let farewell = victim.answer().await;
    assert!(
        tags(&farewell) == "E" && text(&farewell).contains("57P01"),
        "{}",
        text(&farewell)
    );
    while rows(&console.query("SHOW CLIENTS").await).len() > 1 {}
    assert!(text(&console.query("KILL_CLIENT 7").await).contains("no such client"));
}

#[tokio::test]
async fn shutdown_waits_as_it_was_told() {
    let plane = Plane::start(INI);
    let pool = plane.pool("one", "alice");
    let slot = plane
        .control
        .shared
        .try_slot(pool.id)
        .unwrap_or_else(|limit| panic!("{limit:?}"));
    let mut phases = plane.control.phases();
    let mut console = plane.connect(1, Privilege::Admin);
    ok(&mut console, "SHUTDOWN WAIT_FOR_SERVERS").await;
    assert_eq!(plane.control.phase(), Phase::WaitingForServers);
    assert!(text(&console.query("RESUME").await).contains("shutting down"));
    drop(slot);
    phases
        .wait_for(|phase| *phase == Phase::Ended)
        .await
        .expect("the control plane lives");
}

#[tokio::test]
async fn shutdown_without_clients_ends_at_once() {
    let plane = Plane::start(INI);
    let mut phases = plane.control.phases();
    let mut console = plane.connect(1, Privilege::Admin);
    ok(&mut console, "SHUTDOWN WAIT_FOR_CLIENTS").await;
    phases
        .wait_for(|phase| *phase == Phase::Ended)
        .await
        .expect("the control plane lives");
}
