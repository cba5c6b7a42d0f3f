//! What idle connections cost the active ones.

use super::{grid, percent};
use crate::driver::{Clock, Connection, Crowd};
use crate::experiment::{About, Case, Depth, Experiment, Format, Measure, Plan, Point, Scope};
use crate::published;
use crate::report::count;
use crate::results::{Axis, Chart, Check, Sample, Table, Verdict};
use crate::site::{Error, Limit, Setup, Site};
use crate::workload::{Detail, Job, Workload};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const POOL: u64 = 20;
const IN_FLIGHT: u64 = 16;
/// What each connection runs before it is held, as in the published reproduction.
const HELLO: &str = "SELECT 1";
/// How long a mostly idle client sleeps between two queries.
const NAP: Duration = Duration::from_millis(100);
const IDLE: u64 = 0;
const MOSTLY_IDLE: u64 = 1;

pub struct Idle;

impl Experiment for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn about(&self) -> About {
        About {
            title: "What idle connections cost the active ones".into(),
            shows: "Connections are opened, run SELECT 1 once and are held: idle. Or each of them sleeps 100 ms, sends one query, and sleeps again: mostly idle. Beside them 1, 10 and a few clients per core \
                    read rows by their key as fast as they can. If connections were free, the throughput would not depend on how many others there are.".into(),
            axis: "other connections".into(),
            measures: vec![
                Measure::main("tps_n", "Transactions of 4 active clients per core", Format::PerSecond),
                Measure::main("tps_1", "Transactions of 1 active client", Format::PerSecond),
                Measure::detail("tps_10", "Transactions of 10 active clients", Format::PerSecond),
                Measure::detail("naps", "Queries of the mostly idle ones", Format::PerSecond),
                Measure::main("open_s", "Time to open the others", Format::Seconds),
                Measure::detail("servers", "Server connections", Format::Count),
            ],
            published: published::idle(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let cases = [
            Case::new(IDLE, "idle"),
            Case::new(MOSTLY_IDLE, "mostly idle"),
        ];
        let wanted: &[u64] = scope.depth.choose(
            &[0, 20],
            &[0, 200, 1_000],
            &[0, 100, 1_000, 2_500, 5_000, 10_000],
        );
        let sizes = |limit: &Limit, case: &Case| {
            let fitting = limit.fit(wanted);
            // Nobody is neither idle nor mostly idle.
            fitting
                .into_iter()
                .filter(|size| case.key == IDLE || size.value > 0)
                .collect()
        };
        let loads = scope.depth.choose(1, 2, 15);
        let cost =
            |_: &_, _: &_, size| Duration::from_secs(loads) + Duration::from_millis(300 + 6 * size);
        let points = grid(scope, &cases, sizes, cost);
        Plan::of(scope.depth.choose(1, 2, 3), points)
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let door = site.enter(&point.target, &Setup::pool_of(POOL))?;
        let watch = site.watch(&point.target)?;
        let others = site.run(async {
            let crowd = Crowd::open(&door.endpoint, point.size, IN_FLIGHT, Some(HELLO)).await;
            crowd.complete(point.size)
        })?;
        let mut sample = Sample::of([("open_s", others.opening.took.as_secs_f64())]);
        let held = site.run(watch.connections())?;
        sample.set("servers", held as f64);
        if point.size > 0 {
            sample = sample.with(match door.is_direct() {
                true => Check::exactly("idle server connections", point.size, held),
                false => Check::at_most("server connections of the idle ones", POOL, held),
            });
        }
        let clock = site.clock.clone();
        let active = site.machine.cores as u64 * 4;
        site.run(async {
            let others = Others::of(others, point.case.key, &clock);
            for (key, clients) in [("tps_1", 1), ("tps_10", 10), ("tps_n", active)] {
                let is_wanted = match site.depth {
                    Depth::Smallest => key == "tps_n",
                    Depth::Quick => key != "tps_10",
                    Depth::Full => true,
                };
                if !is_wanted {
                    continue;
                }
                let outcome = site.load.run(load(&door.endpoint, clients, site)).await?;
                sample.set(key, outcome.tps);
                sample
                    .checks
                    .push(Check::none("failed transactions", outcome.failed));
            }
            let (naps, failure) = others.end().await;
            if point.case.key == MOSTLY_IDLE {
                sample.set("naps", naps);
            }
            failure.map_or(Ok(()), |failure| {
                Err(Error::Unfit(format!("a mostly idle connection: {failure}")))
            })
        })?;
        site.settle(door, &watch)?;
        Ok(sample)
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let kept = |target: &str, case: u64| kept(table, target, case, "tps_n");
        let mut sentences = Vec::new();
        for target in table.targets() {
            if let Some((size, share)) = kept(target, IDLE) {
                let opening = table
                    .median(target, IDLE, size, "open_s")
                    .unwrap_or_default();
                let mostly = kept(target, MOSTLY_IDLE).map_or_else(String::new, |(_, share)| {
                    format!(
                        ", and {} beside as many that ask ten times a second",
                        percent(share)
                    )
                });
                sentences.push(format!(
                    "{target} kept {} of its throughput beside {} idle connections{mostly}; it took {opening:.1} s to open them.",
                    percent(share),
                    count(size)
                ));
            }
        }
        let headline = match table
            .targets()
            .first()
            .and_then(|first| Some((*first, kept(first, IDLE)?)))
        {
            Some((first, (size, share))) if share < 0.9 => {
                format!(
                    "{} idle connections took {} of the throughput of {first}.",
                    count(size),
                    percent(1.0 - share)
                )
            }
            Some((first, (size, _))) => {
                format!(
                    "{} idle connections cost {first} no throughput worth mentioning.",
                    count(size)
                )
            }
            None => "Too little was measured to conclude anything.".into(),
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        let chart = |id: &str, title: &str, measure: &str, unit: &str, cases: &[u64]| Chart {
            id: id.into(),
            title: title.into(),
            x: Axis::logarithmic("other connections"),
            y: Axis::linear(unit),
            series: table.series(measure, cases),
        };
        vec![
            chart(
                "active-n",
                "Throughput of 4 active clients per core",
                "tps_n",
                "transactions per second",
                &[IDLE, MOSTLY_IDLE],
            ),
            chart(
                "active-1",
                "Throughput of 1 active client",
                "tps_1",
                "transactions per second",
                &[IDLE, MOSTLY_IDLE],
            ),
            chart(
                "opening",
                "Time to open the idle connections",
                "open_s",
                "seconds",
                &[IDLE],
            ),
        ]
    }
}

/// The largest number of others, and the share of the throughput that is left beside them.
pub fn kept(table: &Table, target: &str, case: u64, measure: &str) -> Option<(u64, f64)> {
    let alone = table.median(target, IDLE, 0, measure)?;
    let (size, beside) = table.line(target, case, measure).last().copied()?;
    (size > 0 && alone > 0.0).then(|| (size, beside / alone))
}

/// The connections beside those that are measured.
enum Others {
    Idle(Crowd),
    MostlyIdle {
        naps: JoinSet<Result<(), crate::driver::Failure>>,
        done: std::sync::Arc<std::sync::atomic::AtomicU64>,
        began: Instant,
    },
}

impl Others {
    fn of(crowd: Crowd, case: u64, clock: &Clock) -> Self {
        if case == IDLE {
            return Others::Idle(crowd);
        }
        let done = std::sync::Arc::default();
        let mut naps = JoinSet::new();
        let members = crowd.members.len().max(1) as u32;
        for (number, member) in crowd.members.into_iter().enumerate() {
            // Not all in step.
            let first = Instant::now() + NAP * number as u32 / members;
            naps.spawn(nap(
                member,
                first,
                clock.clone(),
                std::sync::Arc::clone(&done),
            ));
        }
        Others::MostlyIdle {
            naps,
            done,
            began: Instant::now(),
        }
    }

    /// Queries per second, and why one of them ended early.
    async fn end(self) -> (f64, Option<crate::driver::Failure>) {
        match self {
            Others::Idle(crowd) => {
                crowd.close().await;
                (0.0, None)
            }
            Others::MostlyIdle {
                mut naps,
                done,
                began,
            } => {
                let failure = naps.try_join_next().and_then(|ended| ended.ok()?.err());
                let done = done.load(std::sync::atomic::Ordering::Relaxed) as f64;
                naps.shutdown().await;
                (done / began.elapsed().as_secs_f64(), failure)
            }
        }
    }
}

async fn nap(
    mut connection: Connection,
    first: Instant,
    clock: Clock,
    done: std::sync::Arc<std::sync::atomic::AtomicU64>,
) -> Result<(), crate::driver::Failure> {
    let mut next = first;
    loop {
        clock.sleep_until(next).await;
        connection.query(HELLO).await?;
        done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        next = Instant::now() + NAP;
    }
}

fn load<'a>(endpoint: &'a crate::driver::Endpoint, clients: u64, site: &Site) -> Job<'a> {
    static WORKLOAD: std::sync::OnceLock<Workload> = std::sync::OnceLock::new();
    Job {
        endpoint,
        workload: WORKLOAD.get_or_init(Workload::read_only),
        clients,
        length: Duration::from_secs(site.depth.choose(1, 1, 5)),
        detail: Detail::Throughput,
    }
}
