//! Views of containers that are built of nodes in a slab (lists, trees): which node must be copied before it changes, and when the old one may
//! be freed. Owns the epochs and the lists of what is to be freed; knows nothing of what a node is.
//!
//! A node is stamped with [`Epochs::stamp`] when it is made. A view remembers the root as it was, and everything below it stays as it is:
//! a node that is older than the newest view is not changed but copied, and so are those on the way to it. (A container that is a
//! `table::Table` has views of its own, `table::view`: a table knows what it has changed by ranges, and its entries carry no stamps.)
//!
//! ```text
//!  stamps  ..1 │ 2 2  │ 2 2 2 │ 3 3 │ 4 ...       a node of stamp s is seen by the views whose epoch is above s
//!              │      │       │     │
//!  views       2      2       3     4             opened where nothing was stamped since the last: the same epoch
//! ```
//!
//! # Wrap
//! Stamps have 32 bits. The epoch advances only when a view is opened after something was stamped. Should that happen 2^32 times, it
//! stays at the last value, and every node counts as older than every view: then each change under a view copies, which costs memory
//! until the view is closed, and is never wrong.
//!
//! # Invariants
//! `open` is in the order of epochs, which are distinct. `newest` is the last of them, or 0.

use dolmen_slab::Handle;
use std::collections::VecDeque;

/// The last stamp. Views opened from then on have the epoch above it.
const LAST: u32 = u32::MAX - 1;

/// Names an open view. To be closed: until then it keeps memory.
#[must_use]
#[derive(PartialEq, Eq, Debug)]
pub struct Epoch(u32);

/// A node that is out of use but for views.
#[derive(Clone, Copy, Debug)]
pub struct Deferred {
    pub handle: Handle,
    pub bytes: u32,
    stamp: u32,
}

#[derive(Debug)]
struct Open {
    epoch: u32,
    /// Views of this epoch.
    views: u32,
    /// Nodes that left while this was the newest epoch.
    deferred: Vec<Deferred>,
    bytes: u64,
}

/// Nodes that left while an epoch was the newest that is closed now.
#[derive(Debug)]
struct Closed {
    epoch: u32,
    deferred: Vec<Deferred>,
}

/// The views of one container. Empty ones take no memory beside themselves.
#[derive(Debug)]
pub struct Epochs {
    /// The epoch of the newest open view, 0 if none is open.
    newest: u32,
    /// What nodes are stamped with.
    now: u32,
    /// Something was stamped with `now`.
    stamped: bool,
    lists: Option<Box<Lists>>,
}

#[derive(Default, Debug)]
struct Lists {
    open: Vec<Open>,
    closed: VecDeque<Closed>,
    /// Of `closed`.
    bytes: u64,
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs { newest: 0, now: 1, stamped: false, lists: None }
    }
}

impl Epochs {
    /// The stamp of a node that is made now.
    #[inline(always)]
    pub fn stamp(&mut self) -> u32 {
        self.stamped = true;
        self.now
    }

    /// Opens a view of the container as it is now.
    pub fn open(&mut self) -> Epoch {
        if self.stamped && self.now < LAST {
            self.now += 1;
            self.stamped = false;
        }
        let epoch = if self.stamped { u32::MAX } else { self.now };
        let lists = self.lists.get_or_insert_default();
        match lists.open.last_mut() {
            Some(last) if last.epoch == epoch => last.views += 1,
            _ => lists.open.push(Open { epoch, views: 1, deferred: Vec::new(), bytes: 0 }),
        }
        self.newest = epoch;
        Epoch(epoch)
    }

    #[inline(always)]
    #[must_use]
    pub fn is_viewed(&self) -> bool {
        self.newest != 0
    }

    /// Whether a view sees a node of this stamp: it must be copied rather than changed, and deferred rather than freed.
    #[inline(always)]
    #[must_use]
    pub fn must_copy(&self, stamp: u32) -> bool {
        stamp < self.newest
    }

    /// Takes over a node that the container uses no more, if a view sees it. False: the caller frees it.
    #[inline(always)]
    #[must_use]
    pub fn defer(&mut self, stamp: u32, handle: Handle, bytes: u32) -> bool {
        if !self.must_copy(stamp) {
            return false;
        }
        self.defer_slow(Deferred { handle, bytes, stamp });
        true
    }

    #[cold]
    fn defer_slow(&mut self, node: Deferred) {
        let Some(newest) = self.lists.as_mut().and_then(|lists| lists.open.last_mut()) else {
            unreachable!("a view is open")
        };
        newest.bytes += u64::from(node.bytes);
        newest.deferred.push(node);
    }

    /// Ends a view, in constant time. What it kept is handed out by `next_free`.
    pub fn close(&mut self, epoch: Epoch) {
        let lists = self.lists.as_mut().expect("the view is open");
        let index = lists.open.iter().position(|open| open.epoch == epoch.0).expect("the view is open");
        lists.open[index].views -= 1;
        if lists.open[index].views > 0 {
            return;
        }
        let Open { epoch, deferred, bytes, .. } = lists.open.remove(index);
        lists.bytes += bytes;
        lists.closed.push_back(Closed { epoch, deferred });
        self.newest = lists.open.last().map_or(0, |open| open.epoch);
    }

    /// A node that no view sees any more, to be freed by the caller. Looks at `budget` nodes at most and takes off what it has looked at; some go
    /// to an older view instead. `None` with budget left: there is nothing more now.
    pub fn next_free(&mut self, budget: &mut usize) -> Option<Deferred> {
        let lists = self.lists.as_mut()?;
        while *budget > 0
            && let Some(closed) = lists.closed.front_mut()
        {
            let Some(node) = closed.deferred.pop() else {
                lists.closed.pop_front();
                continue;
            };
            *budget -= 1;
            lists.bytes -= u64::from(node.bytes);
            // Views opened after the node left have a later epoch, or the same one if nothing was stamped since.
            let older = lists.open.iter_mut().rfind(|open| open.epoch <= closed.epoch && open.epoch > node.stamp);
            let Some(older) = older else { return Some(node) };
            older.bytes += u64::from(node.bytes);
            older.deferred.push(node);
        }
        if lists.open.is_empty() && lists.closed.is_empty() {
            self.lists = None;
        }
        None
    }

    /// Does `next_free` have something to look at?
    #[inline(always)]
    #[must_use]
    pub fn has_free(&self) -> bool {
        self.lists.as_ref().is_some_and(|lists| !lists.closed.is_empty())
    }

    /// Bytes of nodes that a view keeps: what several need counts to the newest of them.
    #[must_use]
    pub fn view_bytes(&self, epoch: &Epoch) -> u64 {
        let open = self.lists.iter().flat_map(|lists| &lists.open).find(|open| open.epoch == epoch.0);
        open.expect("the view is open").bytes
    }

    /// Bytes of nodes that views keep or that wait to be freed.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.lists.as_ref().map_or(0, |lists| lists.bytes + lists.open.iter().map(|open| open.bytes).sum::<u64>())
    }

    /// Heap memory of the lists.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.lists.as_ref().map_or(0, |lists| {
            let lists_of = lists.open.iter().map(|open| &open.deferred).chain(lists.closed.iter().map(|c| &c.deferred));
            let deferred: usize = lists_of.map(|list| list.capacity() * size_of::<Deferred>()).sum();
            size_of::<Lists>()
                + lists.open.capacity() * size_of::<Open>()
                + lists.closed.capacity() * size_of::<Closed>()
                + deferred
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const FAN: usize = 4;
    const NODE_BYTES: u32 = 64;

    #[derive(Clone, Debug)]
    struct Node {
        stamp: u32,
        children: Vec<Handle>,
        value: u64,
    }

    /// A tree of three levels with a number in each leaf. Its memory forgets what is freed, and gives handles out again at once.
    struct Tree {
        memory: HashMap<u32, Node>,
        free: Vec<u32>,
        root: Handle,
        epochs: Epochs,
    }

    impl Tree {
        fn new(now: u32) -> Tree {
            let epochs = Epochs { now, ..Epochs::default() };
            let mut tree = Tree { memory: HashMap::new(), free: Vec::new(), root: Handle::NULL, epochs };
            tree.root = tree.subtree(2);
            tree
        }

        fn subtree(&mut self, levels: u32) -> Handle {
            let children = if levels == 0 { Vec::new() } else { (0..FAN).map(|_| self.subtree(levels - 1)).collect() };
            self.make(children, 0)
        }

        fn make(&mut self, children: Vec<Handle>, value: u64) -> Handle {
            let bits = self.free.pop().unwrap_or(u32::try_from(self.memory.len()).unwrap() + 1);
            let node = Node { stamp: self.epochs.stamp(), children, value };
            assert!(self.memory.insert(bits, node).is_none());
            Handle::from_bits(bits)
        }

        fn node(&self, h: Handle) -> &Node {
            self.memory.get(&h.bits()).expect("a node that was freed too early")
        }

        fn forget(&mut self, h: Handle) {
            assert!(self.memory.remove(&h.bits()).is_some(), "freed twice");
            self.free.push(h.bits());
        }

        /// A node that may be changed: itself, or a copy, which the caller links.
        fn own(&mut self, h: Handle) -> Handle {
            let Node { stamp, children, value } = self.node(h).clone();
            if !self.epochs.must_copy(stamp) {
                return h;
            }
            let copy = self.make(children, value);
            assert!(self.epochs.defer(stamp, h, NODE_BYTES));
            copy
        }

        fn drop_node(&mut self, h: Handle) {
            if !self.epochs.defer(self.node(h).stamp, h, NODE_BYTES) {
                self.forget(h);
            }
        }

        fn leaf(&mut self, place: usize) -> Handle {
            self.root = self.own(self.root);
            let (first, second) = (place / FAN % FAN, place % FAN);
            let middle = self.own(self.node(self.root).children[first]);
            self.memory.get_mut(&self.root.bits()).unwrap().children[first] = middle;
            let leaf = self.own(self.node(middle).children[second]);
            self.memory.get_mut(&middle.bits()).unwrap().children[second] = leaf;
            leaf
        }

        fn set(&mut self, place: usize, value: u64) {
            let leaf = self.leaf(place);
            self.memory.get_mut(&leaf.bits()).unwrap().value = value;
        }

        /// Puts a new subtree in the place of one, which is dropped as a whole.
        fn renew(&mut self, first: usize) {
            let fresh = self.subtree(1);
            self.root = self.own(self.root);
            let old =
                std::mem::replace(&mut self.memory.get_mut(&self.root.bits()).unwrap().children[first % FAN], fresh);
            for child in self.node(old).children.clone() {
                self.drop_node(child);
            }
            self.drop_node(old);
        }

        fn values(&self, h: Handle) -> Vec<u64> {
            let node = self.node(h);
            if node.children.is_empty() {
                return vec![node.value];
            }
            node.children.iter().flat_map(|&child| self.values(child)).collect()
        }

        fn release(&mut self, mut budget: usize) {
            while let Some(node) = self.epochs.next_free(&mut budget) {
                self.forget(node.handle);
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Set(usize),
        Renew(usize),
        Open,
        Close(usize),
        Release(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            6 => any::<usize>().prop_map(Op::Set),
            1 => any::<usize>().prop_map(Op::Renew),
            3 => Just(Op::Open),
            3 => any::<usize>().prop_map(Op::Close),
            2 => (0..30usize).prop_map(Op::Release),
        ];
        proptest::collection::vec(op, 1..150)
    }

    fn run(now: u32, ops: &[Op]) {
        let mut tree = Tree::new(now);
        let mut views: Vec<(Epoch, Handle, Vec<u64>)> = Vec::new();
        for (step, op) in (1u64..).zip(ops) {
            match *op {
                Op::Set(place) => tree.set(place, step),
                Op::Renew(first) => tree.renew(first),
                Op::Open => views.push((tree.epochs.open(), tree.root, tree.values(tree.root))),
                Op::Close(index) if !views.is_empty() => tree.epochs.close(views.swap_remove(index % views.len()).0),
                Op::Close(_) => {}
                Op::Release(budget) => tree.release(budget),
            }
            for (_, root, values) in &views {
                assert_eq!(&tree.values(*root), values);
            }
            assert_eq!(tree.epochs.is_viewed(), !views.is_empty());
            let kept: u64 = (tree.memory.len() as u64 - 21) * u64::from(NODE_BYTES);
            assert_eq!(tree.epochs.kept_bytes(), kept, "what is not the tree's is kept");
        }
        for (epoch, ..) in views {
            assert!(tree.epochs.view_bytes(&epoch) <= tree.epochs.kept_bytes());
            tree.epochs.close(epoch);
        }
        tree.release(usize::MAX);
        assert_eq!(tree.memory.len(), 1 + FAN + FAN * FAN, "all that views have kept is free");
        assert_eq!((tree.epochs.kept_bytes(), tree.epochs.heap_bytes()), (0, 0));
    }

    proptest! {
        #[test]
        fn views_stay_as_they_were(ops in ops()) {
            run(1, &ops);
        }

        /// The last stamps are used up on the way.
        #[test]
        fn views_stay_as_they_were_when_stamps_run_out(left in 0..6u32, ops in ops()) {
            run(LAST - left, &ops);
        }
    }

    #[test]
    fn nothing_is_copied_without_a_view_and_once_with_one() {
        let mut tree = Tree::new(1);
        tree.set(5, 1);
        assert_eq!(tree.epochs.kept_bytes(), 0);
        let views: Vec<Epoch> = (0..1000).map(|_| tree.epochs.open()).collect();
        assert_eq!(views.iter().map(|epoch| epoch.0).max(), Some(2), "views of one state share an epoch");
        for value in 0..100 {
            tree.set(5, value);
        }
        assert_eq!(tree.epochs.kept_bytes(), 3 * u64::from(NODE_BYTES), "a path, once");
        views.into_iter().for_each(|epoch| tree.epochs.close(epoch));
        tree.release(2);
        assert_eq!(tree.epochs.kept_bytes(), u64::from(NODE_BYTES));
        tree.release(2);
        assert_eq!(tree.epochs.kept_bytes(), 0);
    }
}
