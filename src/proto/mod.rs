//! Wire protocols, sans I/O: bytes in, argument slices out; values in, bytes out. RESP2 and RESP3, multibulk and inline; memcached, text and binary.
pub mod carry;
pub mod errors;
pub mod http;
pub mod memcache;
#[cfg(any(test, fuzzing))]
pub mod naive;
pub mod reply;
pub mod resp;
mod shape;
#[cfg(test)]
mod tests;
