//! String values: reading, writing in place where the chunk allows it, counters, appending.
#![allow(unsafe_code)]

use super::access::Uses;
use super::glance::Glance;
use super::item::{self, Encoding, Header, Key, NewValue, Value, Words};
use super::marks::Marking;
use super::view::{Db, Deadline, Found};
use super::{DbError, Shard, item_at};
use crate::base::int;
use crate::table::Site;
use dolmen_slab::{BlobId, BlobRef, Kind, Slab};

/// What [`Db::read_plain`] finds.
pub enum Plain<'a> {
    Value(&'a [u8]),
    Absent,
    Seldom,
}

impl Db<'_> {
    /// The string at a key, for a command that reads: counts hits and misses.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    #[inline(always)]
    pub fn read_string(&mut self, key: Key<'_>) -> Result<Option<Value<'_>>, DbError> {
        match self.find_read(key) {
            Some(found) => {
                self.touch(found);
                self.string_of(found).map(Some)
            }
            None => Ok(None),
        }
    }

    /// The string at a key by one look, which is enough for most: as `read_string`, or `Seldom`: it is not, and nothing was done.
    #[inline(always)]
    pub fn read_plain(&mut self, key: Key<'_>) -> Plain<'_> {
        match self.glance::<{ item::RAW }>(key) {
            Glance::At(h) => {
                self.touch_item(h);
                let Shard { slab, stats, .. } = &mut *self.shard;
                // (Before the count, as that might be a write to the item for all the compiler knows.)
                let item = item_at(slab, h);
                stats.hits += 1;
                Plain::Value(item.raw_value())
            }
            Glance::Absent => {
                self.count_read(false);
                self.tell_missed(key);
                Plain::Absent
            }
            Glance::Other => Plain::Seldom,
        }
    }

    /// The string at a key, for a command that goes on to write.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    #[inline]
    pub fn string_for_write(&mut self, key: Key<'_>) -> Result<Option<Value<'_>>, DbError> {
        match self.find(key) {
            Some(found) => {
                self.touch(found);
                self.string_of(found).map(Some)
            }
            None => Ok(None),
        }
    }

    #[inline(always)]
    pub(super) fn string_of(&self, found: Found) -> Result<Value<'_>, DbError> {
        let item = item_at(&self.shard.slab, found.handle);
        if !item.is_string() {
            return Err(DbError::WrongType);
        }
        Ok(item.value())
    }

    /// The bytes of a string that lies in its item as it is, to be changed in place. The item is `own`.
    pub(super) fn raw_string_mut(&mut self, found: Found) -> Option<&mut [u8]> {
        let header = self.item(found.handle).header();
        if header.kind != item::Type::String || header.encoding != Encoding::Raw {
            return None;
        }
        // SAFETY: a live item, with a raw value.
        Some(unsafe { item::raw_value_mut(&mut self.shard.slab, found.handle) })
    }

    /// A reference to a large value, for sending it from where it lies.
    #[must_use]
    pub fn blob_ref(&self, id: BlobId) -> BlobRef {
        self.shard.slab.blob_ref(id)
    }

    /// Length of a value in bytes, as STRLEN counts it.
    #[must_use]
    pub fn value_len(&self, value: &Value<'_>) -> usize {
        match value {
            Value::Raw(b) => b.len(),
            Value::Int(i) => int::write_i64(&mut [0; 20], *i).len(),
            Value::Blob(id) => self.shard.slab.blob_len(*id),
        }
    }

    /// A value that fits where it belongs: `bytes` themselves, or a new blob of them.
    fn new_value<'v>(&mut self, key: Key<'_>, bytes: &'v [u8]) -> Result<NewValue<'v>, DbError> {
        if bytes.len() <= item::value_inline_max(key.bytes.len()) {
            return Ok(NewValue::Raw(bytes));
        }
        Ok(NewValue::Blob(blob_of(&mut self.shard.slab, &[bytes])?))
    }

    /// The commonest write: a string over one of the same length that has no deadline, where access words are clocks. False: it is not that;
    /// nothing was done.
    #[inline(always)]
    pub fn overwrite_alike(&mut self, key: Key<'_>, bytes: &[u8]) -> bool {
        let Glance::At(h) = self.glance::<{ item::RAW }>(key) else { return false };
        if self.is_viewed() || self.stamps.uses != Uses::Clocked {
            // The way of the other writes makes it the command's own, and counts.
            return false;
        }
        // SAFETY: a live item; no view is open; `bytes` came from outside of the slab.
        unsafe { item::overwrite_alike(&mut self.shard.slab, h, self.stamps.tick, bytes) }
    }

    /// Writes a string, whatever was there before.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then, and a blob given as `value` was released.
    #[inline(always)]
    pub fn set_string(&mut self, key: Key<'_>, value: NewValue<'_>, deadline: Deadline) -> Result<(), DbError> {
        if deadline == Deadline::None
            && let NewValue::Raw(bytes) = value
            && self.overwrite_alike(key, bytes)
        {
            return Ok(());
        }
        // By parts, as all of the key would be put into memory for the call, whether it is made or not.
        self.set_seldom(key.bytes, (key.hash, key.site), value, deadline)
    }

    #[inline(never)]
    fn set_seldom(
        &mut self,
        bytes: &[u8],
        (hash, site): (u64, Site),
        value: NewValue<'_>,
        deadline: Deadline,
    ) -> Result<(), DbError> {
        let key = Key { bytes, hash, site };
        let found = self.find(key);
        if let (Some(found), NewValue::Raw(bytes)) = (found, value) {
            let header = self.rewritten(found);
            if deadline == Deadline::None
                && header.flags & (item::flag::EXPIRY | item::flag::MARKS) == 0
                && matches!(header.encoding, Encoding::Raw | Encoding::Int)
                && bytes.len() <= item::value_inline_max(key.bytes.len())
                && fits(header, &value)
                && !self.is_viewed()
            {
                // SAFETY: a live item; no view is open; the chunk's class has room for the new value; the old one is no blob; `bytes` came from outside.
                unsafe { item::overwrite_value(&mut self.shard.slab, found.handle, header, value) };
                return Ok(());
            }
        }
        self.set_slow(key, found, value, deadline, Marking::None)
    }

    /// The same with marks.
    ///
    /// # Errors
    /// As `set_string`.
    pub fn set_marked(
        &mut self,
        key: Key<'_>,
        value: NewValue<'_>,
        deadline: Deadline,
        marking: Marking,
    ) -> Result<(), DbError> {
        let found = self.find(key);
        self.set_slow(key, found, value, deadline, marking)
    }

    #[inline(never)]
    pub(super) fn set_slow(
        &mut self,
        key: Key<'_>,
        found: Option<Found>,
        value: NewValue<'_>,
        deadline: Deadline,
        marking: Marking,
    ) -> Result<(), DbError> {
        let value = match value {
            NewValue::Raw(bytes) => self.new_value(key, bytes)?,
            other => other,
        };
        let written = match found {
            None => {
                let deadline_ms = if let Deadline::At(at) = deadline { Some(at) } else { None };
                let marks = self.new_marks(None, marking);
                self.insert_new(key, value, deadline_ms, marks)
            }
            Some(found) => self.replace_value(key, found, value, deadline, marking),
        };
        if written.is_err()
            && let NewValue::Blob(id) = value
        {
            self.shard.slab.blob_release(id);
        }
        written
    }

    /// Puts another value into an item that is there, and gives up the old one.
    pub(super) fn replace_value(
        &mut self,
        key: Key<'_>,
        mut found: Found,
        value: NewValue<'_>,
        deadline: Deadline,
        marking: Marking,
    ) -> Result<(), DbError> {
        if self.is_viewed() {
            found.handle = self.own(key.hash, found)?;
        }
        let header = self.rewritten(found);
        let item = self.item(found.handle);
        let old_expiry = item.expiry();
        let (old_blob, old_container) = (item.value_blob(), item.container());
        let old_marks = item.marks();
        let expiry = match deadline {
            Deadline::None => None,
            Deadline::Keep => old_expiry,
            Deadline::At(at) => Some(self.arm(key.hash, at, old_expiry.map_or(0, |e| e.armed))?),
        };
        let words = Words { expiry, marks: self.new_marks(old_marks, marking) };
        let is_alike = (expiry.is_some(), words.marks.is_some()) == (old_expiry.is_some(), old_marks.is_some());
        if is_alike && fits(header, &value) {
            // SAFETY: a live item whose chunk has room for the new value; the old blob is released below and no longer named.
            unsafe {
                item::overwrite_value(&mut self.shard.slab, found.handle, header, value);
                if let Some(expiry) = expiry {
                    item::overwrite_expiry(&mut self.shard.slab, found.handle, expiry);
                }
                if let Some(marks) = words.marks {
                    item::overwrite_marks(&mut self.shard.slab, found.handle, marks);
                }
            }
        } else {
            let slab = &mut self.shard.slab;
            let mut new_header = header;
            new_header.flags = header.flags & !(item::flag::EXPIRY | item::flag::MARKS) | words.flags();
            let to = slab.alloc(item::bytes_with_value(new_header, &value), Kind::Item)?;
            // SAFETY: `to` is new and long enough; the key is read from the old item, which is another chunk.
            unsafe { item::copy_key_with_value(slab, found.handle, to, header.clock, value, words) };
            self.move_found(found, to);
            let expires = &mut self.shard.databases[self.index].expires;
            *expires = *expires + u64::from(expiry.is_some()) - u64::from(old_expiry.is_some());
        }
        if let Some(id) = old_blob {
            self.shard.slab.blob_release(id);
        }
        if let Some(id) = old_container {
            self.shard.containers.release(&mut self.shard.slab, id);
        }
        Ok(())
    }

    /// Adds to the integer at a key (0 if absent); the deadline stays. Returns the sum.
    ///
    /// # Errors
    /// [`DbError::WrongType`], [`DbError::NotAnInteger`], [`DbError::Overflow`], [`DbError::OutOfMemory`]; nothing has changed then.
    #[inline]
    pub fn add_int(&mut self, key: Key<'_>, by: i64) -> Result<i64, DbError> {
        if let Glance::At(h) = self.glance::<{ item::INT }>(key)
            && !self.is_viewed()
            && self.stamps.uses == Uses::Clocked
        {
            // SAFETY: a live item whose value is an integer; no view is open.
            if let Some(sum) = unsafe { item::add_alike(&mut self.shard.slab, h, self.stamps.tick, by) } {
                return Ok(sum);
            }
        }
        let Some(found) = self.find(key) else {
            self.insert_new(key, NewValue::Int(by), None, None)?;
            return Ok(by);
        };
        let old = match self.string_of(found)? {
            Value::Int(i) => i,
            Value::Raw(bytes) => int::parse_i64(bytes).ok_or(DbError::NotAnInteger)?,
            Value::Blob(_) => return Err(DbError::NotAnInteger),
        };
        let sum = old.checked_add(by).ok_or(DbError::Overflow)?;
        let value = NewValue::Int(sum);
        let header = self.rewritten(found);
        if fits(header, &value) && !self.is_viewed() && header.flags & item::flag::MARKS == 0 {
            // SAFETY: a live item, no view is open, whose chunk has room for an integer; the old value is no blob.
            unsafe { item::overwrite_value(&mut self.shard.slab, found.handle, header, value) };
        } else {
            self.replace_value(key, found, value, Deadline::Keep, Marking::Keep)?;
        }
        Ok(sum)
    }

    /// Appends to the string at a key (empty if absent); the deadline stays. Returns the new length.
    ///
    /// # Errors
    /// [`DbError::WrongType`], [`DbError::TooLong`] above `max_bytes`, [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn append(&mut self, key: Key<'_>, bytes: &[u8], max_bytes: usize) -> Result<usize, DbError> {
        let Some(mut found) = self.find(key) else {
            if bytes.len() > max_bytes {
                return Err(DbError::TooLong);
            }
            let value = self.new_value(key, bytes)?;
            return self.set_slow(key, None, value, Deadline::None, Marking::None).map(|()| bytes.len());
        };
        let value = self.string_of(found)?;
        let len = self.value_len(&value) + bytes.len();
        if len > max_bytes {
            return Err(DbError::TooLong);
        }
        let mut digits = [0; 20];
        let old = match value {
            Value::Blob(id) => {
                if self.is_viewed() {
                    found.handle = self.own(key.hash, found)?;
                }
                self.shard.slab.blob_append(id, bytes)?;
                self.touch(found);
                self.renew_marks(found);
                return Ok(len);
            }
            Value::Raw(old) => old,
            Value::Int(i) => int::write_i64(&mut digits, i),
        };
        let whole;
        let value = if len <= item::value_inline_max(key.bytes.len()) {
            whole = [old, bytes].concat();
            NewValue::Raw(&whole)
        } else {
            let old = old.to_vec();
            NewValue::Blob(blob_of(&mut self.shard.slab, &[&old, bytes])?)
        };
        self.set_slow(key, Some(found), value, Deadline::Keep, Marking::Keep)?;
        self.mark_modified(key);
        Ok(len)
    }

    /// The string at a key was changed in part (as APPEND does, or SETRANGE): OBJECT ENCODING calls it raw from now on, as in Redis.
    pub fn mark_modified(&mut self, key: Key<'_>) {
        let Some(found) = self.find(key) else { return };
        let mut header = self.item(found.handle).header();
        header.flags |= item::flag::MODIFIED;
        // In place also if a snapshot sees the item: this is none of what it shows.
        // SAFETY: the header of this live item, with that flag.
        unsafe { item::overwrite_header(&mut self.shard.slab, found.handle, header) };
    }

    /// The header that an item has when its value is written anew.
    #[inline(always)]
    pub(super) fn rewritten(&mut self, found: Found) -> Header {
        let mut header = self.item(found.handle).header();
        header.flags &= !(item::flag::MODIFIED | item::flag::HIT);
        header.clock = self.rewritten_word(found.handle);
        header
    }

    /// Length of the string at a key, for a command that goes on to write.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    pub fn len_for_write(&mut self, key: Key<'_>) -> Result<Option<usize>, DbError> {
        let Some(found) = self.find(key) else { return Ok(None) };
        let value = self.string_of(found)?;
        Ok(Some(self.value_len(&value)))
    }

    /// Puts `bytes` (at least one) at `offset` into the string at a key (empty if absent), with zeros between its end and there; the deadline
    /// stays. Returns the new length.
    ///
    /// # Errors
    /// [`DbError::WrongType`], [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn set_range(&mut self, key: Key<'_>, offset: usize, bytes: &[u8]) -> Result<usize, DbError> {
        let found = self.find(key);
        let value = found.map(|found| self.string_of(found)).transpose()?;
        if let (Some(mut found), Some(Value::Blob(id))) = (found, value) {
            if self.is_viewed() {
                found.handle = self.own(key.hash, found)?;
            }
            self.shard.slab.blob_write(id, offset, bytes)?;
            self.touch(found);
            self.renew_marks(found);
            return Ok(self.shard.slab.blob_len(id));
        }
        let mut whole = value.map_or(Vec::new(), |value| self.copy_value(&value));
        let end = offset.checked_add(bytes.len()).ok_or(DbError::TooLong)?;
        let len = whole.len().max(end);
        if len <= item::value_inline_max(key.bytes.len()) {
            whole.resize(len, 0);
            whole[offset..end].copy_from_slice(bytes);
            self.set_slow(key, found, NewValue::Raw(&whole), Deadline::Keep, Marking::Keep)?;
            return Ok(len);
        }
        let slab = &mut self.shard.slab;
        let id = blob_of(slab, &[&whole])?;
        if let Err(e) = slab.blob_write(id, offset, bytes) {
            slab.blob_release(id);
            return Err(e.into());
        }
        self.set_slow(key, found, NewValue::Blob(id), Deadline::Keep, Marking::Keep)?;
        Ok(len)
    }

    // ---- a long change, prepared aside: it is nobody's until `set_string` puts it in the place of the old value ----

    /// A blob in the shard of `key` of what the string there is now (of nothing if absent), to be changed by `patch`.
    ///
    /// # Errors
    /// [`DbError::WrongType`], [`DbError::OutOfMemory`].
    pub fn patch_new(&mut self, key: Key<'_>) -> Result<BlobId, DbError> {
        let Some(found) = self.find(key) else { return Ok(self.shard.slab.blob_new(0)?) };
        match self.string_of(found)? {
            Value::Blob(id) => Ok(self.shard.slab.blob_duplicate(id)?),
            value => {
                let bytes = self.copy_value(&value);
                blob_of(&mut self.shard.slab, &[&bytes])
            }
        }
    }

    /// Puts bytes into what `patch_new` made, as `set_range` does.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`].
    pub fn patch(&mut self, key: Key<'_>, patched: BlobId, offset: usize, bytes: &[u8]) -> Result<(), DbError> {
        self.enter(key.hash);
        Ok(self.shard.slab.blob_write(patched, offset, bytes)?)
    }

    /// Gives up a blob in the shard of `key` that became no value.
    pub fn blob_drop(&mut self, key: Key<'_>, id: BlobId) {
        self.enter(key.hash);
        self.shard.slab.blob_release(id);
    }

    /// Length of a blob in the shard of `key`, in bytes.
    #[must_use]
    pub fn blob_len(&mut self, key: Key<'_>, id: BlobId) -> usize {
        self.enter(key.hash);
        self.shard.slab.blob_len(id)
    }

    /// The bytes of a value, copied.
    #[must_use]
    pub fn copy_value(&self, value: &Value<'_>) -> Vec<u8> {
        match value {
            Value::Raw(b) => b.to_vec(),
            Value::Int(i) => int::write_i64(&mut [0; 20], *i).to_vec(),
            Value::Blob(id) => {
                let slab = &self.shard.slab;
                let mut bytes = Vec::with_capacity(slab.blob_len(*id));
                (0..slab.blob_segments(*id)).for_each(|i| bytes.extend_from_slice(slab.blob_segment(*id, i)));
                bytes
            }
        }
    }
}

/// Does the chunk of an item have room for another value?
#[inline(always)]
fn fits(header: Header, value: &NewValue<'_>) -> bool {
    let (old, new) = (header.item_bytes(), item::bytes_with_value(header, value));
    old == new || Slab::class_bytes(new) == Slab::class_bytes(old)
}

pub(super) fn blob_of(slab: &mut Slab, parts: &[&[u8]]) -> Result<BlobId, DbError> {
    let id = slab.blob_new(parts.iter().map(|p| p.len()).sum())?;
    for part in parts {
        if let Err(e) = slab.blob_append(id, part) {
            slab.blob_release(id);
            return Err(e.into());
        }
    }
    Ok(id)
}
