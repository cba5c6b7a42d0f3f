//! Sleeping to within some tens of microseconds: an event loop's own timer rounds up to whole milliseconds, which is as long as the delays
//! that are studied here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A thread that wakes tasks; it ends with the last clone.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Shared>,
    _life: Arc<Life>,
}

#[derive(Debug, Default)]
struct Shared {
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    queue: BinaryHeap<Reverse<Sleeper>>,
    over: bool,
}

#[derive(Debug)]
struct Sleeper {
    due: Instant,
    waker: Waker,
}

/// Ends the thread when dropped.
#[derive(Debug)]
struct Life(Arc<Shared>);

/// A wait for a moment.
#[derive(Debug)]
pub struct Sleep<'a> {
    clock: &'a Clock,
    due: Instant,
}

impl Clock {
    /// # Errors
    /// That no thread could be started.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ticking = shared.clone();
        std::thread::Builder::new()
            .name("clock".into())
            .spawn(move || ticking.tick())?;
        Ok(Self {
            _life: Arc::new(Life(shared.clone())),
            shared,
        })
    }

    pub fn sleep_until(&self, due: Instant) -> Sleep<'_> {
        Sleep { clock: self, due }
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.due {
            return Poll::Ready(());
        }
        // Polled again before its time, it is in the queue twice: woken once in vain, and no harm done.
        self.clock.shared.add(Sleeper {
            due: self.due,
            waker: context.waker().clone(),
        });
        Poll::Pending
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, sleeper: Sleeper) {
        let mut sleepers = self.lock();
        let first = sleepers.queue.peek().map(|Reverse(first)| first.due);
        let is_next = first.is_none_or(|first| sleeper.due < first);
        sleepers.queue.push(Reverse(sleeper));
        drop(sleepers);
        if is_next {
            self.changed.notify_one();
        }
    }

    fn tick(&self) {
        precise_timers();
        let mut sleepers = self.lock();
        while !sleepers.over {
            let now = Instant::now();
            while let Some(sleeper) = sleepers.due(now) {
                sleeper.waker.wake();
            }
            let next = sleepers.queue.peek().map(|Reverse(next)| next.due - now);
            sleepers = match next {
                None => self.changed.wait(sleepers),
                Some(pause) => self
                    .changed
                    .wait_timeout(sleepers, pause)
                    .map(|(sleepers, _)| sleepers)
                    .map_err(|error| PoisonError::new(error.into_inner().0)),
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Sleepers {
    fn due(&mut self, now: Instant) -> Option<Sleeper> {
        let first = self.queue.peek()?;
        if first.0.due > now {
            return None;
        }
        self.queue.pop().map(|Reverse(sleeper)| sleeper)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_one();
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

/// Linux gathers a thread's wake-ups within 50 us unless told otherwise (prctl(2), PR_SET_TIMERSLACK).
#[cfg(target_os = "linux")]
fn precise_timers() {
    // Without it the clock is only a little less precise.
    let _ = nix::sys::prctl::set_timerslack(1);
}

#[cfg(not(target_os = "linux"))]
fn precise_timers() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::apart;
    use std::time::Duration;

    #[test]
    fn many_sleep_as_long_as_they_asked_for() {
        let clock = Clock::start().expect("a thread");
        let woken = apart(async {
            let mut sleeping = tokio::task::JoinSet::new();
            for sleeper in 1..=50_u64 {
                let clock = clock.clone();
                sleeping.spawn(async move {
                    let due = Instant::now() + Duration::from_micros(100 * sleeper);
                    clock.sleep_until(due).await;
                    Instant::now() >= due
                });
            }
            sleeping.join_all().await
        });
        assert_eq!(woken, vec![true; 50]);
    }
}
