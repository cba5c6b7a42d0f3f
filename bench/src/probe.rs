//! What is read from outside about a process and about PostgreSQL: CPU time, instructions, memory, connections in use.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::postgres::{DATABASE, Postgres};

/// CPU time of a process so far, user and kernel, all its threads, also those that ended, in seconds.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut clock = 0;
    // SAFETY: `clock` is valid for writing one clockid_t.
    if unsafe { libc::clock_getcpuclockid(pid as i32, &mut clock) } != 0 {
        bail!("process {pid} is gone");
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing one timespec.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        bail!("process {pid} is gone");
    }
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// CPU time of a process's children that have ended and been waited for, in seconds (proc(5), fields cutime and cstime).
pub fn cpu_seconds_of_the_dead(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field, the name, may itself hold blanks.
    let (_, fields) = text.rsplit_once(')').context("no name in /proc/PID/stat")?;
    let ticks: Vec<f64> = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    // SAFETY: sysconf() has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks.iter().sum::<f64>() / per_second as f64)
}

/// Proportional set size of a process, in bytes.
pub fn memory(pid: u32) -> Result<u64> {
    kib_field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Resident set size of a process, in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    kib_field(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// The largest resident set since [`forget_peak`], in bytes.
pub fn peak_resident(pid: u32) -> Result<u64> {
    kib_field(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Starts a new measurement of the peak (proc(5), "clear_refs", value 5).
pub fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .context("resetting the peak of the resident set")
}

fn kib_field(path: &str, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("no {name} in {path}"))?;
    let number = line.split_whitespace().next().context("no number")?;
    Ok(number.parse::<u64>()? * 1024)
}

/// Instructions executed by a process, counted by the processor through perf(1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instructions {
    pub user: f64,
    pub kernel: f64,
}

/// Whether this machine lets perf count instructions; virtual machines often do not.
pub fn counts_instructions() -> bool {
    let output = Command::new("perf")
        .args([
            "stat",
            "-x",
            ",",
            "-e",
            "instructions:u,instructions:k",
            "true",
        ])
        .output();
    output.is_ok_and(|output| parse_perf(&String::from_utf8_lossy(&output.stderr)).is_some())
}

/// A running `perf stat` on one process.
pub struct InstructionCount {
    perf: Child,
}

impl InstructionCount {
    pub fn begin(pid: u32) -> Result<Self> {
        let perf = Command::new("perf")
            .args([
                "stat",
                "-x",
                ",",
                "-e",
                "instructions:u,instructions:k",
                "-p",
                &pid.to_string(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting perf")?;
        Ok(Self { perf })
    }

    pub fn end(self) -> Result<Instructions> {
        // SAFETY: kill() takes no pointers; the child has not been waited for. SIGINT makes perf print.
        unsafe { libc::kill(self.perf.id() as i32, libc::SIGINT) };
        let output = self.perf.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        parse_perf(&text).with_context(|| format!("perf said: {text}"))
    }
}

fn parse_perf(text: &str) -> Option<Instructions> {
    let count = |event: &str| {
        let line = text
            .lines()
            .find(|line| line.split(',').any(|field| field == event))?;
        line.split(',').next()?.parse().ok()
    };
    Some(Instructions {
        user: count("instructions:u")?,
        kernel: count("instructions:k")?,
    })
}

pub fn valgrind_is_there() -> bool {
    Command::new("valgrind")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The sum that callgrind writes when its program ends.
pub fn callgrind_total(path: &Path) -> Result<f64> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(total
        .context("no totals in callgrind's file")?
        .trim()
        .parse()?)
}

/// How many server connections a run must have used for its figures to mean anything.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    Exactly(u64),
    AtMost(u64),
}

impl Expected {
    pub fn check(self, used: u64) -> Result<()> {
        match self {
            Self::Exactly(count) if used != count => {
                bail!("{used} server connections in use, {count} were configured")
            }
            Self::AtMost(count) if used > count || used == 0 => {
                bail!("{used} server connections in use, at most {count} were configured")
            }
            _ => Ok(()),
        }
    }
}

/// Watches, in a thread of its own, how many connections `user` has to PostgreSQL.
pub struct ConnectionWatch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

const WATCH_EVERY: Duration = Duration::from_millis(100);

impl ConnectionWatch {
    pub fn begin(server: &Postgres, user: &str) -> Result<Self> {
        let mut session = server.session(DATABASE)?;
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}'");
        let over = Arc::new(AtomicBool::new(false));
        let seen_over = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut most = 0;
            while !seen_over.load(Ordering::Relaxed) {
                std::thread::sleep(WATCH_EVERY);
                most = most.max(session.number(&sql)?);
            }
            Ok(most)
        });
        Ok(Self { over, thread })
    }

    /// The most that were ever seen at once.
    pub fn end(self) -> Result<u64> {
        self.over.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(most) => most,
            Err(_) => bail!("the watch on server connections failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_output_is_read_or_refused() {
        let text = "4000,,instructions:u,1000,100.00,,\n36400,,instructions:k,1000,100.00,,\n";
        assert_eq!(
            parse_perf(text),
            Some(Instructions {
                user: 4000.0,
                kernel: 36400.0
            })
        );
        assert_eq!(
            parse_perf("<not supported>,,instructions:u,0,100.00,,\n"),
            None
        );
    }

    #[test]
    fn cpu_time_of_this_process_grows() {
        let pid = std::process::id();
        let before = cpu_seconds(pid).expect("own process");
        let mut work = 0_u64;
        while cpu_seconds(pid).expect("own process") <= before {
            work = std::hint::black_box(work + 1);
        }
        assert!(resident(pid).expect("own process") > 0);
        assert!(memory(pid).expect("own process") > 0);
    }

    #[test]
    fn a_wrong_number_of_connections_is_refused() {
        assert!(Expected::Exactly(20).check(19).is_err());
        assert!(Expected::Exactly(20).check(20).is_ok());
        assert!(Expected::AtMost(20).check(0).is_err());
        assert!(Expected::AtMost(20).check(21).is_err());
    }
}
