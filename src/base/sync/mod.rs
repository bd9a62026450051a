//! What threads share, and how: locks around shards, the order in which they are taken, and the futex below them. Knows nothing of
//! keys, commands or sockets.
//!
//! Everything is built on [`shim`], which is the standard library or, with `--cfg loom`, loom's model of it: `tools/test loom` runs the
//! models, `tools/tsan` the tests with real threads under ThreadSanitizer.
//!
//! | module | |
//! |---|---|
//! | [`lock`] | `ShardLock` (`NoLock` for one worker, `SpinLock` for several), `Guarded`: a lock beside what it guards |
//! | [`order`] | debug builds: locks are taken in order, and nobody waits for a mailbox under one |
mod futex;
pub mod lock;
pub mod order;
mod shim;
