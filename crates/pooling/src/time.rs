//! A point in time as the callers measure it: microseconds since the process started. 8 bytes, cheap to compare, and an
//! argument everywhere, so that decisions can be simulated.

use std::time::Duration;

/// Microseconds since the start of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time(pub u64);

impl Time {
    /// How long `self` lies after `earlier`; zero if it lies before.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// `self` moved by `by`, without overflow.
    pub fn after(self, by: Duration) -> Time {
        Time(
            self.0
                .saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)),
        )
    }
}
