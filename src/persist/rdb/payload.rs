//! The end of a DUMP payload: version and checksum.

use super::{Malformed, VERSION_MAX, VERSION_WRITTEN};
use crc::{CRC_64_REDIS, Crc, Digest, Table};

pub const FOOTER_BYTES: usize = VERSION_BYTES + CHECKSUM_BYTES;
const VERSION_BYTES: usize = 2;
pub const CHECKSUM_BYTES: usize = 8;

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// A checksum under way.
pub struct Checksum(Digest<'static, u64, Table<16>>);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(CRC.digest())
    }
}

impl Checksum {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum of all that has gone through.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0.finalize()
    }

    /// The footer of a payload, when all of the value has gone through.
    #[must_use]
    pub fn footer(mut self) -> [u8; FOOTER_BYTES] {
        let mut footer = [0; FOOTER_BYTES];
        footer[..VERSION_BYTES].copy_from_slice(&VERSION_WRITTEN.to_le_bytes());
        self.update(&VERSION_WRITTEN.to_le_bytes());
        footer[VERSION_BYTES..].copy_from_slice(&self.0.finalize().to_le_bytes());
        footer
    }

    /// Do value and version, which have gone through, have the checksum of this footer?
    #[must_use]
    pub fn is_of(self, footer: &[u8; FOOTER_BYTES]) -> bool {
        footer[VERSION_BYTES..] == self.0.finalize().to_le_bytes()
    }
}

/// Looks at the version in a footer.
///
/// # Errors
/// If it is one from the future.
pub fn check_version(footer: &[u8; FOOTER_BYTES]) -> Result<(), Malformed> {
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    if version > VERSION_MAX { Err(Malformed) } else { Ok(()) }
}

/// Ends a payload whose value is in `into`.
pub fn seal(into: &mut Vec<u8>) {
    let mut checksum = Checksum::default();
    checksum.update(into);
    into.extend_from_slice(&checksum.footer());
}

/// The value of a payload: what its version and checksum are good for.
///
/// # Errors
/// If they are not.
pub fn open(payload: &[u8]) -> Result<&[u8], Malformed> {
    let (value, footer) = payload.split_last_chunk::<FOOTER_BYTES>().ok_or(Malformed)?;
    check_version(footer)?;
    let mut checksum = Checksum::default();
    checksum.update(&payload[..payload.len() - CHECKSUM_BYTES]);
    if checksum.is_of(footer) { Ok(value) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As redis-server 7.0.15 dumped the strings `v` and `12345`.
    #[test]
    fn payloads_of_redis() {
        for (value, dumped) in [
            (&b"\x00\x01v"[..], &b"\x00\x01v\x0a\x00\x91\x08\xce\xb2\x19\x38\x8a\xce"[..]),
            (b"\x00\xc1\x39\x30", b"\x00\xc1\x39\x30\x0a\x00\x9d\x94\xea\x27\x93\xfc\x08\xb9"),
        ] {
            let mut payload = value.to_vec();
            seal(&mut payload);
            assert_eq!(payload, dumped);
            assert_eq!(open(dumped), Ok(value));
        }
    }

    proptest! {
        #[test]
        fn any_change_is_noticed(value in proptest::collection::vec(any::<u8>(), 0..200), at: usize, bit in 0..8u8, cut: usize) {
            let mut payload = value.clone();
            seal(&mut payload);
            prop_assert_eq!(open(&payload), Ok(&value[..]));
            prop_assert_eq!(open(&payload[..cut % payload.len()]), Err(Malformed));
            let at = at % payload.len();
            payload[at] ^= 1 << bit;
            prop_assert_eq!(open(&payload), Err(Malformed));
        }
    }
}
