//! What the backends of several workers share: how many connections each has, where the next one goes, and how it gets there.
//!
//! The kernel spreads connections over listeners of one port by a hash, so of few connections some workers have many and others none.
//! Hence whoever accepts looks for the least loaded worker and puts the connection into that one's inbox. With one worker none of this
//! exists. It knows nothing of events, protocols and sessions.
//!
//! ```text
//! worker 2 accepts ─ choose ─▶ itself                                     ─▶ opened
//!                      └─────▶ worker 0: its inbox, a ring of its doorbell ─▶ worker 0 takes it ─▶ opened
//! ```
//!
//! # Invariants
//! - `Place::connections` of a worker = its connections between `opened` and `closed` + those chosen for it that are on the way. Who takes one
//!   off the way without opening it counts it off; what a worker that leaves had open or waiting is counted off with it.
//! - A descriptor in an inbox belongs to the inbox: it is taken by the worker, or closed when that worker leaves. None is put in later,
//!   as both happen under the inbox's lock.
//! - An inbox that is not empty was rung for since its owner last saw it empty.
//! - The lock of an inbox is held for one push or pop; nothing is waited for and no system call made meanwhile.
use super::{Doorbell, Peer};
use crate::base::sync::lock::{Guarded, SpinLock};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Connections that may wait in an inbox; beyond that (the worker is busy with something long) who accepts keeps them.
const INBOX_MAX: usize = 256;
/// Who accepts keeps a connection while it has at most this part more than the least loaded: a hand-over wakes another thread, and among
/// many connections the kernel's hash is even enough. Below eight connections the rule is strict.
const SLACK_PART: u32 = 8;

/// A connection on its way from the worker that accepted it to the one that will serve it.
pub(super) struct Handover {
    pub(super) fd: OwnedFd,
    pub(super) peer: Peer,
}

/// What all know of one worker, the count on lines of its own (two, as they are fetched in pairs): its changes shall cost only those who
/// read it.
#[repr(align(128))]
struct Place {
    connections: AtomicU32,
    /// A hint for who chooses; what is true stands in the inbox.
    takes: AtomicBool,
    bell: OnceLock<Doorbell>,
    inbox: Guarded<SpinLock, Inbox>,
}
const _: () = assert!(align_of::<Place>() == 128);

#[derive(Default)]
struct Inbox {
    /// The worker takes connections of others.
    open: bool,
    waiting: VecDeque<Handover>,
}

impl Place {
    fn count_off(&self, connections: u32) {
        let before = self.connections.fetch_sub(connections, Ordering::Relaxed);
        debug_assert!(before >= connections, "more connections were closed than opened");
    }
}

/// A counter on lines of its own.
#[repr(align(128))]
struct Counter(AtomicU32);

/// Shared by the backends (through their [`Seat`]s) and the handlers of all workers.
pub struct Balance {
    places: Box<[Place]>,
    admitted: Counter,
}

impl Balance {
    /// For so many workers. With one there is nothing to balance: then there should be none of this.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Balance> {
        assert!(workers > 0);
        let place = || Place {
            connections: AtomicU32::new(0),
            takes: AtomicBool::new(false),
            bell: OnceLock::new(),
            inbox: Guarded::new(Inbox::default()),
        };
        let places = std::iter::repeat_with(place).take(workers).collect();
        Arc::new(Balance { places, admitted: Counter(AtomicU32::new(0)) })
    }

    /// The part of `worker`, counted from 0, to be given to its backend (`Backend::join`). Each is given out once.
    #[must_use]
    pub fn seat(self: &Arc<Balance>, worker: usize) -> Seat {
        assert!(worker < self.places.len(), "there is no worker {worker}");
        Seat { balance: self.clone(), worker, open: 0 }
    }

    /// Connections of a worker, with those on their way to it.
    #[must_use]
    pub fn connections(&self, worker: usize) -> usize {
        self.places[worker].connections.load(Ordering::Relaxed) as usize
    }

    /// Counts a client in, unless `clients_max` are in: then its handler greets it with an error and finishes it. Who was admitted is counted
    /// off by [`Balance::dismiss`] when it is closed, who was not is not.
    #[must_use]
    pub fn admit(&self, clients_max: u32) -> bool {
        let more = |clients: u32| (clients < clients_max).then_some(clients + 1);
        self.admitted.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A client that was admitted has gone.
    pub fn dismiss(&self) {
        let before = self.admitted.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "more clients have gone than were admitted");
    }

    /// Clients admitted and not gone, of all workers.
    #[must_use]
    pub fn admitted(&self) -> usize {
        self.admitted.0.load(Ordering::Relaxed) as usize
    }

    /// The worker for a connection that `me` has accepted; it is counted there already.
    fn choose(&self, me: usize) -> usize {
        loop {
            let own = self.places[me].connections.load(Ordering::Relaxed);
            let (mut chosen, mut least) = (me, own);
            for (worker, place) in self.places.iter().enumerate() {
                let connections = place.connections.load(Ordering::Relaxed);
                if connections < least && place.takes.load(Ordering::Relaxed) {
                    (chosen, least) = (worker, connections);
                }
            }
            if own <= least + least / SLACK_PART {
                (chosen, least) = (me, own);
            }
            // Fails when another accepted or closed meanwhile: then somebody else may be the least loaded.
            let count = &self.places[chosen].connections;
            if count.compare_exchange_weak(least, least + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return chosen;
            }
        }
    }

    /// Puts a connection into the inbox of a worker; gives it back if that one takes none.
    fn hand(&self, worker: usize, handover: Handover) -> Result<(), Handover> {
        let place = &self.places[worker];
        let mut inbox = place.inbox.lock();
        if !inbox.open || inbox.waiting.len() >= INBOX_MAX {
            return Err(handover);
        }
        inbox.waiting.push_back(handover);
        let first = inbox.waiting.len() == 1;
        drop(inbox);
        if first && let Some(bell) = place.bell.get() {
            bell.ring();
        }
        Ok(())
    }

    /// Makes a worker look loaded, so that a test knows where connections go.
    #[cfg(test)]
    pub(super) fn pretend(&self, worker: usize, connections: u32) {
        self.places[worker].connections.fetch_add(connections, Ordering::Relaxed);
    }
}

/// A worker's part of a [`Balance`], owned by its backend. Dropping it gives everything up.
pub struct Seat {
    balance: Arc<Balance>,
    worker: usize,
    /// Connections between `opened` and `closed`.
    open: u32,
}

impl Seat {
    fn place(&self) -> &Place {
        &self.balance.places[self.worker]
    }

    /// From now on others may send connections here; `bell` is rung when they do.
    pub(super) fn take_part(&self, bell: Doorbell) {
        let place = self.place();
        assert!(place.bell.set(bell).is_ok(), "a seat is taken once");
        place.inbox.lock().open = true;
        place.takes.store(true, Ordering::Relaxed);
    }

    /// Where a connection that was accepted here goes: `None`, it is with another worker; or it stays, and was counted.
    pub(super) fn place_accepted(&self, fd: OwnedFd, peer: Peer) -> Option<Handover> {
        let handover = Handover { fd, peer };
        let worker = self.balance.choose(self.worker);
        if worker == self.worker {
            return Some(handover);
        }
        let back = self.balance.hand(worker, handover).err()?;
        self.balance.places[worker].count_off(1);
        self.place().connections.fetch_add(1, Ordering::Relaxed);
        Some(back)
    }

    /// A connection stays with the worker that it came to: it is counted.
    pub(super) fn keep(&self) {
        self.place().connections.fetch_add(1, Ordering::Relaxed);
    }

    /// The next connection that others have sent. It was counted.
    pub(super) fn next(&self) -> Option<Handover> {
        self.place().inbox.lock().waiting.pop_front()
    }

    /// A connection that was counted is open.
    pub(super) fn opened(&mut self) {
        self.open += 1;
    }

    /// A connection that was counted could not be opened.
    pub(super) fn failed(&self) {
        self.place().count_off(1);
    }

    /// A connection that was open is closed.
    pub(super) fn closed(&mut self) {
        self.open -= 1;
        self.place().count_off(1);
    }

    /// Takes no more, and closes what waits.
    pub(super) fn leave(&self) {
        let place = self.place();
        place.takes.store(false, Ordering::Relaxed);
        let mut inbox = place.inbox.lock();
        inbox.open = false;
        let waiting = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        place.count_off(u32::try_from(waiting.len()).unwrap_or(0));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
        self.place().count_off(self.open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn connection() -> (UnixStream, OwnedFd, Peer) {
        let (client, server) = UnixStream::pair().unwrap();
        let peer = Peer { remote: "client".into(), local: "server".into(), fd: 0, unix: true, service: 0 };
        (client, server.into(), peer)
    }

    fn seats(workers: usize) -> (Arc<Balance>, Vec<Seat>) {
        let balance = Balance::new(workers);
        let seats: Vec<Seat> = (0..workers).map(|worker| balance.seat(worker)).collect();
        seats.iter().for_each(|seat| seat.take_part(Doorbell::new().unwrap()));
        (balance, seats)
    }

    fn rang(balance: &Balance, worker: usize) -> bool {
        balance.places[worker].bell.get().unwrap().answer()
    }

    fn is_closed(mut client: UnixStream) -> bool {
        // A child that another test starts holds a copy of the server's end until it executes its program.
        client.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_least_loaded_gets_it_and_is_rung_for_once() {
        let (balance, mut seats) = seats(3);
        let (_a, fd, peer) = connection();
        assert!(seats[1].place_accepted(fd, peer).is_some(), "among equals the one that accepts");
        seats[1].opened();
        let (_b, fd, peer) = connection();
        assert!(seats[1].place_accepted(fd, peer).is_none());
        let (_c, fd, peer) = connection();
        assert!(seats[1].place_accepted(fd, peer).is_none());
        assert!([0, 1, 2].map(|worker| balance.connections(worker)) == [1, 1, 1]);
        assert!(rang(&balance, 0) && rang(&balance, 2) && !rang(&balance, 1));
        // A second one into an inbox that was not looked at needs no second ring.
        balance.pretend(1, 5);
        balance.pretend(2, 5);
        let (_d, fd, peer) = connection();
        assert!(seats[1].place_accepted(fd, peer).is_none());
        assert!(!rang(&balance, 0));
        assert!(seats[0].next().is_some() && seats[0].next().is_some() && seats[0].next().is_none());
        seats[0].opened();
        seats[0].failed();
        assert_eq!(balance.connections(0), 1);
        seats[0].closed();
        assert_eq!(balance.connections(0), 0);
    }

    #[test]
    fn who_has_left_gets_nothing_and_what_waited_is_closed() {
        let (balance, seats) = seats(2);
        balance.pretend(0, 100);
        let (client, fd, peer) = connection();
        assert!(seats[0].place_accepted(fd, peer).is_none());
        assert_eq!(balance.connections(1), 1);
        seats[1].leave();
        assert_eq!(balance.connections(1), 0);
        assert!(is_closed(client));
        let (_client, fd, peer) = connection();
        assert!(seats[0].place_accepted(fd, peer).is_some());
        assert_eq!((balance.connections(0), balance.connections(1)), (101, 0));
    }

    #[test]
    fn an_inbox_that_was_closed_after_the_choice_gives_it_back() {
        let (balance, seats) = seats(2);
        balance.pretend(0, 100);
        // As if worker 1 left between choice and push.
        balance.places[1].inbox.lock().open = false;
        let (_client, fd, peer) = connection();
        assert!(seats[0].place_accepted(fd, peer).is_some());
        assert_eq!((balance.connections(0), balance.connections(1)), (101, 0));
    }

    #[test]
    fn an_inbox_is_bounded() {
        let (balance, seats) = seats(2);
        balance.pretend(0, 10_000);
        let mut clients = Vec::new();
        for _ in 0..INBOX_MAX {
            let (client, fd, peer) = connection();
            assert!(seats[0].place_accepted(fd, peer).is_none());
            clients.push(client);
        }
        let (_client, fd, peer) = connection();
        assert!(seats[0].place_accepted(fd, peer).is_some());
        assert_eq!((balance.connections(0), balance.connections(1)), (10_001, INBOX_MAX));
        drop(seats);
        assert_eq!((balance.connections(0), balance.connections(1)), (10_001, 0));
        assert!(clients.into_iter().all(is_closed));
    }

    #[test]
    fn many_connections_may_lie_a_little_uneven() {
        let (balance, seats) = seats(2);
        balance.pretend(0, 1_100);
        balance.pretend(1, 1_000);
        let (_client, fd, peer) = connection();
        assert!(seats[0].place_accepted(fd, peer).is_some(), "a tenth more is no reason to wake another");
        balance.pretend(0, 100);
        let (_client, fd, peer) = connection();
        assert!(seats[0].place_accepted(fd, peer).is_none());
    }

    #[test]
    fn clients_are_admitted_up_to_the_limit() {
        let balance = Balance::new(2);
        assert!(balance.admit(2) && balance.admit(2) && !balance.admit(2));
        assert_eq!(balance.admitted(), 2);
        // The limit was lowered, then raised.
        assert!(!balance.admit(1) && balance.admit(3));
        balance.dismiss();
        balance.dismiss();
        assert_eq!(balance.admitted(), 1);
        assert!(balance.admit(2) && !balance.admit(2));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Accept(usize),
        Take(usize, bool),
        Close(usize),
        Leave(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0usize..4).prop_map(Step::Accept),
            6 => (0usize..4, prop::bool::weighted(0.9)).prop_map(|(worker, opens)| Step::Take(worker, opens)),
            4 => (0usize..4).prop_map(Step::Close),
            1 => (0usize..4).prop_map(Step::Leave),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever happens, a count is what the worker has open and what waits for it.
        #[test]
        fn counts_are_right(program in prop::collection::vec(step(), 1..200)) {
            let (balance, mut seats) = seats(4);
            let mut gone = [false; 4];
            let mut clients = Vec::new();
            for step in program {
                match step {
                    Step::Accept(worker) => {
                        let (client, fd, peer) = connection();
                        clients.push(client);
                        if seats[worker].place_accepted(fd, peer).is_some() {
                            seats[worker].opened();
                        }
                    }
                    Step::Take(worker, opens) => match seats[worker].next() {
                        Some(_) if opens => seats[worker].opened(),
                        Some(_) => seats[worker].failed(),
                        None => {}
                    },
                    Step::Close(worker) if seats[worker].open > 0 => seats[worker].closed(),
                    Step::Close(_) => {}
                    Step::Leave(worker) => {
                        seats[worker].leave();
                        gone[worker] = true;
                    }
                }
                for (worker, seat) in seats.iter().enumerate() {
                    let waiting = balance.places[worker].inbox.lock().waiting.len();
                    prop_assert!(!gone[worker] || waiting == 0);
                    prop_assert_eq!(balance.connections(worker), seat.open as usize + waiting);
                }
            }
            drop(seats);
            prop_assert!((0..4).all(|worker| balance.connections(worker) == 0));
        }
    }
}
