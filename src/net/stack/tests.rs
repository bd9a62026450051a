//! The stack against another client of TCP (smoltcp's own sockets, which check every sum we make), over a wire that loses, doubles and reorders
//! packets by a seed, in a time that is counted; and the backend over a wire without faults, by the conformance tests of all backends.
use super::device::{Device, Hop, Transmit};
use super::packet;
use super::{HALF_OPEN_MAX, RECEIVE_BYTES, SEND_BYTES, Service, Stack, Stacked};
use crate::net::conformance::{End, World};
use crate::net::sim::Rng;
use crate::net::{Checked, ConnId, SocketConfig};
use nix::errno::Errno;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{self, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

const MTU: usize = 1500;

#[derive(Default)]
struct Wire {
    to_server: VecDeque<Vec<u8>>,
    to_client: VecDeque<Vec<u8>>,
}
type Shared = Arc<Mutex<Wire>>;

/// The server's end.
struct Pipe(PipeSender, usize);
struct PipeSender(Shared);

impl Transmit for PipeSender {
    fn room(&self) -> usize {
        usize::MAX
    }
    fn send<R>(&mut self, _hop: Hop, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut packet = vec![0; len];
        let result = fill(&mut packet);
        self.0.lock().unwrap().to_client.push_back(packet);
        result
    }
    fn flush(&mut self) {}
}

impl Device for Pipe {
    type Tx = PipeSender;
    const NAME: &'static str = "pipe";
    fn receive(&mut self, max: usize, mut each: impl FnMut(&mut PipeSender, &[u8], Hop)) -> usize {
        for number in 0..max {
            let packet = self.0.0.lock().unwrap().to_server.pop_front();
            let Some(packet) = packet else { return number };
            each(&mut self.0, &packet, Hop::default());
        }
        max
    }
    fn tx(&mut self) -> &mut PipeSender {
        &mut self.0
    }
    fn mtu(&self) -> usize {
        self.1
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn partial_sums(&self) -> bool {
        false
    }
}

/// The clients' end.
struct Far(Shared, usize);
struct FarRx(Vec<u8>);
impl phy::RxToken for FarRx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}
struct FarTx(Shared);
impl phy::TxToken for FarTx {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.lock().unwrap().to_server.push_back(packet);
        result
    }
}
impl phy::Device for Far {
    type RxToken<'a> = FarRx;
    type TxToken<'a> = FarTx;
    fn receive(&mut self, _now: Instant) -> Option<(FarRx, FarTx)> {
        let packet = self.0.lock().unwrap().to_client.pop_front()?;
        Some((FarRx(packet), FarTx(Arc::clone(&self.0))))
    }
    fn transmit(&mut self, _now: Instant) -> Option<FarTx> {
        Some(FarTx(Arc::clone(&self.0)))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.1;
        capabilities
    }
}

/// A host with clients.
struct Host {
    far: Far,
    interface: Interface,
    sockets: SocketSet<'static>,
    port: u16,
}

fn server_address(v6: bool) -> SocketAddr {
    if v6 { "[fd00::2]:6379" } else { "10.0.0.2:6379" }.parse().unwrap()
}

impl Host {
    fn new(wire: &Shared, mtu: usize) -> Host {
        let mut far = Far(Arc::clone(wire), mtu);
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut far, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::v4(10, 0, 0, 1), 24)).unwrap();
            addresses.push(IpCidr::new("fd00::1".parse().unwrap(), 64)).unwrap();
        });
        Host { far, interface, sockets: SocketSet::new(Vec::new()), port: 10_000 }
    }

    fn connect(&mut self, to: SocketAddr) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 65_536]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        self.port += 1;
        socket.connect(self.interface.context(), to, self.port).unwrap();
        self.sockets.add(socket)
    }

    fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    fn poll(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.far, &mut self.sockets);
    }
}

/// What happens to packets, in hundredths.
#[derive(Clone, Copy, Default)]
struct Faults {
    lost: u64,
    doubled: u64,
    reordered: u64,
}

struct Net {
    wire: Shared,
    stack: Stack<Pipe>,
    host: Host,
    now: Instant,
    rng: Rng,
    faults: Faults,
    /// What was received of each connection and is to be sent back.
    echo: HashMap<u32, VecDeque<u8>>,
    opened: u32,
}

impl Net {
    fn new(seed: u64, mtu: usize, faults: Faults) -> Net {
        let wire = Shared::default();
        let services = [false, true].map(|v6| Service { address: server_address(v6), number: 0 }).to_vec();
        let stack = Stack::new(Pipe(PipeSender(Arc::clone(&wire)), mtu), services, seed);
        let host = Host::new(&wire, mtu);
        let (rng, echo) = (Rng::new(seed), HashMap::new());
        Net { wire, stack, host, now: Instant::from_millis(1), rng, faults, echo, opened: 0 }
    }

    fn mistreat(&mut self) {
        let Faults { lost, doubled, reordered } = self.faults;
        let mut wire = self.wire.lock().unwrap();
        let Wire { to_server, to_client } = &mut *wire;
        for queue in [to_server, to_client] {
            let packets = std::mem::take(queue);
            for packet in packets {
                if self.rng.below(100) < lost {
                    continue;
                }
                if self.rng.below(100) < doubled {
                    queue.push_back(packet.clone());
                }
                if self.rng.below(100) < reordered {
                    let at = usize::try_from(self.rng.below(queue.len() as u64 + 1)).unwrap();
                    queue.insert(at, packet);
                } else {
                    queue.push_back(packet);
                }
            }
        }
    }

    /// A round: what is on the wire arrives, the server sends back what has come, time goes on.
    fn round(&mut self) {
        self.host.poll(self.now);
        self.mistreat();
        self.stack.input(self.now, 10_000);
        self.stack.run_timers(self.now);
        let mut changed = Vec::new();
        self.stack.take_changed(&mut changed);
        changed.extend(self.echo.keys());
        changed.sort_unstable();
        changed.dedup();
        for index in changed {
            if self.stack.waiting(index).is_some() {
                self.opened += 1;
                self.stack.attach(index, ConnId { index, generation: self.opened });
            }
            if self.stack.owner(index).is_none() {
                continue;
            }
            let echo = self.echo.entry(index).or_default();
            let mut window = [0; 3000];
            let mut end = false;
            // No more than what is sent back soon is read: the window does its work.
            while echo.len() < 100_000 && !end {
                match self.stack.recv(index, &mut window) {
                    Ok(0) | Err(Errno::ECONNRESET) => end = true,
                    Ok(n) => echo.extend(&window[..n]),
                    Err(_) => break,
                }
            }
            while !echo.is_empty() {
                let Ok(n) = self.stack.send(index, echo.as_slices().0) else { break };
                echo.drain(..n);
            }
            if end && (echo.is_empty() || self.stack.readiness(index).failed) {
                self.echo.remove(&index);
                self.stack.leave(index);
            }
        }
        self.stack.flush(self.now);
        self.mistreat();
        self.now += Duration::from_millis(1);
        if self.wire.lock().unwrap().to_client.is_empty() {
            let next = self.host.interface.poll_at(self.now, &self.host.sockets);
            let next = next.into_iter().chain(self.stack.next_timer()).min();
            self.now = next.map_or(self.now + Duration::from_secs(1), |next| {
                next.clamp(self.now, self.now + Duration::from_secs(1))
            });
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Net) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.round();
        }
        panic!("waited in vain for: {what}");
    }

    /// Sends `bytes` by `clients` and has them come back.
    fn echoes(&mut self, clients: &[SocketHandle], bytes: usize) {
        let text = |client: usize, at: usize| u8::try_from((at * 31 + at / 251 + client) % 256).unwrap();
        let mut sent = vec![0; clients.len()];
        let mut received = vec![0; clients.len()];
        self.until("all that was sent comes back", |net| {
            for (number, handle) in clients.iter().enumerate() {
                let socket = net.host.socket(*handle);
                if socket.can_send() && sent[number] < bytes {
                    let end = bytes.min(sent[number] + 5000);
                    let part: Vec<u8> = (sent[number]..end).map(|at| text(number, at)).collect();
                    sent[number] += socket.send_slice(&part).unwrap();
                }
                let mut window = [0; 5000];
                while socket.can_recv() {
                    let n = socket.recv_slice(&mut window).unwrap();
                    for byte in &window[..n] {
                        assert_eq!(*byte, text(number, received[number]), "byte {} of {number}", received[number]);
                        received[number] += 1;
                    }
                }
                assert_ne!(socket.state(), State::Closed, "connection {number} was lost");
            }
            received.iter().all(|n| *n == bytes)
        });
    }
}

#[test]
fn what_is_sent_comes_back_whatever_the_wire_does() {
    for seed in 0..12 {
        let faults = [
            Faults::default(),
            Faults { lost: 3, ..Faults::default() },
            Faults { doubled: 20, reordered: 20, ..Faults::default() },
            Faults { lost: 5, doubled: 5, reordered: 10 },
        ];
        let mtu = if seed % 2 == 0 { MTU } else { 3498 };
        let mut net = Net::new(seed, mtu, faults[usize::try_from(seed).unwrap() % 4]);
        let clients: Vec<_> = (0..6).map(|client| net.host.connect(server_address(client % 2 == 1))).collect();
        net.echoes(&clients, 60_000);
        // The end of each comes through, too, and nothing is left of any.
        clients.iter().for_each(|client| net.host.socket(*client).close());
        net.until("all are gone", |net| net.stack.connections() == 0);
    }
}

#[test]
fn a_client_that_does_not_read_gets_everything_later() {
    let mut net = Net::new(1, MTU, Faults::default());
    let client = net.host.connect(server_address(false));
    net.until("connected", |net| net.opened == 1);
    let index = 0;
    let bytes = vec![b'x'; 10_000];
    let mut taken = 0;
    // The window of the client is full, then our buffer.
    for _ in 0..200 {
        taken += net.stack.send(index, &bytes).unwrap_or(0);
        net.round();
    }
    assert!((SEND_BYTES..=SEND_BYTES + 65_536).contains(&taken), "{taken}");
    assert_eq!(net.stack.send(index, &bytes), Err(Errno::EAGAIN));
    // Longer than a silent peer would be waited for: it answers probes.
    let end = net.now + Duration::from_secs(600);
    net.until("time", |net| net.now > end);
    let mut received = 0;
    net.until("all of it", |net| {
        let mut window = [0; 5000];
        while let Ok(n @ 1..) = net.host.socket(client).recv_slice(&mut window) {
            received += n;
        }
        received == taken
    });
}

#[test]
fn a_peer_that_vanishes_is_given_up_when_it_owes_something() {
    let mut net = Net::new(2, MTU, Faults::default());
    net.stack.set_keepalive_s(0);
    let client = net.host.connect(server_address(true));
    net.echoes(&[client], 100);
    net.until("all was acknowledged", |net| {
        net.round();
        net.stack.next_timer().is_none_or(|at| at > net.now + Duration::from_secs(3600))
            || net.now > Instant::from_secs(60)
    });
    net.faults.lost = 100;
    // Nothing is owed: it may be silent for ever.
    let end = net.now + Duration::from_secs(7200);
    net.until("two hours", |net| net.now > end);
    assert!(!net.stack.readiness(0).failed);
    assert_eq!(net.stack.send(0, b"are you there?"), Ok(14));
    let end = net.now + Duration::from_secs(300);
    net.until("it was given up", |net| net.stack.connections() == 0);
    assert!(net.now < end);
}

#[test]
fn with_keep_alive_a_silent_peer_is_found_out() {
    let mut net = Net::new(3, MTU, Faults::default());
    net.stack.set_keepalive_s(60);
    let client = net.host.connect(server_address(false));
    net.echoes(&[client], 100);
    // One that answers stays.
    let end = net.now + Duration::from_secs(3600);
    net.until("an hour", |net| net.now > end);
    net.echoes(&[client], 100);
    net.faults.lost = 100;
    let end = net.now + Duration::from_secs(300);
    net.until("it was given up", |net| net.stack.connections() == 0);
    assert!(net.now < end);
}

/// A segment of 20 bytes from `port`.
fn bare(port: u16, address: u8, flags: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 1, address, 10, 0, 0, 2];
    packet.extend(port.to_be_bytes());
    packet.extend(6379u16.to_be_bytes());
    packet.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x50, flags, 4, 0, 0, 0, 0, 0]);
    packet::fill_sums(&mut packet);
    packet
}

#[test]
fn a_flood_of_syns_is_bounded_and_passes() {
    let mut net = Net::new(4, MTU, Faults::default());
    let old = net.host.connect(server_address(false));
    net.echoes(&[old], 10);
    for address in 0..4 {
        let syns = (0..2000).map(|port| bare(port + 1000, address, 2));
        net.wire.lock().unwrap().to_server.extend(syns);
        net.round();
        assert!(net.stack.connections() <= HALF_OPEN_MAX + 1);
    }
    assert_eq!(net.stack.connections(), HALF_OPEN_MAX + 1);
    // Who is connected is served meanwhile, and so is who comes when those have been given up.
    net.echoes(&[old], 10_000);
    let new = net.host.connect(server_address(false));
    net.echoes(&[new], 10_000);
    net.until("the flood has passed", |net| net.stack.connections() == 2);
    // What was reset in between leaves nothing, and resets of nobody's connections are not answered.
    net.wire.lock().unwrap().to_client.clear();
    for port in 0..3000 {
        net.wire.lock().unwrap().to_server.extend([
            bare(port + 1000, 9, 2),
            bare(port + 1000, 9, 4),
            bare(port, 8, 20),
        ]);
    }
    net.round();
    net.until("those are gone", |net| net.stack.connections() == 2);
    net.echoes(&[old, new], 1000);
}

#[test]
fn connections_come_and_go_by_all_ways() {
    let mut net = Net::new(5, MTU, Faults { lost: 1, doubled: 2, reordered: 5 });
    // A reset may be lost: then only this finds out.
    net.stack.set_keepalive_s(60);
    for round in 0..30 {
        let clients: Vec<_> = (0..20).map(|_| net.host.connect(server_address(round % 2 == 0))).collect();
        if round % 3 != 0 {
            net.echoes(&clients, 200);
        }
        for client in clients {
            let socket = net.host.socket(client);
            if round % 2 == 0 { socket.abort() } else { socket.close() }
        }
        (0..3).for_each(|_| net.round());
    }
    net.until("all are gone", |net| net.stack.connections() == 0);
    assert!(net.stack.core.spare.len() <= super::SPARE_MAX);
    // A port that was just closed, with the same number again.
    let port = net.host.port;
    for _ in 0..3 {
        net.host.port = port;
        net.faults = Faults::default();
        let client = net.host.connect(server_address(false));
        net.echoes(&[client], 50);
        net.host.socket(client).abort();
        net.round();
        net.round();
    }
}

// --- the backend -----------------------------------------------------------------------------------------------------------------

struct StackWorld {
    net: Checked<Stacked<Pipe>>,
    host: Host,
    clients: Vec<Client>,
    began: std::time::Instant,
}

struct Client {
    handle: SocketHandle,
    outgoing: VecDeque<u8>,
    shutdown: bool,
    reading: bool,
    received: Vec<u8>,
    end: Option<End>,
}

fn world() -> StackWorld {
    let wire = Shared::default();
    let config = SocketConfig { linger_ms: 3_600_000, ..SocketConfig::default() };
    let high = config.net.out_high_bytes;
    let mut net = Stacked::<Pipe>::new(config).unwrap();
    let services = vec![Service { address: server_address(false), number: 0 }];
    net.attach(Pipe(PipeSender(Arc::clone(&wire)), MTU), services, 1).unwrap();
    let host = Host::new(&wire, MTU);
    StackWorld { net: Checked::new(net, high), host, clients: Vec::new(), began: std::time::Instant::now() }
}

impl World for StackWorld {
    type Net = Checked<Stacked<Pipe>>;
    const FLOOD_BYTES: usize = 4 * (RECEIVE_BYTES + SEND_BYTES) + (4 << 20);

    fn net(&mut self) -> &mut Self::Net {
        &mut self.net
    }

    fn connect(&mut self) -> Option<usize> {
        let handle = self.host.connect(server_address(false));
        let (outgoing, received) = (VecDeque::new(), Vec::new());
        self.clients.push(Client { handle, outgoing, shutdown: false, reading: true, received, end: None });
        self.step();
        Some(self.clients.len() - 1)
    }

    fn send(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].outgoing.extend(bytes);
    }

    fn close_write(&mut self, client: usize) {
        self.clients[client].shutdown = true;
    }

    fn reset(&mut self, client: usize) {
        self.host.socket(self.clients[client].handle).abort();
        self.clients[client].end = Some(End::Reset);
    }

    fn stop_reading(&mut self, client: usize) {
        self.clients[client].reading = false;
    }

    fn start_reading(&mut self, client: usize) {
        self.clients[client].reading = true;
    }

    fn received(&mut self, client: usize) -> &[u8] {
        &self.clients[client].received
    }

    fn end(&mut self, client: usize) -> Option<End> {
        self.clients[client].end
    }

    fn step(&mut self) {
        let now = Instant::from_micros(i64::try_from(self.began.elapsed().as_micros()).unwrap());
        self.host.poll(now);
        for client in &mut self.clients {
            let socket = self.host.sockets.get_mut::<tcp::Socket>(client.handle);
            while !client.outgoing.is_empty() && socket.can_send() {
                let n = socket.send_slice(client.outgoing.as_slices().0).unwrap();
                client.outgoing.drain(..n);
            }
            if client.shutdown && client.outgoing.is_empty() && socket.may_send() {
                client.shutdown = false;
                socket.close();
            }
            let mut window = [0; 65_536];
            while client.reading && client.end.is_none() {
                match socket.recv_slice(&mut window) {
                    Ok(0) => break,
                    Ok(n) => client.received.extend(&window[..n]),
                    Err(tcp::RecvError::Finished) => client.end = Some(End::Eof),
                    Err(_) if socket.state() == State::Closed => client.end = Some(End::Reset),
                    Err(_) => break,
                }
            }
        }
        self.host.poll(now);
    }
}

mod conformance {
    // All but `no_listener_no_new_connections`: a client learns later whether it was refused.
    crate::net::conformance::conformance_tests! { super::world(),
        echoes_frames_of_any_size large_values_land_in_the_sink many_clients_at_once inputs_of_several_clients_come_together
        a_paused_connection_is_not_read a_client_that_does_not_read_is_not_read a_half_closed_peer_gets_its_replies an_empty_connection_closes
        half_closed_while_paused_it_may_finish half_closed_while_paused_it_may_give_up a_reset_closes_once
        a_reset_ends_a_paused_connection a_reset_ends_a_queue finish_sends_everything_first abort_drops_what_is_queued
        abort_in_an_event finish_from_outside a_stale_id_is_ignored output_outside_of_an_event a_reply_in_pieces
        a_firehose_does_not_hold_up_the_others a_turn_that_is_over_ends_and_goes_on_in_order
    }
}
