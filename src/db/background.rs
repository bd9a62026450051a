//! Work of a shard between requests, in small units: expiry on time (of keys; of fields: `fields`), growth and shrinking of tables, emptying of flushed databases,
//! freeing of huge values, giving idle memory back, evacuation. Whoever calls decides how long it may take; each unit takes some
//! microseconds.
#![allow(unsafe_code)]

use super::containers::Containers;
use super::event::Event;
use super::item::{self, Expiry};
use super::listeners::Listeners;
use super::view::{free_item, part_with};
use super::watch::Watches;
use super::wheel::{Due, Rearm};
use super::{Database, ItemHash, Shard, item_at};
use crate::table::{Slot, Table};
use dolmen_slab::{Handle, Kind, Slab};
use std::mem;

/// Units of one round, beside one segment of each table: entries of a wheel, items (or blocks of a wheel) of a flushed database, items that
/// only views have kept, extents and spans, bytes of items that move.
const EXPIRE_UNIT: usize = 32;
const DRAIN_UNIT: usize = 64;
pub(super) const RETIRED_UNIT: usize = 64;
const FREE_UNIT: usize = 4;
/// Elements of a container that are looked at, moved or freed.
const CONTAINER_UNIT: usize = 64;
/// The first span released of a huge page splits it, which takes some 30 us.
const RELEASE_UNIT: usize = 1;
/// Keys given up that clients have read.
const TRIM_UNIT: usize = 32;
const EVACUATE_UNIT_BYTES: usize = 16 * 1024;

/// What the wheel keeps of a key: the top half of its hash, by which the table finds the candidates again.
#[inline(always)]
#[must_use]
pub(super) fn prefix(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Shard {
    /// Replaces a database by an empty one; the old one is emptied by `background`. Returns how many keys it had.
    pub(super) fn detach(&mut self, index: usize) -> usize {
        if !self.watches.is_empty() {
            self.touch_present(index);
        }
        let mut fresh = Database::new(self.seed);
        fresh.table.succeed(&mut self.databases[index].table);
        let old = mem::replace(&mut self.databases[index], fresh);
        let keys = old.len();
        if old.table.has_views() {
            // What is seen is not given back, and nobody waits for it.
            self.viewed.push(old);
        } else if keys > 0 || old.wheel.is_some() || old.fields.is_some() || old.table.table_bytes() > 0 {
            // Without keys there may be memory all the same: a table that has not shrunk yet.
            self.empty_later(old);
        }
        keys
    }

    /// Leaves a database that nobody can reach to `background`.
    pub(super) fn empty_later(&mut self, database: Database) {
        self.lazy_pending += database.len();
        self.detached.push_back(database);
        self.detached_total += 1;
    }

    /// Empties all databases; the memory is given back in slices. Returns how many keys there were.
    pub fn flush_all(&mut self) -> usize {
        (0..self.databases.len()).map(|i| self.detach(i)).sum()
    }

    /// A mark that `is_drained` will answer when everything flushed so far has been given back.
    #[must_use]
    pub fn flush_mark(&self) -> u64 {
        self.detached_total
    }

    #[must_use]
    pub fn is_drained(&self, mark: u64) -> bool {
        self.drained_total >= mark
    }

    /// Keys of flushed databases, and containers of deleted keys, that were not given back yet.
    #[must_use]
    pub fn lazy_pending(&self) -> usize {
        self.lazy_pending + self.containers.doomed_len()
    }

    /// Is memory being moved together now?
    #[must_use]
    pub fn is_evacuating(&self) -> bool {
        self.evacuation.is_some()
    }

    /// Gives memory without data back to the system, in a slice. True: there is more.
    pub fn purge(&mut self, now_ms: u64) -> bool {
        self.slab.purge(now_ms, RELEASE_UNIT)
    }

    /// When the next deadline may be due, in Unix milliseconds.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        if !self.active_expire {
            return None;
        }
        let due_ms = |d: &Database| {
            let fields = d.fields.as_ref().and_then(|fields| fields.next_due_ms());
            d.wheel.as_ref().and_then(|wheel| wheel.next_due_ms()).into_iter().chain(fields).min()
        };
        self.databases[..self.databases_used].iter().filter_map(due_ms).min()
    }

    /// Works in rounds of small units until nothing is left to do now (false) or `time_left` says no (true: call again soon).
    /// `sweep` also looks for memory worth evacuating; some times a second is enough.
    pub fn background(&mut self, now_ms: u64, sweep: bool, mut time_left: impl FnMut() -> bool) -> bool {
        if sweep {
            if self.evacuation.is_none() {
                self.evacuation = self.pick_victim();
            }
            self.age_some(now_ms);
        }
        loop {
            let mut pending = false;
            for index in 0..self.databases_used {
                if self.active_expire {
                    pending |= self.expire_some(index, now_ms);
                    pending |= self.expire_fields(index, now_ms);
                }
                let Shard { slab, databases, containers, seed, .. } = &mut *self;
                pending |= databases[index].table.maintain(slab, &ItemHash { seed: *seed }, 1);
                let free = |slab: &mut Slab, h| free_item(slab, containers, h);
                pending |= databases[index].table.release_views(slab, RETIRED_UNIT, free);
            }
            if self.listeners.has_tracked() {
                pending |= self.listeners.trim(TRIM_UNIT);
            }
            if self.containers.has_work() {
                pending |= self.work_on_containers();
            }
            if !self.viewed.is_empty() {
                pending |= self.release_viewed();
            }
            pending |= self.drain_some();
            pending |= self.slab.drain_frees(FREE_UNIT);
            // It has a pass of its own over what it may give back, so some times a second, and on while there is more.
            if sweep || self.release_due {
                self.release_due = self.slab.release(now_ms, RELEASE_UNIT);
                pending |= self.release_due;
            }
            pending |= self.evacuate_some();
            if !pending {
                return false;
            }
            if !time_left() {
                return true;
            }
        }
    }

    /// Fires what is due of one database, and drops stale entries of its wheel when they are many.
    fn expire_some(&mut self, index: usize, now_ms: u64) -> bool {
        let Shard { slab, databases, containers, watches, listeners, stats, seed, .. } = &mut *self;
        let Database { table, wheel, expires, .. } = &mut databases[index];
        let Some(wheel) = wheel else { return false };
        let seed = *seed;
        let losing = Losing { table, containers, watches, listeners, index, expires };
        let mut due = Expirer { losing, expired: &mut stats.expired, now_ms, seed };
        let more = wheel.advance(slab, now_ms, EXPIRE_UNIT, &mut due);
        if !wheel.is_purging() && !wheel.is_stale(*expires) {
            return more;
        }
        let purging = wheel.purge(slab, EXPIRE_UNIT, |slab, hash32, code, new_code| {
            let Some(item) = armed_item(table, slab, seed, hash32, code) else { return false };
            set_armed(slab, item, new_code);
            true
        });
        more || purging
    }

    fn work_on_containers(&mut self) -> bool {
        let before = self.containers.doomed_len();
        let more = self.containers.work(&mut self.slab, CONTAINER_UNIT);
        self.stats.lazy_freed += (before - self.containers.doomed_len()) as u64;
        more
    }

    fn drain_some(&mut self) -> bool {
        let Shard { slab, detached, containers, lazy_pending, stats, .. } = &mut *self;
        let Some(database) = detached.front_mut() else { return false };
        let mut more = database.table.drain(slab, DRAIN_UNIT, |slab, h| {
            *lazy_pending -= 1;
            stats.lazy_freed += 1;
            free_item(slab, containers, h);
        });
        if !more && let Some(wheel) = &mut database.wheel {
            more = wheel.drain(slab, DRAIN_UNIT);
        }
        if !more && let Some(fields) = &mut database.fields {
            more = fields.drain(DRAIN_UNIT);
        }
        if !more {
            self.detached.pop_front();
            self.drained_total += 1;
        }
        !self.detached.is_empty()
    }

    /// A round of the work that gives back the memory of what is deleted already. False: there is none.
    pub(super) fn give_back_some(&mut self) -> bool {
        let mut pending = self.containers.has_work() && self.work_on_containers();
        pending |= self.slab.drain_frees(FREE_UNIT);
        pending | self.drain_some()
    }

    /// Under an open snapshot hardly anything can be moved: the same spans would be tried again and again.
    fn pick_victim(&mut self) -> Option<dolmen_slab::Victim> {
        let viewed =
            self.databases[..self.databases_used].iter().any(|d| d.table.has_views()) || !self.viewed.is_empty();
        if viewed { None } else { self.slab.pick_victim() }
    }

    /// Moves some items out of the span that is being emptied.
    fn evacuate_some(&mut self) -> bool {
        let Some(mut victim) = self.evacuation.take() else { return false };
        let mut moved_bytes = 0;
        while moved_bytes < EVACUATE_UNIT_BYTES {
            let Some((from, bytes)) = self.slab.next_live(&mut victim) else {
                self.slab.finish(victim);
                self.evacuation = self.pick_victim();
                return self.evacuation.is_some();
            };
            moved_bytes += bytes.max(64);
            if !self.relocate(from, bytes) {
                break;
            }
        }
        self.evacuation = Some(victim);
        true
    }

    /// Moves one item to another chunk; false if there is no memory for it.
    fn relocate(&mut self, from: Handle, bytes: usize) -> bool {
        let Shard { slab, databases, seed, .. } = &mut *self;
        let hash = item_at(slab, from).hash(*seed);
        let named = databases.iter_mut().find_map(|d| d.table.find_handle(slab, hash, from).map(|slot| (d, slot)));
        // An item of a flushed database stays where it is until it is drained.
        let Some((database, slot)) = named else { return true };
        // Nor is one moved that a view sees.
        if database.table.is_seen(slab, hash, from) {
            return true;
        }
        let Ok(to) = slab.alloc(bytes, Kind::Item) else { return false };
        // SAFETY: both chunks are of the same class, hence `bytes` long; `from` is live, `to` is new. The only handle of the item is the
        // one in the table, which now names the copy.
        unsafe {
            std::ptr::copy_nonoverlapping(slab.ptr(from).as_ptr(), slab.ptr(to).as_ptr(), bytes);
            database.table.replace(slot, to);
            slab.free(from, bytes);
        }
        self.stats.relocated += 1;
        true
    }
}

/// An item with a deadline, as `armed_item` finds it.
#[derive(Clone, Copy)]
pub(super) struct Armed {
    pub handle: Handle,
    pub slot: Slot,
    pub hash: u64,
    expiry: Expiry,
}

/// The item of a prefix that carries a code. The table shows neighbours of other prefixes too, and whoever shares a deadline shares
/// the code: to take one of those would leave it an entry by which the table does not find it, and the right one none.
pub(super) fn armed_item(table: &Table, slab: &Slab, seed: u64, hash32: u32, code: u16) -> Option<Armed> {
    let mut found = None;
    table.find_prefix(slab, hash32, |handle, slot| {
        let item = item_at(slab, handle);
        if let Some(expiry) = item.expiry()
            && expiry.armed == code
        {
            let hash = item.hash(seed);
            if prefix(hash) == hash32 {
                found = Some(Armed { handle, slot, hash, expiry });
            }
        }
    });
    found
}

fn set_armed(slab: &mut Slab, item: Armed, code: u16) {
    // SAFETY: the handle came from the table (`armed_item`) and has a deadline word.
    unsafe { item::overwrite_expiry(slab, item.handle, Expiry { armed: code, ..item.expiry }) }
}

/// What a database loses keys from without a command.
pub(super) struct Losing<'a> {
    pub table: &'a mut Table,
    pub containers: &'a mut Containers,
    pub watches: &'a mut Watches,
    pub listeners: &'a mut Listeners,
    /// The database.
    pub index: usize,
    pub expires: &'a mut u64,
}

impl Losing<'_> {
    /// A key goes, and who wants to know is told why.
    pub(super) fn lose(&mut self, slab: &mut Slab, event: Event, hash: u64, slot: Slot, handle: Handle) {
        let item = item_at(slab, handle);
        if !self.listeners.is_idle() {
            let mut name = Vec::new();
            item.append_key(slab, &mut name);
            self.listeners.tell(self.index, event, hash, &name, 0);
        }
        *self.expires -= u64::from(item.has_expiry());
        self.table.remove(slab, hash, slot);
        part_with(self.table, slab, self.containers, hash, handle);
        if !self.watches.is_empty() {
            self.watches.touch(self.index, hash);
        }
    }
}

/// Looks at the items whose wheel entries fire.
struct Expirer<'a> {
    losing: Losing<'a>,
    expired: &'a mut u64,
    now_ms: u64,
    seed: u64,
}

impl Due for Expirer<'_> {
    fn soon(&mut self, slab: &Slab, hashes: &[u32]) {
        for &hash32 in hashes {
            self.losing.table.prefetch(slab, u64::from(hash32) << 32);
        }
        for &hash32 in hashes {
            self.losing.table.prefetch_entries(slab, u64::from(hash32) << 32);
        }
    }

    fn fire(&mut self, slab: &mut Slab, hash32: u32, code: u16, rearm: &mut Rearm<'_>) {
        let Some(item) = armed_item(self.losing.table, slab, self.seed, hash32, code) else { return };
        if item.expiry.deadline_ms > self.now_ms {
            let armed = rearm.at(slab, item.expiry.deadline_ms);
            return set_armed(slab, item, armed);
        }
        self.losing.lose(slab, Event::Expired, item.hash, item.slot, item.handle);
        *self.expired += 1;
    }
}
