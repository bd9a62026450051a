//! Huge pages ahead of use: the figures stay true, and the memory goes back.

use std::time::{Duration, Instant};

use dolmen_slab::{Config, Kind, Slab};

use crate::model::resident_bytes;

/// How long a thread may be kept from running.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn pages_faulted_in_ahead_are_counted_used_and_given_back() {
    const UNIT: u64 = 2 << 20;
    let mut slab = Slab::new(Config::default()).unwrap();
    let mut handles = Vec::new();
    let mut ahead_seen = false;
    while slab.used_bytes() < 40 << 20 {
        for _ in 0..1000 {
            handles.push(slab.alloc(256, Kind::Item).unwrap());
        }
        // The thread runs when nobody else does: gives it a chance, and looks whether it was there.
        let ahead = |slab: &Slab| slab.resident_estimate_bytes() > slab.used_bytes() + UNIT;
        let until = Instant::now() + Duration::from_millis(5);
        while slab.used_bytes() > 10 << 20 && !ahead(&slab) && Instant::now() < until {
            std::thread::yield_now();
        }
        ahead_seen |= ahead(&slab);
        let (used, estimate) = (slab.used_bytes(), slab.resident_estimate_bytes());
        assert!(estimate <= used + 2 * UNIT, "{estimate} bytes resident for {used}");
    }
    // What is ahead of use goes when nothing grows any more, as soon as the thread is through with it: what is left is the rest of the unit in use.
    let (until, mut now_ms) = (Instant::now() + PATIENCE, 0);
    while slab.resident_estimate_bytes() > slab.used_bytes() + UNIT + UNIT / 8 {
        assert!(Instant::now() < until, "{} bytes resident", slab.resident_estimate_bytes());
        now_ms += 1000;
        slab.release(now_ms, 64);
        std::thread::yield_now();
    }
    // And it comes again when something grows.
    while slab.used_bytes() < 60 << 20 {
        handles.push(slab.alloc(256, Kind::Item).unwrap());
    }
    let last = *handles.iter().max().unwrap();
    if ahead_seen {
        // A unit may be under way, which is counted when it is done.
        let kernel = resident_bytes(&slab, last);
        assert!(kernel <= slab.resident_estimate_bytes() + UNIT, "{kernel} bytes resident");
    }
    for handle in handles.drain(..) {
        // SAFETY: allocated above, freed once, not used.
        unsafe { slab.free(handle, 256) };
    }
    for second in 1..30 {
        while slab.release(now_ms + second * 1000, 64) {}
    }
    let left = slab.resident_estimate_bytes();
    assert!(left <= 2 * UNIT, "{left} bytes stay resident");
    assert!(resident_bytes(&slab, last) <= 2 * UNIT);
}

#[test]
fn a_slab_may_go_while_pages_are_faulted_in() {
    for chunks in [9_000, 14_000, 20_000, 40_000] {
        let mut slab = Slab::new(Config::default()).unwrap();
        for _ in 0..chunks {
            slab.alloc(1024, Kind::Item).unwrap();
        }
    }
}
