//! Log-ins over real sockets: the listener and the log-in as they are, scripted clients, and workers whose mailboxes the test reads.

#![allow(clippy::unwrap_used)]

mod auth_query;
mod authentication;
mod limits;
mod startup;

use super::*;
use crate::control::listener;
use crate::shared::{ToControl, ToWorker};
use crate::worker::Mailbox;
use auth::UserList;
use pooling::{CancelKeys, Parameters};
use std::net::SocketAddr;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use wire::Header;
use wire::backend::{Authentication, BackendKeyData, ErrorFields, ParameterStatus, field, tag};
use wire::startup::{PROTOCOL_3_0, PROTOCOL_3_2, ProtocolVersion};

const WORKERS: usize = 2;
const PASSWORD: &str = "correct horse";

/// A control thread's part that lets clients in, and what surrounds it.
struct House {
    reception: Arc<Reception>,
    shared: Arc<Shared>,
    control: mpsc::UnboundedReceiver<ToControl>,
    consoles: mpsc::UnboundedReceiver<ConsoleClient>,
    address: SocketAddr,
    _serving: listener::Serving,
    _polls: Vec<mio::Poll>,
}

impl House {
    /// With the database `db`, whose server is known to report a few parameters, and the users of `list`.
    fn open(settings: &str, list: &str) -> House {
        let house = House::unknown("host=127.0.0.1 port=1", settings, list);
        house
            .pool("app")
            .welcome
            .store(Some(house.shared.interner.intern(reported())));
        house
    }

    /// With the database `db = entry`, of which nothing has been seen yet.
    fn unknown(entry: &str, settings: &str, list: &str) -> House {
        let text = format!(
            "[databases]\ndb = {entry}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = 0\nunix_socket_dir =\n{settings}\n"
        );
        let config = Config::parse(&text, Path::new("test.ini")).unwrap().config;
        let listeners = listener::bind(&config.general).unwrap();
        let address = listeners.tcp_addresses()[0];
        let (shared, control) = Shared::new(config, CancelKeys::new([1; 16]), [2; 16]);
        let polls: Vec<mio::Poll> = (0..WORKERS).map(|_| mio::Poll::new().unwrap()).collect();
        let mailbox = |poll: &mio::Poll| Mailbox::new(poll.registry(), mio::Token(0)).unwrap();
        assert!(
            shared
                .workers
                .set(polls.iter().map(mailbox).collect())
                .is_ok()
        );
        let (open_console, consoles) = mpsc::unbounded_channel();
        let credentials = Credentials::new(UserList::load(list).unwrap());
        let reception = Reception::new(Arc::clone(&shared), credentials, move |client| {
            open_console.send(client).unwrap()
        });
        let serving = listeners.serve(&reception).unwrap();
        House {
            reception,
            shared,
            control,
            consoles,
            address,
            _serving: serving,
            _polls: polls,
        }
    }

    fn pool(&self, user: &str) -> Arc<Pool> {
        let database = self.shared.config.load().database("db").unwrap();
        open_pool(&self.shared, &database, user)
    }

    async fn knock(&self) -> Guest {
        Guest {
            stream: TcpStream::connect(self.address).await.unwrap(),
        }
    }

    /// A connection that has sent a StartupMessage.
    async fn start(&self, user: &str, database: &str) -> Guest {
        let mut guest = self.knock().await;
        guest
            .send(&startup_message(
                PROTOCOL_3_0,
                &[("user", user), ("database", database)],
            ))
            .await;
        guest
    }

    /// The clients that the workers have been given.
    fn clients(&self) -> Vec<(usize, Box<NewClient>)> {
        let mut clients = Vec::new();
        for (worker, mailbox) in self.shared.workers().iter().enumerate() {
            for message in mailbox.take() {
                let ToWorker::Client(client) = message else {
                    panic!("only clients are expected")
                };
                clients.push((worker, client));
            }
        }
        clients
    }
}

fn reported() -> Parameters {
    Parameters::reported([
        ("server_version", "17.1"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("TimeZone", "UTC"),
        ("application_name", ""),
    ])
}

fn startup_message(version: ProtocolVersion, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write::startup(
        &mut out,
        version,
        parameters
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes())),
    );
    out
}

/// A client whose every byte the test decides.
struct Guest {
    stream: TcpStream,
}

#[derive(Debug, PartialEq, Eq)]
struct Told {
    sqlstate: String,
    message: String,
}

/// What a client has learnt from its greeting.
struct Welcomed {
    statuses: Vec<(String, String)>,
    pid: i32,
    key: Vec<u8>,
}

impl Welcomed {
    fn status(&self, name: &str) -> Option<&str> {
        self.statuses
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Guest {
    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn message(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; Header::SIZE];
        self.stream.read_exact(&mut head).await.unwrap();
        let header = Header::peek(&head).unwrap().unwrap();
        let mut body = vec![0; header.body()];
        self.stream.read_exact(&mut body).await.unwrap();
        (header.tag, body)
    }

    /// The end of the connection, and nothing before it.
    async fn end(&mut self) {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
    }

    /// A fatal error, and the end of the connection.
    async fn refusal(&mut self) -> Told {
        let (tag, body) = self.message().await;
        assert_eq!(tag, tag::ERROR_RESPONSE);
        let fields = ErrorFields::parse(&body).unwrap();
        let text = |code| String::from_utf8(fields.get(code).unwrap().to_vec()).unwrap();
        assert_eq!(text(field::SEVERITY), "FATAL");
        let told = Told {
            sqlstate: text(field::SQLSTATE),
            message: text(field::MESSAGE),
        };
        self.end().await;
        told
    }

    async fn authentication(&mut self) -> Vec<u8> {
        let (tag, body) = self.message().await;
        assert_eq!(tag, tag::AUTHENTICATION);
        body
    }

    /// Everything from AuthenticationOk to ReadyForQuery.
    async fn greeting(&mut self) -> Welcomed {
        let body = self.authentication().await;
        assert_eq!(Authentication::parse(&body).unwrap(), Authentication::Ok);
        let mut welcomed = Welcomed {
            statuses: Vec::new(),
            pid: 0,
            key: Vec::new(),
        };
        loop {
            let (tag, body) = self.message().await;
            match tag {
                tag::PARAMETER_STATUS => {
                    let status = ParameterStatus::parse(&body).unwrap();
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    welcomed
                        .statuses
                        .push((text(status.name), text(status.value)));
                }
                tag::BACKEND_KEY_DATA => {
                    let data = BackendKeyData::parse(&body).unwrap();
                    (welcomed.pid, welcomed.key) = (data.pid, data.key.to_vec());
                }
                tag::READY_FOR_QUERY => {
                    assert_eq!(body, b"I");
                    return welcomed;
                }
                other => panic!("unexpected message {:?}", char::from(other)),
            }
        }
    }
}
