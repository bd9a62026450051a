//! Commands on bits that run in slices: each is one instant to everybody, and nothing is left of one whose client has gone.
use super::super::{Rig, bulk, request};
use super::rig;
use crate::db::NewValue;
use crate::db::view::Deadline;

const MIB: usize = 1 << 20;

impl Rig {
    /// Puts a string in place without a client.
    fn put(&mut self, name: &[u8], value: &[u8]) {
        let now_ms = self.now_ms();
        let mut db = self.worker.engine().keyspace.shard().db(0, now_ms);
        db.set_string(db.key(name), NewValue::Raw(value), Deadline::None).unwrap();
    }

    fn until_suspended(&mut self, count: u64) {
        self.until("a command goes on in slices", |rig| rig.worker.engine().stats.suspended == count);
    }
}

/// Bytes that differ from place to place.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = crate::base::rng::Rng::seeded(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

fn ones(bytes: &[u8]) -> usize {
    bytes.iter().map(|byte| byte.count_ones() as usize).sum()
}

#[test]
fn a_count_is_that_of_the_instant_when_it_came() {
    let mut rig = rig();
    let value = noise(1, 8 * MIB);
    rig.put(b"k", &value);
    let (reader, writer) = (rig.connect(), rig.connect());
    rig.send(reader, &[request(&[b"BITCOUNT", b"k"]), request(&[b"BITCOUNT", b"k"])].concat());
    rig.until_suspended(1);
    // The writer does not wait for it, and it does not see what is written.
    rig.ask(writer, &[b"SETBIT", b"k", b"67108863", b"1"], format!(":{}\r\n", value[8 * MIB - 1] & 1).as_bytes());
    rig.ask(writer, &[b"DEL", b"k"], b":1\r\n");
    assert_eq!(rig.sim().received(reader), b"", "it is not done");
    rig.expect(reader, format!(":{}\r\n:0\r\n", ones(&value)).as_bytes());
    rig.sim().disconnect(reader);
    rig.sim().disconnect(writer);
    rig.assert_clean("BITCOUNT");
    assert_eq!(rig.empty_bytes(), super::rig().empty_bytes());
}

#[test]
fn a_search_is_that_of_the_instant_when_it_came() {
    let mut rig = rig();
    let mut value = vec![0; 8 * MIB];
    rig.put(b"k", &value);
    value[8 * MIB - 1] = 1;
    rig.put(b"last", &value);
    let (reader, writer) = (rig.connect(), rig.connect());
    rig.send(reader, &request(&[b"BITPOS", b"k", b"1"]));
    rig.until_suspended(1);
    rig.ask(writer, &[b"SETBIT", b"k", b"67108863", b"1"], b":0\r\n");
    rig.expect(reader, b":-1\r\n");
    rig.ask(reader, &[b"BITPOS", b"k", b"1"], b":67108863\r\n");
    rig.ask(reader, &[b"BITPOS", b"last", b"1", b"-1"], b":67108863\r\n");
    rig.ask(reader, &[b"BITPOS", b"last", b"1", b"0", b"-2", b"BIT"], b":-1\r\n");
    rig.ask(reader, &[b"BITPOS", b"last", b"0", b"-1", b"-1", b"BIT"], b":-1\r\n");
}

#[test]
fn a_combination_is_that_of_the_instant_when_it_came() {
    let mut rig = rig();
    let (a, b) = (noise(1, 3 * MIB + 5), noise(2, 4 * MIB));
    rig.put(b"a", &a);
    rig.put(b"b", &b);
    rig.put(b"d", b"old");
    let (client, other, third) = (rig.connect(), rig.connect(), rig.connect());
    rig.send(client, &request(&[b"BITOP", b"XOR", b"d", b"a", b"b", b"d"]));
    rig.until_suspended(1);
    // Sources are free; who asks for the destination waits, and sees nothing but the whole.
    rig.ask(other, &[b"SETBIT", b"a", b"8388608", b"1"], format!(":{}\r\n", a[MIB] >> 7).as_bytes());
    rig.ask(other, &[b"DEL", b"b"], b":1\r\n");
    rig.ask(other, &[b"SET", b"unrelated", b"x"], b"+OK\r\n");
    rig.send(other, &request(&[b"STRLEN", b"d"]));
    rig.send(third, &request(&[b"DBSIZE"]));
    rig.until("they wait", |rig| rig.worker.state.held_len() == 2);
    assert_eq!(rig.sim().received(client), b"", "it is not done");
    rig.expect(client, format!(":{}\r\n", b.len()).as_bytes());
    rig.expect(other, format!(":{}\r\n", b.len()).as_bytes());
    rig.expect(third, b":3\r\n");
    let byte = |bytes: &[u8], at: usize| bytes.get(at).copied().unwrap_or(0);
    let want: Vec<u8> = (0..b.len()).map(|at| byte(&a, at) ^ b[at] ^ byte(b"old", at)).collect();
    rig.ask(client, &[b"GET", b"d"], &bulk(&want));
}

#[test]
fn a_combination_whose_client_leaves_changes_nothing() {
    let mut rig = rig();
    rig.put(b"a", &noise(1, 4 * MIB));
    rig.put(b"d", b"old");
    let (client, other) = (rig.connect(), rig.connect());
    let before = rig.used_bytes();
    rig.send(client, &request(&[b"BITOP", b"NOT", b"d", b"a"]));
    rig.until("a part is built", |rig| rig.used_bytes() > before + MIB as u64);
    rig.sim().reset(client);
    rig.ask(other, &[b"GET", b"d"], b"$3\r\nold\r\n");
    rig.rest();
    assert_eq!(rig.used_bytes(), before);
    rig.sim().disconnect(other);
    rig.assert_clean("BITOP");
}

#[test]
fn a_combination_waits_for_another_holder() {
    let mut rig = rig();
    let value = noise(1, 2 * MIB);
    rig.put(b"a", &value);
    let (first, second, writer) = (rig.connect(), rig.connect(), rig.connect());
    rig.send(first, &request(&[b"BITOP", b"NOT", b"d", b"a"]));
    rig.until_suspended(1);
    rig.send(second, &request(&[b"BITOP", b"NOT", b"e", b"a"]));
    rig.until_suspended(2);
    // Its instant is when it can begin.
    rig.ask(writer, &[b"SET", b"a", b"\xf0"], b"+OK\r\n");
    rig.expect(first, b":2097152\r\n");
    rig.expect(second, b":1\r\n");
    rig.ask(second, &[b"GET", b"e"], b"$1\r\n\x0f\r\n");
    let inverse: Vec<u8> = value.iter().map(|byte| !byte).collect();
    rig.ask(first, &[b"GET", b"d"], &bulk(&inverse));
}

#[test]
fn thousands_of_sources_are_gathered_in_slices() {
    let mut rig = rig();
    let names: Vec<Vec<u8>> = (0..5_000).map(|i| format!("source:{i}").into_bytes()).collect();
    let mut want = vec![0u8; 40];
    for (i, name) in names.iter().enumerate() {
        let value = noise(i as u64, i % 41);
        want.iter_mut().zip(&value).for_each(|(want, byte)| *want ^= byte);
        if !value.is_empty() {
            rig.put(name, &value);
        }
    }
    let (client, other) = (rig.connect(), rig.connect());
    let mut words: Vec<&[u8]> = vec![b"BITOP", b"xor", b"d"];
    words.extend(names.iter().map(|name| &name[..]));
    rig.send(client, &request(&words));
    rig.until_held(b"source:4999");
    // A source that waits to be gathered cannot change.
    rig.send(other, &request(&[b"DEL", b"source:4999"]));
    rig.expect(client, b":40\r\n");
    rig.expect(other, b":1\r\n");
    rig.ask(client, &[b"GET", b"d"], &bulk(&want));
    rig.sim().disconnect(client);
    rig.sim().disconnect(other);
    rig.assert_clean("BITOP of many");
}

/// `BITFIELD k` with so many subcommands.
fn increments(count: usize) -> Vec<u8> {
    let offsets: Vec<Vec<u8>> = (0..count).map(|i| format!("#{}", i % 100).into_bytes()).collect();
    let mut words: Vec<&[u8]> = vec![b"BITFIELD", b"k"];
    offsets.iter().for_each(|offset| words.extend([&b"INCRBY"[..], b"u16", offset, b"1"]));
    request(&words)
}

#[test]
fn very_many_subcommands_are_one_step() {
    let mut rig = rig();
    let (client, other) = (rig.connect(), rig.connect());
    rig.ask(other, &[b"SET", b"k", b"", b"PXAT", b"4000000000000"], b"+OK\r\n");
    rig.send(client, &increments(3_000));
    rig.until_held(b"k");
    rig.send(
        other,
        &[request(&[b"BITFIELD", b"k", b"GET", b"u16", b"#99"]), request(&[b"PEXPIRETIME", b"k"])].concat(),
    );
    rig.until("it waits", |rig| rig.worker.state.held_len() == 1);
    let replies: String = (0..3_000).map(|i| format!(":{}\r\n", i / 100 + 1)).collect();
    rig.expect(client, format!("*3000\r\n{replies}").as_bytes());
    rig.expect(other, b"*1\r\n:30\r\n:4000000000000\r\n");
    assert_eq!(rig.worker.engine().stats.dirty, 1 + 3_000);
    // A client that leaves does not leave half of it behind.
    rig.send(client, &increments(3_000));
    rig.until_held(b"k");
    rig.sim().reset(client);
    rig.ask(other, &[b"BITFIELD", b"k", b"GET", b"u16", b"0", b"GET", b"u16", b"#99"], b"*2\r\n:60\r\n:60\r\n");
    rig.sim().disconnect(other);
    rig.assert_clean("BITFIELD");
}

#[test]
fn a_deadline_does_not_pass_between_subcommands() {
    let mut rig = rig();
    let (client, other) = (rig.connect(), rig.connect());
    // A slice takes 50 us and more, so that it is over long before the command is.
    rig.ask(other, &[b"SET", b"k", b"", b"PX", b"2"], b"+OK\r\n");
    rig.send(client, &increments(9_000));
    let replies: String = (0..9_000).map(|i| format!(":{}\r\n", i / 100 + 1)).collect();
    rig.expect(client, format!("*9000\r\n{replies}").as_bytes());
    rig.ask(other, &[b"EXISTS", b"k"], b":0\r\n");
    rig.rest();
    assert_eq!(rig.worker.engine().keyspace.shard().databases()[0].len(), 0);
}

#[test]
fn very_many_reads_see_one_instant() {
    let mut rig = rig();
    rig.put(b"k", &noise(1, MIB));
    let value = noise(1, MIB);
    let (client, other) = (rig.connect(), rig.connect());
    let offsets: Vec<Vec<u8>> = (0..3_000).map(|i| format!("#{}", i * 300).into_bytes()).collect();
    let mut words: Vec<&[u8]> = vec![b"BITFIELD", b"k"];
    offsets.iter().for_each(|offset| words.extend([&b"GET"[..], b"u8", offset]));
    rig.send(client, &request(&words));
    rig.until_suspended(1);
    rig.ask(other, &[b"DEL", b"k"], b":1\r\n");
    let replies: String = (0..3_000).map(|i| format!(":{}\r\n", value[i * 300])).collect();
    rig.expect(client, format!("*3000\r\n{replies}").as_bytes());
}
