//! All policies against what must hold of each, the simple ones against a naive model, and ours against the others.

use super::{POLICIES, Policy, make};
use crate::run::hit_percent;
use crate::trace::{self, Numbering, Trace};
use proptest::prelude::*;

/// Requests of keys with sizes that follow from them.
fn requests(keys: &[u8]) -> Trace {
    let mut out = Numbering::default();
    for &key in keys {
        out.request(key.into(), || 10 + u32::from(key) % 7 * 10);
    }
    out.trace("keys")
}

/// By request, whether it hit, each miss followed by a set.
fn hits(policy: &mut dyn Policy, trace: &Trace) -> Vec<bool> {
    let mut hits = Vec::new();
    for &object in &trace.requests {
        let hit = policy.get(object);
        if !hit {
            policy.set(object);
        }
        hits.push(hit);
    }
    hits
}

/// What FIFO, CLOCK and LRU do, in a list from the next victim on.
fn naive(name: &str, trace: &Trace, capacity: u32) -> Vec<bool> {
    let mut queue: Vec<(u32, bool)> = Vec::new();
    let mut hits = Vec::new();
    for &object in &trace.requests {
        let found = queue.iter().position(|&(other, _)| other == object);
        hits.push(found.is_some());
        let bytes = |object: u32| trace.bytes[object as usize];
        match (found, name) {
            (Some(at), "lru") => {
                let entry = queue.remove(at);
                queue.push(entry);
            }
            (Some(at), "clock") => queue[at].1 = true,
            (Some(_), _) => {}
            (None, _) if bytes(object) > capacity => {}
            (None, _) => {
                while queue.iter().map(|&(other, _)| bytes(other)).sum::<u32>() + bytes(object) > capacity {
                    if let (other, true) = queue.remove(0) {
                        queue.push((other, false));
                    }
                }
                queue.push((object, false));
            }
        }
    }
    hits
}

proptest! {
    #[test]
    fn queues_are_as_naive_ones(keys in prop::collection::vec(0..40u8, 1..400), capacity in 60..800u32) {
        let trace = requests(&keys);
        for name in ["fifo", "clock", "lru"] {
            let mut policy = make(name, &trace, capacity.into(), 1).expect("a policy");
            prop_assert_eq!(hits(policy.as_mut(), &trace), naive(name, &trace, capacity), "{}", name);
        }
    }

    /// Also where an object is larger than the cache, and where a set comes for what is there.
    #[test]
    fn none_exceeds_its_memory(keys in prop::collection::vec((0..60u8, any::<bool>()), 1..400), capacity in 20..1500u64) {
        let trace = requests(&keys.iter().map(|&(key, _)| key).collect::<Vec<_>>());
        for (name, _) in POLICIES {
            let mut policy = make(name, &trace, capacity, 2).expect("a policy");
            for (&object, &(_, again)) in trace.requests.iter().zip(&keys) {
                let hit = policy.get(object);
                if !hit || again {
                    policy.set(object);
                }
                prop_assert!(policy.used_bytes() <= capacity, "{}: {} of {}", name, policy.used_bytes(), capacity);
            }
        }
    }
}

#[test]
fn what_fits_is_missed_once() {
    let trace = trace::make("zipf0.9", 500, 20_000, 3).expect("a workload");
    let all = trace.bytes.iter().map(|&bytes| u64::from(bytes)).sum::<u64>();
    for (name, _) in POLICIES {
        let mut policy = make(name, &trace, 2 * all, 1).expect("a policy");
        let missed = hits(policy.as_mut(), &trace).iter().filter(|&&hit| !hit).count();
        let once = if name.starts_with("w-tinylfu") {
            // Its window and its main part are each full before the cache is.
            trace.bytes.len() * 11 / 10
        } else {
            trace.bytes.len()
        };
        // (The clairvoyant does not take in what is asked for once.)
        assert!(missed <= once, "{name} missed {missed} of {}", trace.bytes.len());
    }
}

#[test]
fn nobody_beats_the_clairvoyant() {
    for shape in ["zipf0.9", "scan", "loop", "churn"] {
        let trace = trace::make(shape, 20_000, 60_000, 5).expect("a workload");
        let capacity = 1 << 20;
        let ratio = |name| hit_percent(&trace, make(name, &trace, capacity, 1).expect("a policy").as_mut(), capacity);
        let bound = ratio("belady");
        for (name, _) in POLICIES {
            assert!(ratio(name) <= bound, "{name} on {shape}");
        }
    }
}

/// Textbook cases: each policy does what it is known for.
#[test]
fn each_does_what_it_is_known_for() {
    let trace = trace::make("loop", 20_000, 60_000, 5).expect("a workload");
    let ratio = |name| hit_percent(&trace, make(name, &trace, 1 << 20, 1).expect("a policy").as_mut(), 1 << 20);
    for name in ["fifo", "lru", "clock"] {
        assert_eq!(ratio(name), 0.0, "{name} has just evicted what the loop wants");
    }
    let trace = trace::make("scan", 50_000, 200_000, 5).expect("a workload");
    let ratio = |name| hit_percent(&trace, make(name, &trace, 2 << 20, 1).expect("a policy").as_mut(), 2 << 20);
    let lru = ratio("lru");
    assert!((lru - ratio("lru-sampled")).abs() < 1.0, "samples are nearly exact");
    for name in ["s3-fifo", "sieve", "w-tinylfu", "lfu-sampled", "smart"] {
        assert!(ratio(name) > lru + 1.0, "{name} resists scans");
    }
    assert!(lru > ratio("fifo") + 1.0);
    let trace = trace::make("zipf0.7", 50_000, 200_000, 5).expect("a workload");
    let ratio = |name| hit_percent(&trace, make(name, &trace, 2 << 20, 1).expect("a policy").as_mut(), 2 << 20);
    assert!(ratio("w-tinylfu-size") > ratio("w-tinylfu") + 0.5, "small objects are cheaper");
}

/// The gates of the choice: on all four workloads of the measurement ours is above the best of the published policies, scaled down by
/// ten, also with other seeds and sizes.
#[test]
fn ours_is_best_on_all_four() {
    for (seed, kib) in [(7, 6554), (8, 3277)] {
        for shape in ["zipf0.9", "scan", "shift"] {
            let trace = trace::make(shape, 100_000, 200_000, seed).expect("a workload");
            let capacity = kib << 10;
            let ratio =
                |name| hit_percent(&trace, make(name, &trace, capacity, 4).expect("a policy").as_mut(), capacity);
            let ours = ratio("smart");
            for name in ["fifo", "lru", "sieve", "s3-fifo", "w-tinylfu-climb", "w-tinylfu-size"] {
                let theirs = ratio(name);
                assert!(ours > theirs + 0.3, "{shape}, seed {seed}, {kib} KiB: {ours:.2}, {name} {theirs:.2}");
            }
        }
    }
}
