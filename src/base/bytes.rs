//! Copies of short byte strings, which keys, values and replies mostly are.
#![allow(unsafe_code)]

/// Copies short byte strings without a call.
///
/// # Safety
/// `to` is valid for `from.len()` bytes and does not overlap `from`.
#[inline(always)]
pub unsafe fn copy_short(from: &[u8], to: *mut u8) {
    let n = from.len();
    let p = from.as_ptr();
    // SAFETY: for 8 <= n <= 16 (4 <= n <= 8) the two words (half words) lie inside both ranges of n bytes; otherwise the plain copy of n bytes.
    unsafe {
        if (8..=16).contains(&n) {
            let a = p.cast::<u64>().read_unaligned();
            let b = p.add(n - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(a);
            to.add(n - 8).cast::<u64>().write_unaligned(b);
        } else if (4..8).contains(&n) {
            let a = p.cast::<u32>().read_unaligned();
            let b = p.add(n - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(a);
            to.add(n - 4).cast::<u32>().write_unaligned(b);
        } else {
            std::ptr::copy_nonoverlapping(p, to, n);
        }
    }
}
