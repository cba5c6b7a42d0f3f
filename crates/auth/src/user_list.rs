//! The user list (`auth_file`, "userlist.txt"): lines of `"name" "secret"`.
//!
//! A quote within a field is written twice; the rest of the line is ignored; a line that starts with `;` or `#` is a comment. The last
//! of several lines for one name counts, as in PgBouncer. Reading the file is the caller's part.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::Secret;

/// The longest name, in bytes.
pub const USER_LENGTH_MAX: usize = 127;
/// The longest secret, in bytes.
pub const PASSWORD_LENGTH_MAX: usize = 65_531;

/// The users of one `auth_file`, immutable: a reload makes a new one.
#[derive(Clone, Default)]
pub struct UserList {
    secrets: HashMap<String, Arc<Secret>>,
}

/// One line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct UserListError {
    /// Counted from 1.
    pub line: usize,
    pub kind: UserListErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UserListErrorKind {
    #[error("expected \"name\" \"secret\", but there is no quoted name")]
    NameMissing,
    #[error("expected \"name\" \"secret\", but there is no quoted secret after the name")]
    SecretMissing,
    #[error("a quoted field is not closed on its line")]
    Unclosed,
    #[error("the user name is empty")]
    NameEmpty,
    #[error("the user name is longer than {USER_LENGTH_MAX} bytes")]
    NameTooLong,
    #[error("the secret is longer than {PASSWORD_LENGTH_MAX} bytes")]
    SecretTooLong,
    #[error("there is a NUL character, which neither names nor secrets may contain")]
    Nul,
}

impl UserList {
    /// Reads the whole text. All faulty lines are reported together; with any of them there is no list.
    pub fn load(text: &str) -> Result<UserList, Vec<UserListError>> {
        let mut list = UserList::default();
        let mut errors = Vec::new();
        // A byte-order mark is what Windows editors leave.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            match entry(line) {
                Ok(Some((name, secret))) => _ = list.secrets.insert(name, Arc::new(secret)),
                Ok(None) => {}
                Err(kind) => errors.push(UserListError {
                    line: index + 1,
                    kind,
                }),
            }
        }
        if errors.is_empty() {
            Ok(list)
        } else {
            Err(errors)
        }
    }

    pub fn lookup(&self, user: &str) -> Option<Arc<Secret>> {
        self.secrets.get(user).cloned()
    }

    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Every name, in no particular order (SHOW USERS).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.secrets.keys().map(String::as_str)
    }
}

impl fmt::Debug for UserList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserList({} users)", self.len())
    }
}

fn entry(line: &str) -> Result<Option<(String, Secret)>, UserListErrorKind> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with([';', '#']) {
        return Ok(None);
    }
    let (name, rest) = field(line, UserListErrorKind::NameMissing)?;
    let (secret, _ignored) = field(rest.trim_start(), UserListErrorKind::SecretMissing)?;
    if name.is_empty() {
        return Err(UserListErrorKind::NameEmpty);
    }
    if name.len() > USER_LENGTH_MAX {
        return Err(UserListErrorKind::NameTooLong);
    }
    if secret.len() > PASSWORD_LENGTH_MAX {
        return Err(UserListErrorKind::SecretTooLong);
    }
    if name.contains('\0') || secret.contains('\0') {
        return Err(UserListErrorKind::Nul);
    }
    Ok(Some((name, Secret::parse(&secret))))
}

/// Takes one quoted field off the front: its text without the quotes, and what follows it.
fn field(text: &str, missing: UserListErrorKind) -> Result<(String, &str), UserListErrorKind> {
    let mut rest = text.strip_prefix('"').ok_or(missing)?;
    let mut value = String::new();
    loop {
        let (before, after) = rest.split_once('"').ok_or(UserListErrorKind::Unclosed)?;
        value.push_str(before);
        match after.strip_prefix('"') {
            None => return Ok((value, after)),
            Some(escaped) => rest = escaped,
        }
        value.push('"');
    }
}
