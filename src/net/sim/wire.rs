//! Clients of a simulation, and what is on its way to and from them.
use super::ClientState;
use crate::net::ConnId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// One scripted client with both directions of its connection.
pub(super) struct Client {
    pub(super) state: ClientState,
    /// The server's end, while there is one.
    pub(super) conn: Option<ConnId>,
    /// Nothing that the client sends arrives before this.
    pub(super) last_arrival_ns: u64,
    /// What has arrived at the server and was not read.
    pub(super) inbox: VecDeque<u8>,
    /// Position in the server's receive ring.
    pub(super) ring_at: usize,
    pub(super) sent_bytes: u64,
    pub(super) delivered_bytes: u64,
    pub(super) write_closed: bool,
    pub(super) fin_arrived: bool,
    pub(super) rst_arrived: bool,
    /// The server has no connection for it any more; what it sends is lost.
    pub(super) server_gone: bool,
    /// What the server has sent and the client has not taken: bounded by `Faults::queue_bytes`.
    pub(super) wire: VecDeque<u8>,
    /// The end of the stream follows the wire.
    pub(super) server_fin: bool,
    pub(super) received: Vec<u8>,
    pub(super) reading: bool,
    /// A `Drain` is scheduled.
    pub(super) draining: bool,
}
impl Client {
    pub(super) fn new() -> Client {
        Client {
            state: ClientState::Connecting,
            conn: None,
            last_arrival_ns: 0,
            inbox: VecDeque::new(),
            ring_at: 0,
            sent_bytes: 0,
            delivered_bytes: 0,
            write_closed: false,
            fin_arrived: false,
            rst_arrived: false,
            server_gone: false,
            wire: VecDeque::new(),
            server_fin: false,
            received: Vec::new(),
            reading: true,
            draining: false,
        }
    }
    pub(super) fn can_write(&self) -> bool {
        !self.write_closed && matches!(self.state, ClientState::Connecting | ClientState::Open | ClientState::Eof)
    }
}

/// Something that happens at a time; the number is the client's.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Syn(usize),
    Segment(usize, Box<[u8]>),
    Fin(usize),
    Rst(usize),
    /// The client takes from its wire.
    Drain(usize),
    /// The wire takes more from the server.
    Writable(usize),
}

/// Events by time, and by order of scheduling at the same time.
#[derive(Default)]
pub(super) struct Schedule {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next: u64,
}
impl Schedule {
    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        self.heap.push(Reverse((at_ns, self.next, event)));
        self.next += 1;
    }
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Event> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, event))| event)
    }
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, _, _))| *at_ns)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
