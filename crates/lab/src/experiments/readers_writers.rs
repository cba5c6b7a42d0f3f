//! Many clients that read now and then, and some that write batches.

use super::grid;
use crate::driver::{Clock, Connection, Crowd, Latencies};
use crate::experiment::{About, Case, Experiment, Format, Measure, Plan, Point, Scope};
use crate::published;
use crate::report::{bytes, count, plain};
use crate::results::{Axis, Chart, Check, Dot, Sample, Scale, Series, Spread, Table, Verdict};
use crate::site::{Error, Limit, Setup, Site, context_switches};
use crate::workload::{Work, Worker, Workload};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const POOL: u64 = 20;
const IN_FLIGHT: u64 = 16;
/// A writer for so many readers: ten for 200.
const READERS_PER_WRITER: u64 = 20;
const READ_EVERY: Duration = Duration::from_millis(100);
const BATCH: u32 = 1_000;

pub struct ReadersWriters;

impl Experiment for ReadersWriters {
    fn name(&self) -> &'static str {
        "readers-writers"
    }

    fn about(&self) -> About {
        About {
            title: "Many readers and some batch writers".into(),
            shows: "Readers ask for one row every 100 ms. A writer for every 20 readers sends a batch of 1,000 rows every 5 s (every second in a quick run), half of them by COPY, half by INSERT of many rows. Directly each of them \
                    has a server connection; the poolers have 20 for all, and COPY goes through them as well.".into(),
            axis: "readers".into(),
            measures: vec![
                Measure::main("servers", "Server connections", Format::Count),
                Measure::main("p50_ms", "Readers' median latency", Format::Milliseconds),
                Measure::main("p99_ms", "Readers' 99th percentile", Format::Milliseconds),
                Measure::main("memory", "Memory of all server processes (PSS)", Format::Bytes),
                Measure::detail("switches", "Context switches of the machine", Format::PerSecond),
                Measure::detail("reads", "Reads", Format::PerSecond),
                Measure::detail("batch_ms", "Median time of a batch", Format::Milliseconds),
                Measure::detail("wait_ms", "Mean wait for a server connection, as the pooler tells", Format::Milliseconds),
            ],
            published: published::readers_writers(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let readers = [scope.depth.choose(20, 200, 200)];
        let length = Duration::from_secs(scope.depth.choose(1, 4, 30));
        let sizes = |limit: &Limit, _: &Case| limit.fit(&readers);
        let cost = |_: &_, _: &_, size| length + Duration::from_millis(400 + 6 * size);
        Plan::of(
            scope.depth.choose(1, 2, 3),
            grid(scope, &[Case::only()], sizes, cost),
        )
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let door = site.enter(&point.target, &Setup::pool_of(POOL))?;
        site.refresh(&point.target)?;
        let watch = site.watch(&point.target)?;
        let length = Duration::from_secs(site.depth.choose(1, 4, 30));
        let batch_every = Duration::from_secs(site.depth.choose(1, 1, 5));
        let writers = point.size.div_ceil(READERS_PER_WRITER);
        let clock = site.clock.clone();
        let before = (context_switches(), Instant::now());
        let load = async {
            let mut everybody = Crowd::open(&door.endpoint, point.size + writers, IN_FLIGHT, None)
                .await
                .complete(point.size + writers)?;
            let writing = everybody.members.split_off(point.size as usize);
            let end = Instant::now() + length;
            let ((readers, reading), writing) = tokio::join!(
                read_now_and_then(everybody, end, &clock),
                write_batches(writing, end, batch_every, &clock)
            );
            // While everybody is still connected; reading the processes' tables takes a moment.
            let memory = site.own().and_then(|server| server.memory().ok());
            drop(readers);
            Ok::<_, Error>((reading, writing?, memory))
        };
        let ((reading, batches, memory), servers) = site.run(watch.most_while(load))?;
        let took = before.1.elapsed();
        let seconds = length.as_secs_f64();
        let mut sample = Sample::of([
            ("p50_ms", reading.latencies.percentile_ms(50.0)),
            ("p99_ms", reading.latencies.percentile_ms(99.0)),
            ("reads", reading.latencies.count() as f64 / seconds),
            ("batch_ms", batches.percentile_ms(50.0)),
            ("servers", servers as f64),
            (
                "memory",
                memory.map_or(f64::NAN, |memory| memory.bytes as f64),
            ),
        ])
        .with(Check::none("failed reads", reading.failed));
        if let (Some(before), Some(after)) = (before.0, context_switches()) {
            sample.set("switches", (after - before) as f64 / took.as_secs_f64());
        }
        if let Some(pooler) = door.pooler() {
            sample.set("wait_ms", site.run(pooler.mean_wait_ms())?);
        }
        if door.is_own() {
            sample = sample.with(match door.is_direct() {
                true => Check::exactly("server connections", point.size + writers, servers),
                false => Check::at_most("server connections", POOL, servers),
            });
        }
        let written = site.run(watch.number("SELECT count(*) FROM weir_lab.events"))?;
        let expected = batches.count() * u64::from(BATCH);
        sample = sample.with(Check::exactly("rows written", expected, written as u64));
        site.settle(door, &watch)?;
        Ok(sample)
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let mut sentences = Vec::new();
        for target in table.targets() {
            let Some((size, servers)) = table.line(target, 0, "servers").first().copied() else {
                continue;
            };
            let value = |measure| table.median(target, 0, size, measure).unwrap_or(f64::NAN);
            let memory = table
                .median(target, 0, size, "memory")
                .map_or_else(String::new, |memory| {
                    format!(", {} of memory", bytes(memory as u64))
                });
            sentences.push(format!(
                "{target}: {} server connections{memory}, reads with a median of {} ms and a 99th percentile of {} ms.",
                count(servers as u64),
                plain(value("p50_ms")),
                plain(value("p99_ms"))
            ));
        }
        let fewest = |measure: &str| {
            let lines = table.targets().into_iter().filter_map(|target| {
                let (_, value) = table.line(target, 0, measure).first().copied()?;
                Some((target, value))
            });
            lines.min_by(|(_, one), (_, other)| one.total_cmp(other))
        };
        let headline = match (fewest("servers"), fewest("p99_ms")) {
            (Some((few, servers)), Some((fast, p99))) => format!(
                "{few} needed {} server connections; the 99th percentile of the reads was lowest with {fast} ({} ms).",
                count(servers as u64),
                plain(p99)
            ),
            _ => "Too little was measured to conclude anything.".into(),
        };
        Verdict {
            headline,
            sentences,
        }
    }

    fn charts(&self, table: &Table) -> Vec<Chart> {
        let names = ["median", "99th percentile"].map(str::to_owned);
        vec![Chart {
            id: "latency".into(),
            title: "How long the readers wait".into(),
            x: Axis {
                label: String::new(),
                scale: Scale::Names(names.into()),
            },
            y: Axis::linear("ms"),
            series: table
                .targets()
                .into_iter()
                .enumerate()
                .map(|(colour, target)| latencies(table, target, colour))
                .collect(),
        }]
    }
}

fn latencies(table: &Table, target: &str, colour: usize) -> Series {
    let row = table.rows.iter().find(|row| row.point.target == target);
    let dot = |(x, measure): (usize, &str)| {
        let Spread { median, low, high } = row?.spread(measure)?;
        Some(Dot {
            x: x as f64,
            y: median,
            low,
            high,
        })
    };
    Series {
        label: target.into(),
        colour,
        dash: 0,
        dots: ["p50_ms", "p99_ms"]
            .into_iter()
            .enumerate()
            .filter_map(dot)
            .collect(),
    }
}

/// Every reader keeps its connection; their pauses do not begin in step.
async fn read_now_and_then(readers: Crowd, end: Instant, clock: &Clock) -> (Vec<Worker>, Work) {
    let work = Arc::new(Mutex::new(Work::default()));
    let mut reading = JoinSet::new();
    let workers = Worker::of(readers, &Workload::read_only());
    let many = workers.len().max(1) as u32;
    for (number, mut worker) in workers.into_iter().enumerate() {
        let (work, clock) = (work.clone(), clock.clone());
        let first = Instant::now() + READ_EVERY * number as u32 / many;
        reading.spawn(async move {
            clock.sleep_until(first.min(end)).await;
            worker.repeat(end, READ_EVERY, &clock, &work).await;
            worker
        });
    }
    let workers = reading.join_all().await;
    let work = std::mem::take(&mut *work.lock().unwrap_or_else(PoisonError::into_inner));
    (workers, work)
}

/// Times of all batches; each is written whole or the experiment fails.
async fn write_batches(
    writers: Vec<Connection>,
    end: Instant,
    every: Duration,
    clock: &Clock,
) -> Result<Latencies, Error> {
    let mut writing = JoinSet::new();
    let many = writers.len().max(1) as u32;
    for (number, writer) in writers.into_iter().enumerate() {
        let first = Instant::now() + every * number as u32 / many;
        writing.spawn(write_alone(
            writer,
            number,
            first,
            end,
            every,
            clock.clone(),
        ));
    }
    let mut all = Latencies::default();
    for wrote in writing.join_all().await {
        all.merge(&wrote?);
    }
    Ok(all)
}

async fn write_alone(
    mut writer: Connection,
    number: usize,
    first: Instant,
    end: Instant,
    every: Duration,
    clock: Clock,
) -> Result<Latencies, Error> {
    let mut latencies = Latencies::default();
    let mut next = first;
    while next < end {
        clock.sleep_until(next).await;
        let began = Instant::now();
        match number % 2 {
            0 => {
                writer
                    .copy_in(
                        "COPY weir_lab.events (batch, payload) FROM STDIN",
                        rows("{}\tpayload of a row\n").as_bytes(),
                    )
                    .await?
            }
            _ => {
                let values = rows("({}, 'payload of a row'),");
                let sql = format!(
                    "INSERT INTO weir_lab.events (batch, payload) VALUES {}",
                    values.trim_end_matches(',')
                );
                writer.query(&sql).await.map(drop)?;
            }
        }
        latencies.add(began.elapsed());
        next += every;
    }
    clock.sleep_until(end).await;
    Ok(latencies)
}

/// `{}` stands for the row's number.
fn rows(pattern: &str) -> String {
    let (before, after) = pattern.split_once("{}").unwrap_or((pattern, ""));
    let mut text = String::new();
    for number in 1..=BATCH {
        let _ = write!(text, "{before}{number}{after}");
    }
    text
}
