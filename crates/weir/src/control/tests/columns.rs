//! PgBouncer 1.26's columns, written down once more, as its manual and its answers have them: t text, i int4, l int8, n numeric.

use crate::control::console::show::Show;
use crate::control::console::table::Kind;

const CONNECTION: &str = "type user database replication state addr port local_addr local_port connect_time request_time wait wait_us \
                          close_needed ptr link remote_pid tls application_name prepared_statements id";
/// `id` is an int8 here: see the table of columns.
const CONNECTION_TYPES: &str = "ttttttitittiiittittil";

fn expected(show: Show) -> Option<(String, String)> {
    let (names, types) = match show {
        Show::Help => return None,
        Show::Clients | Show::Servers => (CONNECTION.to_owned(), CONNECTION_TYPES.to_owned()),
        Show::Sockets | Show::ActiveSockets => (
            format!("{CONNECTION} recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail"),
            format!("{CONNECTION_TYPES}iiiiiii"),
        ),
        Show::Stats => (
            "database total_server_assignment_count total_xact_count total_query_count total_received total_sent total_xact_time \
             total_query_time total_wait_time total_client_parse_count total_server_parse_count total_bind_count \
             total_client_login_count avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time \
             avg_query_time avg_wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count"
                .to_owned(),
            format!("t{}", "n".repeat(24)),
        ),
        other => {
            let (names, types) = short(other);
            (names.to_owned(), types.to_owned())
        }
    };
    Some((names, types))
}

fn short(show: Show) -> (&'static str, &'static str) {
    match show {
        Show::Config => ("key value default changeable", "tttt"),
        Show::Databases => (
            "name host port database force_user pool_size min_pool_size reserve_pool_size server_lifetime pool_mode load_balance_hosts \
             max_connections current_connections max_client_connections current_client_connections paused disabled",
            "ttittiiiittiiiiii",
        ),
        Show::Pools => (
            "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled \
             sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts",
            "ttiiiiiiiiiiiiitt",
        ),
        Show::Users => (
            "name pool_size reserve_pool_size pool_mode max_user_connections current_connections max_user_client_connections \
             current_client_connections",
            "ttttiiii",
        ),
        Show::Version => ("version", "t"),
        Show::Peers => ("peer_id host port pool_size", "itii"),
        Show::PeerPools => (
            "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login",
            "iiiii",
        ),
        Show::Lists => ("list items", "ti"),
        Show::Mem => ("name size used free memtotal", "tiiii"),
        Show::State => ("key value", "tt"),
        Show::DnsHosts => ("hostname ttl addrs", "tlt"),
        Show::DnsZones => ("zonename serial count", "tli"),
        Show::StatsTotals => (
            "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time \
             client_parse_count server_parse_count bind_count client_login_count",
            "tnnnnnnnnnnnn",
        ),
        Show::StatsAverages => (
            "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time \
             avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
            "tnnnnnnnnnnnn",
        ),
        Show::Totals => ("name value", "tn"),
        Show::Listeners => (
            "database user application_name client_id channels waiting_bytes",
            "tttltl",
        ),
        Show::Pins => (
            "database user application_name reasons statement age client_id server_id",
            "tttttill",
        ),
        Show::Census => ("database censuses pins pinned catalogue", "tnnit"),
        Show::Help
        | Show::Clients
        | Show::Servers
        | Show::Sockets
        | Show::ActiveSockets
        | Show::Stats => ("", ""),
    }
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::Text => 't',
        Kind::Int => 'i',
        Kind::BigInt => 'l',
        Kind::Numeric => 'n',
    }
}

#[test]
fn columns_are_pgbouncers() {
    for (name, show) in Show::ALL {
        let found = show.columns().map(|columns| {
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            (
                names.join(" "),
                columns
                    .iter()
                    .map(|(_, kind)| letter(*kind))
                    .collect::<String>(),
            )
        });
        assert_eq!(found, expected(*show), "SHOW {name}");
    }
}
