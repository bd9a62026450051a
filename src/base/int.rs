//! Decimal integers as bytes: strict parsing, fast formatting. Knows nothing of what the numbers mean.
//!
//! What is accepted is what Redis stores as an integer: exactly the canonical form, so that parsing and formatting are inverse and a
//! string kept as a number reads back byte for byte.

/// The two digits of 0..=99, so that formatting divides once per pair.
pub const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let (mut tens, mut at) = (b'0', 0);
    while tens <= b'9' {
        let mut ones = b'0';
        while ones <= b'9' {
            pairs[at] = [tens, ones];
            at += 1;
            ones += 1;
        }
        tens += 1;
    }
    pairs
};

/// Bytes of the longest number: `-9223372036854775808`, `18446744073709551615`.
pub const MAX_DIGITS: usize = 20;

/// A signed number in canonical form: no spaces, no `+`, no leading zeros, no `-0`; the full range of `i64`. Anything else is `None`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text.split_first()? {
        (b'-', digits) => match parse_u64(digits)? {
            0 => None,
            magnitude => 0i64.checked_sub_unsigned(magnitude),
        },
        _ => i64::try_from(parse_u64(text)?).ok(),
    }
}

/// An unsigned number in canonical form; the full range of `u64`.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    let first = first.wrapping_sub(b'0');
    if first > 9 || rest.len() >= MAX_DIGITS || (first == 0 && !rest.is_empty()) {
        return None;
    }
    let mut value = u64::from(first);
    // 19 digits cannot overflow; only a 20th is checked.
    let (safe, last) = rest.split_at(rest.len().min(MAX_DIGITS - 2));
    for &byte in safe {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if let &[byte] = last {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// How many decimal digits a number has.
#[inline]
#[must_use]
pub fn digits(number: u64) -> usize {
    // Most numbers that are asked for are lengths of short texts.
    match number {
        0..10 => 1,
        10..100 => 2,
        100..1000 => 3,
        _ => number.ilog10() as usize + 1,
    }
}

/// Formats `value` into the end of `buf` and returns the digits.
#[inline]
pub fn write_u64(buf: &mut [u8; MAX_DIGITS], mut value: u64) -> &[u8] {
    let mut at = MAX_DIGITS;
    while value >= 100 {
        let pair = pair_of(value % 100);
        value /= 100;
        at -= 2;
        buf[at..at + 2].copy_from_slice(pair);
    }
    let pair = pair_of(value);
    at -= 1;
    buf[at] = pair[1];
    if value >= 10 {
        at -= 1;
        buf[at] = pair[0];
    }
    &buf[at..]
}

/// Formats `value` into the end of `buf` and returns sign and digits.
#[inline]
pub fn write_i64(buf: &mut [u8; MAX_DIGITS], value: i64) -> &[u8] {
    let digits = write_u64(buf, value.unsigned_abs()).len();
    let mut at = MAX_DIGITS - digits;
    if value < 0 {
        // The longest magnitude of a negative number has 19 digits, which leaves room for the sign.
        at -= 1;
        buf[at] = b'-';
    }
    &buf[at..]
}

#[inline]
fn pair_of(below_100: u64) -> &'static [u8; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "callers pass a number below 100")]
    &DIGIT_PAIRS[below_100 as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What `parse_i64` must say, by way of the standard library: the canonical text of some number.
    fn oracle_i64(text: &[u8]) -> Option<i64> {
        let text = std::str::from_utf8(text).ok()?;
        text.parse::<i64>().ok().filter(|n| n.to_string() == text)
    }
    fn oracle_u64(text: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(text).ok()?;
        text.parse::<u64>().ok().filter(|n| n.to_string() == text)
    }

    #[test]
    fn refuses_what_is_not_canonical() {
        for text in [
            "",
            " ",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            "010",
            "-01",
            " 10",
            "10 ",
            "1 0",
            "1\n",
            "0x1",
            "1e3",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "18446744073709551616",
            "100000000000000000000",
            "--1",
            "1-",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        for text in [
            "",
            "-1",
            "-0",
            "+1",
            "01",
            "18446744073709551616",
            "28446744073709551615",
            "100000000000000000000",
            "/",
            ":",
        ] {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn edges_of_the_ranges() {
        let mut edges = vec![0i128, 9, 10, 99, 100, i128::from(i64::MAX), i128::from(i64::MIN), i128::from(u64::MAX)];
        for power in 0..20 {
            let p = 10i128.pow(power);
            edges.extend([p - 1, p, p + 1, -p - 1, -p, 1 - p]);
        }
        for n in edges {
            let text = n.to_string();
            assert_eq!(parse_i64(text.as_bytes()), i64::try_from(n).ok(), "{text}");
            assert_eq!(parse_u64(text.as_bytes()), u64::try_from(n).ok(), "{text}");
            if let Ok(n) = i64::try_from(n) {
                assert_eq!(write_i64(&mut [0; 20], n), text.as_bytes());
            }
            if let Ok(n) = u64::try_from(n) {
                assert_eq!(write_u64(&mut [0; 20], n), text.as_bytes());
            }
        }
    }

    proptest! {
        #[test]
        fn formats_like_std(n: i64, shift in 0u32..64) {
            let n = n >> shift;
            let text = n.to_string();
            assert_eq!(write_i64(&mut [0xff; 20], n), text.as_bytes());
            assert_eq!(write_u64(&mut [0xff; 20], n.unsigned_abs()), n.unsigned_abs().to_string().as_bytes());
            prop_assert_eq!(parse_i64(text.as_bytes()), Some(n));
        }

        #[test]
        fn parses_like_std(text in "[-+ ]?[0-9]{0,21}[ -:]?") {
            prop_assert_eq!(parse_i64(text.as_bytes()), oracle_i64(text.as_bytes()));
            prop_assert_eq!(parse_u64(text.as_bytes()), oracle_u64(text.as_bytes()));
        }

        #[test]
        fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..24)) {
            prop_assert_eq!(parse_i64(&text), oracle_i64(&text));
            prop_assert_eq!(parse_u64(&text), oracle_u64(&text));
        }
    }
}
