//! Which locks this thread holds, in debug builds only; in release builds every function here is empty.
//!
//! Two rules make deadlocks impossible, and this is where they are checked:
//!
//! 1. **A thread waits for a lock only if all that it holds have lower addresses.** The cells of a keyspace lie in one slice, so that is
//!    ascending order of their index. Trying is allowed in any order, as it does not wait; but a thread that by trying has got a later
//!    lock must not wait for an earlier one.
//! 2. **Nothing else is waited for under a lock**: no room in a mailbox (`mailbox::Sender::reserve` calls [`assert_none_held`]), no client.
//!
//! Invariant: a thread's list has the address of every lock that it has taken by `Guarded` and not given back.
#[cfg(debug_assertions)]
use std::cell::RefCell;

#[cfg(debug_assertions)]
#[cfg(not(loom))]
std::thread_local! {
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}
// The threads of a model are one thread of the system.
#[cfg(debug_assertions)]
#[cfg(loom)]
loom::thread_local! {
    static HELD: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// How many locks this thread holds; 0 in release builds.
#[inline(always)]
pub fn held() -> usize {
    #[cfg(debug_assertions)]
    return HELD.with(|held| held.borrow().len());
    #[cfg(not(debug_assertions))]
    0
}

/// To be called before anything that waits for another thread.
///
/// # Panics
/// In debug builds, when this thread holds a lock.
#[inline(always)]
#[track_caller]
pub fn assert_none_held(what: &str) {
    debug_assert!(held() == 0, "{what} while a lock is held");
    let _ = what;
}

/// Before waiting for the lock at `address`.
#[inline(always)]
#[track_caller]
pub(super) fn about_to_wait(address: usize) {
    #[cfg(debug_assertions)]
    HELD.with(|held| {
        let held = held.borrow();
        assert!(!held.contains(&address), "a lock is taken twice by one thread");
        assert!(
            held.iter().all(|&other| other < address),
            "locks are taken out of order: one that comes later is held"
        );
    });
    #[cfg(not(debug_assertions))]
    let _ = address;
}

/// The lock at `address` has been taken.
#[inline(always)]
pub(super) fn taken(address: usize) {
    #[cfg(debug_assertions)]
    HELD.with(|held| held.borrow_mut().push(address));
    #[cfg(not(debug_assertions))]
    let _ = address;
}

/// The lock at `address` is about to be given back.
#[inline(always)]
#[track_caller]
pub(super) fn given_back(address: usize) {
    #[cfg(debug_assertions)]
    HELD.with(|held| {
        let mut held = held.borrow_mut();
        let at =
            held.iter().rposition(|&a| a == address).expect("a lock is given back by a thread that does not hold it");
        held.remove(at);
    });
    #[cfg(not(debug_assertions))]
    let _ = address;
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use crate::base::sync::lock::{Guarded, NoLock, SpinLock};

    #[test]
    fn ascending_order_passes_and_trying_is_free() {
        let cells: [Guarded<SpinLock, u8>; 3] = Default::default();
        let first = cells[0].lock();
        let last = cells[2].lock();
        let tried = cells[1].try_lock().expect("it is free");
        assert!(!cfg!(debug_assertions) || super::held() == 3);
        drop((first, last, tried));
        let _any = cells[0].lock();
        assert!(!cfg!(debug_assertions) || super::held() == 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "out of order")]
    fn descending_order_is_refused() {
        let cells: [Guarded<NoLock, u8>; 2] = Default::default();
        let _last = cells[1].lock();
        drop(cells[0].lock());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "out of order")]
    fn waiting_below_a_lock_got_by_trying_is_refused() {
        let cells: [Guarded<SpinLock, u8>; 2] = Default::default();
        let _last = cells[1].try_lock().expect("it is free");
        drop(cells[0].lock());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "taken twice")]
    fn the_same_lock_twice_is_refused() {
        let cells: [Guarded<SpinLock, u8>; 2] = Default::default();
        let _first = cells[0].lock();
        let _last = cells[1].lock();
        drop(cells[0].lock());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "waiting for a client while a lock is held")]
    fn waiting_for_something_else_is_refused() {
        super::assert_none_held("waiting for a client");
        let cell = Guarded::<NoLock, u8>::new(0);
        let _guard = cell.lock();
        super::assert_none_held("waiting for a client");
    }
}
