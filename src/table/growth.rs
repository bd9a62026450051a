//! When and how segments are rewritten: growth by half or so, split, shrink, merge, and the queue that keeps this off the requests. Owns the
//! thresholds. A step reads the hash of each entry of one or two segments (at most some 600 entries, unless hashes collide by the
//! thousand) and touches nothing else.
//!
//! # Why the sizes are random
//! A table whose segments all grew at the same load, by the same factor, would swing between full and two-thirds full as a whole. Here each
//! rewrite draws its factor, so segments of one table are in all phases at once, and the table as a whole stays near the mean at any n.
//!
//! # Hysteresis
//! A rewrite leaves a load of 0.55 to 0.72; growth is due at 0.92, shrinking below 0.33, merging when both fit in well under one segment.
//!
//! # Cost
//! With a mean factor f of 1.45 each insert pays for 1 / ln f = 2.6 reads of an entry's hash in rewrites, and the table takes 7.2 bytes an entry
//! (2M to 4M entries: 7.1 to 7.3). Measured against 0.88 and a factor of 1.32: 3.1 reads and 7.3 bytes.

use super::directory::{DEPTH_MAX, Place};
use super::group::SLOTS;
use super::raw::{BUCKET_BYTES, CHUNK_BUCKETS_MAX, Segment, top};
use super::{Entries, Table};
use dolmen_slab::{AllocError, Handle, Slab};

/// A segment that would need more is split.
const SEGMENT_BUCKETS_MAX: u32 = 48;
/// Buddies with no more entries than this become one. Well below the 340 to 412 (by the factor drawn) from which on a segment splits.
const MERGE_ENTRIES_MAX: u32 = 288;
/// Segments of fewer buckets double, and wait until they are full: their entries are few.
const SMALL_BUCKETS: u32 = 4;
/// Room for growth that a rewrite leaves, in 1/256, drawn between these.
const FACTOR_MIN: u32 = 330;
const FACTOR_MAX: u32 = 400;
/// Loads at which growth is due, and cannot wait any longer, in 1/256: 0.92 and 0.97.
const SOFT_LOAD: u32 = 236;
const HARD_LOAD: u32 = 248;
/// Items fetched ahead while a segment's hashes are read.
const PREFETCH_AHEAD: usize = 10;
/// Segments looked at by a sweep for the price of one rewrite.
const SWEEP_STEPS: usize = 32;

/// Entries at which a segment is due for growth.
#[inline(always)]
pub(super) fn soft_limit(buckets: u32) -> u32 {
    if buckets < SMALL_BUCKETS { buckets * SLOTS } else { room_limit(buckets) }
}

/// Entries below which nothing is due, whatever the size: at most `soft_limit`, without its branch.
#[inline(always)]
pub(super) fn room_limit(buckets: u32) -> u32 {
    (buckets * SLOTS * SOFT_LOAD) >> 8
}

/// Entries at which it grows at once, paid by the insert. Probes get long there.
fn hard_limit(buckets: u32) -> u32 {
    if buckets < SMALL_BUCKETS { buckets * SLOTS } else { (buckets * SLOTS * HARD_LOAD) >> 8 }
}

/// Entries below which a segment is due for shrinking: a third of its slots.
#[inline(always)]
pub(super) fn low_limit(buckets: u32) -> u32 {
    buckets * (SLOTS / 3)
}

/// The number of buckets, at least `buckets`, that fills a size class of the slab.
#[expect(clippy::cast_possible_truncation, reason = "at most a chunk")]
fn whole_class(buckets: u32) -> u32 {
    let buckets = buckets.clamp(1, CHUNK_BUCKETS_MAX);
    (Slab::class_bytes(buckets as usize * BUCKET_BYTES) / BUCKET_BYTES) as u32
}

/// Segments that wait for `maintain`, by a prefix that they cover (it stays true whatever is split or merged meanwhile), and the sweep that
/// makes up for those that found no room here.
pub(super) struct Queue {
    waiting: [u32; Queue::CAPACITY],
    first: u8,
    len: u8,
    /// Next prefix of a walk over all segments; `SWEEP_OFF` if none is on.
    sweep: u64,
    /// Something was left out: sweep (again) from the start.
    sweep_due: bool,
}

const SWEEP_OFF: u64 = u64::MAX;

impl Queue {
    const CAPACITY: usize = 16;

    pub(super) const fn new() -> Queue {
        Queue { waiting: [0; Queue::CAPACITY], first: 0, len: 0, sweep: SWEEP_OFF, sweep_due: false }
    }

    fn push(&mut self, prefix: u32) -> bool {
        if usize::from(self.len) == Queue::CAPACITY {
            return false;
        }
        self.waiting[usize::from(self.first + self.len) % Queue::CAPACITY] = prefix;
        self.len += 1;
        true
    }

    #[expect(clippy::cast_possible_truncation, reason = "indices below 16")]
    fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let prefix = self.waiting[usize::from(self.first)];
        self.first = (self.first + 1) % Queue::CAPACITY as u8;
        self.len -= 1;
        Some(prefix)
    }

    fn is_idle(&self) -> bool {
        self.len == 0 && self.sweep == SWEEP_OFF && !self.sweep_due
    }
}

/// What a step of maintenance did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tended {
    /// Nothing was due.
    Idle,
    Worked,
    /// Two segments became one, which may be due for more.
    Again,
}

/// An entry on its way to another segment.
#[derive(Clone, Copy)]
struct Moving {
    prefix: u32,
    handle: Handle,
    eviction: u32,
}

/// All entries of a segment, with their hashes read while the next items are fetched.
fn collect(slab: &Slab, entries: &impl Entries, segment: Segment, moving: &mut Vec<Moving>) {
    let start = moving.len();
    for index in 0..segment.buckets() {
        let bucket = segment.bucket(slab, index);
        for slot in bucket.occupied() {
            moving.push(Moving { prefix: 0, handle: bucket.handle(slot), eviction: bucket.eviction(slot) });
        }
    }
    for entry in moving[start..].iter().take(PREFETCH_AHEAD) {
        slab.prefetch(entry.handle);
    }
    for index in start..moving.len() {
        if let Some(ahead) = moving.get(index + PREFETCH_AHEAD) {
            slab.prefetch(ahead.handle);
        }
        moving[index].prefix = top(entries.hash(slab, moving[index].handle));
    }
}

fn fill(slab: &Slab, segment: &mut Segment, moving: impl Iterator<Item = Moving>) {
    for entry in moving {
        segment.put(slab, entry.prefix, entry.handle, entry.eviction);
        segment.count += 1;
    }
}

impl Table {
    /// Buckets for `count` entries and some more.
    fn roomy(&mut self, count: u32) -> u32 {
        // splitmix64: the generator only has to spread the phases.
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.jitter ^ self.jitter >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let factor = FACTOR_MIN + (((mixed >> 32) * u64::from(FACTOR_MAX - FACTOR_MIN + 1)) >> 32) as u32;
        // soft_limit(buckets) >= count * factor
        whole_class((count * factor).div_ceil(SLOTS * SOFT_LOAD))
    }

    /// Queues the segment at `place` if it is not queued already. `must`: nothing else would ask for it again.
    pub(super) fn enqueue(&mut self, slab: &mut Slab, place: Place, prefix: u32, must: bool) {
        if place.segment.queued {
            return;
        }
        if self.queue.push(prefix) {
            // The count has changed since `place` was read.
            place.page.set(slab, place.first, place.page.get(slab, place.first).with_queued(true));
        } else if must {
            self.queue.sweep_due = true;
        }
    }

    /// Looks at all segments again.
    pub(super) fn ask_for_sweep(&mut self) {
        self.queue.sweep_due = true;
    }

    /// The part of an insert that is not the common case: the segment is due for growth, or there is none yet.
    #[inline(never)]
    pub(super) fn insert_slow(
        &mut self,
        slab: &mut Slab,
        entries: &impl Entries,
        prefix: u32,
        handle: Handle,
    ) -> Result<super::Slot, AllocError> {
        loop {
            let Some(place) = self.directory.locate(slab, prefix) else {
                self.directory.found(slab)?;
                continue;
            };
            let segment = place.segment;
            if segment.count >= hard_limit(segment.buckets()) {
                // Ends: each turn adds buckets or depth, and both are bounded.
                match self.grow(slab, entries, prefix, place) {
                    Ok(()) => continue,
                    Err(error) if segment.count == segment.slots() => return Err(error),
                    Err(_) => {}
                }
            }
            if self.views.is_some() {
                self.keep(slab, segment, prefix);
            }
            let slot = segment.put(slab, prefix, handle, 0);
            place.page.count_up(slab, place.first);
            self.len += 1;
            if segment.count + 1 >= soft_limit(segment.buckets()) && segment.buckets() >= SMALL_BUCKETS {
                self.enqueue(slab, place, prefix, false);
            }
            return Ok(slot.stamped(self.stamp()));
        }
    }

    /// Gives the segment more buckets, or splits it. On error nothing has changed.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, slab: &mut Slab, entries: &impl Entries, prefix: u32, place: Place) -> Result<(), AllocError> {
        let old = place.segment;
        let buckets = if old.buckets() < SMALL_BUCKETS {
            2 * old.buckets()
        } else {
            self.roomy(old.count).max(old.buckets() + 1)
        };
        if old.buckets() == CHUNK_BUCKETS_MAX && old.depth == DEPTH_MAX {
            return Err(AllocError { requested_bytes: buckets as usize * BUCKET_BYTES });
        }
        let mut moving = Vec::with_capacity(old.count as usize);
        collect(slab, entries, old, &mut moving);
        if buckets > SEGMENT_BUCKETS_MAX && old.depth < DEPTH_MAX {
            let bit = 1 << (31 - old.depth);
            let high = u32::try_from(moving.iter().filter(|entry| entry.prefix & bit != 0).count()).unwrap_or(0);
            // A split that leaves nearly all on one side is put off until the segment is as large as a chunk: hashes that agree in many bits
            // must not cost a level of the directory for every few entries.
            let lopsided = high.max(old.count - high) > old.count - old.count / 8;
            if !lopsided || buckets > CHUNK_BUCKETS_MAX {
                return self.split(slab, prefix, old, &moving, high);
            }
        }
        self.rewrite(slab, prefix, old, whole_class(buckets), &moving)
    }

    fn rewrite(
        &mut self,
        slab: &mut Slab,
        prefix: u32,
        old: Segment,
        buckets: u32,
        moving: &[Moving],
    ) -> Result<(), AllocError> {
        let mut new = self.directory.alloc_segment(slab, buckets, old.depth)?;
        fill(slab, &mut new, moving.iter().copied());
        debug_assert!(new.count == old.count);
        self.directory.set(slab, prefix, new);
        self.discard(slab, old, prefix);
        self.buckets_max = self.buckets_max.max(buckets);
        Ok(())
    }

    /// Two segments for one, of depth one more; `high` of the entries have the next bit set.
    fn split(
        &mut self,
        slab: &mut Slab,
        prefix: u32,
        old: Segment,
        moving: &[Moving],
        high: u32,
    ) -> Result<(), AllocError> {
        let bit = 1 << (31 - old.depth);
        let buckets = [old.count - high, high].map(|count| self.roomy(count));
        let mut low_part = self.directory.alloc_segment(slab, buckets[0], old.depth + 1)?;
        let mut high_part = match self.directory.alloc_segment(slab, buckets[1], old.depth + 1) {
            Ok(part) => part,
            Err(error) => {
                self.directory.free_segment(slab, low_part);
                return Err(error);
            }
        };
        if let Err(error) = self.directory.deepen(slab, prefix) {
            self.directory.free_segment(slab, low_part);
            self.directory.free_segment(slab, high_part);
            return Err(error);
        }
        fill(slab, &mut low_part, moving.iter().copied().filter(|entry| entry.prefix & bit == 0));
        fill(slab, &mut high_part, moving.iter().copied().filter(|entry| entry.prefix & bit != 0));
        debug_assert!(low_part.count + high_part.count == old.count);
        self.directory.set(slab, prefix & !bit, low_part);
        self.directory.set(slab, prefix | bit, high_part);
        self.discard(slab, old, prefix);
        self.buckets_max = self.buckets_max.max(buckets[0]).max(buckets[1]);
        Ok(())
    }

    /// The buddy of the segment at `prefix`, if both together are small enough to be one.
    fn mergeable(&self, slab: &Slab, prefix: u32, segment: Segment) -> Option<Segment> {
        let bit = 1 << 32u32.checked_sub(segment.depth).filter(|&shift| shift < 32)?;
        let buddy = self.directory.locate(slab, prefix ^ bit)?.segment;
        (buddy.depth == segment.depth && segment.count + buddy.count <= MERGE_ENTRIES_MAX).then_some(buddy)
    }

    /// Makes one segment of two buddies; false if there is no memory for it.
    fn merge(&mut self, slab: &mut Slab, entries: &impl Entries, prefix: u32, parts: [Segment; 2]) -> bool {
        let count = parts[0].count + parts[1].count;
        let depth = parts[0].depth;
        let buckets = self.roomy(count);
        let Ok(mut new) = self.directory.alloc_segment(slab, buckets, depth - 1) else { return false };
        if !self.directory.make_shallow(slab, prefix, depth - 1) {
            self.directory.free_segment(slab, new);
            return false;
        }
        let mut moving = Vec::with_capacity(count as usize);
        for part in parts {
            collect(slab, entries, part, &mut moving);
        }
        fill(slab, &mut new, moving.iter().copied());
        debug_assert!(new.count == count);
        self.directory.set(slab, prefix, new);
        let bit = 1 << (32 - depth);
        self.discard(slab, parts[0], prefix);
        self.discard(slab, parts[1], prefix ^ bit);
        self.directory.compact(slab, prefix, depth);
        self.buckets_max = self.buckets_max.max(buckets);
        true
    }

    /// Gives a segment that is less than half full the size that what is in it would have been given; false: it has that, or there is no memory.
    pub(super) fn fit_segment(&mut self, slab: &mut Slab, entries: &impl Entries, prefix: u32, place: Place) -> bool {
        let segment = place.segment;
        if segment.queued || 2 * segment.count >= segment.slots() || segment.buckets() <= SMALL_BUCKETS {
            return false;
        }
        let buckets = self.roomy(segment.count);
        if buckets > segment.buckets() - segment.buckets().div_ceil(4) {
            return false;
        }
        let mut moving = Vec::with_capacity(segment.count as usize);
        collect(slab, entries, segment, &mut moving);
        self.rewrite(slab, prefix, segment, buckets, &moving).is_ok()
    }

    /// One step of work on the segment of `prefix`, if it is due.
    fn tend(&mut self, slab: &mut Slab, entries: &impl Entries, prefix: u32) -> Tended {
        let Some(place) = self.directory.locate(slab, prefix) else { return Tended::Idle };
        let segment = place.segment.with_queued(false);
        place.page.set(slab, place.first, segment);
        // Where memory is short nothing is done: growth is asked for again by the next insert, shrinking by the next remove.
        if segment.count >= soft_limit(segment.buckets()) {
            if segment.buckets() < SMALL_BUCKETS {
                return Tended::Idle;
            }
            let _ = self.grow(slab, entries, prefix, Place { segment, ..place });
            return Tended::Worked;
        }
        if self.len == 0 && segment.depth == 0 && self.views.is_none() {
            self.directory.abandon(slab);
            self.buckets_max = 0;
            return Tended::Worked;
        }
        if let Some(buddy) = self.mergeable(slab, prefix, segment) {
            return if self.merge(slab, entries, prefix, [segment, buddy]) { Tended::Again } else { Tended::Idle };
        }
        if segment.count < low_limit(segment.buckets()) && segment.buckets() > 1 {
            let buckets = self.roomy(segment.count);
            if buckets <= segment.buckets() - segment.buckets().div_ceil(4) {
                let mut moving = Vec::with_capacity(segment.count as usize);
                collect(slab, entries, segment, &mut moving);
                let _ = self.rewrite(slab, prefix, segment, buckets, &moving);
                return Tended::Worked;
            }
        }
        Tended::Idle
    }

    /// Does `maintain` or `release_views` have something to do?
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.queue.is_idle() || self.has_retired()
    }

    /// Rewrites up to `budget_segments` segments that are due; true if more work waits. To be called between batches, off the requests.
    pub fn maintain(&mut self, slab: &mut Slab, entries: &impl Entries, budget_segments: usize) -> bool {
        if self.queue.is_idle() {
            return false;
        }
        self.restamp();
        let mut left = budget_segments;
        while left > 0 {
            if let Some(prefix) = self.queue.pop() {
                left -= 1;
                if self.tend(slab, entries, prefix) == Tended::Again && !self.queue.push(prefix) {
                    self.queue.sweep_due = true;
                }
            } else if self.queue.sweep == SWEEP_OFF {
                if !self.queue.sweep_due {
                    break;
                }
                self.queue.sweep_due = false;
                self.queue.sweep = 0;
            } else {
                left -= 1;
                self.sweep(slab, entries);
            }
        }
        !self.queue.is_idle()
    }

    /// Walks on over all segments until one was rewritten or `SWEEP_STEPS` were looked at.
    fn sweep(&mut self, slab: &mut Slab, entries: &impl Entries) {
        for _ in 0..SWEEP_STEPS {
            // Past the last prefix, or a table without memory: the walk is over.
            let prefix = u32::try_from(self.queue.sweep).ok();
            let Some((prefix, segment)) =
                prefix.and_then(|prefix| Some((prefix, self.directory.segment(slab, prefix)?)))
            else {
                self.queue.sweep = SWEEP_OFF;
                return;
            };
            let width = 32 - segment.depth;
            match self.tend(slab, entries, prefix) {
                // What was merged may merge again; it covers this prefix.
                Tended::Again => return,
                tended => {
                    self.queue.sweep = (u64::from(prefix) >> width << width) + (1 << width);
                    if tended == Tended::Worked {
                        return;
                    }
                }
            }
        }
    }
}
