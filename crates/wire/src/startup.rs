//! The first packet of a connection, which has a length but no tag: StartupMessage, SSLRequest,
//! GSSENCRequest and CancelRequest.
//!
//! All of it comes from a peer that nobody knows yet, so every length is bounded before a byte is
//! kept.

use crate::WireError;
use crate::cursor::Cursor;

pub use crate::options::{OptionsError, parse_options};

/// Bytes of a startup packet after its length word, as in PostgreSQL.
pub const MAX_STARTUP_PACKET: usize = 10_000;

/// Bytes of a cancel key: 4 in protocol 3.0, up to 256 since 3.2.
pub const CANCEL_KEY_LEN: std::ops::RangeInclusive<usize> = 4..=256;

pub(crate) const CANCEL_REQUEST: u32 = request_code(5678);
pub(crate) const SSL_REQUEST: u32 = request_code(5679);
pub(crate) const GSSENC_REQUEST: u32 = request_code(5680);

/// Requests are spelled as minor versions of a protocol 1234 that never was.
const fn request_code(minor: u32) -> u32 {
    1234 << 16 | minor
}

const LENGTH_WORD: usize = 4;

/// A version of the protocol, as a client asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolVersion {
    pub major: u16,
    pub minor: u16,
}

pub const PROTOCOL_3_0: ProtocolVersion = ProtocolVersion { major: 3, minor: 0 };
pub const PROTOCOL_3_2: ProtocolVersion = ProtocolVersion { major: 3, minor: 2 };

impl ProtocolVersion {
    /// From the spelling of the startup packet: the major version in the high half.
    #[inline]
    #[must_use]
    pub const fn from_u32(code: u32) -> Self {
        ProtocolVersion {
            major: (code >> 16) as u16,
            minor: code as u16,
        }
    }

    #[inline]
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }
}

/// The first packet of a connection.
#[derive(Clone, PartialEq, Eq)]
pub enum StartupPacket<'a> {
    /// SSLRequest: to be answered with one byte, `S` or `N`.
    Ssl,
    /// GSSENCRequest: to be answered with one byte, `G` or `N`.
    GssEnc,
    /// CancelRequest: to be answered with nothing at all.
    Cancel { pid: i32, key: &'a [u8] },
    /// StartupMessage.
    Startup(Startup<'a>),
}

impl<'a> StartupPacket<'a> {
    /// Bytes of the packet at the front of `buf`, its length word included; `None` when the word
    /// itself is not there yet.
    ///
    /// # Errors
    /// [`WireError::StartupLength`]: too short for a request code, or more than
    /// [`MAX_STARTUP_PACKET`] bytes after the word.
    pub fn peek_len(buf: &[u8]) -> Result<Option<usize>, WireError> {
        let Some(word) = buf.first_chunk::<LENGTH_WORD>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*word);
        let total = len as usize;
        if (2 * LENGTH_WORD..=LENGTH_WORD + MAX_STARTUP_PACKET).contains(&total) {
            Ok(Some(total))
        } else {
            Err(WireError::StartupLength(len))
        }
    }

    /// Reads a whole packet, its length word included. The version of a StartupMessage may have any
    /// minor number: the caller negotiates it.
    ///
    /// # Errors
    /// A length that differs from the packet's, an unknown request or major version, a cancel key
    /// outside [`CANCEL_KEY_LEN`], or a list of parameters that does not end where the packet does.
    pub fn parse(packet: &'a [u8]) -> Result<Self, WireError> {
        let total = Self::peek_len(packet)?.ok_or(WireError::Truncated)?;
        let mut cursor = Cursor::new(packet);
        let mut cursor = Cursor::new(cursor.bytes(total)?);
        if packet.len() > total {
            return Err(WireError::Trailing(packet.len() - total));
        }
        cursor.u32()?;
        match cursor.u32()? {
            SSL_REQUEST => cursor.finish().map(|()| StartupPacket::Ssl),
            GSSENC_REQUEST => cursor.finish().map(|()| StartupPacket::GssEnc),
            CANCEL_REQUEST => Ok(StartupPacket::Cancel {
                pid: cursor.i32()?,
                key: cancel_key(cursor)?,
            }),
            code => Startup::parse(ProtocolVersion::from_u32(code), cursor.rest())
                .map(StartupPacket::Startup),
        }
    }
}

/// Keeps the secret out of logs.
impl std::fmt::Debug for StartupPacket<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartupPacket::Ssl => f.write_str("Ssl"),
            StartupPacket::GssEnc => f.write_str("GssEnc"),
            StartupPacket::Cancel { pid, .. } => f
                .debug_struct("Cancel")
                .field("pid", pid)
                .finish_non_exhaustive(),
            StartupPacket::Startup(startup) => f.debug_tuple("Startup").field(startup).finish(),
        }
    }
}

/// The rest of a CancelRequest or of a BackendKeyData.
pub(crate) fn cancel_key(cursor: Cursor<'_>) -> Result<&[u8], WireError> {
    let key = cursor.rest();
    if CANCEL_KEY_LEN.contains(&key.len()) {
        Ok(key)
    } else {
        Err(WireError::CancelKeyLength(key.len()))
    }
}

/// StartupMessage: the version a client speaks, and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup<'a> {
    pub version: ProtocolVersion,
    /// Pairs of strings, without the terminator of the list; checked by [`Startup::parse`].
    pairs: &'a [u8],
}

impl<'a> Startup<'a> {
    fn parse(version: ProtocolVersion, body: &'a [u8]) -> Result<Self, WireError> {
        if version.major != PROTOCOL_3_0.major {
            return Err(WireError::Version(version));
        }
        let (&last, pairs) = body.split_last().ok_or(WireError::Terminator)?;
        if last != 0 {
            return Err(WireError::Terminator);
        }
        let mut cursor = Cursor::new(pairs);
        while !cursor.is_empty() {
            if cursor.string()?.is_empty() {
                return Err(WireError::Terminator);
            }
            cursor.string()?;
        }
        Ok(Startup { version, pairs })
    }

    /// Names and values in the client's order; a name may come twice, then the last one counts.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut cursor = Cursor::new(self.pairs);
        std::iter::from_fn(move || Some((cursor.string().ok()?, cursor.string().ok()?)))
    }

    /// The value of the parameter `name`, spelled exactly so; the last one of several.
    #[must_use]
    pub fn parameter(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.parameters()
            .filter(|(candidate, _)| *candidate == name)
            .map(|(_, value)| value)
            .last()
    }
}
