//! The memory of one shard: a slab allocator with 32-bit handles, counted blobs, decayed release and evacuation.
//!
//! Made for caches and in-memory databases, where millions of small values of changing sizes live behind a compact index:
//!
//! - **Chunks** of 16 bytes to [`CHUNK_BYTES_MAX`] are named by a [`Handle`] of 32 bits. Size classes are 8 bytes apart up to 256, then an
//!   eighth of a doubling. [`Slab::alloc`] and [`Slab::free`] take a few dozen instructions; nothing is stored beside or inside a chunk.
//! - **Blobs** are larger values in page-multiple extents: appended to in place (a socket can receive into [`Slab::blob_spare`]),
//!   overwritten in place, and read by [`BlobRef`]s on any thread, which keep seeing what they saw when they were made.
//! - **Memory goes back.** Spans and extents without live data are reused hot first, and released once they have been idle
//!   ([`Slab::release`]). Sparse spans are emptied by their owner's help ([`Slab::pick_victim`], [`Slab::seal_sparse`]).
//! - **Figures are exact.** [`Slab::used_bytes`] is kept incrementally; [`Slab::resident_estimate_bytes`] follows the pages touched.
//! - A double free panics instead of corrupting.
//!
//! Address space is reserved once (32 GiB for chunks, 1 TiB for blobs by default; less if the system grants less), committed on use, and
//! stays mapped while the slab lives, so that a prefetch through a stale handle is harmless. There is no global state. All
//! work, the deferred too, is done inside calls, in slices that the caller sizes; but for huge pages, which a thread of the slab's own faults
//! in ahead of use ([`Config::huge_pages`]).
//!
//! # Example
//!
//! ```
//! use dolmen_slab::{Config, Kind, Slab};
//!
//! let mut slab = Slab::new(Config::default())?;
//!
//! // A chunk.
//! let text = b"a small value";
//! let handle = slab.alloc(text.len(), Kind::Item)?;
//! // SAFETY: the chunk has at least that many bytes, and nobody else uses it.
//! unsafe { slab.ptr(handle).as_ptr().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
//! assert_eq!(slab.used_bytes(), 16);
//! // SAFETY: allocated above, not used again.
//! unsafe { slab.free(handle, text.len()) };
//!
//! // A blob, read by another thread while its owner changes it.
//! let blob = slab.blob_new(100_000)?;
//! slab.blob_append(blob, &[b'a'; 100_000])?;
//! let reply = slab.blob_ref(blob);
//! let reader = std::thread::spawn(move || reply.segment(0)[0]);
//! slab.blob_write_at(blob, 0, b"changed")?;
//! assert_eq!(reader.join().unwrap(), b'a');
//! assert_eq!(&slab.blob_segment(blob, 0)[..8], b"changeda");
//! slab.blob_release(blob);
//! while slab.drain_frees(16) {}
//! assert_eq!(slab.used_bytes(), 0);
//!
//! // Time is the caller's: idle memory goes back to the system.
//! for now_ms in (0..5000).step_by(100) {
//!     while slab.release(now_ms, 16) {}
//! }
//! assert_eq!(slab.resident_estimate_bytes(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Evacuation
//!
//! The slab knows which spans are sparse, the caller knows who holds the handles. Together:
//!
//! ```
//! # use dolmen_slab::{Config, Kind, Slab};
//! # let mut slab = Slab::new(Config::default())?;
//! # let mut index: Vec<_> = (0..20_000u64)
//! #     .map(|key| {
//! #         let handle = slab.alloc(32, Kind::Item).unwrap();
//! #         // SAFETY: 32 bytes, aligned to 8.
//! #         unsafe { slab.ptr(handle).cast::<u64>().write(key) };
//! #         Some(handle)
//! #     })
//! #     .collect();
//! # for key in (0..20_000).filter(|key| key % 10 != 0) {
//! #     // SAFETY: live, taken out of the index.
//! #     unsafe { slab.free(index[key].take().unwrap(), 32) };
//! # }
//! // `index` maps a key to a handle, and a chunk begins with its key.
//! while let Some(mut victim) = slab.pick_victim() {
//!     while let Some((old, bytes)) = slab.next_live(&mut victim) {
//!         let new = slab.alloc(bytes, Kind::Item)?;
//!         // SAFETY: both are live chunks of `bytes`; the old one is forgotten with the assignment.
//!         unsafe {
//!             slab.ptr(old).copy_to_nonoverlapping(slab.ptr(new), bytes);
//!             let key = slab.ptr(new).cast::<u64>().read();
//!             index[usize::try_from(key)?] = Some(new);
//!             slab.free(old, bytes);
//!         }
//!     }
//!     slab.finish(victim);
//! }
//! assert_eq!(slab.fragmented_bytes(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is built
//!
//! ```text
//! slab      the public face
//! chunks    heaps: alloc, free ─┐          blobs     ids, growth, copy-on-write, deferred frees
//! evacuate  victims             ├─ span    body      versions of contents, BlobRef
//! sweep     sealed spans        │
//! release   decay, clock       ─┘  class   extents   classes of pages, reuse, release
//! region    reserve, commit, discard       list    links by number           poison  for AddressSanitizer
//! ahead     huge pages, faulted in by a thread before they are used
//! ```
//!
//! Debug builds overwrite chunks when they are handed out and when they are freed, so that uses of uninitialised or stale memory show; under
//! AddressSanitizer free memory is poisoned, so that they are reported.

mod ahead;
mod blobs;
mod body;
mod chunks;
mod class;
mod error;
mod evacuate;
mod extents;
mod handle;
mod list;
mod peek;
mod poison;
mod region;
mod release;
mod slab;
mod span;
mod stats;
mod sweep;

pub use body::{BlobRef, SEGMENT_BYTES};
pub use class::CHUNK_BYTES_MAX;
pub use error::AllocError;
pub use evacuate::Victim;
pub use handle::{BlobId, Handle, Kind};
pub use peek::Peek;
pub use slab::{Config, Slab};
pub use stats::{BlobStats, ClassStats};
pub use sweep::Slice;
