//! Twelve tags compared at once. Owns the SIMD: one `Group` type, an SSE2 body and a portable twin with equal results (tested against
//! each other). Knows nothing of handles or hashes.
//!
//! The portable twin is taken off x86-64, under Miri, and with `RUSTFLAGS="--cfg dolmen_portable_group"`.
#![allow(unsafe_code)]
#![allow(unexpected_cfgs, reason = "`dolmen_portable_group` is set by hand to force the portable twin")]

use static_assertions::const_assert;

/// Slots in a bucket.
pub(super) const SLOTS: u32 = 12;

/// The first 16 bytes of a bucket.
///
/// ```text
///  byte 0                      11 12          15
///      ┌──────────────────────────┬──────────────┐
///      │ 12 tags, 0 = empty slot  │ meta (u32)   │
///      └──────────────────────────┴──────────────┘
/// ```
#[repr(C, align(16))]
pub(super) struct Head {
    pub(super) tags: [u8; SLOTS as usize],
    pub(super) meta: u32,
}
const_assert!(size_of::<Head>() == 16 && align_of::<Head>() == 16);

impl Head {
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a packed word")]
    fn from_words(low: u64, high: u64) -> Head {
        let mut tags = [0; SLOTS as usize];
        tags[..8].copy_from_slice(&low.to_le_bytes());
        tags[8..].copy_from_slice(&(high as u32).to_le_bytes());
        Head { tags, meta: (high >> 32) as u32 }
    }
}

/// A set of slots: bit `i` is slot `i`. Iterating yields the slots in ascending order, each below `SLOTS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mask(u32);

impl Mask {
    const ALL: u32 = (1 << SLOTS) - 1;

    #[inline(always)]
    pub(super) fn lowest(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros()) }
    }

    #[inline(always)]
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    #[inline(always)]
    pub(super) fn contains(self, slot: u32) -> bool {
        self.0 >> slot & 1 != 0
    }

    #[inline(always)]
    pub(super) fn inverse(self) -> Mask {
        Mask(!self.0 & Self::ALL)
    }
}

impl Iterator for Mask {
    type Item = u32;
    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let slot = self.lowest()?;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

/// The slots whose tag is `tag`, in the first 16 bytes of a bucket given as two words: for those who read a bucket without its lock.
#[inline(always)]
pub(super) fn matches_in_words(low: u64, high: u64, tag: u8) -> Mask {
    Group::load(&Head::from_words(low, high)).matches(tag)
}

#[cfg(all(target_arch = "x86_64", not(miri), not(dolmen_portable_group)))]
pub(super) use sse2::Group;

#[cfg(not(all(target_arch = "x86_64", not(miri), not(dolmen_portable_group))))]
pub(super) use portable::Group;

#[cfg(all(target_arch = "x86_64", not(miri), not(dolmen_portable_group)))]
mod sse2 {
    use super::{Head, Mask};
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi32};

    #[derive(Clone, Copy)]
    pub(in super::super) struct Group(__m128i);

    impl Group {
        #[inline(always)]
        pub(in super::super) fn load(head: &Head) -> Group {
            // SAFETY: a `&Head` is 16 readable bytes, aligned to 16 (asserted beside `Head`); SSE2 is part of x86-64.
            Group(unsafe { _mm_load_si128(std::ptr::from_ref(head).cast()) })
        }

        /// Slots whose tag is `tag`.
        #[inline(always)]
        pub(in super::super) fn matches(self, tag: u8) -> Mask {
            // Spread by a multiplication: an instruction less than `_mm_set1_epi8` takes without SSSE3.
            let spread = (u32::from(tag) * 0x0101_0101).cast_signed();
            // SAFETY: SSE2 is part of x86-64.
            let bits = unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(self.0, _mm_set1_epi32(spread))) };
            // The four lanes of `meta` are cut off here.
            Mask(bits.cast_unsigned() & Mask::ALL)
        }

        /// Empty slots.
        #[inline(always)]
        pub(in super::super) fn empties(self) -> Mask {
            self.matches(0)
        }
    }
}

#[cfg(any(test, not(all(target_arch = "x86_64", not(miri), not(dolmen_portable_group)))))]
mod portable {
    use super::{Head, Mask};

    const LOW: u64 = 0x0101_0101_0101_0101;
    const REST: u64 = 0x7f7f_7f7f_7f7f_7f7f;

    /// Two little-endian words: slots 0..8, and 8..12 with the upper half zero.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Group([u64; 2]);

    /// Bit `i` set where byte `i` is zero. Exact: the add stays inside each byte, so nothing carries over.
    #[inline(always)]
    fn zero_bytes(word: u64) -> u32 {
        let high = !(((word & REST) + REST) | word | REST);
        // Gathers bit 8i into bit 56 + i: partial products never meet, as each lands on a bit of its own.
        (((high >> 7).wrapping_mul(0x0102_0408_1020_4080)) >> 56) as u32
    }

    impl Group {
        #[inline(always)]
        pub(in super::super) fn load(head: &Head) -> Group {
            let [a, b, c, d, e, f, g, h, i, j, k, l] = head.tags;
            Group([u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from(u32::from_le_bytes([i, j, k, l]))])
        }

        #[inline(always)]
        pub(in super::super) fn matches(self, tag: u8) -> Mask {
            let all = u64::from(tag) * LOW;
            Mask((zero_bytes(self.0[0] ^ all) | zero_bytes(self.0[1] ^ all) << 8) & Mask::ALL)
        }

        #[inline(always)]
        pub(in super::super) fn empties(self) -> Mask {
            self.matches(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, Head, Mask, portable};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    fn naive(tags: [u8; 12], tag: u8) -> Mask {
        Mask((0..12).filter(|&i| tags[i] == tag).map(|i| 1 << i).sum())
    }

    proptest! {
        /// SIMD, portable and naive agree, whatever the meta word holds. Few distinct tags, so that matches are common.
        #[test]
        fn twins_agree(seed in proptest::array::uniform12(0u8..4), wide in any::<[u8; 12]>(), meta in any::<u32>(), tag in any::<u8>()) {
            for tags in [seed, wide, seed.map(|t| t.wrapping_mul(0x80)), seed.map(|t| t.wrapping_sub(1))] {
                let head = Head { tags, meta };
                for tag in [tag, 0, 1, 0x7f, 0x80, 0xff, tags[0], tags[11]] {
                    prop_assert_eq!(Group::load(&head).matches(tag), naive(tags, tag));
                    prop_assert_eq!(portable::Group::load(&head).matches(tag), naive(tags, tag));
                }
                prop_assert_eq!(Group::load(&head).empties(), naive(tags, 0));
                prop_assert_eq!(portable::Group::load(&head).empties(), naive(tags, 0));
            }
        }

        #[test]
        fn mask_iterates_its_bits(bits in 0u32..1 << 12) {
            let slots: Vec<u32> = Mask(bits).collect();
            prop_assert_eq!(slots.iter().map(|s| 1u32 << s).sum::<u32>(), bits);
            prop_assert_eq!(slots.len(), Mask(bits).len() as usize);
            prop_assert_eq!(Mask(bits).inverse().len(), 12 - Mask(bits).len());
        }
    }
}
