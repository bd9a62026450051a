//! The longest common subsequence of two byte strings, in steps.
//!
//! The table of dynamic programming is computed a row (a byte of `a`) at a time, 64 columns (bytes of `b`) a word, by the additions of
//! Crochemore, Iliopoulos, Pinzon and Reid (2001): bit `j` of a row is set where the length grows from column `j` to `j + 1` (theirs
//! are the complements; a row without growth is zeros, which cost nothing to make). That one bit is also all that the way back through the table asks for, so the table takes one bit a cell; without the way back, one row.
//!
//! Which of several longest ones it is, and how it falls into matches, is as Redis's LCS has it.

use dolmen_slab::{BlobRef, SEGMENT_BYTES};

/// A byte string that stays as it is.
pub enum Text {
    Short(Vec<u8>),
    Long(BlobRef),
}

impl Text {
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Text::Short(bytes) => bytes.len(),
            Text::Long(blob) => blob.len(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn at(&self, i: usize) -> u8 {
        match self {
            Text::Short(bytes) => bytes[i],
            Text::Long(blob) => blob.segment(i / SEGMENT_BYTES)[i % SEGMENT_BYTES],
        }
    }
}

/// A run of bytes that both have, at most until the next byte that they do not match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match {
    pub a: usize,
    pub b: usize,
    pub len: usize,
}

/// What is wanted beside the length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    Length,
    Bytes,
    /// Those at least so long, the last one first.
    Matches(usize),
}

/// Work between two looks at the clock: bytes, or words of rows.
const UNIT: usize = 4096;

enum Phase {
    /// Finds out which bytes there are in `a`, from the byte `.0` on.
    Letters(usize),
    /// Finds out where in `b` which byte stands, from a column on.
    Columns(usize),
    Rows,
    /// On the way back, before row `.0` and column `.1`.
    Back(usize, usize),
    Over,
}

/// A computation under way.
pub struct Lcs {
    a: Text,
    b: Text,
    wanted: Wanted,
    phase: Phase,
    /// Bytes that `a` has.
    letters: [bool; 256],
    /// By byte of `a`: the columns where it stands in `b`, as bits; empty if nowhere.
    columns: Box<[Vec<u64>; 256]>,
    /// The present row, and as far as it has come: which one it is, the next word, the carry of the addition.
    row: Vec<u64>,
    i: usize,
    word: usize,
    carry: bool,
    table: Bits,
    len: usize,
    /// The bytes from the last one on.
    bytes: Vec<u8>,
    /// The match under way.
    run: Option<Match>,
    matches: Vec<Match>,
}

impl Lcs {
    #[must_use]
    pub fn new(a: Text, b: Text, wanted: Wanted) -> Lcs {
        let words = b.len().div_ceil(64);
        Lcs {
            a,
            b,
            wanted,
            phase: Phase::Letters(0),
            letters: [false; 256],
            columns: Box::new([const { Vec::new() }; 256]),
            row: vec![0; words],
            i: 0,
            word: 0,
            carry: false,
            table: Bits::default(),
            len: 0,
            bytes: Vec::new(),
            run: None,
            matches: Vec::new(),
        }
    }

    /// Works until it is over (true) or `is_spent` says so; it is asked every few microseconds.
    pub fn step(&mut self, mut is_spent: impl FnMut() -> bool) -> bool {
        loop {
            match self.phase {
                Phase::Letters(from) => self.some_letters(from),
                Phase::Columns(from) => self.some_columns(from),
                Phase::Rows => self.some_words(),
                Phase::Back(i, j) => self.some_way_back(i, j),
                Phase::Over => return true,
            }
            if !matches!(self.phase, Phase::Over) && is_spent() {
                return false;
            }
        }
    }

    /// The length. Like the other results, once it is over.
    #[must_use]
    pub fn length(&self) -> usize {
        self.len
    }

    /// The bytes, if they are wanted.
    #[must_use]
    pub fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.reverse();
        bytes
    }

    #[must_use]
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|bits| bits.capacity() * 8).sum();
        let results = self.bytes.capacity() + self.matches.capacity() * size_of::<Match>();
        self.a.len() + self.b.len() + columns + self.row.capacity() * 8 + self.table.held_bytes() + results
    }

    fn some_letters(&mut self, from: usize) {
        let end = self.a.len().min(from + UNIT);
        (from..end).for_each(|i| self.letters[usize::from(self.a.at(i))] = true);
        self.phase = if end < self.a.len() { Phase::Letters(end) } else { Phase::Columns(0) };
    }

    fn some_columns(&mut self, from: usize) {
        let end = self.b.len().min(from + UNIT);
        for j in from..end {
            let byte = usize::from(self.b.at(j));
            if !self.letters[byte] {
                continue;
            }
            let bits = &mut self.columns[byte];
            if bits.is_empty() {
                // Not `resize`: this comes zeroed from the kernel as it is touched.
                *bits = vec![0; self.row.len()];
            }
            bits[j / 64] |= 1 << (j % 64);
        }
        self.phase = if end < self.b.len() { Phase::Columns(end) } else { Phase::Rows };
    }

    /// Computes some words of rows.
    fn some_words(&mut self) {
        let words = self.row.len();
        let mut left = UNIT;
        while self.i < self.a.len() && left > 0 {
            let columns = &self.columns[usize::from(self.a.at(self.i))];
            let end = words.min(self.word + left);
            left -= (end - self.word).max(1).min(left);
            if columns.is_empty() {
                // The byte stands nowhere: the row is as the one before.
                self.word = words;
            } else {
                let mut carry = self.carry;
                for (row, &column) in self.row[self.word..end].iter_mut().zip(&columns[self.word..end]) {
                    let level = !*row;
                    let (sum, first) = level.overflowing_add(level & column);
                    let (sum, second) = sum.overflowing_add(u64::from(carry));
                    carry = first || second;
                    *row = !(sum | (level & !column));
                }
                self.carry = carry;
                self.word = end;
            }
            if self.word < words {
                return;
            }
            if self.wanted != Wanted::Length {
                // (A long row makes a unit longer by half.)
                self.table.push(&self.row, self.b.len());
            }
            (self.word, self.carry) = (0, false);
            self.i += 1;
        }
        if self.i < self.a.len() {
            return;
        }
        let grown = |(k, word): (usize, &u64)| {
            let used = (self.b.len() - k * 64).min(64);
            (word & (u64::MAX >> (64 - used))).count_ones() as usize
        };
        self.len = self.row.iter().enumerate().map(grown).sum();
        *self.columns = [const { Vec::new() }; 256];
        self.phase = match self.wanted {
            Wanted::Length => Phase::Over,
            _ => Phase::Back(self.a.len(), self.b.len()),
        };
    }

    fn some_way_back(&mut self, mut i: usize, mut j: usize) {
        let mut left = UNIT;
        while i > 0 && j > 0 && left > 0 {
            left -= 1;
            let byte = self.a.at(i - 1);
            if byte == self.b.at(j - 1) {
                (i, j) = (i - 1, j - 1);
                if self.wanted == Wanted::Bytes {
                    self.bytes.push(byte);
                }
                let len = self.run.map_or(0, |run| run.len) + 1;
                self.run = Some(Match { a: i, b: j, len });
                if i == 0 || j == 0 {
                    self.end_run();
                }
            } else {
                // Where the length grew in this column it did not grow in this row, so the way leads up.
                if self.table.is_set((i - 1) * self.b.len() + j - 1) {
                    i -= 1;
                    self.table.truncate(i * self.b.len());
                } else {
                    j -= 1;
                }
                self.end_run();
            }
        }
        self.phase = if i > 0 && j > 0 { Phase::Back(i, j) } else { Phase::Over };
    }

    fn end_run(&mut self) {
        if let (Some(run), Wanted::Matches(len_min)) = (self.run.take(), self.wanted)
            && run.len >= len_min
        {
            self.matches.push(run);
        }
    }
}

/// Bits one behind the other, in chunks, so that memory is taken and given back little by little.
#[derive(Default)]
struct Bits {
    chunks: Vec<Vec<u64>>,
    /// Bits in use.
    len: usize,
}

const CHUNK_WORDS: usize = 1 << 14;

impl Bits {
    /// Appends the first `count` bits of `words`.
    fn push(&mut self, words: &[u64], count: usize) {
        let mut left = count;
        for &word in words {
            let used = left.min(64);
            self.push_word(word & (u64::MAX >> (64 - used)), used);
            left -= used;
        }
    }

    /// Appends a word of `used` bits, zero beyond them.
    #[inline]
    fn push_word(&mut self, word: u64, used: usize) {
        let (place, shift) = (self.len / 64, self.len % 64);
        *self.word(place) |= word << shift;
        if shift + used > 64 {
            *self.word(place + 1) |= word >> (64 - shift);
        }
        self.len += used;
    }

    #[inline]
    fn word(&mut self, place: usize) -> &mut u64 {
        let chunk = place / CHUNK_WORDS;
        if chunk == self.chunks.len() {
            self.chunks.push(vec![0; CHUNK_WORDS]);
        }
        &mut self.chunks[chunk][place % CHUNK_WORDS]
    }

    #[inline]
    fn is_set(&self, bit: usize) -> bool {
        self.chunks[bit / 64 / CHUNK_WORDS][bit / 64 % CHUNK_WORDS] >> (bit % 64) & 1 == 1
    }

    /// Gives back chunks that lie behind so many bits.
    fn truncate(&mut self, bits: usize) {
        self.chunks.truncate(bits / 64 / CHUNK_WORDS + 1);
    }

    fn held_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_WORDS * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Redis's definition, by the whole table: the bytes, and all matches.
    fn naive(a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Match>) {
        let mut table = vec![vec![0usize; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] =
                    if a[i - 1] == b[j - 1] { table[i - 1][j - 1] + 1 } else { table[i - 1][j].max(table[i][j - 1]) };
            }
        }
        let (mut bytes, mut matches, mut run) = (Vec::new(), Vec::new(), None::<Match>);
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                bytes.insert(0, a[i]);
                run = Some(Match { a: i, b: j, len: run.map_or(1, |run| run.len + 1) });
            } else {
                if table[i - 1][j] > table[i][j - 1] {
                    i -= 1
                } else {
                    j -= 1
                }
                matches.extend(run.take());
            }
        }
        matches.extend(run);
        assert_eq!(bytes.len(), table[a.len()][b.len()]);
        (bytes, matches)
    }

    fn ours(a: &[u8], b: &[u8], wanted: Wanted) -> (usize, Vec<u8>, Vec<Match>) {
        let mut lcs = Lcs::new(Text::Short(a.to_vec()), Text::Short(b.to_vec()), wanted);
        while !lcs.step(|| true) {}
        (lcs.length(), lcs.bytes(), lcs.matches().to_vec())
    }

    fn check(a: &[u8], b: &[u8]) {
        let (bytes, matches) = naive(a, b);
        assert_eq!(ours(a, b, Wanted::Length), (bytes.len(), Vec::new(), Vec::new()));
        assert_eq!(ours(a, b, Wanted::Bytes), (bytes.len(), bytes.clone(), Vec::new()));
        let long: Vec<Match> = matches.iter().copied().filter(|run| run.len >= 3).collect();
        assert_eq!(ours(a, b, Wanted::Matches(3)), (bytes.len(), Vec::new(), long));
        assert_eq!(ours(a, b, Wanted::Matches(0)), (bytes.len(), Vec::new(), matches));
    }

    #[test]
    fn ends() {
        check(b"", b"");
        check(b"a", b"");
        check(b"", b"a");
        check(b"ohmytext", b"mynewtext");
        check(&[b'x'; 200], &[b'x'; 130]);
    }

    /// Rows of more than a unit, tables of more than a chunk.
    #[test]
    fn long_rows() {
        let text = |seed: u32, len: u32| -> Vec<u8> {
            (0..len).map(|i| b'a' + u8::try_from((i.wrapping_mul(seed) >> 7) % 5).unwrap()).collect()
        };
        check(&text(2_654_435_761, 2100), &text(40_503, 1900));
        let (a, b) = (text(2_654_435_761, 3), text(40_503, 300_000));
        check(&a, &b);
        check(&b, &a);
    }

    proptest! {
        #[test]
        fn like_the_whole_table(
            a in proptest::collection::vec(0u8..4, 0..150), b in proptest::collection::vec(0u8..4, 0..150),
        ) {
            check(&a, &b);
        }
    }
}
