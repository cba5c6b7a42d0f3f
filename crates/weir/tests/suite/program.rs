//! The program as its user meets it: arguments, `check`, pidfile, background.

use crate::stage::log_in;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::path::Path;
use std::process::{Command, Output};
use testkit::{Ini, Postgres, Role, Weir, wait};

fn weir(arguments: &[&str]) -> Output {
    Command::new(Weir::program())
        .args(arguments)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The configuration in a folder of its own; everything in it may be read and written by whom the program becomes.
fn written(ini: &Ini, port: u16) -> (tempfile::TempDir, String) {
    let account = lab::account::Account::choose().expect("an account");
    let folder = tempfile::Builder::new()
        .prefix("weir-test-")
        .tempdir_in(account.temporary_folder())
        .expect("a folder");
    account.give(folder.path()).expect("chown");
    std::fs::write(folder.path().join("userlist.txt"), ini.userlist()).expect("writable");
    let path = folder.path().join("weir.ini");
    std::fs::write(&path, ini.text(port, folder.path())).expect("writable");
    (folder, path.display().to_string())
}

/// Root has to name somebody to become.
fn with_user(ini: Ini) -> Ini {
    match lab::account::Account::choose().expect("an account").name() {
        Some(name) => ini.set("user", name),
        None => ini,
    }
}

#[test]
fn version_and_help() {
    for flag in ["-V", "--version"] {
        let told = weir(&[flag]);
        assert!(told.status.success());
        assert_eq!(
            text(&told.stdout),
            format!("weir {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
    let told = weir(&["-h"]);
    assert!(told.status.success());
    let told = text(&told.stdout);
    for word in [
        "CONFIG.ini",
        "--daemon",
        "--user",
        "check",
        "demo",
        "advise",
    ] {
        assert!(told.contains(word), "{told}");
    }
    let told = weir(&[]);
    assert!(
        !told.status.success() && text(&told.stderr).contains("CONFIG.ini"),
        "{told:?}"
    );
}

#[test]
fn check_says_what_is_wrong_and_where() {
    let good = Ini::new().database("*", "host=127.0.0.1 port=5432");
    let (_folder, path) = written(&good, 6432);
    let told = weir(&["check", &path]);
    assert!(told.status.success(), "{told:?}");
    assert!(text(&told.stdout).ends_with("OK\n"), "{told:?}");
    let bad = good
        .set("pool_mode", "sometimes")
        .set("max_client_con", 7)
        .database("x", "port=banana");
    let (_folder, path) = written(&bad, 6432);
    let told = weir(&["check", &path]);
    assert!(!told.status.success());
    let told = text(&told.stderr);
    for word in [
        "weir.ini:",
        "pool_mode",
        "sometimes",
        "max_client_con",
        "max_client_conn",
        "banana",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!weir(&["check", "/no/such/file.ini"]).status.success());
    // The same words when it is started.
    let told = weir(&[&path]);
    assert!(
        !told.status.success() && text(&told.stderr).contains("sometimes"),
        "{told:?}"
    );
}

#[test]
fn root_is_refused() {
    if !Uid::effective().is_root() {
        return;
    }
    let (_folder, path) = written(&Ini::new().database("*", "host=127.0.0.1"), 6432);
    let told = weir(&[&path]);
    assert!(!told.status.success());
    assert!(text(&told.stderr).contains("root"), "{told:?}");
}

#[test]
fn in_the_background_with_a_pidfile() {
    let postgres = Postgres::usual();
    let port = free_port();
    let (folder, _) = written(&Ini::new(), port);
    let file = |name: &str| folder.path().join(name);
    let ini = with_user(Ini::in_front_of(postgres))
        .set("pidfile", file("weir.pid").display())
        .set("logfile", file("weir.log").display());
    std::fs::write(file("weir.ini"), ini.text(port, folder.path())).expect("writable");
    let path = file("weir.ini").display().to_string();
    let told = weir(&["-d", &path]);
    assert!(told.status.success(), "{told:?}");
    // The starter ends when the other one accepts connections.
    let connection = format!(
        "host=127.0.0.1 port={port} user={} dbname={}",
        Role::Trust.name(),
        Postgres::DATABASE
    );
    assert_eq!(log_in(&connection).as_deref(), Ok(Role::Trust.name()));
    let pid: i32 = read(&file("weir.pid")).trim().parse().expect("a number");
    let second = weir(&["-d", &path]);
    assert!(!second.status.success());
    assert!(text(&second.stderr).contains("pid"), "{second:?}");
    kill(Pid::from_raw(pid), Signal::SIGQUIT).expect("it runs");
    wait::until("the pidfile is removed", || !file("weir.pid").exists());
    assert!(!read(&file("weir.log")).contains("panicked"));
}

#[test]
fn the_background_needs_a_pidfile_and_a_log() {
    let (_folder, path) = written(
        &with_user(Ini::new().database("*", "host=127.0.0.1")),
        free_port(),
    );
    let told = weir(&["-d", &path]);
    assert!(!told.status.success());
    assert!(text(&told.stderr).contains("pidfile"), "{told:?}");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("bound").port()
}
