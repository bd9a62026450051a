//! The unsafe core: buckets, the packed words of the directory, and every access to table memory. Owns the layouts; decides nothing (when to
//! grow, split or merge is `growth`'s; which page holds what is `directory`'s).
//!
//! # Invariants (why the functions here are safe to call from the rest of this module)
//! - A `Segment` or `PageRef` is made only by `alloc`, `copy` and `offer` of these types, and by copying the word; it names a live chunk of the slab that
//!   the owner passes with every call, until `free`. The owner (`Directory`, `Views`) forgets every copy when it frees.
//! - A segment's chunk is `buckets` initialised `Bucket`s, 64-byte aligned (the slab aligns classes that are multiples of 64). A page's
//!   chunk is `1 << bits` initialised words, 8-byte aligned.
//! - Nobody else reads or writes that memory, except for prefetches. References into it never outlive one function here or the
//!   shared borrow they were taken under.
//! - A `Slot` is good until the next insert, remove, maintain or drain of its table; debug builds check that by a stamp.
#![allow(unsafe_code)]

use super::group::{Group, Head, Mask, SLOTS};
use dolmen_slab::{AllocError, CHUNK_BYTES_MAX, Handle, Kind, Slab, Slice};
use static_assertions::const_assert;
use std::ptr::NonNull;

/// The bits of a hash that place an entry: its upper half.
#[inline(always)]
pub(super) fn top(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The tag of a prefix: its low byte, with 0 (empty) mapped to 1.
#[inline(always)]
pub(super) fn tag_of(prefix: u32) -> u8 {
    let tag = (prefix & 0xff) as u8;
    tag + u8::from(tag == 0)
}

/// One cache line.
///
/// ```text
///  byte 0               12       16                              64
///      ┌───────────────┬────────┬─────────────────────────────────┐
///      │ 12 x u8 tag   │ meta   │ 12 x u32 handle                 │
///      └───────────────┴────────┴─────────────────────────────────┘
///  meta, bit 31      30       24 23                             0
///      ┌───────┬────────────────┬────────────────────────────────┐
///      │ saved │ overflow count │ 12 x 2 eviction bits           │
///      └───────┴────────────────┴────────────────────────────────┘
/// ```
/// The overflow count is the number of entries of this segment that probed past this bucket; at 127 it sticks until the segment is
/// rewritten. Zero means: no entry that would have to be looked for here lies further on.
#[repr(C, align(64))]
pub(super) struct Bucket {
    head: Head,
    handles: [u32; SLOTS as usize],
}
const_assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

pub(super) const BUCKET_BYTES: usize = size_of::<Bucket>();
/// The same in units of a handle.
const BUCKET_UNITS: u32 = 8;
const_assert!(BUCKET_UNITS as usize * 8 == BUCKET_BYTES);
pub(super) const OVERFLOW_MAX: u32 = 127;
const OVERFLOW_SHIFT: u32 = 24;
const OVERFLOW_ONE: u32 = 1 << OVERFLOW_SHIFT;

impl Bucket {
    #[inline(always)]
    pub(super) fn overflow(&self) -> u32 {
        self.head.meta >> OVERFLOW_SHIFT & OVERFLOW_MAX
    }

    #[inline(always)]
    pub(super) fn group(&self) -> Group {
        Group::load(&self.head)
    }

    #[inline(always)]
    pub(super) fn occupied(&self) -> Mask {
        self.group().empties().inverse()
    }

    #[inline(always)]
    pub(super) fn handle(&self, slot: u32) -> Handle {
        debug_assert!(slot < SLOTS);
        // SAFETY: slots come from a `Mask` or a `Slot`, both below SLOTS.
        Handle::from_bits(unsafe { *self.handles.get_unchecked(slot as usize) })
    }

    #[inline(always)]
    pub(super) fn eviction(&self, slot: u32) -> u32 {
        self.head.meta >> (2 * slot) & 3
    }

    #[inline(always)]
    fn set(&mut self, slot: u32, tag: u8, handle: Handle, eviction: u32) {
        debug_assert!(slot < SLOTS && self.head.tags[slot as usize] == 0 && self.eviction(slot) == 0);
        // SAFETY: as in `handle`.
        unsafe {
            *self.head.tags.get_unchecked_mut(slot as usize) = tag;
            *self.handles.get_unchecked_mut(slot as usize) = handle.bits();
        }
        self.head.meta |= eviction << (2 * slot);
    }

    #[inline(always)]
    fn clear(&mut self, slot: u32) -> Handle {
        let handle = self.handle(slot);
        self.head.tags[slot as usize] = 0;
        self.handles[slot as usize] = 0;
        self.head.meta &= !(3 << (2 * slot));
        handle
    }

    fn pass(&mut self) {
        if self.overflow() < OVERFLOW_MAX {
            self.head.meta += OVERFLOW_ONE;
        }
    }

    fn unpass(&mut self) {
        debug_assert!(self.overflow() > 0, "an entry lies past a bucket that does not know of it");
        if (1..OVERFLOW_MAX).contains(&self.overflow()) {
            self.head.meta -= OVERFLOW_ONE;
        }
    }
}

/// Where an entry lies. Valid until the next insert, remove, maintain or drain of its table.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    bucket: NonNull<Bucket>,
    index: u32,
    #[cfg(debug_assertions)]
    stamp: u32,
}

impl Slot {
    #[inline(always)]
    fn new(bucket: NonNull<Bucket>, index: u32) -> Slot {
        Slot {
            bucket,
            index,
            #[cfg(debug_assertions)]
            stamp: 0,
        }
    }

    /// Remembers the state of the table that this slot belongs to (debug builds only).
    #[inline(always)]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, unused_mut, reason = "release builds carry no stamp"))]
    pub(super) fn stamped(mut self, stamp: u32) -> Slot {
        #[cfg(debug_assertions)]
        {
            self.stamp = stamp;
        }
        self
    }

    #[inline(always)]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "release builds carry no stamp"))]
    pub(super) fn check(self, stamp: u32) {
        #[cfg(debug_assertions)]
        assert_eq!(self.stamp, stamp, "a slot was kept across a change of its table");
    }

    #[inline(always)]
    pub(super) fn handle(self) -> Handle {
        // SAFETY: a valid slot points into a live segment (module invariants), and no `&mut Bucket` is held across calls.
        unsafe { self.bucket.as_ref() }.handle(self.index)
    }

    #[inline(always)]
    pub(super) fn replace(self, handle: Handle) {
        // SAFETY: as in `handle`; the caller holds `&mut Table`.
        let bucket = unsafe { &mut *self.bucket.as_ptr() };
        debug_assert!(bucket.head.tags[self.index as usize] != 0);
        bucket.handles[self.index as usize] = handle.bits();
    }

    /// Sets both eviction bits; stores only if that changes something, so a hot bucket's line stays clean.
    #[inline(always)]
    pub(super) fn touch(self) {
        // SAFETY: as in `replace`.
        let bucket = unsafe { &mut *self.bucket.as_ptr() };
        let bits = 3 << (2 * self.index);
        if bucket.head.meta & bits != bits {
            bucket.head.meta |= bits;
        }
    }

    #[cfg(test)]
    pub(super) fn eviction(self) -> u32 {
        // SAFETY: as in `handle`.
        unsafe { self.bucket.as_ref() }.eviction(self.index)
    }
}

/// `Segment::put` for an entry whose home bucket is full. (Plain words, so that the segment of the common case stays in registers.)
#[inline(never)]
fn put_past(base: NonNull<Bucket>, buckets: u32, home: u32, tag: u8, handle: Handle, eviction: u32) -> Slot {
    let mut index = home;
    for _ in 0..buckets {
        // SAFETY: `base` is that of a live segment with so many buckets, `index` is below that, and the caller holds `&mut Table`.
        let at = unsafe { base.add(index as usize) };
        // SAFETY: as above.
        let bucket = unsafe { &mut *at.as_ptr() };
        if let Some(slot) = bucket.group().empties().lowest() {
            bucket.set(slot, tag, handle, eviction);
            return Slot::new(at, slot);
        }
        bucket.pass();
        index = if index + 1 == buckets { 0 } else { index + 1 };
    }
    unreachable!("no room in a segment of {buckets} buckets")
}

/// A directory word: which segment covers this part of the hash space. All words of a run (equal segment) are alike, but only the first
/// carries `count` and `queued`; the others hold zero there.
///
/// ```text
///  byte 0                        4                            8
///      ┌────────────────────────┬────────────────────────────┐
///      │ handle                 │ shape                      │
///      └────────────────────────┴────────────────────────────┘
///  shape, bit 31     23 22 20 19                8 7  6   5   4     0
///        ┌─────────────┬─────┬───────────────────┬────┬──────┬───────┐
///        │ buckets     │  0  │ count             │ 0  │queued│ depth │
///        └─────────────┴─────┴───────────────────┴────┴──────┴───────┘
/// ```
/// `find` needs `buckets` and `depth`: one shift each, as a shift by `depth` looks at five bits only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    handle: Handle,
    /// Entries in it.
    pub(super) count: u32,
    buckets: u32,
    /// Leading hash bits that all its entries share.
    pub(super) depth: u32,
    /// Waits for maintenance.
    pub(super) queued: bool,
}

/// Buckets in the largest chunk.
#[expect(clippy::cast_possible_truncation, reason = "256")]
pub(super) const CHUNK_BUCKETS_MAX: u32 = (CHUNK_BYTES_MAX / BUCKET_BYTES) as u32;
const_assert!(CHUNK_BUCKETS_MAX < 1 << 9 && CHUNK_BUCKETS_MAX * SLOTS < 1 << 12);
const_assert!(Slab::class_bytes(BUCKET_BYTES) == BUCKET_BYTES);

/// A [`Segment`] in memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Word {
    handle: u32,
    shape: u32,
}
const_assert!(size_of::<Word>() == 8);

impl Word {
    const COUNT_ONE: u32 = 1 << 8;

    #[inline(always)]
    fn pack(segment: Segment) -> Word {
        let Segment { handle, count, buckets, depth, queued } = segment;
        debug_assert!(count < 1 << 12 && (1..=CHUNK_BUCKETS_MAX).contains(&buckets) && depth < 1 << 5);
        Word { handle: handle.bits(), shape: buckets << 23 | count << 8 | u32::from(queued) << 5 | depth }
    }

    #[inline(always)]
    fn unpack(self) -> Segment {
        Segment {
            handle: Handle::from_bits(self.handle),
            count: self.shape >> 8 & 0xfff,
            buckets: self.shape >> 23,
            depth: self.shape & 0x1f,
            queued: self.shape >> 5 & 1 != 0,
        }
    }
}

/// The home bucket of `prefix` in the segment of a directory word that was read racing: it may be anything. `None`: it is no segment.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
pub(super) fn unpacked_home(word: u64, prefix: u32) -> Option<Handle> {
    let segment = Word { handle: word as u32, shape: (word >> 32) as u32 }.unpack();
    (segment.buckets > 0).then(|| segment.home_line(prefix))
}

impl Segment {
    /// An empty segment of `buckets` buckets.
    pub(super) fn alloc(slab: &mut Slab, buckets: u32, depth: u32) -> Result<Segment, AllocError> {
        debug_assert!((1..=CHUNK_BUCKETS_MAX).contains(&buckets));
        let bytes = buckets as usize * BUCKET_BYTES;
        let handle = slab.alloc(bytes, Kind::Interior)?;
        let base = slab.ptr(handle);
        assert!(base.cast::<Bucket>().is_aligned(), "the slab aligns classes that are multiples of 64");
        // SAFETY: the chunk is `bytes` long and ours alone; all-zero bytes are empty buckets.
        unsafe { base.write_bytes(0, bytes) };
        Ok(Segment { handle, count: 0, buckets, depth, queued: false })
    }

    /// The same entries in a chunk of their own.
    pub(super) fn copy(self, slab: &mut Slab) -> Result<Segment, AllocError> {
        let handle = slab.alloc(self.bytes(), Kind::Interior)?;
        // SAFETY: both chunks are at least `bytes` long, and the new one is ours alone.
        unsafe { slab.ptr(self.handle).copy_to_nonoverlapping(slab.ptr(handle), self.bytes()) };
        Ok(Segment { handle, ..self })
    }

    pub(super) fn free(self, slab: &mut Slab) {
        // SAFETY: from `alloc` with this size; the owner forgets every copy (module invariants).
        unsafe { slab.free(self.handle, self.bytes()) };
    }

    /// The same segment where a sweep has moved it, if it has; this one is forgotten then.
    pub(super) fn offer(self, slab: &mut Slab, slice: &mut Slice) -> Option<Segment> {
        // SAFETY: from `alloc` or `copy`, live; the owner forgets every copy of what was moved (module invariants).
        let handle = unsafe { slab.offer(slice, self.handle) }?;
        Some(Segment { handle, ..self })
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        self.buckets as usize * BUCKET_BYTES
    }

    #[inline(always)]
    pub(super) fn buckets(self) -> u32 {
        self.buckets
    }

    #[inline(always)]
    pub(super) fn slots(self) -> u32 {
        self.buckets * SLOTS
    }

    /// As it is written into all words of its run but the first.
    #[inline(always)]
    pub(super) fn uncounted(self) -> Segment {
        Segment { count: 0, queued: false, ..self }
    }

    #[inline(always)]
    pub(super) fn with_queued(self, queued: bool) -> Segment {
        Segment { queued, ..self }
    }

    /// Home bucket of a prefix: multiply-shift of the bits that follow the segment's own, hence monotone in the prefix.
    #[inline(always)]
    pub(super) fn home(self, prefix: u32) -> u32 {
        ((u64::from(prefix << self.depth) * u64::from(self.buckets)) >> 32) as u32
    }

    /// First prefix that is past the home bucket `home`, which some prefix like `prefix` has; `1 << 32` at the very end.
    #[inline]
    pub(super) fn home_end(self, prefix: u32, home: u32) -> u64 {
        let width = 32 - self.depth;
        let start = u64::from(prefix) >> width << width;
        let position = (u64::from(home + 1) << 32).div_ceil(u64::from(self.buckets));
        start + position.div_ceil(1 << self.depth)
    }

    /// Handle whose address is the home bucket of `prefix`; for prefetches.
    #[inline(always)]
    pub(super) fn home_line(self, prefix: u32) -> Handle {
        Handle::from_bits(self.handle.bits().wrapping_add(self.home(prefix) * BUCKET_UNITS))
    }

    #[inline(always)]
    fn base(self, slab: &Slab) -> NonNull<Bucket> {
        slab.ptr(self.handle).cast()
    }

    #[inline(always)]
    fn at(self, slab: &Slab, index: u32) -> NonNull<Bucket> {
        debug_assert!(index < self.buckets);
        // SAFETY: `index` is below `buckets`: `home` gives no more, `next` wraps, loops end there (asserted in debug builds).
        unsafe { self.base(slab).add(index as usize) }
    }

    #[inline(always)]
    pub(super) fn bucket(self, slab: &Slab, index: u32) -> &Bucket {
        // SAFETY: `at` is inside the live chunk; no `&mut Bucket` outlives the function that made it.
        unsafe { self.at(slab, index).as_ref() }
    }

    /// A slot of a bucket.
    #[inline(always)]
    pub(super) fn slot(self, slab: &Slab, index: u32, slot: u32) -> Slot {
        Slot::new(self.at(slab, index), slot)
    }

    /// The bucket that is probed after `index`.
    #[inline(always)]
    pub(super) fn next(self, index: u32) -> u32 {
        if index + 1 == self.buckets { 0 } else { index + 1 }
    }

    #[inline(always)]
    pub(super) fn find(self, slab: &Slab, prefix: u32, mut eq: impl FnMut(Handle) -> bool) -> Option<Slot> {
        let tag = tag_of(prefix);
        let mut index = self.home(prefix);
        let mut left = self.buckets;
        loop {
            let at = self.at(slab, index);
            // SAFETY: as in `bucket`; `eq` sees no bucket.
            let bucket = unsafe { at.as_ref() };
            for slot in bucket.group().matches(tag) {
                if eq(bucket.handle(slot)) {
                    return Some(Slot::new(at, slot));
                }
            }
            left -= 1;
            if bucket.overflow() == 0 || left == 0 {
                return None;
            }
            index = self.next(index);
        }
    }

    /// Visits every slot that may hold an entry with this prefix.
    pub(super) fn each_match(self, slab: &Slab, prefix: u32, mut visit: impl FnMut(Slot)) {
        let mut index = self.home(prefix);
        for _ in 0..self.buckets {
            let at = self.at(slab, index);
            let bucket = self.bucket(slab, index);
            let matches = bucket.group().matches(tag_of(prefix));
            let last = bucket.overflow() == 0;
            for slot in matches {
                visit(Slot::new(at, slot));
            }
            if last {
                break;
            }
            index = self.next(index);
        }
    }

    /// Puts an entry into the first bucket with room, from its home on, and counts it in those that it passes. The segment must have room.
    #[inline(always)]
    pub(super) fn put(self, slab: &Slab, prefix: u32, handle: Handle, eviction: u32) -> Slot {
        let home = self.home(prefix);
        let at = self.at(slab, home);
        // SAFETY: inside the live chunk, and the caller holds `&mut Table`, so nobody else refers to this bucket.
        let bucket = unsafe { &mut *at.as_ptr() };
        match bucket.group().empties().lowest() {
            Some(slot) => {
                bucket.set(slot, tag_of(prefix), handle, eviction);
                Slot::new(at, slot)
            }
            None => put_past(self.base(slab), self.buckets, home, tag_of(prefix), handle, eviction),
        }
    }

    /// Takes an entry out, and off the counts of the buckets that it had passed.
    pub(super) fn take(self, slab: &Slab, prefix: u32, slot: Slot) -> Handle {
        let mut index = self.home(prefix);
        for _ in 0..self.buckets {
            let at = self.at(slab, index);
            // SAFETY: as in `put`.
            let bucket = unsafe { &mut *at.as_ptr() };
            if at == slot.bucket {
                debug_assert!(bucket.head.tags[slot.index as usize] == tag_of(prefix));
                return bucket.clear(slot.index);
            }
            bucket.unpass();
            index = self.next(index);
        }
        unreachable!("a slot of another segment")
    }
}

/// What the home bucket tells of a search.
pub enum Home {
    Found(Slot),
    Absent,
    /// Not here, but entries of this home lie further on.
    Elsewhere,
}

/// Searches the home bucket only. `line` is a bucket of a live segment: it came from `Segment::home_line`, and no segment was allocated or
/// freed since (`Directory::epoch`).
#[inline(always)]
pub(super) fn find_home(slab: &Slab, line: Handle, prefix: u32, mut eq: impl FnMut(Handle) -> bool) -> Home {
    let at: NonNull<Bucket> = slab.ptr(line).cast();
    // SAFETY: a live bucket (see above); `eq` sees no bucket, and the table is borrowed.
    let bucket = unsafe { at.as_ref() };
    for slot in bucket.group().matches(tag_of(prefix)) {
        if eq(bucket.handle(slot)) {
            return Home::Found(Slot::new(at, slot));
        }
    }
    if bucket.overflow() == 0 { Home::Absent } else { Home::Elsewhere }
}

/// What the first look at a home bucket finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First {
    /// The first entry with the tag that is looked for: nearly always the right one.
    Entry(Handle),
    /// There is no entry of this hash in the table.
    Absent,
    /// It may be in another bucket.
    Elsewhere,
}

/// Looks for the first entry with the tag of `prefix` in the home bucket. `line` as for `find_home`.
#[inline(always)]
pub(super) fn first_home(slab: &Slab, line: Handle, prefix: u32) -> First {
    // SAFETY: a live bucket (see `find_home`); the table is borrowed.
    let bucket = unsafe { slab.ptr(line).cast::<Bucket>().as_ref() };
    match bucket.group().matches(tag_of(prefix)).lowest() {
        Some(slot) => First::Entry(bucket.handle(slot)),
        None if bucket.overflow() == 0 => First::Absent,
        None => First::Elsewhere,
    }
}

/// Fetches the entries of a bucket whose tag is that of `prefix`. `line` may be stale: then the memory is something else's, and what is
/// fetched is of no use.
#[inline(always)]
pub(super) fn prefetch_matches(slab: &Slab, line: Handle, prefix: u32) {
    // SAFETY: handles made by `home_line` lie in the committed part of the region, which stays mapped while the slab lives; any bytes are
    // a valid `Bucket`, which is only read.
    let bucket = unsafe { slab.ptr(line).cast::<Bucket>().as_ref() };
    for slot in bucket.group().matches(tag_of(prefix)) {
        slab.prefetch(bucket.handle(slot));
    }
}

/// A page of the directory: `1 << bits` words (see [`Segment`]) for the hashes that begin with the page's `depth` bits.
///
/// ```text
///  byte 0        4       5          6        8
///      ┌────────┬───────┬──────────┬────────┐
///      │ handle │ depth │ 32 - bits│ unused │
///      └────────┴───────┴──────────┴────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct PageRef {
    handle: Handle,
    depth: u8,
    shift: u8,
}
const_assert!(size_of::<PageRef>() == 8);

/// A page of 16 KiB, the largest chunk.
pub(super) const PAGE_BITS_MAX: u32 = 11;
const_assert!(8 << PAGE_BITS_MAX == CHUNK_BYTES_MAX);

impl PageRef {
    /// A page full of `fill`, which must be a live segment.
    pub(super) fn alloc(slab: &mut Slab, depth: u32, bits: u32, fill: Segment) -> Result<PageRef, AllocError> {
        debug_assert!(bits <= PAGE_BITS_MAX && depth < 32);
        let handle = slab.alloc(8 << bits, Kind::Interior)?;
        #[expect(clippy::cast_possible_truncation, reason = "both below 32")]
        let page = PageRef { handle, depth: depth as u8, shift: (32 - bits) as u8 };
        for index in 0..1 << bits {
            // SAFETY: the chunk holds `1 << bits` words, and is ours alone.
            unsafe { slab.ptr(handle).cast::<Word>().add(index).write(Word::pack(fill.uncounted())) };
        }
        Ok(page)
    }

    pub(super) fn free(self, slab: &mut Slab) {
        // SAFETY: from `alloc` with this size; the owner forgets every copy (module invariants).
        unsafe { slab.free(self.handle, self.bytes()) };
    }

    /// As [`Segment::offer`].
    pub(super) fn offer(self, slab: &mut Slab, slice: &mut Slice) -> Option<PageRef> {
        // SAFETY: from `alloc`, live; the owner forgets every copy of what was moved (module invariants).
        let handle = unsafe { slab.offer(slice, self.handle) }?;
        Some(PageRef { handle, ..self })
    }

    /// As one word, for showing it to other threads: see `Mirror`.
    pub(super) fn bits_word(self) -> u64 {
        u64::from(self.handle.bits()) | u64::from(self.depth) << 32 | u64::from(self.shift) << 40
    }

    /// What `bits_word` made, or 0: no page (its handle is null).
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a packed word")]
    pub(super) fn from_bits_word(word: u64) -> PageRef {
        PageRef { handle: Handle::from_bits(word as u32), depth: (word >> 32) as u8, shift: (word >> 40) as u8 }
    }

    /// The word for `prefix`, read while the owner may be writing it, or the memory be another's by now. `None`: there is no memory.
    #[inline(always)]
    pub(super) fn racing_word(self, memory: &dolmen_slab::Peek, prefix: u32) -> Option<u64> {
        if self.handle.is_null() {
            return None;
        }
        // Masked, as the page may be no page: whatever comes out is checked by `word`.
        let index = u64::from(prefix << (self.depth & 31)) >> (self.shift & 63);
        memory.word(self.handle, u32::try_from(index & 0xffff_ffff).unwrap_or(0))
    }

    pub(super) fn bytes(&self) -> usize {
        8 << self.bits()
    }

    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        u32::from(self.depth)
    }

    #[inline(always)]
    pub(super) fn bits(&self) -> u32 {
        32 - u32::from(self.shift)
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        1 << self.bits()
    }

    /// Index of the word for `prefix`, below `len`.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a 32-bit word shifted right")]
    pub(super) fn index(&self, prefix: u32) -> u32 {
        // As 64 bits, so that a shift by 32 (a page of one word) is a shift.
        (u64::from(prefix << self.depth) >> self.shift) as u32
    }

    /// Words that a segment of this depth takes here, as a power of two.
    #[inline(always)]
    pub(super) fn run_bits(&self, depth: u32) -> u32 {
        debug_assert!(depth >= self.depth() && depth <= self.depth() + self.bits());
        self.depth() + self.bits() - depth
    }

    #[inline(always)]
    fn word(&self, slab: &Slab, index: u32) -> NonNull<Word> {
        debug_assert!(index < self.len());
        // SAFETY: below `len`: `index` gives no more, and runs lie inside the page (asserted in debug builds).
        unsafe { slab.ptr(self.handle).cast::<Word>().add(index as usize) }
    }

    #[inline(always)]
    pub(super) fn get(&self, slab: &Slab, index: u32) -> Segment {
        // SAFETY: inside the live chunk, whose words are initialised; nobody writes them meanwhile.
        let word = unsafe { self.word(slab, index).as_ref() };
        word.unpack()
    }

    #[inline(always)]
    pub(super) fn set(&self, slab: &mut Slab, index: u32, segment: Segment) {
        // SAFETY: inside the live chunk; nobody refers to its words.
        unsafe { self.word(slab, index).write(Word::pack(segment)) };
    }

    #[inline(always)]
    pub(super) fn count_up(&self, slab: &mut Slab, first: u32) {
        // SAFETY: as in `set`. No carry: the count is at most `slots`, below 1 << 12 (asserted beside CHUNK_BUCKETS_MAX).
        unsafe { self.word(slab, first).as_mut() }.shape += Word::COUNT_ONE;
    }

    #[inline(always)]
    pub(super) fn count_down(&self, slab: &mut Slab, first: u32) {
        debug_assert!(self.get(slab, first).count > 0);
        // SAFETY: as in `set`. No borrow: an entry was there, so the count was above zero.
        unsafe { self.word(slab, first).as_mut() }.shape -= Word::COUNT_ONE;
    }
}
