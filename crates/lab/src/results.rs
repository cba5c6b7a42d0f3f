//! What was measured: plain data, from which files and the report are made. Nothing here measures.

use crate::experiment::{About, Case, Depth, Point};
use crate::site::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    pub weir_version: String,
    /// In UTC, as in "2026-01-31 12:00".
    pub began: String,
    pub took_s: f64,
    pub depth: Depth,
    pub ended: Ended,
    pub machine: Machine,
    pub targets: Vec<Described>,
    /// What ran the loads.
    pub load: String,
    /// Settings of PostgreSQL that matter here: name and value.
    pub settings: Vec<(String, String)>,
    pub experiments: Vec<Study>,
}

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    Complete,
    Interrupted,
}

/// A target, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    pub name: String,
    pub description: String,
}

/// One experiment's results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Study {
    pub name: String,
    pub about: About,
    pub rounds: usize,
    pub table: Table,
    pub verdict: Verdict,
    pub charts: Vec<Chart>,
    /// What was not measured, and why.
    pub left_out: Vec<String>,
}

/// All rows, in the order of the plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Table {
    pub rows: Vec<Row>,
}

/// A point and what was measured there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub point: Point,
    pub samples: Vec<Sample>,
    /// Why a sample is missing.
    pub failures: Vec<String>,
}

/// One measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub values: BTreeMap<String, f64>,
    pub checks: Vec<Check>,
}

/// Whether the set-up was what it claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub what: String,
    pub expected: String,
    pub seen: String,
    pub passed: bool,
}

/// Median, smallest and largest of the repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// What an experiment shows, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub headline: String,
    pub sentences: Vec<String>,
}

/// A plot, as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Part of its file name.
    pub id: String,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    pub label: String,
    pub scale: Scale,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Zero stands left of the smallest number.
    Logarithmic,
    /// Numbers are places in this list of names.
    Names(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub label: String,
    /// Same number, same colour: that of the target.
    pub colour: usize,
    /// Same number, same dashes: that of the case.
    pub dash: usize,
    pub dots: Vec<Dot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

impl Results {
    /// Takes in the experiments of an earlier run that this one has not repeated, if both measured the same things on the same machine.
    pub fn join(&mut self, earlier: Results) {
        let same_machine = (
            self.machine.cores,
            self.machine.memory_bytes,
            &self.machine.processor,
        ) == (
            earlier.machine.cores,
            earlier.machine.memory_bytes,
            &earlier.machine.processor,
        );
        if !same_machine || self.targets != earlier.targets || self.depth != earlier.depth {
            return;
        }
        let repeated = |study: &Study| self.experiments.iter().any(|own| own.name == study.name);
        let kept: Vec<Study> = earlier
            .experiments
            .into_iter()
            .filter(|study| !repeated(study))
            .collect();
        if !kept.is_empty() {
            self.began = earlier.began;
            self.took_s += earlier.took_s;
        }
        self.experiments.extend(kept);
    }
}

impl Sample {
    pub fn of<'a>(values: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let finite = values.into_iter().filter(|(_, value)| value.is_finite());
        Self {
            values: finite.map(|(key, value)| (key.to_owned(), value)).collect(),
            checks: Vec::new(),
        }
    }

    pub fn with(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    pub fn set(&mut self, key: &str, value: f64) {
        if value.is_finite() {
            self.values.insert(key.to_owned(), value);
        }
    }
}

impl Check {
    pub fn exactly(what: &str, expected: u64, seen: u64) -> Self {
        Self::new(what, crate::report::count(expected), seen, seen == expected)
    }

    pub fn at_most(what: &str, most: u64, seen: u64) -> Self {
        let expected = format!("1 to {}", crate::report::count(most));
        Self::new(what, expected, seen, (1..=most).contains(&seen))
    }

    pub fn none(what: &str, seen: u64) -> Self {
        Self::new(what, "none".into(), seen, seen == 0)
    }

    /// A measured number within `tolerance` (a share) of what was asked for.
    pub fn near(what: &str, expected: f64, seen: f64, tolerance: f64) -> Self {
        Self {
            what: what.into(),
            expected: format!("{expected:.2}"),
            seen: format!("{seen:.2}"),
            passed: (seen - expected).abs() <= expected * tolerance,
        }
    }

    fn new(what: &str, expected: String, seen: u64, passed: bool) -> Self {
        Self {
            what: what.into(),
            expected,
            seen: crate::report::count(seen),
            passed,
        }
    }
}

impl Spread {
    /// `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Self { median, low, high })
    }
}

impl Row {
    pub fn spread(&self, measure: &str) -> Option<Spread> {
        Spread::of(
            self.samples
                .iter()
                .filter_map(|sample| sample.values.get(measure).copied()),
        )
    }

    /// Checks that failed in any of the measurements.
    pub fn failed_checks(&self) -> impl Iterator<Item = &Check> {
        let all = self.samples.iter().flat_map(|sample| &sample.checks);
        all.filter(|check| !check.passed)
    }
}

impl Table {
    pub fn median(&self, target: &str, case: u64, size: u64, measure: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| {
            row.point.target == target && row.point.case.key == case && row.point.size == size
        })?;
        row.spread(measure).map(|spread| spread.median)
    }

    /// Sizes and medians of one line, by size.
    pub fn line(&self, target: &str, case: u64, measure: &str) -> Vec<(u64, f64)> {
        let rows = self.rows_of(target, case);
        let medians = rows.filter_map(|row| Some((row.point.size, row.spread(measure)?.median)));
        let mut line: Vec<(u64, f64)> = medians.collect();
        line.sort_by_key(|(size, _)| *size);
        line
    }

    /// By how much repeated measurements of these measures differ, as a share of their median: usually, and at most.
    pub fn noise(&self, measures: &[&str]) -> Option<(f64, f64)> {
        let rows = self.rows.iter().filter(|row| row.samples.len() > 1);
        let spreads =
            rows.flat_map(|row| measures.iter().filter_map(|measure| row.spread(measure)));
        let noisy = spreads.filter(|spread| spread.median > 0.0);
        let noise = Spread::of(noisy.map(|spread| (spread.high - spread.low) / spread.median))?;
        Some((noise.median, noise.high))
    }

    /// In the order in which they first appear.
    pub fn targets(&self) -> Vec<&str> {
        let mut targets: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !targets.contains(&row.point.target.as_str()) {
                targets.push(&row.point.target);
            }
        }
        targets
    }

    pub fn cases(&self) -> Vec<&Case> {
        let mut cases: Vec<&Case> = self.rows.iter().map(|row| &row.point.case).collect();
        cases.sort();
        cases.dedup();
        cases
    }

    /// A series for each target and case that has this measure.
    pub fn series(&self, measure: &str, cases: &[u64]) -> Vec<Series> {
        let mut all = Vec::new();
        for (colour, target) in self.targets().into_iter().enumerate() {
            let shown = self
                .cases()
                .into_iter()
                .filter(|case| cases.contains(&case.key));
            for (dash, case) in shown.enumerate() {
                let dots = self.dots(target, case.key, measure);
                if dots.is_empty() {
                    continue;
                }
                let label = match (cases.len(), case.label.as_str()) {
                    (1, _) | (_, "") => target.to_owned(),
                    (_, case) => format!("{target}, {case}"),
                };
                all.push(Series {
                    label,
                    colour,
                    dash,
                    dots,
                });
            }
        }
        all
    }

    fn dots(&self, target: &str, case: u64, measure: &str) -> Vec<Dot> {
        let dot = |row: &Row| {
            let Spread { median, low, high } = row.spread(measure)?;
            Some(Dot {
                x: row.point.size as f64,
                y: median,
                low,
                high,
            })
        };
        let mut dots: Vec<Dot> = self.rows_of(target, case).filter_map(dot).collect();
        dots.sort_by(|one, other| one.x.total_cmp(&other.x));
        dots
    }

    fn rows_of(&self, target: &str, case: u64) -> impl Iterator<Item = &Row> {
        let row = move |row: &&Row| row.point.target == target && row.point.case.key == case;
        self.rows.iter().filter(row)
    }
}

impl Axis {
    pub fn linear(label: &str) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
        }
    }

    pub fn logarithmic(label: &str) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Logarithmic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let spread = Spread::of([3.0, 1.0, 2.0]).expect("three values");
        assert_eq!((spread.low, spread.median, spread.high), (1.0, 2.0, 3.0));
        assert_eq!(
            Spread::of([4.0, 1.0]).map(|spread| spread.median),
            Some(2.5)
        );
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn noise_is_what_repeated_measurements_differ_by() {
        let row = |values: &[f64]| Row {
            point: Point {
                target: "one".into(),
                case: Case::only(),
                size: 1,
                lowered: None,
            },
            samples: values
                .iter()
                .map(|value| Sample::of([("tps", *value)]))
                .collect(),
            failures: Vec::new(),
        };
        let table = Table {
            rows: vec![
                row(&[90.0, 100.0, 110.0]),
                row(&[50.0, 100.0, 150.0]),
                row(&[7.0]),
            ],
        };
        let (usual, most) = table.noise(&["tps"]).expect("repeated measurements");
        assert!((usual - 0.6).abs() < 1e-9 && (most - 1.0).abs() < 1e-9);
        assert_eq!(table.noise(&["other"]), None);
    }
}
