//! Blobs: values above 16 KiB, as seen by their owner.
//!
//! Owns which body (version) each id has, growth, copy-on-write and deferred freeing. Must not know what the bytes mean.
//!
//! Layout: all extents of a body are full and of [`SEGMENT_BYTES`] but the last, which may be smaller; when that is full it is first
//! replaced by a larger one, so that a byte's place follows from its offset alone.
//!
//! # Versions
//! Before the owner overwrites what a reader can see, it takes a new body ([`Blobs::fork`]) that shares everything with the old one: at most 5
//! extents and 248 leaves of the index are counted once more, whatever the length. Then it copies the leaf it has to change (512 entries), and the
//! extent (256 KiB). So the first write of a byte costs the same in a blob of 1 MiB and of 30 GiB, and the next one nothing.
//!
//! # Accounts
//! Each page of memory counts to the newest version that uses it (`Body::pages`): to the present one, or to a former one from the moment the present
//! one has a copy of its own. When a former version goes, what it counted and did not free is used by the version before it, and counts
//! there.
#![allow(unsafe_code)]

use std::io;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::body::{self, BlobRef, Body, EXTENTS_MAX, INLINE, LEAF_ENTRIES, LEAVES, Link, SEGMENT_BYTES, Shared};
use crate::error::AllocError;
use crate::extents::{EXTENT_PAGES_MAX, EXTENT_PAGES_MIN, Extents};
use crate::handle::BlobId;
use crate::region::{Commit, PAGE_BYTES, Table};

/// Bodies with more extents are freed in slices.
const EXTENTS_FREED_AT_ONCE: usize = 4;
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
    /// Live ids.
    pub(crate) count: u64,
    /// Pages that present versions use.
    present_pages: u64,
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
            count: 0,
            present_pages: 0,
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

    /// Counts pages to a body, or takes them off.
    fn count_pages(&mut self, number: u32, pages: i64) {
        let body = self.shared.body(number);
        let counted = i64::from(body.pages.load(Relaxed)) + pages;
        body.pages.store(u32::try_from(counted).expect("pages of the region"), Relaxed);
        if let Link::Present(_) = body.link() {
            self.present_pages = self.present_pages.strict_add_signed(pages);
        }
    }

    fn pages(&self, page: u32) -> i64 {
        i64::try_from(self.extents.pages(page)).expect("an extent has at most 64 pages")
    }

    /// Bytes that only former versions use, or that wait to be freed.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.extents.used_bytes - self.present_pages * PAGE_BYTES as u64
    }

    pub(crate) fn len(&self, id: BlobId) -> u64 {
        self.body(id).len.load(Relaxed)
    }

    /// Bytes of the extents and the index of a blob; of a pinned one those that no newer version uses.
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
        // as a growing one, and `&mut self` excludes the owner's own readers. It is initialised: zeros of the kernel, or old bytes.
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

    /// Takes back what a failed append has added; no reader has seen it.
    fn truncate(&mut self, id: BlobId, len: u64) {
        let number = self.number(id);
        // An extent with room behind `len` stays, even an empty one if it is the first.
        let keep = body::segments(len).max(1);
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
        self.count_pages(number, self.pages(page));
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
            self.free_extent(number, page);
        }
    }

    /// A leaf or directory. What it holds is not defined; nobody looks at entries of a leaf beyond the extents of its body.
    fn alloc_index(&mut self, number: u32) -> Result<u32, AllocError> {
        let page = self.alloc_extent(EXTENT_PAGES_MIN)?;
        self.count_pages(number, self.pages(page));
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
        // SAFETY: both extents are live, at least `bytes` long and distinct; the copy is nobody else's yet, the old one is only read.
        unsafe { self.shared.address(old, 0).copy_to_nonoverlapping(self.shared.address(copy, 0), bytes) };
        self.shared.set_entry(body, extent, copy);
        self.extents.touch(copy, bytes);
        self.count_pages(number, self.pages(copy));
        self.part_with(number, old);
        Ok(())
    }

    /// The present version gives up an extent or leaf: it is freed, or counts to the version before from now on.
    fn part_with(&mut self, number: u32, page: u32) {
        let pages = self.pages(page);
        self.count_pages(number, -pages);
        if self.extents.is_shared(page) {
            let older = self.shared.body(number).older.load(Relaxed);
            debug_assert!(older != 0, "shared with a version before");
            self.count_pages(older, pages);
        }
        self.extents.release_ref(&self.shared.region, page);
    }

    /// Makes the body of a blob, and the leaf that lists an extent, the owner's alone.
    fn own(&mut self, id: BlobId, extent: usize) -> Result<(), AllocError> {
        self.make_unique(id)?;
        let Some((leaf, _)) = body::leaf_place(extent) else { return Ok(()) };
        let number = self.number(id);
        let old = self.shared.leaf(self.shared.body(number), leaf);
        if !self.extents.is_shared(old) {
            return Ok(());
        }
        let copy = self.alloc_index(number)?;
        if !self.extents.is_shared(old) {
            // Memory was short, and the other version was freed for it.
            self.free_extent(number, copy);
            return Ok(());
        }
        let body = self.shared.body(number);
        let first = INLINE + leaf * LEAF_ENTRIES;
        let count = (body.extents.load(Relaxed) as usize - first).min(LEAF_ENTRIES);
        self.shared.copy_index(old, copy, count);
        self.extents.touch(copy, count * size_of::<u32>());
        self.shared.leaf_of(body, leaf).store(copy, Relaxed);
        for extent in first..first + count {
            self.extents.retain(self.shared.entry(body, extent));
        }
        self.part_with(number, old);
        Ok(())
    }

    /// Gives the owner a body of its own, if readers hold the present one.
    fn make_unique(&mut self, id: BlobId) -> Result<(), AllocError> {
        let old = self.number(id);
        // Acquire: what readers that are gone have read was read before we write. No reader can come while we hold `&mut self`.
        if self.shared.body(old).refs.load(Acquire) == 1 {
            return Ok(());
        }
        let new = self.fork(old)?;
        self.owners[id.bits() as usize] = Owner::Body(new).pack();
        self.drop_owner_ref(old);
        Ok(())
    }

    /// A new version after the present one, `old`: all extents and leaves are shared until they are written.
    fn fork(&mut self, old: u32) -> Result<u32, AllocError> {
        let error = AllocError { requested_bytes: size_of::<Body>() };
        let new = self.take_body(0).ok_or(error)?;
        if self.shared.body(old).directory.load(Relaxed) != 0 {
            let directory = match self.alloc_extent(EXTENT_PAGES_MIN) {
                Ok(page) => page,
                Err(error) => {
                    self.put_body(new);
                    return Err(error);
                }
            };
            self.shared.body(new).directory.store(directory, Relaxed);
        }
        let (from, to) = (self.shared.body(old), self.shared.body(new));
        let extents = from.extents.load(Relaxed) as usize;
        for extent in 0..extents.min(INLINE) {
            let page = self.shared.entry(from, extent);
            self.extents.retain(page);
            self.shared.set_entry(to, extent, page);
        }
        let (old_directory, directory) = (from.directory.load(Relaxed), to.directory.load(Relaxed));
        if directory != 0 {
            self.extents.touch(directory, PAGE_BYTES);
            self.shared.clear_index(directory);
        }
        for leaf in 0..body::leaves(extents) {
            let page = self.shared.leaf(from, leaf);
            self.extents.retain(page);
            self.shared.leaf_of(to, leaf).store(page, Relaxed);
        }
        to.extents.store(from.extents.load(Relaxed), Relaxed);
        to.len.store(from.len.load(Relaxed), Relaxed);
        to.set_link(from.link());
        to.older.store(old, Relaxed);
        let counted = i64::from(from.pages.load(Relaxed));
        // All counts to the new version, but for the directory, of which each has its own.
        let stays = if old_directory != 0 { self.pages(old_directory) } else { 0 };
        self.count_pages(old, -counted);
        self.count_pages(new, counted);
        self.shared.body(old).set_link(Link::Former(new));
        self.count_pages(old, stays);
        Ok(new)
    }

    /// Another id for the present contents, which will not change any more: it can be read and released. The blob goes on under its own id.
    pub(crate) fn pin(&mut self, id: BlobId) -> Result<BlobId, AllocError> {
        let error = AllocError { requested_bytes: size_of::<Body>() };
        let old = self.number(id);
        if matches!(self.shared.body(old).link(), Link::Former(_)) {
            let pin = self.take_id(old).ok_or(error)?;
            self.shared.body(old).refs.fetch_add(1, Relaxed);
            return Ok(pin);
        }
        let pin = self.take_id(old).ok_or(error)?;
        match self.fork(old) {
            Ok(new) => {
                // The owner's reference passes to the pin.
                self.owners[id.bits() as usize] = Owner::Body(new).pack();
                Ok(pin)
            }
            Err(error) => {
                self.put_id(pin);
                Err(error)
            }
        }
    }

    fn drop_owner_ref(&mut self, number: u32) {
        // Release our writes to whoever frees the body; acquire the readers' reads if that is us.
        if self.shared.body(number).refs.fetch_sub(1, AcqRel) == 1 {
            self.free_body(number);
        }
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
            self.present_pages -= u64::from(body.pages.load(Relaxed));
            body.set_link(Link::Former(0));
        }
        self.drop_owner_ref(number);
    }

    /// Frees a body without references: at once when it is small, in slices otherwise.
    fn free_body(&mut self, number: u32) {
        if self.shared.body(number).extents.load(Relaxed) as usize > EXTENTS_FREED_AT_ONCE {
            self.shared.body(number).next.store(self.pending, Relaxed);
            self.pending = number;
            return;
        }
        while self.shared.body(number).extents.load(Relaxed) > 0 {
            self.free_last_extent(number);
        }
        self.finish_body(number);
    }

    /// Frees the last extent of a body that has one, or all that are in a leaf which other versions use.
    fn free_last_extent(&mut self, number: u32) {
        let body = self.shared.body(number);
        let last = body.extents.load(Relaxed) - 1;
        let place = body::leaf_place(last as usize);
        if let Some((leaf, place)) = place {
            let page = self.shared.leaf(body, leaf);
            let shared = self.extents.is_shared(page);
            if shared || place == 0 {
                let first = last - u32::try_from(place).expect("below LEAF_ENTRIES");
                let extent = self.shared.entry(body, last as usize);
                self.shared.leaf_of(body, leaf).store(0, Relaxed);
                body.extents.store(first, Relaxed);
                if !shared {
                    self.free_extent(number, extent);
                }
                return self.free_extent(number, page);
            }
        }
        let page = self.shared.entry(body, last as usize);
        body.extents.store(last, Relaxed);
        self.free_extent(number, page);
    }

    /// Drops a body's reference to an extent or leaf.
    fn free_extent(&mut self, number: u32, page: u32) {
        let used_bytes = self.extents.used_bytes;
        let pages = self.pages(page);
        self.extents.release_ref(&self.shared.region, page);
        if self.extents.used_bytes < used_bytes {
            self.count_pages(number, -pages);
        }
    }

    /// Frees what is left of a body without extents, and the body.
    fn finish_body(&mut self, number: u32) {
        let directory = self.shared.body(number).directory.load(Relaxed);
        if directory != 0 {
            self.free_extent(number, directory);
        }
        // Its neighbours close ranks. What it counted and is not free, the version before uses.
        let body = self.shared.body(number);
        let older = body.older.load(Relaxed);
        let left = i64::from(body.pages.load(Relaxed));
        let Link::Former(newer) = body.link() else { unreachable!("a present version has its owner's reference") };
        if newer != 0 {
            self.shared.body(newer).older.store(older, Relaxed);
        }
        if older != 0 {
            self.shared.body(older).set_link(Link::Former(newer));
            self.count_pages(older, left);
        } else {
            debug_assert_eq!(left, 0, "pages that nobody uses");
        }
        self.put_body(number);
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

    /// Frees up to `budget_extents` of what waits to be freed. True: there is more.
    pub(crate) fn drain(&mut self, budget_extents: usize) -> bool {
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
