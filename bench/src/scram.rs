//! SCRAM-SHA-256 as the client of a measurement speaks it (RFC 5802, RFC 7677), and verifiers for a pooler's `auth_file`.
//!
//! The salted password is derived once per salt and kept: a driver's connection pool does the same, and a generator
//! that spent a millisecond of PBKDF2 on every log-in would measure itself. It is independent of Weir's own
//! implementation on purpose: the referee does not borrow a player's eyes.

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

pub const ITERATIONS: u32 = 4096;
const SALT: &[u8; 16] = b"weir-bench-salt!";
const NONCE: &str = "weirbenchclientnonce";

type Key = [u8; 32];

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length")
    };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn salted_password(password: &str, salt: &[u8], iterations: u32) -> Key {
    pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, iterations)
}

/// The text that PostgreSQL stores for `password`: what a pooler's `auth_file` carries.
pub fn verifier(password: &str) -> String {
    let salted = salted_password(password, SALT, ITERATIONS);
    let stored_key = Sha256::digest(hmac(&salted, &[b"Client Key"]));
    let server_key = hmac(&salted, &[b"Server Key"]);
    format!(
        "SCRAM-SHA-256${ITERATIONS}:{}${}:{}",
        BASE64.encode(SALT),
        BASE64.encode(stored_key),
        BASE64.encode(server_key)
    )
}

/// One user's password and the key derived from it for the salt seen last.
pub struct Secret {
    password: String,
    derived: Option<Derived>,
}

struct Derived {
    salt: String,
    iterations: u32,
    client_key: Key,
}

impl Secret {
    pub fn new(password: &str) -> Self {
        Self {
            password: password.to_owned(),
            derived: None,
        }
    }

    fn client_key(&mut self, salt: &str, iterations: u32) -> Result<Key> {
        if let Some(known) = &self.derived
            && known.salt == salt
            && known.iterations == iterations
        {
            return Ok(known.client_key);
        }
        let salted = salted_password(&self.password, &BASE64.decode(salt)?, iterations);
        let client_key = hmac(&salted, &[b"Client Key"]);
        self.derived = Some(Derived {
            salt: salt.to_owned(),
            iterations,
            client_key,
        });
        Ok(client_key)
    }

    /// The answer to the server's first message (RFC 5802, section 3, "client-final-message").
    pub fn client_final(&mut self, server_first: &str) -> Result<String> {
        let field = |prefix: &str| {
            server_first
                .split(',')
                .find_map(|field| field.strip_prefix(prefix))
                .with_context(|| format!("no {prefix} in the server's SCRAM message"))
        };
        let nonce = field("r=")?;
        if !nonce.starts_with(NONCE) {
            bail!("the server's SCRAM nonce does not continue ours");
        }
        let client_key = self.client_key(field("s=")?, field("i=")?.parse()?)?;
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("n=,r={NONCE},{server_first},{without_proof}");
        let signature = hmac(&Sha256::digest(client_key), &[signed.as_bytes()]);
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(key, sign)| key ^ sign)
            .collect();
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)))
    }
}

/// The first message of every exchange. A fixed nonce is fine where nothing is secret.
pub fn client_first() -> String {
    format!("n,,n=,r={NONCE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_has_postgresqls_form() {
        let text = verifier("secret");
        assert!(text.starts_with("SCRAM-SHA-256$4096:"), "{text}");
        assert_eq!(text.matches(':').count(), 2);
    }

    #[test]
    fn the_proof_opens_the_stored_key() {
        let server_first = format!("r={NONCE}server,s={},i={ITERATIONS}", BASE64.encode(SALT));
        let answer = Secret::new("secret")
            .client_final(&server_first)
            .expect("a well-formed message");
        let (without_proof, proof) = answer.split_once(",p=").expect("a proof");
        let verifier = verifier("secret");
        let stored = verifier.split(['$', ':']).nth(3).expect("StoredKey");
        let stored_key = BASE64.decode(stored).expect("base64");
        let signed = format!("n=,r={NONCE},{server_first},{without_proof}");
        let signature = hmac(&stored_key, &[signed.as_bytes()]);
        let proof = BASE64.decode(proof).expect("base64");
        let client_key: Vec<u8> = proof.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(client_key).as_slice(), stored_key);
    }
}
