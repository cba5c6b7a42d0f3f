//! The user list's syntax.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use auth::UserListErrorKind::{self, *};
use auth::{PASSWORD_LENGTH_MAX, Password, Secret, USER_LENGTH_MAX, UserList};

fn plain(text: &str) -> Secret {
    Secret::Plain(Password::new(text))
}

#[test]
fn every_form_of_a_line() {
    let cases = [
        (r#""a" "b""#, "a", "b"),
        (r#"  "a"	"b"  "#, "a", "b"),
        (r#""a" "b" "ignored" ; all of "it"#, "a", "b"),
        (r#""a" "b"ignored"#, "a", "b"),
        (r#""a b" "c d""#, "a b", "c d"),
        (r#""a""b" "c""""d""#, "a\"b", "c\"\"d"),
        (r#""""" """""#, "\"", "\""),
        (r#""a" "\n""#, "a", "\\n"),
        (r#""a" """#, "a", ""),
        (r#""ä" "ß""#, "ä", "ß"),
        (r##"";a" "#b""##, ";a", "#b"),
    ];
    for (line, name, secret) in cases {
        let list = UserList::load(line).unwrap();
        assert_eq!(list.len(), 1, "{line}");
        assert!(
            list.lookup(name)
                .is_some_and(|found| *found == plain(secret)),
            "{line}"
        );
    }
}

#[test]
fn a_whole_file() {
    let text = "\u{feff}; a comment\r\n\r\n\"one\" \"1\"\r\n# another\n   \n\"two\" \"md5aa2372305aa1ff8e526fb1199e6c004f\"\n\"one\" \"again\"";
    let list = UserList::load(text).unwrap();
    assert_eq!(list.len(), 2);
    assert!(
        list.lookup("one")
            .is_some_and(|found| *found == plain("again")),
        "the last one counts"
    );
    assert!(
        list.lookup("two")
            .is_some_and(|found| matches!(*found, Secret::Md5(_)))
    );
    assert!(list.lookup("One").is_none());
    let mut names: Vec<_> = list.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(format!("{list:?}"), "UserList(2 users)");
    assert!(UserList::load("").unwrap().is_empty());
}

#[test]
fn limits() {
    let line =
        |name: usize, secret: usize| format!("\"{}\" \"{}\"", "n".repeat(name), "s".repeat(secret));
    assert!(UserList::load(&line(USER_LENGTH_MAX, PASSWORD_LENGTH_MAX)).is_ok());
    assert_eq!(errors(&line(USER_LENGTH_MAX + 1, 1)), [(1, NameTooLong)]);
    assert_eq!(
        errors(&line(1, PASSWORD_LENGTH_MAX + 1)),
        [(1, SecretTooLong)]
    );
    assert_eq!((USER_LENGTH_MAX, PASSWORD_LENGTH_MAX), (127, 65_531));
}

#[test]
fn all_errors_at_once_with_their_lines() {
    let text = r#""good" "1"
name "secret"
"name"

"name" secret
"name
"name" "secret
"" "secret"
"nul" "a#b"
"a""b"
"good" "2"
'name' 'secret'"#;
    let expected = [
        (2, NameMissing),
        (3, SecretMissing),
        (5, SecretMissing),
        (6, Unclosed),
        (7, Unclosed),
        (8, NameEmpty),
        (9, Nul),
        (10, SecretMissing),
        (12, NameMissing),
    ];
    assert_eq!(errors(&text.replace("a#b", "a\0b")), expected);
    let first = UserList::load(text).unwrap_err().remove(0);
    assert_eq!(
        first.to_string(),
        "line 2: expected \"name\" \"secret\", but there is no quoted name"
    );
}

fn errors(text: &str) -> Vec<(usize, UserListErrorKind)> {
    UserList::load(text)
        .unwrap_err()
        .into_iter()
        .map(|error| (error.line, error.kind))
        .collect()
}
