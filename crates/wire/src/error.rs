//! What can be wrong with bytes that claim to be a message. Whose fault it is follows from who
//! sent them; the texts are safe to show to a client.

use crate::startup::ProtocolVersion;

/// A violation of the protocol's spelling (SQLSTATE class 08P01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A length word below 4 or above 2^31 - 1.
    #[error("invalid message length {0}")]
    Length(u32),
    /// A startup packet whose length word is out of bounds.
    #[error("invalid length of startup packet: {0}")]
    StartupLength(u32),
    /// A protocol version, or request code, that is not one of major version 3.
    #[error("unsupported frontend protocol {}.{}", .0.major, .0.minor)]
    Version(ProtocolVersion),
    /// A field reaches beyond the end of its message.
    #[error("insufficient data left in message")]
    Truncated,
    /// A string without its terminating NUL.
    #[error("unterminated string in message")]
    Unterminated,
    /// Bytes after the last field.
    #[error("invalid message format: {0} bytes too many")]
    Trailing(usize),
    /// A list without its terminator, or with the terminator in its middle.
    #[error("invalid layout: expected terminator as last byte")]
    Terminator,
    /// A name longer than [`frontend::MAX_NAMES`](crate::frontend::MAX_NAMES).
    #[error("statement and portal names are too long")]
    NameTooLong,
    /// A cancel key whose length is not 4 to 256 bytes.
    #[error("invalid cancel key length {0}")]
    CancelKeyLength(usize),
    /// Something other than `S` or `P` in Describe or Close.
    #[error("invalid message subtype {0}")]
    Target(u8),
    /// Something other than `I`, `T` or `E` in ReadyForQuery.
    #[error("invalid transaction status {0}")]
    TransactionStatus(u8),
    /// A format code that is neither 0 nor 1.
    #[error("unsupported format code: {0}")]
    Format(i16),
    /// A negative number where a count or a length belongs.
    #[error("invalid count in message: {0}")]
    Count(i32),
}
