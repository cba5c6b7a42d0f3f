//! A short run of the fuzz target on the stable toolchain: random bytes, and random texts of words that matter.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const WORDS: &[&str] = &[
    "set",
    "SET",
    "session",
    "local",
    "role",
    "authorization",
    "to",
    "=",
    "default",
    "reset",
    "all",
    "time",
    "zone",
    "prepare",
    "p",
    "as",
    "select",
    "execute",
    "deallocate",
    "listen",
    "unlisten",
    "notify",
    "*",
    ",",
    ".",
    ";",
    ";",
    "(",
    ")",
    "'x'",
    "'it''s'",
    "E'\\''",
    "'\\'",
    "U&'\\0061'",
    "U&\"\\0061\"",
    "\"role\"",
    "$$",
    "$t$",
    "$1",
    "1.5",
    "discard",
    "temp",
    "begin",
    "atomic",
    "case",
    "end",
    "commit",
    "rollback",
    "work",
    "and",
    "no",
    "chain",
    "savepoint",
    "release",
    "transaction",
    "prepared",
    "load",
    "declare",
    "cursor",
    "with",
    "hold",
    "for",
    "close",
    "show",
    "seed",
    "explain",
    "analyze",
    "create",
    "table",
    "do",
    "characteristics",
    "isolation",
    "level",
    "read",
    "only",
    "--",
    "\n",
    "/*",
    "*/",
    "uescape",
    "constraints",
    "-",
    "+",
    "app",
    "é",
    "\u{1}",
    "set_config",
    "start",
    "abort",
    "discard",
    "sequences",
];

#[test]
fn random_bytes() {
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..20_000 {
        let len = rng.random_range(0..60);
        let bytes: Vec<u8> = (0..len).map(|_| byte(&mut rng)).collect();
        sql::fuzz::text(&bytes);
    }
}

/// Quotes and what opens comments more often than they come by chance.
fn byte(rng: &mut StdRng) -> u8 {
    const MARKS: &[u8] = b"'\"\\$$/*-- \n;()&uUeE_";
    if rng.random_bool(0.5) {
        return rng.random();
    }
    MARKS.choose(rng).copied().unwrap_or(b'\'')
}

#[test]
fn random_words() {
    let mut rng = StdRng::seed_from_u64(2);
    for _ in 0..20_000 {
        let len = rng.random_range(1..9);
        let mut text = String::new();
        for _ in 0..len {
            text.push_str(WORDS.choose(&mut rng).copied().unwrap_or_default());
            if rng.random_bool(0.8) {
                text.push(' ');
            }
        }
        sql::fuzz::text(text.as_bytes());
    }
}

#[test]
fn seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/sql");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus").flatten() {
        sql::fuzz::text(&std::fs::read(entry.path()).expect("a file"));
        count += 1;
    }
    assert!(count > 0);
}
