//! What the tests of all crates share: real servers, the real program and scripted ends. Never part of the program.
//!
//! - [`wait`]: wait for a condition instead of sleeping.

pub mod wait;
