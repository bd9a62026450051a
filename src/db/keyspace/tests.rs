//! Threads over one keyspace; under ThreadSanitizer too (`tools/tsan`).

use super::*;
use crate::base::rng::Rng;
use crate::db::NewValue;
use crate::db::item::Value;
use crate::db::view::Deadline;
use std::thread;

const WORKERS: usize = 4;
const ROUNDS: u64 = if cfg!(debug_assertions) { 6_000 } else { 40_000 };
const COUNTERS: u64 = 8;
const PAIRS: u64 = 64;
const NOW_MS: u64 = 1_700_000_000_000;

fn memory() -> dolmen_slab::Config {
    dolmen_slab::Config { reserve_bytes: 1 << 30, blob_reserve_bytes: 1 << 30, ..dolmen_slab::Config::default() }
}

fn keyspace() -> Arc<Keyspace<SpinLock>> {
    Arc::new(Keyspace::shared(WORKERS, 2, 99, &memory()).expect("address space"))
}

fn number(db: &mut Db<'_>, key: Key<'_>) -> i64 {
    match db.read_string(key).expect("a string") {
        Some(Value::Int(n)) => n,
        Some(Value::Raw(bytes)) => std::str::from_utf8(bytes).expect("text").parse().expect("a number"),
        Some(Value::Blob(_)) => panic!("a short value"),
        None => 0,
    }
}

/// Counters that all add to, pairs whose sum is always the same, and keys that come and go: growth, expiry, flushes of another database, look-ups
/// ahead of the lock, background work.
#[test]
fn threads_share_it() {
    let keyspace = keyspace();
    let work = |me: usize| {
        let mut way = Shared::new(Arc::clone(&keyspace), me, WORKERS).expect("address space");
        let mut rng = Rng::seeded(me as u64);
        for round in 0..ROUNDS {
            let now_ms = NOW_MS + round;
            let names: Vec<Vec<u8>> = (0..4).map(|_| format!("key:{}", rng.next_u64() % 20_000).into_bytes()).collect();
            let locator = way.locator(0);
            let ahead: Vec<Key<'_>> = names.iter().map(|name| locator.key(name)).collect();
            for key in &ahead {
                locator.prefetch_items_at(key.site, key.hash);
            }
            let mut db = way.db(0, now_ms);
            let counter = format!("counter:{}", rng.next_u64() % COUNTERS);
            let key = db.key(counter.as_bytes());
            db.lock_key(key.hash);
            db.add_int(key, 1).expect("room");
            let pair = rng.next_u64() % PAIRS;
            let halves = [format!("pair:{pair}:a"), format!("pair:{pair}:b")];
            db.lock_keys(halves.iter().map(String::as_bytes));
            let (a, b) = (db.key(halves[0].as_bytes()), db.key(halves[1].as_bytes()));
            let (one, other) = (number(&mut db, a), number(&mut db, b));
            assert_eq!(one + other, 0, "pair {pair}");
            let moved = one + i64::try_from(round % 7).expect("small");
            db.set_string(a, NewValue::Int(moved), Deadline::None).expect("room");
            db.set_string(b, NewValue::Int(-moved), Deadline::None).expect("room");
            for (i, name) in names.iter().enumerate() {
                let key = db.key(name);
                db.lock_key(key.hash);
                let deadline = if i == 0 { Deadline::At(now_ms + 50) } else { Deadline::None };
                match i {
                    3 => drop(db.remove(key)),
                    _ => db.set_string(key, NewValue::Raw(&name.repeat(1 + i * 40)), deadline).expect("room"),
                }
            }
            db.unlock();
            if round % 500 == 0 {
                let mut other = way.db(1, now_ms);
                let name = format!("other:{round}");
                let key = other.key(name.as_bytes());
                other.lock_key(key.hash);
                other.set_string(key, NewValue::Raw(b"x"), Deadline::None).expect("room");
                other.lock_all();
                other.flush();
                other.unlock();
            }
            if round % 50 == 0 {
                let mut left = 3;
                way.background(now_ms, round % 200 == 0, || {
                    left -= 1;
                    left > 0
                });
            }
        }
    };
    thread::scope(|scope| {
        for me in 0..WORKERS {
            let work = &work;
            scope.spawn(move || work(me));
        }
    });
    let mut way = Shared::new(keyspace, 0, WORKERS).expect("address space");
    let mut db = way.db(0, NOW_MS + ROUNDS);
    let mut sum = 0;
    for counter in 0..COUNTERS {
        let name = format!("counter:{counter}");
        let key = db.key(name.as_bytes());
        sum += number(&mut db, key);
    }
    db.unlock();
    assert_eq!(sum, i64::try_from(WORKERS as u64 * ROUNDS).expect("small"));
}

/// Who holds names of several shards is alone, and is seen by all.
#[test]
fn names_are_held_in_every_shard() {
    use crate::db::hold::Mode;
    for mode in [Mode::Exclusive, Mode::Shared] {
        names_are_held(mode);
    }
}

fn names_are_held(mode: crate::db::hold::Mode) {
    let keyspace = keyspace();
    let mut ways: Vec<Shared> =
        (0..2).map(|me| Shared::new(Arc::clone(&keyspace), me, 2).expect("address space")).collect();
    let (first, second) = ways.split_at_mut(1);
    let names: Vec<String> = (0..1_000).map(|n| format!("held:{n}")).collect();
    let reads_wait = mode == crate::db::hold::Mode::Exclusive;
    let mut holder = first[0].db(0, NOW_MS);
    assert!(holder.hold_begin(names.len(), mode));
    for name in &names {
        let hash = holder.key(name.as_bytes()).hash;
        holder.hold(hash);
    }
    holder.unlock();
    let mut other = second[0].db(0, NOW_MS);
    assert!(!other.hold_begin(1, mode), "one holder at a time");
    assert!(other.is_holding() && other.is_anything_held(true));
    assert_eq!(other.is_anything_held(false), reads_wait);
    for name in &names {
        let hash = other.key(name.as_bytes()).hash;
        assert!(other.is_held(hash, true));
        assert_eq!(other.is_held(hash, false), reads_wait);
    }
    let others = (0..2_000).filter(|n| {
        let hash = other.key(format!("free:{n}").as_bytes()).hash;
        other.is_held(hash, true)
    });
    let wrong = others.count();
    assert!(wrong < 200, "{wrong} of 2,000 other names are blocked");
    other.unlock();
    let mut holder = first[0].db(0, NOW_MS);
    holder.hold_end();
    holder.unlock();
    let mut other = second[0].db(0, NOW_MS);
    assert!(!other.is_holding() && other.hold_begin(1, mode));
    other.hold_end();
    other.unlock();
}

/// What a look ahead finds is what is there, as long as nothing changes.
#[test]
fn a_look_ahead_finds_the_bucket() {
    let keyspace = keyspace();
    let mut way = Shared::new(keyspace, 0, WORKERS).expect("address space");
    let mut db = way.db(0, NOW_MS);
    let names: Vec<String> = (0..30_000).map(|n| format!("key:{n}")).collect();
    for name in &names {
        let key = db.key(name.as_bytes());
        db.lock_key(key.hash);
        db.set_string(key, NewValue::Raw(b"v"), Deadline::None).expect("room");
    }
    db.unlock();
    for name in &names {
        let key = way.locator(0).key(name.as_bytes());
        let site = way.with_shard(key.hash, |shard| shard.locator(0).key(name.as_bytes()).site);
        assert!(!site.is_none() && site == key.site, "{name}");
    }
    assert!(way.locator(1).key(b"nothing").site.is_none());
}
