//! Plots: SVG, and the same in pixels. Letters are measured and drawn with a font that comes along: every machine draws the same.

use super::compact;
use crate::results::{Axis, Chart, Dot, Scale, Series};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use resvg::{tiny_skia, usvg};
use std::sync::Arc;

const FONT: &str = "sans-serif";
/// Distinct for most kinds of colour-blindness (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];
/// A font's height for its size, by which the drawing library divides.
const LINE: f64 = 1.24;
/// Mean width of a letter for a font's size.
const LETTER: f64 = 0.56;
const TICKS_MAX: usize = 7;
/// How much of a category's place its bars take.
const BARS: f64 = 0.8;
/// Pixels of the image for one of the plot.
const SHARPNESS: f32 = 2.0;

/// A plot's size in pixels.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub width: u32,
    pub height: u32,
    /// Of headings; labels are a pixel smaller.
    pub font: u32,
}

impl Frame {
    pub const WIDE: Frame = Frame {
        width: 760,
        height: 420,
        font: 14,
    };
    pub const NARROW: Frame = Frame {
        width: 360,
        height: 420,
        font: 13,
    };
}

/// A plot that could not be drawn; a fault of the lab.
#[derive(Debug, thiserror::Error)]
#[error("plot {chart}: {reason}")]
pub struct PlotError {
    pub chart: String,
    pub reason: String,
}

/// Draws a chart.
///
/// # Errors
/// [`PlotError`].
pub fn svg(chart: &Chart, frame: Frame) -> Result<String, PlotError> {
    let mut text = String::new();
    draw(chart, frame, &mut text).map_err(|error| PlotError {
        chart: chart.id.clone(),
        reason: error.to_string(),
    })?;
    Ok(text)
}

/// The pixels of a drawn chart, as a PNG file.
///
/// # Errors
/// [`PlotError`].
pub fn png(svg: &str, chart: &str) -> Result<Vec<u8>, PlotError> {
    let failed = |reason: String| PlotError {
        chart: chart.into(),
        reason,
    };
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = usvg::Options {
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size();
    let scaled = |pixels: u32| (pixels as f32 * SHARPNESS) as u32;
    let mut pixels = tiny_skia::Pixmap::new(scaled(size.width()), scaled(size.height()))
        .ok_or_else(|| failed("no size".into()))?;
    let sharper = tiny_skia::Transform::from_scale(SHARPNESS, SHARPNESS);
    resvg::render(&tree, sharper, &mut pixels.as_mut());
    pixels
        .encode_png()
        .map_err(|error| failed(error.to_string()))
}

type Failure = Box<dyn std::error::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(chart: &Chart, frame: Frame, text: &mut String) -> Result<(), Failure> {
    let _ = plotters::style::register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
    let root = SVGBackend::with_string(text, (frame.width, frame.height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (heading, legend) = (Heading::of(&chart.title, frame), Legend::of(chart, frame));
    let (above, rest) = root.split_vertically(heading.height());
    let (plot, below) = rest.split_vertically(frame.height - heading.height() - legend.height());
    heading.draw(&above)?;
    let dots = || chart.series.iter().flat_map(|series| &series.dots);
    let x = Ruler::of(&chart.x, dots().map(|dot| dot.x));
    let y = Ruler::of(&chart.y, dots().flat_map(|dot| [dot.y, dot.high]));
    draw_plot(&plot, chart, frame, (x, y))?;
    legend.draw(&below)?;
    root.present()?;
    Ok(())
}

fn draw_plot(
    area: &Area<'_>,
    chart: &Chart,
    frame: Frame,
    (x, y): (Ruler, Ruler),
) -> Result<(), Failure> {
    let mut context = ChartBuilder::on(area)
        .margin(6)
        .margin_right(16)
        .x_label_area_size(frame.font * 3)
        .y_label_area_size(frame.font * 5)
        .build_cartesian_2d(x, y)?;
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .axis_style(BLACK.mix(0.5))
        .x_labels(TICKS_MAX * 2)
        .y_labels(TICKS_MAX * 2)
        .x_desc(chart.x.label.as_str())
        .y_desc(chart.y.label.as_str())
        .label_style(letters(frame.font - 1))
        .axis_desc_style(letters(frame.font))
        .draw()?;
    for (number, series) in chart.series.iter().enumerate() {
        match chart.x.scale {
            Scale::Names(_) => draw_bars(&mut context, series, number, chart.series.len())?,
            Scale::Linear | Scale::Logarithmic => draw_line(&mut context, series)?,
        }
    }
    Ok(())
}

type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;

fn draw_bars(
    plot: &mut Plot<'_, '_>,
    series: &Series,
    number: usize,
    of: usize,
) -> Result<(), Failure> {
    let width = BARS / of as f64;
    let left = |dot: &Dot| dot.x - BARS / 2.0 + width * number as f64;
    plot.draw_series(series.dots.iter().map(|dot| {
        let corners = [(left(dot), 0.0), (left(dot) + width * 0.9, dot.y)];
        Rectangle::new(corners, line_style(series).filled())
    }))?;
    plot.draw_series(series.dots.iter().map(|dot| {
        let middle = left(dot) + width * 0.45;
        let ends = vec![(middle, dot.low), (middle, dot.high)];
        PathElement::new(ends, BLACK.mix(0.7).stroke_width(2))
    }))?;
    Ok(())
}

fn draw_line(plot: &mut Plot<'_, '_>, series: &Series) -> Result<(), Failure> {
    let style = line_style(series);
    let points = series.dots.iter().map(|dot| (dot.x, dot.y));
    match dashes(series) {
        None => plot.draw_series(LineSeries::new(points, style))?,
        Some((dash, gap)) => plot.draw_series(DashedLineSeries::new(points, dash, gap, style))?,
    };
    plot.draw_series(
        series
            .dots
            .iter()
            .map(|dot| PathElement::new(vec![(dot.x, dot.low), (dot.x, dot.high)], style)),
    )?;
    let dots = series.dots.iter();
    plot.draw_series(dots.map(|dot| Circle::new((dot.x, dot.y), 3, style.filled())))?;
    Ok(())
}

fn letters(size: u32) -> FontDesc<'static> {
    (FONT, f64::from(size) * LINE).into_font()
}

fn colour(series: &Series) -> RGBColor {
    COLOURS[series.colour % COLOURS.len()]
}

fn line_style(series: &Series) -> ShapeStyle {
    colour(series).stroke_width(2)
}

/// Dash and gap in pixels.
fn dashes(series: &Series) -> Option<(u32, u32)> {
    [None, Some((8, 5)), Some((2, 4)), Some((12, 3))][series.dash % 4]
}

/// Where values of an axis stand.
struct Ruler {
    scale: Scale,
    /// The values that get a label.
    ticks: Vec<f64>,
    low: f64,
    high: f64,
}

impl Ruler {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let largest = values.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        match &axis.scale {
            Scale::Names(names) => Self {
                ticks: (0..names.len()).map(|place| place as f64).collect(),
                low: -0.5,
                high: names.len() as f64 - 0.5,
                scale: axis.scale.clone(),
            },
            Scale::Linear => Self {
                ticks: round_ticks(largest),
                low: 0.0,
                high: largest * 1.06,
                scale: Scale::Linear,
            },
            Scale::Logarithmic => Self::logarithmic(&values),
        }
    }

    fn logarithmic(values: &[f64]) -> Self {
        let positive: Vec<f64> = values
            .iter()
            .copied()
            .filter(|value| *value > 0.0)
            .collect();
        let smallest = positive.first().copied().unwrap_or(1.0);
        let largest = positive.last().copied().unwrap_or(10.0);
        let has_zero = values.first() == Some(&0.0);
        let mut ruler = Self {
            scale: Scale::Logarithmic,
            ticks: Vec::new(),
            low: smallest.log10() - if has_zero { 0.6 } else { 0.1 },
            high: largest.log10() + 0.1,
        };
        ruler.ticks = ruler.spaced(values);
        ruler
    }

    /// The measured values, except those too close to the one before.
    fn spaced(&self, values: &[f64]) -> Vec<f64> {
        let gap = (self.high - self.low) / TICKS_MAX as f64;
        let mut ticks: Vec<f64> = Vec::new();
        for value in values {
            let last = ticks.last().map(|last| self.place(*last));
            if last.is_none_or(|last| self.place(*value) - last >= gap * 0.8) {
                ticks.push(*value);
            }
        }
        ticks
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Logarithmic if value > 0.0 => value.log10().max(self.low),
            Scale::Logarithmic => self.low + 0.1,
            Scale::Linear | Scale::Names(_) => value,
        }
    }

    fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Logarithmic => 10_f64.powf(place),
            Scale::Linear | Scale::Names(_) => place,
        }
    }
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (self.place(*value) - self.low) / (self.high - self.low);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.value(self.low)..self.value(self.high)
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, value: &f64) -> String {
        match &self.scale {
            Scale::Names(names) => names.get(*value as usize).cloned().unwrap_or_default(),
            Scale::Linear | Scale::Logarithmic => compact(*value),
        }
    }
}

/// Multiples of 1, 2, 2.5 or 5 and a power of ten, from zero.
fn round_ticks(largest: f64) -> Vec<f64> {
    let rough = largest / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power);
    (0..)
        .map(|number| f64::from(number) * step)
        .take_while(|tick| *tick <= largest * 1.06)
        .collect()
}

/// The title, above the plot, in as many lines as it takes.
struct Heading {
    lines: Vec<String>,
    frame: Frame,
}

impl Heading {
    fn of(title: &str, frame: Frame) -> Self {
        let fitting = (f64::from(frame.width - 24) / (f64::from(frame.font) * LETTER)) as usize;
        let mut lines = vec![String::new()];
        for word in title.split(' ') {
            let line = lines
                .last_mut()
                .filter(|line| line.len() + word.len() < fitting);
            match line {
                Some(line) if line.is_empty() => line.push_str(word),
                Some(line) => {
                    line.push(' ');
                    line.push_str(word);
                }
                None => lines.push(word.to_owned()),
            }
        }
        Self { lines, frame }
    }

    fn height(&self) -> u32 {
        self.lines.len() as u32 * self.row() + 6
    }

    fn row(&self) -> u32 {
        self.frame.font * 3 / 2
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        let style = letters(self.frame.font).into_text_style(area);
        for (number, line) in self.lines.iter().enumerate() {
            let place = (12, 6 + (self.row() * number as u32) as i32);
            area.draw(&Text::new(line.clone(), place, style.clone()))?;
        }
        Ok(())
    }
}

/// Names of the series, below the plot, in as many columns as fit.
struct Legend<'a> {
    chart: &'a Chart,
    frame: Frame,
    columns: usize,
}

impl<'a> Legend<'a> {
    fn of(chart: &'a Chart, frame: Frame) -> Self {
        let letters = chart.series.iter().map(|series| series.label.len()).max();
        let width =
            (letters.unwrap_or_default() as f64 * LETTER * f64::from(frame.font)) as u32 + 48;
        let columns = (frame.width / width.max(1)).clamp(1, chart.series.len().max(1) as u32);
        Self {
            chart,
            frame,
            columns: columns as usize,
        }
    }

    fn height(&self) -> u32 {
        let rows = self.chart.series.len().div_ceil(self.columns) as u32;
        rows * self.row() + 6
    }

    fn row(&self) -> u32 {
        self.frame.font * 3 / 2
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        let column = self.frame.width as i32 / self.columns as i32;
        let bars = matches!(self.chart.x.scale, Scale::Names(_));
        for (number, series) in self.chart.series.iter().enumerate() {
            let left = 12 + column * (number % self.columns) as i32;
            let middle = (self.row() * (number / self.columns) as u32 + self.row() / 2) as i32;
            let line = |from: i32, to: i32| {
                let ends = vec![(left + from, middle), (left + to, middle)];
                PathElement::new(
                    ends,
                    line_style(series).stroke_width(if bars { 9 } else { 2 }),
                )
            };
            match dashes(series) {
                None => area.draw(&line(0, 24))?,
                Some((dash, gap)) => (0..24)
                    .step_by((dash + gap) as usize)
                    .try_for_each(|from| area.draw(&line(from, (from + dash as i32).min(24))))?,
            }
            let style = letters(self.frame.font - 1).into_text_style(area);
            let place = (left + 30, middle - self.frame.font as i32 / 2);
            area.draw(&Text::new(series.label.clone(), place, style))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale) -> Chart {
        let dot = |x: f64, y: f64| Dot {
            x,
            y,
            low: y * 0.9,
            high: y * 1.1,
        };
        Chart {
            id: "test".into(),
            title: "A title".into(),
            x: Axis {
                label: "clients".into(),
                scale,
            },
            y: Axis::linear("per second"),
            series: vec![Series {
                label: "one & <two>".into(),
                colour: 0,
                dash: 1,
                dots: vec![dot(0.0, 10.0), dot(1.0, 1_500.0), dot(2.0, 900.0)],
            }],
        }
    }

    #[test]
    fn every_scale_is_drawn_in_both_sizes() {
        let names = Scale::Names(vec!["a".into(), "b".into(), "c".into()]);
        for scale in [Scale::Linear, Scale::Logarithmic, names] {
            for frame in [Frame::WIDE, Frame::NARROW] {
                let drawn = svg(&chart(scale.clone()), frame).expect("a plot");
                assert!(drawn.contains("one &amp; &lt;two&gt;"), "{drawn}");
                let image = png(&drawn, "test").expect("an image");
                assert!(image.starts_with(b"\x89PNG") && image.len() > 2_000);
            }
        }
    }

    #[test]
    fn a_chart_of_nothing_is_no_fault() {
        let mut empty = chart(Scale::Logarithmic);
        empty.series.clear();
        assert!(svg(&empty, Frame::WIDE).is_ok());
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            round_ticks(1_234.0),
            [0.0, 250.0, 500.0, 750.0, 1_000.0, 1_250.0]
        );
        assert_eq!(round_ticks(0.8).len(), 5);
    }
}
