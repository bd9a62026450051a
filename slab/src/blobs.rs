//! Blobs: values above 16 KiB, as seen by their owner.
//!
//! Owns which body (version) each id has, growth, writing and collecting; `versions` has copy-on-write and freeing. Must not know what the bytes
//! mean.
//!
//! Layout: all extents of a body are full and of [`SEGMENT_BYTES`] but the last, which may be smaller; when that is full it is first
//! replaced by a larger one, so that a byte's place follows from its offset alone. A hole is a full extent that several entries name: one
//! that was never written. It is never the one that grows, since that has room.
//!
//! Invariant on which holes rest: behind the touched part of an extent (`Extents::touched_bytes`) there are zeros. So whoever writes to an
//! extent tells so by `Extents::touch`.
#![allow(unsafe_code)]

mod versions;

use std::io;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::body::{self, BlobRef, Body, EXTENTS_MAX, LEAVES, Link, Place, SEGMENT_BYTES, Shared};
use crate::error::AllocError;
use crate::extents::{EXTENT_PAGES_MAX, EXTENT_PAGES_MIN, Extents};
use crate::handle::BlobId;
use crate::region::{Commit, PAGE_BYTES, Table};

/// Bodies with more extents are freed in slices.
const EXTENTS_FREED_AT_ONCE: usize = 4;
/// An extent of zeros that so many holes name is left for a new one, so that its count cannot overflow: each name takes 4 bytes of index.
const HOLES_MAX: u32 = 1 << 31;
/// Returned bodies collected when a blob is made.
const COLLECTED_AT_ONCE: usize = 8;

/// An entry of the owner table: the body of a live id, or a link in the list of free ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Body(u32),
    Free(u32),
}

impl Owner {
    /// ```text
    ///  31      30                        0
    /// ┌───────┬───────────────────────────┐
    /// │ free  │ body number, or next id   │    all-zero is no owner: body 0 does not exist
    /// └───────┴───────────────────────────┘
    /// ```
    const FREE_BIT: u32 = 1 << 31;

    fn pack(self) -> u32 {
        match self {
            Owner::Body(number) => number,
            Owner::Free(next) => next | Owner::FREE_BIT,
        }
    }

    fn unpack(word: u32) -> Owner {
        if word & Owner::FREE_BIT == 0 { Owner::Body(word) } else { Owner::Free(word & !Owner::FREE_BIT) }
    }
}

/// All blobs of a slab.
pub(crate) struct Blobs {
    shared: Arc<Shared>,
    bodies_commit: Commit,
    pub(crate) extents: Extents,
    /// Packed [`Owner`] by id; id 0 is not used.
    owners: Table<u32>,
    /// First free id, 0 = none.
    free_id: u32,
    /// First unused body, linked by `next`; 0 = none.
    free_body: u32,
    /// Bodies without references whose extents are being freed, linked by `next`.
    pending: u32,
    /// Bodies taken from the return stack, not yet looked at, linked by `next`.
    collected: u32,
    /// What holes name: an extent that was never written, with one reference of ours; 0 = none yet.
    zeros: u32,
    /// Live ids.
    pub(crate) count: u64,
    /// Pages that count to former versions.
    kept_pages: u64,
}

impl Blobs {
    pub(crate) fn new(reserve_bytes: usize) -> io::Result<Blobs> {
        let shared = Shared::new(reserve_bytes)?;
        let ids = (shared.region.bytes() / (EXTENT_PAGES_MIN * PAGE_BYTES)).max(4096);
        let mut owners = Table::reserve(ids, ids)?;
        assert!(owners.grow_to(1), "the first page of ids cannot be committed");
        owners[0] = Owner::Free(0).pack();
        Ok(Blobs {
            extents: Extents::new(&shared.region)?,
            shared: Arc::new(shared),
            bodies_commit: Commit::new(64 << 10),
            owners,
            free_id: 0,
            free_body: 0,
            pending: 0,
            collected: 0,
            zeros: 0,
            count: 0,
            kept_pages: 0,
        })
    }

    /// # Panics
    /// When the id is not live.
    #[inline]
    fn number(&self, id: BlobId) -> u32 {
        match Owner::unpack(self.owners[id.bits() as usize]) {
            Owner::Body(number) => number,
            Owner::Free(_) => panic!("no blob {id:?}"),
        }
    }

    #[inline]
    fn body(&self, id: BlobId) -> &Body {
        self.shared.body(self.number(id))
    }

    pub(crate) fn create(&mut self, len_hint: usize) -> Result<BlobId, AllocError> {
        self.collect(COLLECTED_AT_ONCE);
        let error = AllocError { requested_bytes: len_hint };
        let number = self.take_body(len_hint.div_ceil(PAGE_BYTES)).ok_or(error)?;
        let Some(id) = self.take_id(number) else {
            self.put_body(number);
            return Err(error);
        };
        Ok(id)
    }

    /// An id for a body.
    fn take_id(&mut self, number: u32) -> Option<BlobId> {
        let id = if self.free_id != 0 {
            let id = self.free_id;
            let Owner::Free(next) = Owner::unpack(self.owners[id as usize]) else { unreachable!("id {id} is free") };
            self.free_id = next;
            id
        } else {
            let id = self.owners.len();
            if !self.owners.grow_to(id + 1) {
                return None;
            }
            u32::try_from(id).expect("ids have 31 bits")
        };
        self.owners[id as usize] = Owner::Body(number).pack();
        self.count += 1;
        Some(BlobId::from_bits(id))
    }

    fn put_id(&mut self, id: BlobId) {
        self.owners[id.bits() as usize] = Owner::Free(self.free_id).pack();
        self.free_id = id.bits();
        self.count -= 1;
    }

    fn take_body(&mut self, hint_pages: usize) -> Option<u32> {
        let number = if self.free_body != 0 {
            let number = self.free_body;
            self.free_body = self.shared.body(number).next.load(Relaxed);
            number
        } else {
            self.shared.add_body(&mut self.bodies_commit)?
        };
        let body = self.shared.body(number);
        body.len.store(0, Relaxed);
        body.set_link(Link::Present(u32::try_from(hint_pages).unwrap_or(u32::MAX)));
        body.older.store(0, Relaxed);
        body.pages.store(0, Relaxed);
        body.clear_index();
        body.refs.store(1, Relaxed);
        Some(number)
    }

    fn put_body(&mut self, number: u32) {
        self.shared.body(number).next.store(self.free_body, Relaxed);
        self.free_body = number;
    }

    pub(crate) fn len(&self, id: BlobId) -> u64 {
        self.body(id).len.load(Relaxed)
    }

    /// Bytes of the extents and the index of a blob, those it shares with duplicates included; holes take none. Of a pinned one those that no newer
    /// version uses.
    pub(crate) fn held_bytes(&self, id: BlobId) -> u64 {
        u64::from(self.body(id).pages.load(Relaxed)) * PAGE_BYTES as u64
    }

    /// The last extent and the bytes written to it, if it has room.
    fn room(&self, id: BlobId) -> Option<(u32, usize)> {
        let body = self.body(id);
        let last = (body.extents.load(Relaxed) as usize).checked_sub(1)?;
        let page = self.shared.entry(body, last);
        let written = body.len.load(Relaxed) - last as u64 * SEGMENT_BYTES as u64;
        let written = usize::try_from(written).expect("at most a segment");
        (written < self.extents.bytes(page)).then_some((page, written))
    }

    /// Room after the last byte, at least one byte; when there is none, `wanted_bytes` says how much is to come.
    ///
    /// # Panics
    /// When the blob is pinned.
    pub(crate) fn spare(&mut self, id: BlobId, wanted_bytes: usize) -> Result<&mut [u8], AllocError> {
        self.check_present(id);
        let (page, written) = match self.room(id) {
            Some(room) => room,
            None => {
                self.grow(id, wanted_bytes)?;
                self.room(id).expect("the blob has just grown")
            }
        };
        let bytes = self.extents.bytes(page) - written;
        // SAFETY: committed memory of a live extent beyond the blob's length: no reader looks there, no other owner has this extent
        // as a growing one (`duplicate`), and `&mut self` excludes the owner's own readers. It is initialised: zeros of the kernel, or old bytes.
        Ok(unsafe { slice::from_raw_parts_mut(self.shared.address(page, written).as_ptr(), bytes) })
    }

    /// # Panics
    /// When there is less room than `bytes`.
    pub(crate) fn advance(&mut self, id: BlobId, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let (page, written) = self.room(id).expect("room for the bytes");
        assert!(bytes <= self.extents.bytes(page) - written, "advanced beyond the spare room");
        self.extents.touch(page, written + bytes);
        let len = &self.body(id).len;
        len.store(len.load(Relaxed) + bytes as u64, Relaxed);
    }

    /// All or nothing.
    pub(crate) fn append(&mut self, id: BlobId, mut bytes: &[u8]) -> Result<(), AllocError> {
        let len = self.len(id);
        while !bytes.is_empty() {
            let spare = match self.spare(id, bytes.len()) {
                Ok(spare) => spare,
                Err(error) => {
                    self.truncate(id, len);
                    return Err(error);
                }
            };
            let (now, later) = bytes.split_at(bytes.len().min(spare.len()));
            spare[..now.len()].copy_from_slice(now);
            self.advance(id, now.len());
            bytes = later;
        }
        Ok(())
    }

    /// Puts bytes at a place, which may reach or lie beyond the end: zeros fill what is between. All or nothing.
    pub(crate) fn write(&mut self, id: BlobId, offset: usize, bytes: &[u8]) -> Result<(), AllocError> {
        let len = self.len(id);
        let inside = usize::try_from(len.saturating_sub(offset as u64)).unwrap_or(usize::MAX).min(bytes.len());
        let (over, behind) = bytes.split_at(inside);
        let hole = (offset as u64).saturating_sub(len);
        // What is overwritten comes last, as only what was appended can be taken back.
        let mut done = if behind.is_empty() { Ok(()) } else { self.extend_zeros(id, len + hole) };
        done = done
            .and_then(|()| self.append(id, behind))
            .and_then(|()| self.write_at(id, if over.is_empty() { 0 } else { offset }, over));
        if done.is_err() {
            self.truncate(id, len);
        }
        done
    }

    /// Grows a blob to `len` bytes with zeros, all or nothing. Whole segments become holes: they name one extent of zeros, which is copied
    /// when they are written to. So a hole costs its index, and what fills the segments at its ends was mostly never touched.
    pub(crate) fn extend_zeros(&mut self, id: BlobId, len: u64) -> Result<(), AllocError> {
        let before = self.len(id);
        let grown = self.try_extend_zeros(id, len);
        if grown.is_err() {
            self.truncate(id, before);
        }
        grown
    }

    fn try_extend_zeros(&mut self, id: BlobId, len: u64) -> Result<(), AllocError> {
        while self.len(id) < len {
            let rest = usize::try_from(len - self.len(id)).unwrap_or(usize::MAX);
            if rest >= SEGMENT_BYTES && self.len(id).is_multiple_of(SEGMENT_BYTES as u64) && self.room(id).is_none() {
                self.add_holes(id, rest / SEGMENT_BYTES)?;
                continue;
            }
            self.spare(id, rest)?;
            let (page, written) = self.room(id).expect("the blob has room");
            let end = self.extents.bytes(page).min(written.saturating_add(rest));
            let stale = self.extents.touched_bytes(page).clamp(written, end) - written;
            // SAFETY: as in `spare`: committed memory behind the blob's length, inside the extent. Behind what was touched it is zeros.
            unsafe { self.shared.address(page, written).as_ptr().write_bytes(0, stale) };
            let grown = &self.body(id).len;
            grown.store(grown.load(Relaxed) + (end - written) as u64, Relaxed);
        }
        Ok(())
    }

    /// Adds segments that are holes. The blob ends with a segment.
    fn add_holes(&mut self, id: BlobId, count: usize) -> Result<(), AllocError> {
        let first = self.body(id).extents.load(Relaxed) as usize;
        let error = AllocError { requested_bytes: count.saturating_mul(SEGMENT_BYTES) };
        if count > EXTENTS_MAX - first {
            return Err(error);
        }
        if self.zeros == 0 || self.extents.refs(self.zeros) >= HOLES_MAX {
            let fresh = self.extents.alloc_zeros(&self.shared.region).ok_or(error)?;
            if self.zeros != 0 {
                self.extents.release_ref(&self.shared.region, self.zeros);
            }
            self.zeros = fresh;
        }
        for extent in first..first + count {
            self.add_entry(id, extent)?;
            let body = self.body(id);
            self.shared.set_entry(body, extent, self.zeros);
            // A reader does not look at what is beyond the length it has seen; a failure finds all that there is to take back.
            #[expect(clippy::cast_possible_truncation, reason = "below EXTENTS_MAX")]
            body.extents.store(extent as u32 + 1, Relaxed);
            body.len.store((extent as u64 + 1) * SEGMENT_BYTES as u64, Relaxed);
            self.extents.retain(self.zeros);
        }
        Ok(())
    }

    /// Takes back what a failed append has added; no reader has seen it.
    fn truncate(&mut self, id: BlobId, len: u64) {
        let number = self.number(id);
        // An extent with room behind `len` stays, even an empty one if it is the first; but a hole has no room.
        let first_is_hole = self.shared.body(number).extents.load(Relaxed) > 0
            && self.extents.is_zeros(self.shared.entry(self.shared.body(number), 0));
        let keep = body::segments(len).max(usize::from(!first_is_hole));
        while self.shared.body(number).extents.load(Relaxed) as usize > keep {
            self.free_last_extent(number);
        }
        self.body(id).len.store(len, Relaxed);
    }

    fn check_present(&self, id: BlobId) {
        assert!(matches!(self.body(id).link(), Link::Present(_)), "{id:?} is pinned: it cannot change");
    }

    /// Makes room when the last extent is full.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, id: BlobId, wanted_bytes: usize) -> Result<(), AllocError> {
        let body = self.body(id);
        let extents = body.extents.load(Relaxed) as usize;
        if let Some(last) = extents.checked_sub(1) {
            let pages = self.extents.pages(self.shared.entry(body, last));
            if pages < EXTENT_PAGES_MAX {
                // Half as much again, so that many small appends copy each byte a few times at most.
                let wanted = (pages * PAGE_BYTES).saturating_add(wanted_bytes).div_ceil(PAGE_BYTES);
                self.own(id, last)?;
                return self.replace(id, last, wanted.max(pages + pages / 2).min(EXTENT_PAGES_MAX));
            }
        }
        let held_bytes = extents * SEGMENT_BYTES;
        let Link::Present(hint_pages) = body.link() else { unreachable!("checked by `spare`") };
        let hinted = (hint_pages as usize * PAGE_BYTES).saturating_sub(held_bytes);
        // Beyond what was announced: in proportion to the length, so that at most a fifth of a blob is unused.
        let wanted = wanted_bytes.max(if hinted > 0 { hinted } else { held_bytes / 4 });
        let pages = wanted.div_ceil(PAGE_BYTES).clamp(EXTENT_PAGES_MIN, EXTENT_PAGES_MAX);
        self.add_extent(id, pages)
    }

    fn alloc_extent(&mut self, pages: usize) -> Result<u32, AllocError> {
        let shared = &self.shared;
        if let Some(page) = self.extents.alloc(&shared.region, pages) {
            return Ok(page);
        }
        // Short of memory: now is the time to free what waits for it.
        while self.drain(usize::MAX) {}
        self.extents.alloc(&self.shared.region, pages).ok_or(AllocError { requested_bytes: pages * PAGE_BYTES })
    }

    fn add_extent(&mut self, id: BlobId, pages: usize) -> Result<(), AllocError> {
        let extents = self.body(id).extents.load(Relaxed) as usize;
        if extents == EXTENTS_MAX {
            return Err(AllocError { requested_bytes: pages * PAGE_BYTES });
        }
        self.add_entry(id, extents)?;
        let page = match self.alloc_extent(pages) {
            Ok(page) => page,
            Err(error) => {
                self.drop_entry(id, extents);
                return Err(error);
            }
        };
        let number = self.number(id);
        let body = self.shared.body(number);
        self.shared.set_entry(body, extents, page);
        body.extents.store(u32::try_from(extents + 1).expect("at most EXTENTS_MAX"), Relaxed);
        self.count_pages(number, self.extents.counted_pages(page));
        Ok(())
    }

    /// Sees to it that the index has a place for one more extent, which no other version looks at.
    fn add_entry(&mut self, id: BlobId, extent: usize) -> Result<(), AllocError> {
        let Some((leaf, place)) = body::leaf_place(extent) else { return Ok(()) };
        let page = self.shared.leaf(self.body(id), leaf);
        if page != 0 && self.extents.is_shared(page) {
            self.own(id, extent)?;
        }
        let number = self.number(id);
        if leaf >= LEAVES && self.shared.body(number).directory.load(Relaxed) == 0 {
            let page = self.alloc_index(number)?;
            self.extents.touch(page, PAGE_BYTES);
            self.shared.clear_index(page);
            self.shared.body(number).directory.store(page, Relaxed);
        }
        if self.shared.leaf(self.shared.body(number), leaf) == 0 {
            let page = self.alloc_index(number)?;
            self.shared.leaf_of(self.shared.body(number), leaf).store(page, Relaxed);
        }
        let page = self.shared.leaf(self.shared.body(number), leaf);
        self.extents.touch(page, (place + 1) * size_of::<u32>());
        Ok(())
    }

    /// Takes back a leaf that `add_entry` has made and that lists nothing.
    fn drop_entry(&mut self, id: BlobId, extent: usize) {
        let number = self.number(id);
        if let Some((leaf, 0)) = body::leaf_place(extent) {
            let page = self.shared.leaf_of(self.shared.body(number), leaf).swap(0, Relaxed);
            self.part_with(number, Place::Leaf(leaf), page);
        }
    }

    /// A leaf or directory. What it holds is not defined; nobody looks at entries of a leaf beyond the extents of its body.
    fn alloc_index(&mut self, number: u32) -> Result<u32, AllocError> {
        let page = self.alloc_extent(EXTENT_PAGES_MIN)?;
        self.count_pages(number, self.extents.counted_pages(page));
        Ok(page)
    }

    /// Puts a copy in the place of an extent. The body, and the leaf, are the owner's alone.
    fn replace(&mut self, id: BlobId, extent: usize, pages: usize) -> Result<(), AllocError> {
        let copy = self.alloc_extent(pages)?;
        let number = self.number(id);
        let body = self.shared.body(number);
        debug_assert_eq!(body.refs.load(Relaxed), 1);
        let old = self.shared.entry(body, extent);
        let written = body.len.load(Relaxed) - extent as u64 * SEGMENT_BYTES as u64;
        let bytes = usize::try_from(written).unwrap_or(usize::MAX).min(self.extents.bytes(old));
        debug_assert!(bytes <= self.extents.bytes(copy));
        // What was never touched is zeros, in the old one as in the copy, and need not be read or written.
        let touched = self.extents.touched_bytes(old).min(bytes);
        let stale = self.extents.touched_bytes(copy).clamp(touched, bytes) - touched;
        // SAFETY: both extents are live, at least `bytes` long and distinct; the copy is nobody else's yet, the old one is only read.
        unsafe {
            self.shared.address(old, 0).copy_to_nonoverlapping(self.shared.address(copy, 0), touched);
            self.shared.address(copy, touched).as_ptr().write_bytes(0, stale);
        }
        self.shared.set_entry(body, extent, copy);
        self.extents.touch(copy, touched);
        self.count_pages(number, self.extents.counted_pages(copy));
        self.part_with(number, Place::Extent(extent), old);
        Ok(())
    }

    pub(crate) fn write_at(&mut self, id: BlobId, offset: usize, bytes: &[u8]) -> Result<(), AllocError> {
        let end = offset.checked_add(bytes.len()).expect("inside the blob");
        assert!(end as u64 <= self.len(id), "written beyond the end of the blob");
        if bytes.is_empty() {
            return Ok(());
        }
        self.check_present(id);
        // All copies first, so that a failure leaves the contents as they were.
        for extent in offset / SEGMENT_BYTES..end.div_ceil(SEGMENT_BYTES) {
            self.own(id, extent)?;
            let page = self.shared.entry(self.body(id), extent);
            if self.extents.is_shared(page) {
                self.replace(id, extent, self.extents.pages(page))?;
            }
        }
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let within = at % SEGMENT_BYTES;
            let (now, later) = rest.split_at(rest.len().min(SEGMENT_BYTES - within));
            let page = self.shared.entry(self.body(id), at / SEGMENT_BYTES);
            // SAFETY: inside the length, hence inside the extent; the body is the owner's alone and so are its extents from `offset` to
            // `end` (copied above if not), and `&mut self` excludes the owner's own readers. `bytes` cannot overlap for that reason.
            unsafe { self.shared.address(page, within).as_ptr().copy_from_nonoverlapping(now.as_ptr(), now.len()) };
            self.extents.touch(page, within + now.len());
            at += now.len();
            rest = later;
        }
        Ok(())
    }

    pub(crate) fn segment(&self, id: BlobId, index: usize) -> &[u8] {
        let body = self.body(id);
        // SAFETY: the owner's reference lasts while `&self` does: releasing needs `&mut self`.
        unsafe { self.shared.segment(body, index, body.len.load(Relaxed)) }
    }

    pub(crate) fn reference(&self, id: BlobId) -> BlobRef {
        BlobRef::new(&self.shared, self.number(id))
    }

    pub(crate) fn release(&mut self, id: BlobId) {
        let number = self.number(id);
        self.put_id(id);
        let body = self.shared.body(number);
        if let Link::Present(_) = body.link() {
            body.set_link(Link::Former(0));
            self.kept_pages += u64::from(body.pages.load(Relaxed));
        }
        self.drop_owner_ref(number);
    }

    /// Looks at up to `bodies` of those that readers gave back.
    fn collect(&mut self, bodies: usize) {
        for _ in 0..bodies {
            if self.collected == 0 {
                self.collected = self.shared.take_returned();
            }
            let number = self.collected;
            if number == 0 {
                return;
            }
            self.collected = self.shared.body(number).next.load(Relaxed);
            self.free_body(number);
        }
    }

    /// Does what the owner released wait to be freed?
    pub(crate) fn has_pending(&self) -> bool {
        self.pending != 0
    }

    /// Frees up to `budget_extents` of what waits to be freed. True: there is more.
    #[inline]
    pub(crate) fn drain(&mut self, budget_extents: usize) -> bool {
        (self.pending != 0 || self.collected != 0 || self.shared.has_returned()) && self.drain_pending(budget_extents)
    }

    fn drain_pending(&mut self, budget_extents: usize) -> bool {
        let mut budget = budget_extents;
        while budget > 0 {
            if self.pending == 0 {
                // A returned body costs at most EXTENTS_FREED_AT_ONCE, or becomes pending.
                if self.collected == 0 && !self.shared.has_returned() {
                    break;
                }
                self.collect(1);
                budget = budget.saturating_sub(1);
                continue;
            }
            let number = self.pending;
            while budget > 0 && self.shared.body(number).extents.load(Relaxed) > 0 {
                self.free_last_extent(number);
                budget -= 1;
            }
            if self.shared.body(number).extents.load(Relaxed) == 0 {
                self.pending = self.shared.body(number).next.load(Relaxed);
                self.finish_body(number);
            }
        }
        self.pending != 0 || self.collected != 0 || self.shared.has_returned()
    }

    /// Releases extents that have been free long enough; see `Extents::release`.
    pub(crate) fn release_pages(&mut self, now_ms: u32, decay_ms: u32, budget_spans: &mut usize) -> bool {
        self.extents.release(&self.shared.region, now_ms, decay_ms, budget_spans)
    }

    /// Bytes of records in use.
    pub(crate) fn overhead_bytes(&self) -> usize {
        let bodies = self.shared.bodies_len() as usize * size_of::<Body>();
        self.extents.overhead_bytes() + self.owners.used_bytes() + bodies.next_multiple_of(PAGE_BYTES)
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        self.extents.unpoison(&self.shared.region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_words_pack_and_unpack() {
        for owner in [Owner::Body(1), Owner::Body(u32::MAX >> 1), Owner::Free(0), Owner::Free(u32::MAX >> 1)] {
            assert_eq!(Owner::unpack(owner.pack()), owner);
        }
    }
}
