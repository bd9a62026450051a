//! Giving memory back: spans without live chunks whose decay has passed.
//!
//! Must not know wall-clock time: the caller brings it, so that tests and the simulation decide what time it is.

use crate::chunks::{Chunks, HEAPS};

/// Idle active spans looked for a call; all heaps have had their turn after ten calls.
const HEAPS_CHECKED: usize = HEAPS.div_ceil(10);

/// The slab's clock: milliseconds since the first call of `release`, in 32 bits; differences are taken modulo 2^32.
#[derive(Default)]
pub(crate) struct Clock {
    origin_ms: Option<u64>,
}

impl Clock {
    /// The slab's time for the caller's time. What became free before the first call counts as freed at that call.
    pub(crate) fn tick(&mut self, now_ms: u64) -> u32 {
        let origin_ms = *self.origin_ms.get_or_insert(now_ms);
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32, as documented")]
        {
            now_ms.saturating_sub(origin_ms) as u32
        }
    }
}

/// Whether something stamped `stamp_ms` has decayed at `now_ms`.
#[inline]
pub(crate) fn is_due(now_ms: u32, stamp_ms: u32, decay_ms: u32) -> bool {
    now_ms.wrapping_sub(stamp_ms) >= decay_ms
}

impl Chunks {
    /// Releases spans that have been empty for `decay_ms`, oldest first, while the budget (in spans) lasts. True: more is due.
    pub(crate) fn release(&mut self, now_ms: u32, decay_ms: u32, budget_spans: &mut usize) -> bool {
        self.now_ms = now_ms;
        self.retire_idle();
        self.release_ahead(decay_ms);
        loop {
            let span = self.empty.tail;
            if span == 0 || !is_due(now_ms, self.metas[span as usize].stamp_ms, decay_ms) {
                return false;
            }
            if *budget_spans == 0 {
                return true;
            }
            *budget_spans -= 1;
            self.empty.remove(&mut self.metas, span);
            self.discard(span);
        }
    }

    /// Active spans without a live chunk join the empty ones, or every class ever used would keep one.
    fn retire_idle(&mut self) {
        self.retire_idle_of(HEAPS_CHECKED);
    }

    /// The same for those of all classes at once.
    pub(crate) fn retire_all_idle(&mut self) {
        self.retire_idle_of(HEAPS);
    }

    fn retire_idle_of(&mut self, heaps: usize) {
        for _ in 0..heaps {
            let heap = self.idle_heap;
            self.idle_heap = (heap + 1) % HEAPS;
            let span = self.heaps[heap].span;
            if span != 0 && self.metas[span as usize].live == 0 {
                self.retire(heap);
            }
        }
    }
}
