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
    /// Chunks, live and free, that lie in pages touched since these were last released.
    pub resident_chunks: u64,
}

/// Blobs as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobStats {
    /// Live ids.
    pub blobs: u64,
    /// Bytes of extents in use: by live blobs, by readers of older contents, and by what awaits [`Slab::drain_frees`](crate::Slab::drain_frees).
    pub used_bytes: u64,
    /// The part of `used_bytes` that no blob uses as it is now: what readers and pins keep, and what awaits being freed.
    pub kept_bytes: u64,
    /// Bytes of pages that may be resident, those of free extents included.
    pub resident_bytes: u64,
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
            free_chunks: spans * usize::from(heap.capacity) - live_chunks,
            resident_chunks: heap.fronted,
        }
    })
}
