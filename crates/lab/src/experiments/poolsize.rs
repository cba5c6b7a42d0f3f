//! How many server connections a load needs.

use crate::experiment::{
    About, Case, Depth, Experiment, Format, Measure, Plan, Planned, Point, Scope,
};
use crate::published;
use crate::report::{count, plain, ratio};
use crate::results::{Axis, Chart, Check, Dot, Sample, Series, Table, Verdict};
use crate::site::{Error, Setup, Site, TargetKind};
use crate::workload::{Detail, Job, Sysbench, Workload};
use std::time::Duration;

/// The size that stands for "no pool of the lab's making".
const NO_POOL: u64 = 0;
/// Pool sizes that reach this share of the best throughput are as good as the best.
const AS_GOOD: f64 = 0.95;

/// Added to the number of clients in the keys of cases that run sysbench.
const SYSBENCH: u64 = 1_000_000;

pub struct PoolSize;

impl Experiment for PoolSize {
    fn name(&self) -> &'static str {
        "poolsize"
    }

    fn about(&self) -> About {
        About {
            title: "How many server connections a load needs".into(),
            shows: "Clients enter, pay, deliver and look up orders: the five transactions of TPC-C in their proportions, simplified, on 20 warehouses that fit into memory. They do so directly (pool size 0 in \
                    the tables), and through poolers with pools of different sizes. Every client always has work: there are no think times. Where sysbench is installed and SYSBENCH_TPCC names the folder of its \
                    public TPC-C scripts, they run as well.".into(),
            axis: "pool size".into(),
            measures: vec![
                Measure::main("tps", "Transactions", Format::PerSecond),
                Measure::detail("p50_ms", "Median latency", Format::Milliseconds),
                Measure::detail("p99_ms", "99th percentile of latency", Format::Milliseconds),
                Measure::detail("servers", "Server connections in use at most", Format::Count),
            ],
            published: published::poolsize(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let clients: &[u64] = scope.depth.choose(&[8], &[56, 150], &[56, 150, 300, 600]);
        let cost = Duration::from_secs(scope.depth.choose(1, 1, 10)) + Duration::from_millis(700);
        let mut points = Vec::new();
        let mut left_out = Vec::new();
        for size in scope.capacity.connections.fit(clients) {
            for case in cases(scope, size.value) {
                for pool in pools(scope.depth, scope.cores, size.value) {
                    // Only a pooler of the lab's own has a size that can be chosen.
                    let fitting = scope.targets.iter().filter(|target| {
                        matches!(target.kind, TargetKind::OwnPooler(_)) == (pool != NO_POOL)
                    });
                    points.extend(fitting.map(|target| Planned {
                        point: Point {
                            target: target.name.clone(),
                            case: case.clone(),
                            size: pool,
                            lowered: size.lowered.clone(),
                        },
                        cost,
                    }));
                }
            }
        }
        if scope.targets.iter().any(|target| !target.is_own()) {
            left_out.push("pool sizes: targets that are not the lab's own are measured as they are (pool size 0 in the tables)".into());
        }
        Plan {
            left_out,
            ..Plan::of(scope.depth.choose(1, 3, 3), points)
        }
    }

    fn prepare(&self, site: &mut Site, plan: &Plan) -> Result<(), Error> {
        let has_sysbench = plan
            .points
            .iter()
            .any(|planned| planned.point.case.key > SYSBENCH);
        match (has_sysbench, sysbench(site.depth), site.targets.first()) {
            (true, Some(sysbench), Some(first)) => {
                let door = site.enter(&first.name, &Setup::pool_of(1))?;
                site.run(sysbench.prepare(&door.endpoint))
            }
            _ => Ok(()),
        }
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let clients = point.case.key % SYSBENCH;
        let door = site.enter(&point.target, &Setup::pool_of(point.size.max(1)))?;
        site.refresh(&point.target)?;
        let watch = site.watch(&point.target)?;
        let length = Duration::from_secs(site.depth.choose(1, 1, 10));
        let workload = Workload::order_entry();
        let load = async {
            match sysbench(site.depth).filter(|_| point.case.key > SYSBENCH) {
                Some(sysbench) => sysbench.run(&door.endpoint, clients, length).await,
                None => {
                    let job = Job {
                        endpoint: &door.endpoint,
                        workload: &workload,
                        clients,
                        length,
                        detail: Detail::Percentiles,
                    };
                    site.load.run(job).await
                }
            }
        };
        let (outcome, servers) = site.run(watch.most_while(load))?;
        let mut sample = Sample::of([
            ("tps", outcome.tps),
            ("p50_ms", outcome.p50_ms),
            ("p99_ms", outcome.p99_ms),
            ("servers", servers as f64),
        ])
        .with(Check::none("failed transactions", outcome.failed));
        if door.is_own() {
            sample = sample.with(match door.is_direct() {
                true => Check::exactly("server connections in use", clients, servers),
                false => Check::at_most("server connections in use", point.size, servers),
            });
        }
        site.settle(door, &watch)?;
        Ok(sample)
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let mut sentences = Vec::new();
        for case in table.cases() {
            let direct = direct(table, case.key);
            for target in table.targets() {
                let Some(best) = best(table, target, case.key) else {
                    continue;
                };
                let beside = direct.as_ref().map_or_else(String::new, |(name, tps)| {
                    format!(", {} what {name} did without a pool", ratio(best.tps / tps))
                });
                sentences.push(format!(
                    "{}: {target} reached {} per second with {} server connections{beside}; {} were enough for {:.0} % of that.",
                    case.label,
                    plain(best.tps),
                    count(best.pool),
                    count(best.enough),
                    AS_GOOD * 100.0
                ));
            }
        }
        let cases = table.cases().into_iter().map(|case| case.key);
        let busiest = cases.filter(|case| *case < SYSBENCH).max();
        let best = busiest.and_then(|case| {
            let pooler = table
                .targets()
                .into_iter()
                .find_map(|target| Some((target, best(table, target, case)?)))?;
            Some((case, pooler))
        });
        let headline = match best {
            Some((clients, (target, best))) => format!(
                "{} server connections were enough for {} clients that always have work ({target}).",
                count(best.enough),
                count(clients)
            ),
            None => {
                "No pooler of the lab's own was measured: its pool sizes could not be compared."
                    .into()
            }
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        let cases: Vec<u64> = table.cases().iter().map(|case| case.key).collect();
        let mut series = table.series("tps", &cases);
        let pools: Vec<f64> = table
            .rows
            .iter()
            .map(|row| row.point.size as f64)
            .filter(|pool| *pool > 0.0)
            .collect();
        series.iter_mut().for_each(|series| stretch(series, &pools));
        vec![Chart {
            id: "pools".into(),
            title: "Throughput against the size of the pool (level lines: without a pool)".into(),
            x: Axis::logarithmic("server connections"),
            y: Axis::linear("transactions per second"),
            series,
        }]
    }
}

/// What a pooler reached at best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    pub tps: f64,
    pub pool: u64,
    /// The smallest pool that is as good.
    pub enough: u64,
}

/// Over all pool sizes with `clients` clients.
pub fn best(table: &Table, target: &str, clients: u64) -> Option<Best> {
    let line: Vec<(u64, f64)> = table
        .line(target, clients, "tps")
        .into_iter()
        .filter(|(pool, _)| *pool != NO_POOL)
        .collect();
    let (pool, tps) = line
        .iter()
        .copied()
        .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let (enough, _) = line.into_iter().find(|(_, each)| *each >= tps * AS_GOOD)?;
    Some(Best { tps, pool, enough })
}

/// Order entry; and sysbench, which makes tables of its own, on the lab's own server only.
fn cases(scope: &Scope<'_>, clients: u64) -> Vec<Case> {
    let order_entry = Case::new(clients, format!("{} clients", count(clients)));
    let own = scope.targets.iter().all(|target| target.is_own());
    let by_sysbench = sysbench(scope.depth).filter(|_| own).map(|_| {
        let label = format!("{} clients, sysbench-tpcc", count(clients));
        Case::new(SYSBENCH + clients, label)
    });
    std::iter::once(order_entry).chain(by_sysbench).collect()
}

fn sysbench(depth: Depth) -> Option<Sysbench> {
    Sysbench::find(depth.choose(1, 1, 10))
}

/// The first target that was measured without a pool.
fn direct(table: &Table, clients: u64) -> Option<(String, f64)> {
    let found = |target: &str| {
        Some((
            target.to_owned(),
            table.median(target, clients, NO_POOL, "tps")?,
        ))
    };
    table.targets().into_iter().find_map(found)
}

/// From one to as many as there are clients, with the number of cores and its neighbours among them.
fn pools(depth: Depth, cores: u64, clients: u64) -> Vec<u64> {
    let mut pools = match depth {
        Depth::Smallest => vec![NO_POOL, 1, 4],
        Depth::Quick => vec![NO_POOL, 1, cores, cores * 4, 56],
        Depth::Full => vec![
            NO_POOL,
            1,
            cores.div_ceil(4),
            cores,
            cores * 2,
            cores * 4,
            14,
            56,
            150,
            300,
            600,
        ],
    };
    pools.retain(|pool| *pool <= clients);
    pools.sort_unstable();
    pools.dedup();
    pools
}

/// What was measured without a pool is a level line.
fn stretch(series: &mut Series, pools: &[f64]) {
    let [level] = series.dots[..] else { return };
    if level.x != NO_POOL as f64 {
        return;
    }
    let ends = [
        pools.iter().copied().reduce(f64::min),
        pools.iter().copied().reduce(f64::max),
    ];
    series.dots = ends
        .into_iter()
        .flatten()
        .map(|x| Dot { x, ..level })
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_neither_larger_than_the_clients_nor_twice_the_same() {
        assert_eq!(pools(Depth::Quick, 14, 56), [0, 1, 14, 56]);
        assert_eq!(pools(Depth::Full, 2, 56), [0, 1, 2, 4, 8, 14, 56]);
    }
}
