//! Waiting for a condition that nothing announces.

use std::time::{Duration, Instant};

/// Longer than anything may take on a busy machine; who waits that long has found a bug.
pub const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

/// Returns as soon as `condition` holds.
///
/// # Panics
/// When it does not hold within [`PATIENCE`]; `what` is what was waited for.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    assert!(
        within(PATIENCE, &mut condition),
        "waited {PATIENCE:?} in vain: {what}"
    );
}

/// Whether `condition` comes to hold within `limit`.
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}
