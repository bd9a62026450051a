//! Published messages on their last way: to the outputs of a worker's connections, and to the other workers.

use super::Worker;
use crate::cmd::client::{gate, mark};
use crate::cmd::tracking::Mode;
use crate::db::Access;
use crate::net::{Backend, ConnId};
use crate::pubsub::caching::{Address, Invalidation, Stale, To};
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
        self.state.engine.pubsub.end_round();
        if !self.state.engine.pubsub.to_watchers.is_empty() {
            self.write_shown();
        }
        if !self.state.engine.pubsub.invalidations.is_empty() {
            self.write_invalidations();
        }
        let exchange = &self.state.engine.pubsub;
        if exchange.has_outgoing() {
            self.hand_over();
        } else if self.state.engine.pause.is_crowded() {
            self.state.engine.pause.set_crowded(false);
        }
        if !self.state.engine.pubsub.outbox.is_empty() {
            self.write_outbox();
        }
    }

    fn hand_over(&mut self) {
        let engine = &mut self.state.engine;
        let fleet = &engine.fleet;
        engine.pubsub.hand_over(|worker, parcel| fleet.tell_published(worker, parcel));
        engine.pause.set_crowded(engine.pubsub.is_full());
    }

    /// Shows commands to the clients who watch. Who does not keep up is disconnected: at the limit of its class, or that of subscribers if its
    /// class has none.
    fn write_shown(&mut self) {
        let state = &mut self.state;
        let limits = &state.engine.config.client_output_buffer_limits;
        let limit = if limits.normal.hard_bytes > 0 { limits.normal.hard_bytes } else { limits.pubsub.hard_bytes };
        let shown = std::mem::take(&mut state.engine.pubsub.to_watchers);
        for &index in &state.engine.pubsub.watchers {
            let Some(slot) = state.sessions.get_mut(index) else { continue };
            let client = state.engine.clients.get(index);
            let conn = ConnId { index, generation: slot.generation };
            let out = if slot.session.is_mid_reply() {
                Some(state.engine.pubsub.postponed.entry(index).or_default())
            } else {
                self.backend.out(conn)
            };
            let Some(out) = out.filter(|_| !client.is_killed()) else { continue };
            shown.iter().for_each(|lines| out.extend(lines));
            let queued = out.queued();
            if limit > 0 && queued as u64 > limit {
                log::warn!("Client id={} closed for overcoming of output buffer limits.", client.id);
                state.to_close.push(conn);
            } else if queued >= super::state::ACCOUNT_MIN_BYTES {
                state.owing.push(conn);
            }
        }
    }

    fn write_outbox(&mut self) {
        let mut frames = Frames::default();
        let outbox = self.state.engine.pubsub.take_outbox();
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
            let out = if slot.session.is_mid_reply() {
                Some(state.engine.pubsub.postponed.entry(index).or_default())
            } else {
                self.backend.out(conn)
            };
            let Some(out) = out.filter(|_| !client.is_killed()) else { continue };
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

    // ---- client-side caching ----

    /// Tells clients of keys that they may have cached and that are not what they were.
    fn write_invalidations(&mut self) {
        for Invalidation { to, stale } in std::mem::take(&mut self.state.engine.pubsub.invalidations) {
            match to {
                To::Reader(id) => self.invalidate(id, &stale, |mode| mode != Mode::Broadcast),
                To::Listener(id) => self.invalidate(id, &stale, |mode| mode == Mode::Broadcast),
                To::Everybody => {
                    let mut last = 0;
                    while let Some((_, client)) = self.state.engine.clients.after(last) {
                        last = client.id;
                        if client.gate & gate::TRACKS != 0 {
                            self.invalidate(last, &stale, |_| true);
                        }
                    }
                }
                To::Redirected { to, by } => self.redirected(to, by, &stale),
                To::Broken(id) => self.redirect_broken(id),
            }
        }
    }

    /// Tells a client that tracks, if that is still how it does, or the one that it redirects to.
    fn invalidate(&mut self, id: u64, stale: &Arc<Stale>, concerns: impl FnOnce(Mode) -> bool) {
        let engine = &mut self.state.engine;
        let Some(index) = engine.clients.index_of(id) else { return };
        let client = engine.clients.get_mut(index);
        let resp3 = client.resp3;
        let Some(tracking) = client.tracking().filter(|tracking| concerns(tracking.mode)) else { return };
        let stale = if tracking.is_noloop { stale.without(id) } else { Some(Arc::clone(stale)) };
        let Some(stale) = stale else { return };
        match tracking.redirect {
            Some(to) => {
                let by = engine.pubsub.address(id);
                if to.worker == by.worker {
                    self.redirected(to.client, by, &stale);
                } else {
                    engine.pubsub.invalidate(to.worker, To::Redirected { to: to.client, by }, &stale);
                }
            }
            None if resp3 => {
                let mut push = Vec::new();
                stale.write_push(&mut push);
                self.write_behind_reply(index, &push);
            }
            // RESP2 has no way to tell it.
            None => {}
        }
    }

    /// Tells a client to which another has had its invalidations sent.
    fn redirected(&mut self, to: u64, by: Address, stale: &Arc<Stale>) {
        let clients = &self.state.engine.clients;
        let Some(index) = clients.index_of(to).filter(|index| !clients.get(*index).is_killed()) else {
            if by.worker == self.state.engine.pubsub.me() {
                self.redirect_broken(by.client);
            } else {
                self.state.engine.pubsub.invalidate(by.worker, To::Broken(by.client), stale);
            }
            return;
        };
        let mut text = Vec::new();
        let client = clients.get(index);
        if client.resp3 {
            stale.write_push(&mut text);
        } else if client.is(mark::LISTENS) {
            stale.write_message(&mut text);
        }
        self.write_behind_reply(index, &text);
    }

    /// The client to which this one has its invalidations sent has gone.
    fn redirect_broken(&mut self, id: u64) {
        let clients = &mut self.state.engine.clients;
        let Some(index) = clients.index_of(id) else { return };
        let client = clients.get_mut(index);
        let resp3 = client.resp3;
        let Some(tracking) = client.tracking() else { return };
        let Some(to) = tracking.redirect else { return };
        tracking.is_broken = true;
        if resp3 {
            let text = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{}\r\n", to.client);
            self.write_behind_reply(index, text.as_bytes());
        }
    }

    /// Writes to a client what belongs to no reply.
    fn write_behind_reply(&mut self, index: u32, text: &[u8]) {
        let state = &mut self.state;
        let Some(slot) = state.sessions.get_mut(index).filter(|_| !text.is_empty()) else { return };
        let conn = ConnId { index, generation: slot.generation };
        let out = if slot.session.is_mid_reply() {
            Some(state.engine.pubsub.postponed.entry(index).or_default())
        } else {
            self.backend.out(conn)
        };
        let client = state.engine.clients.get(index);
        let Some(out) = out.filter(|_| !client.is_killed()) else { return };
        let waits = if out.is_empty() { 0 } else { slot.invalidation_bytes };
        slot.invalidation_bytes = waits.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        out.extend(text);
        let queued = out.queued();
        let limits = &state.engine.config.client_output_buffer_limits;
        let limit = if client.is(mark::LISTENS) { limits.pubsub.hard_bytes } else { limits.normal.hard_bytes };
        if limit > 0 && queued as u64 > limit {
            log::warn!("Client id={} closed for overcoming of output buffer limits.", client.id);
            state.to_close.push(conn);
        } else if queued >= super::state::ACCOUNT_MIN_BYTES {
            state.owing.push(conn);
        }
    }
}
