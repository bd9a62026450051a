//! What a save shows is what there was at its cut, whatever is done meanwhile: random programs of changes of every kind, with growth, shrinking,
//! evacuation and expiry between the steps. The oracle is a walk over all keys at the cut.

use super::*;
use crate::db::collections::Missing;
use crate::db::transfer::{Content as Copied, Made};
use crate::db::view::Deadline;
use crate::db::{Db, DbError, NewValue};
use crate::types::Edit;
use crate::types::hash::{Hash, Lifetime};
use crate::types::list::{End, List};
use crate::types::set::Set;
use crate::types::zset::Zset;
use dolmen_slab::Config;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(crate) const DATABASES: usize = 3;
const NAMES: u32 = 40;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Set(u32, usize, Option<u64>),
    Fill(u32, u32),
    Thin(u32, u32),
    Append(u32, usize),
    Add(u32),
    /// Adds so many elements to a collection from a number on, or takes them away again.
    Grow(u32, u32, u32),
    Shrink(u32, u32, u32),
    FieldDeadline(u32, u32, u64),
    Remove(u32),
    Rename(u32, u32),
    Move(u32, usize),
    Copy(u32, u32),
    Deadline(u32, Option<u64>),
    Select(usize),
    Swap(usize, usize),
    Flush,
    Wait(u64),
    Background(u32),
    Begin,
    Save(u32),
    GiveUp,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES;
    let len = prop_oneof![6 => 0..90usize, 1 => 9000..30_000usize, 1 => 200_000..700_000usize];
    let deadline = prop_oneof![3 => Just(None), 1 => (1..5000u64).prop_map(Some)];
    prop_oneof![
        8 => (name(), len.clone(), deadline.clone()).prop_map(|(n, len, at)| Step::Set(n, len, at)),
        2 => (0..3000u32, 1..700u32).prop_map(|(from, n)| Step::Fill(from, n)),
        2 => (0..3000u32, 1..900u32).prop_map(|(from, n)| Step::Thin(from, n)),
        3 => (name(), len).prop_map(|(n, len)| Step::Append(n, len)),
        3 => name().prop_map(Step::Add),
        10 => (name(), 0..2000u32, prop_oneof![3 => 1..9u32, 1 => 1..900u32]).prop_map(|(n, from, by)| Step::Grow(n, from, by)),
        6 => (name(), 0..2000u32, prop_oneof![3 => 1..9u32, 1 => 1..900u32]).prop_map(|(n, from, by)| Step::Shrink(n, from, by)),
        2 => (name(), 0..2000u32, 1..9000u64).prop_map(|(n, from, at)| Step::FieldDeadline(n, from, at)),
        4 => name().prop_map(Step::Remove),
        3 => (name(), name()).prop_map(|(n, to)| Step::Rename(n, to)),
        2 => (name(), 1..DATABASES).prop_map(|(n, by)| Step::Move(n, by)),
        3 => (name(), name()).prop_map(|(n, to)| Step::Copy(n, to)),
        3 => (name(), deadline).prop_map(|(n, at)| Step::Deadline(n, at)),
        3 => (0..DATABASES).prop_map(Step::Select),
        1 => (0..DATABASES, 0..DATABASES).prop_map(|(a, b)| Step::Swap(a, b)),
        1 => Just(Step::Flush),
        2 => prop_oneof![1..50u64, 50..6000u64].prop_map(Step::Wait),
        5 => (1..30u32).prop_map(Step::Background),
        3 => Just(Step::Begin),
        12 => prop_oneof![1..6u32, 1..200u32].prop_map(Step::Save),
        1 => Just(Step::GiveUp),
    ]
}

/// A key with all that belongs to it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seen {
    kind: Type,
    pub deadline_ms: Option<u64>,
    /// Of a string: itself; of a collection: its elements, in an order of their own but for lists.
    parts: Vec<Vec<u8>>,
}

pub(crate) type State = BTreeMap<(usize, Vec<u8>), Seen>;

/// Elements of a run, each as it is there.
fn elements(kind: Type, run: &[u8]) -> Vec<Vec<u8>> {
    let of = match kind {
        Type::String => unreachable!("no collection"),
        Type::List | Type::Set => 1,
        Type::Zset => 2,
        Type::Hash => 3,
    };
    let (mut entries, mut all) = (Entries::new(run), Vec::new());
    while !entries.rest().is_empty() {
        let before = entries.rest();
        entries.nth(of - 1).expect("whole elements");
        all.push(before[..before.len() - entries.rest().len()].to_vec());
    }
    if kind != Type::List {
        all.sort();
    }
    all
}

fn text(name: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (name as usize + i * 31).to_le_bytes()[0]).collect()
}

fn name(n: u32) -> Vec<u8> {
    if n == 7 { vec![b'k'; 9000] } else { format!("name:{n}").into_bytes() }
}

/// All that a database has.
pub(crate) fn state_of(db: &mut Db<'_>, all: &mut State) {
    let (mut names, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = db.scan(cursor, |slab, item| {
            let mut name = Vec::new();
            item.append_key(slab, &mut name);
            names.push(name);
        });
        if cursor == 0 {
            break;
        }
    }
    for name in names {
        let key = db.key(&name);
        let copied = db.copied(key).expect("it is there at this time");
        let deadline_ms = copied.deadline_ms;
        let (kind, parts) = match copied.content {
            Copied::Raw(bytes) => (Type::String, vec![bytes]),
            Copied::Int(number) => (Type::String, vec![number.to_string().into_bytes()]),
            Copied::Blob(blob) => (Type::String, vec![bytes_of(&blob)]),
            Copied::Packed(kind, packed) => {
                let mut run = Vec::new();
                unpack(kind, &packed, &mut run);
                (kind, elements(kind, &run))
            }
            Copied::Container(mut view) => {
                let (kind, mut run) = (view.kind(), Vec::new());
                while view.next(db, &mut run, 1 << 20).expect("memory") {}
                view.close(db);
                (kind, elements(kind, &run))
            }
        };
        all.insert((db.index(), name), Seen { kind, deadline_ms, parts });
    }
}

struct World {
    shard: Shard,
    database: usize,
    now_ms: u64,
    /// What is still to be shown of the save that goes on, with the database numbers of its cut.
    want: Option<State>,
    /// The container that was begun.
    open: Option<((usize, Vec<u8>), Seen, Elements)>,
    shown: usize,
    saves: u32,
}

impl World {
    fn new() -> World {
        World {
            shard: Shard::new(DATABASES, 77, Config::default()).unwrap(),
            database: 0,
            now_ms: 1_700_000_000_000,
            want: None,
            open: None,
            shown: 0,
            saves: 0,
        }
    }

    fn db(&mut self) -> Db<'_> {
        self.shard.db(self.database, self.now_ms)
    }

    /// All there is.
    fn state(&mut self) -> State {
        let mut all = State::new();
        // Those that have expired and were not looked at yet are there, too.
        (0..DATABASES).for_each(|index| state_of(&mut self.shard.db(index, 0), &mut all));
        all
    }

    fn save(&mut self, steps: u32) {
        for _ in 0..steps {
            let Some(want) = &mut self.want else { return };
            let (open, shown_keys) = (&mut self.open, &mut self.shown);
            let more = self.shard.save_some(|shown| match shown {
                Shown::Key { database, key, deadline_ms, value, .. } => {
                    assert!(open.is_none());
                    let (kind, parts) = match value {
                        Whole::Raw(bytes) => (Type::String, vec![bytes.to_vec()]),
                        Whole::Int(number) => (Type::String, vec![number.to_string().into_bytes()]),
                        Whole::Blob(blob) => (Type::String, vec![bytes_of(&blob)]),
                        Whole::Elements(of, run) => {
                            let parts = elements(of.kind, run);
                            assert_eq!((parts.len(), is_timed(run) && of.kind == Type::Hash), (of.count, of.timed));
                            (of.kind, parts)
                        }
                    };
                    let seen = Seen { kind, deadline_ms, parts };
                    assert!(want.remove(&(database, key.to_vec())) == Some(seen), "a key is not as it was");
                    *shown_keys += 1;
                }
                Shown::Begin { database, key, deadline_ms, of } => {
                    assert!(open.is_none());
                    let seen = Seen { kind: of.kind, deadline_ms, parts: Vec::new() };
                    *open = Some(((database, key.to_vec()), seen, of));
                }
                Shown::Run { run, last } => {
                    let (_, seen, _) = open.as_mut().expect("it was begun");
                    seen.parts.extend(elements(seen.kind, run));
                    if last {
                        let (name, mut seen, of) = open.take().expect("looked at");
                        let timed = of.kind == Type::Hash
                            && seen.parts.iter().any(|part| Entries::new(part).nth(2) != Some(Entry::Int(0)));
                        assert_eq!((seen.parts.len(), timed), (of.count, of.timed));
                        if seen.kind != Type::List {
                            seen.parts.sort();
                        }
                        assert!(want.remove(&name) == Some(seen), "a collection is not as it was");
                        *shown_keys += 1;
                    }
                }
            });
            if !more.expect("there is memory") {
                assert!(want.is_empty() && self.open.is_none(), "all was shown");
                assert!(!self.shard.is_saving());
                self.want = None;
                self.saves += 1;
            }
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Select(database) => self.database = database,
            Step::Swap(a, b) => self.shard.swap(a, b),
            Step::Wait(ms) => self.now_ms += ms,
            Step::Background(units) => {
                let mut left = units;
                self.shard.background(self.now_ms, true, || {
                    left -= 1;
                    left > 0
                });
            }
            Step::Begin => {
                if self.want.is_none() {
                    let want = self.state();
                    self.shard.begin_saving();
                    assert_eq!(self.shard.is_saving(), !want.is_empty());
                    self.want = (!want.is_empty()).then_some(want);
                }
            }
            Step::Save(steps) => self.save(steps),
            Step::GiveUp => {
                self.shard.end_saving();
                (self.want, self.open) = (None, None);
            }
            _ => apply(&mut self.db(), step),
        }
    }
}

/// Changes data.
pub(crate) fn apply(db: &mut Db<'_>, step: &Step) {
    match *step {
        Step::Set(n, len, at) => {
            let (name, text) = (name(n), text(n, len));
            let deadline = at.map_or(Deadline::None, |by| Deadline::At(db.now_ms() + by));
            let key = db.key(&name);
            db.set_string(key, NewValue::Raw(&text), deadline).unwrap();
        }
        Step::Fill(from, count) => {
            for n in from..from + count {
                let name = format!("filler:{n}");
                let key = db.key(name.as_bytes());
                db.set_string(key, NewValue::Raw(&text(n, n as usize % 60)), Deadline::None).unwrap();
            }
        }
        Step::Thin(from, count) => {
            for n in from..from + count {
                let name = format!("filler:{n}");
                let key = db.key(name.as_bytes());
                db.remove(key);
            }
        }
        Step::Append(n, len) => {
            let (name, text) = (name(n), text(n + 1, len));
            let key = db.key(&name);
            match db.append(key, &text, 2_000_000) {
                Ok(_) | Err(DbError::WrongType | DbError::TooLong) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        Step::Add(n) => {
            let name = name(n);
            let key = db.key(&name);
            let _ = db.add_int(key, 3);
        }
        Step::Grow(n, from, count) => change(db, n, from, count, true),
        Step::Shrink(n, from, count) => change(db, n, from, count, false),
        Step::FieldDeadline(n, from, by) => {
            let (name, now_ms, at) = (name(n), db.now_ms(), db.now_ms() + by);
            let key = db.key(&name);
            let _ = db.edit(key, Missing::Skip, |edit: &mut Edit<'_, Hash>| {
                for field in [from, from + 1, 3, 4] {
                    let field = format!("e{field}");
                    edit.set_deadline(field.as_bytes(), at, now_ms)?;
                }
                Ok(())
            });
            db.arm_fields(key);
        }
        Step::Remove(n) => {
            let name = name(n);
            let key = db.key(&name);
            db.remove(key);
        }
        Step::Rename(n, to) => {
            let (name, to) = (name(n), name(to));
            let (key, to) = (db.key(&name), db.key(&to));
            if db.same_shard(key, to) {
                db.rename(key, to).unwrap();
            }
        }
        Step::Move(n, by) => {
            let (name, to) = (name(n), (db.index() + by) % DATABASES);
            let key = db.key(&name);
            db.move_to(key, to).unwrap();
        }
        Step::Copy(n, to) => {
            let (name, to) = (name(n), name(to));
            let (key, to) = (db.key(&name), db.key(&to));
            let Some(copied) = db.copied(key) else { return };
            // Large ones are copied by other code.
            match copied.content {
                Copied::Raw(_) | Copied::Int(_) | Copied::Packed(..) => {
                    db.put_copied(to, &copied, Made::Nothing).unwrap()
                }
                Copied::Blob(_) | Copied::Container(_) => {}
            }
            copied.close(db);
        }
        Step::Deadline(n, by) => {
            let (name, at) = (name(n), by.map(|by| db.now_ms() + by));
            let key = db.key(&name);
            db.set_deadline(key, at).unwrap();
        }
        Step::Flush => {
            db.flush();
        }
        _ => {}
    }
}

/// Adds elements to a collection, whose type the name tells, or removes them.
fn change(db: &mut Db<'_>, n: u32, from: u32, count: u32, adds: bool) {
    let name = name(n);
    let missing = if adds { Missing::Create } else { Missing::Skip };
    let words: Vec<Vec<u8>> =
        (from..from + count).map(|i| if i % 50 == 0 { text(i, 300) } else { format!("e{i}").into_bytes() }).collect();
    let now_ms = db.now_ms();
    let key = db.key(&name);
    let done = match n % 4 {
        0 => db.edit(key, missing, |edit: &mut Edit<'_, List>| {
            for (i, word) in words.iter().enumerate() {
                let end = if i % 3 == 0 { End::Head } else { End::Tail };
                if adds {
                    edit.push(end, &[word])?;
                } else {
                    edit.pop(end, 1, |_, _| ())?;
                }
            }
            Ok(())
        }),
        1 => db.edit(key, missing, |edit: &mut Edit<'_, Set>| {
            for word in &words {
                if adds {
                    edit.add(Entry::of(word))?;
                } else {
                    edit.remove(Entry::of(word));
                }
            }
            Ok(())
        }),
        2 => db.edit(key, missing, |edit: &mut Edit<'_, Hash>| {
            for word in &words {
                if adds {
                    edit.set(word, word, Lifetime::Forever, now_ms)?;
                } else {
                    edit.remove(word, now_ms);
                }
            }
            Ok(())
        }),
        _ => db.edit(key, missing, |edit: &mut Edit<'_, Zset>| {
            for (i, word) in words.iter().enumerate() {
                if adds {
                    edit.put(word, |_| Some(i as f64))?;
                } else {
                    edit.remove(word);
                }
            }
            Ok(())
        }),
    };
    match done {
        Ok(_) | Err(DbError::WrongType) => {}
        Err(error) => panic!("{error:?}"),
    }
}

fn bytes_of(blob: &BlobRef) -> Vec<u8> {
    (0..blob.segments()).flat_map(|index| blob.segment(index).to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_was_there_at_the_cut_is_shown(steps in vec(step(), 50..250)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        world.save(u32::MAX);
        world.run(&Step::Begin);
        world.save(u32::MAX);
        prop_assert!(world.want.is_none());
        // Nothing is kept when nothing is saved.
        while world.shard.background(world.now_ms, true, || true) {}
        prop_assert_eq!(world.shard.kept_bytes(), 0);
        prop_assert_eq!(world.shard.containers.kept_bytes(), 0);
    }
}
