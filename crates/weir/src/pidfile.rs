//! The pidfile: one process per file, removed at the end.

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// This process's pidfile. Dropping it removes the file.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. Refuses if it names another process that lives; a file left behind by one that does not is replaced.
    pub fn create(path: &Path) -> anyhow::Result<PidFile> {
        refuse_if_taken(path)?;
        let file = || -> io::Result<()> {
            // Exclusive, so that of two processes that start together only one goes on.
            let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
            writeln!(file, "{}", std::process::id())
        };
        file().with_context(|| format!("pidfile {} cannot be written", path.display()))?;
        Ok(PidFile {
            path: path.to_owned(),
        })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("pidfile {} cannot be removed: {error}", self.path.display());
        }
    }
}

/// Fails if the file names a living process other than this one; removes a stale file.
pub fn refuse_if_taken(path: &Path) -> anyhow::Result<()> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("pidfile {} cannot be read", path.display()));
        }
    };
    let Ok(pid) = text.trim().parse::<i32>() else {
        bail!(
            "pidfile {} holds no process id: remove it if it is not needed",
            path.display()
        );
    };
    if is_other_and_alive(pid) {
        bail!(
            "pidfile {} says that process {pid} is running: stop it first",
            path.display()
        );
    }
    std::fs::remove_file(path)
        .with_context(|| format!("the stale pidfile {} cannot be removed", path.display()))
}

fn is_other_and_alive(pid: i32) -> bool {
    let is_other = pid > 0 && pid != Pid::this().as_raw();
    // Signal 0 asks only; "not permitted" means that the process exists and is somebody else's.
    is_other && kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_for_each_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("weir.pid");
        let own = PidFile::create(&path).expect("nobody has it");
        let text = std::fs::read_to_string(&path).expect("written");
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(own);
        assert!(!path.exists());

        std::fs::write(&path, "1\n").expect("writable");
        let error = PidFile::create(&path).expect_err("process 1 lives");
        assert!(
            error.to_string().contains("process 1 is running"),
            "{error}"
        );
        std::fs::write(&path, "who knows").expect("writable");
        assert!(PidFile::create(&path).is_err());
        assert!(path.exists());
    }

    #[test]
    fn a_stale_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("weir.pid");
        let mut gone = std::process::Command::new("true")
            .spawn()
            .expect("true runs");
        gone.wait().expect("and ends");
        std::fs::write(&path, format!("{}\n", gone.id())).expect("writable");
        let _own = PidFile::create(&path).expect("its process is gone");
    }
}
