//! What was measured, as JSON lines: one line for each run of a measure, one for each series of samples.
//!
//! A measure that runs again replaces its own lines and leaves the others, so that a long table can be filled in parts.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::lab::Values;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    Run(Run),
    Series(Series),
    Failure(Failure),
}

/// Under what conditions a measure ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub measure: String,
    /// UTC, ISO 8601.
    pub at: String,
    pub command: String,
    pub machine: String,
    pub versions: Vec<String>,
    pub rounds: usize,
    pub quick: bool,
    /// Load average of one minute before and after: what else the machine did.
    pub load: (f64, f64),
}

/// One figure's samples, one for each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub measure: String,
    pub variant: String,
    pub party: String,
    pub metric: String,
    pub samples: Vec<f64>,
}

/// A party that could not take part, with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub measure: String,
    pub variant: String,
    pub party: String,
    pub reason: String,
}

/// The samples of one run of one measure, while it grows.
#[derive(Default)]
pub struct Samples {
    series: BTreeMap<(String, String, &'static str), Vec<f64>>,
    failures: Vec<(String, String, String)>,
}

impl Samples {
    pub fn add(&mut self, variant: &str, party: &impl ToString, metric: &'static str, value: f64) {
        self.series
            .entry((variant.to_owned(), party.to_string(), metric))
            .or_default()
            .push(value);
    }

    pub fn fail(&mut self, variant: &str, party: &impl ToString, error: &anyhow::Error) {
        let party = party.to_string();
        eprintln!("  {party}: {error:#}");
        // Samples from before the failure would be a median of fewer rounds than promised.
        self.series
            .retain(|(of, by, _), _| *of != variant || *by != party);
        self.failures
            .push((variant.to_owned(), party, format!("{error:#}")));
    }

    /// Adds what `once` measures, unless the party has failed before.
    pub fn take(
        &mut self,
        variant: &str,
        round: usize,
        party: &impl ToString,
        once: impl FnOnce() -> Result<Values>,
    ) {
        if self.failed(variant, party) {
            return;
        }
        match once() {
            Ok(values) => {
                let shown: Vec<String> = values
                    .iter()
                    .map(|(metric, value)| format!("{metric} {value:.2}"))
                    .collect();
                eprintln!(
                    "  {variant}, round {round}, {}: {}",
                    party.to_string(),
                    shown.join(", ")
                );
                values
                    .into_iter()
                    .for_each(|(metric, value)| self.add(variant, party, metric, value));
            }
            Err(error) => self.fail(variant, party, &error),
        }
    }

    /// The most samples of any series.
    pub fn rounds(&self) -> usize {
        self.series.values().map(Vec::len).max().unwrap_or(0)
    }

    fn failed(&self, variant: &str, party: &impl ToString) -> bool {
        let party = party.to_string();
        self.failures
            .iter()
            .any(|(of, by, _)| of == variant && *by == party)
    }

    pub fn any_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    fn into_lines(self, measure: &str) -> impl Iterator<Item = Line> {
        let of_series = measure.to_owned();
        let of_failures = measure.to_owned();
        let series = self
            .series
            .into_iter()
            .map(move |((variant, party, metric), samples)| {
                Line::Series(Series {
                    measure: of_series.clone(),
                    variant,
                    party,
                    metric: metric.to_owned(),
                    samples,
                })
            });
        let failures = self
            .failures
            .into_iter()
            .map(move |(variant, party, reason)| {
                Line::Failure(Failure {
                    measure: of_failures.clone(),
                    variant,
                    party,
                    reason,
                })
            });
        series.chain(failures)
    }
}

impl Line {
    fn measure(&self) -> &str {
        match self {
            Self::Run(run) => &run.measure,
            Self::Series(series) => &series.measure,
            Self::Failure(failure) => &failure.measure,
        }
    }
}

/// All that is known, from this run and from earlier ones.
#[derive(Default)]
pub struct Figures {
    lines: Vec<Line>,
}

impl Figures {
    pub fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            text => text.with_context(|| format!("reading {}", path.display()))?,
        };
        let lines: Result<_, _> = text.lines().map(serde_json::from_str).collect();
        Ok(Self {
            lines: lines.with_context(|| format!("{} is not ours", path.display()))?,
        })
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = String::new();
        for line in &self.lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Replaces what was known about the run's measure.
    pub fn replace(&mut self, run: Run, samples: Samples) {
        let measure = run.measure.clone();
        self.lines.retain(|line| line.measure() != measure);
        self.lines.push(Line::Run(run));
        self.lines.extend(samples.into_lines(&measure));
    }

    /// Replaces what was known about the measures that `lines` are about.
    pub fn take_over(&mut self, lines: Vec<Line>) {
        self.lines
            .retain(|line| lines.iter().all(|new| new.measure() != line.measure()));
        self.lines.extend(lines);
    }

    pub fn run(&self, measure: &str) -> Option<&Run> {
        self.runs().find(|run| run.measure == measure)
    }

    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.lines.iter().filter_map(|line| {
            if let Line::Run(run) = line {
                Some(run)
            } else {
                None
            }
        })
    }

    pub fn series(&self, measure: &str) -> impl Iterator<Item = &Series> {
        self.lines.iter().filter_map(move |line| match line {
            Line::Series(series) if series.measure == measure => Some(series),
            _ => None,
        })
    }

    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.lines.iter().filter_map(|line| {
            if let Line::Failure(failure) = line {
                Some(failure)
            } else {
                None
            }
        })
    }

    pub fn median(&self, measure: &str, variant: &str, party: &str, metric: &str) -> Option<f64> {
        self.series(measure)
            .find(|series| {
                series.variant == variant && series.party == party && series.metric == metric
            })
            .map(Series::median)
    }
}

impl Series {
    pub fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => f64::NAN,
            (count, middle) if count % 2 == 1 => sorted[middle],
            (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    /// Half the distance between the extremes, as a share of the median.
    pub fn spread(&self) -> f64 {
        let (low, high) = self
            .samples
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), sample| {
                (low.min(*sample), high.max(*sample))
            });
        (high - low) / 2.0 / self.median()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(measure: &str) -> Run {
        Run {
            measure: measure.into(),
            at: String::new(),
            command: String::new(),
            machine: String::new(),
            versions: vec![],
            rounds: 1,
            quick: true,
            load: (0.0, 0.0),
        }
    }

    fn samples(value: f64) -> Samples {
        let mut samples = Samples::default();
        samples.add("simple", &"pgbouncer", "cpu_us", value);
        samples
    }

    #[test]
    fn a_measure_that_runs_again_replaces_only_itself() {
        let mut figures = Figures::default();
        figures.replace(run("one"), samples(1.0));
        figures.replace(run("two"), samples(2.0));
        figures.replace(run("one"), samples(3.0));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("figures.jsonl");
        figures.write(&path).expect("written");
        let read = Figures::read(&path).expect("read");
        assert_eq!(
            read.median("one", "simple", "pgbouncer", "cpu_us"),
            Some(3.0)
        );
        assert_eq!(
            read.median("two", "simple", "pgbouncer", "cpu_us"),
            Some(2.0)
        );
        assert_eq!(read.runs().count(), 2);
    }

    #[test]
    fn a_failure_takes_the_partys_samples_along() {
        let mut figures = Figures::default();
        let mut samples = samples(1.0);
        samples.fail("simple", &"pgbouncer", &anyhow::anyhow!("went away"));
        figures.replace(run("one"), samples);
        assert_eq!(figures.median("one", "simple", "pgbouncer", "cpu_us"), None);
        assert_eq!(figures.failures().count(), 1);
    }

    #[test]
    fn medians() {
        let series = |samples: &[f64]| Series {
            measure: String::new(),
            variant: String::new(),
            party: String::new(),
            metric: String::new(),
            samples: samples.to_vec(),
        };
        assert_eq!(series(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(series(&[4.0, 1.0]).median(), 2.5);
        assert_eq!(series(&[1.0, 2.0, 3.0]).spread(), 0.5);
    }
}
