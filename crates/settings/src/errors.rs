//! What can be wrong with a configuration: every problem with its place, all of them at once.
//!
//! The operator is always at fault here, and the operator alone reads these texts.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::value::BadValue;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: Arc<Path>,
    /// Counted from 1; `None` means the file as a whole.
    pub line: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// What is wrong, in words that need no context but the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("cannot read \"{name}\": {reason}")]
    Unreadable { name: String, reason: String },
    #[error("\"{name}\" includes itself")]
    IncludeLoop { name: String },
    #[error("\"{name}\" is included too deeply: at most {max} levels")]
    IncludeTooDeep { name: String, max: usize },
    #[error("{0}")]
    Syntax(&'static str),
    #[error(
        "\"{name}\" stands before the first section: begin with [pgbouncer], [databases] or [users]"
    )]
    OutsideSection { name: String },
    #[error("the section [pgbouncer] is missing")]
    NoMainSection,
    #[error("unknown section [{name}]")]
    UnknownSection { name: String },
    #[error("unknown setting \"{name}\"")]
    UnknownSetting { name: String },
    #[error("{entry}: unknown parameter \"{name}\"")]
    UnknownParameter { entry: String, name: String },
    #[error("{name}: {bad}")]
    BadValue { name: String, bad: BadValue },
    #[error("{entry}: {bad}")]
    BadName { entry: String, bad: BadValue },
    #[error("{entry}: {what}")]
    BadEntry { entry: String, what: &'static str },
    #[error("{name} is set twice; the first time at {first}")]
    Duplicate { name: String, first: Place },
    #[error("{entry}: {name} is given twice")]
    DuplicateParameter { entry: String, name: String },
    #[error("database \"{name}\" cannot be configured: this name leads to the console")]
    Reserved { name: String },
    #[error("{name} = {value}: {why}")]
    Refused {
        name: &'static str,
        value: String,
        why: &'static str,
    },
}

/// One problem, where it is, and the name that was perhaps meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}{}", Hint(.nearest.as_deref()))]
pub struct Error {
    pub place: Place,
    pub problem: Problem,
    pub nearest: Option<String>,
}

struct Hint<'a>(Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |name| write!(f, " (did you mean \"{name}\"?)"))
    }
}

/// All problems of a configuration, in the order of files and lines. Prints one per line. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(pub(crate) Vec<Error>);

impl Errors {
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.0.iter()
    }
}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

/// Why the console's `SET` was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("unknown setting \"{name}\"{}", Hint(*.nearest))]
    Unknown {
        name: String,
        nearest: Option<&'static str>,
    },
    #[error("{name} can only be changed by a restart")]
    BootOnly { name: &'static str },
    #[error("{name}: {bad}")]
    BadValue { name: &'static str, bad: BadValue },
    #[error("{0}")]
    Refused(Problem),
}

/// The known name that was perhaps meant: one that a few slips of the pen turn into `name`, or else the first that contains it.
pub(crate) fn nearest(
    name: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> Option<&'static str> {
    const CONTAINED_BYTES_MIN: usize = 6;
    /// An unknown name may be any length, and comparing takes time by the product of both.
    const COMPARED_BYTES_MAX: usize = 64;
    if name.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let slips_max = 1 + name.len() / 5;
    let slips = known
        .clone()
        .map(|candidate| (strsim::osa_distance(&name, candidate), candidate));
    let similar = slips
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips);
    let mut containing =
        known.filter(|candidate| name.len() >= CONTAINED_BYTES_MIN && candidate.contains(&name));
    similar
        .map(|(_, candidate)| candidate)
        .or_else(|| containing.next())
}
