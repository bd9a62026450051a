//! Texts of values: integers, octal modes, memory sizes, switches, and the errors that Redis reports for them.
//!
//! Knows no directive. Redis's parsers accept a few accidents (`kb` alone is 0, an overflowing size wraps); those are errors here.

use std::borrow::Cow;
use std::fmt;

use nix::errno::Errno;

/// Why a value was refused; displays as Redis's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// Number of words.
    Arity,
    NotInteger,
    NotOctal,
    NotMemory,
    Range {
        min: i64,
        max: i64,
    },
    RangeOctal {
        max: u32,
    },
    NotBool,
    NotOneOf(&'static [&'static str]),
    BindCount,
    BufferArity,
    BufferClass,
    BufferLimit,
    /// The operating system's word on a path.
    Os(Errno),
    /// A value that cannot be honoured, and why.
    Refused(Cow<'static, str>),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::Arity => f.write_str("wrong number of arguments"),
            ValueError::NotInteger => f.write_str("argument couldn't be parsed into an integer"),
            ValueError::NotOctal => f.write_str("argument couldn't be parsed as an octal number"),
            ValueError::NotMemory => f.write_str("argument must be a memory value"),
            ValueError::Range { min, max } => write!(f, "argument must be between {min} and {max} inclusive"),
            ValueError::RangeOctal { max } => write!(f, "argument must be between 0 and {max:o} inclusive"),
            ValueError::NotBool => f.write_str("argument must be 'yes' or 'no'"),
            ValueError::NotOneOf(names) => {
                write!(f, "argument(s) must be one of the following: {}", names.join(", "))
            }
            ValueError::BindCount => f.write_str("Too many bind addresses specified."),
            ValueError::BufferArity => f.write_str("Wrong number of arguments in buffer limit configuration."),
            ValueError::BufferClass => f.write_str("Invalid client class specified in buffer limit configuration."),
            ValueError::BufferLimit => {
                f.write_str("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
            }
            ValueError::Os(errno) => f.write_str(errno.desc()),
            ValueError::Refused(why) => f.write_str(why),
        }
    }
}

/// A decimal integer in its one canonical spelling: no plus sign, leading zero or blank.
pub(super) fn integer(text: &[u8]) -> Result<i64, ValueError> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return Err(ValueError::NotInteger);
    }
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(ValueError::NotInteger)
}

/// An octal number such as file modes; leading zeros are usual.
pub(super) fn octal(text: &[u8]) -> Result<u32, ValueError> {
    if text.is_empty() || !text.iter().all(|b| (b'0'..=b'7').contains(b)) {
        return Err(ValueError::NotOctal);
    }
    let text = std::str::from_utf8(text).map_err(|_| ValueError::NotOctal)?;
    u32::from_str_radix(text, 8).map_err(|_| ValueError::NotOctal)
}

/// A size in bytes: digits, then nothing or `b`, powers of 1000 (`k`, `m`, `g`) or of 1024 (`kb`, `mb`, `gb`), in either case.
pub(super) fn memory(text: &[u8]) -> Result<u64, ValueError> {
    let unit_at = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let scale: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1000 * 1000,
        b"mb" => 1 << 20,
        b"g" => 1000 * 1000 * 1000,
        b"gb" => 1 << 30,
        _ => return Err(ValueError::NotMemory),
    };
    let number: u64 =
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(ValueError::NotMemory)?;
    number.checked_mul(scale).ok_or(ValueError::NotMemory)
}

/// A size in bytes, or a part of `whole_bytes` in percent (`50%`).
pub(super) fn memory_or_part(text: &[u8], whole_bytes: u64) -> Result<u64, ValueError> {
    let Some(percent) = text.strip_suffix(b"%") else { return memory(text) };
    let percent = integer(percent).map_err(|_| ValueError::NotMemory)?;
    match u64::try_from(percent) {
        Ok(percent @ 0..=100) => Ok(whole_bytes / 100 * percent),
        _ => Err(ValueError::Range { min: 0, max: 100 }),
    }
}

pub(super) fn boolean(text: &[u8]) -> Result<bool, ValueError> {
    if text.eq_ignore_ascii_case(b"yes") {
        Ok(true)
    } else if text.eq_ignore_ascii_case(b"no") {
        Ok(false)
    } else {
        Err(ValueError::NotBool)
    }
}

/// Position of `text` in `names`, in either case.
pub(super) fn one_of(text: &[u8], names: &'static [&'static str]) -> Result<usize, ValueError> {
    names.iter().position(|name| text.eq_ignore_ascii_case(name.as_bytes())).ok_or(ValueError::NotOneOf(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_units() {
        let rows: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("1", Some(1)),
            ("007", Some(7)),
            ("1b", Some(1)),
            ("1B", Some(1)),
            ("1k", Some(1_000)),
            ("1kb", Some(1_024)),
            ("1Kb", Some(1_024)),
            ("1m", Some(1_000_000)),
            ("1MB", Some(1_048_576)),
            ("1g", Some(1_000_000_000)),
            ("10gB", Some(10_737_418_240)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("17179869184gb", None),
            ("99999999999999gb", None),
            ("", None),
            ("kb", None),
            ("-1", None),
            ("+1", None),
            (" 1", None),
            ("1 mb", None),
            ("1.5mb", None),
            ("1xb", None),
            ("1t", None),
            ("1kbb", None),
        ];
        for (text, want) in rows {
            assert_eq!(memory(text.as_bytes()).ok(), *want, "{text:?}");
        }
    }

    #[test]
    fn integers_have_one_spelling() {
        for (text, want) in [("0", 0), ("7", 7), ("-7", -7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text.as_bytes()), Ok(want));
        }
        assert_eq!(integer(b"-9223372036854775808"), Ok(i64::MIN));
        for text in ["", "-", "-0", "+7", "007", " 7", "7 ", "1x", "0x10", "9223372036854775808", "1e3", "\u{663}"] {
            assert_eq!(integer(text.as_bytes()), Err(ValueError::NotInteger), "{text:?}");
        }
    }

    #[test]
    fn octal_numbers() {
        assert_eq!(octal(b"0"), Ok(0));
        assert_eq!(octal(b"0755"), Ok(0o755));
        for text in ["", "8", "-1", "7 ", "0o7", "77777777777777"] {
            assert_eq!(octal(text.as_bytes()), Err(ValueError::NotOctal), "{text:?}");
        }
    }

    #[test]
    fn switches_and_names() {
        assert_eq!(boolean(b"YES"), Ok(true));
        assert_eq!(boolean(b"no"), Ok(false));
        assert_eq!(boolean(b"1"), Err(ValueError::NotBool));
        assert_eq!(one_of(b"Two", &["one", "two"]), Ok(1));
        assert_eq!(one_of(b"", &["one"]), Err(ValueError::NotOneOf(&["one"])));
    }
}
