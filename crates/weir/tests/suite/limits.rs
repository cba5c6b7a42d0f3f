//! Limits on connections and on time: never exceeded, and whoever meets one is told what it is.

use crate::stage::{Party, Stage, USER, backend, error, value};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::script::{Client, Message};
use testkit::{Ini, Postgres, Role, wait};
use wire::startup::PROTOCOL_3_0;
use wire::write;

scenarios! { reactors:
    pool_size_is_exact, the_reserve_opens_late, min_pool_size_is_kept, a_databases_limit_is_shared_by_users, a_users_limit_is_shared_by_databases,
    clients_beyond_a_limit_are_refused, waiting_ends_with_query_wait_timeout, waiting_clients_are_notified, time_limits_keep_the_server_connection,
    idle_clients_are_told_to_go, without_file_descriptors_the_others_are_served,
}
scenarios! { oracle: pool_size_is_exact, min_pool_size_is_kept, a_databases_limit_is_shared_by_users }

fn pool_size_is_exact(party: Party) {
    const CLIENTS: usize = 50;
    const ROUNDS: usize = 10;
    for workers in party.worker_threads().iter().copied() {
        let database = party.own_database(&format!("exact_{workers}"));
        let stage = party.start_with(|ini| {
            party
                .weir_only(ini, "worker_threads", workers)
                .set("default_pool_size", 3)
        });
        let (port, left) = (stage.port(), AtomicUsize::new(CLIENTS));
        let most = thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let _counted = Counted(&left);
                    let mut client = Client::login(port, USER, &database);
                    for _ in 0..ROUNDS {
                        assert_eq!(
                            client.query("BEGIN; SELECT pg_sleep(0.001); COMMIT"),
                            "C(BEGIN) T D() C(SELECT 1) C(COMMIT) Z(I)"
                        );
                    }
                });
            }
            let mut most = 0;
            while left.load(Ordering::Relaxed) > 0 {
                most = most.max(stage.postgres.connections(&database));
            }
            most
        });
        assert_eq!(most, 3, "{workers} workers");
    }
}

/// One fewer when it is dropped, also by a panic.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn the_reserve_opens_late(party: Party) {
    const LATE: Duration = Duration::from_millis(400);
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 1)
            .set("reserve_pool_size", 1)
            .set("reserve_pool_timeout", "0.4")
    });
    let (mut first, mut second, mut third) = (stage.client(), stage.client(), stage.client());
    first.query("BEGIN");
    let began = Instant::now();
    assert_eq!(second.query("BEGIN"), "C(BEGIN) Z(T)");
    assert!(began.elapsed() >= LATE, "{:?}", began.elapsed());
    third.send(|out| write::query(out, b"SELECT 3"));
    third.expect_silence(2 * LATE);
    second.query("COMMIT");
    third.expect("T D(3) C Z(I)");
}

fn min_pool_size_is_kept(party: Party) {
    let database = party.own_database("minimum");
    let stage = party.start_with(|ini| ini.set("default_pool_size", 5).set("min_pool_size", 2));
    let mut client = stage.client_of(&database);
    client.query("SELECT 1");
    wait::until("two server connections", || {
        stage.postgres.connections(&database) == 2
    });
    let server = backend(&mut client);
    stage.server_says(&format!("SELECT pg_terminate_backend({server})"));
    wait::until("it is replaced", || {
        let lost = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {server}");
        stage.server_says(&lost) == "0" && stage.postgres.connections(&database) == 2
    });
}

fn a_databases_limit_is_shared_by_users(party: Party) {
    for workers in party.worker_threads().iter().copied() {
        share_a_databases_limit(party, workers);
    }
}

fn share_a_databases_limit(party: Party, workers: u32) {
    let database = party.own_database(&format!("shared_{workers}"));
    let stage = party.start_with(|ini| {
        party
            .weir_only(ini, "worker_threads", workers)
            .set("default_pool_size", 5)
            .set("max_db_connections", 1)
    });
    let mut one = Client::login(stage.port(), Role::Trust.name(), &database);
    let mut two = Client::login(stage.port(), Role::Plain.name(), &database);
    for _ in 0..3 {
        assert_eq!(value(&mut one, "SELECT current_user"), Role::Trust.name());
        assert_eq!(value(&mut two, "SELECT current_user"), Role::Plain.name());
    }
    wait::until("one is left", || stage.postgres.connections(&database) == 1);
    // Who waits under the shared limit gets the place when it is free.
    two.query("BEGIN");
    one.send(|out| write::query(out, b"SELECT 1"));
    one.expect_silence(Duration::from_millis(100));
    two.query("COMMIT");
    one.expect("T D(1) C Z(I)");
}

fn a_users_limit_is_shared_by_databases(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 5)
            .set("max_user_connections", 1)
    });
    let mut one = stage.client_of(Postgres::DATABASE);
    let mut two = stage.client_of(Postgres::OTHER_DATABASE);
    for _ in 0..3 {
        assert_eq!(
            value(&mut one, "SELECT current_database()"),
            Postgres::DATABASE
        );
        assert_eq!(
            value(&mut two, "SELECT current_database()"),
            Postgres::OTHER_DATABASE
        );
    }
    two.query("BEGIN");
    one.send(|out| write::query(out, b"SELECT 1"));
    stage.until_pool(Postgres::DATABASE, "cl_waiting", 1);
    two.query("COMMIT");
    one.expect("T D(1) C Z(I)");
}

/// What a client is told that is not let in.
#[track_caller]
fn refusal(stage: &Stage, database: &str) -> Message {
    let mut client = Client::connect(stage.port());
    let parameters = [("user", USER), ("database", database)]
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    client.send(|out| write::startup(out, PROTOCOL_3_0, parameters));
    let told = client.receive_until("E").pop().expect("an error");
    client.expect_closed();
    told
}

fn clients_beyond_a_limit_are_refused(party: Party) {
    let place = |ini: Ini| {
        let port = party.postgres().port();
        ini.database(
            Postgres::OTHER_DATABASE,
            &format!("host=127.0.0.1 port={port} max_db_client_connections=1"),
        )
    };
    let stage = party.start_with(|ini| place(ini).set("max_client_conn", 3));
    let one = stage.client_of(Postgres::OTHER_DATABASE);
    let told = refusal(&stage, Postgres::OTHER_DATABASE);
    assert_eq!(told.field(b'C').as_deref(), Some("53300"));
    assert!(
        told.field(b'M')
            .is_some_and(|text| text.contains("max_db_client_connections")),
        "{told}"
    );
    let (two, _three) = (stage.client(), stage.client());
    let told = refusal(&stage, Postgres::DATABASE);
    assert_eq!(told.field(b'C').as_deref(), Some("53300"));
    assert!(
        told.field(b'M')
            .is_some_and(|text| text.contains("max_client_conn")),
        "{told}"
    );
    drop((one, two));
    stage.until_pool(Postgres::DATABASE, "cl_active", 1);
    wait::until("a place is free", || {
        stage
            .show("DATABASES")
            .having("name", Postgres::OTHER_DATABASE)
            .number("current_client_connections")
            == 0
    });
    assert_eq!(
        stage.client_of(Postgres::OTHER_DATABASE).query("SELECT 1"),
        "T D(1) C(SELECT 1) Z(I)"
    );
    let stage = party.start_with(|ini| ini.user(USER, "max_user_client_connections=1"));
    let _one = stage.client();
    let told = refusal(&stage, Postgres::OTHER_DATABASE);
    assert!(
        told.field(b'M')
            .is_some_and(|text| text.contains("max_user_client_connections")),
        "{told}"
    );
}

fn waiting_ends_with_query_wait_timeout(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 1)
            .set("query_wait_timeout", "0.3")
    });
    let (mut holder, mut waiting) = (stage.client(), stage.client());
    holder.query("BEGIN");
    waiting.send(|out| write::query(out, b"SELECT 1"));
    let told = waiting.receive_until("E(57P03)");
    assert!(
        error(&told)
            .field(b'M')
            .is_some_and(|text| text.contains("query_wait_timeout"))
    );
    waiting.expect_closed();
    assert_eq!(holder.query("COMMIT"), "C(COMMIT) Z(I)");
}

fn waiting_clients_are_notified(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 1)
            .set("query_wait_notify", "0.2")
    });
    let (mut holder, mut waiting) = (stage.client(), stage.client());
    holder.query("BEGIN");
    waiting.send(|out| write::query(out, b"SELECT 1"));
    waiting.expect("N");
    waiting.expect_silence(Duration::from_millis(400));
    holder.query("COMMIT");
    waiting.expect("T D(1) C Z(I)");
}

fn time_limits_keep_the_server_connection(party: Party) {
    for (setting, sqlstate) in [
        ("query_timeout", "57014"),
        ("transaction_timeout", "25P04"),
        ("idle_transaction_timeout", "25P03"),
    ] {
        let stage = party.start_with(|ini| ini.set("default_pool_size", 1).set(setting, "0.5"));
        let mut client = stage.client();
        let server = backend(&mut client);
        if setting == "query_timeout" {
            client.send(|out| write::query(out, b"SELECT pg_sleep(600)"));
        } else {
            client.query("BEGIN");
            client.query("SELECT 1");
        }
        let told = client.receive_until("E");
        assert_eq!(error(&told).field(b'C').as_deref(), Some(sqlstate));
        assert!(
            error(&told)
                .field(b'M')
                .is_some_and(|text| text.contains(setting))
        );
        client.expect_closed();
        let mut next = stage.client();
        assert_eq!(backend(&mut next), server, "{setting}");
    }
}

fn idle_clients_are_told_to_go(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 2)
            .set("client_idle_timeout", "1")
    });
    let mut busy = stage.client();
    busy.query("BEGIN");
    let mut idle = stage.client();
    idle.query("SELECT 1");
    idle.expect("E(57P05)");
    idle.expect_closed();
    assert_eq!(busy.query("COMMIT"), "C(COMMIT) Z(I)");
}

/// No file descriptor is left: who is in is served, who comes waits until there is one.
fn without_file_descriptors_the_others_are_served(party: Party) {
    let stage = party.start();
    let mut client = stage.client();
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    let open = std::fs::read_dir(format!("/proc/{}/fd", stage.pid()));
    limit_descriptors(&stage, open.expect("it runs").count() as u64);
    let mut late = Client::connect(stage.port());
    late.send(|out| {
        let parameters = [("user", USER), ("database", Postgres::DATABASE)]
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        write::startup(out, PROTOCOL_3_0, parameters);
    });
    wait::until("it is said", || {
        stage.log().contains("cannot accept connections")
    });
    assert_eq!(client.query("SELECT 2"), "T D(2) C(SELECT 1) Z(I)");
    limit_descriptors(&stage, 1000);
    late.receive_until("Z(I)");
    assert_eq!(late.query("SELECT 3"), "T D(3) C(SELECT 1) Z(I)");
}

/// Sets the soft limit of the pooler's open files, as the user that it runs as may.
fn limit_descriptors(stage: &Stage, most: u64) {
    let owner = std::fs::metadata(stage.folder()).expect("its folder");
    let told = Command::new("prlimit")
        .arg(format!("--pid={}", stage.pid()))
        .arg(format!("--nofile={most}:"))
        .uid(owner.uid())
        .gid(owner.gid())
        .output()
        .expect("prlimit(1) runs");
    assert!(told.status.success(), "{told:?}");
}
