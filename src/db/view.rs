//! The view of one database at one instant: lookup with lazy expiry, removal, deadlines, walking.
#![allow(unsafe_code)]

use super::access::Stamps;
use super::containers::Containers;
use super::event::Event;
use super::item::{self, Expiry, Item, Key, Marks, NewKey, NewValue, Type, Words};
use super::locks::Locks;
use super::{DbError, ItemHash, Shard, item_at};
use crate::base::notify::class;
use crate::table::{Home, Site, Slot, Table};
use dolmen_slab::{Handle, Kind, Slab};

/// One database of a shard, as a command sees it.
pub struct Db<'a> {
    pub(super) shard: &'a mut Shard,
    pub(super) index: usize,
    /// Unix time of the command: what is due by then is gone. 0 while a log of changes is read again, as nothing goes by itself then.
    pub(super) now_ms: u64,
    /// The same, whatever is read again: what times are reckoned from.
    pub(super) clock_ms: u64,
    /// How access words are written.
    pub(super) stamps: Stamps,
    /// The table's when the sites of its keys were made: they are good while it stays so.
    pub(super) epoch: u64,
    /// What is done is no use of keys: their access clocks stay.
    pub(super) untouching: bool,
    /// Nothing of other clients comes between what is done, see `Db::set_whole`.
    pub(super) whole: bool,
    /// What is locked of a shared keyspace, see `locks`; `None` with one worker.
    pub(super) locks: Option<&'a mut Locks>,
}

/// What becomes of the deadline when a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// The key lives until it is deleted.
    None,
    /// As it was.
    Keep,
    /// Unix milliseconds, at most [`item::DEADLINE_MAX_MS`].
    At(u64),
}

/// Where a live item lies. Valid until the next change of the table.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub slot: Slot,
    pub handle: Handle,
}

impl<'a> Db<'a> {
    #[inline(always)]
    pub(super) fn new(shard: &'a mut Shard, index: usize, now_ms: u64) -> Db<'a> {
        assert!(index < shard.databases.len(), "SELECT checks the index");
        shard.databases_used = shard.databases_used.max(index + 1);
        let epoch = shard.databases[index].table.epoch();
        let stamps = shard.stamps(now_ms);
        Db { shard, index, now_ms, clock_ms: now_ms, stamps, epoch, untouching: false, whole: false, locks: None }
    }

    /// An epoch that no table has.
    pub(super) const NOT_LOCATED: u64 = u64::MAX;

    /// Has keys that were located when the table's epoch was `epoch` looked up at their sites, if that is still so.
    #[inline(always)]
    pub fn located_at(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    #[inline(always)]
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What a time that is told relative to now is reckoned from.
    #[inline(always)]
    #[must_use]
    pub fn clock_ms(&self) -> u64 {
        self.clock_ms
    }

    /// Nothing goes by itself: what a log says was there is there until the log says that it has gone.
    #[cold]
    pub fn freeze(&mut self) {
        self.now_ms = 0;
    }

    #[inline(always)]
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        match &self.locks {
            None => self.shard.key(bytes),
            Some(locks) => locks.keyspace().key(bytes),
        }
    }

    #[inline(always)]
    #[must_use]
    pub fn slab(&self) -> &Slab {
        &self.shard.slab
    }

    /// Becomes the view of another database, whose sites are good as long as its table has that epoch.
    pub(super) fn look_at_database(&mut self, index: usize, epoch: u64) {
        let databases = self.databases();
        assert!(index < databases, "callers check the index");
        self.index = index;
        self.epoch = epoch;
        if !self.shard.databases.is_empty() {
            self.shard.databases_used = self.shard.databases_used.max(index + 1);
        }
    }

    /// Swaps two databases in every shard.
    pub fn swap_databases(&mut self, a: usize, b: usize) {
        let now_ms = self.now_ms;
        let (mut news, mut gone) = (Vec::new(), Vec::new());
        self.each_shard(|shard| {
            if a != b && !shard.watches.is_empty() {
                shard.touch_swapped(a, b, now_ms);
                news.append(shard.listeners.news());
                gone.append(&mut shard.listeners.gone);
            }
            shard.swap(a, b);
        });
        self.shard.listeners.news().append(&mut news);
        self.shard.listeners.gone.append(&mut gone);
        self.gather_news();
        if a != b {
            self.tell_flushed();
        }
    }

    /// A hint that `hash` will be looked up soon: brings its bucket. Only for keys of the command, whose shards are locked.
    #[inline(always)]
    pub fn prefetch(&mut self, hash: u64) {
        self.enter(hash);
        self.shard.prefetch(self.index, hash);
    }

    /// The same for the items that may be meant; `site` is the key's, if it was located.
    #[inline(always)]
    pub fn prefetch_items(&mut self, hash: u64, site: Site) {
        self.enter(hash);
        if site.is_none() {
            self.shard.prefetch_items(self.index, hash);
        } else {
            self.shard.prefetch_items_at(site, hash);
        }
    }

    pub fn shard(&mut self) -> &mut Shard {
        self.shard
    }

    #[must_use]
    pub fn shard_ref(&self) -> &Shard {
        self.shard
    }

    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    #[inline(always)]
    pub(super) fn item(&self, h: Handle) -> Item<'_> {
        item_at(&self.shard.slab, h)
    }

    /// Finds a key that is alive; one whose deadline has passed is deleted on the way.
    #[inline(always)]
    pub(super) fn find(&mut self, key: Key<'_>) -> Option<Found> {
        self.enter(key.hash);
        let slab = &self.shard.slab;
        let table = &self.shard.databases[self.index].table;
        let home = if !key.site.is_none() && table.epoch() == self.epoch {
            debug_assert_eq!(key.site, table.site(slab, key.hash), "the key's site was made before this view");
            table.find_home(slab, key.site, key.hash, |h| item_at(slab, h).is_key(slab, key))
        } else {
            Home::Elsewhere
        };
        let (slot, handle) = match home {
            Home::Found(slot) => (slot, table.handle(slot)),
            Home::Absent => return None,
            Home::Elsewhere => {
                let slot = find_anew(table, slab, key.bytes, key.hash)?;
                (slot, table.handle(slot))
            }
        };
        let item = item_at(slab, handle);
        if item.has_expiry() && item.deadline_ms() <= self.now_ms {
            self.expire(key.hash, Found { slot, handle });
            return None;
        }
        Some(Found { slot, handle })
    }

    /// `find` for a reading command: counts hits and misses.
    #[inline(always)]
    pub(super) fn find_read(&mut self, key: Key<'_>) -> Option<Found> {
        let found = self.find(key);
        self.count_read(found.is_some());
        if found.is_none() {
            self.tell_missed(key);
        }
        found
    }

    #[inline(always)]
    pub(super) fn count_read(&mut self, hit: bool) {
        if hit {
            self.shard.stats.hits += 1;
        } else {
            self.shard.stats.misses += 1;
        }
    }

    /// A reading command has not found a key.
    #[inline(always)]
    pub(super) fn tell_missed(&mut self, key: Key<'_>) {
        if self.shard.listeners.wants(class::MISSED) {
            // By parts, as all of it would be put into memory for the call, whether it is made or not.
            self.tell_missed_of(key.bytes, key.hash);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_missed_of(&mut self, bytes: &[u8], hash: u64) {
        self.tell(self.index, Event::KeyMiss, Key { bytes, hash, site: Site::NONE }, 0);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn expire(&mut self, hash: u64, found: Found) {
        self.shard.stats.expired += 1;
        if !self.shard.listeners.is_idle() {
            let mut name = Vec::new();
            self.item(found.handle).append_key(&self.shard.slab, &mut name);
            let key = Key { bytes: &name, hash, site: Site::NONE };
            self.tell(self.index, Event::Expired, key, 0);
        }
        self.remove_found(hash, found);
        self.mark_changed(self.index, hash);
    }

    /// Takes an item out of the table and frees it.
    pub(super) fn remove_found(&mut self, hash: u64, found: Found) {
        let Shard { slab, databases, containers, .. } = &mut *self.shard;
        let database = &mut databases[self.index];
        let h = database.table.remove(slab, hash, found.slot);
        debug_assert_eq!(h, found.handle);
        if item_at(slab, h).has_expiry() {
            database.expires -= 1;
        }
        part_with(&mut database.table, slab, containers, hash, h);
    }

    /// Puts a new chunk in the place of an item and frees the old chunk, but not the blobs or the container, which the new item took over. The item is `own`.
    pub(super) fn move_found(&mut self, found: Found, to: Handle) -> Found {
        let Shard { slab, databases, .. } = &mut *self.shard;
        let bytes = item_at(slab, found.handle).header().item_bytes();
        databases[self.index].table.replace(found.slot, to);
        // SAFETY: the old chunk is a live item of this slab and the table no longer names it.
        unsafe { slab.free(found.handle, bytes) };
        Found { slot: found.slot, handle: to }
    }

    /// Inserts a new item; the key is known to be absent.
    #[inline]
    pub(super) fn insert_new(
        &mut self,
        key: Key<'_>,
        value: NewValue<'_>,
        deadline_ms: Option<u64>,
        marks: Option<Marks>,
    ) -> Result<(), DbError> {
        let new_key = if key.bytes.len() > item::KEY_INLINE_MAX {
            NewKey::Blob(self.key_blob(key)?, key.hash)
        } else {
            NewKey::Inline(key.bytes)
        };
        let inserted = self.insert_item(key.hash, new_key, value, deadline_ms, marks);
        if inserted.is_err()
            && let NewKey::Blob(id, _) = new_key
        {
            self.shard.slab.blob_release(id);
        }
        if self.shard.listeners.wants(class::NEW) && inserted.is_ok() {
            self.tell(self.index, Event::New, key, 0);
        }
        inserted
    }

    #[cold]
    #[inline(never)]
    pub(super) fn key_blob(&mut self, key: Key<'_>) -> Result<dolmen_slab::BlobId, DbError> {
        let slab = &mut self.shard.slab;
        let id = slab.blob_new(key.bytes.len())?;
        if let Err(e) = slab.blob_append(id, key.bytes) {
            slab.blob_release(id);
            return Err(e.into());
        }
        Ok(id)
    }

    // One caller, and many parameters.
    #[inline(always)]
    fn insert_item(
        &mut self,
        hash: u64,
        key: NewKey<'_>,
        value: NewValue<'_>,
        deadline_ms: Option<u64>,
        marks: Option<Marks>,
    ) -> Result<(), DbError> {
        let expiry = deadline_ms.map(|deadline_ms| Expiry { deadline_ms, armed: 0 });
        let words = Words { expiry, marks };
        let bytes = item::item_bytes(&key, &value, &words);
        let h = self.shard.slab.alloc(bytes, Kind::Item)?;
        let placed = self.place_item(hash, h, key, value, words);
        if placed.is_err() {
            // SAFETY: allocated above with this size, and the table does not name it.
            unsafe { self.shard.slab.free(h, bytes) };
        }
        placed
    }

    #[inline(always)]
    fn place_item(
        &mut self,
        hash: u64,
        h: Handle,
        key: NewKey<'_>,
        value: NewValue<'_>,
        mut words: Words,
    ) -> Result<(), DbError> {
        if let Some(expiry) = &mut words.expiry {
            *expiry = self.arm(hash, expiry.deadline_ms, 0)?;
        }
        let clock = self.fresh_word(hash, &key, &value, &words);
        let Shard { slab, databases, seed, .. } = &mut *self.shard;
        // SAFETY: the chunk was allocated for exactly these parts and nobody reads it yet; key and value come from outside of it.
        unsafe { item::write(slab, h, clock, key, value, words) };
        let database = &mut databases[self.index];
        database.table.insert(slab, &ItemHash { seed: *seed }, hash, h)?;
        database.expires += u64::from(words.expiry.is_some());
        Ok(())
    }

    /// Sees to it that the wheel fires for a deadline; `armed` is the code the item has so far.
    pub(super) fn arm(&mut self, hash: u64, deadline_ms: u64, armed: u16) -> Result<Expiry, DbError> {
        debug_assert!(deadline_ms <= item::DEADLINE_MAX_MS);
        let now_ms = self.clock_ms;
        let Shard { slab, databases, .. } = &mut *self.shard;
        let wheel = databases[self.index].wheel.get_or_insert_with(|| Box::new(super::Wheel::new(now_ms)));
        let armed = wheel.arm(slab, super::background::prefix(hash), deadline_ms, armed)?;
        Ok(Expiry { deadline_ms, armed })
    }

    /// Sets or takes away the deadline of a live item.
    pub(super) fn set_deadline_found(
        &mut self,
        hash: u64,
        mut found: Found,
        deadline_ms: Option<u64>,
    ) -> Result<(), DbError> {
        if self.is_viewed() {
            found.handle = self.own(hash, found)?;
        }
        let header = self.item(found.handle).header();
        let old = self.item(found.handle).expiry();
        if old.is_none() && deadline_ms.is_none() {
            return Ok(());
        }
        let expiry = match deadline_ms {
            Some(deadline_ms) => Some(self.arm(hash, deadline_ms, old.map_or(0, |e| e.armed))?),
            None => None,
        };
        if let (Some(_), Some(expiry)) = (old, expiry) {
            // SAFETY: a live item of this slab with a deadline word.
            unsafe { item::overwrite_expiry(&mut self.shard.slab, found.handle, expiry) };
            return Ok(());
        }
        let words = Words { expiry, marks: self.item(found.handle).marks() };
        let to = self.shard.slab.alloc(item::bytes_with_words(header, &words), Kind::Item)?;
        // SAFETY: the source is live, the target was allocated for the copy and is not read by anybody yet.
        unsafe { item::copy_with_words(&mut self.shard.slab, found.handle, to, words) };
        self.move_found(found, to);
        let expires = &mut self.shard.databases[self.index].expires;
        if expiry.is_some() {
            *expires += 1
        } else {
            *expires -= 1
        }
        Ok(())
    }

    // ---- any type ----

    /// Is the key there? Counts as a read.
    pub fn exists(&mut self, key: Key<'_>) -> bool {
        self.find_read(key).is_some()
    }

    /// The type of a key. Counts as a read.
    pub fn type_of(&mut self, key: Key<'_>) -> Option<Type> {
        let found = self.find_read(key)?;
        Some(self.item(found.handle).header().kind)
    }

    /// Deletes a key; false if there was none. What is huge is freed later, in slices.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        match self.find(key) {
            Some(found) => {
                self.remove_found(key.hash, found);
                true
            }
            None => false,
        }
    }

    /// The deadline of a key in Unix milliseconds (`Some(None)`: it has none). Counts as a read.
    pub fn deadline_ms(&mut self, key: Key<'_>) -> Option<Option<u64>> {
        let found = self.find_read(key)?;
        Some(self.item(found.handle).expiry().map(|e| e.deadline_ms))
    }

    /// As `deadline_ms`, for a command that writes.
    pub fn deadline_for_write(&mut self, key: Key<'_>) -> Option<Option<u64>> {
        let found = self.find(key)?;
        Some(self.item(found.handle).expiry().map(|e| e.deadline_ms))
    }

    /// Sets (or takes away) the deadline of a key; false if there is no such key.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn set_deadline(&mut self, key: Key<'_>, deadline_ms: Option<u64>) -> Result<bool, DbError> {
        match self.find(key) {
            Some(found) => {
                self.touch(found);
                self.set_deadline_found(key.hash, found, deadline_ms).map(|()| true)
            }
            None => Ok(false),
        }
    }

    /// Keys of this database, including those whose deadline has passed but that were not reached yet.
    #[expect(clippy::len_without_is_empty, reason = "it may have to lock shards, so emptiness is as dear")]
    pub fn len(&mut self) -> usize {
        let (index, mut len) = (self.index, 0);
        self.each_shard(|shard| len += shard.databases[index].len());
        len
    }

    /// One step of a walk over all keys (see `Table::scan` for what it guarantees): appends the keys that are alive to `visit`.
    /// Returns the next cursor; 0: the walk is over.
    ///
    /// ```text
    /// cursor  63        32 31                          0
    ///        | shard      | position in its table       |
    /// ```
    pub fn scan(&mut self, cursor: u64, mut visit: impl FnMut(&Slab, Item<'_>)) -> u64 {
        let (shard, position) = (cursor >> 32, cursor & u64::from(u32::MAX));
        let Some(index) = usize::try_from(shard).ok().filter(|index| *index < self.shard_count()) else { return 0 };
        self.enter_shard(index);
        let now_ms = self.now_ms;
        let Shard { slab, databases, seed, .. } = &*self.shard;
        let next = databases[self.index].table.scan(slab, &ItemHash { seed: *seed }, position, |h| {
            let item = item_at(slab, h);
            if item.deadline_ms() > now_ms {
                visit(slab, item);
            }
        });
        match next {
            0 if index + 1 < self.shard_count() => (shard + 1) << 32,
            0 => 0,
            next => shard << 32 | next,
        }
    }

    /// The name of a key picked uniformly from those alive.
    pub fn random_key(&mut self, mut next_u64: impl FnMut() -> u64) -> Option<Vec<u8>> {
        // With very many expired keys about, take an expired one rather than search for ever, as Redis does.
        for attempt in 0..100 {
            if !self.enter_by_chance(&mut next_u64) {
                return None;
            }
            let Shard { slab, databases, .. } = &*self.shard;
            // Between two looks the shard may have been emptied by others.
            let Some(handle) = databases[self.index].table.random(slab, &mut next_u64) else { continue };
            let item = item_at(slab, handle);
            let mut name = Vec::new();
            item.append_key(slab, &mut name);
            if item.deadline_ms() > self.now_ms || attempt == 99 {
                return Some(name);
            }
            let key = self.key(&name);
            self.find(key);
        }
        None
    }

    /// Makes a shard the current one with the chance of its share of the keys; false: there are none.
    fn enter_by_chance(&mut self, next_u64: &mut impl FnMut() -> u64) -> bool {
        let keys = self.len();
        if self.shard_count() == 1 {
            return keys > 0;
        }
        let index = self.index;
        #[expect(clippy::cast_possible_truncation, reason = "below the number of keys")]
        let pick = ((u128::from(next_u64()) * keys as u128) >> 64) as usize;
        let (mut before, mut picked) = (0, None);
        for shard in 0..self.shard_count() {
            self.enter_shard(shard);
            before += self.shard.databases[index].len();
            if before > pick {
                picked = Some(shard);
                break;
            }
        }
        picked.is_some()
    }

    /// Empties this database; the memory is given back later, in slices. Returns how many keys there were.
    pub fn flush(&mut self) -> usize {
        let (index, mut keys) = (self.index, 0);
        self.each_shard(|shard| keys += shard.detach(index));
        self.tell_flushed();
        keys
    }

    /// The same for all databases.
    pub fn flush_all(&mut self) -> usize {
        let mut keys = 0;
        self.each_shard(|shard| keys += shard.flush_all());
        self.tell_flushed();
        keys
    }

    /// A mark that `is_drained` will answer when everything flushed so far has been given back.
    pub fn flush_marks(&mut self) -> Vec<u64> {
        let mut marks = Vec::with_capacity(self.shard_count());
        self.each_shard(|shard| marks.push(shard.flush_mark()));
        marks
    }

    pub fn is_drained(&mut self, marks: &[u64]) -> bool {
        let (mut marks, mut drained) = (marks.iter(), true);
        self.each_shard(|shard| drained &= marks.next().is_none_or(|mark| shard.is_drained(*mark)));
        drained
    }

    /// Would both keys lie in one shard? Then a blob may pass from one to the other.
    #[must_use]
    pub fn same_shard(&self, a: Key<'_>, b: Key<'_>) -> bool {
        #[cfg(test)]
        if self.shard.apart {
            return false;
        }
        self.locks.as_ref().is_none_or(|locks| locks.keyspace().index(a.hash) == locks.keyspace().index(b.hash))
    }
}

/// For a key whose site is not known, or not good any more.
#[inline(never)]
fn find_anew(table: &Table, slab: &Slab, bytes: &[u8], hash: u64) -> Option<Slot> {
    let key = Key { bytes, hash, site: Site::NONE };
    table.find(slab, hash, |h| item_at(slab, h).is_key(slab, key))
}

/// Frees an item that was just taken out of a table, or leaves it to the views that see it.
pub(super) fn part_with(table: &mut Table, slab: &mut Slab, containers: &mut Containers, hash: u64, h: Handle) {
    if !table.defer(slab, hash, h, || item_at(slab, h).held_bytes(slab)) {
        free_item(slab, containers, h);
    }
}

/// Frees an item that no table names any more.
pub(super) fn free_item(slab: &mut Slab, containers: &mut Containers, h: Handle) {
    let item = item_at(slab, h);
    let bytes = item.header().item_bytes();
    if let Some(id) = item.container() {
        containers.release(slab, id);
    }
    // SAFETY: `h` was a live item until its caller took it out of the table; nobody else knows it.
    unsafe {
        item::release_blobs(slab, h);
        slab.free(h, bytes);
    }
}
