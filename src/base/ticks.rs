//! A clock for the shortest times, at the least price: the processor's time stamp counter where it runs at one rate (7 ns a look), else the
//! system's monotonic clock. Counts in ticks of its own; says how many nanoseconds they are.
//!
//! Simulations and tests, whose time stands still, count no ticks.
#![allow(unsafe_code)]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Where the rate of the counter is reckoned from.
struct Start {
    ticks: u64,
    at: Instant,
}

static START: LazyLock<Start> = LazyLock::new(|| Start { ticks: counter(), at: Instant::now() });
/// The rate is not reckoned from less: two looks are this far apart in any case.
const BASE_MIN: Duration = Duration::from_millis(2);

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 has the counter, and reading it touches nothing.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

/// Does the counter run at one rate, whatever the processor does?
#[cfg(target_arch = "x86_64")]
fn is_steady() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn is_steady() -> bool {
    false
}

// With a tag of its own: one that hides in the `Instant` takes four instructions more a look.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Ticker {
    /// The time stamp counter.
    Counter,
    /// Nanoseconds since then.
    System(Instant),
    /// Time does not pass.
    Still,
}

impl Ticker {
    /// The best that this machine has.
    #[must_use]
    pub fn new() -> Ticker {
        if is_steady() {
            LazyLock::force(&START);
            Ticker::Counter
        } else {
            Ticker::System(Instant::now())
        }
    }

    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> u64 {
        match self {
            Ticker::Counter => counter(),
            Ticker::System(origin) => super::clock::whole_ns(origin.elapsed()),
            Ticker::Still => 0,
        }
    }

    /// How many nanoseconds a tick is.
    #[must_use]
    pub fn ns_per_tick(&self) -> f64 {
        let Ticker::Counter = self else { return 1.0 };
        while START.at.elapsed() < BASE_MIN {
            std::hint::spin_loop();
        }
        let (ns, ticks) = (START.at.elapsed().as_nanos(), counter().saturating_sub(START.ticks).max(1));
        #[expect(clippy::cast_precision_loss, reason = "15 digits are kept")]
        let rate = ns as f64 / ticks as f64;
        rate
    }

    /// So many ticks take this time at least.
    #[must_use]
    pub fn ticks_of(&self, time: Duration) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and what is beyond saturates"
        )]
        let ticks = (time.as_nanos() as f64 / self.ns_per_tick()) as u64;
        ticks
    }
}

impl Default for Ticker {
    fn default() -> Ticker {
        Ticker::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_time() {
        for ticker in [Ticker::new(), Ticker::System(Instant::now())] {
            let (from, at) = (ticker.now(), Instant::now());
            while at.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            let ticks = ticker.now() - from;
            let elapsed = at.elapsed();
            // Others may have taken the processor between the looks.
            assert!(ticks >= ticker.ticks_of(Duration::from_millis(19)), "{ticker:?}: {ticks}");
            assert!(ticks <= ticker.ticks_of(elapsed * 2 + Duration::from_secs(1)), "{ticker:?}: {ticks}");
        }
        assert_eq!(Ticker::Still.now(), 0);
    }
}
