//! The wheel against a map of deadlines: programs of operations, then the scenarios that users of other servers suffer from.
use super::*;
use crate::base::rng::Rng;
use dolmen_slab::{Config, Kind};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

const START_MS: u64 = 1_750_000_000_123;

fn slab(reserve_bytes: usize) -> Slab {
    Slab::new(Config { reserve_bytes, blob_reserve_bytes: 1 << 20, ..Config::default() }).unwrap()
}

#[derive(Clone, Debug)]
struct Item {
    deadline_ms: u64,
    /// One tick after the deadline, or after it was set if that was later: gone by then.
    gone_by_ms: u64,
    code: u16,
    /// The code was answered for this very deadline, and the clock was not set back since: it must not fire before.
    exact: bool,
}

/// Plays the database: items by key, several keys to a prefix.
struct Owner {
    items: BTreeMap<u32, Item>,
    /// How many keys share a prefix.
    sharing: u32,
    now_ms: u64,
    visits: usize,
    stale: usize,
    announced: Vec<u32>,
}

impl Owner {
    fn new(sharing: u32) -> Owner {
        Owner { items: BTreeMap::new(), sharing, now_ms: START_MS, visits: 0, stale: 0, announced: Vec::new() }
    }
    fn prefix(&self, key: u32) -> u32 {
        (key / self.sharing).wrapping_mul(0x9e37_79b9)
    }
    /// Keys of a prefix (the inverse of the multiplication above).
    fn find(&self, prefix: u32, code: u16) -> Option<u32> {
        let first = prefix.wrapping_mul(0x144c_bc89) * self.sharing;
        self.items.range(first..first + self.sharing).find(|(_, i)| i.code == code).map(|(&k, _)| k)
    }
}

impl Due for Owner {
    fn soon(&mut self, _: &Slab, hashes: &[u32]) {
        assert!(!hashes.is_empty() && hashes.len() <= chain::PER_BLOCK);
        self.announced = hashes.to_vec();
    }
    fn fire(&mut self, slab: &mut Slab, hash32: u32, code: u16, rearm: &mut Rearm<'_>) {
        self.visits += 1;
        assert_ne!(code, UNARMED);
        if !is_parked(code) {
            assert_eq!(self.announced.pop(), Some(hash32), "the hint names what fires next");
        }
        let Some(key) = self.find(hash32, code) else {
            self.stale += 1;
            return;
        };
        let now_ms = self.now_ms;
        let item = self.items.get_mut(&key).unwrap();
        if item.deadline_ms <= now_ms {
            self.items.remove(&key);
            return;
        }
        let fired_in_time = Place::unpack(code).is_some_and(|p| p.level == 0);
        assert!(!(item.exact && fired_in_time), "fired {} ms early", item.deadline_ms - now_ms);
        item.code = rearm.at(slab, item.deadline_ms);
        item.exact = !is_parked(item.code);
        assert_ne!(item.code, code, "another entry of this code would find the same item again");
    }
}

struct World {
    slab: Slab,
    wheel: Wheel,
    owner: Owner,
    /// Bytes taken so that the slab has no room left.
    hoard_bytes: u64,
}

impl World {
    fn new(sharing: u32, reserve_bytes: usize) -> World {
        World { slab: slab(reserve_bytes), wheel: Wheel::new(START_MS), owner: Owner::new(sharing), hoard_bytes: 0 }
    }
    fn set(&mut self, key: u32, deadline_ms: u64) -> Result<(), AllocError> {
        let prefix = self.owner.prefix(key);
        let old = self.owner.items.get(&key).map_or(UNARMED, |i| i.code);
        let code = self.wheel.arm(&mut self.slab, prefix, deadline_ms, old)?;
        let exact = code != old;
        let deadline_ms = deadline_ms.min(DEADLINE_MS_MAX);
        let gone_by_ms = deadline_ms.max(self.owner.now_ms) + TICK_MS;
        self.owner.items.insert(key, Item { deadline_ms, gone_by_ms, code, exact });
        Ok(())
    }
    fn set_or_full(&mut self, key: u32, deadline_ms: u64) {
        let before = (self.wheel.entries(), self.wheel.blocks.held());
        if self.set(key, deadline_ms).is_err() {
            assert!(self.hoard_bytes > 0, "there was room");
            assert_eq!(before, (self.wheel.entries(), self.wheel.blocks.held()));
        }
    }
    fn exhaust(&mut self) {
        while self.slab.alloc(chain::BLOCK_BYTES, Kind::Interior).is_ok() {
            self.hoard_bytes += Slab::class_bytes(chain::BLOCK_BYTES) as u64;
        }
    }
    fn at(&mut self, now_ms: u64) {
        if now_ms < self.owner.now_ms {
            self.owner.items.values_mut().for_each(|i| i.exact = false);
        }
        self.owner.now_ms = now_ms;
    }
    fn advance(&mut self, budget: usize) -> bool {
        let before = self.owner.visits;
        let more = self.wheel.advance(&mut self.slab, self.owner.now_ms, budget, &mut self.owner);
        assert!(self.owner.visits - before <= budget);
        if !more {
            self.check_in_time();
        }
        more
    }
    fn catch_up(&mut self, budget: usize) {
        while self.advance(budget) {}
    }
    /// All that an event loop relies on once `advance` has nothing left.
    fn check_in_time(&self) {
        let now_ms = self.owner.now_ms;
        let due = self.wheel.next_due_ms();
        if let Some(first) = self.owner.items.values().min_by_key(|i| i.gone_by_ms) {
            assert!(first.gone_by_ms > now_ms, "{} ms late", now_ms - first.gone_by_ms);
            assert!(
                due.unwrap() <= first.gone_by_ms,
                "would oversleep until {due:?}: {first:?}, {:?}",
                Place::unpack(first.code)
            );
        }
        assert!(due.is_none_or(|d| d > now_ms), "would not sleep at all");
        assert_eq!(due.is_none(), self.wheel.entries() == 0);
    }
    fn purge(&mut self, budget: usize) -> bool {
        let owner = &mut self.owner;
        let mut looked = 0;
        let more = self.wheel.purge(&mut self.slab, budget, |_, prefix, code, new_code| {
            looked += 1;
            assert_ne!(code, new_code);
            let Some(key) = owner.find(prefix, code) else { return false };
            owner.items.get_mut(&key).unwrap().code = new_code;
            true
        });
        assert!(looked <= budget);
        more
    }
    /// Invariant I and the structure, by walking everything.
    fn check(&self) {
        let w = &self.wheel;
        let mut held: HashMap<(u32, u16), usize> = HashMap::new();
        let (mut entries, mut blocks) = (0, 0);
        let mut count = |chain: &Chain, place: Place| {
            let all = chain.to_vec(&self.slab, &w.blocks);
            entries += all.len();
            blocks += all.len().div_ceil(chain::PER_BLOCK);
            all.iter().for_each(|&h| *held.entry((h, place.pack())).or_default() += 1);
        };
        for (level, l) in w.levels.iter().enumerate() {
            let Some(l) = l else { continue };
            let now = slot_of(w.tick >> shift_of(level));
            for slot in 0..SLOTS {
                let generation = l.generation.get(slot);
                count(&l.chains[slot], Place { level, slot, generation });
                assert_eq!(l.occupied.get(slot), w.slot_len(level, slot) > 0);
                assert!(
                    level == 0 || slot != now || w.slot_len(level, slot) == 0,
                    "an upper slot has begun, not empty"
                );
            }
        }
        if let Some(p) = &w.purge {
            let generation = !w.levels[p.level].as_ref().unwrap().generation.get(p.slot);
            count(&p.old, Place { level: p.level, slot: p.slot, generation });
        }
        for (i, &h) in w.parked.iter().enumerate() {
            let code = if i < w.parked_due { w.parked_code ^ GENERATION } else { w.parked_code };
            *held.entry((h, code)).or_default() += 1;
        }
        assert_eq!(w.entries, (entries + w.parked.len()) as u64);
        assert_eq!(w.blocks.held(), blocks as u64);
        let mut carried: HashMap<(u32, u16), usize> = HashMap::new();
        for (&key, item) in &self.owner.items {
            assert_ne!(item.code, UNARMED);
            *carried.entry((self.owner.prefix(key), item.code)).or_default() += 1;
        }
        for (of, items) in carried {
            assert!(held.get(&of).is_some_and(|&e| e >= items), "{of:?}: {items} items, {:?} entries", held.get(&of));
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set { key: u32, ttl_ms: u64 },
    SetMany { first: u32, count: u32, ttl_ms: u64, apart_ms: u64 },
    SetPast { key: u32, ago_ms: u64 },
    Remove { key: u32 },
    Advance { step_ms: u64, budget: usize, slices: usize },
    CatchUp { step_ms: u64, budget: usize },
    Sleep { times: usize },
    StepBack { ms: u64 },
    Purge { budget: usize, slices: usize },
    PurgeAll,
    Exhaust,
}

/// Of all magnitudes, up to beyond what 48 bits hold.
fn span_ms() -> impl Strategy<Value = u64> {
    prop_oneof![0..40u64, 0..5_000u64, 0..600_000u64, 0..100_000_000u64, 0..10_000_000_000u64, 0..3_000_000_000_000u64]
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..40u32;
    prop_oneof![
        6 => (key.clone(), prop_oneof![9 => span_ms(), 1 => Just(u64::MAX - START_MS * 2)])
            .prop_map(|(key, ttl_ms)| Op::Set { key, ttl_ms }),
        2 => (key.clone(), 0..40u32, span_ms(), 0..3_000u64)
            .prop_map(|(first, count, ttl_ms, apart_ms)| Op::SetMany { first, count, ttl_ms, apart_ms }),
        1 => (key.clone(), span_ms()).prop_map(|(key, ago_ms)| Op::SetPast { key, ago_ms }),
        3 => key.prop_map(|key| Op::Remove { key }),
        3 => (span_ms(), 0..20usize, 1..4usize).prop_map(|(step_ms, budget, slices)| Op::Advance { step_ms, budget, slices }),
        2 => (span_ms(), 1..20usize).prop_map(|(step_ms, budget)| Op::CatchUp { step_ms, budget }),
        2 => (1..40usize).prop_map(|times| Op::Sleep { times }),
        1 => span_ms().prop_map(|ms| Op::StepBack { ms }),
        2 => (0..20usize, 1..4usize).prop_map(|(budget, slices)| Op::Purge { budget, slices }),
        1 => Just(Op::PurgeAll),
    ]
}

fn apply(w: &mut World, op: Op) {
    let now_ms = w.owner.now_ms;
    match op {
        Op::Set { key, ttl_ms } => w.set_or_full(key, now_ms.saturating_add(ttl_ms)),
        Op::SetMany { first, count, ttl_ms, apart_ms } => {
            for k in 0..count {
                w.set_or_full(first + k, now_ms + ttl_ms + u64::from(k) * apart_ms);
            }
        }
        Op::SetPast { key, ago_ms } => w.set_or_full(key, now_ms.saturating_sub(ago_ms)),
        Op::Remove { key } => drop(w.owner.items.remove(&key)),
        Op::Advance { step_ms, budget, slices } => {
            w.at((now_ms + step_ms).min(DEADLINE_MS_MAX));
            for _ in 0..slices {
                w.advance(budget);
            }
        }
        Op::CatchUp { step_ms, budget } => {
            w.at((now_ms + step_ms).min(DEADLINE_MS_MAX));
            w.catch_up(budget);
        }
        Op::Sleep { times } => {
            for _ in 0..times {
                let Some(due) = w.wheel.next_due_ms() else { break };
                w.at(due.max(w.owner.now_ms).min(DEADLINE_MS_MAX));
                w.catch_up(7);
            }
        }
        Op::StepBack { ms } => {
            w.at(now_ms.saturating_sub(ms));
            w.advance(0);
        }
        Op::Purge { budget, slices } => {
            for _ in 0..slices {
                w.purge(budget);
            }
        }
        Op::Exhaust => w.exhaust(),
        Op::PurgeAll => {
            // The pass under way does not see again what it has passed; the next one does.
            while w.purge(5) {}
            while w.purge(5) {}
            if w.hoard_bytes == 0 {
                assert_eq!(w.wheel.entries(), w.owner.items.len() as u64, "one entry an item after a pass");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Nothing early, nothing late, nothing lost, and nothing left over; `check_in_time` after each complete advance.
    #[test]
    fn like_a_map_of_deadlines(sharing in 1..4u32, ops in prop::collection::vec(op(), 1..60), drain in any::<bool>()) {
        run(sharing, ops, drain);
    }

    /// The same when the slab runs full on the way.
    #[test]
    fn like_a_map_of_deadlines_without_memory(
        sharing in 1..4u32,
        ops in prop::collection::vec(prop_oneof![20 => op(), 1 => Just(Op::Exhaust)], 1..60),
        drain in any::<bool>(),
    ) {
        run(sharing, ops, drain);
    }
}

fn run(sharing: u32, ops: Vec<Op>, drain: bool) {
    let mut w = World::new(sharing, 1 << 20);
    for op in ops {
        apply(&mut w, op);
        w.check();
    }
    if !drain {
        w.at(DEADLINE_MS_MAX);
        w.catch_up(9);
        w.check();
        // Every deadline lies within the 48 bits, so all are gone, but for one that rounds up to the tick after them.
        assert!(w.owner.items.values().all(|i| i.gone_by_ms > DEADLINE_MS_MAX));
        w.owner.items.clear();
        if w.hoard_bytes == 0 {
            while w.purge(3) {}
            while w.purge(3) {}
            assert_eq!(w.wheel.entries(), 0);
        }
    }
    w.owner.items.clear();
    while w.wheel.drain(&mut w.slab, 1) {
        w.check();
    }
    assert_eq!((w.wheel.entries(), w.wheel.bytes()), (0, 0));
    assert_eq!(w.slab.used_bytes(), w.hoard_bytes);
}

#[test]
fn codes_pack_and_unpack() {
    let mut seen = std::collections::HashSet::new();
    for level in 0..LEVELS {
        for slot in 0..SLOTS {
            for generation in [false, true] {
                let place = Place { level, slot, generation };
                assert!(seen.insert(place.pack()) && place.pack() < 1 << 12);
                assert_eq!(Place::unpack(place.pack()), Some(place));
            }
        }
    }
    assert!(!seen.contains(&UNARMED) && !seen.iter().any(|&code| is_parked(code)));
    assert_eq!((Place::unpack(UNARMED), Place::unpack(PARKED)), (None, None));
}

#[test]
fn bits_find_the_next() {
    let mut rng = Rng::seeded(5);
    for _ in 0..200 {
        let mut bits = Bits([0; 4]);
        let set: Vec<usize> = (0..rng.below(4)).map(|_| slot_of(rng.next_u64())).collect();
        set.iter().for_each(|&i| bits.set(i, true));
        for from in 0..SLOTS {
            let nearest = set.iter().map(|&i| (i + SLOTS - from) % SLOTS).min();
            assert_eq!(bits.distance(from), nearest.map(|d| d as u64));
            assert_eq!(bits.get(from), set.contains(&from));
        }
    }
}

/// SET EX of one key in a loop, as a session store does: one entry.
#[test]
fn repeated_ttl_adds_nothing() {
    let mut w = World::new(1, 1 << 20);
    for step in 0..100_000 {
        w.at(START_MS + step);
        w.set(1, START_MS + step + 30_000).unwrap();
        w.catch_up(10);
    }
    assert_eq!(w.wheel.entries(), 1);
    // Re-armed about once per slot of level 1, not once per SET.
    assert!(w.owner.visits < 50, "{}", w.owner.visits);
    w.at(START_MS + 100_000 + 30_000 + TICK_MS);
    w.catch_up(10);
    assert!(w.owner.items.is_empty() && w.wheel.entries() == 0);
}

/// DEL and SET EX of one key in a loop: all entries look alike, and a purge leaves one.
#[test]
fn churn_is_bounded_by_purges() {
    let mut w = World::new(1, 64 << 20);
    let mut most = 0;
    for step in 0..60_000u64 {
        w.owner.items.remove(&1);
        w.set(1, START_MS + 3_600_000).unwrap();
        if step % 16 == 0 && (w.wheel.purge.is_some() || w.wheel.is_stale(1)) {
            w.purge(64);
        }
        most = most.max(w.wheel.entries());
    }
    assert!(most < 3_000, "{most}");
    w.check();
    w.at(START_MS + 3_600_000 + TICK_MS);
    w.catch_up(64);
    assert_eq!((w.owner.items.len(), w.wheel.entries(), w.slab.used_bytes()), (0, 0, 0));
}

/// Many deadlines in one millisecond: brought down ahead of time in small doses, then deleted in slices at the deadline.
#[test]
fn a_crowd_in_one_millisecond_neither_stalls_nor_comes_late() {
    const CROWD: u32 = 60_000;
    let mut w = World::new(1, 1 << 30);
    let deadline_ms = START_MS + 7_200_000;
    for key in 0..CROWD {
        w.set(key, deadline_ms).unwrap();
    }
    let mut most_a_tick = 0;
    while w.owner.now_ms < deadline_ms - TICK_MS {
        let due = w.wheel.next_due_ms().unwrap().min(deadline_ms - TICK_MS);
        w.at(due);
        let before = w.owner.visits;
        w.catch_up(500);
        most_a_tick = most_a_tick.max(w.owner.visits - before);
    }
    // Level 2 (4.4 min a slot) has 8192 ticks for half a slot, level 1 has 64: 60,000 / 64 and a little.
    assert!(most_a_tick < 1_100, "{most_a_tick} in one tick");
    assert_eq!(w.owner.items.len(), CROWD as usize);
    assert!(
        w.owner.items.values().all(|i| Place::unpack(i.code).is_some_and(|p| p.level == 0)),
        "all wait on the lowest level"
    );
    assert_eq!(w.owner.visits, 2 * CROWD as usize, "looked at twice on the way");
    w.at(deadline_ms + TICK_MS);
    let slices = (1..).find(|_| !w.advance(500)).unwrap();
    assert!((CROWD / 500..=CROWD / 500 + 1).contains(&slices), "{slices}");
    assert!(w.owner.items.is_empty());
}

/// The machine slept for years, or somebody set the date: all is due at once, in slices, in few steps.
#[test]
fn a_leap_of_the_clock_costs_only_what_is_due() {
    let mut w = World::new(1, 1 << 30);
    let mut rng = Rng::seeded(1);
    for key in 0..20_000 {
        let shift = rng.below(41);
        w.set(key, START_MS + (rng.next_u64() & 0xffff_ffff_ffff) % (1 << shift)).unwrap();
    }
    w.set(20_000, START_MS + (1 << 45)).unwrap();
    w.at(START_MS + (1 << 41));
    let slices = (1..).find(|_| !w.advance(100)).unwrap();
    assert_eq!(w.owner.items.len(), 1);
    assert!(slices <= 20_100 / 100 + 1, "expired ones are not moved down first: {slices}");
    w.check();
}

/// Set back by a day: what is armed afterwards is in time, what was armed before as well.
#[test]
fn the_clock_set_back() {
    let mut w = World::new(1, 1 << 24);
    w.set(1, START_MS + 5_000).unwrap();
    w.at(START_MS - 86_400_000);
    w.catch_up(10);
    w.set(2, w.owner.now_ms + 1_000).unwrap();
    w.at(w.owner.now_ms + 1_000 + TICK_MS);
    w.catch_up(10);
    assert_eq!(w.owner.items.keys().copied().collect::<Vec<_>>(), [1]);
    w.at(START_MS + 4_999);
    w.catch_up(10);
    assert_eq!(w.owner.items.len(), 1);
    w.at(START_MS + 5_000 + TICK_MS);
    w.catch_up(10);
    assert!(w.owner.items.is_empty());
}

/// No memory for slots: arming says so, re-arming goes on, every expiry happens in time.
#[test]
fn without_memory_nothing_is_lost() {
    let mut w = World::new(2, 4 << 20);
    let mut rng = Rng::seeded(9);
    for key in 0..3_000 {
        w.set(key, START_MS + 15_000 + rng.below(20_000)).unwrap();
    }
    w.exhaust();
    let refused = (3_000..10_000).find(|&key| w.set(key, START_MS + 100_000_000 + u64::from(key)).is_err()).unwrap();
    assert!(!w.owner.items.contains_key(&refused));
    let mut parked_most = 0;
    while w.owner.items.values().any(|i| i.deadline_ms < START_MS + 100_000_000) {
        w.at(w.wheel.next_due_ms().unwrap());
        w.catch_up(50);
        parked_most = parked_most.max(w.wheel.parked.len());
        if w.wheel.tick % 64 == 0 {
            w.check();
            // Neither does a purge lose anything then.
            while w.purge(100) {}
            w.check();
        }
    }
    assert!(parked_most > 0, "the test is about this");
    w.at(START_MS + 200_000_000);
    w.catch_up(50);
    assert_eq!((w.owner.items.len(), w.wheel.entries(), w.wheel.heap_bytes() > 0), (0, 0, true));
    assert_eq!(w.wheel.parked.capacity(), 0);
    assert_eq!(w.wheel.blocks.held(), 0);
}

/// The target of the design: at most 5 bytes a key in bulk, slot heads included.
#[test]
fn bytes_an_entry() {
    for (ttl_ms, hundredths_max) in [(36_000_000, 430), (300_000, 430), (3_000, 430)] {
        let mut slab = slab(1 << 30);
        let mut wheel = Wheel::new(START_MS);
        let n = 1_000_000u64;
        for i in 0..n {
            // 100 a millisecond: filled over 10 s.
            let now_ms = START_MS + i / 100;
            wheel.arm(&mut slab, u32::try_from(i).unwrap(), now_ms + ttl_ms, UNARMED).unwrap();
        }
        assert_eq!(wheel.entries(), n);
        assert_eq!(slab.used_bytes() + wheel.heap_bytes(), wheel.bytes());
        let hundredths = wheel.bytes() * 100 / n;
        assert!(hundredths <= hundredths_max, "TTL {ttl_ms} ms: {hundredths} hundredths of a byte an entry");
        println!("TTL {ttl_ms} ms: {hundredths} hundredths of a byte an entry");
    }
}

#[test]
#[should_panic(expected = "one slab")]
fn a_second_slab_is_refused() {
    let (mut a, mut b) = (slab(1 << 20), slab(1 << 20));
    let mut wheel = Wheel::new(START_MS);
    wheel.arm(&mut a, 1, START_MS + 10, UNARMED).unwrap();
    let _ = wheel.arm(&mut b, 1, START_MS + 10, UNARMED);
}
