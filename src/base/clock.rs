//! The time of one event-loop turn. A worker ticks its clock once per wake-up, and refreshes it some times a second; everything in that
//! turn sees the same instant, so that a command and its effects agree and nothing on the request path asks the kernel.
//!
//! Two readings: unix milliseconds, in which deadlines are kept (they survive a restart and come from EXPIREAT), and monotonic
//! nanoseconds, for durations and time-outs.
//!
//! **When the wall clock is set back.** By up to `HOLD_MS_MAX` (a leap second, an NTP step): `unix_ms` holds still until the wall has caught
//! up, so what had expired stays expired. By more, an operator has changed the date: `unix_ms` follows, since deadlines are absolute and a
//! relative TTL set now would otherwise stand still for as long as the step. What was deleted stays deleted; what had not
//! been (at most what expired in the last tick) lives until its deadline comes again. The wheel keeps its own time, which never goes
//! back (see `db::wheel`), and a step ahead makes everything in between due at once, in slices. `mono_ns` never goes back.
use super::ticks::Ticker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A step back up to this is waited out rather than followed.
pub const HOLD_MS_MAX: u64 = 2_000;

#[derive(Clone, Debug)]
enum Source {
    /// The kernel's clocks; `mono_ns` counts from `origin`.
    System { origin: Instant },
    /// Set by hand: tests and the simulated backend.
    Manual { unix_ms: u64, mono_ns: u64 },
    /// Nanoseconds that somebody else counts: a simulation. Its Unix time began at `start_unix_ms`.
    Counter { ns: Arc<AtomicU64>, start_unix_ms: u64, look_ns: u64 },
}

/// Cached wall-clock and monotonic time.
#[derive(Clone, Debug)]
pub struct Clock {
    unix_ms: u64,
    /// Never decreases.
    mono_ns: u64,
    /// Both readings of the last `refresh`.
    refreshed_ns: u64,
    refreshed_unix_ms: u64,
    source: Source,
}

impl Clock {
    /// The machine's clocks, already read once. `mono_ns` starts at 0.
    pub fn system() -> Clock {
        let mut c = Clock {
            unix_ms: 0,
            mono_ns: 0,
            refreshed_ns: 0,
            refreshed_unix_ms: 0,
            source: Source::System { origin: Instant::now() },
        };
        c.refresh();
        c
    }

    /// A clock that moves only by `set_manual` and `advance_manual_ms`.
    pub fn manual(unix_ms: u64, mono_ns: u64) -> Clock {
        Clock {
            unix_ms,
            mono_ns,
            refreshed_ns: mono_ns,
            refreshed_unix_ms: unix_ms,
            source: Source::Manual { unix_ms, mono_ns },
        }
    }

    /// A clock that reads nanoseconds which a simulation counts. Each look of a [`Stopwatch`] at it takes `look_ns`, so that slices of work
    /// end, and end at the same place in every run.
    pub fn simulated(ns: Arc<AtomicU64>, start_unix_ms: u64, look_ns: u64) -> Clock {
        let mut c = Clock {
            unix_ms: 0,
            mono_ns: 0,
            refreshed_ns: 0,
            refreshed_unix_ms: 0,
            source: Source::Counter { ns, start_unix_ms, look_ns },
        };
        c.refresh();
        c
    }

    /// What tells the time within a turn.
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch(self.source.clone())
    }

    /// What tells the shortest times; in simulations they are none.
    pub fn ticker(&self) -> Ticker {
        match self.source {
            Source::System { .. } => Ticker::new(),
            Source::Manual { .. } | Source::Counter { .. } => Ticker::Still,
        }
    }

    /// Milliseconds since 1970 as of the last refresh or tick, with small steps back held (see above).
    #[inline]
    pub fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    /// Nanoseconds since some fixed instant as of the last refresh or tick; never decreases.
    #[inline]
    pub fn mono_ns(&self) -> u64 {
        self.mono_ns
    }

    /// Reads the source.
    pub fn refresh(&mut self) {
        let (wall_ms, mono_ns) = match &self.source {
            Source::System { origin } => {
                // Before 1970 is no date a deadline can hold; 584 years of nanoseconds fit.
                let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
                (wall_ms, whole_ns(origin.elapsed()))
            }
            Source::Manual { unix_ms, mono_ns } => (*unix_ms, *mono_ns),
            Source::Counter { ns, start_unix_ms, .. } => {
                let ns = ns.load(Ordering::Relaxed);
                (start_unix_ms + ns / 1_000_000, ns)
            }
        };
        self.mono_ns = self.mono_ns.max(mono_ns);
        let held = wall_ms < self.unix_ms && self.unix_ms - wall_ms <= HOLD_MS_MAX;
        if !held {
            self.unix_ms = wall_ms;
        }
        (self.refreshed_ns, self.refreshed_unix_ms) = (self.mono_ns, wall_ms);
    }

    /// Reads the monotonic clock only, and reckons the wall clock from it as of the last `refresh`: half the price, for every turn; a step of the
    /// wall clock is seen by the next `refresh`.
    #[inline]
    pub fn tick(&mut self) {
        let Source::System { origin } = self.source else { return self.refresh() };
        let mono_ns = u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let since_ms = mono_ns.saturating_sub(self.refreshed_ns) / 1_000_000;
        self.mono_ns = self.mono_ns.max(mono_ns);
        self.unix_ms = self.unix_ms.max(self.refreshed_unix_ms.saturating_add(since_ms));
    }

    /// Lets time pass: the thread sleeps, or a simulation's time moves.
    pub fn sleep(&self, time: Duration) {
        match &self.source {
            Source::System { .. } => std::thread::sleep(time),
            Source::Manual { .. } => {}
            Source::Counter { ns, .. } => {
                ns.fetch_add(whole_ns(time), Ordering::Relaxed);
            }
        }
    }

    /// What the next `refresh` of a manual clock reads. On a system clock a mistake of the caller, and ignored.
    pub fn set_manual(&mut self, unix_ms: u64, mono_ns: u64) {
        debug_assert!(matches!(self.source, Source::Manual { .. }), "a system clock cannot be set");
        if let Source::Manual { .. } = self.source {
            self.source = Source::Manual { unix_ms, mono_ns };
        }
    }

    /// Moves both readings of a manual clock ahead and refreshes.
    pub fn advance_manual_ms(&mut self, ms: u64) {
        if let Source::Manual { unix_ms, mono_ns } = self.source {
            self.set_manual(unix_ms.saturating_add(ms), mono_ns.saturating_add(ms.saturating_mul(1_000_000)));
        }
        self.refresh();
    }
}

/// Tells the exact time of now, for the lengths of slices and turns; what commands and their effects see is the time of the turn.
#[derive(Clone, Debug)]
pub struct Stopwatch(Source);

impl Stopwatch {
    /// Nanoseconds on the scale of `Clock::mono_ns`.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            Source::System { origin } => whole_ns(origin.elapsed()),
            Source::Manual { mono_ns, .. } => *mono_ns,
            Source::Counter { ns, look_ns, .. } => ns.fetch_add(*look_ns, Ordering::Relaxed) + look_ns,
        }
    }
}

/// A length of time in nanoseconds; 584 years fit.
pub fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_moves_only_on_refresh() {
        let mut c = Clock::manual(1_000, 5);
        c.set_manual(1_500, 9);
        assert_eq!((c.unix_ms(), c.mono_ns()), (1_000, 5));
        c.refresh();
        assert_eq!((c.unix_ms(), c.mono_ns()), (1_500, 9));
        c.advance_manual_ms(2);
        assert_eq!((c.unix_ms(), c.mono_ns()), (1_502, 2_000_009));
    }

    #[test]
    fn small_steps_back_are_held_large_ones_followed() {
        let mut c = Clock::manual(100_000, 50);
        c.set_manual(100_000 - HOLD_MS_MAX, 60);
        c.refresh();
        assert_eq!((c.unix_ms(), c.mono_ns()), (100_000, 60));
        c.set_manual(100_001, 70);
        c.refresh();
        assert_eq!(c.unix_ms(), 100_001);
        c.set_manual(100_000 - HOLD_MS_MAX, 10);
        c.refresh();
        assert_eq!((c.unix_ms(), c.mono_ns()), (100_000 - HOLD_MS_MAX, 70), "followed; monotonic time is not");
        c.set_manual(u64::MAX, 71);
        c.refresh();
        assert_eq!(c.unix_ms(), u64::MAX);
    }

    #[test]
    fn a_simulation_counts_and_looking_takes_time() {
        let ns = Arc::new(AtomicU64::new(0));
        let mut c = Clock::simulated(ns.clone(), 5_000, 10);
        let watch = c.stopwatch();
        assert_eq!((watch.now_ns(), watch.now_ns(), c.mono_ns()), (10, 20, 0));
        ns.store(3_000_000, Ordering::Relaxed);
        c.sleep(Duration::from_millis(2));
        c.refresh();
        assert_eq!((c.unix_ms(), c.mono_ns()), (5_005, 5_000_000));
    }

    #[test]
    fn system_is_the_time_of_day() {
        let mut c = Clock::system();
        let (wall, mono) = (c.unix_ms(), c.mono_ns());
        assert!(wall > 1_600_000_000_000, "{wall}");
        for _ in 0..1000 {
            c.refresh();
        }
        assert!(c.mono_ns() > mono);
        assert!(c.unix_ms() + HOLD_MS_MAX >= wall);
    }
}
