//! The lab's own load generator, for what pgbench cannot do: holding thousands of idle or mostly idle connections in one process, times to
//! think, a delay on every round trip, and looking at what happens to connections when a server goes away.
//!
//! Connections are plain tasks of one tokio runtime. An idle one holds a socket and no buffer. It shares no code with the pooler: whoever
//! measures does not borrow the eyes of what is measured.

mod clock;
mod connection;
mod crowd;
mod endpoint;
mod latencies;
mod stream;

pub use clock::Clock;
pub use connection::{Answer, Connection, Delay, Failure};
pub use crowd::{Crowd, Opening};
pub use endpoint::{DsnError, Endpoint, Place};
pub use latencies::Latencies;
