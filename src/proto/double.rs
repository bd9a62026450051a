//! Doubles as text, as Redis 7.2 replies them: the shortest digits that read back as the same number; whole numbers up to 2^52 without an
//! exponent.
use crate::base::int;
use std::io::Write;

/// Bytes that are always enough: 17 digits, sign, point, four zeros or exponent.
pub(super) const MAX_BYTES: usize = 32;

/// Formats `value` into `buf`.
pub(super) fn format(buf: &mut [u8; MAX_BYTES], value: f64) -> &[u8] {
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
    // `d.ddde-dd`: the shortest digits, and where the point belongs.
    let mut text = [0; MAX_BYTES];
    let mut rest = &mut text[..];
    let written = write!(rest, "{:e}", value.abs());
    debug_assert!(written.is_ok());
    let left = rest.len();
    let text = &text[..MAX_BYTES - left];
    let split = text.iter().position(|&b| b == b'e').unwrap_or(text.len());
    let exponent = text.get(split + 1..).and_then(int::parse_i64).unwrap_or(0);
    let mut digits = [0; 17];
    let mut count = 0;
    for &byte in text[..split].iter().filter(|b| b.is_ascii_digit()) {
        digits[count] = byte;
        count += 1;
    }
    let sign: &[u8] = if value < 0.0 { b"-" } else { b"" };
    place_point(buf, sign, &digits[..count], exponent)
}

/// Where the point goes, and when an exponent is written. `exponent` is that of the first digit.
fn place_point<'a>(buf: &'a mut [u8; MAX_BYTES], sign: &[u8], digits: &[u8], exponent: i64) -> &'a [u8] {
    const ZEROS: &[u8] = b"0000000";
    let count = i64::try_from(digits.len()).unwrap_or(0);
    // Power of ten of the last digit.
    let scale = exponent + 1 - count;
    let zeros = |n: i64| &ZEROS[..usize::try_from(n).unwrap_or(0).min(ZEROS.len())];
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
        String::from_utf8(format(&mut [0; MAX_BYTES], value).to_vec()).unwrap()
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

    proptest! {
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
