//! Every method, for users with every kind of secret and for users that do not exist.

use super::*;
use auth::scram::{Client, Credential, ScramVerifier, ServerFirst};
use auth::{Password, Secret};

fn list() -> String {
    let verifier =
        ScramVerifier::from_password(PASSWORD.as_bytes(), b"salt and pepper!", 4096).encode();
    let md5 = auth::md5::response(&Secret::parse(PASSWORD), "nobody", [0; 4]).unwrap();
    assert!(md5.starts_with("md5"));
    format!("\"app\" \"{PASSWORD}\"\n\"scram\" \"{verifier}\"\n\"empty\" \"\"\n")
}

fn house(auth_type: &str) -> House {
    let house = House::open(&format!("auth_type = {auth_type}"), &list());
    let welcome = house.pool("app").welcome.load_full();
    house.pool("scram").welcome.store(welcome);
    house
}

impl Guest {
    async fn answer_password(&mut self, password: &[u8]) {
        let mut out = Vec::new();
        wire::write::password(&mut out, password);
        self.send(&out).await;
    }

    /// Logs in by clear-text password.
    async fn plain(&mut self, password: &str) {
        assert_eq!(
            Authentication::parse(&self.authentication().await).unwrap(),
            Authentication::CleartextPassword
        );
        self.answer_password(password.as_bytes()).await;
    }

    async fn md5(&mut self, user: &str, password: &str) {
        let body = self.authentication().await;
        let Authentication::Md5Password { salt } = Authentication::parse(&body).unwrap() else {
            panic!("md5 is expected")
        };
        let response = auth::md5::response(&Secret::parse(password), user, salt).unwrap();
        self.answer_password(response.as_bytes()).await;
    }

    /// Up to the client's final message.
    async fn scram(&mut self, password: &str) -> auth::scram::AwaitingServerFinal {
        let body = self.authentication().await;
        let Authentication::Sasl { mut mechanisms } = Authentication::parse(&body).unwrap() else {
            panic!("SASL is expected")
        };
        assert!(mechanisms.any(|name| name == b"SCRAM-SHA-256"));
        let credential = Credential::Password {
            password: Password::new(password),
            derived: None,
        };
        let (first, awaiting) =
            Client::new(credential, auth::scram::Nonce::random(&mut rand::rng())).client_first();
        let mut out = Vec::new();
        wire::write::sasl_initial_response(&mut out, b"SCRAM-SHA-256", Some(&first));
        self.send(&out).await;
        let body = self.authentication().await;
        let Authentication::SaslContinue(data) = Authentication::parse(&body).unwrap() else {
            panic!("a challenge is expected")
        };
        let ServerFirst::Derive(derivation) = awaiting.server_first(data, 1_000_000).unwrap()
        else {
            panic!("nothing is cached")
        };
        let (_, awaiting) = derivation.run();
        let mut out = Vec::new();
        wire::write::sasl_response(&mut out, awaiting.client_final());
        self.send(&out).await;
        awaiting
    }

    async fn scram_to_the_end(&mut self, password: &str) {
        let awaiting = self.scram(password).await;
        let body = self.authentication().await;
        let Authentication::SaslFinal(data) = Authentication::parse(&body).unwrap() else {
            panic!("the server's proof is expected")
        };
        awaiting.server_final(data).unwrap();
        self.greeting().await;
    }
}

fn refused(user: &str) -> Told {
    Told {
        sqlstate: "28P01".to_owned(),
        message: format!("password authentication failed for user \"{user}\""),
    }
}

#[tokio::test]
async fn plain_lets_in_who_knows_the_password() {
    let house = house("plain");
    for user in ["app", "scram"] {
        let mut guest = house.start(user, "db").await;
        guest.plain(PASSWORD).await;
        guest.greeting().await;
    }
    for (user, password) in [
        ("app", "wrong"),
        ("scram", "wrong"),
        ("stranger", PASSWORD),
        ("empty", ""),
        ("app", ""),
    ] {
        let mut guest = house.start(user, "db").await;
        guest.plain(password).await;
        assert_eq!(guest.refusal().await, refused(user));
    }
}

#[tokio::test]
async fn md5_lets_in_who_knows_the_password() {
    let house = house("md5");
    let mut guest = house.start("app", "db").await;
    guest.md5("app", PASSWORD).await;
    guest.greeting().await;

    let mut guest = house.start("app", "db").await;
    guest.md5("app", "wrong").await;
    assert_eq!(guest.refusal().await, refused("app"));
}

#[tokio::test]
async fn md5_becomes_scram_where_the_secret_is_a_verifier() {
    let house = house("md5");
    house
        .start("scram", "db")
        .await
        .scram_to_the_end(PASSWORD)
        .await;
    assert!(matches!(
        house.pool("scram").pass_through.load().as_deref(),
        Some(Secret::ScramKeys(_))
    ));
}

#[tokio::test]
async fn scram_lets_in_who_knows_the_password() {
    let house = house("scram-sha-256");
    for user in ["app", "scram", "app"] {
        house
            .start(user, "db")
            .await
            .scram_to_the_end(PASSWORD)
            .await;
    }
    for user in ["app", "scram", "stranger", "empty"] {
        let mut guest = house.start(user, "db").await;
        guest.scram("wrong").await;
        assert_eq!(guest.refusal().await, refused(user));
    }
    assert!(
        house.pool("app").pass_through.load().is_none(),
        "the password serves every method"
    );
}

/// A stranger must not be told apart from a user with a wrong password, not even by what is asked of it.
#[tokio::test]
async fn a_stranger_is_asked_what_known_users_are_asked() {
    let only_md5 = House::open("auth_type = md5", &format!("\"app\" \"{PASSWORD}\"\n"));
    let mut guest = only_md5.start("stranger", "db").await;
    guest.md5("stranger", PASSWORD).await;
    assert_eq!(guest.refusal().await, refused("stranger"));

    let verifier =
        ScramVerifier::from_password(PASSWORD.as_bytes(), b"salt and pepper!", 4096).encode();
    let only_scram = House::open("auth_type = md5", &format!("\"app\" \"{verifier}\"\n"));
    let mut guest = only_scram.start("stranger", "db").await;
    guest.scram(PASSWORD).await;
    assert_eq!(guest.refusal().await, refused("stranger"));
}

#[tokio::test]
async fn an_unknown_database_is_named_only_to_who_proved_who_it_is() {
    let house = house("plain");
    let mut guest = house.start("app", "elsewhere").await;
    guest.plain("wrong").await;
    assert_eq!(guest.refusal().await, refused("app"));
    let mut guest = house.start("app", "elsewhere").await;
    guest.plain(PASSWORD).await;
    assert_eq!(
        guest.refusal().await,
        Told {
            sqlstate: "3D000".to_owned(),
            message: "no such database: elsewhere".to_owned()
        }
    );
}

#[tokio::test]
async fn trust_needs_a_known_user() {
    let house = house("trust");
    house.start("app", "db").await.greeting().await;
    assert_eq!(
        house.start("stranger", "db").await.refusal().await.sqlstate,
        "28000"
    );
}

#[tokio::test]
async fn any_takes_every_name_to_the_forced_user() {
    let house = House::unknown("host=127.0.0.1 port=1 user=app", "auth_type = any", "");
    house
        .pool("app")
        .welcome
        .store(Some(house.shared.interner.intern(reported())));
    house.start("whoever", "db").await.greeting().await;
    let (_, client) = house.clients().pop().unwrap();
    assert_eq!(&*client.permit.pool().user, "app");
}

#[tokio::test]
async fn answers_that_are_none_are_refused() {
    let house = house("scram-sha-256");
    let mut wrong_mechanism = Vec::new();
    wire::write::sasl_initial_response(
        &mut wrong_mechanism,
        b"SCRAM-SHA-256-PLUS",
        Some(b"p=tls-unique,,n=,r=x"),
    );
    let mut query = Vec::new();
    wire::write::query(&mut query, b"SELECT 1");
    let huge = [&b"p"[..], &1_000_000u32.to_be_bytes()].concat();
    for bytes in [wrong_mechanism, query, huge] {
        let mut guest = house.start("app", "db").await;
        guest.authentication().await;
        guest.send(&bytes).await;
        assert_eq!(guest.refusal().await.sqlstate, "08P01");
    }
}

#[tokio::test]
async fn the_console_is_for_its_users() {
    let mut house = House::open(
        "auth_type = plain\nadmin_users = app\nstats_users = scram",
        &list(),
    );
    for (user, database, privilege) in [
        ("app", "pgbouncer", Privilege::Admin),
        ("scram", "weir", Privilege::Stats),
    ] {
        let mut guest = house.start(user, database).await;
        guest.plain(PASSWORD).await;
        assert!(guest.greeting().await.status("server_version").is_some());
        let client = house.consoles.recv().await.unwrap();
        assert_eq!((client.user.as_str(), client.privilege), (user, privilege));
    }
    let mut guest = house.start("app", "pgbouncer").await;
    guest.plain("wrong").await;
    assert_eq!(guest.refusal().await, refused("app"));
    assert_eq!(house.shared.clients.count(), 0);
}

#[tokio::test]
async fn the_console_is_not_for_others() {
    let house = House::open("auth_type = trust", &list());
    assert_eq!(
        house
            .start("app", "pgbouncer")
            .await
            .refusal()
            .await
            .message,
        "not allowed"
    );
}
