//! Making room when memory is short: which keys go, by the policies of `maxmemory-policy`. Owns a hand that goes round the databases of a
//! shard; knows nothing of limits, clients or commands: whoever calls decides how much must go.
//!
//! ```text
//!   table, in the order of hashes, that is, of chance
//!   ├ bucket ┤├ bucket ┤├ bucket ┤├ bucket ┤ ...
//!       ▲         ▲
//!       │         └ fetched, for the next call
//!       └ the hand: its (some ten) keys are compared, the one worth least goes
//! ```
//! Buckets are a random sample of the keys. A step compares at least ten keys (`SAMPLE_MIN`; Redis looks at five by default), so no pool of candidates is
//! kept between steps: mostly one bucket, whose items were fetched during the step before. To take one key from each bucket, however
//! few it has, would not do: the length of a bucket is then a random walk, many are short, and what alone is left in one has to go. What has expired goes first.
//!
//! With `volatile-*` keys without a deadline are passed by, and databases that have none with one; `volatile-ttl` asks the expiry wheel for what
//! fires next, so it does not search.
//!
//! What an item's access word says depends on the policy: see `access`.

use super::access::{self, Counting, Stamps, Uses};
use super::background::{Losing, armed_item};
use super::event::Event;
use super::smart::{Gone, Smart, weight};
use super::wheel::{Due, Rearm};
use super::{Database, ItemHash, Shard, item_at};
use crate::base::eviction::{Policy, Rank, Settings};
use crate::base::rng::Rng;
use dolmen_policy::Model;
use dolmen_slab::{Handle, Slab};
use std::sync::{Arc, Mutex};

/// Buckets looked at in one step to find as many keys as are compared.
const LOOKS: usize = 16;
/// Wheel entries looked at in one step: most are stale at worst.
const FIRES: usize = 64;
/// So many keys are compared for each that goes, and no more than that (the rest of a bucket has its turn the next time round).
const SAMPLE_MIN: usize = 10;
const SAMPLE_MAX: usize = 32;

/// What a step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Memory was given back, or a key has gone whose memory will be.
    Freed,
    /// Nothing yet: there is more to look at.
    Looking,
    /// There is nothing that may go.
    Nothing,
}

/// Where the hand of a shard is.
pub(super) struct Eviction {
    pub(super) settings: Settings,
    pub(super) rng: Rng,
    /// Of [`Rank::Lfu`].
    pub(super) counting: Counting,
    /// Of [`Rank::Smart`].
    pub(super) smart: Option<Box<Smart>>,
    database: usize,
    cursor: u64,
}

impl Eviction {
    pub(super) fn new(seed: u64) -> Eviction {
        let (settings, counting) = (Settings::default(), Counting::NEVER);
        Eviction { settings, rng: Rng::seeded(seed), counting, smart: None, database: 0, cursor: 0 }
    }
}

impl Shard {
    /// What is chosen by, from now on, if the shard may grow to so many bytes. `model`: what all shards learn together.
    pub fn set_eviction(&mut self, settings: Settings, share_bytes: u64, model: &Arc<Mutex<Model>>) {
        self.eviction.settings = settings;
        let counted = Uses::under(settings.policy) == Uses::Counted;
        self.eviction.counting = if counted { Counting::NEXT } else { Counting::NEVER };
        match &mut self.eviction.smart {
            smart if Uses::under(settings.policy) != Uses::Learned => *smart = None,
            Some(smart) => smart.resize(share_bytes),
            smart => *smart = Some(Box::new(Smart::new(share_bytes, Arc::clone(model)))),
        }
    }

    /// How access words are written at a time.
    #[inline(always)]
    pub(super) fn stamps(&self, now_ms: u64) -> Stamps {
        let Settings { policy, lfu_decay_minutes, .. } = self.eviction.settings;
        let mut stamps = Uses::under(policy).stamps(now_ms, lfu_decay_minutes);
        if let Some(smart) = &self.eviction.smart {
            (stamps.tick, stamps.mask) = smart.fresh_words();
            stamps.telling = stamps.mask;
        }
        stamps
    }

    /// A small step to have less memory in use: what is waiting to be freed first, else a key goes that the policy names.
    pub fn make_room(&mut self, now_ms: u64) -> Step {
        let used_bytes = self.used_bytes();
        if self.give_back_some() && self.used_bytes() < used_bytes {
            return Step::Freed;
        }
        match self.eviction.settings.policy {
            Policy::NoEviction => Step::Nothing,
            Policy::Volatile(Rank::Ttl) => self.evict_next_due(now_ms),
            Policy::AllKeys(Rank::Smart) => self.evict_judged(now_ms),
            policy => self.evict_at_hand(policy, now_ms),
        }
    }

    /// The database at the hand, or the next that has keys which may go; `None`: none has.
    fn database_at_hand(&mut self, volatile: bool) -> Option<usize> {
        for _ in 0..=self.databases_used {
            if let Some(database) = self.databases[..self.databases_used].get(self.eviction.database) {
                let candidates = if volatile { database.expires > 0 } else { !database.is_empty() };
                if candidates {
                    return Some(self.eviction.database);
                }
                self.eviction.database += 1;
            } else {
                self.eviction.database = 0;
            }
            self.eviction.cursor = 0;
        }
        None
    }

    fn evict_at_hand(&mut self, policy: Policy, now_ms: u64) -> Step {
        let (volatile, rank) = match policy {
            Policy::Volatile(rank) => (true, rank),
            Policy::AllKeys(rank) => (false, rank),
            Policy::NoEviction => return Step::Nothing,
        };
        let Some(index) = self.database_at_hand(volatile) else { return Step::Nothing };
        let (table, slab, entries) = (&self.databases[index].table, &self.slab, ItemHash { seed: self.seed });
        let (mut sample, mut len) = ([Handle::NULL; SAMPLE_MAX], 0);
        for _ in 0..LOOKS {
            let next = table.scan(slab, &entries, self.eviction.cursor, |h| {
                if let Some(place) = sample.get_mut(len)
                    && (!volatile || item_at(slab, h).has_expiry())
                {
                    *place = h;
                    len += 1;
                }
            });
            self.eviction.cursor = next;
            if next == 0 {
                self.eviction.database += 1;
                break;
            }
            table.scan(slab, &entries, next, |h| slab.prefetch(h));
            if len >= SAMPLE_MIN {
                break;
            }
        }
        match self.worth_least(&sample[..len], rank, now_ms) {
            Some(h) => {
                self.evict(index, h, now_ms);
                Step::Freed
            }
            None => Step::Looking,
        }
    }

    /// `allkeys-smart`: of each bucket go those that are worth less than the policy's threshold.
    fn evict_judged(&mut self, now_ms: u64) -> Step {
        let Some(index) = self.database_at_hand(false) else { return Step::Nothing };
        let keys = self.databases[..self.databases_used].iter().map(Database::len).sum();
        let entries = ItemHash { seed: self.seed };
        let mut freed = false;
        for _ in 0..LOOKS {
            let (mut sample, mut len) = ([Handle::NULL; SAMPLE_MAX], 0);
            let table = &self.databases[index].table;
            let next = table.scan(&self.slab, &entries, self.eviction.cursor, |h| {
                if let Some(place) = sample.get_mut(len) {
                    *place = h;
                    len += 1;
                }
            });
            self.eviction.cursor = next;
            if next != 0 {
                table.scan(&self.slab, &entries, next, |h| self.slab.prefetch(h));
            }
            for &h in &sample[..len] {
                let Shard { slab, containers, eviction, seed, .. } = &mut *self;
                let Some(smart) = &mut eviction.smart else { return Step::Nothing };
                let item = item_at(slab, h);
                let word = item.clock();
                if item.deadline_ms() > now_ms {
                    match smart.judge(word, weight(slab, containers, item)) {
                        Ok(aged) if aged == word => continue,
                        Ok(aged) => {
                            access::set_clock_of(slab, h, aged);
                            continue;
                        }
                        Err(Gone) => smart.evicted(item.hash(*seed), word, keys),
                    }
                }
                self.evict(index, h, now_ms);
                freed = true;
            }
            if next == 0 {
                self.eviction.database += 1;
                break;
            }
            if freed {
                break;
            }
        }
        if freed { Step::Freed } else { Step::Looking }
    }

    fn worth_least(&mut self, sample: &[Handle], rank: Rank, now_ms: u64) -> Option<Handle> {
        let Shard { slab, eviction, .. } = self;
        let Eviction { settings, rng, .. } = eviction;
        let mut worth = |h: &Handle| {
            let item = item_at(slab, *h);
            let deadline_ms = item.deadline_ms();
            match rank {
                _ if deadline_ms <= now_ms => 0,
                Rank::Random | Rank::Smart => rng.next_u64(),
                Rank::Ttl => deadline_ms,
                Rank::Lru => u64::from(access::CLOCK_MAX - access::idle_ticks(item.clock(), access::tick(now_ms))) + 1,
                Rank::Lfu => access::count_of(item.clock(), now_ms, settings.lfu_decay_minutes) + 1,
            }
        };
        sample.iter().min_by_key(|h| worth(h)).copied()
    }

    fn evict(&mut self, index: usize, h: Handle, now_ms: u64) {
        let Shard { slab, databases, containers, watches, listeners, stats, seed, .. } = self;
        let Database { table, expires, .. } = &mut databases[index];
        let item = item_at(slab, h);
        let (hash, expired) = (item.hash(*seed), item.deadline_ms() <= now_ms);
        let Some(slot) = table.find_handle(slab, hash, h) else { unreachable!("the table has just named it") };
        let mut losing = Losing { table, containers, watches, listeners, index, expires };
        let (event, count) =
            if expired { (Event::Expired, &mut stats.expired) } else { (Event::Evicted, &mut stats.evicted) };
        *count += 1;
        losing.lose(slab, event, hash, slot, h);
    }

    /// `volatile-ttl`: what the wheel would fire next goes.
    fn evict_next_due(&mut self, now_ms: u64) -> Step {
        // Of the databases the one with the earliest deadline.
        let due_ms = |d: &Database| d.wheel.as_ref().filter(|_| d.expires > 0).and_then(|wheel| wheel.next_due_ms());
        let databases = self.databases[..self.databases_used].iter().enumerate();
        let Some((_, index)) = databases.filter_map(|(i, d)| Some((due_ms(d)?, i))).min() else { return Step::Nothing };
        let Shard { slab, databases, containers, watches, listeners, stats, seed, .. } = self;
        let Database { table, wheel, expires, .. } = &mut databases[index];
        let Some(wheel) = wheel else { return Step::Nothing };
        let losing = Losing { table, containers, watches, listeners, index, expires };
        let mut taker = Taker { losing, evicted: 0, expired: 0, now_ms, seed: *seed };
        for _ in 0..FIRES {
            if !wheel.fire_next(slab, &mut taker) || taker.evicted + taker.expired > 0 {
                break;
            }
        }
        stats.evicted += taker.evicted;
        stats.expired += taker.expired;
        if taker.evicted + taker.expired > 0 { Step::Freed } else { Step::Looking }
    }
}

/// Has the keys go whose wheel entries are fired, due or not.
struct Taker<'a> {
    losing: Losing<'a>,
    evicted: u64,
    expired: u64,
    now_ms: u64,
    seed: u64,
}

impl Due for Taker<'_> {
    fn fire(&mut self, slab: &mut Slab, hash32: u32, code: u16, _rearm: &mut Rearm<'_>) {
        let Some(item) = armed_item(self.losing.table, slab, self.seed, hash32, code) else { return };
        let expired = item_at(slab, item.handle).deadline_ms() <= self.now_ms;
        let (event, count) =
            if expired { (Event::Expired, &mut self.expired) } else { (Event::Evicted, &mut self.evicted) };
        *count += 1;
        self.losing.lose(slab, event, item.hash, item.slot, item.handle);
    }
}

#[cfg(test)]
mod tests;
