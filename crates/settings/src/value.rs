//! How one value is written in the file and shown on the console, for each type that a setting may have.
//!
//! Owns the spelling of numbers, durations, sizes, words and lists. Knows no setting by name.
//! [`crate::general`] uses it for `[pgbouncer]`, `database` and `user` for their own keys.

use std::path::PathBuf;
use std::time::Duration;

/// A type that a setting can have. `parse(show(v))` gives `v` again.
pub trait Value: Sized {
    /// What would be accepted, for error messages and the manual.
    const EXPECTED: &'static str;

    fn parse(text: &str) -> Option<Self>;

    /// As `SHOW CONFIG` prints it.
    fn show(&self) -> String;
}

/// A text that is not a value of the setting's type, or out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found \"{found}\"")]
pub struct BadValue {
    pub expected: String,
    pub found: String,
}

impl BadValue {
    pub(crate) fn new(expected: &str, found: &str) -> Self {
        Self {
            expected: expected.to_owned(),
            found: shortened(found),
        }
    }
}

/// A mistyped value may be a whole pasted file: an error quotes its beginning only.
fn shortened(text: &str) -> String {
    const QUOTED_CHARS_MAX: usize = 60;
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Parses `text`, or says what would have been right.
pub(crate) fn parse<T: Value>(text: &str) -> Result<T, BadValue> {
    T::parse(text).ok_or_else(|| BadValue::new(T::EXPECTED, text))
}

/// A whole number as PgBouncer reads it, decimal or with `0x`. Its third form, a leading zero for octal, is what nobody means:
/// it is refused instead of guessed.
fn whole(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        let digits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        return digits.then(|| u64::from_str_radix(hex, 16).ok()).flatten();
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let octal = text.len() > 1 && text.starts_with('0');
    (digits && !octal).then(|| text.parse().ok()).flatten()
}

impl Value for bool {
    const EXPECTED: &'static str = "0 or 1 (or no/yes, off/on, false/true)";

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Some(true),
            "0" | "false" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        u8::from(*self).to_string()
    }
}

impl Value for u16 {
    const EXPECTED: &'static str = "a whole number from 0 to 65535";

    fn parse(text: &str) -> Option<Self> {
        whole(text)?.try_into().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    const EXPECTED: &'static str = "a whole number from 0 to 4294967295";

    fn parse(text: &str) -> Option<Self> {
        whole(text)?.try_into().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for f64 {
    const EXPECTED: &'static str = "a number from 0";

    fn parse(text: &str) -> Option<Self> {
        // The standard library also reads "inf" and "nan".
        let digits_first = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let number: f64 = digits_first.then(|| text.parse().ok()).flatten()?;
        number.is_finite().then_some(number)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// The longest time that can be set, in seconds (68 years): far enough from every clock's overflow.
const SECONDS_MAX: f64 = 2_147_483_647.0;

impl Value for Duration {
    const EXPECTED: &'static str =
        "a number of seconds from 0 to 2147483647, fractions allowed, without a unit";

    fn parse(text: &str) -> Option<Self> {
        let seconds = f64::parse(text)?;
        (seconds <= SECONDS_MAX)
            .then(|| Duration::try_from_secs_f64(seconds).ok())
            .flatten()
    }

    fn show(&self) -> String {
        self.as_secs_f64().to_string()
    }
}

/// A time-out that `0` switches off.
impl Value for Option<Duration> {
    const EXPECTED: &'static str =
        "a number of seconds from 0 (off) to 2147483647, fractions allowed, without a unit";

    fn parse(text: &str) -> Option<Self> {
        Duration::parse(text).map(|time| (!time.is_zero()).then_some(time))
    }

    fn show(&self) -> String {
        self.unwrap_or_default().show()
    }
}

impl Value for String {
    const EXPECTED: &'static str = "text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

/// Text that is not set when empty.
impl Value for Option<String> {
    const EXPECTED: &'static str = "text, or nothing";

    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| text.to_owned()))
    }

    fn show(&self) -> String {
        self.clone().unwrap_or_default()
    }
}

/// A file that is not set when empty.
impl Value for Option<PathBuf> {
    const EXPECTED: &'static str = "a file name, or nothing";

    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn show(&self) -> String {
        self.as_ref()
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }
}

/// A comma-separated list; blanks around its members and empty members do not count.
impl Value for Vec<String> {
    const EXPECTED: &'static str = "a comma-separated list";

    fn parse(text: &str) -> Option<Self> {
        let members = text
            .split(',')
            .map(str::trim)
            .filter(|member| !member.is_empty());
        Some(members.map(str::to_owned).collect())
    }

    fn show(&self) -> String {
        self.join(", ")
    }
}

/// A number of bytes, written plain or with `kB`, `MB` or `GB` (powers of 1024, as in PostgreSQL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const BYTE_UNITS: [(&str, u64); 3] = [("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)];

impl Value for ByteSize {
    const EXPECTED: &'static str = "a number of bytes, or with kB, MB or GB after it";

    fn parse(text: &str) -> Option<Self> {
        let unit = BYTE_UNITS.iter().find_map(|(unit, bytes)| {
            let split = text.len().checked_sub(unit.len())?;
            let (number, suffix) = text.split_at_checked(split)?;
            suffix
                .eq_ignore_ascii_case(unit)
                .then_some((number, *bytes))
        });
        let (number, bytes) = unit.unwrap_or((text, 1));
        whole(number.trim_end())?.checked_mul(bytes).map(ByteSize)
    }

    fn show(&self) -> String {
        let whole = BYTE_UNITS
            .iter()
            .find(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes));
        whole.map_or_else(
            || self.0.to_string(),
            |(unit, bytes)| format!("{}{unit}", self.0 / bytes),
        )
    }
}

/// Permission bits of a file, written in octal with a leading zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Value for FileMode {
    const EXPECTED: &'static str =
        "permission bits in octal with a leading zero, from 0000 to 07777";

    fn parse(text: &str) -> Option<Self> {
        let octal = text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        let mode = octal.then(|| u32::from_str_radix(text, 8).ok()).flatten()?;
        (mode <= 0o7777).then_some(FileMode(mode))
    }

    fn show(&self) -> String {
        format!("{:04o}", self.0)
    }
}

/// Where Unix sockets are: a folder, or the abstract namespace (Linux) under a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnixSocketDir {
    Path(PathBuf),
    /// Written `@prefix`; the `@` is not part of the text here.
    Abstract(String),
}

impl Value for Option<UnixSocketDir> {
    const EXPECTED: &'static str = "a folder, @ and a name for the abstract namespace, or nothing";

    fn parse(text: &str) -> Option<Self> {
        Some(match text.strip_prefix('@') {
            Some(name) => Some(UnixSocketDir::Abstract(name.to_owned())),
            None if text.is_empty() => None,
            None => Some(UnixSocketDir::Path(PathBuf::from(text))),
        })
    }

    fn show(&self) -> String {
        match self {
            Some(UnixSocketDir::Path(path)) => path.display().to_string(),
            Some(UnixSocketDir::Abstract(name)) => format!("@{name}"),
            None => String::new(),
        }
    }
}

/// What is sent to see whether a server connection still lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckQuery {
    /// Connections are not checked.
    Off,
    /// The empty query, which PostgreSQL answers without planning anything.
    Empty,
    Query(String),
}

impl Value for CheckQuery {
    const EXPECTED: &'static str = "a query, <empty> for the empty query, or nothing for no check";

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => CheckQuery::Off,
            "<empty>" => CheckQuery::Empty,
            query => CheckQuery::Query(query.to_owned()),
        })
    }

    fn show(&self) -> String {
        match self {
            CheckQuery::Off => String::new(),
            CheckQuery::Empty => "<empty>".to_owned(),
            CheckQuery::Query(query) => query.clone(),
        }
    }
}

/// An enum whose values are written as fixed words, in any case.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $expected:literal { $($(#[$meaning:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$meaning])* $variant,)* }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it is written in the file.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl Value for $name {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word().eq_ignore_ascii_case(text))
            }

            fn show(&self) -> String {
                self.word().to_owned()
            }
        }
    };
}

words! {
    /// When a server connection goes back to its pool.
    PoolMode, "session, transaction or statement" {
        Session = "session",
        Transaction = "transaction",
        Statement = "statement",
    }
}

words! {
    /// How clients prove who they are.
    AuthType, "any, trust, plain, md5, scram-sha-256, cert, hba, ldap or pam" {
        Any = "any",
        Trust = "trust",
        Plain = "plain",
        Md5 = "md5",
        ScramSha256 = "scram-sha-256",
        Cert = "cert",
        Hba = "hba",
        Ldap = "ldap",
        Pam = "pam",
    }
}

words! {
    /// How far TLS is wanted on a connection.
    SslMode, "disable, allow, prefer, require, verify-ca or verify-full" {
        Disable = "disable",
        Allow = "allow",
        Prefer = "prefer",
        Require = "require",
        VerifyCa = "verify-ca",
        VerifyFull = "verify-full",
    }
}

words! {
    /// How the hosts of one database are used.
    LoadBalanceHosts, "round-robin or disable" {
        /// Each new server connection goes to the next host.
        RoundRobin = "round-robin",
        /// The same host until a connection to it fails.
        Disable = "disable",
    }
}

words! {
    /// When a server connection is asked what its client's session holds.
    CensusPolicy, "auto, always or off" {
        Auto = "auto",
        Always = "always",
        Off = "off",
    }
}

words! {
    /// Whether a client may keep a server connection between its transactions for state that only that one has.
    PinPolicy, "allow or deny" {
        Allow = "allow",
        Deny = "deny",
    }
}

words! {
    /// How workers talk to the kernel.
    Reactor, "auto, io_uring or epoll" {
        Auto = "auto",
        IoUring = "io_uring",
        Epoll = "epoll",
    }
}

words! {
    /// How log lines are written.
    LogFormat, "text or json" {
        Text = "text",
        Json = "json",
    }
}

words! {
    /// The facility under which syslog files the log.
    SyslogFacility, "auth, authpriv, daemon, user or local0 to local7" {
        Auth = "auth",
        Authpriv = "authpriv",
        Daemon = "daemon",
        User = "user",
        Local0 = "local0",
        Local1 = "local1",
        Local2 = "local2",
        Local3 = "local3",
        Local4 = "local4",
        Local5 = "local5",
        Local6 = "local6",
        Local7 = "local7",
    }
}
