//! Saved by all the ways from shards to a file, and loaded into another keyspace: what comes out is what was there at the cut, whatever was done
//! meanwhile; with one shard and with many.

use super::load::{Intake, Loading, Plan};
use super::records::{self, Record, Value};
use super::save::{self, Pass};
use super::{Ended, Facts, Job, Store};
use crate::db::saving::tests::{DATABASES, State, Step, apply, state_of, step};
use crate::db::{Access, Alone, Keyspace, Shared};
use proptest::collection::vec;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const NOW_MS: u64 = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dolmen-store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn alone() -> Alone {
    Alone::new(DATABASES, 5, &dolmen_slab::Config::default()).unwrap()
}

fn shared() -> Shared {
    let memory = dolmen_slab::Config { reserve_bytes: 1 << 30, blob_reserve_bytes: 1 << 34, ..Default::default() };
    Shared::new(Arc::new(Keyspace::shared(1, DATABASES, 6, &memory).unwrap()), 0, 1).unwrap()
}

fn state<A: Access>(keyspace: &mut A) -> State {
    let mut all = State::new();
    for database in 0..DATABASES {
        let mut db = keyspace.db(database, 0);
        state_of(&mut db, &mut all);
        db.unlock();
    }
    all
}

fn facts(path: &Path, packs: bool) -> Facts {
    Facts {
        job: Job::Background,
        keeps_history: false,
        path: path.to_owned(),
        checksum: true,
        packs,
        as_commands: false,
        version: "7.2.4",
        used_bytes: 1,
        now_s: NOW_MS / 1000,
        dirty: 3,
        kept_max_bytes: 1 << 30,
    }
}

fn begin<A: Access>(keyspace: &mut A, store: &Arc<Store>, facts: Facts) -> u64 {
    let mut db = keyspace.db(0, NOW_MS);
    db.lock_all();
    let number = save::begin(&mut db, store, facts).expect("nothing else goes on");
    db.unlock();
    number
}

/// Works until the save has ended.
fn finish<A: Access>(keyspace: &mut A, store: &Store, pass: &mut Pass, number: u64) -> Ended {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(ended) = store.ended(number) {
            return ended;
        }
        if store.is_saving() {
            pass.work(keyspace, store, 0, || true);
        }
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

fn load<A: Access>(keyspace: &mut A, path: &Path) -> Result<(u64, u64), String> {
    let store = Arc::new(Store::new(1, 0));
    let plan = Plan {
        log: None,
        path: path.to_owned(),
        databases: u32::try_from(DATABASES).unwrap(),
        max_bytes: 512 << 20,
        into_empty: true,
        now_s: 0,
    };
    let loading = Loading::start(&store, plan).unwrap().expect("there is a file");
    let (mut intake, deadline) = (Intake::default(), Instant::now() + PATIENCE);
    while !loading.is_over() {
        intake.work(keyspace, &store, NOW_MS, || false);
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert!(!store.is_loading() && store.endings() == 1);
    loading.failure().map_or(Ok((loading.keys(), loading.expired())), Err)
}

fn run<A: Access>(keyspace: &mut A, steps: &[Step], packs: bool) {
    let (folder, store) = (Folder::new(), Arc::new(Store::new(1, 0)));
    let path = folder.0.join("it.rdb");
    let (mut pass, mut database, mut going) = (Pass::default(), 0, None);
    let check = |number: u64, want: State, ended: Ended| {
        assert_eq!((number > 0, ended), (true, Ended::Done));
        let mut want = want;
        let all = want.len();
        want.retain(|_, seen| seen.deadline_ms.is_none_or(|at| at > NOW_MS));
        for into_shards in [false, true] {
            let (counted, got) = if into_shards {
                let mut other = shared();
                (load(&mut other, &path), state(&mut other))
            } else {
                let mut other = alone();
                (load(&mut other, &path), state(&mut other))
            };
            assert_eq!(counted, Ok((want.len() as u64, (all - want.len()) as u64)));
            assert!(got == want, "what was loaded is not what was saved");
        }
    };
    for step in steps {
        match step {
            Step::Begin | Step::GiveUp if going.is_none() => {
                let want = state(keyspace);
                going = Some((begin(keyspace, &store, facts(&path, packs)), want));
            }
            Step::Save(count) if going.is_some() => {
                let mut left = *count;
                pass.work(keyspace, &store, 0, || {
                    left -= 1;
                    left > 0
                });
            }
            Step::Begin => {
                if let Some((number, want)) = going.take() {
                    let ended = finish(keyspace, &store, &mut pass, number);
                    check(number, want, ended);
                }
            }
            Step::Select(other) => database = *other,
            Step::Swap(a, b) => {
                let mut db = keyspace.db(database, NOW_MS);
                db.lock_all();
                db.swap_databases(*a, *b);
                db.unlock();
            }
            Step::Background(_) => {
                let mut left = 50;
                keyspace.background(NOW_MS, true, || {
                    left -= 1;
                    left > 0
                });
            }
            step => {
                let mut db = keyspace.db(database, NOW_MS);
                apply(&mut db, step);
                db.unlock();
            }
        }
    }
    if let Some((number, want)) = going.take() {
        let ended = finish(keyspace, &store, &mut pass, number);
        check(number, want, ended);
    }
    let mut left = Vec::new();
    keyspace.each_shard(|shard| left.push(shard.is_saving()));
    assert!(!left.contains(&true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_file_is_of_one_instant(steps in vec(step(), 50..150), packs: bool) {
        run(&mut alone(), &steps, packs);
        run(&mut shared(), &steps, packs);
    }
}

#[test]
fn given_up_and_failed() {
    let (folder, store) = (Folder::new(), Arc::new(Store::new(1, 0)));
    let path = folder.0.join("it.rdb");
    let (mut keyspace, mut pass) = (shared(), Pass::default());
    for n in 0..5000u32 {
        let mut db = keyspace.db(0, NOW_MS);
        let name = format!("key:{n}");
        let key = db.key(name.as_bytes());
        db.set_string(key, crate::db::NewValue::Raw(name.as_bytes()), crate::db::view::Deadline::None).unwrap();
        db.unlock();
    }
    let number = begin(&mut keyspace, &store, facts(&path, true));
    let mut left = 20;
    pass.work(&mut keyspace, &store, 0, || {
        left -= 1;
        left > 0
    });
    assert!(store.give_up(Ended::Cancelled));
    assert_eq!(finish(&mut keyspace, &store, &mut pass, number), Ended::Cancelled);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    assert!(!store.stats().last_failed && store.flags() == 0);
    // Nowhere to write to.
    let number = begin(&mut keyspace, &store, facts(&folder.0.join("no/it.rdb"), true));
    assert!(matches!(finish(&mut keyspace, &store, &mut pass, number), Ended::Failed(_)));
    assert!(store.stats().last_failed && store.flags() == super::flag::FAILED);
    let mut kept = 0;
    keyspace.each_shard(|shard| kept += u64::from(shard.is_saving()));
    assert_eq!(kept, 0);
    let number = begin(&mut keyspace, &store, facts(&path, true));
    assert_eq!(finish(&mut keyspace, &store, &mut pass, number), Ended::Done);
    assert!(!store.stats().last_failed && store.flags() == 0 && store.stats().saves == 1 && store.stats().dirty == 3);
    // A damaged file leaves nothing half made that would be kept.
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    fs::write(&path, &bytes).unwrap();
    assert!(load(&mut alone(), &path).is_err());
    let mut record = Vec::new();
    records::put(
        &Record {
            database: 0,
            key: b"k",
            deadline_ms: None,
            idle_seconds: None,
            client_flags: 0,
            value: Value::Int(3),
        },
        &mut record,
    );
    assert!(records::next(&mut &record[..]).is_some());
}
