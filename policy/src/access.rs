//! The access word of an item: when it was used last, and how often.
//!
//! ```text
//!  bit 0       7                20
//! | heat, 7   | tick, 13       |
//! ```
//! A **tick** is the time in which a sixteenth of the cache is written anew ([`TICKS_A_TURNOVER`]): a cache that takes nothing in stands
//! still, and the range of 2^13 ticks is 512 turnovers. **Heat** is how often the item was used, as a logarithm of eight steps a doubling
//! ([`HEAT_STEPS`]); what is long past counts less (half after [`HALF_LIFE_TICKS`]). Uses within a tick count once, unless
//! [`Access::counting`] says otherwise: a burst tells little about what follows, and a hot item is written to once a tick only.

pub const HEAT_BITS: u32 = 7;
pub const TICK_BITS: u32 = 13;
pub const WORD_BITS: u32 = HEAT_BITS + TICK_BITS;
/// Ticks in the time in which as many bytes come in as the cache holds.
pub const TICKS_A_TURNOVER: u64 = 16;
/// A use counts half after so many ticks: eight turnovers.
pub const HALF_LIFE_TICKS: u32 = 128;
/// Steps of heat for a doubling.
pub const HEAT_STEPS: u32 = 8;
pub const HEAT_MAX: u8 = (1 << HEAT_BITS) - 1;
/// Ages beyond are not told apart, and must not come round: see [`Access::aged`].
pub const AGE_MAX: u32 = 1 << (TICK_BITS - 1);

const TICK_MASK: u32 = (1 << TICK_BITS) - 1;
const _: () = assert!(WORD_BITS == 20, "the place in an item's header");

/// When an item was used last, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub tick: u32,
    pub heat: u8,
}

impl Access {
    /// Of an item that is new at `now`.
    #[must_use]
    pub const fn new(now: u32) -> Access {
        Access { tick: now & TICK_MASK, heat: 0 }
    }

    #[inline]
    #[must_use]
    pub const fn pack(self) -> u32 {
        (self.tick & TICK_MASK) << HEAT_BITS | self.heat as u32
    }

    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "seven bits")]
    pub const fn unpack(word: u32) -> Access {
        Access { tick: word >> HEAT_BITS & TICK_MASK, heat: (word & HEAT_MAX as u32) as u8 }
    }

    /// Ticks since the last use.
    #[inline]
    #[must_use]
    pub const fn age(self, now: u32) -> u32 {
        now.wrapping_sub(self.tick) & TICK_MASK
    }

    /// After one more use at `now`. Steps of heat are coarse, so what they cannot tell is left to chance.
    #[inline]
    #[must_use]
    pub fn used(self, now: u32, random: u16) -> Access {
        let chance = u32::from(random);
        let lost = (self.age(now) * (PARTS * HEAT_STEPS / HALF_LIFE_TICKS) + chance) / PARTS;
        // Below the heat of one use: what is left of it.
        let left = (u32::from(self.heat) + COOL).saturating_sub(lost);
        // The logarithm of the uses before, and what one more adds to it.
        let heat = (left * PARTS + ONE_MORE[left as usize] + (PARTS - 1) - chance) / PARTS;
        let heat = heat.saturating_sub(COOL).min(u32::from(HEAT_MAX));
        #[expect(clippy::cast_possible_truncation, reason = "at most HEAT_MAX")]
        Access { tick: now & TICK_MASK, heat: heat as u8 }
    }

    /// The same, so that the next use is counted though it be in the same tick.
    #[inline]
    #[must_use]
    pub const fn counting(self) -> Access {
        Access { tick: self.tick.wrapping_sub(1) & TICK_MASK, heat: self.heat }
    }

    /// The same, no older than [`AGE_MAX`]: what the hand does to whatever it sees, long before the clock comes round.
    #[inline]
    #[must_use]
    pub const fn aged(self, now: u32) -> Access {
        if self.age(now) > AGE_MAX {
            Access { tick: now.wrapping_sub(AGE_MAX) & TICK_MASK, heat: self.heat }
        } else {
            self
        }
    }
}

/// How far below one use [`ONE_MORE`] reaches: an eighth.
const COOL: u32 = 3 * HEAT_STEPS;
const LEVELS: usize = COOL as usize + HEAT_MAX as usize + 1;

/// Parts of a step.
const PARTS: u32 = 1 << 16;

/// What one more use adds to heat, in parts, by the heat before, from `-COOL` upwards.
const ONE_MORE: [u32; LEVELS] = one_more();

/// 2^(1/2048), as a fraction of 2^32: 1/256 of a step.
const FINE: u128 = 4_296_421_177;

/// 1/256 of a step more.
const fn up(uses: u128) -> u128 {
    (uses * FINE) >> 32
}

const fn one_more() -> [u32; LEVELS] {
    let mut more = [0; LEVELS];
    let one = 1u128 << 32;
    let mut before = one >> 3;
    let mut at = 0;
    while at < LEVELS {
        // In steps of the power, the last one in part.
        let wanted = before + one;
        let mut after = before;
        while up(after) <= wanted {
            after = up(after);
            more[at] += PARTS / 256;
        }
        #[expect(clippy::cast_possible_truncation, reason = "less than a step of the power")]
        let rest = ((wanted - after) * 256 / (up(after) - after)) as u32;
        more[at] += rest;
        let mut fine = 0;
        while fine < 256 {
            before = up(before);
            fine += 1;
        }
        at += 1;
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Uses that a heat stands for.
    fn uses(heat: f64) -> f64 {
        (heat / f64::from(HEAT_STEPS)).exp2()
    }

    #[test]
    fn a_use_adds_one() {
        for (at, &more) in ONE_MORE.iter().enumerate() {
            let before = at as f64 - f64::from(COOL);
            let after = before + f64::from(more) / f64::from(PARTS);
            let error = (uses(after) - uses(before) - 1.0).abs() / (uses(before) + 1.0);
            assert!(error < 1e-3, "{error} at {before}");
        }
    }

    #[test]
    fn heat_is_how_often() {
        // On the whole, whatever chance does to one item.
        for count in [2u32, 3, 5, 10, 50, 200, 1000, 10_000] {
            let mut random = 1u16;
            let mut sum = 0.0;
            let rounds = 400;
            for _ in 0..rounds {
                let mut access = Access::new(5);
                for _ in 1..count {
                    random = random.wrapping_mul(0x6c75).wrapping_add(0x3619);
                    access = access.used(5, random);
                }
                sum += f64::from(access.heat);
            }
            let (told, wanted) = (sum / f64::from(rounds), f64::from(count).log2() * 8.0);
            assert!((told - wanted).abs() < 2.0, "{told} for {count}, {wanted} wanted");
        }
    }

    #[test]
    fn what_is_past_counts_less() {
        let hot = Access { tick: 100, heat: 80 };
        // As many uses as 2^10 and half of them, a quarter, nothing.
        for (age, heat) in [(HALF_LIFE_TICKS, 72), (2 * HALF_LIFE_TICKS, 64), (AGE_MAX, 1)] {
            let told = hot.used(100 + age, 0).heat;
            assert!(told.abs_diff(heat) <= 1, "{told} after {age}");
        }
        assert_eq!(Access { tick: 3, heat: 0 }.used(3, 1000).heat, 8);
    }

    proptest! {
        #[test]
        fn a_word_says_what_it_was_given(tick in 0..=TICK_MASK, heat in 0..=HEAT_MAX) {
            let access = Access { tick, heat };
            prop_assert!(access.pack() < 1 << WORD_BITS);
            prop_assert_eq!(Access::unpack(access.pack()), access);
        }

        #[test]
        fn ages_are_told_across_the_end_of_the_clock(tick in 0..=TICK_MASK, age in 0..=AGE_MAX, more in 0..AGE_MAX, heat in 0..=HEAT_MAX, random: u16) {
            let access = Access { tick, heat };
            let now = tick + age;
            prop_assert_eq!(access.age(now), age);
            prop_assert_eq!(access.aged(now), access);
            prop_assert_eq!(access.aged(now + more).age(now + more), (age + more).min(AGE_MAX));
            let used = access.used(now, random);
            prop_assert_eq!(used.age(now), 0);
            prop_assert_eq!(used.counting().age(now), 1);
            prop_assert_eq!(used.counting().heat, used.heat);
            prop_assert!(used.heat >= access.used(now + HALF_LIFE_TICKS, random).heat);
        }
    }
}
