//! Tells AddressSanitizer which memory is free, so that a use of a freed chunk or extent, or an overflow into one, is reported.
//! Compiles to nothing in ordinary builds (`build.rs` sets `slab_asan`).
#![allow(unsafe_code)]

use std::ptr::NonNull;

#[cfg(slab_asan)]
mod runtime {
    use std::ffi::c_void;

    unsafe extern "C" {
        pub(super) fn __asan_poison_memory_region(address: *const c_void, bytes: usize);
        pub(super) fn __asan_unpoison_memory_region(address: *const c_void, bytes: usize);
    }
}

/// Accesses to the range are errors from now on. Multiples of 8 bytes.
#[inline(always)]
pub(crate) fn poison(address: NonNull<u8>, bytes: usize) {
    #[cfg(slab_asan)]
    // SAFETY: changes the sanitizer's records only.
    unsafe {
        runtime::__asan_poison_memory_region(address.as_ptr().cast(), bytes);
    }
    #[cfg(not(slab_asan))]
    let _ = (address, bytes);
}

/// Accesses to the range are fine from now on. Multiples of 8 bytes.
#[inline(always)]
pub(crate) fn unpoison(address: NonNull<u8>, bytes: usize) {
    #[cfg(slab_asan)]
    // SAFETY: changes the sanitizer's records only.
    unsafe {
        runtime::__asan_unpoison_memory_region(address.as_ptr().cast(), bytes);
    }
    #[cfg(not(slab_asan))]
    let _ = (address, bytes);
}

#[cfg(all(test, slab_asan))]
mod tests {
    use std::ffi::c_void;
    use std::ptr::NonNull;

    use crate::{Config, Kind, Slab};

    unsafe extern "C" {
        fn __asan_address_is_poisoned(address: *const c_void) -> i32;
    }

    fn is_poisoned(address: NonNull<u8>) -> bool {
        // SAFETY: reads the sanitizer's records only.
        unsafe { __asan_address_is_poisoned(address.as_ptr().cast()) != 0 }
    }

    #[test]
    fn free_memory_is_poisoned_and_live_memory_is_not() {
        let mut slab = Slab::new(Config::default()).unwrap();
        let chunk = slab.alloc(48, Kind::Item).unwrap();
        let (first, after) = (slab.ptr(chunk), slab.ptr(crate::Handle::from_bits(chunk.bits() + 6)));
        assert!(!is_poisoned(first) && is_poisoned(after), "the next chunk is not handed out yet");
        // SAFETY: live, freed once.
        unsafe { slab.free(chunk, 48) };
        assert!(is_poisoned(first));
        let blob = slab.blob_new(20_000).unwrap();
        slab.blob_append(blob, &[1; 20_000]).unwrap();
        let byte = NonNull::from(&slab.blob_segment(blob, 0)[0]);
        assert!(!is_poisoned(byte));
        slab.blob_release(blob);
        assert!(is_poisoned(byte));
        drop(slab);
        assert!(!is_poisoned(first) && !is_poisoned(byte));
    }
}
