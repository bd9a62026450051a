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
//! one has a copy of its own. A version that parts with a page hands it on to the one before that uses it. Who that is, and whether a newer one
//! counts it, is told by the place in the index, as an extent has the same number in all versions. Holes count to nobody.
//!
//! # Duplicates
//! A duplicate is a chain of versions of its own, which shares extents and leaves with the other: whatever is named by more than one is copied
//! before it is written. Each chain counts what it uses, so shared memory counts twice as long as it is shared. The extent that grows is never
//! shared among chains: former versions leave it to the present one what is behind their ends, but two present ones could not.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::{Blobs, EXTENTS_FREED_AT_ONCE, Owner};
use crate::body::{self, Body, INLINE, LEAF_ENTRIES, Link, Place};
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
        if let Link::Former(_) = body.link() {
            self.kept_pages = self.kept_pages.strict_add_signed(pages);
        }
    }

    /// Bytes that only former versions use, or that wait to be freed. (What former versions of duplicates share, both count.)
    pub(crate) fn kept_bytes(&self) -> u64 {
        (self.kept_pages * PAGE_BYTES as u64).min(self.extents.used_bytes)
    }

    /// Whether a page that a version names at a place counts to it, and not to a newer one. Versions that are being freed name less than they
    /// did, so that those behind them are asked.
    fn counts(&self, number: u32, place: Place, page: u32) -> bool {
        let mut link = self.shared.body(number).link();
        while let Link::Former(newer) = link
            && newer != 0
        {
            let body = self.shared.body(newer);
            if self.shared.named(body, place) == page {
                return false;
            }
            if body.refs.load(Relaxed) > 0 {
                break;
            }
            link = body.link();
        }
        true
    }

    /// The version before this one that names a page at a place.
    fn heir(&self, number: u32, place: Place, page: u32) -> Option<u32> {
        let mut older = self.shared.body(number).older.load(Relaxed);
        while older != 0 {
            let body = self.shared.body(older);
            if self.shared.named(body, place) == page {
                return Some(older);
            }
            if body.refs.load(Relaxed) > 0 {
                break;
            }
            older = body.older.load(Relaxed);
        }
        None
    }

    /// A version gives up an extent or leaf that it named at a place: it is freed, or counts to the version before from now on.
    pub(super) fn part_with(&mut self, number: u32, place: Place, page: u32) {
        let is_left = self.extents.is_shared(page);
        self.hand_on(number, place, page, is_left);
        self.extents.release_ref(&self.shared.region, page);
    }

    /// A page that a version does not use any more counts to the one before that does, if others are left that use it.
    fn hand_on(&mut self, number: u32, place: Place, page: u32, is_left: bool) {
        let pages = self.extents.counted_pages(page);
        if pages == 0 || is_left && !self.counts(number, place, page) {
            return;
        }
        self.count_pages(number, -pages);
        if is_left && let Some(older) = self.heir(number, place, page) {
            self.count_pages(older, pages);
        }
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
            self.part_with(number, Place::Leaf(leaf), copy);
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
        self.part_with(number, Place::Leaf(leaf), old);
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
        if let Err(error) = self.share(old, new) {
            self.put_body(new);
            return Err(error);
        }
        let (from, to) = (self.shared.body(old), self.shared.body(new));
        to.older.store(old, Relaxed);
        let counted = i64::from(from.pages.load(Relaxed));
        let old_directory = from.directory.load(Relaxed);
        // All counts to the new version, but for the directory, of which each has its own.
        let stays = if old_directory != 0 { self.extents.counted_pages(old_directory) } else { 0 };
        self.count_pages(old, -counted);
        self.count_pages(new, counted);
        self.shared.body(old).set_link(Link::Former(new));
        self.count_pages(old, stays);
        Ok(new)
    }

    /// Gives a new body the contents of another one: all extents and leaves, and a directory like its. On error it has nothing.
    fn share(&mut self, old: u32, new: u32) -> Result<(), AllocError> {
        if self.shared.body(old).directory.load(Relaxed) != 0 {
            let directory = self.alloc_extent(EXTENT_PAGES_MIN)?;
            self.extents.touch(directory, PAGE_BYTES);
            self.shared.clear_index(directory);
            self.shared.body(new).directory.store(directory, Relaxed);
        }
        let (from, to) = (self.shared.body(old), self.shared.body(new));
        let extents = from.extents.load(Relaxed) as usize;
        for extent in 0..extents.min(INLINE) {
            let page = self.shared.entry(from, extent);
            self.extents.retain(page);
            self.shared.set_entry(to, extent, page);
        }
        for leaf in 0..body::leaves(extents) {
            let page = self.shared.leaf(from, leaf);
            self.extents.retain(page);
            self.shared.leaf_of(to, leaf).store(page, Relaxed);
        }
        to.extents.store(from.extents.load(Relaxed), Relaxed);
        to.len.store(from.len.load(Relaxed), Relaxed);
        to.set_link(from.link());
        Ok(())
    }

    /// A blob of the same bytes that shares the memory until one of them is written, but for an extent that has room.
    pub(crate) fn duplicate(&mut self, id: BlobId) -> Result<BlobId, AllocError> {
        self.check_present(id);
        let copy = self.create(0)?;
        if let Err(error) = self.try_duplicate(id, copy) {
            self.release(copy);
            return Err(error);
        }
        Ok(copy)
    }

    fn try_duplicate(&mut self, id: BlobId, copy: BlobId) -> Result<(), AllocError> {
        let (from, to) = (self.number(id), self.number(copy));
        self.share(from, to)?;
        self.count_pages(to, i64::from(self.shared.body(from).pages.load(Relaxed)));
        if let Some((page, _)) = self.room(copy) {
            let last = self.body(copy).extents.load(Relaxed) as usize - 1;
            self.own(copy, last)?;
            self.replace(copy, last, self.extents.pages(page))?;
        }
        Ok(())
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

    /// Frees the last extent of a body that has one, or all that are in a leaf which others use.
    pub(super) fn free_last_extent(&mut self, number: u32) {
        let body = self.shared.body(number);
        let last = body.extents.load(Relaxed) as usize - 1;
        let (leaf, place) = match body::leaf_place(last) {
            Some((leaf, place)) => (Some((leaf, self.shared.leaf(body, leaf))), place),
            None => (None, 0),
        };
        if let Some((leaf, page)) = leaf
            && self.extents.is_shared(page)
        {
            for extent in last - place..=last {
                let page = self.shared.entry(self.shared.body(number), extent);
                self.hand_on(number, Place::Extent(extent), page, true);
            }
            let body = self.shared.body(number);
            self.shared.leaf_of(body, leaf).store(0, Relaxed);
            body.extents.store(u32::try_from(last - place).expect("at most EXTENTS_MAX"), Relaxed);
            return self.part_with(number, Place::Leaf(leaf), page);
        }
        let extent = self.shared.entry(body, last);
        body.extents.store(u32::try_from(last).expect("at most EXTENTS_MAX"), Relaxed);
        self.part_with(number, Place::Extent(last), extent);
        if let Some((leaf, page)) = leaf
            && place == 0
        {
            self.shared.leaf_of(self.shared.body(number), leaf).store(0, Relaxed);
            self.part_with(number, Place::Leaf(leaf), page);
        }
    }

    /// Frees what is left of a body without extents, and the body.
    pub(super) fn finish_body(&mut self, number: u32) {
        let directory = self.shared.body(number).directory.load(Relaxed);
        if directory != 0 {
            self.count_pages(number, -self.extents.counted_pages(directory));
            self.extents.release_ref(&self.shared.region, directory);
        }
        // Its neighbours close ranks.
        let body = self.shared.body(number);
        let older = body.older.load(Relaxed);
        debug_assert_eq!(body.pages.load(Relaxed), 0, "pages that nobody uses");
        let Link::Former(newer) = body.link() else { unreachable!("a present version has its owner's reference") };
        if newer != 0 {
            self.shared.body(newer).older.store(older, Relaxed);
        }
        if older != 0 {
            self.shared.body(older).set_link(Link::Former(newer));
        }
        self.put_body(number);
    }
}
