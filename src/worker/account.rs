//! What clients hold: the limit of their output, and what CLIENT LIST and INFO tell of their memory.

use super::state::{Slot, State};
use crate::base::out::Out;
use crate::cmd::client::mark;
use crate::config::OutputLimit;
use crate::db::Access;
use crate::exec::Engine;

impl<A: Access> State<A> {
    /// The limit of a client's output, by its class.
    pub(super) fn output_limit(engine: &Engine<A>, index: u32) -> OutputLimit {
        let limits = &engine.config.client_output_buffer_limits;
        if engine.clients.get(index).is(mark::LISTENS) { limits.pubsub } else { limits.normal }
    }

    /// Is more output queued than the configuration allows?
    pub(super) fn is_over_limit(engine: &Engine<A>, index: u32, out: &Out) -> bool {
        let hard = Self::output_limit(engine, index).hard_bytes;
        let over = hard > 0 && out.queued() as u64 > hard;
        if over {
            log::warn!("Client id={} closed for overcoming of output buffer limits.", engine.clients.get(index).id);
        }
        over
    }

    /// What CLIENT LIST and INFO tell of the memory of a client.
    pub(super) fn account(engine: &mut Engine<A>, index: u32, slot: &mut Slot, queued: usize) {
        let session = &slot.session;
        let client = engine.clients.get_mut(index);
        let suspended = session.is_suspended();
        engine.stats.suspended_clients += u64::from(suspended);
        engine.stats.suspended_clients -= u64::from(client.is(mark::SUSPENDED));
        client.set_mark(mark::SUSPENDED, suspended);
        let paused = session.is_paused();
        engine.stats.paused_clients += u64::from(paused);
        engine.stats.paused_clients -= u64::from(client.is(mark::PAUSED));
        client.set_mark(mark::PAUSED, paused);
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (query, output) = (clamp(session.bytes()), clamp(queued));
        let (before, waited) = (u64::from(client.query_bytes) + u64::from(client.out_bytes), client.out_bytes);
        client.query_bytes = query;
        client.out_bytes = output;
        slot.accounted = query > 0 || output > 0;
        engine.stats.query_bytes_max.see(query);
        engine.stats.out_bytes_max.see(output);
        let stats = &mut engine.stats;
        stats.clients_bytes = stats.clients_bytes + u64::from(query) + u64::from(output) - before;
        slot.invalidation_bytes = slot.invalidation_bytes.min(output);
        stats.output_changes((waited, slot.invalidation_counted), (output, slot.invalidation_bytes));
        slot.invalidation_counted = slot.invalidation_bytes;
    }
}
