//! Runs experiments: plans, rounds, interleaving, time, interruption. What is measured is the experiments' business, what becomes of the results
//! the caller's.

mod progress;

use crate::experiment::{Depth, Experiment, Plan, Planned, Scope};
use crate::results::{Row, Study, Table, Verdict};
use crate::site::{Error, Site};
use progress::Progress;
use std::time::{Duration, Instant};

/// A quick run of all experiments ends within ten minutes; some of them are for starting and for writing the report.
const QUICK_RUN: Duration = Duration::from_secs(540);
/// How much longer than its share of a quick run an experiment may take before points are left out.
const TOLERANCE: f64 = 1.5;

/// Experiments and what each will do.
pub struct Programme<'a> {
    depth: Depth,
    parts: Vec<(&'a dyn Experiment, Plan)>,
}

impl<'a> Programme<'a> {
    pub fn plan(experiments: &[&'a dyn Experiment], site: &Site, depth: Depth) -> Self {
        let scope = Scope {
            depth,
            targets: &site.targets,
            capacity: &site.capacity,
            cores: site.machine.cores as u64,
        };
        let parts = experiments
            .iter()
            .map(|experiment| (*experiment, experiment.plan(&scope)));
        Self {
            depth,
            parts: parts.collect(),
        }
    }

    /// How long it will take, as planned.
    pub fn cost(&self) -> Duration {
        self.parts.iter().map(|(_, plan)| plan.cost()).sum()
    }

    /// Runs everything, unless it is interrupted. Each finished experiment is handed over at once.
    pub fn run(self, site: &mut Site, mut finished: impl FnMut(&Study)) -> Vec<Study> {
        let cost = self.cost();
        let mut progress = Progress::begin(cost);
        let mut studies = Vec::new();
        for (experiment, plan) in self.parts {
            if site.interrupt().is_requested() {
                break;
            }
            let allowance = match self.depth {
                Depth::Quick => share(plan.cost(), cost).min(plan.cost().mul_f64(TOLERANCE)),
                Depth::Smallest | Depth::Full => Duration::MAX,
            };
            let study = Performance {
                experiment,
                rows: plan.points.iter().map(empty_row).collect(),
                left_out: plan.left_out.clone(),
                rounds: 0,
                deadline: Instant::now().checked_add(allowance),
            };
            let study = study.run(&plan, site, &mut progress);
            finished(&study);
            progress.tell(&format!("{}: {}", study.name, study.verdict.headline));
            studies.push(study);
        }
        progress.end();
        studies
    }
}

/// An experiment's part of a quick run.
fn share(part: Duration, whole: Duration) -> Duration {
    QUICK_RUN.mul_f64(part.as_secs_f64() / whole.as_secs_f64().max(1.0))
}

/// One experiment while it runs.
struct Performance<'a> {
    experiment: &'a dyn Experiment,
    rows: Vec<Row>,
    left_out: Vec<String>,
    /// Begun so far.
    rounds: usize,
    deadline: Option<Instant>,
}

impl Performance<'_> {
    fn run(mut self, plan: &Plan, site: &mut Site, progress: &mut Progress) -> Study {
        progress.announce(self.experiment.name(), "sets up");
        match self.experiment.prepare(site, plan) {
            Ok(()) => self.rounds(plan, site, progress),
            Err(error) => self.left_out.push(format!("everything: {error}")),
        }
        self.close()
    }

    fn rounds(&mut self, plan: &Plan, site: &mut Site, progress: &mut Progress) {
        progress.advance(plan.preparation);
        for round in 0..plan.rounds {
            let began = Instant::now();
            self.rounds = round + 1;
            for place in order(plan.points.len(), round) {
                if site.interrupt().is_requested() {
                    self.left_out.push(format!(
                        "what came after the interruption in round {}",
                        round + 1
                    ));
                    return;
                }
                if self.is_late(Duration::ZERO) {
                    self.left_out.push(format!(
                        "the rest of round {}: the time of a quick run was used up",
                        round + 1
                    ));
                    return;
                }
                let planned = &plan.points[place];
                progress.announce(
                    self.experiment.name(),
                    &self.label(planned, round, plan.rounds),
                );
                self.measure(place, planned, site);
                progress.advance(planned.cost);
            }
            if round + 1 < plan.rounds && self.is_late(began.elapsed()) {
                let left = plan.rounds - round - 1;
                self.left_out.push(format!(
                    "{left} of {} rounds: the time of a quick run was used up",
                    plan.rounds
                ));
                return;
            }
        }
    }

    fn measure(&mut self, place: usize, planned: &Planned, site: &mut Site) {
        match self.experiment.measure(&planned.point, site) {
            Ok(sample) => self.rows[place].samples.push(sample),
            // The caller sees the interruption.
            Err(Error::Interrupted(_)) => {}
            Err(error) => {
                let text = error.to_string();
                if !self.rows[place].failures.contains(&text) {
                    self.rows[place].failures.push(text);
                }
            }
        }
    }

    /// Whether something that takes `more` would end after the time of this experiment.
    fn is_late(&self, more: Duration) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() + more > deadline)
    }

    fn label(&self, planned: &Planned, round: usize, rounds: usize) -> String {
        let point = &planned.point;
        format!(
            "{} {} {} (round {} of {rounds})",
            point.target,
            crate::report::count(point.size),
            point.case.label,
            round + 1
        )
    }

    fn close(self) -> Study {
        let table = Table { rows: self.rows };
        let measured = table.rows.iter().any(|row| !row.samples.is_empty());
        let verdict = match measured {
            true => self.experiment.verdict(&table),
            false => Verdict {
                headline: "Nothing was measured.".into(),
                sentences: Vec::new(),
            },
        };
        // What a smaller run does not measure has no plot.
        let mut charts = self.experiment.charts(&table);
        charts.retain(|chart| chart.series.iter().any(|series| !series.dots.is_empty()));
        Study {
            name: self.experiment.name().into(),
            about: self.experiment.about(),
            rounds: self.rounds,
            table,
            verdict,
            charts,
            left_out: self.left_out,
        }
    }
}

fn empty_row(planned: &Planned) -> Row {
    Row {
        point: planned.point.clone(),
        samples: Vec::new(),
        failures: Vec::new(),
    }
}

/// There and back: what drifts while a run goes on meets every point early and late. Plans name a point's targets one after another, so
/// those are measured right beside each other.
fn order(points: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points).collect();
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}
