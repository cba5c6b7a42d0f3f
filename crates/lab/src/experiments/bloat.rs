//! What a server connection remembers of the tables that it has touched.

use super::grid;
use crate::driver::{Connection, Crowd, Endpoint};
use crate::experiment::{About, Case, Experiment, Format, Measure, Plan, Planned, Point, Scope};
use crate::published;
use crate::report::{bytes, count};
use crate::results::{Axis, Chart, Check, Sample, Table, Verdict};
use crate::site::{Error, Reuse, Setup, Site, Target, TargetKind, relation};
use rand::seq::SliceRandom;
use std::time::Duration;

const POOL: u64 = 4;
/// How often each table is touched, in a different order each time.
const PASSES: u64 = 3;
/// About how long a first or a later touch of a table takes.
const TOUCH: Duration = Duration::from_micros(600);
/// Tables created in one transaction: each holds a few locks.
const PORTION: u64 = 200;
/// Server connections are replaced at this age, in seconds.
const AGE_S: u64 = 1;

const KEPT: u64 = 0;
const ROUND_ROBIN: u64 = 1;
const AGED: u64 = 2;

/// Memory contexts of the session that asks (manual, "pg_backend_memory_contexts").
const CENSUS: &str = "SELECT pg_backend_pid(), \
     coalesce(sum(total_bytes) FILTER (WHERE name = 'CacheMemoryContext'), 0), \
     coalesce(sum(total_bytes) FILTER (WHERE name = 'index info'), 0), \
     count(*) FILTER (WHERE name = 'index info' AND ident LIKE 'relation\\_%'), \
     sum(total_bytes) FROM pg_backend_memory_contexts";

pub struct Bloat;

/// What one server connection remembers, in bytes.
#[derive(Debug, Clone, Copy)]
struct Memory {
    cache: f64,
    index_info: f64,
    /// Tables of the experiment that it knows.
    known: f64,
    all: f64,
}

impl Experiment for Bloat {
    fn name(&self) -> &'static str {
        "bloat"
    }

    fn about(&self) -> About {
        About {
            title: "What server connections remember of the tables they touch".into(),
            shows: "PostgreSQL keeps what it has learned of each table, in each server connection, until that connection ends. A client touches every table three times in random order: directly; and through a \
                    pool of four server connections, of which the pooler uses the last used one first, or all in turn (server_round_robin), or replaces those older than a second (server_lifetime = 1).".into(),
            axis: "tables".into(),
            measures: vec![
                Measure::main("sum", "Catalogue caches of all server connections", Format::Bytes),
                Measure::main("largest", "Catalogue cache of the largest server connection", Format::Bytes),
                Measure::detail("index_info", "Of it: index info", Format::Bytes),
                Measure::detail("known", "Tables that the largest one knows", Format::Count),
                Measure::detail("all", "All memory contexts of the largest one", Format::Bytes),
            ],
            published: published::bloat(),
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Plan {
        let cases = [
            Case::new(KEPT, "last used first"),
            Case::new(ROUND_ROBIN, "all in turn"),
            Case::new(AGED, "replaced by age"),
        ];
        let sizes: &[u64] = scope.depth.choose(
            &[0, 100],
            &[0, 300, 1_000],
            &[0, 1_000, 10_000, 30_000, 100_000],
        );
        let cost = |_: &_, case: &Case, size: u64| {
            let aging = if case.key == AGED { AGE_S + 1 } else { 0 };
            Duration::from_millis(300) + TOUCH * (PASSES * size) as u32 + Duration::from_secs(aging)
        };
        let mut points = grid(scope, &cases, |_, _| super::exactly(sizes), cost);
        points.retain(|planned| applies(scope.targets, planned));
        let most = sizes.last().copied().unwrap_or_default();
        Plan {
            preparation: Duration::from_micros(2_500 * most),
            ..Plan::of(scope.depth.choose(1, 2, 1), points)
        }
    }

    fn prepare(&self, site: &mut Site, plan: &Plan) -> Result<(), Error> {
        let most = plan.points.iter().map(|planned| planned.point.size).max();
        for target in &site.targets {
            if let TargetKind::OwnPooler(_) = target.kind {
                continue;
            }
            let door = site.enter(&target.name, &Setup::pool_of(POOL))?;
            site.run(create(&door.endpoint, most.unwrap_or_default()))?;
        }
        Ok(())
    }

    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error> {
        let mut setup = Setup::pool_of(POOL);
        match point.case.key {
            ROUND_ROBIN => setup.reuse = Reuse::RoundRobin,
            AGED => setup.lifetime_s = AGE_S,
            _ => {}
        }
        let door = site.enter(&point.target, &setup)?;
        let watch = site.watch(&point.target)?;
        let clients = if door.pooler().is_some() { POOL } else { 1 };
        let memories = site.run(async {
            let mut crowd = Crowd::open(&door.endpoint, clients, clients, None)
                .await
                .complete(clients)?;
            // Every server connection of the pool is opened, and then one client alone touches the tables.
            census(&mut crowd.members).await?;
            touch(&mut crowd.members[0], point.size).await?;
            if point.case.key == AGED {
                tokio::time::sleep(Duration::from_secs(AGE_S) + Duration::from_millis(500)).await;
            }
            let memories = census(&mut crowd.members).await?;
            crowd.close().await;
            Ok::<_, Error>(memories)
        })?;
        let largest = memories
            .iter()
            .max_by(|one, other| one.cache.total_cmp(&other.cache));
        let largest =
            *largest.ok_or_else(|| Error::Unfit("no server connection answered".into()))?;
        let sum = memories
            .iter()
            .map(|memory| memory.cache + memory.index_info)
            .sum();
        let mut sample = Sample::of([
            ("sum", sum),
            ("largest", largest.cache + largest.index_info),
            ("index_info", largest.index_info),
            ("known", largest.known),
            ("all", largest.all),
        ])
        .with(Check::at_most(
            "server connections",
            POOL,
            memories.len() as u64,
        ));
        if door.is_direct() {
            sample = sample.with(Check::exactly(
                "tables in the cache",
                point.size,
                largest.known as u64,
            ));
        }
        site.settle(door, &watch)?;
        Ok(sample)
    }

    fn verdict(&self, table: &Table) -> Verdict {
        let mut sentences = Vec::new();
        for target in table.targets() {
            for case in table.cases() {
                let line = table.line(target, case.key, "sum");
                let (Some((_, fresh)), Some((tables, grown))) = (line.first(), line.last()) else {
                    continue;
                };
                sentences.push(format!(
                    "{target}, {}: {} at first, {} after {} tables.",
                    case.label,
                    bytes(*fresh as u64),
                    bytes(*grown as u64),
                    count(*tables)
                ));
            }
        }
        let first = table.targets().first().copied().unwrap_or_default();
        let headline = match bytes_per_table(table, first) {
            Some(each) => format!(
                "A server connection keeps about {} for every table that it touches, until it ends.",
                bytes(each as u64)
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
            id: "cache".into(),
            title: "Catalogue caches of all server connections".into(),
            x: Axis::linear("tables touched"),
            y: Axis::linear("MiB"),
            series: in_mebibytes(table.series("sum", &[KEPT, ROUND_ROBIN, AGED])),
        }]
    }
}

/// From the smallest to the largest number of tables, on connections that are kept.
pub fn bytes_per_table(table: &Table, target: &str) -> Option<f64> {
    let line = table.line(target, KEPT, "largest");
    let ((few, small), (many, large)) = (line.first()?, line.last()?);
    (many > few).then(|| (large - small) / (many - few) as f64)
}

/// How connections are reused is a pooler's choice, and only the lab's own can be told.
fn applies(targets: &[Target], planned: &Planned) -> bool {
    let target = targets
        .iter()
        .find(|target| target.name == planned.point.target);
    let is_set_up = target.is_some_and(|target| matches!(target.kind, TargetKind::OwnPooler(_)));
    is_set_up || planned.point.case.key == KEPT
}

fn in_mebibytes(mut all: Vec<crate::results::Series>) -> Vec<crate::results::Series> {
    for dot in all.iter_mut().flat_map(|series| &mut series.dots) {
        for number in [&mut dot.y, &mut dot.low, &mut dot.high] {
            *number /= f64::from(1 << 20);
        }
    }
    all
}

async fn create(endpoint: &Endpoint, tables: u64) -> Result<(), Error> {
    let mut connection = Connection::open(endpoint).await?;
    for first in (1..=tables).step_by(PORTION as usize) {
        let last = (first + PORTION - 1).min(tables);
        let sql = format!(
            "DO $$ BEGIN FOR i IN {first}..{last} LOOP EXECUTE format('CREATE TABLE IF NOT EXISTS weir_lab.relation_%s \
             (id serial PRIMARY KEY, data1 int, data2 text, data3 json)', i); END LOOP; END $$"
        );
        connection.query(&sql).await?;
    }
    connection.close().await;
    Ok(())
}

async fn touch(connection: &mut Connection, tables: u64) -> Result<(), Error> {
    let mut numbers: Vec<u64> = (1..=tables).collect();
    for _ in 0..PASSES {
        numbers.shuffle(&mut rand::rng());
        for number in &numbers {
            let sql = format!("SELECT data1 FROM {} WHERE id = 1", relation(*number));
            connection.query(&sql).await?;
        }
    }
    Ok(())
}

/// Asks every server connection: while all clients are in a transaction, each has another one.
async fn census(clients: &mut [Connection]) -> Result<Vec<Memory>, Error> {
    for client in &mut *clients {
        client.query("BEGIN").await?;
    }
    let mut memories = Vec::new();
    for client in &mut *clients {
        let answer = client.query(CENSUS).await?;
        let number = |column: usize| {
            let text = answer.first.get(column).cloned().flatten();
            text.and_then(|text| text.parse().ok()).unwrap_or_default()
        };
        memories.push(Memory {
            cache: number(1),
            index_info: number(2),
            known: number(3),
            all: number(4),
        });
    }
    for client in clients {
        client.query("COMMIT").await?;
    }
    Ok(memories)
}
