//! Items that are written to where they lie. All but the chunk's length may change.
#![allow(unsafe_code)]

use super::super::access;
use super::{
    CHUNK_BYTES_MAX, Expiry, HEADER_BYTES, Header, INT_BYTES, Item, MARKS_BYTES, Marks, NewValue, RAW, Type, flag,
    word_at,
};
use crate::base::bytes::copy_short;
use dolmen_slab::{Handle, Slab};

/// The access clock in the packed header.
const CLOCK: u64 = (access::CLOCK_MAX as u64) << Header::CLOCK_SHIFT;

/// What is over when a value is written anew.
const PASSING: u64 = ((flag::MODIFIED | flag::HIT) as u64) << Header::FLAGS_SHIFT;

/// Overwrites the value of an item in place; key and words stay. The header is the item's, with the flags and the access clock
/// that it is to have.
///
/// # Safety
/// `h` is a live item of `slab` that no view sees (`Db::own`), whose chunk has room for the new value behind the key; the old value, if a blob,
/// was released; `value` does not lie in the chunk.
#[inline(always)]
pub unsafe fn overwrite_value(slab: &mut Slab, h: Handle, mut header: Header, value: NewValue<'_>) {
    header.kind = value.kind();
    header.encoding = value.encoding();
    #[expect(clippy::cast_possible_truncation, reason = "fits the chunk (caller)")]
    {
        header.value_len = value.place_bytes() as u16;
    }
    // SAFETY: the room was checked by the caller; the header word begins the chunk.
    unsafe {
        let base = slab.ptr(h).as_ptr();
        base.cast::<u64>().write(header.pack().to_le());
        value.write(base.add(HEADER_BYTES + header.words_bytes() + usize::from(header.key_len)));
    }
}

/// The bytes of a raw value, to be changed in place.
///
/// # Safety
/// `h` is a live item of `slab` that no view sees (`Db::own`), its value is raw.
pub unsafe fn raw_value_mut(slab: &mut Slab, h: Handle) -> &mut [u8] {
    // SAFETY: a live item (caller).
    let header = unsafe { Item::at(slab, h) }.header();
    let offset = HEADER_BYTES + header.words_bytes() + usize::from(header.key_len);
    // SAFETY: the value's place, inside the chunk; it is borrowed as long as the slab is, exclusively.
    unsafe { std::slice::from_raw_parts_mut(slab.ptr(h).as_ptr().add(offset), usize::from(header.value_len)) }
}

/// Overwrites the access clock in place.
///
/// # Safety
/// `h` is a live item of `slab`.
#[inline(always)]
pub unsafe fn overwrite_clock(slab: &mut Slab, h: Handle, clock: u32) {
    // SAFETY: the caller's.
    unsafe { overwrite_use(slab, h, clock, 0) }
}

/// The same, and sets `more` flags: [`flag::HIT`] or none.
///
/// # Safety
/// As `overwrite_clock`.
#[inline(always)]
pub unsafe fn overwrite_use(slab: &mut Slab, h: Handle, clock: u32, more: u8) {
    debug_assert!(more & !flag::HIT == 0);
    let new = u64::from(clock & access::CLOCK_MAX) << Header::CLOCK_SHIFT | u64::from(more) << Header::FLAGS_SHIFT;
    // SAFETY: a live item begins with its header (caller), and all that says how it lies stays.
    unsafe {
        let word = slab.ptr(h).cast::<u64>();
        word.write((u64::from_le(word.read()) & !CLOCK | new).to_le());
    }
}

/// Overwrites the value of a string with one of the same length, if it is raw, and the item has neither deadline nor marks; its clock shows
/// `clock` then. False: it is not so, nothing was done.
///
/// # Safety
/// `h` is a live item of `slab` that no view sees (`Db::own`); `bytes` does not lie in its chunk.
#[inline(always)]
pub unsafe fn overwrite_alike(slab: &mut Slab, h: Handle, clock: u32, bytes: &[u8]) -> bool {
    const KEY_LEN: u64 = (u16::MAX as u64) << Header::KEY_LEN_SHIFT;
    /// Everything but those, the key's length and the flag of a long key.
    const MASK: u64 = !(CLOCK | PASSING | KEY_LEN | (flag::KEY_BLOB as u64) << Header::FLAGS_SHIFT);
    let plain = Type::String as u64 | RAW << Header::ENCODING_SHIFT | (bytes.len() as u64) << Header::VALUE_LEN_SHIFT;
    // SAFETY: a live item (caller).
    let item = unsafe { Item::at(slab, h) };
    if item.word & MASK != plain || bytes.len() > CHUNK_BYTES_MAX {
        return false;
    }
    let word = item.word & !(CLOCK | PASSING) | u64::from(clock) << Header::CLOCK_SHIFT;
    let offset = HEADER_BYTES + item.key_place_bytes();
    // SAFETY: the header is the item's, but for its clock and two flags; the value's place lies behind the key and is as long as `bytes`.
    unsafe {
        slab.ptr(h).cast::<u64>().write(word.to_le());
        copy_short(bytes, slab.ptr(h).as_ptr().add(offset));
    }
    true
}

/// Adds to the value of a string that is an integer, and has no marks; its clock shows `clock` then. `None`: it has, or the sum is none; nothing
/// was done.
///
/// # Safety
/// `h` is a live item of `slab` that no view sees (`Db::own`), and its encoding is [`Encoding::Int`].
#[inline(always)]
pub unsafe fn add_alike(slab: &mut Slab, h: Handle, clock: u32, by: i64) -> Option<i64> {
    // SAFETY: a live item (caller).
    let item = unsafe { Item::at(slab, h) };
    if item.has_marks() {
        return None;
    }
    let sum = word_at(item.value_place()).cast_signed().checked_add(by)?;
    let word = item.word & !(CLOCK | PASSING) | u64::from(clock) << Header::CLOCK_SHIFT;
    let offset = item.key_offset() + item.key_place_bytes();
    // SAFETY: the header is the item's, but for its clock and two flags; the value's place lies behind the key and is 8 bytes long (caller).
    unsafe {
        let at = slab.ptr(h);
        at.cast::<u64>().write(word.to_le());
        at.as_ptr().add(offset).cast::<[u8; INT_BYTES]>().write_unaligned(sum.to_le_bytes());
    }
    Some(sum)
}

/// Overwrites the deadline word in place.
///
/// # Safety
/// `h` is a live item of `slab` with the flag [`flag::EXPIRY`]; if a view sees it (see `Db::own`), the deadline stays the same.
#[inline]
pub unsafe fn overwrite_expiry(slab: &mut Slab, h: Handle, expiry: Expiry) {
    // SAFETY: the word follows the header where the flag is set (caller).
    unsafe { slab.ptr(h).as_ptr().add(HEADER_BYTES).cast::<u64>().write(expiry.pack().to_le()) }
}

/// Overwrites the marks in place.
///
/// # Safety
/// `h` is a live item of `slab` with the flag [`flag::MARKS`]; if a view sees it (see `Db::own`), the client's flags stay the same.
#[inline]
pub unsafe fn overwrite_marks(slab: &mut Slab, h: Handle, marks: Marks) {
    // SAFETY: a live item (caller), whose marks lie in front of its key.
    unsafe {
        let at = Item::at(slab, h).key_offset() - MARKS_BYTES;
        slab.ptr(h).as_ptr().add(at).cast::<[u64; 2]>().write(marks.pack().map(u64::to_le));
    }
}

/// Overwrites flags and access clock.
///
/// # Safety
/// `h` is a live item of `slab`, and `header` is its own but for clock, [`flag::MODIFIED`] and [`flag::HIT`].
#[inline]
pub unsafe fn overwrite_header(slab: &mut Slab, h: Handle, header: Header) {
    // SAFETY: the word begins the chunk of a live item (caller).
    unsafe { slab.ptr(h).as_ptr().cast::<u64>().write(header.pack().to_le()) }
}
