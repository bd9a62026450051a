//! The counted B+tree of a sorted set, read: where an element is, how many are before it, which one is at a rank, and walking from there.
//! Changes nothing.
//!
//! ```text
//!             root             inner nodes: for each child its first element, that one's key, and the number of elements
//!           /  |   \
//!        leaf leaf leaf        no links between leaves: a node that a view sees is copied when it changes, and with it only its ancestors
//! ```
//! A search goes by keys (of scores) alone as long as they differ, so it reads inner nodes and one leaf. The inner nodes of a million
//! elements take 230 KB.

use super::memory::{self, Inner, Leaf, Member, element, inner, leaf};
use dolmen_slab::{Handle, Slab};
use std::cmp::Ordering;

/// More levels of inner nodes than there can be. A node that cannot be merged has at least 13 children with its neighbour, and a leaf 32
/// elements: 11 levels of them hold more elements than there are handles.
pub(super) const HEIGHT_MAX: usize = 12;
/// Elements fetched ahead by a walk.
const AHEAD: usize = 8;

/// A tree as it is at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    /// Null: no elements.
    pub root: Handle,
    /// Levels of inner nodes.
    pub height: usize,
    /// Number of elements.
    pub len: usize,
}

/// A place between elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Probe<'a> {
    /// Before the first element of this key.
    Before(u64),
    /// After the last one.
    After(u64),
    /// Where the element of this key and member is, or would be.
    At(u64, Member<'a>),
    /// Before the first element whose member is not less, whatever the scores: they should be equal.
    LexBefore(Member<'a>),
    /// After the last element whose member is not greater.
    LexAfter(Member<'a>),
}

impl Probe<'_> {
    /// How an element (whose key is known) lies to this place: `Less` is before it. `Equal` is said by `At` only.
    #[inline]
    fn order(&self, slab: &Slab, key: u64, h: Handle) -> Ordering {
        match *self {
            Probe::Before(at) => {
                if key < at {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            Probe::After(at) => {
                if key <= at {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            Probe::At(at, member) => key.cmp(&at).then_with(|| element(slab, h).member().compare(slab, member)),
            Probe::LexBefore(member) => {
                if element(slab, h).member().compare(slab, member).is_lt() {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            Probe::LexAfter(member) => {
                if element(slab, h).member().compare(slab, member).is_le() {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }

    /// Its key, if scores matter.
    #[inline]
    fn key(&self) -> Option<u64> {
        match *self {
            Probe::Before(key) | Probe::After(key) | Probe::At(key, _) => Some(key),
            Probe::LexBefore(_) | Probe::LexAfter(_) => None,
        }
    }

    /// Elements of a leaf that are before it.
    fn in_leaf(&self, slab: &Slab, leaf: Leaf<'_>) -> usize {
        let (from, to) = match self.key() {
            Some(key) => leaf.range(key),
            None => (0, leaf.elements.len()),
        };
        from + leaf.elements[from..to].partition_point(|&h| self.order(slab, element(slab, h).key(), h).is_lt())
    }

    /// The child of an inner node that it leads to: the last whose first element is not behind it.
    fn in_inner(&self, slab: &Slab, inner: Inner<'_>) -> usize {
        let (from, to) = match self.key() {
            Some(key) => equal_range(inner.keys, key),
            None => (0, inner.keys.len()),
        };
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.order(slab, inner.keys[middle], inner.firsts[middle]).is_le() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.saturating_sub(1)
    }
}

/// Where the numbers that are equal to one begin and end, in ascending order.
#[inline]
fn equal_range<T: Copy + Ord>(sorted: &[T], value: T) -> (usize, usize) {
    let from = sorted.partition_point(|&other| other < value);
    // Mostly there is none, or one.
    let mut to = from;
    if sorted.get(to) == Some(&value) {
        to += 1;
        if sorted.get(to) == Some(&value) {
            to += sorted[to..].partition_point(|&other| other == value);
        }
    }
    (from, to)
}

impl Leaf<'_> {
    /// The code of a key, if the leaf has one for it.
    #[inline]
    pub(super) fn code(&self, key: u64) -> Option<u32> {
        u32::try_from(key.checked_sub(self.head.base)? >> self.head.shift).ok()
    }

    /// The elements that may have this key: from, to.
    #[inline]
    fn range(&self, key: u64) -> (usize, usize) {
        let count = self.codes.len();
        let Some(code) = self.code(key) else {
            return if key < self.head.base { (0, 0) } else { (count, count) };
        };
        equal_range(self.codes, code)
    }
}

/// The way to a place in a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// From the root: inner nodes, and which child was taken.
    pub inner: [(Handle, u32); HEIGHT_MAX],
    pub height: usize,
    pub leaf: Handle,
    /// Elements of the leaf before the place.
    pub index: usize,
}

impl Path {
    fn new(tree: Tree) -> Path {
        Path { inner: [(Handle::NULL, 0); HEIGHT_MAX], height: tree.height, leaf: tree.root, index: 0 }
    }

    /// The node of a level: 0 is the root, `height` the leaf.
    pub(super) fn node(&self, level: usize) -> Handle {
        if level == self.height { self.leaf } else { self.inner[level].0 }
    }

    pub(super) fn set_node(&mut self, level: usize, node: Handle) {
        if level == self.height {
            self.leaf = node;
        } else {
            self.inner[level].0 = node;
        }
    }

    /// The child taken at an inner level.
    pub(super) fn at(&self, level: usize) -> usize {
        self.inner[level].1 as usize
    }

    fn step(&mut self, level: usize, node: Handle, at: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "at most INNER_MAX")]
        {
            self.inner[level] = (node, at as u32);
        }
    }

    /// Goes on to the first element of the next leaf; there must be one.
    fn next_leaf(&mut self, slab: &Slab) {
        let mut level = self.height;
        loop {
            level = level.checked_sub(1).expect("a walk ends before the elements do");
            let (node, at) = (self.node(level), self.at(level) + 1);
            if at < inner(slab, node).children.len() {
                self.step(level, node, at);
                break;
            }
        }
        while level < self.height {
            let child = inner(slab, self.node(level)).children[self.at(level)];
            level += 1;
            self.set_node(level, child);
            if level < self.height {
                self.step(level, child, 0);
            }
        }
        self.index = 0;
    }

    /// Goes back to the last element of the leaf before; there must be one.
    fn previous_leaf(&mut self, slab: &Slab) {
        let mut level = self.height;
        loop {
            level = level.checked_sub(1).expect("a walk ends before the elements do");
            let (node, at) = (self.node(level), self.at(level));
            if at > 0 {
                self.step(level, node, at - 1);
                break;
            }
        }
        while level < self.height {
            let child = inner(slab, self.node(level)).children[self.at(level)];
            level += 1;
            self.set_node(level, child);
            if level < self.height {
                self.step(level, child, inner(slab, child).children.len() - 1);
            }
        }
        self.index = leaf(slab, self.leaf).elements.len() - 1;
    }
}

impl Tree {
    pub(super) const EMPTY: Tree = Tree { root: Handle::NULL, height: 0, len: 0 };

    /// The way to a place.
    pub(super) fn find(self, slab: &Slab, probe: Probe<'_>) -> Path {
        let mut path = Path::new(self);
        if self.root.is_null() {
            return path;
        }
        for level in 0..self.height {
            let node = path.leaf;
            let inner = inner(slab, node);
            let at = probe.in_inner(slab, inner);
            path.step(level, node, at);
            path.leaf = inner.children[at];
        }
        path.index = probe.in_leaf(slab, leaf(slab, path.leaf));
        path
    }

    /// The way to an element that is there.
    pub(super) fn locate(self, slab: &Slab, h: Handle, key: u64, member: Member<'_>) -> Option<Path> {
        if self.root.is_null() {
            return None;
        }
        let mut path = Path::new(self);
        for level in 0..self.height {
            let node = path.leaf;
            let inner = inner(slab, node);
            let at = Probe::At(key, member).in_inner(slab, inner);
            path.step(level, node, at);
            path.leaf = inner.children[at];
        }
        let leaf = leaf(slab, path.leaf);
        let (from, to) = leaf.range(key);
        // By its handle: the elements need not be read.
        path.index = from + leaf.elements[from..to].iter().position(|&other| other == h)?;
        Some(path)
    }

    /// Number of elements before a place.
    pub(super) fn rank(self, slab: &Slab, probe: Probe<'_>) -> usize {
        if self.root.is_null() {
            return 0;
        }
        let (mut node, mut rank) = (self.root, 0);
        for _ in 0..self.height {
            let inner = inner(slab, node);
            let at = probe.in_inner(slab, inner);
            rank += inner.counts[..at].iter().map(|&count| count as usize).sum::<usize>();
            node = inner.children[at];
        }
        rank + probe.in_leaf(slab, leaf(slab, node))
    }

    /// The way to the element that has `rank` before it; `rank` is below `len`.
    pub(super) fn at_rank(self, slab: &Slab, mut rank: usize) -> Path {
        debug_assert!(rank < self.len);
        let mut path = Path::new(self);
        for level in 0..self.height {
            let node = path.leaf;
            let inner = inner(slab, node);
            let mut at = 0;
            while at + 1 < inner.counts.len() && rank >= inner.counts[at] as usize {
                rank -= inner.counts[at] as usize;
                at += 1;
            }
            path.step(level, node, at);
            path.leaf = inner.children[at];
        }
        path.index = rank;
        path
    }
}

/// A walk over elements in order, or in the reverse of it. The tree must not change meanwhile, or be seen by a view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    path: Path,
    /// Elements still to come.
    pub left: usize,
    reverse: bool,
}

impl Cursor {
    /// At most `count` elements, after `skip` of them from the end where it begins.
    pub(super) fn new(slab: &Slab, tree: Tree, skip: usize, count: usize, reverse: bool) -> Cursor {
        let left = count.min(tree.len.saturating_sub(skip));
        if left == 0 {
            return Cursor { path: Path::new(Tree::EMPTY), left, reverse };
        }
        let rank = if reverse { tree.len - 1 - skip } else { skip };
        let cursor = Cursor { path: tree.at_rank(slab, rank), left, reverse };
        cursor.fetch(slab, AHEAD.min(left));
        cursor
    }

    /// Asks for the next few elements of this leaf.
    fn fetch(&self, slab: &Slab, n: usize) {
        let (elements, index) = (leaf(slab, self.path.leaf).elements, self.path.index);
        if self.reverse {
            elements[..=index].iter().rev().take(n).for_each(|&h| slab.prefetch(h));
        } else {
            elements[index..].iter().take(n).for_each(|&h| slab.prefetch(h));
        }
    }

    #[inline]
    pub(super) fn next(&mut self, slab: &Slab) -> Option<Handle> {
        self.left = self.left.checked_sub(1)?;
        let (elements, index) = (leaf(slab, self.path.leaf).elements, self.path.index);
        let h = elements[index];
        if self.left > 0 {
            self.advance(slab, elements);
        }
        Some(h)
    }

    #[inline]
    fn advance(&mut self, slab: &Slab, elements: &[Handle]) {
        let index = self.path.index;
        let ahead = if self.reverse { index.checked_sub(AHEAD) } else { Some(index + AHEAD) };
        if let Some(&next) = ahead.and_then(|ahead| elements.get(ahead)) {
            slab.prefetch(next);
        }
        match (self.reverse, index) {
            (true, 0) => self.path.previous_leaf(slab),
            (true, _) => self.path.index -= 1,
            (false, _) if index + 1 < elements.len() => self.path.index += 1,
            (false, _) => self.path.next_leaf(slab),
        }
        if self.path.index == 0 && !self.reverse || self.reverse && self.path.index + 1 == self.leaf_len(slab) {
            self.fetch(slab, AHEAD.min(self.left));
        }
    }

    fn leaf_len(&self, slab: &Slab) -> usize {
        memory::head(slab, self.path.leaf).count()
    }
}
