//! Figures about a slab, for INFO, limits and the decision to evacuate. Reads the counters that the allocator keeps; changes nothing.

use crate::chunks::{Chunks, HEAPS, kind_of};
use crate::handle::Kind;

/// One size class of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassStats {
    /// Chunk size.
    pub class_bytes: usize,
    /// Whose chunks.
    pub kind: Kind,
    /// Spans of 64 KiB that the class owns.
    pub spans: usize,
    /// Chunks handed out.
    pub live_chunks: usize,
    /// Chunks that its spans could still hand out, those in pages never touched included.
    pub free_chunks: usize,
}

/// The classes that own a span.
pub(crate) fn classes(chunks: &Chunks) -> impl Iterator<Item = ClassStats> + '_ {
    (0..HEAPS).filter(|&heap| chunks.heaps[heap].spans > 0).map(|index| {
        let heap = &chunks.heaps[index];
        let (spans, live_chunks) = (heap.spans as usize, heap.live as usize);
        ClassStats {
            class_bytes: heap.bytes as usize,
            kind: kind_of(index),
            spans,
            live_chunks,
            free_chunks: spans * heap.capacity as usize - live_chunks,
        }
    })
}
