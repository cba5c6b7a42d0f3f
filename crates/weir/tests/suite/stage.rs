//! What every scenario stands on: a pooler of a certain kind in front of PostgreSQL.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use testkit::script::{Client, Message};
use testkit::{Ini, PgBouncer, Pooler, Postgres, Weir, wait};
use wire::write;

/// The user that needs no password.
pub const USER: &str = "weir_trust";
/// No parameter types, for Parse.
pub const NO_TYPES: &[u8] = &[0, 0];
/// No parameters and all results as text, for Bind.
pub const NO_VALUES: &[u8] = &[0; 6];

/// Makes each scenario a test with each kind of pooler.
macro_rules! scenarios {
    (reactors: $($scenario:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $scenario() { super::$scenario($crate::stage::Party::epoll()); })*
        }
        mod io_uring {
            $(#[test] fn $scenario() { super::$scenario($crate::stage::Party::io_uring()); })*
        }
    };
    (oracle: $($scenario:ident),* $(,)?) => {
        mod pgbouncer {
            $(#[test] fn $scenario() {
                if let Some(party) = $crate::stage::Party::pgbouncer() {
                    super::$scenario(party);
                }
            })*
        }
    };
    (majors: $($scenario:ident),* $(,)?) => {
        #[test]
        fn in_every_version_of_postgresql() {
            for major in testkit::Postgres::majors() {
                for party in [$crate::stage::Party::epoll(), $crate::stage::Party::io_uring()] {
                    let party = party.in_front_of(major);
                    eprintln!("{party:?}");
                    $(super::$scenario(party);)*
                }
            }
        }
    };
}

/// Who pools, and which PostgreSQL.
#[derive(Clone, Copy, Debug)]
pub struct Party {
    program: Program,
    major: u32,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Weir { reactor: &'static str },
    PgBouncer,
}

impl Party {
    pub fn epoll() -> Party {
        Party::weir("epoll")
    }

    pub fn io_uring() -> Party {
        Party::weir("io_uring")
    }

    /// `None` where it is not installed.
    pub fn pgbouncer() -> Option<Party> {
        PgBouncer::program()?;
        Some(Party {
            program: Program::PgBouncer,
            major: Postgres::USUAL_MAJOR,
        })
    }

    fn weir(reactor: &'static str) -> Party {
        Party {
            program: Program::Weir { reactor },
            major: Postgres::USUAL_MAJOR,
        }
    }

    pub fn in_front_of(self, major: u32) -> Party {
        Party { major, ..self }
    }

    pub fn postgres(self) -> &'static Postgres {
        Postgres::shared(self.major)
    }

    /// One server connection in transaction mode, to the shared server.
    pub fn start(self) -> Stage {
        self.start_with(|ini| ini.set("default_pool_size", 1))
    }

    /// In front of the shared server, with settings of the scenario's choice.
    pub fn start_with(self, change: impl FnOnce(Ini) -> Ini) -> Stage {
        self.run(&change(Ini::in_front_of(self.postgres())))
    }

    pub fn run(self, ini: &Ini) -> Stage {
        let ini = self.complete(ini);
        let pooler = match self.program {
            Program::Weir { .. } => Weir::start(&ini),
            Program::PgBouncer => PgBouncer::start(&ini).expect("it is installed"),
        };
        Stage {
            pooler,
            postgres: self.postgres(),
        }
    }

    /// The configuration as this party gets it, for a reload.
    pub fn complete(self, ini: &Ini) -> Ini {
        match self.program {
            Program::Weir { reactor } => ini.clone().set("reactor", reactor),
            Program::PgBouncer => ini.clone(),
        }
    }

    /// What `worker_threads` is worth trying: nothing else than one thread for PgBouncer.
    pub fn worker_threads(self) -> &'static [u32] {
        match self.program {
            Program::Weir { .. } => &[1, 4],
            Program::PgBouncer => &[1],
        }
    }

    /// A setting that PgBouncer does not have.
    pub fn weir_only(self, ini: Ini, name: &str, value: impl ToString) -> Ini {
        match self.program {
            Program::Weir { .. } => ini.set(name, value),
            Program::PgBouncer => ini,
        }
    }

    /// A name that no other party uses on the same server.
    pub fn own_name(self, name: &str) -> String {
        match self.program {
            Program::Weir { reactor } => format!("{name}_{reactor}"),
            Program::PgBouncer => format!("{name}_pgbouncer"),
        }
    }

    /// A database of PostgreSQL that only this scenario uses: its connections can be counted.
    pub fn own_database(self, name: &str) -> String {
        let name = self.own_name(name);
        self.postgres()
            .execute(&format!("CREATE DATABASE {name}"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        name
    }
}

/// A running pooler, which must not have panicked when the scenario is over.
pub struct Stage {
    pooler: Pooler,
    pub postgres: &'static Postgres,
}

impl Stage {
    /// A client that has logged in.
    #[track_caller]
    pub fn client(&self) -> Client {
        self.client_of(Postgres::DATABASE)
    }

    #[track_caller]
    pub fn client_of(&self, database: &str) -> Client {
        Client::login(self.port(), USER, database)
    }

    /// A client whose query runs for a long time, and the server connection that runs it.
    #[track_caller]
    pub fn sleeper(&self) -> (Client, String) {
        let mut client = self.client();
        let server = backend(&mut client);
        client.send(|out| write::query(out, b"SELECT pg_sleep(600)"));
        self.until_asleep(&server);
        (client, server)
    }

    #[track_caller]
    pub fn until_asleep(&self, server: &str) {
        let sleeps = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {server} AND wait_event = 'PgSleep'"
        );
        wait::until("the query runs", || self.server_says(&sleeps) == "1");
    }

    /// Waits until a column of SHOW POOLS, for the pool of `database`, is `count`.
    #[track_caller]
    pub fn until_pool(&self, database: &str, column: &str, count: i64) {
        let console = self.console();
        let seen = || {
            let pools = console.ask("SHOW POOLS").having("database", database);
            let of_user = pools.having("user", USER);
            (!of_user.rows.is_empty()).then(|| of_user.number(column))
        };
        wait::until(&format!("{column} = {count}"), || seen() == Some(count));
    }

    /// A new table of [`USER`]'s that only this scenario uses; gives its name.
    #[track_caller]
    pub fn table(&self, columns: &str) -> String {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("t_{}_{number}", std::process::id());
        let mut client = self.client();
        client.query(&format!("DROP TABLE IF EXISTS {name}"));
        assert_eq!(
            client.query(&format!("CREATE TABLE {name} ({columns})")),
            "C(CREATE TABLE) Z(I)"
        );
        name
    }

    /// What the superuser sees.
    #[track_caller]
    pub fn server_says(&self, sql: &str) -> String {
        self.postgres
            .value(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

impl Deref for Stage {
    type Target = Pooler;

    fn deref(&self) -> &Pooler {
        &self.pooler
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut Pooler {
        &mut self.pooler
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let log = self.pooler.log();
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

/// The only value of the only row of a query's result.
#[track_caller]
pub fn value(client: &mut Client, sql: &str) -> String {
    let end = client.transcript().len();
    client.send(|out| write::query(out, sql.as_bytes()));
    let messages = client.receive_until("Z");
    let row = messages.iter().find(|message| message.tag == b'D');
    let row = row.unwrap_or_else(|| panic!("no row:\n{}", &client.transcript()[end..]));
    row.values()[0].clone().unwrap_or_default()
}

/// The process id of the server connection that serves the client's next transaction.
#[track_caller]
pub fn backend(client: &mut Client) -> String {
    value(client, "SELECT pg_backend_pid()")
}

/// Bind and Execute of a statement without parameters.
pub fn execute(out: &mut Vec<u8>, statement: &str) {
    write::bind(out, b"", statement.as_bytes(), NO_VALUES);
    write::execute(out, b"", 0);
}

pub fn parse(out: &mut Vec<u8>, statement: &str, sql: &str) {
    write::parse(out, statement.as_bytes(), sql.as_bytes(), NO_TYPES);
}

/// The first ErrorResponse.
#[track_caller]
pub fn error(messages: &[Message]) -> &Message {
    messages
        .iter()
        .find(|message| message.tag == b'E')
        .expect("an error")
}

/// Logs in with a connection string, and says as whom PostgreSQL sees it; or "SQLSTATE: text" of the refusal.
pub fn log_in(connection_string: &str) -> Result<String, String> {
    let asked = ask_current_user(connection_string);
    lab::runtime::apart(asked).map_err(|error| match error.as_db_error() {
        Some(told) => format!("{}: {}", told.code().code(), told.message()),
        None => error.to_string(),
    })
}

async fn ask_current_user(connection_string: &str) -> Result<String, tokio_postgres::Error> {
    let (client, connection) =
        tokio_postgres::connect(connection_string, tokio_postgres::NoTls).await?;
    let asked = async move { client.query_one("SELECT current_user::text", &[]).await };
    let (row, _) = tokio::join!(asked, connection);
    Ok(row?.get(0))
}
