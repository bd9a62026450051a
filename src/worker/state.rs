//! The handler of a worker: what happens to its connections, and when work is due.

use crate::base::clock::Stopwatch;
use crate::base::heap;
use crate::base::indexed::Indexed;
use crate::base::out::Out;
use crate::base::sync::mailbox::Receiver;
use crate::cmd::client::{Client, gate, mark};
use crate::cmd::ctx::{Budget, Task};
use crate::cmd::fleet::Errand;
use crate::db::{Access, Alone};
use crate::exec::Engine;
use crate::net::{Answers, Balance, ConnId, Flow, Handler, Input, Peer, Why};
use crate::proto::errors;
use crate::session::{Session, Turn};
use crate::worker::rates::Rates;
use crate::worker::replay::Replay;
use crate::worker::{MEMCACHE_SERVICE, METRICS_SERVICE};
use bumpalo::Bump;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Time after which dispatch of inputs ends, so that others, suspended commands and background work get their turn.
pub(super) const DISPATCH_MAX_NS: u64 = 200_000;
/// Connections between two looks at the clock for that.
const DISPATCH_LOOK: u32 = 8;
/// Background work of a turn.
const BACKGROUND_MIN_NS: u64 = 50_000;
const BACKGROUND_MAX_NS: u64 = 100_000;
/// Output below which a session that waited for room goes on.
const OUT_LOW_BYTES: usize = crate::cmd::many::OUT_HIGH_BYTES / 4;
/// Less queued output than this is not counted to the client: it is gone before anybody could ask.
pub(super) const ACCOUNT_MIN_BYTES: usize = 64 * 1024;
/// To a client of memcached from elsewhere, while there is no password.
const DENIED: &[u8] = b"SERVER_ERROR protected mode: no password is set\r\n";

/// A connection's session, with its id for calls to the backend.
pub(super) struct Slot {
    pub(super) session: Session,
    pub(super) generation: u32,
    /// In `State::ready`, `State::held`: an id stands in a queue once.
    pub(super) queued: bool,
    /// Memory was counted for the client.
    pub(super) accounted: bool,
    /// Counts among the clients of all workers.
    admitted: bool,
    /// What tells of keys that were cached, of the output since it was empty; and what of it is in `Stats::invalidation_bytes`.
    pub(super) invalidation_bytes: u32,
    pub(super) invalidation_counted: u32,
}

impl Slot {
    /// Nothing follows from an input that was handled: the common case.
    #[inline]
    pub(super) fn is_quiet(&self, flow: Flow, out: &Out) -> bool {
        flow == Flow::Read && !self.accounted && out.queued() < ACCOUNT_MIN_BYTES && self.session.is_idle()
    }
}

/// A command without a client.
pub(super) struct Orphan {
    pub task: Box<dyn Task>,
    pub database: u32,
    /// What it counts in `Stats::clients_bytes`.
    pub bytes: u64,
}

pub(super) fn enqueue(queue: &mut VecDeque<ConnId>, slot: &mut Slot, conn: ConnId) {
    if !std::mem::replace(&mut slot.queued, true) {
        queue.push_back(conn);
    }
}

/// Everything of a worker but its backend.
pub struct State<A = Alone> {
    pub engine: Engine<A>,
    pub(super) sessions: Indexed<Slot>,
    pub(super) arena: Bump,
    /// Sessions that go on when given time.
    pub(super) ready: VecDeque<ConnId>,
    /// Sessions that wait for names, in the order of their arrival.
    held: VecDeque<ConnId>,
    /// The few with more output than the soft limit, with the monotonic second since when.
    pub(super) over_since_s: HashMap<ConnId, u32>,
    /// The same for those that wait for the end of a pause.
    paused: VecDeque<ConnId>,
    /// Sessions that were left with output in this turn, to be looked after when it was offered to the kernel.
    pub(super) owing: Vec<ConnId>,
    /// Commands that go on though their clients have gone: half of them is not an option.
    pub(super) orphans: VecDeque<Orphan>,
    pub to_close: Vec<ConnId>,
    /// Swallows values for which there is no memory.
    discard: Box<[u8]>,
    pub(super) watch: Stopwatch,
    /// The last reading of the watch, and the one with which the turn began.
    pub(super) now_ns: u64,
    pub(super) woken_ns: u64,
    awake: bool,
    /// Calls of `turn_over` in this turn.
    looks: u32,
    background_due: bool,
    /// Monotonic time of the next cron.
    cron_due_ns: u64,
    pub(super) cron_cursor: u32,
    pub(super) rates: Rates<3>,
    pub(super) terminate: bool,
    /// Of the store, as last seen; and how many of its saves and loads had ended.
    pub(super) store_flags: u16,
    pub(super) store_endings: u64,
    /// How long a wait may be while a save or load goes on.
    pub(super) store_wait: Option<Duration>,
    /// How far the commands of a log are that is loaded.
    pub(super) replay: Option<Replay>,
    /// Output may be held until what it tells of lasts.
    pub(super) holds_output: bool,
    /// What other workers want done, with several.
    pub(super) mail: Option<Receiver<Errand>>,
    pub(super) errands: VecDeque<Errand>,
    /// Counts the clients of all workers, with several.
    balance: Option<Arc<Balance>>,
}

impl<A: Access> State<A> {
    #[must_use]
    pub fn new(engine: Engine<A>) -> State<A> {
        let watch = engine.clock.stopwatch();
        let now_ns = watch.now_ns();
        State {
            engine,
            sessions: Indexed::default(),
            arena: Bump::new(),
            ready: VecDeque::new(),
            held: VecDeque::new(),
            paused: VecDeque::new(),
            over_since_s: HashMap::new(),
            owing: Vec::new(),
            orphans: VecDeque::new(),
            to_close: Vec::new(),
            discard: vec![0; 16 * 1024].into_boxed_slice(),
            watch,
            now_ns,
            woken_ns: now_ns,
            awake: false,
            looks: 0,
            background_due: false,
            cron_due_ns: now_ns,
            cron_cursor: 0,
            rates: Rates::new(now_ns),
            terminate: false,
            store_flags: 0,
            store_endings: 0,
            store_wait: None,
            replay: None,
            holds_output: false,
            mail: None,
            errands: VecDeque::new(),
            balance: None,
        }
    }

    /// Becomes one of several workers.
    pub(super) fn join(&mut self, mail: Receiver<Errand>, balance: Arc<Balance>) {
        self.mail = Some(mail);
        self.balance = Some(balance);
    }

    /// Lets the other workers know what was counted, before replies tell of it.
    #[inline]
    pub(super) fn publish(&mut self) {
        if A::SHARED {
            self.engine.stats.clients = self.engine.clients.alive() as u64;
            self.engine.fleet.publish(&self.engine.stats);
        }
    }

    /// Clients that commands have killed are to be closed.
    pub(super) fn close_killed(&mut self) {
        while let Some(id) = self.engine.asks.kill.pop() {
            if let Some(index) = self.engine.clients.index_of(id)
                && let Some(slot) = self.sessions.get(index)
            {
                self.to_close.push(ConnId { index, generation: slot.generation });
            }
        }
    }

    pub fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.sessions.iter().map(|(index, slot)| ConnId { index, generation: slot.generation })
    }

    /// How long the backend may wait for events.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let published =
            self.engine.pubsub.has_incoming() || self.engine.pubsub.has_outgoing() || self.engine.keyspace.has_news();
        let orphans = self.orphans.iter().any(|orphan| !orphan.task.waits_for_others());
        if self.background_due || published || !self.ready.is_empty() || orphans || self.has_errands() {
            return Duration::ZERO;
        }
        let cron = Duration::from_nanos(self.cron_due_ns.saturating_sub(self.now_ns));
        let cron = self.store_wait.map_or(cron, |wait| cron.min(wait));
        let unix_ms = self.engine.clock.unix_ms();
        let due =
            self.engine.keyspace.next_due_ms().map(|due| Duration::from_millis(due.saturating_sub(unix_ms).max(1)));
        let due = due.map_or(cron, |due| due.min(cron));
        let gives_up = self.engine.blocking.next_due_ns();
        let due = gives_up.map_or(due, |at| due.min(Duration::from_nanos(at.saturating_sub(self.now_ns))));
        self.engine.pause.left(self.now_ns).map_or(due, |left| due.min(left))
    }

    /// A turn begins: reads the clock.
    #[inline]
    pub fn wake(&mut self) {
        if !self.awake {
            self.awake = true;
            self.looks = 0;
            self.engine.clock.tick();
            self.woken_ns = self.engine.clock.mono_ns();
            self.engine.reckon_room(false);
            self.follow_store();
        }
    }

    /// A turn ends: counts it, up to the last reading of the watch, by `background`.
    pub fn end_turn(&mut self, backend_bytes: usize, sent_bytes: u64) {
        let ns = self.now_ns.saturating_sub(self.woken_ns);
        let stats = &mut self.engine.stats;
        stats.turns += 1;
        stats.turn_ns_total += ns;
        stats.turn_ns_max = stats.turn_ns_max.max(ns);
        stats.backend_bytes = (backend_bytes + self.sessions.bytes() + self.engine.clients.bytes()) as u64;
        stats.output_bytes = sent_bytes - stats.output_bytes_before;
        self.awake = false;
    }

    /// Gives a session that waits for time its slice; `None`: the connection has gone.
    pub fn go_on(&mut self, conn: ConnId, out: &mut Out, budget: &mut Budget) -> Option<Turn> {
        let slot = self.sessions.get_mut(conn.index).filter(|slot| slot.generation == conn.generation)?;
        slot.queued = false;
        self.arena.reset();
        let turn = slot.session.go_on(&mut self.engine, conn.index, &self.arena, out, budget);
        match turn {
            Turn::Again => enqueue(&mut self.ready, slot, conn),
            Turn::Parked if slot.session.is_held() => enqueue(&mut self.held, slot, conn),
            Turn::Parked if slot.session.is_paused() => enqueue(&mut self.paused, slot, conn),
            Turn::Parked | Turn::Flow(_) => {}
        }
        if !out.is_empty() {
            self.owing.push(conn);
        }
        Self::account(&mut self.engine, conn.index, slot, out.queued());
        if Self::is_over_limit(&self.engine, conn.index, out) {
            return Some(Turn::Flow(Flow::Abort));
        }
        Some(turn)
    }

    /// Sessions that can use time now.
    pub fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Sessions that wait for time, names or room.
    #[cfg(test)]
    pub(super) fn waiting_len(&self) -> usize {
        self.ready.len() + self.held.len() + self.paused.len() + self.orphans.len()
    }

    #[cfg(test)]
    pub(super) fn held_len(&self) -> usize {
        self.held.len()
    }

    /// Is there a session whose input was read and not yet answered?
    pub fn is_waited_for(&self) -> bool {
        self.sessions.iter().any(|(_, slot)| slot.session.is_waiting())
    }

    pub fn next_ready(&mut self) -> Option<ConnId> {
        self.ready.pop_front()
    }

    /// Gives the commands whose clients have gone a slice.
    pub fn step_orphans(&mut self, time: Duration) {
        let mut budget = Budget::new(&self.engine.clock, time);
        for _ in 0..self.orphans.len() {
            let Some(mut orphan) = self.orphans.pop_front() else { return };
            if self.engine.step_orphan(&mut *orphan.task, orphan.database, &mut budget) {
                self.engine.stats.clients_bytes -= orphan.bytes;
            } else {
                self.orphans.push_back(orphan);
            }
        }
    }

    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// When nobody holds names any more, those who waited go on in the order of their arrival; likewise at the end of a pause.
    #[inline]
    pub fn release_held(&mut self) {
        if self.engine.pause.is_on() {
            self.engine.pause.look_at(self.engine.clock.mono_ns());
        }
        if !self.paused.is_empty() && !self.engine.pause.is_on() {
            self.ready.append(&mut self.paused);
        }
        if !self.held.is_empty() && !self.engine.keyspace.is_holding() {
            self.ready.append(&mut self.held);
        }
    }

    /// The output of this turn was offered to the kernel. What is left counts to the clients; those who wait for room and have it already
    /// (all was taken at once) go on. Of the others `sent` will tell.
    #[inline]
    pub fn flushed(&mut self, queued: impl Fn(ConnId) -> usize) {
        while let Some(conn) = self.owing.pop() {
            let left = queued(conn);
            if left < OUT_LOW_BYTES {
                self.make_ready(conn);
            }
            if let Some(slot) = self.sessions.get_mut(conn.index).filter(|slot| slot.generation == conn.generation) {
                Self::account(&mut self.engine, conn.index, slot, left);
            }
        }
    }

    /// A session that waits for room goes on.
    fn make_ready(&mut self, conn: ConnId) {
        if let Some(slot) = self.sessions.get_mut(conn.index).filter(|slot| slot.generation == conn.generation)
            && (slot.session.is_full() || slot.session.is_suspended())
        {
            enqueue(&mut self.ready, slot, conn);
        }
    }

    /// What follows from an input: the session may have to wait, or its output may be over the limit.
    #[inline(never)]
    pub(super) fn after_input(&mut self, conn: ConnId, flow: Flow, out: &Out) -> Flow {
        let Some(slot) = self.sessions.get_mut(conn.index) else { return Flow::Abort };
        if slot.session.is_held() {
            enqueue(&mut self.held, slot, conn);
        } else if slot.session.is_paused() {
            enqueue(&mut self.paused, slot, conn);
        } else if slot.session.is_suspended() || slot.session.is_late() {
            enqueue(&mut self.ready, slot, conn);
        }
        if !out.is_empty() {
            self.owing.push(conn);
        }
        Self::account(&mut self.engine, conn.index, slot, out.queued());
        if Self::is_over_limit(&self.engine, conn.index, out) { Flow::Abort } else { flow }
    }

    /// Work between requests: expiry, growth, freeing. At least one unit, at most a fifth of a loaded worker, within bounds.
    pub fn background(&mut self) {
        self.now_ns = self.watch.now_ns();
        let cron = self.now_ns >= self.cron_due_ns;
        if cron {
            self.engine.clock.refresh();
            self.cron_due_ns = self.now_ns + 1_000_000_000 / u64::from(self.engine.config.hz.max(1));
            self.cron();
        }
        if self.engine.pause.is_crowded() {
            // What expires is told of, too.
            self.background_due = true;
            return;
        }
        let now_ms = self.engine.clock.unix_ms();
        let slice_ns = (self.now_ns.saturating_sub(self.woken_ns) / 4).clamp(BACKGROUND_MIN_NS, BACKGROUND_MAX_NS);
        let until_ns = self.now_ns + slice_ns;
        let (watch, now_ns) = (&self.watch, &mut self.now_ns);
        let mut worked = false;
        self.background_due = self.engine.keyspace.background(now_ms, cron, || {
            worked = true;
            *now_ns = watch.now_ns();
            *now_ns < until_ns
        });
        while heap::free_some() {
            self.now_ns = self.watch.now_ns();
            if self.now_ns >= until_ns {
                self.background_due = true;
                break;
            }
        }
        if cron {
            self.engine.reckon_room(true);
        }
        self.background_due |= self.engine.make_room(Duration::from_nanos(slice_ns));
        self.work_on_store(slice_ns);
        // With several workers it takes a look at every shard.
        if if A::SHARED { cron && self.engine.fleet.me() == 0 } else { worked || cron } {
            let used = self.engine.used_bytes();
            self.engine.stats.used_bytes_peak = self.engine.stats.used_bytes_peak.max(used);
        }
    }
}

/// Whether a peer is of this machine, for protected mode.
fn is_local(peer: &Peer) -> bool {
    let address = peer.remote.parse::<std::net::SocketAddr>();
    peer.unix || address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

impl<A: Access> Handler for State<A> {
    fn woken(&mut self) {
        self.wake();
    }

    fn opened(&mut self, conn: ConnId, peer: Peer, out: &mut Out) -> Flow {
        self.wake();
        let engine = &mut self.engine;
        let full = match &self.balance {
            None => engine.clients.len() >= engine.config.maxclients as usize,
            Some(balance) => !balance.admit(engine.config.maxclients),
        };
        let now_ms = engine.clock.unix_ms();
        let user = engine.acl.users().default_user();
        let metrics = peer.service == METRICS_SERVICE;
        // Who may ask for figures is told by the addresses that are listened on for it.
        let denied = engine.config.protected_mode && user.no_password && !is_local(&peer) && !metrics;
        engine.clients.insert(conn.index, |id| {
            let mut client = Client::new(id, now_ms, &peer.remote, &peer.local, peer.fd, peer.unix);
            client.become_user(user);
            client.set_gate(gate::UNAUTHENTICATED, !user.is_open());
            if peer.service == MEMCACHE_SERVICE {
                client.speak_memcache(engine.config.memcached_database);
            } else if metrics {
                client.speak_http();
            }
            client
        });
        self.sessions.insert(
            conn.index,
            Slot {
                session: if metrics { Session::http() } else { Session::default() },
                generation: conn.generation,
                queued: false,
                accounted: false,
                invalidation_bytes: 0,
                invalidation_counted: 0,
                admitted: !full,
            },
        );
        if full || denied {
            engine.stats.rejected_connections += 1;
            let text = if full { errors::MAX_CLIENTS } else { errors::PROTECTED_MODE };
            if peer.service == MEMCACHE_SERVICE {
                let text: &[u8] = if full { b"ERROR Too many open connections\r\n" } else { DENIED };
                out.extend(text);
            } else if metrics {
                crate::cmd::metrics::refuse(out);
            } else {
                crate::proto::reply::Reply::new(out, false).error(text);
            }
            return Flow::Finish;
        }
        engine.stats.connections += 1;
        Flow::Read
    }

    #[inline]
    fn data(&mut self, conn: ConnId, bytes: &[u8], out: &mut Out) -> Flow {
        self.wake();
        let Some(slot) = self.sessions.get_mut(conn.index) else { return Flow::Abort };
        self.engine.stats.input_bytes += bytes.len() as u64;
        self.engine.clients.get_mut(conn.index).last_input_unix_ms = self.engine.clock.unix_ms();
        self.arena.reset();
        let flow = slot.session.data(&mut self.engine, conn.index, &self.arena, bytes, out);
        if slot.is_quiet(flow, out) { flow } else { self.after_input(conn, flow, out) }
    }

    fn batch(&mut self, inputs: &[Input], bytes: &[u8], answers: &mut impl Answers) {
        self.run_batch(inputs, bytes, answers);
    }

    fn sink(&mut self, conn: ConnId) -> &mut [u8] {
        match self.sessions.get_mut(conn.index) {
            Some(slot) => slot.session.sink(&mut self.engine, &mut self.discard),
            None => &mut self.discard,
        }
    }

    fn sunk(&mut self, conn: ConnId, bytes: usize, _out: &mut Out) -> Flow {
        self.wake();
        self.engine.stats.input_bytes += bytes as u64;
        self.engine.clients.get_mut(conn.index).last_input_unix_ms = self.engine.clock.unix_ms();
        let Some(slot) = self.sessions.get_mut(conn.index) else { return Flow::Abort };
        let flow = slot.session.sunk(&mut self.engine, bytes);
        let engine = &mut self.engine;
        let received = &mut engine.clients.get_mut(conn.index).labels_mut().receiving_bytes;
        if flow == Flow::Sink {
            *received += bytes as u64;
            engine.stats.receiving_bytes += bytes as u64;
        } else {
            engine.stats.receiving_bytes -= std::mem::take(received);
        }
        flow
    }

    fn sent(&mut self, conn: ConnId, _queued: usize, out: &mut Out) {
        if out.queued() < OUT_LOW_BYTES {
            self.make_ready(conn);
        }
        let Some(slot) = self.sessions.get_mut(conn.index) else { return };
        // Who takes output is not idle.
        self.engine.clients.get_mut(conn.index).last_input_unix_ms = self.engine.clock.unix_ms();
        Self::account(&mut self.engine, conn.index, slot, out.queued());
    }

    fn hung_up(&mut self, conn: ConnId) -> bool {
        self.sessions.get(conn.index).is_some_and(|slot| slot.session.ends_with_client())
    }

    fn closed(&mut self, conn: ConnId, _why: Why) {
        self.over_since_s.remove(&conn);
        if let Some(slot) = self.sessions.remove(conn.index) {
            if slot.admitted
                && let Some(balance) = &self.balance
            {
                balance.dismiss();
            }
            self.engine.end_transaction(conn.index);
            self.engine.end_tracking(conn.index);
            let client = self.engine.clients.get(conn.index);
            let database = client.database;
            self.engine.stats.clients_bytes -=
                u64::from(client.query_bytes) + u64::from(client.out_bytes) + client.listening_bytes();
            self.engine.stats.output_changes((client.out_bytes, slot.invalidation_counted), (0, 0));
            self.engine.stats.receiving_bytes -= client.receiving_bytes();
            let evicted = client.is(mark::EVICTED);
            self.engine.stats.suspended_clients -= u64::from(client.is(mark::SUSPENDED));
            self.engine.stats.paused_clients -= u64::from(client.is(mark::PAUSED));
            self.engine.blocking.remove(client.id);
            if client.is(mark::LISTENS) {
                self.engine.pubsub.leave(conn.index);
            }
            if client.is(mark::MONITORS) {
                self.engine.pubsub.watch_no_more(conn.index);
            }
            self.engine.clients.remove(conn.index);
            if let Some(task) = slot.session.close(&mut self.engine, database as usize) {
                let bytes = task.bytes() as u64;
                self.engine.stats.clients_bytes += bytes;
                self.orphans.push_back(Orphan { task, database, bytes });
            }
            if evicted {
                // First the others see that its memory is free.
                self.publish();
                self.engine.fleet.client_eviction().one_has_gone();
            }
        }
    }

    fn signal(&mut self, signo: i32) {
        let config = &self.engine.config;
        let (name, how) =
            if signo == libc::SIGINT { ("SIGINT", config.on_sigint) } else { ("SIGTERM", config.on_sigterm) };
        self.end_by_signal(how);
        log::warn!("Received {name}, shutting down");
    }

    #[inline]
    fn turn_over(&mut self) -> bool {
        self.looks += 1;
        self.looks.is_multiple_of(DISPATCH_LOOK) && self.watch.now_ns().saturating_sub(self.woken_ns) > DISPATCH_MAX_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::config::Config;

    fn peer(remote: &str, unix: bool) -> Peer {
        Peer { remote: remote.into(), local: "192.0.2.1:6379".into(), fd: 9, unix, service: 0 }
    }

    #[test]
    fn local_peers() {
        for remote in ["127.0.0.1:4711", "127.9.9.9:1", "[::1]:4711", "[::ffff:127.0.0.1]:4711"] {
            assert!(is_local(&peer(remote, false)), "{remote}");
        }
        for remote in
            ["192.0.2.7:4711", "[2001:db8::1]:4711", "[::ffff:192.0.2.7]:4711", "0.0.0.0:1", "?:0", "/run/sock:0"]
        {
            assert!(!is_local(&peer(remote, false)), "{remote}");
        }
        assert!(is_local(&peer("/run/sock:0", true)));
    }

    /// What is said to a peer that connects, and how many were refused.
    fn greeting(remote: &str, change: impl FnOnce(&mut Config)) -> (Flow, String, u64) {
        let mut config = Config::default();
        change(&mut config);
        let engine =
            Engine::new(config, Clock::manual(1, 1), 7, dolmen_slab::Config::default()).expect("address space");
        let mut state = State::new(engine);
        let (conn, mut out) = (ConnId { index: 0, generation: 1 }, Out::new());
        let flow = state.opened(conn, peer(remote, false), &mut out);
        let mut slices = Vec::new();
        out.slices(&mut slices, 8);
        let said = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        (flow, String::from_utf8(said).expect("a text"), state.engine.stats.rejected_connections)
    }

    #[test]
    fn protected_mode() {
        let (flow, said, rejected) = greeting("192.0.2.7:4711", |_| {});
        assert_eq!((flow, rejected), (Flow::Finish, 1));
        assert!(said.starts_with("-DENIED ") && said.ends_with("\r\n") && said.matches('\n').count() == 1, "{said}");
        let welcome = (Flow::Read, String::new(), 0);
        assert_eq!(greeting("127.0.0.1:4711", |_| {}), welcome);
        assert_eq!(greeting("192.0.2.7:4711", |c| c.protected_mode = false), welcome);
        assert_eq!(greeting("192.0.2.7:4711", |c| c.requirepass = b"secret".to_vec()), welcome);
    }
}
