//! Weir, a PostgreSQL connection pooler.

mod cli;
mod control;
mod daemon;
mod logging;
mod pidfile;
mod privileges;
mod report;
mod shared;
mod start;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
