//! Moving the memory of a table to where it does not keep sparse spans resident (`dolmen_slab`: sweeps): pages, segments, and, by the owner's help, what
//! entries lie in. Owns the order of the walk; decides nothing about what is to move.

use super::raw::Segment;
use super::{Entries, Table};
use dolmen_slab::{Handle, Slab, Slice};

/// Buckets of a segment that are looked at for the price of a chunk: a line with twelve handles.
const BUCKET_LOOKS: usize = 2;

impl Table {
    /// Goes on with a walk over all memory of the table, as far as `slice` goes: moves pages and segments that lie in sealed spans, gives segments
    /// that are less than half full a size for what is in them, and asks `offer` for each entry whose chunk lies in a sealed span; if that has moved it,
    /// the answer is its handle from now on. `None`: the walk is done, else where it goes on (it begins with 0). What changes between two calls may be
    /// passed over, or looked at twice.
    ///
    /// A table with views stays as it is.
    pub fn relocate(
        &mut self,
        slab: &mut Slab,
        entries: &impl Entries,
        cursor: u64,
        slice: &mut Slice,
        mut offer: impl FnMut(&mut Slab, &mut Slice, Handle) -> Option<Handle>,
    ) -> Option<u64> {
        let mut prefix = u32::try_from(cursor).ok()?;
        self.restamp();
        while !slice.is_used_up() {
            if self.has_views() {
                return None;
            }
            let mut segment = self.directory.locate(slab, prefix)?.segment;
            if segment.home(prefix) == 0 {
                segment = self.relocate_segment(slab, entries, prefix, slice)?;
            }
            let home = segment.home(prefix);
            slice.spend(BUCKET_LOOKS);
            let bucket = segment.bucket(slab, home);
            bucket
                .occupied()
                .filter(|&index| slab.is_sealed(bucket.handle(index)))
                .for_each(|index| slab.prefetch(bucket.handle(index)));
            for index in segment.bucket(slab, home).occupied() {
                let handle = segment.bucket(slab, home).handle(index);
                if slab.is_sealed(handle)
                    && let Some(moved) = offer(slab, slice, handle)
                {
                    segment.slot(slab, home, index).replace(moved);
                }
            }
            prefix = u32::try_from(segment.home_end(prefix, home)).ok()?;
        }
        Some(u64::from(prefix))
    }

    /// The walk has come to the first bucket of a segment, which has another place or size afterwards.
    fn relocate_segment(
        &mut self,
        slab: &mut Slab,
        entries: &impl Entries,
        prefix: u32,
        slice: &mut Slice,
    ) -> Option<Segment> {
        let place = self.directory.locate(slab, prefix)?;
        if place.first == 0 {
            self.directory.offer_page(slab, slice, prefix);
        }
        if self.fit_segment(slab, entries, prefix, place) {
            slice.spend(place.segment.count as usize);
        } else {
            self.directory.offer_segment(slab, slice, prefix);
        }
        Some(self.directory.locate(slab, prefix)?.segment)
    }
}
