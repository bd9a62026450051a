//! How large values are and what is in them.

use std::str::FromStr;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};

use crate::keys::below;

/// The sizes of values, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    Fixed(usize),
    /// Uniform, both included.
    Range(usize, usize),
    /// The logarithm is normal: median and deviation of it, cut off at a maximum.
    LogNormal {
        median: f64,
        sigma: f64,
        max: usize,
    },
}

/// The largest value: what Redis takes.
const VALUE_MAX: usize = 512 << 20;

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let help = "a size in bytes (100, 4k), a range (10-1000), or lognormal:MEDIAN,SIGMA[,MAX]";
        let size = |text: &str| bytes(text).filter(|&n| n <= VALUE_MAX as u64).map(|n| n as usize).ok_or(help);
        if let Some(rest) = text.strip_prefix("lognormal:") {
            let parts: Vec<&str> = rest.split(',').collect();
            let (median, sigma, max) = match parts[..] {
                [median, sigma] => (size(median)?, sigma, 1 << 20),
                [median, sigma, max] => (size(median)?, sigma, size(max)?),
                _ => return Err(help.into()),
            };
            let sigma = sigma.parse::<f64>().ok().filter(|sigma| (0.0..=10.0).contains(sigma)).ok_or(help)?;
            return Ok(Sizes::LogNormal { median: median.max(1) as f64, sigma, max });
        }
        match text.split_once('-') {
            None => Ok(Sizes::Fixed(size(text)?)),
            Some((low, high)) => {
                let (low, high) = (size(low)?, size(high)?);
                if low > high { Err(help.into()) } else { Ok(Sizes::Range(low, high)) }
            }
        }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Range(low, high) => write!(f, "{low}-{high}"),
            Sizes::LogNormal { median, sigma, max } => write!(f, "lognormal:{median},{sigma},{max}"),
        }
    }
}

/// A number with k, m, g (powers of 1024).
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

impl Sizes {
    pub fn max(&self) -> usize {
        match self {
            Sizes::Fixed(size) | Sizes::Range(_, size) => *size,
            Sizes::LogNormal { max, .. } => *max,
        }
    }

    pub fn draw(&self, rng: &mut SmallRng) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(low, high) => low + below(rng, (high - low + 1) as u64) as usize,
            Sizes::LogNormal { median, sigma, max } => {
                let drawn = LogNormal::new(median.ln(), *sigma).expect("a deviation of at least 0").sample(rng);
                (drawn.round() as usize).min(*max)
            }
        }
    }
}

/// Letters and digits to cut values from, and the sizes to cut.
pub struct Values {
    pub sizes: Sizes,
    pool: Vec<u8>,
}

/// How many different places a value can be cut from.
const CUTS: usize = 4096;

impl Values {
    pub fn new(sizes: Sizes, seed: u64) -> Values {
        let mut pool = vec![0; sizes.max() + CUTS];
        fill(&mut pool, seed);
        Values { sizes, pool }
    }

    /// A value of a size that was drawn.
    pub fn cut(&self, size: usize, rng: &mut SmallRng) -> &[u8] {
        let at = rng.random::<u32>() as usize % CUTS;
        &self.pool[at..at + size]
    }
}

/// Fills with letters and digits that the seed decides.
pub fn fill(bytes: &mut [u8], seed: u64) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut rng = SmallRng::seed_from_u64(seed);
    for piece in bytes.chunks_mut(10) {
        let mut word = rng.random::<u64>();
        for byte in piece {
            *byte = LETTERS[word as usize % 64];
            word >>= 6;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, count: usize) -> Vec<usize> {
        let (sizes, mut rng) = (text.parse::<Sizes>().expect("sizes"), SmallRng::seed_from_u64(7));
        (0..count).map(|_| sizes.draw(&mut rng)).collect()
    }

    #[test]
    fn sizes_are_as_asked() {
        assert!(drawn("100", 100).iter().all(|&size| size == 100));
        let range = drawn("10-19", 100_000);
        for size in 10..20 {
            // Ten thousand, standard deviation 95.
            let count = range.iter().filter(|&&drawn| drawn == size).count();
            assert!((9_600..10_400).contains(&count), "{size}: {count}");
        }
        assert!(range.iter().all(|size| (10..20).contains(size)));
    }

    #[test]
    fn the_logarithm_of_a_lognormal_is_normal() {
        let logs: Vec<f64> = drawn("lognormal:1000,0.5", 100_000).iter().map(|&size| (size as f64).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
        assert!((mean - 1000f64.ln()).abs() < 0.006, "{mean}");
        assert!((deviation - 0.5).abs() < 0.006, "{deviation}");
        let within = logs.iter().filter(|&&log| (log - mean).abs() < deviation).count();
        assert!((68_000..68_600).contains(&within), "{within} of a hundred thousand within a deviation");
        assert!(drawn("lognormal:1000,2,1500", 10_000).into_iter().max() == Some(1500));
    }

    #[test]
    fn values_are_text_and_differ() {
        let (values, mut rng) = (Values::new(Sizes::Fixed(50), 1), SmallRng::seed_from_u64(1));
        let first = values.cut(50, &mut rng).to_vec();
        assert_eq!(first.len(), 50);
        assert!(first.iter().all(u8::is_ascii_graphic));
        assert_ne!(first, values.cut(50, &mut rng));
    }

    #[test]
    fn names_of_sizes() {
        for (text, sizes) in [
            ("0", Sizes::Fixed(0)),
            ("4k", Sizes::Fixed(4096)),
            ("1-2k", Sizes::Range(1, 2048)),
            ("lognormal:200,1", Sizes::LogNormal { median: 200.0, sigma: 1.0, max: 1 << 20 }),
            ("lognormal:200,1.5,4k", Sizes::LogNormal { median: 200.0, sigma: 1.5, max: 4096 }),
        ] {
            assert_eq!(text.parse::<Sizes>(), Ok(sizes.clone()), "{text}");
            assert_eq!(sizes.to_string().parse::<Sizes>(), Ok(sizes), "{text}");
        }
        for text in ["", "x", "-1", "5-2", "1x", "lognormal:1", "lognormal:1,2,3,4", "1g"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
