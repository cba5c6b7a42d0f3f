//! Many clients on few server connections, joined by `Conversation` as the worker joins them; sockets are buffers whose bytes arrive in
//! random pieces. Each client also has a session of its own (`backend`): what it receives through the pool must be the same bytes.
//!
//! `POOLING_STEPS` makes the run longer, `POOLING_SEED` repeats one.

#![allow(
    clippy::unwrap_used,
    reason = "what a test reads it has written itself"
)]

mod backend;
mod script;
mod world;

use world::World;

/// In CI.
const STEPS: u64 = 2_400_000;
/// A world is built anew after so many, so that a failure's seed is near to it.
const STEPS_OF_ONE_WORLD: u64 = 4_000;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().expect("a number"))
}

struct SeedOnFailure(u64);

impl Drop for SeedOnFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with POOLING_SEED={}", self.0);
        }
    }
}

fn run(seed: u64) -> world::Tally {
    let _printed = SeedOnFailure(seed);
    World::new(seed).run(STEPS_OF_ONE_WORLD)
}

#[test]
fn clients_of_a_pool_see_what_they_would_see_alone() {
    if let Some(seed) = from_environment("POOLING_SEED") {
        run(seed);
        return;
    }
    let steps = from_environment("POOLING_STEPS").unwrap_or(STEPS);
    let mut tally = world::Tally::default();
    for seed in 0..steps.div_ceil(STEPS_OF_ONE_WORLD) {
        tally.add(run(seed));
    }
    println!("{tally:?}");
    tally.assert_that_everything_happened();
}

/// Seeds that have shown an error once.
#[test]
fn seeds_of_found_errors() {
    for seed in [1, 8, 30, 42, 97, 190, 4453] {
        run(seed);
    }
}
