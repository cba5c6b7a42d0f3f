//! From results to what people look at: numbers in words, plots, a page, files. Everything here is a pure function of [`Results`], except
//! that [`write`] writes.
//!
//! [`Results`]: crate::results::Results

mod files;
mod numbers;
mod page;
mod plot;
mod tables;

pub use files::{FileError, write, write_study};
pub use numbers::{bytes, compact, count, duration, plain, ratio, value};
pub use page::page;
pub use plot::{Frame, PlotError, png, svg};
