//! `[databases]`: where the databases that clients name really are, and what they override.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::errors::Problem;
use crate::parameters::{Finding, Parameter, fill};
use crate::value::{self, BadValue, LoadBalanceHosts, PinPolicy, PoolMode, UnixSocketDir, Value};

/// One entry of `[databases]`, or of `*` under the name that a client gave. `None` means: as set in `[pgbouncer]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Database {
    /// As clients call it.
    pub name: String,
    /// As PostgreSQL calls it.
    pub dbname: String,
    /// Never empty.
    pub hosts: Vec<Address>,
    pub load_balance_hosts: LoadBalanceHosts,
    /// The user that logs in to PostgreSQL for every client.
    pub forced_user: Option<String>,
    /// The forced user's.
    pub password: Option<Password>,
    pub auth_user: Option<String>,
    pub auth_query: Option<String>,
    pub auth_dbname: Option<String>,
    /// 0: no limit.
    pub pool_size: Option<u32>,
    pub min_pool_size: Option<u32>,
    pub reserve_pool_size: Option<u32>,
    /// Never 0.
    pub max_db_connections: Option<u32>,
    /// Never 0.
    pub max_db_client_connections: Option<u32>,
    /// Never zero.
    pub server_lifetime: Option<Duration>,
    pub pool_mode: Option<PoolMode>,
    pub pin: Option<PinPolicy>,
    /// Zero: clients wait for ever.
    pub query_wait_timeout: Option<Duration>,
    pub connect_query: Option<String>,
    /// Asked of PostgreSQL when a connection starts: `client_encoding`, `datestyle`, `timezone`, `application_name`.
    pub startup_parameters: BTreeMap<&'static str, String>,
}

impl Database {
    /// The entry `*` for a client that asks for `name`.
    pub(crate) fn called(&self, name: &str) -> Database {
        let dbname = if self.dbname == FALLBACK {
            name
        } else {
            &self.dbname
        };
        Database {
            name: name.to_owned(),
            dbname: dbname.to_owned(),
            ..self.clone()
        }
    }

    /// The host as `SHOW DATABASES` prints it: several with commas between them.
    pub fn host_text(&self) -> String {
        let hosts: Vec<String> = self
            .hosts
            .iter()
            .map(|address| address.host.to_string())
            .collect();
        hosts.join(",")
    }

    /// The first host's port, as `SHOW DATABASES` prints it.
    pub fn port(&self) -> u16 {
        self.hosts
            .first()
            .map_or(PORT_DEFAULT, |address| address.port)
    }
}

/// One PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub host: Host,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// The folder of a Unix socket named `.s.PGSQL.<port>`.
    Unix { dir: PathBuf },
    /// A Unix socket in the abstract namespace, `<prefix>/.s.PGSQL.<port>`; without the `@`.
    Abstract { name: String },
    /// A host name or an IP address.
    Tcp { name: String },
}

impl Host {
    fn parse(text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(name) => Host::Abstract {
                name: name.to_owned(),
            },
            None if text.starts_with('/') => Host::Unix {
                dir: PathBuf::from(text),
            },
            None => Host::Tcp {
                name: text.to_owned(),
            },
        }
    }
}

impl From<&UnixSocketDir> for Host {
    fn from(dir: &UnixSocketDir) -> Self {
        match dir {
            UnixSocketDir::Path(dir) => Host::Unix { dir: dir.clone() },
            UnixSocketDir::Abstract(name) => Host::Abstract { name: name.clone() },
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Unix { dir } => write!(f, "{}", dir.display()),
            Host::Abstract { name } => write!(f, "@{name}"),
            Host::Tcp { name } => f.write_str(name),
        }
    }
}

/// A secret that no log and no `{:?}` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// The entry for every name without one. Its `dbname` is the same unless another is given.
pub(crate) const FALLBACK: &str = "*";
const PORT_DEFAULT: u16 = 5432;
/// PostgreSQL's own limit (`NAMEDATALEN - 1`), in bytes.
pub(crate) const DATABASE_NAME_BYTES_MAX: usize = 63;
/// PgBouncer's limits, in bytes.
pub(crate) const USER_NAME_BYTES_MAX: usize = 127;
const PASSWORD_BYTES_MAX: usize = 65531;

/// A database as it is written: what it takes from elsewhere is still open.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    dbname: Option<String>,
    hosts: Vec<Host>,
    ports: Vec<u16>,
    load_balance_hosts: Option<LoadBalanceHosts>,
    forced_user: Option<String>,
    password: Option<Password>,
    auth_user: Option<String>,
    auth_query: Option<String>,
    auth_dbname: Option<String>,
    pool_size: Option<u32>,
    min_pool_size: Option<u32>,
    reserve_pool_size: Option<u32>,
    max_db_connections: Option<u32>,
    max_db_client_connections: Option<u32>,
    server_lifetime: Option<Duration>,
    pool_mode: Option<PoolMode>,
    pin: Option<PinPolicy>,
    query_wait_timeout: Option<Duration>,
    connect_query: Option<String>,
    startup_parameters: BTreeMap<&'static str, String>,
}

/// Reads one entry. `unix_socket_dir` is where a database without `host` is.
pub(crate) fn parse(
    name: &str,
    text: &str,
    unix_socket_dir: Option<&UnixSocketDir>,
) -> Result<Database, Vec<Finding>> {
    let entry = format!("database \"{name}\"");
    let mut draft = Draft::default();
    let mut findings = fill(PARAMETERS, text, &entry, &mut draft);
    let hosts = addresses(
        std::mem::take(&mut draft.hosts),
        &draft.ports,
        unix_socket_dir,
    );
    match hosts {
        Ok(hosts) if findings.is_empty() => Ok(draft.finish(name, hosts)),
        Ok(_) => Err(findings),
        Err(what) => {
            findings.push((Problem::BadEntry { entry, what }, None));
            Err(findings)
        }
    }
}

fn addresses(
    hosts: Vec<Host>,
    ports: &[u16],
    unix_socket_dir: Option<&UnixSocketDir>,
) -> Result<Vec<Address>, &'static str> {
    let hosts = match (hosts.is_empty(), unix_socket_dir) {
        (false, _) => hosts,
        (true, Some(dir)) => vec![Host::from(dir)],
        (true, None) => return Err("no host is given, and unix_socket_dir is empty"),
    };
    let port_of = |index: usize| {
        ports
            .get(index)
            .or(ports.first())
            .copied()
            .unwrap_or(PORT_DEFAULT)
    };
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err("give one port, or as many ports as hosts");
    }
    Ok(hosts
        .into_iter()
        .enumerate()
        .map(|(index, host)| Address {
            host,
            port: port_of(index),
        })
        .collect())
}

impl Draft {
    fn finish(self, name: &str, hosts: Vec<Address>) -> Database {
        Database {
            name: name.to_owned(),
            dbname: self.dbname.unwrap_or_else(|| name.to_owned()),
            hosts,
            load_balance_hosts: self
                .load_balance_hosts
                .unwrap_or(LoadBalanceHosts::RoundRobin),
            forced_user: self.forced_user,
            password: self.password,
            auth_user: self.auth_user,
            auth_query: self.auth_query,
            auth_dbname: self.auth_dbname,
            pool_size: self.pool_size,
            min_pool_size: self.min_pool_size,
            reserve_pool_size: self.reserve_pool_size,
            max_db_connections: self.max_db_connections,
            max_db_client_connections: self.max_db_client_connections,
            server_lifetime: self.server_lifetime,
            pool_mode: self.pool_mode,
            pin: self.pin,
            query_wait_timeout: self.query_wait_timeout,
            connect_query: self.connect_query,
            startup_parameters: self.startup_parameters,
        }
    }
}

/// A value for this entry alone; `-1` leaves it open.
pub(crate) fn inherited<T: Value>(text: &str) -> Result<Option<T>, BadValue> {
    match text {
        "-1" => Ok(None),
        text => value::parse(text).map(Some),
    }
}

/// As [`inherited`], but 0 leaves it open as well, as in PgBouncer: no entry lifts a limit that holds for all.
pub(crate) fn inherited_if_zero<T: Value + Default + PartialEq>(
    text: &str,
) -> Result<Option<T>, BadValue> {
    inherited(text).map(|value| value.filter(|value| *value != T::default()))
}

/// A name of at most `max` bytes.
pub(crate) fn name_of(text: &str, max: usize) -> Result<String, BadValue> {
    match text.len() <= max {
        true => Ok(text.to_owned()),
        false => Err(BadValue::new(
            &format!("a name of at most {max} bytes"),
            text,
        )),
    }
}

/// The value is left out of the error: it is a secret.
fn password(text: &str) -> Result<Password, BadValue> {
    match text.len() <= PASSWORD_BYTES_MAX {
        true => Ok(Password(text.to_owned())),
        false => Err(BadValue::new(
            "a password of at most 65531 bytes",
            "a longer one",
        )),
    }
}

fn hosts(text: &str) -> Result<Vec<Host>, BadValue> {
    let hosts: Vec<&str> = text.split(',').map(str::trim).collect();
    match hosts.iter().any(|host| host.is_empty()) {
        true => Err(BadValue::new(
            "a host, or several with commas between them",
            text,
        )),
        false => Ok(hosts.into_iter().map(Host::parse).collect()),
    }
}

fn ports(text: &str) -> Result<Vec<u16>, BadValue> {
    let port = |text: &str| u16::parse(text.trim()).filter(|port| *port != 0);
    let ports: Option<Vec<u16>> = text.split(',').map(port).collect();
    ports.ok_or_else(|| {
        BadValue::new(
            "a port from 1 to 65535, or several with commas between them",
            text,
        )
    })
}

/// Every key of an entry in `[databases]`.
pub(crate) const PARAMETERS: &[Parameter<Draft>] = &[
    Parameter {
        name: "dbname",
        doc: "The database's name in PostgreSQL. Default: the entry's name; for `*`, the name that the client gives.",
        set: |draft, text| {
            name_of(text, DATABASE_NAME_BYTES_MAX).map(|name| draft.dbname = Some(name))
        },
    },
    Parameter {
        name: "host",
        doc: "Where PostgreSQL is: a host name, an IP address, a folder (`/...`) with its Unix socket, `@name` for the abstract namespace, or \
              several of these with commas between them. Default: the Unix socket in `unix_socket_dir`.",
        set: |draft, text| hosts(text).map(|hosts| draft.hosts = hosts),
    },
    Parameter {
        name: "port",
        doc: "PostgreSQL's port: one for all hosts, or one for each with commas between them. Default: 5432.",
        set: |draft, text| ports(text).map(|ports| draft.ports = ports),
    },
    Parameter {
        name: "user",
        doc: "Log in to PostgreSQL as this user, whoever the client is (a forced user): the database has one pool for all. Default: as the client.",
        set: |draft, text| {
            name_of(text, USER_NAME_BYTES_MAX).map(|name| draft.forced_user = Some(name))
        },
    },
    Parameter {
        name: "password",
        doc: "The forced user's password. Default: its secret in `auth_file`.",
        set: |draft, text| password(text).map(|password| draft.password = Some(password)),
    },
    Parameter {
        name: "auth_user",
        doc: "Instead of the setting `auth_user`.",
        set: |draft, text| {
            name_of(text, USER_NAME_BYTES_MAX).map(|name| draft.auth_user = Some(name))
        },
    },
    Parameter {
        name: "auth_query",
        doc: "Instead of the setting `auth_query`.",
        set: |draft, text| value::parse(text).map(|query| draft.auth_query = query),
    },
    Parameter {
        name: "auth_dbname",
        doc: "Instead of the setting `auth_dbname`.",
        set: |draft, text| auth_dbname(text).map(|name| draft.auth_dbname = Some(name)),
    },
    Parameter {
        name: "pool_size",
        doc: "The most server connections of each of the database's pools, instead of `default_pool_size`. 0: no limit.",
        set: |draft, text| inherited(text).map(|size| draft.pool_size = size),
    },
    Parameter {
        name: "min_pool_size",
        doc: "Instead of the setting `min_pool_size`.",
        set: |draft, text| inherited(text).map(|size| draft.min_pool_size = size),
    },
    Parameter {
        name: "reserve_pool_size",
        doc: "Instead of the setting `reserve_pool_size`.",
        set: |draft, text| inherited(text).map(|size| draft.reserve_pool_size = size),
    },
    Parameter {
        name: "reserve_pool",
        doc: "The older name of `reserve_pool_size`.",
        set: |draft, text| inherited(text).map(|size| draft.reserve_pool_size = size),
    },
    Parameter {
        name: "max_db_connections",
        doc: "Instead of the setting `max_db_connections`. 0: as the setting.",
        set: |draft, text| inherited_if_zero(text).map(|count| draft.max_db_connections = count),
    },
    Parameter {
        name: "max_db_client_connections",
        doc: "Instead of the setting `max_db_client_connections`. 0: as the setting.",
        set: |draft, text| {
            inherited_if_zero(text).map(|count| draft.max_db_client_connections = count)
        },
    },
    Parameter {
        name: "server_lifetime",
        doc: "Instead of the setting `server_lifetime`, in seconds. 0: as the setting.",
        set: |draft, text| inherited_if_zero(text).map(|time| draft.server_lifetime = time),
    },
    Parameter {
        name: "pool_mode",
        doc: "Instead of the setting `pool_mode`.",
        set: |draft, text| value::parse(text).map(|mode| draft.pool_mode = Some(mode)),
    },
    Parameter {
        name: "pin",
        doc: "Instead of the setting `pin`. Not in PgBouncer.",
        set: |draft, text| value::parse(text).map(|policy| draft.pin = Some(policy)),
    },
    Parameter {
        name: "query_wait_timeout",
        doc: "Instead of the setting `query_wait_timeout`, in seconds. 0: for ever.",
        set: |draft, text| inherited(text).map(|time| draft.query_wait_timeout = time),
    },
    Parameter {
        name: "connect_query",
        doc: "A query to run on every new server connection. If it fails, that is logged and the connection is used all the same, as in PgBouncer.",
        set: |draft, text| value::parse(text).map(|query| draft.connect_query = query),
    },
    Parameter {
        name: "load_balance_hosts",
        doc: "`round-robin`: new connections go to the hosts in turn. `disable`: always to the same one until it fails. Default: `round-robin`.",
        set: |draft, text| value::parse(text).map(|mode| draft.load_balance_hosts = Some(mode)),
    },
    Parameter {
        name: "client_encoding",
        doc: "Asked of PostgreSQL when a connection starts.",
        set: |draft, text| draft.ask("client_encoding", text),
    },
    Parameter {
        name: "datestyle",
        doc: "Asked of PostgreSQL when a connection starts.",
        set: |draft, text| draft.ask("datestyle", text),
    },
    Parameter {
        name: "timezone",
        doc: "Asked of PostgreSQL when a connection starts.",
        set: |draft, text| draft.ask("timezone", text),
    },
    Parameter {
        name: "application_name",
        doc: "Asked of PostgreSQL when a connection starts.",
        set: |draft, text| draft.ask("application_name", text),
    },
];

impl Draft {
    fn ask(&mut self, name: &'static str, value: &str) -> Result<(), BadValue> {
        self.startup_parameters.insert(name, value.to_owned());
        Ok(())
    }
}

fn auth_dbname(text: &str) -> Result<String, BadValue> {
    match is_console(text) {
        true => Err(BadValue::new("a database that is not the console", text)),
        false => name_of(text, DATABASE_NAME_BYTES_MAX),
    }
}

/// Whether a database name leads to the console.
pub fn is_console(name: &str) -> bool {
    matches!(name, "pgbouncer" | "weir")
}
