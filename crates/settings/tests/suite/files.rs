//! Files on the disk: includes, loops, what cannot be read, and reloading.

use std::fs;
use std::path::{Path, PathBuf};

use settings::Config;
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn load(folder: &TempDir) -> Config {
    Config::load(&folder.path().join("main.ini"))
        .unwrap_or_else(|errors| panic!("{errors}"))
        .config
}

/// The errors, without the folder's name.
fn errors(folder: &TempDir) -> String {
    let errors = Config::load(&folder.path().join("main.ini"))
        .unwrap_err()
        .to_string();
    errors.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn an_include_stands_in_place_and_its_section_stays_open() {
    let folder = folder(&[
        (
            "main.ini",
            "[pgbouncer]\n%include  sub/more.ini  \nb = host=y\n[pgbouncer]\nverbose = 1\n",
        ),
        ("sub/more.ini", "listen_port = 7000\n%include deep.ini\n"),
        ("sub/deep.ini", "[databases]\na = host=x\n"),
    ]);
    let config = load(&folder);
    assert_eq!(
        (config.general.listen_port, config.general.verbose),
        (7000, 1)
    );
    assert_eq!(config.databases.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        config.general.conffile,
        Some(folder.path().join("main.ini"))
    );
}

#[test]
fn errors_name_the_included_file() {
    let folder = folder(&[
        ("main.ini", "[pgbouncer]\nverbose = 1\n%include more.ini\n"),
        ("more.ini", "verbose = 2\nfoo = 1\n"),
    ]);
    let text = errors(&folder);
    assert_eq!(
        text,
        "more.ini:1: verbose is set twice; the first time at main.ini:2\nmore.ini:2: unknown setting \"foo\""
    );
}

#[test]
fn a_loop_of_includes_ends() {
    let folder = folder(&[
        ("main.ini", "[pgbouncer]\n%include more.ini\n"),
        ("more.ini", "%include ./main.ini\n"),
    ]);
    let text = errors(&folder);
    assert!(
        text.starts_with("more.ini:1: ") && text.ends_with("main.ini\" includes itself"),
        "{text}"
    );
}

#[test]
fn includes_end_at_the_tenth_level() {
    let chain = |levels: usize| {
        let name = |level| {
            if level == 0 {
                "main.ini".to_owned()
            } else {
                format!("{level}.ini")
            }
        };
        let text = |level| match level {
            level if level == levels => "verbose = 1\n".to_owned(),
            0 => "[pgbouncer]\n%include 1.ini\n".to_owned(),
            level => format!("%include {}.ini\n", level + 1),
        };
        let files: Vec<_> = (0..=levels)
            .map(|level| (name(level), text(level)))
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        folder(&files)
    };
    assert_eq!(load(&chain(10)).general.verbose, 1);
    assert_eq!(
        errors(&chain(11)),
        "10.ini:1: \"11.ini\" is included too deeply: at most 10 levels"
    );
}

/// Two includes in each of ten files are a thousand reads, in twenty files more than anybody can wait for.
#[test]
fn includes_that_multiply_end() {
    let names: Vec<String> = (0..10).map(|level| format!("{level}.ini")).collect();
    let texts: Vec<String> = (1..11)
        .map(|next| format!("%include {next}.ini\n").repeat(4))
        .collect();
    let mut files = vec![("main.ini", "[pgbouncer]\n%include 0.ini\n"), ("9.ini", "")];
    files.extend(
        names
            .iter()
            .zip(&texts)
            .take(9)
            .map(|(name, text)| (name.as_str(), text.as_str())),
    );
    assert!(errors(&folder(&files)).contains("too deeply"));
}

#[test]
fn what_cannot_be_read_says_why() {
    let text = errors(&folder(&[]));
    assert!(
        text.starts_with("main.ini: cannot read \"main.ini\": No such file"),
        "{text}"
    );

    let folder_ = folder(&[("main.ini", "[pgbouncer]\n%include gone.ini\nfoo = 1\n")]);
    let text = errors(&folder_);
    assert!(
        text.starts_with("main.ini:2: cannot read \"gone.ini\": No such file"),
        "{text}"
    );
    assert!(text.contains("main.ini:3: unknown setting"), "{text}");

    let folder_ = folder(&[]);
    fs::write(
        folder_.path().join("main.ini"),
        b"[pgbouncer]\nuser = \xff\n",
    )
    .unwrap();
    assert_eq!(
        errors(&folder_),
        "main.ini: cannot read \"main.ini\": line 2 is not UTF-8 text"
    );

    let text = Config::load(Path::new("/dev/zero"))
        .unwrap_err()
        .to_string();
    assert!(text.ends_with("larger than 16 MB"), "{text}");
}

#[test]
fn a_reload_keeps_what_only_changes_at_start() {
    let folder = folder(&[
        (
            "main.ini",
            "[pgbouncer]\nlisten_port = 7000\nunix_socket_dir = /run/a\n[databases]\nd =\n",
        ),
        (
            "next.ini",
            "[pgbouncer]\nlisten_port = 8000\nunix_socket_dir =\npkt_buf = 1\nverbose = 3\n[databases]\ne =\n",
        ),
    ]);
    let running = load(&folder);
    let next = folder.path().join("next.ini");
    let reloaded = running.reload(&next).unwrap();
    assert_eq!(reloaded.needs_restart, ["listen_port", "unix_socket_dir"]);
    assert_eq!(reloaded.config.general.listen_port, 7000);
    assert_eq!(reloaded.config.general.verbose, 3);
    assert_eq!(reloaded.config.database("e").unwrap().host_text(), "/run/a");
    assert_eq!(reloaded.config.general.conffile, Some(next));
    assert_eq!(
        running.changed_boot_only(&reloaded.config),
        Vec::<&str>::new()
    );
    let same = running.reload(&folder.path().join("main.ini")).unwrap();
    assert_eq!(
        (same.config == running, same.needs_restart.is_empty()),
        (true, true)
    );
}

#[test]
fn a_reload_of_a_wrong_file_fails_whole() {
    let folder = folder(&[
        ("main.ini", "[pgbouncer]\n"),
        ("next.ini", "[pgbouncer]\nverbose = x\n"),
    ]);
    assert!(
        load(&folder)
            .reload(&folder.path().join("next.ini"))
            .is_err()
    );
}

#[test]
fn boot_only_changes_are_named() {
    let config = |text: &str| Config::parse(text, &PathBuf::from("x.ini")).unwrap().config;
    let old = config("[pgbouncer]\n");
    let new =
        config("[pgbouncer]\nlisten_port = 1\nworker_threads = 2\nverbose = 1\njob_name = x\n");
    assert_eq!(
        old.changed_boot_only(&new),
        ["listen_port", "worker_threads"]
    );
}
