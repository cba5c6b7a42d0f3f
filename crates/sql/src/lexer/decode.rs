//! What a quoted token says. None where that depends on what is not known here, or where PostgreSQL would refuse it.

use super::{Backslashes, Encoding, Kind, Quote, Strings, Token, continuation_len};
use crate::Name;

impl Token<'_> {
    /// The identifier that the token is: folded or unquoted, and cut as PostgreSQL cuts it.
    pub fn identifier(&self, strings: Strings) -> Option<Name> {
        let bytes = match self.kind {
            Kind::Word if self.text.is_ascii() || strings.encoding == Encoding::Utf8 => {
                self.text.to_ascii_lowercase()
            }
            Kind::QuotedWord => undouble(quoted(self.text, 0)?, b'"'),
            Kind::UnicodeWord => unescape_unicode(&undouble(quoted(self.text, 2)?, b'"'), strings)?,
            _ => return None,
        };
        cut(bytes, strings.encoding)
    }

    /// The text that a literal stands for. Bit strings and national ones are not decoded.
    pub fn literal(&self, strings: Strings) -> Option<Vec<u8>> {
        let Kind::Literal(quote) = self.kind else {
            return None;
        };
        match quote {
            Quote::Plain => Some(parts(self.text, 0)),
            Quote::Escape => {
                let prefix = usize::from(!self.text.starts_with(b"'"));
                unescape(&parts_escaped(self.text, prefix), strings)
            }
            Quote::Unicode if strings.backslashes == Backslashes::Plain => {
                unescape_unicode(&parts(self.text, 2), strings)
            }
            Quote::Dollar => Some(self.body().to_vec()),
            Quote::Unicode | Quote::National | Quote::Bits | Quote::Hex => None,
        }
    }

    /// What is between the quotes, as it stands. Empty if the token has none.
    pub fn body(&self) -> &[u8] {
        let text = self.text;
        let inside = match self.kind {
            Kind::Literal(Quote::Dollar) => {
                let tag = super::dollar_tag(text).map_or(0, <[u8]>::len);
                text.len()
                    .checked_sub(tag)
                    .and_then(|end| text.get(tag..end))
            }
            Kind::Literal(_) => memchr::memchr(b'\'', text).and_then(|at| quoted(text, at)),
            Kind::QuotedWord | Kind::UnicodeWord => {
                memchr::memchr(b'"', text).and_then(|at| quoted(text, at))
            }
            // Its quote or comment has no end: whatever may be in it.
            Kind::Unterminated => text.get(1..),
            _ => None,
        };
        inside.unwrap_or_default()
    }
}

/// Without the prefix and the two quotes.
fn quoted(text: &[u8], prefix: usize) -> Option<&[u8]> {
    text.get(prefix + 1..text.len().checked_sub(1)?)
}

fn undouble(text: &[u8], mark: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(byte);
        if byte == mark {
            bytes.next();
        }
    }
    out
}

/// Content of a literal without escapes: its parts joined, doubled quotes single.
fn parts(text: &[u8], prefix: usize) -> Vec<u8> {
    join(text, prefix, |_| 1)
}

/// The same of one with escapes, which are kept: a quote after a backslash is content.
fn parts_escaped(text: &[u8], prefix: usize) -> Vec<u8> {
    join(text, prefix, |byte| if byte == b'\\' { 2 } else { 1 })
}

fn join(text: &[u8], prefix: usize, step: impl Fn(u8) -> usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = prefix + 1;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest {
            [b'\'', b'\'', ..] => {
                out.push(b'\'');
                2
            }
            [b'\'', after @ ..] => 1 + continuation_len(after).unwrap_or(after.len()),
            [byte, ..] => {
                let len = step(*byte).min(rest.len());
                out.extend_from_slice(rest.get(..len).unwrap_or_default());
                len
            }
            [] => 1,
        };
    }
    out
}

/// Manual: "String Constants with C-Style Escapes".
fn unescape(text: &[u8], strings: Strings) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut pending = None;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'\\' {
            pending.is_none().then(|| out.push(byte))?;
            rest = after;
            continue;
        }
        let (&escape, after) = after.split_first()?;
        rest = after;
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            // A vertical tab from PostgreSQL 16 on, the letter before.
            b'v' => return None,
            b'0'..=b'7' => rest = number(&mut out, text_from(text, rest, 1), 8, 3)?,
            b'x' if after.first().is_some_and(u8::is_ascii_hexdigit) => {
                rest = number(&mut out, after, 16, 2)?;
            }
            b'u' | b'U' => {
                let digits = if escape == b'u' { 4 } else { 8 };
                let (code, after) = hex(after, digits)?;
                rest = after;
                pending = push_code(&mut out, code, pending, strings)?;
                continue;
            }
            other => out.push(other),
        }
        pending.is_none().then_some(())?;
    }
    let whole = pending.is_none() && !out.contains(&0);
    (whole && is_valid(&out, strings)).then_some(out)
}

/// The end of `text` that begins `back` bytes before `rest` does.
fn text_from<'a>(text: &'a [u8], rest: &[u8], back: usize) -> &'a [u8] {
    text.get(text.len() - rest.len() - back..)
        .unwrap_or_default()
}

/// Up to `digits_max` digits to base `base` as one byte; what is behind them.
fn number<'a>(out: &mut Vec<u8>, text: &'a [u8], base: u32, digits_max: usize) -> Option<&'a [u8]> {
    let is_digit = |byte: &u8| char::from(*byte).is_digit(base);
    let len = text
        .iter()
        .take(digits_max)
        .take_while(|byte| is_digit(byte))
        .count();
    let (digits, rest) = text.split_at_checked(len)?;
    let value = u32::from_str_radix(std::str::from_utf8(digits).ok()?, base).ok()?;
    // Three octal digits may say more than a byte holds; the server keeps the low eight bits.
    out.push(u8::try_from(value & 0xff).ok()?);
    Some(rest)
}

fn hex(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(digits)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((code, rest))
}

/// Manual: "String Constants with Unicode Escapes". UESCAPE, if there is one, is the next token: whoever sees it does not ask here.
fn unescape_unicode(text: &[u8], strings: Strings) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut pending = None;
    while let Some((&byte, after)) = rest.split_first() {
        let (code, after) = match (byte, after) {
            (b'\\', [b'\\', after @ ..]) => (u32::from(b'\\'), after),
            (b'\\', [b'+', after @ ..]) => hex(after, 6)?,
            (b'\\', after) => hex(after, 4)?,
            _ => {
                pending.is_none().then(|| out.push(byte))?;
                rest = after;
                continue;
            }
        };
        rest = after;
        pending = push_code(&mut out, code, pending, strings)?;
    }
    (pending.is_none() && is_valid(&out, strings)).then_some(out)
}

/// Appends a code point, or keeps the first half of a surrogate pair. None if it is none, or depends on the encoding.
fn push_code(
    out: &mut Vec<u8>,
    code: u32,
    pending: Option<u32>,
    strings: Strings,
) -> Option<Option<u32>> {
    let code = match (pending, code) {
        (None, 0xD800..=0xDBFF) => return Some(Some(code)),
        (Some(high), 0xDC00..=0xDFFF) => 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00),
        (None, code) => code,
        (Some(_), _) => return None,
    };
    let known = code < 128 || strings.encoding == Encoding::Utf8;
    let character = char::from_u32(code).filter(|&it| known && it != '\0')?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(None)
}

/// Escapes can make bytes that are no text.
fn is_valid(text: &[u8], strings: Strings) -> bool {
    match strings.encoding {
        Encoding::Utf8 => std::str::from_utf8(text).is_ok(),
        Encoding::Ascii | Encoding::Unsafe => text.is_ascii(),
    }
}

/// Cuts to [`Name::BYTES_MAX`] at a character's border.
fn cut(mut bytes: Vec<u8>, encoding: Encoding) -> Option<Name> {
    if bytes.is_empty() {
        return None;
    }
    if bytes.len() <= Name::BYTES_MAX {
        return Some(Name::from(bytes));
    }
    if encoding != Encoding::Utf8 && !bytes.is_ascii() {
        return None;
    }
    let is_border = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80);
    let len = (0..=Name::BYTES_MAX).rev().find(is_border)?;
    bytes.truncate(len);
    Some(Name::from(bytes))
}
