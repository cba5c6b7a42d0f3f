//! A study's numbers as rows and columns: the same for the page, the terminal and CSV.

use super::numbers;
use crate::experiment::Measure;
use crate::results::{Row, Spread, Study};

/// One measure: a line per case and size, a column per target.
#[derive(Debug)]
pub struct Grid {
    pub title: String,
    pub head: Vec<String>,
    pub lines: Vec<Line>,
}

#[derive(Debug)]
pub struct Line {
    pub label: String,
    /// That the size was lowered, and why.
    pub note: Option<String>,
    pub cells: Vec<String>,
}

/// The grid of a measure; `None` if nothing was measured.
pub fn grid(study: &Study, measure: &Measure) -> Option<Grid> {
    let targets = study.table.targets();
    let measured = |row: &&Row| row.spread(&measure.key).is_some();
    study.table.rows.iter().find(measured)?;
    let head =
        std::iter::once(study.about.axis.clone()).chain(targets.iter().map(|&name| name.into()));
    let unit = match numbers::unit(measure.format) {
        "" => String::new(),
        unit => format!(" ({unit})"),
    };
    Some(Grid {
        title: format!("{}{unit}", measure.label),
        head: head.collect(),
        lines: lines(study, measure, &targets),
    })
}

fn lines(study: &Study, measure: &Measure, targets: &[&str]) -> Vec<Line> {
    let mut places: Vec<(&crate::experiment::Case, u64)> = Vec::new();
    for row in &study.table.rows {
        let place = (&row.point.case, row.point.size);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let line = |(case, size): (&crate::experiment::Case, u64)| {
        let here: Vec<&Row> = study
            .table
            .rows
            .iter()
            .filter(|row| row.point.case == *case && row.point.size == size)
            .collect();
        here.iter()
            .find(|row| row.spread(&measure.key).is_some() || !row.failures.is_empty())?;
        let cell = |target: &&str| {
            let row = here.iter().find(|row| row.point.target == **target);
            row.map_or_else(String::new, |row| cell(row, measure))
        };
        let label = match case.label.as_str() {
            "" => numbers::count(size),
            case => format!("{}, {case}", numbers::count(size)),
        };
        Some(Line {
            label,
            note: here.iter().find_map(|row| row.point.lowered.clone()),
            cells: targets.iter().map(cell).collect(),
        })
    };
    places.into_iter().filter_map(line).collect()
}

/// "1,234 (1,200 to 1,300)"
fn cell(row: &Row, measure: &Measure) -> String {
    let text = |number: f64| numbers::value(number, measure.format);
    match row.spread(&measure.key) {
        None if row.failures.is_empty() => String::new(),
        None => "failed".into(),
        Some(Spread { median, low, high }) if row.samples.len() > 1 && text(low) != text(high) => {
            format!("{} ({} to {})", text(median), text(low), text(high))
        }
        Some(spread) => text(spread.median),
    }
}
