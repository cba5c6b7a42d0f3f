//! What a client sends: batches of pipelined messages, made at random within what a driver can know. A batch of several segments (that is, with
//! a Sync or a Query in its middle) does not use a name in a segment that an earlier one of the same batch has given or closed:
//! whether it did is only known once that has been answered.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use std::collections::HashSet;
use wire::frontend::Target;
use wire::write;

const NAMES: [&[u8]; 4] = [b"", b"a", b"b", b"c"];
const PORTALS: [&[u8]; 2] = [b"", b"p"];
const NO_TYPES: &[u8] = &[0, 0];
const NO_VALUES: &[u8] = &[0; 6];

/// One batch. Its messages are cut where a driver would write them at once.
pub struct Batch<'a> {
    rng: &'a mut SmallRng,
    client: u32,
    /// Names that earlier segments have given or closed.
    settled_later: HashSet<&'static [u8]>,
    touched: HashSet<&'static [u8]>,
    /// An earlier segment may have failed a transaction: then a Parse may be refused.
    certain: Certain,
    /// A transaction was open when the batch began; it may have failed.
    in_transaction: bool,
    out: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Certain {
    Yes,
    No,
}

pub fn batch(rng: &mut SmallRng, client: u32, in_transaction: bool) -> Vec<u8> {
    let mut batch = Batch {
        rng,
        client,
        settled_later: HashSet::new(),
        touched: HashSet::new(),
        certain: Certain::Yes,
        in_transaction,
        out: Vec::new(),
    };
    if in_transaction && batch.rng.random_ratio(1, 3) {
        let text: &[u8] = if batch.rng.random() {
            b"commit"
        } else {
            b"rollback"
        };
        write::query(&mut batch.out, text);
        return batch.out;
    }
    if !in_transaction && batch.rng.random_ratio(1, 12) {
        let text: &[u8] = if batch.rng.random() {
            b"deallocate all"
        } else {
            b"discard all"
        };
        write::query(&mut batch.out, text);
    }
    for _ in 0..batch.rng.random_range(1..=3) {
        batch.segment();
        let touched = std::mem::take(&mut batch.touched);
        batch.settled_later.extend(touched);
        if in_transaction {
            batch.certain = Certain::No;
        }
    }
    batch.out
}

impl Batch<'_> {
    fn segment(&mut self) {
        match self.rng.random_range(0..12) {
            0..3 => self.query(),
            3 => self.copy_by_query(),
            4 => self.copy_by_execute(),
            5 => self
                .out
                .extend_from_slice(b"F\0\0\0\x0e\0\0\0\x01\0\0\0\0\0\0"),
            6 => self.deallocate_by_execute(),
            _ => self.series(),
        }
    }

    fn query(&mut self) {
        self.touched.insert(b"");
        let count = self.rng.random_range(1..=2);
        let text: Vec<_> = (0..count).map(|_| self.text()).collect();
        if text.iter().any(|text| text == b"begin") {
            self.certain = Certain::No;
        }
        write::query(&mut self.out, &text.join(&b';'));
    }

    fn series(&mut self) {
        for _ in 0..self.rng.random_range(1..=6) {
            self.step();
            if self.rng.random_ratio(1, 8) {
                write::flush(&mut self.out);
            }
        }
        if self.rng.random_ratio(1, 10) {
            write::flush(&mut self.out);
            self.step();
        }
        if self.rng.random_ratio(1, 10) {
            self.query();
        }
        write::sync(&mut self.out);
    }

    fn text(&mut self) -> Vec<u8> {
        match self.rng.random_range(0..24) {
            0 => b"syntax error".to_vec(),
            1 | 2 => b"fail".to_vec(),
            3 | 4 => b"begin".to_vec(),
            5 => b"commit".to_vec(),
            6 => b"rollback".to_vec(),
            7 => b"".to_vec(),
            8 => b"copy out".to_vec(),
            9..13 => format!(
                "rows of client {} {}",
                self.client,
                self.rng.random_range(0..4)
            )
            .into_bytes(),
            _ => format!("rows for all {}", self.rng.random_range(0..6)).into_bytes(),
        }
    }

    fn name(&mut self) -> Option<&'static [u8]> {
        let free: Vec<_> = NAMES
            .into_iter()
            .filter(|name| !self.settled_later.contains(name))
            .collect();
        free.choose(self.rng).copied()
    }

    fn step(&mut self) {
        let portal = *PORTALS.choose(self.rng).unwrap();
        let Some(name) = self.name() else { return };
        match self.rng.random_range(0..10) {
            0 | 1 => self.parse(name),
            2 => {
                self.touched.insert(name);
                write::close(&mut self.out, Target::Statement, name);
            }
            3 => write::describe(&mut self.out, Target::Statement, name),
            4 => write::close(&mut self.out, Target::Portal, portal),
            5 => write::execute(&mut self.out, portal, self.rng.random_range(0..3)),
            6 => {
                write::bind(&mut self.out, portal, name, NO_VALUES);
                write::describe(&mut self.out, Target::Portal, portal);
            }
            _ => {
                write::bind(&mut self.out, portal, name, NO_VALUES);
                write::execute(&mut self.out, portal, self.rng.random_range(-1..3));
            }
        }
    }

    fn parse(&mut self, name: &'static [u8]) {
        if self.certain == Certain::No && !name.is_empty() {
            return;
        }
        self.touched.insert(name);
        let mut text = self.text();
        let plain = text.starts_with(b"rows")
            || (!self.in_transaction && text != b"commit" && text != b"rollback");
        if !name.is_empty() && !plain {
            // Given twice in a failed transaction it is refused for the one or the other reason.
            text = b"rows of another".to_vec();
        }
        if text == b"begin" {
            self.certain = Certain::No;
        }
        write::parse(&mut self.out, name, &text, NO_TYPES);
    }

    /// Statements that follow in the same series are skipped with it if it fails.
    fn deallocate_by_execute(&mut self) {
        if self.certain == Certain::No || !self.settled_later.is_empty() {
            return self.series();
        }
        self.touched.extend(NAMES);
        write::parse(&mut self.out, b"", b"deallocate all", NO_TYPES);
        write::bind(&mut self.out, b"planned", b"", NO_VALUES);
        write::execute(&mut self.out, b"planned", 0);
        // Executed again later, where it may be skipped, it would not be known what it did.
        write::parse(&mut self.out, b"", b"rows after it", NO_TYPES);
        self.series();
    }

    fn copy_data(&mut self) {
        for _ in 0..self.rng.random_range(0..3) {
            let data: &[u8] = if self.rng.random_ratio(1, 4) {
                b"bad"
            } else {
                b"good"
            };
            write::copy_data(&mut self.out, data);
        }
        if self.rng.random_ratio(1, 4) {
            write::copy_fail(&mut self.out, b"changed my mind");
        } else {
            write::copy_done(&mut self.out);
        }
    }

    fn copy_by_query(&mut self) {
        self.touched.insert(b"");
        write::query(&mut self.out, b"copy in");
        self.copy_data();
    }

    /// As libpq does it: a Sync before it is known that data is asked for, and one after.
    fn copy_by_execute(&mut self) {
        self.touched.insert(b"");
        write::parse(&mut self.out, b"", b"copy in", NO_TYPES);
        write::bind(&mut self.out, b"planned", b"", NO_VALUES);
        write::execute(&mut self.out, b"planned", 0);
        if self.rng.random() && self.certain == Certain::Yes {
            write::sync(&mut self.out);
        }
        self.copy_data();
        write::sync(&mut self.out);
    }
}
