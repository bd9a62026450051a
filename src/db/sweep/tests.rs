//! Memory after containers have shrunk beside that of a fresh load of the same elements, and that sweeps leave everything as it was.

use super::super::collections::Missing;
use super::super::view::Deadline;
use super::super::{Key, NewValue};
use super::*;
use crate::base::defrag::Defrag;
use crate::base::entry::{Entries, Entry};
use crate::base::rng::Rng;
use crate::types::hash::{Hash, Lifetime};
use crate::types::list::{End, List};
use crate::types::set::Set;
use crate::types::zset::Zset;
use crate::types::{Span, Type};
use dolmen_slab::Config;

const NOW_MS: u64 = 1_750_000_000_000;
const CONFIG: Config =
    Config { reserve_bytes: 4 << 30, blob_reserve_bytes: 1 << 30, decay_ms: 1000, huge_pages: false };

struct World {
    shard: Shard,
    now_ms: u64,
}

impl World {
    fn new() -> World {
        World { shard: Shard::new(2, 77, CONFIG).unwrap(), now_ms: NOW_MS }
    }

    fn edit(&mut self, kind: Type, name: u32, change: &mut dyn FnMut(&mut Editing<'_, '_>)) {
        let mut db = self.shard.db(0, self.now_ms);
        let name = name.to_le_bytes();
        let key = db.key(&name);
        macro_rules! edit {
            ($type:ident) => {
                db.edit::<$type, _>(key, Missing::Create, |edit| Ok(change(&mut Editing::$type(edit)))).map(|_| ())
            };
        }
        match kind {
            Type::Hash => edit!(Hash),
            Type::Set => edit!(Set),
            Type::Zset => edit!(Zset),
            Type::List => edit!(List),
            Type::String => unreachable!("no container"),
        }
        .unwrap();
    }

    /// Some seconds of an idle server.
    fn rest(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.now_ms += 100;
            while self.shard.background(self.now_ms, true, || true) {}
        }
    }

    /// Memory that counts: what is resident, and the heap.
    fn bytes(&self) -> u64 {
        self.shard.slab().resident_estimate_bytes() + self.shard.heap_bytes()
    }

    /// All elements of a container, sorted where they have no order.
    fn elements(&mut self, kind: Type, name: u32) -> Vec<Vec<u8>> {
        let mut db = self.shard.db(0, self.now_ms);
        let name = name.to_le_bytes();
        let key: Key<'_> = db.key(&name);
        let mut view = db.open_any_view(key, kind, Span::default()).unwrap();
        let mut run = Vec::new();
        while view.next(&mut db, &mut run, 10_000).unwrap() {}
        view.close(&mut db);
        let parts = if kind == Type::Hash {
            3
        } else if kind == Type::Zset {
            2
        } else {
            1
        };
        let texts: Vec<Vec<u8>> = Entries::new(&run).map(Entry::to_vec).collect();
        let mut all: Vec<Vec<u8>> = texts.chunks(parts).map(|element| element.join(&b' ')).collect();
        if kind != Type::List {
            all.sort();
        }
        all
    }
}

enum Editing<'a, 'e> {
    Hash(&'a mut crate::types::Edit<'e, Hash>),
    Set(&'a mut crate::types::Edit<'e, Set>),
    Zset(&'a mut crate::types::Edit<'e, Zset>),
    List(&'a mut crate::types::Edit<'e, List>),
}

impl Editing<'_, '_> {
    fn add(&mut self, n: u32, bytes: usize) {
        let text = format!("{n:0bytes$}.").into_bytes();
        match self {
            Editing::Hash(edit) => {
                _ = edit.set(format!("f{n:07}").as_bytes(), &text, Lifetime::Forever, NOW_MS).unwrap()
            }
            Editing::Set(edit) => _ = edit.add(Entry::of(&text)).unwrap(),
            Editing::Zset(edit) => _ = edit.put(&text, |_| Some(f64::from(n.wrapping_mul(7919) % 100_000))).unwrap(),
            Editing::List(edit) => edit.push(End::Tail, &[&text]).unwrap(),
        }
    }

    fn remove(&mut self, n: u32, bytes: usize) {
        let text = format!("{n:0bytes$}.").into_bytes();
        match self {
            Editing::Hash(edit) => assert!(edit.remove(format!("f{n:07}").as_bytes(), NOW_MS)),
            Editing::Set(edit) => assert!(edit.remove(Entry::of(&text))),
            Editing::Zset(edit) => assert!(edit.remove(&text).is_some()),
            Editing::List(edit) => {
                let index = edit.look().len() - 1;
                edit.trim(0, 1).unwrap();
                assert_eq!(edit.look().len(), index);
            }
        }
    }
}

/// Containers of 1,000 elements that were filled a part at a time, in turns, and then lose all but `keep`: memory within 1.1 times of that of those
/// that never had more. (What is for few is forgiven: a span or two of each class.)
fn shrink(kind: Type, containers: u32, keep: u32, bytes: usize) {
    let mut world = World::new();
    for from in (0..1000).step_by(50) {
        for name in 0..containers {
            world.edit(kind, name, &mut |edit| (from..from + 50).for_each(|n| edit.add(n, bytes)));
        }
        world.rest(1);
    }
    let full = world.bytes();
    let mut rng = Rng::seeded(3);
    for name in 0..containers {
        let mut order: Vec<u32> = (0..1000).collect();
        // Of a list the last ones go.
        if kind != Type::List {
            (1..order.len()).rev().for_each(|i| order.swap(i, usize::try_from(rng.below(i as u64 + 1)).unwrap()));
        }
        for part in order[keep as usize..].chunks(100).rev() {
            world.edit(kind, name, &mut |edit| part.iter().for_each(|&n| edit.remove(n, bytes)));
        }
    }
    let mut fresh = World::new();
    let expected: Vec<_> = (0..containers).map(|name| world.elements(kind, name)).collect();
    for name in 0..containers {
        assert_eq!(expected[name as usize].len(), keep as usize);
        let numbers: Vec<u32> = expected[name as usize].iter().map(|text| number_of(kind, text)).collect();
        fresh.edit(kind, name, &mut |edit| numbers.iter().for_each(|&n| edit.add(n, bytes)));
    }
    fresh.rest(5);
    world.rest(60);
    let (shrunk, fresh) = (world.bytes(), fresh.bytes());
    let forgiven = 20 * 65536;
    assert!(fresh + forgiven < full / 2, "{fresh} fresh, {full} full: too little to tell");
    assert!(
        shrunk <= fresh + fresh / 10 + forgiven,
        "{kind:?} {keep} of {bytes}: {shrunk} bytes, {fresh} in a fresh load, {full} when full; {:?}",
        world.shard.stats
    );
    assert!(!world.shard.is_defragmenting());
    for name in 0..containers {
        assert_eq!(world.elements(kind, name), expected[name as usize]);
    }
    world.shard.flush_all();
    world.rest(1);
    assert_eq!(world.shard.used_bytes(), 0);
}

fn number_of(kind: Type, text: &[u8]) -> u32 {
    let text = std::str::from_utf8(text).unwrap();
    let number = if kind == Type::Hash { &text[1..8] } else { text.split('.').next().unwrap() };
    number.parse().unwrap()
}

#[test]
fn hashes_that_have_shrunk_take_what_small_ones_take() {
    shrink(Type::Hash, 250, 100, 6);
}

#[test]
fn hashes_that_stay_big_do_too() {
    shrink(Type::Hash, 150, 150, 40);
}

#[test]
fn sets_that_have_shrunk() {
    shrink(Type::Set, 250, 100, 10);
    shrink(Type::Set, 150, 200, 20);
}

#[test]
fn sorted_sets_that_have_shrunk() {
    shrink(Type::Zset, 200, 100, 8);
    shrink(Type::Zset, 150, 200, 20);
}

#[test]
fn lists_that_have_shrunk() {
    shrink(Type::List, 400, 60, 10);
    shrink(Type::List, 200, 200, 30);
}

/// The table of a database that was much larger, and chunks of containers of all types, are moved while commands go on; everything stays what it
/// was, whatever is begun, under a snapshot too.
#[test]
fn sweeps_go_on_beside_changes() {
    let mut world = World::new();
    let kinds = [Type::Hash, Type::Set, Type::Zset, Type::List];
    let mut rng = Rng::seeded(9);
    for n in 0..60_000u32 {
        let mut db = world.shard.db(1, NOW_MS);
        db.set_string(db.key(&n.to_be_bytes()), NewValue::Int(n.into()), Deadline::None).unwrap();
    }
    let mut counts = [0u32; 40];
    for round in 0..6000u32 {
        let name = u32::try_from(rng.below(40)).unwrap();
        let (kind, count) = (kinds[name as usize % 4], &mut counts[name as usize]);
        let many = u32::try_from(rng.below(60)).unwrap();
        // They grow for the first third, then shrink.
        let grows = rng.below(100) < if round < 2000 { 90 } else { 35 };
        if grows {
            world.edit(kind, name, &mut |edit| (*count..*count + many).for_each(|n| edit.add(n, 12)));
            *count += many;
        } else if *count > many {
            world.edit(kind, name, &mut |edit| (*count - many..*count).rev().for_each(|n| edit.remove(n, 12)));
            *count -= many;
        }
        if (2000..4000).contains(&round) {
            for n in (round - 2000) * 29..(round - 1999) * 29 {
                let mut db = world.shard.db(1, NOW_MS);
                assert!(db.remove(db.key(&n.to_be_bytes())));
            }
        }
        if round % 7 == 0 {
            world.now_ms += 100;
            // A slice now and then.
            world.shard.background(world.now_ms, true, || false);
        }
        if round % 500 == 499 {
            world.shard.slab.seal_all();
            world.shard.sweep.stage = Stage::Tables { database: 0, cursor: 0 };
        }
        if round % 1000 == 600 {
            let snapshot = world.shard.open_snapshot(0);
            world.shard.background(world.now_ms, true, || false);
            world.shard.close_snapshot(snapshot);
        }
    }
    world.rest(30);
    assert!(world.shard.stats.relocated > 1000 && world.shard.stats.keys_relocated > 0, "{:?}", world.shard.stats);
    for name in 0..40u32 {
        let (kind, count) = (kinds[name as usize % 4], counts[name as usize]);
        if count > 0 {
            let mut numbers: Vec<u32> = world.elements(kind, name).iter().map(|text| number_of(kind, text)).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count), "{kind:?} {name}");
        }
    }
    for n in 0..60_000u32 {
        let mut db = world.shard.db(1, NOW_MS);
        assert_eq!(db.exists(db.key(&n.to_be_bytes())), n >= 58_000, "{n}");
    }
    world.shard.flush_all();
    world.rest(1);
    assert_eq!(world.shard.used_bytes(), 0);
}

/// `activedefrag no` leaves all where it is, and its bounds are kept.
#[test]
fn nothing_moves_unless_it_is_to() {
    let mut world = World::new();
    for name in 0..60 {
        world.edit(Type::Hash, name, &mut |edit| (0..1000).for_each(|n| edit.add(n, 40)));
    }
    for name in 0..60 {
        world.edit(Type::Hash, name, &mut |edit| (0..850).for_each(|n| edit.remove(n, 40)));
    }
    let sparse = world.shard.fragmented_bytes();
    assert!(sparse > 1 << 20);
    let all = Defrag::default();
    for defrag in [
        Defrag { is_on: false, ..all },
        Defrag { ignore_bytes: 2 * sparse, ..all },
        Defrag { threshold_percent: 1000, ..all },
    ] {
        world.shard.defrag = defrag;
        world.rest(2);
        assert_eq!((world.shard.stats.relocated, world.shard.is_defragmenting()), (0, false), "{defrag:?}");
    }
    world.shard.defrag = Defrag { ignore_bytes: sparse / 4, threshold_percent: 10, ..all };
    world.rest(5);
    assert!(world.shard.stats.relocated > 0 && world.shard.fragmented_bytes() < sparse / 4);
    assert!(world.shard.stats.defrag_since_ms.is_none());
}
