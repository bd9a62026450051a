//! Redis's two: of five samples and a pool of sixteen, the least recently or least frequently used.
//!
//! Its clocks run with time: here as many requests as make a second at the rate of the measurement.

use super::Policy;
use crate::trace::Trace;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    Recency,
    Frequency,
}

const SAMPLES: usize = 5;
const POOL: usize = 16;
/// The counter of a new object, and how fast it grows (`lfu-log-factor`).
const LFU_INIT: u8 = 5;
const LFU_LOG_FACTOR: f64 = 10.0;
/// The counter loses 1 after so many requests (`lfu-decay-time`, a minute; at 30,000 requests a second).
const LFU_DECAY_REQUESTS: u32 = 1_800_000;
const NOWHERE: u32 = u32::MAX;

pub struct Sampled<'a> {
    by: By,
    bytes: &'a [u32],
    capacity: u64,
    used: u64,
    last: Vec<u32>,
    counter: Vec<u8>,
    place: Vec<u32>,
    present: Vec<u32>,
    pool: Vec<(u64, u32)>,
    now: u32,
    random: u64,
}

impl<'a> Sampled<'a> {
    pub fn new(trace: &'a Trace, capacity: u64, by: By) -> Self {
        let objects = trace.bytes.len();
        Sampled {
            by,
            bytes: &trace.bytes,
            capacity,
            used: 0,
            last: vec![0; objects],
            counter: vec![0; objects],
            place: vec![NOWHERE; objects],
            present: Vec::new(),
            pool: Vec::with_capacity(POOL + 1),
            now: 0,
            random: 1,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.random) * bound as u128) >> 64) as usize
    }

    fn decayed(&self, object: u32) -> u8 {
        let periods = (self.now - self.last[object as usize]) / LFU_DECAY_REQUESTS;
        self.counter[object as usize].saturating_sub(periods.min(255) as u8)
    }

    fn idle(&self, object: u32) -> u64 {
        match self.by {
            By::Recency => u64::from(self.now - self.last[object as usize]),
            By::Frequency => 255 - u64::from(self.decayed(object)),
        }
    }

    fn used_now(&mut self, object: u32) {
        let counter = self.decayed(object);
        let chance = 1.0 / (f64::from(counter.saturating_sub(LFU_INIT)) * LFU_LOG_FACTOR + 1.0);
        let grows = counter < 255 && (self.below(1 << 30) as f64) < chance * f64::from(1 << 30);
        self.counter[object as usize] = counter + u8::from(grows);
        self.last[object as usize] = self.now;
    }

    fn evict(&mut self) {
        loop {
            for _ in 0..SAMPLES {
                let at = self.below(self.present.len());
                let object = self.present[at];
                if self.pool.iter().any(|&(_, other)| other == object) {
                    continue;
                }
                let idle = self.idle(object);
                let at = self.pool.partition_point(|&(other, _)| other < idle);
                if self.pool.len() < POOL {
                    self.pool.insert(at, (idle, object));
                } else if at > 0 {
                    self.pool.insert(at, (idle, object));
                    self.pool.remove(0);
                }
            }
            while let Some((_, victim)) = self.pool.pop() {
                let at = self.place[victim as usize];
                if at != NOWHERE {
                    self.present.swap_remove(at as usize);
                    if let Some(&moved) = self.present.get(at as usize) {
                        self.place[moved as usize] = at;
                    }
                    self.place[victim as usize] = NOWHERE;
                    self.used -= u64::from(self.bytes[victim as usize]);
                    return;
                }
            }
        }
    }
}

impl Policy for Sampled<'_> {
    fn get(&mut self, object: u32) -> bool {
        self.now += 1;
        let here = self.place[object as usize] != NOWHERE;
        if here {
            self.used_now(object);
        }
        here
    }

    fn set(&mut self, object: u32) {
        if self.place[object as usize] != NOWHERE {
            self.used_now(object);
            return;
        }
        let bytes = u64::from(self.bytes[object as usize]);
        if bytes > self.capacity {
            return;
        }
        while self.used + bytes > self.capacity {
            self.evict();
        }
        self.counter[object as usize] = LFU_INIT;
        self.last[object as usize] = self.now;
        self.place[object as usize] = self.present.len() as u32;
        self.present.push(object);
        self.used += bytes;
    }

    fn used_bytes(&self) -> u64 {
        self.used
    }
}
