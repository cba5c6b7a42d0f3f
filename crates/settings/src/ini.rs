//! The file's syntax: from text to entries, each with its place.
//!
//! Exactly as peculiar as PgBouncer's: `;` and `#` begin a comment at a line's start only, a value runs to the end of its line, `%include FILE`
//! puts another file in place (and a section opened there stays open afterwards), a section may be opened again.
//! Knows the four sections, but no setting.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::errors::{Error, Place, Problem, nearest};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Pgbouncer,
    Databases,
    Users,
    Peers,
}

const SECTIONS: [(&str, Section); 4] = [
    ("pgbouncer", Section::Pgbouncer),
    ("databases", Section::Databases),
    ("users", Section::Users),
    ("peers", Section::Peers),
];

/// One `key = value` line.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub section: Section,
    pub key: String,
    pub value: String,
    pub place: Place,
}

/// All that a file and its includes say.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub entries: Vec<Entry>,
    pub errors: Vec<Error>,
}

/// Reads the file and everything it includes.
pub(crate) fn load(path: &Path) -> Entries {
    let mut reader = Reader::new(Includes::Follow);
    let place = Place {
        file: path.into(),
        line: None,
    };
    reader.file(path, &place);
    reader.finish(place)
}

/// Reads a text that includes nothing.
pub(crate) fn parse(text: &str, file_name: &Path) -> Entries {
    let mut reader = Reader::new(Includes::Refuse);
    reader.text(text, file_name);
    reader.finish(Place {
        file: file_name.into(),
        line: None,
    })
}

/// As in PgBouncer.
const INCLUDE_LEVELS_MAX: usize = 10;
/// Files that include each other twice grow exponentially with the levels; this bounds the whole.
const INCLUDES_MAX: usize = 1000;
/// Far more than any configuration: a device or a log file named by mistake ends here.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Includes {
    Follow,
    Refuse,
}

enum Current {
    /// No section has been opened yet.
    None,
    Known(Section),
    /// Already reported: its entries are passed over.
    Unknown,
}

struct Reader {
    includes: Includes,
    included: usize,
    /// The files that are being read, outermost first.
    open: Vec<PathBuf>,
    current: Current,
    main_section_seen: bool,
    read: Entries,
}

impl Reader {
    fn new(includes: Includes) -> Self {
        Self {
            includes,
            included: 0,
            open: Vec::new(),
            current: Current::None,
            main_section_seen: false,
            read: Entries::default(),
        }
    }

    fn finish(mut self, whole: Place) -> Entries {
        if !self.main_section_seen && self.read.errors.is_empty() {
            self.report(&whole, Problem::NoMainSection);
        }
        self.read
    }

    /// Reads one file; problems with the file itself are reported at `from`.
    fn file(&mut self, path: &Path, from: &Place) {
        let name = path.display().to_string();
        let text = match read(path) {
            Ok(text) => text,
            Err(reason) => return self.report(from, Problem::Unreadable { name, reason }),
        };
        let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.open.contains(&identity) {
            return self.report(from, Problem::IncludeLoop { name });
        }
        self.open.push(identity);
        self.text(&text, path);
        self.open.pop();
    }

    fn text(&mut self, text: &str, file_name: &Path) {
        let file: Arc<Path> = file_name.into();
        for (line, number) in text.split('\n').zip(1..) {
            self.line(
                line,
                &Place {
                    file: file.clone(),
                    line: Some(number),
                },
            );
        }
    }

    /// A section's name may be followed by an entry on the same line, hence the loop.
    fn line(&mut self, line: &str, place: &Place) {
        let mut rest = line.trim_matches(blank);
        while let Some(inside) = rest.strip_prefix('[') {
            let Some((name, after)) = inside.split_once(']') else {
                return self.report(
                    place,
                    Problem::Syntax("the section's name has no closing ]"),
                );
            };
            self.section(name, place);
            rest = after.trim_start_matches(blank);
        }
        if rest.is_empty() || rest.starts_with([';', '#']) {
            return;
        }
        match rest
            .strip_prefix("%include")
            .filter(|name| name.starts_with([' ', '\t']))
        {
            Some(name) => self.include(name.trim_start_matches(blank), place),
            None => self.entry(rest, place),
        }
    }

    fn section(&mut self, name: &str, place: &Place) {
        let known = SECTIONS.iter().find(|(known, _)| *known == name);
        self.main_section_seen |= matches!(known, Some((_, Section::Pgbouncer)));
        self.current = match known {
            Some((_, section)) => Current::Known(*section),
            None => {
                let nearest = nearest(name, SECTIONS.iter().map(|(known, _)| *known));
                self.report_with(
                    place,
                    Problem::UnknownSection {
                        name: name.to_owned(),
                    },
                    nearest,
                );
                Current::Unknown
            }
        };
    }

    /// PgBouncer takes the name as relative to the working folder; where no such file is, Weir looks beside the including file.
    fn include(&mut self, name: &str, place: &Place) {
        if self.includes == Includes::Refuse {
            return self.report(place, Problem::Syntax("%include is not possible here"));
        }
        let levels = self.open.len();
        if levels > INCLUDE_LEVELS_MAX || self.included >= INCLUDES_MAX {
            let problem = Problem::IncludeTooDeep {
                name: name.to_owned(),
                max: INCLUDE_LEVELS_MAX,
            };
            return self.report(place, problem);
        }
        self.included += 1;
        let beside = place.file.parent().map(|folder| folder.join(name));
        let path = match beside {
            Some(beside) if !Path::new(name).exists() && beside.exists() => beside,
            _ => PathBuf::from(name),
        };
        self.file(&path, place);
    }

    fn entry(&mut self, text: &str, place: &Place) {
        let (key, value) = match key_and_value(text) {
            Ok(pair) => pair,
            Err(what) => return self.report(place, Problem::Syntax(what)),
        };
        match self.current {
            Current::Known(section) => {
                let value = value.to_owned();
                self.read.entries.push(Entry {
                    section,
                    key,
                    value,
                    place: place.clone(),
                });
            }
            Current::None => self.report(place, Problem::OutsideSection { name: key }),
            Current::Unknown => {}
        }
    }

    fn report(&mut self, place: &Place, problem: Problem) {
        self.report_with(place, problem, None);
    }

    fn report_with(&mut self, place: &Place, problem: Problem, nearest: Option<&str>) {
        let nearest = nearest.map(str::to_owned);
        self.read.errors.push(Error {
            place: place.clone(),
            problem,
            nearest,
        });
    }
}

/// White space within a line, as C's `isspace` has it.
fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\x0b' | '\x0c')
}

fn read(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("larger than 16 MB".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8 text")
    })
}

fn key_and_value(text: &str) -> Result<(String, &str), &'static str> {
    if text.contains('\0') {
        return Err("the line contains a NUL character");
    }
    let (key, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted_name(quoted)?,
        None => bare_name(text),
    };
    if key.is_empty() {
        return Err(
            "expected a name, then = and a value; put names that have other characters than letters, digits and _ . - in double quotes",
        );
    }
    let value = rest
        .trim_start_matches([' ', '\t'])
        .strip_prefix('=')
        .ok_or("expected = after the name")?;
    Ok((key, value.trim_matches(blank)))
}

fn bare_name(text: &str) -> (String, &str) {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_.-*".contains(c);
    let end = text.find(|c| !in_name(c)).unwrap_or(text.len());
    (text[..end].to_owned(), &text[end..])
}

/// A name after its opening quote; a quote within it is doubled.
fn quoted_name(text: &str) -> Result<(String, &str), &'static str> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest
            .split_once('"')
            .ok_or("the name has no closing quote")?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Ok((name, after)),
        }
    }
}
