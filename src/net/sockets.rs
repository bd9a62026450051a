//! Backends over the kernel's sockets: connections, their input and output, accepting and lingering. How the kernel is asked for events is
//! the [`Driver`]'s: [`super::epoll`] or [`super::uring`], one type of backend each.
//!
//! It owns the descriptors, one receive area for all connections, and the output buffers, which an idle connection does not hold.
//! It knows nothing of protocols.
//!
//! Short inputs of connections in the common case are collected in the area and handed over as one batch, when the events of the poll or the
//! room for collecting are used up, or the turn is over; a large input is handed over at once, as it is a batch by itself.
//!
//! ```text
//! area   | input | input | input | ... collected   | window: room for one recv |          |
//!                                                  ^ filled, at most COLLECTED_BYTES
//! ```
//!
//! # Invariants
//! - A flag `READABLE` that is not set means: the kernel holds nothing unread, or a new edge (a completion) will tell. Whoever stops reading early
//!   leaves it set; whoever makes reading possible again puts such a connection on the ready list.
//! - `BLOCKED` means: the last send ended with EAGAIN, so an edge of EPOLLOUT will come. Output that is queued without it is on the way to
//!   a flush: its connection is in `dirty`, or in `ready`.
//! - A connection is in `dirty` (`ready`) once at most, and exactly while its flag `DIRTY` (`READY`) is set. Entries whose id is dead are
//!   skipped.
//! - What is collected is handed over before its connection has any other event: only `Driver::dispatch` collects, after
//!   `Sockets::leftovers`; and nothing is collected when `poll` returns.
//! - Work that is left over makes the next `poll` not wait.
//! - The common case, a connection whose flags are 0, takes the path `Driver::dispatch`, `Driver::flush`, which neither
//!   allocates nor searches. Everything else is in `Sockets::service` and the functions below it.
mod accept;
mod collect;
mod input;
mod output;

use super::listen::{self, Listen, Listener, LocalAddr};
use super::pool::Pool;
use super::slots::Slots;
use super::{Backend, ConnId, Doorbell, Flow, Handler, Input, NetConfig, Seat, Tuning, signals, sys};
use crate::base::out::Out;
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Events taken from the kernel in one turn.
pub(super) const TURN_EVENTS: usize = 512;
/// An input of this length is not collected: its requests hide the latency of memory among themselves, and so many would leave the caches.
pub(super) const COLLECT_MAX_BYTES: usize = 2048;
/// Collected inputs are handed over when they are so many bytes: 50 clients with 16 requests each have their batch, and a turn that is over
/// has little left to run.
pub(super) const COLLECTED_BYTES: usize = 32 << 10;
/// Windows one connection gets in a turn before the others have theirs.
pub(super) const TURN_WINDOWS: usize = 4;
/// The most that is received into a sink at once: 25 us of copying.
const SINK_READ_BYTES: usize = 256 << 10;
/// Sends for one connection in a flush, when the kernel takes everything and the handler has always more.
const FLUSH_SENDS: usize = 8;
/// Connections accepted from a listener in one turn.
const TURN_ACCEPTS: usize = 64;
/// Without descriptors or memory, accepting pauses for this long (or until a connection closes).
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// Input of a lingering connection that is thrown away before it is closed all the same.
pub(super) const LINGER_BYTES: usize = 4 << 20;
/// Connections that linger at the same time; the oldest gives way.
const LINGER_CONNS: usize = 1024;

/// Index of tokens that are not connections; `Slots` never gives it out.
pub(super) const SPECIAL: u32 = u32::MAX;
const DOORBELL: ConnId = ConnId { index: SPECIAL, generation: 0 };
const SIGNALS: ConnId = ConnId { index: SPECIAL, generation: 1 };
const LISTENERS: u32 = 2;
/// Bit of `Sockets::accept_more`: connections of other workers may wait. The bits below are those of listeners.
const INBOX: u64 = 1 << LISTENERS_MAX;
const LISTENERS_MAX: usize = 63;

/// There may be unread input.
pub(super) const READABLE: u16 = 1;
/// The peer closed its sending side: read until 0, a short read is not the end.
pub(super) const RDHUP: u16 = 1 << 1;
/// The peer is gone altogether.
const HUP: u16 = 1 << 2;
/// The transport failed.
const FAILED: u16 = 1 << 3;
/// `Flow::Pause`.
pub(super) const PAUSED: u16 = 1 << 4;
/// More than `out_high_bytes` are queued.
pub(super) const THROTTLED: u16 = 1 << 5;
/// `Flow::Sink`.
pub(super) const SINK: u16 = 1 << 6;
/// Output of an earlier wake-up is queued: `sent` is due when it goes.
const LEFTOVER: u16 = 1 << 7;
/// The kernel takes no more output for now.
pub(super) const BLOCKED: u16 = 1 << 8;
/// In `dirty`.
pub(super) const DIRTY: u16 = 1 << 9;
/// In `ready`.
const READY: u16 = 1 << 10;
/// The input has ended.
const EOF: u16 = 1 << 11;
/// `Flow::Finish`.
const FINISH: u16 = 1 << 12;
/// `Flow::Abort` from outside of an event.
const ABORT: u16 = 1 << 13;
/// `closed` was called; only the descriptor is left.
pub(super) const GONE: u16 = 1 << 14;
/// `hung_up` was asked.
const ASKED: u16 = 1 << 15;
/// The input is of no interest any more.
pub(super) const DEAF: u16 = EOF | FINISH | ABORT | GONE;

/// A way of asking the kernel for events of descriptors.
///
/// What it is told by its events it enters in the flags of connections ([`note`]), or delivers itself; everything else is done by [`Sockets`].
pub trait Driver: Sized {
    /// A connection's end of the transport.
    type Socket: From<OwnedFd> + Send;
    /// What it keeps of a connection.
    type Link: Default + Send;
    /// As INFO tells it.
    const NAME: &'static str;

    /// # Errors
    /// If the system refuses.
    fn new(config: &NetConfig) -> io::Result<Self>;
    /// From now on `source` (a listener, the doorbell, signals) tells of input, by `token`: of each that comes, not of what lies there.
    fn watch(&mut self, source: BorrowedFd<'_>, token: ConnId) -> io::Result<()>;
    /// A listener is about to be closed.
    fn unwatch(&mut self, source: BorrowedFd<'_>, token: ConnId);
    /// From now on a connection tells of its events.
    fn begin(&mut self, id: ConnId, socket: &Self::Socket, link: &mut Self::Link) -> io::Result<()>;
    /// Closes a connection, whose id is dead.
    fn end(&mut self, id: ConnId, socket: Self::Socket, link: Self::Link);
    /// The kernel's socket; `None`: it is another's, and the four calls below are the driver's own.
    fn descriptor(socket: &Self::Socket) -> Option<BorrowedFd<'_>>;
    /// Takes what it can of the bytes.
    #[inline]
    fn send_bytes(&mut self, socket: &Self::Socket, bytes: &[u8]) -> Result<usize, Errno> {
        sys::send_bytes(Self::descriptor(socket).ok_or(Errno::EBADF)?, bytes)
    }
    /// The same of several slices.
    #[inline]
    fn send(&mut self, socket: &Self::Socket, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        sys::send(Self::descriptor(socket).ok_or(Errno::EBADF)?, slices)
    }
    /// Receives what is to be thrown away.
    fn drain(&mut self, socket: &Self::Socket, buffer: &mut [u8]) -> Result<usize, Errno> {
        sys::recv(Self::descriptor(socket).ok_or(Errno::EBADF)?, buffer)
    }
    /// Nothing more will be sent.
    fn half_close(&mut self, socket: &Self::Socket) -> Result<(), Errno> {
        sys::half_close(Self::descriptor(socket).ok_or(Errno::EBADF)?)
    }
    /// The settings of connections that are accepted from now on have changed.
    fn set_tcp_keepalive_s(&mut self, _seconds: u32) {}
    /// Events of the last wait are left.
    fn has_more(&self) -> bool;
    /// Waits for events; returns how many there are. A signal may end the wait.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize>;
    /// Acts on an event. `others`: more came with it.
    fn dispatch<H: Handler>(net: &mut Sockets<Self>, handler: &mut H, event: usize, others: bool);
    /// Keeps events for the next turn.
    fn postpone<H: Handler>(net: &mut Sockets<Self>, handler: &mut H, events: Range<usize>);
    /// Receives, for a connection that is [`READABLE`].
    fn recv(&mut self, id: ConnId, conn: &mut Conn<Self>, buffer: &mut [u8]) -> Result<usize, Errno>;
    /// The kernel takes no more output of a connection: it is to be told of when it does.
    fn blocked(&mut self, id: ConnId, link: &mut Self::Link);
    /// The bytes among which collected inputs are: they lie in `area`, which has so many, or in memory of its own.
    fn collected<'b>(&'b self, area: &'b [u8], filled: usize) -> &'b [u8];
    /// Collected inputs were handed over.
    fn handed_over(&mut self);
    /// Sends what the connections of `Sockets::dirty` have to send.
    fn flush<H: Handler>(net: &mut Sockets<Self>, handler: &mut H);
    /// Memory held for connections.
    fn memory_bytes(&self) -> usize;
}

pub struct Conn<D: Driver> {
    pub(super) fd: D::Socket,
    pub(super) flags: u16,
    /// While output waits beyond a flush: the capacity that `Sockets::held_bytes` counts for it. While lingering: bytes thrown away.
    counted: usize,
    pub(super) out: Out,
    pub(super) link: D::Link,
}

/// Settings of this backend.
#[derive(Clone, Debug)]
pub struct SocketConfig {
    pub net: NetConfig,
    /// How long to look for events before sleeping in the kernel, in microseconds.
    pub spin_us: u32,
    /// How long a finished connection stays half-open so that its peer can read the last reply, in milliseconds: closing with unread
    /// input, or receiving more after it, resets the connection.
    pub linger_ms: u32,
}
impl Default for SocketConfig {
    fn default() -> SocketConfig {
        SocketConfig { net: NetConfig::default(), spin_us: 0, linger_ms: 1000 }
    }
}

/// See the module.
pub struct Sockets<D: Driver> {
    pub(super) driver: D,
    pub(super) config: SocketConfig,
    pub(super) area: Box<[u8]>,
    /// Bytes of `area` that `inputs` take.
    pub(super) filled: usize,
    pub(super) inputs: Vec<Input>,
    /// Connections whose answer to a batch was another one than to read on with output.
    unsettled: Vec<ConnId>,
    pub(super) conns: Slots<Conn<D>>,
    pub(super) pool: Pool,
    /// Connections with something to flush.
    pub(super) dirty: Vec<ConnId>,
    /// Connections whose output waits for a release, in part at least.
    holding: Vec<ConnId>,
    /// Connections with something to do in the next turn, in order.
    pub(super) ready: VecDeque<ConnId>,
    /// Of those, so many stood there before this turn, and were not served in it yet.
    unserved: usize,
    /// An empty vector, kept for its allocation.
    slices: Vec<IoSlice<'static>>,
    /// Capacity of the outputs that wait beyond a flush.
    held_bytes: usize,
    pub(super) sent_bytes: u64,
    listeners: Vec<Listener>,
    /// Bit `i`: listener `i` may have more to accept; and `INBOX`.
    accept_more: u64,
    /// No accepting before then.
    pub(super) accept_pause: Option<Instant>,
    /// In order of the time at which they are closed.
    lingering: VecDeque<(Instant, ConnId)>,
    doorbell: Doorbell,
    signals: Option<SignalFd>,
    /// With several workers: what it shares with the others.
    seat: Option<Seat>,
}

impl<D: Driver> Sockets<D> {
    /// # Errors
    /// If the system refuses what the driver needs.
    pub fn new(config: SocketConfig) -> io::Result<Sockets<D>> {
        assert!(config.net.window_bytes > 0 && config.net.out_low_bytes <= config.net.out_high_bytes);
        let mut driver = D::new(&config.net)?;
        let doorbell = Doorbell::new()?;
        // Every ring is told of, so that the counter need not be read.
        driver.watch(doorbell.as_fd(), DOORBELL)?;
        Ok(Sockets {
            driver,
            area: vec![0; COLLECTED_BYTES + config.net.window_bytes].into(),
            filled: 0,
            inputs: Vec::with_capacity(TURN_EVENTS),
            unsettled: Vec::with_capacity(TURN_EVENTS),
            config,
            conns: Slots::new(),
            pool: Pool::new(),
            dirty: Vec::new(),
            holding: Vec::new(),
            ready: VecDeque::new(),
            unserved: 0,
            slices: Vec::with_capacity(sys::SEND_SLICES_MAX),
            held_bytes: 0,
            sent_bytes: 0,
            listeners: Vec::new(),
            accept_more: 0,
            accept_pause: None,
            lingering: VecDeque::new(),
            doorbell,
            signals: None,
            seat: None,
        })
    }

    /// Listens on everything that `listen` names, or fails and changes nothing.
    pub fn listen(&mut self, listen: &Listen) -> io::Result<()> {
        self.watch(listen::open(listen)?)
    }

    /// Listens on the TCP addresses of `first`, the backend of another worker that listens already: the first of several workers finds out
    /// the addresses (a port 0 has become a number, what was optional and missing is left out) and whether they are free. A Unix
    /// socket stays with it. `listen` is that of `first`.
    pub fn listen_beside(&mut self, first: &Self, listen: &Listen) -> io::Result<()> {
        self.watch(listen::open_beside(&first.listeners, listen)?)
    }

    fn watch(&mut self, opened: Vec<Listener>) -> io::Result<()> {
        if self.listeners.len() + opened.len() > LISTENERS_MAX {
            let text = format!("more than {LISTENERS_MAX} addresses to listen on");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        for (listener, number) in opened.iter().zip(self.listeners.len()..) {
            if let Err(error) = self.driver.watch(listener.as_fd(), listener_token(number)) {
                let watched = opened.iter().zip(self.listeners.len()..number);
                watched.for_each(|(listener, number)| self.driver.unwatch(listener.as_fd(), listener_token(number)));
                return Err(error);
            }
        }
        self.listeners.extend(opened);
        Ok(())
    }

    /// Where it listens, with the ports that the kernel chose.
    pub fn local_addrs(&self) -> Vec<LocalAddr> {
        self.listeners.iter().map(|listener| listener.address().clone()).collect()
    }

    /// Where it listens for TCP, each with its service.
    pub fn tcp_services(&self) -> Vec<(SocketAddr, u8)> {
        let tcp = |listener: &Listener| match listener.address() {
            LocalAddr::Tcp(address) => Some((*address, listener.service())),
            LocalAddr::Unix(_) => None,
        };
        self.listeners.iter().filter_map(tcp).collect()
    }

    /// The keep-alive interval of connections accepted from now on; 0 is none.
    pub fn set_tcp_keepalive_s(&mut self, seconds: u32) -> io::Result<()> {
        self.driver.set_tcp_keepalive_s(seconds);
        self.listeners.iter().try_for_each(|listener| listener.set_keepalive(seconds))
    }

    /// How long to look for events before sleeping in the kernel.
    pub fn set_spin_us(&mut self, spin_us: u32) {
        self.config.spin_us = spin_us;
    }

    /// Delivers SIGTERM and SIGINT as `Handler::signal`, whatever thread this backend runs on. Blocks them in the calling thread as
    /// [`super::block_signals`] does: call it, or that, before the first thread is started. Of several workers one does this.
    pub fn enable_signals(&mut self) -> io::Result<()> {
        let set = signals::terminating();
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        self.driver.watch(signals.as_fd(), SIGNALS)?;
        self.signals = Some(signals);
        Ok(())
    }

    /// The bell that wakes this backend from another thread.
    pub fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let mut timeout = timeout;
        if !self.ready.is_empty() || self.accept_more != 0 || !self.lingering.is_empty() || self.driver.has_more() {
            timeout = self.wait_for_work(timeout);
        }
        if self.config.spin_us > 0 && timeout != Some(Duration::ZERO) {
            let spin = Duration::from_micros(self.config.spin_us.into());
            let end = Instant::now() + timeout.map_or(spin, |timeout| timeout.min(spin));
            loop {
                let events = self.driver.wait(Some(Duration::ZERO))?;
                if events > 0 {
                    return Ok(events);
                }
                if Instant::now() >= end {
                    break;
                }
            }
            if timeout.is_some_and(|timeout| timeout <= spin) {
                return Ok(0);
            }
        }
        self.driver.wait(timeout)
    }

    /// The timeout with regard to what is left to do.
    #[cold]
    fn wait_for_work(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let inbox = self.accept_more & INBOX != 0;
        if !self.ready.is_empty()
            || inbox
            || self.driver.has_more()
            || (self.accept_more != 0 && self.accept_pause.is_none())
        {
            return Some(Duration::ZERO);
        }
        let accept = if self.accept_more != 0 { self.accept_pause } else { None };
        let linger = self.lingering.front().map(|(until, _)| *until);
        let due = accept.into_iter().chain(linger).min().map(|due| due.saturating_duration_since(Instant::now()));
        due.into_iter().chain(timeout).min()
    }
}

fn listener_token(number: usize) -> ConnId {
    ConnId { index: SPECIAL, generation: LISTENERS + u32::try_from(number).unwrap_or(u32::MAX - LISTENERS) }
}

/// Enters an event in the flags; the bits are those of poll(2), too.
pub(super) fn note<D: Driver>(conn: &mut Conn<D>, bits: EpollFlags) {
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
    if bits.contains(EpollFlags::EPOLLOUT) {
        // `service` puts it on the list of the flush.
        conn.flags &= !BLOCKED;
    }
}

/// Enters the handler's answer in the flags; whether to go on reading.
pub(super) fn obey<D: Driver>(conn: &mut Conn<D>, flow: Flow) -> bool {
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

#[inline]
pub(super) fn push_dirty<D: Driver>(conn: &mut Conn<D>, dirty: &mut Vec<ConnId>, id: ConnId) {
    if conn.flags & DIRTY == 0 {
        conn.flags |= DIRTY;
        dirty.push(id);
    }
}

pub(super) fn push_ready<D: Driver>(conn: &mut Conn<D>, ready: &mut VecDeque<ConnId>, id: ConnId) {
    if conn.flags & READY == 0 {
        conn.flags |= READY;
        ready.push_back(id);
    }
}

impl<D: Driver> Backend for Sockets<D> {
    fn poll<H: Handler>(&mut self, handler: &mut H, timeout: Option<Duration>) -> io::Result<()> {
        let events = self.wait(timeout)?;
        handler.woken();
        let left_over = !self.ready.is_empty() || self.accept_more != 0 || !self.lingering.is_empty();
        self.unserved = self.ready.len();
        // A turn does something for one connection at least.
        let mut begun = false;
        if left_over {
            begun = !self.ready.is_empty();
            if self.leftovers(handler) {
                self.postpone(handler, 0..events);
                return Ok(());
            }
        }
        for i in 0..events {
            if begun && handler.turn_over() {
                self.hand_over(handler);
                self.postpone(handler, i..events);
                return Ok(());
            }
            begun = true;
            D::dispatch(self, handler, i, events > 1);
        }
        self.hand_over(handler);
        Ok(())
    }

    fn flush<H: Handler>(&mut self, handler: &mut H) {
        D::flush(self, handler);
    }

    fn hold(&mut self, number: u64) {
        self.hold_new(number);
    }

    fn release(&mut self, number: u64) {
        if !self.holding.is_empty() {
            self.free_held(number);
        }
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
        debug_assert!(matches!(flow, Flow::Finish | Flow::Abort));
        c.flags |= if flow == Flow::Abort { ABORT } else { FINISH };
        push_dirty(c, &mut self.dirty, conn);
    }

    fn join(&mut self, seat: Seat) {
        debug_assert!(self.seat.is_none() && self.conns.len() == 0);
        seat.take_part(self.doorbell.clone());
        self.seat = Some(seat);
    }

    fn tune(&mut self, tuning: &Tuning) {
        self.set_spin_us(tuning.spin_us);
        if let Err(error) = self.set_tcp_keepalive_s(tuning.tcp_keepalive_s) {
            log::warn!("Cannot set tcp-keepalive: {error}");
        }
    }

    fn stop_listening(&mut self) {
        if let Some(seat) = &self.seat {
            seat.leave();
        }
        for (number, listener) in self.listeners.iter().enumerate() {
            self.driver.unwatch(listener.as_fd(), listener_token(number));
        }
        self.listeners.clear();
        self.accept_more = 0;
        self.accept_pause = None;
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn connections(&self) -> usize {
        self.conns.len()
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
            + self.area.len()
            + self.driver.memory_bytes()
            + (self.inputs.capacity() * size_of::<Input>() + self.unsettled.capacity() * size_of::<ConnId>())
            + (self.dirty.capacity() + self.holding.capacity()) * size_of::<ConnId>()
            + self.ready.capacity() * size_of::<ConnId>()
            + self.lingering.capacity() * size_of::<(Instant, ConnId)>()
    }
}
