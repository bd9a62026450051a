//! Repair of fragmentation: which span of items to empty, and what lives in it.
//!
//! Must not know how an item is found or moved: the caller finds its owner through the key, allocates elsewhere, copies, stores the new
//! handle and frees the old chunk.
//!
//! A heap is evacuated when the free room in its resident pages (its *slack*) exceeds a twelfth of its live chunks plus two spans, and
//! until it is below a 24th plus one span: the distance keeps a heap at the edge from being evacuated over and over. The lower mark
//! is above the 32nd that spans may hide as crumbs, so the room counted on exists.

use crate::chunks::{BINS, CRUMBS, Chunks, HEAPS};
use crate::class::UNIT_BYTES;
use crate::handle::Handle;
use crate::span::{BITMAP_WORDS, SPAN_UNITS_LOG2, State};

/// Spans of a bin that are compared when a victim is picked.
const CANDIDATES: usize = 16;

const _: () = assert!(CRUMBS == BINS - 1 && BITMAP_WORDS * 64 <= u16::MAX as usize);

/// A sealed span: nothing is allocated in it until it is finished. Give it back to [`Slab::finish`](crate::Slab::finish).
#[must_use = "a victim that is not finished stays sealed for ever"]
#[derive(Debug)]
pub struct Victim {
    span: u32,
    /// Chunk index from which `next_live` goes on.
    next: usize,
}

impl Chunks {
    /// Chunks of room in resident pages beyond what the marks allow, if the heap is to be evacuated.
    fn excess(&self, heap: usize) -> u64 {
        let begun = self.draining[heap / 2];
        let heap = &self.heaps[heap];
        let (live, capacity) = (u64::from(heap.live), u64::from(heap.capacity));
        let slack = heap.fronted - live;
        let low = live / 24 + capacity;
        let high = if begun { low } else { live / 12 + 2 * capacity };
        if slack > high { slack - low } else { 0 }
    }

    /// Bytes that evacuation would give back now.
    pub(crate) fn fragmented_bytes(&self) -> u64 {
        (0..HEAPS).step_by(2).map(|heap| self.excess(heap) * u64::from(self.heaps[heap].bytes)).sum()
    }

    /// Seals the emptiest span of a heap of items that is worth it.
    pub(crate) fn pick_victim(&mut self) -> Option<Victim> {
        for _ in 0..HEAPS / 2 {
            let heap = self.drain_heap;
            // One victim a heap at a time: the room for a second one is not known before the first is done.
            if self.heaps[heap].evacuating == 0 {
                self.draining[heap / 2] = self.excess(heap) > 0;
                if self.draining[heap / 2]
                    && let Some(span) = self.emptiest(heap)
                {
                    return Some(self.seal(heap, span));
                }
            }
            self.drain_heap = (heap + 2) % HEAPS;
        }
        None
    }

    /// The emptiest of the first few spans of the emptiest bin, without those whose chunks could not be moved last time.
    fn emptiest(&self, heap: usize) -> Option<u32> {
        self.bins[heap][..CRUMBS].iter().find_map(|list| {
            let following = |&span: &u32| Some(self.metas[span as usize].next).filter(|&next| next != 0);
            std::iter::successors(Some(list.head).filter(|&head| head != 0), following)
                .take(CANDIDATES)
                .filter(|&span| self.metas[span as usize].stuck != self.metas[span as usize].live)
                .min_by_key(|&span| self.metas[span as usize].live)
        })
    }

    fn seal(&mut self, heap: usize, span: u32) -> Victim {
        let meta = &mut self.metas[span as usize];
        let bin = usize::from(meta.bin);
        (meta.state, meta.live_low) = (State::Sealed, 0);
        self.bins[heap][bin].remove(&mut self.metas, span);
        self.heaps[heap].evacuating += 1;
        Victim { span, next: 0 }
    }

    /// The next live chunk of a victim in address order.
    pub(crate) fn next_live(&self, victim: &mut Victim) -> Option<(Handle, usize)> {
        let heap = &self.heaps[usize::from(self.metas[victim.span as usize].heap)];
        while victim.next < usize::from(heap.capacity) {
            let word = self.live_word(victim.span as usize, victim.next / 64) >> (victim.next % 64);
            if word == 0 {
                victim.next = (victim.next / 64 + 1) * 64;
                continue;
            }
            let index = victim.next + word.trailing_zeros() as usize;
            victim.next = index + 1;
            let bytes = heap.bytes as usize;
            let units = u32::try_from(index * bytes / UNIT_BYTES).expect("a span has 2^13 units");
            return Some((Handle::from_bits((victim.span << SPAN_UNITS_LOG2) + units), bytes));
        }
        None
    }

    /// Unseals a victim: to the empty spans when all has moved, else back to its bin.
    #[expect(clippy::needless_pass_by_value, reason = "the victim ends here")]
    pub(crate) fn finish(&mut self, victim: Victim) {
        let meta = &mut self.metas[victim.span as usize];
        debug_assert_eq!(meta.state, State::Sealed);
        meta.stuck = meta.live;
        let heap = usize::from(meta.heap);
        self.heaps[heap].evacuating -= 1;
        let stuck = meta.live > 0;
        self.file(victim.span);
        if stuck {
            // Behind the others of its bin, so that the next picks look at those.
            let bin = usize::from(self.metas[victim.span as usize].bin);
            self.bins[heap][bin].remove(&mut self.metas, victim.span);
            self.bins[heap][bin].push_back(&mut self.metas, victim.span);
        }
    }
}
