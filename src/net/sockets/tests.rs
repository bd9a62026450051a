//! A backend of sockets passes the conformance tests over loopback TCP and over a Unix socket, and does what only these do. For each driver
//! this file is a module of its own.
use super::{Tested, available};
use crate::base::out::Out;
use crate::net::conformance::{self, ECHO, End, Rig, World, expected, frame};
use crate::net::sockets::{COLLECT_MAX_BYTES, COLLECTED_BYTES, LINGER_BYTES};
use crate::net::{
    Backend, Balance, Checked, ConnId, Doorbell, Flow, Handler, Listen, LocalAddr, NetConfig, Peer, SocketConfig, Why,
};
use nix::sys::signal::Signal;
use nix::sys::socket::{Shutdown, getsockopt, setsockopt, shutdown, sockopt};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A stream of either family.
trait Stream: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Stream for T {}

struct Client {
    stream: Option<Box<dyn Stream>>,
    outgoing: VecDeque<u8>,
    shutdown: bool,
    reading: bool,
    received: Vec<u8>,
    end: Option<End>,
}

struct SocketWorld {
    net: Checked<Tested>,
    address: LocalAddr,
    clients: Vec<Client>,
    /// The backend of another worker, which accepts what `net` serves.
    acceptor: Option<Tested>,
    _folder: Option<Folder>,
}

/// A folder of its own, removed at the end.
pub(super) struct Folder(pub(super) PathBuf);
impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        // The names of the tests are there twice.
        let driver = if module_path!().contains("uring") { "u" } else { "e" };
        let path = std::env::temp_dir().join(format!("dolmen-net-{}-{driver}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn loopback() -> Listen {
    Listen { bind: vec!["127.0.0.1".into()], port: Some(0), ..Listen::default() }
}

pub(super) fn unix(path: &Path) -> Listen {
    Listen { port: None, unix_path: Some(path.to_owned()), ..Listen::default() }
}

fn world_on(config: SocketConfig, listen: &Listen, folder: Option<Folder>) -> SocketWorld {
    let high = config.net.out_high_bytes;
    let mut net = Tested::new(config).unwrap();
    net.listen(listen).unwrap();
    let address = net.local_addrs().remove(0);
    SocketWorld { net: Checked::new(net, high), address, clients: Vec::new(), acceptor: None, _folder: folder }
}

/// A world whose connections were all accepted by the backend of another worker.
fn adopted_world(listen: &Listen, folder: Option<Folder>) -> SocketWorld {
    let mut world = world_on(config(), listen, folder);
    let acceptor = std::mem::replace(world.net.inner(), Tested::new(config()).unwrap());
    let acceptor = world.acceptor.insert(acceptor);
    let balance = Balance::new(2);
    acceptor.join(balance.seat(0));
    world.net.join(balance.seat(1));
    balance.pretend(0, 1 << 30);
    world
}

/// Has no connections.
struct Nobody;
impl Handler for Nobody {
    fn opened(&mut self, _conn: ConnId, peer: Peer, _out: &mut Out) -> Flow {
        panic!("{peer:?} was not handed over");
    }
    fn data(&mut self, _conn: ConnId, _bytes: &[u8], _out: &mut Out) -> Flow {
        unreachable!()
    }
    fn sink(&mut self, _conn: ConnId) -> &mut [u8] {
        unreachable!()
    }
    fn sunk(&mut self, _conn: ConnId, _bytes: usize, _out: &mut Out) -> Flow {
        unreachable!()
    }
    fn sent(&mut self, _conn: ConnId, _queued: usize, _out: &mut Out) {}
    fn closed(&mut self, _conn: ConnId, _why: Why) {}
    fn signal(&mut self, _signo: i32) {}
}

/// A slow machine shall not look like a peer that lingers too long.
fn config() -> SocketConfig {
    SocketConfig { linger_ms: 3_600_000, ..SocketConfig::default() }
}

fn tcp_world() -> SocketWorld {
    world_on(config(), &loopback(), None)
}

fn unix_world(name: &str) -> SocketWorld {
    let folder = Folder::new(name);
    let path = folder.0.join("sock");
    world_on(config(), &unix(&path), Some(folder))
}

pub(super) fn tcp_address(address: &LocalAddr) -> SocketAddr {
    match address {
        LocalAddr::Tcp(address) => *address,
        LocalAddr::Unix(path) => panic!("{} is not TCP", path.display()),
    }
}

impl World for SocketWorld {
    type Net = Checked<Tested>;
    const FLOOD_BYTES: usize = 24 << 20;

    fn net(&mut self) -> &mut Checked<Tested> {
        &mut self.net
    }

    fn connect(&mut self) -> Option<usize> {
        let stream: Box<dyn Stream> = match &self.address {
            LocalAddr::Tcp(address) => {
                let stream = TcpStream::connect(address).ok()?;
                stream.set_nonblocking(true).unwrap();
                Box::new(stream)
            }
            LocalAddr::Unix(path) => {
                let stream = UnixStream::connect(path).ok()?;
                stream.set_nonblocking(true).unwrap();
                Box::new(stream)
            }
        };
        self.clients.push(Client {
            stream: Some(stream),
            outgoing: VecDeque::new(),
            shutdown: false,
            reading: true,
            received: Vec::new(),
            end: None,
        });
        Some(self.clients.len() - 1)
    }

    fn send(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].outgoing.extend(bytes);
    }

    fn close_write(&mut self, client: usize) {
        self.clients[client].shutdown = true;
    }

    fn reset(&mut self, client: usize) {
        let stream = self.clients[client].stream.take().unwrap();
        // Closing with this option resets at once.
        let now = libc::linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&stream, sockopt::Linger, &now).unwrap();
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
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.poll(&mut Nobody, Some(Duration::ZERO)).unwrap();
        }
        let mut window = vec![0; 256 << 10];
        for client in &mut self.clients {
            let Some(stream) = &mut client.stream else { continue };
            while !client.outgoing.is_empty() {
                // An error of writing shows up as an end of reading.
                let Ok(n) = stream.write(client.outgoing.as_slices().0) else { break };
                client.outgoing.drain(..n);
            }
            if client.shutdown && client.outgoing.is_empty() {
                client.shutdown = false;
                let _ = shutdown(stream.as_fd().as_raw_fd(), Shutdown::Write);
            }
            while client.reading && client.end.is_none() {
                match stream.read(&mut window) {
                    Ok(0) => client.end = Some(End::Eof),
                    Ok(n) => client.received.extend(&window[..n]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => client.end = Some(End::Reset),
                }
            }
        }
    }
}

mod tcp {
    crate::net::conformance::conformance_tests! { if super::available(); super::tcp_world() }
}

mod unix_socket {
    // A Unix socket knows no reset: a peer that closes is seen as closed, or as an error if it left something unread.
    crate::net::conformance::conformance_tests! { if super::available(); super::unix_world(std::thread::current().name().unwrap()),
        echoes_frames_of_any_size large_values_land_in_the_sink many_clients_at_once a_paused_connection_is_not_read
        a_client_that_does_not_read_is_not_read a_half_closed_peer_gets_its_replies an_empty_connection_closes
        half_closed_while_paused_it_may_finish half_closed_while_paused_it_may_give_up
        finish_sends_everything_first abort_drops_what_is_queued
        abort_in_an_event finish_from_outside a_stale_id_is_ignored output_outside_of_an_event a_reply_in_pieces
        a_firehose_does_not_hold_up_the_others a_turn_that_is_over_ends_and_goes_on_in_order no_listener_no_new_connections
    }
}

mod adopted {
    // All but `no_listener_no_new_connections`: the listener is another's.
    crate::net::conformance::conformance_tests! { if super::available(); super::adopted_world(&super::loopback(), None),
        echoes_frames_of_any_size large_values_land_in_the_sink many_clients_at_once a_paused_connection_is_not_read
        a_client_that_does_not_read_is_not_read a_half_closed_peer_gets_its_replies an_empty_connection_closes
        half_closed_while_paused_it_may_finish half_closed_while_paused_it_may_give_up a_reset_closes_once
        a_reset_ends_a_paused_connection a_reset_ends_a_queue finish_sends_everything_first abort_drops_what_is_queued
        abort_in_an_event finish_from_outside a_stale_id_is_ignored output_outside_of_an_event a_reply_in_pieces
        a_firehose_does_not_hold_up_the_others a_turn_that_is_over_ends_and_goes_on_in_order
    }
}

#[test]
fn random_programs_of_adopted_connections() {
    let true = available() else { return };
    for seed in 200..203 {
        conformance::random_programs(&mut Rig::new(adopted_world(&loopback(), None)), seed);
        let folder = Folder::new(&format!("adopted-{seed}"));
        let listen = unix(&folder.0.join("sock"));
        conformance::random_programs(&mut Rig::new(adopted_world(&listen, Some(folder))), seed);
    }
}

#[test]
fn an_adopted_peer_is_told_as_an_accepted_one() {
    let true = available() else { return };
    let mut rig = Rig::new(adopted_world(&loopback(), None));
    let (_client, conn) = rig.client();
    let address = rig.world.address.to_string();
    let (opened, peer) = &rig.tester.opened[0];
    assert_eq!((*opened, &peer.local), (conn, &address));
    assert!(peer.remote.starts_with("127.0.0.1:") && !peer.unix);
    let fd = peer.fd;
    let net = rig.world.net().inner();
    assert_eq!(net.conns.get(conn).unwrap().fd.as_raw_fd(), fd);
    assert!(getsockopt(&net.conns.get(conn).unwrap().fd, sockopt::TcpNoDelay).unwrap());
}

#[test]
fn random_programs() {
    let true = available() else { return };
    for seed in 0..6 {
        conformance::random_programs(&mut Rig::new(tcp_world()), seed);
    }
}

#[test]
fn random_programs_with_tight_limits() {
    let true = available() else { return };
    for seed in 100..106 {
        let net = NetConfig { window_bytes: 512, out_high_bytes: 3000, out_low_bytes: 0 };
        let tight = SocketConfig { net, spin_us: 20, ..config() };
        conformance::random_programs(&mut Rig::new(world_on(tight, &loopback(), None)), seed);
    }
}

#[test]
fn a_unix_peer_that_is_gone_ends_a_paused_connection() {
    let true = available() else { return };
    let mut rig = Rig::new(unix_world("gone"));
    rig.tester.hold = true;
    let (client, conn) = rig.client();
    let mut stream = Vec::new();
    frame(conformance::PAUSE, 0, &mut stream);
    rig.world.send(client, &stream);
    rig.until("the pause", |rig| rig.tester.is_paused(conn));
    rig.world.clients[client].stream = None;
    assert_eq!(rig.closes(conn), Why::Peer);
}

#[test]
fn an_idle_connection_costs_at_most_120_bytes() {
    let true = available() else { return };
    let mut rig = Rig::new(tcp_world());
    let mut stream = Vec::new();
    frame(ECHO, 100, &mut stream);
    let served = |rig: &mut Rig<SocketWorld>, until: usize| {
        while rig.tester.opened.len() < until {
            let (client, _) = rig.client();
            rig.world.send(client, &stream);
            rig.receives(client, &expected(&stream));
        }
    };
    // Whole chunks of slots, so that none is counted that is not used.
    served(&mut rig, 256);
    let before = rig.world.net().memory_bytes();
    served(&mut rig, 1024);
    let each = (rig.world.net().memory_bytes() - before) / 768;
    assert!(each <= 120, "{each} bytes a connection");
    assert_eq!(rig.world.net().inner().connections(), 1024);
}

#[test]
fn a_ring_from_another_thread_ends_the_wait() {
    let true = available() else { return };
    let mut net = Tested::new(SocketConfig::default()).unwrap();
    let mut tester = conformance::Tester::default();
    for round in 1..=3 {
        let bell = net.doorbell();
        let thread = std::thread::spawn(move || bell.ring());
        while tester.mails < round {
            net.poll(&mut tester, None).unwrap();
        }
        thread.join().unwrap();
    }
    // Rings before the wait are not lost.
    net.doorbell().ring();
    net.doorbell().ring();
    net.poll(&mut tester, None).unwrap();
    assert_eq!(tester.mails, 4);
}

#[test]
fn signals_are_events() {
    let true = available() else { return };
    let mut net = Tested::new(SocketConfig::default()).unwrap();
    net.enable_signals().unwrap();
    let mut tester = conformance::Tester::default();
    // To this thread, where they are blocked.
    nix::sys::signal::raise(Signal::SIGTERM).unwrap();
    nix::sys::signal::raise(Signal::SIGINT).unwrap();
    net.poll(&mut tester, None).unwrap();
    tester.signals.sort_unstable();
    assert_eq!(tester.signals, [2, 15]);
}

#[test]
fn a_timeout_ends_the_wait() {
    let true = available() else { return };
    let mut net = Tested::new(SocketConfig { spin_us: 100, ..SocketConfig::default() }).unwrap();
    let mut tester = conformance::Tester::default();
    for timeout in [Duration::ZERO, Duration::from_micros(50), Duration::from_micros(1500)] {
        let begin = Instant::now();
        net.poll(&mut tester, Some(timeout)).unwrap();
        assert!(begin.elapsed() >= timeout, "woke up before its time");
    }
}

#[test]
fn accepted_sockets_inherit_the_options() {
    let true = available() else { return };
    let mut rig = Rig::new(world_on(config(), &Listen { tcp_keepalive_s: 90, ..loopback() }, None));
    let (_, first) = rig.client();
    rig.world.net().inner().set_tcp_keepalive_s(0).unwrap();
    let (_, second) = rig.client();
    let net = rig.world.net().inner();
    let fd = &net.conns.get(first).unwrap().fd;
    assert!(getsockopt(fd, sockopt::TcpNoDelay).unwrap());
    assert!(getsockopt(fd, sockopt::KeepAlive).unwrap());
    assert_eq!(getsockopt(fd, sockopt::TcpKeepIdle).unwrap(), 90);
    assert_eq!(getsockopt(fd, sockopt::TcpKeepInterval).unwrap(), 30);
    assert_eq!(getsockopt(fd, sockopt::TcpKeepCount).unwrap(), 3);
    let fd = &net.conns.get(second).unwrap().fd;
    assert!(getsockopt(fd, sockopt::TcpNoDelay).unwrap());
    assert!(!getsockopt(fd, sockopt::KeepAlive).unwrap());
}

#[test]
fn several_addresses_with_ports_of_their_own() {
    let true = available() else { return };
    let mut net = Tested::new(SocketConfig::default()).unwrap();
    // 192.0.2.1 is reserved for documentation: no machine has it.
    let bind = ["127.0.0.1", "-::1", "127.0.0.2", "-192.0.2.1"].map(String::from).to_vec();
    net.listen(&Listen { bind, port: Some(0), ..Listen::default() }).unwrap();
    let addresses = net.local_addrs();
    assert!(addresses.len() == 2 || addresses.len() == 3, "{addresses:?}");
    let mut tester = conformance::Tester::default();
    for address in &addresses {
        let client = TcpStream::connect(tcp_address(address)).unwrap();
        let before = tester.opened.len();
        while tester.opened.len() == before {
            net.poll(&mut tester, None).unwrap();
        }
        let peer = &tester.opened.last().unwrap().1;
        assert_eq!(peer.remote, client.local_addr().unwrap().to_string());
        assert_eq!(peer.local, address.to_string());
        assert!(!peer.unix && peer.fd > 2);
    }
}

#[test]
fn a_wildcard_knows_the_address_that_was_used() {
    let true = available() else { return };
    let mut rig = Rig::new(world_on(config(), &Listen { bind: vec!["*".into()], ..loopback() }, None));
    let port = tcp_address(&rig.world.address).port();
    rig.world.address = LocalAddr::Tcp(SocketAddr::from(([127, 0, 0, 3], port)));
    rig.client();
    assert_eq!(rig.tester.opened[0].1.local, format!("127.0.0.3:{port}"));
}

#[test]
fn what_cannot_be_bound_is_named() {
    let true = available() else { return };
    let mut net = Tested::new(SocketConfig::default()).unwrap();
    net.listen(&loopback()).unwrap();
    let port = tcp_address(&net.local_addrs()[0]).port();
    let taken = net.listen(&Listen { port: Some(port), ..loopback() }).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    assert!(taken.to_string().contains(&port.to_string()), "{taken}");
    let missing = net.listen(&Listen { bind: vec!["192.0.2.1".into()], ..loopback() }).unwrap_err();
    assert!(missing.to_string().contains("192.0.2.1"), "{missing}");
    assert_eq!(net.local_addrs().len(), 1, "nothing was added");
}

#[test]
fn the_file_of_a_unix_socket() {
    let true = available() else { return };
    let folder = Folder::new("file");
    let path = folder.0.join("sock");
    let listen = Listen { unix_perm: Some(0o700), ..unix(&path) };
    // A stale one gives way.
    drop(UnixListener::bind(&path).unwrap());
    let mut net = Tested::new(SocketConfig::default()).unwrap();
    net.listen(&listen).unwrap();
    let file = std::fs::metadata(&path).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o700);
    assert_eq!(net.local_addrs(), [LocalAddr::Unix(path.clone())]);
    // One in use does not.
    let error = Tested::new(SocketConfig::default()).unwrap().listen(&listen).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let mut tester = conformance::Tester::default();
    let _client = UnixStream::connect(&path).unwrap();
    while tester.opened.is_empty() {
        net.poll(&mut tester, None).unwrap();
    }
    let peer = &tester.opened[0].1;
    assert_eq!(peer.remote, format!("{}:0", path.display()));
    assert!(peer.unix);
    net.stop_listening();
    assert!(!path.exists(), "it is removed with the listener");
    // What is not a socket is left alone.
    std::fs::write(&path, "precious").unwrap();
    assert!(net.listen(&listen).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    drop(net);
    assert!(path.exists());
}

#[test]
fn lingering_ends_when_the_peer_has_closed() {
    let true = available() else { return };
    let mut rig = Rig::new(tcp_world());
    let (client, conn) = rig.client();
    let mut stream = Vec::new();
    frame(conformance::FINISH, 0, &mut stream);
    rig.world.send(client, &stream);
    assert_eq!(rig.closes(conn), Why::Handler);
    assert_eq!(rig.ends(client), End::Eof);
    assert_eq!(rig.world.net().inner().connections(), 1, "the descriptor waits for the peer");
    rig.world.clients[client].stream = None;
    rig.until("the descriptor is closed", |rig| rig.world.net().inner().connections() == 0);
}

#[test]
fn lingering_ends_when_it_is_too_much() {
    let true = available() else { return };
    let mut rig = Rig::new(tcp_world());
    let (client, conn) = rig.client();
    let mut stream = Vec::new();
    frame(conformance::FINISH, 0, &mut stream);
    stream.resize(2 * LINGER_BYTES + (16 << 20), 0);
    rig.world.send(client, &stream);
    rig.closes(conn);
    rig.until("the descriptor is closed", |rig| rig.world.net().inner().connections() == 0);
    assert!(!rig.world.clients[client].outgoing.is_empty(), "not all of it was taken");
}

#[test]
fn lingering_ends_in_time_and_poll_wakes_up_for_it() {
    let true = available() else { return };
    let mut rig = Rig::new(world_on(SocketConfig { linger_ms: 20, ..config() }, &loopback(), None));
    let (_client, conn) = rig.client();
    rig.world.net().close(conn, Flow::Finish);
    rig.closes(conn);
    while rig.world.net().inner().connections() > 0 {
        rig.world.net.poll(&mut rig.tester, None).unwrap();
    }
}

/// Runs alone in a process, where the limit of descriptors can be changed.
#[test]
#[ignore = "run by the test below"]
fn without_descriptors_child() {
    let true = available() else { return };
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let mut rig = Rig::new(tcp_world());
    let (first, conn) = rig.client();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // The client's end gets the last descriptor that the limit allows.
    let next = rig.world.clients[first].stream.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
    let limit = u64::try_from(next.as_raw_fd()).unwrap() + 1;
    drop(next);
    setrlimit(Resource::RLIMIT_NOFILE, limit, hard).unwrap();
    let second = rig.world.connect().unwrap();
    rig.turns(5);
    assert_eq!(rig.tester.opened.len(), 1, "there is no descriptor for it");
    assert!(rig.world.net().inner().accept_pause.is_some(), "and no spinning");
    // The first is served as ever.
    let mut stream = Vec::new();
    frame(ECHO, 10, &mut stream);
    rig.world.send(first, &stream);
    rig.receives(first, &expected(&stream));
    // When it goes, the second takes its place.
    rig.world.close_write(first);
    rig.closes(conn);
    rig.world.send(second, &stream);
    rig.receives(second, &expected(&stream));
    println!("all went well");
}

#[test]
fn without_descriptors_accepting_pauses() {
    let true = available() else { return };
    super::several_tests::in_a_process(concat!(module_path!(), "::without_descriptors_child"));
}

#[test]
fn a_backend_can_be_given_to_a_thread() {
    let true = available() else { return };
    fn is_send<T: Send>() {}
    is_send::<Tested>();
    is_send::<Doorbell>();
}

/// What does not fit the room for collecting comes in several batches; a large input comes by itself.
#[test]
fn batches_are_bounded() {
    let true = available() else { return };
    let mut rig = Rig::new(tcp_world());
    let clients: Vec<(usize, ConnId)> = (0..60).map(|_| rig.client()).collect();
    let small = |stream: &mut Vec<u8>| frame(ECHO, COLLECT_MAX_BYTES - 100, stream);
    let large = |stream: &mut Vec<u8>| frame(ECHO, COLLECT_MAX_BYTES, stream);
    let mut streams: Vec<Vec<u8>> = vec![Vec::new(); clients.len()];
    rig.until("a full batch", |rig| {
        for ((client, _), stream) in clients.iter().zip(&mut streams) {
            let from = stream.len();
            if client % 10 == 0 {
                large(stream)
            } else {
                small(stream)
            }
            rig.world.send(*client, &stream[from..]);
        }
        rig.world.step();
        rig.turn();
        rig.tester.batches.iter().any(|(_, bytes)| *bytes > COLLECTED_BYTES)
    });
    for ((client, _), stream) in clients.iter().zip(&streams) {
        rig.receives(*client, &expected(stream));
    }
    for (inputs, bytes) in &rig.tester.batches {
        assert!(*inputs > 1 && *bytes < COLLECTED_BYTES + COLLECT_MAX_BYTES, "{inputs} inputs of {bytes} bytes");
    }
}
