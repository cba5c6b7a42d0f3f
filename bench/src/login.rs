//! What a client says from the first byte to its first ReadyForQuery, without I/O: fed with messages, answers bytes.
//!
//! Shared by the blocking [`Session`](crate::session::Session) and the [`Swarm`](crate::swarm::Swarm).

use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use postgres_protocol::message::frontend;

use crate::scram::{self, Secret};

/// Type byte and length word in front of every message (manual, "Message Formats").
pub const HEADER: usize = 5;

/// The length of the whole message that starts at `bytes`, once its header is there.
pub fn message_len(bytes: &[u8]) -> Option<usize> {
    let length = bytes
        .get(1..HEADER)?
        .try_into()
        .ok()
        .map(u32::from_be_bytes)?;
    Some(1 + length as usize)
}

pub fn startup(user: &str, database: &str) -> Result<BytesMut> {
    let mut out = BytesMut::new();
    frontend::startup_message([("user", user), ("database", database)], &mut out)?;
    Ok(out)
}

pub fn query(text: &str) -> Result<BytesMut> {
    let mut out = BytesMut::new();
    frontend::query(text, &mut out)?;
    Ok(out)
}

pub fn terminate() -> BytesMut {
    let mut out = BytesMut::new();
    frontend::terminate(&mut out);
    out
}

/// The answer to an Authentication message, if it wants one (manual, "Start-up").
pub fn answer_authentication(body: &[u8], secret: &mut Secret) -> Result<Option<BytesMut>> {
    let (code, rest) = body
        .split_at_checked(4)
        .context("short Authentication message")?;
    let mut out = BytesMut::new();
    match u32::from_be_bytes(code.try_into()?) {
        0 | 12 => return Ok(None),
        10 => frontend::sasl_initial_response(
            "SCRAM-SHA-256",
            scram::client_first().as_bytes(),
            &mut out,
        )?,
        11 => {
            let answer = secret.client_final(std::str::from_utf8(rest)?)?;
            frontend::sasl_response(answer.as_bytes(), &mut out)?;
        }
        other => bail!("authentication method {other} is none that is measured"),
    }
    Ok(Some(out))
}

/// Severity and text of an ErrorResponse, for people.
pub fn error_text(body: &[u8]) -> String {
    body.split(|byte| *byte == 0)
        .filter(|field| matches!(field.first(), Some(b'S' | b'C' | b'M')))
        .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
