//! W-TinyLFU (Einziger, Friedman, Manes, 2017): a small LRU window before a segmented LRU, and admission from one to the other by a sketch
//! of frequencies. With hill climbing of the window (Einziger, Eytan, Friedman, Manes, 2018), or admission by frequency a byte.

use super::Policy;
use super::list::{Links, List};
use crate::trace::Trace;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Admit {
    Frequency,
    Density,
}

/// Count-min of 4-bit counters, four rows, halved when it has counted ten times as many as it has room for.
struct Sketch {
    counters: Vec<u8>,
    mask: u64,
    counted: u64,
    period: u64,
}

impl Sketch {
    fn new(objects: u64) -> Sketch {
        let width = (objects * 4).next_power_of_two();
        Sketch { counters: vec![0; width as usize], mask: width - 1, counted: 0, period: 10 * objects }
    }

    fn places(&self, object: u32) -> [usize; 4] {
        std::array::from_fn(|row| {
            let hash = (u64::from(object) + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (row as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f << 1));
            ((hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20 & self.mask) as usize
        })
    }

    fn add(&mut self, object: u32) {
        let places = self.places(object);
        let least = places.iter().map(|&at| self.counters[at]).min().unwrap_or(0);
        if least < 15 {
            for at in places {
                if self.counters[at] == least {
                    self.counters[at] += 1;
                }
            }
        }
        self.counted += 1;
        if self.counted >= self.period {
            self.counted /= 2;
            for counter in &mut self.counters {
                *counter /= 2;
            }
        }
    }

    fn estimate(&self, object: u32) -> u64 {
        self.places(object).iter().map(|&at| u64::from(self.counters[at])).min().unwrap_or(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Window,
    Probation,
    Protected,
}

/// Hill climbing: each so many requests, the window moves on in the direction that raised the hit ratio.
struct Climb {
    requests: u64,
    hits: u64,
    sample: u64,
    before: f64,
    step: f64,
}

pub struct WTinyLfu<'a> {
    bytes: &'a [u32],
    capacity: u64,
    window_share: f64,
    admit: Admit,
    links: Links,
    window: List,
    probation: List,
    protected: List,
    place: Vec<Place>,
    sketch: Sketch,
    climb: Option<Climb>,
}

impl<'a> WTinyLfu<'a> {
    pub fn new(trace: &'a Trace, capacity: u64, admit: Admit, climb: bool) -> Self {
        let objects = trace.bytes.len();
        let mean = trace.bytes.iter().map(|&bytes| u64::from(bytes)).sum::<u64>() / objects.max(1) as u64;
        let fit = (capacity / mean.max(1)).max(16);
        WTinyLfu {
            bytes: &trace.bytes,
            capacity,
            window_share: 0.01,
            admit,
            links: Links::new(objects),
            window: List::default(),
            probation: List::default(),
            protected: List::default(),
            place: vec![Place::Nowhere; objects],
            sketch: Sketch::new(fit),
            climb: climb.then_some(Climb { requests: 0, hits: 0, sample: fit, before: 0.0, step: 0.0625 }),
        }
    }

    fn list(&mut self, place: Place) -> &mut List {
        match place {
            Place::Window => &mut self.window,
            Place::Probation => &mut self.probation,
            _ => &mut self.protected,
        }
    }

    fn put(&mut self, object: u32, place: Place) {
        let bytes = self.bytes[object as usize];
        let now = self.place[object as usize];
        if now != Place::Nowhere {
            let mut list = *self.list(now);
            list.remove(&mut self.links, object, bytes);
            *self.list(now) = list;
        }
        if place != Place::Nowhere {
            let mut list = *self.list(place);
            list.push(&mut self.links, object, bytes);
            *self.list(place) = list;
        }
        self.place[object as usize] = place;
    }

    fn window_bytes(&self) -> u64 {
        (self.capacity as f64 * self.window_share) as u64
    }

    fn settle(&mut self) {
        let main = self.capacity - self.window_bytes();
        while self.protected.bytes > main / 5 * 4 {
            let Some(oldest) = self.protected.oldest() else { break };
            self.put(oldest, Place::Probation);
        }
        while self.window.bytes > self.window_bytes() {
            let Some(candidate) = self.window.oldest() else { break };
            self.admit(candidate, main);
        }
        // After the window grew.
        while self.used_bytes() > self.capacity {
            let Some(victim) = self.probation.oldest().or(self.protected.oldest()) else { break };
            self.put(victim, Place::Nowhere);
        }
    }

    /// From the window to the main part, or out.
    fn admit(&mut self, candidate: u32, main: u64) {
        let bytes = u64::from(self.bytes[candidate as usize]);
        while self.probation.bytes + self.protected.bytes + bytes > main {
            let Some(victim) = self.probation.oldest().or(self.protected.oldest()) else { break };
            let (ours, theirs) = (self.sketch.estimate(candidate), self.sketch.estimate(victim));
            let better = match self.admit {
                Admit::Frequency => ours > theirs,
                Admit::Density => ours * u64::from(self.bytes[victim as usize]) > theirs * bytes,
            };
            if !better {
                self.put(candidate, Place::Nowhere);
                return;
            }
            self.put(victim, Place::Nowhere);
        }
        self.put(candidate, Place::Probation);
    }

    fn counted(&mut self, hit: bool) {
        let Some(climb) = &mut self.climb else { return };
        climb.requests += 1;
        climb.hits += u64::from(hit);
        if climb.requests < climb.sample {
            return;
        }
        let ratio = climb.hits as f64 / climb.requests as f64;
        let change = ratio - climb.before;
        (climb.before, climb.requests, climb.hits) = (ratio, 0, 0);
        if change < 0.0 {
            climb.step = -climb.step;
        }
        // Steps decay while it stands still, and start again when the ratio jumps.
        climb.step = if change.abs() >= 0.05 { 0.0625 * climb.step.signum() } else { climb.step * 0.98 };
        self.window_share = (self.window_share + climb.step).clamp(0.01, 0.8);
        self.settle();
    }
}

impl Policy for WTinyLfu<'_> {
    fn get(&mut self, object: u32) -> bool {
        self.sketch.add(object);
        let place = self.place[object as usize];
        self.counted(place != Place::Nowhere);
        match self.place[object as usize] {
            Place::Nowhere => return place != Place::Nowhere,
            Place::Window => self.put(object, Place::Window),
            Place::Probation | Place::Protected => self.put(object, Place::Protected),
        }
        self.settle();
        true
    }

    fn set(&mut self, object: u32) {
        if self.place[object as usize] == Place::Nowhere && u64::from(self.bytes[object as usize]) <= self.capacity {
            self.put(object, Place::Window);
            self.settle();
        }
    }

    fn used_bytes(&self) -> u64 {
        self.window.bytes + self.probation.bytes + self.protected.bytes
    }
}
