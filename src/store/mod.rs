//! The keyspace on its way to a file and back: what joins the shards (`db`) to the formats (`persist`), and the threads that read and write.
//!
//! ```text
//!  saving    cut (all locks) ─▶ each worker: Shard::save_some of its shards, in slices ─▶ outbox ─▶ writer thread: encodes, packs, sums up,
//!                                                                                                   writes, fsyncs, renames
//!  loading   loader thread: reads, unpacks, decodes ─▶ inbox ─▶ each worker: inserts, in slices
//! ```
//! No worker waits for a disk: one that finds the outbox full, or the inbox empty, does something else. One save or load at a time.
//!
//! [`Store`] is shared by all workers, and tells each of them once a turn what it has to know ([`flag`]).

pub mod load;
pub mod log;
mod outbox;
pub mod records;
pub mod save;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub use state::{Ended, Facts, Job, Refused, SaveStats, Store, flag};
pub use writer::{empty_snapshot, remove_draft};
