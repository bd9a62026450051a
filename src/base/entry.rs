//! Entries: byte strings and integers one after the other in a run of bytes. Small containers lie in their items so, and elements travel so
//! between containers, formats and replies. Owns the encoding; knows nothing of what an entry is to its container.
//!
//! ```text
//!  head byte
//!  00 ..= BF   a string of that many bytes, which follow
//!  C1 ..= C8   an integer of 1 to 8 bytes (head - C0), little-endian, sign-extended
//!  D0 ..= EF   an integer of 0 to 31
//!  F0          a string: its length in 2 bytes, then its bytes
//!  F1          a string: its length in 4 bytes, then its bytes
//! ```
//! There is one encoding of each byte string: what is an integer in canonical form ([`int::parse_i64`]) is always one, in as few bytes as it
//! takes. So two entries are equal if and only if their encodings are, and a search encodes what it looks for once.

use super::int;

const INT: u8 = 0xC0;
const SMALL_INT: u8 = 0xD0;
const SMALL_INT_END: u8 = 0xF0;
const STRING_2: u8 = 0xF0;
const STRING_4: u8 = 0xF1;
/// Longest string whose head is its length.
pub const SHORT_MAX: usize = 0xBF;
/// Longest string that can be an entry.
pub const LEN_MAX: usize = u32::MAX as usize;
/// Bytes in front of a string at most.
pub const HEAD_BYTES_MAX: usize = 5;
/// Longest encoding of an integer.
pub const INT_BYTES_MAX: usize = 9;

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// Never an integer in canonical form.
    Bytes(&'a [u8]),
    Int(i64),
}

impl<'a> Entry<'a> {
    /// The entry of a byte string (at most [`LEN_MAX`] bytes).
    #[inline]
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Entry<'a> {
        match int::parse_i64(bytes) {
            Some(value) => Entry::Int(value),
            None => Entry::Bytes(bytes),
        }
    }

    /// Bytes of its encoding.
    #[inline]
    #[must_use]
    pub fn encoded_bytes(self) -> usize {
        match self {
            Entry::Bytes(bytes) => head_bytes(bytes.len()) + bytes.len(),
            Entry::Int(value) if (0..i64::from(SMALL_INT_END - SMALL_INT)).contains(&value) => 1,
            Entry::Int(value) => 1 + int_bytes(value),
        }
    }

    /// Appends its encoding.
    #[inline]
    pub fn put(self, out: &mut Vec<u8>) {
        match self {
            Entry::Bytes(bytes) => {
                put_head(out, bytes.len());
                out.extend_from_slice(bytes);
            }
            Entry::Int(value) => put_int(out, value),
        }
    }

    /// Writes its encoding to the beginning of `to`; its length.
    ///
    /// # Panics
    /// When there is less room than [`Entry::encoded_bytes`].
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "each arm's bound: 0 to 31, at most 8, at most LEN_MAX"
    )]
    pub fn write(self, to: &mut [u8]) -> usize {
        let len = self.encoded_bytes();
        let to = &mut to[..len];
        match self {
            Entry::Int(value) if len == 1 => to[0] = SMALL_INT + value as u8,
            Entry::Int(value) => {
                to[0] = INT + (len - 1) as u8;
                to[1..].copy_from_slice(&value.to_le_bytes()[..len - 1]);
            }
            Entry::Bytes(bytes) => {
                let (head, rest) = to.split_at_mut(head_bytes(bytes.len()));
                match head {
                    [short] => *short = bytes.len() as u8,
                    [kind, len @ ..] => {
                        *kind = if len.len() == 2 { STRING_2 } else { STRING_4 };
                        len.copy_from_slice(&(bytes.len() as u32).to_le_bytes()[..len.len()]);
                    }
                    [] => unreachable!("a string has a head"),
                }
                rest.copy_from_slice(bytes);
            }
        }
        len
    }

    /// Its text: the string itself, or the digits of the integer, made in `digits`.
    #[inline]
    #[must_use]
    pub fn text<'b>(self, digits: &'b mut [u8; int::MAX_DIGITS]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Entry::Bytes(bytes) => bytes,
            Entry::Int(value) => int::write_i64(digits, value),
        }
    }

    /// The text in memory of its own.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        self.text(&mut [0; int::MAX_DIGITS]).to_vec()
    }

    /// Length of its text in bytes.
    #[inline]
    #[must_use]
    pub fn text_len(self) -> usize {
        self.text(&mut [0; int::MAX_DIGITS]).len()
    }

    /// Is this the entry of `bytes`?
    #[inline]
    #[must_use]
    pub fn is(self, bytes: &[u8]) -> bool {
        self.text(&mut [0; int::MAX_DIGITS]) == bytes
    }
}

/// Takes the first entry off a run; the rest. `None` at the end.
///
/// # Panics
/// If the bytes are no run of entries: runs are made by [`Entry::put`] only.
#[inline]
#[must_use]
pub fn split(run: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (&head, rest) = run.split_first()?;
    Some(match head {
        0..INT => string(rest, usize::from(head)),
        SMALL_INT..SMALL_INT_END => (Entry::Int(i64::from(head - SMALL_INT)), rest),
        STRING_2 => string(&rest[2..], usize::from(u16::from_le_bytes([rest[0], rest[1]]))),
        STRING_4 => string(&rest[4..], u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize),
        _ => {
            let (digits, rest) = rest.split_at(usize::from(head - INT));
            let mut word = [if digits.last().is_some_and(|top| top & 0x80 != 0) { 0xff } else { 0 }; 8];
            word[..digits.len()].copy_from_slice(digits);
            (Entry::Int(i64::from_le_bytes(word)), rest)
        }
    })
}

/// Bytes of the first entry's encoding; 0 at the end.
#[inline]
#[must_use]
pub fn span(run: &[u8]) -> usize {
    let Some(&head) = run.first() else { return 0 };
    match head {
        0..INT => 1 + usize::from(head),
        SMALL_INT..SMALL_INT_END => 1,
        STRING_2 => 3 + usize::from(u16::from_le_bytes([run[1], run[2]])),
        STRING_4 => 5 + u32::from_le_bytes([run[1], run[2], run[3], run[4]]) as usize,
        _ => 1 + usize::from(head - INT),
    }
}

/// Appends the entry of a byte string.
#[inline]
pub fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    Entry::of(bytes).put(out);
}

/// Appends the head of a string that is no integer in canonical form; its `len` bytes are to follow, in pieces.
#[inline]
pub fn put_string_head(out: &mut Vec<u8>, len: usize) {
    put_head(out, len);
}

/// Appends the entry of an integer.
#[inline]
pub fn put_int(out: &mut Vec<u8>, value: i64) {
    let (encoded, bytes) = encode_int(value);
    out.extend_from_slice(&encoded[..bytes]);
}

/// The entry of an integer, and how many bytes it takes.
#[inline]
#[must_use]
pub fn encode_int(value: i64) -> ([u8; INT_BYTES_MAX], usize) {
    let mut encoded = [0; INT_BYTES_MAX];
    match u8::try_from(value) {
        Ok(small) if small < SMALL_INT_END - SMALL_INT => {
            encoded[0] = SMALL_INT + small;
            (encoded, 1)
        }
        _ => {
            let bytes = int_bytes(value);
            #[expect(clippy::cast_possible_truncation, reason = "at most 8")]
            let head = INT + bytes as u8;
            encoded[0] = head;
            encoded[1..].copy_from_slice(&value.to_le_bytes());
            (encoded, 1 + bytes)
        }
    }
}

/// Bytes of the head of an entry, by the first of them; what follows is an integer or a string, whose length the head tells ([`span`] needs no
/// more of it).
#[inline]
#[must_use]
pub fn head_bytes_from(first: u8) -> usize {
    match first {
        STRING_2 => 3,
        STRING_4 => HEAD_BYTES_MAX,
        _ => 1,
    }
}

/// The entries of a run, in order.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    #[must_use]
    pub fn new(run: &'a [u8]) -> Entries<'a> {
        Entries(run)
    }

    /// What was not taken yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let (entry, rest) = split(self.0)?;
        self.0 = rest;
        Some(entry)
    }
}

#[inline]
fn string(rest: &[u8], len: usize) -> (Entry<'_>, &[u8]) {
    let (bytes, rest) = rest.split_at(len);
    (Entry::Bytes(bytes), rest)
}

#[inline]
fn head_bytes(len: usize) -> usize {
    match len {
        0..=SHORT_MAX => 1,
        0xC0..=0xffff => 3,
        _ => HEAD_BYTES_MAX,
    }
}

/// Appends the head of a string of so many bytes, which the caller appends then: at least [`int::MAX_DIGITS`] + 1, so that it is no integer.
#[inline]
pub fn put_head(out: &mut Vec<u8>, len: usize) {
    let (head, bytes) = head(len);
    out.extend_from_slice(&head[..bytes]);
}

/// The head of a string, and how many bytes it takes.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "each arm's bound; entries are at most LEN_MAX long")]
pub fn head(len: usize) -> ([u8; HEAD_BYTES_MAX], usize) {
    debug_assert!(len <= LEN_MAX);
    let [a, b, c, d] = (len as u32).to_le_bytes();
    let head = match len {
        0..=SHORT_MAX => [a, 0, 0, 0, 0],
        0xC0..=0xffff => [STRING_2, a, b, 0, 0],
        _ => [STRING_4, a, b, c, d],
    };
    (head, head_bytes(len))
}

/// Bytes that a signed number takes: 1 to 8.
#[inline]
fn int_bytes(value: i64) -> usize {
    let magnitude = if value < 0 { !value } else { value };
    // One bit for the sign.
    (65 - magnitude.leading_zeros() as usize).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, bytes);
        out
    }

    #[test]
    fn lengths_at_the_bounds() {
        for len in [0, 1, SHORT_MAX, SHORT_MAX + 1, 0xffff, 0x1_0000] {
            let text = vec![b'x'; len];
            let run = encoded(&text);
            assert_eq!(run.len(), Entry::of(&text).encoded_bytes());
            assert_eq!(span(&run), run.len());
            assert_eq!(split(&run), Some((Entry::Bytes(&text[..]), &[][..])));
            let mut written = vec![0; run.len()];
            assert_eq!((Entry::of(&text).write(&mut written), &written), (run.len(), &run));
        }
    }

    #[test]
    fn integers_take_as_few_bytes_as_they_need() {
        let sizes =
            [(0, 1), (31, 1), (32, 2), (127, 2), (128, 3), (-1, 2), (-128, 2), (-129, 3), (i64::MAX, 9), (i64::MIN, 9)];
        for (value, bytes) in sizes {
            let run = encoded(value.to_string().as_bytes());
            assert_eq!((run.len(), split(&run)), (bytes, Some((Entry::Int(value), &[][..]))), "{value}");
        }
        assert_eq!(encoded(b"007")[0], 3, "only the canonical form is an integer");
    }

    proptest! {
        #[test]
        fn runs_round_trip(texts in proptest::collection::vec(prop_oneof![
            any::<i64>().prop_map(|i| i.to_string().into_bytes()),
            (-40i64..40).prop_map(|i| i.to_string().into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..300),
        ], 0..20)) {
            let mut run = Vec::new();
            texts.iter().for_each(|text| put(&mut run, text));
            let read: Vec<Vec<u8>> = Entries::new(&run).map(Entry::to_vec).collect();
            prop_assert_eq!(&read, &texts);
            let mut rest = &run[..];
            for text in &texts {
                let mut written = vec![0xaa; span(rest) + 1];
                prop_assert_eq!(span(rest), Entry::of(text).write(&mut written));
                prop_assert_eq!((&written[..span(rest)], written[span(rest)]), (&rest[..span(rest)], 0xaa));
                prop_assert_eq!(span(rest), Entry::of(text).encoded_bytes());
                rest = &rest[span(rest)..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn equal_texts_have_equal_encodings(a in "[0-9-]{0,4}", b in "[0-9-]{0,4}") {
            prop_assert_eq!(encoded(a.as_bytes()) == encoded(b.as_bytes()), a == b);
        }
    }
}
