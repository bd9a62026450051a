//! The tests that every backend must pass, generic over a [`World`]: a backend together with clients that it can be reached by.
//!
//! The handler here, [`Tester`], speaks a protocol of frames that makes it use every part of the seam, and [`expected`] is its oracle: what
//! a client must receive for what it sent, however the network cuts it. All runs go through the contract checks of [`super::check`].
//! Nothing waits for a time: a test goes on by turns until what it waits for has happened.
use super::sim::Rng;
use super::{Answers, Backend, ConnId, Flow, Handler, Input, NetConfig, Peer, Why};
use crate::base::out::Out;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How a client saw its connection end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Eof,
    Reset,
}

/// A backend and its clients.
pub(super) trait World {
    type Net: Backend;
    /// More than the transport holds between a server and a client that does not read.
    const FLOOD_BYTES: usize;
    fn net(&mut self) -> &mut Self::Net;
    /// `None`: refused.
    fn connect(&mut self) -> Option<usize>;
    /// Queues bytes to be sent by `client`.
    fn send(&mut self, client: usize, bytes: &[u8]);
    /// After everything queued.
    fn close_write(&mut self, client: usize);
    fn reset(&mut self, client: usize);
    fn stop_reading(&mut self, client: usize);
    fn start_reading(&mut self, client: usize);
    /// All that the client has received.
    fn received(&mut self, client: usize) -> &[u8];
    fn end(&mut self, client: usize) -> Option<End>;
    /// Lets the clients send and receive.
    fn step(&mut self);
}

// --- the protocol ----------------------------------------------------------------------------------------------------------------

/// `kind`, length (4 bytes, little endian), and for `ECHO` and `SINK` so many bytes.
pub(super) const ECHO: u8 = b'E';
/// As `ECHO`, but the bytes are received into a sink.
pub(super) const SINK: u8 = b'S';
/// Asks for so many bytes at once.
pub(super) const BIG: u8 = b'B';
/// Asks for so many bytes in pieces, each written when the former is on its way; later frames wait.
pub(super) const PIECES: u8 = b'G';
/// Pauses; the tester resumes in the next turn, or when the test says so.
pub(super) const PAUSE: u8 = b'P';
/// Says "bye" and finishes.
pub(super) const FINISH: u8 = b'F';
pub(super) const ABORT: u8 = b'A';

const PIECE_BYTES: usize = 10_000;

pub(super) fn frame(kind: u8, length: usize, stream: &mut Vec<u8>) {
    stream.push(kind);
    stream.extend(u32::try_from(length).unwrap().to_le_bytes());
    if kind == ECHO || kind == SINK {
        let from = stream.len();
        pattern(from, from + length, stream);
    }
}

fn frames(list: &[(u8, usize)]) -> Vec<u8> {
    let mut stream = Vec::new();
    list.iter().for_each(|&(kind, length)| frame(kind, length, &mut stream));
    stream
}

/// Appends the bytes `from..to` of an endless pattern, in which neighbouring places do not look alike.
fn pattern(from: usize, to: usize, into: &mut Vec<u8>) {
    const PERIOD: usize = 65_521;
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut rng = Rng::new(7);
        (0..PERIOD).map(|_| u8::try_from(rng.below(256)).unwrap()).collect()
    });
    let mut at = from;
    while at < to {
        let place = at % PERIOD;
        let length = (PERIOD - place).min(to - at);
        into.extend_from_slice(&BYTES[place..place + length]);
        at += length;
    }
}

fn patterned(from: usize, to: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    pattern(from, to, &mut bytes);
    bytes
}

/// The first frame of `stream`: kind, length, and the bytes of its header with its payload.
fn header(stream: &[u8]) -> Option<(u8, usize)> {
    let length = u32::from_le_bytes(stream.get(1..5)?.try_into().ok()?);
    Some((stream[0], usize::try_from(length).unwrap()))
}

/// What a client receives for `stream`.
pub(super) fn expected(mut stream: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    while let Some((kind, length)) = header(stream) {
        stream = &stream[5..];
        match kind {
            ECHO | SINK => {
                if stream.len() < length {
                    break;
                }
                reply.extend(&stream[..length]);
                stream = &stream[length..];
            }
            BIG | PIECES => pattern(0, length, &mut reply),
            PAUSE => {}
            FINISH => {
                reply.extend(b"bye");
                break;
            }
            _ => break,
        }
    }
    reply
}

// --- the handler -----------------------------------------------------------------------------------------------------------------

#[derive(Default)]
struct Conversation {
    carry: Vec<u8>,
    sink: Vec<u8>,
    sunk: usize,
    /// Bytes of `PIECES` written and asked for.
    pieces: Option<(usize, usize)>,
    paused: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Tester {
    open: BTreeMap<(u32, u32), Conversation>,
    pub(super) opened: Vec<(ConnId, Peer)>,
    pub(super) closed: Vec<(ConnId, Why)>,
    /// Connections of the `data` and `sunk` calls of this turn.
    pub(super) calls: Vec<ConnId>,
    /// Of every batch the inputs and the bytes.
    pub(super) batches: Vec<(usize, usize)>,
    pub(super) sent: usize,
    pub(super) hung_up: Vec<ConnId>,
    pub(super) mails: usize,
    pub(super) signals: Vec<i32>,
    // What a test sets:
    /// Answer of `turn_over`.
    pub(super) over: bool,
    /// Answer of `hung_up`.
    pub(super) give_up: bool,
    /// Pauses last until `resume` is called.
    pub(super) hold: bool,
}

fn key(conn: ConnId) -> (u32, u32) {
    (conn.index, conn.generation)
}

impl Tester {
    fn conversation(&mut self, conn: ConnId) -> &mut Conversation {
        self.open.get_mut(&key(conn)).expect("an open connection")
    }

    pub(super) fn is_paused(&self, conn: ConnId) -> bool {
        self.open.get(&key(conn)).is_some_and(|c| c.paused && c.pieces.is_none())
    }

    /// What a worker does between `poll` and `flush`: writes the pieces that are due, and resumes.
    pub(super) fn work<B: Backend>(&mut self, net: &mut B) {
        let ids: Vec<ConnId> = self.open.keys().map(|&(index, generation)| ConnId { index, generation }).collect();
        for conn in ids {
            let c = self.conversation(conn);
            if c.pieces.is_some() {
                if net.queued(conn) < PIECE_BYTES
                    && let Some(out) = net.out(conn)
                {
                    c.write_pieces(out);
                }
                if c.pieces.is_none() {
                    self.resume(net, conn);
                }
            } else if c.paused && !self.hold {
                self.resume(net, conn);
            }
        }
    }

    /// Goes on with what a paused connection has kept, and reads on unless that pauses again.
    pub(super) fn resume<B: Backend>(&mut self, net: &mut B, conn: ConnId) {
        let Some(out) = net.out(conn) else { return };
        let c = self.conversation(conn);
        c.paused = false;
        match c.proceed(out) {
            Flow::Read => net.resume(conn),
            Flow::Pause => c.paused = true,
            // A sink begins only where more input is needed; this tester asks for it when that has come.
            Flow::Sink => unreachable!("a sink is asked for in `data` only"),
            flow => net.close(conn, flow),
        }
    }
}

impl Conversation {
    fn write_pieces(&mut self, out: &mut Out) {
        if let Some((written, length)) = self.pieces {
            let end = length.min(written + PIECE_BYTES);
            out.extend(&patterned(written, end));
            self.pieces = (end < length).then_some((end, length));
        }
    }

    /// Handles the complete frames that were kept.
    fn proceed(&mut self, out: &mut Out) -> Flow {
        let mut at = 0;
        let mut flow = Flow::Read;
        while let Some((kind, length)) = header(&self.carry[at..]) {
            let body = at + 5;
            match kind {
                ECHO | SINK => {
                    let Some(payload) = self.carry.get(body..body + length) else { break };
                    out.extend(payload);
                    at = body + length;
                    continue;
                }
                BIG => out.extend(&patterned(0, length)),
                PIECES => {
                    self.pieces = Some((0, length));
                    self.write_pieces(out);
                    flow = if self.pieces.is_some() { Flow::Pause } else { Flow::Read };
                }
                PAUSE => flow = Flow::Pause,
                FINISH => {
                    out.extend(b"bye");
                    flow = Flow::Finish;
                }
                ABORT => flow = Flow::Abort,
                other => panic!("a frame of kind {other}: bytes were lost, doubled or mixed"),
            }
            at = body;
            if flow != Flow::Read {
                break;
            }
        }
        self.carry.drain(..at);
        flow
    }
}

impl Handler for Tester {
    fn opened(&mut self, conn: ConnId, peer: Peer, _out: &mut Out) -> Flow {
        self.opened.push((conn, peer));
        self.open.insert(key(conn), Conversation::default());
        Flow::Read
    }

    fn data(&mut self, conn: ConnId, bytes: &[u8], out: &mut Out) -> Flow {
        self.calls.push(conn);
        let c = self.conversation(conn);
        c.carry.extend_from_slice(bytes);
        let flow = c.proceed(out);
        c.paused = flow == Flow::Pause;
        if flow == Flow::Read
            && let Some((SINK, length)) = header(&c.carry)
        {
            // What has come of the payload moves into the sink, the rest is received there.
            c.sink = vec![0; length];
            c.sunk = c.carry.len() - 5;
            c.sink[..c.sunk].copy_from_slice(&c.carry[5..]);
            c.carry.clear();
            return Flow::Sink;
        }
        flow
    }

    fn batch(&mut self, inputs: &[Input], bytes: &[u8], answers: &mut impl Answers) {
        self.batches.push((inputs.len(), inputs.iter().map(Input::len).sum()));
        for input in inputs {
            answers.answer(input.conn, |out| self.data(input.conn, input.of(bytes), out));
        }
    }

    fn sink(&mut self, conn: ConnId) -> &mut [u8] {
        let c = self.conversation(conn);
        &mut c.sink[c.sunk..]
    }

    fn sunk(&mut self, conn: ConnId, bytes: usize, out: &mut Out) -> Flow {
        self.calls.push(conn);
        let c = self.conversation(conn);
        c.sunk += bytes;
        if c.sunk < c.sink.len() {
            return Flow::Sink;
        }
        out.extend(&std::mem::take(&mut c.sink));
        Flow::Read
    }

    fn sent(&mut self, conn: ConnId, queued: usize, out: &mut Out) {
        self.sent += 1;
        let c = self.conversation(conn);
        // The last piece is left to `work`, which resumes.
        if queued < PIECE_BYTES && c.pieces.is_some_and(|(written, length)| written + PIECE_BYTES < length) {
            c.write_pieces(out);
        }
    }

    fn hung_up(&mut self, conn: ConnId) -> bool {
        self.hung_up.push(conn);
        self.give_up
    }

    fn closed(&mut self, conn: ConnId, why: Why) {
        self.open.remove(&key(conn)).expect("an open connection");
        self.closed.push((conn, why));
    }
    fn signal(&mut self, signo: i32) {
        self.signals.push(signo);
    }
    fn mail(&mut self) {
        self.mails += 1;
    }
    fn turn_over(&mut self) -> bool {
        self.over
    }
}

// --- the rig ---------------------------------------------------------------------------------------------------------------------

/// A world with its handler.
pub(super) struct Rig<W> {
    pub(super) world: W,
    pub(super) tester: Tester,
}

impl<W: World> Rig<W> {
    pub(super) fn new(world: W) -> Rig<W> {
        Rig { world, tester: Tester::default() }
    }

    pub(super) fn turn(&mut self) {
        self.tester.calls.clear();
        let net = self.world.net();
        net.poll(&mut self.tester, Some(Duration::from_millis(1))).unwrap();
        self.tester.work(net);
        net.flush(&mut self.tester);
        self.world.step();
    }

    pub(super) fn turns(&mut self, turns: usize) {
        (0..turns).for_each(|_| self.turn());
    }

    /// Turns until `done`; fails after a minute, which only a broken backend needs.
    pub(super) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Rig<W>) -> bool) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !done(self) {
            assert!(Instant::now() < limit, "waited in vain for: {what}");
            self.turn();
        }
    }

    /// A client that the server has accepted.
    pub(super) fn client(&mut self) -> (usize, ConnId) {
        let before = self.tester.opened.len();
        let client = self.world.connect().expect("a connection");
        self.until("opened", |rig| rig.tester.opened.len() > before);
        (client, self.tester.opened[before].0)
    }

    /// Turns until the client has received `bytes`.
    pub(super) fn receives(&mut self, client: usize, bytes: &[u8]) {
        self.until("a reply", |rig| rig.world.received(client).len() >= bytes.len() || rig.world.end(client).is_some());
        assert!(self.world.received(client) == bytes, "client {client} received something else, or not all");
    }

    /// Turns until the connection is closed, once.
    pub(super) fn closes(&mut self, conn: ConnId) -> Why {
        self.until("closed", |rig| rig.tester.closed.iter().any(|(id, _)| *id == conn));
        self.turns(3);
        let ends: Vec<Why> = self.tester.closed.iter().filter(|(id, _)| *id == conn).map(|(_, why)| *why).collect();
        assert_eq!(ends.len(), 1, "closed is called once");
        ends[0]
    }

    pub(super) fn ends(&mut self, client: usize) -> End {
        self.until("the end", |rig| rig.world.end(client).is_some());
        self.world.end(client).unwrap()
    }
}

// --- the tests -------------------------------------------------------------------------------------------------------------------

pub(super) fn echoes_frames_of_any_size<W: World>(rig: &mut Rig<W>) {
    let window = NetConfig::default().window_bytes;
    let (client, _) = rig.client();
    let mut stream = Vec::new();
    for length in [0, 1, 100, window - 6, window - 5, window - 4, window, 5 * window, 1 << 20] {
        let one = frames(&[(ECHO, length)]);
        rig.world.send(client, &one);
        stream.extend(one);
        rig.receives(client, &expected(&stream));
    }
}

pub(super) fn large_values_land_in_the_sink<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    let stream = frames(&[
        (SINK, 20_000),
        (ECHO, 3),
        (SINK, 1),
        (SINK, 0),
        (SINK, 3_000_000),
        (BIG, 10),
        (SINK, 70_000),
        (ECHO, 9),
    ]);
    rig.world.send(client, &stream);
    rig.receives(client, &expected(&stream));
    assert!(rig.tester.open[&key(conn)].carry.is_empty());
}

pub(super) fn many_clients_at_once<W: World>(rig: &mut Rig<W>) {
    let clients: Vec<usize> = (0..200).map(|_| rig.world.connect().unwrap()).collect();
    let mut streams: HashMap<usize, Vec<u8>> = HashMap::new();
    for round in 0..5 {
        for &client in &clients {
            let stream = frames(&[(ECHO, 10 + client * 20 + round), (BIG, client)]);
            rig.world.send(client, &stream);
            streams.entry(client).or_default().extend(stream);
        }
        rig.turn();
    }
    for (client, stream) in streams {
        rig.receives(client, &expected(&stream));
    }
    assert_eq!(rig.tester.opened.len(), 200);
}

/// One input each of many clients, whatever comes of it: all of them together, each once, and each goes its way.
pub(super) fn inputs_of_several_clients_come_together<W: World>(rig: &mut Rig<W>) {
    let clients: Vec<(usize, ConnId)> = (0..24).map(|_| rig.client()).collect();
    let window = |client: usize, round: usize| match client % 8 {
        // The half of a frame; the other half comes in the next round.
        0 if round.is_multiple_of(2) => frames(&[(ECHO, 100)])[..50].to_vec(),
        0 => frames(&[(ECHO, 100)])[50..].to_vec(),
        1 => frames(&[(PAUSE, 0), (ECHO, 20)]),
        2 => frames(&[(PIECES, 30_000), (ECHO, 5)]),
        3 if round.is_multiple_of(2) => frames(&[(SINK, 300)])[..8].to_vec(),
        3 => frames(&[(SINK, 300)])[8..].to_vec(),
        4 => frames(&[(ECHO, 3000)]),
        _ => frames(&[(ECHO, 10 + round), (BIG, 100)]),
    };
    let mut streams: Vec<Vec<u8>> = vec![Vec::new(); clients.len()];
    for round in 0..8 {
        for ((client, _), stream) in clients.iter().zip(&mut streams) {
            let bytes = window(*client, round);
            rig.world.send(*client, &bytes);
            stream.extend(bytes);
        }
        rig.world.step();
        rig.turn();
    }
    for (&(client, _), stream) in clients.iter().zip(&streams) {
        rig.receives(client, &expected(stream));
    }
    let together = rig.tester.batches.iter().map(|(inputs, _)| inputs).max();
    assert!(together.is_some_and(|inputs| *inputs >= 4), "{:?} came together", rig.tester.batches);
    // In one batch some say good-bye, some are thrown out, some stay.
    let last = |client: usize| {
        frames(&[[(ECHO, 1), (FINISH, 0)], [(ECHO, 1), (ABORT, 0)], [(ECHO, 1), (ECHO, 2)]][client % 3])
    };
    for ((client, _), stream) in clients.iter().zip(&mut streams) {
        let bytes = last(*client);
        rig.world.send(*client, &bytes);
        stream.extend(bytes);
    }
    for (&(client, conn), stream) in clients.iter().zip(&streams) {
        match client % 3 {
            0 => {
                rig.receives(client, &expected(stream));
                assert_eq!((rig.ends(client), rig.closes(conn)), (End::Eof, Why::Handler));
            }
            1 => assert_eq!(rig.closes(conn), Why::Handler),
            _ => rig.receives(client, &expected(stream)),
        }
    }
    assert_eq!(rig.tester.closed.len(), 16);
}

pub(super) fn a_paused_connection_is_not_read<W: World>(rig: &mut Rig<W>) {
    rig.tester.hold = true;
    let (client, conn) = rig.client();
    let first = frames(&[(ECHO, 5), (PAUSE, 0), (ECHO, 6)]);
    rig.world.send(client, &first);
    rig.until("the pause", |rig| rig.tester.is_paused(conn));
    let second = frames(&[(ECHO, 100_000), (PAUSE, 0), (ECHO, 7)]);
    rig.world.send(client, &second);
    rig.turns(20);
    assert_eq!(rig.world.received(client).len(), 5);
    // That nothing is read meanwhile is the contract's to check.
    rig.tester.resume(rig.world.net(), conn);
    rig.until("the second pause", |rig| rig.tester.is_paused(conn));
    rig.tester.resume(rig.world.net(), conn);
    rig.receives(client, &expected(&[first, second].concat()));
}

pub(super) fn a_client_that_does_not_read_is_not_read<W: World>(rig: &mut Rig<W>) {
    let config = NetConfig::default();
    let (client, conn) = rig.client();
    let (other, _) = rig.client();
    rig.world.stop_reading(client);
    let mut stream = Vec::new();
    while stream.len() < W::FLOOD_BYTES {
        frame(ECHO, 1000, &mut stream);
    }
    rig.world.send(client, &stream);
    let most = config.out_high_bytes + config.window_bytes + 2000;
    rig.until("the high mark", |rig| {
        let queued = rig.world.net().queued(conn);
        assert!(queued <= most, "{queued} bytes are queued");
        queued > config.out_high_bytes
    });
    let (queued, memory) = (rig.world.net().queued(conn), rig.world.net().memory_bytes());
    assert!(memory >= queued, "the queue is counted");
    // The others are served as ever.
    let hello = frames(&[(ECHO, 50)]);
    rig.world.send(other, &hello);
    rig.receives(other, &expected(&hello));
    rig.turns(20);
    assert!(rig.world.net().queued(conn) <= most);
    rig.world.start_reading(client);
    rig.receives(client, &expected(&stream));
    assert!(rig.tester.sent > 0, "leftovers are reported");
    rig.turns(2);
    assert!(rig.world.net().memory_bytes() <= memory - queued + (2 << 20), "what was queued is given back");
}

pub(super) fn a_half_closed_peer_gets_its_replies<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    let stream = frames(&[(ECHO, 40_000), (BIG, 6_000_000), (SINK, 100_000), (ECHO, 1)]);
    rig.world.send(client, &stream);
    rig.world.close_write(client);
    rig.receives(client, &expected(&stream));
    assert_eq!(rig.ends(client), End::Eof);
    assert_eq!(rig.closes(conn), Why::Peer);
}

pub(super) fn an_empty_connection_closes<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    rig.world.close_write(client);
    assert_eq!(rig.closes(conn), Why::Peer);
    assert_eq!(rig.ends(client), End::Eof);
}

pub(super) fn half_closed_while_paused_it_may_finish<W: World>(rig: &mut Rig<W>) {
    rig.tester.hold = true;
    let (client, conn) = rig.client();
    let stream = frames(&[(PAUSE, 0), (ECHO, 30_000), (PAUSE, 0), (ECHO, 5)]);
    rig.world.send(client, &stream);
    rig.world.close_write(client);
    rig.until("the question", |rig| rig.tester.hung_up == [conn]);
    rig.turns(5);
    assert!(rig.tester.closed.is_empty(), "it was answered no");
    rig.tester.hold = false;
    rig.receives(client, &expected(&stream));
    assert_eq!(rig.closes(conn), Why::Peer);
    assert_eq!(rig.tester.hung_up, [conn], "asked once");
}

pub(super) fn half_closed_while_paused_it_may_give_up<W: World>(rig: &mut Rig<W>) {
    rig.tester.hold = true;
    rig.tester.give_up = true;
    let (client, conn) = rig.client();
    rig.world.send(client, &frames(&[(ECHO, 4), (PAUSE, 0)]));
    rig.until("the pause", |rig| rig.tester.is_paused(conn));
    rig.world.close_write(client);
    assert_eq!(rig.closes(conn), Why::Peer);
    assert_eq!(rig.world.received(client).len(), 4);
}

pub(super) fn a_reset_closes_once<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    rig.world.send(client, &frames(&[(ECHO, 4)]));
    rig.until("the reply", |rig| rig.world.received(client).len() == 4);
    rig.world.reset(client);
    assert_eq!(rig.closes(conn), Why::Error);
}

pub(super) fn a_reset_ends_a_paused_connection<W: World>(rig: &mut Rig<W>) {
    rig.tester.hold = true;
    let (client, conn) = rig.client();
    rig.world.send(client, &frames(&[(ECHO, 4), (PAUSE, 0)]));
    rig.until("the pause", |rig| rig.tester.is_paused(conn));
    rig.until("the reply", |rig| rig.world.received(client).len() == 4);
    rig.world.reset(client);
    assert_eq!(rig.closes(conn), Why::Error);
}

pub(super) fn a_reset_ends_a_queue<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    rig.world.stop_reading(client);
    rig.world.send(client, &frames(&[(BIG, W::FLOOD_BYTES)]));
    rig.until("a queue", |rig| rig.world.net().queued(conn) > 0);
    let memory = rig.world.net().memory_bytes();
    rig.world.reset(client);
    assert_eq!(rig.closes(conn), Why::Error);
    assert!(rig.world.net().memory_bytes() < memory, "the queue is given back");
}

pub(super) fn finish_sends_everything_first<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    // What follows is never read; it must not turn the end into a reset before the replies were read.
    let stream = frames(&[(BIG, 5_000_000), (FINISH, 0), (ECHO, 100_000)]);
    rig.world.send(client, &stream);
    rig.receives(client, &expected(&stream));
    assert_eq!(rig.ends(client), End::Eof);
    assert_eq!(rig.closes(conn), Why::Handler);
    assert!(rig.world.net().out(conn).is_none());
}

pub(super) fn abort_drops_what_is_queued<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    rig.world.stop_reading(client);
    rig.world.send(client, &frames(&[(BIG, W::FLOOD_BYTES)]));
    rig.until("a queue", |rig| rig.world.net().queued(conn) > 0);
    rig.world.send(client, &frames(&[(ABORT, 0)]));
    // Above the high mark the frame is not read: the handler aborts from outside, as at a time-out.
    rig.world.net().close(conn, Flow::Abort);
    assert!(rig.tester.closed.is_empty(), "closed is not called inside of close");
    assert!(rig.world.net().out(conn).is_none());
    assert_eq!(rig.closes(conn), Why::Handler);
    rig.world.start_reading(client);
    rig.ends(client);
    assert!(rig.world.received(client).len() < W::FLOOD_BYTES);
}

pub(super) fn abort_in_an_event<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    rig.world.send(client, &frames(&[(ABORT, 0)]));
    assert_eq!(rig.closes(conn), Why::Handler);
    assert_eq!(rig.ends(client), End::Eof);
    assert!(rig.world.received(client).is_empty());
}

pub(super) fn finish_from_outside<W: World>(rig: &mut Rig<W>) {
    rig.tester.hold = true;
    let (client, conn) = rig.client();
    rig.world.send(client, &frames(&[(PAUSE, 0)]));
    rig.until("the pause", |rig| rig.tester.is_paused(conn));
    rig.world.net().out(conn).unwrap().extend(b"so long");
    rig.world.net().close(conn, Flow::Finish);
    assert!(rig.world.net().out(conn).is_none());
    assert!(rig.tester.closed.is_empty(), "closed is not called inside of close");
    rig.receives(client, b"so long");
    assert_eq!(rig.ends(client), End::Eof);
    assert_eq!(rig.closes(conn), Why::Handler);
}

pub(super) fn a_stale_id_is_ignored<W: World>(rig: &mut Rig<W>) {
    let (first, old) = rig.client();
    rig.world.close_write(first);
    rig.closes(old);
    let (second, new) = rig.client();
    assert_eq!(old.index, new.index, "the slot is used again");
    assert_ne!(old.generation, new.generation);
    let net = rig.world.net();
    assert!(net.out(old).is_none());
    assert_eq!(net.queued(old), 0);
    net.resume(old);
    net.close(old, Flow::Abort);
    net.close(ConnId { index: 1 << 30, generation: 0 }, Flow::Abort);
    let stream = frames(&[(ECHO, 77)]);
    rig.world.send(second, &stream);
    rig.receives(second, &expected(&stream));
    assert_eq!(rig.tester.closed.len(), 1);
}

pub(super) fn output_outside_of_an_event<W: World>(rig: &mut Rig<W>) {
    let (client, conn) = rig.client();
    rig.turns(2);
    rig.world.net().out(conn).unwrap().extend(b"news");
    assert_eq!(rig.world.net().queued(conn), 4);
    rig.receives(client, b"news");
    assert_eq!(rig.world.net().queued(conn), 0);
    // Asked for and not used: nothing is sent, and the connection goes on.
    rig.world.net().out(conn).unwrap();
    rig.turns(2);
    rig.world.net().out(conn).unwrap().extend(b"!");
    rig.receives(client, b"news!");
}

pub(super) fn a_reply_in_pieces<W: World>(rig: &mut Rig<W>) {
    let (client, _) = rig.client();
    let stream = frames(&[(PIECES, 2_000_000), (ECHO, 10), (PIECES, 5), (ECHO, 20)]);
    rig.world.send(client, &stream);
    rig.receives(client, &expected(&stream));
}

pub(super) fn a_firehose_does_not_hold_up_the_others<W: World>(rig: &mut Rig<W>) {
    let (firehose, hose) = rig.client();
    let (client, conn) = rig.client();
    let mut stream = Vec::new();
    while stream.len() < 3_000_000 {
        frame(ECHO, 1000, &mut stream);
    }
    rig.world.send(firehose, &stream);
    rig.until("its first bytes", |rig| rig.tester.calls.contains(&hose));
    let hello = frames(&[(ECHO, 10)]);
    rig.world.send(client, &hello);
    rig.world.step();
    for turn in 0.. {
        rig.turn();
        let calls = rig.tester.calls.iter().filter(|id| **id == hose).count();
        assert!(calls <= 8, "one connection was read {calls} times in a turn");
        if rig.tester.calls.contains(&conn) {
            break;
        }
        assert!(turn < 3, "another connection waited for {turn} turns");
    }
    rig.receives(client, &expected(&hello));
    rig.receives(firehose, &expected(&stream));
}

pub(super) fn a_turn_that_is_over_ends_and_goes_on_in_order<W: World>(rig: &mut Rig<W>) {
    let clients: Vec<(usize, ConnId)> = (0..10).map(|_| rig.client()).collect();
    let stream = frames(&[(ECHO, 60_000)]);
    for (client, _) in &clients {
        rig.world.send(*client, &stream);
    }
    rig.world.step();
    rig.tester.over = true;
    let mut first = Vec::new();
    rig.until("everybody's turn", |rig| {
        assert!(rig.tester.calls.len() <= 1, "a turn that is over went on");
        first.extend(&rig.tester.calls);
        first.len() >= clients.len()
    });
    let distinct: HashSet<ConnId> = first.iter().copied().collect();
    assert_eq!(distinct.len(), clients.len(), "somebody was served twice before others once");
    for (client, _) in clients {
        rig.receives(client, &expected(&stream));
    }
}

pub(super) fn no_listener_no_new_connections<W: World>(rig: &mut Rig<W>) {
    let (client, _) = rig.client();
    rig.world.net().stop_listening();
    if let Some(refused) = rig.world.connect() {
        assert_eq!(rig.ends(refused), End::Reset);
    }
    assert_eq!(rig.tester.opened.len(), 1);
    let stream = frames(&[(ECHO, 10)]);
    rig.world.send(client, &stream);
    rig.receives(client, &expected(&stream));
}

/// Random programs of many clients: every one receives what the oracle says.
pub(super) fn random_programs<W: World>(rig: &mut Rig<W>, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
    let clients: Vec<usize> = (0..1 + below(8)).map(|_| rig.world.connect().unwrap()).collect();
    let mut streams: Vec<Vec<u8>> = vec![Vec::new(); clients.len()];
    for _ in 0..below(40) {
        let who = below(clients.len());
        let mut stream = Vec::new();
        for _ in 0..=below(4) {
            let length = [below(20), below(2000), below(50_000)][below(3)];
            frame([ECHO, ECHO, SINK, BIG, PIECES, PAUSE][below(6)], length, &mut stream);
        }
        // In parts, with turns between, the last part of a frame perhaps much later.
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let part = 1 + below(rest.len());
            rig.world.send(clients[who], &rest[..part]);
            rest = &rest[part..];
            rig.tester.over = below(4) == 0;
            rig.turns(below(3));
        }
        streams[who].extend(stream);
        match below(8) {
            0 => rig.world.stop_reading(clients[below(clients.len())]),
            1 => rig.world.start_reading(clients[below(clients.len())]),
            _ => {}
        }
    }
    for (i, &client) in clients.iter().enumerate() {
        rig.world.start_reading(client);
        let finish = below(2) == 0;
        if finish {
            let bye = frames(&[(FINISH, 0), (ECHO, below(100_000))]);
            rig.world.send(client, &bye);
            streams[i].extend(bye);
        } else {
            rig.world.close_write(client);
        }
    }
    for (&client, stream) in clients.iter().zip(&streams) {
        rig.receives(client, &expected(stream));
        assert_eq!(rig.ends(client), End::Eof);
    }
    rig.until("everything closed", |rig| rig.tester.closed.len() == clients.len());
    assert_eq!(rig.tester.opened.len(), clients.len());
    rig.turns(2);
}

/// Makes a test of each of the functions above for the world that `$new` (of a seed) makes.
macro_rules! conformance_tests {
    (if $available:expr; $new:expr, $($name:ident)*) => {
        $(#[test]
        fn $name() {
            if $available {
                crate::net::conformance::$name(&mut crate::net::conformance::Rig::new($new));
            }
        })*
    };
    (if $available:expr; $new:expr) => {
        crate::net::conformance::conformance_tests! { if $available; $new,
            echoes_frames_of_any_size large_values_land_in_the_sink many_clients_at_once inputs_of_several_clients_come_together
            a_paused_connection_is_not_read a_client_that_does_not_read_is_not_read a_half_closed_peer_gets_its_replies an_empty_connection_closes
            half_closed_while_paused_it_may_finish half_closed_while_paused_it_may_give_up a_reset_closes_once
            a_reset_ends_a_paused_connection a_reset_ends_a_queue finish_sends_everything_first abort_drops_what_is_queued
            abort_in_an_event finish_from_outside a_stale_id_is_ignored output_outside_of_an_event a_reply_in_pieces
            a_firehose_does_not_hold_up_the_others a_turn_that_is_over_ends_and_goes_on_in_order no_listener_no_new_connections
        }
    };
    ($($new:tt)*) => {
        crate::net::conformance::conformance_tests! { if true; $($new)* }
    };
}
pub(super) use conformance_tests;
