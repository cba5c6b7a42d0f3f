//! Starts child processes that die with this process, also when it is killed.
//!
//! Linux sends the "parent death" signal when the *thread* that forked ends, so a child started by a test's own thread would
//! die with that test. All children are therefore forked by one thread that lives as long as the process.
//! Elsewhere the signal does not exist, and only [`crate::postgres`]'s guardian and destructors clean up.

use nix::sys::signal::Signal;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// Spawns `command` in a process group of its own, so that Ctrl-C reaches only this process, and has the kernel send
/// `death_signal` to it when this process ends.
///
/// # Errors
/// What [`Command::spawn`] says, or that the launching thread could not be started.
pub fn spawn(mut command: Command, death_signal: Signal) -> io::Result<Child> {
    command.process_group(0);
    die_with_parent(&mut command, death_signal);
    let (answer, result) = channel();
    launching_thread()?
        .send(Order { command, answer })
        .map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

/// As [`spawn`], without an input; what the program says is appended to the file `log`.
///
/// # Errors
/// As [`spawn`], or that the file cannot be written.
pub fn spawn_logging(mut command: Command, log: &Path, death_signal: Signal) -> io::Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    spawn(command, death_signal)
}

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

fn launching_thread() -> io::Result<&'static Sender<Order>> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    if let Some(orders) = ORDERS.get() {
        return Ok(orders);
    }
    let (orders, todo) = channel::<Order>();
    std::thread::Builder::new()
        .name("launcher".into())
        .spawn(move || {
            for mut order in todo {
                // Whoever ordered may be gone: then nobody wants the child either, and dropping the answer is right.
                let _ = order.answer.send(order.command.spawn());
            }
        })?;
    Ok(ORDERS.get_or_init(|| orders))
}

fn gone() -> io::Error {
    io::Error::other("the launching thread has ended")
}

#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = nix::unistd::getpid();
    // SAFETY: the closure runs between fork and exec and makes only the async-signal-safe calls prctl and getppid.
    unsafe {
        // Set after std has changed the user: a change of user clears the signal (prctl(2), PR_SET_PDEATHSIG).
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(signal)?;
            if nix::unistd::getppid() != parent {
                return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
            }
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command, _signal: Signal) {}
