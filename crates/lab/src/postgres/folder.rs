//! A temporary folder that is removed whatever ends this process.
//!
//! A destructor does not run when a process is killed, nor for a `static`. So a guardian, a shell of a few lines in a process group of
//! its own, waits at the end of a pipe: when this process is gone, it stops what still runs in the folder and removes it.

use super::Error;
use crate::account::Account;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// `$1` is the folder. PostgreSQL gets SIGCONT in case it is frozen and SIGQUIT, its immediate shutdown
/// (manual, "Shutting Down the Server"); removing is tried until the last process has stopped writing, for 30 s at most.
const GUARDIAN: &str = r#"
trap '' HUP INT TERM
read -r _
tries=0
while [ -e "$1" ] && [ $tries -lt 300 ]; do
    pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -CONT "$pid" && kill -QUIT "$pid"
    rm -rf "$1"
    tries=$((tries + 1))
    [ -e "$1" ] && sleep 0.1
done
"#;

/// The folder of one server: `data`, `log` and the Unix socket.
#[derive(Debug)]
pub struct Folder {
    folder: Option<TempDir>,
    path: PathBuf,
    guardian: Child,
}

impl Folder {
    pub fn create(account: &Account) -> Result<Self, Error> {
        let parent = account.temporary_folder();
        let folder = tempfile::Builder::new()
            .prefix("weir-pg-")
            .tempdir_in(&parent)
            .map_err(Error::io(format!("cannot write to {}", parent.display())))?;
        account
            .give(folder.path())
            .map_err(Error::io("cannot give the server's folder to its user"))?;
        let guardian = guard(folder.path()).map_err(Error::io("cannot start sh"))?;
        let path = folder.path().to_owned();
        Ok(Self {
            folder: Some(folder),
            path,
            guardian,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            // If it fails, the guardian goes on trying.
            let _ = folder.close();
        }
        drop(self.guardian.stdin.take());
        let _ = self.guardian.wait();
    }
}

fn guard(folder: &Path) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", GUARDIAN, "guardian"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}
