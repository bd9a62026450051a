//! Numbers as memcached reads them in lines and in values: decimal, with a sign where there may be one.

/// A number without a sign (a `+` is allowed).
#[inline]
#[must_use]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    // Nearly all are one digit.
    if let [digit @ b'0'..=b'9'] = text {
        return Some(u64::from(digit - b'0'));
    }
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A number that may be negative.
#[inline]
#[must_use]
pub fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some([b'0'..=b'9', ..]) => 0i64.checked_sub_unsigned(unsigned(&text[1..])?),
        Some(_) => None,
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// Flags of an item: 32 bits.
#[inline]
#[must_use]
pub fn flags(text: &[u8]) -> Option<u32> {
    u32::try_from(unsigned(text)?).ok()
}

/// The number that a value is, for `incr`: whatever follows it is behind a space.
#[must_use]
pub fn of_value(value: &[u8]) -> Option<u64> {
    let end = value.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(value.len());
    unsigned(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers() {
        for (text, value) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("+5", Some(5)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
            ("", None),
            ("+", None),
            ("1a", None),
            ("++1", None),
        ] {
            assert_eq!(unsigned(text.as_bytes()), value, "{text}");
        }
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"-9223372036854775809"), None);
        assert_eq!([signed(b"--1"), signed(b"-+1"), signed(b"-"), signed(b"9223372036854775808")], [None; 4]);
        assert_eq!(flags(b"4294967295"), Some(u32::MAX));
        assert_eq!(flags(b"4294967296"), None);
        assert_eq!(
            [of_value(b"12  "), of_value(b"12"), of_value(b"12x"), of_value(b"")],
            [Some(12), Some(12), None, None]
        );
    }

    proptest! {
        #[test]
        fn as_the_library_reads_them(text in "[+-]?[0-9a]{0,21}", number: i64, natural: u64) {
            prop_assert_eq!(unsigned(text.as_bytes()), text.parse().ok());
            prop_assert_eq!(signed(text.as_bytes()), text.parse().ok());
            prop_assert_eq!(signed(number.to_string().as_bytes()), Some(number));
            prop_assert_eq!(unsigned(natural.to_string().as_bytes()), Some(natural));
        }
    }
}
