//! A small fast random generator: xoshiro256++ (Blackman and Vigna, 2019), seeded through SplitMix64. For jitter, sampling and tests;
//! not for secrets. Owns its four words of state and nothing else; the same seed gives the same sequence on every machine.
use std::hash::{BuildHasher, RandomState};

/// 64 bits from the operating system's generator, for seeds of hashes and generators. Through `RandomState`: SipHash under keys that the
/// standard library draws from the OS, a fresh value each call.
pub fn entropy() -> u64 {
    RandomState::new().hash_one(0u64)
}

#[derive(Clone, Debug)]
pub struct Rng {
    /// Never all zero (SplitMix64 is a bijection of its counter, so four steps in a row cannot all give zero).
    state: [u64; 4],
}

impl Rng {
    /// The same seed, the same sequence.
    pub fn seeded(seed: u64) -> Rng {
        let mut s = seed;
        let state = std::array::from_fn(|_| {
            s = s.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = s;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Rng { state }
    }

    /// A different sequence in every process and call.
    pub fn from_entropy() -> Rng {
        Rng::seeded(entropy())
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let out = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        out
    }

    /// Uniform in `0..n`, without bias (Lemire's multiplication, rejecting the short interval). `n` must not be 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n != 0, "an empty range has no element");
        let wide = u128::from(self.next_u64()) * u128::from(n);
        let (high, low) = split(wide);
        if low < n { self.below_rejecting(n, high, low) } else { high }
    }

    /// Seldom reached for small `n`: only here the division that finds the biased interval is paid.
    #[cold]
    #[inline(never)]
    fn below_rejecting(&mut self, n: u64, mut high: u64, mut low: u64) -> u64 {
        let threshold = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        while low < threshold {
            (high, low) = split(u128::from(self.next_u64()) * u128::from(n));
        }
        high
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
fn split(wide: u128) -> (u64, u64) {
    ((wide >> 64) as u64, wide as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of xoshiro256++ from the state 1, 2, 3, 4, worked by hand from its definition.
    #[test]
    fn reference_sequence() {
        let mut r = Rng { state: [1, 2, 3, 4] };
        assert_eq!(r.next_u64(), 41_943_041);
        assert_eq!(r.next_u64(), 58_720_359);
    }

    #[test]
    fn seeds_differ_and_repeat() {
        let seq = |s| {
            let mut r = Rng::seeded(s);
            (0..100).map(|_| r.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(seq(0), seq(0));
        assert_ne!(seq(0), seq(1));
        assert_ne!(entropy(), entropy());
        assert_ne!(Rng::from_entropy().next_u64(), Rng::from_entropy().next_u64());
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut r = Rng::seeded(42);
        for n in [1, 2, 3, 7, 10, 1000] {
            let draws = 40_000;
            let mut counts = vec![0u32; usize::try_from(n).unwrap()];
            for _ in 0..draws {
                counts[usize::try_from(r.below(n)).unwrap()] += 1;
            }
            let mean = f64::from(draws) / f64::from(u32::try_from(n).unwrap());
            for c in counts {
                // Six standard deviations; the seed is fixed, so this is not a matter of luck at run time.
                assert!((f64::from(c) - mean).abs() <= 6.0 * mean.sqrt() + 1e-9, "n {n}: {c} against {mean}");
            }
        }
    }

    /// Without rejection, two thirds of 2^64 would make the lower values twice as likely.
    #[test]
    fn below_rejects_the_biased_interval() {
        let n = (1u64 << 63) + (1 << 62);
        let mut r = Rng::seeded(3);
        let draws = 30_000u32;
        let low = (0..draws).filter(|_| r.below(n) < n / 3).count();
        let share = f64::from(u32::try_from(low).unwrap()) / f64::from(draws);
        assert!((share - 1.0 / 3.0).abs() < 0.02, "{share}");
        assert!((0..1000).all(|_| r.below(u64::MAX) < u64::MAX));
    }
}
