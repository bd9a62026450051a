//! Values that change their place: RENAME, MOVE, COPY, SWAPDB.
//!
//! Within a shard a value is handed over: a new item takes over what the old one owns outside of its chunk, whatever the type and however
//! large. Between shards, and for COPY, a value goes as a [`Copied`]: bytes, or a reference to a large one, that the caller copies in
//! slices. All that can fail comes first, so that an error changes nothing.
#![allow(unsafe_code)]

use super::any::{AnyBody, AnyViewed};
use super::item::{self, Expiry, Key, NewKey, NewValue, Type, Value};
use super::marks::Marking;
use super::view::{Db, Deadline, Found, part_with};
use super::{DbError, ItemHash, Shard, item_at};
use crate::table::Site;
use crate::types::Span;
use dolmen_slab::{BlobId, BlobRef, Kind};

/// A value taken along to another key.
pub struct Copied {
    pub content: Content,
    /// Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// As `item::flag::MODIFIED` says.
    modified: bool,
    /// The flags of a client of memcached.
    flags: u32,
}

pub enum Content {
    Raw(Vec<u8>),
    Int(i64),
    /// As it was when it was read, whatever happens to the key.
    Blob(BlobRef),
    /// A packed container.
    Packed(Type, Vec<u8>),
    /// A big one, likewise as it was. To be closed ([`Copied::close`]).
    Container(AnyViewed),
}

/// What was made of a value that is not copied at once.
pub enum Made {
    /// It was: there is nothing more.
    Nothing,
    Blob(BlobId),
    Container(AnyBody),
}

/// What became of MOVE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    Done,
    /// There is no such key.
    Missing,
    /// The other database has one.
    Occupied,
}

impl Copied {
    /// Ends the view of a big container, if it is one.
    pub fn close(self, db: &mut Db<'_>) {
        if let Content::Container(view) = self.content {
            view.close(db);
        }
    }
}

impl Shard {
    /// What was in one database is in the other, and the reverse. Snapshots go with the tables that they were opened on.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a == b {
            return;
        }
        self.databases.swap(a, b);
        self.databases_used = self.databases_used.max(a.max(b) + 1);
        // Sites made before belong to tables that are now elsewhere.
        let (low, high) = self.databases.split_at_mut(a.max(b));
        let (one, other) = (&mut low[a.min(b)].table, &mut high[0].table);
        let latest = one.epoch().max(other.epoch());
        one.set_epoch(latest + 1);
        other.set_epoch(latest + 1);
        one.swap_mirrors(other);
    }
}

impl Db<'_> {
    /// Works on another database, at the same instant.
    pub fn in_database<T>(&mut self, index: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        let (own, epoch) = (self.index, self.epoch);
        self.look_at_database(index, Db::NOT_LOCATED);
        let done = work(self);
        self.look_at_database(own, epoch);
        done
    }

    /// Is there such a key, for a command that goes on to write? No read, no use.
    #[must_use]
    pub fn is_there(&mut self, key: Key<'_>) -> bool {
        self.find(key).is_some()
    }

    /// Must a command that names this key of any database wait? The pipeline asks for the client's own database only.
    #[must_use]
    pub fn is_held_in(&mut self, database: usize, key: Key<'_>, writes: bool) -> bool {
        self.in_database(database, |db| db.is_held(key.hash, writes))
    }

    /// Gives a key of this shard another name of the same shard, over what was there; value, deadline and all go along. False: no such key.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn rename(&mut self, from: Key<'_>, to: Key<'_>) -> Result<bool, DbError> {
        // Looking a key up may delete it, which moves others: the second look changes nothing any more.
        self.find(to);
        let Some(mut source) = self.find(from) else { return Ok(false) };
        if from.bytes == to.bytes {
            self.touch(source);
            return Ok(true);
        }
        if self.is_viewed() {
            // The value goes over to another item.
            source.handle = self.own(from.hash, source)?;
        }
        let target = self.find(to);
        let new_key = if to.bytes.len() > item::KEY_INLINE_MAX {
            NewKey::Blob(self.key_blob(to)?, to.hash)
        } else {
            NewKey::Inline(to.bytes)
        };
        if let Err(e) = self.relink(source, to, target, new_key) {
            if let NewKey::Blob(id, _) = new_key {
                self.shard.slab.blob_release(id);
            }
            return Err(e);
        }
        self.tell_new(self.index, to);
        let Some(source) = self.find(from) else { unreachable!("found above, at the same instant") };
        let Shard { slab, databases, .. } = &mut *self.shard;
        let database = &mut databases[self.index];
        let h = database.table.remove(slab, from.hash, source.slot);
        let header = item_at(slab, h).header();
        database.expires -= u64::from(header.flags & item::flag::EXPIRY != 0);
        // SAFETY: the table has just given this item up, and no view sees it (`own`); the value belongs to its new item.
        unsafe {
            item::release_key_blob(slab, h);
            slab.free(h, header.item_bytes());
        }
        self.arm_fields(to);
        Ok(true)
    }

    /// Puts an item with the value of `source` under the name `to`.
    fn relink(
        &mut self,
        source: Found,
        to: Key<'_>,
        target: Option<Found>,
        new_key: NewKey<'_>,
    ) -> Result<(), DbError> {
        let item = self.item(source.handle);
        let (header, deadline_ms) = (item.header(), item.expiry().map(|e| e.deadline_ms));
        let armed = target.and_then(|target| self.item(target.handle).expiry()).map_or(0, |e| e.armed);
        let expiry = match deadline_ms {
            Some(at) => Some(self.arm(to.hash, at, armed)?),
            None => None,
        };
        let used = self.used_word(source.handle);
        let Shard { slab, databases, containers, seed, .. } = &mut *self.shard;
        let database = &mut databases[self.index];
        let words = item::Words { expiry, marks: item_at(slab, source.handle).marks() };
        let bytes = item::bytes_with_key(header, &new_key, &words);
        let h = slab.alloc(bytes, Kind::Item)?;
        // SAFETY: the source is live, the chunk was allocated for the copy, and the key comes from outside of both.
        unsafe { item::copy_value_with_key(slab, source.handle, h, used, new_key, words) };
        match target {
            Some(target) => {
                database.table.replace_seen(slab, to.hash, target.slot, h);
                database.expires -= u64::from(item_at(slab, target.handle).has_expiry());
                part_with(&mut database.table, slab, containers, to.hash, target.handle);
            }
            None => {
                if let Err(e) = database.table.insert(slab, &ItemHash { seed: *seed }, to.hash, h) {
                    // SAFETY: allocated above with this size, and the table does not name it.
                    unsafe { slab.free(h, bytes) };
                    return Err(e.into());
                }
            }
        }
        database.expires += u64::from(expiry.is_some());
        Ok(())
    }

    /// Moves a key to another database, with value and deadline, unless that has such a key.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn move_to(&mut self, key: Key<'_>, database: usize) -> Result<Moved, DbError> {
        debug_assert_ne!(database, self.index);
        let Some(mut found) = self.find(key) else { return Ok(Moved::Missing) };
        self.touch(found);
        if self.is_viewed() {
            // What a view of the one table sees must not be another table's.
            found.handle = self.own(key.hash, found)?;
        }
        let (h, deadline_ms) = (found.handle, self.item(found.handle).expiry().map(|e| e.deadline_ms));
        // The site is one of this database's table.
        let there = Key { site: Site::NONE, ..key };
        let armed = self.in_database(database, |target| {
            if target.find(there).is_some() {
                return Ok(None);
            }
            deadline_ms.map(|at| target.arm(key.hash, at, 0)).transpose().map(Some)
        });
        let Some(expiry) = armed? else { return Ok(Moved::Occupied) };
        let Shard { slab, databases, seed, .. } = &mut *self.shard;
        databases[database].table.insert(slab, &ItemHash { seed: *seed }, key.hash, h)?;
        databases[database].expires += u64::from(expiry.is_some());
        let here = &mut databases[self.index];
        here.table.remove(slab, key.hash, found.slot);
        here.expires -= u64::from(expiry.is_some());
        if let Some(expiry) = expiry {
            // SAFETY: the item is live, in its new table, and has a deadline word.
            unsafe { item::overwrite_expiry(slab, h, expiry) };
        }
        self.in_database(database, |target| target.arm_fields(there));
        self.tell_new(database, key);
        Ok(Moved::Done)
    }

    /// The value of a key, to be copied. Counts as a read.
    pub fn copied(&mut self, key: Key<'_>) -> Option<Copied> {
        let found = self.find_read(key)?;
        self.touch(found);
        let item = self.item(found.handle);
        let modified = item.header().flags & item::flag::MODIFIED != 0;
        let flags = item.marks().map_or(0, |marks| marks.flags);
        let deadline_ms = item.expiry().map(|e: Expiry| e.deadline_ms);
        let content = if item.is_string() {
            match item.value() {
                Value::Raw(bytes) => Content::Raw(bytes.to_vec()),
                Value::Int(i) => Content::Int(i),
                Value::Blob(id) => Content::Blob(self.blob_ref(id)),
            }
        } else {
            match item.content() {
                item::Content::Packed(packed) => Content::Packed(item.kind(), packed.to_vec()),
                item::Content::Big(_) => {
                    let kind = item.kind();
                    Content::Container(self.open_any_view(key, kind, Span::default())?)
                }
            }
        };
        Some(Copied { content, deadline_ms, modified, flags })
    }

    /// Writes a copied value over whatever a key holds. `made` is the copy of a large one, which this takes over.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then, and what was made is freed.
    pub fn put_copied(&mut self, key: Key<'_>, copied: &Copied, made: Made) -> Result<(), DbError> {
        let deadline = copied.deadline_ms.map_or(Deadline::None, Deadline::At);
        let value = match (&copied.content, made) {
            (_, Made::Container(body)) => return body.store(self, key, deadline).map(|_| ()),
            (_, Made::Blob(blob)) => NewValue::Blob(blob),
            (Content::Raw(bytes), _) => NewValue::Raw(bytes),
            (Content::Int(i), _) => NewValue::Int(*i),
            (Content::Packed(kind, packed), _) => NewValue::Packed(*kind, packed),
            (Content::Blob(_) | Content::Container(_), _) => unreachable!("a large value is copied before"),
        };
        let replaces = self.find(key).is_some();
        self.set_marked(key, value, deadline, Marking::of_flags(copied.flags))?;
        self.arm_fields(key);
        if replaces {
            self.tell_new(self.index, key);
        }
        if copied.modified {
            self.mark_modified(key);
        }
        self.arm_fields(key);
        Ok(())
    }

    // ---- a large value that is made in slices; it belongs to the shard of its key ----

    /// An empty blob for a value of `len_bytes`.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`].
    pub fn blob_new(&mut self, key: Key<'_>, len_bytes: usize) -> Result<BlobId, DbError> {
        self.enter(key.hash);
        self.shard.blob_new(len_bytes)
    }

    /// # Errors
    /// [`DbError::OutOfMemory`]; the blob is as it was.
    pub fn blob_append(&mut self, key: Key<'_>, id: BlobId, bytes: &[u8]) -> Result<(), DbError> {
        self.enter(key.hash);
        self.shard.blob_append(id, bytes)
    }
}
