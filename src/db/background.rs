//! Work of a shard between requests, in small units: expiry on time, growth and shrinking of tables, emptying of flushed databases,
//! freeing of huge values, giving memory back. Whoever calls decides how long it may take; each unit takes some microseconds.
#![allow(unsafe_code)]

use super::item::{self, Expiry};
use super::view::free_item;
use super::{Database, ItemHash, Shard, item_at};
use dolmen_slab::{Handle, Kind};
use std::mem;

/// Units of one round: entries of a wheel, segments of a table, items of a flushed database, extents of huge values, spans.
const EXPIRE_UNIT: usize = 32;
const DRAIN_UNIT: usize = 64;
const FREE_UNIT: usize = 4;
const EVACUATE_UNIT_BYTES: usize = 16 * 1024;

/// What the wheel keeps of a key: the top half of its hash, by which the table finds the candidates again.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the upper half")]
pub(super) fn prefix(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Shard {
    /// Replaces a database by an empty one; the old one is emptied by `background`. Returns how many keys it had.
    pub(super) fn detach(&mut self, index: usize) -> usize {
        let fresh = Database::new(self.seed);
        let old = mem::replace(&mut self.databases[index], fresh);
        let keys = old.len();
        if keys > 0 || old.wheel.is_some() {
            self.detached.push_back(old);
            self.detached_total += 1;
        }
        keys
    }

    /// Empties all databases; the memory is given back in slices. Returns how many keys there were.
    pub fn flush_all(&mut self) -> usize {
        (0..self.databases.len()).map(|i| self.detach(i)).sum()
    }

    /// A mark that `is_drained` will answer when everything flushed so far has been given back.
    #[must_use]
    pub fn flush_mark(&self) -> u64 {
        self.detached_total
    }

    #[must_use]
    pub fn is_drained(&self, mark: u64) -> bool {
        self.drained_total >= mark
    }

    /// Flushed or deleted, not yet given back: databases in the queue.
    #[must_use]
    pub fn lazy_pending(&self) -> usize {
        self.detached.iter().map(Database::len).sum()
    }

    /// When the next deadline may be due, in Unix milliseconds.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.databases.iter().filter_map(|d| d.wheel.as_ref()?.next_due_ms()).min()
    }

    /// Works in rounds of small units until nothing is left to do now (false) or `time_left` says no (true: call again soon).
    /// `sweep` also looks for memory worth evacuating; some times a second is enough.
    pub fn background(&mut self, now_ms: u64, sweep: bool, mut time_left: impl FnMut() -> bool) -> bool {
        if sweep && self.evacuation.is_none() {
            self.evacuation = self.slab.pick_victim();
        }
        loop {
            let mut pending = false;
            for index in 0..self.databases.len() {
                pending |= self.expire_some(index, now_ms);
                let Shard { slab, databases, seed, .. } = &mut *self;
                pending |= databases[index].table.maintain(slab, &ItemHash { seed: *seed }, 1);
            }
            pending |= self.drain_some();
            pending |= self.slab.drain_frees(FREE_UNIT);
            pending |= self.slab.release(now_ms, FREE_UNIT);
            pending |= self.evacuate_some();
            if !pending {
                return false;
            }
            if !time_left() {
                return true;
            }
        }
    }

    fn drain_some(&mut self) -> bool {
        let Some(database) = self.detached.front_mut() else { return false };
        let slab = &mut self.slab;
        let mut more = database.table.drain(slab, DRAIN_UNIT, free_item);
        if !more && let Some(wheel) = &mut database.wheel {
            more = wheel.drain(slab, DRAIN_UNIT);
        }
        if !more {
            self.detached.pop_front();
            self.drained_total += 1;
        }
        !self.detached.is_empty()
    }

    /// Moves some items out of the span that is being emptied.
    fn evacuate_some(&mut self) -> bool {
        let Some(mut victim) = self.evacuation.take() else { return false };
        let mut moved_bytes = 0;
        while moved_bytes < EVACUATE_UNIT_BYTES {
            let Some((from, bytes)) = self.slab.next_live(&mut victim) else {
                self.slab.finish(victim);
                self.evacuation = self.slab.pick_victim();
                return self.evacuation.is_some();
            };
            moved_bytes += bytes.max(64);
            if !self.relocate(from, bytes) {
                break;
            }
        }
        self.evacuation = Some(victim);
        true
    }

    /// Moves one item to another chunk; false if there is no memory for it.
    fn relocate(&mut self, from: Handle, bytes: usize) -> bool {
        let Shard { slab, databases, seed, .. } = &mut *self;
        let hash = item_at(slab, from).hash(*seed);
        let named = databases.iter_mut().find_map(|d| d.table.find_handle(slab, hash, from).map(|slot| (d, slot)));
        // An item of a flushed database stays where it is until it is drained.
        let Some((database, slot)) = named else { return true };
        let Ok(to) = slab.alloc(bytes, Kind::Item) else { return false };
        // SAFETY: both chunks are of the same class, hence `bytes` long; `from` is live, `to` is new. The only handle of the item is the
        // one in the table, which now names the copy.
        unsafe {
            std::ptr::copy_nonoverlapping(slab.ptr(from).as_ptr(), slab.ptr(to).as_ptr(), bytes);
            database.table.replace(slot, to);
            slab.free(from, bytes);
        }
        self.stats.relocated += 1;
        true
    }
}
