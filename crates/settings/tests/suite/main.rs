//! The crate from outside: files in, a configuration or errors out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod console;
mod errors;
mod files;
mod fuzz;
mod manual;
mod precedence;
mod syntax;

use std::path::Path;

use settings::{Config, Loaded};

/// Parses a text that must be right.
fn parsed(text: &str) -> Loaded {
    Config::parse(text, Path::new("weir.ini")).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Parses a text that must be wrong, and prints what is.
fn errors_of(text: &str) -> String {
    match Config::parse(text, Path::new("weir.ini")) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => errors.to_string(),
    }
}
