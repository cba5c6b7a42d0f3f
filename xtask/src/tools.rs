//! Programs that tests use and that cargo cannot bring. Root on Debian gets them; everybody else is told how.

use crate::steps::Count;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program and the Debian package that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub program: String,
    pub package: String,
}

impl Tool {
    fn is_there(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Debian puts servers where only root's PATH leads.
        let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        folders
            .map(|folder| folder.join(&self.program))
            .any(|program| program.is_file())
    }
}

/// Name and Debian package of what all tests need.
pub const ALL: &[(&str, &str)] = &[
    ("psql", "postgresql-client"),
    ("pgbench", "postgresql-contrib"),
    ("pgbouncer", "pgbouncer"),
];

/// Makes sure that the tools are there.
///
/// # Errors
/// Names each missing program, its package and the command that installs them.
pub fn provide(tools: &[(&str, &str)]) -> anyhow::Result<Count> {
    let tools = tools.iter().map(|(program, package)| Tool {
        program: (*program).into(),
        package: (*package).into(),
    });
    provide_tools(&tools.collect::<Vec<_>>())
}

/// As [`provide`], for a list that was read from a file.
pub fn provide_tools(tools: &[Tool]) -> anyhow::Result<Count> {
    let missing = missing(tools);
    if missing.is_empty() {
        return Ok(Count::ONE);
    }
    if is_root() && Path::new("/usr/bin/apt-get").is_file() {
        install(&missing)?;
    }
    match self::missing(tools)[..] {
        [] => Ok(Count::ONE),
        ref missing => bail!("{}", advice(missing)),
    }
}

fn missing(tools: &[Tool]) -> Vec<&Tool> {
    tools.iter().filter(|tool| !tool.is_there()).collect()
}

fn install(missing: &[&Tool]) -> anyhow::Result<()> {
    println!("installing {}", packages(missing));
    // No index on a fresh machine is no error of ours: installing then tells.
    apt(&["update", "--quiet"])?;
    let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
    arguments.extend(missing.iter().map(|tool| tool.package.as_str()));
    apt(&arguments)
}

fn apt(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("cannot run apt-get")?;
    println!("apt-get {}: {status}", arguments[0]);
    Ok(())
}

fn advice(missing: &[&Tool]) -> String {
    let programs: Vec<_> = missing.iter().map(|tool| tool.program.as_str()).collect();
    format!(
        "missing: {}. On Debian and Ubuntu: apt-get install {}; elsewhere install PostgreSQL's client programs, pgbench and PgBouncer and have them in PATH",
        programs.join(", "),
        packages(missing)
    )
}

fn packages(missing: &[&Tool]) -> String {
    let packages: Vec<_> = missing.iter().map(|tool| tool.package.as_str()).collect();
    packages.join(" ")
}

fn is_root() -> bool {
    let said = Command::new("id").arg("-u").output();
    said.is_ok_and(|said| said.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_way_to_get_it() {
        let tool = |program: &str, package: &str| Tool {
            program: program.into(),
            package: package.into(),
        };
        let tools = [
            tool("sh", "dash"),
            tool("no-such-program", "no-such-package"),
        ];
        let missing = missing(&tools);
        assert_eq!(missing, [&tools[1]]);
        let text = advice(&missing);
        assert!(
            text.contains("missing: no-such-program.")
                && text.contains("apt-get install no-such-package;")
        );
    }
}
