//! The grammar of C's `strtod`, as far as Redis lets it through: no blanks, no NaN, nothing behind the number; decimal and hexadecimal
//! digits, infinities in any case.

/// A number as it is written, without its sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Text<'t> {
    Infinity,
    /// The digits `whole` and `fraction` around the point, times ten to the `exponent`.
    Decimal(Digits<'t>),
    /// The same in hexadecimal, times two to the `exponent`.
    Hex(Digits<'t>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digits<'t> {
    pub whole: &'t [u8],
    pub fraction: &'t [u8],
    pub exponent: i64,
}

impl<'t> Digits<'t> {
    /// All digits as numbers, the most significant first.
    pub fn values(self) -> impl Iterator<Item = u8> + 't {
        self.whole.iter().chain(self.fraction).map(|&digit| match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        })
    }

    pub fn is_zero(self) -> bool {
        self.values().all(|digit| digit == 0)
    }
}

/// Beyond all that any text of practical length could mean; sums of some of these do not overflow.
const EXPONENT_MAX: i64 = 1 << 40;

/// Sign (true: negative) and number; `None`: it is no number.
pub(super) fn scan(text: &[u8]) -> Option<(bool, Text<'_>)> {
    let (negative, text) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
        return Some((negative, Text::Infinity));
    }
    let number = match text {
        [b'0', b'x' | b'X', digits @ ..] => Text::Hex(self::digits(digits, u8::is_ascii_hexdigit, b'p')?),
        _ => Text::Decimal(self::digits(text, u8::is_ascii_digit, b'e')?),
    };
    Some((negative, number))
}

/// Digits with a point among them and an exponent behind them, both optional.
fn digits(text: &[u8], is_digit: fn(&u8) -> bool, marker: u8) -> Option<Digits<'_>> {
    let run = |text: &[u8]| text.iter().position(|byte| !is_digit(byte)).unwrap_or(text.len());
    let (whole, rest) = text.split_at(run(text));
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => rest.split_at(run(rest)),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [mark, rest @ ..] if mark | 0x20 == marker => exponent(rest)?,
        _ => return None,
    };
    Some(Digits { whole, fraction, exponent })
}

fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |n: i64, digit| (n * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_number() {
        for text in [
            "0",
            "-0",
            "+1",
            "1.",
            ".5",
            "1.5",
            "1e5",
            "1E+5",
            "1.e-5",
            "inf",
            "-INF",
            "Infinity",
            "0x1",
            "0X.8",
            "0x1p3",
            "0xAp-3",
            "007",
            "1e99999999999999999999",
        ] {
            assert!(scan(text.as_bytes()).is_some(), "{text}");
        }
        for text in [
            "", "-", "+", ".", "e5", "1e", "1e+", "1 ", " 1", "\t1", "--1", "+-1", "nan", "-nan", "nan(1)", "infin",
            "0x", "0xg", "0x1p", "0x.", "1.2.3", "1,5", "1_0", "1\0", "\0", "1f", "0b1",
        ] {
            assert!(scan(text.as_bytes()).is_none(), "{text:?}");
        }
        let huge = scan(b"1e99999999999999999999");
        assert!(matches!(huge, Some((false, Text::Decimal(digits))) if digits.exponent == EXPONENT_MAX));
    }
}
