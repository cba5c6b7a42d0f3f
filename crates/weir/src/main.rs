//! Weir, a PostgreSQL connection pooler.

mod control;
mod report;
mod shared;
mod worker;

fn main() {}
