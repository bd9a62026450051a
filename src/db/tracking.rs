//! Keys that clients have read and may have cached (client-side caching): who is to be told when one of them changes.
//!
//! ```text
//!   shard:  hash ──▶ entry | name | readers: client and worker, ascending |      at most `keys_max` in all shards
//! ```
//! A change takes the entry out, so a reader is told once, and again only if it has read again. A key is known by its name, whatever the database, as
//! in Redis. Clients are known by number here; whether one still wants to know is looked at where it is told.
//!
//! Invariant: an entry is made under the lock of the key's shard, before its reader reads it; so no change after the read is missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A client, and the worker that it belongs to.
///
/// ```text
/// 63                  10 9        0
/// | number of the client | worker |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reader(u64);

const WORKER_BITS: u32 = 10;

impl Reader {
    #[must_use]
    pub fn new(client: u64, worker: usize) -> Reader {
        debug_assert!(worker < 1 << WORKER_BITS && client < 1 << (64 - WORKER_BITS));
        Reader(client << WORKER_BITS | worker as u64)
    }

    #[must_use]
    pub fn client(self) -> u64 {
        self.0 >> WORKER_BITS
    }

    #[must_use]
    pub fn worker(self) -> usize {
        (self.0 & ((1 << WORKER_BITS) - 1)) as usize
    }
}

/// Of all shards and workers together.
#[derive(Debug, Default)]
pub struct Totals {
    /// Clients that track.
    pub clients: AtomicU64,
    /// Those that are told of every change of names that begin as they asked.
    pub broadcasts: AtomicU64,
    pub keys: AtomicU64,
    /// Readers of all keys.
    pub items: AtomicU64,
    /// The most keys there may be; 0: any number.
    pub keys_max: AtomicU64,
    /// The position of the next change that is logged (`journal`).
    pub position: AtomicU64,
}

impl Totals {
    fn is_over(&self) -> bool {
        let max = self.keys_max.load(Ordering::Relaxed);
        max > 0 && self.keys.load(Ordering::Relaxed) > max
    }
}

/// A key that was read.
#[derive(Debug)]
pub(super) struct Entry {
    hash: u64,
    pub(super) name: Box<[u8]>,
    pub(super) readers: Vec<Reader>,
}

/// The keys of a shard that may be cached.
#[derive(Default)]
pub(super) struct Tracked {
    entries: Vec<Entry>,
    /// Hash to place.
    places: HashMap<u64, usize>,
    pub(super) totals: Arc<Totals>,
}

impl Tracked {
    pub(super) fn counted_in(totals: Arc<Totals>) -> Tracked {
        Tracked { totals, ..Tracked::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A client reads a key. What must go for it is shown to `gone`.
    pub(super) fn mark(&mut self, hash: u64, name: &[u8], reader: Reader, mut gone: impl FnMut(Entry)) {
        if let Some(&place) = self.places.get(&hash) {
            let entry = &mut self.entries[place];
            if *entry.name == *name {
                if let Err(at) = entry.readers.binary_search(&reader) {
                    entry.readers.insert(at, reader);
                    self.totals.items.fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
            // Another name of the same hash.
            gone(self.remove(place));
        }
        self.places.insert(hash, self.entries.len());
        self.entries.push(Entry { hash, name: name.into(), readers: vec![reader] });
        self.totals.keys.fetch_add(1, Ordering::Relaxed);
        self.totals.items.fetch_add(1, Ordering::Relaxed);
        // Two for one, so that a lower limit is reached some time.
        for _ in 0..2 {
            if let Some(entry) = self.evict(hash) {
                gone(entry);
            }
        }
    }

    /// If there are too many: takes one out, which one says `chance`.
    pub(super) fn evict(&mut self, chance: u64) -> Option<Entry> {
        if !self.totals.is_over() || self.entries.is_empty() {
            return None;
        }
        // The last one is the latest.
        let others = (self.entries.len() - 1).max(1);
        let place = usize::try_from((chance >> 16) % others as u64).unwrap_or(0);
        Some(self.remove(place))
    }

    /// A key has changed.
    pub(super) fn take(&mut self, hash: u64, name: &[u8]) -> Option<Entry> {
        let place = *self.places.get(&hash)?;
        (*self.entries[place].name == *name).then(|| self.remove(place))
    }

    fn remove(&mut self, place: usize) -> Entry {
        let entry = self.entries.swap_remove(place);
        self.places.remove(&entry.hash);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(moved.hash, place);
        }
        self.totals.keys.fetch_sub(1, Ordering::Relaxed);
        self.totals.items.fetch_sub(entry.readers.len() as u64, Ordering::Relaxed);
        if self.entries.is_empty() {
            // Many may have been there at some time.
            (self.entries, self.places) = (Vec::new(), HashMap::new());
        }
        entry
    }

    /// All keys have gone.
    pub(super) fn clear(&mut self) {
        let readers: usize = self.entries.iter().map(|entry| entry.readers.len()).sum();
        self.totals.keys.fetch_sub(self.entries.len() as u64, Ordering::Relaxed);
        self.totals.items.fetch_sub(readers as u64, Ordering::Relaxed);
        (self.entries, self.places) = (Vec::new(), HashMap::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn readers_are_packed() {
        let reader = Reader::new(123_456_789, 1023);
        assert_eq!((reader.client(), reader.worker()), (123_456_789, 1023));
        assert_eq!((Reader::new(1, 0).client(), Reader::new(1, 0).worker()), (1, 0));
    }

    proptest! {
        /// Against a map from names to readers; few hashes, so that names collide.
        #[test]
        fn as_a_map(program in proptest::collection::vec((0u8..4, 0u8..12, 1u64..4), 0..200), keys_max in 0u64..8) {
            let mut tracked = Tracked::default();
            tracked.totals.keys_max.store(keys_max, Ordering::Relaxed);
            let mut model: BTreeMap<u8, BTreeSet<u64>> = BTreeMap::new();
            for (what, name, client) in program {
                let hash = u64::from(name / 2) << 16;
                match what {
                    0 => {
                        let taken = tracked.take(hash, &[name]).map(|entry| entry.readers.iter().map(|r| r.client()).collect());
                        prop_assert_eq!(taken, model.remove(&name));
                    }
                    _ => {
                        let mut gone = Vec::new();
                        tracked.mark(hash, &[name], Reader::new(client, 5), |entry| gone.push(entry));
                        model.entry(name).or_default().insert(client);
                        for entry in gone {
                            let readers: BTreeSet<u64> = entry.readers.iter().map(|r| r.client()).collect();
                            prop_assert_eq!(model.remove(&entry.name[0]), Some(readers));
                        }
                    }
                }
                let of = |total: &AtomicU64| usize::try_from(total.load(Ordering::Relaxed)).expect("small");
                prop_assert_eq!(of(&tracked.totals.keys), model.len());
                prop_assert_eq!(of(&tracked.totals.items), model.values().map(BTreeSet::len).sum::<usize>());
                prop_assert!(keys_max == 0 || model.len() as u64 <= keys_max);
            }
            tracked.clear();
            prop_assert_eq!(tracked.totals.items.load(Ordering::Relaxed), 0);
        }
    }
}
