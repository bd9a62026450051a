//! Policies of one queue or a few: FIFO, CLOCK, LRU, SIEVE (Zhang and others, NSDI 2024), S3-FIFO (Yang and others, SOSP 2023).

use super::Policy;
use super::list::{Links, List};
use crate::trace::Trace;

pub struct Fifo<'a> {
    bytes: &'a [u32],
    capacity: u64,
    links: Links,
    queue: List,
    here: Vec<bool>,
}

impl<'a> Fifo<'a> {
    pub fn new(trace: &'a Trace, capacity: u64) -> Self {
        let objects = trace.bytes.len();
        Fifo {
            bytes: &trace.bytes,
            capacity,
            links: Links::new(objects),
            queue: List::default(),
            here: vec![false; objects],
        }
    }

    fn may_fit(&self, object: u32) -> bool {
        u64::from(self.bytes[object as usize]) <= self.capacity
    }
}

impl Policy for Fifo<'_> {
    fn get(&mut self, object: u32) -> bool {
        self.here[object as usize]
    }

    fn set(&mut self, object: u32) {
        if self.here[object as usize] || !self.may_fit(object) {
            return;
        }
        while self.queue.bytes + u64::from(self.bytes[object as usize]) > self.capacity {
            let Some(oldest) = self.queue.oldest() else { return };
            self.queue.remove(&mut self.links, oldest, self.bytes[oldest as usize]);
            self.here[oldest as usize] = false;
        }
        self.queue.push(&mut self.links, object, self.bytes[object as usize]);
        self.here[object as usize] = true;
    }

    fn used_bytes(&self) -> u64 {
        self.queue.bytes
    }
}

pub struct Lru<'a>(Fifo<'a>);

impl<'a> Lru<'a> {
    pub fn new(trace: &'a Trace, capacity: u64) -> Self {
        Lru(Fifo::new(trace, capacity))
    }
}

impl Policy for Lru<'_> {
    fn get(&mut self, object: u32) -> bool {
        let Fifo { here, queue, links, bytes, .. } = &mut self.0;
        if here[object as usize] {
            queue.remove(links, object, bytes[object as usize]);
            queue.push(links, object, bytes[object as usize]);
        }
        here[object as usize]
    }

    fn set(&mut self, object: u32) {
        if !self.get(object) {
            self.0.set(object);
        }
    }

    fn used_bytes(&self) -> u64 {
        self.0.used_bytes()
    }
}

pub struct Clock<'a> {
    fifo: Fifo<'a>,
    used: Vec<bool>,
}

impl<'a> Clock<'a> {
    pub fn new(trace: &'a Trace, capacity: u64) -> Self {
        Clock { fifo: Fifo::new(trace, capacity), used: vec![false; trace.bytes.len()] }
    }
}

impl Policy for Clock<'_> {
    fn get(&mut self, object: u32) -> bool {
        let here = self.fifo.here[object as usize];
        self.used[object as usize] = here;
        here
    }

    fn set(&mut self, object: u32) {
        if self.get(object) || !self.fifo.may_fit(object) {
            return;
        }
        let Fifo { queue, links, bytes, capacity, here } = &mut self.fifo;
        while queue.bytes + u64::from(bytes[object as usize]) > *capacity {
            let Some(oldest) = queue.oldest() else { return };
            queue.remove(links, oldest, bytes[oldest as usize]);
            if std::mem::take(&mut self.used[oldest as usize]) {
                queue.push(links, oldest, bytes[oldest as usize]);
            } else {
                here[oldest as usize] = false;
            }
        }
        self.fifo.set(object);
    }

    fn used_bytes(&self) -> u64 {
        self.fifo.used_bytes()
    }
}

pub struct Sieve<'a> {
    fifo: Fifo<'a>,
    used: Vec<bool>,
    hand: Option<u32>,
}

impl<'a> Sieve<'a> {
    pub fn new(trace: &'a Trace, capacity: u64) -> Self {
        Sieve { fifo: Fifo::new(trace, capacity), used: vec![false; trace.bytes.len()], hand: None }
    }
}

impl Policy for Sieve<'_> {
    fn get(&mut self, object: u32) -> bool {
        let here = self.fifo.here[object as usize];
        self.used[object as usize] = here;
        here
    }

    fn set(&mut self, object: u32) {
        if self.get(object) || !self.fifo.may_fit(object) {
            return;
        }
        let Fifo { queue, links, bytes, capacity, here } = &mut self.fifo;
        while queue.bytes + u64::from(bytes[object as usize]) > *capacity {
            let Some(mut at) = self.hand.or(queue.oldest()) else { return };
            while std::mem::take(&mut self.used[at as usize]) {
                let Some(next) = List::newer(links, at).or(queue.oldest()) else { return };
                at = next;
            }
            self.hand = List::newer(links, at);
            queue.remove(links, at, bytes[at as usize]);
            here[at as usize] = false;
        }
        self.fifo.set(object);
    }

    fn used_bytes(&self) -> u64 {
        self.fifo.used_bytes()
    }
}

/// Where S3-FIFO has an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Small,
    Main,
    Ghost,
}

pub struct S3Fifo<'a> {
    bytes: &'a [u32],
    capacity: u64,
    links: Links,
    small: List,
    main: List,
    ghost: List,
    place: Vec<Place>,
    /// Up to 3.
    uses: Vec<u8>,
}

impl<'a> S3Fifo<'a> {
    pub fn new(trace: &'a Trace, capacity: u64) -> Self {
        let objects = trace.bytes.len();
        S3Fifo {
            bytes: &trace.bytes,
            capacity,
            links: Links::new(objects),
            small: List::default(),
            main: List::default(),
            ghost: List::default(),
            place: vec![Place::Nowhere; objects],
            uses: vec![0; objects],
        }
    }

    fn evict(&mut self) {
        if self.small.bytes >= self.capacity / 10 || self.main.count == 0 {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        while let Some(oldest) = self.small.oldest() {
            let bytes = self.bytes[oldest as usize];
            self.small.remove(&mut self.links, oldest, bytes);
            if std::mem::take(&mut self.uses[oldest as usize]) > 1 {
                self.main.push(&mut self.links, oldest, bytes);
                self.place[oldest as usize] = Place::Main;
                if self.main.bytes > self.capacity - self.capacity / 10 {
                    self.evict_main();
                }
                continue;
            }
            self.ghost.push(&mut self.links, oldest, bytes);
            self.place[oldest as usize] = Place::Ghost;
            while self.ghost.bytes > self.capacity - self.capacity / 10 {
                let Some(oldest) = self.ghost.oldest() else { break };
                self.ghost.remove(&mut self.links, oldest, self.bytes[oldest as usize]);
                self.place[oldest as usize] = Place::Nowhere;
            }
            return;
        }
    }

    fn evict_main(&mut self) {
        while let Some(oldest) = self.main.oldest() {
            let bytes = self.bytes[oldest as usize];
            self.main.remove(&mut self.links, oldest, bytes);
            if self.uses[oldest as usize] > 0 {
                self.uses[oldest as usize] -= 1;
                self.main.push(&mut self.links, oldest, bytes);
            } else {
                self.place[oldest as usize] = Place::Nowhere;
                return;
            }
        }
    }
}

impl Policy for S3Fifo<'_> {
    fn get(&mut self, object: u32) -> bool {
        let here = matches!(self.place[object as usize], Place::Small | Place::Main);
        if here {
            self.uses[object as usize] = (self.uses[object as usize] + 1).min(3);
        }
        here
    }

    fn set(&mut self, object: u32) {
        let bytes = self.bytes[object as usize];
        if self.get(object) || u64::from(bytes) > self.capacity {
            return;
        }
        let known = self.place[object as usize] == Place::Ghost;
        if known {
            self.ghost.remove(&mut self.links, object, bytes);
            self.place[object as usize] = Place::Nowhere;
        }
        while self.used_bytes() + u64::from(bytes) > self.capacity {
            self.evict();
        }
        let (queue, place) = if known { (&mut self.main, Place::Main) } else { (&mut self.small, Place::Small) };
        queue.push(&mut self.links, object, bytes);
        self.place[object as usize] = place;
        self.uses[object as usize] = 0;
    }

    fn used_bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }
}
