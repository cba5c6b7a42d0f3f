//! What a batch sends. Bytes that are passed on stay where they were received; only what the pooler says itself, and short pieces next
//! to it, are copied into the arena. Each connection has at most one send per batch.

use super::reactor::{Outgoing, SLOT_SIZE, Slots};

/// A connection's entry in the outbox during a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticket(Option<std::num::NonZeroU32>);

/// Where received bytes lie.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// In a receive slot, from this offset on; they stay there until the batch has been sent.
    Slot { slot: usize, offset: usize },
    /// Elsewhere: they have to be copied.
    Copy(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// `ARENA` or a receive slot.
    place: u32,
    start: u32,
    len: u32,
}

const ARENA: u32 = u32::MAX;
/// Pieces up to this size are copied next to what precedes them in the arena, so that one plain send carries both.
const COPY_MAX: usize = 1024;

struct Entry {
    owner: usize,
    segments: Vec<Segment>,
}

/// Entries keep their memory from batch to batch.
#[derive(Default)]
pub struct Outbox {
    entries: Vec<Entry>,
    used: usize,
    arena: Vec<u8>,
}

impl Outbox {
    /// Appends bytes of the pooler's own.
    pub fn say(&mut self, ticket: &mut Ticket, owner: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        let segments = &mut entry(&mut self.entries, &mut self.used, ticket, owner).segments;
        append(
            segments,
            Segment {
                place: ARENA,
                start: start as u32,
                len: bytes.len() as u32,
            },
        );
    }

    /// Passes on `len` received bytes that start `from` bytes into the source.
    #[inline]
    pub fn pass(
        &mut self,
        ticket: &mut Ticket,
        owner: usize,
        source: Source<'_>,
        from: usize,
        len: usize,
        slots: &Slots,
    ) {
        if len == 0 {
            return;
        }
        let (slot, start) = match source {
            Source::Copy(bytes) => return self.say(ticket, owner, &bytes[from..from + len]),
            Source::Slot { slot, offset } => (slot, offset + from),
        };
        let segments = &mut entry(&mut self.entries, &mut self.used, ticket, owner).segments;
        let after_arena = segments
            .last()
            .is_some_and(|last| last.place == ARENA && last.end() == self.arena.len());
        if after_arena && len <= COPY_MAX {
            self.arena.extend_from_slice(slots.part(slot, start, len));
            if let Some(last) = segments.last_mut() {
                last.len += len as u32;
            }
        } else {
            append(
                segments,
                Segment {
                    place: slot as u32,
                    start: start as u32,
                    len: len as u32,
                },
            );
        }
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many connections have something to send.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whose output this is.
    pub fn owner(&self, number: usize) -> usize {
        self.entries[number].owner
    }

    /// Describes one owner's send; the bytes must not move until it has been carried out.
    pub fn describe(&self, number: usize, slots: &Slots, outgoing: &mut Outgoing) {
        for segment in &self.entries[number].segments {
            outgoing.push(self.bytes(*segment, slots));
        }
    }

    /// Appends what is left of an owner's output after `sent` bytes.
    pub fn unsent(&self, number: usize, sent: usize, slots: &Slots, backlog: &mut Vec<u8>) {
        let mut skip = sent;
        for segment in &self.entries[number].segments {
            let bytes = self.bytes(*segment, slots);
            backlog.extend_from_slice(&bytes[skip.min(bytes.len())..]);
            skip = skip.saturating_sub(bytes.len());
        }
    }

    pub fn len_of(&self, number: usize) -> usize {
        self.entries[number]
            .segments
            .iter()
            .map(|segment| segment.len as usize)
            .sum()
    }

    /// Forgets everything; the tickets given out are void.
    pub fn clear(&mut self) {
        for entry in &mut self.entries[..self.used] {
            entry.segments.clear();
        }
        self.used = 0;
        self.arena.clear();
        if self.arena.capacity() > SLOT_SIZE * 4 {
            self.arena.shrink_to(SLOT_SIZE);
        }
    }

    fn bytes<'a>(&'a self, segment: Segment, slots: &'a Slots) -> &'a [u8] {
        let (start, len) = (segment.start as usize, segment.len as usize);
        if segment.place == ARENA {
            &self.arena[start..][..len]
        } else {
            slots.part(segment.place as usize, start, len)
        }
    }
}

impl Segment {
    fn end(self) -> usize {
        self.start as usize + self.len as usize
    }
}

fn entry<'a>(
    entries: &'a mut Vec<Entry>,
    used: &mut usize,
    ticket: &mut Ticket,
    owner: usize,
) -> &'a mut Entry {
    let number = match ticket.0 {
        Some(number) => number.get() as usize - 1,
        None => {
            if *used == entries.len() {
                entries.push(Entry {
                    owner,
                    segments: Vec::new(),
                });
            }
            entries[*used].owner = owner;
            *used += 1;
            ticket.0 = std::num::NonZeroU32::new(*used as u32);
            *used - 1
        }
    };
    &mut entries[number]
}

fn append(segments: &mut Vec<Segment>, new: Segment) {
    match segments.last_mut() {
        Some(last) if last.place == new.place && last.end() == new.start as usize => {
            last.len += new.len
        }
        _ => segments.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(outbox: &Outbox, number: usize, slots: &Slots, from: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        outbox.unsent(number, from, slots, &mut bytes);
        bytes
    }

    #[test]
    fn bytes_keep_their_order_and_neighbours_become_one_piece() {
        let mut slots = Slots::new(2);
        slots.space(0)[..6].copy_from_slice(b"abcdef");
        let (mut outbox, mut ticket) = (Outbox::default(), Ticket::default());
        let source = Source::Slot { slot: 0, offset: 0 };
        outbox.pass(&mut ticket, 9, source, 0, 2, &slots);
        outbox.pass(&mut ticket, 9, source, 2, 1, &slots);
        outbox.say(&mut ticket, 9, b"XY");
        outbox.pass(&mut ticket, 9, source, 4, 2, &slots);
        outbox.pass(&mut ticket, 9, Source::Copy(b"123"), 1, 2, &slots);
        assert_eq!(sent(&outbox, 0, &slots, 0), b"abcXYef23");
        assert_eq!(sent(&outbox, 0, &slots, 4), b"Yef23");
        assert_eq!((outbox.entries[0].segments.len(), outbox.len_of(0)), (2, 9));
        assert_eq!((outbox.len(), outbox.owner(0)), (1, 9));
        outbox.clear();
        assert!(outbox.is_empty());
    }
}
