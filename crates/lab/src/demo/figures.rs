//! What a trial has shown, and the closing table.

use super::load::Work;
use super::{CLIENTS, POOL_SIZE};
use crate::postgres::{Memory, MemoryKind};
use std::time::Duration;

#[derive(Debug)]
pub struct Figures {
    pub name: &'static str,
    pub clients: usize,
    pub refusal: Option<String>,
    pub opening: Duration,
    pub length: Duration,
    pub work: Work,
    /// The most server connections seen at once.
    pub connections_max: usize,
    /// All processes of PostgreSQL, while the clients were connected.
    pub postgres: Memory,
    pub weir: Option<Memory>,
}

impl Figures {
    fn per_second(&self) -> f64 {
        self.work.latencies.len() as f64 / self.length.as_secs_f64()
    }

    /// The latency that `share` of all transactions kept below.
    fn latency(&self, share: f64) -> Option<Duration> {
        let latencies = &self.work.latencies;
        let place = (latencies.len() as f64 * share).ceil() as usize;
        latencies.get(place.saturating_sub(1)).copied()
    }
}

type Value = fn(&Figures) -> String;

/// A line for each figure, a column for each trial.
pub fn table(trials: &[&Figures]) -> String {
    let rows: [(&str, Value); 9] = [
        ("", |trial| trial.name.to_owned()),
        ("clients connected", |trial| {
            format!("{} of {}", thousands(trial.clients), thousands(CLIENTS))
        }),
        ("time to connect them", |trial| {
            format!("{:.2} s", trial.opening.as_secs_f64())
        }),
        ("server connections", |trial| {
            thousands(trial.connections_max)
        }),
        ("transactions per second", |trial| {
            thousands(trial.per_second() as usize)
        }),
        ("latency, median", |trial| milliseconds(trial.latency(0.5))),
        ("latency, p99", |trial| milliseconds(trial.latency(0.99))),
        ("memory of PostgreSQL", |trial| {
            mebibytes(Some(trial.postgres))
        }),
        ("memory of Weir", |trial| mebibytes(trial.weir)),
    ];
    let mut text = String::new();
    for (number, (label, value)) in rows.iter().enumerate() {
        let cells = trials.iter().map(|trial| format!("{:>16}", value(trial)));
        text += &format!("  {label:<24}{}\n", cells.collect::<String>());
        if number == 0 {
            text += &format!("  {}\n", "-".repeat(24 + 16 * trials.len()));
        }
    }
    text
}

/// How the figures are to be read, and what went wrong.
pub fn footnotes(pooled: &Figures, direct: &Figures) -> String {
    let counted = match pooled.postgres.kind {
        MemoryKind::Proportional => "PSS: a page that n processes share counts 1/n in each",
        MemoryKind::Resident => "RSS: a page that n processes share counts n times",
    };
    let mut lines = vec![format!(
        "  Memory is that of all processes of PostgreSQL, {} through Weir and {} directly, while every client was connected\n  \
         ({counted}). Latency is that of a whole transaction, the wait for one of\n  \
         {POOL_SIZE} server connections included.",
        pooled.postgres.processes, direct.postgres.processes,
    )];
    for trial in [pooled, direct] {
        if let Some(reason) = &trial.refusal {
            lines.push(format!(
                "  {}: not every client could connect: {reason}",
                trial.name
            ));
        }
        if let Some(reason) = &trial.work.failure {
            lines.push(format!(
                "  {}: {} transactions failed, as with: {reason}",
                trial.name, trial.work.failures
            ));
        }
    }
    lines.join("\n")
}

fn milliseconds(latency: Option<Duration>) -> String {
    latency.map_or_else(
        || "-".into(),
        |latency| format!("{:.1} ms", latency.as_secs_f64() * 1e3),
    )
}

fn mebibytes(memory: Option<Memory>) -> String {
    memory.map_or_else(
        || "-".into(),
        |memory| format!("{:.1} MiB", memory.bytes as f64 / f64::from(1 << 20)),
    )
}

/// "12,345"
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(latencies: Vec<Duration>) -> Figures {
        let memory = Memory {
            bytes: 3 << 20,
            processes: 4,
            kind: MemoryKind::Resident,
        };
        Figures {
            name: "somehow",
            clients: 1_000,
            refusal: None,
            opening: Duration::from_millis(1_500),
            length: Duration::from_secs(2),
            work: Work {
                latencies,
                failures: 0,
                failure: None,
            },
            connections_max: 20,
            postgres: memory,
            weir: None,
        }
    }

    #[test]
    fn latencies_are_those_that_a_share_keeps_below() {
        let trial = figures((1..=100).map(Duration::from_millis).collect());
        assert_eq!(trial.latency(0.5), Some(Duration::from_millis(50)));
        assert_eq!(trial.latency(0.99), Some(Duration::from_millis(99)));
        assert_eq!(figures(Vec::new()).latency(0.5), None);
    }

    #[test]
    fn the_table_has_a_column_for_each_trial() {
        let trial = figures(vec![Duration::from_millis(4); 5_000]);
        let text = table(&[&trial, &trial]);
        let line = |label: &str| {
            text.lines()
                .find(|line| line.contains(label))
                .expect("a line")
                .split_whitespace()
                .last()
        };
        assert_eq!(line("per second"), Some("2,500"));
        assert!(text.contains("1,000 of 1,000") && text.contains("3.0 MiB"));
        assert!(text.lines().all(|line| line.len() == 58), "{text}");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
