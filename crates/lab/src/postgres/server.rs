//! One running PostgreSQL server in a temporary folder.

use super::folder::Folder;
use super::processes::{self, Memory};
use super::{Error, Installation, Version};
use crate::account::Account;
use crate::runtime::{PAUSE, apart};
use crate::{launcher, port};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// The role that owns the cluster; it may always come in through the Unix socket.
const SUPERUSER: &str = "postgres";
/// Longest wait for a server to answer or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time that one call of [`Server::query`] may take.
const QUERY_PATIENCE: Duration = Duration::from_secs(60);
/// How often a new server is started again because another program took its port first.
const PORT_TRIES: usize = 5;

/// What is not worth a setting: no durability, messages in English, no shared memory that could outlive the folder.
const BASE_SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "off"),
    ("dynamic_shared_memory_type", "mmap"),
    ("lc_messages", "C"),
    ("logging_collector", "off"),
];

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Options {
    settings: Vec<(String, String)>,
    hba: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Vec::new(),
            hba: vec![
                "host all all 127.0.0.1/32 trust".into(),
                "local all all trust".into(),
            ],
        }
    }
}

impl Options {
    /// A line of postgresql.conf; quotes are added.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// The lines of pg_hba.conf, in place of "trust everybody". A first line lets the superuser in through the Unix socket.
    pub fn hba<'a>(mut self, lines: impl IntoIterator<Item = &'a str>) -> Self {
        self.hba = lines.into_iter().map(str::to_owned).collect();
        self
    }
}

/// How PostgreSQL is asked to end (manual, "Shutting Down the Server").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Waits until every client has left.
    Smart,
    /// Ends transactions and tells clients 57P01.
    Fast,
    /// Ends at once without tidying up.
    Immediate,
}

impl Shutdown {
    fn signal(self) -> Signal {
        match self {
            Shutdown::Smart => Signal::SIGTERM,
            Shutdown::Fast => Signal::SIGINT,
            Shutdown::Immediate => Signal::SIGQUIT,
        }
    }
}

/// A server on 127.0.0.1 and on a Unix socket. It stops and its folder vanishes when this value is dropped, and also when
/// this process ends in any other way.
#[derive(Debug)]
pub struct Server {
    postmaster: Postmaster,
    folder: Folder,
    installation: Installation,
    account: Account,
    port: u16,
}

impl Server {
    pub(super) fn start(installation: Installation, options: &Options) -> Result<Self, Error> {
        let account = Account::choose()?;
        let folder = Folder::create(&account)?;
        initialise(&installation, &account, folder.path())?;
        let mut server = Server {
            postmaster: Postmaster::Stopped,
            folder,
            installation,
            account,
            port: 0,
        };
        server.write(
            "postgresql.conf",
            &configuration(options, server.folder.path()),
        )?;
        server.set_hba(options.hba.iter().map(String::as_str))?;
        server.start_on_some_port()?;
        Ok(server)
    }

    /// Starts the server again, on the same port, after [`Server::stop`] or [`Server::kill`].
    ///
    /// # Errors
    /// [`Error::Start`] with the log.
    pub fn start_again(&mut self) -> Result<(), Error> {
        self.postmaster.end(Shutdown::Immediate);
        let child = self.spawn()?;
        self.postmaster = Postmaster::Running(child);
        self.wait_until_ready()
    }

    /// Ends the server and waits until it is gone.
    pub fn stop(&mut self, shutdown: Shutdown) {
        self.postmaster.end(shutdown);
    }

    /// [`Server::stop`] with a fast shutdown, then [`Server::start_again`].
    ///
    /// # Errors
    /// [`Error::Start`] with the log.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop(Shutdown::Fast);
        self.start_again()
    }

    /// Kills every process of the server with SIGKILL: no client is told anything.
    pub fn kill(&mut self) {
        self.postmaster.kill();
    }

    /// Stops every process where it stands (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// [`Error::NotRunning`].
    pub fn freeze(&self) -> Result<(), Error> {
        processes::signal_family(self.pid()?, Signal::SIGSTOP);
        Ok(())
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// [`Error::NotRunning`].
    pub fn thaw(&self) -> Result<(), Error> {
        processes::signal_family(self.pid()?, Signal::SIGCONT);
        Ok(())
    }

    /// Has the server read its files again, and waits until it did.
    ///
    /// # Errors
    /// [`Error::NotRunning`], [`Error::Sql`].
    pub fn reload(&self) -> Result<(), Error> {
        let loaded = || self.value("SELECT pg_conf_load_time()::text");
        let before = loaded()?;
        self.execute("SELECT pg_reload_conf()")?;
        let deadline = Instant::now() + PATIENCE;
        while loaded()? == before && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Replaces pg_hba.conf; takes effect with the next [`Server::reload`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn set_hba<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        let first = format!("local all {SUPERUSER} trust\n");
        let text = lines
            .into_iter()
            .fold(first, |text, line| text + line + "\n");
        self.write("pg_hba.conf", &text)
    }

    /// Runs statements as the superuser in database `postgres`.
    ///
    /// # Errors
    /// [`Error::Sql`].
    pub fn execute(&self, sql: &str) -> Result<(), Error> {
        self.query("postgres", sql).map(drop)
    }

    /// The first column of the first row, as the superuser in database `postgres`; empty for NULL and for no row.
    ///
    /// # Errors
    /// [`Error::Sql`].
    pub fn value(&self, sql: &str) -> Result<String, Error> {
        let rows = self.query("postgres", sql)?;
        let first = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        Ok(first.flatten().unwrap_or_default())
    }

    /// All rows, in text, of statements run as the superuser in `database`. Blocks, for a minute at most.
    ///
    /// # Errors
    /// [`Error::Sql`], or [`Error::Io`] when the server does not answer in time.
    pub fn query(&self, database: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        let config = self.superuser(database);
        let asked =
            async { tokio::time::timeout(QUERY_PATIENCE, simple_query(&config, sql)).await };
        apart(asked)
            .map_err(|_| Error::Io {
                what: sql.into(),
                source: std::io::ErrorKind::TimedOut.into(),
            })?
            .map_err(|source| Error::Sql {
                sql: sql.into(),
                source,
            })
    }

    /// For any libpq-like driver: "host=127.0.0.1 port=... user=... dbname=...".
    pub fn connection_string(&self, user: &str, database: &str) -> String {
        format!(
            "host=127.0.0.1 port={} user={user} dbname={database}",
            self.port
        )
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the Unix socket.
    pub fn socket_dir(&self) -> &Path {
        self.folder.path()
    }

    pub fn version(&self) -> Version {
        self.installation.version()
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Memory of all processes of the server.
    ///
    /// # Errors
    /// [`Error::NotRunning`].
    pub fn memory(&self) -> Result<Memory, Error> {
        Ok(processes::memory(self.pid()?))
    }

    /// The process id of the postmaster.
    ///
    /// # Errors
    /// [`Error::NotRunning`].
    pub fn pid(&self) -> Result<u32, Error> {
        self.postmaster.pid().ok_or(Error::NotRunning)
    }

    fn start_on_some_port(&mut self) -> Result<(), Error> {
        let mut tries = 0..PORT_TRIES;
        loop {
            tries.next();
            self.port = port::free().map_err(Error::io("no free port"))?;
            match self.start_again() {
                Err(Error::Start { log })
                    if log.contains("could not bind") && !tries.is_empty() => {}
                started => return started,
            }
        }
    }

    fn spawn(&self) -> Result<Child, Error> {
        let mut command = Command::new(self.installation.program("postgres"));
        command
            .arg("-D")
            .arg(data(self.folder.path()))
            .args(["-p", &self.port.to_string()])
            .current_dir(self.folder.path());
        self.account.run(&mut command);
        launcher::spawn_logging(command, &self.log_path(), Shutdown::Immediate.signal())
            .map_err(Error::io("cannot run postgres"))
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let config = self.superuser("postgres");
        let deadline = Instant::now() + PATIENCE;
        let postmaster = &mut self.postmaster;
        let answers = apart(async {
            while Instant::now() < deadline && postmaster.is_running() {
                if config.connect(NoTls).await.is_ok() {
                    return true;
                }
                tokio::time::sleep(PAUSE).await;
            }
            false
        });
        if answers {
            return Ok(());
        }
        self.kill();
        Err(Error::Start { log: self.log() })
    }

    /// How the superuser connects: through the Unix socket, without a password.
    pub fn superuser(&self, database: &str) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config
            .host_path(self.folder.path())
            .port(self.port)
            .user(SUPERUSER)
            .dbname(database)
            .connect_timeout(QUERY_PATIENCE);
        config
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        let path = data(self.folder.path()).join(file);
        std::fs::write(&path, text).map_err(Error::io(format!("cannot write {}", path.display())))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.postmaster.end(Shutdown::Immediate);
        processes::forget_shared_memory(&data(self.folder.path()));
    }
}

/// The first process of the server, which starts and ends all others.
#[derive(Debug)]
enum Postmaster {
    Stopped,
    Running(Child),
}

impl Postmaster {
    fn pid(&self) -> Option<u32> {
        match self {
            Postmaster::Stopped => None,
            Postmaster::Running(child) => Some(child.id()),
        }
    }

    fn is_running(&mut self) -> bool {
        match self {
            Postmaster::Stopped => false,
            Postmaster::Running(child) => matches!(child.try_wait(), Ok(None)),
        }
    }

    fn end(&mut self, shutdown: Shutdown) {
        let Some(pid) = self.pid() else { return };
        // A process that has ended already needs no signal; the child is not reaped yet, so the id is still its own.
        if self.is_running() {
            processes::signal_family(pid, Signal::SIGCONT);
            let _ = kill(Pid::from_raw(pid as i32), shutdown.signal());
        }
        let deadline = Instant::now() + PATIENCE;
        while self.is_running() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        self.kill();
    }

    fn kill(&mut self) {
        let mut family = Vec::new();
        if self.is_running()
            && let Some(pid) = self.pid()
        {
            family = processes::signal_family(pid, Signal::SIGKILL);
        }
        if let Postmaster::Running(child) = self {
            let _ = child.wait();
        }
        // While one of them lives, its shared memory does, and no server starts in this folder.
        let deadline = Instant::now() + PATIENCE;
        while !family.iter().all(|pid| processes::has_ended(*pid)) && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        *self = Postmaster::Stopped;
    }
}

fn initialise(installation: &Installation, account: &Account, folder: &Path) -> Result<(), Error> {
    let mut command = Command::new(installation.program("initdb"));
    command
        .arg("-D")
        .arg(data(folder))
        .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        .arg(format!("--username={SUPERUSER}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    account.run(&mut command);
    let ran = launcher::spawn(command, Signal::SIGKILL)
        .and_then(Child::wait_with_output)
        .map_err(Error::io("cannot run initdb"))?;
    if ran.status.success() {
        return Ok(());
    }
    let output = [ran.stdout, ran.stderr].concat();
    Err(Error::Program {
        program: "initdb".into(),
        output: String::from_utf8_lossy(&output).into_owned(),
    })
}

fn configuration(options: &Options, socket_dir: &Path) -> String {
    let socket_dir = socket_dir.display().to_string();
    let ours = BASE_SETTINGS
        .iter()
        .copied()
        .chain([("unix_socket_directories", socket_dir.as_str())]);
    let theirs = options
        .settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let mut text = String::new();
    // The last line for a name is the one that counts.
    for (name, value) in ours.chain(theirs) {
        let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
    }
    text
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

async fn simple_query(
    config: &tokio_postgres::Config,
    sql: &str,
) -> Result<Vec<Vec<Option<String>>>, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    let answered = async move {
        let messages = client.simple_query(sql).await?;
        Ok(messages.iter().filter_map(row).collect())
    };
    // The client is dropped with its answer, which ends the connection.
    let (answer, _) = tokio::join!(answered, connection);
    answer
}

fn row(message: &SimpleQueryMessage) -> Option<Vec<Option<String>>> {
    match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
            Some(values.collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_caller_come_last_and_are_quoted() {
        let options = Options::default()
            .setting("fsync", "on")
            .setting("application_name", "it's");
        let text = configuration(&options, Path::new("/somewhere"));
        assert!(text.contains("unix_socket_directories = '/somewhere'\n"));
        assert!(text.ends_with("fsync = 'on'\napplication_name = 'it''s'\n"));
    }
}
