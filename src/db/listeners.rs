//! Who wants to know what becomes of the keys of a shard, and what there is to tell them: keyspace notifications,
//! and changes of keys that clients have cached (`tracking`).
//!
//! ```text
//!   a change, an expiry, a miss ──▶ wanted? ──▶ news, in order ──▶ (worker) published, once a turn or before what must come behind
//! ```
//! Written under the lock of the shard; told later, by the worker that caused it, when it has no lock. With one worker its list is the shard's,
//! with several the worker's (`Locks`), so that the news of a command of several shards stay in their order.
//!
//! Knows nothing of clients. With nobody listening, a change costs one look at a word.

use super::event::Event;
use super::item::Key;
use super::journal::Gone;
use super::tracking::{Entry, Reader, Totals, Tracked};
use super::view::Db;
use crate::base::notify::class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Something that others are to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// An event of a class that is published.
    Event { database: usize, event: Event, name: Box<[u8]> },
    /// A key that these clients have read was changed, or is not looked after any more. `by`: the client that has changed it, 0 for none.
    Stale { name: Box<[u8]>, readers: Vec<Reader>, by: u64 },
    /// A key was changed, for those who are told of every change.
    Changed { name: Box<[u8]>, by: u64 },
    /// Every key of a database is gone, or another.
    Flushed,
}

/// Beside the classes of events: clients have read keys of this shard; clients are told of every change.
const READ: u32 = 1 << 16;
const BROADCAST: u32 = 1 << 17;
/// What goes by itself is noted.
pub(super) const LOGGED: u32 = 1 << 18;
/// Keys of this shard are watched, or waited for; that none is any more is seen at a change.
pub(super) const WATCHED: u32 = 1 << 19;
pub(super) const AWAITED: u32 = 1 << 20;
const CLASSES: u32 = 0xffff;

fn stale(entry: Entry, by: u64) -> News {
    News::Stale { name: entry.name, readers: entry.readers, by }
}

/// What is wanted of a shard, and what there is to tell.
#[derive(Default)]
pub struct Listeners {
    /// Classes of events that are published, and the bits above.
    pub(super) wanted: u32,
    /// Which change of the settings that is from, from 1 on.
    version: u64,
    news: Vec<News>,
    tracked: Tracked,
    /// What has gone by itself (see `journal`).
    pub(super) gone: Vec<Gone>,
}

impl Listeners {
    pub(super) fn counted_in(totals: Arc<Totals>) -> Listeners {
        Listeners { tracked: Tracked::counted_in(totals), ..Listeners::default() }
    }

    pub(super) fn totals(&self) -> &Arc<Totals> {
        &self.tracked.totals
    }

    /// Does nobody want to know anything?
    #[inline(always)]
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        self.wanted == 0
    }

    /// From now on, or no more, changes of keys are looked at for that reason.
    #[inline]
    pub(super) fn look_for(&mut self, reason: u32, looks: bool) {
        self.wanted = if looks { self.wanted | reason } else { self.wanted & !reason };
    }

    /// Are events of a class published?
    #[inline(always)]
    pub(super) fn wants(&self, class: u16) -> bool {
        self.wanted & u32::from(class) != 0
    }

    /// From now on events of these classes are published, unless a later change of the settings came first.
    pub fn publish(&mut self, classes: u16, version: u64) {
        if version > self.version {
            self.version = version;
            self.wanted = self.wanted & !CLASSES | u32::from(classes);
        }
    }

    /// Clients are told of every change from now on. That nobody is any more is seen at a change.
    pub fn broadcast(&mut self) {
        self.wanted |= BROADCAST;
    }

    /// The same for the settings as they are when a worker starts.
    pub fn publish_first(&mut self, classes: u16) {
        if self.version == 0 {
            // Clients of workers that have started before may track already.
            self.wanted = self.wanted & !CLASSES | u32::from(classes);
        }
    }

    /// Something has happened to a key; a client has done it, or (`by` is 0) none.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(&mut self, database: usize, event: Event, hash: u64, name: &[u8], by: u64) {
        self.note_if_gone(database, event, name);
        if self.wants(event.class()) {
            self.news.push(News::Event { database, event, name: name.into() });
        }
        if self.wanted & (READ | BROADCAST) != 0 && !matches!(event, Event::KeyMiss | Event::New) {
            self.tell_caches(hash, name, by);
        }
    }

    fn tell_caches(&mut self, hash: u64, name: &[u8], by: u64) {
        if let Some(entry) = self.tracked.take(hash, name) {
            self.news.push(stale(entry, by));
        }
        self.look_at_tracked();
        if self.wanted & BROADCAST != 0 {
            if self.tracked.totals.broadcasts.load(Ordering::SeqCst) > 0 {
                self.news.push(News::Changed { name: name.into(), by });
            } else {
                // Whoever comes counts first, and then sets this again.
                self.wanted &= !BROADCAST;
            }
        }
    }

    fn look_at_tracked(&mut self) {
        if self.tracked.is_empty() {
            self.wanted &= !READ;
        }
    }

    /// A client is about to read a key, and wants to know when it changes.
    pub(super) fn mark(&mut self, hash: u64, name: &[u8], reader: Reader) {
        let Listeners { tracked, news, .. } = self;
        tracked.mark(hash, name, reader, |entry| news.push(stale(entry, 0)));
        self.wanted |= READ;
        self.look_at_tracked();
    }

    /// Are keys looked after that clients have read?
    #[inline]
    pub(super) fn has_tracked(&self) -> bool {
        self.wanted & READ != 0
    }

    /// Gives up some of them if there are too many, and all if no client tracks any more. True: there are still too many.
    pub(super) fn trim(&mut self, most: usize) -> bool {
        if self.tracked.totals.clients.load(Ordering::Relaxed) == 0 {
            self.tracked.clear();
        }
        let mut left = most;
        while left > 0
            && let Some(entry) = self.tracked.evict(left as u64)
        {
            self.news.push(stale(entry, 0));
            left -= 1;
        }
        self.look_at_tracked();
        left == 0
    }

    /// What the keys of a database are is another thing now.
    pub(super) fn flushed(&mut self) {
        self.tracked.clear();
        self.look_at_tracked();
    }

    pub(super) fn news(&mut self) -> &mut Vec<News> {
        &mut self.news
    }

    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }
}

impl Db<'_> {
    /// Tells those who want to know what has happened to a key of a database; under the lock under which it did.
    #[cold]
    #[inline(never)]
    pub fn tell(&mut self, database: usize, event: Event, key: Key<'_>, by: u64) {
        self.enter(key.hash);
        self.shard.listeners.tell(database, event, key.hash, key.bytes, by);
        self.gather_news();
    }

    /// A client is about to read a key, and wants to know when it changes.
    pub fn mark_read(&mut self, key: Key<'_>, reader: Reader) {
        self.enter(key.hash);
        self.shard.listeners.mark(key.hash, key.bytes, reader);
        self.gather_news();
    }

    /// The keys of whole databases are gone, or others: tells all who track.
    pub(super) fn tell_flushed(&mut self) {
        if self.totals().clients.load(Ordering::Relaxed) > 0 {
            self.each_shard(|shard| shard.listeners.flushed());
            match &mut self.locks {
                None => self.shard.listeners.news.push(News::Flushed),
                Some(locks) => locks.news.push(News::Flushed),
            }
        }
    }

    /// What is tracked, of all shards and workers.
    #[must_use]
    pub fn totals(&self) -> &Arc<Totals> {
        match &self.locks {
            None => self.shard.listeners.totals(),
            Some(locks) => locks.keyspace().totals(),
        }
    }

    /// Something was put under this name that was there before, elsewhere or in another form: to those who are told of new keys it is one, even
    /// over another. (What `insert_new` makes it tells itself.)
    pub fn tell_new(&mut self, database: usize, key: Key<'_>) {
        self.enter(key.hash);
        if self.shard.listeners.wants(class::NEW) {
            self.tell(database, Event::New, key, 0);
        }
    }

    /// The news of the current shard become the worker's.
    pub(super) fn gather_news(&mut self) {
        if let Some(locks) = &mut self.locks {
            locks.news.append(&mut self.shard.listeners.news);
            locks.gone.append(&mut self.shard.listeners.gone);
        }
    }

    /// What there is to tell, in order.
    #[must_use]
    pub fn take_news(&mut self) -> Vec<News> {
        match &mut self.locks {
            None => std::mem::take(&mut self.shard.listeners.news),
            Some(locks) => std::mem::take(&mut locks.news),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_told() {
        let mut listeners = Listeners::default();
        assert!(listeners.is_idle());
        listeners.tell(0, Event::Set, 7, b"k", 1);
        listeners.publish(class::STRING | class::EXPIRED, 2);
        listeners.publish(class::LIST, 1);
        for event in [Event::Set, Event::Del, Event::Expired] {
            listeners.tell(3, event, 7, b"k", 1);
        }
        let told = |event| News::Event { database: 3, event, name: b"k".as_slice().into() };
        assert_eq!(*listeners.news(), [told(Event::Set), told(Event::Expired)]);
        listeners.publish(0, 3);
        assert!(listeners.is_idle() && listeners.has_news());
    }

    #[test]
    fn readers_are_told_once() {
        let mut listeners = Listeners::default();
        let reader = Reader::new(4, 0);
        listeners.totals().clients.store(1, Ordering::Relaxed);
        listeners.mark(7, b"k", reader);
        listeners.publish(class::STRING, 1);
        for event in [Event::KeyMiss, Event::New, Event::IncrBy, Event::IncrBy] {
            listeners.tell(3, event, 7, b"k", 9);
        }
        let told = News::Event { database: 3, event: Event::IncrBy, name: b"k".as_slice().into() };
        let stale = News::Stale { name: b"k".as_slice().into(), readers: vec![reader], by: 9 };
        assert_eq!(*listeners.news(), [told.clone(), stale, told]);
        listeners.publish(0, 2);
        assert!(listeners.is_idle());
        // Those who are told of all changes; that they have gone is noticed.
        listeners.news().clear();
        listeners.totals().broadcasts.store(1, Ordering::Relaxed);
        listeners.broadcast();
        listeners.tell(0, Event::Del, 7, b"k", 0);
        assert_eq!(*listeners.news(), [News::Changed { name: b"k".as_slice().into(), by: 0 }]);
        listeners.totals().broadcasts.store(0, Ordering::Relaxed);
        listeners.tell(0, Event::Del, 7, b"k", 0);
        assert!(listeners.is_idle());
    }

    #[test]
    fn what_nobody_tracks_is_given_up() {
        let mut listeners = Listeners::default();
        let totals = Arc::clone(listeners.totals());
        totals.clients.store(1, Ordering::Relaxed);
        for hash in 0..10 {
            listeners.mark(hash, &[7], Reader::new(1, 0));
        }
        listeners.publish_first(0);
        totals.keys_max.store(4, Ordering::Relaxed);
        assert!(listeners.trim(2), "more than that are to go");
        assert!(!listeners.trim(10) && listeners.has_tracked());
        assert_eq!((totals.keys.load(Ordering::Relaxed), listeners.news().len()), (4, 6));
        totals.clients.store(0, Ordering::Relaxed);
        listeners.trim(1);
        assert!(!listeners.has_tracked() && totals.keys.load(Ordering::Relaxed) == 0);
    }
}
