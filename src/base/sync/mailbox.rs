//! Messages from any thread to one: what a worker must tell another one's clients.
//!
//! Owns room, order, and when to ring. Must not know what a message means, nor how the receiver waits: the bell is a closure.
//!
//! - **Room is reserved before it is needed.** [`Sender::reserve`] takes room for so many messages, or says that there is none; it is asked
//!   for before any lock is taken (`order` panics in debug builds otherwise), so nobody waits for a full mailbox under a lock. A [`Reservation`]
//!   also has the memory of its messages: sending is a store and a compare-exchange, without allocation, and cannot fail.
//!   What is not sent is given back when the reservation is dropped.
//! - **Standing reservations** ([`Sender::standing`]) are not counted against the room and always granted, also under a lock. They are for what
//!   must never be lost or refused: a blocked client's reply, a shutdown, the last release of a blob. Their number is bounded by
//!   what has them (one a blocked client), which is the caller's duty.
//! - **Order.** Messages of one thread arrive in the order in which it sent them, whatever kind of reservation they used; more than that, all
//!   are in one order.
//! - **Bell.** Only who finds the mailbox *asleep* rings: the first after the receiver has taken what was there. A receiver that will look
//!   again anyway says so ([`Receiver::attend`]), and nobody rings until it is about to wait ([`Receiver::arm`]).
//!   [`Reservation::post`] puts the ring off, so that no system call is made under a lock.
//!
//! ```text
//!  head ─▶ newest ─▶ ... ─▶ oldest       senders push in front; the receiver takes the whole list by one swap and reverses it
//!  head = ASLEEP                         empty; the next sender rings
//!  head = AWAKE                          empty; the receiver looks before it waits
//!  head = CLOSED                         there is no receiver; messages are dropped
//! ```
//!
//! Why not a queue from a crate: a bounded array has no place for messages beyond the bound, and two queues have no common order; an unbounded
//! segmented queue allocates while sending, hence under the lock, and cannot tell who was first since the receiver slept. The list above does both, and
//! its whole protocol is one word, which loom goes through. Its cost is an allocation a message (made when reserving).
//!
//! Invariants:
//! - I1. A node belongs to its reservation, then to the list, then to the receiver; who owns it is the only one to touch it.
//! - I2. `room` + counted messages reserved, in the list or with the receiver = capacity.
//! - I3. If the list is not empty and the receiver may be waiting, whoever pushed onto `ASLEEP` has rung or holds a [`Wake`].
#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::order;
use super::shim::{Arc, AtomicPtr, AtomicUsize, UnsafeCell};

struct Node<T>(UnsafeCell<Content<T>>);

struct Content<T> {
    /// In a reservation: the next free one. In the list: the one sent before. With the receiver: the one sent after.
    next: *mut Node<T>,
    /// Counts against the room.
    counted: bool,
    /// Initialised from when it is sent until the receiver takes it.
    message: MaybeUninit<T>,
}

const fn asleep<T>() -> *mut Node<T> {
    ptr::null_mut()
}
const fn awake<T>() -> *mut Node<T> {
    ptr::without_provenance_mut(1)
}
const fn closed<T>() -> *mut Node<T> {
    ptr::without_provenance_mut(2)
}

/// Whether a head is one of the above and no node, whose alignment is larger.
fn is_mark<T>(head: *mut Node<T>) -> bool {
    const { assert!(align_of::<Node<T>>() > 2) };
    head.addr() <= 2
}

/// A word in cache lines of its own.
#[repr(align(128))]
struct Line<W>(W);

struct Shared<T> {
    head: Line<AtomicPtr<Node<T>>>,
    room: Line<AtomicUsize>,
    capacity: usize,
    ring: Box<dyn Fn() + Send + Sync>,
}

impl<T> Shared<T> {
    /// Puts a filled node in front. Whether the receiver was asleep.
    ///
    /// # Safety
    /// The node is the caller's (I1) and has its message; it is not the caller's any more.
    unsafe fn push(&self, node: *mut Node<T>) -> bool {
        let mut head = self.head.0.load(Relaxed);
        loop {
            if head == closed() {
                // SAFETY: still ours, with its message.
                unsafe { self.discard(node) };
                return false;
            }
            let next = if is_mark(head) { ptr::null_mut() } else { head };
            // SAFETY: ours until the exchange succeeds.
            unsafe { (*node).0.with_mut(|content| (*content).next = next) };
            // Release: the content. The receiver acquires the newest only, but each push is a read-modify-write that goes on with the release
            // sequences of those before it.
            match self.head.0.compare_exchange_weak(head, node, Release, Relaxed) {
                Ok(_) => return head == asleep(),
                Err(now) => head = now,
            }
        }
    }

    /// Drops a message that nobody will receive, and its node.
    ///
    /// # Safety
    /// The node is the caller's (I1) and has its message.
    unsafe fn discard(&self, node: *mut Node<T>) {
        // SAFETY: the caller's promise.
        let (message, counted, _) = unsafe { open(node) };
        self.give_back(usize::from(counted));
        drop(message);
    }

    fn give_back(&self, count: usize) {
        if count > 0 {
            // Relaxed, as everywhere with the room: it is a number, and no memory is reached through it.
            let before = self.room.0.fetch_add(count, Relaxed);
            debug_assert!(before + count <= self.capacity, "more room than there ever was");
        }
    }
}

/// The message, whether it counted, and the next node; frees the node.
///
/// # Safety
/// The node is the caller's (I1) and has its message.
unsafe fn open<T>(node: *mut Node<T>) -> (T, bool, *mut Node<T>) {
    // SAFETY: nodes come from `Box::into_raw`, and this one is the caller's.
    let node = unsafe { Box::from_raw(node) };
    node.0.with_mut(|content| {
        // SAFETY: the caller's promise: nobody else looks, and the message is there. It is read once, as the node goes.
        unsafe { ((*content).message.assume_init_read(), (*content).counted, (*content).next) }
    })
}

/// A mailbox with room for `capacity` messages, whose receiver is woken by `ring`: called from any thread, and must not wait.
///
/// # Panics
/// When `capacity` is 0.
pub fn mailbox<T: Send>(capacity: usize, ring: impl Fn() + Send + Sync + 'static) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a mailbox has room");
    let shared = Arc::new(Shared {
        head: Line(AtomicPtr::new(asleep())),
        room: Line(AtomicUsize::new(capacity)),
        capacity,
        ring: Box::new(ring),
    });
    (Sender { shared: shared.clone() }, Receiver { shared, taken: ptr::null_mut(), attending: false })
}

/// Sends to one mailbox, from any thread.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender { shared: self.shared.clone() }
    }
}

impl<T: Send> Sender<T> {
    /// Room for `count` messages, all of it or nothing. Who gets none tries again later, when the receiver has had its turn.
    ///
    /// # Panics
    /// When `count` is more than the capacity (it would never be granted), and in debug builds when this thread holds a lock.
    pub fn reserve(&self, count: usize) -> Option<Reservation<T>> {
        order::assert_none_held("room in a mailbox is asked for");
        assert!(count <= self.shared.capacity, "more than a mailbox holds");
        let mut room = self.shared.room.0.load(Relaxed);
        loop {
            let left = room.checked_sub(count)?;
            match self.shared.room.0.compare_exchange_weak(room, left, Relaxed, Relaxed) {
                Ok(_) => return Some(Reservation::new(&self.shared, count, true)),
                Err(now) => room = now,
            }
        }
    }

    /// Room for `count` messages beyond the capacity; see the module's head for what it is for.
    pub fn standing(&self, count: usize) -> Reservation<T> {
        Reservation::new(&self.shared, count, false)
    }

    /// Sends what must not be lost and had no reservation.
    pub fn send_control(&self, message: T) {
        self.standing(1).send(message);
    }

    /// How many messages [`Sender::reserve`] would grant at this moment.
    pub fn room(&self) -> usize {
        self.shared.room.0.load(Relaxed)
    }

    /// The number given to [`mailbox`].
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("room", &self.shared.room.0.load(Relaxed)).finish_non_exhaustive()
    }
}

/// Room for some messages, and their memory. May be kept, and moved to another thread.
#[must_use = "the room is given back at once"]
pub struct Reservation<T> {
    shared: Arc<Shared<T>>,
    /// As many nodes as `left`, without messages (I1).
    free: *mut Node<T>,
    left: usize,
    counted: bool,
}

// SAFETY: it owns its nodes, which have no messages; those that it sends may be received on another thread, hence `T: Send`.
unsafe impl<T: Send> Send for Reservation<T> {}

impl<T> Reservation<T> {
    fn new(shared: &Arc<Shared<T>>, count: usize, counted: bool) -> Reservation<T> {
        let mut free = ptr::null_mut();
        for _ in 0..count {
            let content = Content { next: free, counted, message: MaybeUninit::uninit() };
            free = Box::into_raw(Box::new(Node(UnsafeCell::new(content))));
        }
        Reservation { shared: shared.clone(), free, left: count, counted }
    }

    /// How many messages may still be sent.
    pub fn left(&self) -> usize {
        self.left
    }

    fn take(&mut self) -> *mut Node<T> {
        let node = self.free;
        self.left = self.left.checked_sub(1).expect("as many messages as were reserved");
        // SAFETY: `left` was not 0, so this is a node, and ours.
        self.free = unsafe { (*node).0.with_mut(|content| (*content).next) };
        node
    }
}

impl<T: Send> Reservation<T> {
    /// Sends, and rings if the receiver is asleep. Never waits.
    ///
    /// # Panics
    /// When all that was reserved has been sent.
    pub fn send(&mut self, message: T) {
        drop(self.post(message));
    }

    /// Sends without ringing: who gets a [`Wake`] drops it when it holds no lock any more, and soon.
    ///
    /// # Panics
    /// When all that was reserved has been sent.
    #[must_use = "dropped at once it rings, under whatever lock is held"]
    pub fn post(&mut self, message: T) -> Option<Wake<T>> {
        let node = self.take();
        // SAFETY: ours (I1), and given away with its message.
        let was_asleep = unsafe {
            (*node).0.with_mut(|content| (*content).message.write(message));
            self.shared.push(node)
        };
        was_asleep.then(|| Wake { shared: self.shared.clone() })
    }
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        if self.counted {
            self.shared.give_back(self.left);
        }
        while self.left > 0 {
            // SAFETY: ours (I1), from `Box::into_raw`, without a message.
            drop(unsafe { Box::from_raw(self.take()) });
        }
    }
}

impl<T> fmt::Debug for Reservation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("left", &self.left).field("counted", &self.counted).finish_non_exhaustive()
    }
}

/// A receiver that is to be woken: rings when it is dropped.
#[must_use = "it rings when it is dropped"]
pub struct Wake<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Drop for Wake<T> {
    fn drop(&mut self) {
        (self.shared.ring)();
    }
}

impl<T> fmt::Debug for Wake<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

/// The one that reads a mailbox.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Taken from the list and not yet handled, oldest first (I1).
    taken: *mut Node<T>,
    /// What it leaves behind when it takes the list: `AWAKE` if true, `ASLEEP` if not.
    attending: bool,
}

// SAFETY: it owns the nodes it has taken, with their messages.
unsafe impl<T: Send> Send for Receiver<T> {}

impl<T> Receiver<T> {
    /// Whether there is something to drain. One load, of a line that only senders write while there is nothing.
    #[inline]
    pub fn has_mail(&self) -> bool {
        !self.taken.is_null() || !is_mark(self.shared.head.0.load(Relaxed))
    }

    /// Handles what has arrived so far, in order; not what arrives meanwhile. Returns how many there were.
    pub fn drain(&mut self, handle: impl FnMut(T)) -> usize {
        self.drain_at_most(usize::MAX, handle)
    }

    /// As `drain`, but `max` at most. If [`Receiver::has_mail`] then, nobody needs to ring again for that: the caller comes back by itself.
    pub fn drain_at_most(&mut self, max: usize, mut handle: impl FnMut(T)) -> usize {
        if self.taken.is_null() {
            self.collect();
        }
        let mut batch = Batch { receiver: self, counted: 0 };
        let mut handled = 0;
        while handled < max {
            let Some(message) = batch.next() else { break };
            handle(message);
            handled += 1;
        }
        handled
    }

    /// From now on nobody rings, as this thread looks again before it waits: it asks [`Receiver::arm`] then.
    pub fn attend(&mut self) {
        self.attending = true;
        // What is not ASLEEP is mail, which has rung.
        let _ = self.shared.head.0.compare_exchange(asleep(), awake(), Relaxed, Relaxed);
    }

    /// From now on the next sender rings. Whether the receiver may wait: false if there is mail already, for which nobody rings any more.
    #[must_use = "there may be mail already"]
    pub fn arm(&mut self) -> bool {
        self.attending = false;
        let _ = self.shared.head.0.compare_exchange(awake(), asleep(), Relaxed, Relaxed);
        !self.has_mail()
    }

    /// Takes the list, if there is one, and turns it round.
    fn collect(&mut self) {
        if is_mark(self.shared.head.0.load(Relaxed)) {
            return;
        }
        let left_behind = if self.attending { awake() } else { asleep() };
        // Acquire: the contents.
        let newest = self.shared.head.0.swap(left_behind, Acquire);
        self.taken = oldest_first(newest);
    }
}

/// Reverses a list that was taken from the head.
fn oldest_first<T>(mut node: *mut Node<T>) -> *mut Node<T> {
    let mut turned = ptr::null_mut();
    while !is_mark(node) {
        // SAFETY: who takes the list owns its nodes (I1); the oldest one's `next` is null, which is no node.
        let next = unsafe { (*node).0.with_mut(|content| ptr::replace(&raw mut (*content).next, turned)) };
        turned = node;
        node = next;
    }
    turned
}

/// What a call of `drain` has opened; gives its room back at the end, also when a handler unwinds.
struct Batch<'a, T> {
    receiver: &'a mut Receiver<T>,
    counted: usize,
}

impl<T> Batch<'_, T> {
    fn next(&mut self) -> Option<T> {
        let node = self.receiver.taken;
        if node.is_null() {
            return None;
        }
        // SAFETY: taken nodes are the receiver's, with their messages (I1).
        let (message, counted, next) = unsafe { open(node) };
        self.receiver.taken = next;
        self.counted += usize::from(counted);
        Some(message)
    }
}

impl<T> Drop for Batch<'_, T> {
    fn drop(&mut self) {
        self.receiver.shared.give_back(self.counted);
    }
}

impl<T> Drop for Receiver<T> {
    /// Drops what has not been handled; later messages are dropped by their senders.
    fn drop(&mut self) {
        let taken = std::mem::replace(&mut self.taken, ptr::null_mut());
        let waiting = oldest_first(self.shared.head.0.swap(closed(), Acquire));
        for mut node in [taken, waiting] {
            while !node.is_null() {
                // SAFETY: the receiver's, with their messages (I1).
                unsafe {
                    let next = (*node).0.with_mut(|content| (*content).next);
                    self.shared.discard(node);
                    node = next;
                }
            }
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("attending", &self.attending).finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::futex::Futex;
    use crate::base::sync::lock::{Guarded, NoLock};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    /// A mailbox whose rings are counted.
    fn counted<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>, Arc<AtomicUsize>) {
        let rings = Arc::new(AtomicUsize::new(0));
        let also = rings.clone();
        let (sender, receiver) = mailbox(capacity, move || {
            also.fetch_add(1, SeqCst);
        });
        (sender, receiver, rings)
    }

    fn all<T>(receiver: &mut Receiver<T>) -> Vec<T> {
        let mut messages = Vec::new();
        receiver.drain(|message| messages.push(message));
        messages
    }

    #[test]
    fn room_is_taken_at_reservation_and_given_back_unused() {
        let (sender, mut receiver, _) = counted::<u32>(4);
        let mut three = sender.reserve(3).expect("there is room");
        assert!(sender.reserve(2).is_none());
        let one = sender.reserve(1).expect("there is room");
        assert_eq!((sender.room(), sender.capacity()), (0, 4));
        assert!(sender.reserve(1).is_none());
        assert_eq!(sender.reserve(0).expect("nothing is always there").left(), 0);
        drop(one);
        assert_eq!(sender.room(), 1);
        three.send(1);
        three.send(2);
        assert_eq!(three.left(), 1);
        drop(three);
        assert_eq!(sender.room(), 2, "what was sent still counts");
        assert_eq!(all(&mut receiver), [1, 2]);
        assert_eq!(sender.room(), 4);
        assert_eq!(all(&mut receiver), [0; 0]);
    }

    #[test]
    fn what_is_standing_needs_no_room() {
        let (sender, mut receiver, _) = counted(1);
        let _full = sender.reserve(1).expect("there is room");
        let mut standing = sender.standing(2);
        sender.send_control("first");
        standing.send("second");
        sender.send_control("third");
        standing.send("fourth");
        assert_eq!(all(&mut receiver), ["first", "second", "third", "fourth"]);
        assert_eq!(sender.room(), 0);
    }

    #[test]
    fn the_first_message_rings_and_no_other() {
        let (sender, mut receiver, rings) = counted(8);
        let mut some = sender.reserve(8).expect("there is room");
        some.send(1);
        some.send(2);
        assert_eq!(rings.load(SeqCst), 1);
        assert!(receiver.has_mail());
        assert_eq!(receiver.drain_at_most(1, drop), 1);
        assert!(receiver.has_mail(), "the second is with the receiver");
        some.send(3);
        assert_eq!(rings.load(SeqCst), 2, "the list was taken, so the next one rings");
        assert_eq!(all(&mut receiver), [2]);
        assert_eq!(all(&mut receiver), [3]);
        receiver.attend();
        some.send(4);
        assert_eq!(rings.load(SeqCst), 2);
        assert!(!receiver.arm(), "there is mail, for which nobody rings");
        assert_eq!(all(&mut receiver), [4]);
        assert!(receiver.arm());
        some.send(5);
        assert_eq!(rings.load(SeqCst), 3);
        receiver.attend();
        assert_eq!(all(&mut receiver), [5]);
        let wake = some.post(6);
        assert!(wake.is_none(), "the receiver attends");
        assert_eq!(all(&mut receiver), [6]);
        assert!(receiver.arm());
        let wake = some.post(7).expect("the receiver sleeps");
        assert_eq!(rings.load(SeqCst), 3);
        drop(wake);
        assert_eq!(rings.load(SeqCst), 4);
    }

    #[test]
    fn messages_are_dropped_once_whoever_drops_them() {
        let token = Arc::new(());
        let (sender, mut receiver, _) = counted(8);
        let mut some = sender.reserve(8).expect("there is room");
        for _ in 0..4 {
            some.send(token.clone());
        }
        assert_eq!(receiver.drain_at_most(1, drop), 1);
        assert_eq!(Arc::strong_count(&token), 4);
        some.send(token.clone());
        let unwound = catch_unwind(AssertUnwindSafe(|| receiver.drain(|_| panic!("in a handler"))));
        assert!(unwound.is_err());
        assert_eq!(Arc::strong_count(&token), 4, "the one whose handler unwound");
        assert_eq!(sender.room(), 2);
        drop(receiver);
        assert_eq!(Arc::strong_count(&token), 1);
        some.send(token.clone());
        sender.send_control(token.clone());
        assert_eq!(Arc::strong_count(&token), 1, "there is no receiver");
        drop(some);
        assert_eq!(sender.room(), 8);
    }

    #[test]
    #[should_panic(expected = "more than a mailbox holds")]
    fn what_is_never_granted_is_refused() {
        drop(counted::<()>(3).0.reserve(4));
    }

    #[test]
    #[should_panic(expected = "as many messages as were reserved")]
    fn sending_more_than_was_reserved_panics() {
        let (sender, _receiver, _) = counted(3);
        let mut one = sender.reserve(1).expect("there is room");
        one.send(1);
        one.send(2);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "room in a mailbox is asked for while a lock is held")]
    fn room_is_not_asked_for_under_a_lock() {
        let (sender, _receiver, _) = counted::<()>(3);
        let cell = Guarded::<NoLock, _>::new(());
        let _guard = cell.lock();
        drop(sender.standing(1));
        drop(sender.reserve(1));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Reserve(usize),
        Standing,
        Send(usize),
        DropReservation(usize),
        Drain(usize),
        Attend,
        Arm,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..4_usize).prop_map(Op::Reserve),
            Just(Op::Standing),
            (0..8_usize).prop_map(Op::Send),
            (0..8_usize).prop_map(Op::Send),
            (0..8_usize).prop_map(Op::DropReservation),
            (0..6_usize).prop_map(Op::Drain),
            Just(Op::Attend),
            Just(Op::Arm),
        ]
    }

    proptest! {
        /// Against a queue, a number for the room, and two flags for the bell.
        #[test]
        fn programs_of_one_thread_agree_with_a_model(ops in proptest::collection::vec(op(), 0..100)) {
            let (sender, mut receiver, rings) = counted::<u64>(5);
            // Messages in the list, and those that the receiver has taken from it.
            let mut list: VecDeque<(u64, bool)> = VecDeque::new();
            let mut taken = list.clone();
            let (mut room, mut attending, mut quiet, mut rung, mut number) = (5_usize, false, false, 0, 0);
            let mut reservations: Vec<Reservation<u64>> = Vec::new();
            for op in ops {
                match op {
                    Op::Reserve(count) => match sender.reserve(count) {
                        Some(reservation) => {
                            room = room.checked_sub(count).expect("there was room");
                            reservations.push(reservation);
                        }
                        None => prop_assert!(count > room),
                    },
                    Op::Standing => reservations.push(sender.standing(1)),
                    Op::Send(which) if !reservations.is_empty() => {
                        let which = which % reservations.len();
                        let reservation = &mut reservations[which];
                        if reservation.left() > 0 {
                            reservation.send(number);
                            rung += usize::from(list.is_empty() && !quiet);
                            list.push_back((number, reservation.counted));
                            number += 1;
                        }
                    }
                    Op::DropReservation(which) if !reservations.is_empty() => {
                        let which = which % reservations.len();
                        let reservation = reservations.swap_remove(which);
                        room += if reservation.counted { reservation.left() } else { 0 };
                    }
                    Op::Drain(max) => {
                        if taken.is_empty() && !list.is_empty() {
                            std::mem::swap(&mut taken, &mut list);
                            quiet = attending;
                        }
                        let mut messages = Vec::new();
                        receiver.drain_at_most(max, |message| messages.push(message));
                        let batch: Vec<_> = taken.drain(..max.min(taken.len())).collect();
                        room += batch.iter().filter(|(_, counted)| *counted).count();
                        prop_assert_eq!(messages, batch.into_iter().map(|(number, _)| number).collect::<Vec<_>>());
                    }
                    Op::Attend => {
                        receiver.attend();
                        attending = true;
                        quiet |= list.is_empty();
                    }
                    Op::Arm => {
                        prop_assert_eq!(receiver.arm(), list.is_empty() && taken.is_empty());
                        attending = false;
                        quiet &= !list.is_empty();
                    }
                    Op::Send(_) | Op::DropReservation(_) => {}
                }
                prop_assert_eq!(receiver.has_mail(), !list.is_empty() || !taken.is_empty());
                prop_assert_eq!(sender.room(), room);
                prop_assert_eq!(rings.load(SeqCst), rung);
            }
        }
    }

    /// Four senders with too little room and a receiver that sleeps between batches: all arrives, in the order of each sender; room is bounded.
    #[test]
    fn threads_send_through_a_small_mailbox() {
        const SENDERS: usize = 4;
        const EACH: usize = 3_000;
        // A futex of our own and no Condvar: what is inside std ThreadSanitizer does not see.
        let bell = Arc::new(Futex::new(0));
        let ring = bell.clone();
        let (sender, mut receiver) = mailbox::<(usize, usize, Box<usize>)>(8, move || {
            ring.word.store(1, SeqCst);
            ring.wake_one();
        });
        let threads: Vec<_> = (0..SENDERS)
            .map(|from| {
                let sender = sender.clone();
                thread::spawn(move || {
                    let mut number = 0;
                    while number < EACH {
                        let wanted = (1 + number % 3).min(EACH - number);
                        if number % 50 == 49 {
                            sender.send_control((from, number, Box::new(number)));
                            number += 1;
                            continue;
                        }
                        let Some(mut reservation) = sender.reserve(wanted) else {
                            thread::yield_now();
                            continue;
                        };
                        // Not all that was reserved is always used.
                        for _ in 0..wanted.min(2) {
                            reservation.send((from, number, Box::new(number)));
                            number += 1;
                        }
                    }
                })
            })
            .collect();
        let mut next = [0; SENDERS];
        while next != [EACH; SENDERS] {
            let attending = next[0] % 2 == 0;
            if attending {
                receiver.attend();
            }
            let before = next;
            receiver.drain_at_most(5, |(from, number, boxed)| {
                assert_eq!((number, *boxed), (next[from], number));
                next[from] += 1;
            });
            assert!(sender.room() <= 8);
            if next == before && receiver.arm() {
                while bell.word.swap(0, SeqCst) == 0 {
                    bell.wait(0);
                }
            }
        }
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert!(!receiver.has_mail());
        assert_eq!(sender.room(), 8);
    }

    /// A reservation made here and used there; the receiver goes while others send.
    #[test]
    fn reservations_travel_and_receivers_go() {
        for round in 0..50 {
            let token = Arc::new(());
            let (sender, mut receiver, _) = counted(4);
            let users: Vec<_> = (0..4)
                .map(|_| {
                    let (mut reservation, token) = (sender.standing(2), token.clone());
                    let user = thread::spawn(move || {
                        while reservation.left() > 0 {
                            reservation.send(token.clone());
                        }
                    });
                    sender.send_control(Arc::new(()));
                    receiver.drain_at_most(round % 3, drop);
                    user
                })
                .collect();
            drop(receiver);
            for user in users {
                user.join().expect("no thread panics");
            }
            assert_eq!(Arc::strong_count(&token), 1);
        }
    }
}
