//! What every layer above may use: numbers, globs, hashes, clocks, output. Knows nothing of keys, commands or sockets.
pub mod cpu;
pub mod log;
pub mod out;
