//! What a worker has locked of a shared keyspace while a command runs, and how its [`Db`] moves between the shards of its keys.
//!
//! ```text
//!  a command of one key      lock_key: its shard, which the next command may find still locked
//!  of several keys           lock_keys: the shards of all of them, in the order of their index
//!  of unknown keys           lock_all
//!  of none, and tasks        lock_none: a shard is locked when it is entered, and the one before given back
//! ```
//! Invariants:
//! - L1. `Db::shard` is the shard `current`, whose lock this worker has, or `nowhere` (an empty shard of this worker) if that is `NONE`.
//! - L2. `many`: the locks in `held` are this worker's, and `current` is one of them. Otherwise it has the one of `current` at most.
//! - L3. Who makes a `Db` has it give all of them back (`unlock`) before the next one is made; for commands `Ctx` does so when it is dropped.
#![allow(unsafe_code)]

use super::access::Uses;
use super::evict::Step;
use super::journal::Gone;
use super::keyspace::{Fetch, Keyspace, Locate, PeekLocator, SHARDS_MAX};
use super::listeners::News;
use super::{Db, Shard};
use crate::base::cpu;
use crate::base::defrag::Defrag;
use crate::base::eviction::Settings;
use crate::base::sync::lock::SpinLock;
use crate::db::hold::Mode;
use crate::table::Site;
use dolmen_policy::Model;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const NONE: usize = usize::MAX;

/// Keys of one command that are fetched before their shards are locked.
const FETCHED_MAX: usize = 64;

/// A shard's account is brought up to date when it is off by a part of its share of the limit, or by so much.
const TELL_PARTS: u64 = 1024;
const TELL_BYTES_MIN: u64 = 64;
pub(super) const TELL_BYTES_MAX: u64 = 2 * 1024;

/// A set of shards.
#[derive(Clone, Copy, Default)]
pub(super) struct ShardSet {
    words: [u64; SHARDS_MAX / 64],
}

impl ShardSet {
    pub(super) fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Takes the members out, in ascending order.
    fn drain(&mut self, mut visit: impl FnMut(usize)) {
        for (at, word) in self.words.iter_mut().enumerate() {
            while *word != 0 {
                visit(at * 64 + word.trailing_zeros() as usize);
                *word &= *word - 1;
            }
        }
    }

    fn each(mut self, visit: impl FnMut(usize)) {
        self.drain(visit);
    }
}

/// A worker's locks. Between commands it has none.
pub(super) struct Locks {
    keyspace: Arc<Keyspace<SpinLock>>,
    held: ShardSet,
    many: bool,
    /// May another shard be locked instead of the current one?
    on_demand: bool,
    current: usize,
    /// Shards that were left with work to do.
    pub(super) pending: ShardSet,
    /// What this worker has to tell of what it has done (see `listeners`).
    pub(super) news: Vec<News>,
    /// What has gone by itself (see `journal`).
    pub(super) gone: Vec<Gone>,
    nowhere: Box<Shard>,
}

impl Locks {
    pub(super) fn new(keyspace: Arc<Keyspace<SpinLock>>) -> std::io::Result<Locks> {
        let memory = dolmen_slab::Config { reserve_bytes: 1 << 20, blob_reserve_bytes: 1 << 20, ..Default::default() };
        let nowhere = Box::new(Shard::new(0, 0, memory)?);
        Ok(Locks {
            keyspace,
            held: ShardSet::default(),
            many: false,
            on_demand: true,
            current: NONE,
            pending: ShardSet::default(),
            news: Vec::new(),
            gone: Vec::new(),
            nowhere,
        })
    }

    #[inline(always)]
    pub(super) fn keyspace(&self) -> &Keyspace<SpinLock> {
        &self.keyspace
    }

    /// Has this worker the locks of all these keys, until they are given back by name?
    pub(super) fn covers(&self, names: &[&[u8]]) -> bool {
        let is_held = |index| if self.many { self.held.contains(index) } else { self.current == index };
        let index = |name: &&[u8]| self.keyspace.index(self.keyspace.key(name).hash);
        (!self.on_demand || names.len() == 1) && names.iter().all(|name| is_held(index(name)))
    }

    fn acquire(&mut self, index: usize) {
        // SAFETY: this worker has not locked it: it has the one of `current` or those of `held` only (L2), and callers have looked.
        unsafe { self.keyspace.shards[index].lock_raw() };
    }

    fn release(&mut self, index: usize) {
        let cell = &self.keyspace.shards[index];
        // SAFETY: locked by this worker; `Db::shard` is not used again before it is set anew.
        let shard = unsafe { &mut *cell.data_ptr() };
        if shard.has_work() {
            self.pending.insert(index);
        }
        if shard.data_bytes().abs_diff(shard.told_bytes) >= shard.tell_bytes {
            self.keyspace.tell(shard);
        }
        // SAFETY: as above.
        unsafe { cell.unlock_raw() };
    }

    fn release_all(&mut self) {
        if self.many {
            let mut held = std::mem::take(&mut self.held);
            held.drain(|index| self.release(index));
            self.many = false;
        } else if self.current != NONE {
            self.release(self.current);
        }
        self.current = NONE;
    }
}

impl<'a> Db<'a> {
    /// A view of database `index` in which nothing is locked yet.
    pub(super) fn over(locks: &'a mut Locks, index: usize, now_ms: u64) -> Db<'a> {
        debug_assert!(locks.current == NONE && !locks.many, "a view before this one has ended (L3)");
        assert!(index < locks.keyspace.databases(), "SELECT checks the index");
        locks.on_demand = true;
        // SAFETY: `nowhere` lives as long as the locks, which are borrowed for `'a`; nobody else looks at it.
        let shard = unsafe { &mut *std::ptr::from_mut(&mut *locks.nowhere) };
        let stamps = Uses::unpacked_stamps(locks.keyspace.uses.load(Ordering::Relaxed), now_ms);
        let epoch = Db::NOT_LOCATED;
        Db {
            shard,
            locks: Some(locks),
            index,
            now_ms,
            clock_ms: now_ms,
            stamps,
            epoch,
            untouching: false,
            whole: false,
        }
    }

    /// Are there other workers?
    #[inline(always)]
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.locks.is_some()
    }

    /// Makes the shard of a hash the current one.
    #[inline(always)]
    pub(super) fn enter(&mut self, hash: u64) {
        if let Some(locks) = &self.locks {
            let index = locks.keyspace.index(hash);
            if index != locks.current {
                self.switch(index);
            }
        }
    }

    #[inline(never)]
    fn switch(&mut self, index: usize) {
        let Some(locks) = &mut self.locks else { return };
        if locks.many {
            assert!(locks.held.contains(index), "a command came to a key that its row does not name");
        } else {
            debug_assert!(locks.on_demand, "a command came to a key that its row does not name");
            locks.release_all();
            locks.acquire(index);
        }
        self.point_at(index);
    }

    /// `Db::shard` becomes the shard `index`, whose lock this worker has.
    #[inline(always)]
    fn point_at(&mut self, index: usize) {
        let Some(locks) = &mut self.locks else { return };
        locks.current = index;
        // SAFETY: this worker has the lock (callers), and gives it back only after `shard` was pointed elsewhere or the view has ended; the
        // reference before this one is given up here, so there is one for the shard at most (K1, L1).
        self.shard = unsafe { &mut *locks.keyspace.shards[index].data_ptr() };
        self.shard.databases_used = self.shard.databases_used.max(self.index + 1);
    }

    /// Locks the shard of the one key of the next command, unless it is locked already.
    #[inline(always)]
    pub fn lock_key(&mut self, hash: u64) {
        let Some(locks) = &mut self.locks else { return };
        let index = locks.keyspace.index(hash);
        if locks.current == index && !locks.many {
            locks.on_demand = false;
            return;
        }
        self.lock_other(index);
    }

    #[inline(always)]
    fn lock_other(&mut self, index: usize) {
        let Some(locks) = &mut self.locks else { return };
        locks.release_all();
        locks.on_demand = false;
        locks.acquire(index);
        self.point_at(index);
    }

    /// Locks the shards of the keys of the next command. First has their memory fetched, so that little is waited for under the locks.
    pub fn lock_keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        if self.whole {
            return;
        }
        let index = self.index;
        self.unlock();
        let Some(locks) = &mut self.locks else { return };
        let locator = locks.keyspace.locator(index);
        let mut held = ShardSet::default();
        let mut sites = [(Site::NONE, 0); FETCHED_MAX];
        let mut count = 0;
        for key in keys {
            let key = locator.key_outlined(key);
            held.insert(locks.keyspace.index(key.hash));
            if let Some(site) = sites.get_mut(count) {
                *site = (key.site, key.hash);
                count += 1;
            }
        }
        for (site, hash) in &sites[..count] {
            locator.prefetch_items_at(*site, *hash);
        }
        self.lock_set(held);
    }

    /// Locks all shards: for a command whose keys nobody knows beforehand, or that changes all at one instant.
    pub fn lock_all(&mut self) {
        if self.whole {
            return;
        }
        self.unlock();
        let Some(locks) = &mut self.locks else { return };
        let mut held = ShardSet::default();
        (0..locks.keyspace.shards.len()).for_each(|index| held.insert(index));
        self.lock_set(held);
    }

    fn lock_set(&mut self, held: ShardSet) {
        let Some(locks) = &mut self.locks else { return };
        let mut first = NONE;
        held.each(|index| {
            first = first.min(index);
            locks.acquire(index);
        });
        if first == NONE {
            return self.lock_none();
        }
        locks.on_demand = false;
        locks.held = held;
        locks.many = true;
        self.point_at(first);
    }

    /// Locks nothing: a shard is locked when it is entered.
    pub fn lock_none(&mut self) {
        if self.whole {
            return;
        }
        self.unlock();
        if let Some(locks) = &mut self.locks {
            locks.on_demand = true;
        }
    }

    /// Gives all locks back.
    #[inline(always)]
    pub fn unlock(&mut self) {
        if self.locks.is_some() {
            self.unlock_shared();
        }
    }

    fn unlock_shared(&mut self) {
        if let Some(locks) = &mut self.locks {
            // SAFETY: as in `over`. First of all, as the reference that was must not outlive its lock.
            self.shard = unsafe { &mut *std::ptr::from_mut(&mut *locks.nowhere) };
            locks.release_all();
        }
    }

    /// Has this worker the lock of a hash's shard?
    pub(super) fn is_locked(&self, hash: u64) -> bool {
        self.locks.as_ref().is_none_or(|locks| {
            let index = locks.keyspace.index(hash);
            index == locks.current || locks.many && locks.held.contains(index)
        })
    }

    /// With `whole` what is locked now stays locked, whatever commands ask for, until it is taken back: they run one after the other as one
    /// step to everybody. So nothing need be held, either (see `hold`), and whoever asks for names has them. Which names others hold is looked
    /// at before.
    pub fn set_whole(&mut self, whole: bool) {
        self.whole = whole;
    }

    /// Do commands run as one step, which must not be left before its end?
    #[inline(always)]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Number of shards.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.locks.as_ref().map_or(1, |locks| locks.keyspace.shards.len())
    }

    /// Makes shard `index` the current one.
    pub(super) fn enter_shard(&mut self, index: usize) {
        if let Some(locks) = &self.locks
            && locks.current != index
        {
            self.switch(index);
        }
    }

    /// Works on every shard, one after the other; all of them stay locked meanwhile only after `lock_all`.
    pub fn each_shard(&mut self, mut work: impl FnMut(&mut Shard)) {
        for index in 0..self.shard_count() {
            self.enter_shard(index);
            work(self.shard);
        }
    }

    /// Works on one shard.
    pub fn with_shard_at<T>(&mut self, index: usize, work: impl FnOnce(&mut Shard) -> T) -> T {
        self.enter_shard(index);
        work(self.shard)
    }

    /// Bytes of all data, tables and wheels: exact with one worker, else off by less than [`TELL_BYTES_MAX`] a shard.
    #[inline(always)]
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        match &self.locks {
            None => self.shard.data_bytes(),
            Some(locks) => locks.keyspace.data_bytes.load(Ordering::Relaxed),
        }
    }

    /// A small step to have less memory in use, in the shard behind `hand`, which goes on by one. Nothing may be locked. It may take a step of
    /// each of them before one has something to give.
    pub fn make_room(&mut self, hand: &mut usize) -> Step {
        let now_ms = self.now_ms;
        let count = self.shard_count();
        *hand = if *hand + 1 < count { *hand + 1 } else { 0 };
        self.enter_shard(*hand);
        let step = self.shard.make_room(now_ms);
        if let Some(locks) = &self.locks {
            locks.keyspace.tell(self.shard);
        }
        self.gather_news();
        step
    }

    /// How keys are chosen that go when memory is short.
    pub fn set_eviction(&mut self, settings: Settings, limit_bytes: u64) {
        // Without a limit as if it were all that there is: nothing goes, but there is a pace to learn by.
        let limit_bytes = if limit_bytes == 0 { cpu::usable_bytes() } else { limit_bytes };
        let share_bytes = limit_bytes / self.shard_count() as u64;
        let model = match &self.locks {
            Some(locks) => Arc::clone(&locks.keyspace.model),
            None => Arc::new(Mutex::new(Model::new(1))),
        };
        let tell_bytes = (share_bytes / TELL_PARTS).clamp(TELL_BYTES_MIN, TELL_BYTES_MAX);
        self.each_shard(|shard| {
            shard.set_eviction(settings, share_bytes, &model);
            shard.tell_bytes = tell_bytes;
        });
        let uses = Uses::under(settings.policy);
        if let Some(locks) = &self.locks {
            locks.keyspace.uses.store(uses.packed(settings.lfu_decay_minutes), Ordering::Relaxed);
        }
        self.stamps = match self.locks {
            Some(_) => uses.stamps(self.now_ms, settings.lfu_decay_minutes),
            None => self.shard.stamps(self.now_ms),
        };
        self.set_untouching(self.untouching);
    }

    /// When memory is moved to give some back, in each shard for its share.
    pub fn set_defrag(&mut self, defrag: Defrag) {
        let share = defrag.share(self.shard_count());
        self.each_shard(|shard| shard.defrag = share);
    }

    /// Number of databases.
    #[must_use]
    pub fn databases(&self) -> usize {
        self.locks.as_ref().map_or(self.shard.databases.len(), |locks| locks.keyspace.databases())
    }
}

/// Names held by a command that runs in slices: see [`super::hold`]. In each shard those of its keys.
impl Db<'_> {
    /// Becomes the holder of up to `names` names (none yet); false if there is another holder.
    pub fn hold_begin(&mut self, names: usize, mode: Mode) -> bool {
        if self.whole {
            return true;
        }
        let Some(locks) = &mut self.locks else { return self.shard.holds.begin(names, mode) };
        let taken = locks.keyspace.holder.compare_exchange(0, mode as u8, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if taken {
            locks.keyspace.holder_names.store(names, Ordering::Release);
        }
        taken
    }

    /// Holds a name from now on. The caller is the holder.
    pub fn hold(&mut self, hash: u64) {
        if self.whole {
            return;
        }
        self.enter(hash);
        if let Some(locks) = &self.locks
            && self.shard.holds.is_idle()
        {
            let keyspace = &locks.keyspace;
            let names = keyspace.holder_names.load(Ordering::Acquire) / keyspace.shards.len();
            let mode = if keyspace.holder.load(Ordering::Acquire) == Mode::Shared as u8 {
                Mode::Shared
            } else {
                Mode::Exclusive
            };
            // Twice as many as there are on average: a filter that is fuller lets more commands wait for nothing.
            self.shard.holds.begin(2 * names + 64, mode);
        }
        self.shard.holds.add(self.index, hash);
    }

    /// The holder has finished, or gives up.
    pub fn hold_end(&mut self) {
        if self.whole {
            return;
        }
        self.each_shard(|shard| shard.holds.end());
        if let Some(locks) = &self.locks {
            locks.keyspace.holder.store(0, Ordering::Release);
            if let Some(call) = locks.keyspace.on_release.get() {
                call();
            }
        }
    }

    /// Does a command hold names? To be asked when the shards of a command are locked: what is held of theirs by then is seen.
    #[inline(always)]
    #[must_use]
    pub fn is_holding(&self) -> bool {
        match &self.locks {
            None => !self.shard.holds.is_idle(),
            Some(locks) => locks.keyspace.holder.load(Ordering::Relaxed) != 0,
        }
    }

    /// Where keys of this database may be, without a lock.
    ///
    /// # Panics
    /// With one worker.
    pub(super) fn peek_locator(&self) -> PeekLocator<'_> {
        self.locks.as_ref().expect("several workers").keyspace.locator(self.index)
    }

    /// Must a command that names this key wait?
    pub fn is_held(&mut self, hash: u64, writes: bool) -> bool {
        self.enter(hash);
        self.shard.holds.blocks(self.index, hash, writes)
    }

    /// Must a command that touches the keyspace without naming keys wait?
    #[must_use]
    pub fn is_anything_held(&self, writes: bool) -> bool {
        match &self.locks {
            None => self.shard.holds.blocks_unnamed(writes),
            Some(locks) => match locks.keyspace.holder.load(Ordering::Acquire) {
                0 => false,
                mode => writes || mode == Mode::Exclusive as u8,
            },
        }
    }
}
