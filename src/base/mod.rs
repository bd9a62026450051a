//! What every layer above may use: numbers, globs, hashes, clocks, output. Knows nothing of keys, commands or sockets.
pub mod glob;
pub mod int;
pub mod out;
pub mod quote;
