//! Redis's RDB format: the encoding of values, as DUMP and RESTORE carry them one at a time.
//!
//! ```text
//! | type | value ...... | version | CRC-64 |     a payload of DUMP; little-endian
//!   1                    2         8
//! ```
//! The format is that of Redis's `rdb.h` and `rdb.c`; what is written here, Redis 7.0 and later load (but for hashes with deadlines of fields,
//! which came with 7.4).
//!
//! # Collections
//! They are written from runs of elements (`base::entry`, as `types::Container::view_next` makes them) and read into such.
//! The *value* below is what comes before the version, its type included:
//!
//! ```text
//! let mut encoder = Encoder::new(Form::Set, count, &mut out);         the type, the count
//! encoder.put(&run, &mut out);                                        as often as there are runs; then Checksum and footer
//!
//! let mut decoder = Decoder::new(value[0], value.len(), max_bulk_bytes, seed)?;
//! loop {
//!     match decoder.next(&mut run, budget_bytes)? {
//!         Progress::Hungry => decoder.feed(the next piece of the value),        from its first byte on
//!         Progress::Full => {}
//!         Progress::Done => break (after the run was used),
//!     }
//!     use the run, and clear it
//! }
//! ```
//! What a call of `next` does is bounded by its budget, one element and what was fed (packed strings become at most 88 times as long); what the
//! decoder keeps, by the element at hand and some 20 to 40 bytes for each name that came out, by which it refuses one that comes twice. Nothing is
//! kept for what the value only claims.

mod decode;
mod elements;
mod encode;
pub mod file;
pub mod lzf;
mod packed;
pub mod payload;
pub mod string;
#[cfg(test)]
mod tests;
mod whole;

pub use decode::{Decoder, Progress, kind_of};
pub use encode::{Encoder, Form};

/// The version that is written: of Redis 7.0, so that it and all that came after it load it.
pub const VERSION_WRITTEN: u16 = 10;
/// The latest version that may be read: 12 is of Redis 7.4 and 8, 80 of Valkey 9. A version only tells which encodings may come, and an encoding
/// that is not known is refused as such.
pub const VERSION_MAX: u16 = 80;

/// What comes first in a value, by type and encoding.
pub mod value_type {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    /// With scores as text.
    pub const ZSET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const ZSET_2: u8 = 5;
    pub const MODULE: u8 = 6;
    pub const MODULE_2: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const ZSET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const ZSET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
    /// Of Valkey 9: fields with deadlines.
    pub const HASH_2: u8 = 22;
    pub const HASH_METADATA: u8 = 24;
    pub const HASH_LISTPACK_EX: u8 = 25;
}

/// A type of collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    List,
    Set,
    Zset,
    Hash,
}

/// The bytes are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;
