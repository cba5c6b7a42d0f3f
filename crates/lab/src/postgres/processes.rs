//! The processes of one server, as the kernel's process table shows them: what to signal and how much memory they take.
//! On systems without `/proc` only the postmaster itself is known.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::path::Path;

/// Memory of a family of processes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub bytes: u64,
    pub processes: usize,
    pub kind: MemoryKind,
}

/// How the memory was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Proportional: a page that n processes share counts 1/n for each (`/proc/PID/smaps_rollup`).
    Proportional,
    /// Resident: shared pages count for each process (`/proc/PID/statm`).
    Resident,
}

/// Memory of a family of processes, by kind, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Anatomy {
    /// Pages that one process alone has.
    pub private: u64,
    /// Private pages, and a share of the shared ones.
    pub proportional: u64,
    /// Shared pages count for each process.
    pub resident: u64,
    /// What the kernel needs to find the pages.
    pub page_tables: u64,
}

/// `postmaster` and its children. PostgreSQL's process tree has these two levels (manual, "How Connections Are Established").
pub fn family(postmaster: u32) -> Vec<Pid> {
    let parents: HashMap<u32, u32> = process_ids()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    parents
        .iter()
        .filter(|(_, parent)| **parent == postmaster)
        .map(|(pid, _)| *pid)
        .chain([postmaster])
        .map(|pid| Pid::from_raw(pid as i32))
        .collect()
}

/// Sends `signal` to every process of the family and says which these were; the postmaster is frozen first, so that it starts no new
/// ones meanwhile.
pub fn signal_family(postmaster: u32, signal: Signal) -> Vec<Pid> {
    // A process that is gone already needs no signal.
    let _ = kill(Pid::from_raw(postmaster as i32), Signal::SIGSTOP);
    let family = family(postmaster);
    for pid in &family {
        let _ = kill(*pid, signal);
    }
    family
}

/// Whether a process has ended; what is left of it may still wait to be reaped.
pub fn has_ended(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name stands in parentheses and may hold anything, also parentheses.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().next());
    matches!(state, None | Some("Z" | "X"))
}

/// Memory of a process and its children, proportional where the kernel and our rights allow.
pub fn memory(parent: u32) -> Memory {
    let family = family(parent);
    let sum =
        |of: fn(Pid) -> Option<u64>| -> u64 { family.iter().filter_map(|pid| of(*pid)).sum() };
    let (bytes, kind) = match sum(proportional) {
        0 => (sum(resident), MemoryKind::Resident),
        bytes => (bytes, MemoryKind::Proportional),
    };
    Memory {
        bytes,
        processes: family.len(),
        kind,
    }
}

/// Memory of a process and its children, by kind; all zero where the kernel does not tell.
pub fn anatomy(parent: u32) -> Anatomy {
    let mut all = Anatomy::default();
    for pid in family(parent) {
        let one = anatomy_of(pid.as_raw() as u32);
        all.private += one.private;
        all.proportional += one.proportional;
        all.resident += one.resident;
        all.page_tables += one.page_tables;
    }
    all
}

/// Memory of one process, by kind; all zero where the kernel does not tell, or not us.
pub fn anatomy_of(pid: u32) -> Anatomy {
    let file = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    Anatomy::read(&file("smaps_rollup"), &file("status"))
}

impl Anatomy {
    /// From the texts of `/proc/PID/smaps_rollup` and `/proc/PID/status`.
    pub fn read(rollup: &str, status: &str) -> Self {
        Self {
            private: bytes(rollup, "Private_Clean:") + bytes(rollup, "Private_Dirty:"),
            proportional: bytes(rollup, "Pss:"),
            resident: bytes(rollup, "Rss:"),
            page_tables: bytes(status, "VmPTE:"),
        }
    }
}

/// A line such as "Pss:    123 kB".
fn bytes(file: &str, name: &str) -> u64 {
    let rest = file.lines().find_map(|line| line.strip_prefix(name));
    let kib = rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Removes the System V segment by which a postmaster guards its data folder, if the postmaster was killed and could not do so itself.
/// Line 7 of postmaster.pid holds its key and its id.
pub fn forget_shared_memory(data: &Path) {
    let segment = std::fs::read_to_string(data.join("postmaster.pid"))
        .ok()
        .and_then(|file| file.lines().nth(6)?.split_whitespace().nth(1)?.parse().ok());
    if let Some(segment) = segment {
        // SAFETY: IPC_RMID takes no buffer; a segment that is not there any more is an error that does not matter.
        unsafe { nix::libc::shmctl(segment, nix::libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

fn process_ids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Field 4 of `/proc/PID/stat`; field 2, the name in brackets, may itself hold brackets and spaces.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

fn proportional(pid: Pid) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kib: u64 = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))?
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .ok()?;
    Some(kib * 1024)
}

fn resident(pid: Pid) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * page as u64)
}
