//! Published messages on their last way: to the outputs of a worker's connections, and to the other workers.

use super::Worker;
use crate::db::Access;
use crate::net::{Backend, ConnId};
use crate::pubsub::{Frames, Kind, Publication};
use std::sync::Arc;

/// May both be written in one piece to each who listens? Not if a client could get one of them twice, by channel and by pattern: it would see
/// them out of order.
fn go_together(a: &Publication, b: &Publication) -> bool {
    a.kind == b.kind && a.channel == b.channel && a.patterns.is_empty() && b.patterns.is_empty()
}

impl<B: Backend, A: Access> Worker<B, A> {
    /// Writes what was published to those who listen here, and hands over what others are to have.
    #[inline]
    pub(super) fn deliver(&mut self) {
        if self.state.engine.keyspace.has_news() {
            self.state.engine.publish_news();
        }
        let exchange = &self.state.engine.pubsub;
        if exchange.has_outgoing() {
            self.hand_over();
        }
        if !self.state.engine.pubsub.outbox.is_empty() {
            self.write_outbox();
        }
    }

    fn hand_over(&mut self) {
        let engine = &mut self.state.engine;
        let fleet = &engine.fleet;
        engine.pubsub.hand_over(|worker, publications| fleet.tell_published(worker, publications));
    }

    fn write_outbox(&mut self) {
        let mut frames = Frames::default();
        let outbox = std::mem::take(&mut self.state.engine.pubsub.outbox);
        for group in outbox.chunk_by(|a, b| go_together(a, b)) {
            let first = &group[0];
            frames.clear();
            group.iter().for_each(|publication| frames.add(publication, None));
            self.write_to_all(first.kind, &first.channel, &frames);
            for pattern in &first.patterns {
                frames.clear();
                frames.add(first, Some(pattern));
                self.write_to_all(Kind::Pattern, pattern, &frames);
            }
        }
        // The memory is used again, if it is not much.
        let mut outbox: Vec<Arc<Publication>> = outbox;
        outbox.clear();
        if self.state.engine.pubsub.outbox.is_empty() && outbox.capacity() <= 1024 {
            self.state.engine.pubsub.outbox = outbox;
        }
    }

    fn write_to_all(&mut self, kind: Kind, name: &[u8], frames: &Frames) {
        let state = &mut self.state;
        let limit = state.engine.config.client_output_buffer_limits.pubsub.hard_bytes;
        for &index in state.engine.pubsub.subscriptions.clients(kind, name) {
            let Some(slot) = state.sessions.get_mut(index) else { continue };
            let client = state.engine.clients.get(index);
            let conn = ConnId { index, generation: slot.generation };
            let Some(out) = self.backend.out(conn).filter(|_| !client.is_killed()) else { continue };
            frames.write(client.resp3, out);
            let queued = out.queued();
            if limit > 0 && queued as u64 > limit {
                log::warn!("Client id={} closed for overcoming of output buffer limits.", client.id);
                state.to_close.push(conn);
            } else if queued >= super::state::ACCOUNT_MIN_BYTES {
                state.owing.push(conn);
            }
        }
    }
}
