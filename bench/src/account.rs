//! The account that servers run under: PostgreSQL and the poolers refuse to be root.

use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// `Own` when the bench itself is unprivileged.
pub enum Account {
    Own,
    Other {
        name: &'static str,
        uid: u32,
        gid: u32,
    },
}

const UNPRIVILEGED: &str = "postgres";

impl Account {
    pub fn choose() -> Result<Self> {
        // SAFETY: geteuid() has no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return Ok(Self::Own);
        }
        let name = CString::new(UNPRIVILEGED)?;
        // SAFETY: `name` is NUL-terminated and no other thread runs yet that could call getpwnam().
        let entry = unsafe { libc::getpwnam(name.as_ptr()).as_ref() };
        let entry = entry.with_context(|| {
            format!("as root the servers run as user {UNPRIVILEGED}, which does not exist here")
        })?;
        Ok(Self::Other {
            name: UNPRIVILEGED,
            uid: entry.pw_uid,
            gid: entry.pw_gid,
        })
    }

    /// A command that runs under this account.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
        command
    }

    /// The `user =` line for programs that drop privileges themselves.
    pub fn user_line(&self) -> String {
        match self {
            Self::Own => String::new(),
            Self::Other { name, .. } => format!("user = {name}\n"),
        }
    }

    /// Hands a file or folder over to the account.
    pub fn own(&self, path: &Path) -> Result<()> {
        if let Self::Other { uid, gid, .. } = self {
            std::os::unix::fs::chown(path, Some(*uid), Some(*gid))
                .with_context(|| format!("chown {}", path.display()))?;
        }
        Ok(())
    }
}
