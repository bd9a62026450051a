//! The open views of a sorted set, and the memory of its nodes and elements: what is allocated, what views still see, what is freed. Owns the
//! count of bytes; knows the tree only to look whether a view sees an element.
//!
//! Nodes carry stamps (`base::epochs`). Elements carry none: whether a view sees one is found by looking for it in the view's tree,
//! which happens only while views are open, and which is exact: an element that came after a view and goes again keeps no memory.
//!
//! # Invariants
//! `opened` is in the order in which they were opened. Nothing that is reachable from the root of one of them is changed or freed.

use super::memory::{self, element, head};
use super::tree::Tree;
use crate::base::epochs::{Epoch, Epochs};
use dolmen_slab::{AllocError, Handle, Slab};

struct Opened {
    id: u64,
    /// `None`: it is lost, and waits to be closed.
    epoch: Option<Epoch>,
    /// A stamp that this view sees, and no older one does.
    stamp: u32,
    tree: Tree,
}

pub(super) struct Versions {
    epochs: Epochs,
    opened: Vec<Opened>,
    /// Of the next view.
    next_id: u64,
    /// Bytes of the nodes and elements in use: those of the set as it is now.
    bytes: u64,
    /// What closed views kept is to be looked at.
    has_work: bool,
}

impl Versions {
    pub(super) fn new() -> Versions {
        Versions { epochs: Epochs::default(), opened: Vec::new(), next_id: 1, bytes: 0, has_work: false }
    }

    /// Bytes in the slab of what is in use and what is kept.
    pub(super) fn slab_bytes(&self) -> u64 {
        self.bytes + self.epochs.kept_bytes()
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.epochs.kept_bytes()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.epochs.heap_bytes() + self.opened.capacity() * size_of::<Opened>()
    }

    /// Views are open that see something.
    #[inline(always)]
    pub(super) fn is_viewed(&self) -> bool {
        self.epochs.is_viewed()
    }

    pub(super) fn has_work(&self) -> bool {
        self.has_work
    }

    /// Opens a view of this tree; its id.
    pub(super) fn open(&mut self, tree: Tree) -> u64 {
        let stamp = self.epochs.stamp();
        let (id, epoch) = (self.next_id, self.epochs.open());
        self.next_id += 1;
        self.opened.push(Opened { id, epoch: Some(epoch), stamp, tree });
        id
    }

    /// Views were opened that are not closed yet, be they lost.
    pub(super) fn has_opened(&self) -> bool {
        !self.opened.is_empty()
    }

    /// The view can be read no more.
    pub(super) fn is_lost(&self, id: u64) -> bool {
        !self.opened.iter().any(|opened| opened.id == id && opened.epoch.is_some())
    }

    pub(super) fn close(&mut self, id: u64) {
        let index = self.opened.iter().position(|opened| opened.id == id).expect("the view is open");
        if let Some(epoch) = self.opened.remove(index).epoch {
            self.epochs.close(epoch);
            self.has_work = true;
        }
        if self.opened.is_empty() {
            self.opened = Vec::new();
        }
    }

    /// There is no memory to keep what views see: they end, so that the change can be made in place.
    #[cold]
    fn lose_all(&mut self) {
        for epoch in self.opened.iter_mut().filter_map(|opened| opened.epoch.take()) {
            self.epochs.close(epoch);
        }
        self.has_work = true;
    }

    fn count(&mut self, slab: &Slab, h: Handle) -> Handle {
        self.bytes += memory::bytes_of(slab, h);
        h
    }

    pub(super) fn new_leaf(&mut self, slab: &mut Slab, capacity: usize) -> Result<Handle, AllocError> {
        let leaf = memory::new_leaf(slab, capacity, self.epochs.stamp())?;
        Ok(self.count(slab, leaf))
    }

    pub(super) fn new_inner(&mut self, slab: &mut Slab, capacity: usize) -> Result<Handle, AllocError> {
        let inner = memory::new_inner(slab, capacity, self.epochs.stamp())?;
        Ok(self.count(slab, inner))
    }

    pub(super) fn new_element(
        &mut self,
        slab: &mut Slab,
        score: f64,
        member: &[u8],
        hash: u64,
    ) -> Result<Handle, AllocError> {
        let h = memory::new_element(slab, score, member, hash)?;
        Ok(self.count(slab, h))
    }

    pub(super) fn with_score(
        &mut self,
        slab: &mut Slab,
        h: Handle,
        score: f64,
        member: &[u8],
    ) -> Result<Handle, AllocError> {
        let h = memory::with_score(slab, h, score, member)?;
        Ok(self.count(slab, h))
    }

    /// Does a view see this node?
    #[inline(always)]
    pub(super) fn must_copy(&self, slab: &Slab, node: Handle) -> bool {
        self.epochs.must_copy(head(slab, node).stamp)
    }

    /// The node to be changed instead of this one, which is out of use then; the same if no view sees it.
    pub(super) fn own(&mut self, slab: &mut Slab, node: Handle) -> Handle {
        if !self.must_copy(slab, node) {
            return node;
        }
        let Ok(copy) = memory::copy_node(slab, node, self.epochs.stamp()) else {
            self.lose_all();
            return node;
        };
        self.count(slab, copy);
        self.drop_node(slab, node);
        copy
    }

    /// A node that is out of use.
    pub(super) fn drop_node(&mut self, slab: &mut Slab, node: Handle) {
        self.drop_stamped(slab, node, Some(head(slab, node).stamp));
    }

    /// An element that is out of use: it left the tree before.
    pub(super) fn drop_element(&mut self, slab: &mut Slab, h: Handle) {
        let stamp = if self.is_viewed() { self.oldest_sight(slab, h) } else { None };
        self.drop_stamped(slab, h, stamp);
    }

    fn drop_stamped(&mut self, slab: &mut Slab, h: Handle, stamp: Option<u32>) {
        let bytes = memory::bytes_of(slab, h);
        self.bytes -= bytes;
        let kept = u32::try_from(bytes).unwrap_or(u32::MAX);
        if !stamp.is_some_and(|stamp| self.epochs.defer(stamp, h, kept)) {
            memory::free(slab, h);
        }
    }

    /// The stamp of an element: that of the oldest view that sees it, if one does. Views that see an element follow each other, up to the newest:
    /// it left just now.
    #[cold]
    fn oldest_sight(&self, slab: &Slab, h: Handle) -> Option<u32> {
        let element = element(slab, h);
        let (key, member) = (element.key(), element.member());
        let open = self.opened.iter().rev().filter(|opened| opened.epoch.is_some());
        let seeing = open.take_while(|opened| opened.tree.locate(slab, h, key, member).is_some());
        seeing.last().map(|opened| opened.stamp)
    }

    /// Frees what no view sees any more, of `budget` nodes and elements at most; true if there is more.
    pub(super) fn release(&mut self, slab: &mut Slab, budget: &mut usize) -> bool {
        if !self.has_work {
            return false;
        }
        while let Some(deferred) = self.epochs.next_free(budget) {
            memory::free(slab, deferred.handle);
        }
        self.has_work = *budget == 0;
        self.has_work
    }

    /// Of a set that is torn down: no views are open.
    pub(super) fn free(&mut self, slab: &mut Slab, h: Handle) {
        self.bytes -= memory::free(slab, h);
    }
}
