use super::*;

const OFF: Strings = Strings {
    backslashes: Backslashes::Escape,
    encoding: Encoding::Utf8,
};

fn tokens(text: &str) -> Vec<String> {
    Lexer::new(text.as_bytes(), Backslashes::Plain)
        .map(|token| String::from_utf8_lossy(token.text).into_owned())
        .collect()
}

fn only(text: &str, strings: Strings) -> Token<'_> {
    let mut lexer = Lexer::new(text.as_bytes(), strings.backslashes);
    let token = lexer.next().expect("a token");
    assert_eq!(lexer.next(), None, "{text}");
    token
}

#[test]
fn borders() {
    for (text, expected) in [
        ("", &[][..]),
        (" \t\r\n\x0b\x0c -- x", &[]),
        ("/* a /* b */ c */ /**/ x", &["x"]),
        ("/*/ x */ y", &["y"]),
        ("select a.b", &["select", "a", ".", "b"]),
        ("a$b$c$$d$$", &["a$b$c$$d$$"]),
        ("$$a$$", &["$$a$$"]),
        ("$a$ $$ $b$ $a$x", &["$a$ $$ $b$ $a$", "x"]),
        ("$1$$x$$", &["$1", "$$x$$"]),
        ("$a b$", &["$", "a", "b$"]),
        ("'a' 'b'", &["'a'", "'b'"]),
        ("'a'\n'b'", &["'a'\n'b'"]),
        ("'a' -- c\n -- d\n 'b'", &["'a' -- c\n -- d\n 'b'"]),
        ("'a' -- c\n /* d */ 'b'", &["'a'", "'b'"]),
        ("'a''b'", &["'a''b'"]),
        (r"'a\'b", &[r"'a\'", "b"]),
        (r"E'a\'b' x", &[r"E'a\'b'", "x"]),
        ("e'a'\n'\\''", &["e'a'\n'\\''"]),
        (
            "u&'a' U&\"b\" u & 'c'",
            &["u&'a'", "U&\"b\"", "u", "&", "'c'"],
        ),
        ("b'1''0' x'1f' n'a'", &["b'1'", "'0'", "x'1f'", "n'a'"]),
        ("\"a\"\"b\"\"\" c", &["\"a\"\"b\"\"\"", "c"]),
        (
            "1 1.5 .5 1. 1e5 1e-5 1e x",
            &["1", "1.5", ".5", "1.", "1e5", "1e-5", "1", "e", "x"],
        ),
        ("1..10", &["1", "..", "10"]),
        ("0x1F 1_000 0b10 0o17", &["0x1F", "1_000", "0b10", "0o17"]),
        (
            "a=-1 b@-1 c--d\n+/* */e",
            &["a", "=", "-", "1", "b", "@-", "1", "c", "+", "e"],
        ),
        ("*- >= <> ||/ !", &["*", "-", ">=", "<>", "||/", "!"]),
        ("-+-1", &["-", "+", "-", "1"]),
        ("a::int[1]", &["a", ":", ":", "int", "[", "1", "]"]),
        ("'open", &["'open"]),
        ("x /* open", &["x", " /* open"]),
        ("x $a$ open $A$", &["x", "$a$ open $A$"]),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn unended_tokens_say_so() {
    for text in [
        "'a", "e'a\\'", "e'\\", "\"a", "u&\"a", "$$a", "$a$a$b$", "/* /* */",
    ] {
        assert_eq!(
            only(text, Strings::default()).kind,
            Kind::Unterminated,
            "{text}"
        );
    }
}

#[test]
fn literals_decoded() {
    for (text, expected) in [
        ("'a''b'", Some("a'b")),
        ("''", Some("")),
        ("'a'\n'b' -- x\n '''c'", Some("ab'c")),
        (r"'a\n'", Some(r"a\n")),
        (r"E'\b\f\n\r\t\\\'''\q'", Some("\u{8}\u{c}\n\r\t\\''q")),
        (
            r"e'\101\1012\x41\x4g\u0041\U0001F600'",
            Some("AA2A\u{4}gA😀"),
        ),
        (r"E'\uD83D\uDE00'", Some("😀")),
        (r"E'\xc3\xa9'", Some("é")),
        (r"E'\xc3'", None),
        (r"E'\uD83D'", None),
        (r"E'\uD83Dx'", None),
        (r"E'\0'", None),
        (r"E'\v'", None),
        (r"E'\u12'", None),
        (r"U&'d\0061t\+000061\\'", Some(r"data\")),
        (r"U&'\D83D\DE00'", Some("😀")),
        (r"U&'\00'", None),
        ("$$a'b$$", Some("a'b")),
        ("$x$a$$b$x$", Some("a$$b")),
        ("B'1'", None),
        ("N'a'", None),
    ] {
        let found = only(text, Strings::default()).literal(Strings::default());
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{text}");
    }
    assert_eq!(only(r"'a\'b'", OFF).literal(OFF), Some(b"a'b".to_vec()));
    assert_eq!(only(r"U&'a'", OFF).literal(OFF), None);
    let ascii = Strings {
        encoding: Encoding::Ascii,
        ..Strings::default()
    };
    assert_eq!(only(r"E'\u00e9'", ascii).literal(ascii), None);
}

#[test]
fn identifiers_decoded() {
    let long = "a".repeat(70);
    let umlauts = "ä".repeat(40);
    for (text, expected) in [
        ("Abc_1$", Some("abc_1$")),
        ("ÄBC", Some("Äbc")),
        ("\"A\"\"b\"", Some("A\"b")),
        ("\"\"", None),
        (r#"U&"\0041b""#, Some("Ab")),
        (&long, Some(&long[..63])),
        (&umlauts, Some(&umlauts[..62])),
    ] {
        let found = only(text, Strings::default()).identifier(Strings::default());
        assert_eq!(found, expected.map(Name::from), "{text}");
    }
    let ascii = Strings {
        encoding: Encoding::Ascii,
        ..Strings::default()
    };
    assert_eq!(only("ÄBC", ascii).identifier(ascii), None);
    assert!(only("\"ÄBC\"", ascii).identifier(ascii).is_some());
}

use crate::Name;
