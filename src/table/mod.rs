//! Open addressing in cache-line buckets, segments that grow by themselves. Owns placement only: it knows handles and 64-bit hashes,
//! never keys, values or expiry, nor whether two entries are equal (the caller's closure says).
//!
//! ```text
//!  hash, bit 63                                  32 31            0
//!      ┌─────────────────────────────────┬─────────┬───────────────┐
//!      │ position: page, segment, bucket │ tag (8) │ not used      │
//!      └─────────────────────────────────┴─────────┴───────────────┘
//!        └── the prefix: all that places an entry ──┘
//!
//!  prefix ─▶ root ─▶ page ─▶ segment of 1 to 48 buckets (*) ─▶ home bucket ─▶ next bucket, while the overflow count says so
//!
//!  (*) up to 256 where hashes agree in so many bits that splitting would not part them
//! ```
//! A hit costs two cache lines that are not hot anyway, the bucket and the entry. The position is monotone in the prefix, from the root
//! down to the bucket: a scan cursor is a prefix, and stays true whatever grows, splits, shrinks or merges meanwhile.
//!
//! The table holds no reference to its slab: the owner passes the same one with every call. Dropping a `Table` frees nothing in the slab; drain
//! it first, or drop the slab with it.
//!
//! # Limits
//! 3,072 entries whose hashes agree in their first 24 bits fill the largest segment there can be; the next such insert fails with an
//! [`AllocError`] that asks for more than a chunk (`CHUNK_BYTES_MAX`). With a seeded 64-bit hash that does not happen by chance. Hashes whose
//! leading bits are all the same (the bits that chose a shard) should be shifted out by the caller, else they cost depth.
//!
//! # Files
//! `group` compares tags; `raw` is the unsafe core; `directory` finds and owns segments; `growth` rewrites them; `scan` walks and picks; `view`
//! keeps what was there at one instant; `relocate` moves memory; `drain` tears down; `verify` checks all of it in tests.

mod directory;
mod drain;
mod group;
mod growth;
pub mod peek;
mod raw;
mod relocate;
mod scan;
mod site;
#[cfg(test)]
mod tests;
#[cfg(any(test, debug_assertions))]
mod verify;
mod view;
#[cfg(test)]
mod view_tests;

use directory::Directory;
use dolmen_slab::{AllocError, Handle, Slab};
use drain::Doomed;
use growth::{Queue, low_limit, room_limit};
pub use peek::Mirror;
pub use raw::{First, Home, Slot};
use raw::{tag_of, top};
pub use site::Site;
pub use view::{View, ViewLost};

/// What a table must know of the entries its handles point to.
pub trait Entries {
    /// The full hash of the entry at `h`, the same that it was inserted with.
    fn hash(&self, slab: &Slab, h: Handle) -> u64;
}

/// A set of handles, found by hash. No memory until the first insert.
pub struct Table {
    directory: Directory,
    len: usize,
    /// State of the generator that draws the sizes of segments.
    jitter: u64,
    queue: Queue,
    /// At least the buckets of every segment.
    buckets_max: u32,
    /// Counts the changes that make slots stale.
    #[cfg(debug_assertions)]
    stamp: u32,
    /// What `drain` has not freed yet.
    doomed: Option<Box<Doomed>>,
    /// Open views, and what is to be freed of them; looked at by every change.
    views: Option<Box<view::Views>>,
}

impl Table {
    /// `seed` decides the sizes of segments, nothing else.
    pub const fn new(seed: u64) -> Table {
        Table {
            directory: Directory::new(),
            len: 0,
            jitter: seed,
            queue: Queue::new(),
            buckets_max: 0,
            #[cfg(debug_assertions)]
            stamp: 0,
            doomed: None,
            views: None,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of segments, pages and root. The root is on the heap (8 bytes for some 400,000 entries), all else in the slab.
    pub fn table_bytes(&self) -> usize {
        self.directory.bytes() + self.kept_bytes()
    }

    /// The part of `table_bytes` that does not lie in the slab.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.directory.heap_bytes() + self.views_heap_bytes()
    }

    /// Fetches the line that `find` will look at first.
    #[inline]
    pub fn prefetch(&self, slab: &Slab, hash: u64) {
        let prefix = top(hash);
        if let Some(segment) = self.directory.segment(slab, prefix) {
            slab.prefetch(segment.home_line(prefix));
        }
    }

    /// Fetches the entries that `find` will likely look at: those in the home bucket with this tag. For when `prefetch` has had its time.
    #[inline]
    pub fn prefetch_entries(&self, slab: &Slab, hash: u64) {
        let prefix = top(hash);
        if let Some(segment) = self.directory.segment(slab, prefix) {
            let bucket = segment.bucket(slab, segment.home(prefix));
            for slot in bucket.group().matches(tag_of(prefix)) {
                slab.prefetch(bucket.handle(slot));
            }
        }
    }

    /// The entry that `eq` accepts, among those whose hash may be this one.
    #[inline]
    pub fn find(&self, slab: &Slab, hash: u64, eq: impl FnMut(Handle) -> bool) -> Option<Slot> {
        let prefix = top(hash);
        let slot = self.directory.segment(slab, prefix)?.find(slab, prefix, eq)?;
        Some(slot.stamped(self.stamp()))
    }

    /// The slot that holds this very handle, for moving its entry elsewhere.
    pub fn find_handle(&self, slab: &Slab, hash: u64, h: Handle) -> Option<Slot> {
        self.find(slab, hash, |other| other == h)
    }

    /// Visits every entry whose hash may have these upper 32 bits; more than those that have them, so the visitor must check.
    pub fn find_prefix(&self, slab: &Slab, hash32: u32, mut visit: impl FnMut(Handle, Slot)) {
        if let Some(segment) = self.directory.segment(slab, hash32) {
            segment.each_match(slab, hash32, |slot| visit(slot.handle(), slot.stamped(self.stamp())));
        }
    }

    #[inline]
    pub fn handle(&self, slot: Slot) -> Handle {
        slot.check(self.stamp());
        slot.handle()
    }

    /// Puts another handle in place of an entry's, for the same hash. No view may see the entry ([`Table::is_seen`]).
    #[inline]
    pub fn replace(&mut self, slot: Slot, h: Handle) {
        slot.check(self.stamp());
        slot.replace(h);
    }

    /// Marks an entry as used lately: its eviction bits go to the maximum.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        slot.check(self.stamp());
        slot.touch();
    }

    /// Adds an entry that is not there yet (the caller looked). On error nothing has changed.
    ///
    /// # Errors
    /// The slab is full, or thousands of hashes collide (see the module's limits).
    #[inline]
    pub fn insert(
        &mut self,
        slab: &mut Slab,
        entries: &impl Entries,
        hash: u64,
        h: Handle,
    ) -> Result<Slot, AllocError> {
        let prefix = top(hash);
        self.restamp();
        if let Some(place) = self.directory.locate(slab, prefix)
            && place.segment.count + 1 < room_limit(place.segment.buckets())
            && self.views.is_none()
        {
            let slot = place.segment.put(slab, prefix, h, 0);
            place.page.count_up(slab, place.first);
            self.len += 1;
            return Ok(slot.stamped(self.stamp()));
        }
        self.insert_slow(slab, entries, prefix, h)
    }

    /// Takes out the entry at `slot`, whose hash is `hash`, and returns its handle.
    #[inline]
    pub fn remove(&mut self, slab: &mut Slab, hash: u64, slot: Slot) -> Handle {
        slot.check(self.stamp());
        self.restamp();
        let prefix = top(hash);
        let Some(place) = self.directory.locate(slab, prefix) else { unreachable!("a slot of an empty table") };
        let segment = place.segment;
        if self.views.is_some() {
            self.keep(slab, segment, prefix);
        }
        let handle = segment.take(slab, prefix, slot);
        place.page.count_down(slab, place.first);
        self.len -= 1;
        if segment.count <= low_limit(segment.buckets())
            && (segment.buckets() > 1 || segment.depth > 0 || self.len == 0)
        {
            self.enqueue(slab, place, prefix, true);
        }
        handle
    }

    #[inline(always)]
    fn stamp(&self) -> u32 {
        #[cfg(debug_assertions)]
        return self.stamp;
        #[cfg(not(debug_assertions))]
        0
    }

    /// All slots given out so far are stale.
    #[inline(always)]
    fn restamp(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.stamp = self.stamp.wrapping_add(1);
        }
    }
}
