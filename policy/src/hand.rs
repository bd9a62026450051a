//! How much an item must be worth for the hand to leave it.
//!
//! The hand goes over the items in the order of their hashes, which is none, and evicts what is worth less than a threshold. That moves so
//! that one item in [`PASSED_AN_EVICTION`] is evicted: up with each that is passed, down with each that is evicted. This takes as much
//! looking as the best of as many samples, and errs less. What is worth far more than the threshold need not be looked at the next times,
//! as it takes time to lose its worth: two bits beside the item's handle say how often ([`SKIPS_MAX`]), and the item is not fetched.

use crate::model::WORTH_STEPS;

/// One item in so many that the hand passes is evicted.
pub const PASSED_AN_EVICTION: i32 = 8;
/// What two bits can say.
pub const SKIPS_MAX: u8 = 3;
/// For each doubling above the threshold an item is passed once without a look.
const SKIP_WORTH: i32 = WORTH_STEPS;
/// The threshold moves in fractions of a step of worth.
const FINE: i32 = 256;
const RISE: i32 = 8;
const FALL: i32 = RISE * PASSED_AN_EVICTION;
/// The threshold is far off when so many items in a row are left, or evicted: from there it moves twice as fast each time.
const LEFT_IN_A_ROW: i32 = 4 * PASSED_AN_EVICTION;
const EVICTED_IN_A_ROW: i32 = 4;
const DOUBLINGS_MAX: i32 = 8;

/// Below any worth, so that the first that are evicted are the worst of some that were looked at.
const LOWEST: i32 = -(96 << 4) * FINE;

/// What becomes of an item that the hand looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Evict,
    /// It stays, and need not be looked at the next times.
    Keep {
        skips: u8,
    },
}

#[derive(Clone, Debug)]
pub struct Threshold {
    worth: i32,
    /// Items passed since the last eviction; below 0, evictions since the last that was passed.
    row: i32,
}

impl Default for Threshold {
    fn default() -> Threshold {
        Threshold { worth: LOWEST, row: 0 }
    }
}

impl Threshold {
    /// An item that the hand looks at.
    #[inline]
    pub fn judge(&mut self, worth: i32) -> Verdict {
        if worth * FINE <= self.worth {
            self.row = self.row.min(0) - 1;
            self.worth = (self.worth - (FALL << (-self.row / EVICTED_IN_A_ROW).min(DOUBLINGS_MAX))).max(LOWEST);
            return Verdict::Evict;
        }
        self.pass();
        let above = (worth - self.worth / FINE) / SKIP_WORTH;
        #[expect(clippy::cast_possible_truncation, reason = "between 0 and SKIPS_MAX")]
        #[expect(clippy::cast_sign_loss, reason = "the same")]
        Verdict::Keep { skips: above.clamp(0, i32::from(SKIPS_MAX)) as u8 }
    }

    /// An item that the hand passes without a look.
    #[inline]
    pub fn pass(&mut self) {
        self.row = self.row.max(0).saturating_add(1);
        self.worth = (self.worth + (RISE << (self.row / LEFT_IN_A_ROW).min(DOUBLINGS_MAX))).min(-LOWEST);
    }

    /// Whether what is worth so much would be evicted.
    #[inline]
    #[must_use]
    pub fn is_above(&self, worth: i32) -> bool {
        worth * FINE <= self.worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges worths in turn, and tells how many of the last half were evicted, and the largest of those.
    fn judged(threshold: &mut Threshold, worths: impl Iterator<Item = i32>) -> Vec<i32> {
        worths.filter(|&worth| threshold.judge(worth) == Verdict::Evict).collect()
    }

    fn spread(count: u32) -> impl Iterator<Item = i32> {
        (0..count).map(|i| (i.wrapping_mul(2_654_435_761) >> 20).cast_signed() - 2048)
    }

    #[test]
    fn one_in_eight_is_evicted_and_it_is_the_worst() {
        let mut threshold = Threshold::default();
        judged(&mut threshold, spread(4000));
        let evicted = judged(&mut threshold, spread(100_000));
        let share = evicted.len() as f64 / 100_000.0;
        assert!((share * f64::from(PASSED_AN_EVICTION) - 1.0).abs() < 0.05, "{share}");
        let eighth = -2048 + 4096 / PASSED_AN_EVICTION;
        let right = evicted.iter().filter(|&&worth| worth < eighth + 64).count();
        assert!(right as f64 > 0.95 * evicted.len() as f64, "{right} of {}", evicted.len());
    }

    #[test]
    fn it_is_found_again_wherever_it_went() {
        let mut threshold = Threshold::default();
        for offset in [0, 200, -200, 300, -100] {
            let most = 40 * PASSED_AN_EVICTION as usize;
            let first = spread(100_000).position(|worth| threshold.judge(worth + offset) == Verdict::Evict);
            assert!(first.is_some_and(|first| first < most), "{first:?} passed before the first eviction");
            let evicted = judged(&mut threshold, spread(1000).map(|worth| worth + offset));
            assert!(evicted.len() < 300, "{} evicted of 1000 at {offset}", evicted.len());
        }
    }

    #[test]
    fn what_is_worth_far_more_is_skipped() {
        let mut threshold = Threshold { worth: 0, row: 0 };
        for (worth, skips) in [(1, 0), (15, 0), (20, 1), (40, 2), (50, 3), (500, 3)] {
            threshold.worth = 0;
            assert_eq!(threshold.judge(worth), Verdict::Keep { skips });
        }
        threshold.worth = 0;
        assert!(threshold.is_above(0) && !threshold.is_above(1));
        assert_eq!(threshold.judge(0), Verdict::Evict);
    }
}
