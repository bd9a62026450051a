//! Ours, `allkeys-smart`, as the server does it: a table of buckets in the order of hashes, a hand that goes over them, twenty bits of an
//! item's header and two bits beside its handle.

use dolmen_policy::{Model, Shard, Threshold, Verdict};

use super::Policy;
use crate::trace::Trace;

/// Entries of a bucket, on the whole.
const BUCKET_ENTRIES: u64 = 10;
/// Items that are remembered for each that is there.
const GHOSTS_AN_ITEM: f64 = 0.5;
const GHOST_BYTES: f64 = 2.0;

/// A part of the keyspace, with a table and a hand of its own.
struct Part {
    state: Shard,
    buckets: Vec<Vec<u32>>,
    count: usize,
    bucket: usize,
    slot: usize,
}

#[derive(Clone, Copy, Default)]
struct Object {
    here: bool,
    word: u32,
    skips: u8,
}

pub struct Smart<'a> {
    bytes: &'a [u32],
    capacity: u64,
    used: u64,
    ghosts: u64,
    parts: Vec<Part>,
    /// The part whose hand moves next.
    turn: usize,
    objects: Vec<Object>,
    model: Model,
    threshold: Threshold,
    evicted: u64,
    looked: u64,
    passed: u64,
    touched: u64,
    hits: u64,
}

impl<'a> Smart<'a> {
    pub fn new(trace: &'a Trace, capacity: u64, parts: u32) -> Self {
        let mean = trace.mean_bytes();
        let fit = (capacity / mean / u64::from(parts)).max(1);
        let ghosts = (fit as f64 * GHOSTS_AN_ITEM) as usize;
        let ghost_bytes = (ghosts as f64 * GHOST_BYTES) as u64 * u64::from(parts);
        let limit = capacity - ghost_bytes;
        let part = |_| Part {
            state: Shard::new(limit / u64::from(parts), ghosts),
            buckets: vec![Vec::new(); (fit / BUCKET_ENTRIES + 1) as usize],
            count: 0,
            bucket: 0,
            slot: 0,
        };
        Smart {
            bytes: &trace.bytes,
            capacity: limit,
            used: 0,
            ghosts: ghost_bytes,
            parts: (0..parts).map(part).collect(),
            turn: 0,
            objects: vec![Object::default(); trace.bytes.len()],
            model: Model::new(parts),
            threshold: Threshold::default(),
            evicted: 0,
            looked: 0,
            passed: 0,
            touched: 0,
            hits: 0,
        }
    }

    /// The part and the bucket of an object.
    fn place(&self, object: u32) -> (usize, usize) {
        let hash = hash(object);
        let part = (hash % self.parts.len() as u64) as usize;
        let buckets = self.parts[part].buckets.len();
        (part, ((u128::from(hash) * buckets as u128) >> 64) as usize)
    }

    fn evict(&mut self) {
        // One after the other; some may be empty, not all.
        self.turn = (self.turn + 1) % self.parts.len();
        while self.parts[self.turn].count == 0 {
            self.turn = (self.turn + 1) % self.parts.len();
        }
        let Part { state, buckets, count, bucket, slot } = &mut self.parts[self.turn];
        loop {
            let Some(&object) = buckets[*bucket].get(*slot) else {
                (*bucket, *slot) = ((*bucket + 1) % buckets.len(), 0);
                continue;
            };
            self.passed += 1;
            let item = &mut self.objects[object as usize];
            if item.skips > 0 {
                item.skips -= 1;
                self.threshold.pass();
                *slot += 1;
                continue;
            }
            self.looked += 1;
            match state.judge(item.word, u64::from(self.bytes[object as usize]), &mut self.threshold) {
                Verdict::Evict => {
                    state.evicted(hash(object), item.word);
                    item.here = false;
                    *count -= 1;
                    buckets[*bucket].swap_remove(*slot);
                    self.evicted += 1;
                    self.used -= u64::from(self.bytes[object as usize]);
                    return;
                }
                Verdict::Keep { skips } => {
                    item.skips = skips;
                    item.word = state.aged(item.word);
                    *slot += 1;
                }
            }
        }
    }
}

fn hash(object: u32) -> u64 {
    let hash = (u64::from(object) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 29)
}

impl Policy for Smart<'_> {
    fn get(&mut self, object: u32) -> bool {
        let (part, _) = self.place(object);
        let item = &mut self.objects[object as usize];
        if item.here {
            self.hits += 1;
            let state = &mut self.parts[part].state;
            if !state.is_fresh(item.word) {
                self.touched += 1;
                item.word = state.used(item.word, u64::from(self.bytes[object as usize]), &self.threshold);
            }
        }
        item.here
    }

    fn set(&mut self, object: u32) {
        let bytes = u64::from(self.bytes[object as usize]);
        if bytes > self.capacity || self.get(object) {
            return;
        }
        while self.used + bytes > self.capacity {
            self.evict();
        }
        self.used += bytes;
        let (part, bucket) = self.place(object);
        let part = &mut self.parts[part];
        self.objects[object as usize] = Object { here: true, word: part.state.inserted(hash(object), bytes), skips: 0 };
        part.buckets[bucket].push(object);
        part.count += 1;
        if part.state.is_due() {
            part.state.learn(&mut self.model);
        }
    }

    fn used_bytes(&self) -> u64 {
        self.used + self.ghosts
    }

    fn note(&self) -> String {
        let evicted = self.evicted.max(1) as f64;
        format!(
            "an eviction takes {:.1} looks and {:.1} passes, {:.0}% of hits change a word",
            self.looked as f64 / evicted,
            self.passed as f64 / evicted,
            100.0 * self.touched as f64 / self.hits.max(1) as f64
        )
    }
}
