//! `weir-bench`: measures Weir against PgBouncer, HAProxy and a direct connection, and writes docs/performance.md.
//!
//! Read on in this order: `measures` (what is done), `lab` (how a cost is taken), `party` (who is compared),
//! `targets` (what was promised), `report` (what is written).

mod account;
mod configuration;
mod figures;
mod guest;
mod lab;
mod login;
mod machine;
mod measures;
mod party;
mod pgbench;
mod postgres;
mod probe;
mod report;
mod scram;
mod session;
mod swarm;
mod targets;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::figures::{Figures, Run, Samples};
use crate::lab::{Lab, Scale};
use crate::measures::Measure;
use crate::party::WEIR_IO_URING;

/// Measures Weir, PgBouncer and HAProxy side by side and writes docs/performance.md.
///
/// WEIR, PGBOUNCER, HAPROXY and PG_BIN name programs that are not in their usual places.
#[derive(Parser)]
struct Arguments {
    /// Measures to run; all of them when none is named. Others keep their figures.
    measures: Vec<String>,
    /// A smoke run of a minute or two: everything small, one round.
    #[arg(long)]
    quick: bool,
    /// Only write the page again, from the figures that are there.
    #[arg(long, conflicts_with_all = ["measures", "quick"])]
    report: bool,
    /// Folder of performance.md and performance.jsonl. A smoke run needs one of its own.
    #[arg(long, default_value = "docs", required_if_eq("quick", "true"))]
    out: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.out)?;
    let path = arguments.out.join("performance.jsonl");
    let mut figures = Figures::read(&path)?;
    let failed = if arguments.report {
        Vec::new()
    } else {
        measure(&arguments, &mut figures, &path)?
    };
    write_page(&figures, &arguments.out)?;
    if !failed.is_empty() {
        bail!("without all their figures: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs the chosen measures and returns the names of those that are incomplete.
fn measure(arguments: &Arguments, figures: &mut Figures, path: &Path) -> Result<Vec<&'static str>> {
    let chosen = choose(&arguments.measures)?;
    lab::raise_file_limit();
    let guests = std::env::var_os("BENCH_KERNEL").is_some();
    let (elsewhere, here): (Vec<&Measure>, Vec<&Measure>) = chosen
        .into_iter()
        .partition(|measure| guests && measure.wants_guest());
    let mut failed = if here.is_empty() {
        Vec::new()
    } else {
        measure_here(arguments, &here, figures, path)?
    };
    for measure in elsewhere {
        eprintln!("{}: {}, in a guest", measure.name, measure.title);
        let mut words: Vec<String> = vec![measure.name.to_owned()];
        words.extend(arguments.quick.then(|| "--quick".to_owned()));
        if let Err(error) = guest::run(&words, figures) {
            eprintln!("  {error:#}");
            failed.push(measure.name);
        }
        figures.write(path)?;
    }
    Ok(failed)
}

fn measure_here(
    arguments: &Arguments,
    chosen: &[&'static Measure],
    figures: &mut Figures,
    path: &Path,
) -> Result<Vec<&'static str>> {
    let lab = Lab::set_up(if arguments.quick {
        Scale::Quick
    } else {
        Scale::Full
    })?;
    if !lab.programs.has(WEIR_IO_URING) {
        eprintln!(
            "No weir: build it with `cargo build --release`, or name it by WEIR. Only the others are measured."
        );
    }
    eprintln!(
        "{} open files allowed; {}",
        lab::open_files(),
        machine::versions(&lab).join("; ")
    );
    let mut failed = Vec::new();
    for measure in chosen {
        if measure.name == "instructions" && measure.wants_guest() {
            eprintln!(
                "{}: left out; needs an emulated machine, for which BENCH_KERNEL names a kernel",
                measure.name
            );
            continue;
        }
        eprintln!("{}: {}", measure.name, measure.title);
        let mut samples = Samples::default();
        let (before, at) = (machine::load(), machine::now());
        (measure.run)(&lab, &mut samples).with_context(|| format!("measure {}", measure.name))?;
        if samples.any_failed() {
            failed.push(measure.name);
        }
        let conditions = Run {
            rounds: samples.rounds(),
            ..run(&lab, measure, arguments, at, before)
        };
        figures.replace(conditions, samples);
        // Each measure is kept as soon as it is there: a later one that is interrupted costs nothing.
        figures.write(path)?;
        write_page(figures, &arguments.out)?;
    }
    Ok(failed)
}

fn choose(names: &[String]) -> Result<Vec<&'static Measure>> {
    if names.is_empty() {
        return Ok(measures::ALL.iter().collect());
    }
    let find = |name: &String| {
        let known = || measures::ALL.map(|measure| measure.name).join(", ");
        measures::ALL
            .iter()
            .find(|measure| measure.name == name)
            .with_context(|| format!("no measure {name}; there are {}", known()))
    };
    names.iter().map(find).collect()
}

fn run(lab: &Lab, measure: &Measure, arguments: &Arguments, at: String, load_before: f64) -> Run {
    let mut command = vec!["cargo run --release -p weir-bench --".to_owned()];
    command.extend(arguments.quick.then(|| "--quick".to_owned()));
    command.extend(arguments.measures.iter().cloned());
    Run {
        measure: measure.name.to_owned(),
        at,
        command: command.join(" ").trim_end_matches(" --").to_owned(),
        machine: machine::describe(),
        versions: machine::versions(lab),
        rounds: lab.scale.rounds(),
        quick: lab.scale == Scale::Quick,
        load: (load_before, machine::load()),
    }
}

fn write_page(figures: &Figures, folder: &Path) -> Result<()> {
    let notes = std::fs::read_to_string("bench/notes.md").unwrap_or_default();
    let path = folder.join("performance.md");
    std::fs::write(&path, report::write(figures, &notes))
        .with_context(|| format!("writing {}", path.display()))
}
