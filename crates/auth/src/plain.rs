//! The clear-text password (AuthenticationCleartextPassword).

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::md5::Md5Hash;
use crate::{Password, Secret};

/// Whether `given` is the password of `user`. An empty password never is.
///
/// Takes the same time whatever is `given`. Expensive when the secret is a SCRAM verifier.
pub fn verify(secret: &Secret, user: &str, given: &[u8]) -> bool {
    if given.is_empty() {
        return false;
    }
    match secret {
        Secret::Plain(password) => same_password(password, given),
        Secret::Md5(hash) => hash.matches(&Md5Hash::of(given, user)).into(),
        Secret::Scram(verifier) => verifier.matches_password(given),
        Secret::ScramKeys(_) => false,
    }
}

/// Compares digests, so that the time does not tell how long the stored password is.
fn same_password(stored: &Password, given: &[u8]) -> bool {
    Sha256::digest(stored.as_bytes())
        .ct_eq(&Sha256::digest(given))
        .into()
}
