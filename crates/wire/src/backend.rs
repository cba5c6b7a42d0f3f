//! Messages that a server sends, each a view over the *body*, which is what follows the
//! [`Header`](crate::Header).
//!
//! Lists are checked when the view is made, so that their iterators cannot fail. The relay looks at
//! few of these; row data is skipped by its length.

use crate::cursor::Cursor;
use crate::startup::{PROTOCOL_3_0, ProtocolVersion, cancel_key};
use crate::{SqlState, WireError};

/// The first byte of each message that a server sends.
pub mod tag {
    pub const AUTHENTICATION: u8 = b'R';
    pub const BACKEND_KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const CLOSE_COMPLETE: u8 = b'3';
    pub const COMMAND_COMPLETE: u8 = b'C';
    pub const COPY_BOTH_RESPONSE: u8 = b'W';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_IN_RESPONSE: u8 = b'G';
    pub const COPY_OUT_RESPONSE: u8 = b'H';
    pub const DATA_ROW: u8 = b'D';
    pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
    pub const ERROR_RESPONSE: u8 = b'E';
    pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
    pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
    pub const NO_DATA: u8 = b'n';
    pub const NOTICE_RESPONSE: u8 = b'N';
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const PORTAL_SUSPENDED: u8 = b's';
    pub const READY_FOR_QUERY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// Codes of the Authentication messages.
pub(crate) mod authentication {
    pub(crate) const OK: i32 = 0;
    pub(crate) const CLEARTEXT_PASSWORD: i32 = 3;
    pub(crate) const MD5_PASSWORD: i32 = 5;
    pub(crate) const SASL: i32 = 10;
    pub(crate) const SASL_CONTINUE: i32 = 11;
    pub(crate) const SASL_FINAL: i32 = 12;
}

/// Any of the Authentication messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication<'a> {
    Ok,
    CleartextPassword,
    Md5Password {
        salt: [u8; 4],
    },
    Sasl {
        mechanisms: Strings<'a>,
    },
    SaslContinue(&'a [u8]),
    SaslFinal(&'a [u8]),
    /// A method that Weir does not speak (Kerberos, GSSAPI, SSPI), by its code.
    Other(i32),
}

impl<'a> Authentication<'a> {
    /// # Errors
    /// A body that does not fit its code; that of an unknown code is not looked at.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        match cursor.i32()? {
            authentication::OK => cursor.finish().map(|()| Authentication::Ok),
            authentication::CLEARTEXT_PASSWORD => {
                cursor.finish().map(|()| Authentication::CleartextPassword)
            }
            authentication::MD5_PASSWORD => {
                let salt = cursor.array()?;
                cursor.finish()?;
                Ok(Authentication::Md5Password { salt })
            }
            authentication::SASL => Ok(Authentication::Sasl {
                mechanisms: Strings::terminated(cursor)?,
            }),
            authentication::SASL_CONTINUE => Ok(Authentication::SaslContinue(cursor.rest())),
            authentication::SASL_FINAL => Ok(Authentication::SaslFinal(cursor.rest())),
            other => Ok(Authentication::Other(other)),
        }
    }
}

/// Strings one after the other, each without its NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strings<'a> {
    /// Holds whole strings only.
    cursor: Cursor<'a>,
}

impl<'a> Strings<'a> {
    /// A list that an empty string ends, and the message with it.
    fn terminated(cursor: Cursor<'a>) -> Result<Self, WireError> {
        let body = cursor.clone().rest();
        let (_, strings) = body.split_last().ok_or(WireError::Terminator)?;
        let mut cursor = cursor;
        while !cursor.string()?.is_empty() {}
        cursor.finish().map_err(|_| WireError::Terminator)?;
        Ok(Strings {
            cursor: Cursor::new(strings),
        })
    }

    /// A list of `count` strings that ends with the message.
    fn counted(cursor: Cursor<'a>, count: i32) -> Result<Self, WireError> {
        let count = usize::try_from(count).map_err(|_| WireError::Count(count))?;
        let mut end = cursor.clone();
        for _ in 0..count {
            end.string()?;
        }
        end.finish()?;
        Ok(Strings { cursor })
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.cursor.string().ok()
    }
}

/// BackendKeyData: what a cancel request has to name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BackendKeyData<'a> {
    pub pid: i32,
    /// 4 bytes in protocol 3.0, 4 to 256 since 3.2.
    pub key: &'a [u8],
}

impl<'a> BackendKeyData<'a> {
    /// # Errors
    /// A key outside [`CANCEL_KEY_LEN`](crate::startup::CANCEL_KEY_LEN).
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let pid = cursor.i32()?;
        let key = cancel_key(cursor)?;
        Ok(BackendKeyData { pid, key })
    }
}

/// Keeps the secret out of logs.
impl std::fmt::Debug for BackendKeyData<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackendKeyData")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

/// ParameterStatus: a setting that the server reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> ParameterStatus<'a> {
    /// # Errors
    /// A missing NUL, or bytes after the second one.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let name = cursor.string()?;
        let value = cursor.string()?;
        cursor.finish()?;
        Ok(ParameterStatus { name, value })
    }
}

/// The transaction state that ReadyForQuery tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// `I`: not in a transaction block.
    Idle,
    /// `T`: in one.
    InTransaction,
    /// `E`: in one that failed; everything is rejected until it ends.
    Failed,
}

impl TransactionStatus {
    #[inline]
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }

    #[inline]
    #[must_use]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        match byte {
            b'I' => Some(TransactionStatus::Idle),
            b'T' => Some(TransactionStatus::InTransaction),
            b'E' => Some(TransactionStatus::Failed),
            _ => None,
        }
    }
}

/// ReadyForQuery: the server has answered everything up to a Sync or a Query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyForQuery {
    pub status: TransactionStatus,
}

impl ReadyForQuery {
    /// # Errors
    /// A body other than one known status byte.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let byte = cursor.u8()?;
        cursor.finish()?;
        let status = TransactionStatus::from_u8(byte).ok_or(WireError::TransactionStatus(byte))?;
        Ok(ReadyForQuery { status })
    }
}

/// CommandComplete: a statement is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandComplete<'a> {
    /// The command tag, such as `SELECT 1`.
    pub tag: &'a [u8],
}

impl<'a> CommandComplete<'a> {
    /// # Errors
    /// No NUL, or bytes after it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let tag = cursor.string()?;
        cursor.finish()?;
        Ok(CommandComplete { tag })
    }
}

/// Codes of the fields of an ErrorResponse (manual: "Error and Notice Message Fields").
pub mod field {
    pub const SEVERITY: u8 = b'S';
    /// The severity, never translated.
    pub const SEVERITY_PLAIN: u8 = b'V';
    pub const SQLSTATE: u8 = b'C';
    pub const MESSAGE: u8 = b'M';
    pub const DETAIL: u8 = b'D';
    pub const HINT: u8 = b'H';
    pub const ROUTINE: u8 = b'R';
}

/// The fields of an ErrorResponse or a NoticeResponse. A server may leave out any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFields<'a> {
    /// Pairs of a code and a string, without the terminator; checked by [`ErrorFields::parse`].
    fields: &'a [u8],
}

impl<'a> ErrorFields<'a> {
    /// # Errors
    /// A missing NUL, or a list that does not end where the message does.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let (_, fields) = body.split_last().ok_or(WireError::Terminator)?;
        let mut cursor = Cursor::new(body);
        while cursor.u8().map_err(|_| WireError::Terminator)? != 0 {
            cursor.string()?;
        }
        cursor.finish().map_err(|_| WireError::Terminator)?;
        Ok(ErrorFields { fields })
    }

    /// The first field with this code, one of [`field`] or any other.
    #[must_use]
    pub fn get(&self, code: u8) -> Option<&'a [u8]> {
        self.iter()
            .find(|(candidate, _)| *candidate == code)
            .map(|(_, text)| text)
    }

    /// Codes and texts, in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut cursor = Cursor::new(self.fields);
        std::iter::from_fn(move || Some((cursor.u8().ok()?, cursor.string().ok()?)))
    }

    /// The SQLSTATE, if it is there and looks like one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<SqlState> {
        self.get(field::SQLSTATE).and_then(SqlState::from_bytes)
    }
}

/// NegotiateProtocolVersion: the server speaks less than the client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiateProtocolVersion<'a> {
    /// The newest version supported, as sent: see [`NegotiateProtocolVersion::newest`].
    pub minor: i32,
    /// Options (`_pq_.` parameters) that the server does not know.
    pub options: Strings<'a>,
}

impl<'a> NegotiateProtocolVersion<'a> {
    /// # Errors
    /// A negative count, or options that do not fit it.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let minor = cursor.i32()?;
        let count = cursor.i32()?;
        let options = Strings::counted(cursor, count)?;
        Ok(NegotiateProtocolVersion { minor, options })
    }

    /// The newest version supported. The manual speaks of the minor number, PostgreSQL sends the
    /// major one with it in the high half: both are understood.
    #[must_use]
    pub fn newest(&self) -> ProtocolVersion {
        let sent = ProtocolVersion::from_u32(self.minor.cast_unsigned());
        match sent.major {
            0 => ProtocolVersion {
                major: PROTOCOL_3_0.major,
                ..sent
            },
            _ => sent,
        }
    }
}

/// NotificationResponse: a NOTIFY that the session listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotificationResponse<'a> {
    /// Process id of the notifying server.
    pub pid: i32,
    pub channel: &'a [u8],
    pub payload: &'a [u8],
}

impl<'a> NotificationResponse<'a> {
    /// # Errors
    /// A missing number or NUL, or bytes after the second string.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(body);
        let pid = cursor.i32()?;
        let channel = cursor.string()?;
        let payload = cursor.string()?;
        cursor.finish()?;
        Ok(NotificationResponse {
            pid,
            channel,
            payload,
        })
    }
}

/// How a value is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Text,
    Binary,
}

impl Format {
    #[must_use]
    pub const fn as_i16(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }

    #[must_use]
    pub const fn from_i16(code: i16) -> Option<Self> {
        match code {
            0 => Some(Format::Text),
            1 => Some(Format::Binary),
            _ => None,
        }
    }
}

/// One field of a RowDescription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    pub name: &'a [u8],
    /// The table that it comes from, or 0.
    pub table_oid: u32,
    /// Its attribute number in that table, or 0.
    pub attribute: i16,
    pub type_oid: u32,
    /// Bytes of the type's values; negative when they vary.
    pub type_len: i16,
    /// Such as the length of a varchar; -1 for none.
    pub type_modifier: i32,
    pub format: Format,
}

impl<'a> Column<'a> {
    /// A computed column in text format.
    #[must_use]
    pub const fn new(name: &'a [u8], type_oid: u32, type_len: i16) -> Self {
        Column {
            name,
            table_oid: 0,
            attribute: 0,
            type_oid,
            type_len,
            type_modifier: -1,
            format: Format::Text,
        }
    }

    fn read(cursor: &mut Cursor<'a>) -> Result<Self, WireError> {
        Ok(Column {
            name: cursor.string()?,
            table_oid: cursor.u32()?,
            attribute: cursor.i16()?,
            type_oid: cursor.u32()?,
            type_len: cursor.i16()?,
            type_modifier: cursor.i32()?,
            format: {
                let code = cursor.i16()?;
                Format::from_i16(code).ok_or(WireError::Format(code))?
            },
        })
    }
}

/// RowDescription: the columns of the rows to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDescription<'a> {
    columns: Cursor<'a>,
}

impl<'a> RowDescription<'a> {
    /// # Errors
    /// A count that differs from the columns', or a column that is cut.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let columns = counted(body, |cursor| Column::read(cursor).map(drop))?;
        Ok(RowDescription { columns })
    }

    pub fn columns(&self) -> impl Iterator<Item = Column<'a>> + use<'a> {
        let mut cursor = self.columns.clone();
        std::iter::from_fn(move || Column::read(&mut cursor).ok())
    }
}

/// DataRow: the values of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRow<'a> {
    values: Cursor<'a>,
}

impl<'a> DataRow<'a> {
    /// # Errors
    /// A count that differs from the values', or a value that is cut.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let values = counted(body, |cursor| cursor.value().map(drop))?;
        Ok(DataRow { values })
    }

    /// One item for each column; `None` for SQL's null.
    pub fn values(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut cursor = self.values.clone();
        std::iter::from_fn(move || cursor.value().ok())
    }
}

/// ParameterDescription: the types of a statement's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterDescription<'a> {
    types: Cursor<'a>,
}

impl<'a> ParameterDescription<'a> {
    /// # Errors
    /// A count that differs from the types'.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let types = counted(body, |cursor| cursor.u32().map(drop))?;
        Ok(ParameterDescription { types })
    }

    /// Type OIDs.
    pub fn types(&self) -> impl Iterator<Item = u32> + use<'a> {
        let mut cursor = self.types.clone();
        std::iter::from_fn(move || cursor.u32().ok())
    }
}

/// Checks a body of an Int16 count and that many items; returns where the items begin.
fn counted<'a>(
    body: &'a [u8],
    mut skip: impl FnMut(&mut Cursor<'a>) -> Result<(), WireError>,
) -> Result<Cursor<'a>, WireError> {
    let mut cursor = Cursor::new(body);
    let count = cursor.u16()?;
    let items = cursor.clone();
    for _ in 0..count {
        skip(&mut cursor)?;
    }
    cursor.finish()?;
    Ok(items)
}
