//! What reaches a worker from elsewhere: errands of other workers, and clients that were waited for and go on.

use super::state::{State, enqueue};
use crate::base::sync::mailbox::Receiver;
use crate::cmd::client_eviction;
use crate::cmd::ctx::Budget;
use crate::db::Access;
use crate::net::ConnId;
use std::time::Duration;

impl<A: Access> State<A> {
    /// Does what other workers want done, for some time.
    pub(super) fn run_errands(&mut self, time: Duration) {
        if let Some(mail) = &mut self.mail {
            mail.drain(|errand| self.errands.push_back(errand));
        }
        let mut budget = Budget::new(&self.engine.clock, time);
        for _ in 0..self.errands.len() {
            let Some(mut errand) = self.errands.pop_front() else { break };
            if !errand(&mut self.engine.local(), &mut budget) {
                self.errands.push_back(errand);
            }
        }
    }

    /// When clients hold more than they may, those that hold most have to go.
    #[inline]
    pub(super) fn evict_clients(&mut self) {
        let limit_bytes = self.engine.config.maxmemory_clients_bytes();
        if limit_bytes == 0 {
            return;
        }
        let engine = &mut self.engine;
        let held_bytes =
            engine.fleet.sum(&engine.stats, |stats| stats.clients_bytes + stats.backend_bytes + stats.receiving_bytes);
        if held_bytes > limit_bytes
            && let Some(own) = client_eviction::begin(&engine.fleet, held_bytes, limit_bytes, engine.clock.unix_ms())
        {
            self.errands.push_back(own);
        }
    }

    /// Clients that waited for others, or whose time is up, are given time.
    pub(super) fn wake_clients(&mut self) {
        self.engine.stats.blocked_clients = self.engine.blocking.len() as u64;
        while let Some(id) = self.engine.blocking.take_due(self.engine.clock.mono_ns()) {
            self.engine.asks.wake.push(id);
        }
        for id in std::mem::take(&mut self.engine.asks.wake) {
            if let Some(index) = self.engine.clients.index_of(id)
                && let Some(slot) = self.sessions.get_mut(index)
                && slot.session.is_suspended()
            {
                let conn = ConnId { index, generation: slot.generation };
                enqueue(&mut self.ready, slot, conn);
            }
        }
    }

    pub(super) fn has_errands(&self) -> bool {
        !self.errands.is_empty() || self.mail.as_ref().is_some_and(Receiver::has_mail)
    }
}
