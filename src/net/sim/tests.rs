//! The simulation passes the conformance tests, perfect and faulty, and is what it claims to be.
use super::*;
use crate::net::conformance::{self, ECHO, End, FINISH, PIECES, Rig, SINK, World, expected, frame};

struct SimWorld {
    sim: Sim,
    clients: Vec<ClientId>,
    received: Vec<Vec<u8>>,
}

fn world(seed: u64, faults: Faults) -> SimWorld {
    let sim = Sim::new(SimConfig { seed, faults, net: NetConfig::default() });
    SimWorld { sim, clients: Vec::new(), received: Vec::new() }
}

impl World for SimWorld {
    type Net = Sim;
    const FLOOD_BYTES: usize = 3 << 20;
    fn net(&mut self) -> &mut Sim {
        &mut self.sim
    }
    fn connect(&mut self) -> Option<usize> {
        self.clients.push(self.sim.connect());
        self.received.push(Vec::new());
        Some(self.clients.len() - 1)
    }
    fn send(&mut self, client: usize, bytes: &[u8]) {
        self.sim.send(self.clients[client], bytes);
    }
    fn close_write(&mut self, client: usize) {
        self.sim.close_write(self.clients[client]);
    }
    fn reset(&mut self, client: usize) {
        self.sim.reset(self.clients[client]);
    }
    fn stop_reading(&mut self, client: usize) {
        self.sim.stop_reading(self.clients[client]);
    }
    fn start_reading(&mut self, client: usize) {
        self.sim.start_reading(self.clients[client]);
    }
    fn received(&mut self, client: usize) -> &[u8] {
        let fresh = self.sim.received(self.clients[client]);
        self.received[client].extend(fresh);
        &self.received[client]
    }
    fn end(&mut self, client: usize) -> Option<End> {
        match self.sim.state(self.clients[client]) {
            ClientState::Connecting | ClientState::Open => None,
            ClientState::Eof => Some(End::Eof),
            ClientState::Reset | ClientState::Closed => Some(End::Reset),
        }
    }
    fn step(&mut self) {}
}

mod perfect {
    crate::net::conformance::conformance_tests! { super::world(1, super::Faults::default()) }
}

/// All faults but those that the tests count turns around.
mod faulty {
    fn faults() -> super::Faults {
        super::Faults {
            short_reads: true,
            short_writes: true,
            ring_bytes: 4000,
            delay_ms_max: 3,
            reorder: true,
            small_batches: true,
            queue_bytes: 50_000,
            ..super::Faults::default()
        }
    }
    crate::net::conformance::conformance_tests! { super::world(2, faults()),
        echoes_frames_of_any_size large_values_land_in_the_sink many_clients_at_once inputs_of_several_clients_come_together
        a_paused_connection_is_not_read a_client_that_does_not_read_is_not_read a_half_closed_peer_gets_its_replies an_empty_connection_closes
        half_closed_while_paused_it_may_finish half_closed_while_paused_it_may_give_up a_reset_closes_once
        a_reset_ends_a_paused_connection a_reset_ends_a_queue finish_sends_everything_first abort_drops_what_is_queued
        abort_in_an_event finish_from_outside a_stale_id_is_ignored output_outside_of_an_event a_reply_in_pieces
        no_listener_no_new_connections
    }
}

#[test]
fn random_programs_under_random_faults() {
    for seed in 0..150 {
        conformance::random_programs(&mut Rig::new(world(seed, Faults::from_seed(seed))), seed);
    }
}

#[test]
fn random_resets_leave_a_prefix_and_no_connection() {
    let mut resets = 0;
    for seed in 0..100 {
        let faults = Faults { reset_permille: 100, ..Faults::from_seed(seed) };
        let mut rig = Rig::new(world(seed, faults));
        let mut rng = Rng::new(seed);
        let clients: Vec<usize> = (0..5).map(|_| rig.world.connect().unwrap()).collect();
        let mut streams = vec![Vec::new(); 5];
        for _ in 0..40 {
            let who = usize::try_from(rng.below(5)).unwrap();
            let mut part = Vec::new();
            frame(
                [ECHO, SINK, PIECES][usize::try_from(rng.below(3)).unwrap()],
                usize::try_from(rng.below(20_000)).unwrap(),
                &mut part,
            );
            rig.world.send(clients[who], &part);
            streams[who].extend(part);
            rig.turn();
        }
        clients.iter().for_each(|client| rig.world.close_write(*client));
        // Idle is not enough: the handler may have more to write.
        rig.until("everything closed", |rig| {
            rig.world.sim.is_idle() && rig.tester.opened.len() == rig.tester.closed.len()
        });
        assert_eq!(rig.world.sim.open_connections(), 0);
        for (client, stream) in clients.into_iter().zip(&streams) {
            let whole = rig.world.end(client) == Some(End::Eof);
            resets += usize::from(!whole);
            let (received, expected) = (rig.world.received(client), expected(stream));
            assert!(expected.starts_with(received) && (!whole || received.len() == expected.len()), "seed {seed}");
        }
    }
    assert!(resets > 50, "the faults happen: {resets}");
}

/// Writes down everything that happens to it.
struct Diary {
    clock: SimClock,
    pages: Vec<String>,
    sink: Vec<u8>,
}
impl Handler for Diary {
    fn opened(&mut self, conn: ConnId, _peer: Peer, _out: &mut Out) -> Flow {
        self.pages.push(format!("{} {conn:?} opened", self.clock.now_ns()));
        Flow::Read
    }
    fn data(&mut self, conn: ConnId, bytes: &[u8], out: &mut Out) -> Flow {
        self.pages.push(format!("{} {conn:?} {bytes:?}", self.clock.now_ns()));
        out.extend(bytes);
        Flow::Sink
    }
    fn sink(&mut self, _conn: ConnId) -> &mut [u8] {
        &mut self.sink
    }
    fn sunk(&mut self, conn: ConnId, bytes: usize, _out: &mut Out) -> Flow {
        self.pages.push(format!("{} {conn:?} sunk {bytes}", self.clock.now_ns()));
        Flow::Read
    }
    fn sent(&mut self, conn: ConnId, queued: usize, _out: &mut Out) {
        self.pages.push(format!("{} {conn:?} sent, {queued} left", self.clock.now_ns()));
    }
    fn closed(&mut self, conn: ConnId, why: Why) {
        self.pages.push(format!("{} {conn:?} {why:?}", self.clock.now_ns()));
    }
    fn signal(&mut self, _signo: i32) {}
}

fn diary(sim: &Sim) -> Diary {
    Diary { clock: sim.clock(), pages: Vec::new(), sink: vec![0; 100] }
}

fn run(sim: &mut Sim, handler: &mut Diary) {
    for _ in 0..10_000 {
        if sim.is_idle() {
            return;
        }
        sim.poll(handler, None).unwrap();
        sim.flush(handler);
    }
    panic!("it never comes to rest");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let pages = |seed: u64, fault_seed: u64| {
        let faults = Faults { reset_permille: 20, ..Faults::from_seed(fault_seed) };
        let mut sim = Sim::new(SimConfig { seed, faults, net: NetConfig::default() });
        let mut handler = diary(&sim);
        for i in 0..8u8 {
            let client = sim.connect();
            (0..10).for_each(|_| sim.send(client, &[i; 97]));
            sim.close_write(client);
        }
        run(&mut sim, &mut handler);
        handler.pages
    };
    for seed in 0..20 {
        assert_eq!(pages(seed, seed), pages(seed, seed));
    }
    let all_faults =
        (0..64).find(|seed| Faults::from_seed(*seed).short_reads && Faults::from_seed(*seed).delay_ms_max > 0).unwrap();
    assert_ne!(pages(1, all_faults), pages(2, all_faults), "the seed decides");
}

#[test]
fn the_ring_wraps_in_one_turn() {
    let mut sim =
        Sim::new(SimConfig { faults: Faults { ring_bytes: 10, ..Faults::default() }, ..SimConfig::default() });
    let mut handler = diary(&sim);
    let client = sim.connect();
    sim.poll(&mut handler, None).unwrap();
    sim.send(client, b"12345678");
    sim.poll(&mut handler, None).unwrap();
    handler.pages.clear();
    // Two bytes are left to the end of the ring. (The first answer was `Sink`, and after it `Read`.)
    sim.send(client, b"abcd");
    sim.poll(&mut handler, None).unwrap();
    let pieces: Vec<&str> = handler.pages.iter().map(|page| page.split_once("} ").unwrap().1).collect();
    assert_eq!(pieces, ["sunk 2", "[99, 100]"]);
}

#[test]
fn time_is_virtual() {
    let mut sim = Sim::new(SimConfig::default());
    let mut handler = diary(&sim);
    let clock = sim.clock();
    sim.poll(&mut handler, Some(Duration::from_secs(3600))).unwrap();
    assert_eq!(clock.now_ns(), 3_600_000_000_000);
    sim.poll(&mut handler, Some(Duration::ZERO)).unwrap();
    sim.poll(&mut handler, None).unwrap();
    assert_eq!(clock.now_ns(), 3_600_000_000_000, "nothing to wait for");
    sim.advance(Duration::from_millis(1));
    assert_eq!(clock.now_ns(), 3_600_001_000_000);
}

#[test]
fn failed_accepts_are_tried_again_later() {
    let mut sim = Sim::new(SimConfig::default());
    let mut handler = diary(&sim);
    sim.fail_accepts(2);
    let client = sim.connect();
    sim.send(client, b"hello");
    for _ in 0..20 {
        sim.poll(&mut handler, Some(Duration::from_millis(30))).unwrap();
        sim.flush(&mut handler);
    }
    assert_eq!(handler.pages.first().unwrap().split_once(' ').unwrap().0, "200000000");
    assert_eq!(sim.received(client), b"hello");
    assert_eq!(sim.state(client), ClientState::Open);
}

#[test]
fn bell_and_signals_are_delivered() {
    let mut rig = Rig::new(world(1, Faults::default()));
    rig.world.sim.doorbell().ring();
    rig.world.sim.raise(15);
    rig.turn();
    rig.turn();
    assert_eq!((rig.tester.mails, &rig.tester.signals[..]), (1, &[15][..]));
}

#[test]
fn a_client_that_closes_is_seen_as_such() {
    let mut sim = Sim::new(SimConfig::default());
    let mut handler = diary(&sim);
    let client = sim.connect();
    sim.poll(&mut handler, None).unwrap();
    sim.disconnect(client);
    run(&mut sim, &mut handler);
    assert!(handler.pages.last().unwrap().ends_with("Peer"));
    assert_eq!(sim.state(client), ClientState::Closed);
}

#[test]
#[should_panic(expected = "empty sink")]
fn an_empty_sink_breaks_the_contract() {
    let mut sim = Sim::new(SimConfig::default());
    let mut handler = diary(&sim);
    handler.sink.clear();
    let client = sim.connect();
    sim.send(client, b"a");
    run(&mut sim, &mut handler);
    sim.send(client, b"b");
    run(&mut sim, &mut handler);
}

#[test]
fn finish_is_polite_and_abort_with_unread_input_is_not() {
    let mut rig = Rig::new(world(1, Faults::default()));
    let (client, conn) = rig.client();
    let mut stream = Vec::new();
    frame(FINISH, 0, &mut stream);
    rig.world.send(client, &stream);
    assert_eq!(rig.closes(conn), Why::Handler);
    assert_eq!((rig.ends(client), rig.world.received(client)), (End::Eof, &b"bye"[..]));

    let (client, conn) = rig.client();
    rig.tester.hold = true;
    let mut stream = Vec::new();
    frame(conformance::PAUSE, 0, &mut stream);
    rig.world.send(client, &stream);
    rig.until("the pause", |rig| rig.tester.is_paused(conn));
    rig.world.send(client, &stream);
    rig.turn();
    rig.world.net().close(conn, Flow::Abort);
    assert_eq!(rig.closes(conn), Why::Handler);
    assert_eq!(rig.ends(client), End::Reset);
}
