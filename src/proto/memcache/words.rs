//! Lines and their words.

/// Where the next byte from `at` on is that is a space or a control character.
#[inline(always)]
pub(super) fn word_end(buf: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    while let Some(bytes) = buf.get(at..at + 8).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*bytes);
        // The lowest marked byte is below 0x21; those above it may be marked by a borrow.
        let marks = word.wrapping_sub(ONES * 0x21) & !word & (ONES * 0x80);
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < buf.len() && buf[at] > b' ' {
        at += 1;
    }
    at
}

/// The words of a line.
#[derive(Clone)]
pub(super) struct Words<'b> {
    pub(super) rest: &'b [u8],
}

impl<'b> Iterator for Words<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let mut end = word_end(self.rest, 0);
        while end < self.rest.len() && self.rest[end] != b' ' {
            // Another control character is a part of the word.
            end = word_end(self.rest, end + 1);
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// A line without its end, and where the next one begins. A CR counts to the end unless it is the whole line.
#[inline]
pub(super) fn line(buf: &[u8], pos: usize) -> Option<(&[u8], usize)> {
    let length = memchr::memchr(b'\n', &buf[pos..])?;
    let line = &buf[pos..pos + length];
    let line = if length > 1 { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
    Some((line, pos + length + 1))
}
