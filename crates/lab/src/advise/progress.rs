//! What the user sees meanwhile, on stderr: stdout is for the advice.

use super::sample::Onlooker;
use crate::report::duration;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar where there is a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    length: Duration,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            length: Duration::ZERO,
        }
    }
}

impl Onlooker for Progress {
    fn begins(&mut self, what: &str, length: Duration) {
        eprintln!(
            "{what}\nWatching for {}; Ctrl-C concludes from what was seen until then.",
            duration(length)
        );
        let style = ProgressStyle::with_template("{spinner} {bar:20} {msg}");
        self.length = length;
        self.bar = ProgressBar::new(length.as_millis() as u64)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    }

    fn looked(&mut self, watched: Duration, sessions: u32, active: u32) {
        self.bar.set_position(watched.as_millis() as u64);
        self.bar.set_message(format!(
            "{active} of {sessions} sessions at work, {} left",
            duration(self.length.saturating_sub(watched))
        ));
    }

    fn ends(&mut self) {
        self.bar.finish_and_clear();
    }
}
