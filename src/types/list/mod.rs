//! Lists: the big form ([`List`]), and the operations on either form (`ops`).
//!
//! ```text
//!  ends[Head]      tree: counts of elements, blocks at one depth           ends[Tail]
//!  ┌───────┐       ┌───────────────────┐                                   ┌───────┐
//!  │ block │       │ inner             │                                   │ block │
//!  └───────┘       └─┬───────┬───────┬─┘                                   └───────┘
//!   grows           ┌┴──────┬┴──────┬┴──────┐                               grows
//!   downwards       │ block │ block │ block │                               upwards
//! ```
//! The list is the head's block, the blocks of the tree, the tail's block. A push goes into the block of its end and moves nothing; when that is
//! full it goes into the tree, one time in some hundred. An end without a block takes one from the tree, or, if the tree is empty, uses the other
//! end's. So both ends cost the same however long the list is, and everything else costs a way down the tree and a walk within a block of 4 KiB.
//!
//! An element of more than a quarter of a block has a block of its own, one that fits no chunk is a blob (`node`: cell).
//!
//! Views (`base::epochs`) remember ends and root; what one sees is copied before it changes, from the root down. A copy that finds no
//! memory fails the change, before anything has changed.
//!
//! Knows nothing of keys, replies, or what Redis would do, but for the name of the encoding that it would have (`redis`).

mod block;
mod middle;
mod node;
mod nodes;
mod ops;
mod redis;
mod relocate;
#[cfg(test)]
mod tests;
mod tree;

use super::{Body, Container, Limits, Look, Memory, Span, Type, ViewLost};
use crate::base::entry::{self, Entry};
use crate::base::epochs::Epoch;
use block::{Piece, at_end, without};
use dolmen_slab::{AllocError, BlobId, Slab, Slice};
use node::{BLOCK_HEAD_BYTES, FAN, Node, ROOM_MAX};
use nodes::Nodes;
use redis::Measure;
use tree::Tree;

pub use block::End;
pub use ops::{Filtered, Needle};

/// Bytes of a full block.
const BLOCK_BYTES: usize = 4096;
/// Room of the first block, and of one beside blocks of large elements.
const ROOM_MIN: usize = 256 - BLOCK_HEAD_BYTES;
/// From so many elements on a block is followed by one that is as large as can be.
const MANY: usize = 8;

/// An element of a list.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    Entry(Entry<'a>),
    /// A long one. It is the list's.
    Blob(BlobId),
}

impl Element<'_> {
    /// Length of its text in bytes.
    #[must_use]
    pub fn len(&self, slab: &Slab) -> usize {
        match self {
            Element::Entry(entry) => entry.text_len(),
            Element::Blob(blob) => slab.blob_len(*blob),
        }
    }

    /// Appends its text.
    pub fn append_to(&self, slab: &Slab, out: &mut Vec<u8>) {
        match self {
            Element::Entry(entry) => out.extend_from_slice(entry.text(&mut [0; crate::base::int::MAX_DIGITS])),
            Element::Blob(blob) => {
                (0..slab.blob_segments(*blob)).for_each(|i| out.extend_from_slice(slab.blob_segment(*blob, i)));
            }
        }
    }
}

/// Where the elements lie. A view has a copy.
#[derive(Clone, Copy, Debug)]
struct Roots {
    /// By `End`.
    ends: [Node; 2],
    tree: Tree,
}

impl Roots {
    /// Elements of the block at an end that is no part of the tree.
    fn count(&self, slab: &Slab, end: End) -> usize {
        let node = self.ends[end as usize];
        if node.is_none() { 0 } else { node.block(slab).count() }
    }

    /// The block of element `index`, and the element's index in it.
    fn find(&self, slab: &Slab, index: usize) -> (Node, usize) {
        let head = self.count(slab, End::Head);
        if index < head {
            return (self.ends[End::Head as usize], index);
        }
        let index = index - head;
        if index < self.tree.len() {
            return self.tree.find(slab, index);
        }
        (self.ends[End::Tail as usize], index - self.tree.len())
    }

    /// What is at an end: its own block, or that of the other end when there is no more. `None`: take one from the tree first.
    #[inline(always)]
    fn holder(&self, end: End) -> Option<End> {
        if !self.ends[end as usize].is_none() {
            Some(end)
        } else if self.tree.is_empty() {
            Some(end.other())
        } else {
            None
        }
    }
}

/// The big form of a list.
#[derive(Debug)]
pub struct List {
    roots: Roots,
    len: usize,
    nodes: Nodes,
    measure: Measure,
}

/// An open view of a list.
#[derive(Debug)]
pub struct ListView {
    epoch: Epoch,
    roots: Roots,
    len: usize,
    /// Elements that are passed, from the end where the view begins.
    passed: usize,
    from: End,
}

impl List {
    fn new() -> List {
        List::shaped(BLOCK_BYTES - BLOCK_HEAD_BYTES, FAN)
    }

    /// With another room of blocks and fan of nodes than is best.
    fn shaped(room: usize, fan: usize) -> List {
        let roots = Roots { ends: [Node::NONE; 2], tree: Tree::EMPTY };
        List { roots, len: 0, nodes: Nodes::new(room, fan), measure: Measure::new() }
    }

    /// What holds the text in a block. A cell is the caller's until it is put somewhere.
    #[inline(always)]
    fn piece<'v>(&mut self, slab: &mut Slab, text: &'v [u8]) -> Result<Piece<'v>, AllocError> {
        let piece = Piece::Entry(Entry::of(text));
        if text.len() < ROOM_MAX - 8 { Ok(piece) } else { Ok(Piece::Cell(self.nodes.cell(slab, text)?)) }
    }

    fn drop_piece(&mut self, slab: &mut Slab, piece: Piece<'_>) {
        if let Piece::Cell(cell) = piece {
            self.nodes.discard(slab, cell);
        }
    }

    #[inline(always)]
    fn push(&mut self, slab: &mut Slab, end: End, piece: Piece<'_>) -> Result<(), AllocError> {
        let bytes = piece.bytes();
        if let Some(holder) = self.roots.holder(end) {
            let node = self.roots.ends[holder as usize];
            if !node.is_none()
                && !self.nodes.epochs.must_copy(node.stamp(slab))
                && node.block_mut(slab).push(end, piece, bytes)
            {
                self.added(slab, piece);
                return Ok(());
            }
        }
        self.push_slow(slab, end, piece)
    }

    #[inline(always)]
    fn added(&mut self, slab: &Slab, piece: Piece<'_>) {
        self.len += 1;
        if self.measure.is_known() {
            self.measure.add(redis::piece_bytes(slab, piece));
        }
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&mut self, slab: &mut Slab, end: End, piece: Piece<'_>) -> Result<(), AllocError> {
        let bytes = piece.bytes();
        let full = self.nodes.room;
        let mut room = ROOM_MIN.min(full);
        if let Some(holder) = self.roots.holder(end)
            && let slot = holder as usize
            && !self.roots.ends[slot].is_none()
        {
            let node = self.nodes.own(slab, self.roots.ends[slot])?;
            self.roots.ends[slot] = node;
            let block = node.block(slab);
            // The only block is for both ends: what is free is shared.
            let alone = block.count() == self.len;
            let start = |free: usize| match (end, alone) {
                (End::Head, false) => free,
                (End::Head, true) => bytes.max(free / 2),
                (End::Tail, false) => 0,
                (End::Tail, true) => (free - bytes).min(free / 2),
            };
            let (free, used) = (block.free(), block.used());
            let gap =
                if end == End::Head { usize::from(block.head.start) } else { free - usize::from(block.head.start) };
            if gap < bytes {
                if free >= bytes.max(block.room.len() / 4) {
                    node.block_mut(slab).slide(start(free));
                } else if used + bytes <= full {
                    let room = node::room_for((2 * used).max(used + bytes).min(full));
                    let larger = self.nodes.resized(slab, node, room, start(room - used))?;
                    self.nodes.discard(slab, node);
                    self.roots.ends[slot] = larger;
                } else if block.count() >= MANY {
                    room = full;
                }
            }
            if self.roots.ends[slot].block_mut(slab).push(end, piece, bytes) {
                self.added(slab, piece);
                return Ok(());
            }
        }
        let room = if bytes > full / 4 { bytes } else { room.max(bytes) };
        let fresh = self.nodes.block(slab, room, end == End::Head)?;
        assert!(fresh.block_mut(slab).push(end, piece, bytes), "a new block has room");
        let slot = &mut self.roots.ends[end as usize];
        if !slot.is_none()
            && let Err(e) = self.roots.tree.push(&mut self.nodes, slab, end, *slot)
        {
            self.nodes.discard(slab, fresh);
            return Err(e);
        }
        *slot = fresh;
        self.added(slab, piece);
        Ok(())
    }

    /// Shows the pieces from `index` on, to the end (to the beginning, with `reverse`), while `see` says so.
    fn walk<'s>(&self, slab: &'s Slab, index: usize, reverse: bool, mut see: impl FnMut(Piece<'s>) -> bool) {
        let (mut index, end) = (index, if reverse { End::Tail } else { End::Head });
        while index < self.len {
            let (node, at) = self.roots.find(slab, index);
            let block = node.block(slab);
            let mut rest =
                if reverse { &block.run()[..block.offset(at + 1)] } else { &block.run()[block.offset(at)..] };
            while !rest.is_empty() {
                let (piece, bytes) = at_end(rest, end);
                if !see(piece) {
                    return;
                }
                rest = without(rest, end, bytes);
            }
            // Before the first: an index that no list has.
            index = if reverse { index.wrapping_sub(at + 1) } else { index + block.count() - at };
        }
    }

    /// Shows the next elements of a view where they lie, while `see` says so.
    pub fn view_walk<'s>(&self, slab: &'s Slab, view: &mut ListView, mut see: impl FnMut(Element<'s>) -> bool) {
        self.nodes.check(slab);
        while view.passed < view.len {
            let reverse = view.from == End::Tail;
            let index = if reverse { view.len - 1 - view.passed } else { view.passed };
            let (node, index) = view.roots.find(slab, index);
            let block = node.block(slab);
            let mut rest =
                if reverse { &block.run()[..block.offset(index + 1)] } else { &block.run()[block.offset(index)..] };
            while !rest.is_empty() {
                let (piece, bytes) = at_end(rest, view.from);
                rest = without(rest, view.from, bytes);
                view.passed += 1;
                if !see(element(slab, piece)) {
                    return;
                }
            }
        }
    }

    /// The end whose block has the element at `end`, which may be changed.
    fn own_end(&mut self, slab: &mut Slab, end: End) -> Result<End, AllocError> {
        let Roots { ends, tree } = &mut self.roots;
        if ends[end as usize].is_none() && !tree.is_empty() {
            ends[end as usize] = tree.pop(&mut self.nodes, slab, end)?;
        }
        let holder = if ends[end as usize].is_none() { end.other() } else { end };
        let slot = &mut ends[holder as usize];
        *slot = self.nodes.own(slab, *slot)?;
        Ok(holder)
    }

    /// Takes the element at an end of a list that is not empty out, after `read` has seen it.
    #[inline(always)]
    fn pop(&mut self, slab: &mut Slab, end: End, read: impl FnOnce(&Slab, Element<'_>)) -> Result<(), AllocError> {
        let holder = self.own_end(slab, end)?;
        let slot = &mut self.roots.ends[holder as usize];
        let block = slot.block(slab);
        let (piece, bytes) = at_end(block.run(), end);
        read(slab, element(slab, piece));
        if self.measure.is_known() {
            self.measure.sub(redis::piece_bytes(slab, piece));
        }
        let gone = match piece {
            Piece::Cell(cell) => cell,
            Piece::Entry(_) => Node::NONE,
        };
        if block.count() == 1 {
            self.nodes.discard(slab, std::mem::replace(slot, Node::NONE));
        } else {
            slot.block_mut(slab).cut(end, bytes, 1, usize::from(!gone.is_none()));
        }
        if !gone.is_none() {
            self.nodes.discard(slab, gone);
        }
        self.len -= 1;
        if self.len.is_power_of_two() && self.roots.tree.is_empty() {
            self.shrink(slab);
        }
        Ok(())
    }

    /// The only block of a list that has become short gives room back that it has too much.
    #[cold]
    fn shrink(&mut self, slab: &mut Slab) {
        for slot in &mut self.roots.ends {
            if slot.is_none() || slot.block(slab).count() != self.len {
                continue;
            }
            let (used, room) = (slot.block(slab).used(), slot.block(slab).room.len());
            let wanted = node::room_for((2 * used).max(ROOM_MIN.min(self.nodes.room)).min(room));
            if 2 * wanted < room
                && let Ok(smaller) = self.nodes.resized(slab, *slot, wanted, (wanted - used) / 2)
            {
                self.nodes.discard(slab, std::mem::replace(slot, smaller));
            }
        }
    }
}

/// Frees a list that nobody has seen.
fn destroy(list: &mut List, slab: &mut Slab) {
    while list.drain(slab, usize::MAX) {}
}

fn element<'a>(slab: &Slab, piece: Piece<'a>) -> Element<'a> {
    match piece {
        Piece::Entry(entry) => Element::Entry(entry),
        Piece::Cell(cell) => Element::Blob(cell.blob(slab)),
    }
}

/// Appends an element to a run.
fn put_element(slab: &Slab, element: Element<'_>, run: &mut Vec<u8>) {
    match element {
        Element::Entry(entry) => entry.put(run),
        long @ Element::Blob(blob) => {
            entry::put_head(run, slab.blob_len(blob));
            long.append_to(slab, run);
        }
    }
}

impl Container for List {
    const TYPE: Type = Type::List;
    type View = ListView;

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> u64 {
        self.nodes.bytes() + self.heap_bytes() as u64
    }

    fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes()
    }

    fn kept_bytes(&self) -> u64 {
        self.nodes.epochs.kept_bytes()
    }

    fn open_view(&mut self, slab: &Slab, span: Span) -> ListView {
        self.nodes.check(slab);
        ListView {
            epoch: self.nodes.epochs.open(),
            roots: self.roots,
            len: self.len,
            passed: span.skip.min(self.len),
            from: if span.reverse { End::Tail } else { End::Head },
        }
    }

    /// An element that is a blob is appended whole.
    fn view_next(
        &mut self,
        slab: &Slab,
        view: &mut ListView,
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        let begin = run.len();
        self.view_walk(slab, view, |element| {
            put_element(slab, element, run);
            run.len() - begin < budget_bytes
        });
        Ok(view.passed < view.len)
    }

    fn close_view(&mut self, view: ListView) {
        self.nodes.epochs.close(view.epoch);
    }

    fn is_viewed(&self) -> bool {
        self.nodes.epochs.is_viewed()
    }

    fn has_work(&self) -> bool {
        self.nodes.has_work()
    }

    fn maintain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        self.nodes.check(slab);
        self.nodes.work(slab, budget)
    }

    fn to_packed(&self, slab: &Slab) -> Option<Vec<u8>> {
        ops::to_packed(self, slab)
    }

    fn relocate(&mut self, slab: &mut Slab, cursor: u64, slice: &mut Slice) -> Option<u64> {
        self.relocate_from(slab, cursor, slice)
    }

    fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        assert!(!self.is_viewed(), "drained under an open view");
        self.nodes.check(slab);
        for end in &mut self.roots.ends {
            self.nodes.doom(std::mem::replace(end, Node::NONE));
        }
        self.nodes.doom(self.roots.tree.take());
        self.len = 0;
        self.nodes.work(slab, budget)
    }

    fn unpack(packed: &[u8], span: Span, run: &mut Vec<u8>) {
        ops::put_packed(packed, span, run);
    }

    fn extend(body: &mut Body<List>, memory: &mut Memory<'_>, run: &[u8]) -> Result<(), AllocError> {
        ops::extend(body, memory, run)
    }

    fn encoding(look: Look<'_, List>, limits: &Limits) -> &'static str {
        let _ = limits;
        if look.is_exceeded() { "quicklist" } else { "listpack" }
    }
}
