//! The scripts, run by pgbench.

use super::{Detail, Job, LoadError, Outcome};
use crate::driver::Latencies;
use crate::launcher;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// An installed pgbench.
#[derive(Debug, Clone)]
pub struct Pgbench {
    program: PathBuf,
    /// "pgbench (PostgreSQL) 17.6"
    pub version: String,
}

/// Killed when dropped before its end.
struct Running(Option<Pid>);

impl Pgbench {
    /// The one in PATH.
    pub fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .map(|folder| folder.join("pgbench"))
            .find(|program| program.is_file())?;
        let said = Command::new(&program).arg("--version").output().ok()?;
        let version = String::from_utf8(said.stdout).ok()?.trim().to_owned();
        Some(Self { program, version })
    }

    /// # Errors
    /// [`LoadError::Pgbench`] with what it said, when it ends without a result.
    pub async fn run(&self, job: Job<'_>) -> Result<Outcome, LoadError> {
        let length = job.length.as_secs().max(1).to_string();
        let folder = tempfile::tempdir()?;
        let mut command = self.command(job, folder.path())?;
        command.args(["--time", &length]);
        if job.detail == Detail::Percentiles {
            command.args(["--log", "--log-prefix", "transactions"]);
        }
        let mut outcome = read(&finish(command).await?)?;
        if job.detail == Detail::Percentiles {
            let latencies = read_log(folder.path())?;
            outcome.p50_ms = latencies.percentile_ms(50.0);
            outcome.p99_ms = latencies.percentile_ms(99.0);
        }
        Ok(outcome)
    }

    /// Each client runs one transaction: how long it takes until all are connected is what is asked.
    ///
    /// # Errors
    /// As [`Pgbench::run`].
    pub async fn connect(&self, job: Job<'_>) -> Result<Outcome, LoadError> {
        let folder = tempfile::tempdir()?;
        let mut command = self.command(job, folder.path())?;
        command.args(["--transactions", "1"]);
        read(&finish(command).await?)
    }

    fn command(&self, job: Job<'_>, folder: &Path) -> std::io::Result<Command> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let mut command = Command::new(&self.program);
        command
            .args(["--no-vacuum", "--client", &job.clients.to_string()])
            .args(["--jobs", &job.clients.min(cores).to_string()])
            .current_dir(folder)
            .envs(job.endpoint.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for script in &job.workload.scripts {
            let file = folder.join(format!("{}.sql", script.name.replace(' ', "-")));
            std::fs::write(&file, &script.text)?;
            command
                .arg("--file")
                .arg(format!("{}@{}", file.display(), script.weight));
        }
        Ok(command)
    }
}

/// Runs a program that makes a load to its end.
pub(super) async fn finish(command: Command) -> Result<Output, LoadError> {
    let child = launcher::spawn(command, Signal::SIGKILL)?;
    let mut running = Running(Some(Pid::from_raw(child.id() as i32)));
    let ended = tokio::task::spawn_blocking(move || Child::wait_with_output(child));
    let output = ended.await.map_err(std::io::Error::other)??;
    running.0 = None;
    Ok(output)
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It may just have ended; its waiting thread reaps it in either case.
            let _ = kill(pid, Signal::SIGTERM);
        }
    }
}

fn read(output: &Output) -> Result<Outcome, LoadError> {
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = || {
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors.lines().find(|line| line.contains("error"));
        let line = line
            .or_else(|| errors.lines().last())
            .unwrap_or("no result");
        LoadError::Pgbench(line.trim_start_matches("pgbench: error: ").to_owned())
    };
    if !output.status.success() {
        return Err(complaint());
    }
    let number = |label: &str| number(&said, label);
    Ok(Outcome {
        tps: number("tps =").ok_or_else(complaint)?,
        transactions: number("number of transactions actually processed:").unwrap_or_default()
            as u64,
        failed: number("number of failed transactions:").unwrap_or_default() as u64,
        mean_ms: number("latency average =").unwrap_or(f64::NAN),
        p50_ms: f64::NAN,
        p99_ms: f64::NAN,
        connecting_ms: number("initial connection time =").unwrap_or(f64::NAN),
    })
}

/// The number that follows `label`, up to a blank or a slash ("5000/5000").
fn number(said: &str, label: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix(label))?;
    let word = line.trim_start().split([' ', '/']).next()?;
    word.parse().ok()
}

/// A line per transaction; the third word is its latency in microseconds (manual, pgbench, "Per-Transaction Logging").
fn read_log(folder: &Path) -> std::io::Result<Latencies> {
    let mut latencies = Latencies::default();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("transactions.") {
            continue;
        }
        for line in std::fs::read_to_string(&path)?.lines() {
            let word = line.split(' ').nth(2);
            if let Some(took) = word.and_then(|word| word.parse().ok()) {
                latencies.add(Duration::from_micros(took));
            }
        }
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_says_is_read() {
        let said = "number of transactions actually processed: 120/120\nnumber of failed transactions: 3 (2.5%)\n\
                    latency average = 1.5 ms\ninitial connection time = 12.3 ms\ntps = 812.25 (without initial connection time)\n";
        assert_eq!(number(said, "tps ="), Some(812.25));
        assert_eq!(
            number(said, "number of transactions actually processed:"),
            Some(120.0)
        );
        assert_eq!(number(said, "number of failed transactions:"), Some(3.0));
        assert_eq!(number(said, "initial connection time ="), Some(12.3));
        assert_eq!(number(said, "latency stddev ="), None);
    }
}
