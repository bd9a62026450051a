//! The memory of one shard. (crate docs follow)

mod blobs;
mod body;
mod chunks;
mod class;
mod error;
mod evacuate;
mod extents;
mod handle;
mod list;
mod region;
mod release;
mod slab;
mod span;
mod stats;

pub use body::{BlobRef, SEGMENT_BYTES};
pub use class::CHUNK_BYTES_MAX;
pub use error::AllocError;
pub use evacuate::Victim;
pub use handle::{BlobId, Handle, Kind};
pub use slab::{Config, Slab};
pub use stats::{BlobStats, ClassStats};
