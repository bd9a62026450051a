//! Which segment covers a hash: root, pages, runs. Owns all memory of a table (it allocates and frees segments and pages, and counts the
//! bytes); knows neither entries nor when to grow.
//!
//! ```text
//!  root (a Vec, 2^R)      page (a chunk, 2^k words)           segment (a chunk)
//!  ┌──────────────┐       ┌───────────────────────────┐       ┌────────┬────────┬───
//!  │ 00: page A ──┼──────▶│ 000  segment s, count n ──┼──────▶│bucket 0│bucket 1│ ...
//!  │ 01: page A   │       │ 001  segment s            │       └────────┴────────┴───
//!  │ 10: page B   │       │ 010  segment t, count m   │
//!  │ 11: page C   │       │ ...                       │
//!  └──────────────┘       └───────────────────────────┘
//!   top R bits of          the k bits after the           home: multiply-shift of the
//!   the prefix             page's own depth P             bits after the segment's depth
//! ```
//! A page of depth P fills 2^(R-P) words of the root, a segment of depth D a run of 2^(P+k-D) words of its page; both are aligned to
//! their size. Each page doubles and splits alone; a page splits when it is 16 KiB, so the root has one word for up to 2,048
//! segments, and doubling it costs next to nothing.
//!
//! Invariant: P <= D <= P+k for every segment of a page. A page is never larger than its deepest segment needs, except when the memory for
//! a smaller one could not be had.

use super::peek::Mirror;
use super::raw::{PAGE_BITS_MAX, PageRef, Segment};
use dolmen_slab::{AllocError, Slab, Slice};
use std::sync::Arc;

/// No segment is deeper. 2^24 segments of some 350 entries are more than a slab can hold, so only hashes that do not differ in their top
/// bits get here. It bounds the directory (root: 2^13 words) whatever the hashes are.
pub(super) const DEPTH_MAX: u32 = 24;
/// Two pages merge when the result has at most this many bits: a quarter of a full page, so that they do not split again at once.
const PAGE_MERGE_BITS_MAX: u32 = PAGE_BITS_MAX - 2;

pub(super) struct Directory {
    /// Empty (a table without memory) or a power of two of copies of page references.
    root: Vec<PageRef>,
    /// 32 - R; 32 when the root is empty, so that every prefix indexes word 0, which is not there.
    shift: u32,
    /// At least the depth of every segment: the largest P+k.
    depth_max: u32,
    /// Segments and pages, in the slab.
    bytes: usize,
    /// See `epoch`.
    epoch: u64,
    /// Shows the root to threads that look without the lock.
    mirror: Option<Arc<Mirror>>,
}

/// A segment and where its first word is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) page: PageRef,
    pub(super) first: u32,
    pub(super) segment: Segment,
}

impl Directory {
    pub(super) const fn new() -> Directory {
        Directory { root: Vec::new(), shift: 32, depth_max: 0, bytes: 0, epoch: 0, mirror: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    pub(super) fn depth_max(&self) -> u32 {
        self.depth_max
    }

    /// Counts the allocations and releases of segments.
    #[inline(always)]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// From now on the root is shown in `mirror`.
    pub(super) fn set_mirror(&mut self, mirror: Option<Arc<Mirror>>) {
        self.mirror = mirror;
        self.show();
    }

    pub(super) fn take_mirror(&mut self) -> Option<Arc<Mirror>> {
        self.mirror.take()
    }

    /// The root has changed.
    fn show(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.show(&self.root, self.shift);
        }
    }

    /// Slab and heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.heap_bytes()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.root.capacity() * size_of::<PageRef>()
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a 32-bit word shifted right")]
    fn root_index(&self, prefix: u32) -> usize {
        // As 64 bits, so that a shift by 32 (a root of one word) is a shift.
        (u64::from(prefix) >> self.shift) as usize
    }

    fn root_bits(&self) -> u32 {
        32 - self.shift
    }

    #[inline(always)]
    fn page(&self, prefix: u32) -> Option<PageRef> {
        self.root.get(self.root_index(prefix)).copied()
    }

    /// The segment of a prefix. Its `count` and `queued` may be missing; see `locate`.
    #[inline(always)]
    pub(super) fn segment(&self, slab: &Slab, prefix: u32) -> Option<Segment> {
        let page = self.root.get(self.root_index(prefix))?;
        Some(page.get(slab, page.index(prefix)))
    }

    /// The segment of a prefix with its count, and its first word.
    #[inline(always)]
    pub(super) fn locate(&self, slab: &Slab, prefix: u32) -> Option<Place> {
        let page = self.page(prefix)?;
        let index = page.index(prefix);
        let run_bits = page.run_bits(page.get(slab, index).depth);
        let first = index >> run_bits << run_bits;
        Some(Place { page, first, segment: page.get(slab, first) })
    }

    /// All segments in the order of the hash space, each with its first word.
    pub(super) fn places<'a>(&'a self, slab: &'a Slab) -> impl Iterator<Item = Place> + 'a {
        let (mut next_root, mut next_word) = (0, 0);
        std::iter::from_fn(move || {
            let page = *self.root.get(next_root)?;
            let first = next_word;
            let segment = page.get(slab, first);
            next_word += 1 << page.run_bits(segment.depth);
            if next_word == page.len() {
                next_root += self.root_run(page);
                next_word = 0;
            }
            Some(Place { page, first, segment })
        })
    }

    /// Words of the root that a page fills.
    fn root_run(&self, page: PageRef) -> usize {
        1 << (self.root_bits() - page.depth())
    }

    pub(super) fn alloc_segment(&mut self, slab: &mut Slab, buckets: u32, depth: u32) -> Result<Segment, AllocError> {
        let segment = Segment::alloc(slab, buckets, depth)?;
        self.epoch += 1;
        self.bytes += segment.bytes();
        Ok(segment)
    }

    pub(super) fn free_segment(&mut self, slab: &mut Slab, segment: Segment) {
        self.part_with(segment);
        segment.free(slab);
    }

    /// A segment that is the directory's no more, but a view's.
    pub(super) fn part_with(&mut self, segment: Segment) {
        self.bytes -= segment.bytes();
        self.epoch += 1;
    }

    fn alloc_page(&mut self, slab: &mut Slab, depth: u32, bits: u32, fill: Segment) -> Result<PageRef, AllocError> {
        let page = PageRef::alloc(slab, depth, bits, fill)?;
        self.bytes += Slab::class_bytes(page.bytes());
        Ok(page)
    }

    fn free_page(&mut self, slab: &mut Slab, page: PageRef) {
        self.bytes -= Slab::class_bytes(page.bytes());
        page.free(slab);
    }

    /// Has a sweep move the segment of a prefix, if it is to.
    pub(super) fn offer_segment(&mut self, slab: &mut Slab, slice: &mut Slice, prefix: u32) {
        if let Some(place) = self.locate(slab, prefix)
            && let Some(moved) = place.segment.offer(slab, slice)
        {
            self.epoch += 1;
            self.set(slab, prefix, moved);
        }
    }

    /// The same with the page of a prefix.
    pub(super) fn offer_page(&mut self, slab: &mut Slab, slice: &mut Slice, prefix: u32) {
        if let Some(moved) = self.page(prefix).and_then(|page| page.offer(slab, slice)) {
            self.set_page(prefix, moved);
        }
    }

    /// First memory of an empty table: one bucket, one word.
    pub(super) fn found(&mut self, slab: &mut Slab) -> Result<(), AllocError> {
        debug_assert!(self.is_empty());
        let segment = self.alloc_segment(slab, 1, 0)?;
        match self.alloc_page(slab, 0, 0, segment) {
            Ok(page) => {
                self.root = vec![page];
                self.show();
                Ok(())
            }
            Err(error) => {
                self.free_segment(slab, segment);
                Err(error)
            }
        }
    }

    /// Gives the last memory back, if all that is left is one segment.
    pub(super) fn abandon(&mut self, slab: &mut Slab) {
        if let [page] = self.root[..]
            && page.get(slab, 0).depth == 0
        {
            self.free_segment(slab, page.get(slab, 0));
            self.free_page(slab, page);
            debug_assert!(self.bytes == 0);
            self.root = Vec::new();
            self.shift = 32;
            self.depth_max = 0;
            self.show();
        }
    }

    /// Makes `segment` cover the part of the hash space that begins like `prefix` (its `depth` bits).
    pub(super) fn set(&mut self, slab: &mut Slab, prefix: u32, segment: Segment) {
        let Some(page) = self.page(prefix) else { return };
        let run_bits = page.run_bits(segment.depth);
        let first = page.index(prefix) >> run_bits << run_bits;
        page.set(slab, first, segment);
        for index in first + 1..first + (1 << run_bits) {
            page.set(slab, index, segment.uncounted());
        }
    }

    /// Makes room for splitting the segment of `prefix` (its page holds words for one more bit of depth).
    pub(super) fn deepen(&mut self, slab: &mut Slab, prefix: u32) -> Result<(), AllocError> {
        while let Some(page) = self.page(prefix) {
            let depth = page.get(slab, page.index(prefix)).depth;
            debug_assert!(depth < DEPTH_MAX);
            if page.run_bits(depth) > 0 {
                break;
            }
            if page.bits() < PAGE_BITS_MAX {
                self.resize_page(slab, prefix, page, page.bits() + 1)?;
            } else {
                self.split_page(slab, prefix, page)?;
            }
        }
        Ok(())
    }

    /// Makes room for a segment of this depth in place of two of depth one more; false if there is no memory for that.
    pub(super) fn make_shallow(&mut self, slab: &mut Slab, prefix: u32, depth: u32) -> bool {
        while self.page(prefix).is_some_and(|page| page.depth() > depth) {
            if !self.merge_page(slab, prefix) {
                return false;
            }
        }
        true
    }

    /// Takes the words for the merged segment of `prefix` back where nobody needs them: the page halves, merges with its buddy, the
    /// root halves. Work: two pages. `old_depth` is the depth before the merge.
    pub(super) fn compact(&mut self, slab: &mut Slab, prefix: u32, old_depth: u32) {
        let Some(page) = self.page(prefix) else { return };
        if page.bits() > 0 && page.run_bits(old_depth) == 0 {
            let bits = deepest(slab, page, 0, page.len()) - page.depth();
            // No memory for the smaller page: the larger one serves as well.
            if bits < page.bits() && self.resize_page(slab, prefix, page, bits).is_ok() {
                self.note_depth_max();
            }
        }
        while self.merge_page(slab, prefix) {}
    }

    fn note_depth_max(&mut self) {
        self.depth_max = self.root.iter().map(|page| page.depth() + page.bits()).max().unwrap_or(0);
    }

    /// Puts `page` where all hashes like `prefix` (to the page's depth) find it.
    fn set_page(&mut self, prefix: u32, page: PageRef) {
        let run = self.root_run(page);
        let first = self.root_index(prefix) / run * run;
        self.root[first..first + run].fill(page);
        self.depth_max = self.depth_max.max(page.depth() + page.bits());
        self.show();
    }

    fn resize_page(&mut self, slab: &mut Slab, prefix: u32, page: PageRef, bits: u32) -> Result<(), AllocError> {
        let resized = self.alloc_page(slab, page.depth(), bits, page.get(slab, 0))?;
        copy_words(slab, (page, 0, page.bits()), (resized, 0, bits));
        self.set_page(prefix, resized);
        self.free_page(slab, page);
        Ok(())
    }

    fn split_page(&mut self, slab: &mut Slab, prefix: u32, page: PageRef) -> Result<(), AllocError> {
        let half_bits = page.bits() - 1;
        let depth = page.depth() + 1;
        let half_len = 1 << half_bits;
        let bits = [0, half_len].map(|first| deepest(slab, page, first, half_len) - depth);
        let low = self.alloc_page(slab, depth, bits[0], page.get(slab, 0))?;
        let high = match self.alloc_page(slab, depth, bits[1], page.get(slab, half_len)) {
            Ok(high) => high,
            Err(error) => {
                self.free_page(slab, low);
                return Err(error);
            }
        };
        copy_words(slab, (page, 0, half_bits), (low, 0, bits[0]));
        copy_words(slab, (page, half_len, half_bits), (high, 0, bits[1]));
        if depth > self.root_bits() {
            self.root = self.root.iter().flat_map(|&page| [page, page]).collect();
            self.shift -= 1;
        }
        let bit = 1 << (32 - depth);
        self.set_page(prefix & !bit, low);
        self.set_page(prefix | bit, high);
        self.free_page(slab, page);
        Ok(())
    }

    /// Merges the page of `prefix` with its buddy if both are small; true if it did.
    fn merge_page(&mut self, slab: &mut Slab, prefix: u32) -> bool {
        let Some(page) = self.page(prefix).filter(|page| page.depth() > 0) else { return false };
        let bit = 1 << (32 - page.depth());
        let (Some(low), Some(high)) = (self.page(prefix & !bit), self.page(prefix | bit)) else { return false };
        let part_bits = low.bits().max(high.bits());
        if low.depth() != high.depth() || part_bits + 1 > PAGE_MERGE_BITS_MAX {
            return false;
        }
        let Ok(merged) = self.alloc_page(slab, low.depth() - 1, part_bits + 1, low.get(slab, 0)) else { return false };
        copy_words(slab, (low, 0, low.bits()), (merged, 0, part_bits));
        copy_words(slab, (high, 0, high.bits()), (merged, 1 << part_bits, part_bits));
        self.set_page(prefix, merged);
        self.free_page(slab, low);
        self.free_page(slab, high);
        while self.root_bits() > 0 && self.root.iter().all(|page| page.depth() < self.root_bits()) {
            self.root = self.root.iter().step_by(2).copied().collect();
            self.shift += 1;
        }
        self.show();
        self.note_depth_max();
        true
    }

    /// Takes the last page off a directory that is being torn down (nothing may be looked up in it any more).
    pub(super) fn pop_page(&mut self, slab: &mut Slab) {
        if let Some(&page) = self.root.last() {
            self.root.truncate(self.root.len() - self.root_run(page));
            self.free_page(slab, page);
        }
    }

    pub(super) fn last_page(&self) -> Option<PageRef> {
        self.root.last().copied()
    }

    #[cfg(any(test, debug_assertions))]
    pub(super) fn root(&self) -> &[PageRef] {
        &self.root
    }

    #[cfg(any(test, debug_assertions))]
    pub(super) fn slab_bytes(&self) -> usize {
        self.bytes
    }
}

/// The largest depth among the segments in `len` words from `first`.
fn deepest(slab: &Slab, page: PageRef, first: u32, len: u32) -> u32 {
    let (mut index, mut depth_max) = (first, 0);
    while index < first + len {
        let depth = page.get(slab, index).depth;
        depth_max = depth_max.max(depth);
        index += 1 << page.run_bits(depth);
    }
    depth_max
}

/// Copies 2^bits words of a page to a part of another page with more or fewer words for the same hashes. (page, first word, bits).
fn copy_words(
    slab: &mut Slab,
    (from, from_first, from_bits): (PageRef, u32, u32),
    (to, to_first, to_bits): (PageRef, u32, u32),
) {
    if from_bits <= to_bits {
        let copies = 1 << (to_bits - from_bits);
        for index in 0..1 << from_bits {
            let segment = from.get(slab, from_first + index);
            to.set(slab, to_first + index * copies, segment);
            for copy in 1..copies {
                to.set(slab, to_first + index * copies + copy, segment.uncounted());
            }
        }
    } else {
        // Every run is at least `step` words long and aligned, so its first word is among those taken.
        let step = 1 << (from_bits - to_bits);
        for index in 0..1 << to_bits {
            to.set(slab, to_first + index, from.get(slab, from_first + index * step));
        }
    }
}
