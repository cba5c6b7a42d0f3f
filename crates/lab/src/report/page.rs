//! The report: one page that needs nothing else, readable on a phone.

use super::numbers::{bytes, count, duration};
use super::plot::{self, Frame, PlotError};
use super::tables::{self, Grid};
use crate::experiment::{Depth, Rank};
use crate::published::Published;
use crate::results::{Chart, Ended, Results, Study};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::time::Duration;

const STYLE: &str = include_str!("page.css");

/// The whole page.
///
/// # Errors
/// A plot that cannot be drawn.
pub fn page(results: &Results) -> Result<String, PlotError> {
    let studies: Vec<Markup> = results
        .experiments
        .iter()
        .map(study)
        .collect::<Result<_, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Weir lab, " (results.began) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (head(results)) }
                main { @for study in &studies { (study) } }
                footer { p { "Made by weir lab " (results.weir_version) ". Every single measurement is in results.json and in the CSV files beside this page." } }
            }
        }
    };
    Ok(page.into_string())
}

fn head(results: &Results) -> Markup {
    let machine = &results.machine;
    html! {
        h1 { "What connections cost here" }
        p {
            (depth(results.depth)) ", " (results.began) " UTC, " (duration(Duration::from_secs_f64(results.took_s))) "."
            @if results.ended == Ended::Interrupted { strong { " It was interrupted: what had been measured until then is here." } }
        }
        p.warning {
            "Server, poolers and load shared one machine with " (machine.cores) " cores"
            @if !machine.processor.is_empty() { " (" (machine.processor) ")" }
            ", " (bytes(machine.memory_bytes)) " of memory, Linux " (machine.kernel)
            ", " @if machine.huge_pages == 0 { "no huge pages" } @else { (count(machine.huge_pages)) " huge pages" }
            ". Compare shapes and ratios, also with the published figures; absolute numbers belong to their machines."
        }
        h2 { "Compared" }
        div.scroll { table {
            @for target in &results.targets { tr { th { (target.name) } td { (target.description) } } }
            tr { th { "load" } td { (results.load) } }
            @for (name, value) in &results.settings { tr { th { (name) } td { (value) } } }
        } }
        h2 { "In short" }
        ul { @for study in &results.experiments { li { a href={ "#" (study.name) } { (study.name) } ": " (study.verdict.headline) } } }
    }
}

fn depth(depth: Depth) -> &'static str {
    match depth {
        Depth::Smallest => {
            "A run that only tries every experiment out (sizes too small to conclude from)"
        }
        Depth::Quick => "A quick run (small sizes, short loads)",
        Depth::Full => "A full run",
    }
}

fn study(study: &Study) -> Result<Markup, PlotError> {
    let figures: Vec<Markup> = study.charts.iter().map(figure).collect::<Result<_, _>>()?;
    let grids = |rank: Rank| -> Vec<Grid> {
        let measures = study
            .about
            .measures
            .iter()
            .filter(|measure| measure.rank == rank);
        measures
            .filter_map(|measure| tables::grid(study, measure))
            .collect()
    };
    let details = grids(Rank::Detail);
    Ok(html! {
        section id=(study.name) {
            h2 { (study.about.title) }
            p { (study.about.shows) }
            div.verdict {
                strong { (study.verdict.headline) }
                ul { @for sentence in &study.verdict.sentences { li { (sentence) } } }
            }
            @for figure in &figures { (figure) }
            @for grid in grids(Rank::Main) { (table(&grid)) }
            @if !details.is_empty() { details { summary { "More numbers" } @for grid in &details { (table(grid)) } } }
            (published(&study.about.published))
            (honesty(study))
        }
    })
}

fn figure(chart: &Chart) -> Result<Markup, PlotError> {
    let (wide, narrow) = (
        plot::svg(chart, Frame::WIDE)?,
        plot::svg(chart, Frame::NARROW)?,
    );
    Ok(html! {
        figure role="img" aria-label=(chart.title) {
            div.wide { (PreEscaped(wide)) }
            div.narrow { (PreEscaped(narrow)) }
        }
    })
}

fn table(grid: &Grid) -> Markup {
    html! {
        p.caption { (grid.title) }
        div.scroll { table {
            thead { tr { @for name in &grid.head { th { (name) } } } }
            tbody { @for line in &grid.lines { tr {
                th { (line.label) @if let Some(note) = &line.note { br; small { (note) } } }
                @for cell in &line.cells { td { (cell) } }
            } } }
        } }
    }
}

fn published(published: &[Published]) -> Markup {
    html! {
        @if !published.is_empty() {
            details.published open {
                summary { "What others have published" }
                @for figures in published {
                    p.caption { (figures.source) }
                    div.scroll { table {
                        thead { tr { @for name in &figures.columns { th { (name) } } } }
                        tbody { @for row in &figures.rows { tr { @for cell in row { td { (cell) } } } } }
                    } }
                    p { (figures.finding) }
                }
            }
        }
    }
}

/// What to know before believing the numbers.
fn honesty(study: &Study) -> Markup {
    let checks = study
        .table
        .rows
        .iter()
        .flat_map(|row| &row.samples)
        .map(|sample| sample.checks.len());
    let total: usize = checks.sum();
    let failed: Vec<String> = study
        .table
        .rows
        .iter()
        .flat_map(|row| {
            row.failed_checks().map(|check| {
                format!(
                    "{}, {} {}: {}: expected {}, saw {}",
                    row.point.target,
                    count(row.point.size),
                    row.point.case.label,
                    check.what,
                    check.expected,
                    check.seen
                )
            })
        })
        .collect();
    let failures: Vec<String> = study
        .table
        .rows
        .iter()
        .flat_map(|row| {
            row.failures.iter().map(|failure| {
                format!(
                    "{}, {} {}: {failure}",
                    row.point.target,
                    count(row.point.size),
                    row.point.case.label
                )
            })
        })
        .collect();
    let main = study
        .about
        .measures
        .iter()
        .filter(|measure| measure.rank == Rank::Main);
    let main: Vec<&str> = main.map(|measure| measure.key.as_str()).collect();
    html! {
        p.small {
            (study.rounds) @if study.rounds == 1 { " round" } @else { " rounds, interleaved; medians, and in brackets the smallest and the largest" }
            ". " (count((total - failed.len()) as u64)) " of " (count(total as u64)) " checks of the set-up passed."
            @if let Some((usual, most)) = study.table.noise(&main) {
                " Repeated measurements differed by " (share(usual)) " of their median, at most by " (share(most)) ": smaller differences between targets mean nothing."
            }
        }
        @if !(failed.is_empty() && failures.is_empty() && study.left_out.is_empty()) {
            ul.small {
                @for text in &study.left_out { li { "Left out: " (text) } }
                @for text in &failed { li { "Not as it should be: " (text) } }
                @for text in &failures { li { "Failed: " (text) } }
            }
        }
    }
}

fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
