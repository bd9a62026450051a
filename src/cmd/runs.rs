//! Elements on their way to a reply or to another container: runs of entries in pieces, so that growing them never copies much. Owns the
//! pieces, and writing them as fast as a client takes them.

use crate::base::entry::{Entries, Entry};
use crate::base::heap;
use crate::cmd::ctx::{Budget, Ctx};
use crate::cmd::many::OUT_HIGH_BYTES;
use std::collections::VecDeque;

/// A piece is closed when it has become so long; then it is a mapping of its own, which goes back to the system by itself (`base::heap`).
const PIECE_BYTES: usize = 256 << 10;
/// Room for the element that closes a piece.
const SLACK_BYTES: usize = 4 << 10;

/// Elements, in the order in which they came.
#[derive(Default)]
pub struct Runs {
    pieces: VecDeque<Vec<u8>>,
    count: usize,
    bytes: usize,
    /// Bytes of the first piece that were written.
    at: usize,
}

impl Runs {
    /// Elements that were added.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The piece that is filled.
    fn last(&mut self) -> &mut Vec<u8> {
        if self.pieces.back().is_none_or(|piece| piece.len() >= PIECE_BYTES) {
            // The first is often the only one, and short.
            let room = if self.pieces.is_empty() { 0 } else { PIECE_BYTES + SLACK_BYTES };
            self.pieces.push_back(Vec::with_capacity(room));
        }
        let Some(piece) = self.pieces.back_mut() else { unreachable!("there is one now") };
        piece
    }

    /// Adds one, which is appended to the run that is given.
    pub fn push_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let piece = self.last();
        let before = piece.len();
        put(piece);
        let added = piece.len() - before;
        self.bytes += added;
        self.count += 1;
    }

    /// Adds a run of `count` elements.
    pub fn push_run(&mut self, run: &[u8], count: usize) {
        self.last().extend_from_slice(run);
        self.bytes += run.len();
        self.count += count;
    }

    pub fn each(&self, mut visit: impl FnMut(Entry<'_>)) {
        self.pieces.iter().flat_map(|piece| Entries::new(piece)).for_each(&mut visit);
    }

    /// Writes elements, until all are, the budget is spent or the client has enough to take. True: all are.
    pub fn write(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while let Some(piece) = self.pieces.front() {
            let mut entries = Entries::new(&piece[self.at..]);
            while let Some(entry) = entries.next() {
                ctx.reply.entry(entry);
                if budget.is_spent(64) || ctx.out().queued() > OUT_HIGH_BYTES {
                    self.at = piece.len() - entries.rest().len();
                    return false;
                }
            }
            self.bytes -= piece.len();
            self.at = 0;
            self.pieces.pop_front().into_iter().for_each(heap::free_later);
        }
        true
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.pieces.drain(..).for_each(heap::free_later);
    }
}
