//! The memory of one shard. (crate docs follow)

mod chunks;
mod class;
mod handle;
mod region;
mod span;

pub use class::CHUNK_BYTES_MAX;
pub use handle::{BlobId, Handle, Kind};

mod slab;
mod stats;

pub use slab::{AllocError, Config, Slab};
pub use stats::ClassStats;
