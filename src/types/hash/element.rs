//! An element of a big hash: a field with its value and perhaps a deadline, in one chunk of the slab. Owns its layout; knows nothing of tables.
//!
//! ```text
//!  byte 0     2              8           12
//!      ┌──────┬──────────────┬───────────┬─────────┬─────────┬────┐
//!      │ head │ deadline     │ place     │ field   │ value   │ 0… │      head, bit 0      12      13      14      15
//!      │ 2    │ 6, if timed  │ 4         │         │         │    │           │ units   │ timed │ field │ value │ 0 │
//!      └──────┴──────────────┴───────────┴─────────┴─────────┴────┘                             └─ is a blob ─┘
//!      └───────────────────── units of 8 bytes ───────────────────┘
//! ```
//! Field and value are entries (`base::entry`). What would be too long is a blob: its number in 4 bytes, of a field followed by the hash. `place`
//! says where the index of deadlines keeps the element; it is no part of what views show. A field and a value of 8 bytes take 24.

use super::memory;
use crate::base::entry::{self, Entry};
use crate::base::hash::hash_key;
use crate::base::int;
use dolmen_slab::{AllocError, BlobId, CHUNK_BYTES_MAX, Handle, Slab};
use static_assertions::const_assert;

const HEAD_BYTES: usize = 2;
const DEADLINE_BYTES: usize = 6;
const TIME_BYTES: usize = DEADLINE_BYTES + 4;
const FIELD_BLOB_BYTES: usize = 12;
const VALUE_BLOB_BYTES: usize = 4;
const UNIT_BYTES: usize = 8;
/// Latest deadline that an element can hold, in Unix milliseconds.
pub const DEADLINE_MAX_MS: u64 = (1 << (8 * DEADLINE_BYTES)) - 1;
/// Longest entry of a field that lies in its element.
const FIELD_INLINE_MAX: usize = CHUNK_BYTES_MAX / 2;
const_assert!(HEAD_BYTES + TIME_BYTES + FIELD_INLINE_MAX + VALUE_BLOB_BYTES <= CHUNK_BYTES_MAX);
const_assert!(CHUNK_BYTES_MAX / UNIT_BYTES <= Head::UNITS as usize);

/// Bytes of a field or a value.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    Entry(Entry<'a>),
    /// Longer than what lies in an element.
    Blob(BlobId),
}

impl<'a> Text<'a> {
    /// Length in bytes.
    #[must_use]
    pub fn len(self, slab: &Slab) -> usize {
        match self {
            Text::Entry(entry) => entry.text_len(),
            Text::Blob(id) => slab.blob_len(id),
        }
    }

    /// Appends the bytes.
    pub fn append(self, slab: &Slab, into: &mut Vec<u8>) {
        match self {
            Text::Entry(entry) => into.extend_from_slice(entry.text(&mut [0; int::MAX_DIGITS])),
            Text::Blob(id) => {
                (0..slab.blob_segments(id)).for_each(|i| into.extend_from_slice(slab.blob_segment(id, i)))
            }
        }
    }

    /// Appends them as an entry.
    pub fn append_entry(self, slab: &Slab, run: &mut Vec<u8>) {
        match self {
            Text::Entry(entry) => entry.put(run),
            Text::Blob(id) => {
                entry::put_string_head(run, slab.blob_len(id));
                self.append(slab, run);
            }
        }
    }

    fn blob(self) -> Option<BlobId> {
        match self {
            Text::Entry(_) => None,
            Text::Blob(id) => Some(id),
        }
    }

    fn is(self, slab: &Slab, text: &[u8]) -> bool {
        match self {
            Text::Entry(entry) => entry.is(text),
            Text::Blob(id) => {
                let mut rest = text;
                slab.blob_len(id) == text.len()
                    && (0..slab.blob_segments(id)).all(|i| {
                        let segment = slab.blob_segment(id, i);
                        let (head, tail) = rest.split_at(segment.len());
                        rest = tail;
                        head == segment
                    })
            }
        }
    }
}

/// A field that is looked for.
#[derive(Clone, Copy)]
pub(super) struct Needle<'a> {
    pub entry: Entry<'a>,
}

impl<'a> Needle<'a> {
    #[inline]
    pub fn new(field: &'a [u8]) -> Needle<'a> {
        Needle { entry: Entry::of(field) }
    }

    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        hash_of(seed, self.entry)
    }
}

/// Hash of a field. (An integer may hash as a string of 8 bytes does, which costs a comparison.)
#[inline]
fn hash_of(seed: u64, field: Entry<'_>) -> u64 {
    match field {
        Entry::Bytes(bytes) => hash_key(seed, bytes),
        Entry::Int(value) => hash_key(seed, &value.to_le_bytes()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    /// Length of the chunk in units of 8 bytes.
    units: usize,
    timed: bool,
    field_blob: bool,
    value_blob: bool,
}

impl Head {
    const UNITS: u16 = (1 << 12) - 1;
    const TIMED: u16 = 1 << 12;
    const FIELD_BLOB: u16 = 1 << 13;
    const VALUE_BLOB: u16 = 1 << 14;

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most those of a chunk (const assert)")]
    fn pack(self) -> [u8; HEAD_BYTES] {
        let flag = |is: bool, bit: u16| if is { bit } else { 0 };
        let flags = flag(self.timed, Head::TIMED)
            | flag(self.field_blob, Head::FIELD_BLOB)
            | flag(self.value_blob, Head::VALUE_BLOB);
        (self.units as u16 | flags).to_le_bytes()
    }

    #[inline]
    fn unpack(bytes: [u8; HEAD_BYTES]) -> Head {
        let word = u16::from_le_bytes(bytes);
        Head {
            units: usize::from(word & Head::UNITS),
            timed: word & Head::TIMED != 0,
            field_blob: word & Head::FIELD_BLOB != 0,
            value_blob: word & Head::VALUE_BLOB != 0,
        }
    }

    #[inline]
    fn chunk_bytes(self) -> usize {
        self.units * UNIT_BYTES
    }

    #[inline]
    fn field_at(self) -> usize {
        HEAD_BYTES + if self.timed { TIME_BYTES } else { 0 }
    }
}

#[inline]
fn head(slab: &Slab, h: Handle) -> Head {
    let bytes = memory::bytes(slab, h, HEAD_BYTES);
    Head::unpack([bytes[0], bytes[1]])
}

/// A live element.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    head: Head,
    /// The whole chunk.
    bytes: &'a [u8],
}

impl<'a> Element<'a> {
    /// Of a handle that came from [`create`] or [`with_deadline`], and whose element was not freed since.
    #[inline]
    pub fn at(slab: &'a Slab, h: Handle) -> Element<'a> {
        let head = head(slab, h);
        Element { head, bytes: memory::bytes(slab, h, head.chunk_bytes()) }
    }

    /// In Unix milliseconds; 0: none.
    #[inline]
    pub fn deadline_ms(&self) -> u64 {
        if !self.head.timed {
            return 0;
        }
        let mut word = [0; 8];
        word[..DEADLINE_BYTES].copy_from_slice(&self.bytes[HEAD_BYTES..HEAD_BYTES + DEADLINE_BYTES]);
        u64::from_le_bytes(word)
    }

    /// Where the index of deadlines has it; it has one.
    #[inline]
    pub fn place(&self) -> u32 {
        debug_assert!(self.head.timed);
        number(self.bytes, HEAD_BYTES + DEADLINE_BYTES)
    }

    #[inline]
    fn value_at(&self) -> usize {
        let at = self.head.field_at();
        at + if self.head.field_blob { FIELD_BLOB_BYTES } else { entry::span(&self.bytes[at..]) }
    }

    #[inline]
    fn value_bytes(&self) -> usize {
        if self.head.value_blob { VALUE_BLOB_BYTES } else { entry::span(&self.bytes[self.value_at()..]) }
    }

    #[inline]
    pub fn field(&self) -> Text<'a> {
        text(self.bytes, self.head.field_at(), self.head.field_blob)
    }

    #[inline]
    pub fn value(&self) -> Text<'a> {
        text(self.bytes, self.value_at(), self.head.value_blob)
    }

    #[inline]
    pub fn is_field(&self, slab: &Slab, needle: &Needle<'_>) -> bool {
        match self.field() {
            Text::Entry(field) => field == needle.entry,
            blob @ Text::Blob(_) => matches!(needle.entry, Entry::Bytes(bytes) if blob.is(slab, bytes)),
        }
    }

    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        match self.field() {
            Text::Entry(field) => hash_of(seed, field),
            Text::Blob(_) => {
                let at = self.head.field_at();
                u64::from(number(self.bytes, at + 4)) | u64::from(number(self.bytes, at + 8)) << 32
            }
        }
    }

    /// Appends field, value and deadline as entries.
    pub fn append_to(&self, slab: &Slab, run: &mut Vec<u8>) {
        let (at, end) = (self.head.field_at(), self.value_at());
        if self.head.field_blob {
            self.field().append_entry(slab, run)
        } else {
            run.extend_from_slice(&self.bytes[at..end])
        }
        if self.head.value_blob {
            self.value().append_entry(slab, run);
        } else {
            run.extend_from_slice(&self.bytes[end..end + self.value_bytes()]);
        }
        entry::put_int(run, self.deadline_ms().cast_signed());
    }

    /// Memory of the chunk and of its blobs.
    #[inline]
    pub fn held_bytes(&self, slab: &Slab) -> u64 {
        let mut bytes = Slab::class_bytes(self.head.chunk_bytes()) as u64;
        for text in [self.field(), self.value()] {
            bytes += text.blob().map_or(0, |id| slab.blob_bytes(id));
        }
        bytes
    }
}

#[inline]
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn text(bytes: &[u8], at: usize, is_blob: bool) -> Text<'_> {
    if is_blob {
        return Text::Blob(BlobId::from_bits(number(bytes, at)));
    }
    Text::Entry(entry::split(&bytes[at..]).expect("an element has a field and a value").0)
}

/// A field or a value on its way into an element: a blob is made already, and is the element's once that is there.
#[derive(Clone, Copy)]
enum Part<'a> {
    Entry(Entry<'a>),
    Blob(BlobId),
}

impl<'a> Part<'a> {
    fn make(slab: &mut Slab, entry: Entry<'a>, bytes_max: usize) -> Result<Part<'a>, AllocError> {
        if entry.encoded_bytes() <= bytes_max {
            return Ok(Part::Entry(entry));
        }
        let Entry::Bytes(bytes) = entry else { unreachable!("a number is short") };
        let id = slab.blob_new(bytes.len())?;
        if let Err(error) = slab.blob_append(id, bytes) {
            slab.blob_release(id);
            return Err(error);
        }
        Ok(Part::Blob(id))
    }

    fn drop(self, slab: &mut Slab) {
        if let Part::Blob(id) = self {
            slab.blob_release(id);
        }
    }

    fn is_blob(self) -> bool {
        matches!(self, Part::Blob(_))
    }

    fn bytes(self, blob_bytes: usize) -> usize {
        match self {
            Part::Entry(entry) => entry.encoded_bytes(),
            Part::Blob(_) => blob_bytes,
        }
    }

    fn write(self, to: &mut [u8]) {
        match self {
            Part::Entry(entry) => _ = entry.write(to),
            Part::Blob(id) => to[..4].copy_from_slice(&id.bits().to_le_bytes()),
        }
    }
}

/// Longest entry of a value that lies in an element beside a field of that many bytes.
fn value_inline_max(field_bytes: usize) -> usize {
    CHUNK_BYTES_MAX - HEAD_BYTES - TIME_BYTES - field_bytes
}

/// A new element. A deadline of 0 is none; its place is to be set.
///
/// # Errors
/// The slab is full.
pub(super) fn create(
    slab: &mut Slab,
    seed: u64,
    needle: &Needle<'_>,
    value: &[u8],
    deadline_ms: u64,
) -> Result<Handle, AllocError> {
    let field = Part::make(slab, needle.entry, FIELD_INLINE_MAX)?;
    let field_bytes = field.bytes(FIELD_BLOB_BYTES);
    let value = match Part::make(slab, Entry::of(value), value_inline_max(field_bytes)) {
        Ok(value) => value,
        Err(error) => {
            field.drop(slab);
            return Err(error);
        }
    };
    let timed = deadline_ms != 0;
    let mut head = Head { units: 0, timed, field_blob: field.is_blob(), value_blob: value.is_blob() };
    let (field_at, value_at) = (head.field_at(), head.field_at() + field_bytes);
    head.units = (value_at + value.bytes(VALUE_BLOB_BYTES)).div_ceil(UNIT_BYTES);
    let h = match memory::alloc(slab, head.chunk_bytes()) {
        Ok(h) => h,
        Err(error) => {
            field.drop(slab);
            value.drop(slab);
            return Err(error);
        }
    };
    let hash = if head.field_blob { needle.hash(seed) } else { 0 };
    let bytes = memory::bytes_mut(slab, h, head.chunk_bytes());
    bytes[..HEAD_BYTES].copy_from_slice(&head.pack());
    if timed {
        write_deadline(bytes, deadline_ms);
    }
    field.write(&mut bytes[field_at..]);
    if head.field_blob {
        bytes[field_at + 4..value_at].copy_from_slice(&hash.to_le_bytes());
    }
    value.write(&mut bytes[value_at..]);
    Ok(h)
}

fn write_deadline(bytes: &mut [u8], deadline_ms: u64) {
    debug_assert!(deadline_ms <= DEADLINE_MAX_MS);
    bytes[HEAD_BYTES..HEAD_BYTES + DEADLINE_BYTES].copy_from_slice(&deadline_ms.to_le_bytes()[..DEADLINE_BYTES]);
}

/// Writes another value over the one it has, if a chunk of the same class holds both and neither is a blob. No view may see the element.
#[inline]
pub(super) fn overwrite_value(slab: &mut Slab, h: Handle, value: &[u8]) -> bool {
    let value = Entry::of(value);
    let element = Element::at(slab, h);
    let (mut head, at) = (element.head, element.value_at());
    let new_bytes = value.encoded_bytes();
    let units = (at + new_bytes).div_ceil(UNIT_BYTES);
    let fits = at + new_bytes <= CHUNK_BYTES_MAX - TIME_BYTES
        && (units == head.units || Slab::class_bytes(units * UNIT_BYTES) == Slab::class_bytes(head.chunk_bytes()));
    if head.value_blob || !fits {
        return false;
    }
    head.units = units;
    let bytes = memory::bytes_mut(slab, h, head.chunk_bytes());
    bytes[..HEAD_BYTES].copy_from_slice(&head.pack());
    value.write(&mut bytes[at..]);
    true
}

/// Writes another deadline over the one that a timed element has. No view may see the element.
pub(super) fn overwrite_deadline(slab: &mut Slab, h: Handle, deadline_ms: u64) {
    debug_assert!(head(slab, h).timed && deadline_ms != 0);
    write_deadline(memory::bytes_mut(slab, h, HEAD_BYTES + TIME_BYTES), deadline_ms);
}

/// The index of deadlines keeps a timed element at this place.
#[inline]
pub(super) fn set_place(slab: &mut Slab, h: Handle, place: u32) {
    debug_assert!(head(slab, h).timed);
    let at = HEAD_BYTES + DEADLINE_BYTES;
    memory::bytes_mut(slab, h, HEAD_BYTES + TIME_BYTES)[at..].copy_from_slice(&place.to_le_bytes());
}

/// Another element of the same field and value with this deadline (0: none), its place to be set. Blobs are duplicated, so that both
/// elements are whole.
///
/// # Errors
/// The slab is full.
pub(super) fn with_deadline(slab: &mut Slab, from: Handle, deadline_ms: u64) -> Result<Handle, AllocError> {
    let element = Element::at(slab, from);
    let old = element.head;
    let (old_at, value_at, value_bytes) = (old.field_at(), element.value_at(), element.value_bytes());
    let (field_id, value_id) = (element.field().blob(), element.value().blob());
    let mut head = Head { timed: deadline_ms != 0, ..old };
    let new_at = head.field_at();
    head.units = (new_at + (value_at - old_at) + value_bytes).div_ceil(UNIT_BYTES);
    let field = duplicate(slab, field_id)?;
    let copied = duplicate(slab, value_id).and_then(|value| match memory::alloc(slab, head.chunk_bytes()) {
        Ok(h) => Ok((h, value)),
        Err(error) => {
            value.inspect(|id| slab.blob_release(*id));
            Err(error)
        }
    });
    let (h, value) = match copied {
        Ok(copied) => copied,
        Err(error) => {
            field.inspect(|id| slab.blob_release(*id));
            return Err(error);
        }
    };
    let (source, bytes) = memory::pair(slab, (from, old.chunk_bytes()), (h, head.chunk_bytes()));
    bytes[..HEAD_BYTES].copy_from_slice(&head.pack());
    if head.timed {
        write_deadline(bytes, deadline_ms);
    }
    let len = value_at - old_at + value_bytes;
    bytes[new_at..new_at + len].copy_from_slice(&source[old_at..old_at + len]);
    for (id, at) in [(field, new_at), (value, new_at + value_at - old_at)] {
        if let Some(id) = id {
            bytes[at..at + 4].copy_from_slice(&id.bits().to_le_bytes());
        }
    }
    Ok(h)
}

fn duplicate(slab: &mut Slab, id: Option<BlobId>) -> Result<Option<BlobId>, AllocError> {
    id.map(|id| slab.blob_duplicate(id)).transpose()
}

/// Frees an element with its blobs.
pub(super) fn free(slab: &mut Slab, h: Handle) {
    let element = Element::at(slab, h);
    let bytes = element.head.chunk_bytes();
    let blobs = [element.field().blob(), element.value().blob()];
    memory::free(slab, h, bytes);
    blobs.into_iter().flatten().for_each(|id| slab.blob_release(id));
}
