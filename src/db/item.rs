//! An item: one chunk of the slab that holds a key, its value and, if it has them, its deadline and its marks.
//!
//! ```text
//!  bit 0    6       12        32        48          64            (128)          (256)
//! | type/  | flags | access  | key     | value     | deadline    | marks        | key bytes ... | value bytes ... |
//! | enc.   |       | clock   | length  | length    | (if flag)   | (if flag)    |               |                 |
//!  4+2 bit   6       20        16        16          48 + 16 bit   2 x 64 bit
//! ```
//! The header is one little-endian word with one `pack` and one `unpack`. A key of 16 bytes and a value of 8 fill 32 bytes exactly.
//! A key longer than [`KEY_INLINE_MAX`] lies in a blob; its place holds the blob's number and the key's hash, so that growth need
//! not read megabytes. A value that would not fit the chunk is a blob, its place holds the blob's number.
//!
//! Owns the layout and nothing else: no expiry rules, no table.
#![allow(unsafe_code)]

mod overwrite;

use super::access;
use super::containers::{ContainerId, Containers};
use crate::base::bytes::copy_short;
use crate::table::Site;
use dolmen_slab::{AllocError, BlobId, CHUNK_BYTES_MAX, Handle, Slab};
use static_assertions::const_assert;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Longest key that lies in the item itself.
pub const KEY_INLINE_MAX: usize = 8 * 1024;
const HEADER_BYTES: usize = 8;
const EXPIRY_BYTES: usize = 8;
const MARKS_BYTES: usize = 16;
/// Blob number (4), zero (4), hash (8).
const KEY_BLOB_BYTES: usize = 16;
const VALUE_BLOB_BYTES: usize = 8;
const CONTAINER_BYTES: usize = 4;
const INT_BYTES: usize = 8;
const_assert!(HEADER_BYTES + EXPIRY_BYTES + MARKS_BYTES + KEY_INLINE_MAX + VALUE_BLOB_BYTES <= CHUNK_BYTES_MAX);
const_assert!(CHUNK_BYTES_MAX <= u16::MAX as usize);

pub use crate::types::Type;
pub use overwrite::{
    add_alike, overwrite_alike, overwrite_clock, overwrite_expiry, overwrite_header, overwrite_marks, overwrite_use,
    overwrite_value, raw_value_mut,
};

/// How a value lies in its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Encoding {
    /// The bytes themselves.
    Raw = 0,
    /// A 64-bit integer, little-endian; its text is made when it is read.
    Int = 1,
    /// The number of a blob.
    Blob = 2,
    /// The number of a container of the shard (`db::containers`). (A packed one is raw.)
    Container = 3,
}

/// Bits of [`Header::flags`].
pub mod flag {
    /// A client of memcached has read it since it was written.
    pub const HIT: u8 = 1;
    /// The deadline word is there.
    pub const EXPIRY: u8 = 4;
    /// The marks are there. (This bit is beside that of the deadline, so that both together count the words in front of the key.)
    pub const MARKS: u8 = 8;
    /// The key lies in a blob.
    pub const KEY_BLOB: u8 = 16;
    /// The string was changed in part since it was written (APPEND and its kin): OBJECT ENCODING calls it raw.
    pub const MODIFIED: u8 = 32;
}
/// Bits that the header has for flags.
const FLAG_BITS: u8 = 63;
/// Where the bits of the words in front of the key are in the packed header; their number is that of the words.
const WORDS_SHIFT: u32 = Header::FLAGS_SHIFT + flag::EXPIRY.trailing_zeros();
const_assert!(flag::MARKS == 2 * flag::EXPIRY && MARKS_BYTES == 2 * EXPIRY_BYTES);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub kind: Type,
    pub encoding: Encoding,
    pub flags: u8,
    /// When the item was last used, on the access clock (`db::access`): 20 bits.
    pub clock: u32,
    /// Bytes of the key's place.
    pub key_len: u16,
    /// Bytes of the value's place.
    pub value_len: u16,
}

pub(super) const RAW: u64 = Encoding::Raw as u64;
pub(super) const INT: u64 = Encoding::Int as u64;
const BLOB: u64 = Encoding::Blob as u64;
const LIST: u64 = Type::List as u64;
const SET: u64 = Type::Set as u64;
const HASH: u64 = Type::Hash as u64;
const ZSET: u64 = Type::Zset as u64;

impl Header {
    const ENCODING_SHIFT: u32 = 4;
    const FLAGS_SHIFT: u32 = 6;
    const CLOCK_SHIFT: u32 = 12;
    const KEY_LEN_SHIFT: u32 = 32;
    const VALUE_LEN_SHIFT: u32 = 48;

    #[inline(always)]
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.kind as u64)
            | (self.encoding as u64) << Header::ENCODING_SHIFT
            | (self.flags as u64) << Header::FLAGS_SHIFT
            | ((self.clock & access::CLOCK_MAX) as u64) << Header::CLOCK_SHIFT
            | (self.key_len as u64) << Header::KEY_LEN_SHIFT
            | (self.value_len as u64) << Header::VALUE_LEN_SHIFT
    }

    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each field is cut out by its shift")]
    pub const fn unpack(word: u64) -> Header {
        Header {
            kind: match word & 15 {
                LIST => Type::List,
                SET => Type::Set,
                HASH => Type::Hash,
                ZSET => Type::Zset,
                _ => Type::String,
            },
            encoding: match (word >> Header::ENCODING_SHIFT) & 3 {
                RAW => Encoding::Raw,
                INT => Encoding::Int,
                BLOB => Encoding::Blob,
                _ => Encoding::Container,
            },
            flags: (word >> Header::FLAGS_SHIFT) as u8 & FLAG_BITS,
            clock: word as u32 >> Header::CLOCK_SHIFT,
            key_len: (word >> Header::KEY_LEN_SHIFT) as u16,
            value_len: (word >> Header::VALUE_LEN_SHIFT) as u16,
        }
    }

    /// Bytes of the whole item.
    #[inline(always)]
    #[must_use]
    pub fn item_bytes(self) -> usize {
        HEADER_BYTES + self.words_bytes() + usize::from(self.key_len) + usize::from(self.value_len)
    }

    /// Bytes of deadline and marks.
    #[inline(always)]
    fn words_bytes(self) -> usize {
        usize::from((self.flags / flag::EXPIRY) % 4) * EXPIRY_BYTES
    }
}

/// The deadline word: 48 bits of Unix milliseconds and the 16-bit code of the wheel entry that will fire for it (0: none).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    pub deadline_ms: u64,
    pub armed: u16,
}

/// Latest deadline that an item can hold, in Unix milliseconds (the year 10889).
pub const DEADLINE_MAX_MS: u64 = (1 << 48) - 1;

impl Expiry {
    #[inline(always)]
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.deadline_ms | (self.armed as u64) << 48
    }

    #[inline(always)]
    #[must_use]
    pub const fn unpack(word: u64) -> Expiry {
        Expiry { deadline_ms: word & DEADLINE_MAX_MS, armed: (word >> 48) as u16 }
    }
}

/// What a client of memcached has kept beside a value, and may compare it by.
///
/// ```text
///  bit 0           32      64
/// | client flags  | state | cas |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// The client's, of no meaning here.
    pub flags: u32,
    /// Bits of [`state`].
    pub state: u32,
    /// Another number for each value that the key has; never 0.
    pub cas: u64,
}

/// Bits of [`Marks::state`]: how far clients that share the making of a value have come.
pub mod state {
    /// The value is out of date, and somebody should make a new one.
    pub const STALE: u32 = 1;
    /// Somebody was told to.
    pub const WON: u32 = 2;
}

impl Marks {
    #[inline]
    fn pack(self) -> [u64; 2] {
        [u64::from(self.flags) | u64::from(self.state) << 32, self.cas]
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each half of the word is 32 bits")]
    fn unpack(words: [u64; 2]) -> Marks {
        Marks { flags: words[0] as u32, state: (words[0] >> 32) as u32, cas: words[1] }
    }
}

/// The words that an item may have in front of its key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Words {
    pub expiry: Option<Expiry>,
    pub marks: Option<Marks>,
}

impl Words {
    /// Their bits of [`Header::flags`].
    #[inline(always)]
    #[must_use]
    pub fn flags(&self) -> u8 {
        let expiry = if self.expiry.is_some() { flag::EXPIRY } else { 0 };
        expiry | if self.marks.is_some() { flag::MARKS } else { 0 }
    }

    #[inline(always)]
    fn bytes(&self) -> usize {
        usize::from(self.flags() / flag::EXPIRY) * EXPIRY_BYTES
    }

    /// Writes them, and returns where they end.
    ///
    /// # Safety
    /// `to` is aligned to 8 bytes and valid for `bytes()` bytes.
    #[inline(always)]
    unsafe fn write(&self, mut to: *mut u8) -> *mut u8 {
        // SAFETY: the caller's room.
        unsafe {
            if let Some(expiry) = self.expiry {
                to.cast::<u64>().write(expiry.pack().to_le());
                to = to.add(EXPIRY_BYTES);
            }
            if let Some(marks) = self.marks {
                to.cast::<[u64; 2]>().write(marks.pack().map(u64::to_le));
                to = to.add(MARKS_BYTES);
            }
        }
        to
    }
}

/// A key with its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub bytes: &'a [u8],
    pub hash: u64,
    /// Where the search begins, if that was found out before.
    pub site: Site,
}

/// A string value as it lies in an item.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Raw(&'a [u8]),
    Int(i64),
    Blob(BlobId),
}

/// A container as its item names it.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    Packed(&'a [u8]),
    Big(ContainerId),
}

/// A live item.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    ptr: NonNull<u8>,
    /// The packed header; the hot accessors cut out what they need.
    word: u64,
    slab: PhantomData<&'a Slab>,
}

impl<'a> Item<'a> {
    /// # Safety
    /// `h` is a live item of `slab`: it came from [`write()`] and was not freed. The table's handles are.
    #[inline(always)]
    #[must_use]
    pub unsafe fn at(slab: &'a Slab, h: Handle) -> Item<'a> {
        let ptr = slab.ptr(h);
        // SAFETY: a live item begins with its header (caller).
        let word = u64::from_le(unsafe { ptr.cast::<u64>().read() });
        Item { ptr, word, slab: PhantomData }
    }

    #[inline(always)]
    #[must_use]
    pub fn header(&self) -> Header {
        Header::unpack(self.word)
    }

    /// When it was last used, on the access clock.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the clock ends where the upper half begins")]
    pub fn clock(&self) -> u32 {
        self.word as u32 >> Header::CLOCK_SHIFT
    }

    #[inline(always)]
    #[must_use]
    pub fn has_expiry(&self) -> bool {
        self.word & (flag::EXPIRY as u64) << Header::FLAGS_SHIFT != 0
    }

    #[inline(always)]
    fn has_key_blob(&self) -> bool {
        self.word & (flag::KEY_BLOB as u64) << Header::FLAGS_SHIFT != 0
    }

    /// Bytes of the key's place.
    #[inline(always)]
    fn key_place_bytes(&self) -> usize {
        (self.word >> Header::KEY_LEN_SHIFT) as usize & 0xffff
    }

    /// Where the key's place begins.
    #[inline(always)]
    fn key_offset(&self) -> usize {
        HEADER_BYTES + (self.word >> WORDS_SHIFT) as usize % 4 * EXPIRY_BYTES
    }

    #[inline(always)]
    fn place(&self, offset: usize, len: usize) -> &'a [u8] {
        // SAFETY: key and value lie inside the chunk by `item_bytes`, which `write` allocated and filled; the chunk lives as long as
        // the borrow of the slab, since freeing and moving need it exclusively.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr().add(offset), len) }
    }

    #[inline(always)]
    fn key_place(&self) -> &'a [u8] {
        self.place(self.key_offset(), self.key_place_bytes())
    }

    #[inline(always)]
    fn value_place(&self) -> &'a [u8] {
        self.place(self.key_offset() + self.key_place_bytes(), (self.word >> Header::VALUE_LEN_SHIFT) as usize)
    }

    #[inline(always)]
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.has_expiry().then(|| Expiry::unpack(word_at(self.place(HEADER_BYTES, EXPIRY_BYTES))))
    }

    /// Has a client of memcached read it since it was written?
    #[inline(always)]
    #[must_use]
    pub fn is_hit(&self) -> bool {
        self.word & (flag::HIT as u64) << Header::FLAGS_SHIFT != 0
    }

    #[inline(always)]
    fn has_marks(&self) -> bool {
        self.word & (flag::MARKS as u64) << Header::FLAGS_SHIFT != 0
    }

    /// What a client of memcached has kept beside the value.
    #[inline(always)]
    #[must_use]
    pub fn marks(&self) -> Option<Marks> {
        self.has_marks().then(|| {
            let place = self.place(self.key_offset() - MARKS_BYTES, MARKS_BYTES);
            Marks::unpack([word_at(place), word_at(&place[8..])])
        })
    }

    /// Deadline and marks.
    #[inline]
    #[must_use]
    pub fn words(&self) -> Words {
        Words { expiry: self.expiry(), marks: self.marks() }
    }

    /// The deadline, or `u64::MAX`.
    #[inline(always)]
    #[must_use]
    pub fn deadline_ms(&self) -> u64 {
        self.expiry().map_or(u64::MAX, |e| e.deadline_ms)
    }

    #[inline(always)]
    #[must_use]
    pub fn is_key(self, slab: &Slab, key: Key<'_>) -> bool {
        if self.has_key_blob() {
            // By parts, as all of it would be put into memory for the call.
            return self.is_blob_key(slab, key.bytes, key.hash);
        }
        self.key_place_bytes() == key.bytes.len() && same_bytes(self.key_place(), key.bytes)
    }

    /// Is it a string of this key and encoding, with the key in the item itself? (False also for some keys for which it is: short and long ones.)
    #[inline(always)]
    #[must_use]
    pub fn is_plain<const ENCODING: u64>(self, key: &[u8]) -> bool {
        /// Type, encoding, the flag of a long key, and the key's length.
        const MASK: u64 = 15
            | 3 << Header::ENCODING_SHIFT
            | (flag::KEY_BLOB as u64) << Header::FLAGS_SHIFT
            | (u16::MAX as u64) << Header::KEY_LEN_SHIFT;
        let plain =
            Type::String as u64 | ENCODING << Header::ENCODING_SHIFT | (key.len() as u64) << Header::KEY_LEN_SHIFT;
        self.word & MASK == plain
            && PLAIN_KEYS.contains(&key.len())
            && same_bytes(self.place(self.key_offset(), key.len()), key)
    }

    /// The bytes of a value that is raw.
    #[inline(always)]
    #[must_use]
    pub fn raw_value(&self) -> &'a [u8] {
        self.value_place()
    }

    #[cold]
    #[inline(never)]
    fn is_blob_key(self, slab: &Slab, key: &[u8], key_hash: u64) -> bool {
        let (blob, hash) = self.key_blob();
        if hash != key_hash || slab.blob_len(blob) != key.len() {
            return false;
        }
        let mut rest = key;
        (0..slab.blob_segments(blob)).all(|i| {
            let segment = slab.blob_segment(blob, i);
            let (head, tail) = rest.split_at(segment.len().min(rest.len()));
            rest = tail;
            head == segment
        })
    }

    fn key_blob(&self) -> (BlobId, u64) {
        let place = self.key_place();
        (blob_at(place), word_at(&place[8..]))
    }

    /// The hash of the key.
    #[inline]
    #[must_use]
    pub fn hash(&self, seed: u64) -> u64 {
        if self.has_key_blob() {
            return self.key_blob().1;
        }
        crate::base::hash::hash_key(seed, self.key_place())
    }

    /// Length of the key in bytes.
    #[must_use]
    pub fn key_len(&self, slab: &Slab) -> usize {
        if self.has_key_blob() {
            return slab.blob_len(self.key_blob().0);
        }
        self.key_place_bytes()
    }

    /// Memory of the item with its blobs, without its container's.
    #[must_use]
    pub fn held_bytes(&self, slab: &Slab) -> u64 {
        let value = self.value_blob().map_or(0, |id| slab.blob_bytes(id));
        let key = if self.has_key_blob() { slab.blob_bytes(self.key_blob().0) } else { 0 };
        Slab::class_bytes(self.header().item_bytes()) as u64 + value + key
    }

    /// The key, if it lies in the item (it is at most [`KEY_INLINE_MAX`] bytes long).
    #[inline]
    #[must_use]
    pub fn inline_key(&self) -> Option<&'a [u8]> {
        (!self.has_key_blob()).then(|| self.key_place())
    }

    /// Appends the key to `into`.
    pub fn append_key(&self, slab: &Slab, into: &mut Vec<u8>) {
        if let Some(key) = self.inline_key() {
            return into.extend_from_slice(key);
        }
        let blob = self.key_blob().0;
        for i in 0..slab.blob_segments(blob) {
            into.extend_from_slice(slab.blob_segment(blob, i));
        }
    }

    #[inline(always)]
    #[must_use]
    pub fn is_string(&self) -> bool {
        self.word & 15 == Type::String as u64
    }

    /// The type of the value.
    #[inline(always)]
    #[must_use]
    pub fn kind(&self) -> Type {
        self.header().kind
    }

    /// The number of the value's container, if it has one.
    #[inline(always)]
    #[must_use]
    pub fn container(&self) -> Option<ContainerId> {
        (self.header().encoding == Encoding::Container).then(|| container_at(self.value_place()))
    }

    /// The container that is the value of an item whose type is not a string.
    #[inline(always)]
    #[must_use]
    pub fn content(&self) -> Content<'a> {
        debug_assert!(self.kind() != Type::String);
        match self.container() {
            Some(id) => Content::Big(id),
            None => Content::Packed(self.value_place()),
        }
    }

    /// The number of the value's blob, if it is one.
    #[inline]
    #[must_use]
    pub fn value_blob(&self) -> Option<BlobId> {
        (self.header().encoding == Encoding::Blob).then(|| blob_at(self.value_place()))
    }

    /// The value of a string.
    #[inline(always)]
    #[must_use]
    pub fn value(&self) -> Value<'a> {
        debug_assert!(self.kind() == Type::String);
        let place = self.value_place();
        match (self.word >> Header::ENCODING_SHIFT) & 3 {
            RAW => Value::Raw(place),
            INT => Value::Int(word_at(place).cast_signed()),
            _ => Value::Blob(blob_at(place)),
        }
    }
}

#[inline(always)]
fn word_at(place: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&place[..8]);
    u64::from_le_bytes(bytes)
}

fn number_at(place: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&place[..4]);
    u32::from_le_bytes(bytes)
}

fn blob_at(place: &[u8]) -> BlobId {
    BlobId::from_bits(number_at(place))
}

#[inline(always)]
fn container_at(place: &[u8]) -> ContainerId {
    ContainerId::from_bits(number_at(place))
}

/// Lengths that are compared without a call.
const PLAIN_KEYS: std::ops::RangeInclusive<usize> = 8..=32;

/// Equality of short byte strings without a call: keys are mostly 8 to 32 bytes.
#[inline(always)]
#[must_use]
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    let n = a.len();
    if n != b.len() {
        return false;
    }
    if !PLAIN_KEYS.contains(&n) {
        return a == b;
    }
    let (p, q) = (a.as_ptr(), b.as_ptr());
    // SAFETY: both slices have n bytes, 8 <= n <= 32; every load begins at 0, n - 8, 8 (n >= 16) or n - 16 (n >= 16) and is 8 long.
    unsafe {
        let word = |p: *const u8, at: usize| p.add(at).cast::<u64>().read_unaligned();
        let mut different = (word(p, 0) ^ word(q, 0)) | (word(p, n - 8) ^ word(q, n - 8));
        if n > 16 {
            different |= (word(p, 8) ^ word(q, 8)) | (word(p, n - 16) ^ word(q, n - 16));
        }
        different == 0
    }
}

/// What to write as a value.
#[derive(Clone, Copy, Debug)]
pub enum NewValue<'a> {
    Raw(&'a [u8]),
    Int(i64),
    /// Ownership of the blob passes to the item.
    Blob(BlobId),
    /// A packed container of that type.
    Packed(Type, &'a [u8]),
    /// The container becomes the item's.
    Container(Type, ContainerId),
}

impl NewValue<'_> {
    #[inline(always)]
    fn place_bytes(&self) -> usize {
        match self {
            NewValue::Raw(b) | NewValue::Packed(_, b) => b.len(),
            NewValue::Int(_) => INT_BYTES,
            NewValue::Blob(_) => VALUE_BLOB_BYTES,
            NewValue::Container(..) => CONTAINER_BYTES,
        }
    }

    #[inline(always)]
    fn kind(&self) -> Type {
        match self {
            NewValue::Raw(_) | NewValue::Int(_) | NewValue::Blob(_) => Type::String,
            NewValue::Packed(kind, _) | NewValue::Container(kind, _) => *kind,
        }
    }

    #[inline(always)]
    fn encoding(&self) -> Encoding {
        match self {
            NewValue::Raw(_) | NewValue::Packed(..) => Encoding::Raw,
            NewValue::Int(_) => Encoding::Int,
            NewValue::Blob(_) => Encoding::Blob,
            NewValue::Container(..) => Encoding::Container,
        }
    }

    /// # Safety
    /// `to` is valid for `place_bytes()` bytes.
    #[inline(always)]
    unsafe fn write(&self, to: *mut u8) {
        // SAFETY: the caller's room is `place_bytes()` long.
        unsafe {
            match self {
                NewValue::Raw(b) | NewValue::Packed(_, b) => copy_short(b, to),
                NewValue::Container(_, id) => to.cast::<[u8; 4]>().write_unaligned(id.bits().to_le_bytes()),
                NewValue::Int(i) => to.cast::<[u8; 8]>().write_unaligned(i.to_le_bytes()),
                NewValue::Blob(id) => to.cast::<[u8; 8]>().write_unaligned(u64::from(id.bits()).to_le_bytes()),
            }
        }
    }
}

/// How the key of a new item lies.
#[derive(Clone, Copy, Debug)]
pub enum NewKey<'a> {
    Inline(&'a [u8]),
    Blob(BlobId, u64),
}

impl NewKey<'_> {
    fn place_bytes(&self) -> usize {
        match self {
            NewKey::Inline(b) => b.len(),
            NewKey::Blob(..) => KEY_BLOB_BYTES,
        }
    }
}

/// Bytes of an item with this key, value and words.
#[inline]
#[must_use]
pub fn item_bytes(key: &NewKey<'_>, value: &NewValue<'_>, words: &Words) -> usize {
    HEADER_BYTES + words.bytes() + key.place_bytes() + value.place_bytes()
}

/// Longest value that lies in the item of a key of `key_len` bytes; a longer one is a blob. Deadline and marks may come later.
#[inline]
#[must_use]
pub fn value_inline_max(key_len: usize) -> usize {
    CHUNK_BYTES_MAX
        - HEADER_BYTES
        - EXPIRY_BYTES
        - MARKS_BYTES
        - if key_len > KEY_INLINE_MAX { KEY_BLOB_BYTES } else { key_len }
}

/// Writes an item.
///
/// # Safety
/// `h` is a chunk of `slab` of at least `item_bytes(key, value, words)` bytes that nobody reads, and neither `key` nor
/// `value` lie in it.
#[inline]
pub unsafe fn write(slab: &mut Slab, h: Handle, clock: u32, key: NewKey<'_>, value: NewValue<'_>, words: Words) {
    let (key_len, value_len) = (key.place_bytes(), value.place_bytes());
    debug_assert!(key_len <= KEY_INLINE_MAX && value_len <= CHUNK_BYTES_MAX);
    let key_flag = if matches!(key, NewKey::Blob(..)) { flag::KEY_BLOB } else { 0 };
    #[expect(clippy::cast_possible_truncation, reason = "both fit a chunk, whose size fits 16 bits (const assert)")]
    let header = Header {
        kind: value.kind(),
        encoding: value.encoding(),
        flags: key_flag | words.flags(),
        clock,
        key_len: key_len as u16,
        value_len: value_len as u16,
    };
    // SAFETY: the chunk is long enough for header, words, key and value (caller), in this order.
    unsafe {
        let at = slab.ptr(h).as_ptr();
        at.cast::<u64>().write(header.pack().to_le());
        let at = words.write(at.add(HEADER_BYTES));
        match key {
            NewKey::Inline(b) => copy_short(b, at),
            NewKey::Blob(id, hash) => {
                at.cast::<u64>().write_unaligned(u64::from(id.bits()).to_le());
                at.add(8).cast::<u64>().write_unaligned(hash.to_le());
            }
        }
        value.write(at.add(key_len));
    }
}

/// Bytes of the item if its value became `value`; the words stay.
#[inline(always)]
#[must_use]
pub fn bytes_with_value(header: Header, value: &NewValue<'_>) -> usize {
    header.item_bytes() - usize::from(header.value_len) + value.place_bytes()
}

/// Bytes of the item if it had these words.
#[must_use]
pub fn bytes_with_words(header: Header, words: &Words) -> usize {
    header.item_bytes() - header.words_bytes() + words.bytes()
}

/// Copies an item with other words in front of its key.
///
/// # Safety
/// `from` is a live item of `slab`; `to` is another chunk with room for the copy, that nobody reads.
pub unsafe fn copy_with_words(slab: &mut Slab, from: Handle, to: Handle, words: Words) {
    // SAFETY: the source is a live item (caller); its body of key and value is contiguous; the target has room (caller).
    unsafe {
        let item = Item::at(slab, from);
        let mut header = item.header();
        let body = slab.ptr(from).as_ptr().add(HEADER_BYTES + header.words_bytes());
        let body_bytes = usize::from(header.key_len) + usize::from(header.value_len);
        header.flags = header.flags & !(flag::EXPIRY | flag::MARKS) | words.flags();
        let at = slab.ptr(to).as_ptr();
        at.cast::<u64>().write(header.pack().to_le());
        let at = words.write(at.add(HEADER_BYTES));
        std::ptr::copy_nonoverlapping(body, at, body_bytes);
    }
}

/// Bytes of the item if its key became `key`, with these words.
#[must_use]
pub fn bytes_with_key(header: Header, key: &NewKey<'_>, words: &Words) -> usize {
    HEADER_BYTES + words.bytes() + key.place_bytes() + usize::from(header.value_len)
}

/// Copies an item with another key, other words and another access clock: the copy owns what the value owns outside of its chunk.
///
/// # Safety
/// `from` is a live item of `slab`; `to` is another chunk with room for the copy, that nobody reads; `key` lies in neither.
pub unsafe fn copy_value_with_key(
    slab: &mut Slab,
    from: Handle,
    to: Handle,
    clock: u32,
    key: NewKey<'_>,
    words: Words,
) {
    // SAFETY: a live item (caller).
    let item = unsafe { Item::at(slab, from) };
    let (old, value) = (item.header(), item.value_place().as_ptr());
    // SAFETY: the value's place lies in the chunk `from`, which `write` does not touch, as `to` is another one.
    let place = unsafe { std::slice::from_raw_parts(value, usize::from(old.value_len)) };
    // SAFETY: the caller's room; key and value lie outside of `to`. The header then says what the bytes of the value are.
    unsafe {
        write(slab, to, clock, key, NewValue::Raw(place), words);
        let new = Item::at(slab, to).header();
        let flags = new.flags | old.flags & flag::MODIFIED;
        overwrite_header(slab, to, Header { kind: old.kind, encoding: old.encoding, flags, ..new });
    }
}

/// Copies an item with another value, other words and another access clock.
///
/// # Safety
/// `from` is a live item of `slab`; `to` is another chunk with room for the copy, that nobody reads; `value` lies in neither.
pub unsafe fn copy_key_with_value(
    slab: &mut Slab,
    from: Handle,
    to: Handle,
    clock: u32,
    value: NewValue<'_>,
    words: Words,
) {
    // SAFETY: a live item (caller).
    let item = unsafe { Item::at(slab, from) };
    let (blob_key, key_ptr) = (item.has_key_blob(), item.key_place().as_ptr());
    // SAFETY: the key's place lies in the chunk `from`, which `write` does not touch, as `to` is another one.
    let place = unsafe { std::slice::from_raw_parts(key_ptr, item.key_place_bytes()) };
    let key = if blob_key { NewKey::Blob(blob_at(place), word_at(&place[8..])) } else { NewKey::Inline(place) };
    // SAFETY: the caller's room; key and value lie outside of `to`.
    unsafe { write(slab, to, clock, key, value, words) }
}

/// Makes an item one that only views see, and another chunk its successor: blobs go over, and pins of them stay behind. On error nothing has
/// changed. (A container's view is its pin.)
///
/// # Safety
/// `from` is a live item of `slab`, whose containers these are; `to` is another chunk of the same class, that nobody reads.
pub unsafe fn succeed(
    slab: &mut Slab,
    containers: &mut Containers,
    from: Handle,
    to: Handle,
) -> Result<(), AllocError> {
    // SAFETY: a live item (caller).
    let item = unsafe { Item::at(slab, from) };
    let bytes = item.header().item_bytes();
    let value = item.value_blob().map(|id| (item.value_place().as_ptr(), id));
    let container = item.container().map(|id| (item.value_place().as_ptr(), id));
    let key = item.has_key_blob().then(|| (item.key_place().as_ptr(), item.key_blob().0));
    let value_pin = value.map(|(_, id)| slab.blob_pin(id)).transpose()?;
    let key_pin = match key.map(|(_, id)| slab.blob_pin(id)).transpose() {
        Ok(pin) => pin,
        Err(error) => {
            value_pin.into_iter().for_each(|pin| slab.blob_release(pin));
            return Err(error);
        }
    };
    let pin = container.map(|(place, id)| (place, containers.pin(slab, id)));
    // SAFETY: both chunks have room for the item, and are two (caller). The places of value and key, where the numbers of their blobs
    // and of a container stand, lie in `from`, which nobody reads meanwhile.
    unsafe {
        slab.ptr(from).copy_to_nonoverlapping(slab.ptr(to), bytes);
        if let Some((place, pin)) = pin {
            place.cast_mut().cast::<[u8; 4]>().write_unaligned(pin.bits().to_le_bytes());
        }
        for ((place, _), pin) in value.zip(value_pin).into_iter().chain(key.zip(key_pin)) {
            place.cast_mut().cast::<[u8; 4]>().write_unaligned(pin.bits().to_le_bytes());
        }
    }
    Ok(())
}

/// Gives back what the item owns outside of its chunk: the blobs of a long value and a long key.
///
/// # Safety
/// `h` is a live item of `slab` that nobody uses afterwards but to free its chunk.
#[inline]
pub unsafe fn release_blobs(slab: &mut Slab, h: Handle) {
    // SAFETY: a live item (caller).
    let item = unsafe { Item::at(slab, h) };
    if let Some(blob) = item.value_blob() {
        slab.blob_release(blob);
    }
    // SAFETY: as above; the value's blob being gone does not matter to the key's place.
    unsafe { release_key_blob(slab, h) }
}

/// Gives back the blob of a long key, and leaves the value to who took it over.
///
/// # Safety
/// As for [`release_blobs`].
pub unsafe fn release_key_blob(slab: &mut Slab, h: Handle) {
    // SAFETY: a live item (caller).
    let item = unsafe { Item::at(slab, h) };
    if item.has_key_blob() {
        let (blob, _) = item.key_blob();
        slab.blob_release(blob);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sixteen_and_eight_fill_thirty_two() {
        assert_eq!(item_bytes(&NewKey::Inline(&[0; 16]), &NewValue::Raw(&[0; 8]), &Words::default()), 32);
    }

    proptest! {
        #[test]
        fn header_round_trip(kind in 0usize..5, enc in 0u8..4, flags in 0..=FLAG_BITS, clock in 0..=access::CLOCK_MAX, key_len: u16, value_len: u16) {
            let encoding = [Encoding::Raw, Encoding::Int, Encoding::Blob, Encoding::Container][usize::from(enc)];
            let kind = [Type::String, Type::List, Type::Set, Type::Hash, Type::Zset][kind];
            let h = Header { kind, encoding, flags, clock, key_len, value_len };
            prop_assert_eq!(Header::unpack(h.pack()), h);
        }

        #[test]
        fn expiry_round_trip(deadline_ms in 0..=DEADLINE_MAX_MS, armed: u16) {
            let e = Expiry { deadline_ms, armed };
            prop_assert_eq!(Expiry::unpack(e.pack()), e);
        }

        #[test]
        fn marks_round_trip(flags: u32, state: u32, cas: u64) {
            let marks = Marks { flags, state, cas };
            prop_assert_eq!(Marks::unpack(marks.pack()), marks);
        }

        #[test]
        fn same_bytes_is_equality(a in proptest::collection::vec(0u8..3, 0..40), b in proptest::collection::vec(0u8..3, 0..40), same: bool) {
            let b = if same { a.clone() } else { b };
            prop_assert_eq!(same_bytes(&a, &b), a == b);
        }
    }
}
