//! What a log of changes (the append-only file) has to know of this layer: the order of changes, and keys that go by themselves.
//!
//! ```text
//!   a command, under the locks of its keys ──▶ the next position ──▶ written by the worker (`cmd::journal`)
//!   a key or field expires, a key is evicted ──▶ the next position, a note with it ──▶ taken by the worker, before its next entry
//! ```
//! Positions are given under the locks under which the change was made, to all workers from one counter. So changes of one key have them in their
//! order, and each position is an entry of the log.

use super::Db;
use super::event::Event;
use super::item::Key;
use super::listeners::{LOGGED, Listeners};
use std::sync::atomic::Ordering;

/// Something that has gone without a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gone {
    pub position: u64,
    pub database: usize,
    pub key: Box<[u8]>,
    /// Of a hash; none: the key has gone.
    pub fields: Vec<Box<[u8]>>,
}

impl Listeners {
    /// From now on what goes by itself is noted, or not. Under the locks of all shards.
    pub fn set_logged(&mut self, on: bool) {
        self.wanted = if on { self.wanted | LOGGED } else { self.wanted & !LOGGED };
    }

    /// Is what goes by itself noted?
    #[inline(always)]
    pub(super) fn is_logged(&self) -> bool {
        self.wanted & LOGGED != 0
    }

    /// Does nobody want to know of an event but the log, which has its command?
    #[inline(always)]
    pub(super) fn is_only_logged(&self, event: Event) -> bool {
        self.wanted == LOGGED && !matches!(event, Event::Expired | Event::Evicted)
    }

    /// Notes what has gone.
    #[cold]
    #[inline(never)]
    pub(super) fn note_gone(&mut self, database: usize, key: &[u8], fields: Vec<Box<[u8]>>) {
        let position = self.totals().position.fetch_add(1, Ordering::AcqRel);
        self.gone.push(Gone { position, database, key: key.into(), fields });
    }

    /// The same for an event that is one of a key that goes by itself.
    pub(super) fn note_if_gone(&mut self, database: usize, event: Event, key: &[u8]) {
        if self.is_logged() && matches!(event, Event::Expired | Event::Evicted) {
            self.note_gone(database, key, Vec::new());
        }
    }
}

impl Db<'_> {
    /// The position of a change that was made under the present locks.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.totals().position.fetch_add(1, Ordering::AcqRel)
    }

    /// The position that comes next. It stays so only under the locks of all shards.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.totals().position.load(Ordering::Acquire)
    }

    /// Notes fields of a hash that have expired.
    pub fn note_fields_gone(&mut self, key: Key<'_>, fields: Vec<Box<[u8]>>) {
        if !fields.is_empty() {
            self.enter(key.hash);
            self.shard.listeners.note_gone(self.index, key.bytes, fields);
            self.gather_news();
        }
    }

    /// What has gone since the last call, in order.
    #[inline]
    pub fn take_gone(&mut self) -> Vec<Gone> {
        match &mut self.locks {
            None => std::mem::take(&mut self.shard.listeners.gone),
            Some(locks) => std::mem::take(&mut locks.gone),
        }
    }
}
