//! Clients that wait for a key to hold something (BLPOP and its kin): who waits for which key, in the order of arrival. Owns the lists of a shard;
//! how a client is served is the commands' (`cmd::blocking`).
//!
//! A client that waits for several keys stands in the list of each, with the same [`Waiting`], whose claim decides who has it: the command that
//! makes it possible, its time-out, CLIENT UNBLOCK, or its end. A waiter whose claim is taken is passed over, and taken out by its own
//! worker.

use super::DbError;
use super::item::{Key, Type};
use super::listeners::AWAITED;
use super::view::Db;
use crate::base::sync::claim::Claim;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An end of a list, or of a sorted set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Left, the lowest score.
    First,
    /// Right, the highest score.
    Last,
}

/// What a client waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Take {
    /// Up to `count` elements from an end.
    Pop { from: End, count: usize },
    /// The element at an end, which goes to an end of the list at another key.
    Move { from: End, to: End, destination: Box<[u8]> },
}

/// What it got.
#[derive(Debug)]
pub enum Served {
    /// Elements of the key, as a run (`base::entry`).
    Elements { key: Box<[u8]>, run: Vec<u8> },
    /// The destination holds something else, or there was no memory.
    Failed(DbError),
    /// CLIENT UNBLOCK with ERROR.
    Unblocked,
    /// So much that it takes it itself, in slices; until then the name of the key is held for it.
    Reserved { key: Box<[u8]> },
}

/// A client that waits.
#[derive(Debug)]
pub struct Waiting {
    pub claim: Claim,
    /// Its id, and its worker.
    pub client: u64,
    pub home: usize,
    pub database: usize,
    /// What a key must hold to serve it.
    pub kind: Type,
    pub take: Take,
    /// It shall look for itself: who came by could not serve it, as the destination's name was held.
    pub retry: AtomicBool,
    /// It may be served with so much that it takes it itself; set before it is claimed for that.
    pub reserves: AtomicBool,
    /// Written by who has claimed it, before it is woken.
    served: Mutex<Option<Served>>,
}

impl Waiting {
    #[must_use]
    pub fn new(client: u64, home: usize, database: usize, kind: Type, take: Take) -> Waiting {
        let (claim, retry, reserves) = (Claim::new(()), AtomicBool::new(false), AtomicBool::new(false));
        Waiting { claim, client, home, database, kind, take, retry, reserves, served: Mutex::new(None) }
    }

    /// What it got, if it did.
    pub fn served(&self) -> MutexGuard<'_, Option<Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Waiter {
    name: Box<[u8]>,
    waiting: Arc<Waiting>,
}

/// The waiters of a shard, by database and hash of the key.
#[derive(Default)]
pub struct Waiters {
    by_key: HashMap<(usize, u64), VecDeque<Waiter>>,
}

impl Waiters {
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn add(&mut self, database: usize, key: Key<'_>, waiting: Arc<Waiting>) {
        let waiter = Waiter { name: key.bytes.into(), waiting };
        self.by_key.entry((database, key.hash)).or_default().push_back(waiter);
    }

    fn remove(&mut self, database: usize, hash: u64, waiting: &Arc<Waiting>) {
        if let Some(list) = self.by_key.get_mut(&(database, hash)) {
            list.retain(|waiter| !Arc::ptr_eq(&waiter.waiting, waiting));
            if list.is_empty() {
                self.by_key.remove(&(database, hash));
            }
        }
    }

    fn first(&self, database: usize, key: Key<'_>, kind: Type) -> Option<Arc<Waiting>> {
        let list = self.by_key.get(&(database, key.hash))?;
        let serves = |waiter: &&Waiter| {
            waiter.waiting.kind == kind && *waiter.name == *key.bytes && waiter.waiting.claim.is_waiting()
        };
        list.iter().find(serves).map(|waiter| Arc::clone(&waiter.waiting))
    }

    /// Does anybody wait for the key?
    #[must_use]
    pub fn has(&self, database: usize, hash: u64) -> bool {
        self.by_key.contains_key(&(database, hash))
    }

    /// The names that somebody waits for in a database.
    pub fn names(&self, database: usize) -> impl Iterator<Item = &[u8]> {
        let of_database = self.by_key.iter().filter(move |(key, _)| key.0 == database);
        of_database.flat_map(|(_, list)| list.iter().map(|waiter| &*waiter.name))
    }
}

impl Db<'_> {
    /// A client waits for a key from now on.
    pub fn wait_for(&mut self, key: Key<'_>, waiting: &Arc<Waiting>) {
        self.enter(key.hash);
        let index = self.index;
        self.shard.listeners.look_for(AWAITED, true);
        self.shard.waiters.add(index, key, Arc::clone(waiting));
    }

    /// A client waits for a key no longer. `database`: in which it did.
    pub fn wait_no_more(&mut self, database: usize, hash: u64, waiting: &Arc<Waiting>) {
        self.enter(hash);
        self.shard.waiters.remove(database, hash, waiting);
    }

    /// Does anybody wait for this key of a database?
    #[inline(always)]
    #[must_use]
    pub fn is_waited_for(&mut self, database: usize, hash: u64) -> bool {
        self.enter(hash);
        let any = !self.shard.waiters.is_empty();
        self.shard.listeners.look_for(AWAITED, any);
        any && self.shard.waiters.has(database, hash)
    }

    /// The client that has waited longest for what the key holds now, with its type.
    pub fn first_waiter(&mut self, key: Key<'_>) -> Option<Arc<Waiting>> {
        let found = self.find(key)?;
        let kind = self.item(found.handle).kind();
        self.shard.waiters.first(self.index, key, kind)
    }

    /// Are the shards of these keys locked, so that all of them can be looked at at one instant?
    #[must_use]
    pub fn covers(&self, names: &[&[u8]]) -> bool {
        self.locks.as_ref().is_none_or(|locks| locks.covers(names))
    }

    /// Becomes the view of another database of the same keyspace.
    pub fn switch_database(&mut self, index: usize) {
        if index != self.index {
            self.look_at_database(index, Db::NOT_LOCATED);
        }
    }

    /// The type of a key, for a command that goes on to write. No read, no use.
    pub fn kind_of(&mut self, key: Key<'_>) -> Option<Type> {
        let found = self.find(key)?;
        Some(self.item(found.handle).kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::claim::By;

    fn waiting(client: u64, kind: Type) -> Arc<Waiting> {
        Arc::new(Waiting::new(client, 0, 0, kind, Take::Pop { from: End::First, count: 1 }))
    }

    fn key(bytes: &[u8], hash: u64) -> Key<'_> {
        Key { bytes, hash, site: crate::table::Site::NONE }
    }

    #[test]
    fn first_come_first_served_by_type_and_name() {
        let mut waiters = Waiters::default();
        let clients: Vec<_> =
            [Type::Zset, Type::List, Type::List].into_iter().zip(0..).map(|(kind, id)| waiting(id, kind)).collect();
        for client in &clients {
            waiters.add(3, key(b"k", 7), Arc::clone(client));
        }
        let first = |waiters: &Waiters, name, kind| waiters.first(3, key(name, 7), kind).map(|w| w.client);
        assert_eq!(first(&waiters, b"k", Type::List), Some(1));
        assert_eq!(first(&waiters, b"k", Type::Zset), Some(0));
        assert_eq!(first(&waiters, b"other", Type::List), None, "a name of the same hash");
        assert!(clients[1].claim.claim(By::TimeOut).is_some());
        assert_eq!(first(&waiters, b"k", Type::List), Some(2));
        assert!(waiters.has(3, 7) && !waiters.has(2, 7));
        for client in &clients {
            waiters.remove(3, 7, client);
        }
        assert!(waiters.is_empty());
    }
}
