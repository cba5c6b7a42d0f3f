//! What is stored for a user in place of the password: `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::{DerivedKeys, MECHANISM, SALT_LENGTH, decode_key};
use crate::{Origin, hmac_sha256};

/// A SCRAM-SHA-256 verifier. It does not log in anywhere by itself, but serves to guess the password and to pose as the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    iterations: u32,
    salt: Box<[u8]>,
    stored_key: [u8; 32],
    server_key: [u8; 32],
    origin: Origin,
}

impl ScramVerifier {
    pub(super) fn new(
        iterations: u32,
        salt: &[u8],
        stored_key: [u8; 32],
        server_key: [u8; 32],
    ) -> Self {
        ScramVerifier {
            iterations,
            salt: salt.into(),
            stored_key,
            server_key,
            origin: Origin::Real,
        }
    }

    /// Reads PostgreSQL's form (`pg_authid.rolpassword`).
    pub fn parse(text: &str) -> Option<Self> {
        let (parameters, keys) = text
            .strip_prefix(MECHANISM)?
            .strip_prefix('$')?
            .split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let iterations = iterations.parse().ok().filter(|&count| count > 0)?;
        let salt = STANDARD.decode(salt).ok()?;
        Some(Self::new(
            iterations,
            &salt,
            decode_key(stored_key.as_bytes())?,
            decode_key(server_key.as_bytes())?,
        ))
    }

    /// Writes PostgreSQL's form. Not `Display`, so that no log line prints it by accident.
    pub fn encode(&self) -> String {
        let [salt, stored, server] =
            [&*self.salt, &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        format!("{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }

    /// Expensive, see [`DerivedKeys::derive`].
    pub fn from_password(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        DerivedKeys::derive(password, salt, iterations).verifier()
    }

    /// A stand-in for a user that does not exist: the same salt whenever this user is tried, the same cost, and no proof succeeds.
    pub fn mock(user: &str, process_secret: &[u8; 32], iterations: u32) -> Self {
        let made_up = |label: &[u8]| hmac_sha256(process_secret, &[label, user.as_bytes()]);
        let salt = &made_up(b"salt:")[..SALT_LENGTH];
        let mut verifier = Self::new(iterations, salt, made_up(b"stored:"), made_up(b"server:"));
        verifier.origin = Origin::Mock;
        verifier
    }

    /// Whether `password` belongs to this verifier. Expensive, see [`DerivedKeys::derive`].
    pub fn matches_password(&self, password: &[u8]) -> bool {
        let derived = DerivedKeys::derive(password, &self.salt, self.iterations);
        let same = derived.keys().stored_key().ct_eq(&self.stored_key)
            & derived.keys().server_key.ct_eq(&self.server_key);
        (same & self.origin.may_succeed()).into()
    }

    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    pub(super) fn stored_key(&self) -> &[u8; 32] {
        &self.stored_key
    }

    pub(super) fn server_key(&self) -> &[u8; 32] {
        &self.server_key
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }
}

impl Drop for ScramVerifier {
    fn drop(&mut self) {
        self.stored_key.zeroize();
        self.server_key.zeroize();
    }
}

opaque_debug!(ScramVerifier);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::{Client, Credential, Nonce, ScramError, Server, ServerFirst};
    use super::*;

    /// Guessing a mock's keys is hopeless, so that only here it can be seen that they would not help either.
    #[test]
    fn a_mock_refuses_even_the_right_keys() {
        let derived = DerivedKeys::derive(b"pencil", b"salt", 1);
        let mut verifier = derived.verifier();
        verifier.origin = Origin::Mock;
        assert!(!verifier.matches_password(b"pencil"));

        let nonce = || Nonce::from_bytes([0; Nonce::RAW_LENGTH]);
        let credential = Credential::Keys(derived.keys().clone());
        let (client_first, client) = Client::new(credential, nonce()).client_first();
        let (server_first, server) = Server::new(verifier, nonce())
            .client_first(&client_first)
            .unwrap();
        let ServerFirst::Ready(client) = client.server_first(&server_first, 1).unwrap() else {
            panic!("keys need no derivation");
        };
        assert_eq!(
            server.client_final(client.client_final()).err(),
            Some(ScramError::WrongProof)
        );
    }
}
