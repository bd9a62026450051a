//! Which key a request is about: an index below the number of keys, drawn from a distribution.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// A distribution as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    Uniform,
    /// The k-th most frequent key is drawn with a frequency of k^-exponent; which one that is, is scattered over the key space.
    Zipf {
        exponent: f64,
    },
    /// A share of the keys gets a share of the requests; within both, uniform.
    Hotspot {
        keys: f64,
        requests: f64,
    },
    /// One after the other, each thread within its part of the key space.
    Sequential,
    /// Zipf by age: the newest key is the most frequent (YCSB D).
    Latest {
        exponent: f64,
    },
    /// The lines of a file, in order, again from the start when it ends.
    File(PathBuf),
}

impl FromStr for Pick {
    type Err = String;

    fn from_str(text: &str) -> Result<Pick, String> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let exponent = |default: f64| match rest {
            None => Ok(default),
            Some(rest) => {
                rest.parse::<f64>().ok().filter(|s| (0.0..=10.0).contains(s)).ok_or(format!("{rest} is no exponent"))
            }
        };
        match name {
            "uniform" if rest.is_none() => Ok(Pick::Uniform),
            "sequential" if rest.is_none() => Ok(Pick::Sequential),
            "zipf" => Ok(Pick::Zipf { exponent: exponent(0.99)? }),
            "latest" => Ok(Pick::Latest { exponent: exponent(0.99)? }),
            "hotspot" => {
                let (keys, requests) = rest.unwrap_or("0.2,0.8").split_once(',').ok_or("hotspot:KEYS,REQUESTS")?;
                let share = |text: &str| text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
                let shares = share(keys).zip(share(requests));
                let (keys, requests) = shares.ok_or("the shares of a hotspot lie between 0 and 1")?;
                Ok(Pick::Hotspot { keys, requests })
            }
            "file" => rest.map(|path| Pick::File(path.into())).ok_or("file:PATH".into()),
            _ => Err(
                "there are uniform, zipf[:EXPONENT], hotspot[:KEYS,REQUESTS], sequential, latest[:EXPONENT], file:PATH"
                    .into(),
            ),
        }
    }
}

impl std::fmt::Display for Pick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pick::Uniform => f.write_str("uniform"),
            Pick::Zipf { exponent } => write!(f, "zipf:{exponent}"),
            Pick::Hotspot { keys, requests } => write!(f, "hotspot:{keys},{requests}"),
            Pick::Sequential => f.write_str("sequential"),
            Pick::Latest { exponent } => write!(f, "latest:{exponent}"),
            Pick::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// The keys of a trace.
pub type Trace = Arc<Vec<Box<[u8]>>>;

/// Reads a trace: a key a line.
pub fn read_trace(path: &std::path::Path) -> Result<Trace, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = bytes.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let keys: Vec<Box<[u8]>> = lines.filter(|line| !line.is_empty()).map(Box::from).collect();
    if keys.is_empty() { Err(format!("{} has no lines", path.display())) } else { Ok(Arc::new(keys)) }
}

/// What all threads share about the keys.
#[derive(Clone, Debug)]
pub struct Space {
    pub pick: Pick,
    /// How many there are; grows where a workload inserts.
    pub count: Arc<AtomicU64>,
    pub trace: Option<Trace>,
}

/// One thread's draws.
pub struct Keys {
    kind: Kind,
    rng: SmallRng,
}

enum Kind {
    Uniform { count: u64 },
    Zipf { zipf: Zipf<f64>, count: u64, factor: u64 },
    Hotspot { hot: u64, count: u64, requests: f64 },
    Turn { from: u64, until: u64, next: u64 },
    Latest { zipf: Zipf<f64>, count: Arc<AtomicU64> },
}

impl Keys {
    /// Those of `thread`, one of `threads`.
    pub fn new(space: &Space, thread: usize, threads: usize, seed: u64) -> Keys {
        let count = space.trace.as_ref().map_or(space.count.load(Ordering::Relaxed), |trace| trace.len() as u64).max(1);
        let zipf = |exponent: f64| Zipf::new(count as f64, exponent).expect("a number of keys and an exponent");
        let kind = match space.pick {
            Pick::Uniform => Kind::Uniform { count },
            Pick::Zipf { exponent } => Kind::Zipf { zipf: zipf(exponent), count, factor: scatter_factor(count) },
            Pick::Hotspot { keys, requests } => {
                let hot = ((count as f64 * keys) as u64).clamp(1, count);
                Kind::Hotspot { hot, count, requests: if hot == count { 1.0 } else { requests } }
            }
            Pick::Sequential | Pick::File(_) => {
                let (thread, threads) = (thread as u64, threads as u64);
                let (from, until) = (count * thread / threads, count * (thread + 1) / threads);
                // More threads than keys: all of them for everybody.
                let (from, until) = if from == until { (0, count) } else { (from, until) };
                Kind::Turn { from, until, next: from }
            }
            Pick::Latest { exponent } => Kind::Latest { zipf: zipf(exponent), count: space.count.clone() },
        };
        Keys { kind, rng: SmallRng::seed_from_u64(seed) }
    }

    #[inline]
    pub fn draw(&mut self) -> u64 {
        match &mut self.kind {
            Kind::Uniform { count } => below(&mut self.rng, *count),
            Kind::Zipf { zipf, count, factor } => {
                let rank = (zipf.sample(&mut self.rng) as u64 - 1).min(*count - 1);
                scattered(rank, *factor, *count)
            }
            Kind::Hotspot { hot, count, requests } => {
                if self.rng.random::<f64>() < *requests {
                    below(&mut self.rng, *hot)
                } else {
                    *hot + below(&mut self.rng, *count - *hot)
                }
            }
            Kind::Turn { from, until, next } => {
                let key = *next;
                *next = if key + 1 == *until { *from } else { key + 1 };
                key
            }
            Kind::Latest { zipf, count } => {
                let age = zipf.sample(&mut self.rng) as u64;
                count.load(Ordering::Relaxed).saturating_sub(age)
            }
        }
    }
}

/// Uniform below `bound`: the upper half of a product; its bias is under bound / 2^64.
#[inline]
pub fn below(rng: &mut SmallRng, bound: u64) -> u64 {
    ((u128::from(rng.random::<u64>()) * u128::from(bound)) >> 64) as u64
}

/// A factor by which ranks are spread over the keys: near the golden section of their number, and coprime to it, so that no two ranks meet.
fn scatter_factor(count: u64) -> u64 {
    let mut factor = ((count as f64 * 0.618_033_988_75) as u64).max(1);
    while gcd(factor, count) != 1 {
        factor += 1;
    }
    factor
}

fn scattered(rank: u64, factor: u64, count: u64) -> u64 {
    if count <= u64::from(u32::MAX) {
        rank * factor % count
    } else {
        (u128::from(rank) * u128::from(factor) % u128::from(count)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pick: &str, keys: u64, draws: usize) -> Vec<usize> {
        let space =
            Space { pick: pick.parse().expect("a distribution"), count: Arc::new(AtomicU64::new(keys)), trace: None };
        let mut drawn = Keys::new(&space, 0, 1, 42);
        let mut counts = vec![0; keys as usize];
        (0..draws).for_each(|_| counts[drawn.draw() as usize] += 1);
        counts
    }

    /// The sum of squared deviations in units of what is expected; about the number of classes if the distribution is right.
    fn chi_squared(counts: impl IntoIterator<Item = (usize, f64)>) -> f64 {
        counts.into_iter().map(|(seen, expected)| (seen as f64 - expected).powi(2) / expected).sum()
    }

    #[test]
    fn uniform_is_uniform() {
        let seen = counts("uniform", 1000, 1_000_000);
        // 999 degrees of freedom: 1143 is passed once in a thousand seeds.
        let chi = chi_squared(seen.into_iter().map(|count| (count, 1000.0)));
        assert!((850.0..1143.0).contains(&chi), "{chi}");
    }

    #[test]
    fn zipf_follows_its_law_and_reaches_every_key() {
        for exponent in ["0.5", "0.99", "1", "1.3"] {
            let (keys, draws) = (1000u64, 1_000_000);
            let mut seen = counts(&format!("zipf:{exponent}"), keys, draws);
            let s: f64 = exponent.parse().expect("a number");
            let sum: f64 = (1..=keys).map(|k| (k as f64).powf(-s)).sum();
            let factor = scatter_factor(keys);
            let by_rank: Vec<usize> = (0..keys).map(|rank| seen[scattered(rank, factor, keys) as usize]).collect();
            let expected = |rank: usize| draws as f64 * ((rank + 1) as f64).powf(-s) / sum;
            let chi = chi_squared(by_rank.iter().enumerate().map(|(rank, &count)| (count, expected(rank))));
            assert!(chi < 1143.0, "exponent {exponent}: {chi}");
            seen.sort_unstable();
            assert!(seen[0] > 0 || s > 1.0, "every key is drawn, so scattering joins no two ranks");
        }
    }

    #[test]
    fn scattering_is_a_permutation() {
        for count in [1u64, 2, 3, 10, 16, 100, 997, 4096] {
            let factor = scatter_factor(count);
            let mut seen: Vec<u64> = (0..count).map(|rank| scattered(rank, factor, count)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_hotspot_gets_its_share() {
        let seen = counts("hotspot:0.1,0.9", 1000, 1_000_000);
        let hot: usize = seen[..100].iter().sum();
        // Nine hundred thousand, standard deviation 300.
        assert!((898_800..901_200).contains(&hot), "{hot}");
        assert!(seen.iter().all(|&count| count > 0));
        assert!(counts("hotspot:1,0.5", 10, 1000).iter().all(|&count| count > 0));
    }

    #[test]
    fn the_newest_key_is_the_most_frequent() {
        let seen = counts("latest", 1000, 100_000);
        assert!(seen[999] > seen[998] && seen[998] > seen[990] && seen[990] > seen[500]);
    }

    #[test]
    fn threads_share_the_keys_in_turn() {
        let space = Space { pick: Pick::Sequential, count: Arc::new(AtomicU64::new(10)), trace: None };
        let drawn = |thread, threads, draws| {
            let mut keys = Keys::new(&space, thread, threads, 1);
            (0..draws).map(|_| keys.draw()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(0, 1, 12), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
        assert_eq!([drawn(0, 3, 3), drawn(1, 3, 3), drawn(2, 3, 4)].concat(), (0..10).collect::<Vec<_>>());
        assert_eq!(drawn(7, 20, 3), [3, 3, 3]);
        assert_eq!(drawn(0, 20, 2), [0, 1]);
    }

    #[test]
    fn names_of_distributions() {
        for text in ["uniform", "zipf:0.99", "hotspot:0.2,0.8", "sequential", "latest:1.1", "file:a/b"] {
            assert_eq!(text.parse::<Pick>().expect(text).to_string(), text);
        }
        assert_eq!("zipf".parse(), Ok(Pick::Zipf { exponent: 0.99 }));
        for text in ["", "zip", "zipf:x", "zipf:-1", "hotspot:2,1", "hotspot:0.5", "uniform:1", "file"] {
            assert!(text.parse::<Pick>().is_err(), "{text}");
        }
    }
}
