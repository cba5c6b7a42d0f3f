//! A statement's tokens, read from left to right.

use crate::lexer::{Kind, Lexer, Strings, Token};
use crate::{Encoding, Name};

/// Tokens of the longest statement that is understood, apart from the texts in it that are taken as they are.
const TOKENS_MAX: usize = 4096;

pub(super) struct Phrase<'a> {
    text: &'a [u8],
    tokens: Vec<Token<'a>>,
    at: usize,
    strings: Strings,
}

impl<'a> Phrase<'a> {
    /// None if the encoding hides where tokens end, or there are too many.
    pub(super) fn new(text: &'a [u8], strings: Strings) -> Option<Self> {
        if strings.encoding == Encoding::Unsafe && !text.is_ascii() {
            return None;
        }
        let mut tokens: Vec<_> = Lexer::new(text, strings.backslashes)
            .take(TOKENS_MAX + 1)
            .collect();
        // One semicolon at the end is no second statement.
        while tokens.last().is_some_and(|it| it.is_punctuation(b';')) {
            tokens.pop();
        }
        (tokens.len() <= TOKENS_MAX).then_some(Self {
            text,
            tokens,
            at: 0,
            strings,
        })
    }

    pub(super) fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    pub(super) fn peek_second(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at + 1)
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek().copied();
        self.at += 1;
        token
    }

    /// Takes the keyword if it is next.
    pub(super) fn eat(&mut self, keyword: &str) -> bool {
        self.eat_if(|token| token.is_word(keyword))
    }

    pub(super) fn eat_any(&mut self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.eat(keyword))
    }

    /// Takes all of the keywords or nothing.
    pub(super) fn eat_all(&mut self, keywords: &[&str]) -> bool {
        let start = self.at;
        let eaten = keywords.iter().all(|keyword| self.eat(keyword));
        if !eaten {
            self.at = start;
        }
        eaten
    }

    pub(super) fn eat_punctuation(&mut self, byte: u8) -> bool {
        self.eat_if(|token| token.is_punctuation(byte))
    }

    pub(super) fn eat_operator(&mut self, operator: &str) -> bool {
        self.eat_if(|token| token.is_operator(operator))
    }

    fn eat_if(&mut self, wanted: impl Fn(&Token<'a>) -> bool) -> bool {
        let found = self.peek().is_some_and(wanted);
        self.at += usize::from(found);
        found
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// `value`, if nothing is left over.
    pub(super) fn end<T>(&self, value: T) -> Option<T> {
        self.is_at_end().then_some(value)
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        let token = self.next()?;
        self.no_uescape()?;
        token.identifier(self.strings)
    }

    /// A parameter's name: words joined by dots.
    pub(super) fn dotted_name(&mut self) -> Option<Name> {
        let mut name = self.name()?.into_bytes();
        while self.eat_punctuation(b'.') {
            name.push(b'.');
            name.extend_from_slice(&self.name()?);
        }
        Some(Name::from(name))
    }

    pub(super) fn literal(&mut self) -> Option<Vec<u8>> {
        let token = self.next()?;
        self.no_uescape()?;
        token.literal(self.strings)
    }

    /// Another escape character than the backslash is not understood.
    fn no_uescape(&self) -> Option<()> {
        let follows = self.peek().is_some_and(|token| token.is_word("uescape"));
        (!follows).then_some(())
    }

    /// What stands in the parentheses that begin here, without them.
    pub(super) fn parenthesised(&mut self) -> Option<&'a [u8]> {
        let open = self.next().filter(|token| token.is_punctuation(b'('))?;
        let mut depth = 1_usize;
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::Punctuation(b'(') => depth += 1,
                Kind::Punctuation(b')') if depth == 1 => {
                    return self.text.get(open.end()..token.start);
                }
                Kind::Punctuation(b')') => depth -= 1,
                _ => {}
            }
        }
    }

    /// Takes the text from the next token to the last one.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = self.remaining();
        self.at = self.tokens.len();
        rest
    }

    /// The text from the next token to the last one.
    pub(super) fn remaining(&self) -> &'a [u8] {
        let start = self.peek().map(|token| token.start);
        let end = self.tokens.last().map(Token::end);
        match (start, end) {
            (Some(start), Some(end)) => self.text.get(start..end).unwrap_or_default(),
            _ => &[],
        }
    }
}
