//! The io_uring backend: input by multishot receives into a ring of buffers, output by sends that are submitted together, so that a turn
//! costs two system calls however many connections it serves.
//!
//! It owns the ring and what is in flight on it. Each connection has one operation in flight at most:
//!
//! ```text
//!              multishot receive ends (a cancel, or the end of the input)
//!   Receive ────────────────────────────────────────────────────────────▶ Poll
//!      ▲        (Stopping: cancelled, and not ended yet)                    │ CALM events with a single read each
//!      └────────────────────────────────────────────────────────────────────┘   (Returning: the poll is cancelled)
//! ```
//!
//! **Receive** is for those that send requests and read replies: data comes with its completion. Who does anything else (does not read, is
//! paused while it sends, sends values that are received in place, or more than its share of a turn) changes to **Poll**: a multishot
//! poll tells of edges, as epoll would, and [`super::sockets`] reads and writes as it does there.
//!
//! Sends are told not to wait, so they are complete when they were submitted: what is queued for a connection stays where it is, and
//! is what the kernel has not taken. Values by reference, and all output of connections that are not in the common case, are sent at once.
//! Listeners are polled and accepted from by accept4(2), which tells the peer's address; a multishot accept does not.
//!
//! # Invariants
//! - Between two waits the kernel takes no input from a socket (see `ring`), so reading from one whose receive is in flight is in order if no
//!   completion of it is waiting. `READABLE` is only set in mode `Poll`, or for connections whose input is thrown away.
//! - Completions of a connection are acted on in their order; those that must wait are in `later`, before all that come after.
//! - What has come for a paused connection is in `held`, before anything that the kernel still has.
//! - A descriptor is closed after the last completion of its operation (`graves`), so that none of it concerns a later connection.
//! - A buffer is given back once: when its completion was acted on, or the batch that it is in was handed over.
mod input;
mod ring;

use super::slots::Slots;
use super::sockets::{Conn, DIRTY, Driver, SINK, SPECIAL, Sockets, TURN_EVENTS, TURN_WINDOWS};
use super::{ConnId, Handler, NetConfig, sys};
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{Shutdown, shutdown};
use ring::{Completion, Ring};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The backend.
pub type Uring = Sockets<UringDriver>;

/// Events in a row with a single read each, after which a connection in mode `Poll` changes to `Receive`.
const CALM: u8 = 16;

// The word of an operation:
//
// 63          32 31  28 27        0
// | generation  | kind |  index   |
const KIND_SHIFT: u32 = 28;
/// Of a connection: its receive or poll.
const INPUT: u64 = 0;
/// Of a connection: a send.
const SEND: u64 = 1;
/// The poll of a listener, the doorbell or signals; the upper half is which.
const WATCH: u64 = 2;
/// A cancel, whose own completion is of no interest.
const CANCEL: u64 = 3;

const fn word(kind: u64, id: ConnId) -> u64 {
    id.pack() | kind << KIND_SHIFT
}
const fn kind(word: u64) -> u64 {
    word >> KIND_SHIFT & 15
}
const fn conn_of(word: u64) -> ConnId {
    ConnId::unpack(word & !(15 << KIND_SHIFT))
}
const fn watch_word(token: ConnId) -> u64 {
    word(WATCH, ConnId { index: 0, generation: token.generation })
}

/// What is in flight for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mode {
    /// Nothing.
    #[default]
    Idle,
    Receive,
    /// A receive that was cancelled.
    Stopping,
    Poll,
    /// A poll that was cancelled.
    Returning,
}

/// Input that came when it could not be delivered.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// Bytes at the front that were delivered.
    taken: usize,
}

/// What the driver keeps of a connection.
#[derive(Default)]
pub struct Link {
    mode: Mode,
    /// Windows delivered in turn `turn`.
    windows: u8,
    /// Events in mode `Poll` with a single read each.
    calm: u8,
    turn: u16,
    /// The last batch with input of it.
    batch: u16,
    /// There is input of it in `UringDriver::held`.
    held: bool,
}
const _: () = assert!(Slots::<Conn<UringDriver>>::SLOT_BYTES <= 120);

impl Link {
    /// A window in this turn; whether that is within its share.
    #[inline]
    fn count(&mut self, turn: u16) -> bool {
        if self.turn != turn {
            self.turn = turn;
            self.windows = 0;
        }
        if usize::from(self.windows) >= TURN_WINDOWS {
            return false;
        }
        self.windows += 1;
        true
    }

    fn is_served(&self, turn: u16) -> bool {
        self.turn == turn && self.windows > 0
    }
}

/// See the module.
pub struct UringDriver {
    ring: Ring,
    /// Completions of this turn, in order.
    events: Vec<Completion>,
    /// Those that wait for the next.
    later: Vec<Completion>,
    /// Counts polls; a connection's share is of one. A number that comes again after 65,536 can only make one wait for a turn.
    turn: u16,
    /// Counts batches; never 0, as a new connection is in none. One that comes again ends a batch early.
    batch: u16,
    /// Buffers of the inputs that are collected.
    collected: Vec<u16>,
    /// Receives that ended for lack of buffers.
    starved: Vec<ConnId>,
    /// Connections of a flush whose bytes are sent together, and what became of it.
    sending: Vec<ConnId>,
    sent: Vec<(ConnId, i32)>,
    /// Input that came for connections to which it could not be delivered, and how much that is.
    held: HashMap<ConnId, Held>,
    held_bytes: usize,
    /// What is watched, by the number of its token.
    watched: HashMap<u32, i32>,
    /// Descriptors of connections that were closed while their operation was in flight.
    graves: HashMap<ConnId, OwnedFd>,
}

impl UringDriver {
    fn cancel(&mut self, id: ConnId, link: &mut Link) {
        link.mode = match link.mode {
            Mode::Receive => Mode::Stopping,
            Mode::Poll => Mode::Returning,
            mode => return link.mode = mode,
        };
        self.ring.cancel(word(INPUT, id), word(CANCEL, id));
    }

    fn receive(&mut self, id: ConnId, fd: BorrowedFd<'_>, link: &mut Link) {
        debug_assert_eq!(link.mode, Mode::Idle);
        link.mode = Mode::Receive;
        self.ring.recv(fd, word(INPUT, id));
    }

    fn poll(&mut self, id: ConnId, fd: BorrowedFd<'_>, link: &mut Link) {
        debug_assert_eq!(link.mode, Mode::Idle);
        link.mode = Mode::Poll;
        link.calm = 0;
        let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP;
        self.ring.poll(fd.as_raw_fd(), events.bits().cast_unsigned(), word(INPUT, id));
    }

    /// What is held for a connection was delivered, or will not be.
    fn let_go(&mut self, id: ConnId, link: &mut Link) {
        if std::mem::take(&mut link.held)
            && let Some(held) = self.held.remove(&id)
        {
            self.held_bytes -= held.bytes.len();
        }
    }

    /// Polls what is watched by `token`.
    fn poll_watched(&mut self, token: ConnId) {
        if let Some(&fd) = self.watched.get(&token.generation) {
            self.ring.poll(fd, EpollFlags::EPOLLIN.bits().cast_unsigned(), watch_word(token));
        }
    }

    /// A completion of a connection that is gone.
    fn bury(&mut self, completion: Completion) -> bool {
        if let Some(buffer) = completion.buffer() {
            self.ring.give_back(buffer);
        }
        !completion.more() && self.graves.remove(&conn_of(completion.word)).is_some()
    }
}

/// Why there is no ring, and what else there is.
fn explained(error: io::Error) -> io::Error {
    let why = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSYS) => "this kernel has no io_uring",
        Some(Errno::EPERM | Errno::EACCES) => {
            "io_uring is forbidden here (kernel.io_uring_disabled, or the filter of system calls of a container)"
        }
        Some(Errno::EINVAL) => "this kernel's io_uring is too old, Linux 6.6 is needed",
        Some(Errno::ENOMEM) => "there is too little memory that may be locked (ulimit -l)",
        _ => "it was refused",
    };
    io::Error::new(error.kind(), format!("{why}: {error}. With 'net epoll' the server works without it"))
}

impl Driver for UringDriver {
    type Socket = OwnedFd;
    type Link = Link;
    const NAME: &'static str = "io_uring";

    fn new(config: &NetConfig) -> io::Result<UringDriver> {
        Ok(UringDriver {
            ring: Ring::new(config.window_bytes).map_err(explained)?,
            events: Vec::with_capacity(TURN_EVENTS),
            later: Vec::with_capacity(TURN_EVENTS),
            turn: 0,
            batch: 1,
            collected: Vec::with_capacity(TURN_EVENTS),
            starved: Vec::new(),
            sending: Vec::with_capacity(TURN_EVENTS),
            sent: Vec::with_capacity(TURN_EVENTS),
            held: HashMap::new(),
            held_bytes: 0,
            watched: HashMap::new(),
            graves: HashMap::new(),
        })
    }

    fn watch(&mut self, source: BorrowedFd<'_>, token: ConnId) -> io::Result<()> {
        self.watched.insert(token.generation, source.as_raw_fd());
        self.poll_watched(token);
        Ok(())
    }

    /// The poll holds on to the socket, so closing it would not end it.
    fn unwatch(&mut self, source: BorrowedFd<'_>, token: ConnId) {
        self.watched.remove(&token.generation);
        self.ring.cancel(watch_word(token), word(CANCEL, token));
        let _ = shutdown(source.as_raw_fd(), Shutdown::Both);
    }

    fn begin(&mut self, id: ConnId, fd: &OwnedFd, link: &mut Link) -> io::Result<()> {
        if id.index >> KIND_SHIFT != 0 {
            return Err(Errno::ENFILE.into());
        }
        self.receive(id, fd.as_fd(), link);
        Ok(())
    }

    fn end(&mut self, id: ConnId, fd: OwnedFd, mut link: Link) {
        self.let_go(id, &mut link);
        if link.mode != Mode::Idle {
            self.cancel(id, &mut link);
            self.graves.insert(id, fd);
        }
    }

    #[inline]
    fn descriptor(socket: &OwnedFd) -> Option<BorrowedFd<'_>> {
        Some(socket.as_fd())
    }

    #[inline]
    fn has_more(&self) -> bool {
        !self.later.is_empty() || !self.starved.is_empty()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.turn = self.turn.wrapping_add(1);
        self.events.clear();
        std::mem::swap(&mut self.events, &mut self.later);
        let wait = timeout != Some(Duration::ZERO) && self.events.is_empty() && !self.ring.has_completions();
        if wait || self.ring.has_work() {
            self.ring.enter(wait, timeout)?;
        }
        self.ring.take(&mut self.events, TURN_EVENTS);
        // Not again, though there may be more: the kernel does some twenty works in a call, up to 32 buffers for one connection, and
        // what a client that is to be throttled can fill meanwhile shall stay small.
        Ok(self.events.len())
    }

    #[inline]
    fn dispatch<H: Handler>(net: &mut Uring, handler: &mut H, event: usize, others: bool) {
        let completion = net.driver.events[event];
        match kind(completion.word) {
            INPUT => net.received(handler, completion, others),
            WATCH => {
                let token = ConnId { index: SPECIAL, generation: conn_of(completion.word).generation };
                if !completion.more() && completion.result != -libc::ECANCELED {
                    net.driver.poll_watched(token);
                }
                if completion.result > 0 {
                    net.special(handler, token);
                }
            }
            _ => {}
        }
    }

    fn postpone<H: Handler>(net: &mut Uring, _handler: &mut H, events: Range<usize>) {
        // Those that were served in this turn come last, whatever else has come of them; what was put off before is of such.
        let driver = &mut net.driver;
        let served = |completion: &Completion| {
            let conn = net.conns.get(conn_of(completion.word));
            kind(completion.word) == INPUT && conn.is_some_and(|conn| conn.link.is_served(driver.turn))
        };
        let (last, mut later): (Vec<_>, Vec<_>) =
            driver.events[events].iter().partition(|completion| served(completion));
        later.append(&mut driver.later);
        later.extend(last);
        driver.later = later;
    }

    fn recv(&mut self, id: ConnId, conn: &mut Conn<UringDriver>, buffer: &mut [u8]) -> Result<usize, Errno> {
        if conn.flags & SINK != 0 {
            conn.link.calm = 0;
        }
        let Some(held) = conn.link.held.then(|| self.held.get_mut(&id)).flatten() else {
            return sys::recv(conn.fd.as_fd(), buffer);
        };
        let rest = &held.bytes[held.taken..];
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        held.taken += n;
        if held.taken == held.bytes.len() {
            self.let_go(id, &mut conn.link);
            // A short read means that there is no more, so the rest comes from the kernel.
            if n < buffer.len() {
                return Ok(n + sys::recv(conn.fd.as_fd(), &mut buffer[n..]).unwrap_or(0));
            }
        }
        Ok(n)
    }

    /// The receive tells nothing of output.
    #[inline]
    fn blocked(&mut self, id: ConnId, link: &mut Link) {
        if link.mode == Mode::Receive {
            self.cancel(id, link);
        }
    }

    #[inline]
    fn collected<'b>(&'b self, _area: &'b [u8], _filled: usize) -> &'b [u8] {
        self.ring.area()
    }

    #[inline]
    fn handed_over(&mut self) {
        self.batch = self.batch.wrapping_add(1).max(1);
        for buffer in self.collected.drain(..) {
            self.ring.give_back(buffer);
        }
    }

    fn flush<H: Handler>(net: &mut Uring, handler: &mut H) {
        if !net.driver.starved.is_empty() {
            for id in std::mem::take(&mut net.driver.starved) {
                net.go_on(id);
            }
        }
        let alone = net.dirty.len() == 1;
        let mut i = 0;
        while let Some(&id) = net.dirty.get(i) {
            i += 1;
            if alone {
                net.flush_one(handler, id);
                continue;
            }
            let Some(conn) = net.conns.get_mut(id) else { continue };
            conn.flags &= !DIRTY;
            if conn.flags == 0 && conn.out.plain().is_some_and(|bytes| !bytes.is_empty()) {
                net.driver.sending.push(id);
            } else {
                net.flush_on(handler, id);
            }
        }
        net.dirty.clear();
        if !net.driver.sending.is_empty() {
            net.send_together(handler);
        }
    }

    /// Without the ring and its buffers: they are there from the beginning and of one size, and `maxmemory` is about what grows.
    fn memory_bytes(&self) -> usize {
        self.held_bytes
    }
}

impl Sockets<UringDriver> {
    /// Sends what the connections of a flush have that are in the common case.
    fn send_together<H: Handler>(&mut self, handler: &mut H) {
        let driver = &mut self.driver;
        let conns = &self.conns;
        let sends = driver.sending.iter().filter_map(|&id| {
            let conn = conns.get(id)?;
            Some((word(SEND, id), conn.fd.as_fd(), conn.out.plain()?))
        });
        driver.ring.send_all(sends, |word, result| driver.sent.push((conn_of(word), result)), &mut driver.later);
        driver.sending.clear();
        let mut sent = std::mem::take(&mut self.driver.sent);
        for (id, result) in sent.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            if let Ok(n) = usize::try_from(result) {
                self.sent_bytes += n as u64;
                conn.out.advance(n);
                if conn.out.is_empty() {
                    self.pool.give(conn.out.release());
                    continue;
                }
            }
            // What is left, or the error, is met again there.
            self.flush_on(handler, id);
        }
        self.driver.sent = sent;
    }
}

#[cfg(test)]
use Uring as Tested;
/// Whether the machine has it, and allows it; where not the tests say so and end.
#[cfg(test)]
fn available() -> bool {
    let made = Uring::new(super::SocketConfig::default());
    if let Err(error) = &made {
        eprintln!("skipped: {error}");
    }
    made.is_ok()
}
#[cfg(test)]
#[allow(clippy::duplicate_mod, reason = "the same tests for each driver")]
#[path = "sockets/several_tests.rs"]
mod several_tests;
#[cfg(test)]
#[allow(clippy::duplicate_mod, reason = "the same tests for each driver")]
#[path = "sockets/tests.rs"]
mod tests;
