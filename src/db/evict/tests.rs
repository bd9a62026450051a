//! Which keys go, by each policy, of one shard.

use super::*;
use crate::base::rng::Rng;
use crate::db::NewValue;
use crate::db::view::Deadline;
use std::collections::HashSet;

const START_MS: u64 = 1_750_000_000_000;
const KEYS: u32 = 4000;

fn shard(policy: Policy) -> Shard {
    let config =
        dolmen_slab::Config { reserve_bytes: 1 << 26, blob_reserve_bytes: 1 << 26, decay_ms: 1000, huge_pages: false };
    let mut shard = Shard::new(3, 5, config).unwrap();
    let model = Arc::new(Mutex::new(Model::new(1)));
    shard.set_eviction(Settings { policy, ..Settings::default() }, 1 << 18, &model);
    shard
}

fn name(i: u32) -> Vec<u8> {
    format!("key:{i}").into_bytes()
}

fn set(shard: &mut Shard, d: usize, i: u32, deadline: Deadline, now_ms: u64) {
    let mut db = shard.db(d, now_ms);
    let key = name(i);
    db.set_string(db.key(&key), NewValue::Raw(b"some value"), deadline).unwrap();
}

fn present(shard: &mut Shard, d: usize, now_ms: u64) -> HashSet<u32> {
    let mut db = shard.db(d, now_ms);
    (0..KEYS).filter(|i| db.is_there(db.key(&name(*i)))).collect()
}

/// Steps until `keys` keys have gone.
fn evict(shard: &mut Shard, keys: u64, now_ms: u64) {
    let until = shard.stats.evicted + keys;
    for _ in 0..100 * keys {
        if shard.stats.evicted >= until {
            return;
        }
        assert_ne!(shard.make_room(now_ms), Step::Nothing);
    }
    panic!("{} keys have gone instead of {until}", shard.stats.evicted);
}

#[test]
fn names_and_policies_belong_together() {
    for (at, name) in Policy::NAMES.iter().enumerate() {
        assert_eq!((Policy::of_name(at).name_at(), Policy::of_name(at).name()), (at, *name));
    }
    assert_eq!(Policy::default().name(), "noeviction");
}

#[test]
fn without_eviction_nothing_goes_but_what_is_deleted_already() {
    let mut shard = shard(Policy::NoEviction);
    for i in 0..KEYS {
        set(&mut shard, 0, i, Deadline::None, START_MS);
    }
    assert_eq!(shard.make_room(START_MS), Step::Nothing);
    shard.flush_all();
    let mut freed = 0;
    while shard.make_room(START_MS) == Step::Freed {
        freed += 1;
    }
    assert!(freed > 10 && shard.used_bytes() == 0, "{freed} steps, {} bytes left", shard.used_bytes());
    assert_eq!(shard.stats.evicted, 0);
}

#[test]
fn the_least_recently_used_go_first() {
    for policy in [Policy::AllKeys(Rank::Lru), Policy::Volatile(Rank::Lru)] {
        let mut shard = shard(policy);
        let deadline = if policy == Policy::AllKeys(Rank::Lru) { Deadline::None } else { Deadline::At(START_MS * 2) };
        for i in 0..KEYS {
            set(&mut shard, 0, i, deadline, START_MS);
        }
        let later_ms = START_MS + 60_000;
        for i in (0..KEYS).step_by(2) {
            let mut db = shard.db(0, later_ms);
            assert!(db.touch_key(db.key(&name(i))));
        }
        evict(&mut shard, u64::from(KEYS / 4), later_ms);
        let left = present(&mut shard, 0, later_ms);
        let old = left.iter().filter(|i| **i % 2 == 1).count();
        // Few buckets have no old key.
        assert_eq!(left.len(), KEYS as usize * 3 / 4);
        assert!(old <= KEYS as usize / 4 + 150, "{old} of {}", left.len());
    }
}

#[test]
fn the_least_frequently_used_go_first() {
    let mut shard = shard(Policy::AllKeys(Rank::Lfu));
    for i in 0..KEYS {
        set(&mut shard, 0, i, Deadline::None, START_MS);
    }
    for i in (0..KEYS).step_by(2) {
        for _ in 0..20 {
            let mut db = shard.db(0, START_MS + 1000);
            assert!(db.touch_key(db.key(&name(i))));
        }
    }
    // Read after the others, but seldom.
    evict(&mut shard, u64::from(KEYS / 4), START_MS + 2000);
    let left = present(&mut shard, 0, START_MS + 2000);
    let seldom = left.iter().filter(|i| **i % 2 == 1).count();
    assert!(seldom <= KEYS as usize / 4 + 150, "{seldom} of {}", left.len());
}

/// What is read again and again stays, what is written once goes; and of two alike the larger one.
#[test]
fn what_is_worth_most_a_byte_stays() {
    let mut shard = shard(Policy::AllKeys(Rank::Smart));
    let limit_bytes = 256 * 1024;
    let mut rng = Rng::seeded(9);
    let put = |shard: &mut Shard, key: &[u8], bytes: usize| {
        let mut db = shard.db(0, START_MS);
        db.set_string(db.key(key), NewValue::Raw(&vec![7; bytes]), Deadline::None).unwrap();
        while shard.used_bytes() > limit_bytes {
            assert_ne!(shard.make_room(START_MS), Step::Nothing);
        }
    };
    let mut hits = [0, 0];
    for round in 0..120_000u32 {
        let i = round % 600;
        let large = i % 2 == 1;
        let hot = format!("hot:{i}");
        let mut db = shard.db(0, START_MS);
        if db.touch_key(db.key(hot.as_bytes())) {
            hits[usize::from(large)] += usize::from(round > 60_000);
        } else {
            put(&mut shard, hot.as_bytes(), if large { 900 } else { 90 });
        }
        put(&mut shard, format!("cold:{}", rng.next_u64()).as_bytes(), 90);
    }
    let [small, large] = hits;
    assert!(small > 29_000, "{small} of 30,000 small ones that are hot were there, {large} large ones");
    assert!(large < small && shard.stats.evicted > 100_000, "{large} large ones; {:?}", shard.stats);
    let mut db = shard.db(0, START_MS);
    let word = db.look_at(db.key(b"hot:0")).map(|item| item.clock());
    assert!(word.is_some_and(|word| access::heat_of(word) > 8), "{word:?}");
    shard.flush_all();
    while shard.background(START_MS, false, || true) {}
    assert_eq!((shard.used_bytes(), shard.make_room(START_MS)), (0, Step::Nothing));
}

/// The counters of 20 keys after so many uses, on average. `reads`: by GET, which draws for many uses at once, else by TOUCH, which does for each.
fn counts_after(reads: bool, factor: u32, uses: [u32; 3]) -> [u64; 3] {
    const KEYS: u32 = 20;
    let mut shard = shard(Policy::AllKeys(Rank::Lfu));
    shard.eviction.settings.lfu_log_factor = factor;
    (0..KEYS).for_each(|i| set(&mut shard, 0, i, Deadline::None, START_MS));
    let mut sums = [0; 3];
    for used in 1..=uses[2] {
        for i in 0..KEYS {
            let mut db = shard.db(0, START_MS);
            let name = name(i);
            let key = db.key(&name);
            let found = if reads { db.read_string(key).unwrap().is_some() } else { db.touch_key(key) };
            assert!(found);
            for (sum, _) in sums.iter_mut().zip(uses).filter(|(_, uses)| *uses == used) {
                *sum += access::count_of(db.look_at(key).unwrap().clock(), START_MS, 1);
            }
        }
    }
    sums.map(|sum| sum / u64::from(KEYS))
}

#[test]
fn counters_grow_slower_the_larger_they_are() {
    // The table of Redis's documentation: with factor 10 about 10, 18 and 142 after 100, 1,000 and 100,000 hits; with 0 they count up to 255, with
    // 100 there are 8, 11 and 49.
    for reads in [false, true] {
        let [hundred, thousand, many] = counts_after(reads, 10, [100, 1000, 20_000]);
        assert!((8..=11).contains(&hundred) && (17..=21).contains(&thousand), "{hundred}, {thousand}; {reads}");
        // (Half the square of the growth, times the factor, is the number of uses.)
        assert!((62..=73).contains(&many), "{many}; {reads}");
        assert_eq!(counts_after(reads, 0, [1, 100, 1000]), [6, 105, 255], "{reads}");
        let [hundred, thousand, many] = counts_after(reads, 100, [100, 1000, 10_000]);
        assert!((6..=8).contains(&hundred) && (8..=11).contains(&thousand), "{hundred}, {thousand}; {reads}");
        assert!((17..=22).contains(&many), "{many}; {reads}");
    }
}

#[test]
fn counters_fade() {
    let count_at = |shard: &mut Shard, minutes: u64, decay_minutes: u32| {
        let mut db = shard.db(0, START_MS);
        let word = db.look_at(db.key(b"key:1")).unwrap().clock();
        access::count_of(word, START_MS + minutes * 60_000, decay_minutes)
    };
    for decay_minutes in [0, 1, 5] {
        let mut shard = shard(Policy::AllKeys(Rank::Lfu));
        shard.eviction.settings.lfu_decay_minutes = decay_minutes;
        set(&mut shard, 0, 1, Deadline::None, START_MS);
        let per = |minutes: u64| minutes.checked_div(decay_minutes.into()).unwrap_or(0);
        // The last of several minutes may have begun before.
        let fresh = [0, 1, 3, 11].map(|minutes| count_at(&mut shard, minutes, decay_minutes));
        assert_eq!(fresh, [0, 1, 3, 11].map(|minutes| 5u64.saturating_sub(per(minutes))), "{decay_minutes}");
        for (uses, reads) in (0..300).zip([true, false].into_iter().cycle()) {
            let mut db = shard.db(0, START_MS);
            let key = db.key(b"key:1");
            assert!(if reads { db.read_string(key).unwrap().is_some() } else { db.touch_key(key) }, "{uses}");
        }
        let many = count_at(&mut shard, 0, decay_minutes);
        assert!(many > 6);
        assert_eq!(count_at(&mut shard, 10, decay_minutes), many.saturating_sub(per(10)));
        assert_eq!(count_at(&mut shard, 10, 0), many);
        assert_eq!(count_at(&mut shard, 2000, 1), 0);
        // What it has lost is not there when it is used again.
        let mut db = shard.db(0, START_MS + 20 * 60_000);
        assert!(db.read_string(db.key(b"key:1")).unwrap().is_some());
        let left = many.saturating_sub(per(20));
        let told =
            access::count_of(db.look_at(db.key(b"key:1")).unwrap().clock(), START_MS + 20 * 60_000, decay_minutes);
        assert!((left..=left + 1).contains(&told), "{told} after {left}");
    }
}

#[test]
fn by_chance_all_parts_lose_alike() {
    let mut shard = shard(Policy::AllKeys(Rank::Random));
    for i in 0..KEYS {
        set(&mut shard, (i % 2) as usize * 2, i, Deadline::None, START_MS);
    }
    evict(&mut shard, u64::from(KEYS) * 3 / 4, START_MS);
    let left = [0, 2].map(|d| present(&mut shard, d, START_MS).len());
    assert_eq!(left.iter().sum::<usize>(), KEYS as usize / 4);
    evict(&mut shard, u64::from(KEYS / 4), START_MS);
    assert_eq!(shard.make_room(START_MS), Step::Nothing);
    assert_eq!(shard.databases()[0].len() + shard.databases()[2].len(), 0);
}

#[test]
fn only_keys_with_deadlines_are_volatile() {
    for rank in [Rank::Lru, Rank::Lfu, Rank::Random, Rank::Ttl] {
        let mut shard = shard(Policy::Volatile(rank));
        for i in 0..KEYS {
            let deadline = if i % 10 == 0 { Deadline::At(START_MS + 1_000_000) } else { Deadline::None };
            set(&mut shard, 1, i, deadline, START_MS);
        }
        evict(&mut shard, u64::from(KEYS / 10), START_MS);
        let left = present(&mut shard, 1, START_MS);
        assert!(left.len() == KEYS as usize * 9 / 10 && left.iter().all(|i| i % 10 != 0), "{rank:?}: {}", left.len());
        assert_eq!(shard.databases()[1].expires(), 0);
        for _ in 0..1000 {
            if shard.make_room(START_MS) == Step::Nothing {
                break;
            }
        }
        assert_eq!(shard.make_room(START_MS), Step::Nothing, "{rank:?}");
    }
}

/// The next to expire go first, whatever order they were made in; those that stay expire on time.
#[test]
fn the_next_to_expire_go_first() {
    let mut shard = shard(Policy::Volatile(Rank::Ttl));
    let mut rng = Rng::seeded(3);
    let mut order: Vec<u32> = (0..KEYS).collect();
    for i in (1..KEYS).rev() {
        order.swap(i as usize, usize::try_from(rng.below(u64::from(i) + 1)).unwrap());
    }
    // From 50 ms to 40 s, over three levels of the wheel.
    let deadline_ms = |i: u32| START_MS + 50 + 10 * u64::from(i);
    for &i in &order {
        set(&mut shard, 0, i, Deadline::At(deadline_ms(i)), START_MS);
        // Stale entries: what is set later again.
        set(&mut shard, 0, i, Deadline::At(deadline_ms(i) + 5), START_MS);
    }
    evict(&mut shard, u64::from(KEYS / 2), START_MS);
    let left = present(&mut shard, 0, START_MS);
    let early = left.iter().filter(|i| **i < KEYS / 2).count();
    // An upper slot reaches over 2 s, that is, 200 keys.
    assert!(early <= 200, "{early} that expire early were kept");
    assert_eq!(left.len(), KEYS as usize / 2);
    let end_ms = deadline_ms(KEYS) + 100;
    for now_ms in (START_MS..end_ms).step_by(500) {
        while shard.background(now_ms, false, || true) {}
        for i in present(&mut shard, 0, START_MS) {
            assert!(deadline_ms(i) + 5 + 32 > now_ms, "key {i} is late");
        }
    }
    while shard.background(end_ms + 1000, false, || true) {}
    assert_eq!((shard.databases()[0].len(), shard.databases()[0].expires()), (0, 0));
}

/// What has expired goes as expired, before anything else.
#[test]
fn expired_keys_go_first() {
    let mut shard = shard(Policy::AllKeys(Rank::Random));
    for i in 0..KEYS {
        let deadline = if i % 3 == 0 { Deadline::At(START_MS + 10) } else { Deadline::None };
        set(&mut shard, 0, i, deadline, START_MS);
    }
    for _ in 0..KEYS / 4 {
        assert_eq!(shard.make_room(START_MS + 100), Step::Freed);
    }
    assert!(shard.stats.expired > u64::from(KEYS / 4) * 3 / 4, "{:?}", shard.stats);
}

/// Under a snapshot memory does not come back; what is counted falls all the same, so that not everything goes.
#[test]
fn what_a_snapshot_keeps_does_not_count() {
    let mut shard = shard(Policy::AllKeys(Rank::Lru));
    for i in 0..KEYS {
        set(&mut shard, 0, i, Deadline::None, START_MS);
    }
    let (data_bytes, used_bytes) = (shard.data_bytes(), shard.used_bytes());
    assert_eq!(data_bytes, used_bytes);
    let snapshot = shard.open_snapshot(0);
    evict(&mut shard, u64::from(KEYS / 2), START_MS);
    assert!(shard.used_bytes() >= used_bytes, "kept for the snapshot");
    assert!(shard.data_bytes() < data_bytes * 2 / 3, "{} of {data_bytes}", shard.data_bytes());
    shard.close_snapshot(snapshot);
    while shard.background(START_MS, false, || true) {}
    assert_eq!(shard.data_bytes(), shard.used_bytes());
}
