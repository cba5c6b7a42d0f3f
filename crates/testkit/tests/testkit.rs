//! The kit itself: a script that holds against PostgreSQL and against a scripted server, and a pooler in between.

use std::thread;
use std::time::Duration;
use testkit::script::{Client, Listener};
use testkit::{Ini, PgBouncer, Postgres, Role, wait};
use wire::{backend, write};

#[test]
fn every_role_logs_in_by_its_method_in_every_version() {
    for postgres in Postgres::majors().map(Postgres::shared) {
        for role in Role::ALL {
            let right = postgres.direct(role);
            let name = lab::runtime::apart(current_user(&right)).expect("the right password");
            assert_eq!(name, role.name());
            let wrong = right.replace(role.password(), "wrong");
            let refused = lab::runtime::apart(current_user(&wrong)).is_err();
            assert_eq!(refused, role != Role::Trust, "{role:?}");
        }
        assert!(Role::Md5.stored_secret(postgres).starts_with("md5"));
        assert!(
            Role::Scram
                .stored_secret(postgres)
                .starts_with("SCRAM-SHA-256$")
        );
    }
}

async fn current_user(connection_string: &str) -> Result<String, tokio_postgres::Error> {
    let (client, connection) =
        tokio_postgres::connect(connection_string, tokio_postgres::NoTls).await?;
    let asked = async move { client.query_one("SELECT current_user::text", &[]).await };
    let (row, _) = tokio::join!(asked, connection);
    Ok(row?.get(0))
}

#[test]
fn tests_share_one_server() {
    let pids = [(); 4].map(|()| thread::spawn(|| Postgres::usual().pid()));
    let pids = pids.map(|thread| thread.join().expect("no panic").expect("it runs"));
    assert!(pids.iter().all(|pid| *pid == pids[0]));
}

#[test]
fn a_scripted_client_talks_to_postgresql() {
    let postgres = Postgres::usual();
    let mut client = Client::login(postgres.port(), Role::Trust.name(), Postgres::DATABASE);
    assert_eq!(
        client.query("SELECT 1, NULL"),
        "T D(1,NULL) C(SELECT 1) Z(I)"
    );
    client.send(|out| {
        write::parse(out, b"s", b"SELECT 2", &[0, 0]);
        write::describe(out, wire::frontend::Target::Statement, b"s");
        write::sync(out);
    });
    client.expect("1 t T Z(I)");
    assert_eq!(client.query("nonsense"), "E(42601) Z(I)");
    client.send(write::terminate).expect_closed();
}

#[test]
fn a_cancel_reaches_the_query() {
    let postgres = Postgres::usual();
    let mut client = Client::login(postgres.port(), Role::Trust.name(), Postgres::DATABASE);
    let pid = client.key().0;
    client.send(|out| write::query(out, b"SELECT pg_sleep(600)"));
    let sleeps = format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}");
    wait::until("the query runs", || {
        postgres.value(&sleeps).is_ok_and(|state| state == "active")
    });
    Client::cancel(postgres.port(), client.key());
    client.expect("T E(57014) Z(I)");
}

#[test]
fn a_scripted_server_is_postgresql_to_a_scripted_client() {
    let listener = Listener::bind();
    let port = listener.port();
    let client = thread::spawn(move || {
        let mut client = Client::login(port, "somebody", "somewhere");
        client.send_in_pieces(b"Q\0\0\0\x0dSELECT 1\0", 3);
        client.expect("C(DONE) Z(T)");
        client.expect_silence(Duration::from_millis(20));
        client.into_end().reset();
    });
    let mut server = listener.accept_and_greet();
    assert!(
        server
            .parameters()
            .contains(&("user".into(), "somebody".into()))
    );
    server.expect("Q(SELECT 1)");
    server.send(|out| {
        write::command_complete(out, b"DONE");
        write::ready_for_query(out, backend::TransactionStatus::InTransaction);
    });
    server.expect_closed();
    client.join().expect("the client's script holds");
}

#[test]
#[should_panic(expected = "> Q(SELECT 1)\n< T\n< D(1)")]
fn a_wrong_expectation_shows_the_conversation() {
    let mut client = Client::login(
        Postgres::usual().port(),
        Role::Trust.name(),
        Postgres::DATABASE,
    );
    client.send(|out| write::query(out, b"SELECT 1"));
    client.expect("T D(2)");
}

#[test]
fn a_pooler_serves_clients_and_its_console_answers() {
    let postgres = Postgres::usual();
    let ini = Ini::in_front_of(postgres).set("default_pool_size", 3);
    let Some(mut pooler) = PgBouncer::start(&ini) else {
        assert!(PgBouncer::program().is_none());
        return;
    };
    let mut client = Client::login(pooler.port(), Role::Trust.name(), Postgres::DATABASE);
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    assert_eq!(
        pooler
            .show("CONFIG")
            .having("key", "default_pool_size")
            .number("value"),
        3
    );
    assert_eq!(
        pooler
            .show("POOLS")
            .having("database", Postgres::DATABASE)
            .number("cl_active"),
        1
    );
    let refused = pooler
        .console_as(Ini::STATS, "stats secret")
        .try_ask("PAUSE");
    assert!(refused.is_err(), "{refused:?}");
    pooler.reconfigure(&ini.set("default_pool_size", 4));
    pooler.console().ask("RELOAD");
    assert_eq!(
        pooler
            .show("CONFIG")
            .having("key", "default_pool_size")
            .number("value"),
        4
    );
    drop(client); // since 1.23 SIGTERM waits for clients
    pooler.signal(nix::sys::signal::Signal::SIGTERM);
    pooler.wait();
}

#[test]
fn a_configuration_that_is_refused_is_told_by_the_log() {
    let Some(program) = PgBouncer::program() else {
        return;
    };
    assert!(program.is_file());
    let ini = Ini::new().set("pool_mode", "no such mode");
    let started = std::panic::catch_unwind(|| PgBouncer::start(&ini));
    let panic = started.expect_err("a pooler with a bad setting");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("pool_mode"), "{text}");
}
