//! An error or a notice of the pooler's own, to be told to a client (manual: "Error and Notice
//! Message Fields").

use crate::SqlState;

/// How bad it is; after `Fatal` and `Panic` the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    Error,
    Fatal,
    Panic,
    Warning,
    Notice,
    Debug,
    Info,
    Log,
}

impl Severity {
    /// The spelling of the fields `S` and `V`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Panic => "PANIC",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
            Severity::Debug => "DEBUG",
            Severity::Info => "INFO",
            Severity::Log => "LOG",
        }
    }
}

/// The content of an ErrorResponse or a NoticeResponse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<'a> {
    pub severity: Severity,
    pub sqlstate: SqlState,
    pub message: &'a str,
    pub detail: Option<&'a str>,
    pub hint: Option<&'a str>,
}

impl<'a> Report<'a> {
    /// A report without detail and hint.
    #[must_use]
    pub const fn new(severity: Severity, sqlstate: SqlState, message: &'a str) -> Self {
        Report {
            severity,
            sqlstate,
            message,
            detail: None,
            hint: None,
        }
    }
}
