//! The backend over a [`Stack`]: its connections beside those of the kernel's sockets, which there always are (Unix sockets, other interfaces,
//! listeners' bells and signals), by epoll.
//!
//! The device is among the sources of the epoll instance. While packets come without a pause the kernel is asked every few turns only.
use super::{ADDRESSES_MAX, Device, Service, Stack};
use crate::net::sockets::{
    COLLECT_MAX_BYTES, Conn, DIRTY, Driver, READABLE, SPECIAL, Sockets, TURN_EVENTS, note, push_ready,
};
use crate::net::{ConnId, Flow, Handler, NetConfig, Peer, epoll, sys};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll as Poller, EpollCreateFlags, EpollEvent, EpollFlags};
use smoltcp::time::Instant as StackTime;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The backend.
pub type Stacked<D> = Sockets<StackDriver<D>>;

/// Packets taken in at once.
const TURN_PACKETS: usize = 512;
/// Turns in a row in which the kernel is not asked for events, as packets are there.
const TURNS_ALONE: u32 = 8;
/// The device's token; there is nothing to be done about it but to look.
const DEVICE: ConnId = ConnId { index: SPECIAL, generation: u32::MAX };

/// A connection's end.
pub enum Socket {
    Kernel(OwnedFd),
    /// Its index in the stack.
    Stack(u32),
}
impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Socket {
        Socket::Kernel(fd)
    }
}

/// See the module.
pub struct StackDriver<D: Device> {
    poller: Poller,
    events: Box<[EpollEvent]>,
    /// Of the last wait.
    kernel_events: usize,
    /// Connections of the stack with something new, behind the kernel's events.
    changed: Vec<u32>,
    turns_alone: u32,
    /// The device may have more.
    more: bool,
    stack: Option<Stack<D>>,
    keepalive_s: u32,
    began: Instant,
}

impl<D: Device> Stacked<D> {
    /// Serves `services` over `device` from now on, beside the kernel's sockets. `seed` is for sequence numbers.
    ///
    /// # Errors
    /// If there are too many addresses, or the system refuses to watch the device.
    pub fn attach(&mut self, device: D, services: Vec<Service>, seed: u64) -> io::Result<()> {
        let mut addresses: Vec<_> = services.iter().map(|service| service.address.ip()).collect();
        addresses.sort();
        addresses.dedup();
        if addresses.len() > ADDRESSES_MAX {
            let text = format!("more than {ADDRESSES_MAX} addresses to serve over {}", D::NAME);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if let Some(descriptor) = device.descriptor() {
            let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
            self.driver.poller.add(descriptor, EpollEvent::new(events, DEVICE.pack()))?;
        }
        let mut stack = Stack::new(device, services, seed);
        stack.set_keepalive_s(self.driver.keepalive_s);
        self.driver.stack = Some(stack);
        self.driver.more = true;
        Ok(())
    }

    /// Something is new of a connection of the stack.
    #[inline]
    fn stack_event<H: Handler>(&mut self, handler: &mut H, index: u32, others: bool) {
        let Some(stack) = &mut self.driver.stack else { return };
        let Some(id) = stack.owner(index) else {
            if let Some((remote, local, service)) = stack.waiting(index) {
                let fd = i32::try_from(index).unwrap_or(-1);
                let peer = Peer { remote: remote.to_string(), local: local.to_string(), fd, unix: false, service };
                self.open_own(handler, Socket::Stack(index), peer);
            }
            return;
        };
        let Some(conn) = self.conns.get_mut(id) else { return };
        let bits = readiness(stack, index);
        if conn.flags != 0 || bits.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLERR) {
            note(conn, bits);
            return self.service(handler, id);
        }
        if !bits.contains(EpollFlags::EPOLLIN) {
            return;
        }
        // The common case, as with epoll.
        let window = &mut self.area[self.filled..][..self.config.net.window_bytes];
        match stack.recv(index, window) {
            Ok(n) if n > 0 => {
                if others && n < window.len().min(COLLECT_MAX_BYTES) {
                    return self.collect(handler, id, self.filled, n);
                }
                if conn.out.capacity() == 0 {
                    conn.out.adopt(self.pool.take());
                }
                let flow = handler.data(id, &window[..n], &mut conn.out);
                let full = n == window.len();
                if flow != Flow::Read || full || conn.out.is_empty() {
                    return self.read_on(handler, id, flow, full);
                }
                conn.flags = DIRTY;
                self.dirty.push(id);
            }
            _ => {
                conn.flags = READABLE;
                self.service(handler, id);
            }
        }
    }
}

fn readiness<D: Device>(stack: &mut Stack<D>, index: u32) -> EpollFlags {
    let ready = stack.readiness(index);
    let mut bits = EpollFlags::empty();
    bits.set(EpollFlags::EPOLLIN, ready.readable || ready.ended);
    bits.set(EpollFlags::EPOLLRDHUP, ready.ended);
    bits.set(EpollFlags::EPOLLERR, ready.failed);
    // Who waits for room learns of the failure by sending.
    bits.set(EpollFlags::EPOLLOUT, ready.writable || ready.failed);
    bits
}

impl<D: Device> StackDriver<D> {
    fn now(&self) -> StackTime {
        StackTime::from_micros(i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    fn ask_kernel(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.kernel_events = match self.poller.wait(&mut self.events, epoll::timeout(timeout)) {
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }

    fn take_input(&mut self) -> bool {
        let now = self.now();
        let Some(stack) = &mut self.stack else { return false };
        let packets = stack.input(now, TURN_PACKETS);
        self.more = packets == TURN_PACKETS;
        stack.run_timers(now);
        stack.take_changed(&mut self.changed);
        packets > 0 || stack.has_due()
    }
}

impl<D: Device> Driver for StackDriver<D> {
    type Socket = Socket;
    type Link = ();
    const NAME: &'static str = D::NAME;

    fn new(_config: &NetConfig) -> io::Result<StackDriver<D>> {
        Ok(StackDriver {
            poller: Poller::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: vec![EpollEvent::empty(); TURN_EVENTS].into(),
            kernel_events: 0,
            changed: Vec::new(),
            turns_alone: 0,
            more: false,
            stack: None,
            keepalive_s: 0,
            began: Instant::now(),
        })
    }

    fn watch(&mut self, source: BorrowedFd<'_>, token: ConnId) -> io::Result<()> {
        Ok(self.poller.add(source, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, token.pack()))?)
    }

    /// The listeners go together.
    fn unwatch(&mut self, _source: BorrowedFd<'_>, _token: ConnId) {
        if let Some(stack) = &mut self.stack {
            stack.stop_listening();
        }
    }

    fn begin(&mut self, id: ConnId, socket: &Socket, (): &mut ()) -> io::Result<()> {
        match socket {
            Socket::Kernel(fd) => {
                let interest =
                    EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
                Ok(self.poller.add(fd, EpollEvent::new(interest, id.pack()))?)
            }
            Socket::Stack(index) => {
                if let Some(stack) = &mut self.stack {
                    stack.attach(*index, id);
                }
                Ok(())
            }
        }
    }

    fn end(&mut self, _id: ConnId, socket: Socket, (): ()) {
        if let (Socket::Stack(index), Some(stack)) = (socket, &mut self.stack) {
            stack.leave(index);
        }
    }

    fn descriptor(socket: &Socket) -> Option<BorrowedFd<'_>> {
        match socket {
            Socket::Kernel(fd) => Some(fd.as_fd()),
            Socket::Stack(_) => None,
        }
    }

    #[inline]
    fn send_bytes(&mut self, socket: &Socket, bytes: &[u8]) -> Result<usize, Errno> {
        match (socket, &mut self.stack) {
            (Socket::Stack(index), Some(stack)) => stack.send(*index, bytes),
            (Socket::Kernel(fd), _) => sys::send_bytes(fd.as_fd(), bytes),
            _ => Err(Errno::EBADF),
        }
    }

    fn send(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        if let Socket::Kernel(fd) = socket {
            return sys::send(fd.as_fd(), slices);
        }
        let mut taken = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            match self.send_bytes(socket, slice) {
                Ok(n) => {
                    taken += n;
                    if n < slice.len() {
                        break;
                    }
                }
                Err(error) if taken == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(taken)
    }

    fn drain(&mut self, socket: &Socket, buffer: &mut [u8]) -> Result<usize, Errno> {
        match (socket, &mut self.stack) {
            (Socket::Stack(index), Some(stack)) => stack.recv(*index, buffer),
            (Socket::Kernel(fd), _) => sys::recv(fd.as_fd(), buffer),
            _ => Err(Errno::EBADF),
        }
    }

    fn half_close(&mut self, socket: &Socket) -> Result<(), Errno> {
        match (socket, &mut self.stack) {
            (Socket::Stack(index), Some(stack)) => stack.half_close(*index),
            (Socket::Kernel(fd), _) => sys::half_close(fd.as_fd()),
            _ => Err(Errno::EBADF),
        }
    }

    fn set_tcp_keepalive_s(&mut self, seconds: u32) {
        self.keepalive_s = seconds;
        if let Some(stack) = &mut self.stack {
            stack.set_keepalive_s(seconds);
        }
    }

    fn has_more(&self) -> bool {
        self.more || self.stack.as_ref().is_some_and(Stack::has_changed)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.kernel_events = 0;
        self.changed.clear();
        let busy = self.take_input();
        if busy || !self.changed.is_empty() {
            self.turns_alone += 1;
            if self.turns_alone >= TURNS_ALONE {
                self.turns_alone = 0;
                self.ask_kernel(Some(Duration::ZERO))?;
            }
        } else {
            self.turns_alone = 0;
            let timer = self.stack.as_ref().and_then(Stack::next_timer).map(|at| {
                let us = (at.total_micros() - self.now().total_micros()).max(0);
                Duration::from_micros(u64::try_from(us).unwrap_or(0))
            });
            self.ask_kernel(timer.into_iter().chain(timeout).min())?;
            self.take_input();
        }
        Ok(self.kernel_events + self.changed.len())
    }

    #[inline]
    fn dispatch<H: Handler>(net: &mut Stacked<D>, handler: &mut H, event: usize, others: bool) {
        if let Some(behind) = event.checked_sub(net.driver.kernel_events) {
            let index = net.driver.changed[behind];
            return net.stack_event(handler, index, others);
        }
        let event = net.driver.events[event];
        let id = ConnId::unpack(event.data());
        match net.conns.get_mut(id) {
            Some(conn) => {
                note(conn, event.events());
                net.service(handler, id);
            }
            None if id != DEVICE => net.special(handler, id),
            None => {}
        }
    }

    fn postpone<H: Handler>(net: &mut Stacked<D>, handler: &mut H, events: Range<usize>) {
        for event in events {
            let (id, bits) = if let Some(behind) = event.checked_sub(net.driver.kernel_events) {
                let index = net.driver.changed[behind];
                let Some(stack) = &mut net.driver.stack else { continue };
                let Some(id) = stack.owner(index) else {
                    stack.mark_changed(index);
                    continue;
                };
                (id, readiness(stack, index))
            } else {
                let event = net.driver.events[event];
                (ConnId::unpack(event.data()), event.events())
            };
            match net.conns.get_mut(id) {
                Some(conn) => {
                    note(conn, bits);
                    push_ready(conn, &mut net.ready, id);
                }
                None if id != DEVICE => net.special(handler, id),
                None => {}
            }
        }
    }

    fn recv(&mut self, _id: ConnId, conn: &mut Conn<StackDriver<D>>, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.drain(&conn.fd, buffer)
    }

    /// An acknowledgement tells.
    fn blocked(&mut self, _id: ConnId, (): &mut ()) {}

    fn collected<'b>(&'b self, area: &'b [u8], filled: usize) -> &'b [u8] {
        &area[..filled]
    }

    fn handed_over(&mut self) {}

    fn flush<H: Handler>(net: &mut Stacked<D>, handler: &mut H) {
        let mut i = 0;
        while let Some(&id) = net.dirty.get(i) {
            i += 1;
            net.flush_one(handler, id);
        }
        net.dirty.clear();
        let now = net.driver.now();
        if let Some(stack) = &mut net.driver.stack {
            stack.flush(now);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.stack.as_ref().map_or(0, Stack::memory_bytes)
    }
}
