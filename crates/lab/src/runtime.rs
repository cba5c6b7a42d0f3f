//! Async drivers for callers that block.

use std::future::Future;
use std::time::Duration;

/// Between two looks at a condition that nothing announces.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Runs a future to its end on a thread with a runtime of its own: the caller may be inside another runtime.
pub fn apart<F>(future: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    apart_from(|| future)
}

/// As [`apart`], for a future that must not leave the thread on which it was made.
pub fn apart_from<F, M>(make: M) -> F::Output
where
    F: Future,
    F::Output: Send,
    M: FnOnce() -> F + Send,
{
    let run = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a thread can have an event loop")
            .block_on(make())
    };
    std::thread::scope(|threads| threads.spawn(run).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
