//! work_mem against the memory there is, and huge pages.

use super::{bytes, number};
use crate::advise::advice::{Advice, Change, Topic, Weight};
use crate::advise::observations::{MemorySource, Observations};
use crate::report::count;

const MIB: f64 = 1_048_576.0;
/// Of all memory; the rest is the system's and its file cache's.
const AFFORDABLE: f64 = 0.75;
/// Sorts and hashes of one statement that may be in memory at the same time.
const NODES: f64 = 2.0;
/// No larger step at once.
const WORK_MEM_STEP: f64 = 4.0;
/// From here on, page tables for shared memory are worth a restart.
const SHARED_MEMORY_LARGE: f64 = 1_024.0 * MIB;
const PAGE_TABLES_LARGE: f64 = 256.0 * MIB;
/// A page table has 8 bytes for each 4 KiB page that a process has touched.
const BYTES_PER_PAGE_TABLE_BYTE: f64 = 512.0;

pub fn add(seen: &Observations, advice: &mut Advice) {
    worst_case(seen, advice);
    spilled(seen, advice);
    huge_pages(seen, advice);
}

/// What a sort or a hash may take (manual, "work_mem" and "hash_mem_multiplier").
fn work_mem(seen: &Observations) -> Option<(f64, f64)> {
    let multiplier = seen.server.number("hash_mem_multiplier").unwrap_or(1.0);
    Some((seen.server.number("work_mem")?, multiplier))
}

fn session_bytes(seen: &Observations) -> f64 {
    seen.memory.as_ref().map_or(0.0, |memory| memory.mean_bytes)
}

fn worst_case(seen: &Observations, advice: &mut Advice) -> Option<()> {
    let (work_mem, multiplier) = work_mem(seen)?;
    let connections = seen.server.number("max_connections")?;
    let buffers = seen.server.number("shared_buffers")?;
    let each = session_bytes(seen);
    let worst = buffers + connections * (work_mem * multiplier + each);
    let sum = format!(
        "If every one of max_connections = {connections} sessions ran one hash of work_mem {} × hash_mem_multiplier {}, with {} of its own and shared_buffers {}, that would be {}",
        bytes(work_mem),
        number(multiplier),
        bytes(each),
        bytes(buffers),
        bytes(worst),
    );
    let (weight, text) = match seen.hardware.memory_bytes.map(|all| all as f64) {
        None => (Weight::Plain, format!("{sum}.")),
        Some(all) if worst > all => (
            Weight::Act,
            format!(
                "{sum}, and there is {}: the kernel may end the server. Fewer connections (below) are the cure; until then a smaller work_mem.",
                bytes(all)
            ),
        ),
        Some(all) => (
            Weight::Good,
            format!("{sum} of {}: {:.0} %.", bytes(all), worst / all * 100.0),
        ),
    };
    advice.find(Topic::Memory, weight, text);
    Some(())
}

/// What did not fit into work_mem went to files.
fn spilled(seen: &Observations, advice: &mut Advice) -> Option<()> {
    let files: f64 = seen.databases.iter().map(|d| d.temporary_files).sum();
    let spilled: f64 = seen.databases.iter().map(|d| d.temporary_bytes).sum();
    if files < 1.0 {
        let text = "No sort or hash went to a temporary file: work_mem is large enough.";
        advice.find(Topic::Memory, Weight::Good, text);
        return None;
    }
    let told = format!(
        "{} temporary files with {} were written: sorts or hashes did not fit into work_mem.",
        count(files as u64),
        bytes(spilled)
    );
    let (current, _) = work_mem(seen)?;
    let (weight, text) = match room(seen, current) {
        Some(room) if room > current => {
            advice.changes.push(Change {
                what: format!("ALTER SYSTEM SET work_mem = '{}MB'; SELECT pg_reload_conf();", room / MIB),
                why: "sorts and hashes went to temporary files; only once the connections are as few as below".into(),
            });
            (
                Weight::Act,
                format!(
                    "{told} With a pooler's few connections there is room for work_mem = {}.",
                    bytes(room)
                ),
            )
        }
        _ => (Weight::Plain, told),
    };
    advice.find(Topic::Memory, weight, text);
    Some(())
}

/// The largest work_mem, a power of two in MiB, that is affordable with as many sessions as were at work and as many again.
fn room(seen: &Observations, current: f64) -> Option<f64> {
    let memory = seen.hardware.memory_bytes? as f64;
    let buffers = seen.server.number("shared_buffers")?;
    let (_, multiplier) = work_mem(seen)?;
    let sessions = f64::from(seen.load.busy.max().max(1)) * 2.0;
    let free = memory * AFFORDABLE - buffers - sessions * session_bytes(seen);
    let each = (free / (sessions * NODES * multiplier)).min(current * WORK_MEM_STEP);
    (each >= MIB).then(|| (each / MIB).log2().floor().exp2() * MIB)
}

fn huge_pages(seen: &Observations, advice: &mut Advice) -> Option<()> {
    let pages = seen
        .server
        .number("shared_memory_size_in_huge_pages")
        .filter(|pages| *pages > 0.0)?;
    // Megabytes, as the server has it; pg_settings gives it the unit.
    let shared = seen.server.number("shared_memory_size")?;
    let wanted = seen.server.text("huge_pages").unwrap_or("?");
    let status = seen.server.text("huge_pages_status");
    let used = match status {
        Some(status) => format!("huge_pages = {wanted}, and they are {status}"),
        None => format!(
            "huge_pages = {wanted} (before version 17 the server does not tell whether it got them)"
        ),
    };
    let text = format!(
        "Shared memory is {}: {pages} huge pages. {used}.",
        bytes(shared)
    );
    if status == Some("on") || wanted == "on" {
        advice.find(Topic::HugePages, Weight::Good, text);
        return None;
    }
    let each = shared / BYTES_PER_PAGE_TABLE_BYTE;
    let sessions = seen.load.sessions.mean();
    let measured = match &seen.memory {
        Some(memory) if memory.source == MemorySource::Kernel => format!(
            " (measured, with those for its own memory: {})",
            bytes(memory.page_tables_mean_bytes)
        ),
        _ => String::new(),
    };
    let text = format!(
        "{text} Without them every session has up to {} of page tables for it{measured}, up to {} for the {} sessions of now.",
        bytes(each),
        bytes(each * sessions),
        number(sessions)
    );
    let worthwhile = shared >= SHARED_MEMORY_LARGE || each * sessions >= PAGE_TABLES_LARGE;
    if !worthwhile {
        let text = format!("{text} That is little.");
        advice.find(Topic::HugePages, Weight::Plain, text);
        return None;
    }
    advice.find(Topic::HugePages, Weight::Act, text);
    advice.changes.push(Change {
        what: format!("sysctl -w vm.nr_hugepages={pages}; ALTER SYSTEM SET huge_pages = 'on';  -- then a restart"),
        why: format!("up to {} of page tables less; with 'on' the server does not start without them, instead of running without telling", bytes(each * sessions)),
    });
    Some(())
}
