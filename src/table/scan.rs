//! Walking and picking: SCAN's cursor and the uniform random entry. Changes nothing.

use super::group::SLOTS;
use super::raw::{Segment, top};
use super::{Entries, Table};
use dolmen_slab::{Handle, Slab};

/// Rejections after which a random pick counts entries instead. With hashes that are spread evenly one try in about ten succeeds at
/// worst, so this is a matter of skewed or nearly emptied tables.
const TRIES_MAX: u32 = 128;
/// A directory of at most so many words is counted right away.
const COUNTED_DEPTH_MAX: u32 = 4;

/// Uniform in 0..bound (the bias, bound / 2^64, is far below what could be seen).
fn below(bound: u64, random: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

impl Table {
    /// Visits all entries of one home bucket, and returns the cursor of the next: 0 at the end. Start with 0.
    ///
    /// A cursor is a position among the hashes' upper halves (at most 32 bits), so it stays valid whatever happens to the table. An entry
    /// that is there from the first call to the last is visited exactly once, also when its segment is rewritten between two
    /// calls. Cursors that this function never returned are taken for the next position, or the end.
    pub fn scan(&self, slab: &Slab, entries: &impl Entries, cursor: u64, mut visit: impl FnMut(Handle)) -> u64 {
        let Ok(prefix) = u32::try_from(cursor) else { return 0 };
        let Some(segment) = self.directory.segment(slab, prefix) else { return 0 };
        let home = segment.home(prefix);
        // The segment was rewritten since the cursor was made: what lies before it in the bucket was visited under the old bounds. (At the
        // start of a segment of one bucket this is true for nothing, and does no harm.)
        let begun = prefix > 0 && segment.home(prefix - 1) == home;
        let mut index = home;
        // Nothing went past the bucket before: then all that is in the home bucket is at home there.
        let before = if home == 0 { segment.buckets() - 1 } else { home - 1 };
        let mut all_at_home = segment.buckets() == 1 || segment.bucket(slab, before).overflow() == 0;
        for _ in 0..segment.buckets() {
            let bucket = segment.bucket(slab, index);
            if !all_at_home {
                for slot in bucket.occupied() {
                    slab.prefetch(bucket.handle(slot));
                }
            }
            for slot in bucket.occupied() {
                let handle = bucket.handle(slot);
                if all_at_home && !begun {
                    visit(handle);
                    continue;
                }
                let position = top(entries.hash(slab, handle));
                if segment.home(position) == home && (!begun || position >= prefix) {
                    visit(handle);
                }
            }
            if bucket.overflow() == 0 {
                break;
            }
            all_at_home = false;
            index = segment.next(index);
        }
        let end = segment.home_end(prefix, home);
        if end > u64::from(u32::MAX) { 0 } else { end }
    }

    /// An entry, each with the same probability. Expected time is constant for hashes that are spread evenly; the directory is walked once
    /// (one word a segment) for a table that is very small, or so skewed that chance does not hit.
    pub fn random(&self, slab: &Slab, mut next_u64: impl FnMut() -> u64) -> Option<Handle> {
        if self.is_empty() {
            return None;
        }
        if self.directory.depth_max() > COUNTED_DEPTH_MAX {
            // A random prefix hits a segment of depth D with probability 2^-D; taken with one proportional to count * 2^D, the
            // segment is drawn in proportion to its entries.
            let bound = u64::from(self.buckets_max * SLOTS) << self.directory.depth_max();
            for _ in 0..TRIES_MAX {
                let segment = self.directory.locate(slab, top(next_u64()))?.segment;
                if below(bound, next_u64()) < u64::from(segment.count) << segment.depth {
                    return Some(random_of(slab, segment, &mut next_u64));
                }
            }
        }
        let mut nth = below(self.len as u64, next_u64());
        for place in self.directory.places(slab) {
            let count = u64::from(place.segment.count);
            if nth < count {
                return Some(random_of(slab, place.segment, &mut next_u64));
            }
            nth -= count;
        }
        unreachable!("the counts of the segments add up to the length")
    }
}

/// An entry of a segment that has some: by rejection over its slots, and should that fail for long, by counting.
fn random_of(slab: &Slab, segment: Segment, next_u64: &mut impl FnMut() -> u64) -> Handle {
    for _ in 0..TRIES_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
        let slot = below(u64::from(segment.slots()), next_u64()) as u32;
        let bucket = segment.bucket(slab, slot / SLOTS);
        if bucket.occupied().contains(slot % SLOTS) {
            return bucket.handle(slot % SLOTS);
        }
    }
    let mut nth = below(u64::from(segment.count), next_u64());
    for index in 0..segment.buckets() {
        for slot in segment.bucket(slab, index).occupied() {
            if nth == 0 {
                return segment.bucket(slab, index).handle(slot);
            }
            nth -= 1;
        }
    }
    unreachable!("a segment of count {} has fewer entries", segment.count)
}
