//! Which encoding Redis 7.2 would have given a list: a listpack, until one would exceed `list-max-listpack-size`; then a quicklist, until it has
//! shrunk to half of that. Owns the arithmetic of listpack sizes; knows nothing of how a list is kept here.
//!
//! Redis goes back when one node of its quicklist is left, and that is half full; how it has cut a list into nodes is not known here, so half
//! the size suffices.

use super::block::Piece;
use crate::base::entry::Entry;
use dolmen_slab::Slab;

/// Head and end of a listpack.
pub(super) const EMPTY_BYTES: usize = 7;
/// An entry at least, with its back length.
const ENTRY_BYTES_MIN: usize = 2;
/// Bound of a node whose entries are counted.
const COUNTED_BYTES_MAX: usize = 8192;
const BYTES_MAX: [usize; 5] = [4096, 8192, 16384, 32768, 65536];

/// How large a listpack may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound {
    bytes: usize,
    count: usize,
}

impl Bound {
    /// Of the value of `list-max-listpack-size`: a number of entries, or, negative, one of five sizes.
    pub(super) fn new(list_max_listpack_size: i64) -> Bound {
        match usize::try_from(list_max_listpack_size) {
            Ok(count) => Bound { bytes: COUNTED_BYTES_MAX, count: count.max(1) },
            Err(_) => {
                let index = usize::try_from(list_max_listpack_size.unsigned_abs() - 1).unwrap_or(usize::MAX);
                Bound { bytes: BYTES_MAX[index.min(BYTES_MAX.len() - 1)], count: usize::MAX }
            }
        }
    }

    /// Below which a list becomes a listpack again.
    pub(super) fn half(self) -> Bound {
        if self.count == usize::MAX {
            Bound { bytes: self.bytes / 2, ..self }
        } else {
            Bound { count: self.count / 2, ..self }
        }
    }

    pub(super) fn is_exceeded(self, bytes: usize, count: usize) -> bool {
        bytes > self.bytes || count > self.count
    }

    /// Whatever so many elements are, they are too many.
    pub(super) fn is_exceeded_by_count(self, count: usize) -> bool {
        self.is_exceeded(EMPTY_BYTES.saturating_add(count.saturating_mul(ENTRY_BYTES_MIN)), count)
    }
}

/// Bytes of an entry of a listpack.
pub(super) fn entry_bytes(entry: Entry<'_>) -> usize {
    let bytes = match entry {
        Entry::Bytes(text) => return string_bytes(text.len()),
        Entry::Int(0..=127) => 1,
        Entry::Int(-4096..=4095) => 2,
        Entry::Int(value) => match 64 - (value ^ value >> 63).leading_zeros() {
            0..=15 => 3,
            16..=23 => 4,
            24..=31 => 5,
            _ => 9,
        },
    };
    bytes + 1
}

fn string_bytes(len: usize) -> usize {
    let bytes = match len {
        0..64 => 1 + len,
        64..4096 => 2 + len,
        _ => 5 + len,
    };
    bytes
        + match bytes {
            0..=127 => 1,
            128..0x4000 => 2,
            0x4000..0x20_0000 => 3,
            0x20_0000..0x1000_0000 => 4,
            _ => 5,
        }
}

pub(super) fn piece_bytes(slab: &Slab, piece: Piece<'_>) -> usize {
    match piece {
        Piece::Entry(entry) => entry_bytes(entry),
        Piece::Cell(cell) => string_bytes(slab.blob_len(cell.blob(slab))),
    }
}

/// What a big list knows of its listpack: how large it would be is followed as long as that may matter.
#[derive(Debug)]
pub(super) struct Measure {
    /// It would be a quicklist.
    pub(super) exceeded: bool,
    /// `usize::MAX`: not known.
    bytes: usize,
}

/// From here on the size is not followed: a multiple of the largest bound.
const FOLLOWED_BYTES_MAX: usize = 4 * BYTES_MAX[4];

impl Measure {
    pub(super) fn new() -> Measure {
        Measure { exceeded: false, bytes: EMPTY_BYTES }
    }

    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.bytes != usize::MAX
    }

    pub(super) fn bytes(&self) -> Option<usize> {
        self.is_known().then_some(self.bytes)
    }

    pub(super) fn add(&mut self, entry_bytes: usize) {
        self.bytes += entry_bytes;
        if self.exceeded && self.bytes > FOLLOWED_BYTES_MAX {
            self.forget();
        }
    }

    pub(super) fn sub(&mut self, entry_bytes: usize) {
        self.bytes -= entry_bytes;
    }

    pub(super) fn forget(&mut self) {
        self.bytes = usize::MAX;
    }

    /// Found out by adding up all entries.
    pub(super) fn set(&mut self, entries_bytes: usize) -> usize {
        self.bytes = EMPTY_BYTES + entries_bytes;
        self.bytes
    }
}

/// Bytes of the listpack of a run of entries.
pub(super) fn run_bytes(run: &[u8]) -> usize {
    EMPTY_BYTES + crate::base::entry::Entries::new(run).map(entry_bytes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_the_directive() {
        let bound = |value| {
            let Bound { bytes, count } = Bound::new(value);
            (bytes, count)
        };
        assert_eq!(bound(-1), (4096, usize::MAX));
        assert_eq!(bound(-2), (8192, usize::MAX));
        assert_eq!(bound(-5), (65536, usize::MAX));
        assert_eq!(bound(i64::MIN), (65536, usize::MAX));
        assert_eq!(bound(0), (8192, 1));
        assert_eq!(bound(3), (8192, 3));
    }

    /// Sizes that the documentation of listpacks gives.
    #[test]
    fn sizes_of_entries() {
        for (value, bytes) in
            [(0, 2), (127, 2), (128, 3), (-1, 3), (-4096, 3), (4095, 3), (4096, 4), (-32768, 4), (32767, 4), (32768, 5)]
        {
            assert_eq!(entry_bytes(Entry::Int(value)), bytes, "{value}");
        }
        for (value, bytes) in
            [(-8_388_608, 5), (8_388_607, 5), (8_388_608, 6), (-2_147_483_648, 6), (2_147_483_648, 10)]
        {
            assert_eq!(entry_bytes(Entry::Int(value)), bytes, "{value}");
        }
        for (len, bytes) in [(0, 2), (63, 65), (64, 67), (125, 128), (126, 130), (4095, 4099), (4096, 4103)] {
            assert_eq!(string_bytes(len), bytes, "{len}");
        }
    }
}
