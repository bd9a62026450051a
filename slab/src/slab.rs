//! [`Slab`]: the public face over chunks and blobs.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use crate::chunks::{self, Chunks};
use crate::class::{self, CHUNK_BYTES_MAX};
use crate::handle::{Handle, Kind};
use crate::region::PAGE_BYTES;
use crate::stats::{self, ClassStats};

/// Sizes and times of a [`Slab`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Address space for chunks in bytes, at most 32 GiB. Halved until the system grants it.
    pub reserve_bytes: usize,
    /// Address space for blobs in bytes. Halved until the system grants it.
    pub blob_reserve_bytes: usize,
    /// How long memory without live data stays resident, for reuse without a system call, before [`Slab::release`] gives it back.
    pub decay_ms: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { reserve_bytes: 32 << 30, blob_reserve_bytes: 1 << 40, decay_ms: 1000 }
    }
}

/// Out of memory or of reserved address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocError {
    /// Size of the request that failed.
    pub requested_bytes: usize,
}

impl std::fmt::Display for AllocError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no room for {} bytes", self.requested_bytes)
    }
}

impl std::error::Error for AllocError {}

/// The allocator of one shard: chunks up to 16 KiB by handle, blobs above.
///
/// One owner at a time (`&mut self` to change anything); it may move between threads.
pub struct Slab {
    pub(crate) chunks: Chunks,
}

impl Slab {
    /// Reserves address space; commits next to nothing.
    ///
    /// # Errors
    /// When not even a small part of the address space can be reserved.
    pub fn new(config: Config) -> io::Result<Slab> {
        Ok(Slab { chunks: Chunks::new(config.reserve_bytes)? })
    }

    /// Bytes that a request of `bytes` (1 to [`CHUNK_BYTES_MAX`]) really takes.
    #[inline]
    pub const fn class_bytes(bytes: usize) -> usize {
        class::bytes(class::of(bytes))
    }

    /// A chunk of at least `bytes` (1 to [`CHUNK_BYTES_MAX`]), uninitialised. Chunks are aligned to 8 bytes, and to 64 when their class size
    /// is a multiple of 64.
    ///
    /// # Errors
    /// When the address space or the system's memory is used up, or `bytes` exceeds [`CHUNK_BYTES_MAX`].
    #[inline]
    pub fn alloc(&mut self, bytes: usize, kind: Kind) -> Result<Handle, AllocError> {
        if bytes <= CHUNK_BYTES_MAX
            && let Some(handle) = self.chunks.alloc(chunks::heap_of(class::of(bytes), kind))
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

    /// Bytes of live chunks and blobs (class sizes), exact.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.chunks.used_bytes
    }

    /// The classes that own memory, with their occupation. Costs a pass over the classes, whatever the number of chunks.
    pub fn class_stats(&self) -> impl Iterator<Item = ClassStats> + '_ {
        stats::classes(&self.chunks)
    }

    /// Bytes of data pages that may be resident: touched since they were last released. Metadata is in [`Slab::overhead_bytes`].
    pub fn resident_estimate_bytes(&self) -> u64 {
        self.chunks.resident_pages * PAGE_BYTES as u64
    }

    /// Bytes of the allocator's own records.
    pub fn overhead_bytes(&self) -> u64 {
        (size_of::<Slab>() + self.chunks.overhead_bytes()) as u64
    }
}
