//! The blocks between the two ends: a tree that counts the elements below each kid. Owns the order of its blocks and their counts; what is in a
//! block is `super::block`'s, when one is split or merged `super::middle`'s.
//!
//! # Invariants
//! All blocks are at the same depth. No node is empty; the root of several levels has two kids at least. A kid's count is the number of elements
//! below it. Nodes become sparse before they are merged (a quarter), and edges split so that what is left behind is full.

use super::block::End;
use super::node::{FAN, Inner, Node};
use super::nodes::Nodes;
use dolmen_slab::{AllocError, Slab};

/// A root splits only when it is full, whose kids have become so by splits of full ones: a level takes 21 times as many insertions of blocks.
const LEVELS_MAX: usize = 16;

/// Place of a kid in its node.
#[derive(Clone, Copy)]
struct Step {
    node: Node,
    at: usize,
}

/// The way from the root to a block.
pub(super) struct Path {
    steps: [Step; LEVELS_MAX],
    depth: usize,
}

impl Path {
    fn steps(&self) -> &[Step] {
        &self.steps[..self.depth]
    }

    fn bottom(&self) -> Step {
        self.steps[self.depth - 1]
    }

    pub(super) fn block(&self, slab: &Slab) -> Node {
        let Step { node, at } = self.bottom();
        node.inner(slab).nodes[at]
    }

    pub(super) fn set_block(&self, slab: &mut Slab, block: Node) {
        let Step { node, at } = self.bottom();
        node.inner_mut(slab).nodes[at] = block;
    }

    /// The block beside it in the same node.
    pub(super) fn sibling(&self, slab: &Slab, end: End) -> Option<Node> {
        let Step { node, at } = self.bottom();
        let inner = node.inner(slab);
        match end {
            End::Head => at.checked_sub(1).map(|at| inner.nodes[at]),
            End::Tail => (at + 1 < inner.kids()).then(|| inner.nodes[at + 1]),
        }
    }

    /// Goes on to the block beside it.
    pub(super) fn go_beside(&mut self, end: End) {
        let step = &mut self.steps[self.depth - 1];
        match end {
            End::Head => step.at -= 1,
            End::Tail => step.at += 1,
        }
    }
}

impl Inner {
    #[inline(always)]
    fn kids(&self) -> usize {
        usize::from(self.kids)
    }

    /// The kid that has element `index`, and the element's index in it.
    #[inline]
    fn find(&self, mut index: usize) -> (usize, usize) {
        for (at, &count) in self.counts[..self.kids()].iter().enumerate() {
            if index < count {
                return (at, index);
            }
            index -= count;
        }
        panic!("an index beyond the counts");
    }

    fn total(&self) -> usize {
        self.counts[..self.kids()].iter().sum()
    }

    fn insert(&mut self, at: usize, node: Node, count: usize) {
        let kids = self.kids();
        self.nodes.copy_within(at..kids, at + 1);
        self.counts.copy_within(at..kids, at + 1);
        (self.nodes[at], self.counts[at]) = (node, count);
        self.kids += 1;
    }

    fn remove(&mut self, at: usize) {
        let kids = self.kids();
        self.nodes.copy_within(at + 1..kids, at);
        self.counts.copy_within(at + 1..kids, at);
        self.kids -= 1;
    }

    /// Takes the kids from `at` on out.
    fn split_off(&mut self, at: usize) -> Vec<(Node, usize)> {
        let kids = self.kids();
        let moved = self.nodes[at..kids].iter().copied().zip(self.counts[at..kids].iter().copied()).collect();
        self.set_kids(at);
        moved
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most FAN")]
    fn set_kids(&mut self, kids: usize) {
        debug_assert!(kids <= FAN);
        self.kids = kids as u16;
    }

    fn put(&mut self, at: usize, moved: &[(Node, usize)]) {
        for (i, &(node, count)) in moved.iter().enumerate() {
            self.insert(at + i, node, count);
        }
    }
}

/// Root and number of elements. A view has a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    root: Node,
    len: usize,
}

impl Tree {
    pub(super) const EMPTY: Tree = Tree { root: Node::NONE, len: 0 };

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The block of element `index`, and the element's index in it.
    pub(super) fn find(&self, slab: &Slab, mut index: usize) -> (Node, usize) {
        let mut node = self.root;
        loop {
            let inner = node.inner(slab);
            let (at, rest) = inner.find(index);
            (node, index) = (inner.nodes[at], rest);
            if inner.level == 1 {
                return (node, index);
            }
        }
    }

    /// The block of element `index`, and the element's index in it; offers each node on the way to `offer`, the block too, which says whether it has put
    /// another handle in its place.
    pub(super) fn relocate_way(
        &mut self,
        slab: &mut Slab,
        mut index: usize,
        mut offer: impl FnMut(&mut Slab, &mut Node) -> bool,
    ) -> (Node, usize) {
        offer(slab, &mut self.root);
        let mut node = self.root;
        loop {
            let inner = node.inner(slab);
            let (at, rest) = inner.find(index);
            let (level, mut kid) = (inner.level, inner.nodes[at]);
            if offer(slab, &mut kid) {
                node.inner_mut(slab).nodes[at] = kid;
            }
            (node, index) = (kid, rest);
            if level == 1 {
                return (node, index);
            }
        }
    }

    /// The way to the block of element `index`, all of whose inner nodes may be changed, and the element's index in the block.
    pub(super) fn path(
        &mut self,
        nodes: &mut Nodes,
        slab: &mut Slab,
        mut index: usize,
    ) -> Result<(Path, usize), AllocError> {
        let mut path = Path { steps: [Step { node: Node::NONE, at: 0 }; LEVELS_MAX], depth: 0 };
        self.root = nodes.own(slab, self.root)?;
        let mut node = self.root;
        loop {
            let inner = node.inner(slab);
            let (at, rest) = inner.find(index);
            path.steps[path.depth] = Step { node, at };
            path.depth += 1;
            if inner.level == 1 {
                return Ok((path, rest));
            }
            let kid = nodes.own(slab, inner.nodes[at])?;
            node.inner_mut(slab).nodes[at] = kid;
            (node, index) = (kid, rest);
        }
    }

    /// The way to the block at an end.
    fn path_to_end(&mut self, nodes: &mut Nodes, slab: &mut Slab, end: End) -> Result<Path, AllocError> {
        let index = if end == End::Head { 0 } else { self.len - 1 };
        Ok(self.path(nodes, slab, index)?.0)
    }

    /// The block at the end of `path` has so many elements now.
    pub(super) fn set_count(&mut self, slab: &mut Slab, path: &Path, count: usize) {
        let Step { node, at } = path.bottom();
        let old = node.inner(slab).counts[at];
        for step in path.steps() {
            let counts = &mut step.node.inner_mut(slab).counts;
            counts[step.at] = counts[step.at] - old + count;
        }
        self.len = self.len - old + count;
    }

    /// Puts a block behind all others, or before.
    pub(super) fn push(&mut self, nodes: &mut Nodes, slab: &mut Slab, end: End, block: Node) -> Result<(), AllocError> {
        if self.is_empty() {
            let count = block.block(slab).count();
            self.root = nodes.inner(slab, 1)?;
            self.root.inner_mut(slab).insert(0, block, count);
            self.len = count;
            return Ok(());
        }
        let path = self.path_to_end(nodes, slab, end)?;
        self.insert(nodes, slab, &path, end, block)
    }

    /// Puts a block beside the one of the path.
    pub(super) fn insert(
        &mut self,
        nodes: &mut Nodes,
        slab: &mut Slab,
        path: &Path,
        side: End,
        block: Node,
    ) -> Result<(), AllocError> {
        let fan = nodes.fan;
        let full = path.steps().iter().rev().take_while(|step| step.node.inner(slab).kids() >= fan).count();
        let mut spare = Vec::new();
        for _ in 0..full + usize::from(full == path.depth) {
            match nodes.inner(slab, 1) {
                Ok(node) => spare.push(node),
                Err(e) => {
                    spare.into_iter().for_each(|node| nodes.discard(slab, node));
                    return Err(e);
                }
            }
        }
        let added = block.block(slab).count();
        let (mut kid, mut count, mut behind) = (block, added, side == End::Tail);
        let mut level = path.depth;
        while level > 0 {
            level -= 1;
            let Step { node, at } = path.steps[level];
            let place = at + usize::from(behind);
            let inner = node.inner_mut(slab);
            if inner.kids() < fan {
                inner.insert(place, kid, count);
                for above in &path.steps[..level] {
                    above.node.inner_mut(slab).counts[above.at] += added;
                }
                self.len += added;
                return Ok(());
            }
            // What grows at an edge leaves full nodes behind.
            let cut = if place == inner.kids() || place == 0 { place } else { fan / 2 };
            let (height, moved) = (inner.level, inner.split_off(cut));
            let sibling = spare.pop().expect("made above");
            let right = sibling.inner_mut(slab);
            right.level = height;
            right.put(0, &moved);
            if place < cut || cut == 0 {
                node.inner_mut(slab).insert(place, kid, count);
            } else {
                sibling.inner_mut(slab).insert(place - cut, kid, count);
            }
            // The node above has counted this one as it was.
            let (left, right) = (node.inner(slab).total(), sibling.inner(slab).total());
            if let Some(above) = level.checked_sub(1).map(|level| path.steps[level]) {
                above.node.inner_mut(slab).counts[above.at] = left;
            }
            (kid, count, behind) = (sibling, right, true);
        }
        // The root was split.
        let root = spare.pop().expect("made above");
        let (total, height) = (self.root.inner(slab).total(), self.root.inner(slab).level);
        let inner = root.inner_mut(slab);
        inner.level = height + 1;
        inner.put(0, &[(self.root, total), (kid, count)]);
        self.root = root;
        self.len += added;
        Ok(())
    }

    /// Takes the block at an end out; it is the caller's.
    pub(super) fn pop(&mut self, nodes: &mut Nodes, slab: &mut Slab, end: End) -> Result<Node, AllocError> {
        let path = self.path_to_end(nodes, slab, end)?;
        let block = path.block(slab);
        self.remove(nodes, slab, path);
        Ok(block)
    }

    /// Takes the block of the path out; it is the caller's.
    pub(super) fn remove(&mut self, nodes: &mut Nodes, slab: &mut Slab, mut path: Path) {
        self.set_count(slab, &path, 0);
        loop {
            let Step { node, at } = path.bottom();
            node.inner_mut(slab).remove(at);
            if node.inner(slab).kids > 0 {
                break;
            }
            nodes.discard(slab, node);
            path.depth -= 1;
            if path.depth == 0 {
                self.root = Node::NONE;
                return;
            }
        }
        self.tidy(nodes, slab, &path);
    }

    /// Takes the block beside that of the path out, whose elements are in that one now; it is the caller's. Not before `set_count`.
    pub(super) fn remove_sibling(&mut self, nodes: &mut Nodes, slab: &mut Slab, mut path: Path, side: End) {
        path.go_beside(side);
        self.remove(nodes, slab, path);
    }

    /// Merges the nodes of a path that have become sparse with a neighbour, and takes roots of one kid off.
    pub(super) fn tidy(&mut self, nodes: &mut Nodes, slab: &mut Slab, path: &Path) {
        let fan = nodes.fan;
        for pair in path.steps().windows(2).rev() {
            let (parent, step) = (pair[0], pair[1]);
            let kids = step.node.inner(slab).kids();
            if kids > fan / 4 {
                break;
            }
            // A neighbour's kids come over; the node of the path is ours to change.
            let above = parent.node.inner(slab);
            let next = Some(parent.at + 1).filter(|&at| at < above.kids());
            let fits = |&at: &usize| kids + above.nodes[at].inner(slab).kids() <= fan / 4 * 3;
            let Some(at) = next.filter(fits).or(parent.at.checked_sub(1).filter(fits)) else { continue };
            let (gone, count) = (above.nodes[at], above.counts[at]);
            let moved: Vec<(Node, usize)> = {
                let inner = gone.inner(slab);
                inner.nodes[..inner.kids()].iter().copied().zip(inner.counts).collect()
            };
            let place = if at > parent.at { kids } else { 0 };
            step.node.inner_mut(slab).put(place, &moved);
            let above = parent.node.inner_mut(slab);
            above.counts[parent.at] += count;
            above.remove(at);
            nodes.discard(slab, gone);
        }
        while !self.root.is_none() && self.root.inner(slab).level > 1 && self.root.inner(slab).kids == 1 {
            let kid = self.root.inner(slab).nodes[0];
            nodes.discard(slab, std::mem::replace(&mut self.root, kid));
        }
    }

    /// Takes everything out; the root is the caller's.
    pub(super) fn take(&mut self) -> Node {
        std::mem::replace(self, Tree::EMPTY).root
    }

    /// Cuts `n` elements off at an end, fewer than there are: dooms the blocks all of whose elements go. The way to the first that stays, and how
    /// many elements at its end are to go, are for the caller, who may change it (`set_count`).
    pub(super) fn cut(
        &mut self,
        nodes: &mut Nodes,
        slab: &mut Slab,
        end: End,
        n: usize,
    ) -> Result<(Path, usize), AllocError> {
        let index = if end == End::Head { n } else { self.len - 1 - n };
        let (mut path, index) = self.path(nodes, slab, index)?;
        let block = nodes.own(slab, path.block(slab))?;
        path.set_block(slab, block);
        let steps = &mut path.steps[..path.depth];
        for step in &mut *steps {
            let inner = step.node.inner_mut(slab);
            let beyond = match end {
                End::Head => {
                    let stay = inner.split_off(step.at);
                    let beyond = inner.split_off(0);
                    inner.put(0, &stay);
                    step.at = 0;
                    beyond
                }
                End::Tail => inner.split_off(step.at + 1),
            };
            beyond.iter().for_each(|&(node, _)| nodes.doom(node));
        }
        for i in (1..steps.len()).rev() {
            let total = steps[i].node.inner(slab).total();
            let above = steps[i - 1];
            above.node.inner_mut(slab).counts[above.at] = total;
        }
        self.len = self.root.inner(slab).total();
        let count = block.block(slab).count();
        Ok((path, if end == End::Head { index } else { count - 1 - index }))
    }

    /// Tests: checks the invariants; the blocks in order.
    #[cfg(test)]
    pub(super) fn verify(&self, slab: &Slab) -> Vec<Node> {
        fn below(slab: &Slab, node: Node, count: usize, level: u8, into: &mut Vec<Node>) {
            if level == 0 {
                assert_eq!(node.block(slab).count(), count);
                assert!(count > 0);
                return into.push(node);
            }
            let inner = node.inner(slab);
            assert_eq!((inner.level, inner.total()), (level, count));
            assert!(inner.kids > 0);
            for (&kid, &count) in inner.nodes.iter().zip(&inner.counts).take(inner.kids()) {
                below(slab, kid, count, level - 1, into);
            }
        }
        let mut blocks = Vec::new();
        if self.is_empty() {
            assert_eq!(self.len, 0);
        } else {
            let root = self.root.inner(slab);
            assert!(root.level == 1 || root.kids > 1);
            below(slab, self.root, self.len, root.level, &mut blocks);
        }
        blocks
    }
}
