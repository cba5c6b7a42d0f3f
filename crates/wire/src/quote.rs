//! Values and names inside SQL text that the pooler itself writes.
//!
//! Safe in every encoding whose multi-byte characters contain no ASCII byte, which is every server
//! encoding. In a client encoding that is not one of them (BIG5, GBK, GB18030, JOHAB, SJIS, UHC) the
//! caller has to keep to ASCII.

use memchr::memchr;

/// Appends `value` as a string literal that means the same with any `standard_conforming_strings`.
/// SQL text cannot hold a NUL: the value is cut there.
pub fn quote_literal(out: &mut Vec<u8>, value: &[u8]) {
    let value = until_nul(value);
    if memchr(b'\\', value).is_some() {
        out.push(b'E');
    }
    quote(out, value, b'\'', |byte| matches!(byte, b'\'' | b'\\'));
}

/// Appends `name` as a quoted identifier, whatever it looks like. Cut at a NUL.
pub fn quote_identifier(out: &mut Vec<u8>, name: &[u8]) {
    quote(out, until_nul(name), b'"', |byte| byte == b'"');
}

fn quote(out: &mut Vec<u8>, text: &[u8], mark: u8, doubled: impl Fn(u8) -> bool) {
    out.reserve(text.len() + 2);
    out.push(mark);
    for &byte in text {
        if doubled(byte) {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(mark);
}

/// `text` up to its first NUL.
#[inline]
pub(crate) fn until_nul(text: &[u8]) -> &[u8] {
    match memchr(0, text) {
        Some(end) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        for (value, expected) in [
            ("", "''"),
            ("plain", "'plain'"),
            ("it's", "'it''s'"),
            ("'; drop table t; --", "'''; drop table t; --'"),
            (r"a\b", r"E'a\\b'"),
            (r"\'", r"E'\\'''"),
            ("cut\0here", "'cut'"),
            ("\"é\"", "'\"é\"'"),
        ] {
            let mut out = Vec::new();
            quote_literal(&mut out, value.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn identifiers() {
        for (name, expected) in [
            ("Table", "\"Table\""),
            ("a\"b", "\"a\"\"b\""),
            (r"a\'b", "\"a\\'b\""),
            ("cut\0here", "\"cut\""),
        ] {
            let mut out = b"SET ".to_vec();
            quote_identifier(&mut out, name.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), format!("SET {expected}"));
        }
    }
}
