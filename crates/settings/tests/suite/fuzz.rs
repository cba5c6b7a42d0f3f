//! A short, seeded run of the fuzz entry: texts made of the pieces that configurations are made of, then damaged.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const PIECES: &[&str] = &[
    "[pgbouncer]\n",
    "[databases]\n",
    "[users]\n",
    "[peers]\n",
    "[",
    "]",
    "\n",
    "\r\n",
    " ",
    "\t",
    "=",
    ",",
    "'",
    "''",
    "\"",
    "\"\"",
    ";",
    "#",
    "%include x\n",
    "%include",
    "*",
    "-1",
    "0",
    "1",
    "0x1",
    "1e9",
    ".5",
    "2147483647",
    "99999999999999999999",
    "<empty>",
    "host=",
    "port=",
    "dbname=",
    "user=u ",
    "password='a b'",
    "pool_size=3 ",
    "pool_mode=",
    "transaction",
    "connect_query='",
    "a = ",
    "pgbouncer = ",
    "64MB",
    "kB",
    "/tmp",
    "@x",
    "\0",
    "\u{fc}",
    "\u{1f418}",
    "\u{feff}",
    "true",
    "off",
    "x=y",
];

const RUNS: u64 = 2_000;

fn piece(random: &mut StdRng) -> String {
    let setting = settings::catalogue().choose(random).unwrap();
    match random.random_range(0..4) {
        0 => format!("{} = {}\n", setting.name, setting.default),
        1 => format!("{} = ", setting.name),
        _ => (*PIECES.choose(random).unwrap()).to_owned(),
    }
}

fn text(random: &mut StdRng) -> Vec<u8> {
    let pieces = random.random_range(0..40);
    let mut text = String::from("[pgbouncer]\n");
    (0..pieces).for_each(|_| text.push_str(&piece(random)));
    let mut bytes = text.into_bytes();
    for _ in 0..random.random_range(0..3) {
        let at = random.random_range(0..bytes.len());
        bytes[at] = random.random();
    }
    bytes
}

#[test]
fn nothing_panics() {
    for seed in 0..RUNS {
        let bytes = text(&mut StdRng::seed_from_u64(seed));
        let survived = std::panic::catch_unwind(|| settings::fuzz(&bytes)).is_ok();
        assert!(survived, "seed {seed}: {}", String::from_utf8_lossy(&bytes));
    }
}

/// The run above is worth something only if part of its texts gets through.
#[test]
fn some_texts_are_accepted() {
    let accepted = (0..RUNS).filter(|seed| {
        let bytes = text(&mut StdRng::seed_from_u64(*seed));
        let text = String::from_utf8_lossy(&bytes);
        settings::Config::parse(&text, std::path::Path::new("fuzz.ini")).is_ok()
    });
    assert!(accepted.count() as u64 > RUNS / 50);
}
