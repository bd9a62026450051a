//! Versions of a blob: copy-on-write of what readers can see, pins, and the freeing of versions that nobody reads any more. Owns the chain of
//! bodies of a blob and what counts to which; must not know what is appended and written, nor what the bytes mean.
//!
//! # Versions
//! Before the owner overwrites what a reader can see, it takes a new body (`fork`) that shares everything with the old one: at most 5
//! extents and 248 leaves of the index are counted once more, whatever the length. Then it copies the leaf it has to change (512 entries), and the
//! extent (256 KiB). So the first write of a byte costs the same in a blob of 1 MiB and of 30 GiB, and the next one nothing.
//!
//! # Accounts
//! Each page of memory counts to the newest version that uses it (`Body::pages`): to the present one, or to a former one from the moment the present
//! one has a copy of its own. When a former version goes, what it counted and did not free is used by the version before it, and counts
//! there.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::{Blobs, EXTENTS_FREED_AT_ONCE, Owner};
use crate::body::{self, Body, INLINE, LEAF_ENTRIES, Link};
use crate::error::AllocError;
use crate::extents::EXTENT_PAGES_MIN;
use crate::handle::BlobId;
use crate::region::PAGE_BYTES;

impl Blobs {
    /// Counts pages to a body, or takes them off.
    pub(super) fn count_pages(&mut self, number: u32, pages: i64) {
        let body = self.shared.body(number);
        let counted = i64::from(body.pages.load(Relaxed)) + pages;
        body.pages.store(u32::try_from(counted).expect("pages of the region"), Relaxed);
        if let Link::Present(_) = body.link() {
            self.present_pages = self.present_pages.strict_add_signed(pages);
        }
    }

    pub(super) fn pages(&self, page: u32) -> i64 {
        i64::try_from(self.extents.pages(page)).expect("an extent has at most 64 pages")
    }

    /// Bytes that only former versions use, or that wait to be freed.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.extents.used_bytes - self.present_pages * PAGE_BYTES as u64
    }

    /// The present version gives up an extent or leaf: it is freed, or counts to the version before from now on.
    pub(super) fn part_with(&mut self, number: u32, page: u32) {
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
    pub(super) fn own(&mut self, id: BlobId, extent: usize) -> Result<(), AllocError> {
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
    pub(super) fn make_unique(&mut self, id: BlobId) -> Result<(), AllocError> {
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

    pub(super) fn drop_owner_ref(&mut self, number: u32) {
        // Release our writes to whoever frees the body; acquire the readers' reads if that is us.
        if self.shared.body(number).refs.fetch_sub(1, AcqRel) == 1 {
            self.free_body(number);
        }
    }

    /// Frees a body without references: at once when it is small, in slices otherwise.
    pub(super) fn free_body(&mut self, number: u32) {
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
    pub(super) fn free_last_extent(&mut self, number: u32) {
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
    pub(super) fn free_extent(&mut self, number: u32, page: u32) {
        let used_bytes = self.extents.used_bytes;
        let pages = self.pages(page);
        self.extents.release_ref(&self.shared.region, page);
        if self.extents.used_bytes < used_bytes {
            self.count_pages(number, -pages);
        }
    }

    /// Frees what is left of a body without extents, and the body.
    pub(super) fn finish_body(&mut self, number: u32) {
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
}
