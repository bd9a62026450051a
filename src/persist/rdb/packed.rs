//! The formats that a small container, or a node of a list, has within one string: listpack, ziplist, zipmap, intset. Owns how each of them is
//! read from its beginning to its end, as its bytes come; knows nothing of what the elements are for.
//!
//! ```text
//! listpack   | bytes 4 | elements 2 | element ... | FF |       element: | encoding, contents | their length, 7 bits a byte |
//! ziplist    | bytes 4 | last at 4 | elements 2 | element ... | FF |     element: | length of the one before | encoding, contents |
//! zipmap     | pairs 1 | pair ... | FF |                        pair: | length | field | length | unused 1 | value | unused ... |
//! intset     | bytes of one 4 | elements 4 | element ... |
//! ```
//! Little-endian, but for the lengths in a ziplist. A count of `FFFF` (a zipmap's: `FE` and up) says nothing.

use super::Malformed;
use crate::base::entry::Entry;

const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = 0xffff;
const ZIPMAP_COUNT_UNKNOWN: u8 = 0xfe;
/// In a ziplist or a zipmap: the length is in the 4 bytes behind.
const LONG: u8 = 0xfe;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Listpack,
    Ziplist,
    Zipmap,
    Intset,
}

/// What was found next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// Something that is no element.
    Frame,
    Element(Entry<'a>),
    /// The end; nothing may follow.
    End,
}

/// Why nothing was found.
enum Stop {
    /// Bytes are missing.
    Short,
    Malformed,
}

/// What was found, and how many bytes it takes.
type Found<'a> = Result<(Piece<'a>, usize), Stop>;

/// One of the formats being read.
#[derive(Debug)]
pub struct Packed {
    format: Format,
    /// Of the whole.
    bytes: u64,
    /// How many were read.
    at: u64,
    /// Elements that the header speaks of (of a zipmap twice the pairs).
    said: Option<u64>,
    count: u64,
    /// Where the latest element began.
    latest: u64,
    /// A ziplist's word on where the last element begins.
    last: u64,
    /// Of an intset: bytes of an integer, and the latest.
    width: usize,
    previous: Option<i64>,
}

impl Packed {
    /// For a string of so many bytes.
    #[must_use]
    pub fn new(format: Format, bytes: u64) -> Packed {
        Packed { format, bytes, at: 0, said: None, count: 0, latest: 0, last: 0, width: 0, previous: None }
    }

    /// What comes next in `bytes`, which begin where the last call ended, and how many of them it takes. `None`: they are too few.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Piece<'a>, usize)>, Malformed> {
        let found = match (self.format, self.at) {
            (Format::Listpack, 0) => self.listpack_header(bytes),
            (Format::Listpack, _) => self.listpack(bytes),
            (Format::Ziplist, 0) => self.ziplist_header(bytes),
            (Format::Ziplist, _) => self.ziplist(bytes),
            (Format::Zipmap, 0) => self.zipmap_header(bytes),
            (Format::Zipmap, _) => self.zipmap(bytes),
            (Format::Intset, 0) => self.intset_header(bytes),
            (Format::Intset, _) => self.intset(bytes),
        };
        let (piece, taken) = match found {
            Ok(found) => found,
            Err(Stop::Short) => return Ok(None),
            Err(Stop::Malformed) => return Err(Malformed),
        };
        if let Piece::Element(_) = piece {
            self.latest = self.at;
            self.count += 1;
        }
        self.at += taken as u64;
        if self.at > self.bytes {
            return Err(Malformed);
        }
        Ok(Some((piece, taken)))
    }

    /// The last byte: it is that of the string, and there were as many elements as was said.
    fn end(&self) -> Found<'static> {
        let whole = self.at + 1 == self.bytes;
        let all = self.said.is_none_or(|said| said == self.count);
        if whole && all { Ok((Piece::End, 1)) } else { Err(Stop::Malformed) }
    }

    /// So many bytes behind the first `from`; a length beyond the end of all is not waited for.
    fn part<'a>(&self, bytes: &'a [u8], from: usize, len: u32) -> Result<&'a [u8], Stop> {
        if u64::from(len) > self.bytes.saturating_sub(self.at) {
            return Err(Stop::Malformed);
        }
        bytes.get(from..from.saturating_add(len as usize)).ok_or(Stop::Short)
    }

    fn listpack_header(&mut self, bytes: &[u8]) -> Found<'static> {
        const HEADER_BYTES: usize = 6;
        let (whole, count) = (u32::from_le_bytes(array(bytes, 0)?), u16::from_le_bytes(array(bytes, 4)?));
        if u64::from(whole) != self.bytes {
            return Err(Stop::Malformed);
        }
        self.said = (count != COUNT_UNKNOWN).then_some(count.into());
        Ok((Piece::Frame, HEADER_BYTES))
    }

    fn listpack<'a>(&self, bytes: &'a [u8]) -> Found<'a> {
        let [first] = array(bytes, 0)?;
        let (entry, used) = match first {
            0..0x80 => (Entry::Int(first.into()), 1),
            0x80..0xc0 => self.text(bytes, 1, u32::from(first & 0x3f))?,
            0xc0..0xe0 => {
                let [_, low] = array(bytes, 0)?;
                // 13 bits with a sign.
                let number = i16::from_be_bytes([first, low]) << 3 >> 3;
                (Entry::Int(number.into()), 2)
            }
            0xe0..0xf0 => {
                let [_, low] = array(bytes, 0)?;
                self.text(bytes, 2, u32::from(first & 0x0f) << 8 | u32::from(low))?
            }
            0xf0 => self.text(bytes, 5, u32::from_le_bytes(array(bytes, 1)?))?,
            0xf1 => self.integer(bytes, 2)?,
            0xf2 => self.integer(bytes, 3)?,
            0xf3 => self.integer(bytes, 4)?,
            0xf4 => self.integer(bytes, 8)?,
            END => return self.end(),
            _ => return Err(Stop::Malformed),
        };
        // The length once more, from behind: seven bits a byte, all but the first of them marked.
        let mut length = [0; 5];
        let tail_bytes = backward_length(used, &mut length);
        let tail = bytes.get(used..used + tail_bytes).ok_or(Stop::Short)?;
        if tail != &length[..tail_bytes] {
            return Err(Stop::Malformed);
        }
        Ok((Piece::Element(entry), used + tail_bytes))
    }

    fn ziplist_header(&mut self, bytes: &[u8]) -> Found<'static> {
        const HEADER_BYTES: usize = 10;
        let whole = u32::from_le_bytes(array(bytes, 0)?);
        self.last = u32::from_le_bytes(array(bytes, 4)?).into();
        let count = u16::from_le_bytes(array(bytes, 8)?);
        if u64::from(whole) != self.bytes {
            return Err(Stop::Malformed);
        }
        self.said = (count != COUNT_UNKNOWN).then_some(count.into());
        // Where the last element begins if there is none: at the end.
        self.latest = HEADER_BYTES as u64;
        Ok((Piece::Frame, HEADER_BYTES))
    }

    fn ziplist<'a>(&self, bytes: &'a [u8]) -> Found<'a> {
        let [first] = array(bytes, 0)?;
        if first == END {
            return if self.latest == self.last { self.end() } else { Err(Stop::Malformed) };
        }
        let (before, head) = if first == LONG { (u32::from_le_bytes(array(bytes, 1)?), 5) } else { (first.into(), 1) };
        let real = if self.count == 0 { 0 } else { self.at - self.latest };
        if u64::from(before) != real {
            return Err(Stop::Malformed);
        }
        let bytes = bytes.get(head..).ok_or(Stop::Short)?;
        let [first] = array(bytes, 0)?;
        let (entry, used) = match first {
            0..0x40 => self.text(bytes, 1, first.into())?,
            0x40..0x80 => {
                let [_, low] = array(bytes, 0)?;
                self.text(bytes, 2, u32::from(first & 0x3f) << 8 | u32::from(low))?
            }
            0x80 => self.text(bytes, 5, u32::from_be_bytes(array(bytes, 1)?))?,
            0xc0 => self.integer(bytes, 2)?,
            0xd0 => self.integer(bytes, 4)?,
            0xe0 => self.integer(bytes, 8)?,
            0xf0 => self.integer(bytes, 3)?,
            0xfe => self.integer(bytes, 1)?,
            0xf1..=0xfd => (Entry::Int(i64::from(first & 0x0f) - 1), 1),
            _ => return Err(Stop::Malformed),
        };
        Ok((Piece::Element(entry), head + used))
    }

    fn zipmap_header(&mut self, bytes: &[u8]) -> Found<'static> {
        let [pairs] = array(bytes, 0)?;
        self.said = (pairs < ZIPMAP_COUNT_UNKNOWN).then_some(2 * u64::from(pairs));
        Ok((Piece::Frame, 1))
    }

    fn zipmap<'a>(&self, bytes: &'a [u8]) -> Found<'a> {
        let [first] = array(bytes, 0)?;
        let is_value = self.count % 2 == 1;
        let (len, head) = match first {
            END if !is_value => return self.end(),
            END => return Err(Stop::Malformed),
            LONG => (u32::from_le_bytes(array(bytes, 1)?), 5),
            _ => (first.into(), 1),
        };
        if !is_value {
            let (entry, used) = self.text(bytes, head, len)?;
            return Ok((Piece::Element(entry), used));
        }
        let [unused] = array(bytes, head)?;
        let (entry, used) = self.text(bytes, head + 1, len)?;
        self.part(bytes, used, unused.into())?;
        Ok((Piece::Element(entry), used + usize::from(unused)))
    }

    fn intset_header(&mut self, bytes: &[u8]) -> Found<'static> {
        const HEADER_BYTES: usize = 8;
        let (width, count) = (u32::from_le_bytes(array(bytes, 0)?), u32::from_le_bytes(array(bytes, 4)?));
        let whole = HEADER_BYTES as u64 + u64::from(count) * u64::from(width);
        if !matches!(width, 2 | 4 | 8) || whole != self.bytes {
            return Err(Stop::Malformed);
        }
        self.width = width as usize;
        Ok((Piece::Frame, HEADER_BYTES))
    }

    /// The integers ascend, so none is there twice.
    fn intset<'a>(&mut self, bytes: &'a [u8]) -> Found<'a> {
        if self.at == self.bytes {
            return Ok((Piece::End, 0));
        }
        let number = signed(bytes.get(..self.width).ok_or(Stop::Short)?);
        if self.previous.is_some_and(|previous| previous >= number) {
            return Err(Stop::Malformed);
        }
        self.previous = Some(number);
        Ok((Piece::Element(Entry::Int(number)), self.width))
    }

    fn text<'a>(&self, bytes: &'a [u8], from: usize, len: u32) -> Result<(Entry<'a>, usize), Stop> {
        let text = self.part(bytes, from, len)?;
        Ok((Entry::of(text), from + text.len()))
    }

    /// An integer of so many bytes, behind its encoding.
    fn integer(&self, bytes: &[u8], width: u32) -> Result<(Entry<'static>, usize), Stop> {
        let number = self.part(bytes, 1, width)?;
        Ok((Entry::Int(signed(number)), 1 + number.len()))
    }
}

/// The bytes behind the first `from`.
fn array<const N: usize>(bytes: &[u8], from: usize) -> Result<[u8; N], Stop> {
    bytes.get(from..).and_then(|bytes| bytes.first_chunk()).copied().ok_or(Stop::Short)
}

/// A little-endian integer of up to 8 bytes.
fn signed(bytes: &[u8]) -> i64 {
    let mut word = [if bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xff } else { 0 }; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(word)
}

/// The length of a listpack's element as it stands behind it; how many bytes that takes.
fn backward_length(len: usize, into: &mut [u8; 5]) -> usize {
    let bytes = match len {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    };
    for (i, byte) in into[..bytes].iter_mut().enumerate() {
        *byte = (len >> (7 * (bytes - 1 - i))).to_le_bytes()[0] & 0x7f | if i > 0 { 0x80 } else { 0 };
    }
    bytes
}
