//! What is stored for a user: a password, a hash of it, or keys derived from it.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::md5::Md5Hash;
use crate::scram::{ScramKeys, ScramVerifier};

/// A password in clear. Clones share one allocation, which is wiped when the last one goes. Not necessarily UTF-8.
///
/// `==` is for noticing a changed user list; what a peer sends is compared by [`plain::verify`](crate::plain::verify), in constant time.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<Zeroizing<Vec<u8>>>);

impl Password {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Password(Arc::new(Zeroizing::new(bytes.into())))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The secret of one user, in one of the forms that `auth_file` and `auth_query` may hold.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Serves every method on both sides. An empty one serves none.
    Plain(Password),
    /// Serves md5 on both sides and plain towards clients.
    Md5(Md5Hash),
    /// Serves SCRAM and plain towards clients. Towards servers it serves nothing until a client has proved that it knows the password.
    Scram(ScramVerifier),
    /// What a client's proof revealed: serves SCRAM towards a server that stores the same verifier, and nothing else.
    ScramKeys(ScramKeys),
}

impl Secret {
    /// Tells the forms apart as PostgreSQL does: what is neither a well-formed SCRAM verifier nor a well-formed md5 hash is a password.
    pub fn parse(text: &str) -> Self {
        if let Some(verifier) = ScramVerifier::parse(text) {
            return Secret::Scram(verifier);
        }
        match Md5Hash::parse(text) {
            Some(hash) => Secret::Md5(hash),
            None => Secret::Plain(Password::new(text)),
        }
    }

    /// The password, if there is one and it is not empty. It is also what answers AuthenticationCleartextPassword.
    pub fn password(&self) -> Option<&Password> {
        match self {
            Secret::Plain(password) if !password.is_empty() => Some(password),
            _ => None,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Plain(_) => "Plain(..)",
            Secret::Md5(_) => "Md5(..)",
            Secret::Scram(_) => "Scram(..)",
            Secret::ScramKeys(_) => "ScramKeys(..)",
        })
    }
}

opaque_debug!(Password);
