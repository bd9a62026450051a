//! Repair of fragmentation among chunks whose owner cannot be found from the chunk ([`Kind::Interior`](crate::Kind::Interior)): nodes of structures, and
//! what only they name.
//!
//! All sparse spans are sealed first, as many as the free room of the others can take the chunks of. Then the caller walks over its
//! structures and offers what each names ([`Slab::offer`](crate::Slab::offer)): a chunk in a sealed span is moved to another one, and the caller puts its
//! new handle in the place of the old one. A sealed span that has become empty is free at once. At the end of the walk the others are unsealed.
//! One walk thus repairs all classes, however many spans are sparse, and nothing is remembered of single chunks.
//!
//! ```text
//!  seal_sparse, until false ──▶ offer, offer, ... (each chunk once) ──▶ unseal, until false
//! ```
//! A class is worth it at the same marks as with items (`evacuate`). A walk costs the same whatever there is to gain, so [`Chunks::worth_sweeping`]
//! compares what all classes together would give back with what there is to walk over.

use crate::chunks::{BINS, CRUMBS, Chunks, HEAPS};
use crate::class::CLASSES;
use crate::handle::Handle;
use crate::list::List;
use crate::span::{SPAN_BYTES, SPAN_UNITS_LOG2, SpanMeta, State};

/// A walk has to give back this part of what it goes over, and so many spans.
const WORTH_DIVISOR: u64 = 32;
const WORTH_SPANS: u64 = 2;

const _: () = assert!(CRUMBS == BINS - 1);

/// What a slice of a walk may still do, and what it has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Chunks that may be looked at.
    pub looks_left: usize,
    /// Bytes that may be moved.
    pub bytes_left: usize,
    /// Chunks looked at, and moved.
    pub looked: u64,
    pub moved: u64,
}

impl Slice {
    #[must_use]
    pub fn new(looks: usize, bytes: usize) -> Slice {
        Slice { looks_left: looks, bytes_left: bytes, looked: 0, moved: 0 }
    }

    #[inline]
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.looks_left == 0 || self.bytes_left == 0
    }

    /// Counts work of the caller's own, in chunks that might have been looked at instead.
    #[inline]
    pub fn spend(&mut self, looks: usize) {
        self.looks_left = self.looks_left.saturating_sub(looks);
    }

    #[inline]
    pub(crate) fn look(&mut self) {
        self.spend(1);
        self.looked += 1;
    }

    #[inline]
    pub(crate) fn moved(&mut self, bytes: usize) {
        // A short one costs a line all the same.
        self.bytes_left = self.bytes_left.saturating_sub(bytes.max(64));
        self.moved += 1;
    }
}

/// What is sealed.
#[derive(Default)]
pub(crate) struct Sealed {
    spans: List,
    /// Chunks below the frontiers of sealed spans, by class.
    fronted: Vec<u64>,
    /// Next heap to be sealed spans of.
    heap: usize,
}

impl Chunks {
    /// Chunks of free room of an interior heap beyond what may stay, if that is worth repairing: those in sealed spans are as good as gone.
    fn sparse_chunks(&self, heap: usize) -> u64 {
        let sealed = self.sealed.fronted.get(heap / 2).copied().unwrap_or(0);
        let heap = &self.heaps[heap];
        let (live, capacity) = (u64::from(heap.live), u64::from(heap.capacity));
        let (low, high) = (live / 24 + capacity, live / 12 + 2 * capacity);
        let slack = heap.fronted - live;
        if slack > high { (slack - low).saturating_sub(sealed) } else { 0 }
    }

    fn interior_heaps() -> impl Iterator<Item = usize> {
        (1..HEAPS).step_by(2)
    }

    /// Bytes that a sweep would give back now.
    pub(crate) fn sparse_bytes(&self) -> u64 {
        Chunks::interior_heaps().map(|heap| self.sparse_chunks(heap) * u64::from(self.heaps[heap].bytes)).sum()
    }

    /// Whether a sweep gives back enough for the walk that it takes.
    pub(crate) fn worth_sweeping(&self) -> bool {
        let live = |heap: usize| u64::from(self.heaps[heap].live) * u64::from(self.heaps[heap].bytes);
        let live_bytes: u64 = Chunks::interior_heaps().map(live).sum();
        let sparse_bytes = self.sparse_bytes();
        sparse_bytes >= WORTH_SPANS * SPAN_BYTES as u64 && sparse_bytes >= live_bytes / WORTH_DIVISOR
    }

    /// Bytes of the chunks that sealed spans have, free ones too.
    pub(crate) fn sealed_bytes(&self) -> u64 {
        let fronted = self.sealed.fronted.iter().zip(Chunks::interior_heaps());
        fronted.map(|(&chunks, heap)| chunks * u64::from(self.heaps[heap].bytes)).sum()
    }

    /// Seals up to `budget` spans, the emptiest of each heap first. True: there are more.
    pub(crate) fn seal_sparse(&mut self, budget: usize) -> bool {
        self.sealed.fronted.resize(CLASSES, 0);
        self.sealed.heap |= 1;
        let mut left = budget;
        while self.sealed.heap < HEAPS {
            if left == 0 {
                return true;
            }
            left -= 1;
            if !self.seal_one(self.sealed.heap) {
                self.sealed.heap += 2;
            }
        }
        self.sealed.heap = 0;
        false
    }

    /// Seals the emptiest span of a heap; false if there is none to seal.
    fn seal_one(&mut self, heap: usize) -> bool {
        let sparse = self.sparse_chunks(heap);
        if sparse == 0 || self.heaps[heap].evacuating == u16::MAX {
            return false;
        }
        let Some(bin) = (0..CRUMBS).find(|&bin| !self.bins[heap][bin].is_empty()) else { return false };
        let span = self.bins[heap][bin].head;
        if u64::from(self.metas[span as usize].frontier) > sparse {
            return false;
        }
        self.bins[heap][bin].remove(&mut self.metas, span);
        self.enlist_sealed(span);
        true
    }

    /// A span that has chunks, and is in no list, becomes a sealed one.
    fn enlist_sealed(&mut self, span: u32) {
        let meta = &mut self.metas[span as usize];
        let (heap, frontier) = (usize::from(meta.heap), meta.frontier);
        // The free of its last chunk files it.
        (meta.state, meta.live_low) = (State::Swept, 1);
        self.sealed.spans.push_front(&mut self.metas, span);
        self.sealed.fronted[heap / 2] += u64::from(frontier);
        self.heaps[heap].evacuating += 1;
    }

    /// Seals all spans of interior chunks.
    pub(crate) fn seal_all(&mut self) {
        self.sealed.fronted.resize(CLASSES, 0);
        for heap in Chunks::interior_heaps().filter(|&heap| self.heaps[heap].span != 0).collect::<Vec<_>>() {
            self.retire(heap);
        }
        for span in 1..u32::try_from(self.metas.len()).expect("at most 2^19 spans") {
            let SpanMeta { heap, state, bin, .. } = self.metas[span as usize];
            let heap = usize::from(heap);
            match state {
                _ if heap % 2 == 0 => continue,
                State::Listed => self.bins[heap][usize::from(bin)].remove(&mut self.metas, span),
                State::Full => {}
                _ => continue,
            }
            self.enlist_sealed(span);
        }
    }

    /// Takes a sealed span out of the list; its state is the caller's to set.
    pub(crate) fn unlist_sealed(&mut self, span: u32) {
        self.sealed.spans.remove(&mut self.metas, span);
        let meta = &self.metas[span as usize];
        let heap = usize::from(meta.heap);
        self.sealed.fronted[heap / 2] -= u64::from(meta.frontier);
        self.heaps[heap].evacuating -= 1;
    }

    /// Whether a chunk lies in a sealed span; any bits are allowed.
    #[inline(always)]
    pub(crate) fn is_sealed(&self, handle: Handle) -> bool {
        let span = (handle.bits() >> SPAN_UNITS_LOG2) as usize;
        span < self.metas.len() && self.metas[span].state == State::Swept
    }

    /// Unseals up to `budget` spans, whose chunks could not be moved. True: there are more.
    pub(crate) fn unseal(&mut self, budget: usize) -> bool {
        for _ in 0..budget {
            let span = self.sealed.spans.head;
            if span == 0 {
                break;
            }
            let heap = usize::from(self.metas[span as usize].heap);
            self.file(span);
            let SpanMeta { state, bin, .. } = self.metas[span as usize];
            if state == State::Listed {
                // Behind the others of its bin, so that the next sweep takes those.
                let bin = usize::from(bin);
                self.bins[heap][bin].remove(&mut self.metas, span);
                self.bins[heap][bin].push_back(&mut self.metas, span);
            }
        }
        !self.sealed.spans.is_empty()
    }
}
