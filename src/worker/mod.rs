//! A worker: one thread, one backend, its connections, and the loop that gives each its turn.
//!
//! ```text
//! turn: poll (inputs → sessions → output) → suspended commands → flush (one send each) → background, in slices
//! ```
//! Every turn is bounded: dispatch of inputs ends after `DISPATCH_MAX_NS` (as looked at between connections, at every `DISPATCH_LOOK`-th),
//! what was received together by then is run within `BATCH_MAX_NS` or left to the next turn, suspended commands and background work get slices.
mod account;
mod batch;
pub mod crew;
mod cron;
mod deliver;
mod errands;
mod rates;
mod replay;
mod saving;
#[cfg(test)]
mod sim_tests;
mod state;

use crate::base::clock::{Clock, whole_ns};
use crate::cmd::ctx::Budget;
use crate::config::Config;
use crate::db::{Access, Alone};
use crate::exec::Engine;
use crate::net::{Backend, Flow, Tuning};
use crate::session::Turn;
pub use state::State;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What listeners of memcached's protocol tell of the connections that they accept.
pub const MEMCACHE_SERVICE: u8 = 1;
/// The same of those of figures, by HTTP.
pub const METRICS_SERVICE: u8 = 2;
/// Time for all suspended commands of a turn.
const TASKS_MAX: Duration = Duration::from_micros(100);
/// Time for one of them.
const TASK_SLICE: Duration = Duration::from_micros(50);
/// How long it then waits for them to close.
const SHUTDOWN_LINGER_MAX: Duration = Duration::from_millis(500);
/// How long a shutdown waits for clients to take their replies.
const SHUTDOWN_FLUSH_MAX: Duration = Duration::from_secs(3);

/// A thread's worth of server.
pub struct Worker<B: Backend, A = Alone> {
    backend: B,
    state: State<A>,
}

impl<B: Backend> Worker<B, Alone> {
    /// A worker, alone, over a backend that listens already.
    ///
    /// # Errors
    /// If the address space for the data cannot be reserved.
    pub fn new(
        backend: B,
        config: Config,
        clock: Clock,
        seed: u64,
        memory: dolmen_slab::Config,
    ) -> std::io::Result<Worker<B>> {
        Ok(Worker::over(backend, Engine::new(config, clock, seed, memory)?))
    }
}

impl<B: Backend, A: Access> Worker<B, A> {
    /// A worker over a backend that listens already.
    pub fn over(backend: B, engine: Engine<A>) -> Worker<B, A> {
        Worker { backend, state: State::new(engine) }
    }

    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    pub fn engine(&mut self) -> &mut Engine<A> {
        &mut self.state.engine
    }

    /// Serves until a signal or SHUTDOWN ends it; everything read by then is answered and sent.
    ///
    /// # Errors
    /// If the backend cannot wait for events any more.
    pub fn run(&mut self) -> std::io::Result<()> {
        let engine = &mut self.state.engine;
        engine.stats.backend_bytes = self.backend.memory_bytes() as u64;
        engine.facts.start_used_bytes = engine.used_bytes();
        let served = loop {
            match self.turn(None) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let asks = &self.state.engine.asks;
        self.state.engine.fleet.end_others(asks.shutdown.unwrap_or(true));
        served?;
        self.shut_down()
    }

    /// One turn; waits at most `wait_max` for events. True: the server shall end.
    ///
    /// # Errors
    /// As `run`.
    pub fn turn(&mut self, wait_max: Option<Duration>) -> std::io::Result<bool> {
        let timeout = self.state.timeout();
        let timeout = wait_max.map_or(timeout, |max| timeout.min(max));
        self.backend.poll(&mut self.state, Some(timeout))?;
        self.state.wake();
        if self.state.engine.pubsub.is_awaited() {
            self.deliver();
        }
        self.state.evict_clients();
        self.follow_settings();
        self.run_suspended();
        self.deliver();
        self.state.publish();
        self.close_asked();
        self.follow_settings();
        if self.state.engine.blocking.logs() || self.state.holds_output {
            self.hold_output();
        }
        self.backend.flush(&mut self.state);
        let backend = &self.backend;
        self.state.flushed(|conn| backend.queued(conn));
        let sleep = self.state.engine.asks.sleep.take();
        self.state.background();
        self.state.engine.hand_over_log();
        self.state.end_turn(self.backend.memory_bytes(), self.backend.sent_bytes());
        if let Some(time) = sleep {
            // DEBUG SLEEP: the server stands still because it was told to; that is no turn of its own making.
            self.state.engine.clock.sleep(time);
        }
        Ok(self.state.engine.asks.shutdown.is_some())
    }

    /// What follows from settings that were changed.
    #[inline]
    fn follow_settings(&mut self) {
        if std::mem::take(&mut self.state.engine.asks.reconfigured) {
            let config = &self.state.engine.config;
            self.backend.tune(&Tuning { tcp_keepalive_s: config.tcp_keepalive_s, spin_us: config.spin_us });
            self.state.engine.reckon_room(true);
        }
    }

    /// Gives every session that waits for time its slice.
    fn run_suspended(&mut self) {
        if self.state.has_errands() {
            self.state.run_errands(TASK_SLICE);
        }
        self.state.wake_clients();
        if self.state.has_orphans() {
            self.state.step_orphans(TASK_SLICE);
        }
        self.state.release_held();
        let waiting = self.state.ready_len();
        if waiting == 0 {
            return;
        }
        let until_ns = self.state.watch.now_ns() + whole_ns(TASKS_MAX);
        for _ in 0..waiting {
            let Some(conn) = self.state.next_ready() else { break };
            let Some(out) = self.backend.out(conn) else { continue };
            let mut budget = Budget::new(&self.state.engine.clock, TASK_SLICE);
            match self.state.go_on(conn, out, &mut budget) {
                Some(Turn::Flow(Flow::Read | Flow::Sink)) => self.backend.resume(conn),
                Some(Turn::Flow(flow @ (Flow::Finish | Flow::Abort))) => self.backend.close(conn, flow),
                Some(Turn::Again | Turn::Parked | Turn::Flow(Flow::Pause)) | None => {}
            }
            if self.state.watch.now_ns() > until_ns {
                break;
            }
        }
        self.state.release_held();
    }

    /// Hands over what is to be logged. With `appendfsync always` replies wait until what they tell of lasts: what was written by anybody so far, as
    /// they may have read it.
    #[cold]
    #[inline(never)]
    fn hold_output(&mut self) {
        let engine = &mut self.state.engine;
        engine.hand_over_log();
        let log = &engine.store.log;
        let (holds, durable) = (log.is_on() && log.is_always(), log.durable());
        self.backend.release(if holds { durable } else { u64::MAX });
        if holds {
            // All before it.
            let position = engine.keyspace.totals().position.load(Ordering::Acquire);
            if durable < position {
                self.backend.hold(position);
            }
        }
        self.state.holds_output = holds;
    }

    fn close_asked(&mut self) {
        self.state.close_killed();
        for conn in std::mem::take(&mut self.state.to_close) {
            self.backend.close(conn, Flow::Abort);
        }
    }

    /// Stops accepting, gives sliced commands time to finish and the clients time to take what is queued, and closes.
    fn shut_down(&mut self) -> std::io::Result<()> {
        self.backend.stop_listening();
        let at_once = self.state.engine.asks.shutdown == Some(true);
        let until_ns = self.state.watch.now_ns() + whole_ns(SHUTDOWN_FLUSH_MAX);
        let mut wait = Duration::ZERO;
        while !at_once && self.state.watch.now_ns() < until_ns {
            self.turn(Some(wait))?;
            let conns: Vec<_> = self.state.conns().collect();
            if !self.state.is_waited_for() && conns.iter().all(|&conn| self.backend.queued(conn) == 0) {
                break;
            }
            wait = Duration::from_millis(10);
        }
        // Half-closed first: to exit with input unread resets the connection, and the peer loses the replies that it has not fetched yet.
        for conn in self.state.conns().collect::<Vec<_>>() {
            self.backend.close(conn, Flow::Finish);
        }
        let until_ns = self.state.watch.now_ns() + whole_ns(SHUTDOWN_LINGER_MAX);
        while !at_once && self.backend.connections() > 0 && self.state.watch.now_ns() < until_ns {
            self.turn(Some(Duration::from_millis(10)))?;
        }
        Ok(())
    }
}
