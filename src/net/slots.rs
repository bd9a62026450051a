//! Storage of connections: chunks that never move, indices that are used again, generations that are not. It knows nothing of
//! sockets.
//!
//! Invariants: a slot's generation grows whenever its value is removed, so an old id never finds a new connection; a slot whose
//! generation is used up is retired; growing adds one chunk and touches no live slot.
use super::ConnId;

/// Slots in a chunk: 256 connections are added at a time.
const CHUNK_SLOTS: usize = 256;
/// End of the free list.
const NIL: u32 = u32::MAX;
/// The largest number of slots; the indices above stay free for tokens that are not connections.
const SLOTS_MAX: usize = 1 << 31;

enum Entry<T> {
    /// Not in use; the index of the next free slot.
    Free(u32),
    Live(T),
}

struct Slot<T> {
    generation: u32,
    entry: Entry<T>,
}

/// A table of `T` by [`ConnId`].
pub(super) struct Slots<T> {
    chunks: Vec<Box<[Slot<T>]>>,
    free: u32,
    live: usize,
}

impl<T> Slots<T> {
    /// Bytes that one connection costs here.
    pub(super) const SLOT_BYTES: usize = size_of::<Slot<T>>();

    pub(super) fn new() -> Slots<T> {
        Slots { chunks: Vec::new(), free: NIL, live: 0 }
    }

    /// Connections in use.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Slots that exist, used or not.
    pub(super) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK_SLOTS
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.capacity() * Self::SLOT_BYTES + self.chunks.capacity() * size_of::<Box<[Slot<T>]>>()
    }

    #[inline]
    fn slot(&self, conn: ConnId) -> Option<&Slot<T>> {
        let index = conn.index as usize;
        self.chunks.get(index / CHUNK_SLOTS).map(|chunk| &chunk[index % CHUNK_SLOTS])
    }

    #[inline]
    pub(super) fn get(&self, conn: ConnId) -> Option<&T> {
        match self.slot(conn) {
            Some(Slot { generation, entry: Entry::Live(value) }) if *generation == conn.generation => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, conn: ConnId) -> Option<&mut T> {
        let index = conn.index as usize;
        match self.chunks.get_mut(index / CHUNK_SLOTS).map(|chunk| &mut chunk[index % CHUNK_SLOTS]) {
            Some(Slot { generation, entry: Entry::Live(value) }) if *generation == conn.generation => Some(value),
            _ => None,
        }
    }

    /// The id that the next [`Slots::insert`] gives out; adds a chunk when all slots are in use. `None`: no slot is left.
    pub(super) fn next_id(&mut self) -> Option<ConnId> {
        if self.free == NIL {
            self.grow()?;
        }
        let index = self.free;
        let slot = &self.chunks[index as usize / CHUNK_SLOTS][index as usize % CHUNK_SLOTS];
        Some(ConnId { index, generation: slot.generation })
    }

    /// Stores `value` under the id that `next_id` gave.
    pub(super) fn insert(&mut self, conn: ConnId, value: T) {
        debug_assert_eq!(self.free, conn.index);
        let slot = &mut self.chunks[conn.index as usize / CHUNK_SLOTS][conn.index as usize % CHUNK_SLOTS];
        debug_assert_eq!(slot.generation, conn.generation);
        let Entry::Free(next) = slot.entry else { panic!("slot {} is in use", conn.index) };
        slot.entry = Entry::Live(value);
        self.free = next;
        self.live += 1;
    }

    /// Takes the value out; the id is dead from now on.
    pub(super) fn remove(&mut self, conn: ConnId) -> Option<T> {
        self.get(conn)?;
        let slot = &mut self.chunks[conn.index as usize / CHUNK_SLOTS][conn.index as usize % CHUNK_SLOTS];
        let Entry::Live(value) = std::mem::replace(&mut slot.entry, Entry::Free(NIL)) else { return None };
        self.live -= 1;
        // A slot after 2^32 connections is given up: some bytes once in a very long while, against a stale id that finds a stranger.
        if let Some(generation) = slot.generation.checked_add(1) {
            slot.generation = generation;
            slot.entry = Entry::Free(self.free);
            self.free = conn.index;
        }
        Some(value)
    }

    /// Every live id, in order of the index.
    pub(super) fn ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.chunks.iter().flatten().zip(0u32..).filter_map(|(slot, index)| {
            matches!(slot.entry, Entry::Live(_)).then_some(ConnId { index, generation: slot.generation })
        })
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<()> {
        let first = self.capacity();
        if first >= SLOTS_MAX {
            return None;
        }
        let end = u32::try_from(first + CHUNK_SLOTS).ok()?;
        let chunk = (u32::try_from(first).ok()?..end)
            .map(|index| Slot { generation: 0, entry: Entry::Free(if index + 1 == end { NIL } else { index + 1 }) })
            .collect();
        self.free = u32::try_from(first).ok()?;
        self.chunks.push(chunk);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    proptest! {
        #[test]
        fn behaves_like_a_map_of_ids(program in proptest::collection::vec((any::<bool>(), any::<usize>()), 1..600)) {
            let mut slots = Slots::new();
            let mut model: HashMap<ConnId, usize> = HashMap::new();
            let mut dead = HashSet::new();
            for (step, (add, pick)) in program.into_iter().enumerate() {
                if add || model.is_empty() {
                    let id = slots.next_id().unwrap();
                    slots.insert(id, step);
                    prop_assert!(model.insert(id, step).is_none());
                    prop_assert!(!dead.contains(&id), "an id was used again");
                } else {
                    let mut ids: Vec<ConnId> = model.keys().copied().collect();
                    ids.sort_by_key(|id| (id.index, id.generation));
                    let id = ids[pick % ids.len()];
                    prop_assert_eq!(slots.remove(id), model.remove(&id));
                    dead.insert(id);
                }
                prop_assert_eq!(slots.len(), model.len());
            }
            for id in dead {
                prop_assert!(slots.get(id).is_none() && slots.get_mut(id).is_none() && slots.remove(id).is_none());
            }
            for (id, value) in &model {
                prop_assert_eq!(slots.get(*id), Some(value));
            }
            prop_assert_eq!(slots.ids().count(), model.len());
        }
    }

    #[test]
    fn a_used_up_generation_retires_the_slot() {
        let mut slots = Slots::new();
        let id = slots.next_id().unwrap();
        slots.insert(id, 1);
        slots.chunks[0][0].generation = u32::MAX;
        let last = ConnId { index: 0, generation: u32::MAX };
        assert_eq!(slots.remove(last), Some(1));
        assert_ne!(slots.next_id().unwrap().index, 0);
        assert!(slots.get(last).is_none());
    }

    #[test]
    fn ids_beyond_the_chunks_are_unknown() {
        let slots: Slots<u8> = Slots::new();
        assert!(slots.get(ConnId { index: u32::MAX, generation: 0 }).is_none());
    }
}
