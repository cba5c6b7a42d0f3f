//! What the fuzz target (`fuzz/`) and its short run (`tests/fuzz_short.rs`) call: properties that hold for every text. They panic where
//! one does not; nothing else calls them.

use crate::lexer::{Backslashes, Encoding, Lexer, Strings};
use crate::{
    LearntNames, Scanner, Suspicion, alone_in, executed_name, is_custom_name, setting_names,
    statements, understand,
};
use std::sync::LazyLock;

const STRINGS: [Strings; 4] = [
    strings(Backslashes::Plain, Encoding::Utf8),
    strings(Backslashes::Escape, Encoding::Utf8),
    strings(Backslashes::Plain, Encoding::Ascii),
    strings(Backslashes::Escape, Encoding::Unsafe),
];

const fn strings(backslashes: Backslashes, encoding: Encoding) -> Strings {
    Strings {
        backslashes,
        encoding,
    }
}

static SCANNER: LazyLock<Option<Scanner>> = LazyLock::new(|| {
    let mut learnt = LearntNames::default();
    learnt.insert(b"tenant_of", Suspicion::SETTINGS);
    Scanner::new(&learnt).ok()
});

/// Any bytes as SQL.
pub fn text(data: &[u8]) {
    for strings in STRINGS {
        tokens_cover_the_text(data, strings);
        statements_are_understood_alone(data, strings);
        let names = setting_names(data, strings);
        assert!(names.clone().count() <= 64);
        assert!(
            names
                .into_iter()
                .all(|name| is_custom_name(name.as_bytes()))
        );
        let _ = executed_name(data, strings);
        let _ = alone_in(data, strings);
    }
}

/// Tokens follow one another, none is empty, and what they leave out is white space and comments.
fn tokens_cover_the_text(text: &[u8], strings: Strings) {
    let mut at = 0;
    for token in Lexer::new(text, strings.backslashes) {
        assert!(token.start >= at && !token.text.is_empty());
        assert_eq!(&text[token.start..token.end()], token.text);
        let between = &text[at..token.start];
        assert_eq!(Lexer::new(between, strings.backslashes).next(), None);
        let _ = (
            token.identifier(strings),
            token.literal(strings),
            token.body(),
        );
        at = token.end();
    }
    assert_eq!(Lexer::new(&text[at..], strings.backslashes).next(), None);
}

/// What a statement is understood to do is suspected of it, and of the whole text.
fn statements_are_understood_alone(text: &[u8], strings: Strings) {
    let Some(scanner) = &*SCANNER else { return };
    let whole = scanner.suspicion(text);
    for statement in statements(text, strings.backslashes) {
        let suspicion = scanner.suspicion(statement);
        if let Some(effect) = understand(statement, strings) {
            let said = effect.suspicion();
            assert!(suspicion.contains(said), "{effect:?} of {suspicion:?}");
            assert!(whole.contains(said), "{effect:?} in {whole:?}");
        }
    }
}
