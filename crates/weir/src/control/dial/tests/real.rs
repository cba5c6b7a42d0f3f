//! The same against PostgreSQL itself.

use super::*;
use crate::shared::{CancelHold, CancelTarget};
use crate::worker::ServerKey;
use testkit::{Postgres, Role};

const MAJOR: u32 = 15;

/// A rig for one role of the server, with its password in `auth_file`.
fn rig(server: &Postgres, host: &str, role: Role) -> Rig {
    let keys = format!(
        "host={host} port={} dbname={} user={}",
        server.port(),
        Postgres::DATABASE,
        role.name()
    );
    let rig = Rig::new(&keys, "", "x");
    let list = format!("\"{}\" \"{}\"\n", role.name(), role.password());
    rig.credentials
        .users
        .store(Arc::new(UserList::load(&list).unwrap()));
    rig
}

#[tokio::test]
async fn postgresql_lets_every_role_in() {
    let server = Postgres::shared(MAJOR);
    let folder = server.socket_dir().display().to_string();
    for (host, role) in Role::ALL
        .into_iter()
        .flat_map(|role| [("127.0.0.1", role), (&*folder, role)])
    {
        let rig = rig(server, host, role);
        for _ in 0..2 {
            let logged_in = rig
                .connect()
                .await
                .unwrap_or_else(|error| panic!("{role:?} at {host}: {error:?}"));
            assert!(
                logged_in
                    .parameters
                    .value("server_version")
                    .is_some_and(|version| version.starts_with("15"))
            );
            assert!(logged_in.pid != 0 && logged_in.key.len() == 4);
        }
    }
}

#[tokio::test]
async fn postgresql_says_why_not() {
    let server = Postgres::shared(MAJOR);
    let rig = rig(server, "127.0.0.1", Role::Scram);
    let wrong = format!("\"{}\" \"wrong\"\n", Role::Scram.name());
    rig.credentials
        .users
        .store(Arc::new(UserList::load(&wrong).unwrap()));
    let error = expect_err(rig.connect().await);
    assert_eq!(
        (error.sqlstate, error.lasting),
        (SqlState::INVALID_PASSWORD, true)
    );

    let keys = format!(
        "host=127.0.0.1 port={} dbname=no_such_database user={}",
        server.port(),
        Role::Trust.name()
    );
    let error = expect_err(Rig::new(&keys, "", "x").connect().await);
    assert_eq!(
        (error.sqlstate, error.lasting),
        (SqlState::INVALID_CATALOG_NAME, true)
    );
    assert!(error.message.contains("no_such_database"));
}

#[tokio::test]
async fn a_cancel_request_ends_a_query() {
    let server = Postgres::shared(MAJOR);
    let rig = rig(server, "127.0.0.1", Role::Trust);
    let LoggedIn {
        mut stream,
        pid,
        key,
        address,
        ..
    } = rig.connect().await.unwrap();
    let mut query = Vec::new();
    write::query(&mut query, b"SELECT pg_sleep(600)");
    stream.write_all(&query).await.unwrap();
    let canceled = async {
        let mut answer = Vec::new();
        while !answer
            .windows(5)
            .any(|code| code == SqlState::QUERY_CANCELED.as_bytes())
        {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
        }
    };
    // A request may overtake the query: then it is sent again.
    let requests = async {
        loop {
            let hold = CancelHold {
                shared: Arc::clone(&rig.shared),
                worker: 0,
                server: ServerKey {
                    index: 0,
                    serial: 0,
                },
                delivery: crate::shared::Delivery::Unknown,
            };
            cancel(
                &rig.shared,
                CancelTarget {
                    address: Arc::clone(&address),
                    pid,
                    key: key.clone(),
                    hold,
                },
            )
            .await;
        }
    };
    tokio::select! {
        () = canceled => {}
        () = requests => unreachable!(),
    }
}
