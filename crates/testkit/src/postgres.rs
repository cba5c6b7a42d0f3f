//! PostgreSQL servers with roles, databases and log-in rules that all tests know.

use lab::postgres::{Installation, Options, SUPPORTED, Server};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, OnceLock};

/// A server with [`Role::ALL`], and the databases [`Postgres::DATABASE`] and [`Postgres::OTHER_DATABASE`] in which they may do everything.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
}

/// A role that may log in, named after how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// No password asked.
    Trust,
    /// Password in clear text.
    Plain,
    /// Secret stored as md5, log-in by md5.
    Md5,
    /// Secret stored as SCRAM verifier, log-in by SCRAM-SHA-256.
    Scram,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Trust, Role::Plain, Role::Md5, Role::Scram];

    pub fn name(self) -> &'static str {
        match self {
            Role::Trust => "weir_trust",
            Role::Plain => "weir_plain",
            Role::Md5 => "weir_md5",
            Role::Scram => "weir_scram",
        }
    }

    pub fn password(self) -> &'static str {
        match self {
            Role::Trust => "trusted",
            Role::Plain => "plain secret",
            Role::Md5 => "md5 secret",
            Role::Scram => "scram secret",
        }
    }

    /// The secret as PostgreSQL stores it, for an auth_file.
    pub fn stored_secret(self, server: &Postgres) -> String {
        let sql = format!(
            "SELECT rolpassword FROM pg_authid WHERE rolname = '{}'",
            self.name()
        );
        server.value(&sql).expect("the role exists")
    }

    fn method(self) -> &'static str {
        match self {
            Role::Trust => "trust",
            Role::Plain => "password",
            Role::Md5 => "md5",
            Role::Scram => "scram-sha-256",
        }
    }

    fn encryption(self) -> &'static str {
        match self {
            Role::Md5 => "md5",
            _ => "scram-sha-256",
        }
    }

    fn statement(self) -> String {
        format!(
            "SET password_encryption = '{}'; CREATE ROLE {} LOGIN PASSWORD '{}';",
            self.encryption(),
            self.name(),
            self.password()
        )
    }
}

impl Postgres {
    pub const DATABASE: &str = "weir_test";
    pub const OTHER_DATABASE: &str = "weir_other";
    /// For tests that do not care for the version.
    pub const USUAL_MAJOR: u32 = 17;
    pub const MAX_CONNECTIONS: u32 = 200;

    /// All supported major versions.
    pub fn majors() -> impl Iterator<Item = u32> {
        SUPPORTED
    }

    /// The one server of `major` that all tests of this binary share. It cannot be stopped, and a test that changes its settings has its own.
    pub fn shared(major: u32) -> &'static Postgres {
        type Started = HashMap<u32, Arc<OnceLock<&'static Postgres>>>;
        static STARTED: OnceLock<Mutex<Started>> = OnceLock::new();
        let started = STARTED.get_or_init(Mutex::default);
        let place = started.lock().unwrap().entry(major).or_default().clone();
        // A static is never dropped: the server ends and its folder goes when this process has ended.
        place.get_or_init(|| Box::leak(Box::new(Self::start(major))))
    }

    /// The shared server of the usual version.
    pub fn usual() -> &'static Postgres {
        Self::shared(Self::USUAL_MAJOR)
    }

    /// A server for this test alone: it may be stopped, killed, frozen and reconfigured.
    pub fn start(major: u32) -> Self {
        Self::start_with(major, Options::default())
    }

    /// As [`Postgres::start`], with settings of its own.
    pub fn start_with(major: u32, options: Options) -> Self {
        let rules = login_rules();
        let options = options
            .setting("max_connections", &Self::MAX_CONNECTIONS.to_string())
            .hba(rules.iter().map(String::as_str));
        let server = Installation::obtain(major)
            .and_then(|installation| installation.start(&options))
            .unwrap_or_else(|error| panic!("PostgreSQL {major}: {error}"));
        let postgres = Self { server };
        postgres.prepare();
        postgres
    }

    /// "host=... user=... password=... dbname=weir_test" of a direct connection.
    pub fn direct(&self, role: Role) -> String {
        let base = self.server.connection_string(role.name(), Self::DATABASE);
        format!("{base} password='{}'", role.password())
    }

    /// Server connections that `application_name` or anybody else has open to `database`, this question's own excluded.
    pub fn connections(&self, database: &str) -> usize {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND backend_type = 'client backend'"
        );
        self.server
            .value(&sql)
            .expect("an answer")
            .parse()
            .expect("a number")
    }

    fn prepare(&self) {
        for role in Role::ALL {
            self.server.execute(&role.statement()).expect("a role");
        }
        for database in [Self::DATABASE, Self::OTHER_DATABASE] {
            self.server
                .execute(&format!("CREATE DATABASE {database}"))
                .expect("a database");
            self.server
                .query(database, "GRANT ALL ON SCHEMA public TO PUBLIC")
                .expect("a grant");
        }
    }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Postgres {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}

/// Each role by its method; everybody else (the superuser) is trusted.
fn login_rules() -> Vec<String> {
    let places = ["local all {role}", "host all {role} 127.0.0.1/32"];
    let rule = |place: &str, role: &str, method: &str| {
        format!("{} {method}", place.replace("{role}", role))
    };
    let roles = Role::ALL
        .map(|role| (role.name(), role.method()))
        .into_iter();
    roles
        .chain([("all", "trust")])
        .flat_map(|(role, method)| places.map(|place| rule(place, role, method)))
        .collect()
}
