//! Scripted ends of the protocol: clients and servers that send exactly what a test says and expect exactly what it says.
//!
//! Conversations are written as the tags of messages with the detail that matters in brackets:
//!
//! ```text
//! 1 2 T D C(SELECT 1) Z(I)
//! ```
//!
//! A detail that a test leaves out is not compared. What the details are is told by [`Message::detail`].

mod end;
mod message;
mod pattern;

pub use end::{Client, End, Listener, Server};
pub use message::{Message, Sender};
