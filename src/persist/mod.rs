//! The formats in which data leaves the server and comes back. Codecs only: bytes in, bytes out, in pieces of any size, so that large
//! values can be done in slices. Knows no keys, no items, no files.
pub mod aof;
pub mod rdb;
