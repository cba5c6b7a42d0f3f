//! What a test expects: "1 2 T D C(SELECT 1) Z(I)".

use super::message::Message;

/// One expected message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    tag: u8,
    detail: Option<String>,
}

impl Expected {
    pub fn matches(&self, message: &Message) -> bool {
        self.tag == message.tag && (self.detail.is_none() || self.detail == message.detail())
    }
}

/// Reads a pattern. A detail may hold blanks and brackets that close.
///
/// # Panics
/// When it is not one: a mistake in the test.
pub fn parse(pattern: &str) -> Vec<Expected> {
    let mut expected = Vec::new();
    let mut rest = pattern.trim_start();
    while let Some(tag) = rest.bytes().next() {
        rest = &rest[1..];
        let detail = rest.starts_with('(').then(|| bracketed(rest));
        rest = &rest[detail.map_or(0, |detail| detail.len() + 2)..];
        assert!(
            rest.is_empty() || rest.starts_with(char::is_whitespace),
            "not a pattern: {pattern}"
        );
        expected.push(Expected {
            tag,
            detail: detail.map(str::to_owned),
        });
        rest = rest.trim_start();
    }
    expected
}

/// What is between the bracket at the front and the one that closes it.
fn bracketed(text: &str) -> &str {
    let mut depth = 0_usize;
    for (place, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return &text[1..place],
            ')' => depth -= 1,
            _ => {}
        }
    }
    panic!("a bracket is not closed: {text}");
}

#[cfg(test)]
mod tests {
    use super::super::message::Sender;
    use super::*;

    fn ready(status: u8) -> Message {
        Message {
            sender: Sender::Server,
            tag: b'Z',
            body: vec![status],
        }
    }

    #[test]
    fn details_may_hold_blanks_and_brackets() {
        let expected = parse("1 C(SELECT 1)  Q(SELECT f(1)) Z");
        let details: Vec<_> = expected
            .iter()
            .map(|one| (char::from(one.tag), one.detail.as_deref()))
            .collect();
        assert_eq!(
            details,
            [
                ('1', None),
                ('C', Some("SELECT 1")),
                ('Q', Some("SELECT f(1)")),
                ('Z', None)
            ]
        );
    }

    #[test]
    fn a_detail_that_is_given_must_match() {
        assert!(parse("Z")[0].matches(&ready(b'T')));
        assert!(parse("Z(T)")[0].matches(&ready(b'T')));
        assert!(!parse("Z(I)")[0].matches(&ready(b'T')));
    }
}
