//! Which hashes lose fields when: for each database of a shard, the hashes that have fields with deadlines, by the earliest of them. Owns when a hash
//! is looked at; of its fields it knows nothing more, and the hash itself says what has expired.
//!
//! A hash is known by the hash of its key's name, and has one entry at most. That is never later than its earliest deadline; it may be earlier (the
//! deadline was put off, the field or the key is gone), and then says nothing: when its time has come the hash is looked at, and has another
//! entry or none. So what renames, replaces or removes keys need not care about the entries left behind, only about the hash that comes to a
//! name ([`Db::arm_fields`]). When entries have become many, those of hashes that are gone are swept out, in slices.

use super::collections::{Missing, look_at};
use super::event::Event;
use super::item::{Key, Type};
use super::view::{Db, Found};
use super::{Database, Shard, item_at};
use crate::table::Site;
use crate::types::hash::Hash;
use std::collections::{BTreeMap, BTreeSet};

/// Hashes looked at, and fields removed, in a unit of background work.
const UNIT: usize = 32;
/// Entries above twice those that the last sweep has left, before the next one.
const SWEEP_SLACK: usize = 1024;
/// A hash that cannot be changed now is tried again after so long.
const RETRY_MS: u64 = 10;
/// Memory of an entry in bytes: 8 in `due`, 16 in `order`, and the deadline; in nodes of trees that are two thirds full.
const ENTRY_BYTES: u64 = 54;

/// When the hashes of a database are to be looked at.
#[derive(Default)]
pub(super) struct FieldDeadlines {
    /// By the hash of the name: when.
    due: BTreeMap<u64, u64>,
    /// The same by time.
    order: BTreeSet<(u64, u64)>,
    /// Entries left by the last sweep.
    swept: usize,
    /// Where a sweep goes on.
    sweep: Option<u64>,
}

impl FieldDeadlines {
    /// Sees to it that a hash is looked at by `due_ms`.
    fn arm(&mut self, hash: u64, due_ms: u64) {
        match self.due.insert(hash, due_ms) {
            Some(old_ms) if old_ms <= due_ms => {
                self.due.insert(hash, old_ms);
            }
            old_ms => {
                if let Some(old_ms) = old_ms {
                    self.order.remove(&(old_ms, hash));
                }
                self.order.insert((due_ms, hash));
            }
        }
    }

    /// Takes out the first entry whose time has come.
    fn pop_due(&mut self, now_ms: u64) -> Option<u64> {
        let (due_ms, hash) = *self.order.first().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.order.remove(&(due_ms, hash));
        self.due.remove(&hash);
        Some(hash)
    }

    fn remove(&mut self, hash: u64) {
        if let Some(due_ms) = self.due.remove(&hash) {
            self.order.remove(&(due_ms, hash));
        }
    }

    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.order.first().map(|(due_ms, _)| *due_ms)
    }

    /// Frees some entries; true: there are more.
    pub(super) fn drain(&mut self, budget: usize) -> bool {
        for _ in 0..budget {
            self.due.pop_first();
            self.order.pop_first();
        }
        !self.order.is_empty()
    }

    /// Memory in bytes, about.
    pub(super) fn heap_bytes(&self) -> u64 {
        self.order.len() as u64 * ENTRY_BYTES
    }
}

/// The hash whose name has this hash.
fn find_hash(shard: &Shard, index: usize, hash: u64) -> Option<Found> {
    let Shard { slab, databases, seed, .. } = shard;
    let table = &databases[index].table;
    let slot = table.find(slab, hash, |h| {
        let item = item_at(slab, h);
        item.kind() == Type::Hash && item.hash(*seed) == hash
    })?;
    Some(Found { slot, handle: table.handle(slot) })
}

impl Shard {
    /// The earliest deadline of the fields of an item that is a hash.
    fn earliest_field_ms(&self, found: Found) -> u64 {
        let item = item_at(&self.slab, found.handle);
        look_at::<Hash>(&self.slab, &self.containers, item).map_or(u64::MAX, |look| look.earliest_ms())
    }

    /// Removes some fields whose deadlines have come from the hashes of a database. True: there is more to do now.
    pub(super) fn expire_fields(&mut self, index: usize, now_ms: u64) -> bool {
        let mut left = UNIT;
        while left > 0 {
            let Some(fields) = &mut self.databases[index].fields else { return false };
            let Some(hash) = fields.pop_due(now_ms) else { break };
            let expired = Db::new(self, index, now_ms).expire_fields_of(hash, left);
            left = left.saturating_sub(expired.max(1));
        }
        let swept = left > 0 && self.sweep_fields(index);
        let Some(fields) = &mut self.databases[index].fields else { return false };
        if fields.order.is_empty() {
            self.databases[index].fields = None;
            return false;
        }
        swept || fields.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms)
    }

    /// Drops entries of hashes that are gone, when there are many. True: it goes on.
    fn sweep_fields(&mut self, index: usize) -> bool {
        let Some(fields) = &mut self.databases[index].fields else { return false };
        let from = match fields.sweep {
            Some(from) => from,
            None if fields.due.len() > 2 * fields.swept + SWEEP_SLACK => 0,
            None => return false,
        };
        let hashes: Vec<u64> = fields.due.range(from..).take(UNIT).map(|(hash, _)| *hash).collect();
        let has_timed =
            |hash| find_hash(self, index, hash).is_some_and(|found| self.earliest_field_ms(found) != u64::MAX);
        let gone: Vec<u64> = hashes.iter().copied().filter(|hash| !has_timed(*hash)).collect();
        let Some(fields) = &mut self.databases[index].fields else { return false };
        gone.into_iter().for_each(|hash| fields.remove(hash));
        fields.sweep = hashes.last().filter(|_| hashes.len() == UNIT).and_then(|last| last.checked_add(1));
        if fields.sweep.is_none() {
            fields.swept = fields.due.len();
        }
        fields.sweep.is_some()
    }
}

impl Database {
    #[inline]
    fn arm_fields_at(&mut self, hash: u64, due_ms: u64) {
        if due_ms != u64::MAX {
            self.fields.get_or_insert_default().arm(hash, due_ms);
        }
    }
}

impl Db<'_> {
    /// A container whose first element to expire does so at `due_ms` (`u64::MAX`: none does) lies at a key of this database now.
    #[inline]
    pub(super) fn arm_fields_at(&mut self, hash: u64, due_ms: u64) {
        self.shard.databases[self.index].arm_fields_at(hash, due_ms);
    }

    /// Does a key hold a hash with a field that has a deadline?
    pub fn has_timed_fields(&mut self, key: Key<'_>) -> bool {
        let Some(found) = self.find(key) else { return false };
        self.item(found.handle).kind() == Type::Hash && self.shard.earliest_field_ms(found) != u64::MAX
    }

    /// A value has come to a key from elsewhere: has its fields expire in time, if it is a hash with such.
    pub fn arm_fields(&mut self, key: Key<'_>) {
        if let Some(found) = self.find(key)
            && self.item(found.handle).kind() == Type::Hash
        {
            let due_ms = self.shard.earliest_field_ms(found);
            self.arm_fields_at(key.hash, due_ms);
        }
    }

    /// So many fields of the hash that was changed last have gone as their deadlines had come.
    pub fn count_expired_fields(&mut self, fields: usize) {
        self.shard.stats.expired_fields += fields as u64;
    }

    /// Removes fields of a hash whose deadlines have come, of a big one `budget` at most; their number. It is armed anew.
    fn expire_fields_of(&mut self, hash: u64, budget: usize) -> usize {
        let (index, now_ms) = (self.index, self.now_ms);
        let Some(found) = find_hash(self.shard, index, hash) else { return 0 };
        let due_ms = self.shard.earliest_field_ms(found);
        if due_ms > now_ms {
            self.arm_fields_at(hash, due_ms);
            return 0;
        }
        // A key whose own deadline has come goes as a whole.
        if self.item(found.handle).deadline_ms() <= now_ms || self.shard.holds.blocks(index, hash, true) {
            self.arm_fields_at(hash, now_ms + RETRY_MS);
            return 0;
        }
        let mut name = Vec::new();
        self.item(found.handle).append_key(&self.shard.slab, &mut name);
        let key = Key { bytes: &name, hash, site: Site::NONE };
        self.set_untouching(true);
        let (mut expired, mut emptied) = (0, false);
        let mut gone = self.shard.listeners.is_logged().then(Vec::new);
        let done = self.edit::<Hash, _>(key, Missing::Skip, |edit| {
            expired = edit.expire_noting(now_ms, budget, gone.as_mut());
            emptied = edit.look().is_empty();
            Ok(())
        });
        if done.is_err() {
            // Under a snapshot there must be memory for a copy.
            self.arm_fields_at(hash, now_ms + RETRY_MS);
            return 0;
        }
        self.count_expired_fields(expired);
        self.note_fields_gone(key, gone.unwrap_or_default());
        self.mark_changed(index, hash);
        if !self.shard.listeners.is_idle() {
            self.tell(index, Event::HExpired, key, 0);
            if emptied {
                self.tell(index, Event::Del, key, 0);
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests;
