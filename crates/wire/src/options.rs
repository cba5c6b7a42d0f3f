//! The startup parameter `options`: command-line arguments for the server process, of which only
//! settings make sense for a pooled connection (manual: "Frontend/Backend Protocol", StartupMessage;
//! "PostgreSQL Server Applications", postgres, `-c`).

/// A setting: its name with `-` already turned to `_`, and its value.
pub type Setting = (Vec<u8>, Vec<u8>);

/// Why `options` cannot be used; the client's fault. SQLSTATE 42601, or 22023.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Something other than `-c` or `--name=value`.
    #[error("unsupported startup option: only -c name=value and --name=value are accepted")]
    Unsupported,
    /// `-c` as the last word.
    #[error("startup option -c requires an argument")]
    MissingArgument,
    /// A setting without `=` or without a name.
    #[error("startup option requires the form name=value")]
    MissingValue,
}

/// Reads `-c name=value`, `-cname=value` and `--name=value`, in their order. Words end at white
/// space; a backslash takes the next byte as it is.
///
/// # Errors
/// See [`OptionsError`]; nothing is returned of a list that is wrong somewhere.
pub fn parse_options(options: &[u8]) -> Result<Vec<Setting>, OptionsError> {
    let mut words = Words { rest: options };
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.as_slice() {
            b"-c" => setting(&words.next().ok_or(OptionsError::MissingArgument)?),
            [b'-', b'c', setting_text @ ..] => setting(setting_text),
            [b'-', b'-', setting_text @ ..] => setting(setting_text),
            _ => Err(OptionsError::Unsupported),
        };
        settings.push(setting?);
    }
    Ok(settings)
}

fn setting(text: &[u8]) -> Result<Setting, OptionsError> {
    let equals = memchr::memchr(b'=', text).ok_or(OptionsError::MissingValue)?;
    let (name, value) = text.split_at(equals);
    if name.is_empty() {
        return Err(OptionsError::MissingValue);
    }
    let name = name
        .iter()
        .map(|&byte| if byte == b'-' { b'_' } else { byte });
    Ok((name.collect(), value.get(1..).unwrap_or_default().to_vec()))
}

/// The words of a command line, unescaped.
struct Words<'a> {
    rest: &'a [u8],
}

impl Iterator for Words<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let start = self.rest.iter().position(|byte| !is_space(*byte))?;
        let mut bytes = self.rest.get(start..)?.iter();
        let mut word = Vec::new();
        while let Some(&byte) = bytes.next() {
            match byte {
                b'\\' => word.extend(bytes.next()),
                space if is_space(space) => break,
                other => word.push(other),
            }
        }
        self.rest = bytes.as_slice();
        Some(word)
    }
}

/// `isspace` of the C locale; `u8::is_ascii_whitespace` lacks the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0b'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &str) -> Vec<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).expect("ASCII");
        let settings = parse_options(options.as_bytes()).expect("valid");
        settings
            .into_iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn all_spellings() {
        for (options, expected) in [
            ("", &[][..]),
            (" \t\n", &[]),
            ("-c a=b", &[("a", "b")]),
            ("-ca=b", &[("a", "b")]),
            ("--a=b", &[("a", "b")]),
            ("--search-path=x-y", &[("search_path", "x-y")]),
            ("-c work-mem=1", &[("work_mem", "1")]),
            ("  -c\x0b a=b\r--c=d ", &[("a", "b"), ("c", "d")]),
            ("-c a=", &[("a", "")]),
            ("-c a=b=c", &[("a", "b=c")]),
            ("-c a=1 -c a=2", &[("a", "1"), ("a", "2")]),
        ] {
            assert_eq!(parsed(options), pairs(expected), "{options:?}");
        }
    }

    #[test]
    fn escapes() {
        for (options, value) in [
            (r"-c a=b\ c", "b c"),
            (r"-c a=\\", r"\"),
            (r"-c a=\\\ b", r"\ b"),
            (r"-c a=b\", "b"),
            (r"-c a=\'x\'", "'x'"),
        ] {
            assert_eq!(parsed(options), pairs(&[("a", value)]), "{options:?}");
        }
    }
}
