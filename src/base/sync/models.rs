//! Models for loom, which runs each through the interleavings of its threads (`tools/test loom`; bounded by `LOOM_MAX_PREEMPTIONS`) and
//! through what relaxed loads may return. A deadlock, a lost wake-up, a leak of a shared pointer and an unordered access to a watched cell fail them.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::sync::{Arc, Notify};
use loom::thread;

use super::claim::{By, Claim, Stage};
use super::lock::{Guarded, SpinLock};
use super::mailbox::{Reservation, Sender, mailbox};
use super::order;

/// A number that loom watches: two accesses that no lock orders fail the model.
#[derive(Default)]
struct Watched(UnsafeCell<u32>);

impl Watched {
    fn add(&self, by: u32) {
        // SAFETY: the callers have the lock of the cell that this is in; loom checks that.
        self.0.with_mut(|value| unsafe { *value += by });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|value| unsafe { *value })
    }
}

type Cell = Guarded<SpinLock, Watched>;

/// A doorbell: rings before a wait count once.
fn bell() -> (Arc<Notify>, impl Fn() + Send + Sync + 'static) {
    let bell = Arc::new(Notify::new());
    let rung = bell.clone();
    (bell, move || rung.notify())
}

#[test]
fn a_lock_excludes_and_wakes_who_sleeps() {
    loom::model(|| {
        let cell = Arc::new(Cell::default());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let cell = cell.clone();
                thread::spawn(move || cell.lock().add(1))
            })
            .collect();
        cell.lock().add(1);
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!cell.is_locked());
        assert_eq!(cell.lock().get(), 3);
    });
}

#[test]
fn a_lock_taken_again_and_again() {
    loom::model(|| {
        let cell = Arc::new(Cell::default());
        let other = cell.clone();
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                other.lock().add(1);
            }
        });
        for _ in 0..2 {
            cell.lock().add(1);
        }
        thread.join().unwrap();
        assert_eq!(cell.lock().get(), 4);
    });
}

#[test]
fn trying_excludes_too() {
    loom::model(|| {
        let cell = Arc::new(Cell::default());
        let other = cell.clone();
        let thread = thread::spawn(move || match other.try_lock() {
            Some(value) => {
                value.add(1);
                1
            }
            None => 0,
        });
        cell.lock().add(1);
        let tried = thread.join().unwrap();
        assert_eq!(cell.lock().get(), 1 + tried);
    });
}

/// Asks for room until there is some, as a connection that is parked does. Under no lock.
fn reserve<T: Send>(sender: &Sender<T>) -> Reservation<T> {
    loop {
        if let Some(reservation) = sender.reserve(1) {
            return reservation;
        }
        thread::yield_now();
    }
}

/// Two workers lock sets that overlap and send to a third, which has room for one message and waits when there is none. No
/// interleaving ends with all of them waiting.
#[test]
fn overlapping_sets_and_a_full_mailbox_do_not_deadlock() {
    loom::model(|| {
        let cells: Arc<[Cell; 2]> = Arc::new(Default::default());
        let (bell, ring) = bell();
        let (sender, mut receiver) = mailbox(1, ring);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (cells, sender) = (cells.clone(), sender.clone());
                thread::spawn(move || {
                    let mut reservation = reserve(&sender);
                    // SAFETY: in order, each once, given back below.
                    let wake = unsafe {
                        cells[0].lock_raw();
                        cells[1].lock_raw();
                        (*cells[0].data_ptr()).add(1);
                        (*cells[1].data_ptr()).add(1);
                        let wake = reservation.post(1);
                        cells[1].unlock_raw();
                        cells[0].unlock_raw();
                        wake
                    };
                    assert_eq!(order::held(), 0);
                    drop(wake);
                })
            })
            .collect();
        // The third worker has business of its own with one of the shards.
        cells[1].lock().add(1);
        let mut received = 0;
        while received < 2 {
            if receiver.arm() {
                bell.wait();
            }
            receiver.drain(|message| received += message);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(cells[0].lock().get() + cells[1].lock().get(), 5);
    });
}

/// A message: who sent it, the how manieth it is, and something that loom finds when it is leaked or dropped twice.
type Letter = (usize, usize, Arc<()>);

fn letters(sender: &Sender<Letter>, from: usize) {
    let mut reservation = reserve(sender);
    reservation.send((from, 0, Arc::new(())));
    sender.send_control((from, 1, Arc::new(())));
}

/// Receives two messages of one sender, in their order, and one of another, waiting for the bell in between.
fn correspondence(attending: bool) {
    loom::model(move || {
        let (bell, ring) = bell();
        let (sender, mut receiver) = mailbox::<Letter>(1, ring);
        let (one, other) = (sender.clone(), sender.clone());
        let threads =
            [thread::spawn(move || letters(&one, 0)), thread::spawn(move || other.send_control((1, 0, Arc::new(()))))];
        let mut next = [0, 0];
        while next != [2, 1] {
            if !attending || receiver.arm() {
                bell.wait();
            }
            if attending {
                receiver.attend();
            }
            receiver.drain(|(from, number, _)| {
                assert_eq!(number, next[from], "in the order in which they were sent");
                next[from] += 1;
            });
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!receiver.has_mail());
        assert_eq!(sender.room(), 1);
    });
}

#[test]
fn a_receiver_that_sleeps_gets_every_message_in_order() {
    correspondence(false);
}

#[test]
fn a_receiver_that_attends_gets_every_message_in_order() {
    correspondence(true);
}

#[test]
fn only_the_first_message_rings() {
    loom::model(|| {
        let rings = Arc::new(AtomicUsize::new(0));
        let counted = rings.clone();
        let (sender, mut receiver) = mailbox(2, move || {
            counted.fetch_add(1, Relaxed);
        });
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let sender = sender.clone();
                thread::spawn(move || sender.reserve(1).expect("there is room for both").send(()))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(rings.load(Relaxed), 1);
        assert_eq!(receiver.drain(drop), 2);
    });
}

#[test]
fn a_receiver_that_goes_leaks_nothing() {
    loom::model(|| {
        let (sender, mut receiver) = mailbox::<Letter>(2, || {});
        let other = sender.clone();
        let thread = thread::spawn(move || letters(&other, 0));
        receiver.drain_at_most(1, drop);
        drop(receiver);
        thread.join().unwrap();
        assert_eq!(sender.room(), 2, "the room of what nobody received is given back");
    });
}

#[test]
fn room_for_one_is_granted_to_one() {
    loom::model(|| {
        let (sender, receiver) = mailbox::<u8>(1, || {});
        let (inside, other) = (Arc::new(AtomicUsize::new(0)), sender.clone());
        let also = inside.clone();
        let hold = |sender: &Sender<u8>, inside: &AtomicUsize| {
            if let Some(reservation) = sender.reserve(1) {
                assert_eq!(inside.fetch_add(1, Relaxed), 0);
                inside.fetch_sub(1, Relaxed);
                drop(reservation);
            }
        };
        let thread = thread::spawn(move || hold(&other, &also));
        hold(&sender, &inside);
        thread.join().unwrap();
        assert_eq!(sender.room(), 1);
        drop(receiver);
    });
}

/// A key, a time-out and a disconnect: one of them has the client.
#[test]
fn three_racers_for_a_claim() {
    loom::model(|| {
        let claim = Claim::new(Watched::default());
        let answer = Arc::new(Watched::default());
        let race = |claim: &Claim<Watched>, answer: &Watched, by| match claim.claim(by) {
            Some(prize) => {
                prize.add(1);
                answer.add(prize.get());
                claim.finish();
                1
            }
            None => {
                assert!(!claim.is_waiting());
                0
            }
        };
        let threads: Vec<_> = [By::Key, By::TimeOut]
            .into_iter()
            .map(|by| {
                let (claim, answer) = (claim.clone(), answer.clone());
                thread::spawn(move || race(&claim, &answer, by))
            })
            .collect();
        let mut winners = race(&claim, &answer, By::Disconnect);
        if let Stage::Done(_) = claim.stage() {
            assert_eq!(answer.get(), 1, "what the winner did is seen by who sees that it is done");
        }
        for thread in threads {
            winners += thread.join().unwrap();
        }
        assert_eq!(winners, 1);
        assert!(matches!(claim.stage(), Stage::Done(_)));
    });
}

/// A client that waits for two keys, with a reply slot reserved when it blocked: one reply arrives, and wakes its worker.
#[test]
fn a_client_of_two_keys_is_answered_once() {
    loom::model(|| {
        let (bell, ring) = bell();
        let (sender, mut receiver) = mailbox(1, ring);
        let cells: Arc<[Cell; 2]> = Arc::new(Default::default());
        let claim = Claim::new(sender.standing(1));
        let threads: Vec<_> = (0..2)
            .map(|key| {
                let (cells, claim) = (cells.clone(), claim.clone());
                thread::spawn(move || {
                    let shard = cells[key].lock();
                    let wake = claim.claim(By::Key).and_then(|mut slot| slot.post(key));
                    if wake.is_some() {
                        claim.finish();
                    }
                    shard.add(1);
                    drop(shard);
                    drop(wake);
                })
            })
            .collect();
        while !receiver.has_mail() {
            if receiver.arm() {
                bell.wait();
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(receiver.drain(drop), 1);
        assert_eq!(claim.stage(), Stage::Done(By::Key));
        assert!(claim.claim(By::TimeOut).is_none());
    });
}
