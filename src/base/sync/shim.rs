//! The standard library's atomics, threads and the like, or loom's. Owns nothing; only what `sync` uses is named here.

#[cfg(loom)]
pub(super) use loom::{hint::spin_loop, sync::atomic::AtomicU32};
#[cfg(not(loom))]
pub(super) use std::{hint::spin_loop, sync::atomic::AtomicU32};
