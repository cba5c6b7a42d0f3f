//! Several servers, Unix sockets, and names.

use super::*;
use tokio::join;
use tokio::net::UnixListener;

/// A port of 127.0.0.1 that nobody listens on: held by a socket without `listen`, so that nobody else gets it.
fn closed_port() -> (socket2::Socket, u16) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket, port)
}

fn port_of(logged_in: &LoggedIn) -> u16 {
    match &*logged_in.address {
        Address::Tcp(address) => address.port(),
        Address::Unix(_) => 0,
    }
}

#[tokio::test]
async fn hosts_are_used_in_turn_and_dead_ones_last() {
    let (a, b) = (Fake::listen().await, Fake::listen().await);
    let (_dead, dead) = closed_port();
    let keys = format!(
        "host=127.0.0.1,127.0.0.1,127.0.0.1 port={dead},{},{}",
        a.port(),
        b.port()
    );
    let rig = Rig::new(&keys, "", "x");
    let dials = async {
        let mut ports = Vec::new();
        for _ in 0..6 {
            ports.push(port_of(&rig.connect().await.unwrap()));
        }
        ports
    };
    let ports = tokio::select! {
        ports = dials => ports,
        () = a.welcome_all() => unreachable!(),
        () = b.welcome_all() => unreachable!(),
    };
    // The dead one's turn falls to the next.
    assert_eq!(
        ports,
        [a.port(), a.port(), b.port(), a.port(), a.port(), b.port()]
    );
}

#[tokio::test]
async fn without_load_balancing_one_host_serves_until_it_fails() {
    let (a, b) = (Fake::listen().await, Fake::listen().await);
    let keys = format!(
        "host=127.0.0.1,127.0.0.1 port={},{} load_balance_hosts=disable",
        a.port(),
        b.port()
    );
    let rig = Rig::new(&keys, "server_login_retry = 0", "x");
    let (port_a, port_b) = (a.port(), b.port());
    let from_both = async {
        let ports =
            [rig.connect().await.unwrap(), rig.connect().await.unwrap()].map(|it| port_of(&it));
        assert_eq!(ports, [port_a, port_a]);
    };
    tokio::select! {
        () = from_both => {},
        () = a.welcome_all() => unreachable!(),
        () = b.welcome_all() => unreachable!(),
    }
    drop(a);
    let from_b = async {
        assert_eq!(port_of(&rig.connect().await.unwrap()), port_b);
    };
    tokio::select! {
        () = from_b => {},
        () = b.welcome_all() => unreachable!(),
    }
    // It is back, but the other one is not left for that.
    let _a = TcpListener::bind(("127.0.0.1", port_a)).await.unwrap();
    let from_b = async {
        assert_eq!(port_of(&rig.connect().await.unwrap()), port_b);
    };
    tokio::select! {
        () = from_b => {},
        () = b.welcome_all() => unreachable!(),
    }
}

#[tokio::test]
async fn a_server_that_is_starting_leaves_its_turn_but_its_words_count() {
    let fake = Fake::listen().await;
    let (_dead, dead) = closed_port();
    let rig = Rig::new(
        &format!("host=127.0.0.1,127.0.0.1 port={},{dead}", fake.port()),
        "",
        "x",
    );
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(|out| {
            error(
                out,
                SqlState::CANNOT_CONNECT_NOW,
                "the database system is starting up",
            )
        })
        .await;
    });
    let error = expect_err(outcome);
    assert_eq!(
        (error.sqlstate, error.lasting),
        (SqlState::CANNOT_CONNECT_NOW, false)
    );
    assert_eq!(error.message, "the database system is starting up");
}

#[tokio::test]
async fn unix_sockets_by_folder_and_by_abstract_name() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = UnixListener::bind(folder.path().join(".s.PGSQL.5433")).unwrap();
    let rig = Rig::new(
        &format!("host={} port=5433", folder.path().display()),
        "",
        "x",
    );
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = Peer::begin(in_folder.accept().await.unwrap().0).await;
        peer.send(welcome).await;
    });
    assert_eq!(
        *outcome.unwrap().address,
        Address::Unix(folder.path().join(".s.PGSQL.5433"))
    );

    let name = format!("weir-test-{}", std::process::id());
    let nameless = UnixListener::bind(format!("\0{name}/.s.PGSQL.5433")).unwrap();
    let rig = Rig::new(&format!("host=@{name} port=5433"), "", "x");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = Peer::begin(nameless.accept().await.unwrap().0).await;
        peer.send(welcome).await;
    });
    assert_eq!(
        *outcome.unwrap().address,
        Address::Unix(format!("@{name}/.s.PGSQL.5433").into())
    );
}

#[tokio::test]
async fn names_are_resolved_and_failures_remembered() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&format!("host=localhost port={}", fake.port()), "", "x");
    let (outcome, ()) = join!(rig.connect(), async {
        fake.accept().await.send(welcome).await;
    });
    assert!(outcome.is_ok());
    let known = rig.shared.network.resolver.known();
    assert!(
        known
            .iter()
            .any(|(name, addresses)| name == "localhost" && !addresses.is_empty())
    );

    let rig = Rig::new("host=no-such-host.invalid", "", "x");
    let error = expect_err(rig.connect().await);
    assert!(
        error.message.contains("no-such-host.invalid") && !error.lasting,
        "{error:?}"
    );
    assert_eq!(error.sqlstate, SqlState::SQLCLIENT_UNABLE);
    assert_eq!(expect_err(rig.connect().await).message, error.message);
}

#[tokio::test]
async fn a_refused_connection_names_the_address() {
    let (_dead, dead) = closed_port();
    let rig = Rig::new(&format!("host=127.0.0.1 port={dead}"), "", "x");
    let error = expect_err(rig.connect().await);
    assert!(
        error.message.contains(&format!("127.0.0.1:{dead}")),
        "{error:?}"
    );
}

#[tokio::test]
async fn sockets_have_the_options_of_the_configuration() {
    let fake = Fake::listen().await;
    let settings = "tcp_keepidle = 33\ntcp_keepintvl = 7\ntcp_keepcnt = 5\ntcp_user_timeout = 9000\ntcp_socket_buffer = 20000";
    let rig = Rig::new(&fake.keys(), settings, "x");
    let (outcome, ()) = join!(rig.connect(), async {
        fake.accept().await.send(welcome).await;
    });
    let socket = socket2::Socket::from(outcome.unwrap().stream.into_socket().unwrap());
    assert!(
        socket.tcp_nodelay().unwrap()
            && socket.keepalive().unwrap()
            && socket.nonblocking().unwrap()
    );
    assert_eq!(
        socket.tcp_keepalive_time().unwrap(),
        Duration::from_secs(33)
    );
    assert_eq!(
        socket.tcp_keepalive_interval().unwrap(),
        Duration::from_secs(7)
    );
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 5);
    assert_eq!(
        socket.tcp_user_timeout().unwrap(),
        Some(Duration::from_secs(9))
    );
    // Linux doubles what it is asked for.
    assert!((20_000..=40_000).contains(&socket.recv_buffer_size().unwrap()));
}
