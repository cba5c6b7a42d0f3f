//! One log-in, message by message.

use super::*;
use auth::Secret;
use auth::scram::{self, Nonce, ScramVerifier};
use tokio::join;
use wire::backend::Column;

#[tokio::test]
async fn trust_takes_what_the_server_reports_and_asks_for_what_the_database_wants() {
    let fake = Fake::listen().await;
    let keys = format!(
        "{} dbname=real timezone=Europe/Berlin application_name=weir",
        fake.keys()
    );
    let rig = Rig::new(&keys, "", "x");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        assert_eq!(peer.version(), PROTOCOL_3_2);
        assert_eq!(peer.parameter("user").as_deref(), Some("app"));
        assert_eq!(peer.parameter("database").as_deref(), Some("real"));
        assert_eq!(peer.parameter("timezone").as_deref(), Some("Europe/Berlin"));
        assert_eq!(peer.parameter("application_name").as_deref(), Some("weir"));
        assert_eq!(peer.parameter("options"), None);
        peer.send(welcome).await;
        peer.send(|out| write::parameter_status(out, b"TimeZone", b"GMT"))
            .await;
    });
    let logged_in = outcome.unwrap();
    assert_eq!(logged_in.parameters.value("server_version"), Some("17.1"));
    assert_eq!(
        (logged_in.pid, &*logged_in.key),
        (42, [1, 2, 3, 4].as_slice())
    );
    assert_eq!(
        *logged_in.address,
        Address::Tcp(([127, 0, 0, 1], fake.port()).into())
    );
    assert!(matches!(logged_in.local, Address::Tcp(local) if local.port() != fake.port()));
}

#[tokio::test]
async fn messages_may_be_cut_anywhere() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "x");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.stream.set_nodelay(true).unwrap();
        let mut bytes = Vec::new();
        let notice = Report {
            severity: Severity::Notice,
            sqlstate: SqlState::WARNING,
            message: "hi",
            detail: None,
            hint: None,
        };
        write::notice_response(&mut bytes, &notice);
        welcome(&mut bytes);
        for byte in bytes {
            peer.stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(outcome.unwrap().pid, 42);
}

#[tokio::test]
async fn cleartext_and_md5_answer_with_the_secret() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(write::authentication_cleartext).await;
        assert_eq!(peer.password().await, "secret");
        peer.send(welcome).await;
    });
    assert!(outcome.is_ok());
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(|out| write::authentication_md5(out, [9, 8, 7, 6]))
            .await;
        let expected = auth::md5::response(&Secret::parse("secret"), "app", [9, 8, 7, 6]);
        assert_eq!(Some(peer.password().await), expected);
        peer.send(welcome).await;
    });
    assert!(outcome.is_ok());
}

#[tokio::test]
async fn a_forced_user_uses_the_password_of_the_database() {
    let fake = Fake::listen().await;
    let rig = Rig::new(
        &format!("{} user=owner password=theirs", fake.keys()),
        "",
        "secret",
    );
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        assert_eq!(peer.parameter("user").as_deref(), Some("owner"));
        peer.send(write::authentication_cleartext).await;
        assert_eq!(peer.password().await, "theirs");
        peer.send(welcome).await;
    });
    assert!(outcome.is_ok());
}

/// The server's part of SCRAM up to its last message, which is returned unsent with the keys of the client.
async fn scram_server(
    peer: &mut Peer<TcpStream>,
    verifier: &ScramVerifier,
) -> (Vec<u8>, auth::scram::ScramKeys) {
    peer.send(|out| write::authentication_sasl(out, &[b"SCRAM-SHA-256-PLUS", b"SCRAM-SHA-256"]))
        .await;
    let (_, body) = peer.receive().await;
    let client_first = body
        .strip_prefix(b"SCRAM-SHA-256\0")
        .unwrap()
        .get(4..)
        .unwrap();
    let server = scram::Server::new(verifier.clone(), Nonce::random(&mut rand::rng()));
    let (server_first, awaiting) = server.client_first(client_first).unwrap();
    peer.send(|out| write::authentication_sasl_continue(out, &server_first))
        .await;
    let (_, client_final) = peer.receive().await;
    let accepted = awaiting.client_final(&client_final).unwrap();
    (accepted.server_final, accepted.keys)
}

#[tokio::test]
async fn scram_derives_once_and_keys_learnt_from_a_client_serve_too() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let verifier = ScramVerifier::from_password(b"secret", b"0123456789abcdef", 4096);
    for derived_before in [false, true] {
        let known = rig
            .credentials
            .derived(rig.pool.id, &auth::Password::new("secret"));
        assert_eq!(known.is_some(), derived_before);
        let (outcome, ()) = join!(rig.connect(), async {
            let mut peer = fake.accept().await;
            let (server_final, keys) = scram_server(&mut peer, &verifier).await;
            rig.pool
                .pass_through
                .store(Some(Arc::new(Secret::ScramKeys(keys))));
            peer.send(|out| write::authentication_sasl_final(out, &server_final))
                .await;
            peer.send(welcome).await;
        });
        assert!(outcome.is_ok());
    }
    rig.credentials.users.store(Arc::default());
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        let (server_final, _) = scram_server(&mut peer, &verifier).await;
        peer.send(|out| write::authentication_sasl_final(out, &server_final))
            .await;
        peer.send(welcome).await;
    });
    assert!(outcome.is_ok());
}

#[tokio::test]
async fn a_server_that_does_not_prove_itself_is_refused() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let verifier = ScramVerifier::from_password(b"secret", b"0123456789abcdef", 4096);
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        scram_server(&mut peer, &verifier).await;
        peer.send(welcome).await;
    });
    assert!(expect_err(outcome).message.contains("unexpected message"));
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        scram_server(&mut peer, &verifier).await;
        peer.send(|out| {
            write::authentication_sasl_final(out, b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
        })
        .await;
        peer.closed().await;
    });
    let error = expect_err(outcome);
    assert!(
        error.lasting && error.message.contains("signature is wrong"),
        "{error:?}"
    );
}

#[tokio::test]
async fn too_many_iterations_are_refused() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(|out| write::authentication_sasl(out, &[b"SCRAM-SHA-256"]))
            .await;
        let (_, body) = peer.receive().await;
        let text = String::from_utf8_lossy(&body).into_owned();
        let nonce = text.rsplit_once("r=").unwrap().1;
        let server_first = format!("r={nonce}xyz,s=c2FsdHNhbHQ=,i=2000000000");
        peer.send(|out| write::authentication_sasl_continue(out, server_first.as_bytes()))
            .await;
        peer.closed().await;
    });
    assert!(expect_err(outcome).message.contains("2000000000"));
}

#[tokio::test]
async fn a_missing_secret_is_lasting_and_names_the_method() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "md5d51c9a7e9353746a6020f9602d452929");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(|out| write::authentication_sasl(out, &[b"SCRAM-SHA-256"]))
            .await;
        peer.closed().await;
    });
    let error = expect_err(outcome);
    assert!(
        error.lasting && error.message.contains("SCRAM-SHA-256"),
        "{error:?}"
    );
    assert_eq!(error.sqlstate, SqlState::INVALID_AUTHORIZATION);
}

/// What a server may answer to the startup packet, and what has to come of it.
async fn refused_with(answer: &[u8]) -> DialError {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let script = async {
        loop {
            let mut peer = fake.accept().await;
            // The pooler may have closed before it has read all.
            let _ = peer.stream.write_all(answer).await;
        }
    };
    tokio::select! {
        outcome = rig.connect() => expect_err(outcome),
        () = script => unreachable!(),
    }
}

#[tokio::test]
async fn the_servers_own_words_reach_us() {
    let mut answer = Vec::new();
    error(
        &mut answer,
        SqlState::INVALID_PASSWORD,
        "password authentication failed",
    );
    let refused = refused_with(&answer).await;
    assert_eq!(
        (refused.sqlstate, refused.lasting),
        (SqlState::INVALID_PASSWORD, true)
    );
    assert_eq!(refused.message, "password authentication failed");

    answer.clear();
    error(
        &mut answer,
        SqlState::TOO_MANY_CONNECTIONS,
        "sorry, too many clients already",
    );
    let refused = refused_with(&answer).await;
    assert_eq!(
        (refused.sqlstate, refused.lasting),
        (SqlState::TOO_MANY_CONNECTIONS, false)
    );

    answer.clear();
    error(
        &mut answer,
        SqlState::INVALID_CATALOG_NAME,
        "database \"db\" does not exist",
    );
    assert!(refused_with(&answer).await.lasting);
}

#[tokio::test]
async fn errors_may_lack_everything() {
    let no_fields = refused_with(b"E\0\0\0\x05\0").await;
    assert_eq!(no_fields.sqlstate, SqlState::CONNECTION_REJECTED);
    let no_body = refused_with(b"E\0\0\0\x04").await;
    assert_eq!(no_body.sqlstate, SqlState::CONNECTION_REJECTED);
    let bare = refused_with(b"Ecould not fork new process for connection: out of memory\n\0").await;
    assert_eq!(
        bare.message,
        "could not fork new process for connection: out of memory"
    );
}

#[tokio::test]
async fn garbage_is_an_error() {
    for answer in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
        b"R\xff\xff\xff\xff",
        b"R\0\0\0\0",
        b"R\0\x0f\xff\xff",
        b"R\0\0\0\x06\0\0",
        b"Z\0\0\0\x05I",
        b"E\xff\xff\xff\xff\xff\xff\xff\xff",
        b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05T",
        b"R\0\0\0\x08\0\0\0\0K\0\0\0\x08\0\0\0\0",
        b"R\0\0\0\x08\0\0\0\0D\0\0\0\x06\0\0",
        b"R\0\0\0\x08\0\0\0\x07",
        b"R\0\0\0\x0a\0\0\0\x0a\0\0",
        b"v\0\0\0\x0c\0\x04\0\0\0\0\0\0",
        b"v\0\0\0\x0c\0\x03\0\0\xff\xff\xff\xff",
        b"R\0\0\0\x08\0\0\0\0S\0\0\0\x08abc",
        b"R\0\0",
        b"",
    ] {
        let refused = refused_with(answer).await;
        assert!(!refused.message.is_empty(), "{answer:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a_server_cannot_make_us_hold_much() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let endless = async {
        let mut peer = fake.accept().await;
        peer.send(write::authentication_ok).await;
        let mut status = Vec::new();
        write::parameter_status(&mut status, b"TimeZone", &[b'x'; 60_000]);
        while peer.stream.write_all(&status).await.is_ok() {}
    };
    let (outcome, ()) = join!(rig.connect(), endless);
    assert!(
        expect_err(outcome)
            .message
            .contains("more than a log-in can need")
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_after_server_connect_timeout() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "server_connect_timeout = 7", "secret");
    let start = Instant::now();
    let (outcome, _peer) = join!(rig.connect(), fake.accept());
    let error = expect_err(outcome);
    assert!(error.message.contains("server_connect_timeout") && !error.lasting);
    let took = start.elapsed();
    assert!(
        took >= Duration::from_secs(7) && took < Duration::from_secs(8),
        "{took:?}"
    );
}

#[tokio::test]
async fn an_older_server_negotiates_and_keys_may_be_long() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(|out| write::negotiate_protocol_version(out, PROTOCOL_3_0, &[]))
            .await;
        peer.send(welcome).await;
    });
    assert!(outcome.is_ok());
    // Who negotiates is asked for what it said.
    let long = [7; 256];
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        assert_eq!(peer.version(), PROTOCOL_3_0);
        peer.send(|out| {
            write::authentication_ok(out);
            write::backend_key_data(out, -5, &long);
            write::ready_for_query(out, TransactionStatus::Idle);
        })
        .await;
    });
    let logged_in = outcome.unwrap();
    assert_eq!((logged_in.pid, &*logged_in.key), (-5, long.as_slice()));
}

#[tokio::test]
async fn a_server_that_cannot_negotiate_is_asked_for_3_0_and_remembered() {
    for says_why in [true, false] {
        let fake = Fake::listen().await;
        let rig = Rig::new(&fake.keys(), "", "secret");
        let (outcome, ()) = join!(rig.connect(), async {
            let mut peer = fake.accept().await;
            assert_eq!(peer.version(), PROTOCOL_3_2);
            if says_why {
                peer.send(|out| {
                    error(
                        out,
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "unsupported frontend protocol 3.2",
                    )
                })
                .await;
            }
            drop(peer);
            let mut peer = fake.accept().await;
            assert_eq!(peer.version(), PROTOCOL_3_0);
            peer.send(welcome).await;
        });
        assert!(outcome.is_ok());
        let (outcome, ()) = join!(rig.connect(), async {
            let mut peer = fake.accept().await;
            assert_eq!(peer.version(), PROTOCOL_3_0);
            peer.send(welcome).await;
        });
        assert!(outcome.is_ok());
    }
}

#[tokio::test]
async fn what_connect_query_sets_belongs_to_the_connection() {
    let fake = Fake::listen().await;
    let rig = Rig::new(
        &format!(
            "{} connect_query='SET TimeZone TO GMT; SELECT much'",
            fake.keys()
        ),
        "",
        "secret",
    );
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(welcome).await;
        assert_eq!(
            peer.receive().await,
            (b'Q', b"SET TimeZone TO GMT; SELECT much\0".to_vec())
        );
        peer.send(|out| write::parameter_status(out, b"TimeZone", b"GMT"))
            .await;
        peer.send(|out| write::command_complete(out, b"SET")).await;
        peer.send(|out| write::row_description(out, &[Column::new(b"much", 25, -1)]))
            .await;
        let large = vec![b'x'; 3_000_000];
        peer.send(|out| write::data_row(out, [Some(large.as_slice())]))
            .await;
        peer.send(|out| error(out, SqlState::SYNTAX_ERROR, "and then it failed"))
            .await;
        peer.send(|out| write::ready_for_query(out, TransactionStatus::Idle))
            .await;
    });
    assert_eq!(outcome.unwrap().parameters.value("TimeZone"), Some("GMT"));

    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(welcome).await;
        peer.receive().await;
        peer.send(|out| write::ready_for_query(out, TransactionStatus::InTransaction))
            .await;
        peer.closed().await;
    });
    assert!(expect_err(outcome).message.contains("transaction"));
}

#[tokio::test]
async fn what_comes_behind_the_log_in_is_kept() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "secret");
    let mut notification = Vec::new();
    write::notification_response(&mut notification, 1, b"channel", b"");
    let (outcome, ()) = join!(rig.connect(), async {
        let mut peer = fake.accept().await;
        peer.send(|out| {
            welcome(out);
            out.extend_from_slice(&notification);
        })
        .await;
    });
    assert_eq!(outcome.unwrap().leftover, notification);
    assert_eq!(tag::NOTIFICATION_RESPONSE, notification[0]);
}
