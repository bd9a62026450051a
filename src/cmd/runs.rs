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

    /// The elements that come next, as far as they lie together; none: all were taken.
    pub fn front(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| &piece[self.at..])
    }

    /// So many bytes of those were taken.
    pub fn pass(&mut self, bytes: usize) {
        self.at += bytes;
        if self.pieces.front().is_some_and(|piece| piece.len() == self.at) {
            self.at = 0;
            self.pieces.pop_front().into_iter().for_each(|piece| {
                self.bytes -= piece.len();
                heap::free_later(piece);
            });
        }
    }

    /// Adds a run of `count` elements, which stay together.
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
        loop {
            let run = self.front();
            let mut entries = Entries::new(run);
            let mut full = false;
            while !full && let Some(entry) = entries.next() {
                ctx.reply.entry(entry);
                full = budget.is_spent(64) || ctx.out().queued() > OUT_HIGH_BYTES;
            }
            self.pass(run.len() - entries.rest().len());
            if self.front().is_empty() {
                return true;
            }
            if full {
                return false;
            }
        }
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
