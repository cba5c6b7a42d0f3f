//! A client of the console as the log-in hands it over: authenticated, allowed in, and greeted up to ReadyForQuery. It stays on the
//! control thread.

use crate::shared::Address;
use pooling::Time;
use tokio::io::{AsyncRead, AsyncWrite};

/// What a user may do on the console.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privilege {
    /// Every command: `admin_users`, and the user that runs the process over the Unix socket.
    Admin,
    /// The SHOW commands: `stats_users`.
    Stats,
}

/// TCP or Unix socket; the place for TLS.
pub trait ConsoleSocket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ConsoleSocket for S {}

pub struct ConsoleClient {
    pub socket: Box<dyn ConsoleSocket>,
    /// What it sent beyond the log-in.
    pub leftover: Vec<u8>,
    pub id: u64,
    pub user: String,
    pub privilege: Privilege,
    pub application_name: String,
    pub peer: Address,
    pub local: Address,
    pub connected_at: Time,
}
