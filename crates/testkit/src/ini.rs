//! A pgbouncer.ini in the making.

use crate::postgres::{Postgres, Role};
use std::fmt::Write;
use std::path::Path;

/// Sections of an ini file and the lines of its auth_file. The last value set for a name counts.
#[derive(Debug, Clone, Default)]
pub struct Ini {
    databases: Vec<(String, String)>,
    users: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    secrets: Vec<(String, String)>,
}

impl Ini {
    /// Who may do everything on the console.
    pub const ADMIN: &str = "weir_admin";
    /// Who may only look.
    pub const STATS: &str = "weir_stats";

    /// No database yet. Transaction mode, clients are trusted; the admin, the stats user and all [`Role`]s are in the auth_file with their
    /// passwords in plain text.
    pub fn new() -> Self {
        let ini = Ini::default()
            .set("pool_mode", "transaction")
            .set("auth_type", "trust")
            .set("admin_users", Self::ADMIN)
            .set("stats_users", Self::STATS)
            .set("max_client_conn", 1000)
            .secret(Self::ADMIN, "admin secret")
            .secret(Self::STATS, "stats secret");
        Role::ALL
            .into_iter()
            .fold(ini, |ini, role| ini.secret(role.name(), role.password()))
    }

    /// [`Ini::new`] with every database of `server`.
    pub fn in_front_of(server: &Postgres) -> Self {
        Self::new().database("*", &format!("host=127.0.0.1 port={}", server.port()))
    }

    /// A line of `[databases]`.
    pub fn database(mut self, name: &str, keys: &str) -> Self {
        replace(&mut self.databases, name, keys.to_owned());
        self
    }

    /// A line of `[users]`.
    pub fn user(mut self, name: &str, keys: &str) -> Self {
        replace(&mut self.users, name, keys.to_owned());
        self
    }

    /// A line of `[pgbouncer]`.
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        replace(&mut self.settings, name, value.to_string());
        self
    }

    /// A line of the auth_file: plain text, md5 or a SCRAM verifier.
    pub fn secret(mut self, user: &str, secret: &str) -> Self {
        replace(&mut self.secrets, user, secret.to_owned());
        self
    }

    /// The file's text; `port` and `folder` are where the program listens and where its auth_file and Unix socket are.
    pub fn text(&self, port: u16, folder: &Path) -> String {
        let folder = folder.display();
        let place = [
            ("listen_addr", "127.0.0.1".to_owned()),
            ("listen_port", port.to_string()),
            ("unix_socket_dir", folder.to_string()),
            ("auth_file", format!("{folder}/userlist.txt")),
        ];
        let mut settings: Vec<(String, String)> = Vec::new();
        for (name, value) in place {
            replace(&mut settings, name, value);
        }
        for (name, value) in &self.settings {
            replace(&mut settings, name, value.clone());
        }
        let mut text = String::new();
        for (section, lines) in [
            ("databases", &self.databases),
            ("users", &self.users),
            ("pgbouncer", &settings),
        ] {
            let _ = writeln!(text, "[{section}]");
            for (name, value) in lines {
                let _ = writeln!(text, "{name} = {value}");
            }
        }
        text
    }

    /// The auth_file's text: a quote inside a name or a secret is doubled.
    pub fn userlist(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let lines = self
            .secrets
            .iter()
            .map(|(user, secret)| format!("{} {}\n", quoted(user), quoted(secret)));
        lines.collect()
    }
}

fn replace(lines: &mut Vec<(String, String)>, name: &str, value: String) {
    lines.retain(|(present, _)| present != name);
    lines.push((name.to_owned(), value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_setting_counts_and_place_can_be_overridden() {
        let ini = Ini::new()
            .set("pool_mode", "session")
            .set("listen_addr", "127.0.0.2");
        let text = ini.text(6432, Path::new("/somewhere"));
        assert_eq!(text.matches("pool_mode").count(), 1);
        assert!(text.contains("pool_mode = session\n"));
        assert!(text.contains("listen_addr = 127.0.0.2\n") && !text.contains("127.0.0.1"));
        assert!(text.contains("listen_port = 6432\n"));
    }

    #[test]
    fn secrets_are_quoted() {
        let list = Ini::default().secret("o\"neil", "x").userlist();
        assert_eq!(list, "\"o\"\"neil\" \"x\"\n");
    }
}
