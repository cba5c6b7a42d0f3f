//! Our SCRAM client against our SCRAM server: what has to work, and that nothing else does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use auth::scram::{
    Accepted, AwaitingServerFinal, Client, Credential, DerivedKeys, Nonce, ScramError, ScramKeys,
    ScramVerifier, Server, ServerFirst,
};
use auth::{Password, Secret};
use rand::SeedableRng;
use rand::rngs::StdRng;

const ITERATIONS_MAX: u32 = 10_000;
const SALT: &[u8] = b"0123456789abcdef";

/// What may happen to a message on its way: its number in the exchange (0 to 3) and its bytes.
type Tamper<'a> = &'a dyn Fn(usize, &mut Vec<u8>);

const UNTOUCHED: Tamper<'static> = &|_, _| {};

fn with_password(password: &str) -> Credential {
    Credential::Password {
        password: Password::new(password),
        derived: None,
    }
}

fn ready(server_first: ServerFirst) -> (Option<DerivedKeys>, AwaitingServerFinal) {
    match server_first {
        ServerFirst::Ready(awaiting) => (None, awaiting),
        ServerFirst::Derive(derivation) => {
            let (derived, awaiting) = derivation.run();
            (Some(derived), awaiting)
        }
    }
}

/// Runs a whole exchange. `Ok` means that both sides are content.
fn exchange(
    verifier: ScramVerifier,
    credential: Credential,
    tamper: Tamper,
) -> Result<(Accepted, Option<DerivedKeys>), ScramError> {
    let mut rng = StdRng::seed_from_u64(1);
    let server = Server::new(verifier, Nonce::random(&mut rng));
    let (mut client_first, client) =
        Client::new(credential, Nonce::random(&mut rng)).client_first();
    tamper(0, &mut client_first);
    let (mut server_first, server) = server.client_first(&client_first)?;
    tamper(1, &mut server_first);
    let (derived, client) = ready(client.server_first(&server_first, ITERATIONS_MAX)?);
    let mut client_final = client.client_final().to_vec();
    tamper(2, &mut client_final);
    let mut accepted = server.client_final(&client_final)?;
    tamper(3, &mut accepted.server_final);
    client.server_final(&accepted.server_final)?;
    Ok((accepted, derived))
}

#[test]
fn the_right_password_is_accepted() {
    for password in ["pencil", "Grüß Gott", "a", " ", &"x".repeat(60_000)] {
        let verifier = ScramVerifier::from_password(password.as_bytes(), SALT, 7);
        exchange(verifier, with_password(password), UNTOUCHED).unwrap();
    }
}

#[test]
fn a_wrong_password_is_refused() {
    for wrong in ["Pencil", "pencil ", "pencils", "p"] {
        let verifier = ScramVerifier::from_password(b"pencil", SALT, 7);
        let error = exchange(verifier, with_password(wrong), UNTOUCHED).err();
        assert_eq!(error, Some(ScramError::WrongProof), "{wrong:?}");
    }
}

#[test]
fn saslprep_makes_different_spellings_one_password() {
    let verifier = ScramVerifier::from_password("IX".as_bytes(), SALT, 7);
    exchange(verifier, with_password("I\u{ad}\u{2169}"), UNTOUCHED).unwrap();
}

#[test]
fn what_a_client_proved_logs_in_to_the_server() {
    let verifier = ScramVerifier::from_password(b"pencil", SALT, 7);
    let (accepted, _) = exchange(verifier.clone(), with_password("pencil"), UNTOUCHED).unwrap();
    let secret = Secret::ScramKeys(accepted.keys);
    let credential = Credential::new(&secret, None).unwrap();
    let (again, derived) = exchange(verifier, credential.clone(), UNTOUCHED).unwrap();
    assert!(derived.is_none(), "pass-through derives nothing");
    assert!(Secret::ScramKeys(again.keys) == secret);

    let other_salt = ScramVerifier::from_password(b"pencil", b"another salt", 7);
    assert_eq!(
        exchange(other_salt, credential, UNTOUCHED).err(),
        Some(ScramError::WrongProof)
    );
}

#[test]
fn pass_through_does_not_care_for_the_iteration_count() {
    let keys = ScramKeys {
        client_key: [1; 32],
        server_key: [2; 32],
    };
    let (_, client) =
        Client::new(Credential::Keys(keys), Nonce::from_bytes([0; 18])).client_first();
    let server_first = b"r=AAAAAAAAAAAAAAAAAAAAAAAAx,s=AAAA,i=4294967295";
    assert!(matches!(
        client.server_first(server_first, 1),
        Ok(ServerFirst::Ready(_))
    ));
}

#[test]
fn derived_keys_are_used_for_the_same_salt_and_count_only() {
    let verifier = ScramVerifier::from_password(b"pencil", SALT, 7);
    let (_, derived) = exchange(verifier.clone(), with_password("pencil"), UNTOUCHED).unwrap();
    assert!(derived.is_some());
    let secret = Secret::parse("pencil");
    let cached = Credential::new(&secret, derived).unwrap();

    let (_, again) = exchange(verifier, cached.clone(), UNTOUCHED).unwrap();
    assert!(again.is_none(), "one derivation serves all connections");
    for (salt, iterations) in [(SALT, 8), (b"another salt".as_slice(), 7)] {
        let changed = ScramVerifier::from_password(b"pencil", salt, iterations);
        let (_, again) = exchange(changed, cached.clone(), UNTOUCHED).unwrap();
        assert!(again.is_some(), "the password was set anew");
    }
}

#[test]
fn a_server_cannot_make_us_work_beyond_the_bound() {
    let verifier = ScramVerifier::from_password(b"pencil", SALT, ITERATIONS_MAX + 1);
    let error = exchange(verifier, with_password("pencil"), UNTOUCHED).err();
    assert_eq!(
        error,
        Some(ScramError::TooManyIterations {
            asked: 10_001,
            max: 10_000
        })
    );
}

#[test]
fn a_mock_looks_real_and_never_succeeds() {
    let mock = |user, secret| ScramVerifier::mock(user, &[secret; 32], 4096);
    assert!(
        mock("a", 1) == mock("a", 1),
        "a second try sees the same salt"
    );
    assert_ne!(mock("a", 1).salt(), mock("b", 1).salt());
    assert_ne!(mock("a", 1).salt(), mock("a", 2).salt());
    assert_eq!(
        (mock("a", 1).salt().len(), mock("a", 1).iterations()),
        (16, 4096)
    );
    let error = exchange(mock("a", 1), with_password("a"), UNTOUCHED).err();
    assert_eq!(error, Some(ScramError::WrongProof));
}

#[test]
fn an_impostor_server_is_noticed() {
    let derived = DerivedKeys::derive(b"pencil", SALT, 7);
    let keys = ScramKeys {
        server_key: [0; 32],
        ..derived.keys().clone()
    };
    let verifier = derived.verifier();
    let error = exchange(verifier, Credential::Keys(keys), UNTOUCHED).err();
    assert_eq!(error, Some(ScramError::WrongServerSignature));
}

/// Every byte of every message changed into every other value: one of both sides notices.
#[test]
fn no_changed_byte_goes_unnoticed() {
    let derived = DerivedKeys::derive(b"pencil", SALT, 1);
    for credential in [
        with_password("pencil"),
        Credential::Keys(derived.keys().clone()),
    ] {
        let (accepted, _) = exchange(derived.verifier(), credential.clone(), UNTOUCHED).unwrap();
        assert!(!accepted.server_final.is_empty());
        let mut tried = 0;
        for (number, position) in positions(&derived) {
            for flip in 1..=255 {
                let tamper = |n: usize, message: &mut Vec<u8>| {
                    if n == number {
                        message[position] ^= flip;
                    }
                };
                let outcome = exchange(derived.verifier(), credential.clone(), &tamper);
                assert!(
                    outcome.is_err(),
                    "message {number}, byte {position} xor {flip}"
                );
                tried += 1;
            }
        }
        assert!(tried > 50_000, "the messages are {tried} / 255 bytes long");
    }
}

/// Every message cut short or lengthened: one of both sides notices.
#[test]
fn no_cut_goes_unnoticed() {
    let derived = DerivedKeys::derive(b"pencil", SALT, 1);
    for (number, position) in positions(&derived) {
        for tail in ["", ",", ",x", "\0"] {
            let tamper = |n: usize, message: &mut Vec<u8>| {
                if n == number {
                    message.truncate(position);
                    message.extend_from_slice(tail.as_bytes());
                }
            };
            let outcome = exchange(derived.verifier(), with_password("pencil"), &tamper);
            assert!(
                outcome.is_err(),
                "message {number} cut at {position}, then {tail:?}"
            );
        }
    }
}

/// The number of each message and the index of each of its bytes.
fn positions(derived: &DerivedKeys) -> Vec<(usize, usize)> {
    let lengths = std::cell::RefCell::new(Vec::new());
    let measure = |_, message: &mut Vec<u8>| lengths.borrow_mut().push(message.len());
    exchange(derived.verifier(), with_password("pencil"), &measure).unwrap();
    let lengths = lengths.into_inner();
    lengths
        .iter()
        .enumerate()
        .flat_map(|(n, &length)| (0..length).map(move |i| (n, i)))
        .collect()
}
