//! `weir advise` as its user meets it: in front of Weir, and with a file to change.

use std::process::{Child, Command, Output, Stdio};
use testkit::{Ini, Pooler, Postgres, Weir, wait};

fn advise(arguments: &[&str]) -> Output {
    Command::new(Weir::program())
        .arg("advise")
        .args(arguments)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn in_front_of(postgres: &Postgres) -> Pooler {
    let ini = Ini::in_front_of(postgres)
        .set("default_pool_size", 30)
        .set("stats_users", "weir_stats, weir_trust");
    Weir::start(&ini)
}

/// pgbench's clients are in a transaction half of the time. They end with this value.
struct Load(Child);

impl Load {
    /// Returns when all are connected.
    fn on(pooler: &Pooler, clients: usize) -> Self {
        let script = pooler.folder().join("half.sql");
        std::fs::write(
            &script,
            "BEGIN;\nSELECT pg_sleep(0.05);\nCOMMIT;\n\\sleep 50 ms\n",
        )
        .expect("writable");
        let dsn = pooler.connection_string("weir_plain", "plain secret", Postgres::DATABASE);
        let pgbench = Command::new("pgbench")
            .args([
                "--no-vacuum",
                "--time=300",
                "--client",
                &clients.to_string(),
            ])
            .arg("--file")
            .arg(script)
            .arg(dsn)
            .stdout(Stdio::null())
            .spawn()
            .expect("pgbench is installed");
        wait::until("the clients are there", || {
            let pools = pooler.show("POOLS").having("user", "weir_plain");
            pools.column("cl_active") == [clients.to_string()]
        });
        Self(pgbench)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_finds_weirs_counters_and_changes_the_file_that_it_is_given() {
    let postgres = Postgres::start(Postgres::USUAL_MAJOR);
    let pooler = in_front_of(&postgres);
    let path = pooler.folder().join("weir.ini");
    let before = std::fs::read_to_string(&path).expect("there");
    let before = format!(
        "; whose it is\n{}",
        before.replace("[databases]", "# ours\n[databases]")
    );
    std::fs::write(&path, &before).expect("writable");
    let dsn = pooler.connection_string("weir_trust", "", Postgres::DATABASE);
    let file = path.display().to_string();
    let load = Load::on(&pooler, 6);
    let told = advise(&[&dsn, "--watch", "5s", "--apply-to", &file]);
    drop(load);
    let (said, also) = (text(&told.stdout), text(&told.stderr));
    assert!(told.status.success(), "{said}{also}");
    for words in [
        "through PgBouncer 1.26.0 (Weir ",
        "weir_test/weir_plain (transaction mode, pool_size 30): 6 clients",
        "weir_test: the pooler passed on",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(
        also.contains("default_pool_size = ") && also.contains("was 30"),
        "{also}"
    );

    let after = std::fs::read_to_string(&path).expect("there");
    let size: u32 = after
        .lines()
        .find_map(|line| line.strip_prefix("default_pool_size = "))
        .and_then(|size| size.parse().ok())
        .expect("a size");
    // Three at a time, or up to six.
    assert!((5..=8).contains(&size), "{after}");
    // What the user wrote is all there, but for the one value.
    for line in before.lines() {
        let replaced = line.starts_with("default_pool_size");
        assert!(
            replaced || after.lines().any(|kept| kept == line),
            "{line}: {after}"
        );
    }
    let kept = std::fs::read_to_string(path.with_extension("ini.bak")).expect("a backup");
    assert_eq!(kept, before);
    let check = Command::new(Weir::program())
        .args(["check", &file])
        .output()
        .expect("it runs");
    assert!(check.status.success(), "{check:?}\n{after}");
    // And the running pooler takes it.
    pooler.console().ask("RELOAD");
    let config = pooler.show("CONFIG").having("key", "default_pool_size");
    assert_eq!(config.only("value"), size.to_string());
}

#[test]
fn a_file_that_is_not_valid_stays_as_it_is() {
    let postgres = Postgres::usual();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.ini");
    let bad = "[pgbouncer]\npool_mode = sometimes\n";
    std::fs::write(&file, bad).expect("writable");
    let dsn = postgres.connection_string("postgres", "postgres");
    let told = advise(&[
        &dsn,
        "--watch",
        "1s",
        "--apply-to",
        &file.display().to_string(),
    ]);
    assert!(!told.status.success());
    let said = text(&told.stderr);
    assert!(
        said.contains("nothing was changed") && said.contains("sometimes"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("there"), bad);
    assert_eq!(folder.path().read_dir().expect("a folder").count(), 1);
}

#[test]
fn json_is_alone_on_the_standard_output() {
    let dsn = Postgres::usual().connection_string("postgres", "postgres");
    let told = advise(&[&dsn, "--watch", "1s", "--json"]);
    assert!(told.status.success(), "{told:?}");
    let said = text(&told.stdout);
    assert!(
        said.starts_with("{\n  \"observations\"") && said.ends_with("}\n"),
        "{said}"
    );
    assert!(text(&told.stderr).contains("Watching for 1 s"));
}

#[test]
fn what_is_wrong_is_said() {
    for (arguments, words) in [
        (&["nonsense"][..], "connection string"),
        (
            &["postgresql://a@127.0.0.1:1/a"],
            "cannot connect to 127.0.0.1:1",
        ),
        (
            &["postgresql://a@127.0.0.1/a", "--watch", "soon"],
            "30s, 10m or 1h",
        ),
    ] {
        let told = advise(arguments);
        let said = text(&told.stderr);
        assert!(!told.status.success() && said.contains(words), "{said}");
    }
}
