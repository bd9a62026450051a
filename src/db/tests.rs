//! The keyspace against a map: programs of commands, time, background work and too little memory; then what programs do not reach by
//! chance: many keys of one deadline, memory given back after a mass deletion, a clock that is set back.
use super::item::{DEADLINE_MAX_MS, KEY_INLINE_MAX, value_inline_max};
use super::view::Deadline;
use super::*;
use crate::base::int;
use crate::base::rng::Rng;
use dolmen_slab::{BlobRef, CHUNK_BYTES_MAX, Config, Kind};
use proptest::prelude::*;
use std::collections::BTreeMap;

const START_MS: u64 = 1_750_000_000_123;
const DATABASES: usize = 3;
const MAX_BYTES: usize = 2 << 20;

const ROOMY: Config = Config { reserve_bytes: 1 << 30, blob_reserve_bytes: 1 << 30, decay_ms: 1000, huge_pages: false };
/// Some spans and a few hundred extents: most programs run out of both.
const TIGHT: Config = Config { reserve_bytes: 1 << 20, blob_reserve_bytes: 8 << 20, decay_ms: 1000, huge_pages: false };

/// Bytes that differ by seed, from the first to the last.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

fn number(i: i64) -> Vec<u8> {
    int::write_i64(&mut [0; 20], i).to_vec()
}

/// Key number `n`: the lengths that lie differently first, then short ones.
fn name(n: u8) -> Vec<u8> {
    let alike = |len: usize, last: u8| {
        let mut key = text(4, len);
        key[len - 1] = last;
        key
    };
    match n {
        0 => Vec::new(),
        1 => b"k".to_vec(),
        2 => text(2, 16),
        3 => text(3, 255),
        4 => text(5, KEY_INLINE_MAX),
        5 => alike(KEY_INLINE_MAX + 1, 0),
        6 => alike(KEY_INLINE_MAX + 1, 1),
        7 => alike(100 << 10, 0),
        8 => alike(100 << 10, 1),
        _ => format!("key:{n}{}", "x".repeat(usize::from(n) % 40)).into_bytes(),
    }
}
const NAMES: u8 = 40;

#[derive(Clone, Debug)]
enum Content {
    Short(usize),
    /// So far from the longest value that lies in the item.
    Edge(i8),
    Long(usize),
    Number(i64),
    Int(i64),
    Blob(usize),
}

#[derive(Clone, Copy, Debug)]
enum When {
    None,
    Keep,
    /// After now (or before), in milliseconds.
    In(i64),
    Last,
}

/// A command of a batch.
#[derive(Clone, Copy, Debug)]
enum Short {
    Set(usize),
    Read,
    Remove,
    Flush,
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, u8, Content, When),
    /// So many short keys from a number on.
    Fill(usize, u32, u32, When),
    /// Deletes those whose number is divisible.
    Thin(usize, u32, u32, u32),
    Read(usize, u8),
    Hold(usize, u8),
    LetGo,
    /// Writes over a value of the same length, if the key has one and no deadline.
    Alike(usize, u8),
    /// Commands on short keys, all found out before the first of them runs.
    Batch(usize, Vec<(u32, Short)>),
    Add(usize, u8, i64),
    Append(usize, u8, usize),
    /// A part of so many bytes at a place, at once or prepared aside.
    Put(usize, u8, usize, usize, bool),
    /// Changes so many bytes from an offset on, and reads them.
    Edit(usize, u8, usize, usize),
    Remove(usize, u8),
    SetDeadline(usize, u8, When),
    Rename(usize, u8, u8),
    Move(usize, usize, u8),
    /// From one database and key to another, in slices if it is large.
    Copy(usize, u8, usize, u8),
    Swap(usize, usize),
    Touch(usize, u8),
    Exists(usize, u8),
    Scan(usize),
    Random(usize, u64),
    Flush(usize),
    FlushAll,
    OpenSnapshot(usize),
    /// So many steps of a snapshot.
    Pull(usize, u32),
    CloseSnapshot(usize),
    Wait(u64),
    Background(u32, bool),
    Settle,
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        4 => (0usize..70).prop_map(Content::Short),
        2 => prop_oneof![Just(240), Just(256), Just(257), Just(1000), Just(5000), Just(8192)].prop_map(Content::Short),
        2 => (-12i8..=12).prop_map(Content::Edge),
        1 => (CHUNK_BYTES_MAX - 40..60_000).prop_map(Content::Long),
        1 => prop_oneof![Just(262_143usize), Just(262_144), Just(262_145), Just(1_300_000)].prop_map(Content::Long),
        2 => prop_oneof![Just(i64::MIN), Just(i64::MAX), -100..100i64, any::<i64>()].prop_map(Content::Number),
        2 => prop_oneof![Just(i64::MIN), Just(i64::MAX), -100..100i64, any::<i64>()].prop_map(Content::Int),
        1 => prop_oneof![0usize..100, 10_000usize..50_000].prop_map(Content::Blob),
    ]
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        3 => Just(When::None),
        2 => Just(When::Keep),
        1 => (-1000..=0i64).prop_map(When::In),
        3 => (1..100i64).prop_map(When::In),
        2 => (100..20_000i64).prop_map(When::In),
        1 => (1i64 << 20..1 << 42).prop_map(When::In),
        1 => Just(When::Last),
    ]
}

fn short() -> impl Strategy<Value = Short> {
    prop_oneof![
        60 => (0usize..30).prop_map(Short::Set),
        20 => Just(Short::Read),
        20 => Just(Short::Remove),
        1 => Just(Short::Flush),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let at = || (0..DATABASES, 0..NAMES);
    prop_oneof![
        12 => (at(), content(), when()).prop_map(|((d, n), c, w)| Step::Set(d, n, c, w)),
        1 => (0..DATABASES, 0..3000u32, 1..400u32, when()).prop_map(|(d, from, n, w)| Step::Fill(d, from, n, w)),
        1 => (0..DATABASES, 0..3000u32, 1..1500u32, 1..4u32).prop_map(|(d, from, n, by)| Step::Thin(d, from, n, by)),
        4 => at().prop_map(|(d, n)| Step::Read(d, n)),
        2 => at().prop_map(|(d, n)| Step::Hold(d, n)),
        1 => Just(Step::LetGo),
        2 => at().prop_map(|(d, n)| Step::Alike(d, n)),
        2 => (0..DATABASES, proptest::collection::vec((0..3000u32, short()), 1..200)).prop_map(|(d, b)| Step::Batch(d, b)),
        4 => (at(), prop_oneof![-3..3i64, any::<i64>()]).prop_map(|((d, n), by)| Step::Add(d, n, by)),
        4 => (at(), prop_oneof![0usize..40, 4000usize..20_000]).prop_map(|((d, n), len)| Step::Append(d, n, len)),
        4 => (at(), prop_oneof![0usize..100, 10_000usize..600_000], prop_oneof![1usize..40, 4000usize..20_000], any::<bool>())
            .prop_map(|((d, n), offset, len, aside)| Step::Put(d, n, offset, len, aside)),
        4 => (at(), prop_oneof![0usize..60, 0usize..20_000, 0..1_500_000usize], 1..=super::bits::EDIT_BYTES_MAX)
            .prop_map(|((d, n), offset, len)| Step::Edit(d, n, offset, len)),
        3 => at().prop_map(|(d, n)| Step::Remove(d, n)),
        3 => (at(), when()).prop_map(|((d, n), w)| Step::SetDeadline(d, n, w)),
        4 => (at(), 0..NAMES).prop_map(|((d, n), to)| Step::Rename(d, n, to)),
        3 => (at(), 1..DATABASES).prop_map(|((d, n), by)| Step::Move(d, (d + by) % DATABASES, n)),
        4 => (at(), at()).prop_map(|((d, n), (to, m))| Step::Copy(d, n, to, m)),
        1 => (0..DATABASES, 0..DATABASES).prop_map(|(a, b)| Step::Swap(a, b)),
        1 => at().prop_map(|(d, n)| Step::Touch(d, n)),
        2 => at().prop_map(|(d, n)| Step::Exists(d, n)),
        1 => (0..DATABASES).prop_map(Step::Scan),
        1 => (0..DATABASES, any::<u64>()).prop_map(|(d, seed)| Step::Random(d, seed)),
        1 => (0..DATABASES).prop_map(Step::Flush),
        1 => Just(Step::FlushAll),
        3 => (0..DATABASES).prop_map(Step::OpenSnapshot),
        6 => (any::<usize>(), prop_oneof![1..9u32, 1..300u32]).prop_map(|(i, n)| Step::Pull(i, n)),
        1 => any::<usize>().prop_map(Step::CloseSnapshot),
        4 => prop_oneof![0..20u64, 20..5000u64, Just(3_600_000), Just(30 * 86_400_000), Just(1 << 37)].prop_map(Step::Wait),
        4 => (1..20u32, any::<bool>()).prop_map(|(units, sweep)| Step::Background(units, sweep)),
        1 => Just(Step::Settle),
    ]
}

#[derive(Clone, Debug)]
struct Entry {
    value: Vec<u8>,
    deadline_ms: Option<u64>,
    /// When it was used last.
    used_ms: u64,
}

/// A snapshot, and what it has still to show.
struct Opened {
    snapshot: Snapshot,
    opened_ms: u64,
    left: BTreeMap<Vec<u8>, Entry>,
}

/// A shard and what it should hold. The map knows the keys that are alive; one that has expired may still be in the shard, so lengths
/// are checked by what was ever created and what became of it.
struct World {
    shard: Shard,
    model: Vec<BTreeMap<Vec<u8>, Entry>>,
    now_ms: u64,
    created: u64,
    deleted: u64,
    hits: u64,
    misses: u64,
    held: Vec<(BlobRef, Vec<u8>)>,
    snapshots: Vec<Opened>,
    /// Snapshots that were read to the end, and that there was no memory for.
    shown: u64,
    lost: u64,
    seeds: u64,
    /// Operations that found no memory.
    refused: u64,
    /// Longest value.
    max_bytes: usize,
}

impl World {
    fn new(config: Config) -> World {
        World {
            shard: Shard::new(DATABASES, 99, config).unwrap(),
            model: vec![BTreeMap::new(); DATABASES],
            now_ms: START_MS,
            created: 0,
            deleted: 0,
            hits: 0,
            misses: 0,
            held: Vec::new(),
            snapshots: Vec::new(),
            shown: 0,
            lost: 0,
            seeds: 1000,
            refused: 0,
            max_bytes: MAX_BYTES,
        }
    }

    fn db(&mut self, d: usize) -> Db<'_> {
        self.shard.db(d, self.now_ms)
    }

    /// A key as the pipeline makes it every other time, and as a command makes it for its further keys.
    fn key<'k>(&mut self, d: usize, bytes: &'k [u8]) -> Key<'k> {
        self.seeds += 1;
        if self.seeds.is_multiple_of(2) { self.shard.key(bytes) } else { self.shard.locator(d).key(bytes) }
    }

    fn text(&mut self, len: usize) -> Vec<u8> {
        self.seeds += 1;
        text(self.seeds, len)
    }

    fn at(&self, when: When) -> Option<u64> {
        match when {
            When::None | When::Keep => None,
            When::In(ms) => Some(self.now_ms.saturating_add_signed(ms).min(DEADLINE_MAX_MS)),
            When::Last => Some(DEADLINE_MAX_MS),
        }
    }

    /// What is written becomes the truth, if it is alive at all.
    fn put(&mut self, d: usize, key: Vec<u8>, value: Vec<u8>, deadline_ms: Option<u64>) {
        if deadline_ms.is_some_and(|at| at <= self.now_ms) {
            self.model[d].remove(&key);
        } else {
            self.model[d].insert(key, Entry { value, deadline_ms, used_ms: self.now_ms });
        }
    }

    fn set(&mut self, d: usize, key: &[u8], content: &Content, when: When) {
        let edge = value_inline_max(key.len());
        let value = match *content {
            Content::Short(len) | Content::Long(len) | Content::Blob(len) => self.text(len),
            Content::Edge(by) => self.text(edge.saturating_add_signed(by.into())),
            Content::Number(i) | Content::Int(i) => number(i),
        };
        let deadline = match when {
            When::None => Deadline::None,
            When::Keep => Deadline::Keep,
            _ => Deadline::At(self.at(when).unwrap()),
        };
        let new = match *content {
            Content::Int(i) => NewValue::Int(i),
            Content::Blob(_) => {
                let Ok(blob) = self.shard.blob_new(value.len()) else { return };
                if self.shard.blob_append(blob, &value).is_err() {
                    return self.shard.blob_release(blob);
                }
                NewValue::Blob(blob)
            }
            _ => NewValue::Raw(&value),
        };
        let used = self.shard.used_bytes();
        let placed = self.key(d, key);
        match self.db(d).set_string(placed, new, deadline) {
            Ok(()) => {
                let before = self.model[d].get(key);
                self.created += u64::from(before.is_none());
                let kept = before.and_then(|e| e.deadline_ms);
                let deadline_ms = if matches!(when, When::Keep) { kept } else { self.at(when) };
                self.put(d, key.to_vec(), value, deadline_ms);
            }
            Err(e) => self.failed(e, used, 0),
        }
    }

    /// An operation has failed for want of memory: it left nothing behind but, perhaps, an entry of the wheel, and a longer last extent.
    fn failed(&mut self, e: DbError, used_before: u64, slack: u64) {
        assert_eq!(e, DbError::OutOfMemory);
        self.refused += 1;
        // What was begun and given up may be waiting for the background.
        while self.shard.slab.drain_frees(usize::MAX) {}
        let used = self.shard.used_bytes();
        // With a snapshot open an item may have become the command's own before.
        let slack = if self.snapshots.is_empty() { slack } else { u64::MAX / 2 };
        assert!(used <= used_before + 64 + slack, "{used_before} bytes in use, {used} after a refusal");
    }

    fn open_snapshot(&mut self, d: usize) {
        if self.snapshots.len() < 4 {
            let used = self.shard.used_bytes();
            let snapshot = self.shard.open_snapshot(d);
            assert_eq!(self.shard.used_bytes(), used);
            self.snapshots.push(Opened { snapshot, opened_ms: self.now_ms, left: self.model[d].clone() });
        }
    }

    /// Each key that was alive comes once, with the value and deadline it had.
    fn pull(&mut self, index: usize, steps: u32) {
        for _ in 0..steps {
            let Opened { snapshot, opened_ms, left } = &mut self.snapshots[index];
            let more = self.shard.snapshot_next(snapshot, |slab, item| {
                if item.deadline_ms() <= *opened_ms {
                    return;
                }
                let mut name = Vec::new();
                item.append_key(slab, &mut name);
                let want = left.remove(&name).expect("a key is shown twice, or was not there");
                assert_eq!(item.expiry().map(|e| e.deadline_ms), want.deadline_ms);
                assert!(bytes_in(slab, item.value()) == want.value, "a value has changed under a snapshot");
            });
            match more {
                Ok(true) => {}
                Ok(false) => {
                    assert!(left.is_empty(), "{} keys are missing", left.len());
                    self.shown += 1;
                    return self.close_snapshot(index);
                }
                Err(_) => {
                    self.lost += 1;
                    return self.close_snapshot(index);
                }
            }
        }
    }

    fn close_snapshot(&mut self, index: usize) {
        let Opened { snapshot, .. } = self.snapshots.swap_remove(index);
        assert!(self.shard.snapshot_bytes(&snapshot) as u64 <= self.shard.used_bytes() + self.shard.heap_bytes());
        self.shard.close_snapshot(snapshot);
    }

    fn bytes_of(&self, value: Value<'_>) -> Vec<u8> {
        bytes_in(self.shard.slab(), value)
    }

    fn read(&mut self, d: usize, key: &[u8], counted: bool) -> Option<Vec<u8>> {
        let key = self.key(d, key);
        let mut db = self.shard.db(d, self.now_ms);
        // By one look or thoroughly.
        if counted && self.seeds % 4 < 2 {
            match db.read_plain(key) {
                Plain::Value(bytes) => return Some(bytes.to_vec()),
                Plain::Absent => return None,
                Plain::Seldom => {}
            }
        }
        let value = if counted { db.read_string(key) } else { db.string_for_write(key) }.unwrap()?;
        // The borrow of the value ends here; its bytes stay, since nothing is changed.
        let value = match value {
            Value::Raw(bytes) => return Some(bytes.to_vec()),
            Value::Int(i) => Value::Int(i),
            Value::Blob(id) => Value::Blob(id),
        };
        let bytes = self.bytes_of(value);
        let db = self.shard.db(d, self.now_ms);
        assert_eq!(db.value_len(&value), bytes.len());
        assert!(db.copy_value(&value) == bytes);
        Some(bytes)
    }

    fn count_read(&mut self, found: bool) {
        *(if found { &mut self.hits } else { &mut self.misses }) += 1;
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Set(d, n, ref content, when) => self.set(d, &name(n), content, when),
            Step::Fill(d, from, n, when) => {
                for i in from..from + n {
                    self.set(d, format!("fill:{i:011}").as_bytes(), &Content::Short(i as usize % 24), when);
                }
            }
            Step::Thin(d, from, n, by) => {
                for i in (from..from + n).filter(|i| i.is_multiple_of(by)) {
                    self.remove(d, format!("fill:{i:011}").as_bytes());
                }
            }
            Step::Read(d, n) => {
                let got = self.read(d, &name(n), true);
                let want = self.used(d, &name(n)).map(|e| e.value);
                self.count_read(want.is_some());
                assert!(got == want, "key {n}");
            }
            Step::Hold(d, n) => {
                self.used(d, &name(n));
                let mut db = self.shard.db(d, self.now_ms);
                if let Ok(Some(Value::Blob(id))) = db.string_for_write(db.key(&name(n))) {
                    let blob = db.blob_ref(id);
                    self.held.push((blob, self.model[d][&name(n)].value.clone()));
                }
            }
            Step::LetGo => drop(self.held.pop()),
            Step::Alike(d, n) => {
                let key = name(n);
                let old = self.model[d].get(&key).cloned();
                let value = self.text(old.as_ref().map_or(5, |e| e.value.len()));
                let placed = self.key(d, &key);
                if self.db(d).overwrite_alike(placed, &value) {
                    assert!(old.is_some_and(|e| e.deadline_ms.is_none()));
                    self.put(d, key, value, None);
                }
            }
            Step::Batch(d, ref commands) => self.batch(d, commands),
            Step::Add(d, n, by) => self.add(d, &name(n), by),
            Step::Append(d, n, len) => self.append(d, &name(n), len),
            Step::Put(d, n, offset, len, aside) => self.put_part(d, &name(n), offset, len, aside),
            Step::Edit(d, n, offset, len) => self.edit(d, &name(n), offset, len),
            Step::Remove(d, n) => self.remove(d, &name(n)),
            Step::SetDeadline(d, n, when) => self.set_deadline(d, &name(n), self.at(when)),
            Step::Rename(d, n, to) => self.rename(d, &name(n), &name(to)),
            Step::Move(d, to, n) => self.move_to(d, to, &name(n)),
            Step::Copy(d, n, to, m) => {
                if (d, n) != (to, m) {
                    self.copy((d, &name(n)), (to, &name(m)));
                }
            }
            Step::Swap(a, b) => {
                self.shard.swap(a, b);
                self.model.swap(a, b);
            }
            Step::Touch(d, n) => {
                let want = self.used(d, &name(n)).is_some();
                self.count_read(want);
                let key = name(n);
                let key = self.key(d, &key);
                assert_eq!(self.db(d).touch_key(key), want);
            }
            Step::Exists(d, n) => {
                let entry = self.model[d].get(&name(n)).cloned();
                let want = entry.as_ref().map(|e| e.deadline_ms);
                let key = name(n);
                let key = self.key(d, &key);
                let now_ms = self.now_ms;
                let idle = self.db(d).look_at(key).map(|item| access::idle_seconds(&item, now_ms));
                assert_eq!(idle.is_some(), entry.is_some());
                self.count_read(idle.is_some());
                if let (Some(idle), Some(entry)) = (idle, entry) {
                    let seconds = (now_ms - entry.used_ms) / 1000;
                    assert!(seconds > 9 * 86_400 || idle.abs_diff(seconds) <= 1, "{idle} for {seconds}");
                }
                let mut db = self.db(d);
                assert_eq!(db.exists(key), want.is_some());
                assert_eq!(db.deadline_for_write(key), want);
                assert_eq!(db.deadline_ms(key), want);
                assert_eq!(db.type_of(key), want.map(|_| Type::String));
                (0..3).for_each(|_| self.count_read(want.is_some()));
            }
            Step::Scan(d) => self.scan(d),
            Step::Random(d, seed) => {
                let dead = self.dead(d);
                let mut rng = Rng::seeded(seed);
                match self.db(d).random_key(|| rng.next_u64()) {
                    Some(key) => assert!(self.model[d].contains_key(&key) || dead >= 100),
                    None => assert!(self.model[d].is_empty()),
                }
            }
            Step::Flush(d) => {
                let len = self.db(d).len();
                assert_eq!(self.db(d).flush(), len);
                self.deleted += len as u64;
                self.model[d].clear();
            }
            Step::FlushAll => {
                let len = (0..DATABASES).map(|d| self.db(d).len()).sum::<usize>();
                assert_eq!(self.shard.flush_all(), len);
                self.deleted += len as u64;
                self.model.iter_mut().for_each(BTreeMap::clear);
            }
            Step::OpenSnapshot(d) => self.open_snapshot(d),
            Step::Pull(i, steps) if !self.snapshots.is_empty() => self.pull(i % self.snapshots.len(), steps),
            Step::CloseSnapshot(i) if !self.snapshots.is_empty() => self.close_snapshot(i % self.snapshots.len()),
            Step::Pull(..) | Step::CloseSnapshot(_) => {}
            Step::Wait(ms) => self.advance(ms),
            Step::Background(units, sweep) => {
                let mut left = units;
                self.shard.background(self.now_ms, sweep, || {
                    left -= 1;
                    left > 0
                });
            }
            Step::Settle => self.settle(),
        }
        self.check();
    }

    fn batch(&mut self, d: usize, commands: &[(u32, Short)]) {
        let names: Vec<_> = commands.iter().map(|(n, _)| format!("fill:{n:011}").into_bytes()).collect();
        let keys: Vec<_> = names.iter().map(|name| self.shard.locator(d).key(name)).collect();
        let value = self.text(30);
        let mut db = self.shard.db(d, self.now_ms);
        for (key, (_, command)) in keys.iter().zip(commands) {
            let model = &mut self.model[d];
            match *command {
                Short::Set(len) => {
                    if db.set_string(*key, NewValue::Raw(&value[..len]), Deadline::None).is_ok() {
                        let entry = Entry { value: value[..len].to_vec(), deadline_ms: None, used_ms: self.now_ms };
                        self.created += u64::from(model.insert(key.bytes.to_vec(), entry).is_none());
                    }
                }
                Short::Read => {
                    let got = db.string_for_write(*key).unwrap().map(|v| matches!(v, Value::Raw(_)));
                    let want = model.get_mut(key.bytes).map(|e| e.used_ms = self.now_ms);
                    assert_eq!(got, want.map(|()| true));
                }
                Short::Remove => {
                    let want = model.remove(key.bytes).is_some();
                    assert_eq!(db.remove(*key), want);
                    self.deleted += u64::from(want);
                }
                Short::Flush => {
                    self.deleted += db.flush() as u64;
                    model.clear();
                }
            }
        }
    }

    fn advance(&mut self, ms: u64) {
        self.now_ms = (self.now_ms + ms).min(DEADLINE_MAX_MS - 1000);
        let now_ms = self.now_ms;
        for model in &mut self.model {
            model.retain(|_, e| e.deadline_ms.is_none_or(|at| at > now_ms));
        }
    }

    fn add(&mut self, d: usize, key: &[u8], by: i64) {
        let used = self.shard.used_bytes();
        let old = self.model[d].get(key).cloned();
        let want = match &old {
            None => Ok(by),
            Some(e) => match int::parse_i64(&e.value) {
                None => Err(DbError::NotAnInteger),
                Some(i) => i.checked_add(by).ok_or(DbError::Overflow),
            },
        };
        let placed = self.key(d, key);
        let got = self.db(d).add_int(placed, by);
        if got == Err(DbError::OutOfMemory) {
            return self.failed(DbError::OutOfMemory, used, 0);
        }
        assert_eq!(got, want);
        if let Ok(sum) = got {
            self.created += u64::from(old.is_none());
            self.put(d, key.to_vec(), number(sum), old.and_then(|e| e.deadline_ms));
        }
    }

    fn append(&mut self, d: usize, key: &[u8], len: usize) {
        let tail = self.text(len);
        let used = self.shard.used_bytes();
        let old = self.model[d].get(key).cloned();
        let mut value = old.as_ref().map_or(Vec::new(), |e| e.value.clone());
        value.extend_from_slice(&tail);
        let placed = self.key(d, key);
        let max_bytes = self.max_bytes;
        match self.db(d).append(placed, &tail, max_bytes) {
            Ok(len) => {
                assert_eq!(len, value.len());
                self.created += u64::from(old.is_none());
                self.put(d, key.to_vec(), value, old.and_then(|e| e.deadline_ms));
            }
            Err(DbError::TooLong) => assert!(value.len() > max_bytes),
            Err(e) => self.failed(e, used, 256 << 10),
        }
    }

    fn put_part(&mut self, d: usize, key: &[u8], offset: usize, len: usize, aside: bool) {
        let part = self.text(len);
        let used = self.shard.used_bytes();
        let old = self.model[d].get(key).cloned();
        let mut value = old.as_ref().map_or(Vec::new(), |e| e.value.clone());
        value.resize(value.len().max(offset + len), 0);
        value[offset..offset + len].copy_from_slice(&part);
        let placed = self.key(d, key);
        let mut db = self.shard.db(d, self.now_ms);
        let done = if aside && value.len() > value_inline_max(key.len()) {
            // As a task does it, in two pieces.
            db.patch_new(placed).and_then(|patched| {
                let (first, second) = part.split_at(len / 2);
                let done = db
                    .patch(placed, patched, offset, first)
                    .and_then(|()| db.patch(placed, patched, offset + first.len(), second));
                if done.is_err() {
                    db.blob_drop(placed, patched);
                }
                done.and_then(|()| db.set_string(placed, NewValue::Blob(patched), Deadline::Keep)).map(|()| value.len())
            })
        } else {
            db.set_range(placed, offset, &part)
        };
        match done {
            Ok(len) => {
                assert_eq!(len, value.len());
                self.created += u64::from(old.is_none());
                self.put(d, key.to_vec(), value, old.and_then(|e| e.deadline_ms));
            }
            // A last extent that was made larger stays so, and may be a copy of a shared one.
            Err(e) => self.failed(e, used, 512 << 10),
        }
    }

    fn edit(&mut self, d: usize, key: &[u8], offset: usize, len: usize) {
        let new = self.text(len);
        let old = self.model[d].get(key).cloned();
        let mut value = old.as_ref().map_or(Vec::new(), |e| e.value.clone());
        let grows = old.is_none() || value.len() < offset + len;
        value.resize(value.len().max(offset + len), 0);
        let before = value.clone();
        value[offset..offset + len].copy_from_slice(&new);
        let deadline_ms = old.as_ref().and_then(|e| e.deadline_ms);
        let placed = self.key(d, key);
        let mut seen = Vec::new();
        let edited = self.db(d).edit_string(placed, offset, len, |bytes| {
            seen.extend_from_slice(bytes);
            bytes.copy_from_slice(&new);
        });
        match edited {
            Ok(edited) => {
                assert_eq!(seen, before[offset..offset + len]);
                assert_eq!((edited.grew, edited.changed), (grows, before != value));
                self.created += u64::from(old.is_none());
                self.put(d, key.to_vec(), value, deadline_ms);
                let mut part = [0; 20];
                let placed = self.key(d, key);
                let mut db = self.db(d);
                let n = db.read_part(placed, offset, &mut part).unwrap();
                let snapshot = db.string_snapshot(placed).unwrap().expect("it is there");
                let want = &self.model[d][key].value;
                assert!(part[..n] == want[offset..want.len().min(offset + part.len())]);
                assert!(
                    snapshot.len() == want.len() && !snapshot.is_empty() && snapshot.piece(want.len(), 9).is_empty()
                );
                let mut at = 0;
                while at < want.len() {
                    let piece = snapshot.piece(at, 100_000);
                    assert!(!piece.is_empty() && want[at..].starts_with(piece));
                    at += piece.len();
                }
                (0..2).for_each(|_| self.count_read(true));
            }
            Err(e) => {
                assert_eq!(e, DbError::OutOfMemory);
                // It may have grown before the copy failed of what a reader sees.
                if let Some(now) = self.read(d, key, false) {
                    assert!(old.as_ref().is_some_and(|e| e.value == now) || now == before);
                    self.created += u64::from(old.is_none());
                    self.put(d, key.to_vec(), now, deadline_ms);
                } else {
                    assert!(old.is_none());
                }
            }
        }
    }

    /// The entry of a key that is used now.
    fn used(&mut self, d: usize, key: &[u8]) -> Option<Entry> {
        let now_ms = self.now_ms;
        let entry = self.model[d].get_mut(key)?;
        entry.used_ms = now_ms;
        Some(entry.clone())
    }

    fn rename(&mut self, d: usize, from: &[u8], to: &[u8]) {
        let used = self.shard.used_bytes();
        let keys = (self.key(d, from), self.key(d, to));
        match self.db(d).rename(keys.0, keys.1) {
            Ok(found) => {
                let entry = self.used(d, from);
                assert_eq!(found, entry.is_some());
                if let Some(entry) = entry.filter(|_| from != to) {
                    self.model[d].remove(from);
                    self.deleted += u64::from(self.model[d].insert(to.to_vec(), entry).is_some());
                }
            }
            Err(e) => self.failed(e, used, 0),
        }
    }

    fn move_to(&mut self, d: usize, to: usize, key: &[u8]) {
        let used = self.shard.used_bytes();
        let placed = self.key(d, key);
        let entry = self.used(d, key);
        match self.db(d).move_to(placed, to) {
            Ok(moved) => {
                let want = match (&entry, self.model[to].contains_key(key)) {
                    (None, _) => transfer::Moved::Missing,
                    (_, true) => transfer::Moved::Occupied,
                    _ => transfer::Moved::Done,
                };
                assert_eq!(moved, want);
                if let (Some(entry), transfer::Moved::Done) = (entry, moved) {
                    self.model[d].remove(key);
                    self.model[to].insert(key.to_vec(), entry);
                }
            }
            Err(e) => self.failed(e, used, 0),
        }
    }

    fn copy(&mut self, (d, from): (usize, &[u8]), (to, key): (usize, &[u8])) {
        let placed = self.key(d, from);
        let copied = self.db(d).copied(placed);
        let entry = self.used(d, from);
        self.count_read(entry.is_some());
        let (Some(copied), Some(entry)) = (copied, entry) else { return };
        assert_eq!(copied.deadline_ms, entry.deadline_ms);
        let used = self.shard.used_bytes();
        let mut blob = transfer::Made::Nothing;
        if let transfer::Content::Blob(whole) = &copied.content {
            let made = self.shard.blob_new(whole.len()).and_then(|id| {
                let all = (0..whole.segments()).try_for_each(|i| self.shard.blob_append(id, whole.segment(i)));
                all.map(|()| id).inspect_err(|_| self.shard.blob_release(id))
            });
            match made {
                Ok(id) => blob = transfer::Made::Blob(id),
                Err(e) => return self.failed(e, used, 0),
            }
        }
        let placed = self.key(to, key);
        match self.db(to).put_copied(placed, &copied, blob) {
            Ok(()) => {
                self.created += u64::from(!self.model[to].contains_key(key));
                self.put(to, key.to_vec(), entry.value, entry.deadline_ms);
            }
            Err(e) => self.failed(e, used, 0),
        }
    }

    fn remove(&mut self, d: usize, key: &[u8]) {
        let want = self.model[d].remove(key).is_some();
        let placed = self.key(d, key);
        assert_eq!(self.db(d).remove(placed), want);
        self.deleted += u64::from(want);
    }

    fn set_deadline(&mut self, d: usize, key: &[u8], deadline_ms: Option<u64>) {
        let used = self.shard.used_bytes();
        let placed = self.key(d, key);
        match self.db(d).set_deadline(placed, deadline_ms) {
            Ok(found) => {
                assert_eq!(found, self.model[d].contains_key(key));
                if let Some(e) = self.model[d].remove(key) {
                    self.put(d, key.to_vec(), e.value, deadline_ms);
                }
            }
            Err(e) => self.failed(e, used, 0),
        }
    }

    fn scan(&mut self, d: usize) {
        let mut names = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = self.db(d).scan(cursor, |slab, item| {
                let mut name = Vec::new();
                item.append_key(slab, &mut name);
                assert_eq!(item.key_len(slab), name.len());
                names.push(name);
            });
            if cursor == 0 {
                break;
            }
        }
        names.sort();
        assert!(names.iter().eq(self.model[d].keys()), "the walk saw {} keys", names.len());
    }

    /// Keys that have expired and are still there.
    fn dead(&self, d: usize) -> u64 {
        let len = self.shard.databases()[d].len();
        assert!(len >= self.model[d].len(), "keys are lost");
        (len - self.model[d].len()) as u64
    }

    fn check(&self) {
        let mut len = 0;
        for d in 0..DATABASES {
            let with_deadline = self.model[d].values().filter(|e| e.deadline_ms.is_some()).count() as u64;
            assert_eq!(self.shard.databases()[d].expires(), with_deadline + self.dead(d));
            len += self.shard.databases()[d].len() as u64;
        }
        let stats = self.shard.stats;
        assert_eq!(len + stats.expired + self.deleted, self.created, "expired {}", stats.expired);
        assert_eq!((stats.hits, stats.misses), (self.hits, self.misses));
        for (blob, bytes) in &self.held {
            assert_eq!(blob.len(), bytes.len());
            let mut rest = &bytes[..];
            for i in 0..blob.segments() {
                rest = rest.strip_prefix(blob.segment(i)).expect("a held value has changed");
            }
        }
    }

    fn work_off(&mut self) {
        let mut left = 10_000_000;
        let more = self.shard.background(self.now_ms, true, || {
            left -= 1;
            left > 0
        });
        assert!(!more, "background work without end");
    }

    /// All that is due is done: what has expired is gone.
    fn settle(&mut self) {
        let tick_ms = wheel::TICK_MS;
        self.advance(tick_ms - self.now_ms % tick_ms);
        self.work_off();
        for d in 0..DATABASES {
            assert_eq!(self.dead(d), 0, "not expired on time");
        }
        assert_eq!(self.shard.lazy_pending(), 0);
        assert!(self.shard.is_drained(self.shard.flush_mark()));
    }

    /// Everything is as it should be; then all of it goes, and nothing stays behind.
    fn finish(mut self) {
        // Those that are left are read to the end, the oldest last.
        while let Some(last) = self.snapshots.len().checked_sub(1) {
            self.pull(last, u32::MAX);
        }
        self.settle();
        self.check();
        for d in 0..DATABASES {
            for (key, entry) in self.model[d].clone() {
                assert!(self.read(d, &key, false) == Some(entry.value), "key of {} bytes", key.len());
                let mut db = self.db(d);
                assert_eq!(db.deadline_for_write(db.key(&key)), Some(entry.deadline_ms));
            }
            self.scan(d);
        }
        self.step(&Step::FlushAll);
        self.work_off();
        self.check();
        self.held.clear();
        self.work_off();
        let slab = self.shard.slab();
        assert_eq!(slab.blob_stats().blobs, 0, "blobs nobody owns");
        assert_eq!(live_items(slab), 0, "items that no table names");
        assert_eq!((slab.used_bytes(), self.shard.overhead_bytes()), (0, 0));
    }
}

fn bytes_in(slab: &Slab, value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Raw(bytes) => bytes.to_vec(),
        Value::Int(i) => number(i),
        Value::Blob(id) => (0..slab.blob_segments(id)).flat_map(|i| slab.blob_segment(id, i).to_vec()).collect(),
    }
}

fn live_items(slab: &Slab) -> usize {
    slab.class_stats().filter(|c| c.kind == Kind::Item).map(|c| c.live_chunks).sum()
}

fn run(config: Config, steps: &[Step]) {
    let mut world = World::new(config);
    for step in steps {
        world.step(step);
    }
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs(steps in proptest::collection::vec(step(), 1..150)) {
        run(ROOMY, &steps);
    }

    /// Whatever is refused changes nothing and leaks nothing.
    #[test]
    fn programs_short_of_memory(steps in proptest::collection::vec(step(), 1..150)) {
        run(TIGHT, &steps);
    }
}

/// With every class of chunks and all blob memory used up, each operation on each kind of item either needs no memory or is refused
/// as a whole.
#[test]
fn without_any_memory_everything_stays_as_it_is() {
    let contents = [
        Content::Short(0),
        Content::Short(20),
        Content::Number(77),
        Content::Int(-5),
        Content::Edge(0),
        Content::Edge(1),
        Content::Blob(30_000),
    ];
    let whens = [When::None, When::Keep, When::In(0), When::In(5000), When::Last];
    for before in &contents {
        for deadline in [When::None, When::In(3000)] {
            let mut world = World::new(TIGHT);
            let names = [0, 1, 2, 4, 5];
            for n in names {
                world.set(0, &name(n), before, deadline);
            }
            assert_eq!(world.refused, 0);
            let mut spare = 0;
            for len in [30_000, 16_200, 9000, 4000, 1000, 300, 60, 20, 0] {
                let refused = world.refused;
                while world.refused == refused {
                    spare += 1;
                    let content = if len > CHUNK_BYTES_MAX { Content::Long(len) } else { Content::Short(len) };
                    world.set(2, format!("spare:{spare}").as_bytes(), &content, When::None);
                }
            }
            let mut refused = [0; 8];
            for n in names {
                let mut tried = |i: usize, world: &mut World, operation: &dyn Fn(&mut World)| {
                    let before = world.refused;
                    operation(world);
                    world.check();
                    let want = world.model[0].get(&name(n)).map(|e| e.value.clone());
                    assert!(world.read(0, &name(n), false) == want);
                    refused[i] += world.refused - before;
                };
                tried(2, &mut world, &|w| w.add(0, &name(n), 1));
                for content in &contents {
                    for when in whens.iter().filter(|when| !matches!(when, When::In(0))) {
                        tried(0, &mut world, &|w| w.set(0, &name(n), content, *when));
                    }
                }
                for len in [0, 1, 9, 3000, 20_000] {
                    tried(1, &mut world, &|w| w.append(0, &name(n), len));
                }
                for at_ms in [None, Some(START_MS + 9000), None, Some(DEADLINE_MAX_MS)] {
                    tried(3, &mut world, &|w| w.set_deadline(0, &name(n), at_ms));
                }
                tried(4, &mut world, &|w| w.set(1, &name(n), &contents[1], When::In(100)));
                tried(5, &mut world, &|w| w.rename(0, &name(n), &name(n + 10)));
                world.rename(0, &name(n + 10), &name(n));
                tried(6, &mut world, &|w| w.move_to(0, 1, &name(n)));
                world.move_to(1, 0, &name(n));
                tried(7, &mut world, &|w| w.copy((0, &name(n)), (1, &name(n + 10))));
            }
            assert!([0, 1, 4, 5, 7].iter().all(|&i| refused[i] > 0), "refused {refused:?}");
            world.finish();
        }
    }
}

/// Keys that share a deadline share a code of the wheel, and with many keys some of them are neighbours in the table with the same
/// tag: each must be found by its own entry all the same, when it fires as well as when it moves down a level.
#[test]
fn many_keys_of_one_deadline_all_go_on_time() {
    const MANY: u32 = 40_000;
    for wait_ms in [1000, 20_000, 10 * 60_000] {
        let mut world = World::new(ROOMY);
        let at_ms = START_MS + wait_ms;
        for i in 0..MANY {
            let mut db = world.db(0);
            let key = format!("many:{i:011}");
            db.set_string(db.key(key.as_bytes()), NewValue::Raw(b"v"), Deadline::At(at_ms)).unwrap();
        }
        while world.now_ms < at_ms - 1 {
            world.now_ms = (world.now_ms + 500 + wait_ms / 100).min(at_ms - 1);
            while world.shard.background(world.now_ms, false, || false) {}
            assert_eq!(world.db(0).len(), MANY as usize, "early");
        }
        world.now_ms = at_ms + wheel::TICK_MS;
        world.work_off();
        assert_eq!((world.db(0).len(), world.shard.databases()[0].expires()), (0, 0), "after {wait_ms} ms");
        assert_eq!(world.shard.stats.expired, u64::from(MANY));
        world.created = MANY.into();
        world.finish();
    }
}

/// A key that is deleted, and one whose deadline is taken away and set again, leave entries; they do not pile up, and a purge leaves
/// every key its own.
#[test]
fn stale_entries_are_dropped_and_no_key_is() {
    let mut world = World::new(ROOMY);
    for round in 0..20u64 {
        for i in 0..2000u32 {
            let mut db = world.db(0);
            let key = format!("many:{i:011}");
            let key = db.key(key.as_bytes());
            db.set_string(key, NewValue::Raw(b"v"), Deadline::At(START_MS + 100_000 + round)).unwrap();
            if i % 2 == 0 {
                db.set_deadline(key, None).unwrap();
                db.set_deadline(key, Some(START_MS + 50_000 + u64::from(i) % 100)).unwrap();
            }
            if round < 19 {
                db.remove(key);
            }
        }
        world.work_off();
        let wheel = world.shard.databases[0].wheel.as_ref().unwrap();
        let live = world.shard.databases[0].expires();
        assert!(!wheel.is_stale(live), "{} entries for {live} keys", wheel.entries());
    }
    for (now_ms, len) in [(START_MS + 49_000, 2000), (START_MS + 51_000, 1000), (START_MS + 101_000, 0)] {
        world.now_ms = now_ms;
        world.work_off();
        assert_eq!(world.db(0).len(), len);
    }
}

/// After 90% of many small keys are deleted, their pages go back, and what was moved is whole: values, deadlines, the time they fire.
#[test]
fn evacuation_gives_memory_back_and_keeps_every_survivor() {
    let mut world = World::new(ROOMY);
    let mut rng = Rng::seeded(5);
    let key_of = |i: u32| format!("key:{i:012}").into_bytes();
    let value_of = |i: u32| text(u64::from(i), i as usize % 50);
    let deadline_of = |i: u32| i.is_multiple_of(3).then(|| START_MS + 600_000 + u64::from(i % 1000));
    let mut survivors = Vec::new();
    for i in 0..200_000 {
        let mut db = world.db((i % 2) as usize);
        let deadline = deadline_of(i).map_or(Deadline::None, Deadline::At);
        db.set_string(db.key(&key_of(i)), NewValue::Raw(&value_of(i)), deadline).unwrap();
    }
    for i in 0..200_000 {
        if rng.below(10) == 0 {
            survivors.push(i);
        } else {
            let mut db = world.db((i % 2) as usize);
            assert!(db.remove(db.key(&key_of(i))));
        }
    }
    for _ in 0..100 {
        world.now_ms += 100;
        while world.shard.background(world.now_ms, true, || false) {}
    }
    assert!(world.shard.stats.relocated > 0);
    let slab = world.shard.slab();
    let (used, resident) = (slab.used_bytes(), slab.resident_estimate_bytes());
    assert!(resident <= used + used / 10 + (2 << 20), "{resident} resident for {used} in use");
    for &i in &survivors {
        let d = (i % 2) as usize;
        assert!(world.read(d, &key_of(i), false) == Some(value_of(i)), "key {i}");
        let mut db = world.db(d);
        assert_eq!(db.deadline_for_write(db.key(&key_of(i))), Some(deadline_of(i)));
    }
    world.now_ms = START_MS + 602_000;
    world.work_off();
    let left = survivors.iter().filter(|&&i| deadline_of(i).is_none()).count();
    assert_eq!(world.db(0).len() + world.db(1).len(), left, "deadlines that did not fire");
    world.shard.flush_all();
    world.work_off();
    assert_eq!(world.shard.used_bytes(), 0);
}

/// A database that was emptied key by key still has a table; flushing gives it back as well.
#[test]
fn flush_of_a_database_that_has_just_become_empty() {
    let mut world = World::new(ROOMY);
    for i in 0..100u8 {
        let mut db = world.db(0);
        db.set_string(db.key(&[i]), NewValue::Raw(b"v"), Deadline::None).unwrap();
    }
    for i in 0..100u8 {
        let mut db = world.db(0);
        assert!(db.remove(db.key(&[i])));
    }
    assert_eq!(world.db(0).flush(), 0);
    world.work_off();
    assert_eq!(world.shard.used_bytes(), 0);
}

#[test]
fn what_was_flushed_is_pending_until_it_is_freed() {
    let mut world = World::new(ROOMY);
    for i in 0..5000u32 {
        let mut db = world.db(1);
        db.set_string(db.key(&i.to_le_bytes()), NewValue::Int(1), Deadline::None).unwrap();
    }
    assert_eq!(world.db(1).flush(), 5000);
    let mark = world.shard.flush_mark();
    let mut before = 5000;
    assert_eq!(world.shard.lazy_pending(), before);
    while world.shard.background(START_MS, false, || false) {
        assert!(world.shard.lazy_pending() < before || before == 0);
        before = world.shard.lazy_pending();
        assert_eq!(live_items(world.shard.slab()), before);
    }
    assert_eq!((world.shard.lazy_pending(), world.shard.used_bytes()), (0, 0));
    assert!(world.shard.is_drained(mark));
}

/// While the clock stands before a deadline again, the key lives; afterwards it goes on time.
#[test]
fn a_clock_that_is_set_back_expires_nothing_early_and_nothing_late() {
    let mut world = World::new(ROOMY);
    for i in 0..1000u32 {
        let mut db = world.db(0);
        db.set_string(db.key(&i.to_le_bytes()), NewValue::Int(1), Deadline::At(START_MS + 1000)).unwrap();
    }
    for now_ms in [START_MS + 900, START_MS - 3_600_000, START_MS + 500, START_MS - 10, START_MS + 999] {
        world.now_ms = now_ms;
        world.work_off();
        assert_eq!(world.db(0).len(), 1000);
        let mut db = world.db(0);
        assert!(db.exists(db.key(&7u32.to_le_bytes())));
    }
    world.now_ms = START_MS + 1000 + wheel::TICK_MS;
    world.work_off();
    assert_eq!(world.db(0).len(), 0);
}

/// Whatever is done to a value with holes, to the key and to the whole database: what a snapshot shows of it stays.
#[test]
fn a_snapshot_of_a_value_with_holes() {
    const HOLE: usize = 7 * dolmen_slab::SEGMENT_BYTES;
    const MAX: u32 = 1000;
    type Write = fn(&mut World);
    let writes: [(&str, Write); 14] = [
        ("append", |w| w.append(0, b"k", 100)),
        ("append much", |w| w.append(0, b"k", 600_000)),
        ("edit a hole", |w| w.edit(0, b"k", HOLE / 2, 1)),
        ("edit the head", |w| w.edit(0, b"k", 2, 1)),
        ("grow", |w| w.edit(0, b"k", 2 * HOLE, 1)),
        ("put into a hole", |w| w.put_part(0, b"k", HOLE / 3, 300_000, false)),
        ("put aside", |w| w.put_part(0, b"k", HOLE / 3, 300_000, true)),
        ("put over the end", |w| w.put_part(0, b"k", HOLE - 5, 300_000, true)),
        ("overwrite", |w| w.set(0, b"k", &Content::Short(3), When::Keep)),
        ("deadline", |w| w.set_deadline(0, b"k", Some(START_MS + 5000))),
        ("rename", |w| w.rename(0, b"k", b"l")),
        ("move", |w| w.move_to(0, 1, b"k")),
        ("swap", |w| w.step(&Step::Swap(0, 1))),
        ("flush", |w| w.step(&Step::Flush(0))),
    ];
    for (i, (one, first)) in writes.iter().enumerate() {
        // Each with a third of the others.
        for (other, second) in writes.iter().skip(i % 3).step_by(3) {
            let mut world = World::new(ROOMY);
            world.max_bytes = 64 << 20;
            world.set(0, b"k", &Content::Long(20_000), When::None);
            world.edit(0, b"k", HOLE - 1, 1);
            let used = world.shard.used_bytes();
            assert!(used < 1 << 20, "{used} bytes for a hole");
            world.open_snapshot(0);
            first(&mut world);
            world.open_snapshot(1);
            world.open_snapshot(0);
            second(&mut world);
            world.work_off();
            world.check();
            while !world.snapshots.is_empty() {
                world.pull(0, MAX);
            }
            assert_eq!((world.shown, world.lost), (3, 0), "{one}, {other}");
            world.finish();
        }
    }
}

/// A snapshot of many keys shows them all as they were, while every one of them is written to, deleted or flushed away; and what it keeps
/// is in proportion to what changed ahead of it.
#[test]
fn a_snapshot_of_many_keys_is_of_one_instant() {
    const MANY: u32 = 30_000;
    for flush in [false, true] {
        let mut world = World::new(ROOMY);
        let name = |i: u32| format!("many:{i:011}").into_bytes();
        for i in 0..MANY {
            let when = if i % 3 == 0 { When::In(1_000_000 + i64::from(i)) } else { When::None };
            world.set(0, &name(i), &Content::Short(i as usize % 40), when);
        }
        world.work_off();
        let used = world.shard.used_bytes();
        world.open_snapshot(0);
        world.set(0, &name(7), &Content::Short(12), When::None);
        let one = world.shard.snapshot_bytes(&world.snapshots[0].snapshot);
        assert!((1000..6000).contains(&one), "{one} bytes for one key");
        let mut rng = Rng::seeded(3);
        for i in 0..MANY {
            match i % 12 {
                0 => world.remove(0, &name(i)),
                1 => world.append(0, &name(i), 10),
                2 => world.set_deadline(0, &name(i), Some(START_MS + 500)),
                3 => world.put_part(0, &name(i), 3, 20, i % 24 == 3),
                4 => world.edit(0, &name(i), 1, 2),
                5 => world.rename(0, &name(i), &name(i + 1)),
                6 => world.rename(0, &name(i), b"elsewhere"),
                7 => world.move_to(0, 1, &name(i)),
                _ => world.set(0, &name(i), &Content::Short(usize::try_from(rng.below(60)).unwrap()), When::Keep),
            }
            if i % 100 == 0 && !world.snapshots.is_empty() {
                world.pull(0, 20);
                world.shard.background(world.now_ms, true, || false);
            }
            if flush && i == MANY / 2 {
                world.step(&Step::Flush(0));
            }
        }
        world.advance(600);
        let kept = world.shard.used_bytes();
        assert!(flush || kept < 2 * used + (1 << 20), "{kept} bytes in use, {used} before");
        while !world.snapshots.is_empty() {
            world.pull(0, 100);
            world.shard.background(world.now_ms, true, || false);
        }
        assert_eq!((world.shown, world.lost), (1, 0));
        world.finish();
    }
}
