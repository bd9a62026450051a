//! Situations of their own, one a test.
mod bits;

use super::{Rig, bulk, request};
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::config::{Allowed, Config, OutputLimit};
use crate::net::sim::{ClientId, ClientState, Faults};
use crate::proto::errors;
use std::collections::HashMap;
use std::time::Duration;

impl Rig {
    fn send(&mut self, client: ClientId, bytes: &[u8]) {
        self.sim().send(client, bytes);
    }

    /// Turns until this has come, and exactly this.
    fn expect(&mut self, client: ClientId, want: &[u8]) {
        let mut got = Vec::new();
        for _ in 0..100_000 {
            got.extend(self.sim().received(client));
            if got.len() >= want.len() {
                break;
            }
            self.turn();
        }
        let show = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        assert!(got == want, "{} bytes {:?}, not {} bytes {:?}", got.len(), show(&got), want.len(), show(want));
    }

    fn ask(&mut self, client: ClientId, args: &[&[u8]], want: &[u8]) {
        self.send(client, &request(args));
        self.expect(client, want);
    }

    fn used_bytes(&mut self) -> u64 {
        self.worker.engine().keyspace.shard().used_bytes()
    }

    fn fill(&mut self, keys: usize) {
        let now_ms = self.now_ms();
        let shard = self.worker.engine().keyspace.shard();
        for i in 0..keys {
            let mut db = shard.db(0, now_ms);
            let name = format!("key:{i:08}");
            let key = db.key(name.as_bytes());
            db.set_string(key, crate::db::NewValue::Raw(b"value"), crate::db::view::Deadline::None).unwrap();
        }
        self.rest();
    }

    fn until_held(&mut self, name: &[u8]) {
        self.until("the name is held", |rig| {
            let shard = &*rig.worker.state.engine.keyspace.shard();
            shard.holds.blocks(0, shard.key(name).hash, true)
        });
    }

    fn ends(&mut self, client: ClientId) -> ClientState {
        self.until("the end of a connection", |rig| {
            matches!(rig.sim().state(client), ClientState::Eof | ClientState::Reset | ClientState::Closed)
        });
        self.sim().state(client)
    }
}

fn rig() -> Rig {
    Rig::perfect(Config::default())
}

fn mset(names: usize, value: &[u8]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = (0..names).map(|i| format!("many:{i}").into_bytes()).collect();
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    names.iter().for_each(|name| words.extend([&name[..], value]));
    request(&words)
}

#[test]
fn half_a_request_waits_and_harms_nobody() {
    let mut rig = rig();
    let (slow, other) = (rig.connect(), rig.connect());
    let whole = request(&[b"SET", b"k", b"value"]);
    for cut in 1..whole.len() {
        rig.send(slow, &whole[..cut]);
        rig.pass(Duration::from_secs(3));
        assert_eq!(rig.sim().received(slow), b"");
        rig.ask(other, &[b"GET", b"k"], b"$-1\r\n");
        assert!(rig.worker.engine().stats.clients_bytes > 0, "what is kept of it counts");
        rig.send(slow, &whole[cut..]);
        rig.expect(slow, b"+OK\r\n");
        rig.ask(other, &[b"GETDEL", b"k"], b"$5\r\nvalue\r\n");
        assert_eq!(rig.worker.engine().stats.clients_bytes, 0);
    }
    rig.send(slow, &whole[..9]);
    rig.sim().disconnect(slow);
    rig.sim().disconnect(other);
    rig.assert_clean("half a request");
}

#[test]
fn commands_that_wait_for_names_go_on_in_order() {
    let mut rig = rig();
    let (writer, a, b) = (rig.connect(), rig.connect(), rig.connect());
    rig.send(writer, &mset(20_000, b"1"));
    rig.until("names are held", |rig| !rig.worker.engine().keyspace.shard().holds.is_idle());
    // The last name is not written yet; all of them are held, or will be.
    let late = b"many:19999";
    rig.until_held(late);
    rig.send(a, &[request(&[b"PING"]), request(&[b"INCR", late]), request(&[b"PING", b"behind"])].concat());
    rig.until("it waits", |rig| rig.worker.state.held_len() == 1);
    rig.send(b, &[request(&[b"INCR", late]), request(&[b"INCR", late])].concat());
    rig.until("the other waits, too", |rig| rig.worker.state.held_len() == 2);
    assert_eq!(rig.sim().received(writer), b"", "the writer is not done");
    assert_eq!(rig.sim().received(b), b"");
    rig.expect(a, b"+PONG\r\n:2\r\n$6\r\nbehind\r\n");
    rig.expect(b, b":3\r\n:4\r\n");
    rig.expect(writer, b"+OK\r\n");
    assert_eq!(rig.worker.engine().stats.commands, 6);
}

#[test]
fn a_command_waits_while_its_large_value_is_in_place() {
    let mut rig = rig();
    let (writer, big) = (rig.connect(), rig.connect());
    let value = vec![b'v'; 100_000];
    let set = request(&[b"SET", b"many:19999", &value, b"GET"]);
    rig.send(big, &set[..set.len() - 12]);
    rig.until("the value is there", |rig| rig.sim().is_idle());
    rig.send(writer, &mset(20_000, b"1"));
    rig.until_held(b"many:19999");
    rig.send(big, &set[set.len() - 12..]);
    rig.until("it waits", |rig| rig.worker.state.held_len() == 1);
    rig.expect(big, b"$1\r\n1\r\n");
    rig.expect(writer, b"+OK\r\n");
    rig.ask(big, &[b"GET", b"many:19999"], &bulk(&value));
}

#[test]
fn a_waiting_client_with_a_large_value_may_go() {
    let mut rig = rig();
    let (writer, big) = (rig.connect(), rig.connect());
    rig.send(writer, &mset(20_000, b"1"));
    rig.until_held(b"many:19999");
    rig.send(big, &request(&[b"SET", b"many:19999", &[b'v'; 100_000]]));
    rig.until("it waits", |rig| rig.worker.state.held_len() == 1);
    rig.sim().reset(big);
    rig.expect(writer, b"+OK\r\n");
    rig.rest();
    assert_eq!(rig.worker.engine().keyspace.shard().slab().blob_stats().blobs, 0);
    rig.ask(writer, &[b"GET", b"many:19999"], b"$1\r\n1\r\n");
}

#[test]
fn keys_of_a_client_that_vanishes_are_given_up() {
    let mut rig = rig();
    let client = rig.connect();
    rig.fill(50_000);
    let (before, clients) = (rig.used_bytes(), rig.worker.engine().stats.clients_bytes);
    rig.send(client, &[request(&[b"KEYS", b"*"]), request(&[b"SET", b"never", b"x"])].concat());
    rig.until("names are collected", |rig| rig.worker.engine().stats.clients_bytes > clients + 100_000);
    rig.sim().reset(client);
    rig.assert_clean("KEYS");
    rig.rest();
    assert_eq!(rig.used_bytes(), before, "what followed was not executed, nothing is left");
}

#[test]
fn half_of_a_deletion_is_no_deletion() {
    let mut rig = rig();
    rig.fill(5_000);
    let (client, other) = (rig.connect(), rig.connect());
    let names: Vec<Vec<u8>> = (0..5_000).map(|i| format!("key:{i:08}").into_bytes()).collect();
    let words: Vec<&[u8]> = std::iter::once(&b"DEL"[..]).chain(names.iter().map(|n| &n[..])).collect();
    rig.send(client, &request(&words));
    rig.until("it has begun", |rig| rig.worker.engine().keyspace.shard().databases()[0].len() < 5_000);
    assert!(!rig.worker.engine().keyspace.shard().databases()[0].is_empty(), "and is not done");
    rig.sim().reset(client);
    rig.send(other, &request(&[b"DBSIZE"]));
    rig.expect(other, b":0\r\n");
    rig.sim().disconnect(other);
    rig.assert_clean("a deletion without its client");
}

#[test]
fn much_output_stops_the_pipeline_until_it_is_taken() {
    for queue_bytes in [64 << 10, 8 << 20] {
        // With the larger queue one send takes everything, and nothing is left of which `sent` could tell.
        let mut rig = Rig::new(1, Faults { queue_bytes, ..Faults::default() }, Config::default());
        let client = rig.connect();
        let value = vec![b'v'; 12_000];
        rig.ask(client, &[b"SET", b"k", &value], b"+OK\r\n");
        let commands = rig.worker.engine().stats.commands;
        rig.sim().stop_reading(client);
        let pipeline = [request(&[b"GET", b"k"]).repeat(1_000), request(&[b"SET", b"k", b"done"])].concat();
        rig.send(client, &pipeline);
        rig.pass(Duration::from_secs(5));
        let answered = usize::try_from(rig.worker.engine().stats.commands - commands).unwrap();
        let most = (2 * OUT_HIGH_BYTES + queue_bytes) / value.len() + 8;
        assert!(answered <= most, "{answered} of {most} replies for a client that does not read");
        let made = u64::from(rig.worker.state.engine.clients.after(0).unwrap().1.out_bytes);
        assert!(made < 2 * OUT_HIGH_BYTES as u64);
        rig.sim().start_reading(client);
        let mut want = bulk(&value).repeat(1_000);
        want.extend(b"+OK\r\n");
        rig.expect(client, &want);
        rig.sim().disconnect(client);
        rig.assert_clean("much output");
    }
}

#[test]
fn keys_wait_for_a_client_that_does_not_read() {
    for queue_bytes in [64 << 10, 32 << 20] {
        let mut rig = Rig::new(1, Faults { queue_bytes, ..Faults::default() }, Config::default());
        rig.fill(100_000);
        let client = rig.connect();
        rig.sim().stop_reading(client);
        rig.send(client, &request(&[b"KEYS", b"*"]));
        rig.pass(Duration::from_secs(5));
        let queued = rig.worker.state.engine.clients.after(0).unwrap().1.out_bytes as usize;
        assert!(queued < 2 * OUT_HIGH_BYTES, "{queued}");
        rig.sim().start_reading(client);
        let mut got = Vec::new();
        let whole = b"*100000\r\n".len() + 100_000 * bulk(b"key:00000000").len();
        rig.until("all names", |rig| {
            got.extend(rig.sim().received(client));
            got.len() >= whole
        });
        assert_eq!(got.len(), whole);
        assert_eq!(rig.worker.engine().stats.commands, 1);
    }
}

#[test]
fn names_are_not_held_for_a_client_that_does_not_read() {
    let mut rig = Rig::new(1, Faults { queue_bytes: 10_000, ..Faults::default() }, Config::default());
    let (lazy, other) = (rig.connect(), rig.connect());
    let value = vec![b'v'; 10_000];
    rig.ask(other, &[b"SET", b"k", &value], b"+OK\r\n");
    let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(std::iter::repeat_n(&b"k"[..], 500)).collect();
    rig.sim().stop_reading(lazy);
    rig.send(lazy, &request(&words));
    rig.until("the names are held", |rig| !rig.worker.engine().keyspace.shard().holds.is_idle());
    rig.ask(other, &[b"SET", b"k", b"new"], b"+OK\r\n");
    rig.sim().start_reading(lazy);
    rig.expect(lazy, &[b"*500\r\n", &bulk(&value).repeat(500)[..]].concat());
}

#[test]
fn nothing_behind_quit_is_executed() {
    let mut rig = rig();
    let (client, other) = (rig.connect(), rig.connect());
    let pipeline =
        [request(&[b"INCR", b"n"]), request(&[b"QUIT"]), request(&[b"INCR", b"n"]), b"no protocol at all".to_vec()]
            .concat();
    rig.send(client, &pipeline);
    rig.expect(client, b":1\r\n+OK\r\n");
    assert_eq!(rig.ends(client), ClientState::Eof);
    rig.ask(other, &[b"GET", b"n"], b"$1\r\n1\r\n");
}

#[test]
fn replies_come_before_a_protocol_error() {
    let mut rig = rig();
    for (wrong, text) in [
        (&b"*1\r\n!4\r\nPING\r\n"[..], &b"-ERR Protocol error: expected '$', got '!'\r\n"[..]),
        (b"*x\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"SET 'a\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        for pieces in [false, true] {
            let client = rig.connect();
            let stream =
                [&request(&[b"SET", b"k", b"v"])[..], &request(&[b"GET", b"k"]), wrong, &request(&[b"DEL", b"k"])]
                    .concat();
            for piece in stream.chunks(if pieces { 1 } else { stream.len() }) {
                rig.send(client, piece);
                rig.turn();
            }
            rig.expect(client, &[b"+OK\r\n$1\r\nv\r\n", text].concat());
            assert_eq!(rig.ends(client), ClientState::Eof);
        }
    }
    assert_eq!(rig.worker.engine().keyspace.shard().databases()[0].len(), 1);
    rig.assert_clean("protocol errors");
}

#[test]
fn a_reset_in_a_large_value_gives_its_memory_back() {
    let mut rig = rig();
    let before = rig.empty_bytes();
    let wire = request(&[b"SET", b"k", &vec![b'v'; 300 << 10]]);
    for sent in [17 << 10, 100 << 10, wire.len() - 2, wire.len() - 1] {
        let client = rig.connect();
        rig.send(client, &wire[..sent]);
        rig.until("it is received", |rig| rig.sim().is_idle());
        assert!(rig.used_bytes() > before, "it lies in the keyspace's memory");
        assert_eq!(rig.worker.engine().keyspace.shard().slab().blob_stats().blobs, 1);
        rig.sim().reset(client);
        rig.assert_clean("a large value");
        rig.rest();
        assert_eq!(rig.used_bytes(), before, "{sent} bytes sent");
    }
    // A body without its end is an error of the protocol.
    let client = rig.connect();
    rig.send(client, &wire[..wire.len() - 2]);
    rig.send(client, b"xx");
    rig.until("an error", |rig| rig.sim().state(client) == ClientState::Eof);
    assert!(rig.sim().received(client).starts_with(b"-ERR Protocol error"));
    rig.rest();
    assert_eq!(rig.used_bytes(), before);
}

#[test]
fn a_large_value_that_is_refused_gives_its_memory_back() {
    let mut rig = rig();
    let client = rig.connect();
    let value = vec![b'v'; 300 << 10];
    rig.ask(client, &[b"SET", b"k", b"old"], b"+OK\r\n");
    let before = rig.used_bytes();
    rig.ask(client, &[b"SET", b"k", &value, b"NX"], b"$-1\r\n");
    rig.ask(client, &[b"SET", b"k", &value, b"NOSUCH"], &[b"-", errors::SYNTAX.as_bytes(), b"\r\n"].concat());
    rig.ask(client, &[b"SETNX", b"k", &value], b":0\r\n");
    rig.ask(client, &[b"SETEX", b"k", b"0", &value], b"-ERR invalid expire time in 'setex' command\r\n");
    rig.rest();
    assert_eq!(rig.used_bytes(), before);
    rig.ask(client, &[b"GETSET", b"k", &value], b"$3\r\nold\r\n");
    rig.ask(client, &[b"GETDEL", b"k"], &bulk(&value));
}

#[test]
fn a_request_over_the_query_buffer_limit_ends_its_connection() {
    let config = Config { client_query_buffer_bytes_max: 1 << 20, ..Config::default() };
    let mut rig = Rig::perfect(config);
    let (client, other) = (rig.connect(), rig.connect());
    // Many arguments of a size that is kept as it comes.
    rig.send(client, b"*1000\r\n$4\r\nMSET\r\n");
    let argument = bulk(&vec![b'a'; 10_000]);
    for _ in 0..300 {
        rig.send(client, &argument);
        rig.turn();
    }
    rig.ends(client);
    assert_eq!(rig.sim().received(client), b"");
    rig.ask(other, &[b"PING"], b"+PONG\r\n");
    rig.sim().disconnect(other);
    rig.assert_clean("the query buffer");
}

#[test]
fn output_over_the_hard_limit_ends_its_connection() {
    let mut config = Config::default();
    config.client_output_buffer_limits.normal = OutputLimit { hard_bytes: 200_000, soft_bytes: 0, soft_s: 0 };
    let names: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(std::iter::repeat_n(&b"k"[..], 2_000)).collect();
    // A pipeline; a command that goes on in slices; one that begins so.
    let pipelines = [request(&[b"GET", b"k"]).repeat(400), request(&names[..900]), request(&names)];
    for pipeline in pipelines {
        let mut rig = Rig::new(1, Faults { queue_bytes: 10_000, ..Faults::default() }, config.clone());
        let (client, other) = (rig.connect(), rig.connect());
        rig.ask(other, &[b"SET", b"k", &[b'v'; 1000]], b"+OK\r\n");
        rig.sim().stop_reading(client);
        rig.send(client, &pipeline);
        rig.until("it is closed", |rig| rig.sim().open_connections() == 1);
        rig.ask(other, &[b"SET", b"k", b"new"], b"+OK\r\n");
        rig.sim().disconnect(other);
        rig.assert_clean("the output limit");
    }
}

#[test]
fn idle_clients_are_closed_and_busy_ones_are_not() {
    let mut rig = Rig::perfect(Config { timeout_s: 10, ..Config::default() });
    let (idle, busy) = (rig.connect(), rig.connect());
    rig.ask(idle, &[b"PING"], b"+PONG\r\n");
    for _ in 0..3 {
        rig.pass(Duration::from_secs(3));
        rig.ask(busy, &[b"PING"], b"+PONG\r\n");
    }
    assert_eq!(rig.sim().state(idle), ClientState::Open);
    rig.pass(Duration::from_secs(2));
    assert_ne!(rig.sim().state(idle), ClientState::Open);
    assert_eq!(rig.sim().state(busy), ClientState::Open);
    rig.pass(Duration::from_secs(11));
    assert_ne!(rig.sim().state(busy), ClientState::Open);
    rig.assert_clean("idle clients");
}

#[test]
fn a_client_that_takes_its_replies_slowly_is_not_idle() {
    let faults = Faults { queue_bytes: 1000, delay_ms_max: 200, ..Faults::default() };
    let mut rig = Rig::new(1, faults, Config { timeout_s: 2, ..Config::default() });
    let client = rig.connect();
    let value = vec![b'v'; 200_000];
    rig.ask(client, &[b"SET", b"k", &value], b"+OK\r\n");
    let begun_ms = rig.now_ms();
    rig.ask(client, &[b"GET", b"k"], &bulk(&value));
    assert!(rig.now_ms() - begun_ms > 4_000, "it took longer than the time-out");
}

#[test]
fn a_client_that_half_closes_gets_all_replies() {
    for seed in 0..20 {
        let faults = Faults { queue_bytes: 5_000, ..Faults::from_seed(seed) };
        let mut rig = Rig::new(seed, faults, Config::default());
        rig.fill(3_000);
        let client = rig.connect();
        let pipeline = [
            request(&[b"SET", b"k", &[b'v'; 20_000]]),
            request(&[b"GET", b"k"]).repeat(3),
            mset(600, b"1"),
            request(&[b"FLUSHALL"]),
            request(&[b"DBSIZE"]),
        ]
        .concat();
        rig.send(client, &pipeline);
        rig.sim().close_write(client);
        let want = [b"+OK\r\n", &bulk(&[b'v'; 20_000]).repeat(3)[..], b"+OK\r\n+OK\r\n:0\r\n"].concat();
        rig.expect(client, &want);
        assert_eq!(rig.ends(client), ClientState::Eof);
        rig.assert_clean("half-closed");
    }
}

#[test]
fn the_server_sleeps_when_told_to_and_wakes_for_all() {
    let mut rig = Rig::perfect(Config { debug_command: Allowed::Yes, ..Config::default() });
    let (sleeper, other) = (rig.connect(), rig.connect());
    let begun_ms = rig.now_ms();
    rig.send(sleeper, &[request(&[b"DEBUG", b"SLEEP", b"2.5"]), request(&[b"PING"])].concat());
    rig.until("it slept", |rig| rig.now_ms() >= begun_ms + 2500);
    assert_eq!(rig.sim().received(sleeper), b"");
    rig.send(other, &request(&[b"SET", b"k", b"v"]));
    rig.expect(other, b"+OK\r\n");
    rig.expect(sleeper, b"+OK\r\n+PONG\r\n");
    assert!(rig.now_ms() < begun_ms + 3000);
    let stats = &rig.worker.engine().stats;
    assert!(stats.turn_ns_max < 1_000_000_000, "its sleep is no turn of its own making");
}

#[test]
fn two_that_send_it_to_sleep_get_both_times() {
    let mut rig = Rig::perfect(Config { debug_command: Allowed::Yes, ..Config::default() });
    let (a, b) = (rig.connect(), rig.connect());
    let begun_ms = rig.now_ms();
    rig.send(a, &request(&[b"DEBUG", b"SLEEP", b"1"]));
    rig.send(b, &request(&[b"DEBUG", b"SLEEP", b"0.5"]));
    rig.expect(a, b"+OK\r\n");
    rig.expect(b, b"+OK\r\n");
    assert!(rig.now_ms() >= begun_ms + 1500);
}

#[test]
fn a_shutdown_lets_clients_take_their_replies() {
    let mut rig = Rig::new(1, Faults { queue_bytes: 3_000, delay_ms_max: 5, ..Faults::default() }, Config::default());
    let (reader, other) = (rig.connect(), rig.connect());
    let value = vec![b'v'; 100_000];
    rig.ask(reader, &[b"SET", b"k", &value], b"+OK\r\n");
    rig.send(reader, &request(&[b"GET", b"k"]));
    rig.until("the reply is made", |rig| rig.worker.engine().stats.commands == 2);
    rig.send(other, &request(&[b"SHUTDOWN", b"NOSAVE"]));
    rig.worker.run().unwrap();
    rig.expect(reader, &bulk(&value));
}

#[test]
fn clients_over_the_maximum_are_told_so() {
    let mut rig = Rig::perfect(Config { maxclients: 2, ..Config::default() });
    let (a, _b) = (rig.connect(), rig.connect());
    let c = rig.connect();
    rig.expect(c, &[b"-", errors::MAX_CLIENTS.as_bytes(), b"\r\n"].concat());
    assert_eq!(rig.ends(c), ClientState::Eof);
    rig.sim().disconnect(a);
    rig.until("there is room", |rig| rig.sim().open_connections() == 1);
    let d = rig.connect();
    rig.ask(d, &[b"PING"], b"+PONG\r\n");
}

#[test]
fn a_password_is_asked_for_wherever_the_window_cuts() {
    let config = Config { requirepass: b"secret".to_vec(), ..Config::default() };
    let stream = [request(&[b"GET", b"k"]), request(&[b"AUTH", b"secret"]), request(&[b"SET", b"k", b"v"])].concat();
    for cut in 1..stream.len() {
        let mut rig = Rig::perfect(config.clone());
        let client = rig.connect();
        rig.send(client, &stream[..cut]);
        rig.turn();
        rig.send(client, &stream[cut..]);
        rig.expect(client, b"-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n");
    }
}

/// Requests of many clients that come in one batch are answered as if each client's ran when those before it had, though all were parsed
/// and located before the first of them: tables grow meanwhile, databases are flushed and changed.
#[test]
fn a_batch_of_clients_runs_in_order() {
    // (With more their time would be used up.)
    const CLIENTS: usize = 50;
    let mut rig = rig();
    let clients: Vec<ClientId> = (0..CLIENTS).map(|_| rig.connect()).collect();
    let mut databases = [HashMap::<String, String>::new(), HashMap::new()];
    let mut selected = [0; CLIENTS];
    let name = |n: usize| format!("key:{n}");
    for round in 0..30 {
        // (Whoever stands in a queue of the simulation without need would be first.)
        rig.rest();
        let mut wants = Vec::new();
        for (i, &client) in clients.iter().enumerate() {
            let mut window = Vec::new();
            let mut want = Vec::new();
            for step in 0..1 + (i + round) % 18 {
                let n = round * 100 + (i * 31 + step * 7) % 150;
                let keys = &mut databases[selected[i]];
                match (i + step * 5 + round) % 16 {
                    0 if step % 4 == 0 => {
                        selected[i] = 1 - selected[i];
                        window.extend(request(&[b"SELECT", selected[i].to_string().as_bytes()]));
                        want.extend(b"+OK\r\n");
                    }
                    1 if i == 20 => {
                        keys.clear();
                        window.extend(request(&[b"FLUSHDB", b"ASYNC"]));
                        want.extend(b"+OK\r\n");
                    }
                    2..7 => {
                        let value = format!("{i}.{step}");
                        window.extend(request(&[b"SET", name(n).as_bytes(), value.as_bytes()]));
                        keys.insert(name(n), value);
                        want.extend(b"+OK\r\n");
                    }
                    7 => {
                        let gone = keys.remove(&name(n)).is_some();
                        window.extend(request(&[b"DEL", name(n).as_bytes()]));
                        want.extend(format!(":{}\r\n", u8::from(gone)).bytes());
                    }
                    8 => {
                        window.extend(request(&[b"DBSIZE"]));
                        want.extend(format!(":{}\r\n", keys.len()).bytes());
                    }
                    _ => {
                        window.extend(request(&[b"GET", name(n).as_bytes()]));
                        want.extend(keys.get(&name(n)).map_or(b"$-1\r\n".to_vec(), |value| bulk(value.as_bytes())));
                    }
                }
            }
            rig.send(client, &window);
            wants.push(want);
        }
        rig.turn();
        assert_eq!(rig.worker.state.ready_len(), 0, "all had their time");
        for (&client, want) in clients.iter().zip(&wants) {
            rig.expect(client, want);
        }
    }
}

/// What is left of a batch when the turn's time is used up waits for the next, in its client's order, and keeps nobody from being closed.
#[test]
fn a_batch_ends_when_its_time_is_up() {
    let mut rig = rig();
    let clients: Vec<ClientId> = (0..200).map(|_| rig.connect()).collect();
    let window: Vec<u8> = (0..16).flat_map(|_| request(&[b"INCR", b"n"])).collect();
    for &client in &clients {
        rig.send(client, &window);
        rig.send(client, &request(&[b"PING", b"half"])[..12]);
    }
    rig.turn();
    assert!(rig.worker.state.ready_len() > 0, "nobody waits");
    let waiting = rig.worker.state.waiting_len();
    assert!(waiting < 200, "some were served");
    assert!(rig.worker.engine().stats.clients_bytes > 0, "what waits counts");
    let (gone, clients) = clients.split_last().unwrap();
    rig.sim().disconnect(*gone);
    let mut values = Vec::new();
    for &client in clients {
        rig.send(client, &request(&[b"PING", b"half"])[12..]);
        let mut got = Vec::new();
        rig.until("the replies", |rig| {
            got.extend(rig.sim().received(client));
            got.ends_with(b"$4\r\nhalf\r\n")
        });
        let text = String::from_utf8(got).unwrap();
        let own: Vec<u32> = text.lines().filter_map(|line| line.strip_prefix(':')?.parse().ok()).collect();
        assert!(own.len() == 16 && own.is_sorted(), "{text}");
        values.extend(own);
    }
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), 199 * 16, "each request ran once");
    assert_eq!(rig.worker.engine().stats.clients_bytes, 0);
    for &client in clients {
        rig.sim().disconnect(client);
    }
    rig.assert_clean("after a batch that was too long");
}

const LARGE_BYTES: usize = 8 << 20;

impl Rig {
    /// Stores a large value at `big`.
    fn fill_large(&mut self, client: ClientId) -> Vec<u8> {
        let value: Vec<u8> = (0..LARGE_BYTES).map(|i| (i / 1000).to_le_bytes()[0]).collect();
        self.ask(client, &[b"SET", b"big", &value, b"EX", b"1000"], b"+OK\r\n");
        value
    }
}

/// COPY, and RENAME between shards: readers of both names go on, writers wait, all of it appears at once.
#[test]
fn large_values_are_copied_while_their_names_are_held() {
    for rename in [false, true] {
        let mut rig = rig();
        let (client, other, third) = (rig.connect(), rig.connect(), rig.connect());
        let value = rig.fill_large(client);
        rig.worker.engine().keyspace.shard().apart = true;
        rig.ask(other, &[b"SET", b"target", b"old"], b"+OK\r\n");
        if rename {
            rig.send(client, &request(&[b"RENAME", b"big", b"target"]));
        } else {
            rig.send(client, &request(&[b"COPY", b"big", b"target", b"REPLACE"]));
        }
        rig.until_held(b"target");
        rig.until_held(b"big");
        rig.ask(third, &[b"STRLEN", b"big"], format!(":{LARGE_BYTES}\r\n").as_bytes());
        rig.ask(third, &[b"GET", b"target"], b"$3\r\nold\r\n");
        rig.send(other, &[request(&[b"APPEND", b"big", b"x"]), request(&[b"SWAPDB", b"0", b"1"])].concat());
        rig.until("the writer waits", |rig| rig.worker.state.held_len() == 1);
        assert_eq!(rig.sim().received(client), b"", "it is not done");
        rig.expect(client, if rename { b"+OK\r\n" } else { b":1\r\n" });
        let len = if rename { 1 } else { LARGE_BYTES + 1 };
        rig.expect(other, format!(":{len}\r\n+OK\r\n").as_bytes());
        rig.ask(other, &[b"SELECT", b"1"], b"+OK\r\n");
        rig.ask(other, &[b"GETDEL", b"target"], &bulk(&value));
        for client in [client, other, third] {
            rig.sim().disconnect(client);
        }
        rig.assert_clean("a copy");
        assert_eq!(rig.empty_bytes(), 0);
    }
}

/// What names a key of another database waits as well, though the pipeline does not look there.
#[test]
fn commands_on_other_databases_wait_for_held_names() {
    let mut rig = rig();
    let (client, mover, copier) = (rig.connect(), rig.connect(), rig.connect());
    rig.fill_large(client);
    for client in [mover, copier] {
        rig.ask(client, &[b"SELECT", b"5"], b"+OK\r\n");
        rig.ask(client, &[b"MSET", b"target", b"5", b"k", b"5"], b"+OK\r\n");
    }
    rig.send(client, &request(&[b"COPY", b"big", b"target"]));
    rig.until_held(b"target");
    rig.send(mover, &request(&[b"MOVE", b"target", b"0"]));
    rig.send(copier, &[request(&[b"COPY", b"k", b"target", b"DB", b"0", b"REPLACE"]), request(&[b"PING"])].concat());
    rig.until("both wait", |rig| rig.worker.engine().stats.suspended == 3);
    rig.expect(client, b":1\r\n");
    rig.expect(mover, b":0\r\n");
    rig.expect(copier, b":1\r\n+PONG\r\n");
    rig.ask(client, &[b"GET", b"target"], b"$1\r\n5\r\n");
    // Two large copies: one holder at a time.
    rig.send(client, &request(&[b"COPY", b"big", b"one"]));
    rig.until_held(b"one");
    rig.ask(mover, &[b"SELECT", b"0"], b"+OK\r\n");
    rig.send(mover, &request(&[b"COPY", b"big", b"two"]));
    rig.expect(client, b":1\r\n");
    rig.expect(mover, b":1\r\n");
    rig.ask(mover, &[b"STRLEN", b"two"], format!(":{LARGE_BYTES}\r\n").as_bytes());
}

#[test]
fn a_copy_whose_client_vanishes_leaves_nothing() {
    let mut rig = rig();
    let (client, waiting, other) = (rig.connect(), rig.connect(), rig.connect());
    rig.fill_large(other);
    let before = rig.used_bytes();
    rig.send(client, &request(&[b"COPY", b"big", b"target"]));
    rig.until_held(b"target");
    rig.send(waiting, &request(&[b"COPY", b"big", b"second"]));
    rig.sim().reset(client);
    rig.sim().reset(waiting);
    let mut most = before;
    rig.until("the names are free", |rig| {
        most = most.max(rig.used_bytes());
        rig.worker.engine().keyspace.shard().holds.is_idle()
    });
    assert!(most > before, "some of it was copied");
    rig.ask(other, &[b"EXISTS", b"target", b"second"], b":0\r\n");
    rig.rest();
    assert_eq!(rig.used_bytes(), before);
    rig.sim().disconnect(other);
    rig.assert_clean("a copy without its client");
}

/// RESTORE of a large payload: received in place, checked and stored in slices; nothing is left of one that is given up or refused.
#[test]
fn large_payloads_are_restored_in_slices() {
    let mut rig = rig();
    let (client, other) = (rig.connect(), rig.connect());
    let value = rig.fill_large(client);
    let mut payload = vec![0];
    crate::persist::rdb::string::write(&value, &mut payload);
    crate::persist::rdb::payload::seal(&mut payload);
    rig.ask(client, &[b"DUMP", b"big"], &bulk(&payload));
    let before = rig.used_bytes();
    let suspended = rig.worker.engine().stats.suspended;

    rig.send(client, &request(&[b"RESTORE", b"late", b"0", &payload]));
    rig.until("it goes on in slices", |rig| rig.worker.engine().stats.suspended > suspended);
    rig.ask(other, &[b"SET", b"late", b"first"], b"+OK\r\n");
    rig.expect(client, format!("-{}\r\n", errors::BUSYKEY).as_bytes());
    rig.ask(client, &[b"DEL", b"late"], b":1\r\n");
    rig.rest();
    assert_eq!(rig.used_bytes(), before, "refused");

    let mut damaged = payload.clone();
    damaged[5_000_000] ^= 1;
    rig.ask(client, &[b"RESTORE", b"k", b"0", &damaged], format!("-{}\r\n", errors::BAD_PAYLOAD).as_bytes());
    rig.rest();
    assert_eq!(rig.used_bytes(), before, "damaged");

    let vanishing = rig.connect();
    let suspended = rig.worker.engine().stats.suspended;
    rig.send(vanishing, &request(&[b"RESTORE", b"k", b"0", &payload]));
    rig.until("it goes on in slices", |rig| rig.worker.engine().stats.suspended > suspended);
    rig.sim().reset(vanishing);
    rig.rest();
    rig.ask(client, &[b"EXISTS", b"k"], b":0\r\n");
    rig.rest();
    assert_eq!(rig.used_bytes(), before, "given up");

    // While somebody holds the key, the last step waits.
    let suspended = rig.worker.engine().stats.suspended;
    rig.send(client, &request(&[b"RESTORE", b"k", b"5000000", &payload, b"IDLETIME", b"77"]));
    rig.until("it goes on in slices", |rig| rig.worker.engine().stats.suspended > suspended);
    let shard = rig.worker.engine().keyspace.shard();
    let hash = shard.key(b"k").hash;
    assert!(shard.holds.begin(1, crate::db::hold::Mode::Shared));
    shard.holds.add(0, hash);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.sim().received(client), b"");
    rig.ask(other, &[b"EXISTS", b"k"], b":0\r\n");
    rig.worker.engine().keyspace.shard().holds.end();
    rig.expect(client, b"+OK\r\n");
    rig.ask(client, &[b"OBJECT", b"IDLETIME", b"k"], b":77\r\n");
    rig.ask(client, &[b"GET", b"k"], &bulk(&value));
    for client in [client, other] {
        rig.sim().disconnect(client);
    }
    rig.assert_clean("restored");
    assert_eq!(rig.empty_bytes(), 0);
}
