//! The program as a whole: clients, Weir, PostgreSQL. Each scenario is a function that is run with every reactor; where PgBouncer can serve,
//! also through it, which shows that the scenario asks for the right thing.

// Tests may panic.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod stage;
mod abandoned;
#[cfg(feature = "lab")]
mod advise;
mod cancel;
mod chaos;
mod faults;
mod learnt;
mod limits;
mod listen;
mod login;
mod operation;
mod parameters;
mod prepared;
mod program;
mod protocol;
mod retirement;
mod session_state;
