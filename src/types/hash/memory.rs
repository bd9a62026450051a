//! The chunks of a hash: elements, and pages of the index of deadlines. Owns every access to their memory, so that all else in this folder is
//! safe code.
//!
//! A handle that is passed in here came from [`alloc`] of the same slab and was not [`free`]d since: those in the table of a hash and
//! in what its views keep, and those of its index, are. The length passed in is at most the one it was allocated with, rounded up to 8.
#![allow(unsafe_code)]

use dolmen_slab::{AllocError, Handle, Kind, Slab, Slice};

/// A chunk of `bytes` zeros.
///
/// # Errors
/// The slab is full.
#[inline]
pub(super) fn alloc(slab: &mut Slab, bytes: usize) -> Result<Handle, AllocError> {
    let h = slab.alloc(bytes, Kind::Interior)?;
    // SAFETY: the chunk has room for `bytes` bytes and is nobody else's.
    unsafe { slab.ptr(h).as_ptr().write_bytes(0, bytes) };
    Ok(h)
}

#[inline]
pub(super) fn free(slab: &mut Slab, h: Handle, bytes: usize) {
    // SAFETY: live, and of that size (the module's rule); the caller has taken it from where it was known.
    unsafe { slab.free(h, bytes) };
}

/// The handle of the chunk where a sweep has moved it, if it has: the caller puts it in the place of the old one, everywhere.
#[inline]
pub(super) fn offer(slab: &mut Slab, slice: &mut Slice, h: Handle) -> Option<Handle> {
    // SAFETY: live (the module's rule), and given up by the caller.
    unsafe { slab.offer(slice, h) }
}

/// The first `len` bytes of a chunk.
#[inline]
pub(super) fn bytes(slab: &Slab, h: Handle, len: usize) -> &[u8] {
    // SAFETY: live and at least that long (the module's rule), written as a whole by `alloc`. Whoever changes or frees it borrows the slab
    // exclusively.
    unsafe { std::slice::from_raw_parts(slab.ptr(h).as_ptr(), len) }
}

/// The same, to be changed.
#[inline]
pub(super) fn bytes_mut(slab: &mut Slab, h: Handle, len: usize) -> &mut [u8] {
    // SAFETY: as in `bytes`; the slab is borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(slab.ptr(h).as_ptr(), len) }
}

/// A chunk to be read and another one to be changed.
///
/// # Panics
/// When they are the same.
#[inline]
pub(super) fn pair(slab: &mut Slab, from: (Handle, usize), to: (Handle, usize)) -> (&[u8], &mut [u8]) {
    assert!(from.0 != to.0);
    // SAFETY: as in `bytes`; the slab is borrowed exclusively for both, and two live chunks do not overlap.
    unsafe {
        (
            std::slice::from_raw_parts(slab.ptr(from.0).as_ptr(), from.1),
            std::slice::from_raw_parts_mut(slab.ptr(to.0).as_ptr(), to.1),
        )
    }
}
