//! Entry points for fuzzing: each takes any bytes and must neither panic nor accept what it should not.
//!
//! The exchanges are deterministic, so that a corpus can hold valid ones (the password is [`PASSWORD`], our nonce [`NONCE`]).

use std::sync::LazyLock;

use crate::scram::{
    AwaitingServerFinal, Client, Credential, DerivedKeys, MESSAGE_LENGTH_MAX, Nonce, ScramError,
    Server, ServerFirst,
};
use crate::{Password, USER_LENGTH_MAX, UserList};

pub const PASSWORD: &[u8] = b"pencil";
pub const SALT: &[u8] = b"0123456789abcdef";
pub const ITERATIONS: u32 = 1;
pub const NONCE: [u8; Nonce::RAW_LENGTH] = [7; Nonce::RAW_LENGTH];

/// A server may ask the fuzzed client for this many iterations: few, for the fuzzer's speed.
const ITERATIONS_MAX: u32 = 16;

static DERIVED: LazyLock<DerivedKeys> =
    LazyLock::new(|| DerivedKeys::derive(PASSWORD, SALT, ITERATIONS));

/// A client's two messages, separated by a NUL, towards our server.
pub fn scram_server(data: &[u8]) {
    let (first, last) = split(data);
    let server = Server::new(DERIVED.verifier(), Nonce::from_bytes(NONCE));
    let Ok((server_first, awaiting)) = server.client_first(first) else {
        return;
    };
    assert!(server_first.len() <= MESSAGE_LENGTH_MAX);
    if let Ok(accepted) = awaiting.client_final(last) {
        assert!(
            accepted.keys == *DERIVED.keys(),
            "accepted without the ClientKey"
        );
    }
}

/// A server's two messages, separated by a NUL, towards our client.
pub fn scram_client(data: &[u8]) {
    let (first, last) = split(data);
    let Ok(awaiting) = answer(first) else {
        return;
    };
    assert!(awaiting.client_final().len() <= MESSAGE_LENGTH_MAX);
    if awaiting.server_final(last).is_ok() {
        assert!(last.starts_with(b"v="), "accepted without a signature");
    }
}

fn answer(server_first: &[u8]) -> Result<AwaitingServerFinal, ScramError> {
    let credential = Credential::Password {
        password: Password::new(PASSWORD),
        derived: None,
    };
    let (_, awaiting) = Client::new(credential, Nonce::from_bytes(NONCE)).client_first();
    Ok(match awaiting.server_first(server_first, ITERATIONS_MAX)? {
        ServerFirst::Ready(awaiting) => awaiting,
        ServerFirst::Derive(derivation) => derivation.run().1,
    })
}

/// The text of a user list.
pub fn user_list(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match UserList::load(text) {
        Ok(list) => {
            assert!(list.len() <= text.lines().count());
            assert!(
                list.names()
                    .all(|name| (1..=USER_LENGTH_MAX).contains(&name.len()))
            );
        }
        Err(errors) => {
            let lines = text.lines().count();
            assert!(!errors.is_empty());
            assert!(errors.iter().all(|error| (1..=lines).contains(&error.line)));
        }
    }
}

fn split(data: &[u8]) -> (&[u8], &[u8]) {
    let end = data
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(data.len());
    (&data[..end], data.get(end + 1..).unwrap_or_default())
}
