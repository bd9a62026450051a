//! Who serves a blocked client: one of all that want to, whatever races.
//!
//! A client that waits for several keys stands in the list of each, and its own worker wants it back on time-out, on disconnect and on
//! CLIENT UNBLOCK. All have the same [`Claim`]; the one whose compare-exchange finds it waiting has the client, and gets the prize: what is
//! needed to answer (a standing reservation in the mailbox of the client's worker, say). The others get nothing and go on.
//!
//! Owns that decision. Must not know keys or clients. It is not undone: who needs more than the claim to serve (a second shard)
//! first gets all of that, looks again whether it can, and claims last.
//!
//! ```text
//!  WAITING ──claim──▶ CLAIMED by .. ──finish──▶ DONE by ..
//!
//!  state, 32 bits:  | stage 2 (high) | 0 ... | by 8 |
//! ```
//!
//! Invariants:
//! - I1. `claim` returns the prize to exactly one caller, if it is called at all.
//! - I2. What the winner wrote before `finish` is seen by who then sees [`Stage::Done`]; what stood before `new` is seen by the winner.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use static_assertions::{assert_impl_all, assert_not_impl_any};

use super::shim::{Arc, AtomicU32, UnsafeCell};

/// Who may claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum By {
    /// A command that has what the client waits for.
    Key = 0,
    TimeOut = 1,
    /// CLIENT UNBLOCK, and whatever else sends a client on without what it waited for (CLIENT KILL, a failover).
    Unblock = 2,
    /// The connection is gone.
    Disconnect = 3,
}

impl By {
    fn from_code(code: u32) -> By {
        [By::Key, By::TimeOut, By::Unblock, By::Disconnect][code as usize]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Waiting,
    /// Somebody has it, and has not said that he is through.
    Claimed(By),
    Done(By),
}

impl Stage {
    const CLAIMED: u32 = 1 << 30;
    const DONE: u32 = 2 << 30;
    const BY_MASK: u32 = 0xFF;

    const fn pack(self) -> u32 {
        match self {
            Stage::Waiting => 0,
            Stage::Claimed(by) => Stage::CLAIMED | by as u32,
            Stage::Done(by) => Stage::DONE | by as u32,
        }
    }

    fn unpack(word: u32) -> Stage {
        let by = word & Stage::BY_MASK;
        match word & !Stage::BY_MASK {
            0 => Stage::Waiting,
            Stage::CLAIMED => Stage::Claimed(By::from_code(by)),
            Stage::DONE => Stage::Done(By::from_code(by)),
            _ => unreachable!("no stage has the word {word:#x}"),
        }
    }
}

struct Inner<P> {
    /// A packed [`Stage`].
    stage: AtomicU32,
    /// There while the stage is `Waiting`; then the winner takes it.
    prize: UnsafeCell<Option<P>>,
}

// SAFETY: only the one that has left `Waiting` behind touches the prize while others may have the claim, and it may be any thread, hence
// `P: Send`. Nobody gets a reference to it.
unsafe impl<P: Send> Sync for Inner<P> {}

/// The right to serve one client once; clones are the same claim.
pub struct Claim<P = ()> {
    inner: Arc<Inner<P>>,
}

assert_impl_all!(Claim<std::cell::Cell<u8>>: Send, Sync);
assert_not_impl_any!(Claim<*const u8>: Send, Sync);

impl<P> Clone for Claim<P> {
    fn clone(&self) -> Claim<P> {
        Claim { inner: self.inner.clone() }
    }
}

impl<P> Claim<P> {
    pub fn new(prize: P) -> Claim<P> {
        let stage = AtomicU32::new(Stage::Waiting.pack());
        Claim { inner: Arc::new(Inner { stage, prize: UnsafeCell::new(Some(prize)) }) }
    }

    /// Whether nobody has it yet. A `false` is final, so that who finds it in a list may drop it from there; a `true` is not.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.stage() == Stage::Waiting
    }

    #[inline]
    pub fn stage(&self) -> Stage {
        Stage::unpack(self.inner.stage.load(Acquire))
    }

    /// Claims; the prize if nobody has before.
    pub fn claim(&self, by: By) -> Option<P> {
        let claimed = Stage::Claimed(by).pack();
        self.inner.stage.compare_exchange(Stage::Waiting.pack(), claimed, AcqRel, Relaxed).ok()?;
        // SAFETY: one caller at most gets here, ever; nobody else touches the prize from `new` on. Whoever shared the claim made its contents
        // visible to this thread.
        let prize = self.inner.prize.with_mut(|prize| unsafe { (*prize).take() });
        Some(prize.expect("it is there until it is claimed"))
    }

    /// The winner is through: the reply is on its way, or there will be none.
    ///
    /// # Panics
    /// When nobody has claimed it, or this was said before.
    pub fn finish(&self) {
        let Stage::Claimed(by) = self.stage() else { panic!("finished by one that did not claim") };
        // Only the winner comes here, so a store does.
        self.inner.stage.store(Stage::Done(by).pack(), Release);
    }

    /// Whether both are the same claim.
    pub fn is(&self, other: &Claim<P>) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<P> fmt::Debug for Claim<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.stage()).finish()
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn stages_are_packed_and_unpacked() {
        let by = [By::Key, By::TimeOut, By::Unblock, By::Disconnect];
        let stages = by.into_iter().flat_map(|by| [Stage::Claimed(by), Stage::Done(by)]).chain([Stage::Waiting]);
        for stage in stages {
            assert_eq!(Stage::unpack(stage.pack()), stage);
        }
    }

    #[test]
    fn the_first_has_it() {
        let claim = Claim::new("prize".to_string());
        let other = claim.clone();
        assert!(claim.is(&other) && !claim.is(&Claim::new(String::new())));
        assert!(claim.is_waiting());
        assert_eq!(other.claim(By::Unblock).as_deref(), Some("prize"));
        assert_eq!(claim.stage(), Stage::Claimed(By::Unblock));
        assert_eq!(claim.claim(By::TimeOut), None);
        other.finish();
        assert_eq!(claim.stage(), Stage::Done(By::Unblock));
        assert_eq!(claim.claim(By::Key), None);
    }

    #[test]
    fn a_prize_that_nobody_claims_is_dropped() {
        let token = Arc::new(());
        let claim = Claim::new(token.clone());
        drop(claim.clone());
        assert_eq!(Arc::strong_count(&token), 2);
        drop(claim);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    #[should_panic(expected = "did not claim")]
    fn nobody_finishes_what_nobody_claimed() {
        Claim::new(()).finish();
    }

    #[test]
    #[should_panic(expected = "did not claim")]
    fn nobody_finishes_twice() {
        let claim = Claim::new(());
        claim.claim(By::Key).expect("it waits");
        claim.finish();
        claim.finish();
    }

    #[test]
    fn racers_win_once_each_round() {
        const ROUNDS: usize = 500;
        let claims: Arc<Vec<Claim<Box<usize>>>> =
            Arc::new((0..ROUNDS).map(|round| Claim::new(Box::new(round))).collect());
        let start = Arc::new(Barrier::new(4));
        let threads: Vec<_> = [By::Key, By::Key, By::TimeOut, By::Disconnect]
            .into_iter()
            .map(|by| {
                let (claims, start) = (claims.clone(), start.clone());
                thread::spawn(move || {
                    let mut won = Vec::new();
                    start.wait();
                    for claim in claims.iter() {
                        if let Some(prize) = claim.claim(by) {
                            assert_eq!(claim.stage(), Stage::Claimed(by));
                            won.push(*prize);
                            claim.finish();
                        }
                        assert!(!claim.is_waiting());
                    }
                    won
                })
            })
            .collect();
        let mut won: Vec<usize> =
            threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect();
        won.sort_unstable();
        assert!(won.into_iter().eq(0..ROUNDS));
        assert!(claims.iter().all(|claim| matches!(claim.stage(), Stage::Done(_))));
    }
}
