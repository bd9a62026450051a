//! What threads share, and how: locks around shards, mailboxes between workers, claims on blocked clients. Knows nothing of
//! keys, commands or sockets.
//!
//! Everything is built on [`shim`], which is the standard library or, with `--cfg loom`, loom's model of it: `tools/test loom` runs the
//! models, `tools/tsan` the tests with real threads under ThreadSanitizer.
//!
//! | module | |
//! |---|---|
//! | [`lock`] | `ShardLock` (`NoLock` for one worker, `SpinLock` for several), `Guarded`: a lock beside what it guards |
//! | [`timed`] | a `ShardLock` that measures, for `perf` |
//! | [`mailbox`] | bounded messages from all threads to one, room first |
//! | [`claim`] | who of several serves a blocked client |
//! | [`order`] | debug builds: locks are taken in order, and nobody waits for a mailbox under one |
pub mod claim;
mod futex;
pub mod lock;
pub mod mailbox;
pub mod order;
mod shim;
pub mod timed;

#[cfg(loom)]
#[cfg(test)]
mod models;
