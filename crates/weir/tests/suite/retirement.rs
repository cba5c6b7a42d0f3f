//! Pools that nobody uses any more are forgotten, and nobody can make Weir remember what does not exist.

use crate::stage::{Party, Stage, USER, execute, log_in, parse};
use testkit::{Ini, Postgres, wait};
use wire::write;

scenarios! { reactors: unused_pools_are_forgotten, failed_log_ins_leave_no_pool, a_pool_in_use_stays,
a_database_whose_clients_have_left_can_be_dropped }

fn has_pool(stage: &Stage, database: &str) -> bool {
    let pools = stage.show("POOLS").having("database", database);
    !pools.rows.is_empty()
}

fn unused_pools_are_forgotten(party: Party) {
    let database = Postgres::DATABASE;
    let configured = format!(
        "host=127.0.0.1 port={} dbname={database}",
        party.postgres().port()
    );
    for (setting, remembered) in [
        ("autodb_idle_timeout", &["configured"][..]),
        ("pool_idle_timeout", &[]),
    ] {
        let stage = party.start_with(|ini| {
            ini.database("configured", &configured)
                .set("server_idle_timeout", "0.2")
                .set("autodb_idle_timeout", "0")
                .set(setting, "1")
        });
        for _ in 0..2 {
            for name in [database, "configured"] {
                let mut client = stage.client_of(name);
                assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
                assert!(has_pool(&stage, name));
            }
            wait::until("it is forgotten", || !has_pool(&stage, database));
            wait::until("so is the other, if it is to be", || {
                has_pool(&stage, "configured") == remembered.contains(&"configured")
            });
        }
    }
}

fn a_pool_in_use_stays(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("server_idle_timeout", "0.1")
            .set("pool_idle_timeout", "0.1")
    });
    let mut client = stage.client();
    client.query("SELECT 1");
    stage.until_pool(Postgres::DATABASE, "sv_idle", 0);
    // Another pool comes and goes.
    let other = "template1";
    stage.client_of(other).query("SELECT 1");
    wait::until("the other is forgotten", || !has_pool(&stage, other));
    assert!(has_pool(&stage, Postgres::DATABASE));
    assert_eq!(client.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
}

/// In the simple and in the extended protocol; another one of the name is met with fresh eyes.
fn a_database_whose_clients_have_left_can_be_dropped(party: Party) {
    let stage = party.start();
    for extended in [false, true] {
        let database = party.own_database("dropped");
        let owner = format!("ALTER DATABASE {database} OWNER TO {USER}");
        party.postgres().execute(&owner).expect("an owner");
        let mut guest = stage.client_of(&database);
        assert_eq!(guest.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
        drop(guest);
        stage.until_pool(&database, "cl_active", 0);
        assert_eq!(party.postgres().connections(&database), 1);
        let (sql, mut owner) = (format!("DROP DATABASE {database}"), stage.client());
        owner.send(|out| {
            if extended {
                parse(out, "drop", &sql);
                execute(out, "drop");
                write::sync(out);
            } else {
                write::query(out, sql.as_bytes());
            }
        });
        let answer = owner.receive_until("Z");
        assert!(
            answer.iter().any(|it| it.tag == b'C'),
            "{}",
            owner.transcript()
        );
    }
}

/// By `auth_query` in databases that do not exist, and by clients that may log in to Weir and ask for such.
fn failed_log_ins_leave_no_pool(party: Party) {
    const NAMES: usize = 30;
    let stage =
        party.start_with(|ini: Ini| ini.set("auth_type", "md5").set("auth_user", "postgres"));
    let known = || stage.show("POOLS").rows.len();
    let before = known();
    for number in 0..NAMES {
        let name = format!("no_such_database_{number}");
        let told = log_in(&stage.connection_string("nobody", "x", &name));
        assert!(told.is_err(), "{told:?}");
        let password = testkit::Role::Trust.password();
        let told = log_in(&stage.connection_string(USER, password, &name));
        assert!(told.is_err_and(|text| text.starts_with("3D000")));
    }
    wait::until("all are forgotten", || known() == before);
    assert!(
        !stage
            .show("DATABASES")
            .column("name")
            .iter()
            .any(|name| name.starts_with("no_such"))
    );
}
