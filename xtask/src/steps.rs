//! What CI runs, step by step.

use crate::{Workspace, drivers, tools};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Every major version that PostgreSQL's project supports.
const POSTGRES_MAJORS: [&str; 5] = ["14", "15", "16", "17", "18"];

/// Where the step `lab` leaves its results for the step `report`.
const SMALLEST_RUN: &str = "target/lab";

type Action = Box<dyn Fn(&Workspace) -> anyhow::Result<Count>>;

/// One thing to do, by name.
pub struct Step {
    pub name: String,
    /// Names of earlier steps without which this one makes no sense.
    pub needs: &'static [&'static str],
    pub run: Action,
}

/// Tests, or steps that are no tests: those count as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: usize,
    pub failed: usize,
}

impl Count {
    pub const ONE: Count = Count {
        passed: 1,
        failed: 0,
    };

    pub fn plus(self, other: Count) -> Count {
        Count {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
        }
    }
}

impl Step {
    pub fn new(
        name: impl Into<String>,
        needs: &'static [&'static str],
        run: impl Fn(&Workspace) -> anyhow::Result<Count> + 'static,
    ) -> Self {
        Step {
            name: name.into(),
            needs,
            run: Box::new(run),
        }
    }
}

/// Cheap steps first; the drivers one by one.
pub fn all(here: &Workspace) -> Vec<Step> {
    let mut steps = vec![
        Step::new("format", &[], |here| {
            cargo(here, &["fmt", "--all", "--check"])
        }),
        Step::new("tools", &[], |_| tools::provide(tools::ALL)),
        Step::new("build", &[], |here| {
            cargo(here, &["build", "--workspace", "--all-targets"])
        }),
        Step::new("lints", &[], |here| {
            cargo(
                here,
                &[
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--quiet",
                    "--",
                    "-D",
                    "warnings",
                ],
            )
        }),
        Step::new("pooler alone", &["build"], |here| {
            cargo(
                here,
                &["check", "--package", "weir", "--no-default-features"],
            )
        }),
        Step::new("fetch PostgreSQL", &["build"], |here| {
            run(command(here, here.built.join("examples/fetch")).args(POSTGRES_MAJORS))
        }),
        Step::new("tests", &["build", "fetch PostgreSQL"], |here| {
            count_tests(command(here, "cargo").args(["test", "--workspace", "--no-fail-fast"]))
        }),
        Step::new("demo", &["build"], |here| {
            run(command(here, here.built.join("weir")).args(["demo", "--seconds", "4"]))
        }),
        Step::new("lab", &["build"], |here| {
            let arguments = ["lab", "--smallest", "--out", SMALLEST_RUN];
            run(command(here, here.built.join("weir")).args(arguments))
        }),
        Step::new("report", &["lab"], open_report),
    ];
    steps.extend(drivers::steps(here));
    steps
}

/// In a browser: that of the run just made, and the one in the documents.
fn open_report(here: &Workspace) -> anyhow::Result<Count> {
    let folder = here.root.join("tests/browser");
    tools::provide_tools(&drivers::needs(&folder)?)?;
    let reports = [SMALLEST_RUN, "docs/lab"].map(|run| here.root.join(run).join("report.html"));
    run(command(here, folder.join("run")).args(reports))
}

/// For the night: CI runs the same test with fewer conversations.
pub fn differential(conversations: &str) -> Step {
    let conversations = conversations.to_owned();
    Step::new("differential", &[], move |here| {
        let test = [
            "test",
            "--package",
            "weir",
            "--test",
            "differential",
            "--",
            "--nocapture",
            "a_client_cannot_tell",
        ];
        count_tests(
            command(here, "cargo")
                .args(test)
                .env("WEIR_CONVERSATIONS", &conversations),
        )
    })
}

/// Not one of CI's: it changes files.
pub fn format() -> Step {
    Step::new("format", &[], |here| cargo(here, &["fmt", "--all"]))
}

/// A command that runs in the root of the workspace.
pub fn command(here: &Workspace, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(&here.root);
    command
}

/// Runs a command that is one step by itself.
pub fn run(command: &mut Command) -> anyhow::Result<Count> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(Count::ONE)
}

fn cargo(here: &Workspace, arguments: &[&str]) -> anyhow::Result<Count> {
    run(command(here, "cargo").args(arguments))
}

/// Runs `cargo test`, shows what it says and adds up its "test result" lines.
fn count_tests(command: &mut Command) -> anyhow::Result<Count> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("a pipe was asked for")?;
    let mut total = Count::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        total = total.plus(read_result(&line).unwrap_or_default());
    }
    let status = child.wait()?;
    if !status.success() && total.failed == 0 {
        // A test binary that was killed or did not compile prints no result.
        bail!(
            "cargo test ended with {status} after {} tests had passed",
            total.passed
        );
    }
    Ok(total)
}

/// "test result: ok. 3 passed; 0 failed; ..."
fn read_result(line: &str) -> Option<Count> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |what: &str| {
        let part = counts.split("; ").find(|part| part.ends_with(what))?;
        part.split(' ').next()?.parse().ok()
    };
    Some(Count {
        passed: number(" passed")?,
        failed: number(" failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_cargo_test_are_added_up() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s";
        assert_eq!(
            read_result(line),
            Some(Count {
                passed: 12,
                failed: 3
            })
        );
        assert_eq!(read_result("running 3 tests"), None);
    }
}
