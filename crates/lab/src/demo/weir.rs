//! Weir itself, as its own process.

use super::{CLIENTS, Error, POOL_SIZE, SPARE_CONNECTIONS, bank};
use crate::account::Account;
use crate::postgres::{self, Memory, Server};
use crate::runtime::PAUSE;
use crate::{launcher, port};
use nix::sys::signal::Signal;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running Weir; dropped, it is gone.
#[derive(Debug)]
pub struct Weir {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Weir {
    /// Starts `program` in front of `server` and waits until it listens. Its files are in the server's folder and go with that.
    pub fn start(program: &Path, server: &Server) -> Result<Self, Error> {
        let account = Account::choose().map_err(postgres::Error::from)?;
        let folder = server.socket_dir().join("weir");
        let cannot_write = || Error::io(format!("cannot write to {}", folder.display()));
        let port = port::free().map_err(Error::io("no free port"))?;
        std::fs::create_dir(&folder).map_err(cannot_write())?;
        account.give(&folder).map_err(cannot_write())?;
        std::fs::write(
            folder.join("userlist.txt"),
            format!("\"{}\" \"\"\n", bank::ROLE),
        )
        .map_err(cannot_write())?;
        std::fs::write(
            folder.join("weir.ini"),
            configuration(server, &folder, port, &account),
        )
        .map_err(cannot_write())?;
        let log = folder.join("log");
        let mut command = Command::new(program);
        command.arg(folder.join("weir.ini")).current_dir(&folder);
        let child = launcher::spawn_logging(command, &log, Signal::SIGKILL)
            .map_err(Error::io(format!("cannot run {}", program.display())))?;
        let mut weir = Self { child, log, port };
        weir.wait_until_it_listens()?;
        Ok(weir)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn memory(&self) -> Memory {
        postgres::memory(self.child.id())
    }

    fn wait_until_it_listens(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        Err(Error::Weir { log })
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // Nobody's work is lost: the clients are gone and the database goes too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pgbouncer.ini such as anybody could have.
fn configuration(server: &Server, folder: &Path, port: u16, account: &Account) -> String {
    let user = account
        .name()
        .map_or_else(String::new, |name| format!("user = {name}\n"));
    let folder = folder.display();
    format!(
        "[databases]\n\
         {database} = host=127.0.0.1 port={server_port}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir = {folder}\n\
         auth_type = trust\n\
         auth_file = {folder}/userlist.txt\n\
         admin_users = {role}\n\
         pool_mode = transaction\n\
         default_pool_size = {POOL_SIZE}\n\
         max_client_conn = {clients}\n\
         log_connections = 0\n\
         log_disconnections = 0\n\
         {user}",
        database = bank::DATABASE,
        role = bank::ROLE,
        server_port = server.port(),
        clients = CLIENTS + SPARE_CONNECTIONS,
    )
}
