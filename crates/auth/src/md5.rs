//! The md5 method (AuthenticationMD5Password): `"md5" + hex(md5(hex(md5(password + user)) + salt))`.

use ::md5::{Digest, Md5};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroize;

use crate::{Origin, Secret, hmac_sha256};

/// The stored form `"md5" + hex(md5(password + user))`, kept as its 32 hexadecimal digits. It is as good as the password: whoever has it can log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Md5Hash {
    hex: [u8; 32],
    origin: Origin,
}

impl Md5Hash {
    /// Reads `md5` and 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("md5")?;
        let is_hex = digits
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let hex = digits.as_bytes().try_into().ok().filter(|_| is_hex)?;
        Some(Md5Hash {
            hex,
            origin: Origin::Real,
        })
    }

    /// The hash of a password; the user's name is its salt.
    pub fn of(password: &[u8], user: &str) -> Self {
        Md5Hash {
            hex: hex_digest(&[password, user.as_bytes()]),
            origin: Origin::Real,
        }
    }

    /// A stand-in for a user that does not exist: costs the same as a real one and never matches.
    pub fn mock(user: &str, process_secret: &[u8; 32]) -> Self {
        let hex = hex_digest(&[&hmac_sha256(process_secret, &[b"md5", user.as_bytes()])]);
        Md5Hash {
            hex,
            origin: Origin::Mock,
        }
    }

    pub(crate) fn matches(&self, other: &Md5Hash) -> Choice {
        self.hex.ct_eq(&other.hex) & self.origin.may_succeed()
    }

    fn response(&self, salt: [u8; 4]) -> String {
        let digest = hex_digest(&[&self.hex, &salt]);
        format!("md5{}", String::from_utf8_lossy(&digest))
    }
}

impl Drop for Md5Hash {
    fn drop(&mut self) {
        self.hex.zeroize();
    }
}

/// Whether a client's `response` to `salt` proves the secret of `user`. Never for a SCRAM secret or an empty password.
pub fn verify(secret: &Secret, user: &str, salt: [u8; 4], response: &[u8]) -> bool {
    let Some(hash) = stored_hash(secret, user) else {
        return false;
    };
    let proved = hash.response(salt).as_bytes().ct_eq(response);
    (proved & hash.origin.may_succeed()).into()
}

/// What a server that sent `salt` expects from `user`. `None` if the secret cannot serve md5: a SCRAM secret or an empty password.
pub fn response(secret: &Secret, user: &str, salt: [u8; 4]) -> Option<String> {
    stored_hash(secret, user).map(|hash| hash.response(salt))
}

fn stored_hash(secret: &Secret, user: &str) -> Option<Md5Hash> {
    match secret {
        Secret::Md5(hash) => Some(hash.clone()),
        _ => secret
            .password()
            .map(|password| Md5Hash::of(password.as_bytes(), user)),
    }
}

fn hex_digest(parts: &[&[u8]]) -> [u8; 32] {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut md5 = Md5::new();
    parts.iter().for_each(|part| md5.update(part));
    let mut hex = [0; 32];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(md5.finalize()) {
        pair.copy_from_slice(&[
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ]);
    }
    hex
}

opaque_debug!(Md5Hash);
