//! Chunks: programs of operations against the model; misuse; a full region.

use dolmen_slab::{CHUNK_BYTES_MAX, Config, Handle, Kind, Slab};
use proptest::prelude::*;

use crate::model::{Choices, Model, programs, resident_bytes, small_pages};

#[derive(Clone, Debug)]
enum Op {
    Alloc { bytes: usize, item: bool, times: usize },
    Free { index: usize, times: usize },
    Evacuate { stubborn: bool },
    Release { after_ms: u64, budget_spans: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = prop_oneof![3 => 1..300usize, 1 => 300..CHUNK_BYTES_MAX + 1];
    prop::collection::vec(
        prop_oneof![
            4 => (bytes, any::<bool>(), 1..200usize).prop_map(|(bytes, item, times)| Op::Alloc { bytes, item, times }),
            4 => (any::<usize>(), 1..300usize).prop_map(|(index, times)| Op::Free { index, times }),
            1 => any::<bool>().prop_map(|stubborn| Op::Evacuate { stubborn }),
            1 => (0..2000u64, 0..20usize).prop_map(|(after_ms, budget_spans)| Op::Release { after_ms, budget_spans }),
        ],
        1..40,
    )
}

proptest! {
    #![proptest_config(programs())]

    #[test]
    fn programs_agree_with_the_model(ops in ops()) {
        let mut model = Model::new(Slab::new(small_pages()).unwrap());
        let mut now_ms = 1_000_000;
        for op in ops {
            match op {
                Op::Alloc { bytes, item, times } => {
                    let kind = if item { Kind::Item } else { Kind::Interior };
                    for _ in 0..times {
                        prop_assert!(model.alloc(bytes, kind));
                    }
                }
                Op::Free { index, times } => {
                    for _ in 0..times.min(model.order.len()) {
                        model.free_nth(index % model.order.len());
                    }
                }
                Op::Evacuate { stubborn } => {
                    model.evacuate(|handle| stubborn && handle.bits() % 3 == 0);
                }
                Op::Release { after_ms, budget_spans } => {
                    now_ms += after_ms;
                    model.slab.release(now_ms, budget_spans);
                }
            }
            model.check_stats();
        }
        model.check_all();
        while !model.order.is_empty() {
            model.free_nth(0);
        }
        model.check_stats();
        // Idle active spans are retired a few a call, and count as emptied then.
        for _ in 0..20 {
            now_ms += 1000;
            prop_assert!(!model.slab.release(now_ms, usize::MAX));
        }
        prop_assert_eq!(model.slab.resident_estimate_bytes(), 0);
        prop_assert_eq!(model.slab.class_stats().count(), 0);
    }
}

#[test]
fn every_class_fills_whole_spans() {
    for bytes in (8..=256).step_by(8).chain((256..=CHUNK_BYTES_MAX).step_by(32)) {
        let mut slab = Slab::new(small_pages()).unwrap();
        let class_bytes = Slab::class_bytes(bytes);
        let capacity = 65536 / class_bytes;
        let handles: Vec<Handle> = (0..capacity * 3).map(|_| slab.alloc(bytes, Kind::Item).unwrap()).collect();
        // Address order, without gaps inside a span.
        for (index, handle) in handles.iter().enumerate() {
            let span = handles[index / capacity * capacity];
            assert_eq!((handle.bits() - span.bits()) as usize * 8, index % capacity * class_bytes);
        }
        let stats = slab.class_stats().next().unwrap();
        assert_eq!((stats.spans, stats.live_chunks, stats.free_chunks), (3, capacity * 3, 0));
        for handle in handles {
            // SAFETY: live, freed once.
            unsafe { slab.free(handle, class_bytes) };
        }
        assert_eq!(slab.used_bytes(), 0);
    }
}

#[test]
fn a_mostly_empty_span_touches_its_first_pages_only() {
    let mut slab = Slab::new(small_pages()).unwrap();
    for _ in 0..10 {
        slab.alloc(32, Kind::Item).unwrap();
        slab.alloc(1000, Kind::Interior).unwrap();
    }
    assert_eq!(slab.resident_estimate_bytes(), 4096 + 3 * 4096);
}

#[test]
fn the_estimate_agrees_with_the_kernel() {
    let mut model = Model::new(Slab::new(small_pages()).unwrap());
    let mut choices = Choices(1);
    let sizes = [16, 24, 40, 100, 200, 320, 1000, 2500, 5000, 16384];
    for round in 0..20 {
        for _ in 0..3000 {
            let bytes = sizes[choices.below(sizes.len())];
            assert!(model.alloc(bytes, if choices.below(2) == 0 { Kind::Item } else { Kind::Interior }));
        }
        for _ in 0..2000 + choices.below(900) {
            model.free_nth(choices.below(model.order.len()));
        }
        model.slab.release(round * 1000, 50);
        let last = Handle::from_bits(model.live.keys().map(|handle| handle.bits()).max().unwrap() + (64 << 20) / 8);
        let (kernel, estimate) = (resident_bytes(&model.slab, last), model.slab.resident_estimate_bytes());
        // Chunks may be given to a heap before they are handed out: at most a page, or a chunk, in each.
        let slack_bytes: usize = sizes.iter().map(|&bytes| 2 * (bytes + 4096)).sum();
        assert!(kernel <= estimate && estimate <= kernel + slack_bytes as u64, "kernel {kernel}, estimate {estimate}");
    }
}

#[test]
#[should_panic(expected = "double free")]
fn a_double_free_panics() {
    let mut slab = Slab::new(small_pages()).unwrap();
    let handles = [(); 3].map(|()| slab.alloc(64, Kind::Item).unwrap());
    // SAFETY: the second call breaks the contract on purpose; it panics before it touches anything.
    unsafe {
        slab.free(handles[1], 64);
        slab.free(handles[1], 64);
    }
}

#[test]
#[should_panic(expected = "double free")]
fn a_double_free_in_a_span_that_was_emptied_panics() {
    let mut slab = Slab::new(small_pages()).unwrap();
    let handles: Vec<Handle> = (0..8).map(|_| slab.alloc(16384, Kind::Item).unwrap()).collect();
    // SAFETY: as above.
    unsafe {
        handles[..4].iter().for_each(|&handle| slab.free(handle, 16384));
        slab.free(handles[0], 16384);
    }
}

#[test]
#[should_panic(expected = "double free")]
fn freeing_null_panics() {
    // SAFETY: as above.
    unsafe { Slab::new(small_pages()).unwrap().free(Handle::NULL, 16) };
}

#[test]
#[should_panic(expected = "another class")]
#[cfg(debug_assertions)]
fn freeing_with_a_wrong_size_panics_in_debug_builds() {
    let mut slab = Slab::new(small_pages()).unwrap();
    let handle = slab.alloc(64, Kind::Item).unwrap();
    // SAFETY: as above.
    unsafe { slab.free(handle, 65) };
}

#[test]
fn a_full_region_fails_and_recovers_by_the_last_hole() {
    let config = Config { reserve_bytes: 1 << 20, ..small_pages() };
    let mut model = Model::new(Slab::new(config).unwrap());
    while model.alloc(32, Kind::Item) {}
    let live = model.order.len();
    assert!(live >= 15 * 2048, "{live} chunks in 1 MiB");
    for index in [0, 4000, live / 2, live - 5] {
        model.free_nth(index);
        assert!(!model.alloc(64, Kind::Item), "another class has no span");
        assert!(!model.alloc(32, Kind::Interior), "another kind has no span");
        assert!(model.alloc(32, Kind::Item), "the hole is found, however full its span");
        assert!(!model.alloc(32, Kind::Item));
    }
    model.check_all();
    assert_eq!(model.slab.alloc(CHUNK_BYTES_MAX + 1, Kind::Item).unwrap_err().requested_bytes, CHUNK_BYTES_MAX + 1);
}

#[test]
fn kinds_do_not_share_spans() {
    let mut slab = Slab::new(small_pages()).unwrap();
    let (mut items, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..5000 {
        items.push(slab.alloc(48, Kind::Item).unwrap().bits() >> 13);
        nodes.push(slab.alloc(48, Kind::Interior).unwrap().bits() >> 13);
    }
    items.dedup();
    nodes.dedup();
    assert!(items.iter().all(|span| !nodes.contains(span)));
}

#[test]
fn a_slab_moves_between_threads() {
    let mut slab = Slab::new(small_pages()).unwrap();
    let handle = slab.alloc(100, Kind::Item).unwrap();
    let mut slab = std::thread::spawn(move || {
        slab.prefetch(handle);
        slab.prefetch(Handle::from_bits(u32::MAX));
        slab
    })
    .join()
    .unwrap();
    // SAFETY: live, freed once.
    unsafe { slab.free(handle, 100) };
    assert_eq!(slab.used_bytes(), 0);
}
