//! One version of a blob's contents, shared by its owner and by readers on any thread.
//!
//! Owns the layout of a body (count, length, index of extents, neighbours), the mapping it lives in, and [`BlobRef`]. Must not know how extents
//! are found or reused: a reader that drops the last reference leaves the body on a stack, and the slab picks it up.
//!
//! Invariants, upheld by `blobs`, on which every `unsafe` here rests:
//! - While `refs > 0` the extents and index blocks of a body are live, and bytes below the length that any reference has seen do not
//!   change: the owner writes beyond its length only, or, when it holds the only reference, anywhere in extents no other body uses.
//! - Entries of the index that a reference can see (those below its length) do not change, nor do the pointers to them; new ones are written
//!   before a reference that sees them is made. They are atomics, so that reading some while others are written is defined.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::extents::{self, EXTENT_PAGES_MAX, EXTENT_PAGES_MIN, Extents};
use crate::region::{Commit, Mapping, PAGE_BYTES};

/// Contiguous part of a blob in bytes: segment `i` holds the bytes from `i * SEGMENT_BYTES`; only the last is shorter.
pub const SEGMENT_BYTES: usize = EXTENT_PAGES_MAX * PAGE_BYTES;

/// Extents listed in the body itself.
pub(crate) const INLINE: usize = 5;
/// Extents listed in a leaf of the index: 128 MiB of contents. To copy a leaf is to look at the record of each, hence not more.
pub(crate) const LEAF_ENTRIES: usize = 512;
/// Leaves named in the body itself.
pub(crate) const LEAVES: usize = 2;
/// Leaves that the directory names.
pub(crate) const DIRECTORY_ENTRIES: usize = 246;
/// Most extents of a blob: 31 GiB.
pub(crate) const EXTENTS_MAX: usize = INLINE + LEAF_ENTRIES * (LEAVES + DIRECTORY_ENTRIES);

const _: () = assert!(EXTENTS_MAX as u64 * SEGMENT_BYTES as u64 >= 4 << 30);
const _: () = assert!(LEAF_ENTRIES * size_of::<u32>() <= EXTENT_PAGES_MIN * PAGE_BYTES);
const _: () = assert!(DIRECTORY_ENTRIES * size_of::<u32>() <= EXTENT_PAGES_MIN * PAGE_BYTES);

/// A body.
///
/// ```text
///  0      4      8     16        20     24      28      32            52             60          64
/// ┌──────┬──────┬─────┬─────────┬──────┬───────┬───────┬─────────────┬─────────────┬───────────┐
/// │ refs │ next │ len │ extents │ link │ older │ pages │ inline[0-4] │ leaves[0-1] │ directory │
/// └──────┴──────┴─────┴─────────┴──────┴───────┴───────┴──────┬──────┴──────┬──────┴─────┬─────┘
///                                          extents 0 to 4 ◄───┘   512 each ◄┘    leaf 2, 3, ... 247
/// ```
/// Versions of one blob share extents, and leaves whose extents are all the same; a directory is its body's alone. They form a chain from the
/// oldest to the newest (`older`, `link`), and those of a chain that use a page of memory are neighbours in it, but for versions whose
/// freeing has begun. Duplicates are chains of their own, that share extents and leaves too.
#[repr(C, align(64))]
pub(crate) struct Body {
    /// References: the owner's and the readers'.
    pub(crate) refs: AtomicU32,
    /// Next body on the return stack, or in a list of the owner; 0 = none.
    pub(crate) next: AtomicU32,
    /// Bytes written. Owner only.
    pub(crate) len: AtomicU64,
    /// Extents. Owner only.
    pub(crate) extents: AtomicU32,
    /// Packed [`Link`]. Written by the owner only.
    link: AtomicU32,
    /// The version before this one, 0 = none. Owner only.
    pub(crate) older: AtomicU32,
    /// Pages of extents and index of which this is the newest user in its chain. Written by the owner only.
    pub(crate) pages: AtomicU32,
    inline: [AtomicU32; INLINE],
    leaves: [AtomicU32; LEAVES],
    pub(crate) directory: AtomicU32,
}

const _: () = assert!(size_of::<Body>() == 64);

/// What a version is to its blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// The present one, with the size in pages that is expected.
    Present(u32),
    /// A former one, which never changes again, and the next newer version (0: none is left).
    Former(u32),
}

impl Link {
    /// ```text
    ///  31       30                                  0
    /// ┌────────┬─────────────────────────────────────┐
    /// │ former │ expected pages, or the newer body   │
    /// └────────┴─────────────────────────────────────┘
    /// ```
    const FORMER_BIT: u32 = 1 << 31;

    pub(crate) fn pack(self) -> u32 {
        match self {
            Link::Present(pages) => pages.min(Link::FORMER_BIT - 1),
            Link::Former(newer) => newer | Link::FORMER_BIT,
        }
    }

    pub(crate) fn unpack(word: u32) -> Link {
        let rest = word & !Link::FORMER_BIT;
        if word & Link::FORMER_BIT == 0 { Link::Present(rest) } else { Link::Former(rest) }
    }
}

impl Body {
    pub(crate) fn link(&self) -> Link {
        Link::unpack(self.link.load(Ordering::Relaxed))
    }

    pub(crate) fn set_link(&self, link: Link) {
        self.link.store(link.pack(), Ordering::Relaxed);
    }

    /// Forgets all extents and the index.
    pub(crate) fn clear_index(&self) {
        self.extents.store(0, Ordering::Relaxed);
        self.leaves.iter().chain([&self.directory]).for_each(|page| page.store(0, Ordering::Relaxed));
    }
}

/// Where a body names an extent or a leaf of its index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Extent(usize),
    Leaf(usize),
}

/// Leaf and place in it of an extent that is not inline.
pub(crate) fn leaf_place(extent: usize) -> Option<(usize, usize)> {
    let place = extent.checked_sub(INLINE)?;
    Some((place / LEAF_ENTRIES, place % LEAF_ENTRIES))
}

/// Leaves of a body with so many extents.
pub(crate) fn leaves(extents: usize) -> usize {
    extents.saturating_sub(INLINE).div_ceil(LEAF_ENTRIES)
}

/// What outlives the slab while readers hold references.
pub(crate) struct Shared {
    /// Extents.
    pub(crate) region: Mapping,
    /// Bodies by number; 0 is not used.
    bodies: Mapping,
    /// Bodies below this number are committed (zero until used).
    bodies_len: AtomicU32,
    /// Top of the stack of bodies whose last reference was dropped by a reader; linked by `next`.
    returned: AtomicU32,
}

impl Shared {
    pub(crate) fn new(blob_reserve_bytes: usize) -> io::Result<Shared> {
        let bytes = blob_reserve_bytes.clamp(4 << 20, extents::REGION_BYTES_MAX);
        let region = Mapping::reserve(bytes, bytes.min(extents::REGION_BYTES_MIN))?;
        // A blob has at least one extent, but for those just made.
        let bodies = (region.bytes() / (EXTENT_PAGES_MIN * PAGE_BYTES)).max(4096) * size_of::<Body>();
        let bodies = Mapping::reserve(bodies, bodies)?;
        Ok(Shared { region, bodies, bodies_len: AtomicU32::new(0), returned: AtomicU32::new(0) })
    }

    /// Bodies made so far, number 0 included.
    pub(crate) fn bodies_len(&self) -> u32 {
        self.bodies_len.load(Ordering::Relaxed)
    }

    /// Makes one more body usable; by the owner of `commit` only. `None`: no memory.
    pub(crate) fn add_body(&self, commit: &mut Commit) -> Option<u32> {
        let number = self.bodies_len().max(1);
        commit.ensure(&self.bodies, (number as usize + 1) * size_of::<Body>()).then(|| {
            self.bodies_len.store(number + 1, Ordering::Relaxed);
            number
        })
    }

    #[inline]
    pub(crate) fn body(&self, number: u32) -> &Body {
        assert!(number < self.bodies_len());
        // SAFETY: bodies below `bodies_len` are committed; all-zero atomics are valid, and bodies are accessed through shared
        // references to atomics only.
        unsafe { self.bodies.base().cast::<Body>().add(number as usize).as_ref() }
    }

    /// An entry of a leaf or directory.
    fn index_entry(&self, page: u32, place: usize) -> &AtomicU32 {
        assert!(page != 0 && place < LEAF_ENTRIES);
        // SAFETY: leaves and directories named in a body are live extents of at least EXTENT_PAGES_MIN committed pages, hence of more than
        // LEAF_ENTRIES entries; they are used as atomics only, and page-aligned.
        unsafe { Extents::address(&self.region, page).cast::<AtomicU32>().add(place).as_ref() }
    }

    /// Where the page number of a leaf is; the directory must exist if it is named there.
    pub(crate) fn leaf_of<'a>(&'a self, body: &'a Body, leaf: usize) -> &'a AtomicU32 {
        match leaf.checked_sub(LEAVES) {
            None => &body.leaves[leaf],
            Some(place) => self.index_entry(body.directory.load(Ordering::Relaxed), place),
        }
    }

    /// Page number of a leaf, 0 if there is none.
    pub(crate) fn leaf(&self, body: &Body, leaf: usize) -> u32 {
        if leaf >= LEAVES && body.directory.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.leaf_of(body, leaf).load(Ordering::Relaxed)
    }

    fn entry_of<'a>(&'a self, body: &'a Body, extent: usize) -> &'a AtomicU32 {
        let Some((leaf, place)) = leaf_place(extent) else { return &body.inline[extent] };
        self.index_entry(self.leaf_of(body, leaf).load(Ordering::Relaxed), place)
    }

    /// Makes a leaf or directory name nothing.
    pub(crate) fn clear_index(&self, page: u32) {
        (0..LEAF_ENTRIES).for_each(|place| self.index_entry(page, place).store(0, Ordering::Relaxed));
    }

    /// Copies the first `count` entries of a leaf or directory to another.
    pub(crate) fn copy_index(&self, from: u32, to: u32, count: usize) {
        for place in 0..count {
            let entry = self.index_entry(from, place).load(Ordering::Relaxed);
            self.index_entry(to, place).store(entry, Ordering::Relaxed);
        }
    }

    /// Page number of an extent of a body.
    #[inline]
    pub(crate) fn entry(&self, body: &Body, extent: usize) -> u32 {
        self.entry_of(body, extent).load(Ordering::Relaxed)
    }

    /// Page number of what a body names there, 0 for nothing.
    pub(crate) fn named(&self, body: &Body, place: Place) -> u32 {
        match place {
            Place::Extent(extent) if extent >= body.extents.load(Ordering::Relaxed) as usize => 0,
            Place::Extent(extent) => self.entry(body, extent),
            Place::Leaf(leaf) => self.leaf(body, leaf),
        }
    }

    /// Names an extent of a body: a new one, or a copy while no reader sees the old one.
    pub(crate) fn set_entry(&self, body: &Body, extent: usize, page: u32) {
        self.entry_of(body, extent).store(page, Ordering::Relaxed);
    }

    /// Address of a byte of an extent.
    #[inline]
    pub(crate) fn address(&self, page: u32, offset: usize) -> NonNull<u8> {
        assert!(offset <= SEGMENT_BYTES);
        // SAFETY: an extent lies inside the region, and the offset is at most its end.
        unsafe { Extents::address(&self.region, page).add(offset) }
    }

    /// Segment of a body of which `len` bytes are visible.
    ///
    /// # Safety
    /// The caller holds a reference to the body for the life of the result, and `len` is at most the body's length when that was made.
    #[inline]
    pub(crate) unsafe fn segment(&self, body: &Body, index: usize, len: u64) -> &[u8] {
        let start = index as u64 * SEGMENT_BYTES as u64;
        assert!(start < len, "segment {index} of a blob of {len} bytes");
        let bytes = usize::try_from(len - start).unwrap_or(usize::MAX).min(SEGMENT_BYTES);
        let page = self.entry(body, index);
        // SAFETY: all extents of a body are full but the last, so these bytes were written; they stay live and unchanged while the
        // caller's reference lasts (invariants of the module).
        unsafe { slice::from_raw_parts(self.address(page, 0).as_ptr(), bytes) }
    }

    /// Takes all returned bodies: the first, linked by `next`, or 0.
    pub(crate) fn take_returned(&self) -> u32 {
        // The load keeps the line shared in the common case. Acquire: pairs with the Release of `give_back`, so that `next` is seen.
        if self.returned.load(Ordering::Relaxed) == 0 { 0 } else { self.returned.swap(0, Ordering::Acquire) }
    }

    /// Whether bodies await collection.
    pub(crate) fn has_returned(&self) -> bool {
        self.returned.load(Ordering::Relaxed) != 0
    }

    /// Leaves a body without references on the stack. Only pushes race with each other and with the swap of everything, so there is
    /// no ABA.
    fn give_back(&self, number: u32) {
        let body = self.body(number);
        let mut top = self.returned.load(Ordering::Relaxed);
        loop {
            body.next.store(top, Ordering::Relaxed);
            match self.returned.compare_exchange_weak(top, number, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }
}

/// Segments of a blob of `len` bytes.
pub(crate) fn segments(len: u64) -> usize {
    usize::try_from(len.div_ceil(SEGMENT_BYTES as u64)).expect("at most EXTENTS_MAX")
}

/// A counted reference to a blob's contents as they were when it was made: on any thread, for as long as needed, whatever the owner
/// appends, overwrites or releases meanwhile, even when the slab is gone.
pub struct BlobRef {
    shared: Arc<Shared>,
    body: u32,
    len: u64,
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<BlobRef>();
};

impl BlobRef {
    /// One more reference to a body that the caller holds one to, with the body's present length.
    pub(crate) fn new(shared: &Arc<Shared>, body: u32) -> BlobRef {
        let len = shared.body(body).len.load(Ordering::Relaxed);
        retain(shared.body(body));
        BlobRef { shared: Arc::clone(shared), body, len }
    }

    /// Length in bytes when the reference was made.
    pub fn len(&self) -> usize {
        usize::try_from(self.len).expect("blobs are shorter than the address space")
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of segments: contiguous parts of [`SEGMENT_BYTES`], the last one shorter.
    pub fn segments(&self) -> usize {
        segments(self.len)
    }

    /// Bytes of memory that would be free if no reference had seen these contents: what the blob has overwritten since, or all that is left of a
    /// blob that was released. Of what several versions share, this counts to the newest, and duplicates each count all.
    /// All references to one version say the same.
    pub fn held_bytes(&self) -> u64 {
        let body = self.shared.body(self.body);
        match body.link() {
            Link::Present(_) => 0,
            Link::Former(_) => u64::from(body.pages.load(Ordering::Relaxed)) * PAGE_BYTES as u64,
        }
    }

    /// Segment `index`.
    ///
    /// # Panics
    /// When `index` is not below [`BlobRef::segments`].
    pub fn segment(&self, index: usize) -> &[u8] {
        // SAFETY: this is a reference to the body, and `len` its length when it was made.
        unsafe { self.shared.segment(self.shared.body(self.body), index, self.len) }
    }
}

fn retain(body: &Body) {
    // Relaxed: the caller holds a reference already, so the body cannot go away meanwhile.
    let refs = body.refs.fetch_add(1, Ordering::Relaxed);
    assert!((1..u32::MAX / 2).contains(&refs), "{refs} references to a blob");
}

impl Clone for BlobRef {
    fn clone(&self) -> BlobRef {
        retain(self.shared.body(self.body));
        BlobRef { shared: Arc::clone(&self.shared), body: self.body, len: self.len }
    }
}

impl Drop for BlobRef {
    fn drop(&mut self) {
        // Release: what was read through this reference was read before the memory is written again.
        if self.shared.body(self.body).refs.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: likewise for all other references, on behalf of the slab that collects the body. A load, since ThreadSanitizer
            // does not understand fences.
            self.shared.body(self.body).refs.load(Ordering::Acquire);
            self.shared.give_back(self.body);
        }
    }
}

impl fmt::Debug for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobRef").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extent_has_its_own_place_in_the_index() {
        let mut expected = (0, 0);
        for extent in 0..EXTENTS_MAX {
            if extent < INLINE {
                assert_eq!((leaf_place(extent), leaves(extent + 1)), (None, 0));
                continue;
            }
            assert_eq!((leaf_place(extent), leaves(extent + 1)), (Some(expected), expected.0 + 1), "extent {extent}");
            expected.1 += 1;
            if expected.1 == LEAF_ENTRIES {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(expected, (LEAVES + DIRECTORY_ENTRIES, 0));
    }

    #[test]
    fn links_pack_and_unpack() {
        for link in [Link::Present(0), Link::Present(u32::MAX >> 1), Link::Former(0), Link::Former(u32::MAX >> 1)] {
            assert_eq!(Link::unpack(link.pack()), link);
        }
        assert_eq!(Link::unpack(Link::Present(u32::MAX).pack()), Link::Present(u32::MAX >> 1));
    }
}
