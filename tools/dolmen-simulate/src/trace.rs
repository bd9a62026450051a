//! Requests: which object each asks for, and how large objects are. Synthetic ones of shapes that are known from the literature.
//!
//! Objects are numbered from 0 in the order in which they first occur, so that policies keep what they know in arrays. The same name, size
//! and seed give the same requests on every machine. Knows nothing of policies.

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// A sequence of requests.
#[derive(Clone, Debug)]
pub struct Trace {
    pub name: String,
    /// The object of each request.
    pub requests: Vec<u32>,
    /// Bytes that each object takes in memory.
    pub bytes: Vec<u32>,
}

impl Trace {
    #[must_use]
    pub fn mean_bytes(&self) -> u64 {
        let sum: u64 = self.bytes.iter().map(|&bytes| u64::from(bytes)).sum();
        (sum / self.bytes.len().max(1) as u64).max(1)
    }
}

/// What an object takes beside the bytes that a server's size classes see: its slot in a table.
const SLOT_BYTES: u32 = 7;
const HEADER_BYTES: u32 = 8;

/// The memory that a key and a value take: header, key and value in a size class (8 bytes apart up to 256, then eighths of a doubling), and
/// a slot in the table.
#[must_use]
pub fn footprint(key_len: u32, value_len: u32) -> u32 {
    let wanted = HEADER_BYTES + key_len + value_len;
    let step = if wanted <= 256 { 8 } else { 1 << ((wanted - 1).ilog2() - 3) };
    wanted.next_multiple_of(step) + SLOT_BYTES
}

/// Numbers objects in the order in which they occur.
#[derive(Default)]
pub struct Numbering {
    numbers: HashMap<u64, u32>,
    bytes: Vec<u32>,
    requests: Vec<u32>,
}

impl Numbering {
    pub fn request(&mut self, key: u64, bytes: impl FnOnce() -> u32) {
        let next = u32::try_from(self.bytes.len()).expect("fewer than 2^32 objects");
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.bytes.push(bytes());
        }
        self.requests.push(number);
    }

    #[must_use]
    pub fn trace(self, name: &str) -> Trace {
        Trace { name: name.to_string(), requests: self.requests, bytes: self.bytes }
    }
}

/// Bytes of the object `k`, as `hitratio.py` has them: a key `k:NUMBER`, a value of 20 to 499 bytes that follows from the number.
fn bytes_of(key: u64) -> u32 {
    let digits = key.checked_ilog10().unwrap_or(0) + 1;
    let value = 20 + (key.wrapping_mul(2_654_435_761) & 0xffff_ffff) % 480;
    footprint(2 + digits, value as u32)
}

/// Requests from text: a key and the bytes of its value a line. An object has the size of its first request.
pub fn read(name: &str, text: &str) -> Result<Trace, String> {
    let mut out = Numbering::default();
    let mut keys: HashMap<&str, u64> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let Some(key) = words.next() else { continue };
        let value = words.next().and_then(|word| word.parse::<u32>().ok()).filter(|&bytes| bytes <= 1 << 30);
        let (Some(value), None) = (value, words.next()) else {
            return Err(format!("{name}:{}: wanted are a key and a number of bytes", number + 1));
        };
        let next = keys.len() as u64;
        let key_len = u32::try_from(key.len()).unwrap_or(u32::MAX >> 1);
        out.request(*keys.entry(key).or_insert(next), || footprint(key_len, value));
    }
    if keys.is_empty() { Err(format!("{name}: there are no requests")) } else { Ok(out.trace(name)) }
}

/// Names of the shapes, with what they are.
pub const SHAPES: [(&str, &str); 13] = [
    ("zipf0.9", "Zipf's law, exponent 0.9"),
    ("zipf1.1", "Zipf's law, exponent 1.1"),
    ("scan", "Zipf's law, exponent 1; one request in five walks a range that is never asked for again"),
    ("shift", "Zipf's law, exponent 1; the popular objects change ten times"),
    ("zipf0.7", "Zipf's law, exponent 0.7"),
    ("uniform", "all objects alike"),
    ("loop", "all objects in turn, three times a run"),
    ("sweeps", "Zipf's law, exponent 1; ten times a run all objects of a tenth are read in order"),
    ("churn", "new objects all the time, popular while they are young, as of news"),
    ("burst", "Zipf's law, exponent 0.9; half of the requests repeat one of the last thousand"),
    ("mixture", "in turn by twentieths of the run: zipf0.9, scan, shift"),
    ("small-hot", "Zipf's law, exponent 0.9; popular objects are small"),
    ("large-hot", "Zipf's law, exponent 0.9; popular objects are large"),
];

/// Makes the requests of a shape.
#[must_use]
pub fn make(shape: &str, objects: u32, requests: u32, seed: u64) -> Option<Trace> {
    let mut maker = Maker::new(objects, seed);
    let mut out = Numbering::default();
    let n = u64::from(objects);
    let total = u64::from(requests);
    let law = |exponent: f64| Zipf::new(n as f64, exponent).expect("a number of objects and an exponent");
    match shape {
        "zipf0.7" | "zipf0.9" | "zipf1.1" => {
            let law = law(shape[4..].parse().expect("an exponent"));
            for _ in 0..total {
                let key = maker.drawn(&law, 0);
                out.request(key, || bytes_of(key));
            }
        }
        "scan" => {
            let law = law(1.0);
            let mut cold = 10 * n;
            for i in 0..total {
                let key = if i % 5 == 0 {
                    cold += 1;
                    cold
                } else {
                    maker.drawn(&law, 0)
                };
                out.request(key, || bytes_of(key));
            }
        }
        "shift" => {
            let law = law(1.0);
            let phase = (total / 10).max(1);
            for i in 0..total {
                let key = maker.drawn(&law, i / phase * (n / 20));
                out.request(key, || bytes_of(key));
            }
        }
        "uniform" => {
            for _ in 0..total {
                let key = maker.below(n);
                out.request(key, || bytes_of(key));
            }
        }
        "loop" => {
            let round = (total / 3).clamp(1, n);
            for i in 0..total {
                let key = i % round;
                out.request(key, || bytes_of(key));
            }
        }
        "sweeps" => {
            let law = law(1.0);
            let phase = (total / 10).max(1);
            for i in 0..total {
                // The last half of each phase alternates between reading in order and the usual.
                let within = i % phase;
                let key = if within * 2 >= phase && within % 2 == 0 {
                    (i / phase * (n / 10) + (within - phase / 2) / 2) % n
                } else {
                    maker.drawn(&law, 0)
                };
                out.request(key, || bytes_of(key));
            }
        }
        "churn" => {
            let law = law(0.9);
            for i in 0..total {
                // A new object for every fifth request; how far back is asked for follows the law.
                let newest = n + i / 5;
                let key = newest - (law.sample(&mut maker.rng) as u64 - 1).min(n - 1);
                out.request(key, || bytes_of(key));
            }
        }
        "burst" => {
            let law = law(0.9);
            let mut last = Vec::with_capacity(1000);
            for i in 0..total {
                let key = if last.len() == 1000 && i % 2 == 0 {
                    last[maker.below(1000) as usize]
                } else {
                    maker.drawn(&law, 0)
                };
                if last.len() < 1000 {
                    last.push(key);
                } else {
                    last[(i % 1000) as usize] = key;
                }
                out.request(key, || bytes_of(key));
            }
        }
        "mixture" => {
            let (flat, steep) = (law(0.9), law(1.0));
            let phase = (total / 20).max(1);
            let mut cold = 10 * n;
            for i in 0..total {
                let key = match i / phase % 3 {
                    0 => maker.drawn(&flat, 0),
                    1 if i % 5 == 0 => {
                        cold += 1;
                        cold
                    }
                    1 => maker.drawn(&steep, 0),
                    _ => maker.drawn(&steep, i / phase * (n / 20)),
                };
                out.request(key, || bytes_of(key));
            }
        }
        "small-hot" | "large-hot" => {
            let law = law(0.9);
            for _ in 0..total {
                let rank = (law.sample(&mut maker.rng) as u64 - 1).min(n - 1);
                // From one end to the other by rank, as a power of two.
                let share = rank as f64 / n as f64;
                let share = if shape == "small-hot" { share } else { 1.0 - share };
                let value = 20.0 * 2f64.powf(share * 6.0);
                let key = maker.order[rank as usize];
                out.request(u64::from(key), || footprint(8, value as u32));
            }
        }
        _ => return None,
    }
    Some(out.trace(shape))
}

struct Maker {
    rng: SmallRng,
    /// Objects in order of popularity.
    order: Vec<u32>,
}

impl Maker {
    fn new(objects: u32, seed: u64) -> Maker {
        let mut maker = Maker { rng: SmallRng::seed_from_u64(seed), order: (0..objects).collect() };
        for i in (1..maker.order.len()).rev() {
            let with = maker.below(i as u64 + 1) as usize;
            maker.order.swap(i, with);
        }
        maker
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.rng.random::<u64>()) * u128::from(bound)) >> 64) as u64
    }

    fn drawn(&mut self, law: &Zipf<f64>, offset: u64) -> u64 {
        let n = self.order.len() as u64;
        let rank = (law.sample(&mut self.rng) as u64 - 1).min(n - 1);
        u64::from(self.order[((rank + offset) % n) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_are_those_of_the_size_classes() {
        // Header 8 and key 8; classes are 8 apart up to 256, then 32 up to 512, 64 up to 1024.
        for (value, bytes) in
            [(0, 16), (1, 24), (240, 256), (241, 288), (272, 288), (496, 512), (497, 576), (1008, 1024), (1009, 1152)]
        {
            assert_eq!(footprint(8, value), bytes + SLOT_BYTES, "{value}");
        }
        // On the whole, 24 bytes beside key and value.
        let more = |key: u64| u64::from(bytes_of(key)) - 20 - ((key * 2_654_435_761) & 0xffff_ffff) % 480 - 8;
        let mean = (100_000..200_000).map(more).sum::<u64>() as f64 / 100_000.0;
        assert!((23.0..27.0).contains(&mean), "{mean}");
    }

    #[test]
    fn every_shape_is_the_same_each_time() {
        for (shape, _) in SHAPES {
            let made = |seed| make(shape, 1000, 5000, seed).expect("a shape");
            let (first, again) = (made(1), made(1));
            assert_eq!(first.requests, again.requests, "{shape}");
            assert_eq!(first.requests.len(), 5000);
            let objects = first.bytes.len();
            assert!(first.requests.iter().all(|&object| (object as usize) < objects), "{shape}");
            // Numbered in the order in which they occur.
            let mut next = 0;
            for &object in &first.requests {
                assert!(object <= next);
                next = next.max(object + 1);
            }
            if shape != "loop" {
                assert_ne!(first.requests, made(2).requests, "{shape}");
            }
        }
        assert!(make("none", 1000, 5000, 1).is_none());
    }

    fn counts(requests: &[u32]) -> Vec<u32> {
        let mut counts = vec![0; requests.iter().max().map_or(0, |&most| most as usize + 1)];
        for &object in requests {
            counts[object as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn popularity_follows_the_law() {
        let trace = make("zipf0.9", 1000, 200_000, 3).expect("a shape");
        let counts = counts(&trace.requests);
        let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.9)).sum();
        for rank in [1, 3, 10, 100] {
            let wanted = 200_000.0 * f64::from(rank).powf(-0.9) / total;
            let found = f64::from(counts[rank as usize - 1]);
            assert!((found / wanted - 1.0).abs() < 0.15, "{found} of rank {rank}, {wanted} wanted");
        }
    }

    #[test]
    fn a_scan_asks_for_a_fifth_once() {
        let trace = make("scan", 1000, 50_000, 3).expect("a shape");
        let once = counts(&trace.requests).iter().filter(|&&count| count == 1).count();
        assert!((10_000..10_200).contains(&once), "{once}");
    }

    #[test]
    fn a_shift_makes_others_popular() {
        let trace = make("shift", 1000, 50_000, 3).expect("a shape");
        let hottest = |from: usize| {
            let mut counts = std::collections::HashMap::new();
            for &object in &trace.requests[from..from + 5000] {
                *counts.entry(object).or_insert(0) += 1;
            }
            counts.into_iter().max_by_key(|&(_, count)| count).map(|(object, _)| object)
        };
        for phase in 0..9 {
            assert_ne!(hottest(phase * 5000), hottest(phase * 5000 + 5000), "in phase {phase}");
        }
    }

    #[test]
    fn requests_from_a_file() {
        let trace = read("t", "a 100\nb,20\n\na\t7\nb 20\n").expect("requests");
        assert_eq!(trace.requests, [0, 1, 0, 1]);
        assert_eq!(trace.bytes, [footprint(1, 100), footprint(1, 20)]);
        for wrong in ["", "a", "a x", "a 1 2", "a -1"] {
            assert!(read("t", wrong).is_err(), "{wrong:?}");
        }
    }
}
