//! Scores of sorted sets: doubles that are no NaN. Owns their order as an integer, and their entry in a run, which containers and codecs share;
//! knows nothing of members.

use super::entry::Entry;
use super::int;

/// Bytes of a score in a run, at most: a head and nine.
const ENTRY_BYTES_MAX: usize = 10;
/// Doubles are exact integers up to here.
const EXACT: f64 = (1u64 << 53) as f64;

/// The order of scores as that of integers; the two zeros are equal.
#[inline(always)]
#[must_use]
pub fn key(score: f64) -> u64 {
    debug_assert!(!score.is_nan());
    // -0 + 0 is 0.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The score as an integer, if that says all there is to say about it.
#[inline]
#[must_use]
pub fn as_integer(score: f64) -> Option<i64> {
    if score.abs() > EXACT {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "within 2^53, or found to be no integer below")]
    let integer = score as i64;
    #[expect(clippy::cast_precision_loss, reason = "within 2^53")]
    ((integer as f64).to_bits() == score.to_bits()).then_some(integer)
}

/// Appends the entry of a score: an integer if it is one, otherwise its eight bytes (little-endian), with a ninth in the seldom case that the
/// eight are the digits of an integer, as no string of a run may be.
pub fn to_entry(run: &mut Vec<u8>, score: f64) {
    if let Some(integer) = as_integer(score) {
        return Entry::Int(integer).put(run);
    }
    let mut bytes = [0; ENTRY_BYTES_MAX - 1];
    bytes[..8].copy_from_slice(&score.to_le_bytes());
    let digits = int::parse_i64(&bytes[..8]).is_some();
    Entry::Bytes(&bytes[..8 + usize::from(digits)]).put(run);
}

/// The score of an entry that [`to_entry`] made.
///
/// # Panics
/// If another has made it.
#[inline]
#[must_use]
pub fn from_entry(entry: Entry<'_>) -> f64 {
    match entry {
        #[expect(clippy::cast_precision_loss, reason = "`to_entry` makes integers within 2^53")]
        Entry::Int(integer) => integer as f64,
        Entry::Bytes(bytes) => {
            f64::from_le_bytes(bytes.first_chunk().copied().expect("the entry of a score has eight bytes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry;
    use proptest::prelude::*;

    fn round_trip(score: f64) -> f64 {
        let mut run = Vec::new();
        to_entry(&mut run, score);
        assert!(run.len() <= ENTRY_BYTES_MAX);
        let (read, rest) = entry::split(&run).unwrap();
        assert!(rest.is_empty());
        if let Entry::Bytes(bytes) = read {
            assert_eq!(Entry::of(bytes), read, "a string that is no integer");
        }
        from_entry(read)
    }

    #[test]
    fn entries_of_special_scores() {
        let digits = f64::from_le_bytes(*b"12345678");
        for score in
            [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, EXACT, -EXACT, 1e300, digits]
        {
            assert_eq!(round_trip(score).to_bits(), score.to_bits(), "{score}");
        }
        let mut run = Vec::new();
        to_entry(&mut run, 17.0);
        assert_eq!(run.len(), 1);
    }

    proptest! {
        #[test]
        fn entries_are_read_back(bits: u64) {
            let score = f64::from_bits(bits);
            prop_assume!(!score.is_nan());
            prop_assert_eq!(round_trip(score).to_bits(), bits);
        }

        #[test]
        fn keys_are_in_order(a: f64, b: f64) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(a.partial_cmp(&b), Some(key(a).cmp(&key(b))));
        }
    }

    #[test]
    fn zeros_are_equal() {
        assert_eq!(key(0.0), key(-0.0));
        assert!(key(-5e-324) < key(0.0) && key(0.0) < key(5e-324));
        assert!(key(f64::NEG_INFINITY) < key(f64::MIN) && key(f64::MAX) < key(f64::INFINITY));
        assert_eq!((as_integer(-0.0), as_integer(0.5), as_integer(-3.0)), (None, None, Some(-3)));
    }
}
