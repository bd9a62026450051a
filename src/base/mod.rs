//! What every layer above may use: numbers, globs, quoting, hashes, random numbers, clocks, the log, what the system grants, output. Knows
//! nothing of keys, commands or sockets.
pub mod bytes;
pub mod cgroup;
pub mod clock;
pub mod collate;
pub mod cpu;
pub mod draft;
pub mod entry;
pub mod epochs;
pub mod eviction;
pub mod float;
pub mod glob;
pub mod hash;
pub mod heap;
pub mod indexed;
pub mod int;
pub mod lcs;
pub mod limits;
pub mod log;
pub mod notify;
pub mod out;
pub mod quote;
pub mod rng;
pub mod score;
pub mod sync;
pub mod ticks;
pub mod user;
