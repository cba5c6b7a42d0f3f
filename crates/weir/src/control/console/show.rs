//! What each SHOW shows: PgBouncer 1.26's columns in its order, and their rows out of a [`Snapshot`]. Pure; no secret is in any of them.

mod connections;
mod counters;
mod definitions;
mod listeners;
mod pins;
mod pools;

use super::super::snapshot::Snapshot;
use super::super::stats::ByDatabase;
use super::table::{Columns, Row, Table};
use crate::shared::Detail;

macro_rules! shows {
    ($($name:literal => $show:ident,)+) => {
        /// What can be shown.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Show { $($show,)+ }

        impl Show {
            /// Each by its name.
            pub const ALL: &'static [(&'static str, Show)] = &[$(($name, Show::$show)),+];

            /// As it is written.
            pub fn command(self) -> &'static str {
                match self { $(Show::$show => concat!("SHOW ", $name),)+ }
            }
        }
    };
}

shows! {
    "HELP" => Help,
    "CONFIG" => Config,
    "DATABASES" => Databases,
    "POOLS" => Pools,
    "CLIENTS" => Clients,
    "SERVERS" => Servers,
    "USERS" => Users,
    "VERSION" => Version,
    "PEERS" => Peers,
    "PEER_POOLS" => PeerPools,
    "SOCKETS" => Sockets,
    "ACTIVE_SOCKETS" => ActiveSockets,
    "LISTS" => Lists,
    "MEM" => Mem,
    "STATE" => State,
    "DNS_HOSTS" => DnsHosts,
    "DNS_ZONES" => DnsZones,
    "STATS" => Stats,
    "STATS_TOTALS" => StatsTotals,
    "STATS_AVERAGES" => StatsAverages,
    "TOTALS" => Totals,
    "PINS" => Pins,
    "CENSUS" => Census,
    "LISTENERS" => Listeners,
}

impl Show {
    /// `None`: it answers with a notice instead of rows.
    pub fn columns(self) -> Option<Columns> {
        Some(match self {
            Show::Help => return None,
            Show::Config => definitions::CONFIG,
            Show::Databases => definitions::DATABASES,
            Show::Pools => pools::POOLS,
            Show::Clients | Show::Servers => connections::CONNECTIONS,
            Show::Users => definitions::USERS,
            Show::Version => definitions::VERSION,
            Show::Peers => definitions::PEERS,
            Show::PeerPools => pools::PEER_POOLS,
            Show::Sockets | Show::ActiveSockets => connections::SOCKETS,
            Show::Lists => counters::LISTS,
            Show::Mem => counters::MEM,
            Show::State => definitions::STATE,
            Show::DnsHosts => definitions::DNS_HOSTS,
            Show::DnsZones => definitions::DNS_ZONES,
            Show::Stats => counters::STATS,
            Show::StatsTotals => counters::STATS_TOTALS,
            Show::StatsAverages => counters::STATS_AVERAGES,
            Show::Totals => counters::TOTALS,
            Show::Pins => pins::PINS,
            Show::Census => pins::CENSUS,
            Show::Listeners => listeners::LISTENERS,
        })
    }

    /// How much the workers have to tell for it.
    pub fn detail(self) -> Detail {
        match self {
            Show::Clients
            | Show::Servers
            | Show::Sockets
            | Show::ActiveSockets
            | Show::Pins
            | Show::Listeners => Detail::Connections,
            _ => Detail::Totals,
        }
    }

    pub fn table(self, snapshot: &Snapshot, averages: &ByDatabase) -> Table {
        let columns = self.columns().unwrap_or(&[]);
        Table {
            columns,
            rows: self.rows(snapshot, averages),
        }
    }

    fn rows(self, snapshot: &Snapshot, averages: &ByDatabase) -> Vec<Row> {
        match self {
            Show::Help => Vec::new(),
            Show::Config => definitions::config(snapshot),
            Show::Databases => definitions::databases(snapshot),
            Show::Pools => pools::pools(snapshot),
            Show::Clients => connections::clients(snapshot),
            Show::Servers => connections::servers(snapshot),
            Show::Users => definitions::users(snapshot),
            Show::Version => definitions::version(),
            Show::Peers => definitions::peers(snapshot),
            Show::PeerPools => pools::peer_pools(snapshot),
            Show::Sockets => connections::sockets(snapshot),
            Show::ActiveSockets => connections::active_sockets(snapshot),
            Show::Lists => counters::lists(snapshot),
            Show::Mem => counters::memory(snapshot),
            Show::State => definitions::state(snapshot),
            Show::DnsHosts => definitions::dns_hosts(snapshot),
            // The system's resolver shows no zones.
            Show::DnsZones => Vec::new(),
            Show::Stats => counters::stats(snapshot, averages),
            Show::StatsTotals => counters::stats_totals(snapshot),
            Show::StatsAverages => counters::stats_averages(snapshot, averages),
            Show::Totals => counters::totals(snapshot, averages),
            Show::Pins => pins::pins(snapshot),
            Show::Census => pins::census(snapshot),
            Show::Listeners => listeners::listeners(snapshot),
        }
    }
}

/// The text of SHOW HELP.
pub const HELP: &str = "
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW PEERS|PEER_POOLS
\tSHOW SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE
\tSHOW DNS_HOSTS|DNS_ZONES
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tSHOW PINS|CENSUS|LISTENERS
\tSET key = value
\tRELOAD
\tPAUSE [<db>]
\tRESUME [<db>]
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL [<db>]
\tKILL_CLIENT <client id>
\tWAIT_CLOSE [<db>]
\tSHUTDOWN [WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS]";
