//! Small hashes: a run of entries in the item of the key (`types::packed`). Owns the layout, and finding and changing fields in it; knows no bounds.
//!
//! ```text
//!  byte 0        1           3                  9
//!      ┌────────┬───────────┬──────────────────┬─────────────────────────────────────────┐
//!      │ state  │ count u16 │ earliest 6       │ field  value  deadline  field  value ... │      TIMED
//!      └────────┴───────────┴──────────────────┴─────────────────────────────────────────┘
//!      ┌────────┬───────────┬────────────────────────────┐
//!      │ state  │ count u16 │ field  value  field ...    │                                       not TIMED
//!      └────────┴───────────┴────────────────────────────┘
//! ```
//! `earliest` is the first deadline of all, 0 without any. A hash that has had a field with a deadline stays TIMED; a field without one then
//! has a deadline of 0, which is a byte.

use crate::base::entry::{self, Entry};
use crate::base::int;
use crate::types::packed::{self, HEAD_BYTES};

/// A bound of `hash-max-listpack-*` has been exceeded.
const EXCEEDED: u8 = 1;
/// Deadlines have their places.
const TIMED: u8 = 2;
const DEADLINE_BYTES: usize = 6;
const TIMED_HEAD_BYTES: usize = HEAD_BYTES + DEADLINE_BYTES;

#[inline]
pub(super) fn is_exceeded(packed: &[u8]) -> bool {
    packed::state(packed) & EXCEEDED != 0
}

#[inline]
pub(super) fn is_timed(packed: &[u8]) -> bool {
    packed::state(packed) & TIMED != 0
}

pub(super) fn set_exceeded(packed: &mut [u8]) {
    packed::set_state(packed, packed::state(packed) | EXCEEDED);
}

#[inline]
fn entries_at(packed: &[u8]) -> usize {
    if is_timed(packed) { TIMED_HEAD_BYTES } else { HEAD_BYTES }
}

/// The first deadline of all; `u64::MAX`: there is none.
#[inline]
pub(super) fn earliest_ms(packed: &[u8]) -> u64 {
    if !is_timed(packed) {
        return u64::MAX;
    }
    let mut word = [0; 8];
    word[..DEADLINE_BYTES].copy_from_slice(&packed[HEAD_BYTES..TIMED_HEAD_BYTES]);
    match u64::from_le_bytes(word) {
        0 => u64::MAX,
        earliest => earliest,
    }
}

pub(super) fn set_earliest(packed: &mut [u8]) {
    let earliest = fields(packed).map(|f| f.deadline_ms).filter(|&deadline| deadline != 0).min().unwrap_or(0);
    packed[HEAD_BYTES..TIMED_HEAD_BYTES].copy_from_slice(&earliest.to_le_bytes()[..DEADLINE_BYTES]);
}

/// Where a field lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    at: usize,
    value_at: usize,
    /// End of the value.
    deadline_at: usize,
    end: usize,
}

/// A field with its value. A deadline of 0 is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub name: Entry<'a>,
    pub value: Entry<'a>,
    pub deadline_ms: u64,
    spot: Spot,
}

impl<'a> Field<'a> {
    fn at(packed: &'a [u8], spot: Spot) -> Field<'a> {
        let entry = |from: usize, to: usize| entry::split(&packed[from..to]).map(|(entry, _)| entry);
        let (name, value) = (entry(spot.at, spot.value_at), entry(spot.value_at, spot.deadline_at));
        let (Some(name), Some(value)) = (name, value) else { unreachable!("a field has a name and a value") };
        let deadline_ms = match entry(spot.deadline_at, spot.end) {
            Some(Entry::Int(deadline)) => deadline.cast_unsigned(),
            _ => 0,
        };
        Field { name, value, deadline_ms, spot }
    }
}

pub(super) struct Fields<'a> {
    packed: &'a [u8],
    at: usize,
    timed: bool,
}

impl Fields<'_> {
    #[inline]
    fn next_spot(&mut self) -> Option<Spot> {
        let at = self.at;
        if at >= self.packed.len() {
            return None;
        }
        let value_at = at + entry::span(&self.packed[at..]);
        let deadline_at = value_at + entry::span(&self.packed[value_at..]);
        let end = if self.timed { deadline_at + entry::span(&self.packed[deadline_at..]) } else { deadline_at };
        self.at = end;
        Some(Spot { at, value_at, deadline_at, end })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        self.next_spot().map(|spot| Field::at(self.packed, spot))
    }
}

/// All fields, in the order in which they came.
pub(super) fn fields(packed: &[u8]) -> Fields<'_> {
    Fields { packed, at: entries_at(packed), timed: is_timed(packed) }
}

#[inline]
pub(super) fn find<'a>(packed: &'a [u8], name: Entry<'_>) -> Option<Field<'a>> {
    let mut fields = fields(packed);
    while let Some(spot) = fields.next_spot() {
        if entry::split(&packed[spot.at..]).is_some_and(|(entry, _)| entry == name) {
            return Some(Field::at(packed, spot));
        }
    }
    None
}

/// Bytes that a hash takes more with another field, and its first deadline if this is it.
pub(super) fn bytes_to_insert(packed: &[u8], name: Entry<'_>, value: Entry<'_>, deadline_ms: u64) -> usize {
    name.encoded_bytes() + value.encoded_bytes() + bytes_to_time(packed, deadline_ms)
}

/// Bytes that a hash takes more when a field gets a deadline that it had not.
pub(super) fn bytes_to_time(packed: &[u8], deadline_ms: u64) -> usize {
    let all =
        if deadline_ms != 0 && !is_timed(packed) { TIMED_HEAD_BYTES - HEAD_BYTES + packed::count(packed) } else { 0 };
    all + entry::INT_BYTES_MAX
}

/// Puts `bytes` bytes in place of those in `range`, to be written.
fn open(packed: &mut Vec<u8>, range: std::ops::Range<usize>, bytes: usize) {
    let (len, old) = (packed.len(), range.len());
    if bytes > old {
        packed.resize(len + bytes - old, 0);
    }
    packed.copy_within(range.end..len, range.start + bytes);
    packed.truncate(len + bytes - old);
}

/// Gives deadlines their places.
fn become_timed(packed: &mut Vec<u8>) {
    if is_timed(packed) {
        return;
    }
    let mut timed = Vec::with_capacity(packed.len() + TIMED_HEAD_BYTES - HEAD_BYTES + packed::count(packed));
    timed.extend_from_slice(&packed[..HEAD_BYTES]);
    timed.resize(TIMED_HEAD_BYTES, 0);
    for Field { spot, .. } in fields(packed) {
        timed.extend_from_slice(&packed[spot.at..spot.end]);
        entry::put_int(&mut timed, 0);
    }
    packed::set_state(&mut timed, packed::state(packed) | TIMED);
    *packed = timed;
}

/// Begins one that has had deadlines. What follows is [`append`]ed, and [`set_earliest`] ends it.
pub(super) fn begin_timed(packed: &mut Vec<u8>) {
    packed::begin(packed);
    become_timed(packed);
}

/// Adds a field that is not there.
pub(super) fn insert(packed: &mut Vec<u8>, name: Entry<'_>, value: Entry<'_>, deadline_ms: u64) {
    packed::begin(packed);
    if deadline_ms != 0 {
        become_timed(packed);
    }
    append(packed, name, value, deadline_ms);
    if deadline_ms != 0 {
        set_earliest(packed);
    }
}

/// The same, but for the earliest deadline; it has none, or there is a place for it.
pub(super) fn append(packed: &mut Vec<u8>, name: Entry<'_>, value: Entry<'_>, deadline_ms: u64) {
    packed::begin(packed);
    name.put(packed);
    value.put(packed);
    if is_timed(packed) {
        entry::put_int(packed, deadline_ms.cast_signed());
    }
    let count = packed::count(packed) + 1;
    packed::set_count(packed, count);
}

/// Gives a field another value.
pub(super) fn set_value(packed: &mut Vec<u8>, spot: Spot, value: Entry<'_>) {
    let bytes = value.encoded_bytes();
    open(packed, spot.value_at..spot.deadline_at, bytes);
    value.write(&mut packed[spot.value_at..spot.value_at + bytes]);
}

/// Gives a field another deadline, or none (0).
pub(super) fn set_deadline(packed: &mut Vec<u8>, name: Entry<'_>, deadline_ms: u64) {
    if deadline_ms == 0 && !is_timed(packed) {
        return;
    }
    become_timed(packed);
    let Some(Field { spot, .. }) = find(packed, name) else { return };
    let deadline = Entry::Int(deadline_ms.cast_signed());
    let bytes = deadline.encoded_bytes();
    open(packed, spot.deadline_at..spot.end, bytes);
    deadline.write(&mut packed[spot.deadline_at..spot.deadline_at + bytes]);
    set_earliest(packed);
}

pub(super) fn remove(packed: &mut Vec<u8>, spot: Spot) {
    open(packed, spot.at..spot.end, 0);
    let count = packed::count(packed) - 1;
    packed::set_count(packed, count);
    if is_timed(packed) {
        set_earliest(packed);
    }
}

/// Removes the fields whose deadlines have come; their number, and their names in `gone`.
pub(super) fn expire(packed: &mut Vec<u8>, now_ms: u64, mut gone: Option<&mut Vec<Box<[u8]>>>) -> usize {
    if earliest_ms(packed) > now_ms {
        return 0;
    }
    let mut rest = packed[..TIMED_HEAD_BYTES].to_vec();
    let mut left = 0;
    for Field { name, deadline_ms, spot, .. } in fields(packed) {
        if deadline_ms == 0 || deadline_ms > now_ms {
            rest.extend_from_slice(&packed[spot.at..spot.end]);
            left += 1;
        } else if let Some(gone) = &mut gone {
            gone.push(name.text(&mut [0; int::MAX_DIGITS]).into());
        }
    }
    let expired = packed::count(packed) - left;
    packed::set_count(&mut rest, left);
    set_earliest(&mut rest);
    *packed = rest;
    expired
}

impl Field<'_> {
    pub fn spot(&self) -> Spot {
        self.spot
    }
}
