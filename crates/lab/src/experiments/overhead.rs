//! What a pooler adds to a transaction: time, processor, context switches.

use super::{bars, exactly, grid};
use crate::experiment::{About, Case, Experiment, Format, Measure, Plan, Point, Scope};
use crate::published;
use crate::results::{Chart, Check, Sample, Table, Verdict};
use crate::site::{Error, Setup, Site};
use crate::workload::{Detail, Job, Workload};
use std::time::Duration;

const POOL: u64 = 20;
/// The cases: one client, whose latency shows the way there and back; and several, whose number costs processor time.
const CASES: [(u64, &str); 3] = [
    (0, "empty transaction"),
    (1, "read-only"),
    (2, "read-write"),
];

pub struct Overhead;

impl Experiment for Overhead {
    fn name(&self) -> &'static str {
        "overhead"
    }

    fn about(&self) -> About {
        About {
            title: "What a pooler adds to a transaction".into(),
            shows: "Clients that do nothing but an empty transaction (BEGIN and COMMIT, two round trips), a read of one row by its key (one round trip) or a transaction as TPC-B has it \
                    (seven round trips). With one client the difference in latency is the pooler's own; with eight the processor is shared with it, so the throughput shows what it takes.".into(),
            axis: "clients".into(),
            measures: vec![
                Measure::main("p50_ms", "Median latency", Format::Milliseconds),
                Measure::main("tps", "Transactions", Format::PerSecond),
                Measure::detail("p99_ms", "99th percentile of latency", Format::Milliseconds),
                Measure::detail("cpu_us", "The pooler's processor time per transaction", Format::Microseconds),
                Measure::detail("switches", "Context switches of the whole machine per transaction", Format::Number),
                Measure::detail("own_switches", "Context switches of the pooler per transaction", Format::Number),
            ],
            published: published::overhead(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let cases: Vec<Case> = CASES.map(|(key, label)| Case::new(key, label)).into();
        let sizes = scope.depth.choose(vec![1], vec![1, 8], vec![1, 8, 64]);
        let length = length(scope.depth.choose(1, 1, 5));
        let cost = |_: &_, _: &_, _| length + Duration::from_millis(200);
        let points = grid(scope, &cases, |_, _| exactly(&sizes), cost);
        Plan::of(scope.depth.choose(1, 3, 7), points)
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let door = site.enter(&point.target, &Setup::pool_of(POOL))?;
        let watch = site.watch(&point.target)?;
        let workload = workload(point.case.key);
        let job = Job {
            endpoint: &door.endpoint,
            workload: &workload,
            clients: point.size,
            length: length(site.depth.choose(1, 1, 5)),
            detail: Detail::Percentiles,
        };
        let before = (door.usage(), crate::site::context_switches());
        let (outcome, servers) = site.run(watch.most_while(site.load.run(job)))?;
        let transactions = outcome.transactions.max(1) as f64;
        let mut sample = Sample::of([
            ("p50_ms", outcome.p50_ms),
            ("p99_ms", outcome.p99_ms),
            ("tps", outcome.tps),
        ]);
        if let (Some(before), Some(after)) = (before.0, door.usage()) {
            sample.set(
                "cpu_us",
                (after.cpu_seconds - before.cpu_seconds) * 1e6 / transactions,
            );
            let switches = after
                .context_switches
                .saturating_sub(before.context_switches);
            sample.set("own_switches", switches as f64 / transactions);
        }
        if let (Some(before), Some(after)) = (before.1, crate::site::context_switches()) {
            sample.set("switches", (after - before) as f64 / transactions);
        }
        // A pooler may open more server connections than it has clients, but not more than the pool's size.
        let most = if door.is_direct() { point.size } else { POOL };
        site.settle(door, &watch)?;
        Ok(sample
            .with(Check::none("failed transactions", outcome.failed))
            .with(Check::at_most("server connections in use", most, servers)))
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let targets = table.targets();
        let Some((direct, poolers)) = targets.split_first() else {
            return Verdict::default();
        };
        let mut sentences = Vec::new();
        for pooler in poolers {
            sentences.push(added(table, direct, pooler));
        }
        let headline = match poolers {
            [] => format!("{direct} alone was measured: name a second target to see what it adds."),
            [first, ..] => match added_ms(table, direct, first, 1) {
                Some(added) => format!(
                    "{first} adds {added:.3} ms to a read-only query of a single client, compared with {direct}."
                ),
                None => "Too little was measured to compare.".into(),
            },
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        let clients = table.rows.iter().map(|row| row.point.size).max();
        let throughput = format!("Transactions per second, {} clients", clients.unwrap_or(1));
        vec![
            bars(
                table,
                "latency",
                "Median latency of one client",
                "p50_ms",
                "ms",
                Some(1),
            ),
            bars(
                table,
                "throughput",
                &throughput,
                "tps",
                "per second",
                clients,
            ),
        ]
    }
}

/// Milliseconds that `pooler` adds to the median latency of one client.
pub fn added_ms(table: &Table, direct: &str, pooler: &str, case: u64) -> Option<f64> {
    let median = |target| table.median(target, case, 1, "p50_ms");
    Some(median(pooler)? - median(direct)?)
}

fn added(table: &Table, direct: &str, pooler: &str) -> String {
    let parts = CASES.iter().filter_map(|(case, label)| {
        let added = added_ms(table, direct, pooler, *case)?;
        let cpu = table.median(pooler, *case, 1, "cpu_us");
        let cpu = cpu.map_or_else(String::new, |cpu| {
            format!(" and {cpu:.0} \u{b5}s of processor time")
        });
        Some(format!(
            "{added:.3} ms{cpu} to one {label}{}",
            if label.ends_with("transaction") {
                ""
            } else {
                " transaction"
            }
        ))
    });
    let parts: Vec<String> = parts.collect();
    format!("{pooler} added {}.", parts.join(", "))
}

fn workload(case: u64) -> Workload {
    match case {
        0 => Workload::empty(),
        1 => Workload::read_only(),
        _ => Workload::read_write(),
    }
}

fn length(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
