//! From the first byte to the greeting.

use super::*;
use crate::shared::DialError;
use std::os::fd::AsRawFd;

const TRUST: &str = "auth_type = trust";
const USERS: &str = "\"app\" \"\"\n";

#[tokio::test]
async fn a_client_is_greeted_and_handed_over_with_what_it_sent_ahead() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    let mut ahead = startup_message(
        PROTOCOL_3_0,
        &[
            ("user", "app"),
            ("database", "db"),
            ("application_name", "x"),
        ],
    );
    wire::write::query(&mut ahead, b"SELECT 1");
    guest.send(&ahead).await;

    let welcomed = guest.greeting().await;
    assert_eq!(welcomed.status("server_version"), Some("17.1"));
    assert_eq!(welcomed.status("application_name"), Some("x"));
    assert_eq!(welcomed.key.len(), 4);
    let (worker, client) = house.clients().pop().unwrap();
    assert_eq!(client.leftover, b"Q\0\0\0\rSELECT 1\0");
    assert_eq!((client.pid.worker(), client.pid.0), (worker, welcomed.pid));
    assert!(client.secret.matches(&welcomed.key));
    assert_eq!(client.parameters.value("application_name"), Some("x"));
    assert_eq!(
        client.peer,
        Address::Tcp(guest.stream.local_addr().unwrap())
    );
    // SAFETY: the descriptor is open, F_GETFL only reads.
    let flags = unsafe { libc::fcntl(client.socket.as_raw_fd(), libc::F_GETFL) };
    assert_ne!(flags & libc::O_NONBLOCK, 0);
}

#[tokio::test]
async fn clients_are_dealt_to_the_workers_in_turn_and_alike_ones_share_their_parameters() {
    let house = House::open(TRUST, USERS);
    for _ in 0..4 {
        house.start("app", "db").await.greeting().await;
    }
    let clients = house.clients();
    let on_first = clients.iter().filter(|(worker, _)| *worker == 0).count();
    assert_eq!((clients.len(), on_first), (4, 2));
    assert!(
        clients
            .iter()
            .all(|(_, client)| Arc::ptr_eq(&client.parameters, &clients[0].1.parameters))
    );
}

#[tokio::test]
async fn startup_parameters_reach_the_session_also_from_options() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    let wishes = [
        ("user", "app"),
        ("database", "db"),
        ("timezone", "Europe/Berlin"),
        ("client_encoding", "utf8"),
        ("datestyle", "ISO"),
        ("options", "-c statement_timeout=5s -c timezone=UTC"),
    ];
    guest.send(&startup_message(PROTOCOL_3_0, &wishes)).await;
    let welcomed = guest.greeting().await;
    assert_eq!(welcomed.status("TimeZone"), Some("Europe/Berlin"));
    assert_eq!(
        (
            welcomed.status("client_encoding"),
            welcomed.status("DateStyle")
        ),
        (Some("UTF8"), Some("ISO, MDY"))
    );
    assert_eq!(welcomed.status("statement_timeout"), None);
    let (_, client) = house.clients().pop().unwrap();
    assert_eq!(client.parameters.value("statement_timeout"), Some("5s"));
}

#[tokio::test]
async fn a_packet_in_two_parts_is_one_packet() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    let packet = startup_message(PROTOCOL_3_0, &[("user", "app"), ("database", "db")]);
    let (first, second) = packet.split_at(9);
    guest.send(first).await;
    while house.reception.arrivals() == 0 {
        tokio::task::yield_now().await;
    }
    guest.send(second).await;
    guest.greeting().await;
    assert_eq!(house.reception.arrivals(), 0);
}

#[tokio::test]
async fn a_peer_that_leaves_half_a_packet_behind_leaves_nothing_else() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    guest.send(&[0, 0, 0, 20, 0, 3]).await;
    while house.reception.arrivals() == 0 {
        tokio::task::yield_now().await;
    }
    drop(guest);
    while house.reception.arrivals() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(house.clients().is_empty());
}

#[tokio::test]
async fn a_silent_peer_is_told_to_go() {
    let house = House::open("auth_type = trust\nclient_login_timeout = 0.05", USERS);
    let mut guest = house.knock().await;
    guest.send(&[0, 0]).await;
    assert_eq!(guest.refusal().await.message, "client_login_timeout");
}

#[tokio::test]
async fn encryption_is_declined_once_each() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    for request in [wire::write::gssenc_request, wire::write::ssl_request] {
        let mut packet = Vec::new();
        request(&mut packet);
        guest.send(&packet).await;
        assert_eq!(guest.stream.read_u8().await.unwrap(), b'N');
    }
    guest
        .send(&startup_message(
            PROTOCOL_3_0,
            &[("user", "app"), ("database", "db")],
        ))
        .await;
    guest.greeting().await;

    let mut guest = house.knock().await;
    let mut packet = Vec::new();
    wire::write::ssl_request(&mut packet);
    guest.send(&packet).await;
    assert_eq!(guest.stream.read_u8().await.unwrap(), b'N');
    guest.send(&packet).await;
    assert_eq!(guest.refusal().await.sqlstate, "08P01");
}

/// CVE-2021-3935.
#[tokio::test]
async fn nothing_may_follow_an_encryption_request_before_its_answer() {
    let house = House::open(TRUST, USERS);
    for request in [wire::write::gssenc_request, wire::write::ssl_request] {
        let mut guest = house.knock().await;
        let mut packet = Vec::new();
        request(&mut packet);
        packet.extend(startup_message(
            PROTOCOL_3_0,
            &[("user", "app"), ("database", "db")],
        ));
        guest.send(&packet).await;
        let told = guest.refusal().await;
        assert_eq!(
            (told.sqlstate.as_str(), told.message.as_str()),
            (
                "08P01",
                "received unencrypted data after an encryption request"
            )
        );
    }
}

#[tokio::test]
async fn what_is_no_startup_packet_is_refused() {
    let house = House::open(TRUST, USERS);
    let old = startup_message(ProtocolVersion { major: 2, minor: 0 }, &[("user", "app")]);
    let mut unterminated = startup_message(PROTOCOL_3_0, &[("user", "app")]);
    *unterminated.last_mut().unwrap() = b'x';
    let cases: [(&[u8], &str); 6] = [
        (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
        (&[0, 0, 0, 7, 0, 3, 0], "08P01"),
        (&10_005u32.to_be_bytes(), "08P01"),
        (&old, "0A000"),
        (&unterminated, "08P01"),
        (
            &startup_message(PROTOCOL_3_0, &[("database", "db")]),
            "28000",
        ),
    ];
    for (bytes, sqlstate) in cases {
        let mut guest = house.knock().await;
        guest.send(bytes).await;
        assert_eq!(guest.refusal().await.sqlstate, sqlstate, "{bytes:?}");
    }
}

#[tokio::test]
async fn newer_protocols_are_negotiated_and_3_2_has_long_keys() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    let newer = ProtocolVersion { major: 3, minor: 9 };
    guest
        .send(&startup_message(
            newer,
            &[("user", "app"), ("database", "db"), ("_pq_.magic", "on")],
        ))
        .await;
    let (tag, body) = guest.message().await;
    assert_eq!(tag, tag::NEGOTIATE_PROTOCOL_VERSION);
    assert_eq!(body, b"\0\x03\0\x02\0\0\0\x01_pq_.magic\0");
    assert_eq!(guest.greeting().await.key.len(), 32);

    let mut guest = house.knock().await;
    guest
        .send(&startup_message(
            PROTOCOL_3_2,
            &[("user", "app"), ("database", "db")],
        ))
        .await;
    assert_eq!(guest.greeting().await.key.len(), 32);
}

#[tokio::test]
async fn replication_is_refused_for_now() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    guest
        .send(&startup_message(
            PROTOCOL_3_0,
            &[
                ("user", "app"),
                ("database", "db"),
                ("replication", "database"),
            ],
        ))
        .await;
    assert_eq!(guest.refusal().await.sqlstate, "0A000");
}

#[tokio::test]
async fn the_first_clients_wait_for_one_server_and_are_greeted_as_it_greets() {
    let mut house = House::unknown("host=127.0.0.1 port=1", TRUST, USERS);
    let mut guests = [
        house.start("app", "db").await,
        house.start("app", "db").await,
    ];
    let Some(ToControl::Dial { pool, slot, .. }) = house.control.recv().await else {
        panic!("a dial is expected")
    };
    while house.shared.clients.count() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(house.control.try_recv().is_err(), "one dial is enough");
    pool.welcome
        .store(Some(house.shared.interner.intern(reported())));
    pool.dialled.notify_waiters();
    for guest in &mut guests {
        assert_eq!(
            guest.greeting().await.status("server_version"),
            Some("17.1")
        );
    }
    drop(slot);
}

#[tokio::test]
async fn a_server_that_will_never_let_us_in_is_quoted() {
    let mut house = House::unknown("host=127.0.0.1 port=1", TRUST, USERS);
    let mut guest = house.start("app", "db").await;
    let Some(ToControl::Dial { pool, slot, .. }) = house.control.recv().await else {
        panic!("a dial is expected")
    };
    drop(slot);
    let error = DialError {
        sqlstate: SqlState::INVALID_CATALOG_NAME,
        message: "database \"db\" does not exist".to_owned(),
        lasting: true,
    };
    pool.last_error.store(Some(Arc::new(error)));
    pool.dialled.notify_waiters();
    let told = guest.refusal().await;
    assert_eq!(
        (told.sqlstate.as_str(), told.message.as_str()),
        ("3D000", "database \"db\" does not exist")
    );
}

#[tokio::test]
async fn waiting_for_a_first_server_ends_with_query_wait_timeout() {
    let mut house = House::unknown(
        "host=127.0.0.1 port=1",
        "auth_type = trust\nquery_wait_timeout = 0.05",
        USERS,
    );
    let mut guest = house.start("app", "db").await;
    let Some(ToControl::Dial { slot, .. }) = house.control.recv().await else {
        panic!("a dial is expected")
    };
    let refusal = guest.refusal().await;
    assert_eq!(
        (&*refusal.message, &*refusal.sqlstate),
        ("query_wait_timeout", "57P03")
    );
    assert_eq!(house.shared.clients.count(), 0);
    drop(slot);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_gives_its_place_back() {
    let mut house = House::unknown("host=127.0.0.1 port=1", TRUST, USERS);
    let guest = house.start("app", "db").await;
    let Some(ToControl::Dial { slot, .. }) = house.control.recv().await else {
        panic!("a dial is expected")
    };
    assert_eq!(house.shared.clients.count(), 1);
    drop(guest);
    while house.shared.clients.count() > 0 {
        tokio::task::yield_now().await;
    }
    drop(slot);
}

#[tokio::test]
async fn a_cancel_request_goes_to_the_worker_that_its_pid_names() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    let pid = ClientPid::new(1, 77);
    let mut packet = Vec::new();
    wire::write::cancel_request(&mut packet, pid.0, b"secret-of-any-len");
    guest.send(&packet).await;
    let message = loop {
        if let Some(message) = house.shared.workers()[1].take().pop() {
            break message;
        }
        tokio::task::yield_now().await;
    };
    let ToWorker::Cancel {
        pid: asked,
        secret,
        answer,
    } = message
    else {
        panic!("a cancel request is expected")
    };
    assert_eq!((asked, &*secret), (pid, b"secret-of-any-len".as_slice()));
    assert!(answer.send(None).is_ok());
    guest.end().await;
}

#[tokio::test]
async fn a_cancel_request_for_nobody_is_answered_with_nothing() {
    let house = House::open(TRUST, USERS);
    let mut guest = house.knock().await;
    let mut packet = Vec::new();
    wire::write::cancel_request(&mut packet, -1, b"none");
    guest.send(&packet).await;
    guest.end().await;
}

/// The operator at home needs no password; who else comes over the Unix socket does.
#[tokio::test]
async fn the_own_user_opens_the_console_over_the_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!(
        "listen_addr =\nlisten_port = 6432\nauth_type = plain\nunix_socket_dir = {}",
        folder.path().display()
    );
    let config = Config::parse(&format!("[pgbouncer]\n{settings}\n"), Path::new("test.ini"))
        .unwrap()
        .config;
    let listeners = listener::bind(&config.general).unwrap();
    let (shared, _control) = Shared::new(config, CancelKeys::new([1; 16]), [2; 16]);
    let (open_console, mut consoles) = mpsc::unbounded_channel();
    let reception = Reception::new(
        shared,
        Credentials::new(UserList::default()),
        move |client| open_console.send(client).unwrap(),
    );
    let _serving = listeners.serve(&reception).unwrap();

    let path = folder.path().join(".s.PGSQL.6432");
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    stream
        .write_all(&startup_message(PROTOCOL_3_0, &[("user", "pgbouncer")]))
        .await
        .unwrap();
    let client = consoles.recv().await.unwrap();
    assert_eq!(
        (client.privilege, &client.peer),
        (Privilege::Admin, &Address::Unix(path.clone()))
    );

    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    stream
        .write_all(&startup_message(
            PROTOCOL_3_0,
            &[("user", "somebody"), ("database", "pgbouncer")],
        ))
        .await
        .unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), tag::AUTHENTICATION);
    let mut rest = [0; 8];
    stream.read_exact(&mut rest).await.unwrap();
    assert_eq!(rest, [0, 0, 0, 8, 0, 0, 0, 3]);
}
