//! Open addressing in cache-line buckets, segments that grow by themselves. Owns placement only: it knows handles and 64-bit hashes,
//! never keys, values or expiry.
use dolmen_slab::{AllocError, Handle, Slab};

/// What a table must know of the entries its handles point to.
pub trait Entries {
    /// The full hash of the entry at `h`.
    fn hash(&self, slab: &Slab, h: Handle) -> u64;
}
#[allow(unused)]
fn _uses(_: AllocError) {}
