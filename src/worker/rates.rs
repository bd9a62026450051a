//! How fast counters grow, for INFO's `instantaneous_` fields: the mean of the last 16 samples, taken at least 100 ms apart.

/// Samples of which the mean is told, as in Redis.
const SAMPLES: usize = 16;
/// Least time between two samples.
const PERIOD_NS: u64 = 100_000_000;

/// The rates of `N` counters.
pub struct Rates<const N: usize> {
    taken_ns: u64,
    counts: [u64; N],
    samples: [[u64; N]; SAMPLES],
    next: usize,
}

impl<const N: usize> Rates<N> {
    pub fn new(now_ns: u64) -> Rates<N> {
        Rates { taken_ns: now_ns, counts: [0; N], samples: [[0; N]; SAMPLES], next: 0 }
    }

    /// Looks at the counters; false: it is too early for another sample.
    pub fn sample(&mut self, now_ns: u64, counts: [u64; N]) -> bool {
        let passed_ns = now_ns.saturating_sub(self.taken_ns);
        if passed_ns < PERIOD_NS {
            return false;
        }
        let rate = |i: usize| {
            let grown = u128::from(counts[i].saturating_sub(self.counts[i]));
            u64::try_from(grown * 1_000_000_000 / u128::from(passed_ns)).unwrap_or(u64::MAX)
        };
        self.samples[self.next] = std::array::from_fn(rate);
        self.next = (self.next + 1) % SAMPLES;
        self.taken_ns = now_ns;
        self.counts = counts;
        true
    }

    pub fn per_second(&self) -> [u64; N] {
        let mean = |i: usize| self.samples.iter().map(|sample| u128::from(sample[i])).sum::<u128>() / SAMPLES as u128;
        std::array::from_fn(|i| u64::try_from(mean(i)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_sixteen() {
        let mut rates = Rates::new(0);
        assert!(!rates.sample(PERIOD_NS - 1, [7]), "too early");
        // 1,600 in each tenth of a second.
        for i in 1..=32 {
            assert!(rates.sample(i * PERIOD_NS, [i * 1_600]));
            assert_eq!(rates.per_second(), [16_000 * i.min(16) / 16]);
        }
        // A pause of two samples' time counts as one sample of its length.
        assert!(rates.sample(34 * PERIOD_NS, [32 * 1_600]));
        assert_eq!(rates.per_second(), [15_000]);
    }
}
