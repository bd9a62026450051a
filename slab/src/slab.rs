//! [`Slab`]: the public face over chunks and blobs.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::blobs::Blobs;
use crate::body::{self, BlobRef};
use crate::chunks::Chunks;
use crate::class::{self, CHUNK_BYTES_MAX};

use crate::error::AllocError;
use crate::evacuate::Victim;
use crate::handle::{BlobId, Handle, Kind};
use crate::peek::Peek;
use crate::region::PAGE_BYTES;
use crate::release::Clock;
use crate::stats::{self, BlobStats, ClassStats};

/// Sizes and times of a [`Slab`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Address space for chunks in bytes, at most 32 GiB. Halved until the system grants it.
    pub reserve_bytes: usize,
    /// Address space for blobs in bytes. Halved until the system grants it.
    pub blob_reserve_bytes: usize,
    /// How long memory without live data stays resident, for reuse without a system call, before [`Slab::release`] gives it back.
    pub decay_ms: u32,
    /// Huge pages for chunks beyond the first 4 MiB, faulted in ahead of use by a thread of the crate's own. It costs up to 2.5 MiB of memory
    /// in all, and spares large heaps most TLB misses.
    pub huge_pages: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { reserve_bytes: 32 << 30, blob_reserve_bytes: 1 << 40, decay_ms: 1000, huge_pages: true }
    }
}

/// The allocator of one shard: chunks up to 16 KiB by handle, blobs above.
///
/// One owner at a time (`&mut self` to change anything); it may move between threads.
pub struct Slab {
    chunks: Chunks,
    blobs: Blobs,
    clock: Clock,
    decay_ms: u32,
}

impl Slab {
    /// Reserves address space; commits next to nothing.
    ///
    /// # Errors
    /// When not even a small part of the address space can be reserved.
    pub fn new(config: Config) -> io::Result<Slab> {
        Ok(Slab {
            chunks: Chunks::new(config.reserve_bytes, config.huge_pages)?,
            blobs: Blobs::new(config.blob_reserve_bytes)?,
            clock: Clock::default(),
            decay_ms: config.decay_ms,
        })
    }

    /// Bytes that a request of `bytes` (1 to [`CHUNK_BYTES_MAX`]) really takes.
    #[inline]
    pub const fn class_bytes(bytes: usize) -> usize {
        class::bytes(class::of(bytes).index())
    }

    /// A chunk of at least `bytes` (1 to [`CHUNK_BYTES_MAX`]), uninitialised. Chunks are aligned to 8 bytes, and to 64 when their class size
    /// is a multiple of 64.
    ///
    /// # Errors
    /// When the address space or the system's memory is used up, or `bytes` exceeds [`CHUNK_BYTES_MAX`].
    #[inline]
    pub fn alloc(&mut self, bytes: usize, kind: Kind) -> Result<Handle, AllocError> {
        if bytes <= CHUNK_BYTES_MAX
            && let Some(handle) = self.chunks.alloc(class::of(bytes), kind)
        {
            Ok(handle)
        } else {
            Err(AllocError { requested_bytes: bytes })
        }
    }

    /// Frees a chunk. `bytes` is the size it was asked for, or any size of the same class.
    ///
    /// # Panics
    /// When no chunk is live there: a double free is detected as long as the chunk was not handed out again.
    ///
    /// # Safety
    /// `handle` came from [`Slab::alloc`] of this slab, was not freed since, and nobody uses its memory afterwards.
    #[inline]
    pub unsafe fn free(&mut self, handle: Handle, bytes: usize) {
        debug_assert_eq!(
            Slab::class_bytes(bytes),
            self.chunks.chunk_bytes(handle),
            "freed with a size of another class"
        );
        // SAFETY: the caller's promise.
        unsafe { self.chunks.free_scribbled(handle) }
    }

    /// Address of a chunk. Always inside the region for a handle from [`Slab::alloc`]; never unmapped while the slab lives.
    #[inline(always)]
    pub fn ptr(&self, handle: Handle) -> NonNull<u8> {
        self.chunks.ptr(handle)
    }

    /// For looking at chunks from threads that do not own the slab, see [`Peek`].
    pub fn peek(&mut self) -> Arc<Peek> {
        self.chunks.peek()
    }

    /// Asks the CPU to fetch the first cache line of a chunk. A hint: any handle, even a stale one, is allowed.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch does not fault, whatever the address; SSE is part of x86_64.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.chunks.ptr(handle).as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = handle;
    }
}

/// Figures, release and evacuation.
impl Slab {
    /// Bytes of live chunks and blobs (class sizes), exact.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.chunks.used_bytes + self.blobs.extents.used_bytes
    }

    /// The classes that own memory, with their occupation. Costs a pass over the classes, whatever the number of chunks.
    pub fn class_stats(&self) -> impl Iterator<Item = ClassStats> + '_ {
        stats::classes(&self.chunks)
    }

    /// Bytes of data pages that may be resident: touched since they were last released. Metadata is in [`Slab::overhead_bytes`].
    pub fn resident_estimate_bytes(&self) -> u64 {
        (self.chunks.resident_pages + self.blobs.extents.resident_pages) * PAGE_BYTES as u64
            + self.chunks.ahead_bytes() as u64
    }

    /// Bytes of the allocator's own records.
    pub fn overhead_bytes(&self) -> u64 {
        (size_of::<Slab>() + self.chunks.overhead_bytes() + self.blobs.overhead_bytes()) as u64
    }

    /// Gives memory back that held no live data for the configured decay, in a slice of at most `budget_spans` times 64 KiB (a few
    /// microseconds each). True: more is due now. Call it about ten times a second; it also is the slab's only source of time.
    pub fn release(&mut self, now_ms: u64, budget_spans: usize) -> bool {
        let now_ms = self.clock.tick(now_ms);
        let mut budget_spans = budget_spans;
        let chunks_due = self.chunks.release(now_ms, self.decay_ms, &mut budget_spans);
        let blobs_due = self.blobs.release_pages(now_ms, self.decay_ms, &mut budget_spans);
        chunks_due || blobs_due
    }

    /// Gives all memory without live data back, whether its decay has passed or not; otherwise as [`Slab::release`]. True: there is more.
    pub fn purge(&mut self, now_ms: u64, budget_spans: usize) -> bool {
        let now_ms = self.clock.tick(now_ms);
        let mut budget_spans = budget_spans;
        self.chunks.retire_all_idle();
        let chunks_due = self.chunks.release(now_ms, 0, &mut budget_spans);
        let blobs_due = self.blobs.release_pages(now_ms, 0, &mut budget_spans);
        chunks_due || blobs_due
    }

    /// Bytes that evacuating items would give back now. 0 until it is worth beginning; see [`Slab::pick_victim`].
    pub fn fragmented_bytes(&self) -> u64 {
        self.chunks.fragmented_bytes()
    }

    /// Seals a span of items whose chunks fit in the free room of others, the emptiest first; `None` when none is worth the copying.
    /// The caller moves what [`Slab::next_live`] lists (allocate with [`Kind::Item`], copy, store the new handle, free the old one), in
    /// as many slices as it likes, and then calls [`Slab::finish`].
    pub fn pick_victim(&mut self) -> Option<Victim> {
        self.chunks.pick_victim()
    }

    /// The next live chunk of a victim, with its size in bytes. A chunk left where it is (its owner refuses) is not listed again.
    pub fn next_live(&self, victim: &mut Victim) -> Option<(Handle, usize)> {
        self.chunks.next_live(victim)
    }

    /// Ends an evacuation: an emptied span awaits release, any other takes allocations again.
    pub fn finish(&mut self, victim: Victim) {
        self.chunks.finish(victim);
    }
}

/// Blobs: values above [`CHUNK_BYTES_MAX`] (smaller ones are allowed, but waste most of a 16 KiB extent).
///
/// All methods that take an id panic when it is not live.
impl Slab {
    /// A blob of length 0, whose owner is the caller. Memory is taken as it is written; `len_hint` bytes are expected (0: unknown).
    ///
    /// # Errors
    /// When the address space or the system's memory is used up.
    pub fn blob_new(&mut self, len_hint: usize) -> Result<BlobId, AllocError> {
        self.blobs.create(len_hint)
    }

    /// Length in bytes.
    #[inline]
    pub fn blob_len(&self, id: BlobId) -> usize {
        usize::try_from(self.blobs.len(id)).expect("blobs are shorter than the address space")
    }

    /// Bytes of memory that the blob holds, room for growth and index included, and what it shares with duplicates; a pinned one only
    /// those that the blob has not any more.
    pub fn blob_bytes(&self, id: BlobId) -> u64 {
        self.blobs.held_bytes(id)
    }

    /// The room that follows the last byte: never empty, ends with the segment at the latest. What was written to it becomes part of
    /// the blob by [`Slab::blob_advance`]. It holds zeros or bytes of freed blobs. Write nothing that you do not advance over: what lies behind
    /// is taken for untouched.
    ///
    /// # Errors
    /// When memory for more room cannot be had.
    pub fn blob_spare(&mut self, id: BlobId) -> Result<&mut [u8], AllocError> {
        self.blobs.spare(id, 1)
    }

    /// Appends the first `n` bytes of the spare room.
    ///
    /// # Panics
    /// When there is less room.
    pub fn blob_advance(&mut self, id: BlobId, n: usize) {
        self.blobs.advance(id, n);
    }

    /// Appends bytes, all or none.
    ///
    /// # Errors
    /// When memory cannot be had; the blob is as it was.
    pub fn blob_append(&mut self, id: BlobId, bytes: &[u8]) -> Result<(), AllocError> {
        self.blobs.append(id, bytes)
    }

    /// Puts bytes at a place that may reach or lie beyond the end; zeros fill what is between ([`Slab::blob_extend_zeros`]). What a
    /// [`BlobRef`] can see is copied first.
    ///
    /// # Errors
    /// When memory cannot be had; the blob is as it was.
    pub fn blob_write(&mut self, id: BlobId, offset: usize, bytes: &[u8]) -> Result<(), AllocError> {
        self.blobs.write(id, offset, bytes)
    }

    /// A blob of the same bytes, whose owner is the caller; they share the memory until one of them is written, but for a last extent that has room
    /// (256 KiB at most).
    ///
    /// # Errors
    /// When memory for that and its records cannot be had.
    pub fn blob_duplicate(&mut self, id: BlobId) -> Result<BlobId, AllocError> {
        self.blobs.duplicate(id)
    }

    /// Grows the blob to `len` bytes with zeros, all or nothing; longer ones stay as they are. Whole segments of zeros take 4 bytes each until
    /// they are written to, and no time to speak of.
    ///
    /// # Errors
    /// When memory cannot be had; the blob is as it was.
    pub fn blob_extend_zeros(&mut self, id: BlobId, len: usize) -> Result<(), AllocError> {
        self.blobs.extend_zeros(id, len as u64)
    }

    /// Number of segments: contiguous parts of [`SEGMENT_BYTES`](crate::SEGMENT_BYTES), the last one shorter.
    pub fn blob_segments(&self, id: BlobId) -> usize {
        body::segments(self.blobs.len(id))
    }

    /// Segment `index`: the bytes from `index * SEGMENT_BYTES`.
    ///
    /// # Panics
    /// When `index` is not below [`Slab::blob_segments`].
    #[inline]
    pub fn blob_segment(&self, id: BlobId, index: usize) -> &[u8] {
        self.blobs.segment(id, index)
    }

    /// Another id for the present contents, in time that does not depend on their length: it shares all memory with the blob until that is
    /// written to. What it names can be read, referred to and released, and never changes.
    ///
    /// # Errors
    /// When memory for the records cannot be had; nothing has changed.
    pub fn blob_pin(&mut self, id: BlobId) -> Result<BlobId, AllocError> {
        self.blobs.pin(id)
    }

    /// Overwrites bytes inside the blob's length. What a [`BlobRef`] or a pin can see is copied first: at most the extents (256 KiB) written to,
    /// and some KiB of index.
    ///
    /// # Errors
    /// When memory for the copy cannot be had; the contents are as they were.
    ///
    /// # Panics
    /// When the bytes would reach beyond the end, or the id is pinned ([`Slab::blob_pin`]).
    pub fn blob_write_at(&mut self, id: BlobId, offset: usize, bytes: &[u8]) -> Result<(), AllocError> {
        self.blobs.write_at(id, offset, bytes)
    }

    /// Drops the owner's reference; the id is dead. When no [`BlobRef`] is left the memory is freed: at once up to 1 MiB, by
    /// [`Slab::drain_frees`] above.
    pub fn blob_release(&mut self, id: BlobId) {
        self.blobs.release(id);
    }

    /// A reference to the present contents, for other threads and later times.
    pub fn blob_ref(&self, id: BlobId) -> BlobRef {
        self.blobs.reference(id)
    }

    /// Frees up to `budget_extents` (256 KiB each) of huge blobs released and of blobs whose last [`BlobRef`] is gone. True: there is more.
    pub fn drain_frees(&mut self, budget_extents: usize) -> bool {
        self.blobs.drain(budget_extents)
    }

    /// Does `drain_frees` have something to do that the owner released (rather than the last reader)?
    #[inline]
    pub fn has_frees(&self) -> bool {
        self.blobs.has_pending()
    }

    /// Figures about all blobs.
    pub fn blob_stats(&self) -> BlobStats {
        BlobStats {
            blobs: self.blobs.count,
            used_bytes: self.blobs.extents.used_bytes,
            kept_bytes: self.blobs.kept_bytes(),
            resident_bytes: self.blobs.extents.resident_pages * PAGE_BYTES as u64,
        }
    }
}
