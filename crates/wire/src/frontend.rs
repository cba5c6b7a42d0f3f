//! Messages that a client sends after its startup packet, each a view over the *body*, which is
//! what follows the [`Header`](crate::Header).
//!
//! A view borrows and never decodes: texts are bytes in whatever encoding the client speaks.

use crate::WireError;
use crate::cursor::Cursor;

/// The first byte of each message that a client sends.
pub mod tag {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    /// PasswordMessage, SASLInitialResponse, SASLResponse and GSSResponse: the request that it
    /// answers tells which.
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// Bytes that the portal's and the statement's name of a Bind may have together, NULs included:
/// a name has to be buffered before the message can be routed.
pub const MAX_NAMES: usize = 16 * 1024;

/// Checks the body of a message that has none: Flush, Sync, Terminate, CopyDone.
///
/// # Errors
/// [`WireError::Trailing`].
#[inline]
pub fn no_body(body: &[u8]) -> Result<(), WireError> {
    Cursor::new(body).finish()
}

/// Query: the simple protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// SQL, without the NUL.
    pub text: &'a [u8],
}

impl<'a> Query<'a> {
    /// # Errors
    /// No NUL, or bytes after it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        only_string(body).map(|text| Query { text })
    }
}

/// Parse: make a prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parse<'a> {
    /// The statement's name; empty for the unnamed one.
    pub name: &'a [u8],
    /// SQL, without the NUL.
    pub text: &'a [u8],
    /// Int16 count, then that many Int32 type OIDs, as on the wire.
    pub param_types: &'a [u8],
}

#[expect(
    clippy::self_named_constructors,
    reason = "the manual's name; all views are made by `parse`"
)]
impl<'a> Parse<'a> {
    /// # Errors
    /// A missing NUL, or a length of `param_types` that differs from its count.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let name = cursor.string()?;
        let text = cursor.string()?;
        let param_types = cursor.clone().rest();
        let count = cursor.u16()?;
        cursor.bytes(usize::from(count) * 4)?;
        cursor.finish()?;
        Ok(Parse {
            name,
            text,
            param_types,
        })
    }
}

/// Portal, statement, and the bytes that both take with their NULs.
pub type BindPrefix<'a> = (&'a [u8], &'a [u8], usize);

/// Bind: make a portal of a prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal's name; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The statement's name; empty for the unnamed one.
    pub statement: &'a [u8],
    /// Parameter formats, parameters and result formats, as on the wire and unchecked: the server
    /// judges them.
    pub rest: &'a [u8],
}

impl<'a> Bind<'a> {
    /// # Errors
    /// A missing NUL, or names beyond [`MAX_NAMES`].
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let (portal, statement, len) = Self::prefix(body)?.ok_or(WireError::Unterminated)?;
        Ok(Bind {
            portal,
            statement,
            rest: body.get(len..).unwrap_or_default(),
        })
    }

    /// The names at the front of a body that may not have arrived whole. `None` while the second NUL is still to come.
    ///
    /// # Errors
    /// [`WireError::NameTooLong`]: the second NUL is not among the first [`MAX_NAMES`] bytes.
    #[inline]
    pub fn prefix(partial_body: &'a [u8]) -> Result<Option<BindPrefix<'a>>, WireError> {
        let window = partial_body.get(..MAX_NAMES).unwrap_or(partial_body);
        let mut cursor = Cursor::new(window);
        if let (Ok(portal), Ok(statement)) = (cursor.string(), cursor.string()) {
            let len = portal.len() + statement.len() + 2;
            return Ok(Some((portal, statement, len)));
        }
        if partial_body.len() < MAX_NAMES {
            Ok(None)
        } else {
            Err(WireError::NameTooLong)
        }
    }
}

/// What a Describe or a Close names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    Statement,
    Portal,
}

impl Target {
    #[inline]
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        match self {
            Target::Statement => b'S',
            Target::Portal => b'P',
        }
    }

    #[inline]
    #[must_use]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        match byte {
            b'S' => Some(Target::Statement),
            b'P' => Some(Target::Portal),
            _ => None,
        }
    }
}

/// Describe: ask for a statement's or a portal's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Describe<'a> {
    pub target: Target,
    pub name: &'a [u8],
}

impl<'a> Describe<'a> {
    /// # Errors
    /// An unknown target, no NUL, or bytes after it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let (target, name) = target_and_name(body)?;
        Ok(Describe { target, name })
    }
}

/// Close: forget a statement or a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close<'a> {
    pub target: Target,
    pub name: &'a [u8],
}

impl<'a> Close<'a> {
    /// # Errors
    /// An unknown target, no NUL, or bytes after it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let (target, name) = target_and_name(body)?;
        Ok(Close { target, name })
    }
}

/// Execute: run a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execute<'a> {
    pub portal: &'a [u8],
    /// Rows after which the portal is suspended; 0 and below stand for no limit.
    pub max_rows: i32,
}

impl<'a> Execute<'a> {
    /// # Errors
    /// A missing NUL, a missing number, or bytes after it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let portal = cursor.string()?;
        let max_rows = cursor.i32()?;
        cursor.finish()?;
        Ok(Execute { portal, max_rows })
    }
}

/// CopyFail: the client gives up its COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyFail<'a> {
    pub message: &'a [u8],
}

impl<'a> CopyFail<'a> {
    /// # Errors
    /// No NUL, or bytes after it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        only_string(body).map(|message| CopyFail { message })
    }
}

/// PasswordMessage: the answer to a request for a cleartext or md5 password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password<'a> {
    pub password: &'a [u8],
}

impl<'a> Password<'a> {
    /// # Errors
    /// No NUL, or bytes after it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        only_string(body).map(|password| Password { password })
    }
}

/// Keeps the secret out of logs.
impl std::fmt::Debug for Password<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Password").finish_non_exhaustive()
    }
}

/// SASLInitialResponse: the client's choice of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaslInitialResponse<'a> {
    pub mechanism: &'a [u8],
    /// The mechanism's own first message, if it has one.
    pub data: Option<&'a [u8]>,
}

impl<'a> SaslInitialResponse<'a> {
    /// # Errors
    /// A missing NUL, or a length that differs from the data's.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let mechanism = cursor.string()?;
        let data = cursor.value()?;
        cursor.finish()?;
        Ok(SaslInitialResponse { mechanism, data })
    }
}

/// FunctionCall: the old call of a function by its OID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionCall<'a> {
    pub oid: u32,
    /// Argument formats, arguments and result format, as on the wire and unchecked.
    pub rest: &'a [u8],
}

impl<'a> FunctionCall<'a> {
    /// # Errors
    /// A body too short for the OID.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let oid = cursor.u32()?;
        Ok(FunctionCall {
            oid,
            rest: cursor.rest(),
        })
    }
}

/// A body of one string: its first NUL is its last byte.
#[inline]
fn only_string(body: &[u8]) -> Result<&[u8], WireError> {
    let mut cursor = Cursor::new(body);
    let text = cursor.string()?;
    cursor.finish()?;
    Ok(text)
}

#[inline]
fn target_and_name(body: &[u8]) -> Result<(Target, &[u8]), WireError> {
    let mut cursor = Cursor::new(body);
    let byte = cursor.u8()?;
    let target = Target::from_u8(byte).ok_or(WireError::Target(byte))?;
    let name = cursor.string()?;
    cursor.finish()?;
    Ok((target, name))
}
