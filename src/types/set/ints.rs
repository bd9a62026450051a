//! Sorted integers, all of the same width: the smallest form of a set. Owns searching and the widths; which form a set has is its caller's.
//!
//! ```text
//!  │ 2, 4 or 8 bytes, little-endian │ the next larger │ ...
//! ```

/// Bytes that each integer takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Width {
    Two = 0,
    Four = 1,
    Eight = 2,
}

impl Width {
    /// The narrowest that holds `value`.
    #[must_use]
    pub fn of(value: i64) -> Width {
        if i16::try_from(value).is_ok() {
            Width::Two
        } else if i32::try_from(value).is_ok() {
            Width::Four
        } else {
            Width::Eight
        }
    }

    #[inline]
    #[must_use]
    pub fn bytes(self) -> usize {
        2 << self as u8
    }
}

/// A run of sorted integers.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    pub width: Width,
    pub run: &'a [u8],
}

impl<'a> Ints<'a> {
    #[must_use]
    pub fn len(self) -> usize {
        self.run.len() / self.width.bytes()
    }

    /// # Panics
    /// When `index` is not below `len`.
    #[inline]
    #[must_use]
    pub fn get(self, index: usize) -> i64 {
        let bytes = self.width.bytes();
        let place = &self.run[index * bytes..][..bytes];
        match *place {
            [a, b] => i16::from_le_bytes([a, b]).into(),
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("there are three widths"),
        }
    }

    /// Where `value` is, or where it would have to be.
    ///
    /// # Errors
    /// The place for it, when it is not there.
    pub fn search(self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        // What is added in ascending order goes to the end.
        if high > 0 && value > self.get(high - 1) {
            return Err(high);
        }
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&value) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    pub fn iter(self) -> impl DoubleEndedIterator<Item = i64> + 'a {
        (0..self.len()).map(move |index| self.get(index))
    }
}

/// Appends an integer of the given width (which holds it).
pub fn put(run: &mut Vec<u8>, width: Width, value: i64) {
    run.extend_from_slice(&value.to_le_bytes()[..width.bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_and_places() {
        let bounds = [
            (Width::Two, i64::from(i16::MIN), i64::from(i16::MAX)),
            (Width::Four, i64::from(i32::MIN), i64::from(i32::MAX)),
            (Width::Eight, i64::MIN, i64::MAX),
        ];
        for (width, min, max) in bounds {
            assert_eq!((Width::of(min), Width::of(max)), (width, width));
            let mut run = Vec::new();
            for value in [min, -1, 0, 7, max] {
                put(&mut run, width, value);
            }
            let ints = Ints { width, run: &run };
            assert_eq!(ints.iter().collect::<Vec<_>>(), [min, -1, 0, 7, max]);
            for (index, value) in ints.iter().enumerate() {
                assert_eq!(ints.search(value), Ok(index));
            }
            assert_eq!((ints.search(-2), ints.search(1), ints.search(8)), (Err(1), Err(3), Err(4)));
        }
        assert_eq!(Width::of(i64::from(i16::MAX) + 1), Width::Four);
        assert_eq!(Width::of(i64::from(i32::MIN) - 1), Width::Eight);
        assert_eq!(Ints { width: Width::Two, run: &[] }.search(5), Err(0));
    }
}
