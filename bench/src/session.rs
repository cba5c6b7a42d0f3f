//! One blocking connection: for set-up statements, for asking PostgreSQL what is going on, and for bulk transfer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use postgres_protocol::message::frontend;

use crate::login::{self, HEADER};
use crate::scram::Secret;

const RECEIVE_BUFFER: usize = 256 * 1024;
/// No single answer of a measurement takes longer; whoever hangs is reported instead of waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

pub struct Session {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Session {
    pub fn connect(address: SocketAddr, user: &str, database: &str) -> Result<Self> {
        let stream =
            TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut session = Self {
            stream,
            buffer: vec![0; RECEIVE_BUFFER],
            start: 0,
            end: 0,
        };
        session.stream.write_all(&login::startup(user, database)?)?;
        session.log_in()?;
        Ok(session)
    }

    fn log_in(&mut self) -> Result<()> {
        let mut secret = Secret::new("");
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'R' => {
                    if let Some(answer) = login::answer_authentication(&body, &mut secret)? {
                        self.stream.write_all(&answer)?;
                    }
                }
                b'E' => bail!("log-in refused: {}", login::error_text(&body)),
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }

    /// Runs `sql` and returns the rows' columns as text, NULL as an empty one.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        self.stream.write_all(&login::query(sql)?)?;
        let mut rows = Vec::new();
        let mut failure = None;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'D' => rows.push(columns(&body)?),
                b'E' => failure = Some(login::error_text(&body)),
                b'Z' => break,
                _ => {}
            }
        }
        match failure {
            Some(text) => bail!("{sql}: {text}"),
            None => Ok(rows),
        }
    }

    pub fn number(&mut self, sql: &str) -> Result<u64> {
        let rows = self.rows(sql)?;
        let text = rows.first().and_then(|row| row.first()).context("no row")?;
        Ok(text.parse()?)
    }

    pub fn send_query(&mut self, sql: &str) -> Result<()> {
        Ok(self.stream.write_all(&login::query(sql)?)?)
    }

    /// Sends `total` bytes of `line` as CopyData messages of 8 KiB, which is what psql sends, then CopyDone.
    pub fn copy_in(&mut self, line: &[u8], total: u64) -> Result<()> {
        let chunk = line.repeat((8 * 1024 / line.len()).max(1));
        let mut message = BytesMut::new();
        frontend::CopyData::new(&chunk[..])?.write(&mut message);
        for _ in 0..total.div_ceil(message.len() as u64) {
            self.stream.write_all(&message)?;
        }
        let mut done = BytesMut::new();
        frontend::copy_done(&mut done);
        Ok(self.stream.write_all(&done)?)
    }

    /// Skips messages up to and with the first of `until`; returns their bytes; an error answer ends the measurement.
    /// `pause` stops reading once, after the first buffer: a slow client.
    pub fn drain(&mut self, until: &[u8], pause: Duration) -> Result<u64> {
        let mut bytes = 0;
        let mut pause = Some(pause).filter(|pause| !pause.is_zero());
        loop {
            let kind = self.skip_message(&mut bytes)?;
            if until.contains(&kind) {
                return Ok(bytes);
            }
            if let Some(pause) = pause.take_if(|_| bytes > RECEIVE_BUFFER as u64) {
                std::thread::sleep(pause);
            }
        }
    }

    fn skip_message(&mut self, bytes: &mut u64) -> Result<u8> {
        let length = self.header()?;
        let kind = self.buffer[self.start];
        if kind == b'E' {
            let (_, body) = self.message()?;
            bail!("refused: {}", login::error_text(&body));
        }
        *bytes += length as u64;
        let mut left = length;
        loop {
            let step = left.min(self.end - self.start);
            self.start += step;
            left -= step;
            if left == 0 {
                return Ok(kind);
            }
            self.receive()?;
        }
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>)> {
        let length = self.header()?;
        let kind = self.buffer[self.start];
        let mut body = Vec::with_capacity(length);
        while body.len() < length {
            if self.start == self.end {
                self.receive()?;
            }
            let step = (length - body.len()).min(self.end - self.start);
            body.extend_from_slice(&self.buffer[self.start..self.start + step]);
            self.start += step;
        }
        body.drain(..HEADER.min(length));
        Ok((kind, body))
    }

    fn header(&mut self) -> Result<usize> {
        loop {
            if let Some(length) = login::message_len(&self.buffer[self.start..self.end]) {
                return Ok(length);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let count = self
            .stream
            .read(&mut self.buffer[self.end..])
            .context("waiting for an answer")?;
        if count == 0 {
            bail!("the connection was closed");
        }
        self.end += count;
        Ok(())
    }
}

fn columns(body: &[u8]) -> Result<Vec<String>> {
    let (count, mut rest) = body.split_at_checked(2).context("short DataRow")?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(count.try_into()?) {
        let (length, after) = rest.split_at_checked(4).context("short DataRow")?;
        let length = i32::from_be_bytes(length.try_into()?).max(0);
        let (text, after) = after
            .split_at_checked(length as usize)
            .context("short DataRow")?;
        columns.push(String::from_utf8_lossy(text).into_owned());
        rest = after;
    }
    Ok(columns)
}
