//! What no compiler checks: the direction of dependencies, the map of the code, and habits that tests must keep.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES_MAX: usize = 600;

/// Which workspace crates each one may use; examples, tests and build scripts apart. As in ARCHITECTURE.md.
const MAY_USE: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("auth", &["wire"]),
    ("settings", &["auth", "wire"]),
    ("sql", &[]),
    ("pooling", &["auth", "settings", "sql", "wire"]),
    ("lab", &["sql", "wire"]),
    (
        "weir",
        &["auth", "lab", "pooling", "settings", "sql", "wire"],
    ),
    ("testkit", &["lab", "wire"]),
    ("weir-bench", &["lab", "testkit", "wire"]),
    ("xtask", &[]),
];

/// Crates without I/O, clock and environment, and what would give them one.
const PURE: &[&str] = &["wire", "auth", "sql", "pooling"];
const IMPURE_CRATES: &[&str] = &["tokio", "mio", "socket2", "libc", "nix"];
const IMPURE_TEXTS: &[&str] = &[
    "std::net",
    "std::env",
    "std::fs",
    "std::thread",
    "Instant::now",
    "SystemTime::now",
    "rand::rng()",
    "thread_rng",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_owned()
}

/// The packages of the workspace, as cargo tells them.
fn packages() -> Vec<Value> {
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

/// Names of the normal dependencies of a package.
fn dependencies(package: &Value) -> Vec<&str> {
    let all = package["dependencies"].as_array().expect("a list").iter();
    all.filter(|dependency| dependency["kind"].is_null())
        .filter_map(|dependency| dependency["name"].as_str())
        .collect()
}

/// Every Rust file of the workspace with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["crates", "bench", "xtask", "fuzz/fuzz_targets", "tests"] {
        collect(&root().join(folder), &mut found);
    }
    found
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            (
                path.strip_prefix(root())
                    .expect("below the root")
                    .to_owned(),
                text,
            )
        })
        .collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name() != Some("target".as_ref()) {
            collect(&path, found);
        } else if path.extension() == Some("rs".as_ref()) {
            found.push(path);
        }
    }
}

/// The text up to the unit tests, which stand last.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]").next().unwrap_or(text)
}

/// Lines of code: comments are not held against anybody.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"))
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
}

fn assert_none(what: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{what}:\n{}", offences.join("\n"));
}

#[test]
fn dependencies_point_one_way() {
    let packages = packages();
    let names: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut offences = Vec::new();
    for package in &packages {
        let name = package["name"].as_str().expect("a name");
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            offences.push(format!("{name} is not listed here"));
            continue;
        };
        let used = dependencies(package)
            .into_iter()
            .filter(|used| names.contains(used));
        offences.extend(
            used.filter(|used| !allowed.contains(used))
                .map(|used| format!("{name} uses {used}")),
        );
    }
    assert_none(
        "dependencies against the direction in ARCHITECTURE.md",
        &offences,
    );
}

#[test]
fn decisions_have_no_io_no_clock_and_no_environment() {
    let mut offences = Vec::new();
    for package in packages()
        .iter()
        .filter(|package| PURE.iter().any(|pure| package["name"] == *pure))
    {
        let impure = dependencies(package)
            .into_iter()
            .filter(|used| IMPURE_CRATES.contains(used));
        offences.extend(impure.map(|used| format!("{} uses {used}", package["name"])));
    }
    for (path, text) in sources() {
        let pure = PURE
            .iter()
            .any(|name| path.starts_with(format!("crates/{name}/src")));
        if !pure {
            continue;
        }
        for line in code_lines(without_tests(&text)) {
            let texts = IMPURE_TEXTS.iter().filter(|impure| line.contains(**impure));
            offences.extend(texts.map(|impure| format!("{}: {impure}", path.display())));
        }
    }
    assert_none("time, randomness and input are arguments here", &offences);
}

#[test]
fn the_map_names_every_crate() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let folders = root().join("crates").read_dir().expect("crates").flatten();
    let unnamed = folders
        .filter(|entry| entry.path().is_dir())
        .map(|entry| format!("crates/{}", entry.file_name().to_string_lossy()))
        .filter(|folder| !map.contains(folder.as_str()));
    assert_none(
        "crates that ARCHITECTURE.md does not name",
        &unnamed.collect::<Vec<_>>(),
    );
}

#[test]
fn tests_are_neither_ignored_nor_asleep() {
    let this = Path::new("xtask/tests/tidy.rs");
    let mut offences = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| path != this) {
        for line in code_lines(text) {
            if line.starts_with("#[ignore") {
                offences.push(format!("{}: an ignored test", path.display()));
            }
        }
        let tests = if is_test(path) {
            text
        } else {
            text.strip_prefix(without_tests(text)).unwrap_or_default()
        };
        for line in code_lines(tests) {
            if line.contains("thread::sleep(") || line.contains("time::sleep(") {
                offences.push(format!(
                    "{}: a test that sleeps: wait for a condition (testkit::wait)",
                    path.display()
                ));
            }
        }
    }
    assert_none("tests", &offences);
}

#[test]
fn files_are_short_enough_to_be_one_thing() {
    let long = sources()
        .into_iter()
        .filter(|(path, _)| !is_test(path))
        .filter_map(|(path, text)| {
            let lines = without_tests(&text).lines().count();
            (lines > LINES_MAX).then(|| format!("{}: {lines} lines", path.display()))
        });
    assert_none(
        &format!("files over {LINES_MAX} lines without tests"),
        &long.collect::<Vec<_>>(),
    );
}
