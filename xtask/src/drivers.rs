//! Tests with real drivers: each folder of `tests/drivers` with an executable `run` is a step.
//!
//! `run` finds Weir, with PostgreSQL behind it, in libpq's variables PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE; and the same PostgreSQL
//! without Weir at port WEIR_DIRECT_PORT. It fails by its exit status. A file `needs` beside it names programs that must be there, a line
//! for each: the program and the Debian package that has it.

use crate::Workspace;
use crate::steps::{Count, Step, command, run};
use crate::tools::{self, Tool};
use anyhow::Context;
use std::path::{Path, PathBuf};

pub fn steps(here: &Workspace) -> Vec<Step> {
    let folders = here.root.join("tests/drivers");
    let mut drivers: Vec<PathBuf> = folders
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|folder| folder.join("run").is_file())
        .collect();
    drivers.sort();
    drivers.into_iter().map(step).collect()
}

fn step(folder: PathBuf) -> Step {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    Step::new(
        format!("driver {name}"),
        &["build", "fetch PostgreSQL"],
        move |here| test(here, &folder),
    )
}

fn test(here: &Workspace, folder: &Path) -> anyhow::Result<Count> {
    tools::provide_tools(&needs(folder)?)?;
    // The example starts both servers, sets the variables and runs the rest of its command line.
    let mut command = command(here, here.built.join("examples/behind_weir"));
    command.arg(folder.join("run")).current_dir(folder);
    run(&mut command)
}

/// What the file `needs` of a folder asks for.
pub fn needs(folder: &Path) -> anyhow::Result<Vec<Tool>> {
    let file = folder.join("needs");
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&file)?;
    text.lines()
        .map(|line| read_need(line).with_context(|| format!("{}: {line}", file.display())))
        .collect()
}

fn read_need(line: &str) -> Option<Tool> {
    let (program, package) = line.split_once(' ')?;
    Some(Tool {
        program: program.into(),
        package: package.trim().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_a_program_and_its_package() {
        let need = read_need("node nodejs").expect("a need");
        assert_eq!(
            (need.program.as_str(), need.package.as_str()),
            ("node", "nodejs")
        );
        assert_eq!(read_need("node"), None);
    }
}
