//! `auth_query`, against a scripted PostgreSQL that counts what it is asked.

use super::*;
use std::sync::atomic::AtomicUsize;
use tokio::net::TcpListener;
use wire::backend::TransactionStatus;
use wire::frontend;

/// A server that lets everybody in and knows one user.
struct Oracle {
    port: u16,
    connections: Arc<AtomicUsize>,
    questions: Arc<AtomicUsize>,
}

impl Oracle {
    async fn open(secret: Option<&'static str>) -> Oracle {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let oracle = Oracle {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
            questions: Arc::default(),
        };
        let (connections, questions) = (
            Arc::clone(&oracle.connections),
            Arc::clone(&oracle.questions),
        );
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer(stream, secret, Arc::clone(&questions)));
            }
        });
        oracle
    }

    fn counts(&self) -> (usize, usize) {
        (
            self.connections.load(Ordering::Relaxed),
            self.questions.load(Ordering::Relaxed),
        )
    }

    fn house(&self, settings: &str) -> House {
        let settings = format!("auth_type = plain\nauth_user = asker\n{settings}");
        let entry = format!("host=127.0.0.1 port={}", self.port);
        let house = House::unknown(&entry, &settings, "\"asker\" \"\"\n");
        house
            .pool("app")
            .welcome
            .store(Some(house.shared.interner.intern(reported())));
        house
    }
}

async fn answer(stream: TcpStream, secret: Option<&str>, questions: Arc<AtomicUsize>) {
    let mut server = Guest { stream };
    let mut length = [0; 4];
    server.stream.read_exact(&mut length).await.unwrap();
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
    server.stream.read_exact(&mut rest).await.unwrap();
    let mut out = Vec::new();
    wire::write::authentication_ok(&mut out);
    wire::write::ready_for_query(&mut out, TransactionStatus::Idle);
    server.send(&out).await;
    let mut head = [0; Header::SIZE];
    let mut asked = Vec::new();
    while server.stream.read_exact(&mut head).await.is_ok() {
        let header = Header::peek(&head).unwrap().unwrap();
        let mut body = vec![0; header.body()];
        server.stream.read_exact(&mut body).await.unwrap();
        let mut out = Vec::new();
        match header.tag {
            frontend::tag::QUERY => {
                assert!(body.starts_with(b"SET search_path TO pg_catalog"));
                wire::write::command_complete(&mut out, b"SET");
                wire::write::ready_for_query(&mut out, TransactionStatus::Idle);
            }
            frontend::tag::BIND => asked = body,
            frontend::tag::SYNC => {
                questions.fetch_add(1, Ordering::Relaxed);
                wire::write::parse_complete(&mut out);
                wire::write::bind_complete(&mut out);
                if asked.windows(3).any(|part| part == b"app") {
                    wire::write::data_row(
                        &mut out,
                        [Some(b"app".as_slice()), secret.map(str::as_bytes)],
                    );
                }
                wire::write::command_complete(&mut out, b"SELECT 1");
                wire::write::ready_for_query(&mut out, TransactionStatus::Idle);
            }
            _ => {}
        }
        server.send(&out).await;
    }
}

async fn log_in(house: &House, user: &str, password: &str) -> Result<(), Told> {
    let mut guest = house.start(user, "db").await;
    let body = guest.authentication().await;
    assert_eq!(
        Authentication::parse(&body).unwrap(),
        Authentication::CleartextPassword
    );
    let mut out = Vec::new();
    wire::write::password(&mut out, password.as_bytes());
    guest.send(&out).await;
    let mut first = [0];
    guest.stream.peek(&mut first).await.unwrap();
    if first[0] == tag::ERROR_RESPONSE {
        return Err(guest.refusal().await);
    }
    guest.greeting().await;
    Ok(())
}

#[tokio::test]
async fn a_user_is_found_once_and_remembered() {
    let oracle = Oracle::open(Some(PASSWORD)).await;
    let house = oracle.house("");
    for _ in 0..3 {
        log_in(&house, "app", PASSWORD).await.unwrap();
    }
    assert_eq!(oracle.counts(), (1, 1));
    let learnt = house.pool("app").pass_through.load_full().unwrap();
    assert_eq!(learnt.password().unwrap().as_bytes(), PASSWORD.as_bytes());
}

#[tokio::test]
async fn without_a_lifetime_every_log_in_asks_on_the_same_connection() {
    let oracle = Oracle::open(Some(PASSWORD)).await;
    let house = oracle.house("auth_query_cache_ttl = 0");
    for _ in 0..3 {
        log_in(&house, "app", PASSWORD).await.unwrap();
    }
    assert_eq!(oracle.counts(), (1, 3));
    let asker = house.pool("asker").id;
    assert_eq!(
        house.shared.ledger().open_in_pool(asker),
        1,
        "its connection has a place in the ledger"
    );
}

#[tokio::test]
async fn log_ins_that_come_together_share_one_question() {
    let oracle = Oracle::open(Some(PASSWORD)).await;
    let house = oracle.house("");
    let guests = [
        house.start("app", "db").await,
        house.start("app", "db").await,
        house.start("app", "db").await,
    ];
    for mut guest in guests {
        guest.authentication().await;
    }
    assert_eq!(oracle.counts(), (1, 1));
}

#[tokio::test]
async fn who_is_not_found_or_has_no_secret_is_refused_like_a_wrong_password() {
    let oracle = Oracle::open(None).await;
    let house = oracle.house("");
    for user in ["stranger", "stranger", "app"] {
        assert_eq!(
            log_in(&house, user, PASSWORD).await.unwrap_err().sqlstate,
            "28P01"
        );
    }
    assert_eq!(oracle.counts(), (1, 2));
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_refuses_without_details() {
    let house = House::unknown(
        "host=127.0.0.1 port=1",
        "auth_type = plain\nauth_user = asker",
        "",
    );
    let told = house.start("app", "db").await.refusal().await;
    assert_eq!(
        (told.sqlstate.as_str(), told.message.as_str()),
        ("08006", "auth_query failed")
    );
}
