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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::Password;

    const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    /// The example of RFC 7677, section 3.
    #[test]
    fn server_answers_as_in_rfc_7677() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = ScramVerifier::from_password(b"pencil", &salt, 4096);
        let client_first = format!("n,,n=user,r={CLIENT_NONCE}");

        let server = Server::new(verifier, Nonce::from_text(SERVER_NONCE));
        let (server_first, awaiting) = server.client_first(client_first.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(server_first).unwrap(), SERVER_FIRST);
        let accepted = awaiting.client_final(CLIENT_FINAL.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(accepted.server_final).unwrap(),
            SERVER_FINAL
        );
    }

    /// The same example; our client leaves the user name empty, so that its proof differs and only the keys and the form can be compared.
    #[test]
    fn client_answers_in_the_form_of_rfc_7677() {
        let password = Password::new("pencil");
        let credential = Credential::Password {
            password,
            derived: None,
        };
        let client = Client::new(credential, Nonce::from_text(CLIENT_NONCE));
        let (client_first, awaiting) = client.client_first();
        assert_eq!(client_first, b"n,,n=,r=rOprNGfwEbeRWgbNEkqO");

        let server_first = awaiting
            .server_first(SERVER_FIRST.as_bytes(), ITERATIONS_MAX)
            .unwrap();
        let ServerFirst::Derive(derivation) = server_first else {
            panic!("nothing is cached")
        };
        let (derived, awaiting) = derivation.run();
        let without_proof = CLIENT_FINAL.rsplit_once(",p=").unwrap().0;
        assert!(
            awaiting
                .client_final()
                .starts_with(without_proof.as_bytes())
        );

        let signed = [
            b"n=user,r=rOprNGfwEbeRWgbNEkqO",
            SERVER_FIRST.as_bytes(),
            without_proof.as_bytes(),
        ];
        let auth_message = keys::auth_message(signed[0], signed[1], signed[2]);
        let proof = keys::client_proof(&derived.keys().client_key, &auth_message);
        let signature = keys::server_signature(&derived.keys().server_key, &auth_message);
        assert!(CLIENT_FINAL.ends_with(&STANDARD.encode(proof)));
        assert!(SERVER_FINAL.ends_with(&STANDARD.encode(signature)));
    }
}
