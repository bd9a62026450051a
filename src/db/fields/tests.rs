//! Hashes with field deadlines against a map: changes, keys that change places, time; then what is left behind.
use super::*;
use crate::base::rng::Rng;
use crate::db::DbError;
use crate::types::hash::Lifetime;

const START_MS: u64 = 1_750_000_000_000;

fn shard() -> Shard {
    let config =
        dolmen_slab::Config { reserve_bytes: 1 << 28, blob_reserve_bytes: 1 << 28, decay_ms: 1000, huge_pages: false };
    Shard::new(3, 7, config).unwrap()
}

fn work(shard: &mut Shard, now_ms: u64) {
    assert!(!shard.background(now_ms, true, || true));
}

/// Sets a field; a deadline of 0 is none.
fn set(db: &mut Db<'_>, key: &str, field: u64, deadline_ms: u64) {
    let (key, now_ms) = (db.key(key.as_bytes()), db.now_ms());
    let lifetime = if deadline_ms == 0 { Lifetime::Forever } else { Lifetime::Until(deadline_ms) };
    db.edit::<Hash, _>(key, Missing::Create, |edit| {
        Ok::<_, DbError>(edit.set(&field.to_le_bytes(), b"value", lifetime, now_ms)?)
    })
    .unwrap();
}

fn fields(db: &mut Db<'_>, key: &str) -> usize {
    let key = db.key(key.as_bytes());
    db.look::<Hash>(key).unwrap().map_or(0, |look| look.len())
}

fn entries(shard: &Shard, index: usize) -> usize {
    let Some(fields) = &shard.databases[index].fields else { return 0 };
    assert_eq!(fields.due.len(), fields.order.len());
    assert!(fields.order.iter().all(|(due_ms, hash)| fields.due.get(hash) == Some(due_ms)));
    fields.due.len()
}

/// Deadlines of the fields of each key of each database.
type Model = BTreeMap<(usize, String), BTreeMap<u64, u64>>;

fn check(shard: &mut Shard, model: &Model, now_ms: u64) {
    for index in 0..3 {
        let keys = model.keys().filter(|(database, _)| *database == index).count();
        assert_eq!(shard.db(index, now_ms).len(), keys);
        assert!(entries(shard, index) <= 40, "one entry a name");
    }
    for ((index, key), expected) in model {
        // As they lie, without what a look leaves out.
        assert_eq!(fields(&mut shard.db(*index, now_ms), key), expected.len(), "{key} in {index}");
    }
    let first = model.values().flat_map(|fields| fields.values()).filter(|deadline| **deadline != 0).min();
    if let Some(first) = first {
        assert!(shard.next_due_ms().is_some_and(|due_ms| due_ms <= *first), "{first} would be missed");
    }
}

/// Fields go in the background when their deadlines come, to the millisecond, wherever the hash has got to.
#[test]
fn fields_go_on_time() {
    for seed in 0..40 {
        let (mut rng, mut shard, mut model) = (Rng::seeded(seed), shard(), Model::new());
        let mut now_ms = START_MS;
        for _ in 0..400 {
            let (index, name) = (usize::try_from(rng.below(3)).unwrap(), format!("key {}", rng.below(12)));
            let other = format!("key {}", rng.below(12));
            let slot = (index, name.clone());
            let mut db = shard.db(index, now_ms);
            let key = db.key(name.as_bytes());
            match rng.below(16) {
                0..8 => {
                    // Some become big.
                    let count = if rng.below(8) == 0 { 200 } else { 1 };
                    for _ in 0..count {
                        let field = rng.below(300);
                        let deadline_ms = if rng.below(4) == 0 { 0 } else { now_ms + 1 + rng.below(500) };
                        set(&mut db, &name, field, deadline_ms);
                        model.entry(slot.clone()).or_default().insert(field, deadline_ms);
                    }
                }
                8 => {
                    assert_eq!(db.remove(key), model.remove(&slot).is_some());
                }
                9 => {
                    let done = db.rename(key, db.key(other.as_bytes())).unwrap();
                    let fields = model.remove(&slot);
                    assert_eq!(done, fields.is_some());
                    fields.into_iter().for_each(|fields| drop(model.insert((index, other.clone()), fields)));
                }
                10 => {
                    let to = (index + 1) % 3;
                    if db.move_to(key, to).unwrap() == crate::db::transfer::Moved::Done {
                        let fields = model.remove(&slot).unwrap();
                        assert!(model.insert((to, name), fields).is_none());
                    }
                }
                11 => {
                    let to = (index + 1) % 3;
                    shard.swap(index, to);
                    let swapped = |at| {
                        if at == index {
                            to
                        } else if at == to {
                            index
                        } else {
                            at
                        }
                    };
                    model =
                        std::mem::take(&mut model).into_iter().map(|((at, key), f)| ((swapped(at), key), f)).collect();
                }
                12 if rng.below(4) == 0 => {
                    db.flush();
                    model.retain(|(at, _), _| *at != index);
                }
                13 => {
                    // Another deadline for all, later ones among them.
                    let deadline_ms = now_ms + 1 + rng.below(900);
                    if let Some(fields) = model.get_mut(&slot) {
                        db.edit::<Hash, _>(key, Missing::Skip, |edit| {
                            for (field, deadline) in fields {
                                assert!(edit.set_deadline(&field.to_le_bytes(), deadline_ms, now_ms)?);
                                *deadline = deadline_ms;
                            }
                            Ok::<_, DbError>(())
                        })
                        .unwrap();
                    }
                }
                _ => {
                    now_ms += rng.below(120);
                    for fields in model.values_mut() {
                        fields.retain(|_, deadline| *deadline == 0 || *deadline > now_ms);
                    }
                    model.retain(|_, fields| !fields.is_empty());
                    work(&mut shard, now_ms);
                }
            }
            check(&mut shard, &model, now_ms);
        }
        shard.flush_all();
        work(&mut shard, now_ms + 1000);
        assert_eq!((0..3).map(|index| entries(&shard, index)).sum::<usize>(), 0);
    }
}

/// Hashes that come and go under new names leave no more entries than a multiple of those that are there.
#[test]
fn entries_of_hashes_that_are_gone_are_swept_out() {
    let mut shard = shard();
    for i in 0..30_000u64 {
        let mut db = shard.db(0, START_MS + i / 100);
        set(&mut db, &format!("key {i}"), 0, START_MS + 86_400_000);
        if i >= 100 {
            assert!(db.remove(db.key(format!("key {}", i - 100).as_bytes())));
        }
        if i % 50 == 0 {
            work(&mut shard, START_MS + i / 100);
            assert!(entries(&shard, 0) < 3000, "{}", entries(&shard, 0));
        }
    }
    assert_eq!(shard.databases[0].len(), 100);
    work(&mut shard, START_MS + 86_400_000);
    assert!(shard.databases[0].is_empty() && shard.databases[0].fields.is_none());
    assert_eq!(shard.stats.expired_fields, 100);
}

/// A hash that is held by a command that runs in slices is left alone until it is not.
#[test]
fn names_that_are_held_wait() {
    let mut shard = shard();
    set(&mut shard.db(0, START_MS), "key", 1, START_MS + 5);
    let hash = shard.key(b"key").hash;
    assert!(shard.holds.begin(1, crate::db::hold::Mode::Shared));
    shard.holds.add(0, hash);
    work(&mut shard, START_MS + 10);
    assert_eq!(fields(&mut shard.db(0, START_MS + 10), "key"), 1);
    shard.holds.end();
    work(&mut shard, START_MS + 10);
    assert_eq!(fields(&mut shard.db(0, START_MS + 10), "key"), 1, "it is tried again later");
    assert_eq!(shard.next_due_ms(), Some(START_MS + 20));
    work(&mut shard, START_MS + 20);
    assert!(shard.databases[0].is_empty());
}

/// Hashes without field deadlines have no entries, and neither have other types.
#[test]
fn nothing_is_kept_for_others() {
    let mut shard = shard();
    let mut db = shard.db(0, START_MS);
    for field in 0..500 {
        set(&mut db, "big", field, 0);
    }
    set(&mut db, "small", 1, 0);
    assert!(db.rename(db.key(b"big"), db.key(b"other")).unwrap());
    assert!(shard.databases[0].fields.is_none());
    assert_eq!(shard.next_due_ms(), None);
}

/// A big hash that has lost most of its fields by their deadlines takes what one takes that never had more; those that are left still go on time.
#[test]
fn what_has_expired_takes_no_memory() {
    let fill = |numbers: std::ops::Range<u64>| {
        let mut shard = shard();
        for field in numbers {
            let deadline_ms = if field % 3 == 0 { START_MS + 2_000 } else { START_MS + 1_000_000 };
            set(&mut shard.db(0, START_MS), "hash", field, if field < 60 { deadline_ms } else { START_MS + 100 });
        }
        shard
    };
    let (mut shrunk, fresh) = (fill(0..1000), fill(0..60));
    assert!(shrunk.used_bytes() > 10 * fresh.used_bytes());
    for now_ms in (START_MS + 100..START_MS + 1000).step_by(50) {
        work(&mut shrunk, now_ms);
    }
    assert_eq!(fields(&mut shrunk.db(0, START_MS), "hash"), 60);
    // The same fields in another order: but for how the segment of the table was made, nothing is more.
    let (bytes, fresh_bytes) = (shrunk.used_bytes(), fresh.used_bytes());
    assert!(bytes <= fresh_bytes + 64, "{bytes}, {fresh_bytes} of a fresh one");
    assert_eq!(entries(&shrunk, 0), 1);
    for now_ms in (START_MS + 2_000..START_MS + 3_000).step_by(50) {
        work(&mut shrunk, now_ms);
    }
    assert_eq!(fields(&mut shrunk.db(0, START_MS), "hash"), 40);
}
