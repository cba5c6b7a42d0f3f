//! The servers and databases of a run: PostgreSQL, a pooler in front of it, and for each thread a database for direct sessions and one for each
//! size of the pool.

use crate::client::{Client, Place};
use crate::script::{Script, Unit, User, simple};
use std::sync::Once;
use std::time::Duration;
use testkit::{Ini, Pooler, Postgres, Role, Weir};

pub const POOL_SIZES: [usize; 3] = [1, 2, 3];
const SUPERUSER: &str = "diff_super";
const TEMPLATE: &str = "diff_fixture";
/// A step that takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// While a failure is shortened, when most steps that hang do so for the reason that is known.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);

/// What stands opposite the direct connections.
#[derive(Debug)]
enum Second {
    Pooler(Pooler),
    /// PostgreSQL itself: nothing may differ.
    Direct,
}

#[derive(Debug)]
pub struct Arena {
    name: &'static str,
    second: Second,
    postgres: &'static Postgres,
}

impl Arena {
    /// Weir with these settings beside those that every run needs.
    pub fn of_weir(name: &'static str, threads: usize, settings: &[(&str, &str)]) -> Self {
        let postgres = prepared(name, threads);
        let ini = configuration(name, threads, postgres).set("worker_threads", 2);
        let ini = settings
            .iter()
            .fold(ini, |ini, (name, value)| ini.set(name, *value));
        Arena {
            name,
            second: Second::Pooler(Weir::start(&ini)),
            postgres,
        }
    }

    pub fn without_a_pooler(name: &'static str, threads: usize) -> Self {
        Arena {
            name,
            second: Second::Direct,
            postgres: prepared(name, threads),
        }
    }

    /// The databases of one thread.
    pub fn ground(&self, thread: usize) -> Ground {
        let port = match &self.second {
            Second::Pooler(pooler) => pooler.port(),
            Second::Direct => self.postgres.port(),
        };
        let console = matches!(self.second, Second::Pooler(_))
            .then(|| connect(port, Ini::ADMIN, "pgbouncer"));
        let databases = database_names(self.name, thread);
        Ground {
            direct_port: self.postgres.port(),
            pooled_port: port,
            resetters: databases
                .iter()
                .map(|database| connect(self.postgres.port(), SUPERUSER, database))
                .collect(),
            databases,
            console,
            patience: PATIENCE,
        }
    }

    /// What the pooler has written, if there is one.
    pub fn log(&self) -> String {
        match &self.second {
            Second::Pooler(pooler) => pooler.log(),
            Second::Direct => String::new(),
        }
    }
}

/// Where one conversation at a time takes place.
pub struct Ground {
    direct_port: u16,
    pooled_port: u16,
    /// Of direct sessions; then of pools of 1, 2 and 3 server connections.
    databases: [String; 4],
    resetters: Vec<Client>,
    console: Option<Client>,
    pub patience: Duration,
}

/// The two sides of a conversation.
pub struct Sides {
    pub direct: Place,
    pub pooled: Place,
}

impl Ground {
    /// Empty tables, and no server connection that an earlier conversation has used.
    pub fn prepare(&mut self, script: &Script) -> Sides {
        for place in [0, script.pool] {
            run(&mut self.resetters[place], "CALL diff.begin_again()");
        }
        let database = &self.databases[script.pool];
        if let Some(console) = &mut self.console {
            // A database that nobody has used yet may be unknown.
            console.say(&[simple(&[&format!("RECONNECT {database}")])]);
            console.say(&[simple(&[&format!("WAIT_CLOSE {database}")])]);
        }
        let user = match script.user {
            User::Plain => Role::Trust.name(),
            User::Superuser => SUPERUSER,
        };
        let place = |port, database: &String| Place {
            port,
            user,
            database: database.clone(),
        };
        Sides {
            direct: place(self.direct_port, &self.databases[0]),
            pooled: place(self.pooled_port, database),
        }
    }

    /// The same databases, with PostgreSQL itself on both sides.
    pub fn prepare_without_a_pooler(&mut self, script: &Script) -> Sides {
        let mut sides = self.prepare(script);
        sides.pooled.port = self.direct_port;
        sides
    }

    /// Runs `act` with less patience.
    pub fn in_haste<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.patience, SHORT_PATIENCE);
        let result = act(self);
        self.patience = before;
        result
    }
}

fn database_names(name: &str, thread: usize) -> [String; 4] {
    std::array::from_fn(|pool| format!("diff_{name}_{thread}_{pool}"))
}

fn connect(port: u16, user: &'static str, database: &str) -> Client {
    let place = Place {
        port,
        user,
        database: database.into(),
    };
    let (client, reply) = Client::connect(&place, &[], PATIENCE);
    client.unwrap_or_else(|| panic!("{place:?}: {reply}"))
}

fn run(client: &mut Client, sql: &str) {
    let reply = client.say(&[Unit::Simple(vec![sql.into()])]);
    assert!(
        reply.after.is_open() && !reply.has_any_error(),
        "{sql}: {reply}"
    );
}

fn configuration(name: &str, threads: usize, postgres: &Postgres) -> Ini {
    let ini = Ini::new()
        .secret(SUPERUSER, "superuser")
        .set("log_connections", 0)
        .set("log_disconnections", 0);
    let pools = (0..threads).flat_map(|thread| POOL_SIZES.map(|pool| (thread, pool)));
    pools.fold(ini, |ini, (thread, pool)| {
        let database = &database_names(name, thread)[pool];
        // The shared listener has a place of its own; in a pool of one there is none for it.
        let size = if pool == 1 { 1 } else { pool + 1 };
        ini.database(
            database,
            &format!("host=127.0.0.1 port={} pool_size={size}", postgres.port()),
        )
    })
}

/// The shared server, with the databases of a run.
fn prepared(name: &str, threads: usize) -> &'static Postgres {
    static FIXTURE: Once = Once::new();
    let postgres = Postgres::usual();
    FIXTURE.call_once(|| make_fixture(postgres));
    for database in (0..threads).flat_map(|thread| database_names(name, thread)) {
        execute(
            postgres,
            &format!("CREATE DATABASE {database} TEMPLATE {TEMPLATE}"),
        );
    }
    postgres
}

fn make_fixture(postgres: &Postgres) {
    execute(
        postgres,
        &format!("CREATE ROLE {SUPERUSER} SUPERUSER LOGIN"),
    );
    for role in crate::kind::ROLES.iter().chain(&["diff_nobody"]) {
        execute(postgres, &format!("CREATE ROLE {role}"));
    }
    let roles = crate::kind::ROLES.join(", ");
    execute(
        postgres,
        &format!("GRANT {roles} TO {}", Role::Trust.name()),
    );
    execute(postgres, &format!("CREATE DATABASE {TEMPLATE}"));
    postgres
        .query(TEMPLATE, include_str!("fixture.sql"))
        .expect("the fixture");
}

fn execute(postgres: &Postgres, sql: &str) {
    postgres
        .execute(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}
