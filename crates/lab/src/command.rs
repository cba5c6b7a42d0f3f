//! `weir lab`: from its options to a folder of results.

use crate::experiment::{Depth, Experiment};
use crate::experiments;
use crate::interrupt::Interrupt;
use crate::report::{self, FileError};
use crate::results::{Described, Ended, Results, Study};
use crate::runner::Programme;
use crate::site::{Error, Site, SiteOptions, Target};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Server connections of a run in which every experiment is as large as it wants to be.
const CONNECTIONS: (u64, u64, u64) = (400, 1_200, 16_500);
/// Settings that a reader wants to know.
const SETTINGS: [&str; 7] = [
    "server_version",
    "max_connections",
    "shared_buffers",
    "huge_pages",
    "fsync",
    "synchronous_commit",
    "jit",
];

/// What to run, and where the results go.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Names of experiments; empty: all.
    pub experiments: Vec<String>,
    /// Empty: the lab brings its own.
    pub targets: Vec<Target>,
    pub depth: Depth,
    /// `None`: a new folder beside the current ones.
    pub out: Option<PathBuf>,
    pub weir_program: PathBuf,
}

/// Why a run could not begin or its results not be kept.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("there is no experiment {unknown}: they are {known}")]
    UnknownExperiment { unknown: String, known: String },
    #[error("two targets have the same name: {0}")]
    SameName(String),
    #[error(transparent)]
    Site(#[from] Error),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Runs the experiments, tells how it goes, and writes the results. Ctrl-C is no error: what is measured is written.
///
/// # Errors
/// [`LabError`].
pub fn run(options: &LabOptions) -> Result<Results, LabError> {
    let interrupt = Interrupt::on_signals().map_err(Error::io("cannot wait for Ctrl-C"))?;
    run_until(options, interrupt)
}

/// As [`run`], with somebody else's interruption.
///
/// # Errors
/// [`LabError`].
pub fn run_until(options: &LabOptions, interrupt: Interrupt) -> Result<Results, LabError> {
    let chosen = choose(&options.experiments)?;
    tell_apart(&options.targets)?;
    let (clock, began) = (Instant::now(), jiff::Timestamp::now());
    let folder = options
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(began.strftime("weir-lab-%Y%m%d-%H%M%S").to_string()));
    let (smallest, quick, full) = CONNECTIONS;
    let site_options = SiteOptions {
        depth: options.depth,
        given: options.targets.clone(),
        weir_program: options.weir_program.clone(),
        connections: options.depth.choose(smallest, quick, full),
    };
    let mut site = Site::open(&site_options, interrupt)?;
    let programme = Programme::plan(&chosen, &site, options.depth);
    announce(&site, &programme);
    let mut unwritten = None;
    let studies = programme.run(&mut site, |study| {
        if let Err(error) = report::write_study(study, &folder) {
            unwritten.get_or_insert(error);
        }
    });
    let mut results = Results {
        weir_version: env!("CARGO_PKG_VERSION").into(),
        began: began.strftime("%Y-%m-%d %H:%M").to_string(),
        took_s: clock.elapsed().as_secs_f64(),
        depth: options.depth,
        ended: match site.interrupt().is_requested() {
            true => Ended::Interrupted,
            false => Ended::Complete,
        },
        machine: site.machine.clone(),
        targets: site.targets.iter().map(described).collect(),
        load: site.load.name(),
        settings: settings(&site),
        experiments: studies,
    };
    site.leave();
    if let Some(earlier) = earlier(&folder) {
        results.join(earlier);
        results.experiments.sort_by_key(place);
    }
    report::write(&results, &folder)?;
    println!("\nThe report is {}", folder.join("report.html").display());
    unwritten.map_or(Ok(results), |error| Err(error.into()))
}

/// What an earlier run left in the folder.
fn earlier(folder: &Path) -> Option<Results> {
    let text = std::fs::read(folder.join("results.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

/// In the order in which experiments run.
fn place(study: &Study) -> Option<usize> {
    experiments::ALL
        .iter()
        .position(|experiment| experiment.name() == study.name)
}

fn choose(names: &[String]) -> Result<Vec<&'static dyn Experiment>, LabError> {
    if names.is_empty() {
        return Ok(experiments::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = experiments::ALL
            .iter()
            .find(|experiment| experiment.name() == name);
        found.copied().ok_or_else(|| LabError::UnknownExperiment {
            unknown: name.clone(),
            known: experiments::ALL.map(Experiment::name).join(", "),
        })
    };
    names.iter().map(find).collect()
}

fn tell_apart(targets: &[Target]) -> Result<(), LabError> {
    let again = |(place, target): (usize, &Target)| {
        targets[..place]
            .iter()
            .any(|earlier| earlier.name == target.name)
            .then(|| target.name.clone())
    };
    match targets.iter().enumerate().find_map(again) {
        Some(name) => Err(LabError::SameName(name)),
        None => Ok(()),
    }
}

fn announce(site: &Site, programme: &Programme<'_>) {
    for target in &site.targets {
        println!("{}: {}", target.name, target.description());
    }
    println!("Load: {}", site.load.name());
    println!(
        "It will take about {}; Ctrl-C ends it early and keeps what is measured.\n",
        report::duration(programme.cost())
    );
}

fn described(target: &Target) -> Described {
    Described {
        name: target.name.clone(),
        description: target.description(),
    }
}

/// Those of the first target's server; none when it does not answer any more.
fn settings(site: &Site) -> Vec<(String, String)> {
    let Some(watch) = site
        .targets
        .first()
        .and_then(|first| site.watch(&first.name).ok())
    else {
        return Vec::new();
    };
    let value = |name: &str| {
        let sql = format!("SELECT current_setting('{name}', true)");
        let value = site.run_to_the_end(watch.text(&sql)).ok()?;
        Some((name.to_owned(), value))
    };
    SETTINGS.into_iter().filter_map(value).collect()
}
