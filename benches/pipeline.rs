//! Instructions of a batch of requests from the window to the replies: session, parser, pipeline, commands, table, items. One window of
//! REQUESTS requests over 100,000 keys, so divide by REQUESTS.
use bumpalo::Bump;
use dolmen::base::clock::Clock;
use dolmen::base::out::Out;
use dolmen::cmd::client::Client;
use dolmen::config::Config;
use dolmen::db::NewValue;
use dolmen::db::view::Deadline;
use dolmen::exec::Engine;
use dolmen::net::Flow;
use dolmen::session::Session;
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

const KEYS: usize = 100_000;
const REQUESTS: usize = 100;
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

/// Names spread over the keyspace, those from `KEYS` on absent.
fn name(n: usize) -> Vec<u8> {
    format!("key:{n:012}").into_bytes()
}

fn window(request: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    (0..REQUESTS).flat_map(|i| request(i * 997)).collect()
}

struct Rig {
    engine: Engine,
    session: Session,
    arena: Bump,
    out: Out,
    window: Vec<u8>,
}

/// A server with a client, and a window that it will receive.
fn rig(window: Vec<u8>) -> Rig {
    let clock = Clock::manual(NOW_MS, 0);
    let mut engine = Engine::new(Config::default(), clock, 1, dolmen_slab::Config::default()).unwrap();
    for n in 0..KEYS {
        let mut db = engine.keyspace.shard().db(0, NOW_MS);
        let name = name(n);
        let value = format!("{n:08}");
        let key = db.key(&name);
        db.set_string(key, NewValue::Raw(value.as_bytes()), Deadline::None).unwrap();
        if n % 64 == 0 {
            engine.keyspace.shard().background(NOW_MS, false, || true);
        }
    }
    engine.clients.insert(ME, |id| Client::new(id, NOW_MS, "127.0.0.1:1", "127.0.0.1:2", 7, false));
    // The second window of a connection: buffers have grown, code and counters are warm.
    let mut out = Out::new();
    out.extend(&vec![0; 1 << 18]);
    out.discard();
    Rig { engine, session: Session::default(), arena: Bump::with_capacity(1 << 18), out, window }
}

fn get_hit_window() -> Vec<u8> {
    window(|n| wire(&[b"GET", &name(n)]))
}

fn get_miss_window() -> Vec<u8> {
    window(|n| wire(&[b"GET", &name(KEYS + n)]))
}

fn set_overwrite_window() -> Vec<u8> {
    window(|n| wire(&[b"SET", &name(n), b"12345678"]))
}

fn set_new_window() -> Vec<u8> {
    window(|n| wire(&[b"SET", &name(KEYS + n), b"12345678"]))
}

fn incr_window() -> Vec<u8> {
    window(|n| wire(&[b"INCR", &name(n)]))
}

fn mget_window() -> Vec<u8> {
    window(|n| {
        let names: Vec<Vec<u8>> = (0..10).map(|i| name((n + i * 9973) % KEYS)).collect();
        wire(&std::iter::once(&b"MGET"[..]).chain(names.iter().map(|name| &name[..])).collect::<Vec<_>>())
    })
}

fn ping_window() -> Vec<u8> {
    window(|_| wire(&[b"PING"]))
}

#[library_benchmark]
#[bench::get_hit(rig(get_hit_window()))]
#[bench::get_miss(rig(get_miss_window()))]
#[bench::set_overwrite(rig(set_overwrite_window()))]
#[bench::set_new(rig(set_new_window()))]
#[bench::incr(rig(incr_window()))]
#[bench::mget_10(rig(mget_window()))]
#[bench::ping(rig(ping_window()))]
fn batch(mut rig: Rig) -> Rig {
    let flow = rig.session.data(&mut rig.engine, ME, &rig.arena, black_box(&rig.window), &mut rig.out);
    assert_eq!(flow, Flow::Read);
    assert!(rig.out.queued() > REQUESTS);
    rig
}

library_benchmark_group!(name = pipeline; benchmarks = batch);
main!(library_benchmark_groups = pipeline);
