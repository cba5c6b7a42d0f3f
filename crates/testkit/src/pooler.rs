//! Runs the real program, or PgBouncer as the oracle, with a generated configuration.

use crate::console::{Console, Table};
use crate::ini::Ini;
use crate::wait;
use lab::account::Account;
use lab::{launcher, port};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use tempfile::TempDir;

/// Weir, built by cargo together with the tests.
#[derive(Debug)]
pub struct Weir;

impl Weir {
    /// Starts it and waits until it accepts connections.
    ///
    /// # Panics
    /// With its log when it ends instead.
    #[track_caller]
    pub fn start(ini: &Ini) -> Pooler {
        Self::try_start(ini).unwrap_or_else(|log| panic!("weir did not start:\n{log}"))
    }

    /// As [`Weir::start`]; the error is what it wrote before it ended.
    ///
    /// # Errors
    /// Its output.
    pub fn try_start(ini: &Ini) -> Result<Pooler, String> {
        Pooler::start(&Self::program(), ini)
    }

    /// From `WEIR_BIN`, `CARGO_BIN_EXE_weir`, or else beside the test: `target/<profile>/weir`.
    ///
    /// # Panics
    /// When it was not built.
    pub fn program() -> PathBuf {
        let named = ["WEIR_BIN", "CARGO_BIN_EXE_weir"]
            .into_iter()
            .find_map(std::env::var_os);
        let program = named.map_or_else(beside_this_test, PathBuf::from);
        assert!(
            program.is_file(),
            "{} is missing: run `cargo build -p weir`",
            program.display()
        );
        program
    }
}

fn beside_this_test() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let profile = this
        .ancestors()
        .nth(2)
        .expect("target/<profile>/deps/<test>");
    profile.join("weir")
}

/// The oracle: what Weir is compared with.
#[derive(Debug)]
pub struct PgBouncer;

impl PgBouncer {
    /// `None` when it is not installed: `PGBOUNCER` names it, or it is where Debian puts it, or in PATH.
    ///
    /// # Panics
    /// With its log when it ends instead of listening.
    #[track_caller]
    pub fn start(ini: &Ini) -> Option<Pooler> {
        let started = Pooler::start(&Self::program()?, ini);
        Some(started.unwrap_or_else(|log| panic!("pgbouncer did not start:\n{log}")))
    }

    pub fn program() -> Option<PathBuf> {
        let named = std::env::var_os("PGBOUNCER").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join("pgbouncer"));
        named
            .into_iter()
            .chain(in_path)
            .chain([PathBuf::from("/usr/sbin/pgbouncer")])
            .find(|program| program.is_file())
    }
}

/// A running pooler. Killed when dropped; its log is printed when the test fails.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Pooler {
    const PORT_TRIES: usize = 5;

    fn start(program: &Path, ini: &Ini) -> Result<Self, String> {
        let mut tries = 0..Self::PORT_TRIES;
        loop {
            tries.next();
            match Self::start_once(program, ini) {
                // Somebody else took the port between choosing and binding it.
                Err(log)
                    if log.to_lowercase().contains("address already in use")
                        && !tries.is_empty() => {}
                started => return started,
            }
        }
    }

    fn start_once(program: &Path, ini: &Ini) -> Result<Self, String> {
        let account = Account::choose().unwrap();
        let folder = tempfile::Builder::new()
            .prefix("weir-test-")
            .tempdir_in(account.temporary_folder())
            .unwrap();
        account.give(folder.path()).unwrap();
        let port = port::free().unwrap();
        write_configuration(ini, &account, port, folder.path());
        let child = launch(program, folder.path())
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut pooler = Pooler {
            child,
            folder,
            port,
        };
        wait::until("the pooler listens or ends", || {
            pooler.has_ended() || pooler.listens()
        });
        if pooler.has_ended() {
            Err(pooler.log())
        } else {
            Ok(pooler)
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the Unix socket, the configuration and the log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the program wrote to its standard output and error so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// For tokio-postgres and the like: "host=127.0.0.1 port=... user=... password=... dbname=...".
    pub fn connection_string(&self, user: &str, password: &str, database: &str) -> String {
        format!(
            "host=127.0.0.1 port={} user={user} password='{password}' dbname={database}",
            self.port
        )
    }

    /// The console, as the admin of [`Ini::new`].
    pub fn console(&self) -> Console {
        self.console_as(Ini::ADMIN, "admin secret")
    }

    /// The console, as somebody else.
    pub fn console_as(&self, user: &str, password: &str) -> Console {
        Console::new(&self.connection_string(user, password, "pgbouncer"))
    }

    /// `SHOW what` on the console, as the admin.
    #[track_caller]
    pub fn show(&self, what: &str) -> Table {
        self.console().ask(&format!("SHOW {what}"))
    }

    /// Replaces the configuration and the auth_file; takes effect with RELOAD or SIGHUP.
    pub fn reconfigure(&self, ini: &Ini) {
        write_configuration(
            ini,
            &Account::choose().unwrap(),
            self.port,
            self.folder.path(),
        );
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the pooler runs");
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for the program to end by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        wait::until("the pooler ends", || self.has_ended());
        self.child.wait().unwrap()
    }

    fn listens(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- log of the pooler ----\n{}---- end ----", self.log());
        }
    }
}

fn write_configuration(ini: &Ini, account: &Account, port: u16, folder: &Path) {
    let ini = match account.name() {
        Some(name) => ini.clone().set("user", name),
        None => ini.clone(),
    };
    // Renamed into place: a reload must never see half a file.
    for (name, text) in [
        ("userlist.txt", ini.userlist()),
        ("weir.ini", ini.text(port, folder)),
    ] {
        let new = folder.join(format!("{name}.new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, folder.join(name)).unwrap();
    }
}

fn launch(program: &Path, folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.arg(folder.join("weir.ini")).current_dir(folder);
    launcher::spawn_logging(command, &folder.join("log"), Signal::SIGKILL)
}
