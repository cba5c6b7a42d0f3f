//! Runs steps one after another, tells how each went, and counts.

use crate::Workspace;
use crate::steps::{Count, Step};
use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Row {
    name: String,
    outcome: Outcome,
    took: Duration,
}

enum Outcome {
    Ran(Count),
    Broken(String),
    /// A step that it needs has failed.
    NotRun(String),
}

impl Outcome {
    fn count(&self) -> Count {
        match self {
            Outcome::Ran(count) => *count,
            Outcome::Broken(_) | Outcome::NotRun(_) => Count {
                passed: 0,
                failed: 1,
            },
        }
    }

    fn text(&self) -> String {
        match self {
            Outcome::Ran(Count { failed: 0, .. }) => "ok".into(),
            Outcome::Ran(count) => format!("{} FAILED", count.failed),
            Outcome::Broken(reason) => format!("FAILED: {reason}"),
            Outcome::NotRun(needed) => format!("NOT RUN: it needs {needed}"),
        }
    }
}

/// Runs all steps, also after a failure, and ends with the line "N passed, N failed".
pub fn run(here: &Workspace, steps: &[Step]) -> ExitCode {
    let mut failed = HashSet::new();
    let mut rows = Vec::new();
    for step in steps {
        let row = run_step(here, step, &failed);
        if row.outcome.count().failed > 0 {
            failed.insert(step.name.clone());
        }
        rows.push(row);
    }
    close(&rows)
}

fn run_step(here: &Workspace, step: &Step, failed: &HashSet<String>) -> Row {
    println!("\n==> {}", step.name);
    let began = Instant::now();
    let outcome = match step.needs.iter().find(|needed| failed.contains(**needed)) {
        Some(needed) => Outcome::NotRun((*needed).to_owned()),
        None => match (step.run)(here) {
            Ok(count) => Outcome::Ran(count),
            Err(error) => Outcome::Broken(format!("{error:#}")),
        },
    };
    let took = began.elapsed();
    println!(
        "==> {}: {} ({:.1} s)",
        step.name,
        outcome.text(),
        took.as_secs_f64()
    );
    Row {
        name: step.name.clone(),
        outcome,
        took,
    }
}

fn close(rows: &[Row]) -> ExitCode {
    println!(
        "\n{:<24} {:>8} {:>7} {:>7}  outcome",
        "step", "seconds", "passed", "failed"
    );
    let mut total = Count::default();
    for row in rows {
        let count = row.outcome.count();
        let text = row.outcome.text();
        let first_line = text.lines().next().unwrap_or_default();
        println!(
            "{:<24} {:>8.1} {:>7} {:>7}  {first_line}",
            row.name,
            row.took.as_secs_f64(),
            count.passed,
            count.failed
        );
        total = total.plus(count);
    }
    println!("\n{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
