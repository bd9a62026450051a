//! Looking at chunks from outside, while their owner may be changing them: for prefetches that run ahead of a lock.
//!
//! Owns the read that races. What it returns may be torn, stale or of another life of the memory, so it is good for hints only; callers check
//! every number in it before they use it as an address, and [`Peek`] checks that address against what is committed.
//!
//! Invariants: the mapping outlives the `Peek`; bytes below `committed_bytes` are readable, and that number only grows.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::handle::Handle;
use crate::region::Mapping;

/// Where the chunks of a slab lie, for threads that do not own it. Costs the owner one store whenever it commits memory.
pub struct Peek {
    region: Arc<Mapping>,
    committed_bytes: AtomicUsize,
}

impl Peek {
    pub(crate) fn new(region: &Arc<Mapping>, committed_bytes: usize) -> Peek {
        Peek { region: Arc::clone(region), committed_bytes: AtomicUsize::new(committed_bytes) }
    }

    pub(crate) fn committed(&self, bytes: usize) {
        self.committed_bytes.store(bytes, Ordering::Release);
    }

    /// The 8 bytes at word `index` behind `handle`; `None` where no memory is. Any handle is allowed. What it reads is a hint, see the module.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, handle: Handle, index: u32) -> Option<u64> {
        let at = (handle.bits() as usize + index as usize) * 8;
        if at + 8 > self.committed_bytes.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: committed, hence mapped and readable for as long as the mapping lives; aligned, as handles count units of 8 bytes and the
        // region begins at a page.
        Some(unsafe { load_racing(self.region.base().as_ptr().add(at).cast()) })
    }

    /// Asks the CPU to fetch the first cache line behind `handle`. Any handle is allowed.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        let at = self.region.base().as_ptr().wrapping_add(handle.bits() as usize * 8);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch does not fault, whatever the address; SSE is part of x86_64.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

/// One aligned load of a word that another thread may be writing.
///
/// The owner writes with plain stores, and to make those atomic would cost it the wide copies of its rewrites. So the load is an
/// instruction of its own rather than one of the language, whose memory model has no name for a racing read that is only a hint.
///
/// # Safety
/// `at` is aligned to 8 bytes and readable.
#[inline(always)]
unsafe fn load_racing(at: *const u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let word: u64;
        // SAFETY: reads 8 readable bytes (caller), touches neither stack nor flags.
        unsafe {
            std::arch::asm!(
                "mov {word}, qword ptr [{at}]",
                at = in(reg) at,
                word = lateout(reg) word,
                options(nostack, preserves_flags, readonly)
            );
        }
        word
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        // SAFETY: aligned and readable (caller).
        unsafe { std::sync::atomic::AtomicU64::from_ptr(at.cast_mut()).load(Ordering::Relaxed) }
    }
}
