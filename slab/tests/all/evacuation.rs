//! Evacuation: memory comes back, nothing is lost, nothing thrashes.

use dolmen_slab::{Kind, Slab};

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
