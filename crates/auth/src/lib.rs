//! Secrets, the user list, and the password exchanges of both sides as state machines.
//!
//! Owns what a stored secret is ([`Secret`], [`UserList`]) and the three exchanges of PostgreSQL's manual, "Password Authentication":
//! [`plain`], [`md5`] and [`scram`]. Deliberately knows no socket, no clock and no random source: messages are byte slices without
//! their protocol framing, randomness is an argument. The control thread's log-in of clients and of servers calls it.
//!
//! Work that costs milliseconds (PBKDF2) is only done by functions whose documentation says "expensive"; they are to run off the event loop.

/// `Debug` for types that hold secrets: the type's name and nothing else.
macro_rules! opaque_debug {
    ($($name:ident),+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )+};
}

pub mod md5;
pub mod plain;
pub mod scram;
mod secret;
mod user_list;

#[doc(hidden)]
pub mod fuzz;

pub use secret::{Password, Secret};
pub use user_list::{
    PASSWORD_LENGTH_MAX, USER_LENGTH_MAX, UserList, UserListError, UserListErrorKind,
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Whether a secret belongs to a user, or stands in for one that does not exist.
///
/// An exchange with a mock costs and looks the same, and never succeeds, whatever the other side proves (CVE-2015-6817 is the class).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Real,
    Mock,
}

impl Origin {
    fn may_succeed(self) -> subtle::Choice {
        subtle::Choice::from(u8::from(self == Origin::Real))
    }
}

/// HMAC-SHA-256 of `parts`, one after the other.
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    #[expect(clippy::unwrap_used, reason = "HMAC takes keys of every length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}
