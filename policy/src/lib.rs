//! `allkeys-smart`: which items of a cache are worth least a byte, learned from the hits.
//!
//! ```text
//!  a hit, first in a tick ─▶ [Shard::used]     ─▶ access word: last tick, heat      ─▶ Tally ─┐ each tick
//!  insert ─────────────────▶ [Shard::inserted] ─▶ heat of the ghost, if there is one          ├─▶ Model ─▶ Worth
//!  the hand ───────────────▶ [Shard::judge]    ─▶ worth above the Threshold: keep, skip ─▶ ───┘
//!                                               └▶ below: [Shard::evicted] ─▶ Ghosts
//! ```
//! - `access`: the 20 bits of an item.
//! - `model`: what is counted by heat and age, and what an item is worth.
//! - `hand`: the threshold below which an item is evicted, the two bits that say how often the hand may pass.
//! - `ghosts`: what was evicted lately.
//!
//! Pure: no items, no table, no locks, no clock but the bytes that come in. The server and the simulator use the same. A cache has one
//! [`Model`] and one [`Threshold`], a shard of it one [`Shard`], all by the same hash, so that what is learned in one holds in all.
//!
//! ```
//! use dolmen_policy::{Model, Shard, Threshold, Verdict};
//! let (mut model, mut threshold) = (Model::new(1), Threshold::default());
//! let mut shard = Shard::new(1 << 20, 1000);
//! let word = shard.inserted(0x1234_5678_9abc_def0, 100);
//! if shard.is_due() {
//!     shard.learn(&mut model);
//! }
//! assert!(shard.is_fresh(word), "a hit in this tick changes nothing");
//! assert_eq!(shard.judge(word, 100, &mut threshold), Verdict::Keep { skips: 3 });
//! ```

mod access;
mod ghosts;
mod hand;
mod model;

pub use access::{Access, HALF_LIFE_TICKS, HEAT_BITS, HEAT_MAX, HEAT_STEPS, TICK_BITS, TICKS_A_TURNOVER, WORD_BITS};
pub use ghosts::Ghosts;
pub use hand::{PASSED_AN_EVICTION, SKIPS_MAX, Threshold, Verdict};
pub use model::{Model, Tally, WORTH_STEPS, Worth};

/// What a shard of the cache knows.
pub struct Shard {
    now: u32,
    /// What may come in until the tick is over.
    left_bytes: u64,
    tick_bytes: u64,
    due: bool,
    tally: Tally,
    worth: Worth,
    ghosts: Ghosts,
    random: u32,
}

impl Shard {
    /// Of a cache whose part in this shard may grow to so many bytes; with room for so many ghosts.
    #[must_use]
    pub fn new(share_bytes: u64, ghosts: usize) -> Shard {
        let tick_bytes = tick_bytes(share_bytes);
        Shard {
            now: 0,
            left_bytes: tick_bytes,
            tick_bytes,
            due: false,
            tally: Tally::default(),
            worth: Worth::default(),
            ghosts: Ghosts::new(ghosts),
            random: 1,
        }
    }

    /// The limit was changed.
    pub fn resize(&mut self, share_bytes: u64) {
        self.tick_bytes = tick_bytes(share_bytes);
        self.left_bytes = self.left_bytes.min(self.tick_bytes);
    }

    /// Memory that it takes beside its own size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ghosts.bytes()
    }

    /// Room for so many ghosts from now on; those that were are forgotten.
    pub fn set_ghosts(&mut self, ghosts: usize) {
        self.ghosts = Ghosts::new(ghosts);
    }

    /// Was the item used in this tick already, so that a hit need do nothing? (All that a hit costs.)
    #[inline(always)]
    #[must_use]
    pub fn is_fresh(&self, word: u32) -> bool {
        word >> HEAT_BITS == self.now
    }

    /// A hit of an item that is not fresh: its new word.
    #[must_use]
    pub fn used(&mut self, word: u32, bytes: u64, threshold: &Threshold) -> u32 {
        let before = Access::unpack(word);
        self.tally.hit(before, self.now);
        let random = self.random();
        let after = before.used(self.now, random);
        // Of a large item one use a tick may be too few to keep it, so all are counted.
        let counting = after.counting();
        if threshold.is_above(self.worth.of(counting, self.now, bytes)) { counting.pack() } else { after.pack() }
    }

    /// An item comes in, one that was not there: its word.
    #[must_use]
    pub fn inserted(&mut self, hash: u64, bytes: u64) -> u32 {
        let new = Access::new(self.now);
        let access = match self.ghosts.recall(hash) {
            Some(heat) => Access { heat, ..new }.used(self.now, self.random()),
            None => new,
        };
        self.came_in(bytes);
        access.pack()
    }

    /// What an item takes more, as its value was written anew: the clock goes on with all that is written.
    pub fn came_in(&mut self, bytes: u64) {
        if bytes < self.left_bytes {
            self.left_bytes -= bytes;
            return;
        }
        let over = bytes - self.left_bytes;
        self.left_bytes = self.tick_bytes - over % self.tick_bytes;
        let ticks = 1 + over / self.tick_bytes;
        #[expect(clippy::cast_possible_truncation, reason = "the clock is what is left of it")]
        let now = Access::new(self.now.wrapping_add(ticks as u32));
        self.now = now.tick;
        self.due = true;
    }

    /// Whether a tick is over, and [`Shard::learn`] is due.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Tells the model what was counted, and takes over what it knows.
    pub fn learn(&mut self, model: &mut Model) {
        self.due = false;
        self.worth.clone_from(model.take(&mut self.tally));
    }

    /// The hand looks at an item that takes so many bytes.
    #[must_use]
    pub fn judge(&mut self, word: u32, bytes: u64, threshold: &mut Threshold) -> Verdict {
        let access = Access::unpack(word);
        let verdict = threshold.judge(self.worth.of(access, self.now, bytes));
        let times = match verdict {
            Verdict::Evict => 1,
            Verdict::Keep { skips } => 1 + skips,
        };
        self.tally.look(access, self.now, times);
        verdict
    }

    /// As [`Shard::judge`], for a hand that looks at every item it passes. True: it is to be evicted.
    #[must_use]
    pub fn judge_each(&mut self, word: u32, bytes: u64, threshold: &mut Threshold) -> bool {
        let access = Access::unpack(word);
        self.tally.look(access, self.now, 1);
        threshold.judge(self.worth.of(access, self.now, bytes)) == Verdict::Evict
    }

    /// The word of an item that was used in this tick, but for its heat, and the bits of the tick.
    #[inline]
    #[must_use]
    pub fn fresh_words(&self) -> (u32, u32) {
        (self.now << HEAT_BITS, ((1 << WORD_BITS) - 1) & !u32::from(HEAT_MAX))
    }

    /// What the hand writes back to an item that it keeps: the word, unless its clock were to come round.
    #[inline]
    #[must_use]
    pub fn aged(&self, word: u32) -> u32 {
        Access::unpack(word).aged(self.now).pack()
    }

    /// An item was evicted.
    pub fn evicted(&mut self, hash: u64, word: u32) {
        self.ghosts.remember(hash, Access::unpack(word).heat);
    }

    /// The upper bits of a linear congruential generator (its factor from Steele and Vigna, 2021).
    #[inline]
    fn random(&mut self) -> u16 {
        self.random = self.random.wrapping_mul(0x915f_77f5).wrapping_add(1);
        let [high, low, ..] = self.random.to_be_bytes();
        u16::from_be_bytes([high, low])
    }
}

fn tick_bytes(share_bytes: u64) -> u64 {
    (share_bytes / TICKS_A_TURNOVER).max(1)
}
