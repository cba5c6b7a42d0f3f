//! The syntax of lines and of the values in `[databases]`, and the types of values.

use std::path::PathBuf;
use std::time::Duration;

use settings::*;

use crate::parsed;

#[test]
fn every_kind_of_value_is_read() {
    let loaded = parsed(
        "[pgbouncer]\n\
         listen_addr = 127.0.0.1, ::1,,localhost\n\
         listen_port=7000\n\
         pool_mode = TRANSACTION\n\
         query_timeout = 2.5\n\
         idle_transaction_timeout = 0\n\
         server_lifetime = 0\n\
         log_stats = off\n\
         syslog = 1\n\
         unix_socket_dir = @weir\n\
         unix_socket_mode = 0770\n\
         auth_type = scram-sha-256\n\
         auth_file = /etc/userlist.txt\n\
         server_check_query =\n\
         server_reset_query =\n\
         prepared_statement_cache_size = 512kB\n\
         reactor = io_uring\n\
         server_lifetime_jitter = 0.25\n\
         admin_users =\n",
    );
    let general = &loaded.config.general;
    assert_eq!(general.listen_addr, ["127.0.0.1", "::1", "localhost"]);
    assert_eq!(general.listen_port, 7000);
    assert_eq!(general.pool_mode, PoolMode::Transaction);
    assert_eq!(general.query_timeout, Some(Duration::from_millis(2500)));
    assert_eq!(general.idle_transaction_timeout, None);
    assert_eq!(general.server_lifetime, Duration::ZERO);
    assert!(!general.log_stats && general.syslog);
    assert_eq!(
        general.unix_socket_dir,
        Some(UnixSocketDir::Abstract("weir".into()))
    );
    assert_eq!(general.unix_socket_mode, FileMode(0o770));
    assert_eq!(general.auth_type, AuthType::ScramSha256);
    assert_eq!(general.auth_file, Some(PathBuf::from("/etc/userlist.txt")));
    assert_eq!(general.server_check_query, CheckQuery::Off);
    assert_eq!(general.server_reset_query, None);
    assert_eq!(general.prepared_statement_cache_size, ByteSize(512 << 10));
    assert_eq!(general.reactor, Reactor::IoUring);
    assert_eq!(general.server_lifetime_jitter, 0.25);
    assert!(general.admin_users.is_empty());
    assert_eq!(general.conffile, Some(PathBuf::from("weir.ini")));
}

/// The forms that C's `strtol` and `strtod` take, as far as anybody can mean them.
#[test]
fn numbers_are_read_as_pgbouncer_reads_them() {
    let general = parsed(
        "[pgbouncer]\nmax_packet_size = 0x7fffffff\nserver_lifetime = 1e2\nquery_timeout = .5\nserver_check_delay = 3.\n",
    )
    .config
    .general;
    assert_eq!(general.max_packet_size, 2_147_483_647);
    assert_eq!(general.server_lifetime, Duration::from_secs(100));
    assert_eq!(general.query_timeout, Some(Duration::from_millis(500)));
    assert_eq!(general.server_check_delay, Duration::from_secs(3));
}

#[test]
fn comments_are_whole_lines_and_values_keep_their_marks() {
    let loaded = parsed(
        "; a comment\r\n  # another\r\n\r\n[pgbouncer] listen_port = 7000 \t\r\n\
         auth_user = a;b # c\r\n[databases]\r\na = host=x\r\n[pgbouncer]\r\nverbose=2\r\n",
    );
    assert_eq!(loaded.config.general.listen_port, 7000);
    assert_eq!(loaded.config.general.auth_user.as_deref(), Some("a;b # c"));
    assert_eq!(loaded.config.general.verbose, 2);
    assert_eq!(loaded.config.database("a").unwrap().host_text(), "x");
}

#[test]
fn names_may_be_quoted() {
    let config = parsed(
        "[pgbouncer]\n[databases]\n\"web \"\"shop\"\"\" = host=x\nwith.dots-and_more1 = host=y\n\"\u{fc}\"=host=z\n",
    )
    .config;
    assert_eq!(config.database("web \"shop\"").unwrap().host_text(), "x");
    assert_eq!(
        config.database("with.dots-and_more1").unwrap().host_text(),
        "y"
    );
    assert_eq!(config.database("\u{fc}").unwrap().host_text(), "z");
}

#[test]
fn a_database_takes_all_its_parameters() {
    let database = parsed(
        "[pgbouncer]\n[databases]\n\
         d = host=/run/pg,@ab,db1 port=5433,5434,5435 dbname=other user=boss password='it''s = me' \
         auth_user=asker auth_query='select a, b' auth_dbname=d pool_size=7 min_pool_size=2 reserve_pool=3 \
         max_db_connections=9 max_db_client_connections=90 server_lifetime=60 pool_mode=statement \
         query_wait_timeout=1.5 connect_query = 'set a = ''b''' load_balance_hosts=disable \
         client_encoding=UTF8 datestyle='ISO, DMY' timezone=UTC application_name=x\n",
    )
    .config
    .database("d")
    .unwrap();
    let address = |host, port| Address { host, port };
    assert_eq!(
        database.hosts,
        [
            address(
                Host::Unix {
                    dir: "/run/pg".into()
                },
                5433
            ),
            address(Host::Abstract { name: "ab".into() }, 5434),
            address(Host::Tcp { name: "db1".into() }, 5435),
        ]
    );
    assert_eq!(
        (database.host_text().as_str(), database.port()),
        ("/run/pg,@ab,db1", 5433)
    );
    assert_eq!(
        (database.name.as_str(), database.dbname.as_str()),
        ("d", "other")
    );
    assert_eq!(database.forced_user.as_deref(), Some("boss"));
    assert_eq!(
        database.password.as_ref().map(Password::expose),
        Some("it's = me")
    );
    assert_eq!(database.auth_user.as_deref(), Some("asker"));
    assert_eq!(database.auth_query.as_deref(), Some("select a, b"));
    assert_eq!(database.auth_dbname.as_deref(), Some("d"));
    assert_eq!(
        (
            database.pool_size,
            database.min_pool_size,
            database.reserve_pool_size
        ),
        (Some(7), Some(2), Some(3))
    );
    assert_eq!(
        (
            database.max_db_connections,
            database.max_db_client_connections
        ),
        (Some(9), Some(90))
    );
    assert_eq!(database.server_lifetime, Some(Duration::from_secs(60)));
    assert_eq!(database.pool_mode, Some(PoolMode::Statement));
    assert_eq!(
        database.query_wait_timeout,
        Some(Duration::from_millis(1500))
    );
    assert_eq!(database.connect_query.as_deref(), Some("set a = 'b'"));
    assert_eq!(database.load_balance_hosts, LoadBalanceHosts::Disable);
    let asked: Vec<_> = database
        .startup_parameters
        .iter()
        .map(|(k, v)| (*k, v.as_str()))
        .collect();
    assert_eq!(
        asked,
        [
            ("application_name", "x"),
            ("client_encoding", "UTF8"),
            ("datestyle", "ISO, DMY"),
            ("timezone", "UTC")
        ]
    );
}

#[test]
fn an_empty_entry_is_the_database_of_that_name_over_the_unix_socket() {
    let config = parsed("[databases]\na =\n[pgbouncer]\nunix_socket_dir = /run/here\n").config;
    let database = config.database("a").unwrap();
    let host = Host::Unix {
        dir: "/run/here".into(),
    };
    assert_eq!(database.hosts, [Address { host, port: 5432 }]);
    assert_eq!(database.dbname, "a");
}

#[test]
fn one_port_serves_all_hosts() {
    let config = parsed("[pgbouncer]\n[databases]\na = host=x,y port=6000\n").config;
    let ports: Vec<u16> = config
        .database("a")
        .unwrap()
        .hosts
        .iter()
        .map(|a| a.port)
        .collect();
    assert_eq!(ports, [6000, 6000]);
}

#[test]
fn star_stands_for_every_name_but_the_console() {
    let config = parsed("[pgbouncer]\n[databases]\n* = host=x pool_size=3\nown = host=y\n").config;
    let any = config.database("whatever").unwrap();
    assert_eq!(
        (any.name.as_str(), any.dbname.as_str(), any.pool_size),
        ("whatever", "whatever", Some(3))
    );
    assert_eq!(config.database("own").unwrap().host_text(), "y");
    assert_eq!(config.database("pgbouncer"), None);
    assert_eq!(config.database("weir"), None);

    let config = parsed("[pgbouncer]\n[databases]\n* = host=x dbname=one\n").config;
    let any = config.database("whatever").unwrap();
    assert_eq!(
        (any.name.as_str(), any.dbname.as_str()),
        ("whatever", "one")
    );

    assert_eq!(parsed("[pgbouncer]\n").config.database("whatever"), None);
}

#[test]
fn minus_one_leaves_a_parameter_open() {
    let config = parsed(
        "[pgbouncer]\n[databases]\na = host=x pool_size=-1 query_wait_timeout=-1\n[users]\nu = query_timeout=-1\n",
    )
    .config;
    let database = config.database("a").unwrap();
    assert_eq!(
        (database.pool_size, database.query_wait_timeout),
        (None, None)
    );
    assert_eq!(config.users["u"].query_timeout, None);
}

#[test]
fn passwords_are_not_printed() {
    let loaded = parsed("[pgbouncer]\n[databases]\na = host=x user=u password=hunter2\n");
    assert!(!format!("{loaded:?}").contains("hunter2"));
    let errors = crate::errors_of("[pgbouncer]\n[databases]\na = host=x password='hunter2\n");
    assert!(!errors.contains("hunter2"), "{errors}");
}

#[test]
fn peers_are_read_but_not_in_effect() {
    let loaded = parsed(
        "[pgbouncer]\npeer_id = 1\n[peers]\n1 = host=/tmp/a\n2 = host=b port=7 pool_size=3\n",
    );
    let peer = Peer {
        host: "b".into(),
        port: 7,
        pool_size: Some(3),
    };
    assert_eq!(loaded.config.peers[&2], peer);
    assert_eq!(
        loaded.not_yet_in_effect,
        [
            "weir.ini:2: peer_id",
            "weir.ini:4: peer \"1\"",
            "weir.ini:5: peer \"2\""
        ]
    );
}
