//! How long things took, as percentiles, in bounded memory.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Three digits: below what repeated runs differ by.
const DIGITS: u8 = 3;

/// A distribution of durations, kept in microseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new(DIGITS).expect("three digits are a valid precision");
        Self { histogram }
    }
}

impl Latencies {
    pub fn add(&mut self, took: Duration) {
        // The histogram grows by itself; only a time of centuries would not fit.
        let _ = self.histogram.record(took.as_micros().max(1) as u64);
    }

    pub fn merge(&mut self, other: &Latencies) {
        let _ = self.histogram.add(&other.histogram);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// In milliseconds; `percent` from 0 to 100.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.histogram.value_at_percentile(percent) as f64 / 1_000.0
    }

    /// In milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.histogram.mean() / 1_000.0
    }
}
