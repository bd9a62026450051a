//! Hierarchical timing wheel (Varghese and Lauck, 1987) of one shard and database: says which keys to look at, and when. Owns the order
//! of deadlines in time; must not know items, keys or the clock. It stores 32-bit hash prefixes only (4.3 bytes a key); the deadline itself
//! lies in the item's expiry word, beside a 16-bit *code* that names the slot whose entry will fire for it. Whoever owns the items
//! looks a fired prefix up and decides.
//!
//! # Time
//! A tick is 16 ms. Level `l` has 256 slots of `128^l` ticks, so a level reaches over two slots of the next:
//!
//! ```text
//!   level      slot        reaches
//!     0         16 ms        4.1 s
//!     1        2.05 s      8.7 min
//!     2       4.4 min       18.6 h
//!     3         9.3 h         99 d
//!     4        49.7 d       34.7 y     (later deadlines wait in the last slot and are looked at again)
//!
//!                      tick
//!                       │
//!   level 1   ────┬─────┼──────────┬──────────┬──────────┬───
//!                 │  S  ▼          │   S+1    │   S+2    │        S+1 is moved down while `tick` is in S, because
//!   level 0             ├┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┤                  level 0 already reaches to its end
//! ```
//!
//! An upper slot is thus *cascaded ahead of need*: its entries are looked up and moved down during the slot before it, in doses that have it
//! done by half of that time, so neither millions of entries in one slot nor many deadlines in one millisecond stall a turn or fire late. What is
//! not done when the slot begins is done then, before time goes on (in slices too). `tick` jumps from one occupied slot to the next, so
//! a clock that leaps by years costs what is due and nothing else.
//!
//! The wheel runs on its own time, unix time plus `offset_ms`: when the wall clock is set back the offset grows by as much, so wheel time
//! never does. What was armed before then fires early by the step, is found not to be due, and is armed again: no expiry is late, none is lost.
//!
//! # Why no expiry is lost
//! **Invariant I: for every prefix and code, the slot of that code holds at least as many entries of the prefix as items of the prefix carry
//! the code.** It speaks of what a slot holds, not of rounds of the wheel, so a code that comes round again needs no proof of its own. Every step
//! keeps it: arming adds an entry and gives one item its code; overwriting an item passes the code on; deleting an item (or its TTL) only
//! removes a code; firing takes one entry and the owner deletes or re-arms one item that carries its code, if there is any (re-arming answers
//! another code: an upper slot's items fit below it, and a fired tick's go to later ticks). A slot is left behind only when empty, so whatever
//! carries a code is looked at by the time of that code. Two items that share prefix and code have two entries.
//!
//! Deleting and creating one key over and over leaves entries of which each might be the live one. `purge` therefore moves what it keeps into
//! a second chain of the slot, whose code differs in the `gen` bit: the first entry finds the item and changes its code, the others find
//! nothing and go. At a slot's flip nothing carries the new code (its chain is empty, so I says so).
//!
//! If the slab refuses a block for a *re-arm*, the entry is parked on the global heap and looked at every tick until there is room.
mod chain;
mod slots;
#[cfg(test)]
mod tests;

use chain::{Blocks, Chain};
use dolmen_slab::{AllocError, Slab};
pub use slots::UNARMED;
use slots::{GENERATION, LEVELS, Level, PARKED, Place, SLOTS, TICK_SHIFT, is_parked, shift_of, slot_of};
use std::collections::VecDeque;

/// Resolution: a deadline fires within one tick of its time.
pub const TICK_MS: u64 = 1 << TICK_SHIFT;
/// Deadlines are kept in 48 bits; later ones are taken as this (the year 10889).
pub const DEADLINE_MS_MAX: u64 = (1 << 48) - 1;

/// Entries of an upper slot cascaded in one tick at least, so that small slots are done at once.
const CASCADE_MIN: u64 = 256;
/// Stale entries always tolerated: a purge walks every slot, which must be worth it.
const STALE_SLACK: u64 = 1024;

/// A purge under way.
#[derive(Debug)]
struct Purge {
    /// The slot being rewritten.
    level: usize,
    slot: usize,
    /// Its entries not yet looked at. Their codes have the other generation than the slot's chain.
    old: Chain,
}

/// Who looks at entries that are due. Any `FnMut(&mut Slab, u32, u16, &mut Rearm)` is one.
pub trait Due {
    /// These prefixes (at most 15) fire next: a chance to prefetch where they lie. Nothing may be concluded from it.
    #[inline]
    fn soon(&mut self, slab: &Slab, hashes: &[u32]) {
        let _ = (slab, hashes);
    }

    /// An entry fires. Find an item of this prefix whose code equals `code`. There is none: nothing to do, the entry was stale. Its deadline has
    /// come: delete it. Else: `rearm.at(..)` its deadline and store the code that answers in the item. (To handle several such items in one call
    /// is fine as well, each with its own `at`.)
    fn fire(&mut self, slab: &mut Slab, hash32: u32, code: u16, rearm: &mut Rearm<'_>);
}

impl<F: FnMut(&mut Slab, u32, u16, &mut Rearm<'_>)> Due for F {
    #[inline]
    fn fire(&mut self, slab: &mut Slab, hash32: u32, code: u16, rearm: &mut Rearm<'_>) {
        self(slab, hash32, code, rearm);
    }
}

/// Arms again what fired before its deadline.
pub struct Rearm<'w> {
    wheel: &'w mut Wheel,
    hash32: u32,
}

impl Rearm<'_> {
    /// The item's new code. Cannot fail: without memory for a slot the entry is parked.
    #[inline]
    pub fn at(&mut self, slab: &mut Slab, deadline_ms: u64) -> u16 {
        // What is not due has a later tick anyway. If the owner keeps what is, it comes back with the next tick, whatever is to be caught up
        // with till then.
        let tick = self.wheel.tick_of(deadline_ms).max(self.wheel.now_tick() + 1);
        match self.wheel.insert(slab, self.hash32, tick) {
            Ok(code) => code,
            Err(_) => self.wheel.park(self.hash32),
        }
    }
}

/// See the module. All calls of one wheel take the same slab. A wheel is emptied by `drain`, or dies with its slab.
#[derive(Debug)]
pub struct Wheel {
    /// Wheel time: every slot that lies wholly before this tick is empty, and so is every upper slot that has begun. Never decreases.
    tick: u64,
    /// Wheel time minus unix time: the sum of all steps back. Never decreases.
    offset_ms: u64,
    last_unix_ms: u64,
    /// In slots, set aside, or parked.
    entries: u64,
    levels: [Option<Box<Level>>; LEVELS],
    blocks: Blocks,
    /// Entries of the next slot of each upper level that should have been cascaded by now. Index 0 is not used.
    owed: [u64; LEVELS],
    /// The `tick` up to which `owed` was reckoned.
    paced_tick: u64,
    /// Whether the last `advance` left work that is due.
    behind: bool,
    /// Entries for which there was no block. The first `parked_due` carry the code of the round under way, the others, parked since it began,
    /// the code of the next one; an item that is parked again thus changes its code as invariant I needs it.
    parked: VecDeque<u32>,
    /// Of `parked`, those still to be looked at in this round.
    parked_due: usize,
    /// The code of what is parked now.
    parked_code: u16,
    /// When the last round began.
    parked_tick: u64,
    purge: Option<Purge>,
}

impl Wheel {
    /// An empty wheel, without memory of its own. `now_ms` in unix time.
    pub fn new(now_ms: u64) -> Wheel {
        let now_ms = now_ms.min(DEADLINE_MS_MAX);
        let tick = (now_ms >> TICK_SHIFT) + 1;
        Wheel {
            tick,
            offset_ms: 0,
            last_unix_ms: now_ms,
            entries: 0,
            levels: [const { None }; LEVELS],
            blocks: Blocks::new(),
            owed: [0; LEVELS],
            paced_tick: tick,
            behind: false,
            parked: VecDeque::new(),
            parked_due: 0,
            parked_code: PARKED,
            parked_tick: tick,
            purge: None,
        }
    }

    /// Entries, stale ones included.
    #[inline]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Memory held, in bytes; `heap_bytes` of it are not counted by the slab.
    pub fn bytes(&self) -> u64 {
        self.blocks.bytes() + self.heap_bytes()
    }

    /// The part of `bytes` that lies on the global heap: slot heads of the levels in use, and what is parked.
    pub fn heap_bytes(&self) -> u64 {
        let levels = self.levels.iter().flatten().count() * size_of::<Level>();
        (levels + self.parked.capacity() * size_of::<u32>()) as u64
    }

    /// Sees to it that the item with this prefix is looked at when `deadline_ms` (unix) has come, and returns the item's new code. `armed_now` is
    /// the code it carries (`UNARMED` for a new item; a renamed one is new). If that fires no later anyway, nothing is added and the code stays:
    /// setting the TTL of one key again and again costs no memory. On an error nothing has changed.
    #[inline]
    pub fn arm(&mut self, slab: &mut Slab, hash32: u32, deadline_ms: u64, armed_now: u16) -> Result<u16, AllocError> {
        let tick = self.tick_of(deadline_ms).max(self.tick);
        if armed_now != UNARMED && self.fires_by(armed_now, tick) {
            return Ok(armed_now);
        }
        self.insert(slab, hash32, tick)
    }

    /// The first tick at whose time the deadline has come.
    #[inline]
    fn tick_of(&self, deadline_ms: u64) -> u64 {
        (deadline_ms.min(DEADLINE_MS_MAX) + self.offset_ms + (TICK_MS - 1)) >> TICK_SHIFT
    }

    /// Whether the code's entry is there and fires at `tick` or before. That it is there follows from invariant I; it is looked at all the same,
    /// so that a code kept wrongly heals when it is next set.
    #[inline]
    fn fires_by(&self, code: u16, tick: u64) -> bool {
        let Some(place) = Place::unpack(code) else { return is_parked(code) && !self.parked.is_empty() };
        let shift = shift_of(place.level);
        let now = self.tick >> shift;
        let ahead = (place.slot as u64).wrapping_sub(now) % SLOTS as u64;
        now + ahead <= tick >> shift && self.chain_at(place).is_some_and(|c| !c.is_empty())
    }

    fn chain_at(&self, place: Place) -> Option<&Chain> {
        let level = self.levels[place.level].as_ref()?;
        if level.generation.get(place.slot) == place.generation {
            return Some(&level.chains[place.slot]);
        }
        self.purge.as_ref().filter(|p| p.level == place.level && p.slot == place.slot).map(|p| &p.old)
    }

    /// Adds an entry to the lowest level that reaches `tick`, which is `self.tick` or later.
    #[inline]
    fn insert(&mut self, slab: &mut Slab, hash32: u32, tick: u64) -> Result<u16, AllocError> {
        debug_assert!(tick >= self.tick);
        let mut level = 0;
        let slot = loop {
            let (now, at) = (self.tick >> shift_of(level), tick >> shift_of(level));
            if at - now < SLOTS as u64 {
                break at;
            }
            if level == LEVELS - 1 {
                break now + SLOTS as u64 - 1;
            }
            level += 1;
        };
        let slot = slot_of(slot);
        let l = self.levels[level].get_or_insert_with(Level::new);
        l.chains[slot].push(slab, &mut self.blocks, hash32)?;
        l.occupied.set(slot, true);
        self.entries += 1;
        Ok(Place { level, slot, generation: l.generation.get(slot) }.pack())
    }

    #[cold]
    #[inline(never)]
    fn park(&mut self, hash32: u32) -> u16 {
        self.parked.push_back(hash32);
        self.entries += 1;
        self.parked_code
    }

    /// Goes on to `now_ms` (unix) and fires what is due, at most `budget` entries. Whether more is due now; then call again in the next slice,
    /// with whatever time it is. Costs a comparison when nothing is. To be called once a turn, after the clock was read and before anything is armed
    /// by it: a deadline armed by a clock set back that the wheel has not seen yet may fire a tick late.
    #[inline]
    pub fn advance(&mut self, slab: &mut Slab, now_ms: u64, budget: usize, due: &mut impl Due) -> bool {
        let now_tick = self.observe(now_ms);
        if now_tick < self.tick && !self.behind {
            return false;
        }
        self.behind = self.catch_up(slab, now_tick, budget, due);
        self.behind
    }

    /// Wheel time, in whole ticks. Steps back of the clock go into the offset.
    #[inline]
    fn observe(&mut self, now_ms: u64) -> u64 {
        let now_ms = now_ms.min(DEADLINE_MS_MAX);
        self.offset_ms += self.last_unix_ms.saturating_sub(now_ms);
        self.last_unix_ms = now_ms;
        self.now_tick()
    }

    /// As of the last `advance`. `tick` is at most one later.
    #[inline]
    fn now_tick(&self) -> u64 {
        (self.last_unix_ms + self.offset_ms) >> TICK_SHIFT
    }

    #[inline(never)]
    fn catch_up(&mut self, slab: &mut Slab, now_tick: u64, budget: usize, due: &mut impl Due) -> bool {
        let mut left = budget;
        if self.entries == 0 {
            self.tick = self.tick.max(now_tick + 1);
            self.paced_tick = self.tick;
            self.owed = [0; LEVELS];
            return false;
        }
        while self.tick <= now_tick {
            if !self.fire_slot(slab, 0, slot_of(self.tick), &mut left, due)
                || !self.finish_cascades(slab, &mut left, due)
            {
                return true;
            }
            self.tick = self.next_stop().min(now_tick + 1);
        }
        if self.paced_tick != self.tick {
            self.pace();
        }
        self.cascade_ahead(slab, &mut left, due);
        self.fire_parked(slab, &mut left, due);
        let parked = self.parked_due > 0 || !self.parked.is_empty() && self.parked_tick != self.tick;
        parked || self.owed.iter().any(|&n| n > 0)
    }

    /// The next tick after this one at which there is something to do: to fire, or to have an upper slot cascaded before it begins.
    fn next_stop(&self) -> u64 {
        let mut stop = u64::MAX;
        for (level, l) in self.levels.iter().enumerate() {
            let Some(l) = l else { continue };
            let shift = shift_of(level);
            let from = (self.tick >> shift) + 1;
            if let Some(d) = l.occupied.distance(slot_of(from)) {
                stop = stop.min(((from + d) << shift) - u64::from(level > 0));
            }
        }
        stop
    }

    /// Empties the upper slots that begin with the next tick, the highest level first since they may fall into one another. False if the budget
    /// did not suffice.
    fn finish_cascades(&mut self, slab: &mut Slab, left: &mut usize, due: &mut impl Due) -> bool {
        let begins = self.tick + 1;
        for level in (1..LEVELS).rev() {
            let shift = shift_of(level);
            if begins >> shift << shift == begins {
                if !self.fire_slot(slab, level, slot_of(begins >> shift), left, due) {
                    return false;
                }
                self.owed[level] = 0;
            }
        }
        true
    }

    /// Reckons how many entries of the upper levels' next slots should be cascaded by now: in proportion to time, so that all are by half of the
    /// slot before.
    fn pace(&mut self) {
        let paced_tick = std::mem::replace(&mut self.paced_tick, self.tick);
        for level in 1..LEVELS {
            let shift = shift_of(level);
            let now = self.tick >> shift;
            let remain = u64::from(self.slot_len(level, slot_of(now + 1)));
            // Time slept before the present slot began does not count: it would make everything owed at once.
            let elapsed = self.tick - paced_tick.max(now << shift);
            let left = ((now << shift) + (1 << shift) / 2).saturating_sub(self.tick);
            let dose = if left == 0 { remain } else { (remain * elapsed).div_ceil(elapsed + left).max(CASCADE_MIN) };
            self.owed[level] = (self.owed[level] + dose).min(remain);
        }
    }

    fn cascade_ahead(&mut self, slab: &mut Slab, left: &mut usize, due: &mut impl Due) {
        for level in 1..LEVELS {
            let dose = usize::try_from(self.owed[level]).unwrap_or(usize::MAX).min(*left);
            if dose == 0 {
                continue;
            }
            let next = slot_of((self.tick >> shift_of(level)) + 1);
            let mut rest = dose;
            let empty = self.fire_slot(slab, level, next, &mut rest, due);
            *left -= dose - rest;
            self.owed[level] = if empty { 0 } else { self.owed[level] - (dose - rest) as u64 };
        }
    }

    /// Looks at each parked entry once a tick; what is parked again goes to the back, for the next round.
    fn fire_parked(&mut self, slab: &mut Slab, left: &mut usize, due: &mut impl Due) {
        while *left > 0 {
            if self.parked_due == 0 {
                if self.parked.is_empty() || self.parked_tick == self.tick {
                    break;
                }
                self.parked_tick = self.tick;
                self.parked_due = self.parked.len();
                self.parked_code ^= GENERATION;
            }
            self.parked_due -= 1;
            let Some(hash32) = self.parked.pop_front() else { break };
            *left -= 1;
            self.entries -= 1;
            due.fire(slab, hash32, self.parked_code ^ GENERATION, &mut Rearm { wheel: self, hash32 });
        }
        if self.parked.is_empty() {
            self.parked = VecDeque::new();
        }
    }

    /// Fires the entry that would be fired next, or one of those about as early, though its time has not come; who looks at it must delete its item,
    /// for nothing fires for it any more. False: there is none.
    pub fn fire_next(&mut self, slab: &mut Slab, due: &mut impl Due) -> bool {
        for level in 0..LEVELS {
            let Some(l) = &self.levels[level] else { continue };
            let now = self.tick >> shift_of(level);
            if let Some(distance) = l.occupied.distance(slot_of(now)) {
                let mut one = 1;
                self.fire_slot(slab, level, slot_of(now + distance), &mut one, due);
                return true;
            }
        }
        let Some(hash32) = self.parked.pop_front() else { return false };
        // What waits for this round has the code of the round before.
        let code = if self.parked_due > 0 { self.parked_code ^ GENERATION } else { self.parked_code };
        self.parked_due = self.parked_due.saturating_sub(1);
        self.entries -= 1;
        due.fire(slab, hash32, code, &mut Rearm { wheel: self, hash32 });
        true
    }

    fn slot_len(&self, level: usize, slot: usize) -> u32 {
        let Some(l) = &self.levels[level] else { return 0 };
        let aside = self.purge.as_ref().filter(|p| p.level == level && p.slot == slot).map_or(0, |p| p.old.len());
        l.chains[slot].len() + aside
    }

    /// Fires the entries of one slot. Whether it is empty now; if not, `left` has come to 0.
    fn fire_slot(&mut self, slab: &mut Slab, level: usize, slot: usize, left: &mut usize, due: &mut impl Due) -> bool {
        let mut block_end = true;
        loop {
            let Some(l) = &mut self.levels[level] else { return true };
            if !l.occupied.get(slot) {
                return true;
            }
            if *left == 0 {
                return false;
            }
            let mut generation = l.generation.get(slot);
            let chain = match &mut self.purge {
                Some(p) if p.level == level && p.slot == slot && !p.old.is_empty() => {
                    generation = !generation;
                    &mut p.old
                }
                _ => &mut l.chains[slot],
            };
            if block_end {
                due.soon(slab, chain.head_entries(slab, &self.blocks));
            }
            let hash32 = chain.pop(slab, &mut self.blocks).unwrap_or_default();
            block_end = chain.is_full();
            if chain.is_empty() && l.chains[slot].is_empty() {
                l.occupied.set(slot, false);
            }
            *left -= 1;
            self.entries -= 1;
            let code = Place { level, slot, generation }.pack();
            due.fire(slab, hash32, code, &mut Rearm { wheel: self, hash32 });
        }
    }

    /// The unix time at which `advance` next has something to do, possibly past; `None` if the wheel is empty. While a large slot is being
    /// cascaded this is every tick.
    pub fn next_due_ms(&self) -> Option<u64> {
        if self.entries == 0 {
            return None;
        }
        let mut next = if self.behind || !self.parked.is_empty() { self.tick } else { u64::MAX };
        for (level, l) in self.levels.iter().enumerate() {
            let Some(l) = l else { continue };
            let shift = shift_of(level);
            let now = self.tick >> shift;
            if let Some(d) = l.occupied.distance(slot_of(now)) {
                // An upper slot is worked on from the start of the slot before it.
                let begin = now + d - u64::from(level > 0 && d > 0);
                next = next.min((begin << shift).max(self.tick));
            }
        }
        Some((next << TICK_SHIFT).saturating_sub(self.offset_ms))
    }

    /// Whether a purge is worth its while, given the number of items that carry a code.
    #[inline]
    pub fn is_stale(&self, live: u64) -> bool {
        self.entries > live + live / 4 + STALE_SLACK
    }

    /// Whether a purge has begun and goes on with the next call of `purge`.
    #[inline]
    pub fn is_purging(&self) -> bool {
        self.purge.is_some()
    }

    /// Drops stale entries, `budget` entries looked at in a call. Whether the pass goes on (with the next call; entries may be armed and fired in
    /// between). `keep(slab, hash32, code, new_code)`: if an item of this prefix carries `code`, give it `new_code` and answer true; one item only.
    /// After a pass every item has one entry. Each block is allocated anew, so a pass also carries a wheel out of pages that the slab
    /// wants back. Ends early, with nothing lost, if the slab has no block to begin with.
    pub fn purge(
        &mut self,
        slab: &mut Slab,
        budget: usize,
        mut keep: impl FnMut(&mut Slab, u32, u16, u16) -> bool,
    ) -> bool {
        let mut left = budget;
        let unfinished = loop {
            match self.purge_slot(slab, &mut left, &mut keep) {
                Ok(true) => {}
                Ok(false) => break true,
                // The chain set aside stays so: it fires, and the next pass begins with it.
                Err(AllocError { .. }) => break false,
            }
            if !self.purge_next() {
                break false;
            }
        };
        self.blocks.unreserve(slab);
        unfinished
    }

    /// Sets the chain of the next occupied slot aside. False at the end of the pass.
    fn purge_next(&mut self) -> bool {
        let (first, mut from) = self.purge.take().map_or((0, 0), |p| (p.level, p.slot + 1));
        for level in first..LEVELS {
            if let Some(l) = &mut self.levels[level]
                && let Some(slot) = l.occupied.next(from)
            {
                let old = std::mem::replace(&mut l.chains[slot], Chain::EMPTY);
                l.generation.set(slot, !l.generation.get(slot));
                self.purge = Some(Purge { level, slot, old });
                return true;
            }
            from = 0;
        }
        false
    }

    /// Whether nothing of the slot is set aside any more.
    fn purge_slot(
        &mut self,
        slab: &mut Slab,
        left: &mut usize,
        keep: &mut impl FnMut(&mut Slab, u32, u16, u16) -> bool,
    ) -> Result<bool, AllocError> {
        let Some(p) = &mut self.purge else { return Ok(true) };
        let Some(l) = &mut self.levels[p.level] else { return Ok(true) };
        let chain = &mut l.chains[p.slot];
        let generation = l.generation.get(p.slot);
        let code = Place { level: p.level, slot: p.slot, generation: !generation }.pack();
        let new_code = Place { level: p.level, slot: p.slot, generation }.pack();
        while !p.old.is_empty() {
            if *left == 0 {
                return Ok(false);
            }
            *left -= 1;
            if chain.is_full() {
                self.blocks.reserve(slab)?;
            }
            let hash32 = p.old.pop(slab, &mut self.blocks).unwrap_or_default();
            if keep(slab, hash32, code, new_code) {
                chain.push(slab, &mut self.blocks, hash32).expect("a block was reserved");
            } else {
                self.entries -= 1;
            }
        }
        l.occupied.set(p.slot, !chain.is_empty());
        Ok(true)
    }

    /// Frees everything without looking at it, `budget` blocks (of at most 15 entries) in a call; whether more is left. For a wheel whose items are
    /// going too: codes that outlive this mean nothing any more.
    pub fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        let mut left = budget;
        self.entries -= self.parked.len() as u64;
        self.parked = VecDeque::new();
        self.parked_due = 0;
        if let Some(p) = &mut self.purge {
            while left > 0 && !p.old.is_empty() {
                left -= 1;
                self.entries -= u64::from(p.old.pop_block(slab, &mut self.blocks));
            }
            if !p.old.is_empty() {
                return true;
            }
            if let Some(l) = &mut self.levels[p.level] {
                l.occupied.set(p.slot, !l.chains[p.slot].is_empty());
            }
            self.purge = None;
        }
        for level in &mut self.levels {
            let Some(l) = level else { continue };
            while let Some(slot) = l.occupied.next(0) {
                if left == 0 {
                    return true;
                }
                left -= 1;
                self.entries -= u64::from(l.chains[slot].pop_block(slab, &mut self.blocks));
                l.occupied.set(slot, !l.chains[slot].is_empty());
            }
            *level = None;
        }
        self.owed = [0; LEVELS];
        self.behind = false;
        debug_assert!(self.entries == 0 && self.blocks.bytes() == 0);
        false
    }
}
