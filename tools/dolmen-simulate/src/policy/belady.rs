//! The clairvoyant bound: knows when each object is asked for next.
//!
//! With one size the optimum is to evict what is used furthest ahead (Belady, 1966). With several it is hard to compute; evicting what has
//! the largest product of size and distance, of a sample, is close to it, as experience with traces shows. It is the best that is printed,
//! not a proof that nothing is better.

use super::Policy;
use crate::trace::Trace;

const SAMPLES: usize = 64;

pub struct Belady<'a> {
    bytes: &'a [u32],
    capacity: u64,
    used: u64,
    /// By request, when its object is asked for next.
    next: Vec<u32>,
    /// By object, when it is asked for next.
    due: Vec<u32>,
    /// By object, where it is in `present`.
    place: Vec<u32>,
    present: Vec<u32>,
    now: u32,
    random: u64,
}

const NOWHERE: u32 = u32::MAX;
const NEVER: u32 = u32::MAX;

impl<'a> Belady<'a> {
    pub fn new(trace: &'a Trace, capacity: u64) -> Self {
        let mut due = vec![NEVER; trace.bytes.len()];
        let mut next = vec![NEVER; trace.requests.len()];
        for (at, &object) in trace.requests.iter().enumerate().rev() {
            next[at] = due[object as usize];
            due[object as usize] = at as u32;
        }
        Belady {
            bytes: &trace.bytes,
            capacity,
            used: 0,
            next,
            due,
            place: vec![NOWHERE; trace.bytes.len()],
            present: Vec::new(),
            now: 0,
            random: 1,
        }
    }

    /// What keeping an object costs.
    fn cost(&self, object: u32) -> u64 {
        match self.due[object as usize] {
            NEVER => u64::MAX,
            due => u64::from(due.saturating_sub(self.now)) * u64::from(self.bytes[object as usize]),
        }
    }
}

impl Policy for Belady<'_> {
    fn get(&mut self, object: u32) -> bool {
        self.due[object as usize] = self.next[self.now as usize];
        self.now += 1;
        self.place[object as usize] != NOWHERE
    }

    fn set(&mut self, object: u32) {
        // What is never used again need not come in.
        if self.place[object as usize] != NOWHERE || self.due[object as usize] == NEVER {
            return;
        }
        let bytes = u64::from(self.bytes[object as usize]);
        let own = self.cost(object);
        while self.used + bytes > self.capacity && !self.present.is_empty() {
            let mut worst = (own, NOWHERE);
            for _ in 0..SAMPLES {
                self.random =
                    self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (u128::from(self.random) * self.present.len() as u128) >> 64;
                let other = self.present[at as usize];
                worst = worst.max((self.cost(other), other));
            }
            let (_, victim) = worst;
            if victim == NOWHERE {
                return;
            }
            let at = self.place[victim as usize];
            self.present.swap_remove(at as usize);
            if let Some(&moved) = self.present.get(at as usize) {
                self.place[moved as usize] = at;
            }
            self.place[victim as usize] = NOWHERE;
            self.used -= u64::from(self.bytes[victim as usize]);
        }
        if self.used + bytes <= self.capacity {
            self.place[object as usize] = self.present.len() as u32;
            self.present.push(object);
            self.used += bytes;
        }
    }

    fn used_bytes(&self) -> u64 {
        self.used
    }
}
