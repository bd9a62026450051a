//! The one hash of keys and members: xxh3 with a random seed. Owns the choice of function; must not know what is hashed or where it is kept.
//!
//! The seed is drawn once per process, so that nobody can prepare keys that collide. Placement, shards and SCAN cursors all take bits of
//! this one value (a 16-byte key takes about 30 instructions, inlined); nothing persistent or visible to another process may depend on it.
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_64_with_seed};

/// Hash of a key. Equal keys have equal hashes under one seed only.
#[inline]
pub fn hash_key(seed: u64, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, seed)
}

/// Digits of a digest.
pub const DIGEST_BYTES: usize = 16;

/// The digest of a value that DIGEST tells and clients compute for themselves: xxh3 of 64 bits without a seed, in hexadecimal.
#[must_use]
pub fn digest(value: &[u8]) -> [u8; DIGEST_BYTES] {
    hexadecimal(xxh3_64(value))
}

/// The same piece by piece.
#[derive(Clone, Default)]
pub struct Digest(Xxh3Default);

impl Digest {
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    #[must_use]
    pub fn text(&self) -> [u8; DIGEST_BYTES] {
        hexadecimal(self.0.digest())
    }
}

fn hexadecimal(value: u64) -> [u8; DIGEST_BYTES] {
    let mut digits = [0; DIGEST_BYTES];
    for (pair, byte) in digits.chunks_mut(2).zip(value.to_be_bytes()) {
        const HEX: [u8; 16] = *b"0123456789abcdef";
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the reference implementation's sanity check need its own buffers; these few are well known: the empty input, and that the
    /// seed matters at every length class (1-3, 4-8, 9-16, 17-128, 129-240, long).
    #[test]
    fn known_and_seeded() {
        assert_eq!(hash_key(0, b""), 0x2d06_8005_38d3_94c2);
        let bytes: Vec<u8> = (0..=255).cycle().take(600).collect();
        let mut seen = std::collections::HashSet::new();
        for len in [0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 600] {
            for seed in [0, 1, u64::MAX] {
                assert!(seen.insert(hash_key(seed, &bytes[..len])), "len {len} seed {seed}");
            }
        }
    }

    /// As Redis 8.4 answers DIGEST.
    #[test]
    fn digests() {
        assert_eq!(&digest(b"hello"), b"9555e8555c62dcfd");
        assert_eq!(&digest(b""), b"2d06800538d394c2");
        assert_eq!(&digest(b"v8"), b"0cc76dbb41381419");
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        for (len, piece) in [(0, 1), (100, 7), (100_000, 300), (99_999, 65_536)] {
            let mut pieces = Digest::default();
            bytes[..len].chunks(piece).for_each(|piece| pieces.update(piece));
            assert_eq!(pieces.text(), digest(&bytes[..len]));
        }
    }

    /// Every bit of a short key moves about half of the 64 bits, at both ends (tags take the low bits, placement the high ones).
    #[test]
    fn avalanche_of_short_keys() {
        let key = *b"key:000000001234";
        let base = hash_key(7, &key);
        for bit in 0..128 {
            let mut k = key;
            k[bit / 8] ^= 1 << (bit % 8);
            let d = base ^ hash_key(7, &k);
            assert!((12..=52).contains(&d.count_ones()), "bit {bit}: {d:016x}");
            assert!(d >> 48 != 0 && d & 0xffff != 0, "bit {bit}: {d:016x}");
        }
    }
}
