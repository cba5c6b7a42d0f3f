//! SQLSTATE codes (manual: appendix "PostgreSQL Error Codes").

use std::fmt;

/// Five upper-case letters or digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    pub const SUCCESSFUL_COMPLETION: SqlState = SqlState(*b"00000");
    pub const WARNING: SqlState = SqlState(*b"01000");
    pub const SQLCLIENT_UNABLE: SqlState = SqlState(*b"08001");
    pub const CONNECTION_DOES_NOT_EXIST: SqlState = SqlState(*b"08003");
    pub const CONNECTION_REJECTED: SqlState = SqlState(*b"08004");
    pub const CONNECTION_FAILURE: SqlState = SqlState(*b"08006");
    pub const PROTOCOL_VIOLATION: SqlState = SqlState(*b"08P01");
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState(*b"0A000");
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState(*b"22023");
    pub const ACTIVE_SQL_TRANSACTION: SqlState = SqlState(*b"25001");
    pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = SqlState(*b"25P01");
    pub const IN_FAILED_SQL_TRANSACTION: SqlState = SqlState(*b"25P02");
    pub const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: SqlState = SqlState(*b"25P03");
    pub const TRANSACTION_TIMEOUT: SqlState = SqlState(*b"25P04");
    pub const INVALID_SQL_STATEMENT_NAME: SqlState = SqlState(*b"26000");
    pub const INVALID_AUTHORIZATION: SqlState = SqlState(*b"28000");
    pub const INVALID_PASSWORD: SqlState = SqlState(*b"28P01");
    pub const INVALID_CURSOR_NAME: SqlState = SqlState(*b"34000");
    pub const INVALID_CATALOG_NAME: SqlState = SqlState(*b"3D000");
    pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState(*b"42501");
    pub const SYNTAX_ERROR: SqlState = SqlState(*b"42601");
    pub const UNDEFINED_PARAMETER: SqlState = SqlState(*b"42704");
    pub const DUPLICATE_PREPARED_STATEMENT: SqlState = SqlState(*b"42P05");
    pub const INSUFFICIENT_RESOURCES: SqlState = SqlState(*b"53000");
    pub const OUT_OF_MEMORY: SqlState = SqlState(*b"53200");
    pub const TOO_MANY_CONNECTIONS: SqlState = SqlState(*b"53300");
    pub const CONFIGURATION_LIMIT_EXCEEDED: SqlState = SqlState(*b"53400");
    pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState(*b"54000");
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: SqlState = SqlState(*b"55000");
    pub const QUERY_CANCELED: SqlState = SqlState(*b"57014");
    pub const ADMIN_SHUTDOWN: SqlState = SqlState(*b"57P01");
    pub const CRASH_SHUTDOWN: SqlState = SqlState(*b"57P02");
    pub const CANNOT_CONNECT_NOW: SqlState = SqlState(*b"57P03");
    pub const DATABASE_DROPPED: SqlState = SqlState(*b"57P04");
    pub const IDLE_SESSION_TIMEOUT: SqlState = SqlState(*b"57P05");
    pub const IO_ERROR: SqlState = SqlState(*b"58030");
    pub const CONFIG_FILE_ERROR: SqlState = SqlState(*b"F0000");
    pub const INTERNAL_ERROR: SqlState = SqlState(*b"XX000");

    /// A code as a server sent it; `None` when it is not five upper-case letters or digits.
    #[must_use]
    pub fn from_bytes(code: &[u8]) -> Option<Self> {
        let code: [u8; 5] = code.try_into().ok()?;
        let valid = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        code.iter().all(valid).then_some(SqlState(code))
    }

    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The first two characters, which name the class: `08` for connection exceptions.
    #[must_use]
    pub const fn class(&self) -> [u8; 2] {
        [self.0[0], self.0[1]]
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlState({})", self.as_str())
    }
}
