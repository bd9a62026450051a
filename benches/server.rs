//! The server end to end over the simulated network: WAKE_UPS windows of some depth from one client, each received, executed and sent in
//! a turn of its own. `network` is the same traffic over a handler that knows its answer: what is more than that is the server's.
//! A request's cost is the difference between two depths, a wake-up's what remains at depth 1; divide by WAKE_UPS.
//!
//! `clients` is one turn's batch of CLIENTS connections with some requests each, without a network; divide by CLIENTS.
use dolmen::base::clock::Clock;
use dolmen::base::out::Out;
use dolmen::config::Config;
use dolmen::db::NewValue;
use dolmen::db::view::Deadline;
use dolmen::exec::Engine;
use dolmen::net::sim::ClientId;
use dolmen::net::{Answers, Backend, ConnId, Flow, Handler, Input, Peer, Sim, SimConfig, Why};
use dolmen::worker::{State, Worker};
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use std::time::Duration;

const KEYS: usize = 10_000;
const WAKE_UPS: usize = 100;
const CLIENTS: usize = 50;
const START_UNIX_MS: u64 = 1_800_000_000_000;

fn get(n: usize) -> Vec<u8> {
    format!("*2\r\n$3\r\nGET\r\n$16\r\nkey:{n:012}\r\n").into_bytes()
}

fn set(n: usize) -> Vec<u8> {
    format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{n:012}\r\n$8\r\n{n:08}\r\n").into_bytes()
}

fn windows(depth: usize, request: fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..WAKE_UPS).map(|w| (0..depth).flat_map(|i| request((w * depth + i) * 997 % KEYS)).collect()).collect()
}

struct Served {
    worker: Worker<Sim>,
    client: ClientId,
    windows: Vec<Vec<u8>>,
}

fn served(depth: usize, request: fn(usize) -> Vec<u8>) -> Served {
    let mut sim = Sim::new(SimConfig::default());
    let client = sim.connect();
    let clock = Clock::simulated(sim.clock().counter(), START_UNIX_MS, 0);
    let memory = dolmen_slab::Config::default();
    let mut worker = Worker::new(sim, Config::default(), clock, 1, memory).unwrap();
    fill(worker.engine());
    for _ in 0..1000 {
        worker.turn(Some(Duration::ZERO)).unwrap();
    }
    let mut served = Served { worker, client, windows: windows(depth, request) };
    let first = std::mem::take(&mut served.windows[0]);
    turn(&mut served.worker, client, &first);
    served.windows[0] = first;
    served
}

fn fill(engine: &mut Engine) {
    for n in 0..KEYS {
        let mut db = engine.keyspace.shard().db(0, START_UNIX_MS);
        let name = format!("key:{n:012}");
        let key = db.key(name.as_bytes());
        db.set_string(key, NewValue::Raw(b"12345678"), Deadline::None).unwrap();
    }
}

fn turn(worker: &mut Worker<Sim>, client: ClientId, window: &[u8]) -> usize {
    worker.backend().send(client, window);
    worker.turn(Some(Duration::ZERO)).unwrap();
    worker.backend().received(client).len()
}

#[library_benchmark]
#[bench::get_1(served(1, get))]
#[bench::get_16(served(16, get))]
#[bench::get_100(served(100, get))]
#[bench::set_1(served(1, set))]
#[bench::set_16(served(16, set))]
#[bench::set_100(served(100, set))]
fn server(mut served: Served) -> Served {
    for window in &served.windows {
        assert!(turn(&mut served.worker, served.client, window) > 0);
    }
    served
}

/// Answers every window with the same bytes.
struct Parrot(Vec<u8>);

impl Handler for Parrot {
    fn opened(&mut self, _: ConnId, _: Peer, _: &mut Out) -> Flow {
        Flow::Read
    }
    fn data(&mut self, _: ConnId, _: &[u8], out: &mut Out) -> Flow {
        out.extend(&self.0);
        Flow::Read
    }
    fn sink(&mut self, _: ConnId) -> &mut [u8] {
        &mut self.0
    }
    fn sunk(&mut self, _: ConnId, _: usize, _: &mut Out) -> Flow {
        Flow::Read
    }
    fn sent(&mut self, _: ConnId, _: usize, _: &mut Out) {}
    fn closed(&mut self, _: ConnId, _: Why) {}
    fn signal(&mut self, _: i32) {}
}

struct Echoed {
    sim: Sim,
    parrot: Parrot,
    client: ClientId,
    windows: Vec<Vec<u8>>,
}

fn echoed(depth: usize, request: fn(usize) -> Vec<u8>, reply: &[u8]) -> Echoed {
    let mut sim = Sim::new(SimConfig::default());
    let client = sim.connect();
    let mut echoed = Echoed { sim, parrot: Parrot(reply.repeat(depth)), client, windows: windows(depth, request) };
    let first = echoed.windows[0].clone();
    (0..2).for_each(|_| drop(echo(&mut echoed.sim, &mut echoed.parrot, client, &first)));
    echoed
}

fn echo(sim: &mut Sim, parrot: &mut Parrot, client: ClientId, window: &[u8]) -> Vec<u8> {
    sim.send(client, window);
    sim.poll(parrot, Some(Duration::ZERO)).unwrap();
    sim.flush(parrot);
    sim.received(client)
}

#[library_benchmark]
#[bench::get_1(echoed(1, get, b"$8\r\n12345678\r\n"))]
#[bench::get_16(echoed(16, get, b"$8\r\n12345678\r\n"))]
#[bench::get_100(echoed(100, get, b"$8\r\n12345678\r\n"))]
#[bench::set_1(echoed(1, set, b"+OK\r\n"))]
#[bench::set_16(echoed(16, set, b"+OK\r\n"))]
#[bench::set_100(echoed(100, set, b"+OK\r\n"))]
fn network(mut echoed: Echoed) -> Echoed {
    for window in &echoed.windows {
        assert!(!echo(&mut echoed.sim, &mut echoed.parrot, echoed.client, window).is_empty());
    }
    echoed
}

/// The outputs of some connections, by their index.
struct Outs(Vec<Out>);

impl Answers for Outs {
    fn answer(&mut self, conn: ConnId, answer: impl FnOnce(&mut Out) -> Flow) {
        assert_eq!(answer(&mut self.0[conn.index as usize]), Flow::Read);
    }
}

struct Crowd {
    state: State,
    inputs: Vec<Input>,
    bytes: Vec<u8>,
    outs: Outs,
}

fn crowd(depth: usize, request: fn(usize) -> Vec<u8>) -> Box<Crowd> {
    let clock = Clock::manual(START_UNIX_MS, 0);
    let mut state = State::new(Engine::new(Config::default(), clock, 1, dolmen_slab::Config::default()).unwrap());
    fill(&mut state.engine);
    for _ in 0..1000 {
        state.engine.keyspace.shard().background(START_UNIX_MS, false, || true);
    }
    let mut crowd = Box::new(Crowd { state, inputs: Vec::new(), bytes: Vec::new(), outs: Outs(Vec::new()) });
    for (index, window) in (0..).zip(windows(depth, request).into_iter().take(CLIENTS)) {
        let conn = ConnId { index, generation: 0 };
        let peer = Peer { remote: "127.0.0.1:1".into(), local: "127.0.0.1:2".into(), fd: 9, unix: false, service: 0 };
        let mut out = Out::new();
        crowd.state.opened(conn, peer, &mut out);
        crowd.outs.0.push(out);
        let from = crowd.bytes.len();
        crowd.bytes.extend(window);
        crowd.inputs.extend(Input::new(conn, from, crowd.bytes.len()));
    }
    // The second batch: the arena and the outputs have grown.
    let Crowd { state, inputs, bytes, outs } = &mut *crowd;
    state.batch(inputs, bytes, outs);
    crowd.outs.0.iter_mut().for_each(Out::discard);
    crowd
}

#[library_benchmark]
#[bench::get_1(crowd(1, get))]
#[bench::get_16(crowd(16, get))]
#[bench::set_1(crowd(1, set))]
#[bench::set_16(crowd(16, set))]
fn clients(mut crowd: Box<Crowd>) -> Box<Crowd> {
    let Crowd { state, inputs, bytes, outs } = &mut *crowd;
    state.batch(inputs, bytes, outs);
    crowd
}

library_benchmark_group!(name = end_to_end; benchmarks = server, network, clients);
main!(library_benchmark_groups = end_to_end);
