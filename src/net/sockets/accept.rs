//! Events that are not of a connection: listeners, signals, the doorbell, connections that other workers have accepted.
use super::{ACCEPT_BACKOFF, Conn, DOORBELL, Driver, INBOX, LISTENERS, SIGNALS, SPECIAL, Sockets, TURN_ACCEPTS, obey};
use crate::base::out::Out;
use crate::net::balance::Handover;
use crate::net::{ConnId, Handler, Peer, Seat};
use nix::errno::Errno;
use nix::sys::signalfd::SignalFd;
use std::time::Instant;

impl<D: Driver> Sockets<D> {
    #[cold]
    #[inline(never)]
    pub(in crate::net) fn special<H: Handler>(&mut self, handler: &mut H, token: ConnId) {
        // An event of a connection that was closed earlier in this turn.
        if token.index != SPECIAL {
            return;
        }
        if token == DOORBELL {
            if self.seat.is_some() {
                self.adopt(handler);
            }
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
                Ok((fd, peer)) => match &self.seat {
                    None => self.open(handler, fd.into(), peer),
                    Some(seat) => {
                        if let Some(Handover { fd, peer }) = seat.place_accepted(fd, peer) {
                            self.open(handler, fd.into(), peer);
                        }
                    }
                },
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

    /// Opens what other workers have accepted for this one, as many as it would accept itself in a turn.
    pub(super) fn adopt<H: Handler>(&mut self, handler: &mut H) {
        self.accept_more |= INBOX;
        for _ in 0..TURN_ACCEPTS {
            let Some(Handover { fd, peer }) = self.seat.as_ref().and_then(Seat::next) else {
                self.accept_more &= !INBOX;
                return;
            };
            self.open(handler, fd.into(), peer);
        }
    }

    /// Serves a connection from now on; if the system refuses, it is closed.
    fn open<H: Handler>(&mut self, handler: &mut H, socket: D::Socket, peer: Peer) {
        if self.register(handler, socket, peer).is_none()
            && let Some(seat) = &self.seat
        {
            seat.failed();
        }
    }

    /// Serves a connection that no other worker can take.
    pub(in crate::net) fn open_own<H: Handler>(&mut self, handler: &mut H, socket: D::Socket, peer: Peer) {
        if let Some(seat) = &self.seat {
            seat.keep();
        }
        self.open(handler, socket, peer);
    }

    /// A connection that was open is none any more: `closed` is about to be called.
    pub(super) fn count_off(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.closed();
        }
    }

    fn register<H: Handler>(&mut self, handler: &mut H, socket: D::Socket, peer: Peer) -> Option<()> {
        let id = self.conns.next_id()?;
        // No push on the hot path shall grow a list.
        self.dirty.reserve(self.conns.capacity().saturating_sub(self.dirty.len()));
        self.ready.reserve(self.conns.capacity().saturating_sub(self.ready.len()));
        let mut conn = Conn { fd: socket, flags: 0, counted: 0, out: Out::new(), link: D::Link::default() };
        self.driver.begin(id, &conn.fd, &mut conn.link).ok()?;
        conn.out.adopt(self.pool.take());
        self.conns.insert(id, conn);
        if let Some(seat) = &mut self.seat {
            seat.opened();
        }
        let Some(conn) = self.conns.get_mut(id) else { return Some(()) };
        let flow = handler.opened(id, peer, &mut conn.out);
        obey(conn, flow);
        self.settle(handler, id);
        Some(())
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
