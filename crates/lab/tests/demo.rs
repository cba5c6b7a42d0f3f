//! The whole demonstration, with PgBouncer in Weir's place: it takes the same file. `cargo xtask test` runs it with Weir.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use testkit::PgBouncer;

/// The demonstration in a temporary folder of its own; `None` where PgBouncer is not installed.
fn start(seconds: &[&str]) -> Option<(Child, TempDir)> {
    let pooler = PgBouncer::program()?;
    let this = std::env::current_exe().expect("a path");
    let built = this
        .ancestors()
        .nth(2)
        .expect("target/<profile>/deps/<test>");
    let folder = tempfile::tempdir().expect("a folder");
    // Root's PostgreSQL runs as somebody else, who has to get in.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("own folder");
    let demo = Command::new(built.join("examples/demo"))
        .arg(pooler)
        .args(seconds)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example was built with the tests");
    Some((demo, folder))
}

fn is_empty(folder: &TempDir) -> bool {
    folder
        .path()
        .read_dir()
        .expect("it is still there")
        .next()
        .is_none()
}

#[test]
fn it_shows_both_trials_and_leaves_nothing() {
    let Some((demo, folder)) = start(&["2"]) else {
        return;
    };
    let ended = demo.wait_with_output().expect("it ends");
    let said = String::from_utf8(ended.stdout).expect("text");
    assert!(ended.status.success(), "{said}");
    let cells = |label: &str| -> Vec<String> {
        let line = said
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(label))
            .expect(label);
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        cells("clients connected"),
        ["1,000 of 1,000", "1,000 of 1,000"],
        "{said}"
    );
    // A pool opens as many as its clients need at the same time, which on a quiet machine may be fewer than it may have.
    let servers: Vec<u32> = cells("server connections")
        .iter()
        .map(|cell| cell.replace(',', "").parse().expect("a number"))
        .collect();
    assert!(
        (1..=20).contains(&servers[0]) && servers[1] == 1_000,
        "{said}"
    );
    assert_ne!(cells("transactions per second")[0], "0", "{said}");
    assert!(!said.contains("transactions failed"), "{said}");
    assert!(is_empty(&folder));
}

#[test]
fn an_interrupted_one_leaves_nothing() {
    let Some((mut demo, folder)) = start(&[]) else {
        return;
    };
    let lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    assert!(lines.any(|line| line.contains("clients connected in")));
    assert!(!is_empty(&folder));
    kill(Pid::from_raw(demo.id() as i32), Signal::SIGINT).expect("it runs");
    assert!(lines.any(|line| line.contains("their folder is removed")));
    assert!(demo.wait().expect("it ends").success());
    assert!(is_empty(&folder));
}
