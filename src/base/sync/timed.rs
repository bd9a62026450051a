//! A lock that measures how long it was held and waited for: for the tools under `perf`, which put it in the place of a [`SpinLock`]
//! to learn what the shards' locks cost; the server never uses it.
//!
//! Owns the counts; must not know what is guarded. A reading of the clock costs about 10 ns (time stamp counter) and an acquisition has three,
//! two of which fall into the section: sections of less than about 20 ns cannot be told from each other.
//!
//! Invariant: `since` and the counts of holds are written by the holder only, hence plain stores of atomics suffice.
#![allow(unsafe_code)]

use std::fmt;
#[cfg(not(target_arch = "x86_64"))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(not(target_arch = "x86_64"))]
use std::time::Instant;

use super::lock::{ShardLock, SpinLock};

/// One for each power of two of ticks.
const CLASSES: usize = 40;

/// Ticks of [`ticks`], counted by their powers of two.
pub struct Durations {
    classes: [AtomicU64; CLASSES],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Durations {
    fn default() -> Durations {
        Durations { classes: [const { AtomicU64::new(0) }; CLASSES], sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

impl Durations {
    /// Called under the lock.
    fn add(&self, ticks: u64) {
        let class = (u64::BITS - ticks.leading_zeros()) as usize;
        bump(&self.classes[class.min(CLASSES - 1)], 1);
        bump(&self.sum, ticks);
        self.max.store(self.max.load(Relaxed).max(ticks), Relaxed);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.classes.iter().map(|class| class.load(Relaxed)).sum()
    }

    /// All of them together.
    pub fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    /// The longest.
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// For each class that has any: the number of ticks that all of the class are below, and how many there were.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.classes.iter().enumerate().map(|(class, count)| (1 << class, count.load(Relaxed)));
        counts.filter(|&(_, count)| count > 0)
    }
}

/// As the holder, which is alone in writing.
fn bump(count: &AtomicU64, by: u64) {
    count.store(count.load(Relaxed) + by, Relaxed);
}

/// The time stamp counter, or nanoseconds where there is none. The caller finds the rate by reading it twice along with a clock.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has it, and Linux leaves it to user space.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        u64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// `L`, with its times.
#[derive(Default)]
pub struct Timed<L = SpinLock> {
    lock: L,
    /// When it was taken; the holder's.
    since: AtomicU64,
    /// From the end of an acquisition to its release.
    pub held: Durations,
    /// From the start of an acquisition to its end, also of those that found the lock free.
    pub waited: Durations,
}

impl<L: ShardLock> Timed<L> {
    fn taken(&self, started: u64) {
        let now = ticks();
        self.waited.add(now.saturating_sub(started));
        self.since.store(now, Relaxed);
    }
}

// SAFETY: all of it is `L`'s; the times are kept between an acquisition and its release.
unsafe impl<L: ShardLock> ShardLock for Timed<L> {
    fn acquire(&self) {
        let started = ticks();
        self.lock.acquire();
        self.taken(started);
    }

    fn try_acquire(&self) -> bool {
        let started = ticks();
        let got = self.lock.try_acquire();
        if got {
            self.taken(started);
        }
        got
    }

    // SAFETY: the trait says what the caller promises.
    unsafe fn release(&self) {
        self.held.add(ticks().saturating_sub(self.since.load(Relaxed)));
        // SAFETY: the caller's promise.
        unsafe { self.lock.release() };
    }

    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}

impl<L> fmt::Debug for Timed<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed").field("held", &self.held.count()).finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::lock::Guarded;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn it_counts_holds_and_waits_and_excludes() {
        let cell = Arc::new(Guarded::<Timed, u64>::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let cell = cell.clone();
                thread::spawn(move || (0..2_000).for_each(|_| *cell.lock() += 1))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(*cell.lock(), 6_000);
        let Timed { held, waited, .. } = cell.inner();
        assert_eq!((held.count(), waited.count()), (6_001, 6_001));
        assert!(held.max() <= held.sum() && held.max() > 0);
        let (below, counts): (Vec<u64>, Vec<u64>) = held.classes().unzip();
        assert_eq!(counts.iter().sum::<u64>(), 6_001);
        assert!(below.is_sorted() && below.last().is_some_and(|&last| last > held.max() || last == 1 << (CLASSES - 1)));
        // One that is not granted is no acquisition.
        let _guard = cell.lock();
        assert!(cell.try_lock().is_none());
        assert_eq!(cell.inner().waited.count(), 6_002);
    }
}
