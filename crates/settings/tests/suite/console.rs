//! What the console shows and sets.

use settings::{Changeable, Config, ConfigRow, SettingError, catalogue};

use crate::parsed;

fn shown(config: &Config, key: &str) -> ConfigRow {
    config
        .show()
        .into_iter()
        .find(|row| row.key == key)
        .unwrap()
}

#[test]
fn the_rows_are_in_alphabetical_order_and_complete() {
    let rows = Config::default().show();
    assert!(rows.is_sorted_by(|a, b| a.key < b.key));
    assert_eq!(rows.len(), catalogue().len());
    let row = |key: &'static str, value: &str, default, changeable| {
        let value = value.to_owned();
        ConfigRow {
            key,
            value,
            default,
            changeable,
        }
    };
    assert_eq!(
        rows[0],
        row("abandoned_query_timeout", "5", "5", Changeable::Reload)
    );
    assert!(rows.contains(&row("listen_port", "6432", "6432", Changeable::Boot)));
    assert!(rows.contains(&row("auth_file", "", "", Changeable::Reload)));
}

#[test]
fn values_are_shown_as_pgbouncer_shows_them() {
    let config = parsed(
        "[pgbouncer]\nquery_timeout = 2.50\nlog_stats = no\npool_mode = Transaction\nlisten_addr = a,b\n\
         server_lifetime=60.0\nunix_socket_mode = 0700\nprepared_statement_cache_size = 1024\nserver_check_query = <empty>\n",
    )
    .config;
    let cases = [
        ("query_timeout", "2.5"),
        ("log_stats", "0"),
        ("log_connections", "1"),
        ("pool_mode", "transaction"),
        ("listen_addr", "a, b"),
        ("server_lifetime", "60"),
        ("handover_after", "0.005"),
        ("unix_socket_mode", "0700"),
        ("prepared_statement_cache_size", "1kB"),
        ("server_check_query", "<empty>"),
        ("conffile", "weir.ini"),
        ("tcp_defer_accept", "1"),
    ];
    for (key, value) in cases {
        assert_eq!(shown(&config, key).value, value, "{key}");
    }
}

#[test]
fn a_setting_can_be_set() {
    let config = parsed("[pgbouncer]\n[databases]\na = host=x\n").config;
    let changed = config.with("default_pool_size", "50").unwrap();
    assert_eq!(
        (
            config.general.default_pool_size,
            changed.general.default_pool_size
        ),
        (20, 50)
    );
    assert_eq!(config.databases, changed.databases);
}

#[test]
fn a_wrong_set_is_refused() {
    let config = Config::default();
    let text = |key, value| config.with(key, value).unwrap_err().to_string();
    assert_eq!(
        text("pool_moed", "session"),
        "unknown setting \"pool_moed\" (did you mean \"pool_mode\"?)"
    );
    assert_eq!(
        text("listen_port", "1"),
        "listen_port can only be changed by a restart"
    );
    assert_eq!(
        text("pool_mode", "x"),
        "pool_mode: expected session, transaction or statement, found \"x\""
    );
    assert!(matches!(
        config.with("auth_type", "hba"),
        Err(SettingError::Refused(_))
    ));
    assert!(text("server_tls_sslmode", "require").starts_with("server_tls_sslmode = require: "));
}

/// Also proves that every default is a value of its setting.
#[test]
fn what_is_shown_can_be_set_again() {
    let config = Config::default();
    for setting in catalogue() {
        let mut general = (*config.general).clone();
        setting.set(&mut general, setting.default).unwrap();
        setting
            .set(&mut general, &setting.show(&config.general))
            .unwrap();
        assert_eq!(general, *config.general, "{}", setting.name);
    }
}
