//! Batches: inputs of several connections that are handed over together, as other backends do it with what one wake-up brings.
use super::{Conn, Sim, obey};
use crate::base::out::Out;
use crate::net::slots::Slots;
use crate::net::{Answers, ConnId, Flow, Handler, Input};

/// Most bytes of a batch.
const BATCH_MAX_BYTES: usize = 64 << 10;

impl Sim {
    /// Whether the input of a connection, which is due, goes into the batch: nothing but bytes may come of it.
    pub(super) fn collects(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get(id) else { return false };
        let client = &self.clients[conn.client];
        let plain = !(conn.paused || conn.deaf() || conn.sink || conn.leftover || conn.throttled);
        plain
            && !client.fin_arrived
            && !client.inbox.is_empty()
            && conn.out.queued() <= self.net.out_high_bytes
            && client.inbox.len().min(self.net.window_bytes) + self.area.len() <= BATCH_MAX_BYTES
            && !(self.faults.small_batches && self.rng.permille(300))
    }

    /// Puts what has arrived behind the inputs of others: in parts of any size, and never across the end of the ring.
    pub(super) fn collect(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        let client = &mut self.clients[conn.client];
        let mut n = self.rng.part(client.inbox.len().min(self.net.window_bytes), self.faults.short_reads);
        if self.faults.ring_bytes > 0 {
            n = n.min(self.faults.ring_bytes - client.ring_at);
            client.ring_at = (client.ring_at + n) % self.faults.ring_bytes;
        }
        let start = self.area.len();
        let (front, back) = client.inbox.as_slices();
        let split = n.min(front.len());
        self.area.extend_from_slice(&front[..split]);
        self.area.extend_from_slice(&back[..n - split]);
        client.inbox.drain(..n);
        self.inputs.extend(Input::new(id, start, start + n));
        client.delivered_bytes += n as u64;
    }

    /// Hands over what was collected.
    pub(super) fn hand_over<H: Handler>(&mut self, handler: &mut H) {
        let inputs = std::mem::take(&mut self.inputs);
        // Of exactly this size, so that a sanitizer sees whoever reads beyond it.
        let bytes: Box<[u8]> = std::mem::take(&mut self.area).into();
        let mut ways = Ways(&mut self.conns);
        match &inputs[..] {
            [] => return,
            [one] => ways.answer(one.conn, |out| handler.data(one.conn, one.of(&bytes), out)),
            inputs => handler.batch(inputs, &bytes, &mut ways),
        }
        for input in inputs {
            self.settle(handler, input.conn);
        }
    }
}

struct Ways<'s>(&'s mut Slots<Conn>);

impl Answers for Ways<'_> {
    fn answer(&mut self, id: ConnId, answer: impl FnOnce(&mut Out) -> Flow) {
        if let Some(conn) = self.0.get_mut(id) {
            let flow = answer(&mut conn.out);
            obey(conn, flow);
        }
    }
}
