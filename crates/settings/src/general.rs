//! The settings of the section `[pgbouncer]`: one declaration each, from which everything else follows.
//!
//! A declaration gives the name, the manual's text, the type, the default as it would be written in the file, when it can be
//! changed, whether Weir does it yet, and the range where the type alone does not say it. From it come the field of [`General`],
//! the [`Setting`] in the [`catalogue`], `SHOW CONFIG` and `docs/configuration.md`.
//! What settings mean together is decided in [`crate::check`], not here.

use std::path::PathBuf;
use std::time::Duration;

use crate::value::{
    self, AuthType, BadValue, ByteSize, CensusPolicy, CheckQuery, FileMode, LogFormat, PinPolicy,
    PoolMode, Reactor, SslMode, SyslogFacility, UnixSocketDir, Value,
};

/// When a changed value is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changeable {
    /// Only at start; `SHOW CONFIG` says `changeable = no`.
    Boot,
    /// By `RELOAD`, `SIGHUP` or the console's `SET`.
    Reload,
}

/// Whether a setting does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    InEffect,
    /// Known and checked, but the feature behind it is not built.
    NotYet,
    /// Accepted for PgBouncer's sake; Weir has nothing that it could change.
    Unneeded,
}

/// One setting of `[pgbouncer]`.
#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    /// The manual's heading under which it stands.
    pub group: &'static str,
    /// As it would be written in the file.
    pub default: &'static str,
    pub changeable: Changeable,
    pub status: Status,
    /// The manual's text, line by line.
    pub doc: &'static [&'static str],
    /// What would be accepted.
    pub expected: &'static str,
    set: fn(&mut General, &str) -> Result<(), BadValue>,
    show: fn(&General) -> String,
}

impl Setting {
    /// Puts a value given as text into `general`. Fails, changing nothing, if it is not of the type or out of range.
    pub fn set(&self, general: &mut General, text: &str) -> Result<(), BadValue> {
        (self.set)(general, text)
    }

    /// The present value as `SHOW CONFIG` prints it.
    pub fn show(&self, general: &General) -> String {
        (self.show)(general)
    }

    /// Whether `general` has another value than the default.
    pub fn differs_from_default(&self, general: &General) -> bool {
        self.show(general) != self.show(&General::default())
    }
}

/// Every setting there is, in the manual's order.
pub fn catalogue() -> &'static [Setting] {
    CATALOGUE
}

/// The setting of that name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    CATALOGUE.iter().find(|setting| setting.name == name)
}

macro_rules! general {
    ($($group:literal {
        $($(#[doc = $doc:literal])+ $name:ident: $ty:ty = $default:literal, $changeable:ident, $status:ident
            $(, |$value:ident| $in_range:expr, $expected:literal)?;)+
    })+) => {
        /// The decided values of the section `[pgbouncer]`. Each field is named as in the file; the manual's text is its documentation.
        #[derive(Debug, Clone, PartialEq)]
        pub struct General { $($($(#[doc = $doc])+ pub $name: $ty,)+)+ }

        impl Default for General {
            fn default() -> Self {
                // The texts are constants of this file; a test parses every one of them.
                Self { $($($name: <$ty as Value>::parse($default).expect("a default is a value of its own type"),)+)+ }
            }
        }

        const CATALOGUE: &[Setting] = &[$($(Setting {
            name: stringify!($name),
            group: $group,
            default: $default,
            changeable: Changeable::$changeable,
            status: Status::$status,
            doc: &[$($doc),+],
            expected: general!(@expected $ty $(, $expected)?),
            set: |general, text| {
                let value: $ty = value::parse(text)?;
                $(
                    let in_range = |$value: &$ty| $in_range;
                    if !in_range(&value) {
                        return Err(BadValue::new($expected, text));
                    }
                )?
                general.$name = value;
                Ok(())
            },
            show: |general| general.$name.show(),
        },)+)+];
    };
    (@expected $ty:ty) => { <$ty as Value>::EXPECTED };
    (@expected $ty:ty, $expected:literal) => { $expected };
}

general! {
    "Where Weir listens" {
        /// The addresses to listen on for TCP: a comma-separated list of IP addresses and host
        /// names, or `*` for all. Without it only the Unix socket is open.
        listen_addr: Vec<String> = "", Boot, InEffect;
        /// The port for TCP, and the number in the Unix socket's name (`.s.PGSQL.6432`).
        listen_port: u16 = "6432", Boot, InEffect;
        /// How many connections the kernel may hold that Weir has not accepted yet (`listen(2)`).
        /// The kernel's own limit (`net.core.somaxconn` on Linux) caps it.
        listen_backlog: u32 = "128", Boot, InEffect, |n| (1..=65535).contains(n), "a whole number from 1 to 65535";
        /// The folder of Weir's own Unix socket, and of the server's when a database has no `host`.
        /// A name that starts with `@` is a socket in the abstract namespace (Linux). Empty: no
        /// Unix socket.
        unix_socket_dir: Option<UnixSocketDir> = "/tmp", Boot, InEffect;
        /// Permission bits of the Unix socket, in octal with a leading zero. Does not apply to the
        /// abstract namespace. PgBouncer reads `777` without the zero as a decimal number; Weir
        /// refuses it. `SHOW CONFIG` prints octal too.
        unix_socket_mode: FileMode = "0777", Boot, InEffect;
        /// The group that owns the Unix socket. Does not apply to the abstract namespace.
        unix_socket_group: Option<String> = "", Boot, InEffect;
        /// Lets several processes listen on one port (`SO_REUSEPORT`). Weir uses all cores in one
        /// process (`worker_threads`), so that this is seldom needed.
        so_reuseport: bool = "0", Boot, NotYet;
    }

    "The process" {
        /// The operating system's user to become after start. Needed when Weir is started as root.
        user: Option<String> = "", Boot, InEffect;
        /// The file that holds the process's id. Needed for `-d`.
        pidfile: Option<PathBuf> = "", Boot, InEffect;
        /// The configuration file: at start the one from the command line. Set it on the console to
        /// make the next `RELOAD` read another file.
        conffile: Option<PathBuf> = "", Reload, InEffect;
        /// The number of threads that carry client and server connections. 0: one per core. All of
        /// them share one exact set of limits. Not in PgBouncer, which has one thread.
        worker_threads: u32 = "0", Boot, InEffect, |n| *n <= 1024, "a whole number from 0 (one per core) to 1024";
        /// How the workers receive and send: `io_uring` hands all that is due to the kernel at
        /// once, `epoll` makes plain system calls, `auto` takes the first where the kernel allows
        /// it and says in the log which one it took. Not in PgBouncer.
        reactor: Reactor = "auto", Boot, InEffect;
        /// The name of the service. PgBouncer uses it on Windows only.
        job_name: String = "pgbouncer", Boot, Unneeded;
        /// Another name for `job_name`.
        service_name: Option<String> = "", Boot, Unneeded;
    }

    "Pools" {
        /// When a server connection may serve another client.
        ///
        /// - `session`: after the client has disconnected.
        /// - `transaction`: after each transaction.
        /// - `statement`: after each statement; transactions of several statements are refused.
        ///
        /// A database or a user may have its own mode; the user's wins.
        pool_mode: PoolMode = "session", Reload, InEffect;
        /// The most server connections of one pool, that is of one pair of database and user. 0: no
        /// limit. `pool_size` of a user or of a database takes its place; the user's wins.
        default_pool_size: u32 = "20", Reload, InEffect;
        /// How many server connections a pool keeps open while it has a client, or always if its
        /// database has a forced user. Never more than the pool's size.
        min_pool_size: u32 = "0", Reload, InEffect;
        /// How many server connections a pool may open beyond its size once a client has waited for
        /// `reserve_pool_timeout`.
        reserve_pool_size: u32 = "0", Reload, InEffect;
        /// How long a client waits before the pool's reserve may be used, in seconds. 0: the
        /// reserve is not used.
        reserve_pool_timeout: Option<Duration> = "5", Reload, InEffect;
        /// The most server connections of one database over all its users. 0: no limit. At the
        /// limit Weir closes an idle connection of another pool of that database to make room.
        max_db_connections: u32 = "0", Reload, InEffect;
        /// The most server connections of one user over all databases. 0: no limit. The user is the
        /// one that logs in to PostgreSQL: the database's forced user if there is one.
        max_user_connections: u32 = "0", Reload, InEffect;
        /// 0: the server connection that was used last is used next, so that few carry the load and
        /// the others can be closed. 1: each in turn, which suits several servers behind one
        /// address.
        server_round_robin: bool = "0", Reload, InEffect;
        /// How many connections to PostgreSQL one pool opens at the same time. PgBouncer opens one
        /// after the other, which makes a cold start slow. Not in PgBouncer.
        server_connect_concurrency: u32 = "4", Reload, InEffect, |n| (1..=1000).contains(n), "a whole number from 1 to 1000";
        /// How much longer a client of another worker must have waited to be served before the
        /// worker's own clients, in seconds. So long an idle server connection is left to them, too,
        /// unless the other worker has none in use. Small values are fairer, larger ones save
        /// wake-ups; 0 is strictly first come, first served. Not in PgBouncer.
        handover_after: Duration = "0.005", Reload, InEffect;
        /// How long a database that exists only through `*` is remembered without a connection, in
        /// seconds. Its statistics go with it. 0: for ever.
        autodb_idle_timeout: Option<Duration> = "3600", Reload, InEffect;
        /// How long a pool without any connection is remembered, in seconds. Its statistics go with
        /// it. 0: for ever.
        pool_idle_timeout: Option<Duration> = "0", Reload, InEffect;
    }

    "Clients" {
        /// The most client connections. Each takes a file descriptor, and so does each server
        /// connection: see that the process may open that many (`ulimit -n`). A cancel request does
        /// not count (see `cancel_connections_max`).
        max_client_conn: u32 = "100", Reload, InEffect;
        /// The most client connections to one database. 0: no limit.
        max_db_client_connections: u32 = "0", Reload, InEffect;
        /// The most client connections of one user. 0: no limit.
        max_user_client_connections: u32 = "0", Reload, InEffect;
        /// How many connections that bring cancel requests may be open at the same time. They are
        /// counted apart from clients, so that neither can shut out the other. Not in PgBouncer,
        /// where cancel requests use up `max_client_conn`.
        cancel_connections_max: u32 = "100", Reload, InEffect, |n| *n > 0, "a whole number from 1 to 4294967295";
        /// Startup parameters that Weir takes and does not pass on: a comma-separated list, which
        /// may hold `options`. Weir accepts every startup parameter anyway; name those here that
        /// PostgreSQL must not see.
        ignore_startup_parameters: Vec<String> = "", Reload, InEffect;
        /// More parameters to keep per client, comma-separated. Weir, as PgBouncer 1.26, keeps all
        /// that PostgreSQL reports, so that few need this.
        track_extra_parameters: Vec<String> = "", Boot, Unneeded;
        /// Refuses simple queries, which may hold several statements: only drivers that use the
        /// extended query protocol throughout keep working.
        disable_pqexec: bool = "0", Boot, InEffect;
        /// Adds the client's address and port to `application_name` when the client connects. A
        /// later `SET` is left as it is.
        application_name_add_host: bool = "0", Reload, InEffect;
        /// A notice that every client gets after log-in. Empty: none.
        login_notify_message: Option<String> = "", Reload, InEffect;
        /// The largest message that is accepted, in bytes. Messages are streamed: this is no
        /// buffer's size.
        max_packet_size: u32 = "2147483647", Reload, InEffect, |n| (1024..=2_147_483_647).contains(n), "a number of bytes from 1024 to 2147483647";
    }

    "Session state in transaction mode" {
        /// When a server connection is asked, after a transaction, what its client's session holds.
        /// `auto`: when a statement may have changed that, as far as its text and the functions that
        /// it reaches tell. `always`: after every transaction. `off`: never, as in PgBouncer;
        /// clients then meet each other's session state. Not in PgBouncer.
        census: CensusPolicy = "auto", Reload, InEffect;
        /// Names of functions that change the session and of which the catalogue does not tell it
        /// (those written in C), comma-separated. A statement that names one is followed by a
        /// census. Not in PgBouncer.
        census_names: Vec<String> = "", Reload, InEffect;
        /// How often a database that is in use is asked whether its catalogue has changed, in
        /// seconds: functions, triggers and views may be made past Weir. What clients of Weir change
        /// is noticed at once. 0: never. Not in PgBouncer.
        catalog_check_interval: Option<Duration> = "60", Reload, InEffect;
        /// Whether a client may keep a server connection between its transactions while its session
        /// holds what no other server connection can have: advisory locks, temporary tables,
        /// cursors WITH HOLD. With `deny`, such a client is disconnected with an error. A database
        /// and a user may have their own. Not in PgBouncer.
        pin: PinPolicy = "allow", Reload, InEffect;
        /// How much of a pool such clients may keep, as a share of its size from 0 to 1, and one
        /// server connection at least. Beyond it they are disconnected with an error. Not in
        /// PgBouncer.
        max_pinned: f64 = "0.8", Reload, InEffect, |share| (0.0..=1.0).contains(share), "a share from 0 to 1";
        /// How long such a client may keep a server connection without using it, in seconds. 0: for
        /// ever. Not in PgBouncer.
        pin_timeout: Option<Duration> = "0", Reload, InEffect;
        /// How many bytes of notifications may wait for a client that listens (LISTEN) and does not
        /// take them, because it does not read or is in a long transaction. Beyond it the client is
        /// disconnected with an error. Not in PgBouncer.
        listen_queue_size: ByteSize = "1MB", Reload, InEffect;
    }

    "Prepared statements" {
        /// How many prepared statements Weir keeps on one server connection in transaction and
        /// statement mode; the one not used for longest makes room. 0: prepared statements are not
        /// tracked, and only work within a transaction.
        max_prepared_statements: u32 = "200", Reload, InEffect;
        /// The memory for the texts of prepared statements, per pool, in bytes or with kB, MB or
        /// GB. A statement that a client still holds is kept beyond it. Not in PgBouncer, whose
        /// cache has no bound.
        prepared_statement_cache_size: ByteSize = "64MB", Reload, InEffect;
    }

    "Authentication" {
        /// How clients prove who they are.
        ///
        /// - `md5`: by md5, or by SCRAM if the stored secret is a SCRAM verifier.
        /// - `scram-sha-256`: by SCRAM; the stored secret is a verifier or plain text.
        /// - `plain`: by the password in clear text.
        /// - `trust`: not at all, but the user must be known.
        /// - `any`: not at all, and the name does not matter. Every database needs a forced user.
        ///
        /// `hba`, `cert`, `ldap` and `pam` are not supported yet. They are errors: nothing weaker
        /// takes their place silently.
        auth_type: AuthType = "md5", Reload, InEffect;
        /// The file of users and their secrets: lines of `"user" "secret"`. It is read at start and
        /// by `RELOAD`.
        auth_file: Option<PathBuf> = "", Reload, InEffect;
        /// The rules by which `auth_type = hba` chooses. Not supported yet.
        auth_hba_file: Option<PathBuf> = "", Reload, NotYet;
        /// The map of names for `hba`. Not supported yet.
        auth_ident_file: Option<PathBuf> = "", Reload, NotYet;
        /// Options for `auth_type = ldap`. Not supported yet.
        auth_ldap_options: Option<String> = "", Reload, NotYet;
        /// The user that looks up the secrets of users who are not in `auth_file`. Its own secret
        /// is in `auth_file`.
        auth_user: Option<String> = "", Reload, InEffect;
        /// The query that looks up a secret: `$1` is the user's name, the answer is the name and
        /// the secret. No row or a null name: no such user. A null secret: nobody can log in as
        /// that user.
        auth_query: String = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin", Reload, InEffect;
        /// The entry of `[databases]` in which `auth_query` runs. Empty: the one that the client
        /// asks for.
        auth_dbname: Option<String> = "", Reload, InEffect;
        /// How long the answer of `auth_query` is used again, in seconds. A changed password is
        /// known after this time at the latest. 0: every log-in asks. Not in PgBouncer, where every
        /// log-in asks.
        auth_query_cache_ttl: Duration = "10", Reload, InEffect;
        /// How many answers of `auth_query` are kept. Not in PgBouncer.
        auth_query_cache_size: u32 = "10000", Reload, InEffect;
        /// The number of iterations when Weir makes a SCRAM verifier out of a plain-text secret.
        /// More make guessing and logging in slower.
        scram_iterations: u32 = "4096", Reload, InEffect, |n| (1..=10_000_000).contains(n), "a whole number from 1 to 10000000";
    }

    "The console" {
        /// Users who may run every command on the console, comma-separated. With `auth_type = any`
        /// everybody may.
        admin_users: Vec<String> = "", Reload, InEffect;
        /// Users who may run the `SHOW` commands on the console, comma-separated.
        stats_users: Vec<String> = "", Reload, InEffect;
    }

    "Server connections" {
        /// The query that cleans a server connection before another client gets it, in session
        /// mode. It runs outside a transaction. Empty: none.
        server_reset_query: Option<String> = "DISCARD ALL", Reload, InEffect;
        /// Runs `server_reset_query` in transaction and statement mode too.
        server_reset_query_always: bool = "0", Reload, InEffect;
        /// The query by which an idle server connection is checked before use. `<empty>` is the
        /// empty query; nothing switches the check off.
        server_check_query: CheckQuery = "<empty>", Reload, InEffect;
        /// How long after its last use a server connection is taken for alive without a check, in
        /// seconds. 0: it is always checked.
        server_check_delay: Duration = "30", Reload, InEffect;
        /// In session mode: closes a server connection that is to be closed (after `RECONNECT`, for
        /// example) at the end of its transaction instead of its session; the client's connection
        /// goes with it.
        server_fast_close: bool = "0", Reload, InEffect;
        /// How long a server connection may live, in seconds; it is closed when it is next unused.
        /// 0: it serves once. A database may have its own.
        server_lifetime: Duration = "3600", Reload, InEffect;
        /// How long a server connection may be idle, in seconds. 0: for ever.
        server_idle_timeout: Option<Duration> = "600", Reload, InEffect;
        /// By which share `server_lifetime` and `server_idle_timeout` are shortened at random for
        /// each connection, so that connections opened together are not closed together. 0: not at
        /// all. Not in PgBouncer.
        server_lifetime_jitter: f64 = "0.1", Reload, InEffect, |share| (0.0..=0.9).contains(share), "a share from 0 to 0.9";
        /// How long connecting and logging in to PostgreSQL may take, in seconds. 0: as long as it
        /// likes.
        server_connect_timeout: Option<Duration> = "15", Reload, InEffect;
        /// The longest pause between attempts to reach a PostgreSQL that fails, in seconds. Weir
        /// starts with short pauses and doubles them, tries with one connection, and lets clients
        /// wait meanwhile (up to `query_wait_timeout`); PgBouncer always pauses this long and
        /// refuses them.
        server_login_retry: Duration = "15", Reload, InEffect;
        /// How long a host's addresses are used before they are looked up again, in seconds.
        dns_max_ttl: Duration = "15", Reload, InEffect;
        /// How long a failed look-up is remembered, in seconds.
        dns_nxdomain_ttl: Duration = "15", Reload, InEffect;
        /// How often a change of the zone's serial number is looked for, in seconds. Not supported
        /// yet.
        dns_zone_check_period: Option<Duration> = "0", Reload, NotYet;
        /// Another `resolv.conf`. Not supported yet: the system's is used.
        resolv_conf: Option<PathBuf> = "", Boot, NotYet;
    }

    "Time-outs" {
        /// How long a client may wait for a server connection, in seconds; then it gets an error
        /// and is disconnected. 0: for ever. A user or a database may have its own; the user's
        /// wins.
        query_wait_timeout: Option<Duration> = "120", Reload, InEffect;
        /// After how long a waiting client gets a notice that it waits, in seconds. 0: never.
        query_wait_notify: Option<Duration> = "5", Reload, InEffect;
        /// How long one query may take, in seconds. Weir cancels it, rolls back, tells the client
        /// why and keeps the server connection; PgBouncer drops both, and the query runs on. 0: as
        /// long as it likes. A user may have its own.
        query_timeout: Option<Duration> = "0", Reload, InEffect;
        /// How long a transaction may wait for its client's next query, in seconds. 0: for ever. A
        /// user may have its own.
        idle_transaction_timeout: Option<Duration> = "0", Reload, InEffect;
        /// How long a transaction may take from its first statement to its end, in seconds. 0: as
        /// long as it likes. A user may have its own.
        transaction_timeout: Option<Duration> = "0", Reload, InEffect;
        /// How long a client may be connected without asking for anything, in seconds. Should be
        /// longer than the client's own pool keeps connections. 0: for ever. A user may have its
        /// own.
        client_idle_timeout: Option<Duration> = "0", Reload, InEffect;
        /// How long a client's log-in may take, in seconds. 0: as long as it likes, which invites
        /// trouble.
        client_login_timeout: Option<Duration> = "60", Reload, InEffect;
        /// How long a cancel request may wait to be passed on, in seconds; then it is dropped. 0:
        /// for ever.
        cancel_wait_timeout: Option<Duration> = "10", Reload, InEffect;
        /// How long cleaning up after a client that vanished in a transaction may take, in seconds:
        /// its query is cancelled, its transaction rolled back and the server connection kept.
        /// After that the server connection is closed. 0: it is closed at once, as PgBouncer does.
        /// Not in PgBouncer.
        abandoned_query_timeout: Duration = "5", Reload, InEffect;
        /// How long `SUSPEND` waited, in seconds. PgBouncer 1.26 removed that command.
        suspend_timeout: Duration = "10", Reload, Unneeded;
    }

    "Log and statistics" {
        /// The log file. It is opened again by `RELOAD` and `SIGHUP`, so that it can be rotated.
        /// The log still goes to stderr as well, unless `-q` or `-d` is given.
        logfile: Option<PathBuf> = "", Reload, InEffect;
        /// How log lines are written: `text`, or `json` for one object per line. Not in PgBouncer.
        log_format: LogFormat = "text", Reload, InEffect;
        /// Whether the log goes to syslog.
        syslog: bool = "0", Reload, InEffect;
        /// Under what name syslog files the log.
        syslog_ident: String = "pgbouncer", Reload, InEffect;
        /// Under what facility syslog files the log.
        syslog_facility: SyslogFacility = "daemon", Reload, InEffect;
        /// Whether log-ins are logged.
        log_connections: bool = "1", Reload, InEffect;
        /// Whether disconnections are logged, with their reason.
        log_disconnections: bool = "1", Reload, InEffect;
        /// Whether errors that Weir itself sends to clients are logged.
        log_pooler_errors: bool = "1", Reload, InEffect;
        /// Whether a line of statistics is logged every `stats_period`.
        log_stats: bool = "1", Reload, InEffect;
        /// How often averages are renewed and the line of statistics is logged, in seconds.
        stats_period: Duration = "60", Reload, InEffect, |time| *time >= Duration::from_secs(1), "a number of seconds from 1 to 2147483647";
        /// How much is logged, as with `-v` that many times.
        verbose: u32 = "0", Reload, InEffect;
    }

    "TLS towards clients" {
        /// TLS is not supported yet. Only `disable` is accepted; another value is an error, because
        /// clients would silently be served in clear.
        client_tls_sslmode: SslMode = "disable", Reload, InEffect;
        /// Weir's private key. Not supported yet.
        client_tls_key_file: Option<PathBuf> = "", Reload, NotYet;
        /// Weir's certificate. Not supported yet.
        client_tls_cert_file: Option<PathBuf> = "", Reload, NotYet;
        /// Whose signature a client's certificate needs. Not supported yet.
        client_tls_ca_file: Option<PathBuf> = "", Reload, NotYet;
        /// The versions of TLS. Not supported yet.
        client_tls_protocols: String = "secure", Reload, NotYet;
        /// The ciphers for TLS 1.2. Not supported yet.
        client_tls_ciphers: String = "default", Reload, NotYet;
        /// The ciphers for TLS 1.3. Not supported yet.
        client_tls13_ciphers: Option<String> = "", Reload, NotYet;
        /// The curve for the exchange of keys. Not supported yet.
        client_tls_ecdhcurve: String = "auto", Reload, NotYet;
        /// The parameters for the exchange of keys by DHE. Not supported yet.
        client_tls_dheparams: String = "auto", Reload, NotYet;
    }

    "TLS towards PostgreSQL" {
        /// TLS is not supported yet: connections to PostgreSQL are in clear. That is what
        /// `disable`, `allow` and `prefer` permit; `require`, `verify-ca` and `verify-full` are
        /// errors.
        server_tls_sslmode: SslMode = "prefer", Reload, InEffect;
        /// Whose signature PostgreSQL's certificate needs. Not supported yet.
        server_tls_ca_file: Option<PathBuf> = "", Reload, NotYet;
        /// The private key to show to PostgreSQL. Not supported yet.
        server_tls_key_file: Option<PathBuf> = "", Reload, NotYet;
        /// The certificate to show to PostgreSQL. Not supported yet.
        server_tls_cert_file: Option<PathBuf> = "", Reload, NotYet;
        /// The versions of TLS. Not supported yet.
        server_tls_protocols: String = "secure", Reload, NotYet;
        /// The ciphers for TLS 1.2. Not supported yet.
        server_tls_ciphers: String = "default", Reload, NotYet;
        /// The ciphers for TLS 1.3. Not supported yet.
        server_tls13_ciphers: Option<String> = "", Reload, NotYet;
    }

    "Network" {
        /// Whether the kernel is asked to notice peers that have gone (TCP keepalive), for clients
        /// and servers.
        tcp_keepalive: bool = "1", Reload, InEffect;
        /// How many keepalive probes may go unanswered. 0: the system's setting.
        tcp_keepcnt: u32 = "0", Reload, InEffect;
        /// How long a connection is silent before the first keepalive probe, in seconds. 0: the
        /// system's setting.
        tcp_keepidle: u32 = "0", Reload, InEffect;
        /// The time between keepalive probes, in seconds. 0: the system's setting.
        tcp_keepintvl: u32 = "0", Reload, InEffect;
        /// How long sent data may stay unacknowledged before the connection is closed, in
        /// milliseconds. 0: the system's setting.
        tcp_user_timeout: u32 = "0", Reload, InEffect;
        /// Whether the kernel hands over a connection only once its first bytes are there (Linux).
        /// 0: off.
        tcp_defer_accept: u32 = "1", Reload, InEffect;
        /// The size of the kernel's socket buffers, in bytes. 0: the system's setting, which adapts
        /// itself and is usually best.
        tcp_socket_buffer: u32 = "0", Reload, InEffect;
        /// The size of PgBouncer's own buffers. Weir has none per connection.
        pkt_buf: u32 = "4096", Boot, Unneeded;
        /// How often PgBouncer goes on with one connection before the next. Weir has no such loop.
        sbuf_loopcnt: u32 = "5", Reload, Unneeded;
        /// This process's number among its peers. Not supported yet: one Weir uses all cores and
        /// needs no peers for that.
        peer_id: u32 = "0", Reload, NotYet, |n| *n <= 16383, "a whole number from 0 (none) to 16383";
    }
}
