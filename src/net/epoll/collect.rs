//! Inputs that are handed over together: collecting them, and the way back to their connections.
use super::{COLLECTED_BYTES, Conn, DIRTY, Epoll, obey};
use crate::base::out::Out;
use crate::net::pool::Pool;
use crate::net::slots::Slots;
use crate::net::{Answers, ConnId, Flow, Handler, Input};

/// What an answer of the handler touches.
struct Ways<'e> {
    conns: &'e mut Slots<Conn>,
    pool: &'e mut Pool,
    dirty: &'e mut Vec<ConnId>,
    unsettled: &'e mut Vec<ConnId>,
}

impl Answers for Ways<'_> {
    #[inline]
    fn answer(&mut self, id: ConnId, answer: impl FnOnce(&mut Out) -> Flow) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.out.capacity() == 0 {
            conn.out.adopt(self.pool.take());
        }
        let flow = answer(&mut conn.out);
        // The common case; the flags of a connection whose input was collected are 0.
        if flow == Flow::Read && !conn.out.is_empty() {
            conn.flags = DIRTY;
            self.dirty.push(id);
        } else {
            obey(conn, flow);
            self.unsettled.push(id);
        }
    }
}

impl Epoll {
    /// Keeps the `n` bytes that were just received behind those of others.
    #[inline]
    pub(super) fn collect<H: Handler>(&mut self, handler: &mut H, id: ConnId, n: usize) {
        let end = self.filled + n;
        self.inputs.extend(Input::new(id, self.filled, end));
        self.filled = end;
        if end > COLLECTED_BYTES {
            self.hand_over(handler);
        }
    }

    /// Hands over what was collected.
    pub(super) fn hand_over<H: Handler>(&mut self, handler: &mut H) {
        let bytes = &self.area[..std::mem::take(&mut self.filled)];
        let mut ways = Ways {
            conns: &mut self.conns,
            pool: &mut self.pool,
            dirty: &mut self.dirty,
            unsettled: &mut self.unsettled,
        };
        match &self.inputs[..] {
            [] => return,
            [one] => ways.answer(one.conn, |out| handler.data(one.conn, one.of(bytes), out)),
            inputs => handler.batch(inputs, bytes, &mut ways),
        }
        self.inputs.clear();
        while let Some(id) = self.unsettled.pop() {
            self.settle(handler, id);
        }
    }
}
