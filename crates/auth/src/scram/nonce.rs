//! Our half of an exchange's nonce.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::CryptoRng;

use super::{NONCE_LENGTH_MAX, ScramError};

/// One fresh nonce of ours, for one exchange: neither `Clone` nor reusable.
pub struct Nonce(String);

impl Nonce {
    /// The number of random bytes: PostgreSQL's.
    pub const RAW_LENGTH: usize = 18;

    pub fn random(rng: &mut impl CryptoRng) -> Self {
        let mut bytes = [0; Self::RAW_LENGTH];
        rng.fill_bytes(&mut bytes);
        Self::from_bytes(bytes)
    }

    pub fn from_bytes(bytes: [u8; Self::RAW_LENGTH]) -> Self {
        Nonce(STANDARD.encode(bytes))
    }

    #[cfg(test)]
    pub(super) fn from_text(text: &str) -> Self {
        Nonce(text.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A peer's nonce: printable ASCII (a comma cannot occur, it ends the attribute), neither empty nor longer than [`NONCE_LENGTH_MAX`].
pub(super) fn checked(nonce: &[u8]) -> Result<&str, ScramError> {
    if nonce.is_empty() || nonce.len() > NONCE_LENGTH_MAX {
        return Err(ScramError::Malformed("the nonce is empty or too long"));
    }
    match str::from_utf8(nonce) {
        Ok(text) if nonce.iter().all(u8::is_ascii_graphic) => Ok(text),
        _ => Err(ScramError::Malformed("the nonce is not printable ASCII")),
    }
}

opaque_debug!(Nonce);
