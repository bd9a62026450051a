//! Moving the nodes of a list to where they do not keep sparse spans resident. Owns the order of the walk: that of the elements.

use super::List;
use super::block::{End, cells};
use super::node::{Form, Node, room_for};
use super::nodes::Nodes;
use dolmen_slab::{Slab, Slice};

/// Entries of a block with cells that are looked at for the price of a chunk.
const ENTRIES_A_LOOK: usize = 8;

/// Puts a block whose room is a third empty into a smaller one; false: it is full enough, it is no block, or there is no memory.
fn fit(nodes: &mut Nodes, slab: &mut Slab, slice: &mut Slice, place: &mut Node) -> bool {
    if place.form(slab) != Form::Block {
        return false;
    }
    let (used, room) = (place.block(slab).used(), place.block(slab).room.len());
    let wanted = used + used / 8;
    if 3 * wanted > 2 * room {
        return false;
    }
    let Ok(smaller) = nodes.resized(slab, *place, room_for(wanted), 0) else { return false };
    nodes.discard(slab, std::mem::replace(place, smaller));
    slice.spend(1);
    true
}

impl List {
    /// Has a sweep move a node, if it is to; true: `place` has another handle now. No view is open.
    fn offer(slab: &mut Slab, slice: &mut Slice, place: &mut Node) -> bool {
        match place.offer(slab, slice) {
            Some(moved) => {
                *place = moved;
                true
            }
            None => false,
        }
    }

    /// As `types::Container::relocate`, from the element that the cursor is the index of.
    pub(super) fn relocate_from(&mut self, slab: &mut Slab, cursor: u64, slice: &mut Slice) -> Option<u64> {
        self.nodes.check(slab);
        let mut index = usize::try_from(cursor).ok()?;
        while index < self.len {
            if slice.is_used_up() {
                return Some(index as u64);
            }
            if self.nodes.epochs.is_viewed() {
                return None;
            }
            let (head, tree) = (self.roots.count(slab, End::Head), self.roots.tree.len());
            let (block, at) = if index < head {
                List::offer(slab, slice, &mut self.roots.ends[End::Head as usize]);
                (self.roots.ends[End::Head as usize], index)
            } else if index - head < tree {
                let (nodes, tree) = (&mut self.nodes, &mut self.roots.tree);
                tree.relocate_way(slab, index - head, |slab, node| {
                    fit(nodes, slab, slice, node) || List::offer(slab, slice, node)
                })
            } else {
                List::offer(slab, slice, &mut self.roots.ends[End::Tail as usize]);
                (self.roots.ends[End::Tail as usize], index - head - tree)
            };
            let count = block.block(slab).count();
            if block.block(slab).head.cells > 0 {
                slice.spend(count.div_ceil(ENTRIES_A_LOOK));
                List::relocate_cells(slab, slice, block);
            }
            index += count - at;
        }
        None
    }

    /// Cells of a block: they are few, as each stands for a large element.
    fn relocate_cells(slab: &mut Slab, slice: &mut Slice, block: Node) {
        let sealed: Vec<Node> = cells(block.block(slab).run()).filter(|cell| slab.is_sealed(cell.handle())).collect();
        for old in sealed {
            let mut cell = old;
            if List::offer(slab, slice, &mut cell) {
                block.block_mut(slab).rename_cell(old, cell);
            }
        }
    }
}
