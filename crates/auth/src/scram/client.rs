//! The client's role, towards PostgreSQL.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use super::attributes::Attributes;
use super::{
    DerivedKeys, Nonce, SALT_LENGTH_MAX, ScramError, ScramKeys, channel_binding, decode_key, keys,
    nonce, within_limit,
};
use crate::{Password, Secret};

/// We do not support channel binding and act for nobody else.
const GS2_HEADER: &[u8] = b"n,,";

/// What we log in with.
#[derive(Debug, Clone)]
pub enum Credential {
    Password {
        password: Password,
        /// What an earlier log-in with the same password derived. Used if the server's salt and iteration count are still the same.
        derived: Option<DerivedKeys>,
    },
    /// Pass-through: nothing to derive, salt and iteration count do not matter.
    Keys(ScramKeys),
}

impl Credential {
    /// `None` if the secret cannot serve SCRAM towards a server: an md5 hash, a verifier, an empty password.
    pub fn new(secret: &Secret, derived: Option<DerivedKeys>) -> Option<Self> {
        match secret {
            Secret::ScramKeys(keys) => Some(Credential::Keys(keys.clone())),
            _ => secret.password().map(|password| Credential::Password {
                password: password.clone(),
                derived,
            }),
        }
    }
}

/// Before our first message.
pub struct Client {
    credential: Credential,
    nonce: Nonce,
}

/// After our first message, before the server's (AuthenticationSASLContinue).
pub struct AwaitingServerFirst {
    credential: Credential,
    nonce: Nonce,
    client_first_bare: Vec<u8>,
}

/// What follows the server's first message.
#[derive(Debug)]
pub enum ServerFirst {
    /// Our final message is ready.
    Ready(AwaitingServerFinal),
    /// It takes a derivation first: run it off the event loop.
    Derive(KeyDerivation),
}

/// A derivation to be run, and the exchange that waits for it.
pub struct KeyDerivation {
    password: Password,
    salt: Vec<u8>,
    iterations: u32,
    unsigned: UnsignedFinal,
}

/// Our final message (SASLResponse), and what is left to do: check the server's (AuthenticationSASLFinal).
pub struct AwaitingServerFinal {
    client_final: Vec<u8>,
    server_signature: [u8; 32],
}

/// Our final message without its proof.
struct UnsignedFinal {
    without_proof: Vec<u8>,
    auth_message: Vec<u8>,
}

impl Client {
    pub fn new(credential: Credential, nonce: Nonce) -> Self {
        Client { credential, nonce }
    }

    /// Returns client-first-message for SASLInitialResponse. The user name is left empty as libpq does: that of the StartupMessage counts.
    pub fn client_first(self) -> (Vec<u8>, AwaitingServerFirst) {
        let client_first_bare = format!("n=,r={}", self.nonce.as_str()).into_bytes();
        let message = [GS2_HEADER, &client_first_bare].concat();
        (
            message,
            AwaitingServerFirst {
                credential: self.credential,
                nonce: self.nonce,
                client_first_bare,
            },
        )
    }
}

impl AwaitingServerFirst {
    /// Takes server-first-message. `iterations_max` bounds the derivation, see [`ITERATIONS_MAX`](super::ITERATIONS_MAX).
    pub fn server_first(
        self,
        message: &[u8],
        iterations_max: u32,
    ) -> Result<ServerFirst, ScramError> {
        let Challenge {
            nonce,
            salt,
            iterations,
        } = Challenge::parse(within_limit(message)?, self.nonce.as_str())?;
        let without_proof = format!("c={},r={nonce}", channel_binding(GS2_HEADER)).into_bytes();
        let auth_message = keys::auth_message(&self.client_first_bare, message, &without_proof);
        let unsigned = UnsignedFinal {
            without_proof,
            auth_message,
        };
        match self.credential {
            Credential::Keys(keys) => Ok(ServerFirst::Ready(unsigned.sign(&keys))),
            Credential::Password {
                derived: Some(derived),
                ..
            } if derived.serve(&salt, iterations) => {
                Ok(ServerFirst::Ready(unsigned.sign(derived.keys())))
            }
            Credential::Password { .. } if iterations > iterations_max => {
                Err(ScramError::TooManyIterations {
                    asked: iterations,
                    max: iterations_max,
                })
            }
            Credential::Password { password, .. } => Ok(ServerFirst::Derive(KeyDerivation {
                password,
                salt,
                iterations,
                unsigned,
            })),
        }
    }
}

impl KeyDerivation {
    /// Expensive, see [`DerivedKeys::derive`]. The keys are for the next log-in with this password.
    pub fn run(self) -> (DerivedKeys, AwaitingServerFinal) {
        let derived = DerivedKeys::derive(self.password.as_bytes(), &self.salt, self.iterations);
        let awaiting = self.unsigned.sign(derived.keys());
        (derived, awaiting)
    }
}

impl UnsignedFinal {
    fn sign(self, keys: &ScramKeys) -> AwaitingServerFinal {
        let proof = STANDARD.encode(keys::client_proof(&keys.client_key, &self.auth_message));
        AwaitingServerFinal {
            client_final: [&self.without_proof, b",p=".as_slice(), proof.as_bytes()].concat(),
            server_signature: keys::server_signature(&keys.server_key, &self.auth_message),
        }
    }
}

impl AwaitingServerFinal {
    /// client-final-message, to be sent in SASLResponse.
    pub fn client_final(&self) -> &[u8] {
        &self.client_final
    }

    /// Takes server-final-message. AuthenticationOk counts only after this has succeeded: it is what proves the server.
    pub fn server_final(self, message: &[u8]) -> Result<(), ScramError> {
        let message = within_limit(message)?;
        if let Some(reason) = message.strip_prefix(b"e=") {
            return Err(ScramError::Refused(printable(reason)));
        }
        let mut attributes = Attributes::new(message);
        let signature = attributes.expect(b'v', "the server's signature is missing")?;
        attributes.only_extensions_left()?;
        let signature = decode_key(signature).ok_or(ScramError::Malformed(
            "the server's signature is not the base64 of 32 bytes",
        ))?;
        if bool::from(signature.ct_eq(&self.server_signature)) {
            Ok(())
        } else {
            Err(ScramError::WrongServerSignature)
        }
    }
}

/// The content of server-first-message.
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> Challenge<'a> {
    fn parse(message: &'a [u8], our_nonce: &str) -> Result<Self, ScramError> {
        let mut attributes = Attributes::new(message);
        let nonce = nonce::checked(attributes.expect(b'r', "the nonce is missing")?)?;
        let salt = attributes.expect(b's', "the salt is missing")?;
        let iterations = attributes.expect(b'i', "the iteration count is missing")?;
        attributes.only_extensions_left()?;
        // A server that adds nothing of its own could replay an exchange.
        if !nonce.starts_with(our_nonce) || nonce.len() == our_nonce.len() {
            return Err(ScramError::NonceMismatch);
        }
        Ok(Challenge {
            nonce,
            salt: parse_salt(salt)?,
            iterations: parse_iterations(iterations)?,
        })
    }
}

fn parse_salt(base64: &[u8]) -> Result<Vec<u8>, ScramError> {
    let salt = STANDARD
        .decode(base64)
        .ok()
        .filter(|salt| (1..=SALT_LENGTH_MAX).contains(&salt.len()));
    salt.ok_or(ScramError::Malformed(
        "the salt is not base64, empty or too long",
    ))
}

/// RFC 5802, section 7: `posit-number`, which neither has a sign nor starts with a zero.
fn parse_iterations(digits: &[u8]) -> Result<u32, ScramError> {
    let is_number =
        matches!(digits, [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit));
    let number = str::from_utf8(digits)
        .ok()
        .filter(|_| is_number)
        .and_then(|text| text.parse().ok());
    number.ok_or(ScramError::Malformed(
        "the iteration count is not a positive number",
    ))
}

/// The server's reason ends in our log: its control characters must not.
fn printable(reason: &[u8]) -> String {
    String::from_utf8_lossy(reason)
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect()
}

opaque_debug!(
    Client,
    AwaitingServerFirst,
    KeyDerivation,
    AwaitingServerFinal
);
