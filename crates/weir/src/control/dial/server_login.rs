//! Logging in to PostgreSQL on an open connection: startup, authentication, and what follows up to ReadyForQuery.
//! (Manual: "Frontend/Backend Protocol", "Start-up".) Knows nothing of pools, hosts and retries.

use super::Failure;
use super::messages::{Message, Messages, text};
use auth::scram::{self, AwaitingServerFinal, Credential, DerivedKeys, Nonce, ServerFirst};
use auth::{Password, Secret};
use pooling::Parameters;
use pooling::parameters::Origin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use wire::backend::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, ReadyForQuery,
    Strings, TransactionStatus, tag,
};
use wire::startup::{PROTOCOL_3_0, ProtocolVersion};
use wire::write;

/// As whom to log in, and where.
pub struct Identity {
    pub user: String,
    /// As PostgreSQL calls it.
    pub dbname: String,
    pub startup_parameters: Vec<(&'static str, String)>,
    /// What may prove who we are, best first: the first that a method can use is used.
    pub secrets: Vec<Arc<Secret>>,
    /// What the password derived at an earlier log-in.
    pub derived: Option<(Password, DerivedKeys)>,
}

/// What a server says of itself until it is ready.
#[derive(Debug)]
pub struct Greeting {
    pub parameters: Parameters,
    /// 0, and no key, if the server gives none: its queries cannot be cancelled.
    pub pid: i32,
    pub key: Box<[u8]>,
    /// The version that server and we speak from here on.
    pub version: ProtocolVersion,
    /// New, for the next log-in with the same password.
    pub derived: Option<(Password, DerivedKeys)>,
}

/// A log-in on its way.
pub struct Login<'a, S> {
    messages: &'a mut Messages<S>,
    identity: &'a Identity,
    version: ProtocolVersion,
    derived: Option<(Password, DerivedKeys)>,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Login<'a, S> {
    pub async fn run(
        messages: &'a mut Messages<S>,
        identity: &'a Identity,
        version: ProtocolVersion,
    ) -> Result<Greeting, Failure> {
        let mut login = Login {
            messages,
            identity,
            version,
            derived: None,
        };
        login.startup().await?;
        login.authenticate().await?;
        login.greeting().await
    }

    async fn startup(&mut self) -> Result<(), Failure> {
        let own = [
            ("user", self.identity.user.as_str()),
            ("database", self.identity.dbname.as_str()),
        ];
        let more = self
            .identity
            .startup_parameters
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let parameters = own
            .into_iter()
            .chain(more)
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut out = Vec::new();
        write::startup(&mut out, self.version, parameters);
        self.send(&out).await
    }

    /// Until AuthenticationOk.
    async fn authenticate(&mut self) -> Result<(), Failure> {
        loop {
            let message = self.authentication().await?;
            match Authentication::parse(&message.body).map_err(Failure::Wire)? {
                Authentication::Ok => return Ok(()),
                Authentication::CleartextPassword => self.cleartext().await?,
                Authentication::Md5Password { salt } => self.md5(salt).await?,
                Authentication::Sasl { mechanisms } => self.scram(mechanisms).await?,
                Authentication::SaslContinue(_) | Authentication::SaslFinal(_) => {
                    return Err(Failure::Unexpected(message.tag));
                }
                Authentication::Other(code) => return Err(Failure::UnsupportedMethod(code)),
            }
        }
    }

    /// The next Authentication message; a server that speaks less than we asked for says so before it.
    async fn authentication(&mut self) -> Result<Message, Failure> {
        loop {
            let message = self.messages.next().await?;
            match message.tag {
                tag::AUTHENTICATION => return Ok(message),
                tag::NEGOTIATE_PROTOCOL_VERSION => self.negotiate(&message.body)?,
                other => return Err(Failure::Unexpected(other)),
            }
        }
    }

    /// The manual's rule: the newest minor version that the server supports, not newer than what was asked for.
    fn negotiate(&mut self, body: &[u8]) -> Result<(), Failure> {
        let newest = NegotiateProtocolVersion::parse(body)
            .map_err(Failure::Wire)?
            .newest();
        if newest.major != self.version.major || newest > self.version {
            return Err(Failure::Version(newest));
        }
        self.version = newest;
        Ok(())
    }

    async fn cleartext(&mut self) -> Result<(), Failure> {
        let password = self
            .identity
            .secrets
            .iter()
            .find_map(|secret| secret.password());
        let password = password
            .ok_or_else(|| self.no_secret("a password in clear text"))?
            .clone();
        self.send_password(password.as_bytes()).await
    }

    async fn md5(&mut self, salt: [u8; 4]) -> Result<(), Failure> {
        let response =
            |secret: &Arc<Secret>| auth::md5::response(secret, &self.identity.user, salt);
        let response = self
            .identity
            .secrets
            .iter()
            .find_map(response)
            .ok_or_else(|| self.no_secret("md5"))?;
        self.send_password(response.as_bytes()).await
    }

    /// The whole SASL exchange. AuthenticationOk counts only after the server has proved itself.
    async fn scram(&mut self, mut mechanisms: Strings<'_>) -> Result<(), Failure> {
        if !mechanisms.any(|mechanism| mechanism == scram::MECHANISM.as_bytes()) {
            return Err(Failure::UnsupportedMechanism);
        }
        let credential = self
            .credential()
            .ok_or_else(|| self.no_secret(scram::MECHANISM))?;
        let password = match &credential {
            Credential::Password { password, .. } => Some(password.clone()),
            Credential::Keys(_) => None,
        };
        let (client_first, awaiting) =
            scram::Client::new(credential, Nonce::random(&mut rand::rng())).client_first();
        let mut out = Vec::new();
        write::sasl_initial_response(&mut out, scram::MECHANISM.as_bytes(), Some(&client_first));
        self.send(&out).await?;
        let server_first = self.authentication().await?;
        let Authentication::SaslContinue(data) =
            Authentication::parse(&server_first.body).map_err(Failure::Wire)?
        else {
            return Err(Failure::Unexpected(server_first.tag));
        };
        let next = awaiting.server_first(data, scram::ITERATIONS_MAX)?;
        let awaiting = self.signed(next, password).await?;
        let mut out = Vec::new();
        write::sasl_response(&mut out, awaiting.client_final());
        self.send(&out).await?;
        let server_final = self.authentication().await?;
        match Authentication::parse(&server_final.body).map_err(Failure::Wire)? {
            Authentication::SaslFinal(data) => Ok(awaiting.server_final(data)?),
            _ => Err(Failure::Unexpected(server_final.tag)),
        }
    }

    fn credential(&self) -> Option<Credential> {
        let derived_of = |secret: &Secret| {
            let (password, keys) = self.identity.derived.as_ref()?;
            (secret.password() == Some(password)).then(|| keys.clone())
        };
        self.identity
            .secrets
            .iter()
            .find_map(|secret| Credential::new(secret, derived_of(secret)))
    }

    /// PBKDF2, if there is none from an earlier log-in, on a thread where it may take its time.
    async fn signed(
        &mut self,
        next: ServerFirst,
        password: Option<Password>,
    ) -> Result<AwaitingServerFinal, Failure> {
        let derivation = match next {
            ServerFirst::Ready(awaiting) => return Ok(awaiting),
            ServerFirst::Derive(derivation) => derivation,
        };
        let run = tokio::task::spawn_blocking(move || derivation.run());
        let (keys, awaiting) = run.await.map_err(|_| Failure::Interrupted)?;
        self.derived = password.map(|password| (password, keys));
        Ok(awaiting)
    }

    /// ParameterStatus and BackendKeyData until ReadyForQuery.
    async fn greeting(&mut self) -> Result<Greeting, Failure> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let (mut pid, mut key) = (0, Box::default());
        loop {
            let message = self.messages.next().await?;
            match message.tag {
                tag::PARAMETER_STATUS => pairs.push(status(&message.body)?),
                tag::BACKEND_KEY_DATA => {
                    let data = BackendKeyData::parse(&message.body).map_err(Failure::Wire)?;
                    (pid, key) = (data.pid, data.key.into());
                }
                tag::READY_FOR_QUERY => break idle(&message.body)?,
                other => return Err(Failure::Unexpected(other)),
            }
        }
        let parameters = Parameters::reported(
            pairs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        Ok(Greeting {
            parameters,
            pid,
            key,
            version: self.version,
            derived: self.derived.take(),
        })
    }

    async fn send_password(&mut self, password: &[u8]) -> Result<(), Failure> {
        let mut out = Vec::new();
        write::password(&mut out, password);
        self.send(&out).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.messages
            .stream
            .write_all(bytes)
            .await
            .map_err(Failure::Lost)
    }

    fn no_secret(&self, method: &'static str) -> Failure {
        Failure::NoSecret {
            user: self.identity.user.clone(),
            method,
        }
    }
}

/// Runs `connect_query`. What it sets belongs to the connection's base; its own errors are logged and ignored, as in PgBouncer.
pub async fn connect_query<S>(
    messages: &mut Messages<S>,
    sql: &str,
    mut parameters: Parameters,
) -> Result<Parameters, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    const WANTED: [u8; 4] = [
        tag::ERROR_RESPONSE,
        tag::NOTICE_RESPONSE,
        tag::PARAMETER_STATUS,
        tag::READY_FOR_QUERY,
    ];
    let mut out = Vec::new();
    write::query(&mut out, sql.as_bytes());
    messages
        .stream
        .write_all(&out)
        .await
        .map_err(Failure::Lost)?;
    loop {
        let message = messages.skip_or_next(&WANTED).await?;
        match message.tag {
            tag::ERROR_RESPONSE => {
                tracing::warn!(error = text(&message.body), "connect_query failed")
            }
            tag::NOTICE_RESPONSE => {
                tracing::info!(notice = text(&message.body), "notice from the server")
            }
            tag::PARAMETER_STATUS => {
                let (name, value) = status(&message.body)?;
                parameters = parameters.with(&name, &value, Origin::Reported);
            }
            tag::READY_FOR_QUERY => return idle(&message.body).map(|()| parameters),
            tag::COPY_IN_RESPONSE | tag::COPY_BOTH_RESPONSE => {
                return Err(Failure::Unexpected(message.tag));
            }
            _ => {}
        }
    }
}

fn status(body: &[u8]) -> Result<(String, String), Failure> {
    let status = ParameterStatus::parse(body).map_err(Failure::Wire)?;
    let owned = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    Ok((owned(status.name), owned(status.value)))
}

fn idle(body: &[u8]) -> Result<(), Failure> {
    match ReadyForQuery::parse(body).map_err(Failure::Wire)?.status {
        TransactionStatus::Idle => Ok(()),
        TransactionStatus::InTransaction | TransactionStatus::Failed => Err(Failure::InTransaction),
    }
}

/// Whether a failure may mean that the server does not know protocol 3.2 and has not learnt to say so (NegotiateProtocolVersion): it
/// refused the packet, or closed without a word.
pub fn may_be_too_new(failure: &Failure, version: ProtocolVersion, heard: bool) -> bool {
    let refused = match failure {
        Failure::Refused { sqlstate, .. } => matches!(sqlstate.as_bytes(), b"0A000" | b"08P01"),
        Failure::Closed | Failure::Lost(_) => !heard,
        _ => false,
    };
    refused && version > PROTOCOL_3_0
}
