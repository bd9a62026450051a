//! When requests of the open loop are due.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Due times of one thread, in nanoseconds.
pub struct Schedule {
    /// The next one; a fraction, so that no rate drifts.
    next_ns: f64,
    gap_ns: f64,
    /// Of gaps that are drawn (a Poisson process) instead of even.
    rng: Option<SmallRng>,
}

impl Schedule {
    /// `rate` a second in all, shared by `threads` in turns.
    pub fn new(rate: f64, poisson: bool, (thread, threads): (usize, usize), start_ns: u64, seed: u64) -> Schedule {
        let gap_ns = 1e9 * threads as f64 / rate;
        let first = gap_ns * thread as f64 / threads as f64;
        Schedule {
            next_ns: start_ns as f64 + first,
            gap_ns,
            rng: poisson.then(|| SmallRng::seed_from_u64(seed ^ 0x0A11 ^ thread as u64)),
        }
    }

    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// The time that is due, if it has come.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> Option<u64> {
        if self.next_ns > now_ns as f64 {
            return None;
        }
        let due = self.next_ns as u64;
        self.next_ns += match &mut self.rng {
            None => self.gap_ns,
            Some(rng) => -(1.0 - rng.random::<f64>()).ln() * self.gap_ns,
        };
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(schedule: &mut Schedule, until_ns: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.due(until_ns)).collect()
    }

    #[test]
    fn even_times_of_all_threads_together() {
        let mut times: Vec<u64> = (0..3)
            .flat_map(|thread| all(&mut Schedule::new(1000.0, false, (thread, 3), 5_000_000, 1), 1_004_999_999))
            .collect();
        times.sort_unstable();
        assert_eq!(times.len(), 1000);
        for (i, time) in times.iter().enumerate() {
            assert!(time.abs_diff(5_000_000 + i as u64 * 1_000_000) <= 1, "{i}: {time}");
        }
    }

    #[test]
    fn gaps_of_a_poisson_process_are_exponential() {
        let times = all(&mut Schedule::new(100_000.0, true, (0, 1), 0, 7), 1_000_000_000);
        // A hundred thousand, standard deviation 316.
        assert!((98_700..101_300).contains(&times.len()), "{}", times.len());
        let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 10_000).count();
        let share = long as f64 / times.len() as f64;
        assert!((share - (-1f64).exp()).abs() < 0.006, "{share} are longer than the mean");
    }
}
