//! Model tests: a `HashMap` of handles beside the table, `verify` after every phase.

use super::{Entries, Table};
use dolmen_slab::{AllocError, Config, Handle, Kind, Slab, Slice};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config as ProptestConfig, TestRunner};
use std::collections::{HashMap, HashSet};

/// Entries without memory: handle `i + 1` has the hash `0[i]`.
#[derive(Default)]
struct Hashes(Vec<u64>);

impl Hashes {
    fn add(&mut self, hash: u64) -> Handle {
        self.0.push(hash);
        Handle::from_bits(u32::try_from(self.0.len()).unwrap())
    }
}

impl Entries for Hashes {
    fn hash(&self, _: &Slab, h: Handle) -> u64 {
        self.0[h.bits() as usize - 1]
    }
}

fn slab() -> Slab {
    Slab::new(Config { reserve_bytes: 1 << 30, ..Config::default() }).unwrap()
}

pub(super) fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

/// A table, what it should hold, and the slab.
struct Pair {
    slab: Slab,
    table: Table,
    hashes: Hashes,
    live: Vec<Handle>,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        Pair { slab: slab(), table: Table::new(seed), hashes: Hashes::default(), live: Vec::new() }
    }

    fn insert(&mut self, hash: u64) -> Result<Handle, AllocError> {
        let handle = self.hashes.add(hash);
        let slot = self.table.insert(&mut self.slab, &self.hashes, hash, handle)?;
        assert_eq!(self.table.handle(slot), handle);
        self.live.push(handle);
        Ok(handle)
    }

    fn hash_of(&self, handle: Handle) -> u64 {
        self.hashes.hash(&self.slab, handle)
    }

    fn remove(&mut self, index: usize) {
        let handle = self.live.swap_remove(index);
        let hash = self.hash_of(handle);
        let slot = self.table.find(&self.slab, hash, |other| other == handle).expect("it was inserted");
        assert_eq!(self.table.remove(&mut self.slab, hash, slot), handle);
        assert!(self.table.find_handle(&self.slab, hash, handle).is_none());
    }

    fn maintain(&mut self, budget: usize) -> bool {
        self.table.maintain(&mut self.slab, &self.hashes, budget)
    }

    fn relocate(&mut self, cursor: u64, slice: &mut Slice) -> Option<u64> {
        self.table.relocate(&mut self.slab, &self.hashes, cursor, slice, |_, _, _| None)
    }

    /// Maintains to the end; a bound on the work shows that it ends.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if !self.maintain(8) {
                return;
            }
        }
        panic!("maintenance does not end");
    }

    fn verify(&self) {
        self.table.verify(&self.slab, &self.hashes);
        assert_eq!(self.table.len(), self.live.len());
        for &handle in &self.live {
            assert!(self.table.find_handle(&self.slab, self.hash_of(handle), handle).is_some());
        }
    }

    fn scan_all(&self) -> Vec<Handle> {
        let (mut seen, mut cursor) = (Vec::new(), 0);
        loop {
            let next = self.table.scan(&self.slab, &self.hashes, cursor, |handle| seen.push(handle));
            if next == 0 {
                return seen;
            }
            assert!(next > cursor);
            cursor = next;
        }
    }

    /// One complete walk yields each entry exactly once while nothing changes.
    fn verify_scan(&self) {
        let mut seen = self.scan_all();
        let mut live = self.live.clone();
        seen.sort_unstable();
        live.sort_unstable();
        assert_eq!(seen, live);
    }

    fn drain(&mut self, budget: usize) {
        let mut freed = Vec::new();
        while self.table.drain(&mut self.slab, budget, |_, handle| freed.push(handle)) {
            assert!(self.table.is_empty());
            assert_eq!(self.table.draining() + freed.len(), self.live.len());
        }
        assert_eq!(self.table.draining(), 0);
        freed.sort_unstable();
        self.live.sort_unstable();
        assert_eq!(freed, self.live);
        self.live.clear();
        assert_eq!(self.slab.used_bytes(), 0);
        assert_eq!(self.table.table_bytes(), 0);
    }
}

/// How hashes are made of random words: from well spread to as bad as it gets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Spread,
    /// All equal.
    Constant,
    /// Only the lower half differs.
    SamePrefix,
    /// The top bits agree, the ones below are spread.
    SameTop(u32),
    /// Only a few of the top bits differ.
    FewBits,
    /// Ascending in steps of one prefix.
    Sequential,
}

impl Shape {
    pub(super) fn hash(self, n: u64) -> u64 {
        let spread = mix(n);
        match self {
            Shape::Spread => spread,
            Shape::Constant => 0x1234_5678_9abc_def0,
            Shape::SamePrefix => 0xffff_ffff_0000_0000 | spread >> 32,
            Shape::SameTop(bits) => (spread >> bits) | 0x5a5a_5a5a_0000_0000 >> (64 - bits) << (64 - bits),
            Shape::FewBits => spread & 0x0f00_0300_0000_0000,
            Shape::Sequential => n << 32,
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// So many inserts.
    Insert(u32),
    /// So many removes, from random places.
    Remove(u32),
    /// Removes all whose prefix lies in this sixteenth.
    RemoveRange(u8),
    Maintain(u8),
    Replace(u32),
    Scan,
    /// A sweep goes on, so many slices; 0: another one begins.
    Relocate(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1u32..900).prop_map(Op::Insert),
        3 => (1u32..900).prop_map(Op::Remove),
        1 => (0u8..16).prop_map(Op::RemoveRange),
        3 => any::<u8>().prop_map(Op::Maintain),
        1 => (1u32..50).prop_map(Op::Replace),
        1 => Just(Op::Scan),
        2 => (0u8..20).prop_map(Op::Relocate),
    ]
}

pub(super) fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        4 => Just(Shape::Spread),
        1 => Just(Shape::Constant),
        1 => Just(Shape::SamePrefix),
        2 => (1u32..32).prop_map(Shape::SameTop),
        1 => Just(Shape::FewBits),
        1 => Just(Shape::Sequential),
    ]
}

fn run_program(seed: u64, shape: Shape, ops: &[Op]) {
    let mut pair = Pair::new(seed);
    let (mut n, mut cursor) = (seed & 0xffff, 0);
    for op in ops {
        match *op {
            Op::Insert(count) => {
                for _ in 0..count {
                    n += 1;
                    if pair.insert(shape.hash(n)).is_err() {
                        assert!(pair.live.len() >= 3072, "refused at {} entries", pair.live.len());
                    }
                }
            }
            Op::Remove(count) => {
                for _ in 0..count.min(u32::try_from(pair.live.len()).unwrap()) {
                    n += 1;
                    let index = usize::try_from(mix(n)).unwrap() % pair.live.len();
                    pair.remove(index);
                }
            }
            Op::RemoveRange(part) => {
                for index in (0..pair.live.len()).rev() {
                    if pair.hash_of(pair.live[index]) >> 60 == u64::from(part) {
                        pair.remove(index);
                    }
                }
            }
            Op::Maintain(budget) => {
                pair.maintain(usize::from(budget));
            }
            Op::Replace(count) => {
                for _ in 0..count.min(u32::try_from(pair.live.len()).unwrap()) {
                    n += 1;
                    let index = usize::try_from(mix(n)).unwrap() % pair.live.len();
                    let (old, hash) = (pair.live[index], pair.hash_of(pair.live[index]));
                    let slot = pair.table.find_handle(&pair.slab, hash, old).unwrap();
                    let new = pair.hashes.add(hash);
                    pair.table.replace(slot, new);
                    assert_eq!(pair.table.handle(slot), new);
                    pair.live[index] = new;
                }
            }
            Op::Scan => pair.verify_scan(),
            Op::Relocate(0) => {
                while pair.slab.unseal(1) {}
                pair.slab.seal_all();
                cursor = 0;
            }
            Op::Relocate(slices) => {
                for _ in 0..slices {
                    let mut slice = Slice::new(40, 3000);
                    cursor = pair.relocate(cursor, &mut slice).unwrap_or(0);
                }
                pair.verify();
            }
        }
        assert_eq!(pair.table.len(), pair.live.len());
    }
    pair.verify();
    pair.settle();
    pair.verify();
    pair.verify_scan();
    // A sweep reaches all the memory there is.
    while pair.slab.unseal(1) {}
    pair.slab.seal_all();
    let mut next = Some(0);
    while let Some(cursor) = next {
        next = pair.relocate(cursor, &mut Slice::new(40, 3000));
    }
    assert!(!pair.slab.unseal(0));
    pair.verify();
    pair.verify_scan();
    if seed & 1 == 0 {
        pair.drain(100);
    } else {
        while !pair.live.is_empty() {
            pair.remove(pair.live.len() - 1);
        }
        pair.settle();
        pair.verify();
        assert_eq!(pair.slab.used_bytes(), 0, "an empty table has no memory");
    }
    // And it can be used again.
    pair.insert(1).unwrap();
    pair.verify();
}

#[test]
fn programs_agree_with_the_model() {
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() });
    runner
        .run(&(any::<u64>(), shape(), proptest::collection::vec(op(), 1..24)), |(seed, shape, ops)| {
            run_program(seed, shape, &ops);
            Ok(())
        })
        .unwrap();
}

#[test]
fn deep_directory_grows_and_goes() {
    // Enough for pages to split and the root to double with segments as small as the depth limit makes them.
    let mut pair = Pair::new(7);
    for n in 0..60_000 {
        pair.insert(Shape::SameTop(16).hash(n)).unwrap();
        if n % 64 == 0 {
            pair.maintain(4);
        }
    }
    pair.verify();
    pair.verify_scan();
    assert!(pair.table.directory.root().len() > 1, "the root doubled");
    while pair.live.len() > 10 {
        pair.remove(pair.live.len() / 2);
        if pair.live.len().is_multiple_of(64) {
            pair.maintain(2);
        }
    }
    pair.settle();
    pair.verify();
    assert!(pair.table.table_bytes() < 1000, "{} bytes for 10 entries", pair.table.table_bytes());
    pair.drain(1);
}

#[test]
fn colliding_hashes_are_refused_when_a_segment_is_full_to_the_last_slot() {
    for shape in [Shape::Constant, Shape::SamePrefix] {
        let mut pair = Pair::new(1);
        let mut n = 0;
        let error = loop {
            n += 1;
            match pair.insert(shape.hash(n)) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(pair.live.len(), 3072);
        assert!(error.requested_bytes > dolmen_slab::CHUNK_BYTES_MAX);
        pair.verify();
        pair.verify_scan();
        // Others still find room, and room made is room to use.
        pair.insert(7).unwrap();
        pair.remove(100);
        pair.insert(shape.hash(0)).unwrap();
        assert!(pair.table.table_bytes() < 128 << 10, "{} bytes", pair.table.table_bytes());
        pair.settle();
        pair.verify();
        pair.drain(1000);
    }
}

#[test]
fn find_prefix_visits_all_candidates() {
    let mut pair = Pair::new(3);
    for n in 0..20_000 {
        pair.insert(Shape::Spread.hash(n)).unwrap();
        // Two with the same prefix.
        pair.insert(Shape::Spread.hash(n) ^ 1).unwrap();
    }
    let mut visited = 0;
    for n in 0..20_000 {
        let prefix = super::top(Shape::Spread.hash(n));
        let mut hits = HashSet::new();
        pair.table.find_prefix(&pair.slab, prefix, |handle, slot| {
            visited += 1;
            assert_eq!(pair.table.handle(slot), handle);
            if super::top(pair.hash_of(handle)) == prefix {
                assert!(hits.insert(handle));
            }
        });
        assert!(hits.len() >= 2);
    }
    assert!(visited < 45_000, "tags leave few false candidates: {visited}");
}

#[test]
fn scan_returns_what_stays_whatever_else_happens() {
    for seed in 0..12 {
        let mut pair = Pair::new(seed);
        let mut n = seed << 40;
        let mut random = move || {
            n += 1;
            mix(n)
        };
        let start = [30u64, 2_000, 40_000][usize::try_from(seed % 3).unwrap()];
        for _ in 0..start {
            pair.insert(random()).unwrap();
        }
        pair.settle();
        // Every third stays; the walk is interleaved with growth in some seeds, shrinking in others, and both.
        let stays: HashSet<Handle> = pair.live.iter().copied().step_by(3).collect();
        let (mut keep, mut rest): (Vec<Handle>, Vec<Handle>) =
            pair.live.iter().partition(|&handle| stays.contains(handle));
        let mut seen: HashMap<Handle, u32> = HashMap::new();
        let (mut cursor, mut steps) = (0, 0u64);
        loop {
            let next =
                pair.table.scan(&pair.slab, &pair.hashes, cursor, |handle| *seen.entry(handle).or_default() += 1);
            assert!(next == 0 || next > cursor);
            cursor = next;
            if cursor == 0 {
                break;
            }
            steps += 1;
            let phase = (steps / 64 + seed) % 3;
            for _ in 0..8 {
                if phase == 0 {
                    pair.insert(random()).unwrap();
                    rest.push(*pair.live.last().unwrap());
                } else if phase == 1 && !rest.is_empty() {
                    let handle = rest.swap_remove(usize::try_from(random()).unwrap() % rest.len());
                    let hash = pair.hash_of(handle);
                    let slot = pair.table.find_handle(&pair.slab, hash, handle).unwrap();
                    pair.table.remove(&mut pair.slab, hash, slot);
                }
            }
            pair.maintain(3);
        }
        keep.retain(|handle| !seen.contains_key(handle));
        assert!(keep.is_empty(), "seed {seed}: {} of {} that stayed were not returned", keep.len(), stays.len());
        pair.live = stays.iter().copied().chain(rest).collect();
        pair.verify();
    }
}

#[test]
fn scan_takes_any_cursor() {
    let mut pair = Pair::new(5);
    assert_eq!(pair.table.scan(&pair.slab, &pair.hashes, 0, |_| panic!("empty")), 0);
    for n in 0..1_000 {
        pair.insert(mix(n)).unwrap();
    }
    for cursor in [1, 77, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        let next = pair.table.scan(&pair.slab, &pair.hashes, cursor, |_| {});
        assert!(next == 0 || next > cursor);
    }
}

/// Chi-square over all entries, at 40 draws each, within five standard deviations of what uniform draws give.
fn assert_uniform(pair: &Pair) {
    let draws = 40 * pair.live.len();
    let mut n = 99;
    let mut hits: HashMap<Handle, u32> = pair.live.iter().map(|&handle| (handle, 0)).collect();
    for _ in 0..draws {
        let handle = pair.table.random(&pair.slab, || {
            n += 1;
            mix(n)
        });
        *hits.get_mut(&handle.unwrap()).expect("a live entry") += 1;
    }
    let chi: f64 = hits.values().map(|&hits| (f64::from(hits) - 40.0).powi(2) / 40.0).sum();
    let freedom = (pair.live.len() - 1) as f64;
    let deviation = (chi - freedom) / (2.0 * freedom).sqrt().max(1.0);
    assert!(deviation.abs() < 5.0, "{} entries: chi-square {chi} is {deviation} deviations off", pair.live.len());
}

#[test]
fn random_is_uniform() {
    let pair = Pair::new(1);
    assert_eq!(pair.table.random(&pair.slab, || 1), None);
    for (count, shape) in [
        (1, Shape::Spread),
        (13, Shape::Spread),
        (700, Shape::Spread),
        (10_000, Shape::Spread),
        (500, Shape::Constant),
        (3_000, Shape::SameTop(9)),
        (3_000, Shape::FewBits),
    ] {
        let mut pair = Pair::new(count);
        for n in 0..count {
            pair.insert(shape.hash(n)).unwrap();
        }
        // Half of them with maintenance still due.
        if count % 2 == 0 {
            pair.settle();
        }
        assert_uniform(&pair);
    }
    // Just emptied, before and after maintenance: few entries in many large segments, all in one part of the table.
    let mut pair = Pair::new(2);
    for n in 0..30_000 {
        pair.insert(Shape::Spread.hash(n)).unwrap();
    }
    for index in (0..pair.live.len()).rev() {
        if pair.hash_of(pair.live[index]) >> 56 != 0x42 {
            pair.remove(index);
        }
    }
    assert!(pair.live.len() > 50);
    assert_uniform(&pair);
    pair.settle();
    pair.verify();
    assert_uniform(&pair);
}

#[test]
fn mass_deletion_gives_memory_back() {
    let mut pair = Pair::new(11);
    for n in 0..200_000 {
        pair.insert(mix(n)).unwrap();
        if n % 256 == 0 {
            pair.maintain(8);
        }
    }
    pair.settle();
    let full_bytes = pair.table.table_bytes();
    // All at once, so that the queue runs over and the sweep has to find the rest.
    while pair.live.len() > 5_000 {
        pair.remove(pair.live.len() - 1);
    }
    assert_eq!(pair.table.table_bytes(), full_bytes, "a remove pays for nothing");
    pair.settle();
    pair.verify();
    let per_entry = pair.table.table_bytes() as f64 / 5_000.0;
    assert!(per_entry < 64.0 / 12.0 * 3.2, "{per_entry} bytes an entry after shrinking");
    while !pair.live.is_empty() {
        pair.remove(pair.live.len() - 1);
    }
    pair.settle();
    assert_eq!(pair.slab.used_bytes(), 0);
    assert_eq!(pair.table.table_bytes(), 0);
}

/// The target of the memory table: at most 9 bytes of table an entry at any size.
#[test]
fn nine_bytes_an_entry() {
    for (seed, entries) in [(0, 1_000_000u64), (1, 250_000)] {
        let mut pair = Pair::new(seed);
        let (mut worst, mut sum, mut samples) = (0.0f64, 0.0, 0);
        for n in 0..entries {
            pair.insert(mix(n ^ seed << 32)).unwrap();
            if n % 100 == 0 {
                pair.maintain(16);
            }
            if n >= 100_000 && n % 5_000 == 0 {
                let per_entry = pair.slab.used_bytes() as f64 / n as f64;
                worst = worst.max(per_entry);
                sum += per_entry;
                samples += 1;
            }
        }
        let mean = sum / f64::from(samples);
        assert!(worst <= 9.0 && mean <= 7.5, "seed {seed}: mean {mean:.2}, worst {worst:.2} bytes an entry");
    }
}

#[test]
fn eviction_bits_follow_their_entry() {
    let mut pair = Pair::new(4);
    for n in 0..3_000 {
        let handle = pair.insert(mix(n)).unwrap();
        if n % 2 == 0 {
            let slot = pair.table.find_handle(&pair.slab, mix(n), handle).unwrap();
            assert_eq!(slot.eviction(), 0);
            pair.table.touch(slot);
            pair.table.touch(slot);
        }
        pair.maintain(1);
    }
    for (n, &handle) in (0..).zip(&pair.live) {
        let slot = pair.table.find_handle(&pair.slab, mix(n), handle).unwrap();
        assert_eq!(slot.eviction(), if n % 2 == 0 { 3 } else { 0 }, "entry {n}");
    }
    pair.verify();
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a slot was kept across a change")]
fn debug_builds_notice_a_stale_slot() {
    let mut pair = Pair::new(4);
    let handle = pair.insert(1).unwrap();
    let slot = pair.table.find_handle(&pair.slab, 1, handle).unwrap();
    pair.insert(2).unwrap();
    pair.table.replace(slot, handle);
}

#[test]
fn prefetches_are_only_hints() {
    let mut pair = Pair::new(4);
    pair.table.prefetch(&pair.slab, 1);
    pair.table.prefetch_entries(&pair.slab, 1);
    for n in 0..5_000 {
        pair.insert(mix(n)).unwrap();
        pair.table.prefetch(&pair.slab, mix(n ^ 1));
        pair.table.prefetch_entries(&pair.slab, mix(n ^ 1));
    }
    pair.verify();
}

#[test]
fn a_full_slab_is_an_error_and_nothing_else() {
    // Room for some segments only: growth fails, inserts go on until a segment is full to the last slot.
    let mut pair = Pair::new(9);
    pair.slab = Slab::new(Config { reserve_bytes: 2 << 20, ..Config::default() }).unwrap();
    let mut refused = 0;
    for n in 0..1_000_000 {
        if pair.insert(mix(n)).is_err() {
            refused += 1;
        }
        if n % 50 == 0 {
            pair.maintain(4);
        }
        if refused == 300 {
            break;
        }
    }
    assert!(refused == 300 && pair.live.len() > 1_000, "{refused} refused, {} in", pair.live.len());
    pair.verify();
    pair.verify_scan();
    while !pair.live.is_empty() {
        pair.remove(pair.live.len() - 1);
    }
    for _ in 0..10_000 {
        pair.maintain(4);
    }
    pair.verify();
}

/// The table's memory and that of its entries go together.
#[test]
fn drain_frees_entries_with_the_table() {
    struct Items;
    impl Entries for Items {
        fn hash(&self, _: &Slab, h: Handle) -> u64 {
            mix(u64::from(h.bits()))
        }
    }
    let (mut slab, mut table) = (slab(), Table::new(1));
    for _ in 0..10_000 {
        let item = slab.alloc(32, Kind::Item).unwrap();
        table.insert(&mut slab, &Items, mix(u64::from(item.bits())), item).unwrap();
    }
    let before = slab.used_bytes();
    let mut slices = 0;
    let mut freed = Vec::new();
    while table.drain(&mut slab, 64, |_, item| freed.push(item)) {
        slices += 1;
        assert_eq!(table.len(), 0);
        if slices == 10 {
            // Meanwhile the table is in use again.
            let item = slab.alloc(32, Kind::Item).unwrap();
            table.insert(&mut slab, &Items, mix(u64::from(item.bits())), item).unwrap();
            assert_eq!(table.len(), 1);
            let slot = table.find_handle(&slab, mix(u64::from(item.bits())), item).unwrap();
            table.remove(&mut slab, mix(u64::from(item.bits())), slot);
        }
    }
    assert!(slices >= 10_000 / (64 + 12));
    assert_eq!(freed.len(), 10_000);
    assert!(before > 320_000);
    // The one inserted meanwhile was removed by us.
    assert_eq!(slab.used_bytes(), 32 * 10_001);
}
