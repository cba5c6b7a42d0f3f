//! Reads the protocol's data types (manual: "Message Data Types") from the front of a body.

use crate::WireError;
use memchr::memchr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Cursor { rest: body }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn i16(&mut self) -> Result<i16, WireError> {
        self.array().map(i16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    /// A string without its NUL. Most names are empty, so that case skips the search.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a [u8], WireError> {
        if let [0, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(&[]);
        }
        let end = memchr(0, self.rest).ok_or(WireError::Unterminated)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// Int32 length, then as many bytes; -1 stands for a value that is absent.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        match self.i32()? {
            -1 => Ok(None),
            len => {
                let len = usize::try_from(len).map_err(|_| WireError::Count(len))?;
                self.bytes(len).map(Some)
            }
        }
    }

    /// Everything that is left, which may be nothing.
    #[inline]
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The end of a message: nothing may be left.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(WireError::Trailing(left)),
        }
    }
}
