//! Instructions of a batch of requests on collections, from the window to the replies, as in `pipeline`: one window of REQUESTS requests (or of
//! REPLIES, where each reply has 100 elements), on a list, a hash, a set and a sorted set of 20,000 elements. And of publishing.
use bumpalo::Bump;
use dolmen::base::clock::Clock;
use dolmen::base::out::Out;
use dolmen::cmd::client::Client;
use dolmen::config::Config;
use dolmen::exec::Engine;
use dolmen::net::Flow;
use dolmen::session::Session;
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

const ELEMENTS: usize = 20_000;
const REQUESTS: usize = 100;
const REPLIES: usize = 10;
const NOW_MS: u64 = 1_800_000_000_000;
const ME: u32 = 0;

fn wire(args: &[&[u8]]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        wire.extend(format!("${}\r\n", arg.len()).bytes());
        wire.extend_from_slice(arg);
        wire.extend(b"\r\n");
    }
    wire
}

/// Names spread over a collection, those from `ELEMENTS` on absent.
fn name(n: usize) -> Vec<u8> {
    format!("element:{n:012}").into_bytes()
}

fn number(n: usize) -> Vec<u8> {
    n.to_string().into_bytes()
}

struct Rig {
    engine: Engine,
    session: Session,
    arena: Bump,
    out: Out,
    window: Vec<u8>,
}

impl Rig {
    fn receive(&mut self, window: &[u8]) {
        let flow = self.session.data(&mut self.engine, ME, &self.arena, window, &mut self.out);
        assert_eq!(flow, Flow::Read);
        self.arena.reset();
    }
}

/// A server with collections, a client, and a window that it will receive.
fn rig(requests: usize, request: impl Fn(usize) -> Vec<u8>) -> Rig {
    let clock = Clock::manual(NOW_MS, 0);
    let mut engine = Engine::new(Config::default(), clock, 1, dolmen_slab::Config::default()).unwrap();
    engine.clients.insert(ME, |id| Client::new(id, NOW_MS, "127.0.0.1:1", "127.0.0.1:2", 7, false));
    let window = (0..requests).flat_map(|i| request(i * 997)).collect();
    let (session, arena) = (Session::default(), Bump::with_capacity(1 << 18));
    let mut rig = Rig { engine, session, arena, out: Out::new(), window };
    for n in 0..ELEMENTS {
        let (name, number) = (name(n), number(n));
        rig.receive(&wire(&[b"RPUSH", b"list", &name]));
        rig.receive(&wire(&[b"HSET", b"hash", &name, b"12345678"]));
        rig.receive(&wire(&[b"SADD", b"set", &name]));
        rig.receive(&wire(&[b"ZADD", b"zset", &number, &name]));
        if n < 200 {
            rig.receive(&wire(&[b"RPUSH", b"short", &number]));
        }
        rig.out.discard();
        if n % 64 == 0 {
            rig.engine.keyspace.shard().background(NOW_MS, false, || true);
        }
    }
    // The second window of a connection: buffers have grown, code and counters are warm.
    rig.out.extend(&vec![0; 1 << 18]);
    rig.out.discard();
    rig
}

fn each(request: impl Fn(usize) -> Vec<u8>) -> Rig {
    rig(REQUESTS, request)
}

fn few(request: impl Fn(usize) -> Vec<u8>) -> Rig {
    rig(REPLIES, request)
}

#[library_benchmark]
#[bench::lpush(each(|n| wire(&[b"LPUSH", b"list", &number(n)])))]
#[bench::rpop(each(|_| wire(&[b"RPOP", b"list"])))]
#[bench::lrange_100(few(|_| wire(&[b"LRANGE", b"list", b"0", b"99"])))]
#[bench::sadd_new(each(|n| wire(&[b"SADD", b"set", &name(ELEMENTS + n)])))]
#[bench::sismember(each(|n| wire(&[b"SISMEMBER", b"set", &name(n)])))]
#[bench::hset_new(each(|n| wire(&[b"HSET", b"hash", &name(ELEMENTS + n), b"12345678"])))]
#[bench::hset_overwrite(each(|n| wire(&[b"HSET", b"hash", &name(n), b"abcdefgh"])))]
#[bench::hget(each(|n| wire(&[b"HGET", b"hash", &name(n)])))]
#[bench::zadd_new(each(|n| wire(&[b"ZADD", b"zset", &number(n), &name(ELEMENTS + n)])))]
#[bench::zadd_move(each(|n| wire(&[b"ZADD", b"zset", &number(ELEMENTS - n), &name(n)])))]
#[bench::zrange_100(few(|_| wire(&[b"ZRANGE", b"zset", b"500", b"599"])))]
#[bench::zpopmin(each(|_| wire(&[b"ZPOPMIN", b"zset"])))]
#[bench::sort_200(few(|_| wire(&[b"SORT", b"short", b"DESC"])))]
fn batch(mut rig: Rig) -> Rig {
    let flow = rig.session.data(&mut rig.engine, ME, &rig.arena, black_box(&rig.window), &mut rig.out);
    assert_eq!(flow, Flow::Read);
    assert!(rig.out.queued() > REPLIES);
    rig
}

/// Messages to a channel that somebody on this worker listens to, among 10,000 channels; and with 100,000 patterns that nothing matches.
fn publishing(patterns: usize) -> Rig {
    let mut rig = rig(REQUESTS, |n| wire(&[b"PUBLISH", &name(n % 10_000), b"a message of some length"]));
    for n in 0..10_000 {
        rig.engine.pubsub.subscribe(1 + u32::try_from(n).unwrap(), dolmen::pubsub::Kind::Channel, &name(n));
    }
    for n in 0..patterns {
        let pattern = format!("{n:06}*").into_bytes();
        rig.engine.pubsub.subscribe(20_000, dolmen::pubsub::Kind::Pattern, &pattern);
    }
    rig
}

#[library_benchmark]
#[bench::channels(publishing(0))]
#[bench::patterns_100k(publishing(100_000))]
fn publish(rig: Rig) -> Rig {
    batch_of(rig)
}

fn batch_of(mut rig: Rig) -> Rig {
    let flow = rig.session.data(&mut rig.engine, ME, &rig.arena, black_box(&rig.window), &mut rig.out);
    assert_eq!(flow, Flow::Read);
    rig
}

library_benchmark_group!(name = collections; benchmarks = batch, publish);
main!(library_benchmark_groups = collections);
