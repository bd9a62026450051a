//! The counted B+tree of a sorted set, changed: insertion, removal, and how nodes grow, split, shrink and merge. Compares nothing: a path says
//! where.
//!
//! - **Leaves grow** with what they hold, 16 places at a time, so a tree of random scores is as full as one of ascending ones.
//! - **A full node splits** in the middle; but where an element comes after the last of a leaf, the leaf stays as it is, and the
//!   new one holds the element alone; likewise before the first of all. So ascending and descending loads leave full nodes.
//! - **A node below a quarter** joins a neighbour, if both fill at most three quarters.
//!
//! # Little memory
//! What an insertion needs is allocated before anything changes. A removal needs nothing, it leaves out what it has no memory for.
//!
//! # Views
//! The nodes of a path that a view sees are copied first, from the root down; those that are joined are replaced by one that is new.

use super::memory::{self, Child, INNER_MAX, LEAF_MAX, Leaf, element, head, inner, inner_mut, leaf};
use super::tree::{HEIGHT_MAX, Path, Tree};
use super::versions::Versions;
use dolmen_slab::{AllocError, Handle, Slab};

/// Places by which a leaf grows.
const LEAF_STEP: usize = 16;
/// First capacity of a leaf.
const LEAF_FIRST: usize = 13;
/// Places that a leaf may leave empty before it is made smaller.
const LEAF_SLACK: usize = 40;
/// First capacity of an inner node; it doubles.
const INNER_FIRST: usize = 8;

/// What an insertion may need of memory.
struct Room {
    nodes: [Handle; HEIGHT_MAX + 3],
    len: usize,
    taken: usize,
}

impl Room {
    const NONE: Room = Room { nodes: [Handle::NULL; HEIGHT_MAX + 3], len: 0, taken: 0 };

    fn take(&mut self) -> Handle {
        let node = self.nodes[self.taken];
        debug_assert!(self.taken < self.len);
        self.taken += 1;
        node
    }
}

/// A node has become two: the first takes its place, the second comes after it.
struct Parted {
    left: Child,
    right: Child,
}

impl Tree {
    /// Puts an element at the place of a path, whose key is this one.
    ///
    /// # Errors
    /// The slab is full; nothing has changed.
    pub(super) fn insert(
        &mut self,
        slab: &mut Slab,
        versions: &mut Versions,
        mut path: Path,
        key: u64,
        h: Handle,
    ) -> Result<(), AllocError> {
        if self.root.is_null() {
            self.root = versions.new_leaf(slab, LEAF_FIRST)?;
            path.leaf = self.root;
        }
        self.own(slab, versions, &mut path);
        let (count, capacity) = (head(slab, path.leaf).count(), head(slab, path.leaf).capacity());
        if count == LEAF_MAX {
            return self.insert_parting(slab, versions, &path, key, h);
        }
        if count == capacity {
            let grown = versions.new_leaf(slab, capacity + LEAF_STEP)?;
            self.replace_leaf(slab, versions, &mut path, grown);
        }
        put(slab, path.leaf, path.index, key, h);
        self.len += 1;
        for level in 0..path.height {
            inner_mut(slab, path.node(level)).counts[path.at(level)] += 1;
        }
        if path.index == 0 {
            renew_first(slab, &path, path.height, key, h);
        }
        Ok(())
    }

    /// Takes out `n` elements, from the one at a path on, all in its leaf. What becomes of them is the caller's business.
    pub(super) fn remove(&mut self, slab: &mut Slab, versions: &mut Versions, mut path: Path, n: usize) {
        self.own(slab, versions, &mut path);
        memory::leaf_remove(slab, path.leaf, path.index, n);
        self.len -= n;
        #[expect(clippy::cast_possible_truncation, reason = "at most LEAF_MAX")]
        for level in 0..path.height {
            inner_mut(slab, path.node(level)).counts[path.at(level)] -= n as u32;
        }
        let left = leaf(slab, path.leaf).elements;
        if path.index == 0
            && let Some(&first) = left.first()
        {
            renew_first(slab, &path, path.height, element(slab, first).key(), first);
        }
        self.tend(slab, versions, &mut path);
    }

    /// Moves an element within its leaf, from the place of a path to `to` (counted without it), to a new key that it shows already.
    pub(super) fn shift(&mut self, slab: &mut Slab, mut path: Path, to: usize, key: u64) {
        let from = path.index;
        let h = leaf(slab, path.leaf).elements[from];
        if from == to
            && let Some(code) = leaf(slab, path.leaf).code(key)
        {
            memory::leaf_set_code(slab, path.leaf, from, code);
        } else {
            memory::leaf_remove(slab, path.leaf, from, 1);
            put(slab, path.leaf, to, key, h);
        }
        if from == 0 || to == 0 {
            path.index = 0;
            let first = leaf(slab, path.leaf).elements[0];
            renew_first(slab, &path, path.height, element(slab, first).key(), first);
        }
    }

    /// Sees to it that no view sees the nodes of a path.
    fn own(&mut self, slab: &mut Slab, versions: &mut Versions, path: &mut Path) {
        if !versions.is_viewed() {
            return;
        }
        for level in 0..=path.height {
            let node = path.node(level);
            let owned = versions.own(slab, node);
            if owned != node {
                self.link(slab, path, level, owned);
            }
        }
    }

    /// Puts a node in the place of one of a path, whose parent may be changed.
    fn link(&mut self, slab: &mut Slab, path: &mut Path, level: usize, node: Handle) {
        path.set_node(level, node);
        match level.checked_sub(1) {
            None => self.root = node,
            Some(parent) => inner_mut(slab, path.node(parent)).children[path.at(parent)] = node,
        }
    }

    /// Moves a leaf into another, which is empty and large enough.
    fn replace_leaf(&mut self, slab: &mut Slab, versions: &mut Versions, path: &mut Path, new: Handle) {
        let old = path.leaf;
        move_all(slab, old, new);
        self.link(slab, path, path.height, new);
        versions.drop_node(slab, old);
    }

    /// Inserts where the leaf is full.
    #[cold]
    #[inline(never)]
    fn insert_parting(
        &mut self,
        slab: &mut Slab,
        versions: &mut Versions,
        path: &Path,
        key: u64,
        h: Handle,
    ) -> Result<(), AllocError> {
        let mut room = Self::room(slab, versions, path)?;
        self.len += 1;
        let mut parted = Some(part_leaf(slab, versions, path, key, h, &mut room));
        let descending = path.index == 0;
        for level in (0..path.height).rev() {
            let (node, at) = (path.node(level), path.at(level));
            let Some(Parted { left, right }) = parted.take() else {
                let inner = inner_mut(slab, node);
                inner.counts[at] += 1;
                if descending {
                    (inner.keys[at], inner.firsts[at]) = (key, h);
                }
                continue;
            };
            inner_mut(slab, node).set(at, left);
            let node_head = head(slab, node);
            if node_head.count() < node_head.capacity() {
                memory::inner_insert(slab, node, at + 1, right);
            } else if node_head.count() < INNER_MAX {
                let grown = room.take();
                for index in 0..inner(slab, node).children.len() {
                    memory::inner_insert(slab, grown, index, inner(slab, node).child(index));
                }
                memory::inner_insert(slab, grown, at + 1, right);
                let mut path = *path;
                self.link(slab, &mut path, level, grown);
                versions.drop_node(slab, node);
            } else {
                parted = Some(part_inner(slab, node, at, right, descending, room.take()));
            }
        }
        if let Some(Parted { left, right }) = parted {
            assert!(self.height + 1 < HEIGHT_MAX, "a tree of more elements than there are handles");
            self.root = room.take();
            self.height += 1;
            memory::inner_insert(slab, self.root, 0, left);
            memory::inner_insert(slab, self.root, 1, right);
        }
        debug_assert_eq!(room.taken, room.len);
        Ok(())
    }

    /// Allocates what inserting at a path takes whose leaf is full.
    fn room(slab: &mut Slab, versions: &mut Versions, path: &Path) -> Result<Room, AllocError> {
        let mut room = Room::NONE;
        let mut fill = || {
            let add = |room: &mut Room, node: Result<Handle, AllocError>| {
                room.nodes[room.len] = node?;
                room.len += 1;
                Ok(())
            };
            if path.index == 0 || path.index == LEAF_MAX {
                add(&mut room, versions.new_leaf(slab, LEAF_MAX))?;
            } else {
                for _ in 0..2 {
                    add(&mut room, versions.new_leaf(slab, LEAF_MAX / 2 + 2))?;
                }
            }
            for level in (0..path.height).rev() {
                let node = head(slab, path.node(level));
                let (count, capacity) = (node.count(), node.capacity());
                if count < capacity {
                    return Ok(());
                }
                let capacity = if count < INNER_MAX { 2 * capacity } else { INNER_MAX };
                add(&mut room, versions.new_inner(slab, capacity))?;
                if count < INNER_MAX {
                    return Ok(());
                }
            }
            add(&mut room, versions.new_inner(slab, INNER_FIRST))
        };
        let filled = fill();
        if let Err(error) = filled {
            room.nodes[..room.len].iter().for_each(|&node| versions.free(slab, node));
            return Err(error);
        }
        Ok(room)
    }

    /// After a removal: the nodes of a path that have become empty or small, from the leaf up.
    fn tend(&mut self, slab: &mut Slab, versions: &mut Versions, path: &mut Path) {
        let mut level = path.height;
        while level > 0 {
            let (node, parent, at) = (path.node(level), path.node(level - 1), path.at(level - 1));
            if head(slab, node).count() == 0 {
                versions.drop_node(slab, node);
                memory::inner_remove(slab, parent, at);
                let rest = inner(slab, parent);
                if at == 0 && !rest.children.is_empty() {
                    let Child { key, first, .. } = rest.child(0);
                    renew_first(slab, path, level - 1, key, first);
                }
            } else if !self.join(slab, versions, path, level) {
                break;
            }
            level -= 1;
        }
        if level == 0 {
            self.lower(slab, versions);
        } else if level == path.height {
            self.shrink_leaf(slab, versions, path);
        }
    }

    /// The root, after it has lost elements or children.
    fn lower(&mut self, slab: &mut Slab, versions: &mut Versions) {
        while self.height > 0 && inner(slab, self.root).children.len() == 1 {
            let root = self.root;
            self.root = inner(slab, root).children[0];
            self.height -= 1;
            versions.drop_node(slab, root);
        }
        if head(slab, self.root).count() == 0 {
            versions.drop_node(slab, self.root);
            (self.root, self.height) = (Handle::NULL, 0);
        }
    }

    /// Joins a small node with a neighbour, if both are small enough and there is memory; the parent has a child less then.
    fn join(&mut self, slab: &mut Slab, versions: &mut Versions, path: &Path, level: usize) -> bool {
        let is_leaf = level == path.height;
        let most = if is_leaf { LEAF_MAX } else { INNER_MAX };
        let count = head(slab, path.node(level)).count();
        if count >= most / 4 {
            return false;
        }
        let (parent, at) = (path.node(level - 1), path.at(level - 1));
        let siblings = inner(slab, parent);
        let left = if at + 1 < siblings.children.len() { at } else { at.wrapping_sub(1) };
        let (Some(&a), Some(&b)) = (siblings.children.get(left), siblings.children.get(left.wrapping_add(1))) else {
            return false;
        };
        let both = head(slab, a).count() + head(slab, b).count();
        if both > most * 3 / 4 {
            return false;
        }
        let joined = if is_leaf {
            let Ok(joined) = versions.new_leaf(slab, both + LEAF_STEP / 2) else { return false };
            move_all(slab, a, joined);
            append_all(slab, b, joined);
            joined
        } else {
            let Ok(joined) = versions.new_inner(slab, both + 1) else { return false };
            for (from, start) in [(a, 0), (b, head(slab, a).count())] {
                for index in 0..inner(slab, from).children.len() {
                    memory::inner_insert(slab, joined, start + index, inner(slab, from).child(index));
                }
            }
            joined
        };
        let parent_places = inner_mut(slab, parent);
        parent_places.children[left] = joined;
        parent_places.counts[left] += parent_places.counts[left + 1];
        memory::inner_remove(slab, parent, left + 1);
        versions.drop_node(slab, a);
        versions.drop_node(slab, b);
        true
    }

    /// Gives a leaf whose places are a third empty as many as it needs; no view is open. False: it is full enough, or there is no memory.
    pub(super) fn fit_leaf(&mut self, slab: &mut Slab, versions: &mut Versions, path: &mut Path) -> bool {
        let (count, capacity) = (head(slab, path.leaf).count(), head(slab, path.leaf).capacity());
        if capacity < LEAF_FIRST + LEAF_STEP || 3 * count > 2 * capacity {
            return false;
        }
        let Ok(fitting) = versions.new_leaf(slab, count + LEAF_STEP / 2) else { return false };
        self.replace_leaf(slab, versions, path, fitting);
        true
    }

    /// Gives back what a leaf does not need, if there is memory for the smaller one.
    fn shrink_leaf(&mut self, slab: &mut Slab, versions: &mut Versions, path: &mut Path) {
        let (count, capacity) = (head(slab, path.leaf).count(), head(slab, path.leaf).capacity());
        if count > 0
            && capacity > count + LEAF_SLACK
            && let Ok(smaller) = versions.new_leaf(slab, count + LEAF_STEP / 2)
        {
            self.replace_leaf(slab, versions, path, smaller);
        }
    }
}

/// The first element below the child of a path at each level above `level`, as far as that is the first child.
fn renew_first(slab: &mut Slab, path: &Path, level: usize, key: u64, first: Handle) {
    for level in (0..level).rev() {
        let (places, at) = (inner_mut(slab, path.node(level)), path.at(level));
        (places.keys[at], places.firsts[at]) = (key, first);
        if at > 0 {
            break;
        }
    }
}

/// Puts an element into a leaf that has room.
fn put(slab: &mut Slab, node: Handle, at: usize, key: u64, h: Handle) {
    let code = leaf(slab, node).code(key).unwrap_or_else(|| {
        widen(slab, node, key);
        leaf(slab, node).code(key).expect("the leaf was widened for this key")
    });
    memory::leaf_insert(slab, node, at, code, h);
}

/// Takes all of a leaf into an empty one, codes as they are.
fn move_all(slab: &mut Slab, from: Handle, to: Handle) {
    let source = leaf(slab, from);
    let (base, shift) = (source.head.base, source.head.shift);
    memory::leaf_append(slab, to, from, 0..source.codes.len());
    memory::leaf_recode(slab, to, base, shift, &[]);
}

/// Appends all of a leaf to one before it.
fn append_all(slab: &mut Slab, from: Handle, to: Handle) {
    let (source, target) = (leaf(slab, from).head, leaf(slab, to).head);
    let alike = (source.base, source.shift) == (target.base, target.shift);
    memory::leaf_append(slab, to, from, 0..head(slab, from).count());
    if !alike {
        let (first, last) = ends(slab, to);
        recode(slab, to, first, last);
    }
}

/// Keys of the first and the last element of a leaf that has some.
fn ends(slab: &Slab, node: Handle) -> (u64, u64) {
    let elements = leaf(slab, node).elements;
    (element(slab, elements[0]).key(), element(slab, elements[elements.len() - 1]).key())
}

/// Gives a leaf codes for the keys from `low` to `high`, as fine as they can be.
fn recode(slab: &mut Slab, node: Handle, low: u64, high: u64) {
    let shift = shift_of(low, high);
    let elements = leaf(slab, node).elements;
    elements.iter().for_each(|&h| slab.prefetch(h));
    let mut codes = [0; LEAF_MAX];
    for (code, &h) in codes.iter_mut().zip(elements) {
        *code = u32::try_from((element(slab, h).key() - low) >> shift).expect("a key between low and high");
    }
    let count = elements.len();
    memory::leaf_recode(slab, node, low, shift, &codes[..count]);
}

/// By how many bits codes must be shifted to fit 32.
#[expect(clippy::cast_possible_truncation, reason = "at most 32")]
fn shift_of(low: u64, high: u64) -> u8 {
    (u64::BITS - (high - low).leading_zeros()).saturating_sub(u32::BITS) as u8
}

/// Gives a leaf codes for another key too, and for as many again on both sides, as more may come.
#[cold]
#[inline(never)]
fn widen(slab: &mut Slab, node: Handle, key: u64) {
    let (first, last) = if leaf(slab, node).elements.is_empty() { (key, key) } else { ends(slab, node) };
    let (low, high) = (first.min(key), last.max(key));
    let more = high - low;
    recode(slab, node, low.saturating_sub(more), high.saturating_add(more));
}

/// Gives a leaf finer codes if many of its elements have equal ones that need not.
fn tighten(slab: &mut Slab, node: Handle) {
    let Leaf { head, codes, .. } = leaf(slab, node);
    let alike = codes.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let shift = head.shift;
    if alike * 8 < codes.len() || shift == 0 {
        return;
    }
    let (first, last) = ends(slab, node);
    if first < last && shift_of(first, last) < shift {
        recode(slab, node, first, last);
    }
}

/// Inserts into a full leaf, which becomes two.
fn part_leaf(slab: &mut Slab, versions: &mut Versions, path: &Path, key: u64, h: Handle, room: &mut Room) -> Parted {
    let (old, index) = (path.leaf, path.index);
    if index == 0 || index == LEAF_MAX {
        let new = room.take();
        put(slab, new, 0, key, h);
        tighten(slab, old);
        let alone = Child { key, first: h, node: new, count: 1 };
        let full = child_of_leaf(slab, old);
        return if index == 0 { Parted { left: alone, right: full } } else { Parted { left: full, right: alone } };
    }
    let (left, right) = (room.take(), room.take());
    let middle = LEAF_MAX / 2;
    let (base, shift) = (head(slab, old).base, head(slab, old).shift);
    for (half, range) in [(left, 0..middle), (right, middle..LEAF_MAX)] {
        memory::leaf_append(slab, half, old, range);
        memory::leaf_recode(slab, half, base, shift, &[]);
    }
    if index <= middle {
        put(slab, left, index, key, h);
    } else {
        put(slab, right, index - middle, key, h);
    }
    tighten(slab, left);
    tighten(slab, right);
    versions.drop_node(slab, old);
    Parted { left: child_of_leaf(slab, left), right: child_of_leaf(slab, right) }
}

#[expect(clippy::cast_possible_truncation, reason = "at most LEAF_MAX")]
fn child_of_leaf(slab: &Slab, node: Handle) -> Child {
    let elements = leaf(slab, node).elements;
    let first = elements[0];
    Child { key: element(slab, first).key(), first, node, count: elements.len() as u32 }
}

fn child_of_inner(slab: &Slab, node: Handle) -> Child {
    let places = inner(slab, node);
    Child { count: places.counts.iter().sum(), node, ..places.child(0) }
}

/// Puts a child after the one at `at` of a full node, which becomes two.
fn part_inner(slab: &mut Slab, node: Handle, at: usize, child: Child, descending: bool, new: Handle) -> Parted {
    if at + 1 == INNER_MAX {
        memory::inner_insert(slab, new, 0, child);
        return Parted { left: child_of_inner(slab, node), right: child_of_inner(slab, new) };
    }
    if descending {
        let first = inner(slab, node).child(0);
        memory::inner_insert(slab, new, 0, first);
        inner_mut(slab, node).set(0, child);
        return Parted { left: child_of_inner(slab, new), right: child_of_inner(slab, node) };
    }
    let middle = INNER_MAX / 2;
    for index in middle..INNER_MAX {
        let child = inner(slab, node).child(index);
        memory::inner_insert(slab, new, index - middle, child);
    }
    memory::inner_truncate(slab, node, middle);
    if at < middle {
        memory::inner_insert(slab, node, at + 1, child);
    } else {
        memory::inner_insert(slab, new, at + 1 - middle, child);
    }
    Parted { left: child_of_inner(slab, node), right: child_of_inner(slab, new) }
}

/// Frees the nodes of a tree whose elements are gone, up to about `budget` places; true if there are more.
pub(super) fn drain_nodes(tree: &mut Tree, slab: &mut Slab, versions: &mut Versions, budget: usize) -> bool {
    let mut left = budget;
    while !tree.root.is_null() {
        if left == 0 {
            return true;
        }
        let mut way = [Handle::NULL; HEIGHT_MAX];
        let mut node = tree.root;
        for step in &mut way[..tree.height] {
            *step = node;
            let children = inner(slab, node).children;
            node = children[children.len() - 1];
        }
        left = left.saturating_sub(head(slab, node).count().max(1));
        versions.free(slab, node);
        // Its ancestors as far as it was their only child.
        let mut rest = Handle::NULL;
        for &parent in way[..tree.height].iter().rev() {
            let count = inner(slab, parent).children.len();
            if count > 1 {
                memory::inner_truncate(slab, parent, count - 1);
                rest = tree.root;
                break;
            }
            versions.free(slab, parent);
        }
        tree.root = rest;
    }
    *tree = Tree::EMPTY;
    false
}
