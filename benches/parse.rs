//! Instructions to parse requests, to carry a cut one, and to write replies. Requests are parsed, and replies written, REQUESTS times: divide.
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use dolmen::base::out::Out;
use dolmen::proto::carry::Carry;
use dolmen::proto::reply::Reply;
use dolmen::proto::resp::{Limits, Parsed, parse};
use iai_callgrind::{Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

const REQUESTS: usize = 100;

/// Fails above so many instructions a request: about a tenth over what it took when written.
fn at_most(instructions_per_request: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions_per_request * REQUESTS as u64)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

fn wire(args: &[&[u8]]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        wire.extend(format!("${}\r\n", arg.len()).bytes());
        wire.extend_from_slice(arg);
        wire.extend(b"\r\n");
    }
    wire
}

/// A window of REQUESTS equal requests, and an arena that has grown already.
fn window(args: &[&[u8]]) -> (Vec<u8>, Bump) {
    (wire(args).repeat(REQUESTS), Bump::with_capacity(1 << 16))
}

fn get_window() -> (Vec<u8>, Bump) {
    window(&[b"GET", b"key:000000012345"])
}

fn set_window(value_bytes: usize) -> (Vec<u8>, Bump) {
    window(&[b"SET", b"key:000000012345", &vec![b'x'; value_bytes]])
}

fn mset_window() -> (Vec<u8>, Bump) {
    let mut args = vec![&b"MSET"[..]];
    for _ in 0..10 {
        args.extend([&b"key:000000012345"[..], b"value678"]);
    }
    window(&args)
}

fn inline_window() -> (Vec<u8>, Bump) {
    (b"PING\r\n".repeat(REQUESTS), Bump::with_capacity(1 << 16))
}

#[library_benchmark]
#[bench::get(args = (get_window()), config = at_most(103))]
#[bench::set_8(args = (set_window(8)), config = at_most(130))]
#[bench::set_200(args = (set_window(200)), config = at_most(210))]
#[bench::mset_10(args = (mset_window()), config = at_most(790))]
#[bench::inline_ping(args = (inline_window()), config = at_most(250))]
fn requests((buf, arena): (Vec<u8>, Bump)) -> (Vec<u8>, Bump) {
    let limits = black_box(Limits::default());
    let mut args = ArenaVec::with_capacity_in(32, &arena);
    let mut at = 0;
    let buf_ref = black_box(buf.as_slice());
    while at < buf_ref.len() {
        args.clear();
        match parse(buf_ref, at, &limits, &mut args) {
            Ok(Parsed::Request { end }) => at = end,
            other => panic!("{other:?}"),
        }
        black_box(args.as_slice());
    }
    drop(args);
    (buf, arena)
}

fn big_mset() -> Vec<u8> {
    let pair = [&b"key:000000012345"[..], b"value678"];
    wire(&[&b"MSET"[..]].into_iter().chain(pair.repeat(1000)).collect::<Vec<_>>())
}

fn one_get() -> Vec<u8> {
    wire(&[b"GET", b"key:000000012345"])
}

// An MSET of 1,000 pairs in pieces of 1,000 bytes; a GET in two pieces: what each wake-up of a deep pipeline pays once.
#[library_benchmark]
#[bench::mset_1000(1000, big_mset())]
#[bench::get(20, one_get())]
fn cut(piece_bytes: usize, wire: Vec<u8>) -> (Vec<u8>, Carry) {
    let mut carry = Carry::new();
    let limits = black_box(Limits::default());
    for piece in wire.chunks(piece_bytes) {
        assert_eq!(carry.feed(black_box(piece), &limits).map(|fed| fed.0), Ok(piece.len()));
    }
    (wire, carry)
}

/// An output that has grown already.
fn output() -> Out {
    let mut out = Out::new();
    out.adopt(Vec::with_capacity(1 << 16));
    out
}

#[library_benchmark]
#[bench::ok(output(), |reply: &mut Reply<'_>| reply.ok())]
#[bench::int_7(output(), |reply: &mut Reply<'_>| reply.int(black_box(7)))]
#[bench::int_1234567(output(), |reply: &mut Reply<'_>| reply.int(black_box(1_234_567)))]
#[bench::bulk_8(output(), |reply: &mut Reply<'_>| reply.bulk(black_box(b"value678")))]
#[bench::bulk_64(output(), |reply: &mut Reply<'_>| reply.bulk(black_box(&[b'x'; 64])))]
#[bench::null(output(), |reply: &mut Reply<'_>| reply.null())]
#[bench::double(output(), |reply: &mut Reply<'_>| reply.double(black_box(2.5)))]
fn replies(mut out: Out, write: impl Fn(&mut Reply<'_>)) -> Out {
    for _ in 0..REQUESTS {
        write(&mut Reply::new(&mut out, black_box(false)));
    }
    out
}

library_benchmark_group!(name = wire; benchmarks = requests, cut, replies);
main!(library_benchmark_groups = wire);
