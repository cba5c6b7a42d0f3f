//! `weir advise`: watches a server, directly or through a pooler, and says which settings follow from what it saw.
//!
//! In three steps that do not know each other: [`sample`] asks and counts ([`observations`]), [`reasoning`] concludes ([`advice`]), [`words`] and
//! [`ini`] write. It changes nothing on the server; with `--apply-to`, [`apply`] changes one ini file.

pub mod advice;
pub mod apply;
pub mod ini;
pub mod observations;
mod progress;
pub mod reasoning;
pub mod sample;
pub mod source;
pub mod words;

use crate::driver::DsnError;
use crate::interrupt::Interrupt;
use crate::runtime::apart_from;
use advice::Advice;
use apply::{Applied, ApplyError, Check};
use observations::{Ended, Observations};
use progress::Progress;
use sample::WatchError;
use serde::Serialize;
use source::Source;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What is watched, for how long, and where the advice goes.
#[derive(Debug, Clone)]
pub struct AdviseOptions {
    pub dsn: String,
    pub watch: Length,
    /// The server's machine, where neither it nor this one's `/proc` tells, or tells wrongly.
    pub cores: Option<usize>,
    pub memory: Option<Size>,
    /// Merge the advice into this file.
    pub apply_to: Option<PathBuf>,
    pub output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Text,
    Json,
}

/// How long to watch: "30s", "10m", "1h 30m".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length(pub Duration);

/// A size of memory: "512MB", "64GB".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

/// Something on the command line that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum BadOption {
    #[error("a time is a number with a unit, as in 30s, 10m or 1h")]
    Length,
    #[error("it has to be between 1 s and 7 days")]
    LengthRange,
    #[error("a size is a number with MB or GB, as in 64GB")]
    Size,
}

const LENGTHS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3_600);

impl FromStr for Length {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Self, BadOption> {
        let span: jiff::SignedDuration = text.parse().map_err(|_| BadOption::Length)?;
        let length = Duration::try_from(span).map_err(|_| BadOption::LengthRange)?;
        match LENGTHS.contains(&length) {
            true => Ok(Self(length)),
            false => Err(BadOption::LengthRange),
        }
    }
}

impl FromStr for Size {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Self, BadOption> {
        let text = text.trim();
        let units = [
            ("GB", 30),
            ("GiB", 30),
            ("G", 30),
            ("MB", 20),
            ("MiB", 20),
            ("M", 20),
        ];
        let (number, shift) = units
            .into_iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))
            .ok_or(BadOption::Size)?;
        let number: u64 = number.trim().parse().map_err(|_| BadOption::Size)?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
        bytes.map(Self).ok_or(BadOption::Size)
    }
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    #[error("the connection string cannot be used: {0}")]
    Dsn(#[from] DsnError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("cannot wait for Ctrl-C: {0}")]
    Signals(std::io::Error),
    #[error("the result cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Both halves, for machines.
#[derive(Debug, Serialize)]
struct Document<'a> {
    observations: &'a Observations,
    advice: &'a Advice,
}

/// Watches, and prints the advice; merges it into a file if asked to and if the watch was not cut short. `check` is what `weir check` does.
///
/// # Errors
/// [`AdviseError`].
pub fn run(options: &AdviseOptions, check: &Check<'_>) -> Result<(), AdviseError> {
    let interrupt = Interrupt::on_signals().map_err(AdviseError::Signals)?;
    let seen = observe(options, &interrupt)?;
    let advice = reasoning::conclude(&seen);
    match options.output {
        Output::Json => println!("{}", json(&seen, &advice)?),
        Output::Text => {
            print!("{}", words::text(&seen, &advice));
            if options.apply_to.is_none() {
                print!("{}", words::ini(&seen, &advice));
            }
        }
    }
    let Some(path) = &options.apply_to else {
        return Ok(());
    };
    if seen.watch.ended != Ended::InTime {
        eprintln!(
            "\n{} stays as it is: the watch did not run to its end.",
            path.display()
        );
        return Ok(());
    }
    // JSON is all that goes to stdout then.
    tell(&apply::apply(&advice.ini, path, check)?);
    Ok(())
}

/// What was seen and what follows from it, for machines.
///
/// # Errors
/// None that could be: all keys are texts.
pub fn json(seen: &Observations, advice: &Advice) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&Document {
        observations: seen,
        advice,
    })
}

/// Watches without concluding.
///
/// # Errors
/// [`AdviseError::Dsn`], [`AdviseError::Watch`].
pub fn observe(
    options: &AdviseOptions,
    interrupt: &Interrupt,
) -> Result<Observations, AdviseError> {
    let source = Source::parse(&options.dsn)?;
    let mut progress = Progress::new();
    let mut seen = apart_from(async || {
        sample::observe(&source, options.watch.0, interrupt, &mut progress).await
    })?;
    seen.hardware.cores = options.cores.or(seen.hardware.cores);
    let memory = options.memory.map(|Size(bytes)| bytes);
    seen.hardware.memory_bytes = memory.or(seen.hardware.memory_bytes);
    Ok(seen)
}

fn tell(applied: &Applied) {
    let path = applied.path.display();
    match &applied.backup {
        Some(backup) => eprintln!("\n{path} was changed (as it was: {}):", backup.display()),
        None => eprintln!("\n{path} has it all: nothing was changed."),
    }
    applied
        .changes
        .iter()
        .for_each(|change| eprintln!("    {change}"));
    applied
        .notes
        .iter()
        .for_each(|note| eprintln!("    note: {note}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        let length = |text: &str| text.parse::<Length>().map(|Length(time)| time.as_secs());
        assert_eq!(length("30s").expect("valid"), 30);
        assert_eq!(length("10m").expect("valid"), 600);
        assert_eq!(length("1h 30m").expect("valid"), 5_400);
        for wrong in ["", "30", "10 apples", "-3s", "0s", "8d", "400h"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
        let size = |text: &str| text.parse::<Size>().map(|Size(bytes)| bytes);
        assert_eq!(size("64GB").expect("valid"), 64 << 30);
        assert_eq!(size("512 MB").expect("valid"), 512 << 20);
        for wrong in ["", "64", "GB", "-1GB", "0GB", "99999999999999999GB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
