//! The five bytes in front of every message except the first one of a client.

use crate::WireError;

/// Tag and length of a message, as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The message's type, one of `frontend::tag` or `backend::tag`, or anything else.
    pub tag: u8,
    /// Bytes, including these 4 and excluding the tag: 4 to 2^31 - 1.
    pub len: u32,
}

impl Header {
    /// Bytes: one of the tag, four of the length.
    pub const SIZE: usize = 5;

    const LEN_MIN: u32 = 4;
    const LEN_MAX: u32 = i32::MAX as u32;

    /// Reads the header at the front of `buf`; `None` when fewer than [`Header::SIZE`] bytes are there.
    ///
    /// # Errors
    /// [`WireError::Length`]: the length does not cover itself, or is negative as an Int32. Nothing
    /// after such a header can be understood.
    #[inline]
    pub fn peek(buf: &[u8]) -> Result<Option<Header>, WireError> {
        let Some(&[tag, a, b, c, d]) = buf.first_chunk::<{ Header::SIZE }>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes([a, b, c, d]);
        if (Self::LEN_MIN..=Self::LEN_MAX).contains(&len) {
            Ok(Some(Header { tag, len }))
        } else {
            Err(WireError::Length(len))
        }
    }

    /// Bytes of the whole message, tag included.
    #[inline]
    #[must_use]
    pub fn total(self) -> usize {
        self.len as usize + 1
    }

    /// Bytes after the header.
    #[inline]
    #[must_use]
    pub fn body(self) -> usize {
        (self.len as usize).saturating_sub(4)
    }
}
