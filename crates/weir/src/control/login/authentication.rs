//! Who a client is (manual: "Start-up", "SASL Authentication"). One function decides on the method, one carries each method out.
//!
//! A user that does not exist goes through the same exchange, at the same cost, as one that does, and gets the same answer.

use super::Reception;
use super::line::Line;
use super::refusal::{Failure, Refusal};
use super::startup::Request;
use crate::control::auth_query::Lookup;
use auth::scram::{Nonce, ScramError, ScramKeys, ScramVerifier, Server};
use auth::{PASSWORD_LENGTH_MAX, Secret};
use rand::RngCore;
use settings::{AuthType, Config, Database, General};
use std::sync::Arc;
use wire::frontend::{Password, SaslInitialResponse, tag};
use wire::{Header, SqlState};

/// Longest bodies of a client's answers, in bytes.
const PASSWORD_MAX: usize = PASSWORD_LENGTH_MAX + 1;
const MD5_MAX: usize = 64;
const SASL_MAX: usize = auth::scram::MESSAGE_LENGTH_MAX + 64;

/// How a client proves who it is. HBA, certificates, LDAP and PAM will be more of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Its word is taken.
    Trust,
    Plain,
    Md5,
    Scram,
}

/// What is known of the user that a client claims to be.
struct Claim {
    user: String,
    /// A stranger's is a stand-in, which no answer ever matches.
    secret: Arc<Secret>,
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    UserList,
    Query,
    /// There is no such user, or it may not log in.
    Nowhere,
}

/// Something learnt at a client's log-in with which PostgreSQL can be logged in to as the same user.
pub type PassThrough = Option<Secret>;

/// Returns only for a client that has proved who it is. What is still to be sent of the exchange is left in the line's output.
pub async fn authenticate(
    reception: &Arc<Reception>,
    line: &mut Line,
    request: &Request,
    database: Option<&Arc<Database>>,
) -> Result<PassThrough, Failure> {
    let config = reception.shared.config.load_full();
    let auth_type = config.general.auth_type;
    if auth_type == AuthType::Any {
        return Ok(None);
    }
    let claim = look_up(reception, &config, request, database).await?;
    let outcome = match decide(auth_type, &claim.secret)? {
        Method::Trust => trust(&claim),
        Method::Plain => Box::pin(plain(reception, line, &claim)).await,
        Method::Md5 => md5(line, &claim).await,
        Method::Scram => Box::pin(scram(reception, line, &claim, &config.general)).await,
    };
    if outcome.is_err() && claim.source != Source::UserList {
        let lookups = &reception.lookups;
        lookups.doubt(&reception.shared, &config, database, &claim.user);
    }
    Ok(outcome?.or_else(|| usable_at_server(&claim)))
}

/// Decides how the client has to prove who it is. The one place where an `auth_type` gets its meaning.
fn decide(auth_type: AuthType, secret: &Secret) -> Result<Method, Refusal> {
    Ok(match (auth_type, secret) {
        (AuthType::Any | AuthType::Trust, _) => Method::Trust,
        (AuthType::Plain, _) => Method::Plain,
        (AuthType::ScramSha256, _) => Method::Scram,
        (AuthType::Md5, Secret::Scram(_) | Secret::ScramKeys(_)) => Method::Scram,
        (AuthType::Md5, Secret::Md5(_) | Secret::Plain(_)) => Method::Md5,
        (AuthType::Hba | AuthType::Cert | AuthType::Ldap | AuthType::Pam, _) => {
            let message = format!("auth_type {} is not supported yet", auth_type.word());
            return Err(Refusal::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    })
}

async fn look_up(
    reception: &Arc<Reception>,
    config: &Arc<Config>,
    request: &Request,
    database: Option<&Arc<Database>>,
) -> Result<Claim, Failure> {
    let user = request.user.clone();
    let users = reception.credentials.users.load_full();
    if let Some(secret) = users.lookup(&user) {
        let source = Source::UserList;
        return Ok(Claim {
            user,
            secret,
            source,
        });
    }
    let (lookups, strangers) = (&reception.lookups, &reception.strangers);
    let lookup = lookups.secret(&reception.shared, config, database, &user);
    // Boxed, as all that few log-ins come to: the others' tasks stay small.
    let answer = Box::pin(lookup).await;
    let (secret, tends_to_scram) = match answer {
        Lookup::NotConfigured => (None, strangers.draw_scram(&users, &user)),
        Lookup::Answer(secret) => (secret, lookups.tends_to_scram()),
        Lookup::Failed => {
            let refusal = Refusal::new(SqlState::CONNECTION_FAILURE, "auth_query failed");
            return Err(refusal.into());
        }
    };
    let source = secret.as_ref().map_or(Source::Nowhere, |_| Source::Query);
    let iterations = config.general.scram_iterations;
    let stand_in = || Arc::new(strangers.stand_in(&user, tends_to_scram, iterations));
    let secret = secret.unwrap_or_else(stand_in);
    Ok(Claim {
        user,
        secret,
        source,
    })
}

fn trust(claim: &Claim) -> Result<PassThrough, Failure> {
    if claim.source != Source::Nowhere {
        return Ok(None);
    }
    let message = format!("no such user: {}", claim.user);
    Err(Refusal::new(SqlState::INVALID_AUTHORIZATION, message).into())
}

async fn plain(
    reception: &Reception,
    line: &mut Line,
    claim: &Claim,
) -> Result<PassThrough, Failure> {
    wire::write::authentication_cleartext(&mut line.output);
    let header = answer(line, PASSWORD_MAX).await?;
    let given = Password::parse(body(line, header))?.password.to_vec();
    line.consume(header.total());
    let secret = Arc::clone(&claim.secret);
    let user = claim.user.clone();
    let genuine = match *secret {
        // Expensive: PBKDF2.
        Secret::Scram(_) => {
            reception
                .verifiers
                .off_thread(move || auth::plain::verify(&secret, &user, &given))
                .await
        }
        _ => Some(auth::plain::verify(&secret, &user, &given)),
    };
    accept(genuine == Some(true), &claim.user)
}

async fn md5(line: &mut Line, claim: &Claim) -> Result<PassThrough, Failure> {
    let salt = rand::rng().next_u32().to_be_bytes();
    wire::write::authentication_md5(&mut line.output, salt);
    let header = answer(line, MD5_MAX).await?;
    let given = Password::parse(body(line, header))?.password;
    let genuine = auth::md5::verify(&claim.secret, &claim.user, salt, given);
    line.consume(header.total());
    accept(genuine, &claim.user)
}

async fn scram(
    reception: &Reception,
    line: &mut Line,
    claim: &Claim,
    general: &General,
) -> Result<PassThrough, Failure> {
    let verifier = verifier(reception, claim, general.scram_iterations).await;
    wire::write::authentication_sasl(&mut line.output, &[auth::scram::MECHANISM.as_bytes()]);
    let header = answer(line, SASL_MAX).await?;
    let server = Server::new(verifier, Nonce::random(&mut rand::rng()));
    let (server_first, awaiting) = server
        .client_first(initial_response(body(line, header))?)
        .map_err(|error| scram_refusal(error, claim))?;
    line.consume(header.total());

    wire::write::authentication_sasl_continue(&mut line.output, &server_first);
    let header = answer(line, SASL_MAX).await?;
    let accepted = awaiting
        .client_final(body(line, header))
        .map_err(|error| scram_refusal(error, claim))?;
    line.consume(header.total());
    wire::write::authentication_sasl_final(&mut line.output, &accepted.server_final);
    Ok(pass_through(claim, accepted.keys))
}

/// What the client's proof is checked against: made once for a plain-text secret, made up where no proof can succeed.
async fn verifier(reception: &Reception, claim: &Claim, iterations: u32) -> ScramVerifier {
    let made = match (&*claim.secret, claim.secret.password()) {
        (Secret::Scram(verifier), _) => Some(verifier.clone()),
        (_, Some(password)) => {
            let verifiers = &reception.verifiers;
            verifiers.of(&claim.user, password, iterations).await
        }
        _ => None,
    };
    made.unwrap_or_else(|| reception.strangers.verifier(&claim.user, iterations))
}

fn initial_response(body: &[u8]) -> Result<&[u8], Refusal> {
    let response = SaslInitialResponse::parse(body)?;
    if response.mechanism != auth::scram::MECHANISM.as_bytes() {
        return Err(Refusal::protocol(
            "client selected an invalid SASL authentication mechanism",
        ));
    }
    response
        .data
        .ok_or_else(|| Refusal::protocol("the SASL initial response is empty"))
}

fn scram_refusal(error: ScramError, claim: &Claim) -> Refusal {
    match error {
        ScramError::WrongProof => Refusal::wrong_password(&claim.user),
        error => Refusal::protocol(error.to_string()),
    }
}

/// Keys are only needed where the stored secret is a verifier: a password serves every method at the server.
fn pass_through(claim: &Claim, keys: ScramKeys) -> PassThrough {
    matches!(*claim.secret, Secret::Scram(_)).then_some(Secret::ScramKeys(keys))
}

/// A secret that `auth_query` found is not in the user list, where the dialler looks; a password or a hash of it logs in to PostgreSQL too.
fn usable_at_server(claim: &Claim) -> PassThrough {
    match (claim.source, &*claim.secret) {
        (Source::Query, secret @ (Secret::Plain(_) | Secret::Md5(_))) => Some(secret.clone()),
        _ => None,
    }
}

fn accept(genuine: bool, user: &str) -> Result<PassThrough, Failure> {
    match genuine {
        true => Ok(None),
        false => Err(Refusal::wrong_password(user).into()),
    }
}

/// Sends the request that is in the output, and waits for the client's answer to it, which is then at the front of the input.
async fn answer(line: &mut Line, body_max: usize) -> Result<Header, Failure> {
    line.flush().await?;
    let header = line.message(body_max).await?;
    match header.tag {
        tag::PASSWORD => Ok(header),
        // How libpq leaves when it has no password.
        tag::TERMINATE => Err(Failure::Left),
        other => Err(Refusal::protocol(format!(
            "expected a password response, got message type {other}"
        ))
        .into()),
    }
}

fn body(line: &Line, header: Header) -> &[u8] {
    line.input()
        .get(Header::SIZE..header.total())
        .unwrap_or_default()
}
