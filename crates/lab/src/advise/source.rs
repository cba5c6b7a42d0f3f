//! What is watched, as a connection string says it.

use crate::driver::DsnError;
use std::path::Path;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

const USUAL_PORT: u16 = 5432;
/// As for psql: a password on a command line is in everybody's list of processes.
const PASSWORD: &str = "PGPASSWORD";

/// A server or a pooler, and who looks.
#[derive(Debug, Clone)]
pub struct Source {
    config: Config,
    /// A name, an address, or the folder of a Unix socket: as the string has it.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
}

impl Source {
    /// Reads a connection string or URI as libpq understands it. Of several hosts the first one that can be reached is taken.
    ///
    /// # Errors
    /// [`DsnError`].
    pub fn parse(dsn: &str) -> Result<Self, DsnError> {
        let mut config: Config = dsn.parse()?;
        let user = config.get_user().ok_or(DsnError::NoUser)?.to_owned();
        let host = match config.get_hosts().first().ok_or(DsnError::NoHost)? {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        if config.get_password().is_none()
            && let Ok(password) = std::env::var(PASSWORD)
        {
            config.password(password);
        }
        Ok(Self {
            port: config.get_ports().first().copied().unwrap_or(USUAL_PORT),
            database: config.get_dbname().unwrap_or(&user).to_owned(),
            config,
            host,
            user,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// "db.example:5432", or the path of a socket.
    pub fn address(&self) -> String {
        let Self { host, port, .. } = self;
        match Path::new(host).is_absolute() {
            true => format!("{host}/.s.PGSQL.{port}"),
            false if host.contains(':') => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sockets_stay_as_they_are_written() {
        let address = |dsn: &str| Source::parse(dsn).map(|source| source.address());
        assert_eq!(
            address("postgresql://a@db.example:6432/shop?sslmode=require").expect("valid"),
            "db.example:6432"
        );
        assert_eq!(address("host=::1 user=a").expect("valid"), "[::1]:5432");
        assert_eq!(
            address("host=/run/postgresql user=a").expect("valid"),
            "/run/postgresql/.s.PGSQL.5432"
        );
        let source = Source::parse("host=h user=a").expect("valid");
        assert_eq!(source.database, "a");
        for wrong in [
            "dbname=x user=a",
            "host=h",
            "nonsense",
            "host=h user=a sslmode=maybe",
        ] {
            assert!(Source::parse(wrong).is_err(), "{wrong}");
        }
    }
}
