//! What connections take of the memory.

use super::grid;
use crate::driver::Crowd;
use crate::experiment::{About, Case, Experiment, Format, Measure, Plan, Point, Scope};
use crate::postgres::{Anatomy, anatomy};
use crate::published;
use crate::report::{bytes, count};
use crate::results::{Axis, Chart, Check, Sample, Table, Verdict};
use crate::site::{Error, Limit, Setup, Site};
use std::time::Duration;

const POOL: u64 = 20;
const IN_FLIGHT: u64 = 16;
const FRESH: u64 = 0;
const USED: u64 = 1;
/// Reads every row, and so touches every page of the table in shared memory: about 13 MB.
const USE: &str = "SELECT count(abalance) FROM weir_lab.accounts";

pub struct Memory;

impl Experiment for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> About {
        About {
            title: "What connections take of the memory".into(),
            shows: "Connections are opened and held, after SELECT 1 or after reading a table of 13 MB. Then the kernel's own account of every server process is read: private memory, which is the process's alone; \
                    proportional memory (PSS), in which a page shared by n processes counts 1/n for each; resident memory (RSS), in which it counts for each in full, so that the sum shows memory that does not exist; \
                    and the page tables, which belong to no process's account. Of a pooler: its own process, per client.".into(),
            axis: "connections".into(),
            measures: vec![
                Measure::main("pss", "All server processes, proportional, and their page tables", Format::Bytes),
                Measure::main("each", "One server connection: private and page tables", Format::Bytes),
                Measure::detail("private", "One server connection: private", Format::Bytes),
                Measure::detail("each_rss", "One server connection: resident", Format::Bytes),
                Measure::detail("page_tables", "Page tables of all server processes", Format::Bytes),
                Measure::detail("client", "The pooler, for each client", Format::Bytes),
                Measure::detail("servers", "Server connections", Format::Count),
            ],
            published: published::memory(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        if scope.targets.iter().any(|target| !target.is_own()) {
            return Plan {
                left_out: vec!["everything: the memory of server processes is only read of the lab's own server (run without --target)".into()],
                ..Plan::default()
            };
        }
        let cases = [
            Case::new(FRESH, "after SELECT 1"),
            Case::new(USED, "after reading 13 MB"),
        ];
        let wanted: &[u64] =
            scope
                .depth
                .choose(&[20], &[10, 100, 500], &[50, 100, 200, 500, 1_000, 5_000]);
        let sizes = |limit: &Limit, _: &Case| limit.fit(wanted);
        let cost = |_: &_, case: &Case, size: u64| {
            Duration::from_millis(300 + size * if case.key == USED { 17 } else { 6 })
        };
        Plan::of(
            scope.depth.choose(1, 2, 3),
            grid(scope, &cases, sizes, cost),
        )
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let server = site
            .own()
            .ok_or_else(|| Error::Unfit("the server is not the lab's own".into()))?
            .pid()?;
        let door = site.enter(&point.target, &Setup::pool_of(POOL))?;
        let watch = site.watch(&point.target)?;
        let before = (
            anatomy(server),
            door.pooler().map(|pooler| pooler.memory().bytes),
        );
        let hello = if point.case.key == USED {
            USE
        } else {
            "SELECT 1"
        };
        let crowd = site.run(async {
            let crowd = Crowd::open(&door.endpoint, point.size, IN_FLIGHT, Some(hello)).await;
            crowd.complete(point.size)
        })?;
        let servers = site.run(watch.connections())?;
        let after = anatomy(server);
        let mut sample = per_connection(&before.0, &after, servers);
        sample.set("servers", servers as f64);
        if let (Some(before), Some(pooler)) = (before.1, door.pooler()) {
            let more = pooler.memory().bytes.saturating_sub(before);
            sample.set("client", more as f64 / point.size as f64);
        }
        site.run(async {
            crowd.close().await;
            Ok::<_, Error>(())
        })?;
        sample = sample.with(match door.is_direct() {
            true => Check::exactly("server connections", point.size, servers),
            false => Check::at_most("server connections", POOL, servers),
        });
        site.settle(door, &watch)?;
        Ok(sample)
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let mut sentences = Vec::new();
        for target in table.targets() {
            for case in table.cases() {
                if let Some((size, all)) = table.line(target, case.key, "pss").last() {
                    sentences.push(format!(
                        "{} connections to {target} {}: {} for all server processes.",
                        count(*size),
                        case.label,
                        bytes(*all as u64)
                    ));
                }
            }
        }
        let first = table.targets().first().copied().unwrap_or_default();
        let last = |measure| {
            table
                .line(first, USED, measure)
                .last()
                .map(|(_, value)| *value as u64)
        };
        let headline = match (last("each"), last("each_rss")) {
            (Some(private), Some(resident)) => format!(
                "A server connection really takes {} once it has been used; counted as resident memory it looks like {}.",
                bytes(private),
                bytes(resident)
            ),
            _ => "The kernel does not tell here.".into(),
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        let mut series = table.series("pss", &[FRESH, USED]);
        for dot in series.iter_mut().flat_map(|series| &mut series.dots) {
            for number in [&mut dot.y, &mut dot.low, &mut dot.high] {
                *number /= f64::from(1 << 20);
            }
        }
        vec![Chart {
            id: "total".into(),
            title: "Memory of all server processes".into(),
            x: Axis::linear("connections"),
            y: Axis::linear("MiB"),
            series,
        }]
    }
}

fn per_connection(before: &Anatomy, after: &Anatomy, servers: u64) -> Sample {
    let each =
        |after: u64, before: u64| after.saturating_sub(before) as f64 / servers.max(1) as f64;
    let private = each(after.private, before.private);
    Sample::of([
        ("pss", (after.proportional + after.page_tables) as f64),
        (
            "each",
            private + each(after.page_tables, before.page_tables),
        ),
        ("private", private),
        ("each_rss", each(after.resident, before.resident)),
        ("page_tables", after.page_tables as f64),
    ])
}
