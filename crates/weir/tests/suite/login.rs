//! Who gets in, and as whom.

use crate::stage::{Party, log_in};
use testkit::{Ini, Postgres, Role, wait};

scenarios! { reactors:
    every_method_with_every_secret_that_it_can_use, a_wrong_password_and_an_unknown_user_look_alike, unknown_databases, secrets_that_the_server_knows,
    trust_asks_nothing,
}
scenarios! { oracle: every_method_with_every_secret_that_it_can_use, secrets_that_the_server_knows }
mod majors {
    scenarios! { majors: every_method_with_every_secret_that_it_can_use, secrets_that_the_server_knows }
}

/// The secrets of the auth_file: as PostgreSQL stores them, where the method can use that; the log-in to PostgreSQL uses them too.
fn every_method_with_every_secret_that_it_can_use(party: Party) {
    let server = party.postgres();
    let stored = |ini: Ini, role: Role| ini.secret(role.name(), &role.stored_secret(server));
    type Change = fn(Ini) -> Ini;
    let cases: [(&str, Change, &[Role]); 3] = [
        (
            "plain",
            |ini| ini,
            &[Role::Trust, Role::Plain, Role::Md5, Role::Scram],
        ),
        ("md5", |ini| ini, &[Role::Plain, Role::Md5, Role::Scram]),
        (
            "scram-sha-256",
            |ini| ini,
            &[Role::Plain, Role::Md5, Role::Scram],
        ),
    ];
    for (method, change, roles) in cases {
        let stage = party.start_with(|ini| change(ini).set("auth_type", method));
        for role in roles {
            let right = stage.connection_string(role.name(), role.password(), Postgres::DATABASE);
            assert_eq!(
                log_in(&right).as_deref(),
                Ok(role.name()),
                "{method} {role:?}"
            );
            assert!(
                log_in(&right.replace(role.password(), "wrong")).is_err(),
                "{method} {role:?}"
            );
        }
    }
    for (method, role) in [
        ("md5", Role::Md5),
        ("md5", Role::Scram),
        ("scram-sha-256", Role::Scram),
    ] {
        let stage = party.start_with(|ini| stored(ini, role).set("auth_type", method));
        let right = stage.connection_string(role.name(), role.password(), Postgres::DATABASE);
        assert_eq!(
            log_in(&right).as_deref(),
            Ok(role.name()),
            "{method} {role:?}"
        );
        let wrong = log_in(&right.replace(role.password(), "wrong"));
        assert!(wrong.is_err(), "{method} {role:?}");
    }
}

fn a_wrong_password_and_an_unknown_user_look_alike(party: Party) {
    for method in ["plain", "md5", "scram-sha-256"] {
        let stage = party.start_with(|ini| ini.set("auth_type", method));
        let told = |user| {
            log_in(&stage.connection_string(user, "wrong", Postgres::DATABASE))
                .expect_err("it is wrong")
                .replace(user, "X")
        };
        let known = told(Role::Scram.name());
        assert!(known.starts_with("28P01"), "{known}");
        assert_eq!(told("nobody_at_all"), known, "{method}");
    }
}

fn unknown_databases(party: Party) {
    let stage = party.start();
    // The server's own words, as all databases are passed on.
    let told = log_in(&stage.connection_string(Role::Trust.name(), "", "no_such_database"))
        .expect_err("there is none");
    assert!(
        told.starts_with("3D000") && told.contains("no_such_database"),
        "{told}"
    );
    let port = party.postgres().port();
    let ini = Ini::new().database(
        "only",
        &format!("host=127.0.0.1 port={port} dbname={}", Postgres::DATABASE),
    );
    let stage = party.run(&ini);
    assert_eq!(
        log_in(&stage.connection_string(Role::Trust.name(), "", "only")).as_deref(),
        Ok(Role::Trust.name())
    );
    let told = log_in(&stage.connection_string(Role::Trust.name(), "", Postgres::DATABASE))
        .expect_err("it has another name here");
    assert!(told.contains("no such database"), "{told}");
}

/// auth_query: users that are in no file; a changed password is known after auth_query_cache_ttl.
fn secrets_that_the_server_knows(party: Party) {
    let server = party.postgres();
    for (method, encryption) in [("md5", "md5"), ("scram-sha-256", "scram-sha-256")] {
        let user = party.own_name(&format!("asked_{encryption}").replace('-', "_"));
        let set = |password: &str| {
            server
                .execute(&format!("SET password_encryption = '{encryption}'; ALTER ROLE {user} PASSWORD '{password}'"))
                .expect("a password");
        };
        server
            .execute(&format!(
                "DROP ROLE IF EXISTS {user}; CREATE ROLE {user} LOGIN"
            ))
            .expect("a role");
        set("first");
        let stage = party.start_with(|ini| {
            party
                .weir_only(ini, "auth_query_cache_ttl", 1)
                .set("auth_type", method)
                .set("auth_user", "postgres")
                .set(
                    "auth_query",
                    "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1",
                )
        });
        let told =
            |password: &str| log_in(&stage.connection_string(&user, password, Postgres::DATABASE));
        assert_eq!(told("first").as_deref(), Ok(&user[..]));
        assert!(told("second").is_err());
        set("second");
        wait::until("the new password is known", || told("second").is_ok());
        assert!(told("first").is_err());
    }
}

fn trust_asks_nothing(party: Party) {
    let stage = party.start();
    assert_eq!(
        log_in(&stage.connection_string(Role::Scram.name(), "anything", Postgres::DATABASE))
            .as_deref(),
        Ok(Role::Scram.name())
    );
}
