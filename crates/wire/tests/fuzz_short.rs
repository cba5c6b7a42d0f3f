//! The fuzz targets for a moment, on the stable toolchain: the committed corpora, cut, spliced and
//! mutated by a seeded generator. A failure prints the input.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fs;
use std::path::{Path, PathBuf};

const SEED: u64 = 0x5745_4952;
const MUTANTS: usize = 70_000;
const INPUT_LEN_MAX: usize = 1024;

#[test]
fn frontend() {
    run("frontend", wire::fuzz::frontend);
}

#[test]
fn backend() {
    run("backend", wire::fuzz::backend);
}

#[test]
fn startup() {
    run("startup", wire::fuzz::startup);
}

fn run(target: &str, check: fn(&[u8])) {
    let corpus = corpus(target);
    for input in &corpus {
        checked(input, check);
    }
    let mut rng = StdRng::seed_from_u64(SEED);
    for _ in 0..MUTANTS {
        checked(&mutant(&corpus, &mut rng), check);
    }
}

/// The files in the order of their names, so that a seed means the same everywhere.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let entries = fs::read_dir(&folder).expect("the corpus is part of the tree");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    files
        .iter()
        .map(|file| fs::read(file).expect("readable"))
        .collect()
}

fn checked(input: &[u8], check: fn(&[u8])) {
    let _printed = PrintedOnPanic(input);
    check(input);
}

struct PrintedOnPanic<'a>(&'a [u8]);

impl Drop for PrintedOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed on b\"{}\"", self.0.escape_ascii());
        }
    }
}

fn mutant(corpus: &[Vec<u8>], rng: &mut StdRng) -> Vec<u8> {
    let mut input = piece(corpus, rng);
    for _ in 0..rng.random_range(1..=4) {
        mutate(&mut input, corpus, rng);
    }
    input.truncate(INPUT_LEN_MAX);
    input
}

/// A seed, or a part of one: mutations of a short input hit its structure more often.
fn piece(corpus: &[Vec<u8>], rng: &mut StdRng) -> Vec<u8> {
    let seed = corpus.choose(rng).expect("not empty");
    match rng.random_range(0..4) {
        0 => seed.clone(),
        _ => messages(seed)
            .choose(rng)
            .map(|message| message.to_vec())
            .unwrap_or_default(),
    }
}

fn messages(seed: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    let mut rest = seed;
    while let Ok(Some(header)) = wire::Header::peek(rest) {
        let Some((message, after)) = rest.split_at_checked(header.total()) else {
            break;
        };
        messages.push(message);
        rest = after;
    }
    messages.push(rest);
    messages
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut StdRng) {
    let at = rng.random_range(0..=input.len());
    match rng.random_range(0..8) {
        0 => input.truncate(at),
        1 => input.insert(at, rng.random()),
        2 => input.splice(at..at, piece(corpus, rng)).for_each(drop),
        3 => drop(input.drain(at..input.len().min(at + rng.random_range(1..8)))),
        4 => set(
            input,
            at,
            *[0, 1, b'S', b'=', b'-', b'\\', 0x7f, 0xff]
                .choose(rng)
                .expect("some"),
        ),
        5 => set(input, at, rng.random()),
        6 => set_length(input, 1, rng.random_range(0..64)),
        _ => fit_length(input, rng),
    }
}

fn set(input: &mut [u8], at: usize, byte: u8) {
    if let Some(place) = input.get_mut(at) {
        *place = byte;
    }
}

/// Makes the length word true again, of a message or of a startup packet.
fn fit_length(input: &mut [u8], rng: &mut StdRng) {
    let at = rng.random_range(0..=1);
    let len = u32::try_from(input.len().saturating_sub(at)).expect("inputs are short");
    set_length(input, at, len);
}

fn set_length(input: &mut [u8], at: usize, len: u32) {
    if let Some(word) = input.get_mut(at..at + 4) {
        word.copy_from_slice(&len.to_be_bytes());
    }
}
