//! Views against sets of handles: programs of changes with several views open, opened and closed at any time, read in slices. Handles are
//! used again as soon as the table lets them go, so that one freed too early is seen in the wrong place.

use super::tests::{Shape, mix, shape};
use super::{Entries, Table, View, ViewLost};
use dolmen_slab::{Config, Handle, Slab};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config as ProptestConfig, TestRunner};
use std::collections::HashSet;

/// Hash by handle; 0 while the handle is free.
#[derive(Default)]
struct Hashes(Vec<u64>);

impl Entries for Hashes {
    fn hash(&self, _: &Slab, h: Handle) -> u64 {
        self.0[h.bits() as usize]
    }
}

struct Opened {
    view: View,
    /// What it has to show.
    all: HashSet<Handle>,
    left: HashSet<Handle>,
    done: bool,
}

struct World {
    slab: Slab,
    table: Table,
    hashes: Hashes,
    free: Vec<Handle>,
    live: Vec<Handle>,
    deferred: HashSet<Handle>,
    views: Vec<Opened>,
    /// What closed views have shown, until all is released.
    closed: Vec<HashSet<Handle>>,
    ids: u64,
    lost: usize,
    finished: usize,
}

const ENTRY_BYTES: u64 = 40;

impl World {
    /// With `spans` there are only so many spans of memory.
    fn new(seed: u64, spans: Option<usize>) -> World {
        let reserve_bytes = spans.map_or(1 << 30, |spans| spans << 16);
        let slab = Slab::new(Config { reserve_bytes, huge_pages: false, ..Config::default() }).unwrap();
        World {
            slab,
            table: Table::new(seed),
            hashes: Hashes(vec![0]),
            free: Vec::new(),
            live: Vec::new(),
            deferred: HashSet::new(),
            views: Vec::new(),
            closed: Vec::new(),
            ids: 0,
            lost: 0,
            finished: 0,
        }
    }

    fn handle(&mut self, hash: u64) -> Handle {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.hashes.0.push(0);
            Handle::from_bits(u32::try_from(self.hashes.0.len() - 1).unwrap())
        });
        self.hashes.0[handle.bits() as usize] = hash;
        handle
    }

    fn hash(&self, handle: Handle) -> u64 {
        self.hashes.0[handle.bits() as usize]
    }

    fn forget(&mut self, handle: Handle) {
        let to_come = |opened: &Opened| opened.left.contains(&handle) && !self.table.is_lost(&opened.view);
        assert!(!self.views.iter().any(to_come), "a view is still to come to {handle:?}");
        self.hashes.0[handle.bits() as usize] = 0;
        self.free.push(handle);
    }

    fn insert(&mut self, hash: u64) -> bool {
        let handle = self.handle(hash);
        match self.table.insert(&mut self.slab, &self.hashes, hash, handle) {
            Ok(_) => self.live.push(handle),
            Err(_) => self.forget(handle),
        }
        self.live.last() == Some(&handle)
    }

    /// What its owner does with an entry that has left the table.
    fn part(&mut self, hash: u64, handle: Handle) {
        if self.table.defer(&self.slab, hash, handle, || ENTRY_BYTES) {
            assert!(self.deferred.insert(handle));
        } else {
            self.forget(handle);
        }
    }

    fn remove(&mut self, index: usize) {
        let handle = self.live.swap_remove(index);
        let hash = self.hash(handle);
        let slot = self.table.find_handle(&self.slab, hash, handle).expect("it was inserted");
        assert_eq!(self.table.remove(&mut self.slab, hash, slot), handle);
        self.part(hash, handle);
    }

    fn replace(&mut self, index: usize) {
        let old = self.live[index];
        let hash = self.hash(old);
        let seen = self.table.is_seen(&self.slab, hash, old);
        let must = self.views.iter().any(|opened| opened.left.contains(&old) && !self.table.is_lost(&opened.view));
        let may = self.views.iter().map(|opened| &opened.all).chain(&self.closed).any(|all| all.contains(&old));
        assert!(seen || !must, "{old:?} would be changed under a view");
        assert!(may || !seen, "{old:?} came after all views");
        let new = self.handle(hash);
        let slot = self.table.find_handle(&self.slab, hash, old).unwrap();
        self.live[index] = new;
        if seen {
            self.table.replace_seen(&mut self.slab, hash, slot, new);
            self.part(hash, old);
        } else {
            self.table.replace(slot, new);
            self.forget(old);
        }
    }

    fn open(&mut self) {
        self.ids += 1;
        let all: HashSet<Handle> = self.live.iter().copied().collect();
        let used = self.slab.used_bytes();
        let view = self.table.open_view(self.ids);
        assert_eq!(self.slab.used_bytes(), used, "opening keeps nothing yet");
        self.views.push(Opened { view, left: all.clone(), all, done: false });
    }

    /// So many steps of a view; it is closed when memory was too short for it.
    fn read(&mut self, index: usize, steps: usize) {
        let Opened { view, left, done, .. } = &mut self.views[index];
        for _ in 0..steps {
            let mut seen = Vec::new();
            match self.table.view_next(&self.slab, view, |handle| seen.push(handle)) {
                Ok(more) => {
                    assert!(!*done || !more);
                    *done = !more;
                }
                Err(ViewLost) => {
                    self.lost += 1;
                    return self.close(index);
                }
            }
            assert!(seen.len() <= 12);
            for handle in seen {
                assert!(left.remove(&handle), "{handle:?} is shown twice, or was not there");
            }
            if *done {
                assert!(left.is_empty(), "{} entries are missing", left.len());
                self.finished += 1;
                break;
            }
        }
    }

    fn close(&mut self, index: usize) {
        let Opened { view, all, .. } = self.views.swap_remove(index);
        assert!(self.table.has_view(&view));
        self.table.close_view(view);
        self.closed.push(all);
    }

    fn release(&mut self, budget: usize) -> bool {
        let mut freed = Vec::new();
        let more = self.table.release_views(&mut self.slab, budget, |_, handle| freed.push(handle));
        assert!(freed.len() <= budget);
        for handle in freed {
            assert!(self.deferred.remove(&handle), "freed, but not deferred");
            self.forget(handle);
        }
        if !more {
            self.closed.clear();
        }
        more
    }

    fn check(&self) {
        self.table.verify(&self.slab, &self.hashes);
        assert_eq!(self.table.len(), self.live.len());
        let of_views: usize = self.views.iter().map(|opened| self.table.view_bytes(&opened.view)).sum();
        let kept = self.table.kept_bytes();
        assert!(of_views <= kept && kept >= self.deferred.len() * usize::try_from(ENTRY_BYTES).unwrap());
        let in_slab =
            kept - self.table.views_heap_bytes() - self.deferred.len() * usize::try_from(ENTRY_BYTES).unwrap();
        let bare = self.table.table_bytes() - kept - self.table.directory.heap_bytes();
        assert_eq!(self.slab.used_bytes(), (bare + in_slab) as u64, "all memory is the table's or kept");
    }

    fn finish(mut self) {
        self.check();
        while !self.views.is_empty() {
            if self.ids.is_multiple_of(2) {
                self.read(self.views.len() - 1, usize::MAX);
            }
            if let Some(last) = self.views.len().checked_sub(1) {
                self.close(last);
            }
        }
        while self.release(7) {}
        self.check();
        assert!(self.deferred.is_empty() && !self.table.has_views() && self.table.kept_bytes() == 0);
        if self.ids.is_multiple_of(3) {
            while self.table.drain(&mut self.slab, 100, |_, _| {}) {}
        } else {
            while !self.live.is_empty() {
                self.remove(self.live.len() - 1);
            }
            while self.table.maintain(&mut self.slab, &self.hashes, 8) {}
        }
        assert_eq!(self.slab.used_bytes(), 0);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32),
    Remove(u32),
    /// Removes all whose prefix lies in this sixteenth.
    RemoveRange(u8),
    Replace(u32),
    Maintain(u8),
    Open,
    Read(usize, usize),
    Close(usize),
    Release(usize),
    /// Takes the table apart and goes on with a new one, as FLUSHALL does.
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (1u32..700).prop_map(Op::Insert),
        4 => (1u32..700).prop_map(Op::Remove),
        1 => (0u8..16).prop_map(Op::RemoveRange),
        3 => (1u32..300).prop_map(Op::Replace),
        4 => any::<u8>().prop_map(Op::Maintain),
        4 => Just(Op::Open),
        5 => (any::<usize>(), prop_oneof![1usize..20, 20usize..400, Just(usize::MAX)]).prop_map(|(v, n)| Op::Read(v, n)),
        2 => any::<usize>().prop_map(Op::Close),
        4 => (0usize..600).prop_map(Op::Release),
        1 => Just(Op::Clear),
    ]
}

fn run(seed: u64, shape: Shape, ops: &[Op], spans: Option<usize>) -> (usize, usize) {
    let mut world = World::new(seed, spans);
    let mut n = seed & 0xffff;
    while spans.is_some() && n < (seed & 0xffff) + 20_000 && world.insert(shape.hash(n) | 1) {
        n += 1;
    }
    for (step, op) in ops.iter().enumerate() {
        let live = u32::try_from(world.live.len()).unwrap();
        match *op {
            Op::Insert(count) => {
                for _ in 0..count {
                    n += 1;
                    world.insert(shape.hash(n) | 1);
                }
            }
            Op::Remove(count) => {
                for _ in 0..count.min(live) {
                    n += 1;
                    world.remove(usize::try_from(mix(n)).unwrap() % world.live.len());
                }
            }
            Op::RemoveRange(part) => {
                for index in (0..world.live.len()).rev() {
                    if world.hash(world.live[index]) >> 60 == u64::from(part) {
                        world.remove(index);
                    }
                }
            }
            Op::Replace(count) => {
                for _ in 0..count.min(live) {
                    n += 1;
                    world.replace(usize::try_from(mix(n)).unwrap() % world.live.len());
                }
            }
            Op::Maintain(budget) => {
                world.table.maintain(&mut world.slab, &world.hashes, usize::from(budget));
            }
            Op::Open if world.views.len() < 6 => world.open(),
            Op::Read(view, steps) if !world.views.is_empty() => world.read(view % world.views.len(), steps),
            Op::Close(view) if !world.views.is_empty() => world.close(view % world.views.len()),
            Op::Release(budget) => {
                world.release(budget);
            }
            Op::Clear => {
                for index in (0..world.live.len()).rev() {
                    world.remove(index);
                }
                world.table.maintain(&mut world.slab, &world.hashes, 255);
            }
            Op::Open | Op::Read(..) | Op::Close(_) => {}
        }
        if step % 4 == 0 {
            world.check();
        }
    }
    let counts = (world.finished, world.lost);
    world.finish();
    counts
}

fn programs(spans: Option<usize>) -> (usize, usize) {
    // Where memory is short each insert tries in vain to grow its segment.
    let cases = if spans.is_some() { 10 } else { 64 };
    let config =
        ProptestConfig { cases, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let program = (any::<u64>(), shape(), proptest::collection::vec(op(), 1..60));
    let counts = std::cell::Cell::new((0, 0));
    runner
        .run(&program, |(seed, shape, ops)| {
            let (finished, lost) = run(seed, shape, &ops, spans);
            counts.set((counts.get().0 + finished, counts.get().1 + lost));
            Ok(())
        })
        .unwrap();
    counts.get()
}

#[test]
fn views_show_what_was_there() {
    let (finished, lost) = programs(None);
    assert!(finished > 0);
    assert_eq!(lost, 0);
}

#[test]
fn a_view_is_lost_rather_than_wrong_when_memory_is_short() {
    programs(Some(20));
    // And for certain: all memory is used up when two views are opened, one of which has gone past what changes then.
    let mut world = World::new(4, Some(20));
    let mut n = 0;
    while world.insert(mix(n) | 1) {
        n += 1;
    }
    world.open();
    world.open();
    world.read(1, usize::MAX);
    let mut changed = 0;
    while !world.table.is_lost(&world.views[0].view) {
        world.replace(changed);
        changed += 1;
    }
    assert!(changed > 0 && !world.table.is_lost(&world.views[1].view));
    world.read(0, 1);
    assert_eq!((world.finished, world.lost, world.views.len()), (1, 1, 1));
    world.finish();
}

/// What a view keeps is what has changed ahead of it, whatever the size of the table, and all of it is free when it has gone by.
#[test]
fn a_view_keeps_what_changes_ahead_of_it() {
    const ENTRIES: u64 = 200_000;
    let mut world = World::new(1, None);
    for n in 0..ENTRIES {
        world.insert(mix(n) | 1);
        world.table.maintain(&mut world.slab, &world.hashes, 1);
    }
    while world.table.maintain(&mut world.slab, &world.hashes, 8) {}
    world.open();
    assert_eq!(world.table.view_bytes(&world.views[0].view), 0);
    world.replace(77);
    let one = world.table.view_bytes(&world.views[0].view);
    assert!((1000..5000).contains(&one), "{one} bytes for one entry and its segment");
    // A tenth of the entries: every segment has some, so all are kept, and the entries.
    for index in 0..20_000 {
        world.replace(index);
    }
    let many = world.table.view_bytes(&world.views[0].view);
    assert!(many < 3_500_000, "{many}");
    world.read(0, 3);
    let begun = world.table.view_bytes(&world.views[0].view);
    assert!(begun <= many);
    while !world.views[0].done {
        let before = world.table.view_bytes(&world.views[0].view);
        world.read(0, 400);
        while world.release(500) {}
        assert!(world.table.view_bytes(&world.views[0].view) < before.max(1));
    }
    // Nothing is kept for a view that has seen it all.
    assert_eq!(world.table.kept_bytes(), 0);
    world.replace(77);
    assert_eq!(world.table.kept_bytes(), 0);
    world.finish();
}

/// Closing costs the same whatever is kept; the frees come in slices as large as was asked for.
#[test]
fn closing_frees_in_slices() {
    let mut world = World::new(2, None);
    for n in 0..50_000 {
        world.insert(mix(n) | 1);
    }
    world.open();
    for index in 0..50_000 {
        world.replace(index);
    }
    world.open();
    for index in 0..50_000 {
        world.replace(index);
    }
    assert_eq!(world.deferred.len(), 100_000);
    let kept = world.table.kept_bytes();
    world.close(1);
    world.close(0);
    assert_eq!(world.table.kept_bytes(), kept);
    let mut slices = 0;
    while world.release(100) {
        slices += 1;
    }
    assert!(slices >= 1000, "{slices}");
    world.finish();
}
