//! The server's role, towards our clients.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::attributes::Attributes;
use super::{
    Nonce, ScramError, ScramKeys, ScramVerifier, channel_binding, decode_key, keys, nonce,
    within_limit,
};

/// Before the client's first message (SASLInitialResponse).
pub struct Server {
    verifier: ScramVerifier,
    nonce: Nonce,
}

/// After server-first-message (AuthenticationSASLContinue), before the client's final one (SASLResponse).
pub struct AwaitingClientFinal {
    verifier: ScramVerifier,
    /// What the client's `c=` has to be.
    channel_binding: String,
    /// The client's nonce and ours.
    nonce: String,
    client_first_bare: Vec<u8>,
    server_first: Vec<u8>,
}

/// The client has proved that it knows the password.
pub struct Accepted {
    /// For AuthenticationSASLFinal.
    pub server_final: Vec<u8>,
    /// What the proof revealed: enough to log in to a server that stores the same verifier (pass-through).
    pub keys: ScramKeys,
}

impl Server {
    /// For a user that does not exist, pass [`ScramVerifier::mock`]. The exchange must have chosen [`MECHANISM`](super::MECHANISM).
    pub fn new(verifier: ScramVerifier, nonce: Nonce) -> Self {
        Server { verifier, nonce }
    }

    /// Takes client-first-message, returns server-first-message.
    ///
    /// The user name in it is ignored as in PostgreSQL: that of the StartupMessage counts.
    pub fn client_first(
        self,
        message: &[u8],
    ) -> Result<(Vec<u8>, AwaitingClientFinal), ScramError> {
        let message = within_limit(message)?;
        let client_first_bare = after_gs2_header(message)?;
        let gs2_header = &message[..message.len() - client_first_bare.len()];

        let mut attributes = Attributes::new(client_first_bare);
        attributes.expect(b'n', "the user name is missing")?;
        let client_nonce = nonce::checked(attributes.expect(b'r', "the nonce is missing")?)?;
        attributes.only_extensions_left()?;

        let nonce = format!("{client_nonce}{}", self.nonce.as_str());
        let salt = STANDARD.encode(self.verifier.salt());
        let server_first =
            format!("r={nonce},s={salt},i={}", self.verifier.iterations()).into_bytes();
        let awaiting = AwaitingClientFinal {
            verifier: self.verifier,
            channel_binding: channel_binding(gs2_header),
            nonce,
            client_first_bare: client_first_bare.to_vec(),
            server_first: server_first.clone(),
        };
        Ok((server_first, awaiting))
    }
}

impl AwaitingClientFinal {
    /// Takes client-final-message.
    ///
    /// # Errors
    /// [`ScramError::WrongProof`] for a wrong password and for a mock; any other is the client's violation of the protocol.
    pub fn client_final(self, message: &[u8]) -> Result<Accepted, ScramError> {
        let (without_proof, proof) = split_proof(within_limit(message)?)?;
        self.check(without_proof)?;
        let auth_message =
            keys::auth_message(&self.client_first_bare, &self.server_first, without_proof);
        let (client_key, genuine) =
            keys::recover_client_key(&proof, self.verifier.stored_key(), &auth_message);
        let server_key = *self.verifier.server_key();
        let keys = ScramKeys {
            client_key,
            server_key,
        };
        if !bool::from(genuine & self.verifier.origin().may_succeed()) {
            return Err(ScramError::WrongProof);
        }
        let signature = STANDARD.encode(keys::server_signature(&server_key, &auth_message));
        Ok(Accepted {
            server_final: format!("v={signature}").into_bytes(),
            keys,
        })
    }

    fn check(&self, without_proof: &[u8]) -> Result<(), ScramError> {
        let mut attributes = Attributes::new(without_proof);
        let channel_binding = attributes.expect(b'c', "the channel binding is missing")?;
        let nonce = attributes.expect(b'r', "the nonce is missing")?;
        attributes.only_extensions_left()?;
        if channel_binding != self.channel_binding.as_bytes() {
            return Err(ScramError::ChannelBindingMismatch);
        }
        if nonce != self.nonce.as_bytes() {
            return Err(ScramError::NonceMismatch);
        }
        Ok(())
    }
}

/// Checks the gs2-header (`flag,authzid,`) and returns client-first-message-bare behind it.
fn after_gs2_header(message: &[u8]) -> Result<&[u8], ScramError> {
    let mut parts = message.splitn(3, |&byte| byte == b',');
    let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(ScramError::Malformed("the gs2-header is incomplete"));
    };
    // "y" (the client could bind, and thinks that we cannot) is right as long as SCRAM-SHA-256-PLUS is never offered; where it is, "y" means
    // that somebody removed it from our offer, and "p" names the kind of binding.
    match flag {
        b"n" | b"y" => {}
        [b'p', b'=', ..] => return Err(ScramError::ChannelBindingNotOffered),
        _ => return Err(ScramError::Malformed("the channel binding flag is unknown")),
    }
    match identity {
        [] => Ok(bare),
        [b'a', b'=', ..] => Err(ScramError::AuthorizationIdentity),
        _ => Err(ScramError::Malformed("the gs2-header is malformed")),
    }
}

/// The proof is always the last attribute, and what precedes it is what has been signed.
fn split_proof(message: &[u8]) -> Result<(&[u8], [u8; 32]), ScramError> {
    let comma = message
        .iter()
        .rposition(|&byte| byte == b',')
        .ok_or(ScramError::Malformed("the proof is missing"))?;
    let (without_proof, last) = message.split_at(comma);
    let proof = last
        .strip_prefix(b",p=")
        .ok_or(ScramError::Malformed("the proof is missing"))?;
    let proof = decode_key(proof).ok_or(ScramError::Malformed(
        "the proof is not the base64 of 32 bytes",
    ))?;
    Ok((without_proof, proof))
}

opaque_debug!(Server, AwaitingClientFinal, Accepted);
