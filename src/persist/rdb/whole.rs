//! Reads a small collection that is one string, all of which is there: what `decode` does for any, without its steps.

use super::decode::{Layout, layout_of};
use super::elements::Elements;
use super::packed::{Format, Packed, Piece};
use super::{Kind, Malformed};
use crate::base::entry::Entry;

/// The kind of a collection that is one string with all of its elements, and the format of that.
pub(super) fn packed_of(first: u8) -> Option<(Kind, Format)> {
    match layout_of(first) {
        Some((kind, Layout::Packed(format))) => Some((kind, format)),
        _ => None,
    }
}

/// All elements of such a collection, whose string is `text`. Returns their number.
///
/// # Errors
/// If it is not what it should be.
pub(super) fn decode_packed(
    (kind, format): (Kind, Format),
    text: &[u8],
    max_bytes: u64,
    seed: u64,
    elements: &mut Elements,
    run: &mut Vec<u8>,
) -> Result<u64, Malformed> {
    let (mut packed, mut rest) = (Packed::new(format, text.len() as u64), text);
    let strings = if matches!(kind, Kind::Hash | Kind::Zset) { 2 } else { 1 };
    elements.begin(kind, strings, format == Format::Intset, seed);
    loop {
        let (piece, taken) = packed.next(rest)?.ok_or(Malformed)?;
        rest = &rest[taken..];
        match piece {
            Piece::Element(Entry::Bytes(bytes)) if bytes.len() as u64 > max_bytes => return Err(Malformed),
            Piece::Element(entry) => {
                elements.put(entry, run)?;
            }
            Piece::Frame => {}
            Piece::End if rest.is_empty() && elements.is_whole() => return Ok(elements.count()),
            Piece::End => return Err(Malformed),
        }
    }
}
