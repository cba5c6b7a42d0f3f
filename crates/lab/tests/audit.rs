//! What statements would cost in a transaction pool, of real sessions and a real log.

use lab::advise::Length;
use lab::audit::verdict::Cost;
use lab::audit::{Audit, AuditError, AuditOptions, audit, words};
use lab::interrupt::Interrupt;
use lab::runtime::apart;
use std::path::PathBuf;
use std::time::Duration;
use testkit::Postgres;
use tokio_postgres::{Client, Config, NoTls};

async fn connect(dsn: &str, application: &str) -> Client {
    let mut config: Config = dsn.parse().expect("a connection string");
    config.application_name(application);
    let (client, connection) = config.connect(NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client
}

fn options(dsn: Option<String>, logs: &[PathBuf]) -> AuditOptions {
    AuditOptions {
        dsn,
        watch: Length(Duration::from_secs(1)),
        logs: logs.to_vec(),
    }
}

/// What an application's statements cost, in the order of their texts.
fn costs(audit: &Audit, application: &str) -> Vec<(String, Cost, Vec<String>)> {
    let costly = &audit.applications[application].costly;
    costly
        .iter()
        .filter_map(|(text, it)| {
            Some((text.clone(), it.verdict.cost()?, it.verdict.through.clone()))
        })
        .collect()
}

fn sessions_are_judged_by_application(major: u32) {
    let postgres = Postgres::start(major);
    let dsn = postgres.connection_string("postgres", Postgres::DATABASE);
    let found = apart(async {
        let owner = connect(&dsn, "owner").await;
        owner
            .batch_execute(
                "CREATE SCHEMA audited; \
                 CREATE FUNCTION audited.be(name text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.name', name, false) $$; \
                 CREATE TABLE audited.t (a int)",
            )
            .await
            .expect("they are made");
        let shop = connect(&dsn, "shop").await;
        shop.batch_execute("SELECT audited.be('x')").await.expect("it runs");
        let jobs = connect(&dsn, "jobs").await;
        jobs.batch_execute("SELECT pg_advisory_lock(17)").await.expect("it runs");
        let reports = connect(&dsn, "reports").await;
        reports.batch_execute("SELECT count(*) FROM audited.t").await.expect("it runs");
        let options = options(Some(dsn.clone()), &[]);
        let found = tokio::task::spawn_blocking(move || audit(&options, &Interrupt::silent()))
            .await
            .expect("no panic");
        drop((shop, jobs, reports));
        owner.batch_execute("DROP SCHEMA audited CASCADE").await.expect("it goes");
        found
    })
    .expect("an audit");
    assert_eq!(
        costs(&found, "shop"),
        [(
            "SELECT audited.be(?)".into(),
            Cost::Census,
            vec!["be".to_owned()]
        )]
    );
    assert_eq!(
        costs(&found, "jobs"),
        [(
            "SELECT pg_advisory_lock(?)".into(),
            Cost::PinWhileItLasts,
            vec![]
        )]
    );
    assert_eq!(costs(&found, "reports"), []);
    assert_eq!(found.applications["reports"].statements, 1);
    let text = words::text(&found);
    for line in [
        "jobs: 1 of 1 statements cost something",
        "pg_advisory_xact_lock: it ends with the transaction",
        "through: be",
        "reports: 0 of 1 statements",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

#[test]
fn sessions_are_judged_by_application_14() {
    sessions_are_judged_by_application(14);
}

#[test]
fn sessions_are_judged_by_application_latest() {
    sessions_are_judged_by_application(Postgres::USUAL_MAJOR);
}

#[test]
fn files_need_no_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sql");
    std::fs::write(
        &path,
        "SELECT 1;\nSET app.tenant = '1';\nSET app.tenant = '2';\n",
    )
    .expect("writable");
    let found = audit(
        &options(None, std::slice::from_ref(&path)),
        &Interrupt::silent(),
    )
    .expect("an audit");
    let application = &found.applications[""];
    assert_eq!(application.statements, 3);
    assert_eq!(application.costly["SET app.tenant = ?"].times, 2);

    let empty = folder.path().join("empty.log");
    std::fs::write(&empty, "").expect("writable");
    let error = audit(&options(None, &[empty]), &Interrupt::silent()).expect_err("nothing in it");
    assert!(
        matches!(error, AuditError::Log(_)) && error.to_string().contains("log_statement"),
        "{error}"
    );
    let nowhere = options(Some("postgresql://a@127.0.0.1:1/d".into()), &[]);
    let error = audit(&nowhere, &Interrupt::silent()).expect_err("nobody there");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}
