//! The packed form of small containers: a head of three bytes, then entries (`base::entry`). Owns the head, and cutting into the entries.
//!
//! ```text
//!  byte 0        1           3
//!      ┌────────┬───────────┬──────────────────────┐
//!      │ state  │ count u16 │ entries ...          │
//!      └────────┴───────────┴──────────────────────┘
//! ```
//! `state` is the type's own (bits that stay: has a bound of Redis's encodings been exceeded?); `count` its number of elements. An empty
//! container may also be no bytes at all.

/// Bytes in front of the entries.
pub const HEAD_BYTES: usize = 3;

/// The part of a packed container's bound that a big one must be within to become packed: 7/8.
#[must_use]
pub const fn shrunk_max(bound: usize) -> usize {
    bound / 8 * 7
}

/// The type's own byte.
#[inline]
#[must_use]
pub fn state(packed: &[u8]) -> u8 {
    packed.first().copied().unwrap_or(0)
}

/// Number of elements.
#[inline]
#[must_use]
pub fn count(packed: &[u8]) -> usize {
    packed.get(1..HEAD_BYTES).map_or(0, |count| usize::from(u16::from_le_bytes([count[0], count[1]])))
}

/// The run of entries.
#[inline]
#[must_use]
pub fn run(packed: &[u8]) -> &[u8] {
    packed.get(HEAD_BYTES..).unwrap_or_default()
}

/// Sees to it that there is a head.
#[inline]
pub fn begin(packed: &mut Vec<u8>) {
    if packed.is_empty() {
        packed.extend_from_slice(&[0; HEAD_BYTES]);
    }
}

/// # Panics
/// Without a head ([`begin`]).
#[inline]
pub fn set_state(packed: &mut [u8], state: u8) {
    packed[0] = state;
}

/// # Panics
/// Without a head ([`begin`]), or when the count does not fit 16 bits: packed containers are small.
#[inline]
pub fn set_count(packed: &mut [u8], count: usize) {
    let count = u16::try_from(count).expect("packed containers are small");
    packed[1..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
}

/// Puts `new` in place of `old_bytes` bytes at `at` (counted from the beginning of the head).
///
/// # Panics
/// When they do not lie in `packed`.
pub fn splice(packed: &mut Vec<u8>, at: usize, old_bytes: usize, new: &[u8]) {
    let (len, end) = (packed.len(), at + old_bytes);
    assert!(at >= HEAD_BYTES && end <= len);
    if new.len() > old_bytes {
        packed.resize(len + new.len() - old_bytes, 0);
    }
    packed.copy_within(end..len, at + new.len());
    packed[at..at + new.len()].copy_from_slice(new);
    packed.truncate(len + new.len() - old_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_empty() {
        assert_eq!((state(&[]), count(&[]), run(&[])), (0, 0, &[][..]));
    }

    #[test]
    fn head_and_splices() {
        let mut packed = Vec::new();
        begin(&mut packed);
        set_state(&mut packed, 5);
        set_count(&mut packed, 300);
        splice(&mut packed, HEAD_BYTES, 0, b"abc");
        splice(&mut packed, HEAD_BYTES + 1, 1, b"XYZ");
        assert_eq!((state(&packed), count(&packed), run(&packed)), (5, 300, &b"aXYZc"[..]));
        splice(&mut packed, HEAD_BYTES, 4, b"");
        assert_eq!(run(&packed), b"c");
    }
}
