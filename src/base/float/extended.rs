//! Numbers of 80 bits, C's `long double` on x86: what INCRBYFLOAT and HINCRBYFLOAT compute with, so that their results are the same to the
//! last digit. All in integers: Rust has no such type.

use super::binary::{EXTENDED, Natural};
use super::text::{Digits, Text, scan};

/// Longest text that is looked at; Redis's buffer.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Decimal places that are written.
const PLACES: u32 = 17;
/// Ten to that power.
const ONE: u128 = 10_u128.pow(PLACES);
/// Powers of ten at which a number of one digit before the point is far above all numbers, or far below.
const DECIMAL_MAX: i64 = 4940;
const DECIMAL_MIN: i64 = -4960;

/// A number, or an infinity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended {
    Infinite {
        negative: bool,
    },
    /// `mantissa * 2^exponent`, as `Format::nearest` makes them.
    Finite {
        negative: bool,
        mantissa: u64,
        exponent: i32,
    },
}

impl Extended {
    pub const ZERO: Extended = Extended::Finite { negative: false, mantissa: 0, exponent: EXTENDED.exponent_min };

    /// What a text says, rounded to the nearest. `None`: it is no number, NaN, too long, or a number beyond the range (too close to 0 counts).
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, text) = scan(text)?;
        let (mantissa, exponent) = match text {
            Text::Infinity => return Some(Extended::Infinite { negative }),
            Text::Decimal(digits) | Text::Hex(digits) if digits.is_zero() => (0, EXTENDED.exponent_min),
            Text::Decimal(digits) => in_range(decimal(digits)?)?,
            Text::Hex(digits) => {
                let (value, inexact, exponent) = super::hex(digits);
                in_range(EXTENDED.nearest(value, inexact, exponent)?)?
            }
        };
        Some(Extended::Finite { negative, mantissa, exponent })
    }

    /// The sum, rounded to the nearest. `None`: it is no finite number.
    #[must_use]
    pub fn plus(self, other: Extended) -> Option<Extended> {
        let (Extended::Finite { .. }, Extended::Finite { .. }) = (self, other) else { return None };
        let (mut large, mut small) = (self, other);
        if large.magnitude() < small.magnitude() {
            (large, small) = (small, large);
        }
        let Extended::Finite { negative, mantissa, exponent } = large else { return None };
        let Extended::Finite { negative: other_negative, mantissa: addend, exponent: addend_exponent } = small else {
            return None;
        };
        // 63 bits below the unit of the last place of the larger one: what of the smaller one is lost below them matters only as such.
        const GUARD: u32 = 63;
        let wide = u128::from(mantissa) << GUARD;
        let distance = exponent.abs_diff(addend_exponent);
        let addend = u128::from(addend) << GUARD;
        let near = addend.checked_shr(distance).unwrap_or(0);
        let lost = near.checked_shl(distance).unwrap_or(0) != addend;
        let sum = if negative == other_negative { wide + near } else { wide - near - u128::from(lost) };
        // Of opposite numbers the sum is +0, of two zeros of one sign that zero.
        let negative = if sum == 0 { negative && other_negative } else { negative };
        let (mantissa, exponent) = EXTENDED.nearest(sum, lost, i64::from(exponent) - i64::from(GUARD))?;
        Some(Extended::Finite { negative, mantissa, exponent })
    }

    /// A key that orders finite numbers by their size.
    fn magnitude(self) -> (i32, u64) {
        match self {
            // The mantissas of all but the least exponent have their highest bit set.
            Extended::Finite { mantissa, exponent, .. } => (exponent, mantissa),
            Extended::Infinite { .. } => (i32::MAX, 0),
        }
    }

    /// Appends the number with as many of 17 decimal places as are not zeros at the end, rounded to even (C's `%.17Lf`, cut as Redis cuts it);
    /// what rounds to 0 is `0`, without a sign.
    pub fn write(self, into: &mut Vec<u8>) {
        let (negative, mantissa, exponent) = match self {
            Extended::Infinite { negative } => {
                return into.extend_from_slice(if negative { b"-inf" } else { b"inf" });
            }
            Extended::Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
        };
        if let Ok(shift) = u32::try_from(exponent) {
            if negative {
                into.push(b'-');
            }
            let mut whole = Natural::from_u64(mantissa);
            whole.shift_left(u64::from(shift));
            return whole.write(into);
        }
        // Below 2^64 * 10^17, which is below 2^121.
        let scaled = u128::from(mantissa) * ONE;
        let shift = exponent.unsigned_abs();
        let kept = scaled.checked_shr(shift).unwrap_or(0);
        let rest = scaled - kept.checked_shl(shift).unwrap_or(0);
        let half = 1u128.checked_shl(shift - 1).unwrap_or(u128::MAX);
        let places = kept + u128::from(rest > half || (rest == half && kept & 1 == 1));
        if places == 0 {
            return into.push(b'0');
        }
        if negative {
            into.push(b'-');
        }
        let (whole, fraction) = (places / ONE, places % ONE);
        into.extend_from_slice(whole.to_string().as_bytes());
        if fraction > 0 {
            let digits = format!(".{fraction:017}");
            into.extend_from_slice(digits.trim_end_matches('0').as_bytes());
        }
    }
}

/// What is not 0 but rounds to it is out of range.
fn in_range(number: (u64, i32)) -> Option<(u64, i32)> {
    (number.0 != 0).then_some(number)
}

/// The number nearest to decimal digits that are not all 0.
fn decimal(digits: Digits<'_>) -> Option<(u64, i32)> {
    let exponent = digits.exponent - i64::try_from(digits.fraction.len()).ok()?;
    let total = digits.whole.len() + digits.fraction.len();
    // Without the zeros in front.
    let zeros = digits.values().take_while(|&digit| digit == 0).count();
    let significant = i64::try_from(total - zeros).ok()?;
    if significant + exponent > DECIMAL_MAX {
        return None;
    }
    if significant + exponent < DECIMAL_MIN {
        return Some((0, EXTENDED.exponent_min));
    }
    if significant <= 19 && exponent.abs() <= 27 {
        // One multiplication or division by a power of 5 that fits 64 bits.
        let value = digits.values().fold(0, |n: u64, digit| n * 10 + u64::from(digit));
        let power = 5_u64.pow(u32::try_from(exponent.abs()).ok()?);
        if exponent >= 0 {
            return EXTENDED.nearest(u128::from(value) * u128::from(power), false, exponent);
        }
        // A dividend of 128 bits and a divisor of at most 63: at least 65 bits, one more than are kept.
        let free = value.leading_zeros();
        let dividend = u128::from(value) << (64 + free);
        let (quotient, rest) = (dividend / u128::from(power), dividend % u128::from(power));
        return EXTENDED.nearest(quotient, rest != 0, exponent - 64 - i64::from(free));
    }
    let mut number = Natural::from_decimal(digits.values().skip(zeros));
    let (value, inexact, scale) = if exponent >= 0 {
        number.multiply_by_power_of_5(exponent.unsigned_abs());
        number.head()
    } else {
        let mut divisor = Natural::from_u64(1);
        divisor.multiply_by_power_of_5(exponent.unsigned_abs());
        number.quotient(divisor)
    };
    EXTENDED.nearest(value, inexact, scale + exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(number: Extended) -> String {
        let mut text = Vec::new();
        number.write(&mut text);
        String::from_utf8(text).unwrap()
    }

    fn sum(a: &str, b: &str) -> Option<String> {
        let (a, b) = (Extended::parse(a.as_bytes()).unwrap(), Extended::parse(b.as_bytes()).unwrap());
        a.plus(b).map(text)
    }

    /// As redis-server 7.0.15 answers on x86-64.
    #[test]
    fn sums_of_redis() {
        for (a, b, expected) in [
            ("0", "0.1", "0.1"),
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3.0e3", "0", "3000"),
            ("1", "1e-17", "1.00000000000000001"),
            ("1", "1e-18", "1"),
            ("1.23", "1e-19", "1.23"),
            ("-1.5", "1.5", "0"),
            ("-0", "-0", "0"),
            ("0", "-1e-20", "0"),
            ("9007199254740993", "1", "9007199254740994"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("17179869184", "0.00000000000000001", "17179869184"),
            ("0x10", "0x1p-1", "16.5"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-inf"), None);
        assert_eq!(sum("1.1e4932", "1.1e4932"), None);
        assert_eq!(sum("1e308", "9e308").map(|text| text.len()), Some(309));
    }

    #[test]
    fn out_of_range_is_no_number() {
        for text in
            ["1e4933", "-1e4933", "1e-4952", "0x1p16384", "0x1p-16447", "1e999999999999", "1e-999999999999", "nan", ""]
        {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        for text in ["1.18e4932", "1e-4950", "0x1p-16445", "0e999999999999", "inf"] {
            assert!(Extended::parse(text.as_bytes()).is_some(), "{text}");
        }
        let long = |bytes: usize| Extended::parse(&vec![b'1'; bytes]).is_some();
        assert!(long(4932) && !long(5000));
        let zeros = [vec![b'0'; TEXT_BYTES_MAX - 1], b"1".to_vec()].concat();
        assert!(Extended::parse(&zeros).is_some());
        assert!(Extended::parse(&[&b"0"[..], &zeros].concat()).is_none());
    }

    proptest! {
        /// The short way and the long way through the parser agree.
        #[test]
        fn both_ways_agree(value in 1u64..10_000_000_000_000_000_000, exponent in -27i64..=27) {
            let digits = value.to_string();
            let short = decimal(Digits { whole: digits.as_bytes(), fraction: b"", exponent });
            // More zeros than the short way takes.
            let zeros = [b'0'; 30];
            let long = [digits.as_bytes(), &zeros].concat();
            prop_assert_eq!(decimal(Digits { whole: &long, fraction: b"", exponent: exponent - 30 }), short);
        }

        /// Whole numbers of up to 64 bits are exact, and so are their sums that fit.
        #[test]
        fn whole_numbers(a: i64, b: i64) {
            let expected = i128::from(a) + i128::from(b);
            prop_assert_eq!(sum(&a.to_string(), &b.to_string()), Some(expected.to_string()));
        }

        /// A double is an exact number of this format, and a sum of two of nearby size as well.
        #[test]
        fn doubles_are_exact(a in -1000i32..1000, b in -1000i32..1000, scale in 0u32..10) {
            let (a, b) = (f64::from(a) / f64::from(1 << scale), f64::from(b) / f64::from(1 << scale));
            prop_assert_eq!(sum(&a.to_string(), &b.to_string()), Some((a + b + 0.0).to_string()));
        }

        /// What is written reads back as the same number where 17 places are enough.
        #[test]
        fn reads_back(mantissa in 1u64 << 63.., exponent in -50i32..16000) {
            let number = Extended::Finite { negative: true, mantissa, exponent };
            if exponent >= -17 {
                prop_assert_eq!(Extended::parse(text(number).as_bytes()), Some(number));
            }
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(proptest::sample::select(b"0123456789.eExXpP+-infa".to_vec()), 0..30)) {
            if let Some(number) = Extended::parse(&bytes) {
                let again = number.plus(Extended::ZERO);
                let infinite = matches!(number, Extended::Infinite { .. });
                prop_assert!(again == Some(number) || infinite || text(number) == "0");
            }
        }
    }
}
