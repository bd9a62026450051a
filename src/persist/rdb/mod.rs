//! Redis's RDB format: the encoding of values, as DUMP and RESTORE carry them one at a time.
//!
//! ```text
//! | type | value ...... | version | CRC-64 |     a payload of DUMP; little-endian
//!   1                    2         8
//! ```
//! The format is that of Redis's `rdb.h` and `rdb.c`; what is written here, Redis 7.0 and later load.

pub mod lzf;
pub mod payload;
pub mod string;

/// The version that is written: of Redis 7.0, so that it and all that came after it load it.
pub const VERSION_WRITTEN: u16 = 10;
/// The latest version that may be read: 12 is of Redis 7.4 and 8, 80 of Valkey 9. A version only tells which encodings may come, and an encoding
/// that is not known is refused as such.
pub const VERSION_MAX: u16 = 80;

/// What comes first in a value, by type.
pub mod value_type {
    pub const STRING: u8 = 0;
}

/// The bytes are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;
