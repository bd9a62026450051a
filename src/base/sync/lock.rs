//! The lock of a shard, and the cell that holds it beside what it guards.
//!
//! Owns mutual exclusion and nothing else: what is inside, and which cells belong together, is the caller's business.
//!
//! [`ShardLock`] is a type parameter of the keyspace. With one worker it is [`NoLock`], which is no lock: it is not `Sync`, so neither is
//! a cell, a slice of cells or a keyspace made of it, and the compiler keeps all of it on the thread that owns it (it may be
//! moved to another one as a whole). With several it is [`SpinLock`].
//!
//! There are two ways in:
//!
//! - [`Guarded::lock`] and [`Guarded::try_lock`] give a [`Guard`]. They are safe with either lock: `NoLock` has a flag, no atomic, that
//!   refuses a second guard of one cell.
//! - [`Guarded::lock_raw`] and its kin are for sets of cells that are locked in index order and whose guards cannot be borrows. They are
//!   unsafe, and with `NoLock` compile to nothing in release builds; in debug builds they keep the flag, too.
//!
//! ```text
//!  Guarded<SpinLock, T>: 128-byte lines of its own, since the adjacent-line prefetcher fetches pairs of 64
//!  byte 0      4              (up to the alignment of T)
//!  | word, u32 | T ...
//! ```
//!
//! Invariants:
//! - I1. Between a successful acquisition and its release no other acquisition of the same lock succeeds.
//! - I2. What was written before a release is seen after the next acquisition.
//! - I3. A `Guard` stays on its thread; `order` knows in debug builds what a thread holds.
//!
//! No lock is poisoned: the server aborts on panic, and a test that unwinds through a guard unlocks.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use static_assertions::{assert_impl_all, assert_not_impl_any, const_assert_eq};

use super::futex::Futex;
use super::order;
use super::shim::spin_loop;

/// Mutual exclusion for what a [`Guarded`] holds.
///
/// The `raw` methods may leave out everything that is only needed to refuse a second acquisition by the same thread.
///
/// # Safety
/// Acquisitions exclude each other (I1, I2) among all threads that can reach the lock: an implementation that is `Sync` works across
/// threads. `acquire` and `try_acquire` also exclude a second acquisition by the same thread (by waiting, panicking or `false`).
pub unsafe trait ShardLock: Default {
    /// Waits until the lock is free and takes it.
    fn acquire(&self);

    /// Takes the lock if it is free; does not wait.
    fn try_acquire(&self) -> bool;

    /// Gives back what `acquire` or `try_acquire` took.
    ///
    /// # Safety
    /// The caller has acquired the lock and not yet released it.
    unsafe fn release(&self);

    /// As `acquire`.
    ///
    /// # Safety
    /// This thread does not hold the lock, and does not ask for it by another method until it has called `release_raw`.
    #[inline(always)]
    unsafe fn acquire_raw(&self) {
        self.acquire();
    }

    /// As `try_acquire`.
    ///
    /// # Safety
    /// As of `acquire_raw`.
    #[inline(always)]
    unsafe fn try_acquire_raw(&self) -> bool {
        self.try_acquire()
    }

    /// Gives back what a `raw` method took.
    ///
    /// # Safety
    /// The caller has acquired the lock by a `raw` method and not yet released it.
    #[inline(always)]
    unsafe fn release_raw(&self) {
        // SAFETY: the caller's promise, as the defaults above are the same as the plain methods.
        unsafe { self.release() };
    }

    /// Whether anybody holds the lock; for debug assertions. Of raw acquisitions of a `NoLock` release builds know nothing.
    fn is_locked(&self) -> bool;
}

/// No lock, for a keyspace of one thread.
#[derive(Default, Debug)]
pub struct NoLock {
    /// A guard is alive, or in debug builds a raw acquisition. Being a `Cell` it also makes the type not `Sync`.
    taken: Cell<bool>,
}

assert_impl_all!(Guarded<NoLock, Vec<u8>>: Send);
assert_not_impl_any!(Guarded<NoLock, Vec<u8>>: Sync);

// SAFETY: one thread only, as it is not `Sync`; the flag excludes a second acquisition, and the caller of a raw method promises that there
// is none.
unsafe impl ShardLock for NoLock {
    #[inline]
    #[track_caller]
    fn acquire(&self) {
        assert!(!self.taken.replace(true), "a lock is taken twice by one thread");
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        !self.taken.replace(true)
    }

    // SAFETY: the trait says what the caller promises.
    #[inline]
    unsafe fn release(&self) {
        self.taken.set(false);
    }

    // SAFETY: the trait says what the caller promises.
    #[inline(always)]
    unsafe fn acquire_raw(&self) {
        if cfg!(debug_assertions) {
            self.acquire();
        }
    }

    // SAFETY: the trait says what the caller promises.
    #[inline(always)]
    unsafe fn try_acquire_raw(&self) -> bool {
        // A guard that is alive is respected; another raw acquisition there is none, by the caller's promise.
        if cfg!(debug_assertions) { self.try_acquire() } else { true }
    }

    // SAFETY: the trait says what the caller promises.
    #[inline(always)]
    unsafe fn release_raw(&self) {
        if cfg!(debug_assertions) {
            self.taken.set(false);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.taken.get()
    }
}

/// Nobody has it.
const FREE: u32 = 0;
/// Somebody has it, nobody sleeps.
const TAKEN: u32 = 1;
/// Somebody has it, and somebody sleeps or is about to.
const AWAITED: u32 = 2;

/// How often a waiter looks at the word before it sleeps. Sections under a lock are short (tens to hundreds of nanoseconds), so the lock is
/// mostly free long before; only a holder that lost its CPU, or a slice of background work, is worth a system call.
const SPINS_MAX: u32 = if cfg!(loom) { 1 } else { 100 };

/// A lock in one word: spins for a while, then sleeps on a futex.
///
/// ```text
///         acquire: compare-exchange          a waiter gives up spinning: swap
///  FREE ───────────────────────────▶ TAKEN ───────────────────────────────────▶ AWAITED
///    ▲                                 │                                          │
///    └───────── release: swap ─────────┴───────── release: swap, wake one ────────┘
/// ```
/// A waiter that has slept takes the lock as `AWAITED`, since it cannot know whether it was the only one; its release may wake nobody.
/// Not fair: who comes while it is free gets it.
pub struct SpinLock {
    futex: Futex,
}

#[cfg(not(loom))]
const_assert_eq!(size_of::<SpinLock>(), 4);
assert_impl_all!(Guarded<SpinLock, Cell<u8>>: Send, Sync);
assert_not_impl_any!(Guarded<SpinLock, *const u8>: Send, Sync);

impl Default for SpinLock {
    #[inline]
    fn default() -> SpinLock {
        SpinLock { futex: Futex::new(FREE) }
    }
}

impl fmt::Debug for SpinLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").field("locked", &self.is_locked()).finish()
    }
}

// SAFETY: FREE is left only by a read-modify-write that finds it, so one acquirer does (I1); acquire and release orderings on the same
// word give I2. A second acquisition by the same thread waits, or is refused by `try_acquire`.
unsafe impl ShardLock for SpinLock {
    #[inline(always)]
    fn acquire(&self) {
        if self.futex.word.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_err() {
            self.acquire_contended();
        }
    }

    #[inline(always)]
    fn try_acquire(&self) -> bool {
        self.futex.word.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok()
    }

    // SAFETY: the trait says what the caller promises.
    #[inline(always)]
    unsafe fn release(&self) {
        // A swap and no plain store: a store could overtake the look at whether somebody sleeps.
        if self.futex.word.swap(FREE, Release) == AWAITED {
            self.wake();
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.futex.word.load(Relaxed) != FREE
    }
}

impl SpinLock {
    #[cold]
    #[inline(never)]
    fn acquire_contended(&self) {
        let word = &self.futex.word;
        let mut seen = self.spin();
        if seen == FREE {
            match word.compare_exchange(FREE, TAKEN, Acquire, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        loop {
            // From here on we may have company that sleeps, or sleep ourselves, so the lock is taken as AWAITED only.
            if seen != AWAITED && word.swap(AWAITED, Acquire) == FREE {
                return;
            }
            self.futex.wait(AWAITED);
            seen = self.spin();
        }
    }

    /// Looks until the lock is free, or others sleep already, or it has looked often enough. Reads only, so that the waiters' caches
    /// share the line until it changes.
    fn spin(&self) -> u32 {
        let mut left = SPINS_MAX;
        loop {
            let seen = self.futex.word.load(Relaxed);
            if seen != TAKEN || left == 0 {
                return seen;
            }
            spin_loop();
            left -= 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.futex.wake_one();
    }
}

/// A value and the lock that guards it, in cache lines of their own.
#[derive(Default)]
#[repr(C, align(128))]
pub struct Guarded<L, T> {
    lock: L,
    value: UnsafeCell<T>,
}

const_assert_eq!(align_of::<Guarded<NoLock, u8>>(), 128);
#[cfg(not(loom))]
const_assert_eq!(size_of::<Guarded<SpinLock, [u64; 15]>>(), 128);

// SAFETY: a lock that is `Sync` works across threads (`ShardLock`), so that one thread at a time reaches the value; and it may be
// another thread each time, hence `T: Send`.
unsafe impl<L: ShardLock + Sync, T: Send> Sync for Guarded<L, T> {}

impl<L: ShardLock, T> Guarded<L, T> {
    pub fn new(value: T) -> Guarded<L, T> {
        Guarded { lock: L::default(), value: UnsafeCell::new(value) }
    }

    /// What `order` knows the lock by.
    #[inline(always)]
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits for the lock and takes it.
    ///
    /// # Panics
    /// When this thread has it already (a `NoLock` always, a `SpinLock` in debug builds; otherwise it waits for ever), and in debug builds
    /// when the thread holds a lock of a higher address.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Guard<'_, L, T> {
        order::about_to_wait(self.address());
        self.lock.acquire();
        order::taken(self.address());
        Guard { cell: self, _thread: PhantomData }
    }

    /// Takes the lock if it is free. Does not wait, so it may be asked in any order.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, L, T>> {
        if !self.lock.try_acquire() {
            return None;
        }
        order::taken(self.address());
        Some(Guard { cell: self, _thread: PhantomData })
    }

    /// Waits for the lock and takes it; the value is then reached by [`Guarded::data_ptr`].
    ///
    /// # Safety
    /// Until `unlock_raw` this thread asks for the lock by no method, and it has no [`Guard`] of this cell now.
    ///
    /// # Panics
    /// In debug builds, when the thread holds this lock, or one of a higher address.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn lock_raw(&self) {
        order::about_to_wait(self.address());
        // SAFETY: the caller's promise.
        unsafe { self.lock.acquire_raw() };
        order::taken(self.address());
    }

    /// As `lock_raw`, without waiting: whether it took the lock.
    ///
    /// # Safety
    /// As of `lock_raw`, also when this fails.
    #[inline(always)]
    #[must_use]
    pub unsafe fn try_lock_raw(&self) -> bool {
        // SAFETY: the caller's promise.
        if !unsafe { self.lock.try_acquire_raw() } {
            return false;
        }
        order::taken(self.address());
        true
    }

    /// Gives back what `lock_raw` or `try_lock_raw` took.
    ///
    /// # Safety
    /// This thread took the lock by one of these and has not given it back; no reference to the value is used afterwards.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn unlock_raw(&self) {
        order::given_back(self.address());
        // SAFETY: the caller's promise.
        unsafe { self.lock.release_raw() };
    }

    /// The value. To be dereferenced only under the lock: one `&mut`, or several `&`, as long as it is held.
    #[inline(always)]
    pub fn data_ptr(&self) -> *mut T {
        self.value.get()
    }

    /// Whether anybody holds the lock; for debug assertions (see [`ShardLock::is_locked`]).
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    /// The lock itself, for one that measures.
    pub fn inner(&self) -> &L {
        &self.lock
    }

    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Asks the processor for the first line, which has the lock, to write it soon: a hint, which costs one instruction. Pays when another
    /// core had it last and the lock is taken some 100 ns later.
    #[inline(always)]
    pub fn prefetch_for_write(&self) {
        // SAFETY: a prefetch touches no memory as the program sees it, and never faults; every x86-64 processor knows the opcode (those
        // that do not fetch for writing ignore it). The compiler's intrinsic gives it only for newer target processors.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) std::ptr::from_ref(self), options(nostack, preserves_flags, readonly));
        }
    }
}

impl<L: ShardLock, T> fmt::Debug for Guarded<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("locked", &self.is_locked()).finish_non_exhaustive()
    }
}

/// The right to the value of a [`Guarded`]; gives the lock back when it is dropped, on the thread that took it (I3).
#[must_use = "the lock is given back at once"]
pub struct Guard<'a, L: ShardLock, T> {
    cell: &'a Guarded<L, T>,
    _thread: PhantomData<*const ()>,
}

assert_not_impl_any!(Guard<'static, SpinLock, u8>: Send, Sync);

impl<L: ShardLock, T> Deref for Guard<'_, L, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, and `&self` keeps its `&mut` away.
        unsafe { &*self.cell.value.get() }
    }
}

impl<L: ShardLock, T> DerefMut for Guard<'_, L, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and `&mut self` is the only way through it.
        unsafe { &mut *self.cell.value.get() }
    }
}

impl<L: ShardLock, T> Drop for Guard<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        order::given_back(self.cell.address());
        // SAFETY: the guard was made by `acquire` or `try_acquire`, and is dropped once.
        unsafe { self.cell.lock.release() };
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Barrier};
    use std::thread;

    /// Two words that are equal whenever the lock is free, so that two holders at once are seen.
    fn write_both(pair: &mut [u64; 2]) {
        let next = pair[0] + 1;
        pair[0] = next;
        assert_eq!(pair[1], next - 1, "somebody else was inside");
        pair[1] = next;
    }

    /// What both locks do for a single thread.
    fn one_thread<L: ShardLock>() {
        let mut cell = Guarded::<L, _>::new(vec![1]);
        assert!(!cell.is_locked());
        let mut guard = cell.lock();
        guard.push(2);
        assert!(cell.is_locked());
        assert!(cell.try_lock().is_none());
        assert_eq!(*guard, [1, 2]);
        drop(guard);
        assert!(!cell.is_locked());
        cell.try_lock().expect("it is free").push(3);
        // SAFETY: no guard is alive, and the lock is not asked for until it is given back; one reference to the value.
        unsafe {
            cell.lock_raw();
            assert!(!cfg!(debug_assertions) || cell.is_locked());
            (*cell.data_ptr()).push(4);
            cell.unlock_raw();
            assert!(cell.try_lock_raw());
            (*cell.data_ptr()).push(5);
            cell.unlock_raw();
        }
        assert!(!cell.is_locked());
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = cell.lock();
            panic!("inside");
        }));
        assert!(unwound.is_err());
        assert!(!cell.is_locked(), "unwinding gives it back");
        assert_eq!(order::held(), 0);
        cell.get_mut().push(6);
        assert_eq!(cell.into_inner(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_lock_for_one_thread() {
        one_thread::<NoLock>();
        one_thread::<SpinLock>();
    }

    #[test]
    #[should_panic(expected = "taken twice by one thread")]
    fn no_lock_refuses_a_second_guard() {
        let cell = Guarded::<NoLock, _>::new(0);
        let _first = cell.lock();
        drop(cell.lock());
    }

    #[test]
    fn a_cell_without_a_lock_moves_to_another_thread_as_a_whole() {
        let cell = Guarded::<NoLock, _>::new(1);
        let cell = thread::spawn(move || {
            *cell.lock() += 1;
            cell
        });
        assert_eq!(*cell.join().expect("it does not panic").lock(), 2);
    }

    /// Many short sections, some long enough that waiters sleep.
    #[test]
    fn threads_exclude_each_other() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 5_000;
        let cell = Arc::new(Guarded::<SpinLock, _>::new([0; 2]));
        let start = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (cell, start) = (cell.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    let mut tried = 0;
                    for round in 0..ROUNDS {
                        if (round + number).is_multiple_of(3) {
                            match cell.try_lock() {
                                Some(mut pair) => write_both(&mut pair),
                                None => {
                                    tried += 1;
                                    write_both(&mut cell.lock());
                                }
                            }
                            continue;
                        }
                        let mut pair = cell.lock();
                        if round.is_multiple_of(500) {
                            // Gives the processor away under the lock, so that the others come to the end of their patience.
                            thread::yield_now();
                        }
                        write_both(&mut pair);
                    }
                    tried
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.join().expect("no thread panics") <= ROUNDS);
        }
        assert!(!cell.is_locked());
        assert_eq!(*cell.lock(), [THREADS * ROUNDS; 2]);
    }

    /// As a keyspace does it: sets of cells in index order, money moved between them.
    #[test]
    fn sets_of_cells_in_order() {
        const CELLS: usize = 5;
        let cells: Arc<[Guarded<SpinLock, i64>]> = (0..CELLS).map(|_| Guarded::new(100)).collect();
        let threads: Vec<_> = (0..4_usize)
            .map(|number| {
                let cells = cells.clone();
                thread::spawn(move || {
                    for round in 0..3_000 {
                        let (a, b) = ((round * 7 + number) % CELLS, (round * 3 + number * 2) % CELLS);
                        let (first, last) = (a.min(b), a.max(b));
                        cells[last].prefetch_for_write();
                        // SAFETY: each cell once, in order, given back below; the references end before.
                        unsafe {
                            cells[first].lock_raw();
                            if last != first {
                                cells[last].lock_raw();
                            }
                            *cells[a].data_ptr() -= 1;
                            *cells[b].data_ptr() += 1;
                            if last != first {
                                cells[last].unlock_raw();
                            }
                            cells[first].unlock_raw();
                        }
                        if round % 100 == 0 {
                            let all: Vec<_> = cells.iter().map(Guarded::lock).collect();
                            assert_eq!(all.iter().map(|cell| **cell).sum::<i64>(), 500);
                        }
                    }
                    assert_eq!(order::held(), 0);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(cells.iter().map(|cell| *cell.lock()).sum::<i64>(), 500);
    }

    /// A waiter that has gone to sleep is woken, however long the holder takes.
    #[test]
    fn sleepers_are_woken() {
        let cell = Arc::new(Guarded::<SpinLock, _>::new(0));
        for _ in 0..20 {
            let guard = cell.lock();
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let cell = cell.clone();
                    thread::spawn(move || *cell.lock() += 1)
                })
                .collect();
            // They sleep when the word says so; one at least must, as nobody gives the lock back.
            while cell.inner().futex.word.load(Relaxed) != AWAITED {
                thread::yield_now();
            }
            drop(guard);
            for waiter in waiters {
                waiter.join().expect("no thread panics");
            }
        }
        assert_eq!(*cell.lock(), 60);
    }
}
