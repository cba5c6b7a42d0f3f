//! What settings mean together: combinations that are refused, and combinations that are hardly meant.

use crate::config::Config;
use crate::errors::Problem;
use crate::general::General;
use crate::value::{AuthType, SslMode, Value};

/// A setting whose value, as things are, must not be accepted.
pub(crate) struct Refusal {
    pub setting: &'static str,
    pub problem: Problem,
}

/// Something allowed that its writer should look at again.
pub(crate) struct Warning {
    /// The setting or the entry that it is about.
    pub about: String,
    pub text: String,
}

/// Everything in `general` that would be weaker than it says, or could not work at all.
pub(crate) fn refusals(general: &General) -> Vec<Refusal> {
    [
        auth_type(general),
        client_tls(general),
        server_tls(general),
        auth_dbname(general),
        listening(general),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn refused(setting: &'static str, value: impl Value, why: &'static str) -> Refusal {
    Refusal {
        setting,
        problem: Problem::Refused {
            name: setting,
            value: value.show(),
            why,
        },
    }
}

fn auth_type(general: &General) -> Option<Refusal> {
    let supported = match general.auth_type {
        AuthType::Any
        | AuthType::Trust
        | AuthType::Plain
        | AuthType::Md5
        | AuthType::ScramSha256 => true,
        AuthType::Cert | AuthType::Hba | AuthType::Ldap | AuthType::Pam => false,
    };
    let why = "not supported yet; any, trust, plain, md5 and scram-sha-256 are";
    (!supported).then(|| refused("auth_type", general.auth_type, why))
}

fn client_tls(general: &General) -> Option<Refusal> {
    let why = "TLS is not supported yet, and clients would silently be served in clear; disable is accepted";
    (general.client_tls_sslmode != SslMode::Disable)
        .then(|| refused("client_tls_sslmode", general.client_tls_sslmode, why))
}

fn server_tls(general: &General) -> Option<Refusal> {
    let clear_is_fine = match general.server_tls_sslmode {
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => true,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => false,
    };
    let why = "TLS is not supported yet, and PostgreSQL would silently be reached in clear; disable, allow and prefer are accepted";
    (!clear_is_fine).then(|| refused("server_tls_sslmode", general.server_tls_sslmode, why))
}

fn auth_dbname(general: &General) -> Option<Refusal> {
    let console = general
        .auth_dbname
        .as_deref()
        .is_some_and(crate::database::is_console);
    console.then(|| {
        refused(
            "auth_dbname",
            general.auth_dbname.clone(),
            "this name leads to the console, which has no users to look up",
        )
    })
}

fn listening(general: &General) -> Option<Refusal> {
    let nowhere = general.listen_addr.is_empty() && general.unix_socket_dir.is_none();
    nowhere.then(|| {
        refused(
            "listen_addr",
            general.listen_addr.clone(),
            "nowhere to listen: unix_socket_dir is empty too",
        )
    })
}

/// Everything that PgBouncer would accept as well, and refuse to clients later.
pub(crate) fn warnings(config: &Config) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = [no_database(config), no_users(config)]
        .into_iter()
        .flatten()
        .collect();
    warnings.extend(any_without_forced_user(config));
    warnings.extend(unknown_auth_dbname(config));
    warnings
}

fn no_database(config: &Config) -> Option<Warning> {
    let none = config.databases.is_empty() && config.fallback.is_none();
    let text = "[databases] is empty: only the console can be reached".to_owned();
    none.then(|| Warning {
        about: String::new(),
        text,
    })
}

fn no_users(config: &Config) -> Option<Warning> {
    let general = &config.general;
    let looked_up = general.auth_user.is_some()
        || databases(config).any(|database| database.auth_user.is_some());
    let unknown = general.auth_type != AuthType::Any && general.auth_file.is_none() && !looked_up;
    let text = format!(
        "auth_type = {} without auth_file and auth_user: nobody can log in",
        general.auth_type.word()
    );
    unknown.then(|| Warning {
        about: "auth_type".to_owned(),
        text,
    })
}

fn any_without_forced_user(config: &Config) -> Vec<Warning> {
    if config.general.auth_type != AuthType::Any {
        return Vec::new();
    }
    let without = databases(config).filter(|database| database.forced_user.is_none());
    let warning = |database: &crate::database::Database| Warning {
        about: format!("database \"{}\"", database.name),
        text: format!(
            "database \"{}\" has no user, which auth_type = any needs: its clients will be refused",
            database.name
        ),
    };
    without.map(warning).collect()
}

fn unknown_auth_dbname(config: &Config) -> Option<Warning> {
    let name = config.general.auth_dbname.as_deref()?;
    let text = format!("auth_dbname = {name}: there is no such entry in [databases]");
    config.database(name).is_none().then(|| Warning {
        about: "auth_dbname".to_owned(),
        text,
    })
}

fn databases(config: &Config) -> impl Iterator<Item = &crate::database::Database> {
    config
        .databases
        .values()
        .chain(&config.fallback)
        .map(|database| database.as_ref())
}
