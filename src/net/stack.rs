//! TCP in user space: connections over a [`Device`] of IP packets, by smoltcp. It owns the device and all that there is of its connections;
//! it knows nothing of handlers and of the kernel's sockets ([`driver`] puts it behind the seam), and has no clock: time is given.
//!
//! smoltcp looks at every socket of a set for each packet, so each connection has a set of its own, found by its addresses and ports.
//!
//! ```text
//!            SYN to a service          the handshake is complete       `attach`           `leave`
//!  (nothing) ────────────────▶ HalfOpen ──────────────────────▶ Waiting ───────▶ Open ──────────────▶ Left ──▶ (nothing)
//!                                 └─ refused, silent for 5 s ──▶ (nothing)       when it is closed on both sides, or 60 s later
//! ```
//!
//! # Invariants
//! - `flows` has exactly the keys of the connections in `places`, each at its index.
//! - `half_open` counts those in `HalfOpen`: at most [`HALF_OPEN_MAX`]. A SYN beyond that, or beyond [`CONNECTIONS_MAX`], is dropped.
//! - A connection is in `changed` (`due`) once at most, and exactly while its mark is set.
//! - What can make a connection send (a packet, bytes, a close, a timer) puts it in `due`, and [`Stack::flush`] sends all that is due, or keeps it there.
//! - Its `deadline` is not later than the next time at which smoltcp wants to be asked; `timers` has an entry for it.
mod device;
mod driver;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod packet;
#[cfg(test)]
mod tests;
mod tun;
pub mod xdp;

pub use device::{Device, Hop, Transmit};
pub use driver::{StackDriver, Stacked};
pub use tun::Tun;
pub use xdp::Xdp;

use super::ConnId;
use crate::base::hash::Seeded;
use device::Port;
use nix::errno::Errno;
use packet::Key;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{self, RecvError, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// What a peer may send ahead: the window. The memory is touched as it is used only.
const RECEIVE_BYTES: usize = 64 << 10;
/// What is sent and not acknowledged, or waits: replies of 64 KiB fit whole.
const SEND_BYTES: usize = 128 << 10;
/// Handshakes under way.
const HALF_OPEN_MAX: usize = 1024;
/// Connections altogether.
const CONNECTIONS_MAX: usize = 65_536;
/// Sockets that are kept for the next connections.
const SPARE_MAX: usize = 256;
/// Connections that were left and wait for their peers; the oldest gives way.
const LEFT_MAX: usize = 1024;
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Silence of a peer that owes an acknowledgement.
const SILENCE_MAX: Duration = Duration::from_secs(120);
const LEFT_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Addresses of an interface (smoltcp's own limit, set by a feature of it).
pub(super) const ADDRESSES_MAX: usize = 8;
/// When to look again at a device that takes no more.
const FULL_RETRY: Duration = Duration::from_millis(1);

/// Something that is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    pub address: SocketAddr,
    /// `Listen::service`.
    pub number: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    HalfOpen,
    Waiting,
    Open(ConnId),
    Left,
}

struct Connection {
    key: Key,
    service: u8,
    stage: Stage,
    changed: bool,
    due: bool,
    hop: Hop,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    deadline: Instant,
}

impl Connection {
    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

const NEVER: Instant = Instant::from_micros_const(i64::MAX);

/// What there is to know about a connection that has changed.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Readiness {
    pub(super) readable: bool,
    pub(super) ended: bool,
    pub(super) failed: bool,
    pub(super) writable: bool,
}

/// See the module.
pub struct Stack<D: Device> {
    device: D,
    core: Core,
}

/// All but the device.
struct Core {
    interface: Interface,
    mtu: usize,
    partial_sums: bool,
    services: Vec<Service>,
    flows: HashMap<Key, u32, Seeded>,
    places: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    #[expect(clippy::vec_box, reason = "they come from boxes and go into boxes again")]
    spare: Vec<Box<Connection>>,
    /// No socket at all: what belongs to none is answered by a reset.
    nobody: SocketSet<'static>,
    half_open: usize,
    changed: Vec<u32>,
    due: Vec<u32>,
    timers: BinaryHeap<Reverse<(Instant, u32)>>,
    left: VecDeque<(u32, Key)>,
    keepalive: Option<Duration>,
    now: Instant,
}

impl<D: Device> Stack<D> {
    /// `seed` is for initial sequence numbers.
    pub(super) fn new(mut device: D, services: Vec<Service>, seed: u64) -> Stack<D> {
        let (mtu, partial_sums) = (device.mtu(), device.partial_sums());
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut port = Port { packet: None, tx: device.tx(), hop: Hop::default(), mtu };
        let mut interface = Interface::new(config, &mut port, Instant::ZERO);
        let mut addresses: Vec<IpAddr> = services.iter().map(|service| service.address.ip()).collect();
        addresses.sort();
        addresses.dedup();
        interface.update_ip_addrs(|known| {
            for address in addresses {
                // Who calls has counted them.
                let _ = known.push(IpCidr::new(address.into(), if address.is_ipv4() { 32 } else { 128 }));
            }
        });
        let core = Core {
            interface,
            mtu,
            partial_sums,
            services,
            flows: HashMap::default(),
            places: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            nobody: SocketSet::new(Vec::new()),
            half_open: 0,
            changed: Vec::new(),
            due: Vec::new(),
            timers: BinaryHeap::new(),
            left: VecDeque::new(),
            keepalive: None,
            now: Instant::ZERO,
        };
        Stack { device, core }
    }

    /// Takes in at most `max` packets; returns how many it were.
    pub(super) fn input(&mut self, now: Instant, max: usize) -> usize {
        self.core.now = now;
        let core = &mut self.core;
        self.device.receive(max, |tx, bytes, hop| core.packet(tx, bytes, hop))
    }

    /// Has those sent whose time has come.
    pub(super) fn run_timers(&mut self, now: Instant) {
        self.core.now = now;
        while let Some(&Reverse((deadline, index))) = self.core.timers.peek()
            && deadline <= now
        {
            self.core.timers.pop();
            if let Some(connection) = self.core.connection(index)
                && connection.deadline == deadline
            {
                connection.deadline = NEVER;
                self.core.mark_due(index);
            }
        }
    }

    /// When to call [`Stack::run_timers`] next.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.core.timers.peek().map(|Reverse((deadline, _))| *deadline)
    }

    pub(super) fn has_due(&self) -> bool {
        !self.core.due.is_empty()
    }

    /// Sends what is due.
    pub(super) fn flush(&mut self, now: Instant) {
        self.core.now = now;
        let mut due = std::mem::take(&mut self.core.due);
        for index in due.drain(..) {
            if let Some(connection) = self.core.connection(index) {
                connection.due = false;
                self.core.send_due(self.device.tx(), index);
            }
        }
        // What the device did not take is due again.
        due.append(&mut self.core.due);
        self.core.due = due;
        self.device.tx().flush();
    }

    pub(super) fn has_changed(&self) -> bool {
        !self.core.changed.is_empty()
    }

    /// Takes the list of the connections of which there is something new.
    pub(super) fn take_changed(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.core.changed);
        for index in into {
            if let Some(connection) = self.core.connection(*index) {
                connection.changed = false;
            }
        }
    }

    /// Has it looked at once more.
    pub(super) fn mark_changed(&mut self, index: u32) {
        self.core.mark_changed(index);
    }

    /// Who serves it.
    pub(super) fn owner(&mut self, index: u32) -> Option<ConnId> {
        match self.core.connection(index)?.stage {
            Stage::Open(id) => Some(id),
            _ => None,
        }
    }

    /// A connection that nobody serves yet: its ends and its service.
    pub(super) fn waiting(&mut self, index: u32) -> Option<(SocketAddr, SocketAddr, u8)> {
        let connection = self.core.connection(index).filter(|connection| connection.stage == Stage::Waiting)?;
        Some((connection.key.remote, connection.key.local, connection.service))
    }

    /// It is served from now on.
    pub(super) fn attach(&mut self, index: u32, id: ConnId) {
        if let Some(connection) = self.core.connection(index) {
            connection.stage = Stage::Open(id);
            self.core.mark_changed(index);
        }
    }

    pub(super) fn readiness(&mut self, index: u32) -> Readiness {
        let Some(connection) = self.core.connection(index) else { return Readiness::default() };
        let socket = connection.socket();
        let ended = matches!(
            socket.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait | State::Closed
        );
        let failed = socket.state() == State::Closed;
        Readiness { readable: socket.can_recv(), ended, failed, writable: socket.can_send() }
    }

    /// Bytes that have come; `Ok(0)` is the end.
    pub(super) fn recv(&mut self, index: u32, buffer: &mut [u8]) -> Result<usize, Errno> {
        let Some(connection) = self.core.connection(index) else { return Err(Errno::ECONNRESET) };
        match connection.socket().recv_slice(buffer) {
            Ok(0) => Err(Errno::EAGAIN),
            Ok(n) => {
                // The window may have to be told of.
                self.core.mark_due(index);
                Ok(n)
            }
            Err(RecvError::Finished) => Ok(0),
            Err(RecvError::InvalidState) => Err(Errno::ECONNRESET),
        }
    }

    /// Takes what there is room for.
    pub(super) fn send(&mut self, index: u32, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(connection) = self.core.connection(index) else { return Err(Errno::ECONNRESET) };
        let socket = connection.socket();
        match socket.send_slice(bytes) {
            Ok(0) => Err(Errno::EAGAIN),
            Ok(n) => {
                socket.set_timeout(Some(SILENCE_MAX));
                self.core.mark_due(index);
                Ok(n)
            }
            Err(_) => Err(Errno::EPIPE),
        }
    }

    /// Sends the end of the output behind what was taken.
    pub(super) fn half_close(&mut self, index: u32) -> Result<(), Errno> {
        let connection = self.core.connection(index).ok_or(Errno::ENOTCONN)?;
        if connection.socket().state() == State::Closed {
            return Err(Errno::ENOTCONN);
        }
        connection.socket().close();
        self.core.mark_due(index);
        Ok(())
    }

    /// Nobody serves it any more. As the kernel does it: what was taken is still sent, unless there is input that nobody has read.
    pub(super) fn leave(&mut self, index: u32) {
        let Some(connection) = self.core.connection(index) else { return };
        connection.stage = Stage::Left;
        let key = connection.key;
        let socket = connection.socket();
        if socket.can_recv() {
            socket.abort();
        } else {
            socket.set_keep_alive(None);
            socket.set_timeout(Some(LEFT_SILENCE_MAX));
            socket.close();
        }
        self.core.mark_due(index);
        self.core.left.push_back((index, key));
        if self.core.left.len() > LEFT_MAX
            && let Some((oldest, key)) = self.core.left.pop_front()
            && self.core.connection(oldest).is_some_and(|connection| connection.key == key)
        {
            self.core.remove(oldest);
        }
    }

    /// The keep-alive interval of connections from now on; 0 is none.
    pub(super) fn set_keepalive_s(&mut self, seconds: u32) {
        self.core.keepalive = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    }

    /// Nobody is served any more who is not yet.
    pub(super) fn stop_listening(&mut self) {
        self.core.services.clear();
    }

    /// Memory that connections may use.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.core.flows.len() + self.core.spare.len())
            * (RECEIVE_BYTES + SEND_BYTES + size_of::<Connection>() + size_of::<(Key, u32)>())
            + self.core.timers.capacity() * size_of::<Reverse<(Instant, u32)>>()
    }

    #[cfg(test)]
    fn connections(&self) -> usize {
        assert_eq!(self.core.flows.len(), self.core.places.iter().flatten().count());
        let half_open = self.core.places.iter().flatten().filter(|c| c.stage == Stage::HalfOpen).count();
        assert_eq!(self.core.half_open, half_open);
        self.core.flows.len()
    }
}

impl Core {
    fn connection(&mut self, index: u32) -> Option<&mut Connection> {
        self.places.get_mut(index as usize)?.as_deref_mut()
    }

    fn mark_due(&mut self, index: u32) {
        if let Some(Some(connection)) = self.places.get_mut(index as usize)
            && !std::mem::replace(&mut connection.due, true)
        {
            self.due.push(index);
        }
    }

    fn mark_changed(&mut self, index: u32) {
        if let Some(Some(connection)) = self.places.get_mut(index as usize)
            && !std::mem::replace(&mut connection.changed, true)
        {
            self.changed.push(index);
        }
    }

    /// A packet has come.
    fn packet<T: Transmit>(&mut self, tx: &mut T, bytes: &[u8], hop: Hop) {
        let Some(segment) = packet::read(bytes, self.partial_sums) else { return };
        let mut found = self.flows.get(&segment.key).copied();
        if segment.opens
            && let Some(index) = found
            && let Some(connection) = self.connection(index)
            && connection.stage == Stage::Left
            && matches!(connection.socket().state(), State::TimeWait | State::Closed)
        {
            // The peer uses its port again.
            self.remove(index);
            found = None;
        }
        let index = match found {
            Some(index) => index,
            None if segment.opens => {
                let Some(service) = self.service(segment.key.local) else { return self.refuse(tx, bytes, hop) };
                let Some(index) = self.open(segment.key, service, hop) else { return };
                index
            }
            None => return self.refuse(tx, bytes, hop),
        };
        let Core { places, interface, mtu, now, .. } = self;
        let Some(Some(connection)) = places.get_mut(index as usize) else { return };
        connection.hop = hop;
        let mut port = Port { packet: Some(bytes), tx, hop, mtu: *mtu };
        interface.poll_ingress_single(*now, &mut port, &mut connection.sockets);
        self.mark_due(index);
        self.look_at(index);
    }

    /// Follows what has become of a connection.
    fn look_at(&mut self, index: u32) {
        let keepalive = self.keepalive;
        let Some(connection) = self.connection(index) else { return };
        let stage = connection.stage;
        let socket = connection.socket();
        let state = socket.state();
        match stage {
            Stage::HalfOpen if matches!(state, State::Closed | State::Listen) => self.remove(index),
            Stage::HalfOpen if state != State::SynReceived => {
                let socket = connection.socket();
                socket.set_keep_alive(keepalive);
                socket.set_timeout(keepalive.map(|interval| interval * 2));
                connection.stage = Stage::Waiting;
                self.half_open -= 1;
                self.mark_changed(index);
            }
            Stage::HalfOpen => {}
            Stage::Waiting | Stage::Open(_) => {
                if socket.send_queue() == 0 && socket.timeout() == Some(SILENCE_MAX) {
                    socket.set_timeout(keepalive.map(|interval| interval * 2));
                }
                self.mark_changed(index);
            }
            Stage::Left => {
                // Nobody will read it.
                if socket.can_recv() {
                    socket.abort();
                }
            }
        }
    }

    fn service(&self, local: SocketAddr) -> Option<u8> {
        self.services.iter().find(|service| service.address == local).map(|service| service.number)
    }

    /// What belongs to no connection is answered by a reset.
    fn refuse<T: Transmit>(&mut self, tx: &mut T, bytes: &[u8], hop: Hop) {
        let mut port = Port { packet: Some(bytes), tx, hop, mtu: self.mtu };
        self.interface.poll_ingress_single(self.now, &mut port, &mut self.nobody);
    }

    /// Makes room for a connection that a SYN asks for. `None`: there are too many.
    fn open(&mut self, key: Key, service: u8, hop: Hop) -> Option<u32> {
        if self.half_open >= HALF_OPEN_MAX || self.flows.len() >= CONNECTIONS_MAX {
            return None;
        }
        let mut connection = self.spare.pop().unwrap_or_else(|| {
            let buffer = |bytes: usize| tcp::SocketBuffer::new(vec![0; bytes]);
            let mut socket = tcp::Socket::new(buffer(RECEIVE_BYTES), buffer(SEND_BYTES));
            socket.set_nagle_enabled(false);
            let mut sockets = SocketSet::new(Vec::with_capacity(1));
            let handle = sockets.add(socket);
            let stage = Stage::HalfOpen;
            let (changed, due, deadline) = (false, false, NEVER);
            Box::new(Connection { key, service, stage, changed, due, hop, sockets, handle, deadline })
        });
        (connection.key, connection.service, connection.hop) = (key, service, hop);
        (connection.changed, connection.due, connection.deadline) = (false, false, NEVER);
        connection.stage = Stage::HalfOpen;
        let socket = connection.socket();
        socket.set_keep_alive(None);
        socket.set_timeout(Some(HANDSHAKE_MAX));
        socket.listen(key.local).ok()?;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.places.push(None);
                u32::try_from(self.places.len() - 1).ok()?
            }
        };
        self.places[index as usize] = Some(connection);
        self.flows.insert(key, index);
        self.half_open += 1;
        Some(index)
    }

    fn remove(&mut self, index: u32) {
        let Some(mut connection) = self.places.get_mut(index as usize).and_then(Option::take) else { return };
        self.flows.remove(&connection.key);
        self.half_open -= usize::from(connection.stage == Stage::HalfOpen);
        // Its entries in the lists must not be taken for those of a later one.
        if connection.due {
            self.due.retain(|other| *other != index);
        }
        if connection.changed {
            self.changed.retain(|other| *other != index);
        }
        self.free.push(index);
        if self.spare.len() < SPARE_MAX {
            connection.socket().abort();
            self.spare.push(connection);
        }
    }

    /// Sends all that a connection has to send, and finds out when it is to be looked at next.
    fn send_due<T: Transmit>(&mut self, tx: &mut T, index: u32) {
        let Core { places, interface, mtu, now, timers, .. } = self;
        let Some(Some(connection)) = places.get_mut(index as usize) else { return };
        let before = connection.socket().state();
        loop {
            let mut port = Port { packet: None, tx, hop: connection.hop, mtu: *mtu };
            if interface.poll_egress(*now, &mut port, &mut connection.sockets) == PollResult::None {
                break;
            }
        }
        let full = tx.room() == 0;
        let state = connection.socket().state();
        let gone = state == State::Closed && matches!(connection.stage, Stage::HalfOpen | Stage::Left);
        if gone && !full {
            return self.remove(index);
        }
        let next = if full {
            Some(*now + FULL_RETRY)
        } else {
            interface.poll_at(*now, &connection.sockets).map(|next| next.max(*now + FULL_RETRY))
        };
        if let Some(next) = next
            && next < connection.deadline
        {
            connection.deadline = next;
            timers.push(Reverse((next, index)));
        }
        if state != before {
            self.look_at(index);
        }
    }
}
