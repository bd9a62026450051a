//! Requests of memcached, sans I/O: the text protocol with its meta commands (`text`), and the binary protocol (`binary`), from a window
//! of bytes to argument slices of the same window. A request is binary if it begins with the magic byte, so that one listener takes both.
//!
//! A line of `get` is a request for each key, the last of which ends the reply: so the keys of one line are fetched ahead as those of many
//! requests are, and a line may be as long as it likes. What has to be known between two windows is a [`Mode`].
//!
//! Everything is validated, and nothing is allocated for what is only claimed. A value above the limit is never kept: its request is
//! answered as soon as its line is there, and the value is passed over.

pub mod binary;
pub mod carry;
pub mod number;
pub mod text;

#[cfg(any(test, fuzzing))]
pub mod naive;
#[cfg(test)]
mod tests;

use bumpalo::collections::Vec as ArenaVec;

/// Longest key, in bytes.
pub const KEY_MAX_BYTES: usize = 250;
/// Longest line but those of `get` and `gets`, in bytes.
pub const LINE_MAX_BYTES: usize = 2048;
/// What memcached needs for an item beside key and value; the limit of an item's size counts it.
const ITEM_BYTES: u64 = 48 + 8 + 3;
/// The same for flags that are not 0.
const ITEM_FLAGS_BYTES: u64 = 4;
/// Longest value before a client has logged in.
const UNAUTHENTICATED_VALUE_BYTES: u64 = 1024;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest item as memcached counts it, in bytes.
    pub item_bytes_max: u64,
    pub authenticated: bool,
}

impl Limits {
    /// Is a value of that length small enough?
    #[inline]
    #[must_use]
    pub fn takes(&self, key_bytes: usize, has_flags: bool, value_bytes: u64) -> bool {
        let flags = if has_flags { ITEM_FLAGS_BYTES } else { 0 };
        let fits = ITEM_BYTES + flags + key_bytes as u64 + value_bytes <= self.item_bytes_max;
        fits && (self.authenticated || value_bytes <= UNAUTHENTICATED_VALUE_BYTES)
    }
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident,)*) => {
        /// What a request asks for. Says what its arguments are; `name` is the word or the header that it begins with, `noreply` is empty
        /// if a reply is wanted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Verb {
            $($(#[$doc])* $verb,)*
        }

        impl Verb {
            pub const ALL: &[Verb] = &[$(Verb::$verb),*];
        }
    };
}

verbs! {
    /// One key of `get`, more follow: name, key.
    Get,
    /// The last of them: the reply ends behind it.
    GetLast,
    Gets,
    GetsLast,
    /// The same for `gat`: name, key, deadline (of 8 bytes, see [`Keys`]).
    Gat,
    GatLast,
    Gats,
    GatsLast,
    /// Name, key, flags, deadline, value, noreply; all numbers are good.
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// The same, and the number to compare.
    Cas,
    /// A value above the limit, which is passed over: name, key, noreply. For `ms`: name, key, "ms".
    TooLarge,
    /// Name, key, delta, noreply.
    Incr,
    Decr,
    /// Name, key, noreply.
    Delete,
    /// Name, key, deadline, noreply.
    Touch,
    /// Name, deadline or nothing, noreply.
    FlushAll,
    /// Name, words.
    Stats,
    Version,
    /// Name, level, noreply.
    Verbosity,
    Quit,
    /// Name, words.
    Shutdown,
    /// Name, key, flags of any number.
    MetaGet,
    MetaDelete,
    MetaArithmetic,
    MetaDebug,
    /// Name, key, value, flags of any number.
    MetaSet,
    MetaNoop,
    /// Name, and the text of the error.
    Fail,
    /// The same for a key of a line of `get`: what its other keys have asked for is not answered.
    FailKeys,
    /// The same, and nothing more is read.
    FailClose,
    /// Name (the header of a binary request, as in all that follow), key, extras, value.
    BinaryGet,
    BinaryTouch,
    BinaryStore,
    BinaryConcat,
    BinaryArithmetic,
    BinaryDelete,
    BinaryFlush,
    BinaryStat,
    /// NOOP, VERSION, QUIT, VERBOSITY.
    BinaryOther,
    BinarySasl,
    /// A value above the limit: header, key.
    BinaryTooLarge,
    /// Header.
    BinaryUnknown,
    /// Header; nothing more is read.
    BinaryInvalid,
    BinaryUnframed,
}

/// What the keys of a line are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    Get,
    Gets,
    /// With the deadline that they get, in seconds; as an argument it is little-endian.
    Gat(i64),
    Gats(i64),
}

impl Keys {
    fn verb(self, last: bool) -> Verb {
        match (self, last) {
            (Keys::Get, false) => Verb::Get,
            (Keys::Get, true) => Verb::GetLast,
            (Keys::Gets, false) => Verb::Gets,
            (Keys::Gets, true) => Verb::GetsLast,
            (Keys::Gat(_), false) => Verb::Gat,
            (Keys::Gat(_), true) => Verb::GatLast,
            (Keys::Gats(_), false) => Verb::Gats,
            (Keys::Gats(_), true) => Verb::GatsLast,
        }
    }
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mode {
    /// A new request.
    #[default]
    Request,
    /// A line of keys, of which there was one already.
    Keys(Keys),
    /// So many bytes of a value that is passed over.
    Swallow(u64),
    /// The rest of a line that is passed over.
    SkipLine,
}

/// What a window holds at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// A request, whose arguments were appended; it ends at `end`.
    Request { verb: Verb, end: usize },
    /// Nothing to be answered, up to `end`.
    Nothing { end: usize },
    /// The window ends before the request does.
    Incomplete(Wanted),
}

/// What is missing of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wanted {
    /// Bytes of the whole request; 0: they are not known yet.
    pub bytes: usize,
    /// A value, which is all that is missing but for a line's end: where it begins in the request, and its length. The bytes in front of
    /// it are there.
    pub value: Option<(usize, usize)>,
}

/// Parses what begins at `pos`, where there is a byte, and appends the arguments of a request. They are slices of `buf`, or lie in the arena of
/// `args`.
#[inline]
pub fn parse<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    mode: &mut Mode,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    match *mode {
        Mode::Request if buf[pos] == binary::MAGIC => binary::parse(buf, pos, mode, limits, args),
        Mode::Request => text::parse(buf, pos, mode, limits, args),
        Mode::Keys(keys) => text::next_key(buf, pos, keys, mode, args),
        Mode::Swallow(left) => {
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len() - pos);
            let left = left - taken as u64;
            *mode = if left == 0 { Mode::Request } else { Mode::Swallow(left) };
            Parsed::Nothing { end: pos + taken }
        }
        Mode::SkipLine => match memchr::memchr(b'\n', &buf[pos..]) {
            Some(at) => {
                *mode = Mode::Request;
                Parsed::Nothing { end: pos + at + 1 }
            }
            None => Parsed::Nothing { end: buf.len() },
        },
    }
}

/// The arguments of a request of which everything is in `head` but a value that was received elsewhere: it is empty.
/// `None`: there is no such request (nothing else is ever said to lack a value).
pub fn parse_head<'a: 'b, 'b>(head: &'b [u8], limits: &Limits, args: &mut ArenaVec<'a, &'b [u8]>) -> Option<Verb> {
    if head.first() == Some(&binary::MAGIC) {
        binary::parse_head(head, args)
    } else {
        text::parse_head(head, limits, args)
    }
}
