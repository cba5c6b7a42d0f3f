//! TPC-C as others run it: sysbench with its public scripts (sysbench-tpcc), where the user has them.

use super::pgbench::finish;
use super::{LoadError, Outcome};
use crate::driver::{Endpoint, Place};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Names the folder of `tpcc.lua`.
const FOLDER: &str = "SYSBENCH_TPCC";
const SCRIPT: &str = "tpcc.lua";

/// An installed sysbench, and the scripts.
#[derive(Debug, Clone)]
pub struct Sysbench {
    program: PathBuf,
    folder: PathBuf,
    scale: u32,
}

impl Sysbench {
    /// The one in PATH, if the environment variable `SYSBENCH_TPCC` says where the scripts are. `scale` is TPC-C's number of warehouses.
    pub fn find(scale: u32) -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(FOLDER)?);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .map(|folder| folder.join("sysbench"))
            .find(|program| program.is_file())?;
        folder.join(SCRIPT).is_file().then_some(Self {
            program,
            folder,
            scale,
        })
    }

    /// Creates and fills the tables, in the schema `public`; what an earlier run left is removed.
    ///
    /// # Errors
    /// [`LoadError::Sysbench`] with what it said.
    pub async fn prepare(&self, endpoint: &Endpoint) -> Result<(), LoadError> {
        // Without tables there is nothing to remove.
        let _ = finish(self.command(endpoint, &["cleanup"])).await;
        let output = finish(self.command(endpoint, &["prepare"])).await?;
        match output.status.success() {
            true => Ok(()),
            false => Err(complaint(&output)),
        }
    }

    /// # Errors
    /// As [`Sysbench::prepare`].
    pub async fn run(
        &self,
        endpoint: &Endpoint,
        clients: u64,
        length: Duration,
    ) -> Result<Outcome, LoadError> {
        let threads = format!("--threads={clients}");
        let time = format!("--time={}", length.as_secs().max(1));
        let command = self.command(endpoint, &[&threads, &time, "--percentile=99", "run"]);
        let output = finish(command).await?;
        let said = String::from_utf8_lossy(&output.stdout);
        match output.status.success() {
            true => read(&said).ok_or_else(|| complaint(&output)),
            false => Err(complaint(&output)),
        }
    }

    fn command(&self, endpoint: &Endpoint, arguments: &[&str]) -> Command {
        let (host, port) = match &endpoint.place {
            Place::Tcp(address) => (address.ip().to_string(), address.port()),
            Place::Unix { folder, port } => (folder.display().to_string(), *port),
        };
        let mut command = Command::new(&self.program);
        command
            .arg(SCRIPT)
            .args(["--db-driver=pgsql", "--db-ps-mode=disable"])
            .arg(format!("--pgsql-host={host}"))
            .arg(format!("--pgsql-port={port}"))
            .arg(format!("--pgsql-user={}", endpoint.user))
            .arg(format!("--pgsql-db={}", endpoint.database))
            .args(["--tables=1", "--use_fk=0", "--trx_level=RC"])
            .arg(format!("--scale={}", self.scale))
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

fn complaint(output: &Output) -> LoadError {
    // It complains on either side.
    let said = [&output.stderr[..], &output.stdout[..]].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains("FATAL"));
    LoadError::Sysbench(line.unwrap_or("no result").to_owned())
}

fn read(said: &str) -> Option<Outcome> {
    let words = |label: &str| {
        let line = said
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(label))?;
        Some(
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let number = |label: &str, place: usize| -> Option<f64> {
        words(label)?
            .get(place)?
            .trim_start_matches('(')
            .parse()
            .ok()
    };
    Some(Outcome {
        tps: number("transactions:", 1)?,
        transactions: number("transactions:", 0)? as u64,
        // A new order with a wrong item is rolled back on purpose (TPC-C, clause 2.4.1.4): "ignored errors" are no failures.
        failed: 0,
        mean_ms: number("avg:", 0)?,
        p50_ms: f64::NAN,
        p99_ms: number("99th percentile:", 0)?,
        connecting_ms: f64::NAN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysbench_says_is_read() {
        let said = "SQL statistics:\n    transactions:                        2391   (239.06 per sec.)\n    queries:                             7173   (717.18 per sec.)\n\
                    Latency (ms):\n         min:                                    0.40\n         avg:                                    4.18\n         99th percentile:                        12.98\n";
        let outcome = read(said).expect("a result");
        assert_eq!((outcome.transactions, outcome.tps), (2391, 239.06));
        assert_eq!((outcome.mean_ms, outcome.p99_ms), (4.18, 12.98));
        assert!(read("FATAL: nothing").is_none());
    }
}
