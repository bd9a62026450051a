//! Metadata of spans: 64 KiB pieces of the chunk region, each serving one class and kind at a time.
//!
//! Owns the out-of-line records. Must not know policy: when a span is taken, retired, released
//! or evacuated is decided by `chunks`, `release` and `evacuate`.
//!
//! ```text
//! offset in the chunk region
//! 0        64 KiB        128 KiB
//! ├─────────┼─────────────┼─────────────┼──
//! │ span 0  │ span 1      │ span 2      │       span 0 is never used, so that handle 0 and span number 0 mean "none"
//! └─────────┴─────────────┴─────────────┴──
//!
//! live bits: bit i % 64 of word i / 64 is chunk i (address order); 1 = handed out. The first 32 words of all spans lie together, and the
//! last 32 apart from them (`live_high` of `chunks`): only spans of chunks below 32 bytes have such, for the others those are pages never touched.
//! ```

use crate::class;
use crate::list::Links;
use crate::region::{PAGE_BYTES, Table};

/// Size of a span in bytes.
pub(crate) const SPAN_BYTES: usize = 64 << 10;
/// Size of a span in units of a handle; a power of two.
pub(crate) const SPAN_UNITS: u32 = 1 << SPAN_UNITS_LOG2;
pub(crate) const SPAN_UNITS_LOG2: u32 = 13;
/// Words of live bits a span, and those of the first half.
pub(crate) const BITMAP_WORDS: usize = 64;
pub(crate) const LOW_WORDS: usize = BITMAP_WORDS / 2;
/// Most chunks a span holds.
pub(crate) const SPAN_CHUNKS_MAX: usize = BITMAP_WORDS * 64;

const _: () = assert!(SPAN_UNITS as usize * class::UNIT_BYTES == SPAN_BYTES);
const _: () = assert!(SPAN_BYTES / PAGE_BYTES <= u8::MAX as usize);
const _: () = assert!(SPAN_CHUNKS_MAX * class::bytes(0) == SPAN_BYTES, "all of a span is used");

/// Where a span is in its life.
///
/// ```text
///                 ┌────────── emptied ◄──────────────┐
///   Clean ──► Active ──► Full ──► Listed ──► Sealed ──┤    or Swept
///     ▲          ▲  ◄──────────────┘                  │
///     │          └─────────── Empty ◄─────────────────┘
///     └──── released ───────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// Never used, or released: no resident page. In the clean list once it was used.
    Clean = 0,
    /// No live chunk, pages still resident; in the list of empty spans.
    Empty,
    /// Serves allocations of its heap; in no list.
    Active,
    /// Every chunk live; in no list.
    Full,
    /// Some chunks live; in the bin of its heap named by `bin`.
    Listed,
    /// Being evacuated: no allocation lands in it; in no list.
    Sealed,
    /// The same by a sweep: in the list of sealed spans.
    Swept,
}

/// One span.
///
/// ```text
///  0        2          4          6          8       9       10        11    12               16
/// ┌────────┬──────────┬──────────┬──────────┬───────┬───────┬─────────┬─────┬────────────────┐
/// │ live   │ live_low │ frontier │ capacity │ heap  │ state │ touched │ bin │ stamp_ms       │
/// ├────────┴──────────┼──────────┴──────────┼───────┴───────┼─────────┴─────┴────────────────┤ 32
/// │ prev              │ next                │ stuck         │ 6 spare                        │
/// └───────────────────┴─────────────────────┴───────────────┴────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SpanMeta {
    /// Live chunks = set live bits.
    pub(crate) live: u16,
    /// A free that brings `live` below this must file the span anew. 0: never (active and sealed spans).
    pub(crate) live_low: u16,
    /// Chunks below this index may be handed out; those above were not touched since the span was clean.
    pub(crate) frontier: u16,
    /// Chunks it holds in its class.
    pub(crate) capacity: u16,
    /// Heap (class and kind) that it serves.
    pub(crate) heap: u8,
    pub(crate) state: State,
    /// Pages from the start that may be resident.
    pub(crate) touched_pages: u8,
    /// Bin it is listed in.
    pub(crate) bin: u8,
    /// When it became empty (slab clock).
    pub(crate) stamp_ms: u32,
    /// Neighbours in the list it is in; 0 = none.
    pub(crate) prev: u32,
    pub(crate) next: u32,
    /// Live chunks that an evacuation failed to move, 0 if none was tried since.
    pub(crate) stuck: u16,
    spare: [u16; 3],
}

const _: () = assert!(size_of::<SpanMeta>() == 32 && align_of::<SpanMeta>() == 4);

impl Links for Table<SpanMeta> {
    fn links(&mut self, span: u32) -> (&mut u32, &mut u32) {
        let meta = &mut self[span as usize];
        (&mut meta.prev, &mut meta.next)
    }
}

/// Bits of a word of live bits whose chunks lie below `frontier`.
#[inline]
pub(crate) fn frontier_mask(frontier: usize, word: usize) -> u64 {
    match frontier.saturating_sub(word * 64) {
        0 => 0,
        below @ 1..=63 => (1 << below) - 1,
        _ => u64::MAX,
    }
}

/// Pages that the first `bytes` of a span occupy.
pub(crate) fn pages(bytes: usize) -> u8 {
    u8::try_from(bytes.div_ceil(PAGE_BYTES)).expect("a span has 16 pages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_exactly_the_chunks_below_the_frontier() {
        for frontier in 0..=SPAN_CHUNKS_MAX {
            let covered: u32 = (0..BITMAP_WORDS).map(|word| frontier_mask(frontier, word).count_ones()).sum();
            assert_eq!(covered as usize, frontier);
        }
    }
}
