//! Tables of messages that a peer should not send, and what they are refused with.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use auth::Password;
use auth::scram::ScramError::{self, *};
use auth::scram::{Client, Credential, ITERATIONS_MAX, Nonce, ScramVerifier, Server, ServerFirst};

const NAME: ScramError = Malformed("the user name is missing");
const NONCE: ScramError = Malformed("the nonce is missing");
const NONCE_LENGTH: ScramError = Malformed("the nonce is empty or too long");
const NONCE_TEXT: ScramError = Malformed("the nonce is not printable ASCII");
const FORM: ScramError = Malformed("an attribute is not of the form a=value");
const ORDER: ScramError = Malformed("an attribute is repeated or out of order");
const HEADER: ScramError = Malformed("the gs2-header is incomplete");
const HEADER_FORM: ScramError = Malformed("the gs2-header is malformed");
const FLAG: ScramError = Malformed("the channel binding flag is unknown");
const BINDING: ScramError = Malformed("the channel binding is missing");
const PROOF: ScramError = Malformed("the proof is missing");
const PROOF_FORM: ScramError = Malformed("the proof is not the base64 of 32 bytes");
const SALT: ScramError = Malformed("the salt is missing");
const SALT_FORM: ScramError = Malformed("the salt is not base64, empty or too long");
const COUNT: ScramError = Malformed("the iteration count is missing");
const COUNT_FORM: ScramError = Malformed("the iteration count is not a positive number");
const SIGNATURE: ScramError = Malformed("the server's signature is missing");
const SIGNATURE_FORM: ScramError =
    Malformed("the server's signature is not the base64 of 32 bytes");

/// base64 of 32 zero bytes.
const ZEROS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// Our nonce in these tests: base64 of 18 zero bytes.
const OURS: &str = "AAAAAAAAAAAAAAAAAAAAAAAA";

fn server() -> Server {
    let verifier = ScramVerifier::from_password(b"pencil", b"salt", 1);
    Server::new(verifier, Nonce::from_bytes([0; Nonce::RAW_LENGTH]))
}

fn client_first(message: &[u8]) -> Option<ScramError> {
    server().client_first(message).err()
}

#[test]
fn client_first_message() {
    let cases: &[(&[u8], ScramError)] = &[
        (b"", HEADER),
        (b"n", HEADER),
        (b"n,", HEADER),
        (b"n,,", FORM),
        (b",,n=,r=abc", FLAG),
        (b"N,,n=,r=abc", FLAG),
        (b"x,,n=,r=abc", FLAG),
        (b"p,,n=,r=abc", FLAG),
        (b"nn,,n=,r=abc", FLAG),
        (
            b"p=tls-server-end-point,,n=,r=abc",
            ChannelBindingNotOffered,
        ),
        (b"p=tls-unique,,n=,r=abc", ChannelBindingNotOffered),
        (b"n,a=somebody,n=,r=abc", AuthorizationIdentity),
        (b"n,b=somebody,n=,r=abc", HEADER_FORM),
        (b"n,n=,r=abc", HEADER_FORM),
        (b"n,,m=x,n=,r=abc", MandatoryExtension),
        (b"n,,n=,m=x,r=abc", MandatoryExtension),
        (b"n,,n=,r=abc,m=x", MandatoryExtension),
        (b"n,,n=", NONCE),
        (b"n,,n=user", NONCE),
        (b"n,,r=abc", NAME),
        (b"n,,r=abc,n=", NAME),
        (b"n,,n=,x=y,r=abc", NONCE),
        (b"n,,n=,r=", NONCE_LENGTH),
        (b"n,,n=,r=a b", NONCE_TEXT),
        (b"n,,n=,r=a\x7fb", NONCE_TEXT),
        (b"n,,n=,r=\xc3\xa4", NONCE_TEXT),
        (b"n,,n=,r=a\0b", FORM),
        (b"n,,n=\0,r=abc", FORM),
        (b"n,,n=,r=abc,", FORM),
        (b"n,,n=,,r=abc", FORM),
        (b"n,,n,r=abc", FORM),
        (b"n,,n=,r=abc,x", FORM),
        (b"n,,n=,r=abc,1=x", FORM),
        (b"n,,n=,r=abc,r=def", ORDER),
        (b"n,,n=,r=abc,n=def", ORDER),
        (b"n,,n=,r=abc,p=AAAA", ORDER),
    ];
    for (message, expected) in cases {
        assert_eq!(
            client_first(message).as_ref(),
            Some(expected),
            "{:?}",
            message.escape_ascii().to_string()
        );
    }
}

#[test]
fn client_first_message_that_is_right() {
    for message in [
        "n,,n=,r=abc",
        "y,,n=,r=abc",
        "n,,n=some=2Cone,r=a=b",
        "n,,n=,r=abc,x=y,z=",
    ] {
        assert_eq!(client_first(message.as_bytes()), None, "{message}");
    }
}

#[test]
fn client_messages_are_bounded() {
    let first = |length| format!("n,,n=,r={}", "a".repeat(length)).into_bytes();
    assert_eq!(client_first(&first(1024)), None);
    assert_eq!(client_first(&first(1025)), Some(NONCE_LENGTH));
    assert_eq!(client_first(&first(5000)), Some(TooLong));
    assert_eq!(client_first(&vec![b','; 1 << 20]), Some(TooLong));
    assert_eq!(
        client_final("n,,n=,r=abc", &vec![b'c'; 4097]),
        Some(TooLong)
    );
}

fn client_final(first: &str, message: &[u8]) -> Option<ScramError> {
    server()
        .client_first(first.as_bytes())
        .unwrap()
        .1
        .client_final(message)
        .err()
}

/// `NONCE` stands for the right nonce, `PROOF` for a well-formed proof.
#[test]
fn client_final_message() {
    let cases: &[(&str, ScramError)] = &[
        ("", PROOF),
        (",", PROOF),
        ("p=PROOF", PROOF),
        (",p=PROOF", FORM),
        ("c=biws,r=NONCE", PROOF),
        ("c=biws,r=NONCE,", PROOF),
        ("c=biws,r=NONCE,p", PROOF),
        ("c=biws,r=NONCE,v=PROOF", PROOF),
        ("c=biws,r=NONCE,p=PROOF,x=y", PROOF),
        ("c=biws,r=NONCE,p=PROOF,", PROOF),
        ("c=biws,r=NONCE,p=", PROOF_FORM),
        ("c=biws,r=NONCE,p=AAAA", PROOF_FORM),
        ("c=biws,r=NONCE,p=PROOF=", PROOF_FORM),
        ("c=biws,r=NONCE,p=PROOF ", PROOF_FORM),
        ("c=biws,r=NONCE,p=PROOF\0", PROOF_FORM),
        ("c=biws,r=NONCE,p=!!!", PROOF_FORM),
        // CVE-2026-19888: no nonce.
        ("c=biws,p=PROOF", NONCE),
        ("c=biws,r,p=PROOF", FORM),
        ("c=biws,r=,p=PROOF", NonceMismatch),
        ("c=biws,r=abc,p=PROOF", NonceMismatch),
        ("c=biws,r=NONCEx,p=PROOF", NonceMismatch),
        ("r=NONCE,p=PROOF", BINDING),
        ("r=NONCE,c=biws,p=PROOF", BINDING),
        ("c=biws,x=y,r=NONCE,p=PROOF", NONCE),
        ("c=,r=NONCE,p=PROOF", ChannelBindingMismatch),
        ("c=!!!,r=NONCE,p=PROOF", ChannelBindingMismatch),
        ("c=eSws,r=NONCE,p=PROOF", ChannelBindingMismatch),
        ("c=biwsAAAA,r=NONCE,p=PROOF", ChannelBindingMismatch),
        ("m=x,c=biws,r=NONCE,p=PROOF", MandatoryExtension),
        ("c=biws,r=NONCE,m=x,p=PROOF", MandatoryExtension),
        ("c=biws,r=NONCE,r=NONCE,p=PROOF", ORDER),
        ("c=biws,r=NONCE,p=PROOF,p=PROOF", ORDER),
        ("c=biws,r=NONCE,,p=PROOF", FORM),
        ("c=biws,r=NONCE,p=PROOF", WrongProof),
        ("c=biws,r=NONCE,x=y,p=PROOF", WrongProof),
    ];
    for (template, expected) in cases {
        let message = template
            .replace("NONCE", &format!("abc{OURS}"))
            .replace("PROOF", ZEROS);
        assert_eq!(
            client_final("n,,n=,r=abc", message.as_bytes()).as_ref(),
            Some(expected),
            "{template:?}"
        );
    }
}

#[test]
fn the_channel_binding_repeats_the_clients_own_header() {
    let message = |binding| format!("c={binding},r=abc{OURS},p={ZEROS}").into_bytes();
    assert_eq!(
        client_final("y,,n=,r=abc", &message("eSws")),
        Some(WrongProof)
    );
    assert_eq!(
        client_final("y,,n=,r=abc", &message("biws")),
        Some(ChannelBindingMismatch)
    );
}

fn client(message: &[u8]) -> Result<ServerFirst, ScramError> {
    let credential = Credential::Password {
        password: Password::new("pencil"),
        derived: None,
    };
    let client = Client::new(credential, Nonce::from_bytes([0; Nonce::RAW_LENGTH]));
    client
        .client_first()
        .1
        .server_first(message, ITERATIONS_MAX)
}

/// `OURS` stands for our nonce.
#[test]
fn server_first_message() {
    let cases: &[(&str, ScramError)] = &[
        ("", FORM),
        ("r=OURSx", SALT),
        ("r=OURSx,s=AAAA", COUNT),
        ("r=OURSx,i=1,s=AAAA", SALT),
        ("s=AAAA,r=OURSx,i=1", NONCE),
        ("s=AAAA,i=1", NONCE),
        ("m=x,r=OURSx,s=AAAA,i=1", MandatoryExtension),
        ("r=OURSx,s=AAAA,i=1,m=x", MandatoryExtension),
        ("r=OURSx,s=AAAA,i=1,i=2", ORDER),
        ("r=OURSx,s=AAAA,i=1,", FORM),
        ("e=other-error", NONCE),
        ("r=,s=AAAA,i=1", NONCE_LENGTH),
        ("r=OURS\u{1},s=AAAA,i=1", NONCE_TEXT),
        ("r=OURS,s=AAAA,i=1", NonceMismatch),
        ("r=x,s=AAAA,i=1", NonceMismatch),
        ("r=xOURS,s=AAAA,i=1", NonceMismatch),
        ("r=OURSx,s=,i=1", SALT_FORM),
        ("r=OURSx,s=AAA,i=1", SALT_FORM),
        ("r=OURSx,s=A!AA,i=1", SALT_FORM),
        ("r=OURSx,s=AAAA,i=", COUNT_FORM),
        ("r=OURSx,s=AAAA,i=0", COUNT_FORM),
        ("r=OURSx,s=AAAA,i=-1", COUNT_FORM),
        ("r=OURSx,s=AAAA,i=+1", COUNT_FORM),
        ("r=OURSx,s=AAAA,i=01", COUNT_FORM),
        ("r=OURSx,s=AAAA,i=1x", COUNT_FORM),
        ("r=OURSx,s=AAAA,i= 1", COUNT_FORM),
        ("r=OURSx,s=AAAA,i=4294967296", COUNT_FORM),
        ("r=OURSx,s=AAAA,i=99999999999999999999", COUNT_FORM),
        (
            "r=OURSx,s=AAAA,i=4294967295",
            TooManyIterations {
                asked: u32::MAX,
                max: 1_000_000,
            },
        ),
        (
            "r=OURSx,s=AAAA,i=1000001",
            TooManyIterations {
                asked: 1_000_001,
                max: 1_000_000,
            },
        ),
    ];
    for (template, expected) in cases {
        let error = client(template.replace("OURS", OURS).as_bytes()).err();
        assert_eq!(error.as_ref(), Some(expected), "{template:?}");
    }
    for right in ["r=OURSx,s=AAAA,i=1000000", "r=OURSx,s=AAAA,i=1,x=y"] {
        assert!(
            client(right.replace("OURS", OURS).as_bytes()).is_ok(),
            "{right:?}"
        );
    }
}

/// CVE-2026-6665: a long nonce from the server.
#[test]
fn server_messages_are_bounded() {
    let first = |nonce: usize, salt: usize| {
        let (nonce, salt) = ("x".repeat(nonce), "AAAA".repeat(salt));
        client(format!("r={OURS}{nonce},s={salt},i=1").as_bytes()).err()
    };
    assert_eq!(first(1000, 341), None);
    assert_eq!(first(1001, 341), Some(NONCE_LENGTH));
    assert_eq!(first(1000, 342), Some(SALT_FORM));
    assert_eq!(first(5000, 1), Some(TooLong));
    assert_eq!(server_final(&vec![b'v'; 4097]), Err(TooLong));
}

fn server_final(message: &[u8]) -> Result<(), ScramError> {
    let first = client(format!("r={OURS}x,s=AAAA,i=1").as_bytes()).unwrap();
    let ServerFirst::Derive(derivation) = first else {
        panic!("nothing is cached")
    };
    derivation.run().1.server_final(message)
}

#[test]
fn server_final_message() {
    let signature = format!("v={ZEROS}");
    let cases: &[(&str, ScramError)] = &[
        ("", FORM),
        ("v", FORM),
        ("x=y", SIGNATURE),
        ("m=x", MandatoryExtension),
        ("v=", SIGNATURE_FORM),
        ("v=AAAA", SIGNATURE_FORM),
        ("v=!", SIGNATURE_FORM),
        (&format!("{signature},"), FORM),
        (&format!("{signature},v=x"), ORDER),
        (&format!("{signature}\n"), SIGNATURE_FORM),
        (&signature, WrongServerSignature),
        ("e=", Refused(String::new())),
        ("e=invalid\n\u{1b}proof", Refused("invalidproof".to_owned())),
    ];
    for (message, expected) in cases {
        assert_eq!(
            server_final(message.as_bytes()).as_ref(),
            Err(expected),
            "{message:?}"
        );
    }
    let Err(Refused(reason)) = server_final(&[b"e=".as_slice(), &[0xff; 4000]].concat()) else {
        panic!("refused");
    };
    assert_eq!(reason.chars().count(), 200);
}
