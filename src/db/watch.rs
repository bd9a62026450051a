//! Keys whose next change clients want to know of: WATCH.
//!
//! Each shard has a table of the watched keys that belong to it, by hash and database: a mark for each, which all clients share that watch
//! the key since its last change. A change sets the mark and forgets the key, however many watch it; a client looks at its marks.
//!
//! ```text
//!   shard:  (hash, database) ──▶ mark ◀── Watch, one for each key and client
//! ```
//! Knows nothing of clients. With no key watched, and nobody else listening, a change costs one look at a word (`listeners`).
//!
//! Invariants:
//! - W1. The mark of a key is set under the lock of its shard, together with the change: who has the lock and finds it clear has seen no change.
//! - W2. References to a mark of the table are made, and given back, under the lock of its shard: so the last one is known.
//!
//! Changes come from where they happen: what a command reports (`Ctx::report`), what expires (`Db::expire`, `Shard::background`),
//! what is flushed or swapped as a whole (here).

use super::event::Event;
use super::item::Key;
use super::listeners::WATCHED;
use super::view::Found;
use super::{Database, Db, Shard, item_at};
use dolmen_slab::Slab;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when the key was changed.
type Mark = AtomicBool;

/// Of one key a client's knowledge that it was not changed, see `Db::watch`; to be given back by `Db::unwatch`.
#[derive(Debug)]
#[must_use]
pub struct Watch {
    hash: u64,
    database: usize,
    mark: Arc<Mark>,
}

impl Watch {
    /// Was the key changed since? Exact under the lock of its shard, if the key was looked for before (`Db::look_at_watched`).
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.mark.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn database(&self) -> usize {
        self.database
    }
}

/// The watched keys of a shard.
#[derive(Default)]
pub struct Watches {
    marks: HashMap<(u64, usize), Arc<Mark>>,
}

impl Watches {
    /// Is no key watched?
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// A key was changed.
    #[cold]
    #[inline(never)]
    pub(super) fn touch(&mut self, database: usize, hash: u64) {
        if let Some(mark) = self.marks.remove(&(hash, database)) {
            mark.store(true, Ordering::Relaxed);
        }
        // Many may have been watched at some time.
        if self.marks.is_empty() {
            self.marks = HashMap::new();
        }
    }

    fn add(&mut self, database: usize, hash: u64) -> Watch {
        let mark = Arc::clone(self.marks.entry((hash, database)).or_default());
        Watch { hash, database, mark }
    }

    fn remove(&mut self, watch: Watch) {
        let place = (watch.hash, watch.database);
        // The table's and this one are the only references (W2).
        if let Some(mark) = self.marks.get(&place)
            && Arc::ptr_eq(mark, &watch.mark)
            && Arc::strong_count(mark) == 2
        {
            self.marks.remove(&place);
        }
    }

    /// Hashes of the watched keys of a database.
    fn of(&self, database: usize) -> Vec<u64> {
        self.marks.keys().filter(|place| place.1 == database).map(|place| place.0).collect()
    }
}

/// What has this hash in a database, alive or not. That two keys agree in all 64 bits only ends a transaction in vain.
fn find_hash(database: &Database, slab: &Slab, seed: u64, hash: u64) -> Option<Found> {
    let slot = database.table.find(slab, hash, |h| item_at(slab, h).hash(seed) == hash)?;
    Some(Found { slot, handle: database.table.handle(slot) })
}

impl Shard {
    /// All keys of a database are about to go: a change for those that are there.
    #[cold]
    #[inline(never)]
    pub(super) fn touch_present(&mut self, index: usize) {
        let Shard { slab, databases, watches, seed, .. } = &mut *self;
        for hash in watches.of(index) {
            if find_hash(&databases[index], slab, *seed, hash).is_some() {
                watches.touch(index, hash);
            }
        }
    }

    /// Two databases are about to change places: a change for the keys that are in either.
    #[cold]
    #[inline(never)]
    pub(super) fn touch_swapped(&mut self, a: usize, b: usize, now_ms: u64) {
        for (here, there) in [(a, b), (b, a)] {
            for hash in self.watches.of(here) {
                let comes = find_hash(&self.databases[there], &self.slab, self.seed, hash);
                let comes = comes.is_some_and(|found| {
                    let alive = item_at(&self.slab, found.handle).deadline_ms() > now_ms;
                    if !alive {
                        // It must not come to be found, and to expire, in the place of a key that was not there.
                        Db::new(self, there, now_ms).expire(hash, found);
                    }
                    alive
                });
                if comes || find_hash(&self.databases[here], &self.slab, self.seed, hash).is_some() {
                    self.watches.touch(here, hash);
                }
            }
        }
    }
}

impl Db<'_> {
    /// From now on a change of this key is noticed. One whose deadline has passed is none.
    pub fn watch(&mut self, key: Key<'_>) -> Watch {
        self.find(key);
        let index = self.index;
        self.shard.listeners.look_for(WATCHED, true);
        self.shard.watches.add(index, key.hash)
    }

    /// Gives back what `watch` gave.
    pub fn unwatch(&mut self, watch: Watch) {
        // A mark that is set is in no table any more.
        if !watch.is_changed() {
            self.enter(watch.hash);
            self.shard.watches.remove(watch);
        }
    }

    /// Sees to it that the watch of a key knows of its deadline, too.
    pub fn look_at_watched(&mut self, watch: &Watch, name: &[u8]) {
        if !watch.is_changed() {
            let key = self.key(name);
            self.in_database(watch.database, |db| db.find(key).is_some());
        }
    }

    /// Could somebody want to know what happens to this key? To be asked in the slice that has changed it, under the lock under which it was.
    #[inline(always)]
    #[must_use]
    pub fn is_listened_to(&mut self, hash: u64) -> bool {
        debug_assert!(self.is_locked(hash), "a change is reported under the lock under which it was made");
        self.enter(hash);
        !self.shard.listeners.is_idle()
    }

    /// Is all that is to be done of an event that it is logged, which the command is?
    #[inline]
    pub fn is_only_logged(&mut self, hash: u64, event: Event) -> bool {
        self.enter(hash);
        self.shard.listeners.is_only_logged(event) && self.shard.watches.is_empty() && self.shard.waiters.is_empty()
    }

    /// A key of a database was changed: tells those who watch it.
    pub fn mark_changed(&mut self, database: usize, hash: u64) {
        self.enter(hash);
        if !self.shard.watches.is_empty() {
            self.shard.watches.touch(database, hash);
        }
        self.shard.listeners.look_for(WATCHED, !self.shard.watches.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_shared_until_the_key_changes() {
        let mut watches = Watches::default();
        let (one, two, other) = (watches.add(0, 7), watches.add(0, 7), watches.add(1, 7));
        assert_eq!(watches.marks.len(), 2);
        watches.touch(0, 8);
        watches.touch(2, 7);
        assert!(!one.is_changed() && !two.is_changed() && !other.is_changed());
        watches.touch(0, 7);
        assert!(one.is_changed() && two.is_changed() && !other.is_changed());
        // Who begins to watch now is told of the next change only, and leaves by itself.
        let late = watches.add(0, 7);
        assert!(!late.is_changed());
        watches.remove(one);
        assert_eq!(watches.marks.len(), 2, "the mark of {two:?} is another");
        watches.remove(late);
        watches.remove(other);
        assert!(watches.is_empty());
    }

    #[test]
    fn the_last_to_leave_takes_the_key_along() {
        let mut watches = Watches::default();
        let (one, two) = (watches.add(3, 1), watches.add(3, 1));
        watches.remove(two);
        assert!(!watches.is_empty());
        watches.remove(one);
        assert!(watches.is_empty());
    }
}
