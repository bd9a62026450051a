//! LZF (M. Lehmann's liblzf), in which Redis compresses strings. It is unpacked piece by piece: only the last 8 KiB of what was unpacked are kept
//! to refer back to, so neither a long string nor a false claim of length costs memory. Packing needs all of a string. (The one crate for LZF
//! is given up by its author, and has neither.)
//!
//! ```text
//! 000LLLLL                     L + 1 bytes follow as they are
//! LLLooooo oooooooo            L + 2 bytes (L of 1 to 6) again, from o + 1 bytes back
//! 111ooooo LLLLLLLL oooooooo   L + 9 bytes again
//! ```

use super::Malformed;

/// As far as a reference goes back.
const WINDOW_BYTES: usize = 1 << 13;
/// Most bytes that one byte of input becomes, at the best of three for one reference.
pub const GROWTH_MAX: usize = 88;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Control,
    Literal {
        left: usize,
    },
    /// The length of a long reference comes next.
    Length {
        high: usize,
    },
    /// The lower byte of the distance comes next.
    Distance {
        high: usize,
        len: usize,
    },
}

/// A string being unpacked.
#[derive(Debug)]
pub struct Unpacker {
    /// The window, and behind `taken` what was not taken yet.
    out: Vec<u8>,
    taken: usize,
    /// Bytes still to come, by what was said of the length.
    left: u64,
    state: State,
}

impl Unpacker {
    /// For a string that will have so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Unpacker {
        // Of what is only claimed no more than a window.
        let out = Vec::with_capacity(usize::try_from(bytes).map_or(WINDOW_BYTES, |bytes| bytes.min(WINDOW_BYTES)));
        Unpacker { out, taken: 0, left: bytes, state: State::Control }
    }

    /// Takes some input. What comes of it is up to [`GROWTH_MAX`] times as long.
    ///
    /// # Errors
    /// If it refers to what is not there, or becomes longer than was said.
    pub fn feed(&mut self, mut input: &[u8]) -> Result<(), Malformed> {
        while let Some((&byte, rest)) = input.split_first() {
            let number = usize::from(byte);
            self.state = match self.state {
                State::Control if number < 32 => {
                    self.count(number + 1)?;
                    State::Literal { left: number + 1 }
                }
                State::Control if number >> 5 == 7 => State::Length { high: (number & 31) << 8 },
                State::Control => State::Distance { high: (number & 31) << 8, len: (number >> 5) + 2 },
                State::Literal { left } => {
                    let (now, later) = input.split_at(left.min(input.len()));
                    self.out.extend_from_slice(now);
                    input = later;
                    self.state =
                        if now.len() == left { State::Control } else { State::Literal { left: left - now.len() } };
                    continue;
                }
                State::Length { high } => State::Distance { high, len: number + 9 },
                State::Distance { high, len } => {
                    self.count(len)?;
                    self.repeat((high | number) + 1, len)?;
                    State::Control
                }
            };
            input = rest;
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(Malformed)?;
        Ok(())
    }

    fn repeat(&mut self, distance: usize, len: usize) -> Result<(), Malformed> {
        let from = self.out.len().checked_sub(distance).ok_or(Malformed)?;
        repeat(&mut self.out, from, len);
        Ok(())
    }

    /// What was unpacked since the last call.
    pub fn take<R>(&mut self, with: impl FnOnce(&[u8]) -> R) -> R {
        let result = with(&self.out[self.taken..]);
        if self.out.len() > 4 * WINDOW_BYTES {
            self.out.drain(..self.out.len() - WINDOW_BYTES);
        }
        self.taken = self.out.len();
        result
    }

    /// All of the input has been taken.
    ///
    /// # Errors
    /// If it ends in the middle, or is shorter than was said.
    pub fn finish(&self) -> Result<(), Malformed> {
        if self.state == State::Control && self.left == 0 { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends `len` bytes of what begins at `from`, and goes on into what that makes itself: so each step has twice as much to copy.
fn repeat(out: &mut Vec<u8>, from: usize, len: usize) {
    let end = out.len() + len;
    while out.len() < end {
        let now = (end - out.len()).min(out.len() - from);
        out.extend_from_within(from..from + now);
    }
}

/// Unpacks a whole string, which is to have so many bytes.
///
/// # Errors
/// If it does not come out so.
pub fn unpack(mut input: &[u8], bytes: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    let end = start + bytes;
    while let Some((&control, rest)) = input.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literals, behind) = rest.split_at_checked(control + 1).ok_or(Malformed)?;
            out.extend_from_slice(literals);
            input = behind;
        } else {
            let (long, rest) = if control >> 5 == 7 { rest.split_first().ok_or(Malformed)? } else { (&0, rest) };
            let (&low, rest) = rest.split_first().ok_or(Malformed)?;
            let (len, distance) =
                ((control >> 5) + usize::from(*long) + 2, ((control & 31) << 8 | usize::from(low)) + 1);
            let from = out.len().checked_sub(distance).filter(|from| *from >= start).ok_or(Malformed)?;
            if out.len() + len > end {
                return Err(Malformed);
            }
            repeat(out, from, len);
            input = rest;
        }
    }
    if out.len() == end { Ok(()) } else { Err(Malformed) }
}

/// Longest repeat, and as far as it may lie back.
const REPEAT_MAX: usize = 264;
/// Shortest repeat.
const REPEAT_MIN: usize = 3;
const LITERALS_MAX: usize = 32;
const HASH_BITS: u32 = 13;

/// Packs strings. Keeps where it has seen what, which is never cleared: places count on from string to string.
pub struct Packer {
    /// By the hash of three bytes where they were seen last.
    seen: Box<[u32]>,
    /// Where the string at hand begins.
    start: u32,
}

impl Default for Packer {
    fn default() -> Packer {
        Packer { seen: vec![0; 1 << HASH_BITS].into_boxed_slice(), start: 1 }
    }
}

impl Packer {
    /// Appends `input`, packed, in at most `max_bytes`. False: it takes more; `out` has something of it then.
    pub fn pack(&mut self, input: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> bool {
        let Ok(len) = u32::try_from(input.len()) else { return false };
        if self.start.checked_add(len).is_none() {
            self.seen.fill(0);
            self.start = 1;
        }
        let start = self.start;
        self.start += len;
        let limit = out.len() + max_bytes;
        // Literals that were not written yet begin there.
        let (mut literals, mut at) = (0, 0);
        while at + REPEAT_MIN <= input.len() {
            let here = [input[at], input[at + 1], input[at + 2]];
            let word = u32::from_le_bytes([here[0], here[1], here[2], 0]);
            let slot = &mut self.seen[(word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize];
            let before = slot.wrapping_sub(start) as usize;
            #[expect(clippy::cast_possible_truncation, reason = "it is at most the length, which fits")]
            let place = at as u32;
            let known = *slot >= start;
            *slot = start + place;
            if !known || at - before > WINDOW_BYTES || input[before..before + REPEAT_MIN] != here {
                at += 1;
                continue;
            }
            let most = (input.len() - at).min(REPEAT_MAX);
            let same = REPEAT_MIN
                + input[at + REPEAT_MIN..at + most]
                    .iter()
                    .zip(&input[before + REPEAT_MIN..])
                    .take_while(|(a, b)| a == b)
                    .count();
            literals_out(&input[literals..at], out);
            repeat_out(at - before - 1, same - 2, out);
            if out.len() > limit {
                return false;
            }
            at += same;
            literals = at;
        }
        literals_out(&input[literals..], out);
        out.len() <= limit
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a chunk is at most 32 long")]
fn literals_out(literals: &[u8], out: &mut Vec<u8>) {
    for chunk in literals.chunks(LITERALS_MAX) {
        out.push(chunk.len() as u8 - 1);
        out.extend_from_slice(chunk);
    }
}

/// A repeat from `distance + 1` bytes back, of `len + 2`.
#[expect(clippy::cast_possible_truncation, reason = "13 bits of distance, 9 of length")]
fn repeat_out(distance: usize, len: usize, out: &mut Vec<u8>) {
    let high = (distance >> 8) as u8;
    if len < 7 {
        out.push((len as u8) << 5 | high);
    } else {
        out.extend_from_slice(&[7 << 5 | high, (len - 7) as u8]);
    }
    out.push(distance as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Straight from the format's description, with the whole input and output at hand.
    fn naive(input: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut at) = (Vec::new(), 0);
        while at < input.len() {
            let control = usize::from(input[at]);
            at += 1;
            if control < 32 {
                out.extend_from_slice(input.get(at..=at + control)?);
                at += control + 1;
                continue;
            }
            let mut len = control >> 5;
            if len == 7 {
                len += usize::from(*input.get(at)?);
                at += 1;
            }
            let from = out.len().checked_sub(((control & 31) << 8 | usize::from(*input.get(at)?)) + 1)?;
            at += 1;
            for i in from..from + len + 2 {
                out.push(out[i]);
            }
        }
        Some(out)
    }

    fn unpack_in_pieces(input: &[u8], said: u64, cuts: &[usize]) -> Result<Vec<u8>, Malformed> {
        let (mut unpacker, mut out, mut rest) = (Unpacker::new(said), Vec::new(), input);
        for cut in cuts.iter().chain(std::iter::once(&usize::MAX)) {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            unpacker.feed(now)?;
            unpacker.take(|bytes| out.extend_from_slice(bytes));
            rest = later;
        }
        unpacker.finish().map(|()| out)
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            (0u8..32, proptest::collection::vec(any::<u8>(), 32))
                .prop_map(|(n, bytes)| { [&[n][..], &bytes[..=usize::from(n)]].concat() }),
            (1u8..7, prop_oneof![4 => Just(0u8), 1 => 0u8..32], any::<u8>())
                .prop_map(|(len, high, low)| vec![len << 5 | high, low]),
            (prop_oneof![4 => Just(0u8), 1 => 0u8..32], any::<u8>(), any::<u8>()).prop_map(|(high, len, low)| vec![
                7 << 5 | high,
                len,
                low
            ]),
        ]
    }

    proptest! {
        #[test]
        fn like_the_naive_one_wherever_it_is_cut(
            pieces in proptest::collection::vec(piece(), 0..300), cuts in proptest::collection::vec(0usize..400, 0..40), off in -1i64..=1,
        ) {
            let mut input = vec![31; 1];
            input.extend(0..32u8);
            input.extend(pieces.concat());
            match naive(&input) {
                Some(want) => {
                    let said = (want.len() as u64).saturating_add_signed(off);
                    let got = unpack_in_pieces(&input, said, &cuts);
                    let mut whole = b"before".to_vec();
                    let same = unpack(&input, usize::try_from(said).unwrap(), &mut whole);
                    prop_assert_eq!(same.is_ok(), got.is_ok());
                    prop_assert!(same.is_err() || whole[6..] == want[..]);
                    if off == 0 { prop_assert!(got == Ok(want)) } else { prop_assert!(got.is_err()) }
                }
                None => prop_assert!(unpack_in_pieces(&input, 1 << 40, &cuts).is_err()),
            }
        }

        #[test]
        fn what_is_packed_comes_back(
            words in proptest::collection::vec((0..40usize, 1..60usize), 0..200), noise in proptest::collection::vec(any::<u8>(), 100),
        ) {
            let mut packer = Packer::default();
            for from in [0, words.len() / 2, 0] {
                let input: Vec<u8> =
                    words[from..].iter().flat_map(|(at, len)| noise[*at..(at + len).min(100)].iter().copied()).collect();
                let mut packed = Vec::new();
                prop_assert!(packer.pack(&input, input.len() * 2 + 1, &mut packed));
                prop_assert_eq!(naive(&packed).unwrap(), &input[..]);
                // With less room than that it says so.
                if let Some(less) = packed.len().checked_sub(1) {
                    prop_assert!(!packer.pack(&input, less, &mut Vec::new()));
                }
            }
        }

        #[test]
        fn any_bytes(input in proptest::collection::vec(any::<u8>(), 0..100), cuts in proptest::collection::vec(0usize..9, 0..20)) {
            let want = naive(&input);
            let said = want.as_ref().map_or(1 << 20, |want| want.len() as u64);
            let mut whole = Vec::new();
            let same = unpack(&input, usize::try_from(said).unwrap(), &mut whole).is_ok().then_some(whole);
            prop_assert_eq!(&same, &want);
            prop_assert_eq!(unpack_in_pieces(&input, said, &cuts).ok(), want);
        }
    }
}
