//! Finds a few dozen words at about one instruction per byte: their first bytes are looked for with vector instructions, and the words
//! themselves only where these stand.
//!
//! Bytes are compared without the bit that tells upper from lower case, so that a few others look alike too (`_` and DEL): what is reported
//! may begin here, and whoever asked compares the words.

use super::words::Word;
use aho_corasick::packed::Searcher;
use aho_corasick::{Match, Span};

/// What is looked for of a word, in bytes: short enough for words to share it, long enough to be rare.
const ROOT_BYTES_MAX: usize = 6;

/// With shorter ones among them all would be looked for by fewer bytes than the searcher can, and found too often.
pub(super) const WORD_BYTES_MIN: usize = 4;

/// More words than these would be compared one after the other for too long where they share a root.
const WORDS_MAX: usize = 128;

/// A text is looked at in pieces of the larger size, which overlap by a root. To clear that much for a short text costs more than to look at it.
const WINDOW_BYTES: usize = 1024;
const SHORT_WINDOW_BYTES: usize = 128;

/// What is folded at a time.
const BLOCK_BYTES: usize = 32;

/// The searcher takes 32 bytes at a time, from the fourth on; with less it is slower.
const SEARCHED_BYTES_MIN: usize = 35;

const CASE_BIT: u8 = 0x20;

#[derive(Debug, Clone)]
pub(super) struct Roots {
    searcher: Searcher,
    /// The words that begin with each root.
    words: Vec<Vec<Word>>,
}

impl Roots {
    /// None if the words are too many or too short, or the processor has no such instructions.
    pub(super) fn new(mut words: Vec<Word>) -> Option<Self> {
        let is_short = |word: &Word| word.text.len() < WORD_BYTES_MIN;
        if words.len() > WORDS_MAX || words.iter().any(is_short) {
            return None;
        }
        words.sort_by_key(|word| folded(&word.text));
        let mut roots: Vec<Vec<u8>> = Vec::new();
        let mut words_of: Vec<Vec<Word>> = Vec::new();
        for word in words {
            let mut root = folded(&word.text);
            root.truncate(ROOT_BYTES_MAX);
            match (roots.last(), words_of.last_mut()) {
                (Some(last), Some(group)) if root.starts_with(last) => group.push(word),
                _ => {
                    roots.push(root);
                    words_of.push(vec![word]);
                }
            }
        }
        Some(Self {
            searcher: Searcher::new(roots)?,
            words: words_of,
        })
    }

    /// Calls `each` with every word that may begin in the text, and where.
    #[inline]
    pub(super) fn for_each(&self, text: &[u8], each: impl FnMut(&Word, usize)) -> Marks {
        if text.len() > SHORT_WINDOW_BYTES {
            return self.for_each_in_pieces(text, each);
        }
        let mut window = [0; SHORT_WINDOW_BYTES];
        let (window, marks) = fill(&mut window, text);
        self.find(window, each);
        marks
    }

    // Apart, since a short text shall not pay for its room.
    #[inline(never)]
    fn for_each_in_pieces(&self, text: &[u8], mut each: impl FnMut(&Word, usize)) -> Marks {
        let mut window = [0; WINDOW_BYTES];
        let mut marks = Marks::None;
        let mut start = 0;
        while let Some(rest) = text.get(start..) {
            let piece = rest.get(..WINDOW_BYTES).unwrap_or(rest);
            let (window, marks_here) = fill(&mut window, piece);
            marks = marks.max(marks_here);
            self.find(window, |word, at| each(word, start + at));
            if piece.len() == rest.len() {
                break;
            }
            start += piece.len() - (ROOT_BYTES_MAX - 1);
        }
        marks
    }

    #[inline]
    fn find(&self, window: &[u8], each: impl FnMut(&Word, usize)) {
        let span = Span::from(0..window.len());
        if let Some(hit) = self.searcher.find_in(window, span) {
            self.find_on(window, hit, each);
        }
    }

    /// Goes on from the first hit, which most texts have not.
    #[cold]
    fn find_on(&self, window: &[u8], first: Match, mut each: impl FnMut(&Word, usize)) {
        let mut next = Some(first);
        while let Some(hit) = next {
            if let Some(words) = self.words.get(hit.pattern().as_usize()) {
                words.iter().for_each(|word| each(word, hit.start()));
            }
            let span = Span::from(hit.start() + 1..window.len());
            next = self.searcher.find_in(window, span);
        }
    }
}

/// Are there bytes in a text that call for a second look: `;` between statements, `&` in a hidden identifier?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Marks {
    None,
    Some,
}

impl Marks {
    pub(super) fn of(text: &[u8]) -> Self {
        match memchr::memchr2(b';', b'&', text) {
            Some(_) => Self::Some,
            None => Self::None,
        }
    }
}

/// Copies a piece of text into the window and folds it. Returns what is to be looked at, which the searcher wants to have a certain length: what
/// lies behind the text there is older or nothing, and a word in it is none in the text.
#[inline]
fn fill<'a, const BYTES: usize>(window: &'a mut [u8; BYTES], text: &[u8]) -> (&'a [u8], Marks) {
    let mut marks = [u8::MAX; BLOCK_BYTES];
    let (from, _) = text.as_chunks();
    let (to, _) = window.as_chunks_mut();
    for (to, from) in to.iter_mut().zip(from) {
        fold(to, from, &mut marks);
    }
    // The last block overlaps the one before it, if there is one.
    let last = text.last_chunk().copied();
    let at = text.len().saturating_sub(BLOCK_BYTES);
    let end = window.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    if let Some(to) = end {
        fold(to, &last.unwrap_or_else(|| padded(text)), &mut marks);
    }
    let is_marked = marks.iter().fold(false, |any, &mark| any | (mark == 0));
    let marks = match is_marked {
        true => Marks::Some,
        false => Marks::None,
    };
    let seen = window.get(..text.len().max(SEARCHED_BYTES_MIN));
    (seen.unwrap_or_default(), marks)
}

/// A text that is shorter than a block.
fn padded(text: &[u8]) -> Block {
    let mut block = [0; BLOCK_BYTES];
    for (to, from) in block.iter_mut().zip(text) {
        *to = *from;
    }
    block
}

type Block = [u8; BLOCK_BYTES];

/// `marks` becomes zero where a byte is a mark.
#[inline]
fn fold(to: &mut Block, from: &Block, marks: &mut Block) {
    for ((to, from), mark) in to.iter_mut().zip(from).zip(marks) {
        *to = from | CASE_BIT;
        *mark = (*mark).min(*to ^ b';').min(*to ^ b'&');
    }
}

fn folded(word: &[u8]) -> Vec<u8> {
    word.iter().map(|byte| byte | CASE_BIT).collect()
}
