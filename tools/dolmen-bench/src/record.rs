//! Counts and latencies: what a thread collects in an interval, and what a run sums up.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest latency that is told apart, in nanoseconds.
const LATENCY_MAX_NS: u64 = 120_000_000_000;
/// Finer is not measured.
const LATENCY_MIN_NS: u64 = 128;

/// Of one kind of request.
#[derive(Clone, Debug)]
pub struct Tally {
    /// In nanoseconds, to three digits.
    pub latency: Histogram<u64>,
    pub misses: u64,
    pub errors: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        let latency = Histogram::new_with_bounds(LATENCY_MIN_NS, LATENCY_MAX_NS, 3).expect("good bounds");
        Tally { latency, misses: 0, errors: 0 }
    }
}

impl Tally {
    pub fn count(&self) -> u64 {
        self.latency.len()
    }

    #[inline]
    pub fn record(&mut self, latency_ns: u64, count: u64) {
        self.latency.saturating_record_n(latency_ns, count);
    }

    pub fn add(&mut self, other: &Tally) {
        if other.count() > 0 {
            self.latency.add(&other.latency).expect("the same bounds");
        }
        self.misses += other.misses;
        self.errors += other.errors;
    }

    pub fn clear(&mut self) {
        if self.count() > 0 {
            self.latency.reset();
        }
        (self.misses, self.errors) = (0, 0);
    }

    pub fn percentile_ms(&self, percentile: f64) -> f64 {
        ms(self.latency.value_at_percentile(percentile))
    }

    pub fn summary(&self) -> Latency {
        Latency {
            mean_ms: self.latency.mean() / 1e6,
            min_ms: ms(self.latency.min()),
            p50_ms: self.percentile_ms(50.0),
            p90_ms: self.percentile_ms(90.0),
            p99_ms: self.percentile_ms(99.0),
            p99_9_ms: self.percentile_ms(99.9),
            p99_99_ms: self.percentile_ms(99.99),
            max_ms: ms(self.latency.max()),
        }
    }

    /// Percentile and latency in ms, denser towards the end, as far as there are requests to tell percentiles apart.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        let finest = 1.0 / self.count().max(1) as f64;
        for step in 0..=140 {
            let above = 10f64.powf(-f64::from(step) / 20.0);
            if above < finest * 0.999 {
                break;
            }
            let percentile = 100.0 * (1.0 - above);
            points.push((percentile, self.percentile_ms(percentile)));
        }
        points
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub mean_ms: f64,
    pub min_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p99_9_ms: f64,
    pub p99_99_ms: f64,
    pub max_ms: f64,
}

/// What one thread did in one interval.
#[derive(Debug)]
pub struct Slice {
    pub thread: usize,
    /// Intervals since the measurement began; before it, while warming up, there is none.
    pub interval: Option<u64>,
    pub ops: Vec<Tally>,
}

impl Slice {
    pub fn new(thread: usize, ops: usize) -> Slice {
        Slice { thread, interval: None, ops: vec![Tally::default(); ops] }
    }
}

/// One kind of request, or all of them, within one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p99_9_ms: f64,
    pub max_ms: f64,
}

impl Point {
    pub fn of(tally: &Tally) -> Point {
        Point {
            count: tally.count(),
            p50_ms: tally.percentile_ms(50.0),
            p99_ms: tally.percentile_ms(99.0),
            p99_9_ms: tally.percentile_ms(99.9),
            max_ms: ms(tally.latency.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_distribution() {
        let mut tally = Tally::default();
        // 1 to 100,000 us, each once.
        (1..=100_000u64).for_each(|us| tally.record(us * 1000, 1));
        let summary = tally.summary();
        for (seen, expected) in [
            (summary.p50_ms, 50.0),
            (summary.p90_ms, 90.0),
            (summary.p99_ms, 99.0),
            (summary.p99_9_ms, 99.9),
            (summary.p99_99_ms, 99.99),
            (summary.max_ms, 100.0),
            (summary.mean_ms, 50.0),
        ] {
            assert!((seen / expected - 1.0).abs() < 0.002, "{seen} for {expected}");
        }
        let curve = tally.curve();
        assert!(curve.len() > 90 && curve.is_sorted(), "{}", curve.len());
        assert!((curve.last().expect("points").0 - 99.999).abs() < 1e-3);
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        let (mut once, mut each) = (Tally::default(), Tally::default());
        for (ns, count) in [(5_000u64, 100u64), (700_000, 3), (200, 1), (500_000_000_000, 2)] {
            once.record(ns, count);
            (0..count).for_each(|_| each.record(ns, 1));
        }
        assert_eq!(once.latency, each.latency);
        let mut sum = Tally::default();
        sum.add(&once);
        sum.add(&each);
        assert_eq!((sum.count(), sum.percentile_ms(50.0)), (212, once.percentile_ms(50.0)));
        sum.clear();
        assert_eq!(sum.count(), 0);
    }
}
