//! What is kept of a request of memcached that its window cut: its bytes, and how many more are wanted. What is still missing of a value
//! counts: so a request in n pieces is looked at when its line is there and when all of it is, whatever n.

use super::{Mode, Wanted};

/// A cut request.
#[derive(Default, Debug)]
pub struct Carry {
    /// What its first byte belongs to.
    pub mode: Mode,
    bytes: Vec<u8>,
    /// Length of the whole; 0: it ends with a line.
    wanted: usize,
}

impl Carry {
    /// Keeps the rest of a window.
    #[must_use]
    pub fn new(mode: Mode, rest: &[u8], wanted: Wanted) -> Carry {
        Carry { mode, bytes: rest.to_vec(), wanted: wanted.bytes }
    }

    /// Bytes that are kept.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The request so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes what belongs to the request from the front of `input`: how many bytes, and whether it is worth another look.
    pub fn feed(&mut self, input: &[u8]) -> (usize, bool) {
        let taken = match self.wanted {
            0 => memchr::memchr(b'\n', input).map_or(input.len(), |end| end + 1),
            wanted => (wanted - self.bytes.len()).min(input.len()),
        };
        // Without slack: a value is long, and known to be.
        self.bytes.reserve_exact(taken);
        self.bytes.extend_from_slice(&input[..taken]);
        let whole = match self.wanted {
            0 => {
                self.bytes.last() == Some(&b'\n')
                    || self.mode != Mode::Request
                    || self.bytes.len() > super::LINE_MAX_BYTES
            }
            wanted => self.bytes.len() == wanted,
        };
        (taken, whole)
    }

    /// The bytes, to be parsed; nothing is kept any more.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.wanted = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Forgets all but the first `head_bytes`: the rest is received elsewhere.
    #[must_use]
    pub fn divert(&mut self, head_bytes: usize) -> Vec<u8> {
        self.bytes.split_off(head_bytes)
    }
}
