//! What an item is worth, learned: how often items that were used so often, and last so long ago, are hit, beside how many there are.
//!
//! ```text
//!            age of last use, in bins ─▶
//!  heat,   | hits / looks | ...              Tally: counts of a shard, emptied into the model each tick
//!  in      |              |                  Model: counts of all shards, each tick counts less than the next
//!  classes | ...          |                  Worth: a logarithm for each cell, what the hand reads
//!    ▼
//! ```
//! The hand counts each item that it looks at or passes, hits count when an item is used the first time in a tick. Hits a look are the
//! hazard of a cell: the chance of a hit in a tick. A cell is worth the best that waiting for any time from there promises: hits by then, a
//! tick of waiting (Gittins' index; it is what keeps a part of a loop that does not fit). Nothing is assumed of the requests: where
//! popularity is stable heat decides; where it moves on, what was hot and is not used any more is seen to be dead.
//!
//! Learned densities of hits by age and class are the idea of N. Beckmann, H. Chen and A. Cidon, "LHD: Improving Cache Hit Rate by
//! Maximizing Hit Density" (NSDI 2018); classes by heat, the census by the hand and the index are ours.

use crate::access::{Access, HEAT_MAX, HEAT_STEPS};

/// Two classes a doubling of use.
const CLASS_HEAT: u8 = 4;
const _: () = assert!(2 * CLASS_HEAT as u32 == HEAT_STEPS);
const CLASSES: usize = (HEAT_MAX / CLASS_HEAT) as usize + 1;
/// Four bins a doubling of age: up to eight turnovers of the cache.
const BINS: usize = 24;
const CELLS: usize = CLASSES * BINS;
/// Steps of worth for a doubling.
pub const WORTH_STEPS: i32 = 16;

/// How much of what was counted is kept a tick later: half for six ticks, a third of a turnover.
const KEPT: f32 = 0.9;
/// So many looks are thought up in each cell, hit as the age before has it and, to this part, as [`expected`] has it for all: enough hope
/// that ages which nothing reaches any more are tried again.
const ASSUMED: f32 = 20.0;
const HOPE: f32 = 0.25;
/// Of cells that are never hit: 2^-30, so that the worth of what is never hit is still ordered by size.
const HAZARD_MIN: f32 = 1e-9;

#[inline]
fn bin(age: u32) -> usize {
    if age < 4 {
        return age as usize;
    }
    let log = age.ilog2();
    (((log - 1) * 4 + (age >> (log - 2) & 3)) as usize).min(BINS - 1)
}

/// Ticks that a bin spans.
fn width(bin: usize) -> f32 {
    if bin < 4 { 1.0 } else { (1u32 << (bin / 4 - 1)) as f32 }
}

/// Hits before anything is known, up to a factor: uses over time.
fn expected(class: usize, bin: usize) -> f32 {
    let middle = if bin < 4 { bin as f32 } else { (4.5 + (bin % 4) as f32) * width(bin) - 0.5 };
    ((class as f32 * 0.5).exp2() - 0.5) / (middle + 4.0)
}

fn cell(access: Access, now: u32) -> usize {
    usize::from(access.heat / CLASS_HEAT) * BINS + bin(access.age(now))
}

/// What a shard counts between two ticks.
pub struct Tally {
    hits: [u16; CELLS],
    looks: [u16; CELLS],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { hits: [0; CELLS], looks: [0; CELLS] }
    }
}

impl Tally {
    /// An item was used, the first time in this tick; `access` is what it had before.
    #[inline]
    pub fn hit(&mut self, access: Access, now: u32) {
        let count = &mut self.hits[cell(access, now)];
        *count = count.saturating_add(1);
    }

    /// The hand looked at an item, for so many times that it comes by.
    #[inline]
    pub fn look(&mut self, access: Access, now: u32, times: u8) {
        let count = &mut self.looks[cell(access, now)];
        *count = count.saturating_add(u16::from(times));
    }
}

/// By cell, the logarithm of what an item is worth.
#[derive(Clone)]
pub struct Worth([i16; CELLS]);

impl Default for Worth {
    fn default() -> Worth {
        Model::new(1).worth
    }
}

impl Worth {
    /// What a byte of an item is worth, as a logarithm.
    #[inline]
    #[must_use]
    pub fn of(&self, access: Access, now: u32, bytes: u64) -> i32 {
        let bytes = bytes.max(1);
        let log = bytes.ilog2();
        // Between powers of two as a straight line: a twelfth of a doubling off at most.
        #[expect(clippy::cast_possible_truncation, reason = "64 doublings of 16 steps")]
        #[expect(clippy::cast_possible_wrap, reason = "the same")]
        let size = ((log << 4) | ((u128::from(bytes) << 4 >> log) as u32 & 15)) as i32;
        i32::from(self.0[cell(access, now)]) - size
    }
}

/// What the shards have counted, and what follows from it.
pub struct Model {
    hits: [f32; CELLS],
    looks: [f32; CELLS],
    worth: Worth,
    /// Tallies that make up a tick.
    shards: u32,
    taken: u32,
}

impl Model {
    #[must_use]
    pub fn new(shards: u32) -> Model {
        let mut model = Model {
            hits: [0.0; CELLS],
            looks: [0.0; CELLS],
            worth: Worth([0; CELLS]),
            shards: shards.max(1),
            taken: 0,
        };
        model.learn();
        model
    }

    /// A shard's tick is over. Takes what it counted, and tells what is known now.
    pub fn take(&mut self, tally: &mut Tally) -> &Worth {
        // Before anything was looked at hits say nothing, as nobody counted the items.
        if tally.looks.iter().any(|&looks| looks > 0) {
            for at in 0..CELLS {
                self.hits[at] += f32::from(tally.hits[at]);
                self.looks[at] += f32::from(tally.looks[at]);
            }
        }
        *tally = Tally::default();
        self.taken += 1;
        if self.taken >= self.shards {
            self.taken = 0;
            self.learn();
            for count in self.hits.iter_mut().chain(&mut self.looks) {
                *count *= KEPT;
            }
        }
        &self.worth
    }

    #[must_use]
    pub fn worth(&self) -> &Worth {
        &self.worth
    }

    fn learn(&mut self) {
        // What is assumed agrees with what was counted on the whole.
        let (mut hits, mut assumed) = (0.0, 0.0);
        for at in 0..CELLS {
            hits += self.hits[at];
            assumed += self.looks[at] * expected(at / BINS, at % BINS);
        }
        let scale = if hits > 0.0 && assumed > 0.0 { hits / assumed } else { 1.0 };
        for class in 0..CLASSES {
            self.learn_class(class, scale);
        }
    }

    fn learn_class(&mut self, class: usize, scale: f32) {
        let mut hazards = [0.0; BINS];
        for bin in 1..BINS {
            let (at, usual) = (class * BINS + bin, scale * expected(class, bin));
            let assumed = match bin {
                1 => usual,
                // Most of what is assumed follows from the age before.
                _ => {
                    let before = hazards[bin - 1] * expected(class, bin) / expected(class, bin - 1);
                    before + (usual - before) * HOPE
                }
            };
            hazards[bin] = (self.hits[at] + ASSUMED * assumed) / (self.looks[at] + ASSUMED);
        }
        // Nothing is hit twice in a tick.
        hazards[0] = hazards[1];
        // From the oldest bin down, blocks of bins, each as long as waiting pays: what follows a block promises less than the block, or it
        // would be part of it. (So each bin is joined once, and all is linear.)
        let mut blocks = [Block::default(); BINS];
        let mut top = 0;
        for bin in (0..BINS).rev() {
            let mut block = Block::new(hazards[bin].max(HAZARD_MIN), width(bin));
            while top > 0 && blocks[top - 1].rate() > block.rate() {
                top -= 1;
                block = block.then(blocks[top]);
            }
            blocks[top] = block;
            top += 1;
            #[expect(clippy::cast_possible_truncation, reason = "logarithms of floats are below 2^8")]
            let worth = (block.rate().log2() * WORTH_STEPS as f32).round() as i16;
            self.worth.0[class * BINS + bin] = worth;
        }
    }
}

/// A time of waiting for a hit.
#[derive(Clone, Copy, Default)]
struct Block {
    /// The chance of a hit.
    hits: f32,
    /// The mean time until the hit, or the end.
    ticks: f32,
}

impl Block {
    /// So many ticks at one hazard.
    fn new(hazard: f32, ticks: f32) -> Block {
        let hits = -(-hazard * ticks).exp_m1();
        Block { hits, ticks: hits / hazard }
    }

    fn then(self, next: Block) -> Block {
        let left = 1.0 - self.hits;
        Block { hits: self.hits + left * next.hits, ticks: self.ticks + left * next.ticks }
    }

    fn rate(self) -> f32 {
        self.hits / self.ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 256;

    fn at(age: u32, heat: u8) -> (Access, u32) {
        (Access { tick: 1000, heat }, 1000 + age)
    }

    fn worth(model: &Model, age: u32, heat: u8) -> i32 {
        let (access, now) = at(age, heat);
        model.worth().of(access, now, SIZE)
    }

    /// Of so many looks at an age, so many hits.
    fn taught(cells: &[(u32, u8, u16, u16)]) -> Model {
        let mut model = Model::new(1);
        for _ in 0..50 {
            let mut tally = Tally::default();
            for &(age, heat, looks, hits) in cells {
                let (access, now) = at(age, heat);
                for _ in 0..looks {
                    tally.look(access, now, 1);
                }
                for _ in 0..hits {
                    tally.hit(access, now);
                }
            }
            model.take(&mut tally);
        }
        model
    }

    #[test]
    fn bins_cover_all_ages_in_order() {
        let mut before = 0;
        let mut total = 0.0;
        for age in 0..10_000u16 {
            if bin(age.into()) != before {
                total += width(before);
                assert_eq!((f32::from(age), bin(age.into())), (total, before + 1));
                before += 1;
            }
        }
        assert_eq!(before, BINS - 1);
        before = 0;
        for age in 0..100_000 {
            assert!(bin(age) >= before && bin(age) < BINS);
            before = bin(age);
        }
    }

    #[test]
    fn at_first_use_is_worth_more_than_age() {
        let model = Model::new(1);
        for age in 1..100 {
            assert!(worth(&model, age, 8) > worth(&model, age, 0), "what was used twice, at {age}");
            assert!(worth(&model, age, 8) >= worth(&model, age + 1, 8), "what was used lately, at {age}");
        }
        assert_eq!(worth(&model, 0, 0), worth(&model, 1, 0));
    }

    /// Of all ages from one on.
    fn all_ages(from: u32, heat: u8, looks: u16, hits: u16) -> impl Iterator<Item = (u32, u8, u16, u16)> {
        (from..150).map(move |age| (age, heat, looks, hits))
    }

    #[test]
    fn worth_is_hits_a_look_and_a_byte() {
        let heats = [(0, 10), (8, 20), (16, 10)];
        let cells = heats.into_iter().flat_map(|(heat, hits)| all_ages(1, heat, 200, hits));
        let model = taught(&cells.collect::<Vec<_>>());
        for age in [5, 50] {
            assert!(
                (worth(&model, age, 8) - worth(&model, age, 0) - WORTH_STEPS).abs() <= 3,
                "twice the hits at {age}"
            );
            assert!((worth(&model, age, 16) - worth(&model, age, 0)).abs() <= 3, "heat alone is worth nothing");
        }
        let (access, now) = at(5, 8);
        assert_eq!(model.worth().of(access, now, SIZE / 2) - model.worth().of(access, now, SIZE), WORTH_STEPS);
        assert!(model.worth().of(access, now, u64::MAX) < model.worth().of(access, now, 1));
        assert_eq!(model.worth().of(access, now, 0), model.worth().of(access, now, 1));
    }

    #[test]
    fn what_was_hot_is_seen_to_be_dead() {
        let dead = (1..10).map(|age| (age, 40, 200, 100)).chain(all_ages(10, 40, 200, 0));
        let model = taught(&all_ages(1, 0, 200, 2).chain(dead).collect::<Vec<_>>());
        assert!(worth(&model, 1, 40) > worth(&model, 20, 0) + 4 * WORTH_STEPS);
        assert!(worth(&model, 20, 40) < worth(&model, 20, 0) - 2 * WORTH_STEPS);
    }

    #[test]
    fn a_loop_is_worth_more_the_nearer_it_comes_round() {
        // Hits at ages 40 to 47 only; what is younger waits for them.
        let ages = (1..100).map(|age| (age, 0, 200, if (40..48).contains(&age) { 20 } else { 0 }));
        let model = taught(&ages.collect::<Vec<_>>());
        for age in [2, 8, 16, 24] {
            assert!(worth(&model, age + 4, 0) > worth(&model, age, 0), "at {age}");
        }
    }

    #[test]
    fn it_forgets() {
        let mut model = taught(&[(20, 40, 1000, 0), (20, 0, 1000, 20)]);
        assert!(worth(&model, 20, 40) < worth(&model, 20, 0));
        for _ in 0..50 {
            let mut tally = Tally::default();
            for (heat, hits) in [(40, 100), (0, 1)] {
                let (access, now) = at(20, heat);
                for _ in 0..100 {
                    tally.look(access, now, 1);
                }
                for _ in 0..hits {
                    tally.hit(access, now);
                }
            }
            model.take(&mut tally);
        }
        assert!(worth(&model, 20, 40) > worth(&model, 20, 0) + 4 * WORTH_STEPS);
    }

    #[test]
    fn hits_without_looks_teach_nothing() {
        let mut model = Model::new(1);
        let mut tally = Tally::default();
        let (access, now) = at(7, 0);
        for _ in 0..1000 {
            tally.hit(access, now);
        }
        model.take(&mut tally);
        assert_eq!(model.worth().0, Worth::default().0);
    }

    /// A tick of the model is one of all shards.
    #[test]
    fn shards_teach_together() {
        let mut model = Model::new(3);
        for shard in 0..3 {
            assert_eq!(model.worth().0, Worth::default().0, "before shard {shard}");
            let mut tally = Tally::default();
            let (access, now) = at(9, 0);
            tally.look(access, now, 200);
            model.take(&mut tally);
        }
        assert_ne!(model.worth().0, Worth::default().0);
    }
}
