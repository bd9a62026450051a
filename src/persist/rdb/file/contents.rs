//! Contents of strings that come piece by piece.

use crate::persist::rdb::Malformed;
use crate::persist::rdb::lzf::{GROWTH_MAX, Unpacker};

/// Packed bytes that are unpacked at once.
const PACKED_BYTES: usize = 4 << 10;

/// A string that does not lie in the buffer as a whole.
pub(super) struct Contents {
    pub left: u64,
    pub unpacker: Option<Unpacker>,
}

impl Contents {
    /// Takes some of the input; returns how many bytes.
    pub fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Malformed> {
        let limit = if self.unpacker.is_some() { PACKED_BYTES } else { input.len() };
        let len = input.len().min(limit).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        match &mut self.unpacker {
            Some(unpacker) => {
                unpacker.feed(&input[..len])?;
                unpacker.take(|bytes| out.extend_from_slice(bytes));
            }
            None => out.extend_from_slice(&input[..len]),
        }
        self.left -= len as u64;
        if self.left == 0
            && let Some(unpacker) = &self.unpacker
        {
            unpacker.finish()?;
        }
        Ok(len)
    }
}

/// The contents of a packed string, unless its length cannot be.
pub(super) fn packed(packed_bytes: u64, bytes: u64, max_bytes: u64) -> Result<Contents, Malformed> {
    if bytes > max_bytes || bytes > packed_bytes.saturating_mul(GROWTH_MAX as u64) || packed_bytes == 0 {
        return Err(Malformed);
    }
    Ok(Contents { left: packed_bytes, unpacker: Some(Unpacker::new(bytes)) })
}

/// The name of a module's type, of 9 characters in 6 bits each, above its version.
pub(super) fn module_name(id: u64) -> String {
    const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).map(|i| char::from(CHARACTERS[usize::try_from(id >> (58 - 6 * i) & 63).unwrap_or(0)])).collect()
}
