//! What is measured: PostgreSQL itself and whatever stands in front of it.

use super::pooler::Program;
use crate::driver::{DsnError, Endpoint};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One of the things that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub kind: TargetKind,
}

/// Whose it is, and so what may be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetKind {
    /// The lab's own server, directly.
    OwnPostgres,
    /// A pooler that the lab starts in front of its own server, set up anew for each measurement.
    OwnPooler(Program),
    /// Named by the user: used as it is, neither set up nor restarted.
    Given(Endpoint),
}

/// A `--target` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("a target is NAME=DSN, as in main=postgresql://user@host/database")]
    NoName,
    #[error("target {name}: {source}")]
    Dsn { name: String, source: DsnError },
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (name, dsn) = text.split_once('=').ok_or(TargetError::NoName)?;
        if name.is_empty() || name.contains([':', '/', ' ']) {
            return Err(TargetError::NoName);
        }
        let endpoint = Endpoint::parse(dsn).map_err(|source| TargetError::Dsn {
            name: name.into(),
            source,
        })?;
        Ok(Self {
            name: name.into(),
            kind: TargetKind::Given(endpoint),
        })
    }
}

impl Target {
    /// Whether the lab may restart it and set it up.
    pub fn is_own(&self) -> bool {
        !matches!(self.kind, TargetKind::Given(_))
    }

    pub fn description(&self) -> String {
        match &self.kind {
            TargetKind::OwnPostgres => "each client a server connection of its own".into(),
            TargetKind::OwnPooler(program) => program.version(),
            TargetKind::Given(endpoint) => match &endpoint.place {
                crate::driver::Place::Tcp(address) => {
                    format!("{address}, database {}", endpoint.database)
                }
                crate::driver::Place::Unix { folder, .. } => {
                    format!("{}, database {}", folder.display(), endpoint.database)
                }
            },
        }
    }
}

/// PostgreSQL, Weir, and PgBouncer if it is installed.
pub fn own(weir: &Path) -> Vec<Target> {
    let pooler = |name: &str, program| Target {
        name: name.into(),
        kind: TargetKind::OwnPooler(program),
    };
    let mut targets = vec![
        Target {
            name: "PostgreSQL".into(),
            kind: TargetKind::OwnPostgres,
        },
        pooler("Weir", Program::Weir(weir.into())),
    ];
    targets.extend(find_pgbouncer().map(|found| pooler("PgBouncer", Program::PgBouncer(found))));
    targets
}

/// In PATH, or where Debian puts what only root's PATH knows.
fn find_pgbouncer() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("pgbouncer"))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_name_and_a_connection_string() {
        let target: Target = "pooled=host=127.0.0.1 port=6432 user=app"
            .parse()
            .expect("valid");
        assert_eq!(target.name, "pooled");
        assert_eq!(target.description(), "127.0.0.1:6432, database app");
        for wrong in [
            "",
            "postgresql://app@127.0.0.1/x?sslmode=disable",
            "a b=host=127.0.0.1 user=x",
            "x=nonsense",
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
