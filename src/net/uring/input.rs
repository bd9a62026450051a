//! Input: from a completion to the handler, and from one mode of a connection to another.
use super::ring::Completion;
use super::{CALM, Mode, UringDriver, conn_of};
use crate::net::sockets::{
    BLOCKED, COLLECT_MAX_BYTES, DEAF, DIRTY, GONE, PAUSED, RDHUP, READABLE, SINK, Sockets, THROTTLED, TURN_WINDOWS,
    note, obey,
};
use crate::net::{ConnId, Flow, Handler, Why};
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use std::os::fd::AsFd;

impl Sockets<UringDriver> {
    /// A completion of a connection's receive.
    #[inline]
    pub(super) fn received<H: Handler>(&mut self, handler: &mut H, completion: Completion, others: bool) {
        let id = conn_of(completion.word);
        let Some(conn) = self.conns.get_mut(id) else { return self.stale(completion) };
        let (Some(buffer), true, true) = (completion.buffer(), completion.result > 0, completion.more()) else {
            return self.input_event(handler, id, completion);
        };
        if conn.link.batch == self.driver.batch {
            return self.input_event(handler, id, completion);
        }
        if !conn.link.count(self.driver.turn) {
            return self.put_off(id, completion);
        }
        let n = usize::try_from(completion.result).unwrap_or(0);
        if conn.flags != 0 || conn.link.held || conn.link.mode != Mode::Receive {
            return self.deliver(handler, id, buffer, n);
        }
        // The common case, as with epoll.
        let start = self.driver.ring.start(buffer);
        if others && n < self.config.net.window_bytes.min(COLLECT_MAX_BYTES) {
            conn.link.batch = self.driver.batch;
            self.driver.collected.push(buffer);
            return self.collect(handler, id, start, n);
        }
        if conn.out.capacity() == 0 {
            conn.out.adopt(self.pool.take());
        }
        let flow = handler.data(id, &self.driver.ring.area()[start..start + n], &mut conn.out);
        self.driver.ring.give_back(buffer);
        if flow != Flow::Read || conn.out.is_empty() {
            obey(conn, flow);
            return self.settle(handler, id);
        }
        conn.flags = DIRTY;
        self.dirty.push(id);
    }

    #[cold]
    fn stale(&mut self, completion: Completion) {
        if self.driver.bury(completion) {
            // A descriptor is free again.
            self.accept_pause = None;
        }
    }

    /// A connection has had its share of this turn: the rest waits, and it reads by itself from now on.
    #[cold]
    fn put_off(&mut self, id: ConnId, completion: Completion) {
        self.driver.later.push(completion);
        if let Some(conn) = self.conns.get_mut(id)
            && conn.link.mode == Mode::Receive
        {
            self.driver.cancel(id, &mut conn.link);
        }
    }

    /// A completion of a connection's operation that is not the common case.
    #[cold]
    #[inline(never)]
    fn input_event<H: Handler>(&mut self, handler: &mut H, id: ConnId, completion: Completion) {
        self.hand_over(handler);
        let Some(conn) = self.conns.get_mut(id) else { return self.stale(completion) };
        if matches!(conn.link.mode, Mode::Poll | Mode::Returning) {
            return self.polled(handler, id, completion);
        }
        let (turn, windows) = (self.driver.turn, usize::from(conn.link.windows));
        if conn.link.turn == turn && windows >= TURN_WINDOWS {
            // Behind what was put off.
            return self.put_off(id, completion);
        }
        if !completion.more() {
            conn.link.mode = Mode::Idle;
        }
        match (completion.result, completion.buffer()) {
            (1.., Some(buffer)) => {
                let n = usize::try_from(completion.result).unwrap_or(0);
                let _ = conn.link.count(turn);
                self.deliver(handler, id, buffer, n);
                self.go_on(id);
            }
            (result, buffer) => {
                if let Some(buffer) = buffer {
                    self.driver.ring.give_back(buffer);
                }
                match Errno::from_raw(-result) {
                    Errno::ENOBUFS => self.driver.starved.push(id),
                    // The end, or the cancel: what follows is found by reading.
                    _ if result == 0 => self.read_by_itself(handler, id, READABLE | RDHUP),
                    Errno::ECANCELED | Errno::EINTR | Errno::EAGAIN => self.read_by_itself(handler, id, READABLE),
                    _ if conn.flags & GONE != 0 => self.discard(id),
                    _ => self.end(handler, id, Why::Error),
                }
            }
        }
    }

    /// From now on a connection is told of edges, and reads by itself.
    fn read_by_itself<H: Handler>(&mut self, handler: &mut H, id: ConnId, flags: u16) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.flags |= flags;
            // First, so that nothing that comes after the reading is missed.
            self.driver.poll(id, conn.fd.as_fd(), &mut conn.link);
            self.service(handler, id);
        }
    }

    /// A receive that has ended by itself begins anew.
    pub(super) fn go_on(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && conn.link.mode == Mode::Idle
        {
            self.driver.receive(id, conn.fd.as_fd(), &mut conn.link);
            // What made it stop is still so.
            if conn.link.held || conn.flags & BLOCKED != 0 {
                self.driver.cancel(id, &mut conn.link);
            }
        }
    }

    /// A completion of a connection's poll.
    fn polled<H: Handler>(&mut self, handler: &mut H, id: ConnId, completion: Completion) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let returning = conn.link.mode == Mode::Returning;
        if !completion.more() {
            conn.link.mode = Mode::Idle;
        }
        if completion.result > 0 {
            conn.link.calm = conn.link.calm.saturating_add(1);
            note(conn, EpollFlags::from_bits_truncate(completion.result));
            self.service(handler, id);
        }
        let Some(conn) = self.conns.get_mut(id) else { return };
        let simple = conn.flags & !DIRTY == 0 && !conn.link.held;
        if !simple {
            conn.link.calm = 0;
        }
        match conn.link.mode {
            Mode::Idle if returning && simple => self.driver.receive(id, conn.fd.as_fd(), &mut conn.link),
            Mode::Idle => self.driver.poll(id, conn.fd.as_fd(), &mut conn.link),
            Mode::Poll if conn.link.calm >= CALM => self.driver.cancel(id, &mut conn.link),
            _ => {}
        }
    }

    /// Delivers `n` bytes of a buffer to a connection in any state.
    #[cold]
    #[inline(never)]
    fn deliver<H: Handler>(&mut self, handler: &mut H, id: ConnId, buffer: u16, n: usize) {
        let start = self.driver.ring.start(buffer);
        let mut rest = start..start + n;
        while !rest.is_empty() {
            let Some(conn) = self.conns.get_mut(id) else { break };
            let bytes = &self.driver.ring.area()[rest.clone()];
            if conn.flags & DEAF != 0 {
                self.driver.cancel(id, &mut conn.link);
                return self.driver.ring.give_back(buffer);
            }
            if conn.out.queued() > self.config.net.out_high_bytes {
                conn.flags |= THROTTLED;
            }
            if conn.flags & (PAUSED | THROTTLED) != 0 || conn.link.held {
                let held = self.driver.held.entry(id).or_default();
                held.bytes.extend_from_slice(bytes);
                self.driver.held_bytes += bytes.len();
                conn.link.held = true;
                self.driver.cancel(id, &mut conn.link);
                break;
            }
            if conn.out.capacity() == 0 {
                conn.out.adopt(self.pool.take());
            }
            let flow = if conn.flags & SINK != 0 {
                let sink = handler.sink(id);
                assert!(!sink.is_empty(), "the handler's sink is empty");
                let fits = sink.len().min(bytes.len());
                sink[..fits].copy_from_slice(&bytes[..fits]);
                rest.start += fits;
                let flow = handler.sunk(id, fits, &mut conn.out);
                // The next one is received in place.
                self.driver.cancel(id, &mut conn.link);
                flow
            } else {
                rest.start = rest.end;
                handler.data(id, bytes, &mut conn.out)
            };
            obey(conn, flow);
        }
        self.driver.ring.give_back(buffer);
        self.settle(handler, id);
    }
}
