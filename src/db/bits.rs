//! Parts of strings: reading a few bytes anywhere, changing them in place, growing by zeros; strings as they were at one instant; values
//! that are built in slices. Knows nothing of bits.

use super::DbError;
use super::item::{self, Key, NewValue, Value};
use super::marks::Marking;
use super::view::{Db, Deadline, Found};
use crate::base::int;
use dolmen_slab::{BlobId, BlobRef, SEGMENT_BYTES};

/// Bytes that [`Db::edit_string`] changes at most.
pub const EDIT_BYTES_MAX: usize = 16;

/// The bytes of a string as they were when this was made, whatever is written to its key since.
#[derive(Debug)]
pub enum StringSnapshot {
    /// A string that lay in its item, copied.
    Small(Vec<u8>),
    Large(BlobRef),
}

impl StringSnapshot {
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            StringSnapshot::Small(bytes) => bytes.len(),
            StringSnapshot::Large(blob) => blob.len(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contiguous bytes from `at` on, at most `max_bytes`; empty at the end and beyond. Never across a multiple of [`SEGMENT_BYTES`].
    #[must_use]
    pub fn piece(&self, at: usize, max_bytes: usize) -> &[u8] {
        match self {
            StringSnapshot::Small(bytes) => {
                let rest = bytes.get(at..).unwrap_or_default();
                &rest[..rest.len().min(max_bytes)]
            }
            StringSnapshot::Large(blob) => blob_piece(blob, at, max_bytes),
        }
    }
}

/// As [`StringSnapshot::piece`].
#[must_use]
pub fn blob_piece(blob: &BlobRef, at: usize, max_bytes: usize) -> &[u8] {
    if at >= blob.len() {
        return &[];
    }
    let rest = &blob.segment(at / SEGMENT_BYTES)[at % SEGMENT_BYTES..];
    &rest[..rest.len().min(max_bytes)]
}

/// What an edit did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Edited {
    /// The string was made, or became longer.
    pub grew: bool,
    /// Bytes that were there became others.
    pub changed: bool,
}

impl Db<'_> {
    /// The string at a key as it is now, for a command that reads.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    pub fn string_snapshot(&mut self, key: Key<'_>) -> Result<Option<StringSnapshot>, DbError> {
        Ok(match self.read_string(key)? {
            None => None,
            Some(Value::Raw(bytes)) => Some(StringSnapshot::Small(bytes.to_vec())),
            Some(Value::Int(i)) => Some(StringSnapshot::Small(int::write_i64(&mut [0; 20], i).to_vec())),
            Some(Value::Blob(id)) => Some(StringSnapshot::Large(self.blob_ref(id))),
        })
    }

    /// Copies bytes of the string at a key from `offset` on, for a command that reads. Returns how many there were.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    pub fn read_part(&mut self, key: Key<'_>, offset: usize, into: &mut [u8]) -> Result<usize, DbError> {
        match self.find_read(key) {
            Some(found) => self.part_of(found, offset, into),
            None => Ok(0),
        }
    }

    /// The same for a command that goes on to write.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    pub fn part_for_write(&mut self, key: Key<'_>, offset: usize, into: &mut [u8]) -> Result<usize, DbError> {
        match self.find(key) {
            Some(found) => self.part_of(found, offset, into),
            None => Ok(0),
        }
    }

    fn part_of(&self, found: Found, offset: usize, into: &mut [u8]) -> Result<usize, DbError> {
        let mut digits = [0; 20];
        let bytes = match self.string_of(found)? {
            Value::Raw(bytes) => bytes,
            Value::Int(i) => int::write_i64(&mut digits, i),
            Value::Blob(id) => return Ok(self.blob_part(id, offset, into)),
        };
        let rest = bytes.get(offset..).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn blob_part(&self, id: BlobId, offset: usize, into: &mut [u8]) -> usize {
        let slab = &self.shard.slab;
        let len = slab.blob_len(id).saturating_sub(offset).min(into.len());
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let rest = &slab.blob_segment(id, at / SEGMENT_BYTES)[at % SEGMENT_BYTES..];
            let now = rest.len().min(len - done);
            into[done..done + now].copy_from_slice(&rest[..now]);
            done += now;
        }
        len
    }

    /// Lets `edit` change `len` bytes of the string at a key from `offset` on. It is made, or grows by zeros, if it is too short; its
    /// deadline stays.
    ///
    /// # Errors
    /// [`DbError::WrongType`], [`DbError::OutOfMemory`]; nothing has changed then, but that the string may have grown.
    ///
    /// # Panics
    /// When `len` is more than [`EDIT_BYTES_MAX`].
    pub fn edit_string(
        &mut self,
        key: Key<'_>,
        offset: usize,
        len: usize,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<Edited, DbError> {
        let end = offset.checked_add(len).ok_or(DbError::OutOfMemory)?;
        let mut grew = false;
        loop {
            if let Some(mut found) = self.find(key) {
                self.touch(found);
                let mut before = [0; EDIT_BYTES_MAX];
                if let Value::Blob(id) = self.string_of(found)? {
                    if self.shard.slab.blob_len(id) >= end {
                        self.blob_part(id, offset, &mut before[..len]);
                        let mut after = before;
                        edit(&mut after[..len]);
                        let changed = after != before;
                        // What a reader sees is copied for a write, so nothing is written for nothing.
                        if changed {
                            if self.is_viewed() {
                                found.handle = self.own(key.hash, found)?;
                            }
                            self.shard.slab.blob_write_at(id, offset, &after[..len])?;
                            self.renew_marks(found);
                        }
                        return Ok(Edited { grew, changed });
                    }
                } else {
                    if self.is_viewed() {
                        found.handle = self.own(key.hash, found)?;
                    }
                    if let Some(part) = self.raw_string_mut(found).and_then(|bytes| bytes.get_mut(offset..end)) {
                        before[..len].copy_from_slice(part);
                        edit(part);
                        let changed = *part != before[..len];
                        self.renew_marks(found);
                        return Ok(Edited { grew, changed });
                    }
                }
            }
            // An integer becomes its text here, which is no change.
            grew |= self.extend_string(key, end)?;
        }
    }

    /// Sees to it that the string at a key is at least `len` bytes long and no integer, by zeros behind what it has; its deadline stays.
    /// True: it was made, or grew. However long the zeros are, this takes no time to speak of.
    ///
    /// # Errors
    /// [`DbError::WrongType`], [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn extend_string(&mut self, key: Key<'_>, len: usize) -> Result<bool, DbError> {
        let found = self.find(key);
        let mut digits = [0; 20];
        let mut whole = Vec::new();
        if let Some(found) = found {
            let old = match self.string_of(found)? {
                Value::Blob(id) => {
                    let grows = self.shard.slab.blob_len(id) < len;
                    if grows {
                        let mut found = found;
                        if self.is_viewed() {
                            found.handle = self.own(key.hash, found)?;
                        }
                        self.shard.slab.blob_extend_zeros(id, len)?;
                        self.renew_marks(found);
                    }
                    return Ok(grows);
                }
                Value::Raw(bytes) if bytes.len() >= len => return Ok(false),
                Value::Raw(bytes) => bytes,
                Value::Int(i) => int::write_i64(&mut digits, i),
            };
            whole.extend_from_slice(old);
        }
        let grows = found.is_none() || whole.len() < len;
        let inline = len <= item::value_inline_max(key.bytes.len());
        let value = if inline {
            whole.resize(len.max(whole.len()), 0);
            NewValue::Raw(&whole)
        } else {
            let slab = &mut self.shard.slab;
            let id = slab.blob_new(len)?;
            if let Err(e) = slab.blob_append(id, &whole).and_then(|()| slab.blob_extend_zeros(id, len)) {
                slab.blob_release(id);
                return Err(e.into());
            }
            NewValue::Blob(id)
        };
        let deadline = if found.is_some() { Deadline::Keep } else { Deadline::None };
        self.set_slow(key, found, value, deadline, Marking::Keep)?;
        Ok(grows)
    }
}
