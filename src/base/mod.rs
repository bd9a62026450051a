//! What every layer above may use: numbers, globs, hashes, clocks, output. Knows nothing of keys, commands or sockets.
pub mod clock;
pub mod hash;
pub mod out;
pub mod paged;
pub mod rng;
