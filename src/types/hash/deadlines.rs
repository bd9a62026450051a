//! The elements of a big hash that have deadlines, the earliest first: a heap of four children a node, in pages of the slab. Each element holds
//! its place, so that one that leaves, or whose deadline changes, needs no search, and nothing stale stays behind. Owns the order; knows of an
//! element its place only.
//!
//! ```text
//!  page of n nodes      ┌──────────────────┬─────────────────┐      node i: page i / 1024, children 4 i + 1 ..= 4 i + 4
//!                       │ deadlines, 6 n   │ handles, 4 n    │
//!                       └──────────────────┴─────────────────┘
//! ```
//! A page has 1,024 nodes; while it is the only one it has as few as are needed, in powers of two. A field with a deadline takes 10 bytes here,
//! and 10 in its element.
//!
//! # Invariants
//! No node is later than its children. The element of node `i` holds `i`, and the deadline that the node has.

use super::element;
use super::memory;
use dolmen_slab::{AllocError, Handle, Slab, Slice};

const FAN: usize = 4;
const PAGE_NODES: usize = 1024;
const PAGE_NODES_MIN: usize = 4;
const DEADLINE_BYTES: usize = 6;
const NODE_BYTES: usize = DEADLINE_BYTES + 4;

#[derive(Default)]
pub(super) struct Deadlines {
    len: usize,
    /// All have `PAGE_NODES` nodes, but for one that is alone.
    pages: Vec<Handle>,
    /// Of each page.
    page_nodes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub deadline_ms: u64,
    pub handle: Handle,
}

impl Deadlines {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory in the slab.
    pub fn slab_bytes(&self) -> u64 {
        if self.pages.is_empty() {
            return 0;
        }
        (self.pages.len() * Slab::class_bytes(self.page_nodes * NODE_BYTES)) as u64
    }

    pub fn heap_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Handle>()
    }

    /// The element whose deadline comes first.
    #[inline]
    pub fn first(&self, slab: &Slab) -> Option<Node> {
        (self.len > 0).then(|| self.get(slab, 0))
    }

    fn get(&self, slab: &Slab, index: usize) -> Node {
        let page = memory::bytes(slab, self.pages[index / PAGE_NODES], self.page_nodes * NODE_BYTES);
        let (deadlines, handles) = page.split_at(self.page_nodes * DEADLINE_BYTES);
        let at = index % PAGE_NODES;
        let mut word = [0; 8];
        word[..DEADLINE_BYTES].copy_from_slice(&deadlines[at * DEADLINE_BYTES..][..DEADLINE_BYTES]);
        let handle = &handles[at * 4..][..4];
        Node {
            deadline_ms: u64::from_le_bytes(word),
            handle: Handle::from_bits(u32::from_le_bytes([handle[0], handle[1], handle[2], handle[3]])),
        }
    }

    /// Writes a node, and its place into its element.
    fn set(&self, slab: &mut Slab, index: usize, node: Node) {
        let page = memory::bytes_mut(slab, self.pages[index / PAGE_NODES], self.page_nodes * NODE_BYTES);
        let (deadlines, handles) = page.split_at_mut(self.page_nodes * DEADLINE_BYTES);
        let at = index % PAGE_NODES;
        deadlines[at * DEADLINE_BYTES..][..DEADLINE_BYTES]
            .copy_from_slice(&node.deadline_ms.to_le_bytes()[..DEADLINE_BYTES]);
        handles[at * 4..][..4].copy_from_slice(&node.handle.bits().to_le_bytes());
        let place = u32::try_from(index).expect("an element has a handle, of which there are fewer than 2^32");
        element::set_place(slab, node.handle, place);
    }

    /// Adds an element, which is timed.
    ///
    /// # Errors
    /// The slab is full; nothing has changed.
    pub fn insert(&mut self, slab: &mut Slab, node: Node) -> Result<(), AllocError> {
        if self.len == self.pages.len() * self.page_nodes {
            self.grow(slab)?;
        }
        self.len += 1;
        self.rise(slab, self.len - 1, node);
        Ok(())
    }

    /// Takes out the element at a place.
    pub fn remove(&mut self, slab: &mut Slab, place: u32) {
        let index = place as usize;
        self.len -= 1;
        if index < self.len {
            let last = self.get(slab, self.len);
            self.put(slab, index, last);
        }
        self.shrink(slab);
    }

    /// Puts another element, or the same with another deadline, in the place of one.
    pub fn replace(&mut self, slab: &mut Slab, place: u32, node: Node) {
        debug_assert!((place as usize) < self.len);
        self.put(slab, place as usize, node);
    }

    /// Puts a node where there is room for one, or above or below it.
    fn put(&mut self, slab: &mut Slab, index: usize, node: Node) {
        if index > 0 && self.get(slab, (index - 1) / FAN).deadline_ms > node.deadline_ms {
            self.rise(slab, index, node);
        } else {
            self.sink(slab, index, node);
        }
    }

    fn rise(&mut self, slab: &mut Slab, mut index: usize, node: Node) {
        while index > 0 {
            let above = (index - 1) / FAN;
            let parent = self.get(slab, above);
            if parent.deadline_ms <= node.deadline_ms {
                break;
            }
            self.set(slab, index, parent);
            index = above;
        }
        self.set(slab, index, node);
    }

    fn sink(&mut self, slab: &mut Slab, mut index: usize, node: Node) {
        loop {
            let children = (FAN * index + 1).min(self.len)..(FAN * index + FAN + 1).min(self.len);
            let least = children.map(|child| (child, self.get(slab, child))).min_by_key(|(_, child)| child.deadline_ms);
            let Some((child, least)) = least.filter(|(_, least)| least.deadline_ms < node.deadline_ms) else { break };
            self.set(slab, index, least);
            index = child;
        }
        self.set(slab, index, node);
    }

    #[cold]
    fn grow(&mut self, slab: &mut Slab) -> Result<(), AllocError> {
        if self.pages.len() == 1 && self.page_nodes < PAGE_NODES {
            return self.resize(slab, 2 * self.page_nodes);
        }
        let nodes = if self.pages.is_empty() { PAGE_NODES_MIN } else { PAGE_NODES };
        let page = memory::alloc(slab, nodes * NODE_BYTES)?;
        self.page_nodes = nodes;
        self.pages.push(page);
        Ok(())
    }

    /// Gives the only page another size.
    fn resize(&mut self, slab: &mut Slab, nodes: usize) -> Result<(), AllocError> {
        let old = Deadlines { len: self.len, pages: self.pages.clone(), page_nodes: self.page_nodes };
        self.pages[0] = memory::alloc(slab, nodes * NODE_BYTES)?;
        self.page_nodes = nodes;
        for index in 0..self.len {
            let node = old.get(slab, index);
            self.set(slab, index, node);
        }
        memory::free(slab, old.pages[0], old.page_nodes * NODE_BYTES);
        Ok(())
    }

    fn shrink(&mut self, slab: &mut Slab) {
        if self.len == 0 {
            while let Some(page) = self.pages.pop() {
                memory::free(slab, page, self.page_nodes * NODE_BYTES);
            }
            *self = Deadlines::default();
        } else if self.pages.len() == 1 {
            if self.page_nodes > PAGE_NODES_MIN && self.len <= self.page_nodes / 4 {
                // Without memory for a smaller one the page stays as it is.
                let _ = self.resize(slab, self.page_nodes / 2);
            }
        } else if self.len + PAGE_NODES + PAGE_NODES / 2 <= self.pages.len() * PAGE_NODES
            && let Some(page) = self.pages.pop()
        {
            memory::free(slab, page, PAGE_NODES * NODE_BYTES);
        }
    }

    /// Offers the pages from `page` on to a sweep. `None`: those were the last, else where to go on.
    pub fn relocate(&mut self, slab: &mut Slab, page: u64, slice: &mut Slice) -> Option<u64> {
        let first = usize::try_from(page).ok()?;
        for (index, page) in self.pages.iter_mut().enumerate().skip(first) {
            if slice.is_used_up() {
                return Some(index as u64);
            }
            if let Some(moved) = memory::offer(slab, slice, *page) {
                *page = moved;
            }
        }
        None
    }

    /// Frees the pages, about `budget` nodes of them; true: there is more. The elements may be gone already.
    pub fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        // A page is freed whatever is in it.
        for _ in 0..budget.div_ceil(PAGE_NODES / 16) {
            let Some(page) = self.pages.pop() else { break };
            memory::free(slab, page, self.page_nodes * NODE_BYTES);
        }
        self.len = 0;
        !self.pages.is_empty()
    }

    /// Checks all of it: the order, and the elements' places.
    #[cfg(test)]
    pub fn verify(&self, slab: &Slab) {
        for index in 0..self.len {
            let node = self.get(slab, index);
            let element = element::Element::at(slab, node.handle);
            assert_eq!((element.place() as usize, element.deadline_ms()), (index, node.deadline_ms));
            assert!(index == 0 || self.get(slab, (index - 1) / FAN).deadline_ms <= node.deadline_ms);
        }
        assert!(self.len <= self.pages.len() * self.page_nodes);
    }
}
