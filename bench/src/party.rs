//! The parties of a comparison: how each is configured, started, asked whether it is up, and stopped.
//!
//! Every party logs in to PostgreSQL as a user of its own, so that `pg_stat_activity` tells whose connections are whose.

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::account::Account;
use crate::postgres::{DATABASE, Postgres};
use crate::scram;
use crate::session::Session;

pub const POOL: u32 = 20;
pub const PASSWORD: &str = "correct horse battery staple";
/// Below the range of ephemeral ports, which the generators use up.
const FIRST_PORT: u16 = 21401;
const START_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reactor {
    IoUring,
    Epoll,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Direct,
    Haproxy,
    PgBouncer,
    /// PgBouncer with `pkt_buf = 65536`.
    PgBouncerBigBuffer,
    Weir(Reactor, u32),
}

pub const WEIR_IO_URING: Kind = Kind::Weir(Reactor::IoUring, 1);
pub const WEIR_EPOLL: Kind = Kind::Weir(Reactor::Epoll, 1);
/// The poolers of most rows, Weir on one worker as PgBouncer has one thread.
pub const POOLERS: [Kind; 3] = [Kind::PgBouncer, WEIR_IO_URING, WEIR_EPOLL];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Auth {
    Trust,
    Scram,
}

impl fmt::Display for Auth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => out.write_str("direct"),
            Self::Haproxy => out.write_str("haproxy"),
            Self::PgBouncer => out.write_str("pgbouncer"),
            Self::PgBouncerBigBuffer => out.write_str("pgbouncer, pkt_buf 64 KiB"),
            Self::Weir(reactor, workers) => {
                let reactor = match reactor {
                    Reactor::IoUring => "io_uring",
                    Reactor::Epoll => "epoll",
                };
                write!(out, "weir {reactor}")?;
                if *workers == 1 {
                    Ok(())
                } else {
                    write!(out, ", {workers} workers")
                }
            }
        }
    }
}

/// Where the programs are.
pub struct Programs {
    pub haproxy: Option<PathBuf>,
    pub pgbouncer: Option<PathBuf>,
    pub weir: Option<PathBuf>,
}

impl Programs {
    /// `PGBOUNCER`, `HAPROXY` and `WEIR` name them; otherwise the PATH and `target/release`.
    pub fn find() -> Self {
        let built = Path::new("target/release/weir");
        Self {
            haproxy: named("HAPROXY").or_else(|| on_path("haproxy")),
            pgbouncer: named("PGBOUNCER").or_else(|| on_path("pgbouncer")),
            weir: named("WEIR").or_else(|| built.exists().then(|| built.to_path_buf())),
        }
    }

    fn of(&self, kind: Kind) -> Option<&Path> {
        match kind {
            Kind::Direct => None,
            Kind::Haproxy => self.haproxy.as_deref(),
            Kind::PgBouncer | Kind::PgBouncerBigBuffer => self.pgbouncer.as_deref(),
            Kind::Weir(..) => self.weir.as_deref(),
        }
    }

    pub fn has(&self, kind: Kind) -> bool {
        kind == Kind::Direct || self.of(kind).is_some()
    }
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    folders.extend(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| path.exists())
}

/// A party that runs and answers.
pub struct Party {
    pub kind: Kind,
    pub user: String,
    pub address: SocketAddr,
    process: Option<Child>,
}

impl Party {
    pub fn start(
        kind: Kind,
        auth: Auth,
        programs: &Programs,
        server: &Postgres,
        account: &Account,
        folder: &Path,
    ) -> Result<Self> {
        let user = role(kind);
        server.ensure_role(&user)?;
        if kind == Kind::Direct {
            return Ok(Self {
                kind,
                user,
                address: server.address(),
                process: None,
            });
        }
        let program = programs
            .of(kind)
            .with_context(|| format!("no program for {kind}"))?;
        let site = Site {
            kind,
            auth,
            server,
            account,
            folder: folder.join(&user),
            user: &user,
            address: SocketAddr::from(([127, 0, 0, 1], port(kind))),
        };
        let configuration = site.write()?;
        let process = spawn(kind, program, &configuration, &site.folder)?;
        let mut party = Self {
            kind,
            address: site.address,
            user,
            process: Some(process),
        };
        party.await_ready(&configuration.with_file_name("output"))?;
        Ok(party)
    }

    /// The process whose cost is measured; none when there is nothing in between.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    pub fn session(&self) -> Result<Session> {
        Session::connect(self.address, &self.user, DATABASE)
    }

    fn await_ready(&mut self, output: &Path) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if std::net::TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            let ended = self
                .process
                .as_mut()
                .and_then(|process| process.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(output).unwrap_or_default();
                bail!("{} did not come up: {}", self.kind, said.trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        // SIGTERM ends HAProxy at once; for PgBouncer and Weir the immediate shutdown is SIGQUIT since 1.23.
        for signal in [libc::SIGQUIT, libc::SIGTERM] {
            // SAFETY: kill() takes no pointers; the child has not been waited for, so the id is still ours.
            unsafe { libc::kill(process.id() as i32, signal) };
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(Some(_)) = process.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// The PostgreSQL user of a party.
fn role(kind: Kind) -> String {
    let name = kind.to_string();
    let words: Vec<&str> = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    format!("bench_{}", words.join("_").to_lowercase())
}

fn port(kind: Kind) -> u16 {
    FIRST_PORT
        + match kind {
            Kind::Direct => 0,
            Kind::Haproxy => 1,
            Kind::PgBouncer => 2,
            Kind::PgBouncerBigBuffer => 3,
            Kind::Weir(Reactor::IoUring, workers) => 100 + workers as u16,
            Kind::Weir(Reactor::Epoll, workers) => 200 + workers as u16,
        }
}

/// One party's folder and what its configuration is made of.
struct Site<'a> {
    kind: Kind,
    auth: Auth,
    server: &'a Postgres,
    account: &'a Account,
    folder: PathBuf,
    user: &'a str,
    address: SocketAddr,
}

impl Site<'_> {
    fn write(&self) -> Result<PathBuf> {
        std::fs::create_dir_all(&self.folder)?;
        self.account.own(&self.folder)?;
        let (name, text) = match self.kind {
            Kind::Haproxy => ("haproxy.cfg", self.haproxy()),
            _ => ("pooler.ini", self.pooler()),
        };
        std::fs::write(self.folder.join("users.txt"), self.users())?;
        let path = self.folder.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    fn users(&self) -> String {
        let secret = match self.auth {
            Auth::Trust => String::new(),
            Auth::Scram => scram::verifier(PASSWORD),
        };
        format!("\"{}\" \"{secret}\"\n", self.user)
    }

    fn haproxy(&self) -> String {
        format!(
            "global\n  maxconn 4000\n  nbthread 1\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
             listen bench\n  bind {}\n  server postgres {}\n",
            self.address,
            self.server.address()
        )
    }

    /// The same file for PgBouncer and Weir; logging of connections is off for both.
    fn pooler(&self) -> String {
        let server = self.server.address();
        let mut text = format!(
            "[databases]\n{DATABASE} = host={} port={} dbname={DATABASE}\n\n[pgbouncer]\n",
            server.ip(),
            server.port()
        );
        text += &format!(
            "listen_addr = {}\nlisten_port = {}\nunix_socket_dir =\n",
            self.address.ip(),
            self.address.port()
        );
        text += &format!(
            "pool_mode = transaction\ndefault_pool_size = {POOL}\nmax_client_conn = 110000\nlisten_backlog = 4096\n"
        );
        text += &format!(
            "auth_type = {}\nauth_file = {}\n",
            self.auth,
            self.folder.join("users.txt").display()
        );
        text += "log_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n";
        text += &self.account.user_line();
        text += &match self.kind {
            Kind::PgBouncerBigBuffer => "pkt_buf = 65536\n".to_owned(),
            Kind::Weir(Reactor::IoUring, workers) => {
                format!("reactor = io_uring\nworker_threads = {workers}\n")
            }
            Kind::Weir(Reactor::Epoll, workers) => {
                format!("reactor = epoll\nworker_threads = {workers}\n")
            }
            _ => String::new(),
        };
        text
    }
}

fn spawn(kind: Kind, program: &Path, configuration: &Path, folder: &Path) -> Result<Child> {
    let output = std::fs::File::create(folder.join("output"))?;
    let mut command = Command::new(program);
    if kind == Kind::Haproxy {
        command.args(["-db", "-f"]);
    }
    command
        .arg(configuration)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))
}
