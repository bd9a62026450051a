//! The nodes of a list as memory that views may still see: making, copying before a change, and freeing in slices. Owns the account of
//! bytes; knows nothing of the order of elements.

use super::block::{End, cells};
use super::node::{self, FAN, Form, Node, ROOM_MAX};
use crate::base::epochs::Epochs;
use dolmen_slab::{AllocError, Slab};

/// What freeing a node counts as, in elements: about as much memory is touched.
const NODE_WORK: usize = 8;

/// The nodes of one list.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) epochs: Epochs,
    /// Of all nodes and blobs in the slab, with those that only views see.
    bytes: u64,
    /// Roots of what was cut off, not looked at yet.
    doomed: Vec<Node>,
    /// Which slab the nodes are of: its region, 0 before the first.
    region: usize,
    /// Room of a full block, in bytes.
    pub(super) room: usize,
    /// Kids of an inner node at most.
    pub(super) fan: usize,
}

impl Nodes {
    /// Tests have small blocks and nodes, so that trees are high.
    pub(super) fn new(room: usize, fan: usize) -> Nodes {
        assert!(room <= ROOM_MAX && fan <= FAN);
        Nodes { epochs: Epochs::default(), bytes: 0, doomed: Vec::new(), region: 0, room, fan }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.doomed.capacity() * size_of::<Node>() + self.epochs.heap_bytes()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.doomed.is_empty() || self.epochs.has_free()
    }

    /// Asked by every operation from outside: handles of one slab must meet no other.
    #[inline(always)]
    pub(super) fn check(&self, slab: &Slab) {
        assert!(self.region == node::region(slab) || self.region == 0, "a list lives in one slab");
    }

    fn added(&mut self, slab: &Slab, made: Result<Node, AllocError>) -> Result<Node, AllocError> {
        self.check(slab);
        self.region = node::region(slab);
        if let Ok(node) = made {
            self.bytes += node.bytes(slab) as u64;
        }
        made
    }

    /// An empty block of at least `room` bytes; its entries begin at the front of the room, or (`at_back`) grow downwards from its end.
    pub(super) fn block(&mut self, slab: &mut Slab, room: usize, at_back: bool) -> Result<Node, AllocError> {
        let room = node::room_for(room);
        let made = node::new_block(slab, self.epochs.stamp(), room, if at_back { room } else { 0 });
        self.added(slab, made)
    }

    pub(super) fn inner(&mut self, slab: &mut Slab, level: u8) -> Result<Node, AllocError> {
        let made = node::new_inner(slab, self.epochs.stamp(), level);
        self.added(slab, made)
    }

    /// A blob of these bytes in a cell.
    pub(super) fn cell(&mut self, slab: &mut Slab, bytes: &[u8]) -> Result<Node, AllocError> {
        let blob = slab.blob_new(bytes.len())?;
        let made = match slab.blob_append(blob, bytes) {
            Ok(()) => node::new_cell(slab, self.epochs.stamp(), blob),
            Err(e) => Err(e),
        };
        match made {
            Ok(_) => self.bytes += slab.blob_bytes(blob),
            Err(_) => slab.blob_release(blob),
        }
        self.added(slab, made)
    }

    /// A node that may be changed: itself, or a copy in its place, which the caller links.
    #[inline(always)]
    pub(super) fn own(&mut self, slab: &mut Slab, node: Node) -> Result<Node, AllocError> {
        if !self.epochs.must_copy(node.stamp(slab)) {
            return Ok(node);
        }
        self.own_slow(slab, node)
    }

    #[cold]
    fn own_slow(&mut self, slab: &mut Slab, node: Node) -> Result<Node, AllocError> {
        let copy = if node.form(slab) == Form::Block {
            let room = node.block(slab).room.len();
            self.resized(slab, node, room, usize::from(node.block(slab).head.start))?
        } else {
            let level = node.inner(slab).level;
            let copy = self.inner(slab, level)?;
            let (kids, counts, nodes) = {
                let old = node.inner(slab);
                (old.kids, old.counts, old.nodes)
            };
            let new = copy.inner_mut(slab);
            (new.kids, new.counts, new.nodes) = (kids, counts, nodes);
            copy
        };
        self.discard(slab, node);
        Ok(copy)
    }

    /// A copy of a block with another room, its entries beginning at `start`. The old one is still to be discarded.
    pub(super) fn resized(
        &mut self,
        slab: &mut Slab,
        node: Node,
        room: usize,
        start: usize,
    ) -> Result<Node, AllocError> {
        let copy = self.block(slab, room, false)?;
        let old = node.block(slab);
        let (run, count, cells) = (old.run().to_vec(), old.count(), usize::from(old.head.cells));
        let mut new = copy.block_mut(slab);
        new.slide(start.min(new.room.len() - run.len()));
        new.put_run(End::Tail, &run, count, cells);
        Ok(copy)
    }

    /// Frees a node that the list does not use any more, or leaves it to the views that see it. What it names is not touched.
    #[inline]
    pub(super) fn discard(&mut self, slab: &mut Slab, node: Node) {
        let (stamp, bytes) = (node.stamp(slab), node.bytes(slab));
        // Only blocks, inner nodes and cells themselves are told: at most 16 KiB.
        if !self.epochs.defer(stamp, node.handle(), u32::try_from(bytes).unwrap_or(u32::MAX)) {
            self.free(slab, node);
        }
    }

    fn free(&mut self, slab: &mut Slab, node: Node) {
        self.bytes -= node.bytes(slab) as u64;
        if node.form(slab) == Form::Cell {
            let blob = node.blob(slab);
            self.bytes -= slab.blob_bytes(blob);
            slab.blob_release(blob);
        }
        node::free(slab, node);
    }

    /// Takes over a node with all that is below it, to be discarded by `work`.
    pub(super) fn doom(&mut self, node: Node) {
        if !node.is_none() {
            self.doomed.push(node);
        }
    }

    /// Discards about `budget` elements of what is doomed, and frees what no view sees any more. True: there is more.
    pub(super) fn work(&mut self, slab: &mut Slab, budget: usize) -> bool {
        let mut left = budget.max(1);
        while left > 0
            && let Some(node) = self.doomed.pop()
        {
            left = left.saturating_sub(NODE_WORK);
            match node.form(slab) {
                Form::Inner => {
                    let inner = node.inner(slab);
                    self.doomed.extend_from_slice(&inner.nodes[..usize::from(inner.kids)]);
                }
                Form::Block if node.block(slab).head.cells > 0 => {
                    left = left.saturating_sub(node.block(slab).count());
                    self.doomed.extend(cells(node.block(slab).run()));
                }
                Form::Block | Form::Cell => {}
            }
            self.discard(slab, node);
        }
        if self.doomed.is_empty() && self.doomed.capacity() > 0 {
            self.doomed = Vec::new();
        }
        let mut frees = left.div_ceil(NODE_WORK);
        while left > 0
            && let Some(gone) = self.epochs.next_free(&mut frees)
        {
            self.free(slab, Node::of(gone.handle));
        }
        self.has_work()
    }
}
