//! The epoll backend: edge-triggered, registered once per connection, one `recv` and one `send` per wake-up in the common case.
//!
//! It owns the descriptors, one receive window for all connections, and the output buffers, which an idle connection does not hold.
//! It knows nothing of protocols.
//!
//! # Invariants
//! - A flag [`READABLE`] that is not set means: the kernel holds nothing unread, or a new edge will tell. Whoever stops reading early
//!   leaves it set; whoever makes reading possible again puts such a connection on the ready list.
//! - `BLOCKED` means: the last send ended with EAGAIN, so an edge of EPOLLOUT will come. Output that is queued without it is on the way to
//!   a flush: its connection is in `dirty`, or in `ready`.
//! - A connection is in `dirty` (`ready`) once at most, and exactly while its flag `DIRTY` (`READY`) is set. Entries whose id is dead are
//!   skipped.
//! - Work that is left over makes the next `poll` not wait.
//! - The common case, a connection whose flags are 0, takes the path [`Epoll::event`], [`Epoll::read`], [`Epoll::flush_one`], which
//!   neither allocates nor searches. Everything else is in [`Epoll::service`] and the functions below it.
use super::listen::{self, Listen, Listener, LocalAddr};
use super::pool::Pool;
use super::slots::Slots;
use super::{Backend, ConnId, Doorbell, Flow, Handler, NetConfig, Why, sys};
use crate::base::out::Out;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll as Poller, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Events taken from the kernel in one turn.
const TURN_EVENTS: usize = 512;
/// Windows one connection gets in a turn before the others have theirs.
const TURN_WINDOWS: usize = 4;
/// The most that is received into a sink at once: 25 us of copying.
const SINK_READ_BYTES: usize = 256 << 10;
/// Sends for one connection in a flush, when the kernel takes everything and the handler has always more.
const FLUSH_SENDS: usize = 8;
/// Connections accepted from a listener in one turn.
const TURN_ACCEPTS: usize = 64;
/// Without descriptors or memory, accepting pauses for this long (or until a connection closes).
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// How long a closed connection stays half-open so that its peer can read the last reply: closing with unread input resets it.
const LINGER: Duration = Duration::from_secs(1);
/// Input that is thrown away meanwhile.
const LINGER_BYTES: usize = 4 << 20;
/// Connections that linger at the same time; the oldest gives way.
const LINGER_CONNS: usize = 1024;

/// Index of tokens that are not connections; `Slots` never gives it out.
const SPECIAL: u32 = u32::MAX;
const DOORBELL: ConnId = ConnId { index: SPECIAL, generation: 0 };
const SIGNALS: ConnId = ConnId { index: SPECIAL, generation: 1 };
const LISTENERS: u32 = 2;

/// There may be unread input.
const READABLE: u16 = 1;
/// The peer closed its sending side: read until 0, a short read is not the end.
const RDHUP: u16 = 1 << 1;
/// The peer is gone altogether.
const HUP: u16 = 1 << 2;
/// The transport failed.
const FAILED: u16 = 1 << 3;
/// `Flow::Pause`.
const PAUSED: u16 = 1 << 4;
/// More than `out_high_bytes` are queued.
const THROTTLED: u16 = 1 << 5;
/// `Flow::Sink`.
const SINK: u16 = 1 << 6;
/// Output of an earlier wake-up is queued: `sent` is due when it goes.
const LEFTOVER: u16 = 1 << 7;
/// The kernel takes no more output for now.
const BLOCKED: u16 = 1 << 8;
/// In `dirty`.
const DIRTY: u16 = 1 << 9;
/// In `ready`.
const READY: u16 = 1 << 10;
/// The input has ended.
const EOF: u16 = 1 << 11;
/// `Flow::Finish`.
const FINISH: u16 = 1 << 12;
/// `Flow::Abort` from outside of an event.
const ABORT: u16 = 1 << 13;
/// `closed` was called; only the descriptor is left.
const GONE: u16 = 1 << 14;
/// `hung_up` was asked.
const ASKED: u16 = 1 << 15;
/// The input is of no interest any more.
const DEAF: u16 = EOF | FINISH | ABORT | GONE;

struct Conn {
    fd: OwnedFd,
    flags: u16,
    /// While output waits beyond a flush: the capacity that `Epoll::held_bytes` counts for it. While lingering: bytes thrown away.
    counted: usize,
    out: Out,
}
// The promise of at most 120 bytes for an idle connection.
const _: () = assert!(Slots::<Conn>::SLOT_BYTES <= 120);

/// Settings of this backend.
#[derive(Clone, Debug, Default)]
pub struct EpollConfig {
    pub net: NetConfig,
    /// How long to look for events before sleeping in the kernel, in microseconds.
    pub spin_us: u32,
}

/// See the module.
pub struct Epoll {
    poller: Poller,
    config: EpollConfig,
    events: Box<[EpollEvent]>,
    window: Box<[u8]>,
    conns: Slots<Conn>,
    pool: Pool,
    /// Connections with something to flush.
    dirty: Vec<ConnId>,
    /// Connections with something to do in the next turn, in order.
    ready: VecDeque<ConnId>,
    /// Of those, so many stood there before this turn, and were not served in it yet.
    unserved: usize,
    /// An empty vector, kept for its allocation.
    slices: Vec<IoSlice<'static>>,
    /// Capacity of the outputs that wait beyond a flush.
    held_bytes: usize,
    listeners: Vec<Listener>,
    /// Bit `i`: listener `i` may have more to accept.
    accept_more: u64,
    /// No accepting before then.
    accept_pause: Option<Instant>,
    /// In order of the time at which they are closed.
    lingering: VecDeque<(Instant, ConnId)>,
    doorbell: Doorbell,
    signals: Option<SignalFd>,
}

impl Epoll {
    pub fn new(config: EpollConfig) -> io::Result<Epoll> {
        assert!(config.net.window_bytes > 0 && config.net.out_low_bytes <= config.net.out_high_bytes);
        let poller = Poller::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let doorbell = Doorbell::new()?;
        // Edge-triggered: every ring is an edge, so that the counter need not be read.
        poller.add(&doorbell, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, DOORBELL.pack()))?;
        Ok(Epoll {
            poller,
            events: vec![EpollEvent::empty(); TURN_EVENTS].into(),
            window: vec![0; config.net.window_bytes].into(),
            config,
            conns: Slots::new(),
            pool: Pool::new(),
            dirty: Vec::new(),
            ready: VecDeque::new(),
            unserved: 0,
            slices: Vec::with_capacity(sys::SEND_SLICES_MAX),
            held_bytes: 0,
            listeners: Vec::new(),
            accept_more: 0,
            accept_pause: None,
            lingering: VecDeque::new(),
            doorbell,
            signals: None,
        })
    }

    /// Listens on everything that `listen` names, or fails and changes nothing.
    pub fn listen(&mut self, listen: &Listen) -> io::Result<()> {
        let opened = listen::open(listen)?;
        if self.listeners.len() + opened.len() > 64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than 64 addresses to listen on"));
        }
        // Those that are dropped by a failure leave the poller by being closed.
        for (listener, number) in opened.iter().zip(LISTENERS + u32::try_from(self.listeners.len()).unwrap_or(0)..) {
            let token = ConnId { index: SPECIAL, generation: number };
            self.poller.add(listener, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, token.pack()))?;
        }
        self.listeners.extend(opened);
        Ok(())
    }

    /// Where it listens, with the ports that the kernel chose.
    pub fn local_addrs(&self) -> Vec<LocalAddr> {
        self.listeners.iter().map(|listener| listener.address().clone()).collect()
    }

    /// The keep-alive interval of connections accepted from now on; 0 is none.
    pub fn set_tcp_keepalive_s(&mut self, seconds: u32) -> io::Result<()> {
        self.listeners.iter().try_for_each(|listener| listener.set_keepalive(seconds))
    }

    /// How long to look for events before sleeping in the kernel.
    pub fn set_spin_us(&mut self, spin_us: u32) {
        self.config.spin_us = spin_us;
    }

    /// Delivers SIGTERM and SIGINT as `Handler::signal`. Blocks them in this thread, and so in those it starts later: call it first.
    pub fn enable_signals(&mut self) -> io::Result<()> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGTERM);
        set.add(Signal::SIGINT);
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        self.poller.add(&signals, EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS.pack()))?;
        self.signals = Some(signals);
        Ok(())
    }

    /// The bell that wakes this backend from another thread.
    pub fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    /// Connections whose `closed` was not called yet, and those that linger after it.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    // --- waiting -------------------------------------------------------------------------------------------------------------

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let mut timeout = timeout;
        if !self.ready.is_empty() || self.accept_more != 0 || !self.lingering.is_empty() {
            timeout = self.wait_for_work(timeout);
        }
        let wait = match timeout {
            None => EpollTimeout::NONE,
            Some(Duration::ZERO) => EpollTimeout::ZERO,
            // Rounded up: waking early would only mean to wait again.
            Some(t) => {
                let ms = t.as_millis() + u128::from(t.subsec_nanos() % 1_000_000 != 0);
                EpollTimeout::try_from(ms).unwrap_or(EpollTimeout::MAX)
            }
        };
        if self.config.spin_us > 0 && wait != EpollTimeout::ZERO {
            let spin = Duration::from_micros(self.config.spin_us.into());
            let end = Instant::now() + timeout.map_or(spin, |timeout| timeout.min(spin));
            loop {
                match self.poller.wait(&mut self.events, EpollTimeout::ZERO) {
                    Ok(0) => {}
                    Ok(n) => return Ok(n),
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
                if Instant::now() >= end {
                    break;
                }
            }
            if timeout.is_some_and(|timeout| timeout <= spin) {
                return Ok(0);
            }
        }
        match self.poller.wait(&mut self.events, wait) {
            Ok(n) => Ok(n),
            Err(Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The timeout with regard to what is left to do.
    #[cold]
    fn wait_for_work(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.ready.is_empty() || (self.accept_more != 0 && self.accept_pause.is_none()) {
            return Some(Duration::ZERO);
        }
        let accept = if self.accept_more != 0 { self.accept_pause } else { None };
        let linger = self.lingering.front().map(|(until, _)| *until);
        let due = accept.into_iter().chain(linger).min().map(|due| due.saturating_duration_since(Instant::now()));
        due.into_iter().chain(timeout).min()
    }

    // --- dispatch ------------------------------------------------------------------------------------------------------------

    #[inline]
    fn event<H: Handler>(&mut self, handler: &mut H, event: EpollEvent) {
        let id = ConnId::unpack(event.data());
        let bits = event.events();
        let Some(conn) = self.conns.get_mut(id) else { return self.special(handler, id) };
        let trouble = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        if conn.flags != 0 || bits.intersects(trouble) {
            note(conn, bits, &mut self.dirty, id);
            return self.service(handler, id);
        }
        // EPOLLOUT comes along with every event; without BLOCKED nobody waits for it.
        if bits.contains(EpollFlags::EPOLLIN) {
            self.read(handler, id);
        }
    }

    /// The common case: flags are 0, so no output is queued, and input has arrived. One short read, one reply.
    #[inline]
    fn read<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        match sys::recv(conn.fd.as_fd(), &mut self.window) {
            Ok(n) if n > 0 => {
                if conn.out.capacity() == 0 {
                    conn.out.adopt(self.pool.take());
                }
                let flow = handler.data(id, &self.window[..n], &mut conn.out);
                if flow != Flow::Read || n == self.window.len() || conn.out.is_empty() {
                    return self.read_on(handler, id, flow, n == self.window.len());
                }
                conn.flags = DIRTY;
                self.dirty.push(id);
            }
            Err(Errno::EAGAIN) => {}
            _ => {
                // The end or an error: seen again by the general path.
                conn.flags = READABLE;
                self.service(handler, id);
            }
        }
    }

    /// The rest of `read` when the first window was not the end of it.
    #[cold]
    #[inline(never)]
    fn read_on<H: Handler>(&mut self, handler: &mut H, id: ConnId, flow: Flow, full: bool) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if full {
            conn.flags |= READABLE;
        }
        if obey(conn, flow) && full {
            if handler.turn_over() {
                push_ready(conn, &mut self.ready, id);
            } else {
                return self.read_windows(handler, id, TURN_WINDOWS - 1);
            }
        }
        self.settle(handler, id);
    }

    /// Everything that can be due for a connection, by its flags.
    #[cold]
    #[inline(never)]
    fn service<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.flags & GONE != 0 {
            return self.drain(id);
        }
        if conn.flags & LEFTOVER != 0 && conn.flags & BLOCKED == 0 {
            push_dirty(conn, &mut self.dirty, id);
        }
        if conn.flags & THROTTLED != 0 && conn.out.queued() <= self.config.net.out_low_bytes {
            conn.flags &= !THROTTLED;
        }
        if conn.flags & (DEAF | PAUSED | THROTTLED) == 0 {
            if conn.flags & READABLE != 0 {
                self.read_windows(handler, id, TURN_WINDOWS);
            }
        } else if conn.flags & HUP != 0 {
            // Nobody is there to read what is queued.
            let why = if conn.flags & FAILED != 0 { Why::Error } else { Why::Peer };
            self.end(handler, id, why);
        } else {
            self.ask_hung_up(handler, id);
        }
    }

    /// A paused connection whose peer sends no more: does the handler want to know?
    fn ask_hung_up<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.flags & (PAUSED | RDHUP | ASKED | DEAF) != PAUSED | RDHUP {
            return;
        }
        conn.flags |= ASKED;
        if handler.hung_up(id) {
            conn.flags |= EOF;
            self.settle(handler, id);
        }
    }

    /// Reads at most `windows` windows, or as many sinks.
    fn read_windows<H: Handler>(&mut self, handler: &mut H, id: ConnId, windows: usize) {
        let mut left = windows;
        let Some(conn) = self.conns.get_mut(id) else { return };
        loop {
            if conn.out.queued() > self.config.net.out_high_bytes {
                conn.flags |= THROTTLED;
                break;
            }
            let (result, asked) = if conn.flags & SINK != 0 {
                let sink = handler.sink(id);
                assert!(!sink.is_empty(), "the handler's sink is empty");
                let asked = sink.len().min(SINK_READ_BYTES);
                (sys::recv(conn.fd.as_fd(), &mut sink[..asked]), asked)
            } else {
                (sys::recv(conn.fd.as_fd(), &mut self.window), self.window.len())
            };
            match result {
                Ok(0) => {
                    conn.flags = conn.flags & !READABLE | EOF;
                    break;
                }
                Ok(n) => {
                    if n < asked && conn.flags & RDHUP == 0 {
                        conn.flags &= !READABLE;
                    }
                    if conn.out.capacity() == 0 {
                        conn.out.adopt(self.pool.take());
                    }
                    let flow = if conn.flags & SINK != 0 {
                        handler.sunk(id, n, &mut conn.out)
                    } else {
                        handler.data(id, &self.window[..n], &mut conn.out)
                    };
                    if !obey(conn, flow) || conn.flags & READABLE == 0 {
                        break;
                    }
                }
                Err(Errno::EAGAIN) => {
                    conn.flags &= !READABLE;
                    break;
                }
                Err(Errno::EINTR) => continue,
                Err(_) => {
                    return self.end(handler, id, Why::Error);
                }
            }
            left -= 1;
            if left == 0 || handler.turn_over() {
                push_ready(conn, &mut self.ready, id);
                break;
            }
        }
        self.settle(handler, id);
    }

    /// After events of a connection: ends it, marks its output, or takes an unused buffer back.
    fn settle<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.flags & ABORT != 0 {
            return self.end(handler, id, Why::Handler);
        }
        if !conn.out.is_empty() || conn.flags & FINISH != 0 {
            // If it is blocked, too: the flush counts its memory.
            push_dirty(conn, &mut self.dirty, id);
        } else if conn.flags & EOF != 0 {
            return self.end(handler, id, Why::Peer);
        } else if conn.out.capacity() != 0 && conn.flags & DIRTY == 0 {
            self.pool.give(conn.out.release());
        }
        self.ask_hung_up(handler, id);
    }

    /// Closes the descriptor and tells the handler, for the first and last time.
    fn end<H: Handler>(&mut self, handler: &mut H, id: ConnId, why: Why) {
        let Some(mut conn) = self.conns.remove(id) else { return };
        self.held_bytes -= conn.counted;
        if conn.out.is_empty() && conn.out.capacity() != 0 {
            self.pool.give(conn.out.release());
        }
        drop(conn);
        // A descriptor is free again.
        self.accept_pause = None;
        handler.closed(id, why);
    }

    /// What is left of earlier turns, in order. Returns whether the turn is over.
    #[cold]
    #[inline(never)]
    fn leftovers<H: Handler>(&mut self, handler: &mut H) -> bool {
        self.end_lingering();
        if self.accept_more != 0 {
            if self.accept_pause.is_some_and(|until| until <= Instant::now()) {
                self.accept_pause = None;
            }
            for number in 0..self.listeners.len() {
                if self.accept_more >> number & 1 != 0 {
                    self.accept(handler, number);
                }
            }
        }
        // Those that come to stand in the list meanwhile have their turn later.
        let before = self.unserved;
        while self.unserved > 0 {
            if self.unserved != before && handler.turn_over() {
                return true;
            }
            let Some(id) = self.ready.pop_front() else { break };
            self.unserved -= 1;
            if let Some(conn) = self.conns.get_mut(id) {
                conn.flags &= !READY;
                self.service(handler, id);
            }
        }
        false
    }

    /// Keeps events for the next turn: behind those that were not served either, before those that want more than they had.
    #[cold]
    #[inline(never)]
    fn postpone<H: Handler>(&mut self, handler: &mut H, events: std::ops::Range<usize>) {
        let served = self.ready.len() - self.unserved;
        for i in events {
            let event = self.events[i];
            let id = ConnId::unpack(event.data());
            match self.conns.get_mut(id) {
                Some(conn) => {
                    note(conn, event.events(), &mut self.dirty, id);
                    push_ready(conn, &mut self.ready, id);
                }
                // Rare and short; a listener's are bounded.
                None => self.special(handler, id),
            }
        }
        self.ready.make_contiguous()[self.unserved..].rotate_left(served);
    }

    // --- listeners, signals, doorbell ------------------------------------------------------------------------------------------

    #[cold]
    #[inline(never)]
    fn special<H: Handler>(&mut self, handler: &mut H, token: ConnId) {
        // An event of a connection that was closed earlier in this turn.
        if token.index != SPECIAL {
            return;
        }
        if token == DOORBELL {
            handler.mail();
        } else if token == SIGNALS {
            while let Some(Ok(Some(info))) = self.signals.as_ref().map(SignalFd::read_signal) {
                handler.signal(i32::try_from(info.ssi_signo).unwrap_or(0));
            }
        } else {
            let number = (token.generation - LISTENERS) as usize;
            if number < self.listeners.len() {
                self.accept_more |= 1 << number;
                self.accept(handler, number);
            }
        }
    }

    /// Accepts until there is nothing more, the turn's share is used up, or the system refuses.
    fn accept<H: Handler>(&mut self, handler: &mut H, number: usize) {
        for _ in 0..TURN_ACCEPTS {
            if self.accept_pause.is_some() {
                return;
            }
            match self.listeners[number].accept() {
                Ok((fd, peer)) => self.open(handler, fd, peer),
                Err(Errno::EAGAIN) => {
                    self.accept_more &= !(1 << number);
                    return;
                }
                Err(error) if concerns_one_connection(error) => {}
                // No descriptors or no memory: those who wait stay in the backlog until there is room again.
                Err(_) => {
                    self.accept_pause = Some(Instant::now() + ACCEPT_BACKOFF);
                    return;
                }
            }
        }
    }

    fn open<H: Handler>(&mut self, handler: &mut H, fd: OwnedFd, peer: super::Peer) {
        let Some(id) = self.conns.next_id() else { return };
        // No push on the hot path shall grow a list.
        self.dirty.reserve(self.conns.capacity().saturating_sub(self.dirty.len()));
        self.ready.reserve(self.conns.capacity().saturating_sub(self.ready.len()));
        let interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        if self.poller.add(&fd, EpollEvent::new(interest, id.pack())).is_err() {
            return;
        }
        let mut conn = Conn { fd, flags: 0, counted: 0, out: Out::new() };
        conn.out.adopt(self.pool.take());
        self.conns.insert(id, conn);
        let Some(conn) = self.conns.get_mut(id) else { return };
        let flow = handler.opened(id, peer, &mut conn.out);
        obey(conn, flow);
        self.settle(handler, id);
    }

    // --- output --------------------------------------------------------------------------------------------------------------

    #[inline]
    fn flush_one<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.flags &= !DIRTY;
        if conn.flags != 0 {
            return self.flush_on(handler, id);
        }
        let mut slices = sys::recycle(std::mem::take(&mut self.slices));
        conn.out.slices(&mut slices, sys::SEND_SLICES_MAX);
        let result = if slices.is_empty() { Ok(0) } else { sys::send(conn.fd.as_fd(), &slices) };
        self.slices = sys::recycle(slices);
        match result {
            Ok(n) => {
                conn.out.advance(n);
                if conn.out.is_empty() {
                    self.pool.give(conn.out.release());
                } else {
                    conn.flags |= LEFTOVER;
                    self.flush_on(handler, id);
                }
            }
            // The general path meets it again.
            Err(_) => self.flush_on(handler, id),
        }
    }

    /// Sends until the kernel takes no more, nothing is left, or the flush's share is used up.
    #[cold]
    #[inline(never)]
    fn flush_on<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.flags & ABORT != 0 {
            return self.end(handler, id, Why::Handler);
        }
        let mut sends = 0;
        while !conn.out.is_empty() && conn.flags & BLOCKED == 0 {
            if sends == FLUSH_SENDS {
                push_ready(conn, &mut self.ready, id);
                break;
            }
            sends += 1;
            let mut slices = sys::recycle(std::mem::take(&mut self.slices));
            conn.out.slices(&mut slices, sys::SEND_SLICES_MAX);
            let result = sys::send(conn.fd.as_fd(), &slices);
            self.slices = sys::recycle(slices);
            match result {
                Ok(n) => {
                    conn.out.advance(n);
                    let left = conn.out.queued();
                    if conn.flags & LEFTOVER != 0 {
                        handler.sent(id, left, &mut conn.out);
                    }
                    conn.flags |= LEFTOVER;
                }
                Err(Errno::EAGAIN) => conn.flags |= BLOCKED | LEFTOVER,
                Err(Errno::EINTR) => {}
                Err(_) => {
                    let why = if conn.flags & EOF != 0 { Why::Peer } else { Why::Error };
                    return self.end(handler, id, why);
                }
            }
        }
        self.flushed(handler, id);
    }

    /// After a flush on the general path: counts what is kept, reads on below the low mark, ends what has nothing left to send.
    fn flushed<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let empty = conn.out.is_empty();
        if empty {
            conn.flags &= !(LEFTOVER | BLOCKED);
            if conn.out.capacity() != 0 {
                self.pool.give(conn.out.release());
            }
        }
        let capacity = if empty { 0 } else { conn.out.capacity() };
        self.held_bytes = self.held_bytes + capacity - conn.counted;
        conn.counted = capacity;
        if conn.flags & THROTTLED != 0 && conn.out.queued() <= self.config.net.out_low_bytes {
            conn.flags &= !THROTTLED;
            if conn.flags & READABLE != 0 && conn.flags & DEAF == 0 {
                push_ready(conn, &mut self.ready, id);
            }
        }
        if empty && conn.flags & EOF != 0 {
            self.end(handler, id, Why::Peer);
        } else if empty && conn.flags & FINISH != 0 {
            self.finish(handler, id);
        }
    }

    /// Everything was sent to a connection that the handler gave up: half-closes it, and closes it when the peer has, too.
    fn finish<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if shutdown(conn.fd.as_raw_fd(), Shutdown::Write).is_err() {
            return self.end(handler, id, Why::Handler);
        }
        conn.flags |= GONE | READABLE;
        self.lingering.push_back((Instant::now() + LINGER, id));
        handler.closed(id, Why::Handler);
        self.drain(id);
        if self.lingering.len() > LINGER_CONNS {
            let oldest = self.lingering.pop_front();
            oldest.map(|(_, id)| self.conns.remove(id));
        }
    }

    /// Throws away what still comes; at its end, or when it is too much, the connection is closed.
    fn drain(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        for _ in 0..TURN_WINDOWS {
            match sys::recv(conn.fd.as_fd(), &mut self.window) {
                Ok(n) if n > 0 && conn.counted < LINGER_BYTES => conn.counted += n,
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                _ => {
                    self.conns.remove(id);
                    self.accept_pause = None;
                    return;
                }
            }
        }
        push_ready(conn, &mut self.ready, id);
    }

    fn end_lingering(&mut self) {
        if self.lingering.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&(until, id)) = self.lingering.front() {
            // One that is gone already is no reason to wake up for.
            if until > now && self.conns.get(id).is_some() {
                break;
            }
            self.lingering.pop_front();
            if self.conns.remove(id).is_some() {
                self.accept_pause = None;
            }
        }
    }
}

/// Enters an event in the flags.
fn note(conn: &mut Conn, bits: EpollFlags, dirty: &mut Vec<ConnId>, id: ConnId) {
    if bits.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
        conn.flags |= READABLE;
    }
    if bits.contains(EpollFlags::EPOLLRDHUP) {
        conn.flags |= RDHUP;
    }
    if bits.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
        conn.flags |= HUP | RDHUP;
    }
    if bits.contains(EpollFlags::EPOLLERR) {
        conn.flags |= FAILED;
    }
    if bits.contains(EpollFlags::EPOLLOUT) && conn.flags & BLOCKED != 0 {
        conn.flags &= !BLOCKED;
        push_dirty(conn, dirty, id);
    }
}

/// Enters the handler's answer in the flags; whether to go on reading.
fn obey(conn: &mut Conn, flow: Flow) -> bool {
    conn.flags &= !SINK;
    conn.flags |= match flow {
        Flow::Read => return true,
        Flow::Sink => {
            conn.flags |= SINK;
            return true;
        }
        Flow::Pause => PAUSED,
        Flow::Finish => FINISH,
        Flow::Abort => ABORT,
    };
    false
}

/// Errors of `accept4` that come from the connection that was not made (accept(2)); the next one may be.
fn concerns_one_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::ECONNABORTED
            | Errno::EINTR
            | Errno::EPERM
            | Errno::EPROTO
            | Errno::ENOPROTOOPT
            | Errno::ENETDOWN
            | Errno::ENETUNREACH
            | Errno::EHOSTDOWN
            | Errno::EHOSTUNREACH
            | Errno::ENONET
            | Errno::EOPNOTSUPP
    )
}

#[inline]
fn push_dirty(conn: &mut Conn, dirty: &mut Vec<ConnId>, id: ConnId) {
    if conn.flags & DIRTY == 0 {
        conn.flags |= DIRTY;
        dirty.push(id);
    }
}

fn push_ready(conn: &mut Conn, ready: &mut VecDeque<ConnId>, id: ConnId) {
    if conn.flags & READY == 0 {
        conn.flags |= READY;
        ready.push_back(id);
    }
}

impl Backend for Epoll {
    fn poll<H: Handler>(&mut self, handler: &mut H, timeout: Option<Duration>) -> io::Result<()> {
        let events = self.wait(timeout)?;
        handler.woken();
        let left_over = !self.ready.is_empty() || self.accept_more != 0 || !self.lingering.is_empty();
        self.unserved = self.ready.len();
        // A turn does something for one connection at least.
        let mut begun = false;
        if left_over {
            if self.leftovers(handler) {
                self.postpone(handler, 0..events);
                return Ok(());
            }
            begun = true;
        }
        for i in 0..events {
            if begun && handler.turn_over() {
                self.postpone(handler, i..events);
                break;
            }
            begun = true;
            self.event(handler, self.events[i]);
        }
        Ok(())
    }

    fn flush<H: Handler>(&mut self, handler: &mut H) {
        let mut i = 0;
        while let Some(&id) = self.dirty.get(i) {
            i += 1;
            self.flush_one(handler, id);
        }
        self.dirty.clear();
    }

    fn out(&mut self, conn: ConnId) -> Option<&mut Out> {
        let c = self.conns.get_mut(conn)?;
        if c.flags & DEAF != 0 {
            return None;
        }
        if c.out.capacity() == 0 {
            c.out.adopt(self.pool.take());
        }
        push_dirty(c, &mut self.dirty, conn);
        Some(&mut c.out)
    }

    fn queued(&self, conn: ConnId) -> usize {
        self.conns.get(conn).map_or(0, |c| c.out.queued())
    }

    fn resume(&mut self, conn: ConnId) {
        if let Some(c) = self.conns.get_mut(conn) {
            c.flags &= !PAUSED;
            if c.flags & READABLE != 0 && c.flags & DEAF == 0 {
                push_ready(c, &mut self.ready, conn);
            }
        }
    }

    fn close(&mut self, conn: ConnId, flow: Flow) {
        let Some(c) = self.conns.get_mut(conn) else { return };
        if c.flags & GONE != 0 {
            return;
        }
        match flow {
            Flow::Abort => c.flags |= ABORT,
            _ => c.flags |= FINISH,
        }
        push_dirty(c, &mut self.dirty, conn);
    }

    fn stop_listening(&mut self) {
        self.listeners.clear();
        self.accept_more = 0;
        self.accept_pause = None;
    }

    fn memory_bytes(&self) -> usize {
        // What this turn has written and not flushed is counted by walking the list, what waits longer was counted by the flush.
        let fresh: usize = self
            .dirty
            .iter()
            .filter_map(|id| self.conns.get(*id))
            .filter(|conn| conn.flags & GONE == 0)
            .map(|conn| conn.out.capacity().saturating_sub(conn.counted))
            .sum();
        self.conns.memory_bytes()
            + self.pool.memory_bytes()
            + self.held_bytes
            + fresh
            + self.window.len()
            + self.dirty.capacity() * size_of::<ConnId>()
            + self.ready.capacity() * size_of::<ConnId>()
            + self.lingering.capacity() * size_of::<(Instant, ConnId)>()
    }
}

#[cfg(test)]
mod tests;
