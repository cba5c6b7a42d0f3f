//! PostgreSQL's lexical structure (manual: "SQL Syntax", "Lexical Structure"), in bytes.
//!
//! Owns where tokens begin and end; what is within a quoted one is for [`decode`](Token::literal). Any bytes are taken; what PostgreSQL
//! would refuse comes out as some token, since a refused statement has no effect.
//!
//! Words are not told apart into keywords and identifiers: whoever reads them knows what may stand where.

mod decode;

use memchr::{memchr, memchr2, memmem};

/// How the server reads literals and identifiers of this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strings {
    pub backslashes: Backslashes,
    pub encoding: Encoding,
}

/// The parameter `standard_conforming_strings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backslashes {
    /// On: a backslash in '...' is one.
    #[default]
    Plain,
    /// Off: '...' is read as E'...'.
    Escape,
}

/// The client's encoding, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8, the server's as well: names beyond ASCII are neither folded nor cut within a character.
    #[default]
    Utf8,
    /// Every byte below 128 is an ASCII character. Names beyond ASCII are not understood where folding or cutting depends on it.
    Ascii,
    /// BIG5, GBK, GB18030, JOHAB, SJIS, SHIFT_JIS_2004, UHC: a character's second byte may look like ASCII. Texts beyond ASCII are not understood.
    Unsafe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub kind: Kind,
    /// As it stands in the text, quotes included.
    pub text: &'a [u8],
    /// Where it begins, in bytes.
    pub start: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or an identifier without quotes.
    Word,
    /// "..."
    QuotedWord,
    /// U&"..."
    UnicodeWord,
    Literal(Quote),
    Number,
    /// $1
    Parameter,
    /// Also PL/pgSQL's `..`
    Operator,
    /// One of `, ( ) [ ] . ; :`, or a byte that begins nothing.
    Punctuation(u8),
    /// A literal, quoted identifier or comment without an end: the rest of the text.
    Unterminated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// '...' whose backslashes are plain
    Plain,
    /// E'...', or '...' with `standard_conforming_strings` off
    Escape,
    /// N'...'
    National,
    /// U&'...'
    Unicode,
    /// B'...'
    Bits,
    /// X'...'
    Hex,
    /// $tag$...$tag$
    Dollar,
}

impl Token<'_> {
    /// Is it this keyword? Quoted words are none.
    pub fn is_word(&self, keyword: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(keyword.as_bytes())
    }

    pub fn is_punctuation(&self, byte: u8) -> bool {
        self.kind == Kind::Punctuation(byte)
    }

    pub fn is_operator(&self, operator: &str) -> bool {
        self.kind == Kind::Operator && self.text == operator.as_bytes()
    }

    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The tokens of a text; white space and comments are left out.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    backslashes: Backslashes,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8], backslashes: Backslashes) -> Self {
        Self {
            text,
            at: 0,
            backslashes,
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Cuts the next `len` bytes off.
    fn take(&mut self, kind: Kind, len: usize) -> Token<'a> {
        let rest = self.rest();
        let token = Token {
            kind,
            text: rest.get(..len).unwrap_or(rest),
            start: self.at,
        };
        self.at = token.end();
        token
    }

    /// A quoted token of `len` bytes, or the rest of the text if it has no end.
    fn take_quoted(&mut self, kind: Kind, len: Option<usize>) -> Token<'a> {
        match len {
            Some(len) => self.take(kind, len),
            None => self.take(Kind::Unterminated, usize::MAX),
        }
    }

    fn literal(&mut self, quote: Quote, prefix: usize) -> Token<'a> {
        let len = literal_len(self.rest(), quote, prefix);
        self.take_quoted(Kind::Literal(quote), len)
    }

    fn word(&mut self) -> Token<'a> {
        let rest = self.rest();
        let prefixed = |byte| rest.get(1) == Some(&byte);
        let unicode = |byte| prefixed(b'&') && rest.get(2) == Some(&byte);
        match rest.first().map(u8::to_ascii_lowercase) {
            Some(b'e') if prefixed(b'\'') => self.literal(Quote::Escape, 1),
            Some(b'n') if prefixed(b'\'') => self.literal(self.national(), 1),
            Some(b'b') if prefixed(b'\'') => self.literal(Quote::Bits, 1),
            Some(b'x') if prefixed(b'\'') => self.literal(Quote::Hex, 1),
            Some(b'u') if unicode(b'\'') => self.literal(Quote::Unicode, 2),
            Some(b'u') if unicode(b'"') => {
                let len = quoted_word_len(rest, 2);
                self.take_quoted(Kind::UnicodeWord, len)
            }
            _ => self.take(Kind::Word, run(rest, is_word_byte)),
        }
    }

    fn plain(&self) -> Quote {
        match self.backslashes {
            Backslashes::Plain => Quote::Plain,
            Backslashes::Escape => Quote::Escape,
        }
    }

    /// N'...' is the word `nchar` and a plain literal, whose backslashes are read as in one.
    fn national(&self) -> Quote {
        match self.backslashes {
            Backslashes::Plain => Quote::National,
            Backslashes::Escape => Quote::Escape,
        }
    }

    /// A parameter, a dollar-quoted literal, or a dollar sign on its own.
    fn dollar(&mut self) -> Token<'a> {
        let rest = self.rest();
        let digits = run(rest.get(1..).unwrap_or_default(), |byte| {
            byte.is_ascii_digit()
        });
        if digits > 0 {
            return self.take(Kind::Parameter, 1 + digits);
        }
        let Some(tag) = dollar_tag(rest) else {
            return self.take(Kind::Punctuation(b'$'), 1);
        };
        let body = rest.get(tag.len()..).unwrap_or_default();
        let len = memmem::find(body, tag).map(|end| end + 2 * tag.len());
        self.take_quoted(Kind::Literal(Quote::Dollar), len)
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let Some(skipped) = blank_len(self.rest()) else {
            return Some(self.take(Kind::Unterminated, usize::MAX));
        };
        self.at += skipped;
        let rest = self.rest();
        let first = *rest.first()?;
        let second_is_digit = rest.get(1).is_some_and(u8::is_ascii_digit);
        Some(match first {
            b'\'' => self.literal(self.plain(), 0),
            b'"' => self.take_quoted(Kind::QuotedWord, quoted_word_len(rest, 0)),
            b'$' => self.dollar(),
            b'0'..=b'9' => self.take(Kind::Number, number_len(rest)),
            b'.' if rest.starts_with(b"..") => self.take(Kind::Operator, 2),
            b'.' if second_is_digit => self.take(Kind::Number, number_len(rest)),
            _ if is_word_start(first) => self.word(),
            _ if is_operator_byte(first) => self.take(Kind::Operator, operator_len(rest)),
            _ => self.take(Kind::Punctuation(first), 1),
        })
    }
}

/// May the byte begin an identifier?
pub const fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 128
}

/// May the byte stand in an identifier?
pub fn is_word_byte(byte: u8) -> bool {
    WORD_BYTES[usize::from(byte)]
}

/// A table with a place for every byte, since this is asked of most of them.
static WORD_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        let it = byte as u8;
        table[byte] = is_word_start(it) || it.is_ascii_digit() || it == b'$';
        byte += 1;
    }
    table
};

pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn is_operator_byte(byte: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&byte)
}

fn run(text: &[u8], within: impl Fn(u8) -> bool) -> usize {
    text.iter()
        .position(|&byte| !within(byte))
        .unwrap_or(text.len())
}

/// White space and comments at the beginning of `text`, in bytes. None if a comment has no end.
pub fn blank_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        match rest {
            [byte, ..] if is_space(*byte) => at += run(rest, is_space),
            [b'-', b'-', ..] => at += line_comment_len(rest),
            [b'/', b'*', ..] => at += block_comment_len(rest)?,
            _ => return Some(at),
        }
    }
}

fn line_comment_len(text: &[u8]) -> usize {
    memchr2(b'\n', b'\r', text).unwrap_or(text.len())
}

/// Comments of this kind nest (manual: "Comments").
fn block_comment_len(text: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        at += memchr2(b'/', b'*', text.get(at..)?)?;
        match text.get(at..at + 2)? {
            b"/*" => depth += 1,
            b"*/" if depth == 1 => return Some(at + 2),
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
}

fn quoted_word_len(text: &[u8], prefix: usize) -> Option<usize> {
    let mut at = prefix + 1;
    loop {
        at += memchr(b'"', text.get(at..)?)? + 1;
        if text.get(at) != Some(&b'"') {
            return Some(at);
        }
        at += 1;
    }
}

/// Length of a literal in single quotes with all its continuations.
fn literal_len(text: &[u8], quote: Quote, prefix: usize) -> Option<usize> {
    let mut at = prefix + 1;
    loop {
        at += match quote {
            Quote::Escape => memchr2(b'\'', b'\\', text.get(at..)?)?,
            _ => memchr(b'\'', text.get(at..)?)?,
        };
        let is_bits = matches!(quote, Quote::Bits | Quote::Hex);
        match text.get(at..)? {
            [b'\\', _, ..] => at += 2,
            [b'\\'] => return None,
            [_, b'\'', ..] if !is_bits => at += 2,
            rest => match continuation_len(rest.get(1..)?) {
                Some(len) => at += 1 + len,
                None => return Some(at + 1),
            },
        }
    }
}

/// Between a closing quote and the opening one of the same literal's next part there is only white space with at least one line's end, and
/// comments to the line's end (manual: "String Constants"). Counts the opening quote.
fn continuation_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut lines = 0_usize;
    loop {
        let rest = text.get(at..)?;
        match rest {
            [b'\'', ..] if lines > 0 => return Some(at + 1),
            [b'\n' | b'\r', ..] => {
                lines += 1;
                at += 1;
            }
            [byte, ..] if is_space(*byte) => at += 1,
            [b'-', b'-', ..] => at += line_comment_len(rest),
            _ => return None,
        }
    }
}

/// `$$` or `$tag$` at the beginning of `text`.
fn dollar_tag(text: &[u8]) -> Option<&[u8]> {
    let name = text.get(1..)?;
    let len = run(name, |byte| is_word_byte(byte) && byte != b'$');
    let begins_well = name
        .first()
        .is_none_or(|&byte| byte == b'$' || is_word_start(byte));
    if !begins_well || name.get(len) != Some(&b'$') {
        return None;
    }
    text.get(..len + 2)
}

fn number_len(text: &[u8]) -> usize {
    let digit: fn(u8) -> bool = match text {
        [b'0', b'x' | b'X', byte, ..] if byte.is_ascii_hexdigit() || *byte == b'_' => {
            |byte| byte.is_ascii_hexdigit()
        }
        [b'0', b'o' | b'O', b'0'..=b'7' | b'_', ..] => |byte| (b'0'..=b'7').contains(&byte),
        [b'0', b'b' | b'B', b'0' | b'1' | b'_', ..] => |byte| matches!(byte, b'0' | b'1'),
        _ => return decimal_len(text),
    };
    2 + run(text.get(2..).unwrap_or_default(), |byte| {
        digit(byte) || byte == b'_'
    })
}

fn decimal_len(text: &[u8]) -> usize {
    let digits = |at: usize| {
        run(text.get(at..).unwrap_or_default(), |byte| {
            byte.is_ascii_digit() || byte == b'_'
        })
    };
    let mut at = digits(0);
    // "1..10" is two numbers.
    if text.get(at) == Some(&b'.') && text.get(at + 1) != Some(&b'.') {
        at += 1;
        at += digits(at);
    }
    let sign = match text.get(at..).unwrap_or_default() {
        [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => 2,
        [b'e' | b'E', b'0'..=b'9', ..] => 1,
        _ => return at,
    };
    at + sign + digits(at + sign)
}

/// An operator ends where a comment begins, and with + or - only if it has one of certain other characters (manual: "Operators").
fn operator_len(text: &[u8]) -> usize {
    let len = run(text, is_operator_byte);
    let operator = text.get(..len).unwrap_or_default();
    let comment = operator
        .windows(2)
        .position(|pair| pair == b"--" || pair == b"/*")
        .unwrap_or(len);
    let operator = operator.get(..comment.max(1)).unwrap_or_default();
    if operator.iter().any(|byte| b"~!@#^&|`?%".contains(byte)) {
        return operator.len();
    }
    let signs = operator
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b'+' | b'-'))
        .count();
    (operator.len() - signs).max(1)
}

#[cfg(test)]
mod tests;
