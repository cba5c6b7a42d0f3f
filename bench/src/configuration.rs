//! A party's folder and the configuration files in it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use crate::account::Account;
use crate::party::{Auth, Kind, Launch, PASSWORD, POOL, Reactor};
use crate::postgres::{DATABASE, Postgres};
use crate::scram;

/// What a party's configuration is made of.
pub struct Configuration<'a> {
    pub kind: Kind,
    pub auth: Auth,
    pub server: &'a Postgres,
    pub account: &'a Account,
    pub launch: Launch,
    pub folder: PathBuf,
    pub user: &'a str,
    pub address: SocketAddr,
}

impl Configuration<'_> {
    /// Writes the files and returns the path of the one that the program is given.
    pub fn write(&self) -> Result<PathBuf> {
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
        if self.launch == Launch::Plain {
            text += &self.account.user_line();
        }
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
