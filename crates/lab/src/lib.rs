//! What is not needed to pool: an embedded PostgreSQL, the demonstration that `weir demo` runs, the experiments of `weir lab`,
//! the adviser of `weir advise`, and
//! the look at statements of `weir check --against`.
//!
//! - [`demo`] is the demonstration.
//! - [`advise`] is `weir advise`, from looking at a server to settings.
//! - [`audit`] is `weir check --against`, from statements to what they cost.
//! - [`command`] is `weir lab`, from its options to a folder of results. [`experiments`] has the experiments, [`experiment`] what one is,
//!   [`runner`] runs them, [`site`] is where they happen, [`workload`] and [`driver`] are what clients do there, [`results`] what comes out,
//!   [`report`] what people see of it, [`published`] what others have measured, [`interrupt`] the user's Ctrl-C.
//! - [`postgres`] finds, fetches and runs PostgreSQL servers in temporary folders.
//! - [`account`] is whom servers run as when this process is root.
//! - [`launcher`] starts processes that die with this one, whatever ends it.
//! - [`port`] picks TCP ports that nobody else will take by accident.
//! - [`runtime`] lets blocking callers use async drivers.

pub mod account;
pub mod advise;
pub mod audit;
pub mod command;
pub mod demo;
pub mod driver;
pub mod experiment;
pub mod experiments;
pub mod interrupt;
pub mod launcher;
pub mod port;
pub mod postgres;
pub mod published;
pub mod report;
pub mod results;
pub mod runner;
pub mod runtime;
pub mod site;
pub mod workload;
