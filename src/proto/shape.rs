//! Requests of a window that are as long as the one before, argument by argument: recognized by comparing what is between the arguments with what was there
//! before, and taken apart without decoding anything. Knows only the form of a request that was decoded (`resp`), which judges all others.
#![allow(unsafe_code)]

use super::resp::{NAME_AT, Opening};
use bumpalo::collections::Vec as ArenaVec;

/// A request to the byte, but for the bodies of its arguments behind the name: in a pipeline the next one mostly has arguments of the same lengths, and
/// then nothing of it need be decoded. What is compared is what was found to be right before, so it is right again.
///
/// ```text
///   *3\r\n$3\r\nSET\r\n$16\r\n................\r\n$8\r\n........\r\n
///   └ words, which overlap ┘             └─ gap ─┘       └ CR LF
/// ```
pub(super) struct Shape {
    /// Bytes of a request.
    bytes: usize,
    /// Its first word, the last one in front of the first body, and one between, with their places.
    words: [(usize, u64); 3],
    /// Where each argument begins, and its length; the name first.
    parts: [(usize, usize); SHAPED_ARGS],
    /// In front of each argument but the first two: the word that ends there, and by how many bits it is shifted to the right so that nothing but the
    /// gap is left of it.
    gaps: [(u64, u32); SHAPED_ARGS],
}

/// Most arguments of a request that has a shape, and most bytes in front of its first body.
pub(super) const SHAPED_ARGS: usize = 4;
const SHAPED_HEAD_BYTES: usize = 24;
/// Most bytes between two bodies.
const SHAPED_GAP_BYTES: usize = 8;
/// When fewer were alike, lengths change too often.
pub(super) const SHAPED_MIN: usize = 4;

impl Shape {
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// That of the request that ends at `end`, whose arguments are the last of `args`; it begins with `opening`. Its bytes were found to be right.
    pub(super) fn of_last(buf: &[u8], end: usize, opening: &Opening, args: &[&[u8]]) -> Option<Shape> {
        let own = args.len().checked_sub(opening.count()).and_then(|from| args.get(from..))?;
        if own.len() < 2 || own.len() > SHAPED_ARGS {
            return None;
        }
        let name_at = (own[0].as_ptr() as usize).checked_sub(buf.as_ptr() as usize)?;
        let from = name_at.checked_sub(NAME_AT)?;
        let whole = buf.get(from..end)?;
        // For a few it is not worth it.
        if (buf.len() - end) / SHAPED_MIN < whole.len() {
            return None;
        }
        let mut parts = [(0, 0); SHAPED_ARGS];
        let mut gaps = [(0, 0); SHAPED_ARGS];
        let mut behind = NAME_AT;
        for (i, arg) in own.iter().enumerate() {
            let at = (arg.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
            let gap_bytes = at.checked_sub(behind)?;
            if i == 1 && at > SHAPED_HEAD_BYTES || i > 1 && gap_bytes > SHAPED_GAP_BYTES {
                return None;
            }
            parts[i] = (at, arg.len());
            if i > 1 {
                let shift = u32::try_from(8 * (SHAPED_GAP_BYTES - gap_bytes)).unwrap_or(0);
                gaps[i] = (word_at(whole, at - 8)?, shift);
            }
            behind = at + arg.len();
        }
        if whole.len() != behind + 2 || !opening.is_at(buf, from) {
            return None;
        }
        let last = parts[1].0 - 8;
        let words = [0, last.min(8), last];
        let words = [word_at(whole, words[0]), word_at(whole, words[1]), word_at(whole, words[2])];
        let [Some(first), Some(middle), Some(at_last)] = words else { return None };
        Some(Shape { bytes: whole.len(), words: [(0, first), (last.min(8), middle), (last, at_last)], parts, gaps })
    }
}

/// 8 bytes of a buffer, as the words of a shape are compared.
fn word_at(buf: &[u8], at: usize) -> Option<u64> {
    buf.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Parses the requests from `from` on that have a shape, of `COUNT` arguments, as `parse_run` does.
#[inline(always)]
pub(super) fn parse_shaped<'a: 'b, 'b, const COUNT: usize>(
    buf: &'b [u8],
    from: usize,
    shape: &Shape,
    args: &mut ArenaVec<'a, &'b [u8]>,
    ends: &mut [usize],
) -> usize {
    let Shape { bytes, words: [(_, first), (middle_at, middle), (last_at, last)], .. } = *shape;
    let (Some(parts), Some(gaps)) = (shape.parts.first_chunk::<COUNT>(), shape.gaps.first_chunk::<COUNT>()) else {
        return 0;
    };
    let (parts, gaps) = (*parts, *gaps);
    let held = args.len();
    let most = ((buf.len() - from) / bytes).min(ends.len());
    args.reserve(most * COUNT);
    // SAFETY: `reserve` made room for `most * COUNT` arguments behind the first `held`; each round writes `COUNT` of them.
    let mut free = unsafe { args.as_mut_ptr().add(held) };
    // SAFETY: `from <= buf.len()`.
    let mut request = unsafe { buf.as_ptr().add(from) };
    let mut n = 0;
    let mut end = from;
    for end_of in &mut ends[..most] {
        let word = |offset: usize| {
            // SAFETY: `request` is at `from + n * bytes` with n < `most`, so `bytes` bytes lie behind it, and so does each word of a shape, as those
            // it is compared with were read out of such a request.
            u64::from_le_bytes(unsafe { request.add(offset).cast::<[u8; 8]>().read() })
        };
        let mut differs = word(0) ^ first | word(middle_at) ^ middle | word(last_at) ^ last;
        let mut i = 2;
        while i < COUNT {
            differs |= (word(parts[i].0 - 8) ^ gaps[i].0) >> gaps[i].1;
            i += 1;
        }
        // SAFETY: a request's last bytes.
        let crlf = unsafe { request.add(bytes - 2).cast::<[u8; 2]>().read() };
        if differs != 0 || crlf != *b"\r\n" {
            break;
        }
        for (part_at, part_bytes) in parts {
            // SAFETY: the arguments of a request of that shape lie in it; there is room for them (above).
            unsafe {
                free.write(std::slice::from_raw_parts(request.add(part_at), part_bytes));
                free = free.add(1);
            }
        }
        // SAFETY: one round less is left of the `most`.
        request = unsafe { request.add(bytes) };
        n += 1;
        end += bytes;
        *end_of = end;
    }
    // SAFETY: `n` rounds wrote `COUNT` arguments each, one behind the other.
    unsafe { args.set_len(held + n * COUNT) };
    n
}
