//! Events that are not of a connection: listeners, signals, the doorbell.
use super::{ACCEPT_BACKOFF, Conn, DOORBELL, Epoll, LISTENERS, SIGNALS, SPECIAL, TURN_ACCEPTS, obey};
use crate::base::out::Out;
use crate::net::{ConnId, Handler, Peer};
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::signalfd::SignalFd;
use std::os::fd::OwnedFd;
use std::time::Instant;

impl Epoll {
    #[cold]
    #[inline(never)]
    pub(super) fn special<H: Handler>(&mut self, handler: &mut H, token: ConnId) {
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
    pub(super) fn accept<H: Handler>(&mut self, handler: &mut H, number: usize) {
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

    pub(super) fn open<H: Handler>(&mut self, handler: &mut H, fd: OwnedFd, peer: Peer) {
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
