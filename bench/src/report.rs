//! docs/performance.md: verdicts first, then every measure's table, then how all of it was measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::figures::{Figures, Run, Series};
use crate::measures::{self, Measure};
use crate::targets::{self, Bound, Target};

const REFERENCE: &str = "pgbouncer";
/// The metric by which a measure compares parties, in this order of preference.
const COMPARED: [&str; 6] = [
    "cpu_us",
    "cpu_s_per_gb",
    "bytes",
    "all_instructions",
    "user_instructions",
    "tps",
];

/// Hand-written reasons: lines of the form `- key: text` in bench/notes.md.
pub fn reasons(notes: &str) -> BTreeMap<&str, &str> {
    notes
        .lines()
        .filter_map(|line| line.strip_prefix("- ")?.split_once(": "))
        .map(|(key, text)| (key.trim_matches('`'), text))
        .collect()
}

pub fn write(figures: &Figures, notes: &str) -> String {
    let mut out = String::from("# Performance\n\n");
    out += "This page is written by `cargo run --release -p weir-bench`; reasons come from `bench/notes.md`, samples are in `performance.jsonl` beside it.\n";
    out += "Ratios compare medians of interleaved runs on one machine. Absolute figures are that machine's: compare shapes, not numbers.\n\n";
    out += &verdicts(figures, &reasons(notes));
    out += &failures(figures);
    measures::ALL
        .iter()
        .for_each(|measure| out += &section(figures, measure));
    out += METHOD;
    out += &conditions(figures);
    out
}

fn verdicts(figures: &Figures, reasons: &BTreeMap<&str, &str>) -> String {
    let mut out = String::from(
        "## Promised and reached\n\n| measure | reactor | promised | reached | met | reason |\n| --- | --- | --- | ---: | --- | --- |\n",
    );
    for target in targets::all(figures) {
        let reached = target.figure.map_or("not measured".to_owned(), |figure| {
            format!("{}{}", number(figure), target.unit)
        });
        let met = match target.figure {
            None => "",
            Some(figure) if target.bound.met(figure) => "yes",
            Some(_) => "**no**",
        };
        let reason = reasons.get(target.key.as_str()).unwrap_or(&"");
        let reactor = target.party.trim_start_matches("weir ");
        let _ = writeln!(
            out,
            "| {} | {reactor} | {} | {reached} | {met} | {reason} |",
            target.text,
            promise(&target)
        );
    }
    out + "\n"
}

fn promise(target: &Target) -> String {
    match target.bound {
        Bound::AtMost(bound) => format!("at most {}{}", number(bound), target.unit),
        Bound::AtLeast(bound) => format!("at least {}{}", number(bound), target.unit),
    }
}

fn failures(figures: &Figures) -> String {
    let lines: String = figures
        .failures()
        .map(|failure| {
            format!(
                "- {} ({}), {}: {}\n",
                failure.measure, failure.variant, failure.party, failure.reason
            )
        })
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("Parties that failed, whose figures are therefore missing:\n\n{lines}\n")
    }
}

fn section(figures: &Figures, measure: &Measure) -> String {
    let Some(run) = figures.run(measure.name) else {
        return String::new();
    };
    let mut out = format!("## {}\n\n", measure.title);
    if run.quick {
        out += "**A smoke run: short, one round. Not to be quoted.**\n\n";
    }
    let all: Vec<&Series> = figures.series(measure.name).collect();
    let metrics: BTreeSet<&str> = all.iter().map(|series| series.metric.as_str()).collect();
    let compared = COMPARED.into_iter().find(|metric| metrics.contains(metric));
    let heads: String = metrics
        .iter()
        .map(|metric| format!(" {} |", title(metric)))
        .collect();
    let _ = writeln!(
        out,
        "| variant | party | of PgBouncer's |{heads}\n| --- | --- | ---: |{}",
        " ---: |".repeat(metrics.len())
    );
    for (variant, party) in rows(&all) {
        let of = |party: &str, metric: &str| {
            all.iter().find(|series| {
                series.variant == variant && series.party == party && series.metric == metric
            })
        };
        let ratio = compared.and_then(|metric| {
            Some(number(
                of(party, metric)?.median() / of(REFERENCE, metric)?.median(),
            ))
        });
        let cells: String = metrics
            .iter()
            .map(|metric| {
                format!(
                    " {} |",
                    of(party, metric).map_or(String::new(), |series| cell(series))
                )
            })
            .collect();
        let _ = writeln!(
            out,
            "| {variant} | {party} | {} |{cells}",
            ratio.unwrap_or_default()
        );
    }
    let _ = writeln!(
        out,
        "\nMedians of {} rounds, ± half the distance between the extremes.\n",
        run.rounds
    );
    out
}

/// Variant and party of each row, in the order in which they were measured.
fn rows<'a>(all: &[&'a Series]) -> Vec<(&'a str, &'a str)> {
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for series in all {
        let row = (series.variant.as_str(), series.party.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.sort_by_key(|(variant, party)| (variant_rank(variant), *party));
    rows
}

/// Sorts "trust, 2000" before "trust, 10000".
fn variant_rank(variant: &str) -> (&str, u64) {
    match variant
        .rsplit_once(", ")
        .and_then(|(name, count)| Some((name, count.parse().ok()?)))
    {
        Some(rank) => rank,
        None => (variant, 0),
    }
}

fn cell(series: &Series) -> String {
    // Around zero a relative spread says nothing.
    if series.samples.len() < 2 || series.median() == 0.0 {
        return number(series.median());
    }
    format!(
        "{} ±{:.0} %",
        number(series.median()),
        series.spread() * 100.0
    )
}

fn title(metric: &str) -> &str {
    match metric {
        "cpu_us" => "CPU, us each",
        "cpu_s_per_gb" => "CPU, s per GB",
        "latency_us" => "latency, us",
        "p50_us" => "p50, us",
        "p99_us" => "p99, us",
        "p99_by_p50" => "p99 / p50",
        "user_instructions" => "user instructions",
        "all_instructions" => "instructions, user and kernel",
        "tps" => "per second",
        "wall_us" => "wall, us each",
        "wall_s" => "wall, s",
        "bytes" => "bytes each",
        "grown_kib" => "memory grown, KiB",
        "mb_per_second" => "MB per second",
        "open_s" => "opening, s",
        "idle_clients" => "idle clients",
        other => other,
    }
}

/// Three significant figures, thousands separated.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => thousands(value.round() as i64),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0 { format!("-{out}") } else { out }
}

const METHOD: &str = "## Method

- One PostgreSQL (fsync off, tables in memory) serves all parties. Each has the same pool of 20 in transaction mode and TCP on both sides, and logs in as
  a user of its own; how many connections that user has is read from `pg_stat_activity` during the run, and a run that used another number than configured is discarded and reported as failed.
- All parties run at once and are measured in turn, round after round, so that a busy minute of the machine hits all alike. Figures are medians of the rounds.
- CPU time is that of the pooler's process, all threads, from the kernel's own clock of the process (`clock_getcpuclockid`), divided by the transactions, connections or bytes that went through. What the kernel does for the
  pooler's sockets in the context of another process (half of loopback's receive path) is not in it, for any party.
- PgBouncer and Weir read the same configuration file; Weir's adds `reactor` and `worker_threads` (one worker unless the row says otherwise, as PgBouncer has one thread). Logging of connections is off for both. HAProxy runs one thread in TCP mode without a pool.
- Transactions come from `pgbench -S`; connections, crowds and transfers from a generator that is part of the bench: one thread on epoll, SCRAM keys derived once, sources spread over 127.1.0.0/16.
- Instructions are counted by the processor (`perf stat -e instructions:u,instructions:k`) where the machine allows it; the columns stand beside the CPU time then. Virtual machines often do not. Where they do not, all instructions are
  counted in an interpreted machine (QEMU with `-icount shift=0`, one processor, a Debian kernel) whose clock advances one nanosecond for each instruction, so that CPU time is a count of instructions; the user part comes from valgrind's
  callgrind. Both are the difference between a longer and a shorter run, divided by the transactions between them, and hardly vary. On one processor more messages arrive together than on two: such counts are lower than perf's, for all parties.
- The 100,000 idle clients need as many open files. Where a process may not have them, the measure runs in that same interpreted machine, or with as many clients as are allowed: the column \"idle clients\" says how many there were.
- Memory for each idle client is the growth of the proportional set size of a fresh process, after a first hundred clients, divided by the clients that were added.
- SELECT returns rows of 1,000 bytes; COPY moves lines of 100 bytes, in as messages of 8 KiB. A slow reader stops reading for 0.3 s in the middle of a result of 400 MB; \"memory grown\" is the peak of the resident set above its size before.

";

fn conditions(figures: &Figures) -> String {
    let mut groups: Vec<(&Run, Vec<&str>)> = Vec::new();
    for run in figures.runs() {
        match groups.iter_mut().find(|(first, _)| {
            first.machine == run.machine
                && first.versions == run.versions
                && first.command == run.command
        }) {
            Some((_, names)) => names.push(&run.measure),
            None => groups.push((run, vec![&run.measure])),
        }
    }
    let mut out = String::from("## Machine, versions, commands\n\n");
    for (run, names) in groups {
        let _ = writeln!(
            out,
            "- {}: `{}`, from {}, on {}; {}. Load average {:.1} before.",
            names.join(", "),
            run.command,
            run.at,
            run.machine,
            run.versions.join("; "),
            run.load.0
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Samples;

    #[test]
    fn numbers_have_three_figures() {
        assert_eq!(number(0.754), "0.75");
        assert_eq!(number(35.24), "35.2");
        assert_eq!(number(437.4), "437");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(-1234.0), "-1,234");
    }

    #[test]
    fn a_missed_target_shows_its_reason() {
        let mut samples = Samples::default();
        samples.add("simple", &REFERENCE, "cpu_us", 40.0);
        samples.add("simple", &"weir io_uring", "cpu_us", 36.0);
        let run = Run {
            measure: "simple".into(),
            at: "now".into(),
            command: "bench".into(),
            machine: "here".into(),
            versions: vec![],
            rounds: 5,
            quick: false,
            load: (0.1, 0.1),
        };
        let mut figures = Figures::default();
        figures.replace(run, samples);
        let page = write(&figures, "- `simple/io_uring`: the kernel is old\n");
        assert!(
            page.contains("| at most 0.75 | 0.90 | **no** | the kernel is old |"),
            "{page}"
        );
        assert!(
            page.contains("| simple | weir io_uring | 0.90 | 36.0 |"),
            "{page}"
        );
    }

    #[test]
    fn variants_are_in_the_order_of_their_numbers() {
        let mut variants = ["trust, 10000", "trust, 2000", "scram, 1000"];
        variants.sort_by_key(|variant| variant_rank(variant));
        assert_eq!(variants, ["scram, 1000", "trust, 2000", "trust, 10000"]);
    }
}
