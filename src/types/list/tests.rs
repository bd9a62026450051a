//! A list beside a deque, with views open; sizes and encodings.

use super::*;
use crate::types::Edit;
use crate::types::sweeps::{Sweep, pack};
use dolmen_slab::Config;
use proptest::prelude::*;
use std::collections::VecDeque;

type Model = VecDeque<Vec<u8>>;

fn slab(reserve_bytes: usize) -> Slab {
    let blob_reserve_bytes = reserve_bytes.min(1 << 30);
    Slab::new(Config { reserve_bytes, blob_reserve_bytes, huge_pages: false, ..Config::default() }).unwrap()
}

fn edit<'a>(body: &'a mut Body<List>, slab: &'a mut Slab) -> Edit<'a, List> {
    Edit { body, memory: Memory { slab, seed: 1, limits: Limits::default() } }
}

fn texts(look: Look<'_, List>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    look.walk(0, false, |element| {
        let mut text = Vec::new();
        element.append_to(look.slab, &mut text);
        assert_eq!(element.len(look.slab), text.len());
        all.push(text);
        true
    });
    all
}

fn run_texts(run: &[u8]) -> Vec<Vec<u8>> {
    entry::Entries::new(run).map(Entry::to_vec).collect()
}

/// A value by its number: mostly small ones, and some of each kind that is kept in another way.
fn value(number: u32) -> Vec<u8> {
    let fill = |len: usize| {
        let mut text = vec![b'v'; len];
        text[..4].copy_from_slice(&number.to_be_bytes());
        text
    };
    match number % 64 {
        0..16 => (number / 64 % 3).to_string().into_bytes(),
        16..28 => (i64::from(number) * 1_000_003 - (1 << 31)).to_string().into_bytes(),
        28..50 => format!("text {}", number / 64 % 5).into_bytes(),
        50..56 => fill(8 + number as usize / 64 % 60),
        56..59 => fill(130 + number as usize / 64 % 400),
        59..61 => fill(1000 + number as usize / 64 % 3000),
        61 => Vec::new(),
        62 => fill(ROOM_MAX - 20 + number as usize / 64 % 40),
        _ => fill(if (number / 64).is_multiple_of(16) { 300_000 } else { 17_000 }),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Push(End, Vec<u32>),
    Pop(End, usize),
    Set(usize, u32),
    Insert(usize, u32),
    RemoveEqual { index: usize, reverse: bool, of: usize, max: usize },
    Trim(usize, usize),
    Open(Span),
    Next(usize, usize),
    Close(usize),
    Maintain(usize),
    Seal,
    Pack,
    Relocate(usize, usize),
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Head), Just(End::Tail)]
}

fn op() -> impl Strategy<Value = Op> {
    let values = prop_oneof![
        3 => proptest::collection::vec(any::<u32>(), 1..4),
        1 => proptest::collection::vec((0u32..50).prop_map(|n| n + 64), 1..150),
    ];
    prop_oneof![
        6 => (end(), values).prop_map(|(end, values)| Op::Push(end, values)),
        4 => (end(), prop_oneof![3 => 1..4usize, 1 => 1..120usize]).prop_map(|(end, n)| Op::Pop(end, n)),
        3 => (any::<usize>(), any::<u32>()).prop_map(|(index, value)| Op::Set(index, value)),
        6 => (any::<usize>(), any::<u32>()).prop_map(|(index, value)| Op::Insert(index, value)),
        2 => (any::<usize>(), any::<bool>(), any::<usize>(), 1..20usize)
            .prop_map(|(index, reverse, of, max)| Op::RemoveEqual { index, reverse, of, max }),
        1 => (0..60usize, 0..60usize).prop_map(|(front, back)| Op::Trim(front, back)),
        2 => (0..100usize, any::<bool>()).prop_map(|(skip, reverse)| Op::Open(Span { skip, reverse })),
        3 => (any::<usize>(), 0..3000usize).prop_map(|(view, budget)| Op::Next(view, budget)),
        2 => any::<usize>().prop_map(Op::Close),
        2 => (0..300usize).prop_map(Op::Maintain),
        1 => Just(Op::Seal),
        2 => Just(Op::Pack),
        3 => (1..200usize, 1..20_000usize).prop_map(|(looks, bytes)| Op::Relocate(looks, bytes)),
    ]
}

struct OpenView {
    view: ListView,
    /// What is still to come.
    expected: Model,
}

/// A list beside what it should be.
struct Pair {
    slab: Slab,
    body: Body<List>,
    model: Model,
    views: Vec<OpenView>,
    /// Operations that found no memory.
    refused: usize,
    steps: usize,
    sweep: Sweep,
    /// There is memory for whatever is moved.
    is_roomy: bool,
}

impl Pair {
    fn new(slab: Slab, body: Body<List>) -> Pair {
        Pair {
            slab,
            body,
            model: Model::new(),
            views: Vec::new(),
            refused: 0,
            steps: 0,
            sweep: Sweep::default(),
            is_roomy: true,
        }
    }

    fn edit(&mut self) -> Edit<'_, List> {
        edit(&mut self.body, &mut self.slab)
    }

    fn run(&mut self, op: &Op) {
        let len = self.model.len();
        match op {
            Op::Push(end, numbers) => {
                let values: Vec<Vec<u8>> = numbers.iter().map(|&number| value(number)).collect();
                let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                if self.edit().push(*end, &slices).is_err() {
                    self.refused += 1;
                } else {
                    for value in values {
                        if *end == End::Head { self.model.push_front(value) } else { self.model.push_back(value) }
                    }
                }
            }
            Op::Pop(end, count) => {
                let mut got = Vec::new();
                let popped = self.edit().pop(*end, *count, |slab, element| {
                    let mut text = Vec::new();
                    element.append_to(slab, &mut text);
                    got.push(text);
                });
                let count = match popped {
                    Ok(count) => {
                        assert_eq!(count, len.min(got.len()));
                        count
                    }
                    Err(_) => {
                        self.refused += 1;
                        len - self.body.look(&self.slab).len()
                    }
                };
                for text in got.into_iter().take(count) {
                    let expected = if *end == End::Head { self.model.pop_front() } else { self.model.pop_back() };
                    assert_eq!(Some(text), expected);
                }
            }
            Op::Set(index, number) if len > 0 => {
                if self.edit().set(index % len, &value(*number)).is_err() {
                    self.refused += 1;
                } else {
                    self.model[index % len] = value(*number);
                }
            }
            Op::Insert(index, number) => {
                let index = index % (len + 1);
                if self.edit().insert(index, &value(*number)).is_err() {
                    self.refused += 1;
                } else {
                    self.model.insert(index, value(*number));
                }
            }
            Op::RemoveEqual { index, reverse, of, max } if len > 0 => {
                let (index, text) = (index % len, self.model[of % len].clone());
                let Ok(Filtered { looked, removed }) =
                    self.edit().remove_equal(index, *reverse, &Needle::new(&text), *max)
                else {
                    self.refused += 1;
                    return self.check();
                };
                assert!(looked > 0 && removed <= *max);
                let range = if *reverse { index + 1 - looked..index + 1 } else { index..index + looked };
                let mut found: Vec<usize> = range.filter(|&i| self.model[i] == text).collect();
                if *reverse {
                    found.reverse();
                }
                found.truncate(*max);
                assert_eq!(removed, found.len());
                found.sort_unstable();
                found.into_iter().rev().for_each(|i| drop(self.model.remove(i)));
            }
            Op::Trim(front, back) => {
                if self.edit().trim(*front, *back).is_err() {
                    self.refused += 1;
                    // The front may be off already, and part of the back.
                    let gone = len - self.body.look(&self.slab).len();
                    self.model.drain(..gone.min(*front));
                    self.model.truncate(len - gone);
                } else {
                    let front = (*front).min(len);
                    self.model.drain(..front);
                    self.model.truncate((len - front).saturating_sub(*back));
                }
            }
            Op::Open(span) => {
                if let Body::Big(list) = &mut self.body {
                    let view = list.open_view(&self.slab, *span);
                    let mut expected = self.model.clone();
                    if span.reverse {
                        expected.make_contiguous().reverse();
                    }
                    expected.drain(..span.skip.min(len));
                    self.views.push(OpenView { view, expected });
                }
            }
            Op::Next(index, budget) if !self.views.is_empty() => {
                let index = index % self.views.len();
                self.next(index, *budget);
            }
            Op::Close(index) if !self.views.is_empty() => {
                let mut index = index % self.views.len();
                while self.next(index, 5000) {}
                index %= self.views.len();
                let OpenView { view, .. } = self.views.swap_remove(index);
                self.big().close_view(view);
            }
            Op::Maintain(budget) => {
                if let Body::Big(list) = &mut self.body {
                    let more = list.maintain(&mut self.slab, *budget);
                    assert_eq!(more, list.has_work());
                }
            }
            Op::Seal => self.sweep.seal(&mut self.slab),
            Op::Pack => pack(&mut self.body, &mut self.slab),
            Op::Relocate(looks, bytes) => {
                if let Body::Big(list) = &mut self.body {
                    self.sweep.go_on(&mut **list, &mut self.slab, *looks, *bytes);
                }
            }
            Op::Set(..) | Op::RemoveEqual { .. } | Op::Next(..) | Op::Close(_) => {}
        }
        self.check();
    }

    fn big(&mut self) -> &mut List {
        match &mut self.body {
            Body::Big(list) => list,
            Body::Packed(_) => panic!("views are of big lists"),
        }
    }

    fn next(&mut self, index: usize, budget: usize) -> bool {
        let OpenView { view, expected } = &mut self.views[index];
        let Body::Big(list) = &mut self.body else { panic!("views are of big lists") };
        let mut run = b"\x01x".to_vec();
        let more = list.view_next(&self.slab, view, &mut run, budget).unwrap();
        for text in &run_texts(&run)[1..] {
            assert_eq!(Some(text), expected.pop_front().as_ref());
        }
        assert_eq!(more, !expected.is_empty());
        more
    }

    fn check(&mut self) {
        let look = self.body.look(&self.slab);
        assert_eq!(look.len(), self.model.len());
        if let Body::Big(list) = &self.body {
            verify(list, &self.slab);
        }
        self.steps += 1;
        if self.steps.is_multiple_of(6) {
            self.compare();
        }
    }

    fn compare(&self) {
        let look = self.body.look(&self.slab);
        assert_eq!(self.model, texts(look));
        if let Some(last) = self.model.len().checked_sub(1) {
            let mut backwards = Vec::new();
            look.walk(last / 2, true, |element| {
                backwards.push(element.len(look.slab));
                true
            });
            let expected: Vec<usize> = self.model.iter().take(last / 2 + 1).rev().map(Vec::len).collect();
            assert_eq!(backwards, expected);
            let mut text = Vec::new();
            look.get(last / 3).unwrap().append_to(look.slab, &mut text);
            assert_eq!(text, self.model[last / 3]);
        }
        assert!(look.get(self.model.len()).is_none());
        if let Body::Packed(packed) = &self.body {
            for reverse in [false, true] {
                let (mut run, skip) = (b"\x01x".to_vec(), self.model.len() / 2);
                List::unpack(packed, Span { skip, reverse }, &mut run);
                let mut expected: Vec<Vec<u8>> = self.model.iter().cloned().collect();
                if reverse {
                    expected.reverse();
                }
                assert_eq!(run_texts(&run)[1..], expected[skip..]);
            }
        }
        if let Body::Big(list) = &self.body {
            let listpack: usize = 7 + self.model.iter().map(|text| redis::entry_bytes(Entry::of(text))).sum::<usize>();
            assert_eq!(list.measure.bytes().unwrap_or(listpack), listpack);
        }
    }

    fn finish(mut self) -> usize {
        self.compare();
        while !self.views.is_empty() {
            self.run(&Op::Close(0));
        }
        if let Body::Big(list) = &mut self.body {
            while list.maintain(&mut self.slab, 50) {}
            if self.is_roomy {
                std::mem::take(&mut self.sweep).complete(&mut **list, &mut self.slab);
                self.compare();
            }
        }
        if let Body::Big(mut list) = self.body {
            while list.drain(&mut self.slab, 50) {}
            assert_eq!((list.bytes(), list.heap_bytes()), (0, 0));
        }
        assert_eq!(self.slab.used_bytes(), 0, "everything was freed");
        self.refused
    }
}

fn verify(list: &List, slab: &Slab) {
    let mut blocks = list.roots.tree.verify(slab);
    blocks.extend(list.roots.ends.iter().filter(|end| !end.is_none()));
    let mut len = 0;
    for node in blocks {
        let block = node.block(slab);
        let mut rest = block.run();
        for _ in 0..block.count() {
            let bytes = block::first_bytes(rest);
            assert_eq!(block::last_bytes(&rest[..bytes]), bytes);
            rest = &rest[bytes..];
        }
        assert!(rest.is_empty() && block.count() > 0);
        assert_eq!(block::cells(block.run()).count(), usize::from(block.head.cells));
        len += block.count();
    }
    assert_eq!(len, list.len);
    assert_eq!(list.nodes.bytes(), slab.used_bytes(), "nothing else lies in this slab");
    assert_eq!(list.bytes(), list.nodes.bytes() + list.heap_bytes() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Small blocks and nodes: the tree is high, everything is split and merged all the time.
    #[test]
    fn small_blocks(ops in proptest::collection::vec(op(), 1..120)) {
        let mut pair = Pair::new(slab(1 << 30), Body::Big(Box::new(List::shaped(112, 4))));
        ops.iter().for_each(|op| pair.run(op));
        prop_assert_eq!(pair.finish(), 0);
    }

    /// From the packed form on, as it is.
    #[test]
    fn as_it_is(ops in proptest::collection::vec(op(), 1..120)) {
        let mut pair = Pair::new(slab(1 << 30), Body::default());
        ops.iter().for_each(|op| pair.run(op));
        prop_assert_eq!(pair.finish(), 0);
    }

    /// What finds no memory has changed nothing, and takes nothing along.
    #[test]
    fn little_memory(ops in proptest::collection::vec(op(), 50..200)) {
        let mut pair = Pair::new(slab(512 << 10), Body::Big(Box::new(List::shaped(400, 5))));
        pair.is_roomy = false;
        ops.iter().for_each(|op| pair.run(op));
        pair.finish();
    }
}

fn filled(slab: &mut Slab, count: u32, end: End) -> Body<List> {
    let mut body = Body::default();
    for i in 0..count {
        edit(&mut body, slab).push(end, &[format!("{i:08}").as_bytes()]).unwrap();
    }
    body
}

#[test]
fn eight_bytes_take_eleven_at_most() {
    for end in [End::Head, End::Tail] {
        let mut slab = slab(1 << 30);
        let body = filled(&mut slab, 1_000_000, end);
        let Body::Big(list) = &body else { panic!("it is big") };
        assert!(list.bytes() <= 11_000_000, "{}", list.bytes());
        assert!(list.bytes() >= 10_000_000, "{}", list.bytes());
    }
}

#[test]
fn trimming_and_views_cost_no_more_for_longer_lists() {
    let mut slab = slab(1 << 30);
    let mut body = filled(&mut slab, 300_000, End::Tail);
    let (before, mut views) = (slab.used_bytes(), Vec::new());
    if let Body::Big(list) = &mut body {
        views.push(list.open_view(&slab, Span { skip: 299_999, reverse: true }));
    }
    edit(&mut body, &mut slab).trim(150_000, 149_990).unwrap();
    assert_eq!(body.look(&slab).len(), 10);
    assert!(slab.used_bytes() < before + 20_000, "what a view sees is not copied but where it was cut");
    let Body::Big(list) = &mut body else { panic!("it is big") };
    assert!(list.has_work());
    let mut run = Vec::new();
    assert!(!list.view_next(&slab, &mut views[0], &mut run, 100).unwrap());
    assert_eq!(run_texts(&run), [b"00000000"]);
    views.into_iter().for_each(|view| list.close_view(view));
    let mut steps = 0;
    while list.maintain(&mut slab, 100) {
        steps += 1;
    }
    assert!(steps > 30, "in slices");
    assert!(slab.used_bytes() < 1000, "ten elements are left, in a small block");
    let expected: Vec<Vec<u8>> = (150_000..150_010).map(|i| format!("{i:08}").into_bytes()).collect();
    assert_eq!(texts(body.look(&slab)), expected);
}

/// Insertion in front of one place again and again leaves blocks that are half full at least.
#[test]
fn inserting_at_one_place_leaves_no_crumbs() {
    let mut slab = slab(1 << 30);
    let mut body = filled(&mut slab, 20_000, End::Tail);
    let before = slab.used_bytes();
    for i in 0..20_000 {
        let index = body.look(&slab).len() / 2;
        edit(&mut body, &mut slab).insert(index, format!("{i:08}").as_bytes()).unwrap();
    }
    let grown = slab.used_bytes() - before;
    assert!(grown < 20_000 * 20, "{grown}");
}

#[test]
fn a_queue_keeps_to_its_blocks() {
    let mut slab = slab(1 << 30);
    let mut body = filled(&mut slab, 5_000, End::Head);
    let before = slab.used_bytes();
    for i in 0..50_000u32 {
        let mut edit = edit(&mut body, &mut slab);
        edit.push(End::Head, &[format!("{:08}", i + 5_000).as_bytes()]).unwrap();
        edit.pop(End::Tail, 1, |_, element| {
            assert!(matches!(element, Element::Entry(entry) if entry.is(format!("{i:08}").as_bytes())));
        })
        .unwrap();
    }
    assert!(slab.used_bytes() <= before + 2 * BLOCK_BYTES as u64);
}

#[test]
fn encodings_go_back_at_half_the_size() {
    let mut slab = slab(1 << 30);
    let mut body = Body::default();
    let mut limits = Limits::default();
    let name = |body: &Body<List>, slab: &Slab| List::encoding(body.look(slab), &Limits::default());
    let mut edit_with = |body: &mut Body<List>, limits: Limits, change: &dyn Fn(&mut Edit<'_, List>)| {
        change(&mut Edit { body, memory: Memory { slab: &mut slab, seed: 1, limits } });
        name(body, &slab)
    };
    let text = [b'x'; 100];
    let push = |edit: &mut Edit<'_, List>| edit.push(End::Tail, &[&text]).unwrap();
    let pop = |edit: &mut Edit<'_, List>| assert_eq!(edit.pop(End::Head, 1, |_, _| ()), Ok(1));
    // 103 bytes each, of 8192; what is to come counts 100.
    for _ in 0..79 {
        assert_eq!(edit_with(&mut body, limits, &push), "listpack");
    }
    assert_eq!(edit_with(&mut body, limits, &push), "quicklist");
    while body_len(&body) > 40 {
        assert_eq!(edit_with(&mut body, limits, &pop), "quicklist", "{}", body_len(&body));
    }
    assert_eq!(edit_with(&mut body, limits, &pop), "listpack", "39 * 103 + 7 is half of 8192");
    // By number.
    limits.list_max_listpack_size = 42;
    (0..3).for_each(|_| assert_eq!(edit_with(&mut body, limits, &push), "listpack"));
    assert_eq!(edit_with(&mut body, limits, &push), "quicklist");
    while body_len(&body) > 22 {
        assert_eq!(edit_with(&mut body, limits, &pop), "quicklist");
    }
    assert_eq!(edit_with(&mut body, limits, &pop), "listpack");
}

fn body_len(body: &Body<List>) -> usize {
    match body {
        Body::Packed(bytes) => crate::types::packed::count(bytes),
        Body::Big(list) => list.len(),
    }
}

#[test]
fn runs_are_taken_in_whatever_their_size() {
    let mut slab = slab(1 << 30);
    for count in [0, 1, 100, 128, 129, 5000] {
        let mut run = Vec::new();
        let values: Vec<Vec<u8>> = (0..count).map(|i| value(i * 7)).collect();
        values.iter().for_each(|value| entry::put(&mut run, value));
        let mut body = Body::default();
        let mut memory = Memory { slab: &mut slab, seed: 1, limits: Limits::default() };
        List::extend(&mut body, &mut memory, &run).unwrap();
        List::extend(&mut body, &mut memory, &run).unwrap();
        assert_eq!(texts(body.look(&slab)), [values.clone(), values].concat());
        if let Body::Big(list) = &mut body {
            destroy(list, &mut slab);
        }
        assert_eq!(slab.used_bytes(), 0);
    }
}
