//! Evacuation: memory comes back, nothing is lost, nothing thrashes.

use dolmen_slab::{Handle, Kind, Slab, Slice};

use crate::model::{Choices, Model, resident_bytes, small_pages};

fn filled(chunks: usize, sizes: &[usize], freed_percent: usize) -> Model {
    let mut model = Model::new(Slab::new(small_pages()).unwrap());
    let mut choices = Choices(7);
    for index in 0..chunks {
        assert!(model.alloc(sizes[index % sizes.len()], Kind::Item));
    }
    for _ in 0..chunks * freed_percent / 100 {
        model.free_nth(choices.below(model.order.len()));
    }
    model
}

fn release_all(slab: &mut Slab) {
    for second in 0..20 {
        while slab.release(second * 1000, 64) {}
    }
}

/// Room that may stay: under two spans a class, a page for the active one.
fn assert_compact(model: &Model, classes: usize) {
    let (resident, used) = (model.slab.resident_estimate_bytes(), model.slab.used_bytes());
    assert!(resident <= used + used / 10 + (classes * 2 * 65536) as u64, "{resident} bytes resident for {used}");
    let last = model.order.iter().max().unwrap();
    assert!(resident_bytes(&model.slab, *last) <= resident);
}

#[test]
fn random_holes_are_repaired() {
    for freed_percent in [40, 90] {
        let mut model = filled(100_000, &[32], freed_percent);
        let before = model.slab.resident_estimate_bytes();
        assert!(model.slab.fragmented_bytes() > before / 5);
        assert!(model.evacuate(|_| false) > 0);
        assert_eq!(model.slab.fragmented_bytes(), 0);
        release_all(&mut model.slab);
        model.check_all();
        assert_compact(&model, 1);
    }
}

#[test]
fn a_mix_of_sizes_is_repaired_and_makes_room_for_others() {
    let sizes = [16, 32, 48, 72, 120, 200, 512, 1500, 4000, 10_000];
    let mut model = filled(30_000, &sizes, 85);
    model.evacuate(|_| false);
    release_all(&mut model.slab);
    model.check_all();
    assert_compact(&model, sizes.len());
    // The emptied spans serve any class: the region does not grow.
    let last = model.order.iter().max().unwrap().bits();
    for _ in 0..10_000 {
        assert!(model.alloc(100, Kind::Item));
    }
    assert!(model.order.iter().max().unwrap().bits() <= last.max(30_000 * 1600 / 8));
    assert_compact(&model, sizes.len() + 1);
}

#[test]
fn churn_at_the_edge_does_not_evacuate_again() {
    let mut model = filled(50_000, &[32], 60);
    model.evacuate(|_| false);
    let mut choices = Choices(3);
    let live = model.order.len();
    // Holes come and go, within a hundredth of the live chunks.
    for _ in 0..20 {
        for _ in 0..live / 100 {
            model.free_nth(choices.below(model.order.len()));
        }
        assert_eq!(model.slab.fragmented_bytes(), 0);
        assert!(model.slab.pick_victim().is_none());
        for _ in 0..live / 100 {
            assert!(model.alloc(32, Kind::Item));
        }
    }
    model.check_all();
}

#[test]
fn chunks_that_cannot_be_moved_end_the_evacuation() {
    let mut model = filled(50_000, &[32], 90);
    let victims = model.evacuate(|_| true);
    assert!(victims > 0, "tried");
    assert_eq!(model.evacuate(|_| true), 0, "not again before something was freed there");
    model.check_all();
    // Half of them stay: what can be moved is.
    let before = model.slab.fragmented_bytes();
    let mut choices = Choices(11);
    for _ in 0..model.order.len() / 10 {
        model.free_nth(choices.below(model.order.len()));
    }
    model.evacuate(|handle| handle.bits() % 2 == 0);
    assert!(model.slab.fragmented_bytes() <= before + before / 5);
    model.check_all();
}

#[test]
fn nothing_lands_in_a_sealed_span_and_it_serves_again_afterwards() {
    let mut model = filled(50_000, &[64], 90);
    let mut victim = model.slab.pick_victim().unwrap();
    let (first, _) = model.slab.next_live(&mut victim).unwrap();
    let sealed = first.bits() >> 13;
    for _ in 0..50_000 {
        let handle = model.slab.alloc(64, Kind::Item).unwrap();
        assert_ne!(handle.bits() >> 13, sealed);
    }
    model.slab.finish(victim);
    let mut reached = false;
    for _ in 0..2000 {
        reached |= model.slab.alloc(64, Kind::Item).unwrap().bits() >> 13 == sealed;
    }
    assert!(reached, "the span takes allocations again");
}

#[test]
fn interior_chunks_are_never_victims() {
    let mut model = Model::new(Slab::new(small_pages()).unwrap());
    for _ in 0..40_000 {
        model.alloc(32, Kind::Interior);
    }
    let mut choices = Choices(5);
    for _ in 0..36_000 {
        model.free_nth(choices.below(model.order.len()));
    }
    assert_eq!(model.slab.fragmented_bytes(), 0);
    assert!(model.slab.pick_victim().is_none());
}

/// A walk over all interior chunks, each offered once.
fn sweep(model: &mut Model, mut stays: impl FnMut(Handle) -> bool) -> (usize, u64) {
    while model.slab.seal_sparse(7) {}
    let mut slices = 0;
    let mut moved = 0;
    let all: Vec<Handle> = model.order.clone();
    for part in all.chunks(100) {
        let mut slice = Slice::new(usize::MAX, usize::MAX);
        for &handle in part.iter().filter(|handle| !stays(**handle)) {
            model.offer(&mut slice, handle);
        }
        slices += 1;
        moved += slice.moved;
    }
    while model.slab.unseal(5) {}
    (slices, moved)
}

/// Of many classes at once: what the walk cannot give back is not tried again.
#[test]
fn a_sweep_repairs_all_classes_of_interior_chunks() {
    let sizes = [24, 64, 200, 1024, 3000];
    let mut model = Model::new(Slab::new(small_pages()).unwrap());
    let mut choices = Choices(3);
    for index in 0..40_000 {
        assert!(model.alloc(sizes[index % sizes.len()], Kind::Interior));
    }
    assert!(!model.slab.is_worth_sweeping());
    for _ in 0..36_000 {
        model.free_nth(choices.below(model.order.len()));
    }
    let sparse = model.slab.sparse_bytes();
    let resident = model.slab.resident_estimate_bytes();
    assert!(model.slab.is_worth_sweeping() && sparse > resident / 2, "{sparse} of {resident}");
    // Victims are of items.
    assert!(model.slab.pick_victim().is_none());
    let (_, moved) = sweep(&mut model, |_| false);
    assert!(moved > 0 && moved < 4000);
    model.check_all();
    assert!(!model.slab.is_worth_sweeping());
    release_all(&mut model.slab);
    assert_compact(&model, sizes.len());
    // And memory serves as before.
    for index in 0..4000 {
        assert!(model.alloc(sizes[index % sizes.len()], Kind::Interior));
    }
    model.check_all();
}

/// Spans are emptied while others are still sealed, and used again.
#[test]
fn an_emptied_span_is_free_before_the_sweep_ends() {
    let mut model = Model::new(Slab::new(small_pages()).unwrap());
    for _ in 0..40_000 {
        assert!(model.alloc(64, Kind::Interior));
    }
    let mut choices = Choices(5);
    for _ in 0..38_000 {
        model.free_nth(choices.below(model.order.len()));
    }
    while model.slab.seal_sparse(1000) {}
    let spans = |model: &Model| model.slab.class_stats().map(|class| class.spans).sum::<usize>();
    let before = spans(&model);
    model.order.sort();
    let mut slice = Slice::new(usize::MAX, usize::MAX);
    for handle in model.order.clone().into_iter().take(1000) {
        model.offer(&mut slice, handle);
    }
    assert!(spans(&model) < before, "{before} spans before");
    // Nothing is allocated in what is still sealed.
    for _ in 0..3000 {
        assert!(model.alloc(64, Kind::Interior));
        assert!(!model.slab.is_sealed(*model.order.last().unwrap()));
    }
    while model.slab.unseal(1) {}
    model.check_all();
}

/// What did not move once stays sealed no longer, takes allocations, and is tried again after the others.
#[test]
fn a_sweep_in_vain_leaves_all_as_it_was() {
    let mut model = Model::new(Slab::new(small_pages()).unwrap());
    for _ in 0..40_000 {
        assert!(model.alloc(100, Kind::Interior));
    }
    let mut choices = Choices(9);
    for _ in 0..36_000 {
        model.free_nth(choices.below(model.order.len()));
    }
    let (sparse, spans) = (model.slab.sparse_bytes(), model.slab.class_stats().map(|class| class.spans).sum::<usize>());
    assert_eq!(sweep(&mut model, |_| true).1, 0);
    assert_eq!(model.slab.sparse_bytes(), sparse);
    for _ in 0..2000 {
        assert!(model.alloc(100, Kind::Interior));
    }
    assert_eq!(model.slab.class_stats().map(|class| class.spans).sum::<usize>(), spans);
    assert!(sweep(&mut model, |_| false).1 > 0);
    model.check_all();
    while !model.order.is_empty() {
        model.free_nth(model.order.len() - 1);
    }
    release_all(&mut model.slab);
    assert_eq!(model.slab.resident_estimate_bytes(), 0);
}
