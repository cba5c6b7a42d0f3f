//! Thousands of clients in one thread: opens, logs in, asks, holds and closes connections on one epoll instance.
//!
//! A held client costs the generator a few dozen bytes, so that 100,000 of them leave the machine to whoever is measured.
//! Each address of 127.1.0.0/16 is the source of a bounded number of connections: ephemeral ports never run out.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use socket2::{Domain, Socket, Type};

use crate::login;
use crate::party::PASSWORD;
use crate::postgres::DATABASE;
use crate::scram::Secret;

const PER_SOURCE: u32 = 10_000;
const EVENTS: usize = 1024;
const RECEIVE_BUFFER: usize = 64 * 1024;
/// Nothing that is measured is silent for longer; whoever is has hung.
const SILENCE: Duration = Duration::from_secs(30);

/// Hands out source addresses so that no source's ports are exhausted.
#[derive(Default)]
pub struct Sources {
    used: Cell<u32>,
}

impl Sources {
    fn next(&self) -> Ipv4Addr {
        let used = self.used.get();
        self.used.set(used.wrapping_add(1));
        let source = (used / PER_SOURCE) % (250 * 250);
        Ipv4Addr::new(127, 1, (source / 250) as u8, (source % 250 + 1) as u8)
    }
}

/// What a client does once it is logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    Hold,
    AskAndHold,
    AskAndClose,
}

enum Stage {
    Connecting,
    LoggingIn,
    Asking { since: Instant },
    Idle,
}

struct Client {
    stream: TcpStream,
    /// The beginning of a message whose end has not arrived; almost always empty.
    tail: Vec<u8>,
    stage: Stage,
}

/// What a batch of bytes from a server meant.
enum Heard {
    Nothing,
    Ready,
}

pub struct Swarm<'a> {
    poll: Poll,
    clients: Slab<Client>,
    buffer: Vec<u8>,
    address: SocketAddr,
    user: String,
    secret: Secret,
    sources: &'a Sources,
    random: u64,
}

impl<'a> Swarm<'a> {
    pub fn new(address: SocketAddr, user: &str, sources: &'a Sources) -> Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            clients: Slab::new(),
            buffer: vec![0; RECEIVE_BUFFER],
            address,
            user: user.to_owned(),
            secret: Secret::new(PASSWORD),
            sources,
            random: 0x9E37_79B9_7F4A_7C15,
        })
    }

    /// Opens `count` clients, at most `in_flight` of them under way at once, and returns how long it took
    /// until the last one was where `then` wants it.
    pub fn open(&mut self, count: usize, in_flight: usize, then: Then) -> Result<Duration> {
        let began = Instant::now();
        let mut events = Events::with_capacity(EVENTS);
        let (mut started, mut done) = (0, 0);
        while done < count {
            while started < count && started - done < in_flight {
                self.start_one()?;
                started += 1;
            }
            self.wait(&mut events)?;
            for event in &events {
                done += usize::from(self.advance(event.token(), then)?);
            }
        }
        Ok(began.elapsed())
    }

    /// Every client asks again as soon as it is answered, for `length`. Returns each answer's latency in microseconds.
    pub fn run(&mut self, length: Duration) -> Result<Vec<u32>> {
        let deadline = Instant::now() + length;
        let mut latencies = Vec::with_capacity(1 << 20);
        let mut events = Events::with_capacity(EVENTS);
        let mut asking: Vec<usize> = self.clients.iter().map(|(key, _)| key).collect();
        asking.iter().try_for_each(|key| self.ask(*key))?;
        let mut open = asking.len();
        asking.clear();
        while open > 0 {
            self.wait(&mut events)?;
            for event in &events {
                let key = event.token().0;
                let Some(latency) = self.answered(key)? else {
                    continue;
                };
                latencies.push(latency);
                if Instant::now() < deadline {
                    self.ask(key)?
                } else {
                    open -= 1
                }
            }
        }
        Ok(latencies)
    }

    /// Says good-bye for all clients.
    pub fn close(mut self) -> Result<()> {
        let farewell = login::terminate();
        for mut client in self.clients.drain() {
            // A peer that is gone already needs no farewell.
            let _ = client.stream.write(&farewell);
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Events) -> Result<()> {
        loop {
            match self.poll.poll(events, Some(SILENCE)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
                Ok(()) if events.is_empty() => bail!("{} was silent for {SILENCE:?}", self.address),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn start_one(&mut self) -> Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        leave_port_to_connect(&socket)?;
        socket.bind(&SocketAddr::from((self.sources.next(), 0)).into())?;
        match socket.connect(&self.address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                return Err(error).context("connecting");
            }
            _ => {}
        }
        let stream = TcpStream::from_std(socket.into());
        let slot = self.clients.vacant_entry();
        let token = Token(slot.key());
        let client = slot.insert(Client {
            stream,
            tail: Vec::new(),
            stage: Stage::Connecting,
        });
        self.poll.registry().register(
            &mut client.stream,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        Ok(())
    }

    /// Takes a client further; true once it has arrived where `then` wants it.
    fn advance(&mut self, token: Token, then: Then) -> Result<bool> {
        let key = token.0;
        let Some(client) = self.clients.get_mut(key) else {
            return Ok(false);
        };
        if let Stage::Connecting = client.stage {
            return self.greet(key).map(|()| false);
        }
        let Heard::Ready = self.receive(key)? else {
            return Ok(false);
        };
        let client = &mut self.clients[key];
        match (&client.stage, then) {
            (Stage::LoggingIn, Then::AskAndHold | Then::AskAndClose) => {
                self.ask(key).map(|()| false)
            }
            (_, Then::AskAndClose) => {
                client.stream.write_all(&login::terminate())?;
                self.clients.remove(key);
                Ok(true)
            }
            _ => {
                client.stage = Stage::Idle;
                Ok(true)
            }
        }
    }

    fn greet(&mut self, key: usize) -> Result<()> {
        let client = &mut self.clients[key];
        if let Some(error) = client.stream.take_error()? {
            return Err(error).context("connecting");
        }
        match client.stream.peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
            peer => peer?,
        };
        client.stage = Stage::LoggingIn;
        client
            .stream
            .write_all(&login::startup(&self.user, DATABASE)?)?;
        Ok(())
    }

    fn ask(&mut self, key: usize) -> Result<()> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let account = self.random % 100_000 + 1;
        let question = login::query(&format!(
            "SELECT abalance FROM pgbench_accounts WHERE aid = {account}"
        ))?;
        let client = &mut self.clients[key];
        client.stage = Stage::Asking {
            since: Instant::now(),
        };
        Ok(client.stream.write_all(&question)?)
    }

    fn answered(&mut self, key: usize) -> Result<Option<u32>> {
        let Stage::Asking { since } = self.clients[key].stage else {
            return Ok(None);
        };
        let Heard::Ready = self.receive(key)? else {
            return Ok(None);
        };
        self.clients[key].stage = Stage::Idle;
        Ok(Some(since.elapsed().as_micros() as u32))
    }

    /// Reads all there is and acts on the messages of the log-in.
    fn receive(&mut self, key: usize) -> Result<Heard> {
        let client = &mut self.clients[key];
        let mut heard = Heard::Nothing;
        loop {
            let count = match client.stream.read(&mut self.buffer) {
                Ok(0) => bail!("{} closed a connection", self.address),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(heard),
                Err(error) => return Err(error).context("receiving"),
            };
            if let Heard::Ready = client.hear(&self.buffer[..count], &mut self.secret)? {
                heard = Heard::Ready;
            }
            if count < self.buffer.len() {
                return Ok(heard);
            }
        }
    }
}

/// Binds the address only: the port is chosen at connect, when the kernel knows both ends (ip(7), IP_BIND_ADDRESS_NO_PORT).
fn leave_port_to_connect(socket: &Socket) -> Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option takes one int, and `on` is one that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().into())
    }
}

impl Client {
    fn hear(&mut self, bytes: &[u8], secret: &mut Secret) -> Result<Heard> {
        if self.tail.is_empty() {
            let (heard, used) = self.messages(bytes, secret)?;
            self.tail.extend_from_slice(&bytes[used..]);
            return Ok(heard);
        }
        let mut whole = std::mem::take(&mut self.tail);
        whole.extend_from_slice(bytes);
        let (heard, used) = self.messages(&whole, secret)?;
        self.tail.extend_from_slice(&whole[used..]);
        Ok(heard)
    }

    fn messages(&mut self, bytes: &[u8], secret: &mut Secret) -> Result<(Heard, usize)> {
        let mut heard = Heard::Nothing;
        let mut used = 0;
        while let Some(length) =
            login::message_len(&bytes[used..]).filter(|length| used + length <= bytes.len())
        {
            let body = &bytes[used + login::HEADER..used + length];
            match bytes[used] {
                b'R' => {
                    if let Some(answer) = login::answer_authentication(body, secret)? {
                        self.stream.write_all(&answer)?;
                    }
                }
                b'E' => bail!("refused: {}", login::error_text(body)),
                b'Z' => heard = Heard::Ready,
                _ => {}
            }
            used += length;
        }
        Ok((heard, used))
    }
}
