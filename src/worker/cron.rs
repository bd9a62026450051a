//! What is looked at some times a second: rates, clients that idle too long or have too much output, saves that are due.

use super::state::State;
use crate::cmd::client::mark;
use crate::db::Access;
use crate::net::ConnId;

/// How long the head of a request of HTTP may be on its way.
const HTTP_HEAD_MS: u64 = 10_000;
/// Connections looked at for time-outs at each tick of the cron.
const CRON_CONNECTIONS: usize = 256;

impl<A: Access> State<A> {
    /// Some times a second: rates for INFO, clients that idle too long, save points.
    pub(super) fn cron(&mut self) {
        self.engine.flush_due();
        if self.engine.saves_by_itself && self.engine.fleet.me() == 0 {
            self.engine.save_if_due();
        }
        if self.engine.blocking.logs() {
            if self.engine.fleet.me() == 0 {
                self.engine.rewrite_if_due();
            }
            // Their time may be up.
            let me = self.engine.fleet.me();
            self.engine.asks.wake.append(&mut self.engine.store.log.woken(me, true));
        }
        let stats = &mut self.engine.stats;
        let counts = [stats.commands, stats.input_bytes, stats.output_bytes];
        if self.rates.sample(self.woken_ns, counts) {
            stats.per_second = self.rates.per_second();
            stats.query_bytes_max.tick();
            stats.out_bytes_max.tick();
        }
        let timeout_ms = u64::from(self.engine.config.timeout_s) * 1000;
        let limits = &self.engine.config.client_output_buffer_limits;
        let soft = limits.normal.soft_bytes > 0
            || limits.pubsub.soft_bytes > 0 && !self.engine.pubsub.subscriptions.is_empty();
        if timeout_ms == 0 && !soft && self.engine.config.metrics_port == 0 {
            return;
        }
        // From 1, as 0 is never.
        let now_s = u32::try_from(self.engine.clock.mono_ns() / 1_000_000_000).unwrap_or(u32::MAX).saturating_add(1);
        let now_ms = self.engine.clock.unix_ms();
        for _ in 0..CRON_CONNECTIONS.min(self.sessions.len()) {
            let next = self.sessions.next_occupied(self.cron_cursor).or_else(|| self.sessions.next_occupied(0));
            let Some(index) = next else { return };
            self.cron_cursor = index + 1;
            let client = self.engine.clients.get(index);
            let idle_ms = now_ms.saturating_sub(client.last_input_unix_ms);
            let limit = Self::output_limit(&self.engine, index);
            let over = limit.soft_bytes > 0 && u64::from(client.out_bytes) > limit.soft_bytes;
            if let Some(slot) = self.sessions.get(index) {
                let conn = ConnId { index, generation: slot.generation };
                if !over {
                    self.over_since_s.remove(&conn);
                } else if u64::from(now_s - *self.over_since_s.entry(conn).or_insert(now_s)) > limit.soft_s {
                    log::warn!("Client id={} closed for overcoming of output buffer limits.", client.id);
                    self.to_close.push(conn);
                    continue;
                }
            }
            if let Some(slot) = self.sessions.get(index)
                && slot.session.half_since_ms().is_some_and(|since_ms| now_ms.saturating_sub(since_ms) > HTTP_HEAD_MS)
            {
                self.to_close.push(ConnId { index, generation: slot.generation });
                continue;
            }
            if timeout_ms > 0
                && idle_ms > timeout_ms
                && !client.is(mark::LISTENS)
                && let Some(slot) = self.sessions.get(index)
                && !slot.session.is_suspended()
            {
                log::debug!("Closing idle client");
                self.to_close.push(ConnId { index, generation: slot.generation });
            }
        }
    }
}
