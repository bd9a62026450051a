//! `allkeys-smart` in the keyspace: what `dolmen_policy` learns of items, told to it where items come, are used and go. Owns the learning of a
//! shard; what an item is worth is decided there.
//!
//! One [`Model`] is shared by all shards, behind a lock that a shard takes once for a sixteenth of its share that comes in. Ghosts, of what has gone,
//! take a byte a key; there are none before the first key goes.

use super::containers::Containers;
use super::item::{Item, Type};
use dolmen_policy::{Model, Shard as Learner, Threshold};
use dolmen_slab::Slab;
use std::sync::{Arc, Mutex, PoisonError};

/// What an item takes in its table, about.
pub(super) const PLACE_BYTES: u64 = 7;

/// What a shard has learned.
pub(super) struct Smart {
    learner: Learner,
    threshold: Threshold,
    model: Arc<Mutex<Model>>,
    /// Keys that there were when room for ghosts was made.
    ghosts_for: usize,
}

impl Smart {
    /// Of a shard that may grow to so many bytes.
    pub(super) fn new(share_bytes: u64, model: Arc<Mutex<Model>>) -> Smart {
        Smart { learner: Learner::new(share_bytes, 0), threshold: Threshold::default(), model, ghosts_for: 0 }
    }

    /// The limit was changed.
    pub(super) fn resize(&mut self, share_bytes: u64) {
        self.learner.resize(share_bytes);
    }

    /// Memory outside of the slab, in bytes.
    pub(super) fn heap_bytes(&self) -> u64 {
        (size_of::<Smart>() + self.learner.bytes()) as u64
    }

    /// What the words of items that were used in this tick have in common: the tick, and which bits it is.
    pub(super) fn fresh_words(&self) -> (u32, u32) {
        self.learner.fresh_words()
    }

    /// The access word of an item that was used just now.
    pub(super) fn used(&mut self, word: u32, bytes: impl FnOnce() -> u64) -> u32 {
        if self.learner.is_fresh(word) { word } else { self.learner.used(word, bytes(), &self.threshold) }
    }

    /// The access word of a new item.
    pub(super) fn inserted(&mut self, hash: u64, bytes: u64) -> u32 {
        let word = self.learner.inserted(hash, bytes);
        self.learn();
        word
    }

    /// So much was written over what was there.
    pub(super) fn came_in(&mut self, bytes: u64) {
        self.learner.came_in(bytes);
        self.learn();
    }

    fn learn(&mut self) {
        if self.learner.is_due() {
            self.learner.learn(&mut self.model.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Is an item worth least? If not: its word, as it is to be from now on.
    pub(super) fn judge(&mut self, word: u32, bytes: u64) -> Result<u32, Gone> {
        if self.learner.judge_each(word, bytes, &mut self.threshold) { Err(Gone) } else { Ok(self.learner.aged(word)) }
    }

    /// An item goes, one of so many.
    pub(super) fn evicted(&mut self, hash: u64, word: u32, keys: usize) {
        if self.ghosts_for == 0 || keys > 2 * self.ghosts_for {
            self.ghosts_for = keys.max(1);
            self.learner.set_ghosts(keys / 2);
        }
        self.learner.evicted(hash, word);
    }
}

/// An item is to go.
pub(super) struct Gone;

/// All that an item takes, in bytes.
pub(super) fn weight(slab: &Slab, containers: &Containers, item: Item<'_>) -> u64 {
    let container = match item.kind() {
        Type::String => 0,
        _ => item.container().map_or(0, |id| containers.bytes(id)),
    };
    item.held_bytes(slab) + container + PLACE_BYTES
}
