//! The experiments, one file each.

pub mod bloat;
pub mod connect;
pub mod idle;
pub mod memory;
pub mod overhead;
pub mod poolsize;
pub mod readers_writers;
pub mod storm;
pub mod think;

use crate::experiment::{Case, Experiment, Planned, Point, Scope};
use crate::results::{Axis, Chart, Dot, Row, Scale, Series, Spread, Table};
use crate::site::{Limit, Size, Target};
use std::time::Duration;

/// In the order in which they run.
pub const ALL: [&dyn Experiment; 9] = [
    &idle::Idle,
    &think::Think,
    &bloat::Bloat,
    &memory::Memory,
    &connect::Connect,
    &poolsize::PoolSize,
    &overhead::Overhead,
    &readers_writers::ReadersWriters,
    &storm::Storm,
];

/// A point for every case, size and target; the targets one after another. What a target can carry is its own.
fn grid(
    scope: &Scope<'_>,
    cases: &[Case],
    sizes: impl Fn(&Limit, &Case) -> Vec<Size>,
    cost: impl Fn(&Target, &Case, u64) -> Duration,
) -> Vec<Planned> {
    let mut points = Vec::new();
    for case in cases {
        let of = |target: &Target| sizes(scope.limit(target), case);
        let by_target: Vec<Vec<Size>> = scope.targets.iter().map(of).collect();
        let mut values: Vec<u64> = by_target.iter().flatten().map(|size| size.value).collect();
        values.sort_unstable();
        values.dedup();
        for value in values {
            for (target, sizes) in scope.targets.iter().zip(&by_target) {
                let Some(size) = sizes.iter().find(|size| size.value == value) else {
                    continue;
                };
                points.push(Planned {
                    cost: cost(target, case, value),
                    point: Point {
                        target: target.name.clone(),
                        case: case.clone(),
                        size: value,
                        lowered: size.lowered.clone(),
                    },
                });
            }
        }
    }
    points
}

/// Sizes that the machine is not asked about.
fn exactly(sizes: &[u64]) -> Vec<Size> {
    let size = |value: &u64| Size {
        value: *value,
        lowered: None,
    };
    sizes.iter().map(size).collect()
}

/// "96 %"
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A group of bars for each case, a bar for each target; of one size, where a case has several.
fn bars(
    table: &Table,
    id: &str,
    title: &str,
    measure: &str,
    unit: &str,
    size: Option<u64>,
) -> Chart {
    let cases = table.cases();
    let dot = |row: &Row| {
        let Spread { median, low, high } = row.spread(measure)?;
        let place = cases.iter().position(|case| **case == row.point.case)?;
        Some(Dot {
            x: place as f64,
            y: median,
            low,
            high,
        })
    };
    let series = |(colour, target): (usize, &str)| {
        let rows = table.rows.iter().filter(|row| {
            row.point.target == target && size.is_none_or(|size| row.point.size == size)
        });
        Series {
            label: target.into(),
            colour,
            dash: 0,
            dots: rows.filter_map(dot).collect(),
        }
    };
    Chart {
        id: id.into(),
        title: title.into(),
        x: Axis {
            label: String::new(),
            scale: Scale::Names(cases.iter().map(|case| case.label.clone()).collect()),
        },
        y: Axis::linear(unit),
        series: table
            .targets()
            .into_iter()
            .enumerate()
            .map(series)
            .collect(),
    }
}
