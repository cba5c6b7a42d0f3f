use super::*;
use crate::lexer::{Backslashes, Encoding};
use crate::{Item, Mode, Scope, SetValue};

fn effect(text: &str) -> Option<Effect> {
    understand(text.as_bytes(), Strings::default())
}

fn text(value: &str) -> Item {
    Item::Text(value.into())
}

fn items(raw: &str, items: &[Item]) -> SetValue {
    SetValue::Items {
        raw: raw.into(),
        items: items.to_vec(),
    }
}

fn set(name: &str, value: SetValue) -> Option<Effect> {
    Some(Effect::Set {
        name: name.into(),
        value,
        scope: Scope::Session,
    })
}

#[test]
fn set_parameters() {
    let number = |value: &str| Item::Number(value.into());
    for (statement, expected) in [
        (
            "SET Work_Mem = '1MB'",
            set("work_mem", items("'1MB'", &[text("1MB")])),
        ),
        ("set session a to b ;", set("a", items("b", &[text("b")]))),
        ("set a = -1", set("a", items("-1", &[number("-1")]))),
        (
            "set a =-1.5e3",
            set("a", items("-1.5e3", &[number("-1.5e3")])),
        ),
        ("set a = + 1", set("a", items("+ 1", &[number("1")]))),
        ("set a = TRUE", set("a", items("TRUE", &[text("true")]))),
        ("set a = default", set("a", SetValue::Default)),
        (
            "set search_path = \"$user\", Public /* x */, 'a b'",
            set(
                "search_path",
                items(
                    "\"$user\", Public /* x */, 'a b'",
                    &[text("$user"), text("public"), text("a b")],
                ),
            ),
        ),
        (
            "set App.Tenant to 'it''s' -- x",
            set("app.tenant", items("'it''s'", &[text("it's")])),
        ),
        (
            "set session.x = 1",
            set("session.x", items("1", &[number("1")])),
        ),
        ("set role.x = 1", set("role.x", items("1", &[number("1")]))),
        (
            "set \"A\".\"b\" = $$x$$",
            set("A.b", items("$$x$$", &[text("x")])),
        ),
        (
            "set time zone 'UTC'",
            set("timezone", items("'UTC'", &[text("UTC")])),
        ),
        (
            "set time zone utc",
            set("timezone", items("utc", &[text("utc")])),
        ),
        (
            "set time zone -7",
            set("timezone", items("-7", &[number("-7")])),
        ),
        ("set time zone local", set("timezone", SetValue::Default)),
        (
            "set time zone interval '-08:00' hour to minute",
            set(
                "timezone",
                SetValue::Interval {
                    raw: "interval '-08:00' hour to minute".into(),
                },
            ),
        ),
        (
            "set names 'latin1'",
            set("client_encoding", items("'latin1'", &[text("latin1")])),
        ),
        ("set names", set("client_encoding", SetValue::Default)),
        (
            "set schema 'x'",
            set("search_path", items("'x'", &[text("x")])),
        ),
        (
            "set xml option document",
            set("xmloption", items("document", &[text("document")])),
        ),
        ("set seed = 0.5", Some(Effect::SetSeed)),
        (
            "set transaction isolation level serializable",
            Some(Effect::SetTransaction),
        ),
        (
            "set local transaction read only",
            Some(Effect::SetTransaction),
        ),
        ("set transaction snapshot 'x'", Some(Effect::SetTransaction)),
        ("set constraints all deferred", Some(Effect::SetTransaction)),
        ("set a = U&'\\0061' uescape '!'", None),
        ("set a from current", None),
        ("set a", None),
        ("set", None),
        ("set a = 1 2", None),
        ("set a = E'\\v'", None),
    ] {
        assert_eq!(effect(statement), expected, "{statement}");
    }
}

#[test]
fn set_scope_and_role() {
    let role = |raw: &str, name: &str, scope| {
        Some(Effect::SetRole {
            value: items(raw, &[text(name)]),
            scope,
        })
    };
    let authorization = |value, scope| Some(Effect::SetSessionAuthorization { value, scope });
    let bob = || items("bob", &[text("bob")]);
    for (statement, expected) in [
        ("set role Bob", role("Bob", "bob", Scope::Session)),
        ("set local role 'Bob'", role("'Bob'", "Bob", Scope::Local)),
        (
            "set session role = none",
            role("none", "none", Scope::Session),
        ),
        (
            "set session authorization bob",
            authorization(bob(), Scope::Session),
        ),
        (
            "set session session authorization bob",
            authorization(bob(), Scope::Session),
        ),
        (
            "set local session authorization default",
            authorization(SetValue::Default, Scope::Local),
        ),
        (
            "set session_authorization to bob",
            authorization(bob(), Scope::Session),
        ),
        (
            "set local a = b",
            Some(Effect::Set {
                name: "a".into(),
                value: items("b", &[text("b")]),
                scope: Scope::Local,
            }),
        ),
        (
            "set session characteristics as transaction isolation level repeatable read, read only not deferrable",
            Some(Effect::SetCharacteristics {
                modes: vec![
                    Mode {
                        parameter: "default_transaction_isolation",
                        value: "repeatable read",
                    },
                    Mode {
                        parameter: "default_transaction_read_only",
                        value: "on",
                    },
                    Mode {
                        parameter: "default_transaction_deferrable",
                        value: "off",
                    },
                ],
                scope: Scope::Session,
            }),
        ),
        ("reset a.B", Some(Effect::Reset("a.b".into()))),
        ("reset time zone", Some(Effect::Reset("timezone".into()))),
        ("reset all;", Some(Effect::ResetAll)),
        ("reset role", Some(Effect::ResetRole)),
        ("reset \"all\"", Some(Effect::Reset("all".into()))),
        (
            "reset session authorization",
            Some(Effect::ResetSessionAuthorization),
        ),
    ] {
        assert_eq!(effect(statement), expected, "{statement}");
    }
}

#[test]
fn everything_else() {
    use Effect::*;
    let prepare = |name: &str, types: Option<&str>, text: &str| Prepare {
        name: name.into(),
        types: types.map(Into::into),
        text: text.into(),
    };
    let execute = |name: &str, arguments: &str| Execute {
        name: name.into(),
        arguments: arguments.into(),
    };
    let one = |name: &str| All::One(Name::from(name));
    for (statement, expected) in [
        ("", Nothing),
        (" -- x", Nothing),
        ("prepare P as select 1;", prepare("p", None, "select 1")),
        (
            "prepare \"P\" (int, numeric(1, 2)) as insert into t values ($1)",
            prepare("P", Some("int, numeric(1, 2)"), "insert into t values ($1)"),
        ),
        ("execute p", execute("p", "")),
        ("execute p (1, f(2))", execute("p", "(1, f(2))")),
        (
            "explain (analyze, costs off) execute p(1)",
            execute("p", "(1)"),
        ),
        ("explain analyze verbose execute p", execute("p", "")),
        ("deallocate p", Deallocate(one("p"))),
        ("deallocate prepare p", Deallocate(one("p"))),
        ("deallocate prepare", Deallocate(one("prepare"))),
        ("deallocate prepare all", Deallocate(All::All)),
        ("deallocate \"all\"", Deallocate(one("all"))),
        ("listen Chan", Listen("chan".into())),
        ("unlisten chan", Unlisten(one("chan"))),
        ("unlisten *", Unlisten(All::All)),
        ("notify chan", Notify("chan".into())),
        ("notify chan, 'x'", Notify("chan".into())),
        ("discard all", DiscardAll),
        ("discard plans", DiscardPlans),
        ("discard sequences", DiscardSequences),
        ("discard temporary", DiscardTemporary),
        ("begin", Begin),
        ("begin work isolation level serializable", Begin),
        ("start transaction read only", Begin),
        ("commit", Commit { chain: false }),
        ("end work and chain", Commit { chain: true }),
        ("commit and no chain", Commit { chain: false }),
        ("commit prepared 'x'", FinishPrepared),
        ("abort", Rollback { chain: false }),
        ("rollback transaction and chain", Rollback { chain: true }),
        ("rollback prepared 'x'", FinishPrepared),
        ("rollback to a", RollbackTo("a".into())),
        ("rollback work to savepoint A", RollbackTo("a".into())),
        ("rollback to savepoint", RollbackTo("savepoint".into())),
        ("savepoint a", Savepoint("a".into())),
        ("release a", Release("a".into())),
        ("release savepoint a", Release("a".into())),
        ("prepare transaction 'x'", PrepareTransaction),
        ("load 'x'", Load("x".into())),
        (
            "declare C insensitive no scroll cursor with hold for select 1",
            DeclareCursor {
                name: "c".into(),
                hold: true,
            },
        ),
        (
            "declare c cursor without hold for select 1",
            DeclareCursor {
                name: "c".into(),
                hold: false,
            },
        ),
        ("close c", CloseCursor(one("c"))),
        ("close all", CloseCursor(All::All)),
        ("show Search_Path", Show(one("search_path"))),
        ("show all", Show(All::All)),
        ("show time zone", Show(one("timezone"))),
        (
            "show transaction isolation level",
            Show(one("transaction_isolation")),
        ),
        ("show app.x", Show(one("app.x"))),
    ] {
        assert_eq!(effect(statement), Some(expected), "{statement}");
    }
}

#[test]
fn what_is_not_plain_is_not_understood() {
    for statement in [
        "select 1",
        "do $$ begin end $$",
        "call p()",
        "create temp table t ()",
        "create table t as execute p",
        "discard nothing",
        "listen a; listen b",
        "prepare p",
        "load x",
        "deallocate a b",
    ] {
        assert_eq!(effect(statement), None, "{statement}");
    }
    let unsafe_encoding = Strings {
        backslashes: Backslashes::Plain,
        encoding: Encoding::Unsafe,
    };
    assert!(understand(b"set a = 'b'", unsafe_encoding).is_some());
    assert_eq!(understand(b"set a = '\x95\x5c'", unsafe_encoding), None);
}

#[test]
fn executed_names() {
    let name = |text: &str| executed_name(text.as_bytes(), Strings::default());
    for text in [
        "execute P(1)",
        "explain (analyze) execute p",
        "create table t as execute p(1)",
        "explain analyze create table t as execute p with no data",
    ] {
        assert_eq!(name(text), Some("p".into()), "{text}");
    }
    assert_eq!(name("select execute"), None);
    assert_eq!(name("create table t ()"), None);
}

#[test]
fn databases_that_others_have_to_leave() {
    let name = |text: &str| alone_in(text.as_bytes(), Strings::default());
    for (text, expected) in [
        ("DROP DATABASE shop", Some("shop")),
        (
            "/* all */ drop database if exists \"Shop 1\" with (force);",
            Some("Shop 1"),
        ),
        ("alter database shop rename to other", Some("shop")),
        ("alter database shop set tablespace t", Some("shop")),
        ("alter database shop set work_mem = 1", None),
        (
            "create database a template = shop encoding 'UTF8'",
            Some("shop"),
        ),
        ("create database a owner me template shop", Some("shop")),
        ("create database a", Some("template1")),
        ("drop table database", None),
        ("comment on database shop is ''", None),
        ("drop database", None),
    ] {
        assert_eq!(name(text), expected.map(Into::into), "{text}");
    }
}
