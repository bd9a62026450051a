//! Instructions to parse requests, and to carry a cut one. Each bench parses the same request again and again out of one window, so divide
//! by REQUESTS.
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use dolmen::proto::carry::Carry;
use dolmen::proto::resp::{Limits, Parsed, parse};
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

const REQUESTS: usize = 100;

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
#[bench::get(get_window())]
#[bench::set_8(set_window(8))]
#[bench::set_200(set_window(200))]
#[bench::mset_10(mset_window())]
#[bench::inline_ping(inline_window())]
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

library_benchmark_group!(name = parsing; benchmarks = requests, cut);
main!(library_benchmark_groups = parsing);
