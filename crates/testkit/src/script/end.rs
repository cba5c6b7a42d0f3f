//! The ends themselves, over blocking TCP.

use super::message::{Message, Sender};
use super::pattern;
use crate::wait::{self, PATIENCE};
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};
use wire::startup::{PROTOCOL_3_0, ProtocolVersion, StartupPacket};
use wire::{Header, backend, write};

const READ_BYTES: usize = 64 * 1024;

/// One end of a connection: it sends, it expects, and it remembers the conversation for the message of a failed test.
#[derive(Debug)]
pub struct End {
    stream: TcpStream,
    peer: Sender,
    unread: Vec<u8>,
    transcript: Vec<String>,
}

impl End {
    fn new(stream: TcpStream, peer: Sender) -> Self {
        stream.set_nodelay(true).expect("a TCP stream");
        End {
            stream,
            peer,
            unread: Vec::new(),
            transcript: Vec::new(),
        }
    }

    /// Sends what `compose` appends, in one write: `end.send(|out| write::query(out, b"SELECT 1"))`.
    #[track_caller]
    pub fn send(&mut self, compose: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        let mut bytes = Vec::new();
        compose(&mut bytes);
        self.send_bytes(&bytes)
    }

    /// Sends bytes that need not be a message.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.try_send(bytes)
            .unwrap_or_else(|reason| self.fail(&reason));
        self
    }

    /// Sends bytes to a peer that may have gone.
    ///
    /// # Errors
    /// What is wrong.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.transcript.push(format!("> {}", self.read_out(bytes)));
        self.stream
            .write_all(bytes)
            .map_err(|error| format!("cannot send: {error}"))
    }

    /// Sends bytes in writes of `size` bytes, each a segment of its own.
    #[track_caller]
    pub fn send_in_pieces(&mut self, bytes: &[u8], size: usize) -> &mut Self {
        for piece in bytes.chunks(size) {
            self.stream
                .write_all(piece)
                .unwrap_or_else(|error| self.fail(&format!("cannot send: {error}")));
        }
        self.transcript
            .push(format!("> {} in pieces of {size}", self.read_out(bytes)));
        self
    }

    /// Receives exactly the messages of `pattern`, such as "1 2 D C(SELECT 1) Z(I)".
    ///
    /// # Panics
    /// With the conversation so far, when another message comes, none comes in time, or the peer closes.
    #[track_caller]
    pub fn expect(&mut self, pattern: &str) -> Vec<Message> {
        let wanted = pattern::parse(pattern);
        let mut received = Vec::with_capacity(wanted.len());
        for one in &wanted {
            let message = self.receive();
            if !one.matches(&message) {
                self.fail(&format!(
                    "expected {pattern}: the last message does not match"
                ));
            }
            received.push(message);
        }
        received
    }

    /// Receives up to and including a message that matches the only one of `pattern`.
    #[track_caller]
    pub fn receive_until(&mut self, pattern: &str) -> Vec<Message> {
        let wanted = pattern::parse(pattern);
        let [last] = &wanted[..] else {
            panic!("one message ends it, not: {pattern}")
        };
        let mut received = Vec::new();
        loop {
            let message = self.receive();
            let ended = last.matches(&message);
            received.push(message);
            if ended {
                return received;
            }
        }
    }

    /// The next message.
    #[track_caller]
    pub fn receive(&mut self) -> Message {
        match self.try_receive(PATIENCE) {
            Ok(Some(message)) => message,
            Ok(None) => self.fail("the peer closed the connection"),
            Err(reason) => self.fail(&reason),
        }
    }

    /// The next message within `limit`; `None` when the peer has closed. An error says what is wrong, "nothing came" included.
    ///
    /// # Errors
    /// See above.
    pub fn try_receive(&mut self, limit: Duration) -> Result<Option<Message>, String> {
        let deadline = Instant::now() + limit;
        loop {
            let header = Header::peek(&self.unread).map_err(|error| format!("garbage: {error}"))?;
            if let Some(header) = header.filter(|header| self.unread.len() >= header.total()) {
                return Ok(Some(self.take(header)));
            }
            if !self.read_more(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Waits until the peer closes; nothing else may come before.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        match self.try_receive(PATIENCE) {
            Ok(None) => {}
            Ok(Some(_)) => {
                self.fail("expected the end of the connection: the last message came instead")
            }
            Err(reason) => self.fail(&format!("expected the end of the connection: {reason}")),
        }
    }

    /// Nothing must come within `limit`.
    #[track_caller]
    pub fn expect_silence(&mut self, limit: Duration) {
        if let Ok(message) = self.try_receive(limit) {
            self.fail(&format!(
                "expected silence, not {}",
                message.map_or("the end".into(), |it| it.to_string())
            ));
        }
    }

    /// Tells the peer that no more will come (FIN); receiving goes on.
    pub fn finish(&self) {
        // A peer that has gone already needs no telling.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Vanishes without a word: the peer sees a reset connection.
    pub fn reset(self) {
        SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .expect("a TCP stream");
    }

    /// The conversation so far, a line for each message; ">" is what this end sent.
    pub fn transcript(&self) -> String {
        self.transcript.join("\n")
    }

    fn take(&mut self, header: Header) -> Message {
        let bytes: Vec<u8> = self.unread.drain(..header.total()).collect();
        let message = Message {
            sender: self.peer,
            tag: header.tag,
            body: bytes[Header::SIZE..].to_vec(),
        };
        self.transcript.push(format!("< {message}"));
        message
    }

    /// False at the end of the stream. A reset counts as an end: which of the two a peer's close becomes depends on unread bytes.
    fn read_more(&mut self, deadline: Instant) -> Result<bool, String> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("nothing came in time".into());
        }
        self.stream
            .set_read_timeout(Some(left))
            .expect("a time-out above zero");
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Err("nothing came in time".into()),
                ErrorKind::Interrupted => Ok(true),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(false),
                _ => Err(format!("cannot receive: {error}")),
            },
        }
    }

    /// Bytes of ours as messages, or their number where they are none.
    fn read_out(&self, bytes: &[u8]) -> String {
        let sender = match self.peer {
            Sender::Client => Sender::Server,
            Sender::Server => Sender::Client,
        };
        let mut words = Vec::new();
        let mut rest = bytes;
        while let Ok(Some(header)) = Header::peek(rest)
            && rest.len() >= header.total()
        {
            let (message, after) = rest.split_at(header.total());
            let body = message[Header::SIZE..].to_vec();
            words.push(
                Message {
                    sender,
                    tag: header.tag,
                    body,
                }
                .to_string(),
            );
            rest = after;
        }
        if !rest.is_empty() {
            words.push(format!("[{} bytes]", rest.len()));
        }
        words.join(" ")
    }

    #[track_caller]
    fn fail(&self, reason: &str) -> ! {
        panic!("{reason}\n{}", self.transcript());
    }
}

/// A scripted client.
#[derive(Debug)]
pub struct Client {
    end: End,
    /// From BackendKeyData: process id and secret.
    key: (i32, Vec<u8>),
}

impl Client {
    /// Connects and sends nothing yet.
    #[track_caller]
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port))
            .unwrap_or_else(|error| panic!("port {port}: {error}"));
        Client {
            end: End::new(stream, Sender::Server),
            key: (0, Vec::new()),
        }
    }

    /// Connects as a user who needs no password, and receives everything up to the first ReadyForQuery.
    #[track_caller]
    pub fn login(port: u16, user: &str, database: &str) -> Self {
        Self::login_with(
            port,
            PROTOCOL_3_0,
            &[("user", user), ("database", database)],
        )
    }

    /// As [`Client::login`], with a version and startup parameters of the test's choice.
    #[track_caller]
    pub fn login_with(port: u16, version: ProtocolVersion, parameters: &[(&str, &str)]) -> Self {
        let mut client = Self::connect(port);
        let parameters = parameters
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        client.send(|out| write::startup(out, version, parameters));
        for message in client.receive_until("Z(I)") {
            match message.tag {
                backend::tag::BACKEND_KEY_DATA => {
                    let data = backend::BackendKeyData::parse(&message.body).expect("a key");
                    client.key = (data.pid, data.key.to_vec());
                }
                backend::tag::ERROR_RESPONSE => client.fail("the log-in was refused"),
                _ => {}
            }
        }
        client
    }

    /// Runs a simple query and returns everything up to ReadyForQuery as a line: "T D(1) C(SELECT 1) Z(I)".
    #[track_caller]
    pub fn query(&mut self, sql: &str) -> String {
        self.send(|out| write::query(out, sql.as_bytes()));
        let messages = self.receive_until("Z");
        let words: Vec<_> = messages.iter().map(Message::to_string).collect();
        words.join(" ")
    }

    /// The process id and the secret that cancel this client's query.
    pub fn key(&self) -> (i32, &[u8]) {
        (self.key.0, &self.key.1)
    }

    /// Sends a CancelRequest for a client on a connection of its own, and waits until the peer has closed it.
    #[track_caller]
    pub fn cancel(port: u16, (pid, secret): (i32, &[u8])) {
        let mut client = Self::connect(port);
        client.send(|out| write::cancel_request(out, pid, secret));
        client.expect_closed();
    }

    /// The client without its key.
    pub fn into_end(self) -> End {
        self.end
    }
}

impl Deref for Client {
    type Target = End;

    fn deref(&self) -> &End {
        &self.end
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut End {
        &mut self.end
    }
}

/// Where a scripted server is dialled.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// On 127.0.0.1, on a port of the system's choice.
    pub fn bind() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        Listener { listener }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().expect("it is bound").port()
    }

    /// The next connection; nothing was received from it yet.
    ///
    /// # Panics
    /// When nobody dials in time.
    #[track_caller]
    pub fn accept(&self) -> Server {
        let stream = self.accept_within(PATIENCE).expect("somebody dials");
        Server {
            end: End::new(stream, Sender::Client),
            parameters: Vec::new(),
        }
    }

    /// Whether nobody dials within `limit`.
    pub fn is_left_alone(&self, limit: Duration) -> bool {
        self.accept_within(limit).is_none()
    }

    fn accept_within(&self, limit: Duration) -> Option<TcpStream> {
        let mut accepted = None;
        wait::within(limit, || {
            accepted = self.listener.accept().ok();
            accepted.is_some()
        });
        let (stream, _) = accepted?;
        stream.set_nonblocking(false).expect("a TCP stream");
        Some(stream)
    }

    /// Accepts a connection and plays a trusting PostgreSQL up to the first ReadyForQuery.
    #[track_caller]
    pub fn accept_and_greet(&self) -> Server {
        let mut server = self.accept();
        server.greet();
        server
    }
}

/// A scripted server.
#[derive(Debug)]
pub struct Server {
    end: End,
    parameters: Vec<(String, String)>,
}

impl Server {
    /// The ParameterStatus messages of [`Server::greet`].
    pub const GREETING: &[(&str, &str)] = &[
        ("server_version", "17.0"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("application_name", ""),
        ("default_transaction_read_only", "off"),
        ("in_hot_standby", "off"),
        ("is_superuser", "off"),
    ];
    pub const KEY: (i32, &[u8]) = (4711, b"key!");

    /// Receives the startup packet, whose parameters [`Server::parameters`] then tells, and lets the client in.
    #[track_caller]
    pub fn greet(&mut self) -> &mut Self {
        self.receive_startup();
        self.send(|out| {
            write::authentication_ok(out);
            for (name, value) in Self::GREETING {
                write::parameter_status(out, name.as_bytes(), value.as_bytes());
            }
            write::backend_key_data(out, Self::KEY.0, Self::KEY.1);
            write::ready_for_query(out, backend::TransactionStatus::Idle);
        });
        self
    }

    /// Receives a StartupMessage; refuses encryption if that is asked for first.
    #[track_caller]
    pub fn receive_startup(&mut self) -> &mut Self {
        loop {
            let packet = self.receive_packet();
            match StartupPacket::parse(&packet) {
                Ok(StartupPacket::Ssl | StartupPacket::GssEnc) => {
                    self.send_bytes(b"N");
                }
                Ok(StartupPacket::Startup(startup)) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let parameters = startup
                        .parameters()
                        .map(|(name, value)| (text(name), text(value)));
                    self.parameters = parameters.collect();
                    return self;
                }
                other => self.fail(&format!("expected a StartupMessage, not {other:?}")),
            }
        }
    }

    /// Receives a packet without a tag: StartupMessage, SSLRequest, GSSENCRequest or CancelRequest, its length word included.
    #[track_caller]
    pub fn receive_packet(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let len = StartupPacket::peek_len(&self.unread)
                .unwrap_or_else(|error| self.fail(&error.to_string()));
            if let Some(len) = len.filter(|len| self.unread.len() >= *len) {
                let packet: Vec<u8> = self.unread.drain(..len).collect();
                self.transcript
                    .push(format!("< [startup packet of {len} bytes]"));
                return packet;
            }
            match self.read_more(deadline) {
                Ok(true) => {}
                Ok(false) => self.fail("the peer closed the connection before its startup packet"),
                Err(reason) => self.fail(&reason),
            }
        }
    }

    /// Names and values of the last StartupMessage.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    /// The server without its parameters.
    pub fn into_end(self) -> End {
        self.end
    }
}

impl Deref for Server {
    type Target = End;

    fn deref(&self) -> &End {
        &self.end
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut End {
        &mut self.end
    }
}
