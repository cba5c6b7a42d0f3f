//! When to dial PostgreSQL again after a failure: exponential back-off with jitter, one prober at a time.

use crate::time::Time;
use std::time::Duration;

/// The shortest and longest wait between two attempts while the server cannot be reached.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub first: Duration,
    pub longest: Duration,
}

/// The health of one server address as the last dials showed it.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
    retry_at: Option<Time>,
}

impl Backoff {
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When the next attempt is due; `None` while dials succeed.
    pub fn retry_at(&self) -> Option<Time> {
        self.retry_at
    }

    pub fn succeeded(&mut self) {
        *self = Backoff::default();
    }

    /// `jitter` is drawn from 0..1 by the caller: attempts of many poolers must not fall together.
    /// The wait doubles with each failure up to the longest, and between half and all of it is used.
    pub fn failed(&mut self, now: Time, bounds: Bounds, jitter: f64) {
        let doublings = self.failures.min(20);
        let wait = bounds
            .first
            .saturating_mul(1 << doublings)
            .min(bounds.longest);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.after(wait.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_a_success_ends_them() {
        let bounds = Bounds {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(2),
        };
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..7)
            .map(|_| {
                backoff.failed(Time(0), bounds, 1.0);
                backoff.retry_at().expect("it has failed").0 / 1000
            })
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 2000, 2000]);
        backoff.failed(Time(0), bounds, 0.0);
        assert_eq!(backoff.retry_at(), Some(Time(1_000_000)));
        backoff.succeeded();
        assert!(!backoff.is_failing() && backoff.retry_at().is_none());
    }
}
