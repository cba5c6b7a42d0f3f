//! How many clients it takes to keep a server busy when each is away between its queries.

use super::grid;
use crate::driver::{Clock, Crowd, Delay};
use crate::experiment::{About, Case, Experiment, Format, Measure, Plan, Point, Scope};
use crate::published;
use crate::report::{count, plain};
use crate::results::{Axis, Chart, Check, Sample, Table, Verdict};
use crate::site::{Error, Limit, Setup, Site};
use crate::workload::{Worker, Workload};
use std::time::{Duration, Instant};

const IN_FLIGHT: u64 = 16;
/// A number of clients is at the peak if it reaches this share of the best throughput.
const AT_THE_PEAK: f64 = 0.97;
/// How exact a delay has to be, as a share.
const PRECISION: f64 = 0.2;
const PROBES: u32 = 20;

pub struct Think;

impl Experiment for Think {
    fn name(&self) -> &'static str {
        "think"
    }

    fn about(&self) -> About {
        About {
            title: "How many clients it takes to keep the server busy".into(),
            shows: "Clients read rows by their key. Without delay a few of them use the whole machine. When every round trip takes 1 ms of network and every client thinks for 1 ms before its next query, \
                    it takes many more, and at any moment most of their connections are idle. The delays are made in the driver; the poolers have 20 server connections.".into(),
            axis: "clients".into(),
            measures: vec![
                Measure::main("tps", "Transactions", Format::PerSecond),
                Measure::detail("p50_ms", "Median latency, with the network's delay", Format::Milliseconds),
                Measure::detail("p99_ms", "99th percentile of latency", Format::Milliseconds),
            ],
            published: published::think(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let delays: &[u64] = scope.depth.choose(&[0, 1], &[0, 1], &[0, 1, 5]);
        let cases: Vec<Case> = delays.iter().map(|delay| case(*delay)).collect();
        let wanted: &[u64] = scope.depth.choose(
            &[1, 16],
            &[1, 4, 16, 64, 256],
            &[1, 4, 16, 48, 128, 500, 1_000, 3_000, 6_000],
        );
        let sizes = |limit: &Limit, _: &Case| limit.fit(wanted);
        let length = length(scope.depth.choose(1, 2, 10));
        let cost = |_: &_, _: &_, size| length + Duration::from_millis(150 + 4 * size);
        Plan::of(
            scope.depth.choose(1, 2, 3),
            grid(scope, &cases, sizes, cost),
        )
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let door = site.enter(&point.target, &Setup::pool_of(20))?;
        let watch = site.watch(&point.target)?;
        let delay = Duration::from_millis(point.case.key);
        let length = length(site.depth.choose(1, 2, 10));
        let clock = site.clock.clone();
        let (work, seconds) = site.run(async {
            let crowd = Crowd::open(&door.endpoint, point.size, IN_FLIGHT, None).await;
            let mut crowd = crowd.complete(point.size)?;
            for member in crowd.members.iter_mut().filter(|_| !delay.is_zero()) {
                member.slow_down(Some(Delay {
                    round_trip: delay,
                    clock: clock.clone(),
                }));
            }
            let workers = Worker::of(crowd, &Workload::read_only());
            let began = Instant::now();
            let (workers, work) = Worker::work(workers, length, delay, &clock).await;
            let seconds = began.elapsed().min(length).as_secs_f64();
            for worker in workers {
                worker.connection.close().await;
            }
            Ok::<_, Error>((work, seconds))
        })?;
        let outcome = work.outcome(seconds);
        let mut sample = Sample::of([
            ("tps", outcome.tps),
            ("p50_ms", outcome.p50_ms),
            ("p99_ms", outcome.p99_ms),
        ])
        .with(Check::none("failed transactions", outcome.failed));
        if !delay.is_zero() {
            let real = site.run(async { Ok::<_, Error>(real_ms(&clock, delay).await) })?;
            let asked = delay.as_secs_f64() * 1_000.0;
            sample = sample.with(Check::near("delay in ms", asked, real, PRECISION));
        }
        site.settle(door, &watch)?;
        Ok(sample)
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let mut sentences = Vec::new();
        for target in table.targets() {
            let peaks = table.cases().into_iter().filter_map(|case| {
                let (clients, tps) = peak(table, target, case.key)?;
                Some(format!(
                    "{} clients with {} ({} per second)",
                    count(clients),
                    case.label,
                    plain(tps)
                ))
            });
            let peaks: Vec<String> = peaks.collect();
            sentences.push(format!(
                "{target} was at its peak from {}.",
                peaks.join(", from ")
            ));
        }
        let first = table.targets().first().copied().unwrap_or_default();
        let headline = match (peak(table, first, 0), peak(table, first, 1)) {
            (Some((near, _)), Some((far, _))) => format!(
                "{} clients without delay kept {first} busy; with 1 ms of network and 1 ms of thinking it took {}.",
                count(near),
                at_least(table, first, far)
            ),
            _ => "Too little was measured to conclude anything.".into(),
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        let cases: Vec<u64> = table.cases().iter().map(|case| case.key).collect();
        vec![Chart {
            id: "clients".into(),
            title: "Throughput against clients, without and with delay".into(),
            x: Axis::logarithmic("clients"),
            y: Axis::linear("transactions per second"),
            series: table.series("tps", &cases),
        }]
    }
}

/// The smallest number of clients at the peak, and its throughput.
pub fn peak(table: &Table, target: &str, case: u64) -> Option<(u64, f64)> {
    let line = table.line(target, case, "tps");
    let best = line.iter().map(|(_, tps)| *tps).max_by(f64::total_cmp)?;
    line.into_iter().find(|(_, tps)| *tps >= best * AT_THE_PEAK)
}

/// A peak at the largest size may lie beyond it.
fn at_least(table: &Table, target: &str, clients: u64) -> String {
    match table.line(target, 1, "tps").last() {
        Some((largest, _)) if *largest == clients => format!("{} or more", count(clients)),
        _ => count(clients),
    }
}

fn case(delay: u64) -> Case {
    match delay {
        0 => Case::new(0, "no delay"),
        delay => Case::new(delay, format!("{delay} + {delay} ms")),
    }
}

/// How long the clock's sleeps are while nothing else goes on.
async fn real_ms(clock: &Clock, delay: Duration) -> f64 {
    let began = Instant::now();
    for _ in 0..PROBES {
        clock.sleep_until(Instant::now() + delay).await;
    }
    began.elapsed().as_secs_f64() * 1_000.0 / f64::from(PROBES)
}

fn length(seconds: u64) -> Duration {
    Duration::from_millis(seconds * 500)
}
