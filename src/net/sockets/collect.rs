//! Inputs that are handed over together: collecting them, and the way back to their connections.
use super::{COLLECTED_BYTES, Conn, DIRTY, Driver, Sockets, obey};
use crate::base::out::Out;
use crate::net::pool::Pool;
use crate::net::slots::Slots;
use crate::net::{Answers, ConnId, Flow, Handler, Input};

/// What an answer of the handler touches.
struct Ways<'e, D: Driver> {
    conns: &'e mut Slots<Conn<D>>,
    pool: &'e mut Pool,
    dirty: &'e mut Vec<ConnId>,
    unsettled: &'e mut Vec<ConnId>,
}

impl<D: Driver> Answers for Ways<'_, D> {
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

impl<D: Driver> Sockets<D> {
    /// Keeps the `n` bytes that were just received, from `start` on, beside those of others.
    #[inline]
    pub(in crate::net) fn collect<H: Handler>(&mut self, handler: &mut H, id: ConnId, start: usize, n: usize) {
        self.inputs.extend(Input::new(id, start, start + n));
        self.filled += n;
        if self.filled > COLLECTED_BYTES {
            self.hand_over(handler);
        }
    }

    /// Hands over what was collected.
    pub(in crate::net) fn hand_over<H: Handler>(&mut self, handler: &mut H) {
        let bytes = self.driver.collected(&self.area, std::mem::take(&mut self.filled));
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
        self.driver.handed_over();
        while let Some(id) = self.unsettled.pop() {
            self.settle(handler, id);
        }
    }
}
