//! Numbers with a fraction as text: doubles, as scores are read and replied, and the extended numbers of INCRBYFLOAT. Knows nothing of what
//! they mean.
mod binary;
mod extended;
mod text;

use crate::base::int;
use binary::DOUBLE;
pub use extended::Extended;
use std::io::Write;
use text::{Digits, Text, scan};

/// Bytes that are always enough for a double: 17 digits, sign, point, four zeros or exponent.
pub const MAX_BYTES: usize = 32;

/// A double as Redis reads it: C's `strtod` without blanks, NaN, and numbers beyond the range (too close to 0 counts); `inf` is allowed.
#[must_use]
pub fn parse(text: &[u8]) -> Option<f64> {
    let (negative, number) = scan(text)?;
    let sign = if negative { -1.0 } else { 1.0 };
    let digits = match number {
        Text::Infinity => return Some(sign * f64::INFINITY),
        Text::Decimal(digits) | Text::Hex(digits) => digits,
    };
    if digits.is_zero() {
        return Some(sign * 0.0);
    }
    let value = if matches!(number, Text::Hex(_)) {
        let (value, inexact, exponent) = hex(digits);
        let (mantissa, exponent) = DOUBLE.nearest(value, inexact, exponent)?;
        // Exact, as the product is a number of the format: a mantissa of 53 bits, times two powers of two (one would underflow).
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let mantissa = mantissa as f64;
        sign * mantissa * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
    } else {
        std::str::from_utf8(text).ok()?.parse::<f64>().ok()?
    };
    (value.is_finite() && value != 0.0).then_some(value)
}

/// Hexadecimal digits that are not all 0: the upper 31 of them at most as a number, whether others follow that are not 0, and its power of
/// two.
fn hex(digits: Digits<'_>) -> (u128, bool, i64) {
    const DIGITS_MAX: u32 = 31;
    let (mut value, mut inexact, mut used) = (0u128, false, 0);
    let mut exponent = digits.exponent - 4 * i64::try_from(digits.fraction.len()).unwrap_or(i64::MAX / 8);
    for digit in digits.values().skip_while(|&digit| digit == 0) {
        if used < DIGITS_MAX {
            value = value << 4 | u128::from(digit);
            used += 1;
        } else {
            inexact |= digit != 0;
            exponent += 4;
        }
    }
    (value, inexact, exponent)
}

/// Formats `value` with 17 significant digits, as Redis up to 7.0 replies scores (C's `%.17g`).
pub fn write_17(buf: &mut [u8; MAX_BYTES], value: f64) -> &[u8] {
    const PLACES: i64 = 17;
    if !value.is_finite() || value == 0.0 {
        return write(buf, value);
    }
    let (mut digits, mut room) = ([0; 17], [0; MAX_BYTES]);
    let (count, exponent) = scientific(&mut digits, &mut room, format_args!("{:.16e}", value.abs()));
    let count = digits[..count].iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..count];
    let sign: &[u8] = if value < 0.0 { b"-" } else { b"" };
    if !(-4..PLACES).contains(&exponent) {
        let (first, fraction) = digits.split_at(1);
        let point: &[u8] = if fraction.is_empty() { b"" } else { b"." };
        let mark: &[u8] = if exponent < 0 { b"e-" } else { b"e+" };
        // At least two digits.
        let zero: &[u8] = if exponent.abs() < 10 { b"0" } else { b"" };
        let mut power = [0; 20];
        return put(
            buf,
            &[sign, first, point, fraction, mark, zero, int::write_u64(&mut power, exponent.unsigned_abs())],
        );
    }
    let before = usize::try_from(exponent + 1).unwrap_or(0);
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return put(buf, &[sign, b"0.", &ZEROS[..zeros], digits]);
    }
    if before >= count {
        return put(buf, &[sign, digits, &ZEROS[..before - count]]);
    }
    let (whole, fraction) = digits.split_at(before);
    put(buf, &[sign, whole, b".", fraction])
}

const ZEROS: &[u8] = b"00000000000000000";

/// The digits of `d.ddde-dd`, how many they are, and the exponent.
fn scientific(digits: &mut [u8; 17], room: &mut [u8; MAX_BYTES], text: std::fmt::Arguments<'_>) -> (usize, i64) {
    let mut rest = &mut room[..];
    let written = rest.write_fmt(text);
    debug_assert!(written.is_ok());
    let left = rest.len();
    let text = &room[..MAX_BYTES - left];
    let split = text.iter().position(|&b| b == b'e').unwrap_or(text.len());
    let exponent = text.get(split + 1..).and_then(int::parse_i64).unwrap_or(0);
    let mut count = 0;
    for &byte in text[..split].iter().filter(|b| b.is_ascii_digit()) {
        digits[count] = byte;
        count += 1;
    }
    (count, exponent)
}

/// Formats `value` as Redis since 7.2 replies doubles: the shortest digits that read back as the same number; whole numbers up to 2^52
/// without an exponent.
pub fn write(buf: &mut [u8; MAX_BYTES], value: f64) -> &[u8] {
    const EXACT: f64 = (1u64 << 52) as f64;
    if value.is_nan() {
        return put(buf, &[b"nan"]);
    }
    if value.is_infinite() {
        return put(buf, &[if value > 0.0 { b"inf" } else { b"-inf" }]);
    }
    if value == 0.0 {
        return put(buf, &[if value.is_sign_negative() { b"-0" } else { b"0" }]);
    }
    if value.abs() <= EXACT && value.fract() == 0.0 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number within 2^52")]
        return put(buf, &[int::write_i64(&mut [0; 20], value as i64)]);
    }
    let (mut digits, mut room) = ([0; 17], [0; MAX_BYTES]);
    let (count, exponent) = scientific(&mut digits, &mut room, format_args!("{:e}", value.abs()));
    let sign: &[u8] = if value < 0.0 { b"-" } else { b"" };
    place_point(buf, sign, &digits[..count], exponent)
}

/// Where the point goes, and when an exponent is written. `exponent` is that of the first digit.
fn place_point<'a>(buf: &'a mut [u8; MAX_BYTES], sign: &[u8], digits: &[u8], exponent: i64) -> &'a [u8] {
    let count = i64::try_from(digits.len()).unwrap_or(0);
    // Power of ten of the last digit.
    let scale = exponent + 1 - count;
    let zeros = |n: i64| &ZEROS[..usize::try_from(n).unwrap_or(0).min(7)];
    if scale >= 0 && exponent < count + 7 {
        return put(buf, &[sign, digits, zeros(scale)]);
    }
    if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        if exponent < 0 {
            return put(buf, &[sign, b"0.", zeros(-exponent - 1), digits]);
        }
        let (whole, fraction) = digits.split_at(usize::try_from(exponent + 1).unwrap_or(0));
        return put(buf, &[sign, whole, b".", fraction]);
    }
    let (first, fraction) = digits.split_at(1);
    let point: &[u8] = if fraction.is_empty() { b"" } else { b"." };
    let exponent_sign: &[u8] = if exponent < 0 { b"-" } else { b"+" };
    let mut power = [0; 20];
    put(buf, &[sign, first, point, fraction, b"e", exponent_sign, int::write_u64(&mut power, exponent.unsigned_abs())])
}

fn put<'a>(buf: &'a mut [u8; MAX_BYTES], parts: &[&[u8]]) -> &'a [u8] {
    let mut at = 0;
    for part in parts {
        buf[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    &buf[..at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        String::from_utf8(write(&mut [0; MAX_BYTES], value).to_vec()).unwrap()
    }

    #[test]
    fn known_texts() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (3.1, "3.1"),
            (-0.1, "-0.1"),
            (1.5e-3, "0.0015"),
            (1e-5, "0.00001"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.25e-10, "1.25e-10"),
            (4503599627370496.0, "4503599627370496"),
            (9007199254740993.0, "9007199254740992"),
            (1e17, "1e+17"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (-2.2250738585072014e-308, "-2.2250738585072014e-308"),
            (2.7350000000000003, "2.7350000000000003"),
            (1234567.875, "1234567.875"),
            (12345.678901234, "1.2345678901234e+4"),
            (1697040000.123456, "1697040000.123456"),
            (-1.5e16, "-1.5e+16"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn seventeen_digits() {
        for (value, expected) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e100, "1e+100"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            // 18 digits, the last of them a 5: to even.
            (131_073.0 / 131_072.0, "1.0000076293945312"),
            (131_075.0 / 131_072.0, "1.0000228881835938"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(write_17(&mut [0; MAX_BYTES], value), expected.as_bytes());
        }
    }

    #[test]
    fn texts_that_are_read() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("+3", Some(3.0)),
            ("-.5e1", Some(-5.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x1.8p1", Some(3.0)),
            ("-0x1p-1074", Some(-5e-324)),
            ("0x1.fffffffffffff7p1023", Some(f64::MAX)),
            ("0x1.fffffffffffff8p1023", None),
            ("0x10000000000000000000000000000000000001p0", Some(2f64.powi(148))),
            ("1e308", Some(1e308)),
            ("1e309", None),
            ("1e-400", None),
            ("4.9e-324", Some(5e-324)),
            ("0e99999", Some(0.0)),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_are_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            for text in [write(&mut [0; MAX_BYTES], value), write_17(&mut [0; MAX_BYTES], value)] {
                prop_assert_eq!(parse(text).map(f64::to_bits), Some(bits));
            }
        }

        #[test]
        fn reads_back_and_is_shortest(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = text(value);
            prop_assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(bits), "{}", text);
            let digits = |s: &str| s.split('e').next().unwrap().bytes().filter(u8::is_ascii_digit).count();
            if text.contains('e') {
                prop_assert_eq!(digits(&text), digits(&format!("{value:e}")));
            }
        }

        #[test]
        fn near_one_as_std_prints_it(value in -9999f64..9999.0) {
            prop_assume!(value.abs() > 1e-3);
            prop_assert_eq!(text(value), value.to_string());
        }
    }
}
