//! Output: sends at a flush, what is kept when the kernel takes no more, and the end of a connection after its last reply.
use super::{
    ABORT, BLOCKED, DEAF, DIRTY, Driver, EOF, FINISH, FLUSH_SENDS, GONE, LEFTOVER, LINGER_BYTES, LINGER_CONNS,
    READABLE, Sockets, THROTTLED, TURN_WINDOWS, push_dirty, push_ready,
};
use crate::net::{ConnId, Handler, Why, sys};
use nix::errno::Errno;
use std::time::{Duration, Instant};

impl<D: Driver> Sockets<D> {
    #[inline]
    pub(in crate::net) fn flush_one<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.flags &= !DIRTY;
        if conn.flags != 0 {
            return self.flush_on(handler, id);
        }
        // Values by reference need slices; bytes alone go as they are.
        let result = match conn.out.plain() {
            Some([]) => Ok(0),
            Some(bytes) => self.driver.send_bytes(&conn.fd, bytes),
            None => return self.flush_on(handler, id),
        };
        match result {
            Ok(n) => {
                self.sent_bytes += n as u64;
                conn.out.advance(n);
                if conn.out.is_empty() {
                    self.pool.give(conn.out.release());
                } else {
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
    pub(in crate::net) fn flush_on<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.flags & ABORT != 0 {
            return self.end(handler, id, Why::Handler);
        }
        let mut sends = 0;
        while conn.out.sendable() > 0 && conn.flags & BLOCKED == 0 {
            if sends == FLUSH_SENDS {
                push_ready(conn, &mut self.ready, id);
                break;
            }
            sends += 1;
            let mut slices = sys::recycle(std::mem::take(&mut self.slices));
            conn.out.slices(&mut slices, sys::SEND_SLICES_MAX);
            let result = self.driver.send(&conn.fd, &slices);
            self.slices = sys::recycle(slices);
            match result {
                Ok(n) => {
                    self.sent_bytes += n as u64;
                    conn.out.advance(n);
                    let left = conn.out.queued();
                    if conn.flags & LEFTOVER != 0 {
                        handler.sent(id, left, &mut conn.out);
                    }
                    conn.flags |= LEFTOVER;
                }
                Err(Errno::EAGAIN) => {
                    conn.flags |= BLOCKED | LEFTOVER;
                    self.driver.blocked(id, &mut conn.link);
                }
                Err(Errno::EINTR) => {}
                Err(_) => {
                    let why = if conn.flags & EOF != 0 { Why::Peer } else { Why::Error };
                    return self.end(handler, id, why);
                }
            }
        }
        if conn.out.is_held() {
            conn.flags |= LEFTOVER;
        }
        self.flushed(handler, id);
    }

    /// What was written in this turn, and not sent, waits for `number` (`Out::hold`).
    pub(super) fn hold_new(&mut self, number: u64) {
        for id in &self.dirty {
            if let Some(conn) = self.conns.get_mut(*id) {
                let was_held = conn.out.is_held();
                conn.out.hold(number);
                if conn.out.is_held() && !was_held {
                    self.holding.push(*id);
                }
            }
        }
    }

    /// What waited for `number` is sent at the next flush.
    pub(super) fn free_held(&mut self, number: u64) {
        let Sockets { holding, conns, dirty, .. } = self;
        holding.retain(|id| {
            let Some(conn) = conns.get_mut(*id).filter(|conn| conn.flags & GONE == 0) else { return false };
            let before = conn.out.sendable();
            conn.out.free(number);
            if conn.out.sendable() > before {
                push_dirty(conn, dirty, *id);
            }
            conn.out.is_held()
        });
    }

    /// After a flush on the general path: counts what is kept, reads on below the low mark, ends what has nothing left to send.
    pub(super) fn flushed<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
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
    pub(super) fn finish<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if self.driver.half_close(&conn.fd).is_err() {
            return self.end(handler, id, Why::Handler);
        }
        conn.flags |= GONE | READABLE;
        let until = Instant::now() + Duration::from_millis(self.config.linger_ms.into());
        self.lingering.push_back((until, id));
        self.count_off();
        handler.closed(id, Why::Handler);
        self.drain(id);
        if self.lingering.len() > LINGER_CONNS
            && let Some((_, oldest)) = self.lingering.pop_front()
        {
            self.discard(oldest);
        }
    }

    /// Throws away what still comes; at its end, or when it is too much, the connection is closed.
    pub(super) fn drain(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let window = &mut self.area[self.filled..][..self.config.net.window_bytes];
        for _ in 0..TURN_WINDOWS {
            match self.driver.drain(&conn.fd, window) {
                Ok(n) if n > 0 && conn.counted < LINGER_BYTES => conn.counted += n,
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                _ => return self.discard(id),
            }
        }
        push_ready(conn, &mut self.ready, id);
    }

    pub(super) fn end_lingering(&mut self) {
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
            self.discard(id);
        }
    }

    /// Closes a connection of whose end the handler was told already.
    pub(in crate::net) fn discard(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.remove(id) {
            self.driver.end(id, conn.fd, conn.link);
            self.accept_pause = None;
        }
    }
}
