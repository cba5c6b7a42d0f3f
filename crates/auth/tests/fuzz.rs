//! A short, seeded, mutational run of the fuzz entry points, so that every test run does a little of a fuzzer's work.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use auth::Password;
use auth::fuzz::{self, ITERATIONS, NONCE, PASSWORD, SALT};
use auth::scram::{Client, Credential, DerivedKeys, Nonce, Server, ServerFirst};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const RUNS: u64 = 30_000;
/// What mutations insert: the pieces that messages and files are made of.
const TOKENS: &[&[u8]] = &[
    b",",
    b"=",
    b"n,,",
    b"y,,",
    b"p=",
    b"r=",
    b"c=biws",
    b"m=x",
    b",x=y",
    b"i=",
    b"s=",
    b"e=",
    b"v=",
    b"99999999999",
    b"\"",
    b"\"\"",
    b"\n",
    b"\0",
    b";",
    b"#",
    b"md5",
    b"SCRAM-SHA-256$",
    b"\xff",
    b"AAAA",
    b"$",
    b":",
];

#[test]
fn scram_server() {
    let (client, _) = valid_exchange();
    run(
        fuzz::scram_server,
        &[&client, b"n,,n=,r=abc\0c=biws,r=abc,p=AAAA"],
    );
}

#[test]
fn scram_client() {
    let (_, server) = valid_exchange();
    run(
        fuzz::scram_client,
        &[&server, b"r=x,s=AAAA,i=1\0e=other-error"],
    );
}

#[test]
fn user_list() {
    run(
        fuzz::user_list,
        &[
            b"\"a\" \"b\"\n\"c\"\"d\" \"md5aa2372305aa1ff8e526fb1199e6c004f\" x\n; comment\n",
            b"\"a\" \"SCRAM-SHA-256$4096:AAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"\n",
        ],
    );
}

/// The client's two messages and the server's two, each pair with a NUL between, as the entry points take them.
fn valid_exchange() -> (Vec<u8>, Vec<u8>) {
    let nonce = || Nonce::from_bytes(NONCE);
    let server = Server::new(
        DerivedKeys::derive(PASSWORD, SALT, ITERATIONS).verifier(),
        nonce(),
    );
    let credential = Credential::Password {
        password: Password::new(PASSWORD),
        derived: None,
    };
    let (client_first, client) = Client::new(credential, nonce()).client_first();
    let (server_first, server) = server.client_first(&client_first).unwrap();
    let ServerFirst::Derive(derivation) = client.server_first(&server_first, 16).unwrap() else {
        panic!("nothing is cached");
    };
    let client = derivation.run().1;
    let server_final = server
        .client_final(client.client_final())
        .unwrap()
        .server_final;
    let client_messages = [&client_first, client.client_final()].join(&0);
    client.server_final(&server_final).unwrap();
    (client_messages, [server_first, server_final].join(&0))
}

fn run(target: fn(&[u8]), corpus: &[&[u8]]) {
    corpus.iter().for_each(|input| target(input));
    for seed in 0..RUNS {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut input = corpus[rng.random_range(0..corpus.len())].to_vec();
        for _ in 0..rng.random_range(1..=4) {
            mutate(&mut input, &mut rng);
        }
        let outcome = std::panic::catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "seed {seed}: {}", input.escape_ascii());
    }
}

fn mutate(input: &mut Vec<u8>, rng: &mut StdRng) {
    let at = rng.random_range(0..=input.len());
    let end = rng.random_range(at..=input.len());
    match rng.random_range(0..6) {
        0 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
        1 => input.truncate(at),
        2 => _ = input.drain(at..end),
        3 => input.extend_from_within(at..end),
        4 => input.insert(at, rng.random()),
        _ => {
            let token = TOKENS[rng.random_range(0..TOKENS.len())];
            input.splice(at..at, token.iter().copied());
        }
    }
}
