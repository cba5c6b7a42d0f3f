//! The project's own commands: `cargo xtask test` is everything that CI runs.

mod drivers;
mod report;
mod steps;
mod tools;

use anyhow::{Context, bail};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test [STEP...]   everything that CI runs, or only the named steps
cargo xtask steps            the names of the steps
cargo xtask differential [N] N random conversations through a pool, compared with direct ones (20000)
cargo xtask fmt              format all code";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let here = Workspace::find()?;
    match arguments[..] {
        ["test", ref chosen @ ..] => Ok(report::run(&here, &choose(&here, chosen)?)),
        ["steps"] => {
            steps::all(&here)
                .iter()
                .for_each(|step| println!("{}", step.name));
            Ok(ExitCode::SUCCESS)
        }
        ["differential"] => Ok(report::run(&here, &[steps::differential("20000")])),
        ["differential", conversations] => {
            Ok(report::run(&here, &[steps::differential(conversations)]))
        }
        ["fmt"] => Ok(report::run(&here, &[steps::format()])),
        _ => bail!("{USAGE}"),
    }
}

/// The steps with these names; all of them when none is named.
fn choose(here: &Workspace, names: &[&str]) -> anyhow::Result<Vec<steps::Step>> {
    let all = steps::all(here);
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|step| step.name != **name))
    {
        bail!("there is no step {unknown}: `cargo xtask steps` names them");
    }
    let chosen = |step: &steps::Step| names.is_empty() || names.contains(&step.name.as_str());
    Ok(all.into_iter().filter(chosen).collect())
}

/// Where the sources and the built programs are.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub root: PathBuf,
    /// `target/debug`, wherever the target folder is: this program is there itself.
    pub built: PathBuf,
}

impl Workspace {
    fn find() -> anyhow::Result<Self> {
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let root = manifest
            .parent()
            .context("xtask is in the workspace")?
            .to_owned();
        let this = std::env::current_exe()?;
        let built = this
            .parent()
            .context("a program is in a folder")?
            .to_owned();
        Ok(Self { root, built })
    }
}
