//! The stored forms, against what PostgreSQL 15 made of the same passwords, and the plain and md5 methods.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use auth::md5::{self, Md5Hash};
use auth::scram::{
    AwaitingServerFirst, Client, Credential, DerivedKeys, Nonce, ScramVerifier, Server,
};
use auth::{Password, Secret, plain};

/// `CREATE USER ... PASSWORD ...`, then `SELECT rolpassword FROM pg_authid`.
const MADE_BY_POSTGRESQL: &[(&str, &str)] = &[
    (
        "pencil",
        "SCRAM-SHA-256$4096:Efep8hoicMVSc22RYUktsQ==$llaDmB2vlM+bAxEpzrvMZpracTq51WVqNnwrNfKEcBw=:HTHsjL1IFFvJd1rhXJ8kyryf3v2LSIajU622dBn7HUQ=",
    ),
    (
        "Gr\u{fc}\u{df} Gott",
        "SCRAM-SHA-256$4096:3tWrIh+jNE+A/VP1H8xIdQ==$/Vcyvm61pzez5vo74bqBIWA+W2Q/xn3A3CLAX3zecEE=:7DKtyLRk+xcfU7lNZvEFFeSe9OoJO1XYRBmxOsQcUJk=",
    ),
    // Compatibility characters and a soft hyphen.
    (
        "I\u{ad}X\u{2168}\u{aa}",
        "SCRAM-SHA-256$4096:iYQWYRcgWNdyp7CXj+uAUg==$Vhr4mn8bybHmjuHtZAOeDjLGmX9Xz2U50UCd8Mahmao=:Brle3gv86jnmbPGqi0DK+fgkGXiS20mkEb1Kli0f2Ys=",
    ),
    // SASLprep would leave nothing.
    (
        "\u{ad}",
        "SCRAM-SHA-256$4096:WQ4gP+QCbPDOHoIsyFvszg==$D/MupBsdaBdjHTkmTPKj8C1WRy0ym+BuP4tiJZ8mns4=:fkjjaUIOdFcju2az5M2D5uWzP3m1lV1gy8UoqusAL2I=",
    ),
    // Prohibited characters, and the same in pure ASCII.
    (
        "a\u{7}b\u{2028}c",
        "SCRAM-SHA-256$4096:ctx3pZ8jI3VdeIzQDcv7bw==$TSppCSmmxAv2OpO0jbzlr4JiI4tXCM4fPGNGRLzEKss=:jS8ztpxDqWuHJPC2JphKxBqFBlfz8erP1L7gt9E9Nso=",
    ),
    (
        "tab\there",
        "SCRAM-SHA-256$4096:M0eYv+iFVZe7uOJzVG9qiQ==$clOov+A5YWQOGBON/UJd3RdGP2op93i86R9EzILxn5I=:3bYVPIX2wPH8g6tg8JcVTmFRLgV0TMplJ9tUNva6DFM=",
    ),
    // Against the rule for bidirectional text.
    (
        "\u{627}1",
        "SCRAM-SHA-256$4096:p/1+gT8eKOYSOLSejC9KTw==$8J1rqO0vSjfMFCWtbX2zuo2xeoCXCag8QZ6hCbzv6zI=:j6KXkrZTrpH1AovcusKYOXGPCfhvxFFChnBW9sr+23E=",
    ),
    (
        "\u{1680}no\u{a0}break\u{3000} ",
        "SCRAM-SHA-256$4096:R/vqcnzU7wXp4CMWhxgleg==$omTdPVQzGTs+Oh4Fq4W2nUfYazeQ9sjR/jbFpThIvS8=:u1DKdd/XvjLIFuS+1OoS4Uqemf7wl6y09NpDOvHLVWQ=",
    ),
    // Not assigned in Unicode 3.2.
    (
        "x\u{221}y\u{1f600}",
        "SCRAM-SHA-256$4096:WVFD/EFu9ghAb6/v3/kpig==$SQP6HFXl0xpCU/CnsTD+APBmTW5AGTVMLkeRbP4OBgE=:fOno73mD993u4iPtTVfCJhoi7speJ3JpmBy9TvIo9HU=",
    ),
    // In two of SASLprep's tables at once.
    (
        "a\u{200b}b",
        "SCRAM-SHA-256$4096:ONgKPtGt1jeWy/lWOJs9+A==$Y9tRT6a0nCheUP9RRkfEwg1wK8fOZes4yUQ8u6Y5D3k=:OuEYYs/B2SnsFBwM4zG7v5GltzpZU+WViRtTbX4Mvp0=",
    ),
];

const VERIFIER: &str = MADE_BY_POSTGRESQL[0].1;
/// PostgreSQL's for the user `hashed` with the password `pencil`.
const HASH: &str = "md5aa2372305aa1ff8e526fb1199e6c004f";

#[test]
fn verifiers_are_postgresqls() {
    for (password, text) in MADE_BY_POSTGRESQL {
        let verifier = ScramVerifier::parse(text).unwrap();
        assert_eq!(verifier.encode(), *text);
        let ours = ScramVerifier::from_password(
            password.as_bytes(),
            verifier.salt(),
            verifier.iterations(),
        );
        assert_eq!(ours.encode(), *text, "{password:?}");
    }
}

#[test]
fn a_long_password_is_hashed_as_postgresql_does() {
    let text = "SCRAM-SHA-256$4096:e9CgFOkeh3YhJr98nQU+hA==$VYOwgqCZrI+p1XYC2cg1D3lCCDI+11B1n+HJAg6YItQ=:KOY0sjpskNq94W2ZSTX2cOKygGGaY19Qk29JTjpY/EU=";
    assert!(
        ScramVerifier::parse(text)
            .unwrap()
            .matches_password("p".repeat(300).as_bytes())
    );
}

#[test]
fn a_password_that_is_not_utf8_is_used_as_it_is() {
    let verifier = ScramVerifier::from_password(b"\xff\xfe", b"salt", 1);
    assert!(verifier.matches_password(b"\xff\xfe"));
    assert!(!verifier.matches_password(b"\xff"));
}

#[test]
fn the_forms_are_told_apart() {
    assert!(matches!(Secret::parse(VERIFIER), Secret::Scram(_)));
    assert!(matches!(Secret::parse(HASH), Secret::Md5(_)));
    let almost = [
        "pencil",
        "",
        "md5",
        "md5aa2372305aa1ff8e526fb1199e6c004",
        "md5aa2372305aa1ff8e526fb1199e6c004ff",
        "md5AA2372305AA1FF8E526FB1199E6C004F",
        "MD5aa2372305aa1ff8e526fb1199e6c004f",
        "md5aa2372305aa1ff8e526fb1199e6c004\u{e4}",
        "SCRAM-SHA-256",
        "SCRAM-SHA-256$",
        "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
    ];
    for text in almost {
        let secret = Secret::parse(text);
        assert!(secret == Secret::Plain(Password::new(text)), "{text:?}");
    }
    let broken = [
        VERIFIER.replace("4096", "0"),
        VERIFIER.replace("4096", "-1"),
        VERIFIER.replace("4096", "4294967296"),
        VERIFIER.replace("4096", ""),
        VERIFIER.replace("SHA-256", "SHA-1"),
        VERIFIER.replace("==$", "=$"),
        VERIFIER.replace("HUQ=", "HUQ"),
        VERIFIER.replace("HUQ=", "HUQ= "),
        VERIFIER.replace('+', "!"),
    ];
    for text in broken {
        assert!(matches!(Secret::parse(&text), Secret::Plain(_)), "{text:?}");
    }
}

#[test]
fn plain_against_every_form() {
    let scram_keys = DerivedKeys::derive(b"pencil", b"salt", 1).keys().clone();
    let cases = [
        (Secret::parse("pencil"), true),
        (Secret::parse(HASH), true),
        (Secret::parse(VERIFIER), true),
        (Secret::ScramKeys(scram_keys), false),
        (Secret::Md5(Md5Hash::mock("hashed", &[0; 32])), false),
        (
            Secret::Scram(ScramVerifier::mock("hashed", &[0; 32], 1)),
            false,
        ),
        (Secret::parse(""), false),
    ];
    for (secret, serves) in &cases {
        assert_eq!(
            plain::verify(secret, "hashed", b"pencil"),
            *serves,
            "{secret:?}"
        );
        for wrong in ["", "penci", "pencil2", "Pencil", HASH, VERIFIER] {
            assert!(
                !plain::verify(secret, "hashed", wrong.as_bytes()),
                "{secret:?} {wrong}"
            );
        }
    }
    assert!(
        !plain::verify(&Secret::parse(HASH), "other", b"pencil"),
        "the user is md5's salt"
    );
}

/// The hash itself must not pass for the password.
#[test]
fn an_md5_hash_is_no_password() {
    assert!(!plain::verify(
        &Secret::parse(HASH),
        "hashed",
        HASH.as_bytes()
    ));
    assert!(Secret::parse(HASH).password().is_none());
    assert!(Secret::parse("").password().is_none());
    assert_eq!(
        Secret::parse("pencil").password().map(Password::as_bytes),
        Some(b"pencil".as_slice())
    );
}

/// The expected value was computed by other means.
#[test]
fn md5_response() {
    let expected = "md54a5cd7a902e7bcbb55ad998069d227e5";
    let salt = *b"\x01\x02\x03\xff";
    for secret in [Secret::parse("pencil"), Secret::parse(HASH)] {
        assert_eq!(
            md5::response(&secret, "hashed", salt).as_deref(),
            Some(expected)
        );
        assert!(md5::verify(&secret, "hashed", salt, expected.as_bytes()));
        for wrong in [
            "",
            "md5",
            &expected[3..],
            &expected.to_uppercase(),
            &format!("{expected}0"),
            HASH,
        ] {
            assert!(
                !md5::verify(&secret, "hashed", salt, wrong.as_bytes()),
                "{wrong}"
            );
        }
        assert!(
            !md5::verify(&secret, "hashed", [0; 4], expected.as_bytes()),
            "another salt"
        );
    }
    assert!(!md5::verify(
        &Secret::parse("pencil"),
        "other",
        salt,
        expected.as_bytes()
    ));
}

#[test]
fn secrets_that_cannot_serve_md5() {
    let keys = DerivedKeys::derive(b"pencil", b"salt", 1).keys().clone();
    for secret in [
        Secret::parse(VERIFIER),
        Secret::ScramKeys(keys),
        Secret::parse(""),
    ] {
        assert_eq!(md5::response(&secret, "user", [0; 4]), None);
        assert!(!md5::verify(&secret, "user", [0; 4], b"md5"));
    }
}

/// Not even who knows the process's secret logs in as somebody who does not exist.
#[test]
fn an_md5_mock_never_succeeds() {
    let mock = |user| Secret::Md5(Md5Hash::mock(user, &[9; 32]));
    let response = md5::response(&mock("a"), "a", [1; 4]).unwrap();
    assert_eq!(
        md5::response(&mock("a"), "a", [1; 4]),
        Some(response.clone())
    );
    assert_ne!(
        md5::response(&mock("b"), "b", [1; 4]),
        Some(response.clone())
    );
    assert!(!md5::verify(&mock("a"), "a", [1; 4], response.as_bytes()));
}

#[test]
fn secrets_that_log_in_to_a_server_with_scram() {
    assert!(Credential::new(&Secret::parse("pencil"), None).is_some());
    for text in ["", HASH, VERIFIER] {
        assert!(
            Credential::new(&Secret::parse(text), None).is_none(),
            "{text:?}"
        );
    }
}

#[test]
fn debug_prints_no_secret() {
    let derived = DerivedKeys::derive(b"pencil", b"salt", 1);
    let credential = Credential::new(&Secret::parse("pencil"), Some(derived.clone())).unwrap();
    let awaiting: AwaitingServerFirst = Client::new(credential.clone(), Nonce::from_bytes([0; 18]))
        .client_first()
        .1;
    let server = Server::new(derived.verifier(), Nonce::from_bytes([0; 18]));
    let printed = [
        format!("{:?}", Secret::parse("pencil")),
        format!("{:?}", Secret::parse(HASH)),
        format!("{:?}", Secret::parse(VERIFIER)),
        format!("{:?}", Secret::ScramKeys(derived.keys().clone())),
        format!("{derived:?} {:?} {:?}", derived.keys(), derived.verifier()),
        format!("{credential:?} {awaiting:?} {server:?}"),
        format!("{:?}", Password::new("pencil")),
    ];
    for text in printed {
        assert!(text.contains("(..)"), "{text}");
        assert!(
            !text.contains("pencil") && !text.contains("aa23") && !text.contains('['),
            "{text}"
        );
    }
}
