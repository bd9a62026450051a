//! Instructions of typed access to one key, below commands and replies: hashing, lookup, the item. OPERATIONS each, so divide by that.
use dolmen::db::view::Deadline;
use dolmen::db::{NewValue, Shard, Value};
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

const OPERATIONS: u64 = 1_000;
const NOW_MS: u64 = 1_800_000_000_000;
const NAME: &[u8] = b"key:000000012345";

/// A small keyspace in which the key has a value, with or without a deadline.
fn shard(deadline: Deadline) -> Shard {
    let mut shard = Shard::new(1, 1, dolmen_slab::Config::default()).unwrap();
    for n in 0..1000 {
        let mut db = shard.db(0, NOW_MS);
        let name = format!("other:{n}");
        let key = db.key(name.as_bytes());
        db.set_string(key, NewValue::Raw(b"12345678"), Deadline::None).unwrap();
        shard.background(NOW_MS, false, || true);
    }
    let mut db = shard.db(0, NOW_MS);
    let key = db.key(NAME);
    db.set_string(key, NewValue::Raw(b"12345678"), deadline).unwrap();
    shard
}

#[library_benchmark]
#[bench::plain(shard(Deadline::None))]
#[bench::with_deadline(shard(Deadline::At(NOW_MS + 100_000)))]
fn get(mut shard: Shard) -> Shard {
    for _ in 0..OPERATIONS {
        let mut db = shard.db(0, NOW_MS);
        let key = db.key(black_box(NAME));
        assert!(matches!(db.read_string(key), Ok(Some(Value::Raw(b"12345678")))));
    }
    shard
}

#[library_benchmark]
#[bench::plain(shard(Deadline::None), Deadline::None)]
#[bench::keep_deadline(shard(Deadline::At(NOW_MS + 100_000)), Deadline::Keep)]
fn set(mut shard: Shard, deadline: Deadline) -> Shard {
    for _ in 0..OPERATIONS {
        let mut db = shard.db(0, NOW_MS);
        let key = db.key(black_box(NAME));
        db.set_string(key, black_box(NewValue::Raw(b"abcdefgh")), deadline).unwrap();
    }
    shard
}

// Each deadline is later than the one before, as SET EX and EXPIRE of a busy key make them.
#[library_benchmark]
#[bench::later(shard(Deadline::At(NOW_MS + 100_000)))]
fn expire(mut shard: Shard) -> Shard {
    for n in 0..OPERATIONS {
        let mut db = shard.db(0, NOW_MS);
        let key = db.key(black_box(NAME));
        assert_eq!(db.set_deadline(key, Some(NOW_MS + 100_000 + n)), Ok(true));
    }
    shard
}

#[library_benchmark]
#[bench::integer(shard(Deadline::None))]
fn add(mut shard: Shard) -> Shard {
    for _ in 0..OPERATIONS {
        let mut db = shard.db(0, NOW_MS);
        let key = db.key(black_box(NAME));
        db.add_int(key, 1).unwrap();
    }
    shard
}

library_benchmark_group!(name = item; benchmarks = get, set, expire, add);
main!(library_benchmark_groups = item);
