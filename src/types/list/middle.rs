//! Changes of a big list away from its ends: insertion, removal, trimming. Owns when blocks are split, merged and made smaller.

use super::block::{End, Piece, cells, first, first_bytes};
use super::node::Node;
use super::nodes::Nodes;
use super::ops::Needle;
use super::tree::{Path, Tree};
use super::{List, element, redis};
use dolmen_slab::{AllocError, Slab};

/// Elements cut off at once whose sizes are added up rather than those of what stays.
const MEASURED_MAX: usize = 256;

/// Where a block hangs.
enum Place {
    End(End),
    Tree(Box<Path>),
}

impl List {
    /// The block of element `index`, ready to be changed, and the element's index in it.
    fn own_at(&mut self, slab: &mut Slab, index: usize) -> Result<(Place, Node, usize), AllocError> {
        let (nodes, tree) = (&mut self.nodes, &mut self.roots.tree);
        let head = if self.roots.ends[0].is_none() { 0 } else { self.roots.ends[0].block(slab).count() };
        let (end, index) = match index.checked_sub(head) {
            None => (End::Head, index),
            Some(index) if index < tree.len() => {
                let (path, index) = tree.path(nodes, slab, index)?;
                let block = nodes.own(slab, path.block(slab))?;
                path.set_block(slab, block);
                return Ok((Place::Tree(Box::new(path)), block, index));
            }
            Some(index) => (End::Tail, index - tree.len()),
        };
        let slot = &mut self.roots.ends[end as usize];
        *slot = nodes.own(slab, *slot)?;
        Ok((Place::End(end), *slot, index))
    }

    /// The block at `place` has another number of elements now, maybe none: the counts follow, and what is sparse is merged.
    fn recount(&mut self, slab: &mut Slab, place: Place, block: Node) {
        let count = block.block(slab).count();
        match place {
            Place::End(end) if count == 0 => {
                self.roots.ends[end as usize] = Node::NONE;
                self.nodes.discard(slab, block);
            }
            Place::End(_) => {}
            Place::Tree(path) if count == 0 => {
                self.roots.tree.remove(&mut self.nodes, slab, *path);
                self.nodes.discard(slab, block);
            }
            Place::Tree(path) => {
                self.roots.tree.set_count(slab, &path, count);
                settle(&mut self.roots.tree, &mut self.nodes, slab, *path);
            }
        }
    }

    /// Puts a piece in front of element `index`, which is not the first.
    pub(super) fn insert(&mut self, slab: &mut Slab, index: usize, piece: Piece<'_>) -> Result<(), AllocError> {
        debug_assert!(0 < index && index < self.len);
        let head = self.roots.count(slab, End::Head);
        let tail_begin = self.len - self.roots.count(slab, End::Tail);
        let at_end = if index < head {
            Some((End::Head, index))
        } else if index >= tail_begin {
            Some((End::Tail, index - tail_begin))
        } else {
            None
        };
        if let Some((end, index)) = at_end {
            let slot = self.roots.ends[end as usize];
            if let Some(block) = with_room(&mut self.nodes, slab, slot, piece.bytes())? {
                self.roots.ends[end as usize] = block;
                put(slab, block, index, piece);
                self.added(slab, piece);
                return Ok(());
            }
            // It is full: it goes where it can be split.
            self.roots.tree.push(&mut self.nodes, slab, end, slot)?;
            self.roots.ends[end as usize] = Node::NONE;
        }
        let index = index - self.roots.count(slab, End::Head);
        insert(&mut self.roots.tree, &mut self.nodes, slab, index, piece)?;
        self.added(slab, piece);
        Ok(())
    }

    /// Takes element `index` out.
    pub(super) fn remove(&mut self, slab: &mut Slab, index: usize) -> Result<(), AllocError> {
        let (place, block, index) = self.own_at(slab, index)?;
        let offset = block.block(slab).offset(index);
        let (piece, bytes) = first(&block.block(slab).run()[offset..]);
        if self.measure.is_known() {
            self.measure.sub(redis::piece_bytes(slab, piece));
        }
        let cell = if let Piece::Cell(cell) = piece { Some(cell) } else { None };
        block.block_mut(slab).remove(offset, bytes, 1, usize::from(cell.is_some()));
        if let Some(cell) = cell {
            self.nodes.discard(slab, cell);
        }
        self.len -= 1;
        self.recount(slab, place, block);
        Ok(())
    }

    /// Puts a piece in the place of element `index`.
    pub(super) fn set(&mut self, slab: &mut Slab, index: usize, piece: Piece<'_>) -> Result<(), AllocError> {
        let (_, block, at) = self.own_at(slab, index)?;
        let offset = block.block(slab).offset(at);
        let (old, bytes) = first(&block.block(slab).run()[offset..]);
        if bytes == piece.bytes() && !old.is_cell() && !piece.is_cell() {
            if self.measure.is_known() {
                self.measure.sub(redis::piece_bytes(slab, old));
                self.measure.add(redis::piece_bytes(slab, piece));
            }
            block.block_mut(slab).replace(offset, piece);
            return Ok(());
        }
        if index == 0 {
            self.push(slab, End::Head, piece)?
        } else {
            self.insert(slab, index, piece)?
        }
        // All that this changes has been owned above: it needs no memory.
        self.remove(slab, index + 1)
    }

    /// Takes out what the needle is of the elements of one block, the one that has element `index`, from there on to the block's end (to its
    /// beginning, with `reverse`), `max` at most. How many were looked at, and taken out.
    pub(super) fn remove_equal(
        &mut self,
        slab: &mut Slab,
        index: usize,
        reverse: bool,
        needle: &Needle<'_>,
        max: usize,
    ) -> Result<(usize, usize), AllocError> {
        let (node, at) = self.roots.find(slab, index);
        let (node_run, count) = (node.block(slab).run(), node.block(slab).count());
        // Which, of the whole block.
        let matches: Vec<usize> = {
            let mut rest = node_run;
            let all = (0..count).filter(|_| {
                let (piece, bytes) = first(rest);
                rest = &rest[bytes..];
                needle.is(slab, &element(slab, piece))
            });
            if reverse { all.filter(|&i| i <= at).collect() } else { all.filter(|&i| i >= at).collect() }
        };
        let looked = if reverse { at + 1 } else { count - at };
        let taken = match reverse {
            _ if matches.len() <= max => &matches[..],
            false => &matches[..max],
            true => &matches[matches.len() - max..],
        };
        if taken.is_empty() {
            return Ok((looked, 0));
        }
        let (place, block, _) = self.own_at(slab, index)?;
        let (mut kept, mut gone) = (Vec::with_capacity(block.block(slab).used()), Vec::new());
        let mut next = taken.iter().copied().peekable();
        let mut rest = block.block(slab).run();
        for i in 0..count {
            let bytes = first_bytes(rest);
            if next.next_if_eq(&i).is_none() {
                kept.extend_from_slice(&rest[..bytes]);
            } else {
                let piece = first(rest).0;
                if self.measure.is_known() {
                    self.measure.sub(redis::piece_bytes(slab, piece));
                }
                if let Piece::Cell(cell) = piece {
                    gone.push(cell);
                }
            }
            rest = &rest[bytes..];
        }
        let removed = taken.len();
        block.block_mut(slab).rewrite(&kept, removed, gone.len());
        gone.into_iter().for_each(|cell| self.nodes.discard(slab, cell));
        self.len -= removed;
        self.recount(slab, place, block);
        Ok((looked, removed))
    }

    /// Cuts `n` elements off at an end. What is more than a block is freed by `maintain`.
    pub(super) fn cut(&mut self, slab: &mut Slab, end: End, n: usize) -> Result<(), AllocError> {
        if n == 0 {
            return Ok(());
        }
        self.measure_cut(slab, end, n);
        // Without memory some of them are off, or none.
        self.cut_measured(slab, end, n).inspect_err(|_| self.measure.forget())
    }

    fn cut_measured(&mut self, slab: &mut Slab, end: End, n: usize) -> Result<(), AllocError> {
        let left = self.len - n;
        while self.len > left {
            let n = self.len - left;
            let Some(holder) = self.roots.holder(end) else {
                if n >= self.roots.tree.len() {
                    self.len -= self.roots.tree.len();
                    self.nodes.doom(self.roots.tree.take());
                    continue;
                }
                let (path, in_block) = self.roots.tree.cut(&mut self.nodes, slab, end, n)?;
                self.len = left + in_block;
                if in_block > 0 {
                    let block = path.block(slab);
                    cut_block(&mut self.nodes, slab, block, end, in_block);
                    self.roots.tree.set_count(slab, &path, block.block(slab).count());
                }
                self.len = left;
                settle(&mut self.roots.tree, &mut self.nodes, slab, path);
                break;
            };
            let slot = self.roots.ends[holder as usize];
            let count = slot.block(slab).count();
            if n >= count {
                self.roots.ends[holder as usize] = Node::NONE;
                self.nodes.doom(slot);
                self.len -= count;
            } else {
                let block = self.nodes.own(slab, slot)?;
                self.roots.ends[holder as usize] = block;
                cut_block(&mut self.nodes, slab, block, end, n);
                self.len = left;
            }
        }
        if self.len > 0 && self.roots.tree.is_empty() {
            self.shrink(slab);
        }
        Ok(())
    }
}

impl List {
    /// The size of the listpack, added up if it is not known.
    pub(super) fn listpack_bytes(&mut self, slab: &Slab) -> usize {
        self.measure.bytes().unwrap_or_else(|| {
            let mut bytes = 0;
            self.walk(slab, 0, false, |piece| {
                bytes += redis::piece_bytes(slab, piece);
                true
            });
            self.measure.set(bytes)
        })
    }

    /// `n` elements are about to be cut off.
    fn measure_cut(&mut self, slab: &Slab, end: End, n: usize) {
        if !self.measure.is_known() {
            return;
        }
        if n > MEASURED_MAX {
            return self.measure.forget();
        }
        let (mut bytes, mut left) = (0, n);
        let reverse = end == End::Tail;
        self.walk(slab, if reverse { self.len - 1 } else { 0 }, reverse, |piece| {
            if left > 0 {
                bytes += redis::piece_bytes(slab, piece);
                left -= 1;
            }
            left > 0
        });
        self.measure.sub(bytes);
    }
}

/// Takes `n` elements at an end of a block out, fewer than there are.
fn cut_block(nodes: &mut Nodes, slab: &mut Slab, node: Node, end: End, n: usize) {
    let block = node.block(slab);
    let run = block.run();
    let gone_run = match end {
        End::Head => &run[..block.offset(n)],
        End::Tail => &run[block.offset(block.count() - n)..],
    };
    let gone: Vec<Node> = if block.head.cells > 0 { cells(gone_run).collect() } else { Vec::new() };
    let bytes = gone_run.len();
    node.block_mut(slab).cut(end, bytes, n, gone.len());
    gone.into_iter().for_each(|cell| nodes.discard(slab, cell));
}

/// A block in the place of this one that may be changed and has room for so many bytes more; the caller links it. `None`: it would be too large.
fn with_room(nodes: &mut Nodes, slab: &mut Slab, node: Node, bytes: usize) -> Result<Option<Node>, AllocError> {
    let block = node.block(slab);
    if block.free() >= bytes {
        return nodes.own(slab, node).map(Some);
    }
    let needed = block.used() + bytes;
    if needed > nodes.room {
        return Ok(None);
    }
    let larger = nodes.resized(slab, node, (needed * 3 / 2).min(nodes.room), 0)?;
    nodes.discard(slab, node);
    Ok(Some(larger))
}

/// Puts a piece in front of entry `index` of a block, or behind all; there is room for it.
fn put(slab: &mut Slab, block: Node, index: usize, piece: Piece<'_>) {
    let offset = block.block(slab).offset(index);
    block.block_mut(slab).insert(offset, piece);
}

/// Puts a piece in front of element `index` of the tree.
fn insert(
    tree: &mut Tree,
    nodes: &mut Nodes,
    slab: &mut Slab,
    index: usize,
    piece: Piece<'_>,
) -> Result<(), AllocError> {
    let bytes = piece.bytes();
    loop {
        let (mut path, at) = tree.path(nodes, slab, index)?;
        let node = path.block(slab);
        if let Some(block) = with_room(nodes, slab, node, bytes)? {
            path.set_block(slab, block);
            put(slab, block, at, piece);
            let count = block.block(slab).count();
            tree.set_count(slab, &path, count);
            return Ok(());
        }
        if at > 0 {
            split(tree, nodes, slab, &path, at, bytes)?;
            continue;
        }
        // In front of a full block: at the end of the one before it, or in one of its own.
        if let Some(before) = path.sibling(slab, End::Head)
            && before.block(slab).free() >= bytes
        {
            path.go_beside(End::Head);
            let block = nodes.own(slab, before)?;
            path.set_block(slab, block);
            let count = block.block(slab).count();
            put(slab, block, count, piece);
            tree.set_count(slab, &path, count + 1);
            return Ok(());
        }
        let fresh = nodes.block(slab, bytes.max(super::ROOM_MIN.min(nodes.room)), false)?;
        put(slab, fresh, 0, piece);
        return tree.insert(nodes, slab, &path, End::Head, fresh).inspect_err(|_| nodes.discard(slab, fresh));
    }
}

/// Parts a block in two, so that what is to go in front of entry `at` (not the first) finds room or a boundary.
fn split(
    tree: &mut Tree,
    nodes: &mut Nodes,
    slab: &mut Slab,
    path: &Path,
    at: usize,
    bytes: usize,
) -> Result<(), AllocError> {
    let node = nodes.own(slab, path.block(slab))?;
    path.set_block(slab, node);
    let block = node.block(slab);
    let count = block.count();
    // What is large gets a block of its own, at the very place.
    let (index, offset) = Some(block.middle())
        .filter(|&(middle, _)| bytes <= nodes.room / 4 && 0 < middle && middle < count)
        .unwrap_or_else(|| (at, block.offset(at)));
    let run = block.run()[offset..].to_vec();
    let moved = count - index;
    let moved_cells = if block.head.cells > 0 { cells(&run).count() } else { 0 };
    let room = (run.len() * 3 / 2).min(nodes.room).max(run.len());
    let right = nodes.block(slab, room, false)?;
    right.block_mut(slab).put_run(End::Tail, &run, moved, moved_cells);
    node.block_mut(slab).cut(End::Tail, run.len(), moved, moved_cells);
    tree.set_count(slab, path, index);
    tree.insert(nodes, slab, path, End::Tail, right).inspect_err(|_| {
        node.block_mut(slab).put_run(End::Tail, &run, moved, moved_cells);
        tree.set_count(slab, path, count);
        nodes.discard(slab, right);
    })
}

/// Merges the block of a path with a neighbour when it has become sparse, or makes it smaller. Without memory it stays as it is.
fn settle(tree: &mut Tree, nodes: &mut Nodes, slab: &mut Slab, path: Path) {
    let node = path.block(slab);
    let block = node.block(slab);
    let (used, room) = (block.used(), block.room.len());
    if used < nodes.room / 4 {
        for side in [End::Tail, End::Head] {
            let Some(other) = path.sibling(slab, side) else { continue };
            let merged = used + other.block(slab).used();
            if merged > nodes.room / 4 * 3 {
                continue;
            }
            let mut target = node;
            if room < merged {
                let Ok(larger) = nodes.resized(slab, node, merged, 0) else { return };
                nodes.discard(slab, node);
                path.set_block(slab, larger);
                target = larger;
            }
            let (run, count, cells) = {
                let other = other.block(slab);
                (other.run().to_vec(), other.count(), usize::from(other.head.cells))
            };
            target.block_mut(slab).put_run(side, &run, count, cells);
            let count = target.block(slab).count();
            tree.set_count(slab, &path, count);
            tree.remove_sibling(nodes, slab, path, side);
            nodes.discard(slab, other);
            return;
        }
    }
    if used < room / 8 * 3
        && let wanted = super::node::room_for(used * 5 / 4)
        && wanted < room / 2
        && let Ok(smaller) = nodes.resized(slab, node, wanted, 0)
    {
        path.set_block(slab, smaller);
        nodes.discard(slab, node);
    }
    tree.tidy(nodes, slab, &path);
}
