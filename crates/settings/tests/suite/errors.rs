//! Wrong files and exactly what is said about them.

use crate::{errors_of, parsed};

#[test]
fn all_errors_come_at_once_with_their_lines() {
    let errors = errors_of(
        "stray = 1\n\
         [pgbouncer]\n\
         pool_moed = transaction\n\
         max_client_conn = many\n\
         listen_port = 70000\n\
         listen_port = 6432\n\
         query_timeout = 5s\n\
         log_stats = maybe\n\
         just words\n\
         [databses]\n\
         passed_over = silently\n\
         [databases]\n\
         pgbouncer = host=x\n\
         a = host=x hots=y pool_size=-2\n\
         a = host=z\n\
         b = host=x port=0\n\
         c = host=x host=y\n\
         d = host=x,y port=1,2,3\n\
         e = password=\n\
         f = host='x\n\
         [users]\n\
         u = pool_mod=session query_timeout=x\n\
         [peers]\n\
         0 = host=x\n\
         1 = port=5\n\
         [unclosed\n",
    );
    let expected = "\
weir.ini:1: \"stray\" stands before the first section: begin with [pgbouncer], [databases] or [users]
weir.ini:3: unknown setting \"pool_moed\" (did you mean \"pool_mode\"?)
weir.ini:4: max_client_conn: expected a whole number from 0 to 4294967295, found \"many\"
weir.ini:5: listen_port: expected a whole number from 0 to 65535, found \"70000\"
weir.ini:6: listen_port is set twice; the first time at weir.ini:5
weir.ini:7: query_timeout: expected a number of seconds from 0 (off) to 2147483647, fractions allowed, without a unit, found \"5s\"
weir.ini:8: log_stats: expected 0 or 1 (or no/yes, off/on, false/true), found \"maybe\"
weir.ini:9: expected = after the name
weir.ini:10: unknown section [databses] (did you mean \"databases\"?)
weir.ini:13: database \"pgbouncer\" cannot be configured: this name leads to the console
weir.ini:14: database \"a\": unknown parameter \"hots\" (did you mean \"host\"?)
weir.ini:14: database \"a\": pool_size: expected a whole number from 0 to 4294967295, found \"-2\"
weir.ini:15: database \"a\" is set twice; the first time at weir.ini:14
weir.ini:16: database \"b\": port: expected a port from 1 to 65535, or several with commas between them, found \"0\"
weir.ini:17: database \"c\": host is given twice
weir.ini:18: database \"d\": give one port, or as many ports as hosts
weir.ini:19: database \"e\": a value is empty: leave the parameter out instead
weir.ini:20: database \"f\": a quoted value has no closing quote
weir.ini:22: user \"u\": unknown parameter \"pool_mod\" (did you mean \"pool_mode\"?)
weir.ini:22: user \"u\": query_timeout: expected a number of seconds from 0 to 2147483647, fractions allowed, without a unit, found \"x\"
weir.ini:24: peer \"0\": expected a peer's number from 1 to 16383, found \"0\"
weir.ini:25: peer \"1\": host is missing
weir.ini:26: the section's name has no closing ]";
    assert_eq!(errors, expected);
}

/// What would be weaker than it says is refused, not reported as not yet in effect.
#[test]
fn unsafe_combinations_are_refused() {
    let cases = [
        ("auth_type = hba", "not supported yet"),
        ("auth_type = cert", "not supported yet"),
        ("auth_type = ldap", "not supported yet"),
        ("auth_type = pam", "not supported yet"),
        ("client_tls_sslmode = allow", "served in clear"),
        ("client_tls_sslmode = require", "served in clear"),
        ("server_tls_sslmode = require", "reached in clear"),
        ("server_tls_sslmode = verify-ca", "reached in clear"),
        ("server_tls_sslmode = verify-full", "reached in clear"),
        ("auth_dbname = pgbouncer", "leads to the console"),
        ("unix_socket_dir =", "nowhere to listen"),
    ];
    for (line, why) in cases {
        let errors = errors_of(&format!("[pgbouncer]\n{line}\n"));
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(why), "{line}: {errors}");
    }
}

#[test]
fn bad_values_are_refused() {
    let cases = [
        "listen_port = -1",
        "listen_port = 0x",
        "listen_port = 0x10000",
        "listen_port = +1",
        "default_pool_size = 020",
        "default_pool_size =",
        "default_pool_size = 4294967296",
        "default_pool_size = 20 ; a comment",
        "unix_socket_mode = 777",
        "unix_socket_mode = 0999",
        "query_timeout = -1",
        "query_timeout = inf",
        "query_timeout = 1e300",
        "query_timeout = 99999999999999999999",
        "stats_period = 0",
        "pool_mode = transactional",
        "log_stats = 2",
        "prepared_statement_cache_size = 1TB",
        "prepared_statement_cache_size = 99999999999GB",
        "worker_threads = 100000",
        "server_lifetime_jitter = 1",
        "cancel_connections_max = 0",
        "syslog_facility = local8",
        "peer_id = 20000",
    ];
    for line in cases {
        let errors = errors_of(&format!("[pgbouncer]\n{line}\n"));
        assert!(
            errors.starts_with("weir.ini:2: ") && errors.contains("expected"),
            "{line}: {errors}"
        );
    }
}

#[test]
fn bad_lines_are_refused() {
    let cases = [
        ("[databases]\n= host=x", "expected a name"),
        (
            "[databases]\nweb shop = host=x",
            "expected = after the name",
        ),
        ("[databases]\n\u{fc} = host=x", "expected a name"),
        ("[databases]\n\"a = host=x", "no closing quote"),
        ("[databases]\na = host", "key=value pairs"),
        ("[databases]\na = =x", "name is missing"),
        ("[databases]\na = host='x'y", "blank is missing"),
        ("[databases]\na = host=x,,y", "commas between"),
        (
            "[databases]\na = host=x auth_dbname=weir",
            "not the console",
        ),
        ("[databases]\nweir = host=x", "leads to the console"),
        ("auth_user = a\0b", "NUL"),
        ("%include other.ini", "not possible here"),
    ];
    for (line, what) in cases {
        let errors = errors_of(&format!("[pgbouncer]\n{line}\n"));
        assert!(errors.contains(what), "{line}: {errors}");
    }
}

#[test]
fn names_have_postgresql_s_length() {
    let name = "n".repeat(63);
    let config = parsed(&format!("[pgbouncer]\n[databases]\n{name} = host=x\n")).config;
    assert!(config.database(&name).is_some());
    let errors = errors_of(&format!("[pgbouncer]\n[databases]\n{name}n = host=x\n"));
    assert!(errors.contains("at most 63 bytes"), "{errors}");
    let errors = errors_of(&format!(
        "[pgbouncer]\n[users]\n{} = pool_size=1\n",
        "u".repeat(128)
    ));
    assert!(errors.contains("at most 127 bytes"), "{errors}");
}

#[test]
fn the_main_section_must_be_there() {
    assert_eq!(
        errors_of("[databases]\na = host=x\n"),
        "weir.ini: the section [pgbouncer] is missing"
    );
    assert_eq!(
        errors_of(""),
        "weir.ini: the section [pgbouncer] is missing"
    );
}

#[test]
fn a_database_without_host_needs_a_unix_socket_dir() {
    let errors =
        errors_of("[pgbouncer]\nlisten_addr = *\nunix_socket_dir =\n[databases]\na = dbname=x\n");
    assert_eq!(
        errors,
        "weir.ini:5: database \"a\": no host is given, and unix_socket_dir is empty"
    );
}

#[test]
fn the_nearest_name_is_only_named_when_near() {
    let cases = [
        ("default_poolsize", Some("default_pool_size")),
        ("pool_size", Some("default_pool_size")),
        ("Max_Client_Conn", Some("max_client_conn")),
        ("max_client_connections", Some("max_db_client_connections")),
        ("idle_transaction", Some("idle_transaction_timeout")),
        ("xyzzy", None),
        ("shared_buffers", None),
    ];
    for (name, meant) in cases {
        let errors = errors_of(&format!("[pgbouncer]\n{name} = 1\n"));
        let hint = meant
            .map(|meant| format!(" (did you mean \"{meant}\"?)"))
            .unwrap_or_default();
        assert_eq!(
            errors,
            format!("weir.ini:2: unknown setting \"{name}\"{hint}")
        );
    }
}

#[test]
fn what_is_hardly_meant_is_a_warning() {
    let users = "auth_file = u.txt\n";
    let cases = [
        (
            format!("[pgbouncer]\n{users}"),
            "weir.ini: [databases] is empty: only the console can be reached",
        ),
        (
            "[pgbouncer]\nauth_type = trust\n[databases]\na = host=x\n".to_owned(),
            "weir.ini:2: auth_type = trust without auth_file and auth_user: nobody can log in",
        ),
        (
            "[pgbouncer]\nauth_type = any\n[databases]\na = host=x\nb = host=x user=u\n".to_owned(),
            "weir.ini:4: database \"a\" has no user, which auth_type = any needs: its clients will be refused",
        ),
        (
            format!("[pgbouncer]\n{users}auth_dbname = c\n[databases]\na = host=x\n"),
            "weir.ini:3: auth_dbname = c: there is no such entry in [databases]",
        ),
    ];
    for (text, warning) in cases {
        assert_eq!(parsed(&text).warnings, [warning]);
    }
    let quiet = parsed("[pgbouncer]\n[databases]\na = host=x auth_user=asker\n");
    assert_eq!(quiet.warnings, Vec::<String>::new());
}

#[test]
fn what_is_not_built_is_named_unless_it_says_the_default() {
    let loaded = parsed(
        "[pgbouncer]\nauth_hba_file = /etc/hba\nclient_tls_protocols = secure\npkt_buf = 8192\n\
         client_tls_sslmode = disable\nserver_tls_sslmode = disable\nserver_tls_ca_file = /ca\nso_reuseport = 0\n",
    );
    assert_eq!(
        loaded.not_yet_in_effect,
        [
            "weir.ini:2: auth_hba_file",
            "weir.ini:7: server_tls_ca_file"
        ]
    );
}
