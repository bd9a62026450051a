//! The keyspace: its shards, each behind a lock, and how a worker comes to them.
//!
//! ```text
//!  hash, bit 63           32 31                    0
//!      ┌────────────────────┬──────────────┬─────────┐
//!      │ place in the table │ not used     │ shard   │
//!      └────────────────────┴──────────────┴─────────┘
//! ```
//! A key's shard is told by the low bits of its hash, which its table does not use; whatever the database. The lock is a type parameter: a
//! keyspace of one worker ([`Alone`]) is one shard behind `NoLock`, and nothing is locked; several workers ([`Shared`]) have
//! many shards behind `SpinLock`s. What a command sees is a [`Db`] in both cases.
//!
//! Invariants:
//! - K1. A shard is read or written by the thread that has its lock, but for the hints of [`PeekLocator`].
//! - K2. Who holds a lock waits only for locks of shards with a higher index, and for nothing else.
#![allow(unsafe_code)]

use super::journal::Gone;
use super::listeners::{Listeners, News};
use super::tracking::Totals;
use super::{Db, Key, Locator, Shard, locks::Locks};
use crate::base::defrag::Defrag;
use crate::base::eviction::Settings;
use crate::base::hash::hash_key;
use crate::base::sync::lock::{Guarded, NoLock, ShardLock, SpinLock};
use crate::table::{Mirror, Site, peek};
use dolmen_policy::Model;
use dolmen_slab::{BlobId, Peek};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Address space for the chunks, and for the blobs, of all shards together: an eighth each of what a process has on x86-64.
const RESERVE_BYTES: usize = 16 << 40;

/// Most shards there can be.
pub const SHARDS_MAX: usize = 1024;

/// How a worker finds where keys lie, to have their memory fetched ahead of use.
pub trait Locate: Copy {
    /// A key with its hash and its site, whose line is fetched.
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k>;
    /// `key` as a call: inlined into a loop that seldom runs twice, the hash's constants would be made ready for nothing.
    fn key_outlined<'k>(&self, bytes: &'k [u8]) -> Key<'k>;
    /// For `Db::located_at`.
    fn epoch(&self) -> u64;
}

/// How items are fetched ahead whose sites are known.
pub trait Fetch: Copy {
    /// Brings the items that may be meant by a hash, from a site that was made a while ago.
    fn prefetch_items_at(self, site: Site, hash: u64);
}

/// A worker's way to the keyspace.
pub trait Access {
    /// Are there other workers?
    const SHARED: bool;
    type Locator<'s>: Locate
    where
        Self: 's;

    /// Where keys of a database are.
    fn locator(&self, database: usize) -> Self::Locator<'_>;

    /// Fetches what is looked for from a view, and other views of the same keyspace.
    fn fetch<'d>(db: &'d Db<'_>) -> impl Fetch + 'd;

    /// The view of a database for commands at the Unix time `now_ms`; with several workers nothing is locked yet (see `locks`).
    fn db(&mut self, database: usize, now_ms: u64) -> Db<'_>;

    /// Works on the shard of a hash.
    fn with_shard<T>(&mut self, hash: u64, work: impl FnOnce(&mut Shard) -> T) -> T;

    /// How keys are chosen that go when memory is short.
    fn set_eviction(&mut self, settings: Settings, limit_bytes: u64) {
        let mut db = self.db(0, 0);
        db.set_eviction(settings, limit_bytes);
        db.unlock();
    }

    /// When memory is moved to give some back.
    fn set_defrag(&mut self, defrag: Defrag) {
        let mut db = self.db(0, 0);
        db.set_defrag(defrag);
        db.unlock();
    }

    /// Works on every shard, one after the other.
    fn each_shard(&mut self, work: impl FnMut(&mut Shard));

    /// How many shards this worker looks after.
    fn own_shards(&self) -> usize;

    /// Works on one of those.
    fn with_own_shard<T>(&mut self, index: usize, work: impl FnOnce(&mut Shard) -> T) -> T;

    /// Work of the shards between requests, in rounds of small units, until nothing is left to do now (false) or `time_left` says no (true:
    /// call again soon). `sweep` also looks for what nobody told of; some times a second is enough.
    fn background(&mut self, now_ms: u64, sweep: bool, time_left: impl FnMut() -> bool) -> bool;

    /// When the next deadline may be due of which this worker takes care, in Unix milliseconds.
    fn next_due_ms(&self) -> Option<u64>;

    /// Is a name held, by whatever command?
    fn is_holding(&self) -> bool;

    /// What there is to tell of what this worker has done (see `listeners`).
    fn has_news(&self) -> bool;

    /// Takes it, in order.
    fn take_news(&mut self) -> Vec<News>;

    /// Takes what has gone by itself, in order (see `journal`).
    fn take_gone(&mut self) -> Vec<Gone>;

    /// What is tracked, of all shards and workers.
    fn totals(&self) -> &Totals;

    /// The room that follows the last byte of a blob on its way in; `None`: no memory. The blob is the caller's alone.
    fn blob_room(&mut self, hash: u64, id: BlobId) -> Option<&mut [u8]>;
}

/// All shards.
pub struct Keyspace<L> {
    pub(super) shards: Box<[Guarded<L, Shard>]>,
    /// Of each shard what may be looked at without its lock; empty where nobody does.
    outside: Box<[Outside]>,
    mask: u64,
    seed: u64,
    databases: usize,
    /// The mode of the command that holds names, see `hold`: 0 none, 1 shared, 2 exclusive. At most one does.
    pub(super) holder: AtomicU8,
    /// How many names it holds at most.
    pub(super) holder_names: AtomicUsize,
    /// What access words say, and `lfu-decay-time` (`access::Uses::packed`).
    pub(super) uses: AtomicU64,
    /// What all shards learn together of what items are worth (`smart`).
    pub(super) model: Arc<Mutex<Model>>,
    /// Bytes in use of all shards, as they have told (`Keyspace::tell`).
    pub(super) data_bytes: AtomicU64,
    /// What is tracked of all shards.
    totals: Arc<Totals>,
    /// Called when names have become free.
    pub(super) on_release: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

struct Outside {
    memory: Arc<Peek>,
    /// One for each database.
    tables: Box<[Arc<Mirror>]>,
}

impl<L: ShardLock> Keyspace<L> {
    /// A keyspace of `shards` shards, a power of two up to [`SHARDS_MAX`], each with `databases` empty databases.
    ///
    /// # Errors
    /// If the address space cannot be reserved.
    ///
    /// # Panics
    /// If `shards` is no such number.
    fn new(
        shards: usize,
        shared: bool,
        databases: usize,
        seed: u64,
        memory: &dolmen_slab::Config,
    ) -> std::io::Result<Keyspace<L>> {
        assert!(shards.is_power_of_two() && shards <= SHARDS_MAX);
        let memory = dolmen_slab::Config {
            reserve_bytes: memory.reserve_bytes.min(RESERVE_BYTES / shards),
            blob_reserve_bytes: memory.blob_reserve_bytes.min(RESERVE_BYTES / shards),
            ..memory.clone()
        };
        let mut all =
            (0..shards).map(|_| Shard::new(databases, seed, memory.clone())).collect::<Result<Vec<_>, _>>()?;
        let totals = Arc::<Totals>::default();
        for (number, shard) in all.iter_mut().enumerate() {
            shard.number = number as u64;
            shard.listeners = Listeners::counted_in(Arc::clone(&totals));
        }
        let outside = |shard: &mut Shard| Outside {
            memory: shard.slab.peek(),
            tables: shard
                .databases
                .iter_mut()
                .map(|database| {
                    let mirror = Arc::<Mirror>::default();
                    database.table.mirror(Arc::clone(&mirror));
                    mirror
                })
                .collect(),
        };
        Ok(Keyspace {
            outside: if shared { all.iter_mut().map(outside).collect() } else { Box::default() },
            shards: all.into_iter().map(Guarded::new).collect(),
            mask: shards as u64 - 1,
            seed,
            databases,
            holder: AtomicU8::new(0),
            holder_names: AtomicUsize::new(0),
            uses: AtomicU64::new(0),
            model: Arc::new(Mutex::new(Model::new(u32::try_from(shards).unwrap_or(u32::MAX)))),
            data_bytes: AtomicU64::new(0),
            totals,
            on_release: OnceLock::new(),
        })
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below SHARDS_MAX")]
    pub(super) fn index(&self, hash: u64) -> usize {
        (hash & self.mask) as usize
    }

    #[must_use]
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Brings the account of all shards up to date with what one uses, whose lock the caller has.
    pub(super) fn tell(&self, shard: &mut Shard) {
        let used_bytes = shard.data_bytes();
        // Modulo 2^64, so that what one has less is taken away.
        self.data_bytes.fetch_add(used_bytes.wrapping_sub(shard.told_bytes), Ordering::Relaxed);
        shard.told_bytes = used_bytes;
    }

    #[must_use]
    pub(super) fn totals(&self) -> &Arc<Totals> {
        &self.totals
    }
}

impl Keyspace<SpinLock> {
    /// The keyspace of several workers.
    ///
    /// # Errors
    /// If the address space cannot be reserved.
    pub fn shared(workers: usize, databases: usize, seed: u64, memory: &dolmen_slab::Config) -> std::io::Result<Self> {
        Keyspace::new(shards_for(workers), true, databases, seed, memory)
    }

    /// Where keys of a database may be.
    #[inline(always)]
    pub(super) fn locator(&self, database: usize) -> PeekLocator<'_> {
        PeekLocator { keyspace: self, database }
    }

    /// What to call when names have become free for which clients of other workers may wait.
    pub fn on_release(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_release.set(Box::new(call));
    }
}

/// Shards for so many workers. A lock is held for some 50 ns of the 150 to 500 that a request takes, so with 16 shards a worker, one in 50
/// acquisitions finds the lock taken; more would cost commands of many keys, and memory.
fn shards_for(workers: usize) -> usize {
    (workers * 16).next_power_of_two().min(SHARDS_MAX)
}

/// A keyspace that one worker has for itself.
pub struct Alone {
    keyspace: Keyspace<NoLock>,
}

impl Alone {
    /// # Errors
    /// If the address space cannot be reserved.
    pub fn new(databases: usize, seed: u64, memory: &dolmen_slab::Config) -> std::io::Result<Alone> {
        Ok(Alone { keyspace: Keyspace::new(1, false, databases, seed, memory)? })
    }

    #[inline(always)]
    pub fn shard(&mut self) -> &mut Shard {
        self.keyspace.shards[0].get_mut()
    }

    #[inline(always)]
    fn shard_ref(&self) -> &Shard {
        // SAFETY: the keyspace is this value's alone and on its thread, and whoever has `&mut Shard` of it has borrowed this value mutably
        // (`shard`, `db`).
        unsafe { &*self.keyspace.shards[0].data_ptr() }
    }
}

impl Access for Alone {
    const SHARED: bool = false;
    type Locator<'s> = Locator<'s>;

    #[inline(always)]
    fn locator(&self, database: usize) -> Locator<'_> {
        self.shard_ref().locator(database)
    }

    #[inline(always)]
    fn fetch<'d>(db: &'d Db<'_>) -> impl Fetch + 'd {
        db.shard_ref()
    }

    #[inline(always)]
    fn db(&mut self, database: usize, now_ms: u64) -> Db<'_> {
        Db::new(self.shard(), database, now_ms)
    }

    fn with_shard<T>(&mut self, _hash: u64, work: impl FnOnce(&mut Shard) -> T) -> T {
        work(self.shard())
    }

    fn each_shard(&mut self, mut work: impl FnMut(&mut Shard)) {
        work(self.shard());
    }

    fn own_shards(&self) -> usize {
        1
    }

    fn with_own_shard<T>(&mut self, _index: usize, work: impl FnOnce(&mut Shard) -> T) -> T {
        work(self.shard())
    }

    #[inline]
    fn background(&mut self, now_ms: u64, sweep: bool, time_left: impl FnMut() -> bool) -> bool {
        self.shard().background(now_ms, sweep, time_left)
    }

    fn next_due_ms(&self) -> Option<u64> {
        self.shard_ref().next_due_ms()
    }

    #[inline(always)]
    fn is_holding(&self) -> bool {
        !self.shard_ref().holds.is_idle()
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.shard_ref().listeners.has_news()
    }

    fn take_news(&mut self) -> Vec<News> {
        std::mem::take(self.shard().listeners.news())
    }

    fn take_gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.shard().listeners.gone)
    }

    fn totals(&self) -> &Totals {
        self.keyspace.totals()
    }

    fn blob_room(&mut self, _hash: u64, id: BlobId) -> Option<&mut [u8]> {
        self.shard().blob_spare(id).ok()
    }
}

/// One worker's way to a keyspace that it shares with others.
pub struct Shared {
    locks: Locks,
    /// The shards whose background work is this worker's: every `workers`-th from `me` on.
    me: usize,
    workers: usize,
    /// When the next deadline of those may be due, as last looked at.
    next_due_ms: Option<u64>,
    /// Sweeps asked for so far: each goes over a part of them.
    sweeps: usize,
}

/// A sweep goes over a shard in so many of this worker's: a pass over the classes of each slab at every one would keep an idle server busy.
const SWEEP_PARTS: usize = 4;

impl Shared {
    /// The way of worker `me` of `workers`.
    ///
    /// # Errors
    /// If the address space cannot be reserved.
    pub fn new(keyspace: Arc<Keyspace<SpinLock>>, me: usize, workers: usize) -> std::io::Result<Shared> {
        Ok(Shared { locks: Locks::new(keyspace)?, me, workers, next_due_ms: None, sweeps: 0 })
    }

    fn keyspace(&self) -> &Keyspace<SpinLock> {
        self.locks.keyspace()
    }

    /// One round of background work of shard `index`; true: there is more.
    fn work_on(&mut self, index: usize, now_ms: u64, sweep: bool) -> bool {
        let Some(mut shard) = self.keyspace().shards[index].try_lock() else { return true };
        let pending = shard.background(now_ms, sweep, || false);
        let due = shard.next_due_ms();
        self.keyspace().tell(&mut shard);
        let mut news = std::mem::take(shard.listeners.news());
        let mut gone = std::mem::take(&mut shard.listeners.gone);
        drop(shard);
        self.locks.news.append(&mut news);
        self.locks.gone.append(&mut gone);
        if self.is_mine(index)
            && let Some(due) = due
        {
            self.next_due_ms = Some(self.next_due_ms.map_or(due, |next| next.min(due)));
        }
        pending
    }

    fn is_mine(&self, index: usize) -> bool {
        index % self.workers == self.me
    }
}

impl Access for Shared {
    const SHARED: bool = true;
    type Locator<'s> = PeekLocator<'s>;

    #[inline(always)]
    fn locator(&self, database: usize) -> PeekLocator<'_> {
        self.locks.keyspace().locator(database)
    }

    #[inline(always)]
    fn fetch<'d>(db: &'d Db<'_>) -> impl Fetch + 'd {
        db.peek_locator()
    }

    #[inline(always)]
    fn db(&mut self, database: usize, now_ms: u64) -> Db<'_> {
        Db::over(&mut self.locks, database, now_ms)
    }

    fn with_shard<T>(&mut self, hash: u64, work: impl FnOnce(&mut Shard) -> T) -> T {
        let keyspace = self.keyspace();
        let mut shard = keyspace.shards[keyspace.index(hash)].lock();
        let result = work(&mut shard);
        keyspace.tell(&mut shard);
        result
    }

    fn each_shard(&mut self, mut work: impl FnMut(&mut Shard)) {
        for shard in &self.keyspace().shards {
            work(&mut shard.lock());
        }
    }

    fn own_shards(&self) -> usize {
        (self.keyspace().shards.len() - self.me).div_ceil(self.workers)
    }

    fn with_own_shard<T>(&mut self, index: usize, work: impl FnOnce(&mut Shard) -> T) -> T {
        let index = self.me + index * self.workers;
        let mut shard = self.keyspace().shards[index].lock();
        let done = work(&mut shard);
        let has_work = shard.has_work();
        drop(shard);
        if has_work {
            self.locks.pending.insert(index);
        }
        done
    }

    fn background(&mut self, now_ms: u64, sweep: bool, mut time_left: impl FnMut() -> bool) -> bool {
        let due = sweep || self.next_due_ms.is_some_and(|due| due <= now_ms);
        if due {
            self.next_due_ms = None;
            for index in (self.me..self.keyspace().shards.len()).step_by(self.workers) {
                let swept = sweep && (index / self.workers + self.sweeps).is_multiple_of(SWEEP_PARTS);
                if self.work_on(index, now_ms, swept) {
                    self.locks.pending.insert(index);
                }
            }
        }
        self.sweeps += usize::from(sweep);
        while !self.locks.pending.is_empty() {
            for index in 0..self.keyspace().shards.len() {
                if self.locks.pending.contains(index) && !self.work_on(index, now_ms, false) {
                    self.locks.pending.remove(index);
                }
            }
            if !time_left() {
                return !self.locks.pending.is_empty();
            }
        }
        false
    }

    fn next_due_ms(&self) -> Option<u64> {
        self.next_due_ms
    }

    #[inline(always)]
    fn is_holding(&self) -> bool {
        self.keyspace().holder.load(Ordering::Acquire) != 0
    }

    #[inline]
    fn has_news(&self) -> bool {
        !self.locks.news.is_empty()
    }

    fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.locks.news)
    }

    fn take_gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.locks.gone)
    }

    fn totals(&self) -> &Totals {
        self.keyspace().totals()
    }

    fn blob_room(&mut self, hash: u64, id: BlobId) -> Option<&mut [u8]> {
        let (room, len) = self.with_shard(hash, |shard| {
            let room = shard.blob_spare(id).ok()?;
            Some((room.as_mut_ptr(), room.len()))
        })?;
        // SAFETY: room of a live blob that only the caller knows (it is no key's value yet): nobody else reads, writes, moves or frees it
        // until the caller says how much was written, through `&mut self`.
        Some(unsafe { std::slice::from_raw_parts_mut(room, len) })
    }
}

/// Says where keys of a shared keyspace may be, without a lock: see `table::peek`. Also has the lock's line fetched.
#[derive(Clone, Copy)]
pub struct PeekLocator<'s> {
    keyspace: &'s Keyspace<SpinLock>,
    database: usize,
}

impl Locate for PeekLocator<'_> {
    #[inline(always)]
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = hash_key(self.keyspace.seed, bytes);
        let shard = self.keyspace.index(hash);
        self.keyspace.shards[shard].prefetch_for_write();
        let outside = &self.keyspace.outside[shard];
        Key { bytes, hash, site: outside.tables[self.database].site(&outside.memory, hash) }
    }

    #[inline(never)]
    fn key_outlined<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key(bytes)
    }

    /// Its sites are hints only.
    #[inline(always)]
    fn epoch(&self) -> u64 {
        Db::NOT_LOCATED
    }
}

impl Fetch for PeekLocator<'_> {
    #[inline(always)]
    fn prefetch_items_at(self, site: Site, hash: u64) {
        let outside = &self.keyspace.outside[self.keyspace.index(hash)];
        peek::prefetch_entries_at(&outside.memory, site, hash);
    }
}

impl Fetch for &Shard {
    #[inline(always)]
    fn prefetch_items_at(self, site: Site, hash: u64) {
        Shard::prefetch_items_at(self, site, hash);
    }
}

impl<L: ShardLock> Keyspace<L> {
    /// The hash of a key in this keyspace.
    #[inline(always)]
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: hash_key(self.seed, bytes), site: Site::NONE }
    }
}

#[cfg(test)]
mod tests;
