//! The simulated backend: a network inside of a test, with scripted clients, a virtual clock and faults, all decided by one seed.
//!
//! It owns the clients, the wires between them and the server, and time. It uses no socket, never waits, and does the same for the
//! same seed and script. The contract of the seam is checked all along ([`super::check`]): a handler that breaks it panics.
//!
//! ```text
//!   client ── send ──> [segments: arrive at a time] ──> inbox ──> data / sunk        (short reads, a ring that wraps)
//!   client <─ received <── [drained at a time] <── wire (bounded) <── flush of Out   (partial acceptance)
//! ```
//!
//! Invariants: bytes of one direction keep their order, whatever the delays; on a connection that was not reset, the handler gets what the
//! client sent, all of it and once (checked when the input ends); time moves only in `poll` and [`Sim::advance`].
mod collect;
mod faults;
mod script;
mod wire;

pub use faults::{Faults, Rng};
use wire::{Client, Event, Schedule};

use super::check::{Contract, Guard};
use super::slots::Slots;
use super::{Backend, ConnId, Doorbell, Flow, Handler, Input, NetConfig, Peer, Why};
use crate::base::out::Out;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reads for one connection in a turn.
const TURN_READS: usize = 4;
/// Rounds of "the wire takes some, the handler adds more" for one connection in a flush.
const FLUSH_ROUNDS: usize = 8;
const ACCEPT_BACKOFF_NS: u64 = 100_000_000;

/// Settings of a simulation.
#[derive(Clone, Debug, Default)]
pub struct SimConfig {
    pub net: NetConfig,
    /// Decides every delay, split and reset.
    pub seed: u64,
    pub faults: Faults,
}

/// A client of the script.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClientId(usize);

/// How far a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientState {
    /// Not accepted yet.
    Connecting,
    Open,
    /// The server closed, and everything it sent was received.
    Eof,
    /// Reset, refused, or given up by the network.
    Reset,
    /// It closed or reset the connection itself.
    Closed,
}

/// The virtual clock, for whoever needs the time of the simulation.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Arc<AtomicU64>);
impl SimClock {
    /// Nanoseconds since the simulation began.
    pub fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    /// The counter itself, for a clock that shall follow it (`base::clock::Clock::simulated`).
    pub fn counter(&self) -> Arc<AtomicU64> {
        self.0.clone()
    }
    fn set(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }
}

/// The server's side of a connection.
#[derive(Default)]
struct Conn {
    client: usize,
    out: Out,
    paused: bool,
    throttled: bool,
    sink: bool,
    /// Output of an earlier flush is queued.
    leftover: bool,
    /// The wire took less than it was offered; an event says when it takes more.
    blocked: bool,
    finish: bool,
    abort: bool,
    /// The end of the input was seen.
    eof: bool,
    asked: bool,
    /// In `Sim::dirty`.
    dirty: bool,
    /// In `Sim::ready`.
    ready: bool,
}
impl Conn {
    fn deaf(&self) -> bool {
        self.finish || self.abort || self.eof
    }
}

/// See the module.
pub struct Sim {
    net: NetConfig,
    faults: Faults,
    rng: Rng,
    clock: SimClock,
    schedule: Schedule,
    clients: Vec<Client>,
    conns: Slots<Conn>,
    /// Clients that wait to be accepted.
    backlog: VecDeque<usize>,
    listening: bool,
    /// Accepts that will fail for want of descriptors, and when the next is tried.
    accept_failures: usize,
    accept_after_ns: u64,
    /// Connections with something to do, in order; those of an unfinished turn stand first.
    ready: VecDeque<ConnId>,
    dirty: Vec<ConnId>,
    /// Inputs of the batch that is being collected, and their bytes.
    inputs: Vec<Input>,
    area: Vec<u8>,
    doorbell: Doorbell,
    signals: VecDeque<i32>,
    sent_bytes: u64,
    contract: Contract,
}

impl Sim {
    pub fn new(config: SimConfig) -> Sim {
        let contract = Contract::new(config.net.out_high_bytes);
        Sim {
            net: config.net,
            faults: config.faults,
            rng: Rng::new(config.seed),
            clock: SimClock::default(),
            schedule: Schedule::default(),
            clients: Vec::new(),
            conns: Slots::new(),
            backlog: VecDeque::new(),
            listening: true,
            accept_failures: 0,
            accept_after_ns: 0,
            ready: VecDeque::new(),
            dirty: Vec::new(),
            inputs: Vec::new(),
            area: Vec::new(),
            doorbell: Doorbell::new().expect("an eventfd for the doorbell"),
            signals: VecDeque::new(),
            sent_bytes: 0,
            contract,
        }
    }

    // --- the network -----------------------------------------------------------------------------------------------------------

    fn delay(&mut self) -> u64 {
        self.rng.below(u64::from(self.faults.delay_ms_max) + 1) * 1_000_000
    }

    /// When something that the client sends now arrives: never before what it sent earlier.
    fn arrival(&mut self, client: usize) -> u64 {
        let at = (self.clock.now_ns() + self.delay()).max(self.clients[client].last_arrival_ns);
        self.clients[client].last_arrival_ns = at;
        at
    }

    /// A reset in both directions: the client sees it at once, the server when it arrives.
    fn break_up(&mut self, client: usize) {
        let c = &mut self.clients[client];
        c.state = ClientState::Reset;
        c.wire.clear();
        let at = self.clock.now_ns() + self.delay();
        self.schedule.push(at, Event::Rst(client));
    }

    fn schedule_drain(&mut self, client: usize) {
        let c = &self.clients[client];
        if c.reading && !c.draining && (!c.wire.is_empty() || c.server_fin) {
            self.clients[client].draining = true;
            let at = self.clock.now_ns() + self.delay();
            self.schedule.push(at, Event::Drain(client));
        }
    }

    /// Everything that is due happens.
    fn happen(&mut self) {
        while let Some(event) = self.schedule.pop_due(self.clock.now_ns()) {
            match event {
                Event::Syn(client) => self.backlog.push_back(client),
                Event::Segment(client, bytes) => {
                    let c = &mut self.clients[client];
                    if !c.rst_arrived && !c.server_gone {
                        c.inbox.extend(&*bytes);
                        self.make_ready(client);
                    }
                }
                Event::Fin(client) => {
                    self.clients[client].fin_arrived = true;
                    self.make_ready(client);
                }
                Event::Rst(client) => {
                    let c = &mut self.clients[client];
                    c.rst_arrived = true;
                    c.inbox.clear();
                    c.wire.clear();
                    self.make_ready(client);
                }
                Event::Drain(client) => self.drain(client),
                Event::Writable(client) => {
                    if let Some(conn) = self.conn_of(client) {
                        conn.blocked = false;
                    }
                    self.make_ready(client);
                }
            }
        }
    }

    /// The client takes something from its wire.
    fn drain(&mut self, client: usize) {
        let c = &mut self.clients[client];
        c.draining = false;
        if !c.reading || c.state == ClientState::Closed || c.state == ClientState::Reset {
            return;
        }
        let take = self.rng.part(c.wire.len(), self.faults.short_writes);
        c.received.extend(c.wire.drain(..take));
        if c.wire.is_empty() && c.server_fin {
            c.state = ClientState::Eof;
            return;
        }
        self.schedule_drain(client);
        if self.conn_of(client).is_some_and(|conn| conn.blocked) {
            let at = self.clock.now_ns() + self.delay();
            self.schedule.push(at, Event::Writable(client));
        }
    }

    fn conn_of(&mut self, client: usize) -> Option<&mut Conn> {
        self.clients[client].conn.and_then(|id| self.conns.get_mut(id))
    }

    fn make_ready(&mut self, client: usize) {
        if let Some(id) = self.clients[client].conn
            && let Some(conn) = self.conns.get_mut(id)
            && !std::mem::replace(&mut conn.ready, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Whether the connection has an event that its state lets through.
    fn is_due(&self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get(id) else { return false };
        let c = &self.clients[conn.client];
        if c.rst_arrived || (conn.leftover && !conn.blocked && !conn.dirty) {
            return true;
        }
        if conn.deaf() || (conn.throttled && conn.out.queued() > self.net.out_low_bytes) {
            return false;
        }
        if conn.paused { c.fin_arrived && !conn.asked } else { !c.inbox.is_empty() || c.fin_arrived }
    }

    fn can_accept(&self) -> bool {
        self.listening && !self.backlog.is_empty() && self.accept_after_ns <= self.clock.now_ns()
    }

    fn has_work(&self) -> bool {
        self.can_accept() || !self.signals.is_empty() || self.ready.iter().any(|id| self.is_due(*id))
    }

    // --- dispatch --------------------------------------------------------------------------------------------------------------

    /// Moves time until something is to be done, at most by `timeout`. Returns whether the bell rang.
    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let until_ns =
            timeout.map(|t| self.clock.now_ns().saturating_add(u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)));
        let rung = self.doorbell.answer();
        loop {
            self.happen();
            if rung || self.has_work() || until_ns == Some(self.clock.now_ns()) {
                return rung;
            }
            let accept_ns = (self.listening && !self.backlog.is_empty()).then_some(self.accept_after_ns);
            match self.schedule.next_ns().into_iter().chain(accept_ns).chain(until_ns).min() {
                Some(next_ns) => self.clock.set(next_ns),
                None => return false,
            }
        }
    }

    fn accept<H: Handler>(&mut self, handler: &mut H) {
        while self.can_accept() {
            if self.accept_failures > 0 {
                self.accept_failures -= 1;
                self.accept_after_ns = self.clock.now_ns() + ACCEPT_BACKOFF_NS;
                return;
            }
            let Some(client) = self.backlog.pop_front() else { return };
            let id = self.conns.next_id().expect("a slot");
            let mut conn = Conn { client, ..Conn::default() };
            let c = &mut self.clients[client];
            c.conn = Some(id);
            if c.state == ClientState::Connecting {
                c.state = ClientState::Open;
            }
            let number = i32::try_from(client).unwrap_or(i32::MAX);
            let remote = format!("127.0.0.1:{}", 10_000 + client % 50_000);
            let peer = Peer { remote, local: "127.0.0.1:6379".into(), fd: number, unix: false, service: 0 };
            let flow = handler.opened(id, peer, &mut conn.out);
            obey(&mut conn, flow);
            self.conns.insert(id, conn);
            self.make_ready(client);
            self.settle(handler, id);
        }
    }

    fn service<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let client = &mut self.clients[conn.client];
        if client.rst_arrived {
            let why = if conn.eof { Why::Peer } else { Why::Error };
            return self.end(handler, id, why);
        }
        if conn.leftover && !conn.blocked {
            mark_dirty(conn, &mut self.dirty, id);
        }
        if conn.throttled && conn.out.queued() <= self.net.out_low_bytes {
            conn.throttled = false;
        }
        let ends = client.fin_arrived;
        if conn.paused && ends && !conn.asked && !conn.deaf() {
            conn.asked = true;
            if handler.hung_up(id) {
                conn.eof = true;
            }
        } else if self.collects(id) {
            return self.collect(id);
        } else {
            self.read(handler, id);
        }
        self.settle(handler, id);
    }

    /// Hands over what has arrived: in parts of any size, and never across the end of the ring.
    fn read<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let client = &mut self.clients[conn.client];
        let mut left = TURN_READS;
        while left > 0 && !conn.paused && !conn.deaf() {
            if conn.out.queued() > self.net.out_high_bytes {
                conn.throttled = true;
                return;
            }
            let room = client.inbox.len().min(self.net.window_bytes);
            if room == 0 {
                if client.fin_arrived {
                    assert_eq!(client.delivered_bytes, client.sent_bytes, "bytes of {id:?} were lost or doubled");
                    conn.eof = true;
                }
                return;
            }
            let mut n = self.rng.part(room, self.faults.short_reads);
            let mut wraps = false;
            if self.faults.ring_bytes > 0 {
                let to_end = self.faults.ring_bytes - client.ring_at;
                wraps = n > to_end;
                n = n.min(to_end);
                client.ring_at = (client.ring_at + n) % self.faults.ring_bytes;
            }
            let flow = if conn.sink {
                let sink = handler.sink(id);
                assert!(!sink.is_empty(), "the handler's sink is empty");
                n = n.min(sink.len());
                for (place, byte) in sink.iter_mut().zip(client.inbox.drain(..n)) {
                    *place = byte;
                }
                handler.sunk(id, n, &mut conn.out)
            } else {
                // Of exactly this size, so that a sanitizer sees whoever reads beyond it.
                let window: Box<[u8]> = client.inbox.drain(..n).collect();
                handler.data(id, &window, &mut conn.out)
            };
            client.delivered_bytes += n as u64;
            obey(conn, flow);
            // The two pieces of a wrap come in the same turn.
            if !wraps {
                left -= 1;
                if handler.turn_over() || (self.faults.short_reads && self.rng.permille(300)) {
                    return;
                }
            }
        }
    }

    fn settle<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.abort {
            self.end(handler, id, Why::Handler);
        } else if !conn.out.is_empty() || conn.finish {
            mark_dirty(conn, &mut self.dirty, id);
        } else if conn.eof {
            self.end(handler, id, Why::Peer);
        }
    }

    /// The server's end of a connection is gone; the client sees it when its wire is empty.
    fn end<H: Handler>(&mut self, handler: &mut H, id: ConnId, why: Why) {
        let Some(conn) = self.conns.remove(id) else { return };
        let client = &mut self.clients[conn.client];
        client.conn = None;
        client.server_gone = true;
        if matches!(client.state, ClientState::Connecting | ClientState::Open) {
            // As a kernel does it: closing with unread input resets, unless the connection was finished in peace.
            if why == Why::Error || (!client.inbox.is_empty() && !conn.finish) {
                client.state = ClientState::Reset;
                client.wire.clear();
            } else {
                client.server_fin = true;
            }
        }
        client.inbox.clear();
        self.schedule_drain(conn.client);
        self.accept_after_ns = 0;
        handler.closed(id, why);
    }

    fn flush_one<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.dirty = false;
        if conn.abort {
            return self.end(handler, id, Why::Handler);
        }
        for _ in 0..FLUSH_ROUNDS {
            if conn.out.is_empty() || conn.blocked {
                break;
            }
            let client = &mut self.clients[conn.client];
            if client.rst_arrived || client.state == ClientState::Closed {
                let why = if conn.eof { Why::Peer } else { Why::Error };
                return self.end(handler, id, why);
            }
            let offered = conn.out.queued();
            let space = self.faults.queue_bytes.saturating_sub(client.wire.len()).min(offered);
            let taken = self.rng.part(space, self.faults.short_writes);
            take(&mut conn.out, taken, &mut client.wire);
            self.sent_bytes += taken as u64;
            assert_eq!(conn.out.queued(), offered - taken, "the output miscounts what was taken");
            if taken < offered {
                conn.blocked = true;
                if taken < space {
                    // There was room: it is not for the client to make some.
                    let at = self.clock.now_ns() + self.rng.below(u64::from(self.faults.delay_ms_max) + 1) * 1_000_000;
                    self.schedule.push(at, Event::Writable(conn.client));
                }
            }
            if taken > 0 && conn.leftover {
                let queued = conn.out.queued();
                handler.sent(id, queued, &mut conn.out);
            }
            conn.leftover = true;
        }
        let (client, empty) = (conn.client, conn.out.is_empty());
        if empty {
            conn.leftover = false;
            conn.blocked = false;
            drop(conn.out.release());
        }
        let (eof, finish) = (conn.eof, conn.finish);
        self.schedule_drain(client);
        self.make_ready(client);
        if empty && eof {
            self.end(handler, id, Why::Peer);
        } else if empty && finish {
            self.end(handler, id, Why::Handler);
        }
    }
}

/// Moves `bytes` of the output to the wire.
fn take(out: &mut Out, bytes: usize, wire: &mut VecDeque<u8>) {
    let mut left = bytes;
    while left > 0 {
        let mut slices: Vec<IoSlice> = Vec::new();
        out.slices(&mut slices, 8);
        let mut taken = 0;
        for slice in &slices {
            let part = &slice[..slice.len().min(left - taken)];
            wire.extend(part);
            taken += part.len();
        }
        assert!(taken > 0, "an output with bytes queued has no slices");
        out.advance(taken);
        left -= taken;
    }
}

fn obey(conn: &mut Conn, flow: Flow) {
    conn.sink = flow == Flow::Sink;
    match flow {
        Flow::Read | Flow::Sink => {}
        Flow::Pause => conn.paused = true,
        Flow::Finish => conn.finish = true,
        Flow::Abort => conn.abort = true,
    }
}

fn mark_dirty(conn: &mut Conn, dirty: &mut Vec<ConnId>, id: ConnId) {
    if !conn.dirty {
        conn.dirty = true;
        dirty.push(id);
    }
}

impl Backend for Sim {
    /// Moves the virtual clock instead of waiting. With `None` it returns at once when nothing will ever happen ([`Sim::is_idle`]).
    fn poll<H: Handler>(&mut self, handler: &mut H, timeout: Option<Duration>) -> io::Result<()> {
        let rung = self.wait(timeout);
        let mut contract = std::mem::replace(&mut self.contract, Contract::new(0));
        let mut guard = Guard { handler, contract: &mut contract };
        while let Some(signo) = self.signals.pop_front() {
            guard.signal(signo);
        }
        if rung {
            guard.mail();
        }
        // Those of an unfinished turn, then the others in any order.
        let mut turn: Vec<ConnId> = self.ready.drain(..).filter(|id| self.conns.get(*id).is_some()).collect();
        if self.faults.reorder && turn.len() > 1 {
            for i in (1..turn.len()).rev() {
                let j = usize::try_from(self.rng.below(i as u64 + 1)).unwrap_or(0);
                turn.swap(i, j);
            }
        }
        let mut turn: VecDeque<ConnId> = turn.into();
        let mut begun = false;
        while let Some(&id) = turn.front() {
            if begun && guard.turn_over() {
                break;
            }
            if self.faults.small_batches && self.rng.permille(200) {
                self.hand_over(&mut guard);
            }
            turn.pop_front();
            if let Some(conn) = self.conns.get_mut(id) {
                conn.ready = false;
            }
            if self.is_due(id) {
                begun = true;
                self.service(&mut guard, id);
            }
            // Not finished: behind the others. What comes to be due later is made ready by what makes it so.
            if let Some(client) = self.conns.get(id).map(|conn| conn.client)
                && self.is_due(id)
            {
                self.make_ready(client);
            }
        }
        self.hand_over(&mut guard);
        turn.into_iter().rev().for_each(|id| self.ready.push_front(id));
        self.accept(&mut guard);
        self.contract = contract;
        Ok(())
    }

    fn flush<H: Handler>(&mut self, handler: &mut H) {
        let mut contract = std::mem::replace(&mut self.contract, Contract::new(0));
        let mut guard = Guard { handler, contract: &mut contract };
        for id in std::mem::take(&mut self.dirty) {
            self.flush_one(&mut guard, id);
        }
        self.contract = contract;
        // Without delays the clients have their replies now.
        self.happen();
    }

    fn out(&mut self, conn: ConnId) -> Option<&mut Out> {
        let out = match self.conns.get_mut(conn) {
            Some(c) if !c.deaf() => {
                mark_dirty(c, &mut self.dirty, conn);
                Some(&mut c.out)
            }
            _ => None,
        };
        self.contract.out(conn, out.is_some());
        out
    }

    fn queued(&self, conn: ConnId) -> usize {
        self.conns.get(conn).map_or(0, |c| c.out.queued())
    }

    fn resume(&mut self, conn: ConnId) {
        self.contract.resume(conn);
        if let Some(c) = self.conns.get_mut(conn) {
            c.paused = false;
            let client = c.client;
            self.make_ready(client);
        }
    }

    fn close(&mut self, conn: ConnId, flow: Flow) {
        self.contract.close(conn, flow);
        if let Some(c) = self.conns.get_mut(conn) {
            obey(c, flow);
            mark_dirty(c, &mut self.dirty, conn);
        }
    }

    fn stop_listening(&mut self) {
        self.listening = false;
        for client in std::mem::take(&mut self.backlog) {
            self.clients[client].state = ClientState::Reset;
        }
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn connections(&self) -> usize {
        self.contract.open_connections()
    }

    fn memory_bytes(&self) -> usize {
        let output: usize = self.conns.ids().filter_map(|id| self.conns.get(id)).map(|conn| conn.out.capacity()).sum();
        self.conns.memory_bytes() + output
    }
}

#[cfg(test)]
mod tests;
