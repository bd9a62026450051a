//! Several backends on threads of their own, as several workers run them: one port, one balance, connections handed over.
//! Nothing waits for a time: a test goes on when what it waits for has happened, and fails after a minute.
use super::tests::{Folder, loopback, tcp_address, unix};
use super::{Tested, available};
use crate::base::out::Out;
use crate::net::{Backend, Balance, ConnId, Doorbell, Flow, Handler, Listen, LocalAddr, Peer, SocketConfig, Why};
use nix::sys::signal::{self, Signal};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, setsockopt, socket, sockopt,
};
use nix::unistd::Pid;
use std::collections::{HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WORKERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers every byte by the number of its worker, and those that are too many by "full".
struct Teller {
    worker: u8,
    balance: Arc<Balance>,
    clients_max: u32,
    open: HashSet<ConnId>,
    admitted: HashSet<ConnId>,
    opened: usize,
    closed: usize,
    signals: Vec<i32>,
}

impl Handler for Teller {
    fn opened(&mut self, conn: ConnId, _peer: Peer, out: &mut Out) -> Flow {
        self.opened += 1;
        assert!(self.open.insert(conn));
        if !self.balance.admit(self.clients_max) {
            out.extend(b"full");
            return Flow::Finish;
        }
        self.admitted.insert(conn);
        Flow::Read
    }
    fn data(&mut self, _conn: ConnId, bytes: &[u8], out: &mut Out) -> Flow {
        out.extend(&vec![b'0' + self.worker; bytes.len()]);
        Flow::Read
    }
    fn sink(&mut self, _conn: ConnId) -> &mut [u8] {
        unreachable!()
    }
    fn sunk(&mut self, _conn: ConnId, _bytes: usize, _out: &mut Out) -> Flow {
        unreachable!()
    }
    fn sent(&mut self, _conn: ConnId, _queued: usize, _out: &mut Out) {}
    fn closed(&mut self, conn: ConnId, _why: Why) {
        self.closed += 1;
        assert!(self.open.remove(&conn));
        if self.admitted.remove(&conn) {
            self.balance.dismiss();
        }
    }
    fn signal(&mut self, signo: i32) {
        self.signals.push(signo);
    }
}

/// A worker's loop, until it is told to stop: then it ends its connections.
fn serve(mut net: Tested, mut teller: Teller, stop: &AtomicBool) -> Teller {
    loop {
        net.poll(&mut teller, None).unwrap();
        net.flush(&mut teller);
        if stop.load(Ordering::Acquire) {
            net.stop_listening();
            for &conn in &teller.open {
                net.close(conn, Flow::Abort);
            }
            net.flush(&mut teller);
            assert!(teller.open.is_empty());
            return teller;
        }
    }
}

struct Group {
    balance: Arc<Balance>,
    address: LocalAddr,
    stops: Vec<Arc<AtomicBool>>,
    bells: Vec<Doorbell>,
    threads: Vec<Option<JoinHandle<Teller>>>,
}

impl Group {
    fn start(listen: &Listen, clients_max: u32) -> Group {
        let mut nets: Vec<Tested> = (0..WORKERS).map(|_| Tested::new(SocketConfig::default()).unwrap()).collect();
        let (first, others) = nets.split_first_mut().unwrap();
        // A child that another test starts holds a copy of a listener that was closed, until it executes its program.
        until("an address to listen on", || first.listen(listen).is_ok());
        others.iter_mut().for_each(|net| net.listen_beside(first, listen).unwrap());
        first.enable_signals().unwrap();
        let address = first.local_addrs().remove(0);
        let balance = Balance::new(WORKERS);
        for (worker, net) in nets.iter_mut().enumerate() {
            net.join(balance.seat(worker));
        }
        let bells = nets.iter().map(Tested::doorbell).collect();
        let stops: Vec<Arc<AtomicBool>> = (0..WORKERS).map(|_| Arc::default()).collect();
        let threads = nets.into_iter().zip(0..).zip(&stops).map(|((net, worker), stop)| {
            let teller = Teller {
                worker,
                balance: balance.clone(),
                clients_max,
                open: HashSet::new(),
                admitted: HashSet::new(),
                opened: 0,
                closed: 0,
                signals: Vec::new(),
            };
            let stop = stop.clone();
            Some(std::thread::spawn(move || serve(net, teller, &stop)))
        });
        let threads = threads.collect();
        Group { balance, address, stops, bells, threads }
    }

    fn stop(&mut self, worker: usize) -> Teller {
        self.stops[worker].store(true, Ordering::Release);
        self.bells[worker].ring();
        let teller = self.threads[worker].take().unwrap().join().unwrap();
        assert_eq!(teller.opened, teller.closed);
        teller
    }

    /// Stops all; nothing is counted any more.
    fn end(mut self) -> Vec<Teller> {
        let tellers = (0..WORKERS).filter(|&worker| self.threads[worker].is_some()).collect::<Vec<_>>();
        let tellers = tellers.into_iter().map(|worker| self.stop(worker)).collect();
        assert_eq!(self.counts(), [0; WORKERS]);
        assert_eq!(self.balance.admitted(), 0);
        tellers
    }

    fn counts(&self) -> [usize; WORKERS] {
        std::array::from_fn(|worker| self.balance.connections(worker))
    }

    fn tcp(&self) -> SocketAddr {
        tcp_address(&self.address)
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < limit, "waited in vain for: {what}");
        std::thread::yield_now();
    }
}

fn patient(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The first byte of the answer to one byte: a worker, or the 'f' of "full". `None`: the connection has ended.
fn ask(stream: &mut (impl Read + Write)) -> Option<u8> {
    let mut answer = [0];
    // An error of writing shows up as an end of reading.
    let _ = stream.write_all(b"?");
    match stream.read(&mut answer) {
        Ok(1) => Some(answer[0]),
        Ok(_) => None,
        Err(error) => {
            let leaked = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            assert!(!leaked, "nobody serves this connection, and nobody has closed it");
            None
        }
    }
}

/// 50 clients that are connected and served: none of the workers has less than half of the mean, and all is counted where it is.
fn assert_even(group: &Group, answers: &[u8]) {
    let served: [usize; WORKERS] =
        std::array::from_fn(|worker| answers.iter().filter(|&&answer| usize::from(answer - b'0') == worker).count());
    assert_eq!(served, group.counts());
    assert_eq!(served.iter().sum::<usize>(), 50);
    assert!(served.iter().all(|&n| n * WORKERS * 2 >= 50), "{served:?}");
}

#[test]
fn few_connections_are_spread() {
    let true = available() else { return };
    let group = Group::start(&loopback(), 1000);
    let mut clients: Vec<TcpStream> = (0..50).map(|_| patient(group.tcp()).unwrap()).collect();
    let answers: Vec<u8> = clients.iter_mut().map(|client| ask(client).unwrap()).collect();
    assert_even(&group, &answers);
    // Half of them go, whichever they are; those that come fill the gaps.
    clients.truncate(25);
    until("the closes", || {
        group.balance.connections(0)
            + group.balance.connections(1)
            + group.balance.connections(2)
            + group.balance.connections(3)
            == 25
    });
    let mut fresh: Vec<TcpStream> = (0..25).map(|_| patient(group.tcp()).unwrap()).collect();
    let mut answers = answers[..25].to_vec();
    answers.extend(fresh.iter_mut().map(|client| ask(client).unwrap()));
    assert_even(&group, &answers);
    drop((clients, fresh));
    assert!(group.end().iter().map(|teller| teller.opened).sum::<usize>() == 75);
}

#[test]
fn connections_that_come_at_once_are_spread() {
    let true = available() else { return };
    let group = Group::start(&loopback(), 1000);
    let address = group.tcp();
    let threads: Vec<_> = (0..10)
        .map(|_| {
            std::thread::spawn(move || {
                let mut clients: Vec<TcpStream> = (0..5).map(|_| patient(address).unwrap()).collect();
                let answers: Vec<u8> = clients.iter_mut().map(|client| ask(client).unwrap()).collect();
                (clients, answers)
            })
        })
        .collect();
    let (clients, answers): (Vec<_>, Vec<_>) = threads.into_iter().map(|thread| thread.join().unwrap()).unzip();
    assert_even(&group, &answers.concat());
    drop(clients);
    group.end();
}

#[test]
fn one_worker_listens_on_a_unix_socket_and_all_serve_it() {
    let true = available() else { return };
    let folder = Folder::new("several");
    let path = folder.0.join("sock");
    let group = Group::start(&unix(&path), 1000);
    let mut clients: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(&path).unwrap()).collect();
    clients.iter().for_each(|client| client.set_read_timeout(Some(PATIENCE)).unwrap());
    let answers: Vec<u8> = clients.iter_mut().map(|client| ask(client).unwrap()).collect();
    assert_even(&group, &answers);
    group.end();
    assert!(!path.exists());
}

#[test]
fn a_storm_of_closes_is_counted() {
    let true = available() else { return };
    let group = Group::start(&loopback(), 1000);
    let address = group.tcp();
    let threads: Vec<_> = (0..6)
        .map(|thread| {
            std::thread::spawn(move || {
                for round in 0..60 {
                    let mut client = patient(address).unwrap();
                    match (thread + round) % 5 {
                        0 => {}
                        1 => assert!(ask(&mut client).is_some()),
                        2 => {
                            // Closing with this option resets at once.
                            let now = libc::linger { l_onoff: 1, l_linger: 0 };
                            setsockopt(&client, sockopt::Linger, &now).unwrap();
                            let _ = client.write_all(b"?");
                        }
                        3 => {
                            client.write_all(b"??").unwrap();
                            client.shutdown(Shutdown::Write).unwrap();
                            let mut answer = Vec::new();
                            client.read_to_end(&mut answer).unwrap();
                            assert_eq!(answer.len(), 2);
                        }
                        _ => {
                            let mut more = patient(address).unwrap();
                            assert!(ask(&mut more).is_some() && ask(&mut client).is_some());
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    until("all closes", || group.counts() == [0; WORKERS]);
    assert_eq!(group.balance.admitted(), 0);
    let opened: Vec<usize> = group.end().iter().map(|teller| teller.opened).collect();
    assert!(opened.iter().all(|&n| n > 0), "{opened:?}");
}

#[test]
fn workers_stop_while_connections_are_handed_over() {
    let true = available() else { return };
    let mut group = Group::start(&loopback(), 1000);
    let (address, total) = (group.tcp(), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let total = total.clone();
            std::thread::spawn(move || {
                let mut kept = VecDeque::new();
                // Until nobody listens. Every connection that was made is served or closed; `ask` fails if one is neither.
                while let Ok(mut client) = patient(address) {
                    ask(&mut client);
                    kept.push_back(client);
                    if kept.len() > 5 {
                        kept.pop_front();
                    }
                    total.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for worker in [2, 0, 3, 1] {
        let goal = total.load(Ordering::Relaxed) + 60;
        until("some connections", || total.load(Ordering::Relaxed) >= goal);
        group.stop(worker);
        assert_eq!(group.balance.connections(worker), 0);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    group.end();
}

#[test]
fn the_number_of_clients_is_limited_over_all_workers() {
    let true = available() else { return };
    let group = Group::start(&loopback(), 10);
    let ask_all = |clients: &mut Vec<TcpStream>| -> Vec<Option<u8>> { clients.iter_mut().map(ask).collect() };
    let mut clients: Vec<TcpStream> = (0..50).map(|_| patient(group.tcp()).unwrap()).collect();
    let answers = ask_all(&mut clients);
    let refused = answers.iter().filter(|answer| **answer == Some(b'f')).count();
    assert_eq!((refused, group.balance.admitted()), (40, 10));
    // When four of those that were admitted have gone, four others may come.
    let mut left = 4;
    let mut kept = Vec::new();
    for (client, answer) in clients.into_iter().zip(answers) {
        if answer != Some(b'f') && left > 0 {
            left -= 1;
        } else {
            kept.push(client);
        }
    }
    until("the closes", || group.balance.admitted() == 6);
    let mut fresh: Vec<TcpStream> = (0..20).map(|_| patient(group.tcp()).unwrap()).collect();
    let refused = ask_all(&mut fresh).iter().filter(|answer| **answer == Some(b'f')).count();
    assert_eq!((refused, group.balance.admitted()), (16, 10));
    group.end();
}

// --- addresses -------------------------------------------------------------------------------------------------------------------

#[test]
fn backends_share_a_port_and_other_servers_do_not() {
    let true = available() else { return };
    let new = || Tested::new(SocketConfig::default()).unwrap();
    let (mut first, mut second, mut third) = (new(), new(), new());
    let two = Listen { bind: ["127.0.0.1", "127.0.0.2", "-192.0.2.1"].map(String::from).to_vec(), ..loopback() };
    first.listen(&two).unwrap();
    second.listen_beside(&first, &two).unwrap();
    third.listen_beside(&first, &two).unwrap();
    assert_eq!(first.local_addrs().len(), 2);
    assert_eq!(first.local_addrs(), second.local_addrs());
    assert_eq!(first.local_addrs(), third.local_addrs());
    // Another server, of one worker or of several, also while some of the listeners are closed again.
    let port = tcp_address(&first.local_addrs()[0]).port();
    let same = Listen { port: Some(port), ..loopback() };
    let mut other = new();
    assert_eq!(other.listen(&same).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert_eq!(
        other.listen(&Listen { bind: vec!["*".into()], ..same.clone() }).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
    first.stop_listening();
    third.stop_listening();
    assert_eq!(other.listen(&same).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(other.local_addrs().is_empty());
}

#[test]
fn a_port_that_another_program_is_willing_to_share_is_taken() {
    let true = available() else { return };
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&fd, sockopt::ReuseAddr, &true).unwrap();
    setsockopt(&fd, sockopt::ReusePort, &true).unwrap();
    bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&fd, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
    let port = getsockname::<SockaddrIn>(fd.as_raw_fd()).unwrap().port();
    let error =
        Tested::new(SocketConfig::default()).unwrap().listen(&Listen { port: Some(port), ..loopback() }).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[test]
fn the_kernel_spreads_over_all_listeners() {
    let true = available() else { return };
    let group = Group::start(&loopback(), 1000);
    // Every worker takes part in accepting: with the others overloaded, one that has no listener of its own would serve nobody.
    let mut seen = HashSet::new();
    (0..WORKERS).for_each(|worker| group.balance.pretend(worker, 1 << 20));
    until("all workers", || {
        let mut client = patient(group.tcp()).unwrap();
        seen.insert(ask(&mut client).unwrap());
        seen.len() == WORKERS
    });
    for place in 0..WORKERS {
        group.balance.pretend(place, 0u32.wrapping_sub(1 << 20));
    }
    group.end();
}

#[test]
fn a_server_that_had_clients_can_be_started_again() {
    let true = available() else { return };
    // An address that no other test uses, so that nobody takes the port meanwhile.
    let here = if module_path!().contains("uring") { "127.77.3.2" } else { "127.77.3.1" };
    let here = Listen { bind: vec![here.into()], ..loopback() };
    let mut group = Group::start(&here, 1000);
    let address = group.tcp();
    let mut clients: Vec<TcpStream> = (0..8).map(|_| patient(address).unwrap()).collect();
    clients.iter_mut().for_each(|client| assert!(ask(client).is_some()));
    // The server closes first, so that its side keeps the connections for a while.
    (0..WORKERS).for_each(|worker| drop(group.stop(worker)));
    let again = Group::start(&Listen { port: Some(address.port()), ..here }, 1000);
    assert_eq!(again.tcp(), address);
    assert!(ask(&mut patient(address).unwrap()).is_some());
    again.end();
}

// --- signals ---------------------------------------------------------------------------------------------------------------------

/// Runs alone in a process, as it sends signals to all of it.
#[test]
#[ignore = "run by the test below"]
fn signals_child() {
    let true = available() else { return };
    crate::net::signals::terminating().thread_unblock().unwrap();
    crate::net::block_signals().unwrap();
    let mut group = Group::start(&loopback(), 1000);
    signal::kill(Pid::this(), Signal::SIGTERM).unwrap();
    signal::kill(Pid::this(), Signal::SIGINT).unwrap();
    // The process lives; a worker that answers after the signals has had its chance to see them.
    let mut clients: Vec<TcpStream> = (0..WORKERS * 4).map(|_| patient(group.tcp()).unwrap()).collect();
    clients.iter_mut().for_each(|client| assert!(ask(client).is_some()));
    for worker in (0..WORKERS).rev() {
        let mut signals = group.stop(worker).signals;
        signals.sort_unstable();
        assert_eq!(signals, if worker == 0 { vec![2, 15] } else { Vec::new() }, "worker {worker}");
    }
    println!("all went well");
}

#[test]
fn one_of_several_threads_gets_the_signals() {
    let true = available() else { return };
    // The child inherits what is blocked: the thread in which its harness waits has not called `block_signals`.
    crate::net::block_signals().unwrap();
    in_a_process(concat!(module_path!(), "::signals_child"));
}

/// Runs an ignored test, by its path, in a process of its own; it says that all went well.
pub(super) fn in_a_process(path: &str) {
    let name = path.split_once("::").unwrap().1;
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("all went well"), "{text}{}", String::from_utf8_lossy(&run.stderr));
}
