//! Who listens, on which worker: counted by channel and pattern, for all workers. A publisher learns from it where its message must go, and how
//! many clients get it.
//!
//! A name is counted before its SUBSCRIBE is answered, so whoever publishes after that reaches the subscriber.

use super::Kind;
use super::patterns::Patterns;
use crate::base::hash::Seeded;
use crate::base::hash::hash_key;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Parts of the names, each with its own lock.
const PARTS: usize = 64;
/// Any seed does: a client that makes all names fall into one part only makes its lock busier.
const SEED: u64 = 0;

/// How many clients of each worker: few workers have any.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Counts(Vec<(u32, u32)>);

impl Counts {
    pub(super) fn add(&mut self, worker: usize) {
        match self.of(worker) {
            Some(count) => *count += 1,
            None => self.0.push((number(worker), 1)),
        }
    }

    /// True: nobody is left.
    pub(super) fn remove(&mut self, worker: usize) -> bool {
        if let Some(count) = self.of(worker) {
            *count -= 1;
        }
        self.0.retain(|entry| entry.1 > 0);
        self.0.is_empty()
    }

    fn of(&mut self, worker: usize) -> Option<&mut u32> {
        let worker = number(worker);
        self.0.iter_mut().find(|entry| entry.0 == worker).map(|entry| &mut entry.1)
    }

    pub(super) fn total(&self) -> usize {
        self.0.iter().map(|entry| entry.1 as usize).sum()
    }
}

fn number(worker: usize) -> u32 {
    u32::try_from(worker).unwrap_or(u32::MAX)
}

/// Who gets a message.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Audience {
    workers: Vec<u32>,
    count: usize,
    /// That match the channel.
    pub patterns: Vec<Arc<[u8]>>,
}

impl Audience {
    /// Workers that have some of them, each once.
    pub fn workers(&self) -> impl Iterator<Item = usize> {
        self.workers.iter().map(|worker| *worker as usize)
    }

    /// How many times it is delivered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, counts: &Counts) {
        for (worker, count) in &counts.0 {
            self.count += *count as usize;
            if !self.workers.contains(worker) {
                self.workers.push(*worker);
            }
        }
    }
}

type Names = HashMap<Box<[u8]>, Counts, Seeded>;

/// Names with their counts, in parts.
struct Space([RwLock<Names>; PARTS]);

impl Default for Space {
    fn default() -> Space {
        Space(std::array::from_fn(|_| RwLock::default()))
    }
}

impl Space {
    fn part(&self, name: &[u8]) -> &RwLock<Names> {
        let [part, ..] = hash_key(SEED, name).to_le_bytes();
        &self.0[usize::from(part) % PARTS]
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// The subscriptions of a server.
#[derive(Default)]
pub struct Registry {
    channels: Space,
    shard_channels: Space,
    patterns: RwLock<Patterns>,
    /// Clients who are shown every command.
    pub(super) watchers: AtomicUsize,
}

impl Registry {
    fn space(&self, kind: Kind) -> &Space {
        if kind == Kind::Shard { &self.shard_channels } else { &self.channels }
    }

    /// A client of `worker` subscribes.
    pub fn add(&self, worker: usize, kind: Kind, name: &[u8]) {
        if kind == Kind::Pattern {
            return write(&self.patterns).add(worker, name);
        }
        let mut names = write(self.space(kind).part(name));
        match names.get_mut(name) {
            Some(counts) => counts.add(worker),
            None => names.entry(name.into()).or_default().add(worker),
        }
    }

    /// A client of `worker` subscribes no more.
    pub fn remove(&self, worker: usize, kind: Kind, name: &[u8]) {
        if kind == Kind::Pattern {
            return write(&self.patterns).remove(worker, name);
        }
        let mut names = write(self.space(kind).part(name));
        if names.get_mut(name).is_some_and(|counts| counts.remove(worker)) {
            names.remove(name);
        }
    }

    /// Who gets a message to a channel (`kind` is no pattern).
    #[must_use]
    pub fn audience(&self, kind: Kind, channel: &[u8]) -> Audience {
        let mut audience = Audience::default();
        if let Some(counts) = read(self.space(kind).part(channel)).get(channel) {
            audience.add(counts);
        }
        if kind == Kind::Channel {
            let patterns = read(&self.patterns);
            if !patterns.is_empty() {
                patterns.matching(channel, |pattern, counts| {
                    audience.add(counts);
                    audience.patterns.push(Arc::clone(pattern));
                });
            }
        }
        audience
    }

    /// Clients that subscribe to a channel.
    #[must_use]
    pub fn subscribers(&self, kind: Kind, channel: &[u8]) -> usize {
        read(self.space(kind).part(channel)).get(channel).map_or(0, Counts::total)
    }

    /// Different channels (`kind` is no pattern).
    #[must_use]
    pub fn channels(&self, kind: Kind) -> usize {
        self.space(kind).0.iter().map(|part| read(part).len()).sum()
    }

    /// Different patterns.
    #[must_use]
    pub fn patterns(&self) -> usize {
        read(&self.patterns).len()
    }

    /// Parts to ask `part_names` for.
    pub const PARTS: usize = PARTS;

    /// Shows the names of one part of the channels.
    pub fn part_names(&self, kind: Kind, part: usize, mut visit: impl FnMut(&[u8])) {
        read(&self.space(kind).0[part]).keys().for_each(|name| visit(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audiences_count_clients_by_worker() {
        let registry = Registry::default();
        for worker in [0, 0, 3] {
            registry.add(worker, Kind::Channel, b"news");
        }
        registry.add(5, Kind::Pattern, b"n*");
        registry.add(3, Kind::Pattern, b"*s");
        registry.add(3, Kind::Shard, b"news");
        let audience = registry.audience(Kind::Channel, b"news");
        let mut workers: Vec<_> = audience.workers().collect();
        workers.sort_unstable();
        assert_eq!((workers, audience.count(), audience.patterns.len()), (vec![0, 3, 5], 5, 2));
        assert_eq!(registry.audience(Kind::Shard, b"news").count(), 1, "names of their own, without patterns");
        registry.remove(0, Kind::Channel, b"news");
        assert_eq!(registry.subscribers(Kind::Channel, b"news"), 2);
        registry.remove(0, Kind::Channel, b"news");
        registry.remove(3, Kind::Channel, b"news");
        let mut names = 0;
        (0..Registry::PARTS).for_each(|part| registry.part_names(Kind::Channel, part, |_| names += 1));
        assert_eq!((names, registry.patterns()), (0, 2));
    }
}
