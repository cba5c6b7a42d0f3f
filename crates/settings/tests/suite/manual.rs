//! The manual's page is what the declarations say, and the declarations are complete.

use std::path::Path;

use settings::{catalogue, docs};

/// Every name that PgBouncer 1.26 knows, and those that it dropped last.
const PGBOUNCER: &str = "\
admin_users application_name_add_host auth_dbname auth_file auth_hba_file auth_ident_file auth_ldap_options auth_query auth_type \
auth_user autodb_idle_timeout cancel_wait_timeout client_idle_timeout client_login_timeout client_tls13_ciphers client_tls_ca_file \
client_tls_cert_file client_tls_ciphers client_tls_dheparams client_tls_ecdhcurve client_tls_key_file client_tls_protocols \
client_tls_sslmode conffile default_pool_size disable_pqexec dns_max_ttl dns_nxdomain_ttl dns_zone_check_period \
idle_transaction_timeout ignore_startup_parameters job_name listen_addr listen_backlog listen_port log_connections \
log_disconnections log_pooler_errors log_stats logfile login_notify_message max_client_conn max_db_client_connections \
max_db_connections max_packet_size max_prepared_statements max_user_client_connections max_user_connections min_pool_size peer_id \
pidfile pkt_buf pool_idle_timeout pool_mode query_timeout query_wait_notify query_wait_timeout reserve_pool_size \
reserve_pool_timeout resolv_conf sbuf_loopcnt scram_iterations server_check_delay server_check_query server_connect_timeout \
server_fast_close server_idle_timeout server_lifetime server_login_retry server_reset_query server_reset_query_always \
server_round_robin server_tls13_ciphers server_tls_ca_file server_tls_cert_file server_tls_ciphers server_tls_key_file \
server_tls_protocols server_tls_sslmode service_name so_reuseport stats_period stats_users suspend_timeout syslog syslog_facility \
syslog_ident tcp_defer_accept tcp_keepalive tcp_keepcnt tcp_keepidle tcp_keepintvl tcp_socket_buffer tcp_user_timeout \
track_extra_parameters transaction_timeout unix_socket_dir unix_socket_group unix_socket_mode user verbose";

#[test]
fn every_name_of_pgbouncer_is_known() {
    let names: Vec<&str> = PGBOUNCER.split_whitespace().collect();
    assert_eq!(names.len(), 101);
    for name in names {
        assert!(settings::setting(name).is_some(), "{name}");
    }
}

#[test]
fn names_are_unique_and_described() {
    let mut names: Vec<&str> = catalogue().iter().map(|setting| setting.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    for setting in catalogue() {
        let text = setting.doc.join(" ");
        assert!(text.trim().ends_with('.'), "{}: {text}", setting.name);
    }
}

/// `UPDATE_DOCS=1` writes the page anew.
#[test]
fn the_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, docs::markdown()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == docs::markdown(),
        "stale: run UPDATE_DOCS=1 cargo test -p settings"
    );
}
