//! Entries within a block: how they are written, and how they are put in, taken out and found. Owns the encoding in blocks; knows nothing of other
//! blocks, nor of who sees this one.
//!
//! ```text
//!  room   │ free ...  │ entry │ back │ entry │ back │ ... │ entry │ back │ free ... │
//!                     └ start                                            └ end
//!  entry  as `base::entry` has it, or F8 and the bits of a cell in 4 bytes
//!  back   length of the entry: 1 byte below 80, else low byte, 80 | high byte; so a block can be walked from its end
//! ```
//! The free room may lie on both sides: an end of a list grows into the side that is its own, and nothing is moved.

use super::node::{Block, BlockMut, Node, ROOM_MAX};
use crate::base::entry::{self, Entry};

/// First byte of an entry that names a cell; no byte that an entry begins with.
const CELL: u8 = 0xF8;
const CELL_ENTRY_BYTES: usize = 5;
const BACK_SHORT_MAX: usize = 0x7f;

/// Which end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Head = 0,
    Tail = 1,
}

impl End {
    #[must_use]
    pub fn other(self) -> End {
        match self {
            End::Head => End::Tail,
            End::Tail => End::Head,
        }
    }
}

/// What lies in a block as one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece<'a> {
    Entry(Entry<'a>),
    Cell(Node),
}

impl Piece<'_> {
    /// Bytes in a block.
    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        let bytes = self.entry_bytes();
        bytes + back_bytes(bytes)
    }

    #[inline(always)]
    fn entry_bytes(self) -> usize {
        match self {
            Piece::Entry(entry) => entry.encoded_bytes(),
            Piece::Cell(_) => CELL_ENTRY_BYTES,
        }
    }

    pub(super) fn is_cell(self) -> bool {
        matches!(self, Piece::Cell(_))
    }

    /// Writes itself into exactly as many bytes as it takes.
    #[inline(always)]
    fn write(self, into: &mut [u8]) {
        let bytes = self.entry_bytes();
        match self {
            Piece::Entry(entry) => {
                entry.write(&mut into[..bytes]);
            }
            Piece::Cell(node) => {
                into[0] = CELL;
                into[1..CELL_ENTRY_BYTES].copy_from_slice(&node.bits().to_le_bytes());
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "an entry fits a block, whose room is less than 2^15")]
        match &mut into[bytes..] {
            [back] => *back = bytes as u8,
            back => back.copy_from_slice(&[bytes as u8, 0x80 | (bytes >> 8) as u8]),
        }
    }
}

const _: () = assert!(ROOM_MAX < 1 << 15);

#[inline(always)]
fn back_bytes(entry_bytes: usize) -> usize {
    if entry_bytes <= BACK_SHORT_MAX { 1 } else { 2 }
}

/// The first entry of a run of a block; bytes that it takes.
#[inline(always)]
pub(super) fn first(run: &[u8]) -> (Piece<'_>, usize) {
    if run[0] == CELL {
        return (
            Piece::Cell(Node::from_bits(u32::from_le_bytes([run[1], run[2], run[3], run[4]]))),
            CELL_ENTRY_BYTES + 1,
        );
    }
    let (entry, rest) = entry::split(run).expect("a run that is not empty");
    let bytes = run.len() - rest.len();
    (Piece::Entry(entry), bytes + back_bytes(bytes))
}

/// Bytes of the first entry of a run, with its length behind it.
#[inline(always)]
pub(super) fn first_bytes(run: &[u8]) -> usize {
    let bytes = if run[0] == CELL { CELL_ENTRY_BYTES } else { entry::span(run) };
    bytes + back_bytes(bytes)
}

/// The same of the last entry.
#[inline(always)]
pub(super) fn last_bytes(run: &[u8]) -> usize {
    let back = run[run.len() - 1];
    if usize::from(back) <= BACK_SHORT_MAX {
        usize::from(back) + 1
    } else {
        (usize::from(back & 0x7f) << 8 | usize::from(run[run.len() - 2])) + 2
    }
}

/// The entry at an end of a run, and the bytes that it takes.
#[inline(always)]
pub(super) fn at_end(run: &[u8], end: End) -> (Piece<'_>, usize) {
    match end {
        End::Head => first(run),
        End::Tail => first(&run[run.len() - last_bytes(run)..]),
    }
}

/// What is left of a run without so many bytes at an end.
#[inline(always)]
pub(super) fn without(run: &[u8], end: End, bytes: usize) -> &[u8] {
    match end {
        End::Head => &run[bytes..],
        End::Tail => &run[..run.len() - bytes],
    }
}

impl<'s> Block<'s> {
    #[inline(always)]
    pub(super) fn run(self) -> &'s [u8] {
        &self.room[usize::from(self.head.start)..usize::from(self.head.end)]
    }

    #[inline(always)]
    pub(super) fn count(self) -> usize {
        usize::from(self.head.count)
    }

    pub(super) fn used(self) -> usize {
        usize::from(self.head.end - self.head.start)
    }

    pub(super) fn free(self) -> usize {
        self.room.len() - self.used()
    }

    /// Offset in the run of entry `index` (of the end of the run, if it is their number).
    pub(super) fn offset(self, index: usize) -> usize {
        let run = self.run();
        if index <= self.count() / 2 {
            let mut at = 0;
            for _ in 0..index {
                at += first_bytes(&run[at..]);
            }
            at
        } else {
            let mut at = run.len();
            for _ in index..self.count() {
                at -= last_bytes(&run[..at]);
            }
            at
        }
    }

    /// The first boundary between entries at or after the middle of the run: entries before it, and its offset.
    pub(super) fn middle(self) -> (usize, usize) {
        let run = self.run();
        let (mut index, mut at) = (0, 0);
        while at < run.len() / 2 {
            at += first_bytes(&run[at..]);
            index += 1;
        }
        (index, at)
    }
}

/// Entries of a run that name cells.
pub(super) fn cells(run: &[u8]) -> impl Iterator<Item = Node> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < run.len() {
            let begin = at;
            at += first_bytes(&run[at..]);
            if run[begin] == CELL
                && let (Piece::Cell(cell), _) = first(&run[begin..])
            {
                return Some(cell);
            }
        }
        None
    })
}

impl BlockMut<'_> {
    #[inline(always)]
    pub(super) fn as_block(&self) -> Block<'_> {
        Block { head: self.head, room: self.room }
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "places within a room, which is less than 2^15")]
    fn set_bounds(&mut self, start: usize, end: usize) {
        debug_assert!(start <= end && end <= self.room.len());
        (self.head.start, self.head.end) = (start as u16, end as u16);
    }

    #[inline(always)]
    fn bounds(&self) -> (usize, usize) {
        (usize::from(self.head.start), usize::from(self.head.end))
    }

    /// Puts a piece at an end, if the room on that side suffices.
    #[inline(always)]
    pub(super) fn push(&mut self, end: End, piece: Piece<'_>, bytes: usize) -> bool {
        let (start, stop) = self.bounds();
        let at = match end {
            End::Head if start >= bytes => {
                self.set_bounds(start - bytes, stop);
                start - bytes
            }
            End::Tail if self.room.len() - stop >= bytes => {
                self.set_bounds(start, stop + bytes);
                stop
            }
            _ => return false,
        };
        piece.write(&mut self.room[at..at + bytes]);
        self.head.count += 1;
        self.head.cells += u16::from(piece.is_cell());
        true
    }

    /// Moves the entries so that they begin at `start`.
    pub(super) fn slide(&mut self, start: usize) {
        let (old, end) = self.bounds();
        self.room.copy_within(old..end, start);
        self.set_bounds(start, start + end - old);
    }

    /// Puts a piece at an offset of the run; there is room for it. Moves what is less to move.
    pub(super) fn insert(&mut self, offset: usize, piece: Piece<'_>) {
        let bytes = piece.bytes();
        let (mut start, mut end) = self.bounds();
        assert!(self.as_block().free() >= bytes);
        let behind = self.room.len() - end;
        let front = offset <= (end - start) / 2;
        if start >= bytes && (front || behind < bytes) {
            self.room.copy_within(start..start + offset, start - bytes);
            start -= bytes;
        } else {
            if behind < bytes {
                self.slide(0);
                (start, end) = self.bounds();
            }
            self.room.copy_within(start + offset..end, start + offset + bytes);
            end += bytes;
        }
        self.set_bounds(start, end);
        piece.write(&mut self.room[start + offset..start + offset + bytes]);
        self.head.count += 1;
        self.head.cells += u16::from(piece.is_cell());
    }

    /// Takes `bytes` at an offset of the run out: `count` entries, `cells` of which name cells.
    pub(super) fn remove(&mut self, offset: usize, bytes: usize, count: usize, cells: usize) {
        let (start, end) = self.bounds();
        let at = start + offset;
        if offset <= end - at - bytes {
            self.room.copy_within(start..at, start + bytes);
            self.set_bounds(start + bytes, end);
        } else {
            self.room.copy_within(at + bytes..end, at);
            self.set_bounds(start, end - bytes);
        }
        self.take(count, cells);
    }

    /// Puts a piece in the place of one that takes as many bytes; neither is a cell.
    pub(super) fn replace(&mut self, offset: usize, piece: Piece<'_>) {
        let at = usize::from(self.head.start) + offset;
        piece.write(&mut self.room[at..at + piece.bytes()]);
    }

    /// A cell has another name.
    pub(super) fn rename_cell(&mut self, old: Node, new: Node) {
        let (start, end) = self.bounds();
        let run = &mut self.room[start..end];
        let mut at = 0;
        while at < run.len() {
            if run[at] == CELL && first(&run[at..]).0 == Piece::Cell(old) {
                run[at + 1..at + CELL_ENTRY_BYTES].copy_from_slice(&new.bits().to_le_bytes());
                return;
            }
            at += first_bytes(&run[at..]);
        }
    }

    /// Takes entries out by writing the others anew: `count` fewer, `cells` of which name cells.
    pub(super) fn rewrite(&mut self, run: &[u8], count: usize, cells: usize) {
        let start = usize::from(self.head.start);
        self.room[start..start + run.len()].copy_from_slice(run);
        self.set_bounds(start, start + run.len());
        self.take(count, cells);
    }

    #[expect(clippy::cast_possible_truncation, reason = "no more than there are, which is less than 2^15")]
    fn take(&mut self, count: usize, cells: usize) {
        self.head.count -= count as u16;
        self.head.cells -= cells as u16;
    }

    /// Takes `bytes` at an end out: `count` entries, `cells` of which name cells. Moves nothing.
    #[inline(always)]
    pub(super) fn cut(&mut self, end: End, bytes: usize, count: usize, cells: usize) {
        let (start, stop) = self.bounds();
        match end {
            End::Head => self.set_bounds(start + bytes, stop),
            End::Tail => self.set_bounds(start, stop - bytes),
        }
        self.take(count, cells);
    }

    /// Puts a run of `count` entries at an end; there is room for it.
    #[expect(clippy::cast_possible_truncation, reason = "they lie in a block, hence less than 2^15")]
    pub(super) fn put_run(&mut self, end: End, run: &[u8], count: usize, cells: usize) {
        assert!(self.as_block().free() >= run.len());
        let (start, stop) = self.bounds();
        match end {
            End::Head => {
                if start < run.len() {
                    self.slide(run.len());
                }
                let (start, stop) = self.bounds();
                self.room[start - run.len()..start].copy_from_slice(run);
                self.set_bounds(start - run.len(), stop);
            }
            End::Tail => {
                if self.room.len() - stop < run.len() {
                    let slack = self.room.len() - (stop - start) - run.len();
                    self.slide(slack);
                }
                let (start, stop) = self.bounds();
                self.room[stop..stop + run.len()].copy_from_slice(run);
                self.set_bounds(start, stop + run.len());
            }
        }
        self.head.count += count as u16;
        self.head.cells += cells as u16;
    }
}
