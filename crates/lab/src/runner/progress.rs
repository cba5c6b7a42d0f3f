//! What the user sees meanwhile: what is being measured, and how long it will still take.

use crate::report::duration;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(250);
/// How far the plan's times are corrected by those that were seen.
const PACES: (f64, f64) = (0.25, 4.0);

pub struct Progress {
    bar: ProgressBar,
    cost: Duration,
    done: Duration,
    began: Instant,
}

impl Progress {
    /// `cost` is the planned time of everything.
    pub fn begin(cost: Duration) -> Self {
        let style = ProgressStyle::with_template("{spinner} {bar:20} {msg}");
        let bar = ProgressBar::new(cost.as_millis() as u64)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            cost,
            done: Duration::ZERO,
            began: Instant::now(),
        }
    }

    pub fn announce(&self, experiment: &str, what: &str) {
        self.bar.set_message(format!(
            "{experiment}: {what}, {} left",
            duration(self.left())
        ));
    }

    /// Something whose planned time was `cost` has been done.
    pub fn advance(&mut self, cost: Duration) {
        self.done += cost;
        self.bar.set_position(self.done.as_millis() as u64);
    }

    /// A line that stays.
    pub fn tell(&self, line: &str) {
        self.bar.suspend(|| println!("{line}"));
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn left(&self) -> Duration {
        let planned = self.done.as_secs_f64();
        let pace = match planned > 0.0 {
            true => (self.began.elapsed().as_secs_f64() / planned).clamp(PACES.0, PACES.1),
            false => 1.0,
        };
        self.cost.saturating_sub(self.done).mul_f64(pace)
    }
}
