//! Where a target is, as a connection string says it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const USUAL_PORT: u16 = 5432;

/// A connection string that cannot be used; the operator's fault.
#[derive(Debug, thiserror::Error)]
pub enum DsnError {
    #[error("{0}")]
    Syntax(#[from] tokio_postgres::Error),
    #[error("no host is named")]
    NoHost,
    #[error("no user is named")]
    NoUser,
    #[error("{0}: the name cannot be resolved")]
    Unresolved(String),
    #[error("TLS is asked for, and the lab's driver has none: use sslmode=disable or prefer")]
    Tls,
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Tcp(SocketAddr),
    /// The folder of the Unix socket, and the port that is part of its name.
    Unix {
        folder: PathBuf,
        port: u16,
    },
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Tcp(address) => address.fmt(f),
            Place::Unix { folder, port } => write!(f, "{}/.s.PGSQL.{port}", folder.display()),
        }
    }
}

/// A server's address and who logs in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub place: Place,
    pub user: String,
    pub password: Option<String>,
    pub database: String,
}

impl Endpoint {
    /// Port `port` of this machine, without a password.
    pub fn local(port: u16, user: &str, database: &str) -> Self {
        Self {
            place: Place::Tcp(SocketAddr::from(([127, 0, 0, 1], port))),
            user: user.into(),
            password: None,
            database: database.into(),
        }
    }

    /// Reads a connection string or URI as libpq understands it; names are resolved at once.
    ///
    /// # Errors
    /// [`DsnError`].
    pub fn parse(dsn: &str) -> Result<Self, DsnError> {
        let config: Config = dsn.parse()?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(DsnError::Tls);
        }
        let user = config.get_user().ok_or(DsnError::NoUser)?.to_owned();
        let port = config.get_ports().first().copied().unwrap_or(USUAL_PORT);
        let place = match config.get_hosts().first().ok_or(DsnError::NoHost)? {
            Host::Tcp(name) => Place::Tcp(resolve(name, port)?),
            Host::Unix(folder) => Place::Unix {
                folder: folder.clone(),
                port,
            },
        };
        let password = config.get_password().map(String::from_utf8_lossy);
        Ok(Self {
            place,
            password: password.map(|password| password.into_owned()),
            database: config.get_dbname().unwrap_or(&user).to_owned(),
            user,
        })
    }

    /// As somebody else, by password.
    pub fn log_in_as(&self, user: &str, password: &str) -> Self {
        Self {
            user: user.into(),
            password: Some(password.into()),
            ..self.clone()
        }
    }

    /// For the few statements that go through a whole driver.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.user(&self.user).dbname(&self.database);
        match &self.place {
            Place::Tcp(address) => config.host(address.ip().to_string()).port(address.port()),
            Place::Unix { folder, port } => config.host_path(folder).port(*port),
        };
        if let Some(password) = &self.password {
            config.password(password);
        }
        config
    }

    /// libpq's environment variables (manual, "Environment Variables"): a password is not for everybody's process list.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let (host, port) = match &self.place {
            Place::Tcp(address) => (address.ip().to_string(), address.port()),
            Place::Unix { folder, port } => (folder.display().to_string(), *port),
        };
        let mut variables = vec![
            ("PGHOST", host),
            ("PGPORT", port.to_string()),
            ("PGUSER", self.user.clone()),
            ("PGDATABASE", self.database.clone()),
            ("PGSSLMODE", "disable".into()),
        ];
        variables.extend(
            self.password
                .clone()
                .map(|password| ("PGPASSWORD", password)),
        );
        variables
    }
}

fn resolve(name: &str, port: u16) -> Result<SocketAddr, DsnError> {
    let unresolved = || DsnError::Unresolved(name.into());
    let mut addresses = (name, port).to_socket_addrs().map_err(|_| unresolved())?;
    addresses.next().ok_or_else(unresolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_and_uris_are_read() {
        let endpoint =
            Endpoint::parse("postgresql://app:secret@127.0.0.1:6432/shop").expect("valid");
        assert_eq!(endpoint.place, Endpoint::local(6432, "", "").place);
        assert_eq!(
            (
                endpoint.user.as_str(),
                endpoint.password.as_deref(),
                endpoint.database.as_str()
            ),
            ("app", Some("secret"), "shop")
        );
        let unix = Endpoint::parse("host=/run/postgresql user=app").expect("valid");
        assert_eq!(unix.database, "app");
        assert!(matches!(unix.place, Place::Unix { port: 5432, .. }));
        assert!(Endpoint::parse("host=127.0.0.1 user=a sslmode=require").is_err());
        assert!(Endpoint::parse("dbname=x").is_err());
    }
}
