//! The adviser in front of real servers whose load is known. `crates/weir/tests/suite/advise.rs` has it behind Weir.

use lab::advise::advice::{Advice, Topic, Weight};
use lab::advise::observations::{Ended, Group, MemorySource, Observations, Pooler, Sight};
use lab::advise::sample::{self, Onlooker};
use lab::advise::source::Source;
use lab::advise::{AdviseError, AdviseOptions, Length, Output, json, observe, reasoning, words};
use lab::interrupt::Interrupt;
use lab::postgres::{Options, Shutdown};
use lab::runtime::apart;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::{Ini, PgBouncer, Postgres, Role};
use tokio::sync::watch;
use tokio_postgres::{Client, Config, NoTls};

/// A tenth of a second of work. It looks at a table: since PostgreSQL 15 a session publishes its counters only when it has.
const WORK: &str = "SELECT pg_sleep(0.1) FROM pg_am LIMIT 1";
const SHORT_WORK: &str = "SELECT pg_sleep(0.02) FROM pg_am LIMIT 1";

/// Clients that do the same over and over, until this value is dropped.
struct Crowd {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What each client of a crowd does.
#[derive(Clone, Copy)]
enum Habit {
    /// Runs a statement every so often.
    Every(Duration, &'static str),
    /// Connects for it every so often.
    ConnectEvery(Duration, &'static str),
    /// Runs it once, and stays.
    Once(&'static str),
}

impl Crowd {
    /// Returns when all have connected for the first time.
    fn gather(dsn: &str, application: &str, clients: usize, habit: Habit) -> Self {
        let mut config: Config = dsn.parse().expect("a connection string");
        config.application_name(application);
        let (stop, stopped) = watch::channel(false);
        let (ready, all_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            apart(async {
                let mut tasks = tokio::task::JoinSet::new();
                for _ in 0..clients {
                    let mut stopped = stopped.clone();
                    let life = live(config.clone(), habit, ready.clone());
                    tasks.spawn(async move {
                        tokio::select! {
                            () = life => {}
                            _ = stopped.wait_for(|stop| *stop) => {}
                        }
                    });
                }
                tasks.join_all().await;
            });
        });
        all_ready.iter().take(clients).for_each(drop);
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("it may connect");
    tokio::spawn(connection);
    client
}

async fn live(config: Config, habit: Habit, ready: mpsc::Sender<()>) {
    let kept = connect(&config).await;
    match habit {
        Habit::Once(statement) => {
            kept.batch_execute(statement).await.expect("it runs");
            let _ = ready.send(());
            std::future::pending::<()>().await;
        }
        Habit::Every(time, statement) => {
            let _ = ready.send(());
            let mut clock = tokio::time::interval(time);
            loop {
                clock.tick().await;
                if kept.batch_execute(statement).await.is_err() {
                    return;
                }
            }
        }
        Habit::ConnectEvery(time, statement) => {
            drop(kept);
            let _ = ready.send(());
            let mut clock = tokio::time::interval(time);
            loop {
                clock.tick().await;
                let client = connect(&config).await;
                let _ = client.batch_execute(statement).await;
            }
        }
    }
}

fn options(dsn: &str, seconds: u64) -> AdviseOptions {
    AdviseOptions {
        dsn: dsn.into(),
        watch: Length(Duration::from_secs(seconds)),
        cores: None,
        memory: None,
        apply_to: None,
        output: Output::Text,
    }
}

fn watch(dsn: &str, seconds: u64) -> (Observations, Advice) {
    let seen = observe(&options(dsn, seconds), &Interrupt::silent()).expect("it can be watched");
    let advice = reasoning::conclude(&seen);
    (seen, advice)
}

#[track_caller]
fn group<'a>(seen: &'a Observations, application: &str) -> &'a Group {
    let mut groups = seen.groups.iter();
    let found = groups.find(|group| group.who.application == application);
    found.unwrap_or_else(|| panic!("nobody is {application}: {:?}", seen.groups))
}

/// Whether something should be done about it, and what is said.
fn told(advice: &Advice, topic: Topic) -> (bool, String) {
    let findings: Vec<_> = advice
        .findings
        .iter()
        .filter(|finding| finding.topic == topic)
        .collect();
    let texts: Vec<&str> = findings
        .iter()
        .map(|finding| finding.text.as_str())
        .collect();
    (
        findings.iter().any(|finding| finding.weight == Weight::Act),
        texts.join("\n"),
    )
}

fn assert_between(what: &str, number: f64, least: f64, most: f64) {
    assert!((least..=most).contains(&number), "{what} is {number}");
}

/// Eight clients that are at work half of the time, five that do nothing, one that has forgotten its transaction, one that never stays.
fn known_load_is_seen(major: u32) {
    let postgres = Postgres::start(major);
    let dsn = postgres.connection_string("postgres", Postgres::DATABASE);
    let crowd =
        |application: &str, clients, habit| Crowd::gather(&dsn, application, clients, habit);
    let _crowds = [
        crowd("workers", 8, Habit::Every(Duration::from_millis(200), WORK)),
        crowd("lounge", 5, Habit::Once("SELECT 1")),
        crowd("forgetful", 1, Habit::Once("BEGIN; SELECT 1")),
        crowd(
            "restless",
            1,
            Habit::ConnectEvery(Duration::from_millis(100), SHORT_WORK),
        ),
    ];
    let (seen, advice) = watch(&dsn, 8);
    assert_eq!(seen.watch.ended, Ended::InTime);
    assert_eq!(
        (seen.server.version_num / 10_000, seen.server.sight),
        (major, Sight::Everything)
    );

    // Half of eight, and a fifth of the restless one.
    assert_between("active", seen.load.active.mean(), 3.2, 5.4);
    assert!(
        seen.load.running.mean() < 1.0,
        "pg_sleep wants no processor"
    );
    let by_clock = seen
        .per_second(|database| database.active_s)
        .expect("14 or later");
    assert_between("active by the server's clock", by_clock, 3.2, 5.4);
    assert_between("transactions", seen.transactions_per_second(), 38.0, 60.0);
    let (_, work) = told(&advice, Topic::Work);
    assert!(work.contains("by Little's law"), "{work}");

    let lounge = group(&seen, "lounge");
    assert_eq!((lounge.sessions, lounge.idle), (5, 5.0));
    assert!(lounge.idle_longest_s >= 8.0, "{lounge:?}");
    let forgetful = group(&seen, "forgetful");
    assert!(
        forgetful.idle_in_transaction_longest_s >= 8.0,
        "{forgetful:?}"
    );
    let (act, text) = told(&advice, Topic::IdleInTransaction);
    assert!(
        act && text.contains("forgetful, weir_test/postgres, from 127.0.0.1"),
        "{text}"
    );

    let restless = group(&seen, "restless");
    assert!(restless.came >= 3 && restless.left >= 3, "{restless:?}");
    let (act, text) = told(&advice, Topic::Reconnecting);
    assert!(act && text.contains("restless"), "{text}");
    assert!(!text.contains("workers"), "{text}");

    let memory = seen.memory.as_ref().expect("a superuser may see something");
    if std::path::Path::new("/proc/self/smaps_rollup").exists() {
        assert_eq!(memory.source, MemorySource::Kernel);
        assert!(memory.measured >= 14, "{memory:?}");
        assert_eq!(
            seen.hardware.cores,
            Some(
                std::thread::available_parallelism()
                    .expect("a number")
                    .get()
            )
        );
    }
    assert_between("bytes of a session", memory.mean_bytes, 3e5, 5e7);

    let [pool] = &advice.pools[..] else {
        panic!("one pool: {:?}", advice.pools)
    };
    assert_eq!(pool.name.to_string(), "weir_test/postgres");
    assert_between("the pool's size", f64::from(pool.size), 6.0, 13.0);
    let text = words::text(&seen, &advice) + &words::ini(&seen, &advice);
    assert!(
        text.contains("default_pool_size") && text.contains("Idle in a transaction"),
        "{text}"
    );
    let document: serde_json::Value =
        serde_json::from_str(&json(&seen, &advice).expect("texts")).expect("JSON");
    assert_eq!(document["advice"]["pools"][0]["name"], "weir_test/postgres");
}

#[test]
fn known_load_is_seen_on_the_oldest_version() {
    known_load_is_seen(*lab::postgres::SUPPORTED.start());
}

#[test]
fn known_load_is_seen_on_the_newest_version() {
    known_load_is_seen(*lab::postgres::SUPPORTED.end());
}

#[test]
fn a_role_without_rights_is_told_what_it_does_not_see() {
    let postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let load = Crowd::gather(
        &postgres.connection_string("postgres", Postgres::DATABASE),
        "hidden",
        4,
        Habit::Every(Duration::from_millis(200), WORK),
    );
    let dsn = postgres.connection_string(Role::Trust.name(), Postgres::DATABASE);
    let (seen, advice) = watch(&dsn, 6);
    drop(load);
    assert_eq!(seen.server.sight, Sight::OwnSessions);
    assert_eq!(seen.load.unseen.max(), 4);
    let (act, text) = told(&advice, Topic::Sight);
    assert!(
        act && text.contains("GRANT pg_read_all_stats TO weir_trust"),
        "{text}"
    );
    // Half of four at a time, by the server's own clock.
    let [pool] = &advice.pools[..] else {
        panic!("one pool: {:?}", advice.pools)
    };
    assert_between("mean", pool.mean, 1.5, 2.6);
    assert!(pool.why.contains("hidden"), "{pool:?}");
}

#[test]
fn who_only_reads_is_told_from_who_writes() {
    let options = Options::default().setting("shared_preload_libraries", "pg_stat_statements");
    let postgres = Postgres::start_with(Postgres::USUAL_MAJOR, options);
    let prepared = "CREATE EXTENSION pg_stat_statements; CREATE TABLE written (n int); GRANT ALL ON written TO PUBLIC";
    postgres
        .query(Postgres::DATABASE, prepared)
        .expect("a fetched PostgreSQL has the extension");
    let every = |statement| Habit::Every(Duration::from_millis(100), statement);
    let gather = |role: Role, habit| Crowd::gather(&postgres.direct(role), role.name(), 2, habit);
    let _crowds = [
        gather(
            Role::Plain,
            every("SELECT pg_sleep(0.05), count(*) FROM written"),
        ),
        gather(
            Role::Scram,
            every("INSERT INTO written SELECT 1 FROM pg_sleep(0.05)"),
        ),
    ];
    let dsn = postgres.connection_string("postgres", Postgres::DATABASE);
    let (seen, advice) = watch(&dsn, 6);
    let statements = seen.statements.as_ref().expect("the extension is there");
    let of = |role: Role| {
        let mut pools = statements.by_pool.iter();
        let found = pools.find(|(name, _)| name.user == role.name());
        *found.expect("it ran something").1
    };
    let (reader, writer) = (of(Role::Plain), of(Role::Scram));
    assert!(reader.reads > 50.0 && reader.writes == 0.0, "{reader:?}");
    assert!(writer.writes > 50.0 && writer.reads == 0.0, "{writer:?}");
    // Twenty transactions of each kind in a second.
    assert_between("ids", seen.transaction_ids / seen.watch.seconds, 14.0, 24.0);
    let (_, text) = told(&advice, Topic::Writes);
    assert!(
        text.contains("weir_test/weir_plain was never seen writing") && text.contains("none wrote"),
        "{text}"
    );
    assert!(!text.contains("weir_scram was never"), "{text}");
}

#[test]
fn a_pool_that_is_too_small_is_seen_from_its_console() {
    let postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let ini = Ini::in_front_of(&postgres).set("default_pool_size", 3);
    let Some(pooler) = PgBouncer::start(&ini.set("stats_users", "weir_stats, weir_trust")) else {
        return;
    };
    let dsn = |user: &str| pooler.connection_string(user, "", Postgres::DATABASE);
    let _load = Crowd::gather(
        &dsn("weir_plain"),
        "crowd",
        9,
        Habit::Every(Duration::from_millis(10), "SELECT pg_sleep(0.05)"),
    );
    let (seen, advice) = watch(&dsn("weir_trust"), 5);
    let Pooler::Open(counted) = &seen.pooler else {
        panic!("its console answers: {:?}", seen.pooler)
    };
    assert!(
        counted.version.starts_with("PgBouncer"),
        "{}",
        counted.version
    );
    let pool = advice
        .pools
        .iter()
        .find(|pool| pool.name.user == "weir_plain")
        .unwrap_or_else(|| panic!("{:?}", advice.pools));
    // Three in use, and six that wait: it may double.
    assert_eq!((pool.size, pool.max), (6, 3), "{pool:?}");
    assert!(
        advice
            .pools
            .iter()
            .all(|pool| pool.name.user != "weir_trust"),
        "its own is none"
    );
    let (act, text) = told(&advice, Topic::Pooler);
    assert!(act && text.contains("clients waited"), "{text}");

    // Whom the console does not let in is told so, and sees the server.
    let (seen, advice) = watch(&dsn("weir_plain"), 2);
    assert!(
        matches!(seen.pooler, Pooler::Closed(_)),
        "{:?}",
        seen.pooler
    );
    let (_, text) = told(&advice, Topic::Sight);
    assert!(text.contains("stats_users"), "{text}");
    assert!(seen.load.active.max() >= 2, "{:?}", seen.load.active);
}

/// Does something at the third look.
struct AtThirdLook<F: FnMut()> {
    looks: u32,
    act: F,
}

impl<F: FnMut() + Send> Onlooker for AtThirdLook<F> {
    fn begins(&mut self, _what: &str, _length: Duration) {}

    fn looked(&mut self, _watched: Duration, _sessions: u32, _active: u32) {
        self.looks += 1;
        if self.looks == 3 {
            (self.act)();
        }
    }

    fn ends(&mut self) {}
}

#[test]
fn what_was_seen_before_an_early_end_counts() {
    let mut postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let dsn = postgres.connection_string("postgres", Postgres::DATABASE);
    let source = Source::parse(&dsn).expect("valid");
    let hour = Duration::from_secs(3_600);

    let interrupt = Interrupt::silent();
    let pressed = interrupt.clone();
    let mut onlooker = AtThirdLook {
        looks: 0,
        act: || pressed.request(),
    };
    let seen =
        apart(sample::observe(&source, hour, &interrupt, &mut onlooker)).expect("three looks");
    assert_eq!(
        (seen.watch.looks, &seen.watch.ended),
        (3, &Ended::Interrupted)
    );
    assert!(
        seen.databases
            .iter()
            .any(|database| database.name == "weir_test")
    );

    let mut onlooker = AtThirdLook {
        looks: 0,
        act: || postgres.stop(Shutdown::Fast),
    };
    let seen = apart(sample::observe(
        &source,
        hour,
        &Interrupt::silent(),
        &mut onlooker,
    ))
    .expect("three looks");
    assert!(
        matches!(seen.watch.ended, Ended::Lost(_)),
        "{:?}",
        seen.watch
    );
    assert_eq!(seen.watch.looks, 3);
    let (act, text) = told(&reasoning::conclude(&seen), Topic::Sight);
    assert!(act && text.contains("ended early"), "{text}");
}

#[test]
fn a_server_that_wants_tls_is_spoken_to_by_tls() {
    let postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let folder = postgres.socket_dir();
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=somebody.else",
            "-days",
            "2",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output();
    let Ok(made) = made else {
        // Nothing makes certificates here.
        return;
    };
    assert!(made.status.success(), "{made:?}");
    let account = lab::account::Account::choose().expect("an account");
    account.give(&folder.join("key.pem")).expect("own file");
    for setting in [
        format!("ssl_cert_file = '{}'", folder.join("cert.pem").display()),
        format!("ssl_key_file = '{}'", folder.join("key.pem").display()),
        "ssl = on".to_owned(),
    ] {
        postgres
            .execute(&format!("ALTER SYSTEM SET {setting}"))
            .expect("a setting");
    }
    postgres
        .set_hba(["hostssl all all 127.0.0.1/32 scram-sha-256"])
        .expect("writable");
    postgres.reload().expect("it runs");
    let dsn = postgres.direct(Role::Scram);
    for mode in ["prefer", "require"] {
        let (seen, _) = watch(&format!("{dsn} sslmode={mode}"), 1);
        assert!(seen.watch.looks > 1, "{mode}");
    }
    let refused = observe(
        &options(&format!("{dsn} sslmode=disable"), 1),
        &Interrupt::silent(),
    );
    let refused = refused.expect_err("it wants TLS").to_string();
    assert!(refused.contains("no encryption"), "{refused}");
}

#[test]
fn what_cannot_be_reached_or_understood_is_an_error_in_words() {
    let attempt = |dsn: &str| {
        let failed: AdviseError = observe(&options(dsn, 1), &Interrupt::silent()).expect_err(dsn);
        failed.to_string()
    };
    let port = lab::port::free().expect("a port");
    let refused = attempt(&format!("postgresql://a@127.0.0.1:{port}/a"));
    assert!(
        refused.contains(&format!("cannot connect to 127.0.0.1:{port}: "))
            && refused.contains("refused"),
        "{refused}"
    );
    assert!(attempt("nonsense").contains("connection string"));
    let unknown = Postgres::usual().connection_string("nobody_at_all", "postgres");
    assert!(
        attempt(&unknown).contains("nobody_at_all"),
        "{}",
        attempt(&unknown)
    );
}
