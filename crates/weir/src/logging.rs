//! Where log lines go and what they look like. Everything else says `tracing::info!` and does not care.
//!
//! Lines are written by a thread of their own, so that a slow disk or a full pipe never stops a worker; when that thread cannot keep
//! up, lines are dropped rather than clients delayed. Destinations, format and level change at run time (`RELOAD`, `SET`).
//!
//! Levels carry PgBouncer's names: `LOG` is tracing's info, `-v` adds `DEBUG`, `-v -v` adds `NOISE`.

use settings::{General, LogFormat, SyslogFacility};
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields, MakeWriter};
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, reload};

/// Whether the log goes to stderr as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stderr {
    Used,
    Unused,
}

/// The running log. Dropping it writes what is still queued.
pub struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    destinations: Arc<Destinations>,
    _writer: WorkerGuard,
}

/// Lines that may wait for the writing thread.
const QUEUE_LINES_MAX: usize = 16_384;

impl Logging {
    /// Installs the log for the whole process. Starts a thread: call it after forking.
    pub fn start(general: &General, stderr: Stderr) -> anyhow::Result<Logging> {
        let destinations = Arc::new(Destinations::new(stderr));
        destinations.change(general)?;
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(QUEUE_LINES_MAX)
            .lossy(true)
            .finish(LineWriter(Arc::clone(&destinations)));
        let (level, handle) = reload::Layer::new(level_filter(general.verbose));
        tracing::subscriber::set_global_default(layers(level, writer, &destinations))?;
        log_panics();
        Ok(Logging {
            level: handle,
            destinations,
            _writer: guard,
        })
    }

    /// Takes over the settings and opens the log file again (it may have been rotated). If that fails the old one stays in use.
    pub fn change(&self, general: &General) -> io::Result<()> {
        // Fails only without a subscriber, which `start` has installed.
        let _ = self.level.reload(level_filter(general.verbose));
        self.destinations.change(general)
    }
}

fn level_filter(verbose: u32) -> LevelFilter {
    match verbose {
        0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// A panic is a fault of ours; it is logged where everything else is, and its thread's owner deals with the rest.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::force_capture();
        tracing::error!(%backtrace, "internal error: {panic}");
    }));
}

/// Text, JSON and syslog are layers of their own, each switched on or off while the program runs.
fn layers(
    level: reload::Layer<LevelFilter, Registry>,
    writer: NonBlocking,
    destinations: &Arc<Destinations>,
) -> impl Subscriber + Send + Sync + 'static {
    let when = |condition| When {
        destinations: Arc::clone(destinations),
        condition,
    };
    let text = tracing_subscriber::fmt::layer()
        .event_format(TextLine::WithTime)
        .with_writer(writer.clone());
    let json = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(writer);
    let syslog = tracing_subscriber::fmt::layer()
        .event_format(TextLine::Bare)
        .with_writer(SyslogWriters(Arc::clone(destinations)));
    tracing_subscriber::registry()
        .with(level)
        .with(text.with_filter(when(|log| log.format() == LogFormat::Text)))
        .with(json.with_filter(when(|log| log.format() == LogFormat::Json)))
        .with(syslog.with_filter(when(|log| log.syslog().is_some())))
}

/// Lets a layer's lines through while a condition holds.
struct When {
    destinations: Arc<Destinations>,
    condition: fn(&Destinations) -> bool,
}

impl<S> Filter<S> for When {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        (self.condition)(&self.destinations)
    }

    /// The condition may change: nothing may remember its answer.
    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
}

/// What the settings say about the log. Locks are held for a write at most.
struct Destinations {
    stderr: Stderr,
    file: Mutex<Option<File>>,
    format: RwLock<LogFormat>,
    syslog: RwLock<Option<Arc<Syslog>>>,
}

impl Destinations {
    fn new(stderr: Stderr) -> Destinations {
        Destinations {
            stderr,
            file: Mutex::default(),
            format: RwLock::new(LogFormat::Text),
            syslog: RwLock::default(),
        }
    }

    fn change(&self, general: &General) -> io::Result<()> {
        let file = general.logfile.as_deref().map(open).transpose()?;
        let syslog = general
            .syslog
            .then(|| Syslog::open(&general.syslog_ident, general.syslog_facility))
            .transpose()?;
        *self.file() = file;
        *self.format.write().unwrap_or_else(PoisonError::into_inner) = general.log_format;
        *self.syslog.write().unwrap_or_else(PoisonError::into_inner) = syslog.map(Arc::new);
        Ok(())
    }

    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn format(&self) -> LogFormat {
        *self.format.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn syslog(&self) -> Option<Arc<Syslog>> {
        self.syslog
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn open(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("logfile {}: {error}", path.display()))
    })
}

/// The end of the writing thread: one call, one line.
struct LineWriter(Arc<Destinations>);

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Nobody can be told that the log cannot be written.
        if self.0.stderr == Stderr::Used {
            let _ = io::stderr().write_all(line);
        }
        if let Some(file) = &mut *self.0.file() {
            let _ = file.write_all(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The system's log (RFC 3164, the form that `/dev/log` takes).
struct Syslog {
    socket: UnixDatagram,
    /// `ident[pid]: `
    head: String,
    facility: u8,
}

const SYSLOG_SOCKET: &str = "/dev/log";

impl Syslog {
    fn open(ident: &str, facility: SyslogFacility) -> io::Result<Syslog> {
        let socket = UnixDatagram::unbound()?;
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("syslog at {SYSLOG_SOCKET}: {error}"))
        };
        socket.connect(SYSLOG_SOCKET).map_err(failed)?;
        socket.set_nonblocking(true)?;
        Ok(Syslog {
            socket,
            head: format!("{ident}[{}]: ", std::process::id()),
            facility: facility_code(facility),
        })
    }

    /// Drops the line when the system's log cannot take it now.
    fn send(&self, level: Level, line: &[u8]) {
        let priority = self.facility * 8 + severity_code(level);
        let mut packet = format!("<{priority}>{}", self.head).into_bytes();
        packet.extend_from_slice(line.trim_ascii_end());
        let _ = self.socket.send(&packet);
    }
}

fn facility_code(facility: SyslogFacility) -> u8 {
    match facility {
        SyslogFacility::User => 1,
        SyslogFacility::Daemon => 3,
        SyslogFacility::Auth => 4,
        SyslogFacility::Authpriv => 10,
        SyslogFacility::Local0 => 16,
        SyslogFacility::Local1 => 17,
        SyslogFacility::Local2 => 18,
        SyslogFacility::Local3 => 19,
        SyslogFacility::Local4 => 20,
        SyslogFacility::Local5 => 21,
        SyslogFacility::Local6 => 22,
        SyslogFacility::Local7 => 23,
    }
}

fn severity_code(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

struct SyslogWriters(Arc<Destinations>);

impl MakeWriter<'_> for SyslogWriters {
    type Writer = SyslogWriter;

    fn make_writer(&self) -> SyslogWriter {
        SyslogWriter {
            syslog: self.0.syslog(),
            level: Level::INFO,
        }
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> SyslogWriter {
        SyslogWriter {
            syslog: self.0.syslog(),
            level: *event.level(),
        }
    }
}

/// For one line.
struct SyslogWriter {
    syslog: Option<Arc<Syslog>>,
    level: Level,
}

impl Write for SyslogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(syslog) = &self.syslog {
            syslog.send(self.level, line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// PgBouncer's line: `2026-11-21 22:00:07.123 UTC [1234] LOG text`.
#[derive(Clone, Copy)]
enum TextLine {
    WithTime,
    /// For syslog, which adds time and process by itself.
    Bare,
}

impl<S, N> FormatEvent<S, N> for TextLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if let TextLine::WithTime = self {
            let now = jiff::Zoned::now();
            write!(
                out,
                "{} [{}] ",
                now.strftime("%Y-%m-%d %H:%M:%S%.3f %Z"),
                std::process::id()
            )?;
        }
        let mut text = String::new();
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                write!(text, "{} {fields}: ", span.name())?;
            }
        }
        context.format_fields(Writer::new(&mut text), event)?;
        writeln!(
            out,
            "{} {}",
            level_name(*event.metadata().level()),
            OneLine(&text)
        )
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "LOG",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "NOISE",
    }
}

/// Keeps a line one line: names that peers choose are in it, and nobody shall write log lines by logging in.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                c if c.is_control() && c != '\t' => write!(f, "{}", c.escape_default())?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_forge_a_line() {
        assert_eq!(
            OneLine("user \"a\n2026 LOG b\x1b[1m\" é").to_string(),
            "user \"a\\n2026 LOG b\\u{1b}[1m\" é"
        );
    }

    #[test]
    fn the_level_follows_verbose() {
        let levels = [
            LevelFilter::INFO,
            LevelFilter::DEBUG,
            LevelFilter::TRACE,
            LevelFilter::TRACE,
        ];
        assert_eq!([0, 1, 2, 3].map(level_filter), levels);
    }

    #[test]
    fn a_log_file_that_cannot_be_opened_leaves_the_old_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("weir.log");
        let destinations = Arc::new(Destinations::new(Stderr::Unused));
        let mut general = General {
            logfile: Some(path.clone()),
            ..General::default()
        };
        destinations.change(&general).expect("the file can be made");
        general.logfile = Some(folder.path().join("missing/weir.log"));
        let error = destinations
            .change(&general)
            .expect_err("there is no such folder");
        assert!(error.to_string().contains("missing/weir.log"), "{error}");
        LineWriter(destinations)
            .write_all(b"still here\n")
            .expect("always written");
        assert_eq!(
            std::fs::read_to_string(path).expect("readable"),
            "still here\n"
        );
    }
}
