//! `net xdp:` and `net tun:` end to end: TCP of our own, over interfaces that each test makes for itself (root, `ip`, and namespaces are needed;
//! where they are missing the tests say so and do nothing).

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

use crate::harness::{Client, Folder, Kind, PATIENCE, Reply, eventually, program, request, skip, under_test};

const PORT: u16 = 6399;

fn ip(arguments: &str) -> Result<String, String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// An interface of the test's, and what is behind it.
struct Lane {
    /// Made by us here; goes with `namespace`, if there is one.
    near: String,
    /// The server's namespace, and the interface in it.
    namespace: Option<String>,
    far: String,
    addresses: Vec<IpAddr>,
}

/// Numbers of its own for each lane of each test process.
fn number() -> (u32, u32) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Lane {
    /// A veth pair, its other end in a namespace.
    fn veth() -> Result<Lane, String> {
        let (pid, n) = number();
        let (near, far, namespace) = (format!("dx{pid}n{n}"), format!("dx{pid}f{n}"), format!("dolmen-{pid}-{n}"));
        let net = format!("10.{}.{}.{}", 200 + n, pid / 64 % 256, pid % 64 * 4);
        let [here, there] = [1, 2].map(|host| {
            let (head, last) = net.rsplit_once('.').expect("four parts");
            format!("{head}.{}", last.parse::<u32>().expect("a number") + host)
        });
        let [here6, there6] = [1, 2].map(|host| format!("fd00:{n:x}:{:x}:{:x}::{host}", pid >> 16, pid & 0xffff));
        ip(&format!("netns add {namespace}"))?;
        let addresses = vec![there.parse().expect("an address"), there6.parse().expect("an address")];
        let lane = Lane { near: near.clone(), namespace: Some(namespace.clone()), far: far.clone(), addresses };
        ip(&format!("link add {near} type veth peer name {far} netns {namespace}"))?;
        ip(&format!("addr add {here}/30 dev {near}"))?;
        ip(&format!("addr add {here6}/64 dev {near} nodad"))?;
        ip(&format!("link set {near} up"))?;
        ip(&format!("-n {namespace} addr add {there}/30 dev {far}"))?;
        ip(&format!("-n {namespace} addr add {there6}/64 dev {far} nodad"))?;
        ip(&format!("-n {namespace} link set {far} up"))?;
        ip(&format!("-n {namespace} link set lo up"))?;
        Ok(lane)
    }

    /// A TUN interface.
    fn tun() -> Result<Lane, String> {
        let (pid, n) = number();
        let near = format!("dt{pid}n{n}");
        ip(&format!("tuntap add dev {near} mode tun"))?;
        let there = format!("10.{}.{}.{}", 200 + n, pid / 64 % 256, pid % 64 * 4 + 2);
        let here = format!("10.{}.{}.{}", 200 + n, pid / 64 % 256, pid % 64 * 4 + 1);
        let addresses = vec![there.parse().expect("an address")];
        let lane = Lane { near: near.clone(), namespace: None, far: near.clone(), addresses };
        ip(&format!("addr add {here} peer {there} dev {near}"))?;
        ip(&format!("link set {near} up"))?;
        Ok(lane)
    }

    fn start(&self, net: &str, more: &[&str]) -> Running {
        let folder = Folder::new();
        let log = folder.path().join("output");
        let file = File::create(&log).expect("a file for the server's output");
        let mut command = match &self.namespace {
            // It becomes the server, so its process id is the server's.
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(under_test().0);
                command
            }
            None => Command::new(under_test().0),
        };
        let port = PORT.to_string();
        let child = command
            .args(["--net", net, "--port", &port, "--workers", "1", "--save", "", "--protected-mode", "no"])
            .args(more)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(file.try_clone().expect("a second handle"))
            .stdout(file)
            .spawn()
            .expect("the server starts");
        let mut running = Running { child, folder };
        eventually("the server is ready", || {
            let gone = running.child.try_wait().expect("it can be waited for").is_some();
            assert!(!gone, "the server has ended: {}", running.output());
            running.output().contains("Ready to accept")
        });
        running
    }

    fn connect(&self, address: usize) -> TcpStream {
        let address = SocketAddr::new(self.addresses[address], PORT);
        TcpStream::connect_timeout(&address, PATIENCE).expect("the server accepts")
    }

    fn client(&self) -> Client {
        Client::over(self.connect(0))
    }

    /// Whether a program hangs on the server's interface.
    fn has_program(&self) -> bool {
        let namespace = self.namespace.as_deref().expect("a veth pair");
        ip(&format!("-n {namespace} -d link show dev {}", self.far)).expect("it is there").contains("xdp")
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let _ = match &self.namespace {
            Some(namespace) => ip(&format!("netns del {namespace}")),
            None => ip(&format!("link del {}", self.near)),
        };
        let _ = ip(&format!("link del {}", self.near));
    }
}

struct Running {
    child: Child,
    folder: Folder,
}

impl Running {
    fn output(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("output")).unwrap_or_default()
    }

    fn signal(&mut self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, signal).expect("the server is there");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None`: this is no server of ours, or nothing of the kind can be made here.
fn lane(test: &str, make: fn() -> Result<Lane, String>) -> Option<Lane> {
    if under_test().1 == Kind::Redis {
        return None;
    }
    make().map_err(|why| skip(test, &why)).ok()
}

fn serves(lane: &Lane, api: &str) {
    let mut c = lane.client();
    assert_eq!(c.info("multiplexing_api"), api);
    // More than a turn's share at once.
    let pipeline: Vec<u8> = (0..20_000).flat_map(|i| request(&["SET", &format!("key:{i}"), "0123456789"])).collect();
    std::thread::scope(|scope| {
        let mut stream = c.stream().try_clone().expect("a second handle");
        scope.spawn(move || stream.write_all(&pipeline).expect("all of it is taken"));
        (0..20_000).for_each(|_| assert_eq!(c.read(), Reply::Simple("OK".into())));
    });
    // Values of a frame, of a window of TCP, and far more.
    for bytes in [1400, 65_536, 3_000_000] {
        let value: Vec<u8> = (0..bytes).map(|i: u32| u8::try_from(i % 251).expect("a byte")).collect();
        assert_eq!(c.call(&[&b"SET"[..], b"large", &value]), Reply::Simple("OK".into()));
        c.expect("APPEND small x", ":1");
        assert!(c.run("GET large").bytes() == value);
        c.expect("DEL small", ":1");
    }
    // Every address of the interface.
    for address in 0..lane.addresses.len() {
        Client::over(lane.connect(address)).expect("PING", "+PONG");
    }
    // Many at once, each with a request; then some go politely, some by a reset, some with replies that nobody reads.
    let mut many: Vec<_> = (0..300).map(|_| lane.client()).collect();
    many.iter().for_each(|client| client.stream().write_all(b"PING\r\n").expect("it is taken"));
    many.iter_mut().for_each(|client| assert_eq!(client.read(), Reply::Simple("PONG".into())));
    for (number, client) in many.into_iter().enumerate() {
        if number % 3 == 0 {
            client.stream().write_all(&request(&["GET", "large"])).expect("it is taken");
        }
        if number % 2 == 0 {
            let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
            setsockopt(client.stream(), sockopt::Linger, &at_once).expect("the option");
        }
    }
    for _ in 0..200 {
        lane.client().expect("PING", "+PONG");
    }
    eventually("all others have gone", || c.info_number("connected_clients") == 1);
    c.expect("PING", "+PONG");
}

#[test]
fn xdp_serves_all_kinds_of_clients() {
    let Some(lane) = lane("xdp_serves_all_kinds_of_clients", Lane::veth) else { return };
    let mut server = lane.start(&format!("xdp:{}", lane.far), &["--bind", "*", "::*"]);
    assert!(server.output().contains("AF_XDP"), "{}", server.output());
    serves(&lane, "xdp");
    if let Some(benchmark) = program("redis-benchmark") {
        let (host, port) = (lane.addresses[0].to_string(), PORT.to_string());
        for more in [&["-P", "16", "-n", "20000"][..], &["-d", "65536", "-n", "200"]] {
            let mut command = Command::new(&benchmark);
            command.args(["-h", &host, "-p", &port, "-t", "set,get", "-q", "-c", "20"]).args(more);
            assert!(command.stdout(Stdio::null()).status().expect("it runs").success());
        }
    }
    server.signal(Signal::SIGTERM);
    assert!(!lane.has_program());
}

#[test]
fn xdp_killed_leaves_no_program_and_starts_at_once() {
    let Some(lane) = lane("xdp_killed_leaves_no_program_and_starts_at_once", Lane::veth) else { return };
    for _ in 0..3 {
        let mut server = lane.start(&format!("xdp:{}", lane.far), &["--bind", "*"]);
        assert!(lane.has_program());
        let mut client = lane.client();
        client.expect("SET key value", "+OK");
        server.signal(Signal::SIGKILL);
        eventually("the program is gone", || !lane.has_program());
    }
    // Who was connected to the one before is told so by the next.
    let first = lane.start(&format!("xdp:{}", lane.far), &["--bind", "*"]);
    let mut client = lane.client();
    drop(first);
    let _second = lane.start(&format!("xdp:{}", lane.far), &["--bind", "*"]);
    client.stream().write_all(b"PING\r\n").expect("it is taken");
    client.expect_closed();
    lane.client().expect("PING", "+PONG");
}

#[test]
fn tun_serves_all_kinds_of_clients() {
    let Some(lane) = lane("tun_serves_all_kinds_of_clients", Lane::tun) else { return };
    let mut server = lane.start(&format!("tun:{}", lane.far), &[]);
    serves(&lane, "tun");
    server.signal(Signal::SIGTERM);
    let _server = lane.start(&format!("tun:{}:{}", lane.far, lane.addresses[0]), &[]);
    lane.client().expect("PING", "+PONG");
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    if under_test().1 == Kind::Redis {
        return;
    }
    for (net, wanted) in
        [("xdp:no-such-if", "nothing to serve on no-such-if"), ("tun:no-such-if", "there is no interface no-such-if")]
    {
        let (status, output) = crate::harness::run_to_end(&["--net", net, "--port", "0", "--unixsocket", "sock"]);
        assert!(!status.success());
        assert!(output.contains(wanted), "{output}");
    }
}
