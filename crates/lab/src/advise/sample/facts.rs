//! What a server says about itself: version, settings, this role's rights, and the machine beneath.

use super::WatchError;
use super::reader::{Reader, maybe, number, text};
use crate::advise::observations::{Hardware, Server, Setting, Sight};
use crate::advise::source::Source;
use crate::site::Machine;
use nix::unistd::{SysconfVar, sysconf};

/// Settings that matter, also those that older versions do not have. Their reset values where the adviser itself has set them.
const SETTINGS: &str = "SELECT name, unit, CASE WHEN name IN ('statement_timeout', 'lock_timeout') THEN reset_val ELSE setting END AS value \
     FROM pg_settings WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections', 'shared_buffers', \
     'work_mem', 'hash_mem_multiplier', 'huge_pages', 'huge_pages_status', 'huge_page_size', 'shared_memory_size', \
     'shared_memory_size_in_huge_pages', 'statement_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'track_activities')";
const IDENTITY: &str = "SELECT current_setting('server_version') AS version, current_setting('server_version_num') AS version_num, \
     current_user AS role, current_setting('is_superuser') AS superuser, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all, \
     a.pid, extract(epoch FROM a.backend_start) AS began FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()";
/// Files of /proc have no length: how much is read has to be said.
const MACHINE: &str = "SELECT pg_read_file('/proc/cpuinfo', 0, 4000000) AS cpu, pg_read_file('/proc/meminfo', 0, 100000) AS memory";
/// A process that began so many seconds beside the session is the session's.
const CLOCKS_DIFFER: f64 = 3.0;

/// The server, and from where its processes can be seen.
pub struct Facts {
    pub server: Server,
    pub view: View,
}

/// From where the files in the server's /proc can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The server runs on this machine.
    Here,
    /// A superuser may read them through the server.
    ThroughServer,
    Nowhere,
}

/// # Errors
/// [`WatchError`].
pub async fn ask(reader: &Reader, source: &Source) -> Result<Facts, WatchError> {
    let identity = reader.ask(IDENTITY).await?;
    let identity = identity.first().ok_or_else(|| {
        WatchError::Refused("the server does not show this session to itself".into())
    })?;
    let superuser = text(identity, "superuser") == "on";
    let sight = match superuser || text(identity, "sees_all") == "t" {
        true => Sight::Everything,
        false => Sight::OwnSessions,
    };
    let view = if runs_here(number(identity, "pid") as u32, number(identity, "began")) {
        View::Here
    } else if superuser {
        View::ThroughServer
    } else {
        View::Nowhere
    };
    let settings = reader.ask(SETTINGS).await?;
    let server = Server {
        address: source.address(),
        host: source.host.clone(),
        port: source.port,
        role: text(identity, "role").into(),
        version: text(identity, "version").into(),
        version_num: number(identity, "version_num") as u32,
        sight,
        settings: settings
            .iter()
            .map(|row| {
                let value = text(row, "value");
                (
                    text(row, "name").to_owned(),
                    setting(value, maybe(row, "unit")),
                )
            })
            .collect(),
    };
    Ok(Facts { server, view })
}

/// pg_settings gives whole numbers of a unit (manual, "pg_settings").
fn setting(value: &str, unit: Option<&str>) -> Setting {
    let factor = match unit {
        Some("kB") => 1_024.0,
        Some("8kB") => 8_192.0,
        Some("MB") => 1_048_576.0,
        Some("s") => 1_000.0,
        Some("min") => 60_000.0,
        _ => 1.0,
    };
    Setting {
        text: value.into(),
        number: value.parse::<f64>().ok().map(|number| number * factor),
    }
}

/// The machine beneath the server.
///
/// # Errors
/// [`WatchError::Lost`].
pub async fn hardware(reader: &Reader, view: View) -> Result<Hardware, WatchError> {
    match view {
        View::Here => {
            let machine = Machine::read();
            Ok(Hardware {
                cores: Some(machine.cores),
                memory_bytes: (machine.memory_bytes > 0).then_some(machine.memory_bytes),
            })
        }
        View::ThroughServer => {
            let files = reader.ask_if_allowed(MACHINE).await?;
            Ok(files.first().map_or_else(Hardware::default, |files| {
                described(text(files, "cpu"), text(files, "memory"))
            }))
        }
        View::Nowhere => Ok(Hardware::default()),
    }
}

/// From the texts of /proc/cpuinfo and /proc/meminfo.
fn described(cpu: &str, memory: &str) -> Hardware {
    let cores = cpu
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Hardware {
        cores: (cores > 0).then_some(cores),
        memory_bytes: kib.map(|kib| kib * 1_024),
    }
}

/// Whether the session's process is one of this machine: the same id, PostgreSQL's name, and the same start (proc(5), /proc/PID/stat).
/// An address tells less: of a server behind a pooler, or in a container, "127.0.0.1" may be anywhere.
fn runs_here(pid: u32, began: f64) -> bool {
    let started = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, fields) = stat.rsplit_once(')')?;
        let ticks: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
        let booted = crate::site::field("/proc/stat", "btime")? as f64;
        let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
        name.contains("postgres")
            .then(|| booted + ticks / per_second as f64)
    };
    started().is_some_and(|started: f64| (started - began).abs() < CLOCKS_DIFFER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_bytes_and_milliseconds() {
        let numbers = [("16384", "8kB"), ("4096", "kB"), ("30", "s"), ("7", "")]
            .map(|(value, unit)| setting(value, Some(unit)).number);
        let mib = 1_048_576.0;
        assert_eq!(
            numbers,
            [
                Some(128.0 * mib),
                Some(4.0 * mib),
                Some(30_000.0),
                Some(7.0)
            ]
        );
        assert_eq!(setting("try", None).number, None);
    }

    #[test]
    fn a_machine_is_described_by_its_files() {
        let cpu = "processor\t: 0\nmodel name\t: X\n\nprocessor\t: 1\n";
        let hardware = described(cpu, "MemTotal:       16000 kB\nMemFree: 1 kB\n");
        assert_eq!(
            (hardware.cores, hardware.memory_bytes),
            (Some(2), Some(16_384_000))
        );
        assert_eq!(described("", ""), Hardware::default());
    }

    #[test]
    fn this_process_is_no_session() {
        assert!(!runs_here(std::process::id(), 0.0));
    }
}
