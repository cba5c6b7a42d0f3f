//! Observations with known answers.

use super::*;
use crate::advise::advice::{IniAdvice, Keeps};
use crate::advise::observations::{
    Arrival, Counts, Database, Group, Hardware, Load, MemorySource, Name, PoolSeen, PooledDatabase,
    Pooler, PoolerSeen, SessionMemory, Setting, Sight, Who,
};

/// So many looks that saw each number.
fn counts(seen: &[(u32, u64)]) -> Counts {
    let mut counts = Counts::default();
    for (number, times) in seen {
        (0..*times).for_each(|_| counts.see(*number));
    }
    counts
}

fn name(database: &str, user: &str) -> Name {
    Name {
        database: database.into(),
        user: user.into(),
    }
}

fn who(application: &str) -> Who {
    Who {
        application: application.into(),
        user: "web".into(),
        database: "shop".into(),
        client: "10.0.0.7".into(),
    }
}

/// 10 s and 100 looks on 8 cores: 200 sessions, of which 4 are busy in 90 looks and 8 in 10; 100 transactions per second.
fn direct() -> Observations {
    let busy = counts(&[(4, 90), (8, 10)]);
    let load = Load {
        sessions: counts(&[(200, 100)]),
        active: busy.clone(),
        running: counts(&[(1, 100)]),
        busy,
        idle: counts(&[(196, 90), (192, 10)]),
        ..Load::default()
    };
    let mut seen = Observations {
        load: load.clone(),
        hardware: Hardware {
            cores: Some(8),
            memory_bytes: Some(16 << 30),
        },
        ..Observations::default()
    };
    seen.server.sight = Sight::Everything;
    seen.server.role = "adviser".into();
    seen.watch.seconds = 10.0;
    seen.watch.looks = 100;
    seen.pools = [(name("shop", "web"), load)].into();
    seen.databases = vec![Database {
        name: "shop".into(),
        transactions: 1_000.0,
        sessions: Some(0.0),
        active_s: Some(44.0),
        idle_in_transaction_s: Some(0.0),
        ..Database::default()
    }];
    for (setting, value) in [
        ("max_connections", 500.0),
        ("superuser_reserved_connections", 3.0),
        ("shared_buffers", 1_073_741_824.0),
        ("work_mem", 4_194_304.0),
        ("hash_mem_multiplier", 2.0),
        ("idle_in_transaction_session_timeout", 0.0),
    ] {
        seen.server.settings.insert(
            setting.into(),
            Setting {
                text: value.to_string(),
                number: Some(value),
            },
        );
    }
    seen
}

fn told(advice: &Advice, topic: Topic) -> String {
    let of_topic = advice
        .findings
        .iter()
        .filter(|finding| finding.topic == topic);
    of_topic
        .map(|finding| finding.text.clone())
        .collect::<Vec<_>>()
        .join("\n")
}

fn weight(advice: &Advice, topic: Topic) -> Option<Weight> {
    let mut found = advice
        .findings
        .iter()
        .filter(|finding| finding.topic == topic);
    found.next().map(|finding| finding.weight)
}

fn ini<'a>(ini: &'a IniAdvice, setting: &str) -> Option<&'a str> {
    let found = ini.settings.iter().find(|advice| advice.name == setting);
    found.map(|advice| advice.value.as_str())
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn pools_are_as_large_as_what_was_wanted_with_a_quarter_more() {
    let advice = conclude(&direct());
    let [pool] = &advice.pools[..] else {
        panic!("one pool: {:?}", advice.pools)
    };
    // 8 in 95 % of the looks: ten, which is more than the most.
    assert_eq!((pool.size, pool.reserve, pool.p95, pool.max), (10, 0, 8, 8));
    assert_eq!(ini(&advice.ini, "default_pool_size"), Some("10"));
    assert_eq!(ini(&advice.ini, "pool_mode"), Some("transaction"));
    assert_eq!(ini(&advice.ini, "max_client_conn"), Some("400"));
    assert_eq!(advice.ini.databases[0].max_db_connections, None);
    // 10 for the pool, 3 reserved, 5 to spare, rounded.
    assert_eq!(
        advice.changes[0].what,
        "ALTER SYSTEM SET max_connections = 20;  -- then a restart"
    );
    assert_says(
        &told(&advice, Topic::Connections),
        &["is 500", "take 10", "says 32"],
    );
}

#[test]
fn throughput_times_service_time_is_what_is_seen() {
    let text = told(&conclude(&direct()), Topic::Work);
    assert_says(
        &text,
        &[
            "4.4 of 200 sessions",
            "at most 8",
            "100 transactions per second, each holding a session for 44.0 ms: by Little's law 4.4 sessions",
            "4.4 sessions executing on average: the looks are representative",
            "processors are not what limits",
        ],
    );
    let mut seen = direct();
    seen.databases[0].active_s = Some(5.0);
    assert_says(
        &told(&conclude(&seen), Topic::Work),
        &["not what the looks saw"],
    );
}

#[test]
fn pools_end_at_what_the_cores_can_use() {
    let mut seen = direct();
    seen.hardware.cores = Some(6);
    // Forty sessions are busy, half of the time on a processor, or waiting for one.
    let busy = counts(&[(40, 100)]);
    for load in [Some(&mut seen.load), seen.pools.values_mut().next()]
        .into_iter()
        .flatten()
    {
        load.busy = busy.clone();
        load.active = busy.clone();
        load.running = counts(&[(20, 100)]);
    }
    let advice = conclude(&seen);
    // 6 cores, and half of the time something else is waited for.
    assert_eq!(advice.pools[0].size, 12);
    assert_eq!(weight(&advice, Topic::Work), Some(Weight::Plain));
    assert_says(&told(&advice, Topic::Work), &["About 12 sessions at work"]);
}

#[test]
fn several_users_share_a_databases_limit() {
    let mut seen = direct();
    let reports = Load {
        busy: counts(&[(1, 50), (0, 50)]),
        ..Load::default()
    };
    seen.pools.insert(name("shop", "reports"), reports);
    let advice = conclude(&seen);
    let [database] = &advice.ini.databases[..] else {
        panic!("one database")
    };
    assert_eq!(
        (database.pool_size, database.max_db_connections),
        (10, Some(15))
    );
    let mut counted = seen.clone();
    for load in counted.pools.values_mut() {
        load.writing = counts(&[(1, 100)]);
    }
    assert_says(
        &told(&conclude(&seen), Topic::Writes),
        &["shop/reports was never seen writing in 50 looks"],
    );
    assert!(!told(&conclude(&counted), Topic::Writes).contains("never seen writing"));
}

#[test]
fn without_load_nothing_follows_for_pools() {
    let mut seen = direct();
    seen.load.busy = counts(&[(0, 100)]);
    seen.databases[0].transactions = 3.0;
    let advice = conclude(&seen);
    assert!(advice.pools.is_empty() && advice.ini.databases.is_empty());
    assert_eq!(ini(&advice.ini, "default_pool_size"), None);
    assert_says(&told(&advice, Topic::Sight), &["next to no load"]);
}

#[test]
fn hidden_sessions_are_estimated_from_the_servers_clock() {
    let mut seen = direct();
    seen.server.sight = Sight::OwnSessions;
    for load in [Some(&mut seen.load), seen.pools.values_mut().next()]
        .into_iter()
        .flatten()
    {
        *load = Load {
            sessions: counts(&[(200, 100)]),
            unseen: counts(&[(200, 100)]),
            ..Load::default()
        };
    }
    let advice = conclude(&seen);
    assert_says(
        &told(&advice, Topic::Sight),
        &["200 of 200 sessions", "GRANT pg_read_all_stats TO adviser"],
    );
    // 4.4 on average, 7.9 in 95 %: with a quarter more, ten.
    let [pool] = &advice.pools[..] else {
        panic!("one pool: {:?}", advice.pools)
    };
    assert_eq!((pool.size, pool.name.user.as_str()), (10, "(all users)"));
    assert!(!told(&advice, Topic::Work).contains("of 200 sessions were executing"));
}

#[test]
fn idle_sessions_cost_what_was_measured() {
    let mut seen = direct();
    seen.memory = Some(SessionMemory {
        source: MemorySource::Kernel,
        measured: 50,
        mean_bytes: 10_485_760.0,
        largest_bytes: 20_971_520.0,
        page_tables_mean_bytes: 1_048_576.0,
    });
    seen.groups = vec![Group {
        who: who("web"),
        sessions: 200,
        idle: 195.6,
        idle_longest_s: 7_500.0,
        ..Group::default()
    }];
    let advice = conclude(&seen);
    assert_eq!(weight(&advice, Topic::Idle), Some(Weight::Act));
    // 195.6 of 10 MiB.
    assert_says(
        &told(&advice, Topic::Idle),
        &[
            "196 of 200",
            "10.0 MiB",
            "1.9 GiB",
            "web, shop/web, from 10.0.0.7: up to 200 sessions",
            "2 h 5 min",
        ],
    );
}

#[test]
fn a_forgotten_transaction_is_named_and_not_counted_as_work() {
    let mut seen = direct();
    seen.load.idle_in_transaction = counts(&[(1, 100)]);
    seen.groups = vec![Group {
        who: who("billing"),
        idle_in_transaction: 1.0,
        idle_in_transaction_longest_s: 312.0,
        transaction_longest_s: 313.0,
        ..Group::default()
    }];
    let advice = conclude(&seen);
    assert_eq!(weight(&advice, Topic::IdleInTransaction), Some(Weight::Act));
    assert_says(
        &told(&advice, Topic::IdleInTransaction),
        &["billing, shop/web", "5 min 12 s"],
    );
    assert_eq!(ini(&advice.ini, "idle_transaction_timeout"), Some("60"));
    assert_eq!(ini(&advice.ini, "query_wait_timeout"), Some("15"));
    assert!(advice.changes.iter().any(|change| {
        change
            .what
            .contains("idle_in_transaction_session_timeout = '90s'")
    }));
    // One that is only slow gets twice its time.
    seen.groups[0].idle_in_transaction_longest_s = 42.0;
    let advice = conclude(&seen);
    assert_eq!(ini(&advice.ini, "idle_transaction_timeout"), Some("90"));
}

#[test]
fn who_reconnects_is_told_from_who_just_came() {
    let mut seen = direct();
    seen.databases[0].sessions = Some(500.0);
    seen.groups = vec![Group {
        who: who("cron"),
        came: 12,
        left: 12,
        ..Group::default()
    }];
    let advice = conclude(&seen);
    assert_eq!(weight(&advice, Topic::Reconnecting), Some(Weight::Act));
    // 200 sessions, 50 new ones per second.
    assert_says(
        &told(&advice, Topic::Reconnecting),
        &[
            "50 new sessions per second",
            "every 2 transactions",
            "lasts 4 s",
            "cron, shop/web",
        ],
    );
    // As many more are there at the end: they came and stayed.
    seen.watch.growth = 500.0;
    assert_eq!(
        weight(&conclude(&seen), Topic::Reconnecting),
        Some(Weight::Good)
    );
}

fn behind_a_pooler(pool: PoolSeen, database: PooledDatabase) -> Observations {
    let mut seen = direct();
    seen.pooler = Pooler::Open(Box::new(PoolerSeen {
        version: "PgBouncer 1.26.0".into(),
        pools: [(name("entry", "web"), pool)].into(),
        databases: [("entry".to_owned(), database)].into(),
        arrivals: vec![Arrival::default()],
        ..PoolerSeen::default()
    }));
    seen
}

#[test]
fn a_pool_whose_clients_wait_may_double() {
    let pool = PoolSeen {
        clients: counts(&[(300, 100)]),
        waiting: counts(&[(30, 100)]),
        active: counts(&[(5, 100)]),
        wanted: counts(&[(35, 100)]),
        servers: counts(&[(5, 100)]),
        longest_wait_s: 7.0,
        mode: "transaction".into(),
    };
    let database = PooledDatabase {
        database: "shop".into(),
        pool_size: 5,
        transactions: 1_000.0,
        transaction_s: 50.0,
        wait_s: 300.0,
        log_ins: Some(0.0),
    };
    let advice = conclude(&behind_a_pooler(pool, database));
    assert_eq!(advice.pools[0].size, 10);
    assert_eq!(advice.ini.databases[0].database, "entry");
    // Four times the longest wait.
    assert_eq!(ini(&advice.ini, "query_wait_timeout"), Some("30"));
    assert_eq!(ini(&advice.ini, "max_client_conn"), Some("600"));
    assert_eq!(weight(&advice, Topic::Pooler), Some(Weight::Act));
    assert_says(
        &told(&advice, Topic::Pooler),
        &[
            "clients waited in 100 % of the looks",
            "100 transactions per second",
            "for 50.0 ms and waited 300 ms",
            "5 server connections by Little's law",
        ],
    );
}

#[test]
fn in_session_mode_the_servers_view_counts() {
    // 200 clients have a server connection each, and 4 or 8 are busy.
    let pool = PoolSeen {
        clients: counts(&[(200, 100)]),
        active: counts(&[(200, 100)]),
        wanted: counts(&[(200, 100)]),
        mode: "session".into(),
        ..PoolSeen::default()
    };
    let database = PooledDatabase {
        database: "shop".into(),
        ..PooledDatabase::default()
    };
    let advice = conclude(&behind_a_pooler(pool, database));
    assert_eq!(advice.pools[0].size, 10);
}

#[test]
fn a_worst_case_beyond_the_memory_is_told() {
    let mut seen = direct();
    assert_eq!(weight(&conclude(&seen), Topic::Memory), Some(Weight::Good));
    seen.hardware.memory_bytes = Some(4 << 30);
    let advice = conclude(&seen);
    // 500 times 8 MiB, and 1 GiB.
    assert_says(
        &told(&advice, Topic::Memory),
        &["4.9 GiB", "there is 4.0 GiB"],
    );
    assert_eq!(weight(&advice, Topic::Memory), Some(Weight::Act));
    seen.hardware.memory_bytes = Some(16 << 30);
    seen.databases[0].temporary_files = 7.0;
    seen.databases[0].temporary_bytes = 1e9;
    assert!(
        conclude(&seen)
            .changes
            .iter()
            .any(|change| change.what.contains("work_mem = '16MB'"))
    );
}

#[test]
fn huge_pages_are_worth_it_for_much_shared_memory() {
    let mut seen = direct();
    let mut set = |name: &str, text: &str, number: Option<f64>| {
        seen.server.settings.insert(
            name.into(),
            Setting {
                text: text.into(),
                number,
            },
        );
    };
    set("shared_memory_size_in_huge_pages", "8400", Some(8_400.0));
    set("shared_memory_size", "16800", Some(16_800.0 * 1_048_576.0));
    set("huge_pages", "try", None);
    set("huge_pages_status", "off", None);
    let advice = conclude(&seen);
    // 16.4 GiB / 512 for each of 200 sessions.
    assert_says(
        &told(&advice, Topic::HugePages),
        &["8400 huge pages", "32.8 MiB", "6.4 GiB"],
    );
    assert!(
        advice
            .changes
            .iter()
            .any(|change| change.what.contains("vm.nr_hugepages=8400"))
    );
}

#[test]
fn ones_own_values_stay_where_they_do_no_harm() {
    let advice = conclude(&direct());
    let setting = |name: &str| {
        let found = advice
            .ini
            .settings
            .iter()
            .find(|advice| advice.name == name);
        found.expect("it is advised")
    };
    assert!(setting("max_client_conn").yields_to("5000"));
    assert!(!setting("max_client_conn").yields_to("100"));
    assert!(setting("idle_transaction_timeout").yields_to("5"));
    assert!(!setting("idle_transaction_timeout").yields_to("0"));
    assert_eq!(setting("default_pool_size").keeps, Keeps::Nothing);
}
