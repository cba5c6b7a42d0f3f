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
use crate::configuration::Configuration;
use crate::postgres::{DATABASE, Postgres};
use crate::probe;
use crate::session::Session;

pub const POOL: u32 = 20;
pub const PASSWORD: &str = "correct horse battery staple";
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// Files in a party's folder.
const OUTPUT: &str = "output";
const COUNTED: &str = "callgrind.out";
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

/// How a party's program is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launch {
    Plain,
    /// Under valgrind's callgrind, which counts user instructions.
    Counted,
}

/// Where parties are started.
pub struct Site<'a> {
    pub programs: &'a Programs,
    pub server: &'a Postgres,
    pub account: &'a Account,
    pub folder: &'a Path,
}

/// A party that runs and answers.
pub struct Party {
    pub kind: Kind,
    pub user: String,
    pub address: SocketAddr,
    folder: PathBuf,
    process: Option<Child>,
}

impl Party {
    pub fn start(kind: Kind, auth: Auth, launch: Launch, site: &Site) -> Result<Self> {
        let user = role(kind);
        site.server.ensure_role(&user)?;
        let folder = site.folder.join(&user);
        if kind == Kind::Direct {
            let address = site.server.address();
            return Ok(Self {
                kind,
                user,
                address,
                folder,
                process: None,
            });
        }
        let program = site
            .programs
            .of(kind)
            .with_context(|| format!("no program for {kind}"))?;
        let address = SocketAddr::new(
            site.server.address().ip(),
            site.server.address().port() + port_offset(kind),
        );
        let (server, account) = (site.server, site.account);
        let configuration = Configuration {
            kind,
            auth,
            server,
            account,
            launch,
            folder: folder.clone(),
            user: &user,
            address,
        };
        let path = configuration.write()?;
        let process = launch.spawn(kind, account, program, &path)?;
        let mut party = Self {
            kind,
            user,
            address,
            folder,
            process: Some(process),
        };
        party.await_ready()?;
        Ok(party)
    }

    /// Ends a party that was started as [`Launch::Counted`] and returns its user instructions.
    pub fn stop_and_count(mut self) -> Result<f64> {
        self.stop();
        probe::callgrind_total(&self.folder.join(COUNTED))
    }

    /// The process whose cost is measured; none when there is nothing in between.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// The last line of what the program said, for the report of a failure.
    pub fn last_words(&self) -> String {
        let said = std::fs::read_to_string(self.folder.join(OUTPUT)).unwrap_or_default();
        let last = said.lines().next_back().unwrap_or("nothing");
        format!("{} said last: {last}", self.kind)
    }

    pub fn session(&self) -> Result<Session> {
        Session::connect(self.address, &self.user, DATABASE)
    }

    fn await_ready(&mut self) -> Result<()> {
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
                let said = std::fs::read_to_string(self.folder.join(OUTPUT)).unwrap_or_default();
                bail!("{} did not come up: {}", self.kind, said.trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Party {
    fn stop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // SIGTERM ends HAProxy at once; for PgBouncer and Weir the immediate shutdown is SIGQUIT.
        let signal = if self.kind == Kind::Haproxy {
            libc::SIGTERM
        } else {
            libc::SIGQUIT
        };
        // SAFETY: kill() takes no pointers; the child has not been waited for, so the id is still ours.
        unsafe { libc::kill(process.id() as i32, signal) };
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(Some(_)) = process.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("  {} did not stop and is killed", self.kind);
        let _ = process.kill();
        let _ = process.wait();
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        self.stop();
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

/// How far a party's port is above its server's.
fn port_offset(kind: Kind) -> u16 {
    match kind {
        Kind::Direct => 0,
        Kind::Haproxy => 1,
        Kind::PgBouncer => 2,
        Kind::PgBouncerBigBuffer => 3,
        Kind::Weir(Reactor::IoUring, workers) => 100 + workers as u16,
        Kind::Weir(Reactor::Epoll, workers) => 200 + workers as u16,
    }
}

impl Launch {
    fn spawn(
        self,
        kind: Kind,
        account: &Account,
        program: &Path,
        configuration: &Path,
    ) -> Result<Child> {
        let folder = configuration.parent().unwrap_or(configuration);
        let output = std::fs::File::create(folder.join(OUTPUT))?;
        let mut command = match self {
            Self::Plain => Command::new(program),
            // Under the account from the start: a process that changes it cannot write what valgrind opened before.
            Self::Counted => {
                let mut command = account.command(Path::new("valgrind"));
                command
                    .arg("--tool=callgrind")
                    .arg(format!(
                        "--callgrind-out-file={}",
                        folder.join(COUNTED).display()
                    ))
                    .arg(program);
                command
            }
        };
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
}
