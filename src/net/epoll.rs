//! The epoll backend: edge-triggered, registered once per connection, one `recv` and one `send` per wake-up in the common case.
//!
//! It owns the epoll instance and the events of the last wait. A connection is seen once in a poll, as all that happened to it is one event.
use super::sockets::{COLLECT_MAX_BYTES, Conn, DIRTY, Driver, READABLE, Sockets, TURN_EVENTS, note, push_ready};
use super::{ConnId, Flow, Handler, NetConfig, sys};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll as Poller, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The backend.
pub type Epoll = Sockets<EpollDriver>;

/// See the module.
pub struct EpollDriver {
    poller: Poller,
    events: Box<[EpollEvent]>,
}

#[inline]
pub(super) fn timeout(timeout: Option<Duration>) -> EpollTimeout {
    match timeout {
        None => EpollTimeout::NONE,
        Some(Duration::ZERO) => EpollTimeout::ZERO,
        // Rounded up: waking early would only mean to wait again.
        Some(t) => {
            let ms = t.as_millis() + u128::from(t.subsec_nanos() % 1_000_000 != 0);
            EpollTimeout::try_from(ms).unwrap_or(EpollTimeout::MAX)
        }
    }
}

// The promise of at most 120 bytes for an idle connection.
const _: () = assert!(super::slots::Slots::<Conn<EpollDriver>>::SLOT_BYTES <= 120);

impl Driver for EpollDriver {
    type Socket = OwnedFd;
    type Link = ();
    const NAME: &'static str = "epoll";

    fn new(_config: &NetConfig) -> io::Result<EpollDriver> {
        let poller = Poller::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(EpollDriver { poller, events: vec![EpollEvent::empty(); TURN_EVENTS].into() })
    }

    fn watch(&mut self, source: BorrowedFd<'_>, token: ConnId) -> io::Result<()> {
        Ok(self.poller.add(source, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, token.pack()))?)
    }

    /// It leaves by being closed.
    fn unwatch(&mut self, _source: BorrowedFd<'_>, _token: ConnId) {}

    fn begin(&mut self, id: ConnId, fd: &OwnedFd, (): &mut ()) -> io::Result<()> {
        let interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        Ok(self.poller.add(fd, EpollEvent::new(interest, id.pack()))?)
    }

    #[inline]
    fn end(&mut self, _id: ConnId, fd: OwnedFd, (): ()) {
        drop(fd);
    }

    #[inline]
    fn descriptor(socket: &OwnedFd) -> Option<BorrowedFd<'_>> {
        Some(socket.as_fd())
    }

    #[inline]
    fn has_more(&self) -> bool {
        false
    }

    #[inline]
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        match self.poller.wait(&mut self.events, self::timeout(timeout)) {
            Ok(n) => Ok(n),
            Err(Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn dispatch<H: Handler>(net: &mut Epoll, handler: &mut H, event: usize, others: bool) {
        let event = net.driver.events[event];
        let id = ConnId::unpack(event.data());
        let bits = event.events();
        let Some(conn) = net.conns.get_mut(id) else { return net.special(handler, id) };
        let trouble = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        if conn.flags != 0 || bits.intersects(trouble) {
            note(conn, bits);
            return net.service(handler, id);
        }
        // EPOLLOUT comes along with every event; without BLOCKED nobody waits for it.
        if !bits.contains(EpollFlags::EPOLLIN) {
            return;
        }
        // The common case: no output is queued, and one short read gets all the input.
        let window = &mut net.area[net.filled..][..net.config.net.window_bytes];
        match sys::recv(conn.fd.as_fd(), window) {
            Ok(n) if n > 0 => {
                if others && n < window.len().min(COLLECT_MAX_BYTES) {
                    return net.collect(handler, id, net.filled, n);
                }
                if conn.out.capacity() == 0 {
                    conn.out.adopt(net.pool.take());
                }
                let flow = handler.data(id, &window[..n], &mut conn.out);
                let full = n == window.len();
                if flow != Flow::Read || full || conn.out.is_empty() {
                    return net.read_on(handler, id, flow, full);
                }
                conn.flags = DIRTY;
                net.dirty.push(id);
            }
            Err(Errno::EAGAIN) => {}
            _ => {
                // The end or an error: seen again by the general path.
                conn.flags = READABLE;
                net.service(handler, id);
            }
        }
    }

    fn postpone<H: Handler>(net: &mut Epoll, handler: &mut H, events: Range<usize>) {
        for i in events {
            let event = net.driver.events[i];
            let id = ConnId::unpack(event.data());
            match net.conns.get_mut(id) {
                Some(conn) => {
                    note(conn, event.events());
                    push_ready(conn, &mut net.ready, id);
                }
                // Rare and short; a listener's are bounded.
                None => net.special(handler, id),
            }
        }
    }

    #[inline]
    fn recv(&mut self, _id: ConnId, conn: &mut Conn<EpollDriver>, buffer: &mut [u8]) -> Result<usize, Errno> {
        sys::recv(conn.fd.as_fd(), buffer)
    }

    /// An edge tells, as ever.
    #[inline]
    fn blocked(&mut self, _id: ConnId, (): &mut ()) {}

    #[inline]
    fn collected<'b>(&'b self, area: &'b [u8], filled: usize) -> &'b [u8] {
        &area[..filled]
    }

    #[inline]
    fn handed_over(&mut self) {}

    #[inline]
    fn flush<H: Handler>(net: &mut Epoll, handler: &mut H) {
        let mut i = 0;
        while let Some(&id) = net.dirty.get(i) {
            i += 1;
            net.flush_one(handler, id);
        }
        net.dirty.clear();
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
use Epoll as Tested;
/// Whether the machine has it.
#[cfg(test)]
fn available() -> bool {
    true
}
#[cfg(test)]
#[allow(clippy::duplicate_mod, reason = "the same tests for each driver")]
#[path = "sockets/several_tests.rs"]
mod several_tests;
#[cfg(test)]
#[allow(clippy::duplicate_mod, reason = "the same tests for each driver")]
#[path = "sockets/tests.rs"]
mod tests;
