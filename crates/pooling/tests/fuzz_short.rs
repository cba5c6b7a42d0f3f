//! The fuzz target for a moment, on the stable toolchain: the committed corpus, cut, spliced and mutated by a seeded generator. A failure prints
//! the input.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fs;
use std::path::{Path, PathBuf};

const SEED: u64 = 0x5745_4952;
const MUTANTS: usize = 60_000;
const INPUT_LEN_MAX: usize = 2048;

#[test]
fn conversation() {
    let corpus = corpus();
    for input in &corpus {
        checked(input);
    }
    let mut rng = SmallRng::seed_from_u64(SEED);
    for _ in 0..MUTANTS {
        let mut input = corpus.choose(&mut rng).expect("not empty").clone();
        for _ in 0..rng.random_range(1..=4) {
            mutate(&mut input, &corpus, &mut rng);
        }
        input.truncate(INPUT_LEN_MAX);
        checked(&input);
    }
}

/// The files in the order of their names, so that the seed means the same everywhere.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/conversation");
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

fn checked(input: &[u8]) {
    let _printed = PrintedOnPanic(input);
    pooling::fuzz::conversation(input);
}

struct PrintedOnPanic<'a>(&'a [u8]);

impl Drop for PrintedOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed on b\"{}\"", self.0.escape_ascii());
        }
    }
}

fn chunks(input: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    let mut rest = input.get(1..).unwrap_or_default();
    while let [_, len, ..] = rest {
        let (chunk, after) = rest.split_at(rest.len().min(2 + usize::from(*len)));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut SmallRng) {
    let mut own: Vec<Vec<u8>> = chunks(input).into_iter().map(<[u8]>::to_vec).collect();
    let other = corpus.choose(rng).expect("not empty");
    let at = rng.random_range(0..=own.len());
    match rng.random_range(0..6) {
        0 => own.truncate(at),
        1 | 2 => own
            .splice(
                at..at,
                chunks(other).choose(rng).map(|chunk| chunk.to_vec()),
            )
            .for_each(drop),
        3 if !own.is_empty() => drop(own.remove(at % own.len())),
        4 => own.insert(at, vec![rng.random_range(0..5), 0]),
        _ => {
            let len = input.len();
            if len > 0 {
                input[rng.random_range(0..len)] = *[0, 1, b'S', b'Z', b'E', b'a', 0xff]
                    .choose(rng)
                    .expect("some");
            }
            return;
        }
    }
    let kind = input.first().copied().unwrap_or_default();
    *input = [vec![kind], own.concat()].concat();
}
