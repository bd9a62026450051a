//! Decay with an explicit clock.

use dolmen_slab::{Config, Handle, Kind, Slab};

fn emptied(spans: usize) -> Slab {
    let mut slab = Slab::new(Config { decay_ms: 500, ..Config::default() }).unwrap();
    slab.release(10_000, 0);
    let handles: Vec<Handle> = (0..spans * 64).map(|_| slab.alloc(1024, Kind::Item).unwrap()).collect();
    for handle in handles {
        // SAFETY: live, freed once.
        unsafe { slab.free(handle, 1024) };
    }
    slab
}

#[test]
fn nothing_is_released_before_its_decay_and_everything_after() {
    let mut slab = emptied(10);
    assert!(!slab.release(10_499, 100));
    assert_eq!(slab.resident_estimate_bytes(), 10 * 65536);
    assert!(!slab.release(10_500, 100));
    // The active span was found idle at one of these calls and waits for its own decay.
    assert!(slab.resident_estimate_bytes() <= 65536);
    for call in 0..12 {
        assert!(!slab.release(11_000 + call * 500, 100));
    }
    assert_eq!(slab.resident_estimate_bytes(), 0);
}

#[test]
fn release_is_sliced() {
    let mut slab = emptied(10);
    assert!(slab.release(11_000, 4));
    assert_eq!(slab.resident_estimate_bytes(), 6 * 65536);
    assert!(slab.release(11_000, 4));
    assert!(!slab.release(11_000, 4));
    assert!(slab.resident_estimate_bytes() <= 65536);
    assert!(!slab.release(11_000, 0));
}

#[test]
fn hot_spans_are_reused_before_new_ones_and_start_their_decay_again() {
    let mut slab = emptied(10);
    let resident = slab.resident_estimate_bytes();
    slab.release(10_400, 100);
    let handles: Vec<Handle> = (0..5 * 128).map(|_| slab.alloc(512, Kind::Interior).unwrap()).collect();
    assert_eq!(slab.resident_estimate_bytes(), resident);
    for handle in handles {
        // SAFETY: live, freed once.
        unsafe { slab.free(handle, 512) };
    }
    slab.release(10_600, 100);
    // Those used again were emptied at 10,400: at least four (the fifth is active).
    assert!(slab.resident_estimate_bytes() >= 4 * 65536);
    assert!(slab.resident_estimate_bytes() < resident);
}

#[test]
fn blobs_decay_too() {
    let mut slab = Slab::new(Config { decay_ms: 500, ..Config::default() }).unwrap();
    slab.release(0, 0);
    let ids: Vec<_> = (0..20)
        .map(|_| {
            let id = slab.blob_new(100_000).unwrap();
            slab.blob_append(id, &[7; 100_000]).unwrap();
            id
        })
        .collect();
    let resident = slab.blob_stats().resident_bytes;
    assert_eq!(resident, 20 * 25 * 4096);
    ids.into_iter().for_each(|id| slab.blob_release(id));
    assert_eq!(slab.used_bytes(), 0);
    assert!(!slab.release(499, 100));
    assert_eq!(slab.blob_stats().resident_bytes, resident);
    // 25 pages cost two spans of budget.
    assert!(slab.release(500, 20));
    assert_eq!(slab.blob_stats().resident_bytes, resident / 2);
    assert!(!slab.release(500, 100));
    assert_eq!(slab.resident_estimate_bytes(), 0);
    let id = slab.blob_new(100_000).unwrap();
    let spare = slab.blob_spare(id).unwrap();
    assert!(spare.len() >= 100_000 && spare.iter().all(|&byte| byte == 0), "released memory reads as zeros");
}
