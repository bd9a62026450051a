//! Strings, and the lengths before them.
//!
//! ```text
//! 00LLLLLL                       a string of L bytes follows
//! 01LLLLLL LLLLLLLL              of 14 bits of length
//! 10000000 LLLL                  of 32, big-endian
//! 10000001 LLLLLLLL              of 64, big-endian
//! 11000000 i, 11000001 ii, 11000010 iiii    an integer of 8, 16, 32 bits, little-endian
//! 11000011 <length> <length> ... packed length, length, LZF
//! ```

use super::Malformed;
use super::lzf::{Packer, Unpacker};
use crate::base::int;

const LENGTH_14: u8 = 0x40;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;
const INT_8: u8 = 0xc0;
const INT_16: u8 = 0xc1;
const INT_32: u8 = 0xc2;
const LZF: u8 = 0xc3;

/// Most bytes of a string's beginning, up to its contents.
pub const HEAD_BYTES_MAX: usize = 1 + 9 + 9;
/// Longest text that is tried as an integer: `-2147483648`.
const INT_TEXT_MAX: usize = 11;
/// Shorter strings are not tried to be packed, as in Redis.
const PACKED_MIN_BYTES: usize = 21;
/// Input unpacked in one go.
const PIECE_BYTES: usize = 1024;

/// How the contents of a string follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// Not at all: it is the text of this number.
    Int(i64),
    Plain {
        bytes: u64,
    },
    Packed {
        packed_bytes: u64,
        bytes: u64,
    },
}

/// Writes what comes before a string of so many bytes.
pub fn write_length(bytes: u64, into: &mut Vec<u8>) {
    let [.., c, d] = bytes.to_be_bytes();
    if bytes < 1 << 6 {
        into.push(d);
    } else if bytes < 1 << 14 {
        into.extend_from_slice(&[LENGTH_14 | c, d]);
    } else if let Ok(bytes) = u32::try_from(bytes) {
        into.push(LENGTH_32);
        into.extend_from_slice(&bytes.to_be_bytes());
    } else {
        into.push(LENGTH_64);
        into.extend_from_slice(&bytes.to_be_bytes());
    }
}

/// Writes the text of a number.
pub fn write_int(number: i64, into: &mut Vec<u8>) {
    if let Ok(byte) = i8::try_from(number) {
        into.push(INT_8);
        into.extend_from_slice(&byte.to_le_bytes());
    } else if let Ok(short) = i16::try_from(number) {
        into.push(INT_16);
        into.extend_from_slice(&short.to_le_bytes());
    } else if let Ok(long) = i32::try_from(number) {
        into.push(INT_32);
        into.extend_from_slice(&long.to_le_bytes());
    } else {
        let mut digits = [0; 20];
        let digits = int::write_i64(&mut digits, number);
        write_length(digits.len() as u64, into);
        into.extend_from_slice(digits);
    }
}

/// Writes a string.
pub fn write(bytes: &[u8], into: &mut Vec<u8>) {
    if bytes.len() <= INT_TEXT_MAX
        && let Some(number) = int::parse_i64(bytes)
    {
        return write_int(number, into);
    }
    write_length(bytes.len() as u64, into);
    into.extend_from_slice(bytes);
}

/// Writes a string, packed if that makes it shorter.
pub fn write_packed(bytes: &[u8], packer: &mut Packer, into: &mut Vec<u8>) {
    if bytes.len() < PACKED_MIN_BYTES {
        return write(bytes, into);
    }
    let start = into.len();
    into.push(LZF);
    // The length is written when it is known, in as many bytes as it may take.
    let room = if bytes.len() < 1 << 6 {
        1
    } else if bytes.len() < 1 << 14 {
        2
    } else {
        5
    };
    into.resize(into.len() + room, 0);
    write_length(bytes.len() as u64, into);
    let contents = into.len();
    let spent = contents - start;
    if !packer.pack(bytes, bytes.len() - spent, into) {
        into.truncate(start);
        write_length(bytes.len() as u64, into);
        return into.extend_from_slice(bytes);
    }
    let packed_bytes = into.len() - contents;
    let [.., b3, b2, b1, b0] = (packed_bytes as u64).to_be_bytes();
    let length = &mut into[start + 1..start + 1 + room];
    match room {
        1 => length[0] = b0,
        2 => length.copy_from_slice(&[LENGTH_14 | b1, b0]),
        _ => length.copy_from_slice(&[LENGTH_32, b3, b2, b1, b0]),
    }
}

/// The first `N` bytes.
fn array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (bytes, rest) = input.split_first_chunk::<N>().ok_or(Malformed)?;
    *input = rest;
    Ok(*bytes)
}

fn length(first: u8, input: &mut &[u8]) -> Result<u64, Malformed> {
    match first {
        0..LENGTH_14 => Ok(first.into()),
        LENGTH_14..LENGTH_32 => {
            let [low] = array(input)?;
            Ok(u64::from(u16::from_be_bytes([first & !LENGTH_14, low])))
        }
        LENGTH_32 => array(input).map(|bytes| u32::from_be_bytes(bytes).into()),
        LENGTH_64 => array(input).map(u64::from_be_bytes),
        _ => Err(Malformed),
    }
}

/// Reads the beginning of a string off `input`, of which the first [`HEAD_BYTES_MAX`] bytes, or all there are, must be there.
///
/// # Errors
/// If it is none.
pub fn read_head(input: &mut &[u8]) -> Result<Head, Malformed> {
    let [first] = array(input)?;
    match first {
        INT_8 => array(input).map(|bytes| Head::Int(i8::from_le_bytes(bytes).into())),
        INT_16 => array(input).map(|bytes| Head::Int(i16::from_le_bytes(bytes).into())),
        INT_32 => array(input).map(|bytes| Head::Int(i32::from_le_bytes(bytes).into())),
        LZF => {
            let [first] = array(input)?;
            let packed_bytes = length(first, input)?;
            let [first] = array(input)?;
            let bytes = length(first, input)?;
            Ok(Head::Packed { packed_bytes, bytes })
        }
        _ => length(first, input).map(|bytes| Head::Plain { bytes }),
    }
}

/// A string that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Text<'a> {
    Int(i64),
    Plain(&'a [u8]),
    Unpacked(Vec<u8>),
}

/// Reads a whole string of at most `max_bytes` off `input`.
///
/// # Errors
/// If it is none, or too long.
pub fn read<'a>(input: &mut &'a [u8], max_bytes: u64) -> Result<Text<'a>, Malformed> {
    let contents = |bytes: u64, input: &mut &'a [u8]| {
        let (contents, rest) =
            usize::try_from(bytes).ok().and_then(|bytes| input.split_at_checked(bytes)).ok_or(Malformed)?;
        *input = rest;
        Ok(contents)
    };
    match read_head(input)? {
        Head::Int(number) => Ok(Text::Int(number)),
        Head::Plain { bytes } | Head::Packed { bytes, .. } if bytes > max_bytes => Err(Malformed),
        Head::Plain { bytes } => contents(bytes, input).map(Text::Plain),
        Head::Packed { packed_bytes, bytes } => {
            let (mut unpacker, mut out) = (Unpacker::new(bytes), Vec::new());
            for piece in contents(packed_bytes, input)?.chunks(PIECE_BYTES) {
                unpacker.feed(piece)?;
                unpacker.take(|bytes| out.extend_from_slice(bytes));
            }
            unpacker.finish()?;
            Ok(Text::Unpacked(out))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &Text<'_>) -> Vec<u8> {
        match text {
            Text::Int(number) => number.to_string().into_bytes(),
            Text::Plain(bytes) => bytes.to_vec(),
            Text::Unpacked(bytes) => bytes.clone(),
        }
    }

    fn round_trip(bytes: &[u8]) -> usize {
        let mut coded = Vec::new();
        write(bytes, &mut coded);
        let len = coded.len();
        coded.extend_from_slice(b"rest");
        let mut input = &coded[..];
        assert!(text(&read(&mut input, u64::MAX).unwrap()) == bytes);
        assert_eq!(input, b"rest");
        assert!(
            bytes.is_empty()
                || read(&mut &coded[..], bytes.len() as u64 - 1).is_err()
                || matches!(coded[0], INT_8..=INT_32)
        );
        for cut in 0..len.min(40) {
            assert_eq!(read(&mut &coded[..cut], u64::MAX), Err(Malformed));
        }
        len
    }

    #[test]
    fn lengths_and_integers_take_what_redis_takes() {
        for (len, want) in [(0, 1), (1, 2), (63, 64), (64, 66), (16_383, 16_385), (16_384, 16_389), (70_000, 70_005)] {
            assert_eq!(round_trip(&vec![b'x'; len]), want);
        }
        let texts = [
            "0",
            "-1",
            "127",
            "-128",
            "128",
            "-32768",
            "32768",
            "2147483647",
            "-2147483648",
            "2147483648",
            "-0",
            "01",
            "+1",
        ];
        for (text, want) in texts.into_iter().zip([2, 2, 2, 2, 3, 3, 5, 5, 5, 11, 3, 3, 3]) {
            assert_eq!(round_trip(text.as_bytes()), want, "{text}");
        }
        let mut long = Vec::new();
        write_length(1 << 40, &mut long);
        assert_eq!(read_head(&mut &long[..]), Ok(Head::Plain { bytes: 1 << 40 }));
        assert_eq!(read(&mut &long[..], u64::MAX), Err(Malformed));
    }

    /// As redis-server 7.0.15 dumped fifty times `a`, and `abcabc...` of 300 bytes.
    #[test]
    fn packed_strings_of_redis() {
        let a = b"\xc3\x09\x32\x01aa\xe0\x25\x00\x01aa";
        assert_eq!(read(&mut &a[..], 50), Ok(Text::Unpacked(vec![b'a'; 50])));
        assert_eq!(read(&mut &a[..], 49), Err(Malformed));
        for i in 0..a.len() {
            assert_eq!(read(&mut &a[..i], 50), Err(Malformed));
        }
        let abc = b"\xc3\x0e\x41\x2c\x03abca\xe0\xff\x02\xe1\x15\x07\x01bc";
        assert_eq!(read(&mut &abc[..], 300), Ok(Text::Unpacked(b"abc".repeat(100))));
    }

    proptest! {
        #[test]
        fn round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            round_trip(&bytes);
        }

        #[test]
        fn packed_strings_round_trip(words in proptest::collection::vec((0..9u8, 1..40usize), 0..300)) {
            let bytes: Vec<u8> = words.iter().flat_map(|(word, n)| vec![b'a' + word; *n]).collect();
            let (mut packer, mut coded) = (Packer::default(), Vec::new());
            for bytes in [&bytes[..], &bytes[bytes.len() / 2..], &bytes[..]] {
                coded.clear();
                write_packed(bytes, &mut packer, &mut coded);
                prop_assert!(coded.len() <= bytes.len() + 5);
                let mut input = &coded[..];
                prop_assert_eq!(text(&read(&mut input, u64::MAX).unwrap()), bytes);
                prop_assert!(input.is_empty());
            }
        }

        #[test]
        fn numbers(number: i64) {
            for number in [number, number >> 32, number >> 48, number >> 56] {
                let mut coded = Vec::new();
                write_int(number, &mut coded);
                let mut input = &coded[..];
                prop_assert_eq!(text(&read(&mut input, 20).unwrap()), number.to_string().into_bytes());
                prop_assert!(input.is_empty());
                let mut same = Vec::new();
                write(number.to_string().as_bytes(), &mut same);
                prop_assert_eq!(coded, same);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..60), first in 0xbe..=0xff_u8) {
            for input in [bytes.clone(), [&[first][..], &bytes].concat()] {
                if let Ok(read) = read(&mut &input[..], 1000) {
                    prop_assert!(text(&read).len() <= 1000);
                }
            }
        }
    }
}
