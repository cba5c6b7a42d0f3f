//! What clients' statements do to their sessions through functions, triggers, views, casts and operators of the database's own.

use crate::stage::{Party, Stage, execute, parse, value};
use std::sync::atomic::{AtomicU32, Ordering};
use testkit::script::Client;
use testkit::{Ini, wait};
use wire::write;

scenarios! { reactors: reached_through_one_another, pinned_by_a_function, plain_functions_cause_no_census, made_through_weir_and_used_at_once,
used_in_the_transaction_that_makes_it, made_past_weir, names_that_the_operator_gives, a_catalogue_that_cannot_be_read, temporary_objects_change_nothing,
census_after_every_transaction, a_pool_of_many_learns_before_it_serves }
mod majors {
    scenarios! { majors: reached_through_one_another, made_through_weir_and_used_at_once }
}

const OBJECTS: &str = r"
GRANT ALL ON SCHEMA public TO PUBLIC;
CREATE FUNCTION sets() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('app.tenant', 'mine', false); RETURN 1; END $$;
CREATE FUNCTION calls() RETURNS int LANGUAGE sql AS 'SELECT public.sets()';
CREATE FUNCTION on_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.calls(); RETURN NEW; END $$;
CREATE TABLE fired (a int);
CREATE TRIGGER fires BEFORE INSERT ON fired FOR EACH ROW EXECUTE FUNCTION on_row();
CREATE VIEW shown AS SELECT calls() AS a;
CREATE FUNCTION joined(int, int) RETURNS int LANGUAGE sql AS 'SELECT public.calls()';
CREATE OPERATOR ==># (LEFTARG = int, RIGHTARG = int, FUNCTION = joined);
CREATE TYPE pair AS (a int, b int);
CREATE FUNCTION to_pair(int) RETURNS pair LANGUAGE sql AS 'SELECT ROW(public.calls(), 2)::public.pair';
CREATE CAST (int AS pair) WITH FUNCTION to_pair(int);
CREATE FUNCTION locks() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(12); RETURN 1; END $$;
CREATE FUNCTION makes() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE made (a int); RETURN 1; END $$;
CREATE FUNCTION plain(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN $1 + 1; END $$;
CREATE TABLE plain_rows (a int DEFAULT plain(1));
GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC;
";
const TENANT: &str = "SELECT current_setting('app.tenant', true)";

/// A pooler in front of a new database that has [`OBJECTS`].
struct Scene {
    stage: Stage,
    party: Party,
    database: String,
}

impl Scene {
    fn new(party: Party, change: impl FnOnce(Ini) -> Ini) -> Scene {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("learnt_{}_{number}", std::process::id());
        let database = party.own_database(&name);
        let stage = party.start_with(|ini| change(ini.set("default_pool_size", 1)));
        let scene = Scene {
            stage,
            party,
            database,
        };
        scene.past_weir(OBJECTS);
        scene
    }

    fn client(&self) -> Client {
        self.stage.client_of(&self.database)
    }

    /// Two clients of a pool whose database has been learnt.
    fn two(&self) -> (Client, Client) {
        let (one, two) = (self.client(), self.client());
        self.until_learnt();
        (one, two)
    }

    #[track_caller]
    fn past_weir(&self, sql: &str) {
        let done = self.party.postgres().query(&self.database, sql);
        assert!(done.is_ok(), "{done:?}");
    }

    fn catalogue(&self) -> String {
        let figures = self.stage.console().ask("SHOW CENSUS");
        let of_database = figures.having("database", &self.database);
        of_database.only("catalogue").to_owned()
    }

    fn figure(&self, column: &str) -> i64 {
        let figures = self.stage.console().ask("SHOW CENSUS");
        figures.having("database", &self.database).number(column)
    }

    #[track_caller]
    fn until_learnt(&self) {
        wait::until("the catalogue is read", || self.catalogue() == "read");
    }

    /// Whether a transaction of this one statement is followed by a census.
    #[track_caller]
    fn is_suspicious(&self, client: &mut Client, sql: &str) -> bool {
        let before = self.figure("censuses");
        run(client, sql);
        // In a pool of one the connection is given back after the census, and only then serves another.
        run(&mut self.client(), "SELECT 1");
        self.figure("censuses") > before
    }
}

#[track_caller]
fn run(client: &mut Client, sql: &str) {
    client.send(|out| write::query(out, sql.as_bytes()));
    let messages = client.receive_until("Z");
    let failed = messages.iter().find(|message| message.tag == b'E');
    assert!(failed.is_none(), "{sql}: {failed:?}");
}

/// What the statement sets is the client's, and nobody else's.
#[track_caller]
fn assert_sets(one: &mut Client, two: &mut Client, statement: &str) {
    assert_eq!(value(two, TENANT), "", "before {statement}");
    run(one, statement);
    assert_eq!(value(two, TENANT), "", "{statement}: of another client");
    assert_eq!(value(one, TENANT), "mine", "{statement}: of its own");
    run(one, "RESET app.tenant");
}

fn reached_through_one_another(party: Party) {
    let scene = Scene::new(party, |ini| ini);
    let (mut one, mut two) = scene.two();
    for statement in [
        "SELECT sets()",
        "SELECT public.\"calls\"()",
        "INSERT INTO fired VALUES (1)",
        "SELECT a FROM shown",
        "SELECT 1 ==># 2",
        "SELECT 1::pair",
        "PREPARE p AS SELECT calls(); EXECUTE p; DEALLOCATE p",
    ] {
        assert_sets(&mut one, &mut two, statement);
    }
    one.send(|out| {
        parse(out, "calls", "SELECT calls()");
        execute(out, "calls");
        write::sync(out);
    });
    one.expect("1 2 D C Z");
    assert_eq!(value(&mut two, TENANT), "");
    assert_eq!(value(&mut one, TENANT), "mine");
}

fn pinned_by_a_function(party: Party) {
    let scene = Scene::new(party, |ini| ini.set("default_pool_size", 2));
    let (mut one, mut two) = scene.two();
    for (does, undoes) in [
        ("SELECT locks()", "SELECT pg_advisory_unlock_all()"),
        ("SELECT makes()", "DROP TABLE made"),
    ] {
        run(&mut one, does);
        wait::until(does, || scene.figure("pinned") == 1);
        run(&mut two, "SELECT 1");
        run(&mut one, undoes);
        wait::until(undoes, || scene.figure("pinned") == 0);
    }
}

fn plain_functions_cause_no_census(party: Party) {
    let scene = Scene::new(party, |ini| ini);
    let (mut one, _two) = scene.two();
    for plain in [
        "SELECT plain(1)",
        "INSERT INTO plain_rows DEFAULT VALUES",
        "SELECT 1 + 2",
    ] {
        assert!(!scene.is_suspicious(&mut one, plain), "{plain}");
    }
    assert!(scene.is_suspicious(&mut one, "SELECT calls()"));
}

fn made_through_weir_and_used_at_once(party: Party) {
    let scene = Scene::new(party, |ini| ini);
    let (mut one, mut two) = scene.two();
    run(
        &mut one,
        "CREATE FUNCTION fresh() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('fresh.tenant', 'mine', false); \
         PERFORM sets(); RETURN 1; END $$",
    );
    assert_sets(&mut one, &mut two, "SELECT fresh()");
    assert_eq!(
        value(&mut one, "SELECT current_setting('fresh.tenant')"),
        "mine"
    );
    assert_eq!(
        value(&mut two, "SELECT current_setting('fresh.tenant', true)"),
        ""
    );
    scene.until_learnt();
    assert_sets(&mut one, &mut two, "SELECT fresh()");
    assert!(!scene.is_suspicious(&mut two, "SELECT plain(1)"));
}

fn used_in_the_transaction_that_makes_it(party: Party) {
    let scene = Scene::new(party, |ini| ini);
    let (mut one, mut two) = scene.two();
    assert_sets(
        &mut one,
        &mut two,
        "BEGIN; CREATE FUNCTION fresh() RETURNS int LANGUAGE sql AS 'SELECT sets()'; SELECT fresh(); COMMIT",
    );
    run(&mut one, "BEGIN");
    run(&mut one, "CREATE VIEW fresher AS SELECT fresh() AS a");
    run(&mut one, "SELECT a FROM fresher");
    run(&mut one, "COMMIT");
    assert_eq!(value(&mut two, TENANT), "");
    assert_eq!(value(&mut one, TENANT), "mine");
}

fn made_past_weir(party: Party) {
    let scene = Scene::new(party, |ini| ini.set("catalog_check_interval", 1));
    let (mut one, mut two) = scene.two();
    scene.past_weir(
        "CREATE FUNCTION probes() RETURNS int LANGUAGE sql AS 'SELECT 1 FROM set_config(''app.probe'', ''1'', false)'; \
         CREATE FUNCTION past() RETURNS int LANGUAGE sql AS 'SELECT public.sets()'",
    );
    wait::until("the catalogue is looked at again", || {
        scene.is_suspicious(&mut one, "SELECT probes()")
    });
    scene.until_learnt();
    assert_sets(&mut one, &mut two, "SELECT past()");
    assert!(!scene.is_suspicious(&mut one, "SELECT plain(1)"));
}

fn names_that_the_operator_gives(party: Party) {
    let scene = Scene::new(party, |ini| ini.set("census_names", "hashtext, plain_rows"));
    let (mut one, _two) = scene.two();
    assert!(scene.is_suspicious(&mut one, "SELECT HashText('a')"));
    assert!(scene.is_suspicious(&mut one, "SELECT count(*) FROM plain_rows"));
    assert!(!scene.is_suspicious(&mut one, "SELECT plain(1)"));
}

/// Every statement may do anything then.
fn a_catalogue_that_cannot_be_read(party: Party) {
    let scene = Scene::new(party, |ini| ini.set("catalog_check_interval", 1));
    scene.past_weir("REVOKE ALL ON pg_catalog.pg_proc FROM PUBLIC");
    let (mut one, mut two) = (scene.client(), scene.client());
    for statement in [
        "SELECT sets(), 'app.tenant'",
        "INSERT INTO fired VALUES (1)",
    ] {
        run(&mut one, "SET app.tenant = 'other'");
        run(&mut one, statement);
        assert_eq!(value(&mut two, TENANT), "");
        assert_eq!(value(&mut one, TENANT), "mine");
    }
    assert!(scene.is_suspicious(&mut one, "SELECT plain(1)"));
    assert_eq!(scene.catalogue(), "unknown");
    let complaints = scene
        .stage
        .log()
        .matches("catalogue cannot be read")
        .count();
    assert_eq!(complaints, 1);
    scene.past_weir("GRANT SELECT ON pg_catalog.pg_proc TO PUBLIC");
    scene.until_learnt();
    assert!(!scene.is_suspicious(&mut one, "SELECT plain(1)"));
}

fn temporary_objects_change_nothing(party: Party) {
    let scene = Scene::new(party, |ini| ini.set("default_pool_size", 2));
    let (mut one, mut two) = scene.two();
    run(&mut one, "CREATE TEMP TABLE t (a int)");
    wait::until("it is pinned", || scene.figure("pinned") == 1);
    assert_eq!(scene.catalogue(), "read");
    assert_eq!(value(&mut two, "SELECT plain(1)"), "2");
    assert_eq!(scene.catalogue(), "read");
}

fn census_after_every_transaction(party: Party) {
    let scene = Scene::new(party, |ini| ini.set("census", "always"));
    let (mut one, mut two) = scene.two();
    assert!(scene.is_suspicious(&mut one, "SELECT 1"));
    assert_sets(&mut one, &mut two, "SELECT calls()");
}

/// Also where many clients come at once, to the first server connections of their pool.
fn a_pool_of_many_learns_before_it_serves(party: Party) {
    let scene = Scene::new(party, |ini| {
        ini.set("default_pool_size", 5)
            .set("min_pool_size", 5)
            .set("worker_threads", 2)
    });
    let mut clients: Vec<Client> = (0..10).map(|_| scene.client()).collect();
    for client in &mut clients {
        client.send(|out| write::query(out, b"SELECT sets()"));
    }
    for client in &mut clients {
        client.receive_until("Z");
    }
    let mut others: Vec<Client> = (0..10).map(|_| scene.client()).collect();
    for other in &mut others {
        assert_eq!(value(other, TENANT), "");
    }
    for client in &mut clients {
        assert_eq!(value(client, TENANT), "mine");
    }
}
