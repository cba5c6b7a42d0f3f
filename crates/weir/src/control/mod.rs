//! The control thread: everything that is sequential or may wait. One tokio runtime on one thread.

pub mod credentials;
