//! Each experiment, small, against a real PostgreSQL, where the answer is known.
//!
//! PgBouncer stands in Weir's place: it takes the same file. `cargo xtask test` runs `weir lab` with Weir. Without PgBouncer only the server
//! itself is measured.

#[path = "lab/slow.rs"]
mod slow;

use lab::command::{self, LabError, LabOptions};
use lab::driver::Endpoint;
use lab::experiment::{Case, Depth, Experiment, Point, Scope};
use lab::experiments::{
    bloat, connect, idle, memory, overhead, poolsize, readers_writers, storm, think,
};
use lab::interrupt::Interrupt;
use lab::postgres::{Installation, Options, Server};
use lab::results::{Ended, Results, Row, Sample, Table};
use lab::site::{Site, SiteOptions, Target, TargetKind};
use lab::workload::{Detail, Job, Load, Workload};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::PgBouncer;

/// The name of the pooler in the lab's own site.
const POOLER: &str = "Weir";
const DIRECT: &str = "PostgreSQL";

fn own_site() -> Site {
    let options = SiteOptions {
        depth: Depth::Smallest,
        given: Vec::new(),
        weir_program: PgBouncer::program().unwrap_or_default(),
        connections: 150,
    };
    let mut site = Site::open(&options, Interrupt::silent()).expect("a site");
    site.targets.retain(|target| match &target.kind {
        TargetKind::OwnPooler(program) => target.name == POOLER && program.path().is_file(),
        _ => true,
    });
    site
}

/// A site of targets that are not the lab's own.
fn given_site(targets: &[(&str, u16)]) -> Site {
    let target = |(name, port): &(&str, u16)| Target {
        name: (*name).into(),
        kind: TargetKind::Given(Endpoint::local(*port, "postgres", "postgres")),
    };
    let options = SiteOptions {
        depth: Depth::Smallest,
        given: targets.iter().map(target).collect(),
        weir_program: PathBuf::new(),
        connections: 50,
    };
    Site::open(&options, Interrupt::silent()).expect("a site")
}

fn server() -> Server {
    let installation = Installation::obtain(testkit::Postgres::USUAL_MAJOR).expect("a PostgreSQL");
    installation.start(&Options::default()).expect("it starts")
}

/// Measures points, each a target, a case and a size.
fn measure(site: &mut Site, experiment: &dyn Experiment, points: &[(&str, u64, u64)]) -> Table {
    let mut table = Table::default();
    for (target, case, size) in points {
        if site.targets.iter().all(|known| known.name != *target) {
            continue;
        }
        let point = Point {
            target: (*target).into(),
            case: Case::new(*case, format!("case {case}")),
            size: *size,
            lowered: None,
        };
        let sample = experiment
            .measure(&point, site)
            .unwrap_or_else(|error| panic!("{point:?}: {error}"));
        table.rows.push(Row {
            point,
            samples: vec![sample],
            failures: Vec::new(),
        });
    }
    table
}

fn sample<'a>(table: &'a Table, target: &str, case: u64, size: u64) -> Option<&'a Sample> {
    let row = table.rows.iter().find(|row| {
        row.point.target == target && row.point.case.key == case && row.point.size == size
    })?;
    row.samples.first()
}

#[track_caller]
fn value(table: &Table, target: &str, case: u64, size: u64, measure: &str) -> f64 {
    let sample = sample(table, target, case, size).expect("it was measured");
    *sample
        .values
        .get(measure)
        .unwrap_or_else(|| panic!("{measure}: {sample:?}"))
}

#[track_caller]
fn assert_checks_passed(table: &Table) {
    for row in &table.rows {
        let failed: Vec<_> = row.failed_checks().collect();
        assert!(failed.is_empty(), "{:?}: {failed:?}", row.point);
    }
}

/// Sentences and headline of a verdict.
fn words(experiment: &dyn Experiment, table: &Table) -> String {
    let verdict = experiment.verdict(table);
    format!("{} {}", verdict.headline, verdict.sentences.join(" "))
}

#[test]
fn a_delay_on_the_way_is_found_by_overhead_and_think() {
    let server = server();
    let slow = slow::SlowWay::to(server.port(), Duration::from_millis(3));
    let mut site = given_site(&[("near", server.port()), ("far", slow.port())]);

    let table = measure(
        &mut site,
        &overhead::Overhead,
        &[("near", 1, 1), ("far", 1, 1), ("near", 0, 1), ("far", 0, 1)],
    );
    let read = overhead::added_ms(&table, "near", "far", 1).expect("measured");
    let empty = overhead::added_ms(&table, "near", "far", 0).expect("measured");
    // 3 ms there and 3 ms back, and an empty transaction goes twice; on a busy machine everything takes longer.
    assert!(value(&table, "far", 1, 1, "p50_ms") >= 6.0);
    assert!(value(&table, "far", 0, 1, "p50_ms") >= 12.0);
    assert!((4.0..60.0).contains(&read), "{read}");
    assert!(empty > read * 1.3, "{empty} and {read}");
    let words = words(&overhead::Overhead, &table);
    assert!(
        words.starts_with(&format!("far adds {read:.3} ms")),
        "{words}"
    );

    let table = measure(
        &mut site,
        &think::Think,
        &[("far", 0, 1), ("far", 0, 16), ("near", 0, 1)],
    );
    // Somebody whose answers are on their way for 6 ms gets 166 a second at most, and sixteen of them get sixteen times as much.
    let alone = value(&table, "far", 0, 1, "tps");
    assert!((5.0..167.0).contains(&alone), "{alone}");
    assert!(value(&table, "far", 0, 16, "tps") > alone * 3.0);
    assert_eq!(
        think::peak(&table, "far", 0).map(|(clients, _)| clients),
        Some(16)
    );
    site.leave();
    let left = server.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'weir_lab'");
    assert_eq!(left.expect("an answer"), "0");
}

#[test]
fn what_is_made_of_connections_is_found() {
    let mut site = own_site();

    let table = measure(
        &mut site,
        &idle::Idle,
        &[(DIRECT, 0, 0), (DIRECT, 1, 30), (POOLER, 0, 30)],
    );
    assert_checks_passed(&table);
    // Thirty that sleep 100 ms and ask: somewhat fewer than 300 queries a second.
    let naps = value(&table, DIRECT, 1, 30, "naps");
    assert!((30.0..301.0).contains(&naps), "{naps}");
    assert!(
        idle::kept(&table, DIRECT, 1, "tps_n")
            .is_some_and(|(size, share)| size == 30 && share > 0.0)
    );

    let table = measure(
        &mut site,
        &memory::Memory,
        &[(DIRECT, 0, 20), (DIRECT, 1, 20), (POOLER, 1, 30)],
    );
    assert_checks_passed(&table);
    let grown =
        |measure| value(&table, DIRECT, 1, 20, measure) - value(&table, DIRECT, 0, 20, measure);
    // Each has read 13 MB of shared memory: that is resident in all of them and private to none.
    assert!(grown("each_rss") > 10e6, "{}", grown("each_rss"));
    assert!(grown("private") < 4e6, "{}", grown("private"));

    let table = measure(
        &mut site,
        &connect::Connect,
        &[
            (DIRECT, 0, 10),
            (DIRECT, 1, 40),
            (DIRECT, 2, 10),
            (DIRECT, 3, 50),
            (DIRECT, 4, 50),
            (POOLER, 2, 30),
        ],
    );
    assert_checks_passed(&table);
    // Starting a process takes longer than a query.
    assert!(connect::times(&table, DIRECT).is_some_and(|times| times > 1.5));

    let table = measure(
        &mut site,
        &storm::Storm,
        &[(DIRECT, 0, 20), (DIRECT, 1, 30), (POOLER, 1, 30)],
    );
    assert_checks_passed(&table);
    // A restart takes everybody's connection.
    let lost = value(&table, DIRECT, 0, 20, "lost");
    assert!(lost >= 20.0, "{lost}");
    assert!(words(&storm::Storm, &table).contains(&format!("{lost} lost connections")));
}

#[test]
fn what_is_made_of_server_connections_is_found() {
    let mut site = own_site();
    let has_pooler = site.targets.len() > 1;

    // A count of tables.
    let scope = Scope {
        depth: Depth::Smallest,
        targets: &site.targets,
        capacity: &site.capacity,
        cores: 1,
    };
    let plan = bloat::Bloat.plan(&scope);
    bloat::Bloat.prepare(&mut site, &plan).expect("tables");
    let table = measure(
        &mut site,
        &bloat::Bloat,
        &[
            (DIRECT, 0, 0),
            (DIRECT, 0, 60),
            (DIRECT, 0, 100),
            (POOLER, 0, 100),
            (POOLER, 1, 100),
            (POOLER, 2, 100),
        ],
    );
    assert_checks_passed(&table);
    for tables in [0, 60, 100] {
        assert_eq!(value(&table, DIRECT, 0, tables, "known"), tables as f64);
    }
    let each = bloat::bytes_per_table(&table, DIRECT).expect("measured");
    assert!((2_000.0..60_000.0).contains(&each), "{each}");
    if has_pooler {
        // Whoever uses the last used connection first teaches one; age makes them all forget.
        assert_eq!(value(&table, POOLER, 0, 100, "known"), 100.0);
        assert_eq!(value(&table, POOLER, 2, 100, "known"), 0.0);
    }

    // A pool of one.
    let table = measure(
        &mut site,
        &poolsize::PoolSize,
        &[(DIRECT, 8, 0), (POOLER, 8, 1), (POOLER, 8, 4)],
    );
    assert_checks_passed(&table);
    assert_eq!(value(&table, DIRECT, 8, 0, "servers"), 8.0);
    if has_pooler {
        assert_eq!(value(&table, POOLER, 8, 1, "servers"), 1.0);
        let best = poolsize::best(&table, POOLER, 8).expect("measured");
        assert!(best.pool == 1 || best.pool == 4);
        assert!(
            words(&poolsize::PoolSize, &table)
                .contains(&format!("with {} server connections", best.pool))
        );
    }

    // Twenty readers, ten times a second each; and every row of the writers arrives (a check).
    let table = measure(
        &mut site,
        &readers_writers::ReadersWriters,
        &[(DIRECT, 0, 20), (POOLER, 0, 20)],
    );
    assert_checks_passed(&table);
    let reads = value(&table, DIRECT, 0, 20, "reads");
    assert!((20.0..201.0).contains(&reads), "{reads}");
}

#[test]
fn without_pgbench_the_own_driver_runs_every_script() {
    let server = server();
    let mut site = given_site(&[("only", server.port())]);
    site.load = Load::Builtin(site.clock.clone());
    let endpoint = Endpoint::local(server.port(), "postgres", "postgres");
    for workload in [
        Workload::empty(),
        Workload::read_only(),
        Workload::read_write(),
        Workload::order_entry(),
    ] {
        let job = Job {
            endpoint: &endpoint,
            workload: &workload,
            clients: 4,
            length: Duration::from_millis(400),
            detail: Detail::Percentiles,
        };
        let outcome = site.run(site.load.run(job)).expect("it runs");
        assert!(
            outcome.transactions > 0 && outcome.failed == 0,
            "{}: {outcome:?}",
            workload.name
        );
        assert!(outcome.p50_ms > 0.0 && outcome.p50_ms <= outcome.p99_ms);
    }
    // TPC-C, clause 3.3.2.1: a district's counter is the number of its orders, plus one.
    let wrong = "SELECT count(*) FROM weir_lab.district d WHERE next_o_id - 1 <> \
                 (SELECT count(*) FROM weir_lab.orders o WHERE o.w_id = d.w_id AND o.d_id = d.d_id)";
    assert_eq!(server.value(wrong).expect("an answer"), "0");
    assert_ne!(
        server
            .value("SELECT count(*) FROM weir_lab.orders")
            .expect("an answer"),
        "0"
    );
}

#[test]
fn an_interrupted_run_keeps_what_is_measured() {
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let interrupt = Interrupt::silent();
    let results = std::thread::scope(|threads| {
        let (asking, done) = (interrupt.clone(), out.join("memory.csv"));
        threads.spawn(move || {
            testkit::wait::until("the first experiment is written", || done.exists());
            asking.request();
        });
        let options = options(&server, &["memory", "overhead"], &out);
        command::run_until(&options, interrupt.clone()).expect("what is measured is kept")
    });
    assert_eq!(results.ended, Ended::Interrupted);
    let names: Vec<&str> = results
        .experiments
        .iter()
        .map(|study| study.name.as_str())
        .collect();
    assert_eq!(names[0], "memory");
    let kept: Results =
        serde_json::from_slice(&std::fs::read(out.join("results.json")).expect("results"))
            .expect("JSON");
    assert_eq!(kept.experiments.len(), results.experiments.len());
    let page = std::fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(page.contains("It was interrupted"));
    let once_more = options(&server, &["overhead"], &out);
    let joined = command::run_until(&once_more, Interrupt::silent()).expect("a second run");
    let names: Vec<&str> = joined
        .experiments
        .iter()
        .map(|study| study.name.as_str())
        .collect();
    assert_eq!(names, ["memory", "overhead"]);
    // The memory of a server that is not the lab's own is not read: said, not silent.
    assert!(page.contains("Left out: everything: the memory of server processes"));
}

#[test]
fn an_unknown_experiment_is_told_before_anything_starts() {
    let server = server();
    let options = options(&server, &["idle", "iddle"], Path::new("nowhere"));
    let error = command::run_until(&options, Interrupt::silent()).expect_err("unknown");
    assert!(
        matches!(&error, LabError::UnknownExperiment { unknown, .. } if unknown == "iddle"),
        "{error}"
    );
    assert!(error.to_string().contains("readers-writers"));
}

fn options(server: &Server, experiments: &[&str], out: &Path) -> LabOptions {
    let dsn = format!(
        "main=host=127.0.0.1 port={} user=postgres dbname=postgres",
        server.port()
    );
    LabOptions {
        experiments: experiments.iter().map(|&name| name.into()).collect(),
        targets: vec![dsn.parse().expect("a target")],
        depth: Depth::Smallest,
        out: Some(out.into()),
        weir_program: PathBuf::new(),
    }
}
