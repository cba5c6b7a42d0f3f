//! PostgreSQL and poolers refuse to run as root: then they run as `postgres` or `nobody`, and their files belong to that user.

use nix::unistd::{Uid, User};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// This process is root, and the machine has nobody else.
#[derive(Debug, thiserror::Error)]
#[error(
    "servers refuse to run as root, and this machine has neither a user `postgres` nor `nobody`"
)]
pub struct NoUnprivilegedUser;

/// Whom a server runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// Whoever runs this process.
    Own,
    /// This process is root; the server runs as somebody else.
    Other { name: String, uid: u32, gid: u32 },
}

impl Account {
    /// # Errors
    /// [`NoUnprivilegedUser`] when this process is root and there is nobody else.
    pub fn choose() -> Result<Self, NoUnprivilegedUser> {
        if !is_root() {
            return Ok(Account::Own);
        }
        ["postgres", "nobody"]
            .into_iter()
            .find_map(look_up)
            .ok_or(NoUnprivilegedUser)
    }

    /// Makes `command` run as this account.
    pub fn run(&self, command: &mut Command) {
        if let Account::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
    }

    /// The other user's name.
    pub fn name(&self) -> Option<&str> {
        match self {
            Account::Own => None,
            Account::Other { name, .. } => Some(name),
        }
    }

    /// Gives `path` to this account.
    ///
    /// # Errors
    /// What chown(2) says.
    pub fn give(&self, path: &Path) -> std::io::Result<()> {
        match self {
            Account::Own => Ok(()),
            Account::Other { uid, gid, .. } => {
                std::os::unix::fs::chown(path, Some(*uid), Some(*gid))
            }
        }
    }

    /// Whether this account can enter `path`, as far as the bits for "others" tell.
    pub fn reaches(&self, path: &Path) -> bool {
        match self {
            Account::Own => true,
            Account::Other { .. } => path.ancestors().all(open_to_others),
        }
    }

    /// The usual folder for temporary files, or /tmp where this account cannot enter that.
    pub fn temporary_folder(&self) -> PathBuf {
        let usual = std::env::temp_dir();
        if self.reaches(&usual) {
            usual
        } else {
            PathBuf::from("/tmp")
        }
    }
}

fn is_root() -> bool {
    Uid::effective().is_root()
}

/// A folder that does not exist yet will be created with the usual mode.
fn open_to_others(folder: &Path) -> bool {
    folder
        .metadata()
        .map_or(true, |data| data.permissions().mode() & 0o001 != 0)
}

fn look_up(name: &str) -> Option<Account> {
    let user = User::from_name(name).ok()??;
    Some(Account::Other {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
    })
}
