//! Async drivers for callers that block.

use std::future::Future;

/// Runs a future to its end on a thread with a runtime of its own: the caller may be inside another runtime.
pub fn apart<F>(future: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    let run = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a thread can have an event loop")
            .block_on(future)
    };
    std::thread::scope(|threads| threads.spawn(run).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
