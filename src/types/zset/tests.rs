//! Programs of operations against a map and a set of the standard library, in both forms, with views open, each compared with a copy of the model
//! made when it was opened; and the tree's own invariants after each step.

use super::big::View;
use super::memory::{self, element, head, inner, leaf};
use super::tree::HEIGHT_MAX;
use super::{Bound, Pair, Put, Zset, score};
use crate::base::entry::Entries;
use crate::base::limits::Limits;
use crate::base::rng::Rng;
use crate::types::sweeps::{Sweep, pack};
use crate::types::{Body, Container, Edit, Look, Memory, Span};
use dolmen_slab::{Config, Handle, Slab};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap, HashSet};

const SEED: u64 = 77;

type Element = (Vec<u8>, f64);

/// What a set should be.
#[derive(Clone, Default)]
struct Model {
    scores: HashMap<Vec<u8>, f64>,
    order: BTreeSet<(u64, Vec<u8>)>,
}

impl Model {
    fn put(&mut self, member: &[u8], score: f64) -> Put {
        match self.scores.get(member) {
            Some(&old) if old.to_bits() == score.to_bits() => return Put::Nothing,
            Some(&old) => assert!(self.order.remove(&(score::key(old), member.to_vec()))),
            None => {}
        }
        self.order.insert((score::key(score), member.to_vec()));
        if self.scores.insert(member.to_vec(), score).is_some() { Put::Changed } else { Put::Added }
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        assert!(self.order.remove(&(score::key(score), member.to_vec())));
        Some(score)
    }

    fn elements(&self) -> Vec<Element> {
        self.order.iter().map(|(_, member)| (member.clone(), self.scores[member])).collect()
    }
}

struct Opened {
    view: View,
    /// What it has to show yet, the next one last.
    left: Vec<Element>,
    all: usize,
}

struct World {
    slab: Slab,
    limits: Limits,
    body: Body<Zset>,
    model: Model,
    views: Vec<Opened>,
    lost: usize,
    sweep: Sweep,
    /// There is memory for whatever is moved.
    is_roomy: bool,
}

fn new_slab(spans: Option<usize>) -> Slab {
    let reserve_bytes = spans.map_or(1 << 30, |spans| spans << 16);
    Slab::new(Config { reserve_bytes, huge_pages: false, ..Config::default() }).unwrap()
}

fn same(a: &Element, b: &Element) -> bool {
    a.0 == b.0 && a.1.to_bits() == b.1.to_bits()
}

fn assert_same(a: &[Element], b: &[Element]) {
    if let Some(at) = (0..a.len().max(b.len())).find(|&at| match (a.get(at), b.get(at)) {
        (Some(a), Some(b)) => !same(a, b),
        _ => true,
    }) {
        panic!("of {} and {}, at {at}: {:?} {:?}", a.len(), b.len(), a.get(at), b.get(at));
    }
}

fn owned(slab: &Slab, pair: Pair<'_>) -> Element {
    (pair.name.to_vec(slab), pair.score)
}

fn unrolled(run: &[u8]) -> Vec<Element> {
    let mut entries = Entries::new(run);
    let mut elements = Vec::new();
    while let Some(member) = entries.next() {
        elements.push((member.to_vec(), score::from_entry(entries.next().unwrap())));
    }
    elements
}

impl World {
    fn new(spans: Option<usize>) -> World {
        let slab = new_slab(spans);
        let (body, model, views) = (Body::default(), Model::default(), Vec::new());
        World {
            slab,
            limits: Limits::default(),
            body,
            model,
            views,
            lost: 0,
            sweep: Sweep::default(),
            is_roomy: spans.is_none(),
        }
    }

    fn edit(&mut self) -> Edit<'_, Zset> {
        let memory = Memory { slab: &mut self.slab, seed: SEED, limits: self.limits };
        Edit { body: &mut self.body, memory }
    }

    fn look(&self) -> Look<'_, Zset> {
        self.body.look(&self.slab)
    }

    fn big(&mut self) -> Option<&mut Zset> {
        match &mut self.body {
            Body::Big(big) => Some(big),
            Body::Packed(_) => None,
        }
    }

    /// False: there was no memory.
    fn put(&mut self, member: &[u8], score: f64) -> bool {
        let old = self.model.scores.get(member).copied();
        let put = self.edit().put(member, |present| {
            assert_eq!(present.map(f64::to_bits), old.map(f64::to_bits));
            Some(score)
        });
        match put {
            Ok(put) => assert_eq!(put, self.model.put(member, score)),
            Err(_) => return false,
        }
        true
    }

    fn remove(&mut self, member: &[u8]) {
        let removed = self.edit().remove(member);
        assert_eq!(removed.map(f64::to_bits), self.model.remove(member).map(f64::to_bits));
    }

    fn remove_ranks(&mut self, rank: usize, count: usize) {
        let expected: Vec<Element> = self.model.elements().into_iter().skip(rank).take(count).collect();
        let mut seen = Vec::new();
        let removed = self.edit().remove_ranks(rank, count, |slab, pair| seen.push(owned(slab, pair)));
        assert_eq!(removed, expected.len());
        assert_same(&seen, &expected);
        for (member, _) in expected {
            self.model.remove(&member);
        }
    }

    fn open(&mut self, span: Span) {
        let mut left = self.model.elements();
        let slab = &self.slab;
        let Body::Big(big) = &mut self.body else { return };
        if !span.reverse {
            left.reverse();
        }
        left.truncate(left.len().saturating_sub(span.skip));
        let used = slab.used_bytes();
        let view = big.open_view(slab, span);
        assert_eq!(slab.used_bytes(), used, "opening keeps nothing yet");
        self.views.push(Opened { view, all: left.len(), left });
    }

    fn read(&mut self, index: usize, budget_bytes: usize) {
        let Body::Big(big) = &mut self.body else { return };
        let Opened { view, left, .. } = &mut self.views[index];
        let mut run = Vec::new();
        let Ok(more) = big.view_next(&self.slab, view, &mut run, budget_bytes) else {
            self.lost += 1;
            let opened = self.views.swap_remove(index);
            return big.close_view(opened.view);
        };
        for element in unrolled(&run) {
            let expected = left.pop().expect("no more than there were");
            assert!(same(&element, &expected), "{element:?} {expected:?}");
        }
        assert_eq!(more, !left.is_empty());
    }

    fn close(&mut self, index: usize) {
        let opened = self.views.swap_remove(index);
        self.big().expect("a viewed set is big").close_view(opened.view);
    }

    fn maintain(&mut self, budget: usize) {
        let Body::Big(big) = &mut self.body else { return };
        let more = big.maintain(&mut self.slab, budget);
        assert!(!more || big.has_work());
    }

    fn check(&self) {
        let elements = self.model.elements();
        let look = self.look();
        assert_eq!(look.len(), elements.len());
        let seen: Vec<Element> = look.pairs(Span::default(), usize::MAX).map(|pair| owned(&self.slab, pair)).collect();
        assert_same(&seen, &elements);
        if let Body::Big(big) = &self.body {
            verify(big, &self.slab);
            assert_eq!(big.is_viewed(), !self.views.is_empty());
        }
    }

    /// Everything that can be asked.
    fn check_all(&self) {
        self.check();
        let (elements, look) = (self.model.elements(), self.look());
        let backward: Vec<Element> =
            look.pairs(Span { skip: 0, reverse: true }, usize::MAX).map(|pair| owned(&self.slab, pair)).collect();
        assert_same(&backward, &elements.iter().rev().cloned().collect::<Vec<_>>());
        for (rank, (member, score)) in elements.iter().enumerate().step_by(elements.len() / 50 + 1) {
            assert_eq!(look.rank(member).map(|(rank, score)| (rank, score.to_bits())), Some((rank, score.to_bits())));
            assert_eq!(look.score(member).map(f64::to_bits), Some(score.to_bits()));
            let below = elements.iter().filter(|other| other.1 < *score).count();
            let up_to = elements.iter().filter(|other| other.1 <= *score).count();
            assert_eq!(look.count_before(Bound::Before(*score)), below);
            assert_eq!(look.count_before(Bound::After(*score)), up_to);
            for reverse in [false, true] {
                let mut expected: Vec<Element> = elements.clone();
                if reverse {
                    expected.reverse();
                }
                let expected: Vec<Element> = expected.into_iter().skip(rank).take(5).collect();
                let seen: Vec<Element> =
                    look.pairs(Span { skip: rank, reverse }, 5).map(|pair| owned(&self.slab, pair)).collect();
                assert_same(&seen, &expected);
            }
        }
        assert_eq!(look.count_before(Bound::Last), elements.len());
        assert_eq!(look.count_before(Bound::First), 0);
        assert_eq!(look.score(b"nobody"), None);
        assert_eq!(look.pairs(Span { skip: elements.len(), reverse: false }, 1).count(), 0);
        assert_eq!(look.pairs(Span { skip: elements.len(), reverse: true }, 1).count(), 0);
        let (mut cursor, mut seen) = (0, Vec::new());
        loop {
            cursor = look.scan(cursor, |pair| seen.push(pair.name.to_vec(&self.slab)));
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), elements.len());
        assert_eq!(seen.into_iter().collect::<HashSet<_>>().len(), elements.len());
        let mut rng = Rng::seeded(elements.len() as u64);
        match look.random(|| rng.next_u64()) {
            Some(pair) => {
                let (member, score) = owned(&self.slab, pair);
                assert_eq!(self.model.scores.get(&member).map(|s| s.to_bits()), Some(score.to_bits()));
            }
            None => assert!(elements.is_empty()),
        }
    }

    fn finish(mut self, slice: usize) {
        while !self.views.is_empty() {
            self.close(0);
        }
        if let Body::Big(mut big) = std::mem::take(&mut self.body) {
            while big.maintain(&mut self.slab, slice) {}
            assert!(!big.has_work());
            if self.is_roomy {
                std::mem::take(&mut self.sweep).complete(&mut *big, &mut self.slab);
                verify(&big, &self.slab);
            }
            let long = self.model.scores.keys().map(Vec::len).filter(|&len| len > memory::MEMBER_CHUNK_MAX);
            let expected = chunk_bytes(&self.slab) + long.sum::<usize>() as u64 + big.heap_bytes() as u64;
            assert_eq!(big.bytes(), expected);
            while big.drain(&mut self.slab, slice) {}
            assert_eq!(big.heap_bytes(), 0);
        }
        while self.slab.drain_frees(64) {}
        assert_eq!(self.slab.used_bytes(), 0);
    }
}

/// Memory of chunks in use.
fn chunk_bytes(slab: &Slab) -> u64 {
    slab.class_stats().map(|class| (class.class_bytes * class.live_chunks) as u64).sum()
}

/// What `change` promises.
fn verify(big: &Zset, slab: &Slab) {
    let tree = big.tree;
    assert!(tree.height < HEIGHT_MAX);
    assert_eq!(tree.root.is_null(), tree.len == 0);
    assert_eq!(big.table.len(), tree.len);
    if tree.root.is_null() {
        return;
    }
    let mut last: Option<Handle> = None;
    let count = verify_node(slab, tree.root, tree.height, &mut |h| {
        if let Some(last) = last {
            let (a, b) = (element(slab, last), element(slab, h));
            let order = a.key().cmp(&b.key()).then_with(|| a.member().compare(slab, b.member()));
            assert!(order.is_lt());
        }
        last = Some(h);
    });
    assert_eq!(count, tree.len);
    assert!(tree.height == 0 || head(slab, tree.root).count() > 1, "a root of one child");
}

fn verify_node(slab: &Slab, node: Handle, height: usize, visit: &mut dyn FnMut(Handle)) -> usize {
    assert!(head(slab, node).count() > 0 && head(slab, node).count() <= head(slab, node).capacity());
    if height == 0 {
        let leaf = leaf(slab, node);
        assert!(leaf.codes.is_sorted());
        for (&code, &h) in leaf.codes.iter().zip(leaf.elements) {
            assert_eq!(leaf.code(element(slab, h).key()), Some(code));
            visit(h);
        }
        return leaf.elements.len();
    }
    let inner = inner(slab, node);
    let mut sum = 0;
    for at in 0..inner.children.len() {
        let mut first = None;
        let count = verify_node(slab, inner.children[at], height - 1, &mut |h| {
            first.get_or_insert(h);
            visit(h);
        });
        assert_eq!(count, inner.counts[at] as usize);
        assert_eq!(first, Some(inner.firsts[at]));
        assert_eq!(inner.keys[at], element(slab, inner.firsts[at]).key());
        sum += count;
    }
    sum
}

/// How scores are made of a number.
#[derive(Clone, Copy, Debug)]
enum Scores {
    /// Few different ones.
    Few,
    Integers,
    /// Near to each other, so that they agree in their upper halves.
    Close,
    Fractions,
    Special,
}

impl Scores {
    fn score(self, n: usize) -> f64 {
        let n = u32::try_from(n % 1_000_000).unwrap();
        match self {
            Scores::Few => f64::from(n % 3) * 0.5,
            Scores::Integers => f64::from(n) - 500_000.0,
            Scores::Close => 1.7e12 + f64::from(n % 5000),
            Scores::Fractions => f64::from(n) * 0.37 - 1000.0,
            Scores::Special => {
                [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, -1e300, 70_000.0, 3.0][n as usize % 8]
            }
        }
    }
}

fn scores() -> impl Strategy<Value = Scores> {
    prop_oneof![
        Just(Scores::Few),
        Just(Scores::Integers),
        Just(Scores::Close),
        Just(Scores::Fractions),
        Just(Scores::Special)
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Put(usize, Scores, usize),
    Remove(usize),
    /// So many members from one on, with ascending, descending or scattered scores.
    Load(usize, usize, Scores, i8),
    RemoveRanks(usize, usize),
    Open(usize, bool),
    Read(usize, usize),
    Close(usize),
    Maintain(usize),
    Seal,
    Pack,
    Relocate(usize, usize),
}

fn ops(len: usize) -> impl Strategy<Value = Vec<Op>> {
    let n = || any::<u16>().prop_map(usize::from);
    let op = prop_oneof![
        10 => (n(), scores(), n()).prop_map(|(m, scores, n)| Op::Put(m, scores, n)),
        5 => n().prop_map(Op::Remove),
        2 => (n(), 1..600usize, scores(), -1..2i8).prop_map(|(m, count, scores, way)| Op::Load(m, count, scores, way)),
        1 => (n(), 1..700usize).prop_map(|(rank, count)| Op::RemoveRanks(rank, count)),
        2 => (0..300usize, any::<bool>()).prop_map(|(skip, reverse)| Op::Open(skip, reverse)),
        4 => (n(), 1..2000usize).prop_map(|(view, bytes)| Op::Read(view, bytes)),
        1 => n().prop_map(Op::Close),
        2 => (1..200usize).prop_map(Op::Maintain),
        2 => Just(Op::Seal),
        2 => Just(Op::Pack),
        4 => (1..1000usize, 1..20_000usize).prop_map(|(looks, bytes)| Op::Relocate(looks, bytes)),
    ];
    proptest::collection::vec(op, 1..len)
}

/// Mostly short ones, some of them integers; some too long for one byte of length, few for a chunk.
fn member(n: usize, long: bool) -> Vec<u8> {
    match n % 23 {
        0 => n.to_string().into_bytes(),
        1 => format!("{n:-<100}").into_bytes(),
        2 if long => format!("{:a<9000}{n}", n % 2).into_bytes(),
        _ => format!("m{n}").into_bytes(),
    }
}

/// Steps that could not be made for want of memory.
fn run(world: &mut World, ops: &[Op], members: usize, long: bool) -> usize {
    let mut failed = 0;
    for op in ops {
        match *op {
            Op::Put(m, scores, n) => failed += usize::from(!world.put(&member(m % members, long), scores.score(n))),
            Op::Remove(m) => world.remove(&member(m % members, long)),
            Op::Load(m, count, scores, way) => {
                for at in 0..count {
                    let n = match way {
                        0 => at * 7919,
                        1 => at,
                        _ => count - at,
                    };
                    failed += usize::from(!world.put(&member((m + at) % members, long), scores.score(n)));
                }
            }
            Op::RemoveRanks(rank, count) => world.remove_ranks(rank % (world.look().len() + 1), count),
            Op::Open(skip, reverse) => world.open(Span { skip, reverse }),
            Op::Read(view, bytes) if !world.views.is_empty() => world.read(view % world.views.len(), bytes),
            Op::Close(view) if !world.views.is_empty() => world.close(view % world.views.len()),
            Op::Read(..) | Op::Close(..) => {}
            Op::Maintain(budget) => world.maintain(budget),
            Op::Seal => world.sweep.seal(&mut world.slab),
            Op::Pack => pack(&mut world.body, &mut world.slab),
            Op::Relocate(looks, bytes) => {
                if let Body::Big(big) = &mut world.body {
                    world.sweep.go_on(&mut **big, &mut world.slab, looks, bytes);
                }
            }
        }
        world.check();
    }
    world.check_all();
    for index in 0..world.views.len() {
        if let Some(opened) = world.views.get(index) {
            let all = opened.all;
            world.read(index, usize::MAX);
            assert!(world.views.get(index).is_none_or(|opened| opened.left.is_empty() || opened.all != all));
        }
    }
    failed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn small_sets(ops in ops(120)) {
        let mut world = World::new(None);
        run(&mut world, &ops, 60, false);
        world.finish(7);
    }

    #[test]
    fn large_sets(ops in ops(60)) {
        let mut world = World::new(None);
        run(&mut world, &ops, 3000, true);
        world.finish(1000);
    }

    /// What does not fit is refused, and nothing is lost by it but views.
    #[test]
    fn little_memory(spans in 8..24usize, ops in ops(60)) {
        let mut world = World::new(Some(spans));
        run(&mut world, &ops, 20_000, false);
        world.finish(1000);
    }
}

/// What `little_memory` is about does come about: a set that fills its memory refuses members, gives up a view rather than a removal, and takes
/// members again when there is room.
#[test]
fn a_full_slab_refuses_members_and_loses_views() {
    let mut world = World::new(Some(40));
    let name = |n: usize| member(n, false);
    let mut members = 0;
    while world.put(&name(members), Scores::Fractions.score(members * 7919)) {
        members += 1;
    }
    assert!(members > 3_000, "{members} members in 40 spans of 64 KiB, of which each size of node takes one");
    world.check_all();
    let refused = (0..members).filter(|&n| !world.put(&name(n), 0.25 + Scores::Integers.score(n))).count();
    world.check_all();
    assert!(!world.put(b"one more", 0.5) || refused > 0, "there is room for nothing");
    world.open(Span::default());
    world.read(0, 100);
    assert_eq!(world.views.len(), 1, "what can be read without a copy is");
    for n in (0..members).step_by(2) {
        world.remove(&name(n));
    }
    world.read(0, 100);
    assert_eq!(world.lost, 1);
    world.check_all();
    world.maintain(usize::MAX);
    for n in (0..members).step_by(4) {
        assert!(world.put(&name(n), Scores::Integers.score(n)), "there is room again");
    }
    world.check_all();
    world.finish(1000);
}
