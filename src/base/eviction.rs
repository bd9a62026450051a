//! The policies of `maxmemory-policy`, and what tunes them: names as Redis has them. What they do is in `db::evict`.

/// By what the key that goes is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rank {
    /// Used the longest time ago.
    Lru,
    /// Used the least often, of late.
    Lfu,
    Random,
    /// The earliest deadline.
    Ttl,
    /// Worth least a byte, as learned from what was used when and how often.
    Smart,
}

/// `maxmemory-policy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Nothing goes: what would need memory is refused.
    #[default]
    NoEviction,
    /// Any key may go.
    AllKeys(Rank),
    /// Keys with a deadline may go.
    Volatile(Rank),
}

impl Policy {
    /// The names that `maxmemory-policy` takes, in Redis's order, and ours.
    pub const NAMES: &'static [&'static str] = &[
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "noeviction",
        "allkeys-smart",
    ];
    const ALL: [Policy; 9] = [
        Policy::Volatile(Rank::Lru),
        Policy::Volatile(Rank::Lfu),
        Policy::Volatile(Rank::Random),
        Policy::Volatile(Rank::Ttl),
        Policy::AllKeys(Rank::Lru),
        Policy::AllKeys(Rank::Lfu),
        Policy::AllKeys(Rank::Random),
        Policy::NoEviction,
        Policy::AllKeys(Rank::Smart),
    ];

    /// The policy of a name, by its place in [`Policy::NAMES`].
    #[must_use]
    pub fn of_name(at: usize) -> Policy {
        Policy::ALL[at]
    }

    /// The place of its name.
    #[must_use]
    pub fn name_at(self) -> usize {
        Policy::ALL.iter().position(|policy| *policy == self).unwrap_or_default()
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        Policy::NAMES[self.name_at()]
    }
}

/// Settings of eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub policy: Policy,
    /// How slowly the counters of uses grow.
    pub lfu_log_factor: u32,
    /// Minutes without a use that take one from a counter, 0 = none.
    pub lfu_decay_minutes: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { policy: Policy::NoEviction, lfu_log_factor: 10, lfu_decay_minutes: 1 }
    }
}
