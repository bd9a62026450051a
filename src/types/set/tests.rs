//! Sets against `BTreeSet`: programs of changes with several views open, each compared with what the set was when it was opened.

use super::*;
use crate::base::entry;
use crate::base::rng::Rng;
use crate::types::sweeps::{Sweep, pack};
use crate::types::{Span, ViewLost};
use dolmen_slab::Config;
use proptest::prelude::*;
use std::collections::BTreeSet;

type View = <Set as Container>::View;

struct Opened {
    view: View,
    all: BTreeSet<Vec<u8>>,
    shown: Vec<Vec<u8>>,
    done: bool,
}

struct World {
    slab: Slab,
    body: Body<Set>,
    model: BTreeSet<Vec<u8>>,
    views: Vec<Opened>,
    rng: Rng,
    limits: Limits,
    refused: usize,
    lost: usize,
    sweep: Sweep,
    /// There is memory for whatever is moved.
    is_roomy: bool,
}

fn texts(run: &[u8]) -> Vec<Vec<u8>> {
    entry::Entries::new(run).map(Entry::to_vec).collect()
}

fn text(member: Member<'_>, slab: &Slab) -> Vec<u8> {
    let mut run = Vec::new();
    member.put(slab, &mut run);
    texts(&run).remove(0)
}

impl World {
    fn new(spans: Option<usize>) -> World {
        let reserve_bytes = spans.map_or(1 << 30, |spans| spans << 16);
        let slab = Slab::new(Config { reserve_bytes, huge_pages: false, ..Config::default() }).unwrap();
        World {
            slab,
            body: Body::default(),
            model: BTreeSet::new(),
            views: Vec::new(),
            rng: Rng::seeded(5),
            limits: Limits::default(),
            refused: 0,
            lost: 0,
            sweep: Sweep::default(),
            is_roomy: spans.is_none(),
        }
    }

    fn edit<R>(&mut self, change: impl FnOnce(&mut Edit<'_, Set>, &mut Rng) -> R) -> R {
        let memory = Memory { slab: &mut self.slab, seed: 3, limits: self.limits };
        change(&mut Edit { body: &mut self.body, memory }, &mut self.rng)
    }

    fn add(&mut self, member: &[u8]) {
        match self.edit(|edit, _| edit.add(Entry::of(member))) {
            Ok(new) => assert_eq!(new, self.model.insert(member.to_vec())),
            Err(_) => self.refused += 1,
        }
    }

    fn remove(&mut self, member: &[u8]) {
        let there = self.edit(|edit, _| edit.remove(Entry::of(member)));
        assert_eq!(there, self.model.remove(member));
    }

    fn pop(&mut self) {
        let mut run = Vec::new();
        let popped = self.edit(|edit, rng| edit.pop(rng, &mut run));
        assert_eq!(popped, !self.model.is_empty());
        for member in texts(&run) {
            assert!(self.model.remove(&member), "{member:?} was no member");
        }
    }

    fn open(&mut self) {
        if let Body::Big(set) = &mut self.body {
            let view = set.open_view(&self.slab, Span::default());
            self.views.push(Opened { view, all: self.model.clone(), shown: Vec::new(), done: false });
        }
    }

    fn next(&mut self, index: usize, budget_bytes: usize) {
        let Body::Big(set) = &mut self.body else { return };
        if self.views.is_empty() {
            return;
        }
        let index = index % self.views.len();
        let opened = &mut self.views[index];
        let mut run = Vec::new();
        match set.view_next(&self.slab, &mut opened.view, &mut run, budget_bytes) {
            Ok(more) => {
                assert!(run.len() >= budget_bytes || !more);
                assert!(!opened.done || run.is_empty(), "nothing comes after the end");
                opened.shown.extend(texts(&run));
                opened.done |= !more;
            }
            Err(ViewLost) => {
                self.lost += 1;
                opened.done = true;
                opened.shown = opened.all.iter().cloned().collect();
            }
        }
        let distinct: BTreeSet<_> = opened.shown.iter().cloned().collect();
        assert_eq!(distinct.len(), opened.shown.len(), "each is shown once");
        assert!(distinct.is_subset(&opened.all), "nothing is shown that was not there");
        assert!(!opened.done || distinct == opened.all, "all is shown");
    }

    fn close(&mut self, index: usize) {
        let Body::Big(set) = &mut self.body else { return };
        if !self.views.is_empty() {
            let opened = self.views.swap_remove(index % self.views.len());
            set.close_view(opened.view);
        }
    }

    fn maintain(&mut self, budget: usize) {
        if let Body::Big(set) = &mut self.body {
            set.maintain(&mut self.slab, budget);
        }
    }

    fn relocate(&mut self, looks: usize, bytes: usize) {
        if let Body::Big(set) = &mut self.body {
            self.sweep.go_on(&mut **set, &mut self.slab, looks, bytes);
        }
    }

    fn check(&mut self) {
        let look = self.body.look(&self.slab);
        assert_eq!((look.len(), look.is_empty()), (self.model.len(), self.model.is_empty()));
        let mut all = Vec::new();
        look.each(|member| all.push(text(member, &self.slab)));
        if let Body::Packed(packed) = &self.body
            && matches!(Small::of(packed), Small::Ints(_))
        {
            let numbers: Vec<i64> = all.iter().map(|text| crate::base::int::parse_i64(text).unwrap()).collect();
            assert!(numbers.is_sorted(), "integers are in order");
        }
        all.sort();
        assert!(all.iter().eq(&self.model));
        assert!(self.model.iter().all(|member| look.contains(Entry::of(member))));
        if let Some(member) = look.random(&mut self.rng) {
            assert!(self.model.contains(&text(member, &self.slab)));
        } else {
            assert!(self.model.is_empty());
        }
        if let Body::Big(set) = &self.body {
            set.verify(&self.slab);
            assert_eq!(set.is_viewed(), !self.views.is_empty());
            if self.views.is_empty() && !set.has_work() {
                let heap = set.heap_bytes() as u64;
                assert_eq!(set.bytes() - heap, self.slab.used_bytes(), "all that is used is counted");
            }
        } else {
            assert_eq!(self.slab.used_bytes(), 0);
        }
    }

    fn finish(mut self) {
        while !self.views.is_empty() {
            self.close(0);
        }
        if let Body::Big(set) = &mut self.body {
            while set.maintain(&mut self.slab, 100) {}
            if self.is_roomy {
                self.sweep.complete(&mut **set, &mut self.slab);
                set.verify(&self.slab);
            }
            while set.drain(&mut self.slab, 100) {}
        }
        while self.slab.drain_frees(100) {}
        assert_eq!(self.slab.used_bytes(), 0);
    }
}

/// A text, so many times.
#[derive(Clone, Debug)]
struct Text(String, usize);

impl Text {
    fn bytes(&self) -> Vec<u8> {
        self.0.repeat(self.1).into_bytes()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(Text),
    AddMany { from: u32, count: u32, text: bool },
    Remove(Text),
    RemoveMany { from: u32, count: u32, text: bool },
    Pop(u8),
    Open,
    Next { view: usize, budget_bytes: usize },
    Close(usize),
    Maintain(usize),
    Seal,
    Pack,
    Relocate { looks: usize, bytes: usize },
}

fn numbered(number: u32, text: bool) -> Vec<u8> {
    if text { format!("member:{number:06}").into_bytes() } else { number.to_string().into_bytes() }
}

fn members() -> impl Strategy<Value = Text> {
    let short = prop_oneof![
        6 => (0..300i64).prop_map(|value| value.to_string()),
        2 => any::<i64>().prop_map(|value| value.to_string()),
        2 => any::<i64>().prop_map(|value| (value >> 40).to_string()),
        2 => "[a-c]{0,3}",
        2 => "[-+]?0?[0-9]{1,2}",
    ];
    let long = prop_oneof![150..300usize, 900..1100usize, 16_370..16_390usize, Just(300_000usize)];
    prop_oneof![
        14 => short.prop_map(|text| Text(text, 1)),
        1 => ("[a-c]", long).prop_map(|(text, times)| Text(text, times)),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => members().prop_map(Op::Add),
        3 => (0..2000u32, 1..700u32, any::<bool>()).prop_map(|(from, count, text)| Op::AddMany { from, count, text }),
        6 => members().prop_map(Op::Remove),
        2 => (0..2000u32, 1..900u32, any::<bool>()).prop_map(|(from, count, text)| Op::RemoveMany { from, count, text }),
        2 => any::<u8>().prop_map(Op::Pop),
        3 => Just(Op::Open),
        6 => (any::<usize>(), 0..4000usize).prop_map(|(view, budget_bytes)| Op::Next { view, budget_bytes }),
        2 => any::<usize>().prop_map(Op::Close),
        3 => (1..3000usize).prop_map(Op::Maintain),
        2 => Just(Op::Seal),
        2 => Just(Op::Pack),
        4 => (1..1000usize, 1..20_000usize).prop_map(|(looks, bytes)| Op::Relocate { looks, bytes }),
    ];
    proptest::collection::vec(op, 1..60)
}

fn run(spans: Option<usize>, ops: &[Op]) -> World {
    let mut world = World::new(spans);
    for op in ops {
        match op {
            Op::Add(member) => world.add(&member.bytes()),
            Op::AddMany { from, count, text } => (*from..from + count).for_each(|n| world.add(&numbered(n, *text))),
            Op::Remove(member) => world.remove(&member.bytes()),
            Op::RemoveMany { from, count, text } => {
                (*from..from + count).for_each(|n| world.remove(&numbered(n, *text)));
            }
            Op::Pop(count) => (0..*count).for_each(|_| world.pop()),
            Op::Open => world.open(),
            Op::Next { view, budget_bytes } => world.next(*view, *budget_bytes),
            Op::Close(view) => world.close(*view),
            Op::Maintain(budget) => world.maintain(*budget),
            Op::Seal => world.sweep.seal(&mut world.slab),
            Op::Pack => pack(&mut world.body, &mut world.slab),
            Op::Relocate { looks, bytes } => world.relocate(*looks, *bytes),
        }
        world.check();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn like_a_set_with_views_open(ops in ops()) {
        run(None, &ops).finish();
    }

    /// What cannot be added leaves the set as it was.
    #[test]
    fn like_a_set_with_little_memory(spans in 3..8usize, ops in ops()) {
        run(Some(spans), &ops).finish();
    }

    /// The encodings of Redis, told as its source tells them: by what a set has held, whatever it holds now.
    #[test]
    fn encodings(
        members in proptest::collection::vec(members(), 1..60), (ints, entries, value) in (0..20usize, 0..20usize, 0..25usize),
    ) {
        let mut world = World::new(None);
        world.limits =
            Limits { set_max_intset_entries: ints, set_max_listpack_entries: entries, set_max_listpack_value: value, ..world.limits };
        let mut want = Encoding::Intset;
        for member in members.iter().map(Text::bytes) {
            let held: Vec<Vec<u8>> = world.model.iter().cloned().collect();
            world.add(&member);
            if held.len() < world.model.len() {
                let number = crate::base::int::parse_i64(&member).is_some();
                let longest = held.iter().map(Vec::len).max().unwrap_or(0);
                let packs = held.len() < entries && member.len() <= value;
                want = match want {
                    Encoding::Intset if number => if held.len() + 1 > ints { Encoding::Hashtable } else { want },
                    Encoding::Intset if packs && longest <= value => Encoding::Listpack,
                    Encoding::Listpack if packs => want,
                    _ => Encoding::Hashtable,
                };
            }
            prop_assert_eq!(world.body.look(&world.slab).encoding(), want);
        }
        for member in world.model.clone() {
            world.remove(&member);
            prop_assert_eq!(world.body.look(&world.slab).encoding(), want);
        }
        world.finish();
    }
}

#[test]
fn little_memory_was_too_little() {
    let ops = [
        Op::AddMany { from: 0, count: 50_000, text: true },
        Op::Open,
        Op::RemoveMany { from: 0, count: 9000, text: true },
        Op::AddMany { from: 0, count: 9000, text: true },
        Op::Maintain(10_000),
        Op::Next { view: 0, budget_bytes: 1 << 20 },
    ];
    let world = run(Some(26), &ops);
    assert!(world.refused > 0 && world.lost > 0, "{} refused, {} lost", world.refused, world.lost);
    world.finish();
}

#[test]
fn what_is_asked_for_decides_the_encoding() {
    let cases: [(&[&[u8]], usize, usize, Encoding); 8] = [
        (&[], 512, 0, Encoding::Intset),
        (&[], 513, 0, Encoding::Hashtable),
        (&[], 128, 1, Encoding::Listpack),
        (&[], 129, 1, Encoding::Hashtable),
        (&[b"1"], 512, 0, Encoding::Intset),
        (&[b"1"], 513, 0, Encoding::Hashtable),
        (&[b"a"], 128, 0, Encoding::Listpack),
        (&[b"a"], 129, 0, Encoding::Hashtable),
    ];
    for (held, count, first, want) in cases {
        let mut world = World::new(None);
        held.iter().for_each(|member| world.add(member));
        let first = [Entry::Int(1), Entry::Bytes(b"a")][first];
        world.edit(|edit, _| edit.expect(first, count));
        assert_eq!(world.body.look(&world.slab).encoding(), want, "{held:?} {count}");
        assert_eq!(world.body.look(&world.slab).len(), held.len());
    }
}

#[test]
fn scans_visit_what_stays() {
    let mut world = World::new(None);
    (0..5000).for_each(|n| world.add(&numbered(n, true)));
    let (mut cursor, mut seen, mut calls) = (0, BTreeSet::new(), 0);
    loop {
        let look = world.body.look(&world.slab);
        cursor = look.scan(cursor, 50, |member| _ = seen.insert(text(member, &world.slab)));
        calls += 1;
        // Every other member leaves, and many others come.
        let n = calls * 50;
        (n..n + 50).filter(|n| n % 2 == 1 && *n < 5000).for_each(|n| world.remove(&numbered(n, true)));
        (n..n + 50).for_each(|n| world.add(&numbered(100_000 + n, true)));
        world.maintain(1000);
        if cursor == 0 {
            break;
        }
    }
    assert!((0..5000).filter(|n| n % 2 == 0).all(|n| seen.contains(&numbered(n, true))));
    assert!(calls > 50, "{calls} steps of about 50");
    world.finish();
}

#[test]
fn random_members_are_uniform() {
    for (count, text_too) in [(10, false), (10, true), (100, true), (3000, true)] {
        let mut world = World::new(None);
        (0..count).for_each(|n| world.add(&numbered(n, text_too)));
        let draws = count * 200;
        let mut counts = std::collections::BTreeMap::new();
        let mut rng = Rng::seeded(11);
        let look = world.body.look(&world.slab);
        for _ in 0..draws {
            *counts.entry(text(look.random(&mut rng).unwrap(), &world.slab)).or_insert(0i64) += 1;
        }
        assert_eq!(counts.len(), count as usize);
        // Seven standard deviations; the seed is fixed.
        assert!(counts.values().all(|drawn| (drawn - 200).abs() < 100), "{count}");
        world.finish();
    }
}

/// The target for a million members of 8 bytes: 26 bytes each.
#[test]
fn a_member_of_eight_bytes_is_small() {
    let mut world = World::new(None);
    for n in 0..100_000 {
        assert!(world.edit(|edit, _| edit.add(Entry::of(format!("m{n:07}").as_bytes()))).unwrap());
        if n % 100 == 0 {
            world.maintain(5000);
        }
    }
    let Body::Big(set) = &world.body else { panic!("it is large") };
    let each = set.bytes() / 100_000;
    assert!((22..=25).contains(&each), "{each} bytes");
    world.finish();
}

/// A set that is filled in the order of another's table.
#[test]
fn copies_in_order_are_spread() {
    let mut world = World::new(None);
    (0..20_000).for_each(|n| world.add(&numbered(n, true)));
    world.open();
    let Body::Big(set) = &mut world.body else { panic!("it is large") };
    let (mut copy, mut run, mut more) = (Body::default(), Vec::new(), true);
    while more {
        run.clear();
        more = set.view_next(&world.slab, &mut world.views[0].view, &mut run, 4096).unwrap();
        let mut memory = Memory { slab: &mut world.slab, seed: 3, limits: world.limits };
        Set::extend(&mut copy, &mut memory, &run).unwrap();
        if let Body::Big(copy) = &mut copy {
            copy.maintain(&mut world.slab, 1000);
        }
    }
    let look = copy.look(&world.slab);
    assert_eq!(look.len(), world.model.len());
    assert!(world.model.iter().all(|member| look.contains(Entry::of(member))));
    let Body::Big(mut copy) = copy else { panic!("it is large") };
    assert!(copy.bytes() < 20_000 * 40, "{} bytes", copy.bytes());
    while copy.drain(&mut world.slab, 1000) {}
    world.finish();
}
