//! The one hash of keys and members: xxh3 with a random seed. Owns the choice of function; must not know what is hashed or where it is kept.
//!
//! The seed is drawn once per process, so that nobody can prepare keys that collide. Placement, shards and SCAN cursors all take bits of
//! this one value (a 16-byte key takes about 30 instructions, inlined); nothing persistent or visible to another process may depend on it.
use std::hash::{BuildHasher, Hasher, RandomState};
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

/// Has the maps of the standard library use this hash, each with a seed of its own.
#[derive(Clone)]
pub struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Seeded {
        Seeded(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;

    #[inline]
    fn build_hasher(&self) -> SeededHasher {
        SeededHasher(self.0)
    }
}

/// The hash of what was written so far is the seed of what comes next.
pub struct SeededHasher(u64);

impl Hasher for SeededHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_key(self.0, bytes);
    }

    /// Lengths in front of bytes, small numbers.
    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        let product = u128::from(self.0 ^ n) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed")]
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded.wrapping_add(n.rotate_left(32));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
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

    /// In maps: what is equal is found, under each map's own seed, and small numbers fall apart in the bits that a map looks at.
    #[test]
    fn maps_of_the_standard_library() {
        let (one, other) = (Seeded::default(), Seeded::default());
        assert_ne!(one.hash_one(b"channel".as_slice()), other.hash_one(b"channel".as_slice()));
        assert_ne!(one.hash_one((b"a".as_slice(), b"b".as_slice())), one.hash_one((b"ab".as_slice(), b"".as_slice())));
        let mut low = std::collections::HashSet::new();
        let mut high = std::collections::HashSet::new();
        for n in 0..4096u32 {
            low.insert(one.hash_one(n) & 4095);
            high.insert(one.hash_one(n) >> 52);
        }
        // Of 4096 balls thrown into as many bins about 63% of the bins are hit.
        assert!(low.len() > 2300 && high.len() > 2300, "{} {}", low.len(), high.len());
        let mut map = std::collections::HashMap::with_hasher(Seeded::default());
        map.insert(b"channel".to_vec(), 1);
        assert_eq!(map.get(b"channel".as_slice()), Some(&1));
    }
}
