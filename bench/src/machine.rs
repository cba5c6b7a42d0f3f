//! What the report says about the machine and the programs.

use std::path::Path;
use std::process::Command;

use crate::guest;
use crate::lab::Lab;

pub fn describe() -> String {
    let host = processor_and_kernel();
    if guest::clock_is_instructions() {
        format!("an emulated machine whose clock counts instructions ({host})")
    } else {
        host
    }
}

fn processor_and_kernel() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let cpu =
        field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".into());
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let place = if read("/proc/cpuinfo").contains(" hypervisor") {
        ", virtual machine"
    } else {
        ""
    };
    format!(
        "{cpu}, {cores} cores, {} GiB{place}, Linux {}",
        memory / 1024 / 1024,
        read("/proc/sys/kernel/osrelease").trim()
    )
}

/// Load average of the last minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0.0)
}

pub fn versions(lab: &Lab) -> Vec<String> {
    let programs = [
        (&lab.programs.pgbouncer, "-V"),
        (&lab.programs.haproxy, "-v"),
        (&lab.programs.weir, "-V"),
    ];
    let mut versions: Vec<String> = lab.server.version().into_iter().collect();
    versions.extend(
        programs
            .into_iter()
            .filter_map(|(program, flag)| first_line(program.as_deref()?, flag)),
    );
    versions.extend(commit());
    versions
}

fn first_line(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_owned())
}

fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude", "*"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then(|| format!("commit {text}"))
}

/// Now, in UTC.
pub fn now() -> String {
    let output = Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%MZ"])
        .output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
