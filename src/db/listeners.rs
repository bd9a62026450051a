//! Who wants to know what becomes of the keys of a shard, and what there is to tell them: keyspace notifications.
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
use super::view::Db;
use crate::base::notify::class;

/// Something that others are to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// An event of a class that is published.
    Event { database: usize, event: Event, name: Box<[u8]> },
}

/// What is wanted of a shard, and what there is to tell.
#[derive(Default)]
pub struct Listeners {
    /// Classes of events that are published.
    wanted: u32,
    /// Which change of the settings that is from, from 1 on.
    version: u64,
    news: Vec<News>,
}

impl Listeners {
    /// Does nobody want to know anything?
    #[inline(always)]
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        self.wanted == 0
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
            self.wanted = u32::from(classes);
        }
    }

    /// The same for the settings as they are when a worker starts.
    pub fn publish_first(&mut self, classes: u16) {
        if self.version == 0 {
            self.wanted = u32::from(classes);
        }
    }

    /// Something has happened to a key.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(&mut self, database: usize, event: Event, name: &[u8]) {
        if self.wants(event.class()) {
            self.news.push(News::Event { database, event, name: name.into() });
        }
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
    pub fn tell(&mut self, database: usize, event: Event, hash: u64, name: &[u8]) {
        self.enter(hash);
        self.shard.listeners.tell(database, event, name);
        self.gather_news();
    }

    /// Something was put under this name that was there before, elsewhere or in another form: to those who are told of new keys it is one, even
    /// over another. (What `insert_new` makes it tells itself.)
    pub fn tell_new(&mut self, database: usize, key: Key<'_>) {
        self.enter(key.hash);
        if self.shard.listeners.wants(class::NEW) {
            self.tell(database, Event::New, key.hash, key.bytes);
        }
    }

    /// The news of the current shard become the worker's.
    pub(super) fn gather_news(&mut self) {
        if let Some(locks) = &mut self.locks {
            locks.news.append(&mut self.shard.listeners.news);
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
        listeners.tell(0, Event::Set, b"k");
        listeners.publish(class::STRING | class::EXPIRED, 2);
        listeners.publish(class::LIST, 1);
        for event in [Event::Set, Event::Del, Event::Expired] {
            listeners.tell(3, event, b"k");
        }
        let told = |event| News::Event { database: 3, event, name: b"k".as_slice().into() };
        assert_eq!(*listeners.news(), [told(Event::Set), told(Event::Expired)]);
        listeners.publish(0, 3);
        assert!(listeners.is_idle() && listeners.has_news());
    }
}
