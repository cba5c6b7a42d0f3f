//! Dialling against scripted servers, and against a real one.

#![allow(clippy::unwrap_used)]

mod dialling;
mod hosts;
mod login;
mod real;

use super::*;
use crate::shared::{Shared, ToControl, ToWorker};
use crate::worker::Mailbox;
use auth::UserList;
use pooling::CancelKeys;
use settings::Config;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use wire::backend::{TransactionStatus, tag};
use wire::startup::{PROTOCOL_3_2, StartupPacket};
use wire::{Header, Report, Severity, write};

/// What a control thread has, with two workers whose mailboxes the test reads.
struct Rig {
    shared: Arc<Shared>,
    credentials: Arc<Credentials>,
    pool: Arc<Pool>,
    control: mpsc::UnboundedReceiver<ToControl>,
    _polls: Vec<mio::Poll>,
}

const WORKERS: usize = 2;

impl Rig {
    /// The database `db` with `keys`, and the user `app`, whose secret in `auth_file` is `secret`.
    fn new(keys: &str, settings: &str, secret: &str) -> Rig {
        let text = format!("[databases]\ndb = {keys}\n[pgbouncer]\n{settings}\n");
        let config = Config::parse(&text, Path::new("test.ini")).unwrap().config;
        let database = config.database("db").unwrap();
        let (shared, control) = Shared::new(config, CancelKeys::new([1; 16]), [2; 16]);
        let polls: Vec<mio::Poll> = (0..WORKERS).map(|_| mio::Poll::new().unwrap()).collect();
        let mailbox = |poll: &mio::Poll| Mailbox::new(poll.registry(), mio::Token(0)).unwrap();
        assert!(
            shared
                .workers
                .set(polls.iter().map(mailbox).collect())
                .is_ok()
        );
        let user = database.forced_user.clone().unwrap_or("app".into());
        let pool = shared
            .pools
            .write()
            .unwrap()
            .open(&shared, &database, &user);
        let credentials = Credentials::new(users(secret));
        Rig {
            shared,
            credentials,
            pool,
            control,
            _polls: polls,
        }
    }

    async fn connect(&self) -> Result<LoggedIn, DialError> {
        connect(&self.shared, &self.credentials, &self.pool).await
    }

    fn mail(&self, worker: usize) -> Vec<ToWorker> {
        self.shared.workers()[worker].take()
    }
}

fn users(secret: &str) -> UserList {
    UserList::load(&format!("\"app\" \"{secret}\"\n")).unwrap()
}

/// A server whose every byte the test decides.
struct Fake {
    listener: TcpListener,
}

impl Fake {
    async fn listen() -> Fake {
        Fake {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    fn keys(&self) -> String {
        format!("host=127.0.0.1 port={}", self.port())
    }

    /// The next connection and its startup packet.
    async fn accept(&self) -> Peer<TcpStream> {
        Peer::begin(self.listener.accept().await.unwrap().0).await
    }

    /// Lets everybody in, for as long as the test runs; the connections stay open.
    async fn welcome_all(&self) {
        let mut kept = Vec::new();
        loop {
            let mut peer = self.accept().await;
            peer.send(welcome).await;
            kept.push(peer);
        }
    }
}

struct Peer<S> {
    stream: S,
    startup: Vec<u8>,
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Peer<S> {
    async fn begin(mut stream: S) -> Peer<S> {
        let mut startup = vec![0; 4];
        stream.read_exact(&mut startup).await.unwrap();
        let total = StartupPacket::peek_len(&startup).unwrap().unwrap();
        startup.resize(total, 0);
        stream.read_exact(&mut startup[4..]).await.unwrap();
        Peer { stream, startup }
    }

    fn packet(&self) -> StartupPacket<'_> {
        StartupPacket::parse(&self.startup).unwrap()
    }

    fn version(&self) -> ProtocolVersion {
        match self.packet() {
            StartupPacket::Startup(startup) => startup.version,
            other => panic!("{other:?}"),
        }
    }

    fn parameter(&self, name: &str) -> Option<String> {
        match self.packet() {
            StartupPacket::Startup(startup) => startup
                .parameter(name.as_bytes())
                .map(|value| String::from_utf8(value.to_vec()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    async fn send(&mut self, compose: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        compose(&mut out);
        self.stream.write_all(&out).await.unwrap();
    }

    async fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; Header::SIZE];
        self.stream.read_exact(&mut head).await.unwrap();
        let header = Header::peek(&head).unwrap().unwrap();
        let mut body = vec![0; header.body()];
        self.stream.read_exact(&mut body).await.unwrap();
        (header.tag, body)
    }

    /// A password message's text.
    async fn password(&mut self) -> String {
        let (tag, body) = self.receive().await;
        assert_eq!(tag, b'p');
        String::from_utf8(body.strip_suffix(&[0]).unwrap().to_vec()).unwrap()
    }

    /// Waits until the other side closes; nothing else may come.
    async fn closed(&mut self) {
        let mut byte = [0];
        assert!(matches!(self.stream.read(&mut byte).await, Ok(0) | Err(_)));
    }
}

fn greeting(out: &mut Vec<u8>) {
    write::parameter_status(out, b"server_version", b"17.1");
    write::parameter_status(out, b"TimeZone", b"UTC");
    write::backend_key_data(out, 42, &[1, 2, 3, 4]);
    write::ready_for_query(out, TransactionStatus::Idle);
}

fn welcome(out: &mut Vec<u8>) {
    write::authentication_ok(out);
    greeting(out);
}

fn error(out: &mut Vec<u8>, sqlstate: SqlState, message: &str) {
    let report = Report {
        severity: Severity::Fatal,
        sqlstate,
        message,
        detail: None,
        hint: None,
    };
    write::error_response(out, &report);
}

fn expect_err(outcome: Result<LoggedIn, DialError>) -> DialError {
    outcome.err().expect("a failure")
}
