//! How long it takes to open connections.

use super::grid;
use crate::driver::{Connection, Crowd, Endpoint};
use crate::experiment::{About, Case, Experiment, Format, Measure, Plan, Point, Scope};
use crate::published;
use crate::report::{count, plain, ratio};
use crate::results::{Axis, Chart, Check, Sample, Table, Verdict};
use crate::site::{Authentication, Door, Error, Limit, Setup, Site, Watch};
use crate::workload::{Detail, Job, Load, Workload};
use std::time::{Duration, Instant};

const POOL: u64 = 20;
const IN_FLIGHT: u64 = 16;
const QUERY: &str = "SELECT 1";

const FIRST: u64 = 0;
const AGAIN: u64 = 1;
const SCRAM: u64 = 2;
const ONE_EACH: u64 = 3;
const KEPT: u64 = 4;
/// The cases in which many clients log in.
const LOG_INS: [u64; 3] = [FIRST, AGAIN, SCRAM];

pub struct Connect;

impl Experiment for Connect {
    fn name(&self) -> &'static str {
        "connect"
    }

    fn about(&self) -> About {
        About {
            title: "How long it takes to open connections".into(),
            shows: "Clients connect, log in and run SELECT 1, sixteen at a time, until all are there: on servers that were just started, once more on the same servers, and with a password (SCRAM-SHA-256, for which \
                    every client derives its key anew; the lab's own servers only). Beside it pgbench's own initial connection time. And queries one after another, with a connection for each, or on one that is kept.".into(),
            axis: "clients or queries".into(),
            measures: vec![
                Measure::main("total_ms", "Until all are there, or all queries are answered", Format::Milliseconds),
                Measure::detail("pgbench_ms", "pgbench's initial connection time", Format::Milliseconds),
                Measure::detail("p50_ms", "Median of one log-in", Format::Milliseconds),
                Measure::detail("p99_ms", "99th percentile of one log-in", Format::Milliseconds),
                Measure::detail("servers", "Server connections", Format::Count),
            ],
            published: published::connect(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let mut cases = vec![Case::new(FIRST, "first"), Case::new(AGAIN, "again")];
        if scope.targets.iter().all(|target| target.is_own()) {
            cases.push(Case::new(SCRAM, "by password"));
        }
        cases.push(Case::new(ONE_EACH, "queries, a connection each"));
        cases.push(Case::new(KEPT, "queries, one connection"));
        let wanted: &[u64] = scope.depth.choose(
            &[10, 40],
            &[128, 512, 1_024],
            &[512, 1_024, 2_048, 4_096, 8_192, 16_384],
        );
        let queries = [scope.depth.choose(50, 1_000, 1_000)];
        let sizes = |limit: &Limit, case: &Case| match LOG_INS.contains(&case.key) {
            true => limit.fit(wanted),
            false => super::exactly(&queries),
        };
        let cost = |_: &_, case: &Case, size: u64| match case.key {
            FIRST => Duration::from_millis(900 + 6 * size),
            AGAIN => Duration::from_millis(300 + 14 * size),
            SCRAM => Duration::from_millis(300 + 8 * size),
            _ => Duration::from_millis(200 + 3 * size),
        };
        Plan::of(
            scope.depth.choose(1, 1, 3),
            grid(scope, &cases, sizes, cost),
        )
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        if let (FIRST, Some(server)) = (point.case.key, site.own_mut()) {
            server.restart()?;
        }
        let mut setup = Setup::pool_of(POOL);
        if point.case.key == SCRAM {
            setup.authentication = Authentication::Scram;
        }
        let door = site.enter(&point.target, &setup)?;
        let watch = site.watch(&point.target)?;
        let sample = match point.case.key {
            ONE_EACH => queries(site, &door.endpoint, point.size, Connections::OneEach),
            KEPT => queries(site, &door.endpoint, point.size, Connections::One),
            AGAIN => {
                log_in(site, &door, &watch, point.size)?;
                site.run(settled(&watch, &door))?;
                let mut sample = log_in(site, &door, &watch, point.size)?;
                site.run(settled(&watch, &door))?;
                sample.set("pgbench_ms", pgbench(site, &door.endpoint, point.size)?);
                Ok(sample)
            }
            _ => log_in(site, &door, &watch, point.size),
        }?;
        site.settle(door, &watch)?;
        Ok(sample)
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let mut sentences = Vec::new();
        for target in table.targets() {
            let line = table.line(target, AGAIN, "total_ms");
            if let (Some((size, total)), Some(exponent)) = (line.last(), exponent(&line)) {
                sentences.push(format!(
                    "{target}: {} clients in {} s; the time grows with the number of clients to the power of {exponent:.2}.",
                    count(*size),
                    plain(total / 1_000.0)
                ));
            }
            if let Some(times) = times(table, target) {
                sentences.push(format!("Through {target}, a connection for each query took {} as long as one that is kept.", ratio(times)));
            }
        }
        let targets = table.targets();
        let first = targets.first().copied().unwrap_or_default();
        let headline = match times(table, first) {
            Some(times) => format!(
                "A connection for each query makes {first} {} as slow as a connection that is kept.",
                ratio(times)
            ),
            None => "Too little was measured to conclude anything.".into(),
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        vec![Chart {
            id: "clients".into(),
            title: "Time until all clients are logged in".into(),
            x: Axis::logarithmic("clients"),
            y: Axis::logarithmic("ms"),
            series: table.series("total_ms", &LOG_INS),
        }]
    }
}

/// The exponent of growth: the slope of the least-squares line through the logarithms.
pub fn exponent(line: &[(u64, f64)]) -> Option<f64> {
    let logarithms = line.iter().filter(|(size, time)| *size > 0 && *time > 0.0);
    let points: Vec<(f64, f64)> = logarithms
        .map(|(size, time)| ((*size as f64).ln(), time.ln()))
        .collect();
    let many = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / many;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / many;
    let together: f64 = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    let squares: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (points.len() > 1 && squares > 0.0).then(|| together / squares)
}

/// How many times as long queries take with a connection each.
pub fn times(table: &Table, target: &str) -> Option<f64> {
    let (size, each) = table.line(target, ONE_EACH, "total_ms").last().copied()?;
    Some(each / table.median(target, KEPT, size, "total_ms")?)
}

fn log_in(site: &Site, door: &Door, watch: &Watch, clients: u64) -> Result<Sample, Error> {
    let crowd = site.run(async {
        let crowd = Crowd::open(&door.endpoint, clients, IN_FLIGHT, Some(QUERY)).await;
        crowd.complete(clients)
    })?;
    let opening = crowd.opening.clone();
    let role = door.endpoint.user.clone();
    let servers = site.run(async {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}' AND backend_type = 'client backend' AND pid <> pg_backend_pid()");
        let servers = watch.number(&sql).await?;
        crowd.close().await;
        Ok::<_, Error>(servers as u64)
    })?;
    let check = match (door.is_direct(), door.pooler()) {
        (true, _) => Check::exactly("server connections", clients, servers),
        (false, Some(_)) => Check::at_most("server connections", POOL, servers),
        (false, None) => Check::at_most("server connections", u64::MAX, servers),
    };
    Ok(Sample::of([
        ("total_ms", opening.took.as_secs_f64() * 1_000.0),
        ("p50_ms", opening.latencies.percentile_ms(50.0)),
        ("p99_ms", opening.latencies.percentile_ms(99.0)),
        ("servers", servers as f64),
    ])
    .with(check)
    .with(Check::none("refused log-ins", opening.refused)))
}

async fn settled(watch: &Watch, door: &Door) -> Result<(), Error> {
    match door.is_direct() {
        true => watch.until_nobody_is_left().await,
        false => watch.until_no_more_leave().await,
    }
}

/// NaN where pgbench is not installed.
fn pgbench(site: &Site, endpoint: &Endpoint, clients: u64) -> Result<f64, Error> {
    let Load::Pgbench(pgbench) = &site.load else {
        return Ok(f64::NAN);
    };
    let workload = Workload::read_only();
    let job = Job {
        endpoint,
        workload: &workload,
        clients,
        length: Duration::ZERO,
        detail: Detail::Throughput,
    };
    Ok(site.run(pgbench.connect(job))?.connecting_ms)
}

#[derive(Clone, Copy)]
enum Connections {
    OneEach,
    One,
}

fn queries(
    site: &Site,
    endpoint: &Endpoint,
    queries: u64,
    connections: Connections,
) -> Result<Sample, Error> {
    let took = site.run(async {
        let began = Instant::now();
        let mut kept = Connection::open(endpoint).await?;
        for _ in 0..queries {
            kept.query(QUERY).await?;
            if let Connections::OneEach = connections {
                kept.close().await;
                kept = Connection::open(endpoint).await?;
            }
        }
        kept.close().await;
        Ok::<_, Error>(began.elapsed())
    })?;
    Ok(Sample::of([("total_ms", took.as_secs_f64() * 1_000.0)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_the_published_times_is_found() {
        let published = [
            (1_024, 435.0),
            (2_048, 1_062.0),
            (4_096, 3_284.0),
            (8_192, 11_617.0),
            (16_384, 43_391.0),
        ];
        let found = exponent(&published).expect("five points");
        assert!((1.6..1.75).contains(&found), "{found}");
        let square: Vec<(u64, f64)> = (1..6).map(|size| (size, (size * size) as f64)).collect();
        assert!((exponent(&square).expect("points") - 2.0).abs() < 1e-9);
        assert_eq!(exponent(&square[..1]), None);
    }
}
