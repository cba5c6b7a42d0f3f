//! The keys of RFC 5802, section 3, and their derivation from a password.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::ScramVerifier;
use crate::hmac_sha256;

/// ClientKey and ServerKey: together they log in to every server that stores the matching verifier, without the password.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct ScramKeys {
    pub client_key: [u8; 32],
    pub server_key: [u8; 32],
}

impl ScramKeys {
    /// `StoredKey := H(ClientKey)`.
    pub fn stored_key(&self) -> [u8; 32] {
        stored_key(&self.client_key)
    }
}

/// The keys that one password has with one salt and iteration count. The caller keeps them beside the password, and opening the next server
/// connection costs no derivation.
#[derive(Clone, PartialEq, Eq)]
pub struct DerivedKeys {
    salt: Box<[u8]>,
    iterations: u32,
    keys: ScramKeys,
}

impl DerivedKeys {
    /// Expensive: PBKDF2 with `iterations` rounds, 0.13 ms per thousand on a processor with SHA instructions, several times that without.
    pub fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut salted = Zeroizing::new([0; 32]);
        pbkdf2::pbkdf2_hmac::<Sha256>(&prepared(password), salt, iterations, salted.as_mut());
        let keys = ScramKeys {
            client_key: hmac_sha256(salted.as_ref(), &[b"Client Key"]),
            server_key: hmac_sha256(salted.as_ref(), &[b"Server Key"]),
        };
        DerivedKeys {
            salt: salt.into(),
            iterations,
            keys,
        }
    }

    pub fn keys(&self) -> &ScramKeys {
        &self.keys
    }

    /// What a server stores for the password.
    pub fn verifier(&self) -> ScramVerifier {
        ScramVerifier::new(
            self.iterations,
            &self.salt,
            self.keys.stored_key(),
            self.keys.server_key,
        )
    }

    pub(super) fn serve(&self, salt: &[u8], iterations: u32) -> bool {
        *self.salt == *salt && self.iterations == iterations
    }
}

/// SASLprep, with PostgreSQL's way out: a password that is not UTF-8, contains prohibited characters, or of which nothing would be left is used as it is.
fn prepared(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let prepared = str::from_utf8(password)
        .ok()
        .and_then(|text| stringprep::saslprep(text).ok());
    Zeroizing::new(match prepared {
        Some(text) if !text.is_empty() => Cow::into_owned(text).into_bytes(),
        _ => password.to_vec(),
    })
}

/// The text that both sides sign: the exchange up to the proof.
pub(super) fn auth_message(
    client_first_bare: &[u8],
    server_first: &[u8],
    client_final_without_proof: &[u8],
) -> Vec<u8> {
    [client_first_bare, server_first, client_final_without_proof].join(&b',')
}

/// `ClientProof := ClientKey XOR HMAC(StoredKey, AuthMessage)`.
pub(super) fn client_proof(client_key: &[u8; 32], auth_message: &[u8]) -> [u8; 32] {
    xor(
        client_key,
        &hmac_sha256(&stored_key(client_key), &[auth_message]),
    )
}

/// The ClientKey that made `proof`, and whether it is the one that belongs to `stored`.
pub(super) fn recover_client_key(
    proof: &[u8; 32],
    stored: &[u8; 32],
    auth_message: &[u8],
) -> ([u8; 32], Choice) {
    let client_key = xor(proof, &hmac_sha256(stored, &[auth_message]));
    let genuine = stored_key(&client_key).ct_eq(stored);
    (client_key, genuine)
}

/// `ServerSignature := HMAC(ServerKey, AuthMessage)`.
pub(super) fn server_signature(server_key: &[u8; 32], auth_message: &[u8]) -> [u8; 32] {
    hmac_sha256(server_key, &[auth_message])
}

fn stored_key(client_key: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(client_key).into()
}

fn xor(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    std::array::from_fn(|i| left[i] ^ right[i])
}

opaque_debug!(ScramKeys, DerivedKeys);
