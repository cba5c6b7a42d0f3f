//! What happens when everybody comes at once, and when the server goes away under everybody.

use super::grid;
use crate::driver::{Clock, Connection, Crowd, Endpoint, Failure, Latencies};
use crate::experiment::{About, Case, Experiment, Format, Measure, Plan, Point, Scope};
use crate::published::Published;
use crate::report::{count, plain};
use crate::results::{Chart, Check, Sample, Table, Verdict};
use crate::site::{Door, Error, Limit, Setup, Site, Watch};
use crate::workload::{Work, Worker, Workload};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const POOL: u64 = 20;
const IN_FLIGHT: u64 = 16;
const RESTART: u64 = 0;
const SPIKE: u64 = 1;
/// Longest pause of a client between two queries; the mean is half of it.
const PAUSE: Duration = Duration::from_secs(1);
/// Before a client that was refused tries again.
const RETRY: Duration = Duration::from_millis(100);
/// Clients that are busy while the others log in.
const STEADY: u64 = 8;
/// Of the throughput before: then all is well again.
const STEADY_SHARE: f64 = 0.9;
const WINDOW: Duration = Duration::from_millis(500);
/// When nobody waits for recovery any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a run that only tries the experiment out: PgBouncer waits 15 s before it looks for a lost server again.
const LITTLE_PATIENCE: Duration = Duration::from_secs(3);

pub struct Storm;

impl Experiment for Storm {
    fn name(&self) -> &'static str {
        "storm"
    }

    fn about(&self) -> About {
        About {
            title: "A restart under everybody, and everybody at once".into(),
            shows: "Restart: clients that each ask for a row about twice a second while PostgreSQL is restarted; whoever loses the connection comes back after 100 ms, and again. It is over when the throughput of half a second \
                    has 90 % of what it had, and nobody is without a connection. Spike: all clients log in at the same moment, beside eight that are busy; whoever is refused tries again.".into(),
            axis: "clients".into(),
            measures: vec![
                Measure::main("recovery_s", "Until all was well again, from the restart or the first log-in", Format::Seconds),
                Measure::main("errors", "Queries that failed, or log-ins that were refused", Format::Count),
                Measure::main("lost", "Connections that clients lost", Format::Count),
                Measure::main("worst_s", "Longest wait of a client for an answer or a log-in", Format::Seconds),
                Measure::detail("down_s", "PostgreSQL's restart itself", Format::Seconds),
                Measure::detail("before_tps", "Throughput before", Format::PerSecond),
                Measure::detail("quiet_p99_ms", "99th percentile of the busy ones before the spike", Format::Milliseconds),
                Measure::detail("spike_p99_ms", "99th percentile of the busy ones during the spike", Format::Milliseconds),
            ],
            published: Vec::<Published>::new(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let restart = Case::new(RESTART, "restart");
        let spike = Case::new(SPIKE, "spike of log-ins");
        let wanted = |case: &Case| match case.key {
            RESTART => [scope.depth.choose(20, 500, 5_000)],
            _ => [scope.depth.choose(20, 1_000, 10_000)],
        };
        let own = scope.targets.iter().all(|target| target.is_own());
        let cases: Vec<Case> = [restart, spike]
            .into_iter()
            .filter(|case| own || case.key == SPIKE)
            .collect();
        let sizes = |limit: &Limit, case: &Case| limit.fit(&wanted(case));
        let cost = |_: &_, _: &_, size| {
            Duration::from_secs(scope.depth.choose(3, 5, 10)) + Duration::from_millis(8 * size)
        };
        let mut plan = Plan::of(
            scope.depth.choose(1, 1, 3),
            grid(scope, &cases, sizes, cost),
        );
        if !own {
            plan.left_out
                .push("restart: only the lab's own server is restarted".into());
        }
        plan
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let mut setup = Setup::pool_of(POOL);
        setup.clients = setup.clients.max(point.size + STEADY + 10);
        let door = site.enter(&point.target, &setup)?;
        let watch = site.watch(&point.target)?;
        match point.case.key {
            RESTART => restart(site, &door, point.size).and_then(|sample| {
                // The watching connection was lost with the server.
                let watch = site.watch(&point.target)?;
                site.settle(door, &watch)?;
                Ok(sample)
            }),
            _ => spike(site, &door, &watch, point.size).and_then(|sample| {
                site.settle(door, &watch)?;
                Ok(sample)
            }),
        }
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let mut sentences = Vec::new();
        for case in table.cases() {
            for target in table.targets() {
                let Some((size, recovery)) =
                    table.line(target, case.key, "recovery_s").first().copied()
                else {
                    continue;
                };
                let value = |measure| {
                    table
                        .median(target, case.key, size, measure)
                        .unwrap_or_default() as u64
                };
                sentences.push(match case.key {
                    RESTART => format!(
                        "Restart under {} clients, {target}: well again after {} s, {} failed queries, {} lost connections.",
                        count(size), plain(recovery), count(value("errors")), count(value("lost"))
                    ),
                    _ => format!(
                        "{} log-ins at once, {target}: all in after {} s, {} refusals.",
                        count(size), plain(recovery), count(value("errors"))
                    ),
                });
            }
        }
        let least = |case: u64, measure: &str| {
            let lines = table.targets().into_iter().filter_map(|target| {
                let (_, value) = table.line(target, case, measure).first().copied()?;
                Some((target, value))
            });
            lines.min_by(|(_, one), (_, other)| one.total_cmp(other))
        };
        let headline = match (least(RESTART, "lost"), least(SPIKE, "recovery_s")) {
            (Some((calm, lost)), Some((fast, seconds))) => format!(
                "In a restart, clients lost the fewest connections with {calm} ({}); a spike of log-ins was over soonest with {fast} ({} s).",
                count(lost as u64),
                plain(seconds)
            ),
            (None, Some((fast, seconds))) => format!(
                "A spike of log-ins was over soonest with {fast} ({} s).",
                plain(seconds)
            ),
            _ => "Too little was measured to conclude anything.".into(),
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        vec![super::bars(
            table,
            "recovery",
            "Until all was well again",
            "recovery_s",
            "seconds",
            None,
        )]
    }
}

/// What the clients of a restart have seen.
#[derive(Default)]
struct Seen {
    answers: u64,
    errors: u64,
    lost: u64,
    /// Clients that have no connection at the moment.
    outside: u64,
    latencies: Latencies,
}

type Shared = Arc<Mutex<Seen>>;

fn lock(seen: &Shared) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn restart(site: &mut Site, door: &Door, clients: u64) -> Result<Sample, Error> {
    let seen = Shared::default();
    let clock = site.clock.clone();
    let crowd = site.run(async {
        let crowd = Crowd::open(&door.endpoint, clients, IN_FLIGHT, Some("SELECT 1")).await;
        crowd.complete(clients)
    })?;
    let mut visits = JoinSet::new();
    for connection in crowd.members {
        let visit = visit(
            connection,
            door.endpoint.clone(),
            clock.clone(),
            seen.clone(),
        );
        visits.spawn_on(visit, site.tasks());
    }
    let before = site.run(throughput(&seen, WINDOW * site.depth.choose(2, 4, 8)))?;
    let began = Instant::now();
    let server = site
        .own_mut()
        .ok_or_else(|| Error::Unfit("the server is not the lab's own".into()))?;
    server.restart()?;
    let down = began.elapsed();
    let patience = site.depth.choose(LITTLE_PATIENCE, PATIENCE, PATIENCE);
    let recovered = site.run(recovery(&seen, before, began, patience));
    drop(visits);
    let recovery = recovered?;
    let seen = lock(&seen);
    let sample = Sample::of([
        (
            "recovery_s",
            recovery.map_or(f64::NAN, |time| time.as_secs_f64()),
        ),
        ("down_s", down.as_secs_f64()),
        ("before_tps", before),
        ("errors", seen.errors as f64),
        ("lost", seen.lost as f64),
        ("worst_s", seen.latencies.percentile_ms(100.0) / 1_000.0),
    ]);
    Ok(sample.with(Check::none("clients that found no way back", seen.outside)))
}

/// Queries per second, during `length`.
async fn throughput(seen: &Shared, length: Duration) -> Result<f64, Error> {
    let before = lock(seen).answers;
    let began = Instant::now();
    tokio::time::sleep(length).await;
    Ok((lock(seen).answers - before) as f64 / began.elapsed().as_secs_f64())
}

/// How long it took until all was well; `None` if nobody could wait for it.
async fn recovery(
    seen: &Shared,
    before: f64,
    began: Instant,
    patience: Duration,
) -> Result<Option<Duration>, Error> {
    while began.elapsed() < patience {
        let window = Instant::now();
        let now = throughput(seen, WINDOW).await?;
        if now >= before * STEADY_SHARE && lock(seen).outside == 0 {
            return Ok(Some(window - began));
        }
    }
    Ok(None)
}

/// One client, for as long as it is let.
async fn visit(mut connection: Connection, endpoint: Endpoint, clock: Clock, seen: Shared) {
    loop {
        clock
            .sleep_until(Instant::now() + PAUSE.mul_f64(rand::random()))
            .await;
        let began = Instant::now();
        let answer = connection
            .query("SELECT abalance FROM weir_lab.accounts WHERE aid = 1")
            .await;
        let Err(failure) = answer else {
            let mut seen = lock(&seen);
            seen.answers += 1;
            seen.latencies.add(began.elapsed());
            continue;
        };
        lock(&seen).errors += 1;
        // After an error a live connection still answers.
        if !matches!(failure, Failure::Lost(_)) && connection.query("").await.is_ok() {
            continue;
        }
        connection = come_back(&endpoint, &clock, &seen).await;
        lock(&seen).latencies.add(began.elapsed());
    }
}

async fn come_back(endpoint: &Endpoint, clock: &Clock, seen: &Shared) -> Connection {
    {
        let mut seen = lock(seen);
        seen.lost += 1;
        seen.outside += 1;
    }
    loop {
        clock.sleep_until(Instant::now() + RETRY).await;
        if let Ok(connection) = Connection::open(endpoint).await {
            lock(seen).outside -= 1;
            return connection;
        }
    }
}

fn spike(site: &Site, door: &Door, watch: &Watch, clients: u64) -> Result<Sample, Error> {
    let clock = site.clock.clone();
    let length = Duration::from_secs(site.depth.choose(1, 1, 3));
    site.run(async {
        let steady = Crowd::open(&door.endpoint, STEADY, STEADY, None)
            .await
            .complete(STEADY)?;
        let workers = Worker::of(steady, &Workload::read_only());
        let (workers, quiet) = Worker::work(workers, length, Duration::ZERO, &clock).await;
        let busy = Arc::new(Mutex::new(Work::default()));
        let mut working = JoinSet::new();
        for mut worker in workers {
            let (busy, clock) = (busy.clone(), clock.clone());
            let end = Instant::now() + PATIENCE * 10;
            working.spawn(async move { worker.repeat(end, Duration::ZERO, &clock, &busy).await });
        }
        let logins = everybody_at_once(&door.endpoint, clients, &clock).await?;
        let servers = watch.connections().await?;
        working.shutdown().await;
        drop(logins.inside);
        let busy = std::mem::take(&mut *busy.lock().unwrap_or_else(PoisonError::into_inner));
        let sample = Sample::of([
            ("recovery_s", logins.took.as_secs_f64()),
            ("errors", logins.refused as f64),
            ("worst_s", logins.latencies.percentile_ms(100.0) / 1_000.0),
            ("quiet_p99_ms", quiet.latencies.percentile_ms(99.0)),
            ("spike_p99_ms", busy.latencies.percentile_ms(99.0)),
        ])
        .with(Check::none(
            "failed queries of the busy ones",
            quiet.failed + busy.failed,
        ));
        let most = if door.is_direct() {
            clients + STEADY
        } else {
            POOL
        };
        let check = Check::at_most("server connections", most, servers);
        Ok::<_, Error>(if door.is_own() {
            sample.with(check)
        } else {
            sample
        })
    })
}

struct LogIns {
    /// Held until everything is counted.
    inside: Vec<Connection>,
    took: Duration,
    refused: u64,
    latencies: Latencies,
}

async fn everybody_at_once(
    endpoint: &Endpoint,
    clients: u64,
    clock: &Clock,
) -> Result<LogIns, Error> {
    let began = Instant::now();
    let mut coming = JoinSet::new();
    for _ in 0..clients {
        let (endpoint, clock) = (endpoint.clone(), clock.clone());
        coming.spawn(async move { log_in(&endpoint, &clock, began).await });
    }
    let mut all = LogIns {
        inside: Vec::new(),
        took: Duration::ZERO,
        refused: 0,
        latencies: Latencies::default(),
    };
    for arrived in coming.join_all().await {
        let (connection, waited, refused) = arrived?;
        all.inside.push(connection);
        all.took = all.took.max(waited);
        all.refused += refused;
        all.latencies.add(waited);
    }
    Ok(all)
}

/// Until it is let in: the connection, how long that took, and how often it was refused.
async fn log_in(
    endpoint: &Endpoint,
    clock: &Clock,
    began: Instant,
) -> Result<(Connection, Duration, u64), Error> {
    let mut refused = 0;
    loop {
        match Connection::open(endpoint).await {
            Ok(connection) => return Ok((connection, began.elapsed(), refused)),
            Err(failure) if began.elapsed() > PATIENCE => return Err(failure.into()),
            Err(_) => refused += 1,
        }
        clock.sleep_until(Instant::now() + RETRY).await;
    }
}
