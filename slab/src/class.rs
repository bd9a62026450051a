//! Size classes of chunks: pure arithmetic, checked by const asserts.
//!
//! Multiples of 8 from 16 to 256 bytes (31 classes), then eighths of a doubling to 16 KiB (48 classes). A class that is a multiple of
//! 64 bytes yields chunks aligned to 64, because spans start page-aligned and chunks lie at multiples of their size.

use crate::span::SPAN_BYTES;

/// Largest chunk in bytes; anything above is a blob.
pub const CHUNK_BYTES_MAX: usize = 16 * 1024;
/// Unit of a handle in bytes.
pub(crate) const UNIT_BYTES: usize = 8;
/// Smallest class in bytes.
const CHUNK_BYTES_MIN: usize = 16;
/// Up to here classes are 8 bytes apart.
const LINEAR_BYTES_MAX: usize = 256;
/// Number of classes that are 8 bytes apart.
const LINEAR: usize = LINEAR_BYTES_MAX / UNIT_BYTES - 1;
/// Number of classes.
pub(crate) const CLASSES: usize = LINEAR + 8 * (CHUNK_BYTES_MAX.ilog2() - LINEAR_BYTES_MAX.ilog2()) as usize;

/// A size class: below [`CLASSES`], by construction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class(u8);

impl Class {
    /// The class as a number below [`CLASSES`].
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Class of a request; `bytes` at most [`CHUNK_BYTES_MAX`]. 0 counts as 1.
#[inline(always)]
pub(crate) const fn of(bytes: usize) -> Class {
    // By table: half the instructions of computing it, and the lines in use are few.
    Class(CLASS_OF[bytes.div_ceil(UNIT_BYTES)])
}

/// Class by size in units.
static CLASS_OF: [u8; CHUNK_BYTES_MAX / UNIT_BYTES + 1] = {
    let mut classes = [0; CHUNK_BYTES_MAX / UNIT_BYTES + 1];
    let (mut units, mut class) = (0, 0);
    while units < classes.len() {
        if bytes(class as usize) < units * UNIT_BYTES {
            class += 1;
        }
        classes[units] = class;
        units += 1;
    }
    classes
};

/// Chunk size of a class in bytes.
pub(crate) const fn bytes(class: usize) -> usize {
    if class < LINEAR {
        CHUNK_BYTES_MIN + class * UNIT_BYTES
    } else {
        let doubling = (class - LINEAR) / 8;
        let eighth = (class - LINEAR) % 8 + 9;
        (LINEAR_BYTES_MAX << doubling) / 8 * eighth
    }
}

/// Chunks in a span of a class.
pub(crate) const fn capacity(class: usize) -> usize {
    SPAN_BYTES / bytes(class)
}

/// Multiplier for [`divide`]: 2^32 / units, rounded up.
pub(crate) const fn reciprocal(class: usize) -> u32 {
    let reciprocal = (1u64 << 32).div_ceil((bytes(class) / UNIT_BYTES) as u64);
    assert!(reciprocal <= u32::MAX as u64);
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    {
        reciprocal as u32
    }
}

/// `units / (units of the class)` for offsets inside a span, by multiplication. Exact because the rounding error of the
/// reciprocal, below 1, times the offset (< 2^13) stays below 2^32 / 2^11, and no class has more units.
#[inline(always)]
pub(crate) const fn divide(units: u32, reciprocal: u32) -> usize {
    ((units as u64 * reciprocal as u64) >> 32) as usize
}

const _: () = {
    assert!(CLASSES == 79 && bytes(0) == CHUNK_BYTES_MIN && bytes(CLASSES - 1) == CHUNK_BYTES_MAX);
    let mut class = 0;
    while class < CLASSES {
        assert!(bytes(class).is_multiple_of(UNIT_BYTES));
        assert!(of(bytes(class)).index() == class);
        assert!(class == 0 || of(bytes(class - 1) + 1).index() == class);
        assert!(capacity(class) >= 4);
        class += 1;
    }
    assert!(of(0).index() == 0 && of(1).index() == 0);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 1..=CHUNK_BYTES_MAX {
            let class = of(size).index();
            assert!(bytes(class) >= size, "{size}");
            assert!(class == 0 || bytes(class - 1) < size, "{size}");
            // Internal waste: at most 7 bytes below 256, an eighth above (16 is the minimum).
            assert!(size < 16 || bytes(class) - size < 8.max(size / 8 + 1), "{size}");
        }
    }

    #[test]
    fn the_reciprocal_divides_exactly() {
        for class in 0..CLASSES {
            let units = u32::try_from(bytes(class) / UNIT_BYTES).unwrap();
            for offset in 0..u32::try_from(SPAN_BYTES / UNIT_BYTES).unwrap() {
                assert_eq!(
                    divide(offset, reciprocal(class)),
                    (offset / units) as usize,
                    "class {class} offset {offset}"
                );
            }
        }
    }
}
