//! One client's connection: log-in, simple queries, COPY.

use super::clock::Clock;
use super::endpoint::Endpoint;
use super::stream::Stream;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{
    AuthenticationSaslBody, DataRowBody, ErrorResponseBody, Message, RowDescriptionBody,
};
use postgres_protocol::message::frontend;
use std::io;
use std::time::{Duration, Instant};

const RECEIVE_BUFFER: usize = 16 * 1024;
/// What psql sends in one CopyData message.
const COPY_CHUNK: usize = 8 * 1024;

/// Why a connection could not be had or used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The other side said no, in an ErrorResponse.
    #[error("{message} ({code})")]
    Refused { code: String, message: String },
    #[error("connection lost: {0}")]
    Lost(#[from] io::Error),
    #[error("the server asks for an authentication that the lab's driver does not have: {0}")]
    Unsupported(&'static str),
}

/// What a query brought.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Answer {
    pub rows: u64,
    /// Names of the columns of the last result.
    pub columns: Vec<String>,
    /// The first row, in text.
    pub first: Vec<Option<String>>,
}

/// A network that is slower than this machine's own: every round trip takes so much longer.
#[derive(Debug, Clone)]
pub struct Delay {
    pub round_trip: Duration,
    pub clock: Clock,
}

/// A logged-in connection.
pub struct Connection {
    stream: Stream,
    /// What has arrived of the next message; no allocation while the connection is idle.
    inbox: BytesMut,
    delay: Option<Delay>,
}

impl Connection {
    /// Connects and logs in; returns when the server is ready for a query.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        let mut connection = Self {
            stream: Stream::connect(&endpoint.place).await?,
            inbox: BytesMut::new(),
            delay: None,
        };
        let parameters = [
            ("user", endpoint.user.as_str()),
            ("database", endpoint.database.as_str()),
        ];
        connection
            .send(|out| frontend::startup_message(parameters, out))
            .await?;
        connection.authenticate(endpoint).await?;
        connection.answer().await?;
        Ok(connection)
    }

    /// From now on every round trip is longer.
    pub fn slow_down(&mut self, delay: Option<Delay>) {
        self.delay = delay;
    }

    /// Runs SQL by the simple protocol.
    ///
    /// # Errors
    /// [`Failure::Refused`] leaves the connection usable unless the server closed it.
    pub async fn query(&mut self, sql: &str) -> Result<Answer, Failure> {
        self.half_a_round_trip().await;
        self.send(|out| frontend::query(sql, out)).await?;
        let answer = self.answer().await;
        self.half_a_round_trip().await;
        answer
    }

    /// Runs `COPY ... FROM STDIN` with `data`.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub async fn copy_in(&mut self, sql: &str, data: &[u8]) -> Result<(), Failure> {
        self.send(|out| frontend::query(sql, out)).await?;
        loop {
            match self.message().await? {
                Message::CopyInResponse(_) => break,
                Message::ErrorResponse(error) => {
                    let refused = refusal(&error);
                    self.answer().await?;
                    return Err(refused);
                }
                _ => {}
            }
        }
        for chunk in data.chunks(COPY_CHUNK) {
            self.send(|out| {
                frontend::CopyData::new(chunk)?.write(out);
                Ok(())
            })
            .await?;
        }
        let done = |out: &mut BytesMut| {
            frontend::copy_done(out);
            Ok(())
        };
        self.send(done).await?;
        self.answer().await.map(drop)
    }

    /// Says good-bye.
    pub async fn close(self) {
        let mut out = BytesMut::new();
        frontend::terminate(&mut out);
        // A server that is gone already needs no farewell.
        let _ = self.stream.write_all(&out).await;
    }

    async fn half_a_round_trip(&self) {
        if let Some(delay) = &self.delay {
            delay
                .clock
                .sleep_until(Instant::now() + delay.round_trip / 2)
                .await;
        }
    }

    async fn send(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut out = BytesMut::new();
        write(&mut out)?;
        Ok(self.stream.write_all(&out).await?)
    }

    /// Everything up to ReadyForQuery. An error that closes the connection is told, too.
    async fn answer(&mut self) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        let mut refused = None;
        loop {
            match self.message().await {
                Ok(Message::ReadyForQuery(_)) => break,
                Ok(Message::RowDescription(body)) => answer.columns = names(&body)?,
                Ok(Message::DataRow(body)) => {
                    if answer.rows == 0 {
                        answer.first = values(&body)?;
                    }
                    answer.rows += 1;
                }
                Ok(Message::ErrorResponse(error)) => refused = Some(refusal(&error)),
                Ok(_) => {}
                Err(lost) => return Err(refused.unwrap_or(lost)),
            }
        }
        if self.inbox.is_empty() {
            self.inbox = BytesMut::new();
        }
        refused.map_or(Ok(answer), Err)
    }

    async fn message(&mut self) -> Result<Message, Failure> {
        loop {
            if let Some(message) = Message::parse(&mut self.inbox)? {
                return Ok(message);
            }
            self.stream.readable().await?;
            self.receive()?;
        }
    }

    /// The buffer is on the stack: a task that waits does not carry it.
    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; RECEIVE_BUFFER];
        match self.stream.try_read(&mut buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.inbox.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn authenticate(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let password = endpoint.password.as_deref().unwrap_or_default().as_bytes();
        loop {
            match self.message().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    self.send(|out| frontend::password_message(password, out))
                        .await?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(endpoint.user.as_bytes(), password, body.salt());
                    self.send(|out| frontend::password_message(hash.as_bytes(), out))
                        .await?;
                }
                Message::AuthenticationSasl(body) => self.scram(&body, password).await?,
                Message::ErrorResponse(error) => return Err(refusal(&error)),
                Message::NoticeResponse(_) => {}
                _ => return Err(Failure::Unsupported("neither a password nor SCRAM-SHA-256")),
            }
        }
    }

    /// Manual, "SASL Authentication". The key is derived anew for every connection, as libpq does it.
    async fn scram(
        &mut self,
        offer: &AuthenticationSaslBody,
        password: &[u8],
    ) -> Result<(), Failure> {
        if !offer.mechanisms().any(|name| Ok(name == SCRAM_SHA_256))? {
            return Err(Failure::Unsupported("SASL without SCRAM-SHA-256"));
        }
        let mut scram = ScramSha256::new(password, ChannelBinding::unsupported());
        self.send(|out| frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), out))
            .await?;
        loop {
            match self.message().await? {
                Message::AuthenticationSaslContinue(body) => {
                    scram.update(body.data())?;
                    self.send(|out| frontend::sasl_response(scram.message(), out))
                        .await?;
                }
                Message::AuthenticationSaslFinal(body) => return Ok(scram.finish(body.data())?),
                Message::ErrorResponse(error) => return Err(refusal(&error)),
                _ => return Err(Failure::Unsupported("a SASL exchange out of order")),
            }
        }
    }
}

/// SQLSTATE and text (manual, "Error and Notice Message Fields").
fn refusal(error: &ErrorResponseBody) -> Failure {
    let mut fields = error.fields();
    let mut refused = (String::new(), String::new());
    while let Ok(Some(field)) = fields.next() {
        let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => refused.0 = text(),
            b'M' => refused.1 = text(),
            _ => {}
        }
    }
    let (code, message) = refused;
    Failure::Refused { code, message }
}

fn names(body: &RowDescriptionBody) -> io::Result<Vec<String>> {
    body.fields()
        .map(|field| Ok(field.name().to_owned()))
        .collect()
}

fn values(body: &DataRowBody) -> io::Result<Vec<Option<String>>> {
    let text = |range: std::ops::Range<usize>| {
        let bytes = body.buffer().get(range).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    body.ranges().map(|range| Ok(range.map(text))).collect()
}
