//! SCRAM-SHA-256 (RFC 5802, RFC 7677; PostgreSQL's manual, "SASL Authentication") in both roles.
//!
//! [`Server`] faces our clients, [`Client`] faces PostgreSQL. Each state is a type that the next message consumes, so that no message can
//! be taken out of order. Messages are the SASL data without PostgreSQL's framing. Every length is bounded, no input panics.

mod attributes;
mod client;
mod keys;
mod nonce;
mod server;
mod verifier;

pub use client::{
    AwaitingServerFinal, AwaitingServerFirst, Client, Credential, KeyDerivation, ServerFirst,
};
pub use keys::{DerivedKeys, ScramKeys};
pub use nonce::Nonce;
pub use server::{Accepted, AwaitingClientFinal, Server};
pub use verifier::ScramVerifier;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The SASL mechanism's name in AuthenticationSASL and SASLInitialResponse.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The default of `scram_iterations`.
pub const ITERATIONS_DEFAULT: u32 = 4096;
/// The most iterations that a server may ask of us (PgBouncer's bound; CVE-2026-6669 is the attack without one).
pub const ITERATIONS_MAX: u32 = 1_000_000;
/// The length of the salts that we make, in bytes: PostgreSQL's.
pub const SALT_LENGTH: usize = 16;
/// The longest message that either side may send, in bytes.
pub const MESSAGE_LENGTH_MAX: usize = 4096;
/// The longest nonce (for a server's: with ours in front) that a peer may send, in bytes.
pub const NONCE_LENGTH_MAX: usize = 1024;
/// The longest salt that a server may send, in bytes.
pub const SALT_LENGTH_MAX: usize = 1024;

/// Why an exchange ended. All but [`WrongProof`](ScramError::WrongProof) and [`Refused`](ScramError::Refused) are violations of the protocol by the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    #[error("SCRAM message longer than {MESSAGE_LENGTH_MAX} bytes")]
    TooLong,
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    #[error("the peer requires an unsupported SCRAM extension")]
    MandatoryExtension,
    /// From a client.
    #[error("the client uses an authorization identity, which is not supported")]
    AuthorizationIdentity,
    /// From a client that binds to a channel although SCRAM-SHA-256-PLUS was not offered.
    #[error("the client requires SCRAM channel binding, which was not offered")]
    ChannelBindingNotOffered,
    /// From a client: somebody in between changed what one side said about channel binding.
    #[error("SCRAM channel binding check failed")]
    ChannelBindingMismatch,
    /// From either: the nonce is not the one of this exchange.
    #[error("SCRAM nonce does not match")]
    NonceMismatch,
    /// From a client: the password is wrong, or the user does not exist.
    #[error("password authentication failed")]
    WrongProof,
    /// From a server.
    #[error("the server asks for {asked} SCRAM iterations, at most {max} are allowed")]
    TooManyIterations { asked: u32, max: u32 },
    /// From a server: it does not know the password's verifier, so it is not who it claims to be.
    #[error("the server's SCRAM signature is wrong")]
    WrongServerSignature,
    /// From a server: it refused in its final message, for this reason.
    #[error("the server refused the SCRAM exchange: {0}")]
    Refused(String),
}

fn within_limit(message: &[u8]) -> Result<&[u8], ScramError> {
    if message.len() <= MESSAGE_LENGTH_MAX {
        Ok(message)
    } else {
        Err(ScramError::TooLong)
    }
}

fn decode_key(base64: &[u8]) -> Option<[u8; 32]> {
    STANDARD.decode(base64).ok()?.try_into().ok()
}

/// What binds the exchange to its channel, base64-encoded in `c=`: the client's own gs2-header, and behind it the channel's data.
///
/// Without TLS there is no such data. This is the place for tls-server-end-point (RFC 5929): the hash of the certificate follows the header.
fn channel_binding(gs2_header: &[u8]) -> String {
    STANDARD.encode(gs2_header)
}
