//! A whole RDB file: what comes before, between and behind the values.
//!
//! ```text
//! | REDIS0010 or VALKEY080 | part ... | FF | CRC-64 |                little-endian; the checksum since version 5, 0: none was made
//!   9                                   1    8
//! part:  FA name value             a fact about the file, of interest or not
//!                                  (`CLIENT_FLAGS`: a fact about the next key, which others pass over)
//!        FE number                 the database of what follows
//!        FB keys, with deadline    how much follows in it
//!        FC time 8 | FD time 4     the deadline of the next key, in milliseconds or seconds
//!        F8 seconds | F9 times     how long or how often the next key was (not) used
//!        type, key, value          a key
//!        F5 code                   a library of functions
//!        F7 ...                    what a module keeps beside its values
//!        F4 slot, keys, with deadline | F3 job, ranges          of a cluster
//! ```
//! Reading ([`Reader`]) and writing ([`Writer`]) do no input or output themselves.

mod contents;
mod read;
#[cfg(test)]
mod tests;
mod write;

use super::Kind;
use std::fmt;

pub use read::{READ_BYTES, Reader};
pub use write::Writer;

mod part {
    /// Of Valkey; of Redis something else.
    pub const SLOT_IMPORT: u8 = 243;
    pub const SLOT_INFO: u8 = 244;
    pub const FUNCTION: u8 = 245;
    pub const FUNCTION_BEFORE_7: u8 = 246;
    pub const MODULE: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const DEADLINE_MS: u8 = 252;
    pub const DEADLINE_S: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

/// The fact that tells the flags which a client of memcached keeps beside the string of the next key.
pub const CLIENT_FLAGS: &[u8] = b"memcached-flags";

/// The first version with a checksum.
const CHECKSUM_SINCE: u32 = 5;

/// What stands before a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    pub key: &'a [u8],
    /// Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// Since when it was not used.
    pub idle_seconds: Option<u64>,
}

/// A value or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// The text of a number, all of it.
    Int(i64),
    /// Of a string.
    Bytes(&'a [u8]),
    /// Whole elements (`base::entry`).
    Run(Kind, &'a [u8]),
}

/// What a reader found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// Nothing yet: more of the file is needed.
    Hungry,
    Aux {
        name: &'a [u8],
        value: &'a [u8],
    },
    /// What follows is of this database.
    Database(u64),
    /// How many keys will come of the database, and how many of them with deadlines, by what the file says.
    Sizes {
        keys: u64,
        deadlines: u64,
    },
    /// A key with its value, or the first part of it.
    Value(Head<'a>, Content<'a>, Part),
    /// More of the latest value.
    More(Content<'a>, Part),
    /// A collection without elements, which some versions of Redis have left behind by mistake.
    Empty(Head<'a>),
    /// Something that was passed over.
    Skipped(Skipped),
    /// The end of the file; its checksum is right.
    End,
}

/// Is there more of a value?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Last,
    /// [`Event::More`] follows.
    Unfinished,
}

/// What a file may have that is of no use here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// A library of functions.
    Functions,
    /// What the module of this number keeps beside its values.
    ModuleAux(u64),
    /// Of a cluster: a slot that was being moved.
    SlotImport,
}

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// It is no RDB file.
    Foreign,
    /// Its version is none that is known.
    Version(u32),
    /// It ends in the middle.
    Truncated,
    /// The bytes are not what they should be.
    Malformed,
    /// There are functions of a version of Redis 7 that was not released.
    EarlyFunctions,
    /// The value of a key is of a type that this server does not have.
    Stream(Vec<u8>),
    /// The same, of a module (its name, as far as it is told).
    Module(Vec<u8>, String),
    /// The value of a key has an unknown type.
    Type(Vec<u8>, u8),
    Checksum {
        of_file: u64,
        computed: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |key: &[u8]| String::from_utf8_lossy(&crate::base::quote::quote(key)).into_owned();
        match self {
            Error::Foreign => write!(f, "it is not an RDB file"),
            Error::Version(version) => write!(f, "its format has version {version}, which is not known"),
            Error::Truncated => write!(f, "it ends in the middle"),
            Error::Malformed => write!(f, "the data are damaged"),
            Error::EarlyFunctions => write!(f, "it has functions in the format of a release candidate of Redis 7"),
            Error::Stream(of) => write!(f, "the value of {} is a stream, which this server does not have", key(of)),
            Error::Module(of, module) => {
                write!(f, "the value of {} is of the module type {module}, which this server does not have", key(of))
            }
            Error::Type(of, value_type) => write!(f, "the value of {} has the unknown type {value_type}", key(of)),
            Error::Checksum { of_file, computed } => {
                write!(f, "its checksum should be {of_file:016x} but is {computed:016x}")
            }
        }
    }
}

impl std::error::Error for Error {}
