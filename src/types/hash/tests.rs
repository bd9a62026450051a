//! Hashes against a map: programs of changes with several views open, in both forms, with much memory and with little.

use super::{DEADLINE_MAX_MS, FIELDS_MAX, Field, Hash, Lifetime, SMALL_BYTES_MAX, View, memory};
use crate::base::entry::Entries;
use crate::base::rng::Rng;
use crate::types::sweeps::{Sweep, pack};
use crate::types::{Body, Container, Edit, Form, Limits, Look, Memory, Span};
use dolmen_slab::{AllocError, CHUNK_BYTES_MAX, Config, Slab};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config as ProptestConfig, TestRunner};
use std::collections::{BTreeMap, HashMap};

/// A field with its value and deadline.
type Element = (Vec<u8>, (Vec<u8>, u64));
type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
const SEED: u64 = 77;

struct Opened {
    view: View,
    left: Model,
    done: bool,
}

struct World {
    slab: Slab,
    body: Body<Hash>,
    model: Model,
    views: Vec<Opened>,
    now_ms: u64,
    limits: Limits,
    exceeded: bool,
    timed: bool,
    refused: usize,
    lost: usize,
    /// Blobs share memory with their duplicates, and each counts all of it.
    has_blobs: bool,
    sweep: Sweep,
    /// There is memory for whatever is moved.
    is_roomy: bool,
}

fn bytes_of(field: Field<'_>, slab: &Slab) -> Element {
    let (mut name, mut value) = (Vec::new(), Vec::new());
    field.name.append(slab, &mut name);
    field.value.append(slab, &mut value);
    assert_eq!((field.name.len(slab), field.value.len(slab)), (name.len(), value.len()));
    (name, (value, field.deadline_ms))
}

fn elements(run: &[u8]) -> Vec<Element> {
    let texts: Vec<Vec<u8>> = Entries::new(run).map(|entry| entry.to_vec()).collect();
    let deadline = |text: &[u8]| std::str::from_utf8(text).unwrap().parse().unwrap();
    texts.chunks(3).map(|field| (field[0].clone(), (field[1].clone(), deadline(&field[2])))).collect()
}

impl World {
    fn new(spans: Option<usize>) -> World {
        let reserve_bytes = spans.map_or(1 << 30, |spans| spans << 16);
        let slab = Slab::new(Config { reserve_bytes, huge_pages: false, ..Config::default() }).unwrap();
        World {
            slab,
            body: Body::default(),
            model: Model::new(),
            views: Vec::new(),
            now_ms: 1_000_000,
            limits: Limits { hash_max_listpack_entries: 6, hash_max_listpack_value: 64, ..Limits::default() },
            exceeded: false,
            timed: false,
            refused: 0,
            lost: 0,
            has_blobs: false,
            sweep: Sweep::default(),
            is_roomy: spans.is_none(),
        }
    }

    fn edit<T>(&mut self, change: impl FnOnce(&mut Edit<'_, Hash>) -> T) -> T {
        let memory = Memory { slab: &mut self.slab, seed: SEED, limits: self.limits };
        change(&mut Edit { body: &mut self.body, memory })
    }

    fn look(&self) -> Look<'_, Hash> {
        self.body.look(&self.slab)
    }

    fn is_there(&self, name: &[u8]) -> bool {
        self.model.get(name).is_some_and(|(_, deadline)| *deadline == 0 || *deadline > self.now_ms)
    }

    fn set(&mut self, name: &[u8], value: &[u8], lifetime: Lifetime) -> bool {
        let now_ms = self.now_ms;
        self.has_blobs |= name.len() > 8000 || value.len() > 8000;
        match self.edit(|edit| edit.set(name, value, lifetime, now_ms)) {
            Ok(is_new) => {
                assert_eq!(is_new, !self.is_there(name));
                let old_ms = if is_new { 0 } else { self.model[name].1 };
                let deadline_ms = match lifetime {
                    Lifetime::Forever => 0,
                    Lifetime::Keep => old_ms,
                    Lifetime::Until(deadline_ms) => deadline_ms,
                };
                self.model.insert(name.to_vec(), (value.to_vec(), deadline_ms));
                self.exceeded |= self.model.len() > 6 || name.len().max(value.len()) > 64;
                self.timed |= deadline_ms != 0;
                true
            }
            Err(AllocError { .. }) => {
                self.refused += 1;
                false
            }
        }
    }

    fn remove(&mut self, name: &[u8]) {
        let (now_ms, was_there) = (self.now_ms, self.is_there(name));
        assert_eq!(self.edit(|edit| edit.remove(name, now_ms)), was_there);
        self.model.remove(name);
        self.forget_empty();
    }

    /// The owner of an empty hash drops it.
    fn forget_empty(&mut self) {
        if self.model.is_empty() && self.views.is_empty() {
            assert!(self.look().field_count() == 0);
            if let Body::Big(big) = &mut self.body {
                while big.drain(&mut self.slab, 7) {}
            }
            self.body = Body::default();
            (self.exceeded, self.timed) = (false, false);
            assert_eq!(self.slab.used_bytes(), 0);
        }
    }

    fn set_deadline(&mut self, name: &[u8], deadline_ms: u64) {
        let now_ms = self.now_ms;
        match self.edit(|edit| edit.set_deadline(name, deadline_ms, now_ms)) {
            Ok(done) => {
                assert_eq!(done, self.is_there(name));
                if done {
                    self.model.get_mut(name).unwrap().1 = deadline_ms;
                    self.timed |= deadline_ms != 0;
                }
            }
            Err(AllocError { .. }) => self.refused += 1,
        }
    }

    fn expire(&mut self, passed_ms: u64, budget: usize) {
        self.now_ms += passed_ms;
        let now_ms = self.now_ms;
        let due = self.model.values().filter(|(_, deadline)| *deadline != 0 && *deadline <= now_ms).count();
        let expired = self.edit(|edit| edit.expire(now_ms, budget));
        let is_big = matches!(self.body, Body::Big(_));
        assert_eq!(expired, if is_big { due.min(budget) } else { due });
        let left: HashMap<Vec<u8>, u64> =
            self.all().into_iter().map(|(name, (_, deadline))| (name, deadline)).collect();
        let latest = self.model.iter().filter(|(name, _)| !left.contains_key(*name)).map(|(_, (_, ms))| *ms).max();
        self.model.retain(|name, (_, deadline)| {
            let stays = left.contains_key(name);
            assert!(stays || (*deadline != 0 && *deadline <= now_ms));
            assert!(
                !stays || *deadline == 0 || latest.is_none_or(|latest| latest <= *deadline),
                "the earliest go first"
            );
            stays
        });
        assert_eq!(self.model.len(), left.len());
        self.forget_empty();
    }

    fn all(&self) -> Vec<Element> {
        let (mut all, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = self.look().scan(cursor, |field| all.push(bytes_of(field, &self.slab)));
            if cursor == 0 {
                return all;
            }
        }
    }

    fn open(&mut self) {
        let Body::Big(big) = &mut self.body else { return };
        let view = big.open_view(&self.slab, Span::default());
        self.views.push(Opened { view, left: self.model.clone(), done: false });
    }

    fn read(&mut self, index: usize, budget_bytes: usize) {
        let Body::Big(big) = &mut self.body else { return };
        let Opened { view, left, done } = &mut self.views[index];
        let mut run = Vec::new();
        match big.view_next(&self.slab, view, &mut run, budget_bytes) {
            Ok(more) => {
                assert!(!more || run.len() >= budget_bytes);
                assert!(!*done || !more);
                *done = !more;
                for (name, field) in elements(&run) {
                    assert_eq!(left.remove(&name), Some(field), "{name:?}");
                }
                assert!(more || left.is_empty());
            }
            Err(_) => {
                self.lost += 1;
                self.close(index);
            }
        }
    }

    fn close(&mut self, index: usize) {
        let Body::Big(big) = &mut self.body else { return };
        big.close_view(self.views.swap_remove(index).view);
        self.forget_empty();
    }

    fn maintain(&mut self, budget: usize) {
        if let Body::Big(big) = &mut self.body {
            let work = big.has_work();
            assert!(!big.maintain(&mut self.slab, budget) || work);
        }
    }

    fn verify(&self) {
        let look = self.look();
        assert_eq!(look.field_count(), self.model.len());
        let all: Model = self.all().into_iter().collect();
        assert_eq!(all, self.model);
        for (name, (value, deadline_ms)) in &self.model {
            let found = look.field(name, self.now_ms).map(|field| bytes_of(field, &self.slab));
            assert_eq!(found, self.is_there(name).then(|| (name.clone(), (value.clone(), *deadline_ms))));
        }
        let earliest = self.model.values().map(|(_, deadline)| *deadline).filter(|deadline| *deadline != 0).min();
        assert_eq!(look.earliest_ms(), earliest.unwrap_or(u64::MAX));
        let encoding = match (self.exceeded, self.timed) {
            (true, _) => "hashtable",
            (false, true) => "listpackex",
            (false, false) => "listpack",
        };
        assert_eq!(Hash::encoding(look, &self.limits), encoding);
        let mut rng = Rng::seeded(1);
        let random = look.random(|| rng.next_u64()).map(|field| bytes_of(field, &self.slab));
        assert_eq!(random.is_none(), self.model.is_empty());
        assert!(random.is_none_or(|(name, field)| self.model[&name] == field));
        match look.form {
            Form::Packed(packed) => {
                assert_eq!(self.slab.used_bytes(), 0);
                let mut run = Vec::new();
                Hash::unpack(packed, Span::default(), &mut run);
                assert_eq!(elements(&run).into_iter().collect::<Model>(), self.model);
                assert!(packed.len() <= SMALL_BYTES_MAX && self.model.len() <= FIELDS_MAX);
            }
            Form::Big(big) => {
                big.timed.verify(&self.slab);
                assert_eq!(big.timed.len(), self.model.values().filter(|(_, deadline)| *deadline != 0).count());
                let slab_bytes = big.bytes() - big.heap_bytes() as u64;
                assert!(
                    slab_bytes == self.slab.used_bytes() || (self.has_blobs && slab_bytes > self.slab.used_bytes())
                );
            }
        }
    }

    fn finish(mut self) -> (usize, usize) {
        while !self.views.is_empty() {
            self.read(0, usize::MAX);
            if self.views.first().is_some_and(|opened| opened.done) {
                self.close(0);
            }
        }
        self.verify();
        if let Body::Big(mut big) = self.body {
            // What views have kept goes first, in slices.
            while big.maintain(&mut self.slab, 3) {}
            if self.is_roomy {
                self.sweep.complete(&mut *big, &mut self.slab);
                big.timed.verify(&self.slab);
            }
            let mut rounds = 0;
            while big.drain(&mut self.slab, 5) {
                rounds += 1;
            }
            assert!(rounds > 0 || self.model.len() <= 5 + 12);
        }
        assert_eq!(self.slab.used_bytes(), 0, "all is free");
        (self.refused, self.lost)
    }
}

/// Bytes that are told briefly when a program fails.
#[derive(Clone)]
struct Text(Vec<u8>);

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {:?}", self.0.len(), String::from_utf8_lossy(&self.0[..self.0.len().min(12)]))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set(Text, Text, Lifetime),
    /// So many fields at once.
    Fill(u16),
    Remove(Text),
    Thin(u16),
    SetDeadline(Text, u64),
    Expire(u64, usize),
    Open,
    Read(usize, usize),
    Close(usize),
    Maintain(usize),
    Seal,
    Pack,
    Relocate(usize, usize),
}

fn name() -> impl Strategy<Value = Text> {
    let name = prop_oneof![
        6 => (0..30i64).prop_map(|n| n.to_string().into_bytes()),
        6 => (0..30u32).prop_map(|n| format!("field:{n:04}").into_bytes()),
        1 => (0..3u8).prop_map(|n| vec![n; 250]),
        1 => (0..2u8).prop_map(|n| vec![n; 9_000]),
        1 => Just(Vec::new()),
    ];
    name.prop_map(Text)
}

fn value() -> impl Strategy<Value = Text> {
    let value = prop_oneof![
        4 => any::<i32>().prop_map(|n| n.to_string().into_bytes()),
        4 => "[a-z]{0,20}".prop_map(String::into_bytes),
        2 => (0..300usize).prop_map(|len| vec![b'v'; len]),
        1 => prop_oneof![Just(8_000), Just(16_300), Just(16_384), Just(40_000)].prop_map(|len| vec![b'V'; len]),
    ];
    value.prop_map(Text)
}

fn deadline() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 8 => 1_000_001..1_000_400u64, 1 => Just(DEADLINE_MAX_MS)]
}

fn lifetime() -> impl Strategy<Value = Lifetime> {
    let until = |ms| if ms == 0 { Lifetime::Forever } else { Lifetime::Until(ms) };
    prop_oneof![3 => Just(Lifetime::Forever), 2 => Just(Lifetime::Keep), 3 => deadline().prop_map(until)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (name(), value(), lifetime()).prop_map(|(name, value, lifetime)| Op::Set(name, value, lifetime)),
        2 => (1..300u16).prop_map(Op::Fill),
        5 => name().prop_map(Op::Remove),
        1 => (0..300u16).prop_map(Op::Thin),
        6 => (name(), deadline()).prop_map(|(name, deadline)| Op::SetDeadline(name, deadline)),
        3 => (0..60u64, prop_oneof![1..20usize, Just(usize::MAX)]).prop_map(|(passed, budget)| Op::Expire(passed, budget)),
        2 => Just(Op::Open),
        4 => (any::<usize>(), 1..2000usize).prop_map(|(index, budget)| Op::Read(index, budget)),
        1 => any::<usize>().prop_map(Op::Close),
        2 => (1..200usize).prop_map(Op::Maintain),
        2 => Just(Op::Seal),
        2 => Just(Op::Pack),
        4 => (1..1000usize, 1..20_000usize).prop_map(|(looks, bytes)| Op::Relocate(looks, bytes)),
    ]
}

fn run(spans: Option<usize>, ops: &[Op]) -> (usize, usize) {
    let mut world = World::new(spans);
    for op in ops {
        match op {
            Op::Set(name, value, lifetime) => _ = world.set(&name.0, &value.0, *lifetime),
            Op::Fill(count) => {
                for n in 0..*count {
                    // Deadlines that tie, and some without.
                    let lifetime = match n % 3 {
                        0 => Lifetime::Forever,
                        _ => Lifetime::Until(1_000_000 + u64::from(n % 50) * 7 + 1),
                    };
                    world.set(format!("fill:{n}").as_bytes(), b"filled", lifetime);
                }
            }
            Op::Remove(name) => world.remove(&name.0),
            Op::Thin(count) => (0..*count).for_each(|n| world.remove(format!("fill:{n}").as_bytes())),
            Op::SetDeadline(name, deadline_ms) => world.set_deadline(&name.0, *deadline_ms),
            Op::Expire(passed_ms, budget) => world.expire(*passed_ms, *budget),
            Op::Open if world.views.len() < 4 => world.open(),
            Op::Read(index, budget) if !world.views.is_empty() => world.read(index % world.views.len(), *budget),
            Op::Close(index) if !world.views.is_empty() => world.close(index % world.views.len()),
            Op::Maintain(budget) => world.maintain(*budget),
            Op::Seal => world.sweep.seal(&mut world.slab),
            Op::Pack => pack(&mut world.body, &mut world.slab),
            Op::Relocate(looks, bytes) => {
                if let Body::Big(big) = &mut world.body {
                    world.sweep.go_on(&mut **big, &mut world.slab, *looks, *bytes);
                }
            }
            Op::Open | Op::Read(..) | Op::Close(_) => {}
        }
        world.verify();
    }
    world.finish()
}

fn programs(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() })
}

#[test]
fn programs_against_a_map() {
    programs(96)
        .run(&proptest::collection::vec(op(), 1..60), |ops| {
            assert_eq!(run(None, &ops), (0, 0));
            Ok(())
        })
        .unwrap();
}

#[test]
fn programs_with_little_memory() {
    let mut refused = 0;
    for spans in [3, 6, 9] {
        programs(40)
            .run(&proptest::collection::vec(op(), 1..60), |ops| {
                run(Some(spans), &ops);
                Ok(())
            })
            .unwrap();
        let mut world = World::new(Some(spans));
        let value = [b'v'; 300];
        for n in 0..3000u32 {
            if n % 500 == 499 {
                world.open();
            }
            world.set(&(n % 1000).to_le_bytes(), &value[..n as usize % 290], Lifetime::Keep);
        }
        world.verify();
        refused += world.finish().0;
    }
    assert!(refused > 0, "memory was short");
}

/// A table that fills the memory cannot be copied before it changes: then the change goes on, and the view is lost.
#[test]
fn views_are_lost_rather_than_changes() {
    let mut world = World::new(Some(60));
    for n in 0..2000u32 {
        world.set(&n.to_le_bytes(), b"", Lifetime::Keep);
    }
    let mut taken = Vec::new();
    for bytes in (16..CHUNK_BYTES_MAX).step_by(8).rev() {
        while let Ok(h) = memory::alloc(&mut world.slab, bytes) {
            taken.push((h, bytes));
        }
    }
    world.open();
    (0..500u32).for_each(|n| world.remove(&n.to_le_bytes()));
    taken.into_iter().for_each(|(h, bytes)| memory::free(&mut world.slab, h, bytes));
    assert_eq!(world.finish(), (0, 1));
}

/// What five fields of 8 + 8 bytes take, which the target of memory is about.
#[test]
fn small_hashes_are_lean() {
    let mut world = World::new(None);
    for n in 0..5 {
        world.set(format!("field{n:03}").as_bytes(), b"value-xx", Lifetime::Forever);
    }
    let Form::Packed(packed) = world.look().form else { panic!("small") };
    assert_eq!(packed.len(), 3 + 5 * (1 + 8 + 1 + 8));
}

#[test]
fn elements_are_lean() {
    let mut world = World::new(None);
    for n in 0..10_000 {
        world.set(format!("fld{n:05}").as_bytes(), b"value-xx", Lifetime::Forever);
    }
    world.maintain(1_000_000);
    let Body::Big(big) = &world.body else { panic!("big") };
    assert!(big.element_bytes == 240_000 && big.bytes() < 320_000, "{} in all", big.bytes());
    world.finish();
}

/// Writing values of one size class again and again takes no memory, and values written in place are read back.
#[test]
fn values_of_a_class_are_written_in_place() {
    let mut world = World::new(None);
    for n in 0..500 {
        world.set(format!("f{n}").as_bytes(), b"12345678", Lifetime::Forever);
    }
    let used = world.slab.used_bytes();
    for value in [&b"abcdefgh"[..], b"1", b"", b"123456789012", b"-5"] {
        for n in 0..500 {
            world.set(format!("f{n}").as_bytes(), value, Lifetime::Keep);
        }
        world.verify();
    }
    assert_eq!(world.slab.used_bytes(), used);
    world.finish();
}

#[test]
fn a_run_makes_the_same_hash() {
    for count in [0, 5, 100, 5000] {
        let mut world = World::new(None);
        for n in 0..count {
            let lifetime = if n % 2 == 0 { Lifetime::Forever } else { Lifetime::Until(2_000_000 + n) };
            world.set(n.to_string().as_bytes(), format!("value{n}").as_bytes(), lifetime);
        }
        world.set(b"long", &[b'x'; 50_000], Lifetime::Until(9_000_000));
        world.open();
        let mut run = Vec::new();
        let Body::Big(big) = &mut world.body else { panic!("a long value makes a hash big") };
        while big.view_next(&world.slab, &mut world.views[0].view, &mut run, 100).unwrap() {}
        let mut copy = World::new(None);
        copy.limits = Limits::default();
        let mut memory = Memory { slab: &mut copy.slab, seed: SEED, limits: copy.limits };
        Hash::extend(&mut copy.body, &mut memory, &run).unwrap();
        (copy.model, copy.exceeded, copy.timed, copy.has_blobs) = (world.model.clone(), true, true, true);
        copy.verify();
        copy.finish();
        (world.views[0].done, world.views[0].left) = (true, Model::new());
        world.finish();
    }
}

/// A million deadlines of one instant would go in slices; here fewer, in slices of which each removes what it may.
#[test]
fn fields_of_one_deadline_expire_in_slices() {
    let mut world = World::new(None);
    for n in 0..20_000u32 {
        world.edit(|edit| edit.set(&n.to_le_bytes(), b"v", Lifetime::Until(5_000_000), 0)).unwrap();
    }
    assert_eq!(world.edit(|edit| edit.expire(4_999_999, usize::MAX)), 0);
    let mut slices = 0;
    while world.look().earliest_ms() <= 5_000_000 {
        assert_eq!(world.edit(|edit| edit.expire(5_000_000, 500)), 500);
        slices += 1;
    }
    assert_eq!((slices, world.look().field_count()), (40, 0));
    (world.exceeded, world.timed) = (true, true);
    world.finish();
}

#[test]
fn random_fields_are_uniform() {
    for fields in [10u32, 300] {
        let mut world = World::new(None);
        for n in 0..fields {
            world.set(n.to_string().as_bytes(), b"", Lifetime::Forever);
        }
        let mut rng = Rng::seeded(9);
        let mut counts: HashMap<Vec<u8>, u32> = HashMap::new();
        for _ in 0..fields * 200 {
            let field = world.look().random(|| rng.next_u64()).unwrap();
            *counts.entry(bytes_of(field, &world.slab).0).or_default() += 1;
        }
        assert_eq!(counts.len(), fields as usize);
        // 200 each on average, with a deviation of 14: six of them.
        assert!(counts.values().all(|count| (115..=285).contains(count)), "{counts:?}");
        world.finish();
    }
}
