//! The memory limit (`maxmemory`) as commands meet it: how much of it is left, and making room when there is none. Owns the account of a worker;
//! which keys go is decided by `db::evict`.
//!
//! ```text
//!  maxmemory ├── clients, their buffers, tables on the heap ──┤├── data ─────────────┤ near ┤
//!              looked at once a turn                            by the shards' accounts
//! ```
//! A command that may need memory (DENYOOM) is looked at twice when data is near the limit: if it is over, as many keys go as
//! that takes, for [`SLICE`] at most. Should that not be enough the command waits for the next turn, if data is over by more than [`SLACK_PARTS`] allow;
//! else it runs, and the work goes on between requests. If nothing may go it is refused.

use super::ctx::Budget;
use crate::base::clock::Clock;
use crate::db::Db;
use crate::db::evict::Step;
use std::time::Duration;

/// How long one command makes room at most, before others have their turn.
const SLICE: Duration = Duration::from_micros(100);
/// Steps between two looks at the clock: a step takes a microsecond or less.
const STEPS_PER_LOOK: u32 = 16;
/// From here on commands are looked at twice: what a dozen of them may add without being looked at.
const NEAR_BYTES_MAX: u64 = 256 * 1024;
/// Commands run while data is over by a part of the limit no larger than this.
const SLACK_PARTS: u64 = 128;

/// How far it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// There is room, or soon will be.
    Enough,
    /// Not yet.
    Working,
    /// There is none, and nothing that may go.
    Nothing,
}

/// The account of a worker.
#[derive(Debug)]
pub struct Room {
    /// Bytes that data may use; `u64::MAX` without a limit.
    data_bytes_max: u64,
    /// Data from here on is near it.
    near_bytes: u64,
    /// What is used otherwise is over the limit by so much.
    lacking_bytes: u64,
    /// The shard that gave something last.
    hand: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room { data_bytes_max: u64::MAX, near_bytes: u64::MAX, lacking_bytes: 0, hand: 0 }
    }
}

impl Room {
    /// Reckons how much of the limit (0: there is none) is left to data, with so many bytes used otherwise.
    pub fn reckon(&mut self, limit_bytes: u64, other_bytes: u64) {
        if limit_bytes == 0 {
            *self = Room { hand: self.hand, ..Room::default() };
            return;
        }
        self.lacking_bytes = other_bytes.saturating_sub(limit_bytes);
        self.data_bytes_max = limit_bytes.saturating_sub(other_bytes);
        self.near_bytes = self.data_bytes_max.saturating_sub(NEAR_BYTES_MAX.min(limit_bytes / 64));
    }

    /// Is there a limit?
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.data_bytes_max != u64::MAX
    }

    /// May commands that need memory have to wait, or be refused?
    #[inline(always)]
    #[must_use]
    pub fn is_near(&self, db: &Db<'_>) -> bool {
        self.near_bytes != u64::MAX && db.data_bytes() >= self.near_bytes
    }

    /// By how many bytes the limit is exceeded.
    #[must_use]
    pub fn over_bytes(&self, db: &Db<'_>) -> u64 {
        db.data_bytes().saturating_sub(self.data_bytes_max) + self.lacking_bytes
    }

    /// Has keys go until data is within the limit. Nothing may be locked.
    pub fn make(&mut self, db: &mut Db<'_>, clock: &Clock) -> Made {
        if self.over_bytes(db) == 0 {
            return Made::Enough;
        }
        let mut budget = Budget::new(clock, SLICE);
        match self.make_within(db, &mut budget) {
            Made::Working if self.over_bytes(db) <= self.data_bytes_max / SLACK_PARTS => Made::Enough,
            made => made,
        }
    }

    /// The same for as long as the budget allows.
    pub fn make_within(&mut self, db: &mut Db<'_>, budget: &mut Budget) -> Made {
        let shards = db.shard_count();
        let mut without = 0;
        while self.over_bytes(db) > 0 {
            match db.make_room(&mut self.hand) {
                Step::Freed | Step::Looking => without = 0,
                Step::Nothing => without += 1,
            }
            if without == shards {
                return Made::Nothing;
            }
            if budget.is_spent(STEPS_PER_LOOK) {
                return Made::Working;
            }
        }
        Made::Enough
    }
}
