//! Input: from an event of the kernel to the handler, and what follows from its answer.
use super::{
    ABORT, ASKED, BLOCKED, DEAF, DIRTY, Driver, EOF, FAILED, FINISH, GONE, HUP, INBOX, LEFTOVER, PAUSED, RDHUP,
    READABLE, READY, SINK, SINK_READ_BYTES, Sockets, THROTTLED, TURN_WINDOWS, obey, push_dirty, push_ready,
};
use crate::net::{ConnId, Flow, Handler, Why};
use nix::errno::Errno;
use std::time::Instant;

impl<D: Driver> Sockets<D> {
    /// Goes on after the first window when that was not the end of it.
    #[cold]
    #[inline(never)]
    pub(in crate::net) fn read_on<H: Handler>(&mut self, handler: &mut H, id: ConnId, flow: Flow, full: bool) {
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
    pub(in crate::net) fn service<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
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
    pub(super) fn ask_hung_up<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
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
    pub(super) fn read_windows<H: Handler>(&mut self, handler: &mut H, id: ConnId, windows: usize) {
        let mut left = windows;
        let Some(conn) = self.conns.get_mut(id) else { return };
        let window = &mut self.area[self.filled..][..self.config.net.window_bytes];
        loop {
            if conn.out.queued() > self.config.net.out_high_bytes {
                conn.flags |= THROTTLED;
                break;
            }
            let (result, asked) = if conn.flags & SINK != 0 {
                let sink = handler.sink(id);
                assert!(!sink.is_empty(), "the handler's sink is empty");
                let asked = sink.len().min(SINK_READ_BYTES);
                (self.driver.recv(id, conn, &mut sink[..asked]), asked)
            } else {
                (self.driver.recv(id, conn, window), window.len())
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
                        handler.data(id, &window[..n], &mut conn.out)
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
    pub(in crate::net) fn settle<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
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
    pub(in crate::net) fn end<H: Handler>(&mut self, handler: &mut H, id: ConnId, why: Why) {
        let Some(mut conn) = self.conns.remove(id) else { return };
        self.held_bytes -= conn.counted;
        if conn.out.is_empty() && conn.out.capacity() != 0 {
            self.pool.give(conn.out.release());
        }
        self.driver.end(id, conn.fd, conn.link);
        // A descriptor is free again.
        self.accept_pause = None;
        self.count_off();
        handler.closed(id, why);
    }

    /// What is left of earlier turns, in order. Returns whether the turn is over.
    #[cold]
    #[inline(never)]
    pub(super) fn leftovers<H: Handler>(&mut self, handler: &mut H) -> bool {
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
            if self.accept_more & INBOX != 0 {
                self.adopt(handler);
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
    pub(super) fn postpone<H: Handler>(&mut self, handler: &mut H, events: std::ops::Range<usize>) {
        let served = self.ready.len() - self.unserved;
        D::postpone(self, handler, events);
        self.ready.make_contiguous()[self.unserved..].rotate_left(served);
    }
}
