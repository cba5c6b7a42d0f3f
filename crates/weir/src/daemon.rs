//! `-d`: the process goes to the background, and its starter learns whether the start succeeded.

use anyhow::Context;
use nix::sys::wait::waitpid;
use nix::unistd::{
    ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe, read, setsid, write,
};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

/// Who this process is after `detach`.
pub enum Side {
    /// The one that was started; it ends with this code as soon as the background process runs or has failed.
    Starter(ExitCode),
    Background(Starting),
}

/// The background process while it starts: its errors still reach the terminal. Dropping this without `running` is a failed start.
pub struct Starting {
    starter: OwnedFd,
}

/// Forks. Must be called while the process has one thread.
pub fn detach() -> anyhow::Result<Side> {
    let (reader, writer) = pipe().context("no pipe for the background process")?;
    // SAFETY: the process has one thread, as the function's contract says, so the child may do whatever its parent may.
    let forked = unsafe { fork() }.context("cannot go to the background")?;
    match forked {
        ForkResult::Parent { child } => {
            drop(writer);
            // The child forks once more and ends at once.
            let _ = waitpid(child, None);
            Ok(Side::Starter(outcome(&reader)))
        }
        ForkResult::Child => {
            drop(reader);
            setsid().context("cannot leave the terminal")?;
            leave_session_leader()?;
            Ok(Side::Background(Starting { starter: writer }))
        }
    }
}

/// A process that does not lead its session can never get a terminal again.
fn leave_session_leader() -> anyhow::Result<()> {
    // SAFETY: still one thread; the parent ends without running anything of the program.
    if let ForkResult::Parent { .. } = unsafe { fork() }.context("cannot go to the background")? {
        // SAFETY: ends the process at once, which is sound anywhere.
        unsafe { libc::_exit(0) }
    }
    Ok(())
}

/// One byte means that the other process runs; its end without one means that it failed.
fn outcome(reader: &OwnedFd) -> ExitCode {
    match read(reader, &mut [0]) {
        Ok(1) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

impl Starting {
    /// The start has succeeded: lets the starter go and gives up the terminal.
    pub fn running(self) -> anyhow::Result<()> {
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .context("/dev/null")?;
        dup2_stdin(&null).context("stdin")?;
        dup2_stdout(&null).context("stdout")?;
        dup2_stderr(&null).context("stderr")?;
        write(&self.starter, &[1]).context("the starter is gone")?;
        Ok(())
    }
}
