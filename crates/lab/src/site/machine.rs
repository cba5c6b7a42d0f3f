//! The machine, as the kernel describes it. On systems without `/proc` most of it is unknown.

use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What belongs into a report about measurements.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
    pub memory_bytes: u64,
    /// Free when the run began.
    pub available_bytes: u64,
    pub processes_max: u64,
    /// Configured huge pages (2 MiB each on most machines).
    pub huge_pages: u64,
}

/// What a process has used since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub cpu_seconds: f64,
    /// Of all its threads.
    pub context_switches: u64,
}

impl Machine {
    pub fn read() -> Self {
        let kernel = read("/proc/sys/kernel/osrelease");
        let processor = read("/proc/cpuinfo");
        let model = processor
            .lines()
            .find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(": "));
        Self {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            processor: model.map_or("", |(_, name)| name).trim().into(),
            kernel: kernel.trim().into(),
            memory_bytes: memory_field("MemTotal:"),
            available_bytes: memory_field("MemAvailable:"),
            processes_max: read("/proc/sys/kernel/pid_max")
                .trim()
                .parse()
                .unwrap_or(32_768),
            huge_pages: field("/proc/meminfo", "HugePages_Total:").unwrap_or_default(),
        }
    }
}

/// A line of /proc/meminfo, in bytes.
pub fn memory_field(name: &str) -> u64 {
    field("/proc/meminfo", name).unwrap_or_default() * 1_024
}

/// Context switches of the whole machine so far (proc(5), "/proc/stat").
pub fn context_switches() -> Option<u64> {
    field("/proc/stat", "ctxt")
}

/// CPU time and context switches of a process; `None` when it is gone or not ours to look at.
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields 14 and 15 (proc(5)); the second, the name, may itself hold blanks.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    let threads = Path::new("/proc").join(pid.to_string()).join("task");
    let switches = threads.read_dir().ok()?.flatten().filter_map(|thread| {
        let status = thread.path().join("status").display().to_string();
        Some(
            field(&status, "voluntary_ctxt_switches:")?
                + field(&status, "nonvoluntary_ctxt_switches:")?,
        )
    });
    Some(Usage {
        cpu_seconds: ticks as f64 / per_second as f64,
        context_switches: switches.sum(),
    })
}

/// The first number of the line that begins with `name`.
pub fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}
