//! A pooler of the lab's own: the same pgbouncer.ini for whichever program it is.

use super::door::Setup;
use super::{DATABASE, Error, ROLE, SCRAM_PASSWORD, SCRAM_ROLE};
use crate::account::Account;
use crate::driver::Endpoint;
use crate::postgres::{self, Memory, Server};
use crate::runtime::PAUSE;
use crate::{launcher, port};
use nix::sys::signal::Signal;
use std::fmt::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};

const PATIENCE: Duration = Duration::from_secs(20);
const PORT_TRIES: usize = 5;

/// A pooler's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    Weir(PathBuf),
    PgBouncer(PathBuf),
}

/// How clients log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    Trust,
    Scram,
}

/// Which idle server connection is used next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    LastUsedFirst,
    RoundRobin,
}

impl Program {
    pub fn path(&self) -> &Path {
        match self {
            Program::Weir(path) | Program::PgBouncer(path) => path,
        }
    }

    /// "PgBouncer 1.25.0"
    pub fn version(&self) -> String {
        let said = Command::new(self.path()).arg("--version").output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
        let first = said
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        format!("{first}, in transaction mode")
    }
}

/// A running pooler; dropped, it is gone.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Pooler {
    /// Starts `program` in front of `server` and waits until it listens.
    ///
    /// # Errors
    /// [`Error::Pooler`] with its log.
    pub fn start(program: &Program, server: &Server, setup: &Setup) -> Result<Self, Error> {
        let mut tries = 0..PORT_TRIES;
        loop {
            tries.next();
            match Self::start_once(program, server, setup) {
                // Somebody else took the port between choosing and binding it.
                Err(Error::Pooler { log, .. })
                    if log.to_lowercase().contains("address already in use")
                        && !tries.is_empty() => {}
                started => return started,
            }
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn memory(&self) -> Memory {
        postgres::memory(self.child.id())
    }

    /// How long clients have waited for a server connection, for each transaction so far, as its console tells.
    ///
    /// # Errors
    /// [`Error::Watch`].
    pub async fn mean_wait_ms(&self) -> Result<f64, Error> {
        let config = Endpoint::local(self.port, ROLE, "pgbouncer").config();
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        let messages = client.simple_query("SHOW STATS").await?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) if row.get("database") == Some(DATABASE) => Some(row),
            _ => None,
        });
        let number = |row: &SimpleQueryRow, name: &str| {
            row.get(name).and_then(|text| text.parse::<f64>().ok())
        };
        let mean = |row: &SimpleQueryRow| {
            Some(number(row, "total_wait_time")? / number(row, "total_xact_count")?)
        };
        Ok(rows.filter_map(mean).sum::<f64>() / 1_000.0)
    }

    fn start_once(program: &Program, server: &Server, setup: &Setup) -> Result<Self, Error> {
        let account = Account::choose().map_err(postgres::Error::from)?;
        let folder = tempfile::Builder::new()
            .prefix("weir-lab-")
            .tempdir_in(account.temporary_folder())
            .map_err(Error::io("no temporary folder"))?;
        let cannot_write = || Error::io(format!("cannot write to {}", folder.path().display()));
        account.give(folder.path()).map_err(cannot_write())?;
        let port = port::free().map_err(Error::io("no free port"))?;
        let configuration = configuration(server, setup, folder.path(), port, &account);
        let ini = folder.path().join("pooler.ini");
        std::fs::write(folder.path().join("userlist.txt"), users()).map_err(cannot_write())?;
        std::fs::write(&ini, configuration).map_err(cannot_write())?;
        let mut command = Command::new(program.path());
        command.arg(&ini).current_dir(folder.path());
        let child =
            launcher::spawn_logging(command, &folder.path().join("log"), Signal::SIGKILL).map_err(
                Error::io(format!("cannot run {}", program.path().display())),
            )?;
        let mut pooler = Self {
            child,
            folder,
            port,
        };
        match pooler.listens_in_time() {
            true => Ok(pooler),
            false => Err(Error::Pooler {
                program: program.path().display().to_string(),
                log: pooler.log(),
            }),
        }
    }

    fn listens_in_time(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        false
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // Nobody's work is lost: the clients are the lab's own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn users() -> String {
    format!("\"{ROLE}\" \"\"\n\"{SCRAM_ROLE}\" \"{SCRAM_PASSWORD}\"\n")
}

fn configuration(
    server: &Server,
    setup: &Setup,
    folder: &Path,
    port: u16,
    account: &Account,
) -> String {
    let folder = folder.display();
    let auth_type = match setup.authentication {
        Authentication::Trust => "trust",
        Authentication::Scram => "scram-sha-256",
    };
    let settings = [
        ("listen_addr", "127.0.0.1".to_owned()),
        ("listen_port", port.to_string()),
        ("unix_socket_dir", String::new()),
        ("auth_type", auth_type.into()),
        ("auth_file", format!("{folder}/userlist.txt")),
        ("admin_users", ROLE.into()),
        ("pool_mode", "transaction".into()),
        ("default_pool_size", setup.pool_size.to_string()),
        ("max_client_conn", setup.clients.to_string()),
        ("server_lifetime", setup.lifetime_s.to_string()),
        (
            "server_round_robin",
            u8::from(setup.reuse == Reuse::RoundRobin).to_string(),
        ),
        // A measurement that is slow should be slow, not fail.
        ("query_wait_timeout", "0".into()),
        ("client_login_timeout", "0".into()),
        ("listen_backlog", "4096".into()),
        ("log_connections", "0".into()),
        ("log_disconnections", "0".into()),
    ];
    let mut text = format!(
        "[databases]\n{DATABASE} = host=127.0.0.1 port={}\n[pgbouncer]\n",
        server.port()
    );
    for (name, value) in settings {
        let _ = writeln!(text, "{name} = {value}");
    }
    if let Some(user) = account.name() {
        let _ = writeln!(text, "user = {user}");
    }
    text
}
