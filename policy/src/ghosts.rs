//! What was evicted lately, and how hot it was, so that what comes back need not start anew.
//!
//! ```text
//! set, 64 bits:  | newest | ... | ... | oldest |      ghost, 16 bits:  | mark of the hash, 11 | heat / 4, 5 |
//! ```
//! A set takes what is evicted under its hashes, first in, first out. A mark that agrees by chance (one lookup in 500) gives an item a better
//! start than it should have, and nothing worse.

use crate::access::HEAT_MAX;

const WAYS: usize = 4;
const GHOST_BITS: u32 = 16;
const HEAT_BITS: u32 = 5;
const HEAT_STEP: u8 = (HEAT_MAX >> HEAT_BITS) + 1;
const HEAT_MASK: u64 = (1 << HEAT_BITS) - 1;
const MARK_MASK: u64 = (1 << GHOST_BITS) - 1 - HEAT_MASK;

pub struct Ghosts {
    sets: Box<[u64]>,
}

impl Ghosts {
    /// With room for so many, or some more.
    #[must_use]
    pub fn new(count: usize) -> Ghosts {
        Ghosts { sets: vec![0; count.div_ceil(WAYS)].into_boxed_slice() }
    }

    #[must_use]
    pub fn room(&self) -> usize {
        self.sets.len() * WAYS
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    /// The set of a hash, and its mark, which is never 0 (an empty place). All hashes of a shard agree in some bits, so they are mixed.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u64) {
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = (u128::from(hash) * self.sets.len() as u128) >> 64;
        #[expect(clippy::cast_possible_truncation, reason = "below the number of sets")]
        (set as usize, (hash >> GHOST_BITS & MARK_MASK).max(1 << HEAT_BITS))
    }

    pub fn remember(&mut self, hash: u64, heat: u8) {
        let (set, mark) = self.place(hash);
        if let Some(set) = self.sets.get_mut(set) {
            *set = *set << GHOST_BITS | mark | u64::from(heat / HEAT_STEP);
        }
    }

    /// How hot was what was evicted under this hash, to the next lower multiple of four?
    #[must_use]
    pub fn recall(&self, hash: u64) -> Option<u8> {
        let (set, mark) = self.place(hash);
        let mut ghosts = self.sets.get(set).copied()?;
        while ghosts != 0 {
            if ghosts & MARK_MASK == mark {
                return Some((ghosts & HEAT_MASK) as u8 * HEAT_STEP);
            }
            ghosts >>= GHOST_BITS;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hash(i: u64) -> u64 {
        let hash = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ (hash >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn the_last_are_remembered_the_first_forgotten() {
        let mut ghosts = Ghosts::new(1000);
        assert_eq!((ghosts.room(), ghosts.bytes()), (1000, 2000));
        for i in 0..5000 {
            ghosts.remember(hash(i), (i % 128) as u8);
        }
        let known = |from: u64, to: u64| {
            (from..to).filter(|&i| ghosts.recall(hash(i)) == Some((i % 128) as u8 / 4 * 4)).count()
        };
        assert!(known(4900, 5000) > 95, "{} of the last hundred", known(4900, 5000));
        assert!(known(0, 2000) < 40, "{} of the first two thousand", known(0, 2000));
        let never = (10_000..30_000).filter(|&i| ghosts.recall(hash(i)).is_some()).count();
        assert!(never < 100, "{never} of 20,000 that never were");
    }

    #[test]
    fn without_room_nothing_is_remembered() {
        let mut ghosts = Ghosts::new(0);
        ghosts.remember(hash(1), 5);
        assert_eq!((ghosts.recall(hash(1)), ghosts.bytes()), (None, 0));
    }

    proptest! {
        #[test]
        fn the_newest_of_a_hash_counts(count in 1..100usize, hash: u64, first in 0..=HEAT_MAX, second in 0..=HEAT_MAX) {
            let mut ghosts = Ghosts::new(count);
            ghosts.remember(hash, first);
            ghosts.remember(hash, second);
            prop_assert_eq!(ghosts.recall(hash), Some(second / 4 * 4));
        }
    }
}
