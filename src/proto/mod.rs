//! Wire protocols, sans I/O: bytes in, argument slices out; values in, bytes out. RESP2 and RESP3, multibulk and inline.
pub mod carry;
pub mod errors;
#[cfg(any(test, fuzzing))]
pub mod naive;
pub mod reply;
pub mod resp;
#[cfg(test)]
mod tests;
