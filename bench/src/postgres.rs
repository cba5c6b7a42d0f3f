//! The PostgreSQL server that every party stands in front of: a throw-away cluster in a temporary folder.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::account::Account;
use crate::session::Session;

pub const DATABASE: &str = "bench";
/// Ports of the server and, above it, of its parties: below the ephemeral ones, which the generators use up.
const PORTS: Range<u16> = 21_400..31_000;
const PORTS_OF_ONE_RUN: usize = 400;
const START_TIMEOUT: Duration = Duration::from_secs(30);
const CONFIGURATION: &str = "listen_addresses = '127.0.0.1'
max_connections = 600
shared_buffers = 512MB
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
jit = off
logging_collector = off
";

pub struct Postgres {
    child: Child,
    port: u16,
    programs: PathBuf,
}

impl Postgres {
    /// Creates a cluster in `folder` and fills it with pgbench's tables at `scale`.
    pub fn start(folder: &Path, account: &Account, scale: u32) -> Result<Self> {
        let programs = programs()?;
        let data = folder.join("data");
        let port = free_port()?;
        run(account
            .command(&programs.join("initdb"))
            .args([
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "-U",
                "postgres",
                "-N",
                "-D",
            ])
            .arg(&data))?;
        std::fs::write(
            data.join("postgresql.auto.conf"),
            format!(
                "{CONFIGURATION}port = {port}\nunix_socket_directories = '{}'\n",
                folder.display()
            ),
        )?;
        std::fs::write(data.join("pg_hba.conf"), "host all all 127.0.0.0/8 trust\n")?;
        let log = std::fs::File::create(folder.join("postgres.log"))?;
        let child = account
            .command(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("starting postgres")?;
        let server = Self {
            child,
            port,
            programs,
        };
        server.await_ready()?;
        server
            .session("postgres")?
            .rows(&format!("CREATE DATABASE {DATABASE}"))?;
        server.fill(scale)?;
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub fn session(&self, database: &str) -> Result<Session> {
        Session::connect(self.address(), "postgres", database)
    }

    /// The process that all others descend from.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Path of one of PostgreSQL's programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    pub fn version(&self) -> Result<String> {
        let rows = self.session(DATABASE)?.rows("SHOW server_version")?;
        Ok(format!("PostgreSQL {}", rows.concat().concat()))
    }

    /// Makes sure that `role` may log in and read and write what measurements need.
    pub fn ensure_role(&self, role: &str) -> Result<()> {
        let mut session = self.session(DATABASE)?;
        if session.number(&format!(
            "SELECT count(*) FROM pg_roles WHERE rolname = '{role}'"
        ))? == 0
        {
            session.rows(&format!(
                "CREATE ROLE {role} LOGIN IN ROLE pg_read_all_data, pg_write_all_data"
            ))?;
        }
        Ok(())
    }

    fn fill(&self, scale: u32) -> Result<()> {
        let address = self.address();
        run(Command::new(self.program("pgbench")).args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-i",
            "-q",
            "-s",
            &scale.to_string(),
            "-p",
            &address.port().to_string(),
            DATABASE,
        ]))
    }

    fn await_ready(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match self.session("postgres") {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context("PostgreSQL did not come up"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// A port that no other run on this machine has taken.
fn free_port() -> Result<u16> {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    PORTS
        .step_by(PORTS_OF_ONE_RUN)
        .find(free)
        .context("no port is free")
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast shutdown (manual, "Shutting Down the Server").
        // SAFETY: kill() takes no pointers; the child has not been waited for, so the id is still ours.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let _ = self.child.wait();
    }
}

/// The folder named by `PG_BIN`, or the newest below /usr/lib/postgresql, or the one on the PATH.
pub fn programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("PG_BIN") {
        return Ok(folder.into());
    }
    let installed = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let newest = installed.max_by_key(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .parse::<u32>()
            .unwrap_or(0)
    });
    if let Some(entry) = newest {
        return Ok(entry.path().join("bin"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|folder| folder.join("initdb").exists())
        .context("no PostgreSQL found: install it, or name its bin folder by PG_BIN")
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
