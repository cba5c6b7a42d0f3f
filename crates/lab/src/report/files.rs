//! The files of a run: `results.json`, `report.html`, and for each experiment a CSV file with every measurement and its plots.

use super::page;
use super::plot::{self, Frame, PlotError};
use crate::results::{Results, Study};
use std::path::Path;

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot write {path}: {source}")]
    Io {
        path: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    Plot(#[from] PlotError),
}

/// Writes everything into `folder`, which is created.
///
/// # Errors
/// [`FileError`].
pub fn write(results: &Results, folder: &Path) -> Result<(), FileError> {
    let json = serde_json::to_vec_pretty(results).map_err(std::io::Error::from);
    let json = json.map_err(named(&folder.join("results.json")))?;
    put(&folder.join("results.json"), &json)?;
    put(&folder.join("report.html"), page(results)?.as_bytes())
}

/// Writes one experiment's table and plots.
///
/// # Errors
/// [`FileError`].
pub fn write_study(study: &Study, folder: &Path) -> Result<(), FileError> {
    let path = folder.join(format!("{}.csv", study.name));
    put(&path, &csv(study).map_err(named(&path))?)?;
    for chart in &study.charts {
        let drawn = plot::svg(chart, Frame::WIDE)?;
        let name = |ending: &str| folder.join(format!("{}-{}.{ending}", study.name, chart.id));
        put(&name("svg"), drawn.as_bytes())?;
        put(&name("png"), &plot::png(&drawn, &chart.id)?)?;
    }
    Ok(())
}

/// A line for each measured number.
fn csv(study: &Study) -> std::io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "experiment",
        "target",
        "case",
        "size",
        "round",
        "measure",
        "value",
    ])?;
    for row in &study.table.rows {
        for (round, sample) in row.samples.iter().enumerate() {
            for (measure, value) in &sample.values {
                writer.write_record([
                    &study.name,
                    &row.point.target,
                    &row.point.case.label,
                    &row.point.size.to_string(),
                    &(round + 1).to_string(),
                    measure,
                    &value.to_string(),
                ])?;
            }
        }
    }
    writer.into_inner().map_err(|error| error.into_error())
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(named(path))?;
    }
    std::fs::write(path, bytes).map_err(named(path))
}

fn named(path: &Path) -> impl FnOnce(std::io::Error) -> FileError {
    let path = path.display().to_string();
    move |source| FileError::Io { path, source }
}
