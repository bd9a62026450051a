//! Instructions of a batch of memcached's requests from the window to the replies, as `pipeline` counts those of Redis's. One window of REQUESTS
//! requests (or keys) over 100,000 keys, so divide by REQUESTS.
use bumpalo::Bump;
use dolmen::base::clock::Clock;
use dolmen::base::out::Out;
use dolmen::cmd::client::Client;
use dolmen::config::Config;
use dolmen::db::NewValue;
use dolmen::db::marks::Marking;
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

/// Names spread over the keyspace, those from `KEYS` on absent.
fn name(n: usize) -> String {
    format!("key:{n:012}")
}

fn window(request: impl Fn(usize) -> String) -> Vec<u8> {
    (0..REQUESTS).map(|i| request(i * 997)).collect::<String>().into_bytes()
}

struct Rig {
    engine: Engine,
    session: Session,
    arena: Bump,
    out: Out,
    window: Vec<u8>,
}

/// A server with a client, and a window that it will receive. `flags`: of all values.
fn rig(flags: u32, window: Vec<u8>) -> Rig {
    let clock = Clock::manual(NOW_MS, 0);
    let mut engine = Engine::new(Config::default(), clock, 1, dolmen_slab::Config::default()).unwrap();
    for n in 0..KEYS {
        let mut db = engine.keyspace.shard().db(0, NOW_MS);
        let name = name(n);
        let value = format!("{n:08}");
        let key = db.key(name.as_bytes());
        db.set_marked(key, NewValue::Raw(value.as_bytes()), Deadline::None, Marking::of_flags(flags)).unwrap();
        // Read once, as most are.
        db.fetch(key);
        if n % 64 == 0 {
            engine.keyspace.shard().background(NOW_MS, false, || true);
        }
    }
    engine.clients.insert(ME, |id| Client::new(id, NOW_MS, "127.0.0.1:1", "127.0.0.1:2", 7, false));
    engine.clients.get_mut(ME).speak_memcache(0);
    // The second window of a connection: buffers have grown, code and counters are warm.
    let mut out = Out::new();
    out.extend(&vec![0; 1 << 18]);
    out.discard();
    Rig { engine, session: Session::default(), arena: Bump::with_capacity(1 << 18), out, window }
}

fn get_window() -> Vec<u8> {
    window(|n| format!("get {}\r\n", name(n)))
}

fn miss_window() -> Vec<u8> {
    window(|n| format!("get {}\r\n", name(KEYS + n)))
}

/// One line of all keys.
fn multiget_window() -> Vec<u8> {
    let keys = window(|n| format!(" {}", name(n)));
    [b"get", &keys[..], b"\r\n"].concat()
}

fn set_window() -> Vec<u8> {
    window(|n| format!("set {} 0 0 8\r\n12345678\r\n", name(n)))
}

fn set_flags_window() -> Vec<u8> {
    window(|n| format!("set {} 5 0 8\r\n12345678\r\n", name(n)))
}

fn meta_get_window() -> Vec<u8> {
    window(|n| format!("mg {} v f\r\n", name(n)))
}

fn binary_get_window() -> Vec<u8> {
    let frame = |n: usize| {
        let name = name(n);
        let mut frame =
            vec![0x80, 0, 0, u8::try_from(name.len()).unwrap(), 0, 0, 0, 0, 0, 0, 0, u8::try_from(name.len()).unwrap()];
        frame.resize(24, 0);
        frame.extend(name.bytes());
        frame
    };
    (0..REQUESTS).flat_map(|i| frame(i * 997)).collect()
}

#[library_benchmark]
#[bench::get_hit(rig(0, get_window()))]
#[bench::get_hit_flags(rig(5, get_window()))]
#[bench::get_miss(rig(0, miss_window()))]
#[bench::multiget_100(rig(0, multiget_window()))]
#[bench::set_overwrite(rig(0, set_window()))]
#[bench::set_flags(rig(5, set_flags_window()))]
#[bench::meta_get(rig(0, meta_get_window()))]
#[bench::binary_get(rig(5, binary_get_window()))]
fn batch(mut rig: Rig) -> Rig {
    let flow = rig.session.data(&mut rig.engine, ME, &rig.arena, black_box(&rig.window), &mut rig.out);
    assert_eq!(flow, Flow::Read);
    assert!(rig.out.queued() >= 5 * REQUESTS);
    rig
}

library_benchmark_group!(name = memcache; benchmarks = batch);
main!(library_benchmark_groups = memcache);
