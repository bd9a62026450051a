//! What a worker does for saving and loading, and what it has its clients see of them.

use super::state::{Orphan, State};
use crate::cmd::persistence::Ending;
use crate::config::Farewell;
use crate::db::Access;
use crate::exec::Engine;
use crate::store::{flag, load, save};
use std::time::Duration;

/// Of a load: nobody else has something to do.
const LOAD_SLICE_NS: u64 = 500_000;
/// A worker that can do nothing for a save or load looks again after this.
const STORE_WAIT: Duration = Duration::from_millis(1);

impl<A: Access> State<A> {
    /// Sees what saving and loading ask of commands.
    #[inline]
    pub(super) fn follow_store(&mut self) {
        let Engine { store, pause, config, fleet, blocking, asks, .. } = &mut self.engine;
        let flags = store.flags();
        if flags != self.store_flags {
            self.store_flags = flags;
            blocking.settle(flags & flag::LOGGED != 0);
            if flags & flag::UNLOGGED != 0 && store.fatal().is_some() {
                asks.shutdown = Some(true);
            }
            store.saw(fleet.me(), flags);
        }
        pause.follow(flags, || config.stop_writes_on_bgsave_error && !config.save_points.is_empty());
    }

    /// This worker's part of a save or a load, for some time more; and what follows from their ends.
    pub(super) fn work_on_store(&mut self, slice_ns: u64) {
        self.store_wait = None;
        if self.engine.store.is_saving() {
            let (watch, until_ns) = (self.watch.clone(), self.now_ns + slice_ns);
            let progress = self.engine.save_some(|| watch.now_ns() < until_ns);
            let more = progress == save::Progress::More;
            self.store_wait = Some(if more { Duration::ZERO } else { STORE_WAIT });
        }
        if self.engine.store.is_loading() {
            let (watch, until_ns) = (self.watch.clone(), self.now_ns + LOAD_SLICE_NS);
            self.engine.freeze_while_loading();
            let progress = self.engine.load_some(|| watch.now_ns() < until_ns);
            let mut more = progress == load::Progress::More;
            if self.engine.fleet.me() == 0
                && let Some(loading) = self.engine.store.load().filter(|loading| loading.is_log())
            {
                more |= self.replay(&loading, until_ns);
            }
            self.store_wait = Some(if more { Duration::ZERO } else { STORE_WAIT });
        }
        if self.engine.blocking.logs() {
            self.follow_log();
        }
        if self.store_endings != self.engine.store.endings() {
            self.store_endings = self.engine.store.endings();
            let store = &self.engine.store;
            self.engine.asks.wake.append(&mut store.woken(self.engine.fleet.me()));
            if store.flags() & flag::LOADING != 0
                && let Some(why) = store.load().and_then(|loading| loading.failure())
            {
                store.fail(format!("cannot load {why}"));
                self.engine.asks.shutdown = Some(true);
            }
            self.store_wait = Some(Duration::ZERO);
        }
    }

    /// What the log has done for clients, and what it is ready for.
    #[cold]
    #[inline(never)]
    fn follow_log(&mut self) {
        let (store, me) = (&self.engine.store, self.engine.fleet.me());
        self.engine.asks.wake.append(&mut store.log.woken(me, false));
        if me == 0 && store.log.is_prepared() {
            self.engine.begin_rewrite();
        }
    }

    /// A signal ends the server as the settings say: by default, when a last snapshot is saved if there are save points. A second one ends it at once: the
    /// user does not want to wait.
    pub(super) fn end_by_signal(&mut self, how: Farewell) {
        let Engine { asks, store, config, saves_by_itself, .. } = &mut self.engine;
        let saves = *saves_by_itself && !how.nosave && (how.save || !config.save_points.is_empty());
        // One after a last save that has failed is a first one again.
        let ending = asks.shutdown.is_some() || store.flags() & flag::ENDING != 0;
        if std::mem::replace(&mut self.terminate, true) && ending {
            asks.shutdown = Some(true);
        } else if !saves || store.is_loading() {
            asks.shutdown = Some(how.now);
        } else {
            self.orphans.push_back(Orphan { task: Box::new(Ending::new(how.now, how.force)), database: 0, bytes: 0 });
        }
    }
}
