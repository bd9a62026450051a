//! The standard library's atomics, shared pointers and cells, or loom's. Owns nothing; only what `sync` uses is named here.
#[cfg(loom)]
pub(super) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicU32, AtomicUsize},
    },
};
#[cfg(not(loom))]
pub(super) use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicU32, AtomicUsize},
    },
};

/// The standard cell with the interface of loom's, whose closures are the extent of an access that a model watches.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    #[inline(always)]
    pub(super) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(super) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}
