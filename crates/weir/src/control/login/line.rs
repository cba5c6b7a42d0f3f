//! A connection before it belongs to a client: its socket, what has been read, and what is to be sent with the next write.
//!
//! Owns the promise that a peer that nobody knows yet makes us hold a few kilobytes at most: bytes are read only while a packet is
//! incomplete, and a packet's length is checked before its body is waited for. The socket is given to the runtime only once it has
//! to wait: a client whose startup packet is already there is greeted without a single registration.

use super::refusal::{Failure, Refusal};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;
use wire::startup::StartupPacket;
use wire::{Header, WireError};

/// Bytes asked for by one read: nearly every packet of a log-in is shorter.
const CHUNK: usize = 1024;
/// Bytes that a peer that is refused may have sent ahead.
const UNREAD_MAX: usize = 4096;
/// Bytes that a client may send ahead of its greeting before they are left in the kernel.
const AHEAD_MAX: usize = 64 * 1024;

pub struct Line {
    /// `None` only while it changes hands.
    channel: Option<Channel>,
    /// Received and not yet consumed.
    input: Vec<u8>,
    /// To be sent by the next `flush`.
    pub output: Vec<u8>,
}

enum Channel {
    Fresh(Socket),
    Watched(AsyncFd<Socket>),
}

impl Channel {
    fn socket(&self) -> &Socket {
        match self {
            Channel::Fresh(socket) => socket,
            Channel::Watched(watched) => watched.get_ref(),
        }
    }
}

impl Line {
    /// Of a non-blocking socket.
    pub fn new(socket: Socket) -> Line {
        Line {
            channel: Some(Channel::Fresh(socket)),
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    pub fn socket(&self) -> io::Result<&Socket> {
        self.channel.as_ref().map(Channel::socket).ok_or_else(lost)
    }

    /// What has been received and not consumed.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    pub fn consume(&mut self, count: usize) {
        self.input.drain(..count.min(self.input.len()));
    }

    /// Waits until a whole startup packet is at the front of the input; its length.
    pub async fn startup_packet(&mut self) -> Result<usize, Failure> {
        loop {
            if let Some(total) = StartupPacket::peek_len(&self.input)?
                && self.input.len() >= total
            {
                return Ok(total);
            }
            self.receive().await?;
        }
    }

    /// Waits until a whole message is at the front of the input; its header. `body_max` bounds the body, in bytes.
    pub async fn message(&mut self, body_max: usize) -> Result<Header, Failure> {
        loop {
            if let Some(header) = Header::peek(&self.input)? {
                if header.body() > body_max {
                    return Err(Refusal::from(WireError::Length(header.len)).into());
                }
                if self.input.len() >= header.total() {
                    return Ok(header);
                }
            }
            self.receive().await?;
        }
    }

    /// Waits for at least one more byte.
    async fn receive(&mut self) -> Result<(), Failure> {
        match self.try_receive() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return ended_by(received),
        }
        loop {
            let watched = watch(&mut self.channel)?;
            let mut ready = watched.readable().await?;
            let input = &mut self.input;
            match ready.try_io(|watched| read_chunk(watched.get_ref(), input)) {
                Ok(received) => return ended_by(received),
                Err(_would_block) => continue,
            }
        }
    }

    fn try_receive(&mut self) -> io::Result<usize> {
        let socket = self.channel.as_ref().ok_or_else(lost)?.socket();
        read_chunk(socket, &mut self.input)
    }

    /// Sends all of `output`.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        let output = std::mem::take(&mut self.output);
        let mut rest = output.as_slice();
        while !rest.is_empty() {
            let sent = match self.socket()?.write_now(rest) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.send_later(rest).await?
                }
                sent => sent?,
            };
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    async fn send_later(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let watched = watch(&mut self.channel)?;
        loop {
            let mut ready = watched.writable().await?;
            if let Ok(sent) = ready.try_io(|watched| watched.get_ref().write_now(bytes)) {
                return sent;
            }
        }
    }

    /// Waits until the peer has gone, keeping what it sends meanwhile. Never ends for a peer that sends much ahead.
    pub async fn departure(&mut self) {
        while self.input.len() < AHEAD_MAX {
            if self.receive().await.is_err() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Says goodbye with what is in `output`, as far as the socket takes it at once. What the peer has sent meanwhile is read away
    /// first: closing a socket with unread input resets the connection, and the peer would not see the message.
    pub fn hang_up(mut self) {
        let mut unread = [0; UNREAD_MAX];
        if let Ok(mut socket) = self.socket() {
            let _ = socket.read(&mut unread);
            let _ = socket.write_now(&self.output);
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
        self.output.clear();
    }

    /// The socket, no longer known to the runtime, and the input that is left.
    pub fn into_parts(self) -> io::Result<(OwnedFd, Vec<u8>)> {
        let socket = match self.channel.ok_or_else(lost)? {
            Channel::Fresh(socket) => socket,
            Channel::Watched(watched) => watched.into_inner(),
        };
        Ok((socket.into(), self.input))
    }
}

trait WriteNow {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl WriteNow for Socket {
    fn write_now(mut self: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }
}

/// Gives the socket to the runtime, if that has not happened yet.
fn watch(channel: &mut Option<Channel>) -> io::Result<&AsyncFd<Socket>> {
    if let Some(Channel::Fresh(_)) = channel
        && let Some(Channel::Fresh(socket)) = channel.take()
    {
        // SAFETY: the socket owns its descriptor, which stays open and the same until `into_inner` gives it back.
        let registered = unsafe { AsyncFd::register(socket) };
        *channel = Some(Channel::Watched(registered?));
    }
    match channel {
        Some(Channel::Watched(watched)) => Ok(watched),
        _ => Err(lost()),
    }
}

fn read_chunk(mut socket: &Socket, input: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; CHUNK];
    let count = socket.read(&mut chunk)?;
    input.extend_from_slice(chunk.get(..count).unwrap_or_default());
    Ok(count)
}

fn ended_by(received: io::Result<usize>) -> Result<(), Failure> {
    match received? {
        0 => Err(Failure::Left),
        _ => Ok(()),
    }
}

/// The runtime refused the socket earlier, and dropped it.
fn lost() -> io::Error {
    io::ErrorKind::NotConnected.into()
}
