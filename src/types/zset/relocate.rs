//! Moving the memory of a sorted set to where it does not keep sparse spans resident. Owns the order of the walk: the table's own memory, then the
//! tree, leaf by leaf.

use super::big::{Members, Zset};
use super::memory::{self, element};
use super::tree::Path;
use dolmen_slab::{Handle, Slab, Slice};

/// Where the walk has come to the tree: behind all cursors of the table. The rank of an element is added.
const TREE_CURSOR: u64 = 1 << 32;
/// Elements of a leaf that are looked at for the price of a chunk.
const ELEMENTS_A_LOOK: usize = 6;

impl Zset {
    /// As `types::Container::relocate`.
    pub(super) fn relocate_from(&mut self, slab: &mut Slab, cursor: u64, slice: &mut Slice) -> Option<u64> {
        let mut rank = match cursor.checked_sub(TREE_CURSOR) {
            Some(rank) => usize::try_from(rank).ok()?,
            None => {
                let members = Members { seed: self.seed };
                // Elements are moved with the leaf that names them.
                match self.table.relocate(slab, &members, cursor, slice, |_, _, _| None) {
                    Some(next) => return Some(next),
                    None => 0,
                }
            }
        };
        while rank < self.tree.len {
            if self.versions.has_opened() {
                return None;
            }
            if slice.is_used_up() {
                return Some(TREE_CURSOR + rank as u64);
            }
            let mut path = self.tree.at_rank(slab, rank);
            if path.index == 0 && self.tree.fit_leaf(slab, &mut self.versions, &mut path) {
                slice.spend(1);
            }
            self.relocate_nodes(slab, slice, &mut path);
            let count = memory::leaf(slab, path.leaf).elements.len();
            slice.spend(count.div_ceil(ELEMENTS_A_LOOK));
            // From where the walk stands: a leaf of long members takes more than one slice.
            let mut at = path.index;
            while at < count && !slice.is_used_up() {
                self.relocate_element(slab, slice, &path, at);
                at += 1;
            }
            rank += at - path.index;
        }
        None
    }

    /// The nodes on a way down, the leaf too.
    fn relocate_nodes(&mut self, slab: &mut Slab, slice: &mut Slice, path: &mut Path) {
        for level in 0..=path.height {
            let Some(moved) = memory::offer(slab, slice, path.node(level)) else { continue };
            path.set_node(level, moved);
            match level.checked_sub(1) {
                None => self.tree.root = moved,
                Some(above) => memory::inner_mut(slab, path.node(above)).children[path.at(above)] = moved,
            }
        }
    }

    /// An element of the leaf, which the leaf, the table, and as a first one nodes on the way to it name.
    fn relocate_element(&mut self, slab: &mut Slab, slice: &mut Slice, path: &Path, at: usize) {
        let old = memory::leaf(slab, path.leaf).elements[at];
        if !slab.is_sealed(old) {
            return;
        }
        let hash = element(slab, old).hash(self.seed);
        let slot = self.table.find_handle(slab, hash, old).expect("an element of the tree is in the table");
        let Some(new) = memory::offer(slab, slice, old) else { return };
        self.table.replace(slot, new);
        memory::leaf_set_element(slab, path.leaf, at, new);
        if at == 0 {
            self.rename_first(slab, path, old, new);
        }
    }

    fn rename_first(&mut self, slab: &mut Slab, path: &Path, old: Handle, new: Handle) {
        for level in 0..path.height {
            let first = &mut memory::inner_mut(slab, path.node(level)).firsts[path.at(level)];
            if *first == old {
                *first = new;
            }
        }
    }
}
