//! Real servers: what starts also ends, and nothing stays behind.

use lab::postgres::{Installation, MemoryKind, Options, Server, Shutdown};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A version that is fetched even where another one is installed.
const FETCHED: u32 = 16;

fn fetched() -> Installation {
    Installation::fetch(FETCHED).expect("PostgreSQL can be fetched")
}

fn start(options: &Options) -> Server {
    fetched()
        .start(options)
        .expect("a fetched PostgreSQL starts")
}

fn refuses(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

#[test]
fn a_fetched_version_runs_with_the_given_settings_and_leaves_nothing() {
    let server = start(&Options::default().setting("max_connections", "37"));
    assert_eq!(server.version().major, FETCHED);
    assert_eq!(
        server.value("SHOW max_connections").expect("an answer"),
        "37"
    );
    assert_eq!(
        server
            .value("SELECT count(*) FROM pg_stat_activity WHERE client_port >= 0")
            .expect("an answer"),
        "0"
    );
    let (folder, port, pid) = (
        server.socket_dir().to_owned(),
        server.port(),
        server.pid().expect("it runs"),
    );
    drop(server);
    assert!(!folder.exists());
    assert!(refuses(port));
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn the_version_on_this_machine_runs() {
    let Ok(installation) = Installation::find() else {
        // A machine without PostgreSQL: then finding it must be an error that says where it was sought.
        let error = Installation::find()
            .expect_err("nothing was found a moment ago")
            .to_string();
        assert!(error.contains("PATH"), "{error}");
        return;
    };
    let server = installation
        .start(&Options::default())
        .expect("the installed PostgreSQL starts");
    let version = server.value("SHOW server_version").expect("an answer");
    assert!(
        version.starts_with(&installation.version().to_string()),
        "{version}"
    );
}

#[test]
fn a_server_survives_being_stopped_killed_and_frozen() {
    let mut server = start(&Options::default());
    server
        .execute("CREATE TABLE kept (n int)")
        .expect("a table");
    let port = server.port();
    server.restart().expect("a restart");
    server.stop(Shutdown::Fast);
    assert!(refuses(port));
    server.start_again().expect("a start");
    server.kill();
    assert!(refuses(port));
    assert!(server.pid().is_err());
    server.start_again().expect("a start after a crash");
    server.freeze().expect("it runs");
    server.thaw().expect("it runs");
    assert_eq!(
        server
            .value("SELECT count(*) FROM kept")
            .expect("an answer"),
        "0"
    );
    assert_eq!(server.port(), port);
}

#[test]
fn a_frozen_server_can_be_dropped() {
    let server = start(&Options::default());
    let folder = server.socket_dir().to_owned();
    server.freeze().expect("it runs");
    drop(server);
    assert!(!folder.exists());
}

#[test]
fn a_killed_server_leaves_no_shared_memory() {
    let mut server = start(&Options::default());
    let pid_file = std::fs::read_to_string(server.socket_dir().join("data/postmaster.pid"))
        .expect("a pid file");
    let segment = pid_file
        .lines()
        .nth(6)
        .and_then(|line| line.split_whitespace().nth(1))
        .expect("line 7")
        .to_owned();
    let exists = || {
        let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        table
            .lines()
            .any(|line| line.split_whitespace().nth(1) == Some(&segment))
    };
    assert!(exists() || cfg!(not(target_os = "linux")));
    server.kill();
    drop(server);
    assert!(!exists());
}

#[test]
fn a_reload_takes_effect_before_it_returns() {
    let server = start(&Options::default());
    server
        .execute("ALTER SYSTEM SET application_name = 'reloaded'")
        .expect("a setting");
    server
        .set_hba(["host all nobody_else 127.0.0.1/32 trust"])
        .expect("a written file");
    server.reload().expect("a reload");
    assert_eq!(
        server.value("SHOW application_name").expect("an answer"),
        "reloaded"
    );
    assert_eq!(
        server
            .value("SELECT count(*) FROM pg_hba_file_rules")
            .expect("an answer"),
        "2"
    );
}

#[test]
fn memory_counts_every_process() {
    let server = start(&Options::default());
    let memory = server.memory().expect("it runs");
    assert!(
        memory.processes >= 5 || cfg!(not(target_os = "linux")),
        "{memory:?}"
    );
    assert!(
        memory.bytes > 1 << 20 || memory.kind == MemoryKind::Resident,
        "{memory:?}"
    );
}

#[test]
fn a_setting_that_postgresql_rejects_is_told_with_its_log() {
    let error = fetched()
        .start(&Options::default().setting("work_mem", "plenty"))
        .expect_err("a bad setting");
    assert!(error.to_string().contains("work_mem"), "{error}");
}

#[test]
fn a_killed_owner_leaves_no_server_and_no_folder() {
    let mut owner = Command::new(example("server"))
        .arg(FETCHED.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example was built with the tests");
    let mut lines = BufReader::new(owner.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    let (connection_string, folder) = (line(), PathBuf::from(line()));
    let port = connection_string
        .split("port=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("a port");
    let port: u16 = port.parse().expect("a number");
    assert!(!refuses(port) && folder.exists());
    owner.kill().expect("SIGKILL");
    owner.wait().expect("it is gone");
    testkit::wait::until("the folder is removed", || !folder.exists());
    testkit::wait::until("nobody listens", || refuses(port));
}

/// Cargo builds the examples together with the tests, in the folder beside theirs.
fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a path");
    this.ancestors()
        .nth(2)
        .expect("target/<profile>/deps/<test>")
        .join("examples")
        .join(name)
}
