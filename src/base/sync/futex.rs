//! A 32-bit word that threads can sleep on. Owns the system call; must not know what the word means.
//!
//! Under loom the kernel's part is modelled (compare and sleep in one step, wake one), so that a lost wake-up is found as a deadlock.
#![cfg_attr(not(loom), allow(unsafe_code))]

use super::shim::AtomicU32;
#[cfg(loom)]
use std::sync::atomic::Ordering::Relaxed;

/// The word, and under loom its sleepers.
#[derive(Debug)]
pub(super) struct Futex {
    pub(super) word: AtomicU32,
    #[cfg(loom)]
    kernel: loom::sync::Mutex<()>,
    #[cfg(loom)]
    sleepers: loom::sync::Condvar,
}

#[cfg(not(loom))]
impl Futex {
    #[inline]
    pub(super) fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value) }
    }

    /// Sleeps unless the word is not `expected`; may wake for no reason.
    #[inline]
    pub(super) fn wait(&self, expected: u32) {
        // SAFETY: the word is a live, aligned u32; without a time-out nothing else is read. Errors (EAGAIN: the word has changed, EINTR)
        // are reasons to look at the word again, which callers do anyway.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected,
                std::ptr::null::<libc::timespec>(),
            );
        }
    }

    /// Wakes one sleeper, if there is one.
    #[inline]
    pub(super) fn wake_one(&self) {
        // SAFETY: the address is not read by the kernel, it only names the queue.
        unsafe {
            libc::syscall(libc::SYS_futex, self.word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
        }
    }
}

#[cfg(loom)]
impl Futex {
    pub(super) fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value), kernel: loom::sync::Mutex::new(()), sleepers: loom::sync::Condvar::new() }
    }

    pub(super) fn wait(&self, expected: u32) {
        let kernel = self.kernel.lock().expect("no model panics in the kernel");
        // An atomic read-modify-write, since the kernel reads the newest value, which a relaxed load of the model need not.
        if self.word.fetch_or(0, Relaxed) == expected {
            drop(self.sleepers.wait(kernel));
        }
    }

    pub(super) fn wake_one(&self) {
        let _kernel = self.kernel.lock().expect("no model panics in the kernel");
        self.sleepers.notify_one();
    }
}
