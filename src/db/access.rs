//! The access clock: when an item was last used, in 20 bits of its header.
//!
//! ```text
//!  0                                  3/4             7/8          1
//! | idle for so many ticks            | for very long | the future |     of 2^20 ticks of 1,024 ms
//! ```
//! A tick is 1,024 ms, so a key is written to by reads at most once a second; the range is 12.4 days. An item that has not been used for
//! three quarters of it (9.3 days) is kept there by a walk over all items ([`Shard::age_some`]), which comes round within the next
//! eighth (37 hours): so an idle time is exact to a tick up to 9.3 days, and beyond that says that it is more. The last eighth is what a clock
//! that was set back leaves behind, and counts as now.
//!
//! The clock is none of what a snapshot shows, so it is moved in place also where one sees the item.
//!
//! Under an LFU policy ([`Uses::Counted`]) the word counts instead, as Redis's does: minutes of the time of the last use, and a counter that grows
//! the more seldom the larger it is, and loses one for every `lfu-decay-time` minutes without a use.
//!
//! ```text
//!  19        8 7       0
//! | minutes 12 | count 8 |
//! ```
//! A use of what was used in the same minute mostly changes nothing, so it is not looked at what it would change: uses are chosen beforehand, one
//! in `lfu-log-factor` + 1 ([`Counting`]), and only a chosen one may count, with the chance that is left then. That is as if each were drawn for: above
//! the count of a new item the chance is never more. Up to that count every use counts; such a word is of the minute before (and has lost
//! one since, where that is what a minute takes), so that the next use sees to it.
//!
//! Changing between the two leaves the words as they are; what they say is wrong until they are next written, as in Redis.
//!
//! Commands that read or write a value move the clock; those that only ask whether or how long a key is there (EXISTS, TYPE, TTL, OBJECT,
//! SCAN) do not, as in Redis.
#![allow(unsafe_code)]

use super::evict::Eviction;
use super::item::{self, Item, Key, NewKey, NewValue};
use super::smart::{PLACE_BYTES, weight};
use super::view::{Db, Found};
use super::{ItemHash, Shard, item_at};
use crate::base::eviction::{Policy, Rank, Settings};
use dolmen_slab::{Handle, Slab};
use static_assertions::const_assert;

/// Milliseconds of a tick, as a power of two.
const TICK_MS_LOG2: u32 = 10;
const CLOCK_BITS: u32 = 20;
/// Largest value of the clock.
pub const CLOCK_MAX: u32 = (1 << CLOCK_BITS) - 1;
/// Idle ticks that are not told apart any more.
const OLD_TICKS: u32 = 3 << (CLOCK_BITS - 2);
const FUTURE_TICKS: u32 = 7 << (CLOCK_BITS - 3);
/// A call looks at one home bucket (some ten keys) for so many keys of the shard, and one more: with ten calls a second all are seen within half a
/// day, an eighth of the range being 1.5 days. Looking costs a miss for each key, and nobody waits for it.
const AGE_KEYS: usize = 4_000_000;
const_assert!(CLOCK_BITS + 12 == u32::BITS);

/// A Unix time on the clock.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the clock is the lower bits of the time")]
pub const fn tick(unix_ms: u64) -> u32 {
    (unix_ms >> TICK_MS_LOG2) as u32 & CLOCK_MAX
}

/// Ticks from `clock` to `now`.
pub(super) const fn idle_ticks(clock: u32, now: u32) -> u32 {
    let ticks = now.wrapping_sub(clock) & CLOCK_MAX;
    if ticks < FUTURE_TICKS { ticks } else { 0 }
}

/// For how many seconds an item whose clock shows that was not used.
#[must_use]
pub fn idle_seconds_at(clock: u32, now_ms: u64) -> u64 {
    (u64::from(idle_ticks(clock, tick(now_ms))) << TICK_MS_LOG2) / 1000
}

/// For how many seconds an item was not used.
#[must_use]
pub fn idle_seconds(item: &Item<'_>, now_ms: u64) -> u64 {
    idle_seconds_at(item.clock(), now_ms)
}

/// What the clock shows of an item that has not been used for so many seconds.
fn clock_of_idle(seconds: u64, now: u32) -> u32 {
    // Upwards, so that it is told as at least so long.
    let ticks = seconds.saturating_mul(1000).div_ceil(1 << TICK_MS_LOG2);
    now.wrapping_sub(u32::try_from(ticks).map_or(OLD_TICKS, |ticks| ticks.min(OLD_TICKS))) & CLOCK_MAX
}

/// What access words say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Uses {
    /// When an item was last used.
    Clocked = 0,
    /// How often it was used.
    Counted = 1,
    /// Both, in words of `dolmen_policy` ([`Rank::Smart`]).
    Learned = 2,
}

/// How access words are written now.
#[derive(Clone, Copy)]
pub(super) struct Stamps {
    pub uses: Uses,
    /// What a use now leaves in a word, in the bits of `mask`: a word that has it stays.
    pub tick: u32,
    pub mask: u32,
    /// `mask` where uses are told; with CLIENT NO-TOUCH it is none, so that every word says already what it would become.
    pub telling: u32,
    /// A word that has not the tick, and is like `from` in the bits of `from_mask`, becomes `next`; others must be thought about.
    from: u32,
    from_mask: u32,
    pub next: u32,
    /// What a new item begins with.
    pub fresh: u32,
}

impl Uses {
    /// How words are written at a time; of those that are learned only that they must be looked at.
    #[inline(always)]
    pub(super) fn stamps(self, now_ms: u64, decay_minutes: u32) -> Stamps {
        match self {
            Uses::Clocked => {
                let tick = tick(now_ms);
                let mask = CLOCK_MAX;
                Stamps { uses: self, tick, mask, telling: mask, from: 0, from_mask: 0, next: tick, fresh: tick }
            }
            Uses::Counted => {
                let fresh = counted(COUNT_NEW, now_ms, decay_minutes);
                let tick = minute(now_ms) << COUNT_BITS;
                let (mask, next) = (CLOCK_MAX & !COUNT_MAX, tick | (COUNT_NEW + 1));
                Stamps { uses: self, tick, mask, telling: mask, from: fresh, from_mask: CLOCK_MAX, next, fresh }
            }
            Uses::Learned => {
                let (tick, mask) = (NEVER, NEVER);
                Stamps { uses: self, tick, mask, telling: mask, from: NEVER, from_mask: NEVER, next: 0, fresh: 0 }
            }
        }
    }

    /// What they say under a policy.
    #[inline(always)]
    pub(super) fn under(policy: Policy) -> Uses {
        match policy {
            Policy::AllKeys(Rank::Lfu) | Policy::Volatile(Rank::Lfu) => Uses::Counted,
            Policy::AllKeys(Rank::Smart) | Policy::Volatile(Rank::Smart) => Uses::Learned,
            _ => Uses::Clocked,
        }
    }

    /// The same, and the minutes that take one from a counter, in a word that workers share.
    pub(super) fn packed(self, decay_minutes: u32) -> u64 {
        u64::from(decay_minutes) << 8 | self as u64
    }

    /// How words are written at a time by what `packed` gave.
    #[inline(always)]
    pub(super) fn unpacked_stamps(packed: u64, now_ms: u64) -> Stamps {
        let uses = match packed & 0xff {
            1 => Uses::Counted,
            2 => Uses::Learned,
            _ => Uses::Clocked,
        };
        #[expect(clippy::cast_possible_truncation, reason = "packed from 32 bits")]
        uses.stamps(now_ms, (packed >> 8) as u32)
    }
}

/// No item has this word: each use changes it.
pub(super) const NEVER: u32 = u32::MAX;
const COUNT_BITS: u32 = 8;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const MINUTE_MAX: u32 = CLOCK_MAX >> COUNT_BITS;
/// New items begin here, so that they are not the first to go.
const COUNT_NEW: u32 = 5;

#[expect(clippy::cast_possible_truncation, reason = "the lower bits of the minutes")]
const fn minute(unix_ms: u64) -> u32 {
    (unix_ms / 60_000) as u32 & MINUTE_MAX
}

/// The counter of a word as it has become with time: how often an item was used, on a logarithmic scale up to 255.
#[must_use]
pub const fn count_of(word: u32, now_ms: u64, decay_minutes: u32) -> u64 {
    let minutes = minute(now_ms).wrapping_sub(word >> COUNT_BITS) & MINUTE_MAX;
    let lost = match minutes.checked_div(decay_minutes) {
        Some(lost) => lost,
        None => 0,
    };
    (word & COUNT_MAX).saturating_sub(lost) as u64
}

/// How hot an item is by a word of `dolmen_policy`: eight for each doubling of its uses.
#[must_use]
pub const fn heat_of(word: u32) -> u64 {
    (word & ((1 << dolmen_policy::HEAT_BITS) - 1)) as u64
}

/// A word of so many uses, at a time. Of so few that the next one counts for certain it is the word of the minute before: never that of `now_ms`.
fn counted(count: u32, now_ms: u64, decay_minutes: u32) -> u32 {
    let (minute, count) = match count.min(COUNT_MAX) {
        few @ ..=COUNT_NEW => (minute(now_ms).wrapping_sub(1), few + u32::from(decay_minutes == 1)),
        count => (minute(now_ms), count),
    };
    (minute << COUNT_BITS | count) & CLOCK_MAX
}

/// A count, of which a word can have no more than 255.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(COUNT_MAX)
}

/// Which uses may count of those that are not the first in a minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting {
    /// So many go by before one is chosen.
    left: i64,
}

impl Counting {
    /// Nothing is counted: for longer than a server runs.
    pub(super) const NEVER: Counting = Counting { left: i64::MAX };
    /// The next one is chosen.
    pub(super) const NEXT: Counting = Counting { left: 0 };

    /// Is this one chosen? It is drawn again then.
    #[inline(always)]
    fn is_chosen(&mut self) -> bool {
        self.left -= 1;
        self.left < 0
    }

    /// One in `factor` + 1 is chosen: 0 to 2 * `factor` go by before the next. `random`: 32 bits.
    fn draw(&mut self, factor: u32, random: u64) {
        let passed = (random * (2 * u64::from(factor) + 1)) >> 32;
        self.left = passed.cast_signed();
    }
}

/// Where a walk over all items of a shard is.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Walk {
    database: usize,
    cursor: u64,
}

impl Db<'_> {
    /// A command uses an item: its clock is set, if it shows another time.
    #[inline(always)]
    pub(super) fn touch(&mut self, found: Found) {
        self.touch_item(found.handle);
    }

    #[inline(always)]
    pub(super) fn touch_item(&mut self, h: Handle) {
        let word = self.item(h).clock();
        if self.shows_now(word) {
            self.use_again(h);
        } else if (word ^ self.stamps.from) & self.stamps.from_mask == 0 {
            // SAFETY: a live item, which a table has just named.
            unsafe { item::overwrite_clock(&mut self.shard.slab, h, self.stamps.next) };
        } else {
            self.touch_late(h);
        }
    }

    /// Does a word say already what a use now makes of it? Chance may have it otherwise: `use_again`.
    #[inline(always)]
    pub(super) fn shows_now(&self, word: u32) -> bool {
        (word ^ self.stamps.tick) & self.stamps.mask == 0
    }

    /// An item is used whose word shows it already.
    #[inline(always)]
    pub(super) fn use_again(&mut self, h: Handle) {
        if self.shard.eviction.counting.is_chosen() {
            self.use_chosen(h);
        }
    }

    /// A use that was chosen to be counted, perhaps: with a chance of 1 in `lfu-log-factor` * n + 1, n being what the counter has above that of a
    /// new item, divided by the chance of being chosen.
    #[cold]
    #[inline(never)]
    fn use_chosen(&mut self, h: Handle) {
        let word = self.item(h).clock();
        let Eviction { settings, rng, counting, .. } = &mut self.shard.eviction;
        let (factor, random) = (u64::from(settings.lfu_log_factor), rng.next_u64());
        counting.draw(settings.lfu_log_factor, random >> 32);
        let count = word & COUNT_MAX;
        let one_in = u128::from(count.saturating_sub(COUNT_NEW)) * u128::from(factor) + 1;
        let counts = u128::from(random & u64::from(u32::MAX)) * one_in < u128::from(factor + 1) << 32;
        if counts && count < COUNT_MAX && !self.untouching && self.stamps.uses == Uses::Counted {
            self.set_clock(h, word + 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn touch_late(&mut self, h: Handle) {
        let word = self.used_word(h);
        self.set_clock(h, word);
    }

    /// What a use now makes of an item's word.
    #[inline(always)]
    pub(super) fn used_word(&mut self, h: Handle) -> u32 {
        match self.stamps.uses {
            Uses::Clocked => self.stamps.next,
            Uses::Counted => self.counted_word(self.item(h).clock()),
            Uses::Learned => self.learned_word(h),
        }
    }

    #[cold]
    #[inline(never)]
    fn learned_word(&mut self, h: Handle) -> u32 {
        let Shard { slab, containers, eviction, .. } = &mut *self.shard;
        let item = item_at(slab, h);
        let word = item.clock();
        eviction.smart.as_mut().map_or(word, |smart| smart.used(word, || weight(slab, containers, item)))
    }

    /// The word of a new item.
    #[inline(always)]
    pub(super) fn fresh_word(&mut self, hash: u64, key: &NewKey<'_>, value: &NewValue<'_>, words: &item::Words) -> u32 {
        if self.stamps.uses == Uses::Learned {
            self.learned_fresh_word(hash, key, value, words)
        } else {
            self.stamps.fresh
        }
    }

    #[cold]
    #[inline(never)]
    fn learned_fresh_word(&mut self, hash: u64, key: &NewKey<'_>, value: &NewValue<'_>, words: &item::Words) -> u32 {
        let outside = if let NewValue::Blob(id) = value { self.shard.slab.blob_bytes(*id) } else { 0 };
        let bytes = Slab::class_bytes(item::item_bytes(key, value, words)) as u64 + outside + PLACE_BYTES;
        self.shard.eviction.smart.as_mut().map_or(0, |smart| smart.inserted(hash, bytes))
    }

    /// The word of an item whose value is about to be written anew.
    #[inline(always)]
    pub(super) fn rewritten_word(&mut self, h: Handle) -> u32 {
        if self.stamps.uses == Uses::Learned { self.learned_rewritten_word(h) } else { self.used_word(h) }
    }

    #[cold]
    #[inline(never)]
    fn learned_rewritten_word(&mut self, h: Handle) -> u32 {
        let Shard { slab, containers, eviction, .. } = &mut *self.shard;
        let item = item_at(slab, h);
        let Some(smart) = &mut eviction.smart else { return item.clock() };
        let bytes = weight(slab, containers, item);
        let word = smart.used(item.clock(), || bytes);
        smart.came_in(bytes);
        word
    }

    /// One more use: with a chance of 1 in `lfu-log-factor` times what the counter has above that of a new item.
    #[cold]
    #[inline(never)]
    fn counted_word(&mut self, word: u32) -> u32 {
        let Settings { lfu_log_factor, lfu_decay_minutes, .. } = self.shard.eviction.settings;
        let count = count_of(word, self.clock_ms, lfu_decay_minutes);
        let one_in = count.saturating_sub(u64::from(COUNT_NEW)) * u64::from(lfu_log_factor) + 1;
        let more = count < u64::from(COUNT_MAX) && self.shard.eviction.rng.below(one_in) == 0;
        counted(narrow(count) + u32::from(more), self.clock_ms, lfu_decay_minutes)
    }

    /// Lets a key look as if it had been used so often (RESTORE FREQ).
    pub fn set_count_of_uses(&mut self, key: Key<'_>, count: u64) {
        if let Some(found) = self.find(key) {
            let decay_minutes = self.shard.eviction.settings.lfu_decay_minutes;
            let word = counted(narrow(count), self.clock_ms, decay_minutes);
            self.set_clock(found.handle, word);
        }
    }

    /// What access words say.
    #[must_use]
    pub fn uses(&self) -> Uses {
        self.stamps.uses
    }

    /// Whether what is done from now on is no use of keys (CLIENT NO-TOUCH).
    #[inline]
    pub fn set_untouching(&mut self, untouching: bool) {
        self.untouching = untouching;
        self.stamps.mask = if untouching { 0 } else { self.stamps.telling };
    }

    fn set_clock(&mut self, h: Handle, clock: u32) {
        set_clock_of(&mut self.shard.slab, h, clock);
    }

    /// TOUCH: is the key there? Counts as a use and as a read.
    pub fn touch_key(&mut self, key: Key<'_>) -> bool {
        match self.find_read(key) {
            Some(found) => {
                let word = self.used_word(found.handle);
                self.set_clock(found.handle, word);
                true
            }
            None => false,
        }
    }

    /// The item of a key as it lies, for a command that tells about it. Counts as a read, but is no use, and
    /// nobody is told of a miss.
    pub fn look_at(&mut self, key: Key<'_>) -> Option<Item<'_>> {
        let found = self.find(key);
        self.count_read(found.is_some());
        let found = found?;
        Some(self.item(found.handle))
    }

    /// Lets a key look as if it had not been used for so long.
    pub fn set_idle_seconds(&mut self, key: Key<'_>, seconds: u64) {
        if let Some(found) = self.find(key) {
            self.set_clock(found.handle, clock_of_idle(seconds, tick(self.clock_ms)));
        }
    }
}

/// Gives an item that a table has just named another word.
pub(super) fn set_clock_of(slab: &mut Slab, h: Handle, clock: u32) {
    // SAFETY: a live item.
    unsafe { item::overwrite_clock(slab, h, clock) };
}

impl Shard {
    /// Looks at some items in turn, and keeps the clocks of those that were not used for very long from coming round.
    pub(super) fn age_some(&mut self, now_ms: u64) {
        if Uses::under(self.eviction.settings.policy) != Uses::Clocked {
            return;
        }
        let now = tick(now_ms);
        let mut walk = self.aging;
        let mut old: Vec<Handle> = Vec::new();
        let keys: usize = self.databases[..self.databases_used].iter().map(|database| database.len()).sum();
        for _ in 0..=keys / AGE_KEYS {
            if walk.database >= self.databases_used {
                walk = Walk::default();
            }
            let Some(database) = self.databases.get(walk.database) else { break };
            let slab = &self.slab;
            walk.cursor = database.table.scan(slab, &ItemHash { seed: self.seed }, walk.cursor, |h| {
                if idle_ticks(item_at(slab, h).clock(), now) > OLD_TICKS {
                    old.push(h);
                }
            });
            if walk.cursor == 0 {
                walk.database += 1;
            }
        }
        self.aging = walk;
        for h in old {
            set_clock_of(&mut self.slab, h, now.wrapping_sub(OLD_TICKS) & CLOCK_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::view::Deadline;
    use crate::db::{NewValue, Shard};

    const START_MS: u64 = 1_750_000_000_000;

    fn shard() -> Shard {
        let config = dolmen_slab::Config {
            reserve_bytes: 1 << 26,
            blob_reserve_bytes: 1 << 26,
            decay_ms: 1000,
            huge_pages: false,
        };
        Shard::new(3, 5, config).unwrap()
    }

    fn set(shard: &mut Shard, d: usize, key: &[u8], now_ms: u64) {
        let mut db = shard.db(d, now_ms);
        db.set_string(db.key(key), NewValue::Raw(b"v"), Deadline::None).unwrap();
    }

    fn idle(shard: &mut Shard, d: usize, key: &[u8], now_ms: u64) -> u64 {
        let mut db = shard.db(d, now_ms);
        idle_seconds(&db.look_at(db.key(key)).unwrap(), now_ms)
    }

    #[test]
    fn idle_times_are_exact_to_a_tick() {
        let mut shard = shard();
        set(&mut shard, 0, b"k", START_MS);
        for seconds in [0, 1, 2, 3, 59, 3600, 86_400, 9 * 86_400] {
            let told = idle(&mut shard, 0, b"k", START_MS + seconds * 1000);
            assert!(told.abs_diff(seconds) <= 1, "{told} after {seconds} s");
        }
        // A clock that is set back: as if it had been used now.
        assert_eq!(idle(&mut shard, 0, b"k", START_MS - 5000), 0);
        assert_eq!(idle(&mut shard, 0, b"k", START_MS - 86_400_000), 0);
        let mut db = shard.db(0, START_MS);
        for seconds in [0, 1, 1000, 700_000] {
            db.set_idle_seconds(db.key(b"k"), seconds);
            let told = idle_seconds(&db.look_at(db.key(b"k")).unwrap(), START_MS);
            assert!((seconds..=seconds + 1).contains(&told), "{told} for {seconds}");
        }
        db.set_idle_seconds(db.key(b"k"), u64::MAX);
        assert_eq!(idle_seconds(&db.look_at(db.key(b"k")).unwrap(), START_MS), u64::from(OLD_TICKS) * 1024 / 1000);
    }

    /// Over two months, with the walk going round in time: what is not used is told as old, what is used as used.
    #[test]
    fn clocks_do_not_come_round() {
        let mut shard = shard();
        for d in [0, 2] {
            for i in 0..2000u32 {
                set(&mut shard, d, &i.to_le_bytes(), START_MS);
            }
        }
        let mut now_ms = START_MS;
        let key = 7u32.to_le_bytes();
        let mut used_ms = START_MS;
        for hour in 0..24 * 60 {
            now_ms += 3_600_000;
            // The tables have some 180 home buckets each.
            for _ in 0..64 {
                shard.age_some(now_ms);
            }
            if hour % 50 == 0 {
                let mut db = shard.db(2, now_ms);
                assert!(db.touch_key(db.key(&key)));
                used_ms = now_ms;
            }
            assert!(idle(&mut shard, 2, &key, now_ms).abs_diff((now_ms - used_ms) / 1000) <= 1);
            let (told, since) = (idle(&mut shard, 0, &key, now_ms), (now_ms - START_MS) / 1000);
            let old = u64::from(OLD_TICKS) * 1024 / 1000;
            assert!(told.abs_diff(since) <= 1 || (old..=since).contains(&told), "{told} s of {since} s");
        }
    }
}
