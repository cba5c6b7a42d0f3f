//! Console, reload and the operator's commands, on real (idle) workers and without a socket.

mod columns;
mod console;
mod operations;
mod reload;

use super::console_client::{ConsoleClient, Privilege};
use super::credentials::Credentials;
use super::{Control, console as console_part};
use crate::shared::{Address, Pool, Shared, ToWorker};
use crate::start::{Mode, Options, Setup};
use crate::worker::{self, Workers};
use pooling::{CancelKeys, Time};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use wire::{Header, write};

/// A control plane with its files in a temporary folder.
struct Plane {
    control: Arc<Control>,
    folder: tempfile::TempDir,
    workers: Option<Workers>,
}

const USERS: &str = "\"alice\" \"hush-hush\"\n\"boss\" \"hush-hush-too\"\n";

impl Plane {
    /// `ini` is what follows `[pgbouncer]` with the console's users and a user list.
    fn start(ini: &str) -> Plane {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("users.txt"), USERS).expect("writable");
        let config = Plane::write_ini(&folder, ini);
        let setup = Setup::load(&config).unwrap_or_else(|errors| panic!("{errors}"));
        let (shared, _inbox) = Shared::new(setup.loaded.config, CancelKeys::new([1; 16]), [2; 16]);
        let workers = worker::spawn(Arc::clone(&shared), 2).expect("two threads");
        let options = Options {
            config,
            mode: Mode::Foreground { quiet: true },
            user: None,
            verbose: 0,
        };
        let (control, _) = Control::new(shared, Credentials::new(setup.users), options, None);
        Plane {
            control,
            folder,
            workers: Some(workers),
        }
    }

    fn write_ini(folder: &tempfile::TempDir, ini: &str) -> PathBuf {
        let path = folder.path().join("weir.ini");
        let users = folder.path().join("users.txt");
        let head = format!(
            "[pgbouncer]\nreactor = epoll\nunix_socket_dir = /tmp\nauth_file = {}\n",
            users.display()
        );
        std::fs::write(&path, head + ini).expect("writable");
        path
    }

    /// Replaces the file; nobody is told.
    fn rewrite(&self, ini: &str) {
        Plane::write_ini(&self.folder, ini);
    }

    fn pool(&self, database: &str, user: &str) -> Arc<Pool> {
        let shared = &self.control.shared;
        let database = shared.config.load().database(database).expect("configured");
        shared
            .pools
            .write()
            .expect("not poisoned")
            .open(shared, &database, user)
    }

    fn connect(&self, id: u64, privilege: Privilege) -> Console {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let client = ConsoleClient {
            socket: Box::new(theirs),
            leftover: Vec::new(),
            id,
            user: "boss".to_owned(),
            privilege,
            application_name: "tests".to_owned(),
            peer: Address::Unix("/tmp".into()),
            local: Address::Unix("/tmp".into()),
            connected_at: Time(0),
        };
        tokio::spawn(console_part::serve(Arc::clone(&self.control), client));
        Console { stream: ours }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.control.shared.tell_all(|| ToWorker::Stop);
        if let Some(workers) = self.workers.take() {
            workers.join();
        }
    }
}

/// The client's end.
struct Console {
    stream: DuplexStream,
}

/// One message from the console.
#[derive(Debug)]
struct Message {
    tag: u8,
    body: Vec<u8>,
}

impl Console {
    async fn send(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .await
            .expect("the console listens");
    }

    /// Runs a simple query; the answer up to ReadyForQuery.
    async fn query(&mut self, text: &str) -> Vec<Message> {
        let mut out = Vec::new();
        write::query(&mut out, text.as_bytes());
        self.send(&out).await;
        self.answer().await
    }

    /// Everything up to and with ReadyForQuery, or up to the end of the connection.
    async fn answer(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            let is_last = message.tag == b'Z';
            messages.push(message);
            if is_last {
                break;
            }
        }
        messages
    }

    async fn message(&mut self) -> Option<Message> {
        let mut head = [0; Header::SIZE];
        self.stream.read_exact(&mut head).await.ok()?;
        let header = Header::peek(&head).expect("well-formed").expect("whole");
        let mut body = vec![0; header.body()];
        self.stream
            .read_exact(&mut body)
            .await
            .expect("the whole message");
        Some(Message {
            tag: header.tag,
            body,
        })
    }
}

/// The tags of an answer, one character for each message.
fn tags(messages: &[Message]) -> String {
    messages
        .iter()
        .map(|message| char::from(message.tag))
        .collect()
}

/// All bytes of an answer, as far as they are text.
fn text(messages: &[Message]) -> String {
    messages
        .iter()
        .map(|message| String::from_utf8_lossy(&message.body).into_owned())
        .collect()
}

/// The values of the rows, in text.
fn rows(messages: &[Message]) -> Vec<Vec<String>> {
    let rows = messages.iter().filter(|message| message.tag == b'D');
    rows.map(|row| values(&row.body)).collect()
}

fn values(body: &[u8]) -> Vec<String> {
    let mut rest = &body[2..];
    let mut values = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (value, after) = after.split_at(length);
        values.push(String::from_utf8_lossy(value).into_owned());
        rest = after;
    }
    values
}
