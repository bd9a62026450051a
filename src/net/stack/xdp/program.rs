//! The program that an interface runs for each frame, put together from instructions: TCP to what we serve goes to the socket of its queue, if there is
//! one, and everything else (ARP, NDP, ping, other ports, fragments, options, VLANs) to the kernel. It loads nothing; see `bpf`.
//!
//! ```text
//!  63                 32 31        16 15   12 11    8 7        0
//! |      immediate      |   offset   | source | target |  code  |
//! ```
use super::super::Service;
use std::net::IpAddr;

const LOAD_W: u8 = 0x61;
const LOAD_H: u8 = 0x69;
const LOAD_B: u8 = 0x71;
const LOAD_IMM64: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_K: u8 = 0xb7;
const ADD_K: u8 = 0x07;
const AND_K: u8 = 0x57;
const JUMP: u8 = 0x05;
const JUMP_GT: u8 = 0x2d;
const JUMP_EQ_K: u8 = 0x15;
const JUMP_NE_K: u8 = 0x55;
/// Compares the lower 32 bits.
const JUMP_NE_W: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
const PASS: i32 = 2;
/// The immediate of `LOAD_IMM64` is the descriptor of a map.
const MAP_FD: u8 = 1;

// Offsets in `xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;
// Offsets in a frame.
const ETHER_TYPE: i16 = 12;
const V4: i16 = 14;
const V6: i16 = 14;
const V4_TCP: i16 = V4 + 20;
const V6_TCP: i16 = V6 + 40;
const TCP_BYTES: i32 = 20;

/// Where a jump goes that is not known yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    V6,
    Hit,
    Pass,
    Next(usize),
}

#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    places: Vec<(Label, usize)>,
}

impl Assembler {
    fn emit(&mut self, code: u8, target: u8, source: u8, offset: i16, immediate: i32) {
        let upper = u64::from(immediate.cast_unsigned()) << 32 | u64::from(offset.cast_unsigned()) << 16;
        self.code.push(upper | u64::from(source) << 12 | u64::from(target) << 8 | u64::from(code));
    }

    fn jump(&mut self, code: u8, target: u8, source: u8, immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(code, target, source, 0, immediate);
    }

    fn place(&mut self, label: Label) {
        self.places.push((label, self.code.len()));
    }

    fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let to = self.places.iter().find(|(known, _)| *known == label).map_or(at + 1, |(_, to)| *to);
            let offset = i16::try_from(to - at - 1).unwrap_or(0);
            self.code[at] |= u64::from(offset.cast_unsigned()) << 16;
        }
        self.code
    }
}

/// The program for these services; `map` is the descriptor of the map from queues to sockets.
pub(super) fn assemble(services: &[Service], map: i32) -> Vec<u64> {
    let mut a = Assembler::default();
    let (context, data, end, edge, value) = (6, 2, 3, 4, 5);
    a.emit(MOVE, context, 1, 0, 0);
    a.emit(LOAD_W, data, context, DATA, 0);
    a.emit(LOAD_W, end, context, DATA_END, 0);
    let within = |a: &mut Assembler, bytes: i32| {
        a.emit(MOVE, edge, data, 0, 0);
        a.emit(ADD_K, edge, 0, 0, bytes);
        a.jump(JUMP_GT, edge, end, 0, Label::Pass);
    };
    let is_not = |a: &mut Assembler, load: u8, at: i16, wanted: i32| {
        a.emit(load, value, data, at, 0);
        a.jump(JUMP_NE_K, value, 0, wanted, Label::Pass);
    };
    // What the packet holds is in the order of the network, what a load makes of it in ours.
    let short = |number: u16| i32::from(u16::from_le_bytes(number.to_be_bytes()));
    let word = |bytes: &[u8]| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);

    within(&mut a, i32::from(V4_TCP) + TCP_BYTES);
    a.emit(LOAD_H, value, data, ETHER_TYPE, 0);
    a.jump(JUMP_EQ_K, value, 0, short(0x86dd), Label::V6);
    a.jump(JUMP_NE_K, value, 0, short(0x0800), Label::Pass);
    // IPv4 without options, TCP, no fragment.
    is_not(&mut a, LOAD_B, V4, 0x45);
    is_not(&mut a, LOAD_B, V4 + 9, 6);
    a.emit(LOAD_H, value, data, V4 + 6, 0);
    a.emit(AND_K, value, 0, 0, short(0x3fff));
    a.jump(JUMP_NE_K, value, 0, 0, Label::Pass);
    let compare = |a: &mut Assembler, number: usize, address: &[u8], at: i16, tcp: i16, port: u16| {
        for (bytes, at) in address.chunks(4).zip((at..).step_by(4)) {
            a.emit(LOAD_W, value, data, at, 0);
            a.jump(JUMP_NE_W, value, 0, word(bytes), Label::Next(number));
        }
        a.emit(LOAD_H, value, data, tcp + 2, 0);
        a.jump(JUMP_EQ_K, value, 0, short(port), Label::Hit);
        a.place(Label::Next(number));
    };
    for (number, service) in services.iter().enumerate() {
        if let IpAddr::V4(address) = service.address.ip() {
            compare(&mut a, number, &address.octets(), V4 + 16, V4_TCP, service.address.port());
        }
    }
    a.jump(JUMP, 0, 0, 0, Label::Pass);
    a.place(Label::V6);
    within(&mut a, i32::from(V6_TCP) + TCP_BYTES);
    is_not(&mut a, LOAD_B, V6 + 6, 6);
    for (number, service) in services.iter().enumerate() {
        if let IpAddr::V6(address) = service.address.ip() {
            compare(&mut a, number, &address.octets(), V6 + 24, V6_TCP, service.address.port());
        }
    }
    a.place(Label::Pass);
    a.emit(MOVE_K, 0, 0, 0, PASS);
    a.emit(EXIT, 0, 0, 0, 0);
    a.place(Label::Hit);
    a.emit(LOAD_W, 2, context, QUEUE, 0);
    a.emit(LOAD_IMM64, 1, MAP_FD, 0, map);
    a.emit(0, 0, 0, 0, 0);
    a.emit(MOVE_K, 3, 0, 0, PASS);
    a.emit(CALL, 0, 0, 0, REDIRECT_MAP);
    a.emit(EXIT, 0, 0, 0, 0);
    a.finish()
}
