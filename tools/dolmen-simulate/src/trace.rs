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
    let step = if wanted <= 256 { 8 } else { (wanted - 1).next_power_of_two() / 16 };
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
                // By rank, sizes from one end to the other, as a power of two.
                let share = (rank as f64 + 1.0).ln() / (n as f64).ln();
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
